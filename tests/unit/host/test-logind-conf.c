/*
 * InhibitDelayMaxSec: every form of a time span, sections, and the order of logind's files.
 */
#include "groups.h"
#include "host-test.h"

#include "probe.h"

#define SECOND 1000000u

static void assert_text(const char *text, uint64_t expected) {
    put("/etc/systemd/logind.conf", text);
    const uint64_t usec = nc_logind_configured_delay(root);
    if (usec != expected)
        fail_msg("%s: %llu, expected %llu", text, (unsigned long long)usec,
                 (unsigned long long)expected);
}

static void assert_value(const char *value, uint64_t expected) {
    nc_auto_free char *text = nc_asprintf("[Login]\nInhibitDelayMaxSec=%s\n", value);

    assert_text(text, expected);
}

static void test_values(void **state) {
    (void)state;
    assert_value("150", 150u * SECOND);
    assert_value("5s", 5u * SECOND);
    assert_value("2min 30s", 150u * SECOND);
    assert_value("2min30", 150u * SECOND);
    assert_value("1.5s", 1500000u);
    assert_value("500ms", 500000u);
    assert_value("1h 1m 1sec 1us", 3661000001u);
    assert_value("2 hours", 7200u * (uint64_t)SECOND);
    assert_value("1d", 86400u * (uint64_t)SECOND);
    assert_value("infinity", UINT64_MAX);
    assert_value("99999999999999999999", UINT64_MAX);
    assert_value("0", 0);
}

/* What logind cannot read, it passes over. */
static void test_not_values(void **state) {
    static const char *const bad[] = {"", "x", "5 parsecs", "-5", "1.2.3", "5 s x", "."};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(bad); i++) {
        nc_auto_free char *text =
            nc_asprintf("[Login]\nInhibitDelayMaxSec=7\nInhibitDelayMaxSec=%s\n", bad[i]);
        assert_text(text, 7u * SECOND);
    }
}

static void test_lines(void **state) {
    (void)state;
    assert_text("", 0);
    assert_text("InhibitDelayMaxSec=7\n", 0);
    assert_text("[Other]\nInhibitDelayMaxSec=7\n", 0);
    assert_text("[Login]\n#InhibitDelayMaxSec=7\n", 0);
    assert_text("[Login]\nInhibitDelayMaxSecond=7\n", 0);
    assert_text("[Login]\n  InhibitDelayMaxSec = 7  \nx=y", 7u * SECOND);
    assert_text("[Login]\nInhibitDelayMaxSec=7\nInhibitDelayMaxSec=9\n", 9u * SECOND);
}

static void conf(const char *path, unsigned seconds) {
    nc_auto_free char *text = nc_asprintf("[Login]\nInhibitDelayMaxSec=%u\n", seconds);

    put(path, text);
}

static void assert_seconds(unsigned seconds) {
    assert_int_equal(nc_logind_configured_delay(root) / SECOND, seconds);
}

static void test_order(void **state) {
    (void)state;
    assert_seconds(0);
    conf("/etc/systemd/logind.conf", 1);
    assert_seconds(1);
    conf("/etc/systemd/logind.conf.d/10-a.conf", 2);
    assert_seconds(2);
    conf("/usr/lib/systemd/logind.conf.d/20-b.conf", 3); /* a later name, whatever the folder */
    assert_seconds(3);
    conf("/run/systemd/logind.conf.d/20-b.conf", 4); /* hides the one in /usr */
    assert_seconds(4);
    conf("/etc/systemd/logind.conf.d/20-b.conf", 5);
    assert_seconds(5);
    conf("/etc/systemd/logind.conf.d/zz-nodeclaimd.conf", 6); /* ours does not count */
    assert_seconds(5);
    conf("/etc/systemd/logind.conf.d/99-x.txt", 7);
    assert_seconds(5);
    conf("/usr/local/lib/systemd/logind.conf.d/99-kubelet.conf", 8);
    assert_seconds(8);
}

static void test_in_force(void **state) {
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_false(nc_logind_is_short(root, 0, &err)); /* we request nothing */
    conf("/etc/systemd/logind.conf.d/zz-nodeclaimd.conf", 150);
    assert_false(nc_logind_is_short(root, 150 * SECOND, &err));
    assert_true(nc_logind_is_short(root, 30 * SECOND, &err));
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_non_null(strstr(err.msg, "waits 30.0 s at a shutdown, 150.0 s are needed"));
    assert_non_null(strstr(err.remedy, "cat-config systemd/logind.conf"));
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_values), host_test(test_not_values), host_test(test_lines),
        host_test(test_order),  host_test(test_in_force),
    };

    return run_group(tests, NULL, NULL);
}
