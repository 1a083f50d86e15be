/*
 * The pods of our Node: each question is answered exactly once, and no volume is trusted that does
 * not name its claim (tests/integration/test_run_*.py show the rest). The API is a script; pods and
 * their reading are the real ones.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base-test.h"
#include "daemon.h"
#include "groups.h"
#include "log.h"
#include "nc/mem.h"
#include "trace.h"

/* --- the script */

struct nc_watch {
    bool is_open;
};

struct nc_kube_req {
    char path[160];
    nc_kube_done_fn done; /* of a GET */
    void (*asked)(void *userdata, const struct nc_pod_result *a);
    void *userdata;
    bool is_open;
};

static struct {
    struct nc_watch watch;
    struct nc_kube_req reqs[16];
    size_t n_reqs;
    bool refuses; /* nothing can be sent: there is no token */
    struct nc_drain *drain;
} script;

int nc_watch_new(struct nc_kube *k, sd_event *event, const struct nc_watch_options *o,
                 struct nc_watch **ret, struct nc_err *err) {
    (void)k;
    (void)event;
    (void)o;
    (void)err;
    assert_false(script.watch.is_open);
    script.watch.is_open = true;
    *ret = &script.watch;
    return 0;
}

struct nc_watch *nc_watch_free(struct nc_watch *w) {
    if (w)
        w->is_open = false;
    return NULL;
}

void nc_watch_renew(struct nc_watch *w) {
    assert_true(w->is_open);
}

static struct nc_kube_req *add_req(const char *path, void *userdata) {
    struct nc_kube_req *r = &script.reqs[script.n_reqs++];

    assert_true(script.n_reqs <= NC_ARRAY_SIZE(script.reqs));
    *r = (struct nc_kube_req){.userdata = userdata, .is_open = true};
    (void)snprintf(r->path, sizeof(r->path), "%s", path);
    return r;
}

static int refuse(struct nc_err *err) {
    return nc_err_set(err, NC_ERR_TRANSIENT, EAGAIN, "there is no token");
}

int nc_kube_start(struct nc_kube *k, const struct nc_kube_call *c, struct nc_kube_req **ret,
                  struct nc_err *err) {
    (void)k;
    if (script.refuses)
        return refuse(err);
    *ret = add_req(c->path, c->userdata);
    (*ret)->done = c->done;
    say("GET:%s", strrchr(c->path, '/') + 1);
    return 0;
}

int nc_pod_send(struct nc_kube *k, const struct nc_pod_call *c, struct nc_kube_req **ret,
                struct nc_err *err) {
    const struct nc_drain_action *a = c->action;

    (void)k;
    assert_true(c->timeout_usec > 0);
    if (script.refuses)
        return refuse(err);
    *ret = add_req(a->pod->name, c->userdata);
    (*ret)->asked = c->done;
    say("%s:%s", a->verb == NC_DRAIN_DELETE ? "DELETE" : "EVICT", a->pod->name);
    return 0;
}

struct nc_kube_req *nc_kube_cancel(struct nc_kube_req *r) {
    if (r) {
        assert_true(r->is_open);
        r->is_open = false;
        say("cancel:%s", r->path);
    }
    return NULL;
}

uint64_t nc_pod_send_timeout(enum nc_drain_verb verb, unsigned attempt) {
    (void)verb;
    return attempt * 1000000u;
}

/* --- in the place of the daemon */

#define NOW 1767323045000000

uint64_t nc_daemon_now(const struct nc_daemon *d) {
    (void)d;
    return NOW;
}

uint64_t nc_kube_boot_usec(const struct nc_kube *k) {
    (void)k;
    return 0;
}

void nc_api_session_failed(struct nc_daemon *d, const struct nc_err *err) {
    (void)d;
    (void)err;
    say("failed");
}

void nc_api_session_well(struct nc_daemon *d) {
    (void)d;
}

void nc_api_session_note_obstacle(struct nc_daemon *d, enum nc_obstacle which,
                                  const struct nc_err *err) {
    (void)d;
    (void)err;
}

void nc_own_node_refresh(struct nc_daemon *d) {
    (void)d;
    say("look");
}

bool nc_own_node_is_current(struct nc_daemon *d, bool is_deletion) {
    return !d->node.is_stale;
}

void nc_daemon_post(struct nc_daemon *d, struct nc_lifecycle_event *e) {
    (void)d;
    assert_int_equal(e->kind, NC_LIFECYCLE_POD_ANSWER);
    say("%s:%s", nc_pod_answer_name(e->answer->kind), e->uid);
}

/* --- the world */

static const struct nc_drain_rules rules = {.karpenter_drains = true, .max_in_flight = 1};

struct world {
    struct nc_daemon d;
};

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));
    static struct nc_app app;

    memset(&script, 0, sizeof(script));
    assert_int_equal(nc_log_set_level("error"), 0);
    w->d.app = &app;
    w->d.api.step = NC_SESSION_UP;
    w->d.node_name = nc_strdup("node-1");
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_pod_evictor_close(&w->d);
    for (size_t i = 0; i < script.n_reqs; i++)
        assert_false(script.reqs[i].is_open);
    nc_drain_free(script.drain);
    nc_buf_done(&trace);
    free(w->d.node_name);
    free(w);
    return 0;
}

/* `more` is put after the metadata's members, `rest` after the metadata. */
static struct nc_value *pod(const char *name, const char *more, const char *rest) {
    nc_auto_free char *text =
        nc_asprintf("{\"metadata\":{\"namespace\":\"default\",\"name\":\"%s\",\"uid\":\"uid-%s\"%s}"
                    "%s}",
                    name, name, more, rest);

    return json(text);
}

static void ask(struct world *w, enum nc_drain_verb verb, const char *name) {
    char uid[32], own[32];
    struct nc_pod p = {.namespace = uid, .name = own, .uid = uid};
    const struct nc_drain_action a = {.verb = verb, .pod = &p, .grace_sec = 1, .attempt = 1};

    (void)snprintf(uid, sizeof(uid), "uid-%s", name);
    (void)snprintf(own, sizeof(own), "%s", name);
    nc_pod_evictor_send(&w->d, &a);
    memset(uid, 'x', sizeof(uid) - 1); /* the pod is only lent */
}

static void answer(size_t i, enum nc_pod_answer_kind kind) {
    const struct nc_pod_result a = {.answer = {.kind = kind}};

    script.reqs[i].is_open = false;
    script.reqs[i].asked(script.reqs[i].userdata, &a);
}

static void got(size_t i, int http, const char *text) {
    nc_auto_value struct nc_value *v = text ? json(text) : NULL;
    const struct nc_kube_status status = {.http = http};
    const struct nc_err err = {.class = text ? NC_ERR_NONE : NC_ERR_TRANSIENT};

    script.reqs[i].is_open = false;
    script.reqs[i].done(script.reqs[i].userdata, v, &status, &err);
}

/* --- the tests */

/* The Node is read first: what it requested may be withdrawn. */
static void test_node_is_read_first(void **state) {
    struct world *w = *state;

    w->d.node.is_stale = true;
    ask(w, NC_DRAIN_EVICT, "a");
    ask(w, NC_DRAIN_DELETE, "b");
    expect("unsent:uid-a unsent:uid-b");
    w->d.node.is_stale = false;
    ask(w, NC_DRAIN_EVICT, "a");
    expect("EVICT:a");
    answer(0, NC_ANSWER_ACCEPTED);
    expect("accepted:uid-a");
}

static void test_each_question_is_answered_once(void **state) {
    struct world *w = *state;

    ask(w, NC_DRAIN_EVICT, "a");
    ask(w, NC_DRAIN_EVICT, "b");
    ask(w, NC_DRAIN_DELETE, "c");
    expect("EVICT:a EVICT:b DELETE:c");
    answer(1, NC_ANSWER_BUDGET);
    answer(0, NC_ANSWER_ACCEPTED);
    answer(2, NC_ANSWER_GONE);
    expect("budget:uid-b accepted:uid-a gone:uid-c");
    assert_null(w->d.pods.requests);
    assert_int_equal(w->d.counters.answers[NC_DRAIN_EVICT][NC_ANSWER_BUDGET], 1);
    assert_int_equal(w->d.counters.answers[NC_DRAIN_DELETE][NC_ANSWER_GONE], 1);
}

static void test_what_cannot_be_sent_is_unavailable(void **state) {
    struct world *w = *state;

    w->d.api.step = NC_SESSION_DOWN;
    ask(w, NC_DRAIN_EVICT, "a");
    w->d.api.step = NC_SESSION_UP;
    script.refuses = true;
    ask(w, NC_DRAIN_EVICT, "b");
    expect("away:uid-a failed away:uid-b");
    assert_null(w->d.pods.requests);
}

static void test_questions_outlast_the_watch(void **state) {
    struct world *w = *state;

    nc_pod_evictor_open(&w->d);
    ask(w, NC_DRAIN_EVICT, "a");
    nc_pod_evictor_unwatch(&w->d);
    assert_false(script.watch.is_open);
    nc_pod_evictor_open(&w->d);
    answer(0, NC_ANSWER_ACCEPTED);
    expect("EVICT:a accepted:uid-a");
}

static void test_closing_answers_what_is_in_flight(void **state) {
    struct world *w = *state;

    nc_pod_evictor_open(&w->d);
    ask(w, NC_DRAIN_EVICT, "a");
    ask(w, NC_DRAIN_DELETE, "b");
    expect("EVICT:a DELETE:b");
    nc_pod_evictor_close(&w->d);
    expect("cancel:b away:uid-b cancel:a away:uid-a");
    assert_false(script.watch.is_open);
}

static void test_stuck(void **state) {
    struct world *w = *state;
    const uint64_t now = nc_mono_usec();

    ask(w, NC_DRAIN_EVICT, "a");
    assert_false(nc_pod_evictor_is_stuck(&w->d, now + 2000000));
    assert_true(nc_pod_evictor_is_stuck(&w->d, nc_mono_usec() + 2000001));
    answer(0, NC_ANSWER_UNAVAILABLE);
    assert_false(nc_pod_evictor_is_stuck(&w->d, UINT64_MAX));
}

/* --- volumes */

#define CLAIM(name)                                                                                \
    ",\"spec\":{\"volumes\":[{\"persistentVolumeClaim\":{\"claimName\":\"" name "\"}}]"
#define TOLERATES ",\"tolerations\":[{\"operator\":\"Exists\"}]"

static void put(const char *name, const char *rest) {
    nc_auto_value struct nc_value *v = pod(name, "", rest);
    struct nc_pod p = {0};
    struct nc_err err = NC_ERR_INIT;

    if (!script.drain)
        script.drain = nc_drain_new();
    assert_int_equal(nc_pod_read(v, &p, &err), 0);
    assert_int_equal(nc_drain_see(script.drain, &p, NOW), 0);
}

/* Any claim may name any volume: only that is trusted which names the claim, too. */
static void test_volume_of_another_claim(void **state) {
    struct world *w = *state;

    put("stays", CLAIM("data-2") TOLERATES "}");
    nc_pod_evictor_query_volumes(&w->d, script.drain, &rules);
    got(0, 200, "{\"spec\":{\"volumeName\":\"pv-9\"}}");
    got(1, 200,
        "{\"spec\":{\"claimRef\":{\"namespace\":\"default\",\"name\":\"data-9\"},"
        "\"csi\":{\"driver\":\"ebs.csi.aws.com\",\"volumeHandle\":\"vol-9\"}}}");
    expect("GET:data-2 GET:pv-9");
    assert_int_equal(w->d.pods.staying_volumes.n, 0);
    assert_null(w->d.pods.volume_requests);
}

/* A refusal is tolerated and final; what may pass is requested again. */
static void test_volumes_that_cannot_be_read(void **state) {
    struct world *w = *state;

    put("one", CLAIM("data-1") TOLERATES "}");
    nc_pod_evictor_query_volumes(&w->d, script.drain, &rules);
    got(0, 403, NULL);
    nc_pod_evictor_query_volumes(&w->d, script.drain, &rules);
    expect("GET:data-1");
    put("two", CLAIM("data-2") TOLERATES "}");
    nc_pod_evictor_query_volumes(&w->d, script.drain, &rules);
    got(1, 503, NULL);
    nc_pod_evictor_query_volumes(&w->d, script.drain, &rules);
    expect("GET:data-2 GET:data-2");
    got(2, 200, "{\"spec\":{\"volumeName\":\"../../secrets/x\"}}");
    expect("");
    assert_int_equal(w->d.pods.staying_volumes.n, 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(test_node_is_read_first),
        TEST(test_each_question_is_answered_once),
        TEST(test_what_cannot_be_sent_is_unavailable),
        TEST(test_questions_outlast_the_watch),
        TEST(test_closing_answers_what_is_in_flight),
        TEST(test_stuck),
        TEST(test_volume_of_another_claim),
        TEST(test_volumes_that_cannot_be_read),
    };

    return run_group(tests, NULL, NULL);
}
