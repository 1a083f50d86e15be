/*
 * NodeClaims without a Node: which are, since when, why, and what is shown of them.
 */
#include "control-world.h"
#include "groups.h"

#include "nc/str.h"

#define CREATED ",\"creationTimestamp\":\"2026-11-22T01:50:00Z\""
#define EARLIER ",\"creationTimestamp\":\"2026-11-22T01:40:00Z\""
#define DELETED ",\"deletionTimestamp\":\"2026-11-22T01:59:00Z\""

/* With an instance, unless `id` is NULL. */
static void see(struct world *w, const char *name, const char *more, const char *id) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"%s\",\"uid\":\"uid-%s\",\"labels\":{\"karpenter.sh/nodepool\":"
        "\"p1\"}%s},\"status\":{%s%s%s}}",
        name, name, more, id ? "\"providerID\":\"aws:///us-west-2a/" : "", id ? id : "",
        id ? "\"" : "");

    assert_string_equal(world_see(w, NC_CONTROL_CLAIM, json), "");
}

static void fail_boot(struct world *w, const char *name, const char *uid, const char *message,
                      uint64_t at_usec) {
    assert_string_equal(world_event(w, (struct nc_control_event){.kind = NC_CONTROL_BOOT_FAILURE,
                                                                 .name = name,
                                                                 .uid = uid,
                                                                 .message = message,
                                                                 .at_usec = at_usec}),
                        "");
}

/* As a node that may not read its NodeClaim does it. */
static void fail_boot_of(struct world *w, const char *provider_id, const char *message) {
    assert_string_equal(world_event(w, (struct nc_control_event){.kind = NC_CONTROL_BOOT_FAILURE,
                                                                 .name = "ip-10-0-0-1",
                                                                 .uid = "ip-10-0-0-1",
                                                                 .provider_id = provider_id,
                                                                 .message = message,
                                                                 .at_usec = 400}),
                        "");
}

static void expect_claims(struct world *w, const char *wanted) {
    nc_auto_value struct nc_value *list = nc_control_report_claims(w->c);
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, list, 0);
    assert_string_equal(b.data, wanted);
}

static void expect_cause(struct world *w, const char *cause, const char *message) {
    nc_auto_value struct nc_value *list = nc_control_report_claims(w->c);

    assert_int_equal(list->n, 1);
    assert_string_equal(nc_value_get_string(list->items[0], "cause"), cause);
    assert_true(nc_streq(nc_value_get_string(list->items[0], "message"), message));
}

static void test_which(void **state) {
    struct nc_control_counts n;
    struct world w;

    (void)state;
    world_open(&w);
    expect_claims(&w, "[]");
    see(&w, "young", CREATED, "i-0123456789abcdef0");
    see(&w, "old", EARLIER, NULL);
    see(&w, "ending", CREATED DELETED, "i-0123456789abcdef1");
    (void)world_claim(&w, "registered", "n1", "");
    expect_claims(&w, "[{\"claim\":\"old\",\"pool\":\"p1\",\"instance\":null,\"created\":"
                      "\"2026-11-22T01:40:00Z\",\"cause\":\"launch\",\"message\":null},"
                      "{\"claim\":\"young\",\"pool\":\"p1\",\"instance\":\"i-0123456789abcdef0\","
                      "\"created\":\"2026-11-22T01:50:00Z\",\"cause\":\"unknown\",\"message\":"
                      "null}]");
    nc_control_count(w.c, w.now_usec, &n);
    assert_int_equal(n.without_node, 2);
    (void)world_gone(&w, NC_CONTROL_CLAIM, "young", "uid-young");
    (void)world_claim(&w, "old", "n2", "");
    expect_claims(&w, "[]");
    world_close(&w);
}

/* The last Event of this very claim; what it says is not more than text. */
static void test_why(void **state) {
    static const struct {
        const char *message, *cause;
    } rows[] = {
        {"preflight: cannot connect", "preflight"},
        {"initialize: no network", "initialize"},
        {"imds: disabled", "imds"},
        {"preflight", "preflight"},
        {"preflights: x", "unknown"},
        {"pre: x", "unknown"},
        {": x", "unknown"},
        {"", "unknown"},
        {"unknown: x", "unknown"},
        {"launch: x", "unknown"},
    };
    nc_auto_free char *text = nc_calloc(1, 5000);
    struct world w;

    (void)state;
    world_open(&w);
    see(&w, "c1", CREATED, "i-0123456789abcdef0");
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        fail_boot(&w, "c1", "uid-c1", rows[i].message, i + 5);
        expect_cause(&w, rows[i].cause, rows[i].message[0] ? rows[i].message : NULL);
    }
    fail_boot(&w, "c1", "uid-c1", "start: later", 100);
    fail_boot(&w, "c1", "uid-c1", "plan: earlier", 99);
    fail_boot(&w, "c1", "uid-another", "plan: another claim of that name", 200);
    fail_boot(&w, "c1", NULL, "plan: nobody's", 200);
    fail_boot(&w, "c9", "uid-c9", "plan: not there", 200);
    fail_boot(&w, NULL, "uid-c1", "plan: nameless", 200);
    fail_boot(&w, "c1", "uid-c1", NULL, 200);
    expect_cause(&w, "start", "start: later");
    fail_boot(&w, "c1", "uid-c1", "plan: of the year 9999", 253402300799ull * 1000000);
    expect_cause(&w, "start", "start: later");
    memset(text, 'x', 4999);
    fail_boot(&w, "c1", "uid-c1", text, 300);
    text[240] = '\0';
    expect_cause(&w, "unknown", text);
    (void)world_gone(&w, NC_CONTROL_CLAIM, "c1", "uid-c1");
    see(&w, "c1", CREATED, "i-0123456789abcdef0");
    expect_cause(&w, "unknown", NULL);
    world_close(&w);
}

/* Without a name that the claim has, its instance is what joins them. */
static void test_why_by_instance(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    see(&w, "c0", CREATED, NULL);
    fail_boot_of(&w, "", "plan: of no instance");
    expect_cause(&w, "launch", NULL);
    (void)world_gone(&w, NC_CONTROL_CLAIM, "c0", "uid-c0");
    see(&w, "c1", CREATED, "i-0123456789abcdef0");
    fail_boot_of(&w, "aws:///us-west-2a/i-0123456789abcdef1", "plan: another instance");
    fail_boot_of(&w, NULL, "plan: no instance");
    expect_cause(&w, "unknown", NULL);
    fail_boot_of(&w, "aws:///us-west-2a/i-0123456789abcdef0", "start: kubelet exits");
    expect_cause(&w, "start", "start: kubelet exits");
    world_close(&w);
}

/* A node's clock may be wrong, and a forged Event may be dated so that nothing ever follows it. */
static void test_why_of_another_time(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    see(&w, "c1", CREATED, "i-0123456789abcdef0");
    fail_boot(&w, "c1", "uid-c1", "plan: of the year 9999", 253402300799ull * 1000000);
    expect_cause(&w, "plan", "plan: of the year 9999");
    fail_boot(&w, "c1", "uid-c1", "start: of now", w.now_usec);
    expect_cause(&w, "start", "start: of now");
    world_close(&w);
}

/* Not of one that is registered: it would never be asked for again. */
static void test_forgotten(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    see(&w, "c1", CREATED, "i-0123456789abcdef0");
    fail_boot(&w, "c1", "uid-c1", "plan: x", 1);
    (void)world_claim(&w, "c1", "n1", "");
    fail_boot(&w, "c1", "uid-c1", "plan: y", 2);
    see(&w, "c1", CREATED, "i-0123456789abcdef0");
    expect_cause(&w, "unknown", NULL);
    world_close(&w);
}

static void test_whether_to_look(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    assert_false(nc_control_awaits_causes(w.c, w.now_usec));
    see(&w, "launching", EARLIER, NULL);
    assert_false(nc_control_awaits_causes(w.c, w.now_usec));
    see(&w, "booting", ",\"creationTimestamp\":\"2026-11-22T01:59:01Z\"", "i-0123456789abcdef0");
    assert_false(nc_control_awaits_causes(w.c, w.now_usec));
    assert_true(nc_control_awaits_causes(w.c, w.now_usec + WORLD_SEC));
    (void)world_claim(&w, "booting", "n1", "");
    assert_false(nc_control_awaits_causes(w.c, w.now_usec + WORLD_SEC));
    world_close(&w);
}

#define FAMILY "nodeclaim_controller_nodeclaims_without_node"

static void test_metrics(void **state) {
    static const char counts[] = FAMILY "{nodepool=\"p1\",cause=\"unknown\"} 1\n" FAMILY
                                        "{nodepool=\"p1\",cause=\"launch\"} 1\n" FAMILY
                                        "{nodepool=\"p1\",cause=\"preflight\"} 2\n# HELP ";
    static const char times[] =
        FAMILY "_oldest_timestamp_seconds{nodepool=\"p1\",cause=\"unknown\"} 1795312200\n" FAMILY
               "_oldest_timestamp_seconds{nodepool=\"p1\",cause=\"launch\"} 1795312200\n" FAMILY
               "_oldest_timestamp_seconds{nodepool=\"p1\",cause=\"preflight\"} 1795311600\n# HELP ";
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    struct world w;

    (void)state;
    world_open(&w);
    see(&w, "c1", CREATED, "i-0123456789abcdef0");
    see(&w, "c2", EARLIER, "i-0123456789abcdef0");
    see(&w, "c3", CREATED, NULL);
    see(&w, "c4", CREATED, "i-0123456789abcdef0");
    fail_boot(&w, "c1", "uid-c1", "preflight: x", 1);
    fail_boot(&w, "c2", "uid-c2", "preflight: y", 1);
    nc_control_metrics(w.c, w.now_usec, &b);
    assert_non_null(strstr(b.data, counts));
    assert_non_null(strstr(b.data, times));
    world_close(&w);
}

static void test_text(void **state) {
    static const char json[] =
        "[{\"claim\":\"c1\",\"pool\":\"p1\",\"instance\":\"i-1\",\"created\":"
        "\"2026-11-22T01:40:00Z\",\"cause\":\"plan\",\"message\":\"plan: \\u001b[31m\"},"
        "{\"claim\":\"c2\",\"cause\":\"launch\"}]";
    nc_auto_value struct nc_value *v = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf wide = NC_BUF_INIT, narrow = NC_BUF_INIT;

    (void)state;
    assert_true(nc_json_parse(json, strlen(json), &v, NULL) >= 0);
    nc_control_text_claims(NULL, 0, &wide);
    assert_int_equal(wide.len, 0);
    nc_control_text_claims(v, 0, &wide);
    assert_string_equal(wide.data,
                        "\nNodeClaims without a Node:\n"
                        "CLAIM  POOL  INSTANCE  CREATED                     CAUSE   MESSAGE\n"
                        "c1     p1    i-1       2026-11-22T01:40:00Z        plan    plan: ?[31m\n"
                        "c2     -     -         -                           launch  -\n");
    nc_control_text_claims(v, 40, &narrow);
    assert_string_equal(narrow.data,
                        "\nNodeClaims without a Node:\n"
                        "CLAIM  INSTANCE  CAUSE   \n"
                        "c1     i-1       plan    \n"
                        "  pool p1, created 2026-11-22T01:40:00Z, message plan: ?[31m\n"
                        "c2     -         launch  \n");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which),           cmocka_unit_test(test_why),
        cmocka_unit_test(test_why_by_instance), cmocka_unit_test(test_why_of_another_time),
        cmocka_unit_test(test_forgotten),       cmocka_unit_test(test_whether_to_look),
        cmocka_unit_test(test_metrics),         cmocka_unit_test(test_text),
    };

    return run_group(tests, NULL, NULL);
}
