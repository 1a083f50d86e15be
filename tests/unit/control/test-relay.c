/*
 * From a drain status to its NodeClaim: what is relayed, in which order, how often, and to whom.
 * Rules C1, C2, C4 to C7.
 */
#include "control-world.h"
#include "groups.h"

#include "nc/str.h"

#define T105 "2026-11-22T02:01:45Z" /* 120 s ahead, less the margin of 15 s */
#define SAID "event InterruptionRelayed NodeClaim c1\n"

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

/* Node n1 with claim c1 that says that it goes in 120 s. */
static void notice(struct world *w, const char *wanted) {
    expect(world_claim(w, "c1", "n1", ""), "");
    expect(world_node(w, "n1", NULL), "");
    expect(world_node(w, "n1", world_status(w, "spot", 120)), wanted);
}

static void test_timestamp_then_delete(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w, "set-timestamp c1 " T105 "\n");
    expect(world_pass(&w, 2 * WORLD_SEC), ""); /* the DELETE waits for the answer */
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "delete-claim c1\n");
    expect(world_answer(&w, 2, NC_CONTROL_DONE), SAID);
    expect(w.told,
           "Node n1 ends at 2026-11-22T02:02:00Z (spot): the NodeClaim is deleted by " T105);
    expect(world_claim(&w, "c1", "n1",
                       ",\"annotations\":{\"karpenter.sh/nodeclaim-termination-timestamp\":\"" T105
                       "\"},\"deletionTimestamp\":\"2026-11-22T02:00:00Z\""),
           "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

static void test_delete_first(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    w.rules.order = NC_CONTROL_DELETE_FIRST;
    expect(world_rules(&w), "");
    notice(&w, "delete-claim c1\n");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), SAID);
    expect(world_claim(&w, "c1", "n1", ",\"deletionTimestamp\":\"2026-11-22T02:00:00Z\""), "");
    expect(world_pass(&w, 4999999), "");
    expect(world_pass(&w, 1), "set-timestamp c1 " T105 "\n");
    expect(world_answer(&w, 2, NC_CONTROL_DONE), "");
    world_close(&w);
}

static void test_which_statuses(void **state) {
    static const struct {
        const char *source;
        int64_t in_sec;
        bool is_relayed;
    } rows[] = {
        {"spot", 120, true},           {"maintenance", 900, true}, {"rebalance", 120, false},
        {"autoscaling", 120, false},   {"request", 120, false},    {"operator", 120, false},
        {"deletion", 120, false},      {"shutdown", 120, false},   {"", 120, false},
        {"later-release", 120, false}, {"spot", 3600, true},       {"spot", 3601, false},
        {"spot", -600, true},          {"spot", -601, false},      {"spot", 0, true},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        world_open(&w);
        expect(world_claim(&w, "c1", "n1", ""), "");
        const char *got = world_node(&w, "n1", world_status(&w, rows[i].source, rows[i].in_sec));
        assert_int_equal(nc_starts_with(got, "set-timestamp c1 "), rows[i].is_relayed);
        assert_int_equal(got[0] != '\0', rows[i].is_relayed);
        world_close(&w);
    }
}

static void test_no_deadline_no_relay(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_node(&w, "n1", "{\"source\":\"spot\",\"phase\":\"Detected\",\"deadline\":null}"),
           "");
    expect(world_node(&w, "n1", "{\"source\":\"spot\",\"phase\":\"\",\"deadline\":\"" T105 "\"}"),
           "");
    world_close(&w);
}

/* Maintenance is told as soon as it is known and acted on shortly before; and who set `report`
 * wants nothing to happen. */
static void test_what_is_only_reported(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_node(&w, "n1",
                      "{\"source\":\"maintenance\",\"policy\":\"report\",\"phase\":\"Detected\","
                      "\"deadline\":\"" T105 "\"}"),
           "");
    const char *got = world_node(&w, "n1",
                                 "{\"source\":\"maintenance\",\"phase\":\"Cordoned\","
                                 "\"deadline\":\"" T105 "\"}");
    assert_true(nc_starts_with(got, "set-timestamp c1 "));
    world_close(&w);
}

/* `cordon`, `drain.mode: observe`, and a machine that comes back: nothing of the claim ends. */
static void test_what_is_not_drained(void **state) {
    static const struct {
        const char *says;
        bool is_relayed;
    } rows[] = {
        {"\"policy\":\"cordon\",", false},
        {"\"policy\":\"ignore\",", false},
        {"\"policy\":\"later-release\",", false},
        {"\"policy\":\"drain\",", true},
        {"\"policy\":\"drain\",\"returns\":true,", false},
        {"\"returns\":false,", true},
        {"\"returns\":\"no\",", false}, /* cannot be read */
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        world_open(&w);
        expect(world_claim(&w, "c1", "n1", ""), "");
        nc_auto_free char *status =
            nc_asprintf("{\"source\":\"spot\",%s\"phase\":\"Cordoned\",\"deadline\":\"" T105 "\"}",
                        rows[i].says);
        assert_int_equal(nc_starts_with(world_node(&w, "n1", status), "set-timestamp c1 "),
                         rows[i].is_relayed);
        world_close(&w);
    }
}

static void test_far_deadline_in_its_time(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_node(&w, "n1", world_status(&w, "maintenance", 7200)), "");
    expect(world_pass(&w, 3600 * WORLD_SEC - 1), "");
    expect(world_pass(&w, 1), "set-timestamp c1 2026-11-22T03:59:45Z\n");
    world_close(&w);
}

/* As the agent: a late notice is not eaten by the margin, and what passes meanwhile moves nothing.
 */
static void test_margin_of_a_late_notice(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 20)),
           "set-timestamp c1 2026-11-22T02:00:17Z\n");
    expect(world_pass(&w, 3 * WORLD_SEC), "");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "delete-claim c1\n");
    world_close(&w);
}

static void test_rounds_down(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    w.rules.margin_usec = 15 * WORLD_SEC + 1;
    expect(world_rules(&w), "");
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 130)),
           "set-timestamp c1 2026-11-22T02:01:54Z\n");
    world_close(&w);
}

static const char *stamped(const char *time) {
    static char text[160];

    (void)snprintf(text, sizeof(text),
                   ",\"annotations\":{\"karpenter.sh/nodeclaim-termination-timestamp\":\"%s\"}",
                   time);
    return text;
}

static void test_timestamp_that_is_there(void **state) {
    static const struct {
        const char *there, *wanted;
    } rows[] = {
        {T105, "delete-claim c1\n"},
        {"2026-11-22T02:01:44Z", "delete-claim c1\n"},
        {"2026-11-22T02:01:46Z", "set-timestamp c1 " T105 "\n"},
        {"2026-11-22T01:01:45-01:00", "delete-claim c1\n"}, /* the same, in another zone */
        {"soon", "set-timestamp c1 " T105 "\n"},
        {"", "set-timestamp c1 " T105 "\n"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        world_open(&w);
        expect(world_claim(&w, "c1", "n1", stamped(rows[i].there)), "");
        expect(world_node(&w, "n1", world_status(&w, "spot", 120)), rows[i].wanted);
        world_close(&w);
    }
}

static void test_deleted_by_somebody(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ",\"deletionTimestamp\":\"2026-11-22T01:59:00Z\""), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), "set-timestamp c1 " T105 "\n");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), SAID);
    world_close(&w);
}

static void test_never_a_second_delete(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w, "set-timestamp c1 " T105 "\n");
    (void)world_answer(&w, 1, NC_CONTROL_DONE);
    expect(world_answer(&w, 2, NC_CONTROL_DONE), SAID);
    /* The watch shows it without a deletion, the drain status changes, leadership goes and comes.
     */
    expect(world_claim(&w, "c1", "n1", stamped(T105)), "");
    expect(world_pass(&w, 60 * WORLD_SEC), "");
    expect(world_node(&w, "n1", NULL), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 60)), "");
    expect(world_lead(&w, false), "");
    expect(world_lead(&w, true), "");
    /* Another claim of this name is another one; a minute is left of the notice. */
    expect(world_gone(&w, NC_CONTROL_CLAIM, "c1", "uid-c1"), "");
    expect(world_claim(&w, "c1", "n1", ""), "set-timestamp c1 2026-11-22T02:01:50Z\n");
    world_close(&w);
}

/* The watch may have missed that it went. */
static void test_another_of_the_same_name(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w, "set-timestamp c1 " T105 "\n");
    (void)world_answer(&w, 1, NC_CONTROL_DONE);
    expect(world_answer(&w, 2, NC_CONTROL_DONE), SAID);
    w.rv--; /* even of the same version */
    expect(world_see(&w, NC_CONTROL_CLAIM,
                     "{\"metadata\":{\"name\":\"c1\",\"uid\":\"another\"},\"status\":{\"nodeName\":"
                     "\"n1\"}}"),
           "set-timestamp c1 " T105 "\n");
    world_close(&w);
}

static void test_withdrawn_before_delete(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w, "set-timestamp c1 " T105 "\n");
    expect(world_node(&w, "n1", NULL), "");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "");
    /* What we set is taken back as soon as it is seen, once. */
    expect(world_claim(&w, "c1", "n1", stamped(T105)), "set-timestamp c1 (null)\n");
    expect(world_answer(&w, 2, NC_CONTROL_DONE), "");
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

static void test_a_timestamp_of_others_stays(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", stamped(T105)), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), "delete-claim c1\n");
    expect(world_answer(&w, 1, NC_CONTROL_UNAVAILABLE), "");
    expect(world_node(&w, "n1", NULL), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* What the leader before us, who died between the termination timestamp and the DELETE, has left on
 * a claim. */
static const char *left(const char *timestamp, const char *record) {
    static char text[256];

    (void)snprintf(text, sizeof(text),
                   ",\"annotations\":{\"karpenter.sh/nodeclaim-termination-timestamp\":\"%s\","
                   "\"nodeclaimd.io/stamped\":\"%s\"}",
                   timestamp, record);
    return text;
}

static void begin_in_the_middle(struct world *w, const char *status) {
    world_open_raw(w);
    expect(world_mode(w, NC_CONTROL_KARPENTER), "");
    expect(world_lead(w, true), "");
    expect(world_claim(w, "c1", "n1", left(T105, T105)), "");
    expect(world_synced(w, NC_CONTROL_CLAIM), ""); /* its Node may still say so, or no more */
    expect(world_node(w, "n1", status), "");
}

static void test_the_next_leader_ends_what_was_begun(void **state) {
    struct world w;

    (void)state;
    world_open_raw(&w); /* the clock that the drain status is made by */
    const char *status = world_status(&w, "spot", 120);
    world_close(&w);
    begin_in_the_middle(&w, status);
    expect(world_synced(&w, NC_CONTROL_NODE), "delete-claim c1\n");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), SAID);
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* The drain status was withdrawn while nobody led: the termination timestamp would be the hard end
 * of whatever deletes the claim later. */
static void test_the_next_leader_takes_back_what_was_withdrawn(void **state) {
    struct world w;

    (void)state;
    begin_in_the_middle(&w, NULL);
    expect(world_synced(&w, NC_CONTROL_NODE), "set-timestamp c1 (null)\n");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "");
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* Standalone a claim that has not registered finds its Node only once EC2 has told its name: until
 * then the Node is not known, and states nothing. */
static void test_the_next_leader_waits_for_the_node(void **state) {
    struct world w;

    (void)state;
    world_open_raw(&w);
    expect(world_mode(&w, NC_CONTROL_KARPENTER), "");
    expect(world_lead(&w, true), "");
    expect(world_claim(&w, "c1", "n1", left(T105, T105)), "");
    expect(world_synced(&w, NC_CONTROL_CLAIM), "");
    expect(world_synced(&w, NC_CONTROL_NODE), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    expect(world_node(&w, "n1", NULL), "set-timestamp c1 (null)\n");
    world_close(&w);
}

/* One without our record, or of another time than it, is somebody else's; and so is none of ours
 * on a claim that is deleted. */
static void test_the_next_leader_leaves_what_is_not_ours(void **state) {
    static const struct {
        const char *timestamp, *record, *more;
    } rows[] = {
        {T105, "2026-11-22T02:01:44Z", ""},
        {T105, "soon", ""},
        {T105, "", ""},
        {"soon", "soon", ""},
        {T105, T105, ",\"deletionTimestamp\":\"2026-11-22T02:00:00Z\""},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        nc_auto_free char *more =
            nc_asprintf("%s%s", left(rows[i].timestamp, rows[i].record), rows[i].more);
        print_message("# row %zu\n", i);
        world_open(&w);
        expect(world_node(&w, "n1", NULL), "");
        expect(world_claim(&w, "c1", "n1", more), "");
        expect(world_pass(&w, 3600 * WORLD_SEC), "");
        world_close(&w);
    }
}

static void refuse_timestamp(struct world *w) {
    world_open(w);
    notice(w, "set-timestamp c1 " T105 "\n");
    expect(world_answer(w, 1, NC_CONTROL_REFUSED),
           "event RelayRefused NodeClaim c1\ndelete-claim c1\n");
}

static void test_refused_timestamp(void **state) {
    struct world w;

    (void)state;
    refuse_timestamp(&w);
    expect(world_answer(&w, 2, NC_CONTROL_DONE), SAID "set-timestamp c1 " T105 "\n");
    expect(w.told,
           "Node n1 ends at 2026-11-22T02:02:00Z (spot): the NodeClaim is deleted without a time");
    expect(world_answer(&w, 3, NC_CONTROL_REFUSED), "");
    world_close(&w);
}

static void test_both_refused(void **state) {
    struct world w;

    (void)state;
    refuse_timestamp(&w);
    expect(world_event(&w, (struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                                     .id = 2,
                                                     .answer = NC_CONTROL_REFUSED,
                                                     .message = "HTTP 403: no; ask for it"}),
           "event RelayRefused NodeClaim c1\n");
    assert_string_equal(w.told, "The API server refuses the deletion of this NodeClaim: its "
                                "interruption is relayed later, or not at all: HTTP 403: no; ask "
                                "for it");
    world_close(&w);
}

static void test_refused_delete(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w, "set-timestamp c1 " T105 "\n");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "delete-claim c1\n");
    expect(world_answer(&w, 2, NC_CONTROL_REFUSED), "event RelayRefused NodeClaim c1\n");
    expect(world_claim(&w, "c1", "n1", stamped(T105)), "");
    expect(world_pass(&w, 200000), "delete-claim c1\n");
    expect(world_answer(&w, 3, NC_CONTROL_REFUSED), ""); /* said once */
    world_close(&w);
}

static void test_timestamp_unavailable_too_long(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w, "set-timestamp c1 " T105 "\n");
    for (uint64_t id = 1; id < 4; id++) {
        expect(world_answer(&w, id, NC_CONTROL_UNAVAILABLE), "");
        expect(world_pass(&w, 2 * WORLD_SEC), "set-timestamp c1 " T105 "\n");
    }
    expect(world_answer(&w, 4, NC_CONTROL_UNAVAILABLE), "delete-claim c1\n");
    world_close(&w);
}

static void test_missing_ends_with_the_watch(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w, "set-timestamp c1 " T105 "\n");
    expect(world_answer(&w, 1, NC_CONTROL_MISSING), "");
    expect(world_gone(&w, NC_CONTROL_CLAIM, "c1", "uid-c1"), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* ---- who belongs to whom */

static void test_its_own_claim_only(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c2", "n2", ""), "");
    expect(world_claim(&w, "c3", NULL, ""), "");
    expect(world_node(&w, "n2", NULL), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), "");        /* has no claim */
    expect(world_claim(&w, "c1", "n1", ""), "set-timestamp c1 " T105 "\n"); /* now it has */
    expect(world_gone(&w, NC_CONTROL_NODE, "n1", "uid-n1"), "");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), ""); /* no Node, no drain status */
    world_close(&w);
}

static const char *owned_node(struct world *w, const char *owner) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"n1\",\"uid\":\"uid-n1\",\"ownerReferences\":[{\"apiVersion\":"
        "\"karpenter.sh/v1\",\"kind\":\"NodeClaim\",\"name\":\"x\",\"uid\":\"%s\"}],"
        "\"annotations\":{\"nodeclaimd.io/drain-status\":\"{\\\"source\\\":\\\"spot\\\","
        "\\\"phase\\\":\\\"Detected\\\",\\\"deadline\\\":\\\"2026-11-22T02:02:00Z\\\"}\"}}}",
        owner);

    return world_see(w, NC_CONTROL_NODE, json);
}

static void test_two_claims_of_one_node(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_claim(&w, "c2", "n1", ""), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), ""); /* which? */
    expect(owned_node(&w, "uid-c2"), "set-timestamp c2 " T105 "\n");
    world_close(&w);
}

static void test_owned_by_another(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(owned_node(&w, "uid-of-before"), "");
    expect(owned_node(&w, "uid-c1"), "set-timestamp c1 " T105 "\n");
    world_close(&w);
}

static const char *bare_node(struct world *w, const char *created, const char *more) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"n1\",\"uid\":\"uid-n1\",\"creationTimestamp\":\"%s\","
        "\"annotations\":"
        "{\"nodeclaimd.io/drain-status\":\"{\\\"source\\\":\\\"spot\\\",\\\"phase\\\":\\\"Detected"
        "\\\",\\\"deadline\\\":\\\"2026-11-22T02:02:00Z\\\"}\"}}%s}",
        created, more);

    return world_see(w, NC_CONTROL_NODE, json);
}

/* A name comes again with another machine, and nothing owns the Node yet. */
static void test_name_of_another_machine(void **state) {
    static const char registered[] =
        "{\"metadata\":{\"name\":\"c1\",\"uid\":\"uid-c1\"},\"status\":{\"nodeName\":\"n1\","
        "\"providerID\":\"aws:///a/"
        "i-1\",\"conditions\":[{\"type\":\"Registered\",\"status\":\"True\","
        "\"lastTransitionTime\":\"2026-11-22T01:00:00Z\"}]}}";
    static const struct {
        const char *created, *more;
        bool is_relayed;
    } rows[] = {
        {"2026-11-22T00:59:50Z", "", true}, /* was there when the claim was registered */
        {"2026-11-22T01:00:30Z", "", true}, /* by clocks that differ */
        {"2026-11-22T01:00:31Z", "", false},
        {"2026-11-22T01:00:31Z", ",\"spec\":{\"providerID\":\"aws:///a/i-1\"}", true},
        {"2026-11-22T00:59:50Z", ",\"spec\":{\"providerID\":\"aws:///a/i-2\"}", false},
        {"2026-11-22T00:59:50Z", ",\"spec\":{\"providerID\":\"\"}", true},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        world_open(&w);
        expect(world_see(&w, NC_CONTROL_CLAIM, registered), "");
        assert_int_equal(
            nc_starts_with(bare_node(&w, rows[i].created, rows[i].more), "set-timestamp c1 "),
            rows[i].is_relayed);
        world_close(&w);
    }
}

static void test_one_claim_goes(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_claim(&w, "c2", "n1", ""), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), "");
    expect(world_gone(&w, NC_CONTROL_CLAIM, "c1", "another-uid"), ""); /* not this one */
    expect(world_gone(&w, NC_CONTROL_CLAIM, "c1", ""), "set-timestamp c2 " T105 "\n");
    world_close(&w);
}

static const char *machine(struct world *w, const char *name) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"%s\",\"uid\":\"uid-%s\",\"finalizers\":["
        "\"karpenter.sh/termination\"],\"annotations\":{\"nodeclaimd.io/drain-status\":\"{"
        "\\\"source\\\":\\\"spot\\\",\\\"phase\\\":\\\"Detected\\\",\\\"deadline\\\":"
        "\\\"2026-11-22T02:02:00Z\\\"}\"}},\"spec\":{\"providerID\":\"aws:///a/i-1\"}}",
        name, name);

    return world_see(w, NC_CONTROL_NODE, json);
}

static const char unregistered[] = "{\"metadata\":{\"name\":\"c1\",\"uid\":\"uid-c1\","
                                   "\"finalizers\":[\"karpenter.sh/termination\"]"
                                   "},\"status\":{\"providerID\":\"aws:///a/i-1\"}}";

static void test_before_registration(void **state) {
    struct world w;

    (void)state;
    for (int is_standalone = 0; is_standalone < 2; is_standalone++) {
        world_open(&w);
        if (is_standalone) {
            expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
            for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++)
                expect(world_synced(&w, (enum nc_control_kind)k), "");
        }
        expect(world_see(&w, NC_CONTROL_CLAIM, unregistered), "");
        /* Beside Karpenter a providerID is no reason: a node can claim to be anybody. */
        expect(machine(&w, "n1"), is_standalone ? "set-timestamp c1 " T105 "\n" : "");
        world_close(&w);
    }
}

static void test_two_nodes_of_one_machine(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
    expect(machine(&w, "n1"), "");
    expect(machine(&w, "n2"), "");
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        expect(world_synced(&w, (enum nc_control_kind)k), "");
    expect(world_see(&w, NC_CONTROL_CLAIM, unregistered), "");
    expect(world_gone(&w, NC_CONTROL_NODE, "n1", "uid-n1"), "set-timestamp c1 " T105 "\n");
    world_close(&w);
}

/* ---- when we act */

static void test_lead_and_lists(void **state) {
    struct world w;

    (void)state;
    world_open_raw(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), "");
    expect(world_synced(&w, NC_CONTROL_NODE), "");
    expect(world_lead(&w, true), "");
    expect(world_synced(&w, NC_CONTROL_CLAIM),
           "set-timestamp c1 " T105 "\n"); /* whoever else is there */
    expect(world_lead(&w, false), "");
    assert_true(nc_control_next(w.c, w.now_usec) == UINT64_MAX);
    world_close(&w);
}

static void test_leader_lost_on_the_way(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w, "set-timestamp c1 " T105 "\n");
    expect(world_lead(&w, false), "");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), ""); /* changes nothing */
    expect(world_lead(&w, true), "set-timestamp c1 " T105 "\n");
    expect(world_answer(&w, 1, NC_CONTROL_DONE), "");
    expect(world_answer(&w, 2, NC_CONTROL_DONE), "delete-claim c1\n");
    world_close(&w);
}

/* The one before was killed between the two writes. */
static void test_next_leader_goes_on(void **state) {
    struct world w;

    (void)state;
    world_open_raw(&w);
    expect(world_claim(&w, "c1", "n1", stamped(T105)), "");
    expect(world_claim(&w, "c2", "n2", ",\"deletionTimestamp\":\"2026-11-22T02:00:00Z\""), "");
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), "");
    expect(world_synced(&w, NC_CONTROL_NODE), "");
    expect(world_synced(&w, NC_CONTROL_CLAIM), "");
    expect(world_lead(&w, true), "delete-claim c1\n");
    world_close(&w);
}

static void test_clock_set_back(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    notice(&w, "set-timestamp c1 " T105 "\n");
    expect(world_answer_with(&w, 1, NC_CONTROL_UNAVAILABLE, 60 * WORLD_SEC, NULL), "");
    w.now_usec -= 3000 * WORLD_SEC; /* the pause would be fifty minutes now */
    expect(world_tick(&w), "set-timestamp c1 " T105 "\n");
    world_close(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timestamp_then_delete),
        cmocka_unit_test(test_delete_first),
        cmocka_unit_test(test_which_statuses),
        cmocka_unit_test(test_no_deadline_no_relay),
        cmocka_unit_test(test_what_is_only_reported),
        cmocka_unit_test(test_what_is_not_drained),
        cmocka_unit_test(test_far_deadline_in_its_time),
        cmocka_unit_test(test_margin_of_a_late_notice),
        cmocka_unit_test(test_rounds_down),
        cmocka_unit_test(test_timestamp_that_is_there),
        cmocka_unit_test(test_deleted_by_somebody),
        cmocka_unit_test(test_never_a_second_delete),
        cmocka_unit_test(test_another_of_the_same_name),
        cmocka_unit_test(test_withdrawn_before_delete),
        cmocka_unit_test(test_the_next_leader_ends_what_was_begun),
        cmocka_unit_test(test_the_next_leader_takes_back_what_was_withdrawn),
        cmocka_unit_test(test_the_next_leader_waits_for_the_node),
        cmocka_unit_test(test_the_next_leader_leaves_what_is_not_ours),
        cmocka_unit_test(test_a_timestamp_of_others_stays),
        cmocka_unit_test(test_refused_timestamp),
        cmocka_unit_test(test_refused_delete),
        cmocka_unit_test(test_both_refused),
        cmocka_unit_test(test_timestamp_unavailable_too_long),
        cmocka_unit_test(test_missing_ends_with_the_watch),
        cmocka_unit_test(test_its_own_claim_only),
        cmocka_unit_test(test_two_claims_of_one_node),
        cmocka_unit_test(test_owned_by_another),
        cmocka_unit_test(test_name_of_another_machine),
        cmocka_unit_test(test_one_claim_goes),
        cmocka_unit_test(test_before_registration),
        cmocka_unit_test(test_two_nodes_of_one_machine),
        cmocka_unit_test(test_lead_and_lists),
        cmocka_unit_test(test_leader_lost_on_the_way),
        cmocka_unit_test(test_next_leader_goes_on),
        cmocka_unit_test(test_clock_set_back),
    };

    return run_group(tests, NULL, NULL);
}
