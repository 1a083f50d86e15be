/*
 * NodeClaims for which no Node is registered: how many, since when and why.
 *
 * The cause is what a node says in an Event BootstrapFailed about its NodeClaim, or about its Node
 * with its providerID. Any node may write such an Event about any other: it is shown, and nothing
 * is done because of it.
 */
#include "nc/names.h"
#include "nc/str.h"
#include "step.h"

#define AWAITED_USEC (60ull * 1000000) /* most are registered sooner */
#define MESSAGE_MAX ((size_t)240)
#define CLOCKS_DIFFER_USEC (300ull * 1000000)

enum { CAUSE_UNKNOWN = 0, CAUSE_LAUNCH, CAUSE_PHASE };
static const char *const causes[] = {[CAUSE_UNKNOWN] = "unknown",
                                     [CAUSE_LAUNCH] = "launch", /* it has no instance yet */
#define ROW(id, name, is_optional) name,
                                     NC_PHASES(ROW)
#undef ROW
};

/* The last one of a claim. */
struct control_boot_failure {
    uint64_t at_usec;
    size_t cause;
    char message[];
};

static bool is_without_node(const struct control_claim *claim) {
    return !claim->node_name && !nc_control_is_deleting(claim);
}

void nc_control_drop_boot_failure(struct control_claim *claim) {
    free(claim->boot_failure);
    claim->boot_failure = NULL;
}

void nc_control_check_boot_failure(struct control_claim *claim) {
    if (!is_without_node(claim))
        nc_control_drop_boot_failure(claim);
}

static size_t read_cause(const char *message) {
    const size_t n = strcspn(message, ":");

    for (size_t i = CAUSE_PHASE; i < NC_ARRAY_SIZE(causes); i++)
        if (strlen(causes[i]) == n && strncmp(causes[i], message, n) == 0)
            return i;
    return CAUSE_UNKNOWN;
}

/* This walks every claim: relaying keeps no table by providerID. */
static struct control_claim *claim_of_instance(const struct nc_control *c, const char *id) {
    const struct control_table *t = &c->names[NC_CONTROL_CLAIM];

    for (size_t i = 0; id && *id && i < t->room; i++)
        for (struct control_link *l = t->slots[i]; l; l = l->next) {
            struct control_claim *claim = nc_control_object_of(l);
            if (is_without_node(claim) && nc_streq(nc_control_provider_of(claim), id))
                return claim;
        }
    return NULL;
}

static struct control_claim *claim_of_event(const struct nc_control *c,
                                            const struct nc_control_event *e) {
    struct control_claim *claim = nc_control_named(c, NC_CONTROL_CLAIM, e->name);

    return claim && nc_streq(claim->o.uid, e->uid) ? claim : claim_of_instance(c, e->provider_id);
}

void nc_control_apply_boot_failure(struct nc_control *c, const struct nc_control_event *e) {
    struct control_claim *claim = claim_of_event(c, e);
    /* one that is not over yet would be the last for ever: it is older than any other */
    const uint64_t at_usec = e->at_usec > c->now_usec + CLOCKS_DIFFER_USEC ? 0 : e->at_usec;
    struct control_boot_failure *f = NULL;
    size_t n = 0;

    if (!claim || !is_without_node(claim) || !e->message
        || (claim->boot_failure && claim->boot_failure->at_usec > at_usec))
        return;
    n = nc_cut(e->message, MESSAGE_MAX);
    f = nc_calloc(1, sizeof(*f) + n + 1);
    f->at_usec = at_usec;
    memcpy(f->message, e->message, n);
    f->cause = read_cause(f->message);
    nc_control_drop_boot_failure(claim);
    claim->boot_failure = f;
}

static size_t cause_of(const struct control_claim *claim) {
    if (!nc_control_provider_of(claim))
        return CAUSE_LAUNCH;
    return claim->boot_failure ? claim->boot_failure->cause : CAUSE_UNKNOWN;
}

/* ---- all of them: this walks every claim */

typedef int (*order_fn)(const void *a, const void *b);

static const struct control_claim *claim_at(const void *at) {
    return *(const struct control_claim *const *)at;
}

static int by_age(const void *a, const void *b) {
    const struct control_claim *one = claim_at(a), *two = claim_at(b);

    if (one->created_usec != two->created_usec)
        return one->created_usec < two->created_usec ? -1 : 1;
    return strcmp(one->o.name, two->o.name);
}

static const char *pool_of(const struct control_claim *claim) {
    return claim->pool ? claim->pool->o.name : "";
}

static int compare_groups(const struct control_claim *one, const struct control_claim *two) {
    const int r = strcmp(pool_of(one), pool_of(two));

    return r ? r : (int)cause_of(one) - (int)cause_of(two);
}

static int by_group(const void *a, const void *b) {
    const int r = compare_groups(claim_at(a), claim_at(b));

    return r ? r : by_age(a, b);
}

/* Owned; NULL where there is none. order NULL: none. */
static const struct control_claim **sorted(const struct nc_control *c, order_fn order,
                                           size_t *ret_n) {
    const struct control_table *t = &c->names[NC_CONTROL_CLAIM];
    const struct control_claim **v = NULL;
    size_t n = 0;

    for (size_t i = 0; i < t->room; i++)
        for (struct control_link *l = t->slots[i]; l; l = l->next) {
            const struct control_claim *claim = nc_control_object_of(l);
            if (is_without_node(claim))
                *nc_append(&v, &n) = claim;
        }
    if (n > 1 && order)
        qsort(v, n, sizeof(*v), order);
    *ret_n = n;
    return v;
}

bool nc_control_awaits_causes(const struct nc_control *c, uint64_t now_usec) {
    size_t n = 0;
    nc_auto_free const struct control_claim **v = sorted(c, by_age, &n);

    for (size_t i = 0; i < n && v[i]->created_usec + AWAITED_USEC <= now_usec; i++)
        if (nc_control_provider_of(v[i]))
            return true;
    return false;
}

size_t nc_control_count_without_node(const struct nc_control *c) {
    size_t n = 0;
    nc_auto_free const struct control_claim **v = sorted(c, NULL, &n);

    return v ? n : 0;
}

static struct nc_value *row(const struct control_claim *claim) {
    struct nc_value *v = nc_value_new_map();
    struct nc_control_instance instance;
    const char *provider_id = nc_control_provider_of(claim);
    const bool has_id = provider_id && nc_control_parse_provider_id(provider_id, &instance) >= 0;

    nc_value_set_string(v, "claim", claim->o.name);
    nc_value_set_text(v, "pool", pool_of(claim));
    nc_value_set_text(v, "instance", has_id ? instance.id : NULL);
    nc_value_set_time(v, "created", claim->created_usec);
    nc_value_set_string(v, "cause", causes[cause_of(claim)]);
    nc_value_set_text(v, "message", claim->boot_failure ? claim->boot_failure->message : NULL);
    return v;
}

struct nc_value *nc_control_report_claims(const struct nc_control *c) {
    size_t n = 0;
    nc_auto_free const struct control_claim **v = sorted(c, by_age, &n);
    struct nc_value *list = nc_value_new_list();

    for (size_t i = 0; i < n && i < NC_CONTROL_CLAIMS_REPORTED; i++)
        nc_value_push(list, row(v[i]));
    return list;
}

/* One sample for each group: how many it has, or since when the oldest of them is. */
static void add_samples(struct nc_metrics *m, const struct control_claim *const *v, size_t n,
                        bool is_time) {
    for (size_t i = 0, end = 0; i < n; i = end) {
        const char *const *labels =
            NC_LABELS("nodepool", pool_of(v[i]), "cause", causes[cause_of(v[i])]);
        for (end = i + 1; end < n && compare_groups(v[i], v[end]) == 0; end++)
            ;
        if (is_time)
            nc_metric_usec(m, labels, (int64_t)v[i]->created_usec);
        else
            nc_metric_count(m, labels, end - i);
    }
}

void nc_control_metrics_without_node(struct nc_metrics *m, const struct nc_control *c) {
    size_t n = 0;
    nc_auto_free const struct control_claim **v = sorted(c, by_group, &n);

    nc_metric_family(m, "nodeclaims_without_node", NC_GAUGE,
                     "NodeClaims for which no Node is registered, by NodePool and cause.");
    add_samples(m, v, n, false);
    nc_metric_family(m, "nodeclaims_without_node_oldest_timestamp_seconds", NC_GAUGE,
                     "Unix time at which the oldest of these NodeClaims was created.");
    add_samples(m, v, n, true);
}
