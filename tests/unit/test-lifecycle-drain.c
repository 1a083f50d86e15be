/*
 * Stories of the drain: shutdowns, late pods, waits, and what is over.
 */
#include "life-world.h"

/* The margin is a tenth of what logind gives; it may go on once all are gone. */
static void test_shutdown_waits_for_the_drain(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice shutdown +31",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:5", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "yes a", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {3000, "lost a", "LOOK @volume-wait"},
        {3010, "node", "@volume-wait"},
        {4000, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {4010, "ok", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6030, "ok", "LET GO @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_shutdown_goes_on_when_time_is_over(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice shutdown +31",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:5", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "no a", "SAY DrainBlocked @evicting"},
        {21000, "tick", "WRITE progress[Evicting]; evict a @evicting"},
        {21010, "no a", "@evicting"},
        {21020, "ok", "@evicting"},
        {22000, "tick", "mark a @evicting"},
        {22010, "yes a", "@evicting"},
        {23000, "tick", "SAY DrainForced; WRITE progress[Forcing]; delete a 5 @evicting"},
        {23010, "yes a", "@evicting"},
        {27999, "tick", "delete a 5 @evicting"},
        {28000, "tick", "LET GO @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_shutdown_by_policy_report(void **state) {
    static const struct life_row story[] = {
        {0, "rules shutdown=report", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice shutdown +60",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {4000, "tick", "LET GO @signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_shutdown_by_policy_cordon(void **state) {
    static const struct life_row story[] = {
        {0, "rules shutdown=cordon", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice shutdown +60",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; LET GO @cordoned"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_shutdown_by_policy_ignore(void **state) {
    static const struct life_row story[] = {
        {0, "rules shutdown=ignore", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice shutdown +60", "LET GO @idle"},
        {2000, "clear shutdown", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_shutdown_without_a_node(void **state) {
    static const struct life_row story[] = {
        {0, "start", "@idle"},
        {0, "clear all", "@idle"},
        {500, "gone", "@idle"},
        {1000, "notice shutdown +60", "SAY NodeShutdown; LET GO @signalling"},
        {2000, "clear shutdown", "SAY InterruptionWithdrawn @idle"},
        {3000, "notice shutdown +63", "SAY NodeShutdown; LET GO @signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_shutdown_before_the_node_is_seen(void **state) {
    static const struct life_row story[] = {
        {0, "start", "@idle"},
        {1000, "notice shutdown +61", "SAY NodeShutdown @signalling"},
        {1000, "next", "55000 @signalling"},
        {55000, "tick", "LET GO @signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* It was bound before the cordon and seen after the drain was complete. */
static void test_late_pod(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6030, "ok", "@drained"},
        {6500, "pods late:30", "WRITE undrained[Evicting !drained]; evict late @evicting"},
        {7000, "yes late", "@evicting"},
        {7020, "tick", "@evicting"},
        {7030, "ok", "@evicting"},
        {8000, "lost late", "LOOK; WRITE progress[VolumeWait] @volume-wait"},
        {8010, "node", "@drained"},
        {8020, "ok", "WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Not before five seconds after the cordon. */
static void test_settle(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {1040, "next", "2010 @volume-wait"},
        {2020, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {2030, "ok", "@volume-wait"},
        {2030, "next", "3020 @volume-wait"},
        {6019, "tick", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The load balancers need their time after the label. */
static void test_linger(void **state) {
    static const struct life_row story[] = {
        {0, "rules linger=60", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {2020, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {2030, "ok", "@volume-wait"},
        {6020, "tick", "@volume-wait"},
        {61019, "tick", "@volume-wait"},
        {61020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_volumes_until_time_is_over(void **state) {
    static const struct life_row story[] = {
        {0, "begin volumes=2", "@idle"},
        {1000, "notice spot +60",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {2020, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {2030, "ok", "LOOK @volume-wait"},
        {2040, "node", "@volume-wait"},
        {6020, "tick", "LOOK @volume-wait"},
        {6030, "node", "@volume-wait"},
        {44000, "tick", "LOOK @volume-wait"},
        {44010, "node", "@volume-wait"},
        {44999, "tick", "@volume-wait"},
        {45000, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {45010, "ok", "@drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_time_is_over_and_pods_are_left(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +60",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "no a", "SAY DrainBlocked @evicting"},
        {2020, "tick", "WRITE progress[Evicting]; evict a @evicting"},
        {2030, "ok", "@evicting"},
        {2040, "no a", "@evicting"},
        {13000, "tick", "evict a @evicting"},
        {13010, "no a", "@evicting"},
        {14000, "tick", "mark a @evicting"},
        {14010, "yes a", "@evicting"},
        {15000, "tick", "SAY DrainForced; WRITE progress[Forcing]; delete a 30 @evicting"},
        {15010, "ok", "@evicting"},
        {15020, "again a", "@evicting"},
        {45000, "tick", "delete a 1 @evicting"},
        {45010, "again a", "@evicting"},
        {46999, "tick", "delete a 1 @evicting"},
        {47000, "tick", "SAY DrainFailed; WRITE progress[Failed] @evicting"},
        {47010, "ok", "@evicting"},
        {47020, "again a", "@evicting"},
        {48000, "lost a", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {48010, "node", "@drained"},
        {48020, "ok", "@drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_pods_never_listed(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +60",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {47000, "tick", "WRITE progress[Evicting] @evicting"},
        {54999, "tick", "@evicting"},
        {55000, "tick", "SAY DrainFailed @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* An answer said so; the list says otherwise. */
static void test_said_to_be_gone(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:30 b:30", "@evicting"},
        {1040, "synced", "evict a; evict b @evicting"},
        {1050, "gone-pod a", "@evicting"},
        {1060, "lost b", "LOOK; CLOSE; OPEN @volume-wait"},
        {1070, "pods a:30", "@volume-wait"},
        {1080, "synced", "@evicting"},
        {2080, "tick", "WRITE progress[Evicting]; evict a @evicting"},
        {2090, "gone-pod a", "LOOK; CLOSE; OPEN @volume-wait"},
        {2100, "synced", "@volume-wait"},
        {2110, "node", "@volume-wait"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_withdrawn_while_a_question_is_under_way(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "clear request", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {1060, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {1070, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {1080, "ok", "@idle"},
        {1090, "notice request drain id=again",
         "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1100, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1110, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1120, "pods a:30", "@evicting"},
        {1130, "synced", "@evicting"},
        {1140, "yes a", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shutdown_waits_for_the_drain),
        cmocka_unit_test(test_shutdown_goes_on_when_time_is_over),
        cmocka_unit_test(test_shutdown_by_policy_report),
        cmocka_unit_test(test_shutdown_by_policy_cordon),
        cmocka_unit_test(test_shutdown_by_policy_ignore),
        cmocka_unit_test(test_shutdown_without_a_node),
        cmocka_unit_test(test_shutdown_before_the_node_is_seen),
        cmocka_unit_test(test_late_pod),
        cmocka_unit_test(test_settle),
        cmocka_unit_test(test_linger),
        cmocka_unit_test(test_volumes_until_time_is_over),
        cmocka_unit_test(test_time_is_over_and_pods_are_left),
        cmocka_unit_test(test_pods_never_listed),
        cmocka_unit_test(test_said_to_be_gone),
        cmocka_unit_test(test_withdrawn_while_a_question_is_under_way),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
