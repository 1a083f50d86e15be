/*
 * How each rule is broken once on purpose. What is added has ids that the step never gave, so that
 * it knows nothing of it.
 */
#include "sabotage.h"

#include "judge.h"
#include "nc/budget.h"
#include "nc/names.h"
#include "nc/str.h"

#define OUR_IDS (1ull << 60)

static const char *const rules[_SABOTAGE_MAX] = {
    [SABOTAGE_NONE] = "",
    [SABOTAGE_WRITES_UNLED] = "leads",
    [SABOTAGE_WRITES_UNSYNCED] = "synced",
    [SABOTAGE_TWO_WRITES] = "one-at-a-time",
    [SABOTAGE_ALL_CONCURRENCY] = "places",
    [SABOTAGE_NO_PAUSE] = "pause",
    [SABOTAGE_NO_WATCH_WAIT] = "settle",
    [SABOTAGE_DELETES_TWICE] = "delete-once",
    [SABOTAGE_TIMESTAMP_LATE] = "timestamp",
    [SABOTAGE_TIMESTAMP_LAST] = "order",
    [SABOTAGE_RELAYS_NOTHING] = "relayed",
    [SABOTAGE_RELAYS_ANYTHING] = "relay",
    [SABOTAGE_NO_UID] = "uid",
    [SABOTAGE_NO_VERSION] = "version",
    [SABOTAGE_BESIDE_KARPENTER] = "karpenter",
    [SABOTAGE_FOREIGN] = "foreign",
    [SABOTAGE_DELETES_FOR_NOTHING] = "reason",
    [SABOTAGE_DELETES_PROTECTED] = "do-not-disrupt",
    [SABOTAGE_DELETES_BEYOND_BUDGETS] = "budgets",
    [SABOTAGE_OTHER_REQUEST] = "request",
    [SABOTAGE_DROPS_FINALIZER] = "finalizer",
    [SABOTAGE_DROPS_NODE] = "drained-first",
    [SABOTAGE_ENDS_INSTANCE] = "instance",
    [SABOTAGE_DROPS_TAINTS] = "taints",
    [SABOTAGE_DROPS_CONDITIONS] = "conditions",
    [SABOTAGE_ENDS_NOTHING] = "finalized",
    [SABOTAGE_REGISTERS_NOTHING] = "registered",
    [SABOTAGE_DISRUPTS_NOTHING] = "disrupted",
    [SABOTAGE_HEEDS_NODES] = "own-word",
    [SABOTAGE_KEEPS_UNREADABLE] = "unreadable",
    [SABOTAGE_WRITES_ON] = "share",
    [SABOTAGE_WRITES_AT_REST] = "rest",
    [SABOTAGE_WRITES_NOBODY] = "target",
    [SABOTAGE_DROPS_LABELS] = "labels",
    [SABOTAGE_CHANGES_SPEC] = "spec",
    [SABOTAGE_TRUSTS_NODES] = "liar",
    [SABOTAGE_TRUSTS_LEASES] = "handover",
    [SABOTAGE_IGNORES_TURNS] = "turn",
    [SABOTAGE_TAINTS_RUNNING] = "out-of-service",
    [SABOTAGE_TAINTS_NOTHING] = "out-of-service-set",
    [SABOTAGE_MIRRORS_LATER] = "mirror",
    [SABOTAGE_MIRRORS_NOTHING] = "mirrored",
    [SABOTAGE_OPENS_ANYTHING] = "gate",
    [SABOTAGE_OPENS_NOTHING] = "gate-open",
};

const char *sabotage_rule(enum sabotage s) {
    return rules[s];
}

/* --- tools */

static struct nc_control_action *add(struct world *w, struct nc_control_actions *out,
                                     enum nc_control_verb verb, const struct shown *s,
                                     struct nc_value *body) {
    struct nc_control_action *a = nc_append(&out->v, &out->n);

    *a = (struct nc_control_action){.verb = verb,
                                    .id = OUR_IDS + ++w->sabotaged,
                                    .what = s->kind,
                                    .name = nc_strdup(s->name),
                                    .uid = nc_strdup(s->uid),
                                    .body = body};
    return a;
}

static struct nc_value *delete_body(const struct shown *s) {
    return world_json("{\"preconditions\":{\"uid\":\"%s\"}}", s->uid);
}

static struct nc_value *patch_body(const struct shown *s, const char *rest) {
    return world_json("{\"metadata\":{\"uid\":\"%s\",\"resourceVersion\":\"%llu\"%s", s->uid,
                      (unsigned long long)s->rv, rest);
}

static void drop_at(struct nc_control_actions *out, size_t i) {
    action_done(&out->v[i]);
    memmove(&out->v[i], &out->v[i + 1], (out->n - i - 1) * sizeof(out->v[0]));
    out->n--;
}

static bool may_act(const struct view *v, const struct shown *s) {
    return v->leads && v->is_synced[0] && v->is_synced[1]
           && (v->is_synced[2] || v->mode != NC_CONTROL_STANDALONE) && s->v && !s->flight_id
           && !s->pause_usec && !s->settled_usec;
}

/* A claim of ours that a condition holds for. */
typedef bool (*which_fn)(struct world *w, struct view *v, const struct shown *claim);

/* The step itself wants something of it. */
static bool is_wanted(const struct nc_control_actions *out, const struct shown *s) {
    for (size_t i = 0; i < out->n; i++)
        if (out->v[i].what == s->kind && nc_streq(out->v[i].name, s->name))
            return true;
    return false;
}

static struct shown *find(struct world *w, unsigned p, const struct nc_control_actions *out,
                          which_fn which) {
    struct view *v = &w->judge->views[p];

    for (unsigned i = 0; i < v->n_shown; i++)
        if (v->shown[i].kind == NC_CONTROL_CLAIM && may_act(v, &v->shown[i])
            && !is_wanted(out, &v->shown[i]) && which(w, v, &v->shown[i]))
            return &v->shown[i];
    return NULL;
}

static bool is_protected(struct world *w, struct view *v, const struct shown *s) {
    (void)w;
    (void)v;
    return nc_streq(annotation_of(s->v, DO_NOT_DISRUPT), "true");
}
static bool is_living(struct world *w, struct view *v, const struct shown *s) {
    const struct shown *node = judge_node_of(w, v, s);

    return v->mode == NC_CONTROL_STANDALONE && !is_foreign(s->v) && !is_deleting(s->v)
           && !s->is_deleted && node && !is_deleting(node->v)
           && nc_streq(condition_of(s->v, "Registered"), "True");
}
static bool is_rested(struct world *w, struct view *v, const struct shown *s) {
    return is_living(w, v, s) && s->rate_usec + 6 * SEC < w->now_usec;
}
static bool is_fresh(struct world *w, struct view *v, const struct shown *s) {
    return is_living(w, v, s) && nc_streq(text_at(s->v, "spec.expireAfter"), "Never")
           && nc_streq(annotation_of(s->v, "karpenter.sh/nodepool-hash"), "1")
           && !is_protected(w, v, s);
}
static bool is_expired(struct world *w, struct view *v, const struct shown *s) {
    return is_living(w, v, s) && nc_streq(text_at(s->v, "spec.expireAfter"), "1h")
           && time_at(s->v, "metadata.creationTimestamp") + 3600 * SEC < w->now_usec;
}
static bool is_expired_and_free(struct world *w, struct view *v, const struct shown *s) {
    return is_expired(w, v, s) && !is_protected(w, v, s);
}
static bool is_expired_and_protected(struct world *w, struct view *v, const struct shown *s) {
    return is_expired(w, v, s) && is_protected(w, v, s);
}
static bool is_anothers(struct world *w, struct view *v, const struct shown *s) {
    (void)w;
    return v->mode == NC_CONTROL_STANDALONE && is_foreign(s->v);
}
static bool is_ending(struct world *w, struct view *v, const struct shown *s) {
    return v->mode == NC_CONTROL_STANDALONE && !is_foreign(s->v) && is_deleting(s->v)
           && has_finalizer(s->v, NC_FINALIZER) && judge_node_of(w, v, s)
           && !nc_streq(condition_of(s->v, "Drained"), "True");
}
static bool is_any(struct world *w, struct view *v, const struct shown *s) {
    (void)w;
    (void)v;
    return !is_deleting(s->v) && !s->is_deleted;
}

/* --- what is changed */

static void edit(struct world *w, struct nc_control_action *a, struct nc_control_actions *out) {
    struct nc_value *metadata = nc_value_get(a->body, "metadata");

    switch (w->sabotage) {
    case SABOTAGE_TWO_WRITES: {
        struct nc_control_action copy = action_copy(a);
        copy.id = OUR_IDS + ++w->sabotaged;
        *nc_append(&out->v, &out->n) = copy;
        return;
    }
    case SABOTAGE_TIMESTAMP_LATE:
        if (a->verb == NC_CONTROL_SET_TIMESTAMP)
            nc_value_set_time(nc_value_get(metadata, "annotations"),
                              NC_ANNOTATION_TERMINATION_TIMESTAMP, w->now_usec + 3000 * SEC);
        return;
    case SABOTAGE_MIRRORS_LATER:
        if (judge_is_mirror(a)) {
            nc_auto_free char *later =
                nc_asprintf("{\"id\":\"claim-%s\",\"deadline\":\"2099-01-01T00:00:00Z\"}",
                            judge_owner_of(server_find(w, NC_CONTROL_NODE, a->name)->v));
            nc_value_set_string(nc_value_get(metadata, "annotations"),
                                NC_ANNOTATION_TERMINATION_DEADLINE, later);
        }
        return;
    case SABOTAGE_NO_UID:
        if (metadata)
            (void)nc_value_remove(metadata, "uid");
        return;
    case SABOTAGE_NO_VERSION:
        if (metadata)
            (void)nc_value_remove(metadata, "resourceVersion");
        return;
    case SABOTAGE_OTHER_REQUEST: {
        struct nc_value *notes = nc_value_get(metadata, "annotations");
        if (nc_value_get(notes, REQUEST_KEY))
            nc_value_set_string(notes, REQUEST_KEY, "{\"id\":\"claim-uid-9999\"}");
        return;
    }
    case SABOTAGE_DROPS_TAINTS:
        if (nc_value_path(a->body, "spec.taints"))
            nc_value_set(nc_value_get(a->body, "spec"), "taints", nc_value_new_list());
        return;
    case SABOTAGE_WRITES_NOBODY:
        free(a->name);
        a->name = nc_strdup("nobody");
        return;
    case SABOTAGE_DROPS_LABELS:
        if (a->verb == NC_CONTROL_PATCH_NODE)
            nc_value_set(metadata, "labels", nc_value_new(NC_VALUE_NULL));
        return;
    case SABOTAGE_CHANGES_SPEC:
        if (a->verb == NC_CONTROL_PATCH_CLAIM)
            nc_value_set(a->body, "spec", world_json("{\"expireAfter\":\"1h\"}"));
        return;
    case SABOTAGE_DROPS_CONDITIONS:
        if (nc_value_path(a->body, "status.conditions"))
            nc_value_set(nc_value_get(a->body, "status"), "conditions", nc_value_new_list());
        return;
    default:
        return;
    }
}

static bool was_registered(struct world *w, const struct nc_control_action *a) {
    const struct object *claim = server_find(w, NC_CONTROL_CLAIM, a->name);

    return claim && nc_streq(condition_of(claim->v, "Registered"), "True");
}

/* Its Node asks to be left alone. */
static bool is_asked_not_to(struct world *w, const struct nc_control_action *a) {
    const struct object *claim = server_find(w, NC_CONTROL_CLAIM, a->name);
    const char *name = claim ? text_at(claim->v, "status.nodeName") : NULL;
    const struct object *node = name ? server_find(w, NC_CONTROL_NODE, name) : NULL;

    return node && nc_streq(annotation_of(node->v, DO_NOT_DISRUPT), "true");
}

static bool is_swallowed(struct world *w, const struct nc_control_action *a) {
    switch (w->sabotage) {
    case SABOTAGE_RELAYS_NOTHING:
        return a->is_relay && a->verb == NC_CONTROL_DELETE_CLAIM;
    case SABOTAGE_TIMESTAMP_LAST:
        return a->verb == NC_CONTROL_SET_TIMESTAMP;
    case SABOTAGE_ENDS_NOTHING:
        return nc_value_path(a->body, "metadata.finalizers")
               && !has_finalizer(a->body, NC_FINALIZER);
    case SABOTAGE_REGISTERS_NOTHING:
        return nc_value_path(a->body, "status.nodeName");
    case SABOTAGE_TAINTS_NOTHING:
        return judge_has_outage(a->body);
    case SABOTAGE_OPENS_NOTHING:
        return judge_is_gate(a) && a->verb == NC_CONTROL_PATCH_NODE;
    case SABOTAGE_MIRRORS_NOTHING:
        return judge_is_mirror(a);
    case SABOTAGE_HEEDS_NODES:
        return a->verb == NC_CONTROL_DELETE_CLAIM && !a->is_relay && is_asked_not_to(w, a);
    case SABOTAGE_KEEPS_UNREADABLE:
        return a->verb == NC_CONTROL_DELETE_CLAIM && !was_registered(w, a);
    case SABOTAGE_DISRUPTS_NOTHING:
        return a->verb == NC_CONTROL_DELETE_CLAIM && !a->is_relay;
    default:
        return false;
    }
}

/* --- what is added */

static void delete_one(struct world *w, unsigned p, struct nc_control_actions *out, which_fn which,
                       bool is_relay) {
    struct shown *s = find(w, p, out, which);

    if (s)
        add(w, out, NC_CONTROL_DELETE_CLAIM, s, delete_body(s))->is_relay = is_relay;
}

static void touch_one(struct world *w, unsigned p, struct nc_control_actions *out, which_fn which) {
    struct shown *s = find(w, p, out, which);
    nc_auto_free char *rest = nc_asprintf(",\"annotations\":{\"touched\":\"%u\"}}}", w->sabotaged);

    if (s)
        (void)add(w, out, NC_CONTROL_PATCH_CLAIM, s, patch_body(s, rest));
}

static void end_one(struct world *w, unsigned p, struct nc_control_actions *out) {
    struct shown *s = find(w, p, out, is_ending);
    struct shown *node = s ? judge_node_of(w, &w->judge->views[p], s) : NULL;

    if (!s)
        return;
    if (w->sabotage == SABOTAGE_DROPS_FINALIZER)
        (void)add(w, out, NC_CONTROL_PATCH_CLAIM, s, patch_body(s, ",\"finalizers\":[]}}"));
    else if (w->sabotage == SABOTAGE_ENDS_INSTANCE)
        add(w, out, NC_CONTROL_END_INSTANCE, s, NULL)->provider_id =
            nc_strdup(text_at(s->v, "status.providerID"));
    else if (node && may_act(&w->judge->views[p], node) && !is_wanted(out, node))
        (void)add(w, out, NC_CONTROL_DELETE_NODE, node, delete_body(node));
}

/* Is what was sent before to be sent once more, now that its rule forbids it? */
static bool is_again(const struct world *w, const struct view *v,
                     const struct nc_control_event *e) {
    const bool is_answer = e->kind == NC_CONTROL_ANSWER && e->id == w->kept.id;

    switch (w->sabotage) {
    case SABOTAGE_WRITES_UNLED:
        return !v->leads;
    case SABOTAGE_DELETES_TWICE:
    case SABOTAGE_NO_WATCH_WAIT:
        return is_answer && e->answer == NC_CONTROL_DONE;
    case SABOTAGE_NO_PAUSE:
        return is_answer && e->answer == NC_CONTROL_UNAVAILABLE;
    default:
        return false;
    }
}

static void again(struct world *w, unsigned p, const struct nc_control_event *e,
                  struct nc_control_actions *out) {
    if (!w->kept.name || !is_again(w, &w->judge->views[p], e))
        return;
    struct nc_control_action copy = action_copy(&w->kept);
    copy.id = OUR_IDS + ++w->sabotaged;
    *nc_append(&out->v, &out->n) = copy;
}

static void keep(struct world *w, const struct nc_control_actions *out) {
    for (size_t i = 0; i < out->n; i++) {
        const struct nc_control_action *a = &out->v[i];
        if (a->verb == NC_CONTROL_EMIT_EVENT
            || (w->sabotage == SABOTAGE_DELETES_TWICE) != (a->verb == NC_CONTROL_DELETE_CLAIM))
            continue;
        action_done(&w->kept);
        w->kept = action_copy(a);
        return;
    }
}

static bool is_idle_and_ours(struct view *v, const struct nc_control_actions *out,
                             const struct shown *s) {
    return s->kind == NC_CONTROL_CLAIM && may_act(v, s) && !is_wanted(out, s)
           && v->mode == NC_CONTROL_STANDALONE && !is_foreign(s->v);
}

static void fill_concurrency(struct world *w, unsigned p, struct nc_control_actions *out) {
    struct view *v = &w->judge->views[p];
    unsigned n = 0;

    for (unsigned i = 0; i < v->n_shown; i++)
        n += is_idle_and_ours(v, out, &v->shown[i]);
    for (unsigned i = 0; i < v->n_shown && n >= w->rules.max_in_flight; i++)
        if (is_idle_and_ours(v, out, &v->shown[i]))
            (void)add(w, out, NC_CONTROL_PATCH_CLAIM, &v->shown[i],
                      patch_body(&v->shown[i], ",\"annotations\":{\"touched\":\"true\"}}}"));
}

static void touch_unsynced(struct world *w, unsigned p, struct nc_control_actions *out) {
    struct view *v = &w->judge->views[p];

    for (unsigned i = 0; i < v->n_shown && !v->is_relay_synced[1]; i++)
        if (v->shown[i].v && v->shown[i].kind == NC_CONTROL_CLAIM)
            (void)add(w, out, NC_CONTROL_PATCH_CLAIM, &v->shown[i],
                      patch_body(&v->shown[i], ",\"annotations\":{\"touched\":\"true\"}}}"));
}

static void add_some(struct world *w, unsigned p, struct nc_control_actions *out) {
    switch (w->sabotage) {
    case SABOTAGE_WRITES_UNSYNCED:
        touch_unsynced(w, p, out);
        break;
    case SABOTAGE_ALL_CONCURRENCY:
        fill_concurrency(w, p, out);
        break;
    case SABOTAGE_RELAYS_ANYTHING:
        delete_one(w, p, out, is_any, true);
        break;
    case SABOTAGE_BESIDE_KARPENTER:
        if (!w->is_standalone)
            touch_one(w, p, out, is_any);
        break;
    case SABOTAGE_FOREIGN:
        touch_one(w, p, out, is_anothers);
        break;
    case SABOTAGE_DELETES_FOR_NOTHING:
        delete_one(w, p, out, is_fresh, false);
        break;
    case SABOTAGE_DELETES_PROTECTED:
        delete_one(w, p, out, is_expired_and_protected, false);
        break;
    case SABOTAGE_DELETES_BEYOND_BUDGETS:
        delete_one(w, p, out, is_expired_and_free, false);
        break;
    case SABOTAGE_DROPS_FINALIZER:
    case SABOTAGE_DROPS_NODE:
    case SABOTAGE_ENDS_INSTANCE:
        end_one(w, p, out);
        break;
    case SABOTAGE_WRITES_AT_REST:
        for (unsigned i = 0; i < 3 && w->is_quiet; i++)
            touch_one(w, p, out, is_rested);
        break;
    case SABOTAGE_WRITES_ON:
        if (w->is_standalone)
            touch_one(w, p, out, is_living);
        break;
    default:
        break;
    }
}

void sabotage(struct world *w, unsigned p, const struct nc_control_event *e,
              struct nc_control_actions *out) {
    if (!w->sabotage)
        return;
    again(w, p, e, out);
    for (size_t i = out->n; i-- > 0;)
        if (is_swallowed(w, &out->v[i])) {
            process_pretend(w, p, &out->v[i],
                            w->sabotage == SABOTAGE_TIMESTAMP_LAST ? NC_CONTROL_DONE
                                                                   : NC_CONTROL_UNAVAILABLE);
            drop_at(out, i);
        } else {
            edit(w, &out->v[i], out);
        }
    keep(w, out);
    if (w->judge->views[p].leads)
        add_some(w, p, out);
}
