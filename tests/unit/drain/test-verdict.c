/*
 * What is decided about a pod: who is drained at all, and why one is not evicted now.
 */
#include "drain-script.h"
#include "groups.h"

/* P1, P2, P7 */
static void test_excluded(void **state) {
    const uint64_t end = 100 * 1000000ull;
    const struct {
        const char *name;
        struct nc_pod pod;
        bool has_taint;
        uint64_t now_usec;
        enum nc_pod_reason expected;
        bool karpenter_drains, tolerating_last;
    } cases[] = {
        {"plain", {0}, false, 1, NC_POD_REASON_NONE, false, false},
        {"terminal",
         {.is_terminal = true, .is_mirror = true},
         false,
         1,
         NC_POD_REASON_TERMINAL,
         false,
         false},
        {"mirror",
         {.is_mirror = true, .tolerates_disrupted = true},
         true,
         1,
         NC_POD_REASON_MIRROR,
         false,
         false},
        {"tolerating",
         {.tolerates_disrupted = true, .is_daemon = true},
         true,
         1,
         NC_POD_REASON_TOLERATES,
         false,
         false},
        {"tolerating, of no DaemonSet",
         {.tolerates_disrupted = true},
         true,
         1,
         NC_POD_REASON_NONE,
         false,
         false},
        {"left to Karpenter",
         {.tolerates_disrupted = true},
         false,
         1,
         NC_POD_REASON_TOLERATES,
         true,
         false},
        {"daemonset", {.is_daemon = true}, false, 1, NC_POD_REASON_DAEMON, false, false},
        {"daemonset, taint", {.is_daemon = true}, true, 1, NC_POD_REASON_NONE, false, false},
        {"terminating",
         {.deletion_usec = end},
         false,
         end + 60000000,
         NC_POD_REASON_NONE,
         false,
         false},
        {"stuck", {.deletion_usec = end}, false, end + 60000001, NC_POD_REASON_STUCK, false, false},
        {"terminating for ever",
         {.deletion_usec = UINT64_MAX},
         false,
         end,
         NC_POD_REASON_NONE,
         false,
         false},
        {"not terminating",
         {.deletion_usec = 0},
         false,
         UINT64_MAX,
         NC_POD_REASON_NONE,
         false,
         false},
        {"last",
         {.is_daemon = true, .order = NC_POD_ORDER_LAST},
         false,
         1,
         NC_POD_REASON_NONE,
         true,
         false},
        {"first",
         {.tolerates_disrupted = true, .order = NC_POD_ORDER_FIRST},
         false,
         1,
         NC_POD_REASON_NONE,
         true,
         false},
        {"an unknown order",
         {.is_daemon = true, .order = NC_POD_ORDER_UNKNOWN},
         false,
         1,
         NC_POD_REASON_DAEMON,
         true,
         false},
        {"a mirror that is to be last",
         {.is_mirror = true, .order = NC_POD_ORDER_LAST},
         false,
         1,
         NC_POD_REASON_MIRROR,
         true,
         true},
        {"put back",
         {.is_daemon = true, .order = NC_POD_ORDER_LAST, .created_usec = 101},
         false,
         1,
         NC_POD_REASON_DAEMON,
         false,
         false},
        {"put back, with the taint",
         {.is_daemon = true, .tolerates_disrupted = true, .created_usec = 101},
         true,
         1,
         NC_POD_REASON_TOLERATES,
         true,
         true},
        {"not put back",
         {.is_daemon = true, .order = NC_POD_ORDER_LAST, .created_usec = 100},
         false,
         1,
         NC_POD_REASON_NONE,
         false,
         false},
        {"of no DaemonSet, after the cordon",
         {.tolerates_disrupted = true, .order = NC_POD_ORDER_LAST, .created_usec = 101},
         false,
         1,
         NC_POD_REASON_NONE,
         true,
         false},
        {"tolerating, all last",
         {.tolerates_disrupted = true, .is_daemon = true},
         true,
         1,
         NC_POD_REASON_NONE,
         true,
         true},
        {"daemonset, all last", {.is_daemon = true}, false, 1, NC_POD_REASON_NONE, false, true},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(cases); i++)
        if (nc_pod_excluded(&cases[i].pod,
                            &(struct nc_drain_rules){.has_disrupted_taint = cases[i].has_taint,
                                                     .karpenter_drains = cases[i].karpenter_drains,
                                                     .tolerating_last = cases[i].tolerating_last,
                                                     .cordoned_usec = 100},
                            cases[i].now_usec)
            != cases[i].expected)
            fail_msg("%s", cases[i].name);
}

/* P3 */
static void test_kept(void **state) {
    const struct nc_pod never = {.never_disrupt = true}, until = {.keep_until_usec = 50}, no = {0};

    (void)state;
    assert_true(nc_pod_is_kept(&never, UINT64_MAX));
    assert_true(nc_pod_is_kept(&until, 49));
    assert_false(nc_pod_is_kept(&until, 50));
    assert_false(nc_pod_is_kept(&no, 0));
}

/* P14: one scene at least for each reason. */
static const struct script_row reason_rows[] = {
    {"excluded",
     "rules karpenter\nsee a ended\nsee b mirror\nsee c tolerates\nsee d daemon\n"
     "see e del=-61/30\nwhy",
     "a terminal, b mirror, c tolerating, d daemonset, e stuck\n"},
    {"on their way out",
     "see a\nsee b\nsee c del=80/30\nsee d del=300/30\nat 0\nanswer evict a accepted\n"
     "answer evict b away\nrules t=30\nat 1\nat 1.5\nanswer mark b accepted\nat 2\n"
     "answer delete b accepted\nrules t=100\nwhy",
     "0: evict a, evict b\n1: delete a 30, delete c 1, delete d 1, mark b\n1.5:\n"
     "2: delete b 28\n"
     "a evicted, b deleted: delete 70, c terminating, d late\n"},
    {"on their way out for too long",
     "see a del=10/0 finalizer\nsee b del=10/30\nsee c del=10/30 finalizer\nat 14\nwhy\nnext\nat "
     "15\n"
     "why",
     "14:\na terminating, b terminating, c terminating\nnext 15\n15:\na finalizer, b kubelet, c "
     "kubelet\n"},
    {"what they ask for", "rules replaced=60\nsee a never\nsee b keep=50\nsee c waits\nwhy",
     "a do-not-disrupt, b do-not-disrupt: evict 50, c replacement: evict 60\n"},
    {"refusals",
     "see a\nsee b\nsee c\nsee d\nsee e\nat 0\nanswer evict a budget\nanswer evict b budgets\n"
     "answer evict c namespace\nanswer evict d refused\nanswer evict e failed\nrules watch\nwhy",
     "0: evict a, evict b, evict c, evict d, evict e\n"
     "a budget, b budgets, c namespace, d refused, e failed\n"},
    {"a refusal is told until it is accepted, the pause over or not",
     "see a\nat 0\nanswer evict a budget\nat 5\nwhy\nanswer evict a busy\nwhy\nat 9\n"
     "answer evict a accepted\nwhy",
     "0: evict a\n5: evict a#2\na budget\na budget: evict 5.893869\n9: evict a#3\na evicted\n"},
    {"the deletion is refused as the eviction was, and then so is the eviction again",
     "rules t=30\nsee a\nat 0\nanswer evict a refused\nwhy\nat 1\nanswer mark a accepted\nat 1\n"
     "answer delete a refused\nwhy\nrules\nat 5\nanswer evict a refused\nwhy",
     "0: evict a\na refused: mark\n1: mark a\n1: delete a 29\na deletion: delete 1.2\n"
     "5: evict a#2\na deletion: evict 6.844456\n"},
    {"no refusals", "see a\nsee b\nsee c\nat 0\nanswer evict a busy\nanswer evict b away\nwhy",
     "0: evict a, evict b, evict c\na busy: evict 0.893869, b unavailable: evict 0.407735, c "
     "requested\n"},
    {"the turn, and the room", "rules max=1\nsee a\nsee b\nsee c tier=2\nwhy\nat 0\nwhy",
     "a none: evict, b none: evict, c tier\n0: evict a\na requested, b in-flight, c tier\n"},
    {"late ones", "listed\nsee a\nwhy", "a new: evict 0.5\n"},
    {"put back",
     "rules cordon=-5\nsee a of=x\nlisted\nat 0\nanswer evict a accepted\n"
     "see b of=x created=2 tolerates\nat 2\nwhy\nrules cordon=-5 t=100\nwhy",
     "0: evict a\n2:\na evicted, b put-back\na evicted: delete 70, b put-back: evict 69\n"},
    {"others drain",
     "rules t=100 watch\nsee a\nrules t=100 karpenter\nsee b tolerates\nwhy\n"
     "rules t=100 watch\nwhy",
     "a none: evict, b karpenter: evict 69\na not-begun: evict 69, b not-begun: evict 69\n"},
    {"its force-delete time", "rules t=30\nsee a never\nwhy", "a force-delete: evict\n"},
};

static void test_reasons(void **state) {
    (void)state;
    script_check(reason_rows, NC_ARRAY_SIZE(reason_rows));
    for (enum nc_pod_reason r = 0; r < _NC_POD_REASON_MAX; r++) {
        nc_auto_free char *word = nc_asprintf(" %s", nc_pod_reason_name(r));
        bool is_shown = r == NC_POD_REASON_GONE; /* of it there are no lines */
        for (size_t i = 0; i < NC_ARRAY_SIZE(reason_rows); i++)
            is_shown = is_shown || strstr(reason_rows[i].trace, word);
        if (!is_shown)
            fail_msg("no scene shows the reason%s", word);
    }
    assert_string_equal(nc_pod_reason_name(_NC_POD_REASON_MAX), "unknown");
    assert_string_equal(nc_pod_reason_text(_NC_POD_REASON_MAX), "unknown");
}

/* Whom the drain waits for, or ends without. */
static void test_named(void **state) {
    struct nc_buf b = NC_BUF_INIT;

    (void)state;
    for (enum nc_pod_reason r = 0; r < _NC_POD_REASON_MAX; r++)
        if (nc_pod_reason_is_named(r))
            (void)nc_buf_printf(&b, " %s", nc_pod_reason_name(r));
    assert_string_equal(b.data, " put-back stuck finalizer kubelet do-not-disrupt replacement "
                                "budget budgets namespace refused failed deletion put-back");
    nc_buf_done(&b);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_excluded),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_named),
    };

    return run_group(tests, NULL, NULL);
}
