/*
 * The startup gate: what counts as there, what is said of what is not, and what time does.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/fit.h"
#include "nc/str.h"

#define SEC 1000000ull
#define BOOT 1767225600ull /* 2026-01-01T00:00:00Z */

/* A fraction of a second after a whole one, which is what objects are dated with. */
static const struct nc_fit_boot boot = {.id = "b2", .began_usec = BOOT * SEC - SEC / 4};

/* A world: settings, what was seen, a clock that begins with the gate. */
struct world {
    struct nc_fit_settings settings;
    struct nc_fit_seen seen;
    struct nc_fit_moment m;
    struct nc_fit_verdict v;
};

static void world_begin(struct world *w, bool is_reported) {
    *w = (struct world){.settings = {.is_set = true, .timeout_usec = 600 * SEC},
                        .m = {.since_usec = (BOOT + 10) * SEC, .now_usec = (BOOT + 10) * SEC}};
    w->seen.is_reported = is_reported;
}

static void want(struct world *w, enum nc_fit_kind kind, const char *name) {
    nc_strv_add(&w->settings.wanted[kind], name);
}

static void world_done(struct world *w) {
    for (size_t i = 0; i < _NC_FIT_KIND_MAX; i++)
        nc_strv_done(&w->settings.wanted[i]);
    nc_fit_seen_done(&w->seen);
    nc_fit_verdict_done(&w->v);
}

/* "DaemonSetsNotReady: waiting for …" after so many seconds; "+" before it where it is fit. */
static void expect(struct world *w, uint64_t after_sec, const char *expected) {
    nc_auto_free char *is = NULL;

    nc_fit_verdict_done(&w->v);
    w->m.now_usec = w->m.since_usec + after_sec * SEC;
    nc_fit_judge(&w->settings, &w->seen, &w->m, &w->v);
    is = nc_asprintf("%s%s: %s", w->v.is_fit ? "+" : "", nc_fit_reason_name(w->v.reason),
                     w->v.message);
    assert_string_equal(is, expected);
}

/* A pod of a DaemonSet; ready: NULL, or since when. */
static void see_pod(struct world *w, const char *uid, const char *daemon_set, const char *ready,
                    const char *more) {
    nc_auto_free char *text = nc_asprintf(
        "{'metadata':{'namespace':'kube-system','name':'%s-%s','uid':'%s'%s,'ownerReferences':[{"
        "'kind':'DaemonSet','name':'%s'}]},'status':{'conditions':[{'type':'Ready','status':'%s',"
        "'lastTransitionTime':'%s'}]}}",
        daemon_set, uid, uid, more, daemon_set, ready ? "True" : "False",
        ready ? ready : "2026-01-01T00:00:20Z");
    nc_auto_value struct nc_value *pod = json(text);

    nc_fit_see_pod(&w->seen, &w->settings, pod, &boot, w->m.now_usec);
}

static void see_node(struct world *w, const char *text) {
    nc_auto_value struct nc_value *node = json(text);

    nc_fit_see_node(&w->seen, &w->settings, node, &boot);
}

static void test_daemon_sets(void **state) {
    struct world w;

    (void)state;
    world_begin(&w, true);
    want(&w, NC_FIT_DAEMON_SETS, "kube-system/cni");
    want(&w, NC_FIT_DAEMON_SETS, "kube-system/csi");
    expect(&w, 0, "NotReadable: waiting for the pods of this node, or its CSINode, to be readable");
    w.seen.has_pods = true;
    see_pod(&w, "1", "cni", NULL, "");
    expect(&w, 1,
           "DaemonSetsNotReady: waiting for DaemonSets kube-system/cni (pod cni-1 is not ready), "
           "kube-system/csi (no pod of it is bound to this node)");
    assert_int_equal(w.v.missing.n, 2);
    see_pod(&w, "1", "cni", "2026-01-01T00:00:30Z", "");
    see_pod(&w, "2", "csi", "2026-01-01T00:00:30Z", "");
    expect(&w, 2, "+NothingMissing: everything that pods need is there after 2s");
    see_pod(&w, "2", "csi", NULL, ""); /* ready, and then not */
    expect(&w, 3,
           "DaemonSetsNotReady: waiting for DaemonSets kube-system/csi (pod csi-2 is not ready)");
    see_pod(&w, "3", "csi", "2026-01-01T00:00:40Z", ""); /* of a rollout with a surge */
    expect(&w, 3, "+NothingMissing: everything that pods need is there after 3s");
    see_pod(&w, "3", "csi", "2026-01-01T00:00:40Z", ",'deletionTimestamp':'2026-01-01T00:01:00Z'");
    nc_fit_pod_gone(&w.seen, "2");
    nc_fit_pod_gone(&w.seen, "nobody");
    expect(&w, 4,
           "DaemonSetsNotReady: waiting for DaemonSets kube-system/csi (no pod of it is bound to "
           "this node)");
    world_done(&w);
}

/* What another boot has left counts for nothing. */
static void test_reboot(void **state) {
    struct world w;

    (void)state;
    world_begin(&w, false);
    want(&w, NC_FIT_DAEMON_SETS, "kube-system/cni");
    want(&w, NC_FIT_RESOURCES, "nvidia.com/gpu");
    want(&w, NC_FIT_CONDITIONS, "NetworkReady");
    w.seen.has_pods = true;
    see_pod(&w, "1", "cni", "2025-12-31T23:59:59Z", "");
    see_node(&w, "{'status':{'nodeInfo':{'bootID':'b1'},'allocatable':{'nvidia.com/gpu':'8'},"
                 "'conditions':[{'type':'NetworkReady','status':'True','lastTransitionTime':'2025-"
                 "12-31T20:00:00Z'}]}}");
    expect(&w, 0, "NodeNotReported: waiting for kubelet to report the Node of this boot");
    see_node(&w, "{'status':{'nodeInfo':{'bootID':'b2'},'allocatable':{'nvidia.com/gpu':'0'},"
                 "'conditions':[{'type':'NetworkReady','status':'True','lastTransitionTime':'2025-"
                 "12-31T20:00:00Z'}]}}");
    expect(&w, 1,
           "DaemonSetsNotReady: waiting for DaemonSets kube-system/cni (pod cni-1 is not ready); "
           "resources nvidia.com/gpu; conditions NetworkReady");
    see_pod(&w, "1", "cni", "2026-01-01T00:00:15Z", "");
    expect(&w, 2,
           "ResourcesNotAllocatable: waiting for resources nvidia.com/gpu; conditions "
           "NetworkReady");
    see_node(&w, "{'status':{'nodeInfo':{'bootID':'b2'},'allocatable':{'nvidia.com/gpu':8},"
                 "'conditions':[{'type':'NetworkReady','status':'True','lastHeartbeatTime':'2026-"
                 "01-01T00:00:20Z','lastTransitionTime':'2025-12-31T20:00:00Z'}]}}");
    expect(&w, 3, "+NothingMissing: everything that pods need is there after 3s");
    for (unsigned i = 4; i < 10; i++) { /* a boot ID that flaps: only this boot's counts */
        see_node(&w, i % 2 ? "{'status':{'nodeInfo':{'bootID':'b2'},'allocatable':{'nvidia.com/"
                             "gpu':8},'conditions':[{'type':'NetworkReady','status':'True',"
                             "'lastTransitionTime':'2026-01-01T00:00:20Z'}]}}"
                           : "{'status':{'nodeInfo':{'bootID':'b1'}}}");
        nc_fit_verdict_done(&w.v);
        nc_fit_judge(&w.settings, &w.seen, &w.m, &w.v);
        assert_int_equal(w.v.is_fit, i % 2);
    }
    world_done(&w);
}

static void test_csi(void **state) {
    nc_auto_value struct nc_value *none = json("{'spec':{'drivers':null}}"),
                                  *there = json("{'spec':{'drivers':[{'name':'ebs'},7]}}");
    struct world w;

    (void)state;
    world_begin(&w, true);
    want(&w, NC_FIT_CSI_DRIVERS, "ebs");
    expect(&w, 0, "NotReadable: waiting for the pods of this node, or its CSINode, to be readable");
    nc_fit_see_csi(&w.seen, NULL);
    expect(&w, 0, "CSIDriversNotRegistered: waiting for CSI drivers ebs");
    nc_fit_see_csi(&w.seen, none);
    expect(&w, 0, "CSIDriversNotRegistered: waiting for CSI drivers ebs");
    nc_fit_see_csi(&w.seen, there);
    expect(&w, 0, "+NothingMissing: everything that pods need is there after 0s");
    world_done(&w);
}

/* Every DaemonSet that has a pod here, once no new one has come for a while. */
static void test_all(void **state) {
    struct world w;

    (void)state;
    world_begin(&w, true);
    want(&w, NC_FIT_DAEMON_SETS, NC_FIT_ALL);
    w.seen.has_pods = true;
    expect(&w, 0, "DaemonSetsNotReady: waiting whether the pod of another DaemonSet comes");
    assert_int_equal(w.v.next_usec, w.m.since_usec + NC_FIT_QUIET_USEC);
    w.m.now_usec = w.m.since_usec + 4 * SEC;
    see_pod(&w, "1", "cni", NULL, "");
    expect(&w, 11,
           "DaemonSetsNotReady: waiting for DaemonSets kube-system/cni (pod cni-1 is not ready)");
    see_pod(&w, "1", "cni", "2026-01-01T00:00:30Z", "");
    expect(&w, 13, "DaemonSetsNotReady: waiting whether the pod of another DaemonSet comes");
    expect(&w, 14, "+NothingMissing: everything that pods need is there after 14s");
    world_done(&w);
}

static void test_time(void **state) {
    struct world w;

    (void)state;
    world_begin(&w, true);
    want(&w, NC_FIT_DAEMON_SETS, "a/nobody");
    w.seen.has_pods = true;
    expect(&w, 599,
           "DaemonSetsNotReady: waiting for DaemonSets a/nobody (no pod of it is bound to this "
           "node)");
    assert_int_equal(w.v.next_usec, w.m.since_usec + 600 * SEC);
    expect(&w, 600,
           "+TimedOut: waiting for DaemonSets a/nobody (no pod of it is bound to this node) after "
           "10m0s; the gate opens without");
    assert_true(w.v.is_late);
    w.settings.holds = true;
    expect(&w, 600,
           "TimedOut: waiting for DaemonSets a/nobody (no pod of it is bound to this node) after "
           "10m0s; the gate stays shut until that is there");
    assert_true(w.v.is_late && w.v.next_usec == UINT64_MAX);
    w.settings.timeout_usec = 0;
    expect(&w, 86400,
           "DaemonSetsNotReady: waiting for DaemonSets a/nobody (no pod of it is bound to this "
           "node)");
    assert_true(w.v.next_usec == UINT64_MAX);
    world_done(&w);
}

/* No time opens it before kubelet has reported this boot, and none at all in a drain. */
static void test_time_opens_no_unknown_node(void **state) {
    struct world w;

    (void)state;
    world_begin(&w, false);
    expect(&w, 3600,
           "NodeNotReported: waiting for kubelet to report the Node of this boot after 10m0s; the "
           "gate opens without");
    assert_true(w.v.is_late && !w.v.is_fit);
    w.seen.is_reported = true;
    w.m.is_draining = true;
    expect(&w, 3600, "Draining: the node is being drained; the gate stays as it is");
    assert_false(w.v.is_fit || w.v.is_late);
    w.m.is_draining = false;
    expect(&w, 3600, "+NothingMissing: everything that pods need is there after 1h0m0s");
    world_done(&w);
}

static void test_bounds(void **state) {
    struct world w;
    nc_auto_free char *text = NULL;

    (void)state;
    world_begin(&w, true);
    w.seen.has_pods = true;
    for (int i = 0; i < 40; i++) {
        nc_auto_free char *name = nc_asprintf("n/%d", i);
        want(&w, NC_FIT_DAEMON_SETS, name);
    }
    nc_fit_judge(&w.settings, &w.seen, &w.m, &w.v);
    assert_int_equal(w.v.missing.n, 40);
    assert_non_null(strstr(w.v.message, "n/19 (no pod of it is bound to this node) and more"));
    assert_null(strstr(w.v.message, "n/20"));
    text = nc_fit_annotation(&w.settings, &w.v, "b2", &w.m);
    assert_string_equal(text, "{\"boot\":\"b2\",\"fit\":false,\"reason\":\"DaemonSetsNotReady\","
                              "\"missing\":[\"n/0\",\"n/1\",\"n/2\",\"n/3\",\"n/4\"],\"since\":"
                              "\"2026-01-01T00:00:10Z\",\"until\":\"2026-01-01T00:10:10Z\","
                              "\"then\":\"open\"}");
    assert_true(nc_fit_annotation_says(text, "b2", false));
    assert_false(nc_fit_annotation_says(text, "b2", true));
    assert_false(nc_fit_annotation_says(text, "b1", false));
    assert_false(nc_fit_annotation_says("{", "b1", false));
    assert_false(nc_fit_annotation_says(NULL, "b1", false));
    want(&w, NC_FIT_DAEMON_SETS, NC_FIT_ALL);
    for (int i = 0; i < 600; i++) { /* a node with more pods than are kept is not known */
        nc_auto_free char *uid = nc_asprintf("%d", i);
        see_pod(&w, uid, "x", NULL, "");
    }
    assert_int_equal(w.seen.n_pods, NC_FIT_MAX_PODS);
    expect(&w, 1, "NotReadable: waiting for the pods of this node, or its CSINode, to be readable");
    world_done(&w);
}

/* Whoever may create pods may bind them here, with an owner of any name. */
static void test_crowd_of_a_tenant(void **state) {
    struct world w;

    (void)state;
    world_begin(&w, true);
    w.seen.has_pods = true;
    want(&w, NC_FIT_DAEMON_SETS, "kube-system/cni");
    for (size_t i = 0; i < 2 * NC_FIT_MAX_PODS; i++) {
        nc_auto_free char *uid = nc_asprintf("crowd-%zu", i);
        see_pod(&w, uid, "x", NULL, "");
    }
    assert_int_equal(w.seen.n_pods, 0);
    see_pod(&w, "1", "cni", "2026-01-01T00:00:30Z", "");
    expect(&w, 1, "+NothingMissing: everything that pods need is there after 1s");
    world_done(&w);
}

static void test_strange_pods(void **state) {
    static const char *const rows[] = {
        "7",
        "{'metadata':{'uid':'1','namespace':'a','ownerReferences':[{'kind':'DaemonSet'}]}}",
        "{'metadata':{'uid':'1','namespace':'a','ownerReferences':[{'kind':'ReplicaSet','name':"
        "'x'}]}}",
        "{'metadata':{'namespace':'a','ownerReferences':[{'kind':'DaemonSet','name':'x'}]}}",
        "{'metadata':{'uid':'1','ownerReferences':[{'kind':'DaemonSet','name':'x'}]}}",
        "{'metadata':{'uid':'1','namespace':'a','ownerReferences':'x'}}",
        /* the API server takes any text as the name of an owner */
        "{'metadata':{'uid':'1','namespace':'a','ownerReferences':[{'kind':'DaemonSet','name':"
        "'x\\u001b[2J'}]}}",
        "{'metadata':{'uid':'1','namespace':'a','ownerReferences':[{'kind':'DaemonSet','name':"
        "'x, kube-system/cni'}]}}",
    };
    struct world w;

    (void)state;
    world_begin(&w, true);
    want(&w, NC_FIT_DAEMON_SETS, NC_FIT_ALL);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_value struct nc_value *pod = json(rows[i]);
        nc_fit_see_pod(&w.seen, &w.settings, pod, &boot, 1);
        assert_int_equal(w.seen.n_pods, 0);
    }
    world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_daemon_sets),
        cmocka_unit_test(test_reboot),
        cmocka_unit_test(test_csi),
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_time),
        cmocka_unit_test(test_time_opens_no_unknown_node),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_strange_pods),
        cmocka_unit_test(test_crowd_of_a_tenant),
    };

    return run_group(tests, NULL, NULL);
}
