/*
 * The retry schedule: bounds for every attempt and seed, growth, and spread between nodes.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/backoff.h"

static void test_bounds(void **state) {
    static const struct nc_backoff schedules[] = {
        {100000, 5000000}, {1, 1}, {3, 1000}, {1, UINT64_MAX}, {5000000, 100000}};
    uint64_t seed = 3;

    (void)state;
    for (size_t s = 0; s < sizeof(schedules) / sizeof(schedules[0]); s++)
        for (unsigned attempt = 1; attempt < 100; attempt++) {
            const struct nc_backoff *b = &schedules[s];
            uint64_t full = b->first_usec;
            for (unsigned i = 1; i < attempt && full < b->max_usec; i++)
                full = full > b->max_usec / 2 ? b->max_usec : full * 2;
            full = full < b->max_usec ? full : b->max_usec;
            const uint64_t pause = nc_backoff_pause(b, attempt, prng_next(&seed));
            assert_true(pause <= full);
            assert_true(pause >= full - full / 4);
        }
}

static void test_nothing_to_double(void **state) {
    const struct nc_backoff none = {0, 1000};

    (void)state;
    assert_int_equal(nc_backoff_pause(&none, UINT32_MAX, 1), 0);
}

static void test_same_seed_same_schedule(void **state) {
    const struct nc_backoff b = {100000, 5000000};

    (void)state;
    for (unsigned attempt = 1; attempt < 20; attempt++)
        assert_int_equal(nc_backoff_pause(&b, attempt, 9), nc_backoff_pause(&b, attempt, 9));
}

/* A thousand nodes that fail together do not come back together. */
static void test_nodes_spread_out(void **state) {
    const struct nc_backoff b = {4000000, 4000000};
    unsigned buckets[10] = {0};

    (void)state;
    for (unsigned node = 0; node < 1000; node++) {
        char id[32];
        (void)snprintf(id, sizeof(id), "i-%017x", node);
        const uint64_t pause = nc_backoff_pause(&b, 5, nc_backoff_seed(id));
        buckets[(4000000 - pause) / 100001]++;
    }
    for (unsigned i = 0; i < 10; i++)
        assert_in_range(buckets[i], 50, 150);
}

static void test_seeds(void **state) {
    (void)state;
    assert_int_equal(nc_backoff_seed(NULL), nc_backoff_seed(""));
    assert_true(nc_backoff_seed("i-1") != nc_backoff_seed("i-2"));
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_nothing_to_double),
        cmocka_unit_test(test_same_seed_same_schedule),
        cmocka_unit_test(test_nodes_spread_out),
        cmocka_unit_test(test_seeds),
    };

    return run_group(tests, NULL, NULL);
}
