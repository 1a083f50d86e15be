/*
 * Our own Node: watched by its metadata, read in full only where something is going on, written
 * to by the lifecycle's orders.
 *
 * Gives NODE and NODE_GONE; what its metadata requests, node-request.c reads. A Node of our name
 * whose providerID is another instance's is not ours: it counts as none, and so does one that says
 * no providerID while another machine's kubelet reports it.
 */
#include "daemon.h"

#include <errno.h>

#include "log.h"
#include "nc/names.h"
#include "nc/str.h"

#define TIMEOUT_USEC 5000000u
#define FROZEN_USEC 1500000u /* the first of several tries: another connection may be answered */
#define UNANSWERED_MAX 3u    /* then the server is slow, and is given twelve seconds */
#define PROMPT_USEC 500000u  /* an answer that shows a server in good health */
#define REFRESH_EVERY_USEC 1000000u
#define FRESH_TO_DELETE_USEC 500000u
#define FRESH_USEC 2000000u /* of a Node that was read: no pod is asked by an older one */
#define REFRESH_AFTER_WRITE_USEC 200000u /* the answer of a write brings the Node anyway */
#define REFRESH_REFUSED_USEC 10000000u

static void schedule_refresh(struct nc_daemon *d, uint64_t wait_usec);

/* --- how long to wait */

/* Before the first eviction little time is left and nothing is lost with a connection whose other
 * end is silent; after it an eviction that is cut off may have used a budget up. */
static uint64_t timeout_of(const struct nc_daemon *d) {
    const uint64_t usec = (uint64_t)FROZEN_USEC << d->node.unanswered;

    return d->pods.requests && usec < TIMEOUT_USEC ? TIMEOUT_USEC : usec;
}

static void note_answer(struct nc_daemon *d, bool is_answered, uint64_t duration_usec) {
    if (!is_answered)
        d->node.unanswered += d->node.unanswered < UNANSWERED_MAX;
    else if (duration_usec < PROMPT_USEC)
        d->node.unanswered = 0;
}

/* --- our Node */

/* What the metadata does not show is told again only where it is known to be of this version. */
static void post_node(struct nc_daemon *d, const struct nc_value *metadata) {
    struct nc_node_view view = d->node.view;
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NODE, .node = &view};

    nc_imds_condition_note_metadata(d, metadata);
    nc_fit_gate_note_metadata(d, metadata);
    view.is_complete &= nc_streq(d->node.version, nc_value_get_string(metadata, "resourceVersion"));
    nc_daemon_post(d, &e);
    nc_claim_watch_own(d, metadata);
    nc_replace_text(&d->node.pool,
                    nc_value_get_string(nc_value_get(metadata, "labels"), NC_LABEL_NODE_POOL));
    nc_node_request_apply(d, metadata);
    nc_node_request_note_deletion(d);
}

static void post_gone(struct nc_daemon *d, bool is_anothers) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NODE_GONE, .is_anothers = is_anothers};

    nc_daemon_post(d, &e);
}

static void note_ours(struct nc_daemon *d) {
    if (d->node.is_foreign || d->node.is_doubted)
        nc_api_session_note_obstacle(d, NC_OBSTACLE_NODE, NULL);
    d->node.is_foreign = d->node.is_doubted = false;
}

static void forget_node(struct nc_daemon *d) {
    nc_fit_gate_forget_node(d);
    note_ours(d);
    d->node.view = (struct nc_node_view){0};
    d->node.is_known = false;
    nc_replace_text(&d->node.version, NULL);
    nc_replace_text(&d->node.watch_version, NULL);
    nc_replace_text(&d->node.request_refused, NULL);
    nc_replace_text(&d->node.pool, NULL);
    nc_replace_text(&d->node.request, NULL); /* what another Node says is read anew */
}

void nc_own_node_reread(struct nc_daemon *d) {
    d->node.is_unread = true;
    d->node.is_known = false;
}

/* A cloud controller may set the providerID later. Until then whose kubelet reports it counts,
 * where that can be told: a Node that was made anew by another machine is not to be cordoned for
 * us. Ours of before a reboot waits for kubelet, as its pods do. */
static bool is_doubtful(const struct nc_daemon *d, const struct nc_value *node) {
    const char *provider_id = nc_value_path_string(node, "spec.providerID");
    const char *boot_id = nc_value_path_string(node, "status.nodeInfo.bootID");

    return (!provider_id || !*provider_id) && boot_id && *boot_id && d->boot_id
           && !nc_streq(boot_id, d->boot_id);
}

static bool is_anothers(const struct nc_daemon *d, const struct nc_value *node) {
    const char *theirs = nc_value_path_string(node, "spec.providerID");

    return theirs && *theirs && d->provider_id && !nc_streq(theirs, d->provider_id);
}

static void note_stranger(struct nc_daemon *d, bool is_new, const struct nc_err *err) {
    if (is_new)
        nc_log_node(NC_LOG_ERROR, d->node_name, "%s; %s", err->msg, err->remedy);
    post_gone(d, true);
    nc_api_session_note_obstacle(d, NC_OBSTACLE_NODE, err);
}

static void refuse_node(struct nc_daemon *d, const struct nc_value *node) {
    const bool is_new = !d->node.is_foreign;
    const char *theirs = nc_value_path_string(node, "spec.providerID");
    nc_auto_free char *quoted = nc_quote_string(theirs);
    struct nc_err err = NC_ERR_INIT;

    (void)nc_err_set(&err, NC_ERR_PROTOCOL, EEXIST,
                     "the Node %s has providerID %s, not %s: it belongs to another instance, "
                     "nothing is written to it",
                     d->node_name, quoted, d->provider_id);
    nc_err_remedy(&err, "compare both instances in EC2: the Node is for the one that runs; delete "
                        "it only where its instance is gone, or mend the kubeconfig");
    d->node.is_foreign = d->node.is_known = true;
    note_stranger(d, is_new, &err);
}

static void doubt_node(struct nc_daemon *d) {
    const bool is_new = !d->node.is_doubted;
    struct nc_err err = NC_ERR_INIT;

    (void)nc_err_set(&err, NC_ERR_PROTOCOL, EEXIST,
                     "the Node %s has no providerID and another boot's id than ours: it may belong "
                     "to another machine, nothing is written to it",
                     d->node_name);
    nc_err_remedy(&err, "wait for its providerID, or delete it");
    d->node.is_known = false;
    d->node.is_doubted = d->node.is_refresh_wanted = true;
    note_stranger(d, is_new, &err);
    schedule_refresh(d, REFRESH_REFUSED_USEC);
}

static void note_read(struct nc_daemon *d) {
    d->node.is_stale = d->node.is_unread = false;
    d->node.read_usec = nc_mono_usec();
}

static void apply_ours(struct nc_daemon *d, const struct nc_value *node,
                       const struct nc_value *metadata) {
    if (!nc_value_says(metadata, "uid", d->node.view.uid))
        forget_node(d);
    nc_node_view_apply(&d->node.view, node, &d->pods.staying_volumes);
    nc_replace_text(&d->node.version, nc_value_get_string(metadata, "resourceVersion"));
    d->node.is_unread = false;
    if (is_anothers(d, node)) {
        refuse_node(d, node);
        return;
    }
    if (is_doubtful(d, node)) {
        doubt_node(d);
        return;
    }
    note_ours(d);
    d->node.is_known = true;
    nc_imds_condition_note_node(d, node);
    nc_fit_gate_note_node(d, node);
    nc_pod_evictor_clean_up(d);
    post_node(d, metadata);
}

/* Read only once all of it is told: a pod that is due is not ended between the Node and what the
 * Node requests. */
static void apply_node(struct nc_daemon *d, const struct nc_value *node) {
    const struct nc_value *metadata = nc_value_get(node, "metadata");

    if (!nc_value_says(metadata, "name", d->node_name))
        return;
    apply_ours(d, node, metadata);
    note_read(d);
}

/* Answers and the watch overtake each other: what is told later may be of before. */
static bool is_outdated(const char *version, const char *known) {
    uint64_t theirs, ours;

    return version && known && nc_parse_u64(version, &theirs) == 0
           && nc_parse_u64(known, &ours) == 0 && theirs < ours;
}

static void apply_metadata(struct nc_daemon *d, const struct nc_value *object) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    const char *version = nc_value_get_string(metadata, "resourceVersion");

    if (!nc_value_says(metadata, "uid", d->node.view.uid)) {
        forget_node(d);
        nc_own_node_reread(d);
        /* Our Node was deleted, its pods are drained all the same, and now there is another of its
         * name: until it is known whose it is, the pods that are bound to it may be another's. */
        if (nc_lifecycle_is_orphaned(d->life))
            post_gone(d, true);
    }
    if (is_outdated(version, d->node.version))
        return;
    nc_node_view_apply(&d->node.view, object, &d->pods.staying_volumes);
    nc_replace_text(&d->node.watch_version, version);
    if (d->node.is_foreign)
        return;
    if (d->node.is_known)
        post_node(d, metadata);
    if (nc_streq(d->node.watch_version, d->node.version)
        || !(nc_daemon_is_busy(d) || !d->node.is_known || nc_fit_gate_wants_node(d)))
        return;
    schedule_refresh(d, d->node.write ? REFRESH_AFTER_WRITE_USEC : 0);
}

/* What a deleted Node announced stays announced: another Node of the name takes it back. */
static void apply_absence(struct nc_daemon *d) {
    static const enum nc_source announced[] = {NC_SOURCE_REQUEST, NC_SOURCE_DELETION};

    forget_node(d);
    d->node.is_unread = false;
    post_gone(d, false);
    for (size_t i = 0; i < NC_ARRAY_SIZE(announced); i++)
        if (!nc_lifecycle_notice(d->life, announced[i]))
            nc_daemon_post_cleared(d, announced[i]);
}

static void on_node(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct nc_daemon *d = userdata;

    nc_api_session_well(d);
    switch (event) {
    case NC_WATCH_ADDED:
    case NC_WATCH_MODIFIED:
        d->node.is_listed = true;
        apply_metadata(d, object);
        break;
    case NC_WATCH_DELETED:
        d->node.is_listed = false;
        apply_absence(d);
        break;
    case NC_WATCH_SYNCED:
        d->node.is_synced = true;
        if (!d->node.is_listed)
            apply_absence(d);
        break;
    }
}

/* --- looking */

/* A look that the watch or an answer has overtaken: it is of before, and is repeated. */
static bool is_overtaken(const struct nc_daemon *d, const struct nc_value *node) {
    const char *version = nc_value_path_string(node, "metadata.resourceVersion");

    return is_outdated(version, d->node.version) || is_outdated(version, d->node.watch_version);
}

static void on_refreshed(void *userdata, const struct nc_value *object,
                         const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_daemon *d = userdata;

    d->node.refresh = NULL;
    nc_histogram_add(&d->counters.api_latency, nc_mono_usec() - d->node.refresh_usec);
    note_answer(d, status->http != 0, nc_mono_usec() - d->node.refresh_usec);
    if (err->class == NC_ERR_NONE && object) {
        nc_api_session_well(d);
        d->node.is_refresh_wanted = is_overtaken(d, object);
        if (d->node.is_refresh_wanted)
            schedule_refresh(d, 0);
        else
            apply_node(d, object);
    } else if (status->http == 404) { /* the watch tells that it is gone; until then it is there */
        note_read(d);
        d->node.is_refresh_wanted = d->node.is_listed;
        if (d->node.is_refresh_wanted)
            schedule_refresh(d, REFRESH_EVERY_USEC);
    } else {
        nc_api_session_failed(d, err);
        if (status->http == 403) /* more than that is not to be known */
            note_read(d);
        d->node.is_refresh_wanted = true;
        schedule_refresh(d, status->http == 403 ? REFRESH_REFUSED_USEC : REFRESH_EVERY_USEC);
    }
}

static void start_refresh(struct nc_daemon *d) {
    nc_auto_free char *path = nc_kube_node_path(d->node_name, NULL);
    const struct nc_kube_call call = {.what = "get node",
                                      .method = "GET",
                                      .path = path,
                                      .timeout_usec = timeout_of(d),
                                      .done = on_refreshed,
                                      .userdata = d};
    struct nc_err err = NC_ERR_INIT;

    d->node.is_refresh_wanted = false;
    d->node.refresh_usec = nc_mono_usec();
    d->counters.api_requests++;
    if (nc_kube_start(d->api.connection.kube, &call, &d->node.refresh, &err) < 0) {
        nc_api_session_failed(d, &err);
        d->node.is_refresh_wanted = true;
        schedule_refresh(d, REFRESH_EVERY_USEC);
    }
}

static int on_refresh_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_daemon *d = userdata;

    if (nc_api_session_is_up(&d->api) && !d->node.refresh
        && (d->node.is_refresh_wanted || !d->node.version
            || !nc_streq(d->node.version, d->node.watch_version)))
        start_refresh(d);
    return 0;
}

/* At most once a second, and never two at a time: what changes meanwhile is checked by the next
 * one. */
static void schedule_refresh(struct nc_daemon *d, uint64_t wait_usec) {
    const uint64_t now = nc_mono_usec(), soonest = d->node.refresh_usec + REFRESH_EVERY_USEC;
    uint64_t at = now + wait_usec;

    if (d->node.refresh_usec != 0 && at < soonest)
        at = soonest;
    nc_timer_set(d->app->event, &d->node.refresh_timer, at - now, on_refresh_timer, d);
}

void nc_own_node_refresh(struct nc_daemon *d) {
    d->node.is_refresh_wanted = true;
    if (nc_api_session_is_up(&d->api))
        schedule_refresh(d, 0);
}

/* In an outage its watch pauses for up to half a minute. */
void nc_own_node_check(struct nc_daemon *d) {
    const bool is_busy = nc_daemon_is_busy(d);

    if (!d->node.is_known && is_busy)
        nc_own_node_refresh(d);
    if (!is_busy && !d->node.is_foreign && !d->node.is_doubted) /* no write is wanted any more */
        nc_api_session_note_obstacle(d, NC_OBSTACLE_NODE, NULL);
}

bool nc_own_node_is_current(struct nc_daemon *d, bool is_deletion) {
    const uint64_t fresh_usec = is_deletion ? FRESH_TO_DELETE_USEC : FRESH_USEC;
    const bool is_old = d->node.is_stale || nc_mono_usec() > d->node.read_usec + fresh_usec;

    if (!d->node.is_unread && (!is_old || !nc_lifecycle_notice(d->life, NC_SOURCE_REQUEST)))
        return true;
    if (!d->node.refresh)
        start_refresh(d);
    return false;
}

/* --- writing */

/* What was meant for the Node before is not written to this one: whose it is is read first. */
static void note_another(struct nc_daemon *d) {
    nc_own_node_reread(d);
    nc_own_node_refresh(d);
}

/* err NULL: it was not sent. */
static void post_written(struct nc_daemon *d, enum nc_write_outcome outcome, uint64_t retry_usec,
                         const struct nc_err *err) {
    nc_auto_free char *message =
        err && err->code >= 400
            ? nc_asprintf("%s%s%s", err->msg, *err->remedy ? "; " : "", err->remedy)
            : NULL;
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_WRITTEN,
                                   .outcome = outcome,
                                   .retry_after_usec = retry_usec,
                                   .message = message};

    if (outcome != NC_WRITTEN && d->node.write_kind < _NC_WRITE_MAX)
        d->counters.node_writes_failed[d->node.write_kind]++;
    nc_daemon_post(d, &e);
}

/* Until one of its kind is written. */
static void note_refusal(struct nc_daemon *d, const struct nc_node_written *w) {
    const bool is_refused = w->outcome == NC_WRITE_REFUSED;

    if (!is_refused && (w->outcome != NC_WRITTEN || d->node.refused_kind != d->node.write_kind))
        return;
    d->node.refused_kind = is_refused ? d->node.write_kind : NC_WRITE_NONE;
    nc_api_session_note_obstacle(d, NC_OBSTACLE_NODE, is_refused ? &w->err : NULL);
}

static void on_written(void *userdata, const struct nc_node_written *w) {
    struct nc_daemon *d = userdata;

    d->node.write = NULL;
    nc_histogram_add(&d->counters.api_latency, w->duration_usec);
    note_answer(d, w->outcome != NC_WRITE_UNAVAILABLE || w->is_anothers, w->duration_usec);
    if (w->is_anothers)
        note_another(d);
    else if (w->outcome == NC_WRITTEN)
        nc_api_session_well(d);
    else
        nc_api_session_failed(d, &w->err);
    note_refusal(d, w);
    if (w->node)
        apply_node(d, w->node);
    post_written(d, w->outcome, w->retry_after_usec, &w->err);
}

void nc_own_node_write(struct nc_daemon *d, const struct nc_node_write *w) {
    const struct nc_node_call call = {.node = d->node_name,
                                      .write = w,
                                      .now_usec = nc_daemon_now(d),
                                      .timeout_usec = timeout_of(d),
                                      .done = on_written,
                                      .userdata = d};
    struct nc_err err = NC_ERR_INIT;

    d->node.write_kind = w->kind;
    d->counters.node_writes[w->kind]++;
    if (!nc_api_session_is_up(&d->api) || d->node.is_foreign || d->node.is_unread
        || d->node.write) {
        post_written(d, NC_WRITE_UNAVAILABLE, 0, NULL);
        return;
    }
    d->node.write_usec = nc_mono_usec();
    d->counters.api_requests++;
    if (nc_node_send(d->api.connection.kube, &call, &d->node.write, &err) < 0) {
        nc_api_session_failed(d, &err);
        post_written(d, NC_WRITE_UNAVAILABLE, 0, NULL);
    }
}

bool nc_own_node_note_patched(struct nc_daemon *d, const struct nc_kube_status *status) {
    if (nc_kube_is_about_uid(status))
        note_another(d);
    return nc_kube_is_refusal(status);
}

void nc_own_node_patch_status(struct nc_daemon *d, struct nc_kube_call call, struct nc_value *body,
                              struct nc_kube_req **ret) {
    nc_auto_free char *path = nc_kube_node_path(d->node_name, "status");
    struct nc_err err = NC_ERR_INIT;

    nc_node_patch_only(body, d->node.view.uid);
    call.method = "PATCH";
    call.path = path;
    call.body = body;
    call.patch = NC_KUBE_PATCH_STRATEGIC;
    call.timeout_usec = TIMEOUT_USEC;
    call.userdata = d;
    d->counters.api_requests++;
    if (nc_kube_start(d->api.connection.kube, &call, ret, &err) < 0)
        call.done(d, NULL, &(struct nc_kube_status){0}, &err);
}

bool nc_own_node_is_stuck(const struct nc_daemon *d, uint64_t mono_usec) {
    const uint64_t longest_usec = (uint64_t)FROZEN_USEC << (UNANSWERED_MAX + 1);

    return (d->node.write && mono_usec > d->node.write_usec + longest_usec)
           || (d->node.refresh && mono_usec > d->node.refresh_usec + longest_usec);
}

int nc_own_node_open(struct nc_daemon *d, struct nc_err *err) {
    nc_auto_free char *selector = nc_kube_node_selector(d->node_name);
    const struct nc_watch_options o = {
        .path = "/api/v1/nodes",
        .selector = selector,
        .metadata_only = true,
        .event = on_node,
        .failed = nc_api_session_on_failed,
        .well = nc_api_session_on_well,
        .userdata = d,
    };

    if (d->node.watch)
        return 0;
    d->node.is_synced = d->node.is_listed = false;
    nc_claim_watch_open(d);
    nc_own_node_check(d);
    return nc_watch_new(d->api.connection.kube, d->app->event, &o, &d->node.watch, err);
}

void nc_own_node_close(struct nc_daemon *d) {
    const bool was_writing = d->node.write != NULL;

    d->node.watch = nc_watch_free(d->node.watch);
    nc_claim_watch_close(d);
    d->node.refresh = nc_kube_cancel(d->node.refresh);
    d->node.write = nc_kube_cancel(d->node.write);
    d->node.refresh_timer = sd_event_source_disable_unref(d->node.refresh_timer);
    if (was_writing)
        post_written(d, NC_WRITE_UNAVAILABLE, 0, NULL);
}

void nc_own_node_done(struct nc_daemon *d) {
    forget_node(d);
}
