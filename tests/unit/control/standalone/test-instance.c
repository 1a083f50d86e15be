/*
 * Where we are standalone: the end of instance, Node and claim, once nothing is left to wait for.
 * Rules S12, S16 to S18.
 */
#include "groups.h"
#include "standalone-world.h"

#include "nc/lifecycle.h"

/* Its Node goes only once the machine does not work any more. */
static void test_instance(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_kubelet = false;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 25 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "InstanceTerminating"),
                        "True InstanceTerminating");
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 1);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_NODE], 0);
    world_advance(&w, 60 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 3);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_NODE], 0);
    world_set_ready(&w, "a", "Unknown");
    world_advance(&w, 10 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

static void test_instance_that_does_not_end(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_kubelet = false;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, NC_STANDALONE_ENDING_USEC);
    assert_non_null(world_get(&w, NODE, "a"));
    world_advance(&w, 30 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

/* EC2 does not answer: what Nodes and claims need goes on. */
static void test_ec2_is_slow(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    w.rules.max_in_flight = 8;
    world_restart(&w);
    for (char name[2] = "a"; name[0] <= 'l'; name[0]++)
        world_add_pair(&w, name, "");
    w.holds = NC_CONTROL_END_INSTANCE;
    for (char name[2] = "a"; name[0] <= 'l'; name[0]++)
        world_delete(&w, CLAIM, name);
    world_advance(&w, 60 * WORLD_SEC);
    assert_int_equal(w.out.n, 2); /* a quarter of the places */
    world_add_pair(&w, "x", "");
    assert_string_equal(world_condition(&w, "x", "Initialized"), "True Initialized");
    w.holds = 0;
    world_advance(&w, 120 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_null(world_get(&w, CLAIM, "l"));
    world_done(&w);
}

static void test_no_such_instance(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_kubelet = false;
    w.ec2 = NC_CONTROL_MISSING;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 60 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_null(world_get(&w, NODE, "a"));
    world_done(&w);
}

/* EC2 may say so of an instance that was launched a moment ago. */
static void test_instance_is_not_known_yet(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    w.ec2 = NC_CONTROL_MISSING;
    world_add_claim(&w, "a", "");
    world_reconcile(&w);
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 20 * WORLD_SEC);
    assert_true(world_has_finalizer(&w, CLAIM, "a"));
    assert_in_range(w.requested[NC_CONTROL_END_INSTANCE], 3, 10);
    w.ec2 = NC_CONTROL_DONE;
    world_advance(&w, 60 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

static void test_instance_never_was(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    w.ec2 = NC_CONTROL_MISSING;
    world_add_claim(&w, "a", "");
    world_reconcile(&w);
    world_delete(&w, CLAIM, "a");
    world_advance(&w, NC_STANDALONE_LAUNCHED_USEC + 60 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

static void test_instance_cannot_be_ended(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.ec2 = NC_CONTROL_REFUSED;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 600 * WORLD_SEC);
    assert_non_null(world_get(&w, NODE, "a"));
    assert_false(world_is_deleting(&w, NODE, "a"));
    assert_in_range(w.requested[NC_CONTROL_END_INSTANCE], 15, 60);
    w.ec2 = NC_CONTROL_DONE;
    world_advance(&w, 60 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

static void test_does_not_terminate(void **state) {
    struct world w;

    (void)state;
    world_init(&w);
    w.rules.terminates = false;
    world_restart(&w);
    world_add_pair(&w, "a", "");
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 60 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_null(world_get(&w, NODE, "a"));
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 0);
    world_done(&w);
}

static void test_never_a_node(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_claim(&w, "a", "'terminationGracePeriod':'1h'");
    world_reconcile(&w);
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 30 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 1);
    world_put(&w, CLAIM, "{'metadata':{'name':'b'},'spec':{},'status':{}}");
    world_reconcile(&w);
    assert_true(world_has_finalizer(&w, CLAIM, "b"));
    world_delete(&w, CLAIM, "b");
    world_advance(&w, 30 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "b"));
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 1);
    world_done(&w);
}

/* Who deletes a Node wants its claim to go; it drains first all the same. */
static void test_node_deleted(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_agent = false;
    world_delete(&w, NODE, "a");
    world_advance(&w, 30 * WORLD_SEC);
    assert_true(world_is_deleting(&w, CLAIM, "a"));
    assert_true(world_has_finalizer(&w, NODE, "a"));
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 0);
    w.has_agent = true;
    w.has_kubelet = false; /* that it is being deleted since long says nothing of the machine */
    world_advance(&w, 60 * WORLD_SEC);
    assert_true(w.requested[NC_CONTROL_END_INSTANCE] > 0);
    assert_true(world_has_finalizer(&w, NODE, "a"));
    world_set_ready(&w, "a", "False");
    world_advance(&w, 30 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_null(world_get(&w, NODE, "a"));
    assert_int_equal(w.requested[NC_CONTROL_DELETE_NODE], 0);
    world_done(&w);
}

static void test_orphan(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_node(&w, "a");
    world_patch(&w, NODE, "a", "{'metadata':{'finalizers':['x/y','nodeclaimd.io/termination']}}");
    world_advance(&w, 10 * WORLD_SEC);
    assert_true(world_has_finalizer(&w, NODE, "a"));
    world_delete(&w, NODE, "a");
    world_advance(&w, 10 * WORLD_SEC);
    assert_false(world_has_finalizer(&w, NODE, "a"));
    assert_non_null(world_get(&w, NODE, "a")); /* the other finalizer is another's */
    world_done(&w);
}

/* The cloud's own controller deletes a Node once its instance is gone. */
static void test_node_deleted_by_cloud(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_kubelet = false;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 25 * WORLD_SEC);
    assert_non_null(world_get(&w, NODE, "a"));
    world_delete(&w, NODE, "a");
    world_advance(&w, 5 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_null(world_get(&w, NODE, "a"));
    world_done(&w);
}

static void test_does_not_terminate_undrained(void **state) {
    struct world w;

    (void)state;
    world_init(&w);
    w.rules.terminates = false;
    w.has_agent = false;
    world_restart(&w);
    world_add_pair(&w, "a", "");
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 600 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_NODE], 0);
    world_done(&w);
}

static void come_with_the_end(struct world *w, const struct nc_control_action *a) {
    if (a->verb == NC_CONTROL_END_INSTANCE && w->requested[a->verb] == 1)
        world_add_node(w, "a");
}

/* The Node comes while EC2 ends the instance of a claim that had none: whenever a leader dies, the
 * next one does not wait for the drain status of an agent that is gone. */
static void test_node_comes_with_the_end(void **state) {
    struct world w;

    (void)state;
    for (unsigned death = 0; death <= 5; death++) {
        world_begin(&w);
        w.has_agent = w.has_kubelet = false;
        world_add_claim(&w, "a", "");
        world_reconcile(&w);
        w.check_before = come_with_the_end;
        w.lose = death ? w.writes + death : 0;
        world_delete(&w, CLAIM, "a");
        world_reconcile(&w);
        assert_true(w.requested[NC_CONTROL_END_INSTANCE] > 0);
        if (world_get(&w, NODE, "a"))
            world_set_ready(&w, "a", "Unknown");
        world_advance(&w, 60 * WORLD_SEC);
        assert_null(world_get(&w, CLAIM, "a"));
        assert_null(world_get(&w, NODE, "a"));
        assert_int_equal(w.deaths, death > 0);
        world_done(&w);
    }
}

/* Nothing is forgotten of an instance that cannot be ended. */
static void test_never_a_node_cannot_be_ended(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    w.ec2 = NC_CONTROL_REFUSED;
    world_add_claim(&w, "a", "");
    world_reconcile(&w);
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 600 * WORLD_SEC);
    assert_true(world_has_finalizer(&w, CLAIM, "a"));
    world_done(&w);
}

/* Who is being deleted without our finalizer was never ours. */
static void test_deleted_before_us(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_put(&w, CLAIM,
              "{'metadata':{'name':'a','finalizers':['x/y'],'deletionTimestamp':'" WORLD_PAST
              "'},'spec':{},'status':{'providerID':'aws:///z/a'}}");
    world_advance(&w, 60 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 0);
    assert_int_equal(w.requested[NC_CONTROL_PATCH_CLAIM], 0);
    world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_instance),
        cmocka_unit_test(test_instance_that_does_not_end),
        cmocka_unit_test(test_ec2_is_slow),
        cmocka_unit_test(test_no_such_instance),
        cmocka_unit_test(test_instance_is_not_known_yet),
        cmocka_unit_test(test_instance_never_was),
        cmocka_unit_test(test_instance_cannot_be_ended),
        cmocka_unit_test(test_does_not_terminate),
        cmocka_unit_test(test_never_a_node),
        cmocka_unit_test(test_node_deleted),
        cmocka_unit_test(test_orphan),
        cmocka_unit_test(test_node_deleted_by_cloud),
        cmocka_unit_test(test_node_comes_with_the_end),
        cmocka_unit_test(test_does_not_terminate_undrained),
        cmocka_unit_test(test_never_a_node_cannot_be_ended),
        cmocka_unit_test(test_deleted_before_us),
    };

    return run_group(tests, NULL, NULL);
}
