/*
 * The table of pods: order, replacement, its limit, what is handed over, and what it costs.
 */
#include "base-test.h"

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
    struct nc_drain_line line;

    (void)state;
    assert_null(nc_drain_free(NULL));
    assert_int_equal(nc_drain_count(d), 0);
    assert_int_equal(nc_drain_step(d, &rules, NOW, &action, 1), 0);
    assert_int_equal(nc_drain_lines(d, &rules, NOW, &line, 1), 0);
    assert_true(nc_drain_next(d, &rules, NOW) == UINT64_MAX);
    nc_drain_gone(d, NULL, NOW);
    nc_drain_gone(d, "", NOW);
    nc_drain_restart(d);
    assert_null(nc_drain_free(d));
}

/* What is handed over is the drain's; what was there before is freed. */
static void test_taken_over(void **state) {
    struct nc_drain *d = nc_drain_new();
    const struct nc_drain_rules rules = {0};
    struct nc_pod pod = new_pod("a"), again = new_pod("a");
    struct nc_drain_line line;

    (void)state;
    nc_strv_add(&again.claims, "data");
    again.grace_sec = 5;
    assert_int_equal(nc_drain_see(d, &pod, NOW), 0);
    assert_null(pod.uid);
    assert_int_equal(nc_drain_see(d, &again, NOW), 0);
    assert_null(again.claims.v);
    nc_pod_done(&again);
    assert_int_equal(nc_drain_count(d), 1);
    assert_int_equal(nc_drain_lines(d, &rules, NOW, &line, 1), 1);
    assert_int_equal(line.pod->grace_sec, 5);
    assert_string_equal(line.pod->claims.v[0], "data");
    nc_drain_free(d);
}

static void test_lines_are_in_order(void **state) {
    enum { N = 300 };
    struct nc_drain *d = nc_drain_new();
    const struct nc_drain_rules rules = {0};
    struct nc_drain_line lines[N];
    uint64_t seed = 1;

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
    assert_int_equal(nc_drain_lines(d, &rules, NOW, lines, 10), 10);
    assert_int_equal(nc_drain_lines(d, &rules, NOW, lines, N), N);
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
    nc_drain_answer(d, uid, NC_DRAIN_EVICT, &gone, 0, NOW);
    assert_int_equal(nc_drain_count(d), NC_DRAIN_MAX_PODS - 1);
    pod = new_pod("one more");
    assert_int_equal(nc_drain_see(d, &pod, NOW), 0);
    assert_int_equal(nc_drain_count(d), NC_DRAIN_MAX_PODS);
    nc_drain_free(d);
}

static size_t used_bytes(void) {
    const struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* A pod costs less than 400 bytes, and a step allocates nothing. Where malloc is not glibc's
 * (sanitizers), there is nothing to count. */
static void test_memory(void **state) {
    const struct nc_drain_rules rules = {.may_evict = true, .max_in_flight = 100};
    struct nc_drain_action actions[100];
    const size_t before = used_bytes();
    struct nc_drain *d = nc_drain_new();

    (void)state;
    fill(d, NC_DRAIN_MAX_PODS);
    const size_t filled = used_bytes();
    if (filled > before)
        assert_in_range((filled - before) / NC_DRAIN_MAX_PODS, 1, 400);
    assert_int_equal(nc_drain_step(d, &rules, NOW, actions, 100), 100);
    (void)nc_drain_next(d, &rules, NOW);
    assert_int_equal(used_bytes(), filled);
    nc_drain_free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_taken_over),
        cmocka_unit_test(test_lines_are_in_order),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_memory),
    };

    return cmocka_run_group_tests_name("drain pods", tests, NULL, NULL);
}
