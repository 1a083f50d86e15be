/*
 * Stories of restarts (N4, N10): what was saved, what was lost, what another boot left behind; the
 * configuration read again.
 */
#include "groups.h"
#include "life-world.h"
#include "nc/drain-report.h"

/* The write may have got through or not: it is made again. */
static void test_restart_while_signalling(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1100, "restart", "@signalling"},
        {1200, "clear shutdown", "@signalling"},
        {1300, "meta", "LOOK; WRITE signal[Detected pending] @signalling"},
        {1400, "node", "@signalling"},
        {1410, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* No second signal, no second cordon; who was asked is seen to be leaving. */
static void test_restart_while_evicting(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30 b:30", "@evicting"},
        {1040, "synced", "evict a; evict b @evicting"},
        {1050, "yes a", "@evicting"},
        {2000, "restart", "@evicting"},
        {2100, "notice spot +120", "@evicting"},
        {2200, "meta", "LOOK; WRITE progress[Evicting]; OPEN @evicting"},
        {2210, "node", "@evicting"},
        {2300, "leaving a:29", "@evicting"},
        {2310, "pods b:30", "@evicting"},
        {2320, "synced", "SAY DrainResumed; evict b @evicting"},
        {2330, "tick", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A later source leads: the drain is older than it. And since when the condition is True stays. */
static void test_restart_with_a_later_source(void **state) {
    static const struct life_row before[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {5000, "notice spot +600",
         "SAY SpotInterruption; WRITE signal[Evicting pending] @evicting"},
    };
    static const struct life_row after[] = {
        {5010, "ok", "@evicting"},
        {9000, "restart", "@evicting"},
        {9100, "notice request drain", "@evicting"},
        {9100, "notice spot +600", "@evicting"},
        {9200, "meta", "LOOK; WRITE progress[Evicting]; OPEN @evicting"},
        {9210, "node", "@evicting"},
        {9220, "pods a:30", "@evicting"},
        {9230, "synced", "SAY DrainResumed; evict a @evicting"},
    };
    struct life_world w;

    (void)state;
    life_world_init(&w);
    life_play(&w, before, NC_ARRAY_SIZE(before));
    assert_true(w.write.w.pending.is_unchanged);
    assert_int_equal(w.write.w.known_unchanged, 1u << NC_KNOWN_DRAIN_IN_PROGRESS);
    life_play(&w, after, NC_ARRAY_SIZE(after));
    assert_string_equal(
        w.last_message,
        "Going on after a restart with the drain begun at 2026-01-02T03:04:06Z, for spot, "
        "pods remaining: 1");
    nc_auto_value struct nc_value *report = nc_drain_report(w.life, w.now_usec, NULL);
    assert_true(nc_value_get(report, "sinceRestart")->boolean);
    (void)life_do(&w, 9240, "yes a");
    (void)life_do(&w, 9300, "lost a");
    (void)life_do(&w, 9310, "node");
    assert_string_equal(w.last_message, /* what the earlier process did is not known */
                        "No pods remaining; since the restart evicted: 1, force-deleted: 0");
    life_world_done(&w);
}

static void test_restart_when_drained(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6030, "ok", "@drained"},
        {7000, "restart", "@drained"},
        {7100, "meta", "LOOK; OPEN @drained"},
        {7110, "node", "WRITE progress[Drained] @drained"},
        {7200, "synced", "@drained"},
        {7210, "next", "none @drained"},
        {8000, "tick", "@drained"},
        {8010, "pods late:30", "@evicting"},
        {8020, "ok", "WRITE undrained[Evicting !drained] @evicting"},
        {8030, "ok", "@evicting"},
        {8510, "tick", "evict late @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The process was not there when the deadline passed: a request goes on without it, and ends no pod
 * at once. */
static void test_restart_after_the_deadline(void **state) {
    static const struct {
        const char *notice;
        enum nc_source source;
        unsigned at;
        bool has_t;
    } rows[] = {
        {"notice request drain +100", NC_SOURCE_REQUEST, 104000, true},
        {"notice request drain +100", NC_SOURCE_REQUEST, 106000, false},
        {"notice request drain +100", NC_SOURCE_REQUEST, 161500, false},
        {"notice spot +100", NC_SOURCE_SPOT, 161500, true},
        {"notice request drain +100 id=claim-u", NC_SOURCE_REQUEST, 161500, true},
        {"notice deletion drain +100 last", NC_SOURCE_DELETION, 161500, true},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct life_world w;
        struct nc_lifecycle_view v;
        life_world_init(&w);
        (void)life_do(&w, 0, "begin");
        (void)life_do(&w, 10, rows[i].notice);
        for (unsigned at = 20; w.write.is_in_flight; at += 10)
            (void)life_do(&w, at, "ok");
        (void)life_do(&w, 1000, "pods a:30");
        (void)life_do(&w, 1010, "synced");
        (void)life_do(&w, 1020, "node");
        (void)life_do(&w, 6500, "tick");
        (void)life_do(&w, 6510, "ok");
        (void)life_do(&w, rows[i].at, "restart");
        (void)life_do(&w, rows[i].at + 10, rows[i].notice);
        life_clear_all_but(&w, rows[i].at + 10, rows[i].source);
        (void)life_do(&w, rows[i].at + 20, "node");
        nc_lifecycle_get_view(w.life, w.now_usec, &v);
        assert_int_equal(v.policy, NC_POLICY_DRAIN);
        assert_int_equal(v.t_usec != 0, rows[i].has_t);
        life_world_done(&w);
    }
}

/* The configuration of before the restart allowed the drain, that of now does not. */
static void test_restart_with_the_drain_turned_off(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6030, "ok", "@drained"},
        {7000, "restart", "@drained"},
        {7000, "rules mode=off", "@signalling"},
        {7010, "tick", "@signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* It was drained when it was saved; a pod came since, and left a volume behind. */
static void test_restart_when_drained_no_more(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6030, "ok", "@drained"},
        {13000, "set -drained volumes=1", "@drained"},
        {14000, "restart", "@drained"},
        {14100, "meta", "LOOK; OPEN @drained"},
        {14150, "synced", "@drained"},
        {14200, "node", "WRITE progress[VolumeWait] @volume-wait"},
        {14210, "ok", "@volume-wait"},
        {20000, "node volumes=0", "WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Nothing is undone before every source was observed. */
static void test_restart_and_withdrawn_meanwhile(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2000, "restart", "@evicting"},
        {2100, "node", "WRITE progress[Evicting]; OPEN @evicting"},
        {2200, "clear spot", "SAY InterruptionWithdrawn; CLOSE @releasing"},
        {2300, "clear rebalance", "@releasing"},
        {2400, "clear maintenance", "@releasing"},
        {2500, "clear autoscaling", "@releasing"},
        {2600, "clear request", "@releasing"},
        {2700, "clear operator", "@releasing"},
        {2800, "clear deletion", "@releasing"},
        {2900, "clear shutdown", "LOOK @releasing"},
        {2910, "node", "@releasing"},
        {2920, "ok", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {2930, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The Node itself tells that the cordon is ours. */
static void test_state_lost(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2000, "crash", "@idle"},
        {2100, "meta", "LOOK @idle"},
        {2110, "node", "@idle"},
        {3000, "clear all", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {3010, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {3020, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Our cordon is found on the Node and is not made again. */
static void test_state_lost_and_still_announced(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2000, "crash", "@idle"},
        {2100, "node", "@idle"},
        {2200, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {2210, "ok", "SAY DrainStarted; OPEN @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_state_lost_between_release_and_clearing(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {2010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {2020, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {2025, "crash", "@idle"},
        {2030, "meta", "LOOK @idle"},
        {2040, "clear all", "@idle"},
        {2050, "node", "WRITE calm[ !pending] @releasing"},
        {2060, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* What was announced in another boot is over, but for what a person requested. */
static void test_reboot(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice maintenance +600",
         "SAY ScheduledMaintenance; WRITE signal[Detected pending] @signalling"},
        {1000, "notice operator drain", "SAY Requested @signalling"},
        {1010, "ok", "WRITE signal[Detected pending] @signalling"},
        {1020, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {9000, "reboot", "@signalling"},
        {9100, "node", "WRITE signal[Detected pending] @signalling"},
        {9110, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {9120, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {9200, "clear all", "SAY InterruptionWithdrawn; CLOSE; LOOK @releasing"},
        {9300, "clear all", "@releasing"},
        {9310, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {9320, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {9330, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The policy was drain and is report: pods stay, our cordon goes. */
static void test_rules_read_again(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2000, "rules spot=report", "LOOK; WRITE undrained[Detected]; CLOSE @reported"},
        {2010, "yes a", "@reported"},
        {2020, "node", "@reported"},
        {2030, "ok", "WRITE release[Detected uncordon unrecord unlabel] @reported"},
        {4000, "rules spot=drain", "LOOK @cordoning"},
        {4010, "node", "@cordoning"},
        {4020, "ok", "SAY NodeReleased; WRITE cordon[Cordoned cordon record label] @cordoning"},
        {5000, "rules spot=ignore", "LOOK @releasing"},
        {5010, "node", "@releasing"},
        {5020, "ok", "SAY NodeCordoned; WRITE release[- uncordon unrecord unlabel] @releasing"},
        {5030, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Reported and no more. */
static void test_mode_off(void **state) {
    static const struct life_row story[] = {
        {0, "rules mode=off", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "@reported"},
        {2000, "notice request drain", "SAY Requested @reported"},
        {2000, "notice shutdown +60",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {2010, "ok", "LET GO @reported"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Cordoned, but nobody is drained. */
static void test_mode_observe(void **state) {
    static const struct life_row story[] = {
        {0, "rules mode=observe", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1020, "ok", "SAY NodeCordoned @cordoned"},
        {3000, "tick", "@cordoned"},
        {200000, "tick", "@cordoned"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Whoever deleted the Node drains it, as long as something moves. */
static void test_mode_auto_and_deletion(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice deletion", "SAY Deletion; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; OPEN @observing"},
        {1030, "pods a:30 b:30", "@observing"},
        {1040, "synced", "@observing"},
        {2020, "tick", "WRITE progress[Cordoned] @observing"},
        {2030, "ok", "@observing"},
        {3000, "leaving a:30", "@observing"},
        {3000, "next", "3020 @observing"},
        {5000, "lost a", "WRITE progress[Cordoned] @observing"},
        {9999, "tick", "@observing"},
        {10000, "tick", "SAY DrainStarted; evict b @evicting"},
        {10010, "yes b", "@evicting"},
        {10020, "leaving b:30", "@evicting"},
        {10030, "pods late:30", "@evicting"},
        {10530, "tick", "evict late @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_mode_auto_and_another_source(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice deletion", "SAY Deletion; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; OPEN @observing"},
        {1030, "pods a:30", "@observing"},
        {1040, "synced", "@observing"},
        {1500, "notice spot +120",
         "SAY SpotInterruption; SAY DrainStarted; WRITE signal[Evicting pending]; evict a "
         "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_mode_auto_keeps_force_deletes(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice deletion +34 last",
         "SAY Deletion; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; OPEN @observing"},
        {1030, "pods a:30", "@observing"},
        {1040, "synced", "@observing"},
        {1040, "next", "2010 @observing"},
        {3000, "tick", "WRITE progress[Cordoned]; evict a @observing"},
        {3005, "again a", "mark a @observing"},
        {3010, "yes a", "@observing"},
        {4000, "tick", "SAY DrainForced; delete a 30 @observing"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_mode_always(void **state) {
    static const struct life_row story[] = {
        {0, "rules mode=always", "@idle"},
        LIFE_EVICTING("deletion", "Deletion"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* It says signalled and cordoned; the Node was released since. */
static void test_saved_state_is_older_than_the_node(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2000, "restart", "@evicting"},
        {2010, "set -status -record -cordoned -pending -label-ours -label", "@evicting"},
        {2020, "meta", "LOOK; WRITE signal[Detected pending] @signalling"},
        {2030, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {2040, "ok", "OPEN @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_restart_while_held_by_somebody_else(void **state) {
    static const struct life_row story[] = {
        {0, "begin cordoned", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {2000, "restart", "@evicting"},
        {2010, "meta", "LOOK; WRITE progress[Evicting]; OPEN @evicting"},
        {2020, "node", "@evicting"},
        {2030, "synced", "SAY DrainResumed @volume-wait"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_a_refused_write_is_tried_again_after_a_restart(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request cordon",
         "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "refused", "LOOK @cordoning"},
        {1020, "node", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1030, "refused", "SAY CordonRefused @cordoning"},
        {2000, "restart", "@cordoning"},
        {2010, "node", "WRITE signal[Detected pending] @signalling"},
        {2020, "ok", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {2030, "ok", "SAY NodeCordoned @cordoned"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_refused_cordon_that_a_person_set_over_a_restart(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1030, "refused", "SAY CordonRefused @cordoning"},
        {2000, "set cordoned", NULL},
        {2010, "restart", "@cordoning"},
        {2020, "node",
         "SAY NodeCordoned; SAY DrainStarted; WRITE progress[Evicting label]; OPEN @evicting"},
        {2030, "refused", NULL},
        {2040, "restart", "@evicting"},
        {2050, "node", "WRITE progress[Evicting]; OPEN @evicting"},
        {2055, "refused", "@evicting"},
        {2060, "clear all", "SAY InterruptionWithdrawn; CLOSE; LOOK @releasing"},
        {2070, "node", "SAY CordonLeft; WRITE release[-] @releasing"},
    };

    struct life_world w;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    assert_true(w.is_warning);
    life_world_done(&w);
}

static void test_node_replaced_while_we_were_away(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2000, "restart", "@evicting"},
        {2010, "set -status -record -cordoned -pending -label-ours -label", "@evicting"},
        {2020, "node uid=u2", "WRITE signal[Detected pending] @signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The machine is back: what the shutdown left on the Node is undone. */
static void test_reboot_after_a_shutdown(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("shutdown +30", "NodeShutdown"),
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6030, "ok", "LET GO @drained"},
        {60000, "reboot", "@idle"},
        {60010, "meta", "LOOK @idle"},
        {60020, "clear all", "@releasing"},
        {60030, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {60040, "ok", "SAY NodeReleased; WRITE calm[ !pending !drained] @releasing"},
        {60050, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_restart_while_signalling),
        cmocka_unit_test(test_restart_while_evicting),
        cmocka_unit_test(test_restart_with_a_later_source),
        cmocka_unit_test(test_restart_when_drained),
        cmocka_unit_test(test_restart_after_the_deadline),
        cmocka_unit_test(test_restart_with_the_drain_turned_off),
        cmocka_unit_test(test_restart_when_drained_no_more),
        cmocka_unit_test(test_restart_and_withdrawn_meanwhile),
        cmocka_unit_test(test_state_lost),
        cmocka_unit_test(test_state_lost_and_still_announced),
        cmocka_unit_test(test_state_lost_between_release_and_clearing),
        cmocka_unit_test(test_reboot),
        cmocka_unit_test(test_rules_read_again),
        cmocka_unit_test(test_mode_off),
        cmocka_unit_test(test_mode_observe),
        cmocka_unit_test(test_mode_auto_and_deletion),
        cmocka_unit_test(test_mode_auto_and_another_source),
        cmocka_unit_test(test_mode_auto_keeps_force_deletes),
        cmocka_unit_test(test_mode_always),
        cmocka_unit_test(test_saved_state_is_older_than_the_node),
        cmocka_unit_test(test_restart_while_held_by_somebody_else),
        cmocka_unit_test(test_a_refused_write_is_tried_again_after_a_restart),
        cmocka_unit_test(test_refused_cordon_that_a_person_set_over_a_restart),
        cmocka_unit_test(test_node_replaced_while_we_were_away),
        cmocka_unit_test(test_reboot_after_a_shutdown),
    };

    return run_group(tests, NULL, NULL);
}
