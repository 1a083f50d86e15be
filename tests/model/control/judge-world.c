/*
 * The judge: what a write has changed on the server, what must have happened by now, and how a
 * world ends.
 */
#include <limits.h>

#include "../margin.h"
#include "judge.h"
#include "nc/budget.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"

#define BOUND_FAULTS (60 * SEC) /* of a relay, where something may have failed just before */
#define BOUND (8 * SEC)
#define REGISTER_USEC (900 * SEC) /* a machine that is not registered by then is ended */
#define END_USEC (700 * SEC)      /* an end that takes longer is none */

/* --- what a write changed */

static bool has_item(const struct nc_value *list, const struct nc_value *item) {
    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_value_equal(list->items[i], item))
            return true;
    return false;
}

static bool is_one_of(const char *key, const char *const *keys) {
    for (; *keys; keys++)
        if (nc_streq(key, *keys))
            return true;
    return false;
}

static void judge_taints(struct world *w, const struct object *o, const struct nc_value *was) {
    static const char *const may_close[] = {"karpenter.sh/unregistered", "karpenter.sh/disrupted",
                                            NC_TAINT_OUT_OF_SERVICE, NC_TAINT_UNFIT, NULL};
    static const char *const may_come[] = {"karpenter.sh/disrupted", "startup",
                                           NC_TAINT_OUT_OF_SERVICE, NC_TAINT_UNFIT, NULL};
    const struct nc_value *before = nc_value_path(was, "spec.taints"),
                          *after = nc_value_path(o->v, "spec.taints");

    for (size_t i = 0; before && before->type == NC_VALUE_LIST && i < before->n; i++)
        if (!has_item(after, before->items[i])
            && !is_one_of(nc_value_get_string(before->items[i], "key"), may_close))
            judge_break(w, "taints", "%s loses %s", o->name,
                        nc_value_get_string(before->items[i], "key"));
    for (size_t i = 0; after && after->type == NC_VALUE_LIST && i < after->n; i++)
        if (!has_item(before, after->items[i])
            && !is_one_of(nc_value_get_string(after->items[i], "key"), may_come))
            judge_break(w, "taints", "%s gets %s", o->name,
                        nc_value_get_string(after->items[i], "key"));
}

/* No label goes, and no annotation but our own ones. */
static void judge_metadata(struct world *w, const struct object *o, const struct nc_value *was) {
    const struct nc_value *labels = nc_value_path(was, "metadata.labels"),
                          *notes = nc_value_path(was, "metadata.annotations"),
                          *finalizers = nc_value_path(was, "metadata.finalizers");

    for (size_t i = 0; labels && labels->type == NC_VALUE_MAP && i < labels->n; i++)
        if (!label_of(o->v, labels->members[i].key))
            judge_break(w, "labels", "%s loses %s", o->name, labels->members[i].key);
    for (size_t i = 0; notes && notes->type == NC_VALUE_MAP && i < notes->n; i++)
        if (!annotation_of(o->v, notes->members[i].key)
            && !nc_streq(notes->members[i].key,
                         NC_ANNOTATION_TERMINATION_TIMESTAMP) /* judge_relay() */
            && !nc_starts_with(notes->members[i].key, NC_OURS))
            judge_break(w, "labels", "%s loses %s", o->name, notes->members[i].key);
    for (size_t i = 0; finalizers && finalizers->type == NC_VALUE_LIST && i < finalizers->n; i++)
        if (!nc_streq(nc_value_string(finalizers->items[i]), NC_FINALIZER)
            && !has_item(nc_value_path(o->v, "metadata.finalizers"), finalizers->items[i]))
            judge_break(w, "finalizer", "%s loses another one's", o->name);
}

static void judge_status(struct world *w, const struct object *o, const struct nc_value *was) {
    static const char *const stay[] = {"Registered", "Initialized", NULL};
    const struct nc_value *list = nc_value_path(was, "status.conditions");

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++) {
        const char *type = nc_value_get_string(list->items[i], "type");
        if (!condition_of(o->v, type) && !nc_streq(type, "Drifted"))
            judge_break(w, "conditions", "%s loses %s", o->name, type);
        if (is_one_of(type, stay) && nc_streq(condition_of(was, type), "True")
            && !nc_streq(condition_of(o->v, type), "True"))
            judge_break(w, "conditions", "%s: %s is taken back", o->name, type);
    }
    if (!nc_streq(text_at(was, "status.providerID"), text_at(o->v, "status.providerID")))
        judge_break(w, "conditions", "%s: providerID is changed", o->name);
}

void judge_patched(struct world *w, const struct object *o, const struct nc_value *was) {
    judge_metadata(w, o, was);
    if (o->kind == NC_CONTROL_NODE) {
        judge_taints(w, o, was);
        judge_mirrored(w, o, was);
        judge_gated(w, o, was);
        if (!nc_streq(text_at(was, "spec.providerID"), text_at(o->v, "spec.providerID")))
            judge_break(w, "spec", "%s: providerID is changed", o->name);
        return;
    }
    judge_status(w, o, was);
    if (!nc_value_equal(nc_value_get(was, "spec"), nc_value_get(o->v, "spec")))
        judge_break(w, "spec", "%s is changed", o->name);
}

/* --- while time passes */

static bool is_good(const struct world *w) {
    const struct process *p = w->leader >= 0 ? &w->procs[w->leader] : NULL;

    if (!p || !p->c || !p->is_mode_posted || world_is_in(w->away, w->now_usec)
        || world_is_in(w->refused, w->now_usec))
        return false;
    for (unsigned k = 0; k < (w->is_standalone ? KINDS : 2); k++)
        if (!p->watches[k].is_open)
            return false;
    return true;
}

static const struct machine *machine_of(const struct world *w, unsigned claim) {
    for (unsigned i = 0; i < w->n_machines; i++)
        if (w->machines[i].claim == claim)
            return &w->machines[i];
    return NULL;
}

/* A drain status of an honest Node that is bound to this claim, and is to be carried to it; 0 =
 * none. */
static uint64_t to_relay(struct world *w, unsigned i) {
    const struct object *claim = &w->objects[i];
    const struct machine *m = machine_of(w, i);
    const struct object *node = m ? server_find(w, NC_CONTROL_NODE, m->node) : NULL;

    if (!node || m->is_hostile || m->is_over
        || !nc_streq(text_at(claim->v, "status.nodeName"), node->name)
        || !deadline_to_relay(node->v, w->now_usec))
        return 0;
    for (unsigned n = 0; n < w->n_objects; n++)
        if (n != i && w->objects[n].v && w->objects[n].kind == NC_CONTROL_CLAIM
            && nc_streq(text_at(w->objects[n].v, "status.nodeName"), node->name))
            return 0;
    return deadline_to_relay(node->v, w->now_usec);
}

static bool is_relayed(const struct world *w, const struct object *claim, uint64_t deadline) {
    const uint64_t left = deadline > w->now_usec ? deadline - w->now_usec : 0;
    uint64_t timestamp = 0;

    if (!is_deleting(claim->v)
        || nc_time_parse(annotation_of(claim->v, NC_ANNOTATION_TERMINATION_TIMESTAMP), &timestamp)
               < 0)
        return false;
    return timestamp + margin_for(w->rules.margin_usec, left) <= deadline;
}

static void probe_relay(struct world *w, unsigned i, uint64_t bound) {
    const struct object *claim = &w->objects[i];
    uint64_t *since = &w->judge->due_usec[i];
    const uint64_t deadline = claim->v ? to_relay(w, i) : 0;
    uint64_t from;

    if (!deadline || is_relayed(w, claim, deadline)) {
        *since = 0;
        return;
    }
    if (!*since)
        *since = w->now_usec;
    from = *since > w->good_usec ? *since : w->good_usec;
    if (w->good_usec && w->now_usec > from + bound)
        judge_break(w, "relayed", "%s: its Node has said so for %llu s", claim->name,
                    (unsigned long long)((w->now_usec - *since) / SEC));
}

static void probe_mirror(struct world *w, unsigned i, uint64_t bound) {
    const struct object *claim = &w->objects[i];
    const struct machine *m = machine_of(w, i);
    const struct object *node = m ? server_find(w, NC_CONTROL_NODE, m->node) : NULL;
    uint64_t *since = &w->judge->mirror_usec[i];
    uint64_t from;

    if (!claim->v || !node || m->is_hostile || !judge_lacks_mirror(w, claim, node)) {
        *since = 0;
        return;
    }
    if (!*since)
        *since = w->now_usec;
    from = *since > w->good_usec ? *since : w->good_usec;
    if (w->good_usec && w->now_usec > from + bound)
        judge_break(w, "mirrored", "%s has not had the time of %s for %llu s", node->name,
                    claim->name, (unsigned long long)((w->now_usec - *since) / SEC));
}

void judge_heartbeat(struct world *w) {
    const uint64_t bound = w->has_faults ? BOUND_FAULTS : BOUND;

    if (!is_good(w))
        w->good_usec = 0;
    else if (!w->good_usec)
        w->good_usec = w->now_usec;
    for (unsigned i = 0; i < w->n_objects; i++)
        if (w->objects[i].kind == NC_CONTROL_CLAIM) {
            probe_relay(w, i, bound);
            probe_mirror(w, i, bound);
        }
    judge_probe_gate(w);
    if (w->is_quiet && w->now_usec + 300 * SEC < w->end_usec)
        w->judge->quiet_writes = w->judge->writes;
}

/* --- the end */

static void end_deleted(struct world *w, const struct object *o) {
    if (is_foreign(o->v) || !has_finalizer(o->v, NC_FINALIZER))
        return;
    if (time_at(o->v, "metadata.deletionTimestamp") + END_USEC < w->now_usec)
        judge_break(w, "finalized", "%s has been ending for %llu s", o->name,
                    (unsigned long long)((w->now_usec - time_at(o->v, "metadata.deletionTimestamp"))
                                         / SEC));
}

static const struct object *only_node_with(const struct world *w, const char *provider) {
    const char *name = actors_name_of(w, provider);
    const struct object *found = NULL;

    for (unsigned i = 0; i < w->n_objects; i++)
        if (w->objects[i].v && w->objects[i].kind == NC_CONTROL_NODE
            && (w->rules.identity == NC_CONTROL_IDENTITY_ADMISSION
                || nc_streq(w->objects[i].name, name))
            && nc_streq(text_at(w->objects[i].v, "spec.providerID"), provider)) {
            if (found)
                return NULL;
            found = &w->objects[i];
        }
    return found;
}

static void end_alive(struct world *w, const struct object *o) {
    const char *provider = text_at(o->v, "status.providerID");
    const struct object *node = provider ? only_node_with(w, provider) : NULL;

    if (is_foreign(o->v))
        return;
    if (!has_finalizer(o->v, NC_FINALIZER))
        judge_break(w, "registered", "%s has no finalizer", o->name);
    if (!node || is_deleting(node->v))
        return;
    if (is_unreadable(node->v)) {
        if (w->good_usec && w->good_usec + REGISTER_USEC + 60 * SEC < w->now_usec
            && time_at(o->v, "metadata.creationTimestamp") + REGISTER_USEC + 60 * SEC < w->now_usec
            && !nc_streq(condition_of(o->v, "Registered"), "True"))
            judge_break(w, "unreadable", "%s, whose Node cannot be read, does not end", o->name);
        return;
    }
    if (!nc_streq(condition_of(o->v, "Registered"), "True"))
        judge_break(w, "registered", "%s, which has %s, is not", o->name, node->name);
    else if (nc_streq(condition_of(node->v, "Ready"), "True")
             && !nc_streq(condition_of(o->v, "Initialized"), "True"))
        judge_break(w, "registered", "%s is not initialized, and %s is Ready", o->name, node->name);
}

static bool is_out(const struct world *w, const struct object *claim) {
    const char *provider = text_at(claim->v, "status.providerID");
    const struct object *node = provider ? only_node_with(w, provider) : NULL;

    return is_deleting(claim->v) || !node || !nc_streq(condition_of(node->v, "Ready"), "True");
}

/* Is there room for one that has been expired for long? */
static void end_expired(struct world *w, const struct object *o) {
    nc_cleanup(nc_budgets_done) struct nc_budgets b = {0};
    const char *name = label_of(o->v, POOL_KEY), *provider = text_at(o->v, "status.providerID");
    const struct object *pool = server_find(w, NC_CONTROL_POOL, name),
                        *node = provider ? only_node_with(w, provider) : NULL;
    uint64_t after = 0;
    unsigned n = 0, out = 0;

    if (is_foreign(o->v) || !node || !pool || nc_budgets_read(pool->v, &b, NULL) < 0
        || nc_budget_duration(text_at(o->v, "spec.expireAfter"), true, &after, NULL) < 0
        || after == UINT64_MAX
        || time_at(o->v, "metadata.creationTimestamp") + after + 300 * SEC
                   + 4 * w->rules.zone_turn_usec
               > w->now_usec
        || nc_streq(annotation_of(o->v, DO_NOT_DISRUPT), "true"))
        return;
    for (unsigned i = 0; i < w->n_objects; i++)
        if (w->objects[i].v && w->objects[i].kind == NC_CONTROL_CLAIM
            && nc_streq(label_of(w->objects[i].v, POOL_KEY), name)) {
            n += &w->objects[i] == o || is_out(w, &w->objects[i])
                 || nc_streq(condition_of(w->objects[i].v, "Initialized"), "True");
            out += is_out(w, &w->objects[i]);
        }
    for (uint64_t back = 0; back <= 120 * SEC; back += 10 * SEC)
        if (nc_budgets_allowed(&b, NC_BUDGET_EXPIRED, n, w->now_usec - back) <= out)
            return;
    judge_break(w,
                nc_streq(annotation_of(node->v, DO_NOT_DISRUPT), "true") ? "own-word" : "disrupted",
                "%s is expired, and %u of %u are on their way out", o->name, out, n);
}

/* All objects, for whoever reads the story. */
static void post_all(const struct world *w) {
    for (unsigned i = 0; w->is_traced && i < w->n_objects; i++) {
        struct nc_buf b = NC_BUF_INIT;
        if (!w->objects[i].v)
            continue;
        nc_json_write(&b, w->objects[i].v, 0);
        world_log(w, "%s", b.data);
        nc_buf_done(&b);
    }
}

/* Its machine is gone for long, and everybody agrees whose it was. */
static void end_outage(struct world *w, const struct machine *m) {
    const struct object *node = server_find(w, NC_CONTROL_NODE, m->node),
                        *claim = m->claim != UINT32_MAX ? &w->objects[m->claim] : NULL;

    if (!w->rules.out_of_service || !node || !claim || !claim->v || !m->is_over
        || m->over_usec + 900 * SEC > w->now_usec || w->good_usec + 900 * SEC > w->now_usec
        || !nc_streq(text_at(claim->v, "status.nodeName"), m->node)
        || !nc_streq(text_at(node->v, "spec.providerID"), text_at(claim->v, "status.providerID")))
        return;
    if (!judge_has_outage(node->v))
        judge_break(w, "out-of-service-set", "%s is gone for %llu s", m->node,
                    (unsigned long long)((w->now_usec - m->over_usec) / SEC));
}

void judge_end(struct world *w) {
    post_all(w);
    for (unsigned i = 0; i < w->n_machines && !w->judge->broken[0]; i++)
        end_outage(w, &w->machines[i]);
    if (!w->is_standalone || w->judge->broken[0])
        return;
    for (unsigned i = 0; i < w->n_objects; i++) {
        const struct object *o = &w->objects[i];
        if (!o->v || (o->kind != NC_CONTROL_CLAIM && o->kind != NC_CONTROL_NODE))
            continue;
        if (is_deleting(o->v)) {
            end_deleted(w, o);
        } else if (o->kind == NC_CONTROL_CLAIM) {
            end_alive(w, o);
            end_expired(w, o);
        }
    }
    if (w->judge->writes > w->judge->quiet_writes + 60)
        judge_break(w, "rest", "%llu writes in the last five minutes of a quiet world",
                    (unsigned long long)(w->judge->writes - w->judge->quiet_writes));
}
