/*
 * The last lines of a log file, and of a unit that has said nothing.
 */
#include "groups.h"
#include "host-test.h"

static void assert_tail(const char *text, unsigned n, const char *expected) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    nc_auto_free char *path = nc_path_below(root, "/log");
    nc_cleanup(nc_buf_done) struct nc_buf got = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    put("/log", text);
    if (nc_file_tail(path, n, &lines, &err) < 0) {
        assert_null(expected);
        assert_int_equal(err.code, -ENODATA);
        return;
    }
    for (size_t i = 0; i < lines.n; i++)
        (void)nc_buf_printf(&got, "<%s>", lines.v[i]);
    assert_string_equal(got.data, expected);
}

static void test_lines(void **state) {
    (void)state;
    assert_tail("a\nb\nc\n", 2, "<b><c>");
    assert_tail("a\nb\nc\n", 9, "<a><b><c>");
    assert_tail("a\n\n\nb", 2, "<a><b>");
    assert_tail("one", 1, "<one>");
    assert_tail("", 3, NULL);
    assert_tail("\n\n", 3, NULL);
    assert_tail("a\n", 0, NULL);
}

static void test_long_lines(void **state) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    nc_auto_free char *path = nc_path_below(root, "/log");
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    size_t total = 0;

    (void)state;
    for (int i = 0; i < 40; i++) {
        for (int k = 0; k < 600; k++)
            (void)nc_buf_putc(&text, (char)('a' + i % 26));
        (void)nc_buf_putc(&text, '\n');
    }
    put("/log", text.data);
    assert_int_equal(nc_file_tail(path, 100, &lines, NULL), 0);
    for (size_t i = 0; i < lines.n; i++)
        total += strlen(lines.v[i]);
    assert_in_range(total, 1, 2048);
    assert_int_equal(lines.v[lines.n - 1][0], 'a' + 39 % 26);
}

/* The window of a long file begins within a line: that half line is not shown. */
static void test_half_a_line(void **state) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    nc_auto_free char *path = nc_path_below(root, "/log");
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)state;
    for (int i = 0; i < 9000; i++)
        (void)nc_buf_putc(&text, 'x');
    (void)nc_buf_puts(&text, "\nlast\n");
    put("/log", text.data);
    assert_int_equal(nc_file_tail(path, 5, &lines, NULL), 0);
    assert_int_equal(lines.n, 1);
    assert_string_equal(lines.v[0], "last");
}

/* kubelet says why it ends, and what comes after it covers that up. */
static void test_the_cause_is_kept(void **state) {
    (void)state;
    assert_tail(
        "I1123 05:12:08.1 1 a.go:1] starting\n"
        "E1123 05:12:09.5 1 run.go:72] \"command failed\" err=\"no swap\"\n"
        "Main process exited\nFailed with result 'exit-code'.\nScheduled restart job\n",
        3,
        "<E1123 05:12:09.5 1 run.go:72] \"command failed\" err=\"no swap\"><Failed with result "
        "'exit-code'.><Scheduled restart job>");
    assert_tail("Error: unknown flag\none\ntwo\nthree\n", 2, "<Error: unknown flag><three>");
    assert_tail("panic: first\npanic: last\none\ntwo\n", 2, "<panic: last><two>"); /* the newest */
    assert_tail("E1123 old\none\nE1123 05:12:09.5 new\n", 2, "<one><E1123 05:12:09.5 new>");
    assert_tail("E11x3 none\nno error here\none\ntwo\n", 2, "<one><two>");
}

static void test_no_file(void **state) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    nc_auto_free char *path = nc_path_below(root, "/none");

    (void)state;
    assert_int_equal(nc_file_tail(path, 3, &lines, NULL), -ENOENT);
    assert_int_equal(nc_file_tail(root, 3, &lines, NULL), -ENODATA);
    assert_int_equal(lines.n, 0);
}

static void test_unit_that_said_nothing(void **state) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_true(nc_journal_tail("nodeclaimd-test-none.service", 3, &lines, &err) < 0);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.msg, "nodeclaimd-test-none.service"));
    assert_int_equal(lines.n, 0);
}

/* A process that has said no such thing, or a host without a journal. */
static void test_no_such_line(void **state) {
    static const char *const words[] = {"failed to load plugin", "no such plugin"};
    char nothing[] = "", *line = nothing;

    (void)state;
    assert_int_equal(nc_journal_find((unsigned)getpid(), words, &line, NULL), 0);
    assert_null(line);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_lines),
        host_test(test_long_lines),
        host_test(test_half_a_line),
        host_test(test_the_cause_is_kept),
        host_test(test_no_file),
        host_test(test_no_such_line),
        host_test(test_unit_that_said_nothing),
    };

    return run_group(tests, NULL, NULL);
}
