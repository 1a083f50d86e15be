/*
 * What people read of daemon and drain in a status.json, and the drawing: to the byte for a good
 * one, bounded, harmless and well-formed for any other.
 */
#include "drain-script.h"
#include "groups.h"

#include "nc/drain-report.h"
#include "nc/report.h"
#include "nc/str.h"
#include "timeline-test.h"

static void print_timeline_now(const struct nc_value *status, struct nc_buf *out) {
    nc_timeline_text(status, (uint64_t)(1704067200 + 80) * 1000000, out);
}

static void print_tree_at(const struct nc_value *status, uint64_t now_usec, struct nc_buf *out) {
    nc_auto_value struct nc_value *tree = nc_timeline_tree(status, now_usec);

    nc_json_write(out, tree, 0);
    (void)nc_buf_putc(out, '\n');
}

static void print_tree(const struct nc_value *status, struct nc_buf *out) {
    print_tree_at(status, (uint64_t)1704067200 * 1000000 + 9, out);
}

static void print_tree_of_the_past(const struct nc_value *status, struct nc_buf *out) {
    print_tree_at(status, 0, out);
}

#define DAEMON                                                                                     \
    "'daemon': {'connected': true, 'node': 'n1', 'inhibitor': 'held', 'apiError': null,"           \
    " 'started': '2024-01-01T00:00:00Z', 'imds': {'spot': {'state': 'ok', 'error': null},"         \
    " 'maintenance': {'state': 'failing', 'error': 'HTTP 503', 'remedy': 'wait', 'last': "         \
    "'2024-01-01T00:09:00Z'}}}"

static const char draining[] =
    "{" DAEMON ", 'drain': {'phase': 'evicting', 'since': '2024-01-01T00:10:01Z',"
    " 'source': 'spot', 'id': 's1', 'deadline': '2024-01-01T00:12:00Z',"
    " 'forceDeleteAt': '2024-01-01T00:11:45Z', 'sources': [{'source': 'spot', 'action': "
    "'terminate',"
    " 'policy': 'drain', 'deadline': '2024-01-01T00:12:00Z', 'begin': null,"
    " 'noticed': '2024-01-01T00:10:00Z'}], 'cordon': {'ours': true,"
    " 'since': '2024-01-01T00:10:01Z'}, 'pods': {'total': 12, 'remaining': 7, 'leaving': 5,"
    " 'kept': 1, 'blocked': 1, 'deleted': 0}, 'blocked': [{'pod': 'a/b', 'budget': 'pdb',"
    " 'forceDeleteAt': '2024-01-01T00:11:15Z', 'message': 'no'}],"
    " 'history': [{'phase': 'signalling', 'at': '2023-12-31T00:00:00Z'},"
    " {'phase': 'idle', 'at': '2023-12-31T00:00:09Z'},"
    " {'phase': 'signalling', 'at': '2024-01-01T00:10:00Z'},"
    " {'phase': 'evicting', 'at': '2024-01-01T00:10:01Z'},"
    " {'phase': 'drained', 'at': '2024-01-01T00:10:41Z'}]}}";

static void named_1(const struct nc_value *drain, struct nc_buf *out) {
    nc_drain_pods_text(drain, 1, out);
}

static void named_3(const struct nc_value *drain, struct nc_buf *out) {
    nc_drain_pods_text(drain, 3, out);
}

static void test_pods(void **state) {
    const char *const blocked =
        "{'incomplete': 'TooManyPods', 'pods': {'total': 12, 'remaining': 7, 'leaving': 2,"
        " 'deleted': 1, 'kept': 1, 'blocked': 2}, 'blocked': [{'pod': 'a/b', 'budget': 'a/pdb', "
        "'reason': 'budget'},"
        " {'pod': 'a/c\\u001b', 'budget': null}, {}, {'pod': 'a/e'}]}";

    const char *const forced =
        "{'volumes': 2, 'volume': 'csi^vol-1', 'pods': {'total': 3, 'remaining': 2, 'leaving': 1, "
        "'deleted': 1}, 'blocked': [{'pod': 'a/b'}]}";

    (void)state;
    assert_text(forced, named_1,
                ", volumes attached: 2: csi^vol-1, 2 of 3 pods remain, 1 leaving, 1 force-deleted; "
                "held: a/b");
    assert_text(blocked, named_1,
                ", the list of pods is incomplete: TooManyPods, 7 of 12 pods remain, 2 leaving, "
                "1 force-deleted, 1 kept by do-not-disrupt, 2 blocked: a/b by "
                "a/pdb, waits without end: no deadline is in force");
    assert_text(blocked, named_3,
                ", the list of pods is incomplete: TooManyPods, 7 of 12 pods remain, 2 leaving, "
                "1 force-deleted, 1 kept by do-not-disrupt, 2 blocked: a/b by "
                "a/pdb, a/c , ?, waits without end: no deadline is in force");
    assert_text("{'pods': {'total': 1, 'remaining': 1, 'kept': 1}, 'blocked': [{'pod': 'a/b',"
                " 'reason': 'do-not-disrupt'}]}",
                named_1,
                ", 1 of 1 pods remain, 1 kept by do-not-disrupt: a/b, waits without end: "
                "no deadline is in force");
    assert_text("{'pods': {'total': 1, 'remaining': 1, 'kept': 1}, 'blocked': [{'pod': 'a/b',"
                " 'reason': 'do-not-disrupt', 'keptUntil': '2026-01-02T03:04:05Z'}]}",
                named_1, ", 1 of 1 pods remain, 1 kept by do-not-disrupt: a/b");
    assert_text("{'pods': {'total': 1, 'remaining': 1, 'blocked': 1}, 'blocked': [{'pod': 'a/b', "
                "'reason': 'budget'}],"
                " 'sources': [{'source': 'spot', 'policy': 'drain', 'deadline': 'T'}, {'source':"
                " 'operator', 'policy': 'report', 'deadline': 'T'}]}",
                named_1,
                ", 1 of 1 pods remain, 1 blocked: a/b, waits without end: no deadline is in force");
    assert_text("{'pods': {'total': 1, 'remaining': 1, 'blocked': 1}, 'blocked': [{'pod': 'a/b', "
                "'reason': 'budget'}],"
                " 'sources': [{'source': 'operator', 'policy': 'drain', 'deadline': 'T'}]}",
                named_1,
                ", 1 of 1 pods remain, 1 blocked: a/b, waits without end: the deadline has passed");
    assert_text("{'unansweredSince': 'T', 'pods': {'total': 1, 'remaining': 1}}", named_3,
                ", as of then 1 of 1 pods remain");
    assert_text("{'sinceRestart': true, 'pods': {'total': 1, 'remaining': 1}}", named_3,
                ", since the restart 1 of 1 pods remain");
    assert_text("{'pods': {'total': 0, 'remaining': 0}, 'blocked': []}", named_3, "");
    assert_text("{'pods': 7, 'blocked': 'a/b'}", named_3, "");
    assert_text("{'pods': {'total': null, 'remaining': null}}", named_3,
                ", its pods are not listed");
}

static void test_status(void **state) {
    nc_auto_free char *text = NULL;

    (void)state;
    assert_text(
        draining, nc_status_text,
        "node         n1\n"
        "daemon       connected, shutdown inhibitor held, running since 2024-01-01T00:00:00Z\n"
        "imds         spot ok, maintenance failing (HTTP 503, last answer 2024-01-01T00:09:00Z)\n"
        "             remedy: wait\n"
        "drain        evicting, since 2024-01-01T00:10:01Z, 7 of 12 pods remain, 5 leaving, "
        "1 kept by do-not-disrupt, 1 blocked, force-delete time of all pods "
        "2024-01-01T00:11:45Z, cordoned by us\n"
        "notice       spot, to terminate, policy drain, deadline 2024-01-01T00:12:00Z, "
        "since 2024-01-01T00:10:00Z\n"
        "blocked      a/b, budget pdb, force-delete 2024-01-01T00:11:15Z, says no\n");
    text = text_of("{'drain': {'sources': [{'source': 'request', 'id': 'a-1', 'reason': 'disk', "
                   "'putBack': true}, {'source': 'operator', 'id': 'b', 'reason': null, 'putBack': "
                   "false}, {'source': 'spot', 'id': 's1'}]}}",
                   nc_status_text);
    assert_non_null(
        strstr(text, "notice       request, id a-1, reason disk, put back with the same id after "
                     "it was withdrawn\n             operator, id b\n             spot\n"));
    assert_text("{'daemon': {}, 'drain': {'phase': 'evicting', 'cordon': {'ours': false, 'lifted':"
                " true, 'labelRemoved': true}, 'nodeDeleted': true}}",
                nc_status_text,
                "node         -\n"
                "daemon       not connected to the API server, shutdown inhibitor unknown, running "
                "since -\n"
                "drain        evicting, NOT cordoned: lifted by somebody else, label for "
                "load balancers removed by somebody else, the Node was deleted, its pods "
                "are still evicted\n"
                "             remedy: restart kubelet to register again, without request and "
                "cordon (after nodeclaimd undrain, if this machine requested the drain), or end "
                "the instance, and its pods with it\n"
                "             remedy: kubectl cordon the Node, for nothing is evicted before that, "
                "and uncordon it afterwards, or withdraw what requests the drain\n");
    assert_text("{'daemon': {}, 'drain': {'phase': 'evicting', 'nodeDeleted': true, 'deadline': "
                "'2024-01-01T00:12:00Z'}}",
                nc_status_text,
                "node         -\n"
                "daemon       not connected to the API server, shutdown inhibitor unknown, running "
                "since -\n"
                "drain        evicting, the Node was deleted, its pods are still evicted\n");
    assert_text("{'daemon': {}, 'drain': {'phase': 'cordoning', 'cordon': {'refused': true}}}",
                nc_status_text,
                "node         -\n"
                "daemon       not connected to the API server, shutdown inhibitor unknown, running "
                "since -\n"
                "drain        cordoning, NOT cordoned: refused\n"
                "             remedy: kubectl cordon the Node, for nothing is evicted before that, "
                "and uncordon it afterwards, or withdraw what requests the drain\n");
    assert_text(
        "{'drain': {'phase': 'evicting', 'forceDeleteAt': 'T', 'cordon': {'refused': true}, "
        "'blocked': [{'pod': 'a/b', 'reason': 'budget', 'remedy': 'scale up'}]}}",
        nc_status_text,
        "bootstrap    unknown\nnode         -\ninstance     -, -, -, -\n"
        "nodeclaim    -\n"
        "drain        evicting, force-delete time of all pods T, NOT cordoned: refused\n"
        "blocked      a/b, blocked by a PodDisruptionBudget\n"
        "             remedy: kubectl cordon the Node, which keeps new pods off, and "
        "uncordon it afterwards\n"
        "             remedy: scale up; or delete the pod, which asks no budget; else it "
        "is deleted at its force-delete time, unless that is refused, too\n");
    assert_text("{'drain': {'phase': 'cordoning', 'cordon': {'failing': true}}}", nc_status_text,
                "bootstrap    unknown\nnode         -\ninstance     -, -, -, -\n"
                "nodeclaim    -\n"
                "drain        cordoning, not cordoned by us: the API server fails\n");
    assert_text("{'daemon': {}, 'drain': {'phase': 'releasing', 'at': '2024-01-01T00:11:00Z'}}",
                nc_status_text,
                "node         -\n"
                "daemon       not connected to the API server, shutdown inhibitor unknown, running "
                "since -\n"
                "drain        releasing, next try 2024-01-01T00:11:00Z\n");
    assert_text(
        "{'daemon': {'connected': false, 'apiError': 'refused', 'inhibitDelay': 'too short',"
        " 'stateError': 'read-only'}}",
        nc_status_text,
        "node         -\n"
        "daemon       not connected to the API server, shutdown inhibitor unknown, running since "
        "-\n"
        "             refused\n"
        "             too short\n"
        "             read-only\n");
    assert_text(
        "{'daemon': {'connected': false, 'apiState': 'no-kubeconfig', 'apiError': 'none yet',"
        " 'apiRemedy': 'wait', 'policies': {'spot': 'drain', 'rebalance': 'report'}}}",
        nc_status_text,
        "node         -\n"
        "daemon       not connected to the API server (no-kubeconfig), shutdown inhibitor "
        "unknown, running since -\n"
        "             none yet\n"
        "             remedy: wait\n"
        "policies     spot drain, rebalance report\n");
    assert_text("{'daemon': {'running': false, 'connected': true, 'ready': true}}", nc_status_text,
                "node         -\n"
                "daemon       not running; what follows is what it last wrote\n");
    assert_text("{'daemon': {'connected': true, 'skewUsec': 90000000}}", nc_status_text,
                "node         -\n"
                "daemon       connected, shutdown inhibitor unknown, running since -\n"
                "             the clock is 90 s behind EC2's: chronyc tracking\n");
    assert_text("{'daemon': {'connected': true, 'skewUsec': -4000000}}", nc_status_text,
                "node         -\n"
                "daemon       connected, shutdown inhibitor unknown, running since -\n");
    assert_text("{'daemon': {'running': null, 'connected': false}}", nc_status_text,
                "node         -\n"
                "daemon       cannot tell whether it runs: run as root (as root: /run is "
                "read-only); what follows is what it "
                "last wrote\n");
}

/* What the API server showed before it was away; what this node does itself is of now. */
static void test_pods_in_an_outage(void **state) {
    (void)state;
    assert_text(
        "{'drain': {'phase': 'evicting', 'unansweredSince': 'T', 'blocked': [{'pod': 'a/b', "
        "'budget': 'pdb', 'reason': 'budget', 'forceDeleteAt': 'T', 'missed': true}, "
        "{'pod': 'a/c', 'reason': 'force-delete'}], 'forceDeleteAt': 'T', "
        "'others': [{'pod': 'a/d', 'reason': 'terminating'}]}}",
        nc_status_text,
        "bootstrap    unknown\nnode         -\ninstance     -, -, -, -\n"
        "nodeclaim    -\n"
        "drain        cannot evict: the API server has done nothing for this node since T, "
        "force-delete time of all pods T\n"
        "blocked      a/b, budget pdb, force-delete T, which has passed, as of then blocked by a "
        "PodDisruptionBudget\n"
        "             a/c, its force-delete time has come\n"
        "             remedy: see daemon: before the API server answers no pod can be evicted or "
        "deleted, and what is left ends with the machine\n"
        "pods         a/d, as of then terminating, its grace period runs\n");
}

static void assert_has(const char *text, const char *part) {
    if (!strstr(text, part))
        fail_msg("%s is not in:\n%s", part, text);
}

/* Where a deadline ends what is refused, too, that is said; and promised nowhere else. */
static void test_refused_before_the_force_delete_time(void **state) {
    static const char *const rows[][3] = {
        {"evicting", "refused",
         "; else it is deleted at its force-delete time, unless that is refused, too"},
        {"failed", "refused", ""},
        {"evicting", "deletion", ""},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *of = nc_asprintf(
            "{'drain': {'phase': '%s', 'forceDeleteAt': 'T', 'blocked': [{'pod': 'a/b', 'reason': "
            "'%s', 'remedy': 'allow it'}]}}",
            rows[i][0], rows[i][1]);
        nc_auto_free char *says = nc_asprintf(
            "remedy: allow it; or delete the pod, which asks no budget%s\n", rows[i][2]);
        nc_auto_free char *text = text_of(of, nc_status_text);
        assert_has(text, says);
    }
}

static void test_hooks(void **state) {
    (void)state;
    assert_text("{'drain': {'phase': 'evicting', 'hooks': {'preDrain': {'state': 'running', "
                "'started': '2024-01-01T00:00:00Z'}, 'postDrain': {'state': 'idle'}}}}",
                nc_status_text,
                "bootstrap    unknown\nnode         -\ninstance     -, -, -, -\n"
                "nodeclaim    -\ndrain        evicting\n"
                "hooks        waits for nodeclaimd-pre-drain.target, since 2024-01-01T00:00:00Z; "
                "systemctl list-jobs names its units\n");
}

/* A drain as `nodeclaimd status` shows its pods. */
static char *status_of(const char *script) {
    const struct nc_notice notices[_NC_SOURCE_MAX] = {0};
    nc_auto_value struct nc_value *status = nc_value_new_map();
    struct script s = script_run(script);
    struct nc_lifecycle_view view = {
        .notices = notices, .leading = -1, .phase = NC_LIFECYCLE_EVICTING, .drain_rules = s.rules};
    struct nc_buf out = NC_BUF_INIT;

    nc_drain_summarize(s.drain, &s.rules, s.now_usec, &view.drain);
    nc_value_set(status, "drain", nc_drain_report_view(&view, s.drain, s.now_usec, NULL));
    nc_status_text(status, &out);
    drop_marks(out.data);
    script_done(&s);
    return nc_buf_steal(&out);
}

static void test_each_reason(void **state) {
    static const struct {
        const char *script, *status;
    } rows[] = {
        {"see deleted\nlisted\nat 0\nanswer evict deleted away\nrules t=30\n"
         "at 1\nanswer mark deleted accepted\nat 2\nanswer delete deleted accepted\nrules\n"
         "see budget\nsee budgets\nsee namespace\nsee refused\nsee failed\nsee evicted of=y\n"
         "see busy\nsee away\nsee later tier=2\nsee kept never\nsee replaced waits\n"
         "see ended ended\nsee static mirror\nsee agent daemon\nsee proxy daemon tolerates\n"
         "see stuck del=-61/30\nsee ending del=30/30\nrules replaced=600\nat 2.3\n"
         "see requested\nsee room\nat 2.5\nanswer evict budget budget "
         "budget=pdb-1\n"
         "answer evict budgets budgets\nanswer evict namespace namespace\n"
         "answer evict refused refused\nanswer evict failed failed\n"
         "answer evict evicted accepted\nanswer evict busy busy\nanswer evict away away\n"
         "rules max=1 replaced=600 cordon=-5\nat 2.8\nsee back of=y tolerates created=3\nsee new",
         "drain        evicting, 16 of 16 pods remain, 3 leaving, 1 force-deleted, 1 kept by "
         "do-not-disrupt, 5 blocked, 1 waiting for a replacement, 1 put back, 1 that should "
         "have ended, waits without end, since 1970-01-12T13:46:42Z: no deadline is in force\n"
         "blocked      ns/back, it is put back on this node\n"
         "             ns/budget, budget pdb-1, since 1970-01-12T13:46:42Z, blocked by a "
         "PodDisruptionBudget, says 'budget'\n"
         "             ns/budgets, since 1970-01-12T13:46:42Z, blocked by more than one "
         "PodDisruptionBudget, says 'budgets'\n"
         "             ns/failed, since 1970-01-12T13:46:42Z, the API server failed to evict it, "
         "says 'failed'\n"
         "             ns/kept, kept by do-not-disrupt\n"
         "             ns/namespace, since 1970-01-12T13:46:42Z, its namespace is terminating, "
         "says 'namespace'\n"
         "             ns/refused, since 1970-01-12T13:46:42Z, refused by an authorizer, a policy "
         "or a webhook, says "
         "'refused'\n"
         "             ns/replaced, waits for its replacement\n"
         "             ns/stuck, since 1970-01-12T13:45:39Z, should have ended more than a minute "
         "ago, says its grace period is over, kubelet has not reported its end\n"
         "             remedy: mend that budget's pods, or change it (kubectl get pdb); or, "
         "without asking a budget, delete the pod, or nodeclaimd drain --deadline TIME\n"
         "pods         ns/agent, its DaemonSet would put it back\n"
         "             ns/away, in back-off, the API server did not answer\n"
         "             ns/busy, in back-off after 429\n"
         "             ns/deleted, not yet terminating, force-deleted "
         "1970-01-12T13:46:42Z\n"
         "             ns/ended, has ended\n"
         "             ns/ending, terminating, its grace period runs, until 1970-01-12T13:47:10Z\n"
         "             ns/evicted, not yet terminating, evicted 1970-01-12T13:46:42Z\n"
         "             ns/new, bound a moment ago\n"
         "             ns/proxy, tolerates the disruption taint\n"
         "             ns/requested, its eviction is requested\n"
         "             ns/room, waits for the evictions in flight\n"
         "             ns/static, mirror pod of kubelet\n"
         "             ns/later, waits for an earlier tier\n"},
        {"see held del=-10/0 finalizer\nsee silent del=-10/30",
         "drain        evicting, 2 of 2 pods remain, 2 blocked\n"
         "blocked      ns/held, since 1970-01-12T13:46:30Z, has ended, a finalizer holds it\n"
         "             ns/silent, since 1970-01-12T13:46:30Z, its grace period is over, kubelet "
         "has "
         "not reported its end\n"
         "             remedy: ask the finalizer's owner: kubectl get pod -o yaml names it\n"
         "             remedy: journalctl -u kubelet -u containerd, on the node\n"},
        {"rules t=100 karpenter\nsee late del=300/29\nsee forced grace=200\n"
         "see left tolerates",
         "drain        evicting, 3 of 3 pods remain, 1 leaving\n"
         "pods         ns/forced, its force-delete time has come\n"
         "             ns/late, terminating beyond the force-delete time, with 29 of 30 s, until "
         "1970-01-12T13:51:40Z\n"
         "             ns/left, left to Karpenter until its force-delete time, next evict, at "
         "1970-01-12T13:47:49Z\n"},
        {"rules t=30\nsee a\ntried\nat 0\nanswer mark a accepted\nat 0\nanswer delete a "
         "refused\nrules",
         "drain        evicting, 1 of 1 pods remain, 1 blocked, waits without end, since "
         "1970-01-12T13:46:40Z: no deadline is in force\n"
         "blocked      ns/a, since 1970-01-12T13:46:40Z, its deletion is refused or fails, says "
         "'refused', next try 1970-01-12T13:46:40Z\n"
         "             remedy: mend what the answer names; or delete the pod, which asks no "
         "budget\n"},
        {"rules watch\nsee web", "drain        evicting, 1 of 1 pods remain\n"
                                 "pods         ns/web, nodeclaimd evicts no pods yet\n"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *text = status_of(rows[i].script);
        assert_non_null(strstr(text, "drain  "));
        assert_string_equal(strstr(text, "drain  "), rows[i].status);
    }
    for (enum nc_pod_reason r = NC_POD_REASON_NONE + 1; r < _NC_POD_REASON_MAX; r++) {
        bool is_shown = r == NC_POD_REASON_GONE; /* it is not there any more */
        for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
            is_shown = is_shown || strstr(rows[i].status, nc_pod_reason_text(r));
        if (!is_shown)
            fail_msg("no pod shows: %s", nc_pod_reason_text(r));
    }
}

static void test_timeline(void **state) {
    (void)state;
    assert_text(draining, print_timeline,
                "drain, begun 2024-01-01T00:10:00Z, for spot, notice s1\n"
                "+    0.000 s  signalling       1.000 s  #.......................................\n"
                "+    1.000 s  evicting        40.000 s  ########################################\n"
                "+   41.000 s  drained          0.000 s  ........................................\n"
                "a/b                          no, +1 min 15 s force-delete time\n"
                "and 11 more pods\n"
                "+    0.000 s  notice             spot\n"
                "+    1.000 s  cordon\n"
                "+  105.000 s  force-delete time  all pods\n"
                "+  120.000 s  deadline           the machine ends\n");
    /* Where the moment is known more exactly it is told so; one that is absurd is not trusted. */
    assert_text(
        "{'drain': {'history': [{'phase': 'signalling', 'at': '2024-01-01T00:00:00Z',"
        " 'atUsec': 1704067200250000}, {'phase': 'evicting', 'at': '2024-01-01T00:00:00Z',"
        " 'atUsec': 1704067200262000}, {'phase': 'drained', 'at': '2024-01-01T00:00:02Z',"
        " 'atUsec': -5}]}}",
        print_timeline,
        "drain, begun 2024-01-01T00:00:00Z\n"
        "+    0.000 s  signalling       0.012 s  #.......................................\n"
        "+    0.012 s  evicting         1.738 s  ########################################\n"
        "+    1.750 s  drained          0.000 s  ........................................\n");
    /* Ended: the last one is shown, without what ended it. */
    assert_text(
        "{'drain': {'history': [{'phase': 'reported', 'at': '2024-01-01T00:00:00Z'},"
        " {'phase': 'idle', 'at': '2024-01-01T00:00:10Z'}]}}",
        print_timeline,
        "drain, begun 2024-01-01T00:00:00Z\n"
        "+    0.000 s  reported        10.000 s  ########################################\n");
    assert_text("{'drain': {'history': [{'phase': 'idle', 'at': '2024-01-01T00:00:10Z'}]}}",
                print_timeline, "no phases are known\n");
}

/* Both of a drain that is blocked for a minute: it has lasted until now. */
static void test_in_progress(void **state) {
    static const char json[] = "{'drain': {'source': 'request', 'history':"
                               " [{'phase': 'cordoning', 'at': '2024-01-01T00:00:00Z'},"
                               " {'phase': 'evicting', 'at': '2024-01-01T00:00:20Z'}]}}";

    (void)state;
    assert_text(
        json, print_timeline_now,
        "drain, begun 2024-01-01T00:00:00Z, for request\n"
        "+    0.000 s  cordoning       20.000 s  ##########..............................\n"
        "+   20.000 s  evicting        60.000 s  ..........##############################\n");
    assert_text(
        json, print_timeline,
        "drain, begun 2024-01-01T00:00:00Z, for request\n"
        "+    0.000 s  cordoning       20.000 s  ########################################\n"
        "+   20.000 s  evicting         0.000 s  ........................................\n");
}

static void test_polls(void **state) {
    (void)state;
    assert_text("{'daemon': {'connected': true, 'imds':"
                " {'spot': {'state': 'failing', 'error': 'no token', 'remedy': 'wait'},"
                " 'rebalance': {'state': 'failing', 'error': 'no token', 'remedy': 'wait'},"
                " 'autoscaling': {'state': 'ok', 'error': ''},"
                " 'maintenance': {'state': 'failing', 'error': 'HTTP 500'}}}}",
                nc_status_text,
                "node         -\n"
                "daemon       connected, shutdown inhibitor unknown, running since -\n"
                "imds         spot failing (no token), rebalance failing, autoscaling ok, "
                "maintenance failing (HTTP 500)\n"
                "             remedy: wait\n");
}

/* `since` has whole seconds, the history more. */
static void test_moment_of_the_cordon(void **state) {
    (void)state;
    assert_text(
        "{'drain': {'cordon': {'since': '2024-01-01T00:00:01Z'}, 'history':"
        " [{'phase': 'cordoning', 'at': '2024-01-01T00:00:01Z', 'atUsec': 1704067201100000},"
        " {'phase': 'evicting', 'at': '2024-01-01T00:00:01Z', 'atUsec': 1704067201350000}]}}",
        print_timeline,
        "drain, begun 2024-01-01T00:00:01Z\n"
        "+    0.000 s  cordoning        0.250 s  ########################################\n"
        "+    0.250 s  evicting         0.000 s  ........................................\n"
        "+    0.250 s  cordon\n");
}

static void test_svg(void **state) {
    nc_auto_free char *text = text_of(draining, draw_svg);
    nc_auto_free char *none = text_of("{}", draw_svg);

    (void)state;
    assert_true(nc_starts_with(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" "));
    assert_true(nc_ends_with(text, "</svg>\n"));
    assert_has(text, " role=\"img\">\n<title>");
    assert_has(text, ">Drain of n1 (spot)<");
    assert_has(text, ">2024-01-01 00:10:00 UTC: drained after 41 s, 7 of 12 pods remain");
    /* Two minutes to the deadline are 675 pixels. */
    assert_has(text, ">evicting</text>\n<rect x=\"180\" y=\"114\" width=\"225\" ");
    assert_has(text, ">40 s</text>");
    assert_has(text, ">at +41 s</text>");
    assert_has(text, ">1 min 30 s</text>"); /* the grid */
    assert_has(text, "class=\"grid\"/>\n<path d=\"M850.5 ");
    assert_has(text, ">a/b</text>");
    assert_has(text, ">no, +1 min 15 s force-delete time</text>");
    assert_has(text, ">and 11 more pods</text>");
    assert_has(text, ">force-delete time of</text>");
    assert_has(text, ">force-delete time of all pods</text>"); /* the legend */
    assert_has(text, ">+1 min 45 s</text>");
    assert_null(strstr(text, ">force-delete<"));
    assert_null(strstr(text, "2023"));
    assert_has(none, "no phases are known");
}

static void draw_svg_now(const struct nc_value *status, struct nc_buf *out) {
    nc_timeline_svg(status, (uint64_t)(1704067200 + 80) * 1000000, out);
}

/* Letters of 12 px, with 2 px around them, below the bar of 16 px that is drawn before them. */
static void assert_clear_of_bars(const char *svg, const char *said) {
    const char *at = strstr(svg, said), *bar = NULL;
    unsigned y = 0, bar_y = 0;

    assert_non_null(at);
    for (const char *p = strstr(svg, "<rect"); p && p < at; p = strstr(p + 1, "<rect"))
        bar = p;
    while (at > svg && *at != '<')
        at--;
    assert_int_equal(sscanf(at, "<text x=\"%*u\" y=\"%u", &y), 1);
    assert_non_null(bar);
    assert_int_equal(sscanf(bar, "<rect x=\"%*u\" y=\"%u", &bar_y), 1);
    assert_in_range(y, bar_y + 16 + 2 + 12, 1000);
}

/* A pod that was evicted, one that a budget kept until its force-delete time, one that is kept. */
static void test_pod_rows(void **state) {
    static const char json[] =
        "{'drain': {'pods': {'total': 5}, 'forceDeleteAt': '2024-01-01T00:01:45Z', 'history': "
        "[{'phase': 'evicting',"
        " 'at': '2024-01-01T00:00:00Z'}], 'podHistory': ["
        "{'pod': 'a/web', 'evictedUsec': 1704067201000345, 'goneUsec': 1704067203000000},"
        "{'pod': 'a/db', 'refusedUsec': 1704067201000000, 'refusal': 'Eviction of pod a/db refused"
        " by PodDisruptionBudget pdb', 'forceDeletedUsec': 1704067275000000,"
        " 'goneUsec': 1704067280000000}], 'blocked': [{'pod': 'a/held',"
        " 'since': '2024-01-01T00:00:02Z', 'message': 'kept by do-not-disrupt',"
        " 'forceDeleteAt': '2024-01-01T00:01:45Z'}, {'pod': 'a/kept', 'reason': 'do-not-disrupt',"
        " 'forceDeleteAt': '2024-01-01T00:01:46Z'}]}}";
    static const char tree[] = "\"pods\":[{\"pod\":\"a/web\",\"refusal\":null,\"refused\":null,"
                               "\"keptUntil\":null,\"evicted\":\"2024-01-01T00:00:01Z\","
                               "\"forceDeleted\":null,\"gone\":\"2024-01-01T00:00:03Z\"},";
    nc_auto_free char *text = text_of(json, draw_svg_now);
    nc_auto_free char *of_programs = text_of(json, print_tree);
    nc_auto_free char *of_people = text_of(json, print_timeline_now);

    (void)state;
    assert_has(text, ">a/web</text>");
    assert_has(text, ">+1 s evicted, +3 s gone</text>");
    assert_has(text, ">pods:</text>");
    assert_clear_of_bars(text, ">+1 s refused ");
    assert_has(text, ">+1 s refused by PodDisruptionBudget pdb, +1 min 15 s force-deleted "
                     "(its grace ends");
    assert_has(text, "min 20 s gone</text>");
    assert_has(text, ">+2 s kept by do-not-disrupt, +1 min 45 s force-delete time</text>");
    assert_has(text, "class=\"kept\"");
    assert_has(text, ">kept by do-not-disrupt, +1 min 46 s force-delete time</text>");
    assert_has(text, ">and 1 more pod</text>");
    assert_has(of_programs, tree);
    assert_has(of_people,
               "\na/web                        +1 s evicted, +3 s gone\n"
               "a/db                         +1 s refused by PodDisruptionBudget pdb, "
               "+1 min 15 s force-deleted (its grace ends at +1 min 45 s), +1 min 20 s gone\n"
               "a/held                       +2 s kept by do-not-disrupt, "
               "+1 min 45 s force-delete time\n"
               "a/kept                       kept by do-not-disrupt, +1 min 46 s force-delete "
               "time\nand 1 more pod\n");
}

/* The line of the force-delete time is 590 of 675 pixels from the left. */
static void test_text_beside_a_line(void **state) {
    static const char json[] =
        "{'drain': {'forceDeleteAt': '2024-01-01T00:01:45Z', 'deadline': '2024-01-01T00:02:00Z',"
        " 'history': [{'phase': 'evicting', 'at': '2024-01-01T00:00:00Z'}], 'podHistory': ["
        "{'pod': 'a/db', 'refusedUsec': 1704067201000000, 'refusal': 'Eviction of pod a/db refused"
        " by PodDisruptionBudget database', 'forceDeletedUsec': 1704067275000000,"
        " 'goneUsec': 1704067280000000}]}}";
    nc_auto_free char *text = text_of(json, draw_svg_now);

    (void)state;
    assert_has(text, "<path d=\"M765.5 ");
    assert_has(text, " force-deleted (its grace</text>");
    assert_has(text, ">ends at +1 min 45 s), +1 min 20 s gone</text>");
}

/* A deadline that is far away is named, and leaves the bars their room. */
static void test_svg_scale(void **state) {
    static const char json[] = "{'drain': {'deadline': '2024-01-15T00:00:00Z', 'history':"
                               " [{'phase': 'evicting', 'at': '2024-01-01T00:00:00Z'},"
                               " {'phase': 'drained', 'at': '2024-01-01T00:00:07Z'}]}}";
    nc_auto_free char *text = text_of(json, draw_svg);

    (void)state;
    assert_has(text, "width=\"675\" ");
    assert_has(text, ">+14 d, the machine ends</text>");
    assert_has(text, "0 -10z\" class=\"deadline end\"");
}

/* Everything that is said is there, on as many lines as it takes. */
static void test_svg_long_text(void **state) {
    static const char head[] = "{'outcome': 'failed', 'phases': [{'name': 'plan', 'outcome':"
                               " 'failed', 'attempts': 1, 'error': {'class': 'host', 'message': '";
    struct nc_buf json = NC_BUF_INIT;
    unsigned words = 0;

    (void)state;
    (void)nc_buf_puts(&json, head);
    for (unsigned i = 100; i < 200; i++)
        (void)nc_buf_printf(&json, "word%u ", i);
    (void)nc_buf_puts(&json, "'}}]}");
    nc_auto_free char *text = text_of(json.data, draw_svg);
    for (const char *p = text; (p = strstr(p, "word")); p++)
        words++;
    assert_int_equal(words, 100);
    assert_has(text, ">host: word100 ");
    for (char *p = strstr(text, "<text "), *end; p; p = strstr(end, "<text ")) {
        end = strstr(p, "</text>");
        assert_true(end - p < 200);
    }
    nc_buf_done(&json);
}

/* A phase in progress has lasted until now, or, if nobody carries it on, nobody knows how long. */
static void test_tree(void **state) {
    static const char json[] =
        "{'outcome': 'failed', 'started': '2024-01-01T00:00:00Z', 'node': 'n1', 'phases':"
        " [{'name': 'imds', 'outcome': 'succeeded', 'attempts': 1, 'durationUsec': 5},"
        " {'name': 'config', 'outcome': 'failed', 'attempts': 2, 'durationUsec': 7,"
        " 'error': {'class': 'config', 'message': 'm'}}],"
        " 'daemon': {'apiError': 'refused'}, 'drain': {'source': 'spot', 'history':"
        " [{'phase': 'evicting', 'at': '2024-01-01T00:00:00Z'}]}}";
    static const char boot[] =
        "{\"schema\":1,\"bootstrap\":{\"node\":\"n1\",\"started\":\"2024-01-01T00:00:00Z\","
        "\"durationUsec\":12,\"outcome\":\"failed\",\"phases\":[{\"name\":\"imds\","
        "\"startUsec\":0,\"durationUsec\":5,\"error\":null,\"outcome\":\"succeeded\","
        "\"attempts\":1},{\"name\":\"config\",\"startUsec\":5,\"durationUsec\":7,\"error\":"
        "{\"class\":\"config\",\"message\":\"m\",\"remedy\":null},\"outcome\":\"failed\","
        "\"attempts\":2}],\"moments\":[],\"instance\":null},\"drain\":{\"node\":\"n1\","
        "\"started\":\"2024-01-01T00:00:00Z\",\"durationUsec\":%u,\"outcome\":\"evicting\","
        "\"phases\":[{\"name\":\"evicting\",\"startUsec\":0,\"durationUsec\":%u,\"error\":"
        "{\"class\":null,\"message\":\"refused\",\"remedy\":null}}],\"moments\":[],"
        "\"source\":\"spot\",\"id\":null,\"pods\":[]}}\n";
    nc_auto_free char *stopped = nc_asprintf(boot, 0, 0), *going = nc_asprintf(boot, 9, 9);

    (void)state;
    assert_text(json, print_tree_of_the_past, stopped);
    assert_text(json, print_tree, going);
    assert_text("{}", print_tree, "{\"schema\":1,\"bootstrap\":null,\"drain\":null}\n");
}

/* The gate is a part of the boot: when it was shut, when it opened. */
static void test_gate(void **state) {
    static const char json[] =
        "{'outcome': 'succeeded', 'started': '2024-01-01T00:00:00Z', 'phases': [{'name': 'imds',"
        " 'outcome': 'succeeded', 'attempts': 1, 'durationUsec': 20000000}], 'fit': {'fit': true,"
        " 'reason': 'NothingMissing', 'message': 'm', 'missing': [], 'since': "
        "'2024-01-01T00:00:01Z', 'opened': '2024-01-01T00:00:30Z'}}";
    nc_auto_free char *tree = text_of(json, print_tree), *svg = text_of(json, draw_svg);

    (void)state;
    assert_has(tree, "\"moments\":[{\"kind\":\"gate\",\"of\":\"shut\",\"at\":\"2024-01-01T00:00:"
                     "01Z\",\"afterUsec\":1000000,\"budget\":null,\"message\":\"m\"},{\"kind\":"
                     "\"gate\",\"of\":\"open\",\"at\":\"2024-01-01T00:00:30Z\",\"afterUsec\":"
                     "30000000,");
    assert_has(svg, "+1 s, shut<");
    assert_has(svg, "+30 s, open<");
}

/* Every '<' opens or closes one of the elements that are drawn, and all are closed. */
static void assert_well_formed(const char *text) {
    static const char *const known[] = {"<svg ",   "</svg>",  "<style>",  "</style>", "<text ",
                                        "</text>", "<title>", "</title>", "<rect ",   "<path "};
    int open = 0;

    for (const char *p = strchr(text, '<'); p; p = strchr(p + 1, '<')) {
        bool is_known = false;
        for (size_t i = 0; i < NC_ARRAY_SIZE(known); i++)
            is_known |= nc_starts_with(p, known[i]);
        if (!is_known)
            fail_msg("%.40s", p);
        open += p[1] == '/' ? -1 : strchr(p, '>')[-1] != '/';
    }
    assert_int_equal(open, 0);
    for (const char *p = text; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\n') || *p == 0x7f
            || (*p == '&' && !nc_starts_with(p, "&lt;") && !nc_starts_with(p, "&gt;")
                && !nc_starts_with(p, "&amp;") && !nc_starts_with(p, "&quot;")
                && !nc_starts_with(p, "&#39;")))
            fail_msg("%.40s", p);
}

static void test_hostile(void **state) {
    static const char odd[] =
        "{'node': '</text><script>&\\\"\\u0027\\u001b[2J\\uffff\\u202e\\u2066\\u200f\\u061c.', "
        "'phases':"
        " [{'name': '<x>', 'outcome': '\\u0022/><', 'durationUsec': 9007199254740991},"
        "  {'durationUsec': 9007199254740991}], 'daemon': {'imds': {'\\u001b<': {'state': 7,"
        " 'error': '\\n<'}}, 'inhibitor': [], 'apiError': '\\u0007'},"
        " 'drain': {'phase': '<', 'deadline': '9999-12-31T23:59:59Z', 'sources': [1, {'source':"
        " '<script>', 'noticed': 'x'}, {'source': '&', 'noticed': '1970-01-01T00:00:01Z'}],"
        " 'cordon': 5, 'blocked': [{'pod': '<', 'forceDeleteAt': '2024-01-01T00:00:09Z'}, 7],"
        " 'history': [1, {'phase': '<b>', 'at': '2024-01-01T00:00:00Z'}, {'at': '2023-01-01'},"
        " {'phase': '\\u001b', 'at': '1970-01-01T00:00:00Z'}]}}";
    static const char *const turns[] = {"\u202e", "\u2066", "\u200f", "\u061c"};
    static const char *const whole[] = {"7", "[]", "{'drain': []}", "{'drain': {'history': 1}}",
                                        "{'drain': {'history': [[], null]}}"};
    nc_auto_free char *svg = text_of(odd, draw_svg);
    nc_auto_free char *status = text_of(odd, nc_status_text);
    nc_auto_free char *timeline = text_of(odd, print_timeline);

    (void)state;
    assert_well_formed(svg);
    assert_non_null(strstr(svg, "&lt;/text&gt;&lt;script&gt;&amp;&quot;&#39; [2J "));
    assert_null(strstr(svg, "\xef\xbf\xbf"));
    for (const char *p = status; *p; p++)
        assert_true((unsigned char)*p >= 0x20 || *p == '\n');
    for (const char *p = timeline; *p; p++)
        assert_true((unsigned char)*p >= 0x20 || *p == '\n');
    for (size_t i = 0; i < NC_ARRAY_SIZE(turns); i++)
        if (strstr(svg, turns[i]) || strstr(status, turns[i]) || strstr(timeline, turns[i]))
            fail_msg("%zu turns a line around", i);
    for (size_t i = 0; i < NC_ARRAY_SIZE(whole); i++) {
        nc_auto_free char *one = text_of(whole[i], draw_svg);
        nc_auto_free char *two = text_of(whole[i], print_timeline);
        nc_auto_free char *three = text_of(whole[i], nc_status_text);
        nc_auto_free char *four = text_of(whole[i], print_tree);
        assert_well_formed(one);
        assert_true(strlen(two) > 0 && strlen(three) > 0 && strlen(four) > 0);
    }
}

static void test_too_much(void **state) {
    struct nc_buf json = NC_BUF_INIT;

    (void)state;
    (void)nc_buf_puts(&json, "{\"drain\":{\"sources\":[");
    for (int i = 0; i < 5000; i++)
        (void)nc_buf_printf(&json, "%s{\"source\":\"s\",\"noticed\":\"2024-01-01T00:00:00Z\"}",
                            i ? "," : "");
    (void)nc_buf_puts(&json, "],\"blocked\":[");
    for (int i = 0; i < 5000; i++)
        (void)nc_buf_printf(&json, "%s{\"pod\":\"p\",\"forceDeleteAt\":\"2024-01-01T00:00:00Z\"}",
                            i ? "," : "");
    (void)nc_buf_puts(&json, "],\"podHistory\":[");
    for (int i = 0; i < 5000; i++)
        (void)nc_buf_printf(&json, "%s{\"pod\":\"p%d\",\"refusedUsec\":%d}", i ? "," : "", i, i);
    (void)nc_buf_puts(&json, "],\"history\":[");
    for (int i = 0; i < 5000; i++)
        (void)nc_buf_printf(&json, "%s{\"phase\":\"p\",\"at\":\"2024-01-01T00:00:00Z\"}",
                            i ? "," : "");
    (void)nc_buf_puts(&json, "]}}");
    nc_auto_free char *svg = text_of(json.data, draw_svg);
    nc_auto_free char *status = text_of(json.data, nc_status_text);
    nc_auto_free char *timeline = text_of(json.data, print_timeline);
    assert_well_formed(svg);
    assert_true(strlen(svg) < 65536);
    assert_true(strlen(status) < 16384);
    assert_true(strlen(timeline) < 16384);
    nc_buf_done(&json);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_status),
        cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_in_progress),
        cmocka_unit_test(test_svg),
        cmocka_unit_test(test_svg_scale),
        cmocka_unit_test(test_svg_long_text),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_too_much),
        cmocka_unit_test(test_each_reason),
        cmocka_unit_test(test_pods_in_an_outage),
        cmocka_unit_test(test_refused_before_the_force_delete_time),
        cmocka_unit_test(test_hooks),
        cmocka_unit_test(test_pod_rows),
        cmocka_unit_test(test_text_beside_a_line),
        cmocka_unit_test(test_gate),
        cmocka_unit_test(test_moment_of_the_cordon),
        cmocka_unit_test(test_polls),
    };

    return run_group(tests, NULL, NULL);
}
