/*
 * How long a refusal keeps a pod from being asked again, by kind, seed and uid; and how many
 * questions a busy server is asked at once.
 */
#include "base-test.h"
#include "groups.h"

#include <stdbool.h>

#include "nc/drain.h"
#include "nc/mem.h"

#define SEC 1000000ull
#define START (1000000 * SEC)

struct world {
    struct nc_drain *drain;
    struct nc_drain_rules rules;
    struct nc_drain_action actions[200];
    enum nc_pod_answer_kind too_much; /* what answer_all says first */
};

static void see(struct world *w, const char *uid) {
    struct nc_pod pod = {.namespace = nc_strdup("ns"),
                         .name = nc_strdup(uid),
                         .uid = nc_strdup(uid),
                         .grace_sec = 30};

    assert_int_equal(nc_drain_see(w->drain, &pod, START), 0);
}

static size_t step(struct world *w, uint64_t now_usec) {
    return nc_drain_step(w->drain, &w->rules, now_usec, w->actions, NC_ARRAY_SIZE(w->actions));
}

static void answer(struct world *w, const char *uid, const struct nc_pod_answer *a,
                   uint64_t now_usec) {
    nc_drain_answer(w->drain,
                    &(struct nc_drain_reply){uid, NC_DRAIN_EVICT, a, w->rules.seed, now_usec});
}

/* The pauses after each answer in turn, for one pod alone. */
static void measure(bool has_deadline, uint64_t seed, const char *uid,
                    const struct nc_pod_answer *answers, size_t n, uint64_t *ret_usec) {
    struct world w = {.drain = nc_drain_new(),
                      .rules = {.t_usec = has_deadline ? START + 300 * SEC : 0,
                                .may_evict = true,
                                .max_in_flight = 10,
                                .seed = seed}};
    uint64_t now_usec = START;

    see(&w, uid);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(step(&w, now_usec), 1);
        assert_int_equal(w.actions[0].attempt, i + 1);
        answer(&w, uid, &answers[i], now_usec);
        ret_usec[i] = nc_drain_next(w.drain, &w.rules, now_usec) - now_usec;
        assert_int_equal(step(&w, now_usec + ret_usec[i] - 1), 0);
        now_usec += ret_usec[i];
    }
    nc_drain_free(w.drain);
}

#define ROW_ANSWERS 9

#define K(answer)                                                                                  \
    { .kind = NC_ANSWER_##answer }

#define UNSENT                                                                                     \
    { .kind = NC_ANSWER_UNSENT, .retry_after_usec = 200000 }

static const struct {
    const char *name;
    struct nc_pod_answer answers[ROW_ANSWERS];
    double full_sec[ROW_ANSWERS]; /* without a deadline */
    double with_sec[ROW_ANSWERS]; /* with one; nothing = the same */
    bool is_exact;
} rows[] = {
    {"a budget",
     {K(BUDGET), K(BUDGET), K(BUDGET), K(BUDGET), K(BUDGET), K(BUDGET), K(BUDGET), K(BUDGET)},
     {1, 2, 3, 5, 10, 20, 30, 30},
     {1, 2, 3, 5, 5, 5, 5, 5},
     false},
    {"a budget, whatever the server says of when",
     {{.kind = NC_ANSWER_BUDGET, .retry_after_usec = 20 * SEC}},
     {1},
     {0},
     false},
    {"more than one budget", {K(BUDGETS), K(BUDGETS)}, {30, 30}, {0}, false},
    {"a busy server that says nothing", {K(BUSY), K(BUSY)}, {1, 1}, {0}, false},
    {"a busy server that says when, up to ten seconds",
     {{.kind = NC_ANSWER_BUSY, .retry_after_usec = 2 * SEC},
      {.kind = NC_ANSWER_BUSY, .retry_after_usec = 10 * SEC},
      {.kind = NC_ANSWER_BUSY, .retry_after_usec = 3600 * SEC}},
     {2, 10, 10},
     {0},
     true},
    {"a namespace that terminates",
     {K(NAMESPACE), K(NAMESPACE), K(NAMESPACE), K(NAMESPACE), K(NAMESPACE)},
     {5, 10, 20, 30, 30},
     {5, 5, 5, 5, 5},
     false},
    {"refused",
     {K(REFUSED), K(REFUSED), K(REFUSED), K(REFUSED), K(REFUSED)},
     {1, 2, 3, 5, 10},
     {1, 2, 3, 5, 5},
     false},
    {"away",
     {K(UNAVAILABLE), K(UNAVAILABLE), K(UNAVAILABLE), K(UNAVAILABLE), K(UNAVAILABLE),
      K(UNAVAILABLE), K(UNAVAILABLE), K(UNAVAILABLE)},
     {0.5, 1, 2, 4, 8, 16, 30, 30},
     {0.5, 1, 2, 4, 5, 5, 5, 5},
     false},
    {"a webhook that does not answer",
     {K(FAILED), K(FAILED), K(FAILED), K(FAILED), K(FAILED), K(FAILED), K(FAILED), K(FAILED)},
     {0.5, 1, 2, 4, 8, 16, 30, 30},
     {0.5, 1, 2, 4, 5, 5, 5, 5},
     false},
    {"what was not sent is no answer: the pauses go on",
     {K(BUDGET), UNSENT, UNSENT, K(BUDGET), UNSENT, K(BUDGET), UNSENT, K(BUDGET)},
     {1, 0.2, 0.2, 2, 0.2, 3, 0.2, 5},
     {0},
     false},
    {"another kind begins anew",
     {K(BUDGET), K(BUDGET), K(UNAVAILABLE), K(BUDGET)},
     {1, 2, 0.5, 1},
     {0},
     false},
};

static void check_row(size_t r, bool has_deadline, uint64_t seed) {
    const double *full_sec =
        has_deadline && rows[r].with_sec[0] > 0 ? rows[r].with_sec : rows[r].full_sec;
    uint64_t usec[ROW_ANSWERS];
    size_t n = 0;

    while (n < ROW_ANSWERS && rows[r].full_sec[n] > 0)
        n++;
    measure(has_deadline, seed, "uid", rows[r].answers, n, usec);
    for (size_t i = 0; i < n; i++) {
        const uint64_t full = (uint64_t)(full_sec[i] * (double)SEC);
        if (usec[i] > full || usec[i] < (rows[r].is_exact ? full : full - full / 4))
            fail_msg("%s, %s a deadline, seed %d: pause %zu is %d us", rows[r].name,
                     has_deadline ? "with" : "without", (int)seed, i, (int)usec[i]);
    }
}

/* P11 */
static void test_pauses(void **state) {
    (void)state;
    for (size_t r = 0; r < NC_ARRAY_SIZE(rows); r++)
        for (uint64_t seed = 0; seed < 100; seed++)
            check_row(r, seed % 2, seed / 2);
}

/* A deadline that comes counts at once: no pause of before is waited for beyond what it allows. */
static void test_a_deadline_shortens_a_pause(void **state) {
    const struct nc_pod_answer refused = {.kind = NC_ANSWER_REFUSED};
    struct world w = {.drain = nc_drain_new(), .rules = {.may_evict = true, .max_in_flight = 1}};
    uint64_t now_usec = START;

    (void)state;
    see(&w, "a");
    for (size_t i = 0; i < 7; i++) {
        assert_int_equal(step(&w, now_usec), 1);
        answer(&w, "a", &refused, now_usec);
        if (i < 6)
            now_usec = nc_drain_next(w.drain, &w.rules, now_usec);
    }
    assert_true(nc_drain_next(w.drain, &w.rules, now_usec) >= now_usec + 22 * SEC);
    w.rules.t_usec = now_usec + 632 * SEC; /* a sixtieth of what is left */
    assert_int_equal(nc_drain_next(w.drain, &w.rules, now_usec), now_usec + 10 * SEC);
    w.rules.t_usec = now_usec + 120 * SEC;
    assert_true(nc_drain_next(w.drain, &w.rules, now_usec) <= now_usec + 5 * SEC);
    w.rules.t_usec = now_usec + 35 * SEC; /* the last eviction and one more */
    assert_int_equal(nc_drain_next(w.drain, &w.rules, now_usec), now_usec + 3 * SEC);
    nc_drain_free(w.drain);
}

/* Evictions of one blocked pod in two minutes. */
static size_t count_evictions(uint64_t t_usec) {
    const struct nc_pod_answer budget = {.kind = NC_ANSWER_BUDGET};
    struct world w = {.drain = nc_drain_new(),
                      .rules = {.t_usec = t_usec, .may_evict = true, .max_in_flight = 1}};
    size_t n = 0;

    see(&w, "a");
    for (uint64_t now_usec = START; now_usec < START + 120 * SEC;
         now_usec = nc_drain_next(w.drain, &w.rules, now_usec)) {
        assert_int_equal(step(&w, now_usec), 1);
        answer(&w, "a", &budget, now_usec);
        n++;
    }
    nc_drain_free(w.drain);
    return n;
}

/* Where a day is left, nothing is lost by asking as rarely as where there is no deadline. */
static void test_a_day_is_no_two_minutes(void **state) {
    (void)state;
    assert_int_equal(count_evictions(0), 10);
    assert_int_equal(count_evictions(START + 86400 * SEC), 10);
    assert_in_range(count_evictions(START + 300 * SEC), 24, 34);
}

/* The same seed and uid wait as long; others do not. */
static void test_spread(void **state) {
    const struct nc_pod_answer a = {.kind = NC_ANSWER_REFUSED};
    uint64_t one, again, other_seed, other_uid;

    (void)state;
    measure(false, 1, "uid-1", &a, 1, &one);
    measure(false, 1, "uid-1", &a, 1, &again);
    measure(false, 2, "uid-1", &a, 1, &other_seed);
    measure(false, 1, "uid-2", &a, 1, &other_uid);
    assert_int_equal(one, again);
    assert_true(one != other_seed);
    assert_true(one != other_uid);
}

static void see_many(struct world *w, size_t n) {
    for (size_t i = 0; i < n; i++) {
        nc_auto_free char *uid = nc_asprintf("pod-%03zu", i);
        see(w, uid);
    }
}

/* Answers what was asked last: so many times that there is too much to do, then another kind. */
static void answer_all(struct world *w, size_t n, size_t n_busy, enum nc_pod_answer_kind rest) {
    for (size_t i = 0; i < n; i++) {
        const struct nc_pod_answer a = {.kind = i < n_busy ? w->too_much : rest,
                                        .retry_after_usec = 10 * SEC};
        nc_auto_free char *uid = nc_strdup(w->actions[i].pod->uid);
        answer(w, uid, &a, START);
    }
}

static void halves_and_grows(enum nc_pod_answer_kind kind) {
    struct world w = {.drain = nc_drain_new(),
                      .rules = {.may_evict = true, .max_in_flight = 64},
                      .too_much = kind};

    see_many(&w, 420);
    assert_int_equal(step(&w, START), 64);
    answer_all(&w, 64, 1, NC_ANSWER_REFUSED);
    assert_int_equal(step(&w, START), 32);
    answer_all(&w, 32, 1, NC_ANSWER_REFUSED);
    assert_int_equal(step(&w, START), 16);
    answer_all(&w, 16, 2, NC_ANSWER_REFUSED);
    assert_int_equal(step(&w, START), 8); /* never fewer */
    answer_all(&w, 8, 8, NC_ANSWER_REFUSED);
    assert_int_equal(step(&w, START), 8);
    for (size_t n = 8; n < 64; n *= 2) { /* one more with each */
        answer_all(&w, n, 0, NC_ANSWER_ACCEPTED);
        assert_int_equal(step(&w, START), 2 * n);
    }
    answer_all(&w, 64, 0, NC_ANSWER_ACCEPTED);
    assert_int_equal(step(&w, START), 64); /* and never more than is allowed */
    answer_all(&w, 64, 0, NC_ANSWER_REFUSED);
    w.rules.max_in_flight = 1000;
    assert_int_equal(step(&w, START), NC_DRAIN_MAX_IN_FLIGHT);
    nc_drain_free(w.drain);
}

/* P11 */
static void test_busy_halves_and_acceptance_grows(void **state) {
    (void)state;
    halves_and_grows(NC_ANSWER_BUSY);
}

/* A server that cannot keep up answers too late, or not at all. */
static void test_unavailable_halves_too(void **state) {
    (void)state;
    halves_and_grows(NC_ANSWER_UNAVAILABLE);
}

/* A webhook that does not answer is no word of the server's load. */
static void test_an_answered_failure_halves_nothing(void **state) {
    struct world w = {.drain = nc_drain_new(),
                      .rules = {.may_evict = true, .max_in_flight = 16},
                      .too_much = NC_ANSWER_FAILED};

    (void)state;
    see_many(&w, 64);
    assert_int_equal(step(&w, START), 16);
    answer_all(&w, 16, 16, NC_ANSWER_REFUSED);
    assert_int_equal(step(&w, START), 16);
    nc_drain_free(w.drain);
}

/* What the rules allow counts where it is less than what the server bore. */
static void test_smaller_budget(void **state) {
    struct world w = {.drain = nc_drain_new(),
                      .rules = {.may_evict = true, .max_in_flight = 16},
                      .too_much = NC_ANSWER_BUSY};

    (void)state;
    see_many(&w, 100);
    assert_int_equal(step(&w, START), 16);
    answer_all(&w, 16, 1, NC_ANSWER_REFUSED);
    w.rules.max_in_flight = 4;
    assert_int_equal(step(&w, START), 4);
    answer_all(&w, 4, 0, NC_ANSWER_ACCEPTED);
    assert_int_equal(step(&w, START), 4);
    nc_drain_restart(w.drain);
    assert_int_equal(step(&w, START), 0); /* they are still in flight */
    nc_drain_free(w.drain);
}

/* A new drain does not hold an old one's haste against the server. */
static void test_new_drain(void **state) {
    struct world w = {.drain = nc_drain_new(),
                      .rules = {.may_evict = true, .max_in_flight = 16},
                      .too_much = NC_ANSWER_BUSY};

    (void)state;
    see_many(&w, 100);
    assert_int_equal(step(&w, START), 16);
    answer_all(&w, 16, 1, NC_ANSWER_REFUSED);
    nc_drain_restart(w.drain);
    assert_int_equal(step(&w, START), 16);
    nc_drain_free(w.drain);
}

/* P4: Deletions at a force-delete time do not queue behind evictions. */
static void test_force_deletes_need_no_room(void **state) {
    struct world w = {.drain = nc_drain_new(),
                      .rules = {.may_evict = true, .max_in_flight = 2, .t_usec = START + 10 * SEC}};

    (void)state;
    see_many(&w, 150);
    assert_int_equal(step(&w, START), 150);
    for (size_t i = 0; i < 150; i++)
        assert_int_equal(w.actions[i].verb, NC_DRAIN_EVICT);
    assert_int_equal(step(&w, START + SEC), 150);
    for (size_t i = 0; i < 150; i++)
        assert_int_equal(w.actions[i].verb, NC_DRAIN_MARK);
    assert_int_equal(step(&w, START + 2 * SEC), 150);
    for (size_t i = 0; i < 150; i++) {
        assert_int_equal(w.actions[i].verb, NC_DRAIN_DELETE);
        assert_int_equal(w.actions[i].grace_sec, 8);
    }
    nc_drain_free(w.drain);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_a_deadline_shortens_a_pause),
        cmocka_unit_test(test_a_day_is_no_two_minutes),
        cmocka_unit_test(test_spread),
        cmocka_unit_test(test_busy_halves_and_acceptance_grows),
        cmocka_unit_test(test_unavailable_halves_too),
        cmocka_unit_test(test_an_answered_failure_halves_nothing),
        cmocka_unit_test(test_smaller_budget),
        cmocka_unit_test(test_new_drain),
        cmocka_unit_test(test_force_deletes_need_no_room),
    };

    return run_group(tests, NULL, NULL);
}
