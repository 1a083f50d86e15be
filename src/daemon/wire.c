/*
 * The parts of the daemon and what they have to do with each other: each is told by this file what
 * it must know, and tells this file what came. None of them knows another but the session with the
 * API server, and the Node its NodeClaim.
 */
#include "daemon.h"
#include "log.h"
#include "nc/names.h"
#include "nc/str.h"

/* --- the session with the API server */

static const char *kubeconfig_path(void *userdata) {
    const struct nc_daemon *d = userdata;
    const struct nc_config *c = &d->gather.config;

    if (d->app->opts.kubeconfig)
        return d->app->opts.kubeconfig;
    return c->auth == NC_AUTH_KUBECONFIG && c->kubeconfig ? c->kubeconfig : NC_KUBECONFIG;
}

static bool is_busy(void *userdata) {
    const struct nc_daemon *d = userdata;

    return d->life && nc_daemon_is_busy(d);
}

static void on_part_changed(void *userdata) {
    struct nc_daemon *d = userdata;

    d->is_status_due = true;
}

static void on_session_found(void *userdata) {
    struct nc_daemon *d = userdata;

    nc_daemon_gather_start(d);
}

static void on_session_up(void *userdata) {
    struct nc_daemon *d = userdata;
    struct nc_err err = NC_ERR_INIT;

    d->is_name_used = true;
    if (nc_own_node_open(&d->node, &err) < 0)
        nc_api_session_failed(&d->api, &err);
    if (d->pods.wants_watch)
        nc_pod_evictor_open(&d->pods);
    nc_pod_events_send(&d->pod_events);
    if (!d->node.is_foreign)
        nc_pod_evictor_clean_up(&d->pods);
    nc_log(NC_LOG_INFO, &(struct nc_log_fields){.node = d->node_name}, "node %s is watched at %s",
           d->node_name, d->api.connection.kubeconfig.server);
}

static void on_session_down(void *userdata) {
    struct nc_daemon *d = userdata;

    nc_own_node_close(&d->node);
    nc_imds_condition_close(&d->condition);
    nc_pod_evictor_close(&d->pods);
    nc_pod_events_pause(&d->pod_events);
}

/* --- the NodeClaim */

static bool is_claim_allowed(void *userdata) {
    const struct nc_daemon *d = userdata;

    return d->gather.config.claim_lookup;
}

static void on_claim_changed(void *userdata) {
    struct nc_daemon *d = userdata;

    nc_own_node_report_deletion(&d->node);
}

/* --- the pods */

static uint64_t now_of(void *userdata) {
    return nc_daemon_now(userdata);
}

static void post_event(void *userdata, struct nc_life_event *e) {
    nc_daemon_post(userdata, e);
}

static void on_volume_found(void *userdata) {
    struct nc_daemon *d = userdata;

    nc_own_node_refresh(&d->node);
}

static void on_cleaned_up(void *userdata) {
    struct nc_daemon *d = userdata;

    d->is_state_due = true;
}

/* --- sources of notices */

static bool is_active(void *userdata, enum nc_source s, struct nc_notice *ret) {
    const struct nc_daemon *d = userdata;
    struct nc_life_view view;

    nc_life_get_view(d->life, nc_daemon_now(d), &view);
    if (view.is_active[s])
        *ret = view.notices[s];
    return view.is_active[s];
}

static void on_notice(void *userdata, const struct nc_notice *n) {
    nc_daemon_post_notice(userdata, n);
}

static void on_cleared(void *userdata, enum nc_source s) {
    nc_daemon_post_cleared(userdata, s);
}

static struct nc_notice_sink sink_of(struct nc_daemon *d) {
    return (struct nc_notice_sink){.now = now_of,
                                   .is_active = is_active,
                                   .notice = on_notice,
                                   .cleared = on_cleared,
                                   .changed = on_part_changed,
                                   .userdata = d};
}

/* --- the Node */

static bool is_evicting(void *userdata) {
    const struct nc_daemon *d = userdata;

    return d->pods.requests;
}

static bool is_orphaned(void *userdata) {
    const struct nc_daemon *d = userdata;
    struct nc_life_view view;

    nc_life_get_view(d->life, nc_daemon_now(d), &view);
    return view.is_orphaned;
}

static void on_annotation_refused(void *userdata, const char *message) {
    const struct nc_life_action a = {.kind = NC_LIFE_ACTION_ANNOUNCE,
                                     .reason = "DrainRequestRefused",
                                     .is_warning = true,
                                     .message = (char *)(uintptr_t)message,
                                     .series = (char *)NC_ANNOTATION_REQUEST};

    nc_daemon_announce(userdata, &a);
}

static void on_node_seen(void *userdata, const struct nc_value *metadata) {
    struct nc_daemon *d = userdata;

    nc_imds_condition_note_metadata(&d->condition, metadata);
}

static void on_node_found(void *userdata, const struct nc_value *node) {
    struct nc_daemon *d = userdata;

    nc_imds_condition_note_node(&d->condition, node);
    nc_pod_evictor_clean_up(&d->pods);
}

static void wire_node(struct nc_daemon *d) {
    d->node.o = (struct nc_own_node_options){.event = d->app->event,
                                             .api = &d->api,
                                             .counters = &d->counters,
                                             .claim = &d->claim,
                                             .node_name = &d->node_name,
                                             .provider_id = &d->provider_id,
                                             .boot_id = &d->boot_id,
                                             .staying_volumes = &d->pods.staying_volumes,
                                             .sink = sink_of(d),
                                             .post = post_event,
                                             .is_busy = is_busy,
                                             .is_evicting = is_evicting,
                                             .is_orphaned = is_orphaned,
                                             .request_refused = on_annotation_refused,
                                             .seen = on_node_seen,
                                             .found = on_node_found};
}

/* --- an operator's requests */

static void on_request_kept(void *userdata) {
    struct nc_daemon *d = userdata;

    if (d->is_state_due)
        nc_daemon_state_save(d);
}

static void on_request_refused(void *userdata, const char *message) {
    const struct nc_life_action a = {.kind = NC_LIFE_ACTION_ANNOUNCE,
                                     .reason = "DrainRequestRefused",
                                     .is_warning = true,
                                     .message = (char *)(uintptr_t)message};

    nc_daemon_announce(userdata, &a);
}

/* --- hooks */

static bool is_hook_awaited(void *userdata, enum nc_hook h) {
    const struct nc_daemon *d = userdata;
    struct nc_life_view view;

    if (!d->life)
        return false;
    nc_life_get_view(d->life, nc_daemon_now(d), &view);
    return view.hooks[h].state == NC_HOOK_RUNNING;
}

/* Whoever comes after us must know that it was started. */
static void on_hook_begun(void *userdata) {
    nc_daemon_state_save(userdata);
}

/* An answer shows EC2's clock. */
static void on_poll_answered(void *userdata) {
    nc_daemon_read_skew(userdata);
}

static void on_poll_evaluated(void *userdata) {
    struct nc_daemon *d = userdata;

    nc_imds_condition_check(&d->condition);
}

/* Earlier writes would fight Karpenter's optimistic lock while it registers the node. */
static bool may_write_condition(void *userdata) {
    const struct nc_daemon *d = userdata;

    return d->node.is_known && !d->node.is_foreign && d->gather.config.report_node
           && (!d->claim.name || d->condition.is_registered);
}

void nc_daemon_open_connections(struct nc_daemon *d) {
    const struct nc_api_session_options o = {.app = d->app,
                                             .imds = d->imds,
                                             .counters = &d->counters,
                                             .node_name = &d->node_name,
                                             .kubeconfig = kubeconfig_path,
                                             .is_urgent = is_busy,
                                             .found = on_session_found,
                                             .up = on_session_up,
                                             .down = on_session_down,
                                             .changed = on_part_changed,
                                             .userdata = d};
    const struct nc_notice_poller_options polls = {.event = d->app->event,
                                                   .imds = d->imds,
                                                   .instance_id = d->gather.facts.instance_id,
                                                   .life_cycle = d->gather.facts.life_cycle,
                                                   .counters = &d->counters,
                                                   .sink = sink_of(d),
                                                   .answered = on_poll_answered,
                                                   .evaluated = on_poll_evaluated};
    struct nc_err err = NC_ERR_INIT;

    if (nc_notice_poller_new(&polls, &d->poller, &err) < 0)
        nc_log(NC_LOG_ERROR, NULL, "%s", err.msg);
    if (nc_api_session_open(&d->api, &o, &err) < 0)
        nc_log(NC_LOG_ERROR, NULL, "%s", err.msg);
}

/* Without the bus or the folder of requests the daemon does what it can. */
void nc_daemon_open_sources(struct nc_daemon *d) {
    struct nc_err own = NC_ERR_INIT;

    d->requests.sink = sink_of(d);
    d->requests.event = d->app->event;
    d->requests.folder = nc_app_path(d->app, NC_REQUEST_DIR);
    d->requests.kept = on_request_kept;
    d->requests.refused = on_request_refused;
    if (nc_shutdown_open(&d->shutdown, d->app->event, d->app->opts.root, &d->requests.sink, &own)
        < 0)
        nc_log(NC_LOG_WARNING, NULL, "%s, going on without", own.msg);
    nc_requests_open(&d->requests);
}

void nc_daemon_wire(struct nc_daemon *d) {
    wire_node(d);
    d->hooks.o = (struct nc_hook_options){.event = d->app->event,
                                          .root = d->app->opts.root,
                                          .post = post_event,
                                          .is_awaited = is_hook_awaited,
                                          .begun = on_hook_begun,
                                          .userdata = d};
    d->claim.o = (struct nc_claim_watch_options){.event = d->app->event,
                                                 .api = &d->api,
                                                 .counters = &d->counters,
                                                 .is_allowed = is_claim_allowed,
                                                 .changed = on_claim_changed,
                                                 .userdata = d};
    d->condition.o = (struct nc_imds_condition_options){.api = &d->api,
                                                        .counters = &d->counters,
                                                        .node_name = &d->node_name,
                                                        .poller = &d->poller,
                                                        .now = now_of,
                                                        .may_write = may_write_condition,
                                                        .userdata = d};
    d->pods.o = (struct nc_pod_evictor_options){.event = d->app->event,
                                                .api = &d->api,
                                                .counters = &d->counters,
                                                .node_name = &d->node_name,
                                                .now = now_of,
                                                .post = post_event,
                                                .volume_found = on_volume_found,
                                                .cleaned_up = on_cleaned_up,
                                                .userdata = d};
    d->pod_events.o = (struct nc_pod_events_options){.event = d->app->event,
                                                     .api = &d->api,
                                                     .counters = &d->counters,
                                                     .node_name = &d->node_name,
                                                     .now = now_of,
                                                     .is_evicting = is_evicting,
                                                     .userdata = d};
}
