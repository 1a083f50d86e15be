/*
 * What a drain reports of itself: counts, and a line for each pod. Changes nothing.
 */
#include "drain-priv.h"

/* One whose eviction is just being asked for, or was not yet, may leave by that. */
static bool is_forced(const struct record *e, const struct nc_moments *m,
                      enum nc_reason_kind kind) {
    return kind > NC_REASON_KIND_LEAVING && e->evictions
           && m->now_usec >= nc_drain_eviction_waits(e)
           && m->now_usec >= nc_drain_force_delete_at(&e->pod, m->rules->t_usec);
}

static void fill_line(const struct record *e, const struct nc_moments *m,
                      struct nc_drain_line *ret) {
    const uint64_t last_usec = nc_drain_force_delete_at(&e->pod, m->rules->t_usec);

    *ret = (struct nc_drain_line){
        .pod = &e->pod,
        .turn = nc_pod_turn(&e->pod, m->rules),
        .verdict = nc_drain_verdict(e, m),
        .budget = "",
        .message = "",
        .evicted_usec = e->evicted_usec,
        .deleted_usec = e->deleted_usec,
    };
    ret->is_forced = is_forced(e, m, nc_pod_reason_kind(ret->verdict.reason));
    if (ret->is_forced)
        ret->grace_sec = nc_drain_grace(&e->pod, 0, m->rules, m->now_usec);
    else if (e->grace_sec < e->pod.grace_sec && (e->is_evicting || nc_drain_is_leaving(e)))
        ret->grace_sec = e->grace_sec;
    if (e->refused == NC_ANSWER_BUSY || e->refused == NC_ANSWER_UNAVAILABLE) {
        ret->busy = e->refusals;
        ret->busy_as = e->refused;
    }
    if (e->pod.deletion_usec && nc_pod_reason_is_named(ret->verdict.reason))
        ret->since_usec = e->pod.deletion_usec;
    if (nc_pod_reason_kind(ret->verdict.reason) < NC_REASON_KIND_LEAVING)
        return;
    if (m->rules->t_usec) /* 0 is for no deadline */
        ret->force_delete_at_usec = last_usec ? last_usec : 1;
    if (e->refusal) {
        ret->budget = e->refusal->budget;
        ret->message = e->refusal->message;
        if (nc_pod_reason_kind(ret->verdict.reason) != NC_REASON_KIND_BLOCKED)
            return;
        ret->since_usec = e->refusal->since_usec;
        if (e->refusal->is_unauthorized)
            ret->remedy = e->refusal->is_deletion
                              ? "allow delete of pods to group system:nodes"
                              : "allow create of pods/eviction to group system:nodes";
    }
}

struct nc_drain_line *nc_drain_lines(const struct nc_drain *d, const struct nc_drain_rules *r,
                                     uint64_t now_usec, size_t *ret_n) {
    const struct nc_moments m = nc_drain_moments(d, r, now_usec);
    struct nc_drain_line *lines = nc_calloc(d->n + 1, sizeof(*lines));

    *ret_n = 0;
    for (int is_last = 0; is_last < 2; is_last++)
        for (size_t i = 0; i < d->n; i++) {
            const struct record *e = d->by_order[i];
            if (!e->is_gone && (nc_pod_turn(&e->pod, r) == NC_TIER_LAST) == is_last)
                fill_line(e, &m, &lines[(*ret_n)++]);
        }
    return lines;
}

enum nc_pod_reason nc_drain_held_as(const struct nc_drain_line *line) {
    if (line->verdict.reason != NC_POD_REASON_STUCK)
        return line->verdict.reason;
    return nc_pod_hangs_as(line->pod);
}

const char *nc_drain_remedy(const char *reason) {
    return nc_streq(reason, nc_pod_reason_name(NC_POD_REASON_KEPT))
               ? "kubectl annotate pod POD karpenter.sh/do-not-disrupt-"
           : nc_streq(reason, nc_pod_reason_name(NC_POD_REASON_BUDGET))
               ? "mend that budget's pods, or change it (kubectl get pdb)"
               : "mend what the answer names";
}

static void count(const struct record *e, const struct nc_moments *m,
                  struct nc_drain_summary *ret) {
    const enum nc_pod_reason reason = nc_drain_verdict(e, m).reason;
    const enum nc_reason_kind kind = nc_pod_reason_kind(reason);

    ret->total += e->was_eligible || kind >= NC_REASON_KIND_LEAVING;
    ret->remaining += kind >= NC_REASON_KIND_LEAVING;
    ret->evicted += kind == NC_REASON_KIND_GONE && e->evicted_usec != 0;
    if (kind == NC_REASON_KIND_EXCLUDED)
        ret->excluded[reason]++;
    ret->named += nc_pod_reason_is_named(reason);
    ret->leaving += kind == NC_REASON_KIND_LEAVING && !nc_pod_reason_is_named(reason);
    if (kind == NC_REASON_KIND_LEAVING && e->pod.deletion_usec > ret->ends_usec)
        ret->ends_usec = e->pod.deletion_usec;
    ret->kept += kind == NC_REASON_KIND_KEPT;
    ret->hanging += kind == NC_REASON_KIND_LEAVING && nc_pod_reason_is_named(reason);
    ret->blocked += kind == NC_REASON_KIND_BLOCKED
                    || (kind == NC_REASON_KIND_LEAVING && nc_pod_reason_is_named(reason));
    ret->waiting += kind == NC_REASON_KIND_WAITING;
    ret->is_forcing = ret->is_forcing || is_forced(e, m, kind);
}

void nc_drain_summarize(const struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                        struct nc_drain_summary *ret) {
    const struct nc_moments m = nc_drain_moments(d, r, now_usec);

    *ret = d->so_far;
    ret->gap = nc_drain_gap(d, r);
    for (size_t i = 0; i < d->n; i++)
        count(d->by_order[i], &m, ret);
}
