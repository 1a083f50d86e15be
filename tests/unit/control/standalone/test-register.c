/*
 * Where we are standalone: whose a claim is, its registration and initialization, its conditions.
 * Rules S1, S3 to S6, S18.
 */
#include "groups.h"
#include "standalone-world.h"

#include "nc/lifecycle.h"
#include "nc/names.h"
#include "nc/standalone.h"
#include "nc/str.h"
#include "nc/time.h"

/* --- whose */

static void test_karpenters(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_claim(&w, "a", "'expireAfter':'1s'");
    world_patch(&w, CLAIM, "a", "{'metadata':{'finalizers':['karpenter.sh/termination']}}");
    world_add_node(&w, "a");
    world_advance(&w, 60 * WORLD_SEC);
    world_delete(&w, CLAIM, "a");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_trace(&w), "");
    world_done(&w);

    world_begin(&w); /* without a claim, too */
    world_add_node(&w, "a");
    world_patch(&w, NODE, "a", "{'metadata':{'finalizers':['karpenter.sh/termination']}}");
    world_set_status(&w, "a", "{'id':'x','source':'request','phase':'Evicting'}");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_trace(&w), "");
    world_done(&w);
}

/* A Node that was created with Karpenter's finalizer: its claim is ours all the same, and ends. */
static void test_a_node_that_says_karpenters(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_node(&w, "a");
    world_patch(&w, NODE, "a", "{'metadata':{'finalizers':['karpenter.sh/termination']}}");
    world_add_claim(&w, "a", "");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Registered"), "True Registered");
    world_delete(&w, CLAIM, "a");
    w.has_kubelet = false;
    world_advance(&w, 600 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE] > 0, true);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_null(world_get(&w, NODE, "a"));
    world_done(&w);
}

/* A claim "b" of the instance i-1, and a Node "a" that says it is this machine. */
static void begin_with_a_liar(struct world *w, const char *dns_name) {
    world_begin(w);
    w->rules.identity = NC_CONTROL_IDENTITY_EC2;
    w->rules.ceiling_usec = 24 * 3600 * WORLD_SEC;
    w->dns_name = dns_name;
    world_restart(w);
    world_add_claim(w, "b", "");
    world_patch(w, CLAIM, "b", "{'status':{'providerID':'aws:///z/i-1'}}");
    world_add_node(w, "a");
    world_patch(w, NODE, "a", "{'spec':{'providerID':'aws:///z/i-1'}}");
    world_advance(w, 60 * WORLD_SEC);
}

/* It says whose it is, and is not trusted: EC2 is. */
static void test_a_node_that_says_it_is_anothers(void **state) {
    struct world w;

    (void)state;
    begin_with_a_liar(&w, "B");
    nc_auto_free char *version = nc_strdup(world_text(&w, CLAIM, "b", "metadata.resourceVersion"));
    assert_string_equal(world_condition(&w, "b", "Registered"), "Unknown NodeNotFound");
    assert_int_equal(w.requested[NC_CONTROL_DESCRIBE_INSTANCE], 1);
    world_set_status(&w, "a",
                     "{'id':'x','source':'spot','phase':'Detected','deadline':"
                     "'2026-01-01T00:03:00Z'}");
    world_set_ready(&w, "a", "True");
    world_advance(&w, 60 * WORLD_SEC);
    world_delete(&w, NODE, "a");
    world_advance(&w, 600 * WORLD_SEC);
    assert_string_equal(world_text(&w, CLAIM, "b", "metadata.resourceVersion"), version);
    assert_false(world_is_deleting(&w, CLAIM, "b"));
    world_add_node(&w, "a"); /* once more, beside the one that it is */
    world_patch(&w, NODE, "a", "{'spec':{'providerID':'aws:///z/i-1'}}");
    world_add_node(&w, "b");
    world_patch(&w, NODE, "b", "{'spec':{'providerID':'aws:///z/i-1'}}");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "b", "Registered"), "True Registered");
    assert_string_equal(world_text(&w, CLAIM, "b", "status.nodeName"), "b");
    assert_string_equal(world_meta(&w, NODE, "a", "labels", "karpenter.sh/registered"), "");
    assert_int_equal(w.requested[NC_CONTROL_DESCRIBE_INSTANCE], 1);
    world_done(&w);
}

/* As long as EC2 does not say it, nobody's Node is registered; who is called as the instance is it.
 */
static void test_whose_node_is_not_known(void **state) {
    struct world w;

    (void)state;
    begin_with_a_liar(&w, NULL);
    assert_string_equal(world_condition(&w, "b", "Registered"), "Unknown NodeNotFound");
    assert_in_range(w.requested[NC_CONTROL_DESCRIBE_INSTANCE], 2, 12);
    world_add_node(&w, "i-1");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "b", "Registered"), "True Registered");
    assert_string_equal(world_text(&w, CLAIM, "b", "status.nodeName"), "i-1");
    world_done(&w);
}

/* A list of n objects {'type' or 'key': name-i, more}. Owned. */
static char *long_list(const char *format, unsigned n, const char *more) {
    struct nc_buf b = NC_BUF_INIT;

    for (unsigned i = 0; i < n; i++)
        (void)nc_buf_printf(&b, "%s{%s-%u',%s}", i ? "," : "", format, i, more);
    return nc_buf_steal(&b);
}

static void begin_with_a_node(struct world *w, const char *json, const char *more_spec) {
    world_begin(w);
    world_add_node(w, "a");
    world_patch(w, NODE, "a", json);
    world_add_claim(w, "a", more_spec);
    world_advance(w, 60 * WORLD_SEC);
}

/* However many conditions there are, one of them is Ready. */
static void test_many_conditions(void **state) {
    nc_auto_free char *list = long_list("'type':'c", 100, "'status':'True'");
    nc_auto_free char *json =
        nc_asprintf("{'status':{'conditions':[%s,{'type':'Ready','status':'True'}]}}", list);
    struct world w;

    (void)state;
    begin_with_a_node(&w, json, "");
    assert_string_equal(world_condition(&w, "a", "Registered"), "True Registered");
    world_patch(&w, NODE, "a", "{'spec':{'taints':[]}}");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Initialized"), "True Initialized");
    assert_string_equal(world_text(&w, CLAIM, "a", "status.nodeName"), "a");
    world_done(&w);
}

static unsigned count_events(const struct world *w, const char *line) {
    unsigned n = 0;

    for (const char *p = w->events.data; p && (p = strstr(p, line)); p++)
        n++;
    return n;
}

/* Said once, until it can be read again. */
static void test_unreadable_again(void **state) {
    nc_auto_free char *list = long_list("'key':'t", 1100, "'effect':'NoSchedule'");
    nc_auto_free char *json = nc_asprintf("{'spec':{'taints':[%s]}}", list);
    struct world w;

    (void)state;
    begin_with_a_node(&w, json, "");
    for (int i = 0; i < 2; i++) {
        world_patch(&w, NODE, "a", json);
        world_patch(&w, NODE, "a", "{'metadata':{'labels':{'a':'b'}}}");
        world_advance(&w, 10 * WORLD_SEC);
        assert_int_equal(count_events(&w, "NodeUnreadable a\n"), i + 1);
        world_patch(&w, NODE, "a", "{'spec':{'taints':[]}}");
        world_advance(&w, 10 * WORLD_SEC);
    }
    assert_string_equal(world_condition(&w, "a", "Registered"), "True Registered");
    world_done(&w);
}

/* More taints than are read: that is said, its agent drains it, and it ends when Karpenter would
 * end it; by a deadline where nobody answers. */
static void test_a_node_that_cannot_be_read(void **state) {
    nc_auto_free char *list = long_list("'key':'t", 1100, "'effect':'NoSchedule'");
    nc_auto_free char *json = nc_asprintf("{'spec':{'taints':[%s]}}", list);
    struct world w;

    (void)state;
    for (int has_agent = 0; has_agent < 2; has_agent++) {
        begin_with_a_node(&w, json, has_agent ? "" : "'terminationGracePeriod':'10m'");
        w.has_agent = has_agent;
        assert_string_equal(world_condition(&w, "a", "Registered"), "Unknown NodeUnreadable");
        assert_non_null(strstr(w.events.data, "NodeUnreadable a\n"));
        assert_string_equal(world_text(&w, CLAIM, "a", "status.nodeName"), "");
        world_advance(&w, 800 * WORLD_SEC);
        assert_false(world_is_deleting(&w, CLAIM, "a"));
        world_advance(&w, 60 * WORLD_SEC);
        assert_non_null(strstr(w.events.data, "RegistrationTimedOut a\n"));
        if (!has_agent) {
            assert_true(world_is_deleting(&w, CLAIM, "a"));
            assert_string_not_equal(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST),
                                    "");
            world_advance(&w, 660 * WORLD_SEC);
        }
        world_advance(&w, 300 * WORLD_SEC);
        assert_null(world_get(&w, CLAIM, "a"));
        assert_null(world_get(&w, NODE, "a"));
        assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE] > 0, true);
        world_done(&w);
    }
}

/* Its list of finalizers is not written, ours in it or not: the claim ends, the Node is left to
 * whoever filled it up. */
static void test_finalizers_that_cannot_be_read(void **state) {
    struct nc_buf list = NC_BUF_INIT;
    struct world w;

    (void)state;
    for (unsigned i = 0; i < 1100; i++)
        (void)nc_buf_printf(&list, "'a/f-%u',", i);
    nc_auto_free char *json =
        nc_asprintf("{'metadata':{'finalizers':[%s'" NC_FINALIZER "']}}", list.data);
    nc_buf_done(&list);
    begin_with_a_node(&w, json, "");
    assert_string_equal(world_condition(&w, "a", "Registered"), "Unknown NodeUnreadable");
    world_advance(&w, 2000 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE] > 0, true);
    assert_true(world_is_deleting(&w, NODE, "a"));
    assert_int_equal(nc_value_path(world_get(&w, NODE, "a"), "metadata.finalizers")->n, 1101);
    world_done(&w);
}

/* A claim whose machine never registers ends as with Karpenter, and one that expires before that.
 */
static void test_never_registered(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_patch(&w, POOL, "pool", "{'spec':{'disruption':{'budgets':[{'nodes':'100%'}]}}}");
    world_add_claim(&w, "a", "");
    world_add_claim(&w, "b", "'expireAfter':'5m'");
    world_add_claim(&w, "c", "");
    world_patch(&w, CLAIM, "c", "{'status':{'providerID':null}}"); /* nothing was launched yet */
    world_advance(&w, 310 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "b"));
    world_advance(&w, 580 * WORLD_SEC);
    assert_false(world_is_deleting(&w, CLAIM, "a"));
    world_advance(&w, 20 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_non_null(world_get(&w, CLAIM, "c"));
    world_done(&w);
}

/* Where a Node of another name says to be the machine there is a day to say that it is: but not for
 * ever, and none of it begins while EC2 does not answer. */
static void test_never_confirmed(void **state) {
    struct world w;

    (void)state;
    for (int answers = 0; answers < 2; answers++) {
        begin_with_a_liar(&w, answers ? "B" : NULL);
        world_advance(&w, 23 * 3600 * WORLD_SEC);
        assert_false(world_is_deleting(&w, CLAIM, "b"));
        world_advance(&w, 2 * 3600 * WORLD_SEC);
        assert_int_equal(world_get(&w, CLAIM, "b") == NULL, answers);
        assert_non_null(world_get(&w, NODE, "a"));
        world_done(&w);
    }
}

static void test_other_controllers(void **state) {
    static const char *const theirs[] = {
        "{'spec':{'nodeClassRef':{'group':'eks.amazonaws.com','kind':'NodeClass'}}}",
        "{'metadata':{'labels':{'app.kubernetes.io/managed-by':'eks'}}}",
    };
    struct world w;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(theirs); i++) {
        world_init(&w);
        w.control = nc_control_free(w.control);
        w.control = nc_control_new(&nc_standalone); /* it sees nothing before it is complete */
        world_add_claim(&w, "a", "");
        world_patch(&w, CLAIM, "a", theirs[i]);
        world_restart(&w);
        world_add_node(&w, "a");
        world_advance(&w, 60 * WORLD_SEC);
        assert_string_equal(world_trace(&w), "");
        world_done(&w);
    }
    world_begin(&w);
    world_add_claim(&w, "a", "");
    world_patch(&w, CLAIM, "a",
                "{'metadata':{'labels':{'app.kubernetes.io/managed-by':'nodeclaimd'}}}");
    world_advance(&w, WORLD_SEC);
    assert_true(world_has_finalizer(&w, CLAIM, "a"));
    world_done(&w);
}

/* --- registration */

static void test_two_nodes(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_node(&w, "a");
    world_add_node(&w, "b");
    world_patch(&w, NODE, "b", "{'spec':{'providerID':'aws:///z/a'}}");
    world_add_claim(&w, "a", "");
    world_set_status(&w, "a", "{'id':'x','source':'operator','phase':'Evicting'}");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Registered"), "False MultipleNodesFound");
    assert_string_equal(world_condition(&w, "a", "Ready"), "False UnhealthyDependents");
    assert_int_equal(w.requested[NC_CONTROL_PATCH_NODE], 0);
    world_delete(&w, NODE, "b");
    world_advance(&w, 60 * WORLD_SEC);
    assert_string_equal(world_condition(&w, "a", "Registered"), "True Registered");
    world_done(&w);
}

/* Another Node came and says that it is the same machine: nothing is done to either, but one that
 * is being deleted and was lost is not held for ever. */
static void test_two_nodes_one_goes(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_claim(&w, "a", "");
    world_add_node(&w, "a");
    world_put(&w, NODE, "{'metadata':{'name':'b'},'spec':{'providerID':'aws:///z/a'},'status':{}}");
    world_patch(&w, NODE, "a", "{'metadata':{'finalizers':['nodeclaimd.io/termination']}}");
    world_delete(&w, NODE, "a");
    world_patch(&w, NODE, "a", "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
    world_advance(&w, 400 * WORLD_SEC);
    assert_true(world_has_finalizer(&w, NODE, "a"));
    world_patch(&w, NODE, "a", "{'status':{'conditions':[{'type':'Ready','status':'Unknown'}]}}");
    world_advance(&w, 10 * WORLD_SEC);
    assert_null(world_get(&w, NODE, "a"));
    world_done(&w);
}

/* Nor is one that its agent has drained, however well its machine is. */
static void test_two_nodes_one_is_drained(void **state) {
    static const char *const statuses[] = {"{'id':'x','source':'operator','phase':'Drained'}",
                                           "{'id':'x','source':'operator','phase':'Failed'}"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(statuses); i++) {
        struct world w;
        world_begin(&w);
        world_add_claim(&w, "a", "");
        world_add_node(&w, "a");
        world_put(&w, NODE,
                  "{'metadata':{'name':'b'},'spec':{'providerID':'aws:///z/a'},'status':{}}");
        world_patch(&w, NODE, "a", "{'metadata':{'finalizers':['nodeclaimd.io/termination']}}");
        world_patch(&w, NODE, "a", "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}");
        world_set_status(&w, "a", statuses[i]);
        world_advance(&w, 10 * WORLD_SEC);
        assert_true(world_has_finalizer(&w, NODE, "a")); /* nobody has deleted it */
        world_set_status(&w, "a", "{'id':'x','source':'operator','phase':'Evicting'}");
        world_delete(&w, NODE, "a");
        world_advance(&w, 400 * WORLD_SEC);
        assert_true(world_has_finalizer(&w, NODE, "a"));
        world_set_status(&w, "a", statuses[i]);
        world_advance(&w, WORLD_SEC);
        assert_null(world_get(&w, NODE, "a"));
        world_done(&w);
    }
}

static void test_taints_not_synced(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_node(&w, "a");
    world_patch(&w, NODE, "a",
                "{'metadata':{'labels':{'karpenter.sh/do-not-sync-taints':'true'}}}");
    world_add_claim(&w, "a", "");
    world_reconcile(&w);
    assert_string_equal(world_condition(&w, "a", "Registered"), "True Registered");
    assert_false(world_has_taint(&w, "a", "cni"));
    assert_false(world_has_taint(&w, "a", "karpenter.sh/unregistered"));
    assert_true(world_has_taint(&w, "a", "dedicated"));
    world_done(&w);
}

/* What a claim carries in our name is not said in a Node's. */
static void test_annotations_of_ours(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_claim(&w, "a", "");
    world_patch(&w, CLAIM, "a",
                "{'metadata':{'annotations':{'nodeclaimd.io/drain-status':'{}',"
                "'nodeclaimd.io/drain-request':'{}'}}}");
    world_add_node(&w, "a");
    world_advance(&w, WORLD_SEC);
    assert_string_equal(world_meta(&w, NODE, "a", "annotations", "note"), "kept");
    assert_string_equal(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_STATUS), "");
    assert_string_equal(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST), "");
    world_done(&w);
}

/* Another machine may get the name of one that is gone. */
static void test_name_comes_again(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    w.has_kubelet = false;
    world_patch(&w, NODE, "a", "{'metadata':{'finalizers':[]}}");
    world_delete(&w, NODE, "a");
    world_put(&w, NODE,
              "{'metadata':{'name':'a'},'spec':{'providerID':'aws:///z/another'},'status':{}}");
    world_restart(&w); /* which has seen no other */
    world_advance(&w, NC_STANDALONE_LOST_USEC + 60 * WORLD_SEC);
    assert_null(world_get(&w, CLAIM, "a"));
    assert_non_null(world_get(&w, NODE, "a"));
    assert_false(world_has_taint(&w, "a", DISRUPTED));
    assert_string_equal(world_meta(&w, NODE, "a", "annotations", NC_ANNOTATION_REQUEST), "");
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 1);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_NODE], 0);
    world_done(&w);
}

static void unsee_node(struct world *w, const char *name) {
    nc_control_step(w->control,
                    &(struct nc_control_event){.kind = NC_CONTROL_GONE,
                                               .now_usec = w->now_usec,
                                               .what = NODE,
                                               .name = name,
                                               .uid = ""},
                    &w->out);
    world_reconcile(w);
}

/* The watch of Nodes of a leader that has just taken over may be behind that of NodeClaims: a Node
 * that is not seen is not gone yet, and nothing is ended for it. */
static void test_watch_of_nodes_is_behind(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    world_restart(&w);
    unsee_node(&w, "a");
    world_advance(&w, NC_STANDALONE_LOST_USEC - WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 0);
    world_patch(&w, NODE, "a", "{'metadata':{'labels':{'x':'y'}}}"); /* there it is */
    world_advance(&w, 10 * WORLD_SEC);
    unsee_node(&w, "a");
    world_delete(&w, CLAIM, "a"); /* by somebody, meanwhile: it is not to be ended undrained */
    world_advance(&w, NC_STANDALONE_LOST_USEC - 20 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 0);
    assert_true(world_has_finalizer(&w, CLAIM, "a"));
    world_advance(&w, 40 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_END_INSTANCE], 1);
    assert_null(world_get(&w, CLAIM, "a"));
    world_done(&w);
}

static void test_node_is_lost(void **state) {
    struct world w;

    (void)state;
    world_begin_pair(&w, "");
    unsee_node(&w, "a");
    world_advance(&w, NC_STANDALONE_LOST_USEC + 10 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_DELETE_CLAIM], 1);
    assert_null(world_get(&w, CLAIM, "a")); /* it has waited once */
    world_done(&w);
}

/* lastTransitionTime is when the status changed; what others say about a claim stays. */
static void test_conditions(void **state) {
    struct world w;
    char before[32];

    (void)state;
    world_begin(&w);
    world_add_claim(&w, "a", "");
    world_reconcile(&w);
    world_patch(&w, CLAIM, "a",
                "{'status':{'conditions':[{'type':'Launched','status':'True','reason':'L',"
                "'message':'m','lastTransitionTime':'" WORLD_PAST "'},"
                "{'type':'Theirs','status':'True','reason':'R','message':'x',"
                "'lastTransitionTime':'" WORLD_PAST "','observedGeneration':7},"
                "{'type':'Old','status':'Else','message':'','severity':'Info'}]}}");
    world_reconcile(&w);
    world_add_node(&w, "a");
    world_advance(&w, 100 * WORLD_SEC);
    const struct nc_value *list = nc_value_path(world_get(&w, CLAIM, "a"), "status.conditions");
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_json_write(&text, list->items[1], 0);
    nc_json_write(&text, list->items[2], 0);
    assert_string_equal(
        text.data, "{\"type\":\"Theirs\",\"status\":\"True\",\"reason\":\"R\",\"message\":\"x\","
                   "\"lastTransitionTime\":\"" WORLD_PAST "\",\"observedGeneration\":7}"
                   "{\"type\":\"Old\",\"status\":\"Else\",\"reason\":\"\",\"message\":\"\","
                   "\"severity\":\"Info\"}");
    assert_string_equal(nc_value_get_string(list->items[0], "lastTransitionTime"), WORLD_PAST);
    nc_time_format(WORLD_START, before);
    for (size_t i = 0; i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "type"), "Initialized"))
            assert_string_equal(nc_value_get_string(list->items[i], "lastTransitionTime"), before);
    world_patch(&w, NODE, "a",
                "{'spec':{'taints':[{'key':'readiness.k8s.io/x','effect':"
                "'NoSchedule'}]}}");
    world_set_ready(&w, "a", "True");
    assert_string_equal(world_condition(&w, "a", "Initialized"),
                        "Unknown KnownEphemeralTaintsExist");
    list = nc_value_path(world_get(&w, CLAIM, "a"), "status.conditions");
    for (size_t i = 0; i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "type"), "Initialized"))
            assert_string_equal(nc_value_get_string(list->items[i], "lastTransitionTime"), before);
    world_done(&w);
}

/* A node may label itself as it likes: that does not make it registered. */
static void test_label_is_forged(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_node(&w, "a");
    world_patch(&w, NODE, "a",
                "{'metadata':{'labels':{'karpenter.sh/registered':'true'}},'spec':{'taints':[]}}");
    world_add_claim(&w, "a", "");
    world_reconcile(&w);
    assert_true(world_has_finalizer(&w, NODE, "a"));
    assert_true(world_has_taint(&w, "a", "cni"));
    assert_string_equal(world_condition(&w, "a", "Registered"), "True Registered");
    world_done(&w);
}

/* What was registered once is mended, but startup is over. */
static void test_registered_again(void **state) {
    struct world w;

    (void)state;
    world_begin(&w);
    world_add_node(&w, "a");
    world_add_claim(&w, "a", "");
    world_reconcile(&w);
    world_patch(&w, NODE, "a",
                "{'spec':{'taints':[{'key':'karpenter.sh/unregistered','effect':'NoExecute'}]}}");
    world_reconcile(&w);
    assert_false(world_has_taint(&w, "a", "karpenter.sh/unregistered"));
    assert_false(world_has_taint(&w, "a", "cni"));
    const struct nc_value *owners =
        nc_value_path(world_get(&w, NODE, "a"), "metadata.ownerReferences");
    assert_int_equal(owners->n, 2);
    assert_string_equal(nc_value_get_string(owners->items[0], "uid"), "other");
    world_done(&w);
}

/* What the cluster serves NodeClaims as is what their Nodes' owner is called; one that is there
 * already stays as it is. */
static void test_owner_of_the_served_version(void **state) {
    static const char *const served[] = {NULL, "karpenter.sh/v1", "karpenter.sh/v1beta1"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(served); i++) {
        struct world w;
        world_begin(&w);
        w.claims_version = served[i];
        world_restart(&w);
        world_add_node(&w, "a");
        world_add_claim(&w, "a", "");
        world_reconcile(&w);
        const struct nc_value *owners =
            nc_value_path(world_get(&w, NODE, "a"), "metadata.ownerReferences");
        assert_int_equal(owners->n, 2);
        assert_string_equal(nc_value_get_string(owners->items[1], "apiVersion"),
                            served[i] ? served[i] : "karpenter.sh/v1");
        w.claims_version = "karpenter.sh/v9";
        world_restart(&w);
        world_reconcile(&w);
        owners = nc_value_path(world_get(&w, NODE, "a"), "metadata.ownerReferences");
        assert_int_equal(owners->n, 2);
        assert_string_equal(nc_value_get_string(owners->items[1], "apiVersion"),
                            served[i] ? served[i] : "karpenter.sh/v1");
        world_done(&w);
    }
}

static void test_not_registered(void **state) {
    struct world w;

    (void)state;
    world_begin(&w); /* it is on its way out */
    world_add_node(&w, "a");
    world_patch(&w, NODE, "a", "{'metadata':{'finalizers':['x/y']}}");
    world_delete(&w, NODE, "a");
    world_add_claim(&w, "a", "");
    world_advance(&w, 60 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_PATCH_NODE], 0);
    world_done(&w);

    world_begin(&w); /* the claim's finalizer comes first */
    w.holds = NC_CONTROL_PATCH_CLAIM;
    world_add_node(&w, "a");
    world_add_claim(&w, "a", "");
    world_advance(&w, 4 * WORLD_SEC);
    assert_int_equal(w.requested[NC_CONTROL_PATCH_NODE], 0);
    w.holds = 0;
    world_reconcile(&w);
    assert_string_equal(world_condition(&w, "a", "Registered"), "True Registered");
    world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_karpenters),
        cmocka_unit_test(test_a_node_that_says_karpenters),
        cmocka_unit_test(test_a_node_that_says_it_is_anothers),
        cmocka_unit_test(test_whose_node_is_not_known),
        cmocka_unit_test(test_many_conditions),
        cmocka_unit_test(test_a_node_that_cannot_be_read),
        cmocka_unit_test(test_unreadable_again),
        cmocka_unit_test(test_finalizers_that_cannot_be_read),
        cmocka_unit_test(test_never_registered),
        cmocka_unit_test(test_never_confirmed),
        cmocka_unit_test(test_other_controllers),
        cmocka_unit_test(test_two_nodes),
        cmocka_unit_test(test_two_nodes_one_goes),
        cmocka_unit_test(test_two_nodes_one_is_drained),
        cmocka_unit_test(test_taints_not_synced),
        cmocka_unit_test(test_annotations_of_ours),
        cmocka_unit_test(test_name_comes_again),
        cmocka_unit_test(test_conditions),
        cmocka_unit_test(test_watch_of_nodes_is_behind),
        cmocka_unit_test(test_node_is_lost),
        cmocka_unit_test(test_label_is_forged),
        cmocka_unit_test(test_registered_again),
        cmocka_unit_test(test_owner_of_the_served_version),
        cmocka_unit_test(test_not_registered),
    };

    return run_group(tests, NULL, NULL);
}
