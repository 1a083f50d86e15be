/*
 * What the controller's actions become on the wire, and what each answer of an API server means.
 */
#include "groups.h"
#include "kube-script.h"

#include "nc/kube-control.h"

#define NOW 1700000000000000u /* 2023-11-14T22:13:20Z */
#define CLAIMS "/apis/karpenter.sh/v1beta1/nodeclaims"
#define API "https://api.test:6443"
#define PARTIAL                                                                                    \
    "Accept: application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

struct observed {
    unsigned n;
    struct nc_control_sent sent;
};

static void on_sent(void *userdata, const struct nc_control_sent *s) {
    struct observed *h = userdata;

    h->n++;
    h->sent = *s;
    sd_event_exit(script_loop(), 0);
}

static int send(struct nc_kube *k, const char *claims_path, const struct nc_control_action *a,
                uint64_t timeout_usec, struct observed *h, struct nc_kube_req **ret,
                struct nc_err *err) {
    const struct nc_control_call call = {.claims_path = claims_path,
                                         .action = a,
                                         .now_usec = NOW,
                                         .timeout_usec = timeout_usec,
                                         .done = on_sent,
                                         .userdata = h};

    return nc_control_send(k, &call, ret, err);
}

static const struct {
    enum nc_control_verb verb;
    const char *body;
    struct script_step step;
} requests[] = {
    {NC_CONTROL_SET_TIMESTAMP,
     "{'metadata':{'annotations':{'karpenter.sh/x':'y'}}}",
     {.method = "PATCH", .url = API CLAIMS "/c-1", .header = PARTIAL}},
    {NC_CONTROL_PATCH_CLAIM,
     "{'metadata':{'resourceVersion':'5','finalizers':null}}",
     {.method = "PATCH",
      .url = API CLAIMS "/c-1",
      .header = "Content-Type: application/merge-patch+json"}},
    {NC_CONTROL_STATUS_CLAIM,
     "{'metadata':{'resourceVersion':'5'},'status':{'nodeName':'x'}}",
     {.method = "PATCH",
      .url = API CLAIMS "/c-1/status",
      .header = "Content-Type: application/merge-patch+json"}},
    {NC_CONTROL_DELETE_CLAIM,
     "{'kind':'DeleteOptions','preconditions':{'uid':'u'}}",
     {.method = "DELETE", .url = API CLAIMS "/c-1", .header = PARTIAL}},
    {NC_CONTROL_DELETE_CLAIM,
     "{'kind':'DeleteOptions','preconditions':{'uid':'u'}}",
     {.method = "DELETE", .url = API CLAIMS "/c-1", .header = "Content-Type: application/json"}},
    {NC_CONTROL_PATCH_NODE,
     "{'metadata':{'labels':{'a':'b'}}}",
     {.method = "PATCH", .url = API "/api/v1/nodes/c-1", .header = PARTIAL}},
    {NC_CONTROL_DELETE_NODE,
     "{'preconditions':{'uid':'u'}}",
     {.method = "DELETE", .url = API "/api/v1/nodes/c-1", .header = PARTIAL}},
};

static struct nc_control_action action_of(enum nc_control_verb verb, struct nc_value *body) {
    static char name[] = "c-1", uid[] = "u";

    return (struct nc_control_action){
        .verb = verb, .id = 77, .what = NC_CONTROL_CLAIM, .name = name, .uid = uid, .body = body};
}

static void test_requests(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(requests); i++) {
        nc_auto_value struct nc_value *body = js(requests[i].body);
        const struct nc_control_action a = action_of(requests[i].verb, body);
        struct script_step step = requests[i].step;
        struct observed h = {0};
        struct nc_err err = NC_ERR_INIT;
        struct nc_kube *k;
        print_message("# row %zu\n", i);
        step.body = requests[i].body;
        step.answer = "{'kind':'PartialObjectMetadata'}";
        step.chunk = 1; /* thrown away as it comes */
        k = script_begin_as(&nc_kube_as_controller, &step, 1);
        if (send(k, CLAIMS, &a, 2000000, &h, NULL, &err) < 0)
            fail_msg("%s", err.msg);
        assert_true(script_last_timeout_usec > 1000000 && script_last_timeout_usec <= 2000000);
        script_run();
        assert_int_equal(h.n, 1);
        assert_int_equal(h.sent.id, 77);
        assert_int_equal(h.sent.verb, requests[i].verb);
        assert_int_equal(h.sent.answer, NC_CONTROL_DONE);
        assert_int_equal(h.sent.err.class, NC_ERR_NONE);
        script_end(k);
    }
}

#define STATUS(reason, message)                                                                    \
    "{'kind':'Status','apiVersion':'v1','reason':'" reason "','message':'" message "'}"
static const struct {
    struct script_step step;
    enum nc_control_answer answer;
} answers[] = {
    {{.status = 404, .answer = STATUS("NotFound", "x")}, NC_CONTROL_MISSING},
    {{.status = 409,
      .answer = STATUS("Conflict",
                       "Operation cannot be fulfilled on nodeclaims.karpenter.sh c-1: the UID in "
                       "the precondition (u) does not match the UID in record (v). The object "
                       "might have been deleted and then recreated")},
     NC_CONTROL_MISSING},
    {{.status = 422,
      .answer = STATUS("Invalid", "NodeClaim.karpenter.sh c-1 is invalid: metadata.uid: Invalid "
                                  "value: u: field is immutable")},
     NC_CONTROL_MISSING},
    {{.status = 409,
      .answer = STATUS("Conflict",
                       "Operation cannot be fulfilled on nodes uid-precondition: the object has "
                       "been modified; please apply your changes to the latest version")},
     NC_CONTROL_CONFLICT},
    {{.status = 400, .answer = STATUS("BadRequest", "x")}, NC_CONTROL_REFUSED},
    {{.status = 403, .answer = STATUS("Forbidden", "x")}, NC_CONTROL_REFUSED},
    {{.status = 422, .answer = STATUS("Invalid", "x")}, NC_CONTROL_REFUSED},
    {{.status = 401}, NC_CONTROL_UNAVAILABLE},
    {{.status = 410}, NC_CONTROL_UNAVAILABLE},
    {{.status = 429, .raw = "Too many requests\n", .retry_after_usec = 3000000},
     NC_CONTROL_UNAVAILABLE},
    {{.status = 500}, NC_CONTROL_UNAVAILABLE},
    {{.status = 503}, NC_CONTROL_UNAVAILABLE},
    /* what no API server says: somebody else has answered, and nothing was carried out */
    {{.status = 200, .raw = "<html>Welcome"}, NC_CONTROL_UNAVAILABLE},
    {{.status = 200, .raw = "[]"}, NC_CONTROL_UNAVAILABLE},
    {{.status = 200, .raw = ""}, NC_CONTROL_UNAVAILABLE},
    {{.outcome = NC_HTTP_TIMEOUT}, NC_CONTROL_UNAVAILABLE},
    {{.outcome = NC_HTTP_BROKEN, .status = 201, .was_open = true}, NC_CONTROL_UNAVAILABLE},
};

static void test_answers(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(answers); i++) {
        nc_auto_value struct nc_value *body = js("{'preconditions':{'uid':'u'}}");
        const struct nc_control_action a = action_of(NC_CONTROL_DELETE_CLAIM, body);
        struct observed h = {0};
        struct nc_kube *k = script_begin_as(&nc_kube_as_controller, &answers[i].step, 1);
        print_message("# row %zu\n", i);
        assert_int_equal(send(k, CLAIMS, &a, 2000000, &h, NULL, NULL), 0);
        script_run();
        assert_int_equal(h.n, 1);
        assert_int_equal(h.sent.answer, answers[i].answer);
        assert_true(h.sent.err.class != NC_ERR_NONE);
        assert_true(h.sent.retry_after_usec == answers[i].step.retry_after_usec);
        script_end(k);
    }
}

/* What is no request, what has no place yet, and what a node's handle must never send. */
static void test_refused(void **state) {
    nc_auto_value struct nc_value *body = js("{'preconditions':{'uid':'u'}}");
    struct nc_control_action a = action_of(NC_CONTROL_END_INSTANCE, body);
    struct observed h = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k = script_begin_as(&nc_kube_as_controller, NULL, 0);

    (void)state;
    assert_true(send(k, CLAIMS, &a, 1, &h, NULL, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    a.verb = NC_CONTROL_DELETE_CLAIM;
    assert_true(send(k, NULL, &a, 1, &h, NULL, &err) < 0);
    a.name = (char[]){".."};
    assert_true(send(k, CLAIMS, &a, 1, &h, NULL, &err) < 0);
    a.name = (char[]){"a/status"};
    assert_true(send(k, CLAIMS, &a, 1, &h, NULL, &err) < 0);
    script_end(k);
    k = script_begin(NULL, 0, NULL, NULL);
    a.name = (char[]){"c-1"};
    assert_true(send(k, CLAIMS, &a, 1, &h, NULL, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    script_end(k);
    assert_int_equal(h.n, 0);
}

static void test_cancelled(void **state) {
    nc_auto_value struct nc_value *body = js("{'preconditions':{'uid':'u'}}");
    const struct nc_control_action a = action_of(NC_CONTROL_DELETE_CLAIM, body);
    const struct nc_control_action announced = {.verb = NC_CONTROL_EMIT_EVENT,
                                                .what = NC_CONTROL_CLAIM,
                                                .name = (char[]){"c-1"},
                                                .reason = "X"};
    static const struct script_step steps[] = {
        {.stays_open = true}, {.stays_open = true}, {.stays_open = true}};
    struct observed h = {0};
    struct nc_kube_req *req = NULL;
    struct nc_kube *k = script_begin_as(&nc_kube_as_controller, steps, 3);

    (void)state;
    assert_int_equal(send(k, CLAIMS, &a, 9, &h, &req, NULL), 0);
    assert_int_equal(send(k, CLAIMS, &a, 9, &h, NULL, NULL), 0);
    assert_int_equal(send(k, CLAIMS, &announced, 9, &h, NULL, NULL), 0);
    assert_null(nc_kube_cancel(req));
    script_end(k);
    assert_int_equal(script_cancelled, 3);
    assert_int_equal(h.n, 0);
}

static const struct {
    enum nc_control_kind what;
    bool is_warning;
    struct script_step step;
    const char *involved; /* a part of the body */
    enum nc_control_answer answer;
} expected[] = {
    {NC_CONTROL_CLAIM,
     true,
     {.method = "POST", .url = API "/api/v1/namespaces/default/events"},
     "\"involvedObject\":{\"kind\":\"NodeClaim\",\"apiVersion\":\"karpenter.sh/v1beta1\",\"name\":"
     "\"c-1\",\"uid\":\"u\"},\"type\":\"Warning\",\"reason\":\"Relayed\",\"message\":\"gone soon\","
     "\"source\":{\"component\":\"nodeclaim-controller\"},\"firstTimestamp\":\"2023-11-14T22:13:20"
     "Z\"",
     NC_CONTROL_DONE},
    {NC_CONTROL_NODE,
     false,
     {.method = "POST"},
     "\"involvedObject\":{\"kind\":\"Node\",\"apiVersion\":\"v1\",\"name\":\"c-1\",\"uid\":\"c-1\"}"
     ",\"type\":\"Normal\"",
     NC_CONTROL_DONE},
    {NC_CONTROL_POOL,
     false,
     {.method = "POST", .status = 409, .answer = STATUS("AlreadyExists", "x")},
     "\"kind\":\"NodePool\",\"apiVersion\":\"karpenter.sh/v1beta1\"",
     NC_CONTROL_DONE},
    {NC_CONTROL_CLAIM,
     false,
     {.status = 409, .answer = STATUS("Conflict", "x")},
     "",
     NC_CONTROL_CONFLICT},
    {NC_CONTROL_CLAIM, false, {.status = 503}, "", NC_CONTROL_UNAVAILABLE},
};

static void test_describe(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(expected); i++) {
        const struct nc_control_action a = {.verb = NC_CONTROL_EMIT_EVENT,
                                            .what = expected[i].what,
                                            .name = (char[]){"c-1"},
                                            .uid = (char[]){"u"},
                                            .reason = "Relayed",
                                            .is_warning = expected[i].is_warning,
                                            .message = (char[]){"gone soon"}};
        struct observed h = {0};
        struct nc_kube *k = script_begin_as(&nc_kube_as_controller, &expected[i].step, 1);
        print_message("# row %zu\n", i);
        assert_int_equal(send(k, CLAIMS, &a, 2000000, &h, NULL, NULL), 0);
        if (!strstr(script_last_body, expected[i].involved))
            fail_msg("%s", script_last_body);
        script_run();
        assert_int_equal(h.sent.answer, expected[i].answer);
        assert_int_equal(h.sent.err.class == NC_ERR_NONE, expected[i].answer == NC_CONTROL_DONE);
        script_end(k);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests), cmocka_unit_test(test_answers),
        cmocka_unit_test(test_refused),  cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_describe),
    };

    return run_group(tests, NULL, NULL);
}
