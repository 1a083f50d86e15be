/*
 * What becomes of a text for people on its way to a terminal, and to a pipe.
 */
#include "base-test.h"
#include "groups.h"

#include <time.h>

#include "nc/marks.h"
#include "nc/str.h"
#include "process.h"

static void assert_formatted(const struct nc_terminal *t, const char *text, const char *expected) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;

    nc_terminal_format(t, text, &out);
    assert_string_equal(out.data ? out.data : "", expected);
}

static void test_lines(void **state) {
    static const struct nc_terminal narrow = {.columns = 40}, pipe = {0};
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"", ""},
        {"a\n\nb\n", "a\n\nb\n"},
        {"no line end", "no line end\n"},
        /* below the text of its title */
        {"warning      one two three four five six seven\n",
         "warning      one two three four five six\n             seven\n"},
        {"             one two three four five six seven\n",
         "             one two three four five six\n             seven\n"},
        {"  --flag X        what it is good for, in words\n",
         "  --flag X        what it is good for,\n                  in words\n"},
        /* without a title: at the margin of its own */
        {"one two three four five six seven eight nine\n",
         "one two three four five six seven eight\nnine\n"},
        /* exactly as wide, and one more */
        {"a234567890123456789 b2345678901234567890\n",
         "a234567890123456789 b2345678901234567890\n"},
        {"a2345678901234567890 b2345678901234567890\n",
         "a2345678901234567890\nb2345678901234567890\n"},
        /* a long word stays whole, on the line of its title */
        {"x            a2345678901234567890123456789012345678901 b\n",
         "x            a2345678901234567890123456789012345678901\n             b\n"},
        /* columns, not bytes */
        {"\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 "
         "b2345678901234567890123456789\n",
         "\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4 "
         "b2345678901234567890123456789\n"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *whole = nc_asprintf(
            "%s%s", rows[i].text, *rows[i].text && !nc_ends_with(rows[i].text, "\n") ? "\n" : "");
        assert_formatted(&narrow, rows[i].text, rows[i].expected);
        assert_formatted(&pipe, rows[i].text, whole);
    }
}

static void test_colours(void **state) {
    static const struct nc_terminal colour = {.columns = 40, .has_colour = true}, plain = {0};
    static const char text[] = "bootstrap    " NC_MARK_BAD "failed" NC_MARK_END "\n";

    (void)state;
    assert_formatted(&plain, text, "bootstrap    failed\n");
    assert_formatted(&colour, text, "bootstrap    \033[31mfailed\033[0m\n");
    /* they take no columns */
    assert_formatted(&colour,
                     "a234567890123456789 " NC_MARK_GOOD "b2345678901234567890" NC_MARK_END "\n",
                     "a234567890123456789 \033[32mb2345678901234567890\033[0m\n");
}

static void test_times(void **state) {
    static const struct nc_terminal pipe = {0};
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"since 2026-01-02T03:04:05Z, at", "since 2026-01-02 06:34:05 XST, at\n"},
        {"2026-12-31T23:59:59Z", "2027-01-01 03:29:59 XST\n"},
        {"(2026-01-02T03:04:05Z)", "(2026-01-02 06:34:05 XST)\n"},
        /* a table keeps its columns */
        {"2026-01-02T03:04:05Z        x", "2026-01-02 06:34:05 XST     x\n"},
        {"2026-01-02T03:04:05Z  x", "2026-01-02 06:34:05 XST  x\n"},
        /* part of a name, or none */
        {"operator-2026-01-02T03:04:05Z-1f", "operator-2026-01-02T03:04:05Z-1f\n"},
        {"2026-01-02T03:04:05+01:00", "2026-01-02T03:04:05+01:00\n"},
        {"2026-13-02T03:04:05Z", "2026-13-02T03:04:05Z\n"},
        {"2026-01-02T03:04:0", "2026-01-02T03:04:0\n"},
        {"12026-01-02T03:04:05Z", "12026-01-02T03:04:05Z\n"},
    };

    (void)state;
    assert_int_equal(setenv("TZ", "XST-3:30", 1), 0);
    tzset();
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        assert_formatted(&pipe, rows[i].text, rows[i].expected);
    assert_int_equal(unsetenv("TZ"), 0);
    tzset();
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_times),
    };

    return run_group(tests, NULL, NULL);
}
