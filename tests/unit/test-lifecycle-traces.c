/*
 * The life of a node in stories: time, what happens, what is asked for.
 */
#include "life-world.h"

static void test_spot_from_notice_to_drained(void **state) {
    (void)state;
    LIFE_STORY(
        {0, "start", "@idle"}, {0, "clear all", "@idle"}, {0, "node", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1000, "notice spot +120", "@signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:30 b:60", "@evicting"}, {1040, "synced", "evict a; evict b @evicting"},
        {1050, "yes a", "@evicting"}, {1060, "yes b", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"}, {2030, "ok", "@evicting"},
        {3000, "leaving a:30 b:60", "@evicting"},
        {9000, "lost a", "WRITE progress[Evicting] @evicting"}, {9010, "ok", "@evicting"},
        {9500, "lost b", "LOOK @volume-wait"}, {9600, "node volumes=1", "@volume-wait"},
        {10020, "tick", "WRITE progress[VolumeWait] @volume-wait"}, {10030, "ok", "@volume-wait"},
        {10600, "tick", "LOOK @volume-wait"},
        {10700, "node volumes=0", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {10710, "ok", "@drained"}, {11700, "tick", "@drained"}, {11700, "next", "none @drained"}, );
}

static void test_withdrawn(void **state) {
    (void)state;
    LIFE_STORY({0, "start", "@idle"}, {0, "clear all", "@idle"}, {0, "node", "@idle"},
               {1000, "notice spot +120",
                "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
               {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
               {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
               {2000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
               {2010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
               {2020, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
               {2030, "ok", "@idle"}, {2030, "next", "none @idle"}, );
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spot_from_notice_to_drained),
        cmocka_unit_test(test_withdrawn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
