/*
 * Nodes whose instance is gone: the taint comes where EC2 says so, and nowhere else. Rules C16 to
 * C18.
 */
#include "control-world.h"
#include "groups.h"
#include "nc/names.h"
#include "nc/str.h"

#define ID "i-0123456789abcdef0"
#define OTHER "i-0123456789abcdef1"
#define ZONE "aws:///us-west-2a/"
#define OURS                                                                                       \
    "{\"key\":\"node.kubernetes.io/out-of-service\",\"value\":\"nodeclaimd\",\"effect\":\"NoExe"   \
    "cute\"}"
#define UNREACHABLE                                                                                \
    "{\"key\":\"node.kubernetes.io/unreachable\",\"effect\":\"NoExecute\",\"timeAdded\":"          \
    "\"2026-11-22T01:59:00Z\"}"
#define ASKS "instance-state n1\n"
#define TAINTS "patch-node n1\n"

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

static void open_world(struct world *w) {
    world_open(w);
    w->rules.out_of_service = true;
    expect(world_rules(w), "");
}

struct node {
    const char *name, *ready, *provider, *taints, *more; /* NULL: n1, Unknown, ID, none, none */
};

static const char *see(struct world *w, struct node n) {
    const char *name = n.name ? n.name : "n1";
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"%s\",\"uid\":\"uid-%.*s\",\"creationTimestamp\":"
        "\"2026-11-22T00:00:00Z\"%s},\"spec\":{\"providerID\":\"%s\",\"taints\":[%s]},\"status\":{"
        "\"conditions\":[{\"type\":\"MemoryPressure\",\"status\":\"Unknown\"},{\"type\":\"Ready\","
        "\"status\":\"%s\",\"lastTransitionTime\":\"2026-11-22T01:58:00Z\"}]}}",
        name, (int)strcspn(name, "."), name, n.more ? n.more : "",
        n.provider ? n.provider : ZONE ID, n.taints ? n.taints : "", n.ready ? n.ready : "Unknown");

    return world_see(w, NC_CONTROL_NODE, json);
}

static const char *state_of(struct world *w) {
    static char text[32];
    nc_auto_value struct nc_value *report = nc_control_report(w->c, w->now_usec);

    (void)snprintf(text, sizeof(text), "%s", nc_value_get_string(report->items[0], "state"));
    return text;
}

static void test_gone(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct node){.ready = "True"}), "");
    expect(see(&w, (struct node){.taints = UNREACHABLE}), ASKS);
    expect(w.provider, ZONE ID);
    expect(state_of(&w), "");
    expect(world_answer_state(&w, w.ids[0], "terminated", NULL), TAINTS);
    expect(w.body, "{\"metadata\":{\"resourceVersion\":\"101\",\"uid\":\"uid-n1\"},\"spec\":{"
                   "\"taints\":[" UNREACHABLE "," OURS "]}}");
    expect(state_of(&w), "InstanceGone");
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "event InstanceGone Node n1\n");
    assert_non_null(strstr(w.told, ID));
    expect(see(&w, (struct node){.taints = UNREACHABLE "," OURS}), "");
    expect(state_of(&w), "InstanceGone");
    expect(world_pass(&w, 299 * WORLD_SEC), "");
    expect(world_pass(&w, 2 * WORLD_SEC), ASKS); /* still so? */
    expect(world_answer_state(&w, w.ids[0], "terminated", NULL), "");
    world_close(&w);
}

/* A Node that is being deleted, one whose condition has no time, one in another partition. */
static void test_others_that_are_gone(void **state) {
    static const struct node rows[] = {
        {.more = ",\"deletionTimestamp\":\"2026-11-22T01:59:00Z\",\"finalizers\":[\"x/y\"]"},
        {.provider = "aws:///cn-north-1a/i-01234567"},
        {.name = ID},
        {.name = ID ".us-west-2.compute.internal"},
        {.name = "i-am-a-name"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        open_world(&w);
        const char *said = see(&w, rows[i]);
        if (!nc_starts_with(said, "instance-state "))
            fail_msg("row %zu: %s", i, said);
        assert_true(
            nc_starts_with(world_answer_state(&w, w.ids[0], "terminated", NULL), "patch-node "));
        world_close(&w);
    }
}

static void test_not_requested(void **state) {
    static const struct node rows[] = {
        {.ready = "True"},
        {.ready = "False"}, /* a kubelet that posts */
        {.ready = "unknown"},
        {.ready = "Unknown\"},{\"type\":\"Ready\",\"status\":\"True"},
        {.provider = ""},
        {.provider = "gce:///us-west-2a/" ID},
        {.provider = "aws:///" ID},
        {.provider = "aws:////" ID},
        {.provider = "aws:///us-west-2a/us-west-2a/" ID},
        {.provider = "aws:///US/" ID},
        {.provider = ZONE "i-0123456789abcdef"},
        {.provider = ZONE "i-0123456789ABCDEF0"},
        {.provider = ZONE ID "&Action=TerminateInstances"},
        {.provider = ZONE ID " "},
        {.taints = "{\"key\":\"node.kubernetes.io/out-of-service\",\"value\":\"nodeshutdown\","
                   "\"effect\":\"NoExecute\"}"},
        {.taints = "7"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        open_world(&w);
        expect(see(&w, rows[i]), "");
        expect(world_pass(&w, 3600 * WORLD_SEC), "");
        expect(state_of(&w), "");
        world_close(&w);
    }
}

/* Every other state, however often, is no reason. */
static void test_other_states(void **state) {
    static const char *const states[] = {"pending", "running", "shutting-down", "stopping",
                                         "stopped"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(states); i++) {
        struct world w;
        uint64_t before = 0, pauses[7];
        open_world(&w);
        expect(see(&w, (struct node){0}), ASKS);
        for (size_t k = 0; k < NC_ARRAY_SIZE(pauses); k++) {
            expect(world_answer_state(&w, w.ids[0], states[i], NULL), "");
            before = w.now_usec;
            w.now_usec = nc_control_next(w.c, w.now_usec);
            pauses[k] = (w.now_usec - before) / WORLD_SEC;
            expect(world_tick(&w), ASKS);
        }
        assert_in_range(pauses[0], 15, 15);
        assert_in_range(pauses[1], 22, 30);
        assert_in_range(pauses[2], 45, 60);
        assert_in_range(pauses[6], 225, 300);
        expect(world_answer_state(&w, w.ids[0], "terminated", NULL), TAINTS);
        world_close(&w);
    }
}

/* What EC2 does not know may run elsewhere, or have been forgotten: it is never gone. */
static void test_unknown_to_ec2(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct node){0}), ASKS);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_MISSING), "event InstanceUnknown Node n1\n");
    for (int i = 0; i < 20; i++) {
        expect(world_pass(&w, 299 * WORLD_SEC), "");
        expect(world_pass(&w, WORLD_SEC), ASKS);
        expect(world_answer(&w, w.ids[0], NC_CONTROL_MISSING), "");
    }
    expect(state_of(&w), "");
    world_close(&w);
}

/* Ready again before the answer, and before the write. */
static void test_ready_meanwhile(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct node){0}), ASKS);
    const uint64_t id = w.ids[0];
    expect(see(&w, (struct node){.ready = "True"}), "");
    expect(world_answer_state(&w, id, "terminated", NULL), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);

    open_world(&w);
    expect(see(&w, (struct node){0}), ASKS);
    expect(world_answer_state(&w, w.ids[0], "terminated", NULL), TAINTS);
    const uint64_t write = w.ids[0];
    expect(see(&w, (struct node){.ready = "True"}), "");
    expect(world_answer(&w, write, NC_CONTROL_CONFLICT), ""); /* its resourceVersion was old */
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* An old answer is none: it is asked for again before the write. */
static void test_answer_that_is_old(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct node){0}), ASKS);
    expect(world_answer_state(&w, w.ids[0], "terminated", NULL), TAINTS);
    w.now_usec += 31 * WORLD_SEC;
    expect(world_answer(&w, w.ids[0], NC_CONTROL_UNAVAILABLE), "");
    expect(world_pass(&w, WORLD_SEC), ASKS);
    expect(world_answer_state(&w, w.ids[0], "running", NULL), "");
    world_close(&w);
}

static void test_back(void **state) {
    struct world w;

    (void)state;
    open_world(&w); /* another leader than that which set it */
    expect(see(&w, (struct node){.taints = OURS "," UNREACHABLE}), ASKS);
    expect(world_answer_state(&w, w.ids[0], "running", NULL), TAINTS);
    assert_non_null(strstr(w.body, "\"taints\":[" UNREACHABLE "]}"));
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "event InstanceBack Node n1\n");
    assert_non_null(strstr(w.told, "is running"));
    world_close(&w);

    open_world(&w);
    expect(see(&w, (struct node){.ready = "True", .taints = OURS}), TAINTS);
    assert_non_null(strstr(w.body, "\"taints\":[]}"));
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "event InstanceBack Node n1\n");
    assert_non_null(strstr(w.told, "Ready again"));
    expect(see(&w, (struct node){.ready = "True"}), "");
    expect(state_of(&w), "");
    world_close(&w);

    open_world(&w); /* it posts again, and is not ready: only EC2 can say that it runs */
    expect(see(&w, (struct node){.ready = "False", .taints = OURS}), ASKS);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_MISSING), ""); /* forgotten: it stays */
    expect(world_pass(&w, 301 * WORLD_SEC), ASKS);
    expect(world_answer_state(&w, w.ids[0], "stopped", NULL), TAINTS);
    world_close(&w);
}

/* One that is somebody else's stays, whatever becomes of the Node. */
static void test_not_ours(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct node){.ready = "True",
                                 .taints = "{\"key\":\"node.kubernetes.io/out-of-service\","
                                           "\"value\":\"nodeshutdown\",\"effect\":\"NoExecute\"}"}),
           "");
    expect(see(&w, (struct node){.taints = "{\"key\":\"node.kubernetes.io/out-of-service\","
                                           "\"value\":\"nodeclaimd\",\"effect\":\"NoSchedule\"}"}),
           ASKS);
    expect(world_answer_state(&w, w.ids[0], "terminated", NULL), TAINTS);
    assert_non_null(strstr(w.body, "\"NoSchedule\"},{"));
    world_close(&w);
}

/* ---- whose instance it is */

static const char *claim(struct world *w, const char *name, const char *provider) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"%s\",\"uid\":\"uid-%s\",\"creationTimestamp\":"
        "\"2026-11-22T00:00:00Z\"},\"status\":{\"nodeName\":\"n1\",\"providerID\":\"%s\"}}",
        name, name, provider);

    return world_see(w, NC_CONTROL_CLAIM, json);
}

static void test_claims(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(claim(&w, "c1", ZONE OTHER), "");
    expect(see(&w, (struct node){0}), "event InstanceMismatch Node n1\n");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    expect(see(&w, (struct node){0}), ""); /* told once */
    expect(claim(&w, "c1", ZONE ID), ASKS);
    const uint64_t id = w.ids[0];
    expect(claim(&w, "c2", ZONE ID), ""); /* whose it is cannot be told */
    expect(world_answer_state(&w, id, "terminated", NULL), "");
    expect(world_gone(&w, NC_CONTROL_CLAIM, "c2", ""), TAINTS);
    world_close(&w);

    open_world(&w); /* an owner that is not there */
    expect(claim(&w, "c1", ZONE ID), "");
    expect(see(&w, (struct node){.more = ",\"ownerReferences\":[{\"kind\":\"NodeClaim\","
                                         "\"apiVersion\":\"karpenter.sh/v1\",\"uid\":\"x\"}]"}),
           "event InstanceMismatch Node n1\n");
    world_close(&w);
}

static void test_names(void **state) {
    static const struct {
        const char *name, *dns;
        bool is_its_own;
    } rows[] = {
        {"ip-10-0-0-1.us-west-2.compute.internal", NULL, true},
        {"ip-10-0-0-1.us-west-2.compute.internal", "ip-10-0-0-1.us-west-2.compute.internal", true},
        {"ip-10-0-0-1.example.com", "IP-10-0-0-1.example.com", true},
        {"ip-10-0-0-1.us-west-2.compute.internal", "ip-10-0-0-2.us-west-2.compute.internal", false},
        {"ip-10-0-0-1", "ip-10-0-0-1.us-west-2.compute.internal", false},
        {ID ".us-west-2.compute.internal", "ip-10-0-0-1.us-west-2.compute.internal", true},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        open_world(&w);
        assert_true(nc_starts_with(see(&w, (struct node){.name = rows[i].name}), "instance-state"));
        const char *said = world_answer_state(&w, w.ids[0], "terminated", rows[i].dns);
        if (rows[i].is_its_own) {
            assert_true(nc_starts_with(said, "patch-node "));
        } else {
            assert_true(nc_starts_with(said, "event InstanceMismatch "));
            expect(state_of(&w), "");
            expect(world_pass(&w, 299 * WORLD_SEC), "");
            assert_true(nc_starts_with(world_pass(&w, WORLD_SEC), "instance-state"));
        }
        world_close(&w);
    }
}

static void test_named_by_another_id(void **state) {
    static const char *const names[] = {OTHER, OTHER ".us-west-2.compute.internal", "i-01234567"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++) {
        struct world w;
        open_world(&w);
        assert_true(nc_starts_with(see(&w, (struct node){.name = names[i]}),
                                   "event InstanceMismatch Node "));
        expect(world_pass(&w, 3600 * WORLD_SEC), "");
        world_close(&w);
    }
}

/* ---- when nothing is done */

static void test_off(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, (struct node){0}), "");
    expect(see(&w, (struct node){.taints = OURS}), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

static void test_who_may(void **state) {
    struct world w;

    (void)state;
    world_open_raw(&w);
    w.rules.out_of_service = true;
    expect(world_rules(&w), "");
    expect(world_mode(&w, NC_CONTROL_MODE_UNKNOWN), "");
    expect(see(&w, (struct node){0}), "");
    expect(world_synced(&w, NC_CONTROL_NODE), "");
    expect(world_lead(&w, true), ""); /* whose it is, is not known yet */
    expect(world_synced(&w, NC_CONTROL_CLAIM), ASKS);
    const uint64_t id = w.ids[0];
    expect(world_lead(&w, false), "");
    expect(world_answer_state(&w, id, "terminated", NULL), "");
    expect(world_lead(&w, true), ASKS);
    world_close(&w);

    world_open_raw(&w); /* NodeClaims are not installed */
    w.rules.out_of_service = true;
    expect(world_rules(&w), "");
    expect(
        world_event(&w, (struct nc_control_event){.kind = NC_CONTROL_MODE, .has_no_claims = true}),
        "");
    expect(world_lead(&w, true), "");
    expect(see(&w, (struct node){0}), "");
    expect(world_synced(&w, NC_CONTROL_NODE), ASKS);
    world_close(&w);
}

/* Without Karpenter the other half writes taints, too: each keeps what the other has written. */
static void test_standalone(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        expect(world_synced(&w, (enum nc_control_kind)k), "");
    expect(see(&w, (struct node){.taints = UNREACHABLE}), ASKS);
    expect(world_answer_state(&w, w.ids[0], "terminated", NULL), TAINTS);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "event InstanceGone Node n1\n");
    expect(see(&w, (struct node){.taints = UNREACHABLE "," OURS,
                                 .more = ",\"annotations\":{\"nodeclaimd.io/disrupted\":"
                                         "\"true\"}"}),
           TAINTS); /* the annotation of the other half is taken off: nothing drains */
    assert_non_null(strstr(w.body, "\"taints\":[" UNREACHABLE "," OURS "]"));
    world_close(&w);
}

/* ---- EC2 that denies, throttles, is slow */

static void test_denied(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct node){0}), ASKS);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_REFUSED), "");
    expect(see(&w, (struct node){.name = "n2", .provider = ZONE OTHER}), "");
    expect(world_status(&w, "spot", 120) ? world_claim(&w, "c3", "n3", "") : NULL, "");
    expect(world_node(&w, "n3", world_status(&w, "spot", 120)),
           "set-timestamp c3 2026-11-22T02:01:45Z\n"); /* nothing else waits */
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "delete-claim c3\n");
    (void)world_answer(&w, w.ids[0], NC_CONTROL_DONE);
    assert_null(strstr(world_pass(&w, 299 * WORLD_SEC), "instance-state"));
    expect(world_pass(&w, WORLD_SEC), "instance-state n1\ninstance-state n2\n");
    world_close(&w);
}

static void test_throttled(void **state) {
    struct world w;
    uint64_t last = 0;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct node){0}), ASKS);
    for (int i = 0; i < 12; i++) {
        const uint64_t now = w.now_usec;
        expect(world_answer(&w, w.ids[0], NC_CONTROL_UNAVAILABLE), "");
        w.now_usec = nc_control_next(w.c, w.now_usec);
        expect(world_tick(&w), ASKS);
        last = w.now_usec - now;
        assert_in_range(last, 15 * WORLD_SEC, 30 * WORLD_SEC);
    }
    assert_in_range(last, 22 * WORLD_SEC, 30 * WORLD_SEC);
    world_close(&w);
}

/* The API server refuses the taint: not again at once, and others are not held up. */
static void test_refused_write(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct node){0}), ASKS);
    expect(world_answer_state(&w, w.ids[0], "terminated", NULL), TAINTS);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_REFUSED), "");
    expect(world_pass(&w, 299 * WORLD_SEC), "");
    expect(world_pass(&w, WORLD_SEC), ASKS);
    world_close(&w);
}

/* A zone fails: a thousand Nodes at once, of which every third is gone. */
static void test_a_thousand(void **state) {
    const unsigned n = 1000;
    bool tainted[1000] = {false};
    unsigned in_flight = 0, most = 0, asked = 0;
    uint64_t queue[64];
    unsigned of[64], first = 0, end = 0;
    struct world w;

    (void)state;
    open_world(&w);
    for (unsigned i = 0; i < n; i++) {
        nc_auto_free char *name = nc_asprintf("n%u", i);
        nc_auto_free char *provider = nc_asprintf(ZONE "i-%08x", i);
        const char *said = see(&w, (struct node){.name = name, .provider = provider});
        assert_true(nc_streq(said, "") == (in_flight == 4));
        if (*said) {
            of[end % 64] = i;
            queue[end++ % 64] = w.ids[0];
            in_flight++;
        }
    }
    assert_int_equal(in_flight, 4);
    while (first < end) {
        const unsigned i = of[first % 64];
        char said[512];
        (void)snprintf(
            said, sizeof(said), "%s",
            world_answer_state(&w, queue[first % 64], i % 3 ? "running" : "terminated", NULL));
        first++;
        in_flight--;
        asked++;
        uint64_t ids[8];
        const size_t n_ids = w.n_ids;
        assert_true(n_ids <= NC_ARRAY_SIZE(ids));
        memcpy(ids, w.ids, n_ids * sizeof(*ids));
        char *rest = said, *line;
        for (size_t k = 0; (line = strsep(&rest, "\n")) && *line; k++) {
            unsigned which = 0;
            if (sscanf(line, "patch-node n%u", &which) == 1) {
                assert_int_equal(which % 3, 0);
                assert_false(tainted[which]);
                tainted[which] = true;
                (void)world_answer(&w, ids[k], NC_CONTROL_DONE);
            } else {
                assert_int_equal(sscanf(line, "instance-state n%u", &which), 1);
                of[end % 64] = which;
                queue[end++ % 64] = ids[k];
                in_flight++;
            }
        }
        most = in_flight > most ? in_flight : most;
    }
    assert_int_equal(asked, n);
    assert_int_equal(most, 4);
    for (unsigned i = 0; i < n; i++)
        assert_int_equal(tainted[i], i % 3 == 0);
    world_close(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_others_that_are_gone),
        cmocka_unit_test(test_not_requested),
        cmocka_unit_test(test_other_states),
        cmocka_unit_test(test_unknown_to_ec2),
        cmocka_unit_test(test_ready_meanwhile),
        cmocka_unit_test(test_answer_that_is_old),
        cmocka_unit_test(test_back),
        cmocka_unit_test(test_not_ours),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_named_by_another_id),
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_who_may),
        cmocka_unit_test(test_standalone),
        cmocka_unit_test(test_denied),
        cmocka_unit_test(test_throttled),
        cmocka_unit_test(test_refused_write),
        cmocka_unit_test(test_a_thousand),
    };

    return run_group(tests, NULL, NULL);
}
