/*
 * Reports: the bookkeeping of phases on a clock that the test moves, and each of its texts to the
 * byte.
 */
#include "base-test.h"
#include "groups.h"

#include <stdbool.h>

#include "nc/report.h"
#include "nc/str.h"
#include "nc/version.h"

#define T0 1704067200000000u /* 2024-01-01T00:00:00Z */
#define SECOND 1000000u

static const struct nc_err refused = {.class = NC_ERR_TRANSIENT,
                                      .code = -111,
                                      .msg = "imds: /latest/api/token: Connection refused",
                                      .remedy = "check that IMDS is enabled"};

static struct nc_value *status_of(const struct nc_report *r, uint64_t now) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_value struct nc_value *tree = nc_report_tree(r, now);
    struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    nc_json_write(&text, tree, 2);
    if (nc_json_parse(text.data, text.len, &v, &err) < 0)
        fail_msg("%s", err.msg);
    return v;
}

/* The path's value as compact JSON. */
static void assert_at(const struct nc_value *v, const char *path, const char *expected) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const struct nc_value *at = nc_value_path(v, path);

    if (!at)
        fail_msg("%s is not there", path);
    nc_json_write(&text, at, 0);
    if (!nc_streq(text.data, expected))
        fail_msg("%s: %s, expected %s", path, text.data, expected);
}

static void assert_phase(const struct nc_value *v, enum nc_phase p, const char *expected) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    const struct nc_value *list = nc_value_get(v, "phases");
    size_t i = 0;

    while (i < list->n && !nc_streq(nc_value_get_string(list->items[i], "name"), nc_phase_name(p)))
        i++;
    assert_true(i < list->n);
    nc_json_write(&text, list->items[i], 0);
    if (!nc_streq(text.data, expected))
        fail_msg("%s, expected %s", text.data, expected);
}

static void test_names(void **state) {
    static const char *const names[] = {"imds",       "userdata", "config",    "plan",
                                        "render",     "apply",    "preflight", "disks",
                                        "containerd", "start",    "register",  "initialize"};
    static const char *const outcomes[] = {"pending", "running", "succeeded", "failed", "skipped"};

    (void)state;
    for (unsigned i = 0; i < _NC_PHASE_MAX; i++)
        assert_string_equal(nc_phase_name((enum nc_phase)i), names[i]);
    for (unsigned i = 0; i < NC_ARRAY_SIZE(outcomes); i++)
        assert_string_equal(nc_outcome_name((enum nc_outcome)i), outcomes[i]);
    assert_string_equal(nc_phase_name(_NC_PHASE_MAX), "unknown");
    assert_string_equal(nc_outcome_name((enum nc_outcome)99), "unknown");
}

static void test_before_anything_is_known(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;

    (void)state;
    nc_report_start(&r, T0, T0 + 900 * SECOND);
    nc_auto_value struct nc_value *v = status_of(&r, T0);
    assert_at(v, "schema", "2");
    assert_at(v, "outcome", "\"running\"");
    assert_at(v, "node", "null");
    assert_at(v, "instance",
              "{\"id\":null,\"type\":null,\"az\":null,\"region\":null,\"lifeCycle\":null}");
    assert_at(v, "nodeClaim", "null");
    assert_at(v, "started", "\"2024-01-01T00:00:00Z\"");
    assert_at(v, "deadline", "\"2024-01-01T00:15:00Z\"");
    assert_at(v, "allocatable", "{\"predicted\":null,\"actual\":null,\"differences\":[]}");
    assert_at(v, "conditions", "[]");
    assert_at(v, "drain", "null");
    assert_at(v, "warnings", "[]");
    assert_at(v, "waiting", "null");
    assert_int_equal(nc_value_get(v, "phases")->n, _NC_PHASE_MAX - 2);
    assert_phase(v, NC_PHASE_PLAN,
                 "{\"name\":\"plan\",\"started\":null,\"durationUsec\":0,\"attempts\":0,"
                 "\"outcome\":\"pending\",\"error\":null}");
}

static void test_a_phase_is_retried(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;

    (void)state;
    nc_report_start(&r, T0, T0 + 900 * SECOND);
    nc_report_attempt(&r, NC_PHASE_IMDS, T0);
    nc_report_retrying(&r, NC_PHASE_IMDS, &refused, T0 + 1000);
    nc_auto_value struct nc_value *first = status_of(&r, T0 + 2 * SECOND);
    assert_phase(
        first, NC_PHASE_IMDS,
        "{\"name\":\"imds\",\"started\":\"2024-01-01T00:00:00Z\",\"durationUsec\":2000000,"
        "\"attempts\":1,\"outcome\":\"running\",\"error\":{\"class\":\"transient\",\"code\":"
        "-111,\"message\":\"imds: /latest/api/token: Connection refused\",\"remedy\":"
        "\"check that IMDS is enabled\"}}");
    nc_report_attempt(&r, NC_PHASE_IMDS, T0 + 3 * SECOND);
    nc_report_succeed(&r, NC_PHASE_IMDS, T0 + 4 * SECOND);
    nc_auto_value struct nc_value *second = status_of(&r, T0 + 9 * SECOND);
    assert_phase(second, NC_PHASE_IMDS,
                 "{\"name\":\"imds\",\"started\":\"2024-01-01T00:00:00Z\",\"durationUsec\":4000000,"
                 "\"attempts\":2,\"outcome\":\"succeeded\",\"error\":null}");
}

/* Asked before its turn: what was said of it until then is not its beginning. */
static void test_a_phase_is_postponed(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;

    (void)state;
    nc_report_start(&r, T0, T0 + 900 * SECOND);
    nc_report_attempt(&r, NC_PHASE_PLAN, T0);
    nc_report_retrying(&r, NC_PHASE_PLAN, &refused, T0 + SECOND);
    nc_report_attempt(&r, NC_PHASE_PLAN, T0 + SECOND);
    nc_report_postpone(&r, NC_PHASE_PLAN, false);
    nc_report_attempt(&r, NC_PHASE_PREFLIGHT, T0 + 2 * SECOND);
    assert_int_equal(nc_report_current(&r), NC_PHASE_PREFLIGHT);
    nc_report_succeed(&r, NC_PHASE_PREFLIGHT, T0 + 3 * SECOND);
    nc_report_attempt(&r, NC_PHASE_PLAN, T0 + 4 * SECOND);
    assert_int_equal(nc_report_current(&r), NC_PHASE_PLAN);
    nc_auto_value struct nc_value *v = status_of(&r, T0 + 5 * SECOND);
    assert_phase(v, NC_PHASE_PLAN,
                 "{\"name\":\"plan\",\"started\":\"2024-01-01T00:00:04Z\",\"durationUsec\":1000000,"
                 "\"attempts\":1,\"outcome\":\"running\",\"error\":null}");
}

static void test_the_clock_steps_back(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;

    (void)state;
    nc_report_start(&r, T0, 0);
    nc_report_attempt(&r, NC_PHASE_IMDS, T0);
    nc_report_succeed(&r, NC_PHASE_IMDS, T0 - 5 * SECOND);
    nc_auto_value struct nc_value *v = status_of(&r, T0 - 5 * SECOND);
    assert_phase(v, NC_PHASE_IMDS,
                 "{\"name\":\"imds\",\"started\":\"2024-01-01T00:00:00Z\",\"durationUsec\":0,"
                 "\"attempts\":1,\"outcome\":\"succeeded\",\"error\":null}");
    assert_at(v, "deadline", "null");
}

static void test_current(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;

    (void)state;
    nc_report_start(&r, T0, 0);
    assert_int_equal(nc_report_current(&r), NC_PHASE_IMDS);
    nc_report_attempt(&r, NC_PHASE_IMDS, T0);
    nc_report_succeed(&r, NC_PHASE_IMDS, T0);
    nc_report_skip(&r, NC_PHASE_USERDATA);
    assert_int_equal(nc_report_current(&r), NC_PHASE_IMDS);
    nc_report_attempt(&r, NC_PHASE_CONFIG, T0);
    assert_int_equal(nc_report_current(&r), NC_PHASE_CONFIG);
    nc_report_fail(&r, NC_PHASE_REGISTER, &refused, T0 + SECOND);
    assert_int_equal(nc_report_current(&r), NC_PHASE_REGISTER);
    assert_int_equal(r.outcome, NC_FAILED);
}

static void test_console(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf good = NC_BUF_INIT, bad = NC_BUF_INIT;
    struct nc_err multi = refused;

    (void)state;
    r.node = nc_strdup("ip-10-0-0-1");
    r.instance_id = nc_strdup("i-1");
    nc_report_start(&r, T0, 0);
    nc_report_attempt(&r, NC_PHASE_INITIALIZE, T0);
    nc_report_succeed(&r, NC_PHASE_INITIALIZE, T0 + SECOND);
    nc_report_finish(&r, T0 + SECOND);
    for (size_t i = 0; i < 5; i++)
        nc_strv_addf(&r.warnings, "%zu", i);
    nc_report_console(&r, T0 + 9 * SECOND, &good);
    assert_string_equal(good.data,
                        "nodeclaimd: {\"outcome\":\"succeeded\",\"phase\":\"initialize\","
                        "\"duration_usec\":1000000,\"node\":\"ip-10-0-0-1\",\"instance\":\"i-1\","
                        "\"warnings\":[\"0\",\"1\",\"2\",\"3\"],\"at\":\"2024-01-01T00:00:09Z\"}");
    nc_strv_done(&r.warnings);
    (void)snprintf(multi.msg, sizeof(multi.msg), "two\nlines\x1b[2J");
    nc_report_fail(&r, NC_PHASE_REGISTER, &multi, T0 + 2 * SECOND);
    nc_report_console(&r, T0 + 9 * SECOND, &bad);
    assert_string_equal(bad.data,
                        "nodeclaimd: {\"outcome\":\"failed\",\"phase\":\"register\",\"class\":"
                        "\"transient\",\"code\":-111,\"message\":\"two\\nlines\\u001b[2J\","
                        "\"remedy\":\"check that IMDS is enabled\",\"attempts\":0,"
                        "\"duration_usec\":2000000,\"node\":\"ip-10-0-0-1\",\"instance\":\"i-1\","
                        "\"at\":\"2024-01-01T00:00:09Z\"}");
}

/* While it runs: the attempt, what it waits for, how long it has taken so far. */
static void test_console_in_between(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf line = NC_BUF_INIT;

    (void)state;
    nc_report_start(&r, T0, 0);
    nc_report_attempt(&r, NC_PHASE_IMDS, T0);
    nc_report_retrying(&r, NC_PHASE_IMDS, &refused, T0 + SECOND);
    nc_report_attempt(&r, NC_PHASE_IMDS, T0 + SECOND);
    nc_report_set_waiting(&r, "SystemBus", "waiting for the system bus");
    nc_report_console(&r, T0 + 3 * SECOND, &line);
    assert_non_null(strstr(line.data, "\"outcome\":\"running\",\"phase\":\"imds\""));
    assert_non_null(strstr(line.data, "\"remedy\":\"check that IMDS is enabled\",\"attempts\":2,"
                                      "\"waiting\":\"waiting for the system bus\","
                                      "\"duration_usec\":3000000,"));
}

/* Whatever there is to say, the annotation is complete JSON of at most 2 KiB. */
static void test_annotation_is_bounded(void **state) {
    static const char *const gone[] = {"differences", "remedy", "message"};

    (void)state;
    for (unsigned size = 0; size < 4; size++) {
        nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        nc_auto_value struct nc_value *v = NULL;
        struct nc_err err = {.class = NC_ERR_HOST, .code = -5, .msg = "m", .remedy = "r"};
        nc_strv_add(&r.differences, "small");
        if (size > 0)
            for (int i = 0; i < 100; i++)
                nc_strv_add(&r.differences, "memory: 1Gi less than what was planned for it");
        if (size > 1) /* each becomes six characters */
            memset(err.remedy, '\x01', sizeof(err.remedy) - 1);
        if (size > 1)
            memset(err.msg, size > 2 ? '\x01' : 'm', sizeof(err.msg) - 1);
        nc_report_start(&r, T0, 0);
        nc_report_fail(&r, NC_PHASE_IMDS, &err, T0);
        nc_report_annotation(&r, &text);
        assert_in_range(text.len, 1, 2048);
        assert_int_equal(nc_json_parse(text.data, text.len, &v, NULL), 0);
        for (unsigned i = 0; i < 3; i++)
            if (!nc_value_get(v, gone[i]) != (i < size))
                fail_msg("size %u: %s", size, text.data);
        assert_string_equal(nc_value_get_string(v, "outcome"), "failed");
    }
}

static void test_annotation(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)state;
    nc_report_start(&r, T0, 0);
    nc_report_attempt(&r, NC_PHASE_IMDS, T0);
    nc_report_succeed(&r, NC_PHASE_IMDS, T0 + 5);
    nc_report_finish(&r, T0 + 5);
    nc_report_annotation(&r, &text);
    nc_auto_free char *expected =
        nc_asprintf("{\"outcome\":\"succeeded\",\"phase\":\"imds\",\"duration_usec\":5,"
                    "\"node\":null,\"instance\":null,\"version\":\"%s\","
                    "\"phases_usec\":{\"imds\":5},\"memory\":null}",
                    nc_version);
    assert_string_equal(text.data, expected);
    r.actual = nc_value_new_map();
    nc_value_set_string(r.actual, "memory", "6903Mi");
    nc_buf_clear(&text);
    nc_report_annotation(&r, &text);
    assert_non_null(strstr(text.data, ",\"memory\":\"6903Mi\"}"));
}

static void test_metrics(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    unsigned lines = 0;

    (void)state;
    nc_report_start(&r, T0, 0);
    nc_report_attempt(&r, NC_PHASE_APPLY, T0);
    nc_report_attempt(&r, NC_PHASE_APPLY, T0);
    nc_report_succeed(&r, NC_PHASE_APPLY, T0 + 1500042);
    r.unsupported = 3;
    nc_report_metrics(&r, &text);
    assert_non_null(strstr(
        text.data, "nodeclaimd_bootstrap_phase_duration_seconds{phase=\"apply\"} 1.500042\n"));
    assert_non_null(
        strstr(text.data, "nodeclaimd_bootstrap_phase_attempts_total{phase=\"apply\"} 2\n"));
    assert_non_null(strstr(text.data, "nodeclaimd_bootstrap_outcome{outcome=\"running\"} 1\n"));
    assert_non_null(strstr(text.data, "nodeclaimd_bootstrap_outcome{outcome=\"failed\"} 0\n"));
    for (const char *p = text.data; (p = strchr(p, '\n')); p++)
        lines++;
    assert_non_null(strstr(text.data, "nodeclaimd_bootstrap_unsupported_fields 3\n"));
    assert_int_equal(lines, 2 * (2 + _NC_PHASE_MAX - 2) + 2 + 3 + 2 + 3);
}

/* The error of a phase is shown by class until the phase has succeeded. */
static void test_metrics_of_an_error(void **state) {
    static const char sample[] =
        "nodeclaimd_bootstrap_phase_error{phase=\"preflight\",class=\"auth\"} 1\n";
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf during = NC_BUF_INIT, after = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    nc_err_set(&err, NC_ERR_AUTH, 401, "refused");
    nc_report_start(&r, T0, 0);
    nc_report_attempt(&r, NC_PHASE_PREFLIGHT, T0);
    nc_report_retrying(&r, NC_PHASE_PREFLIGHT, &err, T0 + 1);
    nc_report_metrics(&r, &during);
    assert_non_null(strstr(during.data, sample));
    nc_report_succeed(&r, NC_PHASE_PREFLIGHT, T0 + 2);
    nc_report_metrics(&r, &after);
    assert_null(strstr(after.data, "phase_error{"));
}

static struct nc_value *parse(const char *text) {
    struct nc_value *v = NULL;

    assert_int_equal(nc_json_parse(text, strlen(text), &v, NULL), 0);
    return v;
}

static void read_whole_claim(struct nc_report *r, struct nc_plan *plan) {
    struct nc_facts facts = {.instance_id = (char *)(uintptr_t) "i-1",
                             .instance_type = (char *)(uintptr_t) "m5.large",
                             .purchase_option = NC_PURCHASE_SPOT};
    struct nc_claim claim = {.name = (char *)(uintptr_t) "default-x",
                             .uid = (char *)(uintptr_t) "u-1"};

    nc_report_set_facts(r, &facts);
    nc_report_set_plan(r, plan);
    nc_report_set_claim(r, &claim, "document");
}

static void test_everything_is_known(void **state) {
    nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;
    nc_cleanup(nc_plan_done) struct nc_plan plan = NC_PLAN_INIT;
    nc_auto_value struct nc_value *node =
        parse("{\"status\":{\"allocatable\":{\"cpu\":\"1930m\",\"pods\":\"29\"},\"capacity\":{},"
              "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"KubeletReady\","
              "\"message\":\"long\"},{\"type\":\"BootstrapComplete\",\"status\":\"False\"},7]}}");

    (void)state;
    plan.node_name = nc_strdup("n");
    plan.allocatable = (struct nc_resources){1930, (int64_t)6903 << 20, -1, 29};
    nc_strv_add(&plan.warnings, "careful");
    nc_report_start(&r, T0, 0);
    read_whole_claim(&r, &plan);
    read_whole_claim(&r, &plan); /* a second attempt says nothing twice */
    nc_report_set_node(&r, node, &plan, NULL);
    nc_report_set_node(&r, node, &plan, NULL);
    r.waiting_reason = nc_strdup("NodeNotReady");
    nc_auto_value struct nc_value *v = status_of(&r, T0);
    assert_at(v, "node", "\"n\"");
    assert_at(v, "instance.lifeCycle", "\"spot\"");
    assert_at(v, "instance.az", "null");
    assert_at(v, "nodeClaim", "{\"name\":\"default-x\",\"uid\":\"u-1\",\"source\":\"document\"}");
    assert_at(v, "allocatable.predicted",
              "{\"cpu\":\"1930m\",\"memory\":\"6903Mi\",\"pods\":\"29\"}");
    assert_at(v, "allocatable.actual", "{\"cpu\":\"1930m\",\"pods\":\"29\"}");
    assert_at(v, "conditions",
              "[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"KubeletReady\"},{}]");
    assert_at(v, "warnings", "[\"careful\"]");
    assert_at(v, "waiting", "{\"reason\":\"NodeNotReady\",\"message\":null}");
}

static void test_a_node_that_says_nothing(void **state) {
    static const char *const nodes[] = {"{}", "{\"status\":{}}", "[]",
                                        "{\"status\":{\"allocatable\":[1],\"conditions\":7}}",
                                        "{\"status\":{\"allocatable\":{},\"conditions\":{}}}"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(nodes); i++) {
        nc_cleanup(nc_report_done) struct nc_report r = NC_REPORT_INIT;
        const struct nc_plan plan = NC_PLAN_INIT;
        nc_auto_value struct nc_value *node = parse(nodes[i]);
        nc_report_set_node(&r, node, &plan, NULL);
        assert_null(r.actual);
        assert_int_equal(r.conditions->n, 0);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_before_anything_is_known),
        cmocka_unit_test(test_a_phase_is_retried),
        cmocka_unit_test(test_a_phase_is_postponed),
        cmocka_unit_test(test_the_clock_steps_back),
        cmocka_unit_test(test_current),
        cmocka_unit_test(test_console),
        cmocka_unit_test(test_console_in_between),
        cmocka_unit_test(test_annotation),
        cmocka_unit_test(test_annotation_is_bounded),
        cmocka_unit_test(test_metrics),
        cmocka_unit_test(test_metrics_of_an_error),
        cmocka_unit_test(test_everything_is_known),
        cmocka_unit_test(test_a_node_that_says_nothing),
    };

    return run_group(tests, NULL, NULL);
}
