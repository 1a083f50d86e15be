/*
 * Registration and initialization (rules S4 to S6): what Karpenter's lifecycle controller writes,
 * where it does not run (facts: nodeclaim/lifecycle/registration.go and initialization.go of
 * karpenter core 1.14).
 */
#include "nc/names.h"
#include "nc/quantity.h"
#include "nc/str.h"
#include "standalone-priv.h"

char *nc_standalone_unread(const struct control_node *node) {
    static const struct {
        unsigned bit;
        const char *name;
    } rows[] = {{CONTROL_UNREAD_PROVIDER, "spec.providerID"},
                {CONTROL_UNREAD_FINALIZERS, "metadata.finalizers"},
                {CONTROL_UNREAD_OWNERS, "metadata.ownerReferences"},
                {CONTROL_UNREAD_TAINTS, "spec.taints"},
                {CONTROL_UNREAD_ALLOCATABLE, "status.allocatable"},
                {CONTROL_UNREAD_CONDITIONS, "status.conditions"}};
    struct nc_buf b = NC_BUF_INIT;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (node->more->unread & rows[i].bit)
            (void)nc_buf_printf(&b, "%s%s", b.len ? ", " : "", rows[i].name);
    return nc_buf_steal(&b);
}

/* The registration patch is seen on it. */
static bool is_registered(const struct control_node *node) {
    return !(node->more->unread & CONTROL_UNREAD_TAINTS) && node->more->is_registered
           && node->more->has_our_finalizer
           && !nc_standalone_has_taint(&node->more->taints, 4, NC_TAINT_UNREGISTERED, "NoExecute");
}

/* --- initialization */

static char *startup_taint(const struct control_claim *claim, const struct control_node *node) {
    const char *at = NULL, *t[3];

    while ((at = nc_control_strings_next(&nc_control_early(claim)->startup_taints, at, 3, t)))
        if (nc_standalone_has_taint(&node->more->taints, 4, t[0], t[2]))
            return nc_asprintf("StartupTaint \"%s%s%s:%s\" still exists", t[0], *t[1] ? "=" : "",
                               t[1], t[2]);
    return NULL;
}

/* Taints that vanish by themselves. An effect of NULL means any. */
static bool is_ephemeral(const char *key, const char *effect) {
    static const struct {
        const char *key, *effect;
    } rows[] = {
        {NC_TAINT_UNREGISTERED, "NoExecute"},
        {NC_TAINT_NOT_READY, "NoSchedule"},
        {NC_TAINT_NOT_READY, "NoExecute"},
        {NC_TAINT_UNREACHABLE, "NoSchedule"},
        {"node.cloudprovider.kubernetes.io/uninitialized", "NoSchedule"},
    };

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (nc_streq(key, rows[i].key) && nc_streq(effect, rows[i].effect))
            return true;
    return nc_starts_with(key, NC_TAINT_READINESS);
}

static char *ephemeral_taint(const struct control_node *node) {
    const char *at = NULL, *t[4];

    while ((at = nc_control_strings_next(&node->more->taints, at, 4, t)))
        if (is_ephemeral(t[0], t[2]))
            return nc_asprintf("KnownEphemeralTaint \"%s:%s\" still exists", t[0], t[2]);
    return NULL;
}

static bool is_zero(const char *quantity) {
    int64_t milli = 0;

    return !quantity || (nc_quantity_milli(quantity, &milli) == 0 && milli == 0);
}

/* What is allocatable is kept only until the label states that all of it was there once. */
static char *missing_resource(const struct control_claim *claim, const struct control_node *node) {
    const char *at = NULL, *t[2];

    if (node->more->is_initialized)
        return NULL;
    while ((at = nc_control_strings_next(&nc_control_early(claim)->requests, at, 2, t)))
        if (!is_zero(t[1]) && is_zero(nc_control_strings_get(&node->more->allocatable, 2, t[0])))
            return nc_asprintf("Resource \"%s\" was requested but not registered", t[0]);
    return NULL;
}

/* Why it is not initialized yet, in Karpenter's words; NULL where nothing is missing. The message
 * is owned. */
static const char *waits_for(const struct control_claim *claim, const struct control_node *node,
                             char **ret_message) {
    if (node->more->unread & CONTROL_UNREAD_TAINTS) {
        *ret_message = nc_standalone_unread(node);
        return "NodeUnreadable";
    }
    if (!node->more->is_ready) {
        *ret_message = nc_strdup("Node status is NotReady");
        return "NodeNotReady";
    }
    if ((*ret_message = startup_taint(claim, node)))
        return "StartupTaintsExist";
    if ((*ret_message = ephemeral_taint(node)))
        return "KnownEphemeralTaintsExist";
    if ((*ret_message = missing_resource(claim, node)))
        return "ResourceNotRegistered";
    return NULL;
}

/* --- the Node's patch */

/* An owner of a version that is not served would be searched for in vain. */
static struct nc_value *owners(const struct standalone_view *v) {
    const char *text = v->node->more->owners, *version = v->c->claims_version;
    const struct control_claim *claim = v->claim;
    struct nc_value *list = NULL;

    if (text)
        (void)nc_json_parse(text, strlen(text), &list, NULL); /* no list: none is seen */
    if (!list || list->type != NC_VALUE_LIST) {
        nc_value_free(list);
        list = nc_value_new_list();
    }
    for (size_t i = 0; i < list->n; i++)
        if (nc_value_says(list->items[i], "uid", claim->o.uid))
            return list;
    struct nc_value *owner = nc_value_new_map();
    nc_value_set_string(owner, "apiVersion", version ? version : "karpenter.sh/v1");
    nc_value_set_string(owner, "kind", "NodeClaim");
    nc_value_set_string(owner, "name", claim->o.name);
    nc_value_set_string(owner, "uid", claim->o.uid);
    nc_value_set_bool(owner, "blockOwnerDeletion", true);
    nc_value_push(list, owner);
    return list;
}

static void add_taints(struct nc_value *list, const struct control_strings *add,
                       const struct control_strings *have) {
    const char *at = NULL, *t[4];

    while ((at = nc_control_strings_next(add, at, 3, t))) {
        t[3] = "";
        if (!nc_standalone_has_taint(have, 4, t[0], t[2]))
            nc_control_push_taint(list, t);
    }
}

/* A startup taint that somebody has taken off does not come back: only the first patch has them. */
static struct nc_value *registered_taints(const struct control_claim *claim,
                                          const struct control_node *node) {
    const struct control_strings *have = &node->more->taints;
    struct nc_value *list = nc_value_new_list();
    const char *at = NULL, *t[4];

    while ((at = nc_control_strings_next(have, at, 4, t)))
        if (!nc_streq(t[0], NC_TAINT_UNREGISTERED) || !nc_streq(t[2], "NoExecute"))
            nc_control_push_taint(list, t);
    if (!node->more->do_not_sync_taints && !nc_standalone_is(claim, CONTROL_COND_REGISTERED)) {
        add_taints(list, &nc_control_early(claim)->taints, have);
        add_taints(list, &nc_control_early(claim)->startup_taints, have);
    }
    return list;
}

/* Our own annotations are what a Node says and is asked: a claim reports nothing in its name. */
static void sync_annotations(const struct control_claim *claim, struct nc_value *metadata) {
    const char *at = NULL, *two[2];

    while ((at = nc_control_strings_next(&nc_control_early(claim)->annotations, at, 2, two)))
        if (!nc_starts_with(two[0], NC_OURS))
            nc_value_set_string(nc_standalone_child(metadata, "annotations"), two[0], two[1]);
}

static struct nc_value *register_node(const struct standalone_view *v) {
    struct nc_value *patch = nc_control_patch(&v->node->o, true);
    struct nc_value *metadata = nc_standalone_child(patch, "metadata");

    if (!v->node->more->is_registered || !v->node->more->has_our_finalizer) {
        nc_value_set(metadata, "finalizers",
                     nc_standalone_texts_with(&v->node->more->finalizers, NC_FINALIZER));
        nc_value_set(metadata, "ownerReferences", owners(v));
    }
    nc_standalone_merge_texts(nc_standalone_child(metadata, "labels"),
                              &nc_control_early(v->claim)->labels);
    nc_value_set_string(nc_standalone_child(metadata, "labels"), NC_LABEL_REGISTERED, "true");
    sync_annotations(v->claim, metadata);
    nc_value_set(nc_standalone_child(patch, "spec"), "taints",
                 registered_taints(v->claim, v->node));
    return patch;
}

struct nc_value *nc_standalone_registration(const struct standalone_view *v) {
    nc_auto_free char *message = NULL;

    if (v->node->deletion_usec || !v->claim->has_our_finalizer || !v->claim->more->provider_id)
        return NULL;
    if (!is_registered(v->node))
        return v->node->more->unread & CONTROL_UNREAD_LISTS ? NULL : register_node(v);
    if (v->node->more->is_initialized || nc_standalone_is(v->claim, CONTROL_COND_INITIALIZED)
        || waits_for(v->claim, v->node, &message))
        return NULL;
    struct nc_value *patch = nc_control_patch(&v->node->o, false);
    nc_value_set_string(nc_standalone_child(nc_standalone_child(patch, "metadata"), "labels"),
                        NC_LABEL_INITIALIZED, "true");
    return patch;
}

/* --- the claim's status */

static const char *set_registered(const struct standalone_view *v,
                                  struct standalone_conditions *cs) {
    struct control_node *first = NULL;
    struct standalone_condition want = {.which = CONTROL_COND_REGISTERED, .truth = CONTROL_UNKNOWN};
    nc_auto_free char *unread = NULL;
    const unsigned n = v->c->rules.identity == NC_CONTROL_IDENTITY_ADMISSION
                           ? nc_control_nodes_with(v->c, v->claim->more->provider_id, &first)
                           : v->node != NULL;

    if (v->node && is_registered(v->node)) {
        want.truth = CONTROL_TRUE;
        want.reason = "Registered";
        want.message = "";
    } else if (v->node && v->node->more->unread & CONTROL_UNREAD_LISTS) {
        want.reason = "NodeUnreadable";
        want.message = unread = nc_standalone_unread(v->node);
    } else if (n == 0) {
        want.reason = "NodeNotFound";
        want.message = "Node not registered with cluster";
    } else if (n > 1) {
        want.truth = CONTROL_FALSE;
        want.reason = "MultipleNodesFound";
        want.message = "Invariant violated, matched multiple nodes";
    } else {
        return NULL; /* its Node is about to be registered */
    }
    nc_standalone_set(cs, &want);
    return want.truth == CONTROL_TRUE ? v->node->o.name : NULL;
}

static void set_initialized(const struct standalone_view *v, struct standalone_conditions *cs) {
    nc_auto_free char *message = NULL;
    const char *reason = waits_for(v->claim, v->node, &message);

    if (reason)
        nc_standalone_set(cs, &(struct standalone_condition){CONTROL_COND_INITIALIZED,
                                                             CONTROL_UNKNOWN, reason, message});
    else if (v->node->more->is_initialized)
        nc_standalone_set(cs, &(struct standalone_condition){CONTROL_COND_INITIALIZED, CONTROL_TRUE,
                                                             "Initialized", ""});
}

static void set_drifted(const struct standalone_view *v, struct standalone_conditions *cs) {
    const char *reason = nc_standalone_drift(v->claim);

    if (reason)
        nc_standalone_set(
            cs, &(struct standalone_condition){CONTROL_COND_DRIFTED, CONTROL_TRUE, reason, reason});
    else
        nc_standalone_unset(cs, CONTROL_COND_DRIFTED);
}

bool nc_standalone_live_status(const struct standalone_view *v, struct nc_control_action *ret) {
    const char *node_name = NULL;
    struct standalone_conditions cs;

    if (!v->claim->more->provider_id)
        return false;
    nc_standalone_conditions(v, &cs);
    if (!nc_standalone_is(v->claim, CONTROL_COND_REGISTERED))
        node_name = set_registered(v, &cs);
    if (v->node && nc_standalone_truth(&cs, CONTROL_COND_REGISTERED) == CONTROL_TRUE
        && !nc_standalone_is(v->claim, CONTROL_COND_INITIALIZED))
        set_initialized(v, &cs);
    if (nc_standalone_is(v->claim, CONTROL_COND_INITIALIZED))
        set_drifted(v, &cs);
    nc_standalone_set_ready(&cs);
    return nc_standalone_write_status(v, &cs, node_name, ret);
}
