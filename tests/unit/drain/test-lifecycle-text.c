/*
 * What the life of a node says and keeps: the annotation, messages, what people are shown, the
 * saved state and how it is refused.
 */
#include "groups.h"
#include "life-world.h"

#include <errno.h>

#include "nc/drain-report.h"
#include "nc/mem.h"

static void begin(struct life_world *w, const char *const *events) {
    life_world_init(w);
    for (unsigned i = 0; events[i]; i++)
        (void)life_do(w, 10 * i, events[i]);
}

static void test_annotation(void **state) {
    static const char *const events[] = {"begin",          "notice spot +120", "ok",   "ok",
                                         "pods a:30 b:30", "synced",           "no b", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 2000, "tick");
    assert_string_equal(w.last_status,
                        "{\"id\":\"spot-1\",\"source\":\"spot\",\"phase\":\"Evicting\","
                        "\"deadline\":\"2026-01-02T03:06:05Z\",\"total\":2,"
                        "\"remaining\":2,\"blocked\":[\"ns/b\"],\"reasons\":[\"budget\"],"
                        "\"forceDeleteAt\":[\"2026-01-02T03:05:20Z\"],"
                        "\"updated\":\"2026-01-02T03:04:07Z\"}");
    assert_string_equal(w.write.w.cordon ? w.write.w.cordon : "", "");
    life_world_done(&w);
}

/* Little changes where deletions are refused: who reads it sees that the daemon runs. */
static void test_annotation_at_each_force_delete_time(void **state) {
    static const char *const events[] = {
        "begin", "notice spot +120", "ok", "ok", "pods a:30 b:20", "synced", "no a", "no b", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 75000, "tick");
    for (unsigned ms = 75100; ms < 84000; ms += 1000) {
        (void)life_do(&w, ms, "forbidden-pod a");
        if (w.write.is_in_flight)
            (void)life_do(&w, ms + 20, "ok");
    }
    assert_non_null(strstr(w.last_status, "\"phase\":\"Forcing\""));
    /* and that a deadline does not end it */
    assert_non_null(strstr(w.last_status, "\"reasons\":[\"deletion\","));
    (void)life_do(&w, 85010, "tick");
    assert_non_null(strstr(w.last_status, "\"updated\":\"2026-01-02T03:05:30Z\""));
    life_world_done(&w);
}

static void test_annotation_before_the_pods_are_known(void **state) {
    static const char *const events[] = {"begin", "notice request drain", "ok", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    assert_string_equal(w.last_status, "{\"id\":\"request-1\",\"source\":\"request\","
                                       "\"phase\":\"Cordoned\",\"deadline\":null,\"total\":null,"
                                       "\"remaining\":null,\"blocked\":[],"
                                       "\"updated\":\"2026-01-02T03:04:05Z\"}");
    assert_string_equal(w.write.w.cordon,
                        "{\"id\":\"request-1\",\"since\":\"2026-01-02T03:04:05Z\"}");
    life_world_done(&w);
}

/* Whoever reads it does nothing either, until the time has come. */
static void test_annotation_of_what_is_only_reported(void **state) {
    static const char *const events[] = {"begin", "notice maintenance +3600 begin+2700", "ok",
                                         NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    assert_string_equal(w.last_status, "{\"id\":\"maintenance-1\",\"source\":\"maintenance\","
                                       "\"policy\":\"report\",\"phase\":\"Detected\","
                                       "\"deadline\":\"2026-01-02T04:04:05Z\",\"total\":null,"
                                       "\"remaining\":null,\"blocked\":[],"
                                       "\"updated\":\"2026-01-02T03:04:05Z\"}");
    (void)life_do(&w, 2701000, "tick");
    (void)life_do(&w, 2701010, "node");
    assert_non_null(strstr(w.last_status, "\"phase\":\"Cordoned\""));
    assert_null(strstr(w.last_status, "policy"));
    life_world_done(&w);
}

/* What is done about it is stated where it is less than a drain, by whatever that was capped. */
static void test_annotation_of_what_is_only_cordoned(void **state) {
    static const char *const ways[] = {"rules spot=cordon", "rules mode=observe"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(ways); i++) {
        struct life_world w;
        life_world_init(&w);
        (void)life_do(&w, 0, ways[i]);
        (void)life_do(&w, 0, "begin");
        (void)life_do(&w, 10, "notice spot +120");
        assert_non_null(strstr(w.last_status, "\"policy\":\"cordon\",\"phase\":\"Detected\""));
        (void)life_do(&w, 20, "ok");
        assert_non_null(strstr(w.last_status, "\"policy\":\"cordon\",\"phase\":\"Cordoned\""));
        life_world_done(&w);
    }
}

/* A machine that comes back keeps its NodeClaim. */
static void test_annotation_of_what_returns(void **state) {
    static const struct {
        const char *notice;
        bool returns;
    } rows[] = {
        {"notice maintenance +600 action=system-reboot", true},
        {"notice maintenance +600 action=instance-stop", false},
        {"notice spot +120 action=hibernate", true},
        {"notice spot +120 action=terminate", false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct life_world w;
        life_world_init(&w);
        (void)life_do(&w, 0, "begin");
        (void)life_do(&w, 10, rows[i].notice);
        assert_int_equal(strstr(w.last_status, "\"returns\":true") != NULL, rows[i].returns);
        assert_null(strstr(w.last_status, "policy"));
        life_world_done(&w);
    }
}

/* Names of any length: at most five, and never more than a KiB (life-world.c). */
static void test_annotation_is_short(void **state) {
    static const char *const events[] = {"begin", "notice request drain", "ok", "ok", NULL};
    char name[230];
    struct life_world w;

    (void)state;
    begin(&w, events);
    memset(name, 'n', sizeof(name) - 1);
    for (char c = 'a'; c < 'h'; c++) {
        name[sizeof(name) - 2] = c;
        name[sizeof(name) - 1] = '\0';
        nc_auto_free char *pods = nc_asprintf("pods %s:30", name);
        (void)life_do(&w, 100, pods);
    }
    (void)life_do(&w, 200, "synced");
    for (char c = 'a'; c < 'h'; c++) {
        name[sizeof(name) - 2] = c;
        nc_auto_free char *no = nc_asprintf("no %s", name);
        (void)life_do(&w, 300, no);
    }
    (void)life_do(&w, 5000, "tick");
    assert_non_null(strstr(w.last_status, "\"remaining\":7"));
    assert_non_null(strstr(w.last_status, "a\",\"ns/"));
    assert_null(strstr(w.last_status, "h\""));
    life_world_done(&w);
}

static void test_messages(void **state) {
    static const struct {
        const char *events[8], *expected;
    } rows[] = {
        {{"begin", "notice spot +120"},
         "EC2 interrupts this spot instance at 2026-01-02T03:06:05Z; policy=drain"},
        {{"begin", "notice request cordon word=Upgrade"},
         "A drain of this node was requested: Upgrade; policy=cordon"},
        {{"begin", "notice maintenance +3600 begin+2700"},
         "EC2 has scheduled maintenance of this instance at 2026-01-02T04:04:05Z; acted on from "
         "2026-01-02T03:49:05Z, or earlier by the longest grace period of a pod, until then: "
         "report"},
        {{"begin", "notice rebalance", "clear rebalance"},
         "interruption notice withdrawn: rebalance"},
        {{"begin", "notice request drain", "ok", "ok", "gone", "node uid=u2", "clear request"},
         "interruption notice ended, its Node was deleted: request"},
        {{"begin cordoned", "notice request cordon", "ok", "ok"},
         "Node cordoned by another client"},
        {{"begin", "notice request drain", "ok", "ok", "pods a:30", "synced", "no a"},
         "Pod ns/a may not leave: PodDisruptionBudget web: 'needs 3'; waiting without end since "
         "2026-01-02T03:04:05Z, for no deadline is known: mend that budget's pods, or change it "
         "(kubectl get pdb); or, without asking a budget, delete the pod, or request a deadline"},
        {{"begin", "notice request drain", "ok", "ok", "pods a:30", "synced", "refused-pod a"},
         "Pod ns/a may not leave: refused: 'needs 3'; waiting without end since "
         "2026-01-02T03:04:05Z, for no deadline is known: mend what the answer names; or, "
         "without asking a budget, delete the pod, or request a deadline"},
        {{"begin", "notice request drain +600", "ok", "ok", "pods a:30", "synced", "no a"},
         "Pod ns/a may not leave: PodDisruptionBudget web: 'needs 3'; it is deleted at "
         "2026-01-02T03:13:20Z"},
        {{"begin", "notice request drain +600", "ok", "ok", "pods a:3600 b:3600", "again b",
          "no a"},
         "Pod ns/a may not leave: PodDisruptionBudget web: 'needs 3'; its force-delete time has "
         "come"},
        {{"begin", "notice request drain", "ok", "ok", "kept a:30", "synced"},
         "Pod ns/a may not leave: kept by do-not-disrupt; waiting without end since "
         "2026-01-02T03:04:05Z, for no deadline is known: kubectl annotate pod POD "
         "karpenter.sh/do-not-disrupt-; or, "
         "without asking a budget, delete the pod, or request a deadline"},
        {{"begin", "notice request drain", "ok", "ok", "kept-for-hour a:30", "synced"},
         "Pod ns/a may not leave: kept by do-not-disrupt; it is evicted at 2026-01-02T04:04:05Z"},
        {{"begin", "notice request drain +600", "ok", "ok", "kept-for-hour a:30", "synced"},
         "Pod ns/a may not leave: kept by do-not-disrupt; it is deleted at 2026-01-02T03:13:20Z"},
        {{"begin", "notice request drain +600", "ok", "ok", "kept a:30", "kept b:30", "synced"},
         "Pod ns/a may not leave, nor b: kept by do-not-disrupt; it is deleted at "
         "2026-01-02T03:13:20Z"},
        {{"begin", "notice request drain +600", "ok", "ok", "pods a:30", "synced",
          "forbidden-pod a"},
         "Pod ns/a may not leave: refused: 'needs 3'; it is deleted at 2026-01-02T03:13:20Z; allow "
         "create of pods/eviction to group system:nodes"},
        {{"begin", "notice request drain", "ok", "ok", "pods a:30", "synced", "forbidden-pod a"},
         "Pod ns/a may not leave: refused: 'needs 3'; waiting without end since "
         "2026-01-02T03:04:05Z, for no deadline is known: allow create of pods/eviction to group "
         "system:nodes; or, without asking a budget, delete the pod, or request a deadline"},
        {{"begin", "notice spot +20", "ok", "ok", "pods a:3 b:60", "again b"},
         "The force-delete time has come for ns/b with 17 of 60 s (its eviction was not carried "
         "out)"},
        {{"begin", "notice spot +0", "ok", "ok", "pods a:30", "again a"},
         "The force-delete time has come for ns/a (its eviction was not carried out)"},
        {{"begin", "notice request drain", "ok", "refused", "refused"},
         "The API server refuses the cordon: the node takes new pods; it is tried again, and "
         "evictions wait for it: kubectl cordon NODE lets them go on; HTTP 403 Forbidden"},
        {{"begin", "notice spot +120", "ok", "refused", "refused"},
         "The API server refuses the cordon: the node takes new pods; it is tried again; HTTP 403 "
         "Forbidden"},
        {{"begin", "notice request drain", "ok", "ok", "clear request", "node", "refused"},
         "Nothing ends this node any more, but the API server refuses to lift the cordon: it is "
         "tried again each minute; HTTP 403 Forbidden"},
        {{"begin cordoned", "notice request drain", "ok", "ok", "clear request", "node"},
         "The cordon stays: somebody else set it; kubectl uncordon lifts it, if nobody else wants "
         "it"},
        {{"begin", "notice request drain", "ok", "ok", "node -cordoned", "node cordoned"},
         "Node cordoned by another client: the drain goes on"},
        {{"begin", "notice deletion", "ok", "refused", "ok"},
         "Node cordoned; the API server refuses the label that takes it off external load "
         "balancers"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct life_world w;
        begin(&w, rows[i].events);
        assert_string_equal(w.last_message, rows[i].expected);
        life_world_done(&w);
    }
}

/* That of the first refusal, not of the drain. */
static void test_blocked_since(void **state) {
    static const char *const events[] = {
        "begin", "notice request drain", "ok", "ok", "pods a:30", "synced", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 5000, "no a");
    assert_non_null(strstr(w.last_message, "waiting without end since 2026-01-02T03:04:10Z"));
    life_world_done(&w);
}

/* A request that had a deadline goes on without. */
static void test_blocked_after_the_deadline(void **state) {
    static const char *const events[] = {
        "begin", "notice request drain +20", "ok", "ok", "pods a:1", "synced", "no a", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 26000, "tick");
    assert_non_null(strstr(w.last_message, "that time has passed"));
    (void)life_do(&w, 57000, "tick");
    (void)life_do(&w, 57010, "no a");
    assert_non_null(strstr(w.last_message, "waiting without end since 2026-01-02T03:04:05Z, for "
                                           "the deadline has passed: mend that budget's pods"));
    life_world_done(&w);
}

/* The first is said at once; the others, which follow one after another, five seconds later. */
static void test_all_that_may_not_leave(void **state) {
    static const char *const events[] = {"begin",
                                         "notice request drain",
                                         "ok",
                                         "ok",
                                         "pods a:1 b:1 c:1 d:1 e:1 f:1 g:1 h:1",
                                         "synced",
                                         NULL};
    char no[] = "forbidden-pod a";
    struct life_world w;

    (void)state;
    begin(&w, events);
    for (char *name = &no[sizeof(no) - 2]; *name < 'i'; (*name)++)
        (void)life_do(&w, 100, no);
    assert_null(strstr(w.last_message, ", nor"));
    w.last_message[0] = '\0';
    (void)life_do(&w, 4800, "forbidden-pod c");
    assert_string_equal(w.last_message, "");
    (void)life_do(&w, 7300, "tick");
    (void)life_do(&w, 7400, "forbidden-pod c");
    assert_non_null(
        strstr(w.last_message, "Pod ns/c may not leave, nor a, b, d, e, f and 2 more: "));
    w.last_message[0] = '\0';
    (void)life_do(&w, 14000, "tick");
    (void)life_do(&w, 14100, "forbidden-pod c");
    assert_string_equal(w.last_message, "");
    life_world_done(&w);
}

/* A deadline that passes names what is to be allowed, too. */
static void test_failed_by_an_authorizer(void **state) {
    static const char *const events[] = {
        "begin",  "notice request drain +60", "ok",   "ok", "pods a:1 b:1",
        "synced", "forbidden-pod a",          "no b", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    for (unsigned s = 1; s < 70 && !strstr(w.last_message, "exceeded"); s++)
        (void)life_do(&w, s * 1000, "forbidden-pod a");
    assert_non_null(strstr(w.last_message, "drain deadline exceeded, pods remaining: 2"));
    assert_non_null(strstr(w.last_message, " of pods to group system:nodes"));
    life_world_done(&w);
}

static void test_report_of_a_refused_cordon(void **state) {
    static const char *const events[] = {
        "begin", "notice request drain", "ok", "refused", "refused", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    nc_auto_value struct nc_value *refused = nc_drain_report(w.life, w.now_usec, NULL);
    assert_true(nc_value_path(refused, "cordon.refused")->boolean);
    (void)life_do(&w, 2000, "tick");
    (void)life_do(&w, 2010, "ok");
    nc_auto_value struct nc_value *cordoned = nc_drain_report(w.life, w.now_usec, NULL);
    assert_false(nc_value_path(cordoned, "cordon.refused")->boolean);
    life_world_done(&w);
}

/* It is tried again each minute: what was mended meanwhile counts then. */
static void test_report_of_a_refused_release(void **state) {
    static const char *const events[] = {
        "begin", "notice request drain", "ok", "ok", "clear request", "node", "refused", "ok",
        NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    nc_auto_value struct nc_value *refused = nc_drain_report(w.life, w.now_usec, NULL);
    assert_string_equal(nc_value_path_string(refused, "phase"), "releasing");
    assert_string_equal(nc_value_path_string(refused, "at"), "2026-01-02T03:05:05Z");
    (void)life_do(&w, 70000, "tick");
    (void)life_do(&w, 70010, "ok");
    nc_auto_value struct nc_value *released = nc_drain_report(w.life, w.now_usec, NULL);
    assert_null(nc_value_path(released, "at"));
    life_world_done(&w);
}

/* Where kubelet has stopped, no pod ends: it is left behind as Karpenter does it, but not hidden.
 */
static void test_drained_beside_a_pod_that_does_not_end(void **state) {
    static const char *const events[] = {
        "begin", "notice request drain", "ok", "ok", "leaving a:0", "synced", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 59000, "tick");
    assert_string_equal(w.last_message, "Pods that do not end: ns/a (its grace period is over, "
                                        "kubelet has not reported its end); journalctl -u kubelet "
                                        "-u containerd, on the node");
    (void)life_do(&w, 62000, "tick"); /* the volumes are checked */
    (void)life_do(&w, 62010, "node");
    (void)life_do(&w, 68000, "tick");
    assert_string_equal(
        w.last_message,
        "No pods remaining, besides ns/a (its grace period is over, kubelet has not reported its "
        "end); evicted: 0, force-deleted: 0");
    life_world_done(&w);
}

/* Kubelet may have said so all the same. */
static void test_no_pod_hangs_in_an_outage(void **state) {
    static const char *const events[] = {
        "begin", "notice request drain", "ok", "ok", "leaving a:10", "synced", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    w.away_usec = LIFE_EPOCH_USEC + 5000000;
    (void)life_do(&w, 5000, "tick");
    (void)life_do(&w, 30000, "tick");
    w.away_usec = 0;
    (void)life_do(&w, 40000, "tick");
    (void)life_do(&w, 44000, "tick");
    assert_null(strstr(w.news.data ? w.news.data : "", "does not end"));
    (void)life_do(&w, 45000, "tick");
    assert_non_null(strstr(w.news.data, "Pod ns/a does not end"));
    life_world_done(&w);
}

static void test_drained_beside_volumes(void **state) {
    static const char *const events[] = {
        "begin volumes=2", "notice spot +55", "ok", "ok", "synced", "node", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 10000, "node");
    nc_auto_value struct nc_value *waits = nc_drain_report(w.life, w.now_usec, NULL);
    assert_int_equal(nc_value_path(waits, "volumes")->integer, 2);
    assert_string_equal(nc_value_path_string(waits, "volume"), "vol-0");
    (void)life_do(&w, 45000, "tick");
    assert_string_equal(
        w.last_message,
        "No pods remaining; evicted: 0, force-deleted: 0; volumes still attached: 2");
    life_world_done(&w);
}

/* A machine that comes back after its deadline, its notice still there, has nothing to be late
 * with.
 */
static void test_late_is_a_drain_of_pods(void **state) {
    static const struct {
        const char *pods, *lost, *message;
    } rows[] = {
        {"pods a:30", "lost a", "No pods remaining; evicted: 0, force-deleted: 0; 5 s late"},
        {"tick", "tick", "No pods remaining; evicted: 0, force-deleted: 0"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const char *const events[] = {"begin", "notice deletion +60 last", "ok", "ok", rows[i].pods,
                                      NULL};
        struct life_world w;
        begin(&w, events);
        (void)life_do(&w, 65000, "synced");
        (void)life_do(&w, 65010, rows[i].lost);
        for (unsigned at = 65500; at <= 70010; at += 500)
            (void)life_do(&w, at, "node");
        assert_string_equal(w.last_message, rows[i].message);
        life_world_done(&w);
    }
}

/* What kept each, and in the end of how many that was the end. */
static void test_forced_and_failed(void **state) {
    static const char *const events[] = {
        "begin",  "notice spot +120", "ok",      "ok",   "pods a:30 b:30 c:30 d:1",
        "synced", "busy-pod a",       "again b", "no c", "yes d",
        NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 1000, "lost d");
    (void)life_do(&w, 75000, "tick");
    assert_string_equal(w.last_message,
                        "The force-delete time has come for ns/a (the API "
                        "server has no time for its eviction), ns/b (its eviction was not "
                        "carried out), ns/c (blocked by a PodDisruptionBudget)");
    (void)life_do(&w, 76000, "tick"); /* the marks got no answer */
    (void)life_do(&w, 76010, "yes a");
    (void)life_do(&w, 80000, "yes c");
    (void)life_do(&w, 90000, "lost c");
    (void)life_do(&w, 107000, "tick");
    assert_string_equal(w.last_message,
                        "drain deadline exceeded, pods remaining: 2: ns/a (not yet terminating, "
                        "force-deleted at 2026-01-02T03:05:21Z), ns/b (its eviction "
                        "was not carried out); evicted: 1, "
                        "force-deleted: 2");
    life_world_done(&w);
}

/* Not who may yet leave by the last eviction, which was sent a second before. */
static void test_forced_names_none_that_is_evicted(void **state) {
    static const char *const events[] = {"begin",     "notice spot +120", "ok",   "ok", "kept a:30",
                                         "pods b:30", "synced",           "no b", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 74990, "tick"); /* evicts a */
    (void)life_do(&w, 75400, "tick");
    assert_string_equal(w.last_message, "The force-delete time has come for ns/b (blocked by a "
                                        "PodDisruptionBudget)");
    life_world_done(&w);
}

/* A pod that has less than its own grace period is told so, however it is asked to go. */
static void test_grace_that_is_cut(void **state) {
    static const char *const events[] = {"begin", "notice spot +20", "ok",
                                         "ok",    "pods a:60 b:10",  "synced",
                                         "yes a", "no b web",        NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 14000, "tick");
    (void)life_do(&w, 14010, "yes b"); /* the mark */
    (void)life_do(&w, 14020, "yes b");
    (void)life_do(&w, 17000, "lost a");
    (void)life_do(&w, 17010, "lost b");
    (void)life_do(&w, 17020, "node");
    assert_string_equal(w.last_message, "No pods remaining; evicted: 1, force-deleted: 1, grace "
                                        "period cut: ns/a with 17 of 60 s, ns/b with 5 of 10 s");
    assert_non_null(strstr(w.news.data, "Evicted pod ns/a with 17 of 60 s; "));
    assert_non_null(strstr(w.news.data, "Force-deleted pod ns/b with 5 of 10 s; "));
    life_world_done(&w);
}

/* At once, with those whose requests are in flight; each drain once. */
static void test_grace_that_is_cut_is_an_event(void **state) {
    static const char *const events[] = {
        "begin", "notice spot +20", "ok", "ok", "pods a:60 b:10 c:90", "synced", "yes a", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    assert_string_equal(w.last_message,
                        "The deadline cuts grace periods: ns/a with 17 of 60 s (not yet "
                        "terminating, evicted at 2026-01-02T03:04:05Z), ns/c with 17 of 90 s (its "
                        "eviction is requested)");
    (void)life_do(&w, 60, "no b web");
    (void)life_do(&w, 70, "yes c");
    assert_non_null(strstr(w.last_message, "Pod ns/b may not leave"));
    life_world_done(&w);
}

static void test_grace_that_is_cut_of_many(void **state) {
    static const char *const events[] = {
        "begin", "notice spot +20", "ok", "ok", "pods a:60 b:60 c:60 d:60 e:60 f:60", "synced",
        NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    for (char pod[] = "yes a"; pod[4] <= 'f'; pod[4]++)
        (void)life_do(&w, 100, pod);
    for (char pod[] = "lost a"; pod[5] <= 'f'; pod[5]++)
        (void)life_do(&w, 16000, pod);
    (void)life_do(&w, 16010, "node");
    assert_non_null(strstr(w.last_message, ", ns/e with 17 of 60 s and 1 more"));
    assert_true(w.is_warning);
    life_world_done(&w);
}

/* Whether the budget still keeps it nobody knows. */
static void test_forced_and_failed_in_an_outage(void **state) {
    static const char *const events[] = {"begin",     "notice spot +120", "ok",   "ok",
                                         "pods a:30", "synced",           "no a", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    w.away_usec = LIFE_EPOCH_USEC + 5000000;
    (void)life_do(&w, 75000, "tick");
    assert_string_equal(w.last_message, "The force-delete time has come for ns/a (blocked by a "
                                        "PodDisruptionBudget), as last seen");
    (void)life_do(&w, 107000, "tick");
    assert_string_equal(w.last_message,
                        "drain deadline exceeded, pods remaining, as last seen: 1: ns/a (blocked "
                        "by a PodDisruptionBudget); evicted: 0, force-deleted: 0");
    life_world_done(&w);
}

/* GitOps: who withdraws it again has not found out who writes it. */
static void test_request_put_back(void **state) {
    static const char *const events[] = {
        "begin", "notice request drain id=a", "ok", "ok", "clear request", "node", "ok", NULL};
    struct nc_lifecycle_view v;
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 5000, "notice request drain id=a");
    assert_non_null(strstr(w.last_message, "; put back with the same id after it was withdrawn; "
                                           "policy=drain"));
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_true(v.is_put_back);
    (void)life_do(&w, 6000, "notice request drain id=b");
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_false(v.is_put_back);
    assert_null(strstr(w.last_message, "put back"));
    (void)life_do(&w, 7000, "clear request");
    (void)life_do(&w, 8000, "notice request drain id=a");
    assert_null(strstr(w.last_message, "put back"));
    life_world_done(&w);
}

/* It is no release where another source keeps the node ending: the most severe is named. */
static void test_withdrawn_beside_others(void **state) {
    static const char *const events[] = {
        "begin", "notice request drain", "ok", "ok", "notice spot +120", "notice rebalance", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 5000, "notice maintenance");
    (void)life_do(&w, 6000, "clear request");
    assert_string_equal(w.last_message,
                        "interruption notice withdrawn: request; a drain goes on for spot");
    (void)life_do(&w, 7000, "clear spot");
    assert_string_equal(w.last_message,
                        "interruption notice withdrawn: spot; a drain goes on for maintenance");
    (void)life_do(&w, 8000, "clear maintenance");
    assert_string_equal(w.last_message, "interruption notice withdrawn: maintenance");
    life_world_done(&w);
}

static void test_failed_without_a_cordon(void **state) {
    static const char *const events[] = {"begin",   "notice spot +60", "ok",
                                         "refused", "refused",         NULL};
    struct nc_lifecycle_view v;
    struct life_world w;

    (void)state;
    begin(&w, events);
    (void)life_do(&w, 3100, "tick");
    (void)life_do(&w, 3110, "pods a:10");
    (void)life_do(&w, 3120, "synced");
    (void)life_do(&w, 3130, "yes a");
    (void)life_do(&w, 9000, "lost a");
    (void)life_do(&w, 59100, "tick");
    assert_string_equal(w.last_message,
                        "drain deadline exceeded, pods remaining: 0; the node is not cordoned and "
                        "takes new pods; evicted: 1, force-deleted: 0");
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_true(v.is_failed);
    assert_int_equal(v.since_usec, w.now_usec);
    (void)life_do(&w, 59200, "clear spot");
    assert_string_equal(w.last_message,
                        "interruption notice withdrawn: spot; evicted: 1, force-deleted: 0, "
                        "still ending: 0");
    life_world_done(&w);
}

static void test_view(void **state) {
    static const char *const events[] = {"begin", "notice spot +120", "notice rebalance", "ok",
                                         "ok",    "pods a:30",        "synced",           NULL};
    struct life_world w;
    struct nc_lifecycle_view v;

    (void)state;
    begin(&w, events);
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_int_equal(v.phase, NC_LIFECYCLE_EVICTING);
    assert_string_equal(v.status_phase, "Evicting");
    assert_int_equal(v.leading, NC_SOURCE_SPOT);
    assert_int_equal(v.policy, NC_POLICY_DRAIN);
    assert_int_equal(v.deadline_usec, LIFE_EPOCH_USEC + 120000000);
    assert_int_equal(v.t_usec, LIFE_EPOCH_USEC + 105000000);
    assert_true(v.is_ours && v.is_active[NC_SOURCE_REBALANCE] && !v.is_active[NC_SOURCE_REQUEST]);
    assert_int_equal(v.noticed_usec[NC_SOURCE_SPOT], LIFE_EPOCH_USEC + 10000);
    assert_string_equal(v.notices[NC_SOURCE_REBALANCE].id, "rebalance-1");
    assert_int_equal(v.cordoned_usec, LIFE_EPOCH_USEC + 40000);
    assert_int_equal(v.drain.remaining, 1);
    assert_true(v.drain_rules.may_evict);
    assert_int_equal(nc_drain_count(nc_lifecycle_drain(w.life)), 1);
    (void)life_do(&w, 100, "gone"); /* its pods are not */
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_int_equal(v.drain.remaining, 1);
    assert_true(v.is_orphaned && !v.is_ours);
    (void)life_do(&w, 110, "taken");
    assert_int_equal(nc_drain_count(nc_lifecycle_drain(w.life)), 0);
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_int_equal(v.drain.remaining, 0);
    assert_false(v.is_ours);
    assert_string_equal(v.status_phase, "Detected");
    life_world_done(&w);
}

/* A force-delete time that somebody derived replaces the machine's deadline only where there is no
 * other. */
static void test_derived_deadline(void **state) {
    static const char *const events[] = {"begin", "notice deletion +60 last", NULL};
    struct life_world w;
    struct nc_lifecycle_view v;

    (void)state;
    begin(&w, events);
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_int_equal(v.deadline_usec, LIFE_EPOCH_USEC + 60000000);
    assert_int_equal(v.t_usec, LIFE_EPOCH_USEC + 60000000);
    (void)life_do(&w, 100, "notice spot +90");
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_int_equal(v.deadline_usec, LIFE_EPOCH_USEC + 90000000);
    assert_int_equal(v.t_usec, LIFE_EPOCH_USEC + 60000000);
    life_world_done(&w);
}

/* The deepest map that holds precedence of a dotted path; "0" is an item. */
static void spoil(struct nc_value *v, const char *path, struct nc_value *with) {
    nc_auto_free char *text = nc_strdup(path);
    char *save = NULL;
    const char *word = strtok_r(text, ".", &save);

    for (const char *next = strtok_r(NULL, ".", &save); next; next = strtok_r(NULL, ".", &save)) {
        v = v->type == NC_VALUE_LIST ? v->items[0] : nc_value_get(v, word);
        assert_non_null(v);
        word = next;
    }
    if (with)
        nc_value_set(v, word, with);
    else
        assert_true(nc_value_remove(v, word));
}

static void assert_refused(const struct life_world *w, const struct nc_value *saved) {
    struct nc_lifecycle *l = nc_lifecycle_new(&w->rules);
    struct nc_lifecycle_view v;

    assert_int_equal(nc_lifecycle_load(l, saved, true, 0), -EBADMSG);
    nc_lifecycle_get_view(l, w->now_usec, &v);
    assert_int_equal(v.phase, NC_LIFECYCLE_IDLE);
    assert_false(v.is_active[NC_SOURCE_SPOT]);
    nc_lifecycle_free(l);
}

static void test_strange_states(void **state) {
    static const char *const paths[] = {"phase",
                                        "since",
                                        "sources",
                                        "sources.0.source",
                                        "sources.0.id",
                                        "sources.0.action",
                                        "sources.0.reason",
                                        "sources.0.policy",
                                        "sources.0.deadline",
                                        "sources.0.last_moment",
                                        "sources.0.begin",
                                        "sources.0.noticed",
                                        "sources.0.window",
                                        "sources.0.announced",
                                        "node",
                                        "node.uid",
                                        "node.signalled.source",
                                        "node.signalled.id",
                                        "node.signalled.deadline",
                                        "node.is_cordoned",
                                        "node.is_foreign",
                                        "node.cordoned",
                                        "node.drained",
                                        "node.said"};
    static const char *const events[] = {"begin", "notice spot +120", "ok", "ok", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    assert_refused(&w, NULL);
    for (size_t i = 0; i < NC_ARRAY_SIZE(paths); i++) {
        nc_auto_value struct nc_value *removed = nc_lifecycle_save(w.life);
        nc_auto_value struct nc_value *other = nc_lifecycle_save(w.life);
        spoil(removed, paths[i], NULL);
        assert_refused(&w, removed);
        spoil(other, paths[i], nc_value_new_string("\x01"));
        assert_refused(&w, other);
    }
    life_world_done(&w);
}

static void test_stranger_states(void **state) {
    static const char *const events[] = {"begin", "notice spot +120", "ok", "ok", NULL};
    struct life_world w;

    (void)state;
    begin(&w, events);
    nc_auto_value struct nc_value *policy = nc_lifecycle_save(w.life);
    spoil(policy, "sources.0.policy", nc_value_new_int(5));
    assert_refused(&w, policy);
    nc_auto_value struct nc_value *twice = nc_lifecycle_save(w.life);
    nc_value_push(nc_value_get(twice, "sources"),
                  nc_value_copy(nc_value_get(twice, "sources")->items[0]));
    assert_refused(&w, twice);
    nc_auto_value struct nc_value *announced = nc_lifecycle_save(w.life);
    nc_value_push(nc_value_path(announced, "node.said"),
                  nc_value_new_int(_NC_LIFECYCLE_MILESTONE_MAX));
    assert_refused(&w, announced);
    nc_auto_value struct nc_value *whole = nc_lifecycle_save(w.life);
    struct nc_lifecycle *l = nc_lifecycle_new(&w.rules);
    assert_int_equal(nc_lifecycle_load(l, whole, true, 0), 0);
    nc_lifecycle_free(l);
    life_world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_pod_hangs_in_an_outage),
        cmocka_unit_test(test_grace_that_is_cut),
        cmocka_unit_test(test_grace_that_is_cut_is_an_event),
        cmocka_unit_test(test_grace_that_is_cut_of_many),
        cmocka_unit_test(test_forced_and_failed_in_an_outage),
        cmocka_unit_test(test_request_put_back),
        cmocka_unit_test(test_withdrawn_beside_others),
        cmocka_unit_test(test_failed_without_a_cordon),
        cmocka_unit_test(test_annotation),
        cmocka_unit_test(test_annotation_at_each_force_delete_time),
        cmocka_unit_test(test_annotation_before_the_pods_are_known),
        cmocka_unit_test(test_annotation_of_what_is_only_reported),
        cmocka_unit_test(test_annotation_of_what_is_only_cordoned),
        cmocka_unit_test(test_annotation_of_what_returns),
        cmocka_unit_test(test_annotation_is_short),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_blocked_since),
        cmocka_unit_test(test_blocked_after_the_deadline),
        cmocka_unit_test(test_all_that_may_not_leave),
        cmocka_unit_test(test_failed_by_an_authorizer),
        cmocka_unit_test(test_report_of_a_refused_cordon),
        cmocka_unit_test(test_report_of_a_refused_release),
        cmocka_unit_test(test_drained_beside_a_pod_that_does_not_end),
        cmocka_unit_test(test_drained_beside_volumes),
        cmocka_unit_test(test_late_is_a_drain_of_pods),
        cmocka_unit_test(test_forced_and_failed),
        cmocka_unit_test(test_forced_names_none_that_is_evicted),
        cmocka_unit_test(test_view),
        cmocka_unit_test(test_derived_deadline),
        cmocka_unit_test(test_strange_states),
        cmocka_unit_test(test_stranger_states),
    };

    return run_group(tests, NULL, NULL);
}
