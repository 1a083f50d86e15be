/*
 * What the controller holds: objects by name, and who belongs to whom. Hash tables with chains; a
 * link knows what points at it, so that leaving a chain costs nothing, however long it is.
 */
#include "nc/str.h"
#include "step.h"

#define FIRST_ROOM 64u
#define CLOCKS_DIFFER_USEC (30ull * 1000000)

uint32_t nc_control_hash(const struct nc_control *c, const char *text) {
    uint32_t h = 2166136261u ^ c->hash_seed; /* FNV-1a, then mixed: names differ at their end */

    for (const char *p = text; *p; p++)
        h = (h ^ (unsigned char)*p) * 16777619u;
    h ^= h >> 15;
    h *= 0x2c1b3c6du;
    return h ^ (h >> 13);
}

static void attach(struct control_table *t, struct control_link *l) {
    struct control_link **slot = &t->slots[l->hash & (t->room - 1)];

    l->next = *slot;
    l->at = slot;
    if (l->next)
        l->next->at = &l->next;
    *slot = l;
}

static void grow(struct control_table *t) {
    struct control_table bigger = {.n = t->n, .room = t->room ? 2 * t->room : FIRST_ROOM};

    bigger.slots = nc_calloc(bigger.room, sizeof(struct control_link *));
    for (size_t i = 0; i < t->room; i++)
        for (struct control_link *l = t->slots[i], *next = NULL; l; l = next) {
            next = l->next;
            attach(&bigger, l);
        }
    free(t->slots);
    *t = bigger;
}

void nc_control_link(const struct nc_control *c, struct control_table *t, struct control_link *l,
                     const char *key) {
    if (t->n >= t->room)
        grow(t);
    l->key = key;
    l->hash = nc_control_hash(c, key);
    attach(t, l);
    t->n++;
}

void nc_control_unlink(struct control_table *t, struct control_link *l) {
    if (!l->at)
        return;
    *l->at = l->next;
    if (l->next)
        l->next->at = l->at;
    *l = (struct control_link){0};
    t->n--;
}

static struct control_link *matching(struct control_link *l, uint32_t hash, const char *key) {
    while (l && (l->hash != hash || !nc_streq(l->key, key)))
        l = l->next;
    return l;
}

struct control_link *nc_control_find(const struct nc_control *c, const struct control_table *t,
                                     const char *key) {
    if (t->n == 0 || !key)
        return NULL;
    const uint32_t hash = nc_control_hash(c, key);
    return matching(t->slots[hash & (t->room - 1)], hash, key);
}

/* The next of the same key. */
static struct control_link *same(const struct control_link *l) {
    return matching(l->next, l->hash, l->key);
}

/* ---- queues */

void nc_control_enqueue(struct control_queue *q, struct control_object *o, size_t which) {
    struct control_hook *h = &o->hooks[which];

    if (h->at)
        return;
    if (!q->first)
        q->end = &q->first;
    h->next = NULL;
    h->at = q->end;
    *q->end = o;
    q->end = &h->next;
    q->n++;
}

void nc_control_enqueue_first(struct control_queue *q, struct control_object *o, size_t which) {
    struct control_hook *h = &o->hooks[which];

    if (h->at)
        return;
    h->next = q->first;
    h->at = &q->first;
    if (h->next)
        h->next->hooks[which].at = &h->next;
    else
        q->end = &h->next;
    q->first = o;
    q->n++;
}

void nc_control_dequeue(struct control_queue *q, struct control_object *o, size_t which) {
    struct control_hook *h = &o->hooks[which];

    if (!h->at)
        return;
    *h->at = h->next;
    if (h->next)
        h->next->hooks[which].at = h->at;
    else
        q->end = h->at;
    *h = (struct control_hook){0};
    q->n--;
}

struct control_object *nc_control_pop(struct control_queue *q, size_t which) {
    struct control_object *o = q->first;

    if (o)
        nc_control_dequeue(q, o, which);
    return o;
}

void nc_control_touch(struct nc_control *c, struct control_object *o) {
    nc_control_enqueue(&c->dirty, o, CONTROL_HOOK_DIRTY);
}

void nc_control_touch_kind(struct nc_control *c, enum nc_control_kind k) {
    for (size_t i = 0; i < c->names[k].room; i++)
        for (struct control_link *l = c->names[k].slots[i]; l; l = l->next)
            nc_control_touch(c, nc_control_object_of(l));
}

void nc_control_touch_all(struct nc_control *c) {
    for (enum nc_control_kind k = 0; c->leads && k < _NC_CONTROL_KIND_MAX; k++)
        nc_control_touch_kind(c, k);
}

/* ---- times: a binary heap by wake_usec, places from 1 */

static void set_place(struct nc_control *c, size_t at, struct control_object *o) {
    c->heap[at - 1] = o;
    o->wake_at = (uint32_t)at;
}

static void sift_up(struct nc_control *c, size_t at, struct control_object *o) {
    for (; at > 1 && c->heap[at / 2 - 1]->wake_usec > o->wake_usec; at /= 2)
        set_place(c, at, c->heap[at / 2 - 1]);
    set_place(c, at, o);
}

static void sift_down(struct nc_control *c, size_t at, struct control_object *o) {
    for (size_t child = 0; 2 * at <= c->n_heap; at = child) {
        child = 2 * at;
        if (child < c->n_heap && c->heap[child]->wake_usec < c->heap[child - 1]->wake_usec)
            child++;
        if (c->heap[child - 1]->wake_usec >= o->wake_usec)
            break;
        set_place(c, at, c->heap[child - 1]);
    }
    set_place(c, at, o);
}

static void leave_heap(struct nc_control *c, struct control_object *o) {
    const size_t at = o->wake_at;
    struct control_object *last = c->heap[c->n_heap - 1];

    c->n_heap--;
    o->wake_at = 0;
    if (last == o)
        return;
    if (at > 1 && c->heap[at / 2 - 1]->wake_usec > last->wake_usec)
        sift_up(c, at, last);
    else
        sift_down(c, at, last);
}

void nc_control_wake_at(struct nc_control *c, struct control_object *o, uint64_t usec) {
    if (o->wake_at && o->wake_usec == usec)
        return;
    if (o->wake_at)
        leave_heap(c, o);
    o->wake_usec = usec;
    if (usec == UINT64_MAX)
        return;
    if (c->n_heap == c->heap_room) {
        c->heap_room = c->heap_room ? 2 * c->heap_room : FIRST_ROOM;
        c->heap = nc_realloc_array(c->heap, c->heap_room, sizeof(struct control_object *));
    }
    c->n_heap++;
    sift_up(c, c->n_heap, o);
}

/* ---- lookups */

void *nc_control_named(const struct nc_control *c, enum nc_control_kind k, const char *name) {
    const struct control_link *l = nc_control_find(c, &c->names[k], name);

    return l ? nc_control_object_of(l) : NULL;
}

struct control_node *nc_control_node(const struct nc_control *c, const char *name) {
    return nc_control_named(c, NC_CONTROL_NODE, name);
}

static struct control_claim *of_node_link(const struct control_link *l) {
    return l ? (struct control_claim *)((char *)(uintptr_t)l
                                        - offsetof(struct control_claim, by_node))
             : NULL;
}

static struct control_claim *claim_of_provider(const struct nc_control *c, const char *id) {
    struct control_link *l = nc_control_find(c, &c->claims_by_provider, id);

    if (!l || same(l))
        return NULL;
    return ((struct control_claim_more *)((char *)l
                                          - offsetof(struct control_claim_more, by_provider)))
        ->claim;
}

static struct control_node *of_node_provider(const struct control_link *l) {
    return ((const struct control_node_more *)((const char *)l
                                               - offsetof(struct control_node_more, by_provider)))
        ->node;
}

unsigned nc_control_nodes_with(const struct nc_control *c, const char *provider_id,
                               struct control_node **ret_first) {
    struct control_link *l = nc_control_find(c, &c->nodes_by_provider, provider_id);

    *ret_first = NULL;
    if (!l)
        return 0;
    *ret_first = of_node_provider(l);
    return same(l) ? 2 : 1;
}

struct control_claim *nc_control_naming(const struct nc_control *c, const struct control_node *node,
                                        bool *ret_any) {
    struct control_link *l = nc_control_find(c, &c->claims_by_node, node->o.name);

    *ret_any = l != NULL;
    if (!node->owner_uid)
        return l && !same(l) ? of_node_link(l) : NULL;
    for (; l; l = same(l))
        if (nc_streq(of_node_link(l)->o.uid, node->owner_uid))
            return of_node_link(l);
    return NULL;
}

/* A name may come again with another machine. Where the Node's metadata are all that is seen, its
 * providerID is not known: but the Node that was registered was there by then (and clocks differ).
 * A later one without an owner may be of any machine. */
static bool is_another_machine(const struct nc_control *c, const struct control_node *node,
                               const struct control_claim *claim) {
    const char *provider_id = nc_control_provider_of(claim);

    if (node->provider_hash && provider_id)
        return node->provider_hash != nc_control_hash(c, provider_id);
    return !node->owner_uid && claim->registered_usec
           && node->created_usec > claim->registered_usec + CLOCKS_DIFFER_USEC;
}

/* Before it is registered: the Node of this providerID that cannot be another machine's. */
static struct control_node *bound_node(const struct nc_control *c,
                                       const struct control_claim *claim) {
    const struct control_claim_more *m = claim->more;
    const char *slash = strrchr(m->provider_id, '/');
    const char *const names[] = {slash ? slash + 1 : NULL, m->dns_name};
    struct control_node *node = NULL;

    if (c->rules.identity == NC_CONTROL_IDENTITY_ADMISSION) /* the only one: of all of them */
        return c->is_synced[NC_CONTROL_NODE] && nc_control_nodes_with(c, m->provider_id, &node) == 1
                   ? node
                   : NULL;
    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++) {
        node = nc_control_node(c, names[i]);
        if (node && node->more && nc_streq(node->more->provider_id, m->provider_id))
            return node;
    }
    return NULL;
}

struct control_claim *nc_control_claim_of(const struct nc_control *c,
                                          const struct control_node *node) {
    bool is_named = false;
    struct control_claim *claim = nc_control_naming(c, node, &is_named);

    if (claim && is_another_machine(c, node, claim))
        return NULL;
    if (is_named || c->mode != NC_CONTROL_STANDALONE || !node->more || !node->more->provider_id)
        return claim;
    claim = claim_of_provider(c, node->more->provider_id);
    return claim && !claim->node_name && bound_node(c, claim) == node ? claim : NULL;
}

struct control_node *nc_control_node_of(const struct nc_control *c,
                                        const struct control_claim *claim) {
    struct control_node *node = NULL;

    if (claim->node_name)
        node = nc_control_node(c, claim->node_name);
    else if (c->mode == NC_CONTROL_STANDALONE && claim->more && claim->more->provider_id)
        node = bound_node(c, claim);
    return node && nc_control_claim_of(c, node) == claim ? node : NULL;
}

/* What may be done about its pool's others depends on it. */
static void touch_claim(struct nc_control *c, struct control_claim *claim) {
    nc_control_touch(c, &claim->o);
    if (claim->pool)
        nc_control_touch(c, &claim->pool->o);
}

/* Where one of two Nodes goes, it is the other one that can be registered. Of more than two that
 * say to be the same machine nothing follows for any: they are not walked through. */
static void touch_provider(struct nc_control *c, const char *provider_id) {
    struct control_claim *claim = claim_of_provider(c, provider_id);
    struct control_link *l = nc_control_find(c, &c->nodes_by_provider, provider_id);
    struct control_node *node = claim && claim->more ? bound_node(c, claim) : NULL;

    for (unsigned n = 0; l && n < 2; n++, l = same(l))
        nc_control_touch(c, &of_node_provider(l)->o);
    if (node)
        nc_control_touch(c, &node->o);
    if (claim)
        touch_claim(c, claim);
}

void nc_control_touch_around(struct nc_control *c, struct control_object *o) {
    struct control_claim *claim = nc_control_as_claim(o);
    const char *node_name = NULL, *provider_id = NULL;
    struct control_node *node = NULL;

    nc_control_touch(c, o);
    if (o->kind == NC_CONTROL_NODE) {
        node_name = o->name;
        if (nc_control_as_node(o)->more)
            provider_id = nc_control_as_node(o)->more->provider_id;
    } else if (o->kind == NC_CONTROL_CLAIM) {
        node_name = claim->node_name;
        if (claim->more)
            provider_id = claim->more->provider_id;
        touch_claim(c, claim);
    }
    for (struct control_link *l = nc_control_find(c, &c->claims_by_node, node_name); l; l = same(l))
        touch_claim(c, of_node_link(l));
    if (o->kind == NC_CONTROL_CLAIM && node_name && (node = nc_control_node(c, node_name)))
        nc_control_touch(c, &node->o);
    if (provider_id)
        touch_provider(c, provider_id);
}
