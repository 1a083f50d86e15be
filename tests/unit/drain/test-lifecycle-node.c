/*
 * Stories of the Node (N7 to N9, N13, N14): gone, replaced, cordoned by somebody else, held by
 * whoever deletes it.
 */
#include "groups.h"
#include "life-world.h"

/* The notice is kept and announced; it is acted on when the Node registers. */
static void test_notice_before_the_node(void **state) {
    static const struct life_row story[] = {
        {0, "start", "@idle"},
        {0, "clear all", "@idle"},
        {1000, "notice spot +120", "SAY SpotInterruption @signalling"},
        {1000, "next", "none @signalling"},
        {60000, "node", "WRITE signal[Detected pending] @signalling"},
        {60010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The pods of a Node that is deleted are still there, and so is their time. */
static void test_node_gone_in_a_drain(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30 b:30", "@evicting"},
        {1040, "synced", "evict a; evict b @evicting"},
        {2000, "gone", "SAY NodeDeletedInDrain @evicting"},
        {2010, "yes a", "@evicting"},
        {2020, "no b", "SAY DrainBlocked @evicting"},
        {2500, "lost a", "@evicting"},
        {3020, "tick", "evict b @evicting"},
        {3030, "no b", "@evicting"},
        {73990, "tick", "evict b @evicting"},
        {73995, "no b", "SAY DrainBlocked @evicting"},
        {74000, "tick", "mark b @evicting"},
        {74010, "yes b", "@evicting"},
        {75000, "tick", "SAY DrainForced; delete b 30 @evicting"},
        {75010, "yes b", "@evicting"},
        {80000, "lost b", "SAY NodeDrained @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* What is bound to another machine's Node is none of ours. */
static void test_the_name_is_anothers(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2000, "gone", "SAY NodeDeletedInDrain @evicting"},
        {2500, "taken", "CLOSE @signalling"},
        {60000, "tick", "@signalling"},
        {91000, "tick", "@signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Everything that was written went with the old Node. */
static void test_node_gone_and_back_as_another(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2000, "gone", "SAY NodeDeletedInDrain @evicting"},
        {2010, "yes a", "@evicting"},
        {3000, "node uid=u2", "CLOSE; WRITE signal[Detected pending] @signalling"},
        {3010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {3020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {3030, "pods b:30", "@evicting"},
        {3040, "synced", "evict b @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* What was in flight was for the old Node. */
static void test_node_replaced_during_a_write(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "set -status -pending", "@signalling"},
        {1010, "meta uid=u2", "LOOK @signalling"},
        {1020, "refused", "WRITE signal[Detected pending] @signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_node_gone_when_drained(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice deletion", "SAY Deletion; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; OPEN @observing"},
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6030, "ok", "@drained"},
        {7000, "gone", "@drained"},
        {7010, "clear deletion", "SAY InterruptionWithdrawn; CLOSE @idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Whoever uncordons a node that is about to end is told, and may do it again. */
static void test_our_cordon_is_lifted(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2000, "node -cordoned", "WRITE cordon[Evicting cordon record] @evicting"},
        {2010, "away", "@evicting"},
        {2400, "tick", "WRITE cordon[Evicting cordon record] @evicting"},
        {2410, "ok", "SAY NodeCordoned; CLOSE; OPEN @evicting"},
        {2420, "pods a:30 b:30", "@evicting"},
        {2430, "synced", "@evicting"},
        {2920, "tick", "evict b @evicting"},
        {6000, "node -cordoned", "WRITE progress[Evicting] @evicting"},
        {7000, "yes b", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Nothing is lost where it has no deadline. */
static void test_our_cordon_is_lifted_without_a_deadline(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2000, "again a", "@evicting"},
        {3000, "node -cordoned", "SAY NodeUncordoned; WRITE progress[Evicting] @evicting"},
        {3010, "ok", "@evicting"},
        {3020, "pods b:30", "@evicting"},
        {60000, "tick", "WRITE progress[Evicting] @evicting"}, /* nobody is evicted */
        {60010, "ok", "@evicting"},
        {60020, "node cordoned", "SAY NodeCordoned; evict a; evict b @evicting"},
        {61000, "node -cordoned", "SAY NodeUncordoned @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The label goes the way of the cordon: under a deadline it is set once more, and once only. */
static void test_label_is_removed(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2050, "meta -label-ours -label",
         "SAY BalancerLabelRemoved; WRITE progress[Evicting label] @evicting"},
        {2060, "away", "@evicting"},
        {3060, "tick", "WRITE progress[Evicting label] @evicting"},
        {3070, "refused", "@evicting"},
        {12500, "tick", "WRITE progress[Evicting label] @evicting"},
        {12510, "ok", "@evicting"},
        {14000, "meta -label-ours -label", "@evicting"},
        {60000, "tick", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_label_is_removed_without_a_deadline(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2050, "meta -label-ours -label",
         "SAY BalancerLabelRemoved; WRITE progress[Evicting] @evicting"},
        {2060, "ok", "@evicting"},
        {3000, "meta label-ours", "@evicting"},
        {4000, "meta -label-ours -label", "@evicting"},
    };
    struct life_world w;
    struct nc_lifecycle_view v;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    nc_lifecycle_get_view(w.life, w.now_usec, &v);
    assert_true(v.is_unlabelled);
    life_world_done(&w);
}

/* Somebody else had cordoned: it is not claimed and never lifted. */
static void test_foreign_cordon(void **state) {
    static const struct life_row story[] = {
        {0, "begin cordoned", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {2000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {2010, "node", "SAY CordonLeft; WRITE release[- unlabel] @releasing"},
        {2020, "ok", "WRITE calm[ !pending] @releasing"},
        {2030, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The foreign cordon is lifted while a drain is on: now it is ours to make, and to lift. */
static void test_foreign_cordon_lifted(void **state) {
    static const struct life_row story[] = {
        {0, "begin cordoned", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "synced", "LOOK @volume-wait"},
        {1500, "node -cordoned", "WRITE cordon[VolumeWait cordon record] @volume-wait"},
        {1510, "ok", "CLOSE; OPEN @volume-wait"},
        {1600, "pods a:30", "@volume-wait"},
        {1610, "synced", "@evicting"},
        {2100, "tick", "evict a @evicting"},
        {3000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {3010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {3020, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {3030, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Who lifts a cordon of their own stops the request alike (N8). */
static void test_foreign_cordon_lifted_without_a_deadline(void **state) {
    static const struct life_row story[] = {
        {0, "begin cordoned", "@idle"},
        {1000, "notice request drain", "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2000, "again a", "@evicting"},
        {3000, "node -cordoned", "SAY NodeUncordoned; WRITE progress[Evicting] @evicting"},
        {3010, "ok", "@evicting"},
        {3020, "pods b:30", "@evicting"},
        {60000, "tick", "WRITE progress[Evicting] @evicting"}, /* nobody is evicted */
        {60010, "ok", "@evicting"},
        {60020, "node cordoned", "SAY NodeCordoned; evict a; evict b @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The Node was seen long ago; the signal's answer shows the cordon made since. */
static void test_cordon_seen_only_when_it_counts(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {500, "set cordoned", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned label] @cordoning"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The signal is refused, so its answer shows nothing: the Node is checked. */
static void test_cordon_needs_a_refresh(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "refused", "LOOK @cordoning"},
        {1010, "next", "2010 @cordoning"},
        {2010, "tick", "LOOK @cordoning"},
        {2020, "node", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_label_of_somebody_else(void **state) {
    static const struct life_row story[] = {
        {0, "begin label", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {2000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {2010, "node", "WRITE release[- uncordon unrecord] @releasing"},
        {2020, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {2030, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* What says whose it is was taken away again, and then the request: nobody lifts it. */
static void test_cordon_that_stays_is_said(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2100, "node -record", "WRITE progress[Evicting record] @evicting"},
        {2110, "ok", "@evicting"},
        {4000, "node -record", "@evicting"},
        {5000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {5010, "node", "SAY CordonLeft; WRITE release[- unlabel] @releasing"},
        {5020, "ok", "WRITE calm[ !pending] @releasing"},
        {5030, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* One that is being written again when the request goes is there, and lifts the cordon. */
static void test_cordon_whose_record_comes_back(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2100, "node -record", "WRITE progress[Evicting record] @evicting"},
        {2110, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {2120, "ok", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {2130, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {2140, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The request and the record go while the daemon is not there. */
static void test_cordon_that_stays_over_a_restart(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {2000, "set -record -status", NULL},
        {2010, "restart", NULL},
        {2030, "clear all", NULL},
        {2040, "node", NULL},
        {2050, "node", NULL},
    };
    struct life_world w;
    bool is_told = false;

    (void)state;
    life_world_init(&w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(story); i++) {
        (void)life_do(&w, story[i].at_ms, story[i].event);
        is_told |= strstr(w.last_message, "The cordon stays") != NULL;
    }
    assert_true(is_told);
    life_world_done(&w);
}

/* Ours, and lifted by somebody: it is not made again. */
static void test_cordon_lifted_by_a_person(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice request cordon",
         "SAY Requested; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record] @cordoning"},
        {1020, "ok", "SAY NodeCordoned @cordoned"},
        {2000, "node -cordoned", "SAY NodeUncordoned @cordoned"},
        {3000, "tick", "@cordoned"},
        {3020, "next", "none @cordoned"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* And who withdraws is not told that it was lifted then; a cordon that a person made since stays.
 */
static void test_withdrawn_after_the_cordon_was_lifted(void **state) {
    static const char *const steps[] = {"begin", "notice request drain", "ok", "ok"};
    static const struct {
        bool is_lifted, is_made_again, restarts, is_unrecorded;
    } rows[] = {
        {false, false, false, false}, {true, false, false, false}, {true, true, false, false},
        {true, true, true, false},    {true, true, false, true},   {true, true, true, true},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct life_world w;
        struct nc_lifecycle_view v;
        life_world_init(&w);
        for (unsigned k = 0; k < NC_ARRAY_SIZE(steps); k++)
            (void)life_do(&w, 1000 + 10 * k, steps[k]);
        (void)life_do(&w, 3000, rows[i].is_lifted ? "node -cordoned" : "node");
        nc_lifecycle_get_view(w.life, w.now_usec, &v);
        assert_int_equal(v.is_lifted, rows[i].is_lifted);
        assert_int_equal(v.is_ours, !rows[i].is_lifted);
        if (w.write.is_in_flight)
            (void)life_do(&w, 3010, "ok");
        if (rows[i].is_unrecorded)
            (void)life_do(&w, 3015, "node -record");
        if (rows[i].is_made_again)
            (void)life_do(&w, 3020, "node cordoned");
        nc_lifecycle_get_view(w.life, w.now_usec, &v);
        assert_int_equal(v.is_ours, !rows[i].is_lifted); /* nor is the next one */
        if (rows[i].restarts) {
            (void)life_do(&w, 3030, "restart");
            (void)life_do(&w, 3040, "notice request drain");
            (void)life_do(&w, 3050, "node");
        }
        for (unsigned at = 3060; w.write.is_in_flight; at += 10)
            (void)life_do(&w, at, "ok");
        (void)life_do(&w, 4000, "clear all");
        for (unsigned at = 4010; w.write.is_in_flight; at += 10)
            (void)life_do(&w, at, "ok");
        (void)life_do(&w, 4500, "node");
        for (unsigned at = 4510; w.write.is_in_flight; at += 10)
            (void)life_do(&w, at, "ok");
        assert_string_equal(w.last_message,
                            rows[i].is_made_again ? "The cordon stays: somebody else set it; "
                                                    "kubectl uncordon lifts it, if nobody else "
                                                    "wants it"
                            : rows[i].is_lifted
                                ? "Node released: somebody else had lifted the cordon"
                                : "Node uncordoned: the cordon was set by nodeclaimd");
        assert_int_equal(w.server.is_unschedulable, rows[i].is_made_again);
        /* without the record a restart takes it for one that was there before */
        assert_int_equal(w.is_warning,
                         rows[i].is_made_again && !(rows[i].is_unrecorded && rows[i].restarts));
        assert_false(w.server.has_cordon_record);
        nc_lifecycle_get_view(w.life, w.now_usec, &v);
        assert_false(v.is_lifted);
        life_world_done(&w);
    }
}

/* A Node that goes stays cordoned. */
/* Whether what is lifted stands is not in the metadata. */
static void test_cordon_is_put_back_after_the_release(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {2000, "clear request", NULL},
        {2010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {2020, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {2030, "ok", "@idle"},
        {9000, "set cordoned record status", NULL},
        {9010, "meta", "LOOK @releasing"},
        {9020, "node", "WRITE release[- uncordon unrecord] @releasing"},
        {9030, "ok", "SAY NodeReleased @idle"},
    };
    struct life_world w;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    assert_string_equal(w.last_message, "Node uncordoned: the cordon was set by nodeclaimd");
    life_world_done(&w);
}

static void test_held_by_deletion(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1500, "meta deleting", "LOOK @evicting"},
        {2000, "clear spot", "SAY InterruptionWithdrawn; CLOSE @releasing"},
        {2010, "node", "WRITE release[-] @releasing"},
        {2020, "ok", "WRITE calm[ !pending] @releasing"},
        {2030, "ok", "@idle"},
        {2040, "next", "none @idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Karpenter's candidate: released when it is no candidate any more. */
static void test_held_by_the_taint(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {2010, "node taint", "WRITE release[-] @releasing"},
        {2020, "ok", "WRITE calm[ !pending] @releasing"},
        {2030, "ok", "@idle"},
        {2030, "next", "32000 @idle"},
        {32000, "tick", "LOOK @idle"},
        {32010, "node -taint", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {32020, "ok", "SAY NodeReleased @idle"},
        {32030, "next", "none @idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_withdrawn_while_the_cordon_is_written(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {1015, "clear spot", "SAY InterruptionWithdrawn; LOOK @releasing"},
        {1020, "ok", "SAY NodeCordoned; WRITE release[- uncordon unrecord unlabel] @releasing"},
        {1030, "node", "@releasing"},
        {1040, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
        {1050, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_noticed_again_while_released(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {2000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {2010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {2015, "notice spot +120", "SAY SpotInterruption @signalling"},
        {2020, "ok", "SAY NodeReleased; WRITE signal[Detected pending] @signalling"},
        {2030, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {2040, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The cordon is foreign and the label ours: it goes with the taint. */
static void test_label_held_by_the_taint(void **state) {
    static const struct life_row story[] = {
        {0, "begin cordoned taint", "@idle"},
        {1000, "notice spot +120",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned label] @cordoning"},
        {1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {2000, "clear spot", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {2010, "node", "WRITE release[-] @releasing"},
        {2020, "ok", "WRITE calm[ !pending] @releasing"},
        {2030, "ok", "@idle"},
        {32000, "tick", "LOOK @idle"},
        {32010, "node -taint", "WRITE release[- unlabel] @releasing"},
        {32020, "ok", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_node_replaced_while_pods_are_watched(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2000, "set -status -record -cordoned -pending -label-ours -label", "@evicting"},
        {2010, "node uid=u2", "CLOSE; WRITE signal[Detected pending] @signalling"},
        {2020, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    };

    (void)state;
    LIFE_STORY(story);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_notice_before_the_node),
        cmocka_unit_test(test_node_gone_in_a_drain),
        cmocka_unit_test(test_the_name_is_anothers),
        cmocka_unit_test(test_node_gone_and_back_as_another),
        cmocka_unit_test(test_node_replaced_during_a_write),
        cmocka_unit_test(test_node_gone_when_drained),
        cmocka_unit_test(test_our_cordon_is_lifted),
        cmocka_unit_test(test_our_cordon_is_lifted_without_a_deadline),
        cmocka_unit_test(test_label_is_removed),
        cmocka_unit_test(test_label_is_removed_without_a_deadline),
        cmocka_unit_test(test_foreign_cordon),
        cmocka_unit_test(test_foreign_cordon_lifted),
        cmocka_unit_test(test_foreign_cordon_lifted_without_a_deadline),
        cmocka_unit_test(test_cordon_seen_only_when_it_counts),
        cmocka_unit_test(test_cordon_needs_a_refresh),
        cmocka_unit_test(test_label_of_somebody_else),
        cmocka_unit_test(test_cordon_that_stays_is_said),
        cmocka_unit_test(test_cordon_whose_record_comes_back),
        cmocka_unit_test(test_cordon_that_stays_over_a_restart),
        cmocka_unit_test(test_cordon_lifted_by_a_person),
        cmocka_unit_test(test_withdrawn_after_the_cordon_was_lifted),
        cmocka_unit_test(test_cordon_is_put_back_after_the_release),
        cmocka_unit_test(test_held_by_deletion),
        cmocka_unit_test(test_held_by_the_taint),
        cmocka_unit_test(test_withdrawn_while_the_cordon_is_written),
        cmocka_unit_test(test_noticed_again_while_released),
        cmocka_unit_test(test_label_held_by_the_taint),
        cmocka_unit_test(test_node_replaced_while_pods_are_watched),
    };

    return run_group(tests, NULL, NULL);
}
