/*
 * The order that a pod's annotation, or tolerating_last, gives it: first, or when all others are
 * gone.
 */
#include "drain-script.h"
#include "groups.h"

#define CHECK(rows) script_check(rows, NC_ARRAY_SIZE(rows))

/* P7 */
static void test_last(void **state) {
    static const struct script_row rows[] = {
        {"without a deadline when all others are gone, of whatever tier",
         "see z last\nsee a tier=2\nat 0\nanswer evict a accepted\nsee a del=30/30\nat 20\ngone "
         "a\nat "
         "21\nsum",
         "0: evict a\n20:\n21: evict z\nsum total=2 remaining=1 evicted=1 progress=20\n"},
        {"a blocked pod blocks it, too",
         "see z last\nsee a\nat 0\nanswer evict a budget\nat 0.5\nat 5\nanswer evict a budget\nat "
         "100",
         "0: evict a\n0.5:\n5: evict a#2\n100: evict a#3\n"},
        {"as does a kept one", "see z last\nsee a never\nat 0\nat 1000", "0:\n1000:\n"},
        {"under a deadline no refusal hands it the turn",
         "rules t=100\nsee z last\nsee a\nsee b\nat 0\nanswer evict a accepted\nsee a "
         "del=60/60\nanswer evict b refused\nat 20\nanswer evict b refused\nat 40",
         "0: evict a, evict b\n20: evict b#2\n40: evict b#3\n"},
        {"until the others are gone",
         "rules t=100\nsee z last\nsee a\nat 0\nanswer evict a accepted\ngone a\nat 12",
         "0: evict a\n12: evict z\n"},
        {"or no more than its whole grace is left",
         "rules t=100\nsee z last grace=40\nsee a grace=10\nat 0\nanswer evict a refused\nat "
         "57.9\nanswer evict a refused\nat 58\nanswer evict z refused\nat 59\nanswer mark z "
         "accepted\nat 60",
         "0: evict a\n57.9: evict a#2\n58: evict z\n59: mark z, evict z#2\n60: delete z 40, evict "
         "a#3\n"},
        {"a stuck pod is not waited for", "see z last\nsee a del=-61/30\nat 0", "0: evict z\n"},
        {"its own budget holds", "see z last\nat 0\nanswer evict z budget\nat 0.1\nsum",
         "0: evict z\n0.1:\nsum total=1 remaining=1 blocked=1\n"},
        {"a DaemonSet's is drained without the taint, and is missed until it is gone",
         "see z last daemon\nat 0\nsum\nanswer evict z accepted\ngone z\nat 1\nsum",
         "0: evict z\nsum total=1 remaining=1\n1:\nsum total=1 evicted=1 progress=0\n"},
        {"what its controller puts in its place is left",
         "rules cordon=5\nsee z last daemon created=1\nlisted\nat 6\nanswer evict z "
         "accepted\ngone z\nsee y last daemon created=7\nat 8\nat 100\nsum",
         "6: evict z\n8:\n100:\nsum total=1 evicted=1 daemonset=1 progress=6\n"},
        {"with the deadline, too",
         "rules cordon=5 t=100\nsee y last daemon tolerates created=7\nat 8\nat 100\nsum",
         "8:\n100:\nsum tolerating=1\n"},
        {"who tolerates everything is evicted then where Karpenter drains",
         "rules karpenter\nsee z last tolerates\nsee y tolerates\nsee a\nat 0\nanswer evict a "
         "accepted\ngone a\nat 1",
         "0: evict a\n1: evict z\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P7 */
static void test_first(void **state) {
    static const struct script_row rows[] = {
        {"a DaemonSet's goes with the first tier", "see a\nsee z first daemon\nsee c tier=2\nat 0",
         "0: evict a, evict z\n"},
        {"no budget is passed by", "see z first\nat 0\nanswer evict z budget\nat 0.1",
         "0: evict z\n0.1:\n"},
        {"nor do-not-disrupt", "see z first never\nat 0\nat 1000", "0:\n1000:\n"},
        {"another value counts as none", "see z odd daemon\nsee a odd tier=2\nsee b\nat 0",
         "0: evict b\n"},
    };

    (void)state;
    CHECK(rows);
}

/* P7 */
static void test_all_last(void **state) {
    static const struct script_row rows[] = {
        {"whoever would be left",
         "rules all-last taint karpenter\nsee w daemon tolerates tier=3\nsee x tolerates\nsee y "
         "daemon "
         "tier=1\nsee m mirror tolerates\nsee a\nat 0\nanswer evict a accepted\ngone a\nat "
         "1\nanswer evict y accepted\ngone y\nat 2\nsum",
         "0: evict a\n1: evict y\n2: evict x, evict w\nsum total=4 remaining=2 evicted=2 mirror=1 "
         "progress=1\n"},
        {"a DaemonSet's without the taint",
         "rules all-last\nsee y daemon tier=1\nsee c tier=2\nat 0\nanswer evict c accepted\ngone "
         "c\nat 1",
         "0: evict c\n1: evict y\n"},
        {"but who is to be first", "rules all-last\nsee y daemon first\nsee c tier=2\nat 0",
         "0: evict y\n"},
        {"under a deadline by its force-delete time",
         "rules all-last t=40\nsee y daemon tier=1\nsee a\nat 0\nanswer evict a refused\nat 9",
         "0: evict a\n9: mark a, evict y, evict a#2\n"},
    };

    (void)state;
    CHECK(rows);
}

static enum nc_list_gap gap_after_dropping(struct nc_pod dropped, const struct nc_drain_rules *r) {
    struct nc_drain *d = nc_drain_new();
    struct nc_pod kept = {.namespace = nc_strdup("ns"),
                          .name = nc_strdup("kept"),
                          .uid = nc_strdup("uid-kept"),
                          .has_started = true};
    enum nc_list_gap gap;

    dropped.namespace = nc_strdup("ns");
    dropped.name = nc_strdup("dropped");
    dropped.uid = nc_strdup("uid-dropped");
    nc_drain_set_max(d, 1);
    nc_drain_begin_list(d);
    assert_int_equal(nc_drain_see(d, &dropped, 1), 0);
    (void)nc_drain_see(d, &kept, 1);
    nc_drain_listed(d);
    gap = nc_drain_gap(d, r);
    nc_drain_free(d);
    return gap;
}

/* Who had no place in the list is missed where the drain would have to move it. */
static void test_dropped(void **state) {
    const struct nc_drain_rules as_ever = {.karpenter_drains = true},
                                all_last = {.karpenter_drains = true, .tolerating_last = true};
    const struct nc_pod pods[] = {
        {.is_daemon = true, .tier = NC_TIER_PLAIN_DAEMON},
        {.is_daemon = true, .tolerates_disrupted = true, .tier = NC_TIER_PLAIN_DAEMON},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(pods); i++) {
        struct nc_pod last = pods[i];
        last.order = NC_POD_ORDER_LAST;
        last.tier = NC_TIER_LAST;
        assert_int_equal(gap_after_dropping(pods[i], &as_ever), NC_LIST_COMPLETE);
        assert_int_equal(gap_after_dropping(pods[i], &all_last), NC_LIST_TOO_MANY);
        assert_int_equal(gap_after_dropping(last, &as_ever), NC_LIST_TOO_MANY);
    }
}

static size_t count_news(struct nc_drain *d, enum nc_pod_news_kind kind, bool *ret_is_first) {
    size_t n, found = 0;
    nc_auto_free struct nc_pod_news *news = nc_drain_drop_news(d, &n);

    for (size_t i = 0; i < n; i++) {
        found += news[i].kind == kind;
        if (news[i].kind == kind)
            *ret_is_first = news[i].is_first;
        nc_pod_news_done(&news[i]);
    }
    return found;
}

static void test_one_warning(void **state) {
    struct script s = {.drain = nc_drain_new(), .rules = {.may_evict = true, .max_in_flight = 1}};
    struct nc_pod odd = script_pod("odd", (char *[]){(char *)"odd", (char *)"daemon", NULL});
    struct nc_drain_action a[2];
    bool is_first = false;

    (void)state;
    assert_int_equal(nc_drain_see(s.drain, &odd, 1), 0);
    assert_int_equal(nc_drain_step(s.drain, &s.rules, 1, a, 2), 0);
    assert_int_equal(count_news(s.drain, NC_POD_NEWS_ORDER_IGNORED, &is_first), 1);
    assert_int_equal(nc_drain_step(s.drain, &s.rules, 2, a, 2), 0);
    assert_int_equal(count_news(s.drain, NC_POD_NEWS_ORDER_IGNORED, &is_first), 0);
    nc_drain_free(s.drain);
}

/* That a pod goes is the first news of it, or no news. */
static void test_told_once(void **state) {
    const struct nc_pod_answer accepted = {.kind = NC_ANSWER_ACCEPTED};
    struct nc_drain_rules rules = {.may_evict = true, .max_in_flight = 1};
    struct nc_drain *d = nc_drain_new();
    struct nc_pod p = script_pod("a", (char *[]){(char *)"grace=3600", NULL});
    struct nc_drain_reply reply = {"uid-a", NC_DRAIN_EVICT, &accepted, 0, 2};
    struct nc_drain_action a[2];
    bool is_first = false;

    (void)state;
    assert_int_equal(nc_drain_see(d, &p, 1), 0);
    assert_int_equal(nc_drain_step(d, &rules, 1, a, 2), 1);
    nc_drain_answer(d, &reply);
    assert_int_equal(count_news(d, NC_POD_NEWS_EVICTED, &is_first), 1);
    assert_true(is_first);
    rules.t_usec = 100 * 1000000ull;
    for (uint64_t now = 3 * 1000000ull; now < 6 * 1000000ull; now += 1000000ull)
        if (nc_drain_step(d, &rules, now, a, 2)) {
            reply.verb = a[0].verb;
            reply.now_usec = now;
            nc_drain_answer(d, &reply);
        }
    is_first = true;
    assert_int_equal(count_news(d, NC_POD_NEWS_FORCED, &is_first), 1);
    assert_false(is_first);
    nc_drain_free(d);
}

/* What a finalizer may hold is seen no more once it has ended: it need not be gone. */
static void test_end_of_what_a_finalizer_holds(void **state) {
    struct nc_drain *d = nc_drain_new();
    size_t n;

    (void)state;
    for (int i = 0; i < 2; i++) {
        struct nc_pod pod = {.namespace = nc_strdup("ns"),
                             .name = nc_strdup(i ? "held" : "web"),
                             .uid = nc_strdup(i ? "u1" : "u0"),
                             .has_finalizer = i};
        (void)nc_drain_see(d, &pod, 1);
    }
    nc_drain_gone(d, "u0", 2);
    nc_drain_gone(d, "u1", 2);
    nc_auto_free struct nc_pod_news *news = nc_drain_drop_news(d, &n);
    assert_int_equal(n, 2);
    assert_string_equal(news[0].message, "Pod ns/web is gone");
    assert_string_equal(news[1].message, "Pod ns/held has ended");
    for (size_t i = 0; i < n; i++)
        nc_pod_news_done(&news[i]);
    nc_drain_free(d);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last),
        cmocka_unit_test(test_first),
        cmocka_unit_test(test_all_last),
        cmocka_unit_test(test_dropped),
        cmocka_unit_test(test_one_warning),
        cmocka_unit_test(test_told_once),
        cmocka_unit_test(test_end_of_what_a_finalizer_holds),
    };

    return run_group(tests, NULL, NULL);
}
