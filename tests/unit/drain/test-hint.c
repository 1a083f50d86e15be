/*
 * Signals as hints: who calls for a read, which answers are news.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/hint.h"

static void test_one_read_at_a_time(void **state) {
    struct nc_hint h = {0};

    (void)state;
    assert_true(nc_hint_arrived(&h, 10));
    assert_false(nc_hint_arrived(&h, 20)); /* it is being read */
    assert_false(nc_hint_arrived(&h, 30));
    assert_true(nc_hint_read(&h, false)); /* the first answer is news */
    assert_true(nc_hint_ended(&h));       /* one more for all of them */
    assert_true(nc_hint_read(&h, true));
    assert_int_equal(h.since_usec, 20);
    assert_false(nc_hint_ended(&h));
    assert_true(nc_hint_arrived(&h, 40));
    assert_false(nc_hint_read(&h, true)); /* nothing new */
    assert_int_equal(h.since_usec, 20);
    assert_false(nc_hint_ended(&h));
}

static void test_not_read(void **state) {
    struct nc_hint h = {0};

    (void)state;
    assert_true(nc_hint_arrived(&h, 10));
    assert_false(nc_hint_ended(&h)); /* no answer */
    assert_false(h.is_known);
    assert_true(nc_hint_arrived(&h, 20));
    assert_true(nc_hint_read(&h, true));
    assert_false(nc_hint_ended(&h));
    assert_true(nc_hint_arrived(&h, 30));
    assert_false(nc_hint_arrived(&h, 31));
    assert_true(nc_hint_ended(&h)); /* no answer, and asked again */
    assert_true(h.is_true);
    assert_true(nc_hint_read(&h, false));
    assert_int_equal(h.since_usec, 0);
    assert_false(nc_hint_ended(&h));
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_read_at_a_time),
        cmocka_unit_test(test_not_read),
    };

    return run_group(tests, NULL, NULL);
}
