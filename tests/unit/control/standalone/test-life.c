/*
 * Where we are standalone: whole lives of NodeClaims, from the first write to the last, in one
 * piece, side by side, and under leaders that die.
 */
#include "groups.h"
#include "standalone-world.h"

#include "nc/lifecycle.h"
#include "nc/mem.h"
#include "nc/names.h"

static void expect_trace(struct world *w, const char *expected) {
    assert_string_equal(world_trace(w), expected);
    nc_buf_clear(&w->trace);
}

static void set_taints(struct world *w, const char *name, const char *taints) {
    nc_auto_free char *json = nc_asprintf("{'spec':{'taints':[%s]}}", taints);

    world_patch(w, NODE, name, json);
    world_reconcile(w);
}

/* --- registration */

static void expect_registered_node(struct world *w) {
    const char *owner = nc_value_get_string(
        nc_value_path(world_get(w, NODE, "a"), "metadata.ownerReferences")->items[1], "uid");

    const struct nc_value *taints = nc_value_path(world_get(w, NODE, "a"), "spec.taints");

    assert_string_equal(owner, world_text(w, CLAIM, "a", "metadata.uid"));
    assert_true(
        nc_value_get(nc_value_path(world_get(w, NODE, "a"), "metadata.ownerReferences")->items[1],
                     "blockOwnerDeletion")
            ->boolean);
    assert_int_equal(taints->n, 2);
    assert_true(world_has_finalizer(w, NODE, "a"));
    assert_string_equal(world_meta(w, NODE, "a", "labels", "karpenter.sh/registered"), "true");
    assert_string_equal(world_meta(w, NODE, "a", "labels", "team"), "a");
    assert_string_equal(world_meta(w, NODE, "a", "labels", "own"), "x");
    assert_string_equal(world_meta(w, NODE, "a", "annotations", "note"), "kept");
    assert_false(world_has_taint(w, "a", "karpenter.sh/unregistered"));
    assert_true(world_has_taint(w, "a", "cni"));
    /* what stood there is left as it was */
    const struct nc_value *taint = taints->items[0];
    assert_string_equal(nc_value_get_string(taint, "value"), "mine");
    assert_string_equal(nc_value_get_string(taint, "timeAdded"), WORLD_PAST);
}

static void begin(struct world *w) {
    world_init(w);
    world_put(w, NC_CONTROL_POOL, "{'metadata':{'name':'pool'},'spec':{}}");
}

static void expect_birth(struct world *w) {
    world_add_claim(w, "a", "");
    world_reconcile(w);
    assert_true(world_has_finalizer(w, CLAIM, "a"));
    assert_string_equal(world_condition(w, "a", "Registered"), "Unknown NodeNotFound");
    assert_string_equal(world_condition(w, "a", "Ready"), "Unknown ReconcilingDependents");
    world_add_node(w, "a");
    world_reconcile(w);
    expect_registered_node(w);
    assert_string_equal(world_text(w, CLAIM, "a", "status.nodeName"), "a");
    assert_string_equal(world_condition(w, "a", "Registered"), "True Registered");
    assert_string_equal(world_condition(w, "a", "Initialized"), "Unknown NodeNotReady");
    expect_trace(w, "patch-claim a\nstatus-claim a\npatch-node a\nstatus-claim a\n");

    world_set_ready(w, "a", "True");
    assert_string_equal(world_condition(w, "a", "Initialized"), "Unknown StartupTaintsExist");
    set_taints(w, "a", "{'key':'node.kubernetes.io/not-ready','effect':'NoSchedule'}");
    assert_string_equal(world_condition(w, "a", "Initialized"),
                        "Unknown KnownEphemeralTaintsExist");
    world_patch(w, NODE, "a", "{'status':{'allocatable':{'pods':'0'}}}");
    set_taints(w, "a", "");
    assert_string_equal(world_condition(w, "a", "Initialized"), "Unknown ResourceNotRegistered");
    assert_string_equal(world_meta(w, NODE, "a", "labels", "karpenter.sh/initialized"), "");
    world_patch(w, NODE, "a", "{'status':{'allocatable':{'pods':'10'}}}");
    world_reconcile(w);
    assert_string_equal(world_condition(w, "a", "Initialized"), "True Initialized");
    assert_string_equal(world_condition(w, "a", "Ready"), "True Ready");
    assert_string_equal(world_meta(w, NODE, "a", "labels", "karpenter.sh/initialized"), "true");
    expect_trace(w, "status-claim a\nstatus-claim a\nstatus-claim a\npatch-node a\n"
                    "status-claim a\n");
}

static void test_complete_life(void **state) {
    struct world w;

    (void)state;
    begin(&w);
    expect_birth(&w);
    world_set_ready(&w, "a", "False"); /* is never taken back */
    world_set_ready(&w, "a", "True");
    expect_trace(&w, "");

    world_delete(&w, CLAIM, "a");
    world_reconcile(&w);
    assert_true(world_has_taint(&w, "a", "karpenter.sh/disrupted"));
    nc_auto_free char *request =
        nc_asprintf("{\"id\":\"claim-%s\",\"reason\":\"Deleted\",\"mode\":\"graceful\"}",
                    world_text(&w, CLAIM, "a", "metadata.uid"));
    assert_string_equal(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST), request);
    assert_string_equal(world_condition(&w, "a", "Drained"), "Unknown Draining");
    assert_string_equal(world_state(&w, "a"), "draining");
    world_advance(&w, 60 * WORLD_SEC);
    assert_null(world_get(&w, NODE, "a"));
    assert_null(world_get(&w, CLAIM, "a"));
    expect_trace(&w, "status-claim a\npatch-node a\nstatus-claim a\nend-instance a\n"
                     "status-claim a\ndelete-node a\npatch-node a\npatch-claim a\n");
    assert_int_equal(w.conflicts, 0);
    world_advance(&w, 600 * WORLD_SEC);
    expect_trace(&w, "");
    world_done(&w);
}

/* --- five nodes, one at a time */

static unsigned count_out(struct world *w) {
    unsigned out = 0;

    for (size_t i = 0; i < w->n; i++)
        out += w->objects[i].kind == CLAIM
               && nc_value_path(w->objects[i].v, "metadata.deletionTimestamp");
    return out;
}

static void check_one_out(struct world *w) {
    assert_true(count_out(w) <= 1);
}

static void test_one_at_a_time(void **state) {
    struct world w;
    char name[16];

    (void)state;
    world_init(&w);
    world_put(&w, NC_CONTROL_POOL,
              "{'metadata':{'name':'pool'},'spec':{'disruption':{'budgets':[{'nodes':'1'}]}}}");
    for (int i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        world_add_pair(&w, name, "'expireAfter':'1h'");
    }
    w.check = check_one_out;
    w.drain_usec = 30 * WORLD_SEC;
    world_advance(&w, 3590 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
    world_advance(&w, 20 * WORLD_SEC);
    assert_int_equal(count_out(&w), 1);
    world_advance(&w, 300 * WORLD_SEC);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        assert_null(world_get(&w, CLAIM, name));
        assert_null(world_get(&w, NODE, name));
    }
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 5);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_NODE], 5);
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 5);
    world_done(&w);
}

/* --- leaders that die */

/* A life from nothing to nothing: what a Node was when it was initialized, without what counts
 * writes, comes back. */
static char *live(struct world *w) {
    struct nc_buf b = NC_BUF_INIT;

    world_put(w, NC_CONTROL_POOL, "{'metadata':{'name':'pool'},'spec':{}}");
    world_put(w, NC_CONTROL_CLAIM,
              "{'metadata':{'name':'a','uid':'ua','labels':{'karpenter.sh/nodepool':'pool'}},"
              "'spec':{'expireAfter':'1h','terminationGracePeriod':'5m',"
              "'startupTaints':[{'key':'cni','effect':'NoExecute'}]},"
              "'status':{'providerID':'aws:///z/a'}}");
    world_add_node(w, "a");
    world_advance(w, 60 * WORLD_SEC);
    assert_true(world_has_taint(w, "a", "cni"));
    world_patch(w, NODE, "a", "{'spec':{'taints':[]}}");
    world_set_ready(w, "a", "True");
    world_advance(w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(w, "a", "Ready"), "True Ready");
    nc_auto_value struct nc_value *node = nc_value_copy(world_get(w, NODE, "a"));
    nc_value_remove(nc_value_get(node, "metadata"), "resourceVersion");
    nc_value_remove(nc_value_get(node, "metadata"), "uid");
    nc_json_write(&b, node, 0);
    world_advance(w, 3600 * WORLD_SEC); /* it expires, in a pool of one */
    assert_null(world_get(w, CLAIM, "a"));
    assert_null(world_get(w, NODE, "a"));
    return nc_buf_steal(&b);
}

static void expect_same_life(unsigned lose, bool is_before, const char *expected,
                             bool *ret_has_died) {
    struct world w;

    world_init(&w);
    w.lose = lose;
    w.is_before = is_before;
    nc_auto_free char *node = live(&w);
    assert_string_equal(node, expected);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 1);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_NODE], 1);
    assert_in_range(w.requested[NC_CONTROL_END_INSTANCE], 1, 2);
    *ret_has_died = w.deaths > 0;
    world_done(&w);
}

static void test_leaders_die(void **state) {
    struct world w;
    bool has_died = true;

    (void)state;
    world_init(&w);
    nc_auto_free char *expected = live(&w);
    const unsigned writes = w.writes;
    world_done(&w);
    assert_in_range(writes, 10, 30);
    for (unsigned i = 1; i <= writes; i++) {
        expect_same_life(i, true, expected, &has_died);
        assert_true(has_died);
        expect_same_life(i, false, expected, &has_died);
        assert_true(has_died);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete_life),
        cmocka_unit_test(test_one_at_a_time),
        cmocka_unit_test(test_leaders_die),
    };

    return run_group(tests, NULL, NULL);
}
