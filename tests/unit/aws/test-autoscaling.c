/*
 * The three requests to Auto Scaling: signed for its service, and what each answer means.
 */
#include <stdio.h>

#include "ec2-priv.h"
#include "groups.h"
#include "loopback.h"
#include "nc/clock.h"
#include "nc/str.h"

#define ID "i-0123456789abcdef0"
#define INSTANCES(inner)                                                                           \
    "<DescribeAutoScalingInstancesResponse "                                                       \
    "xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\">"                                  \
    "<DescribeAutoScalingInstancesResult><AutoScalingInstances>" inner                             \
    "</AutoScalingInstances></DescribeAutoScalingInstancesResult><ResponseMetadata><RequestId>r"   \
    "</RequestId></ResponseMetadata></DescribeAutoScalingInstancesResponse>"
#define MEMBER(id, group, state)                                                                   \
    "<member><ProtectedFromScaleIn>false</ProtectedFromScaleIn><AutoScalingGroupName>" group       \
    "</AutoScalingGroupName><InstanceId>" id "</InstanceId><LifecycleState>" state                 \
    "</LifecycleState></member>"
#define ACCEPTED(action)                                                                           \
    "<" action "Response xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><" action      \
    "Result/><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></" action "Response>"
#define REFUSAL(code, message)                                                                     \
    "<ErrorResponse xmlns=\"http://autoscaling.amazonaws.com/doc/2011-01-01/\"><Error><Type>"      \
    "Sender</Type><Code>" code "</Code><Message>" message "</Message></Error></ErrorResponse>"
#define COMPLETE "CompleteLifecycleAction"
#define HEARTBEAT "RecordLifecycleActionHeartbeat"
#define NO_ACTION "No active Lifecycle Action found with instance ID " ID

static const struct nc_credentials keys = {(char *)(uintptr_t) "AKIDEXAMPLE",
                                           (char *)(uintptr_t) "topsecret",
                                           (char *)(uintptr_t) "sessiontoken", 0, NULL};

struct world {
    sd_event *event;
    struct nc_http *http;
    struct loopback *server;
    struct nc_ec2 aws;
    int status;
    const char *body;
    char head[4096], sent[8192];
    struct nc_autoscaling_call call;
    unsigned answers;
    bool is_unknown, is_refused;
    char group[64], state[64];
    struct nc_err err;
};

static bool play(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    struct world *w = userdata;

    snprintf(w->head, sizeof(w->head), "%s", r->head);
    snprintf(w->sent, sizeof(w->sent), "%s", r->body);
    return loopback_answer(c, w->status, "", w->body);
}

static void on_done(struct nc_autoscaling_call *call, const struct nc_err *err) {
    struct world *w = call->userdata;

    w->answers++;
    w->err = *err;
    w->is_unknown = call->is_unknown;
    w->is_refused = call->is_refused;
    snprintf(w->group, sizeof(w->group), "%s", call->group ? call->group : "");
    snprintf(w->state, sizeof(w->state), "%s", call->state ? call->state : "");
}

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    assert_true(sd_event_new(&w->event) >= 0);
    assert_int_equal(nc_http_new(w->event, 0, &w->http, NULL), 0);
    w->server = loopback_start(NULL, play, w);
    w->aws = (struct nc_ec2){w->http, loopback_url(w->server), "us-west-2",
                             &keys,   1704164645ull * 1000000, 5000000};
    w->call.done = on_done;
    w->call.userdata = w;
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_autoscaling_call_cancel(&w->call);
    nc_http_free(w->http);
    loopback_stop(w->server);
    sd_event_unref(w->event);
    free(w);
    return 0;
}

static void turn(struct world *w) {
    const uint64_t until = nc_mono_usec() + 20000000u;
    const unsigned before = w->answers;

    while (w->answers == before && nc_mono_usec() < until)
        assert_true(sd_event_run(w->event, 100000) >= 0);
    assert_int_equal(w->answers, before + 1);
}

static void describe(struct world *w, int status, const char *body) {
    w->status = status;
    w->body = body;
    if (nc_autoscaling_describe_start(&w->aws, ID, &w->call, &w->err) < 0)
        fail_msg("%s", w->err.msg);
    turn(w);
}

static const struct nc_autoscaling_action ours = {
    .instance_id = ID, .group = "g", .hook = "nodeclaimd"};

static void act(struct world *w, bool completes, int status, const char *body) {
    struct nc_autoscaling_action a = ours;

    a.completes = completes;
    w->status = status;
    w->body = body;
    if (nc_autoscaling_action_start(&w->aws, &a, &w->call, &w->err) < 0)
        fail_msg("%s", w->err.msg);
    turn(w);
}

static void test_describe(void **state) {
    struct world *w = *state;

    describe(w, 200, INSTANCES(MEMBER(ID, "my group", "Terminating:Wait")));
    assert_int_equal(w->err.class, NC_ERR_NONE);
    assert_string_equal(w->group, "my group");
    assert_string_equal(w->state, "Terminating:Wait");
    assert_false(w->is_unknown);
    assert_string_equal(w->sent, "Action=DescribeAutoScalingInstances&InstanceIds.member.1=" ID
                                 "&Version=2011-01-01");
    assert_non_null(strstr(w->head, "POST / HTTP/1.1\r\n"));
    assert_non_null(strstr(w->head, "/20240102/us-west-2/autoscaling/aws4_request"));
    assert_non_null(strstr(w->head, "\r\nX-Amz-Security-Token: sessiontoken\r\n"));
    assert_null(strstr(w->head, "topsecret"));
    describe(w, 200, INSTANCES(""));
    assert_int_equal(w->err.class, NC_ERR_NONE);
    assert_true(w->is_unknown);
    assert_string_equal(w->group, "");
}

/* What cannot be read is never taken for an instance of no group. */
static void test_descriptions_that_are_refused(void **state) {
    static const struct {
        int status;
        const char *body;
        enum nc_err_class class;
        const char *msg;
    } rows[] = {
        {200, "", NC_ERR_PROTOCOL, "XML"},
        {200, "<html/>", NC_ERR_PROTOCOL, "no list of instances"},
        {200,
         "<DescribeAutoScalingInstancesResponse><DescribeAutoScalingInstancesResult/>"
         "</DescribeAutoScalingInstancesResponse>",
         NC_ERR_PROTOCOL, "no list of instances"},
        {200, INSTANCES(MEMBER("i-0fffffffffffffff0", "g", "InService")), NC_ERR_PROTOCOL,
         "another instance"},
        {200, INSTANCES("<member/>"), NC_ERR_PROTOCOL, "another instance"},
        {200, INSTANCES(MEMBER(ID, "g", "InService") MEMBER(ID, "g", "Terminating:Wait")),
         NC_ERR_PROTOCOL, "more than one instance"},
        {200, INSTANCES(MEMBER(ID, "", "InService")), NC_ERR_PROTOCOL, "invalid name of the group"},
        {200, INSTANCES(MEMBER(ID, "g", "In Service")), NC_ERR_PROTOCOL, "invalid lifecycle state"},
        {200, INSTANCES(MEMBER(ID, "g", "")), NC_ERR_PROTOCOL, "invalid lifecycle state"},
        {403, REFUSAL("AccessDenied", "no"), NC_ERR_AUTH, "'AccessDenied': 'no'"},
        {400, REFUSAL("Throttling", "Rate exceeded"), NC_ERR_TRANSIENT, "'Throttling'"},
        {400, REFUSAL("ResourceContention", "x"), NC_ERR_TRANSIENT, "'ResourceContention'"},
        {400, REFUSAL("ValidationError", NO_ACTION), NC_ERR_CONFIG, "'ValidationError'"},
        {503, "", NC_ERR_TRANSIENT, "HTTP 503"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        describe(w, rows[i].status, rows[i].body);
        if (w->err.class != rows[i].class || !strstr(w->err.msg, rows[i].msg) || w->is_unknown
            || w->group[0] || !nc_starts_with(w->err.msg, "autoscaling: DescribeAutoScalingInst"))
            fail_msg("row %zu: class %d: %s", i, w->err.class, w->err.msg);
    }
}

static void test_actions(void **state) {
    struct world *w = *state;

    act(w, true, 200, ACCEPTED(COMPLETE));
    assert_int_equal(w->err.class, NC_ERR_NONE);
    assert_false(w->is_unknown);
    assert_string_equal(w->sent, "Action=" COMPLETE "&AutoScalingGroupName=g&InstanceId=" ID
                                 "&LifecycleActionResult=CONTINUE&LifecycleHookName=nodeclaimd"
                                 "&Version=2011-01-01");
    act(w, false, 200, ACCEPTED(HEARTBEAT));
    assert_int_equal(w->err.class, NC_ERR_NONE);
    assert_string_equal(w->sent, "Action=" HEARTBEAT "&AutoScalingGroupName=g&InstanceId=" ID
                                 "&LifecycleHookName=nodeclaimd&Version=2011-01-01");
}

static void test_what_an_action_is_answered(void **state) {
    static const struct {
        int status;
        const char *body;
        enum nc_err_class class;
        bool is_unknown, is_refused;
        const char *msg, *remedy;
    } rows[] = {
        {400, REFUSAL("ValidationError", NO_ACTION), NC_ERR_NONE, true, false, "", ""},
        {400, REFUSAL("ValidationError", "Lifecycle hook not found"), NC_ERR_CONFIG, false, true,
         "'Lifecycle hook not found'", ""},
        /* these words, under another code */
        {400, REFUSAL("Throttling", NO_ACTION), NC_ERR_TRANSIENT, false, false, "Throttling", ""},
        {403, REFUSAL("AccessDenied", "User: x"), NC_ERR_AUTH, false, false, "'AccessDenied'",
         "allow autoscaling:" COMPLETE " to the role"},
        {403, REFUSAL("InvalidClientTokenId", "x"), NC_ERR_AUTH, false, false, "", "clock"},
        {500, REFUSAL("InternalFailure", "x"), NC_ERR_TRANSIENT, false, false, "", ""},
        {200, ACCEPTED(HEARTBEAT), NC_ERR_PROTOCOL, false, false, "is not one to " COMPLETE, ""},
        {200, "", NC_ERR_PROTOCOL, false, false, "XML", ""},
        {302, "", NC_ERR_PROTOCOL, false, false, "HTTP 302", ""},
    };
    struct world *w = *state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        act(w, true, rows[i].status, rows[i].body);
        if (w->err.class != rows[i].class || w->is_unknown != rows[i].is_unknown
            || w->is_refused != rows[i].is_refused || !strstr(w->err.msg, rows[i].msg)
            || !strstr(w->err.remedy, rows[i].remedy))
            fail_msg("row %zu: class %d: %s (%s)", i, w->err.class, w->err.msg, w->err.remedy);
    }
}

/* Nothing of a name can end its field of the form. */
static void test_names(void **state) {
    static const char *const hooks[] = {"", "a b", "a&InstanceId=i-1", "a%2F", NULL};
    struct nc_autoscaling_action a = ours;
    struct world *w = *state;
    nc_auto_free char *long_name = nc_calloc(1, NC_AUTOSCALING_GROUP_BYTES + 2);

    a.group = "a&InstanceId=i-1 b+c/\xc3\xa9";
    a.hook = "t/n-d_1";
    w->status = 200;
    w->body = ACCEPTED(HEARTBEAT);
    assert_int_equal(nc_autoscaling_action_start(&w->aws, &a, &w->call, &w->err), 0);
    turn(w);
    assert_non_null(strstr(w->sent, "&AutoScalingGroupName=a%26InstanceId%3Di-1%20b%2Bc%2F%C3%A9"
                                    "&InstanceId=" ID "&LifecycleHookName=t%2Fn-d_1&Version="));
    for (size_t i = 0; i < NC_ARRAY_SIZE(hooks); i++) {
        a.hook = hooks[i];
        assert_false(nc_autoscaling_is_hook(hooks[i]));
        assert_true(nc_autoscaling_action_start(&w->aws, &a, &w->call, &w->err) < 0);
        assert_int_equal(w->err.class, NC_ERR_BUG);
    }
    a = ours;
    a.group = long_name;
    assert_true(nc_autoscaling_action_start(&w->aws, &a, &w->call, NULL) < 0);
    memset(long_name, 'g', NC_AUTOSCALING_GROUP_BYTES + 1);
    assert_true(nc_autoscaling_action_start(&w->aws, &a, &w->call, NULL) < 0);
    long_name[NC_AUTOSCALING_GROUP_BYTES] = '\0';
    assert_int_equal(nc_autoscaling_action_start(&w->aws, &a, &w->call, NULL), 0);
    turn(w);
    a = ours;
    a.instance_id = "i-1&Version=1";
    assert_true(nc_autoscaling_action_start(&w->aws, &a, &w->call, NULL) < 0);
    assert_true(nc_autoscaling_describe_start(&w->aws, "i-1&Version=1", &w->call, NULL) < 0);
    w->aws.credentials = NULL;
    assert_true(nc_autoscaling_describe_start(&w->aws, ID, &w->call, &w->err) < 0);
    assert_string_equal(w->err.msg, "autoscaling: DescribeAutoScalingInstances: no credentials");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_describe, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_descriptions_that_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_actions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_an_action_is_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
    };

    return run_group(tests, NULL, NULL);
}
