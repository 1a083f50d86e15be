/*
 * Stories of the drain (N11, N12, N15): shutdowns, late pods, waits, and what is over.
 */
#include "groups.h"
#include "life-world.h"

/* DaemonSet pods leave once Karpenter's taint is there, a second or two after the NodeClaim's
 * deletion: what comes after them does not go first meanwhile, and waits no longer than that. */
static void test_later_turns_wait_for_daemons(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "daemon d:5", "@evicting"},
        {1030, "critical c:5", "@evicting"},
        {1040, "synced", "@evicting"},
        {1800, "node taint", "evict d @evicting"},
        {1810, "yes d", "@evicting"},
        {1900, "lost d", "evict c @evicting"},
    };
    static const struct life_row untainted[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "daemon d:5", "@evicting"},
        {1030, "critical c:5", "@evicting"},
        {1040, "synced", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {6019, "tick", "@evicting"},
        {6020, "tick", "evict c @evicting"},
    };
    static const struct life_row late[] = {
        LIFE_EVICTING("spot +12", "SpotInterruption"),
        {1030, "daemon d:5", "@evicting"},
        {1030, "critical c:8", "evict c @evicting"}, /* it would lose of its own grace */
    };

    (void)state;
    LIFE_STORY(story);
    LIFE_STORY(untainted);
    LIFE_STORY(late);
}

/* The margin is a tenth of what logind gives; it may go on once all are gone. */
static void test_shutdown_waits_for_the_drain(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("shutdown +31", "NodeShutdown"),
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
        LIFE_EVICTING("shutdown +32", "NodeShutdown"),
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

/* What Karpenter has not evicted rides its reboot. A spot notice is another matter. */
static void test_shutdown_by_karpenters_reboot(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {500, "node rebooting", "@idle"},
        {1000, "notice shutdown +60",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {4000, "tick", "LET GO @signalling"},
    };
    static const struct life_row late[] = {
        {0, "begin", "@idle"},
        {1000, "notice shutdown +60",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {1010, "node rebooting", "@signalling"}, /* with the answer of that write */
        {1020, "ok", "WRITE undrained[Detected]; LET GO @reported"}, /* not DrainInProgress */
    };

    (void)state;
    LIFE_STORY(story);
    LIFE_STORY(late);
}

/* By the policy of its own, which is drain unless it is set. */
static void test_shutdown_that_is_a_reboot(void **state) {
    static const struct life_row story[] = {
        {0, "rules reboot=report", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice shutdown +60 action=reboot",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "LET GO @reported"},
    };
    static const struct life_row other[] = {
        {0, "rules reboot=cordon", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice shutdown +60",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"},
    };

    (void)state;
    LIFE_STORY(story);
    LIFE_STORY(other);
}

static void test_shutdown_by_policy_cordon(void **state) {
    static const struct life_row story[] = {
        {0, "rules shutdown=cordon", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice shutdown +60",
         "SAY NodeShutdown; WRITE signal[Detected pending] @signalling"},
        {1010, "ok", "WRITE cordon[Cordoned cordon record] @cordoning"},
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
        {1000, "notice shutdown +65", "SAY NodeShutdown @signalling"},
        {1000, "next", "55000 @signalling"},
        {55000, "tick", "LET GO @signalling"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* It was bound before the cordon and seen after the drain was complete. */
static void test_late_pod(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
        {6030, "ok", "@drained"},
        {6500, "pods late:30", "WRITE undrained[Evicting !drained] @evicting"},
        {6510, "next", "7000 @evicting"},
        {7000, "tick", "evict late @evicting"},
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

/* A condition Drained of kubectl's is neither taken back, nor written over, nor cleared. */
static void test_drained_by_another(void **state) {
    static const struct life_row idle[] = {
        {0, "clear all", "@idle"},
        {500, "node drained-by-another", "@idle"},
        {1000, "tick", "@idle"},
    };
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1025, "node drained-by-another", "@evicting"},
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {6020, "tick", "SAY NodeDrained; WRITE drained[Drained] @drained"},
        {6030, "ok", "@drained"},
        {7000, "clear all", "SAY InterruptionWithdrawn; LOOK; CLOSE @releasing"},
        {7010, "node", "WRITE release[- uncordon unrecord unlabel] @releasing"},
        {7020, "ok", "SAY NodeReleased; WRITE calm[ !pending] @releasing"},
    };

    (void)state;
    LIFE_STORY(idle);
    LIFE_STORY(story);
}

/* Not before five seconds after the cordon. */
static void test_finish(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
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
        LIFE_EVICTING("request drain", "Requested"),
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

/* A target that never deregisters: the machine goes at its deadline, whatever the linger. */
static void test_linger_ends_with_the_time(void **state) {
    static const struct life_row story[] = {
        {0, "rules linger=300", "@idle"},
        LIFE_EVICTING("spot +55", "SpotInterruption"),
        {1030, "synced", "LOOK @volume-wait"},
        {1040, "node", "@volume-wait"},
        {2020, "tick", "WRITE progress[VolumeWait] @volume-wait"},
        {2030, "ok", "@volume-wait"},
        {6020, "tick", "@volume-wait"},
        {6020, "next", "45000 @volume-wait"},
        {44999, "tick", "@volume-wait"},
        {45000, "tick", "SAY NodeDrained; WRITE drained[Drained drained] @drained"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_volumes_until_time_is_over(void **state) {
    static const struct life_row story[] = {
        {0, "begin volumes=2", "@idle"},
        {1000, "notice spot +55",
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
        LIFE_EVICTING("spot +55", "SpotInterruption"),
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
        {45000, "tick", "delete a 8 @evicting"},
        {45010, "again a", "@evicting"},
        {46999, "tick", "delete a 7 @evicting"},
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
        LIFE_EVICTING("spot +55", "SpotInterruption"),
        {47000, "tick", "WRITE progress[Evicting] @evicting"},
        {54999, "tick", "@evicting"},
        {55000, "tick", "SAY DrainFailed @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* An answer said so; the list says otherwise. */
static void test_reported_gone(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
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

/* A list that was requested before the answer does not say that the pod is gone. */
static void test_reported_gone_while_listed(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030, "pods a:30", "@evicting"},
        {1040, "gone-pod a", "@evicting"}, /* of a question before a restart, as it were */
        {1050, "synced", "LOOK; CLOSE; OPEN @volume-wait"},
        {1060, "pods a:30", "@volume-wait"},
        {1070, "synced", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_withdrawn_while_a_request_is_in_flight(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
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

/* More than fit into one question. */
static void test_many_pods(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("request drain", "Requested"),
        {1030,
         "pods a1 a2 a3 a4 a5 a6 a7 a8 b1 b2 b3 b4 b5 b6 b7 b8 c1 c2 c3 c4 c5 c6 c7 c8 d1 d2 d3 d4 "
         "d5 d6 d7 d8",
         "@evicting"},
        {1030,
         "pods e1 e2 e3 e4 e5 e6 e7 e8 f1 f2 f3 f4 f5 f6 f7 f8 g1 g2 g3 g4 g5 g6 g7 g8 h1 h2 h3 h4 "
         "h5 h6 h7 h8",
         "@evicting"},
        {1030, "pods i1 i2", "@evicting"},
        {1040, "synced",
         "evict a1; evict a2; evict a3; evict a4; evict a5; evict a6; evict a7; evict a8; evict "
         "b1; evict b2; evict b3; evict b4; evict b5; evict b6; evict b7; evict b8; evict c1; "
         "evict c2; evict c3; evict c4; evict c5; evict c6; evict c7; evict c8; evict d1; evict "
         "d2; evict d3; evict d4; evict d5; evict d6; evict d7; evict d8; evict e1; evict e2; "
         "evict e3; evict e4; evict e5; evict e6; evict e7; evict e8; evict f1; evict f2; evict "
         "f3; evict f4; evict f5; evict f6; evict f7; evict f8; evict g1; evict g2; evict g3; "
         "evict g4; evict g5; evict g6; evict g7; evict g8; evict h1; evict h2; evict h3; evict "
         "h4; evict h5; evict h6; evict h7; evict h8; evict i1; evict i2 @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* What is requested is the same, but asked once. */
static void test_a_burst_of_pods(void **state) {
    static const struct life_row story[] = {
        LIFE_EVICTING("spot +120", "SpotInterruption"),
        {1030, "more pods a b c", "@evicting"},
        {1040, "synced", "evict a; evict b; evict c @evicting"},
        {1060, "more no a", "SAY DrainBlocked @evicting"},
        {1060, "more yes b", "@evicting"},
        {1060, "more yes c", "@evicting"},
        {1060, "tick", "@evicting"},
        {3500, "more lost b", "@evicting"},
        {3500, "more lost c", "@evicting"},
        {3500, "tick", "WRITE progress[Evicting]; evict a @evicting"},
        {3510, "more yes a", "@evicting"},
        {3510, "more lost a", "@evicting"},
        {3510, "tick", "LOOK @volume-wait"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* On a node where each pod has a budget of its own, each is named as one alone would be: none takes
 * the place of another, which would begin a new Event each time. */
static void test_many_budgets(void **state) {
    enum { PODS = 40, SECONDS = 120 };
    static const char *const before[] = {"begin", "notice request drain", "ok", "ok"};
    unsigned said_ms[PODS] = {0}, n = 0;
    struct life_world w;
    char event[64];

    (void)state;
    life_world_init(&w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(before); i++)
        (void)life_do(&w, 1000, before[i]);
    for (unsigned p = 0; p < PODS; p++) {
        (void)snprintf(event, sizeof(event), "more pods p%u", p);
        (void)life_do(&w, 1000, event);
    }
    (void)life_do(&w, 1000, "synced");
    for (unsigned at_ms = 2000; at_ms < SECONDS * 1000; at_ms += 1000) {
        for (unsigned p = 0; p < PODS; p++) {
            (void)snprintf(event, sizeof(event), "more no p%u budget-%u", p, p);
            if (!strstr(life_do(&w, at_ms, event), "DrainBlocked"))
                continue;
            assert_true(!said_ms[p] || at_ms >= said_ms[p] + 30000);
            said_ms[p] = at_ms;
            n++;
        }
        (void)life_do(&w, at_ms, "tick");
    }
    assert_int_equal(n, PODS * 3); /* at once, after 30 s and after 60 s more */
    life_world_done(&w);
}

/* Without a deadline only a person helps: he is told less and less often. */
static void test_what_blocks_for_long_is_reported_seldom(void **state) {
    static const char *const before[] = {"begin", "notice request drain", "ok",
                                         "ok",    "more pods p",          "synced"};
    static const unsigned gaps_sec[] = {30, 60, 120, 240, 480, 600, 600, 600};
    unsigned said_ms = 0;
    size_t n = 0;
    struct life_world w;

    (void)state;
    life_world_init(&w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(before); i++)
        (void)life_do(&w, 1000, before[i]);
    for (unsigned at_ms = 2000; n < NC_ARRAY_SIZE(gaps_sec); at_ms += 1000) {
        if (strstr(life_do(&w, at_ms, "more no p"), "DrainBlocked")) {
            if (said_ms)
                assert_int_equal(at_ms - said_ms, gaps_sec[n++] * 1000);
            said_ms = at_ms;
        }
        (void)life_do(&w, at_ms, "tick");
    }
    life_world_done(&w);
}

/* Nobody asks for it, so no answer tells of it: that its pods are kept is said like that a budget
 * blocks, for a namespace once; and each pod has its line. */
static void test_kept_pods_are_reported(void **state) {
    static const char *const before[] = {"begin", "notice request drain", "ok", "ok", "kept a",
                                         "kept b"};
    static const unsigned at_sec[] = {1, 31, 91, 211, 451, 931, 1531, 2131};
    struct life_world w;
    size_t n = 0;

    (void)state;
    life_world_init(&w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(before); i++)
        (void)life_do(&w, 1000, before[i]);
    assert_null(strstr(w.trace.data, "DrainBlocked")); /* of a list that has not ended */
    for (unsigned sec = 1; sec < 2200; sec++) {
        if (!strstr(life_do(&w, sec * 1000, sec == 1 ? "synced" : "tick"), "DrainBlocked"))
            continue;
        assert_true(n < NC_ARRAY_SIZE(at_sec));
        assert_int_equal(sec, at_sec[n++]);
        assert_true(nc_lifecycle_next(w.life, w.now_usec) <= w.now_usec + 30000000);
    }
    assert_int_equal(n, NC_ARRAY_SIZE(at_sec));
    assert_string_equal(w.news.data, "Pod ns/a is not evicted: kept by do-not-disrupt; "
                                     "Pod ns/b is not evicted: kept by do-not-disrupt");
    life_world_done(&w);
}

/* A console that nobody can scroll has one line of it: once it has lasted, once a drain. */
static void test_what_lasts_is_said_once_a_drain(void **state) {
    static const struct {
        unsigned at_sec;
        const char *event;
        const char *expected;
    } rows[] = {{1, "notice request drain", ""},
                {1, "ok", ""},
                {1, "ok", ""},
                {1, "kept a", ""},
                {1, "pods b:30", ""},
                {1, "synced", ""},
                {2, "no b web", ""},
                {31, "tick", "DrainBlocked"},
                {33, "no b web", ""},
                {91, "tick", ""},
                {93, "no b web", ""},
                {94, "clear request", ""},
                {95, "ok", ""},
                {96, "ok", ""},
                {97, "notice request drain id=2", ""},
                {97, "ok", ""},
                {97, "ok", ""},
                {97, "ok", ""},
                {97, "kept a", ""},
                {97, "synced", ""},
                {128, "tick", "DrainBlocked"}};
    struct life_world w;

    (void)state;
    life_world_init(&w);
    (void)life_do(&w, 500, "begin");
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        (void)life_do(&w, rows[i].at_sec * 1000, rows[i].event);
        assert_string_equal(w.lasting, rows[i].expected);
    }
    life_world_done(&w);
}

/* Told of by a watch that was closed. */
static void test_pods_that_nobody_waits_for(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {10, "pods a:30", "@idle"},
        {10, "synced", "@idle"},
        {10, "lost a", "@idle"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The pods are listed again; one that may be gone is not touched before. */
static void test_force_deletes_wait_for_the_list(void **state) {
    static const struct life_row story[] = {
        {0, "begin", "@idle"},
        {1000, "notice spot +44",
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},
        {1010, "away", "@signalling"},
        {4000, "tick", "LOOK; WRITE signal[Detected pending] @cordoning"},
        {4010, "node", "@cordoning"},
        {4020, "away", "WRITE cordon[Cordoned cordon record label] @cordoning"},
        {7000, "tick", "SAY DrainStarted; OPEN @evicting"},
        {7010, "away", "WRITE signal[Evicting pending] @evicting"},
        {7020, "pods a:25", "@evicting"},
        {7030, "synced", "evict a @evicting"},
        {7040, "no a", "SAY DrainBlocked @evicting"},
        {8000, "tick", "mark a; evict a @evicting"},
        {8010, "ok", "WRITE cordon[Evicting cordon record label] @evicting"},
        {8020, "ok", "SAY NodeCordoned; CLOSE; OPEN @evicting"},
        {9100, "tick", "SAY DrainForced; WRITE progress[Forcing] @evicting"},
        {9110, "pods a:25", "@evicting"},
        {9120, "synced", "delete a 25 @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

#define CORDONED_WITH_LIMIT                                                                        \
    {0, "limit 2", "@idle"}, {0, "begin", "@idle"},                                                \
        {1000, "notice spot +121",                                                                 \
         "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"},                      \
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"}, {                   \
        1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"                           \
    }

/* Those that found no place are listed once the others are gone; until then nothing is drained. */
static void test_more_pods_than_are_kept(void **state) {
    static const struct life_row story[] = {
        CORDONED_WITH_LIMIT,
        {1030, "pods a", "@evicting"},
        {1030, "pods b", "@evicting"},
        {1030, "pods c", "SAY PodListIncomplete @evicting"},
        {1040, "synced", "evict a; evict b @evicting"},
        {1050, "yes a", "@evicting"},
        {1060, "yes b", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {3000, "lost a", "@evicting"},
        {3010, "lost b", "CLOSE; OPEN @evicting"},
        {3020, "tick", "WRITE progress[Evicting] @evicting"},
        {3030, "ok", "@evicting"},
        {3040, "pods c", "@evicting"},
        {3050, "synced", "@evicting"},
        {3540, "tick", "evict c @evicting"},
        {3550, "yes c", "@evicting"},
        {4020, "tick", "WRITE progress[Evicting] @evicting"},
        {4030, "ok", "@evicting"},
        {4040, "lost c", "LOOK @volume-wait"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Nor is it listed again and again while nothing else would be shown. */
static void test_more_pods_than_are_kept_and_none_leaves(void **state) {
    static const struct life_row story[] = {
        CORDONED_WITH_LIMIT,
        {1030, "pods a:5", "@evicting"},
        {1030, "pods b:5", "@evicting"},
        {1030, "pods c:5", "SAY PodListIncomplete @evicting"},
        {1040, "synced", "evict a; evict b @evicting"},
        {1050, "no a", "SAY DrainBlocked @evicting"},
        {1050, "no b", "@evicting"},
        {1700, "pods d:5", "@evicting"},
        {2050, "lost a", "WRITE progress[Evicting]; evict b @evicting"},
        {2060, "ok", "@evicting"},
        {2070, "yes b", "@evicting"},
        {6039, "tick", "WRITE progress[Evicting] @evicting"},
        {6040, "tick", "CLOSE; OPEN @evicting"},
        {6041, "ok", "@evicting"},
        /* a force-delete time waits for no list */
        {101000, "tick", "WRITE progress[Evicting]; delete b 5 @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* What kubelet runs is not crowded out by pods that were only created. */
static void test_started_pods_are_kept_first(void **state) {
    static const struct life_row story[] = {
        CORDONED_WITH_LIMIT,
        {1030, "pods a", "@evicting"},
        {1030, "pods b", "@evicting"},
        {1030, "pods c", "SAY PodListIncomplete @evicting"},
        {1030, "started z", "@evicting"},
        {1030, "started y", "@evicting"},
        {1040, "synced", "evict y; evict z @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_an_unreadable_pod(void **state) {
    static const struct life_row story[] = {
        CORDONED_WITH_LIMIT,
        {1030, "unreadable", "SAY PodListIncomplete @evicting"},
        {1040, "synced", "@evicting"},
        {2020, "tick", "WRITE progress[Evicting] @evicting"},
        {2030, "ok", "@evicting"},
        {6039, "tick", "@evicting"},
        {6040, "tick", "CLOSE; OPEN @evicting"},
        {6050, "unreadable", "@evicting"},
        {6060, "synced", "@evicting"},
        {11060, "tick", "CLOSE; OPEN @evicting"},
        {11070, "synced", "LOOK; WRITE progress[VolumeWait] @volume-wait"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_an_unreadable_pod_of_each_drain(void **state) {
    static const char *const events[] = {
        "begin", "notice request drain",      "ok", "ok", "unreadable", "clear request", "ok",
        "ok",    "notice request drain id=2", "ok", "ok", "ok",         "unreadable"};
    struct life_world w;
    size_t said = 0;

    (void)state;
    life_world_init(&w);
    for (unsigned i = 0; i < NC_ARRAY_SIZE(events); i++)
        said += strstr(life_do(&w, 1000 * i, events[i]), "PodListIncomplete") != NULL;
    assert_int_equal(said, 2);
    life_world_done(&w);
}

/* What was Drained is not any more once there is a pod that is not known. */
static void test_an_unreadable_pod_comes_late(void **state) {
    static const struct life_row story[] = {
        CORDONED_WITH_LIMIT,
        {1040, "synced", "LOOK @volume-wait"},
        {1050, "node", NULL},
        {6020, "tick", NULL},
        {6030, "ok", NULL},
        {7100, "tick", NULL},
        {7110, "written", "@drained"},
        {8000, "unreadable",
         "SAY PodListIncomplete; WRITE undrained[Evicting !drained]; CLOSE; "
         "OPEN @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_incomplete_is_reported(void **state) {
    struct life_world w;
    static const struct life_row story[] = {
        CORDONED_WITH_LIMIT,    {1030, "pods a", NULL},
        {1030, "pods b", NULL}, {1030, "pods c", NULL},
        {1040, "synced", NULL}, {2020, "tick", "WRITE progress[Evicting] @evicting"},
    };

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    assert_non_null(strstr(w.last_status, "\"incomplete\":\"TooManyPods\""));
    assert_non_null(strstr(w.last_message, "2 that are handled at a time"));
    (void)life_do(&w, 2030, "ok");
    (void)life_do(&w, 115000, "tick");
    (void)life_do(&w, 115100, "written");
    (void)life_do(&w, 109000, "tick"); /* T was 107 s */
    assert_null(strstr(w.last_message, "deadline exceeded"));
    (void)life_do(&w, 119000, "tick"); /* lists that are read again do not put it off */
    assert_string_equal(w.last_message,
                        "drain deadline exceeded, pods remaining: 2: ns/a (its eviction is "
                        "requested), ns/b (its eviction is requested), besides those that "
                        "the list of pods did not show; evicted: 0, force-deleted: 0");
    life_world_done(&w);
}

/* One line for each pod that is evicted, refused, deleted by force or gone; the same again is no
 * news, nor is what a server says that is busy or away. */
static void test_a_line_for_each_pod(void **state) {
    struct life_world w;
    static const struct life_row story[] = {
        {0, "begin", NULL},
        {10, "notice spot +120", NULL},
        {20, "ok", NULL},
        {30, "ok", NULL},
        {40, "pods a:30 b:30 c:30", NULL},
        {50, "synced", NULL},
        {60, "yes a", NULL},
        {70, "no b web", NULL},
        {80, "again c", NULL},
        {1500, "tick", NULL},
        {1510, "no b web", NULL},
        {1520, "no c db", NULL},
        {2000, "leaving a:30", NULL},
        {3000, "lost a", NULL},
        {73900, "tick", NULL},
        {73910, "no b web", NULL},
        {74050, "tick", NULL},
        {74100, "yes b", NULL}, /* the mark */
        {75100, "tick", NULL},
        {75110, "yes b", NULL},
        {75120, "gone-pod c", NULL},
        {75130, "lost c", NULL},
        {80000, "lost b", NULL},
    };

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    assert_string_equal(w.news.data, "Evicted pod ns/a; "
                                     "Eviction of pod ns/b refused by PodDisruptionBudget web; "
                                     "Eviction of pod ns/c refused by PodDisruptionBudget db; "
                                     "Pod ns/a is gone; "
                                     "Force-deleted pod ns/b with a grace period of 30 s; "
                                     "Pod ns/c is gone; Pod ns/b is gone");
    life_world_done(&w);
}

/* A deletion that is refused in the words of the eviction before it is news all the same. */
static void test_refused_deletion(void **state) {
    struct life_world w;
    static const struct life_row story[] = {
        {0, "begin", NULL},
        {10, "notice spot +60", NULL},
        {20, "ok", NULL},
        {30, "ok", NULL},
        {40, "pods a:3600", NULL},
        {50, "synced", NULL},
        {60, "refused-pod a", NULL},
        {1100, "tick", NULL},
        {1110, "refused-pod a", NULL},
        {2200, "tick", NULL},
        {2210, "refused-pod a", NULL},
    };

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    assert_string_equal(w.news.data, "Eviction of pod ns/a refused: 'needs 3'; "
                                     "Deletion of pod ns/a refused: 'needs 3'");
    assert_string_equal(
        w.last_message,
        "Pod ns/a may not leave: its deletion is refused or fails: 'needs 3'; it is tried "
        "again each second: mend what the answer names");
    life_world_done(&w);
}

/* ---- replacement first */

static void life_begin_waiting(struct life_world *w, const char *notice) {
    life_world_init(w);
    (void)life_do(w, 0, "rules replacement=600");
    (void)life_do(w, 0, "begin");
    (void)life_do(w, 1000, notice);
    (void)life_do(w, 1010, "ok");
    (void)life_do(w, 1020, "ok");
    (void)life_do(w, 1030, "first a:30");
}

/* It says so, and who it is; what it waits for is that somebody else deletes the pod. */
static void test_waits_for_a_replacement(void **state) {
    static const struct life_row story[] = {
        {1040, "synced", "SAY WaitingForReplacement @evicting"},
        {2030, "tick", "WRITE progress[Evicting] @evicting"},
        {2040, "ok", "@evicting"},
        {4000, "tick", NULL},
        {90000, "leaving a:30", "WRITE progress[Evicting] @evicting"},
        {90010, "ok", "@evicting"},
        {93000, "lost a", "LOOK; WRITE progress[VolumeWait] @volume-wait"},
    };
    struct life_world w;

    (void)state;
    life_begin_waiting(&w, "notice operator drain");
    life_play(&w, story, 2);
    assert_non_null(strstr(w.last_status, "\"blocked\":[\"ns/a\"],\"reasons\":[\"replacement\"],"
                                          "\"waiting\":1,\"waitingSince\":\"2026-01-02T03:04:06"));
    life_play(&w, story + 2, 3);
    assert_null(strstr(w.last_status, "waiting"));
    life_play(&w, story + 5, 2);
    life_world_done(&w);
}

static void test_evicts_without_a_replacement(void **state) {
    static const struct life_row story[] = {
        {1040, "synced", "SAY WaitingForReplacement @evicting"},
        {2030, "tick", "WRITE progress[Evicting] @evicting"},
        {2040, "ok", "@evicting"},
        {599000, "tick", "WRITE progress[Evicting] @evicting"},
        {599010, "ok", "@evicting"},
        {601019, "tick", "@evicting"},
        {601020, "tick", "SAY ReplacementNotReady; WRITE progress[Evicting]; evict a @evicting"},
        {601030, "ok", "@evicting"},
        {601040, "yes a", "@evicting"},
    };
    struct life_world w;

    (void)state;
    life_begin_waiting(&w, "notice operator drain");
    life_play(&w, story, NC_ARRAY_SIZE(story));
    life_world_done(&w);
}

/* A near deadline: as ever, and not a word of it. One that is far away, or comes in between. */
static void test_no_wait_under_a_deadline(void **state) {
    static const struct life_row far[] = {
        {1040, "synced", "SAY WaitingForReplacement @evicting"},
        {2030, "tick", "WRITE progress[Evicting] @evicting"},
        {2040, "ok", "@evicting"},
        {9000, "notice spot +120",
         "SAY SpotInterruption; SAY ReplacementNotReady; "
         "WRITE signal[Evicting pending]; evict a @evicting"},
    };
    struct life_world w;

    (void)state;
    life_begin_waiting(&w, "notice spot +120");
    assert_string_equal(life_do(&w, 1040, "synced"), "evict a @evicting");
    assert_null(strstr(w.last_status, "waiting"));
    life_world_done(&w);
    life_begin_waiting(&w, "notice operator drain +616");
    assert_string_equal(life_do(&w, 1040, "synced"), "evict a @evicting");
    life_world_done(&w);
    life_begin_waiting(&w, "notice operator drain +3600");
    life_play(&w, far, NC_ARRAY_SIZE(far));
    life_world_done(&w);
}

/* By default of these rules (0) the annotation is none; and without a Node nobody would know. */
static void test_no_wait_where_nobody_replaces(void **state) {
    static const struct life_row off[] = {
        {0, "begin", "@idle"},
        {1000, "notice operator drain", NULL},
        {1010, "ok", NULL},
        {1020, "ok", NULL},
        {1030, "first a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
    };
    (void)state;
    LIFE_STORY(off);
    struct life_world w;
    life_begin_waiting(&w, "notice operator drain");
    (void)life_do(&w, 1040, "synced");
    assert_non_null(strstr(life_do(&w, 5000, "gone"), "evict a"));
    life_world_done(&w);
}

/* The wait counts from when this drain began to evict, also after a restart; a later drain has its
 * own. */
static void test_wait_survives_a_restart(void **state) {
    static const struct life_row story[] = {
        {1040, "synced", "SAY WaitingForReplacement @evicting"},
        {2030, "tick", NULL},
        {2040, "ok", NULL},
        {300000, "restart", "@evicting"},
        {300010, "node", NULL},
        {300020, "first a:30", NULL},
        {300030, "synced", NULL},
        {300040, "ok", NULL},
        {601019, "tick", "WRITE progress[Evicting] @evicting"},
        {601019, "ok", "@evicting"},
        {601020, "tick", "SAY ReplacementNotReady; evict a @evicting"},
    };
    struct life_world w;

    (void)state;
    life_begin_waiting(&w, "notice operator drain");
    life_play(&w, story, NC_ARRAY_SIZE(story));
    life_world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_waits_for_a_replacement),
        cmocka_unit_test(test_evicts_without_a_replacement),
        cmocka_unit_test(test_no_wait_under_a_deadline),
        cmocka_unit_test(test_no_wait_where_nobody_replaces),
        cmocka_unit_test(test_wait_survives_a_restart),
        cmocka_unit_test(test_later_turns_wait_for_daemons),
        cmocka_unit_test(test_shutdown_waits_for_the_drain),
        cmocka_unit_test(test_shutdown_goes_on_when_time_is_over),
        cmocka_unit_test(test_shutdown_by_policy_report),
        cmocka_unit_test(test_shutdown_by_karpenters_reboot),
        cmocka_unit_test(test_shutdown_that_is_a_reboot),
        cmocka_unit_test(test_shutdown_by_policy_cordon),
        cmocka_unit_test(test_shutdown_by_policy_ignore),
        cmocka_unit_test(test_shutdown_without_a_node),
        cmocka_unit_test(test_shutdown_before_the_node_is_seen),
        cmocka_unit_test(test_late_pod),
        cmocka_unit_test(test_drained_by_another),
        cmocka_unit_test(test_finish),
        cmocka_unit_test(test_linger),
        cmocka_unit_test(test_linger_ends_with_the_time),
        cmocka_unit_test(test_volumes_until_time_is_over),
        cmocka_unit_test(test_time_is_over_and_pods_are_left),
        cmocka_unit_test(test_pods_never_listed),
        cmocka_unit_test(test_reported_gone),
        cmocka_unit_test(test_what_blocks_for_long_is_reported_seldom),
        cmocka_unit_test(test_kept_pods_are_reported),
        cmocka_unit_test(test_what_lasts_is_said_once_a_drain),
        cmocka_unit_test(test_reported_gone_while_listed),
        cmocka_unit_test(test_withdrawn_while_a_request_is_in_flight),
        cmocka_unit_test(test_many_pods),
        cmocka_unit_test(test_a_burst_of_pods),
        cmocka_unit_test(test_many_budgets),
        cmocka_unit_test(test_pods_that_nobody_waits_for),
        cmocka_unit_test(test_force_deletes_wait_for_the_list),
        cmocka_unit_test(test_more_pods_than_are_kept),
        cmocka_unit_test(test_more_pods_than_are_kept_and_none_leaves),
        cmocka_unit_test(test_started_pods_are_kept_first),
        cmocka_unit_test(test_an_unreadable_pod),
        cmocka_unit_test(test_an_unreadable_pod_of_each_drain),
        cmocka_unit_test(test_an_unreadable_pod_comes_late),
        cmocka_unit_test(test_incomplete_is_reported),
        cmocka_unit_test(test_a_line_for_each_pod),
        cmocka_unit_test(test_refused_deletion),
    };

    return run_group(tests, NULL, NULL);
}
