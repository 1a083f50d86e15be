/*
 * Every cell of phase × event, and every sequence of three events from each phase: nothing crashes,
 * what holds for each write holds (life-world.c), and the next moment is never one that has passed.
 */
#include "groups.h"
#include "life-world.h"

#include "nc/str.h"

/* How each phase is reached. */
static const char *const ways[_NC_LIFECYCLE_PHASE_MAX][12] = {
    [NC_LIFECYCLE_IDLE] = {"begin"},
    [NC_LIFECYCLE_SIGNALLING] = {"begin", "notice spot +120"},
    [NC_LIFECYCLE_REPORTED] = {"begin", "notice rebalance", "ok"},
    [NC_LIFECYCLE_CORDONING] = {"begin", "notice spot +120", "ok"},
    [NC_LIFECYCLE_CORDONED] = {"begin", "notice request cordon", "ok", "ok"},
    [NC_LIFECYCLE_OBSERVING] = {"begin", "notice deletion +100 last", "ok", "ok", "pods x:30",
                                "synced"},
    [NC_LIFECYCLE_EVICTING] = {"begin", "notice spot +120", "ok", "ok", "pods x:30", "synced"},
    [NC_LIFECYCLE_VOLUME_WAIT] = {"begin", "notice spot +120", "ok", "ok", "synced"},
    [NC_LIFECYCLE_DRAINED] = {"begin", "notice spot +1", "ok", "ok", "synced", "node", "tick"},
    [NC_LIFECYCLE_RELEASING] = {"begin", "notice spot +120", "ok", "ok", "clear spot"},
};

/* One for each kind of event; the answers in each form. */
static const char *const events[] = {
    "start",
    "rules spot=report",
    "rules spot=drain hooks=3",
    "notice spot +40",
    "notice deletion",
    "clear all",
    "node",
    "node uid=u2",
    "gone",
    "pods x:30",
    "lost x",
    "synced",
    "written",
    "away",
    "failing",
    "refused",
    "yes x",
    "hook preDrain done",
    "no x",
    "gone-pod x",
    "tick",
};

static void reach(struct life_world *w, enum nc_lifecycle_phase phase, unsigned *at_ms) {
    nc_auto_free char *end = nc_asprintf("@%s", nc_lifecycle_phase_name(phase));
    const char *trace = "";

    for (size_t i = 0; ways[phase][i]; i++)
        trace = life_do(w, *at_ms += strcmp(ways[phase][i], "tick") ? 10 : 6000, ways[phase][i]);
    if (!nc_ends_with(trace, end))
        fail_msg("%s is not reached but %s", end, trace);
}

static void test_every_cell(void **state) {
    (void)state;
    for (int p = 0; p < _NC_LIFECYCLE_PHASE_MAX; p++)
        for (size_t i = 0; i < NC_ARRAY_SIZE(events); i++) {
            struct life_world w;
            unsigned at_ms = 0;
            life_world_init(&w);
            reach(&w, (enum nc_lifecycle_phase)p, &at_ms);
            (void)life_do(&w, at_ms + 1, events[i]);
            life_world_done(&w);
        }
}

/* What is observed again at the same moment is no news: no announcement, no further write. */
static void test_reported_twice(void **state) {
    static const char *const repeated[] = {"notice spot +40", "clear all", "node", "gone",
                                           "rules spot=report"};

    (void)state;
    for (int p = 0; p < _NC_LIFECYCLE_PHASE_MAX; p++)
        for (size_t i = 0; i < NC_ARRAY_SIZE(repeated); i++) {
            struct life_world w;
            unsigned at_ms = 0;
            life_world_init(&w);
            reach(&w, (enum nc_lifecycle_phase)p, &at_ms);
            (void)life_do(&w, at_ms + 1, repeated[i]);
            const char *trace = life_do(&w, at_ms + 1, repeated[i]);
            if (trace[0] != '@')
                fail_msg("%s, %s twice: %s", nc_lifecycle_phase_name((enum nc_lifecycle_phase)p),
                         repeated[i], trace);
            life_world_done(&w);
        }
}

static void test_every_three_events(void **state) {
    const size_t n = NC_ARRAY_SIZE(events);

    (void)state;
    for (int p = 0; p < _NC_LIFECYCLE_PHASE_MAX; p++)
        for (size_t i = 0; i < n * n * n; i++) {
            struct life_world w;
            unsigned at_ms = 0;
            life_world_init(&w);
            reach(&w, (enum nc_lifecycle_phase)p, &at_ms);
            (void)life_do(&w, at_ms + 1, events[i % n]);
            (void)life_do(&w, at_ms + 1001, events[i / n % n]);
            (void)life_do(&w, at_ms + 2001, events[i / n / n]);
            life_world_done(&w);
        }
}

static void test_names(void **state) {
    (void)state;
    for (int p = 0; p < _NC_LIFECYCLE_PHASE_MAX; p++)
        assert_true(strlen(nc_lifecycle_phase_name((enum nc_lifecycle_phase)p)) > 3);
    assert_string_equal(nc_lifecycle_phase_name(NC_LIFECYCLE_VOLUME_WAIT), "volume-wait");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_cell),
        cmocka_unit_test(test_reported_twice),
        cmocka_unit_test(test_every_three_events),
        cmocka_unit_test(test_names),
    };

    return run_group(tests, NULL, NULL);
}
