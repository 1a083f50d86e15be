/*
 * Writes: how many at once, who first, how often again, and what an object may cost. Rules C7 to
 * C10.
 */
#include "control-world.h"
#include "groups.h"

#include <inttypes.h>

#include "nc/mem.h"

#define T105 "2026-11-22T02:01:45Z"
#define STAMP1 "set-timestamp c1 " T105 "\n"
#define STAMPED1 ",\"annotations\":{\"karpenter.sh/nodeclaim-termination-timestamp\":\"" T105 "\"}"

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

static size_t lines_with(const char *text, const char *status) {
    size_t n = 0;

    for (const char *p = text; (p = strstr(p, status)); p++)
        n++;
    return n;
}

static struct nc_control_counts counts(struct world *w) {
    struct nc_control_counts n;

    nc_control_count(w->c, w->now_usec, &n);
    return n;
}

static void notice(struct world *w) {
    expect(world_claim(w, "c1", "n1", ""), "");
    expect(world_node(w, "n1", world_status(w, "spot", 120)), STAMP1);
}

static void test_one_write_of_an_object(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w);
    expect(world_claim(&w, "c1", "n1", ",\"generation\":2"), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 60)), ""); /* earlier still: afterwards */
    expect(world_pass(&w, 60 * WORLD_SEC), "");
    assert_int_equal(counts(&w).in_flight, 1);
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "set-timestamp c1 2026-11-22T02:00:50Z\n");
    world_close(&w);
}

/* What was accepted and is not seen yet is not written again; nor is it not touched for ever. */
static void test_waits_for_the_watch(void **state) {
    static const char deleting[] = ",\"deletionTimestamp\":\"2026-11-22T01:00:00Z\"";
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", deleting), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), STAMP1);
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "event InterruptionRelayed NodeClaim c1\n");
    expect(world_pass(&w, NC_CONTROL_WATCH_WAIT_USEC - 1), "");
    expect(world_tick(&w), "");
    expect(world_pass(&w, 1), STAMP1);
    expect(world_answer(&w, 2, NC_CONTROL_DONE), "");
    world_close(&w);
}

static void test_waits_for_the_watch_by_version(void **state) {
    static const struct {
        const char *rv;
        bool is_newer;
    } rows[] = {{"400", false}, {"499", false}, {"500", true}, {"501", true}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        nc_auto_free char *more = nc_asprintf(",\"resourceVersion\":\"%s\"", rows[i].rv);
        world_open(&w);
        expect(world_claim(&w, "c1", "n1", ",\"deletionTimestamp\":\"2026-11-22T01:00:00Z\""), "");
        expect(world_node(&w, "n1", world_status(&w, "spot", 120)), STAMP1);
        expect(world_answer_with(&w, 1, NC_CONTROL_DONE, 0,
                                 "{\"metadata\":{\"uid\":\"uid-c1\",\"resourceVersion\":\"500\"}}"),
               "event InterruptionRelayed NodeClaim c1\n");
        /* Seen without the termination timestamp: an old sight, or somebody has taken it away
         * since. */
        nc_auto_free char *all =
            nc_asprintf("%s,\"deletionTimestamp\":\"2026-11-22T01:00:00Z\"", more);
        expect(world_claim(&w, "c1", "n1", all), rows[i].is_newer ? STAMP1 : "");
        world_close(&w);
    }
}

static void test_pauses(void **state) {
    uint64_t last_usec = 0, id = 1;
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", STAMPED1), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 3600)), "delete-claim c1\n");
    for (unsigned n = 0; n < 12; n++) {
        const uint64_t from = w.now_usec;
        expect(world_answer(&w, id++, NC_CONTROL_UNAVAILABLE), "");
        while (!world_tick(&w)[0])
            w.now_usec = nc_control_next(w.c, w.now_usec);
        const uint64_t pause = w.now_usec - from, most = n < 8 ? 200000ull << n : 30000000;
        assert_in_range(pause, most - most / 4, most);
        assert_true(pause > last_usec || most == 30000000);
        last_usec = pause;
    }
    /* What is accepted ends the row; another kind of write has its own. */
    expect(world_answer(&w, id++, NC_CONTROL_DONE), "event InterruptionRelayed NodeClaim c1\n");
    world_close(&w);
}

static void test_pauses_begin_anew(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w);
    for (uint64_t id = 1; id < 4; id++) {
        expect(world_answer(&w, id, NC_CONTROL_UNAVAILABLE), "");
        assert_non_null(strstr(world_pass(&w, 2 * WORLD_SEC), "set-timestamp c1"));
    }
    expect(world_answer(&w, 4, NC_CONTROL_UNAVAILABLE), "delete-claim c1\n");
    expect(world_answer(&w, 5, NC_CONTROL_UNAVAILABLE), "");
    assert_in_range(nc_control_next(w.c, w.now_usec) - w.now_usec, 150000, 200000);
    world_close(&w);
}

static void test_accepted_ends_the_row(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ",\"deletionTimestamp\":\"2026-11-22T01:00:00Z\""), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), STAMP1);
    for (uint64_t id = 1; id < 6; id++) {
        expect(world_answer(&w, id, NC_CONTROL_UNAVAILABLE), "");
        expect(world_pass(&w, 10 * WORLD_SEC), STAMP1);
    }
    expect(world_answer(&w, 6, NC_CONTROL_DONE), "event InterruptionRelayed NodeClaim c1\n");
    expect(world_node(&w, "n1", world_status(&w, "spot", 30)),
           "set-timestamp c1 2026-11-22T02:01:16Z\n");
    expect(world_answer(&w, 7, NC_CONTROL_UNAVAILABLE), "");
    assert_in_range(nc_control_next(w.c, w.now_usec) - w.now_usec, 150000, 200000);
    world_close(&w);
}

static void test_retry_after(void **state) {
    static const struct {
        uint64_t asked_usec, least_usec, most_usec;
    } rows[] = {
        {0, 150000, 200000},
        {100000, 150000, 200000},
        {7 * WORLD_SEC, 7 * WORLD_SEC, 7 * WORLD_SEC},
        {86400 * WORLD_SEC, 300 * WORLD_SEC, 300 * WORLD_SEC}, /* is not trusted */
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        world_open(&w);
        notice(&w);
        expect(world_answer_with(&w, 1, NC_CONTROL_UNAVAILABLE, rows[i].asked_usec, NULL), "");
        assert_in_range(nc_control_next(w.c, w.now_usec) - w.now_usec, rows[i].least_usec,
                        rows[i].most_usec);
        world_close(&w);
    }
}

static void test_conflict_waits_for_the_watch(void **state) {
    static const enum nc_control_answer answers[] = {NC_CONTROL_CONFLICT, NC_CONTROL_MISSING,
                                                     NC_CONTROL_UNAVAILABLE};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(answers); i++) {
        struct world w;
        world_open(&w);
        notice(&w);
        expect(world_answer(&w, 1, answers[i]), "");
        /* What the watch shows ends the pause of a conflict, not the one of a server away. */
        expect(world_claim(&w, "c1", "n1", ""), answers[i] == NC_CONTROL_UNAVAILABLE ? "" : STAMP1);
        world_close(&w);
    }
}

/* The watch may tell of our own termination timestamp only after the claim was found gone: that is
 * no news. */
static void test_own_write_is_no_news(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w);
    expect(world_answer_with(&w, 1, NC_CONTROL_DONE, 0,
                             "{\"metadata\":{\"uid\":\"uid-c1\",\"resourceVersion\":\"500\"}}"),
           "delete-claim c1\n");
    expect(world_answer(&w, 2, NC_CONTROL_MISSING), "");
    expect(world_claim(&w, "c1", "n1", STAMPED1 ",\"resourceVersion\":\"500\""), "");
    expect(world_claim(&w, "c1", "n1", STAMPED1 ",\"resourceVersion\":\"501\""),
           "delete-claim c1\n");
    world_close(&w);
}

/* ---- places */

static void see_many(struct world *w, size_t n, bool are_noticed) {
    char claim[24], node[24];

    for (size_t i = 0; i < n; i++) {
        (void)snprintf(claim, sizeof(claim), "c%zu", i);
        (void)snprintf(node, sizeof(node), "n%zu", i);
        expect(world_node(w, node, are_noticed ? world_status(w, "spot", 120) : NULL), "");
        expect(world_claim(w, claim, node, ""), "");
    }
}

static void open_quiet(struct world *w, size_t n, bool are_noticed) {
    world_open_raw(w);
    expect(world_mode(w, NC_CONTROL_KARPENTER), "");
    expect(world_lead(w, true), "");
    see_many(w, n, are_noticed);
    expect(world_synced(w, NC_CONTROL_NODE), "");
}

static void test_concurrency(void **state) {
    struct world w;
    const char *got = NULL;

    (void)state;
    open_quiet(&w, 200, true);
    got = world_synced(&w, NC_CONTROL_CLAIM);
    assert_int_equal(lines_with(got, "stamp "), 64);
    assert_int_equal(counts(&w).waiting, 136);
    assert_int_equal(counts(&w).in_flight, 64);
    assert_int_equal(counts(&w).relaying, 200);
    /* One answer, one place: a relay that was begun is ended before another is begun. */
    got = world_answer(&w, 1, NC_CONTROL_DONE);
    assert_int_equal(lines_with(got, "delete-claim "), 1);
    assert_int_equal(lines_with(got, "\n"), 1);
    got = world_answer(&w, w.ids[0], NC_CONTROL_DONE);
    assert_int_equal(lines_with(got, "stamp "), 1);
    /* One that failed has its pause, and waits behind those that did not. */
    got = world_answer(&w, 2, NC_CONTROL_UNAVAILABLE);
    assert_int_equal(lines_with(got, "stamp "), 1);
    assert_int_equal(lines_with(got, "\n"), 1);
    world_close(&w);
}

/* Ends every write that is in flight, until nothing comes any more. */
static void answer_all(struct world *w, size_t n_relays) {
    uint64_t open[4096];
    size_t n = w->n_ids, n_timestamps = 0, n_deletes = 0, from = 0;

    memcpy(open, w->ids, n * sizeof(*open));
    n_timestamps = n;
    while (from < n) {
        const char *got = world_answer(w, open[from++], NC_CONTROL_DONE);
        n_timestamps += lines_with(got, "stamp ");
        n_deletes += lines_with(got, "delete-claim ");
        assert_true(n + w->n_ids <= NC_ARRAY_SIZE(open));
        memcpy(open + n, w->ids, w->n_ids * sizeof(*open));
        n += w->n_ids;
        assert_true(n - from <= 64);
    }
    assert_int_equal(n_timestamps, n_relays);
    assert_int_equal(n_deletes, n_relays);
}

static void test_thousand_notices(void **state) {
    struct nc_control_counts n;
    struct world w;

    (void)state;
    open_quiet(&w, 1000, true);
    (void)world_synced(&w, NC_CONTROL_CLAIM);
    answer_all(&w, 1000); /* each exactly once */
    n = counts(&w);
    assert_int_equal(nc_histogram_count(&n.relays), 1000);
    assert_int_equal(n.rate_limited, 0);
    world_close(&w);
}

/* Everything once more, as a relist brings it: nothing is written again. */
static void test_relist_of_ten_thousand(void **state) {
    struct world w;

    (void)state;
    open_quiet(&w, 10000, false);
    expect(world_synced(&w, NC_CONTROL_CLAIM), "");
    for (uint64_t turn = 0; turn < 2; turn++) {
        w.rv = turn == 0 ? 100 : 50000; /* the same versions, then others */
        see_many(&w, 10000, false);
        expect(world_synced(&w, NC_CONTROL_NODE), "");
        expect(world_synced(&w, NC_CONTROL_CLAIM), "");
    }
    assert_int_equal(counts(&w).objects[NC_CONTROL_NODE], 10000);
    assert_int_equal(counts(&w).objects[NC_CONTROL_CLAIM], 10000);
    world_close(&w);
}

/* Without Karpenter each of these claims wants our finalizer first. */
static const char *bare_claim(struct world *w, size_t i) {
    nc_auto_free char *json =
        nc_asprintf("{\"metadata\":{\"name\":\"b%zu\",\"uid\":\"uid-b%zu\"},\"status\":{}}", i, i);

    return world_see(w, NC_CONTROL_CLAIM, json);
}

static void open_standalone(struct world *w, size_t n) {
    world_open(w);
    expect(world_mode(w, NC_CONTROL_STANDALONE), "");
    for (size_t i = 0; i < n; i++)
        expect(bare_claim(w, i), "");
    expect(world_synced(w, NC_CONTROL_NODE), "");
    expect(world_synced(w, NC_CONTROL_POOL), "");
}

static void test_a_quarter_for_relays(void **state) {
    struct world w;
    const char *got = NULL;

    (void)state;
    open_standalone(&w, 100);
    got = world_synced(&w, NC_CONTROL_CLAIM);
    assert_int_equal(lines_with(got, "patch-claim b"), 48);
    assert_int_equal(lines_with(got, "\n"), 48);
    for (size_t i = 0; i < 17; i++) {
        nc_auto_free char *name = nc_asprintf("c%zu", i), *node = nc_asprintf("n%zu", i);
        expect(world_claim(&w, name, node, ""), "");
        assert_int_equal(lines_with(world_node(&w, node, world_status(&w, "spot", 120)), "stamp "),
                         i < 16);
    }
    /* The place of another write that ends goes to the relay that waits. */
    expect(world_answer(&w, 1, NC_CONTROL_REFUSED), "set-timestamp c16 " T105 "\n");
    /* The next one to the DELETE of the first relay, not to those that wait longer. */
    expect(world_answer(&w, 49, NC_CONTROL_DONE), "delete-claim c0\n");
    world_close(&w);
}

/* Budgets are about what is on its way out: what was accepted counts before the watch shows it. */
static void test_deletion_counts_at_once(void **state) {
    static const char pool[] =
        "{\"metadata\":{\"name\":\"p1\",\"uid\":\"p\"},\"spec\":{\"disruption\":{\"budgets\":["
        "{\"nodes\":\"1\"}]}}}";
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
    expect(world_see(&w, NC_CONTROL_POOL, pool), "");
    for (int i = 1; i <= 2; i++) {
        nc_auto_free char *node = nc_asprintf(
            "{\"metadata\":{\"name\":\"n%d\",\"uid\":\"u%d\",\"labels\":{\"karpenter.sh/"
            "registered\":"
            "\"true\",\"karpenter.sh/initialized\":\"true\"},\"finalizers\":[\"nodeclaimd.io/"
            "termination\"],\"ownerReferences\":[{\"apiVersion\":\"karpenter.sh/v1\",\"kind\":"
            "\"NodeClaim\",\"name\":\"c%d\",\"uid\":\"uc%d\"}]},\"spec\":{\"providerID\":\"aws:///"
            "a/"
            "i-%d\"},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}",
            i, i, i, i, i);
        nc_auto_free char *claim = nc_asprintf(
            "{\"metadata\":{\"name\":\"c%d\",\"uid\":\"uc%d\",\"creationTimestamp\":\"2026-01-0%"
            "dT00:"
            "00:00Z\",\"finalizers\":[\"nodeclaimd.io/termination\"],\"labels\":{\"karpenter.sh/"
            "nodepool\":\"p1\"}},\"spec\":{\"expireAfter\":\"1h\"},\"status\":{\"nodeName\":\"n%"
            "d\","
            "\"providerID\":\"aws:///a/i-%d\",\"conditions\":[{\"type\":\"Registered\",\"status\":"
            "\"True\"},{\"type\":\"Initialized\",\"status\":\"True\"},{\"type\":\"Ready\","
            "\"status\":"
            "\"True\",\"reason\":\"Ready\",\"message\":\"\"}]}}",
            i, i, i, i, i);
        expect(world_see(&w, NC_CONTROL_NODE, node), "");
        expect(world_see(&w, NC_CONTROL_CLAIM, claim), "");
    }
    expect(world_synced(&w, NC_CONTROL_NODE), "");
    expect(world_synced(&w, NC_CONTROL_POOL), "");
    expect(world_synced(&w, NC_CONTROL_CLAIM), "delete-claim c1 alone\n");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "event Disrupted NodeClaim c1\npatch-node n1\n");
    assert_null(strstr(world_pass(&w, 60 * WORLD_SEC), "delete-claim"));
    world_close(&w);
}

static void test_lowest_concurrency(void **state) {
    struct world w;

    (void)state;
    world_open_raw(&w);
    w.rules.max_in_flight = 0;
    expect(world_rules(&w), "");
    expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
    expect(world_lead(&w, true), "");
    for (size_t i = 0; i < 10; i++)
        expect(bare_claim(&w, i), "");
    expect(world_synced(&w, NC_CONTROL_NODE), "");
    expect(world_synced(&w, NC_CONTROL_POOL), "");
    assert_int_equal(lines_with(world_synced(&w, NC_CONTROL_CLAIM), "patch-claim "), 3);
    world_close(&w);
}

/* Nothing is done in standalone mode before the NodePools are there; nor after Karpenter was found.
 */
static void test_standalone_waits_for_its_lists(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(bare_claim(&w, 1), "");
    expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
    expect(bare_claim(&w, 1), ""); /* the lists were of another `mode` */
    expect(world_synced(&w, NC_CONTROL_NODE), "");
    expect(world_synced(&w, NC_CONTROL_CLAIM), "");
    expect(world_synced(&w, NC_CONTROL_POOL), "patch-claim b1\n");
    expect(world_answer(&w, 1, NC_CONTROL_UNAVAILABLE), "");
    expect(world_mode(&w, NC_CONTROL_KARPENTER), "");
    expect(world_pass(&w, 60 * WORLD_SEC), "");
    world_close(&w);
}

/* Built without standalone nothing is done where there is no Karpenter; but a notice is relayed. */
static void test_without_standalone(void **state) {
    struct world w;

    (void)state;
    world_open_raw(&w);
    nc_control_free(w.c);
    w.c = nc_control_new(NULL);
    expect(world_rules(&w), "");
    expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
    expect(world_lead(&w, true), "");
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        expect(world_synced(&w, (enum nc_control_kind)k), "");
    expect(world_see(&w, NC_CONTROL_POOL, "{\"metadata\":{\"name\":\"p1\",\"uid\":\"p\"}}"), "");
    expect(world_see(&w, NC_CONTROL_CLASS, "{\"metadata\":{\"name\":\"k1\",\"uid\":\"k\"}}"), "");
    expect(bare_claim(&w, 1), "");
    expect(world_tick(&w), "");
    notice(&w);
    world_close(&w);
}

/* What relays need waits for none of that. */
static void test_relay_does_not_wait_for_pools(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
    notice(&w);
    world_close(&w);
}

/* ---- shares */

static void test_rate_limit(void **state) {
    struct world w;
    size_t n = 0;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ",\"deletionTimestamp\":\"2026-11-22T01:00:00Z\""), "");
    /* A node that finds an earlier deadline all the time; each write is accepted and shown. */
    for (int64_t i = 0; i < 400; i++) {
        const char *got = world_node(&w, "n1", world_status(&w, "spot", 3000 - 2 * i));
        w.now_usec += WORLD_SEC / 4;
        if (!got[0])
            continue;
        assert_int_equal(lines_with(got, "set-timestamp c1"), 1);
        n++;
        (void)world_answer(&w, w.ids[0], NC_CONTROL_DONE);
    }
    /* 20 at once, then one in five seconds for a hundred seconds. */
    assert_in_range(n, 20, 20 + 20);
    assert_true(counts(&w).rate_limited > 0);
    assert_in_range(counts(&w).requested[NC_CONTROL_SET_TIMESTAMP], 20, 40);
    (void)world_pass(&w, 5 * WORLD_SEC);
    /* It holds up nobody else. */
    expect(world_claim(&w, "c2", "n2", ""), "");
    assert_non_null(
        strstr(world_node(&w, "n2", world_status(&w, "spot", 120)), "set-timestamp c2 "));
    world_close(&w);
}

static void test_held_writes_come_later(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ",\"deletionTimestamp\":\"2026-11-22T01:00:00Z\""), "");
    for (int64_t i = 0; i < 20; i++) {
        (void)world_node(&w, "n1", world_status(&w, "spot", 3000 - 2 * i));
        assert_int_equal(w.n_ids, 1);
        (void)world_answer(&w, w.ids[0], NC_CONTROL_DONE);
    }
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), "");
    assert_int_equal(counts(&w).rate_limited, 1);
    expect(world_pass(&w, 5 * WORLD_SEC - 1), "");
    expect(world_claim(&w, "c1", "n1", ",\"deletionTimestamp\":\"2026-11-22T01:00:00Z\""), "");
    expect(world_pass(&w, 1), "set-timestamp c1 " T105 "\n");
    assert_int_equal(counts(&w).rate_limited, 1); /* one write, however often it was checked */
    world_close(&w);
}

static void test_invalid_status_reported_once(void **state) {
    struct world w;
    size_t n = 0;

    (void)state;
    world_open(&w);
    expect(world_node(&w, "n1", "{\"source\":7}"), "event InvalidDrainStatus Node n1\n");
    expect(world_node(&w, "n1", "{\"source\":7}"), ""); /* the same, seen again */
    expect(world_node(&w, "n1", NULL), "");
    assert_int_equal(counts(&w).invalid_drain_statuses, 1);
    for (int i = 0; i < 100; i++) {
        nc_auto_free char *status = nc_asprintf("garbage %d", i);
        n += lines_with(world_node(&w, "n1", status), "event ");
    }
    assert_int_equal(n, 0); /* said a moment ago */
    assert_int_equal(counts(&w).invalid_drain_statuses, 101);
    /* What its Node says costs the claim nothing. */
    notice(&w);
    world_close(&w);
}

static void test_only_a_leader_emits_events(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_lead(&w, false), "");
    expect(world_node(&w, "n1", "garbage"), "");
    expect(world_lead(&w, true), "event InvalidDrainStatus Node n1\n");
    world_close(&w);
}

/* ---- every cell of event and state is defined */

static void test_nonsense_events(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w);
    expect(world_answer(&w, 77, NC_CONTROL_DONE), "");
    expect(world_answer(&w, 0, NC_CONTROL_DONE), "");
    expect(world_answer(&w, 1, (enum nc_control_answer)0), "");
    expect(world_answer(&w, 1, (enum nc_control_answer)9), "");
    expect(world_event(&w, (struct nc_control_event){.kind = NC_CONTROL_SEEN}), "");
    expect(world_event(&w, (struct nc_control_event){.kind = NC_CONTROL_GONE}), "");
    expect(world_event(&w, (struct nc_control_event){.kind = NC_CONTROL_RULES}), "");
    expect(world_event(&w, (struct nc_control_event){.kind = _NC_CONTROL_EVENT_MAX}), "");
    expect(world_event(&w, (struct nc_control_event){.kind = NC_CONTROL_SEEN,
                                                     .what = _NC_CONTROL_KIND_MAX}),
           "");
    expect(world_gone(&w, NC_CONTROL_POOL, "p1", ""), "");  /* only the claim names it */
    expect(world_gone(&w, NC_CONTROL_CLAIM, "c1", ""), ""); /* while its write is in flight */
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "");
    assert_int_equal(counts(&w).in_flight, 0);
    world_close(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_write_of_an_object),
        cmocka_unit_test(test_waits_for_the_watch),
        cmocka_unit_test(test_waits_for_the_watch_by_version),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_own_write_is_no_news),
        cmocka_unit_test(test_pauses_begin_anew),
        cmocka_unit_test(test_accepted_ends_the_row),
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_conflict_waits_for_the_watch),
        cmocka_unit_test(test_concurrency),
        cmocka_unit_test(test_thousand_notices),
        cmocka_unit_test(test_relist_of_ten_thousand),
        cmocka_unit_test(test_a_quarter_for_relays),
        cmocka_unit_test(test_deletion_counts_at_once),
        cmocka_unit_test(test_lowest_concurrency),
        cmocka_unit_test(test_standalone_waits_for_its_lists),
        cmocka_unit_test(test_without_standalone),
        cmocka_unit_test(test_relay_does_not_wait_for_pools),
        cmocka_unit_test(test_rate_limit),
        cmocka_unit_test(test_held_writes_come_later),
        cmocka_unit_test(test_invalid_status_reported_once),
        cmocka_unit_test(test_only_a_leader_emits_events),
        cmocka_unit_test(test_nonsense_events),
    };

    return run_group(tests, NULL, NULL);
}
