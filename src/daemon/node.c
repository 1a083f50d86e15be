/*
 * Our own Node: watched by its metadata, read in full only where something is going on, written
 * to by the lifecycle's orders.
 *
 * Gives NODE and NODE_GONE, and the source that is read off the metadata: REQUEST (annotation
 * drain-request; its deletion: DELETION). A Node of our name whose providerID is another
 * instance's is not ours: it counts as none, and so does one that says no providerID while another
 * machine's kubelet reports it. A request that cannot be read, or whose deadline had
 * passed before it was seen, lifts none that is in force: only its removal or another good one
 * does.
 */
#include <stdio.h>
#include <string.h>

#include "nc/names.h"
#include "node.h"

#include "log.h"
#include "nc/str.h"

#define TIMEOUT_USEC 5000000u
#define FROZEN_USEC 1500000u /* the first of several tries: another connection may be answered */
#define PROMPT_USEC 500000u  /* an answer that shows a server in good health */
#define REFRESH_EVERY_USEC 1000000u
#define REFRESH_AFTER_WRITE_USEC 200000u /* the answer of a write brings the Node anyway */
#define REFRESH_REFUSED_USEC 10000000u
#define REPORT_REFUSED_EVERY_USEC 10000000u

static void set_text(char **to, const char *text) {
    if (nc_streq(*to, text))
        return;
    free(*to);
    *to = nc_strdup(text);
}

static void schedule_refresh(struct nc_own_node *nw, uint64_t wait_usec);

/* --- how long to wait */

/* Before the first eviction little time is left and nothing is lost with a connection whose other
 * end is silent; after it an eviction that is cut off may have used a budget up. */
static uint64_t timeout_of(const struct nc_own_node *nw) {
    const uint64_t patient_usec = TIMEOUT_USEC, soon_usec = (uint64_t)FROZEN_USEC << nw->unanswered;

    return nw->o.is_evicting(nw->o.sink.userdata) || soon_usec > patient_usec ? patient_usec
                                                                              : soon_usec;
}

static void note_answer(struct nc_own_node *nw, bool is_answered, uint64_t duration_usec) {
    if (!is_answered)
        nw->unanswered += nw->unanswered < 2;
    else if (duration_usec < PROMPT_USEC)
        nw->unanswered = 0;
}

/* --- what the metadata announces */

/* Whoever asked is told, where people look: a controller of a later release may know words that we
 * do not, and its request is not acknowledged. One who asks in a loop is told now and then. */
static void report_invalid_request(struct nc_own_node *nw, const struct nc_err *err,
                                   bool has_another) {
    nc_auto_free char *message =
        nc_asprintf("annotation %s: %s; %s", NC_ANNOTATION_REQUEST, err->msg,
                    has_another ? "the request before it stays in force" : "ignored");
    const uint64_t now = nc_mono_usec();

    set_text(&nw->request_refused, err->msg);
    nw->o.sink.changed(nw->o.sink.userdata);
    if (nw->refused_usec != 0 && now < nw->refused_usec + REPORT_REFUSED_EVERY_USEC)
        return;
    nw->refused_usec = now;
    nw->o.request_refused(nw->o.sink.userdata, message);
}

static void keep_request(struct nc_own_node *nw, const struct nc_err *err) {
    struct nc_notice before;
    const bool has_before = nw->o.sink.is_active(nw->o.sink.userdata, NC_SOURCE_REQUEST, &before);

    report_invalid_request(nw, err, has_before);
    if (has_before)
        nw->o.sink.notice(nw->o.sink.userdata, &before);
    else
        nw->o.sink.cleared(nw->o.sink.userdata, NC_SOURCE_REQUEST);
}

/* The request of our NodeClaim's end, by the id that the controller gives it. */
static bool is_controllers(const struct nc_own_node *nw, const struct nc_notice *n) {
    return nw->o.claim->uid && nc_starts_with(n->id, "claim-")
           && nc_streq(n->id + strlen("claim-"), nw->o.claim->uid);
}

static bool is_in_force(const struct nc_own_node *nw, const struct nc_notice *n) {
    struct nc_notice before;

    return nw->o.sink.is_active(nw->o.sink.userdata, n->source, &before)
           && nc_streq(before.id, n->id) && before.deadline_usec == n->deadline_usec;
}

/* What was in force before a restart goes on; and a claim's time may rightly end while its node
 * observes nothing. */
static int read_request(const struct nc_own_node *nw, const char *text, struct nc_notice *ret,
                        struct nc_err *err) {
    const int r = nc_notice_read_request(text, strlen(text), NC_SOURCE_REQUEST, ret, err);

    if (r < 0 || is_controllers(nw, ret) || is_in_force(nw, ret))
        return r;
    return nc_notice_check_deadline(ret, nw->o.sink.now(nw->o.sink.userdata), err);
}

static void apply_drain_request(struct nc_own_node *nw, const struct nc_value *metadata) {
    const char *text =
        nc_value_get_string(nc_value_get(metadata, "annotations"), NC_ANNOTATION_REQUEST);
    struct nc_notice notice = {0};
    struct nc_err err = NC_ERR_INIT;

    if (!text) {
        set_text(&nw->request, NULL);
        set_text(&nw->request_refused, NULL);
        nw->o.sink.cleared(nw->o.sink.userdata, NC_SOURCE_REQUEST);
        return;
    }
    if (nc_streq(nw->request, text))
        return;
    set_text(&nw->request, text);
    if (read_request(nw, text, &notice, &err) < 0)
        keep_request(nw, &err);
    else {
        set_text(&nw->request_refused, NULL);
        nw->o.sink.notice(nw->o.sink.userdata, &notice);
    }
}

/* After a restart the claim may be being deleted while the Node is not yet: before it was read
 * nothing is taken back. Whoever set the claim's time took his margin off already: it is the
 * force-delete time itself. */
void nc_own_node_report_deletion(struct nc_own_node *nw) {
    struct nc_notice notice = {.source = NC_SOURCE_DELETION, .action = "delete"};

    if (!nw->view.exists || !nw->is_known)
        return;
    if (!nw->view.is_deleting && !nw->o.claim->is_deleting) {
        if (!nc_claim_watch_is_pending(nw->o.claim))
            nw->o.sink.cleared(nw->o.sink.userdata, NC_SOURCE_DELETION);
        return;
    }
    (void)snprintf(notice.id, sizeof(notice.id), "deletion-%.60s", nw->view.uid);
    (void)snprintf(notice.reason, sizeof(notice.reason), "%s is being deleted",
                   nw->o.claim->is_deleting ? "the NodeClaim" : "the Node");
    notice.deadline_usec = nw->o.claim->t_usec;
    notice.is_force_delete_time = nw->o.claim->t_usec != 0;
    nw->o.sink.notice(nw->o.sink.userdata, &notice);
}

/* --- our Node */

/* What the metadata does not show is told again only where it is known to be of this version. */
static void post_node(struct nc_own_node *nw, const struct nc_value *metadata) {
    struct nc_node_view view = nw->view;
    struct nc_life_event e = {.kind = NC_LIFE_NODE, .node = &view};

    nw->o.seen(nw->o.sink.userdata, metadata);
    view.is_complete &= nc_streq(nw->version, nc_value_get_string(metadata, "resourceVersion"));
    nw->o.post(nw->o.sink.userdata, &e);
    nc_claim_watch_own(nw->o.claim, metadata);
    apply_drain_request(nw, metadata);
    nc_own_node_report_deletion(nw);
}

static void post_gone(struct nc_own_node *nw, bool is_anothers) {
    struct nc_life_event e = {.kind = NC_LIFE_NODE_GONE, .is_anothers = is_anothers};

    nw->o.post(nw->o.sink.userdata, &e);
}

static void forget_node(struct nc_own_node *nw) {
    nw->view = (struct nc_node_view){0};
    nw->is_known = nw->is_foreign = nw->is_doubted = false;
    set_text(&nw->version, NULL);
    set_text(&nw->watch_version, NULL);
    set_text(&nw->request_refused, NULL);
    set_text(&nw->request, NULL); /* what another Node says is read anew */
}

/* A cloud controller may set the providerID later. Until then whose kubelet reports it counts,
 * where that can be told: a Node that was made anew by another machine is not to be cordoned for
 * us. Ours of before a reboot waits for kubelet, as its pods do. */
static bool is_doubtful(const struct nc_own_node *nw, const struct nc_value *node) {
    const char *provider_id = nc_value_string(nc_value_path(node, "spec.providerID"));
    const char *boot_id = nc_value_string(nc_value_path(node, "status.nodeInfo.bootID"));

    return (!provider_id || !*provider_id) && boot_id && *boot_id && *nw->o.boot_id
           && !nc_streq(boot_id, *nw->o.boot_id);
}

static bool is_anothers(const struct nc_own_node *nw, const struct nc_value *node) {
    const char *theirs = nc_value_string(nc_value_path(node, "spec.providerID"));

    return theirs && *theirs && *nw->o.provider_id && !nc_streq(theirs, *nw->o.provider_id);
}

static void refuse_node(struct nc_own_node *nw, const struct nc_value *node) {
    const char *theirs = nc_value_string(nc_value_path(node, "spec.providerID"));
    nc_auto_free char *quoted = nc_quote(theirs, strlen(theirs));

    if (!nw->is_foreign)
        nc_log(NC_LOG_ERROR, &(struct nc_log_fields){.node = *nw->o.node_name},
               "the Node %s has providerID %s, not %s: it belongs to another instance, nothing is "
               "written to it; delete the stale Node",
               *nw->o.node_name, quoted, *nw->o.provider_id);
    nw->is_foreign = nw->is_known = true;
    nw->o.sink.changed(nw->o.sink.userdata);
    post_gone(nw, true);
}

static void doubt_node(struct nc_own_node *nw) {
    if (!nw->is_doubted)
        nc_log(NC_LOG_WARNING, &(struct nc_log_fields){.node = *nw->o.node_name},
               "the Node %s has no providerID and another boot's id than ours: it may belong to "
               "another machine; nothing is written to it until it has a providerID",
               *nw->o.node_name);
    nw->is_known = false;
    nw->is_doubted = nw->is_refresh_wanted = true;
    nw->o.sink.changed(nw->o.sink.userdata);
    post_gone(nw, true);
    schedule_refresh(nw, REFRESH_REFUSED_USEC);
}

/* Our Node was deleted, its pods are drained all the same, and now there is another of its name:
 * until it is known whose it is, the pods that are bound to it may be another machine's. */
static void hold_orphans(struct nc_own_node *nw) {
    if (nw->o.is_orphaned(nw->o.sink.userdata))
        post_gone(nw, true);
}

static void apply_node(struct nc_own_node *nw, const struct nc_value *node) {
    const struct nc_value *metadata = nc_value_get(node, "metadata");

    if (!nc_streq(nc_value_get_string(metadata, "name"), *nw->o.node_name))
        return;
    if (!nc_streq(nc_value_get_string(metadata, "uid"), nw->view.uid))
        forget_node(nw);
    nc_node_view_apply(&nw->view, node, nw->o.staying_volumes);
    set_text(&nw->version, nc_value_get_string(metadata, "resourceVersion"));
    if (is_anothers(nw, node)) {
        refuse_node(nw, node);
        return;
    }
    if (is_doubtful(nw, node)) {
        doubt_node(nw);
        return;
    }
    nw->is_doubted = false;
    nw->is_known = true;
    nw->is_foreign = false;
    nw->o.found(nw->o.sink.userdata, node);
    post_node(nw, metadata);
}

/* Answers and the watch overtake each other: what is told later may be of before. */
static bool is_outdated(const char *version, const char *known) {
    uint64_t theirs, ours;

    return version && known && nc_parse_u64(version, &theirs) == 0
           && nc_parse_u64(known, &ours) == 0 && theirs < ours;
}

static void apply_metadata(struct nc_own_node *nw, const struct nc_value *object) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    const char *version = nc_value_get_string(metadata, "resourceVersion");

    if (!nc_streq(nc_value_get_string(metadata, "uid"), nw->view.uid)) {
        forget_node(nw);
        hold_orphans(nw);
    }
    if (is_outdated(version, nw->version))
        return;
    nc_node_view_apply(&nw->view, object, nw->o.staying_volumes);
    set_text(&nw->watch_version, version);
    if (nw->is_foreign)
        return;
    if (nw->is_known)
        post_node(nw, metadata);
    if (nc_streq(nw->watch_version, nw->version)
        || !(nw->o.is_busy(nw->o.sink.userdata) || !nw->is_known))
        return;
    schedule_refresh(nw, nw->write ? REFRESH_AFTER_WRITE_USEC : 0);
}

/* What a deleted Node announced stays announced: another Node of the name takes it back. */
static void apply_absence(struct nc_own_node *nw) {
    static const enum nc_source announced[] = {NC_SOURCE_REQUEST, NC_SOURCE_DELETION};
    struct nc_notice before;

    forget_node(nw);
    post_gone(nw, false);
    for (size_t i = 0; i < NC_ARRAY_SIZE(announced); i++)
        if (!nw->o.sink.is_active(nw->o.sink.userdata, announced[i], &before))
            nw->o.sink.cleared(nw->o.sink.userdata, announced[i]);
}

static void on_node(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct nc_own_node *nw = userdata;

    nc_api_session_well(nw->o.api);
    switch (event) {
    case NC_WATCH_ADDED:
    case NC_WATCH_MODIFIED:
        nw->is_listed = true;
        apply_metadata(nw, object);
        break;
    case NC_WATCH_DELETED:
        nw->is_listed = false;
        apply_absence(nw);
        break;
    case NC_WATCH_SYNCED:
        nw->is_synced = true;
        if (!nw->is_listed)
            apply_absence(nw);
        break;
    }
}

static void on_well(void *userdata) {
    const struct nc_own_node *nw = userdata;

    nc_api_session_well(nw->o.api);
}

static void on_node_failed(void *userdata, const struct nc_kube_status *status,
                           const struct nc_err *err) {
    struct nc_own_node *nw = userdata;

    nw->o.counters->watch_restarts++;
    nc_api_session_failed(nw->o.api, err);
}

/* --- looking */

/* A look that the watch or an answer has overtaken: it is of before, and is repeated. */
static bool is_overtaken(const struct nc_own_node *nw, const struct nc_value *node) {
    const char *version = nc_value_get_string(nc_value_get(node, "metadata"), "resourceVersion");

    return is_outdated(version, nw->version) || is_outdated(version, nw->watch_version);
}

static void on_refreshed(void *userdata, const struct nc_value *object,
                         const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_own_node *nw = userdata;

    nw->refresh = NULL;
    nc_histogram_add(&nw->o.counters->api_latency, nc_mono_usec() - nw->refresh_usec);
    note_answer(nw, status->http != 0, nc_mono_usec() - nw->refresh_usec);
    if (err->class == NC_ERR_NONE && object) {
        nc_api_session_well(nw->o.api);
        nw->is_refresh_wanted = is_overtaken(nw, object);
        if (nw->is_refresh_wanted)
            schedule_refresh(nw, 0);
        else
            apply_node(nw, object);
    } else if (status->http == 404) { /* the watch tells that it is gone; until then it is there */
        nw->is_refresh_wanted = nw->is_listed;
        if (nw->is_refresh_wanted)
            schedule_refresh(nw, REFRESH_EVERY_USEC);
    } else {
        nc_api_session_failed(nw->o.api, err);
        nw->is_refresh_wanted = true;
        schedule_refresh(nw, status->http == 403 ? REFRESH_REFUSED_USEC : REFRESH_EVERY_USEC);
    }
}

static void start_refresh(struct nc_own_node *nw) {
    nc_auto_free char *path = nc_kube_node_path(*nw->o.node_name, NULL);
    const struct nc_kube_call call = {.what = "get node",
                                      .method = "GET",
                                      .path = path,
                                      .timeout_usec = timeout_of(nw),
                                      .done = on_refreshed,
                                      .userdata = nw};
    struct nc_err err = NC_ERR_INIT;

    nw->is_refresh_wanted = false;
    nw->refresh_usec = nc_mono_usec();
    nw->o.counters->api_requests++;
    if (nc_kube_start(nw->o.api->connection.kube, &call, &nw->refresh, &err) < 0) {
        nc_api_session_failed(nw->o.api, &err);
        nw->is_refresh_wanted = true;
        schedule_refresh(nw, REFRESH_EVERY_USEC);
    }
}

static int on_refresh_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_own_node *nw = userdata;

    if (nc_api_session_is_up(nw->o.api) && !nw->refresh
        && (nw->is_refresh_wanted || !nw->version || !nc_streq(nw->version, nw->watch_version)))
        start_refresh(nw);
    return 0;
}

/* At most once a second, and never two at a time: what changes meanwhile is checked by the next
 * one. */
static void schedule_refresh(struct nc_own_node *nw, uint64_t wait_usec) {
    const uint64_t now = nc_mono_usec(), soonest = nw->refresh_usec + REFRESH_EVERY_USEC;
    uint64_t at = now + wait_usec;

    if (nw->refresh_usec != 0 && at < soonest)
        at = soonest;
    nc_timer_set(nw->o.event, &nw->refresh_timer, at - now, on_refresh_timer, nw);
}

void nc_own_node_refresh(struct nc_own_node *nw) {
    nw->is_refresh_wanted = true;
    if (nc_api_session_is_up(nw->o.api))
        schedule_refresh(nw, 0);
}

/* --- writing */

static void post_written(struct nc_own_node *nw, enum nc_write_outcome outcome,
                         uint64_t retry_usec) {
    struct nc_life_event e = {
        .kind = NC_LIFE_WRITTEN, .outcome = outcome, .retry_after_usec = retry_usec};

    if (outcome != NC_WRITTEN && nw->write_kind < _NC_WRITE_MAX)
        nw->o.counters->node_writes_failed[nw->write_kind]++;
    nw->o.post(nw->o.sink.userdata, &e);
}

static void on_written(void *userdata, const struct nc_node_written *w) {
    struct nc_own_node *nw = userdata;

    nw->write = NULL;
    nc_histogram_add(&nw->o.counters->api_latency, w->duration_usec);
    note_answer(nw, w->outcome != NC_WRITE_UNAVAILABLE, w->duration_usec);
    if (w->outcome == NC_WRITTEN)
        nc_api_session_well(nw->o.api);
    else
        nc_api_session_failed(nw->o.api, &w->err);
    if (w->node)
        apply_node(nw, w->node);
    post_written(nw, w->outcome, w->retry_after_usec);
}

void nc_own_node_write(struct nc_own_node *nw, const struct nc_node_write *w) {
    const struct nc_node_call call = {.node = *nw->o.node_name,
                                      .write = w,
                                      .now_usec = nw->o.sink.now(nw->o.sink.userdata),
                                      .timeout_usec = timeout_of(nw),
                                      .done = on_written,
                                      .userdata = nw};
    struct nc_err err = NC_ERR_INIT;

    nw->write_kind = w->kind;
    nw->o.counters->node_writes[w->kind]++;
    if (!nc_api_session_is_up(nw->o.api) || nw->is_foreign || nw->write) {
        post_written(nw, NC_WRITE_UNAVAILABLE, 0);
        return;
    }
    nw->write_usec = nc_mono_usec();
    nw->o.counters->api_requests++;
    if (nc_node_send(nw->o.api->connection.kube, &call, &nw->write, &err) < 0) {
        nc_api_session_failed(nw->o.api, &err);
        post_written(nw, NC_WRITE_UNAVAILABLE, 0);
    }
}

bool nc_own_node_is_stuck(const struct nc_own_node *nw, uint64_t mono_usec) {
    return (nw->write && mono_usec > nw->write_usec + 2 * TIMEOUT_USEC)
           || (nw->refresh && mono_usec > nw->refresh_usec + 2 * TIMEOUT_USEC);
}

int nc_own_node_open(struct nc_own_node *nw, struct nc_err *err) {
    nc_auto_free char *selector = nc_kube_node_selector(*nw->o.node_name);
    const struct nc_watch_options o = {
        .path = "/api/v1/nodes",
        .selector = selector,
        .metadata_only = true,
        .event = on_node,
        .failed = on_node_failed,
        .well = on_well,
        .userdata = nw,
    };

    if (nw->watch)
        return 0;
    nw->is_synced = nw->is_listed = false;
    nc_claim_watch_open(nw->o.claim);
    return nc_watch_new(nw->o.api->connection.kube, nw->o.event, &o, &nw->watch, err);
}

void nc_own_node_close(struct nc_own_node *nw) {
    const bool was_writing = nw->write != NULL;

    nw->watch = nc_watch_free(nw->watch);
    nc_claim_watch_close(nw->o.claim);
    nw->refresh = nc_kube_cancel(nw->refresh);
    nw->write = nc_kube_cancel(nw->write);
    nw->refresh_timer = sd_event_source_disable_unref(nw->refresh_timer);
    if (was_writing)
        post_written(nw, NC_WRITE_UNAVAILABLE, 0);
}

void nc_own_node_done(struct nc_own_node *nw) {
    forget_node(nw);
}
