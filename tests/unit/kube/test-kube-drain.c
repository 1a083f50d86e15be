/*
 * What is asked about a pod, each answer of an API server that a drain meets, and Events that
 * nobody waits for.
 */
#include "groups.h"
#include "kube-script.h"

#include "nc/kube-drain.h"

#define NOW 1700000000000000u /* 2023-11-14T22:13:20Z */

static const struct nc_pod pod = {
    .namespace = (char[]){"shop"}, .name = (char[]){"cart-7f.0"}, .uid = (char[]){"u-1"}};

struct observed {
    unsigned n;
    struct nc_pod_result asked;
};

static void on_pod_answer(void *userdata, const struct nc_pod_result *a) {
    struct observed *h = userdata;

    h->n++;
    h->asked = *a;
    sd_event_exit(script_loop(), 0);
}

static int ask(struct nc_kube *k, const struct nc_drain_action *a, struct observed *h,
               struct nc_kube_req **ret, struct nc_err *err) {
    const struct nc_pod_call call = {.action = a,
                                     .now_usec = NOW,
                                     .timeout_usec = 2000000,
                                     .done = on_pod_answer,
                                     .userdata = h};

    return nc_pod_send(k, &call, ret, err);
}

#define POD_URL "https://api.test:6443/api/v1/namespaces/shop/pods/cart-7f.0"
static const struct {
    enum nc_drain_verb verb;
    uint64_t grace_sec;
    struct script_step step;
} questions[] = {
    {NC_DRAIN_EVICT,
     0,
     {.method = "POST",
      .url = POD_URL "/eviction",
      .header = "Content-Type: application/json",
      .status = 201,
      .body = "{'apiVersion':'policy/v1','kind':'Eviction','metadata':{'name':'cart-7f.0',"
              "'namespace':'shop'},'deleteOptions':{'preconditions':{'uid':'u-1'}}}"}},
    {NC_DRAIN_MARK,
     0,
     {.method = "PATCH",
      .url = POD_URL "/status",
      .header = "Content-Type: application/strategic-merge-patch+json",
      .body = "{'metadata':{'uid':'u-1'},'status':{'conditions':[{'type':'DisruptionTarget',"
              "'status':'True','reason':'TerminationByNodeclaimd','message':'nodeclaimd: the node "
              "is terminating, force-deleting this pod','lastTransitionTime':'2023-11-"
              "14T22:13:20Z'}]}}"}},
    {NC_DRAIN_DELETE,
     17,
     {.method = "DELETE",
      .url = POD_URL,
      .header = "Content-Type: application/json",
      .body = "{'gracePeriodSeconds':17,'preconditions':{'uid':'u-1'},'apiVersion':'v1','kind':"
              "'DeleteOptions'}"}},
    {NC_DRAIN_DELETE,
     0,
     {.method = "DELETE",
      .url = POD_URL,
      .body = "{'preconditions':{'uid':'u-1'},'apiVersion':'v1','kind':'DeleteOptions'}"}},
};

static void test_questions(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(questions); i++) {
        struct script_step step = questions[i].step;
        const struct nc_drain_action a = {.verb = questions[i].verb,
                                          .pod = &pod,
                                          .grace_sec = questions[i].grace_sec,
                                          .attempt = 1};
        struct observed h = {0};
        struct nc_kube_req *req = NULL;
        struct nc_err err = NC_ERR_INIT;
        struct nc_kube *k;
        print_message("# row %zu\n", i);
        step.answer = "{'kind':'Pod'}";
        step.status = 200; /* the scripted transport streams no other */
        step.chunk = 1;
        k = script_begin(&step, 1, NULL, NULL);
        if (ask(k, &a, &h, &req, &err) < 0)
            fail_msg("%s", err.msg);
        assert_true(script_last_timeout_usec > 1000000 && script_last_timeout_usec <= 2000000);
        script_run();
        assert_int_equal(h.n, 1);
        assert_int_equal(h.asked.answer.kind, NC_ANSWER_ACCEPTED);
        assert_int_equal(h.asked.class, NC_ERR_NONE);
        script_end(k);
    }
}

#define STATUS(reason, message, details)                                                           \
    "{'kind':'Status','apiVersion':'v1','reason':'" reason "','message':'" message                 \
    "','details':{" details "}}"
static const struct {
    struct script_step step;
    enum nc_pod_answer_kind kind;
    enum nc_err_class class;
    const char *budget;
} answers[] = {
    {{.status = 404, .answer = STATUS("NotFound", "pods \\'x\\' not found", "")},
     NC_ANSWER_GONE,
     NC_ERR_NONE,
     ""},
    {{.status = 409,
      .answer = STATUS("Conflict", "the UID in the precondition does not match", "")},
     NC_ANSWER_GONE,
     NC_ERR_NONE,
     ""},
    {{.status = 429,
      .answer = STATUS("TooManyRequests",
                       "Cannot evict pod as it would violate the pod.s disruption budget.",
                       "'causes':[{'reason':'DisruptionBudget','message':'The disruption budget "
                       "e-pdb needs 3 healthy pods and has 3 currently'}]")},
     NC_ANSWER_BUDGET,
     NC_ERR_NONE,
     "e-pdb"},
    {{.status = 429,
      .raw = "Too many requests, please try again later.\n",
      .retry_after_usec = 1000000},
     NC_ANSWER_BUSY,
     NC_ERR_TRANSIENT,
     ""},
    {{.status = 500,
      .answer = STATUS("InternalError",
                       "This pod has more than one PodDisruptionBudget, which the eviction "
                       "subresource does not support.",
                       "")},
     NC_ANSWER_BUDGETS,
     NC_ERR_NONE,
     ""},
    {{.status = 403,
      .answer = STATUS("Forbidden", "x", "'causes':[{'reason':'NamespaceTerminating'}]")},
     NC_ANSWER_NAMESPACE,
     NC_ERR_NONE,
     ""},
    {{.status = 403, .answer = STATUS("Forbidden", "no", "")}, NC_ANSWER_REFUSED, NC_ERR_AUTH, ""},
    {{.status = 422, .answer = STATUS("Invalid", "no", "")},
     NC_ANSWER_REFUSED,
     NC_ERR_PROTOCOL,
     ""},
    {{.status = 401}, NC_ANSWER_UNAVAILABLE, NC_ERR_AUTH, ""},
    {{.status = 503}, NC_ANSWER_UNAVAILABLE, NC_ERR_TRANSIENT, ""},
    {{.outcome = NC_HTTP_TIMEOUT}, NC_ANSWER_UNAVAILABLE, NC_ERR_TRANSIENT, ""},
    {{.outcome = NC_HTTP_TLS}, NC_ANSWER_UNAVAILABLE, NC_ERR_AUTH, ""},
    /* A success that is none of an API server's: nobody was evicted. */
    {{.raw = ""}, NC_ANSWER_UNAVAILABLE, NC_ERR_PROTOCOL, ""},
    {{.raw = "<!DOCTYPE html><html>"}, NC_ANSWER_UNAVAILABLE, NC_ERR_TRANSIENT, ""},
    {{.answer = "['kind']"}, NC_ANSWER_UNAVAILABLE, NC_ERR_TRANSIENT, ""},
    {{.answer = "{'status':'Success'}"}, NC_ANSWER_UNAVAILABLE, NC_ERR_PROTOCOL, ""},
    {{.answer = "{'kind':7}"}, NC_ANSWER_UNAVAILABLE, NC_ERR_PROTOCOL, ""},
    {{.raw = "{\"kind\":\"\xff\"}"}, NC_ANSWER_UNAVAILABLE, NC_ERR_PROTOCOL, ""},
    {{.answer = "{'metadata'"}, NC_ANSWER_UNAVAILABLE, NC_ERR_PROTOCOL, ""},
    /* An object of the API, whatever it begins with. */
    {{.raw = "{ \"apiVersion\" : \"v1\",\"kind\":\"Pod\"}"}, NC_ANSWER_ACCEPTED, 0, ""},
    {{.answer = "{'metadata':{'name':'a'},'kind':'Pod'}"}, NC_ANSWER_ACCEPTED, 0, ""},
};

static void test_answers(void **state) {
    const struct nc_drain_action a = {.verb = NC_DRAIN_EVICT, .pod = &pod, .attempt = 1};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(answers); i++) {
        struct observed h = {0};
        struct nc_kube *k = script_begin(&answers[i].step, 1, NULL, NULL);
        print_message("# row %zu\n", i);
        assert_int_equal(ask(k, &a, &h, NULL, NULL), 0);
        script_run();
        assert_int_equal(h.n, 1);
        assert_int_equal(h.asked.answer.kind, answers[i].kind);
        assert_int_equal(h.asked.class, answers[i].class);
        assert_string_equal(h.asked.answer.budget, answers[i].budget);
        assert_true(h.asked.answer.retry_after_usec == answers[i].step.retry_after_usec);
        if (answers[i].step.outcome) /* nobody answered: why is said */
            assert_non_null(strstr(h.asked.answer.message, "scripted failure"));
        script_end(k);
    }
}

/* A token that has just run out costs one more request, not the question. */
static void test_token(void **state) {
    const struct nc_drain_action a = {.verb = NC_DRAIN_EVICT, .pod = &pod, .attempt = 1};
    struct observed h = {0};
    struct nc_kube *k =
        SCRIPT(give_token, NULL, {.header = "Authorization: Bearer one", .status = 401},
               {.header = "Authorization: Bearer two"});

    (void)state;
    assert_int_equal(ask(k, &a, &h, NULL, NULL), 0);
    script_run();
    assert_int_equal(h.asked.answer.kind, NC_ANSWER_ACCEPTED);
    script_end(k);
}

static void test_cancelled(void **state) {
    const struct nc_drain_action a = {.verb = NC_DRAIN_EVICT, .pod = &pod, .attempt = 1};
    struct observed h = {0};
    struct nc_kube_req *req = NULL;
    struct nc_kube *k = SCRIPT(NULL, NULL, {.stays_open = true}, {.stays_open = true});

    (void)state;
    assert_int_equal(ask(k, &a, &h, &req, NULL), 0);
    assert_int_equal(ask(k, &a, &h, NULL, NULL), 0);
    assert_null(nc_kube_cancel(req));
    script_end(k);
    assert_int_equal(h.n, 0);
}

/* A pod whose name is no name is not asked about: the path would be another's. */
static void test_refused(void **state) {
    const struct nc_pod odd = {
        .namespace = (char[]){".."}, .name = (char[]){"x"}, .uid = (char[]){"u"}};
    const struct nc_pod nameless = {
        .namespace = (char[]){"a"}, .name = (char[]){"x"}, .uid = (char[]){""}};
    struct nc_drain_action a = {.verb = NC_DRAIN_DELETE, .pod = &odd, .grace_sec = 1};
    struct observed h = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k = script_begin(NULL, 0, NULL, NULL);

    (void)state;
    assert_true(ask(k, &a, &h, NULL, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    a.pod = &nameless;
    assert_true(ask(k, &a, &h, NULL, &err) < 0);
    script_end(k);
    assert_int_equal(h.n, 0);
}

static void test_timeouts(void **state) {
    (void)state;
    assert_int_equal(nc_pod_send_timeout(NC_DRAIN_EVICT, 1), 15000000);
    assert_int_equal(nc_pod_send_timeout(NC_DRAIN_EVICT, 9), 15000000);
    assert_int_equal(nc_pod_send_timeout(NC_DRAIN_DELETE, 0), 2000000);
    assert_int_equal(nc_pod_send_timeout(NC_DRAIN_DELETE, 1), 2000000);
    assert_int_equal(nc_pod_send_timeout(NC_DRAIN_DELETE, 2), 4000000);
    assert_int_equal(nc_pod_send_timeout(NC_DRAIN_DELETE, 3), 8000000);
    assert_int_equal(nc_pod_send_timeout(NC_DRAIN_DELETE, 4), 15000000);
    assert_int_equal(nc_pod_send_timeout(NC_DRAIN_DELETE, 4000000000u), 15000000);
    assert_int_equal(nc_pod_send_timeout(NC_DRAIN_MARK, 9), 2000000);
}

struct sent {
    unsigned n;
    bool is_well;
};

static void on_sent(void *userdata, const struct nc_value *object,
                    const struct nc_kube_status *status, const struct nc_err *err) {
    struct sent *s = userdata;

    (void)object;
    s->n++;
    s->is_well = err->class == NC_ERR_NONE || nc_event_exists(status);
    sd_event_exit(script_loop(), 0);
}

static const struct nc_event event = {.kind = "Node",
                                      .api_version = "v1",
                                      .name = "node-a",
                                      .uid = "node-a",
                                      .warning = true,
                                      .reason = "SpotInterruption",
                                      .message = "in two minutes",
                                      .host = "node-a",
                                      .first_usec = NOW,
                                      .count = 1};

static const struct {
    struct script_step step;
    bool is_well;
} event_answers[] = {
    {{.method = "POST", .url = "https://api.test:6443/api/v1/namespaces/default/events"}, true},
    {{.status = 409, .answer = STATUS("AlreadyExists", "x", "")}, true},
    {{.status = 409, .answer = STATUS("Conflict", "x", "")}, false},
    {{.status = 500}, false},
};

static void test_event(void **state) {
    struct sent s = {0};
    const struct nc_event_receiver to = {.done = on_sent, .userdata = &s};
    struct nc_event twice = event;
    struct nc_kube_req *req = NULL;
    struct nc_kube *k;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(event_answers); i++) {
        k = script_begin(&event_answers[i].step, 1, NULL, NULL);
        assert_int_equal(nc_event_start(k, &event, &to, &req, NULL), 0);
        script_run();
        assert_int_equal(s.n, i + 1);
        assert_int_equal(s.is_well, event_answers[i].is_well);
        script_end(k);
    }
    twice.is_there = true;
    twice.count = 2;
    k = SCRIPT(NULL, NULL, {.method = "PATCH"});
    assert_int_equal(nc_event_start(k, &twice, &to, &req, NULL), 0);
    script_run();
    assert_true(s.is_well);
    assert_non_null(strstr(script_last_body, "\"count\":2"));
    assert_null(strstr(script_last_body, "involvedObject"));
    script_end(k);
    k = SCRIPT(NULL, NULL, {.stays_open = true});
    assert_int_equal(nc_event_start(k, &event, &to, &req, NULL), 0);
    (void)nc_kube_cancel(req);
    script_end(k);
    assert_int_equal(script_cancelled, 1);
    assert_int_equal(s.n, NC_ARRAY_SIZE(event_answers) + 1);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions), cmocka_unit_test(test_answers),
        cmocka_unit_test(test_token),     cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_timeouts),
        cmocka_unit_test(test_event),
    };

    return run_group(tests, NULL, NULL);
}
