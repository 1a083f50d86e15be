/*
 * The table of pods: order, replacement, its limit, what is transferred, and what it costs.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>
#include <malloc.h>

#include "nc/drain.h"
#include "nc/mem.h"
#include "nc/str.h"

#define NOW (1000000ull * 1000000)

static struct nc_pod new_pod(const char *uid) {
    return (struct nc_pod){.namespace = nc_strdup("default"),
                           .name = nc_asprintf("name-of-a-usual-length-%s", uid),
                           .uid = nc_strdup(uid),
                           .grace_sec = 30};
}

static void fill(struct nc_drain *d, size_t n) {
    for (size_t i = 0; i < n; i++) {
        nc_auto_free char *uid =
            nc_asprintf("%08x-0000-4000-8000-000000000000", (unsigned)(i * 2654435761u));
        struct nc_pod pod = new_pod(uid);
        assert_int_equal(nc_drain_see(d, &pod, NOW), 0);
    }
}

static void test_nothing(void **state) {
    struct nc_drain *d = nc_drain_new();
    const struct nc_drain_rules rules = {.may_evict = true, .max_in_flight = 1};
    struct nc_drain_action action;
    size_t n;

    (void)state;
    assert_null(nc_drain_free(NULL));
    assert_int_equal(nc_drain_count(d), 0);
    assert_int_equal(nc_drain_step(d, &rules, NOW, &action, 1), 0);
    free(nc_drain_lines(d, &rules, NOW, &n));
    assert_int_equal(n, 0);
    assert_true(nc_drain_next(d, &rules, NOW) == UINT64_MAX);
    nc_drain_gone(d, NULL, NOW);
    nc_drain_gone(d, "", NOW);
    nc_drain_restart(d);
    assert_null(nc_drain_free(d));
}

/* What is transferred is the drain's; what was there before is freed. */
static void test_taken_over(void **state) {
    struct nc_drain *d = nc_drain_new();
    const struct nc_drain_rules rules = {0};
    struct nc_pod pod = new_pod("a"), again = new_pod("a");
    size_t n;

    (void)state;
    nc_strv_add(&again.claims, "data");
    again.grace_sec = 5;
    assert_int_equal(nc_drain_see(d, &pod, NOW), 0);
    assert_null(pod.uid);
    assert_int_equal(nc_drain_see(d, &again, NOW), 0);
    assert_null(again.claims.v);
    nc_pod_done(&again);
    assert_int_equal(nc_drain_count(d), 1);
    nc_auto_free struct nc_drain_line *lines = nc_drain_lines(d, &rules, NOW, &n);
    assert_int_equal(n, 1);
    assert_int_equal(lines[0].pod->grace_sec, 5);
    assert_string_equal(lines[0].pod->claims.v[0], "data");
    nc_drain_free(d);
}

static void test_lines_are_in_order(void **state) {
    enum { N = 300 };
    struct nc_drain *d = nc_drain_new();
    const struct nc_drain_rules rules = {0};
    uint64_t seed = 1;
    size_t n;

    (void)state;
    for (size_t i = 0; i < N; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof(uid), "%08x", (unsigned)prng_next(&seed));
        struct nc_pod pod = {.namespace = nc_asprintf("ns-%zu", prng_below(&seed, 3)),
                             .name = nc_asprintf("pod-%zu", prng_below(&seed, 20)),
                             .uid = nc_strdup(uid),
                             .tier = (enum nc_tier)prng_below(&seed, _NC_TIER_MAX)};
        assert_int_equal(nc_drain_see(d, &pod, NOW), 0);
    }
    nc_auto_free struct nc_drain_line *lines = nc_drain_lines(d, &rules, NOW, &n);
    assert_int_equal(n, N);
    for (size_t i = 1; i < N; i++) {
        const struct nc_pod *a = lines[i - 1].pod, *b = lines[i].pod;
        int c = (int)a->tier - (int)b->tier;
        c = c ? c : strcmp(a->namespace, b->namespace);
        c = c ? c : strcmp(a->name, b->name);
        assert_true(c < 0 || (c == 0 && strcmp(a->uid, b->uid) < 0));
    }
    nc_drain_free(d);
}

/* Beyond the limit a pod is dropped, but for the room of those that are said to be gone. */
static void test_limit(void **state) {
    struct nc_drain *d = nc_drain_new();
    const struct nc_drain_rules rules = {.may_evict = true, .max_in_flight = 1};
    const struct nc_pod_answer gone = {.kind = NC_ANSWER_GONE};
    struct nc_pod pod = new_pod("one more");
    struct nc_drain_action action;

    (void)state;
    fill(d, NC_DRAIN_MAX_PODS);
    assert_int_equal(nc_drain_count(d), NC_DRAIN_MAX_PODS);
    assert_int_equal(nc_drain_see(d, &pod, NOW), -E2BIG);
    assert_null(pod.uid);
    assert_int_equal(nc_drain_count(d), NC_DRAIN_MAX_PODS);
    assert_int_equal(nc_drain_step(d, &rules, NOW, &action, 1), 1);
    nc_auto_free char *uid = nc_strdup(action.pod->uid);
    nc_drain_answer(d, &(struct nc_drain_reply){uid, NC_DRAIN_EVICT, &gone, 0, NOW});
    assert_int_equal(nc_drain_count(d), NC_DRAIN_MAX_PODS - 1);
    pod = new_pod("one more");
    assert_int_equal(nc_drain_see(d, &pod, NOW), 0);
    assert_int_equal(nc_drain_count(d), NC_DRAIN_MAX_PODS);
    nc_drain_free(d);
}

static enum nc_list_gap gap_after(struct nc_drain *d, struct nc_pod pod, bool has_taint) {
    const struct nc_drain_rules rules = {.has_disrupted_taint = has_taint};

    (void)nc_drain_see(d, &pod, NOW);
    return nc_drain_gap(d, &rules);
}

static bool is_kept(const struct nc_drain *d, const char *uid) {
    const struct nc_drain_rules rules = {0};
    size_t n;
    nc_auto_free struct nc_drain_line *lines = nc_drain_lines(d, &rules, NOW, &n);

    for (size_t i = 0; i < n; i++)
        if (nc_streq(lines[i].pod->uid, uid))
            return true;
    return false;
}

/* What no drain moves neither takes a place from what it does, nor is missed. */
static void test_excluded_pods_count_for_no_concurrency(void **state) {
    static const bool sides[] = {false, true};
    struct nc_pod daemon, ended;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(sides); i++) {
        struct nc_drain *d = nc_drain_new();
        nc_drain_set_max(d, 2);
        daemon = new_pod("daemon");
        daemon.is_daemon = daemon.has_started = true;
        ended = new_pod("ended");
        ended.is_terminal = true;
        if (sides[i]) {
            assert_int_equal(gap_after(d, daemon, false), NC_LIST_COMPLETE);
            assert_int_equal(gap_after(d, ended, false), NC_LIST_COMPLETE);
        }
        assert_int_equal(gap_after(d, new_pod("a"), false), NC_LIST_COMPLETE);
        assert_int_equal(gap_after(d, new_pod("b"), false), NC_LIST_COMPLETE);
        if (!sides[i]) {
            assert_int_equal(gap_after(d, daemon, false), NC_LIST_COMPLETE);
            assert_int_equal(gap_after(d, ended, false), NC_LIST_COMPLETE);
        }
        assert_true(is_kept(d, "a") && is_kept(d, "b"));
        assert_int_equal(nc_drain_count(d), 2);
        /* Karpenter's taint comes: now it would have to go as well. */
        assert_int_equal(gap_after(d, new_pod("a"), true), NC_LIST_TOO_MANY);
        nc_drain_begin_list(d);
        nc_drain_listed(d);
        assert_int_equal(gap_after(d, new_pod("a"), true), NC_LIST_COMPLETE);
        nc_drain_free(d);
    }
}

/* Whoever may create pods fills the table, but cannot crowd out those that kubelet has started; nor
 * is a pod forgotten about which a question is in flight. */
static void test_a_flood(void **state) {
    const struct nc_drain_rules rules = {.may_evict = true, .max_in_flight = 1};
    struct nc_drain_action action;
    struct nc_drain *d = nc_drain_new();
    struct nc_drain_summary sum;
    struct nc_pod started = new_pod("x");

    (void)state;
    nc_drain_set_max(d, 3);
    for (size_t i = 0; i < 3; i++) {
        const char *uids[] = {"a", "b", "c"};
        assert_int_equal(gap_after(d, new_pod(uids[i]), false), NC_LIST_COMPLETE);
    }
    assert_int_equal(nc_drain_step(d, &rules, NOW, &action, 1), 1);
    assert_string_equal(action.pod->uid, "a");
    assert_int_equal(gap_after(d, new_pod("d"), false), NC_LIST_TOO_MANY);
    started.has_started = true;
    (void)gap_after(d, started, false);
    started = new_pod("y");
    started.has_started = true;
    (void)gap_after(d, started, false);
    assert_true(is_kept(d, "a") && is_kept(d, "x") && is_kept(d, "y"));
    started = new_pod("z");
    started.has_started = true;
    assert_int_equal(nc_drain_see(d, &started, NOW), -E2BIG);
    nc_drain_summarize(d, &rules, NOW, &sum);
    assert_int_equal(sum.total, 3); /* what was dropped has not left */
    assert_int_equal(sum.gap, NC_LIST_TOO_MANY);
    assert_false(nc_drain_has_room(d, sum.remaining));
    nc_drain_free(d);
}

/* One that an answer says is gone keeps its place while another question about it is in flight:
 * seen again, it is not asked that once more. */
static void test_gone_while_asked(void **state) {
    const struct nc_drain_rules rules = {.t_usec = NOW, .may_evict = true, .max_in_flight = 2};
    const struct nc_pod_answer gone = {.kind = NC_ANSWER_GONE};
    struct nc_drain *d = nc_drain_new();
    struct nc_drain_action action;

    (void)state;
    nc_drain_set_max(d, 1);
    (void)gap_after(d, new_pod("a"), false);
    assert_int_equal(nc_drain_step(d, &rules, NOW, &action, 1), 1);
    assert_int_equal(action.verb, NC_DRAIN_EVICT);
    assert_int_equal(nc_drain_step(d, &rules, NOW + 1000000, &action, 1), 1);
    assert_int_equal(action.verb, NC_DRAIN_MARK);
    nc_drain_answer(d, &(struct nc_drain_reply){"a", NC_DRAIN_EVICT, &gone, 0, NOW + 1100000});
    (void)gap_after(d, new_pod("b"), false);
    nc_drain_gone(d, "b", NOW + 1100000);
    (void)gap_after(d, new_pod("a"), false);
    for (uint64_t now_usec = NOW + 2200000; now_usec < NOW + 6000000; now_usec += 1000000)
        while (nc_drain_step(d, &rules, now_usec, &action, 1) == 1)
            assert_int_not_equal(action.verb, NC_DRAIN_MARK);
    nc_drain_free(d);
}

/* Excluded pods that are terminating, or stuck, hold no place either: else nothing would ever be
 * listed again. */
static void test_terminating_pods_that_are_excluded(void **state) {
    struct nc_drain *d = nc_drain_new();
    struct nc_pod mirror = new_pod("mirror"), stuck = new_pod("stuck");

    (void)state;
    nc_drain_set_max(d, 2);
    mirror.is_mirror = true;
    mirror.deletion_usec = NOW;
    stuck.deletion_usec = NOW - 61000000;
    assert_int_equal(gap_after(d, mirror, false), NC_LIST_COMPLETE);
    assert_int_equal(gap_after(d, stuck, false), NC_LIST_COMPLETE);
    assert_int_equal(gap_after(d, new_pod("a"), false), NC_LIST_COMPLETE);
    assert_int_equal(gap_after(d, new_pod("b"), false), NC_LIST_COMPLETE);
    assert_true(is_kept(d, "a") && is_kept(d, "b"));
    nc_drain_free(d);
}

/* What is missing stays missing until a list was complete; an unreadable pod likewise. */
static void test_gap_until_a_complete_list(void **state) {
    const struct nc_drain_rules rules = {0};
    struct nc_drain *d = nc_drain_new();

    (void)state;
    nc_drain_set_max(d, 1);
    (void)gap_after(d, new_pod("a"), false);
    assert_int_equal(gap_after(d, new_pod("b"), false), NC_LIST_TOO_MANY);
    nc_drain_listed(d);
    assert_int_equal(nc_drain_gap(d, &rules), NC_LIST_TOO_MANY);
    nc_drain_gone(d, "a", NOW);
    assert_true(nc_drain_has_room(d, 0));
    assert_int_equal(nc_drain_gap(d, &rules), NC_LIST_TOO_MANY);
    nc_drain_begin_list(d);
    assert_int_equal(gap_after(d, new_pod("b"), false), NC_LIST_TOO_MANY);
    nc_drain_listed(d);
    assert_int_equal(nc_drain_gap(d, &rules), NC_LIST_COMPLETE);
    nc_drain_miss(d);
    nc_drain_listed(d);
    assert_int_equal(nc_drain_gap(d, &rules), NC_LIST_UNREADABLE);
    assert_string_equal(nc_list_gap_name(NC_LIST_UNREADABLE), "UnreadablePod");
    nc_drain_begin_list(d);
    nc_drain_listed(d);
    assert_int_equal(nc_drain_gap(d, &rules), NC_LIST_COMPLETE);
    assert_int_equal(gap_after(d, new_pod("c"), false), NC_LIST_TOO_MANY);
    nc_drain_restart(d);
    assert_int_equal(nc_drain_gap(d, &rules), NC_LIST_COMPLETE);
    nc_drain_free(d);
}

static size_t used_bytes(void) {
    const struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* A pod costs less than 400 bytes, and a step allocates nothing, but what libc keeps of the first
 * one. Where malloc is not glibc's (sanitizers), there is nothing to count. */
static void test_memory(void **state) {
    const struct nc_drain_rules rules = {.may_evict = true, .max_in_flight = 100};
    struct nc_drain_action actions[100];

    (void)state;
    for (int i = 0; i < 2; i++) {
        const size_t before = used_bytes();
        struct nc_drain *d = nc_drain_new();

        fill(d, NC_DRAIN_MAX_PODS);
        const size_t filled = used_bytes();
        if (filled > before)
            assert_in_range((filled - before) / NC_DRAIN_MAX_PODS, 1, 400);
        assert_int_equal(nc_drain_step(d, &rules, NOW, actions, 100), 100);
        (void)nc_drain_next(d, &rules, NOW);
        if (i > 0)
            assert_int_equal(used_bytes(), filled);
        nc_drain_free(d);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_lines_are_in_order),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_excluded_pods_count_for_no_concurrency),
        cmocka_unit_test(test_a_flood),
        cmocka_unit_test(test_gone_while_asked),
        cmocka_unit_test(test_terminating_pods_that_are_excluded),
        cmocka_unit_test(test_gap_until_a_complete_list),
        cmocka_unit_test(test_memory),
    };

    return run_group(tests, NULL, NULL);
}
