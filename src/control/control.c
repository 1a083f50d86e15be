/*
 * The step: an event changes what is known, then everything that it touched is asked what it wants.
 */
#include "nc/control.h"

#include "nc/names.h"
#include "nc/str.h"
#include "step.h"

#define CLOCK_BACK_USEC 1000000ull

/* The ceiling: a day. Who is on call has seen WaitingForAgent by then, and no node stays for a
 * weekend. */
const struct nc_control_rules nc_control_defaults = {.margin_usec = NC_MARGIN_USEC,
                                                     .order = NC_CONTROL_BOTH,
                                                     .timestamp_after_usec = 5000000,
                                                     .max_in_flight = 64,
                                                     .identity = NC_CONTROL_IDENTITY_EC2,
                                                     .ceiling_usec = 24ull * 3600 * 1000000};

const char *nc_control_kind_name(enum nc_control_kind k) {
    static const char *const names[_NC_CONTROL_KIND_MAX] = {
        [NC_CONTROL_NODE] = "Node",
        [NC_CONTROL_CLAIM] = "NodeClaim",
        [NC_CONTROL_POOL] = "NodePool",
        [NC_CONTROL_CLASS] = "EC2NodeClass",
    };

    return names[k];
}

const char *nc_control_verb_name(enum nc_control_verb v) {
    static const char *const names[_NC_CONTROL_VERB_MAX] = {
        [NC_CONTROL_SET_TIMESTAMP] = "set-timestamp",
        [NC_CONTROL_DELETE_CLAIM] = "delete-claim",
        [NC_CONTROL_PATCH_CLAIM] = "patch-claim",
        [NC_CONTROL_STATUS_CLAIM] = "status-claim",
        [NC_CONTROL_PATCH_NODE] = "patch-node",
        [NC_CONTROL_DELETE_NODE] = "delete-node",
        [NC_CONTROL_END_INSTANCE] = "end-instance",
        [NC_CONTROL_DESCRIBE_INSTANCE] = "describe-instance",
        [NC_CONTROL_DESCRIBE_LIFECYCLE] = "describe-lifecycle",
        [NC_CONTROL_RECORD_HEARTBEAT] = "record-heartbeat",
        [NC_CONTROL_COMPLETE_ACTION] = "complete-action",
        [NC_CONTROL_INSTANCE_STATE] = "instance-state",
        [NC_CONTROL_GET_NODE] = "get-node",
        [NC_CONTROL_EMIT_EVENT] = "event",
        [NC_CONTROL_REPLACE_PODS] = "replace-pods",
    };

    return names[v];
}

/* What is kept of each object: lists of names. */
#define ANNOTATION(name) "metadata.annotations.'" name "'\0"
#define HEAD_PATHS                                                                                 \
    "metadata.name\0metadata.uid\0metadata.resourceVersion\0metadata.creationTimestamp\0"          \
    "metadata.deletionTimestamp\0"
#define POOL_LABEL_PATH "metadata.labels.'" NC_LABEL_NODE_POOL "'\0"
/* What a node states, and what is recorded of that. */
#define STATED_PATHS                                                                               \
    ANNOTATION(NC_ANNOTATION_STATUS)                                                               \
    ANNOTATION(NC_ANNOTATION_BOOTSTRAP)                                                            \
    ANNOTATION(NC_ANNOTATION_FIT) ANNOTATION(NC_ANNOTATION_FIT_BOOT)

#define NODE_PATHS                                                                                 \
    HEAD_PATHS STATED_PATHS "metadata.finalizers\0metadata.ownerReferences\0" ANNOTATION(          \
        NC_ANNOTATION_TERMINATION_DEADLINE)
#define NODE_PATHS_STANDALONE                                                                      \
    HEAD_PATHS STATED_PATHS                                                                        \
        "metadata.ownerReferences\0metadata.labels\0metadata.finalizers\0spec.providerID\0"        \
        "spec.taints\0status.allocatable\0status.conditions.type\0"                                \
        "status.conditions.status\0" ANNOTATION(NC_ANNOTATION_REQUEST)                             \
            ANNOTATION(NC_ANNOTATION_OUR_TAINT)
#define SINCE_PATH "status.conditions.lastTransitionTime\0"
/* What it counts on, of which type and image. */
#define PROMISE_PATHS "status.imageID\0status.allocatable.memory\0"
#define CLAIM_PATHS                                                                                \
    HEAD_PATHS POOL_LABEL_PATH                                                                     \
        "metadata.labels.'" NC_LABEL_INSTANCE_TYPE "'\0" PROMISE_PATHS                             \
        "metadata.finalizers\0status.nodeName\0status.providerID\0"                                \
        "status.conditions.type\0status.conditions.status\0" SINCE_PATH                            \
        "spec.startupTaints.key\0" ANNOTATION(NC_ANNOTATION_TERMINATION_TIMESTAMP)                 \
            ANNOTATION(NC_ANNOTATION_OUR_TIMESTAMP)

static const char keep_node[] = NODE_PATHS POOL_LABEL_PATH;
static const char keep_node_of_group[] = NODE_PATHS POOL_LABEL_PATH "spec.providerID\0";
static const char keep_node_outage[] = NODE_PATHS POOL_LABEL_PATH
    "spec.providerID\0spec.taints\0status.conditions.type\0status.conditions.status\0" SINCE_PATH;
static const char keep_node_standalone[] = NODE_PATHS_STANDALONE;
static const char keep_node_standalone_outage[] = NODE_PATHS_STANDALONE SINCE_PATH;
static const char keep_claim[] = CLAIM_PATHS;
static const char keep_claim_standalone[] = HEAD_PATHS
    "metadata.finalizers\0metadata.labels\0metadata.annotations\0"
    "spec.expireAfter\0spec.terminationGracePeriod\0spec.nodeClassRef\0spec.resources.requests\0"
    "spec.taints\0spec.startupTaints\0status.nodeName\0status.providerID\0"
    "status.conditions\0" PROMISE_PATHS;
static const char keep_pool[] = HEAD_PATHS ANNOTATION(NC_ANNOTATION_NODE_POOL_HASH)
    ANNOTATION(NC_ANNOTATION_NODE_POOL_HASH_VERSION) "spec.disruption\0";
static const char keep_class[] = HEAD_PATHS ANNOTATION(NC_ANNOTATION_NODE_CLASS_HASH)
    ANNOTATION(NC_ANNOTATION_NODE_CLASS_HASH_VERSION);

const char *nc_control_keep(enum nc_control_kind k, enum nc_control_mode mode,
                            const struct nc_control_rules *rules) {
    static const char *const nodes[2][2] = {{keep_node, keep_node_outage},
                                            {keep_node_standalone, keep_node_standalone_outage}};
    const bool is_standalone = mode == NC_CONTROL_STANDALONE;

    switch (k) {
    case NC_CONTROL_NODE:
        if (rules->completes_actions && !rules->out_of_service && !is_standalone)
            return keep_node_of_group;
        return nodes[is_standalone][rules->out_of_service];
    case NC_CONTROL_CLAIM:
        return is_standalone ? keep_claim_standalone : keep_claim;
    case NC_CONTROL_POOL:
        return keep_pool;
    case NC_CONTROL_CLASS:
    case _NC_CONTROL_KIND_MAX:
        break;
    }
    return keep_class;
}

struct nc_control *nc_control_new(const struct nc_standalone *standalone) {
    struct nc_control *c = nc_calloc(1, sizeof(*c));

    c->standalone = standalone;
    c->rules = nc_control_defaults;
    return c;
}

struct nc_control *nc_control_free(struct nc_control *c) {
    if (!c)
        return NULL;
    nc_control_forget_in_flight(c);
    nc_control_drop_all(c);
    nc_control_drop_shapes(c);
    free(c->in_flight);
    free(c->heap);
    free(c->claims_version);
    free(c->turn.zone);
    free(c);
    return NULL;
}

static void apply_rules(struct nc_control *c, const struct nc_control_rules *rules) {
    size_t n = 0;

    for (size_t k = 0; k < _NC_CONTROL_KIND_MAX; k++)
        n += c->names[k].n;
    if (!rules)
        return;
    c->rules = *rules;
    if (n == 0) /* later it would lose what is linked */
        c->hash_seed = (uint32_t)(rules->seed ^ (rules->seed >> 32));
    nc_control_touch_all(c);
}

/* Without Karpenter more of each object is wanted: nothing is done in standalone mode until it was
 * seen. */
static void apply_mode(struct nc_control *c, const struct nc_control_event *e) {
    const enum nc_control_mode mode =
        e->mode == NC_CONTROL_STANDALONE && !c->standalone ? NC_CONTROL_MODE_UNKNOWN : e->mode;

    free(c->claims_version);
    c->claims_version = e->claims_version ? nc_strdup(e->claims_version) : NULL;
    c->has_no_claims = e->has_no_claims;
    if (mode == c->mode && e->is_guess == c->is_guess)
        return;
    c->is_guess = e->is_guess;
    if (mode == c->mode) {
        nc_control_touch_all(c);
        return;
    }
    c->mode = mode;
    memset(c->is_synced, 0, sizeof(c->is_synced));
    nc_control_touch_all(c);
}

static void apply_leadership(struct nc_control *c, bool leads) {
    if (leads == c->leads)
        return;
    c->leads = leads;
    c->led_usec = c->now_usec;
    if (leads)
        nc_control_touch_all(c);
    else
        nc_control_forget_in_flight(c);
}

static void apply_synced(struct nc_control *c, enum nc_control_kind k) {
    const bool is_new = !c->is_synced[k];

    c->is_synced[k] = true;
    if (k == NC_CONTROL_NODE || k == NC_CONTROL_CLAIM)
        c->is_relay_synced[k] = true;
    if (is_new)
        nc_control_touch_all(c);
}

static void apply_gone(struct nc_control *c, const struct nc_control_event *e) {
    struct control_object *o = nc_control_named(c, e->what, e->name);

    if (!o || (e->uid && e->uid[0] && !nc_streq(o->uid, e->uid)))
        return;
    nc_control_touch_around(c, o);
    nc_control_gone(c, o);
}

static void apply_event(struct nc_control *c, const struct nc_control_event *e) {
    struct control_object *o = NULL;

    switch (e->kind) {
    case NC_CONTROL_RULES:
        apply_rules(c, e->rules);
        break;
    case NC_CONTROL_MODE:
        apply_mode(c, e);
        break;
    case NC_CONTROL_LEAD:
        apply_leadership(c, e->leads);
        break;
    case NC_CONTROL_SEEN:
        if (nc_control_read(c, e->what, e->object, &o) > 0)
            nc_control_seen(c, o);
        break;
    case NC_CONTROL_GONE:
        apply_gone(c, e);
        break;
    case NC_CONTROL_SYNCED:
        apply_synced(c, e->what);
        break;
    case NC_CONTROL_ANSWER:
        nc_control_answered(c, e);
        break;
    case NC_CONTROL_BOOT_FAILURE:
        nc_control_apply_boot_failure(c, e);
        break;
    case NC_CONTROL_TICK:
    case _NC_CONTROL_EVENT_MAX:
        break;
    }
}

void nc_control_step(struct nc_control *c, const struct nc_control_event *e,
                     struct nc_control_actions *out) {
    if (e->what >= _NC_CONTROL_KIND_MAX)
        return;
    if (e->now_usec + CLOCK_BACK_USEC < c->now_usec)
        nc_control_touch_all(c); /* moments that were noted are too far away now */
    c->now_usec = e->now_usec;
    c->out = out;
    apply_event(c, e);
    nc_control_reconcile(c, e->now_usec);
    c->out = NULL;
}

uint64_t nc_control_next(const struct nc_control *c, uint64_t now_usec) {
    if (!c->leads || c->n_heap == 0)
        return UINT64_MAX;
    return c->heap[0]->wake_usec > now_usec ? c->heap[0]->wake_usec : now_usec;
}
