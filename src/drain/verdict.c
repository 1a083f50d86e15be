/*
 * The verdict on one pod: what is requested for it next and when, and why it is not evicted.
 *
 * The one place that decides about a pod. A verdict follows from the pod's record, the rules and
 * the moments of its drain; nothing is changed here. The rules have the numbers of
 * docs/drain-rules.md.
 */
#include "nc/mem.h"

#include "drain-priv.h"

#define OVERDUE_AFTER_USEC (2 * NC_SEC_USEC) /* P15 */
#define HANGS_AFTER_USEC (5 * NC_SEC_USEC)   /* P15 */
#define STUCK_AFTER_USEC (60 * NC_SEC_USEC)  /* P1 */
#define MARK_PATIENCE_USEC NC_SEC_USEC       /* P8 */
#define EVICT_PATIENCE_USEC NC_SEC_USEC      /* P8 */
#define LATE_ENOUGH_USEC NC_SEC_USEC         /* P9 */
#define PAUSE_SHARE 60                       /* P11: of the time that is left */
/* P6: an eviction that a budget refuses then is requested once more before the mark. */
#define TURN_AHEAD_USEC (NC_DRAIN_MARK_AHEAD_USEC + NC_DRAIN_FIRST_PAUSE_SEC * NC_SEC_USEC)

#define NAME(id, kind, name, text) name "\0"
#define TEXT(id, kind, name, text) text "\0"
#define KIND(id, kind, name, text) NC_REASON_KIND_##kind,
static const char names[] = NC_POD_REASONS(NAME);
static const char texts[] = NC_POD_REASONS(TEXT);
static const unsigned char kinds[] = {NC_POD_REASONS(KIND)};

const char *nc_drain_verb_name(enum nc_drain_verb v) {
    return nc_name_at("evict\0mark\0delete\0", v - NC_DRAIN_EVICT);
}

const char *nc_pod_reason_name(enum nc_pod_reason r) {
    const char *name = nc_name_at(names, r);

    return name ? name : "unknown";
}

const char *nc_pod_reason_text(enum nc_pod_reason r) {
    const char *text = nc_name_at(texts, r);

    return text ? text : "unknown";
}

enum nc_reason_kind nc_pod_reason_kind(enum nc_pod_reason r) {
    return kinds[r];
}

bool nc_pod_reason_is_named(enum nc_pod_reason r) {
    return kinds[r] >= NC_REASON_KIND_BLOCKED || r == NC_POD_REASON_FINALIZER
           || r == NC_POD_REASON_SILENT || r == NC_POD_REASON_STUCK || r == NC_POD_REASON_PUT_BACK
           || r == NC_POD_REASON_RETURNED;
}

/* --- P1, P2, P7: who is drained at all, and with which tier */

static bool is_annotated(const struct nc_pod *p) {
    return p->order == NC_POD_ORDER_FIRST || p->order == NC_POD_ORDER_LAST;
}

/* Whom Karpenter leaves, and why. Under a deadline nobody's pods are left to die with the
 * machine. */
static enum nc_pod_reason left_as(const struct nc_pod *p, const struct nc_drain_rules *r) {
    if (p->tolerates_disrupted && (p->is_daemon || (r->karpenter_drains && !r->t_usec)))
        return NC_POD_REASON_TOLERATES;
    return p->is_daemon && !r->has_disrupted_taint ? NC_POD_REASON_DAEMON : NC_POD_REASON_NONE;
}

/* Does the annotation, or tolerating_last, give it a place of its own? */
static bool has_order(const struct nc_pod *p, const struct nc_drain_rules *r) {
    return is_annotated(p)
           || (r->tolerating_last
               && (p->tolerates_disrupted || left_as(p, r) != NC_POD_REASON_NONE));
}

enum nc_tier nc_pod_turn(const struct nc_pod *p, const struct nc_drain_rules *r) {
    return is_annotated(p) || !has_order(p, r) ? p->tier : NC_TIER_LAST;
}

/* kubelet deletes what has ended once more, without a grace period: only then is it a finalizer
 * that holds it. */
enum nc_pod_reason nc_pod_hangs_as(const struct nc_pod *p) {
    return p->has_finalizer && (p->is_terminal || p->deletion_grace_sec == 0)
               ? NC_POD_REASON_FINALIZER
               : NC_POD_REASON_SILENT;
}

/* When it should have ended for so long that somebody should know. In an outage nobody shows that,
 * nor in the moment after it. */
static uint64_t hangs_from(const struct nc_pod *p, const struct nc_drain_rules *r) {
    const uint64_t usec =
        p->deletion_usec ? nc_sum_usec(p->deletion_usec, HANGS_AFTER_USEC) : UINT64_MAX;
    const uint64_t shown_usec = nc_sum_usec(r->blind_usec[1], HANGS_AFTER_USEC);

    return r->blind_usec[0] && usec > r->blind_usec[0] && usec < shown_usec ? shown_usec : usec;
}

uint64_t nc_drain_overdue_from(const struct record *e) {
    const uint64_t usec = e->pod.deletion_usec ? e->pod.deletion_usec
                                               : nc_later_usec(e->evicted_usec, e->deleted_usec);

    return nc_sum_usec(usec, OVERDUE_AFTER_USEC);
}

/* Until when it is not stuck. */
static uint64_t stuck_usec(const struct nc_pod *p) {
    return p->deletion_usec ? nc_sum_usec(p->deletion_usec, STUCK_AFTER_USEC) : UINT64_MAX;
}

enum nc_pod_reason nc_pod_excluded(const struct nc_pod *p, const struct nc_drain_rules *r,
                                   uint64_t now_usec) {
    const enum nc_pod_reason left = left_as(p, r);
    /* Its controller tolerates the cordon, and puts it back as often as it is drained. */
    const bool is_put_back = p->is_daemon && r->cordoned_usec && p->created_usec > r->cordoned_usec;

    if (p->is_terminal)
        return NC_POD_REASON_TERMINAL;
    if (p->is_mirror)
        return NC_POD_REASON_MIRROR;
    if (left != NC_POD_REASON_NONE && (!has_order(p, r) || is_put_back))
        return left;
    if (p->put_back == NC_POD_RETURN_FORCED || (p->put_back && !r->t_usec))
        return NC_POD_REASON_PUT_BACK;
    return now_usec > stuck_usec(p) ? NC_POD_REASON_STUCK : NC_POD_REASON_NONE;
}

/* P2: it is not evicted before its force-delete time: Karpenter does not evict it, or its
 * controller would put it back once more. */
static enum nc_pod_reason left_until_forced(const struct nc_pod *p,
                                            const struct nc_drain_rules *r) {
    if (p->put_back)
        return NC_POD_REASON_RETURNED;
    return p->tolerates_disrupted && r->karpenter_drains && !has_order(p, r)
               ? NC_POD_REASON_KARPENTER
               : NC_POD_REASON_NONE;
}

/* --- P3, P5: what a pod asks for itself */

bool nc_pod_is_kept(const struct nc_pod *p, uint64_t now_usec) {
    return p->never_disrupt || now_usec < p->keep_until_usec;
}

static uint64_t kept_until(const struct nc_pod *p, uint64_t now_usec) {
    if (!nc_pod_is_kept(p, now_usec))
        return 0;
    return p->never_disrupt ? UINT64_MAX : p->keep_until_usec;
}

/* Its replacement is waited for. */
static bool is_waiting(const struct record *e, const struct nc_moments *m) {
    return e->pod.is_replacement_first && m->rules->may_evict && !nc_drain_is_leaving(e)
           && !nc_pod_is_kept(&e->pod, m->now_usec) && m->now_usec < m->rules->replaced_by_usec
           && m->now_usec < nc_drain_force_delete_at(&e->pod, m->rules->t_usec);
}

/* --- P6, P7: whose turn it is */

/* Is its turn over only once it is gone? Nobody waits for one that is left until its force-delete
 * time. */
static bool has_turn(const struct nc_pod *p, const struct nc_drain_rules *r, uint64_t now_usec) {
    const enum nc_pod_reason excluded = nc_pod_excluded(p, r, now_usec);

    return (!excluded || (excluded == NC_POD_REASON_DAEMON && now_usec < r->daemons_until_usec))
           && !left_until_forced(p, r);
}

/* The first tier that has a pod. */
struct nc_moments nc_drain_moments(const struct nc_drain *d, const struct nc_drain_rules *r,
                                   uint64_t now_usec) {
    struct nc_moments m = {.rules = r,
                           .now_usec = now_usec,
                           .tier = _NC_TIER_MAX,
                           .has_room = nc_drain_may_request(d, r)};

    for (size_t i = 0; i < d->n; i++) {
        const struct nc_pod *p = &d->by_order[i]->pod;
        if (!d->by_order[i]->is_gone && nc_pod_turn(p, r) < m.tier && has_turn(p, r, now_usec))
            m.tier = nc_pod_turn(p, r);
    }
    return m;
}

/* Whatever is left of the tiers before its own, and why: a later turn would take its own grace. */
static uint64_t turn_at(const struct nc_pod *p, const struct nc_moments *m) {
    if (nc_pod_turn(p, m->rules) <= m->tier)
        return 0;
    return m->rules->t_usec
               ? nc_less_usec(nc_drain_force_delete_at(p, m->rules->t_usec), TURN_AHEAD_USEC)
               : UINT64_MAX;
}

/* --- P8, P9: what the force-delete time requests */

uint64_t nc_drain_force_delete_at(const struct nc_pod *p, uint64_t t_usec) {
    return t_usec ? nc_less_usec(t_usec, nc_sec_to_usec(p->grace_sec)) : UINT64_MAX;
}

struct due {
    enum nc_drain_verb verb;
    uint64_t usec;
};
static const struct due never = {.usec = UINT64_MAX};

/* It is terminating, but not in time. What would end within a second anyway cannot be shortened,
 * and nothing is once that time has passed. */
static bool ends_late(const struct nc_pod *p, const struct nc_moments *m) {
    const uint64_t by_usec = nc_drain_ends_by(m->rules);

    return m->now_usec < by_usec && p->deletion_usec > nc_sum_usec(by_usec, LATE_ENOUGH_USEC);
}

/* The first eviction is waited for; where it was accepted, the watch shows what came of it. */
uint64_t nc_drain_eviction_waits(const struct record *e) {
    const bool is_waited_for = e->evictions == 1 && (e->is_evicting || e->evicted_usec);

    return is_waited_for ? nc_sum_usec(e->evict_usec, EVICT_PATIENCE_USEC) : 0;
}

/* Nobody is deleted who was not evicted: a budget that allows it, and whoever watches evictions,
 * observes it all the same. A mark serves the moment that it was made for: where T has moved away
 * since, it is made again. An eviction that was accepted has made one, with a reason of its own,
 * which stays. */
static struct due due_by_force(const struct record *e, const struct nc_moments *m) {
    const uint64_t last_usec = nc_drain_force_delete_at(&e->pod, m->rules->t_usec);
    const uint64_t mark_usec = nc_less_usec(last_usec, NC_DRAIN_MARK_AHEAD_USEC);
    const bool is_marked =
        e->deleted_usec || e->evicted_usec || (e->mark_usec && e->mark_usec >= mark_usec);
    const uint64_t waits_usec = nc_later_usec(e->new_usec, nc_drain_eviction_waits(e));
    uint64_t usec = nc_later_usec(last_usec, nc_later_usec(e->delete_usec, waits_usec));

    if (!m->rules->t_usec)
        return never;
    if (e->pod.deletion_usec)
        return e->is_deleting || !ends_late(&e->pod, m)
                   ? never
                   : (struct due){NC_DRAIN_DELETE, nc_later_usec(e->delete_usec, e->new_usec)};
    if (!e->evictions && !e->is_evicting && !e->is_deleting && !nc_drain_is_leaving(e))
        return (struct due){NC_DRAIN_EVICT, nc_later_usec(mark_usec, e->new_usec)};
    if (!is_marked && !e->is_marking)
        return (struct due){NC_DRAIN_MARK, nc_later_usec(mark_usec, waits_usec)};
    if (e->is_deleting)
        return never;
    if (e->is_marking)
        usec = nc_later_usec(usec, nc_sum_usec(e->mark_usec, MARK_PATIENCE_USEC));
    return (struct due){NC_DRAIN_DELETE, usec};
}

/* --- P2 to P6, P10, P13: what keeps a pod from being evicted */

static enum nc_pod_reason leaving_as(const struct record *e, const struct nc_moments *m) {
    if (e->pod.deletion_usec && m->now_usec >= hangs_from(&e->pod, m->rules))
        return nc_pod_hangs_as(&e->pod);
    if (e->pod.deletion_usec)
        return ends_late(&e->pod, m) ? NC_POD_REASON_LATE : NC_POD_REASON_TERMINATING;
    return e->deleted_usec ? NC_POD_REASON_DELETED : NC_POD_REASON_EVICTED;
}

static enum nc_pod_reason refused_as(const struct refusal *refusal) {
    static const enum nc_pod_reason by_kind[_NC_ANSWER_MAX] = {
        [NC_ANSWER_BUDGET] = NC_POD_REASON_BUDGET,
        [NC_ANSWER_BUDGETS] = NC_POD_REASON_BUDGETS,
        [NC_ANSWER_NAMESPACE] = NC_POD_REASON_NAMESPACE,
        [NC_ANSWER_REFUSED] = NC_POD_REASON_REFUSED,
        [NC_ANSWER_FAILED] = NC_POD_REASON_FAILED,
    };

    if (!refusal)
        return NC_POD_REASON_NONE;
    return refusal->is_deletion ? NC_POD_REASON_UNDELETED : by_kind[refusal->kind];
}

/* Something keeps it until then. The reason is the first that keeps it now. */
static void keep(struct nc_verdict *v, const struct nc_moments *m, enum nc_pod_reason reason,
                 uint64_t until_usec) {
    if (v->reason == NC_POD_REASON_NONE && until_usec > m->now_usec)
        v->reason = reason;
    v->at_usec = nc_later_usec(v->at_usec, until_usec);
}

/* Until something happens. */
static uint64_t always_if(bool condition) {
    return condition ? UINT64_MAX : 0;
}

/* P11: the more time is left, the longer the pause; but it leaves what is needed for the last
 * eviction and one more. */
static uint64_t asked_again_at(const struct record *e, const struct nc_moments *m) {
    const uint64_t last_usec =
        nc_less_usec(nc_drain_force_delete_at(&e->pod, m->rules->t_usec), TURN_AHEAD_USEC);
    const uint64_t left_usec = nc_less_usec(last_usec, e->refused_usec);
    const uint64_t share_usec = nc_later_usec(e->pause_usec[1], left_usec / PAUSE_SHARE);
    uint64_t pause_usec = share_usec < e->pause_usec[0] ? share_usec : e->pause_usec[0];

    if (pause_usec > left_usec && left_usec && e->refused != NC_ANSWER_BUSY
        && e->refused != NC_ANSWER_BUDGETS)
        pause_usec = left_usec;
    return e->refused_usec ? nc_sum_usec(e->refused_usec, pause_usec) : 0;
}

/* When it may be evicted, and why not before: a rule each. */
static struct nc_verdict graceful_verdict(const struct record *e, const struct nc_moments *m) {
    const struct nc_drain_rules *r = m->rules;
    const struct nc_pod *p = &e->pod;
    const bool is_forced = m->now_usec >= nc_drain_force_delete_at(p, r->t_usec);
    struct nc_verdict v = {.verb = NC_DRAIN_EVICT};

    keep(&v, m, leaving_as(e, m), always_if(nc_drain_is_leaving(e)));
    if (!is_forced)
        keep(&v, m, NC_POD_REASON_KEPT, kept_until(p, m->now_usec));
    if (!is_forced && p->is_replacement_first && r->may_evict)
        keep(&v, m, NC_POD_REASON_REPLACEMENT, r->replaced_by_usec);
    if (v.reason == NC_POD_REASON_NONE)
        v.reason = refused_as(e->refusal); /* also when the pause is over: until one is accepted */
    keep(&v, m, NC_POD_REASON_REQUESTED, always_if(e->is_evicting || e->is_deleting));
    keep(&v, m, NC_POD_REASON_FORCED, always_if(is_forced));
    keep(&v, m, NC_POD_REASON_NOT_BEGUN, always_if(!r->may_evict));
    keep(&v, m, left_until_forced(p, r), always_if(left_until_forced(p, r)));
    keep(&v, m,
         e->refused == NC_ANSWER_UNAVAILABLE ? NC_POD_REASON_UNAVAILABLE : NC_POD_REASON_BUSY,
         asked_again_at(e, m));
    keep(&v, m, NC_POD_REASON_TIER, turn_at(p, m));
    keep(&v, m, NC_POD_REASON_NEW, e->new_usec);
    keep(&v, m, NC_POD_REASON_IN_FLIGHT, always_if(!m->has_room));
    return v;
}

/* --- the verdict */

static void nearest(uint64_t *next, uint64_t usec) {
    if (usec < *next)
        *next = usec;
}

/* When it is another though nothing is answered or seen: the summary is another then. */
static uint64_t next_change(const struct record *e, const struct nc_moments *m) {
    const struct nc_pod *p = &e->pod;
    const uint64_t last_usec = nc_drain_force_delete_at(p, m->rules->t_usec);
    uint64_t next = nc_sum_usec(stuck_usec(p), 1);

    if (hangs_from(p, m->rules) > m->now_usec)
        nearest(&next, hangs_from(p, m->rules));

    if (nc_drain_is_leaving(e)) {
        if (nc_drain_overdue_from(e) > m->now_usec)
            nearest(&next, nc_drain_overdue_from(e));
        return next;
    }
    if (last_usec > m->now_usec)
        nearest(&next, last_usec);
    if (!p->never_disrupt && p->keep_until_usec > m->now_usec)
        nearest(&next, p->keep_until_usec);
    if (is_waiting(e, m))
        nearest(&next, m->rules->replaced_by_usec);
    return next;
}

struct nc_verdict nc_drain_verdict(const struct record *e, const struct nc_moments *m) {
    const enum nc_pod_reason excluded =
        e->is_gone ? NC_POD_REASON_GONE : nc_pod_excluded(&e->pod, m->rules, m->now_usec);
    struct nc_verdict v = {.at_usec = UINT64_MAX, .changes_usec = UINT64_MAX, .reason = excluded};
    struct due force;

    if (excluded != NC_POD_REASON_NONE)
        return v;
    v = graceful_verdict(e, m);
    force = due_by_force(e, m);
    if (force.usec <= m->now_usec || force.usec < v.at_usec) {
        v.verb = force.verb;
        v.at_usec = force.usec;
        v.is_by_force = true;
    }
    if (v.at_usec == UINT64_MAX)
        v.verb = 0;
    v.changes_usec = next_change(e, m);
    return v;
}
