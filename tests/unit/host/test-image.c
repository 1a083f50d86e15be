/*
 * What an image lacks: a good one, and each fault by itself with what is said of it.
 */
#include "groups.h"
#include "host-test.h"

#include "nc/image.h"

#define ETC "/etc/systemd/system"
#define USR "/usr/lib/systemd/system"

static void enable(const char *unit) {
    nc_auto_free char *folder = nc_path_below(root, ETC "/multi-user.target.wants");
    nc_auto_free char *path = nc_asprintf("%s/%s", folder, unit);

    assert_int_equal(nc_mkdir_p(folder, NULL), 0);
    assert_int_equal(symlink("/somewhere", path), 0);
}

static void drop(const char *path) {
    nc_auto_free char *below = nc_path_below(root, path);

    assert_int_equal(unlink(below), 0);
}

static int make_image(void **state) {
    static const char *const programs[] = {
        "/sbin/init",
        "/sbin/iptables",
        "/usr/bin/kubelet",
        "/usr/bin/containerd",
        "/usr/sbin/runc",
        "/usr/sbin/nodeclaimd",
        "/usr/bin/setup-local-disks",
        "/etc/eks/image-credential-provider/ecr-credential-provider"};

    if (make_root(state) < 0)
        return -1;
    for (size_t i = 0; i < NC_ARRAY_SIZE(programs); i++)
        put_bytes(programs[i], "#!", 2, 0755);
    put(ETC "/kubelet.service",
        "[Service]\nEnvironmentFile=/etc/eks/kubelet/environment\n"
        "ExecStartPre=/sbin/iptables -P FORWARD ACCEPT -w 5\nExecStart=/usr/bin/kubelet\n");
    put(USR "/dbus.socket", "[Socket]\n");
    put(USR "/kubelet.service.d/10-nodeclaimd.conf",
        "[Service]\nEnvironmentFile=\nEnvironmentFile=/etc/nodeclaimd/kubelet.env\nExecStart=\n"
        "ExecStart=/usr/bin/kubelet $NODECLAIMD_KUBELET_ARGS\n");
    put(USR "/containerd.service", "[Service]\nExecStart=/usr/bin/containerd\n");
    put(USR "/nodeclaimd.service", "[Service]\nExecStart=/usr/sbin/nodeclaimd run\n");
    put(USR "/nodeclaimd-bootstrap.service",
        "[Service]\nExecStart=-/usr/sbin/nodeclaimd bootstrap");
    put(ETC "/nodeadm-config.service", "[Service]\n");
    put(ETC "/udev-net-manager@.service", "[Service]\n");
    enable("nodeclaimd.service");
    enable("nodeclaimd-bootstrap.service");
    put("/etc/eks/kubelet-version.txt", "");
    put("/etc/eks/containerd-version.txt", "");
    put("/etc/sysctl.d/99-amazon.conf",
        "vm.overcommit_memory=1\n-kernel/panic = 10\nkernel.panic_on_oops=1\n");
    put("/etc/fstab", "# UUID=1 none swap sw\nUUID=2 / ext4 defaults 0 1\n");
    return 0;
}

#define image_test(f) cmocka_unit_test_setup_teardown(f, make_image, remove_root)

struct seen {
    const char *check, *text; /* NULL: of none is expected */
    bool is_warning;
    enum nc_err_class class;
    unsigned n;
};

static void note(void *userdata, const struct nc_image_finding *f) {
    struct seen *s = userdata;

    assert_true(*f->problem->msg != '\0');
    if (f->problem->class == NC_ERR_NONE)
        return;
    assert_true(*f->problem->remedy != '\0');
    s->n++;
    if (!s->check || !nc_streq(f->check, s->check) || !strstr(f->problem->msg, s->text)
        || f->is_warning != s->is_warning || f->problem->class != s->class)
        fail_msg("%s: %s", f->check, f->problem->msg);
}

/* One problem, and no other. */
static void assert_finding(const char *check, const char *text, bool is_warning) {
    struct seen s = {
        .check = check, .text = text, .is_warning = is_warning, .class = NC_ERR_CONFIG};

    assert_int_equal(nc_image_check(root, note, &s, NULL), 0);
    assert_int_equal(s.n, 1);
}

static void assert_failed(const char *check, const char *text) {
    assert_finding(check, text, false);
}

static void assert_warning(const char *check, const char *text) {
    assert_finding(check, text, true);
}

static void assert_good(void) {
    struct seen s = {0};

    assert_int_equal(nc_image_check(root, note, &s, NULL), 0);
    assert_int_equal(s.n, 0);
}

static void test_good(void **state) {
    (void)state;
    assert_good();
}

static void test_kubelet(void **state) {
    (void)state;
    put(ETC "/kubelet.service.d/05-x.conf", "[Service]\nEnvironmentFile=/missing\n");
    assert_good(); /* ours comes later and resets it */
    put(ETC "/kubelet.service.d/20-x.conf", "[Service]\nEnvironmentFile=/missing\n");
    assert_failed("kubelet", "20-x.conf names EnvironmentFile=/missing, which is missing");
    put("/missing", "");
    assert_good();
    put(ETC "/kubelet.service.d/20-x.conf", "[Service]\nEnvironmentFile=-/absent\n");
    assert_good();
    put(ETC "/kubelet.service.d/20-x.conf", "[Service]\nEnvironmentFile=/etc/%H\n");
    assert_warning("kubelet", "cannot be checked");
    put(ETC "/kubelet.service.d/20-x.conf", "[Service]\nEnvironmentFile=/run/x\n");
    assert_warning("kubelet", "is not part of the image");
    put(ETC "/kubelet.service.d/20-x.conf", "[Service]\nExecStart=\nExecStart=/usr/bin/kubelet\n");
    assert_failed("kubelet", "without $NODECLAIMD_KUBELET_ARGS");
    put(ETC "/kubelet.service.d/20-x.conf", "[Service]\nEnvironmentFile=\n");
    assert_failed("kubelet", "does not read EnvironmentFile=/etc/nodeclaimd/kubelet.env");
    put(ETC "/kubelet.service.d/20-x.conf", "[Service]\nExecStartPre=-/missing\n");
    assert_good();
    put(ETC "/kubelet.service.d/20-x.conf", "[Service]\nExecStartPre=+/missing -x\n");
    assert_failed("kubelet", "20-x.conf starts /missing before kubelet, and there is no such");
    drop(ETC "/kubelet.service.d/20-x.conf");
    enable("kubelet.service");
    assert_warning("kubelet", "kubelet.service is enabled");
}

static void test_no_kubelet(void **state) {
    (void)state;
    drop("/usr/bin/kubelet");
    assert_failed("kubelet", "starts /usr/bin/kubelet, and there is no such program");
    put("/usr/bin/kubelet", ""); /* not executable */
    assert_failed("kubelet", "no such program");
    drop(ETC "/kubelet.service");
    assert_failed("kubelet", "there is no kubelet.service");
}

static void test_nodeadm(void **state) {
    (void)state;
    enable("nodeadm-config.service");
    assert_failed("nodeadm", "nodeadm-config.service is enabled");
}

static void test_units(void **state) {
    (void)state;
    drop(ETC "/multi-user.target.wants/nodeclaimd.service");
    assert_failed("units", "nodeclaimd.service is not enabled");
    enable("nodeclaimd.service");
    drop(USR "/nodeclaimd-bootstrap.service");
    assert_failed("units", "there is no nodeclaimd-bootstrap.service");
}

static void test_containerd(void **state) {
    (void)state;
    put(USR "/containerd.service",
        "[Service]\nExecStart=/usr/bin/containerd --config /etc/containerd/config.toml\n");
    assert_good();
    put(USR "/containerd.service",
        "[Service]\nExecStart=/usr/bin/containerd --config /etc/c.toml\n");
    assert_failed("containerd", "with another configuration");
    drop("/usr/bin/containerd");
    assert_failed("containerd", "no such program");
    put_bytes("/usr/bin/containerd", "#!", 2, 0755);
    put(USR "/containerd.service", "[Service]\nExecStart=/usr/bin/containerd\n");
}

static void test_system(void **state) {
    (void)state;
    drop("/sbin/init");
    assert_failed("systemd", "there is no /sbin/init");
    put_bytes("/sbin/init", "#!", 2, 0755);
    drop(USR "/dbus.socket");
    assert_failed("systemd", "there is no dbus.socket");
    put(USR "/dbus.socket", "[Socket]\n");
    drop("/usr/sbin/runc");
    assert_failed("containerd", "there is no program /usr/sbin/runc");
    put_bytes("/usr/sbin/runc", "#!", 2, 0755);
    drop("/usr/bin/setup-local-disks");
    assert_warning("disks", "there is no /usr/bin/setup-local-disks");
}

static void test_ecr(void **state) {
    nc_auto_free char *folder = nc_path_below(root, "/etc/eks/image-credential-provider");

    (void)state;
    drop("/etc/eks/image-credential-provider/ecr-credential-provider");
    assert_failed("ecr", "there is no ecr-credential-provider in /etc/eks/");
    assert_int_equal(rmdir(folder), 0);
    assert_warning("ecr", "there is no ecr-credential-provider: no image is pulled from private "
                          "repositories of ECR: with EKS's aws-node the Node stays NotReady");
}

static void test_sysctls(void **state) {
    (void)state;
    put("/usr/lib/sysctl.d/50-x.conf", "kernel.panic = 0\n"); /* read earlier */
    assert_good();
    put("/etc/sysctl.d/zz.conf", "kernel.panic = 0\n");
    assert_failed("sysctl", "zz.conf sets kernel.panic to 0, kubelet demands 10");
    put("/etc/sysctl.d/zz.conf", "vm.panic_on_oom = 1\n");
    assert_failed("sysctl", "sets vm.panic_on_oom to 1");
    drop("/etc/sysctl.d/zz.conf");
    put("/etc/sysctl.d/99-amazon.conf", "vm.overcommit_memory=1\nkernel.panic = 10\n");
    assert_failed("sysctl", "no file of sysctl.d sets kernel.panic_on_oops to 1");
}

static void test_warnings(void **state) {
    (void)state;
    drop("/etc/eks/kubelet-version.txt");
    assert_warning("version", "kubelet-version.txt");
    put("/etc/nodeclaimd/kubelet-version", "");
    assert_good();
    put("/etc/fstab", "/swap \t none swap sw 0 0\n");
    assert_warning("swap", "/etc/fstab makes swap");
    drop("/etc/fstab");
    put(ETC "/dev-sdb.swap", "");
    assert_warning("swap", "dev-sdb.swap");
    drop(ETC "/dev-sdb.swap");
    put("/usr/lib/systemd/zram-generator.conf", "");
    assert_warning("swap", "zram-generator.conf makes swap");
    drop("/usr/lib/systemd/zram-generator.conf");
    drop(ETC "/udev-net-manager@.service");
    assert_warning("network", "nothing leaves interfaces");
    put("/etc/udev/rules.d/70-nodeclaimd.rules", "");
    assert_good();
}

/* What could not be read is not absent: one failure of class host, and nothing that would follow
 * from its absence. */
static void test_unreadable(void **state) {
    struct seen s = {.check = "kubelet", .text = "kubelet.service", .class = NC_ERR_HOST};
    nc_auto_free char *folder = nc_path_below(root, ETC "/kubelet.service");

    (void)state;
    drop(ETC "/kubelet.service");
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(nc_image_check(root, note, &s, NULL), 0);
    assert_int_equal(s.n, 1);
}

static void test_no_root(void **state) {
    nc_auto_free char *none = nc_path_below(root, "/none");
    struct nc_err err = NC_ERR_INIT;
    struct seen s = {0};

    (void)state;
    assert_int_equal(nc_image_check(none, note, &s, &err), -ENOENT);
    assert_int_equal(err.class, NC_ERR_HOST);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        image_test(test_good),    image_test(test_kubelet),    image_test(test_no_kubelet),
        image_test(test_nodeadm), image_test(test_units),      image_test(test_containerd),
        image_test(test_ecr),     image_test(test_sysctls),    image_test(test_warnings),
        image_test(test_no_root), image_test(test_unreadable), image_test(test_system),
    };

    return run_group(tests, NULL, NULL);
}
