/*
 * What a bootstrap waits for fits into its deadline, and that into what systemd gives the units:
 * computed from the constants and from the units as they are shipped.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#include "time-limits.h"

/* What stands behind `key` in a file of systemd/, in the first line that has it. */
static char *setting(const char *unit, const char *key) {
    const char *source = getenv("NC_SRCDIR");
    nc_auto_free char *path = nc_asprintf("%s/systemd/%s", source ? source : ".", unit);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (nc_file_read(path, (size_t)64 << 10, &text, NULL) < 0)
        fail_msg("%s cannot be read", path);
    for (char *rest = text.data, *line; (line = strsep(&rest, "\n"));)
        if (nc_starts_with(line, key))
            return nc_strdup(line + strlen(key));
    fail_msg("%s has no %s", unit, key);
    return NULL;
}

/* "16min", "15m", "10s", "30". */
static uint64_t parse_span(const char *text) {
    char *unit = NULL;
    const uint64_t n = strtoull(text, &unit, 10);

    assert_true(unit > text);
    if (nc_streq(unit, "min") || nc_streq(unit, "m"))
        return SECONDS(60 * n);
    assert_true(nc_streq(unit, "s") || !*unit);
    return SECONDS(n);
}

static uint64_t span(const char *unit, const char *key) {
    nc_auto_free char *text = setting(unit, key);

    return parse_span(text);
}

#define BOOTSTRAP "nodeclaimd-bootstrap.service.in"

static void test_the_bootstrap_ends_before_systemd_ends_it(void **state) {
    /* No deadline cuts these short: each of two programs is asked for its version at most once in
     * the attempt that the deadline meets, and a call over D-Bus and the last Event end after it.
     */
    const uint64_t overrun = 2 * NC_VERSION_TIMEOUT_USEC + SECONDS(5) + LAST_EVENT_USEC;
    nc_auto_free char *command = setting(BOOTSTRAP, "ExecStart=");
    const char *option = strstr(command, " --timeout ");

    (void)state;
    assert_non_null(option);
    assert_true(parse_span(option + strlen(" --timeout ")) == DEFAULT_TIMEOUT_USEC);
    assert_true(DEFAULT_TIMEOUT_USEC + overrun < span(BOOTSTRAP, "TimeoutStartSec="));
}

/* Each wait at its longest, one after the other: there is still a minute for the API server, and
 * cloud-init is waited for within the deadline. */
static void test_all_waits_fit_into_the_deadline(void **state) {
    const uint64_t waits = RELOAD_TIMEOUT_USEC + RESOLVER_TIMEOUT_USEC + 2 * NC_VERSION_TIMEOUT_USEC
                           + MIGRATE_TIMEOUT_USEC + DISKS_TIMEOUT_USEC + RELOAD_TIMEOUT_USEC
                           + CONTAINERD_TIMEOUT_USEC + IMPORT_TIMEOUT_USEC + UNIT_TIMEOUT_USEC;

    (void)state;
    assert_true(waits + SECONDS(60) < DEFAULT_TIMEOUT_USEC);
}

static void test_the_disks_unit_ends_first(void **state) {
    (void)state;
    assert_true(span("nodeclaimd-local-disks.service", "TimeoutStartSec=") + SECONDS(10)
                == DISKS_TIMEOUT_USEC);
}

/* The daemon waits for nobody before it is ready; what it may be given is time of the processor. It
 * must not be killed for a start that a watchdog of its own would still allow, and kubelet, which
 * waits for it, must not outwait the bootstrap. */
static void test_the_daemons_start(void **state) {
    const uint64_t start = span("nodeclaimd.service.in", "TimeoutStartSec=");

    (void)state;
    assert_true(start >= 2 * span("nodeclaimd.service.in", "WatchdogSec="));
    assert_true(start + UNIT_TIMEOUT_USEC < DEFAULT_TIMEOUT_USEC);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bootstrap_ends_before_systemd_ends_it),
        cmocka_unit_test(test_all_waits_fit_into_the_deadline),
        cmocka_unit_test(test_the_disks_unit_ends_first),
        cmocka_unit_test(test_the_daemons_start),
    };

    return run_group(tests, NULL, NULL);
}
