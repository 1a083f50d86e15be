/*
 * The way to the API server, for as long as the node lives: a kubeconfig that may appear later,
 * certificates that rotate, tokens that end, a server that no longer takes us.
 *
 * Everything here happens between two turns of the loop, and none of it loses a drain: what is
 * under way is answered AWAY, and the watches are opened again.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon.h"
#include "log.h"
#include "nc/str.h"

#define LOOK_USEC 1000000u       /* for a kubeconfig that is not there yet */
#define RETRY_USEC 5000000u      /* after a kubeconfig that is of no use, or an answer of no use */
#define RECONNECT_USEC 10000000u /* not more often, whatever the server says */
#define FILES_USEC 60000000u     /* kubelet rotates its certificate long before the old one ends */
#define FILES_SOON_USEC 2000000u /* somebody may be mending them, and something waits for it */
#define RENEW_RETRY_USEC 5000000u
#define RENEW_PAUSE_USEC 10000000u /* whatever a plugin says of how long its token is good */
#define WHOAMI_TIMEOUT_USEC 3000000u
#define NODE_USER "system:node:"
#define REFUSALS_MAX 3 /* 401s in a row: the token was made anew already */

/* --- how it is */

void nc_daemon_api_failed(struct nc_daemon *d, const struct nc_err *err) {
    const bool is_new = d->api_error.class != err->class || d->api_error.code != err->code;

    d->has_answered = err->code >= 200; /* an HTTP status: see nc/err.h */
    if (err->class < _NC_ERR_CLASS_MAX)
        d->counters.api_errors[err->class]++;
    if (is_new)
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.node = d->node_name,
                                       .error_class = nc_err_class_name(err->class)},
               "%s%s%s", err->msg, *err->remedy ? "; " : "", err->remedy);
    d->api_error = *err;
    d->is_status_due = true;
    if (err->code == 401 && ++d->refusals >= REFUSALS_MAX)
        d->wants_reconnect = true;
}

void nc_daemon_api_well(struct nc_daemon *d) {
    d->refusals = 0;
    d->is_status_due |= !d->has_answered;
    d->has_answered = true;
    if (d->api_error.class == NC_ERR_NONE)
        return;
    nc_log(NC_LOG_INFO, &(struct nc_log_fields){.node = d->node_name},
           "the API server answers again");
    d->api_error = (struct nc_err)NC_ERR_INIT;
    d->is_status_due = true;
}

void nc_daemon_watch_well(void *userdata) {
    nc_daemon_api_well(userdata);
}

enum nc_api_state nc_daemon_api_state(const struct nc_daemon *d, const struct nc_err **ret_err) {
    const struct nc_err *err = d->api_error.class ? &d->api_error : &d->pods_error;

    *ret_err = err->class ? err : NULL;
    if (d->waits != NC_API_CONNECTING)
        return d->waits;
    if (err->class == NC_ERR_NONE)
        return d->is_connected && d->has_answered ? NC_API_CONNECTED : NC_API_CONNECTING;
    return err->class == NC_ERR_AUTH        ? NC_API_REFUSED
           : err->class == NC_ERR_TRANSIENT ? NC_API_UNREACHABLE
                                            : NC_API_FAILING;
}

static const char *kubeconfig_path(const struct nc_daemon *d) {
    const struct nc_config *c = &d->gather.config;

    if (d->app->opts.kubeconfig)
        return d->app->opts.kubeconfig;
    return c->auth == NC_AUTH_KUBECONFIG && c->kubeconfig ? c->kubeconfig : NC_KUBECONFIG;
}

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

/* Before the kubeconfig is read: what is changed meanwhile is a change. */
static void mark_kubeconfig(struct nc_daemon *d) {
    nc_auto_free char *path = nc_connect_path(d->app, kubeconfig_path(d));

    d->files[0] = mark_of(path);
    d->files_after_usec = nc_mono_usec() + FILES_USEC;
}

static uint64_t files_due(const struct nc_daemon *d) {
    const uint64_t earlier = FILES_USEC - FILES_SOON_USEC;
    const bool is_urgent =
        !d->is_connected || d->api_error.class != NC_ERR_NONE || nc_daemon_is_busy(d);

    return is_urgent && d->files_after_usec > earlier ? d->files_after_usec - earlier
                                                      : d->files_after_usec;
}

/* A certificate that is just being replaced is not there for a moment: that is no change yet. */
static bool files_changed(const struct nc_daemon *d) {
    nc_auto_free char *path = nc_connect_path(d->app, kubeconfig_path(d));
    const struct nc_file_mark now[] = {mark_of(path), mark_of(d->connection.cert_file)};

    for (size_t i = 0; i < NC_ARRAY_SIZE(now); i++)
        if (d->files[i].inode != 0 && now[i].inode != 0 && !is_same(&now[i], &d->files[i]))
            return true;
    return false;
}

void nc_daemon_disconnect(struct nc_daemon *d) {
    d->is_connected = d->has_answered = false;
    d->is_status_due = true;
    nc_daemon_node_close(d);
    nc_daemon_pods_close(d);
    nc_connection_done(&d->connection);
}

/* --- connecting */

static int ask_name(struct nc_daemon *d, struct nc_err *err) {
    nc_cleanup(nc_identity_done) struct nc_identity who = {0};
    nc_auto_free char *quoted = NULL;
    int r;

    if (d->node_name)
        return 0;
    r = nc_kube_whoami(d->connection.kube, WHOAMI_TIMEOUT_USEC, &who, NULL, err);
    if (r < 0)
        return r;
    if (nc_starts_with(who.username, NODE_USER) && who.username[strlen(NODE_USER)]) {
        d->node_name = nc_strdup(who.username + strlen(NODE_USER));
        return 0;
    }
    quoted = nc_quote(who.username, strlen(who.username));
    r = nc_err_set(err, NC_ERR_AUTH, EPERM, "the API server knows us as %s: that is no node",
                   quoted);
    nc_err_remedy(err, "use the node's own kubeconfig, or say --node-name");
    return r;
}

/* The first token is made here: inside of the loop there is no time for it. */
static int open_connection(struct nc_daemon *d, struct nc_err *err) {
    int r;

    nc_daemon_imds_stand_in(d, true);
    mark_kubeconfig(d);
    r = nc_connect(d->app, kubeconfig_path(d), d->imds, &d->connection, err);
    d->files[1] = mark_of(d->connection.cert_file);
    if (r >= 0) {
        d->connection.wants_token = d->connection.kubeconfig.exec_command != NULL;
        r = nc_connection_renew(&d->connection, err);
    }
    if (r >= 0)
        r = ask_name(d, err);
    nc_daemon_imds_stand_in(d, false);
    return r;
}

static void open_watches(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;

    d->is_connected = d->is_status_due = d->is_name_used = true;
    d->wants_reconnect = false;
    d->refusals = 0;
    if (nc_daemon_node_open(d, &err) < 0)
        nc_daemon_api_failed(d, &err);
    if (d->wants_pods)
        nc_daemon_pods_open(d);
    nc_log(NC_LOG_INFO, &(struct nc_log_fields){.node = d->node_name}, "node %s is watched at %s",
           d->node_name, d->connection.kubeconfig.server);
}

/* What a connection needs and is not there: bootstrap writes the kubeconfig, kubelet its
 * certificate when that is signed. Usual while a node boots, so it is no warning; but it is said.
 */
static void wait_for(struct nc_daemon *d, enum nc_api_state what, const struct nc_err *err) {
    if (d->waits != what) {
        nc_log(NC_LOG_INFO, &(struct nc_log_fields){.node = d->node_name},
               "waiting for a connection to the API server: %s%s%s", err->msg,
               *err->remedy ? "; " : "", err->remedy);
        d->is_status_due = true;
    }
    d->waits = what;
    d->api_error = *err;
    d->waited_for_kubeconfig = true;
    d->connect_after_usec = nc_mono_usec() + LOOK_USEC;
}

static enum nc_api_state look_for_credentials(const struct nc_daemon *d, struct nc_err *err) {
    switch (nc_connect_check(d->app, kubeconfig_path(d), err)) {
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
    const enum nc_api_state missing = look_for_credentials(d, &err);

    if (missing != NC_API_CONNECTING) {
        wait_for(d, missing, &err);
        return;
    }
    if (d->waits != NC_API_CONNECTING) {
        d->waits = NC_API_CONNECTING;
        d->api_error = (struct nc_err)NC_ERR_INIT;
        d->is_status_due = true;
    }
    if (d->waited_for_kubeconfig) { /* who wrote it knew more: documents, the host's name */
        d->waited_for_kubeconfig = d->is_gathered = false;
        d->gather_after_usec = 0;
        return;
    }
    if (open_connection(d, &err) < 0) {
        if (!d->app->signal)
            nc_daemon_api_failed(d, &err);
        nc_connection_done(&d->connection);
        d->connect_after_usec = nc_mono_usec() + RETRY_USEC;
        return;
    }
    d->connect_after_usec = nc_mono_usec() + RECONNECT_USEC;
    open_watches(d);
}

/* --- staying connected */

/* On the monotonic clock: when the token is to be made anew. */
static uint64_t token_due(const struct nc_daemon *d, uint64_t mono_usec) {
    const struct nc_connection *c = &d->connection;
    const uint64_t now = nc_now_usec();
    uint64_t due = mono_usec;

    if (!c->kubeconfig.exec_command)
        return UINT64_MAX;
    if (!c->wants_token && now < c->token_renew_usec)
        due += c->token_renew_usec - now;
    return due > d->renew_after_usec ? due : d->renew_after_usec;
}

static void renew_token(struct nc_daemon *d, uint64_t now) {
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (now < token_due(d, now))
        return;
    nc_daemon_imds_stand_in(d, true);
    r = nc_connection_renew(&d->connection, &err);
    nc_daemon_imds_stand_in(d, false);
    d->renew_after_usec = nc_mono_usec() + (r >= 0 ? RENEW_PAUSE_USEC : RENEW_RETRY_USEC);
    if (r >= 0)
        return;
    if (d->connection.wants_token && !d->app->signal) /* while the old one is good it is no news */
        nc_daemon_api_failed(d, &err);
}

static bool were_replaced(struct nc_daemon *d, uint64_t now) {
    if (now < files_due(d))
        return false;
    d->files_after_usec = now + FILES_USEC;
    if (!files_changed(d))
        return false;
    nc_log(NC_LOG_INFO, NULL, "the node's credentials were replaced, connecting anew");
    return true;
}

void nc_daemon_keep_connected(struct nc_daemon *d) {
    const uint64_t now = nc_mono_usec();

    if (d->is_connected && d->wants_reconnect && now >= d->connect_after_usec) {
        nc_daemon_disconnect(d);
        d->connect_after_usec = 0;
    } else if (were_replaced(d, now)) {
        if (d->is_connected)
            nc_daemon_disconnect(d);
        d->connect_after_usec = 0;
    }
    if (!d->is_connected && now >= d->connect_after_usec)
        try_to_connect(d);
    if (!d->is_connected)
        return;
    renew_token(d, now);
    nc_daemon_claim_open(d);
    nc_daemon_pods_clean_up(d);
}

uint64_t nc_daemon_connect_next(const struct nc_daemon *d) {
    uint64_t at;

    if (!d->is_connected)
        return nc_daemon_sooner(d->connect_after_usec, files_due(d));
    at = nc_daemon_sooner(files_due(d), token_due(d, nc_mono_usec()));
    if (d->wants_reconnect)
        at = nc_daemon_sooner(at, d->connect_after_usec);
    if (d->owner_name && !d->claim_watch && d->gather.config.claim_lookup)
        at = nc_daemon_sooner(at, d->claim_after_usec);
    return at;
}
