/*
 * `run`: the daemon from its first line to its last.
 *
 * Sets up, states that it is ready, turns the loop, reads the configuration again when it is asked
 * to. Only what a person got wrong on the command line ends the daemon; everything else is waited
 * out.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon-lock.h"
#include "daemon.h"
#include "log.h"
#include "nc/backoff.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#define NETWORK_USEC 60000000u /* by then the network is up: until then its absence is usual */
#define BOOT_ID "/proc/sys/kernel/random/boot_id"

static const struct nc_backoff gather_retries = {.first_usec = 200000, .max_usec = 5000000};

/* --- the session with the API server */

const char *nc_daemon_kubeconfig(const struct nc_daemon *d) {
    const struct nc_config *c = &d->gather.config;

    if (d->app->opts.kubeconfig)
        return d->app->opts.kubeconfig;
    return c->auth == NC_AUTH_KUBECONFIG && c->kubeconfig ? c->kubeconfig : NC_KUBECONFIG;
}

void nc_daemon_connected(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;

    d->is_name_used = true;
    if (nc_own_node_open(d, &err) < 0)
        nc_api_session_failed(d, &err);
    if (d->pods.wants_watch)
        nc_pod_evictor_open(d);
    nc_pod_events_send(d);
    if (!d->node.is_foreign)
        nc_pod_evictor_clean_up(d);
    nc_log(NC_LOG_INFO, &(struct nc_log_fields){.node = d->node_name}, "node %s is watched at %s",
           d->node_name, d->api.connection.kubeconfig.server);
}

void nc_daemon_disconnected(struct nc_daemon *d) {
    nc_own_node_close(d);
    nc_imds_condition_close(d);
    nc_pod_evictor_close(d);
    nc_pod_events_pause(d);
}

/* --- configuration */

/* A node that works is drained all the same: only a bootstrap refuses to work beside nodeadm. */
static void check_conflict(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;
    const bool conflicts = nc_nodeadm_check(d->app->opts.root, &err) < 0;

    if (conflicts)
        nc_log(NC_LOG_WARNING, &(struct nc_log_fields){.error_class = nc_err_class_name(err.class)},
               "%s; a bootstrap would refuse: %s", err.msg, err.remedy);
    free(d->conflict);
    d->conflict = conflicts ? nc_strdup(err.msg) : NULL;
}

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
    if (d->gather_attempts == 1)
        nc_log(nc_mono_usec() < d->started_mono_usec + NETWORK_USEC ? NC_LOG_INFO : NC_LOG_WARNING,
               &(struct nc_log_fields){.error_class = nc_err_class_name(err->class)},
               "%s, trying again; the %s policies are in force meanwhile", err->msg,
               d->gather.has_config ? "known" : "built-in");
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

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
    struct nc_daemon *d = userdata;

    d->counters.reloads++;
    d->is_reloading = true;
    nc_notify("RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)nc_mono_usec());
    nc_log(NC_LOG_INFO, NULL, "the configuration is read again");
    d->gather_attempts = 0;
    check_conflict(d);
    nc_daemon_gather_start(d);
    return 0;
}

/* --- after each turn */

/* What is better done once than for each event. */
static int on_turned(sd_event_source *source, void *userdata) {
    struct nc_daemon *d = userdata;

    nc_daemon_state_keep(d);
    nc_daemon_publish(d);
    return 0;
}

/* --- from the first line to the last */

static char *read_boot_id(const struct nc_app *app) {
    nc_auto_free char *below = nc_app_path(app, BOOT_ID);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (nc_file_read(below, 256, &text, NULL) < 0) {
        nc_buf_clear(&text);
        if (nc_file_read(BOOT_ID, 256, &text, NULL) < 0)
            return NULL;
    }
    return text.data && *nc_trim(text.data) ? nc_strdup(nc_trim(text.data)) : NULL;
}

static int open_loop(struct nc_daemon *d, struct nc_err *err) {
    sigset_t set;
    int r = nc_app_loop(d->app, err);

    if (r < 0)
        return r;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP);
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    r = sd_event_add_signal(d->app->event, NULL, SIGHUP, on_hangup, d);
    if (r >= 0)
        r = sd_event_add_post(d->app->event, &d->turned, on_turned, d);
    if (r >= 0)
        r = nc_daemon_watchdog_open(d);
    return r < 0 ? nc_err_set(err, NC_ERR_HOST, -r, "event loop: %s", strerror(-r)) : 0;
}

/* What is left of an earlier run; without it everything is observed again from its source. */
static void begin_life(struct nc_daemon *d) {
    struct nc_lifecycle_event start = {.kind = NC_LIFECYCLE_START, .rules = &d->rules};
    struct nc_err err = NC_ERR_INIT;
    int r;

    d->life = nc_lifecycle_new(&d->rules);
    r = nc_daemon_state_load(d, &err);
    if (r < 0)
        nc_log(NC_LOG_WARNING, NULL, "%s, starting without", err.msg);
    d->pods.wants_clean_up = r <= 0;
    nc_daemon_post(d, &start);
}

/* Without the bus or the folder of requests the daemon does what it can. */
static void open_sources(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;

    if (nc_shutdown_open(d, &err) < 0)
        nc_log(NC_LOG_WARNING, NULL, "%s, going on without", err.msg);
    nc_requests_open(d);
}

/* Two would write the same Node and take each other's requests. */
static int lock_instance(struct nc_daemon *d, struct nc_err *err) {
    struct nc_err own = NC_ERR_INIT;
    const int r = nc_daemon_lock(d->app, &d->lock_fd, &own);

    if (r == -EEXIST) {
        *err = own;
        return r;
    }
    if (r < 0)
        nc_log(NC_LOG_WARNING, NULL,
               "%s, continuing without it: `nodeclaimd status` may report that the daemon does not "
               "run",
               own.msg);
    return 0;
}

static int set_up(struct nc_daemon *d, struct nc_err *err) {
    int r = lock_instance(d, err);

    if (r >= 0)
        r = open_loop(d, err);
    if (r < 0)
        return r;
    nc_log(NC_LOG_INFO, &(struct nc_log_fields){.milestone = NC_MILESTONE_DAEMON_STARTED},
           "the daemon starts, version " NC_VERSION);
    d->started_mono_usec = nc_mono_usec();
    d->counters.started_usec = nc_now_usec();
    d->boot_id = read_boot_id(d->app);
    d->node_name = nc_strdup(d->app->opts.node_name);
    check_conflict(d);
    nc_daemon_defaults(d);
    begin_life(d);
    open_sources(d);
    return 0;
}

/* Kubelet's start waits for READY=1, and the network may not be up yet: so nobody is asked before.
 * Only the endpoint of IMDS can be wrong for good. */
static int begin(struct nc_daemon *d, struct nc_err *err) {
    const int r = nc_imds_new(d->app->event, d->app->opts.imds, &d->imds, err);

    if (r < 0)
        return r;
    d->is_ready = true;
    nc_notify("READY=1");
    nc_daemon_gather_start(d);
    return 0;
}

static void log_stop(struct nc_daemon *d) {
    d->is_stopping = true;
    nc_notify("STOPPING=1");
    nc_daemon_state_save(d);
    d->is_status_due = true;
    d->status.written_usec = 0; /* precedence is not held back */
    nc_daemon_publish(d);
    nc_log(NC_LOG_INFO, NULL, "stopped by %s", sigabbrev_np(d->app->signal));
}

/* Nothing that is cut off here is posted any more: the life is over first. */
static void daemon_done(struct nc_daemon *d) {
    nc_daemon_done(d);
    nc_daemon_gather_cancel(d);
    d->gather_timer = sd_event_source_disable_unref(d->gather_timer);
    nc_api_session_close(d);
    nc_own_node_done(d);
    nc_claim_watch_done(d);
    nc_daemon_announce_done(d);
    nc_pod_events_done(d);
    nc_requests_close(d);
    nc_shutdown_close(d);
    nc_hook_runner_close(d);
    d->poller = nc_notice_poller_free(d->poller);
    nc_imds_free(d->imds);
    if (d->lock_fd >= 0)
        (void)close(d->lock_fd);
    sd_event_source_disable_unref(d->watchdog);
    sd_event_source_disable_unref(d->turned);
    sd_event_source_disable_unref(d->state.timer);
    sd_event_source_disable_unref(d->status.timer);
    nc_gather_done(&d->gather);
    free(d->boot_id);
    free(d->conflict);
    free(d->node_name);
    free(d->provider_id);
    free(d->state.saved);
}

int nc_command_run(struct nc_app *app) {
    nc_cleanup(daemon_done) struct nc_daemon d = {
        .app = app, .steps.timer_usec = UINT64_MAX, .lock_fd = -1};
    struct nc_err err = NC_ERR_INIT;
    int r;

    r = set_up(&d, &err);
    if (r >= 0)
        r = begin(&d, &err);
    if (r < 0 && !app->signal)
        return nc_app_fail(app, &err);
    r = app->signal ? 0 : sd_event_loop(app->event);
    if (app->signal)
        r = 0;
    if (d.life)
        log_stop(&d);
    if (r < 0) {
        (void)nc_err_set(&err, NC_ERR_HOST, -r, "event loop: %s", strerror(-r));
        return nc_app_fail(app, &err);
    }
    return 0;
}
