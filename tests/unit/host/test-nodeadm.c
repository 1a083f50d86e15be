/*
 * nodeadm's units are enabled or not, by their files alone.
 */
#include "groups.h"
#include "host-test.h"

#define UNIT "nodeadm-run.service"
#define VENDOR "/usr/lib/systemd/system/"
#define ADMIN "/etc/systemd/system/"

static void assert_enabled(bool expected) {
    struct nc_err err = NC_ERR_INIT;

    assert_int_equal(nc_nodeadm_check(root, &err), expected ? -EBUSY : 0);
    if (!expected)
        return;
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.msg, UNIT " is enabled"));
    assert_non_null(strstr(err.remedy, "systemctl disable "));
}

static void test_enabled(void **state) {
    (void)state;
    assert_enabled(false); /* there are no folders */
    put(VENDOR UNIT, "[Service]\n");
    assert_enabled(false);
    put(VENDOR "multi-user.target.d/" UNIT, "");
    assert_enabled(false);
    link_to(VENDOR UNIT, ADMIN "multi-user.target.wants/" UNIT); /* of that root, not of ours */
    assert_enabled(true);
}

static void test_required_by_the_vendor(void **state) {
    (void)state;
    put(VENDOR UNIT, "[Service]\n");
    link_to("../" UNIT, VENDOR "basic.target.requires/" UNIT);
    assert_enabled(true);
}

/* What systemd does not load it does not start, whoever wants it. */
static void test_not_loaded(void **state) {
    nc_auto_free char *mask = nc_path_below(root, ADMIN UNIT);

    (void)state;
    link_to(VENDOR UNIT, ADMIN "multi-user.target.wants/" UNIT);
    assert_enabled(false); /* was removed */
    put(VENDOR UNIT, "[Service]\n");
    assert_enabled(true);
    link_to("/dev/null", ADMIN UNIT);
    assert_enabled(false);
    assert_int_equal(unlink(mask), 0);
    put(ADMIN UNIT, "");
    assert_enabled(false);
    put(ADMIN UNIT, "[Service]\n");
    assert_enabled(true);
}

/* What cannot be read is not taken for absent. */
static void test_unreadable(void **state) {
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    link_to("systemd", "/etc/systemd"); /* ELOOP */
    assert_int_equal(nc_nodeadm_check(root, &err), -ELOOP);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.msg, ADMIN));
}

/* No root is the machine itself: it may have nodeadm or not, but it can be read. */
static void test_this_machine(void **state) {
    struct nc_err err = NC_ERR_INIT;
    const int r = nc_nodeadm_check("", &err);

    (void)state;
    assert_true(r == 0 || r == -EBUSY);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_enabled),      host_test(test_required_by_the_vendor),
        host_test(test_not_loaded),   host_test(test_unreadable),
        host_test(test_this_machine),
    };

    return run_group(tests, NULL, NULL);
}
