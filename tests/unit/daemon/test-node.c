/*
 * Our own Node and NodeClaim: what the watch and the looks show becomes events, and what is not
 * ours is not touched. The API is a script: watches, looks and writes are caught where they are
 * begun, and their answers are told by the tests; events are caught where they are posted.
 */
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
#include "node.h"
#include "virtual-clock.h"

#define OURS "aws:///us-west-2a/i-1"

/* --- the script */

static struct {
    struct nc_watch_options node, claim; /* of the watches that are open */
    bool has_node, has_claim;
    char claim_path[128];
    unsigned looks, writes;
    nc_kube_done_fn looked;
    void (*written)(void *userdata, const struct nc_node_written *w);
    bool is_active[_NC_SOURCE_MAX];
    struct nc_notice notices[_NC_SOURCE_MAX];
    struct nc_buf trace;
} script;

struct nc_watch {
    bool is_claim;
};
static struct nc_watch node_watch, claim_watch = {.is_claim = true};
struct nc_kube_req {
    int unused;
};
static struct nc_kube_req refresh_request, write_req;

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
    (void)k;
    (void)event;
    (void)err;
    if (strstr(o->path, "nodeclaims")) {
        script.claim = *o;
        script.has_claim = true;
        (void)snprintf(script.claim_path, sizeof(script.claim_path), "%s?%s", o->path, o->selector);
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
    assert_string_equal(c->path, "/api/v1/nodes/node-1");
    script.looks++;
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

static bool is_active(void *userdata, enum nc_source s, struct nc_notice *ret) {
    (void)userdata;
    *ret = script.notices[s];
    return script.is_active[s];
}

static bool is_busy;
static uint64_t now_usec;

static bool busy(void *userdata) {
    (void)userdata;
    return is_busy;
}

static uint64_t now_of(void *userdata) {
    (void)userdata;
    return now_usec;
}

void nc_api_session_failed(struct nc_api_session *s, const struct nc_err *err) {
    (void)s;
    (void)err;
    say("failed");
}

void nc_api_session_well(struct nc_api_session *s) {
    (void)s;
}

static void post_event(void *userdata, struct nc_life_event *e) {
    (void)userdata;
    if (e->kind == NC_LIFE_NODE)
        say("NODE%s%s", e->node->is_complete ? "(whole)" : "",
            e->node->has_cordon_record ? "+cordon" : "");
    else if (e->kind == NC_LIFE_NODE_GONE)
        say("GONE");
    else if (e->kind == NC_LIFE_WRITTEN)
        say("%s", e->outcome == NC_WRITTEN             ? "WRITTEN"
                  : e->outcome == NC_WRITE_UNAVAILABLE ? "AWAY"
                                                       : "REFUSED");
    else
        fail();
}

static void on_refused(void *userdata, const char *message) {
    (void)userdata;
    (void)message;
    say("say:DrainRequestRefused");
}

static void on_notice(void *userdata, const struct nc_notice *n) {
    (void)userdata;
    script.is_active[n->source] = true;
    script.notices[n->source] = *n;
    say("+%s:%s%s", nc_source_name(n->source), n->id, n->is_force_delete_time ? "!" : "");
}

static void on_cleared(void *userdata, enum nc_source s) {
    (void)userdata;
    script.is_active[s] = false;
    say("-%s", nc_source_name(s));
}

/* --- as run.c wires them */

static bool yes(void *userdata) {
    (void)userdata;
    return true;
}

static bool no(void *userdata) {
    (void)userdata;
    return false;
}

static void ignore(void *userdata) {
    (void)userdata;
}

static void ignore_value(void *userdata, const struct nc_value *v) {
    (void)userdata;
    (void)v;
}

static void on_claim(void *userdata) {
    nc_own_node_report_deletion(userdata);
}

/* --- the world */

struct world {
    sd_event *event;
    struct nc_own_node node;
    struct nc_claim_watch claim;
    struct nc_api_session api;
    struct nc_counters counters;
    struct nc_strv staying_volumes;
    char *node_name, *provider_id, *boot_id;
};

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));
    struct nc_err err = NC_ERR_INIT;

    memset(&script, 0, sizeof(script));
    is_busy = false;
    now_usec = 0;
    assert_int_equal(nc_log_set_level("error"), 0);
    assert_int_equal(sd_event_new(&w->event), 0);
    w->api.step = NC_SESSION_UP;
    w->claim.o = (struct nc_claim_watch_options){.api = &w->api,
                                                 .event = w->event,
                                                 .counters = &w->counters,
                                                 .is_allowed = yes,
                                                 .changed = on_claim,
                                                 .userdata = &w->node};
    w->node.o = (struct nc_own_node_options){.event = w->event,
                                             .api = &w->api,
                                             .counters = &w->counters,
                                             .claim = &w->claim,
                                             .node_name = &w->node_name,
                                             .provider_id = &w->provider_id,
                                             .boot_id = &w->boot_id,
                                             .staying_volumes = &w->staying_volumes,
                                             .sink = {.now = now_of,
                                                      .is_active = is_active,
                                                      .notice = on_notice,
                                                      .cleared = on_cleared,
                                                      .changed = ignore,
                                                      .userdata = w},
                                             .post = post_event,
                                             .is_busy = busy,
                                             .is_evicting = no,
                                             .is_orphaned = no,
                                             .request_refused = on_refused,
                                             .seen = ignore_value,
                                             .found = ignore_value};
    w->node_name = nc_strdup("node-1");
    w->provider_id = nc_strdup(OURS);
    assert_int_equal(nc_own_node_open(&w->node, &err), 0);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_own_node_close(&w->node);
    nc_own_node_done(&w->node);
    nc_claim_watch_done(&w->claim);
    sd_event_unref(w->event);
    free(w->node_name);
    free(w->provider_id);
    nc_buf_done(&script.trace);
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

    script.node.event(&w->node, event, event == NC_WATCH_SYNCED ? NULL : v);
}

/* Turns the loop until the look that is due was begun. */
static void wait_for_refresh(struct world *w, unsigned looks) {
    while (script.looks < looks)
        assert_true(clock_run(w->event, 5000000) > 0);
    assert_int_equal(script.looks, looks);
}

static void look(struct world *w, const char *uid, unsigned version, const char *more,
                 const char *provider_id) {
    const struct nc_kube_status ok = {.http = 200};
    const struct nc_err none = NC_ERR_INIT;
    nc_auto_free char *rest =
        nc_asprintf(",\"spec\":{\"providerID\":\"%s\"},\"status\":{}", provider_id);
    nc_auto_value struct nc_value *v = node(uid, version, more, rest);

    script.looked(&w->node, v, &ok, &none);
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

    script.looked(&w->node, v, &ok, &none);
}

/* Made anew without a providerID: it is ours where our own kubelet reports it. */
static void test_whose_it_is_without_a_provider_id(void **state) {
    struct nc_node_write write = {.kind = NC_WRITE_SIGNAL};
    struct world *w = *state;

    w->boot_id = nc_strdup("boot-1");
    meet(w);
    watch(w, NC_WATCH_DELETED, "u1", 11, "");
    expect("GONE -request -deletion");
    watch(w, NC_WATCH_ADDED, "u2", 20, "");
    wait_for_refresh(w, 2);
    boot_view(w, "u2", 20, "boot-2", "");
    expect("GONE");
    assert_true(w->node.is_doubted && !w->node.is_known && !w->node.is_foreign);
    watch(w, NC_WATCH_MODIFIED, "u2", 21, ""); /* what becomes of it is checked */
    wait_for_refresh(w, 3);
    boot_view(w, "u2", 21, "boot-1", "");
    expect("NODE(whole) -request -deletion");
    assert_false(w->node.is_doubted);
    nc_own_node_write(&w->node, &write);
    assert_int_equal(script.writes, 1);
    free(nc_steal(&w->boot_id));
}

static void test_none_there(void **state) {
    struct world *w = *state;

    watch(w, NC_WATCH_SYNCED, "", 0, "");
    expect("GONE -request -deletion");
}

static void test_another_instances(void **state) {
    struct nc_node_write write = {.kind = NC_WRITE_SIGNAL};
    struct world *w = *state;

    watch(w, NC_WATCH_ADDED, "u1", 10, "");
    wait_for_refresh(w, 1);
    look(w, "u1", 10, "", "aws:///us-west-2a/i-2");
    expect("GONE");
    assert_true(w->node.is_foreign);
    nc_own_node_write(&w->node, &write);
    expect("AWAY");
    assert_int_equal(script.writes, 0);
    watch(w, NC_WATCH_MODIFIED, "u1", 11, ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"");
    expect("");
    /* It is deleted, and ours comes under the name. */
    watch(w, NC_WATCH_DELETED, "u1", 12, "");
    expect("GONE -request -deletion");
    watch(w, NC_WATCH_ADDED, "u2", 13, "");
    wait_for_refresh(w, 2);
    look(w, "u2", 13, "", OURS);
    expect("NODE(whole) -request -deletion");
}

/* Metadata tells nothing of the spec; only a version that was seen whole is told as whole. */
static void test_only_metadata(void **state) {
    struct world *w = *state;

    meet(w);
    watch(w, NC_WATCH_MODIFIED, "u1", 11, ",\"labels\":{\"a\":\"b\"}");
    expect("NODE -request -deletion");
    watch(w, NC_WATCH_MODIFIED, "u1", 10, "");
    expect("NODE(whole) -request -deletion");
    assert_int_equal(script.looks, 1); /* nothing goes on: nobody looks */
}

static void test_refreshes_while_something_goes_on(void **state) {
    struct world *w = *state;

    meet(w);
    is_busy = true;
    watch(w, NC_WATCH_MODIFIED, "u1", 11, "");
    watch(w, NC_WATCH_MODIFIED, "u1", 12, "");
    assert_int_equal(script.looks, 1);
    wait_for_refresh(w, 2); /* one for both, a second after the last */
    look(w, "u1", 12, "", OURS);
    assert_int_equal(clock_run(w->event, 1200000), 0);
    assert_int_equal(script.looks, 2);
}

/* The answer of a write brings the Node; what the watch tells of before it must not undo that. */
static void test_the_answer_overtakes_the_watch(void **state) {
    static const char cordon[] = ",\"annotations\":{\"nodeclaimd.io/cordon\":\"{}\"}";
    struct nc_node_write write = {.kind = NC_WRITE_CORDON};
    struct world *w = *state;
    nc_auto_value struct nc_value *after = node("u1", 12, cordon, ",\"spec\":{},\"status\":{}");
    const struct nc_node_written answer = {.outcome = NC_WRITTEN, .node = after};

    meet(w);
    is_busy = true;
    nc_own_node_write(&w->node, &write);
    assert_int_equal(script.writes, 1);
    script.written(&w->node, &answer);
    expect("NODE(whole)+cordon -request -deletion WRITTEN");
    watch(w, NC_WATCH_MODIFIED, "u1", 11, "");
    expect("");
    watch(w, NC_WATCH_MODIFIED, "u1", 12, cordon);
    expect("NODE(whole)+cordon -request -deletion");
    assert_int_equal(clock_run(w->event, 1200000), 0);
    assert_int_equal(script.looks, 1); /* it is known already */
}

static void test_a_refresh_that_fails_is_repeated(void **state) {
    const struct nc_kube_status away = {.http = 503};
    const struct nc_err err = {.class = NC_ERR_TRANSIENT, .code = 503};
    struct world *w = *state;

    watch(w, NC_WATCH_ADDED, "u1", 10, "");
    wait_for_refresh(w, 1);
    script.looked(&w->node, NULL, &away, &err);
    expect("failed");
    wait_for_refresh(w, 2);
}

/* Answered after the watch has shown a newer one: of before, and checked again. */
static void test_a_refresh_that_is_late_is_repeated(void **state) {
    static const char deleting[] = ",\"deletionTimestamp\":\"2026-01-02T03:04:05Z\"";
    struct world *w = *state;

    meet(w);
    is_busy = true;
    watch(w, NC_WATCH_MODIFIED, "u1", 11, "");
    wait_for_refresh(w, 2);
    watch(w, NC_WATCH_MODIFIED, "u1", 12, deleting);
    nc_buf_clear(&script.trace);
    look(w, "u1", 11, "", OURS);
    expect("");
    wait_for_refresh(w, 3);
    assert_true(w->node.view.is_deleting);
}

static void test_requests(void **state) {
    static const char good[] = ",\"annotations\":{\"nodeclaimd.io/drain-request\":"
                               "\"{\\\"id\\\":\\\"r1\\\",\\\"mode\\\":\\\"graceful\\\"}\"}";
    static const char garbage[] =
        ",\"annotations\":{\"nodeclaimd.io/drain-request\":\"drain, please\"}";
    struct world *w = *state;

    meet(w);
    watch(w, NC_WATCH_MODIFIED, "u1", 11, garbage); /* nothing was in force: taken as none */
    expect("NODE say:DrainRequestRefused -request -deletion");
    assert_non_null(w->node.request_refused);
    watch(w, NC_WATCH_MODIFIED, "u1", 12, good);
    expect("NODE +request:r1 -deletion");
    assert_null(w->node.request_refused);
    watch(w, NC_WATCH_MODIFIED, "u1", 13, good); /* the same again */
    expect("NODE -deletion");
    watch(w, NC_WATCH_MODIFIED, "u1", 14, garbage); /* lifts nothing, and was said just now */
    expect("NODE +request:r1 -deletion");
    assert_non_null(w->node.request_refused);
    watch(w, NC_WATCH_MODIFIED, "u1", 15, "");
    expect("NODE -request -deletion");
    assert_null(w->node.request_refused);
}

#define REQUEST_UNTIL(id, until)                                                                   \
    ",\"annotations\":{\"nodeclaimd.io/drain-request\":\"{\\\"id\\\":\\\"" id                      \
    "\\\",\\\"mode\\\":\\\"deadline\\\",\\\"deadline\\\":\\\"" until "\\\"}\"}"

/* A deadline in another time zone is hours past: nobody is to be deleted for that. */
static void test_a_request_whose_deadline_has_passed(void **state) {
    static const char two_hours[] = REQUEST_UNTIL("r1", "2026-01-02T01:04:05Z");
    static const char a_minute[] = REQUEST_UNTIL("r2", "2026-01-02T03:03:05Z");
    static const char longer[] = REQUEST_UNTIL("r3", "2026-01-02T03:03:04Z");
    static const char ahead[] = REQUEST_UNTIL("r4", "2026-01-02T03:05:05Z");
    static const char again[] = REQUEST_UNTIL("r4", "2026-01-02T01:05:05Z");
    struct world *w = *state;

    assert_int_equal(nc_time_parse("2026-01-02T03:04:05Z", &now_usec), 0);
    meet(w);
    watch(w, NC_WATCH_MODIFIED, "u1", 11, two_hours);
    expect("NODE say:DrainRequestRefused -request -deletion");
    assert_non_null(strstr(w->node.request_refused, "deadline 2026-01-02T01:04:05Z had passed"));
    watch(w, NC_WATCH_MODIFIED, "u1", 12, a_minute); /* what was in flight may be so late */
    expect("NODE +request:r2 -deletion");
    assert_null(w->node.request_refused);
    watch(w, NC_WATCH_MODIFIED, "u1", 13, longer); /* the one before stays */
    expect("NODE +request:r2 -deletion");
    assert_non_null(w->node.request_refused);
    watch(w, NC_WATCH_MODIFIED, "u1", 14, ahead);
    expect("NODE +request:r4 -deletion");
    watch(w, NC_WATCH_MODIFIED, "u1", 15, again); /* of the same id, but another deadline */
    expect("NODE +request:r4 -deletion");
    assert_non_null(w->node.request_refused);
}

/* What a process before us had accepted stays in force however late it is. */
static void test_a_request_in_force_stays_so(void **state) {
    static const char late[] = REQUEST_UNTIL("r1", "2026-01-02T01:04:05Z");
    struct world *w = *state;

    assert_int_equal(nc_time_parse("2026-01-02T03:04:05Z", &now_usec), 0);
    script.is_active[NC_SOURCE_REQUEST] = true;
    (void)strcpy(script.notices[NC_SOURCE_REQUEST].id, "r1");
    assert_int_equal(
        nc_time_parse("2026-01-02T01:04:05Z", &script.notices[NC_SOURCE_REQUEST].deadline_usec), 0);
    watch(w, NC_WATCH_ADDED, "u1", 10, late);
    wait_for_refresh(w, 1);
    look(w, "u1", 10, late, OURS);
    expect("NODE(whole) +request:r1 -deletion");
    assert_null(w->node.request_refused);
}

static void test_deletion(void **state) {
    struct world *w = *state;

    meet(w);
    watch(w, NC_WATCH_MODIFIED, "u1", 11, ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"");
    expect("NODE -request +deletion:deletion-u1");
    assert_int_equal(script.notices[NC_SOURCE_DELETION].deadline_usec, 0);
    watch(w, NC_WATCH_DELETED, "u1", 12, ""); /* what it announced stays announced */
    expect("GONE -request");
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

static void claim(struct world *w, const char *uid, const char *more) {
    nc_auto_value struct nc_value *v = node(uid, 20, more, "");

    script.claim.event(&w->claim, NC_WATCH_MODIFIED, v);
}

/* The time of a claim's end may rightly pass while its node observes nothing. */
static void test_the_controllers_request_may_be_late(void **state) {
    struct world *w = *state;

    meet_owned(w);
    assert_int_equal(nc_time_parse("2026-01-02T03:04:05Z", &now_usec), 0);
    watch(w, NC_WATCH_MODIFIED, "u1", 12, OWNER REQUEST_UNTIL("claim-c1", "2026-01-02T01:04:05Z"));
    expect("NODE +request:claim-c1");
    watch(w, NC_WATCH_MODIFIED, "u1", 13, OWNER REQUEST_UNTIL("claim-c2", "2026-01-02T01:04:05Z"));
    expect("NODE say:DrainRequestRefused +request:claim-c1");
    assert_non_null(w->node.request_refused);
}

static void test_claim_deleted_with_its_time(void **state) {
    struct world *w = *state;

    meet_owned(w);
    assert_string_equal(script.claim_path,
                        "/apis/karpenter.sh/v1/nodeclaims?fieldSelector=metadata.name%3Dclaim-1");
    claim(w, "c1", "");
    expect("");
    script.claim.event(&w->claim, NC_WATCH_SYNCED, NULL);
    expect("-deletion");
    claim(w, "another", ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"");
    expect("");
    claim(w, "c1",
          ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"annotations\":{"
          "\"karpenter.sh/nodeclaim-termination-timestamp\":\"2026-01-01T00:02:00Z\"}");
    expect("+deletion:deletion-u1!");
    assert_int_equal(script.notices[NC_SOURCE_DELETION].deadline_usec, 1767225720000000);
    /* That the Node is deleted too is the same ending. */
    watch(w, NC_WATCH_MODIFIED, "u1", 12, OWNER ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"");
    expect("NODE -request +deletion:deletion-u1!");
}

static void test_claim_whose_time_is_none(void **state) {
    struct world *w = *state;

    meet_owned(w);
    claim(w, "c1",
          ",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"annotations\":{"
          "\"karpenter.sh/nodeclaim-termination-timestamp\":\"soon\"}");
    expect("+deletion:deletion-u1");
    assert_int_equal(script.notices[NC_SOURCE_DELETION].deadline_usec, 0);
}

/* No access is no failure, and is not requested again and again. */
static void test_claim_that_may_not_be_read(void **state) {
    const struct nc_kube_status forbidden = {.http = 403}, away = {.http = 503};
    const struct nc_err err = {.class = NC_ERR_AUTH, .code = 403};
    struct world *w = *state;

    meet_owned(w);
    script.claim.failed(&w->claim, &away, &err);
    expect("failed");
    assert_true(script.has_claim);
    script.claim.failed(&w->claim, &forbidden, &err);
    expect("-deletion");
    assert_false(script.has_claim);
    nc_claim_watch_open(&w->claim);
    assert_false(script.has_claim);
    w->claim.after_usec = 1; /* ten minutes later */
    nc_claim_watch_open(&w->claim);
    assert_true(script.has_claim);
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
        assert_null(w->claim.name);
        assert_false(script.has_claim);
    }
}

/* --- closing */

static void test_closing_answers_what_is_in_flight(void **state) {
    struct nc_node_write write = {.kind = NC_WRITE_SIGNAL};
    struct nc_err err = NC_ERR_INIT;
    struct world *w = *state;

    meet(w);
    nc_own_node_write(&w->node, &write);
    w->api.step = NC_SESSION_DOWN;
    nc_own_node_close(&w->node);
    expect("AWAY");
    assert_false(script.has_node);
    nc_own_node_write(&w->node, &write);
    expect("AWAY");
    assert_int_equal(script.writes, 1);
    w->api.step = NC_SESSION_UP;
    assert_int_equal(nc_own_node_open(&w->node, &err), 0);
    watch(w, NC_WATCH_ADDED, "u1", 10, "");
    expect("NODE(whole) -request -deletion"); /* it is known still */
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(test_first_sight),
        TEST(test_whose_it_is_without_a_provider_id),
        TEST(test_none_there),
        TEST(test_another_instances),
        TEST(test_only_metadata),
        TEST(test_refreshes_while_something_goes_on),
        TEST(test_the_answer_overtakes_the_watch),
        TEST(test_a_refresh_that_fails_is_repeated),
        TEST(test_a_refresh_that_is_late_is_repeated),
        TEST(test_requests),
        TEST(test_a_request_whose_deadline_has_passed),
        TEST(test_a_request_in_force_stays_so),
        TEST(test_the_controllers_request_may_be_late),
        TEST(test_deletion),
        TEST(test_claim_deleted_with_its_time),
        TEST(test_claim_whose_time_is_none),
        TEST(test_claim_that_may_not_be_read),
        TEST(test_owners_that_are_no_claim),
        TEST(test_closing_answers_what_is_in_flight),
    };

    return run_group(tests, NULL, NULL);
}
