/*
 * Events: what is sent, when, how often, and what is dropped. The API server is a script.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "daemon.h"
#include "log.h"
#include "nc/mem.h"

#define MAX_REQS 600
#define SEC 1000000ull

struct nc_kube_req {
    char method[8], path[128], name[64], object[64], message[160];
    bool is_open;
    nc_kube_done_fn done;
    void *userdata;
};

static struct {
    struct nc_kube_req reqs[MAX_REQS];
    size_t n;
    bool refuses;
    uint64_t now_usec;
} script;

int nc_kube_start(struct nc_kube *k, const struct nc_kube_call *c, struct nc_kube_req **ret,
                  struct nc_err *err) {
    struct nc_kube_req *r = &script.reqs[script.n];

    (void)k;
    if (script.refuses)
        return nc_err_set(err, NC_ERR_TRANSIENT, EAGAIN, "there is no token");
    assert_true(++script.n < MAX_REQS);
    (void)snprintf(r->method, sizeof(r->method), "%s", c->method);
    (void)snprintf(r->path, sizeof(r->path), "%s", c->path);
    (void)snprintf(r->message, sizeof(r->message), "%s", nc_value_get_string(c->body, "message"));
    if (strcmp(c->method, "POST") == 0) {
        (void)snprintf(r->name, sizeof(r->name), "%s",
                       nc_value_path_string(c->body, "metadata.name"));
        (void)snprintf(r->object, sizeof(r->object), "%s/%s",
                       nc_value_path_string(c->body, "involvedObject.kind"),
                       nc_value_path_string(c->body, "involvedObject.name"));
        assert_non_null(nc_value_path_string(c->body, "involvedObject.uid"));
    }
    r->is_open = true;
    r->done = c->done;
    r->userdata = c->userdata;
    *ret = r;
    return 0;
}

struct nc_kube_req *nc_kube_cancel(struct nc_kube_req *r) {
    if (r)
        r->is_open = false;
    return NULL;
}

int nc_kube_perform(struct nc_kube *k, const struct nc_kube_call *c, struct nc_value **ret_object,
                    struct nc_kube_status *ret_status, struct nc_err *err) {
    (void)k;
    (void)c;
    (void)ret_object;
    (void)ret_status;
    return nc_err_set(err, NC_ERR_BUG, EINVAL, "nothing waits here");
}

uint64_t nc_daemon_now(const struct nc_daemon *d) {
    (void)d;
    return script.now_usec;
}

struct world {
    struct nc_app app;
    struct nc_daemon d;
};

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    memset(&script, 0, sizeof(script));
    script.now_usec = 1000 * SEC;
    assert_int_equal(nc_log_set_level("error"), 0);
    assert_int_equal(sd_event_new(&w->app.event), 0);
    w->d.app = &w->app;
    w->d.api.step = NC_SESSION_UP;
    w->d.node_name = nc_strdup("node-1");
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_event_queue_done(&w->d);
    for (size_t i = 0; i < script.n; i++)
        assert_false(script.reqs[i].is_open);
    sd_event_unref(w->app.event);
    free(w->d.node_name);
    free(w);
    return 0;
}

static void add(struct world *w, unsigned i, uint64_t deadline_usec) {
    char name[32], uid[32];
    const struct nc_event e = {.kind = "Pod",
                               .api_version = "v1",
                               .namespace = "team-a",
                               .name = name,
                               .uid = uid,
                               .is_once = true,
                               .reason = "NodeDraining",
                               .message = "why",
                               .count = 1};

    (void)snprintf(name, sizeof(name), "pod-%u", i);
    (void)snprintf(uid, sizeof(uid), "uid-%u", i);
    nc_event_queue_add(&w->d, &e, deadline_usec);
}

/* Of the Node, reported for the count-th time. */
static void report(struct world *w, const char *message, unsigned count) {
    const struct nc_event e = {.kind = "Node",
                               .api_version = "v1",
                               .reason = "DrainBlocked",
                               .message = message,
                               .first_usec = 7 * SEC,
                               .last_usec = count * SEC,
                               .count = count,
                               .is_there = count > 1};

    nc_event_queue_add(&w->d, &e, 0);
}

static void got(size_t i, int http) {
    struct nc_kube_status status = {.http = http};
    const struct nc_err err = {.class = http >= 200 && http < 300 ? NC_ERR_NONE : NC_ERR_TRANSIENT};

    (void)snprintf(status.reason, sizeof(status.reason), "%s", http == 409 ? "AlreadyExists" : "");
    assert_true(script.reqs[i].is_open);
    script.reqs[i].is_open = false;
    script.reqs[i].done(script.reqs[i].userdata, NULL, &status, &err);
}

/* Lets the pause after a failure pass. */
static void retry(struct world *w) {
    assert_true(w->d.events.not_before_usec > 0);
    w->d.events.not_before_usec = 0;
    nc_event_queue_send(&w->d);
}

static void test_of_a_pod(void **state) {
    struct world *w = *state;
    char first[64];

    add(w, 1, 1600 * SEC);
    assert_int_equal(script.n, 0); /* not before what else is to be done */
    assert_true(sd_event_run(w->app.event, 1000000) > 0);
    assert_int_equal(script.n, 1);
    assert_string_equal(script.reqs[0].path, "/api/v1/namespaces/team-a/events");
    assert_string_equal(script.reqs[0].object, "Pod/pod-1");
    (void)snprintf(first, sizeof(first), "%s", script.reqs[0].name);
    got(0, 201);
    assert_int_equal(w->d.counters.pod_events_sent, 1);
    assert_int_equal(w->d.events.n, 0);
    add(w, 1, 0); /* another process, later: the same name, and the API server has it already */
    nc_event_queue_send(&w->d);
    assert_string_equal(script.reqs[1].name, first);
    got(1, 409);
    assert_int_equal(w->d.counters.pod_events_sent, 2);
    assert_int_equal(w->d.events.n, 0);
}

/* At once, whatever is in flight; what an outage or a 502 took is told after it, the last of a row
 * of the same alone. */
static void test_of_the_node(void **state) {
    struct world *w = *state;

    w->d.pods.requests = (struct nc_pod_request *)w; /* nobody looks into it */
    add(w, 1, 0);
    nc_event_queue_send(&w->d);
    report(w, "first", 1);
    assert_int_equal(script.n, 2);
    assert_string_equal(script.reqs[1].object, "Node/node-1");
    got(1, 502);
    report(w, "second", 2);
    assert_int_equal(script.n, 2); /* a pause */
    w->d.api.step = NC_SESSION_UP + 1;
    nc_event_queue_pause(&w->d);
    report(w, "third", 3);
    assert_int_equal(w->d.events.n, 2);
    script.now_usec += 3599 * SEC;
    w->d.api.step = NC_SESSION_UP;
    retry(w);
    assert_int_equal(script.n, 3); /* the pod's time was over */
    assert_string_equal(script.reqs[2].message, "third");
    assert_string_equal(script.reqs[2].name, script.reqs[1].name);
    got(2, 201);
    report(w, "fourth", 4);
    assert_string_equal(script.reqs[3].method, "PATCH");
    assert_non_null(strstr(script.reqs[3].path, script.reqs[1].name));
    got(3, 404); /* its hour was over */
    nc_event_queue_send(&w->d);
    assert_string_equal(script.reqs[4].method, "POST");
    got(4, 201);
    assert_int_equal(w->d.events.n, 0);
    assert_int_equal(w->d.counters.pod_events_sent, 0);
}

static void test_unwanted(void **state) {
    struct world *w = *state;

    w->d.api.step = NC_SESSION_DOWN;
    report(w, "before the configuration is known", 1);
    assert_int_equal(w->d.events.n, 1);
    w->d.api.step = NC_SESSION_UP;
    w->d.gather.has_config = true;
    nc_event_queue_send(&w->d);
    report(w, "after", 2);
    report(w, "after", 1);
    assert_int_equal(w->d.events.n, 1);
    w->d.gather.config.report_events = w->d.node.is_foreign = true;
    nc_event_queue_send(&w->d);
    assert_int_equal(script.n, 0);
    w->d.node.is_foreign = false;
    w->d.node.is_unread = true;
    nc_event_queue_send(&w->d);
    assert_int_equal(script.n, 0);
    w->d.node.is_unread = false;
    nc_event_queue_send(&w->d);
    assert_int_equal(script.n, 1);
    got(0, 403);
    assert_int_equal(w->d.events.n, 0);
}

static void test_behind_evictions(void **state) {
    struct world *w = *state;

    for (unsigned i = 0; i < 9; i++)
        add(w, i, 0);
    w->d.pods.requests = (struct nc_pod_request *)w; /* nobody looks into it */
    nc_event_queue_send(&w->d);
    assert_int_equal(script.n, 1);
    nc_event_queue_send(&w->d);
    assert_int_equal(script.n, 1);
    w->d.pods.requests = NULL;
    nc_event_queue_send(&w->d);
    assert_int_equal(script.n, 4);
    got(2, 201);
    nc_event_queue_send(&w->d);
    assert_int_equal(script.n, 5);
}

static void test_bounded(void **state) {
    struct world *w = *state;

    for (unsigned i = 0; i < NC_POD_EVENTS_MAX + 3; i++)
        add(w, i, 0);
    assert_int_equal(w->d.events.n, NC_POD_EVENTS_MAX);
    assert_int_equal(w->d.counters.pod_events_dropped, 3);
    for (size_t i = 0; i < NC_POD_EVENTS_MAX; i++) {
        nc_event_queue_send(&w->d);
        got(i, 201);
    }
    assert_int_equal(w->d.counters.pod_events_sent, NC_POD_EVENTS_MAX);
}

static void test_unavailable(void **state) {
    struct world *w = *state;

    add(w, 1, 1060 * SEC);
    add(w, 2, 0);
    nc_event_queue_send(&w->d);
    got(0, 503);
    got(1, 0);
    assert_int_equal(w->d.events.n, 2);
    nc_event_queue_send(&w->d); /* a pause */
    assert_int_equal(script.n, 2);
    retry(w);
    assert_int_equal(script.n, 4);
    w->d.api.step = NC_SESSION_UP + 1;
    nc_event_queue_pause(&w->d); /* the connection goes with what is in flight */
    assert_false(script.reqs[2].is_open);
    nc_event_queue_send(&w->d);
    assert_int_equal(script.n, 4);
    script.now_usec = 1060 * SEC; /* the deadline of one */
    nc_event_queue_send(&w->d);
    assert_int_equal(w->d.events.n, 1);
    assert_int_equal(w->d.counters.pod_events_dropped, 1);
    script.now_usec = 1600 * SEC; /* ten minutes of the other */
    nc_event_queue_send(&w->d);
    assert_int_equal(w->d.events.n, 0);
    assert_int_equal(w->d.counters.pod_events_dropped, 2);
}

static void test_refused(void **state) {
    struct world *w = *state;

    add(w, 1, 0);
    add(w, 2, 0);
    nc_event_queue_send(&w->d);
    got(0, 403); /* the namespace is terminating */
    got(1, 429);
    assert_int_equal(w->d.events.n, 1);
    assert_int_equal(w->d.counters.pod_events_dropped, 1);
    script.refuses = true;
    retry(w);
    assert_int_equal(w->d.events.n, 1);
    assert_int_equal(script.n, 2);
    script.refuses = false;
    retry(w);
    got(2, 201);
    assert_int_equal(w->d.events.n, 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(test_of_a_pod),         TEST(test_of_the_node), TEST(test_unwanted),
        TEST(test_behind_evictions), TEST(test_bounded),     TEST(test_unavailable),
        TEST(test_refused),
    };

    return run_group(tests, NULL, NULL);
}
