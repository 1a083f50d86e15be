/*
 * Cron schedules: what robfig/cron's standard parser takes and refuses, and when they fire. The
 * conformance tier compares with that parser itself; here stands what must hold without Go.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/budget.h"
#include "nc/mem.h"
#include "nc/time.h"

static uint64_t usec_of(const char *text) {
    uint64_t usec = 0;

    assert_int_equal(nc_time_parse(text, &usec), 0);
    return usec;
}

static void test_fires(void **state) {
    static const struct {
        const char *schedule, *after, *fires; /* fires NULL = never */
    } rows[] = {
        {"* * * * *", "2026-03-01T10:00:00Z", "2026-03-01T10:01:00Z"},
        {"* * * * *", "2026-03-01T10:00:59Z", "2026-03-01T10:01:00Z"},
        {"? ? ? ? ?", "2026-12-31T23:59:00Z", "2027-01-01T00:00:00Z"},
        {"*/15 * * * *", "2026-03-01T10:15:00Z", "2026-03-01T10:30:00Z"},
        {"10/15 * * * *", "2026-03-01T10:41:00Z", "2026-03-01T10:55:00Z"},
        {"10-40/15 * * * *", "2026-03-01T10:41:00Z", "2026-03-01T11:10:00Z"},
        {"5,,50 * * * *", "2026-03-01T10:41:00Z", "2026-03-01T10:50:00Z"},
        {"0 9-17 * * mon-fri", "2026-03-06T17:00:00Z", "2026-03-09T09:00:00Z"},
        {"0 9 * * MON-FRI/2", "2026-03-09T09:00:00Z", "2026-03-11T09:00:00Z"},
        {"0 0 1 JAN,jul *", "2026-03-01T10:00:00Z", "2026-07-01T00:00:00Z"},
        /* Either day where both are given, both where one is a star. */
        {"0 0 13 * fri", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z"},
        {"0 0 13 * fri", "2026-03-07T00:00:00Z", "2026-03-13T00:00:00Z"},
        {"0 0 * * fri", "2026-03-07T00:00:00Z", "2026-03-13T00:00:00Z"},
        {"0 0 15 * *", "2026-03-07T00:00:00Z", "2026-03-15T00:00:00Z"},
        {"0 0 15 * ?", "2026-03-07T00:00:00Z", "2026-03-15T00:00:00Z"},
        {"0 0 15 * *,1", "2026-03-07T00:00:00Z", "2026-03-15T00:00:00Z"},
        {"0 0 15 * */1", "2026-03-07T00:00:00Z", "2026-03-15T00:00:00Z"},
        {"0 0 15 * *-3", "2026-03-07T00:00:00Z", "2026-03-15T00:00:00Z"},
        /* A step of two is no star: days 1, 3, 5 … or Fridays. */
        {"0 0 */2 * fri", "2026-03-05T00:00:00Z", "2026-03-06T00:00:00Z"},
        {"0 0 29 2 *", "2026-03-01T00:00:00Z", "2028-02-29T00:00:00Z"},
        {"0 0 29 2 *", "2096-03-01T00:00:00Z", NULL}, /* 2100 is none, 2104 is too far */
        {"0 0 31 2 *", "2026-03-01T00:00:00Z", NULL},
        {", * * * *", "2026-03-01T00:00:00Z", NULL},
        {"0 0 31 12 *", "2026-12-31T00:00:00Z", "2027-12-31T00:00:00Z"},
        {"  0\t0 1  1 * ", "1970-01-01T00:00:00Z", "1971-01-01T00:00:00Z"},
        {"+5 007 * * *", "2026-03-01T10:00:00Z", "2026-03-02T07:05:00Z"},
        {"@hourly", "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z"},
        {"@daily", "2026-03-01T10:00:00Z", "2026-03-02T00:00:00Z"},
        {"@midnight ", "2026-02-28T10:00:00Z", "2026-03-01T00:00:00Z"},
        {"@weekly", "2026-03-01T00:00:00Z", "2026-03-08T00:00:00Z"},
        {"@monthly", "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z"},
        {"@yearly", "2026-03-01T00:00:00Z", "2027-01-01T00:00:00Z"},
        {"@annually", "2027-12-31T23:59:59Z", "2028-01-01T00:00:00Z"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_cron c;
        char text[32];
        assert_int_equal(nc_cron_parse(rows[i].schedule, &c, NULL), 0);
        const uint64_t usec = nc_cron_next(&c, usec_of(rows[i].after));
        if (!rows[i].fires) {
            assert_true(usec == UINT64_MAX);
            continue;
        }
        nc_time_format(usec, text);
        assert_string_equal(text, rows[i].fires);
    }
}

/* The microseconds count: just before, and no longer at. */
static void test_is_after(void **state) {
    struct nc_cron c;
    const uint64_t noon = usec_of("2026-03-01T12:00:00Z");

    (void)state;
    assert_int_equal(nc_cron_parse("0 12 * * *", &c, NULL), 0);
    assert_true(nc_cron_next(&c, noon - 1) == noon);
    assert_true(nc_cron_next(&c, noon) == usec_of("2026-03-02T12:00:00Z"));
    assert_true(nc_cron_next(&c, noon + 1) == usec_of("2026-03-02T12:00:00Z"));
}

static void test_refused(void **state) {
    static const char *const rows[] = {
        "",
        " ",
        "* * * *",
        "* * * * * *",
        "TZ=UTC * * * * *",
        "CRON_TZ=Asia/Tokyo 0 0 * * *",
        "@every 1h",
        "@Daily",
        "@reboot",
        "@daily x",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 7",
        "* * * foo *",
        "* * * * monday",
        "5-1 * * * *",
        "1-2-3 * * * *",
        "1/2/3 * * * *",
        "*/0 * * * *",
        "*/-1 * * * *",
        "*/x * * * *",
        "1- * * * *",
        "/5 * * * *",
        "5/ * * * *",
        "** * * * *",
        "1.5 * * * *",
        "99999999999999999999 * * * *",
        "mon * * * *",
        "* * * * \xc3\xa4",
    };
    char many[1100];

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_cron c = {.minutes = 77};
        struct nc_err err = NC_ERR_INIT;
        if (nc_cron_parse(rows[i], &c, &err) >= 0)
            fail_msg("'%s' was taken", rows[i]);
        assert_int_equal(err.class, NC_ERR_PROTOCOL);
        assert_int_equal(c.minutes, 77);
    }
    memset(many, ',', sizeof(many) - 1);
    memcpy(many + sizeof(many) - 10, " * * * *", 9);
    struct nc_cron c;
    assert_true(nc_cron_parse(many, &c, NULL) < 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fires),
        cmocka_unit_test(test_is_after),
        cmocka_unit_test(test_refused),
    };

    return run_group(tests, NULL, NULL);
}
