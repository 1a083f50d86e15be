/*
 * Our own NodeClaim: whose it is, its watch, what it states of its end.
 *
 * The claim's name and uid are in the Node's ownerReferences; whether it may be read is the
 * cluster's choice, and nothing depends on it but the deadline: the annotation by which whoever
 * deletes the claim says until when every pod must be gone. The controller copies it to the Node,
 * where no right is needed to read it.
 */
#include "daemon.h"

#include "log.h"
#include "nc/names.h"
#include "nc/notice.h"
#include "nc/str.h"
#include "nc/time.h"

#define CLAIM_PAUSE_USEC (10ull * 60 * 1000000) /* access may be granted later */
#define FAILURES_MAX 5                          /* then the Node's own word must do */

static void learn(struct nc_daemon *d) {
    const bool is_news = !d->claim.is_known;

    d->claim.is_known = true;
    if (is_news)
        nc_node_request_note_deletion(d);
}

static void on_claim(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    struct nc_daemon *d = userdata;
    const char *until;

    nc_api_session_well(d);
    if (event == NC_WATCH_SYNCED) {
        learn(d);
        return;
    }
    if (event == NC_WATCH_DELETED || !nc_value_says(metadata, "uid", d->claim.uid))
        return;
    until = nc_value_get_string(nc_value_get(metadata, "annotations"),
                                NC_ANNOTATION_TERMINATION_TIMESTAMP);
    d->claim.t_usec = 0;
    if (until && nc_time_parse(until, &d->claim.t_usec) < 0) {
        nc_auto_free char *quoted = nc_quote_string(until);
        nc_log(NC_LOG_WARNING, NULL, "nodeclaim %s: %s: invalid time: %s, ignoring", d->claim.name,
               NC_ANNOTATION_TERMINATION_TIMESTAMP, quoted);
    }
    d->claim.is_deleting = nc_value_get_string(metadata, "deletionTimestamp") != NULL;
    nc_node_request_note_deletion(d);
}

static int on_claim_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    nc_claim_watch_open(userdata);
    return 0;
}

static void open_later(struct nc_daemon *d) {
    d->claim.after_usec = nc_mono_usec() + CLAIM_PAUSE_USEC;
    nc_timer_set(d->app->event, &d->claim.timer, CLAIM_PAUSE_USEC, on_claim_timer, d);
}

/* Without access the Node's own deletion is all that is seen, and of a deadline what the controller
 * copied to the Node: said once, tried again now and then. */
static void on_claim_failed(void *userdata, const struct nc_kube_status *status,
                            const struct nc_err *err) {
    struct nc_daemon *d = userdata;

    d->counters.watch_restarts++;
    if (status->http != 403 && status->http != 404) {
        nc_api_session_failed(d, err);
        if (++d->claim.failures >= FAILURES_MAX)
            learn(d);
        return;
    }
    nc_log(d->claim.after_usec == 0 ? NC_LOG_INFO : NC_LOG_DEBUG, NULL,
           "nodeclaim %s: %s, going on without", d->claim.name, err->msg);
    d->claim.watch = nc_watch_free(d->claim.watch);
    open_later(d);
    learn(d);
}

void nc_claim_watch_open(struct nc_daemon *d) {
    nc_auto_free char *path = NULL, *selector = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (!nc_api_session_is_up(&d->api) || d->claim.watch || !d->claim.name
        || !d->gather.config.claim_lookup || nc_mono_usec() < d->claim.after_usec)
        return;
    path = nc_asprintf("/apis/%s/nodeclaims", d->claim.api);
    selector = nc_kube_node_selector(d->claim.name);
    const struct nc_watch_options o = {
        .path = path,
        .selector = selector,
        .metadata_only = true,
        .event = on_claim,
        .failed = on_claim_failed,
        .well = nc_api_session_on_well,
        .userdata = d,
    };
    if (nc_watch_new(d->api.connection.kube, d->app->event, &o, &d->claim.watch, &err) < 0) {
        nc_api_session_failed(d, &err);
        open_later(d);
    }
}

static bool is_claim_api(const char *api) {
    const char *version = nc_starts_with(api, "karpenter.sh/") ? api + strlen("karpenter.sh/") : "";

    return nc_is_made_of(version, NC_LOWER NC_DIGITS, 31);
}

static const struct nc_value *find_owner(const struct nc_value *metadata) {
    const struct nc_value *owners = nc_value_get(metadata, "ownerReferences"), *owner;

    for (size_t i = 0; (owner = nc_value_item(owners, i)); i++)
        if (nc_value_says(owner, "kind", "NodeClaim") && nc_value_get_string(owner, "name")
            && nc_value_get_string(owner, "uid"))
            break;
    return owner;
}

/* Only a copy of our own claim's time counts, and of several the earliest: what a pod was told of
 * its end holds. */
static void read_copy(struct nc_daemon *d, const struct nc_value *metadata) {
    const char *text = nc_value_get_string(nc_value_get(metadata, "annotations"),
                                           NC_ANNOTATION_TERMINATION_DEADLINE);
    struct nc_notice n = {0};
    struct nc_err err = NC_ERR_INIT;

    if (!text || nc_streq(d->claim.copy, text))
        return;
    nc_replace_text(&d->claim.copy, text);
    if (nc_notice_read_request(text, strlen(text), NC_SOURCE_DELETION, &n, &err) < 0
        || !nc_notice_is_of_claim(&n, d->claim.uid) || !n.deadline_usec)
        nc_log(NC_LOG_WARNING, NULL, "annotation %s: %s, ignoring",
               NC_ANNOTATION_TERMINATION_DEADLINE,
               err.class != NC_ERR_NONE ? err.msg : "not a deadline of this Node's NodeClaim");
    else if (!d->claim.copy_usec || n.deadline_usec < d->claim.copy_usec)
        d->claim.copy_usec = n.deadline_usec;
}

uint64_t nc_claim_watch_time(const struct nc_daemon *d) {
    const uint64_t own = d->claim.t_usec, copy = d->claim.copy_usec;

    return !own || (copy && copy < own) ? copy : own;
}

static void read_owner(struct nc_daemon *d, const struct nc_value *metadata) {
    const struct nc_value *owner = find_owner(metadata);
    const char *api = nc_value_get_string(owner, "apiVersion");

    if (!owner || !api || !is_claim_api(api))
        return;
    if (nc_streq(d->claim.uid, nc_value_get_string(owner, "uid")))
        return;
    d->claim.watch = nc_watch_free(d->claim.watch);
    d->claim.is_deleting = d->claim.is_known = false;
    d->claim.t_usec = d->claim.copy_usec = d->claim.after_usec = 0;
    nc_replace_text(&d->claim.copy, NULL);
    d->claim.failures = 0;
    nc_replace_text(&d->claim.name, nc_value_get_string(owner, "name"));
    nc_replace_text(&d->claim.uid, nc_value_get_string(owner, "uid"));
    nc_replace_text(&d->claim.api, api);
    nc_claim_watch_open(d);
}

void nc_claim_watch_own(struct nc_daemon *d, const struct nc_value *metadata) {
    read_owner(d, metadata);
    read_copy(d, metadata);
}

bool nc_claim_watch_is_pending(const struct nc_daemon *d) {
    return d->claim.name && d->gather.config.claim_lookup && !d->claim.is_known;
}

void nc_claim_watch_close(struct nc_daemon *d) {
    d->claim.watch = nc_watch_free(d->claim.watch);
    d->claim.timer = sd_event_source_disable_unref(d->claim.timer);
}

void nc_claim_watch_done(struct nc_daemon *d) {
    nc_replace_text(&d->claim.name, NULL);
    nc_replace_text(&d->claim.uid, NULL);
    nc_replace_text(&d->claim.api, NULL);
    nc_replace_text(&d->claim.copy, NULL);
}
