/*
 * `run`: the daemon from its first line to its last.
 *
 * Sets up, states that it is ready, turns the loop, reads the configuration again when it is asked
 * to. Only what a person got wrong on the command line ends the daemon; everything else is waited
 * out.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <unistd.h>

#include "daemon.h"
#include "log.h"
#include "machine.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"
#include "nc/version.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"

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

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata) {
    struct nc_daemon *d = userdata;
    nc_auto_free char *state =
        nc_asprintf("RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)nc_mono_usec());

    d->counters.reloads++;
    d->is_reloading = true;
    nc_notify(state);
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
    return r < 0 ? nc_err_host(err, r, "event loop") : 0;
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
    const int r = nc_process_lock(d->app, NC_LOCK_DAEMON, &d->lock_fd, &own);

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
           "the daemon starts, version %s", nc_version);
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

#define AT(member) offsetof(struct nc_daemon, member)

/* Nothing that is cut off here is posted any more: the life is over first. */
static void daemon_done(struct nc_daemon *d) {
    static const unsigned short texts[] = {AT(boot_id),     AT(not_in_force),  AT(conflict),
                                           AT(node_name),   AT(provider_id),   AT(state.saved),
                                           AT(state.error), AT(state.instance)};

    nc_daemon_done(d);
    nc_daemon_gather_cancel(d);
    d->gather_timer = sd_event_source_disable_unref(d->gather_timer);
    nc_api_session_close(d);
    nc_own_node_done(d);
    nc_claim_watch_done(d);
    nc_fit_gate_done(d);
    nc_daemon_announce_done(d);
    nc_event_queue_done(d);
    nc_requests_close(d);
    nc_shutdown_close(d);
    nc_hook_runner_close(d);
    d->warm_pool.start = nc_target_free(d->warm_pool.start);
    d->poller = nc_notice_poller_free(d->poller);
    nc_imds_free(d->imds);
    if (d->lock_fd >= 0)
        (void)close(d->lock_fd);
    sd_event_source_disable_unref(d->watchdog);
    sd_event_source_disable_unref(d->turned);
    sd_event_source_disable_unref(d->state.timer);
    sd_event_source_disable_unref(d->status.timer);
    nc_gather_done(&d->gather);
    nc_free_texts(d, texts, NC_ARRAY_SIZE(texts));
    nc_value_free(d->state.former);
}

int nc_command_run(struct nc_app *app) {
    nc_cleanup(daemon_done) struct nc_daemon d = {
        .app = app, .steps.timer_usec = UINT64_MAX, .fit.condition = -1, .lock_fd = -1};
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
        (void)nc_err_host(&err, r, "event loop");
        return nc_app_fail(app, &err);
    }
    return 0;
}
