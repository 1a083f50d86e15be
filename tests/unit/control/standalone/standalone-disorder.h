/*
 * Disorder in the cluster of standalone-world.h, made of choices that a generator or a fuzzer
 * gives: objects change, words are said, answers are lost, leaders die. Each write is held against
 * the rules as the world sees them: a node is never ended before it is drained, budgets hold, what
 * is Karpenter's is not touched; and once the disorder ends, everything that is to go is gone.
 */
#ifndef NC_STANDALONE_DISORDER_H
#define NC_STANDALONE_DISORDER_H

#include "standalone-world.h"

#include "nc/lifecycle.h"
#include "nc/names.h"
#include "nc/str.h"

#define CLAIMS_MAX 5u
#define BUDGET 2u

static uint64_t seed_said;

/* Who chooses. */
struct disorder {
    size_t (*below)(void *source, size_t n);
    void *source;
    unsigned claims; /* at most CLAIMS_MAX */
    bool is_whole;   /* as in struct world */
};

static size_t pick(const struct disorder *d, size_t n) {
    return d->below(d->source, n);
}

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("seed %llu: broken: %s", (unsigned long long)seed_said, #condition);          \
    } while (0)

/* --- rules, as the world sees them */

static bool is_deleting(const struct nc_value *v) {
    return nc_value_path(v, "metadata.deletionTimestamp") != NULL;
}

static bool is_ready(const struct nc_value *node) {
    const struct nc_value *list = nc_value_path(node, "status.conditions");

    return list && list->n == 1 && nc_streq(nc_value_get_string(list->items[0], "status"), "True");
}

static bool is_karpenters(struct world *w, enum nc_control_kind kind, const char *name) {
    const struct nc_value *list = nc_value_path(world_get(w, kind, name), "metadata.finalizers");

    for (size_t i = 0; list && i < list->n; i++)
        if (nc_streq(nc_value_string(list->items[i]), "karpenter.sh/termination"))
            return true;
    return false;
}

static bool is_out(struct world *w, const struct nc_value *claim) {
    const char *node_name = nc_value_string(nc_value_path(claim, "status.nodeName"));
    const struct nc_value *node = node_name ? world_get(w, NODE, node_name) : NULL;

    return is_deleting(claim) || (node && !is_ready(node));
}

static void check_budget(struct world *w, const char *name) {
    unsigned out = 0;

    for (size_t i = 0; i < w->n; i++)
        if (w->objects[i].kind == CLAIM
            && !nc_streq(nc_value_string(nc_value_path(w->objects[i].v, "metadata.name")), name))
            out += is_out(w, w->objects[i].v);
    must(out < BUDGET);
}

/* Its Node is lost, or being deleted, or it is relayed: then the claim goes, whatever a budget
 * says. Otherwise it is voluntary. */
static void check_delete_claim(struct world *w, const struct nc_control_action *a) {
    const struct nc_value *node = world_get(w, NODE, a->name);

    must(!is_deleting(world_get(w, CLAIM, a->name)));
    if (a->is_relay || !node || is_deleting(node))
        return;
    must(!nc_streq(world_meta(w, CLAIM, a->name, "annotations", "karpenter.sh/do-not-disrupt"),
                   "true"));
    check_budget(w, a->name);
}

static bool is_drained(struct world *w, const char *name) {
    return nc_streq(world_condition(w, name, "Drained"), "True Drained");
}

/* A write that comes late is refused by its precondition: only what would be carried out counts. */
static bool is_stale(struct world *w, const struct nc_control_action *a) {
    const char *version = nc_value_string(nc_value_path(a->body, "metadata.resourceVersion"));

    return version
           && !nc_streq(version, world_text(w, a->what, a->name, "metadata.resourceVersion"));
}

static bool drops_finalizer(struct world *w, const struct nc_control_action *a) {
    const struct nc_value *list = nc_value_path(a->body, "metadata.finalizers");

    if (!list || !world_has_finalizer(w, a->what, a->name))
        return false;
    for (size_t i = 0; i < list->n; i++)
        if (nc_streq(nc_value_string(list->items[i]), NC_FINALIZER))
            return false;
    return true;
}

static void check(struct world *w, const struct nc_control_action *a) {
    const bool has_claim = world_get(w, CLAIM, a->name), has_node = world_get(w, NODE, a->name);

    if (!world_get(w, a->what, a->name) || is_stale(w, a))
        return;
    must(a->is_relay || !is_karpenters(w, CLAIM, a->name));
    must(has_claim || !is_karpenters(w, a->what, a->name));
    if (a->verb == NC_CONTROL_DELETE_CLAIM)
        check_delete_claim(w, a);
    if (a->verb == NC_CONTROL_END_INSTANCE) {
        must(is_deleting(world_get(w, CLAIM, a->name)));
        must(!has_node || is_drained(w, a->name));
    }
    if (a->verb == NC_CONTROL_DELETE_NODE || (a->what == NODE && drops_finalizer(w, a)))
        must(!has_claim || is_drained(w, a->name));
    if (a->what == CLAIM && drops_finalizer(w, a))
        must(is_deleting(world_get(w, CLAIM, a->name)) && !has_node);
}

/* --- disorder */

static const char *const statuses[] = {
    NULL,
    "{'id':'r','source':'rebalance','phase':'Detected'}",
    "{'id':'o','source':'operator','phase':'Evicting'}",
    "{'id':'m','source':'maintenance','phase':'Drained'}",
    "{'id':'x','source':'request','phase':'Drained'}",
    "[",
};
static const char *const claim_patches[] = {
    "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'}}}",
    "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':null}}}",
    "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'0'}}}",
    "{'metadata':{'annotations':{'karpenter.sh/nodepool-hash':'1'}}}",
};
static const char *const node_patches[] = {
    "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}",
    "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}",
    "{'status':{'conditions':[{'type':'Ready','status':'Unknown'}]}}",
    "{'spec':{'taints':[{'key':'other','effect':'NoSchedule'}]}}",
    "{'spec':{'taints':[]}}",
    "{'metadata':{'annotations':{'nodeclaimd.io/drain-request':null}}}",
    ("{'metadata':{'annotations':{'nodeclaimd.io/drain-request':"
     "'{\\\"id\\\":\\\"mine\\\",\\\"mode\\\":\\\"graceful\\\"}'}}}"),
};

static void disturb(struct world *w, const char *name, const struct disorder *d) {
    bool has_claim, has_node;

    world_reconcile(
        w); /* nothing is on its way: what is requested next follows from what is so now */
    has_claim = world_get(w, CLAIM, name);
    has_node = world_get(w, NODE, name);
    switch (pick(d, 12)) {
    case 0:
    case 1:
    case 2:
        if (has_claim)
            world_patch(w, CLAIM, name, claim_patches[pick(d, NC_ARRAY_SIZE(claim_patches))]);
        break;
    case 3:
    case 4:
    case 5:
        if (has_node)
            world_patch(w, NODE, name, node_patches[pick(d, NC_ARRAY_SIZE(node_patches))]);
        break;
    case 6:
    case 7:
        if (has_node)
            world_set_status(w, name, statuses[pick(d, NC_ARRAY_SIZE(statuses))]);
        break;
    case 8:
        if (has_claim && pick(d, 4) == 0)
            world_delete(w, CLAIM, name);
        break;
    case 9:
        if (has_node && pick(d, 6) == 0)
            world_delete(w, NODE, name);
        break;
    case 10:
        w->away[1 + pick(d, NC_CONTROL_EMIT_EVENT - 1)] = 1;
        break;
    default:
        world_restart(w);
        break;
    }
}

static void begin(struct world *w, const struct disorder *d) {
    char name[16];

    world_init(w);
    w->is_whole = d->is_whole;
    w->check_before = check;
    w->rules.terminates = pick(d, 4) > 0;
    w->is_watch_first = pick(d, 2) > 0;
    w->has_kubelet = pick(d, 2) > 0;
    world_restart(w);
    world_put(w, POOL,
              "{'metadata':{'name':'pool','annotations':{'karpenter.sh/nodepool-hash':'1',"
              "'karpenter.sh/nodepool-hash-version':'v3'}},"
              "'spec':{'disruption':{'budgets':[{'nodes':'2'}]}}}");
    for (unsigned i = 0; i < d->claims; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        world_add_claim(w, name, i % 2 ? "'expireAfter':'20m'" : "'terminationGracePeriod':'10m'");
        if (i == 0)
            world_patch(w, CLAIM, name, "{'metadata':{'finalizers':['karpenter.sh/termination']}}");
        world_add_node(w, name);
    }
}

/* Nobody disturbs any more, and everything is asked to go. */
static void end(struct world *w, const struct disorder *d) {
    char name[16];

    world_reconcile(w); /* what is on its way already is not asked about what happens now */
    memset(w->away, 0, sizeof(w->away));
    for (unsigned i = 1; i < d->claims; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        if (world_get(w, NODE, name)) {
            world_patch(w, NODE, name,
                        "{'metadata':{'annotations':{'nodeclaimd.io/drain-request':null}}}");
            world_set_status(w, name, NULL);
        }
        if (world_get(w, CLAIM, name))
            world_delete(w, CLAIM, name);
    }
    world_advance(w, 3600 * WORLD_SEC);
    for (unsigned i = 1; i < d->claims; i++) {
        (void)snprintf(name, sizeof(name), "n%u", i);
        must(!world_get(w, CLAIM, name));
    }
    must(world_get(w, CLAIM, "n0"));
    must(!world_has_finalizer(w, CLAIM, "n0"));
}

static void disturb_any(struct world *w, const struct disorder *d) {
    char name[16];

    (void)snprintf(name, sizeof(name), "n%u", (unsigned)pick(d, d->claims));
    disturb(w, name, d);
    if (pick(d, 3))
        world_advance(w, pick(d, 40) * WORLD_SEC);
}

#endif
