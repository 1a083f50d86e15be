/*
 * What the controller asks of an API server, over the real transport: a collection in pages while
 * the server fails and forgets, writes with their preconditions, a Lease that changes hands.
 */
#include "groups.h"
#include "kube-world.h"

#include <signal.h>

#include "nc/kube-control.h"
#include "nc/names.h"

#define MORE_NODES 1200u
#define CLAIMS "/apis/karpenter.sh/v1/nodeclaims"
#define NAMESPACE "kube-system"

static struct nc_kube *kube;

static int set_up(void **state) {
    int r;

    world_more_nodes = MORE_NODES;
    r = world_set_up(state);
    kube = r == 0 ? world_controller() : NULL;
    return r;
}

static int tear_down(void **state) {
    kube = nc_kube_free(kube);
    return world_tear_down(state);
}

/* ---- writes */

/* JSON with ' for "; consumes the text. */
static struct nc_value *parse_owned(char *from) {
    nc_auto_free char *text = from;
    struct nc_value *v = NULL;

    for (char *p = text; *p; p++)
        if (*p == '\'')
            *p = '"';
    assert_int_equal(nc_json_parse(text, strlen(text), &v, NULL), 0);
    return v;
}

static void on_sent(void *userdata, const struct nc_control_sent *s) {
    *(struct nc_control_sent *)userdata = *s;
}

#define parse(...) parse_owned(nc_asprintf(__VA_ARGS__))

/* Sends it with `body` (consumed) and expects the answer. */
static void send_body(enum nc_control_verb verb, const char *name, struct nc_value *body,
                      enum nc_control_answer wanted) {
    const struct nc_control_action a = {
        .verb = verb, .id = 7, .name = (char *)(uintptr_t)name, .body = body};
    struct nc_control_sent sent = {0};
    const struct nc_control_call call = {.claims_path = CLAIMS,
                                         .action = &a,
                                         .now_usec = 1700000000000000u,
                                         .timeout_usec = TIMEOUT,
                                         .done = on_sent,
                                         .userdata = &sent};
    struct nc_err err = NC_ERR_INIT;

    if (nc_control_send(kube, &call, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    while (!sent.answer)
        assert_true(sd_event_run(world.loop, 2 * TIMEOUT) > 0);
    nc_value_free(body);
    if (sent.answer != wanted)
        fail_msg("%d: %s", (int)sent.answer, sent.err.msg);
}

/* uid and resourceVersion as they are now; owned. */
static struct nc_value *look(const char *path) {
    const struct nc_kube_call call = {
        .what = "get", .method = "GET", .path = path, .timeout_usec = TIMEOUT};
    struct nc_value *object = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_kube_perform(world.kube, &call, &object, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return object;
}

static void test_writes(void **state) {
    nc_auto_value struct nc_value *claim = look(CLAIMS "/default-x7k2q");
    nc_auto_value struct nc_value *node = look("/api/v1/nodes/node-a");
    const char *uid = nc_value_string(nc_value_path(claim, "metadata.uid"));
    const char *version = nc_value_string(nc_value_path(node, "metadata.resourceVersion"));

    (void)state;
    send_body(NC_CONTROL_SET_TIMESTAMP, "default-x7k2q",
              parse("{'metadata':{'uid':'%s','annotations':{'%s':'2026-11-22T00:00:00Z'}}}", uid,
                    NC_ANNOTATION_TERMINATION_TIMESTAMP),
              NC_CONTROL_DONE);
    send_body(NC_CONTROL_SET_TIMESTAMP, "default-x7k2q",
              parse("{'metadata':{'uid':'%s','annotations':{'%s':'2001-01-01T00:00:00Z'}}}",
                    "7f3c6e1f-5a2d-4c8e-9f10-000000000000", NC_ANNOTATION_TERMINATION_TIMESTAMP),
              NC_CONTROL_MISSING);
    send_body(NC_CONTROL_PATCH_NODE, "node-a",
              parse("{'metadata':{'resourceVersion':'%s'},'spec':{'taints':[{'key':'%s','effect':"
                    "'NoSchedule'}]}}",
                    version, "karpenter.sh/disrupted"),
              NC_CONTROL_DONE);
    send_body(NC_CONTROL_PATCH_NODE, "node-a",
              parse("{'metadata':{'resourceVersion':'%s'},'spec':{'taints':%s}}", version, "[]"),
              NC_CONTROL_CONFLICT);
    send_body(NC_CONTROL_PATCH_NODE, "node-z",
              parse("{'metadata':{'labels':{'%s':'%s'}}}", "a", "b"), NC_CONTROL_MISSING);
    send_body(NC_CONTROL_DELETE_CLAIM, "default-x7k2q",
              parse("{'kind':'DeleteOptions','apiVersion':'v1','preconditions':{'uid':'%s%s'}}",
                    "7f3c6e1f-5a2d-4c8e-9f10-000000000000", ""),
              NC_CONTROL_MISSING);
    send_body(
        NC_CONTROL_DELETE_CLAIM, "default-x7k2q",
        parse("{'kind':'DeleteOptions','apiVersion':'v1','preconditions':{'uid':'%s%s'}}", uid, ""),
        NC_CONTROL_DONE);
    send_body(
        NC_CONTROL_DELETE_CLAIM, "default-x7k2q",
        parse("{'kind':'DeleteOptions','apiVersion':'v1','preconditions':{'uid':'%s%s'}}", uid, ""),
        NC_CONTROL_MISSING);
    world_turn("PUT", "/faults", "[{\"kind\":\"status\",\"method\":\"PATCH\",\"status\":429}]");
    send_body(NC_CONTROL_PATCH_NODE, "node-a",
              parse("{'metadata':{'labels':{'%s':'%s'}}}", "a", "b"), NC_CONTROL_UNAVAILABLE);
    world_turn("POST", "/heal", NULL);
}

/* ---- pages */

struct pages {
    struct observed h;
    unsigned char seen[MORE_NODES];
};

static void on_node(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    const char *name = nc_value_string(nc_value_path(object, "metadata.name"));
    struct pages *p = userdata;

    observed_event(&p->h, event, object);
    assert_null(nc_value_get(object, "spec"));
    if (event == NC_WATCH_ADDED && nc_starts_with(name, "more-"))
        p->seen[atoi(name + 5)]++;
}

/* The second page fails again and again; meanwhile a Node changes and the server forgets what the
 * pages belonged to: the list starts over, each Node is told once, and what has changed is told. */
static void test_pages(void **state) {
    static const char keep[] = "metadata.labels\0";
    struct pages p = {0};
    const struct nc_watch_options o = {.path = "/api/v1/nodes",
                                       .metadata_only = true,
                                       .keep = keep,
                                       .reports_once = true,
                                       .event = on_node,
                                       .failed = observed_failure,
                                       .userdata = &p};
    struct nc_watch *w = NULL;

    (void)state;
    world_turn("PUT", "/faults", "[{\"kind\":\"status\",\"path\":\"continue=\"}]");
    assert_int_equal(nc_watch_new(kube, world.loop, &o, &w, NULL), 0);
    world_wait_for("the failure of a page", &p.h.failed, 2);
    assert_int_equal(p.h.added, 500);
    send_body(NC_CONTROL_PATCH_NODE, "more-000001",
              parse("{'metadata':{'labels':{'%s':'%s'}}}", "changed", "yes"), NC_CONTROL_DONE);
    world_turn("POST", "/compact", NULL);
    world_turn("POST", "/heal", NULL);
    world_wait_for("the list", &p.h.synced, 1);
    assert_int_equal(p.h.added, MORE_NODES + 1);
    assert_int_equal(p.h.modified, 1);
    assert_int_equal(p.h.deleted, 0);
    for (unsigned i = 0; i < MORE_NODES; i++)
        assert_int_equal(p.seen[i], 1);
    send_body(NC_CONTROL_PATCH_NODE, "more-001199",
              parse("{'metadata':{'labels':{'%s':'%s'}}}", "changed", "yes"), NC_CONTROL_DONE);
    world_wait_for("a change of the last", &p.h.modified, 2);
    nc_watch_free(w);
}

/* ---- leadership */

struct replica {
    struct nc_leader *leader;
    unsigned begun, ended, released;
};

static void on_changed(void *userdata, bool leads) {
    struct replica *r = userdata;

    r->begun += leads;
    r->ended += !leads;
}

static void on_released(void *userdata) {
    struct replica *r = userdata;

    r->released++;
}

static void on_lease_answer(void *userdata, bool is_write, const struct nc_err *err) {
    assert_int_equal(err->class, NC_ERR_NONE);
}

static void begin(struct replica *r, const char *identity) {
    const struct nc_leader_options o = {.namespace = NAMESPACE,
                                        .name = "nodeclaim-controller",
                                        .rules = {.identity = identity, .retry_usec = 50000},
                                        .changed = on_changed,
                                        .answered = on_lease_answer,
                                        .userdata = r};

    assert_int_equal(nc_leader_new(kube, world.loop, &o, &r->leader, NULL), 0);
}

static void test_leaders(void **state) {
    struct replica a = {0}, b = {0};

    (void)state;
    begin(&a, "a");
    world_wait_for("the first", &a.begun, 1);
    begin(&b, "b");
    while (strcmp(nc_leader_holder(b.leader), "a") != 0)
        assert_true(sd_event_run(world.loop, 2 * TIMEOUT) > 0);
    assert_int_equal(b.begun, 0);
    nc_leader_release(a.leader, TIMEOUT, on_released, &a);
    world_wait_for("the release", &a.released, 1);
    world_wait_for("the second", &b.begun, 1); /* at once: a Lease lasts longer than the test */
    assert_int_equal(a.ended, 1);
    assert_int_equal(b.ended, 0);
    nc_leader_free(a.leader);
    nc_leader_release(b.leader, TIMEOUT, on_released, &b);
    world_wait_for("the release of the second", &b.released, 1);
    nc_leader_free(b.leader);
}

/* ---- who else is there */

struct looked {
    unsigned n;
    enum nc_control_mode mode;
    char claims[100];
};

static void on_found(void *userdata, const struct nc_karpenter_found *f) {
    struct looked *l = userdata;

    l->n++;
    l->mode = f->mode;
    snprintf(l->claims, sizeof(l->claims), "%s", f->claims_path ? f->claims_path : "");
}

static void on_scan_failed(void *userdata, const struct nc_err *err) {
    fail_msg("%s", err->msg);
}

static void test_karpenter(void **state) {
    struct looked l = {0};
    const struct nc_karpenter_options o = {
        .changed = on_found, .failed = on_scan_failed, .userdata = &l};
    struct nc_karpenter *p = NULL;

    (void)state;
    assert_int_equal(nc_karpenter_scan(kube, world.loop, &o, &p, NULL), 0);
    world_wait_for("a look", &l.n, 1);
    assert_int_equal(l.mode, NC_CONTROL_STANDALONE);
    assert_string_equal(l.claims, CLAIMS);
    nc_karpenter_free(p);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_pages),
        cmocka_unit_test(test_leaders),
        cmocka_unit_test(test_karpenter),
    };

    signal(SIGPIPE, SIG_IGN);
    return run_group(tests, set_up, tear_down);
}
