/*
 * What the controller sees: who else is there, Nodes and NodeClaims, the Lease.
 *
 * A standby sees all that a leader sees, so that it takes over with the next turn of its loop.
 * Which objects are watched, and how much of each, depends on whether Karpenter runs; where that
 * changes everything begins anew with an empty step: it is level-triggered.
 */
#include <errno.h>
#include <malloc.h>

#include "controller.h"
#include "log.h"
#include "nc/str.h"

#define NODES "/api/v1/nodes"
/* A node may fill its Node's conditions and allocatable: that is its own harm. All that is kept of
 * one Node (nc_control_keep) then fits into the 4 MiB of a watch. What is large of a claim or a
 * pool somebody meant, and it fits by itself. */
#define NODE_VALUE_MAX_BYTES ((size_t)128 << 10)

/* --- watches */

static void on_synced(struct nc_controller *c, enum nc_control_kind kind) {
    struct nc_control_event e = {.kind = NC_CONTROL_SYNCED, .what = kind};

    nc_controller_succeeded(c, NC_TROUBLE_WATCH, kind);
    if (!c->is_synced[kind])
        nc_log(NC_LOG_INFO, NULL, "the list of kind %s is complete", nc_control_kind_name(kind));
    else
        c->relists++;
    c->is_synced[kind] = true;
    nc_controller_post(c, &e);
    (void)malloc_trim(0); /* a list passes by, and is not needed again for long */
}

static void on_event(void *userdata, enum nc_watch_event what, const struct nc_value *object) {
    const struct nc_watched *w = userdata;
    struct nc_controller *c = w->controller;
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    struct nc_control_event e = {.what = w->kind};

    switch (what) {
    case NC_WATCH_SYNCED:
        on_synced(c, w->kind);
        return;
    case NC_WATCH_ADDED:
    case NC_WATCH_MODIFIED:
        e.kind = NC_CONTROL_SEEN;
        e.object = object;
        break;
    case NC_WATCH_DELETED:
        e.kind = NC_CONTROL_GONE;
        e.name = nc_value_get_string(metadata, "name");
        e.uid = nc_value_get_string(metadata, "uid");
        if (!e.uid)
            e.uid = "";
        if (!e.name)
            return;
        break;
    }
    nc_controller_post(c, &e);
}

static void on_watch_failed(void *userdata, const struct nc_kube_status *status,
                            const struct nc_err *err) {
    const struct nc_watched *w = userdata;

    nc_controller_failed(w->controller, NC_TROUBLE_WATCH, w->kind, err);
}

static void on_watch_well(void *userdata) {
    const struct nc_watched *w = userdata;

    nc_controller_succeeded(w->controller, NC_TROUBLE_WATCH, w->kind);
}

static void open_watch(struct nc_controller *c, enum nc_control_kind kind) {
    const struct nc_watch_options o = {
        .path = c->paths[kind],
        .keep = nc_control_keep(kind, c->mode, &c->settings->rules),
        .max_value_bytes = kind == NC_CONTROL_NODE ? NODE_VALUE_MAX_BYTES : 0,
        .metadata_only = kind == NC_CONTROL_NODE && c->mode != NC_CONTROL_STANDALONE
                         && !c->settings->rules.completes_actions
                         && !c->settings->rules.out_of_service,
        .reports_once = true,
        .event = on_event,
        .failed = on_watch_failed,
        .well = on_watch_well,
        .userdata = &c->watched[kind],
    };
    struct nc_err err = NC_ERR_INIT;

    c->watched[kind] = (struct nc_watched){c, kind};
    if (nc_watch_new(c->api_config.kube, c->event, &o, &c->watches[kind], &err) < 0)
        nc_controller_failed(c, NC_TROUBLE_WATCH, kind, &err);
}

static void close_watches(struct nc_controller *c) {
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++) {
        c->watches[k] = nc_watch_free(c->watches[k]);
        c->is_synced[k] = false;
    }
}

static void open_watches(struct nc_controller *c) {
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++) {
        struct nc_control_event e = {.kind = NC_CONTROL_SYNCED, .what = (enum nc_control_kind)k};
        const bool is_wanted =
            k == NC_CONTROL_NODE || k == NC_CONTROL_CLAIM || c->mode == NC_CONTROL_STANDALONE;
        if (c->paths[k] && is_wanted)
            open_watch(c, e.what);
        else if (is_wanted && k != NC_CONTROL_CLAIM) {
            c->is_synced[k] = true; /* a kind that is not installed has no objects */
            nc_controller_post(c, &e);
        }
    }
}

/* --- who is there */

/* Would the watches request the same? */
static bool keeps_the_same(const struct nc_controller *c, enum nc_control_mode a,
                           enum nc_control_mode b) {
    const struct nc_control_rules *rules = &c->settings->rules;

    if ((a == NC_CONTROL_STANDALONE) != (b == NC_CONTROL_STANDALONE))
        return false;
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        if (nc_control_keep((enum nc_control_kind)k, a, rules)
            != nc_control_keep((enum nc_control_kind)k, b, rules))
            return false;
    return true;
}

/* Takes them over; true where one is another than before. */
static bool apply_paths(struct nc_controller *c, const struct nc_karpenter_found *f) {
    const char *const found[_NC_CONTROL_KIND_MAX] = {[NC_CONTROL_NODE] = NODES,
                                                     [NC_CONTROL_CLAIM] = f->claims_path,
                                                     [NC_CONTROL_POOL] = f->pools_path,
                                                     [NC_CONTROL_CLASS] = f->classes_path};
    bool differs = false;

    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++) {
        if (nc_streq(c->paths[k], found[k]))
            continue;
        differs = true;
        free(c->paths[k]);
        c->paths[k] = nc_strdup(found[k]);
    }
    return differs;
}

static void log_mode(const struct nc_controller *c, const char *holder) {
    const bool is_beyond_us = c->found == NC_CONTROL_STANDALONE && !c->settings->standalone;

    if (c->settings->mode != NC_CONTROL_MODE_UNKNOWN && c->found != NC_CONTROL_MODE_UNKNOWN
        && c->found != c->settings->mode)
        nc_log(NC_LOG_WARNING, NULL, "mode=%s was detected, but --mode is set and takes precedence",
               nc_control_mode_name(c->found));
    else if (c->found != NC_CONTROL_STANDALONE && c->mode == NC_CONTROL_STANDALONE)
        nc_log(NC_LOG_WARNING, NULL,
               "mode=standalone: Karpenter's Lease is there, but NodeClaims have our finalizer and "
               "none has Karpenter's; check who holds it, or set --mode");
    else
        nc_log(is_beyond_us ? NC_LOG_WARNING : NC_LOG_INFO, NULL, "mode=%s%s%s%s",
               nc_control_mode_name(is_beyond_us ? c->found : c->mode), *holder ? ": " : "", holder,
               is_beyond_us ? ", and this build has no standalone mode: nothing but the relay is "
                              "done"
                            : "");
}

/* Nobody's Lease in a namespace that a tenant may have made outweighs the NodeClaims. */
static enum nc_control_mode mode_of(const struct nc_controller *c) {
    if (c->settings->mode != NC_CONTROL_MODE_UNKNOWN)
        return c->settings->mode;
    if (!c->settings->standalone)
        return c->found == NC_CONTROL_STANDALONE ? NC_CONTROL_MODE_UNKNOWN : c->found;
    return c->found != NC_CONTROL_STANDALONE && c->control && c->is_synced[NC_CONTROL_CLAIM]
                   && nc_control_denies_karpenter(c->control)
               ? NC_CONTROL_STANDALONE
               : c->found;
}

static void apply_mode(struct nc_controller *c, bool is_anew, const char *holder) {
    const enum nc_control_mode mode = mode_of(c);
    const bool is_other_mode = !c->was_scanned || mode != c->mode;

    is_anew = is_anew || !c->was_scanned || !keeps_the_same(c, mode, c->mode);
    c->was_scanned = true;
    c->mode = mode;
    if (is_other_mode || is_anew)
        log_mode(c, holder);
    if (is_anew) {
        close_watches(c);
        nc_controller_end(c);
        nc_controller_begin(c);
        open_watches(c);
    } else if (is_other_mode) {
        nc_controller_post_mode(c);
    }
}

static void on_found(void *userdata, const struct nc_karpenter_found *f) {
    struct nc_controller *c = userdata;
    const bool is_anew = apply_paths(c, f);

    c->found = f->mode;
    if (!f->claims_path && (is_anew || !c->was_scanned))
        nc_log(NC_LOG_WARNING, NULL,
               "NodeClaims are not installed in this cluster: waiting until they are");
    apply_mode(c, is_anew, f->holder);
}

void nc_controller_check_mode(struct nc_controller *c) {
    if (c->was_scanned && c->is_synced[NC_CONTROL_CLAIM] && mode_of(c) != c->mode)
        apply_mode(c, false, "");
}

static void on_scan_failed(void *userdata, const struct nc_err *err) {
    nc_controller_failed(userdata, NC_TROUBLE_SCAN, 0, err);
}

static void on_scanned(void *userdata) {
    nc_controller_succeeded(userdata, NC_TROUBLE_SCAN, 0);
}

static void on_lease_answer(void *userdata, bool is_write, const struct nc_err *err) {
    if (err->class == NC_ERR_NONE)
        nc_controller_succeeded(userdata, NC_TROUBLE_LEASE, is_write);
    else
        nc_controller_failed(userdata, NC_TROUBLE_LEASE, is_write, err);
}

/* --- leadership */

static void on_leader(void *userdata, bool leads) {
    (void)leads; /* the same, by the clock */
    nc_controller_notice_lead(userdata);
}

static int open_leader(struct nc_controller *c, struct nc_err *err) {
    const struct nc_settings *s = c->settings;
    const struct nc_leader_options o = {
        .namespace = s->lease_namespace            ? s->lease_namespace
                     : c->api_config.pod_namespace ? c->api_config.pod_namespace
                                                   : NC_LEASE_NAMESPACE,
        .name = s->lease_name,
        .rules = {.identity = c->identity,
                  .duration_usec = s->lease_duration_usec,
                  .renew_usec = s->renew_usec,
                  .retry_usec = s->retry_usec},
        .changed = on_leader,
        .answered = on_lease_answer,
        .userdata = c,
    };

    if (s->no_leader_election) {
        nc_controller_lead(c, true);
        return 0;
    }
    return nc_leader_new(c->api_config.kube, c->event, &o, &c->leader, err);
}

/* --- all of it */

int nc_controller_open(struct nc_controller *c, struct nc_err *err) {
    const struct nc_karpenter_options o = {.namespaces = c->settings->karpenter_namespaces,
                                           .changed = on_found,
                                           .failed = on_scan_failed,
                                           .well = on_scanned,
                                           .userdata = c};
    int r;

    nc_controller_begin(c);
    r = nc_karpenter_scan(c->api_config.kube, c->event, &o, &c->scan, err);
    return r < 0 ? r : open_leader(c, err);
}

void nc_controller_close(struct nc_controller *c) {
    c->leader = nc_leader_free(c->leader);
    c->scan = nc_karpenter_free(c->scan);
    c->boot_failures = nc_watch_free(c->boot_failures);
    close_watches(c);
    nc_controller_end(c);
    for (int k = 0; k < _NC_CONTROL_KIND_MAX; k++) {
        free(c->paths[k]);
        c->paths[k] = NULL;
    }
    c->leads = false;
    c->was_scanned = false;
}
