/*
 * Which claims of a NodePool are to go, and which of them now: expiry, drift, rebalance
 * recommendations, under the pool's budgets. Rules S8, S9. What a node writes on its own Node
 * delays nobody's end: only the claim's do-not-disrupt counts, and NotReady for a bounded time.
 */
#include "nc/str.h"
#include "standalone-priv.h"

/* --- reasons */

static bool differs(const char *hash, const char *version, const char *of, const char *of_version) {
    return *hash && of && *version && nc_streq(version, of_version) && !nc_streq(hash, of);
}

const char *nc_standalone_drift(const struct control_claim *claim) {
    const struct control_claim_more *m = claim->more;
    const struct control_pool *p = claim->pool;
    const struct control_class *k = claim->class;
    const char *t[4];

    if (!nc_control_strings_next(&m->hashes, NULL, NC_ARRAY_SIZE(t), t))
        return NULL;
    if (p && p->is_there && differs(t[0], t[1], p->hash, p->hash_version))
        return "NodePoolDrifted";
    if (k && k->is_there && differs(t[2], t[3], k->hash, k->hash_version))
        return "NodeClassDrifted";
    return NULL;
}

bool nc_standalone_wants_out(const struct standalone_view *v, enum nc_budget_reason *ret) {
    const struct control_claim *claim = v->claim;
    const struct control_drain_status *w = v->node ? v->node->drain_status : NULL;

    if (nc_control_is_deleting(claim) || claim->more->do_not_disrupt)
        return false;
    if (nc_standalone_expiry(claim) <= v->now_usec)
        *ret = NC_BUDGET_EXPIRED;
    else if (!v->node || !nc_standalone_is(claim, CONTROL_COND_INITIALIZED))
        return false;
    else if (nc_standalone_drift(claim))
        *ret = NC_BUDGET_DRIFTED;
    else if (v->c->rules.rebalances && w && w->source == NC_SOURCE_REBALANCE
             && w->phase != CONTROL_PHASE_NONE)
        *ret = NC_BUDGET_REBALANCE;
    else
        return false;
    return true;
}

/* --- budgets */

static uint64_t unready_for(const struct control_unready *u, uint64_t now_usec) {
    return u->before_usec + (now_usec > u->since_usec ? now_usec - u->since_usec : 0);
}

static void note_ready(struct control_unready *u, bool is_ready, uint64_t now_usec) {
    if (is_ready && !u->ready_usec) {
        if (u->since_usec)
            u->before_usec = unready_for(u, now_usec);
        *u = (struct control_unready){.ready_usec = now_usec, .before_usec = u->before_usec};
    } else if (!is_ready && !u->since_usec) {
        if (u->ready_usec + NC_STANDALONE_READY_USEC <= now_usec)
            u->before_usec = 0;
        *u = (struct control_unready){.since_usec = now_usec, .before_usec = u->before_usec};
    }
}

static bool has_registered_node(const struct standalone_view *v) {
    return v->node && nc_standalone_is(v->claim, CONTROL_COND_REGISTERED);
}

/* Its Node is not Ready, and has not been for too long to be waited for. */
static bool may_become_ready(const struct standalone_view *v) {
    const struct control_unready *u = &v->claim->more->unready;

    return has_registered_node(v) && u->since_usec
           && unready_for(u, v->now_usec) < NC_STANDALONE_UNREADY_USEC;
}

void nc_standalone_count(struct nc_control *c, struct control_claim *claim) {
    nc_control_uncount(claim);
    nc_standalone_note_turn(c, claim);
    if (!claim->pool || !claim->more)
        return;
    const struct standalone_view v = nc_standalone_view(c, claim, c->now_usec);
    if (has_registered_node(&v))
        note_ready(&claim->more->unready, v.node->more->is_ready, c->now_usec);
    claim->counts_as_out = nc_standalone_is_leaving(claim) || may_become_ready(&v);
    claim->counts_as_node =
        claim->counts_as_out || (v.node && nc_standalone_is(claim, CONTROL_COND_INITIALIZED));
    claim->pool->n_nodes += claim->counts_as_node;
    claim->pool->n_out += claim->counts_as_out;
}

static bool may_disrupt(const struct control_pool *pool) {
    return pool && pool->is_there && pool->budgets;
}

static bool has_room(const struct standalone_view *v, unsigned n_out, enum nc_budget_reason why) {
    const struct control_pool *pool = v->claim->pool;
    const unsigned others = n_out - v->claim->counts_as_out;
    const unsigned n_nodes = pool->n_nodes + !v->claim->counts_as_node;

    return others < nc_budgets_allowed(pool->budgets, why, n_nodes, v->now_usec);
}

bool nc_standalone_has_room(const struct standalone_view *v, enum nc_budget_reason why) {
    return may_disrupt(v->claim->pool) && has_room(v, v->claim->pool->n_out, why);
}

/* --- the choice */

/* Claims that count because their Nodes are not Ready, for long. */
struct held {
    const struct control_node *node; /* of one of them */
    unsigned n;
    uint64_t usec;
};

/* Nothing of the claim changes when its time is over. */
static void check_unready(struct control_claim *claim, const struct standalone_view *v,
                          struct held *held, uint64_t *next_usec) {
    const struct control_unready *u = &claim->more->unready;
    const uint64_t usec = unready_for(u, v->now_usec);

    if (!claim->counts_as_out || nc_standalone_is_leaving(claim) || !v->node)
        return;
    if (usec >= NC_STANDALONE_UNREADY_USEC) {
        nc_standalone_count(v->c, claim);
        return;
    }
    nc_control_sooner(next_usec, v->now_usec + NC_STANDALONE_UNREADY_USEC - usec);
    if (usec < NC_STANDALONE_BLOCKED_USEC) {
        nc_control_sooner(next_usec, v->now_usec + NC_STANDALONE_BLOCKED_USEC - usec);
        return;
    }
    held->n++;
    if (usec > held->usec) {
        held->node = v->node;
        held->usec = usec;
    }
}

static bool was_blocked_reported(const struct nc_control *c, const struct control_pool *pool) {
    return pool->reported_usec
           && nc_control_is_ahead(pool->reported_usec + NC_STANDALONE_UNREADY_USEC, c->now_usec,
                                  NC_STANDALONE_UNREADY_USEC);
}

static void report_unreadable(struct nc_control *c, struct control_pool *pool) {
    if (pool->is_there && !pool->budgets && !was_blocked_reported(c, pool)
        && nc_control_emit(c, &pool->o, "DisruptionBlocked", true,
                           "The budgets cannot be read, or the NodePool is being deleted: nothing "
                           "is disrupted"))
        pool->reported_usec = c->now_usec;
}

static void report_held(struct nc_control *c, struct control_pool *pool, const struct held *held) {
    if (held->n == 0 || was_blocked_reported(c, pool))
        return;
    if (nc_control_emit(c, &pool->o, "DisruptionBlocked", true,
                        "The budgets have no room: %u Nodes are not Ready, %s for %llu minutes. "
                        "Each counts for %llu minutes a day",
                        held->n, held->node->o.name, (unsigned long long)(held->usec / 60000000),
                        (unsigned long long)(NC_STANDALONE_UNREADY_USEC / 60000000)))
        pool->reported_usec = c->now_usec;
}

struct candidate {
    struct standalone_view view;
    enum nc_budget_reason why;
};

static int rank(enum nc_budget_reason why) {
    switch (why) {
    case NC_BUDGET_EXPIRED:
        return 0;
    case NC_BUDGET_DRIFTED:
        return 1;
    case NC_BUDGET_REBALANCE:
    case NC_BUDGET_EMPTY:
    case NC_BUDGET_UNDERUTILIZED:
    case _NC_BUDGET_REASON_MAX:
        break;
    }
    return 2;
}

static int compare(const void *pa, const void *pb) {
    const struct candidate *a = pa, *b = pb;
    const struct control_claim *x = a->view.claim, *y = b->view.claim;

    if (rank(a->why) != rank(b->why))
        return rank(a->why) - rank(b->why);
    if (x->created_usec != y->created_usec)
        return x->created_usec < y->created_usec ? -1 : 1;
    return strcmp(x->o.name, y->o.name);
}

static void choose(struct control_claim *claim, int disrupt) {
    claim->more->disrupt = disrupt;
}

/* The condition Drifted of a claim is not what it should be: nothing about the claim itself has
 * changed. */
static void touch_drifted(struct nc_control *c, struct control_claim *claim) {
    if (nc_standalone_is(claim, CONTROL_COND_INITIALIZED)
        && (nc_standalone_drift(claim) != NULL)
               != (claim->more->truths[CONTROL_COND_DRIFTED] == CONTROL_TRUE))
        nc_control_touch(c, &claim->o);
}

static size_t gather(struct nc_control *c, struct control_pool *pool, struct candidate *ret,
                     struct held *held, uint64_t *next_usec) {
    const uint64_t now_usec = c->now_usec;
    size_t n = 0;

    for (struct control_claim *claim = pool->claims; claim; claim = claim->pool_next) {
        enum nc_budget_reason why = NC_BUDGET_EMPTY;
        if (!claim->more)
            continue;
        const struct standalone_view v = nc_standalone_view(c, claim, now_usec);
        choose(claim, 0);
        claim->more->waits_for_zone = false;
        check_unready(claim, &v, held, next_usec);
        if (nc_standalone_is_foreign(&v) || nc_standalone_is_leaving(claim))
            continue;
        touch_drifted(c, claim);
        if (nc_standalone_wants_out(&v, &why))
            ret[n++] = (struct candidate){v, why};
        if (nc_standalone_expiry(claim)
            > now_usec) /* also one that waits for another budget's room */
            nc_control_sooner(next_usec, nc_standalone_expiry(claim));
    }
    return n;
}

/* Of the claims that the budgets have room for, those of one zone may go. */
static void evaluate_turns(struct nc_control *c, const struct control_pool *pool,
                           struct candidate *v, size_t n, uint64_t *next_usec) {
    if (!c->rules.zone_turn_usec)
        return;
    for (size_t i = 0; i < n; i++)
        v[i].view.claim->more->waits_for_zone =
            may_disrupt(pool) && has_room(&v[i].view, pool->n_out, v[i].why);
    nc_standalone_turn(c, next_usec);
}

void nc_standalone_pool(struct nc_control *c, struct control_pool *pool, uint64_t now_usec,
                        uint64_t *next_usec) {
    struct held held = {0};
    bool has_no_room = false;

    *next_usec = UINT64_MAX;
    nc_auto_free struct candidate *v = nc_calloc(pool->n_claims + 1, sizeof(*v));
    const size_t n = gather(c, pool, v, &held, next_usec);
    unsigned n_out = pool->n_out; /* with those that are chosen here */
    evaluate_turns(c, pool, v, n, next_usec);
    if (n > 0)
        report_unreadable(c, pool);
    if (n == 0 || !may_disrupt(pool))
        return;
    qsort(v, n, sizeof(*v), compare);
    for (size_t i = 0; i < n; i++) {
        if (!nc_standalone_has_turn(&v[i].view))
            continue;
        v[i].view.claim->more->waits_for_zone = false;
        if (!has_room(&v[i].view, n_out, v[i].why)) {
            has_no_room = true;
            continue;
        }
        n_out += !v[i].view.claim->counts_as_out;
        choose(v[i].view.claim, (int)v[i].why + 1);
        nc_control_touch(c, &v[i].view.claim->o);
    }
    if (has_no_room)
        report_held(c, pool, &held);
    nc_control_sooner(next_usec, nc_budgets_next(pool->budgets, now_usec));
}
