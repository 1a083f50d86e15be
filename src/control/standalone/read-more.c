/*
 * What only a life without Karpenter checks: the rest of Nodes and NodeClaims, NodePools and
 * EC2NodeClasses. Lists that only registration and initialization need are kept until these are
 * done: at ten thousand nodes they would be most of the memory.
 */
#include <errno.h>

#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"
#include "parse.h"
#include "standalone-priv.h"

#define CONDITIONS_MAX ((size_t)64)
#define OWNERS_BYTES ((size_t)4096)

static const char *const condition_names[_CONTROL_COND_MAX] = {
    [CONTROL_COND_LAUNCHED] = "Launched",
    [CONTROL_COND_REGISTERED] = "Registered",
    [CONTROL_COND_INITIALIZED] = "Initialized",
    [CONTROL_COND_READY] = "Ready",
    [CONTROL_COND_DRIFTED] = "Drifted",
    [CONTROL_COND_DRAINED] = "Drained",
    [CONTROL_COND_VOLUMES] = "VolumesDetached",
    [CONTROL_COND_TERMINATING] = "InstanceTerminating",
    [CONTROL_COND_DISRUPTION] = "DisruptionReason",
};

const char *nc_standalone_condition_name(enum control_condition k) {
    return condition_names[k];
}

static bool is_label_true(const struct nc_value *object, const char *key) {
    return nc_control_is_true(nc_control_at(object, "metadata.labels", key));
}

static const struct nc_value *annotation(const struct nc_value *object, const char *key) {
    return nc_control_at(object, "metadata.annotations", key);
}

/* ---- Node */

/* However many there are. Where they are too large it is not known, so no. */
static bool is_ready(const struct nc_value *object, struct control_node_more *m) {
    const struct nc_value *list = nc_value_path(object, "status.conditions");
    bool is_ready = false;

    if (list && list->type != NC_VALUE_LIST)
        m->unread |= CONTROL_UNREAD_CONDITIONS;
    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_value_says(list->items[i], "type", "Ready"))
            is_ready = nc_value_says(list->items[i], "status", "True");
    return is_ready;
}

/* Any text: nothing of it is trusted, it is only compared with what is wanted. Of one that is too
 * long only the beginning is kept: it is another one than any of ours. */
static void parse_drain_request(const struct nc_value *object, struct control_node_more *m) {
    const char *text = nc_value_string(annotation(object, NC_ANNOTATION_REQUEST));

    if (text)
        m->drain_request = nc_strndup(text, strnlen(text, CONTROL_DRAIN_STATUS_MAX));
}

static void check_list(struct control_node_more *m, struct control_strings *list, unsigned which,
                       int r) {
    if (r >= 0 && list->bytes <= CONTROL_NODE_BYTES)
        return;
    nc_control_strings_done(list);
    m->unread |= which;
}

/* null stands where the watch has left out what was too large. */
static void parse_lists(const struct nc_value *object, struct control_node_more *m) {
    const struct nc_value *finalizers = nc_value_path(object, "metadata.finalizers");

    check_list(m, &m->finalizers, CONTROL_UNREAD_FINALIZERS,
               nc_control_parse_list(finalizers, &m->finalizers));
    check_list(m, &m->taints, CONTROL_UNREAD_TAINTS,
               nc_control_parse_taints(nc_value_path(object, "spec.taints"), true, &m->taints));
    if ((!m->is_registered || !m->has_our_finalizer)
        && nc_control_parse_json_list(nc_value_path(object, "metadata.ownerReferences"),
                                      OWNERS_BYTES, &m->owners)
               < 0)
        m->unread |= CONTROL_UNREAD_OWNERS;
    if (!m->is_initialized)
        check_list(m, &m->allocatable, CONTROL_UNREAD_ALLOCATABLE,
                   nc_control_parse_map(nc_control_at(object, "status.allocatable", NULL),
                                        &m->allocatable));
}

void nc_standalone_read_node(const struct nc_value *object, struct control_node_more *m) {
    const struct nc_value *finalizers = nc_value_path(object, "metadata.finalizers");

    if (nc_control_parse_token(nc_value_path(object, "spec.providerID"), CONTROL_PROVIDER_MAX,
                               &m->provider_id)
        < 0)
        m->unread |= CONTROL_UNREAD_PROVIDER;
    m->is_registered = is_label_true(object, NC_LABEL_REGISTERED);
    m->is_initialized = is_label_true(object, NC_LABEL_INITIALIZED);
    m->do_not_sync_taints = is_label_true(object, NC_LABEL_DO_NOT_SYNC);
    m->has_our_finalizer = nc_control_has_text(finalizers, NC_FINALIZER);
    m->has_karpenter_finalizer = nc_control_has_text(finalizers, NC_FINALIZER_KARPENTER);
    m->has_our_taint = annotation(object, NC_ANNOTATION_OUR_TAINT) != NULL;
    m->is_ready = is_ready(object, m);
    parse_drain_request(object, m);
    parse_lists(object, m);
}

/* ---- NodeClaim */

static void parse_claim_condition(struct control_claim_more *m, const char *type,
                                  const char *status) {
    for (size_t i = 0; i < _CONTROL_COND_MAX; i++)
        if (nc_streq(type, condition_names[i]))
            m->truths[i] = nc_streq(status, "True")    ? CONTROL_TRUE
                           : nc_streq(status, "False") ? CONTROL_FALSE
                                                       : CONTROL_UNKNOWN;
}

static int parse_claim_conditions(const struct nc_value *object, struct control_claim_more *m) {
    const struct nc_value *list = nc_control_at(object, "status.conditions", NULL);

    if (!list)
        return 0;
    if (list->type != NC_VALUE_LIST || list->n > CONDITIONS_MAX)
        return -EBADMSG;
    for (size_t i = 0; i < list->n; i++) {
        const char *type = nc_value_get_string(list->items[i], "type");
        const char *status = nc_value_get_string(list->items[i], "status");
        if (!type || !status)
            return -EBADMSG;
        parse_claim_condition(m, type, status);
    }
    return nc_control_parse_conditions(list, &m->conditions);
}

/* "Never" is UINT64_MAX; absent leaves *ret alone. */
static int parse_never_or_duration(const struct nc_value *v, bool may_be_never, uint64_t *ret) {
    if (!v)
        return 0;
    if (may_be_never && nc_streq(nc_value_string(v), "Never")) {
        *ret = UINT64_MAX;
        return 0;
    }
    return v->type == NC_VALUE_STRING && nc_duration_parse(v->text, ret) >= 0 ? 0 : -EBADMSG;
}

static int parse_claim_times(const struct nc_value *object, struct control_claim_more *m) {
    const struct nc_value *expiry = nc_control_at(object, "spec.expireAfter", NULL);
    int r = 0;

    m->expire_after_usec = UINT64_MAX;
    m->grace_usec = UINT64_MAX;
    m->has_no_expiry = !expiry;
    r = parse_never_or_duration(expiry, true, &m->expire_after_usec);
    return r >= 0 ? parse_never_or_duration(
               nc_control_at(object, "spec.terminationGracePeriod", NULL), false, &m->grace_usec)
                  : r;
}

static int parse_claim_hashes(const struct nc_value *object, struct control_claim_more *m) {
    const struct nc_value *const hashes[] = {
        annotation(object, NC_ANNOTATION_NODE_POOL_HASH),
        annotation(object, NC_ANNOTATION_NODE_POOL_HASH_VERSION),
        annotation(object, NC_ANNOTATION_NODE_CLASS_HASH),
        annotation(object, NC_ANNOTATION_NODE_CLASS_HASH_VERSION),
    };

    return nc_control_parse_tokens(hashes, NC_ARRAY_SIZE(hashes), CONTROL_HASH_MAX, &m->hashes);
}

/* v1: group, kind, name. v1beta1: apiVersion and kind may be left out and mean EC2NodeClass. */
static int parse_class_ref(const struct nc_value *object, struct control_class_ref *ret) {
    const struct nc_value *ref = nc_control_at(object, "spec.nodeClassRef", NULL);
    nc_auto_free char *api = NULL;
    int r = nc_control_parse_token(nc_control_at(ref, "name", NULL), CONTROL_NAME_MAX, &ret->name);

    if (r >= 0)
        r = nc_control_parse_token(nc_control_at(ref, "kind", NULL), CONTROL_NAME_MAX, &ret->kind);
    if (r >= 0)
        r = nc_control_parse_token(nc_control_at(ref, "group", NULL), CONTROL_NAME_MAX,
                                   &ret->group);
    if (r >= 0)
        r = nc_control_parse_token(nc_control_at(ref, "apiVersion", NULL), CONTROL_NAME_MAX, &api);
    if (r < 0 || !ret->name)
        return r;
    if (!ret->group)
        ret->group = api ? nc_strndup(api, strcspn(api, "/")) : nc_strdup("karpenter.k8s.aws");
    if (!ret->kind)
        ret->kind = nc_strdup("EC2NodeClass");
    return 0;
}

static int parse_plain_taints(const struct nc_value *v, struct control_strings *ret) {
    return nc_control_parse_taints(v, false, ret);
}

static int parse_early(const struct nc_value *object, struct control_claim_more *m) {
    struct control_claim_early *e = m->early = nc_calloc(1, sizeof(*e));
    const struct {
        const char *path;
        struct control_strings *at;
        int (*take)(const struct nc_value *v, struct control_strings *ret);
    } rows[] = {
        {"metadata.labels", &e->labels, nc_control_parse_map},
        {"metadata.annotations", &e->annotations, nc_control_parse_map},
        {"spec.resources.requests", &e->requests, nc_control_parse_map},
        {"spec.taints", &e->taints, parse_plain_taints},
        {"spec.startupTaints", &e->startup_taints, parse_plain_taints},
    };
    int r = 0;

    for (size_t i = 0; r >= 0 && i < NC_ARRAY_SIZE(rows); i++)
        r = rows[i].take(nc_control_at(object, rows[i].path, NULL), rows[i].at);
    return r;
}

/* Somebody else's, whatever Karpenter's Lease says: EKS Auto Mode's, or one that is marked so. */
static bool is_foreign(const struct nc_value *object, const struct control_class_ref *class) {
    const struct nc_value *by =
        nc_control_at(object, "metadata.labels", "app.kubernetes.io/managed-by");

    return nc_streq(class->group, "eks.amazonaws.com")
           || (by && !nc_streq(nc_value_string(by), "nodeclaimd"));
}

int nc_standalone_read_claim(const struct nc_value *object, struct control_claim_more *m,
                             struct control_class_ref *ret_class) {
    int r = nc_control_parse_token(nc_control_at(object, "status.providerID", NULL),
                                   CONTROL_PROVIDER_MAX, &m->provider_id);

    m->do_not_disrupt = nc_control_is_true(annotation(object, NC_ANNOTATION_DO_NOT_DISRUPT));
    if (r >= 0)
        r = nc_control_parse_token(nc_control_at(object, "metadata.labels", NC_LABEL_ZONE),
                                   CONTROL_ZONE_MAX, &m->zone);
    if (r >= 0)
        r = parse_claim_times(object, m);
    if (r >= 0)
        r = parse_claim_hashes(object, m);
    if (r >= 0)
        r = parse_class_ref(object, ret_class);
    if (r >= 0)
        r = nc_control_parse_list(nc_control_at(object, "metadata.finalizers", NULL),
                                  &m->finalizers);
    if (r >= 0)
        r = parse_claim_conditions(object, m);
    m->is_foreign = is_foreign(object, ret_class);
    return r >= 0 && m->truths[CONTROL_COND_INITIALIZED] != CONTROL_TRUE ? parse_early(object, m)
                                                                         : r;
}

/* ---- NodePool, EC2NodeClass */

static int parse_hash_pair(const struct nc_value *object, const char *const keys[static 2],
                           char **first, char **second) {
    nc_auto_free char *hash = NULL, *version = NULL;
    int r = nc_control_parse_token(annotation(object, keys[0]), CONTROL_HASH_MAX, &hash);

    if (r >= 0)
        r = nc_control_parse_token(annotation(object, keys[1]), CONTROL_HASH_MAX, &version);
    if (r < 0)
        return r;
    free(*first);
    free(*second);
    *first = nc_steal(&hash);
    *second = nc_steal(&version);
    return 0;
}

void nc_standalone_budgets_free(struct nc_budgets *b) {
    if (b)
        nc_budgets_done(b);
    free(b);
}

int nc_standalone_read_pool(const struct nc_value *object, struct control_pool *p) {
    static const char *const keys[] = {NC_ANNOTATION_NODE_POOL_HASH,
                                       NC_ANNOTATION_NODE_POOL_HASH_VERSION};
    struct nc_budgets budgets = {0};
    uint64_t expiry_usec = UINT64_MAX;
    int r = parse_never_or_duration(nc_control_at(object, "spec.disruption.expireAfter", NULL),
                                    true, &expiry_usec);

    if (r >= 0)
        r = parse_hash_pair(object, keys, &p->hash, &p->hash_version);
    if (r < 0)
        return r;
    nc_standalone_budgets_free(nc_steal(&p->budgets));
    if (!nc_control_at(object, "metadata.deletionTimestamp", NULL)
        && nc_budgets_read(object, &budgets, NULL) >= 0) {
        p->budgets = nc_calloc(1, sizeof(budgets));
        *p->budgets = budgets;
    }
    p->expire_after_usec = expiry_usec;
    return 0;
}

int nc_standalone_read_class(const struct nc_value *object, struct control_class *k) {
    static const char *const keys[] = {NC_ANNOTATION_NODE_CLASS_HASH,
                                       NC_ANNOTATION_NODE_CLASS_HASH_VERSION};

    return parse_hash_pair(object, keys, &k->hash, &k->hash_version);
}
