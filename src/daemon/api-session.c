/*
 * The steps of a session, and when the next one is due.
 *
 * One timer for all that is done by the clock. What is in flight when a session goes down is
 * cancelled, and a drain goes on with the next one.
 */
#include "api-session.h"

#include <errno.h>
#include <sys/stat.h>

#include "log.h"
#include "nc/str.h"

#define CHECK_USEC 1000000u      /* for a kubeconfig that is not there yet */
#define RETRY_USEC 5000000u      /* after a kubeconfig that is of no use, or an answer of no use */
#define RECONNECT_USEC 10000000u /* not more often, whatever the server says */
#define FILES_USEC 60000000u     /* kubelet rotates its certificate long before the old one ends */
#define FILES_SOON_USEC 2000000u /* somebody may be mending them, and something waits for it */
#define RENEW_RETRY_USEC 5000000u
#define RENEW_PAUSE_USEC 10000000u /* whatever a plugin says of how long its token is good */
#define WHOAMI_TIMEOUT_USEC 3000000u
#define TIMER_ACCURACY_USEC 10000u
#define NODE_USER "system:node:"
#define REFUSALS_MAX 3 /* 401s in a row: the token was made anew already */

static void set_timer(struct nc_api_session *s);

/* --- how it is */

void nc_api_session_failed(struct nc_api_session *s, const struct nc_err *err) {
    const bool is_new = s->error.class != err->class || s->error.code != err->code;

    s->has_answered = err->code >= 200; /* an HTTP status: see nc/err.h */
    if (err->class < _NC_ERR_CLASS_MAX)
        s->o.counters->api_errors[err->class]++;
    if (is_new)
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.node = *s->o.node_name,
                                       .error_class = nc_err_class_name(err->class)},
               "%s%s%s", err->msg, *err->remedy ? "; " : "", err->remedy);
    s->error = *err;
    s->o.changed(s->o.userdata);
    if (err->code == 401 && ++s->refusals >= REFUSALS_MAX)
        s->wants_reconnect = true;
    set_timer(s);
}

void nc_api_session_well(struct nc_api_session *s) {
    s->refusals = 0;
    if (s->has_answered && s->error.class == NC_ERR_NONE)
        return;
    s->has_answered = true;
    if (s->error.class != NC_ERR_NONE)
        nc_log(NC_LOG_INFO, &(struct nc_log_fields){.node = *s->o.node_name},
               "the API server answers again");
    s->error = (struct nc_err)NC_ERR_INIT;
    s->o.changed(s->o.userdata);
}

void nc_api_session_note_pods(struct nc_api_session *s, const struct nc_err *err) {
    const bool was_bad = s->pods_error.class != NC_ERR_NONE;

    s->pods_error = err ? *err : (struct nc_err)NC_ERR_INIT;
    if (was_bad != (s->pods_error.class != NC_ERR_NONE))
        s->o.changed(s->o.userdata);
}

enum nc_api_state nc_api_session_state(const struct nc_api_session *s,
                                       const struct nc_err **ret_err) {
    const struct nc_err *err = s->error.class ? &s->error : &s->pods_error;

    *ret_err = err->class ? err : NULL;
    if (s->waits != NC_API_CONNECTING)
        return s->waits;
    if (err->class == NC_ERR_NONE)
        return nc_api_session_is_up(s) && s->has_answered ? NC_API_CONNECTED : NC_API_CONNECTING;
    return err->class == NC_ERR_AUTH        ? NC_API_REFUSED
           : err->class == NC_ERR_TRANSIENT ? NC_API_UNREACHABLE
                                            : NC_API_FAILING;
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

static bool is_same(const struct nc_file_mark *a, const struct nc_file_mark *b) {
    return a->device == b->device && a->inode == b->inode && a->mtime_nsec == b->mtime_nsec;
}

static struct nc_file_mark mark_of_kubeconfig(const struct nc_api_session *s) {
    nc_auto_free char *path = nc_connect_path(s->o.app, s->o.kubeconfig(s->o.userdata));

    return mark_of(path);
}

static uint64_t files_due(const struct nc_api_session *s) {
    const uint64_t earlier = FILES_USEC - FILES_SOON_USEC;
    const bool is_urgent =
        !nc_api_session_is_up(s) || s->error.class != NC_ERR_NONE || s->o.is_urgent(s->o.userdata);

    return is_urgent && s->files_after_usec > earlier ? s->files_after_usec - earlier
                                                      : s->files_after_usec;
}

/* A certificate that is just being replaced is not there for a moment: that is no change yet. */
static bool were_replaced(struct nc_api_session *s, uint64_t now) {
    struct nc_file_mark marks[NC_ARRAY_SIZE(s->files)];

    if (now < files_due(s))
        return false;
    s->files_after_usec = now + FILES_USEC;
    marks[0] = mark_of_kubeconfig(s);
    marks[1] = mark_of(s->connection.cert_file);
    for (size_t i = 0; i < NC_ARRAY_SIZE(marks); i++)
        if (s->files[i].inode != 0 && marks[i].inode != 0 && !is_same(&marks[i], &s->files[i])) {
            nc_log(NC_LOG_INFO, NULL, "the node's credentials were replaced, connecting anew");
            return true;
        }
    return false;
}

/* --- the steps */

static void close_session(struct nc_api_session *s) {
    const bool was_up = nc_api_session_is_up(s);

    s->step = NC_SESSION_DOWN;
    s->has_answered = false;
    if (was_up)
        s->o.down(s->o.userdata);
    nc_kube_whoami_cancel(&s->identity);
    nc_connection_done(&s->connection);
    s->o.changed(s->o.userdata);
}

static void fail_step(struct nc_api_session *s, const struct nc_err *err) {
    if (!s->o.app->signal)
        nc_api_session_failed(s, err);
    close_session(s);
    s->connect_after_usec = nc_mono_usec() + RETRY_USEC;
    set_timer(s);
}

static void open_session(struct nc_api_session *s) {
    s->step = NC_SESSION_UP;
    s->connect_after_usec = nc_mono_usec() + RECONNECT_USEC;
    s->wants_reconnect = false;
    s->refusals = 0;
    s->o.changed(s->o.userdata);
    s->o.up(s->o.userdata);
    set_timer(s);
}

static void on_identity(void *userdata, struct nc_identity *who, const struct nc_err *err) {
    struct nc_api_session *s = userdata;
    nc_auto_free char *quoted = NULL;
    struct nc_err own = *err;

    if (own.class != NC_ERR_NONE) {
        fail_step(s, &own);
        return;
    }
    if (nc_starts_with(who->username, NODE_USER) && who->username[strlen(NODE_USER)]) {
        *s->o.node_name = nc_strdup(who->username + strlen(NODE_USER));
        open_session(s);
        return;
    }
    quoted = nc_quote(who->username, strlen(who->username));
    (void)nc_err_set(&own, NC_ERR_AUTH, EPERM,
                     "the API server identified this client as %s, not as a node", quoted);
    nc_err_remedy(&own, "use the node's own kubeconfig, or --node-name");
    fail_step(s, &own);
}

static void request_identity(struct nc_api_session *s) {
    struct nc_err err = NC_ERR_INIT;

    if (*s->o.node_name) {
        open_session(s);
        return;
    }
    s->step = NC_SESSION_IDENTITY;
    s->identity = (struct nc_identity_call){.kube = s->connection.kube,
                                            .timeout_usec = WHOAMI_TIMEOUT_USEC,
                                            .done = on_identity,
                                            .userdata = s};
    if (nc_kube_whoami_start(&s->identity, &err) < 0)
        fail_step(s, &err);
}

static void on_first_token(void *userdata, const struct nc_err *err) {
    struct nc_api_session *s = userdata;
    const struct nc_err own = *err;

    if (own.class == NC_ERR_NONE)
        request_identity(s);
    else
        fail_step(s, &own);
}

static void on_token_wanted(void *userdata) {
    set_timer(userdata);
}

static void connect_now(struct nc_api_session *s) {
    struct nc_connection *c = &s->connection;
    struct nc_err err = NC_ERR_INIT;

    s->files[0] = mark_of_kubeconfig(s); /* before it is read: what changes meanwhile is a change */
    s->files_after_usec = nc_mono_usec() + FILES_USEC;
    if (nc_connect(s->o.app, s->o.kubeconfig(s->o.userdata), s->o.imds, c, &err) < 0) {
        fail_step(s, &err);
        return;
    }
    s->files[1] = mark_of(c->cert_file);
    c->token_wanted = on_token_wanted;
    c->userdata = s;
    if (!nc_connection_makes_tokens(c)) {
        request_identity(s);
        return;
    }
    s->step = NC_SESSION_TOKEN;
    nc_connection_renew_start(c, on_first_token);
}

/* What a connection needs and is not there: bootstrap writes the kubeconfig, kubelet its
 * certificate when that is signed. Usual while a node boots, so it is no warning; but it is logged.
 */
static void wait_for(struct nc_api_session *s, enum nc_api_state what, const struct nc_err *err) {
    if (s->waits != what) {
        nc_log(NC_LOG_INFO, &(struct nc_log_fields){.node = *s->o.node_name},
               "waiting for a connection to the API server: %s%s%s", err->msg,
               *err->remedy ? "; " : "", err->remedy);
        s->o.changed(s->o.userdata);
    }
    s->waits = what;
    s->error = *err;
    s->has_waited = true;
    s->connect_after_usec = nc_mono_usec() + CHECK_USEC;
}

static enum nc_api_state find_credentials(const struct nc_api_session *s, struct nc_err *err) {
    switch (nc_connect_check(s->o.app, s->o.kubeconfig(s->o.userdata), err)) {
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

static void try_to_connect(struct nc_api_session *s) {
    struct nc_err err = NC_ERR_INIT;
    const enum nc_api_state missing = find_credentials(s, &err);

    if (missing != NC_API_CONNECTING) {
        wait_for(s, missing, &err);
        return;
    }
    if (s->waits != NC_API_CONNECTING) {
        s->waits = NC_API_CONNECTING;
        s->error = (struct nc_err)NC_ERR_INIT;
        s->o.changed(s->o.userdata);
    }
    if (s->has_waited) {
        s->has_waited = false;
        s->step = NC_SESSION_HELD;
        s->o.found(s->o.userdata);
        return;
    }
    connect_now(s);
}

void nc_api_session_resume(struct nc_api_session *s) {
    if (s->step != NC_SESSION_HELD)
        return;
    s->step = NC_SESSION_DOWN;
    s->connect_after_usec = 0;
    set_timer(s);
}

/* --- the token's renewal */

/* On the monotonic clock. */
static uint64_t token_due(const struct nc_api_session *s, uint64_t mono_usec) {
    const struct nc_connection *c = &s->connection;
    const uint64_t now = nc_now_usec();
    uint64_t due = mono_usec;

    if (!nc_connection_makes_tokens(c) || c->renewed)
        return UINT64_MAX;
    if (!c->wants_token && now < c->token_renew_usec)
        due += c->token_renew_usec - now;
    return due > s->renew_after_usec ? due : s->renew_after_usec;
}

static void on_renewed(void *userdata, const struct nc_err *err) {
    struct nc_api_session *s = userdata;
    const bool is_good = err->class == NC_ERR_NONE;

    s->renew_after_usec = nc_mono_usec() + (is_good ? RENEW_PAUSE_USEC : RENEW_RETRY_USEC);
    if (!is_good && s->connection.wants_token && !s->o.app->signal)
        nc_api_session_failed(s, err); /* while the old one is good it is no news */
    set_timer(s);
}

/* --- by the clock */

static uint64_t sooner(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t next_due(const struct nc_api_session *s) {
    uint64_t at = files_due(s);

    if (s->step == NC_SESSION_DOWN || (nc_api_session_is_up(s) && s->wants_reconnect))
        at = sooner(at, s->connect_after_usec);
    if (nc_api_session_is_up(s))
        at = sooner(at, token_due(s, nc_mono_usec()));
    return at;
}

static void set_timer(struct nc_api_session *s) {
    if (s->is_closed || !s->timer)
        return;
    (void)sd_event_source_set_time(s->timer, next_due(s));
    (void)sd_event_source_set_enabled(s->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_api_session *s = userdata;
    const uint64_t now = nc_mono_usec();

    if ((nc_api_session_is_up(s) && s->wants_reconnect && now >= s->connect_after_usec)
        || were_replaced(s, now)) {
        if (s->step != NC_SESSION_HELD)
            close_session(s);
        s->connect_after_usec = 0;
    }
    if (s->step == NC_SESSION_DOWN && now >= s->connect_after_usec)
        try_to_connect(s);
    if (nc_api_session_is_up(s) && now >= token_due(s, now))
        nc_connection_renew_start(&s->connection, on_renewed);
    set_timer(s);
    return 0;
}

void nc_api_session_check_soon(struct nc_api_session *s) {
    set_timer(s);
}

void nc_api_session_check_now(struct nc_api_session *s) {
    s->files_after_usec = 0;
    set_timer(s);
}

int nc_api_session_open(struct nc_api_session *s, const struct nc_api_session_options *o,
                        struct nc_err *err) {
    int r;

    *s = (struct nc_api_session){.o = *o};
    r = sd_event_add_time(o->app->event, &s->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_USEC,
                          on_timer, s);
    return r < 0 ? nc_err_set(err, NC_ERR_HOST, r, "event loop: %s", strerror(-r)) : 0;
}

void nc_api_session_close(struct nc_api_session *s) {
    s->is_closed = true;
    s->timer = sd_event_source_disable_unref(s->timer);
    if (s->o.app)
        close_session(s);
}
