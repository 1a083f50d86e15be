/*
 * Karpenter comes to a cluster in which the controller was standalone: what the controller once put
 * its finalizer on, and is deleted now, is released, and nothing else is touched. Rules C12, C13,
 * C19.
 */
#include "control-world.h"
#include "groups.h"

#include "nc/mem.h"

#define OURS "\"nodeclaimd.io/termination\""
#define THEIRS "\"karpenter.sh/termination\""
#define DELETED ",\"deletionTimestamp\":\"2026-11-22T02:00:00Z\""

static const char *see(struct world *w, enum nc_control_kind k, const char *finalizers,
                       const char *more) {
    nc_auto_free char *json =
        nc_asprintf("{\"metadata\":{\"name\":\"x\",\"uid\":\"uid-x\",\"creationTimestamp\":"
                    "\"2026-11-22T00:00:00Z\",\"finalizers\":[%s]%s}}",
                    finalizers, more);

    return world_see(w, k, json);
}

static const char *node(struct world *w, const char *finalizers, const char *phase) {
    nc_auto_free char *more = nc_asprintf(
        DELETED ",\"annotations\":{\"nodeclaimd.io/drain-status\":\"%s%s%s\"}",
        phase ? "{\\\"id\\\":\\\"1\\\",\\\"source\\\":\\\"deletion\\\",\\\"phase\\\":\\\"" : "",
        phase ? phase : "", phase ? "\\\"}" : "");

    return see(w, NC_CONTROL_NODE, finalizers, more);
}

static void test_what_is_released(void **state) {
    static const struct {
        enum nc_control_kind kind;
        const char *finalizers, *more;
        bool is_inhibitor_released;
    } rows[] = {
        {NC_CONTROL_CLAIM, OURS, DELETED, true},
        {NC_CONTROL_CLAIM, THEIRS "," OURS, DELETED, true},
        {NC_CONTROL_CLAIM, OURS, "", false}, /* it lives */
        {NC_CONTROL_CLAIM, THEIRS, DELETED, false},
        {NC_CONTROL_CLAIM, "", DELETED, false},
        {NC_CONTROL_NODE, THEIRS "," OURS, DELETED, true},
        {NC_CONTROL_NODE, THEIRS "," OURS, "", false},
        {NC_CONTROL_NODE, THEIRS, DELETED, false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        world_open(&w);
        const char *wanted = !rows[i].is_inhibitor_released     ? ""
                             : rows[i].kind == NC_CONTROL_CLAIM ? "patch-claim x\n"
                                                                : "patch-node x\n";
        assert_string_equal(see(&w, rows[i].kind, rows[i].finalizers, rows[i].more), wanted);
        world_close(&w);
    }
}

/* Nobody but the agent knows whether such a Node is empty. */
static void test_node_that_karpenter_does_not_hold(void **state) {
    static const char *const early[] = {"Detected", "Cordoned", "Evicting", "Forcing",
                                        "VolumeWait"};
    static const char *const over[] = {"Drained", "Failed"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(over); i++) {
        struct world w;
        world_open(&w);
        for (size_t k = 0; k < NC_ARRAY_SIZE(early); k++) {
            assert_string_equal(node(&w, OURS, early[k]), "");
            assert_string_equal(world_pass(&w, 600 * WORLD_SEC), "");
        }
        assert_string_equal(node(&w, OURS, over[i]), "patch-node x\n");
        world_close(&w);
    }
}

static void test_node_that_says_nothing(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    assert_string_equal(node(&w, OURS, NULL), "");
    assert_string_equal(world_pass(&w, 300 * WORLD_SEC - 1), "");
    assert_string_equal(world_pass(&w, 1), "patch-node x\n");
    world_close(&w);
}

/* The finalizers of everybody else stay, in their order, and the server refuses the write where
 * somebody was faster. */
static void test_the_write(void **state) {
    nc_auto_value struct nc_value *object = NULL;
    static const char json[] = "{\"metadata\":{\"name\":\"x\",\"uid\":\"uid-x\","
                               "\"resourceVersion\":\"77\",\"creationTimestamp\":null,"
                               "\"finalizers\":[\"a/b\"," OURS "," THEIRS "]" DELETED "}}";
    struct nc_control_event e = {.kind = NC_CONTROL_SEEN, .what = NC_CONTROL_CLAIM};
    struct nc_control_actions out = {0};
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct world w;

    (void)state;
    world_open(&w);
    assert_true(nc_json_parse(json, strlen(json), &object, NULL) >= 0);
    e.object = object;
    e.now_usec = w.now_usec;
    nc_control_step(w.c, &e, &out);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.v[0].verb, NC_CONTROL_PATCH_CLAIM);
    nc_json_write(&text, out.v[0].body, 0);
    assert_string_equal(text.data, "{\"metadata\":{\"resourceVersion\":\"77\",\"uid\":\"uid-x\","
                                   "\"finalizers\":[\"a/b\"," THEIRS "]}}");
    nc_control_actions_done(&out);
    world_close(&w);
}

/* While nobody knows whether Karpenter runs it stays; and what was read in a time alone is read
 * once more, though it has not changed. */
static void test_when_karpenter_is_found(void **state) {
    static const char json[] = "{\"metadata\":{\"name\":\"x\",\"uid\":\"uid-x\","
                               "\"resourceVersion\":\"77\",\"creationTimestamp\":null,"
                               "\"finalizers\":[" THEIRS "," OURS "]" DELETED "}}";
    static const enum nc_control_mode before[] = {NC_CONTROL_MODE_UNKNOWN, NC_CONTROL_STANDALONE};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(before); i++) {
        struct world w;
        world_open(&w);
        (void)world_mode(&w, before[i]);
        for (size_t k = 0; k < 3; k++)
            (void)world_synced(&w, (enum nc_control_kind)k);
        assert_string_equal(world_see(&w, NC_CONTROL_CLAIM, json), "");
        assert_string_equal(world_mode(&w, NC_CONTROL_KARPENTER),
                            before[i] == NC_CONTROL_STANDALONE ? "" : "patch-claim x\n");
        if (before[i] == NC_CONTROL_STANDALONE)
            assert_string_equal(world_see(&w, NC_CONTROL_CLAIM, json), "patch-claim x\n");
        world_close(&w);
    }
}

static const char *guess(struct world *w, enum nc_control_mode mode) {
    return world_event(
        w, (struct nc_control_event){.kind = NC_CONTROL_MODE, .mode = mode, .is_guess = true});
}

/* "other" is a NodeClaim of Karpenter's. */
static const char *other(struct world *w) {
    return world_see(
        w, NC_CONTROL_CLAIM,
        "{\"metadata\":{\"name\":\"other\",\"uid\":\"uid-other\",\"finalizers\":[" THEIRS "]}}");
}

/* A Lease says that Karpenter runs. As long as no NodeClaim bears that out nothing is transferred.
 */
static void test_a_guess_is_borne_out(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    assert_string_equal(guess(&w, NC_CONTROL_KARPENTER), "");
    assert_string_equal(see(&w, NC_CONTROL_CLAIM, OURS, DELETED), "");
    assert_string_equal(world_pass(&w, 600 * WORLD_SEC), "");
    assert_non_null(nc_control_doubts(w.c));
    assert_string_equal(other(&w), "patch-claim x\n");
    assert_null(nc_control_doubts(w.c));
    assert_string_equal(world_gone(&w, NC_CONTROL_CLAIM, "other", ""), "");
    assert_non_null(nc_control_doubts(w.c));
    world_close(&w);
    world_open(&w); /* who was told so needs nothing else */
    assert_string_equal(see(&w, NC_CONTROL_CLAIM, OURS, DELETED), "patch-claim x\n");
    world_close(&w);
}

/* No Lease was found, and a NodeClaim says otherwise: its Karpenter may be where nobody looked. */
static void test_a_guess_that_claims_contradict(void **state) {
    static const char auto_mode[] =
        "{\"metadata\":{\"name\":\"auto\",\"uid\":\"uid-auto\",\"finalizers\":[" THEIRS
        "]},\"spec\":{\"nodeClassRef\":{\"group\":\"eks.amazonaws.com\",\"name\":\"d\"}}}";
    struct world w;

    (void)state;
    world_open(&w);
    assert_string_equal(guess(&w, NC_CONTROL_STANDALONE), "");
    assert_string_equal(other(&w), "");
    for (size_t k = 0; k < 3; k++)
        assert_string_equal(world_synced(&w, (enum nc_control_kind)k), "");
    assert_string_equal(see(&w, NC_CONTROL_CLAIM, "", ""), "");
    assert_non_null(nc_control_doubts(w.c));
    assert_string_equal(world_gone(&w, NC_CONTROL_CLAIM, "other", ""), "patch-claim x\n");
    assert_null(nc_control_doubts(w.c));
    assert_string_equal(world_see(&w, NC_CONTROL_CLAIM, auto_mode), ""); /* explained */
    assert_null(nc_control_doubts(w.c));
    assert_string_equal(other(&w), "");
    assert_non_null(nc_control_doubts(w.c));
    assert_string_equal(world_event(&w, (struct nc_control_event){.kind = NC_CONTROL_MODE,
                                                                  .mode = NC_CONTROL_STANDALONE}),
                        "");
    assert_null(nc_control_doubts(w.c)); /* somebody has said so */
    world_close(&w);
}

/* Only claims that are ours, where none is Karpenter's; one that is nobody's yet may become
 * either's.
 */
static void test_what_denies_karpenter(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    assert_false(nc_control_denies_karpenter(w.c));
    (void)see(&w, NC_CONTROL_CLAIM, "", "");
    assert_false(nc_control_denies_karpenter(w.c));
    (void)see(&w, NC_CONTROL_CLAIM, OURS, "");
    assert_true(nc_control_denies_karpenter(w.c));
    (void)other(&w);
    assert_false(nc_control_denies_karpenter(w.c));
    world_close(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_guess_is_borne_out),
        cmocka_unit_test(test_a_guess_that_claims_contradict),
        cmocka_unit_test(test_what_denies_karpenter),
        cmocka_unit_test(test_what_is_released),
        cmocka_unit_test(test_node_that_karpenter_does_not_hold),
        cmocka_unit_test(test_node_that_says_nothing),
        cmocka_unit_test(test_the_write),
        cmocka_unit_test(test_when_karpenter_is_found),
    };

    return run_group(tests, NULL, NULL);
}
