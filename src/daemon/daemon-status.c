/*
 * What the daemon is doing, for whoever looks: status.json's `drain` and `daemon`, metrics.prom,
 * and the line of `systemctl status`.
 *
 * Written on change only, at most ten times a second; otherwise metrics.prom once a minute for its
 * counters, and status.json every ten minutes for its times: an idle daemon costs next to nothing.
 * A file that cannot be written is reported once and tried again after a pause; nothing waits for
 * it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "app.h"
#include "daemon.h"
#include "log.h"
#include "nc/drain-report.h"
#include "nc/mem.h"
#include "nc/report.h"
#include "nc/time.h"
#include "nc/version.h"

#define LEAST_PAUSE_USEC 100000u
#define BUSY_PAUSE_USEC 20000u /* the other writer holds the lock */
#define IDLE_EVERY_USEC 60000000u
#define IDLE_STATUS_EVERY 10 /* of those */

/* --- status.json */

static struct nc_value *polls_tree(const struct nc_daemon *d) {
    struct nc_value *map = nc_value_new_map();
    struct nc_poll_view view;

    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++) {
        struct nc_value *one;
        if (!nc_notice_poller_get_view(d->poller, s, &view))
            continue;
        one = nc_value_add_map(map, nc_source_name(s));
        nc_value_set_string(one, "state", view.state);
        nc_value_set_time(one, "last", view.last_usec);
        nc_value_set_text(one, "error", view.error);
        nc_value_set_text(one, "remedy", view.remedy);
    }
    return map;
}

/* What an ending leads to, by its source. What is requested reports it itself, up to drain_mode. */
static struct nc_value *policies_tree(const struct nc_daemon *d) {
    struct nc_value *map = nc_value_new_map();

    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (!nc_sources[s].has_own_policy)
            nc_value_set_text(map, nc_source_name(s), nc_policy_name(d->rules.drain.policy[s]));
    nc_value_set_string(map, "from", d->gather.has_config ? "configuration" : "built-in");
    if (d->rules.drain.mode != NC_DRAIN_AUTO)
        nc_value_set_string(map, "drainMode",
                            nc_name_at(nc_drain_mode_names, d->rules.drain.mode - NC_DRAIN_AUTO));
    if (d->not_in_force)
        nc_value_set_string(map, "notInForce", d->not_in_force);
    return map;
}

#define TEXT(key, member)                                                                          \
    { key, offsetof(struct nc_daemon, member) }
static const struct {
    char key[16];
    unsigned short offset;
} texts[] = {TEXT("node", node_name),
             TEXT("requestRefused", node.request_refused),
             TEXT("inhibitDelay", shutdown.short_delay),
             TEXT("conflict", conflict),
             TEXT("stateError", state.error),
             TEXT("eventsError", events.refused)};

static struct nc_value *daemon_tree(const struct nc_daemon *d) {
    struct nc_value *map = nc_value_new_map();
    const struct nc_err *err;
    const enum nc_api_state state = nc_api_session_state(&d->api, &err);

    nc_value_set_string(map, "version", nc_version);
    nc_value_set_int(map, "pid", getpid());
    nc_value_set_time(map, "started", d->counters.started_usec);
    nc_value_set_bool(map, "ready", d->is_ready);
    nc_value_set_bool(map, "connected", nc_api_session_is_up(&d->api) && d->api.has_answered);
    nc_value_set_string(map, "apiState", nc_api_state_name(state));
    nc_value_set_text(map, "apiError", err ? err->msg : NULL);
    nc_value_set_text(map, "apiRemedy", err && *err->remedy ? err->remedy : NULL);
    nc_value_set(map, "policies", policies_tree(d));
    nc_value_set(map, "imds", polls_tree(d));
    nc_value_set_string(map, "inhibitor", nc_login_holds(d->shutdown.login) ? "held" : "none");
    for (size_t i = 0; i < NC_ARRAY_SIZE(texts); i++)
        nc_value_set_text(map, texts[i].key, *(char *const *)((const char *)d + texts[i].offset));
    nc_value_set_int(map, "skewUsec", d->counters.skew_usec);
    return map;
}

static struct nc_value *status_tree(const struct nc_daemon *d) {
    struct nc_value *map = nc_value_new_map();
    uint64_t away_usec = nc_api_session_away_usec(&d->api);
    struct nc_value *drain =
        nc_drain_report(d->life, nc_daemon_now(d), d->history ? nc_value_copy(d->history) : NULL);

    if (nc_less_usec(nc_daemon_now(d), away_usec) < NC_SHORT_OUTAGE_USEC)
        away_usec = 0;
    nc_value_set_time(drain, "unansweredSince", away_usec);
    nc_value_set(drain, "podHistory",
                 d->pod_history ? nc_value_copy(d->pod_history) : nc_value_new_list());
    nc_value_set(map, "drain", drain);
    nc_value_set(map, "daemon", daemon_tree(d));
    if (d->fit.status)
        nc_value_set(map, "fit", nc_value_copy(d->fit.status));
    return map;
}

/* --- STATUS= */

static void add_time_left(const struct nc_lifecycle_view *view, uint64_t now_usec,
                          struct nc_buf *out) {
    if (view->t_usec > now_usec)
        (void)nc_buf_printf(out, ", %" PRIu64 " s to the force-delete time of all pods",
                            (view->t_usec - now_usec) / 1000000);
    else if (view->t_usec > 0)
        (void)nc_buf_puts(out, ", the force-delete time of all pods has passed");
}

/* False where it is well. */
static bool add_api(const struct nc_daemon *d, struct nc_buf *out) {
    const struct nc_err *err;
    const enum nc_api_state state = nc_api_session_state(&d->api, &err);

    if (state == NC_API_CONNECTED && d->node_name)
        return false;
    (void)nc_buf_printf(out, "; API server: %s%s%s", nc_api_state_name(state), err ? ": " : "",
                        err ? err->msg : "");
    return true;
}

static void add_idle_metrics(const struct nc_daemon *d, struct nc_buf *out) {
    struct nc_poll_view poll;

    (void)nc_buf_puts(out, "no notice");
    if (!add_api(d, out))
        (void)nc_buf_printf(out, "; watching node %s", d->node_name);
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (nc_notice_poller_get_view(d->poller, s, &poll) && *poll.error) {
            (void)nc_buf_printf(out, "; IMDS fails: %s", poll.error);
            return;
        }
}

static void status_line(const struct nc_daemon *d, const struct nc_value *drain,
                        struct nc_buf *out) {
    const uint64_t now = nc_daemon_now(d);
    struct nc_lifecycle_view view;

    nc_lifecycle_get_view(d->life, now, &view);
    if (view.leading < 0 && view.phase == NC_LIFECYCLE_IDLE) {
        add_idle_metrics(d, out);
        return;
    }
    if (view.leading >= 0)
        (void)nc_buf_printf(out, "%s notice: ", nc_source_name((enum nc_source)view.leading));
    nc_drain_phase_text(drain, out);
    if (view.is_orphaned)
        (void)nc_buf_puts(out, ", the Node was deleted");
    nc_drain_pods_text(drain, 1, out);
    add_time_left(&view, now, out);
    (void)add_api(d, out);
}

/* --- when */

static void write_daemon_metrics(struct nc_daemon *d, struct nc_buf *out) {
    struct nc_metrics m = {.out = out, .prefix = "nodeclaimd_"};
    const struct nc_err *err;

    d->counters.api_state = nc_api_session_state(&d->api, &err);
    nc_daemon_metrics(d->life, &d->counters, nc_daemon_now(d), out);
    nc_metric_family(&m, "node_info", NC_GAUGE,
                     "Name of the Node, its NodePool and the version, as labels; always 1.");
    if (d->node_name)
        nc_metric_count(&m,
                        NC_LABELS("node_name", d->node_name, "nodepool",
                                  d->node.pool ? d->node.pool : "", "version", nc_version),
                        1);
}

static void write_counters(struct nc_daemon *d) {
    nc_cleanup(nc_buf_done) struct nc_buf metrics = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    write_daemon_metrics(d, &metrics);
    if (nc_status_files_write(d->app, NC_STATUS_DAEMON, NULL, &metrics, &err) < 0)
        d->is_status_due = true; /* everything is tried soon, and reports what is wrong */
}

static void write_files(struct nc_daemon *d) {
    struct nc_value *status = status_tree(d);
    nc_cleanup(nc_buf_done) struct nc_buf metrics = NC_BUF_INIT, line = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (nc_value_path(status, "drain.others")->n) /* their times pass */
        d->status.idle_minutes = IDLE_STATUS_EVERY - 1;
    d->status.is_inhibitor_shown = nc_login_holds(d->shutdown.login);
    write_daemon_metrics(d, &metrics);
    (void)nc_buf_puts(&line, "STATUS=");
    status_line(d, nc_value_get(status, "drain"), &line);
    r = nc_status_files_write(d->app, NC_STATUS_DAEMON, status, &metrics, &err);
    d->is_status_due = r == -EAGAIN;
    if (r < 0 && r != -EAGAIN) {
        if (!d->status.failed)
            nc_log(NC_LOG_WARNING, NULL, "%s, going on without", err.msg);
        d->status.failed = true;
        d->status.again_usec = d->status.written_usec + NC_FAILED_PAUSE_USEC;
    } else if (r >= 0) {
        d->status.failed = false;
        d->status.again_usec = 0;
    }
    nc_notify(line.data);
}

static int on_wake(sd_event_source *source, uint64_t usec, void *userdata) {
    (void)userdata; /* nc_daemon_publish is called after every turn */
    return 0;
}

/* Makes sure that the loop turns again. */
static void wake_in(struct nc_daemon *d, uint64_t usec) {
    nc_timer_set(d->app->event, &d->status.timer, usec, on_wake, NULL);
}

void nc_daemon_publish(struct nc_daemon *d) {
    const uint64_t now = nc_mono_usec();
    const uint64_t age = now - d->status.written_usec;

    if (!d->life)
        return;
    d->is_status_due |= nc_login_holds(d->shutdown.login) != d->status.is_inhibitor_shown
                        || (d->status.again_usec > 0 && now >= d->status.again_usec);
    if (!d->is_status_due && age < IDLE_EVERY_USEC)
        return;
    if (age < LEAST_PAUSE_USEC) {
        wake_in(d, LEAST_PAUSE_USEC - age);
        return;
    }
    d->status.written_usec = now;
    d->status.idle_minutes = d->is_status_due ? 0 : d->status.idle_minutes + 1;
    if (d->status.idle_minutes % IDLE_STATUS_EVERY == 0)
        write_files(d);
    else
        write_counters(d);
    if (d->is_status_due) { /* the other writer had the lock */
        d->status.written_usec -= LEAST_PAUSE_USEC;
        wake_in(d, BUSY_PAUSE_USEC);
    } else if (d->status.again_usec > 0) {
        wake_in(d, NC_FAILED_PAUSE_USEC);
    }
}
