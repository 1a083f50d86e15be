/*
 * The judge of evictions, marks and deletions: who may be asked, when and how; and what is overdue.
 *
 * Knows of a pod what the daemon was shown of it. Must not check the world itself.
 */
#include "rules.h"

#include <stdio.h>

#define STUCK_USEC (60 * SEC)
#define MARK_AHEAD_USEC SEC
#define WRITE_PATIENCE_USEC (3 * SEC)
#define OVERDUE_USEC (SEC + SEC / 5) /* a mark is waited for one second; and some slack */
#define FRESH_USEC (SEC / 2)         /* a pod that was bound just now is not touched */
#define ASKED_USEC (SEC / 5)         /* what is due is asked by then */
#define IDLE_USEC (SEC / 2)
#define TAINT_USEC (5 * SEC)      /* from the first eviction on: later turns wait for daemons */
#define RESUMED_USEC (15 * SEC)   /* a drain of an earlier daemon goes on by then */
#define QUESTION_USEC (16 * SEC)  /* no answer takes longer */
#define TURN_AHEAD_USEC (2 * SEC) /* of the force-delete time: an eviction and one more */

unsigned rules_pod_number(const char *uid) {
    unsigned n = 0;

    if (!uid || strncmp(uid, "uid-", 4) != 0)
        return MODEL_MAX_PODS;
    for (const char *p = uid + 4; *p >= '0' && *p <= '9'; p++)
        n = n * 10 + (unsigned)(*p - '0');
    return n < MODEL_MAX_PODS ? n : MODEL_MAX_PODS;
}

/* Nothing requests a drain but the deletion of the Node: Karpenter drains, or nobody does. */
bool rules_is_karpenters(const struct rules *r, uint64_t now_usec) {
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (s != NC_SOURCE_DELETION
            && rules_policy(r, (enum nc_source)s, now_usec) == NC_POLICY_DRAIN)
            return false;
    return true;
}

bool rules_would_drain(const struct rules *r, const struct rules_pod *p, uint64_t now_usec) {
    bool has_taint = r->has_whole && r->node.has_disrupted_taint;

    if (p->is_terminal || p->is_mirror
        || (!p->order && p->is_daemon && (p->tolerates || !has_taint)))
        return false;
    return !p->deletion_usec || now_usec <= p->deletion_usec + STUCK_USEC;
}

bool rules_is_eligible(const struct rules *r, const struct rules_pod *p, uint64_t now_usec) {
    return rules_would_drain(r, p, now_usec)
           && !(p->tolerates && !p->order && rules_is_karpenters(r, now_usec) && !r->t_usec);
}

static bool is_kept(const struct rules_pod *p, uint64_t now_usec) {
    return p->is_bound_to_stay || now_usec < p->keep_until_usec;
}

static bool is_leaving(const struct rules_pod *p) {
    return p->deletion_usec || p->is_accepted || p->is_deleted;
}

static uint64_t last_moment(const struct rules *r, const struct rules_pod *p) {
    uint64_t grace = p->grace_sec * SEC;

    return r->t_usec > grace ? r->t_usec - grace : 1;
}

bool rules_has_force_time(const struct rules *r, uint64_t after_usec, uint64_t until_usec) {
    for (unsigned i = 0; r->t_usec && i < MODEL_MAX_PODS; i++) {
        const struct rules_pod *p = &r->pods[i];
        if (p->is_known && last_moment(r, p) > after_usec && last_moment(r, p) <= until_usec)
            return true;
    }
    return false;
}

/* Everybody before it is gone, or it would lose of its own grace were it refused once more. */
static bool is_turn(const struct rules *r, const struct rules_pod *p, uint64_t now_usec) {
    if (r->t_usec && now_usec + TURN_AHEAD_USEC >= last_moment(r, p))
        return true;
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++) {
        const struct rules_pod *q = &r->pods[i];

        if (q->is_known && !q->is_gone && q->tier < p->tier && rules_is_eligible(r, q, now_usec)
            && !(q->tolerates && !q->order && rules_is_karpenters(r, now_usec)))
            return false;
    }
    return true;
}

/* A DaemonSet pod is before it, which leaves once Karpenter's taint is there. */
static bool awaits_daemon(const struct rules *r, const struct rules_pod *p) {
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++) {
        const struct rules_pod *q = &r->pods[i];

        if (q->is_known && !q->is_gone && q->tier < p->tier && q->is_daemon && !q->tolerates
            && !q->order && !q->is_terminal && !q->is_mirror
            && !(r->has_whole && r->node.has_disrupted_taint))
            return true;
    }
    return false;
}

/* In a drain that this daemon has begun: what an earlier one has waited for is over. */
static bool is_before_daemons(const struct rules *r, const struct rules_pod *p, uint64_t now_usec) {
    return awaits_daemon(r, p) && r->drain_usec > r->started_usec + RESUMED_USEC
           && now_usec < r->drain_usec + TAINT_USEC
           && !(r->t_usec && now_usec + TURN_AHEAD_USEC >= last_moment(r, p));
}

/* --- what the daemon is shown ------------------------------------------------------------------
 */

static void note_crowd(struct rules *r) {
    size_t n = 0;

    for (unsigned i = 0; i < MODEL_MAX_PODS; i++) {
        const struct rules_pod *p = &r->pods[i];
        n += p->is_held || p->evicts_out || p->marks_out || p->deletes_out;
    }
    r->is_crowded |= r->config.max_pods && n > r->config.max_pods;
}

static void take_pod(struct rules *r, const struct nc_pod *pod, uint64_t now_usec) {
    unsigned i = rules_pod_number(pod->uid);
    struct rules_pod *p = &r->pods[i];
    struct rules_pod old;

    if (i == MODEL_MAX_PODS)
        return;
    old = *p;
    if (!p->is_known)
        p->since_usec = now_usec;
    if (!p->was_known && r->was_synced) {
        p->since_usec = now_usec + FRESH_USEC;
        p->fresh_usec = r->is_synced ? now_usec + FRESH_USEC : 0;
    }
    if (p->is_gone || !p->was_known) { /* what a closed watch had shown is remembered */
        if (p->is_gone)
            p->since_usec = now_usec + SEC;
        if (p->is_gone && r->is_crowded && p->evicts_out) /* forgotten for the others, see below */
            p->blurred_usec = now_usec + QUESTION_USEC;
        p->is_accepted = p->is_deleted = p->is_unsure = false;
        p->ask_after_usec[0] = p->ask_after_usec[1] = 0;
        p->refusal = 0;
        p->budget_row = 0;
        p->evictable_usec = p->ending_usec = 0;
        p->delete_answer_usec = p->leaving_usec = 0;
    }
    p->is_known = p->was_known = p->is_shown = p->is_held = true;
    p->is_gone = false;
    note_crowd(r);
    snprintf(p->namespace, sizeof(p->namespace), "%s", pod->namespace ? pod->namespace : "");
    p->tier = pod->tier;
    p->order = pod->order;
    p->is_daemon = pod->is_daemon;
    p->is_mirror = pod->is_mirror;
    p->is_terminal = pod->is_terminal;
    p->tolerates = pod->tolerates_disrupted;
    p->is_bound_to_stay = pod->never_disrupt;
    p->keep_until_usec = rules_when(r, pod->keep_until_usec);
    p->grace_sec = pod->grace_sec;
    p->deletion_usec = rules_when(r, pod->deletion_usec);
    p->deletion_grace_sec = pod->deletion_grace_sec;
    if (old.is_known && !old.is_gone && !old.deletion_usec && p->deletion_usec) {
        r->any_moved_usec = now_usec;
        if (rules_is_eligible(r, p, now_usec))
            r->moved_usec = now_usec;
    }
    if ((old.is_known && !old.is_terminal && p->is_terminal)
        || (!old.is_known && p->deletion_usec)) /* it began to leave while nobody could read it */
        r->any_moved_usec = now_usec;
    if (old.is_known && old.deletion_usec != p->deletion_usec)
        p->since_usec = now_usec;
}

static void take_gone(struct rules *r, const char *uid, uint64_t now_usec) {
    unsigned i = rules_pod_number(uid);

    if (i == MODEL_MAX_PODS || !r->pods[i].is_known)
        return;
    r->any_moved_usec = now_usec;
    if (rules_is_eligible(r, &r->pods[i], now_usec) && !r->pods[i].is_gone)
        r->moved_usec = now_usec;
    r->pods[i].is_known = r->pods[i].was_known = r->pods[i].is_held = false;
}

/* A new drain begins. */
void rules_forget_refusals(struct rules *r) {
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++) {
        r->pods[i].ask_after_usec[0] = 0; /* it may be waited for all the same */
        r->pods[i].ask_after_usec[1] = 0;
        r->pods[i].evictions = 0;
        r->pods[i].budget_row = 0;
        r->pods[i].refusal = 0;
    }
}

/* The pause after a refusal: in microseconds; a quarter of it may be taken off. */
static uint64_t pause_after(struct rules_pod *p, const struct nc_pod_answer *a, bool at_most,
                            bool has_deadline) {
    static const uint64_t rows[] = {1, 2, 3, 5, 10, 20, 30};
    const unsigned last = has_deadline ? 3 : 6;
    const uint64_t busy = a->retry_after_usec ? a->retry_after_usec : SEC;

    switch (a->kind) {
    case NC_ANSWER_BUDGET:
        return rows[at_most || p->budget_row > last ? last : p->budget_row] * SEC;
    case NC_ANSWER_BUDGETS:
        return 30 * SEC;
    case NC_ANSWER_REFUSED:
        return (at_most ? rows[last] : rows[0]) * SEC;
    case NC_ANSWER_BUSY:
        return busy < 10 * SEC ? busy : 10 * SEC;
    case NC_ANSWER_NAMESPACE:
        return (at_most && !has_deadline ? 30 : 5) * SEC;
    case NC_ANSWER_FAILED:
    case NC_ANSWER_UNAVAILABLE:
        return !at_most ? SEC / 2 : (has_deadline ? 5 : 30) * SEC;
    case NC_ANSWER_UNSENT:
    case NC_ANSWER_ACCEPTED:
    case NC_ANSWER_GONE:
    case _NC_ANSWER_MAX:
        break;
    }
    return 0;
}

/* 0 = not known. */
static uint64_t earlier(uint64_t a, uint64_t b) {
    return a && a < b ? a : b;
}

static void handle_evicted(struct rules *r, struct rules_pod *p, const struct nc_pod_answer *a,
                           uint64_t now_usec) {
    if (a->kind == NC_ANSWER_ACCEPTED) {
        if (!p->deletion_usec && !p->is_accepted && !p->is_deleted)
            r->moved_usec = now_usec;
        r->any_moved_usec = now_usec;
        p->is_accepted = p->was_evicted = true;
        p->leaving_usec = earlier(p->leaving_usec, p->evict_usec);
    }
    for (unsigned i = 0; i < 2; i++) {
        p->ask_after_usec[i] = now_usec + pause_after(p, a, false, i) * 3 / 4;
        p->ask_by_usec[i] = now_usec + pause_after(p, a, true, i);
    }
    p->answered_usec = now_usec;
    /* the steps of a budget's pauses count where nothing else was answered in between */
    p->budget_row = a->kind == NC_ANSWER_BUDGET && (!p->refusal || p->refusal == NC_ANSWER_BUDGET)
                        ? p->budget_row + 1
                        : 0;
    p->refusal = a->kind;
    p->evictable_usec = 0;
}

static void less(unsigned *n) {
    if (*n)
        --*n;
}

static void take_answer(struct rules *r, const struct nc_lifecycle_event *e) {
    unsigned i = rules_pod_number(e->uid);
    struct rules_pod *p = &r->pods[i];

    if (i == MODEL_MAX_PODS)
        return;
    switch (e->verb) {
    case NC_DRAIN_EVICT:
        less(&p->evicts_out);
        less(&r->evicts_out);
        if (!r->evicts_out && r->free_usec < e->now_usec)
            r->free_usec = e->now_usec;
        if (p->was_known)
            handle_evicted(r, p, e->answer, e->now_usec);
        break;
    case NC_DRAIN_MARK:
        less(&p->marks_out);
        break;
    case NC_DRAIN_DELETE:
        less(&p->deletes_out);
        p->delete_answer_usec = e->now_usec;
        if (e->answer->kind == NC_ANSWER_ACCEPTED) {
            p->is_deleted = true;
            r->any_moved_usec = e->now_usec;
            p->leaving_usec = earlier(p->leaving_usec, p->delete_usec);
        }
        break;
    }
    p->is_unsure |= e->verb != NC_DRAIN_MARK && e->answer->kind == NC_ANSWER_UNAVAILABLE;
    if (e->answer->kind == NC_ANSWER_GONE && e->verb != NC_DRAIN_MARK && p->was_known
        && !p->is_gone) {
        p->is_gone = true;
        r->any_moved_usec = e->now_usec;
    }
}

static void take_synced(struct rules *r, uint64_t now_usec) {
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++)
        if (!r->pods[i].is_shown)
            r->pods[i].is_known = r->pods[i].was_known = r->pods[i].is_held = false;
    r->is_synced = r->was_synced = true;
    r->synced_usec = now_usec;
}

void rules_take_pod_event(struct rules *r, const struct nc_lifecycle_event *e) {
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++) /* with this event it may be over */
        if (awaits_daemon(r, &r->pods[i]))
            r->pods[i].awaited_usec = e->now_usec;
    if (e->kind == NC_LIFECYCLE_POD)
        take_pod(r, e->pod, e->now_usec);
    else if (e->kind == NC_LIFECYCLE_POD_GONE)
        take_gone(r, e->uid, e->now_usec);
    else if (e->kind == NC_LIFECYCLE_POD_ANSWER)
        take_answer(r, e);
    else if (e->kind == NC_LIFECYCLE_PODS_SYNCED && r->is_open)
        take_synced(r, e->now_usec);
}

/* Answers to what was asked before the watch was closed for good may still come: until then nobody
 * can tell which question they are for. */
static void blur_questions(struct rules *r) {
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++) {
        struct rules_pod *p = &r->pods[i];

        if (p->evicts_out || p->marks_out || p->deletes_out)
            p->blurred_usec = r->blurred_usec = r->free_usec = r->closed_usec + QUESTION_USEC;
    }
}

/* Closed and opened in one breath: what was known stays known until the new list is complete. */
void rules_open_pods(struct rules *r, uint64_t now_usec) {
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++) {
        r->pods[i].is_shown = false;
        r->pods[i].was_known &= r->closed_usec == now_usec;
        r->pods[i].is_known = r->pods[i].was_known;
    }
    if (r->closed_usec != now_usec) {
        blur_questions(r);
        rules_forget_refusals(r);
    }
    r->is_open = true;
    r->is_synced = false;
    r->opened_usec = now_usec;
}

void rules_close_pods(struct rules *r, uint64_t now_usec) {
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++)
        r->pods[i].is_known = false;
    r->is_open = r->is_synced = false;
    r->closed_usec = now_usec;
}

/* --- what it asks ------------------------------------------------------------------------------
 */

/* By a deadline: a sixtieth of what was left, where that is more, but no more than without one. */
static uint64_t ask_by(const struct rules *r, const struct rules_pod *p) {
    uint64_t by = p->ask_by_usec[1], last = last_moment(r, p);
    uint64_t share = last > p->answered_usec ? (last - p->answered_usec) / 60 : 0;

    if (!r->t_usec)
        return p->ask_by_usec[0];
    if (p->answered_usec && p->answered_usec + share > by)
        by = p->answered_usec + share;
    return by < p->ask_by_usec[0] ? by : p->ask_by_usec[0];
}

static bool is_evictable(const struct rules *r, const struct rules_pod *p, uint64_t now_usec) {
    if (p->tolerates /* what came back is not touched for a while */
        && ((rules_is_karpenters(r, now_usec) && !p->order)
            || (!r->t_usec && now_usec < p->since_usec + 31 * SEC)))
        return false;
    return !p->deletion_usec && !p->is_accepted && !p->is_deleted && !is_kept(p, now_usec)
           && is_turn(r, p, now_usec) && (!r->t_usec || now_usec < last_moment(r, p))
           && now_usec >= ask_by(r, p) && rules_may_evict(r, now_usec, false)
           && rules_is_hook_over(r, NC_HOOK_PRE_DRAIN, now_usec, false);
}

static unsigned evicts_of(const struct rules *r, const struct rules_pod *p) {
    unsigned n = 0;

    for (unsigned i = 0; i < MODEL_MAX_PODS; i++)
        if (r->pods[i].tier == p->tier && strcmp(r->pods[i].namespace, p->namespace) == 0)
            n += r->pods[i].evicts_out;
    return n;
}

/* Whose turn was it before p's, within its tier: whose namespace has fewer evictions out, or who of
 * its own waits for longer than p can. */
static bool is_before(const struct rules *r, const struct rules_pod *q, const struct rules_pod *p,
                      uint64_t now_usec) {
    const bool is_other = strcmp(q->namespace, p->namespace) != 0;
    uint64_t than_usec = is_other ? now_usec : p->ask_after_usec[r->t_usec != 0];

    if (than_usec > now_usec) /* the last try before its force-delete time */
        than_usec = last_moment(r, p) > TURN_AHEAD_USEC ? last_moment(r, p) - TURN_AHEAD_USEC : 1;
    if (q == p || !q->is_known || q->is_gone || q->tier != p->tier || q->evicts_out
        || q->deletes_out || !q->evictable_usec || q->evictable_usec >= than_usec
        || q->since_usec >= than_usec || !rules_is_eligible(r, q, now_usec)
        || !is_evictable(r, q, now_usec) || awaits_daemon(r, q))
        return false;
    return !is_other || evicts_of(r, q) < evicts_of(r, p);
}

static void judge_order(struct rules *r, const struct rules_pod *p, unsigned i, uint64_t now_usec) {
    for (unsigned j = 0; j < MODEL_MAX_PODS && now_usec > r->blurred_usec && !r->is_crowded; j++)
        if (is_before(r, &r->pods[j], p, now_usec))
            rules_break(r, "turn", "pod %u is evicted, and it was the turn of pod %u", i, j);
}

static uint64_t seconds_up(uint64_t usec) {
    return (usec + SEC - 1) / SEC;
}

/* Nobody is deleted who was not evicted: whatever else holds. Where pods are more than are
 * kept, who was said to be gone is forgotten for the others, and is asked anew if it is shown
 * again. */
static bool is_last_try(const struct rules *r, const struct rules_pod *p, uint64_t now_usec) {
    return r->t_usec && (!p->evictions || r->is_crowded)
           && now_usec + MARK_AHEAD_USEC >= last_moment(r, p);
}

bool rules_needs_time(const struct rules *r, uint64_t now_usec) {
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++)
        if (r->pods[i].is_known && !r->pods[i].is_gone && !is_leaving(&r->pods[i])
            && rules_is_eligible(r, &r->pods[i], now_usec)
            && now_usec + MARK_AHEAD_USEC >= last_moment(r, &r->pods[i]))
            return true;
    return false;
}

static void judge_gentle(struct rules *r, const struct rules_pod *p, unsigned i,
                         uint64_t now_usec) {
    judge_order(r, p, i, now_usec);
    if (p->tolerates && !p->order && rules_is_karpenters(r, now_usec))
        rules_break(r, "tolerates", "pod %u is left to Karpenter and is evicted", i);
    if (is_kept(p, now_usec))
        rules_break(r, "kept", "pod %u is not to be disrupted", i);
    if (!r->is_synced)
        rules_break(r, "unlisted", "pod %u is evicted before all pods are listed", i);
    if (!r->is_crowded && (!is_turn(r, p, now_usec) || is_before_daemons(r, p, now_usec)))
        rules_break(r, p->order == NC_POD_ORDER_LAST ? "last" : "tier",
                    "pod %u is evicted before its tier's turn", i);
    if (r->t_usec && now_usec >= last_moment(r, p))
        rules_break(r, "late-eviction", "pod %u is evicted after its force-delete time", i);
    if (!r->is_crowded && now_usec < p->ask_after_usec[r->t_usec != 0]
        && !(r->t_usec && now_usec + TURN_AHEAD_USEC >= last_moment(r, p)))
        rules_break(r, "pause", "pod %u is asked again too early", i);
    if (r->evicts_out >= r->config.max_in_flight && now_usec > r->blurred_usec)
        rules_break(r, "in-flight", "%u evictions are under way", r->evicts_out);
    if (!rules_is_hook_over(r, NC_HOOK_PRE_DRAIN, now_usec, true))
        rules_break(r, "hook-first", "pod %u is evicted before the hook has ended", i);
    if (!r->is_crowded && !rules_may_evict(r, now_usec, true))
        rules_break(r, "patience", "somebody else drains, and pod %u is evicted", i);
    r->memory.took_over = r->took_over_now = true;
}

static void judge_evict(struct rules *r, struct rules_pod *p, unsigned i, uint64_t grace_sec,
                        uint64_t now_usec) {
    const uint64_t left =
        r->late_usec > now_usec ? seconds_up(r->late_usec - now_usec) : p->grace_sec;

    if (p->deletion_usec)
        rules_break(r, "terminating", "pod %u is terminating and is evicted", i);
    if (p->is_accepted)
        rules_break(r, "twice", "pod %u is evicted again after an acceptance", i);
    if (p->evicts_out && now_usec > p->blurred_usec)
        rules_break(r, "twice-asked", "pod %u is evicted while an eviction is under way", i);
    if (grace_sec != (r->t_usec && left < p->grace_sec ? left : 0))
        rules_break(r, "grace", "pod %u is evicted with %llu s", i, (unsigned long long)grace_sec);
    if (!is_last_try(r, p, now_usec))
        judge_gentle(r, p, i, now_usec);
    if (!(r->memory.is_signalled && r->memory.is_cordoned) && !r->has_waited && !r->is_orphan
        && !r->was_orphan)
        rules_break(r, r->memory.is_signalled ? "cordon-first" : "signal-first",
                    "pod %u is evicted too early", i);
    p->evictions++;
    p->evicts_out++;
    p->evict_usec = now_usec;
    r->evicts_out++;
    p->evictable_usec = 0;
}

static void judge_mark(struct rules *r, struct rules_pod *p, unsigned i, uint64_t now_usec) {
    if (!r->t_usec)
        rules_break(r, "no-deadline", "pod %u is marked and there is no deadline", i);
    else if (p->deletion_usec && p->deletion_usec <= r->late_usec + SEC)
        rules_break(r, "needless", "pod %u ends in time and is marked", i);
    else if (!p->deletion_usec && now_usec + MARK_AHEAD_USEC < last_moment(r, p))
        rules_break(r, "early-mark", "pod %u is marked long before its force-delete time", i);
    if (p->marks_out && now_usec > p->blurred_usec)
        rules_break(r, "twice-asked", "pod %u is marked while a mark is under way", i);
    p->mark_usec = now_usec;
    p->marks_out++;
}

/* With how much grace a pod is to be deleted: the time left, and where none is, its own; of one
 * that is terminating counted from its first request. */
static bool is_right_grace(const struct rules *r, const struct rules_pod *p, uint64_t grace_sec,
                           uint64_t now_usec) {
    uint64_t left = r->late_usec > now_usec ? r->late_usec - now_usec : 0;
    uint64_t most = p->grace_sec ? p->grace_sec : 1;
    uint64_t want = seconds_up(left);
    uint64_t asked = p->deletion_usec - p->deletion_grace_sec * SEC;
    uint64_t gone = now_usec > asked ? now_usec - asked : 0;

    if (!left)
        return grace_sec == most;
    if (!p->deletion_usec && !p->leaving_usec)
        return grace_sec == (want < most ? want : most);
    if (!p->deletion_usec) { /* it is terminating, and the watch has not shown it yet */
        asked = p->leaving_usec;
        return grace_sec >= 1 && grace_sec >= (want < most ? want : most) && grace_sec <= most
               && grace_sec <= seconds_up(now_usec - asked + left) + 1;
    }
    return grace_sec >= 1 && grace_sec >= seconds_up(gone + left)
           && grace_sec <= seconds_up(gone + (left > SEC ? left : SEC)) + 1;
}

static void judge_delete(struct rules *r, struct rules_pod *p, unsigned i, uint64_t grace_sec,
                         uint64_t now_usec) {
    if (!r->t_usec)
        rules_break(r, "no-deadline", "pod %u is deleted and there is no deadline", i);
    else if (p->deletion_usec && p->deletion_usec <= r->late_usec + SEC)
        rules_break(r, "needless", "pod %u ends in time and is deleted", i);
    else if (p->deletion_usec && now_usec >= r->late_usec)
        rules_break(r, "needless", "pod %u is shortened, and no time is known any more", i);
    else if (!p->deletion_usec && now_usec < last_moment(r, p))
        rules_break(r, "early-deletion", "pod %u is deleted before its force-delete time", i);
    else if (!is_right_grace(r, p, grace_sec, now_usec))
        rules_break(r, "grace", "pod %u is given %llu s", i, (unsigned long long)grace_sec);
    if (!p->deletion_usec && !p->evict_usec && !p->is_deleted)
        rules_break(r, "untried", "pod %u is deleted and was never asked to leave", i);
    if (!p->deletion_usec && !p->mark_usec && !p->was_evicted) /* which marks it, too */
        rules_break(r, "unmarked", "pod %u is deleted without a mark", i);
    if (p->marks_out && !p->deletion_usec && now_usec < p->mark_usec + SEC)
        rules_break(r, "mark-waits", "pod %u is deleted while its mark is under way", i);
    if (p->deletes_out && now_usec > p->blurred_usec)
        rules_break(r, "twice-asked", "pod %u is deleted while a deletion is under way", i);
    if (!r->is_crowded && p->delete_answer_usec && now_usec < p->delete_answer_usec + SEC / 10)
        rules_break(r, "pause", "pod %u is deleted again at once", i);
    p->delete_usec = now_usec;
    p->deletes_out++;
}

void rules_judge_pod(struct rules *r, const struct nc_drain_action *a, uint64_t now_usec) {
    unsigned i = rules_pod_number(a->pod ? a->pod->uid : NULL);
    struct rules_pod *p = &r->pods[i];

    if (i == MODEL_MAX_PODS || !p->is_known || p->is_gone || !r->is_open) {
        rules_break(r, "unknown", "pod %u is touched and is not known to be there", i);
        return;
    }
    if (now_usec < p->fresh_usec)
        rules_break(r, "fresh", "pod %u was bound a moment ago", i);
    if (!rules_is_eligible(r, p, now_usec))
        rules_break(r, "excluded", "pod %u is to be left alone", i);
    if (r->config.drain.mode == NC_DRAIN_OFF || r->config.drain.mode == NC_DRAIN_OBSERVE)
        rules_break(r, "mode", "pod %u is touched and the mode forbids it", i);
    if (r->in_force != NC_POLICY_DRAIN)
        rules_break(r, "policy", "pod %u is touched and nothing asks for a drain", i);
    if (!r->has_node && !r->is_orphan)
        rules_break(r, "no-node", "pod %u is touched and there is no Node of ours", i);
    switch (a->verb) {
    case NC_DRAIN_EVICT:
        judge_evict(r, p, i, a->grace_sec, now_usec);
        break;
    case NC_DRAIN_MARK:
        judge_mark(r, p, i, now_usec);
        break;
    case NC_DRAIN_DELETE:
        judge_delete(r, p, i, a->grace_sec, now_usec);
        break;
    }
}

/* Eligible pods that are still there. */
size_t rules_remaining(const struct rules *r, uint64_t now_usec) {
    size_t n = 0;

    for (unsigned i = 0; i < MODEL_MAX_PODS; i++)
        n += r->pods[i].is_known && !r->pods[i].is_gone
             && rules_is_eligible(r, &r->pods[i], now_usec);
    return n;
}

/* --- what it leaves undone ---------------------------------------------------------------------
 */

/* Since when everything that comes before the pods is done; 0 = it is not. */
static uint64_t ready_since(const struct rules *r, uint64_t now_usec) {
    uint64_t waited = r->drain_usec > r->t_since_usec ? r->drain_usec : r->t_since_usec;
    uint64_t since = 0;

    if (r->in_force != NC_POLICY_DRAIN || !(r->has_node || r->is_orphan) || !r->is_open
        || !r->is_synced)
        return 0;
    waited += 2 * WRITE_PATIENCE_USEC + SEC / 2;
    if (r->memory.is_signalled && r->memory.is_cordoned)
        since = r->cordoned_usec > r->signalled_usec ? r->cordoned_usec : r->signalled_usec;
    else if (r->t_usec && now_usec >= waited)
        since = waited;
    else
        return 0;
    since = since > r->drain_usec ? since : r->drain_usec;
    since = since > r->t_since_usec ? since : r->t_since_usec;
    return since > r->synced_usec ? since : r->synced_usec;
}

static void watch_ending(struct rules *r, struct rules_pod *p, unsigned i, uint64_t ready_usec,
                         uint64_t now_usec) {
    uint64_t since = last_moment(r, p);

    if (p->deletion_usec ? now_usec >= r->late_usec || p->deletion_usec <= r->late_usec + 2 * SEC
                         : p->is_accepted || now_usec < since)
        return;
    since = p->deletion_usec || since < ready_usec ? ready_usec : since;
    since = since > p->since_usec ? since : p->since_usec;
    if (p->delete_answer_usec > since)
        since = p->delete_answer_usec;
    if (p->evictions == 1 && p->evict_usec <= since + ASKED_USEC && p->evict_usec + SEC > since)
        since = p->evict_usec + SEC; /* the first eviction is waited for */
    if (!p->deletes_out && now_usec > p->blurred_usec && now_usec > since + OVERDUE_USEC)
        rules_break(r, "overdue",
                    "pod %u has its force-delete time since %llu ms and is not deleted", i,
                    (unsigned long long)(now_usec - since) / 1000);
}

static void watch_evictable(struct rules *r, struct rules_pod *p, unsigned i, uint64_t ready_usec,
                            uint64_t now_usec) {
    uint64_t since = p->evictable_usec;

    if (!is_evictable(r, p, now_usec)) {
        p->evictable_usec = 0;
        return;
    }
    if (!since)
        since = p->evictable_usec = now_usec;
    since = since > ready_usec ? since : ready_usec;
    since = since > p->since_usec ? since : p->since_usec;
    since = since > r->free_usec ? since : r->free_usec;
    if (awaits_daemon(r, p))
        since += TAINT_USEC;
    else if (since < p->awaited_usec)
        since = p->awaited_usec;
    if (!r->evicts_out && now_usec > since + IDLE_USEC)
        rules_break(r, "idle", "pod %u could be evicted since %llu ms and is not asked", i,
                    (unsigned long long)(now_usec - since) / 1000);
}

void rules_watch_pods(struct rules *r, uint64_t now_usec) {
    uint64_t ready = ready_since(r, now_usec);
    unsigned questions = 0;

    for (unsigned i = 0; i < MODEL_MAX_PODS; i++)
        questions += r->pods[i].marks_out + r->pods[i].deletes_out;
    if (questions && r->free_usec < now_usec)
        r->free_usec = now_usec;
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++) {
        struct rules_pod *p = &r->pods[i];

        if (!p->is_known)
            continue;
        if (p->is_gone || !rules_is_eligible(r, p, now_usec)) {
            p->evictable_usec = 0;
            p->is_eligible = false;
            continue;
        }
        if (!p->is_eligible && p->since_usec < now_usec)
            p->since_usec = now_usec;
        p->is_eligible = true;
        if (!ready || r->is_crowded) {
            p->evictable_usec = 0;
            continue;
        }
        if (r->t_usec)
            watch_ending(r, p, i, ready, now_usec);
        watch_evictable(r, p, i, ready, now_usec);
    }
}
