/*
 * Stories of N3. EC2's clock is corrected in the middle of a story, by so much back or ahead: what
 * waits for so long goes on as if nothing had happened, and a deadline that EC2 said moves with the
 * clock.
 */
#include <errno.h>

#include "groups.h"
#include "life-world.h"

/* A budget refuses: the eviction is tried again after its pause, not before, and not never. */
static const struct life_row budget[] = {
    {0, "begin", "@idle"},
    {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
    {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
    {1030, "pods a:30 b:30", "@evicting"},
    {1040, "synced", "evict a; evict b @evicting"},
    {1050, "yes b", "@evicting"},
    {1060, "no a", "SAY DrainBlocked @evicting"},
    {1600, "tick", "@evicting"},
    {2060, "tick", "WRITE progress[Evicting]; evict a @evicting"},
    {2070, "yes a", "@evicting"},
    {2080, "ok", "@evicting"},
    {2090, "leaving a:30 b:30", "@evicting"},
    {3060, "tick", "WRITE progress[Evicting] @evicting"},
    {3070, "ok", "@evicting"},
    {4000, "lost a b", "LOOK @volume-wait"},
    {4010, "node", "@volume-wait"},
    {6000, "tick", "WRITE progress[VolumeWait] @volume-wait"},
    {6010, "ok", "@volume-wait"},
    {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    {6030, "ok", "@drained"},
};

/* The load balancer is given its time. */
static const struct life_row linger[] = {
    {0, "begin", "@idle"},
    {500, "rules linger=20", "@idle"},
    {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
    {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
    {1030, "synced", "LOOK @volume-wait"},
    {1040, "node", "@volume-wait"},
    {2100, "tick", "WRITE progress[VolumeWait] @volume-wait"},
    {2110, "ok", "@volume-wait"},
    {20000, "tick", "@volume-wait"},
    {21020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
};

/* So long a hook is waited for. */
static const struct life_row hook[] = {
    {0, "begin", "@idle"},
    {500, "rules hooks=30", "@idle"},
    {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
    {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
    {1020, "hook preDrain running", "@evicting"},
    {1030, "pods a:30", "@evicting"},
    {1040, "synced", "@evicting"},
    {2020, "tick", "WRITE progress[Evicting] @evicting"},
    {2030, "ok", "@evicting"},
    {11020, "tick", "WRITE progress[Evicting] @evicting"},
    {11030, "ok", "@evicting"},
    {31019, "tick", "@evicting"},
    {31020, "tick",
     "SAY HookTimedOut; SAY DrainStarted; WRITE progress[Evicting]; evict a @evicting"},
};

/* So long a pod waits for its replacement. */
static const struct life_row replacement[] = {
    {0, "begin", "@idle"},
    {500, "rules replacement=60", "@idle"},
    {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
    {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
    {1030, "first a:30", "@evicting"},
    {1040, "synced", "SAY WaitingForReplacement @evicting"},
    {2020, "tick", "WRITE progress[Evicting] @evicting"},
    {2030, "ok", "@evicting"},
    {61019, "tick", NULL}, /* since when it waits is told by the clock as it is now */
    {61020, "tick", "* evict a @evicting"},
};

/* Whoever deleted the Node drains it, as long as something moves. */
static const struct life_row observing[] = {
    {0, "begin", "@idle"},
    {1000, "notice deletion", "SAY Deletion; WRITE signal[Detected pending] @signalling"},
    {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    {1020, "ok", "SAY NodeCordoned; OPEN @observing"},
    {1030, "pods a:30 b:30", "@observing"},
    {1040, "synced", "@observing"},
    {4000, "leaving b:30", "WRITE progress[Cordoned] @observing"},
    {4010, "ok", "@observing"},
    {6500, "tick", "@observing"},
    {8999, "tick", "@observing"},
    {9000, "tick", "SAY DrainStarted; WRITE progress[Evicting]; evict a @evicting"},
};

/* A write that fails is tried again. */
static const struct life_row retries[] = {
    {0, "begin", "@idle"},
    {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
    {1010, "away", "@signalling"},
    {1182, "tick", "@signalling"},
    {1200, "tick", "WRITE signal[Detected pending] @signalling"},
    {1210, "away 5", "@signalling"},
    {6209, "tick", "@signalling"},
    {6210, "tick", "WRITE signal[Detected pending] @signalling"},
};

/* What logind gives is a time that is left, not a date. */
static const struct life_row inhibited[] = {
    {0, "begin", "@idle"},
    {1000, "notice shutdown +32", "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
    {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
    {1030, "pods a:10", "*@evicting"},
    {1040, "synced", "*evict a @evicting"},
    {1050, "refused-pod a", NULL},
    {16999, "tick", NULL},
    {17000, "tick", "*mark a @evicting"},
    {17010, "yes a", "*@evicting"},
    {17999, "tick", "*@evicting"},
    {18000, "tick", "*delete a 10 @evicting"},
};

/* So is what people say that a lifecycle hook of Auto Scaling waits. */
static const struct life_row autoscaling[] = {
    {0, "begin", "@idle"},
    {500, "rules deadline=55", "@idle"},
    {1000, "notice autoscaling",
     "SAY AutoScalingTermination; WRITE signal[Detected pending] @signalling"},
    {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
    {1030, "pods a:10", "*@evicting"},
    {1040, "synced", "*evict a @evicting"},
    {1050, "refused-pod a", NULL},
    {34999, "tick", NULL},
    {35000, "tick", "*mark a @evicting"},
    {35010, "yes a", "*@evicting"},
    {35999, "tick", "*@evicting"},
    {36000, "tick", "*delete a 10 @evicting"},
};

/* A deadline that is announced is announced anew where the clock is corrected: not in the middle of
 * the first writes. */
static const struct story {
    const char *name;
    const struct life_row *rows;
    size_t n, first;
} stories[] = {
    {"budget", budget, NC_ARRAY_SIZE(budget), 1},
    {"linger", linger, NC_ARRAY_SIZE(linger), 1},
    {"hook", hook, NC_ARRAY_SIZE(hook), 1},
    {"replacement", replacement, NC_ARRAY_SIZE(replacement), 1},
    {"observing", observing, NC_ARRAY_SIZE(observing), 1},
    {"retries", retries, NC_ARRAY_SIZE(retries), 1},
    {"inhibited", inhibited, NC_ARRAY_SIZE(inhibited), 4},
    {"autoscaling", autoscaling, NC_ARRAY_SIZE(autoscaling), 5},
};

/* After an asterisk only the end counts. */
static bool is_as_expected(const char *trace, const char *expected) {
    const size_t n = strlen(trace), end = strlen(expected) - 1;

    if (expected[0] != '*')
        return strcmp(trace, expected) == 0;
    return n >= end && strcmp(trace + n - end, expected + 1) == 0;
}

/* The clock is corrected before row `at`. */
static void play_corrected(const struct story *s, size_t at, int by_sec) {
    struct life_world w;

    life_world_init(&w);
    for (size_t i = 0; i < s->n; i++) {
        if (i == at)
            w.clock_offset_usec = (int64_t)by_sec * 1000000;
        const char *trace = life_do(&w, s->rows[i].at_ms, s->rows[i].event);
        if (s->rows[i].expected && !is_as_expected(trace, s->rows[i].expected))
            fail_msg("%s, clock %+d s before row %zu: row %zu, %s:\n  expected %s\n  found    %s",
                     s->name, by_sec, at + 1, i + 1, s->rows[i].event, s->rows[i].expected, trace);
    }
    life_world_done(&w);
}

static void test_what_waits_does_not_mind_the_clock(void **state) {
    static const int by_sec[] = {0, -95, 95, -3600, 3600};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(stories); i++)
        for (size_t k = 0; k < NC_ARRAY_SIZE(by_sec); k++)
            for (size_t at = stories[i].first; at < stories[i].n; at++)
                play_corrected(&stories[i], at, by_sec[k]);
}

/* EC2 goes by its own clock: where that is known better, its deadline is nearer or further. */
static void test_deadline_moves_with_the_clock(void **state) {
    static const struct life_row before[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "refused-pod a", "SAY DrainBlocked @evicting"},
        {2050, "tick", "WRITE progress[Evicting]; evict a @evicting"},
        {2060, "ok", "@evicting"},
        {2070, "refused-pod a", "@evicting"},
    };
    static const struct life_row as_it_was[] = {
        {73998, "tick", NULL},
        {73999, "ok", NULL},
        {74000, "tick", "mark a @evicting"},
        {74010, "yes a", "@evicting"},
        {75000, "tick", "SAY DrainForced; WRITE progress[Forcing]; delete a 30 @evicting"},
    };
    static const struct life_row ahead[] = {
        {43998, "tick", NULL},
        {43999, "tick", NULL},
        {44000, "tick", "mark a @evicting"},
        {44010, "yes a", "@evicting"},
        {45000, "tick", "SAY DrainForced; WRITE progress[Forcing]; delete a 30 @evicting"},
    };
    static const struct life_row back[] = {
        {103998, "tick", NULL},
        {103999, "ok", NULL},
        {104000, "tick", "mark a @evicting"},
        {104010, "yes a", "@evicting"},
        {105000, "tick", "SAY DrainForced; WRITE progress[Forcing]; delete a 30 @evicting"},
    };
    static const struct {
        int by_sec;
        const struct life_row *rows;
    } cases[] = {{0, as_it_was}, {30, ahead}, {-30, back}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(cases); i++) {
        struct life_world w;
        life_world_init(&w);
        life_play(&w, before, NC_ARRAY_SIZE(before));
        w.clock_offset_usec = (int64_t)cases[i].by_sec * 1000000;
        life_do(&w, 3000, "tick");
        life_do(&w, 3010, "again a");
        life_play(&w, cases[i].rows, NC_ARRAY_SIZE(as_it_was));
        life_world_done(&w);
    }
}

/* What was saved by one clock is loaded by another; and what people are shown is by the last. */
static void test_restart_by_another_clock(void **state) {
    static const int by_sec[] = {0, -95, 95, -3600, 3600};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(by_sec); i++) {
        struct nc_lifecycle_view v;
        struct life_world w;
        life_world_init(&w);
        life_play(&w, linger, 7);
        w.clock_offset_usec = (int64_t)by_sec[i] * 1000000;
        life_do(&w, 3000, "restart");
        life_do(&w, 3020, "notice request drain");
        life_do(&w, 3030, "node");
        life_do(&w, 3040, "synced");
        nc_lifecycle_get_view(w.life, nc_lifecycle_shift(w.now_usec, w.clock_offset_usec), &v);
        assert_int_equal(v.cordoned_usec,
                         nc_lifecycle_shift(LIFE_EPOCH_USEC + 1020000, w.clock_offset_usec));
        life_do(&w, 20000, "tick");
        assert_true(is_as_expected(life_do(&w, 21019, "written"), "*@volume-wait"));
        assert_non_null(strstr(life_do(&w, 21020, "tick"), "SAY NodeDrained"));
        life_world_done(&w);
    }
}

/* A release that saved no clock, and another boot: as it is known now. */
static void test_state_without_a_clock(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice operator drain", NULL},
        {2000, "reboot", NULL},
    };
    struct nc_lifecycle_view v;
    struct life_world w;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, 2);
    nc_auto_value struct nc_value *saved = nc_lifecycle_save(w.life);
    assert_true(nc_value_remove(saved, "clock_offset"));
    w.life = nc_lifecycle_free(w.life);
    w.life = nc_lifecycle_new(&w.rules);
    w.clock_offset_usec = 95000000;
    assert_int_equal(nc_lifecycle_load(w.life, saved, true, w.clock_offset_usec), 0);
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_int_equal(v.noticed_usec[NC_SOURCE_OPERATOR], LIFE_EPOCH_USEC + 1000000);
    life_do(&w, 1500, "start");
    w.clock_offset_usec = -95000000;
    life_play(&w, &story[2], 1);
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_int_equal(v.noticed_usec[NC_SOURCE_OPERATOR], LIFE_EPOCH_USEC + 1000000);
    life_world_done(&w);
}

static void test_strange_clock_is_refused(void **state) {
    struct life_world w;

    (void)state;
    life_world_init(&w);
    life_do(&w, 0, "begin");
    nc_auto_value struct nc_value *saved = nc_lifecycle_save(w.life);
    nc_value_set_string(saved, "clock_offset", "95");
    assert_int_equal(nc_lifecycle_load(w.life, saved, true, 0), -EBADMSG);
    nc_value_set_int(saved, "clock_offset", INT64_MIN);
    assert_int_equal(nc_lifecycle_load(w.life, saved, true, 0), -EBADMSG);
    nc_value_set_int(saved, "clock_offset", 95);
    assert_int_equal(nc_lifecycle_load(w.life, saved, true, 0), 0);
    life_world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_waits_does_not_mind_the_clock),
        cmocka_unit_test(test_deadline_moves_with_the_clock),
        cmocka_unit_test(test_restart_by_another_clock),
        cmocka_unit_test(test_state_without_a_clock),
        cmocka_unit_test(test_strange_clock_is_refused),
    };

    return run_group(tests, NULL, NULL);
}
