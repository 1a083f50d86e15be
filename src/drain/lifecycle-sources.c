/*
 * The sources of an ending, and what is in force: policy, leading source, deadline.
 *
 * Knows nothing of writes or pods; when less is requested than before, it forgets what was done for
 * more.
 */
#include <string.h>

#include "lifecycle-priv.h"

static bool is_same_notice(const struct nc_notice *a, const struct nc_notice *b) {
    return a->source == b->source && strcmp(a->id, b->id) == 0 && strcmp(a->action, b->action) == 0
           && strcmp(a->reason, b->reason) == 0 && a->policy == b->policy
           && a->deadline_usec == b->deadline_usec
           && a->is_force_delete_time == b->is_force_delete_time && a->begin_usec == b->begin_usec
           && a->cordons_until_then == b->cordons_until_then;
}

/* EC2 does not state how long a lifecycle hook waits: people do. */
static struct nc_notice with_deadline(const struct nc_lifecycle *l, const struct nc_notice *n,
                                      uint64_t noticed_usec) {
    struct nc_notice with = *n;

    if (n->source == NC_SOURCE_AUTOSCALING && !n->deadline_usec
        && l->rules.drain.autoscaling_deadline_usec)
        with.deadline_usec = nc_lifecycle_ec2_time(
            l, nc_sum_usec(noticed_usec, l->rules.drain.autoscaling_deadline_usec));
    return with;
}

void nc_lifecycle_update_deadlines(struct nc_lifecycle *l) {
    for (size_t i = 0; i < _NC_SOURCE_MAX; i++)
        if (l->sources[i].ends_usec)
            l->sources[i].notice.deadline_usec = l->notices[i].deadline_usec =
                nc_lifecycle_ec2_time(l, l->sources[i].ends_usec);
}

/* When what was to happen has happened, and ending pods at once would be for nothing; 0 = never. A
 * force-delete time, and that of a NodeClaim, is set by whoever ends the node in any case. */
static uint64_t passes_at(const struct nc_lifecycle *l, const struct nc_notice *n) {
    const uint64_t usec = n->deadline_usec ? n->deadline_usec : n->begin_usec;

    return n->is_force_delete_time || nc_starts_with(n->id, NC_NOTICE_OF_CLAIM)
               ? 0
               : nc_lifecycle_own_time(l, usec);
}

static bool has_passed(const struct nc_lifecycle *l, const struct nc_notice *n,
                       uint64_t late_usec) {
    const uint64_t usec = passes_at(l, n);

    return usec && nc_sum_usec(usec, late_usec) < l->now_usec;
}

void nc_lifecycle_observe(struct nc_lifecycle *l, const struct nc_notice *observed) {
    struct nc_lifecycle_source *s = &l->sources[observed->source];
    const bool is_same_ending = s->is_active && strcmp(s->notice.id, observed->id) == 0;
    const struct nc_notice with =
        with_deadline(l, observed, is_same_ending ? s->noticed_usec : l->now_usec);
    const struct nc_notice *n = &with;

    s->is_observed = true;
    s->is_of_deleted = false;
    if (s->is_active && is_same_notice(&s->notice, n))
        return;
    if (!is_same_ending) {
        s->noticed_usec = l->now_usec;
        s->is_announced = false;
        s->policy = 0;
        s->is_late = !nc_sources[n->source].has_own_policy && has_passed(l, n, NC_NOTICE_LATE_USEC);
        if (n->source == NC_SOURCE_SHUTDOWN)
            l->has_released = false;
    }
    if (!is_same_ending || s->notice.deadline_usec != n->deadline_usec) {
        const uint64_t ends_usec = nc_lifecycle_own_time(l, n->deadline_usec);
        s->window_usec = ends_usec > l->now_usec ? ends_usec - l->now_usec : 0;
        s->ends_usec = nc_sources[n->source].has_time_left ? ends_usec : 0;
        s->has_begun = s->is_held = false;
    }
    if (s->is_late && !has_passed(l, n, 0)) /* asked again, for a time that is ahead, or for none */
        s->is_late = s->is_announced = false;
    s->is_active = true;
    s->notice = l->notices[n->source] = *n;
}

/* It is no release where another source still keeps the node cordoned. */
static void report_withdrawn(const struct nc_lifecycle *l, enum nc_source source,
                             struct nc_lifecycle_actions *out) {
    const struct nc_drain_summary *sum = &l->summary;
    const size_t ending = sum->leaving + sum->hanging;
    nc_auto_free char *counts = nc_lifecycle_counts_text(l);
    enum nc_policy policy = NC_POLICY_CORDON;
    const char *other = NULL;
    struct nc_buf b = NC_BUF_INIT;

    for (enum nc_source i = 0; i < _NC_SOURCE_MAX; i++)
        if (i != source && l->sources[i].policy >= policy) {
            policy = l->sources[i].policy;
            other = nc_source_name(i);
        }
    (void)nc_buf_printf(&b, "interruption notice %s: %s",
                        l->sources[source].is_of_deleted ? "ended, its Node was deleted"
                                                         : "withdrawn",
                        nc_source_name(source));
    if (other)
        (void)nc_buf_printf(&b, "; a %s goes on for %s", nc_policy_name(policy), other);
    if (sum->evicted + sum->deleted + ending)
        (void)nc_buf_printf(&b, "%s, still ending: %zu", counts, ending);
    nc_lifecycle_emit(NC_LIFECYCLE_MILESTONE_WITHDRAWN, "InterruptionWithdrawn", nc_buf_steal(&b),
                      out);
}

void nc_lifecycle_clear(struct nc_lifecycle *l, enum nc_source source,
                        struct nc_lifecycle_actions *out) {
    struct nc_lifecycle_source *s = &l->sources[source];

    s->is_observed = true;
    if (!s->is_active)
        return;
    if (s->is_announced)
        report_withdrawn(l, source, out);
    if (source == NC_SOURCE_REQUEST && !s->is_of_deleted)
        memcpy(l->withdrawn_id, s->notice.id, sizeof(l->withdrawn_id));
    *s = (struct nc_lifecycle_source){.is_observed = true};
    l->notices[source] = (struct nc_notice){0};
    if (source == NC_SOURCE_SHUTDOWN)
        l->has_released = false;
}

bool nc_lifecycle_all_observed(const struct nc_lifecycle *l) {
    for (size_t i = 0; i < _NC_SOURCE_MAX; i++)
        if (!l->sources[i].is_observed)
            return false;
    return true;
}

static enum nc_policy at_most(enum nc_policy p, enum nc_policy cap) {
    return p < cap ? p : cap;
}

/* The policy of one source once it begins (N1, N4): IGNORE where it is not active. */
static enum nc_policy policy_of(const struct nc_lifecycle *l, enum nc_source source) {
    const struct nc_lifecycle_source *s = &l->sources[source];
    enum nc_policy p = nc_sources[source].has_own_policy ? s->notice.policy
                       : source == NC_SOURCE_MAINTENANCE
                           ? nc_maintenance_policy(&l->rules.drain, s->notice.action)
                           : l->rules.drain.policy[source];

    if (!s->is_active || p < NC_POLICY_IGNORE)
        return NC_POLICY_IGNORE;
    if (source == NC_SOURCE_SHUTDOWN && l->node.has_rebooting_taint)
        p = at_most(p, l->rules.drain.karpenter_reboot);
    if (source == NC_SOURCE_SHUTDOWN && nc_streq(s->notice.action, NC_ACTION_REBOOT))
        p = at_most(p, l->rules.drain.reboot);
    if (s->is_late && !nc_sources[source].has_own_policy)
        p = at_most(p, NC_POLICY_REPORT);
    return at_most(p, nc_drain_mode_cap(l->rules.drain.mode));
}

/* N1: the longest grace and the time that budgets are waited for; not later once it has begun. */
static uint64_t begins_at(const struct nc_lifecycle *l, const struct nc_lifecycle_source *s,
                          enum nc_policy p) {
    const uint64_t begin_usec = nc_lifecycle_own_time(l, s->notice.begin_usec);

    if (p < NC_POLICY_DRAIN || !begin_usec || !s->notice.deadline_usec)
        return begin_usec;
    const uint64_t grace_usec = nc_lifecycle_longest_grace(l);
    return s->has_begun ? 0
                        : nc_less_usec(begin_usec, grace_usec < NC_MAINTENANCE_GRACE_USEC
                                                       ? grace_usec
                                                       : NC_MAINTENANCE_GRACE_USEC);
}

/* Before it begins a source only reports, or cordons for another event. */
static enum nc_policy update_begin(struct nc_lifecycle *l, enum nc_source source,
                                   uint64_t *next_usec) {
    struct nc_lifecycle_source *s = &l->sources[source];
    const enum nc_policy p = policy_of(l, source);
    const uint64_t begin_usec = begins_at(l, s, p);

    if (p <= NC_POLICY_REPORT)
        return p;
    if (nc_has_come(l->now_usec, begin_usec, next_usec)) {
        s->has_begun = s->notice.begin_usec != 0;
        return p;
    }
    l->notices[source].begin_usec = nc_lifecycle_ec2_time(l, begin_usec);
    if (p == NC_POLICY_DRAIN
        && nc_has_come(l->now_usec, nc_less_usec(begin_usec, NC_MAINTENANCE_GRACE_USEC), next_usec))
        l->in_force.is_ahead = true;
    return s->notice.cordons_until_then ? at_most(p, NC_POLICY_CORDON) : NC_POLICY_REPORT;
}

/* N1: a notice of EC2 that was less than a drain while its time passed becomes none after that.
 * Where nothing but its begin was waited for, or a process was stopped, that is seen late. A
 * request goes on, for a machine that ends nobody knows when. */
static bool is_late(const struct nc_lifecycle *l, enum nc_source source, enum nc_policy p,
                    uint64_t *next_usec) {
    const struct nc_lifecycle_source *s = &l->sources[source];
    const uint64_t passes_usec = passes_at(l, &s->notice);

    if (nc_sources[source].has_own_policy)
        return passes_usec
               && nc_has_come(l->now_usec, nc_sum_usec(passes_usec, NC_REQUEST_LATE_USEC),
                              next_usec);
    return s->is_late
           || (p == NC_POLICY_DRAIN && s->policy && s->policy < p
               && has_passed(l, &s->notice, s->is_held ? 0 : NC_NOTICE_LATE_USEC));
}

static enum nc_policy update_policy(struct nc_lifecycle *l, enum nc_source source,
                                    uint64_t *next_usec) {
    struct nc_lifecycle_source *s = &l->sources[source];
    enum nc_policy p = update_begin(l, source, next_usec);

    if (is_late(l, source, p, next_usec) != s->is_late) {
        s->is_late = !s->is_late;
        s->is_announced &= l->phase == NC_LIFECYCLE_DRAINED;
        p = update_begin(l, source, next_usec);
    }
    s->is_held = policy_of(l, source) < NC_POLICY_DRAIN;
    return s->policy = p;
}

static uint64_t deadline_of(const struct nc_lifecycle *l, const struct nc_lifecycle_source *s) {
    if (nc_notice_is_gentle(&s->notice) || s->is_late)
        return 0;
    return s->ends_usec ? s->ends_usec : nc_lifecycle_own_time(l, s->notice.deadline_usec);
}

static uint64_t less_margin(const struct nc_lifecycle *l, const struct nc_lifecycle_source *s,
                            uint64_t margin_usec) {
    const uint64_t deadline_usec = deadline_of(l, s);

    if (!deadline_usec || s->notice.is_force_delete_time)
        return deadline_usec;
    return deadline_usec > margin_usec ? deadline_usec - margin_usec : 1;
}

uint64_t nc_lifecycle_force_delete_at(const struct nc_lifecycle *l, enum nc_source source) {
    const struct nc_lifecycle_source *s = &l->sources[source];

    return less_margin(l, s, nc_margin_usec(l->rules.drain.margin_usec, s->window_usec));
}

/* N2: who is asked late has the margin of what is left by now, and where that is none, the rest. */
static uint64_t late_until(const struct nc_lifecycle *l, const struct nc_lifecycle_source *s) {
    const uint64_t deadline_usec = deadline_of(l, s);
    const uint64_t left_usec = deadline_usec > l->now_usec ? deadline_usec - l->now_usec : 0;
    const uint64_t margin_usec = nc_margin_usec(l->rules.drain.margin_usec, left_usec);

    return less_margin(l, s, margin_usec < left_usec ? margin_usec : NC_KILL_USEC);
}

static void earliest(uint64_t *usec, uint64_t other_usec) {
    if (other_usec && (!*usec || other_usec < *usec))
        *usec = other_usec;
}

/* The machine's deadline is what EC2 or a person said. A force-delete time that somebody derived
 * from it stands in only where nothing else is known: otherwise the two would take margins off each
 * other's in turn. */
static void evaluate_sources(struct nc_lifecycle *l, uint64_t *next_usec) {
    struct nc_lifecycle_in_force *f = &l->in_force;
    uint64_t derived_usec = 0;

    *f = (struct nc_lifecycle_in_force){
        .policy = NC_POLICY_IGNORE, .leading = -1, .is_only_deletion = true};
    for (size_t i = 0; i < _NC_SOURCE_MAX; i++) {
        const enum nc_policy p = update_policy(l, (enum nc_source)i, next_usec);
        const struct nc_notice *n = &l->sources[i].notice;
        if (p == NC_POLICY_IGNORE)
            continue;
        if (p >= f->policy) {
            f->policy = p;
            f->leading = (int)i;
        }
        if (!l->sources[i].is_late)
            earliest(n->is_force_delete_time ? &derived_usec : &f->deadline_usec, n->deadline_usec);
        if (p != NC_POLICY_DRAIN)
            continue;
        earliest(&f->t_usec, nc_lifecycle_force_delete_at(l, (enum nc_source)i));
        earliest(&f->late_usec, late_until(l, &l->sources[i]));
        f->is_only_deletion = f->is_only_deletion && i == NC_SOURCE_DELETION;
    }
    if (!f->deadline_usec)
        f->deadline_usec = derived_usec;
}

static void forget_drain(struct nc_lifecycle *l) {
    static const enum nc_lifecycle_milestone of_drain[] = {
        NC_LIFECYCLE_MILESTONE_DRAINING,   NC_LIFECYCLE_MILESTONE_FORCING,
        NC_LIFECYCLE_MILESTONE_DRAINED,    NC_LIFECYCLE_MILESTONE_FAILED,
        NC_LIFECYCLE_MILESTONE_ORPHANED,   NC_LIFECYCLE_MILESTONE_WAITING,
        NC_LIFECYCLE_MILESTONE_UNREPLACED, NC_LIFECYCLE_MILESTONE_BLOCKED,
        NC_LIFECYCLE_MILESTONE_INCOMPLETE, NC_LIFECYCLE_MILESTONE_UNLABELLED};

    for (size_t i = 0; i < NC_ARRAY_SIZE(of_drain); i++)
        l->has_announced[of_drain[i]] = false;
    for (size_t i = 0; i < NC_LIFECYCLE_BUDGETS; i++)
        free(nc_steal(&l->budgets[i].key));
    if (nc_lifecycle_all_observed(l)) /* after a restart the drain may yet turn out to go on */
        memset(l->hooks, 0, sizeof(l->hooks));
    l->has_taken_over = l->is_label_lost = l->is_going_on = l->is_older = false;
    l->evicting_usec = 0;
    l->held_phase = NC_LIFECYCLE_IDLE;
}

static void forget_cordon(struct nc_lifecycle *l) {
    if (l->is_cordon_done && l->was_lifted) /* another one may stand by now */
        l->has_cordoned = l->was_foreign = true;
    l->was_foreign |= l->is_foreign;
    l->is_cordon_done = l->is_foreign = false;
    l->label_refused_usec = 0;
    l->cordoned_usec = 0;
    l->has_announced[NC_LIFECYCLE_MILESTONE_CORDONED] =
        l->has_announced[NC_LIFECYCLE_MILESTONE_RECORDONED] =
            l->has_announced[NC_LIFECYCLE_MILESTONE_UNCORDONED] = false;
}

/* What was said of a pod that is held names another time, or none: it is said anew. */
static void renew_blocked(struct nc_lifecycle *l, uint64_t before_usec) {
    const uint64_t t_usec = l->in_force.t_usec;

    if (nc_less_usec(t_usec, before_usec) + nc_less_usec(before_usec, t_usec) < NC_SEC_USEC)
        return;
    for (size_t i = 0; i < NC_LIFECYCLE_BUDGETS; i++)
        l->budgets[i].is_outdated = true;
}

void nc_lifecycle_apply_policies(struct nc_lifecycle *l, uint64_t *next_usec) {
    const uint64_t before_usec = l->in_force.t_usec;

    evaluate_sources(l, next_usec);
    renew_blocked(l, before_usec);
    if (l->in_force.policy < NC_POLICY_DRAIN) {
        forget_drain(l);
        l->is_cordoned_to_drain = false;
    } else if (!l->is_cordoned_to_drain) {
        l->is_cordon_done = false; /* one that was made to cordon left load balancers alone */
    }
    if (l->in_force.policy < NC_POLICY_CORDON) {
        forget_cordon(l);
        l->raised_usec = 0;
        if (!l->quiet_usec)
            l->quiet_usec = l->now_usec;
    } else {
        l->was_foreign = false;
        l->quiet_usec = 0;
        if (!l->raised_usec)
            l->raised_usec = l->now_usec;
    }
    if (l->in_force.policy < NC_POLICY_REPORT)
        l->signalled.is_set = false;
}
