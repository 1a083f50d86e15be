/*
 * The member `drain` of status.json: what is announced, the policy in force, what blocks it.
 *
 * Pure: reads the lifecycle, builds a value. Every member is always there; what is not known is
 * null, so that a reader needs no schema.
 */
#include "nc/drain-report.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "lifecycle-priv.h"
#include "nc/str.h"

#define MAX_BLOCKED 20
#define MAX_OTHERS 250 /* more than kubelet runs, as a rule */

static struct nc_value *new_source(enum nc_source s, const struct nc_lifecycle_view *view) {
    const struct nc_notice *n = &view->notices[s];
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "source", nc_source_name(s));
    nc_value_set_text(v, "id", n->id);
    nc_value_set_text(v, "action", n->action);
    nc_value_set_time(v, "noticed", view->noticed_usec[s]);
    nc_value_set_time(v, "deadline", n->deadline_usec);
    nc_value_set_time(v, "begin", n->begin_usec);
    nc_value_set_text(v, "policy", nc_policy_name(view->policies[s]));
    nc_value_set_text(v, "reason", n->reason);
    nc_value_set_bool(v, "putBack", s == NC_SOURCE_REQUEST && view->is_put_back);
    return v;
}

static struct nc_value *new_sources(const struct nc_lifecycle_view *view) {
    struct nc_value *list = nc_value_new_list();

    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (view->is_active[s])
            nc_value_push(list, new_source(s, view));
    return list;
}

/* What leads: its id, who it is, and in which words. */
static void set_leading(struct nc_value *v, const struct nc_lifecycle_view *view) {
    const bool is_led = view->leading >= 0 && view->leading < _NC_SOURCE_MAX;
    const enum nc_source s = is_led ? (enum nc_source)view->leading : 0;
    const struct nc_notice *n = &view->notices[s];

    nc_value_set_text(v, "id", is_led ? n->id : NULL);
    nc_value_set_text(v, "source", is_led ? nc_source_name(s) : NULL);
    nc_value_set_text(v, "reason", !is_led ? NULL : n->reason[0] ? n->reason : nc_source_reason(s));
}

static struct nc_value *new_cordon(const struct nc_lifecycle_view *view) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_bool(v, "ours", view->is_ours);
    nc_value_set_time(v, "since", view->cordoned_usec);
    nc_value_set_bool(v, "refused", view->is_refused);
    nc_value_set_bool(v, "failing", view->is_failing);
    nc_value_set_bool(v, "lifted", view->is_lifted);
    nc_value_set_bool(v, "labelRemoved", view->is_unlabelled);
    return v;
}

static struct nc_value *new_hooks(const struct nc_lifecycle_view *view) {
    struct nc_value *v = nc_value_new_map();

    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++) {
        const struct nc_hook_run *run = &view->hooks[h];
        struct nc_value *one = nc_value_add_map(v, nc_hook_name(h));
        nc_value_set_string(one, "state", nc_hook_state_name(run->state));
        nc_value_set_time(one, "started", run->started_usec);
        nc_value_set_time(one, "ended", run->ended_usec);
    }
    return v;
}

#define COUNT(member)                                                                              \
    { #member, offsetof(struct nc_drain_summary, member) }
static const struct {
    char name[10];
    unsigned short offset;
} counts[] = {COUNT(total),   COUNT(remaining), COUNT(leaving), COUNT(kept),
              COUNT(blocked), COUNT(waiting), /* those so far a list alone can tell */
              COUNT(evicted), COUNT(deleted)};
#define N_OF_LIST 6

struct nc_value *nc_drain_counts(const struct nc_drain_summary *s, bool is_listed) {
    struct nc_value *v = nc_value_new_map();
    struct nc_value *excluded;

    for (size_t i = 0; i < NC_ARRAY_SIZE(counts); i++)
        nc_value_set_count(v, counts[i].name, is_listed || i >= N_OF_LIST,
                           *(const size_t *)((const char *)s + counts[i].offset));
    excluded = nc_value_add_map(v, "excluded");
    for (enum nc_pod_reason e = NC_POD_REASON_NONE + 1; e < _NC_POD_REASON_EXCLUDED_MAX; e++)
        nc_value_set_int(excluded, nc_pod_reason_name(e), (int64_t)s->excluded[e]);
    return v;
}

/* Of a time that a pod has, which is ours. */
static void set_own_time(struct nc_value *v, const char *key, uint64_t usec, int64_t offset_usec) {
    nc_value_set_time(v, key, nc_lifecycle_shift(usec, offset_usec));
}

/* What both lists have: why it is still there, and what was done to it when. */
static struct nc_value *new_pod(const struct nc_drain_line *line, int64_t clock_offset_usec) {
    struct nc_value *v = nc_value_new_map();
    nc_auto_free char *name = nc_asprintf("%s/%s", line->pod->namespace, line->pod->name);

    nc_value_set_string(v, "pod", name);
    nc_value_set_string(v, "reason", nc_pod_reason_name(line->verdict.reason));
    if (line->evicted_usec)
        set_own_time(v, "evicted", line->evicted_usec, clock_offset_usec);
    if (line->deleted_usec)
        set_own_time(v, "deleted", line->deleted_usec, clock_offset_usec);
    return v;
}

static struct nc_value *new_blocked_pod(const struct nc_drain_line *line, uint64_t now_usec,
                                        int64_t clock_offset_usec) {
    const uint64_t at_usec = nc_lifecycle_shift(line->verdict.at_usec, clock_offset_usec);
    const bool is_blocked = nc_pod_reason_kind(line->verdict.reason) == NC_REASON_KIND_BLOCKED;
    struct nc_value *v = new_pod(line, clock_offset_usec);

    if (nc_pod_order_name(line->pod->order) || line->turn == NC_TIER_LAST)
        nc_value_set_string(v, "order",
                            line->turn == NC_TIER_LAST ? nc_pod_order_name(NC_POD_ORDER_LAST)
                                                       : nc_pod_order_name(line->pod->order));
    nc_value_set_text(v, "budget", line->budget);
    nc_value_set_text(v, "message",
                      is_blocked ? line->message : nc_pod_reason_text(nc_drain_held_as(line)));
    if (line->remedy)
        nc_value_set_string(v, "remedy", line->remedy);
    set_own_time(v, "since", line->since_usec, clock_offset_usec);
    set_own_time(v, "forceDeleteAt", line->force_delete_at_usec, clock_offset_usec);
    if (is_blocked && line->verdict.verb == NC_DRAIN_EVICT && at_usec > now_usec)
        nc_value_set_time(v, "at", at_usec);
    if (line->verdict.reason == NC_POD_REASON_KEPT && !line->pod->never_disrupt
        && (!line->force_delete_at_usec || line->pod->keep_until_usec < line->force_delete_at_usec))
        set_own_time(v, "keptUntil", line->pod->keep_until_usec, clock_offset_usec);
    return v;
}

static struct nc_value *new_other_pod(const struct nc_drain_line *line, uint64_t now_usec,
                                      int64_t clock_offset_usec) {
    const struct nc_verdict *verdict = &line->verdict;
    const uint64_t at_usec = nc_lifecycle_shift(verdict->at_usec, clock_offset_usec);
    struct nc_value *v = new_pod(line, clock_offset_usec);

    nc_value_set_text(v, "next", nc_drain_verb_name(verdict->verb));
    nc_value_set_time(v, "at", verdict->verb && at_usec > now_usec ? at_usec : 0);
    set_own_time(v, "graceEnds", line->pod->deletion_usec, clock_offset_usec);
    if (line->pod->deletion_grace_sec && line->pod->deletion_grace_sec < line->pod->grace_sec) {
        nc_auto_free char *grace = nc_asprintf("%" PRIu64 " of %" PRIu64 " s",
                                               line->pod->deletion_grace_sec, line->pod->grace_sec);
        nc_value_set_string(v, "grace", grace);
    }
    return v;
}

/* Each pod is in one list: in that of those that are named everywhere, or in that of the others. */
static void set_pods(struct nc_value *v, const struct nc_lifecycle_view *view,
                     const struct nc_drain *d, uint64_t now_usec) {
    const int64_t offset_usec = view->clock_offset_usec;
    struct nc_value *blocked = nc_value_add_list(v, "blocked");
    struct nc_value *others = nc_value_add_list(v, "others");
    const uint64_t own_usec = nc_lifecycle_shift(now_usec, -offset_usec);
    size_t n;
    nc_auto_free struct nc_drain_line *lines = nc_drain_lines(d, &view->drain_rules, own_usec, &n);

    for (size_t i = 0; i < n; i++) {
        const bool is_named = nc_pod_reason_is_named(lines[i].verdict.reason);
        if (view->is_unwatched && lines[i].pod->deletion_usec <= own_usec)
            continue;
        if (is_named && blocked->n < MAX_BLOCKED)
            nc_value_push(blocked, new_blocked_pod(&lines[i], now_usec, offset_usec));
        else if (!is_named && others->n < MAX_OTHERS)
            nc_value_push(others, new_other_pod(&lines[i], now_usec, offset_usec));
    }
}

struct nc_value *nc_drain_report_view(const struct nc_lifecycle_view *view,
                                      const struct nc_drain *d, uint64_t now_usec,
                                      struct nc_value *history) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "phase", nc_lifecycle_view_phase(view));
    nc_value_set_time(v, "since", view->since_usec);
    if (view->retry_usec)
        nc_value_set_time(v, "at", view->retry_usec);
    set_leading(v, view);
    nc_value_set_text(v, "policy", nc_policy_name(view->policy));
    nc_value_set_time(v, "deadline", view->deadline_usec);
    nc_value_set_time(v, "forceDeleteAt", view->t_usec);
    nc_value_set(v, "sources", new_sources(view));
    nc_value_set(v, "cordon", new_cordon(view));
    nc_value_set_bool(v, "nodeDeleted", view->is_orphaned);
    nc_value_set_bool(v, "sinceRestart", view->is_older);
    nc_value_set(v, "pods", nc_drain_counts(&view->drain, !view->is_unlisted));
    nc_value_set_text(v, "incomplete",
                      view->drain.gap == NC_LIST_COMPLETE ? NULL
                                                          : nc_list_gap_name(view->drain.gap));
    set_pods(v, view, d, now_usec);
    nc_value_set_int(v, "volumes", (int64_t)view->n_volumes);
    nc_value_set_text(v, "volume", view->n_volumes ? view->volume : NULL);
    nc_value_set(v, "hooks", new_hooks(view));
    nc_value_set_time(v, "drained", view->drained_usec);
    nc_value_set(v, "history", history ? history : nc_value_new_list());
    return v;
}

struct nc_value *nc_drain_report(const struct nc_lifecycle *l, uint64_t now_usec,
                                 struct nc_value *history) {
    struct nc_lifecycle_view view;

    nc_lifecycle_get_view(l, now_usec, &view);
    return nc_drain_report_view(&view, l->is_open ? nc_lifecycle_drain(l) : l->drain, now_usec,
                                history);
}
