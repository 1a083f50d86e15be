/*
 * The console while a phase is tried: its first failure at once, then each minute; a mere wait from
 * the first minute on.
 */
#include "groups.h"
#include "host-test.h"

#include "bootstrap.h"
#include "nc/clock.h"
#include "virtual-clock.h"

#define SECOND 1000000u

static const struct nc_err refused = {
    .class = NC_ERR_TRANSIENT, .code = -111, .msg = "connection refused", .remedy = "check it"};

static unsigned count_lines(void) {
    nc_auto_free char *path = nc_path_below(root, "/dev/console");
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    unsigned n = 0;

    if (nc_file_read(path, 1 << 20, &text, NULL) < 0)
        return 0;
    for (const char *at = text.data; (at = strstr(at, "nodeclaimd: {")); at++)
        n++;
    return n;
}

static void start(struct nc_bootstrap *b, enum nc_phase p) {
    if (b->report.outcome == NC_PENDING) {
        b->started_mono_usec = nc_mono_usec();
        nc_report_start(&b->report, nc_now_usec(), 0);
    }
    nc_report_attempt(&b->report, p, nc_report_now(b));
    nc_publish(b);
}

static void fails(struct nc_bootstrap *b, enum nc_phase p) {
    nc_report_retrying(&b->report, p, &refused, nc_report_now(b));
    nc_publish(b);
}

static void test_a_failure_that_is_retried(void **state) {
    struct nc_app app = {.opts = {.root = root}};
    struct nc_bootstrap b = {.app = &app};

    (void)state;
    start(&b, NC_PHASE_IMDS);
    assert_int_equal(count_lines(), 0);
    fails(&b, NC_PHASE_IMDS);
    assert_int_equal(count_lines(), 1);
    for (unsigned passed = 0; passed < 58; passed += 2) {
        clock_skip(2 * SECOND);
        start(&b, NC_PHASE_IMDS);
        fails(&b, NC_PHASE_IMDS);
    }
    assert_int_equal(count_lines(), 1);
    clock_skip(3 * SECOND);
    fails(&b, NC_PHASE_IMDS);
    assert_int_equal(count_lines(), 2);
    nc_report_succeed(&b.report, NC_PHASE_IMDS, nc_report_now(&b));
    start(&b, NC_PHASE_USERDATA);
    clock_skip(120 * SECOND);
    nc_publish(&b);
    assert_int_equal(count_lines(), 2); /* it is well */
    fails(&b, NC_PHASE_USERDATA);
    assert_int_equal(count_lines(), 3); /* another phase's first */
    nc_report_done(&b.report);
}

/* Every change of the message is in status.json, but not on the console. */
static void test_a_phase_that_waits(void **state) {
    struct nc_app app = {.opts = {.root = root}};
    struct nc_bootstrap b = {.app = &app};

    (void)state;
    start(&b, NC_PHASE_REGISTER);
    for (unsigned passed = 0; passed < 130; passed++) {
        struct nc_err why = refused;
        (void)snprintf(why.msg, sizeof(why.msg), "not yet, line %u", passed / 7);
        nc_phase_waits(&b, NC_PHASE_REGISTER, &why);
        clock_skip(SECOND);
    }
    assert_int_equal(count_lines(), 3);
    nc_report_done(&b.report);
}

/* cloud-init's last stage, before kubelet starts: nothing has failed. */
static void test_a_wait(void **state) {
    struct nc_app app = {.opts = {.root = root}};
    struct nc_bootstrap b = {.app = &app};

    (void)state;
    start(&b, NC_PHASE_START);
    nc_report_set_waiting(&b.report, "CloudInit", "waiting for cloud-final.service");
    for (unsigned passed = 0; passed < 130; passed++) {
        nc_publish_console_in_time(&b);
        clock_skip(SECOND);
    }
    assert_int_equal(count_lines(), 2);
    nc_report_done(&b.report);
}

static void test_switched_off(void **state) {
    struct nc_app app = {.opts = {.root = root}};
    struct nc_bootstrap b = {.app = &app};

    (void)state;
    b.gather.has_config = true; /* report.console: false */
    start(&b, NC_PHASE_START);
    fails(&b, NC_PHASE_START);
    assert_int_equal(count_lines(), 0);
    nc_report_done(&b.report);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        host_test(test_a_failure_that_is_retried),
        host_test(test_a_phase_that_waits),
        host_test(test_a_wait),
        host_test(test_switched_off),
    };

    return run_group(tests, NULL, NULL);
}
