/*
 * Objects come and go: what they own, and what must be unlinked from them.
 */
#include "fit.h"
#include "lifecycle-action.h"
#include "nc/str.h"
#include "out-of-service.h"
#include "step.h"

static const size_t sizes[_NC_CONTROL_KIND_MAX] = {
    [NC_CONTROL_NODE] = sizeof(struct control_node),
    [NC_CONTROL_CLAIM] = sizeof(struct control_claim),
    [NC_CONTROL_POOL] = sizeof(struct control_pool),
    [NC_CONTROL_CLASS] = sizeof(struct control_class),
};

static void set_name(struct control_object *o, const char *name, const char *uid) {
    const size_t n = strlen(name) + 1, m = strlen(uid) + 1;
    char *both = nc_malloc(n + m);

    memcpy(both, name, n);
    memcpy(both + n, uid, m);
    free(o->name);
    o->name = both;
    o->uid = both + n;
}

void nc_control_set_uid(struct nc_control *c, struct control_object *o, const char *uid) {
    nc_control_unlink(&c->names[o->kind], &o->by_name);
    set_name(o, o->name, uid);
    o->rv = 0;
    nc_control_link(c, &c->names[o->kind], &o->by_name, o->name);
}

struct control_object *nc_control_put(struct nc_control *c, enum nc_control_kind k,
                                      const char *name, const char *uid) {
    struct control_object *o = nc_calloc(1, sizes[k]);

    o->kind = k;
    o->wake_usec = UINT64_MAX;
    set_name(o, name, uid);
    nc_control_link(c, &c->names[k], &o->by_name, o->name);
    if (k == NC_CONTROL_POOL)
        nc_control_as_pool(o)->expire_after_usec = UINT64_MAX;
    return o;
}

struct control_node_more *nc_control_node_more_free(struct control_node_more *m) {
    if (!m)
        return NULL;
    free(m->provider_id);
    free(m->drain_request);
    free(m->owners);
    nc_control_strings_done(&m->taints);
    nc_control_strings_done(&m->finalizers);
    nc_control_strings_done(&m->allocatable);
    free(m);
    return NULL;
}

static void free_early(struct control_claim_early *e) {
    if (!e)
        return;
    nc_control_strings_done(&e->labels);
    nc_control_strings_done(&e->annotations);
    nc_control_strings_done(&e->requests);
    nc_control_strings_done(&e->taints);
    nc_control_strings_done(&e->startup_taints);
    free(e);
}

struct control_claim_more *nc_control_claim_more_free(struct control_claim_more *m) {
    if (!m)
        return NULL;
    free(m->provider_id);
    free(m->dns_name);
    free(m->zone);
    nc_control_strings_done(&m->conditions);
    nc_control_strings_done(&m->hashes);
    nc_control_strings_done(&m->finalizers);
    free_early(m->early);
    free(m);
    return NULL;
}

const struct control_claim_early *nc_control_early(const struct control_claim *claim) {
    static const struct control_claim_early none = {0};

    return claim->more->early ? claim->more->early : &none;
}

void nc_control_set_dns_name(struct control_claim *claim, const char *name) {
    if (!claim->more || !name)
        return;
    free(claim->more->dns_name);
    claim->more->dns_name = nc_strdup(name);
    for (char *p = claim->more->dns_name; *p; p++)
        if (*p >= 'A' && *p <= 'Z')
            *p = (char)(*p - 'A' + 'a');
}

static void drop(struct nc_control *c, struct control_object *o);

void nc_control_uncount(struct control_claim *claim) {
    if (claim->counts_as_node)
        claim->pool->n_nodes--;
    if (claim->counts_as_out)
        claim->pool->n_out--;
    claim->counts_as_node = claim->counts_as_out = false;
}

void nc_control_set_pool(struct nc_control *c, struct control_claim *claim, const char *name) {
    struct control_pool *old = claim->pool, *pool = NULL;

    if (old && name && nc_streq(old->o.name, name))
        return;
    nc_control_uncount(claim);
    if (old) {
        *claim->pool_at = claim->pool_next;
        if (claim->pool_next)
            claim->pool_next->pool_at = claim->pool_at;
        old->n_claims--;
        claim->pool = NULL;
        nc_control_touch(c, &old->o);
        if (!old->is_there && old->n_claims == 0) /* only claims named it */
            drop(c, &old->o);
    }
    if (!name)
        return;
    pool = nc_control_named(c, NC_CONTROL_POOL, name);
    if (!pool)
        pool = nc_control_as_pool(nc_control_put(c, NC_CONTROL_POOL, name, ""));
    claim->pool = pool;
    claim->pool_next = pool->claims;
    claim->pool_at = &pool->claims;
    if (pool->claims)
        pool->claims->pool_at = &claim->pool_next;
    pool->claims = claim;
    pool->n_claims++;
}

void nc_control_set_class(struct nc_control *c, struct control_claim *claim, const char *name) {
    struct control_class *old = claim->class, *k = NULL;

    if (old && name && nc_streq(old->o.name, name))
        return;
    if (old) {
        *claim->class_at = claim->class_next;
        if (claim->class_next)
            claim->class_next->class_at = claim->class_at;
        old->n_claims--;
        claim->class = NULL;
        if (!old->is_there && old->n_claims == 0)
            drop(c, &old->o);
    }
    if (!name)
        return;
    k = nc_control_named(c, NC_CONTROL_CLASS, name);
    if (!k)
        k = nc_control_as_class(nc_control_put(c, NC_CONTROL_CLASS, name, ""));
    claim->class = k;
    claim->class_next = k->claims;
    claim->class_at = &k->claims;
    if (k->claims)
        k->claims->class_at = &claim->class_next;
    k->claims = claim;
    k->n_claims++;
}

static void done_node(struct nc_control *c, struct control_node *n) {
    if (n->more)
        nc_control_unlink(&c->nodes_by_provider, &n->more->by_provider);
    n->more = nc_control_node_more_free(n->more);
    n->drain_status = nc_control_drain_status_free(n->drain_status);
    n->left = nc_control_left_free(n->left);
    n->lifecycle = nc_control_lifecycle_free(n->lifecycle);
    n->outage = nc_control_outage_free(n->outage);
    n->fit = nc_control_fit_free(n->fit);
    free(n->owner_uid);
    free(n->pool);
}

/* With the first one, and without the last one, all others may be something else. */
void nc_control_count_karpenter(struct nc_control *c, struct control_claim *claim, bool counts) {
    const bool were_any = c->n_karpenter_claims > 0;

    if (counts == claim->counts_as_karpenter)
        return;
    claim->counts_as_karpenter = counts;
    c->n_karpenter_claims += counts ? 1 : (size_t)-1;
    if (c->is_guess && were_any != (c->n_karpenter_claims > 0))
        nc_control_touch_all(c);
}

static void done_claim(struct nc_control *c, struct control_claim *claim) {
    nc_control_set_pool(c, claim, NULL);
    nc_control_set_class(c, claim, NULL);
    nc_control_unlink(&c->claims_by_node, &claim->by_node);
    if (claim->more)
        nc_control_unlink(&c->claims_by_provider, &claim->more->by_provider);
    claim->more = nc_control_claim_more_free(claim->more);
    claim->left = nc_control_left_free(claim->left);
    nc_control_drop_boot_failure(claim);
    nc_control_drop_promise(c, claim);
    nc_control_count_karpenter(c, claim, false);
    free(claim->node_name);
    free(claim->provider_id);
}

static void done(struct nc_control *c, struct control_object *o) {
    switch (o->kind) {
    case NC_CONTROL_NODE:
        done_node(c, nc_control_as_node(o));
        break;
    case NC_CONTROL_CLAIM:
        done_claim(c, nc_control_as_claim(o));
        break;
    case NC_CONTROL_POOL:
        if (nc_control_as_pool(o)->budgets)
            c->standalone->budgets_free(nc_control_as_pool(o)->budgets);
        free(nc_control_as_pool(o)->hash);
        free(nc_control_as_pool(o)->hash_version);
        break;
    case NC_CONTROL_CLASS:
        free(nc_control_as_class(o)->hash);
        free(nc_control_as_class(o)->hash_version);
        break;
    case _NC_CONTROL_KIND_MAX:
        break;
    }
}

static void drop(struct nc_control *c, struct control_object *o) {
    done(c, o);
    nc_control_wake_at(c, o, UINT64_MAX);
    nc_control_dequeue(&c->dirty, o, CONTROL_HOOK_DIRTY);
    if (o->waits_in)
        nc_control_dequeue(o->waits_in, o, CONTROL_HOOK_WAIT);
    for (size_t i = 0; o->write.id && i < c->n_in_flight; i++)
        if (c->in_flight[i].object == o)
            c->in_flight[i].object = NULL;
    nc_control_unlink(&c->names[o->kind], &o->by_name);
    free(o->name);
    free(o);
}

/* A pool or class that claims still name stays as an entry. */
void nc_control_gone(struct nc_control *c, struct control_object *o) {
    struct control_pool *p = nc_control_as_pool(o);
    struct control_class *k = nc_control_as_class(o);

    if (o->kind == NC_CONTROL_POOL) {
        c->n_pools_there -= p->is_there;
        p->is_there = false;
        nc_control_touch(c, o);
        if (p->n_claims > 0) {
            nc_control_set_uid(c, o, "");
            return;
        }
    } else if (o->kind == NC_CONTROL_CLASS) {
        c->n_classes_there -= k->is_there;
        k->is_there = false;
        for (struct control_claim *claim = k->claims; claim; claim = claim->class_next)
            nc_control_touch_around(c, &claim->o);
        if (k->n_claims > 0) {
            nc_control_set_uid(c, o, "");
            return;
        }
    }
    drop(c, o);
}

static void drop_all(struct nc_control *c, enum nc_control_kind k) {
    struct control_table *t = &c->names[k];

    for (size_t i = 0; i < t->room; i++)
        while (t->slots[i])
            drop(c, nc_control_object_of(t->slots[i]));
    free(t->slots);
    *t = (struct control_table){0};
}

/* Claims first: with them go the entries that only they name. */
void nc_control_drop_all(struct nc_control *c) {
    drop_all(c, NC_CONTROL_CLAIM);
    drop_all(c, NC_CONTROL_NODE);
    drop_all(c, NC_CONTROL_POOL);
    drop_all(c, NC_CONTROL_CLASS);
    free(c->claims_by_node.slots);
    free(c->nodes_by_provider.slots);
    free(c->claims_by_provider.slots);
}
