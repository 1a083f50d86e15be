/*
 * The two questions to EC2: the signed request, the answers, and what each refusal means.
 */
#include <stdio.h>

#include "ec2-priv.h"
#include "groups.h"
#include "loopback.h"
#include "nc/mem.h"

#define ID "i-0123456789abcdef0"
#define INSTANCES(inner)                                                                           \
    "<DescribeInstancesResponse "                                                                  \
    "xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"><requestId>r</requestId>"                  \
    "<reservationSet><item><groupSet/><instancesSet>" inner                                        \
    "</instancesSet></item></reservationSet></DescribeInstancesResponse>"
#define INSTANCE(id, name)                                                                         \
    "<item><instanceId>" id "</instanceId><privateDnsName>" name "</privateDnsName></item>"
#define TYPES(inner)                                                                               \
    "<DescribeInstanceTypesResponse><instanceTypeSet>" inner                                       \
    "</instanceTypeSet></DescribeInstanceTypesResponse>"
#define CPU_AND_MEMORY                                                                             \
    "<vCpuInfo><defaultVCpus>4</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>16384</"            \
    "sizeInMiB></memoryInfo>"
#define ARCH(a)                                                                                    \
    "<processorInfo><supportedArchitectures>" a "</supportedArchitectures></processorInfo>"

struct script {
    int status;
    const char *body;
    char head[4096];
    char sent[512];
};

static bool play(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    struct script *s = userdata;

    snprintf(s->head, sizeof(s->head), "%s", r->head);
    snprintf(s->sent, sizeof(s->sent), "%s", r->body);
    return loopback_answer(c, s->status, "", s->body);
}

static const struct nc_credentials keys = {(char *)(uintptr_t) "AKIDEXAMPLE",
                                           (char *)(uintptr_t) "topsecret",
                                           (char *)(uintptr_t) "sessiontoken", 0, NULL};

struct world {
    sd_event *event;
    struct nc_http *http;
    struct loopback *server;
    struct script script;
    struct nc_ec2 ec2;
};

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    assert_true(sd_event_new(&w->event) >= 0);
    assert_int_equal(nc_http_new(w->event, 0, &w->http, NULL), 0);
    w->server = loopback_start(NULL, play, &w->script);
    w->ec2 = (struct nc_ec2){w->http, loopback_url(w->server), "us-west-2",
                             &keys,   1704164645ull * 1000000, 5000000};
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_http_free(w->http);
    loopback_stop(w->server);
    sd_event_unref(w->event);
    free(w);
    return 0;
}

static void test_private_dns_name(void **state) {
    struct world *w = *state;
    nc_auto_free char *name = NULL;
    struct nc_err err = NC_ERR_INIT;

    w->script.status = 200;
    w->script.body = INSTANCES(INSTANCE(ID, "ip-10-0-0-1.us-west-2.compute.internal"));
    if (nc_ec2_private_dns_name(&w->ec2, ID, &name, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(name, "ip-10-0-0-1.us-west-2.compute.internal");
    assert_string_equal(w->script.sent,
                        "Action=DescribeInstances&InstanceId.1=" ID "&Version=2016-11-15");
    assert_non_null(strstr(w->script.head, "POST / HTTP/1.1\r\n"));
    assert_non_null(strstr(w->script.head, "\r\nX-Amz-Date: 20240102T030405Z\r\n"));
    assert_non_null(strstr(w->script.head, "\r\nX-Amz-Security-Token: sessiontoken\r\n"));
    assert_non_null(strstr(
        w->script.head, "/20240102/us-west-2/ec2/aws4_request, SignedHeaders=content-type;host;"));
    assert_null(strstr(w->script.head, "topsecret"));
}

static void test_instance_type(void **state) {
    struct world *w = *state;
    struct nc_instance_type t;
    struct nc_err err = NC_ERR_INIT;

    w->script.status = 200;
    /* Two cards; the second is the default one, and is named after them. */
    w->script.body = TYPES(
        "<item><instanceType>p9.huge</instanceType><hypervisor>nitro</hypervisor><bareMetal>false</"
        "bareMetal>" CPU_AND_MEMORY ARCH(
            "<item>i386</item><item>x86_64</item>") "<networkInfo><maximumNetworkInterfaces>60</"
                                                    "maximumNetworkInterfaces><networkCards>"
                                                    "<item><networkCardIndex>0</"
                                                    "networkCardIndex><maximumNetworkInterfaces>2</"
                                                    "maximumNetworkInterfaces></item>"
                                                    "<item><networkCardIndex>1</"
                                                    "networkCardIndex><maximumNetworkInterfaces>15<"
                                                    "/maximumNetworkInterfaces></item>"
                                                    "</networkCards><defaultNetworkCardIndex>1</"
                                                    "defaultNetworkCardIndex>"
                                                    "<ipv4AddressesPerInterface>50</"
                                                    "ipv4AddressesPerInterface></networkInfo></"
                                                    "item>");
    if (nc_ec2_instance_type(&w->ec2, "p9.huge", &t, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(t.name, "p9.huge");
    assert_int_equal(t.vcpus, 4);
    assert_int_equal(t.memory_mib, 16384);
    assert_string_equal(t.arch, "amd64");
    assert_int_equal(t.enis, 15);
    assert_int_equal(t.ipv4_per_eni, 50);
    assert_int_equal(t.branch_enis, -1);
    assert_string_equal(t.hypervisor, "nitro");
    assert_string_equal(w->script.sent,
                        "Action=DescribeInstanceTypes&InstanceType.1=p9.huge&Version=2016-11-15");

    w->script.body = TYPES(
        "<item><instanceType>m9g.metal</instanceType><bareMetal>true</bareMetal>" CPU_AND_MEMORY
            ARCH("<item>arm64</item>") "<networkInfo><maximumNetworkInterfaces>8</"
                                       "maximumNetworkInterfaces>"
                                       "<ipv4AddressesPerInterface>30</ipv4AddressesPerInterface></"
                                       "networkInfo></item>");
    assert_int_equal(nc_ec2_instance_type(&w->ec2, "m9g.metal", &t, &err), 0);
    assert_string_equal(t.arch, "arm64");
    assert_int_equal(t.enis, 8);
    assert_string_equal(t.hypervisor, "metal");
}

#define REFUSAL(code)                                                                              \
    "<Response><Errors><Error><Code>" code                                                         \
    "</Code><Message>why &amp; what</Message></Error></Errors></Response>"

static void test_refusals(void **state) {
    static const struct {
        int status;
        const char *body;
        enum nc_err_class class;
        const char *msg, *remedy;
    } cases[] = {
        {403, REFUSAL("UnauthorizedOperation"), NC_ERR_AUTH,
         "HTTP 403, 'UnauthorizedOperation': 'why & what'", "allow ec2:DescribeInstances"},
        {401, REFUSAL("AuthFailure"), NC_ERR_AUTH, "'AuthFailure'", "clock"},
        {400, REFUSAL("RequestExpired"), NC_ERR_AUTH, "'RequestExpired'", "clock"},
        /* as AWS' other services write it, and what replaces EC2 */
        {401, "<ErrorResponse><Error><Code>AuthFailure</Code></Error></ErrorResponse>", NC_ERR_AUTH,
         "HTTP 401, 'AuthFailure'", "clock"},
        {403,
         "<ErrorResponse><Errors><Error><Code>AccessDenied</Code><Message>why</Message></Error>"
         "</Errors></ErrorResponse>",
         NC_ERR_AUTH, "HTTP 403, 'AccessDenied': 'why'", "allow ec2:DescribeInstances"},
        {503, REFUSAL("RequestLimitExceeded"), NC_ERR_TRANSIENT, "'RequestLimitExceeded'", ""},
        {400, REFUSAL("InvalidInstanceID.NotFound"), NC_ERR_TRANSIENT, "NotFound", "tried again"},
        {400, REFUSAL("InvalidInstanceType"), NC_ERR_CONFIG, "'InvalidInstanceType'", ""},
        {400, REFUSAL("SomethingNew"), NC_ERR_PROTOCOL, "'SomethingNew'", ""},
        {401, REFUSAL("SomethingNew"), NC_ERR_AUTH, "'SomethingNew'", "clock"},
        {403, REFUSAL("SomethingNew"), NC_ERR_AUTH, "'SomethingNew'",
         "allow ec2:DescribeInstances"},
        {403, "<html>", NC_ERR_PROTOCOL, "HTTP 403 without an error code", ""},
        {500, REFUSAL("SomethingNew"), NC_ERR_TRANSIENT, "'SomethingNew'", ""},
        {500, "<html>", NC_ERR_TRANSIENT, "HTTP 500", ""},
        {429, "", NC_ERR_TRANSIENT, "HTTP 429", ""},
        {400, "<html>", NC_ERR_PROTOCOL, "HTTP 400 without an error code", ""},
        {302, "", NC_ERR_PROTOCOL, "HTTP 302 without an error code", ""},
        {200, "<html>", NC_ERR_PROTOCOL, "ec2: DescribeInstances: XML: byte 6", ""},
        {200, INSTANCES(""), NC_ERR_TRANSIENT, "does not know " ID " yet", ""},
        {200, INSTANCES(INSTANCE("i-other", "n")), NC_ERR_PROTOCOL, "another instance", ""},
        {200, INSTANCES(INSTANCE(ID, "")), NC_ERR_TRANSIENT, "no private DNS name yet", ""},
        {200, INSTANCES("<item><instanceId>" ID "</instanceId></item>"), NC_ERR_TRANSIENT,
         "no private DNS name yet", ""},
        {200, INSTANCES(INSTANCE(ID, "a b")), NC_ERR_PROTOCOL, "invalid private DNS name", ""},
    };
    struct world *w = *state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        struct nc_err err = NC_ERR_INIT;
        char *name = NULL;
        w->script.status = cases[k].status;
        w->script.body = cases[k].body;
        const int r = nc_ec2_private_dns_name(&w->ec2, ID, &name, &err);
        if (r >= 0 || name || err.class != cases[k].class || !strstr(err.msg, cases[k].msg)
            || !strstr(err.remedy, cases[k].remedy)
            || strncmp(err.msg, "ec2: DescribeInstances: ", 24) != 0)
            fail_msg("case %zu: %d, class %d: %s (%s)", k, r, err.class, err.msg, err.remedy);
    }
}

static void test_wrong_types(void **state) {
    static const struct {
        const char *body, *msg;
    } cases[] = {
        {TYPES(""), "not about m5.large"},
        {TYPES("<item><instanceType>m5.xlarge</instanceType></item>"), "not about m5.large"},
        {TYPES("<item><instanceType>m5.large</instanceType></item>"), "lacks CPUs"},
        {TYPES("<item><instanceType>m5.large</instanceType><vCpuInfo><defaultVCpus>-4</"
               "defaultVCpus></vCpuInfo></item>"),
         "lacks"},
        {TYPES("<item><instanceType>m5.large</instanceType></item><item/>"), "more than one"},
    };
    struct world *w = *state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        struct nc_err err = NC_ERR_INIT;
        struct nc_instance_type t = {.name = "untouched"};
        assert_true(nc_ec2_read_type(cases[k].body, strlen(cases[k].body), "m5.large", &t, &err)
                    < 0);
        assert_string_equal(t.name, "untouched");
        if (err.class != NC_ERR_PROTOCOL || !strstr(err.msg, cases[k].msg))
            fail_msg("case %zu: %s", k, err.msg);
    }
    struct nc_err err = NC_ERR_INIT;
    struct nc_instance_type t;
    w->script.status = 200;
    w->script.body = "<a>";
    assert_true(nc_ec2_instance_type(&w->ec2, "m5.large", &t, &err) < 0);
    assert_non_null(strstr(err.msg, "ec2: DescribeInstanceTypes: XML"));
}

static void test_not_requested(void **state) {
    struct world *w = *state;
    struct nc_ec2 e = w->ec2;
    struct nc_err err = NC_ERR_INIT;
    struct nc_instance_type t;
    char *name = NULL;
    const unsigned before = loopback_requests(w->server);

    assert_true(nc_ec2_private_dns_name(&e, "i-1&Action=TerminateInstances", &name, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    assert_true(nc_ec2_instance_type(&e, "", &t, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    e.endpoint = "ec2.example";
    assert_true(nc_ec2_instance_type(&e, "m5.large", &t, &err) < 0);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    e = w->ec2;
    e.credentials = NULL;
    assert_true(nc_ec2_instance_type(&e, "m5.large", &t, &err) < 0);
    assert_int_equal(err.class, NC_ERR_AUTH);
    assert_int_equal(loopback_requests(w->server), before);
    nc_auto_free char *closed = nc_asprintf("http://127.0.0.1:%u/", loopback_closed_port());
    e = w->ec2;
    e.endpoint = closed;
    assert_true(nc_ec2_instance_type(&e, "m5.large", &t, &err) < 0);
    assert_int_equal(err.class, NC_ERR_TRANSIENT);
    assert_non_null(
        strstr(err.msg, "ec2: DescribeInstanceTypes: connection refused by 127.0.0.1:"));
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_private_dns_name), cmocka_unit_test(test_instance_type),
        cmocka_unit_test(test_refusals),         cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_not_requested),
    };

    return run_group(tests, set_up, tear_down);
}
