/*
 * The drain: what is due for which pod, and what an answer changes.
 *
 * There are two questions about each pod: must it go by force now (its force-delete time), and may
 * it be asked to go. Both give a verb and a moment; nc_drain_step acts on those that have come,
 * nc_drain_next tells the nearest that has not, so the two cannot disagree. Nothing is allocated
 * here but the words of a refusal.
 */
#include "nc/drain.h"

#include <stdlib.h>
#include <string.h>

#include "nc/backoff.h"
#include "nc/mem.h"

#include "drain-priv.h"

#define MARK_AHEAD_USEC NC_SEC_USEC
#define MARK_PATIENCE_USEC NC_SEC_USEC
#define EVICT_PATIENCE_USEC NC_SEC_USEC
#define TURN_USEC (10 * NC_SEC_USEC) /* so long a pod holds up the tiers behind it, under T */
#define LATE_ENOUGH_USEC NC_SEC_USEC /* an end this much after T is not worth a deletion */
#define MAX_RETRY_AFTER_USEC (10 * NC_SEC_USEC)
/* What tolerates every taint may be put back here, cordon or not: it is not chased around. */
#define REPLACED_USEC (30 * NC_SEC_USEC)
#define MIN_LIMIT 8u /* of evictions in flight, however busy the server is */

struct due {
    enum nc_drain_verb verb;
    uint64_t usec; /* UINT64_MAX: only an event helps */
};
static const struct due never = {.usec = UINT64_MAX};

static uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

uint64_t nc_drain_force_delete_at(const struct nc_pod *p, uint64_t t_usec) {
    return t_usec ? nc_less_usec(t_usec, nc_sec_to_usec(p->grace_sec)) : UINT64_MAX;
}

/* What would end within a second anyway cannot be shortened. */
bool nc_drain_ends_late(const struct nc_pod *p, uint64_t t_usec, uint64_t now_usec) {
    return p->deletion_usec > nc_sum_usec(later(t_usec, now_usec), LATE_ENOUGH_USEC);
}

static struct due due_shortening(const struct record *e, uint64_t t_usec, uint64_t now_usec) {
    if (e->is_deleting || !nc_drain_ends_late(&e->pod, t_usec, now_usec))
        return never;
    return (struct due){NC_DRAIN_DELETE, later(e->delete_usec, e->new_usec)};
}

/* The first eviction is waited for; where it was accepted, the watch shows what came of it. */
static uint64_t first_eviction_waits(const struct record *e) {
    const bool is_waited_for = e->evictions == 1 && (e->is_evicting || e->evicted_usec);

    return is_waited_for ? nc_sum_usec(e->evict_usec, EVICT_PATIENCE_USEC) : 0;
}

/* What the force-delete time requests. Nobody is deleted who was not evicted: a budget that allows
 * it, and whoever watches evictions, observes it all the same. A mark serves the moment that it was
 * made for: where T has moved away since, it is made again. An eviction that was accepted has made
 * one, with a reason of its own, which stays. */
static struct due due_by_force(const struct record *e, const struct nc_drain_rules *r,
                               uint64_t now_usec) {
    const uint64_t last_usec = nc_drain_force_delete_at(&e->pod, r->t_usec);
    const uint64_t mark_usec = nc_less_usec(last_usec, MARK_AHEAD_USEC);
    const bool is_marked =
        e->deleted_usec || e->evicted_usec || (e->mark_usec && e->mark_usec >= mark_usec);
    const uint64_t waits_usec = later(e->new_usec, first_eviction_waits(e));
    uint64_t usec = later(last_usec, later(e->delete_usec, waits_usec));

    if (!r->t_usec)
        return never;
    if (e->pod.deletion_usec)
        return due_shortening(e, r->t_usec, now_usec);
    if (!e->evictions && !e->is_evicting && !e->is_deleting && !nc_drain_is_leaving(e))
        return (struct due){NC_DRAIN_EVICT, later(mark_usec, e->new_usec)};
    if (!is_marked && !e->is_marking)
        return (struct due){NC_DRAIN_MARK, later(mark_usec, waits_usec)};
    if (e->is_deleting)
        return never;
    if (e->is_marking)
        usec = later(usec, nc_sum_usec(e->mark_usec, MARK_PATIENCE_USEC));
    return (struct due){NC_DRAIN_DELETE, usec};
}

/* Karpenter does not evict it: it is not asked before its force-delete time. */
static bool is_left_to_others(const struct nc_pod *p, const struct nc_drain_rules *r) {
    const struct nc_pod_rules rules = nc_drain_pod_rules(r);

    return p->tolerates_disrupted && r->leaves_tolerating && !nc_pod_has_order(p, &rules);
}

bool nc_drain_is_waiting(const struct record *e, const struct nc_drain_rules *r,
                         uint64_t now_usec) {
    return e->pod.is_replacement_first && r->may_evict && !nc_drain_is_leaving(e)
           && !nc_pod_is_kept(&e->pod, now_usec) && now_usec < r->replaced_by_usec
           && now_usec < nc_drain_force_delete_at(&e->pod, r->t_usec);
}

static struct due due_gently(const struct record *e, const struct nc_drain_rules *r,
                             enum nc_tier tier, uint64_t now_usec) {
    uint64_t usec = later(e->not_before_usec[r->t_usec != 0], e->new_usec);

    if (!r->may_evict || nc_drain_turn(e, r) > tier || nc_drain_is_leaving(e) || e->is_evicting
        || e->is_deleting || e->pod.never_disrupt || is_left_to_others(&e->pod, r))
        return never;
    if (e->pod.tolerates_disrupted && e->new_usec && !r->t_usec)
        usec = later(usec, nc_sum_usec(e->new_usec, REPLACED_USEC));
    if (nc_pod_is_kept(&e->pod, now_usec))
        usec = later(usec, e->pod.keep_until_usec);
    if (e->pod.is_replacement_first)
        usec = later(usec, r->replaced_by_usec);
    if (now_usec >= nc_drain_force_delete_at(&e->pod, r->t_usec))
        return never;
    return (struct due){NC_DRAIN_EVICT, usec};
}

/* Until when a pod that is there holds up the tiers behind its own. Under a deadline a budget of
 * theirs counts as much as its own. */
static uint64_t holds_until(const struct record *e, const struct nc_drain_rules *r,
                            uint64_t now_usec) {
    const struct nc_pod *p = &e->pod;
    uint64_t requested_usec = e->requested_usec;

    if (!r->t_usec)
        return UINT64_MAX;
    if (!nc_drain_is_leaving(e)
        && (e->refusal || nc_pod_is_kept(p, now_usec) || is_left_to_others(p, r)
            || nc_drain_is_waiting(e, r, now_usec)))
        return 0;
    if (!requested_usec && p->deletion_usec)
        requested_usec =
            later(nc_less_usec(p->deletion_usec, nc_sec_to_usec(p->deletion_grace_sec)), 1);
    return requested_usec ? nc_sum_usec(requested_usec, TURN_USEC) : UINT64_MAX;
}

/* Whose turn it is: up to the first tier that has a pod which holds up the others. The last ones
 * are held up by whoever is there. */
static enum nc_tier current_tier(const struct nc_drain *d, const struct nc_drain_rules *r,
                                 uint64_t now_usec) {
    enum nc_tier tier = _NC_TIER_MAX;
    bool has_others = false;

    for (size_t i = 0; i < d->n; i++) {
        const struct record *e = d->by_order[i];
        const enum nc_tier turn = nc_drain_turn(e, r);
        if (!nc_drain_is_eligible(e, r, now_usec))
            continue;
        has_others = has_others || turn < NC_TIER_LAST;
        if (turn < tier && now_usec < holds_until(e, r, now_usec))
            tier = turn;
    }
    return has_others && tier >= NC_TIER_LAST ? NC_TIER_LAST - 1 : tier;
}

static unsigned max_requested(const struct nc_drain_rules *r) {
    if (r->max_in_flight < 1)
        return 1;
    return r->max_in_flight < NC_DRAIN_MAX_IN_FLIGHT ? r->max_in_flight : NC_DRAIN_MAX_IN_FLIGHT;
}

/* Force-delete times do not wait for room: only evictions count against the budget. */
static bool may_request(const struct nc_drain *d, const struct nc_drain_rules *r) {
    const unsigned max = max_requested(r);

    return d->in_flight < (d->limit && d->limit < max ? d->limit : max);
}

uint64_t nc_drain_grace(const struct nc_pod *p, uint64_t requested_usec, uint64_t t_usec,
                        uint64_t now_usec) {
    uint64_t sec;

    if (p->deletion_usec)
        requested_usec = nc_less_usec(p->deletion_usec, nc_sec_to_usec(p->deletion_grace_sec));
    else if (!requested_usec)
        requested_usec = now_usec;
    sec = nc_less_usec(later(t_usec, now_usec), requested_usec);
    sec = sec / NC_SEC_USEC + (sec % NC_SEC_USEC != 0);
    if (!p->deletion_usec && sec > p->grace_sec)
        sec = p->grace_sec;
    return sec ? sec : 1;
}

static struct nc_drain_action request_pod(struct nc_drain *d, struct record *e,
                                          enum nc_drain_verb verb, const struct nc_drain_rules *r,
                                          uint64_t now_usec) {
    struct nc_drain_action a = {.verb = verb, .pod = &e->pod};

    switch (verb) {
    case NC_DRAIN_EVICT:
        d->in_flight++;
        e->is_evicting = true;
        e->evict_usec = later(now_usec, 1);
        if (!e->requested_usec)
            e->requested_usec = e->evict_usec;
        a.attempt = ++e->evictions;
        if (r->t_usec)
            a.grace_sec = nc_drain_grace(&e->pod, 0, r->t_usec, now_usec);
        if (a.grace_sec >= e->pod.grace_sec)
            a.grace_sec = 0;
        break;
    case NC_DRAIN_MARK:
        e->is_marking = true;
        e->mark_usec = later(now_usec, 1);
        a.attempt = ++e->marks;
        break;
    case NC_DRAIN_DELETE:
        e->is_forced = e->is_forced || !nc_drain_is_leaving(e);
        e->is_deleting = true;
        e->delete_sent_usec = later(now_usec, 1);
        a.attempt = ++e->deletions;
        a.grace_sec = nc_drain_grace(&e->pod, e->evicted_usec ? e->evicted_usec : e->deleted_usec,
                                     r->t_usec, now_usec);
        e->delete_grace_sec = a.grace_sec;
        break;
    }
    return a;
}

/* Who is eligible is noted. Must anybody go by force? Mostly nobody must, and this is asked after
 * whatever happens to any pod. */
static bool begin_step(struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec) {
    bool is_due = false;

    d->max_requested = max_requested(r);
    d->last_rules = nc_drain_pod_rules(r);
    for (size_t i = 0; i < d->n; i++) {
        struct record *e = d->by_order[i];
        nc_drain_warn_of_order(d, e);
        if (!nc_drain_is_eligible(e, r, now_usec))
            continue;
        e->was_eligible = true;
        is_due = is_due || due_by_force(e, r, now_usec).usec <= now_usec;
    }
    return is_due;
}

/* Of one tier's pods of one namespace, which stand side by side. */
struct group {
    size_t end;          /* behind the last */
    size_t in_flight;    /* their evictions without an answer */
    struct record *next; /* whose eviction has been due for longest; NULL = of none it is */
    uint64_t due_usec;
};

static struct group next_of_group(const struct nc_drain *d, size_t begin,
                                  const struct nc_drain_rules *r, enum nc_tier tier,
                                  uint64_t now_usec) {
    const struct nc_pod *first = &d->by_order[begin]->pod;
    struct group g = {.end = begin};

    for (; g.end < d->n; g.end++) {
        struct record *e = d->by_order[g.end];
        struct due due;
        if (e->pod.tier != first->tier || strcmp(e->pod.namespace, first->namespace) != 0)
            break;
        g.in_flight += e->is_evicting;
        if (!nc_drain_is_eligible(e, r, now_usec))
            continue;
        due = due_gently(e, r, tier, now_usec);
        if (due.usec <= now_usec && (!g.next || due.usec < g.due_usec)) {
            g.next = e;
            g.due_usec = due.usec;
        }
    }
    return g;
}

/* Where there is not room for all: whose namespace has the fewest evictions in flight, for one
 * whose webhook hangs must not hold up the others; among equals who waits longest. */
static struct record *next_to_evict(const struct nc_drain *d, const struct nc_drain_rules *r,
                                    enum nc_tier tier, uint64_t now_usec) {
    struct group best = {.next = NULL}, g;

    for (size_t i = 0; i < d->n; i = g.end) {
        g = next_of_group(d, i, r, tier, now_usec);
        if (g.next
            && (!best.next || g.in_flight < best.in_flight
                || (g.in_flight == best.in_flight && g.due_usec < best.due_usec)))
            best = g;
    }
    return best.next;
}

size_t nc_drain_step(struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                     struct nc_drain_action *ret, size_t room) {
    static const enum nc_drain_verb verbs[] = {NC_DRAIN_DELETE, NC_DRAIN_MARK, NC_DRAIN_EVICT};
    const enum nc_tier tier = current_tier(d, r, now_usec);
    struct record *next;
    size_t n = 0;

    for (size_t v = begin_step(d, r, now_usec) ? 0 : NC_ARRAY_SIZE(verbs); v < NC_ARRAY_SIZE(verbs);
         v++)
        for (size_t i = 0; i < d->n && n < room; i++) {
            struct record *e = d->by_order[i];
            struct due due;
            if (!nc_drain_is_eligible(e, r, now_usec))
                continue;
            due = due_by_force(e, r, now_usec);
            if (due.verb == verbs[v] && due.usec <= now_usec)
                ret[n++] = request_pod(d, e, due.verb, r, now_usec);
        }
    while (n < room && may_request(d, r) && (next = next_to_evict(d, r, tier, now_usec)))
        ret[n++] = request_pod(d, next, NC_DRAIN_EVICT, r, now_usec);
    return n;
}

static void nearest(uint64_t *next, uint64_t usec) {
    if (usec < *next)
        *next = usec;
}

/* What changes by itself for this pod, though nothing is to be asked: the summary is another then,
 * and the turn may pass to the next tier. */
static void nearest_change(const struct record *e, const struct nc_drain_rules *r,
                           uint64_t now_usec, uint64_t *next) {
    const uint64_t last_usec = nc_drain_force_delete_at(&e->pod, r->t_usec);

    nearest(next, nc_sum_usec(nc_pod_stuck_usec(&e->pod), 1));
    if (nc_drain_is_leaving(e))
        return;
    if (last_usec > now_usec)
        nearest(next, last_usec);
    if (!e->pod.never_disrupt && e->pod.keep_until_usec > now_usec)
        nearest(next, e->pod.keep_until_usec);
    if (nc_drain_is_waiting(e, r, now_usec))
        nearest(next, r->replaced_by_usec);
}

uint64_t nc_drain_next(const struct nc_drain *d, const struct nc_drain_rules *r,
                       uint64_t now_usec) {
    const enum nc_tier tier = current_tier(d, r, now_usec);
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < d->n; i++) {
        const struct record *e = d->by_order[i];
        if (!nc_drain_is_eligible(e, r, now_usec))
            continue;
        nearest(&next, due_by_force(e, r, now_usec).usec);
        if (may_request(d, r))
            nearest(&next, due_gently(e, r, tier, now_usec).usec);
        if (nc_drain_turn(e, r) == tier
            && (r->tolerating_last || d->by_order[d->n - 1]->pod.tier > tier)
            && holds_until(e, r, now_usec) > now_usec)
            nearest(&next, holds_until(e, r, now_usec));
        nearest_change(e, r, now_usec, &next);
    }
    return next;
}

/* The pause after the n-th refusal of its kind in a row. What a server requests is not cut. Without
 * a deadline nothing is lost by asking rarely, and a drain may be blocked for days. */
static uint64_t pause_after(const struct nc_pod_answer *a, unsigned n, bool has_deadline,
                            uint64_t seed) {
    static const struct {
        unsigned n, n_with_deadline;
        uint64_t sec[7];
    } pauses[_NC_ANSWER_MAX] = {
        [NC_ANSWER_BUDGET] = {7, 4, {1, 2, 3, 5, 10, 20, 30}},
        [NC_ANSWER_BUDGETS] = {1, 1, {30}},
        [NC_ANSWER_BUSY] = {1, 1, {1}},
        [NC_ANSWER_NAMESPACE] = {4, 1, {5, 10, 20, 30}},
        [NC_ANSWER_REFUSED] = {4, 3, {1, 5, 10, 30}},
    };
    const unsigned most = has_deadline ? pauses[a->kind].n_with_deadline : pauses[a->kind].n;
    struct nc_backoff b = {NC_SEC_USEC / 2, (has_deadline ? 5 : 30) * NC_SEC_USEC};

    if (a->kind == NC_ANSWER_BUSY && a->retry_after_usec)
        return a->retry_after_usec < MAX_RETRY_AFTER_USEC ? a->retry_after_usec
                                                          : MAX_RETRY_AFTER_USEC;
    if (most) /* FAILED and AWAY have no steps of their own */
        b.first_usec = b.max_usec = pauses[a->kind].sec[(n < most ? n : most) - 1] * NC_SEC_USEC;
    return nc_backoff_pause(&b, n, seed);
}

/* A server that is busy, or not there, reports nothing of the pod: what did stays what blocks it.
 */
static void note_refusal(struct nc_drain *d, struct record *e, const char *what,
                         const struct nc_pod_answer *a) {
    const bool is_budgets = a->kind == NC_ANSWER_BUDGET && a->budget[0];
    const bool is_known =
        e->refusal && e->refusal->kind == a->kind && strcmp(e->refusal->budget, a->budget) == 0;

    if (a->kind == NC_ANSWER_BUSY || a->kind == NC_ANSWER_UNAVAILABLE)
        return;
    if (!is_known)
        nc_drain_note_news(d, NC_POD_NEWS_REFUSED, e,
                           nc_asprintf("%s of pod %s/%s refused%s%s", what, e->pod.namespace,
                                       e->pod.name, is_budgets ? " by PodDisruptionBudget " : ": ",
                                       is_budgets      ? a->budget
                                       : a->message[0] ? a->message
                                                       : nc_pod_answer_name(a->kind)));
    if (!e->refusal)
        e->refusal = nc_calloc(1, sizeof(*e->refusal));
    e->refusal->kind = a->kind;
    memcpy(e->refusal->budget, a->budget, sizeof(a->budget));
    memcpy(e->refusal->message, a->message, sizeof(a->message));
}

static void forget_refusal(struct record *e) {
    free(e->refusal);
    e->refusal = NULL;
    e->refused = 0;
    e->refusals = 0;
}

/* Additive increase, multiplicative decrease, as the server's own queues hope for. No answer in
 * time is the word of a server that cannot keep up: it goes on with what was given up, and the same
 * again all at once would be given up again. Or of a webhook that hangs for longer than an eviction
 * is waited for, and that is no matter of the other pods: hence the floor. */
static void adapt_limit(struct nc_drain *d, enum nc_pod_answer_kind kind) {
    if (kind == NC_ANSWER_BUSY || kind == NC_ANSWER_UNAVAILABLE) {
        const unsigned limit = d->limit ? d->limit : d->max_requested;
        d->limit = limit > 2 * MIN_LIMIT ? limit / 2 : MIN_LIMIT;
    } else if (kind == NC_ANSWER_ACCEPTED && d->limit && ++d->limit >= d->max_requested) {
        d->limit = 0;
    }
}

/* What is accepted counts from when it was requested: the server's clock began to run between that
 * and its answer, so a later request never takes away what was granted. */
static void eviction_answered(struct nc_drain *d, struct record *e, const struct nc_pod_answer *a,
                              uint64_t seed, uint64_t now_usec) {
    if (a->kind == NC_ANSWER_ACCEPTED) {
        if (!nc_drain_is_leaving(e))
            nc_drain_progress(d, now_usec);
        if (!e->evicted_usec)
            nc_drain_note_news(d, NC_POD_NEWS_EVICTED, e,
                               nc_asprintf("Evicted pod %s/%s", e->pod.namespace, e->pod.name));
        e->evicted_usec = e->evict_usec ? e->evict_usec : later(now_usec, 1);
        forget_refusal(e);
        return;
    }
    e->refusals = e->refused == a->kind ? e->refusals + 1 : 1;
    e->refused = a->kind;
    for (size_t i = 0; i < NC_ARRAY_SIZE(e->not_before_usec); i++)
        e->not_before_usec[i] = nc_sum_usec(
            now_usec, pause_after(a, e->refusals, i, seed + nc_backoff_seed(e->pod.uid)));
    note_refusal(d, e, "Eviction", a);
}

void nc_drain_note_deletion(struct nc_drain *d, struct record *e) {
    nc_drain_note_news(d, NC_POD_NEWS_FORCED, e,
                       nc_asprintf("Force-deleted pod %s/%s with a grace period of %llu s",
                                   e->pod.namespace, e->pod.name,
                                   (unsigned long long)e->delete_grace_sec));
}

static void deletion_answered(struct nc_drain *d, struct record *e, const struct nc_pod_answer *a,
                              uint64_t now_usec) {
    static const uint64_t pauses_usec[] = {200000, 400000, 800000, NC_SEC_USEC};
    const size_t n = e->deletions < NC_ARRAY_SIZE(pauses_usec) ? e->deletions : 4;

    e->delete_usec = nc_sum_usec(now_usec, pauses_usec[n ? n - 1 : 0]);
    if (a->kind != NC_ANSWER_ACCEPTED) {
        note_refusal(d, e, "Deletion", a);
        return;
    }
    if (!nc_drain_is_leaving(e))
        nc_drain_progress(d, now_usec);
    if (e->is_forced && !e->deleted_usec && !e->evicted_usec)
        d->so_far.deleted++;
    if (!e->deleted_usec)
        nc_drain_note_deletion(d, e);
    if (!e->deleted_usec)
        e->deleted_usec = e->delete_sent_usec ? e->delete_sent_usec : later(now_usec, 1);
    forget_refusal(e);
}

static void apply_pod_answer(struct nc_drain *d, struct record *e,
                             const struct nc_drain_reply *reply) {
    const struct nc_pod_answer *a = reply->answer;

    switch (reply->verb) {
    case NC_DRAIN_EVICT:
        e->is_evicting = false;
        break;
    case NC_DRAIN_MARK:
        e->is_marking = false;
        break;
    case NC_DRAIN_DELETE:
        e->is_deleting = false;
        break;
    }
    if (a->kind == NC_ANSWER_GONE && reply->verb != NC_DRAIN_MARK)
        nc_drain_mark_absent(d, e, reply->now_usec);
    else if (reply->verb == NC_DRAIN_EVICT)
        eviction_answered(d, e, a, reply->seed, reply->now_usec);
    else if (reply->verb == NC_DRAIN_DELETE)
        deletion_answered(d, e, a, reply->now_usec);
    if (e->is_removed && !e->is_evicting && !e->is_marking && !e->is_deleting)
        nc_drain_remove(d, e);
}

void nc_drain_answer(struct nc_drain *d, const struct nc_drain_reply *reply) {
    struct record *e = nc_drain_find(d, reply->uid);

    if (reply->verb == NC_DRAIN_EVICT && d->in_flight > 0)
        d->in_flight--;
    adapt_limit(d, reply->answer->kind);
    if (e)
        apply_pod_answer(d, e, reply);
}
