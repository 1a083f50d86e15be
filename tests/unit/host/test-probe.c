/*
 * What a host is: from files below a root, and from the kernel that runs where the root has none.
 */
#include "groups.h"
#include "host-test.h"

#include <sys/statvfs.h>

static void probe(struct nc_facts *f) {
    struct nc_err err = NC_ERR_INIT;

    put("/etc/nodeclaimd/kubelet-version", "v1.34.4\n");
    if (nc_probe_host(root, "/usr/bin/kubelet", f, &err) < 0)
        fail_msg("%s", err.msg);
}

static void test_an_image(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct statvfs st;

    (void)state;
    put("/sys/devices/system/cpu/online", "0-3,8,10-11\n");
    put("/proc/meminfo", "MemFree: 1 kB\nMemTotal:        7860232 kB\n");
    put("/proc/sys/kernel/hostname", "ip-10-0-0-1\n");
    put("/proc/sys/vm/overcommit_memory", "1\n");
    put("/proc/sys/kernel/keys/root_maxkeys", "1000000\n");
    put("/etc/systemd/logind.conf", "[Login]\nInhibitDelayMaxSec=7\n");
    put_bytes("/etc/eks/image-credential-provider/ecr-credential-provider", "x", 1, 0755);
    put("/sys/bus/pci/devices/0000:00:1e.0/vendor", "0x10de\n");
    put("/etc/eks/containerd-version.txt",
        "containerd github.com/containerd/containerd/v2 2.1.4 75c");
    put("/etc/eks/pause.tar", "");
    put("/usr/bin/nvidia-container-runtime", "");
    put("/usr/lib/systemd/system/soci-snapshotter.service", "");
    probe(&f);
    probe(&f); /* again over the first: nothing twice */
    assert_int_equal(f.cpus, 7);
    assert_int_equal(f.last_cpu, 11);
    assert_int_equal(f.mem_total_bytes, (int64_t)7860232 * 1024);
    assert_string_equal(f.hostname, "ip-10-0-0-1");
    assert_string_equal(f.kubelet_version, "v1.34.4");
    assert_int_equal(strlen(f.boot_id), 36);
    assert_int_equal(f.logind_inhibit_delay_usec, 7000000);
    assert_true(f.has_ecr_credential_provider);
    assert_string_equal(f.ecr_credential_provider_dir, "/etc/eks/image-credential-provider");
    assert_true(f.has_nvidia);
    assert_string_equal(f.containerd_version, "2.1.4");
    assert_true(f.has_nvidia_runtime && f.has_pause_archive && f.has_soci_snapshotter);
    assert_string_equal(f.sysctls[0].name, "vm.overcommit_memory");
    assert_string_equal(f.sysctls[0].value, "1");
    assert_in_range(f.n_sysctls, 2, 6);
    assert_string_equal(f.sysctls[f.n_sysctls - 2].name, "kernel.keys.root_maxkeys");
    assert_int_equal(statvfs(root, &st), 0);
    assert_int_equal(f.root_fs_bytes, (int64_t)(st.f_blocks * st.f_frsize));
}

/* Where the AMI has it; elsewhere; the AMI's folder without it. */
static void test_credential_provider(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;

    (void)state;
    put("/etc/eks/image-credential-provider/config.json", "{}");
    probe(&f);
    assert_true(f.is_ecr_folder_empty && !f.has_ecr_credential_provider);
    put_bytes("/usr/libexec/kubernetes/image-credential-provider/ecr-credential-provider", "", 0,
              0755);
    probe(&f);
    assert_true(!f.is_ecr_folder_empty && f.has_ecr_credential_provider);
}

/* As sysfs has it: a short text in a file that is a page long. */
static void put_attribute(const char *path, const char *text) {
    char page[4096 + 1];

    memset(page, '\n', sizeof(page) - 1);
    page[sizeof(page) - 1] = '\0';
    memcpy(page, text, strlen(text));
    put(path, page);
}

/* A disk that has several names counts once; a partition, another volume, and one whose size cannot
 * be read do not count. */
static void test_local_disks(void **state) {
    static const char *const links[][2] = {
        {"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS1", "../../nvme1n1"},
        {"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS1-ns-1", "../../nvme1n1"},
        {"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS2", "../../nvme2n1"},
        {"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS2-part1", "../../nvme2n1p1"},
        {"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS3", "../../nvme3n1"},
        {"nvme-Amazon_EC2_NVMe_Instance_Storage_AWS4", "../../.."},
        {"nvme-Amazon_Elastic_Block_Store_vol1", "../../nvme0n1"}};
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;

    (void)state;
    put("/dev/disk/by-id/nvme-Amazon_EC2_NVMe_Instance_Storage_file", "");
    for (size_t i = 0; i < NC_ARRAY_SIZE(links); i++) {
        nc_auto_free char *name = nc_asprintf("/dev/disk/by-id/%s", links[i][0]);
        nc_auto_free char *path = nc_path_below(root, name);
        assert_int_equal(symlink(links[i][1], path), 0);
    }
    put_attribute("/sys/block/nvme0n1/size", "1000");
    put_attribute("/sys/block/nvme1n1/size", "146484375");
    put_attribute("/sys/block/nvme2n1/size", "146484375");
    put_attribute("/sys/block/nvme3n1/size", "-5");
    probe(&f);
    probe(&f);
    assert_int_equal(f.local_disks, 2);
    assert_int_equal(f.local_disk_bytes, 150000000000);
}

static void test_environment_services(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;

    (void)state;
    put(NC_ENVIRONMENT_RECORD, "default\nkubelet\n../../x\n\n.\nkubelet\n");
    probe(&f);
    assert_int_equal(f.environment_services.n, 2);
    assert_string_equal(f.environment_services.v[1], "kubelet");
    /* What a bootstrap wrote is read by the next, or there would be none any more. */
    nc_cleanup(nc_buf_done) struct nc_buf many = NC_BUF_INIT;
    for (unsigned i = 0; i < 1000; i++)
        (void)nc_buf_printf(&many, "%0200u\n", i);
    put(NC_ENVIRONMENT_RECORD, many.data);
    probe(&f);
    assert_int_equal(f.environment_services.n, 1000);
    nc_auto_free char *path = nc_path_below(root, NC_ENVIRONMENT_RECORD);
    assert_int_equal(remove(path), 0);
    assert_int_equal(mkdir(path, 0755), 0);
    struct nc_err err = NC_ERR_INIT;
    assert_true(nc_probe_host(root, "/usr/bin/kubelet", &f, &err) < 0);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.msg, NC_ENVIRONMENT_RECORD));
}

static void test_this_machine(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;

    (void)state;
    probe(&f);
    assert_int_equal(f.cpus, sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(f.mem_total_bytes > (int64_t)64 << 20);
    assert_false(f.has_ecr_credential_provider);
    assert_false(f.has_nvidia);
    assert_null(f.containerd_version);
    assert_false(f.has_nvidia_runtime || f.has_pause_archive || f.has_soci_snapshotter);
}

static void test_odd_files(void **state) {
    static const char *const lists[] = {
        "",      "\n",   "x",    "0-",        "3-1",
        "-1",    "0-3,", "0;1",  "0-9999999", "99999999999999999999",
        "0-3 4", "0--1", "1-2-3"};

    (void)state;
    put("/proc/meminfo", "");
    put("/proc/sys/kernel/hostname", "");
    put("/sys/bus/pci/devices/a/vendor", "");
    put("/sys/bus/pci/devices/b/other", "");
    for (size_t i = 0; i < NC_ARRAY_SIZE(lists); i++) {
        nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
        put("/sys/devices/system/cpu/online", lists[i]);
        probe(&f);
        if (nc_streq(lists[i], "0-3,"))
            assert_true(f.cpus == 4 && f.last_cpu == 3);
        else
            assert_int_equal(f.cpus, sysconf(_SC_NPROCESSORS_ONLN));
        assert_int_equal(f.mem_total_bytes, 0);
        assert_false(f.has_nvidia);
    }
}

static void test_memory(void **state) {
    static const char *const texts[] = {"MemTotal: x kB\n", "MemTotal: -5 kB\n", "Mem: 5 kB\n",
                                        "MemTotal: 9223372036854775807 kB\n"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(texts); i++) {
        nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
        put("/proc/meminfo", texts[i]);
        probe(&f);
        assert_int_equal(f.mem_total_bytes, 0);
    }
}

static void test_version_is_unknown(void **state) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_probe_host(root, "/none/kubelet", &f, &err), -ENOENT);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_true(f.cpus > 0);
    f.kubelet_version = nc_strdup("v1.30.0"); /* it was given: nothing is looked for */
    assert_int_equal(nc_probe_host(root, "/none/kubelet", &f, &err), 0);
    assert_string_equal(f.kubelet_version, "v1.30.0");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_an_image),
        host_test(test_local_disks),
        host_test(test_environment_services),
        host_test(test_credential_provider),
        host_test(test_this_machine),
        host_test(test_odd_files),
        host_test(test_memory),
        host_test(test_version_is_unknown),
    };

    return run_group(tests, NULL, NULL);
}
