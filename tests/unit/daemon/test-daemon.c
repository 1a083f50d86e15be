/*
 * The lifecycle on the loop: what is posted while a step is carried out, the timer, the history,
 * state before the first question. The lifecycle itself is a script here, and those who carry out
 * are told of in a trace.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"
#include "groups.h"
#include "nc/mem.h"
#include "trace.h"

#define SECOND 1000000ull

/* --- the script */

static struct {
    enum nc_lifecycle_phase phase;
    bool is_active;
    uint64_t next_in_usec; /* UINT64_MAX: no tick */
    unsigned steps;
    uint64_t last_usec;
    int64_t clock_offset_usec;                 /* of the last step */
    const enum nc_lifecycle_action_kind *asks; /* what the next step requests */
    size_t n_asks;
    int64_t set_by_usec; /* the machine's clock */
    struct nc_imds_stats stats;
} script;

static const char *kind_name(enum nc_lifecycle_event_kind kind) {
    static const char *const names[] = {"START",   "RULES",  "NOTICE",         "CLEARED",  "NODE",
                                        "GONE",    "POD",    "POD_UNREADABLE", "POD_GONE", "SYNCED",
                                        "WRITTEN", "ANSWER", "HOOK",           "TICK"};

    return names[kind];
}

struct nc_lifecycle {
    int unused;
};

void nc_lifecycle_step(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                       struct nc_lifecycle_actions *out) {
    (void)l;
    say("%s%s%s", kind_name(e->kind), e->uid ? ":" : "", e->uid ? e->uid : "");
    if (e->node)
        say("node=%s", e->node->uid);
    if (e->notice)
        say("id=%s", e->notice->id);
    if (e->more)
        say("more");
    assert_true(e->now_usec >= script.last_usec);
    script.last_usec = e->now_usec;
    script.clock_offset_usec = e->clock_offset_usec;
    script.steps++;
    script.is_active |= e->kind == NC_LIFECYCLE_NOTICE;
    for (size_t i = 0; i < script.n_asks; i++)
        nc_append(&out->v, &out->n)->kind = script.asks[i];
    script.n_asks = 0;
}

uint64_t nc_lifecycle_next(const struct nc_lifecycle *l, uint64_t now_usec) {
    (void)l;
    return script.next_in_usec == UINT64_MAX ? UINT64_MAX : now_usec + script.next_in_usec;
}

void nc_lifecycle_get_view(const struct nc_lifecycle *l, uint64_t now_usec,
                           struct nc_lifecycle_view *ret) {
    (void)l;
    (void)now_usec;
    *ret = (struct nc_lifecycle_view){.phase = script.phase, .leading = script.is_active ? 0 : -1};
    ret->is_active[NC_SOURCE_SPOT] = script.is_active;
}

const struct nc_notice *nc_lifecycle_notice(const struct nc_lifecycle *l, enum nc_source s) {
    static const struct nc_notice spot = {.source = NC_SOURCE_SPOT};

    (void)l;
    return script.is_active && s == NC_SOURCE_SPOT ? &spot : NULL;
}

const char *nc_lifecycle_phase_name(enum nc_lifecycle_phase p) {
    return p == NC_LIFECYCLE_IDLE ? "idle" : "busy";
}

struct nc_lifecycle *nc_lifecycle_free(struct nc_lifecycle *l) {
    free(l);
    return NULL;
}

void nc_lifecycle_actions_done(struct nc_lifecycle_actions *a) {
    free(a->v);
    *a = (struct nc_lifecycle_actions){0};
}

/* --- the clocks */

uint64_t __real_nc_now_usec(void);
uint64_t __wrap_nc_now_usec(void);
uint64_t __wrap_nc_now_usec(void) {
    return (uint64_t)((int64_t)__real_nc_now_usec() + script.set_by_usec);
}

void __wrap_nc_imds_get_stats(const struct nc_imds *i, struct nc_imds_stats *ret);
void __wrap_nc_imds_get_stats(const struct nc_imds *i, struct nc_imds_stats *ret) {
    (void)i;
    *ret = script.stats;
}

const struct nc_drain *nc_lifecycle_drain(const struct nc_lifecycle *l) {
    (void)l;
    return NULL;
}

/* --- those who carry out */

void nc_own_node_write(struct nc_daemon *d, const struct nc_node_write *w) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_WRITTEN, .outcome = NC_WRITE_UNAVAILABLE};

    (void)w;
    say("[write");
    nc_daemon_post(d, &e); /* answered at once */
    say("]");
}

void nc_pod_evictor_send(struct nc_daemon *d, const struct nc_drain_action *a) {
    char uid[] = "pod-1";
    struct nc_pod_answer answer = {.kind = NC_ANSWER_UNAVAILABLE};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_POD_ANSWER, .uid = uid, .answer = &answer};

    (void)a;
    say("[pod");
    nc_daemon_post(d, &e);
    memset(uid, 'x', sizeof(uid) - 1); /* what was posted must be a copy */
    say("]");
}

void nc_fit_gate_check(struct nc_daemon *d) {
    (void)d;
}

uint64_t nc_api_session_away_usec(const struct nc_api_session *s) {
    (void)s;
    return 0;
}

void nc_api_session_check_soon(struct nc_daemon *d) {
    (void)d;
}

void nc_pod_evictor_open(struct nc_daemon *d) {
    (void)d;
}

void nc_pod_evictor_unwatch(struct nc_daemon *d) {
    (void)d;
}

void nc_pod_evictor_renew(struct nc_daemon *d) {
    (void)d;
}

void nc_pod_evictor_query_volumes(struct nc_daemon *d, const struct nc_drain *drain,
                                  const struct nc_drain_rules *rules) {
    (void)d;
    (void)drain;
    (void)rules;
}

void nc_own_node_refresh(struct nc_daemon *d) {
    (void)d;
    say("[look]");
}

void nc_own_node_check(struct nc_daemon *d) {
    (void)d;
}

void nc_daemon_announce(struct nc_daemon *d, const struct nc_lifecycle_action *a) {
    (void)d;
    (void)a;
}

void nc_daemon_log_pod(struct nc_daemon *d, const struct nc_pod_news *n) {
    (void)d;
    (void)n;
}

void nc_daemon_tell_pod(struct nc_daemon *d, const struct nc_pod_news *n) {
    (void)d;
    (void)n;
}

void nc_shutdown_release(struct nc_daemon *d) {
    (void)d;
}

void nc_hook_runner_start(struct nc_daemon *d, enum nc_hook h, bool is_followed) {
    (void)d;
    (void)h;
    (void)is_followed;
}

void nc_hook_runner_check(struct nc_daemon *d) {
    (void)d;
}

void nc_daemon_state_save(struct nc_daemon *d) {
    d->is_state_due = false;
}

/* --- the tests */

struct world {
    struct nc_app app;
    struct nc_daemon d;
};

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    memset(&script, 0, sizeof(script));
    script.next_in_usec = UINT64_MAX;
    assert_int_equal(sd_event_new(&w->app.event), 0);
    w->d = (struct nc_daemon){.app = &w->app, .steps.timer_usec = UINT64_MAX};
    w->d.life = nc_calloc(1, sizeof(struct nc_lifecycle));
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_daemon_done(&w->d);
    sd_event_unref(w->app.event);
    nc_buf_done(&trace);
    free(w);
    return 0;
}

static void asks(const enum nc_lifecycle_action_kind *kinds, size_t n) {
    script.asks = kinds;
    script.n_asks = n;
}

static void post(struct world *w, enum nc_lifecycle_event_kind kind) {
    struct nc_lifecycle_event e = {.kind = kind};

    nc_daemon_post(&w->d, &e);
}

/* An action that ends at once posts its result while the step is still carried out: that waits
 * until the rest of the actions is done, and has copies of what it pointed at. */
static void test_posts_inside_of_a_post_wait(void **state) {
    static const enum nc_lifecycle_action_kind kinds[] = {
        NC_LIFECYCLE_ACTION_WRITE, NC_LIFECYCLE_ACTION_POD, NC_LIFECYCLE_ACTION_REFRESH_NODE};
    struct world *w = *state;

    asks(kinds, NC_ARRAY_SIZE(kinds));
    post(w, NC_LIFECYCLE_TICK);
    assert_string_equal(trace.data, "TICK [write ] [pod ] [look] WRITTEN ANSWER:pod-1 more");
    assert_null(w->d.steps.queue);
    assert_false(w->d.steps.is_stepping);
}

/* Everything that an event can carry outlives the caller's stack in the queue. */
static void test_queued_copies(void **state) {
    struct world *w = *state;
    struct nc_notice notice = {.source = NC_SOURCE_SPOT, .id = "spot-1"};
    struct nc_node_view node = {.exists = true, .uid = "node-1"};
    struct nc_lifecycle_rules rules = {.max_in_flight = 7};
    struct nc_pod pod = {.uid = nc_strdup("p"), .name = nc_strdup("n")};
    struct nc_lifecycle_event events[] = {{.kind = NC_LIFECYCLE_NOTICE, .notice = &notice},
                                          {.kind = NC_LIFECYCLE_NODE, .node = &node},
                                          {.kind = NC_LIFECYCLE_RULES, .rules = &rules},
                                          {.kind = NC_LIFECYCLE_POD, .pod = &pod}};

    w->d.steps.is_stepping = true;
    for (size_t i = 0; i < NC_ARRAY_SIZE(events); i++)
        nc_daemon_post(&w->d, &events[i]);
    assert_null(pod.uid); /* taken over */
    w->d.steps.is_stepping = false;
    memset(&notice, 'x', sizeof(notice));
    memset(&node, 'x', sizeof(node));
    memset(&rules, 'x', sizeof(rules));
    post(w, NC_LIFECYCLE_TICK);
    assert_string_equal(trace.data, "TICK NOTICE id=spot-1 NODE node=node-1 "
                                    "RULES POD more");
}

/* Freed with events still waiting: nothing is lost (the sanitizer and valgrind look). */
static void test_done_with_a_queue(void **state) {
    struct world *w = *state;
    struct nc_pod pod = {.uid = nc_strdup("p")};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_POD, .pod = &pod, .uid = "p"};

    w->d.steps.is_stepping = true;
    nc_daemon_post(&w->d, &e);
    nc_daemon_done(&w->d);
    assert_null(w->d.steps.queue);
    post(w, NC_LIFECYCLE_TICK); /* there is no life any more */
    assert_int_equal(script.steps, 0);
}

static void test_timer_ticks(void **state) {
    struct world *w = *state;

    script.next_in_usec = 20000;
    post(w, NC_LIFECYCLE_START);
    script.next_in_usec = UINT64_MAX;
    while (script.steps < 2)
        assert_true(sd_event_run(w->app.event, 5 * SECOND) > 0);
    assert_string_equal(trace.data, "START TICK");
    assert_true(w->d.steps.timer_usec == UINT64_MAX);
    assert_int_equal(sd_event_run(w->app.event, 50000), 0); /* it is off */
}

static void test_timer_is_set_earlier_and_off(void **state) {
    struct world *w = *state;

    script.next_in_usec = 3600 * SECOND;
    post(w, NC_LIFECYCLE_START);
    script.next_in_usec = 1000;
    post(w, NC_LIFECYCLE_NODE_GONE);
    script.next_in_usec = UINT64_MAX;
    while (script.steps < 3)
        assert_true(sd_event_run(w->app.event, 5 * SECOND) > 0);
    script.next_in_usec = 30000;
    post(w, NC_LIFECYCLE_NODE_GONE);
    script.next_in_usec = UINT64_MAX;
    post(w, NC_LIFECYCLE_NODE_GONE);
    assert_int_equal(sd_event_run(w->app.event, 100000), 0);
    assert_int_equal(script.steps, 5);
}

static void test_history(void **state) {
    struct world *w = *state;
    const struct nc_value *first;

    for (unsigned i = 0; i < 100; i++) {
        script.phase = i % 2 ? NC_LIFECYCLE_IDLE : NC_LIFECYCLE_EVICTING;
        post(w, NC_LIFECYCLE_TICK);
    }
    assert_int_equal(w->d.history->n, 64);
    first = w->d.history->items[0];
    assert_string_equal(nc_value_get_string(first, "phase"), "busy");
    assert_non_null(nc_value_get_string(first, "at"));
    assert_string_equal(nc_value_get_string(w->d.history->items[63], "phase"), "idle");
}

static void test_notices_are_counted_when_they_become_active(void **state) {
    struct nc_notice notice = {.source = NC_SOURCE_SPOT, .id = "s"};
    struct world *w = *state;

    nc_daemon_post_notice(&w->d, &notice);
    nc_daemon_post_notice(&w->d, &notice); /* the next poll observes the same */
    assert_int_equal(w->d.counters.notices[NC_SOURCE_SPOT], 1);
}

/* A poll that observes nothing, again and again, must not make anybody write. */
static void test_nothing_new_is_no_news(void **state) {
    struct world *w = *state;

    nc_daemon_post_cleared(&w->d, NC_SOURCE_SPOT);
    assert_false(w->d.is_state_due);
    assert_false(w->d.is_status_due);
    post(w, NC_LIFECYCLE_TICK);
    assert_true(w->d.is_state_due);
    assert_true(w->d.is_status_due);
}

/* What one packet tells of many pods is checked once, after it; none of it is kept on disk. */
static void test_pods_of_one_turn(void **state) {
    struct world *w = *state;

    for (size_t turn = 0; turn < 2; turn++) {
        nc_buf_clear(&trace);
        post(w, NC_LIFECYCLE_POD_GONE);
        post(w, NC_LIFECYCLE_POD_GONE);
        assert_true(sd_event_run(w->app.event, 5 * SECOND) > 0);
        assert_string_equal(trace.data, "POD_GONE more POD_GONE more TICK");
        assert_int_equal(sd_event_run(w->app.event, 1000), 0);
        assert_false(w->d.is_state_due);
        assert_true(w->d.is_status_due);
    }
}

/* The difference of the clocks is known better with each answer: what is only our doubt dates
 * nothing anew. */
static void test_clock_is_known_better(void **state) {
    struct world *w = *state;
    int64_t offset_usec;

    w->d.counters.skew_usec = 900000;
    post(w, NC_LIFECYCLE_TICK);
    offset_usec = script.clock_offset_usec;
    w->d.counters.skew_usec = 850000;
    post(w, NC_LIFECYCLE_TICK); /* nc_lifecycle_step asserts that time does not run back */
    assert_int_equal(script.clock_offset_usec, offset_usec);
    w->d.counters.skew_usec = 0;
    post(w, NC_LIFECYCLE_TICK);
    assert_in_range(offset_usec - script.clock_offset_usec, 800000, 1000000);
    assert_int_equal(script.steps, 3);
}

/* EC2's time stays what it is though the machine's clock is set; the next answer of IMDS says by
 * how much that is off now. */
static void test_a_clock_that_is_set(void **state) {
    static const int64_t by_sec[] = {3600, -7200, 0};
    const uint64_t ahead_usec = 600 * SECOND;
    struct world *w = *state;

    w->d.imds = (struct nc_imds *)w; /* nobody looks into it */
    script.stats = (struct nc_imds_stats){.has_skew = true,
                                          .skew_usec = (int64_t)ahead_usec,
                                          .boot_usec = nc_now_usec() + ahead_usec - nc_boot_usec()};
    post(w, NC_LIFECYCLE_TICK);
    for (size_t i = 0; i < NC_ARRAY_SIZE(by_sec); i++) {
        const uint64_t before_usec = script.last_usec;
        script.set_by_usec = by_sec[i] * (int64_t)SECOND;
        post(w, NC_LIFECYCLE_TICK); /* nc_lifecycle_step asserts that time does not run back */
        assert_in_range(script.last_usec - before_usec, 0, 10 * SECOND);
        assert_true(
            llabs((int64_t)(nc_daemon_now(&w->d) - script.last_usec) - script.clock_offset_usec)
            < (int64_t)(10 * SECOND)); /* the two clocks are read one after the other */
    }
    assert_int_equal(w->d.counters.skew_usec, ahead_usec);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_posts_inside_of_a_post_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_queued_copies, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_done_with_a_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_timer_ticks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_timer_is_set_earlier_and_off, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_history, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_notices_are_counted_when_they_become_active, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_nothing_new_is_no_news, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_pods_of_one_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_clock_is_known_better, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_clock_that_is_set, set_up, tear_down),
    };

    return run_group(tests, NULL, NULL);
}
