/*
 * Our own Node and NodeClaim, where an answer and the watch overtake each other, and what no API
 * server is made to say elsewhere (tests/integration/test_run_*.py show the rest). The API is a
 * script: watches, looks and writes are caught where they are begun, and their answers are told by
 * the tests; events are caught where they are posted.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"
#include "groups.h"
#include "log.h"
#include "nc/mem.h"
#include "nc/time.h"
#include "trace.h"
#include "virtual-clock.h"

#define OURS "aws:///us-west-2a/i-1"

/* --- the script */

static struct {
    struct nc_watch_options node; /* of the watch that is open */
    bool has_node, has_claim;
    unsigned looks, writes;
    nc_kube_done_fn looked;
    void (*written)(void *userdata, const struct nc_node_written *w);
    char *patch; /* of the status, by others than the lifecycle */
    bool is_active[_NC_SOURCE_MAX];
    struct nc_notice notices[_NC_SOURCE_MAX];
    bool is_busy, wants_node, was_stale; /* as the Node was told */
    const char *obstacle;
    uint64_t now_usec, timeout_usec;
} script;

struct nc_watch {
    bool is_claim;
};
static struct nc_watch node_watch, claim_watch = {.is_claim = true};
struct nc_kube_req {
    int unused;
};
static struct nc_kube_req refresh_request, write_req;

int nc_watch_new(struct nc_kube *k, sd_event *event, const struct nc_watch_options *o,
                 struct nc_watch **ret, struct nc_err *err) {
    (void)k;
    (void)event;
    (void)err;
    if (strstr(o->path, "nodeclaims")) {
        script.has_claim = true;
        *ret = &claim_watch;
    } else {
        assert_string_equal(o->path, "/api/v1/nodes");
        assert_true(o->metadata_only);
        script.node = *o;
        script.has_node = true;
        *ret = &node_watch;
    }
    return 0;
}

struct nc_watch *nc_watch_free(struct nc_watch *w) {
    if (w && w->is_claim)
        script.has_claim = false;
    else if (w)
        script.has_node = false;
    return NULL;
}

int nc_kube_start(struct nc_kube *k, const struct nc_kube_call *c, struct nc_kube_req **ret,
                  struct nc_err *err) {
    (void)k;
    (void)err;
    if (c->body) {
        struct nc_buf text = NC_BUF_INIT;
        assert_string_equal(c->path, "/api/v1/nodes/node-1/status");
        nc_json_write(&text, c->body, 0);
        script.patch = nc_buf_steal(&text);
        return 0;
    }
    assert_string_equal(c->path, "/api/v1/nodes/node-1");
    script.looks++;
    script.timeout_usec = c->timeout_usec;
    script.looked = c->done;
    *ret = &refresh_request;
    return 0;
}

struct nc_kube_req *nc_kube_cancel(struct nc_kube_req *r) {
    (void)r;
    return NULL;
}

int nc_node_send(struct nc_kube *k, const struct nc_node_call *c, struct nc_kube_req **ret,
                 struct nc_err *err) {
    (void)k;
    (void)err;
    assert_string_equal(c->node, "node-1");
    script.writes++;
    script.written = c->done;
    *ret = &write_req;
    return 0;
}

/* --- in the place of the daemon */

const struct nc_notice *nc_lifecycle_notice(const struct nc_lifecycle *l, enum nc_source s) {
    (void)l;
    return script.is_active[s] ? &script.notices[s] : NULL;
}

bool nc_lifecycle_is_orphaned(const struct nc_lifecycle *l) {
    (void)l;
    return false;
}

bool nc_daemon_is_busy(const struct nc_daemon *d) {
    (void)d;
    return script.is_busy;
}

uint64_t nc_daemon_now(const struct nc_daemon *d) {
    (void)d;
    return script.now_usec;
}

void nc_daemon_post(struct nc_daemon *d, struct nc_lifecycle_event *e) {
    script.was_stale = d->node.is_stale;
    if (e->kind == NC_LIFECYCLE_NODE)
        say("NODE%s%s", e->node->is_complete ? "(whole)" : "",
            e->node->has_cordon_record ? "+cordon" : "");
    else if (e->kind == NC_LIFECYCLE_NODE_GONE)
        say("GONE");
    else if (e->kind == NC_LIFECYCLE_WRITTEN)
        say("%s", e->outcome == NC_WRITTEN             ? "WRITTEN"
                  : e->outcome == NC_WRITE_UNAVAILABLE ? "AWAY"
                                                       : "REFUSED");
    else
        fail();
}

void nc_daemon_post_notice(struct nc_daemon *d, const struct nc_notice *n) {
    char time[32];

    (void)d;
    script.is_active[n->source] = true;
    script.notices[n->source] = *n;
    nc_time_format(n->deadline_usec, time);
    say("+%s:%s%s", nc_source_name(n->source), n->id, n->is_force_delete_time ? "!" : "");
    if (n->is_force_delete_time)
        say("%s", time);
}

void nc_daemon_post_cleared(struct nc_daemon *d, enum nc_source s) {
    (void)d;
    script.is_active[s] = false;
    say("-%s", nc_source_name(s));
}

void nc_daemon_post_again(struct nc_daemon *d, enum nc_source s) {
    (void)d;
    say("=%s", nc_source_name(s));
}

void nc_daemon_refuse_request(struct nc_daemon *d, const char *message, const char *series) {
    (void)d;
    (void)message;
    (void)series;
    say("refused");
}

void nc_api_session_failed(struct nc_daemon *d, const struct nc_err *err) {
    (void)d;
    (void)err;
    say("failed");
}

void nc_api_session_note_obstacle(struct nc_daemon *d, enum nc_obstacle which,
                                  const struct nc_err *err) {
    if (err)
        d->api.obstacles[which] = *err;
    script.obstacle = err ? d->api.obstacles[which].msg : NULL;
}

void nc_api_session_well(struct nc_daemon *d) {
    (void)d;
}

void nc_api_session_on_failed(void *daemon, const struct nc_kube_status *status,
                              const struct nc_err *err) {
    nc_api_session_failed(daemon, err);
}

void nc_api_session_on_well(void *daemon) {
    (void)daemon;
}

void nc_fit_gate_note_node(struct nc_daemon *d, const struct nc_value *node) {
    (void)d;
    (void)node;
}

void nc_fit_gate_note_metadata(struct nc_daemon *d, const struct nc_value *metadata) {
    (void)d;
    (void)metadata;
}

void nc_fit_gate_forget_node(struct nc_daemon *d) {
    (void)d;
}

bool nc_fit_gate_wants_node(const struct nc_daemon *d) {
    (void)d;
    return script.wants_node;
}

void nc_imds_condition_note_metadata(struct nc_daemon *d, const struct nc_value *metadata) {
    (void)d;
    (void)metadata;
}

void nc_imds_condition_note_node(struct nc_daemon *d, const struct nc_value *node) {
    (void)d;
    (void)node;
}

void nc_pod_evictor_clean_up(struct nc_daemon *d) {
    (void)d;
}

/* --- the world */

struct world {
    struct nc_app app;
    struct nc_daemon d;
};

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));
    struct nc_err err = NC_ERR_INIT;

    memset(&script, 0, sizeof(script));
    assert_int_equal(nc_log_set_level("error"), 0);
    assert_int_equal(sd_event_new(&w->app.event), 0);
    w->d.app = &w->app;
    w->d.api.step = NC_SESSION_UP;
    w->d.gather.config.claim_lookup = true;
    w->d.node_name = nc_strdup("node-1");
    w->d.provider_id = nc_strdup(OURS);
    assert_int_equal(nc_own_node_open(&w->d, &err), 0);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_own_node_close(&w->d);
    nc_own_node_done(&w->d);
    nc_claim_watch_done(&w->d);
    sd_event_unref(w->app.event);
    free(w->d.node_name);
    free(w->d.provider_id);
    nc_buf_done(&trace);
    free(script.patch);
    free(w);
    return 0;
}

/* `more` goes into the metadata, after a comma; `rest` after it: "" is metadata only. */
static struct nc_value *node(const char *uid, unsigned version, const char *more,
                             const char *rest) {
    nc_auto_free char *text = nc_asprintf("{\"metadata\":{\"name\":\"node-1\",\"uid\":\"%s\","
                                          "\"resourceVersion\":\"%u\"%s}%s}",
                                          uid, version, more, rest);
    struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    assert_int_equal(nc_json_parse(text, strlen(text), &v, &err), 0);
    return v;
}

static void watch(struct world *w, enum nc_watch_event event, const char *uid, unsigned version,
                  const char *more) {
    nc_auto_value struct nc_value *v = node(uid, version, more, "");

    script.node.event(&w->d, event, event == NC_WATCH_SYNCED ? NULL : v);
}

/* Turns the loop until the look that is due was begun. */
static void wait_for_refresh(struct world *w, unsigned looks) {
    while (script.looks < looks)
        assert_true(clock_run(w->app.event, 5000000) > 0);
    assert_int_equal(script.looks, looks);
}

static void look(struct world *w, const char *uid, unsigned version, const char *more,
                 const char *provider_id) {
    const struct nc_kube_status ok = {.http = 200};
    const struct nc_err none = NC_ERR_INIT;
    nc_auto_free char *rest =
        nc_asprintf(",\"spec\":{\"providerID\":\"%s\"},\"status\":{}", provider_id);
    nc_auto_value struct nc_value *v = node(uid, version, more, rest);

    script.looked(&w->d, v, &ok, &none);
}

/* A Node that was seen whole. */
static void meet(struct world *w) {
    watch(w, NC_WATCH_ADDED, "u1", 10, "");
    watch(w, NC_WATCH_SYNCED, "", 0, "");
    wait_for_refresh(w, 1);
    look(w, "u1", 10, "", OURS);
    expect("NODE(whole) -request -deletion");
}

/* --- the tests */

/* Nothing is told of a Node before it is known whose it is. */
static void test_first_sight(void **state) {
    struct world *w = *state;

    watch(w, NC_WATCH_ADDED, "u1", 10, "");
    expect("");
    wait_for_refresh(w, 1);
    look(w, "u1", 10, "", OURS);
    expect("NODE(whole) -request -deletion");
    watch(w, NC_WATCH_SYNCED, "", 0, "");
    expect("");
}

static void boot_view(struct world *w, const char *uid, unsigned version, const char *boot_id,
                      const char *provider_id) {
    const struct nc_kube_status ok = {.http = 200};
    const struct nc_err none = NC_ERR_INIT;
    nc_auto_free char *rest = nc_asprintf(
        ",\"spec\":{%s},\"status\":{\"nodeInfo\":{\"bootID\":\"%s\"}}", provider_id, boot_id);
    nc_auto_value struct nc_value *v = node(uid, version, "", rest);

    script.looked(&w->d, v, &ok, &none);
}

/* Made anew without a providerID: it is ours where our own kubelet reports it. */
static void test_whose_it_is_without_a_provider_id(void **state) {
    struct nc_node_write write = {.kind = NC_WRITE_SIGNAL};
    struct world *w = *state;

    w->d.boot_id = nc_strdup("boot-1");
    meet(w);
    watch(w, NC_WATCH_DELETED, "u1", 11, "");
    expect("GONE -request -deletion");
    watch(w, NC_WATCH_ADDED, "u2", 20, "");
    wait_for_refresh(w, 2);
    boot_view(w, "u2", 20, "boot-2", "");
    expect("GONE");
    assert_true(w->d.node.is_doubted && !w->d.node.is_known && !w->d.node.is_foreign);
    watch(w, NC_WATCH_MODIFIED, "u2", 21, ""); /* what becomes of it is checked */
    wait_for_refresh(w, 3);
    boot_view(w, "u2", 21, "boot-1", "");
    expect("NODE(whole) -request -deletion");
    assert_false(w->d.node.is_doubted);
    nc_own_node_write(&w->d, &write);
    assert_int_equal(script.writes, 1);
    free(nc_steal(&w->d.boot_id));
}

/* The answer of a write brings the Node; what the watch tells of before it must not undo that. */
static void test_the_answer_overtakes_the_watch(void **state) {
    static const char cordon[] = ",\"annotations\":{\"nodeclaimd.io/cordon\":\"{}\"}";
    struct nc_node_write write = {.kind = NC_WRITE_CORDON};
    struct world *w = *state;
    nc_auto_value struct nc_value *after = node("u1", 12, cordon, ",\"spec\":{},\"status\":{}");
    const struct nc_node_written answer = {.outcome = NC_WRITTEN, .node = after};

    meet(w);
    script.is_busy = true;
    nc_own_node_write(&w->d, &write);
    assert_int_equal(script.writes, 1);
    script.written(&w->d, &answer);
    expect("NODE(whole)+cordon -request -deletion WRITTEN");
    watch(w, NC_WATCH_MODIFIED, "u1", 11, "");
    expect("");
    watch(w, NC_WATCH_MODIFIED, "u1", 12, cordon);
    expect("NODE(whole)+cordon -request -deletion");
    assert_int_equal(clock_run(w->app.event, 1200000), 0);
    assert_int_equal(script.looks, 1); /* it is known already */
}

/* Answered after the watch has shown a newer one: of before, and checked again. */
static void test_a_refresh_that_is_late_is_repeated(void **state) {
    static const char deleting[] = ",\"deletionTimestamp\":\"2026-01-02T03:04:05Z\"";
    struct world *w = *state;

    meet(w);
    script.is_busy = true;
    watch(w, NC_WATCH_MODIFIED, "u1", 11, "");
    wait_for_refresh(w, 2);
    watch(w, NC_WATCH_MODIFIED, "u1", 12, deleting);
    nc_buf_clear(&trace);
    look(w, "u1", 11, "", OURS);
    expect("");
    wait_for_refresh(w, 3);
    assert_true(w->d.node.view.is_deleting);
}

/* Before a pod is asked: of a drain that EC2 wants nothing is withdrawn there. */
static void test_read_again_where_a_drain_is_requested(void **state) {
    static const int refused[] = {404, 403};
    const struct nc_kube_status away = {0};
    const struct nc_err none = {.class = NC_ERR_TRANSIENT};
    struct world *w = *state;

    meet(w);
    w->d.node.is_stale = true;
    assert_true(nc_own_node_is_current(&w->d, false));
    script.is_active[NC_SOURCE_REQUEST] = true;
    assert_false(nc_own_node_is_current(&w->d, false));
    assert_false(nc_own_node_is_current(&w->d, false));
    assert_int_equal(script.looks, 2);
    script.looked(&w->d, NULL, &away, &none);
    assert_false(nc_own_node_is_current(&w->d, false));
    assert_int_equal(script.looks, 3);
    look(w, "u1", 11, "", OURS);
    assert_true(script.was_stale); /* until the request was told, too */
    assert_true(nc_own_node_is_current(&w->d, false));
    script.is_active[NC_SOURCE_REQUEST] = true; /* the watch has it still */
    w->d.node.read_usec -= 1500000;
    assert_true(nc_own_node_is_current(&w->d, false));
    assert_int_equal(script.looks, 3);
    w->d.node.read_usec -= 1000000;
    assert_false(nc_own_node_is_current(&w->d, false));
    assert_int_equal(script.looks, 4);
    look(w, "u1", 12, "", OURS);
    assert_true(nc_own_node_is_current(&w->d, false));
    for (size_t i = 0; i < NC_ARRAY_SIZE(refused); i++) { /* it is gone, or nobody shows it */
        const struct nc_kube_status status = {.http = refused[i]};
        script.is_active[NC_SOURCE_REQUEST] = true;
        w->d.node.read_usec -= 2500000;
        assert_false(nc_own_node_is_current(&w->d, false));
        script.looked(&w->d, NULL, &status, &none);
        assert_true(nc_own_node_is_current(&w->d, false));
    }
    nc_buf_clear(&trace);
}

/* Whatever drains it: the pods that are bound to it may be another machine's. */
static void test_a_node_of_another_cluster(void **state) {
    struct nc_node_write write = {.kind = NC_WRITE_SIGNAL};
    struct world *w = *state;

    meet(w);
    nc_own_node_reread(&w->d);
    assert_false(nc_own_node_is_current(&w->d, false));
    nc_own_node_write(&w->d, &write);
    expect("AWAY");
    watch(w, NC_WATCH_ADDED, "u2", 5, "");
    assert_false(nc_own_node_is_current(&w->d, false));
    nc_own_node_write(&w->d, &write);
    expect("AWAY");
    assert_null(script.obstacle);
    look(w, "u2", 5, "", "aws:///us-west-2a/i-2");
    expect("GONE");
    assert_non_null(strstr(script.obstacle, "another instance"));
    nc_own_node_write(&w->d, &write);
    expect("AWAY");
    assert_int_equal(script.writes, 0);
    nc_own_node_reread(&w->d);
    look(w, "u1", 20, "", OURS);
    expect("NODE(whole) -request -deletion");
    assert_null(script.obstacle);
    assert_true(nc_own_node_is_current(&w->d, false));
    nc_own_node_write(&w->d, &write);
    assert_int_equal(script.writes, 1);
}

/* The watch hangs, and the API server refuses a write that means the Node of before: nothing more
 * is written or evicted before the one of now was read, and it is no refusal that is told. */
static void test_a_write_for_the_node_of_before(void **state) {
    static const char about_uid[] =
        "Node node-1 is invalid: metadata.uid: Invalid value: u1: field is immutable";
    struct nc_node_write write = {.kind = NC_WRITE_PROGRESS, .uid = "u1"};
    const struct nc_node_written of_another = {.outcome = NC_WRITE_UNAVAILABLE,
                                               .is_anothers = true};
    struct nc_kube_status status = {.http = 422};
    struct world *w = *state;

    meet(w);
    nc_own_node_write(&w->d, &write);
    script.written(&w->d, &of_another);
    expect("AWAY");
    assert_null(script.obstacle);
    nc_own_node_write(&w->d, &write);
    expect("AWAY");
    assert_int_equal(script.writes, 1);
    assert_false(nc_own_node_is_current(&w->d, false));
    wait_for_refresh(w, 2);
    look(w, "u2", 20, "", OURS);
    expect("NODE(whole) -request -deletion");
    assert_true(nc_own_node_is_current(&w->d, false));
    assert_true(nc_own_node_note_patched(&w->d, &status));
    assert_true(nc_own_node_is_current(&w->d, false));
    (void)snprintf(status.message, sizeof(status.message), "%s", about_uid);
    assert_false(nc_own_node_note_patched(&w->d, &status));
    wait_for_refresh(w, 3);
    look(w, "u3", 30, "", "aws:///us-west-2a/i-2");
    expect("GONE");
    assert_non_null(strstr(script.obstacle, "another instance"));
}

/* What others write beside the lifecycle is for the Node that they have seen, too. */
static void test_patch_of_our_node_alone(void **state) {
    nc_auto_value struct nc_value *body = nc_node_annotation_patch("a", "b");
    struct nc_kube_req *request = NULL;
    struct world *w = *state;

    meet(w);
    nc_own_node_patch_status(&w->d, (struct nc_kube_call){0}, body, &request);
    assert_string_equal(script.patch,
                        "{\"metadata\":{\"annotations\":{\"a\":\"b\"},\"uid\":\"u1\"}}");
}

/* In an outage the watch of a Node that was never seen is paused longer than a drain has time. */
static void test_a_drain_does_not_wait_for_the_watch(void **state) {
    const struct nc_kube_status away = {0}, absent = {.http = 404};
    const struct nc_err none = {.class = NC_ERR_TRANSIENT};
    struct world *w = *state;

    nc_own_node_check(&w->d);
    assert_int_equal(clock_run(w->app.event, 5000000), 0);
    script.is_busy = true;
    nc_own_node_close(&w->d);
    assert_int_equal(nc_own_node_open(&w->d, &(struct nc_err)NC_ERR_INIT), 0);
    for (unsigned k = 1; k <= 4; k++) { /* a server that is slow answers at last */
        wait_for_refresh(w, k);
        assert_int_equal(script.timeout_usec, 750000u << k);
        script.looked(&w->d, NULL, &away, &none);
    }
    wait_for_refresh(w, 5);
    assert_int_equal(script.timeout_usec, 12000000);
    script.looked(&w->d, NULL, &absent, &none);
    assert_int_equal(clock_run(w->app.event, 5000000), 0);
    nc_own_node_check(&w->d);
    wait_for_refresh(w, 6);
    look(w, "u1", 10, "", OURS);
    expect("failed failed failed failed NODE(whole) -request -deletion");
    nc_own_node_check(&w->d);
    assert_int_equal(clock_run(w->app.event, 5000000), 0);
}

#define REQUEST_UNTIL(id, until)                                                                   \
    ",\"annotations\":{\"nodeclaimd.io/drain-request\":\"{\\\"id\\\":\\\"" id                      \
    "\\\",\\\"mode\\\":\\\"deadline\\\",\\\"deadline\\\":\\\"" until "\\\"}\"}"

/* What a process before us had accepted stays in force however late it is. */
static void test_a_request_in_force_stays_so(void **state) {
    static const char late[] = REQUEST_UNTIL("r1", "2026-01-02T01:04:05Z");
    struct world *w = *state;

    assert_int_equal(nc_time_parse("2026-01-02T03:04:05Z", &script.now_usec), 0);
    script.is_active[NC_SOURCE_REQUEST] = true;
    (void)strcpy(script.notices[NC_SOURCE_REQUEST].id, "r1");
    assert_int_equal(
        nc_time_parse("2026-01-02T01:04:05Z", &script.notices[NC_SOURCE_REQUEST].deadline_usec), 0);
    watch(w, NC_WATCH_ADDED, "u1", 10, late);
    wait_for_refresh(w, 1);
    look(w, "u1", 10, late, OURS);
    expect("NODE(whole) +request:r1 -deletion");
    assert_null(w->d.node.request_refused);
}

/* Each text is told while somebody corrects his request. One who writes another each second is told
 * now and then, and of his last one in the end. */
static void test_requests_that_are_refused_in_turn(void **state) {
    struct world *w = *state;
    unsigned version = 10;

    meet(w);
    for (unsigned i = 0; i < 8; i++) {
        nc_auto_free char *more =
            nc_asprintf(",\"annotations\":{\"nodeclaimd.io/drain-request\":\"%u\"}", i);
        watch(w, NC_WATCH_MODIFIED, "u1", ++version, more);
        expect(i < 4 ? "NODE refused =request -deletion" : "NODE =request -deletion");
        clock_skip(1000000);
    }
    clock_skip(10000000);
    for (unsigned i = 0; i < 2; i++) {
        watch(w, NC_WATCH_MODIFIED, "u1", ++version,
              ",\"annotations\":{\"nodeclaimd.io/drain-request\":\"7\"}");
        expect(i ? "NODE -deletion" : "NODE refused =request -deletion");
    }
}

/* --- the NodeClaim */

#define OWNER                                                                                      \
    ",\"ownerReferences\":[{\"apiVersion\":\"karpenter.sh/v1\",\"kind\":\"NodeClaim\","            \
    "\"name\":\"claim-1\",\"uid\":\"c1\"}]"

/* Until the claim was requested, nobody knows that it is not being deleted. */
static void meet_owned(struct world *w) {
    meet(w);
    watch(w, NC_WATCH_MODIFIED, "u1", 11, OWNER);
    expect("NODE -request");
    assert_true(script.has_claim);
}

/* The time of a claim's end may rightly pass while its node observes nothing. */
static void test_the_controllers_request_may_be_late(void **state) {
    struct world *w = *state;

    meet_owned(w);
    assert_int_equal(nc_time_parse("2026-01-02T03:04:05Z", &script.now_usec), 0);
    watch(w, NC_WATCH_MODIFIED, "u1", 12, OWNER REQUEST_UNTIL("claim-c1", "2026-01-02T01:04:05Z"));
    expect("NODE +request:claim-c1");
    watch(w, NC_WATCH_MODIFIED, "u1", 13, OWNER REQUEST_UNTIL("claim-c2", "2026-01-02T01:04:05Z"));
    expect("NODE refused +request:claim-c1");
    assert_non_null(w->d.node.request_refused);
}

#define COPY(id, mode, rest)                                                                       \
    OWNER ",\"annotations\":{\"nodeclaimd.io/termination-deadline\":\"{\\\"id\\\":\\\"" id         \
          "\\\",\\\"mode\\\":\\\"" mode "\\\"" rest "}\"}"
#define COPY_UNTIL(id, until) COPY(id, "deadline", ",\\\"deadline\\\":\\\"" until "\\\"")
#define DELETING ",\"deletionTimestamp\":\"2026-01-02T03:04:05Z\""

/* Without a right to read the claim its time comes from the Node, and that is T. It only ever
 * becomes earlier, and a time that has passed counts as it does where the claim is read. */
static void test_time_of_the_claim_on_the_node(void **state) {
    static const struct {
        const char *more, *said;
    } rows[] = {
        {DELETING, "NODE -request +deletion:deletion-u1"},
        {DELETING COPY_UNTIL("claim-c2", "2026-01-02T03:05:00Z"),
         "NODE -request +deletion:deletion-u1"},
        {DELETING COPY_UNTIL("claim-c1", "soon"), "NODE -request +deletion:deletion-u1"},
        {DELETING COPY("claim-c1", "graceful", ""), "NODE -request +deletion:deletion-u1"},
        {DELETING COPY_UNTIL("claim-c1", "2026-01-02T03:14:00Z"),
         "NODE -request +deletion:deletion-u1! 2026-01-02T03:14:00Z"},
        {DELETING COPY_UNTIL("claim-c1", "2026-01-02T03:15:00Z"),
         "NODE -request +deletion:deletion-u1! 2026-01-02T03:14:00Z"},
        {DELETING COPY_UNTIL("claim-c1", "2026-01-01T00:00:00Z"),
         "NODE -request +deletion:deletion-u1! 2026-01-01T00:00:00Z"},
        {DELETING OWNER, "NODE -request +deletion:deletion-u1! 2026-01-01T00:00:00Z"},
    };
    struct world *w = *state;

    meet_owned(w);
    for (unsigned i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        watch(w, NC_WATCH_MODIFIED, "u1", 12 + i, rows[i].more);
        expect(rows[i].said);
    }
}

/* Another claim's Node begins anew. */
static void test_copy_of_the_claim_before(void **state) {
    struct world *w = *state;

    meet_owned(w);
    watch(w, NC_WATCH_MODIFIED, "u1", 12, COPY_UNTIL("claim-c1", "2026-01-02T03:20:00Z"));
    expect("NODE -request"); /* nothing is being deleted yet */
    watch(w, NC_WATCH_MODIFIED, "u1", 13,
          DELETING ",\"ownerReferences\":[{\"apiVersion\":\"karpenter.sh/v1\",\"kind\":"
                   "\"NodeClaim\",\"name\":\"claim-2\",\"uid\":\"c2\"}]");
    expect("NODE -request +deletion:deletion-u1");
}

static void test_owners_that_are_no_claim(void **state) {
    static const char *const owners[] = {
        ",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"NodeClaim\",\"name\":\"n\","
        "\"uid\":\"u\"}]",
        ",\"ownerReferences\":[{\"apiVersion\":\"karpenter.sh/../../x\",\"kind\":\"NodeClaim\","
        "\"name\":\"n\",\"uid\":\"u\"}]",
        ",\"ownerReferences\":[{\"apiVersion\":\"karpenter.sh/v1\",\"kind\":\"NodeClaim\","
        "\"name\":7,\"uid\":\"u\"}]",
        ",\"ownerReferences\":{\"kind\":\"NodeClaim\"}",
    };
    struct world *w = *state;

    meet(w);
    for (unsigned i = 0; i < NC_ARRAY_SIZE(owners); i++) {
        watch(w, NC_WATCH_MODIFIED, "u1", 11 + i, owners[i]);
        assert_null(w->d.claim.name);
        assert_false(script.has_claim);
    }
}

/* --- closing */

static void test_closing_answers_what_is_in_flight(void **state) {
    struct nc_node_write write = {.kind = NC_WRITE_SIGNAL};
    struct nc_err err = NC_ERR_INIT;
    struct world *w = *state;

    meet(w);
    nc_own_node_write(&w->d, &write);
    w->d.api.step = NC_SESSION_DOWN;
    nc_own_node_close(&w->d);
    expect("AWAY");
    assert_false(script.has_node);
    nc_own_node_write(&w->d, &write);
    expect("AWAY");
    assert_int_equal(script.writes, 1);
    w->d.api.step = NC_SESSION_UP;
    assert_int_equal(nc_own_node_open(&w->d, &err), 0);
    watch(w, NC_WATCH_ADDED, "u1", 10, "");
    expect("NODE(whole) -request -deletion"); /* it is known still */
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(test_first_sight),
        TEST(test_whose_it_is_without_a_provider_id),
        TEST(test_the_answer_overtakes_the_watch),
        TEST(test_a_refresh_that_is_late_is_repeated),
        TEST(test_read_again_where_a_drain_is_requested),
        TEST(test_a_node_of_another_cluster),
        TEST(test_a_write_for_the_node_of_before),
        TEST(test_patch_of_our_node_alone),
        TEST(test_a_drain_does_not_wait_for_the_watch),
        TEST(test_a_request_in_force_stays_so),
        TEST(test_requests_that_are_refused_in_turn),
        TEST(test_the_controllers_request_may_be_late),
        TEST(test_time_of_the_claim_on_the_node),
        TEST(test_copy_of_the_claim_before),
        TEST(test_owners_that_are_no_claim),
        TEST(test_closing_answers_what_is_in_flight),
    };

    return run_group(tests, NULL, NULL);
}
