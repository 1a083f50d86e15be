/*
 * What a drain asks of an API server, over the real transport.
 */
#include "groups.h"
#include "kube-world.h"

#include <signal.h>

/* The pods of a drain, as a watch has them that keeps little of each. */
struct seen {
    struct observed h;
    char uid[2][64];
    bool is_marked[2], is_leaving[2];
};

static void on_pod(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct seen *s = userdata;
    const char *name = nc_value_string(nc_value_path(object, "metadata.name"));
    const char *uid = nc_value_string(nc_value_path(object, "metadata.uid"));
    const size_t i = name && nc_ends_with(name, "1");

    observed_event(&s->h, event, object);
    assert_null(nc_value_path(object, "spec"));
    if (uid)
        snprintf(s->uid[i], sizeof(s->uid[i]), "%s", uid);
    s->is_marked[i] = s->is_marked[i] || nc_node_condition(object, "DisruptionTarget");
    s->is_leaving[i] = s->is_leaving[i] || nc_node_is_being_deleted(object);
}

static void on_pod_answer(void *userdata, const struct nc_pod_result *a) {
    *(struct nc_pod_result *)userdata = *a;
}

static void ask(enum nc_drain_verb verb, const char *name, const char *uid,
                enum nc_pod_answer_kind wanted) {
    const struct nc_pod pod = {.namespace = (char[]){"shop"},
                               .name = (char *)(uintptr_t)name,
                               .uid = (char *)(uintptr_t)uid};
    const struct nc_drain_action a = {.verb = verb, .pod = &pod, .grace_sec = 5, .attempt = 1};
    struct nc_pod_result asked = {0};
    const struct nc_pod_call call = {.action = &a,
                                     .now_usec = 1700000000000000u,
                                     .timeout_usec = TIMEOUT,
                                     .done = on_pod_answer,
                                     .userdata = &asked};
    struct nc_err err = NC_ERR_INIT;

    if (nc_pod_send(world.kube, &call, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    while (!asked.answer.kind)
        assert_true(sd_event_run(world.loop, 2 * TIMEOUT) > 0);
    if (asked.answer.kind != wanted)
        fail_msg("%s: %s", nc_pod_answer_name(asked.answer.kind), asked.answer.message);
    assert_int_equal(asked.class, NC_ERR_NONE);
}

static void test_pods(void **state) {
    static const char keep[] = "metadata.deletionTimestamp\0status.conditions\0";
    struct seen s = {0};
    const struct nc_watch_options o = {.path = "/api/v1/pods",
                                       .selector = "fieldSelector=spec.nodeName%3Dnode-a",
                                       .keep = keep,
                                       .event = on_pod,
                                       .failed = observed_failure,
                                       .userdata = &s};
    struct nc_watch *w = NULL;

    (void)state;
    assert_int_equal(nc_watch_new(world.kube, world.loop, &o, &w, NULL), 0);
    world_wait_for("the list", &s.h.synced, 1);
    assert_int_equal(s.h.added, 2);
    ask(NC_DRAIN_MARK, "web-0", s.uid[0], NC_ANSWER_ACCEPTED);
    world_wait_for("the mark", &s.h.modified, 1);
    assert_true(s.is_marked[0] && !s.is_leaving[0]);
    ask(NC_DRAIN_EVICT, "web-0", s.uid[1], NC_ANSWER_GONE); /* another pod's uid */
    ask(NC_DRAIN_DELETE, "web-1", s.uid[0], NC_ANSWER_GONE);
    ask(NC_DRAIN_EVICT, "web-2", s.uid[0], NC_ANSWER_GONE);
    ask(NC_DRAIN_EVICT, "web-0", s.uid[0], NC_ANSWER_ACCEPTED);
    ask(NC_DRAIN_DELETE, "web-1", s.uid[1], NC_ANSWER_ACCEPTED);
    while (!s.is_leaving[0] || !s.is_leaving[1])
        world_wait_for("the pods to leave", &s.h.modified, s.h.modified + 1);
    nc_watch_free(w);
}

static void on_written(void *userdata, const struct nc_node_written *w) {
    struct nc_node_view *v = userdata;

    if (w->outcome != NC_WRITTEN)
        fail_msg("%s", w->err.msg);
    nc_node_view_apply(v, w->node, NULL);
}

static void on_sent(void *userdata, const struct nc_value *object,
                    const struct nc_kube_status *status, const struct nc_err *err) {
    (void)object;
    assert_true(err->class == NC_ERR_NONE || nc_event_exists(status));
    ++*(unsigned *)userdata;
}

static void test_writes(void **state) {
    const struct nc_node_write signal = {.kind = NC_WRITE_SIGNAL,
                                         .sets_status = true,
                                         .drain_status = (char[]){"{}"},
                                         .unschedulable = -1,
                                         .balancers_label = -1,
                                         .pending = {true, true, "NodeShutdown", (char[]){"now"}}};
    const struct nc_node_write cordon = {.kind = NC_WRITE_CORDON,
                                         .sets_cordon = true,
                                         .cordon = (char[]){"{}"},
                                         .unschedulable = 1,
                                         .balancers_label = 1};
    const struct nc_event e = {.kind = "Node",
                               .api_version = "v1",
                               .name = "node-a",
                               .uid = "node-a",
                               .reason = "NodeCordoned",
                               .message = "x",
                               .host = "node-a",
                               .first_usec = 1700000000000000u};
    struct nc_node_view v = {0};
    struct nc_node_call call = {.node = "node-a",
                                .write = &signal,
                                .now_usec = 1700000000000000u,
                                .timeout_usec = TIMEOUT,
                                .done = on_written,
                                .userdata = &v};
    unsigned sent = 0;
    const struct nc_event_receiver to = {.done = on_sent, .userdata = &sent};
    struct nc_kube_req *req = NULL;

    (void)state;
    assert_int_equal(nc_node_send(world.kube, &call, NULL, NULL), 0);
    while (!v.is_complete)
        assert_true(sd_event_run(world.loop, TIMEOUT) > 0);
    assert_true(v.is_pending_true && v.has_status && !v.is_unschedulable);
    call.write = &cordon;
    assert_int_equal(nc_node_send(world.kube, &call, NULL, NULL), 0);
    while (!v.is_unschedulable)
        assert_true(sd_event_run(world.loop, TIMEOUT) > 0);
    assert_true(v.has_cordon_record && v.is_balancers_label_ours && v.is_pending_true);
    for (unsigned i = 1; i <= 2; i++) { /* the second one is there already */
        assert_int_equal(nc_event_start(world.kube, &e, &to, &req, NULL), 0);
        world_wait_for("the Event", &sent, i);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_writes),
    };

    signal(SIGPIPE, SIG_IGN);
    return run_group(tests, world_set_up, world_tear_down);
}
