/*
 * Where we are standalone: the taint, and what is disrupted voluntarily, when, and beside what.
 * Rules S7 to S9.
 */
#include "groups.h"
#include "standalone-world.h"

#include "nc/lifecycle.h"
#include "nc/mem.h"
#include "nc/names.h"

/* --- the taint */

static void test_taint(void **state) {
    static const struct {
        const char *status;
        bool is_tainted;
    } rows[] = {
        {"{'id':'x','source':'spot','phase':'Detected','deadline':'2026-01-01T02:00:00Z'}", true},
        {"{'id':'x','source':'maintenance','policy':'report','phase':'Detected',"
         "'deadline':'2026-01-01T02:00:00Z'}",
         false},
        {"{'id':'x','source':'maintenance','phase':'Detected','deadline':'2026-01-01T02:00:00Z'}",
         true},
        {"{'id':'x','source':'rebalance','phase':'Detected','deadline':null}", false},
        {"{'id':'x','source':'operator','phase':'Cordoned'}", false},
        {"{'id':'x','source':'operator','phase':'Evicting'}", true},
        {"{'id':'x','source':'operator','phase':'Forcing'}", true},
        {"{'id':'x','source':'operator','phase':'VolumeWait'}", true},
        {"{'id':'x','source':'operator','phase':'Drained'}", true},
        {"{'id':'x','source':'operator','phase':''}", false},
        {"[]", false},
        {NULL, false},
    };
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.rules.rebalances = false;
    world_restart(&w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        world_set_status(&w, "a", rows[i].status);
        world_advance(&w, 61 * WORLD_SEC);
        if (world_has_taint(&w, "a", DISRUPTED) != rows[i].is_tainted)
            fail_msg("%s", rows[i].status);
        if (!world_has_taint(&w, "a", "dedicated"))
            fail_msg("%zu %s", i, world_trace(&w));
    }
    assert_false(world_is_deleting(&w, CLAIM, "a"));
    assert_string_equal(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_OUR_TAINT), "");
    world_done(&w);
}

static void test_taint_of_others(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    world_patch(&w, NODE, "a",
                "{'spec':{'taints':[{'key':'karpenter.sh/disrupted','effect':'NoSchedule'}]}}");
    world_set_status(&w, "a", "{'id':'x','source':'operator','phase':'Evicting'}");
    world_advance(&w, 60 * WORLD_SEC);
    world_set_status(&w, "a", NULL);
    world_advance(&w, 60 * WORLD_SEC);
    assert_true(world_has_taint(&w, "a", DISRUPTED));
    assert_string_equal(world_trace(&w), "");
    world_done(&w);
}

/* A Node that nobody claims drains, too. */
static void test_taint_without_claim(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_node(&w, "a");
    world_set_status(&w, "a", "{'id':'x','source':'operator','phase':'Evicting'}");
    world_reconcile(&w);
    assert_true(world_has_taint(&w, "a", DISRUPTED));
    assert_true(world_has_taint(&w, "a", "karpenter.sh/unregistered"));
    world_set_status(&w, "a", NULL);
    world_advance(&w, 10 * WORLD_SEC);
    assert_false(world_has_taint(&w, "a", DISRUPTED));
    world_done(&w);
}

/* --- voluntary */

static void test_drift(void **state) {
    static const struct {
        enum nc_control_kind kind;
        const char *name, *json, *says;
    } rows[] = {
        {POOL, "pool", "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'2'}}}",
         "True NodePoolDrifted"},
        {POOL, "pool",
         "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'2',"
         "'karpenter.sh/nodepool-hash-version':'v4'}}}",
         ""},
        {NC_CONTROL_CLASS, "class",
         "{'metadata':{'annotations':{'karpenter.k8s.aws/ec2nodeclass-hash':'6'}}}",
         "True NodeClassDrifted"},
        {NC_CONTROL_CLASS, "class",
         "{'metadata':{'annotations':{'karpenter.k8s.aws/ec2nodeclass-hash':'6',"
         "'karpenter.k8s.aws/ec2nodeclass-hash-version':'v5'}}}",
         ""},
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        world_begin_pair(&w, "");
        w.has_agent = false;
        world_patch(&w, rows[i].kind, rows[i].name, rows[i].json);
        world_advance(&w, 20 * WORLD_SEC);
        assert_string_equal(world_condition(&w, "a", "Drifted"), rows[i].says);
        assert_int_equal(world_is_deleting(&w, CLAIM, "a"), rows[i].says[0] != '\0');
        world_done(&w);
    }
}

/* What waits for the room of one reason is checked when another one begins. */
static void test_drifted_then_expired(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "'expireAfter':'2h'");
    w.has_agent = false;
    world_patch(&w, POOL, "pool",
                "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'2'}},'spec':{"
                "'disruption':{'budgets':[{'nodes':'0','reasons':['Drifted']},{'nodes':'1'}]}}}");
    world_advance(&w, 7100 * WORLD_SEC);
    assert_false(world_is_deleting(&w, CLAIM, "a"));
    world_advance(&w, 200 * WORLD_SEC);
    assert_true(world_is_deleting(&w, CLAIM, "a"));
    world_done(&w);
}

static void test_drift_ends(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'0'}]}}}");
    world_patch(&w, POOL, "pool",
                "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'2'}}}");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drifted"), "True NodePoolDrifted");
    world_patch(&w, POOL, "pool",
                "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'1'}}}");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drifted"), "");
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
    world_done(&w);
}

static void test_rebalance(void **state) {
    struct world w;

    (void)state;
    for (int rebalances = 0; rebalances < 2; rebalances++) {
        world_init(&w);
        w.rules.rebalances = rebalances;
        world_restart(&w);
        world_put(&w, POOL, "{'metadata':{'name':'pool'},'spec':{}}");
        world_add_pair(&w, "a", "");
        w.has_agent = false;
        world_set_status(&w, "a", "{'id':'x','source':'rebalance','phase':'Detected'}");
        world_advance(&w, 20 * WORLD_SEC);
        assert_int_equal(world_is_deleting(&w, CLAIM, "a"), rebalances);
        world_done(&w);
    }
}

/* Each of these keeps an expired claim alive; taking it away ends that. */
static void test_not_disrupted(void **state) {
    static const struct {
        enum nc_control_kind kind;
        const char *name, *set, *unset;
    } rows[] = {
        {CLAIM, "a", "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'}}}",
         "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':null}}}"},
        {POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'0'}]}}}",
         "{'spec':{'disruption':{'budgets':[{'nodes':'0','reasons':['Drifted']}]}}}"},
        {POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'many'}]}}}",
         "{'spec':{'disruption':{'budgets':[{'nodes':'100%'}]}}}"},
        {CLAIM, "a", "{'metadata':{'labels':{'karpenter.sh/nodepool':'none'}}}",
         "{'metadata':{'labels':{'karpenter.sh/nodepool':'pool'}}}"},
        {CLAIM, "a", "{'spec':{'expireAfter':'Never'}}", "{'spec':{'expireAfter':'1h'}}"},
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        world_begin_pair(&w, "'expireAfter':'1h'");
        w.has_agent = false;
        world_patch(&w, rows[i].kind, rows[i].name, rows[i].set);
        world_advance(&w, 3700 * WORLD_SEC);
        if (w.requested[NC_CONTROL_DELETE_CLAIM] > 0)
            fail_msg("row %zu: %s", i, rows[i].set);
        if (strstr(rows[i].set, "many"))
            assert_non_null(strstr(w.events.data, "DisruptionBlocked pool\n"));
        world_patch(&w, rows[i].kind, rows[i].name, rows[i].unset);
        world_advance(&w, 5 * WORLD_SEC);
        if (!world_is_deleting(&w, CLAIM, "a"))
            fail_msg("row %zu: %s", i, rows[i].unset);
        world_done(&w);
    }
}

/* A Node that is not Ready is on its way out for the budgets, as Karpenter counts. */
static void test_not_ready_counts(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_pair(&w, "a", "'expireAfter':'1h'");
    world_add_pair(&w, "b", "");
    w.has_agent = false;
    world_advance(&w, 3400 * WORLD_SEC);
    world_set_ready(&w, "b", "Unknown");
    world_advance(&w, 300 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
    world_set_ready(&w, "a", "Unknown"); /* one that is out itself is counted once: still two */
    world_advance(&w, 10 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
    world_set_ready(&w, "b", "True");
    world_advance(&w, 10 * WORLD_SEC);
    assert_true(world_is_deleting(&w, CLAIM, "a"));
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 1);
    world_done(&w);
}

/* What a node writes on its own Node delays nobody's end, not its own either. */
static void test_what_a_node_says(void **state) {
    static const char *const rows[] = {
        "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'}}}",
        "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'},'labels':{"
        "'karpenter.sh/initialized':null,'karpenter.sh/nodepool':'other'}}}",
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < 2 * NC_ARRAY_SIZE(rows); i++) {
        const bool is_drift = i >= NC_ARRAY_SIZE(rows);
        world_begin_pair(&w, is_drift ? "" : "'expireAfter':'1h'");
        w.has_agent = false;
        world_patch(&w, NODE, "a", rows[i % NC_ARRAY_SIZE(rows)]);
        if (is_drift)
            world_patch(&w, POOL, "pool",
                        "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'2'}}}");
        world_advance(&w, 3700 * WORLD_SEC);
        if (!world_is_deleting(&w, CLAIM, "a"))
            fail_msg("row %zu", i);
        world_done(&w);
    }
}

/* It holds a place for half an hour, whatever changes meanwhile, and that is said once. */
static void test_not_ready_for_long(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_pair(&w, "a", "'expireAfter':'1h'");
    world_add_pair(&w, "b", "");
    w.has_agent = false;
    world_patch(&w, NODE, "b",
                "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'}}}");
    world_advance(&w, 3500 * WORLD_SEC);
    world_set_ready(&w, "b", "Unknown");
    world_advance(&w, 1600 * WORLD_SEC);
    world_patch(&w, CLAIM, "b", "{'metadata':{'annotations':{'a':'b'}}}");
    world_patch(&w, POOL, "pool", "{'metadata':{'annotations':{'a':'b'}}}");
    world_advance(&w, 100 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
    assert_non_null(strstr(w.events.data, "DisruptionBlocked pool\n"));
    assert_null(strstr(strstr(w.events.data, "DisruptionBlocked") + 1, "DisruptionBlocked"));
    world_advance(&w, 200 * WORLD_SEC);
    assert_true(world_is_deleting(&w, CLAIM, "a"));
    assert_false(world_is_deleting(&w, CLAIM, "b"));
    world_done(&w);
}

/* Of a day, however it is divided: Ready for a moment now and then brings it no other half hour. */
static void test_not_ready_again_and_again(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_pair(&w, "a", "'expireAfter':'2h'");
    world_add_pair(&w, "b", "");
    w.has_agent = false;
    for (int i = 0; i < 4; i++) {
        world_set_ready(&w, "b", "True");
        world_set_ready(&w, "b", "Unknown");
        world_advance(&w, 1600 * WORLD_SEC);
    }
    world_set_ready(&w, "b", "True");
    world_set_ready(&w, "b", "Unknown");
    world_advance(&w, 700 * WORLD_SEC);
    assert_false(world_is_deleting(&w, CLAIM, "a"));
    world_advance(&w, 200 * WORLD_SEC);
    assert_true(world_is_deleting(&w, CLAIM, "a"));
    world_done(&w);
}

/* Ready for a day, it may be waited for again. */
static void test_ready_again(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_pair(&w, "a", "'expireAfter':'30h'");
    world_add_pair(&w, "b", "");
    w.has_agent = false;
    world_set_ready(&w, "b", "Unknown");
    world_advance(&w, 3600 * WORLD_SEC);
    world_set_ready(&w, "b", "True");
    world_advance(&w, 28 * 3600 * WORLD_SEC + 3000 * WORLD_SEC);
    world_set_ready(&w, "b", "Unknown");
    world_advance(&w, 1700 * WORLD_SEC);
    assert_false(world_is_deleting(&w, CLAIM, "a"));
    world_advance(&w, 200 * WORLD_SEC);
    assert_true(world_is_deleting(&w, CLAIM, "a"));
    world_done(&w);
}

/* Somebody's own deletion is not held, and takes the place of a voluntary one. */
static void test_deletion_of_others_counts(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_pair(&w, "a", "'expireAfter':'1h'");
    world_add_pair(&w, "b", "");
    world_add_pair(&w, "c", "");
    w.has_agent = false;
    world_delete(&w, CLAIM, "b");
    world_delete(&w, CLAIM, "c");
    world_advance(&w, 3700 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
    w.has_agent = true;
    world_advance(&w, 60 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "b"));
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 1);
    world_done(&w);
}

/* Expired before drifted before rebalance; the eldest first. */
static void test_order(void **state) {
    static const char *const order[] = {"d", "b", "c", "a"};
    struct world w;

    (void)state;
    world_begin(&w);
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'0'}]}}}");
    world_add_pair(&w, "a", "");
    world_set_status(&w, "a", "{'id':'x','source':'rebalance','phase':'Detected'}");
    world_add_pair(&w, "b", "'expireAfter':'1h'");
    world_add_pair(&w, "c", "");
    world_patch(&w, CLAIM, "c", "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'0'}}}");
    world_add_pair(&w, "d", "'expireAfter':'30m'");
    world_patch(&w, CLAIM, "d", "{'metadata':{'creationTimestamp':'" WORLD_PAST "'}}");
    world_advance(&w, 3700 * WORLD_SEC);
    nc_buf_clear(&w.trace);
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'1'}]}}}");
    world_advance(&w, 200 * WORLD_SEC);
    const char *at = world_trace(&w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(order); i++) {
        at = strstr(at, "delete-claim ");
        assert_non_null(at);
        at += strlen("delete-claim ");
        assert_int_equal(*at, *order[i]);
    }
    world_done(&w);
}

/* What was chosen and could not be sent is evaluated again before it is. */
static void test_evaluated_again(void **state) {
    struct world w;

    (void)state;
    for (int i = 0; i < 2; i++) {
        world_begin(&w);
        world_add_pair(&w, "a", "'expireAfter':'1h'");
        world_add_pair(&w, "b", "");
        w.has_agent = false;
        w.away[NC_CONTROL_DELETE_CLAIM] = 1;
        while (w.away[NC_CONTROL_DELETE_CLAIM] > 0)
            world_advance(&w, WORLD_SEC / 20);
        if (i)
            world_delete(&w, CLAIM, "b");
        else
            world_patch(&w, CLAIM, "a",
                        "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'}}}");
        world_advance(&w, 60 * WORLD_SEC);
        assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
        world_done(&w);
    }
}

/* A DELETE that nobody has answered yet counts. */
static void test_delete_in_flight_counts(void **state) {
    struct world w;
    size_t n = 0;

    (void)state;
    world_begin(&w);
    world_add_pair(&w, "a", "'expireAfter':'1h'");
    world_add_pair(&w, "b", "'expireAfter':'1h'");
    w.has_agent = false;
    w.holds = NC_CONTROL_DELETE_CLAIM;
    world_advance(&w, 3700 * WORLD_SEC);
    for (size_t i = 0; i < w.out.n; i++)
        n += w.out.v[i].verb == NC_CONTROL_DELETE_CLAIM;
    assert_int_equal(n, 1);
    world_patch(&w, CLAIM, "a",
                "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'}}}"); /* late */
    world_advance(&w, 60 * WORLD_SEC);
    w.holds = 0;
    world_advance(&w, 60 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 1);
    world_done(&w);
}

/* A claim that is not initialized is replaced by nobody: it is left to become so. */
static void test_not_initialized(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_claim(&w, "a", "");
    world_add_node(&w, "a");
    world_reconcile(&w);
    assert_string_equal(world_condition(&w, "a", "Registered"), "True Registered");
    world_patch(&w, NODE, "a", "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
    world_set_status(&w, "a", "{'id':'x','source':'rebalance','phase':'Detected'}");
    world_patch(&w, POOL, "pool",
                "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'2'}}}");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Initialized"), "Unknown StartupTaintsExist");
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
    world_done(&w);
}

/* A window that closes is waited for, without anything else happening. */
static void test_schedule(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_patch(&w, POOL, "pool",
                "{'spec':{'disruption':{'budgets':[{'nodes':'0','schedule':'0 * * * *',"
                "'duration':'30m'}]}}}");
    world_add_pair(&w, "a", "'expireAfter':'1m'");
    world_advance(&w, 1790 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
    world_advance(&w, 20 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 1);
    world_done(&w);
}

/* v1beta1 says on the NodePool when its claims expire. */
static void test_expiry_of_pool(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'expireAfter':'1h'}}}");
    world_add_pair(&w, "a", "");
    world_add_pair(&w, "b", "'expireAfter':'2h'");
    w.has_agent = false;
    world_advance(&w, 3610 * WORLD_SEC);
    assert_true(world_is_deleting(&w, CLAIM, "a"));
    assert_false(world_is_deleting(&w, CLAIM, "b"));
    world_done(&w);
}

static void begin_with_budget(struct world *w, const char *nodes) {
    nc_auto_free char *budgets =
        nc_asprintf("{'spec':{'disruption':{'budgets':[{'nodes':'%s'}]}}}", nodes);

    world_begin(w);
    world_patch(w, POOL, "pool", budgets);
}

/* Two that work have expired, and nobody drains them: so many DELETEs are in flight. */
static unsigned two_expire(struct world *w) {
    world_add_pair(w, "a", "'expireAfter':'10m'");
    world_add_pair(w, "b", "'expireAfter':'10m'");
    w->has_agent = false;
    world_advance(w, 700 * WORLD_SEC);
    return w->requested[NC_CONTROL_DELETE_CLAIM];
}

/* A percentage is of the claims with an initialized Node and of those on their way out. */
static void test_percentage(void **state) {
    struct world w;

    (void)state;
    begin_with_budget(&w, "50%");
    world_add_claim(&w, "c", "");
    world_add_claim(&w, "d", "");
    assert_int_equal(two_expire(&w), 1);
    world_done(&w);
}

/* Registered and Ready; its startup taint stays. */
static void add_starting(struct world *w, const char *name, const char *more_spec) {
    world_add_claim(w, name, more_spec);
    world_add_node(w, name);
    world_reconcile(w);
    world_set_ready(w, name, "True");
    world_reconcile(w);
    assert_string_equal(world_condition(w, name, "Initialized"), "Unknown StartupTaintsExist");
}

/* Nodes that do not work yet make no room for others to go. */
static void test_percentage_of_those_that_work(void **state) {
    struct world w;

    (void)state;
    begin_with_budget(&w, "50%");
    add_starting(&w, "c", "");
    add_starting(&w, "d", "");
    assert_int_equal(two_expire(&w), 1);
    world_done(&w);
}

/* One that never worked goes all the same, once it is expired. */
static void test_percentage_of_none(void **state) {
    struct world w;

    (void)state;
    begin_with_budget(&w, "10%");
    add_starting(&w, "a", "'expireAfter':'1h'");
    world_advance(&w, 3700 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

/* Nodes that never worked and are not Ready are on their way out: of all there are, all may be. */
static void test_percentage_of_all(void **state) {
    struct world w;

    (void)state;
    begin_with_budget(&w, "100%");
    world_add_pair(&w, "a", "'expireAfter':'1h'");
    for (int i = 0; i < 3; i++) {
        nc_auto_free char *name = nc_asprintf("dead-%d", i);
        world_add_claim(&w, name, "");
        world_add_node(&w, name);
    }
    world_advance(&w, 3700 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 1);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

/* Why a node has to go is said to it. */
static void test_reasons(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'2'}]}}}");
    world_add_pair(&w, "a", "'expireAfter':'1h'");
    world_add_pair(&w, "b", "");
    w.has_agent = false;
    world_patch(&w, CLAIM, "b", "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'0'}}}");
    world_advance(&w, 3700 * WORLD_SEC);
    assert_non_null(strstr(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST),
                           "\"reason\":\"Expired\""));
    assert_non_null(strstr(world_meta(&w, NODE, "b", "annotations", NC_ANNOTATION_REQUEST),
                           "\"reason\":\"Drifted\""));
    world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taint),
        cmocka_unit_test(test_taint_of_others),
        cmocka_unit_test(test_taint_without_claim),
        cmocka_unit_test(test_drift),
        cmocka_unit_test(test_drifted_then_expired),
        cmocka_unit_test(test_drift_ends),
        cmocka_unit_test(test_rebalance),
        cmocka_unit_test(test_not_disrupted),
        cmocka_unit_test(test_not_ready_counts),
        cmocka_unit_test(test_what_a_node_says),
        cmocka_unit_test(test_not_ready_for_long),
        cmocka_unit_test(test_not_ready_again_and_again),
        cmocka_unit_test(test_ready_again),
        cmocka_unit_test(test_deletion_of_others_counts),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_evaluated_again),
        cmocka_unit_test(test_delete_in_flight_counts),
        cmocka_unit_test(test_not_initialized),
        cmocka_unit_test(test_schedule),
        cmocka_unit_test(test_expiry_of_pool),
        cmocka_unit_test(test_percentage),
        cmocka_unit_test(test_percentage_of_those_that_work),
        cmocka_unit_test(test_percentage_of_none),
        cmocka_unit_test(test_percentage_of_all),
        cmocka_unit_test(test_reasons),
    };

    return run_group(tests, NULL, NULL);
}
