/*
 * Requests: what is sent, what an answer means, tokens, the rules on the wire.
 */
#include "groups.h"
#include "kube-script.h"
#include "nc/clock.h"

#include <errno.h>

#include "wire.h"

static const struct nc_kube_call get_node = {
    .what = "get node", .method = "GET", .path = "/api/v1/nodes/a", .timeout_usec = 5000000};

static void test_text(void **state) {
    char *escaped = nc_kube_escape("a b/c=d,\xc3\xa9~_.-%");
    char announced[20];

    (void)state;
    assert_string_equal(escaped, "a%20b%2Fc%3Dd%2C%C3%A9~_.-%25");
    free(escaped);
    nc_kube_printable(announced, sizeof(announced), "two\nlines \x01\xff", 12);
    assert_string_equal(announced, "two lines ??");
    nc_kube_printable(announced, sizeof(announced), "0123456789012345678901234", 25);
    assert_string_equal(announced, "0123456789012345...");
    nc_kube_printable(announced, sizeof(announced), "   ", 3);
    assert_string_equal(announced, "");
    assert_true(nc_kube_hash(nc_kube_hash(NC_KUBE_HASH_SEED, "ab"), "c")
                != nc_kube_hash(nc_kube_hash(NC_KUBE_HASH_SEED, "a"), "bc"));
    assert_int_equal(nc_kube_time_left(nc_mono_usec() - 10000000, 5000000), 1);
}

static void test_new(void **state) {
    static const char *const wrong[] = {"http://api.test", "https://", "https://a b", "https://u@h",
                                        "https://h?x",     NULL,       "api.test"};
    struct nc_kube *k = NULL;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(wrong); i++) {
        const struct nc_kube_options o = {.server = wrong[i]};
        struct nc_err err = NC_ERR_INIT;
        assert_true(nc_kube_new(NULL, &o, &k, &err) < 0);
        assert_int_equal(err.class, NC_ERR_CONFIG);
        assert_null(k);
    }
    assert_null(nc_kube_free(NULL));
    assert_null(nc_kube_cancel(NULL));
}

static void test_perform(void **state) {
    nc_auto_value struct nc_value *body = js("{'count':1}");
    nc_auto_value struct nc_value *options = js("{'preconditions':{'uid':'u'}}");
    struct nc_kube *k = SCRIPT(
        NULL, NULL,
        {.method = "GET",
         .url = "https://api.test:6443/api/v1/nodes/a",
         .header = "Accept: application/json",
         .answer = "{'kind':'Node'}"},
        {.method = "POST",
         .header = "Content-Type: application/json",
         .body = "{'count':1}",
         .status = 201},
        {.method = "PATCH", .header = "Content-Type: application/merge-patch+json"},
        {.method = "PATCH", .header = "Content-Type: application/strategic-merge-patch+json"},
        {.method = "DELETE",
         .body = "{'preconditions':{'uid':'u'}}",
         .answer = "{'kind':'Status','apiVersion':'v1','status':'Success'}"});
    struct nc_kube_call c = {.what = "post",
                             .method = "POST",
                             .path = "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                             .body = body,
                             .timeout_usec = 1000000,
                             .max_bytes = 77};
    nc_auto_value struct nc_value *object = NULL;
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_kube_perform(k, &get_node, &object, &status, &err), 0);
    assert_string_equal(nc_value_get_string(object, "kind"), "Node");
    assert_int_equal(status.http, 200);
    assert_true(status.date_usec == status.received_usec + 5000000);
    assert_int_equal(script_last_max_bytes, 4 << 20);
    assert_true(script_last_timeout_usec > 4000000 && script_last_timeout_usec <= 5000000);
    assert_int_equal(nc_kube_perform(k, &c, NULL, NULL, &err), 0);
    assert_int_equal(script_last_max_bytes, 77);
    c.method = "PATCH";
    c.path = "/api/v1/namespaces/default/events/e";
    c.patch = NC_KUBE_PATCH_MERGE;
    assert_int_equal(nc_kube_perform(k, &c, NULL, NULL, &err), 0);
    c.patch = NC_KUBE_PATCH_STRATEGIC;
    assert_int_equal(nc_kube_perform(k, &c, NULL, NULL, &err), 0);
    c = (struct nc_kube_call){.what = "delete",
                              .method = "DELETE",
                              .path = "/api/v1/namespaces/a/pods/b",
                              .body = options,
                              .timeout_usec = 1};
    assert_int_equal(nc_kube_perform(k, &c, NULL, NULL, &err), 0);
    script_end(k);
}

/* Each answer, its error class, what the status and the message say. */
static const struct {
    struct script_step step;
    enum nc_err_class class;
    const char *reason, *cause, *message; /* message: a part of the status' message */
    uint64_t retry_after_usec;
    const char *expected; /* a part of the error's message */
} refusals[] = {
    {{.status = 401,
      .answer =
          "{'kind':'Status','apiVersion':'v1','reason':'Unauthorized','message':'Unauthorized'}"},
     NC_ERR_AUTH,
     "Unauthorized",
     "",
     "Unauthorized",
     0,
     "get node: HTTP 401 Unauthorized"},
    {{.status = 403,
      .answer = "{'kind':'Status','apiVersion':'v1','reason':'Forbidden','message':'nodes \\'a\\' "
                "is forbidden'}"},
     NC_ERR_AUTH,
     "Forbidden",
     "",
     "nodes \"a\" is forbidden",
     0,
     "get node: HTTP 403 Forbidden: nodes \"a\" is forbidden"},
    {{.status = 404, .raw = "404 page not found\n"},
     NC_ERR_PROTOCOL,
     "",
     "",
     "404 page not found",
     0,
     "HTTP 404: 404 page not found"},
    {{.status = 409, .answer = "{'kind':'Status','apiVersion':'v1','reason':'Conflict'}"},
     NC_ERR_PROTOCOL,
     "Conflict",
     "",
     "",
     0,
     "HTTP 409 Conflict"},
    {{.status = 422, .answer = "{'kind':'Status','apiVersion':'v1','reason':'Invalid'}"},
     NC_ERR_PROTOCOL,
     "Invalid",
     "",
     "",
     0,
     "HTTP 422"},
    {{.status = 429,
      .retry_after_usec = 1000000,
      .raw = "Too many requests, please try again later.\n"},
     NC_ERR_TRANSIENT,
     "",
     "",
     "Too many requests",
     1000000,
     "HTTP 429: Too many"},
    {{.status = 429,
      .answer = "{'kind':'Status','apiVersion':'v1','reason':'TooManyRequests','message':'Cannot "
                "evict pod as it would violate the "
                "pod`s disruption "
                "budget.','details':{'causes':[{'reason':'DisruptionBudget','message':'The "
                "disruption budget web "
                "needs 3 healthy pods and has 3 currently'}]}}"},
     NC_ERR_TRANSIENT,
     "TooManyRequests",
     "DisruptionBudget",
     "budget.: The disruption budget web needs 3",
     0,
     "HTTP 429 TooManyRequests"},
    {{.status = 429,
      .answer = "{'kind':'Status','apiVersion':'v1','reason':'TooManyRequests','details':{'"
                "retryAfterSeconds':10,'causes':[{'reason':"
                "'DisruptionBudget','message':'still being processed'}]}}"},
     NC_ERR_TRANSIENT,
     "TooManyRequests",
     "DisruptionBudget",
     "still being processed",
     10000000,
     "HTTP 429"},
    {{.status = 429,
      .retry_after_usec = 2000000,
      .answer = "{'kind':'Status','apiVersion':'v1','details':{'retryAfterSeconds':10}}"},
     NC_ERR_TRANSIENT,
     "",
     "",
     "",
     2000000,
     "HTTP 429"},
    {{.status = 500, .raw = "<html>\n<body>bad"},
     NC_ERR_TRANSIENT,
     "",
     "",
     "",
     0,
     "get node: HTTP 500"},
    {{.status = 500, .raw = "apiserver is starting\n<body>"},
     NC_ERR_TRANSIENT,
     "",
     "",
     "apiserver is starting",
     0,
     "HTTP 500: apiserver is starting"},
    {{.status = 503}, NC_ERR_TRANSIENT, "", "", "", 0, "get node: HTTP 503"},
    {{.status = 302, .raw = "moved"}, NC_ERR_PROTOCOL, "", "", "moved", 0, "HTTP 302"},
    {{.status = 400,
      .answer = "{'kind':'Status','apiVersion':'v1','reason':7,'message':['x'],'code':'y','details'"
                ":{'retryAfterSeconds':-4,'causes':"
                "{'a':1}}}"},
     NC_ERR_PROTOCOL,
     "",
     "",
     "",
     0,
     "get node: HTTP 400"},
    {{.status = 400, .answer = "{'kind':'Status','apiVersion':'v2','reason':'Other'}"},
     NC_ERR_PROTOCOL,
     "",
     "",
     "{\"kind\"",
     0,
     "HTTP 400"},
    {{.status = 400, .answer = "{'kind':'Status','apiVersion':'v1','details':{'causes':[]}}"},
     NC_ERR_PROTOCOL,
     "",
     "",
     "",
     0,
     "HTTP 400"},
    {{.outcome = NC_HTTP_TLS}, NC_ERR_AUTH, "", "", "", 0, "get node: scripted failure"},
    {{.outcome = NC_HTTP_TOO_LARGE}, NC_ERR_PROTOCOL, "", "", "", 0, "get node: scripted failure"},
    {{.outcome = NC_HTTP_UNRESOLVED}, NC_ERR_TRANSIENT, "", "", "", 0, "scripted failure"},
    {{.outcome = NC_HTTP_TIMEOUT}, NC_ERR_TRANSIENT, "", "", "", 0, "scripted failure"},
    {{.outcome = NC_HTTP_BROKEN}, NC_ERR_TRANSIENT, "", "", "", 0, "scripted failure"},
    {{.outcome = NC_HTTP_LOCAL}, NC_ERR_TRANSIENT, "", "", "", 0, "scripted failure"},
    {{.outcome = NC_HTTP_REFUSED}, NC_ERR_TRANSIENT, "", "", "", 0, "get node: scripted failure"},
    {{.raw = "{\"kind\":\"No"}, NC_ERR_PROTOCOL, "", "", "", 0, "get node: HTTP 200"},
    {{.raw = "<html>"}, NC_ERR_PROTOCOL, "", "", "", 0, "get node: HTTP 200"},
    {{.raw = "[1,2]"}, NC_ERR_PROTOCOL, "", "", "", 0, "JSON but no object"},
};

/* Who is refused, finds no way or meets a fault of the server is told what to check. */
static bool needs_remedy(const struct script_step *s) {
    return s->status == 401 || s->status == 403 || s->status >= 500 || s->outcome == NC_HTTP_TLS
           || s->outcome == NC_HTTP_REFUSED || s->outcome == NC_HTTP_UNRESOLVED
           || s->outcome == NC_HTTP_TIMEOUT;
}

static void test_refusals(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(refusals); i++) {
        struct nc_kube *k = script_begin(&refusals[i].step, 1, NULL, NULL);
        struct nc_value *object = NULL;
        struct nc_kube_status status;
        struct nc_err err = NC_ERR_INIT;
        print_message("# row %zu: %s\n", i, refusals[i].expected);
        assert_true(nc_kube_perform(k, &get_node, &object, &status, &err) < 0);
        assert_null(object);
        assert_int_equal(err.class, refusals[i].class);
        assert_string_equal(status.reason, refusals[i].reason);
        assert_string_equal(status.cause, refusals[i].cause);
        assert_non_null(strstr(status.message, refusals[i].message));
        assert_int_equal(status.retry_after_usec, refusals[i].retry_after_usec);
        assert_non_null(strstr(err.msg, refusals[i].expected));
        assert_int_equal(err.remedy[0] != '\0', needs_remedy(&refusals[i].step));
        script_end(k);
    }
}

/* What it is not: wrong. Of Events, an authorizer that does not allow them says nothing of it. */
static void test_remedy_where_the_identity_is_right(void **state) {
    static const struct {
        const char *user, *remedy, *resource;
    } rows[] = {{"system:node:a", "the identity is the right one: allow it this request", "nodes"},
                {"system:node:ab", "must be system:node:NAME", "nodes"},
                {"system:node:", "must be system:node:NAME", "nodes"},
                {"admin", "must be system:node:NAME", "nodes"},
                {"system:node:b", "allow this identity to create and patch events", "events"}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_kube_status s = {.http = 403};
        struct nc_err err = NC_ERR_INIT;
        snprintf(s.message, sizeof(s.message),
                 "nodes \"a\" is forbidden: User \"%s\" cannot patch resource \"%s\"", rows[i].user,
                 rows[i].resource);
        assert_true(nc_kube_refused(&s, "cordon node", &err) < 0);
        assert_non_null(strstr(err.remedy, rows[i].remedy));
    }
}

static void test_status_is_cut(void **state) {
    char text[2048];
    struct nc_kube_status s = {0};
    nc_auto_value struct nc_value *v = NULL;

    (void)state;
    snprintf(text, sizeof(text),
             "{'kind':'Status','apiVersion':'v1','code':410,'reason':'%0100d','message':'%01000d','"
             "details':{'causes':[{'reason':'%0200d',"
             "'message':'more'}]}}",
             7, 7, 7);
    v = js(text);
    assert_true(nc_kube_status_read(v, &s));
    assert_int_equal(s.http, 410);
    assert_int_equal(strlen(s.reason), sizeof(s.reason) - 1);
    assert_int_equal(strlen(s.message), sizeof(s.message) - 1);
    assert_int_equal(strlen(s.cause), sizeof(s.cause) - 1);
    assert_true(nc_ends_with(s.message, "..."));
    assert_false(nc_kube_status_read(NULL, &s));
}

static void test_token(void **state) {
    unsigned calls = 0;
    struct nc_kube *k =
        SCRIPT(give_token, &calls, {.header = "Authorization: Bearer one", .status = 401},
               {.header = "Authorization: Bearer two", .answer = "{}"},
               {.header = "Authorization: Bearer one", .status = 401},
               {.header = "Authorization: Bearer two", .status = 401},
               {.header = "Authorization: Bearer one", .status = 403});
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_kube_perform(k, &get_node, NULL, &status, &err), 0);
    assert_int_equal(status.http, 200);
    assert_int_equal(calls, 2);
    assert_true(nc_kube_perform(k, &get_node, NULL, &status, &err) < 0);
    assert_int_equal(err.class, NC_ERR_AUTH);
    assert_int_equal(calls, 4); /* refreshed once, not again and again */
    assert_true(nc_kube_perform(k, &get_node, NULL, &status, &err) < 0);
    assert_int_equal(calls, 5); /* a 403 is no reason for another token */
    script_end(k);
}

static int bad_token(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    const char *text = userdata;

    (void)refuse;
    if (!text)
        return nc_err_set(err, NC_ERR_TRANSIENT, EIO, "no role credentials");
    *ret_token = nc_strdup(text);
    return 0;
}

static void test_bad_token(void **state) {
    static const char *const tokens[] = {"a\r\nX-Evil: 1", "", "caf\xc3\xa9", NULL};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(tokens); i++) {
        struct nc_kube *k = script_begin(NULL, 0, bad_token, (void *)(uintptr_t)tokens[i]);
        assert_true(nc_kube_perform(k, &get_node, NULL, NULL, &err) < 0);
        assert_true(nc_starts_with(err.msg, "get node: token: "));
        assert_null(strstr(err.msg, "Evil"));
        assert_int_equal(err.class, tokens[i] ? NC_ERR_AUTH : NC_ERR_TRANSIENT);
        assert_true(nc_kube_start(k, &get_node, NULL, &err) < 0);
        script_end(k);
    }
}

struct observed {
    unsigned calls;
    int http;
    enum nc_err_class class;
    char kind[32];
    struct nc_kube *free_it;
};

static void on_answer(void *userdata, const struct nc_value *object,
                      const struct nc_kube_status *status, const struct nc_err *err) {
    struct observed *h = userdata;
    const char *kind = nc_value_get_string(object, "kind");

    h->calls++;
    h->http = status->http;
    h->class = err->class;
    snprintf(h->kind, sizeof(h->kind), "%s", kind ? kind : "");
    h->free_it = nc_kube_free(h->free_it);
    sd_event_exit(script_loop(), 0);
}

static int start(struct nc_kube *k, struct observed *h, struct nc_kube_req **ret,
                 struct nc_err *err) {
    struct nc_kube_call call = get_node;

    call.done = on_answer;
    call.userdata = h;
    return nc_kube_start(k, &call, ret, err);
}

/* The API server's word on a 401 is said, where another token would not help. */
static int no_second_token(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    if (!refuse)
        return give_token(NULL, refuse, ret_token, err);
    return nc_err_set(err, NC_ERR_TRANSIENT, *(int *)userdata, "a new one is being made");
}

static void test_start(void **state) {
    unsigned tokens = 0;
    struct observed observed = {0};
    struct nc_kube_req *req = NULL;
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k =
        SCRIPT(give_token, &tokens, {.header = "Authorization: Bearer one", .status = 401},
               {.header = "Authorization: Bearer two", .answer = "{'kind':'Node'}"});

    (void)state;
    assert_int_equal(start(k, &observed, &req, &err), 0);
    assert_non_null(req);
    script_run();
    assert_int_equal(observed.calls, 1);
    assert_int_equal(observed.class, NC_ERR_NONE);
    assert_string_equal(observed.kind, "Node");
    script_end(k);

    for (int code = 401; code; code = code == 401 ? EAGAIN : 0) {
        k = SCRIPT(no_second_token, &code, {.status = 401});
        assert_int_equal(start(k, &observed, NULL, &err), 0);
        script_run();
        assert_int_equal(observed.class, code == 401 ? NC_ERR_AUTH : NC_ERR_TRANSIENT);
        assert_int_equal(observed.http, 401);
        script_end(k);
    }

    observed.calls = 1;
    k = SCRIPT(give_token, NULL, {.status = 401}, {.status = 401});
    assert_int_equal(start(k, &observed, NULL, &err), 0);
    script_run();
    assert_int_equal(observed.calls, 2);
    assert_int_equal(observed.class, NC_ERR_AUTH);
    assert_int_equal(observed.http, 401);
    script_end(k);
}

/* Where only some members are kept, the rest may be what a strict reader refuses. */
static void test_keep(void **state) {
    static const struct {
        const char *raw;
        enum nc_err_class class;
        const char *kind;
    } rows[] = {
        {"{\"kind\":\"Node\",\"metadata\":{\"annotations\":{\"a\":\"\\u0000\"}},\"x\":9e999}",
         NC_ERR_NONE, "Node"},
        {"{\"kind\":\"a-name-of-more-than-may-be-kept\"}", NC_ERR_TRANSIENT, ""},
        {"{\"kind\":\"Node\"", NC_ERR_PROTOCOL, ""},
        {"<html>", NC_ERR_TRANSIENT, ""},
        {"{\"kind\":\"Node\"}{\"kind\":\"Node\"}", NC_ERR_PROTOCOL, ""},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct observed observed = {0};
        struct nc_kube_call call = get_node;
        struct nc_err err = NC_ERR_INIT;
        struct nc_kube *k = SCRIPT(NULL, NULL, {.raw = rows[i].raw});

        call.keep = "kind\0";
        call.max_bytes = 30;
        call.done = on_answer;
        call.userdata = &observed;
        assert_int_equal(nc_kube_start(k, &call, NULL, &err), 0);
        script_run();
        assert_int_equal(observed.class, rows[i].class);
        assert_string_equal(observed.kind, rows[i].kind);
        script_end(k);
    }
}

/* The callback frees the client, with another request in flight. */
static void test_free_in_callback(void **state) {
    struct observed observed = {0};
    struct observed never = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k =
        SCRIPT(NULL, NULL, {.stays_open = true}, {.status = 500}, {.stays_open = true});
    struct nc_kube_req *first, *last;

    (void)state;
    observed.free_it = k;
    assert_int_equal(start(k, &never, &first, &err), 0);
    assert_int_equal(start(k, &observed, NULL, &err), 0);
    assert_int_equal(start(k, &never, &last, &err), 0);
    script_run();
    assert_int_equal(observed.calls, 1);
    assert_int_equal(never.calls, 0);
    assert_int_equal(script_cancelled, 2);
    script_end(NULL);
}

static void test_cancel(void **state) {
    struct observed observed = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k =
        SCRIPT(NULL, NULL, {.stays_open = true}, {.stays_open = true}, {.stays_open = true});
    struct nc_kube_req *reqs[3];

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(start(k, &observed, &reqs[i], &err), 0);
    assert_null(nc_kube_cancel(reqs[1])); /* the middle, an end, the last one */
    assert_null(nc_kube_cancel(reqs[2]));
    assert_null(nc_kube_cancel(reqs[0]));
    assert_int_equal(script_cancelled, 3);
    assert_int_equal(observed.calls, 0);
    script_end(k);
}

/* Who refuses was reached: its health comes first. Where nobody answers, the way does. */
static void test_remedy_of_no_connection(void **state) {
    static const struct {
        enum nc_http_outcome outcome;
        const char *message, *remedy;
    } rows[] = {
        {NC_HTTP_REFUSED, "connection refused by h:443", "check the API server's endpoint"},
        {NC_HTTP_REFUSED, "no route to h:443: x", "check the subnet's route table"},
        {NC_HTTP_TIMEOUT, "no connection to h:443 within 2s", "check the subnet's route table"}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_http_result r = {.outcome = rows[i].outcome};
        struct nc_kube_status status;
        struct nc_err err = NC_ERR_INIT;

        snprintf(r.message, sizeof(r.message), "%s", rows[i].message);
        assert_true(nc_kube_judge(&r, "x", NULL, &status, &err) < 0);
        assert_true(nc_starts_with(err.remedy, rows[i].remedy));
    }
}

/* The rules hold on both ways out, and nothing is sent. */
/* A token of another time is refused like one of a role that nobody has mapped. */
static void test_401_and_the_clocks(void **state) {
    static const struct {
        uint64_t date_sec, received_sec;
        const char *said, *unsaid;
    } rows[] = {
        {0, 10000, "; check the clock", "set the clock"},
        {10000, 10200, "cluster's name", "clock"},
        {10000, 10300, "set the clock (timedatectl, ", "; check the clock"},
        {10000, 13600, "is 3600 s ahead of the API server's: set the clock", "behind"},
        {10000, 7000, "is 3000 s behind the API server's: set the clock", "ahead"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const struct nc_http_result r = {.outcome = NC_HTTP_ANSWERED,
                                         .status = 401,
                                         .date_usec = rows[i].date_sec * 1000000,
                                         .received_usec = rows[i].received_sec * 1000000};
        struct nc_kube_status status;
        struct nc_err err = NC_ERR_INIT;
        assert_true(nc_kube_judge(&r, "get node", NULL, &status, &err) < 0);
        assert_non_null(strstr(err.remedy, rows[i].said));
        assert_null(strstr(err.remedy, rows[i].unsaid));
    }
}

static void test_rules_are_enforced(void **state) {
    struct nc_kube *k = script_begin(NULL, 0, NULL, NULL);
    const struct nc_kube_call put = {
        .what = "put", .method = "PUT", .path = "/x", .timeout_usec = 1};
    struct nc_kube_call endless = get_node;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_true(nc_kube_perform(k, &put, NULL, NULL, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    assert_true(nc_kube_start(k, &put, NULL, &err) < 0);
    endless.timeout_usec = 0;
    assert_true(nc_kube_perform(k, &endless, NULL, NULL, &err) < 0);
    assert_non_null(strstr(err.msg, "time limit"));
    assert_true(nc_kube_start(k, &endless, NULL, &err) < 0);
    script_end(k);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_new),
        cmocka_unit_test(test_perform),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_remedy_where_the_identity_is_right),
        cmocka_unit_test(test_remedy_of_no_connection),
        cmocka_unit_test(test_status_is_cut),
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_bad_token),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_free_in_callback),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_rules_are_enforced),
        cmocka_unit_test(test_401_and_the_clocks),
    };

    return run_group(tests, NULL, NULL);
}
