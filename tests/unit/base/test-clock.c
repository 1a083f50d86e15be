/*
 * A time that is compared with what was written since, by a clock that may have been set.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/clock.h"

#define SECOND 1000000ull
#define DAY (86400 * SECOND)
#define UP (100 * SECOND) /* the monotonic clock at the moment in question */

static void test_earliest(void **state) {
    static const struct {
        uint64_t then_usec, then_mono_usec, now_usec, now_mono_usec, expected;
    } rows[] = {
        {DAY, UP, DAY + 5 * SECOND, UP + 5 * SECOND, DAY},    /* never set */
        {DAY, UP, DAY, UP, DAY},                              /* now */
        {DAY, UP, DAY + 3605 * SECOND, UP + 5 * SECOND, DAY}, /* set on by an hour */
        {DAY, UP, DAY - 3595 * SECOND, UP + 5 * SECOND, DAY - 3600 * SECOND}, /* set back by one */
        {DAY, UP, 2 * SECOND, UP + 5 * SECOND, 0},            /* back to the epoch */
        {DAY, UP + SECOND, DAY + SECOND, UP, DAY},            /* a moment to come */
        {DAY, UP, DAY + 3605 * SECOND, UP + 5 * SECOND, DAY}, /* suspended for an hour */
        {0, UP, DAY, UP + 5 * SECOND, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        print_message("# row %zu\n", i);
        assert_int_equal(nc_clock_earliest(rows[i].then_usec, rows[i].then_mono_usec,
                                           rows[i].now_usec, rows[i].now_mono_usec),
                         rows[i].expected);
    }
}

/* Ours counts while it agrees with what was told, and where nobody told. */
static void test_reported(void **state) {
    static const int64_t apart_sec[] = {0, 9, -9, 11, -11, 3600, -3600};

    (void)state;
    assert_in_range(nc_now_usec() + SECOND - nc_clock_shifted(0), 0, SECOND);
    for (size_t i = 0; i < sizeof(apart_sec) / sizeof(*apart_sec); i++) {
        const int64_t apart = apart_sec[i] * (int64_t)SECOND;
        const uint64_t told =
            nc_clock_shifted((uint64_t)((int64_t)nc_now_usec() + apart) - nc_boot_usec());
        const int is_ours = apart_sec[i] > -10 && apart_sec[i] < 10;

        print_message("# %d s apart\n", (int)apart_sec[i]);
        assert_in_range(told + SECOND - (uint64_t)((int64_t)nc_now_usec() + (is_ours ? 0 : apart)),
                        0, 2 * SECOND);
    }
}

TEST_GROUP() {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_earliest),
        cmocka_unit_test(test_reported),
    };

    return run_group(tests, NULL, NULL);
}
