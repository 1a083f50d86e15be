/*
 * Where we are standalone: what a claim that is being deleted asks of its node, and what it
 * observes. Rules S13 to S15.
 */
#include "groups.h"
#include "standalone-world.h"

#include "nc/lifecycle.h"
#include "nc/mem.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"

static void test_force_delete_time(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "'terminationGracePeriod':'10m'");
    w.has_agent = false;
    world_delete(&w, CLAIM, "a");
    world_reconcile(&w);
    assert_string_equal(
        world_meta(&w, CLAIM, "a", "annotations", NC_ANNOTATION_TERMINATION_TIMESTAMP),
        "2026-01-01T00:10:00Z");
    nc_auto_free char *request = nc_asprintf(
        "{\"id\":\"claim-%s\",\"reason\":\"Deleted\",\"mode\":\"deadline\",\"deadline\":"
        "\"2026-01-01T00:10:15Z\"}",
        world_text(&w, CLAIM, "a", "metadata.uid"));
    assert_string_equal(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST), request);
    world_advance(&w, 614 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drained"), "Unknown Draining");
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 0);
    w.has_kubelet = false;
    world_advance(&w, 10 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drained"), "True Drained");
    assert_string_equal(world_condition(&w, "a", "VolumesDetached"),
                        "False TerminationGracePeriodElapsed");
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 1);
    world_done(&w);
}

/* A timestamp that is there is never put off; a request follows one that comes nearer. */
static void test_force_delete_time_of_others(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "'terminationGracePeriod':'10m'");
    w.has_agent = false;
    world_patch(&w, CLAIM, "a",
                "{'metadata':{'annotations':{'karpenter.sh/nodeclaim-termination-timestamp':"
                "'2026-01-01T00:20:00Z'}}}");
    world_delete(&w, CLAIM, "a");
    world_reconcile(&w);
    /* a later one lifts no grace period */
    assert_true(nc_starts_with(
        world_meta(&w, CLAIM, "a", "annotations", NC_ANNOTATION_TERMINATION_TIMESTAMP),
        "2026-01-01T00:10:"));
    assert_non_null(strstr(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST),
                           "2026-01-01T00:10:"));
    world_patch(&w, CLAIM, "a",
                "{'metadata':{'annotations':{'karpenter.sh/nodeclaim-termination-timestamp':"
                "'2026-01-01T00:02:00Z'}}}");
    world_advance(&w, 10 * WORLD_SEC);
    assert_non_null(strstr(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST),
                           "2026-01-01T00:02:15Z"));
    world_done(&w);
}

#define OTHERS "{\\\"id\\\":\\\"mine\\\",\\\"mode\\\":\\\"cordon\\\"}"

static void test_request_of_others(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_agent = false;
    world_patch(&w, NODE, "a",
                "{'metadata':{'annotations':{'nodeclaimd.io/drain-request':'" OTHERS "'}}}");
    world_delete(&w, CLAIM, "a");
    world_set_status(&w, "a", "{'id':'mine','source':'request','phase':'Drained'}");
    world_advance(&w, 3600 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drained"), "Unknown WaitingForAnotherRequest");
    assert_string_equal(world_state(&w, "a"), "WaitingForAnotherRequest");
    assert_non_null(
        strstr(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST), "mine"));
    assert_true(world_has_taint(&w, "a", DISRUPTED));
    world_patch(&w, NODE, "a", "{'metadata':{'annotations':{'nodeclaimd.io/drain-request':null}}}");
    world_advance(&w, 10 * WORLD_SEC);
    assert_non_null(
        strstr(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST), "claim-uid"));
    world_done(&w);
}

/* Which words mean that the node is drained for us. */
static void test_enum_names(void **state) {
    static const struct {
        const char *status;
        bool is_drained;
    } rows[] = {
        {"{'id':'%s','source':'request','phase':'Drained'}", true},
        {"{'id':'%s','source':'request','phase':'VolumeWait'}", false},
        {"{'id':'%s','source':'request','phase':'Failed'}", false},
        {"{'id':'%sx','source':'request','phase':'Drained'}", false},
        {"{'id':'%sx','source':'rebalance','phase':'Drained'}", false},
        {"{'id':'%sx','source':'maintenance','phase':'Drained'}", false},
        {"{'id':'%sx','source':'deletion','phase':'Drained'}", true},
        {"{'id':'%sx','source':'operator','phase':'Drained'}", true},
        {"{'id':'%sx','source':'shutdown','phase':'Drained'}", true},
        {"{'id':'%sx','source':'new','phase':'Drained'}", false},
    };
    struct world w;
    char status[256];

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        world_begin_pair(&w, "");
        w.has_agent = false;
        world_delete(&w, CLAIM, "a");
        world_reconcile(&w);
        nc_auto_free char *id = nc_asprintf("claim-%s", world_text(&w, CLAIM, "a", "metadata.uid"));
        const char *rest = strstr(rows[i].status, "%s") + 2;
        (void)snprintf(status, sizeof(status), "%.*s%s%s", (int)(rest - 2 - rows[i].status),
                       rows[i].status, id, rest);
        world_set_status(&w, "a", status);
        world_advance(&w, 30 * WORLD_SEC);
        if ((world_get(&w, CLAIM, "a") == NULL) != rows[i].is_drained)
            fail_msg("%s", status);
        world_done(&w);
    }
}

static void test_no_agent(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_agent = false;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 59 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drained"), "Unknown Draining");
    world_advance(&w, 2 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drained"), "Unknown WaitingForAgent");
    assert_string_equal(world_state(&w, "a"), "WaitingForAgent");
    world_advance(&w, 7200 * WORLD_SEC); /* pods may be there: nothing ends */
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 0);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_NODE], 0);
    w.has_agent = true;
    world_advance(&w, 60 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

/* Who says nothing does not keep the machine for ever; who says that it drains is waited for. */
static void test_ceiling(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.rules.ceiling_usec = 3600 * WORLD_SEC;
    world_restart(&w);
    w.has_agent = false;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 3590 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drained"), "Unknown WaitingForAgent");
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 0);
    w.has_kubelet = false;
    world_advance(&w, 20 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "VolumesDetached"),
                        "False TerminationGracePeriodElapsed");
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 1);
    world_done(&w);

    world_begin_pair(&w, "");
    w.rules.ceiling_usec = 3600 * WORLD_SEC;
    world_restart(&w);
    w.drain_usec = 7200 * WORLD_SEC;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 7100 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drained"), "Unknown Draining");
    world_done(&w);
}

/* Its Node is held by somebody else's finalizer: waiting for that is no reason to look again and
 * again. */
static void test_node_held_by_another(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_kubelet = false;
    world_patch(&w, NODE, "a", "{'metadata':{'finalizers':['x/y','nodeclaimd.io/termination']}}");
    world_delete(&w, CLAIM, "a");
    world_advance(&w, NC_STANDALONE_ENDING_USEC - 10 * WORLD_SEC);
    assert_false(world_is_deleting(&w, NODE, "a"));
    for (size_t i = 0; i < 40; i++) { /* a world that spins does not come to its end */
        w.now_usec += WORLD_SEC;
        world_reconcile(&w);
    }
    assert_true(world_is_deleting(&w, NODE, "a"));
    assert_false(world_has_finalizer(&w, NODE, "a"));
    assert_true(nc_control_next(w.control, w.now_usec) > w.now_usec);
    world_patch(&w, NODE, "a", "{'metadata':{'finalizers':null}}");
    world_advance(&w, 10 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

/* A machine that went by itself: nobody says a word any more, and there is no force-delete time. */
static void test_machine_gone(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_agent = false;
    world_set_ready(&w, "a", "Unknown");
    world_delete(&w, NODE, "a");
    world_advance(&w, 290 * WORLD_SEC);
    assert_non_null(world_get(&w, NODE, "a"));
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 0);
    world_advance(&w, 60 * WORLD_SEC);
    assert_null(world_get(&w, NODE, "a"));
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

/* A notice with a deadline ends a claim: by then its node is drained, and the request agrees. */
static void test_spot_notice(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_agent = false;
    world_set_status(
        &w, "a", "{'id':'s','source':'spot','phase':'Detected','deadline':'2026-01-01T00:02:00Z'}");
    world_reconcile(&w);
    assert_true(world_is_deleting(&w, CLAIM, "a"));
    assert_true(world_has_taint(&w, "a", "karpenter.sh/disrupted"));
    assert_string_equal(
        world_meta(&w, CLAIM, "a", "annotations", NC_ANNOTATION_TERMINATION_TIMESTAMP),
        "2026-01-01T00:01:45Z");
    world_advance(&w, WORLD_SEC);
    assert_non_null(strstr(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST),
                           "2026-01-01T00:02:00Z"));
    world_advance(&w, 30 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 0);
    world_set_status(
        &w, "a", "{'id':'s','source':'spot','phase':'Drained','deadline':'2026-01-01T00:02:00Z'}");
    world_advance(&w, 30 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 1);
    world_done(&w);
}

/* The request waits until its force-delete time stands on the claim. */
static void test_force_delete_time_first(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "'terminationGracePeriod':'10m'");
    w.has_agent = false;
    w.holds = NC_CONTROL_PATCH_CLAIM;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 4 * WORLD_SEC);
    assert_true(world_has_taint(&w, "a", "karpenter.sh/disrupted"));
    assert_string_equal(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST), "");
    w.holds = 0;
    world_reconcile(&w);
    assert_non_null(
        strstr(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST), "deadline"));
    world_done(&w);
}

/* The agent takes a share of the time that is left off its deadline (N2): what remains is the
 * claim's time. */
static void test_margin_of_a_short_period(void **state) {
    static const char *const periods[] = {"20s", "1m", "2m", "10m"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(periods); i++) {
        struct world w;
        uint64_t t_usec = 0, deadline_usec = 0, from_usec = 0;
        nc_auto_free char *spec = nc_asprintf("'terminationGracePeriod':'%s'", periods[i]);
        nc_auto_value struct nc_value *request = NULL;
        world_begin_pair(&w, spec);
        w.has_agent = false;
        from_usec = w.now_usec;
        world_delete(&w, CLAIM, "a");
        world_advance(&w, 4 * WORLD_SEC);
        const char *text = world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST);
        assert_int_equal(nc_json_parse(text, strlen(text), &request, NULL), 0);
        assert_int_equal(nc_time_parse(nc_value_get_string(request, "deadline"), &deadline_usec),
                         0);
        assert_int_equal(nc_time_parse(world_meta(&w, CLAIM, "a", "annotations",
                                                  NC_ANNOTATION_TERMINATION_TIMESTAMP),
                                       &t_usec),
                         0);
        assert_int_equal(deadline_usec - t_usec,
                         nc_margin_usec(15 * WORLD_SEC, deadline_usec - from_usec));
        world_done(&w);
    }
}

/* An agent that is at work may take as long as it needs. */
static void test_agent_takes_long(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.drain_usec = 7200 * WORLD_SEC;
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 7100 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Drained"), "Unknown Draining");
    world_advance(&w, 200 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ceiling),
        cmocka_unit_test(test_force_delete_time),
        cmocka_unit_test(test_force_delete_time_of_others),
        cmocka_unit_test(test_request_of_others),
        cmocka_unit_test(test_enum_names),
        cmocka_unit_test(test_no_agent),
        cmocka_unit_test(test_node_held_by_another),
        cmocka_unit_test(test_machine_gone),
        cmocka_unit_test(test_spot_notice),
        cmocka_unit_test(test_force_delete_time_first),
        cmocka_unit_test(test_margin_of_a_short_period),
        cmocka_unit_test(test_agent_takes_long),
    };

    return run_group(tests, NULL, NULL);
}
