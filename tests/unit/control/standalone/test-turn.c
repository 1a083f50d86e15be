/*
 * Where zones take turns: what is disrupted voluntarily begins in one zone at a time. Rules S10,
 * S11.
 *
 * The first letter of a claim's name is its zone.
 */
#include "groups.h"
#include "standalone-world.h"

#include "nc/mem.h"
#include "nc/names.h"

#define TURN (600 * WORLD_SEC)

static void set_zone(struct world *w, const char *name) {
    nc_auto_free char *json =
        nc_asprintf("{'metadata':{'labels':{'" NC_LABEL_ZONE "':'%c'}}}", name[0]);

    world_patch(w, CLAIM, name, json);
}

static void add(struct world *w, const char *name, const char *more_spec) {
    world_add_pair(w, name, more_spec);
    set_zone(w, name);
}

/* Two that live for an hour in each of three zones; all may go at once as far as budgets go. */
static void begin(struct world *w, uint64_t turn_usec, const char *nodes) {
    static const char *const names[] = {"b1", "c1", "a1", "a2", "b2", "c2"};
    nc_auto_free char *budgets =
        nc_asprintf("{'spec':{'disruption':{'budgets':[{'nodes':'%s'}]}}}", nodes);

    world_begin(w);
    w->rules.zone_turn_usec = turn_usec;
    world_restart(w);
    world_patch(w, POOL, "pool", budgets);
    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++)
        add(w, names[i], "'expireAfter':'1h'");
    nc_buf_clear(&w->trace);
}

static bool is_any_deleting(struct world *w, char zone) {
    for (size_t i = 0; i < w->n; i++)
        if (w->objects[i].kind == CLAIM) {
            const char *name = nc_value_string(nc_value_path(w->objects[i].v, "metadata.name"));
            if (name[0] == zone && world_is_deleting(w, CLAIM, name))
                return true;
        }
    return false;
}

static void check_one_zone(struct world *w, const struct nc_control_action *a) {
    for (char zone = 'a'; zone <= 'c'; zone++)
        if (a->verb == NC_CONTROL_DELETE_CLAIM && zone != a->name[0] && is_any_deleting(w, zone))
            fail_msg("%s begins while zone %c is in progress", a->name, zone);
}

/* The names of the claims that were deleted, in that order. */
static const char *order(struct world *w) {
    static char names[256];
    size_t n = 0;

    names[0] = '\0';
    for (const char *at = world_trace(w); (at = strstr(at, "delete-claim ")); at++)
        n += (size_t)snprintf(names + n, sizeof(names) - n, "%s%.2s", n ? " " : "",
                              at + strlen("delete-claim "));
    return names;
}

static bool was_reported(const struct world *w, const char *text) {
    return w->events.data && strstr(w->events.data, text);
}

/* --- the turn */

static void test_off(void **state) {
    struct world w;

    (void)state;
    begin(&w, 0, "100%");
    w.has_agent = false;
    world_advance(&w, 3601 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 a2 b1 b2 c1 c2");
    assert_string_equal(world_condition(&w, "a1", "DisruptionReason"), "");
    assert_null(nc_control_zone_turn(w.control));
    world_done(&w);
}

/* What is written in the life of one zone is the same, byte for byte, with turns and without. */
static void test_one_zone_alone(void **state) {
    char *traces[2];
    struct world w;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(traces); i++) {
        world_begin(&w);
        w.rules.zone_turn_usec = i ? TURN : 0;
        world_restart(&w);
        add(&w, "a1", "'expireAfter':'1h'");
        add(&w, "a2", "'expireAfter':'1h'");
        world_advance(&w, 5000 * WORLD_SEC);
        assert_null(world_get(&w, CLAIM, "a2"));
        traces[i] = nc_strdup(world_trace(&w));
        world_done(&w);
    }
    assert_string_equal(traces[0], traces[1]);
    free(traces[0]);
    free(traces[1]);
}

static void test_zones_in_order(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.check_before = check_one_zone;
    world_advance(&w, 4000 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 a2 b1 b2 c1 c2");
    assert_null(world_get(&w, CLAIM, "c2"));
    assert_false(was_reported(&w, "ZoneTurnExceeded"));
    world_done(&w);
}

/* The turn goes round where budgets let one go at a time. */
static void test_round(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "1");
    w.check_before = check_one_zone;
    world_advance(&w, 4000 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 b1 c1 a2 b2 c2");
    world_done(&w);
}

static void test_state(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.has_agent = false;
    world_advance(&w, 3610 * WORLD_SEC);
    assert_string_equal(world_state(&w, "a1"), "draining");
    assert_string_equal(world_state(&w, "b1"), "WaitingForZone");
    assert_string_equal(world_state(&w, "c2"), "WaitingForZone");
    assert_string_equal(nc_control_zone_turn(w.control), "a");
    world_patch(&w, CLAIM, "b1",
                "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'}}}");
    world_advance(&w, 5 * WORLD_SEC);
    assert_string_equal(world_state(&w, "b1"), "");
    world_done(&w);
}

/* A claim without the label is of a zone of its own. What its Node says of itself is nothing. */
static void test_without_zone(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.check_before = check_one_zone;
    world_patch(&w, CLAIM, "b1", "{'metadata':{'labels':{'" NC_LABEL_ZONE "':null}}}");
    world_patch(&w, NODE, "b1", "{'metadata':{'labels':{'" NC_LABEL_ZONE "':'a'}}}");
    world_advance(&w, 4000 * WORLD_SEC);
    assert_string_equal(order(&w), "b1 a1 a2 b2 c1 c2");
    world_done(&w);
}

static void test_two_pools(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.check_before = check_one_zone;
    world_put(&w, POOL,
              "{'metadata':{'name':'other'},'spec':{'disruption':{'budgets':[{'nodes':'100%'}]}}}");
    world_patch(&w, CLAIM, "b1", "{'metadata':{'labels':{'karpenter.sh/nodepool':'other'}}}");
    world_patch(&w, CLAIM, "a2", "{'metadata':{'labels':{'karpenter.sh/nodepool':'other'}}}");
    world_advance(&w, 4000 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 6);
    assert_null(world_get(&w, CLAIM, "b1"));
    assert_null(world_get(&w, CLAIM, "c2"));
    world_done(&w);
}

/* --- nothing waits for ever */

static void test_exceeded(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.has_agent = false;
    world_advance(&w, 3600 * WORLD_SEC + TURN - 10 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 a2");
    assert_false(was_reported(&w, "ZoneTurnExceeded"));
    world_advance(&w, 20 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 a2 b1 b2");
    assert_true(was_reported(&w, "ZoneTurnExceeded a1\n"));
    assert_true(was_reported(&w, "ZoneTurnExceeded a2\n"));
    assert_false(was_reported(&w, "ZoneTurnExceeded b1\n"));
    nc_buf_clear(&w.events);
    world_advance(&w, TURN);
    assert_string_equal(order(&w), "a1 a2 b1 b2 c1 c2");
    assert_true(was_reported(&w, "ZoneTurnExceeded b1\n"));
    assert_false(was_reported(&w, "ZoneTurnExceeded a1\n"));
    world_done(&w);
}

/* In one zone there is always something in progress: the others have their turn all the same, and
 * still none begins beside another. */
static void test_no_zone_starves(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    w.rules.zone_turn_usec = 60 * WORLD_SEC;
    w.drain_usec = 30 * WORLD_SEC;
    world_restart(&w);
    w.check_before = check_one_zone;
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'3'}]}}}");
    for (unsigned i = 1; i < 10; i++) {
        nc_auto_free char *name = nc_asprintf("a%u", i);
        nc_auto_free char *spec = nc_asprintf("'expireAfter':'%us'", 3600 + 20 * i);
        add(&w, name, spec);
    }
    add(&w, "b1", "'expireAfter':'3625s'");
    world_advance(&w, 3800 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 a2 a3 b1 a4 a5 a6 a7 a8 a9");
    assert_false(was_reported(&w, "ZoneTurnExceeded"));
    world_done(&w);
}

/* Requests that fail end nobody's turn for good. */
static void test_delete_fails(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.check_before = check_one_zone;
    w.away[NC_CONTROL_DELETE_CLAIM] = 5;
    world_advance(&w, 4000 * WORLD_SEC);
    assert_int_equal(w.away[NC_CONTROL_DELETE_CLAIM], 0);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 6);
    world_done(&w);
}

/* What cannot be deleted at all holds nobody up: its zone has begun, and nothing is in progress. */
static void test_delete_is_lost(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.has_agent = false;
    w.holds = NC_CONTROL_DELETE_CLAIM;
    world_advance(&w, 3700 * WORLD_SEC);
    assert_int_equal(w.out.n, 2);
    assert_string_equal(w.out.v[0].name, "a1");
    assert_string_equal(w.out.v[1].name, "a2");
    world_done(&w);
}

/* What was chosen and could not be sent is evaluated again before it is. */
static void test_evaluated_again(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.has_agent = false;
    w.away[NC_CONTROL_DELETE_CLAIM] = 2;
    while (w.away[NC_CONTROL_DELETE_CLAIM] > 0)
        world_advance(&w, WORLD_SEC / 20);
    world_delete(&w, CLAIM, "b1"); /* it has expired */
    world_advance(&w, TURN - 10 * WORLD_SEC);
    assert_string_equal(order(&w), "b2");
    world_advance(&w, 20 * WORLD_SEC);
    assert_string_equal(order(&w), "b2 c1 c2");
    world_done(&w);
}

/* --- another leader */

static void test_restart(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.has_agent = false;
    world_advance(&w, 3700 * WORLD_SEC);
    for (unsigned i = 0; i < 3; i++) {
        world_restart(&w);
        world_advance(&w, 150 * WORLD_SEC);
        assert_string_equal(order(&w), "a1 a2");
    }
    world_restart(&w);
    world_advance(&w, 60 * WORLD_SEC); /* 710 s since these began */
    assert_string_equal(order(&w), "a1 a2 b1 b2");
    world_restart(&w);
    world_advance(&w, 100 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 a2 b1 b2");
    world_done(&w);
}

/* A recommendation to rebalance cannot be seen any more once the Node drains by request. */
static void test_reason_is_kept(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.has_agent = false;
    world_set_status(&w, "a1", "{'id':'x','source':'rebalance','phase':'Detected'}");
    world_advance(&w, 10 * WORLD_SEC);
    world_set_status(&w, "a1", NULL);
    world_reconcile(&w);
    assert_string_equal(world_condition(&w, "a1", "DisruptionReason"), "True Rebalance");
    world_restart(&w);
    world_patch(&w, CLAIM, "b1", "{'spec':{'expireAfter':'1s'}}");
    world_advance(&w, TURN - 30 * WORLD_SEC);
    assert_string_equal(order(&w), "a1");
    assert_string_equal(world_state(&w, "b1"), "WaitingForZone");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 b1");
    assert_string_equal(world_condition(&w, "b1", "DisruptionReason"), "True Expired");
    world_done(&w);
}

/* The turn goes on, and ends when it would have ended. */
static void test_resumed(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.has_agent = false;
    add(&w, "c3", "'expireAfter':'2h'");
    world_patch(&w, CLAIM, "c1", "{'spec':{'expireAfter':'30m'}}");
    world_advance(&w, 2000 * WORLD_SEC);
    world_restart(&w);
    for (size_t i = 0; i < 2; i++)
        world_patch(&w, CLAIM, i ? "a1" : "c2", "{'spec':{'expireAfter':'30m'}}");
    world_advance(&w, 10 * WORLD_SEC);
    assert_string_equal(order(&w), "c1 c2");
    assert_string_equal(world_state(&w, "a1"), "WaitingForZone");
    world_advance(&w, 400 * WORLD_SEC); /* 600 s since c1 began */
    world_patch(&w, CLAIM, "c3", "{'spec':{'expireAfter':'30m'}}");
    world_advance(&w, 180 * WORLD_SEC);
    assert_string_equal(order(&w), "c1 c2");
    world_advance(&w, 20 * WORLD_SEC);
    assert_string_equal(order(&w), "c1 c2 a1");
    world_done(&w);
}

/* Whichever write is the last one of a leader. */
static void test_restart_anywhere(void **state) {
    struct world w;

    (void)state;
    for (unsigned n = 1; n < 60; n++) {
        begin(&w, TURN, "2");
        w.check_before = check_one_zone;
        w.is_before = n % 2;
        w.lose = w.writes + n;
        world_advance(&w, 4200 * WORLD_SEC);
        assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 6);
        world_done(&w);
    }
}

/* --- what is not voluntary */

static void test_involuntary(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.has_agent = false;
    world_advance(&w, 3610 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 a2");
    world_set_status(&w, "b1",
                     "{'id':'x','source':'spot','phase':'Detected',"
                     "'deadline':'2026-01-01T01:02:00Z'}");
    world_delete(&w, CLAIM, "c1");
    world_advance(&w, 5 * WORLD_SEC);
    assert_true(world_is_deleting(&w, CLAIM, "b1"));
    assert_true(world_has_taint(&w, "c1", DISRUPTED));
    assert_string_not_equal(world_meta(&w, NODE, "c1", "annotations", NC_ANNOTATION_REQUEST), "");
    world_done(&w);
}

/* Nor does it keep another zone from its turn: neither what a person deletes before it is due, nor
 * what is interrupted, due or not. */
static void test_involuntary_is_no_turn(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "0");
    world_add_pair(&w, "d1", "");
    set_zone(&w, "d1");
    world_patch(&w, CLAIM, "c1", "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'0'}}}");
    w.has_agent = false;
    world_advance(&w, 3500 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "c1", "Drifted"), "True NodePoolDrifted");
    world_delete(&w, CLAIM, "d1");
    world_set_status(&w, "c1",
                     "{'id':'x','source':'spot','phase':'Detected',"
                     "'deadline':'2026-01-01T01:02:00Z'}");
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'100%'}]}}}");
    world_advance(&w, 105 * WORLD_SEC);
    assert_true(world_is_deleting(&w, CLAIM, "c1"));
    assert_true(world_is_deleting(&w, CLAIM, "a1"));
    assert_false(world_is_deleting(&w, CLAIM, "b1"));
    world_done(&w);
}

/* Rebalance recommendations and drift take turns as expiry does. */
static void test_every_reason(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "100%");
    w.check_before = check_one_zone;
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'0'}]}}}");
    world_set_status(&w, "a1", "{'id':'x','source':'rebalance','phase':'Detected'}");
    world_patch(&w, CLAIM, "b1", "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'0'}}}");
    world_advance(&w, 3000 * WORLD_SEC);
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'100%'}]}}}");
    world_advance(&w, 500 * WORLD_SEC);
    assert_string_equal(order(&w), "a1 b1");
    world_done(&w);
}

/* A budget without room for any: nobody waits for a zone, and no turn is exceeded. */
static void test_budgets_hold(void **state) {
    struct world w;

    (void)state;
    begin(&w, TURN, "1");
    w.has_agent = false;
    world_advance(&w, 3600 * WORLD_SEC + 3 * TURN);
    assert_string_equal(order(&w), "a1");
    assert_string_equal(world_state(&w, "b1"), "");
    assert_false(was_reported(&w, "ZoneTurnExceeded"));
    world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_one_zone_alone),
        cmocka_unit_test(test_zones_in_order),
        cmocka_unit_test(test_round),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_without_zone),
        cmocka_unit_test(test_two_pools),
        cmocka_unit_test(test_exceeded),
        cmocka_unit_test(test_no_zone_starves),
        cmocka_unit_test(test_delete_fails),
        cmocka_unit_test(test_delete_is_lost),
        cmocka_unit_test(test_evaluated_again),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_reason_is_kept),
        cmocka_unit_test(test_resumed),
        cmocka_unit_test(test_restart_anywhere),
        cmocka_unit_test(test_involuntary),
        cmocka_unit_test(test_involuntary_is_no_turn),
        cmocka_unit_test(test_every_reason),
        cmocka_unit_test(test_budgets_hold),
    };

    return run_group(tests, NULL, NULL);
}
