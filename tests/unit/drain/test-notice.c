/*
 * What announces an ending, as EC2 and people word it: what is taken, and what is refused.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "nc/mem.h"
#include "nc/notice.h"
#include "nc/time.h"

#define NOW_USEC (1548060000ull * 1000000) /* 2019-01-21T08:40:00Z */

static const char *acted_id; /* of the event that is acted upon */

static int read_notice(enum nc_source source, const char *data, size_t n, uint64_t now_usec,
                       struct nc_notice *ret, struct nc_err *err) {
    static const struct nc_drain_settings rules = {
        .policy = {[NC_SOURCE_MAINTENANCE] = NC_POLICY_DRAIN},
        .by_code = {[NC_MAINTENANCE_REBOOT] = NC_POLICY_IGNORE}};
    const struct nc_buf body = {.data = (char *)data, .len = n};
    const struct nc_notice_answer a = {source, &body, now_usec, &rules, acted_id};

    return nc_notice_read(&a, ret, err);
}

static const char *text_of(uint64_t usec) {
    static char text[32];

    if (!usec)
        return "-";
    nc_time_format(usec, text);
    return text;
}

static void test_spot(void **state) {
    static const struct {
        const char *body, *id, *action;
    } rows[] = {
        {"{\"action\":\"terminate\",\"time\":\"2026-01-02T03:04:05Z\"}",
         "spot-terminate-2026-01-02T03:04:05Z", "terminate"},
        {" { \"time\" : \"2017-09-18T08:22:00Z\", \"action\" : \"stop\" }\n",
         "spot-stop-2017-09-18T08:22:00Z", "stop"},
        {"{\"action\":\"hibernate\",\"time\":\"2017-09-18T08:22:00.5Z\",\"later\":1}",
         "spot-hibernate-2017-09-18T08:22:00Z", "hibernate"},
        {"{\"action\":\"stop\",\"time\":\"1970-01-01T00:00:00Z\"}",
         "spot-stop-1970-01-01T00:00:00Z", "stop"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_notice n = {0};
        assert_int_equal(
            read_notice(NC_SOURCE_SPOT, rows[i].body, strlen(rows[i].body), NOW_USEC, &n, NULL), 1);
        assert_int_equal(n.source, NC_SOURCE_SPOT);
        assert_string_equal(n.id, rows[i].id);
        assert_string_equal(n.action, rows[i].action);
        assert_true(n.deadline_usec > 0);
        assert_false(n.is_force_delete_time);
        assert_int_equal(n.begin_usec, 0);
    }
}

static int read_maintenance(const char *data, size_t n, struct nc_notice *ret, struct nc_err *err) {
    return read_notice(NC_SOURCE_MAINTENANCE, data, n, NOW_USEC, ret, err);
}

static int read_any(enum nc_source s, const char *data, size_t n, struct nc_notice *ret,
                    struct nc_err *err) {
    return nc_sources[s].path ? read_notice(s, data, n, NOW_USEC, ret, err)
                              : nc_notice_read_request(data, n, s, ret, err);
}

#define EVENT(more)                                                                                \
    "{\"NotBefore\":\"21 Jan 2019 09:00:43 GMT\",\"Code\":\"system-reboot\","                      \
    "\"EventId\":\"instance-event-1\"" more "}"

/* Each is refused as the peer's fault, says what, and leaves the notice as it was. */
static void test_refused(void **state) {
    static const struct {
        enum nc_source source;
        const char *body, *expected;
    } rows[] = {
        {NC_SOURCE_SPOT, "", "spot/instance-action: "},
        {NC_SOURCE_SPOT, "terminate", "spot/instance-action: "},
        {NC_SOURCE_SPOT, "[]", "an object is needed"},
        {NC_SOURCE_SPOT, "{\"action\":\"terminate\"", "spot/instance-action: "},
        {NC_SOURCE_SPOT, "{}", "action: found nothing"},
        {NC_SOURCE_SPOT, "{\"action\":\"reboot\",\"time\":\"2026-01-02T03:04:05Z\"}",
         "action: found 'reboot'"},
        {NC_SOURCE_SPOT, "{\"action\":[],\"time\":\"2026-01-02T03:04:05Z\"}",
         "action: found another type"},
        {NC_SOURCE_SPOT, "{\"action\":\"stop\"}", "time: found nothing"},
        {NC_SOURCE_SPOT, "{\"action\":\"stop\",\"time\":1767323045}", "time: found '1767323045'"},
        {NC_SOURCE_SPOT, "{\"action\":\"stop\",\"time\":\"2026-13-02T03:04:05Z\"}",
         "time: found '2026-13"},
        {NC_SOURCE_SPOT, "{\"action\":\"stop\",\"time\":\"now\"}", "time: found 'now'"},
        {NC_SOURCE_REBALANCE, "", "rebalance: "},
        {NC_SOURCE_REBALANCE, "{}", "noticeTime: found nothing"},
        {NC_SOURCE_REBALANCE, "{\"noticeTime\":\"soon\"}", "noticeTime: found 'soon'"},
        {NC_SOURCE_REBALANCE, "[\"2026-01-02T03:04:05Z\"]", "an object is needed"},
        {NC_SOURCE_MAINTENANCE, "{}", "a list is needed"},
        {NC_SOURCE_MAINTENANCE, "[1]", "event 1: an object is needed"},
        {NC_SOURCE_MAINTENANCE, "[{}]", "event 1: EventId: found nothing"},
        {NC_SOURCE_MAINTENANCE, "[{\"State\":\"completed\"},{\"State\":1}]",
         "event 2: State: found '1'"},
        {NC_SOURCE_MAINTENANCE, "[{\"Description\":[]}]",
         "event 1: Description: found another type"},
        {NC_SOURCE_MAINTENANCE, "[{\"EventId\":\"\"}]", "event 1: EventId: found ''"},
        {NC_SOURCE_MAINTENANCE, "[{\"EventId\":\"a\\u00e4\"}]", "event 1: EventId: found "},
        {NC_SOURCE_MAINTENANCE, "[{\"EventId\":\"a\"}]", "event 1: Code: found nothing"},
        {NC_SOURCE_MAINTENANCE, "[{\"EventId\":\"a\",\"Code\":\"much-too-long-for-any-code\"}]",
         "event 1: Code: found "},
        {NC_SOURCE_MAINTENANCE, "[{\"EventId\":\"a\",\"Code\":\"b\"}]",
         "event 1: NotBefore: found nothing"},
        {NC_SOURCE_MAINTENANCE,
         "[{\"EventId\":\"a\",\"Code\":\"b\",\"NotBefore\":\"2019-01-21T09:00:43Z\"}]",
         "event 1: NotBefore: found '2019"},
        {NC_SOURCE_MAINTENANCE,
         "[{\"EventId\":\"a\",\"Code\":\"b\",\"NotBefore\":\"31 Feb 2019 09:00:43 GMT\"}]",
         "event 1: NotBefore: found '31 Feb"},
        {NC_SOURCE_MAINTENANCE,
         "[{\"EventId\":\"a\",\"Code\":\"b\",\"NotBefore\":\"021 Jan 2019 09:00:43 GMT\"}]",
         "event 1: NotBefore: found '021"},
        {NC_SOURCE_AUTOSCALING, "", "target-lifecycle-state: unknown state: ''"},
        {NC_SOURCE_AUTOSCALING, "terminated", "unknown state: 'terminated'"},
        {NC_SOURCE_AUTOSCALING, "Terminated now", "unknown state"},
        {NC_SOURCE_AUTOSCALING, "Terminatex", "unknown state"},
        {NC_SOURCE_AUTOSCALING, "<html>", "unknown state"},
        {NC_SOURCE_REQUEST, "", "drain request: "},
        {NC_SOURCE_REQUEST, "[]", "an object is needed"},
        {NC_SOURCE_REQUEST, "{\"mode\":\"graceful\"}", "id: found nothing"},
        {NC_SOURCE_REQUEST, "{\"id\":\"\",\"mode\":\"graceful\"}", "id: found ''"},
        {NC_SOURCE_REQUEST, "{\"id\":\"a\\nb\",\"mode\":\"graceful\"}", "id: found "},
        {NC_SOURCE_REQUEST,
         "{\"id\":\"12345678901234567890123456789012345678901234567890123456789012345\","
         "\"mode\":\"graceful\"}",
         "id: found "},
        {NC_SOURCE_REQUEST, "{\"id\":\"a\"}", "mode: found nothing"},
        {NC_SOURCE_REQUEST, "{\"id\":\"a\",\"mode\":\"force\"}", "mode: found 'force'"},
        {NC_SOURCE_REQUEST, "{\"id\":\"a\",\"mode\":\"deadline\"}", "deadline: found nothing"},
        {NC_SOURCE_REQUEST, "{\"id\":\"a\",\"mode\":\"deadline\",\"deadline\":\"5m\"}",
         "deadline: found '5m'"},
        {NC_SOURCE_REQUEST, "{\"id\":\"a\",\"mode\":\"graceful\",\"deadline\":5}",
         "a deadline needs \"mode\": \"deadline\""},
        {NC_SOURCE_REQUEST,
         "{\"id\":\"a\",\"mode\":\"cordon\",\"deadline\":\"2026-01-02T04:04:05Z\"}",
         "a deadline needs \"mode\": \"deadline\""},
        {NC_SOURCE_REQUEST, "{\"id\":\"a\",\"mode\":\"graceful\",\"reason\":7}",
         "reason: found '7'"},
        {NC_SOURCE_REQUEST, "{\"id\":\"a\",\"mode\":\"graceful\",\"reason\":\"a\\nb\"}",
         "reason: found "},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_notice n = {.id = "untouched"};
        struct nc_err err = NC_ERR_INIT;
        assert_true(read_any(rows[i].source, rows[i].body, strlen(rows[i].body), &n, &err) < 0);
        assert_int_equal(err.class, NC_ERR_PROTOCOL);
        if (!strstr(err.msg, rows[i].expected))
            fail_msg("row %zu: %s\n  says not %s", i, err.msg, rows[i].expected);
        assert_string_equal(n.id, "untouched");
        assert_true(read_any(rows[i].source, rows[i].body, strlen(rows[i].body), &n, NULL) < 0);
    }
}

static void test_too_large(void **state) {
    static char body[(64 << 10) + 1];
    struct nc_notice n = {0};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    memset(body, ' ', sizeof(body));
    body[0] = '{';
    body[4096] = '}';
    assert_int_equal(read_notice(NC_SOURCE_SPOT, body, 4097, NOW_USEC, &n, &err), -EFBIG);
    assert_int_equal(read_notice(NC_SOURCE_REBALANCE, body, 4097, NOW_USEC, &n, &err), -EFBIG);
    assert_int_equal(read_any(NC_SOURCE_REQUEST, body, 4097, &n, &err), -EFBIG);
    body[0] = '[';
    body[sizeof(body) - 1] = ']';
    assert_int_equal(read_maintenance(body, sizeof(body), &n, &err), -EFBIG);
    assert_int_equal(err.class, NC_ERR_PROTOCOL);
    body[4096] = ' ';
    body[sizeof(body) - 2] = ']'; /* as much as is fetched is read */
    assert_int_equal(read_maintenance(body, sizeof(body) - 1, &n, &err), 0);
}

static void test_rebalance(void **state) {
    const char *body = "{\"noticeTime\":\"2026-01-02T03:04:05Z\"}";
    struct nc_notice n = {0};

    (void)state;
    assert_int_equal(read_notice(NC_SOURCE_REBALANCE, body, strlen(body), NOW_USEC, &n, NULL), 1);
    assert_int_equal(n.source, NC_SOURCE_REBALANCE);
    assert_string_equal(n.id, "rebalance-2026-01-02T03:04:05Z");
    assert_int_equal(n.deadline_usec, 0);
}

#define AT(when, code, id)                                                                         \
    "{\"NotBefore\":\"" when " GMT\",\"Code\":\"" code "\",\"EventId\":\"" id "\"}"

/* One that cannot be read is named, and hides none of the others. */
static void test_unreadable_event(void **state) {
    static const struct {
        const char *body;
        int r;
        const char *id, *expected;
    } rows[] = {
        {"[{\"Code\":\"system-reboot\"}," EVENT("") "]", 1, "instance-event-1",
         "event 1: EventId: found nothing"},
        {"[" EVENT("") ",7]", 1, "instance-event-1", "event 2: an object is needed"},
        {"[" EVENT(",\"State\":\"completed\"") ",7]", -EBADMSG, "", "event 2: an object is needed"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_notice n = {0};
        struct nc_err err = NC_ERR_INIT;
        assert_int_equal(read_maintenance(rows[i].body, strlen(rows[i].body), &n, &err), rows[i].r);
        assert_string_equal(n.id, rows[i].id);
        assert_non_null(strstr(err.msg, rows[i].expected));
        assert_int_equal(read_maintenance(rows[i].body, strlen(rows[i].body), &n, NULL), rows[i].r);
    }
}

static void test_what_ends_nothing(void **state) {
    static const struct {
        enum nc_source source;
        const char *action;
        bool returns, is_gentle;
        enum nc_policy policy, own; /* where maintenance drains; where some have their own */
    } rows[] = {
        {NC_SOURCE_SPOT, "terminate", false, false, 0, 0},
        {NC_SOURCE_SPOT, "stop", false, false, 0, 0},
        {NC_SOURCE_SPOT, "hibernate", true, true, 0, 0},
        {NC_SOURCE_AUTOSCALING, "Terminated", false, false, 0, 0},
        {NC_SOURCE_MAINTENANCE, "instance-stop", false, false, NC_POLICY_DRAIN, NC_POLICY_REPORT},
        {NC_SOURCE_MAINTENANCE, "instance-retirement", false, false, NC_POLICY_DRAIN,
         NC_POLICY_CORDON},
        {NC_SOURCE_MAINTENANCE, "instance-reboot", true, false, NC_POLICY_DRAIN, NC_POLICY_CORDON},
        {NC_SOURCE_MAINTENANCE, "system-reboot", true, false, NC_POLICY_DRAIN, NC_POLICY_CORDON},
        {NC_SOURCE_MAINTENANCE, "system-maintenance", true, false, NC_POLICY_CORDON,
         NC_POLICY_DRAIN},
        {NC_SOURCE_MAINTENANCE, "later-code", true, false, NC_POLICY_DRAIN, NC_POLICY_CORDON},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_notice n = {.source = rows[i].source};
        struct nc_drain_settings rules = {.policy = {[NC_SOURCE_MAINTENANCE] = NC_POLICY_DRAIN}};
        (void)snprintf(n.action, sizeof(n.action), "%s", rows[i].action);
        assert_int_equal(nc_notice_returns(&n), rows[i].returns);
        assert_int_equal(nc_notice_is_gentle(&n), rows[i].is_gentle);
        if (!rows[i].policy)
            continue;
        assert_int_equal(nc_maintenance_policy(&rules, n.action), rows[i].policy);
        rules.policy[NC_SOURCE_MAINTENANCE] = NC_POLICY_CORDON;
        rules.by_code[NC_MAINTENANCE_STOP] = NC_POLICY_REPORT;
        rules.by_code[NC_MAINTENANCE_HOST] = NC_POLICY_DRAIN;
        assert_int_equal(nc_maintenance_policy(&rules, n.action), rows[i].own);
    }
}

static void test_maintenance(void **state) {
    static const struct {
        const char *body;
        int r;
        const char *id, *deadline, *begin;
    } rows[] = {
        {"", 0, "", "-", "-"},
        {" \r\n", 0, "", "-", "-"},
        {"[]", 0, "", "-", "-"},
        {"[" EVENT("") "]", 1, "instance-event-1", "2019-01-21T09:00:43Z", "2019-01-21T08:45:43Z"},
        {"[" EVENT(",\"State\":\"active\",\"NotAfter\":\"x\"") "]", 1, "instance-event-1",
         "2019-01-21T09:00:43Z", "2019-01-21T08:45:43Z"},
        {"[" EVENT(",\"State\":\"completed\"") "]", 0, "", "-", "-"},
        {"[" EVENT(",\"State\":\"canceled\"") "]", 0, "", "-", "-"},
        {"[" EVENT(",\"Description\":\"[Completed] reboot\"") "]", 0, "", "-", "-"},
        {"[" EVENT(",\"Description\":\"[Canceled] reboot\"") "]", 0, "", "-", "-"},
        {"[" EVENT(",\"Description\":\"reboot [Completed]\"") "]", 1, "instance-event-1",
         "2019-01-21T09:00:43Z", "2019-01-21T08:45:43Z"},
        /* the first of two; a day of one digit */
        {"[{\"NotBefore\":\"2 Feb 2019 00:00:00 GMT\",\"Code\":\"b\",\"EventId\":\"later\"},"
         "{\"NotBefore\":\"1 Feb 2019 00:00:00 GMT\",\"Code\":\"b\",\"EventId\":\"first\"},"
         "{\"NotBefore\":\"01 Jan 2019 00:00:00 GMT\",\"Code\":\"b\",\"EventId\":\"over\","
         "\"State\":\"completed\"}]",
         1, "first", "2019-02-01T00:00:00Z", "2019-01-31T23:45:00Z"},
        /* it has begun: nobody knows when it ends */
        {"[" AT("21 Jan 2019 08:40:00", "b", "now") "]", 1, "now", "-", "2019-01-21T08:40:00Z"},
        /* it hides none that is ahead */
        {"[" AT("21 Jan 2019 06:40:00", "system-reboot",
                "begun") "," AT("21 Jan 2019 08:41:40", "instance-stop", "stop") "]",
         1, "stop", "2019-01-21T08:41:40Z", "2019-01-21T08:26:40Z"},
        /* what is drained for before what is cordoned or ignored for, once both are due */
        {"[" AT("21 Jan 2019 08:41:00", "system-maintenance",
                "cordon") "," AT("21 Jan 2019 08:50:00", "system-reboot", "drain") "]",
         1, "drain", "2019-01-21T08:50:00Z", "2019-01-21T08:35:00Z"},
        {"[" AT("21 Jan 2019 08:41:00", "instance-reboot",
                "ignored") "," AT("21 Jan 2019 12:00:00", "later-code", "drain") "]",
         1, "drain", "2019-01-21T12:00:00Z", "2019-01-21T11:45:00Z"},
        {"[" AT("21 Jan 2019 08:50:00", "system-maintenance",
                "cordon") "," AT("21 Jan 2019 12:00:00", "instance-stop", "drain") "]",
         1, "drain", "2019-01-21T12:00:00Z", "2019-01-21T11:45:00Z, cordoned"},
        {"[" AT("21 Jan 2019 08:56:00", "system-maintenance",
                "cordon") "," AT("21 Jan 2019 12:00:00", "instance-stop", "drain") "]",
         1, "drain", "2019-01-21T12:00:00Z", "2019-01-21T11:45:00Z"},
        {"[" AT("21 Jan 2019 08:50:00", "system-maintenance",
                "cordon") "," AT("22 Jan 2019 08:55:01", "instance-stop", "drain") "]",
         1, "cordon", "2019-01-21T08:50:00Z", "2019-01-21T08:35:00Z"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_notice n = {0};
        struct nc_err err = NC_ERR_INIT;
        assert_int_equal(read_maintenance(rows[i].body, strlen(rows[i].body), &n, &err), rows[i].r);
        assert_string_equal(n.id, rows[i].id);
        assert_string_equal(text_of(n.deadline_usec), rows[i].deadline);
        nc_auto_free char *begin =
            nc_asprintf("%s%s", text_of(n.begin_usec), n.cordons_until_then ? ", cordoned" : "");
        assert_string_equal(begin, rows[i].begin);
    }
}

/* What is acted upon is hidden by nothing that is far ahead. What began long before it was seen is
 * not acted upon, and hides nothing. */
static void test_maintenance_that_has_begun(void **state) {
    static const struct {
        const char *begun, *acted_id, *expected;
    } rows[] = {
        {"21 Jan 2019 06:40:00", "begun", "begun"}, {"21 Jan 2019 06:40:00", NULL, "ahead"},
        {"21 Jan 2019 06:40:00", "ahead", "ahead"}, {"21 Jan 2019 08:38:59", NULL, "ahead"},
        {"21 Jan 2019 08:39:00", NULL, "begun"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *body =
            nc_asprintf("[{\"NotBefore\":\"%s GMT\",\"Code\":\"system-reboot\",\"EventId\":"
                        "\"begun\"}," AT("21 Jan 2019 09:40:00", "instance-stop", "ahead") "]",
                        rows[i].begun);
        struct nc_notice n = {0};
        acted_id = rows[i].acted_id;
        assert_int_equal(read_maintenance(body, strlen(body), &n, NULL), 1);
        assert_string_equal(n.id, rows[i].expected);
    }
    acted_id = NULL;
}

static void test_maintenance_near_the_epoch(void **state) {
    const char *body =
        "[{\"NotBefore\":\"1 Jan 1970 00:00:09 GMT\",\"Code\":\"b\",\"EventId\":\"a\"}]";
    struct nc_notice n = {0};

    (void)state;
    assert_int_equal(read_notice(NC_SOURCE_MAINTENANCE, body, strlen(body), 1, &n, NULL), 1);
    assert_int_equal(n.begin_usec, 0);
}

static void test_many_events(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    struct nc_notice n = {0};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    for (int i = 0; i < 100; i++)
        (void)nc_buf_printf(&b, "%s%s", i ? "," : "[", EVENT(""));
    (void)nc_buf_puts(&b, "]");
    assert_int_equal(read_maintenance(b.data, b.len, &n, &err), 1);
    b.data[b.len - 1] = ',';
    (void)nc_buf_puts(&b, EVENT("") "]");
    assert_int_equal(read_maintenance(b.data, b.len, &n, &err), -EFBIG);
    assert_int_equal(err.class, NC_ERR_PROTOCOL);
    nc_buf_done(&b);
}

static void test_target_state(void **state) {
    static const struct {
        const char *body;
        int r;
        const char *id;
    } rows[] = {
        {"InService", 0, ""},
        {"Detached", 0, ""},
        {"Standby", 0, ""},
        {"InService\r\n", 0, ""},
        {"Terminated", 1, "autoscaling-terminated"},
        {"Terminated\n", 1, "autoscaling-terminated"},
        {"Warmed:Terminated", 1, "autoscaling-terminated"},
        {"Warmed:Hibernated", 1, "autoscaling-warmed"},
        {"Warmed:Running", 1, "autoscaling-warmed"},
        {"Warmed:Stopped", 1, "autoscaling-warmed"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_notice n = {0};
        const size_t size = strlen(rows[i].body);
        assert_int_equal(read_notice(NC_SOURCE_AUTOSCALING, rows[i].body, size, NOW_USEC, &n, NULL),
                         rows[i].r);
        assert_string_equal(n.id, rows[i].id);
        assert_int_equal(n.deadline_usec, 0);
        if (rows[i].r)
            assert_int_equal(n.source, NC_SOURCE_AUTOSCALING);
    }
}

static void test_request(void **state) {
    static const struct {
        const char *body, *id, *reason;
        enum nc_policy policy;
        const char *deadline;
    } rows[] = {
        {"{\"id\":\"a\",\"mode\":\"cordon\"}", "a", "", NC_POLICY_CORDON, "-"},
        {"{\"id\":\"a b~\",\"mode\":\"graceful\",\"reason\":\"Upgrade to 1.34\"}", "a b~",
         "Upgrade to 1.34", NC_POLICY_DRAIN, "-"},
        {"{\"id\":\"a\",\"mode\":\"graceful\",\"reason\":null,\"deadline\":null,\"new\":{}}", "a",
         "", NC_POLICY_DRAIN, "-"},
        {"{\"id\":\"a\",\"mode\":\"deadline\",\"deadline\":\"2026-01-02T04:04:05+01:00\"}", "a", "",
         NC_POLICY_DRAIN, "2026-01-02T03:04:05Z"},
        {"{\"id\":\"1234567890123456789012345678901234567890123456789012345678901234\","
         "\"mode\":\"graceful\"}",
         "1234567890123456789012345678901234567890123456789012345678901234", "", NC_POLICY_DRAIN,
         "-"},
        /* cut at the end of a character */
        {"{\"id\":\"a\",\"mode\":\"graceful\",\"reason\":"
         "\"12345678901234567890123456789012345678901234567890123456789012\\u00e4\"}",
         "a", "12345678901234567890123456789012345678901234567890123456789012", NC_POLICY_DRAIN,
         "-"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_notice n = {0};
        const size_t size = strlen(rows[i].body);
        assert_int_equal(nc_notice_read_request(rows[i].body, size, NC_SOURCE_OPERATOR, &n, NULL),
                         1);
        assert_int_equal(n.source, NC_SOURCE_OPERATOR);
        assert_string_equal(n.id, rows[i].id);
        assert_string_equal(n.reason, rows[i].reason);
        assert_int_equal(n.policy, rows[i].policy);
        assert_string_equal(text_of(n.deadline_usec), rows[i].deadline);
    }
}

/* 0 would mean that there is no deadline. */
static void test_request_at_the_epoch(void **state) {
    const char *body = "{\"id\":\"a\",\"mode\":\"deadline\",\"deadline\":\"1970-01-01T00:00:00Z\"}";
    struct nc_notice n = {0};

    (void)state;
    assert_int_equal(read_any(NC_SOURCE_REQUEST, body, strlen(body), &n, NULL), 1);
    assert_int_equal(n.deadline_usec, 1);
}

static void test_names(void **state) {
    (void)state;
    assert_string_equal(nc_source_name(NC_SOURCE_REBALANCE), "rebalance");
    assert_string_equal(nc_source_name(NC_SOURCE_SHUTDOWN), "shutdown");
    assert_string_equal(nc_source_reason(NC_SOURCE_SPOT), "SpotInterruption");
    for (int s = 0; s < _NC_SOURCE_MAX; s++) {
        assert_non_null(nc_source_name((enum nc_source)s));
        assert_non_null(nc_source_reason((enum nc_source)s));
        assert_non_null(nc_policy_name(nc_sources[s].policy));
        if (nc_sources[s].path) /* then it is read */
            (void)read_notice((enum nc_source)s, "", 0, NOW_USEC, &(struct nc_notice){0}, NULL);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spot),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_rebalance),
        cmocka_unit_test(test_unreadable_event),
        cmocka_unit_test(test_what_ends_nothing),
        cmocka_unit_test(test_maintenance),
        cmocka_unit_test(test_maintenance_that_has_begun),
        cmocka_unit_test(test_maintenance_near_the_epoch),
        cmocka_unit_test(test_many_events),
        cmocka_unit_test(test_target_state),
        cmocka_unit_test(test_request),
        cmocka_unit_test(test_request_at_the_epoch),
        cmocka_unit_test(test_names),
    };

    return run_group(tests, NULL, NULL);
}
