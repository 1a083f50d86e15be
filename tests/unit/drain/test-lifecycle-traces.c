/*
 * The lifecycle of a node in stories (N1, N2): sources, policies, deadlines, and how each ends.
 */
#include "groups.h"
#include "life-world.h"

/* A report first, then a drain with a deadline: the signal names the stronger one before the
 * cordon. */
static void test_weaker_then_stronger(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice rebalance",
         "SAY RebalanceRecommended; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "@reported"},
        {1010, "next", "2000 @reported"},
        {5000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {5010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {5020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_stronger_then_weaker(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "notice rebalance", "SAY RebalanceRecommended @evicting"},
        {1060, "notice maintenance +600", "SAY ScheduledMaintenance @evicting"},
        {2100, "tick", "WRITE progress[Evicting] @evicting"},
        {2110, "ok", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A graceful request drains; the spot notice that follows brings the force-delete times. */
static void test_earliest_deadline(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30 b:3600", "@evicting"},
        {1040, "synced", "evict a; evict b @evicting"},
        {1050, "no a", "SAY DrainBlocked @evicting"},
        {1050, "yes b", "@evicting"},
        {1060, "leaving b:3600", "@evicting"},
        {1070, "next", "1967 @evicting"},
        {60000, "notice spot +180",
         "SAY SpotInterruption; WRITE signal[Evicting pending]; delete b 164; evict a @evicting"},
        {60010, "ok", "@evicting"},
        {60020, "yes b", "SAY DrainForced @evicting"},
        {60020, "next", "60220 @evicting"},
        {60030, "leaving b:104", "@evicting"},
        {61010, "no a", "SAY DrainBlocked @evicting"},
        {133000, "tick", "WRITE progress[Evicting]; evict a @evicting"},
        {133010, "ok", "@evicting"},
        {133500, "no a", "SAY DrainBlocked @evicting"},
        {134000, "tick", "mark a @evicting"},
        {134010, "yes a", "@evicting"},
        {135000, "tick", "SAY DrainForced; WRITE progress[Forcing]; delete a 30 @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_deadline_moves_earlier(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain +300", "Requested"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "no a", "SAY DrainBlocked @evicting"},
        {2010, "tick", "WRITE progress[Evicting]; evict a @evicting"},
        {2030, "ok", "@evicting"},
        {3000, "notice request drain +55", "WRITE signal[Evicting pending] @evicting"},
        {3010, "ok", "@evicting"},
        {13000, "tick", "LOOK @evicting"}, /* is it withdrawn by now? */
        {13010, "node", "@evicting"},
        {14000, "tick", "mark a @evicting"},
        {14010, "yes a", "@evicting"},
        {15000, "tick", "SAY DrainForced; WRITE progress[Forcing]; delete a 30 @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_deadline_moves_later(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain +60", "Requested"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "no a", "SAY DrainBlocked @evicting"},
        {2030, "tick", "WRITE progress[Evicting]; evict a @evicting"},
        {2040, "ok", "@evicting"},
        {3000, "notice request drain +600", "WRITE signal[Evicting pending] @evicting"},
        {3010, "ok", "@evicting"},
        {15000, "tick", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Everything is forced at once, and the failure is said. */
static void test_deadline_in_the_past(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +0", "SpotInterruption"),
        {1030, "pods a:30", "evict a @evicting"},
        {1030, "again a", "SAY DrainForced; mark a @evicting"},
        {1030, "yes a", "delete a 30 @evicting"},
        {1040, "synced", "@evicting"},
        {1050, "yes a", "@evicting"},
        {2020, "tick", "WRITE progress[Forcing]; delete a 30 @evicting"},
        {2030, "ok", "@evicting"},
        {2100, "lost a", "LOOK @volume-wait"},
        {2200, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6030, "ok", "@drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* EC2 keeps memory: each pod has its complete grace, and what does not leave is left. */
static void test_hibernation(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120 action=hibernate", "SpotInterruption"),
        {1030, "pods a:30 b:30", "@evicting"},
        {1040, "synced", "evict a; evict b @evicting"},
        {1050, "yes a", "@evicting"},
        {1060, "no b", "SAY DrainBlocked @evicting"},
        {130000, "next", NULL},
        {130000, "tick", "WRITE progress[Evicting]; evict b @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Seen more than a minute after its time: said, and nothing more. */
static void test_time_long_past(void **state) {
    static const struct life_row rows[][5] = {
        {{0, "begin", "@idle"},
         {61001, "notice spot +0",
          "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
         {61010, "ok", "@reported"},
         {61020, "restart", NULL},
         {61030, "notice spot +0", "@reported"}},
        {{0, "begin", "@idle"},
         {61001, "notice maintenance begin+0 action=system-reboot",
          "SAY ScheduledMaintenance; WRITE signal[Detected pending] @signalling"},
         {61010, "ok", "@reported"}},
    };
    static const struct life_row in_time[] = {
        {0, "begin", "@idle"},
        {60000, "notice spot +0",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {60010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct life_world w;
        life_world_init(&w);
        for (size_t k = 0; k < NC_ARRAY_SIZE(rows[i]) && rows[i][k].event; k++)
            life_play(&w, &rows[i][k], 1);
        assert_non_null(strstr(w.last_status, "\"policy\":\"report\""));
        assert_non_null(strstr(w.last_status, "\"deadline\":null"));
        life_world_done(&w);
    }
    LIFE_STORY(in_time);
}

/* Drains were off until after its deadline: it does not end every pod at once then, whether the
 * configuration changed under the daemon or between two lives of it. A request goes on without the
 * deadline. */
static void test_deadline_that_passed_while_drains_were_off(void **state) {
    static const struct {
        const char *notice;
        enum nc_source source;
        enum nc_policy policy;
        bool has_t;
    } rows[] = {
        {"notice request drain +100", NC_SOURCE_REQUEST, NC_POLICY_DRAIN, false},
        {"notice spot +100", NC_SOURCE_SPOT, NC_POLICY_REPORT, false},
        /* whoever deleted the NodeClaim ends the node in any case */
        {"notice request drain +100 id=claim-u", NC_SOURCE_REQUEST, NC_POLICY_DRAIN, true},
        {"notice deletion drain +100 last", NC_SOURCE_DELETION, NC_POLICY_DRAIN, true},
    };
    static const char *const modes[] = {"rules mode=off", "rules mode=observe"};
    static const char *const changes[] = {"rules mode=auto", "restart"};
    static const unsigned turned_on[] = {161000, 105100, 98000};

    (void)state;
    for (size_t i = 0; i < 12 * NC_ARRAY_SIZE(rows); i++) {
        const char *notice = rows[i / 12].notice;
        const unsigned on = turned_on[i / 4 % 3];
        const enum nc_policy policy = on < 100000 ? NC_POLICY_DRAIN : rows[i / 12].policy;
        struct life_world w;
        struct nc_lifecycle_view v;
        life_world_init(&w);
        (void)life_do(&w, 0, modes[i % 2]);
        (void)life_do(&w, 0, "begin");
        (void)life_do(&w, 10, notice);
        for (unsigned at = 20; w.write.is_in_flight; at += 10)
            (void)life_do(&w, at, "ok");
        w.rules.drain.mode = NC_DRAIN_AUTO;
        (void)life_do(&w, on, changes[i / 2 % 2]);
        (void)life_do(&w, on + 10, notice);
        life_clear_all_but(&w, on + 10, rows[i / 12].source);
        (void)life_do(&w, on + 20, "node");
        for (unsigned at = on + 30; w.write.is_in_flight; at += 10)
            (void)life_do(&w, at, "ok");
        (void)life_do(&w, on + 1000, "tick");
        nc_lifecycle_get_view(w.life, w.now_usec, &v);
        assert_int_equal(v.policy, policy);
        assert_int_equal(v.t_usec != 0, on < 100000 || rows[i / 12].has_t);
        assert_int_equal(w.server.is_unschedulable, v.policy >= NC_POLICY_CORDON);
        life_world_done(&w);
    }
}

/* The machine of a request is still there when its deadline passes: nobody knows when it ends, if
 * at all. Pods that were asked to go have what they were given, the others the whole of theirs. */
static void test_deadline_of_a_request_passes(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain +100", "Requested"),
        {99000, "tick", "SAY DrainFailed; WRITE progress[Failed] @evicting"},
        {99010, "ok", "@evicting"},
        {106100, "tick", "SAY Requested; WRITE signal[Failed pending] @evicting"},
        {106110, "ok", "@evicting"},
        {106200, "pods a:30", "@evicting"},
        {106210, "synced", "evict a @evicting"},
        {106220, "again a", "@evicting"},
        {200000, "tick", "WRITE progress[Failed]; evict a @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Asked once more by the same id: for a time that is ahead, or for none. */
static void test_late_and_asked_again(void **state) {
    static const char *const again[] = {"notice request drain +600", "notice request drain"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(again); i++) {
        struct life_world w;
        struct nc_lifecycle_view v;
        life_world_init(&w);
        (void)life_do(&w, 0, "begin");
        (void)life_do(&w, 10, "notice request drain +100");
        (void)life_do(&w, 105100, "tick");
        nc_lifecycle_get_view(w.life, w.now_usec, &v);
        assert_int_equal(v.t_usec, 0);
        assert_non_null(strstr(w.last_message, "that time has passed"));
        (void)life_do(&w, 106000, again[i]);
        nc_lifecycle_get_view(w.life, w.now_usec, &v);
        assert_int_equal(v.t_usec != 0, i == 0);
        assert_null(strstr(w.last_message, "passed"));
        life_world_done(&w);
    }
}

/* Maintenance: reported at once, cordoned and drained when it begins. */
static void test_begin_ahead(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice maintenance +3600 begin+2700",
         "SAY ScheduledMaintenance; WRITE signal[Detected pending] @signalling"},
        {1000, "next", "2700000 @signalling"},
        {1010, "ok", "OPEN @reported"},
        {1010, "next", "2000 @reported"},
        {2000, "tick", "@reported"},
        {2000, "synced", "@reported"},
        {2700000, "tick", "LOOK; CLOSE @cordoning"},
        {2700010, "node", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {2700020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {2700020, "next", "2701010 @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The pods are asked for their graces a day ahead: the drain begins earlier by the longest of them,
 * is not taken back once the longest has gone, and the moment moves with what is there. */
static void test_begin_ahead_of_the_longest_grace(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice maintenance +864000 begin+863100",
         "SAY ScheduledMaintenance; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "@reported"},
        {2000, "tick", "@reported"},
        {2000, "next", "776700000 @reported"},
        {776700000, "tick", "OPEN @reported"},
        {776700100, "pods a:3600 b:30", "@reported"},
        {776700100, "synced", "@reported"},
        {776700100, "next", "859500000 @reported"},
        {800000000, "pods c:7200", "@reported"},
        {800000000, "next", "855900000 @reported"},
        {855900000, "tick", "LOOK; CLOSE @cordoning"},
        {855900010, "node", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {855900020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {855900030, "pods a:3600 b:30", "@evicting"},
        {855900040, "synced", "evict a; evict b @evicting"},
        {855900100, "restart", "@evicting"},
        {855900110, "meta", "LOOK; WRITE progress[Evicting]; OPEN @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The same beside an event that cordons already: the cordon stands, the drain begins in time. */
static void test_begin_ahead_beside_a_cordon(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice maintenance +864000 begin+863100 cordoned",
         "SAY ScheduledMaintenance; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1020, "ok", "SAY NodeCordoned @cordoned"},
        {776700000, "tick", "OPEN @cordoned"},
        {776700100, "pods a:3600 b:30", "@cordoned"},
        {776700100, "synced", "@cordoned"},
        {776700100, "next", "859500000 @cordoned"},
        {859500000, "tick", "WRITE cordon[Cordoned cordon record label]; CLOSE @cordoning"},
        {859500010, "ok", "SAY DrainStarted; OPEN @evicting"},
    };
    static const struct life_row beside_another_source[] = {
        LIFE_CORDONED,
        {2000, "notice maintenance +864000 begin+863100",
         "SAY ScheduledMaintenance; WRITE signal[Cordoned pending] @cordoned"},
        {776700000, "tick", "OPEN @cordoned"},
        {776700100, "pods a:3600 b:30", "@cordoned"},
        {776700100, "synced", "@cordoned"},
        {776700100, "next", "859500000 @cordoned"},
    };

    (void)state;
    LIFE_STORY(story);
    LIFE_STORY(beside_another_source);
}

static void test_source_cleared_while_another_drains(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "no a", "SAY DrainBlocked @evicting"},
        {2000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Evicting pending]; evict a @evicting"},
        {2010, "ok", "@evicting"},
        {3000, "clear spot", "SAY InterruptionWithdrawn; WRITE signal[Evicting pending] @evicting"},
        {3010, "ok", "@evicting"},
        {4000, "clear request", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {4010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {4020, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {4030, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* What only reports requests no cordon. */
static void test_drain_ends_while_a_report_stays(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice rebalance",
         "SAY RebalanceRecommended; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "@reported"},
        {2000, "notice operator drain",
         "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {2010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {2020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {2030, "synced", "LOOK @volume-wait"},
        {3020, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {3030, "ok", "@volume-wait"},
        {7020, "node", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {7020, "tick", "@drained"},
        {7030, "ok", "@drained"},
        {8000, "clear operator",
         "SAY InterruptionWithdrawn; LOOK; WRITE signal[Detected pending]; CLOSE @signalling"},
        {8010, "node", "@signalling"},
        {8020, "ok", "WRITE undrained[Detected !drained] @reported"},
        {8030, "ok", "WRITE release[Detected uncordon unrecord unlabel] @reported"},
        {8040, "ok", "SAY NodeReleased @reported"},
        {9000, "tick", "@reported"},
        {20000, "next", "9030 @reported"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_spot_from_notice_to_drained(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1000, "notice spot +120", "@signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:30 b:60", "@evicting"},
        {1040, "synced", "evict a; evict b @evicting"},
        {1050, "yes a", "@evicting"},
        {1060, "yes b", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {3000, "leaving a:30 b:60", "@evicting"},
        {9000, "lost a", "WRITE progress[Evicting] @evicting"},
        {9500, "lost b", "LOOK @volume-wait"},
        {9600, "node volumes=1", "@volume-wait"},
        {10020, "tick", "@volume-wait"},
        {10030, "ok", "WRITE progress[VolumeWait] @volume-wait"},
        {10600, "tick", "LOOK @volume-wait"},
        {10700, "node volumes=0", "SAY NodeDrained @drained"},
        {10710, "ok", "WRITE drained[Drained drained] @drained"},
        {11700, "tick", "@drained"},
        {11700, "next", "none @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_withdrawn(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {2010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {2020, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {2030, "ok", "@idle"},
        {2030, "next", "none @idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_ignored(void **state) {
    static const struct life_row story[] = {
        {0, "rules spot=ignore rebalance=ignore", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice spot +120", "@idle"},
        {1000, "next", "none @idle"},
        {2000, "clear spot", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A pod that needs 8 s of a notice of 20 s has them, and one that needs more has 17 s. */
static void test_margin_of_a_late_notice(void **state) {
    static const struct life_row story[] = {
        {0, "rules margin=15", "@idle"},
        LIFE_EVICTING("spot +21", "SpotInterruption"),
        {1030, "pods a:8 b:60", "evict b @evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "yes b", "SAY DrainForced @evicting"},
        {1060, "no a", "SAY DrainBlocked @evicting"},
        {1060, "leaving b:17", "@evicting"},
        {8999, "tick", "WRITE progress[Evicting]; evict a @evicting"},
        {8999, "no a", "@evicting"},
        {8999, "ok", "@evicting"},
        {9000, "tick", "mark a @evicting"},
        {9010, "yes a", "@evicting"},
        {10000, "tick", "SAY DrainForced; WRITE progress[Forcing]; delete a 8 @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The API server was away until 11 s before the end: what is left then is the pods', not 1 s. And
 * the drain has not failed while they have it. */
static void test_asked_after_the_time(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +121", "SpotInterruption"),
        {110000, "pods a:30 b:5", "WRITE progress[Evicting]; evict a; evict b @evicting"},
        {110010, "yes a", "SAY DrainForced @evicting"},
        {110010, "no b", "SAY DrainBlocked; SAY DrainForced; mark b @evicting"},
        {110010, "ok", "@evicting"},
        {110010, "synced", "@evicting"},
        {110020, "yes b", "delete b 5 @evicting"},
        {110030, "yes b", "@evicting"},
        {110040, "leaving a:9 b:5", "@evicting"},
        {115000, "lost b", "WRITE progress[Forcing] @evicting"},
        {115010, "ok", "@evicting"},
        {118900, "tick", "@evicting"},
        {119000, "lost a", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_margin_that_is_longer_than_the_time(void **state) {
    static const struct life_row story[] = {
        {0, "rules margin=600", "@idle"},
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30", "@evicting"}, /* half of the time is theirs */
        {1040, "synced", "evict a @evicting"},
        {1045, "again a", "@evicting"},
        {31010, "tick", "SAY DrainForced; WRITE progress[Forcing]; mark a @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A source that only reports sets no force-delete time, but its deadline is told. */
static void test_report_only_keeps_no_deadline(void **state) {
    static const struct life_row story[] = {
        {0, "start", "@idle"},
        {0, "rules spot=report", "@idle"},
        {0, "clear all", "@idle"},
        {0, "node", "@idle"},
        {1000, "notice spot +60",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "@reported"},
        {2000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {2010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {2020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {2030, "pods a:30", "@evicting"},
        {2040, "synced", "evict a @evicting"},
        {2050, "no a", "SAY DrainBlocked @evicting"},
        {200000, "tick", "WRITE progress[Evicting]; evict a @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weaker_then_stronger),
        cmocka_unit_test(test_stronger_then_weaker),
        cmocka_unit_test(test_earliest_deadline),
        cmocka_unit_test(test_deadline_moves_earlier),
        cmocka_unit_test(test_deadline_moves_later),
        cmocka_unit_test(test_deadline_in_the_past),
        cmocka_unit_test(test_hibernation),
        cmocka_unit_test(test_time_long_past),
        cmocka_unit_test(test_deadline_that_passed_while_drains_were_off),
        cmocka_unit_test(test_deadline_of_a_request_passes),
        cmocka_unit_test(test_late_and_asked_again),
        cmocka_unit_test(test_begin_ahead),
        cmocka_unit_test(test_begin_ahead_of_the_longest_grace),
        cmocka_unit_test(test_begin_ahead_beside_a_cordon),
        cmocka_unit_test(test_source_cleared_while_another_drains),
        cmocka_unit_test(test_drain_ends_while_a_report_stays),
        cmocka_unit_test(test_spot_from_notice_to_drained),
        cmocka_unit_test(test_withdrawn),
        cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_margin_of_a_late_notice),
        cmocka_unit_test(test_asked_after_the_time),
        cmocka_unit_test(test_margin_that_is_longer_than_the_time),
        cmocka_unit_test(test_report_only_keeps_no_deadline),
    };

    return run_group(tests, NULL, NULL);
}
