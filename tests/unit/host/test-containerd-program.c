/*
 * What containerd does for us: converting a configuration, importing the pause image. A script
 * stands in for it.
 */
#include "groups.h"
#include "host-test.h"

#include <sys/stat.h>

#include "nc/containerd.h"

#define WHILE_USEC ((uint64_t)30 * 1000000)

#define OLD "version = 2\n"

static void put_program(const char *path, const char *script) {
    nc_auto_free char *text = nc_asprintf("#!/bin/sh\n%s", script);

    put_bytes(path, text, strlen(text), 0755);
}

/* The fileset of one file, as the plan leaves it. */
struct files {
    struct nc_file file;
    struct nc_fileset set;
};

static void make_files(struct files *f) {
    f->file = (struct nc_file){.path = nc_strdup(NC_CONTAINERD_CONFIG),
                               .mode = 0644,
                               .data = nc_strdup(OLD),
                               .n = strlen(OLD)};
    f->set = (struct nc_fileset){.files = &f->file, .n = 1};
}

static void free_files(struct files *f) {
    free(f->file.path);
    free(f->file.data);
}

static bool is_input_left(void) {
    nc_auto_free char *path = nc_path_below(root, "/run/nodeclaimd/.containerd-config.toml");

    return access(path, F_OK) == 0;
}

static void test_migrate(void **state) {
    struct nc_err err = NC_ERR_INIT;
    struct files f;

    (void)state;
    make_files(&f);
    put_program("/usr/local/bin/containerd",
                "[ \"$1 $3 $4 $#\" = \"--config config migrate 4\" ] || exit 9\n"
                "echo deprecated >&2; echo '# of:'; cat \"$2\"\n");
    if (nc_containerd_migrate(root, &f.set, WHILE_USEC, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(f.file.data, "# of:\n" OLD);
    assert_int_equal(f.file.n, strlen(f.file.data));
    assert_false(is_input_left());
    free_files(&f);
}

static void test_migrate_fails(void **state) {
    static const struct {
        const char *script, *message;
    } rows[] = {
        {"echo 'invalid plugin' >&2; exit 1\n", "containerd config migrate: %s/usr/bin/containerd "
                                                "ended with exit code 1: 'invalid plugin"},
        {":\n", "containerd config migrate: %s/usr/bin/containerd printed nothing"},
        {"head -c 2000000 /dev/zero\n",
         "containerd config migrate: %s/usr/bin/containerd: unusable output: "},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_err err = NC_ERR_INIT;
        nc_cleanup(nc_buf_done) struct nc_buf expected = NC_BUF_INIT;
        const char *hole = strstr(rows[i].message, "%s");
        struct files f;

        make_files(&f);
        put_program("/usr/bin/containerd", rows[i].script);
        assert_true(nc_containerd_migrate(root, &f.set, WHILE_USEC, &err) < 0);
        assert_int_equal(err.class, NC_ERR_HOST);
        (void)nc_buf_add(&expected, rows[i].message, (size_t)(hole - rows[i].message));
        (void)nc_buf_printf(&expected, "%s%s", root, hole + 2);
        if (!nc_starts_with(err.msg, expected.data))
            fail_msg("%s", err.msg);
        assert_non_null(strstr(err.remedy, "for version 3"));
        assert_string_equal(f.file.data, OLD);
        assert_false(is_input_left());
        free_files(&f);
    }
}

static void test_nothing_to_migrate_with(void **state) {
    struct nc_err err = NC_ERR_INIT;
    struct files f;

    (void)state;
    make_files(&f);
    assert_int_equal(nc_containerd_migrate(root, &f.set, WHILE_USEC, &err), -ENOENT);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_string_equal(f.file.data, OLD);
    put_bytes("/usr/bin/containerd", "", 0, 0644);
    assert_int_equal(nc_containerd_migrate(root, &f.set, WHILE_USEC, &err), -EACCES);
    assert_false(is_input_left());
    free_files(&f);
}

static void test_import(void **state) {
    nc_auto_free char *expected =
        nc_asprintf("--namespace k8s.io images import --snapshotter soci "
                    "--discard-unpacked-layers=false --local %s/etc/eks/pause.tar\n",
                    root);
    nc_auto_free char *script = nc_asprintf("echo \"$@\" >%s/called\n", root);
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    put_program("/usr/bin/containerd", "");
    put_program("/usr/bin/ctr", script);
    if (nc_containerd_import_pause(root, WHILE_USEC, &err) < 0)
        fail_msg("%s", err.msg);
    assert_file("/called", expected);
    put_program("/usr/bin/ctr", "echo 'snapshotter not loaded: soci' >&2; exit 1");
    assert_true(nc_containerd_import_pause(root, WHILE_USEC, &err) < 0);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.msg, "'snapshotter not loaded: soci"));
    assert_non_null(strstr(err.remedy, "journalctl -u soci-snapshotter.service"));
    err = (struct nc_err)NC_ERR_INIT;
    put_program("/usr/bin/ctr", "exec sleep 60");
    assert_true(nc_containerd_import_pause(root, 50000, &err) < 0); /* the caller's deadline */
    assert_int_equal(err.class, NC_ERR_HOST);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_migrate),
        host_test(test_migrate_fails),
        host_test(test_nothing_to_migrate_with),
        host_test(test_import),
    };

    return run_group(tests, NULL, NULL);
}
