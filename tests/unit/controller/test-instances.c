/*
 * Ending instances: what is asked of EC2 and with whose keys, what its answers mean, what is no
 * instance of EC2. One server on loopback plays EC2, STS and IMDS.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "controller.h"
#include "loopback.h"
#include "nc/clock.h"
#include "nc/mem.h"
#include "nc/role.h"
#include "nc/str.h"
#include "nc/time.h"

#define PATIENCE_USEC 20000000u
#define ID "i-0123456789abcdef0"
#define PROVIDER "aws:///us-west-2a/" ID
#define ENDED                                                                                      \
    "<TerminateInstancesResponse><instancesSet><item><instanceId>" ID                              \
    "</instanceId></item></instancesSet></TerminateInstancesResponse>"
#define FAILURE(code)                                                                              \
    "<Response><Errors><Error><Code>" code "</Code><Message>m</Message></Error></Errors></"        \
    "Response>"
#define STS                                                                                        \
    "<AssumeRoleWithWebIdentityResponse "                                                          \
    "xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleWithWebIdentityResult>"        \
    "<Credentials><AccessKeyId>ASIASTS</AccessKeyId><SecretAccessKey>sss</SecretAccessKey>"        \
    "<SessionToken>ttt</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"  \
    "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
#define KEYS                                                                                       \
    "{\"Code\":\"Success\",\"AccessKeyId\":\"ASIAIMDS\",\"SecretAccessKey\":\"sss\",\"Token\":"    \
    "\"ttt\",\"Expiration\":\"%s\"}"

struct world {
    sd_event *event;
    struct loopback *server;
    struct nc_settings settings;
    struct nc_instances *instances;
    int status; /* of EC2 */
    const char *body;
    char sent[512], head[4096]; /* to EC2, the last one */
    char sts[1024];
    atomic_uint orders, keys;
    char keys_end[32], keys_head[1024]; /* of IMDS and of a container's endpoint */
    unsigned answers;
    enum nc_control_answer answer;
    uint64_t id;
    enum nc_control_refusal refusal;
    struct nc_err err;
    char token[64], name[64], group[64];
    const char *state;
};

static bool give_keys(struct world *w, struct loopback_conn *c, const struct loopback_request *r) {
    nc_auto_free char *keys = nc_asprintf(KEYS, w->keys_end);

    atomic_fetch_add(&w->keys, 1);
    (void)snprintf(w->keys_head, sizeof(w->keys_head), "%s", r->head);
    return loopback_answer(c, 200, "", nc_ends_with(r->path, "/") ? "node-role" : keys);
}

static bool serve(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    struct world *w = userdata;

    if (nc_streq(r->path, "/latest/api/token"))
        return loopback_answer(c, 200, "X-Aws-Ec2-Metadata-Token-Ttl-Seconds: 60\r\n", "T");
    if (nc_starts_with(r->path, "/latest/meta-data/iam/security-credentials/")
        || nc_streq(r->path, "/v1/credentials"))
        return give_keys(w, c, r);
    if (strstr(r->body, "AssumeRole")) {
        atomic_fetch_add(&w->keys, 1);
        (void)snprintf(w->sts, sizeof(w->sts), "%s", r->body);
        return loopback_answer(c, 200, "", STS);
    }
    atomic_fetch_add(&w->orders, 1);
    (void)snprintf(w->sent, sizeof(w->sent), "%s", r->body);
    (void)snprintf(w->head, sizeof(w->head), "%s", r->head);
    return loopback_answer(c, w->status, "", w->body);
}

static void on_done(void *userdata, const struct nc_instances_answer *a, const struct nc_err *err) {
    struct world *w = userdata;

    w->answers++;
    w->id = a->id;
    (void)snprintf(w->name, sizeof(w->name), "%s", a->name ? a->name : "");
    (void)snprintf(w->group, sizeof(w->group), "%s %s", a->group ? a->group : "-",
                   a->state ? a->state : "-");
    w->answer = a->answer;
    w->state = a->instance_state;
    w->refusal = a->refusal;
    w->err = *err;
}

static int call(struct world *w, enum nc_control_verb verb, uint64_t id, const char *provider_id,
                struct nc_err *err) {
    const struct nc_control_action a = {.verb = verb,
                                        .id = id,
                                        .provider_id = (char *)(uintptr_t)provider_id,
                                        .group = (char *)(uintptr_t) "g 1"};

    return nc_instances_call(w->instances, &a, err);
}

static int open_instances(struct world *w) {
    const struct nc_instances_options o = {
        .settings = &w->settings, .done = on_done, .userdata = w};

    return nc_instances_new(w->event, &o, &w->instances, NULL);
}

static void forget_environment(void) {
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_ROLE_ARN",
                                        "AWS_ROLE_SESSION_NAME",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"};

    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++)
        (void)unsetenv(names[i]);
}

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    *state = w;
    forget_environment();
    w->status = 200;
    w->body = ENDED;
    strcpy(w->keys_end, "2099-01-01T00:00:00Z");
    w->server = loopback_start(NULL, serve, w);
    w->settings.ec2_endpoint = w->settings.sts_endpoint = w->settings.imds =
        w->settings.autoscaling_endpoint = loopback_url(w->server);
    w->settings.lifecycle_hook = "our/hook";
    return sd_event_new(&w->event) < 0 ? -1 : 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_instances_free(w->instances);
    loopback_stop(w->server);
    sd_event_unref(w->event);
    if (*w->token)
        (void)unlink(w->token);
    free(w);
    forget_environment();
    return 0;
}

static void open_with_keys(struct world *w) {
    (void)setenv("AWS_ACCESS_KEY_ID", "AKIDENV", 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "topsecret", 1);
    assert_int_equal(open_instances(w), 0);
}

/* Orders the end, and turns the loop until it is answered. */
static enum nc_control_answer end(struct world *w, const char *provider_id) {
    const uint64_t until = nc_mono_usec() + PATIENCE_USEC;
    const unsigned before = w->answers;
    struct nc_err err = NC_ERR_INIT;

    if (call(w, NC_CONTROL_END_INSTANCE, 7, provider_id, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(w->answers, before); /* never inside of the call */
    while (w->answers == before && nc_mono_usec() < until)
        assert_true(sd_event_run(w->event, 100000) >= 0);
    assert_int_equal(w->answers, before + 1);
    assert_int_equal(w->id, 7);
    return w->answer;
}

static void test_ends(void **state) {
    struct world *w = *state;

    open_with_keys(w);
    assert_int_equal(end(w, PROVIDER), NC_CONTROL_DONE);
    assert_string_equal(w->sent,
                        "Action=TerminateInstances&InstanceId.1=" ID "&Version=2016-11-15");
    assert_non_null(strstr(w->head, "Credential=AKIDENV/"));
    assert_non_null(strstr(w->head, "/us-west-2/ec2/aws4_request"));
    assert_null(strstr(w->head, "topsecret"));
    assert_int_equal(atomic_load(&w->keys), 0);
}

static void test_regions(void **state) {
    static const char *const rows[][2] = {{"aws:///us-gov-west-1b/" ID, "/us-gov-west-1/ec2/"},
                                          {"aws:///us-west-2-lax-1a/" ID, "/us-west-2/ec2/"},
                                          {"aws:///ap-southeast-12c/" ID, "/ap-southeast-12/ec2/"}};
    struct world *w = *state;

    open_with_keys(w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        assert_int_equal(end(w, rows[i][0]), NC_CONTROL_DONE);
        assert_non_null(strstr(w->head, rows[i][1]));
    }
}

static void test_describes(void **state) {
    struct world *w = *state;
    const uint64_t until = nc_mono_usec() + PATIENCE_USEC;

    open_with_keys(w);
    w->body = "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>" ID
              "</instanceId><privateDnsName>ip-10-0-0-1.ec2.internal</privateDnsName></item>"
              "</instancesSet></item></reservationSet></DescribeInstancesResponse>";
    assert_int_equal(call(w, NC_CONTROL_DESCRIBE_INSTANCE, 7, PROVIDER, NULL), 0);
    while (w->answers == 0 && nc_mono_usec() < until)
        assert_true(sd_event_run(w->event, 100000) >= 0);
    assert_string_equal(w->sent, "Action=DescribeInstances&InstanceId.1=" ID "&Version=2016-11-15");
    assert_int_equal(w->answer, NC_CONTROL_DONE);
    assert_int_equal(w->id, 7);
    assert_string_equal(w->name, "ip-10-0-0-1.ec2.internal");
    w->body = ENDED;
    assert_int_equal(end(w, PROVIDER), NC_CONTROL_DONE);
    assert_string_equal(w->name, "");
}

static enum nc_control_answer ask_group(struct world *w, enum nc_control_verb verb) {
    const uint64_t until = nc_mono_usec() + PATIENCE_USEC;
    const unsigned before = w->answers;

    assert_int_equal(call(w, verb, 11, PROVIDER, NULL), 0);
    while (w->answers == before && nc_mono_usec() < until)
        assert_true(sd_event_run(w->event, 100000) >= 0);
    assert_int_equal(w->id, 11);
    return w->answer;
}

static void test_groups(void **state) {
    struct world *w = *state;

    open_with_keys(w);
    w->body = "<DescribeAutoScalingInstancesResponse><DescribeAutoScalingInstancesResult>"
              "<AutoScalingInstances><member><InstanceId>" ID "</InstanceId><AutoScalingGroupName>"
              "g 1</AutoScalingGroupName><LifecycleState>Terminating:Wait</LifecycleState></member>"
              "</AutoScalingInstances></DescribeAutoScalingInstancesResult>"
              "</DescribeAutoScalingInstancesResponse>";
    assert_int_equal(ask_group(w, NC_CONTROL_DESCRIBE_LIFECYCLE), NC_CONTROL_DONE);
    assert_string_equal(w->group, "g 1 Terminating:Wait");
    assert_non_null(strstr(w->head, "/us-west-2/autoscaling/aws4_request"));
    w->body = "<CompleteLifecycleActionResponse><CompleteLifecycleActionResult/>"
              "</CompleteLifecycleActionResponse>";
    assert_int_equal(ask_group(w, NC_CONTROL_COMPLETE_ACTION), NC_CONTROL_DONE);
    assert_string_equal(w->sent, "Action=CompleteLifecycleAction&AutoScalingGroupName=g%201&"
                                 "InstanceId=" ID "&LifecycleActionResult=CONTINUE&"
                                 "LifecycleHookName=our%2Fhook&Version=2011-01-01");
    assert_int_equal(ask_group(w, NC_CONTROL_RECORD_HEARTBEAT), NC_CONTROL_UNAVAILABLE);
    w->status = 400;
    w->body = "<ErrorResponse><Error><Code>ValidationError</Code><Message>No active Lifecycle "
              "Action found with instance ID " ID "</Message></Error></ErrorResponse>";
    assert_int_equal(ask_group(w, NC_CONTROL_COMPLETE_ACTION), NC_CONTROL_MISSING);
    assert_int_equal(ask_group(w, NC_CONTROL_DESCRIBE_LIFECYCLE), NC_CONTROL_REFUSED);
    assert_int_equal(w->refusal, NC_CONTROL_REFUSAL_OTHER);
    w->body = "<ErrorResponse><Error><Code>ValidationError</Code><Message>what</Message></Error>"
              "</ErrorResponse>";
    assert_int_equal(ask_group(w, NC_CONTROL_RECORD_HEARTBEAT), NC_CONTROL_REFUSED);
    assert_int_equal(w->refusal, NC_CONTROL_REFUSAL_HOOK);
    w->body = "<ErrorResponse><Error><Code>AccessDenied</Code></Error></ErrorResponse>";
    assert_int_equal(ask_group(w, NC_CONTROL_RECORD_HEARTBEAT), NC_CONTROL_REFUSED);
    assert_int_equal(w->refusal, NC_CONTROL_REFUSAL_DENIED);
}

#define REFUSAL(code) "<Response><Errors><Error><Code>" code "</Code></Error></Errors></Response>"
#define STATE(state)                                                                               \
    "<DescribeInstancesResponse><reservationSet><item><instancesSet><item><instanceId>" ID         \
    "</instanceId><instanceState>" state "</instanceState><privateDnsName/></item>"                \
    "</instancesSet></item></reservationSet></DescribeInstancesResponse>"

static void test_states(void **state) {
    static const struct {
        int status;
        const char *body;
        enum nc_control_answer answer;
        const char *state;
    } rows[] = {
        {200, STATE("<code>48</code><name>terminated</name>"), NC_CONTROL_DONE, "terminated"},
        {200, STATE("<code>16</code><name>running</name>"), NC_CONTROL_DONE, "running"},
        {200, STATE("<code>16</code><name>terminated</name>"), NC_CONTROL_UNAVAILABLE, NULL},
        {400, REFUSAL("InvalidInstanceID.NotFound"), NC_CONTROL_MISSING, NULL},
        {400, REFUSAL("InvalidInstanceID.Malformed"), NC_CONTROL_MISSING, NULL}, /* its own harm */
        {403, REFUSAL("UnauthorizedOperation"), NC_CONTROL_REFUSED, NULL},
        {503, REFUSAL("RequestLimitExceeded"), NC_CONTROL_UNAVAILABLE, NULL},
    };
    struct world *w = *state;

    open_with_keys(w);
    for (size_t k = 0; k < NC_ARRAY_SIZE(rows); k++) {
        const uint64_t until = nc_mono_usec() + PATIENCE_USEC;
        w->answers = 0;
        w->status = rows[k].status;
        w->body = rows[k].body;
        assert_int_equal(call(w, NC_CONTROL_INSTANCE_STATE, 7, PROVIDER, NULL), 0);
        while (w->answers == 0 && nc_mono_usec() < until)
            assert_true(sd_event_run(w->event, 100000) >= 0);
        assert_int_equal(w->answer, rows[k].answer);
        if (rows[k].state)
            assert_string_equal(w->state, rows[k].state);
        assert_null(strstr(w->err.remedy, "AgentConfig"));
    }
    assert_string_equal(w->sent, "Action=DescribeInstances&InstanceId.1=" ID "&Version=2016-11-15");
}

/* Another region would say that it knows no such instance, and a claim would be released whose
 * machine runs. */
static void test_another_region(void **state) {
    struct world *w = *state;
    struct nc_err err = NC_ERR_INIT;

    open_with_keys(w);
    w->settings.region = "us-west-2";
    assert_int_equal(end(w, PROVIDER), NC_CONTROL_DONE);
    w->settings.region = "eu-west-1";
    assert_true(call(w, NC_CONTROL_END_INSTANCE, 8, PROVIDER, &err) < 0);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_non_null(strstr(err.msg, ID " is in us-west-2, not in eu-west-1"));
    assert_non_null(strstr(err.remedy, "--region"));
    assert_int_equal(atomic_load(&w->orders), 1);
}

static void test_what_answers_mean(void **state) {
    static const struct {
        int status;
        const char *body;
        enum nc_control_answer answer;
    } rows[] = {
        {400, FAILURE("InvalidInstanceID.NotFound"), NC_CONTROL_MISSING},
        {400, FAILURE("InvalidInstanceID.Malformed"), NC_CONTROL_REFUSED},
        {403, FAILURE("UnauthorizedOperation"), NC_CONTROL_REFUSED},
        {400, FAILURE("OperationNotPermitted"), NC_CONTROL_REFUSED},
        {503, FAILURE("RequestLimitExceeded"), NC_CONTROL_UNAVAILABLE},
        {500, "", NC_CONTROL_UNAVAILABLE},
        {200, "<TerminateInstancesResponse/>", NC_CONTROL_UNAVAILABLE},
        {200, "nonsense", NC_CONTROL_UNAVAILABLE},
    };
    struct world *w = *state;

    open_with_keys(w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        w->status = rows[i].status;
        w->body = rows[i].body;
        if (end(w, PROVIDER) != rows[i].answer)
            fail_msg("row %zu: %d: %s", i, w->answer, w->err.msg);
        assert_int_equal(w->err.class == NC_ERR_NONE, rows[i].answer == NC_CONTROL_MISSING);
    }
}

static void test_no_instance(void **state) {
    static const char *const rows[] = {
        NULL,
        "",
        ID,
        "aws:///" ID,
        "aws:///us-west-2a/",
        "aws:///us-west-2a/" ID "/x",
        "aws:///us-west-2a/i-0123",
        "aws:///us-west-2a/i-0123456789ABCDEF0",
        "aws:///us-west-2a/i-0123456789abcdef0&InstanceId.2=i-1",
        "aws:///us west-2a/" ID,
        "aws:///nowhere/" ID,
        "gce:///us-west-2a/" ID,
    };
    struct world *w = *state;

    open_with_keys(w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (call(w, NC_CONTROL_END_INSTANCE, 1, rows[i], NULL) >= 0)
            fail_msg("row %zu was taken", i);
    assert_int_equal(atomic_load(&w->orders), 0);
}

/* A crowd: all are answered, the keys are requested once. */
static void test_crowd_with_the_instance_role(void **state) {
    struct world *w = *state;
    const uint64_t until = nc_mono_usec() + PATIENCE_USEC;

    assert_int_equal(open_instances(w), 0);
    for (uint64_t k = 0; k < 100; k++)
        assert_int_equal(call(w, NC_CONTROL_END_INSTANCE, k, PROVIDER, NULL), 0);
    while (w->answers < 100 && nc_mono_usec() < until)
        assert_true(sd_event_run(w->event, 100000) >= 0);
    assert_int_equal(w->answers, 100);
    assert_int_equal(w->answer, NC_CONTROL_DONE);
    assert_int_equal(atomic_load(&w->orders), 100);
    assert_int_equal(atomic_load(&w->keys), 2); /* which role, and its keys */
    assert_non_null(strstr(w->head, "Credential=ASIAIMDS/"));
    assert_non_null(strstr(w->head, "\r\nX-Amz-Security-Token: ttt\r\n"));
}

/* Where IAM is unavailable, IMDS goes on giving out keys that have ended, and AWS goes on taking
 * them: there are no others, so these are used, and requested anew a minute later. */
static void test_keys_that_have_ended(void **state) {
    static const uint64_t ago_usec = 3600u * 1000000ull, left_usec = 60u * 1000000ull;
    const uint64_t ends[] = {nc_now_usec() - ago_usec, nc_now_usec() + left_usec};
    struct world *w = *state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(ends); i++) {
        nc_time_format(ends[i], w->keys_end);
        atomic_store(&w->keys, 0);
        assert_int_equal(open_instances(w), 0);
        assert_int_equal(end(w, PROVIDER), NC_CONTROL_DONE);
        assert_int_equal(end(w, PROVIDER), NC_CONTROL_DONE);
        assert_int_equal(atomic_load(&w->keys), 2); /* which role, and its keys */
        w->instances = nc_instances_free(w->instances);
    }
}

static void write_token(struct world *w) {
    int fd;

    strcpy(w->token, "/tmp/nc-test-token.XXXXXX");
    fd = mkstemp(w->token);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "a.b/c\n", 6), 6);
    (void)close(fd);
}

static void test_web_identity(void **state) {
    struct world *w = *state;

    write_token(w);
    (void)setenv("AWS_WEB_IDENTITY_TOKEN_FILE", w->token, 1);
    (void)setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
    assert_int_equal(open_instances(w), 0);
    assert_int_equal(end(w, PROVIDER), NC_CONTROL_DONE);
    assert_string_equal(w->sts, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3A"
                                "aws%3Aiam%3A%3A1%3Arole%2Fr&RoleSessionName=nodeclaim-controller&"
                                "WebIdentityToken=a.b%2Fc");
    assert_non_null(strstr(w->head, "Credential=ASIASTS/"));
    assert_int_equal(end(w, PROVIDER), NC_CONTROL_DONE);
    assert_int_equal(atomic_load(&w->keys), 1);
}

/* As EKS Pod Identity has it. */
static void test_container(void **state) {
    struct world *w = *state;
    nc_auto_free char *uri = nc_asprintf("%s/v1/credentials", w->settings.imds);

    write_token(w);
    (void)setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri, 1);
    (void)setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", w->token, 1);
    assert_int_equal(open_instances(w), 0);
    assert_int_equal(end(w, PROVIDER), NC_CONTROL_DONE);
    assert_non_null(strstr(w->keys_head, "\r\nAuthorization: a.b/c\r\n"));
    assert_non_null(strstr(w->head, "Credential=ASIAIMDS/"));
    assert_int_equal(atomic_load(&w->keys), 1);
}

/* Without them everything that waits is answered, and the next order asks anew. */
static void test_no_keys(void **state) {
    struct world *w = *state;

    (void)setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nonexistent/token", 1);
    (void)setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
    assert_int_equal(open_instances(w), 0);
    assert_int_equal(end(w, PROVIDER), NC_CONTROL_UNAVAILABLE);
    assert_int_equal(end(w, PROVIDER), NC_CONTROL_UNAVAILABLE);
    assert_int_equal(atomic_load(&w->orders), 0);
}

static void test_sts_refuses(void **state) {
    struct nc_http_result r = {
        .outcome = NC_HTTP_ANSWERED,
        .status = 403,
        .body = "<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error>"
                "</ErrorResponse>"};
    struct nc_credentials c = {0};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    r.n = strlen(r.body);
    assert_true(nc_role_read_sts(&r, &c, &err) < 0);
    assert_int_equal(err.class, NC_ERR_AUTH);
    assert_non_null(strstr(err.msg, "'AccessDenied': 'no'"));
    r.status = 503;
    assert_true(nc_role_read_sts(&r, &c, &err) < 0);
    assert_int_equal(err.class, NC_ERR_TRANSIENT);
    r.status = 200;
    assert_true(nc_role_read_sts(&r, &c, &err) < 0);
    assert_int_equal(err.class, NC_ERR_PROTOCOL);
    assert_null(c.access_key_id);
}

static void test_container_uris(void **state) {
    (void)state;
    assert_true(nc_role_is_container_uri("http://169.254.170.23/v1/credentials"));
    assert_true(nc_role_is_container_uri("http://[fd00:ec2::23]/v1/credentials"));
    assert_true(nc_role_is_container_uri("http://127.0.0.1:8000/c"));
    assert_true(nc_role_is_container_uri("https://keys.example/c"));
    assert_false(nc_role_is_container_uri("http://keys.example/c"));
    assert_false(nc_role_is_container_uri("http://127.0.0.1.example/c"));
    assert_false(nc_role_is_container_uri("http://169.254.170.23@example/c"));
    assert_false(nc_role_is_container_uri("file:///etc/passwd"));
}

#define world_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        world_test(test_ends),
        world_test(test_describes),
        world_test(test_groups),
        world_test(test_states),
        world_test(test_regions),
        world_test(test_another_region),
        world_test(test_no_instance),
        world_test(test_what_answers_mean),
        world_test(test_web_identity),
        world_test(test_crowd_with_the_instance_role),
        world_test(test_keys_that_have_ended),
        world_test(test_container),
        world_test(test_no_keys),
        cmocka_unit_test(test_sts_refuses),
        cmocka_unit_test(test_container_uris),
    };

    return run_group(tests, NULL, NULL);
}
