/*
 * The pods of our Node: what the watch shows becomes events, each question is answered exactly
 * once, the volumes of pods that stay are found, and what a shutdown left is deleted. The API is a
 * script; pods and their reading are the real ones.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "groups.h"
#include "log.h"
#include "nc/str.h"
#include "pods.h"

/* --- the script */

struct nc_watch {
    struct nc_watch_options o;
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
    struct nc_watch watches[2]; /* all pods; the failed ones */
    struct nc_kube_req reqs[16];
    size_t n_reqs;
    bool refuses; /* nothing can be sent: there is no token */
    struct nc_drain *drain;
    bool is_cleaned_up;
    struct nc_buf trace;
    bool is_dated;
    int64_t ahead_usec;     /* the API server's clock, of EC2's */
    uint64_t deletion_usec; /* of the last pod that was posted */
} script;

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...) {
    nc_auto_free char *text = NULL;
    va_list ap;

    va_start(ap, format);
    text = nc_vasprintf(format, ap);
    va_end(ap);
    (void)nc_buf_printf(&script.trace, "%s%s", script.trace.len ? " " : "", text);
}

static void expect(const char *trace) {
    assert_string_equal(script.trace.data ? script.trace.data : "", trace);
    nc_buf_clear(&script.trace);
}

int nc_watch_new(struct nc_kube *k, sd_event *event, const struct nc_watch_options *o,
                 struct nc_watch **ret, struct nc_err *err) {
    struct nc_watch *w = &script.watches[strstr(o->selector, "phase%3DFailed") ? 1 : 0];

    (void)k;
    (void)event;
    (void)err;
    assert_string_equal(o->path, "/api/v1/pods");
    assert_string_equal(o->selector, w == &script.watches[0]
                                         ? "fieldSelector=spec.nodeName%3Dnode-1%2Cstatus.phase%21"
                                           "%3DSucceeded%2Cstatus.phase%21%3DFailed"
                                         : "fieldSelector=spec.nodeName%3Dnode-1%2Cstatus.phase%3D"
                                           "Failed");
    assert_ptr_equal(o->keep, nc_pod_paths);
    assert_false(w->is_open);
    w->o = *o;
    w->is_open = true;
    *ret = w;
    return 0;
}

struct nc_watch *nc_watch_free(struct nc_watch *w) {
    if (w)
        w->is_open = false;
    return NULL;
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

static uint64_t now_of(void *userdata) {
    (void)userdata;
    return 1767323045000000;
}

uint64_t nc_kube_boot_usec(const struct nc_kube *k) {
    (void)k;
    return script.is_dated ? now_of(NULL) - nc_boot_usec() + (uint64_t)script.ahead_usec : 0;
}

void nc_api_session_failed(struct nc_api_session *s, const struct nc_err *err) {
    (void)s;
    (void)err;
    say("failed");
}

void nc_api_session_well(struct nc_api_session *s) {
    (void)s;
}

void nc_api_session_note_pods(struct nc_api_session *s, const struct nc_err *err) {
    (void)s;
    (void)err;
}

static void on_volume_found(void *userdata) {
    (void)userdata;
    say("look");
}

static void on_cleaned_up(void *userdata) {
    (void)userdata;
    script.is_cleaned_up = true;
}

static void post_event(void *userdata, struct nc_life_event *e) {
    (void)userdata;
    if (e->kind == NC_LIFE_POD) {
        script.deletion_usec = e->pod->deletion_usec;
        say("POD:%s", e->pod->uid);
        nc_pod_done(e->pod);
    } else if (e->kind == NC_LIFE_POD_GONE) {
        say("GONE:%s", e->uid);
    } else if (e->kind == NC_LIFE_POD_UNREADABLE) {
        say("UNREADABLE");
    } else if (e->kind == NC_LIFE_PODS_SYNCED) {
        say("SYNCED");
    } else if (e->kind == NC_LIFE_POD_ANSWER) {
        say("%s:%s", nc_pod_answer_name(e->answer->kind), e->uid);
    } else {
        fail();
    }
}

/* --- the world */

static const struct nc_drain_rules rules = {.leaves_tolerating = true, .max_in_flight = 1};

struct world {
    struct nc_pod_evictor p;
    struct nc_api_session api;
    struct nc_counters counters;
    char *node_name;
};

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    memset(&script, 0, sizeof(script));
    assert_int_equal(nc_log_set_level("error"), 0);
    w->api.step = NC_SESSION_UP;
    w->p.o = (struct nc_pod_evictor_options){.api = &w->api,
                                             .counters = &w->counters,
                                             .node_name = &w->node_name,
                                             .now = now_of,
                                             .post = post_event,
                                             .volume_found = on_volume_found,
                                             .cleaned_up = on_cleaned_up};
    w->node_name = nc_strdup("node-1");
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_pod_evictor_close(&w->p);
    for (size_t i = 0; i < script.n_reqs; i++)
        assert_false(script.reqs[i].is_open);
    nc_drain_free(script.drain);
    nc_buf_done(&script.trace);
    free(w->node_name);
    free(w);
    return 0;
}

static struct nc_value *json(const char *text) {
    struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_json_parse(text, strlen(text), &v, &err) < 0)
        fail_msg("%s: %s", err.msg, text);
    return v;
}

/* `more` is put after the metadata's members, `rest` after the metadata. */
static struct nc_value *pod(const char *name, const char *more, const char *rest) {
    nc_auto_free char *text =
        nc_asprintf("{\"metadata\":{\"namespace\":\"default\",\"name\":\"%s\",\"uid\":\"uid-%s\"%s}"
                    "%s}",
                    name, name, more, rest);

    return json(text);
}

static void show(struct world *w, unsigned watch, enum nc_watch_event event, const char *name,
                 const char *more, const char *rest) {
    nc_auto_value struct nc_value *v = pod(name, more, rest);

    script.watches[watch].o.event(&w->p, event, event == NC_WATCH_SYNCED ? NULL : v);
}

static void ask(struct world *w, enum nc_drain_verb verb, const char *name) {
    char uid[32], own[32];
    struct nc_pod p = {.namespace = uid, .name = own, .uid = uid};
    const struct nc_drain_action a = {.verb = verb, .pod = &p, .grace_sec = 1, .attempt = 1};

    (void)snprintf(uid, sizeof(uid), "uid-%s", name);
    (void)snprintf(own, sizeof(own), "%s", name);
    nc_pod_evictor_send(&w->p, &a);
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

static void test_watch(void **state) {
    const struct nc_kube_status away = {.http = 503};
    const struct nc_err err = {.class = NC_ERR_TRANSIENT};
    struct world *w = *state;
    nc_auto_value struct nc_value *nameless = json("{\"metadata\":{\"name\":\"x\"}}");

    nc_pod_evictor_open(&w->p);
    nc_pod_evictor_open(&w->p); /* once is enough */
    show(w, 0, NC_WATCH_ADDED, "a", "", "");
    show(w, 0, NC_WATCH_SYNCED, "", "", "");
    show(w, 0, NC_WATCH_MODIFIED, "a", "", "");
    show(w, 0, NC_WATCH_DELETED, "a", "", "");
    script.watches[0].o.event(&w->p, NC_WATCH_ADDED, nameless);
    script.watches[0].o.failed(&w->p, &away, &err);
    expect("POD:uid-a SYNCED POD:uid-a GONE:uid-a failed UNREADABLE failed");
    assert_int_equal(w->counters.watch_restarts, 1);
}

static int64_t moved(struct world *w, int64_t ahead_usec) {
    static const char ends[] = ",\"deletionTimestamp\":\"2026-01-02T03:04:35Z\"";

    script.ahead_usec = ahead_usec;
    show(w, 0, NC_WATCH_ADDED, "a", ends, "");
    return (int64_t)script.deletion_usec - 1767323075000000;
}

/* The API server's clock is not EC2's: the end of a grace period is counted on EC2's, but for what
 * an answer may be late by. */
static void test_clocks_that_disagree(void **state) {
    struct world *w = *state;

    nc_pod_evictor_open(&w->p);
    assert_int_equal(moved(w, 95000000), 0); /* nothing is known of it yet */
    script.is_dated = true;
    assert_in_range(moved(w, 95000000) + 95500000, 0, 1000000);
    assert_in_range(moved(w, -95000000) - 94500000, 0, 1000000);
    assert_int_equal(moved(w, 9000000), 0);
    assert_int_equal(moved(w, -9000000), 0);
    script.ahead_usec = -95000000;
    show(w, 0, NC_WATCH_ADDED, "b", "", ""); /* it does not end */
    assert_int_equal(script.deletion_usec, 0);
    assert_in_range(moved(w, -95000000) - 94500000, 0, 1000000);
    script.is_dated = false; /* a new connection has not observed it yet */
    assert_in_range(moved(w, 0) - 94500000, 0, 1000000);
    nc_buf_clear(&script.trace);
}

/* Wanted while there is no connection: opened with it, by who connects. */
static void test_wanted_without_a_connection(void **state) {
    struct world *w = *state;

    w->api.step = NC_SESSION_DOWN;
    nc_pod_evictor_open(&w->p);
    assert_true(w->p.wants_watch);
    assert_null(w->p.watch);
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
    assert_null(w->p.requests);
    assert_int_equal(w->counters.answers[NC_DRAIN_EVICT][NC_ANSWER_BUDGET], 1);
    assert_int_equal(w->counters.answers[NC_DRAIN_DELETE][NC_ANSWER_GONE], 1);
}

static void test_what_cannot_be_sent_is_unavailable(void **state) {
    struct world *w = *state;

    w->api.step = NC_SESSION_DOWN;
    ask(w, NC_DRAIN_EVICT, "a");
    w->api.step = NC_SESSION_UP;
    script.refuses = true;
    ask(w, NC_DRAIN_EVICT, "b");
    expect("away:uid-a failed away:uid-b");
    assert_null(w->p.requests);
}

static void test_questions_outlast_the_watch(void **state) {
    struct world *w = *state;

    nc_pod_evictor_open(&w->p);
    ask(w, NC_DRAIN_EVICT, "a");
    nc_pod_evictor_unwatch(&w->p);
    assert_false(script.watches[0].is_open);
    nc_pod_evictor_open(&w->p);
    answer(0, NC_ANSWER_ACCEPTED);
    expect("EVICT:a accepted:uid-a");
}

static void test_closing_answers_what_is_in_flight(void **state) {
    struct world *w = *state;

    nc_pod_evictor_open(&w->p);
    ask(w, NC_DRAIN_EVICT, "a");
    ask(w, NC_DRAIN_DELETE, "b");
    expect("EVICT:a DELETE:b");
    nc_pod_evictor_close(&w->p);
    expect("cancel:b away:uid-b cancel:a away:uid-a");
    assert_false(script.watches[0].is_open);
}

static void test_stuck(void **state) {
    struct world *w = *state;
    const uint64_t now = nc_mono_usec();

    ask(w, NC_DRAIN_EVICT, "a");
    assert_false(nc_pod_evictor_is_stuck(&w->p, now + 2000000));
    assert_true(nc_pod_evictor_is_stuck(&w->p, nc_mono_usec() + 2000001));
    answer(0, NC_ANSWER_UNAVAILABLE);
    assert_false(nc_pod_evictor_is_stuck(&w->p, UINT64_MAX));
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
    assert_int_equal(nc_drain_see(script.drain, &p, now_of(NULL)), 0);
}

static void test_volumes_of_pods_that_stay(void **state) {
    struct world *w = *state;

    put("leaves", CLAIM("data-1") "}");
    put("stays", CLAIM("data-2") TOLERATES "}");
    put("ended", CLAIM("data-3") TOLERATES "},\"status\":{\"phase\":\"Succeeded\"}");
    nc_pod_evictor_query_volumes(&w->p, script.drain, &rules);
    nc_pod_evictor_query_volumes(&w->p, script.drain, &rules); /* asked once */
    expect("GET:data-2");
    assert_string_equal(script.reqs[0].path,
                        "/api/v1/namespaces/default/persistentvolumeclaims/data-2");
    got(0, 200, "{\"spec\":{\"volumeName\":\"pv-2\"}}");
    expect("GET:pv-2");
    got(1, 200,
        "{\"spec\":{\"claimRef\":{\"namespace\":\"default\",\"name\":\"data-2\"},"
        "\"csi\":{\"driver\":\"ebs.csi.aws.com\",\"volumeHandle\":\"vol-2\"}}}");
    expect("look");
    assert_int_equal(w->p.staying_volumes.n, 1);
    assert_string_equal(w->p.staying_volumes.v[0], "kubernetes.io/csi/ebs.csi.aws.com^vol-2");
    assert_null(w->p.volume_requests);
}

/* Any claim may name any volume: only that is trusted which names the claim, too. */
static void test_volume_of_another_claim(void **state) {
    struct world *w = *state;

    put("stays", CLAIM("data-2") TOLERATES "}");
    nc_pod_evictor_query_volumes(&w->p, script.drain, &rules);
    got(0, 200, "{\"spec\":{\"volumeName\":\"pv-9\"}}");
    got(1, 200,
        "{\"spec\":{\"claimRef\":{\"namespace\":\"default\",\"name\":\"data-9\"},"
        "\"csi\":{\"driver\":\"ebs.csi.aws.com\",\"volumeHandle\":\"vol-9\"}}}");
    expect("GET:data-2 GET:pv-9");
    assert_int_equal(w->p.staying_volumes.n, 0);
    assert_null(w->p.volume_requests);
}

/* A refusal is tolerated and final; what may pass is requested again. */
static void test_volumes_that_cannot_be_read(void **state) {
    struct world *w = *state;

    put("one", CLAIM("data-1") TOLERATES "}");
    nc_pod_evictor_query_volumes(&w->p, script.drain, &rules);
    got(0, 403, NULL);
    nc_pod_evictor_query_volumes(&w->p, script.drain, &rules);
    expect("GET:data-1");
    put("two", CLAIM("data-2") TOLERATES "}");
    nc_pod_evictor_query_volumes(&w->p, script.drain, &rules);
    got(1, 503, NULL);
    nc_pod_evictor_query_volumes(&w->p, script.drain, &rules);
    expect("GET:data-2 GET:data-2");
    got(2, 200, "{\"spec\":{\"volumeName\":\"../../secrets/x\"}}");
    expect("");
    assert_int_equal(w->p.staying_volumes.n, 0);
}

/* --- what a shutdown left */

#define LEFT                                                                                       \
    ",\"status\":{\"phase\":\"Failed\",\"reason\":\"Terminated\",\"message\":\"Pod was "           \
    "terminated in "                                                                               \
    "response to imminent node shutdown.\"}"
#define OWNED(api, kind)                                                                           \
    ",\"ownerReferences\":[{\"apiVersion\":\"" api "\",\"kind\":\"" kind                           \
    "\",\"name\":\"o\",\"uid\":\"u\",\"controller\":true}]"

static void test_clean_up(void **state) {
    struct world *w = *state;

    nc_pod_evictor_clean_up(&w->p);
    assert_false(script.watches[1].is_open); /* nobody rebooted */
    w->p.wants_clean_up = true;
    nc_pod_evictor_clean_up(&w->p);
    nc_pod_evictor_clean_up(&w->p);
    assert_true(script.watches[1].is_open);
    show(w, 1, NC_WATCH_ADDED, "left", OWNED("apps/v1", "ReplicaSet"), LEFT);
    show(w, 1, NC_WATCH_ADDED, "job", OWNED("batch/v1", "Job"), LEFT);
    show(w, 1, NC_WATCH_ADDED, "bare", "", LEFT);
    show(w, 1, NC_WATCH_ADDED, "failed", OWNED("apps/v1", "ReplicaSet"),
         ",\"status\":{\"phase\":\"Failed\",\"reason\":\"Evicted\"}");
    expect("DELETE:left");
    show(w, 1, NC_WATCH_SYNCED, "", "", "");
    assert_false(script.watches[1].is_open);
    nc_pod_evictor_clean_up(&w->p);
    assert_false(script.watches[1].is_open);
    assert_true(w->p.wants_clean_up); /* who dies now has not done it */
    answer(0, NC_ANSWER_ACCEPTED);
    expect(""); /* the lifecycle knows nothing of it */
    assert_false(w->p.wants_clean_up);
    assert_true(script.is_cleaned_up);
    nc_pod_evictor_clean_up(&w->p);
    assert_false(script.watches[1].is_open);
}

static void test_clean_up_begins_again_on_another_connection(void **state) {
    struct world *w = *state;

    w->p.wants_clean_up = true;
    nc_pod_evictor_clean_up(&w->p);
    show(w, 1, NC_WATCH_ADDED, "left", OWNED("apps/v1", "ReplicaSet"), LEFT);
    show(w, 1, NC_WATCH_SYNCED, "", "", "");
    expect("DELETE:left");
    nc_pod_evictor_close(&w->p);
    assert_true(w->p.wants_clean_up);
    nc_pod_evictor_clean_up(&w->p);
    assert_true(script.watches[1].is_open);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(test_watch),
        TEST(test_clocks_that_disagree),
        TEST(test_wanted_without_a_connection),
        TEST(test_each_question_is_answered_once),
        TEST(test_what_cannot_be_sent_is_unavailable),
        TEST(test_questions_outlast_the_watch),
        TEST(test_closing_answers_what_is_in_flight),
        TEST(test_stuck),
        TEST(test_volumes_of_pods_that_stay),
        TEST(test_volume_of_another_claim),
        TEST(test_volumes_that_cannot_be_read),
        TEST(test_clean_up),
        TEST(test_clean_up_begins_again_on_another_connection),
    };

    return run_group(tests, NULL, NULL);
}
