/*
 * The time of a claim that is being deleted, copied to its Node: when, how often, for whom. Rule
 * C20.
 */
#include "control-world.h"
#include "groups.h"

#include <string.h>

#define T1 "2026-11-22T02:05:00Z"
#define T2 "2026-11-22T02:10:00Z"
#define EARLIER "2026-11-22T02:04:00Z"
#define PATCH "patch-node n1\n"

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

/* Node n1; `owner`: the claim that owns it; `copy`: of which uid and time its annotation is. NULL =
 * none. */
static const char *see_node(struct world *w, const char *owner, const char *copy_of,
                            const char *time) {
    nc_auto_free char *owners =
        owner ? nc_asprintf(",\"ownerReferences\":[{\"apiVersion\":\"karpenter.sh/v1\",\"kind\":"
                            "\"NodeClaim\",\"name\":\"x\",\"uid\":\"%s\"}]",
                            owner)
              : nc_strdup("");
    nc_auto_free char *copy =
        copy_of ? nc_asprintf(",\"annotations\":{\"nodeclaimd.io/termination-deadline\":\"{"
                              "\\\"id\\\":\\\"claim-%s\\\",\\\"mode\\\":\\\"deadline\\\","
                              "\\\"deadline\\\":\\\"%s\\\"}\"}",
                              copy_of, time)
                : nc_strdup("");
    nc_auto_free char *json =
        nc_asprintf("{\"metadata\":{\"name\":\"n1\",\"uid\":\"uid-n1\",\"creationTimestamp\":"
                    "\"2026-11-22T01:00:00Z\"%s%s}}",
                    owners, copy);

    return world_see(w, NC_CONTROL_NODE, json);
}

static const char *see_claim(struct world *w, const char *node, const char *time, bool is_deleted) {
    nc_auto_free char *more = nc_asprintf(
        "%s%s%s%s",
        time ? ",\"annotations\":{\"karpenter.sh/nodeclaim-termination-timestamp\":\"" : "",
        time ? time : "", time ? "\"}" : "",
        is_deleted ? ",\"deletionTimestamp\":\"2026-11-22T02:00:00Z\"" : "");

    return world_claim(w, "c1", node, more);
}

static void test_copied_once_it_is_deleted(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(see_node(&w, "uid-c1", NULL, NULL), "");
    expect(see_claim(&w, "n1", NULL, false), "");
    expect(see_claim(&w, "n1", T1, false), ""); /* it lives: the time may be taken back */
    expect(see_claim(&w, "n1", T1, true), PATCH);
    expect(w.body,
           "{\"metadata\":{\"resourceVersion\":\"100\",\"uid\":\"uid-n1\",\"annotations\":{"
           "\"nodeclaimd.io/termination-deadline\":\"{\\\"id\\\":\\\"claim-uid-c1\\\",\\\"mode\\\":"
           "\\\"deadline\\\",\\\"deadline\\\":\\\"" T1 "\\\"}\"}}}");
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "");
    expect(see_node(&w, "uid-c1", "uid-c1", T1), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

static void test_only_ever_earlier(void **state) {
    static const struct {
        const char *of, *copied, *time;
        bool is_written;
    } rows[] = {
        {"uid-c1", T1, T1, false},     {"uid-c1", T1, T2, false},
        {"uid-c1", T1, EARLIER, true}, {"uid-c2", EARLIER, T1, true}, /* another claim's */
        {"uid-c1", "soon", T1, true},                                 /* cannot be read */
        {"uid-c1", T1, NULL, false},   {"uid-c1", T1, "soon", false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        world_open(&w);
        expect(see_node(&w, "uid-c1", rows[i].of, rows[i].copied), "");
        expect(see_claim(&w, "n1", rows[i].time, true), rows[i].is_written ? PATCH : "");
        world_close(&w);
    }
}

/* A time that has passed is copied as it is: Karpenter acts by it, too. */
static void test_time_that_has_passed(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(see_node(&w, "uid-c1", NULL, NULL), "");
    expect(see_claim(&w, "n1", "2026-11-21T02:00:00Z", true), PATCH);
    world_close(&w);
}

/* By what a node cannot choose: the claim names the Node. What it says of its owner only ever makes
 * it lose its own copy. */
static void test_its_own_claim_only(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(see_claim(&w, "n2", T1, true), "");
    expect(see_node(&w, "uid-c1", NULL, NULL), "");
    expect(see_claim(&w, "n1", T1, true), PATCH);
    world_close(&w);
    world_open(&w);
    expect(see_claim(&w, "n1", T1, true), "");
    expect(see_node(&w, "uid-c2", NULL, NULL), "");
    expect(see_node(&w, NULL, NULL, NULL), "");
    expect(see_node(&w, "uid-c1", NULL, NULL), PATCH);
    world_close(&w);
}

/* The relay's time is the node's own; once it says it no more, the claim's end stays. */
static void test_what_the_node_said_itself(void **state) {
    static const char owned[] =
        "{\"metadata\":{\"name\":\"n1\",\"uid\":\"uid-n1\",\"creationTimestamp\":"
        "\"2026-11-22T01:00:00Z\",\"ownerReferences\":[{\"apiVersion\":\"karpenter.sh/v1\","
        "\"kind\":\"NodeClaim\",\"name\":\"x\",\"uid\":\"uid-c1\"}],\"annotations\":{"
        "\"nodeclaimd.io/drain-status\":\"{\\\"id\\\":\\\"s\\\",\\\"source\\\":\\\"spot\\\","
        "\\\"phase\\\":\\\"Detected\\\",\\\"deadline\\\":\\\"2026-11-22T02:02:00Z\\\"}\"}}}";
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_see(&w, NC_CONTROL_NODE, owned), "");
    expect(see_claim(&w, "n1", "2026-11-22T02:01:45Z", true), "");
    expect(see_node(&w, "uid-c1", NULL, NULL), PATCH);
    world_close(&w);
}

/* Without Karpenter the drain request has the time; and who runs here must be known. */
static void test_beside_karpenter_alone(void **state) {
    static const enum nc_control_mode modes[] = {NC_CONTROL_MODE_UNKNOWN, NC_CONTROL_STANDALONE};
    struct world w;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(modes); i++) {
        world_open(&w);
        expect(world_mode(&w, modes[i]), "");
        expect(see_node(&w, "uid-c1", NULL, NULL), "");
        expect(see_claim(&w, "n1", T1, true), "");
        world_close(&w);
    }
}

static void test_only_a_leader(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_lead(&w, false), "");
    expect(see_node(&w, "uid-c1", NULL, NULL), "");
    expect(see_claim(&w, "n1", T1, true), "");
    expect(world_lead(&w, true), PATCH);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_CONFLICT), ""); /* another leader was faster */
    expect(see_node(&w, "uid-c1", "uid-c1", EARLIER), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copied_once_it_is_deleted),
        cmocka_unit_test(test_only_ever_earlier),
        cmocka_unit_test(test_time_that_has_passed),
        cmocka_unit_test(test_its_own_claim_only),
        cmocka_unit_test(test_what_the_node_said_itself),
        cmocka_unit_test(test_beside_karpenter_alone),
        cmocka_unit_test(test_only_a_leader),
    };

    return run_group(tests, NULL, NULL);
}
