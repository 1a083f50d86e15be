/*
 * The steps of a session, and when the next one is due.
 *
 * One timer for all that is done by the clock. What is in flight when a session goes down is
 * cancelled, and a drain goes on with the next one.
 */
#include "daemon.h"

#include <errno.h>
#include <sys/stat.h>

#include "log.h"
#include "nc/backoff.h"
#include "nc/mem.h"
#include "nc/str.h"
#include "nc/time.h"

#define CHECK_USEC 1000000u      /* for a kubeconfig that is not there yet */
#define RETRY_USEC 5000000u      /* after a kubeconfig that is of no use, or an answer of no use */
#define RETRY_BUSY_USEC 1000000u /* where a drain waits for it */
#define RECONNECT_USEC 10000000u /* not more often, whatever the server says */
#define FILES_USEC 60000000u     /* kubelet rotates its certificate long before the old one ends */
#define FILES_SOON_USEC 2000000u /* somebody may be mending them, and something waits for it */
#define LASTING_USEC 30000000u   /* as what blocks is said for the second time */
#define SAID_USEC 600000000u     /* so long the same answer is not said again */
#define RENEW_RETRY_USEC 5000000u
#define RENEW_PAUSE_USEC 10000000u /* whatever a plugin says of how long its token is good */
#define WHOAMI_TIMEOUT_USEC 3000000u
#define TIMER_ACCURACY_USEC 10000u
#define NODE_USER "system:node:"
#define REFUSALS_MAX 3 /* 401s in a row: the token was made anew already */

static void set_timer(struct nc_daemon *d);

/* --- how it is */

static bool has_deadline_passed(const struct nc_daemon *d, int leading, uint64_t now) {
    const struct nc_notice *n =
        leading < 0 ? NULL : nc_lifecycle_notice(d->life, (enum nc_source)leading);

    return n && n->deadline_usec >= d->api.failing_usec && n->deadline_usec <= now;
}

/* Nothing else tells of a drain that stands still because of it: once while it lasts, where only
 * this machine can be seen, and once it is over, for who sees the cluster alone. */
static void report_outage(struct nc_daemon *d, bool is_over) {
    const bool was_said = d->api.lasting;
    const uint64_t now = nc_daemon_now(d), usec = nc_less_usec(now, d->api.failing_usec);
    static char series[] = "outage";
    nc_auto_free char *message = NULL;
    struct nc_lifecycle_view view;
    char since[32];

    if (!d->life || usec < (is_over ? NC_SHORT_OUTAGE_USEC : LASTING_USEC)
        || (!is_over && d->api.lasting))
        return;
    nc_lifecycle_get_view(d->life, now, &view);
    /* a 403 is of one request: what becomes of the others is told of them, but of pods that may not
     * be listed nothing is */
    if (view.policy != NC_POLICY_DRAIN || view.drained_usec
        || (!is_over && d->api.error.code == 403 && !view.is_unlisted)
        || (!view.is_unlisted && view.drain.remaining == view.drain.leaving))
        return;
    if (!d->api.lasting)
        d->api.lasting = nc_strdup(d->api.error.msg);
    nc_time_format(d->api.failing_usec, since);
    if (is_over)
        message = nc_asprintf(
            "Nothing was evicted for %llu s%s: no request of the drain succeeded from %s on: %s",
            (unsigned long long)(usec / 1000000),
            has_deadline_passed(d, view.leading, now) ? ", and the deadline passed" : "", since,
            d->api.lasting);
    else
        message = nc_asprintf(
            "Nothing is evicted: no request of the drain has succeeded since %s: %s%s%s", since,
            d->api.error.msg, *d->api.error.remedy ? "; " : "", d->api.error.remedy);
    nc_daemon_announce(d, &(struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_ANNOUNCE,
                                                        .milestone = NC_LIFECYCLE_MILESTONE_BLOCKED,
                                                        .reason = "DrainBlocked",
                                                        .is_warning = true,
                                                        .is_update = was_said,
                                                        .is_lasting = !is_over,
                                                        .series = series,
                                                        .message = message});
}

/* What is answered so again and again, while other requests succeed, is said once in ten minutes.
 */
static bool was_said_lately(struct nc_daemon *d, const struct nc_err *err) {
    const uint64_t now = nc_mono_usec(), hash = nc_backoff_seed(err->msg);
    size_t oldest = 0;

    if (err->code < 400 || err->code > 599)
        return false;
    for (size_t i = 0; i < NC_ARRAY_SIZE(d->api.said); i++) {
        if (d->api.said[i].hash == hash && now < d->api.said[i].until_usec)
            return true;
        if (d->api.said[i].until_usec < d->api.said[oldest].until_usec)
            oldest = i;
    }
    d->api.said[oldest].hash = hash;
    d->api.said[oldest].until_usec = now + SAID_USEC;
    return false;
}

void nc_api_session_failed(struct nc_daemon *d, const struct nc_err *err) {
    const bool is_new = (d->api.error.class != err->class || d->api.error.code != err->code)
                        && !was_said_lately(d, err);

    d->api.has_answered = err->code >= 200; /* an HTTP status: see nc/err.h */
    d->node.is_stale |= !d->api.has_answered;
    if (err->class < _NC_ERR_CLASS_MAX)
        d->counters.api_errors[err->class]++;
    if (is_new)
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.node = d->node_name,
                                       .error_class = nc_err_class_name(err->class)},
               "%s%s%s", err->msg, *err->remedy ? "; " : "", err->remedy);
    if (d->api.error.class == NC_ERR_NONE)
        d->api.failing_usec = nc_daemon_now(d);
    d->api.error = *err;
    d->is_status_due = true;
    report_outage(d, false);
    if (err->code == 401 && ++d->api.refusals >= REFUSALS_MAX)
        d->api.wants_reconnect = true;
    set_timer(d);
}

void nc_api_session_well(struct nc_daemon *d) {
    d->api.refusals = 0;
    if (d->api.has_answered && d->api.error.class == NC_ERR_NONE)
        return;
    d->api.has_answered = true;
    if (nc_api_session_away_usec(&d->api) || d->api.lasting) {
        const uint64_t usec = nc_less_usec(nc_daemon_now(d), d->api.failing_usec);
        nc_log_node(usec < NC_SHORT_OUTAGE_USEC ? NC_LOG_DEBUG : NC_LOG_INFO, d->node_name,
                    "the API server answers again, after %.1f s", (double)usec / 1e6);
        report_outage(d, true);
    } else if (d->api.error.class == NC_ERR_NONE) {
        nc_log_node(NC_LOG_INFO, d->node_name, "node %s is watched at %s", d->node_name,
                    d->api.connection.kubeconfig.server);
    }
    free(nc_steal(&d->api.lasting));
    d->api.error = (struct nc_err)NC_ERR_INIT;
    d->is_status_due = true;
    nc_event_queue_resume(d);
}

void nc_api_session_on_well(void *daemon) {
    nc_api_session_well(daemon);
}

void nc_api_session_on_failed(void *daemon, const struct nc_kube_status *status,
                              const struct nc_err *err) {
    struct nc_daemon *d = daemon;

    d->counters.watch_restarts++;
    nc_api_session_failed(d, err);
}

void nc_api_session_note_obstacle(struct nc_daemon *d, enum nc_obstacle which,
                                  const struct nc_err *err) {
    struct nc_err *of = &d->api.obstacles[which];

    d->is_status_due |= (of->class != NC_ERR_NONE) != (err != NULL);
    *of = err ? *err : (struct nc_err)NC_ERR_INIT;
}

enum nc_api_state nc_api_session_state(const struct nc_api_session *s,
                                       const struct nc_err **ret_err) {
    const struct nc_err *err = &s->error;

    for (size_t i = 0; i < _NC_OBSTACLE_MAX && !err->class; i++)
        err = &s->obstacles[i];
    *ret_err = err->class ? err : NULL;
    if (s->waits != NC_API_CONNECTING)
        return s->waits;
    if (err->class == NC_ERR_NONE)
        return nc_api_session_is_up(s) && s->has_answered ? NC_API_CONNECTED : NC_API_CONNECTING;
    return err->class == NC_ERR_AUTH        ? NC_API_REFUSED
           : err->class == NC_ERR_TRANSIENT ? NC_API_UNREACHABLE
                                            : NC_API_FAILING;
}

uint64_t nc_api_session_away_usec(const struct nc_api_session *s) {
    const struct nc_err *err;
    const enum nc_api_state state = nc_api_session_state(s, &err);

    return state == NC_API_UNREACHABLE || s->waits != NC_API_CONNECTING
                   || (state == NC_API_REFUSED && err->code == 401)
                   || (state == NC_API_FAILING && err == &s->error)
               ? s->failing_usec
               : 0;
}

/* --- the files that it was opened with */

static struct nc_file_mark mark_of(const char *path) {
    struct stat st;

    if (!path || stat(path, &st) < 0)
        return (struct nc_file_mark){0};
    return (struct nc_file_mark){.device = st.st_dev,
                                 .inode = st.st_ino,
                                 .mtime_nsec = (uint64_t)st.st_mtim.tv_sec * 1000000000u
                                               + (uint64_t)st.st_mtim.tv_nsec};
}

static struct nc_file_mark mark_of_kubeconfig(const struct nc_daemon *d) {
    nc_auto_free char *path = nc_connect_path(d->app, nc_daemon_kubeconfig(d));

    return mark_of(path);
}

static bool is_another_file(const struct nc_file_mark *was, const struct nc_file_mark *is) {
    return was->inode != 0 && is->inode != 0
           && !(is->device == was->device && is->inode == was->inode
                && is->mtime_nsec == was->mtime_nsec);
}

static uint64_t files_due(const struct nc_daemon *d) {
    const uint64_t earlier = FILES_USEC - FILES_SOON_USEC;
    const bool is_urgent =
        !nc_api_session_is_up(&d->api) || d->api.error.class != NC_ERR_NONE || nc_daemon_is_busy(d);

    return is_urgent && d->api.files_after_usec > earlier ? d->api.files_after_usec - earlier
                                                          : d->api.files_after_usec;
}

/* A certificate that is just being replaced is not there for a moment: that is no change yet. */
static bool were_replaced(struct nc_daemon *d, uint64_t now) {
    struct nc_file_mark marks[NC_ARRAY_SIZE(d->api.files)];

    if (now < files_due(d))
        return false;
    d->api.files_after_usec = now + FILES_USEC;
    marks[0] = mark_of_kubeconfig(d);
    marks[1] = mark_of(d->api.connection.cert_file);
    for (size_t i = 0; i < NC_ARRAY_SIZE(marks); i++)
        if (is_another_file(&d->api.files[i], &marks[i])) {
            if (d->api.step != NC_SESSION_DOWN)
                nc_log(NC_LOG_INFO, NULL, "the node's credentials were replaced, connecting anew");
            return true;
        }
    return false;
}

/* --- the steps */

static void close_session(struct nc_daemon *d) {
    const bool was_up = nc_api_session_is_up(&d->api);

    d->api.step = NC_SESSION_DOWN;
    d->api.has_answered = false;
    if (was_up)
        nc_daemon_disconnected(d);
    nc_kube_whoami_cancel(&d->api.identity);
    nc_connection_done(&d->api.connection);
    d->is_status_due = true;
}

static void fail_step(struct nc_daemon *d, const struct nc_err *err) {
    if (!d->app->signal)
        nc_api_session_failed(d, err);
    close_session(d);
    d->api.connect_after_usec =
        nc_mono_usec() + (nc_daemon_is_busy(d) ? RETRY_BUSY_USEC : RETRY_USEC);
    set_timer(d);
}

static void open_session(struct nc_daemon *d) {
    d->api.step = NC_SESSION_UP;
    d->api.connect_after_usec = nc_mono_usec() + RECONNECT_USEC;
    d->api.wants_reconnect = false;
    d->api.refusals = 0;
    d->is_status_due = true;
    nc_daemon_connected(d);
    set_timer(d);
}

static void on_identity(void *userdata, struct nc_identity *who, const struct nc_err *err) {
    struct nc_daemon *d = userdata;
    nc_auto_free char *quoted = NULL;
    struct nc_err own = *err;

    if (own.class != NC_ERR_NONE) {
        fail_step(d, &own);
        return;
    }
    if (nc_starts_with(who->username, NODE_USER) && who->username[strlen(NODE_USER)]) {
        d->node_name = nc_strdup(who->username + strlen(NODE_USER));
        open_session(d);
        return;
    }
    quoted = nc_quote_string(who->username);
    (void)nc_err_set(&own, NC_ERR_AUTH, EPERM,
                     "the API server identified this client as %s, not as a node", quoted);
    nc_err_remedy(&own, "use the node's own kubeconfig, or --node-name");
    fail_step(d, &own);
}

static void request_identity(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;

    if (d->node_name) {
        open_session(d);
        return;
    }
    d->api.step = NC_SESSION_IDENTITY;
    d->api.identity = (struct nc_identity_call){.kube = d->api.connection.kube,
                                                .timeout_usec = WHOAMI_TIMEOUT_USEC,
                                                .done = on_identity,
                                                .userdata = d};
    if (nc_kube_whoami_start(&d->api.identity, &err) < 0)
        fail_step(d, &err);
}

static void on_first_token(void *userdata, const struct nc_err *err) {
    struct nc_daemon *d = userdata;
    const struct nc_err own = *err;

    if (own.class == NC_ERR_NONE)
        request_identity(d);
    else
        fail_step(d, &own);
}

static void on_token_wanted(void *userdata) {
    set_timer(userdata);
}

static void connect_now(struct nc_daemon *d) {
    const struct nc_file_mark mark = mark_of_kubeconfig(d); /* before it is read: what changes
                                                               meanwhile is a change */
    struct nc_connection *c = &d->api.connection;
    struct nc_err err = NC_ERR_INIT;

    if (is_another_file(&d->api.files[0], &mark)) /* it may be of another cluster */
        nc_own_node_reread(d);
    d->api.files[0] = mark;
    d->api.files_after_usec = nc_mono_usec() + FILES_USEC;
    if (nc_connect(d->app, nc_daemon_kubeconfig(d), d->imds, c, &err) < 0) {
        fail_step(d, &err);
        return;
    }
    d->api.files[1] = mark_of(c->cert_file);
    c->token_wanted = on_token_wanted;
    c->userdata = d;
    if (!nc_connection_makes_tokens(c)) {
        request_identity(d);
        return;
    }
    d->api.step = NC_SESSION_TOKEN;
    nc_connection_renew_start(c, on_first_token);
}

/* What a connection needs and is not there: bootstrap writes the kubeconfig, kubelet its
 * certificate when that is signed. Usual while a node boots, so it is no warning; but it is logged.
 */
static void wait_for(struct nc_daemon *d, enum nc_api_state what, const struct nc_err *err) {
    if (d->api.waits != what) {
        nc_log_node(NC_LOG_INFO, d->node_name, "waiting for a connection to the API server: %s%s%s",
                    err->msg, *err->remedy ? "; " : "", err->remedy);
        d->is_status_due = true;
    }
    if (d->api.error.class == NC_ERR_NONE)
        d->api.failing_usec = nc_daemon_now(d);
    d->api.waits = what;
    d->api.error = *err;
    report_outage(d, false);
    d->api.has_waited = true;
    d->api.connect_after_usec = nc_mono_usec() + CHECK_USEC;
}

static enum nc_api_state find_credentials(const struct nc_daemon *d, struct nc_err *err) {
    switch (nc_connect_check(d->app, nc_daemon_kubeconfig(d), err)) {
    case NC_CREDENTIALS_THERE:
        return NC_API_CONNECTING;
    case NC_CREDENTIALS_NO_FILE:
        return NC_API_NO_KUBECONFIG;
    case NC_CREDENTIALS_UNSIGNED:
        return NC_API_NO_CERTIFICATE;
    case NC_CREDENTIALS_BAD_FILE:
        break;
    }
    return NC_API_BAD_KUBECONFIG;
}

static void try_to_connect(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;
    const enum nc_api_state missing = find_credentials(d, &err);

    if (missing != NC_API_CONNECTING) {
        wait_for(d, missing, &err);
        return;
    }
    if (d->api.waits != NC_API_CONNECTING) {
        if (d->api.lasting)
            report_outage(d, true);
        free(nc_steal(&d->api.lasting));
        d->api.waits = NC_API_CONNECTING;
        d->api.error = (struct nc_err)NC_ERR_INIT;
        d->is_status_due = true;
    }
    if (d->api.has_waited) {
        d->api.has_waited = false;
        d->api.step = NC_SESSION_HELD;
        nc_daemon_gather_start(d);
        return;
    }
    connect_now(d);
}

void nc_api_session_resume(struct nc_daemon *d) {
    if (d->api.step != NC_SESSION_HELD)
        return;
    d->api.step = NC_SESSION_DOWN;
    d->api.connect_after_usec = 0;
    set_timer(d);
}

/* --- the token's renewal */

/* On the monotonic clock. */
static uint64_t token_due(const struct nc_daemon *d, uint64_t mono_usec) {
    const struct nc_connection *c = &d->api.connection;
    const uint64_t now = nc_now_usec();
    uint64_t due = mono_usec;

    if (!nc_connection_makes_tokens(c) || c->renewed)
        return UINT64_MAX;
    if (!c->wants_token && now < c->token_renew_usec)
        due += c->token_renew_usec - now;
    return due > d->api.renew_after_usec ? due : d->api.renew_after_usec;
}

static void on_renewed(void *userdata, const struct nc_err *err) {
    struct nc_daemon *d = userdata;
    const bool is_good = err->class == NC_ERR_NONE;

    d->api.renew_after_usec = nc_mono_usec() + (is_good ? RENEW_PAUSE_USEC : RENEW_RETRY_USEC);
    if (!is_good && d->api.connection.wants_token && !d->app->signal)
        nc_api_session_failed(d, err); /* while the old one is good it is no news */
    set_timer(d);
}

/* --- by the clock */

static uint64_t sooner(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t next_due(const struct nc_daemon *d) {
    uint64_t at = files_due(d);

    if (d->api.step == NC_SESSION_DOWN || (nc_api_session_is_up(&d->api) && d->api.wants_reconnect))
        at = sooner(at, d->api.connect_after_usec);
    if (nc_api_session_is_up(&d->api))
        at = sooner(at, token_due(d, nc_mono_usec()));
    return at;
}

static void set_timer(struct nc_daemon *d) {
    if (d->api.is_closed || !d->api.timer)
        return;
    (void)sd_event_source_set_time(d->api.timer, next_due(d));
    (void)sd_event_source_set_enabled(d->api.timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_daemon *d = userdata;
    const uint64_t now = nc_mono_usec();

    if ((nc_api_session_is_up(&d->api) && d->api.wants_reconnect
         && now >= d->api.connect_after_usec)
        || were_replaced(d, now)) {
        if (d->api.step != NC_SESSION_HELD)
            close_session(d);
        d->api.connect_after_usec = 0;
    }
    if (d->api.step == NC_SESSION_DOWN && now >= d->api.connect_after_usec)
        try_to_connect(d);
    if (nc_api_session_is_up(&d->api) && now >= token_due(d, now))
        nc_connection_renew_start(&d->api.connection, on_renewed);
    set_timer(d);
    return 0;
}

void nc_api_session_check_soon(struct nc_daemon *d) {
    set_timer(d);
}

void nc_api_session_check_now(struct nc_daemon *d) {
    d->api.files_after_usec = 0;
    set_timer(d);
}

int nc_api_session_open(struct nc_daemon *d, struct nc_err *err) {
    const int r = sd_event_add_time(d->app->event, &d->api.timer, CLOCK_MONOTONIC, 0,
                                    TIMER_ACCURACY_USEC, on_timer, d);
    return r < 0 ? nc_err_host(err, r, "event loop") : 0;
}

void nc_api_session_close(struct nc_daemon *d) {
    const bool was_open = d->api.timer != NULL;

    d->api.is_closed = true;
    d->api.timer = sd_event_source_disable_unref(d->api.timer);
    free(nc_steal(&d->api.lasting));
    if (was_open)
        close_session(d);
}
