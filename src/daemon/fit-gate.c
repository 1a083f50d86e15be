/*
 * The startup gate of this boot: what pods need is observed, and condition and annotation of the
 * own Node say whether it is there. The controller takes the taint off by that word, and puts it
 * back; nothing here touches a taint.
 *
 * Pods are watched, and the CSINode is read, only while the gate is shut; once it has opened it
 * stays open for this boot, whatever becomes of a pod. What stands on the Node is compared with
 * what is to stand there, and written where it differs: at once where the gate opens, else at most
 * every ten seconds. Where spec.fit was taken away, a gate that an earlier configuration has shut
 * on this Node is opened; without spec.fit, and without that annotation, nothing is done at all.
 */
#include "daemon.h"

#include <stdio.h>

#include "log.h"
#include "nc/backoff.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"

#define TIMEOUT_USEC 5000000u
#define PACE_USEC 10000000u    /* between two writes that do not open the gate */
#define REFUSED_USEC 60000000u /* access may be granted later */
#define TARGET "nodeclaimd-ready.target"

/* How often the CSINode is read; a node may not watch it. */
static const struct nc_backoff csi_pauses = {.first_usec = 1000000, .max_usec = 30000000};

static const struct nc_fit_settings *settings_of(const struct nc_daemon *d) {
    return &d->gather.config.fit;
}

/* Is there a gate, or what an earlier configuration has left of one? */
static bool is_used(const struct nc_daemon *d) {
    return settings_of(d)->is_set || (d->gather.has_config && d->fit.annotation);
}

static bool is_draining(const struct nc_daemon *d) {
    return d->steps.phase >= NC_LIFECYCLE_CORDONING && d->steps.phase <= NC_LIFECYCLE_DRAINED;
}

static struct nc_fit_boot boot_of(const struct nc_daemon *d) {
    const uint64_t mono = nc_mono_usec(),
                   started = nc_clock_earliest(d->counters.started_usec, d->started_mono_usec,
                                               nc_now_usec(), mono);

    return (struct nc_fit_boot){
        .id = d->boot_id, .began_usec = started - (nc_boot_usec() - (mono - d->started_mono_usec))};
}

/* While the gate is shut: somebody else may write its condition, too. */
bool nc_fit_gate_wants_node(const struct nc_daemon *d) {
    return is_used(d) && (!d->fit.seen.is_reported || !d->fit.is_open);
}

/* --- pods */

static void on_pod(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct nc_daemon *d = userdata;
    const struct nc_fit_boot boot = boot_of(d);

    nc_api_session_well(d);
    switch (event) {
    case NC_WATCH_ADDED:
    case NC_WATCH_MODIFIED:
        nc_fit_see_pod(&d->fit.seen, settings_of(d), object, &boot, nc_daemon_now(d));
        break;
    case NC_WATCH_DELETED:
        nc_fit_pod_gone(&d->fit.seen, nc_value_path_string(object, "metadata.uid"));
        break;
    case NC_WATCH_SYNCED:
        d->fit.seen.has_pods = true;
        break;
    }
    d->fit.csi_reads = 0; /* its driver may register now */
    nc_fit_gate_check(d);
}

/* --- the CSINode */

static void on_csi(void *userdata, const struct nc_value *object,
                   const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_daemon *d = userdata;

    d->fit.csi = NULL;
    d->fit.csi_reads++;
    d->fit.csi_after_usec =
        nc_mono_usec()
        + nc_backoff_pause(&csi_pauses, d->fit.csi_reads, nc_backoff_seed(d->node_name));
    if (err->class == NC_ERR_NONE || status->http == 404)
        nc_fit_see_csi(&d->fit.seen, err->class == NC_ERR_NONE ? object : NULL);
    else
        nc_api_session_failed(d, err);
    nc_fit_gate_check(d);
}

static void read_csi(struct nc_daemon *d) {
    nc_auto_free char *path = nc_asprintf("/apis/storage.k8s.io/v1/csinodes/%s", d->node_name);
    const struct nc_kube_call call = {.what = "get csinode",
                                      .method = "GET",
                                      .path = path,
                                      .timeout_usec = TIMEOUT_USEC,
                                      .done = on_csi,
                                      .userdata = d};
    struct nc_err err = NC_ERR_INIT;

    d->counters.api_requests++;
    if (nc_kube_start(d->api.connection.kube, &call, &d->fit.csi, &err) < 0)
        nc_api_session_failed(d, &err);
}

/* --- what is said */

static void announce(struct nc_daemon *d, const char *reason, bool is_warning,
                     const struct nc_fit_verdict *v) {
    nc_auto_free char *text = nc_asprintf("startup gate: %s", v->message);
    const struct nc_lifecycle_action a = {.kind = NC_LIFECYCLE_ACTION_ANNOUNCE,
                                          .reason = reason,
                                          .is_warning = is_warning,
                                          .message = text};

    nc_daemon_announce(d, &a);
}

/* Each once: that the gate is shut, that its time is over, that a drain holds it, that it opens. */
static void tell(struct nc_daemon *d, const struct nc_fit_verdict *v) {
    struct nc_fit_gate *g = &d->fit;

    if (v->is_late && !g->was_late_told) {
        announce(d, "FitTimedOut", true, v);
        g->was_late_told = true;
    }
    if (v->is_fit && !v->is_late)
        announce(d, "Fit", false, v);
    else if (v->reason == NC_FIT_DRAINING && !g->was_drain_told)
        announce(d, "FitHeld", false, v);
    else if (v->reason >= NC_FIT_MISSING && v->reason < NC_FIT_DRAINING && !g->was_told)
        announce(d, "NotFit", false, v);
    g->was_drain_told = v->reason == NC_FIT_DRAINING;
    g->was_told |= v->reason >= NC_FIT_MISSING;
}

static void on_target(void *userdata, const char *message) {
    struct nc_daemon *d = userdata;

    d->fit.target = nc_target_free(d->fit.target);
    nc_log(message ? NC_LOG_WARNING : NC_LOG_INFO, NULL, "%s %s%s", TARGET,
           message ? "failed: " : "is reached", message ? message : "");
}

/* Nothing waits for it. */
static void start_target(struct nc_daemon *d) {
    const struct nc_target_call call = {
        .target = TARGET, .begun_usec = nc_mono_usec(), .done = on_target, .userdata = d};

    if (nc_target_is_used(d->app->opts.root, TARGET))
        d->fit.target = nc_target_start(d->app->event, &call);
}

/* --- the write */

static void on_written(void *userdata, const struct nc_value *object,
                       const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_daemon *d = userdata;
    struct nc_fit_gate *g = &d->fit;
    const bool is_refused = nc_own_node_note_patched(d, status);
    nc_auto_free char *text = nc_steal(&g->writing);

    g->write = NULL;
    if (err->class == NC_ERR_NONE) {
        nc_api_session_well(d);
        free(g->annotation);
        g->annotation = nc_steal(&text);
        g->condition = g->is_writing_fit;
        g->pace_usec = nc_mono_usec() + PACE_USEC;
    } else {
        if (!nc_kube_is_about_uid(status))
            nc_api_session_failed(d, err);
        g->failed_usec = nc_mono_usec() + (is_refused ? REFUSED_USEC : PACE_USEC / 10);
    }
    nc_fit_gate_check(d);
}

/* The condition's last transition is that of the gate, not of a message. */
static void write_fit(struct nc_daemon *d, const struct nc_fit_verdict *v, char *annotation) {
    struct nc_fit_gate *g = &d->fit;
    const struct nc_node_condition condition = {
        .type = NC_CONDITION_FIT,
        .is_true = v->is_fit,
        .reason = nc_fit_reason_name(v->reason),
        .message = v->message,
        .now_usec = nc_daemon_now(d),
        .since_usec = v->is_fit && g->opened_usec ? g->opened_usec : g->since_usec};
    nc_auto_value struct nc_value *body = nc_node_condition_patch(&condition),
                                  *patch = nc_node_annotation_patch(NC_ANNOTATION_FIT, annotation);
    const struct nc_kube_call call = {.what = "report condition " NC_CONDITION_FIT,
                                      .done = on_written};

    nc_value_merge(body, nc_steal(&patch));
    g->writing = annotation;
    g->is_writing_fit = v->is_fit;
    nc_own_node_patch_status(d, call, body, &g->write);
}

/* Before Karpenter has registered the node a write would fight its optimistic lock. That the gate
 * is open is said of a Node that kubelet has reported in this boot alone. */
static bool may_write(const struct nc_daemon *d, bool is_fit) {
    const struct nc_fit_gate *g = &d->fit;
    const uint64_t now = nc_mono_usec();

    return nc_api_session_is_up(&d->api) && d->boot_id && d->node.is_known && !d->node.is_foreign
           && !g->write && now >= g->failed_usec && (!is_fit || g->seen.is_reported)
           && (!(d->claim.name || g->is_pooled) || d->condition.is_registered)
           && (now >= g->pace_usec || (is_fit && !g->is_writing_fit));
}

/* An open gate has no more to say than that. */
static bool stands(const struct nc_daemon *d, const struct nc_fit_verdict *v,
                   const char *annotation) {
    const struct nc_fit_gate *g = &d->fit;

    if (g->condition != -1 && g->condition != v->is_fit)
        return false;
    return v->is_fit ? nc_fit_annotation_says(g->annotation, d->boot_id, true)
                     : nc_streq(g->annotation, annotation);
}

static void write_where_due(struct nc_daemon *d, const struct nc_fit_verdict *v,
                            const struct nc_fit_moment *m) {
    nc_auto_free char *annotation =
        d->boot_id ? nc_fit_annotation(settings_of(d), v, d->boot_id, m) : NULL;

    if (annotation && !stands(d, v, annotation) && may_write(d, v->is_fit))
        write_fit(d, v, nc_steal(&annotation));
}

/* --- the gate */

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    nc_fit_gate_check(userdata);
    return 0;
}

/* The next moment at which anything is due but for what comes by itself. */
static void set_timer(struct nc_daemon *d, uint64_t in_usec, bool reads_csi) {
    struct nc_fit_gate *g = &d->fit;
    const uint64_t now = nc_mono_usec();
    const uint64_t moments[] = {in_usec == UINT64_MAX ? UINT64_MAX : now + in_usec, g->pace_usec,
                                g->failed_usec, reads_csi && !g->csi ? g->csi_after_usec : 0};
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < NC_ARRAY_SIZE(moments); i++)
        if (moments[i] > now && moments[i] < next)
            next = moments[i];
    if (next != UINT64_MAX)
        nc_timer_set(d->app->event, &g->timer, next - now, on_timer, d);
}

static void observe(struct nc_daemon *d, bool wants_pods, bool wants_csi) {
    const struct nc_watch_options pods = {.keep = nc_fit_pod_paths,
                                          .event = on_pod,
                                          .failed = nc_api_session_on_failed,
                                          .well = nc_api_session_on_well};
    struct nc_fit_gate *g = &d->fit;

    if (wants_pods && !g->watch) {
        nc_daemon_watch_pods(d, NC_POD_UNFINISHED, pods, &g->watch);
    } else if (!wants_pods && g->watch) {
        g->watch = nc_watch_free(g->watch);
        nc_fit_forget_pods(&g->seen);
    }
    if (wants_csi && !g->csi && nc_mono_usec() >= g->csi_after_usec)
        read_csi(d);
    else if (!wants_csi)
        g->csi = nc_kube_cancel(g->csi);
}

/* For whoever checks status.json: as it was judged last. */
static void keep_status(struct nc_daemon *d, const struct nc_fit_moment *m,
                        const struct nc_fit_verdict *v) {
    struct nc_fit_gate *g = &d->fit;
    struct nc_value *status = nc_value_new_map();

    nc_value_set_bool(status, "fit", v->is_fit);
    nc_value_set_string(status, "reason", nc_fit_reason_name(v->reason));
    nc_value_set_text(status, "message", v->message);
    nc_value_set(status, "missing", nc_value_new_strings(v->missing.v, v->missing.n));
    nc_fit_set_times(status, settings_of(d), m);
    nc_value_set_time(status, "opened", g->opened_usec);
    if (!nc_value_equal(status, g->status))
        d->is_status_due = true;
    nc_value_free(g->status);
    g->status = status;
}

static void open_gate(struct nc_daemon *d, enum nc_fit_reason as) {
    d->fit.is_open = true;
    d->fit.opened_as = as;
    d->fit.opened_usec = nc_daemon_now(d);
    d->is_state_due = true;
    start_target(d);
}

static void judge(struct nc_daemon *d, const struct nc_fit_moment *m, struct nc_fit_verdict *v) {
    if (!d->fit.is_open) {
        nc_fit_judge(settings_of(d), &d->fit.seen, m, v);
        return;
    }
    *v = (struct nc_fit_verdict){.is_fit = true,
                                 .reason = d->fit.opened_as,
                                 .next_usec = UINT64_MAX,
                                 .message = nc_strdup("the gate has opened in this boot")};
}

void nc_fit_gate_check(struct nc_daemon *d) {
    struct nc_fit_gate *g = &d->fit;
    const struct nc_strv *wanted = settings_of(d)->wanted;
    nc_cleanup(nc_fit_verdict_done) struct nc_fit_verdict v = {0};
    struct nc_fit_moment m = {.now_usec = nc_daemon_now(d), .is_draining = is_draining(d)};
    bool watches;

    if (!is_used(d) || d->is_stopping) {
        nc_fit_gate_close(d);
        g->status = nc_value_free(g->status);
        return;
    }
    if (g->since_usec == 0) {
        g->since_usec = m.now_usec;
        d->is_state_due = true;
    }
    m.since_usec = g->since_usec;
    judge(d, &m, &v);
    if (!g->is_open) {
        tell(d, &v);
        if (v.is_fit)
            open_gate(d, v.reason);
    }
    watches = nc_api_session_is_up(&d->api) && d->node_name && !g->is_open && !m.is_draining
              && !d->node.is_foreign;
    observe(d, watches && wanted[NC_FIT_DAEMON_SETS].n > 0,
            watches && wanted[NC_FIT_CSI_DRIVERS].n > 0);
    write_where_due(d, &v, &m);
    keep_status(d, &m, &v);
    set_timer(d, v.next_usec == UINT64_MAX ? UINT64_MAX : v.next_usec - m.now_usec,
              watches && wanted[NC_FIT_CSI_DRIVERS].n > 0);
}

void nc_fit_gate_note_node(struct nc_daemon *d, const struct nc_value *node) {
    const struct nc_fit_boot boot = boot_of(d);
    const struct nc_value *c = nc_node_condition(node, NC_CONDITION_FIT);

    d->fit.condition = c ? nc_value_says(c, "status", "True") : -1;
    nc_fit_see_node(&d->fit.seen, settings_of(d), node, &boot);
}

void nc_fit_gate_note_metadata(struct nc_daemon *d, const struct nc_value *metadata) {
    const char *text =
        nc_value_get_string(nc_value_get(metadata, "annotations"), NC_ANNOTATION_FIT);

    d->fit.is_pooled = nc_value_get(nc_value_get(metadata, "labels"), NC_LABEL_NODE_POOL);
    free(d->fit.annotation);
    d->fit.annotation = nc_strdup(text);
    nc_fit_gate_check(d);
}

void nc_fit_gate_forget_node(struct nc_daemon *d) {
    free(nc_steal(&d->fit.annotation));
    d->fit.condition = -1;
    d->fit.seen.is_reported = false;
}

void nc_fit_gate_close(struct nc_daemon *d) {
    struct nc_fit_gate *g = &d->fit;

    observe(d, false, false);
    g->seen.has_csi = false;
    g->write = nc_kube_cancel(g->write);
    free(nc_steal(&g->writing));
    g->failed_usec = 0;
    g->timer = sd_event_source_disable_unref(g->timer);
}

void nc_fit_gate_done(struct nc_daemon *d) {
    nc_fit_gate_close(d);
    d->fit.target = nc_target_free(d->fit.target);
    nc_fit_seen_done(&d->fit.seen);
    free(nc_steal(&d->fit.annotation));
    d->fit.status = nc_value_free(d->fit.status);
}

/* --- what survives a restart: of this boot alone */

struct nc_value *nc_fit_gate_save(const struct nc_fit_gate *g) {
    struct nc_value *v;

    if (g->since_usec == 0)
        return NULL;
    v = nc_value_new_map();
    nc_value_set_time(v, "since", g->since_usec);
    if (g->is_open)
        nc_value_set_time(v, "opened", g->opened_usec);
    return v;
}

void nc_fit_gate_load(struct nc_fit_gate *g, const struct nc_value *v) {
    const char *since = nc_value_get_string(v, "since"), *opened = nc_value_get_string(v, "opened");

    if (!since || nc_time_parse(since, &g->since_usec) < 0)
        return;
    g->is_open = opened && nc_time_parse(opened, &g->opened_usec) == 0;
}
