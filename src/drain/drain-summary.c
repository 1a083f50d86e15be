/*
 * What a drain tells of itself: counts, and a line for each pod. Changes nothing.
 */
#include "drain-priv.h"

/* Lines give 0 where there is no deadline. */
static uint64_t shown_moment(const struct nc_pod *p, uint64_t t_usec) {
    const uint64_t usec = nc_drain_force_delete_at(p, t_usec);

    if (!t_usec)
        return 0;
    return usec ? usec : 1;
}

static void fill_line(const struct record *e, const struct nc_drain_rules *r, uint64_t now_usec,
                      struct nc_drain_line *ret) {
    const uint64_t last_usec = nc_drain_force_delete_at(&e->pod, r->t_usec);

    *ret = (struct nc_drain_line){.pod = &e->pod, .budget = "", .message = ""};
    ret->turn = nc_drain_turn(e, r);
    ret->excluded = nc_drain_excluded(e, r, now_usec);
    if (ret->excluded != NC_POD_ELIGIBLE)
        return;
    ret->force_delete_at_usec = shown_moment(&e->pod, r->t_usec);
    ret->is_leaving = nc_drain_is_leaving(e);
    ret->is_kept = !ret->is_leaving && now_usec < last_usec && nc_pod_is_kept(&e->pod, now_usec);
    ret->is_waiting = nc_drain_is_waiting(e, r, now_usec);
    ret->is_blocked = !ret->is_leaving && !ret->is_kept && !ret->is_waiting && e->refusal;
    if (e->refusal) {
        ret->budget = e->refusal->budget;
        ret->message = e->refusal->message;
    }
}

size_t nc_drain_lines(const struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                      struct nc_drain_line *ret, size_t room) {
    size_t n = 0;

    for (int is_last = 0; is_last < 2; is_last++)
        for (size_t i = 0; i < d->n && n < room; i++) {
            const struct record *e = d->by_order[i];
            if (!e->is_gone && (nc_drain_turn(e, r) == NC_TIER_LAST) == is_last)
                fill_line(e, r, now_usec, &ret[n++]);
        }
    return n;
}

static void count_line(const struct nc_drain_line *line, uint64_t now_usec,
                       struct nc_drain_summary *ret) {
    if (line->excluded != NC_POD_ELIGIBLE) {
        ret->excluded[line->excluded]++;
        return;
    }
    ret->remaining++;
    ret->leaving += line->is_leaving;
    ret->kept += line->is_kept;
    ret->blocked += line->is_blocked;
    ret->waiting += line->is_waiting;
    if (!line->is_leaving && line->force_delete_at_usec && now_usec >= line->force_delete_at_usec)
        ret->is_forcing = true;
}

void nc_drain_summarize(const struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                        struct nc_drain_summary *ret) {
    *ret = d->so_far;
    ret->gap = nc_drain_gap(d, r);
    for (size_t i = 0; i < d->n; i++) {
        const struct record *e = d->by_order[i];
        struct nc_drain_line line;
        fill_line(e, r, now_usec, &line);
        if (e->was_eligible || (!e->is_gone && line.excluded == NC_POD_ELIGIBLE))
            ret->total++;
        if (e->is_gone)
            ret->evicted += e->evicted_usec != 0;
        else
            count_line(&line, now_usec, ret);
    }
}
