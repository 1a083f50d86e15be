/*
 * Hooks (N16): when each is started, what waits for it and for how long, and what a restart keeps.
 */
#include "groups.h"
#include "life-world.h"

#include "nc/mem.h"

/* A drain of one pod, up to where its pods are listed. */
#define CORDONED(deadline)                                                                         \
    {0, "rules hooks=30", "@idle"}, {0, "begin", "@idle"},                                         \
        {1000, "notice spot" deadline,                                                             \
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},                      \
    {                                                                                              \
        1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"                        \
    }

static void test_before_the_first_eviction(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1020, "hook preDrain running", "@evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "@evicting"},
        {3000, "tick", "WRITE progress[Evicting] @evicting"},
        {3010, "ok", "@evicting"},
        {9000, "tick", "@evicting"},
        {9010, "hook preDrain done", "SAY DrainStarted; evict a @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A pod waits for its replacement from when it could be evicted, not from when the hook began. */
static void test_replacement_is_waited_for_after_it(void **state) {
    static const struct life_row story[] = {
        {0, "rules replacement=20", "@idle"},
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1020, "hook preDrain running", "@evicting"},
        {1030, "first a:30", "@evicting"},
        {1040, "synced", "@evicting"},
        {3000, "tick", "WRITE progress[Evicting] @evicting"},
        {3010, "ok", "@evicting"},
        {25000, "hook preDrain done",
         "SAY DrainStarted; SAY WaitingForReplacement; WRITE progress[Evicting] @evicting"},
        {25010, "ok", "@evicting"},
        {44999, "tick", "@evicting"},
        {45000, "tick", "SAY ReplacementNotReady; WRITE progress[Evicting]; evict a @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The cluster is told what a drain waits for. */
static void test_slow(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1020, "hook preDrain running", "@evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "@evicting"},
        {3000, "tick", "WRITE progress[Evicting] @evicting"},
        {3010, "ok", "@evicting"},
        {11019, "tick", "@evicting"},
        {11019, "next", "11020 @evicting"},
        {11020, "tick", "WRITE progress[Evicting] @evicting"},
        {11030, "ok", "@evicting"},
    };
    struct life_world w;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    assert_non_null(strstr(w.last_status, "\"hook\":\"nodeclaimd-pre-drain.target\""));
    (void)life_do(&w, 14000, "hook preDrain done");
    assert_null(strstr(w.last_status, "hook"));
    life_world_done(&w);
}

/* Who has none loses no time: the answer comes in the same turn. */
static void test_none(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1020, "hook preDrain none", "SAY DrainStarted @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "yes a", "@evicting"},
        {2050, "lost a", "LOOK; WRITE progress[VolumeWait] @volume-wait"},
        {2060, "ok", "@volume-wait"},
        {6020, "tick", "START postDrain @volume-wait"},
        {6020, "hook postDrain none", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Without a time to wait for them there are no hooks. */
static void test_off(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1015, "rules hooks=0", "@cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "lost a", "LOOK @volume-wait"},
        {1060, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_failed(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "@evicting"},
        {1900, "hook preDrain failed", "SAY HookFailed; SAY DrainStarted; evict a @evicting"},
        {1910, "hook preDrain failed", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* One that hangs is waited for no longer than that; what comes of it later is nobody's business. */
static void test_timeout(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {11020, "tick", "WRITE progress[Evicting] @evicting"},
        {11030, "ok", "@evicting"},
        {31019, "tick", "@evicting"},
        {31019, "next", "31020 @evicting"},
        {31020, "tick",
         "SAY HookTimedOut; SAY DrainStarted; WRITE progress[Evicting]; evict a @evicting"},
        {31030, "hook preDrain failed", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* T is 105 s after the notice; a pod that needs 80 s is asked at 25 s, hook or no hook. */
static void test_force_delete_time_ends_the_wait(void **state) {
    static const struct life_row story[] = {
        CORDONED(" +120"),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1030, "pods a:80 b:30", "@evicting"},
        {1040, "synced", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {11020, "tick", "WRITE progress[Evicting] @evicting"},
        {11030, "ok", "@evicting"},
        {23999, "tick", "@evicting"},
        {24000, "tick",
         "SAY HookTimedOut; SAY DrainStarted; WRITE progress[Evicting]; evict a; evict b "
         "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A pod that is leaving already needs nothing from the hook's time. */
static void test_leaving_pod_does_not_end_the_wait(void **state) {
    static const struct life_row story[] = {
        CORDONED(" +120"),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1030, "leaving a:90", NULL},
        {1035, "pods b:30", NULL},
        {1040, "synced", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {11020, "tick", "WRITE progress[Evicting] @evicting"},
        {11030, "ok", "@evicting"},
        {20000, "tick", "@evicting"},
        {21000, "hook preDrain done",
         "SAY DrainStarted; WRITE progress[Evicting]; evict b @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Up to the second hook: all pods are gone, the grace period after the cordon is over. */
#define EMPTIED(deadline)                                                                          \
    CORDONED(deadline), {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},          \
        {1020, "hook preDrain done", NULL}, {1040, "synced", "LOOK @volume-wait"},                 \
        {1050, "node", NULL}, {2050, "tick", NULL}, {2060, "ok", NULL},                            \
        {6020, "tick", "START postDrain @volume-wait"}, {                                          \
        6020, "hook postDrain running", "@volume-wait"                                             \
    }

static void test_before_drained(void **state) {
    static const struct life_row story[] = {
        EMPTIED(""),
        {16020, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {16030, "ok", "@volume-wait"},
        {20000, "tick", "@volume-wait"},
        {20010, "hook postDrain done", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_second_fails(void **state) {
    static const struct life_row story[] = {
        EMPTIED(""),
        {7000, "hook postDrain failed",
         "SAY HookFailed; SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_second_hangs(void **state) {
    static const struct life_row story[] = {
        EMPTIED(""),
        {16020, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {16030, "ok", "@volume-wait"},
        {36019, "tick", "@volume-wait"},
        {36020, "tick",
         "SAY HookTimedOut; SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* T is 15 s after the notice. */
static void test_deadline_ends_the_second(void **state) {
    static const struct life_row story[] = {
        EMPTIED(" +18"),
        {14999, "tick", "@volume-wait"},
        {15000, "tick",
         "SAY HookTimedOut; SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A pod that comes late is drained, and neither hook is started again. */
static void test_once_a_drain(void **state) {
    static const struct life_row story[] = {
        EMPTIED(""),
        {7000, "hook postDrain done", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {7010, "ok", "@drained"},
        {8000, "pods late:30", "WRITE undrained[Evicting !drained] @evicting"},
        {8010, "ok", "@evicting"},
        {8600, "tick", "evict late @evicting"},
        {9700, "lost late", NULL},
        {9710, "node", NULL},
        {9720, "tick", NULL},
        {9730, "written", NULL},
        {30000, "tick", "@drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Another notice joins the same drain; a withdrawn one ends it, and the next has its own hooks. */
static void test_next_drain(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1020, "hook preDrain done", "SAY DrainStarted @evicting"},
        {1500, "notice operator", NULL},
        {1510, "written", "@evicting"},
        {2000, "clear spot", NULL},
        {2010, "written", "@evicting"},
        {2100, "clear operator", NULL},
        {2105, "node", NULL},
        {2110, "written", NULL},
        {2120, "written", "@idle"},
        {3000, "notice spot id=spot-2", NULL},
        {3005, "written", NULL},
        {3010, "node", NULL},
        {3020, "written", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_withdrawn_has_no_second(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "@evicting"},
        {1100, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {1105, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {1110, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {1120, "hook preDrain done", "@releasing"},
        {1130, "ok", "@idle"},
        {60000, "tick", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* One that runs is followed, and its time is not begun anew. */
static void test_restart(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "@evicting"},
        {5000, "restart", "FOLLOW preDrain @evicting"},
        {5030, "node", NULL},
        {5040, "pods a:30", NULL},
        {5050, "synced", NULL},
        {31019, "tick", NULL},
        {31020, "tick", "SAY HookTimedOut; SAY DrainStarted; evict a @evicting"},
        {31030, "restart", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Until every source was observed nobody knows whether the drain goes on. */
static void test_restart_keeps_what_was_done(void **state) {
    static const struct life_row story[] = {
        CORDONED(""),
        {1020, "ok", "SAY NodeCordoned; START preDrain; OPEN @evicting"},
        {1020, "hook preDrain done", "SAY DrainStarted @evicting"},
    };
    struct life_world w;
    struct nc_lifecycle_view view;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    w.rules.drain.policy[NC_SOURCE_SPOT] = NC_POLICY_REPORT; /* the built-in policies differ */
    (void)life_do(&w, 1040, "restart");
    (void)life_do(&w, 1050, "rules spot=drain");
    nc_lifecycle_get_view(w.life, w.now_usec, &view);
    assert_int_equal(view.hooks[NC_HOOK_PRE_DRAIN].state, NC_HOOK_DONE);
    life_world_done(&w);
}

static int load_with(struct life_world *w, const char *hooks) {
    nc_auto_value struct nc_value *saved = nc_lifecycle_save(w->life);
    nc_auto_value struct nc_value *v = NULL;
    struct nc_lifecycle *l = nc_lifecycle_new(&w->rules);
    int r;

    assert_int_equal(nc_json_parse(hooks, strlen(hooks), &v, NULL), 0);
    nc_value_set(saved, "hooks", nc_steal(&v));
    r = nc_lifecycle_load(l, saved, true, 0);
    nc_lifecycle_free(l);
    return r;
}

static void test_strange_state(void **state) {
    static const char *const strange[] = {
        "[]",
        "{\"preDrain\":1}",
        "{\"preDrain\":{}}",
        "{\"preDrain\":{\"state\":\"idle\",\"started\":\"1\",\"ended\":\"0\"}}",
        "{\"preDrain\":{\"state\":\"ran\",\"started\":\"1\",\"ended\":\"0\"}}",
        "{\"preDrain\":{\"state\":\"done\",\"started\":1,\"ended\":\"0\"}}",
        "{\"postDrain\":{\"state\":\"done\",\"started\":\"1\",\"ended\":\"-1\"}}",
        "{\"postDrain\":{\"state\":\"done\",\"started\":\"1\"}}",
    };
    struct life_world w;

    (void)state;
    life_world_init(&w);
    (void)life_do(&w, 0, "begin");
    for (size_t i = 0; i < NC_ARRAY_SIZE(strange); i++)
        if (load_with(&w, strange[i]) == 0)
            fail_msg("%s is loaded", strange[i]);
    assert_int_equal(load_with(&w, "{}"), 0);
    assert_int_equal(
        load_with(&w, "{\"preDrain\":{\"state\":\"done\",\"started\":\"1\",\"ended\":\"2\"}}"), 0);
    life_world_done(&w);
}

/* Without hooks the saved state is what it was before there were any. */
static void test_saved_without_hooks(void **state) {
    struct life_world w;

    (void)state;
    life_world_init(&w);
    (void)life_do(&w, 0, "begin");
    nc_auto_value struct nc_value *saved = nc_lifecycle_save(w.life);
    assert_null(nc_value_get(saved, "hooks"));
    life_world_done(&w);
}

/* What an early look at the pods saw may be gone by now: the new list says what needs the time. */
static void test_pods_of_an_earlier_look(void **state) {
    static const struct life_row story[] = {
        {0, "rules hooks=30", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice maintenance +120 begin+100",
         "SAY ScheduledMaintenance; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "OPEN @reported"},
        {2000, "pods a:84", "@reported"},
        {2000, "synced", "@reported"},
        {17000, "tick", "LOOK; CLOSE @cordoning"},
        {17010, "node", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {20000, "ok", "START preDrain; OPEN; SAY NodeCordoned; WRITE progress[Evicting] @evicting"},
        {20000, "hook preDrain running", "@evicting"},
        {20500, "tick", "@evicting"},
        {20510, "pods b:30", "@evicting"},
        {20520, "synced", "@evicting"},
        {20530, "ok", "@evicting"},
        {40000, "hook preDrain done",
         "SAY DrainStarted; WRITE progress[Evicting]; evict b @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_the_first_eviction),
        cmocka_unit_test(test_replacement_is_waited_for_after_it),
        cmocka_unit_test(test_slow),
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_failed),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_force_delete_time_ends_the_wait),
        cmocka_unit_test(test_leaving_pod_does_not_end_the_wait),
        cmocka_unit_test(test_before_drained),
        cmocka_unit_test(test_second_fails),
        cmocka_unit_test(test_second_hangs),
        cmocka_unit_test(test_deadline_ends_the_second),
        cmocka_unit_test(test_once_a_drain),
        cmocka_unit_test(test_next_drain),
        cmocka_unit_test(test_withdrawn_has_no_second),
        cmocka_unit_test(test_restart),
        cmocka_unit_test(test_restart_keeps_what_was_done),
        cmocka_unit_test(test_pods_of_an_earlier_look),
        cmocka_unit_test(test_strange_state),
        cmocka_unit_test(test_saved_without_hooks),
    };

    return run_group(tests, NULL, NULL);
}
