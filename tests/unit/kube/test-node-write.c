/*
 * Our own Node: what is read of it, each of the patches, and what its answer means.
 */
#include "groups.h"
#include "kube-script.h"

#include "nc/kube-drain.h"

#include "wire.h"

#define NOW 1700000000000000u /* 2023-11-14T22:13:20Z */
#define LABEL "node.kubernetes.io/exclude-from-external-load-balancers"

static void take(struct nc_node_view *v, const char *text, const struct nc_strv *stay) {
    nc_auto_value struct nc_value *object = js(text);

    nc_node_view_apply(v, object, stay);
}

static void test_view(void **state) {
    struct nc_node_view v = {0};
    struct nc_strv stay = NC_STRV_INIT;

    (void)state;
    nc_strv_add(&stay, "kubernetes.io/csi/ebs.csi.aws.com^vol-2");
    /* Metadata only. */
    take(&v,
         "{'metadata':{'uid':'u1','annotations':{'nodeclaimd.io/cordon':'{}','nodeclaimd.io/"
         "drain-status':'{}'},'labels':{'" LABEL "':'nodeclaimd'},"
         "'deletionTimestamp':'2023-11-14T22:13:20Z'}}",
         &stay);
    assert_true(v.exists && !v.is_complete && v.is_deleting);
    assert_string_equal(v.uid, "u1");
    assert_int_equal(v.deletion_usec, NOW);
    assert_true(v.has_cordon_record && v.has_status);
    assert_true(v.has_balancers_label && v.is_balancers_label_ours);
    /* All of it. */
    take(&v,
         "{'metadata':{'uid':'u1','labels':{'" LABEL "':'karpenter'}},'spec':{'unschedulable':true,"
         "'taints':[{'key':'karpenter.sh/disrupted','effect':'NoSchedule'}]},'status':{"
         "'conditions':[{'type':'InterruptionPending','status':'True'},{'type':'Drained','status':"
         "'True','reason':'NodeDrained'},{'type':'DrainInProgress','status':'True','message':'"
         "nodeclaimd: x'},{'type':"
         "'MaintenancePlanned','status':'True','message':'mine'},{'type':'MaintenanceInProgress',"
         "'status':'False','message':'nodeclaimd: "
         "x'}],'volumesAttached':[{'name':'kubernetes.io/csi/ebs.csi.aws.com^vol-1'},{'name':"
         "'kubernetes.io/csi/ebs.csi.aws.com^vol-2'},{'devicePath':'x'},5]}}",
         &stay);
    assert_true(v.exists && v.is_complete && !v.is_deleting);
    assert_int_equal(v.deletion_usec, 0);
    assert_false(v.has_cordon_record || v.has_status);
    assert_true(v.has_balancers_label && !v.is_balancers_label_ours);
    assert_true(v.is_unschedulable && v.has_disrupted_taint);
    assert_true(v.is_pending_true && v.is_drained_true && !v.is_drained_by_another);
    assert_int_equal(v.known_true,
                     1u << NC_KNOWN_DRAIN_IN_PROGRESS | 1u << NC_KNOWN_MAINTENANCE_PLANNED);
    assert_int_equal(v.known_ours, 1u << NC_KNOWN_DRAIN_IN_PROGRESS);
    assert_int_equal(v.n_volumes, 1);
    /* Metadata again: the lower half stays as it was last seen. */
    take(&v, "{'metadata':{'uid':'u1'}}", NULL);
    assert_true(v.is_complete && v.is_unschedulable && v.n_volumes == 1);
    assert_false(v.has_balancers_label || v.is_balancers_label_ours);
    /* The same name, another Node: nothing of the old one is true. */
    take(&v, "{'metadata':{'uid':'u2'}}", NULL);
    assert_true(v.exists && !v.is_complete && !v.is_unschedulable && v.n_volumes == 0);
    /* Without a list of what stays, each counts; what is not there any more is false again. */
    take(&v,
         "{'metadata':{'uid':'u2'},'status':{'volumesAttached':[{'name':'a'},{'name':'b'}],"
         "'conditions':[{'type':'Drained','status':'False'}]}}",
         NULL);
    assert_true(v.is_complete && v.n_volumes == 2);
    assert_false(v.is_unschedulable || v.has_disrupted_taint || v.is_drained_true);
    take(&v,
         "{'metadata':{'uid':'u2'},'status':{'conditions':[{'type':'Drained','status':'True',"
         "'reason':'DrainCompleted'}]}}",
         NULL);
    assert_true(v.is_drained_by_another && !v.is_drained_true);
    nc_strv_done(&stay);
}

static void test_view_of_nonsense(void **state) {
    static const char *const objects[] = {
        "{}",
        "{'metadata':5,'spec':[],'status':'x'}",
        "{'metadata':{'uid':7,'annotations':[],'labels':'x','deletionTimestamp':5},"
        "'spec':{'unschedulable':'true','taints':{}},"
        "'status':{'volumesAttached':{'name':'x'},'conditions':5}}",
        "{'metadata':{'annotations':{'nodeclaimd.io/cordon':5},'labels':{'" LABEL "':null}},"
        "'spec':{'taints':[{'key':'karpenter.sh/disrupted'},{'key':'karpenter.sh/disrupted',"
        "'effect':'PreferNoSchedule'}]}}",
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(objects); i++) {
        struct nc_node_view v = {0};
        take(&v, objects[i], NULL);
        assert_true(v.exists);
        assert_string_equal(v.uid, "");
        assert_false(v.is_deleting || v.has_cordon_record || v.has_status || v.has_balancers_label);
        assert_false(v.is_unschedulable || v.has_disrupted_taint || v.is_pending_true);
        assert_int_equal(v.n_volumes, 0);
    }
    /* A time that is none: being deleted all the same. */
    struct nc_node_view v = {0};
    take(&v, "{'metadata':{'uid':'a\\u0007b','deletionTimestamp':'soon'}}", NULL);
    assert_true(v.is_deleting && v.deletion_usec == 0);
    assert_string_equal(v.uid, "a?b");
}

#define CONDITION(type, status, reason, message)                                                   \
    "{'type':'" type "','status':'" status "','reason':'" reason "','message':'" message           \
    "','lastHeartbeatTime':'2023-11-14T22:13:20Z','lastTransitionTime':'2023-11-14T22:13:20Z'}"
#define STAYS(type, reason, message)                                                               \
    "{'type':'" type "','status':'True','reason':'" reason "','message':'" message                 \
    "','lastHeartbeatTime':'2023-11-14T22:13:20Z'}"

static const struct {
    struct nc_node_write w;
    const char *subresource;
    const char *body;
} writes[] = {
    {{.kind = NC_WRITE_SIGNAL,
      .uid = "u1",
      .sets_status = true,
      .drain_status = (char[]){"{\"id\":1}"},
      .unschedulable = -1,
      .balancers_label = -1,
      .known_set = 1u << NC_KNOWN_DRAIN_IN_PROGRESS | 1u << NC_KNOWN_MAINTENANCE_PLANNED,
      .known_true = 1u << NC_KNOWN_DRAIN_IN_PROGRESS,
      .known_reason = {"AdminRequested", "MaintenanceWindow"},
      .known_message = {NULL, (char[]){"later"}},
      .pending = {true, true, "SpotInterruption", (char[]){"soon"}}},
     "status",
     "{'metadata':{'annotations':{'nodeclaimd.io/drain-status':'{\\'id\\':1}'},'uid':'u1'},"
     "'status':{'conditions':[" CONDITION(
         "InterruptionPending", "True", "SpotInterruption",
         "soon") "," CONDITION("DrainInProgress", "True", "AdminRequested",
                               "nodeclaimd: soon") "," CONDITION("MaintenancePlanned", "False",
                                                                 "MaintenanceWindow",
                                                                 "nodeclaimd: later") "]}}"},
    {{.kind = NC_WRITE_CORDON,
      .sets_status = true,
      .sets_cordon = true,
      .drain_status = (char[]){"s"},
      .cordon = (char[]){"c"},
      .unschedulable = 1,
      .balancers_label = 1},
     NULL,
     "{'metadata':{'annotations':{'nodeclaimd.io/drain-status':'s','nodeclaimd.io/cordon':'c'},"
     "'labels':{'" LABEL "':'nodeclaimd'}},'spec':{'unschedulable':true}}"},
    {{.kind = NC_WRITE_PROGRESS,
      .sets_status = true,
      .drain_status = (char[]){"s"},
      .unschedulable = -1,
      .balancers_label = -1},
     NULL,
     "{'metadata':{'annotations':{'nodeclaimd.io/drain-status':'s'}}}"},
    {{.kind = NC_WRITE_DRAINED,
      .sets_status = true,
      .drain_status = (char[]){"s"},
      .unschedulable = -1,
      .balancers_label = -1,
      .drained = {true, true, "Drained", (char[]){"110 pods"}}},
     "status",
     "{'metadata':{'annotations':{'nodeclaimd.io/drain-status':'s'}},'status':{"
     "'conditions':[" CONDITION("Drained", "True", "Drained", "110 pods") "]}}"},
    {{.kind = NC_WRITE_UNDRAINED,
      .unschedulable = -1,
      .balancers_label = -1,
      .drained = {true, false, "PodAdded", (char[]){""}}},
     "status",
     "{'status':{'conditions':[" CONDITION("Drained", "False", "PodAdded", "") "]}}"},
    {{.kind = NC_WRITE_RELEASE,
      .sets_status = true,
      .sets_cordon = true,
      .unschedulable = 0,
      .balancers_label = 0},
     NULL,
     "{'metadata':{'annotations':{'nodeclaimd.io/drain-status':null,'nodeclaimd.io/cordon':null},"
     "'labels':{'" LABEL "':null}},'spec':{'unschedulable':null}}"},
    {{.kind = NC_WRITE_CLEAR_CONDITIONS,
      .uid = "u1",
      .unschedulable = -1,
      .balancers_label = -1,
      .pending = {true, false, "Withdrawn", (char[]){"x"}},
      .drained = {true, false, "Withdrawn", (char[]){"x"}}},
     "status",
     "{'status':{'conditions':[" CONDITION("InterruptionPending", "False", "Withdrawn",
                                           "x") "," CONDITION("Drained", "False", "Withdrawn",
                                                              "x") "]},'metadata':{'uid':'u1'}}"},
    {{.kind = NC_WRITE_SIGNAL, /* since when they are True stays */
      .unschedulable = -1,
      .balancers_label = -1,
      .known_set = 1u << NC_KNOWN_DRAIN_IN_PROGRESS,
      .known_true = 1u << NC_KNOWN_DRAIN_IN_PROGRESS,
      .known_unchanged = 1u << NC_KNOWN_DRAIN_IN_PROGRESS,
      .known_reason = {"AdminRequested"},
      .pending = {true, true, "Deletion", (char[]){"soon"}, true}},
     "status",
     "{'status':{'conditions':[" STAYS("InterruptionPending", "Deletion", "soon") "," STAYS(
         "DrainInProgress", "AdminRequested", "nodeclaimd: soon") "]}}"},
};

/* Each is what it should be, and the rules on the wire let it pass. */
static void test_bodies(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(writes); i++) {
        const char *subresource = "?";
        enum nc_kube_patch kind = NC_KUBE_PATCH_NONE;
        nc_auto_value struct nc_value *body =
            nc_node_write_body(&writes[i].w, NOW, &subresource, &kind);
        nc_auto_free char *path = nc_kube_node_path("a", subresource);
        struct nc_err err = NC_ERR_INIT;
        const struct nc_kube_call c = {
            .what = "test", .method = "PATCH", .path = path, .body = body, .patch = kind};
        struct nc_buf text = NC_BUF_INIT;
        nc_json_write(&text, body, 0);
        for (char *p = text.data; *p; p++)
            if (*p == '"')
                *p = '\'';
        print_message("# row %zu\n", i);
        assert_string_equal(text.data, writes[i].body);
        if (writes[i].subresource)
            assert_string_equal(subresource, writes[i].subresource);
        else
            assert_null(subresource);
        assert_int_equal(kind, subresource ? NC_KUBE_PATCH_STRATEGIC : NC_KUBE_PATCH_MERGE);
        if (nc_kube_guard(&c, &err) < 0)
            fail_msg("%s", err.msg);
        nc_buf_done(&text);
    }
}

struct observed {
    unsigned n;
    enum nc_write_outcome outcome;
    bool is_anothers;
    enum nc_err_class class;
    uint64_t retry_after_usec;
    char uid[8];
};

static void on_written(void *userdata, const struct nc_node_written *w) {
    struct observed *h = userdata;
    const char *uid = nc_value_string(nc_value_path(w->node, "metadata.uid"));

    h->n++;
    h->outcome = w->outcome;
    h->is_anothers = w->is_anothers;
    h->class = w->err.class;
    h->retry_after_usec = w->retry_after_usec;
    snprintf(h->uid, sizeof(h->uid), "%s", uid ? uid : "");
    assert_true(w->duration_usec < 10000000);
    sd_event_exit(script_loop(), 0);
}

static int send(struct nc_kube *k, const char *node, size_t i, struct observed *h,
                struct nc_kube_req **ret, struct nc_err *err) {
    const struct nc_node_call call = {.node = node,
                                      .write = &writes[i].w,
                                      .now_usec = NOW,
                                      .timeout_usec = 1000000,
                                      .done = on_written,
                                      .userdata = h};

    return nc_node_send(k, &call, ret, err);
}

static const struct {
    struct script_step step;
    enum nc_write_outcome outcome;
    enum nc_err_class class;
} answers[] = {
    {{.answer = "{'metadata':{'uid':'u1'}}"}, NC_WRITTEN, NC_ERR_NONE},
    {{.status = 401}, NC_WRITE_UNAVAILABLE, NC_ERR_AUTH},
    {{.status = 403}, NC_WRITE_REFUSED, NC_ERR_AUTH},
    {{.status = 404}, NC_WRITE_REFUSED, NC_ERR_PROTOCOL},
    {{.status = 409}, NC_WRITE_UNAVAILABLE, NC_ERR_PROTOCOL},
    {{.status = 422}, NC_WRITE_REFUSED, NC_ERR_PROTOCOL},
    {{.status = 422,
      .answer = "{'kind':'Status','apiVersion':'v1','reason':'Invalid','message':'Node a is "
                "invalid: metadata.uid: Invalid value: u1: field is immutable'}"},
     NC_WRITE_UNAVAILABLE,
     NC_ERR_PROTOCOL},
    {{.status = 429, .retry_after_usec = 3000000}, NC_WRITE_UNAVAILABLE, NC_ERR_TRANSIENT},
    {{.status = 500}, NC_WRITE_UNAVAILABLE, NC_ERR_TRANSIENT},
    {{.status = 200, .raw = "<html>"}, NC_WRITE_UNAVAILABLE, NC_ERR_PROTOCOL},
    {{.outcome = NC_HTTP_TIMEOUT}, NC_WRITE_UNAVAILABLE, NC_ERR_TRANSIENT},
};

static void test_send(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(answers); i++) {
        struct script_step step = answers[i].step;
        struct observed h = {0};
        struct nc_kube_req *req = NULL;
        struct nc_err err = NC_ERR_INIT;
        struct nc_kube *k;
        print_message("# row %zu\n", i);
        step.method = "PATCH";
        step.url = "https://api.test:6443/api/v1/nodes/a";
        step.header = "Content-Type: application/merge-patch+json";
        step.body = "{'metadata':{'annotations':{'nodeclaimd.io/drain-status':'s'}}}";
        k = script_begin(&step, 1, NULL, NULL);
        assert_int_equal(send(k, "a", 2, &h, &req, &err), 0);
        assert_non_null(req);
        script_run();
        assert_int_equal(h.n, 1);
        assert_int_equal(h.outcome, answers[i].outcome);
        assert_int_equal(h.is_anothers, step.status == 422 && h.outcome == NC_WRITE_UNAVAILABLE);
        assert_int_equal(h.class, answers[i].class);
        assert_true(h.retry_after_usec == step.retry_after_usec);
        assert_string_equal(h.uid, h.outcome == NC_WRITTEN ? "u1" : "");
        script_end(k);
    }
}

/* Cancelled, or its handle freed: nothing is observed, nothing is lost. */
static void test_send_cancelled(void **state) {
    struct observed h = {0};
    struct nc_kube_req *req = NULL;
    struct nc_kube *k = SCRIPT(NULL, NULL, {.stays_open = true}, {.stays_open = true});

    (void)state;
    assert_int_equal(send(k, "a", 0, &h, &req, NULL), 0);
    assert_int_equal(send(k, "a", 1, &h, NULL, NULL), 0);
    assert_null(nc_kube_cancel(req));
    script_end(k);
    assert_int_equal(script_cancelled, 2);
    assert_int_equal(h.n, 0);
}

/* What the rules on the wire refuse fails at once. */
static void test_send_refused(void **state) {
    struct observed h = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k = script_begin(NULL, 0, NULL, NULL);

    (void)state;
    assert_true(send(k, "", 0, &h, NULL, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    assert_true(
        nc_node_send(k, &(struct nc_node_call){.node = "a", .write = &writes[0].w}, NULL, &err)
        < 0);
    script_end(k);
    assert_int_equal(h.n, 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_view),           cmocka_unit_test(test_view_of_nonsense),
        cmocka_unit_test(test_bodies),         cmocka_unit_test(test_send),
        cmocka_unit_test(test_send_cancelled), cmocka_unit_test(test_send_refused),
    };

    return run_group(tests, NULL, NULL);
}
