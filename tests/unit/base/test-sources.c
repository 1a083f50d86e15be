/*
 * The margin of a deadline: a share of what is left.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/sources.h"

#define SEC 1000000ull

static void test_margin(void **state) {
    static const struct {
        uint64_t most_sec, left_sec, expected_sec;
    } rows[] = {
        {15, 86400, 15}, {15, 120, 15}, {15, 119, 15}, {15, 100, 13}, {15, 80, 10}, {15, 60, 10},
        {15, 40, 10},    {15, 36, 6},   {15, 33, 5},   {15, 20, 3},   {15, 14, 2},  {15, 11, 2},
        {15, 8, 1},      {15, 2, 1},    {15, 0, 1},    {60, 120, 60}, {60, 30, 15}, {180, 120, 60},
        {600, 60, 30},   {600, 15, 7},  {600, 3, 1},   {5, 120, 5},   {5, 60, 5},   {5, 20, 1},
        {1, 120, 1},     {1, 1, 1},     {0, 120, 0},   {0, 0, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        print_message("# %llu s of %llu s\n", (unsigned long long)rows[i].most_sec,
                      (unsigned long long)rows[i].left_sec);
        assert_int_equal(nc_margin_usec(rows[i].most_sec * SEC, rows[i].left_sec * SEC),
                         rows[i].expected_sec * SEC);
    }
    assert_int_equal(nc_margin_usec(UINT64_MAX, UINT64_MAX), UINT64_MAX / 2 - UINT64_MAX / 2 % SEC);
    assert_int_equal(nc_margin_usec(SEC / 2, 120 * SEC), SEC / 2);
}

/* The more is left, the more is taken off, and the later is T. */
static void test_margin_grows(void **state) {
    static const uint64_t most_sec[] = {0, 1, 5, 15, 30, 60, 119, 600};

    (void)state;
    for (size_t i = 0; i < sizeof(most_sec) / sizeof(most_sec[0]); i++)
        for (uint64_t left = 0; left < 200 * SEC; left += SEC / 10) {
            const uint64_t less = nc_margin_usec(most_sec[i] * SEC, left),
                           more = nc_margin_usec(most_sec[i] * SEC, left + SEC);
            assert_true(less <= more && more <= less + SEC);
        }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_margin),
        cmocka_unit_test(test_margin_grows),
    };

    return run_group(tests, NULL, NULL);
}
