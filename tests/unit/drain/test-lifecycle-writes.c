/*
 * Stories of the writes (N5, N6): those that fail, those that are refused, how often, and what is
 * checked.
 */
#include "groups.h"
#include "life-world.h"

/* Nothing follows until it is written. */
static void test_signal_fails_without_deadline(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "away", "@signalling"},
        {1010, "next", "1183 @signalling"},
        {1200, "tick", "WRITE signal[Detected pending] @signalling"},
        {1210, "away", "@signalling"},
        {1210, "next", "1516 @signalling"},
        {2000, "tick", "WRITE signal[Detected pending] @signalling"},
        {2010, "away", "@signalling"},
        {9000, "tick", "WRITE signal[Detected pending] @signalling"},
        {9010, "away 5", "@signalling"},
        {9020, "next", "14010 @signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Said once it was answered so for three seconds: nothing of it is on the Node. */
static void test_signal_is_answered_with_a_failure(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "failing", "@signalling"},
        {3500, "tick", "WRITE signal[Detected pending] @signalling"},
        {3510, "failing", "@signalling"},
        {9000, "tick", "WRITE signal[Detected pending] @signalling"},
        {9010, "away", "@signalling"},
        {20000, "tick", "WRITE signal[Detected pending] @signalling"},
        {20010, "failing", "SAY CordonRefused @signalling"},
        {30000, "tick", "WRITE signal[Detected pending] @signalling"},
        {30010, "failing", "@signalling"},
        {40000, "tick", "WRITE signal[Detected pending] @signalling"},
        {40010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A cordon by hand helps where it alone is refused, and not where the API server fails at all. */
static void test_who_is_told_to_cordon(void **state) {
    static const char *const answers[] = {"refused", "failing"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(answers); i++) {
        struct nc_lifecycle_view view;
        struct life_world w;
        life_world_init(&w);
        (void)life_do(&w, 0, "begin");
        (void)life_do(&w, 1000, "notice request drain");
        (void)life_do(&w, 1010, "ok");
        for (unsigned ms = 1020; ms < 9000; ms += 500) {
            (void)life_do(&w, ms, answers[i]);
            (void)life_do(&w, ms + 400, "tick");
        }
        assert_non_null(strstr(w.last_message, ", and evictions wait for it"));
        assert_int_equal(strstr(w.last_message, "kubectl cordon") != NULL, i == 0);
        nc_lifecycle_get_view(w.life, w.now_usec, &view);
        assert_int_equal(view.is_refused, i == 0);
        assert_int_equal(view.is_failing, i == 1);
        life_world_done(&w);
    }
}

/* A report has no cordon that somebody would miss. */
static void test_report_is_answered_with_a_failure(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice rebalance",
         "SAY RebalanceRecommended; WRITE signal[Detected pending] @signalling"},
        {9000, "failing", "@signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Three seconds, and the cordon is tried; three more, and the pods are evicted. */
static void test_signal_fails_under_a_deadline(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "away", "@signalling"},
        {1200, "tick", "WRITE signal[Detected pending] @signalling"},
        {1210, "away", "@signalling"},
        {1600, "tick", "WRITE signal[Detected pending] @signalling"},
        {1610, "away", "@signalling"},
        {2300, "tick", "WRITE signal[Detected pending] @signalling"},
        {2310, "away", "@signalling"},
        {4000, "tick", "LOOK; WRITE signal[Detected pending] @cordoning"},
        {4010, "node", "@cordoning"},
        {4020, "away", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {4030, "next", "5522 @cordoning"},
        {4300, "tick", "@cordoning"},
        {4310, "away", "@cordoning"},
        {7000, "tick", "SAY DrainStarted; WRITE signal[Evicting pending]; OPEN @evicting"},
        {7010, "away", "WRITE cordon[Evicting cordon record label] @evicting"},
        {7020, "pods a:30", "@evicting"},
        {7030, "synced", "evict a @evicting"},
        {8000, "tick", "@evicting"},
        {8010, "ok", "SAY NodeCordoned; CLOSE; OPEN @evicting"},
        {8200, "synced", "LOOK @volume-wait"},
        {9100, "tick", "WRITE signal[VolumeWait pending] @volume-wait"},
        {9110, "ok", "@volume-wait"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Of two that fail, the one that was tried longest ago. */
static void test_writes_take_turns(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +600",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "away", "@signalling"},
        {4000, "tick", "LOOK; WRITE signal[Detected pending] @cordoning"},
        {4010, "node", "@cordoning"},
        {4020, "away", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {4030, "away 10", "@cordoning"},
        {6000, "tick", "WRITE signal[Detected pending] @cordoning"},
        {6010, "away", "@cordoning"},
        {8500, "tick", "SAY DrainStarted; WRITE signal[Evicting pending]; OPEN @evicting"},
        {8510, "away", "@evicting"},
        {15000, "tick", "WRITE cordon[Evicting cordon record label] @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* What is refused for good holds up nothing. */
static void test_refused_for_good(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "refused", "LOOK @cordoning"},
        {1020, "node", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1030, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1040, "synced", "@volume-wait"},
        {1050, "node", "@volume-wait"},
        {2100, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {2110, "refused", "@volume-wait"},
        {6030, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6040, "refused", "@drained"},
        {8000, "tick", "WRITE undrained[Drained] @drained"}, /* who waits reads the annotation */
        {8010, "ok", "@drained"},
        {10800, "tick", "WRITE signal[Drained pending] @drained"}, /* it may have been mended */
        {10810, "ok", "@drained"},
        {40000, "tick", "@drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A policy that freezes labels: the cordon stands without it. */
static void test_label_refused(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1030, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1040, "synced", NULL},
        {1050, "node", NULL},
        {6030, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6040, "ok", "@drained"},
        {61010, "tick", "@drained"},
        {61020, "tick", "WRITE progress[Drained label] @drained"},
        {61030, "refused", "@drained"},
        {121030, "tick", "WRITE progress[Drained label] @drained"},
        {121040, "ok", "@drained"},
        {200000, "tick", "@drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* By who prunes what he has not written. */
static void test_status_is_taken_away(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {2040, "meta -status", "@evicting"},
        {3020, "tick", "WRITE progress[Evicting] @evicting"},
        {3030, "ok", "@evicting"},
        {3040, "meta -record", "@evicting"}, /* nor is the cordon's record */
        {13019, "tick", "@evicting"},
        {13020, "tick", "WRITE progress[Evicting record] @evicting"},
        {13030, "ok", "@evicting"},
        {13050, "clear request", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {13060, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Refused altogether: no pod is evicted from a node that takes it again. */
static void test_cordon_refused(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1030, "refused", "SAY CordonRefused @cordoning"},
        {2030, "tick",
         "WRITE cordon[Cordoned cordon record label] @cordoning"}, /* not the label's fault */
        {2040, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {2050, "refused", "@cordoning"},
        {3040, "tick", "WRITE progress[Detected] @cordoning"},
        {3050, "ok", "@cordoning"},
        {4050, "tick", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {4060, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {63040, "refused", "@cordoning"},
        {63049, "tick", "@cordoning"},
        {63050, "tick", "WRITE progress[Detected] @cordoning"}, /* a minute later: it lives */
        {63060, "ok", "@cordoning"},
        {64060, "tick", "@cordoning"},
    };
    static const struct life_row end[] = {
        {73060, "tick", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {73070, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
    };
    struct life_world w;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    assert_non_null(strstr(w.last_status, "\"cordon\":\"refused\""));
    life_play(&w, end, NC_ARRAY_SIZE(end));
    assert_null(strstr(w.last_status, "refused"));
    life_world_done(&w);
}

/* Under a deadline pods leave in any case, but the node is not drained. */
static void test_cordon_refused_under_a_deadline(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1030, "refused", "SAY CordonRefused @cordoning"},
        {2030, "tick", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {2040, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {2050, "refused", "@cordoning"},
        {4010, "tick",
         "SAY DrainStarted; WRITE cordon[Evicting cordon record label]; OPEN @evicting"},
        {4020, "synced", "LOOK @volume-wait"},
        {4030, "refused", "WRITE cordon[VolumeWait cordon record] @volume-wait"},
        {4040, "refused", "@volume-wait"},
        {4050, "node", "@volume-wait"},
        {30000, "tick", "WRITE cordon[VolumeWait cordon record label] @volume-wait"},
        {30010, "ok", "SAY NodeCordoned; CLOSE; OPEN @volume-wait"},
        {30030, "synced", "@volume-wait"},
        {30040, "node", NULL},
        {35010, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* N5: who may not write the Node may write its status; N11: that is no node that is drained. */
static void test_cordon_refused_to_the_end(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +60",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1030, "refused", "SAY CordonRefused @cordoning"},
        {2030, "tick", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {2040, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {2050, "refused", "@cordoning"},
        {4010, "tick",
         "SAY DrainStarted; WRITE cordon[Evicting cordon record label]; OPEN @evicting"},
        {4020, "pods a:10", "@evicting"},
        {4020, "synced", "evict a @evicting"},
        {4030, "refused", "WRITE cordon[Evicting cordon record] @evicting"},
        {4040, "refused", "@evicting"},
        {5100, "tick", "WRITE progress[Evicting] @evicting"},
        {5110, "refused", "@evicting"},
        {6120, "tick", "WRITE undrained[Evicting] @evicting"},
        {6130, "ok", "@evicting"},
        {6140, "yes a", "@evicting"},
        {7200, "lost a", "LOOK; WRITE undrained[VolumeWait] @volume-wait"},
        {7210, "ok", "@volume-wait"},
        {7220, "node", "@volume-wait"},
        {60000, "tick", "SAY DrainFailed; WRITE cordon[Failed cordon record label] @volume-wait"},
        {60010, "refused", "WRITE cordon[Failed cordon record] @volume-wait"},
        {60020, "refused", "@volume-wait"},
        {61030, "tick", "WRITE undrained[Failed] @volume-wait"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* One that a person set meanwhile counts, as long as it stands, and stays in the end. */
static void test_cordon_refused_and_set_by_a_person(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1030, "refused", "SAY CordonRefused @cordoning"},
        {1500, "node cordoned", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1600, "pods a:30 b:30", "@evicting"},
        {1610, "synced", "evict a; evict b @evicting"},
        {1620, "yes a", "@evicting"},
        {1630, "yes b", "@evicting"},
        {3000, "node -cordoned", "SAY NodeUncordoned; WRITE progress[Evicting] @evicting"},
        {3010, "ok", "@evicting"},
        {3030, "pods c:30", "@evicting"}, /* nobody is evicted before it is cordoned again */
        {5000, "node cordoned",
         "SAY NodeCordoned; WRITE progress[Evicting label]; evict c @evicting"},
    };
    static const struct life_row end[] = {
        {6110, "refused", "WRITE progress[Evicting] @evicting"},
        {6120, "ok", "@evicting"},
        {9000, "clear request", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {9010, "node", "SAY CordonLeft; WRITE release[-] @releasing"},
        {9020, "refused", "SAY ReleaseRefused; WRITE calm[ !pending] @releasing"},
    };
    struct life_world w;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    assert_null(strstr(w.last_status, "refused"));
    life_play(&w, end, NC_ARRAY_SIZE(end));
    assert_non_null(strstr(w.last_message, "take the rest back"));
    life_world_done(&w);
}

static void test_cordon_refused_and_set_by_a_person_under_a_deadline(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +60",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "refused", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1030, "refused", "SAY CordonRefused @cordoning"},
        {4010, "tick",
         "SAY DrainStarted; WRITE cordon[Evicting cordon record label]; OPEN @evicting"},
        {4020, "synced", "LOOK @volume-wait"},
        {4030, "refused", "WRITE cordon[VolumeWait cordon record] @volume-wait"},
        {4040, "refused", "@volume-wait"},
        {4050, "node", "@volume-wait"},
        {5000, "node cordoned", "SAY NodeCordoned; CLOSE; OPEN @volume-wait"},
        {5020, "synced", "@volume-wait"},
        {5100, "tick", "WRITE progress[VolumeWait label] @volume-wait"},
        {5110, "refused", "@volume-wait"},
        {6120, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {6130, "refused", "@volume-wait"},
        {7140, "tick", "WRITE undrained[VolumeWait] @volume-wait"},
        {7150, "ok", "@volume-wait"},
        {10000, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {10010, "ok", "@drained"},
        {12000, "tick", "WRITE progress[Drained label] @drained"},
        {12010, "refused", "@drained"},
        {16900, "tick", "@drained"}, /* nor anything else until that is due again */
    };

    (void)state;
    LIFE_STORY(story);
}

/* It stood before: that is not said to be missing. */
static void test_cordon_of_before_where_ours_is_refused(void **state) {
    static const struct life_row story[] = {
        {0, "begin cordoned", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned label] @cordoning"},
        {1020, "refused", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A cordon alone takes nobody off load balancers; a drain does, and takes that back. */
static void test_label_only_to_drain(void **state) {
    static const struct life_row story[] = {
        LIFE_CORDONED,
        {9000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {9010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {9020, "ok", "SAY DrainStarted; OPEN @evicting"},
        {20000, "clear request", NULL},
        {20010, "ok", "WRITE release[Cordoned unlabel] @cordoned"},
        {20020, "ok", "@cordoned"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_progress_once_a_second(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30 b:30 c:30", "@evicting"},
        {1040, "synced", "evict a; evict b; evict c @evicting"},
        {1100, "lost a", "@evicting"},
        {1200, "lost b", "@evicting"},
        {2000, "tick", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {2100, "lost c", "LOOK @volume-wait"},
        {3019, "tick", "@volume-wait"},
        {3020, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {3030, "ok", "@volume-wait"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A drain that waits says each minute that it is there; where that gets lost, soon again. */
static void test_sign_of_life(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {1050, "yes a", "@evicting"},
        {1060, "leaving a:3000", "@evicting"},
        {2060, "tick", "WRITE progress[Evicting] @evicting"},
        {2070, "ok", "@evicting"},
        {62069, "tick", "@evicting"},
        {62069, "next", "62070 @evicting"},
        {62070, "tick", "WRITE progress[Evicting] @evicting"},
        {62080, "away", "@evicting"},
        {64080, "tick", "WRITE progress[Evicting] @evicting"},
        {64090, "ok", "@evicting"},
        {124089, "tick", "@evicting"},
        {124090, "tick", "WRITE progress[Evicting] @evicting"},
        {124100, "refused", "@evicting"},
        {125090, "tick", "WRITE undrained[Evicting] @evicting"},
        {125100, "refused", "@evicting"}, /* nor is it tried each minute */
        {600000, "tick", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Neither what only cordons or reports, nor what is over. */
static void test_no_sign_of_life(void **state) {
    static const struct life_row cordoned[] = {LIFE_CORDONED, {90000, "tick", "@cordoned"}};
    static const struct life_row reported[] = {
        {0, "begin", "@idle"},
        {1000, "notice rebalance",
         "SAY RebalanceRecommended; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "@reported"},
        {90000, "tick", "@reported"},
    };
    static const struct life_row failed[] = {
        LIFE_EVICTING("spot +60", "SpotInterruption"),
        {1030, "pods a:5", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {62000, "tick",
         "SAY DrainForced; SAY DrainFailed; WRITE progress[Failed]; mark a @evicting"},
        {62010, "yes a", "delete a 5 @evicting"},
        {62020, "ok", "@evicting"},
        {180000, "tick", "@evicting"},
    };

    (void)state;
    LIFE_STORY(cordoned);
    LIFE_STORY(reported);
    LIFE_STORY(failed);
}

static void test_nothing_announced_nothing_written(void **state) {
    static const struct life_row story[] = {
        {0, "start", "@idle"},
        {0, "meta", "LOOK @idle"},
        {10, "node status", "@idle"},
        {20, "node", "@idle"},
        {30, "notice rebalance",
         "SAY RebalanceRecommended; WRITE signal[Detected pending] @signalling"},
        {40, "clear all", "SAY InterruptionWithdrawn @releasing"},
        {50, "ok", "WRITE release[-] @releasing"},
        {60, "ok", "WRITE calm[ !pending] @releasing"},
        {70, "ok", "@idle"},
        {80, "next", "none @idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Written, but the Node is not shown: it is taken as written. */
static void test_answer_of_the_write_gets_lost(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "okay-unseen", "LOOK @cordoning"},
        {1020, "node", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1030, "okay-unseen", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {2000, "clear spot", "SAY InterruptionWithdrawn; CLOSE @releasing"},
        {2010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {2020, "okay-unseen", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {2030, "okay-unseen", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_blocked_once_in_thirty_seconds(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30 b:30", "@evicting"},
        {1040, "synced", "evict a; evict b @evicting"},
        {1050, "no a", "SAY DrainBlocked @evicting"},
        {1060, "no b", "@evicting"},
        {2060, "tick", "WRITE progress[Evicting]; evict b; evict a @evicting"},
        {2070, "ok", "@evicting"},
        {2080, "no a", "@evicting"},
        {2090, "refused-pod b", "SAY DrainBlocked @evicting"},
        {32000, "tick", "evict b; evict a @evicting"},
        {32010, "no a", "SAY DrainBlocked @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* What was said names no end, or another one. */
static void test_blocked_anew_with_another_deadline(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "kept a:30", "@evicting"},
        {1040, "synced", "SAY DrainBlocked @evicting"},
        {3000, "notice request drain +600", "WRITE signal[Evicting pending] @evicting"},
        {3010, "ok", "@evicting"},
        {6030, "tick", "@evicting"},
        {6040, "tick", "SAY DrainBlocked @evicting"},
        {12000, "notice request drain +500",
         "WRITE signal[Evicting pending]; SAY DrainBlocked @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_disrupted_taint_is_checked(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice deletion", "SAY Deletion; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; OPEN @observing"},
        {1030, "meta deleting", "LOOK @observing"},
        {2000, "node taint", "@observing"},
        {3000, "node", "@observing"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_cleared_twice(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice rebalance",
         "SAY RebalanceRecommended; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "@reported"},
        {1020, "clear rebalance", "SAY InterruptionWithdrawn; WRITE release[-] @releasing"},
        {1030, "clear rebalance", "@releasing"},
        {1040, "notice rebalance id=other", "SAY RebalanceRecommended @signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_another_ending_of_the_same_source(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {2000, "notice request drain id=two word=Upgrade",
         "SAY Requested; WRITE signal[Evicting pending] @evicting"},
        {2010, "ok", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A signal of before is still in flight: the patience of this drain begins with this drain. */
static void test_patience_begins_anew(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {2000, "clear spot", NULL},
        {9000, "notice spot +120 id=two", NULL},
        {9010, "node", "@signalling"},
        {9500, "away", "@signalling"},
        {9800, "tick", "WRITE signal[Detected pending] @signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* A release whose answer got lost may have been carried out: a cordon that was seen before it is
 * none. */
static void test_release_gets_lost_and_noticed_again(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {2000, "clear request", NULL},
        {2010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {2100, "notice request drain id=two", "SAY Requested @signalling"},
        {2200, "set -cordoned -record -label-ours -label -status", NULL},
        {4000, "away", "WRITE signal[Detected pending] @signalling"},
        {4002, "node cordoned record label label-ours status", "@signalling"}, /* of before */
        {4004, "set -cordoned -record -label-ours -label -status", NULL},
        {4010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    };

    (void)state;
    LIFE_STORY(story);
}

#define BIT(name) (1u << NC_KNOWN_##name)

/* The last write is of these conditions of Kubernetes', and says True of those. */
static void expect_known(const struct life_world *w, unsigned set, unsigned is_true) {
    assert_int_equal(w->write.w.known_set, set);
    assert_int_equal(w->write.w.known_true, is_true);
}

static void test_known_conditions_of_a_drain(void **state) {
    struct life_world w;

    (void)state;
    life_world_init(&w);
    (void)life_do(&w, 0, "begin");
    (void)life_do(&w, 1000, "notice request drain");
    expect_known(&w, BIT(DRAIN_IN_PROGRESS), BIT(DRAIN_IN_PROGRESS));
    assert_string_equal(w.write.w.known_reason[NC_KNOWN_DRAIN_IN_PROGRESS], "AdminRequested");
    (void)life_do(&w, 1010, "ok");
    expect_known(&w, 0, 0); /* the cordon is no write of conditions */
    (void)life_do(&w, 1020, "ok");
    (void)life_do(&w, 1022, "notice spot +120"); /* its reason and time are another one's now */
    expect_known(&w, BIT(DRAIN_IN_PROGRESS), BIT(DRAIN_IN_PROGRESS));
    assert_string_equal(w.write.w.known_reason[NC_KNOWN_DRAIN_IN_PROGRESS], "SpotInterruption");
    (void)life_do(&w, 1024, "ok");
    (void)life_do(&w, 1030, "synced");
    (void)life_do(&w, 7000, "tick");
    (void)life_do(&w, 7010, "node");
    assert_string_equal(life_do(&w, 7020, "ok"), "WRITE drained[Drained drained] @drained");
    expect_known(&w, BIT(DRAIN_IN_PROGRESS), 0);
    assert_string_equal(w.write.w.known_reason[NC_KNOWN_DRAIN_IN_PROGRESS], "DrainCompleted");
    (void)life_do(&w, 7030, "ok");
    (void)life_do(&w, 7040, "notice spot +600");
    assert_int_equal(w.write.w.kind, NC_WRITE_SIGNAL);
    expect_known(&w, 0, 0); /* it is drained all the same */
    life_world_done(&w);
}

/* What the configuration does not allow any more is not in progress, and was not completed. */
static void test_known_conditions_of_a_drain_that_was_given_up(void **state) {
    static const char *const events[] = {"begin", "notice spot +120", "ok",
                                         "ok",    "pods a:30",        "synced"};
    struct life_world w;

    (void)state;
    life_world_init(&w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(events); i++)
        (void)life_do(&w, 1000 + 10 * (unsigned)i, events[i]);
    (void)life_do(&w, 2000, "rules spot=report");
    assert_int_equal(w.write.w.kind, NC_WRITE_UNDRAINED);
    expect_known(&w, BIT(DRAIN_IN_PROGRESS), 0);
    assert_string_equal(w.write.w.known_reason[NC_KNOWN_DRAIN_IN_PROGRESS], "SpotInterruption");
    assert_false(w.write.w.drained.is_set);
    life_world_done(&w);
}

static void test_release_refused(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {2000, "clear request", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {2010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {2020, "refused", "SAY ReleaseRefused; WRITE calm[ !pending] @releasing"},
        {2030, "ok", "@releasing"},
        {62020, "tick", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {62030, "refused", "@releasing"},
        {70000, "node -cordoned", /* by a person: the rest may not be refused */
         "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {70020, "ok", "SAY NodeReleased @idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* An API server that has no time is told of once that lasts: a sixtieth of the time that is left.
 */
static void test_busy_for_long(void **state) {
    static const struct {
        const char *answer, *notice;
        unsigned quiet_ms, told_ms;
        const char *said;
    } rows[] = {
        {"again a", "notice request drain", 30000, 60000,
         "its eviction was not carried out: 'needs 3'; waiting without end since "
         "2026-01-02T03:04:06Z, for no deadline is known: mend what the answer names; or, without "
         "asking "
         "a budget, delete the pod, or request a deadline"},
        {"busy-pod a", "notice request drain", 30000, 60000,
         "the API server has no time for its eviction: 'needs 3'; waiting without end since "
         "2026-01-02T03:04:06Z, for no deadline is known: mend what the answer names; or, without "
         "asking "
         "a budget, delete the pod, or request a deadline"},
        {"busy-pod a", "notice spot +3600", 30000, 60000,
         "the API server has no time for its eviction: 'needs 3'; its force-delete time is "
         "2026-01-02T04:03:20Z"},
        {"busy-pod a", "notice spot +120", 2900, 8000,
         "the API server has no time for its eviction: 'needs 3'; its force-delete time is "
         "2026-01-02T03:05:20Z"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct life_world w;
        unsigned ms = 1040;
        life_world_init(&w);
        (void)life_do(&w, 0, "begin");
        (void)life_do(&w, 1000, rows[i].notice);
        (void)life_do(&w, 1010, "ok");
        (void)life_do(&w, 1020, "ok");
        (void)life_do(&w, 1030, "pods a:30");
        (void)life_do(&w, 1035, "synced");
        for (; ms < rows[i].quiet_ms; ms += 1000) {
            (void)life_do(&w, ms, rows[i].answer);
            assert_null(strstr(w.last_message, "may not leave"));
            (void)life_do(&w, ms + 500, "tick");
        }
        for (; ms < rows[i].told_ms; ms += 1000) {
            (void)life_do(&w, ms, rows[i].answer);
            (void)life_do(&w, ms + 500, "tick");
        }
        nc_auto_free char *said = nc_asprintf("Pod ns/a may not leave: %s", rows[i].said);
        assert_string_equal(w.last_message, said);
        /* for as long as nothing succeeds it is not told again, which is told of the outage */
        w.last_message[0] = '\0';
        w.away_usec = LIFE_EPOCH_USEC + ms * 1000ull;
        for (unsigned end_ms = ms + 90000; ms < end_ms; ms += 1000)
            (void)life_do(&w, ms, rows[i].answer);
        assert_null(strstr(w.last_message, "may not leave"));
        w.away_usec = 0;
        (void)life_do(&w, ms, rows[i].answer);
        assert_non_null(
            strstr(w.last_message, rows[i].answer[0] == 'a' ? "not carried" : "no time"));
        life_world_done(&w);
    }
}

static void test_known_conditions_of_a_shutdown(void **state) {
    const unsigned both = BIT(DRAIN_IN_PROGRESS) | BIT(SHUTDOWN_IN_PROGRESS);
    struct life_world w;

    (void)state;
    life_world_init(&w);
    (void)life_do(&w, 0, "begin");
    (void)life_do(&w, 1000, "notice shutdown +120");
    expect_known(&w, both, both);
    assert_string_equal(w.write.w.known_reason[NC_KNOWN_DRAIN_IN_PROGRESS], "NodeShutdown");
    assert_string_equal(w.write.w.known_reason[NC_KNOWN_SHUTDOWN_IN_PROGRESS], "NodeShutdown");
    (void)life_do(&w, 1010, "ok");
    (void)life_do(&w, 1020, "ok");
    (void)life_do(&w, 60000, "reboot"); /* the next boot takes back what this one has said */
    (void)life_do(&w, 60010, "begin");
    for (unsigned ms = 60020; ms < 70000 && w.write.w.kind != NC_WRITE_CLEAR_CONDITIONS;
         ms += 500) {
        (void)life_do(&w, ms, "node");
        (void)life_do(&w, ms + 10, w.write.is_in_flight ? "ok" : "tick");
    }
    assert_int_equal(w.write.w.kind, NC_WRITE_CLEAR_CONDITIONS);
    expect_known(&w, both, 0);
    life_world_done(&w);
}

/* What lies ahead is planned; what another has set stays his. */
static void test_known_conditions_of_a_maintenance(void **state) {
    struct life_world w;

    (void)state;
    life_world_init(&w);
    (void)life_do(&w, 0, "begin");
    (void)life_do(&w, 1000, "notice maintenance +7200 begin+6300");
    expect_known(&w, BIT(MAINTENANCE_PLANNED), BIT(MAINTENANCE_PLANNED));
    assert_string_equal(w.write.w.known_reason[NC_KNOWN_MAINTENANCE_PLANNED], "MaintenanceWindow");
    (void)life_do(&w, 1010, "ok");
    (void)life_do(&w, 2000, "notice spot +120"); /* which leads then */
    assert_non_null(strstr(w.write.w.pending.message, "pot"));
    assert_null(strstr(w.write.w.known_message[NC_KNOWN_MAINTENANCE_PLANNED], "pot"));
    life_world_done(&w);
    life_world_init(&w);
    w.server.known_true = BIT(MAINTENANCE_IN_PROGRESS);
    (void)life_do(&w, 0, "begin");
    (void)life_do(&w, 1000, "notice maintenance");
    expect_known(&w, BIT(DRAIN_IN_PROGRESS), BIT(DRAIN_IN_PROGRESS));
    life_world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signal_fails_without_deadline),
        cmocka_unit_test(test_signal_is_answered_with_a_failure),
        cmocka_unit_test(test_who_is_told_to_cordon),
        cmocka_unit_test(test_report_is_answered_with_a_failure),
        cmocka_unit_test(test_signal_fails_under_a_deadline),
        cmocka_unit_test(test_writes_take_turns),
        cmocka_unit_test(test_refused_for_good),
        cmocka_unit_test(test_label_refused),
        cmocka_unit_test(test_status_is_taken_away),
        cmocka_unit_test(test_cordon_refused),
        cmocka_unit_test(test_cordon_refused_under_a_deadline),
        cmocka_unit_test(test_cordon_refused_to_the_end),
        cmocka_unit_test(test_cordon_refused_and_set_by_a_person),
        cmocka_unit_test(test_cordon_refused_and_set_by_a_person_under_a_deadline),
        cmocka_unit_test(test_cordon_of_before_where_ours_is_refused),
        cmocka_unit_test(test_label_only_to_drain),
        cmocka_unit_test(test_progress_once_a_second),
        cmocka_unit_test(test_sign_of_life),
        cmocka_unit_test(test_no_sign_of_life),
        cmocka_unit_test(test_nothing_announced_nothing_written),
        cmocka_unit_test(test_answer_of_the_write_gets_lost),
        cmocka_unit_test(test_blocked_once_in_thirty_seconds),
        cmocka_unit_test(test_blocked_anew_with_another_deadline),
        cmocka_unit_test(test_disrupted_taint_is_checked),
        cmocka_unit_test(test_cleared_twice),
        cmocka_unit_test(test_another_ending_of_the_same_source),
        cmocka_unit_test(test_known_conditions_of_a_drain),
        cmocka_unit_test(test_known_conditions_of_a_drain_that_was_given_up),
        cmocka_unit_test(test_release_refused),
        cmocka_unit_test(test_busy_for_long),
        cmocka_unit_test(test_known_conditions_of_a_shutdown),
        cmocka_unit_test(test_known_conditions_of_a_maintenance),
        cmocka_unit_test(test_patience_begins_anew),
        cmocka_unit_test(test_release_gets_lost_and_noticed_again),
    };

    return run_group(tests, NULL, NULL);
}
