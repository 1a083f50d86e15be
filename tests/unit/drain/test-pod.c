/*
 * Pods: what is read of an object, who is eligible, and what the answers of the API server mean.
 */
#include "base-test.h"
#include "groups.h"

#include <inttypes.h>

#include "nc/mem.h"
#include "nc/pod.h"
#include "nc/str.h"

/* A pod object from the insides of its three parts, each with a comma before what is there. */
static char *object(const char *metadata, const char *spec, const char *status) {
    return nc_asprintf("{\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"web\",\"name\":\"a-1\","
                       "\"uid\":\"0-1\"%s},\"spec\":{\"x\":1%s},\"status\":{\"x\":1%s}}",
                       metadata ? metadata : "", spec ? spec : "", status ? status : "");
}

static void read_text(const char *text, struct nc_pod *ret) {
    nc_auto_value struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    assert_int_equal(nc_json_parse(text, strlen(text), &v, &err), 0);
    assert_int_equal(nc_pod_read(v, ret, &err), 0);
    assert_int_equal(err.class, NC_ERR_NONE);
}

/* All that is not unset, as words. */
static char *describe(const struct nc_pod *p) {
    struct nc_buf b = NC_BUF_INIT;
    const struct {
        bool is;
        const char *word;
    } flags[] = {{p->is_daemon, "daemon"},
                 {p->is_mirror, "mirror"},
                 {p->is_terminal, "terminal"},
                 {p->has_finalizer, "finalizer"},
                 {p->is_shutdown_left, "left"},
                 {p->is_job, "job"},
                 {p->controller, "controlled"},
                 {p->tolerates_disrupted, "tolerates"},
                 {p->tolerates_cordon, "stays"},
                 {p->never_disrupt, "never"},
                 {p->order == NC_POD_ORDER_FIRST, "first"},
                 {p->order == NC_POD_ORDER_LAST, "last"},
                 {p->order == NC_POD_ORDER_UNKNOWN, "odd"},
                 {p->has_unread_claims, "unread-claims"},
                 {p->is_replacement_first, "replacement"}};
    const struct {
        uint64_t n, usual;
        const char *word;
    } numbers[] = {{p->tier, 0, "tier"},
                   {p->created_usec, 0, "created"},
                   {p->keep_until_usec, 0, "keep"},
                   {p->grace_sec, 30, "grace"},
                   {p->deletion_usec, 0, "deletion"},
                   {p->deletion_grace_sec, 0, "deletion-grace"}};

    for (size_t i = 0; i < NC_ARRAY_SIZE(flags); i++)
        if (flags[i].is)
            (void)nc_buf_printf(&b, "%s ", flags[i].word);
    for (size_t i = 0; i < NC_ARRAY_SIZE(numbers); i++)
        if (numbers[i].n != numbers[i].usual)
            (void)nc_buf_printf(&b, "%s=%" PRIu64 " ", numbers[i].word, numbers[i].n);
    for (size_t i = 0; i < p->claims.n; i++)
        (void)nc_buf_printf(&b, "claim=%s ", p->claims.v[i]);
    if (b.len)
        b.data[b.len - 1] = '\0';
    return nc_buf_steal(&b);
}

#define OWNERS(inside) ",\"ownerReferences\":[" inside "]"
#define OWNER(version, kind, rest)                                                                 \
    "{\"apiVersion\":\"" version "\",\"kind\":\"" kind "\",\"name\":\"o\"" rest "}"
#define CONTROLLER ",\"controller\":true"
#define ANNOTATION(key, value) ",\"annotations\":{\"" key "\":\"" value "\"}"
#define KEEP(value) ANNOTATION("karpenter.sh/do-not-disrupt", value)
#define FIRST(value) ANNOTATION("nodeclaimd.io/replacement-first", value)
#define TOLERATIONS(inside) ",\"tolerations\":[" inside "]"
#define VOLUMES(inside) ",\"volumes\":[" inside "]"
#define STARTED ",\"startTime\":\"1970-01-01T00:01:40Z\""

static const struct {
    const char *name, *metadata, *spec, *status, *expected;
} rows[] = {
    {"a plain pod", NULL, NULL, NULL, ""},
    {"one with a finalizer", ",\"finalizers\":[\"a/b\"]", NULL, NULL, "finalizer"},
    {"one without", ",\"finalizers\":[]", NULL, NULL, ""},

    {"a DaemonSet's", OWNERS(OWNER("apps/v1", "DaemonSet", CONTROLLER)), NULL, NULL,
     "daemon controlled tier=1"},
    {"owned by a DaemonSet that does not control it", OWNERS(OWNER("apps/v1", "DaemonSet", "")),
     NULL, NULL, "daemon tier=1"},
    {"another group's DaemonSet", OWNERS(OWNER("apps.kruise.io/v1", "DaemonSet", CONTROLLER)), NULL,
     NULL, "daemon controlled tier=1"},
    {"the second owner counts too",
     OWNERS(OWNER("v1", "ConfigMap", "") "," OWNER("apps/v1", "DaemonSet", "")), NULL, NULL,
     "daemon tier=1"},
    {"a Job's", OWNERS(OWNER("batch/v1", "Job", CONTROLLER)), NULL, NULL, "job controlled"},
    {"a Job's, not controlled", OWNERS(OWNER("batch/v1", "Job", "")), NULL, NULL, ""},
    {"controller is no boolean", OWNERS(OWNER("batch/v1", "Job", ",\"controller\":\"true\"")), NULL,
     NULL, ""},
    {"a ReplicaSet's", OWNERS(OWNER("apps/v1", "ReplicaSet", CONTROLLER)), NULL, NULL,
     "controlled"},
    {"the Node's", OWNERS(OWNER("v1", "Node", CONTROLLER)), NULL, NULL, "mirror controlled"},
    {"a mirror by annotation", ANNOTATION("kubernetes.io/config.mirror", "x"), NULL, NULL,
     "mirror"},
    {"owners are no list", ",\"ownerReferences\":{\"kind\":\"Node\"}", NULL, NULL, ""},
    {"an owner is no map", OWNERS("7"), NULL, NULL, ""},

    {"last", ANNOTATION("nodeclaimd.io/drain-order", "last"), NULL, NULL, "last tier=4"},
    {"first, a critical DaemonSet's",
     ANNOTATION("nodeclaimd.io/drain-order", "first") OWNERS(OWNER("apps/v1", "DaemonSet", "")),
     ",\"priorityClassName\":\"system-node-critical\"", NULL, "daemon first"},
    {"an order in other letters", ANNOTATION("nodeclaimd.io/drain-order", "Last"), NULL, NULL,
     "odd"},
    {"an order and more", ANNOTATION("nodeclaimd.io/drain-order", "last "), NULL, NULL, "odd"},
    {"an empty order", ANNOTATION("nodeclaimd.io/drain-order", ""), NULL, NULL, "odd"},
    {"an order that is no text", ",\"annotations\":{\"nodeclaimd.io/drain-order\":1}", NULL, NULL,
     ""},
    {"created", ",\"creationTimestamp\":\"1970-01-01T00:00:07Z\"", NULL, NULL, "created=7000000"},

    {"succeeded", NULL, NULL, ",\"phase\":\"Succeeded\"", "terminal"},
    {"running", NULL, NULL, ",\"phase\":\"Running\"", ""},
    {"failed", NULL, NULL, ",\"phase\":\"Failed\"", "terminal"},
    {"failed, evicted by kubelet", NULL, NULL, ",\"phase\":\"Failed\",\"reason\":\"Evicted\"",
     "terminal"},
    {"left by a shutdown", NULL, NULL,
     ",\"phase\":\"Failed\",\"reason\":\"Terminated\",\"message\":\"Pod was terminated in response "
     "to imminent node shutdown.\"",
     "terminal left"},
    {"terminated otherwise", NULL, NULL,
     ",\"phase\":\"Failed\",\"reason\":\"Terminated\",\"message\":\"x\"", "terminal"},
    {"terminated without a word", NULL, NULL, ",\"phase\":\"Failed\",\"reason\":\"Terminated\"",
     "terminal"},
    {"turned away by a shutdown", NULL, NULL,
     ",\"phase\":\"Failed\",\"reason\":\"NodeShutdown\",\"message\":\"Pod was rejected as the node "
     "is shutting down.\"",
     "terminal left"},
    {"a shutdown's reason, but running", NULL, NULL,
     ",\"phase\":\"Running\",\"reason\":\"NodeShutdown\"", ""},

    {"critical for the cluster", NULL, ",\"priorityClassName\":\"system-cluster-critical\"", NULL,
     "tier=2"},
    {"critical for the node", NULL, ",\"priorityClassName\":\"system-node-critical\"", NULL,
     "tier=2"},
    {"a critical DaemonSet's", OWNERS(OWNER("apps/v1", "DaemonSet", "")),
     ",\"priorityClassName\":\"system-node-critical\"", NULL, "daemon tier=3"},
    {"a high number is not critical", NULL,
     ",\"priorityClassName\":\"high\",\"priority\":2000001000", NULL, ""},

    {"tolerates by key", NULL,
     TOLERATIONS("{\"key\":\"karpenter.sh/disrupted\",\"operator\":\"Exists\"}"), NULL,
     "tolerates"},
    {"by key and effect", NULL,
     TOLERATIONS("{\"key\":\"karpenter.sh/"
                 "disrupted\",\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}"),
     NULL, "tolerates"},
    {"by no value, operator unset", NULL, TOLERATIONS("{\"key\":\"karpenter.sh/disrupted\"}"), NULL,
     "tolerates"},
    {"by no value, Equal", NULL,
     TOLERATIONS("{\"key\":\"karpenter.sh/disrupted\",\"operator\":\"Equal\",\"value\":\"\"}"),
     NULL, "tolerates"},
    {"everything", NULL, TOLERATIONS("{\"operator\":\"Exists\"}"), NULL, "tolerates stays"},
    {"everything, second", NULL, TOLERATIONS("{\"key\":\"x\"},{\"operator\":\"Exists\"}"), NULL,
     "tolerates stays"},
    {"the cordon", NULL,
     TOLERATIONS("{\"key\":\"node.kubernetes.io/unschedulable\",\"operator\":\"Exists\"}"), NULL,
     "stays"},
    {"another value", NULL,
     TOLERATIONS("{\"key\":\"karpenter.sh/disrupted\",\"operator\":\"Equal\",\"value\":\"x\"}"),
     NULL, ""},
    {"another effect", NULL, TOLERATIONS("{\"operator\":\"Exists\",\"effect\":\"NoExecute\"}"),
     NULL, ""},
    {"another key", NULL, TOLERATIONS("{\"key\":\"karpenter.sh/x\",\"operator\":\"Exists\"}"), NULL,
     ""},
    {"no key without Exists", NULL, TOLERATIONS("{\"operator\":\"Equal\"}"), NULL, ""},
    {"an operator of the future", NULL,
     TOLERATIONS("{\"key\":\"karpenter.sh/disrupted\",\"operator\":\"Gt\"}"), NULL, ""},
    {"tolerations are no list", NULL, ",\"tolerations\":{\"operator\":\"Exists\"}", NULL, ""},

    {"its replacement first", FIRST("true"), NULL, NULL, "replacement"},
    {"its replacement first, garbage", FIRST("True"), NULL, NULL, ""},
    {"its replacement first, no text",
     ",\"annotations\":{\"nodeclaimd.io/replacement-first\":true}", NULL, NULL, ""},
    {"not to be disrupted", KEEP("true"), NULL, NULL, "never"},
    {"for a while from its start", KEEP("5m"), NULL, STARTED, "keep=400000000"},
    {"for a while, not started yet", KEEP("5m"), NULL, NULL, "never"},
    {"for a while, garbage as start", KEEP("5m"), NULL, ",\"startTime\":\"soon\"", "never"},
    {"for no time", KEEP("0s"), NULL, STARTED, ""},
    {"for less than no time", KEEP("-5m"), NULL, STARTED, ""},
    {"garbage", KEEP("maybe"), NULL, STARTED, ""},
    {"another spelling", KEEP("True"), NULL, STARTED, ""},
    {"empty", KEEP(""), NULL, STARTED, ""},
    {"no text", ",\"annotations\":{\"karpenter.sh/do-not-disrupt\":true}", NULL, STARTED, ""},

    {"grace 0", NULL, ",\"terminationGracePeriodSeconds\":0", NULL, "grace=0"},
    {"grace 3600", NULL, ",\"terminationGracePeriodSeconds\":3600", NULL, "grace=3600"},
    {"grace below zero", NULL, ",\"terminationGracePeriodSeconds\":-1", NULL, "grace=0"},
    {"grace is null", NULL, ",\"terminationGracePeriodSeconds\":null", NULL, ""},
    {"grace is text", NULL, ",\"terminationGracePeriodSeconds\":\"5\"", NULL, ""},
    {"grace is a fraction", NULL, ",\"terminationGracePeriodSeconds\":1.5", NULL, ""},
    {"terminating",
     ",\"deletionTimestamp\":\"1970-01-01T00:00:50Z\",\"deletionGracePeriodSeconds\":20", NULL,
     NULL, "deletion=50000000 deletion-grace=20"},
    {"terminating at a garbled time", ",\"deletionTimestamp\":\"x\"", NULL, NULL, ""},

    {"claims", NULL,
     VOLUMES("{\"name\":\"v\",\"persistentVolumeClaim\":{\"claimName\":\"data\"}},"
             "{\"name\":\"tmp\",\"emptyDir\":{}},{\"name\":\"scratch\",\"ephemeral\":{}}"),
     NULL, "claim=data claim=a-1-scratch"},
    {"a claim without a name", NULL, VOLUMES("{\"persistentVolumeClaim\":{\"claimName\":\"\"}},7"),
     NULL, ""},
    {"annotations are no map", ",\"annotations\":7", NULL, NULL, ""},
};

static void test_read(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *text = object(rows[i].metadata, rows[i].spec, rows[i].status);
        struct nc_pod p;
        read_text(text, &p);
        nc_auto_free char *is = describe(&p);
        if (strcmp(is, rows[i].expected) != 0)
            print_message("# %s\n", rows[i].name);
        assert_string_equal(is, rows[i].expected);
        assert_string_equal(p.namespace, "web");
        assert_string_equal(p.name, "a-1");
        assert_string_equal(p.uid, "0-1");
        nc_pod_done(&p);
        assert_null(p.uid);
    }
}

#define NAMED(namespace, name, uid)                                                                \
    "{\"metadata\":{\"namespace\":" namespace ",\"name\":" name ",\"uid\":" uid "}}"

static void test_refused(void **state) {
    static const struct {
        const char *text, *message;
    } refused[] = {
        {"{}", "pod: metadata.namespace is missing"},
        {"7", "pod: metadata.namespace is missing"},
        {"{\"metadata\":[]}", "pod: metadata.namespace is missing"},
        {NAMED("\"a\"", "\"b\"", "7"), "pod: metadata.uid is missing"},
        {NAMED("\"a\"", "\"\"", "\"c\""), "pod: metadata.name is missing"},
        {NAMED("\"a\"", "\"..\"", "\"c\""), "pod: invalid metadata.name: '..'"},
        {NAMED("\".\"", "\"b\"", "\"c\""), "pod: invalid metadata.namespace: '.'"},
        {NAMED("\"a/b\"", "\"b\"", "\"c\""),
         "pod: invalid metadata.namespace: 'a/b': byte 1 is not allowed in a name"},
        {NAMED("\"a\"", "\"b?x\"", "\"c\""),
         "pod: invalid metadata.name: 'b?x': byte 1 is not allowed in a name"},
        {NAMED("\"a\"", "\"b\"", "\"c\\nd\""),
         "pod: invalid metadata.uid: 'c\\nd': byte 1 is not allowed in a name"},
        {NAMED("\"a\"", "\"\u00fc\"", "\"c\""),
         "pod: invalid metadata.name: '\u00fc': byte 0 is not allowed in a name"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(refused); i++) {
        nc_auto_value struct nc_value *v = NULL;
        struct nc_pod p = {.grace_sec = 77};
        struct nc_err err = NC_ERR_INIT;
        assert_int_equal(nc_json_parse(refused[i].text, strlen(refused[i].text), &v, &err), 0);
        assert_true(nc_pod_read(v, &p, &err) < 0);
        assert_int_equal(err.class, NC_ERR_PROTOCOL);
        assert_string_equal(err.msg, refused[i].message);
        assert_int_equal(p.grace_sec, 77);
        assert_true(nc_pod_read(v, &p, NULL) < 0);
    }
}

static void test_long_names(void **state) {
    char name[256];

    (void)state;
    for (size_t n = 252; n < 255; n++) {
        memset(name, 'a', n);
        name[n] = '\0';
        nc_auto_free char *text =
            nc_asprintf("{\"metadata\":{\"namespace\":\"a\",\"name\":\"%s\",\"uid\":\"c\"}}", name);
        nc_auto_value struct nc_value *v = NULL;
        struct nc_pod p;
        struct nc_err err = NC_ERR_INIT;
        assert_int_equal(nc_json_parse(text, strlen(text), &v, &err), 0);
        if (n <= 253) {
            assert_int_equal(nc_pod_read(v, &p, &err), 0);
            nc_pod_done(&p);
        } else {
            assert_true(nc_pod_read(v, &p, &err) < 0);
            assert_string_equal(err.msg,
                                "pod: metadata.name has 254 bytes, at most 253 are possible");
        }
    }
}

/* null stands for what was too large; a pod without volumes has no such member. */
static void test_unread_claims(void **state) {
    nc_auto_free char *text = object(NULL, ",\"volumes\":null", NULL);
    struct nc_pod p;

    (void)state;
    read_text(text, &p);
    assert_true(p.has_unread_claims);
    nc_pod_done(&p);
}

static void test_many_claims(void **state) {
    struct nc_buf volumes = NC_BUF_INIT;
    struct nc_pod p;

    (void)state;
    for (size_t i = 0; i < 1000; i++)
        (void)nc_buf_printf(&volumes, "%s{\"persistentVolumeClaim\":{\"claimName\":\"data-%zu\"}}",
                            i ? "," : ",\"volumes\":[", i);
    (void)nc_buf_puts(&volumes, "]");
    nc_auto_free char *text = object(NULL, volumes.data, NULL);
    read_text(text, &p);
    assert_int_equal(p.claims.n, 256);
    nc_pod_done(&p);
    nc_buf_done(&volumes);
}

/* Takes the next key off a dotted path; one in apostrophes may hold dots. */
static char *next_key(const char **path) {
    const bool is_quoted = **path == '\'';
    const char *key = *path + is_quoted;
    const size_t n = strcspn(key, is_quoted ? "'" : ".");

    *path = key + n + (is_quoted ? 1 : 0);
    if (**path == '.')
        (*path)++;
    return nc_strndup(key, n);
}

static struct nc_value *like(const struct nc_value *v) {
    return nc_value_new(v->type == NC_VALUE_LIST ? NC_VALUE_LIST : NC_VALUE_MAP);
}

/* Through an array a path goes into each element. */
static void copy_path(struct nc_value *to, const struct nc_value *from, const char *path) {
    while (from && from->type == NC_VALUE_MAP) {
        nc_auto_free char *key = next_key(&path);
        from = nc_value_get(from, key);
        if (!from)
            return;
        if (!*path) {
            nc_value_set(to, key, nc_value_copy(from));
            return;
        }
        if (!nc_value_get(to, key))
            nc_value_set(to, key, like(from));
        to = nc_value_get(to, key);
    }
    for (size_t i = 0; from && from->type == NC_VALUE_LIST && i < from->n; i++) {
        if (i == to->n)
            nc_value_push(to, like(from->items[i]));
        copy_path(to->items[i], from->items[i], path);
    }
}

/* What the paths leave out does not matter: an object cut down to them reads the same. */
static void test_paths(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *text = object(rows[i].metadata, rows[i].spec, rows[i].status);
        nc_auto_value struct nc_value *whole = NULL;
        nc_auto_value struct nc_value *cut = nc_value_new_map();
        struct nc_pod p;
        assert_int_equal(nc_json_parse(text, strlen(text), &whole, NULL), 0);
        for (const char *path = nc_pod_paths; *path; path = nc_next_name(path))
            copy_path(cut, whole, path);
        assert_null(nc_value_path(cut, "spec.x"));
        assert_int_equal(nc_pod_read(cut, &p, NULL), 0);
        nc_auto_free char *is = describe(&p);
        assert_string_equal(is, rows[i].expected);
        nc_pod_done(&p);
    }
}

static void test_names(void **state) {
    static const char *const answers[] = {"unsent", "accepted",  "gone",    "budget", "budgets",
                                          "busy",   "namespace", "refused", "failed", "away"};

    (void)state;
    for (size_t i = 0; i < _NC_ANSWER_MAX; i++)
        assert_string_equal(nc_pod_answer_name((enum nc_pod_answer_kind)i), answers[i]);
    assert_string_equal(nc_pod_answer_name(_NC_ANSWER_MAX), "unknown");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_long_names),    cmocka_unit_test(test_many_claims),
        cmocka_unit_test(test_unread_claims), cmocka_unit_test(test_paths),
        cmocka_unit_test(test_names),
    };

    return run_group(tests, NULL, NULL);
}
