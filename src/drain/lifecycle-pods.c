/*
 * The pods of the drain: when they are watched, what is requested from them, and which block it.
 *
 * What is due for a pod is the drain's to say (nc/drain.h); here is only when the drain runs, and
 * by which rules.
 */
#include "lifecycle-priv.h"
#include "nc/str.h"
#include "nc/time.h"

#define BUSY_TIMES 4
#define BLOCKED_EVENT_USEC (30 * NC_SEC_USEC)
#define BLOCKED_EVENT_MAX_USEC (600 * NC_SEC_USEC)
#define OUTDATED_EVENT_USEC (5 * NC_SEC_USEC)
#define BLOCKED_SHARE 60 /* of the time that is left */
#define STALLED_USEC (NC_SEC_USEC / 10)
#define RELIST_USEC NC_SEC_USEC /* of an incomplete list: nothing else is left to be done, */
#define RELIST_PRESSED_USEC (5 * NC_SEC_USEC) /* there is a deadline, */
#define RELIST_IDLE_USEC (30 * NC_SEC_USEC)   /* or there is none */
#define TAINT_USEC (5 * NC_SEC_USEC) /* after the first eviction Karpenter's taint is awaited */
#define REQUESTED_AT_ONCE ((size_t)64)

/* N12: under a deadline that is nearer than that nobody is waited for. */
static uint64_t replaced_by(const struct nc_lifecycle *l) {
    const uint64_t usec = nc_sum_usec(l->evicting_usec, l->rules.drain.replacement_usec);

    if (!l->evicting_usec || !l->rules.drain.replacement_usec || l->orphaned_usec)
        return 0;
    return l->in_force.t_usec && l->in_force.t_usec <= usec ? 0 : usec;
}

/* P6: Karpenter's taint follows the deletion of its NodeClaim, which may have just begun. */
static uint64_t daemons_until(const struct nc_lifecycle *l) {
    return l->evicting_usec && !l->node.has_disrupted_taint
               ? nc_sum_usec(l->evicting_usec, TAINT_USEC)
               : 0;
}

void nc_lifecycle_drain_rules(const struct nc_lifecycle *l, struct nc_drain_rules *ret) {
    *ret = (struct nc_drain_rules){
        .t_usec = l->in_force.t_usec,
        .late_usec = l->in_force.late_usec,
        .may_evict = l->is_synced && l->has_taken_over /* tiers need to know every pod */
                     && nc_lifecycle_is_hook_over(l, NC_HOOK_PRE_DRAIN)
                     && !nc_lifecycle_is_given_back(l),
        .has_disrupted_taint = l->node.has_disrupted_taint,
        .daemons_until_usec = daemons_until(l),
        .karpenter_drains = l->in_force.is_only_deletion, /* nobody else requests a drain */
        .tolerating_last = l->rules.drain.tolerating_last,
        .blind_usec = {l->blind_usec[0], l->blind_usec[1]},
        .cordoned_usec = l->is_cordon_done ? l->cordoned_usec : l->raised_usec,
        .replaced_by_usec = replaced_by(l),
        .max_in_flight = l->rules.max_in_flight ? l->rules.max_in_flight : 1,
        .seed = l->rules.seed,
    };
}

void nc_lifecycle_update_summary(struct nc_lifecycle *l) {
    struct nc_drain_rules rules;

    nc_lifecycle_drain_rules(l, &rules);
    nc_drain_summarize(nc_lifecycle_looks_ahead(l) ? l->no_drain : l->drain, &rules, l->now_usec,
                       &l->summary);
}

uint64_t nc_lifecycle_longest_grace(const struct nc_lifecycle *l) {
    struct nc_drain_rules rules;
    uint64_t usec = 0;
    size_t n;

    if (!l->is_synced) /* some may be of a watch that was closed */
        return 0;
    nc_lifecycle_drain_rules(l, &rules);
    rules.karpenter_drains = false; /* once it begins */
    nc_auto_free struct nc_drain_line *v = nc_drain_lines(l->drain, &rules, l->now_usec, &n);
    for (size_t i = 0; i < n; i++)
        if (nc_pod_reason_kind(v[i].verdict.reason) >= NC_REASON_KIND_LEAVING)
            usec = nc_later_usec(usec, nc_sec_to_usec(v[i].pod->grace_sec));
    return usec;
}

struct nc_drain_line *nc_lifecycle_lines(const struct nc_lifecycle *l, size_t *ret_n) {
    struct nc_drain_rules rules;

    nc_lifecycle_drain_rules(l, &rules);
    return nc_drain_lines(l->drain, &rules, l->now_usec, ret_n);
}

uint64_t nc_lifecycle_first_mark_at(const struct nc_lifecycle *l) {
    uint64_t first_usec = UINT64_MAX;
    size_t n;

    if (!l->in_force.t_usec || !l->is_synced) /* of an earlier watch they may be long gone */
        return UINT64_MAX;
    nc_auto_free struct nc_drain_line *v = nc_lifecycle_lines(l, &n);
    for (size_t i = 0; i < n; i++)
        if (nc_pod_reason_kind(v[i].verdict.reason) > NC_REASON_KIND_LEAVING
            && v[i].force_delete_at_usec < first_usec)
            first_usec = v[i].force_delete_at_usec;
    return first_usec > NC_DRAIN_MARK_AHEAD_USEC && first_usec != UINT64_MAX
               ? first_usec - NC_DRAIN_MARK_AHEAD_USEC
               : first_usec;
}

/* The pods stay known, for questions about them may be in flight; but nobody is shown them. */
void nc_lifecycle_close_pods(struct nc_lifecycle *l, struct nc_lifecycle_actions *out) {
    if (!l->is_open)
        return;
    l->is_open = l->is_synced = l->has_told_cut = false;
    l->empty_usec = 0;
    nc_drain_restart(l->drain);
    (void)nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_PODS_CLOSE);
}

/* What is known stays; what the list will not show is gone. */
static void open_pods(struct nc_lifecycle *l, struct nc_lifecycle_actions *out) {
    size_t n;
    nc_auto_free struct nc_drain_line *v = nc_lifecycle_lines(l, &n);

    nc_strv_done(&l->unseen);
    for (size_t i = 0; i < n; i++)
        nc_strv_add(&l->unseen, v[i].pod->uid);
    nc_drain_begin_list(l->drain);
    l->is_open = true;
    l->is_synced = false;
    l->opened_usec = l->now_usec;
    (void)nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_PODS_OPEN);
}

/* N15: not every pod is known. Once those that are have gone, or some of them, the others are
 * listed. */
static bool needs_rest(const struct nc_lifecycle *l, uint64_t *next_usec) {
    const struct nc_drain_summary *s = &l->summary;
    uint64_t pause_usec = l->in_force.t_usec ? RELIST_PRESSED_USEC : RELIST_IDLE_USEC;

    if (s->gap == NC_LIST_COMPLETE
        || (s->gap == NC_LIST_TOO_MANY && !nc_drain_has_room(l->drain, s->remaining)))
        return false;
    if (s->gap == NC_LIST_TOO_MANY && s->remaining == 0)
        pause_usec = RELIST_USEC;
    return nc_has_come(l->now_usec, nc_sum_usec(l->synced_usec, pause_usec), next_usec);
}

/* A pod may have been bound between the list and the cordon. And who was reported to be gone in
 * answer to a question may be there all the same: the API server knew nothing of it yet. */
static bool needs_list(const struct nc_lifecycle *l, uint64_t *next_usec) {
    return (!l->is_cordon_done && l->synced_usec < l->orphaned_usec)
           || (l->is_cordon_done && l->synced_usec < l->cordoned_usec)
           || (l->empty_usec && l->absent_usec && l->opened_usec < l->absent_usec)
           || needs_rest(l, next_usec);
}

void nc_lifecycle_open_pods(struct nc_lifecycle *l, uint64_t *next_usec,
                            struct nc_lifecycle_actions *out) {
    const bool is_ahead = (l->phase == NC_LIFECYCLE_REPORTED || l->phase == NC_LIFECYCLE_CORDONED)
                          && l->in_force.is_ahead;

    if (!(is_ahead || nc_lifecycle_has_pods(l->phase)) || !nc_lifecycle_has_machine(l)
        || l->is_resuming) {
        nc_lifecycle_close_pods(l, out);
    } else if (!l->is_open) {
        nc_drain_restart(l->drain); /* what was answered since the last one ended is of that */
        open_pods(l, out);
    } else if (l->is_synced && !is_ahead && needs_list(l, next_usec)) {
        l->held_phase = l->phase;
        (void)nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_PODS_CLOSE);
        open_pods(l, out);
    }
}

void nc_lifecycle_see_pod(struct nc_lifecycle *l, struct nc_pod *pod) {
    if (!l->is_open) {
        nc_pod_done(pod);
        return;
    }
    pod->created_usec = nc_lifecycle_own_time(l, pod->created_usec);
    pod->keep_until_usec = nc_lifecycle_own_time(l, pod->keep_until_usec);
    pod->deletion_usec = nc_lifecycle_own_time(l, pod->deletion_usec);
    for (size_t i = 0; i < l->unseen.n; i++)
        if (nc_streq(l->unseen.v[i], pod->uid))
            l->unseen.v[i][0] = '\0';
    (void)nc_drain_see(l->drain, pod, l->now_usec); /* the drain knows that one was dropped */
}

void nc_lifecycle_synced(struct nc_lifecycle *l) {
    if (!l->is_open)
        return;
    for (size_t i = 0; i < l->unseen.n; i++)
        if (l->unseen.v[i][0])
            nc_drain_gone(l->drain, l->unseen.v[i], l->now_usec);
    nc_strv_done(&l->unseen);
    nc_drain_listed(l->drain);
    l->is_synced = true;
    l->synced_usec = l->now_usec;
    l->held_phase = NC_LIFECYCLE_IDLE;
}

void nc_lifecycle_step_pods(struct nc_lifecycle *l, uint64_t *next_usec,
                            struct nc_lifecycle_actions *out) {
    struct nc_drain_action due[REQUESTED_AT_ONCE];
    struct nc_drain_rules rules;
    size_t n = REQUESTED_AT_ONCE;

    nc_lifecycle_drain_rules(l, &rules);
    /* Who is not listed again yet may be gone. But where there are too many, lists are long and
     * many: a force-delete time does not wait for those of the same drain. */
    if (!l->is_open
        || (l->unseen.n
            && (l->held_phase == NC_LIFECYCLE_IDLE
                || nc_drain_gap(l->drain, &rules) == NC_LIST_COMPLETE)))
        return;
    while (n == REQUESTED_AT_ONCE) {
        n = nc_drain_step(l->drain, &rules, l->now_usec, due, REQUESTED_AT_ONCE);
        for (size_t i = 0; i < n; i++)
            nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_POD)->pod = due[i];
    }
    /* where it names a moment that has passed although nothing was due, it is asked again soon, not
     * at once */
    const uint64_t pods_usec = nc_drain_next(l->drain, &rules, l->now_usec);
    nc_wake_at(pods_usec > l->now_usec ? pods_usec : nc_sum_usec(l->now_usec, STALLED_USEC),
               next_usec);
    if (l->now_usec < rules.daemons_until_usec)
        nc_wake_at(rules.daemons_until_usec, next_usec);
}

static bool hangs(const struct nc_drain_line *line, uint64_t now_usec) {
    const enum nc_pod_reason held = nc_drain_held_as(line);

    return held == NC_POD_REASON_FINALIZER || held == NC_POD_REASON_SILENT;
}

void nc_lifecycle_report_pods(struct nc_lifecycle *l, struct nc_lifecycle_actions *out) {
    size_t n;
    nc_auto_free struct nc_pod_news *news = nc_drain_drop_news(l->drain, &n);
    bool has_hanging = false;

    for (size_t i = 0; i < n; i++) {
        has_hanging = has_hanging || news[i].kind == NC_POD_NEWS_HANGS;
        nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_POD_NEWS)->news = news[i];
    }
    if (!has_hanging)
        return;
    nc_auto_free char *names = nc_lifecycle_names(l, hangs, "");
    nc_lifecycle_emit(NC_LIFECYCLE_MILESTONE_BLOCKED, "PodsNotEnding",
                      nc_asprintf("Pods that do not end: %s; %s", names,
                                  strstr(names, nc_pod_reason_text(NC_POD_REASON_SILENT))
                                      ? NC_LIFECYCLE_SILENT_REMEDY
                                      : NC_LIFECYCLE_FINALIZER_REMEDY),
                      out);
    out->v[out->n - 1].series = nc_strdup(NC_LIFECYCLE_HANGING);
}

/* Where much time is left, or no end is set, nothing but a person helps, who is not told each half
 * minute for days. */
static uint64_t blocked_event_pause(const struct nc_lifecycle *l,
                                    const struct nc_lifecycle_budget *b) {
    const uint64_t t_usec = l->in_force.t_usec;
    uint64_t most_usec = BLOCKED_EVENT_MAX_USEC, usec = BLOCKED_EVENT_USEC;

    if (t_usec && t_usec < nc_sum_usec(l->now_usec, BLOCKED_EVENT_MAX_USEC * BLOCKED_SHARE))
        most_usec = t_usec > l->now_usec ? (t_usec - l->now_usec) / BLOCKED_SHARE : 0;
    for (unsigned i = 1; i < b->times && usec < most_usec; i++)
        usec *= 2;
    return usec < most_usec || usec == BLOCKED_EVENT_USEC ? usec : most_usec;
}

/* Where this budget is noted, or may be: an unused place, or the oldest. */
static size_t place_of(const struct nc_lifecycle *l, const char *key) {
    size_t place = 0;

    for (size_t i = 0; i < NC_LIFECYCLE_BUDGETS; i++) {
        const struct nc_lifecycle_budget *b = &l->budgets[i], *best = &l->budgets[place];
        if (nc_streq(b->key, key))
            return i;
        if (best->key && (!b->key || b->reported_usec < best->reported_usec))
            place = i;
    }
    return place;
}

/* Was it named lately? Where all places are of late, this budget waits until one is not: one that
 * took the place of another would begin a new Event each time. */
static bool was_reported(const struct nc_lifecycle *l, const struct nc_lifecycle_budget *b,
                         const char *key, size_t n_others) {
    const bool is_outdated = b->is_outdated || n_others > b->n_others;
    /* no request has succeeded meanwhile: that is told of the outage */
    const bool is_outage =
        l->is_blind && nc_less_usec(l->now_usec, l->blind_usec[0]) >= NC_SEC_USEC;
    const uint64_t pause_usec = !nc_streq(b->key, key) ? 2 * BLOCKED_EVENT_MAX_USEC
                                : is_outage            ? UINT64_MAX
                                : is_outdated          ? OUTDATED_EVENT_USEC
                                                       : blocked_event_pause(l, b);

    return b->key && l->now_usec < nc_sum_usec(b->reported_usec, pause_usec);
}

static bool is_blocking(enum nc_pod_answer_kind kind) {
    return kind == NC_ANSWER_BUDGET || kind == NC_ANSWER_BUDGETS || kind == NC_ANSWER_REFUSED
           || kind == NC_ANSWER_FAILED;
}

/* An API server that has no time for a moment is no news; what a moment is, the deadline says. */
static bool may_be_too_busy(const struct nc_lifecycle *l, enum nc_pod_answer_kind kind) {
    const uint64_t t_usec = l->in_force.t_usec;
    uint64_t usec = t_usec ? nc_less_usec(t_usec, l->evicting_usec) / BLOCKED_SHARE : UINT64_MAX;

    if (usec > BLOCKED_EVENT_USEC)
        usec = BLOCKED_EVENT_USEC;
    return (kind == NC_ANSWER_BUSY || kind == NC_ANSWER_UNAVAILABLE) && l->evicting_usec
           && l->now_usec >= nc_sum_usec(l->evicting_usec, usec);
}

/* Since when it is waited for, until when, and what helps. */
static char *until_text(const struct nc_lifecycle *l, const struct nc_drain_line *line) {
    const bool is_kept = line->verdict.reason == NC_POD_REASON_KEPT;
    const uint64_t force_usec = line->force_delete_at_usec;
    const uint64_t kept_usec =
        is_kept && !line->pod->never_disrupt ? line->pod->keep_until_usec : UINT64_MAX;
    const uint64_t until_usec = force_usec && force_usec < kept_usec ? force_usec : kept_usec;
    const bool is_endless = until_usec == UINT64_MAX;
    const bool is_late = l->in_force.leading >= 0 && l->sources[l->in_force.leading].is_late;
    const uint64_t since_usec = line->since_usec ? line->since_usec : l->evicting_usec;
    const char *helps = nc_drain_remedy(nc_pod_reason_name(line->verdict.reason));
    const char *remedy = line->remedy ? line->remedy : helps;
    char time[32];

    if (line->verdict.reason == NC_POD_REASON_UNDELETED && force_usec)
        return nc_asprintf("it is tried again each second: %s", remedy);
    if (force_usec && force_usec <= l->now_usec)
        return nc_strdup("its force-delete time has come");
    nc_time_format(nc_lifecycle_ec2_time(l, is_endless ? since_usec : until_usec), time);
    if (!is_endless) /* what does not evict may delete nothing, either */
        return nc_asprintf("%s %s%s%s",
                           until_usec == kept_usec  ? "it is evicted at"
                           : line->busy && !is_kept ? "its force-delete time is"
                                                    : "it is deleted at",
                           time, line->remedy ? "; " : "", line->remedy ? remedy : "");
    return nc_asprintf(
        "waiting without end since %s, for %s: %s; or, without asking a budget, delete "
        "the pod, or request a deadline",
        time, is_late ? "the deadline has passed" : "no deadline is known",
        is_kept ? helps : remedy);
}

/* A pod that may not leave, of the lines of all. */
struct held {
    const struct nc_drain_line *lines, *line;
    size_t n;
    const char *what, *message; /* what holds it, and what it says */
};

/* Of its namespace, and held by the same: how many there are. */
static size_t name_others(const struct held *h, struct nc_buf *names) {
    size_t n = 0;

    for (size_t i = 0; i < h->n; i++) {
        const struct nc_drain_line *other = &h->lines[i];
        if (other == h->line || other->verdict.reason != h->line->verdict.reason
            || !nc_streq(other->budget, h->line->budget)
            || !nc_streq(other->pod->namespace, h->line->pod->namespace))
            continue;
        if (n++ < NC_DRAIN_NAMES)
            (void)nc_buf_printf(names, "%s%s", n == 1 ? ", nor " : ", ", other->pod->name);
    }
    nc_drain_put_more(names, n);
    return n;
}

/* Says so, unless that was said lately. */
static void report_held(struct nc_lifecycle *l, const struct held *h,
                        struct nc_lifecycle_actions *out) {
    const struct nc_pod *pod = h->line->pod;
    nc_auto_free char *key = nc_asprintf("%s/%s", pod->namespace, h->what);
    struct nc_lifecycle_budget *place = &l->budgets[place_of(l, key)];
    nc_cleanup(nc_buf_done) struct nc_buf others = NC_BUF_INIT;
    const size_t n_others = name_others(h, &others);

    if (was_reported(l, place, key, n_others))
        return;
    const unsigned times = nc_streq(place->key, key) ? place->times : 0;
    free(place->key);
    *place = (struct nc_lifecycle_budget){.key = nc_strdup(key),
                                          .reported_usec = l->now_usec,
                                          .n_others = n_others,
                                          .times = times + 1};
    nc_auto_free char *until = until_text(l, h->line);
    nc_lifecycle_emit(NC_LIFECYCLE_MILESTONE_BLOCKED, "DrainBlocked",
                      nc_asprintf("Pod %s/%s may not leave%s: %s%s%s; %s", pod->namespace,
                                  pod->name, others.len ? others.data : "", h->what,
                                  h->message[0] ? ": " : "", h->message, until),
                      out);
    out->v[out->n - 1].series = nc_steal(&key);
    if (times && !l->has_announced[NC_LIFECYCLE_MILESTONE_BLOCKED])
        out->v[out->n - 1].is_lasting = l->has_announced[NC_LIFECYCLE_MILESTONE_BLOCKED] = true;
}

const char *nc_lifecycle_busy_text(enum nc_pod_answer_kind kind) {
    return kind == NC_ANSWER_BUSY          ? "the API server has no time for its eviction"
           : kind == NC_ANSWER_UNAVAILABLE ? "its eviction was not carried out"
                                           : NULL;
}

static char *held_by(const struct nc_pod_answer *a, enum nc_pod_reason reason) {
    if (reason == NC_POD_REASON_UNDELETED)
        return nc_strdup(nc_pod_reason_text(reason));
    if (a->kind == NC_ANSWER_BUDGET)
        return nc_asprintf("PodDisruptionBudget %s", a->budget);
    const char *busy = nc_lifecycle_busy_text(a->kind);
    return nc_strdup(busy ? busy : nc_pod_answer_name(a->kind));
}

void nc_lifecycle_report_blocked(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                                 struct nc_lifecycle_actions *out) {
    const bool is_blocked = is_blocking(e->answer->kind);
    size_t n;

    if (!is_blocked && !may_be_too_busy(l, e->answer->kind))
        return;
    nc_auto_free struct nc_drain_line *v = nc_lifecycle_lines(l, &n);
    for (size_t i = 0; i < n; i++)
        if (nc_streq(v[i].pod->uid, e->uid) && (is_blocked || v[i].busy >= BUSY_TIMES)) {
            nc_auto_free char *what = held_by(e->answer, v[i].verdict.reason);
            report_held(l, &(struct held){v, &v[i], n, what, e->answer->message}, out);
            return;
        }
}

/* No answer ever tells of those that are not asked: one of each namespace stands for them. */
void nc_lifecycle_report_kept(struct nc_lifecycle *l, uint64_t *next_usec,
                              struct nc_lifecycle_actions *out) {
    size_t n;

    if (l->summary.kept == 0 || !l->evicting_usec || !l->is_synced)
        return;
    nc_auto_free struct nc_drain_line *v = nc_lifecycle_lines(l, &n);
    const char *namespace = NULL;
    for (size_t i = 0; i < n; i++) { /* by namespace in each tier */
        if (v[i].verdict.reason != NC_POD_REASON_KEPT || nc_streq(v[i].pod->namespace, namespace))
            continue;
        namespace = v[i].pod->namespace;
        report_held(l, &(struct held){v, &v[i], n, nc_pod_reason_text(NC_POD_REASON_KEPT), ""},
                    out);
    }
    nc_wake_at(nc_sum_usec(l->now_usec, OUTDATED_EVENT_USEC), next_usec);
}
