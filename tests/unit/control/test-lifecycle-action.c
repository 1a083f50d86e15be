/*
 * Lifecycle actions of Auto Scaling groups: of which instance, in which order, how often, and where
 * nothing is done. Rules C14, C15.
 */
#include "control-world.h"
#include "groups.h"

#include "nc/str.h"

#define MIN (60 * WORLD_SEC)
#define ID "i-0123456789abcdef0"
#define PROVIDER "aws:///us-west-2a/" ID
#define NAME "ip-10-0-0-1.ec2.internal"
#define INSTANCE "describe-instance " NAME "\n"
#define STATE "describe-lifecycle " NAME "\n"
#define HEARTBEAT "record-heartbeat " NAME "\n"
#define COMPLETE "complete-action " NAME "\n"
#define EVENT(reason) "event " reason " Node " NAME "\n"

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

struct status {
    const char *phase, *more; /* `more` as ",\"policy\":\"report\"" */
    const char *source, *id;
    int64_t deadline_sec; /* from now; 0 = none */
    int remaining;        /* -1: not known */
};

static const char *see_as(struct world *w, const char *name, const char *provider_id,
                          struct status s) {
    const char *deadline =
        s.deadline_sec
            ? world_time((uint64_t)((int64_t)w->now_usec + s.deadline_sec * (int64_t)WORLD_SEC))
            : NULL;
    nc_auto_free char *left = s.remaining < 0 ? nc_strdup("null") : nc_asprintf("%d", s.remaining);
    nc_auto_free char *status =
        nc_asprintf("{\\\"id\\\":\\\"%s\\\",\\\"source\\\":\\\"%s\\\",\\\"phase\\\":\\\"%s\\\","
                    "\\\"deadline\\\":"
                    "%s%s%s,\\\"total\\\":9,\\\"remaining\\\":%s,\\\"blocked\\\":[]%s}",
                    s.id ? s.id : "autoscaling-terminated", s.source ? s.source : "autoscaling",
                    s.phase, deadline ? "\\\"" : "", deadline ? deadline : "null",
                    deadline ? "\\\"" : "", left, s.more ? s.more : "");
    nc_auto_free char *json =
        nc_asprintf("{\"metadata\":{\"name\":\"%s\",\"uid\":\"u1\",\"creationTimestamp\":"
                    "\"2026-11-22T00:00:00Z\",\"annotations\":{\"nodeclaimd.io/drain-status\":"
                    "\"%s\"}},\"spec\":{%s%s%s}}",
                    name, status, provider_id ? "\"providerID\":\"" : "",
                    provider_id ? provider_id : "", provider_id ? "\"" : "");

    return world_see(w, NC_CONTROL_NODE, json);
}

static const char *see(struct world *w, struct status s) {
    return see_as(w, NAME, PROVIDER, s);
}

static const char *answer(struct world *w, struct nc_control_event e) {
    e.kind = NC_CONTROL_ANSWER;
    assert_true(e.id || w->n_ids > 0);
    if (!e.id)
        e.id = w->ids[w->n_ids - 1];
    if (!e.answer)
        e.answer = NC_CONTROL_DONE;
    return world_event(w, e);
}

static const char *answer_state(struct world *w, const char *state) {
    return answer(w, (struct nc_control_event){.group = "g", .lifecycle_state = state});
}

static const char *refuse(struct world *w, enum nc_control_refusal why) {
    return answer(w, (struct nc_control_event){.answer = NC_CONTROL_REFUSED, .refusal = why});
}

static void open_world(struct world *w) {
    world_open(w);
    w->rules.completes_actions = true;
    expect(world_rules(w), "");
}

/* As far as that its group waits, with a drain that goes on. */
static void open_waiting(struct world *w, struct status s) {
    open_world(w);
    expect(see(w, s), INSTANCE);
    expect(answer(w, (struct nc_control_event){.name = NAME}), STATE);
    expect(answer_state(w, "Terminating:Wait"), HEARTBEAT);
    expect(answer(w, (struct nc_control_event){0}), "");
}

static const struct status evicting = {.phase = "Evicting", .remaining = 5};
static const struct status drained = {.phase = "Drained"};

static const char *word(struct world *w) {
    static char text[32];
    nc_auto_value struct nc_value *list = nc_control_report(w->c, w->now_usec);
    const char *found = nc_value_get_string(list->items[0], "lifecycleAction");

    (void)snprintf(text, sizeof(text), "%s", found ? found : "-");
    return text;
}

static void test_off(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(see(&w, evicting), "");
    expect(see(&w, drained), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    expect(word(&w), "-");
    world_close(&w);
}

static void test_completes(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct status){.phase = "Detected", .remaining = -1}), "");
    expect(word(&w), "pending");
    expect(see(&w, evicting), INSTANCE);
    expect(answer(&w, (struct nc_control_event){.name = "IP-10-0-0-1.ec2.internal"}), STATE);
    expect(answer_state(&w, "Terminating:Wait"), HEARTBEAT);
    expect(answer(&w, (struct nc_control_event){0}), "");
    expect(word(&w), "waiting");
    expect(see(&w, drained), COMPLETE);
    expect(answer(&w, (struct nc_control_event){0}), EVENT("LifecycleActionCompleted"));
    assert_non_null(strstr(w.told, "ended as Drained"));
    expect(word(&w), "completed");
    expect(see(&w, drained), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* What goes into the requests. */
static void test_actions(void **state) {
    struct nc_control_actions out = {0};
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, (struct status){.phase = "Failed", .remaining = 3}), INSTANCE);
    expect(answer(&w, (struct nc_control_event){.name = NAME}), STATE);
    nc_control_step(w.c,
                    &(struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                               .now_usec = w.now_usec,
                                               .id = w.ids[0],
                                               .answer = NC_CONTROL_DONE,
                                               .group = "my group",
                                               .lifecycle_state = "Terminating:Wait"},
                    &out);
    assert_int_equal(out.n, 1);
    assert_int_equal(out.v[0].verb, NC_CONTROL_COMPLETE_ACTION);
    assert_int_equal(out.v[0].what, NC_CONTROL_NODE);
    assert_string_equal(out.v[0].group, "my group");
    assert_string_equal(out.v[0].provider_id, PROVIDER);
    assert_null(out.v[0].body);
    w.ids[0] = out.v[0].id;
    nc_control_actions_done(&out);
    expect(answer(&w, (struct nc_control_event){0}), EVENT("LifecycleActionCompleted"));
    assert_non_null(strstr(w.told, "ended as Failed"));
    world_close(&w);
}

/* A name that is, or begins with, the instance's id needs no question: a node cannot choose it. */
static void test_names_that_prove_it(void **state) {
    static const struct {
        const char *name, *first;
    } rows[] = {{ID, "describe-lifecycle"},
                {ID ".us-west-2.compute.internal", "describe-lifecycle"},
                {ID "0", "describe-instance"},
                {"x" ID, "describe-instance"},
                {"i-0123456789abcdef1", "describe-instance"}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        open_world(&w);
        assert_true(nc_starts_with(see_as(&w, rows[i].name, PROVIDER, evicting), rows[i].first));
        world_close(&w);
    }
}

static void test_another_nodes_instance(void **state) {
    static const char *const names[] = {"ip-10-0-0-2.ec2.internal", "", NULL};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++) {
        struct world w;
        open_world(&w);
        expect(see(&w, drained), INSTANCE);
        expect(answer(&w, (struct nc_control_event){.name = names[i]}), EVENT("InstanceMismatch"));
        expect(word(&w), "mismatch");
        expect(see(&w, drained), "");
        expect(see(&w, evicting), "");
        expect(world_pass(&w, 7200 * WORLD_SEC), "");
        world_close(&w);
    }
}

static void test_provider_ids(void **state) {
    static const char *const rows[] = {NULL,
                                       "",
                                       ID,
                                       "aws:///us-west-2a/" ID "&InstanceId=i-1",
                                       "aws:///us-west-2a/" ID "/" ID,
                                       "gce:///us-west-2a/" ID};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        open_world(&w);
        expect(see_as(&w, NAME, rows[i], drained), EVENT("InstanceMismatch"));
        expect(see_as(&w, NAME, rows[i], drained), "");
        expect(word(&w), "mismatch");
        expect(see(&w, drained), INSTANCE); /* it has one now */
        world_close(&w);
    }
}

static void test_sources_and_policies(void **state) {
    static const struct status rows[] = {
        {.phase = "Evicting", .remaining = 5, .source = "spot"},
        {.phase = "Drained", .source = "request"},
        {.phase = "Drained", .source = "rebalance"},
        {.phase = "Drained", .source = "something-new"},
        {.phase = "Drained", .more = ",\\\"policy\\\":\\\"report\\\""},
        {.phase = "Detected", .remaining = 5},
        {.phase = "", .remaining = 5},
        {.phase = "SomethingNew", .remaining = 5},
        /* A node that only cordons knows nothing of its pods. */
        {.phase = "Cordoned", .remaining = -1},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        open_world(&w);
        expect(see(&w, rows[i]), "");
        expect(world_pass(&w, 3600 * WORLD_SEC), "");
        world_close(&w);
    }
}

/* In a cluster without NodeClaims, in every mode, and never before the list is complete, or by a
 * standby. */
static void test_every_mode(void **state) {
    static const enum nc_control_mode modes[] = {NC_CONTROL_MODE_UNKNOWN, NC_CONTROL_KARPENTER,
                                                 NC_CONTROL_STANDALONE};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(modes); i++) {
        struct world w;
        world_open_raw(&w);
        w.rules.completes_actions = true;
        expect(world_rules(&w), "");
        expect(world_mode(&w, modes[i]), "");
        expect(world_lead(&w, true), "");
        expect(see(&w, drained), "");
        expect(world_lead(&w, false), "");
        expect(world_synced(&w, NC_CONTROL_NODE), "");
        expect(world_lead(&w, true), INSTANCE);
        world_close(&w);
    }
}

static void test_states_of_the_group(void **state) {
    static const char *const over[] = {"Terminating:Proceed", "Terminated"};
    static const char *const later[] = {"InService", "Terminating", "Pending:Wait", "", NULL};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(over); i++) {
        struct world w;
        open_world(&w);
        expect(see(&w, drained), INSTANCE);
        expect(answer(&w, (struct nc_control_event){.name = NAME}), STATE);
        expect(answer_state(&w, over[i]), "");
        expect(word(&w), "none");
        expect(world_pass(&w, 3600 * WORLD_SEC), "");
        world_close(&w);
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(later); i++) {
        struct world w;
        open_world(&w);
        expect(see(&w, drained), INSTANCE);
        expect(answer(&w, (struct nc_control_event){.name = NAME}), STATE);
        expect(answer_state(&w, later[i]), "");
        expect(word(&w), "pending");
        expect(world_pass(&w, WORLD_SEC), STATE);
        expect(answer_state(&w, "Terminating:Wait"), COMPLETE);
        world_close(&w);
    }
}

/* One that stays in service is asked for ever less often. */
static void test_asked_again(void **state) {
    struct world w;
    unsigned n = 0;

    (void)state;
    open_world(&w);
    expect(see(&w, drained), INSTANCE);
    expect(answer(&w, (struct nc_control_event){.name = NAME}), STATE);
    for (const uint64_t end = w.now_usec + 3600 * WORLD_SEC; w.now_usec < end; n++) {
        expect(answer_state(&w, "InService"), "");
        w.now_usec = nc_control_next(w.c, w.now_usec);
        expect(world_tick(&w), STATE);
    }
    assert_in_range(n, 18, 26);
    world_close(&w);
}

static void test_of_no_group(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, evicting), INSTANCE);
    expect(answer(&w, (struct nc_control_event){.name = NAME}), STATE);
    expect(answer(&w, (struct nc_control_event){.answer = NC_CONTROL_MISSING}), "");
    expect(word(&w), "none");
    expect(see(&w, drained), "");
    world_close(&w);
}

/* EC2 may not know an instance yet: that proves nothing, so it is asked again. */
static void test_instance_that_ec2_does_not_know(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, drained), INSTANCE);
    expect(answer(&w, (struct nc_control_event){.answer = NC_CONTROL_MISSING}), "");
    expect(world_pass(&w, WORLD_SEC), INSTANCE);
    expect(answer(&w, (struct nc_control_event){.name = NAME}), STATE);
    world_close(&w);
}

static void test_heartbeats(void **state) {
    struct world w;

    (void)state;
    open_waiting(&w, evicting);
    expect(world_pass(&w, NC_CONTROL_HEARTBEAT_USEC - 1), "");
    expect(see(&w, (struct status){.phase = "Evicting", .remaining = 4}), "");
    expect(world_pass(&w, 1), HEARTBEAT);
    expect(answer(&w, (struct nc_control_event){0}), "");
    expect(see(&w, (struct status){.phase = "VolumeWait"}), "");
    expect(world_pass(&w, NC_CONTROL_HEARTBEAT_USEC), HEARTBEAT);
    expect(answer(&w, (struct nc_control_event){0}), "");
    expect(see(&w, drained), COMPLETE);
    world_close(&w);
}

static void beat(struct world *w, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        expect(world_pass(w, NC_CONTROL_HEARTBEAT_USEC), HEARTBEAT);
        expect(answer(w, (struct nc_control_event){0}), "");
    }
}

/* Pods that stay are no reason to wait for; one that comes and goes neither. */
static void test_heartbeats_end_with_progress(void **state) {
    struct world w;

    (void)state;
    open_waiting(&w, evicting);
    beat(&w, 5);
    expect(see(&w, (struct status){.phase = "Evicting", .remaining = 4}), "");
    beat(&w, 2);
    expect(see(&w, (struct status){.phase = "Evicting", .remaining = 5}), "");
    beat(&w, 2);
    expect(see(&w, (struct status){.phase = "Evicting", .remaining = 4}), "");
    beat(&w, 1);
    expect(world_pass(&w, NC_CONTROL_HEARTBEAT_USEC), EVENT("LifecycleActionHeartbeatsEnded"));
    assert_non_null(strstr(w.told, "no pod has left the node for 30 minutes"));
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    expect(see(&w, drained), COMPLETE); /* where it still waits, it may go on */
    world_close(&w);
}

/* Progress every ten minutes, and no deadline: two hours of our own. */
static void test_heartbeats_end_with_time(void **state) {
    struct world w;
    int left = 100;

    (void)state;
    open_waiting(&w, (struct status){.phase = "Evicting", .remaining = left});
    for (unsigned i = 0; i < 23; i++) {
        beat(&w, 1);
        expect(see(&w, (struct status){.phase = "Evicting", .remaining = --left}), "");
    }
    expect(world_pass(&w, NC_CONTROL_HEARTBEAT_USEC), EVENT("LifecycleActionHeartbeatsEnded"));
    assert_non_null(strstr(w.told, "2 hours"));
    expect(see(&w, (struct status){.phase = "Evicting", .remaining = 1}), "");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);
}

/* The node's deadline wins; that it has passed the node itself reports. */
static void test_heartbeats_end_with_the_deadline(void **state) {
    struct world w;

    (void)state;
    open_waiting(&w, (struct status){.phase = "Evicting", .remaining = 5, .deadline_sec = 700});
    beat(&w, 2);
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    expect(see(&w, (struct status){.phase = "Failed", .remaining = 5, .deadline_sec = -3600}),
           COMPLETE);
    world_close(&w);
}

static void test_somebody_else_completed_it(void **state) {
    struct world w;

    (void)state;
    open_waiting(&w, evicting);
    expect(see(&w, drained), COMPLETE);
    expect(answer(&w, (struct nc_control_event){.answer = NC_CONTROL_MISSING}),
           EVENT("LifecycleActionCompleted"));
    assert_non_null(strstr(w.told, "somebody else has completed it"));
    expect(word(&w), "none");
    expect(world_pass(&w, 3600 * WORLD_SEC), "");
    world_close(&w);

    open_waiting(&w, evicting);
    expect(world_pass(&w, NC_CONTROL_HEARTBEAT_USEC), HEARTBEAT);
    expect(answer(&w, (struct nc_control_event){.answer = NC_CONTROL_MISSING}),
           EVENT("LifecycleActionCompleted"));
    expect(see(&w, drained), "");
    world_close(&w);
}

/* Each is said once a drain, and tried again in five minutes; what else AWS is asked goes on. */
static void test_refusals(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, drained), INSTANCE);
    expect(refuse(&w, NC_CONTROL_REFUSAL_DENIED), EVENT("LifecycleActionFailed"));
    assert_non_null(strstr(w.told, "ec2:DescribeInstances"));
    expect(word(&w), "failed");
    expect(world_pass(&w, NC_CONTROL_REFUSED_USEC - 1), "");
    expect(world_pass(&w, 1), INSTANCE);
    expect(refuse(&w, NC_CONTROL_REFUSAL_DENIED), "");
    expect(world_pass(&w, NC_CONTROL_REFUSED_USEC), INSTANCE);
    expect(answer(&w, (struct nc_control_event){.name = NAME}), STATE);
    expect(refuse(&w, NC_CONTROL_REFUSAL_DENIED), EVENT("LifecycleActionFailed"));
    expect(world_pass(&w, NC_CONTROL_REFUSED_USEC), STATE);
    expect(answer_state(&w, "Terminating:Wait"), COMPLETE);
    expect(refuse(&w, NC_CONTROL_REFUSAL_HOOK), EVENT("LifecycleHookNotFound"));
    expect(world_pass(&w, NC_CONTROL_REFUSED_USEC), COMPLETE);
    expect(refuse(&w, NC_CONTROL_REFUSAL_HOOK), "");
    expect(world_pass(&w, NC_CONTROL_REFUSED_USEC), COMPLETE);
    expect(refuse(&w, NC_CONTROL_REFUSAL_OTHER), EVENT("LifecycleActionFailed"));
    expect(world_pass(&w, NC_CONTROL_REFUSED_USEC), COMPLETE);
    expect(refuse(&w, NC_CONTROL_REFUSAL_DENIED), EVENT("LifecycleActionFailed"));
    assert_non_null(strstr(w.told, "autoscaling:CompleteLifecycleAction"));
    expect(world_pass(&w, NC_CONTROL_REFUSED_USEC), COMPLETE);
    expect(answer(&w, (struct nc_control_event){0}), EVENT("LifecycleActionCompleted"));
    expect(word(&w), "completed");
    world_close(&w);
}

/* A role that may complete, and record no heartbeats: the drain's end is not delayed. */
static void test_denied_heartbeats(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, evicting), INSTANCE);
    expect(answer(&w, (struct nc_control_event){.name = NAME}), STATE);
    expect(answer_state(&w, "Terminating:Wait"), HEARTBEAT);
    expect(refuse(&w, NC_CONTROL_REFUSAL_DENIED), EVENT("LifecycleActionFailed"));
    assert_non_null(strstr(w.told, "autoscaling:RecordLifecycleActionHeartbeat"));
    expect(world_pass(&w, NC_CONTROL_REFUSED_USEC), HEARTBEAT);
    expect(refuse(&w, NC_CONTROL_REFUSAL_DENIED), "");
    expect(see(&w, drained), COMPLETE);
    world_close(&w);
}

/* One group that is denied delays nobody of another. */
static void test_another_node_is_not_delayed(void **state) {
    static const char other[] = "ip-10-0-0-9.ec2.internal";
    struct world w;

    (void)state;
    open_world(&w);
    expect(see(&w, drained), INSTANCE);
    expect(refuse(&w, NC_CONTROL_REFUSAL_DENIED), EVENT("LifecycleActionFailed"));
    expect(see_as(&w, other, "aws:///us-west-2a/i-0999999999abcdef0", drained),
           "describe-instance ip-10-0-0-9.ec2.internal\n");
    world_close(&w);
}

static void test_pauses_where_it_is_unavailable(void **state) {
    struct world w;
    uint64_t last_usec = 0;

    (void)state;
    open_waiting(&w, evicting);
    expect(see(&w, drained), COMPLETE);
    for (unsigned n = 0; n < 12; n++) {
        const uint64_t from = w.now_usec;
        expect(answer(&w, (struct nc_control_event){.answer = NC_CONTROL_UNAVAILABLE}), "");
        expect(see(&w, drained), "");
        while (!world_tick(&w)[0])
            w.now_usec = nc_control_next(w.c, w.now_usec);
        assert_true(w.now_usec - from + WORLD_SEC >= last_usec / 2);
        last_usec = w.now_usec - from;
        assert_in_range(last_usec, 150000, 30 * WORLD_SEC);
    }
    assert_true(last_usec > 20 * WORLD_SEC);
    world_close(&w);
}

/* What failed of the Node's own writes says nothing about its group, and the other way round. */
static void test_the_nodes_own_writes_go_on(void **state) {
    struct world w;

    (void)state;
    open_world(&w);
    expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
    expect(world_synced(&w, NC_CONTROL_NODE), "");
    expect(world_synced(&w, NC_CONTROL_CLAIM), "");
    expect(world_synced(&w, NC_CONTROL_POOL), "");
    expect(see(&w, evicting), "patch-node " NAME "\n"); /* the taint */
    expect(answer(&w, (struct nc_control_event){.answer = NC_CONTROL_UNAVAILABLE}), INSTANCE);
    expect(refuse(&w, NC_CONTROL_REFUSAL_DENIED), EVENT("LifecycleActionFailed"));
    expect(world_pass(&w, WORLD_SEC), "patch-node " NAME "\n");
    world_close(&w);
}

/* An answer about another drain, or another instance, is none about this one. */
static void test_answer_that_comes_late(void **state) {
    struct world w;
    uint64_t id = 0;

    (void)state;
    open_world(&w);
    expect(see(&w, drained), INSTANCE);
    id = w.ids[0];
    expect(see_as(&w, NAME, "aws:///us-west-2a/i-0fffffffffffffff0", drained), "");
    expect(answer(&w, (struct nc_control_event){.id = id, .name = NAME}), INSTANCE);
    id = w.ids[0];
    expect(see(&w, (struct status){.phase = "Evicting", .source = "spot"}), "");
    expect(answer(&w, (struct nc_control_event){.id = id, .name = NAME}), "");
    expect(word(&w), "-");
    world_close(&w);
}

/* A withdrawn notice, then another: all of it is asked anew. Another id is another drain. */
static void test_another_drain(void **state) {
    struct world w;
    uint64_t id = 0;

    (void)state;
    open_waiting(&w, evicting);
    expect(see(&w, drained), COMPLETE);
    expect(answer(&w, (struct nc_control_event){0}), EVENT("LifecycleActionCompleted"));
    expect(see(&w, (struct status){.phase = "", .source = "", .id = ""}), "");
    expect(see(&w, evicting), INSTANCE);
    expect(answer(&w, (struct nc_control_event){.name = NAME}), STATE);
    id = w.ids[0];
    expect(see(&w, (struct status){.phase = "Drained", .id = "another"}), "");
    expect(answer(&w, (struct nc_control_event){.id = id, .group = "g"}), INSTANCE);
    world_close(&w);
}

/* Whoever leads now finds out again. */
static void test_another_leader(void **state) {
    struct world w;

    (void)state;
    open_waiting(&w, evicting);
    expect(see(&w, drained), COMPLETE);
    expect(world_lead(&w, false), "");
    expect(answer(&w, (struct nc_control_event){.id = 4}), "");
    expect(world_lead(&w, true), COMPLETE);
    expect(answer(&w, (struct nc_control_event){.answer = NC_CONTROL_MISSING}),
           EVENT("LifecycleActionCompleted"));
    world_close(&w);
}

/* A node that changes what it says all the time costs AWS no more than any object may cost. */
static void test_a_node_that_does_not_rest(void **state) {
    struct world w;
    unsigned n = 0;

    (void)state;
    open_world(&w);
    for (unsigned i = 0; i < 3600; i++) {
        nc_auto_free char *id = nc_asprintf("drain-%u", i);
        w.now_usec += WORLD_SEC / 2;
        if (*see(&w, (struct status){.phase = "Evicting", .remaining = 1, .id = id}))
            n++;
        if (w.n_ids > 0)
            (void)answer(&w, (struct nc_control_event){.answer = NC_CONTROL_MISSING});
    }
    assert_in_range(n, NC_CONTROL_RATE_BURST, NC_CONTROL_RATE_BURST + 31 * 12);
    world_close(&w);
}

static void test_clock_that_is_set_back(void **state) {
    struct world w;

    (void)state;
    open_waiting(&w, evicting);
    w.now_usec -= 86400 * WORLD_SEC;
    expect(world_tick(&w), HEARTBEAT); /* when the last one was, nobody knows now */
    expect(answer(&w, (struct nc_control_event){0}), "");
    beat(&w, 5);
    expect(world_pass(&w, NC_CONTROL_HEARTBEAT_USEC), EVENT("LifecycleActionHeartbeatsEnded"));
    world_close(&w);
}

static void test_instances(void **state) {
    static const struct {
        const char *text, *id, *region;
    } rows[] = {{PROVIDER, ID, "us-west-2"},
                {"aws:///us-gov-west-1b/i-01234567", "i-01234567", "us-gov-west-1"},
                {"aws:///us-west-2-lax-1a/" ID, ID, "us-west-2"},
                {"aws://us-west-2a/" ID, NULL, NULL},
                {"aws:///us-west-2a/i-0123", NULL, NULL},
                {"aws:///us-west-2a/i-0123456789ABCDEF0", NULL, NULL},
                {"aws:///nowhere/" ID, NULL, NULL},
                {"aws:///1/" ID, NULL, NULL},
                {"aws:///us west-2a/" ID, NULL, NULL}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_control_instance found = {0};
        if (nc_control_parse_provider_id(rows[i].text, &found) < 0
                ? rows[i].id != NULL
                : !rows[i].id || !nc_streq(found.id, rows[i].id)
                      || !nc_streq(found.region, rows[i].region))
            fail_msg("row %zu: %s %s", i, found.id, found.region);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off),
        cmocka_unit_test(test_completes),
        cmocka_unit_test(test_actions),
        cmocka_unit_test(test_names_that_prove_it),
        cmocka_unit_test(test_another_nodes_instance),
        cmocka_unit_test(test_provider_ids),
        cmocka_unit_test(test_sources_and_policies),
        cmocka_unit_test(test_every_mode),
        cmocka_unit_test(test_states_of_the_group),
        cmocka_unit_test(test_asked_again),
        cmocka_unit_test(test_of_no_group),
        cmocka_unit_test(test_instance_that_ec2_does_not_know),
        cmocka_unit_test(test_heartbeats),
        cmocka_unit_test(test_heartbeats_end_with_progress),
        cmocka_unit_test(test_heartbeats_end_with_time),
        cmocka_unit_test(test_heartbeats_end_with_the_deadline),
        cmocka_unit_test(test_somebody_else_completed_it),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_denied_heartbeats),
        cmocka_unit_test(test_another_node_is_not_delayed),
        cmocka_unit_test(test_pauses_where_it_is_unavailable),
        cmocka_unit_test(test_the_nodes_own_writes_go_on),
        cmocka_unit_test(test_answer_that_comes_late),
        cmocka_unit_test(test_another_drain),
        cmocka_unit_test(test_another_leader),
        cmocka_unit_test(test_a_node_that_does_not_rest),
        cmocka_unit_test(test_clock_that_is_set_back),
        cmocka_unit_test(test_instances),
    };

    return run_group(tests, NULL, NULL);
}
