/*
 * Text in an SVG: what is escaped, where lines end, how durations are written, where grid lines
 * are.
 */
#include "base-test.h"
#include "groups.h"

#include "timeline-model.h"

#define SEC ((uint64_t)1000000)
#define DAY (86400 * SEC)

static void test_escapes(void **state) {
    static const char text[] = "a<b>&\"'\xef\xbf\xbf\xef\xbf\xbe\xc3\xa9";
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;

    (void)state;
    nc_svg_put(&out, text, sizeof(text) - 1);
    assert_string_equal(out.data, "a&lt;b&gt;&amp;&quot;&#39;  \xc3\xa9");
}

static void test_lines(void **state) {
    static const struct {
        const char *text;
        unsigned width_px;
        size_t fits;
    } rows[] = {
        {"", 100, 0},
        {"one two", 1000, 7},
        {"one two three", 60, 7},            /* before a blank */
        {"after +1.5 s", 75, 5},             /* a number stays with its unit */
        {"one", 1, 1},                       /* a character at least */
        {"abcdefghij", 40, 5},               /* without a blank */
        {"\xc3\xa9\xc3\xa9\xc3\xa9", 12, 2}, /* whole characters */
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const size_t n = nc_svg_fit(rows[i].text, 12, rows[i].width_px);
        if (n != rows[i].fits)
            fail_msg("%s: %zu bytes", rows[i].text, n);
        assert_true(n <= 1 || nc_svg_width(rows[i].text, n, 12) <= rows[i].width_px);
    }
}

static void test_durations(void **state) {
    static const struct {
        uint64_t usec;
        const char *text;
    } rows[] = {
        {0, "0 s"},
        {1, "0.001 ms"},
        {1500, "1.5 ms"},
        {409985, "410 ms"},
        {999499, "999 ms"},
        {999500, "1 s"},
        {12549000, "12.5 s"},
        {59940000, "59.9 s"},
        {59999999, "1 min"},
        {3723 * SEC + 40000, "1 h 2 min 3 s"},
        {2 * DAY + 5 * SEC, "2 d 5 s"},
        {366 * DAY, "366 d"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        nc_svg_duration(&text, rows[i].usec);
        assert_string_equal(text.data, rows[i].text);
    }
}

/* From a microsecond to a year there are a few grid lines, never many. */
static void test_steps(void **state) {
    (void)state;
    assert_true(nc_svg_step(1, 8) == 1);
    assert_true(nc_svg_step(900000, 8) == 200000);
    assert_true(nc_svg_step(120 * SEC, 8) == 30 * SEC);
    assert_true(nc_svg_step(366 * DAY, 8) == 50 * DAY);
    for (uint64_t span = 8; span <= 366 * DAY; span += span / 7) {
        const uint64_t lines = span / nc_svg_step(span, 8);
        assert_true(lines >= 2 && lines < 8);
    }
}

/* Of what a bar is, no line is: each of these colours is in one rule, for light and for dark pages.
 */
static void test_colours(void **state) {
    static const char bars[][8] = {"#c8323e", "#f0717a", "#c77700", "#eba43a", "#3a9d6e",
                                   "#4db584", "#4f83c4", "#6d9fdd", "#2f7ec2", "#5aa2e0"};
    nc_cleanup(nc_buf_done) struct nc_buf style = NC_BUF_INIT;

    (void)state;
    nc_svg_style(&style);
    for (size_t i = 0; i < NC_ARRAY_SIZE(bars); i++) {
        const char *rule = strstr(style.data, bars[i]);
        assert_non_null(rule);
        assert_null(strstr(rule + 1, bars[i]));
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escapes),   cmocka_unit_test(test_lines),
        cmocka_unit_test(test_durations), cmocka_unit_test(test_steps),
        cmocka_unit_test(test_colours),
    };

    return run_group(tests, NULL, NULL);
}
