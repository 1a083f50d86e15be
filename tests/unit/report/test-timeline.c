/*
 * What people read of a status.json: to the byte for a good one, bounded and harmless for any
 * other.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/marks.h"
#include "nc/mem.h"
#include "nc/report.h"
#include "timeline-test.h"

static const char running[] =
    "{'outcome': 'running', 'node': 'n1', 'deadline': '2024-01-01T00:15:00Z',"
    " 'started': '2024-01-01T00:00:00Z',"
    " 'instance': {'id': 'i-1', 'type': 'm5.large', 'az': 'us-west-2a', 'lifeCycle': 'spot'},"
    " 'nodeClaim': {'name': 'default-x'},"
    " 'phases': [{'name': 'imds', 'outcome': 'succeeded', 'durationUsec': 3000, 'attempts': 1,"
    "             'started': '2024-01-01T00:00:00Z', 'error': null},"
    "            {'name': 'apply', 'outcome': 'skipped', 'durationUsec': 0, 'attempts': 0},"
    "            {'name': 'register', 'outcome': 'running', 'durationUsec': 27000, 'attempts': 3,"
    "             'error': {'class': 'auth', 'message': '401', 'remedy': 'look'}},"
    "            {'name': 'initialize', 'outcome': 'pending', 'durationUsec': 0, 'attempts': 0}],"
    " 'waiting': {'reason': 'NodeNotReady', 'message': 'cni'},"
    " 'cloudInit': {'waits': true, 'why': 'user-data is a shell script'},"
    " 'allocatable': {'predicted': {'cpu': '1930m', 'pods': 29, 'x': '0'}, 'actual': null,"
    "                 'differences': ['a', 'b']},"
    " 'warnings': ['w']}";

static void test_status(void **state) {
    (void)state;
    assert_text(
        running, nc_status_text,
        "bootstrap    running\n"
        "node         n1\n"
        "instance     i-1, m5.large, us-west-2a, spot\n"
        "nodeclaim    default-x\n"
        "cloud-init   kubelet starts after cloud-final.service: user-data is a shell script\n"
        "register     running, attempt 3, deadline 2024-01-01T00:15:00Z\n"
        "             auth: 401\n"
        "             remedy: look\n"
        "waiting      NodeNotReady: cni\n"
        "predicted    cpu=1930m pods=29\n"
        "difference   a\n"
        "             b\n"
        "warning      w\n");
}

/* Whether the unit starts again depends on the class; while it runs, it tries by itself. */
static void test_failed(void **state) {
    static const char failed[] = "{'outcome': '%s', 'phases': [{'name': 'plan', 'outcome': "
                                 "'failed', 'error': {'class': '%s', 'message': 'm'}}]}";
    static const struct {
        const char *outcome, *class;
        bool is_final;
    } rows[] = {{"failed", "config", true}, {"failed", "host", true},
                {"failed", "bug", true},    {"failed", "transient", false},
                {"failed", "auth", false},  {"running", "host", false}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *status = nc_asprintf(failed, rows[i].outcome, rows[i].class);
        nc_auto_free char *expected = nc_asprintf(
            "bootstrap    %s\nnode         -\ninstance     -, -, -, -\nnodeclaim    -\n"
            "plan         failed, attempt 0, deadline -\n             %s: m\n%s",
            rows[i].outcome, rows[i].class,
            !nc_streq(rows[i].outcome, "failed") ? ""
            : rows[i].is_final
                ? "             then: nothing is retried: replace the node where its user data "
                  "change, else systemctl restart nodeclaimd-bootstrap\n"
                : "             then: nodeclaimd-bootstrap.service starts again by itself, with "
                  "the same user data\n");
        assert_text(status, nc_status_text, expected);
    }
}

/* Marks stand around words of ours; what came from outside makes none. */
static void test_marks(void **state) {
    static const char json[] =
        "{\"outcome\":\"failed\",\"node\":\"a\\u0003b\",\"phases\":[{\"name\":"
        "\"\\u0004\",\"outcome\":\"succeeded\"}]}";
    nc_auto_value struct nc_value *v = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf status = NC_BUF_INIT, timeline = NC_BUF_INIT;

    (void)state;
    assert_int_equal(nc_json_parse(json, strlen(json), &v, NULL), 0);
    nc_status_text(v, &status);
    assert_string_equal(status.data,
                        "bootstrap    " NC_MARK_BAD "failed" NC_MARK_END "\nnode         a b\n"
                        "instance     -, -, -, -\nnodeclaim    -\n");
    nc_timeline_text(v, 0, &timeline);
    assert_string_equal(timeline.data,
                        "bootstrap of a b (-), started -: " NC_MARK_BAD "failed" NC_MARK_END "\n"
                        "                                                        " NC_MARK_GOOD
                        "succeeded" NC_MARK_END "\n=  0.00 ms  in all\n");
}

/* The startup gate, in both. */
#define SHUT                                                                                       \
    "{\"daemon\":{},\"fit\":{\"reason\":\"DaemonSetsNotReady\",\"message\":\"waiting for x\","     \
    "\"since\":\"A\",\"opened\":null"
#define IS_SHUT "fit          DaemonSetsNotReady: waiting for x; the gate is shut since A, "
#define REMEDY "\n             remedy: mend what is missing, or spec.fit\n"
static void test_fit(void **state) {
    static const char open[] = "{\"daemon\":{},\"fit\":{\"fit\":true,\"reason\":\"NothingMissing\","
                               "\"since\":\"A\",\"until\":\"C\",\"then\":\"open\",\"opened\":"
                               "\"B\"}}";

    (void)state;
    assert_text(open, print_timeline,
                "fit          NothingMissing: the gate opened at B, shut since A\n");
    assert_text(SHUT ",\"until\":\"C\",\"then\":\"open\"}}", print_timeline,
                IS_SHUT "at most until C" REMEDY);
    assert_text(SHUT ",\"until\":\"C\",\"then\":\"hold\"}}", print_timeline,
                IS_SHUT "until all is there" REMEDY);
    assert_text(SHUT ",\"then\":\"open\"}}", print_timeline, IS_SHUT "until all is there" REMEDY);
    assert_text("{\"fit\":7}", print_timeline, "no phases are known\n");
}

static void test_timeline(void **state) {
    (void)state;
    assert_text(running, print_timeline,
                "bootstrap of n1 (i-1), started 2024-01-01T00:00:00Z: running\n"
                "+  0.00 ms  imds         3.00 ms  ##..................  "
                "succeeded\n"
                "            apply                                       "
                "skipped\n"
                "+  3.00 ms  register       27 ms  ..##################  "
                "running (3 attempts)\n"
                "             auth: 401\n"
                "             remedy: look\n"
                "            initialize                                  "
                "pending\n"
                "=    30 ms  in all\n");
}

/* status.json has the phases in an order of its own; they are drawn as they ran. */
static void test_order(void **state) {
    static const char json[] =
        "{'phases': [{'name': 'config', 'durationUsec': 1000, 'attempts': 1},"
        " {'name': 'plan', 'durationUsec': 1000, 'attempts': 1},"
        " {'name': 'apply', 'durationUsec': 1000, 'attempts': 1},"
        " {'name': 'preflight', 'durationUsec': 7000, 'attempts': 1},"
        " {'name': 'start', 'attempts': 0}]}";
    static const char *const names[] = {"config", "preflight", "plan", "apply", "start"};
    nc_auto_free char *text = text_of(json, print_timeline);
    nc_auto_free char *svg = text_of(json, draw_svg);
    const char *at = text, *drawn = svg;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++) {
        at = strstr(at, names[i]);
        drawn = strstr(drawn, names[i]);
        if (!at || !drawn)
            fail_msg("%s is in another place:\n%s", names[i], text);
    }
    assert_non_null(strstr(text, "+  8.00 ms  plan "));
    assert_text("{'phases': [{'name': 'preflight'}, {'name': 'plan', 'outcome': 'failed'}]}",
                print_timeline,
                "bootstrap of an unknown node (-), started -: unknown\n"
                "            preflight                                   ?\n"
                "            plan                                        "
                "failed\n=  0.00 ms  in all\n");
}

static void test_nothing_is_known(void **state) {
    static const char *const empty[] = {
        "{}", "[]", "null", "7", "{'phases': []}", "{'phases': {}}"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(empty); i++) {
        assert_text(empty[i], print_timeline, "no phases are known\n");
        assert_text(empty[i], nc_status_text,
                    "bootstrap    unknown\nnode         -\ninstance     -, -, -, -\n"
                    "nodeclaim    -\n");
    }
}

static void test_other_types(void **state) {
    static const char odd[] =
        "{'outcome': 7, 'node': [], 'instance': 'x', 'nodeClaim': 1, 'deadline': {},"
        " 'phases': [1, {}, 'x', {'name': 3, 'outcome': 'failed', 'durationUsec': 'long',"
        " 'attempts': 'x', 'error': 'e'}, {'outcome': 'failed', 'attempts': -1,"
        " 'durationUsec': -5, 'error': {}}], 'waiting': 5,"
        " 'allocatable': [{}], 'warnings': {'a': 1}}";
    nc_auto_free char *status = text_of(odd, nc_status_text);
    nc_auto_free char *timeline = text_of(odd, print_timeline);

    (void)state;
    assert_non_null(strstr(status, "?            failed, attempt 0, deadline -\n"));
    assert_non_null(strstr(status, "error: ?\n"));
    assert_non_null(strstr(timeline, "=  0.00 ms  in all\n"));
}

static void test_absurd_durations(void **state) {
    static const char odd[] = "{'phases': [{'durationUsec': 9007199254740991},"
                              " {'durationUsec': 9007199254740991}, {'durationUsec': 1}]}";
    nc_auto_free char *text = text_of(odd, print_timeline);
    nc_auto_free char *full = text_of("{'phases': [{'durationUsec': 25000000}]}", print_timeline);

    (void)state;
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        assert_true(strcspn(line, "\n") <= 80);
    assert_non_null(strstr(full, "  25.0 s   ####################  ?\n"));
}

static void assert_harmless(const char *text) {
    for (const char *p = text; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\n') || *p == 0x7f)
            fail_msg("control character %d in %s", *p, text);
}

static void test_terminal_is_excluded(void **state) {
    static const char odd[] =
        "{'outcome': '\\u001b[2Jx', 'node': 'a\\nb\\r\\tc\\u007f\\u009bd', 'warnings': "
        "['\\u001b]0;t\\u0007'], 'phases': [{'name': '\\u001bn', 'outcome': 'failed', 'error': "
        "{'class': '\\u001b', 'message': 'l1\\nl2', 'remedy': '\\u0001'}}],"
        " 'waiting': {'reason': '\\n', 'message': '\\n'},"
        " 'allocatable': {'actual': {'\\u001bk': '\\u001bv'}, 'differences': ['\\b']}}";
    nc_auto_free char *status = text_of(odd, nc_status_text);
    nc_auto_free char *timeline = text_of(odd, print_timeline);

    (void)state;
    assert_harmless(status);
    assert_harmless(timeline);
    assert_non_null(strstr(status, "node         a b  c  d\n"));
    assert_non_null(strstr(status, "l1 l2"));
}

static void test_too_much(void **state) {
    struct nc_buf json = NC_BUF_INIT;

    (void)state;
    (void)nc_buf_puts(&json, "{\"warnings\":[");
    for (int i = 0; i < 5000; i++)
        (void)nc_buf_printf(&json, "%s\"w%d\"", i ? "," : "", i);
    (void)nc_buf_puts(&json, "],\"node\":\"");
    for (int i = 0; i < 100000; i++)
        (void)nc_buf_putc(&json, 'n');
    (void)nc_buf_puts(&json, "\",\"phases\":[");
    for (int i = 0; i < 5000; i++)
        (void)nc_buf_printf(&json, "%s{\"outcome\":\"failed\"}", i ? "," : "");
    (void)nc_buf_puts(&json, "]}");
    nc_auto_free char *status = text_of(json.data, nc_status_text);
    nc_auto_free char *timeline = text_of(json.data, print_timeline);
    assert_true(strlen(status) < 16384);
    assert_true(strlen(timeline) < 16384);
    assert_non_null(strstr(status, "and 4936 more\n"));
    nc_buf_done(&json);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_fit),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_nothing_is_known),
        cmocka_unit_test(test_other_types),
        cmocka_unit_test(test_absurd_durations),
        cmocka_unit_test(test_terminal_is_excluded),
        cmocka_unit_test(test_too_much),
    };

    return run_group(tests, NULL, NULL);
}
