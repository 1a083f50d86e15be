/*
 * What has changed between two looks, by path: new, another, gone; a file of ours by its content.
 */
#include "groups.h"
#include "host-test.h"

#include "bootstrap.h"

#define FOLDER "/etc/eks/nodeadm.d/"

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Where no systemd has booted, cloud-init's stages have ended. A folder has an order of its own. */
static void assert_changes(struct nc_bootstrap *b, const char *expected) {
    nc_cleanup(nc_buf_done) struct nc_buf names = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    b->cloud_init = (struct nc_cloud_init){.waits = true};
    b->report.cloud_init_waits = true;
    assert_true(nc_scripts_are_awaited(b));
    assert_int_equal(nc_step_scripts(b, &err), 0);
    assert_false(nc_scripts_are_awaited(b));
    if (b->report.changed.n > 0)
        qsort(b->report.changed.v, b->report.changed.n, sizeof(*b->report.changed.v), by_text);
    for (size_t i = 0; i < b->report.changed.n; i++)
        (void)nc_buf_printf(&names, "%s ", b->report.changed.v[i]);
    assert_string_equal(names.data ? names.data : "", expected);
    nc_strv_done(&b->report.changed);
    b->report.changed = (struct nc_strv)NC_STRV_INIT;
}

static void done(struct nc_bootstrap *b) {
    nc_fileset_done(&b->written);
    nc_strv_done(&b->seen);
    nc_report_done(&b->report);
}

static void test_changes(void **state) {
    struct nc_app app = {.opts = {.root = root}};
    nc_cleanup(done) struct nc_bootstrap b = {.app = &app};
    nc_auto_free char *gone = nc_path_below(root, FOLDER "b.yaml");

    (void)state;
    put(FOLDER "a.yaml", "a");
    put(FOLDER "b.yaml", "b");
    put("/etc/containerd/certs.d/x/hosts.toml", "x");
    nc_scripts_note(&b);
    assert_changes(&b, "");
    put(FOLDER "c.yaml", "c");
    put(FOLDER "a.yaml", "A"); /* of the same size */
    assert_int_equal(unlink(gone), 0);
    put("/etc/containerd/certs.d/y/hosts.toml", "y");
    put("/etc/somebody/else", "");
    assert_changes(&b, FOLDER "a.yaml " FOLDER "b.yaml " FOLDER "c.yaml ");
    assert_false(nc_is_due(&b, NC_DUE_CONTAINERD) || nc_is_due(&b, NC_DUE_RELOAD));
}

/* containerd is concerned by its unit, its folder, its program; systemd by any unit. */
static void test_containerd(void **state) {
    static const struct {
        const char *path;
        bool reload, containerd;
    } rows[] = {
        {"/etc/systemd/system/containerd.service.d/proxy.conf", true, true},
        {"/etc/systemd/system/kubelet.service.d/20-x.conf", true, false},
        {"/etc/containerd/conf.d/x.toml", false, true},
        {"/usr/bin/containerd", false, true},
        {"/etc/eks/nodeadm.d/x.yaml", false, false},
        {"/etc/kubernetes/kubelet/config.json.d/99-x.conf", false, false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_app app = {.opts = {.root = root}};
        nc_cleanup(done) struct nc_bootstrap b = {.app = &app};
        nc_auto_free char *expected = nc_asprintf("%s ", rows[i].path);
        nc_scripts_note(&b);
        put(rows[i].path, "x");
        assert_changes(&b, expected);
        assert_int_equal(nc_is_due(&b, NC_DUE_RELOAD), rows[i].reload);
        assert_int_equal(nc_is_due(&b, NC_DUE_CONTAINERD), rows[i].containerd);
        nc_due_done(&b, NC_DUE_RELOAD);
        nc_due_done(&b, NC_DUE_CONTAINERD);
    }
}

/* What cannot be read is never taken for what it was. */
static void test_unreadable(void **state) {
    struct nc_app app = {.opts = {.root = root}};
    nc_cleanup(done) struct nc_bootstrap b = {.app = &app};

    (void)state;
    link_to("nodeadm.d", "/etc/eks/nodeadm.d"); /* a loop: not even root gets in */
    nc_scripts_note(&b);
    assert_changes(&b, "/etc/eks/nodeadm.d ");
}

/* Nor what is behind the end of a long list. */
static void test_more_than_are_seen(void **state) {
    struct nc_app app = {.opts = {.root = root}};
    nc_cleanup(done) struct nc_bootstrap b = {.app = &app};

    (void)state;
    for (unsigned i = 0; i < 4200; i++) {
        nc_auto_free char *path = nc_asprintf(FOLDER "%u.txt", i);
        put(path, "");
    }
    nc_scripts_note(&b);
    assert_changes(&b, "/etc/eks/nodeadm.d ");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_changes),
        host_test(test_containerd),
        host_test(test_unreadable),
        host_test(test_more_than_are_seen),
    };

    return run_group(tests, NULL, NULL);
}
