/*
 * Our own Node: watched by its metadata, looked at whole only where something is going on, written
 * to by the lifecycle's orders.
 *
 * Gives NODE and NODE_GONE, and the source that is read off the metadata: REQUEST (annotation
 * drain-request; its deletion is daemon-claim.c's). A Node of our name whose providerID is another
 * instance's is not ours: it counts as none, and so does one that says no providerID while another
 * machine's kubelet reports it. A request that cannot be read, or whose deadline had
 * passed before it was seen, lifts none that is in force: only its removal or another good one
 * does.
 */
#include <string.h>

#include "daemon.h"

#include "log.h"
#include "nc/str.h"

#define TIMEOUT_USEC 5000000u
#define FROZEN_USEC 1500000u /* the first of several tries: another connection may be answered */
#define PROMPT_USEC 500000u  /* an answer that shows a server in good health */
#define LOOK_EVERY_USEC 1000000u
#define LOOK_AFTER_WRITE_USEC 200000u /* the answer of a write brings the Node anyway */
#define LOOK_REFUSED_USEC 10000000u
#define LOOK_ACCURACY_USEC 10000u
#define SAY_REFUSED_EVERY_USEC 10000000u

static void look_in(struct nc_daemon *d, uint64_t wait_usec);

/* --- how long to wait */

/* Before the first eviction little time is left and nothing is lost with a connection whose other
 * end is silent; after it an eviction that is cut off may have used a budget up. */
static uint64_t timeout_of(const struct nc_daemon *d) {
    const uint64_t patient_usec = TIMEOUT_USEC, soon_usec = (uint64_t)FROZEN_USEC << d->unanswered;

    return d->pod_requests || soon_usec > patient_usec ? patient_usec : soon_usec;
}

static void note_answer(struct nc_daemon *d, bool is_answered, uint64_t duration_usec) {
    if (!is_answered)
        d->unanswered += d->unanswered < 2;
    else if (duration_usec < PROMPT_USEC)
        d->unanswered = 0;
}

/* --- what the metadata announces */

/* Whoever asked is told, where people look: a controller of a later release may know words that we
 * do not, and its request is not acknowledged. One who asks in a loop is told now and then. */
static void say_refusal(struct nc_daemon *d, const struct nc_err *err, bool has_another) {
    nc_auto_free char *message =
        nc_asprintf("annotation %s: %s; %s", NC_ANNOTATION_REQUEST, err->msg,
                    has_another ? "the request before it stays in force" : "taken as none");
    const struct nc_life_action a = {.kind = NC_ACT_ANNOUNCE,
                                     .reason = "DrainRequestRefused",
                                     .is_warning = true,
                                     .message = message,
                                     .series = (char *)NC_ANNOTATION_REQUEST};
    const uint64_t now = nc_mono_usec();

    nc_daemon_set(&d->request_refused, err->msg);
    d->is_status_due = true;
    if (d->refused_usec != 0 && now < d->refused_usec + SAY_REFUSED_EVERY_USEC)
        return;
    d->refused_usec = now;
    nc_daemon_say(d, &a);
}

static void keep_request(struct nc_daemon *d, const struct nc_err *err) {
    struct nc_life_view view;

    nc_life_look(d->life, nc_daemon_now(d), &view);
    say_refusal(d, err, view.is_active[NC_SOURCE_REQUEST]);
    if (view.is_active[NC_SOURCE_REQUEST]) {
        const struct nc_notice before = view.notices[NC_SOURCE_REQUEST];
        nc_daemon_post_notice(d, &before);
    } else {
        nc_daemon_post_cleared(d, NC_SOURCE_REQUEST);
    }
}

/* The request of our NodeClaim's end, by the id that the controller gives it. */
static bool is_controllers(const struct nc_daemon *d, const struct nc_notice *n) {
    return d->owner_uid && nc_starts_with(n->id, "claim-")
           && nc_streq(n->id + strlen("claim-"), d->owner_uid);
}

static bool is_in_force(const struct nc_daemon *d, const struct nc_notice *n) {
    struct nc_life_view view;

    nc_life_look(d->life, nc_daemon_now(d), &view);
    return view.is_active[n->source] && nc_streq(view.notices[n->source].id, n->id)
           && view.notices[n->source].deadline_usec == n->deadline_usec;
}

/* What was in force before a restart goes on; and a claim's time may rightly end while its node
 * hears nothing. */
static int read_request(const struct nc_daemon *d, const char *text, struct nc_notice *ret,
                        struct nc_err *err) {
    const int r = nc_notice_read_request(text, strlen(text), NC_SOURCE_REQUEST, ret, err);

    if (r < 0 || is_controllers(d, ret) || is_in_force(d, ret))
        return r;
    return nc_notice_check_deadline(ret, nc_daemon_now(d), err);
}

static void take_request(struct nc_daemon *d, const struct nc_value *metadata) {
    const char *text =
        nc_value_get_string(nc_value_get(metadata, "annotations"), NC_ANNOTATION_REQUEST);
    struct nc_notice notice = {0};
    struct nc_err err = NC_ERR_INIT;

    if (!text) {
        nc_daemon_set(&d->request, NULL);
        nc_daemon_set(&d->request_refused, NULL);
        nc_daemon_post_cleared(d, NC_SOURCE_REQUEST);
        return;
    }
    if (nc_streq(d->request, text))
        return;
    nc_daemon_set(&d->request, text);
    if (read_request(d, text, &notice, &err) < 0)
        keep_request(d, &err);
    else {
        nc_daemon_set(&d->request_refused, NULL);
        nc_daemon_post_notice(d, &notice);
    }
}

/* --- our Node */

/* What the metadata does not show is told again only where it is known to be of this version. */
static void post_node(struct nc_daemon *d, const struct nc_value *metadata) {
    struct nc_node_view view = d->view;
    struct nc_life_event e = {.kind = NC_LIFE_NODE, .node = &view};

    nc_daemon_imds_condition_metadata(d, metadata);
    view.is_whole &= nc_streq(d->node_version, nc_value_get_string(metadata, "resourceVersion"));
    nc_daemon_post(d, &e);
    nc_daemon_claim_take(d, metadata);
    take_request(d, metadata);
    nc_daemon_judge_deletion(d);
}

static void post_gone(struct nc_daemon *d, bool is_anothers) {
    struct nc_life_event e = {.kind = NC_LIFE_NODE_GONE, .is_anothers = is_anothers};

    nc_daemon_post(d, &e);
}

static void forget_node(struct nc_daemon *d) {
    d->view = (struct nc_node_view){0};
    d->is_node_known = d->is_foreign = d->is_doubted = false;
    nc_daemon_set(&d->node_version, NULL);
    nc_daemon_set(&d->watch_version, NULL);
    nc_daemon_set(&d->request_refused, NULL);
    nc_daemon_set(&d->request, NULL); /* what another Node says is read anew */
}

/* A cloud controller may set the providerID later. Until then whose kubelet reports it counts,
 * where that can be told: a Node that was made anew by another machine is not to be cordoned for
 * us. Ours of before a reboot waits for kubelet, as its pods do. */
static bool is_doubtful(const struct nc_daemon *d, const struct nc_value *node) {
    const char *provider_id = nc_value_string(nc_value_path(node, "spec.providerID"));
    const char *boot_id = nc_value_string(nc_value_path(node, "status.nodeInfo.bootID"));

    return (!provider_id || !*provider_id) && boot_id && *boot_id && d->boot_id
           && !nc_streq(boot_id, d->boot_id);
}

static bool is_anothers(const struct nc_daemon *d, const struct nc_value *node) {
    const char *theirs = nc_value_string(nc_value_path(node, "spec.providerID"));

    return theirs && *theirs && d->provider_id && !nc_streq(theirs, d->provider_id);
}

static void refuse_node(struct nc_daemon *d, const struct nc_value *node) {
    const char *theirs = nc_value_string(nc_value_path(node, "spec.providerID"));
    nc_auto_free char *quoted = nc_quote(theirs, strlen(theirs));

    if (!d->is_foreign)
        nc_log(NC_LOG_ERROR, &(struct nc_log_fields){.node = d->node_name},
               "the Node %s has providerID %s, not %s: it belongs to another instance, nothing is "
               "written to it; delete the stale Node",
               d->node_name, quoted, d->provider_id);
    d->is_foreign = d->is_node_known = true;
    d->is_status_due = true;
    post_gone(d, true);
}

static void doubt_node(struct nc_daemon *d) {
    if (!d->is_doubted)
        nc_log(NC_LOG_WARNING, &(struct nc_log_fields){.node = d->node_name},
               "the Node %s has no providerID and another boot's id than ours: it may belong to "
               "another machine, nothing is written to it until it says whose it is",
               d->node_name);
    d->is_node_known = false;
    d->is_doubted = d->is_status_due = d->is_look_wanted = true;
    post_gone(d, true);
    look_in(d, LOOK_REFUSED_USEC);
}

/* Our Node was deleted, its pods are drained all the same, and now there is another of its name:
 * until it is known whose it is, the pods that are bound to it may be another machine's. */
static void hold_orphans(struct nc_daemon *d) {
    struct nc_life_view view;

    nc_life_look(d->life, nc_daemon_now(d), &view);
    if (view.is_orphaned)
        post_gone(d, true);
}

static void take_whole(struct nc_daemon *d, const struct nc_value *node) {
    const struct nc_value *metadata = nc_value_get(node, "metadata");

    if (!nc_streq(nc_value_get_string(metadata, "name"), d->node_name))
        return;
    if (!nc_streq(nc_value_get_string(metadata, "uid"), d->view.uid))
        forget_node(d);
    nc_node_view_take(&d->view, node, &d->staying_volumes);
    nc_daemon_set(&d->node_version, nc_value_get_string(metadata, "resourceVersion"));
    if (is_anothers(d, node)) {
        refuse_node(d, node);
        return;
    }
    if (is_doubtful(d, node)) {
        doubt_node(d);
        return;
    }
    d->is_doubted = false;
    d->is_node_known = true;
    d->is_foreign = false;
    nc_daemon_imds_condition_node(d, node);
    post_node(d, metadata);
}

/* Answers and the watch overtake each other: what is told later may be of before. */
static bool is_outdated(const char *version, const char *known) {
    uint64_t theirs, ours;

    return version && known && nc_parse_u64(version, &theirs) == 0
           && nc_parse_u64(known, &ours) == 0 && theirs < ours;
}

static void take_metadata(struct nc_daemon *d, const struct nc_value *object) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    const char *version = nc_value_get_string(metadata, "resourceVersion");

    if (!nc_streq(nc_value_get_string(metadata, "uid"), d->view.uid)) {
        forget_node(d);
        hold_orphans(d);
    }
    if (is_outdated(version, d->node_version))
        return;
    nc_node_view_take(&d->view, object, &d->staying_volumes);
    nc_daemon_set(&d->watch_version, version);
    if (d->is_foreign)
        return;
    if (d->is_node_known)
        post_node(d, metadata);
    if (nc_streq(d->watch_version, d->node_version) || !(nc_daemon_is_busy(d) || !d->is_node_known))
        return;
    look_in(d, d->write ? LOOK_AFTER_WRITE_USEC : 0);
}

/* What a deleted Node announced stays announced: another Node of the name takes it back. */
static void take_absence(struct nc_daemon *d) {
    struct nc_life_view view;

    forget_node(d);
    post_gone(d, false);
    nc_life_look(d->life, nc_daemon_now(d), &view);
    if (!view.is_active[NC_SOURCE_REQUEST])
        nc_daemon_post_cleared(d, NC_SOURCE_REQUEST);
    if (!view.is_active[NC_SOURCE_DELETION])
        nc_daemon_post_cleared(d, NC_SOURCE_DELETION);
}

static void on_node(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct nc_daemon *d = userdata;

    nc_api_session_well(&d->api);
    switch (event) {
    case NC_WATCH_ADDED:
    case NC_WATCH_MODIFIED:
        d->is_node_listed = true;
        take_metadata(d, object);
        break;
    case NC_WATCH_DELETED:
        d->is_node_listed = false;
        take_absence(d);
        break;
    case NC_WATCH_SYNCED:
        d->is_node_synced = true;
        if (!d->is_node_listed)
            take_absence(d);
        break;
    }
}

static void on_node_failed(void *userdata, const struct nc_kube_status *status,
                           const struct nc_err *err) {
    struct nc_daemon *d = userdata;

    (void)status;
    d->counters.watch_restarts++;
    nc_api_session_failed(&d->api, err);
}

/* --- looking */

/* A look that the watch or an answer has overtaken: it is of before, and is repeated. */
static bool is_overtaken(const struct nc_daemon *d, const struct nc_value *node) {
    const char *version = nc_value_get_string(nc_value_get(node, "metadata"), "resourceVersion");

    return is_outdated(version, d->node_version) || is_outdated(version, d->watch_version);
}

static void on_looked(void *userdata, const struct nc_value *object,
                      const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_daemon *d = userdata;

    d->look = NULL;
    nc_histogram_add(&d->counters.api_latency, nc_mono_usec() - d->look_usec);
    note_answer(d, status->http != 0, nc_mono_usec() - d->look_usec);
    if (err->class == NC_ERR_NONE && object) {
        nc_api_session_well(&d->api);
        d->is_look_wanted = is_overtaken(d, object);
        if (d->is_look_wanted)
            look_in(d, 0);
        else
            take_whole(d, object);
    } else if (status->http == 404) { /* the watch tells that it is gone; until then it is there */
        d->is_look_wanted = d->is_node_listed;
        if (d->is_look_wanted)
            look_in(d, LOOK_EVERY_USEC);
    } else {
        nc_api_session_failed(&d->api, err);
        d->is_look_wanted = true;
        look_in(d, status->http == 403 ? LOOK_REFUSED_USEC : LOOK_EVERY_USEC);
    }
}

static void start_look(struct nc_daemon *d) {
    nc_auto_free char *path = nc_kube_node_path(d->node_name, NULL);
    const struct nc_kube_call call = {
        .what = "get node", .method = "GET", .path = path, .timeout_usec = timeout_of(d)};
    struct nc_err err = NC_ERR_INIT;

    d->is_look_wanted = false;
    d->look_usec = nc_mono_usec();
    d->counters.api_requests++;
    if (nc_kube_start(d->api.connection.kube, &call, on_looked, d, &d->look, &err) < 0) {
        nc_api_session_failed(&d->api, &err);
        d->is_look_wanted = true;
        look_in(d, LOOK_EVERY_USEC);
    }
}

static int on_look_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_daemon *d = userdata;

    (void)source;
    (void)usec;
    if (nc_api_session_is_up(&d->api) && !d->look
        && (d->is_look_wanted || !d->node_version || !nc_streq(d->node_version, d->watch_version)))
        start_look(d);
    return 0;
}

/* At most once a second, and never two at a time: what changes meanwhile is looked at by the next
 * one. */
static void look_in(struct nc_daemon *d, uint64_t wait_usec) {
    const uint64_t now = nc_mono_usec(), soonest = d->look_usec + LOOK_EVERY_USEC;
    uint64_t at = now + wait_usec;
    int r;

    if (d->look_usec != 0 && at < soonest)
        at = soonest;
    if (d->look_timer) {
        r = sd_event_source_set_time(d->look_timer, at);
        if (r >= 0)
            r = sd_event_source_set_enabled(d->look_timer, SD_EVENT_ONESHOT);
    } else {
        r = sd_event_add_time(d->app->event, &d->look_timer, CLOCK_MONOTONIC, at,
                              LOOK_ACCURACY_USEC, on_look_timer, d);
    }
    if (r < 0)
        nc_log(NC_LOG_ERROR, NULL, "event loop: timer: %s", strerror(-r));
}

void nc_daemon_node_look(struct nc_daemon *d) {
    d->is_look_wanted = true;
    if (nc_api_session_is_up(&d->api))
        look_in(d, 0);
}

/* --- writing */

static void post_written(struct nc_daemon *d, enum nc_write_outcome outcome, uint64_t retry_usec) {
    struct nc_life_event e = {
        .kind = NC_LIFE_WRITTEN, .outcome = outcome, .retry_after_usec = retry_usec};

    if (outcome != NC_WRITTEN && d->write_kind < _NC_WRITE_MAX)
        d->counters.node_writes_failed[d->write_kind]++;
    nc_daemon_post(d, &e);
}

static void on_written(void *userdata, const struct nc_node_written *w) {
    struct nc_daemon *d = userdata;

    d->write = NULL;
    nc_histogram_add(&d->counters.api_latency, w->duration_usec);
    note_answer(d, w->outcome != NC_WRITE_AWAY, w->duration_usec);
    if (w->outcome == NC_WRITTEN)
        nc_api_session_well(&d->api);
    else
        nc_api_session_failed(&d->api, &w->err);
    if (w->node)
        take_whole(d, w->node);
    post_written(d, w->outcome, w->retry_after_usec);
}

void nc_daemon_node_write(struct nc_daemon *d, const struct nc_node_write *w) {
    struct nc_err err = NC_ERR_INIT;

    d->write_kind = w->kind;
    d->counters.node_writes[w->kind]++;
    if (!nc_api_session_is_up(&d->api) || d->is_foreign || d->write) {
        post_written(d, NC_WRITE_AWAY, 0);
        return;
    }
    d->write_usec = nc_mono_usec();
    d->counters.api_requests++;
    if (nc_node_send(d->api.connection.kube, d->node_name, w, nc_daemon_now(d), timeout_of(d),
                     on_written, d, &d->write, &err)
        < 0) {
        nc_api_session_failed(&d->api, &err);
        post_written(d, NC_WRITE_AWAY, 0);
    }
}

bool nc_daemon_node_is_stuck(const struct nc_daemon *d, uint64_t mono_usec) {
    return (d->write && mono_usec > d->write_usec + 2 * TIMEOUT_USEC)
           || (d->look && mono_usec > d->look_usec + 2 * TIMEOUT_USEC);
}

int nc_daemon_node_open(struct nc_daemon *d, struct nc_err *err) {
    nc_auto_free char *selector = nc_kube_node_selector(d->node_name);
    const struct nc_watch_options o = {
        .path = "/api/v1/nodes",
        .selector = selector,
        .metadata_only = true,
        .event = on_node,
        .failed = on_node_failed,
        .well = nc_daemon_watch_well,
        .userdata = d,
    };

    if (d->node_watch)
        return 0;
    d->is_node_synced = d->is_node_listed = false;
    nc_daemon_claim_open(d);
    return nc_watch_new(d->api.connection.kube, d->app->event, &o, &d->node_watch, err);
}

void nc_daemon_node_close(struct nc_daemon *d) {
    const bool was_writing = d->write != NULL;

    d->node_watch = nc_watch_free(d->node_watch);
    d->claim_watch = nc_watch_free(d->claim_watch);
    d->look = nc_kube_cancel(d->look);
    d->write = nc_kube_cancel(d->write);
    d->look_timer = sd_event_source_disable_unref(d->look_timer);
    nc_daemon_imds_condition_close(d);
    if (was_writing)
        post_written(d, NC_WRITE_AWAY, 0);
}

void nc_daemon_node_done(struct nc_daemon *d) {
    forget_node(d);
    nc_daemon_set(&d->owner_name, NULL);
    nc_daemon_set(&d->owner_uid, NULL);
    nc_daemon_set(&d->owner_api, NULL);
}
