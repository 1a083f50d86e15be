/*
 * Events and SelfSubjectReview: what is sent, and what answers mean.
 */
#include "groups.h"
#include "kube-script.h"

#define FIRST 1700000000000000u /* 2023-11-14T22:13:20Z */
#define EVENTS "https://api.test:6443/api/v1/namespaces/default/events"

static const struct nc_event failed = {.kind = "NodeClaim",
                                       .api_version = "karpenter.sh/v1",
                                       .name = "default-x7k2q",
                                       .uid = "u-1",
                                       .warning = true,
                                       .reason = "BootstrapFailed",
                                       .message = "config: no \"cluster\"",
                                       .host = "ip-10-0-0-1.ec2.internal",
                                       .first_usec = FIRST,
                                       .last_usec = FIRST + 2000000,
                                       .count = 3};

/* The body of the last create, without its name, which is a hash. */
static void test_create(void **state) {
    char *name = NULL;
    char *again = NULL;
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k = SCRIPT(NULL, NULL,
                               {.method = "POST",
                                .url = EVENTS,
                                .header = "Content-Type: application/json",
                                .status = 201,
                                .answer = "{'kind':'Event'}"});

    (void)state;
    assert_int_equal(nc_event_create(k, &failed, 1000000, &name, &err), 0);
    assert_true(nc_starts_with(name, "default-x7k2q."));
    assert_int_equal(strlen(name), strlen("default-x7k2q.") + 16);
    script_end(k);

    /* The same Event has the same name: a create whose answer was lost can be sent again. */
    nc_auto_free char *body =
        nc_asprintf("{'apiVersion':'v1','kind':'Event','metadata':{'name':'%s','namespace':'"
                    "default'},'involvedObject':{'kind':'NodeClaim','apiVersion':"
                    "'karpenter.sh/"
                    "v1','name':'default-x7k2q','uid':'u-1'},'type':'Warning','reason':'"
                    "BootstrapFailed','message':'config: no \\'cluster\\'',"
                    "'source':{'component':'nodeclaimd','host':'ip-10-0-0-1.ec2.internal'},'"
                    "firstTimestamp':'2023-11-14T22:13:20Z','lastTimestamp':"
                    "'2023-11-14T22:13:22Z','count':3}",
                    name);
    const struct script_step second = {
        .method = "POST",
        .body = body,
        .status = 409,
        .answer = "{'kind':'Status','apiVersion':'v1','reason':'AlreadyExists'}"};
    k = script_begin(&second, 1, NULL, NULL);
    assert_int_equal(nc_event_create(k, &failed, 1000000, &again, &err), 0);
    assert_string_equal(name, again);
    script_end(k);
    free(name);
    free(again);
}

static void test_create_node_event(void **state) {
    struct nc_event e = {.kind = "Node",
                         .api_version = "v1",
                         .name = "n",
                         .uid = "n",
                         .reason = "Started",
                         .first_usec = FIRST};
    char long_name[300];
    char *name = NULL;
    char *other = NULL;
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k = SCRIPT(NULL, NULL, {.status = 201}, {.status = 201}, {.status = 201});

    (void)state;
    assert_int_equal(nc_event_create(k, &e, 1000000, NULL, &err), 0);
    memset(long_name, '-', sizeof(long_name) - 1);
    memset(long_name, 'a', 200);
    long_name[sizeof(long_name) - 1] = '\0';
    e.name = long_name;
    e.uid = NULL;
    assert_int_equal(nc_event_create(k, &e, 1000000, &name, &err), 0);
    assert_int_equal(strlen(name), 200 + 17);
    e.reason = "Stopped";
    assert_int_equal(nc_event_create(k, &e, 1000000, &other, &err), 0);
    assert_string_not_equal(name, other);
    free(name);
    free(other);
    script_end(k);
}

static void test_create_refused(void **state) {
    struct nc_err err = NC_ERR_INIT;
    char *name = NULL;
    struct nc_kube *k = SCRIPT(
        NULL, NULL,
        {.status = 403,
         .answer = "{'kind':'Status','apiVersion':'v1','reason':'Forbidden','message':'no'}"},
        {.status = 409, .answer = "{'kind':'Status','apiVersion':'v1','reason':'Conflict'}"},
        {.status = 500});

    (void)state;
    assert_true(nc_event_create(k, &failed, 1000000, &name, &err) < 0);
    assert_string_equal(err.msg, "create event: HTTP 403 Forbidden: no");
    assert_int_equal(err.class, NC_ERR_AUTH);
    assert_true(nc_event_create(k, &failed, 1000000, &name, &err) < 0);
    assert_true(nc_event_create(k, &failed, 1000000, &name, NULL) < 0);
    assert_null(name);
    script_end(k);
}

static void test_update(void **state) {
    char text[1200];
    struct nc_event e = failed;
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k =
        SCRIPT(NULL, NULL,
               {.method = "PATCH",
                .url = EVENTS "/a%2Fb",
                .header = "Content-Type: application/merge-patch+json",
                .body = "{'message':'config: no "
                        "\\'cluster\\'','lastTimestamp':'2023-11-14T22:13:22Z','count':3}"},
               {.status = 404});

    (void)state;
    assert_int_equal(nc_event_update(k, "a/b", &e, 1000000, &err), 0);
    assert_true(nc_event_update(k, "gone", &e, 1000000, &err) < 0);
    assert_int_equal(err.code, 404);
    script_end(k);

    /* The message is cut at a character. */
    memset(text, 'x', sizeof(text));
    memcpy(text + 1023, "\xc3\xa9", 2);
    text[1199] = '\0';
    nc_auto_free char *cut = nc_strndup(text, 1023);
    nc_auto_free char *body =
        nc_asprintf("{'message':'%s','lastTimestamp':'2023-11-14T22:13:20Z','count':1}", cut);
    const struct script_step step = {.body = body};
    k = script_begin(&step, 1, NULL, NULL);
    e = (struct nc_event){.message = text, .first_usec = FIRST};
    assert_int_equal(nc_event_update(k, "x", &e, 1000000, &err), 0);
    script_end(k);
}

static const struct {
    struct script_step steps[2];
    const char *username; /* NULL: fails */
    enum nc_err_class class;
    int http;
} reviews[] = {
    {{{.method = "POST",
       .url = "https://api.test:6443/apis/authentication.k8s.io/v1/selfsubjectreviews",
       .status = 201,
       .body = "{'apiVersion':'authentication.k8s.io/v1','kind':'SelfSubjectReview'}",
       .answer = "{'kind':'SelfSubjectReview','status':{'userInfo':{'username':'system:node:a','"
                 "groups':['system:nodes',5,'system:authenticated']}}}"}},
     "system:node:a",
     0,
     201},
    {{{.status = 404, .raw = "404 page not found"},
      {.url = "https://api.test:6443/apis/authentication.k8s.io/v1beta1/selfsubjectreviews",
       .status = 201,
       .body = "{'apiVersion':'authentication.k8s.io/v1beta1','kind':'SelfSubjectReview'}",
       .answer = "{'status':{'userInfo':{'username':'x','groups':{}}}}"}},
     "x",
     0,
     201},
    {{{.status = 404}, {.status = 404}}, NULL, NC_ERR_PROTOCOL, 404},
    {{{.status = 401}}, NULL, NC_ERR_AUTH, 401},
    {{{.status = 201, .answer = "{'status':{'userInfo':{'username':''}}}"}},
     NULL,
     NC_ERR_PROTOCOL,
     201},
    {{{.status = 201, .raw = ""}}, NULL, NC_ERR_PROTOCOL, 201},
};

static void test_whoami(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(reviews); i++) {
        struct nc_kube *k =
            script_begin(reviews[i].steps, reviews[i].steps[1].status ? 2 : 1, NULL, NULL);
        struct nc_identity who = {0};
        struct nc_kube_status status;
        struct nc_err err = NC_ERR_INIT;
        print_message("# row %zu\n", i);
        const int r = nc_kube_whoami(k, 1000000, &who, &status, &err);
        assert_int_equal(r < 0, !reviews[i].username);
        assert_int_equal(err.class, reviews[i].class);
        assert_int_equal(nc_starts_with(err.msg, "get own identity: "), r < 0);
        assert_int_equal(status.http, reviews[i].http);
        if (reviews[i].username)
            assert_string_equal(who.username, reviews[i].username);
        nc_identity_done(&who);
        script_end(k);
    }
}

struct reviewed {
    struct nc_identity who;
    struct nc_err err;
};

static void on_reviewed(void *userdata, struct nc_identity *who, const struct nc_err *err) {
    struct reviewed *r = userdata;

    r->who = *who;
    *who = (struct nc_identity){0};
    r->err = *err;
    (void)sd_event_exit(script_loop(), 0);
}

static void test_whoami_in_the_loop(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(reviews); i++) {
        struct nc_kube *k =
            script_begin(reviews[i].steps, reviews[i].steps[1].status ? 2 : 1, NULL, NULL);
        struct reviewed told = {0};
        struct nc_identity_call c = {
            .kube = k, .timeout_usec = 1000000, .done = on_reviewed, .userdata = &told};
        print_message("# row %zu\n", i);
        assert_int_equal(nc_kube_whoami_start(&c, NULL), 0);
        script_run();
        assert_null(c.req);
        assert_int_equal(told.err.class, reviews[i].class);
        if (reviews[i].username)
            assert_string_equal(told.who.username, reviews[i].username);
        nc_identity_done(&told.who);
        script_end(k);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_create),         cmocka_unit_test(test_create_node_event),
        cmocka_unit_test(test_create_refused), cmocka_unit_test(test_update),
        cmocka_unit_test(test_whoami),         cmocka_unit_test(test_whoami_in_the_loop),
    };

    return run_group(tests, NULL, NULL);
}
