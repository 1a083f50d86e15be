/*
 * The taint that keeps pods from a node until it is fit: by what it is removed, when it is put
 * back, what is said. Rules C21 to C24.
 */
#include "control-world.h"
#include "groups.h"

#include <string.h>

#include "nc/str.h"

#define OURS "{\"key\":\"nodeclaimd.io/unfit\",\"effect\":\"NoSchedule\"}"
#define OTHER "{\"key\":\"karpenter.sh/rebooting\",\"effect\":\"NoSchedule\"}"
#define GET "get-node n1\n"
#define PATCH "patch-node n1\n"

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

/* What a Node has: of the annotation, of the controller's record, of the rest. NULL = none. */
struct scene {
    const char *boot, *fit, *more; /* stated; more: members after a comma */
    const char *record;
    const char *condition, *boot_id, *taints; /* of the complete Node alone */
};

static char *render(const struct scene *s, const char *version, bool is_complete) {
    nc_auto_free char *fit =
        s->boot
            ? nc_asprintf("\"nodeclaimd.io/fit\":\"{\\\"boot\\\":\\\"%s\\\",\\\"fit\\\":%s%s}\"",
                          s->boot, s->fit, s->more ? s->more : "")
            : nc_strdup("");
    nc_auto_free char *record = s->record ? nc_asprintf("%s\"nodeclaimd.io/fit-boot\":\"%s\"",
                                                        s->boot ? "," : "", s->record)
                                          : nc_strdup("");
    nc_auto_free char *rest =
        is_complete ? nc_asprintf(
            ",\"spec\":{\"taints\":[%s]},\"status\":{\"nodeInfo\":{\"bootID\":\"%s\"},"
            "\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"},{\"type\":"
            "\"nodeclaimd.io/Fit\",\"status\":\"%s\"}]}",
            s->taints ? s->taints : "", s->boot_id ? s->boot_id : "",
            s->condition ? s->condition : "Unknown")
                    : nc_strdup("");

    return nc_asprintf("{\"metadata\":{\"name\":\"n1\",\"uid\":\"uid-n1\",\"creationTimestamp\":"
                       "\"%s\"%s,\"annotations\":{%s%s}}%s}",
                       s->boot ? "2026-11-22T01:00:00Z" : "2026-11-22T02:00:00Z", version, fit,
                       record, rest);
}

static const char *see(struct world *w, const struct scene *s) {
    nc_auto_free char *json = render(s, "", false);

    return world_see(w, NC_CONTROL_NODE, json);
}

static const char *read_node(struct world *w, const struct scene *s) {
    nc_auto_free char *json = render(s, ",\"resourceVersion\":\"77\"", true);

    return world_answer_with(w, w->ids[0], NC_CONTROL_DONE, 0, json);
}

static void test_removed_for_the_present_boot(void **state) {
    const struct scene s = {.boot = "b1",
                            .fit = "true",
                            .condition = "True",
                            .boot_id = "b1",
                            .taints = OTHER "," OURS};
    const struct scene after = {.boot = "b1", .fit = "true", .record = "b1"};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), GET);
    expect(read_node(&w, &s), PATCH);
    expect(w.body, "{\"metadata\":{\"uid\":\"uid-n1\",\"resourceVersion\":\"77\",\"annotations\":{"
                   "\"nodeclaimd.io/fit-boot\":\"b1\"}},\"spec\":{\"taints\":[" OTHER "]}}");
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "event UnfitTaintRemoved Node n1\n");
    expect(see(&w, &after), "");
    expect(world_pass(&w, 24 * 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* The statement alone opens nothing, nor does what was true of an earlier boot. */
static void test_what_does_not_bear_it_out(void **state) {
    static const struct scene rows[] = {
        {"b1", "true", NULL, NULL, "False", "b1", OURS},
        {"b1", "true", NULL, NULL, "Unknown", "b1", OURS},
        {"b1", "true", NULL, NULL, "True", "b0", OURS},
        {"b1", "true", NULL, NULL, "True", "", OURS},
        {"b1", "true", NULL, "b0", "True", "b0", OURS},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const struct scene good = {"b1", "true", NULL, NULL, "True", "b1", OURS};
        struct world w;
        world_open(&w);
        expect(see(&w, &rows[i]), GET);
        expect(read_node(&w, &rows[i]), "");
        expect(world_pass(&w, WORLD_SEC / 4), GET); /* the condition may come a moment later */
        expect(read_node(&w, &good), PATCH);
        world_close(&w);
    }
}

/* Never confirmed: it is read ever more seldom, and said once. */
static void test_never_borne_out(void **state) {
    const struct scene s = {"b1", "true", NULL, NULL, "False", "b1", OURS};
    unsigned reads = 0, events = 0;
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), GET);
    for (unsigned i = 0; i < 3600; i++) {
        if (w.n_ids) {
            reads++;
            events += strstr(read_node(&w, &s), "event UnfitTooLong Node n1\n") != NULL;
        }
        (void)world_pass(&w, WORLD_SEC);
    }
    assert_in_range(reads, 15, 30);
    assert_int_equal(events, 1);
    world_close(&w);
}

static void test_no_taint_nothing_to_do(void **state) {
    const struct scene s = {"b1", "true", NULL, NULL, "True", "b1", OTHER};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), GET);
    expect(read_node(&w, &s), "");
    expect(world_pass(&w, 24 * 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* A first boot that is not fit yet has its taint from its registration, or wants none. */
static void test_not_fit_on_the_first_boot(void **state) {
    const struct scene s = {.boot = "b1", .fit = "false"};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), "");
    expect(world_pass(&w, 24 * 3600 * WORLD_SEC), "");
    world_close(&w);
}

static void test_put_back_after_a_reboot(void **state) {
    const struct scene s = {"b2", "false", NULL, "b1", "True", "b1", OTHER};
    const struct scene after = {.boot = "b2", .fit = "false"};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), GET);
    expect(read_node(&w, &s), PATCH);
    expect(w.body, "{\"metadata\":{\"uid\":\"uid-n1\",\"resourceVersion\":\"77\",\"annotations\":{"
                   "\"nodeclaimd.io/fit-boot\":null}},\"spec\":{\"taints\":[" OTHER "," OURS "]}}");
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "event UnfitTaintRestored Node n1\n");
    expect(see(&w, &after), "");
    world_close(&w);
}

/* Fit once in this boot: whatever becomes of its DaemonSets, it stays open. */
static void test_stays_open_in_one_boot(void **state) {
    const struct scene s = {.boot = "b1", .fit = "false", .record = "b1"};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), "");
    expect(world_pass(&w, 24 * 3600 * WORLD_SEC), "");
    world_close(&w);
}

static void test_not_put_back_where_that_is_off(void **state) {
    const struct scene s = {"b2", "false", NULL, "b1", "True", "b1", ""};
    struct world w;

    (void)state;
    world_open(&w);
    w.rules.no_taint_after_reboot = true;
    expect(world_rules(&w), "");
    expect(see(&w, &s), "");
    world_close(&w);
}

#define UNTIL                                                                                      \
    ",\\\"reason\\\":\\\"DaemonSetsNotReady\\\",\\\"missing\\\":[\\\"kube-system/"                 \
    "ebs-csi-node\\\"],"                                                                           \
    "\\\"until\\\":\\\"2026-11-22T02:10:00Z\\\",\\\"then\\\":\\\"hold\\\""

static size_t overdue(struct world *w) {
    struct nc_control_counts n;

    nc_control_count(w->c, w->now_usec, &n);
    return n.unfit_overdue;
}

static void test_timeout_is_said(void **state) {
    const struct scene s = {"b1", "false", UNTIL, NULL, "False", "b1", OURS};
    const struct scene gone = {"b1", "false", UNTIL, NULL, "False", "b1", OTHER};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), "");
    expect(world_pass(&w, 599 * WORLD_SEC), "");
    expect(world_pass(&w, WORLD_SEC), GET);
    expect(read_node(&w, &s), "event UnfitTooLong Node n1\n");
    expect(w.told, "the taint nodeclaimd.io/unfit:NoSchedule is there after its timeout: "
                   "DaemonSetsNotReady: kube-system/ebs-csi-node. For pods to start without it: "
                   "kubectl taint node n1 nodeclaimd.io/unfit-");
    assert_int_equal(overdue(&w), 1);
    expect(world_pass(&w, 300 * WORLD_SEC), GET); /* is it there still? */
    expect(read_node(&w, &s), "");
    expect(world_pass(&w, 300 * WORLD_SEC), GET);
    expect(read_node(&w, &gone), "");
    assert_int_equal(overdue(&w), 0);
    expect(world_pass(&w, 24 * 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* What is new is not put off until the next time at which the old is read again. */
static void test_fit_after_its_timeout(void **state) {
    const struct scene s = {"b1", "false", UNTIL, NULL, "False", "b1", OURS};
    const struct scene fit = {"b1", "true", NULL, NULL, "True", "b1", OURS};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), "");
    expect(world_pass(&w, 600 * WORLD_SEC), GET);
    expect(read_node(&w, &s), "event UnfitTooLong Node n1\n");
    expect(see(&w, &fit), GET);
    expect(read_node(&w, &fit), PATCH);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "event UnfitTaintRemoved Node n1\n");
    assert_int_equal(overdue(&w), 0);
    world_close(&w);
}

static const char *see_gated_claim(struct world *w) {
    return world_see(w, NC_CONTROL_CLAIM,
                     "{\"metadata\":{\"name\":\"c1\",\"uid\":\"uid-c1\",\"creationTimestamp\":"
                     "\"2026-11-22T00:00:00Z\",\"finalizers\":[\"karpenter.sh/termination\"]},"
                     "\"spec\":{\"startupTaints\":[" OTHER "," OURS "]},"
                     "\"status\":{\"nodeName\":\"n1\"}}");
}

/* No agent at all: by the startup taint of its NodeClaim it is known that one was to come. */
static void test_no_agent_is_said(void **state) {
    const struct scene s = {.taints = OURS}, gone = {.taints = OTHER};
    const struct scene late = {"b1", "true", NULL, NULL, "True", "b1", OURS};
    struct world w;

    (void)state;
    for (unsigned comes = 0; comes < 3; comes++) { /* nobody, somebody who removes it, the agent */
        world_open(&w);
        expect(see(&w, &s), "");
        expect(see_gated_claim(&w), "");
        expect(world_pass(&w, 599 * WORLD_SEC), "");
        expect(world_pass(&w, WORLD_SEC), GET);
        expect(read_node(&w, &s), "event UnfitTooLong Node n1\n");
        expect(w.told,
               "the taint nodeclaimd.io/unfit:NoSchedule is there, and nothing states "
               "whether the node is fit: nodeclaimd does not run there, or has no spec.fit. For "
               "pods to start without it: kubectl taint node n1 nodeclaimd.io/unfit-");
        expect(see(&w, &s), ""); /* it changes */
        assert_int_equal(overdue(&w), 1);
        if (comes == 2) {
            expect(see(&w, &late), GET);
            expect(read_node(&w, &late), PATCH);
            expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE),
                   "event UnfitTaintRemoved Node n1\n");
        } else {
            expect(world_pass(&w, 300 * WORLD_SEC), GET);
            expect(read_node(&w, comes ? &gone : &s), "");
            expect(world_pass(&w, 300 * WORLD_SEC), comes ? "" : GET);
        }
        assert_int_equal(overdue(&w), comes == 0);
        world_close(&w);
    }
}

/* Nobody's gate, or one whose taint is gone: a read at most. */
static void test_no_agent_and_no_taint(void **state) {
    const struct scene s = {.taints = OTHER};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), "");
    expect(world_pass(&w, 24 * 3600 * WORLD_SEC), "");
    expect(see_gated_claim(&w), GET);
    expect(read_node(&w, &s), "");
    expect(see(&w, &s), "");
    expect(world_pass(&w, 24 * 3600 * WORLD_SEC), "");
    world_close(&w);
}

static void test_timeout_of_a_node_without_the_taint(void **state) {
    const struct scene s = {"b1", "false", UNTIL, NULL, "False", "b1", ""};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), "");
    expect(world_pass(&w, 600 * WORLD_SEC), GET);
    expect(read_node(&w, &s), "");
    assert_int_equal(overdue(&w), 0);
    world_close(&w);
}

static void test_invalid_is_said_once(void **state) {
    static const char *const rows[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\\\"boot\\\":\\\"b1\\\"}",
        "{\\\"fit\\\":true}",
        "{\\\"boot\\\":\\\"b 1\\\",\\\"fit\\\":true}",
        "{\\\"boot\\\":\\\"b1\\\",\\\"fit\\\":\\\"true\\\"}",
        "{\\\"boot\\\":\\\"b1\\\",\\\"fit\\\":true,\\\"until\\\":\\\"soon\\\"}",
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *json =
            nc_asprintf("{\"metadata\":{\"name\":\"n1\",\"uid\":\"uid-n1\",\"creationTimestamp\":"
                        "\"2026-11-22T01:00:00Z\",\"annotations\":{\"nodeclaimd.io/fit\":\"%s\"}}}",
                        rows[i]);
        struct world w;
        world_open(&w);
        expect(world_see(&w, NC_CONTROL_NODE, json), "event InvalidFit Node n1\n");
        expect(world_see(&w, NC_CONTROL_NODE, json), "");
        expect(world_pass(&w, 24 * 3600 * WORLD_SEC), "");
        world_close(&w);
    }
}

/* Two leaders: whoever is second is refused, reads again, and finds it done. */
static void test_a_second_leader(void **state) {
    const struct scene s = {"b1", "true", NULL, NULL, "True", "b1", OURS};
    const struct scene done = {"b1", "true", NULL, "b1", "True", "b1", ""};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), GET);
    expect(read_node(&w, &s), PATCH);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_CONFLICT), "");
    expect(see(&w, &done), "");
    expect(world_pass(&w, 24 * 3600 * WORLD_SEC), "");
    world_close(&w);
}

static void test_refused(void **state) {
    const struct scene s = {"b1", "true", NULL, NULL, "True", "b1", OURS};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), GET);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_REFUSED), "event UnfitTooLong Node n1\n");
    expect(world_pass(&w, 299 * WORLD_SEC), "");
    expect(world_pass(&w, WORLD_SEC), GET);
    expect(read_node(&w, &s), PATCH);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_REFUSED), "");
    expect(world_pass(&w, 299 * WORLD_SEC), "");
    expect(world_pass(&w, WORLD_SEC), GET);
    world_close(&w);
}

static void test_the_api_server_asks_for_a_pause(void **state) {
    const struct scene s = {"b1", "true", NULL, NULL, "True", "b1", OURS};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), GET);
    expect(world_answer_with(&w, w.ids[0], NC_CONTROL_UNAVAILABLE, 60 * WORLD_SEC, NULL), "");
    expect(world_pass(&w, 59 * WORLD_SEC), "");
    expect(world_pass(&w, WORLD_SEC), GET);
    world_close(&w);
}

/* Nobody led for an hour: what was stated meanwhile counts, and no time that is over by now. */
static void test_an_hour_without_a_controller(void **state) {
    const struct scene fit = {"b1", "true", UNTIL, NULL, "True", "b1", OURS};
    const struct scene rebooted = {"b3", "false", UNTIL, "b1", "True", "b1", ""};
    struct world w;

    (void)state;
    world_open(&w);
    w.now_usec += 3600 * WORLD_SEC;
    expect(see(&w, &fit), GET);
    expect(read_node(&w, &fit), PATCH);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "event UnfitTaintRemoved Node n1\n");
    world_close(&w);
    world_open(&w);
    w.now_usec += 3600 * WORLD_SEC;
    expect(see(&w, &rebooted), GET);
    expect(read_node(&w, &rebooted), PATCH);
    expect(world_answer(&w, w.ids[0], NC_CONTROL_DONE), "event UnfitTaintRestored Node n1\n");
    world_close(&w);
}

/* Whoever may write conditions opens nothing by that. */
static void test_condition_of_a_stranger(void **state) {
    const struct scene s = {"b1", "false", UNTIL, NULL, "True", "b1", OURS};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), "");
    expect(world_pass(&w, 600 * WORLD_SEC), GET);
    expect(read_node(&w, &s), "event UnfitTooLong Node n1\n");
    world_close(&w);
}

/* Nothing that was known of the one before is true of it. */
static void test_another_node_of_that_name(void **state) {
    const struct scene s = {"b1", "true", NULL, "b1", "True", "b1", ""};
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, &s), "");
    expect(world_see(&w, NC_CONTROL_NODE,
                     "{\"metadata\":{\"name\":\"n1\",\"uid\":\"another\",\"creationTimestamp\":"
                     "\"2026-11-22T01:00:00Z\",\"annotations\":{\"nodeclaimd.io/fit\":\"{"
                     "\\\"boot\\\":\\\"b1\\\",\\\"fit\\\":true}\"}}}"),
           GET);
    world_close(&w);
}

#define CROWD 10000

/* A whole cluster at once: a read and a write each, at most so many in flight. */
static void test_ten_thousand_nodes_at_once(void **state) {
    static const char text[] =
        "{\"metadata\":{\"name\":\"%s\",\"uid\":\"uid-%s\",%s\"creationTimestamp\":\"2026-11-22T01:"
        "00:00Z\",\"annotations\":{\"nodeclaimd.io/fit\":\"{\\\"boot\\\":\\\"b1\\\",\\\"fit\\\":"
        "true}\"}},\"spec\":{\"taints\":[" OURS "]},\"status\":{\"nodeInfo\":{\"bootID\":\"b1\"},"
        "\"conditions\":[{\"type\":\"nodeclaimd.io/Fit\",\"status\":\"True\"}]}}";
    struct request {
        uint64_t id;
        char name[16];
        bool is_get;
    } *queue = nc_calloc(2 * CROWD, sizeof(*queue));
    size_t asked = 0, answered = 0, gets = 0, most = 0;
    struct world w;

    (void)state;
    world_open(&w);
    for (size_t i = 0; i < CROWD || answered < asked; i++) {
        const struct request *r = i < CROWD ? NULL : &queue[answered++];
        nc_auto_free char *name = i < CROWD ? nc_asprintf("n%zu", i) : nc_strdup(r->name);
        nc_auto_free char *json =
            nc_asprintf(text, name, name, r ? "\"resourceVersion\":\"77\"," : "");
        const char *out =
            !r ? world_see(&w, NC_CONTROL_NODE, json)
               : world_answer_with(&w, r->id, NC_CONTROL_DONE, 0, r->is_get ? json : NULL);
        for (size_t k = 0; *out; out = strchr(out, '\n') + 1) {
            if (nc_starts_with(out, "event"))
                continue;
            assert_in_range(asked, 0, 2 * CROWD - 1);
            queue[asked].id = w.ids[k++];
            queue[asked].is_get = nc_starts_with(out, "get-node ");
            gets += queue[asked].is_get;
            assert_int_equal(sscanf(out, "%*s %15s", queue[asked++].name), 1);
        }
        if (asked - answered > most)
            most = asked - answered;
    }
    assert_int_equal(gets, CROWD);
    assert_int_equal(asked, 2 * CROWD);
    assert_in_range(most, 1, w.rules.max_in_flight);
    world_close(&w);
    free(queue);
}

static void test_a_node_that_is_being_deleted(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(
        world_see(&w, NC_CONTROL_NODE,
                  "{\"metadata\":{\"name\":\"n1\",\"uid\":\"uid-n1\",\"creationTimestamp\":"
                  "\"2026-11-22T01:00:00Z\",\"deletionTimestamp\":\"2026-11-22T02:00:00Z\","
                  "\"annotations\":{\"nodeclaimd.io/fit\":\"{\\\"boot\\\":\\\"b1\\\",\\\"fit\\\":"
                  "true}\"}}}"),
        "");
    world_close(&w);
}

/* The taints of others, and a list that is too long to be read: nothing is written. */
static void test_a_list_that_is_not_read(void **state) {
    struct scene s = {"b1", "true", NULL, NULL, "True", "b1", NULL};
    struct nc_buf many = NC_BUF_INIT;
    struct world w;

    (void)state;
    for (unsigned i = 0; i < 200; i++)
        (void)nc_buf_printf(&many, "{\"key\":\"own.example/%040u\",\"effect\":\"NoSchedule\"},", i);
    (void)nc_buf_puts(&many, OURS);
    s.taints = many.data;
    world_open(&w);
    expect(see(&w, &s), GET);
    expect(read_node(&w, &s), "");
    world_close(&w);
    nc_buf_done(&many);
}

static void test_a_node_that_flaps(void **state) {
    unsigned n = 0;
    struct world w;

    (void)state;
    world_open(&w);
    for (unsigned i = 0; i < 600; i++) {
        nc_auto_free char *boot = nc_asprintf("b%u", i);
        const struct scene s = {boot, "true", NULL, NULL, "True", boot, OURS};
        const char *got = see(&w, &s);
        for (unsigned k = 0; k < 2 && w.n_ids; k++) {
            n++;
            got = nc_starts_with(got, GET) ? read_node(&w, &s)
                                           : world_answer(&w, w.ids[0], NC_CONTROL_DONE);
        }
        w.now_usec += WORLD_SEC / 10;
    }
    assert_in_range(n, 10, 20 + 12 + 2); /* in a minute */
    world_close(&w);
}

/* Of a claim that ends by its force-delete time, with what the Node states of its fitness: any new
 * text is news. */
static const char *see_ending(struct world *w, const char *fit) {
    nc_auto_free char *json = nc_asprintf(
        "{\"metadata\":{\"name\":\"n1\",\"uid\":\"uid-n1\",\"creationTimestamp\":"
        "\"2026-11-22T01:00:00Z\",\"ownerReferences\":[{\"apiVersion\":\"karpenter.sh/v1\","
        "\"kind\":\"NodeClaim\",\"name\":\"c1\",\"uid\":\"uid-c1\"}],\"annotations\":{"
        "\"nodeclaimd.io/fit\":\"%s\"}}}",
        fit);

    return world_see(w, NC_CONTROL_NODE, json);
}

/* Every tenth of a second for ten minutes; is the time of its claim copied to it at all? */
static bool is_copied_while(const char *fit_word, bool is_readable) {
    bool is_copied = false;
    struct world w;

    world_open(&w);
    for (unsigned i = 0; i < 6000 && !is_copied; i++) {
        nc_auto_free char *fit = nc_asprintf("{%s\\\"boot\\\":\\\"b%u\\\",\\\"fit\\\":%s}",
                                             is_readable || i % 2 ? "" : "{", i, fit_word);
        const char *got = see_ending(&w, fit);
        if (i == 1000)
            got = world_claim(&w, "c1", "n1",
                              ",\"deletionTimestamp\":\"2026-11-22T02:01:40Z\",\"annotations\":{"
                              "\"karpenter.sh/nodeclaim-termination-timestamp\":"
                              "\"2026-11-22T09:00:00Z\"}");
        is_copied = strstr(got, PATCH) && strstr(w.body, "termination-deadline");
        if (w.n_ids && !is_copied)
            got = world_answer(&w, w.ids[0], NC_CONTROL_MISSING);
        is_copied |= strstr(got, PATCH) && strstr(w.body, "termination-deadline");
        w.now_usec += WORLD_SEC / 10;
    }
    world_close(&w);
    return is_copied;
}

/* What it says of its fitness takes no place from what else its Node needs. */
static void test_a_node_that_flaps_delays_no_other_write(void **state) {
    (void)state;
    assert_true(is_copied_while("true", true));
    assert_true(is_copied_while("false", false)); /* an Event is said each time */
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_removed_for_the_present_boot),
        cmocka_unit_test(test_what_does_not_bear_it_out),
        cmocka_unit_test(test_never_borne_out),
        cmocka_unit_test(test_no_taint_nothing_to_do),
        cmocka_unit_test(test_not_fit_on_the_first_boot),
        cmocka_unit_test(test_put_back_after_a_reboot),
        cmocka_unit_test(test_stays_open_in_one_boot),
        cmocka_unit_test(test_not_put_back_where_that_is_off),
        cmocka_unit_test(test_timeout_is_said),
        cmocka_unit_test(test_fit_after_its_timeout),
        cmocka_unit_test(test_no_agent_is_said),
        cmocka_unit_test(test_no_agent_and_no_taint),
        cmocka_unit_test(test_timeout_of_a_node_without_the_taint),
        cmocka_unit_test(test_invalid_is_said_once),
        cmocka_unit_test(test_a_second_leader),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_the_api_server_asks_for_a_pause),
        cmocka_unit_test(test_an_hour_without_a_controller),
        cmocka_unit_test(test_condition_of_a_stranger),
        cmocka_unit_test(test_another_node_of_that_name),
        cmocka_unit_test(test_ten_thousand_nodes_at_once),
        cmocka_unit_test(test_a_node_that_is_being_deleted),
        cmocka_unit_test(test_a_list_that_is_not_read),
        cmocka_unit_test(test_a_node_that_flaps),
        cmocka_unit_test(test_a_node_that_flaps_delays_no_other_write),
    };

    return run_group(tests, NULL, NULL);
}
