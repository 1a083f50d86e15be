/*
 * The drain: acts on the verdicts that are due, and takes in what an answer changes.
 *
 * nc_drain_step acts on those whose moment has come, nc_drain_next names the nearest that has not,
 * so the two cannot disagree.
 */
#include "nc/drain.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "nc/backoff.h"
#include "nc/mem.h"

#include "drain-priv.h"

#define MAX_RETRY_AFTER_USEC (10 * NC_SEC_USEC)
#define MIN_LIMIT 8u /* of evictions in flight, however busy the server is */

uint64_t nc_drain_grace(const struct nc_pod *p, uint64_t requested_usec,
                        const struct nc_drain_rules *r, uint64_t now_usec) {
    const uint64_t by_usec = nc_drain_ends_by(r);
    uint64_t sec = p->grace_sec;

    if (p->deletion_usec)
        requested_usec = nc_less_usec(p->deletion_usec, nc_sec_to_usec(p->deletion_grace_sec));
    else if (!requested_usec)
        requested_usec = now_usec;
    if (by_usec > now_usec) {
        sec = nc_less_usec(by_usec, requested_usec);
        sec = sec / NC_SEC_USEC + (sec % NC_SEC_USEC != 0);
    }
    if (!p->deletion_usec && sec > p->grace_sec)
        sec = p->grace_sec;
    return sec ? sec : 1;
}

/* What its verdict says; it has another then. */
static struct nc_drain_action request_pod(struct nc_drain *d, struct record *e,
                                          struct nc_verdict *v, const struct nc_moments *m) {
    struct nc_drain_action a = {.verb = v->verb, .pod = &e->pod};
    const uint64_t now_usec = m->now_usec;

    switch (a.verb) {
    case NC_DRAIN_EVICT:
        d->in_flight++;
        e->is_evicting = true;
        e->evict_usec = nc_later_usec(now_usec, 1);
        if (!e->requested_usec)
            e->requested_usec = e->evict_usec;
        a.attempt = ++e->evictions;
        if (m->rules->t_usec)
            a.grace_sec = nc_drain_grace(&e->pod, 0, m->rules, now_usec);
        if (a.grace_sec >= e->pod.grace_sec)
            a.grace_sec = 0;
        e->grace_sec = (unsigned)a.grace_sec;
        break;
    case NC_DRAIN_MARK:
        e->is_marking = true;
        e->mark_usec = nc_later_usec(now_usec, 1);
        a.attempt = ++e->marks;
        break;
    case NC_DRAIN_DELETE:
        e->is_forced = e->is_forced || !nc_drain_is_leaving(e);
        e->is_deleting = true;
        e->delete_sent_usec = nc_later_usec(now_usec, 1);
        a.attempt = ++e->deletions;
        a.grace_sec = nc_drain_grace(&e->pod, e->evicted_usec ? e->evicted_usec : e->deleted_usec,
                                     m->rules, now_usec);
        e->grace_sec = a.grace_sec < UINT_MAX ? (unsigned)a.grace_sec : UINT_MAX;
        break;
    }
    *v = nc_drain_verdict(e, m);
    return a;
}

/* P15, once after its eviction, and once after its grace period. */
static void note_overdue(struct nc_drain *d, struct record *e, uint64_t now_usec) {
    const bool is_ending = e->pod.deletion_usec != 0;

    if ((is_ending ? e->was_overdue : e->was_slow) || now_usec < nc_drain_overdue_from(e))
        return;
    e->was_slow = true;
    e->was_overdue = is_ending;
    nc_drain_note_news(d, NC_POD_NEWS_OVERDUE, e,
                       nc_asprintf("Pod %s/%s is overdue: opening the watch of the pods again",
                                   e->pod.namespace, e->pod.name));
}

/* Once. */
static void note_hanging(struct nc_drain *d, struct record *e, enum nc_pod_reason reason) {
    if ((reason != NC_POD_REASON_FINALIZER && reason != NC_POD_REASON_SILENT) || e->has_hung)
        return;
    e->has_hung = true;
    nc_drain_note_news(d, NC_POD_NEWS_HANGS, e,
                       nc_asprintf("Pod %s/%s does not end: %s", e->pod.namespace, e->pod.name,
                                   nc_pod_reason_text(reason)));
}

/* Once; while nobody may evict, nobody waits for it. */
static void note_kept(struct nc_drain *d, struct record *e, enum nc_pod_reason reason) {
    if (reason != NC_POD_REASON_KEPT || e->was_kept || !d->last_rules.may_evict)
        return;
    e->was_kept = true;
    nc_drain_note_news(d, NC_POD_NEWS_KEPT, e,
                       nc_asprintf("Pod %s/%s is not evicted: %s", e->pod.namespace, e->pod.name,
                                   nc_pod_reason_text(reason)));
}

/* Makes the verdict on each pod, in their order, and notes who is eligible. Must anybody go by
 * force? Mostly nobody must, and this is asked after whatever happens to any pod. */
static bool make_verdicts(struct nc_drain *d, const struct nc_moments *m, struct nc_verdict *ret) {
    bool is_due = false;

    d->max_requested = nc_drain_max_requested(m->rules);
    d->last_rules = *m->rules;
    for (size_t i = 0; i < d->n; i++) {
        struct record *e = d->by_order[i];
        nc_drain_warn_of_order(d, e);
        ret[i] = nc_drain_verdict(e, m);
        if (nc_pod_reason_kind(ret[i].reason) >= NC_REASON_KIND_LEAVING)
            e->was_eligible = true;
        if (nc_pod_reason_kind(ret[i].reason) == NC_REASON_KIND_LEAVING)
            note_overdue(d, e, m->now_usec);
        note_hanging(d, e, ret[i].reason);
        note_kept(d, e, ret[i].reason);
        is_due = is_due || (ret[i].is_by_force && ret[i].at_usec <= m->now_usec);
    }
    return is_due;
}

/* Of one tier's pods of one namespace, which stand side by side. */
struct group {
    size_t end;       /* behind the last */
    size_t in_flight; /* their evictions without an answer */
    size_t next;      /* whose eviction has been due for longest */
    uint64_t at_usec; /* since when; UINT64_MAX = of none it is */
};

static struct group next_of_group(const struct nc_drain *d, const struct nc_verdict *verdicts,
                                  size_t begin, uint64_t now_usec) {
    const struct nc_pod *first = &d->by_order[begin]->pod;
    struct group g = {.end = begin, .at_usec = UINT64_MAX};

    for (; g.end < d->n; g.end++) {
        const struct record *e = d->by_order[g.end];
        const struct nc_verdict *v = &verdicts[g.end];
        if (e->pod.tier != first->tier || strcmp(e->pod.namespace, first->namespace) != 0)
            break;
        g.in_flight += e->is_evicting;
        if (!v->is_by_force && v->at_usec <= now_usec && v->at_usec < g.at_usec) {
            g.next = g.end;
            g.at_usec = v->at_usec;
        }
    }
    return g;
}

/* P4: where there is not room for all, whose namespace has the fewest evictions in flight, for one
 * whose webhook hangs must not hold up the others; among equals who waits longest. The place of
 * the pod; as many as there are where there is none. */
static size_t next_to_evict(const struct nc_drain *d, const struct nc_verdict *verdicts,
                            uint64_t now_usec) {
    struct group best = {.next = d->n, .at_usec = UINT64_MAX}, g;

    for (size_t i = 0; i < d->n; i = g.end) {
        g = next_of_group(d, verdicts, i, now_usec);
        if (g.at_usec < UINT64_MAX
            && (best.next == d->n || g.in_flight < best.in_flight
                || (g.in_flight == best.in_flight && g.at_usec < best.at_usec)))
            best = g;
    }
    return best.next;
}

size_t nc_drain_step(struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                     struct nc_drain_action *ret, size_t room) {
    static const enum nc_drain_verb verbs[] = {NC_DRAIN_DELETE, NC_DRAIN_MARK, NC_DRAIN_EVICT};
    const struct nc_moments m = nc_drain_moments(d, r, now_usec);
    nc_auto_free struct nc_verdict *verdicts = nc_calloc(d->n + 1, sizeof(*verdicts));
    size_t n = 0, next;

    for (size_t k = make_verdicts(d, &m, verdicts) ? 0 : NC_ARRAY_SIZE(verbs);
         k < NC_ARRAY_SIZE(verbs); k++)
        for (size_t i = 0; i < d->n && n < room; i++) {
            struct nc_verdict *v = &verdicts[i];
            if (v->is_by_force && v->verb == verbs[k] && v->at_usec <= now_usec)
                ret[n++] = request_pod(d, d->by_order[i], v, &m);
        }
    while (n < room && nc_drain_may_request(d, r)
           && (next = next_to_evict(d, verdicts, now_usec)) < d->n)
        ret[n++] = request_pod(d, d->by_order[next], &verdicts[next], &m);
    return n;
}

uint64_t nc_drain_next(const struct nc_drain *d, const struct nc_drain_rules *r,
                       uint64_t now_usec) {
    const struct nc_moments m = nc_drain_moments(d, r, now_usec);
    uint64_t next = UINT64_MAX;

    for (size_t i = 0; i < d->n; i++) {
        const struct nc_verdict v = nc_drain_verdict(d->by_order[i], &m);
        if (v.at_usec < next)
            next = v.at_usec;
        if (v.changes_usec < next)
            next = v.changes_usec;
    }
    return next;
}

/* P11: the pause after the n-th refusal of its kind in a row, at least where there is a deadline,
 * at most where there is none. What a server requests is not cut. Where much time is left nothing
 * is lost by asking rarely, and a drain may be blocked for days. */
static uint64_t pause_after(const struct nc_pod_answer *a, unsigned n, bool has_deadline,
                            uint64_t seed) {
    static const struct {
        unsigned char n, n_with_deadline, sec[7];
    } pauses[_NC_ANSWER_MAX] = {
        [NC_ANSWER_BUDGET] = {7, 4, {NC_DRAIN_FIRST_PAUSE_SEC, 2, 3, 5, 10, 20, 30}},
        [NC_ANSWER_BUDGETS] = {1, 1, {30}},
        [NC_ANSWER_BUSY] = {1, 1, {1}},
        [NC_ANSWER_NAMESPACE] = {4, 1, {5, 10, 20, 30}},
        [NC_ANSWER_REFUSED] = {7, 4, {1, 2, 3, 5, 10, 20, 30}},
    };
    const unsigned most = has_deadline ? pauses[a->kind].n_with_deadline : pauses[a->kind].n;
    struct nc_backoff b = {NC_SEC_USEC / 2, (has_deadline ? 5 : 30) * NC_SEC_USEC};

    if (a->kind == NC_ANSWER_BUSY && a->retry_after_usec)
        return a->retry_after_usec < MAX_RETRY_AFTER_USEC ? a->retry_after_usec
                                                          : MAX_RETRY_AFTER_USEC;
    if (most) /* FAILED and UNAVAILABLE have no steps of their own */
        b.first_usec = b.max_usec = pauses[a->kind].sec[(n < most ? n : most) - 1] * NC_SEC_USEC;
    return nc_backoff_pause(&b, n, seed);
}

/* A server that is busy, or not there, reports nothing of the pod: what did stays what blocks it.
 */
static void note_refusal(struct nc_drain *d, struct record *e, bool is_deletion,
                         const struct nc_pod_answer *a, uint64_t now_usec) {
    const bool is_budgets = a->kind == NC_ANSWER_BUDGET && a->budget[0];
    const bool is_known =
        e->refusal && e->refusal->kind == a->kind && strcmp(e->refusal->budget, a->budget) == 0;
    const bool was_deletion = is_known && e->refusal->is_deletion;

    if (a->kind == NC_ANSWER_UNSENT || a->kind == NC_ANSWER_BUSY
        || a->kind == NC_ANSWER_UNAVAILABLE)
        return;
    if (!is_known || (is_deletion && !was_deletion))
        nc_drain_note_news(d, NC_POD_NEWS_REFUSED, e,
                           nc_asprintf("%s of pod %s/%s refused%s%s",
                                       is_deletion ? "Deletion" : "Eviction", e->pod.namespace,
                                       e->pod.name, is_budgets ? " by PodDisruptionBudget " : ": ",
                                       is_budgets      ? a->budget
                                       : a->message[0] ? a->message
                                                       : nc_pod_answer_name(a->kind)));
    if (!e->refusal)
        e->refusal = nc_calloc(1, sizeof(*e->refusal));
    if (!is_known)
        e->refusal->since_usec = now_usec;
    e->refusal->kind = a->kind;
    e->refusal->is_deletion = is_deletion || was_deletion;
    e->refusal->is_unauthorized = a->is_unauthorized;
    memcpy(e->refusal->budget, a->budget, sizeof(a->budget));
    memcpy(e->refusal->message, a->message, sizeof(a->message));
}

static void forget_refusal(struct record *e) {
    free(e->refusal);
    e->refusal = NULL;
    e->refused = 0;
    e->refusals = 0;
}

/* P11: additive increase, multiplicative decrease, as the server's own queues hope for. No answer
 * in time is the word of a server that cannot keep up: it goes on with what was given up, and the
 * same again all at once would be given up again. Or of a webhook that hangs for longer than an
 * eviction is waited for, and that is no matter of the other pods: hence the floor. */
static void adapt_limit(struct nc_drain *d, enum nc_pod_answer_kind kind) {
    if (kind == NC_ANSWER_BUSY || kind == NC_ANSWER_UNAVAILABLE) {
        const unsigned limit = d->limit ? d->limit : d->max_requested;
        d->limit = limit > 2 * MIN_LIMIT ? limit / 2 : MIN_LIMIT;
    } else if (kind == NC_ANSWER_ACCEPTED && d->limit && ++d->limit >= d->max_requested) {
        d->limit = 0;
    }
}

/* The one that the force-delete time requests. */
static bool is_last_eviction(const struct record *e, uint64_t t_usec) {
    return nc_sum_usec(e->evict_usec, NC_SEC_USEC) >= nc_drain_force_delete_at(&e->pod, t_usec);
}

/* What is accepted counts from when it was requested: the server's clock began to run between that
 * and its answer, so a later request never takes away what was granted. */
static void eviction_answered(struct nc_drain *d, struct record *e, const struct nc_pod_answer *a,
                              uint64_t seed, uint64_t now_usec) {
    if (a->kind == NC_ANSWER_ACCEPTED) {
        if (!nc_drain_is_leaving(e))
            nc_drain_progress(d, now_usec);
        if (!e->evicted_usec)
            nc_drain_note_end(d, e, NC_POD_NEWS_EVICTED);
        nc_drain_note_ended(d, e,
                            is_last_eviction(e, d->last_rules.t_usec) ? NC_POD_RETURN_FORCED
                                                                      : NC_POD_RETURN_EVICTED);
        e->evicted_usec = e->evict_usec ? e->evict_usec : nc_later_usec(now_usec, 1);
        forget_refusal(e);
        return;
    }
    if (a->kind == NC_ANSWER_UNSENT) { /* what was answered before counts on */
        e->refused = e->refused ? e->refused : NC_ANSWER_UNAVAILABLE;
        e->refused_usec = nc_later_usec(now_usec, 1);
        e->pause_usec[0] = e->pause_usec[1] = (uint32_t)a->retry_after_usec;
        return;
    }
    e->refusals = e->refused == a->kind ? e->refusals + 1 : 1;
    e->refused = a->kind;
    e->refused_usec = nc_later_usec(now_usec, 1);
    for (size_t i = 0; i < NC_ARRAY_SIZE(e->pause_usec); i++)
        e->pause_usec[i] =
            (uint32_t)pause_after(a, e->refusals, i, seed + nc_backoff_seed(e->pod.uid));
    note_refusal(d, e, false, a, now_usec);
}

static void deletion_answered(struct nc_drain *d, struct record *e, const struct nc_pod_answer *a,
                              uint64_t now_usec) {
    static const uint64_t pauses_usec[] = {200000, 400000, 800000, NC_SEC_USEC};
    const size_t n = e->deletions < NC_ARRAY_SIZE(pauses_usec) ? e->deletions : 4;

    e->delete_usec = nc_sum_usec(now_usec, pauses_usec[n ? n - 1 : 0]);
    if (a->kind != NC_ANSWER_ACCEPTED) {
        note_refusal(d, e, true, a, now_usec);
        return;
    }
    if (!nc_drain_is_leaving(e))
        nc_drain_progress(d, now_usec);
    if (e->is_forced && !e->deleted_usec && !e->evicted_usec)
        d->so_far.deleted++;
    nc_drain_note_ended(d, e, NC_POD_RETURN_FORCED);
    if (!e->deleted_usec)
        nc_drain_note_end(d, e, NC_POD_NEWS_FORCED);
    if (!e->deleted_usec)
        e->deleted_usec = e->delete_sent_usec ? e->delete_sent_usec : nc_later_usec(now_usec, 1);
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
    if (e->is_removed && !nc_drain_is_requested(e))
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
