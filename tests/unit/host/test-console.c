/*
 * The console: a line appended below another root, a failure that is only told.
 */
#include "groups.h"
#include "host-test.h"

static void test_lines_are_appended(void **state) {
    (void)state;
    assert_int_equal(nc_console_write(root, "nodeclaimd: {}", NULL), 0);
    assert_int_equal(nc_console_write(root, "nodeclaimd: {\"a\":1}", NULL), 0);
    assert_file("/dev/console", "nodeclaimd: {}\nnodeclaimd: {\"a\":1}\n");
}

static void assert_refused(int code) {
    struct nc_err err = NC_ERR_INIT;

    assert_int_equal(nc_console_write(root, "x", &err), -code);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.msg, root));
}

static void test_nobody_listens(void **state) {
    nc_auto_free char *path = nc_path_below(root, "/dev/console");

    (void)state;
    put("/dev/other", "");
    assert_int_equal(mkfifo(path, 0644), 0);
    assert_refused(ENXIO);
}

/* A reader that does not read must not hold us up. */
static void test_nobody_reads(void **state) {
    nc_auto_free char *path = nc_path_below(root, "/dev/console");
    nc_auto_free char *line = nc_calloc(100001, 1);

    (void)state;
    put("/dev/other", "");
    assert_int_equal(mkfifo(path, 0644), 0);
    const int reader = open(path, O_RDONLY | O_NONBLOCK);
    assert_true(reader >= 0);
    memset(line, 'x', 100000);
    assert_int_equal(nc_console_write(root, line, NULL), -EAGAIN);
    (void)close(reader);
}

static void test_folder_in_place(void **state) {
    (void)state;
    put("/dev/console/x", "");
    assert_refused(EISDIR);
}

static void test_no_folder_can_be_made(void **state) {
    (void)state;
    put("/dev", "a file");
    assert_refused(ENOTDIR);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_lines_are_appended),    host_test(test_nobody_listens),
        host_test(test_nobody_reads),          host_test(test_folder_in_place),
        host_test(test_no_folder_can_be_made),
    };

    return run_group(tests, NULL, NULL);
}
