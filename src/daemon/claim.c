/*
 * Our own NodeClaim: whose it is, its watch, what it states of its end.
 *
 * The claim's name and uid are in the Node's ownerReferences; whether it may be read is the
 * cluster's choice, and nothing depends on it but the deadline: the annotation by which whoever
 * deletes the claim says until when every pod must be gone.
 */
#include "claim.h"

#include "log.h"
#include "nc/names.h"
#include "nc/str.h"

#define CLAIM_PAUSE_USEC (10ull * 60 * 1000000) /* access may be granted later */
#define FAILURES_MAX 5                          /* then the Node's own word must do */

static void learn(struct nc_claim_watch *c) {
    const bool is_news = !c->is_known;

    c->is_known = true;
    if (is_news)
        c->o.changed(c->o.userdata);
}

static void on_claim(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    struct nc_claim_watch *c = userdata;
    const char *until;

    nc_api_session_well(c->o.api);
    if (event == NC_WATCH_SYNCED) {
        learn(c);
        return;
    }
    if (event == NC_WATCH_DELETED || !nc_streq(nc_value_get_string(metadata, "uid"), c->uid))
        return;
    until = nc_value_get_string(nc_value_get(metadata, "annotations"),
                                NC_ANNOTATION_TERMINATION_TIMESTAMP);
    c->t_usec = 0;
    if (until && nc_time_parse(until, &c->t_usec) < 0) {
        nc_auto_free char *quoted = nc_quote(until, strlen(until));
        nc_log(NC_LOG_WARNING, NULL, "nodeclaim %s: %s: invalid time: %s, ignoring", c->name,
               NC_ANNOTATION_TERMINATION_TIMESTAMP, quoted);
    }
    c->is_deleting = nc_value_get_string(metadata, "deletionTimestamp") != NULL;
    c->o.changed(c->o.userdata);
}

static void on_well(void *userdata) {
    const struct nc_claim_watch *c = userdata;

    nc_api_session_well(c->o.api);
}

static int on_claim_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    nc_claim_watch_open(userdata);
    return 0;
}

static void open_later(struct nc_claim_watch *c) {
    c->after_usec = nc_mono_usec() + CLAIM_PAUSE_USEC;
    nc_timer_set(c->o.event, &c->timer, CLAIM_PAUSE_USEC, on_claim_timer, c);
}

/* Without access the Node's own deletion is all that is seen, and no deadline: said once, tried
 * again now and then. */
static void on_claim_failed(void *userdata, const struct nc_kube_status *status,
                            const struct nc_err *err) {
    struct nc_claim_watch *c = userdata;

    c->o.counters->watch_restarts++;
    if (status->http != 403 && status->http != 404) {
        nc_api_session_failed(c->o.api, err);
        if (++c->failures >= FAILURES_MAX)
            learn(c);
        return;
    }
    nc_log(c->after_usec == 0 ? NC_LOG_INFO : NC_LOG_DEBUG, NULL,
           "nodeclaim %s: %s, going on without", c->name, err->msg);
    c->watch = nc_watch_free(c->watch);
    open_later(c);
    learn(c);
}

void nc_claim_watch_open(struct nc_claim_watch *c) {
    nc_auto_free char *path = NULL, *selector = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (!nc_api_session_is_up(c->o.api) || c->watch || !c->name || !c->o.is_allowed(c->o.userdata)
        || nc_mono_usec() < c->after_usec)
        return;
    path = nc_asprintf("/apis/%s/nodeclaims", c->api);
    selector = nc_kube_node_selector(c->name);
    const struct nc_watch_options o = {
        .path = path,
        .selector = selector,
        .metadata_only = true,
        .event = on_claim,
        .failed = on_claim_failed,
        .well = on_well,
        .userdata = c,
    };
    if (nc_watch_new(c->o.api->connection.kube, c->o.event, &o, &c->watch, &err) < 0) {
        nc_api_session_failed(c->o.api, &err);
        open_later(c);
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

static void replace_text(char **to, const char *text) {
    free(*to);
    *to = nc_strdup(text);
}

void nc_claim_watch_own(struct nc_claim_watch *c, const struct nc_value *metadata) {
    const struct nc_value *owner = find_owner(metadata);
    const char *api = nc_value_get_string(owner, "apiVersion");

    if (!owner || !api || !is_claim_api(api))
        return;
    if (nc_streq(c->uid, nc_value_get_string(owner, "uid")))
        return;
    c->watch = nc_watch_free(c->watch);
    c->is_deleting = c->is_known = false;
    c->t_usec = c->after_usec = 0;
    c->failures = 0;
    replace_text(&c->name, nc_value_get_string(owner, "name"));
    replace_text(&c->uid, nc_value_get_string(owner, "uid"));
    replace_text(&c->api, api);
    nc_claim_watch_open(c);
}

bool nc_claim_watch_is_pending(const struct nc_claim_watch *c) {
    return c->name && c->o.is_allowed(c->o.userdata) && !c->is_known;
}

void nc_claim_watch_close(struct nc_claim_watch *c) {
    c->watch = nc_watch_free(c->watch);
    c->timer = sd_event_source_disable_unref(c->timer);
}

void nc_claim_watch_done(struct nc_claim_watch *c) {
    replace_text(&c->name, NULL);
    replace_text(&c->uid, NULL);
    replace_text(&c->api, NULL);
}
