/*
 * signal: self: when the guard is tried, when the power is used, and that nothing waits for it.
 */
#include "life-world.h"

#include "nc/str.h"

#define DETECTED "WRITE signal[Detected pending]"
#define CORDON "WRITE cordon[Cordoned cordon record label]"

/* Known in time: the notice costs two requests. T is 105 s, written to the second. */
static void test_handed_over(void **state) {
    static const struct life_row story[] = {
        {0, "rules self=on", "@idle"},
        {0, "begin", "@idle"},
        {10, "claim", "PROBE @idle"},
        {30, "probed trusted", "@idle"},
        {30, "next", "none @idle"},
        {1000, "notice spot +120", "SAY SpotInterruption; " DETECTED " @signalling"},
        {1020, "ok", CORDON "; STAMP +105 @cordoning"},
        {1030, "self ok", "DELETE @cordoning"},
        {1040, "self ok", "SAY HandedToKarpenter @cordoning"},
        {1050, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {2000, "claim deleting time", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* The first that is heard of both: the guard is tried beside the signal. */
static void test_probed_beside_the_signal(void **state) {
    static const struct life_row story[] = {
        {0, "rules self=on", "@idle"},
        {0, "begin", "@idle"},
        {1000, "notice spot +120", "SAY SpotInterruption; " DETECTED " @signalling"},
        {1010, "claim", "PROBE @signalling"},
        {1020, "probed trusted", "@signalling"},
        {1020, "ok", CORDON "; STAMP +105 @cordoning"},
        {1030, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1040, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Nothing of the drain waits, whatever becomes of it; and it is tried again. */
static void test_away(void **state) {
    static const struct life_row story[] = {
        {0, "rules self=on", "@idle"},
        {0, "begin", "@idle"},
        {10, "claim", "PROBE @idle"},
        {1000, "notice spot +120", "SAY SpotInterruption; " DETECTED " @signalling"},
        {1020, "ok", CORDON " @cordoning"},
        {1030, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
        {1040, "pods a:30", "@evicting"},
        {1040, "synced", "evict a @evicting"},
        {2010, "probed away", NULL},
        {2400, "tick", NULL},
        {2500, "probed trusted", "STAMP +105 @evicting"},
        {4500, "self away", NULL},
        {4800, "tick", "STAMP +105 @evicting"},
        {4810, "self ok", "DELETE @evicting"},
        {6810, "self away", "@evicting"},
        {7200, "tick", "DELETE @evicting"},
        {7210, "self missing", "@evicting"},
        {9000, "tick", "@evicting"},
    };

    (void)state;
    LIFE_STORY(story);
}

static void test_refused(void **state) {
    static const struct {
        const char *probed, *why;
    } rows[] = {
        {"probed open", "the guard policy is missing"},
        {"probed closed", "the ClusterRole is missing"},
        {"probed unread", "may not read"},
        {"probed foreign", "status.nodeName"},
        {"probed nostamp", "does not let this node write"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const struct life_row story[] = {
            {0, "rules self=on", "@idle"},
            {0, "begin", "@idle"},
            {10, "claim", "PROBE @idle"},
            {20, rows[i].probed, "SAY SignalSelfRefused @idle"},
            {20, "next", "600020 @idle"},
            {600020, "tick", "PROBE @idle"},
            {600030, rows[i].probed, "@idle"},
            {601000, "notice spot +720",
             "SAY SpotInterruption; " DETECTED "; SAY SignalSelfRefused @signalling"},
            {601010, "ok", CORDON " @cordoning"},
            {601020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"},
            {602000, "synced", NULL},
            {630030, "tick", NULL},
            {630040, "probed trusted", NULL},
        };
        struct life_world w;
        struct nc_life_view view;
        life_world_init(&w);
        life_play(&w, story, 4);
        nc_life_look(w.life, w.now_usec, &view);
        assert_int_equal(view.self, NC_SELF_REFUSED);
        if (!strstr(view.self_why, rows[i].why) || !strstr(w.last_message, rows[i].why))
            fail_msg("%s: %s; %s", rows[i].probed, view.self_why, w.last_message);
        life_play(&w, story + 4, NC_ARRAY_SIZE(story) - 5);
        assert_int_equal(w.self, NC_SELF_PROBE);
        assert_non_null(strstr(life_do(&w, 630040, "probed trusted"), "STAMP +705"));
        life_world_done(&w);
    }
}

/* Killed between the two: the claim says what was done. */
static void test_restart_between(void **state) {
    static const struct life_row story[] = {
        {0, "rules self=on", "@idle"},
        {0, "begin", "@idle"},
        {10, "claim", "PROBE @idle"},
        {20, "probed trusted", "@idle"},
        {1000, "notice spot +120", NULL},
        {1010, "ok", CORDON "; STAMP +105 @cordoning"},
        {1020, "restart", NULL},
        {1100, "node", NULL},
        {1110, "claim time", NULL},
        {1120, "probed time nostamp", "DELETE @cordoning"},
        {1130, "restart", NULL},
        {1200, "node", NULL},
        {1210, "claim", NULL},
        {1220, "probed time deleting nostamp", "@cordoning"},
        {9000, "tick", NULL},
    };
    struct life_world w;
    struct nc_life_view view;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    nc_life_look(w.life, w.now_usec, &view);
    assert_int_equal(view.self, NC_SELF_HANDED);
    assert_int_equal(w.self, NC_SELF_NONE);
    life_world_done(&w);
}

/* An ending without its time is better than none; but only after a second look. */
static void test_stamp_refused(void **state) {
    static const struct life_row story[] = {
        {0, "rules self=on", "@idle"},
        {0, "begin", "@idle"},
        {10, "claim", "PROBE @idle"},
        {20, "probed trusted", "@idle"},
        {1000, "notice spot +120", NULL},
        {1010, "ok", CORDON "; STAMP +105 @cordoning"},
        {1020, "self denied", "@cordoning"},
        {1400, "tick", "PROBE @cordoning"},
        {1410, "probed trusted", "STAMP +105 @cordoning"},
        {1420, "self forbidden", "@cordoning"},
        {1900, "tick", "PROBE @cordoning"},
        {1910, "probed trusted", "DELETE @cordoning"},
        {1920, "self forbidden", "SAY SignalSelfRefused @cordoning"},
    };

    (void)state;
    LIFE_STORY(story);
}

/* Who else was faster: a time that stands stays, a claim that goes is not deleted again. */
static void test_somebody_elses(void **state) {
    static const struct life_row stamped[] = {
        {0, "rules self=on", "@idle"},     {0, "begin", "@idle"},
        {10, "claim time", "PROBE @idle"}, {20, "probed nostamp", "@idle"},
        {1000, "notice spot +120", NULL},  {1010, "ok", CORDON "; DELETE @cordoning"},
    };
    static const struct life_row deleted[] = {
        {0, "rules self=on", "@idle"},         {0, "begin", "@idle"},
        {10, "claim deleting", "PROBE @idle"}, {20, "probed trusted", "@idle"},
        {1000, "notice spot +120", NULL},      {1010, "ok", CORDON "; STAMP +105 @cordoning"},
        {1020, "self ok", "@cordoning"},
    };

    (void)state;
    LIFE_STORY(stamped);
    LIFE_STORY(deleted);
}

static void test_not_wanted(void **state) {
    static const struct {
        const char *rules, *notice;
    } rows[] = {
        {"rules self=off", "notice spot +120"},
        {"rules self=on spot=report", "notice spot +120"},
        {"rules self=on mode=off", "notice spot +120"},
        {"rules self=on", "notice spot"},       /* no deadline */
        {"rules self=on", "notice spot +4000"}, /* far ahead */
        {"rules self=on", "notice request +120 drain"},
        {"rules self=on", "notice shutdown +120"},
        {"rules self=on", "notice deletion +120 last"},
        {"rules self=on", "notice maintenance +2000 begin+1000"}, /* not begun */
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct life_world w;
        life_world_init(&w);
        (void)life_do(&w, 0, rows[i].rules);
        (void)life_do(&w, 0, "begin");
        (void)life_do(&w, 10, "claim");
        (void)life_do(&w, 20, "probed trusted");
        (void)life_do(&w, 1000, rows[i].notice);
        (void)life_do(&w, 1010, "written");
        (void)life_do(&w, 1020, "written");
        (void)life_do(&w, 6000, "tick");
        if (w.self == NC_SELF_STAMP || w.self == NC_SELF_DELETE)
            fail_msg("%s: %s: used", rows[i].rules, rows[i].notice);
        life_world_done(&w);
    }
}

/* Maintenance, once it has begun; and where the agent only cordons, Karpenter drains. */
static void test_wanted_too(void **state) {
    static const char *const rows[][2] = {
        {"rules self=on", "notice maintenance +900 begin+1"},
        {"rules self=on mode=observe", "notice spot +120"},
        {"rules self=on spot=cordon", "notice spot +120"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct life_world w;
        life_world_init(&w);
        (void)life_do(&w, 0, rows[i][0]);
        (void)life_do(&w, 0, "begin");
        (void)life_do(&w, 10, "claim");
        (void)life_do(&w, 20, "probed trusted");
        (void)life_do(&w, 1000, rows[i][1]);
        (void)life_do(&w, 1010, "written");
        if (w.self != NC_SELF_STAMP)
            fail_msg("%s: %s: not used", rows[i][0], rows[i][1]);
        life_world_done(&w);
    }
}

/* Old trust is renewed before it is used; another claim has to earn its own. */
static void test_trust_ends(void **state) {
    static const struct life_row old[] = {
        {0, "rules self=on", "@idle"},
        {0, "begin", "@idle"},
        {10, "claim", "PROBE @idle"},
        {20, "probed trusted", "@idle"},
        {900000, "notice spot +1020", "SAY SpotInterruption; " DETECTED "; PROBE @signalling"},
        {900010, "ok", CORDON " @cordoning"},
        {900020, "probed open", "SAY SignalSelfRefused @cordoning"},
    };
    static const struct life_row other[] = {
        {0, "rules self=on", "@idle"},
        {0, "begin", "@idle"},
        {10, "claim", "PROBE @idle"},
        {20, "probed trusted", "@idle"},
        {30, "claim uid=c2", "PROBE @idle"},
        {1000, "notice spot +120", NULL},
        {1010, "ok", CORDON " @cordoning"},
        {1020, "probed foreign", "SAY SignalSelfRefused @cordoning"},
    };

    (void)state;
    LIFE_STORY(old);
    LIFE_STORY(other);
}

static void test_withdrawn(void **state) {
    static const struct life_row story[] = {
        {0, "rules self=on", "@idle"},
        {0, "begin", "@idle"},
        {10, "claim", "PROBE @idle"},
        {20, "probed trusted", "@idle"},
        {1000, "notice spot +120", NULL},
        {1010, "ok", CORDON "; STAMP +105 @cordoning"},
        {1020, "clear spot", NULL},
        {1030, "self ok", NULL},
        {9000, "tick", NULL},
    };
    struct life_world w;

    (void)state;
    life_world_init(&w);
    life_play(&w, story, NC_ARRAY_SIZE(story));
    assert_int_equal(w.self, NC_SELF_NONE);
    life_world_done(&w);
}

/* Silence is not trust: every answer that is missing leaves it unknown. */
static void test_judge(void **state) {
    const struct nc_self_probe good = {.read = NC_SELF_ALLOWED,
                                       .foreign = NC_SELF_DENIED,
                                       .stamp = NC_SELF_ALLOWED,
                                       .is_ours = true};
    const char *why;
    unsigned n_trusted = 0;

    (void)state;
    assert_int_equal(nc_self_judge(&good, &why), NC_SELF_TRUSTED);
    assert_string_equal(why, "");
    for (unsigned i = 0; i < 5 * 5 * 5 * 2; i++) {
        const struct nc_self_probe p = {.read = (enum nc_self_answer)(i % 5),
                                        .foreign = (enum nc_self_answer)(i / 5 % 5),
                                        .stamp = (enum nc_self_answer)(i / 25 % 5),
                                        .is_ours = i / 125};
        const enum nc_self_state s = nc_self_judge(&p, &why);
        n_trusted += s == NC_SELF_TRUSTED;
        assert_true((s == NC_SELF_TRUSTED) == (*why == '\0'));
    }
    assert_int_equal(n_trusted, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_handed_over),
        cmocka_unit_test(test_probed_beside_the_signal),
        cmocka_unit_test(test_away),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_restart_between),
        cmocka_unit_test(test_stamp_refused),
        cmocka_unit_test(test_somebody_elses),
        cmocka_unit_test(test_not_wanted),
        cmocka_unit_test(test_wanted_too),
        cmocka_unit_test(test_trust_ends),
        cmocka_unit_test(test_withdrawn),
        cmocka_unit_test(test_judge),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
