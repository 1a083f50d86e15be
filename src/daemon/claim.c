/*
 * Our own NodeClaim, and the source DELETION: our Node or its claim is being deleted.
 *
 * The claim's name and uid are in the Node's ownerReferences; whether it may be read is the
 * cluster's choice, and nothing depends on it but the deadline: the annotation by which whoever
 * deletes the claim says until when every pod must be gone.
 */
#include <stdio.h>

#include "daemon.h"
#include "log.h"
#include "nc/str.h"

#define CLAIM_PAUSE_USEC (10ull * 60 * 1000000) /* access may be granted later */
#define FAILURES_MAX 5                          /* then the Node's own word must do */
#define TERMINATION_TIME "karpenter.sh/nodeclaim-termination-timestamp"

/* After a restart the claim may be being deleted while the Node is not yet: before it was asked for
 * nothing is taken back. */
static bool is_asked_for(const struct nc_daemon *d) {
    return d->owner_name && d->gather.config.claim_lookup && !d->is_claim_known;
}

/* Whoever set the claim's time took his margin off already: it is the last moment itself. */
void nc_daemon_judge_deletion(struct nc_daemon *d) {
    struct nc_notice notice = {.source = NC_SOURCE_DELETION, .action = "delete"};

    if (!d->view.exists || !d->is_node_known)
        return;
    if (!d->view.is_deleting && !d->is_claim_deleting) {
        if (!is_asked_for(d))
            nc_daemon_post_cleared(d, NC_SOURCE_DELETION);
        return;
    }
    (void)snprintf(notice.id, sizeof(notice.id), "deletion-%.60s", d->view.uid);
    (void)snprintf(notice.reason, sizeof(notice.reason), "%s is being deleted",
                   d->is_claim_deleting ? "the NodeClaim" : "the Node");
    notice.deadline_usec = d->claim_t_usec;
    notice.is_last_moment = d->claim_t_usec != 0;
    nc_daemon_post_notice(d, &notice);
}

static void learn(struct nc_daemon *d) {
    const bool is_news = !d->is_claim_known;

    d->is_claim_known = true;
    if (is_news)
        nc_daemon_judge_deletion(d);
}

static void on_claim(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    struct nc_daemon *d = userdata;
    const char *until;

    nc_api_session_well(&d->api);
    if (event == NC_WATCH_SYNCED) {
        learn(d);
        return;
    }
    if (event == NC_WATCH_DELETED || !nc_streq(nc_value_get_string(metadata, "uid"), d->owner_uid))
        return;
    until = nc_value_get_string(nc_value_get(metadata, "annotations"), TERMINATION_TIME);
    d->claim_t_usec = 0;
    if (until && nc_time_parse(until, &d->claim_t_usec) < 0) {
        nc_auto_free char *quoted = nc_quote(until, strlen(until));
        nc_log(NC_LOG_WARNING, NULL, "nodeclaim %s: %s: %s is no time, ignoring", d->owner_name,
               TERMINATION_TIME, quoted);
    }
    d->is_claim_deleting = nc_value_get_string(metadata, "deletionTimestamp") != NULL;
    nc_daemon_judge_deletion(d);
}

/* Without access the Node's own deletion is all that is seen, and no deadline: said once, tried
 * again now and then. */
static void on_claim_failed(void *userdata, const struct nc_kube_status *status,
                            const struct nc_err *err) {
    struct nc_daemon *d = userdata;

    d->counters.watch_restarts++;
    if (status->http != 403 && status->http != 404) {
        nc_api_session_failed(&d->api, err);
        if (++d->claim_failures >= FAILURES_MAX)
            learn(d);
        return;
    }
    nc_log(d->claim_after_usec == 0 ? NC_LOG_INFO : NC_LOG_DEBUG, NULL,
           "nodeclaim %s: %s, going on without", d->owner_name, err->msg);
    d->claim_watch = nc_watch_free(d->claim_watch);
    d->claim_after_usec = nc_mono_usec() + CLAIM_PAUSE_USEC;
    learn(d);
}

void nc_daemon_claim_open(struct nc_daemon *d) {
    nc_auto_free char *path = NULL, *selector = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (!nc_api_session_is_up(&d->api) || d->claim_watch || !d->owner_name
        || !d->gather.config.claim_lookup || nc_mono_usec() < d->claim_after_usec)
        return;
    path = nc_asprintf("/apis/%s/nodeclaims", d->owner_api);
    selector = nc_kube_node_selector(d->owner_name);
    const struct nc_watch_options o = {
        .path = path,
        .selector = selector,
        .metadata_only = true,
        .event = on_claim,
        .failed = on_claim_failed,
        .well = nc_daemon_watch_well,
        .userdata = d,
    };
    if (nc_watch_new(d->api.connection.kube, d->app->event, &o, &d->claim_watch, &err) < 0) {
        nc_api_session_failed(&d->api, &err);
        d->claim_after_usec = nc_mono_usec() + CLAIM_PAUSE_USEC;
    }
}

static bool is_claim_api(const char *api) {
    const char *version = nc_starts_with(api, "karpenter.sh/") ? api + strlen("karpenter.sh/") : "";

    return *version && strlen(version) < 32
           && strspn(version, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(version);
}

static const struct nc_value *find_owner(const struct nc_value *metadata) {
    const struct nc_value *owners = nc_value_get(metadata, "ownerReferences");

    for (size_t i = 0; owners && owners->type == NC_VALUE_LIST && i < owners->n; i++)
        if (nc_streq(nc_value_get_string(owners->items[i], "kind"), "NodeClaim")
            && nc_value_get_string(owners->items[i], "name")
            && nc_value_get_string(owners->items[i], "uid"))
            return owners->items[i];
    return NULL;
}

void nc_daemon_claim_take(struct nc_daemon *d, const struct nc_value *metadata) {
    const struct nc_value *owner = find_owner(metadata);
    const char *api = nc_value_get_string(owner, "apiVersion");

    if (!owner || !api || !is_claim_api(api))
        return;
    if (nc_streq(d->owner_uid, nc_value_get_string(owner, "uid")))
        return;
    d->claim_watch = nc_watch_free(d->claim_watch);
    d->is_claim_deleting = d->is_claim_known = false;
    d->claim_t_usec = d->claim_after_usec = 0;
    d->claim_failures = 0;
    nc_daemon_set(&d->owner_name, nc_value_get_string(owner, "name"));
    nc_daemon_set(&d->owner_uid, nc_value_get_string(owner, "uid"));
    nc_daemon_set(&d->owner_api, api);
    nc_daemon_claim_open(d);
}
