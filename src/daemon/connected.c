/*
 * What begins as soon as facts and configuration are known, and as soon as the API server answers;
 * what ends with the connection.
 */
#include "daemon.h"
#include "log.h"
#include "nc/backoff.h"
#include "nc/str.h"

#define NETWORK_USEC 60000000u /* by then the network is up: until then its absence is usual */

static const struct nc_backoff gather_retries = {.first_usec = 200000, .max_usec = 5000000};

static int on_gather_due(sd_event_source *source, uint64_t usec, void *userdata) {
    nc_daemon_gather_start(userdata);
    return 0;
}

/* Logs a failure when it comes, not each time. */
static void note_gathered(struct nc_daemon *d, const struct nc_err *err) {
    const uint64_t seed = nc_backoff_seed(d->boot_id ? d->boot_id : "");

    if (err->class == NC_ERR_NONE) {
        if (d->gather_attempts > 0)
            nc_log(NC_LOG_INFO, NULL, "facts and configuration are known after %u failed attempts",
                   d->gather_attempts);
        d->gather_attempts = 0;
        return;
    }
    d->gather_attempts++;
    nc_timer_set(d->app->event, &d->gather_timer,
                 nc_backoff_pause(&gather_retries, d->gather_attempts, seed), on_gather_due, d);
    if (d->gather_attempts == 1 && !d->counters.is_config_refused) /* that was told */
        nc_log(nc_mono_usec() < d->started_mono_usec + NETWORK_USEC ? NC_LOG_INFO : NC_LOG_WARNING,
               &(struct nc_log_fields){.error_class = nc_err_class_name(err->class)},
               "%s, trying again; the %s policies are in force meanwhile%s%s", err->msg,
               d->gather.has_config ? "known" : "built-in", *err->remedy ? "; " : "", err->remedy);
}

static void open_connections(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;

    if (nc_notice_poller_new(d, &d->poller, &err) < 0)
        nc_log(NC_LOG_ERROR, NULL, "%s", err.msg);
    if (nc_api_session_open(d, &err) < 0)
        nc_log(NC_LOG_ERROR, NULL, "%s", err.msg);
}

/* What the polls are to request depends on what instance this is: they begin after the first
 * attempt to learn that. */
void nc_daemon_gathered(struct nc_daemon *d, const struct nc_err *err) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_RULES, .rules = &d->rules};

    note_gathered(d, err);
    nc_daemon_post(d, &e);
    nc_daemon_state_adopt(d);
    if (d->is_reloading) /* of pods only those are kept that were wanted */
        nc_fit_gate_close(d);
    nc_fit_gate_check(d);
    if (nc_fit_gate_wants_node(d)) /* what is wanted of it may be news */
        nc_own_node_refresh(d);
    nc_claim_watch_open(d);
    if (d->is_reloading) {
        d->is_reloading = false;
        nc_api_session_check_now(d); /* the kubeconfig too may be another one */
        nc_notify("READY=1");
    }
    if (!d->poller)
        open_connections(d);
    nc_api_session_resume(d);
}

const char *nc_daemon_kubeconfig(const struct nc_daemon *d) {
    const struct nc_config *c = &d->gather.config;

    if (d->app->opts.kubeconfig)
        return d->app->opts.kubeconfig;
    return c->auth == NC_AUTH_KUBECONFIG && c->kubeconfig ? c->kubeconfig : NC_KUBECONFIG;
}

void nc_daemon_connected(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;

    d->is_name_used = true;
    nc_daemon_state_adopt(d);
    if (nc_own_node_open(d, &err) < 0)
        nc_api_session_failed(d, &err);
    if (d->pods.wants_watch)
        nc_pod_evictor_open(d);
    nc_event_queue_send(d);
    nc_fit_gate_check(d);
    if (!d->node.is_foreign)
        nc_pod_evictor_clean_up(d);
    nc_daemon_tell_not_in_force(d);
}

void nc_daemon_disconnected(struct nc_daemon *d) {
    nc_own_node_close(d);
    nc_imds_condition_close(d);
    nc_fit_gate_close(d);
    nc_pod_evictor_close(d);
    nc_event_queue_pause(d);
}
