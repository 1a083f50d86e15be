/*
 * Disruption budgets: what is read and refused, how many nodes they allow, and when that changes.
 * The conformance tier compares the arithmetic with Karpenter's own.
 */
#include "base-test.h"
#include "groups.h"

#include <limits.h>

#include "nc/budget.h"
#include "nc/mem.h"
#include "nc/time.h"

static uint64_t usec_of(const char *text) {
    uint64_t usec = 0;

    assert_int_equal(nc_time_parse(text, &usec), 0);
    return usec;
}

/* The budgets of a NodePool with this in spec.disruption. */
static int read_of(const char *disruption, struct nc_budgets *ret, struct nc_err *err) {
    nc_auto_free char *text = nc_asprintf("{\"spec\":{\"disruption\":{%s}}}", disruption);
    nc_auto_value struct nc_value *pool = NULL;

    assert_int_equal(nc_json_parse(text, strlen(text), &pool, NULL), 0);
    return nc_budgets_read(pool, ret, err);
}

#define NIGHT "\"schedule\":\"0 22 * * *\",\"duration\":\"8h\"}"

static void test_allows(void **state) {
    static const struct {
        const char *disruption;
        enum nc_budget_reason why;
        unsigned n, allowed;
        const char *now;
    } rows[] = {
        /* Nobody said anything: 10 %. An empty list limits nothing. */
        {"", NC_BUDGET_DRIFTED, 10, 1, NULL},
        {"\"budgets\":null", NC_BUDGET_DRIFTED, 10, 1, NULL},
        {"\"budgets\":[]", NC_BUDGET_DRIFTED, 10, UINT_MAX, NULL},
        {"\"budgets\":[{}]", NC_BUDGET_DRIFTED, 30, 3, NULL},
        /* Percentages round up; none of nothing is nothing. */
        {"\"budgets\":[{\"nodes\":\"10%\"}]", NC_BUDGET_EMPTY, 11, 2, NULL},
        {"\"budgets\":[{\"nodes\":\"1%\"}]", NC_BUDGET_EMPTY, 1, 1, NULL},
        {"\"budgets\":[{\"nodes\":\"1%\"}]", NC_BUDGET_EMPTY, 0, 0, NULL},
        {"\"budgets\":[{\"nodes\":\"0%\"}]", NC_BUDGET_EMPTY, 1000, 0, NULL},
        {"\"budgets\":[{\"nodes\":\"100%\"}]", NC_BUDGET_EMPTY, 1000, 1000, NULL},
        {"\"budgets\":[{\"nodes\":\"33%\"}]", NC_BUDGET_EMPTY, 3000000000, 990000000, NULL},
        /* Counts do not. The least of all that are in force. */
        {"\"budgets\":[{\"nodes\":\"5\"}]", NC_BUDGET_EMPTY, 1, 5, NULL},
        {"\"budgets\":[{\"nodes\":\"5\"},{\"nodes\":\"10%\"}]", NC_BUDGET_EMPTY, 20, 2, NULL},
        {"\"budgets\":[{\"nodes\":\"2147483647\"}]", NC_BUDGET_EMPTY, 20, INT_MAX, NULL},
        /* Reasons: all, some, none of ours. */
        {"\"budgets\":[{\"nodes\":\"0\",\"reasons\":null}]", NC_BUDGET_REBALANCE, 9, 0, NULL},
        {"\"budgets\":[{\"nodes\":\"0\",\"reasons\":[\"Drifted\"]}]", NC_BUDGET_DRIFTED, 9, 0,
         NULL},
        {"\"budgets\":[{\"nodes\":\"0\",\"reasons\":[\"Drifted\"]}]", NC_BUDGET_EXPIRED, 9,
         UINT_MAX, NULL},
        {"\"budgets\":[{\"nodes\":\"0\",\"reasons\":[\"Expired\",\"Empty\"]}]", NC_BUDGET_EXPIRED,
         9, 0, NULL},
        {"\"budgets\":[{\"nodes\":\"0\",\"reasons\":[\"drifted\",\"New\"]}]", NC_BUDGET_DRIFTED, 9,
         UINT_MAX, NULL},
        {"\"budgets\":[{\"nodes\":\"0\",\"reasons\":[]}]", NC_BUDGET_DRIFTED, 9, UINT_MAX, NULL},
        /* Schedules: from the hit on, up to its end, not at it. */
        {"\"budgets\":[{\"nodes\":\"0\"," NIGHT "]", NC_BUDGET_EMPTY, 9, UINT_MAX,
         "2026-03-01T21:59:59Z"},
        {"\"budgets\":[{\"nodes\":\"0\"," NIGHT "]", NC_BUDGET_EMPTY, 9, 0, "2026-03-01T22:00:00Z"},
        {"\"budgets\":[{\"nodes\":\"0\"," NIGHT "]", NC_BUDGET_EMPTY, 9, 0, "2026-03-02T05:59:59Z"},
        {"\"budgets\":[{\"nodes\":\"0\"," NIGHT "]", NC_BUDGET_EMPTY, 9, UINT_MAX,
         "2026-03-02T06:00:00Z"},
        {"\"budgets\":[{\"nodes\":\"3\"},{\"nodes\":\"0\"," NIGHT "]", NC_BUDGET_EMPTY, 9, 3,
         "2026-03-02T12:00:00Z"},
        /* One that never fires is always in force, as at Karpenter's. */
        {"\"budgets\":[{\"nodes\":\"0\",\"schedule\":\"0 0 31 2 *\",\"duration\":\"1h\"}]",
         NC_BUDGET_EMPTY, 9, 0, "2026-03-02T12:00:00Z"},
        {"\"budgets\":[{\"nodes\":\"0\",\"schedule\":\"* * * * *\",\"duration\":\"0h\"}]",
         NC_BUDGET_EMPTY, 9, UINT_MAX, "2026-03-02T12:00:00Z"},
        {"\"budgets\":[{\"nodes\":\"0\",\"schedule\":\"@yearly\",\"duration\":\"999999h\"}]",
         NC_BUDGET_EMPTY, 9, 0, "2026-03-02T12:00:00Z"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_budgets_done) struct nc_budgets b = {0};
        const uint64_t now = usec_of(rows[i].now ? rows[i].now : "2026-03-01T00:00:00Z");
        assert_int_equal(read_of(rows[i].disruption, &b, NULL), 0);
        const unsigned allowed = nc_budgets_allowed(&b, rows[i].why, rows[i].n, now);
        if (allowed != rows[i].allowed)
            fail_msg("%s: %u are allowed, %u should be", rows[i].disruption, allowed,
                     rows[i].allowed);
    }
}

static void test_refused(void **state) {
    static const struct {
        const char *disruption, *says;
    } rows[] = {
        {"\"budgets\":{}", "spec.disruption.budgets: found another type"},
        {"\"budgets\":[7]", "spec.disruption.budgets[0]: a budget: found '7'"},
        {"\"budgets\":[{},null]", "spec.disruption.budgets[1]: a budget"},
        {"\"budgets\":[{\"nodes\":3}]", "nodes: found '3'"},
        {"\"budgets\":[{\"nodes\":\"\"}]", "nodes: found ''"},
        {"\"budgets\":[{\"nodes\":\"%\"}]", "nodes: found '%'"},
        {"\"budgets\":[{\"nodes\":\"-1\"}]", "nodes: found '-1'"},
        {"\"budgets\":[{\"nodes\":\"101%\"}]", "nodes: found '101%'"},
        {"\"budgets\":[{\"nodes\":\"1.5%\"}]", "nodes: found '1.5%'"},
        {"\"budgets\":[{\"nodes\":\"2147483648\"}]", "nodes: found '2147483648'"},
        {"\"budgets\":[{\"nodes\":\"00000000000000000001\"}]", "nodes: found"},
        {"\"budgets\":[{\"reasons\":\"Empty\"}]", "reasons: found 'Empty'"},
        {"\"budgets\":[{\"reasons\":[7]}]", "reasons: found '7'"},
        {"\"budgets\":[{\"schedule\":\"@daily\"}]", "schedule and duration need each other"},
        {"\"budgets\":[{\"duration\":\"1h\"}]", "schedule and duration need each other"},
        {"\"budgets\":[{\"schedule\":7,\"duration\":\"1h\"}]", "schedule: found '7'"},
        {"\"budgets\":[{\"schedule\":\"61 * * * *\",\"duration\":\"1h\"}]", "'61' cannot be read"},
        {"\"budgets\":[{\"schedule\":\"@daily\",\"duration\":\"1d\"}]", "duration: found '1d'"},
        {"\"budgets\":[{\"schedule\":\"@daily\",\"duration\":\"-1h\"}]", "duration: found '-1h'"},
        {"\"budgets\":[{\"schedule\":\"@daily\",\"duration\":\"Never\"}]",
         "duration: found 'Never'"},
        {"\"budgets\":[{\"schedule\":\"@daily\",\"duration\":3600}]", "duration: found nothing"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_budgets b = {.n = 77};
        struct nc_err err = NC_ERR_INIT;
        assert_true(read_of(rows[i].disruption, &b, &err) < 0);
        assert_int_equal(err.class, NC_ERR_PROTOCOL);
        if (!strstr(err.msg, rows[i].says))
            fail_msg("%s: says '%s'", rows[i].disruption, err.msg);
        assert_int_equal(b.n, 77);
    }
}

/* One more than the CRD allows. */
static void test_too_many(void **state) {
    struct nc_buf text = NC_BUF_INIT;
    struct nc_budgets b = {0};

    (void)state;
    nc_buf_puts(&text, "\"budgets\":[{}");
    for (unsigned i = 0; i < NC_BUDGETS_MAX; i++)
        nc_buf_puts(&text, ",{}");
    nc_buf_puts(&text, "]");
    assert_true(read_of(text.data, &b, NULL) < 0);
    nc_buf_done(&text);
}

static void test_durations(void **state) {
    static const struct {
        const char *text;
        bool may_be_never;
        uint64_t usec; /* 0 = refused */
    } rows[] = {
        {"Never", true, UINT64_MAX},
        {"Never", false, 0},
        {"never", true, 0},
        {"720h", true, 2592000000000},
        {"1h30m", false, 5400000000},
        {"90s", false, 90000000},
        {"8h0s", false, 28800000000},
        {"-1h", true, 0},
        {"", true, 0},
        {NULL, true, 0},
        {"1d", true, 0},
        {"2562047h", true, 9223369200000000},
        {"2562048h", true, 0},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        uint64_t usec = 7;
        const int r = nc_budget_duration(rows[i].text, rows[i].may_be_never, &usec, NULL);
        assert_int_equal(r < 0, rows[i].usec == 0);
        assert_true(usec == (rows[i].usec ? rows[i].usec : 7));
    }
}

static void test_next(void **state) {
    static const struct {
        const char *disruption, *now, *next; /* next NULL = never */
    } rows[] = {
        {"", "2026-03-01T00:00:00Z", NULL},
        {"\"budgets\":[{" NIGHT "]", "2026-03-01T12:00:00Z", "2026-03-01T22:00:00Z"},
        {"\"budgets\":[{" NIGHT "]", "2026-03-01T22:00:00Z", "2026-03-02T06:00:00Z"},
        {"\"budgets\":[{" NIGHT "]", "2026-03-02T05:59:59Z", "2026-03-02T06:00:00Z"},
        {"\"budgets\":[{" NIGHT "]", "2026-03-02T06:00:00Z", "2026-03-02T22:00:00Z"},
        /* Windows that touch each other are one. */
        {"\"budgets\":[{\"schedule\":\"0 8-16 * * *\",\"duration\":\"1h\"}]",
         "2026-03-01T09:30:00Z", "2026-03-01T17:00:00Z"},
        {"\"budgets\":[{" NIGHT ",{\"schedule\":\"@hourly\",\"duration\":\"10m\"}]",
         "2026-03-01T12:30:00Z", "2026-03-01T13:00:00Z"},
        {"\"budgets\":[{\"schedule\":\"0 0 31 2 *\",\"duration\":\"1h\"}]", "2026-03-01T12:30:00Z",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_budgets_done) struct nc_budgets b = {0};
        char text[32];
        assert_int_equal(read_of(rows[i].disruption, &b, NULL), 0);
        const uint64_t usec = nc_budgets_next(&b, usec_of(rows[i].now));
        if (!rows[i].next) {
            assert_true(usec == UINT64_MAX);
            continue;
        }
        nc_time_format(usec, text);
        assert_string_equal(text, rows[i].next);
    }
}

/* Until the time that was said, the answer does not change. */
static void test_next_misses_nothing(void **state) {
    static const char *const schedules[] = {"*/7 3-5 * * *", "0 */6 * * mon", "30 12 1,15 * *",
                                            "59 23 * * 5"};
    static const char *const durations[] = {"3m", "1h", "13h", "100h"};
    uint64_t seed = 1;

    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        nc_cleanup(nc_budgets_done) struct nc_budgets b = {0};
        nc_auto_free char *text =
            nc_asprintf("\"budgets\":[{\"nodes\":\"1\",\"schedule\":\"%s\",\"duration\":\"%s\"}]",
                        schedules[prng_below(&seed, 4)], durations[prng_below(&seed, 4)]);
        assert_int_equal(read_of(text, &b, NULL), 0);
        const uint64_t now =
            usec_of("2026-03-01T00:00:00Z") + prng_below(&seed, 30 * 86400) * 1000000;
        const uint64_t next = nc_budgets_next(&b, now);
        const unsigned allowed = nc_budgets_allowed(&b, NC_BUDGET_EMPTY, 9, now);
        assert_true(next > now);
        for (unsigned i = 0; i < 50; i++) {
            const uint64_t between = now + prng_below(&seed, next - now);
            assert_int_equal(nc_budgets_allowed(&b, NC_BUDGET_EMPTY, 9, between), allowed);
        }
        assert_int_equal(nc_budgets_allowed(&b, NC_BUDGET_EMPTY, 9, next - 1), allowed);
    }
}

static void test_reasons(void **state) {
    (void)state;
    assert_string_equal(nc_budget_reason_name(NC_BUDGET_EMPTY), "Empty");
    assert_string_equal(nc_budget_reason_name(NC_BUDGET_DRIFTED), "Drifted");
    assert_string_equal(nc_budget_reason_name(NC_BUDGET_UNDERUTILIZED), "Underutilized");
    assert_string_equal(nc_budget_reason_name(NC_BUDGET_EXPIRED), "Expired");
    assert_string_equal(nc_budget_reason_name(NC_BUDGET_REBALANCE), "Rebalance");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allows),   cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_many), cmocka_unit_test(test_durations),
        cmocka_unit_test(test_next),     cmocka_unit_test(test_next_misses_nothing),
        cmocka_unit_test(test_reasons),
    };

    return run_group(tests, NULL, NULL);
}
