/*
 * The judge's own view of who announces what, what is in force, and what the daemon was shown of
 * its Node; the order of events. Pods: rules-pods.c; writes: rules-writes.c.
 */
#include "rules.h"
#include "margin.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define WRITE_PATIENCE_USEC (3 * SEC)
#define BUS_USEC (3 * SEC) /* what was read may be so old */
#define BUS_PATIENCE_USEC                                                                          \
    (15 * SEC) /* from the start, or from the shutdown, until it is observed */

void rules_break(struct rules *r, const char *rule, const char *format, ...) {
    va_list ap;

    if (r->broken[0])
        return;
    snprintf(r->broken, sizeof(r->broken), "%s", rule);
    va_start(ap, format);
    vsnprintf(r->story, sizeof(r->story), format, ap);
    va_end(ap);
}

uint64_t rules_when(const struct rules *r, uint64_t dated_usec) {
    const int64_t when_usec = (int64_t)dated_usec - r->clock_off_usec;

    return !dated_usec ? 0 : when_usec > 0 ? (uint64_t)when_usec : 1;
}

void rules_init(struct rules *r, const struct nc_lifecycle_rules *config) {
    memset(r, 0, sizeof(*r));
    r->config = *config;
}

static void on_config(struct rules *r, uint64_t now_usec);

void rules_restart(struct rules *r, const struct rules_memory *memory,
                   const struct nc_lifecycle_rules *config, uint64_t now_usec) {
    struct rules fresh;

    rules_init(&fresh, config);
    memcpy(fresh.broken, r->broken, sizeof(r->broken));
    memcpy(fresh.story, r->story, sizeof(r->story));
    fresh.clock_off_usec = r->clock_off_usec;
    fresh.is_shutdown = r->is_shutdown;
    fresh.shutdown_usec = r->shutdown_usec;
    if (memory)
        fresh.memory = *memory;
    fresh.started_usec = now_usec;
    *r = fresh;
    on_config(r, now_usec);
    rules_refresh(r, now_usec);
}

static bool is_asked(enum nc_source s) {
    return s == NC_SOURCE_REQUEST || s == NC_SOURCE_OPERATOR;
}

static enum nc_policy configured(const struct rules *r, enum nc_source s) {
    if (s == NC_SOURCE_DELETION)
        return NC_POLICY_DRAIN;
    if (is_asked(s))
        return r->memory.notices[s].policy;
    if (s == NC_SOURCE_MAINTENANCE && r->config.drain.policy[s] > NC_POLICY_CORDON
        && !strcmp(r->memory.notices[s].action, "system-maintenance"))
        return NC_POLICY_CORDON;
    return r->config.drain.policy[s];
}

/* A drain that is announced waits as long as the longest grace of those that it would end allows.
 */
static uint64_t begins(const struct rules *r, enum nc_source s, uint64_t now_usec) {
    uint64_t begin = rules_when(r, r->memory.notices[s].begin_usec), longest = 0;

    if (!begin || !r->memory.notices[s].deadline_usec || configured(r, s) != NC_POLICY_DRAIN
        || r->config.drain.mode == NC_DRAIN_OBSERVE)
        return begin;
    for (unsigned i = 0; r->is_synced && i < MODEL_MAX_PODS; i++) {
        const struct rules_pod *p = &r->pods[i];

        if (p->is_known && !p->is_gone && p->grace_sec * SEC > longest
            && rules_would_drain(r, p, now_usec))
            longest = p->grace_sec * SEC;
    }
    return r->memory.has_begun[s] || begin < longest ? 0 : begin - longest;
}

enum nc_policy rules_policy(const struct rules *r, enum nc_source s, uint64_t now_usec) {
    enum nc_policy p = 0;
    enum nc_policy cap = NC_POLICY_DRAIN;

    if (!r->memory.is_active[s])
        return 0;
    p = configured(r, s);
    if (r->config.drain.mode == NC_DRAIN_OFF || r->memory.is_past[s]
        || begins(r, s, now_usec) > now_usec)
        cap = NC_POLICY_REPORT;
    else if (r->config.drain.mode == NC_DRAIN_OBSERVE)
        cap = NC_POLICY_CORDON;
    return p < cap ? p : cap;
}

static bool is_held(const struct rules *r, enum nc_source s) {
    return configured(r, s) != NC_POLICY_DRAIN || r->config.drain.mode == NC_DRAIN_OFF
           || r->config.drain.mode == NC_DRAIN_OBSERVE;
}

/* Drains are turned on: what had its time until then drains nothing any more. */
static void on_config(struct rules *r, uint64_t now_usec) {
    struct rules_memory *m = &r->memory;

    for (int s = 0; s < _NC_SOURCE_MAX; s++) {
        const struct nc_notice *n = &m->notices[s];
        uint64_t at = rules_when(r, n->deadline_usec ? n->deadline_usec : n->begin_usec);

        m->is_past[s] |= m->is_active[s] && !is_asked((enum nc_source)s) && m->is_held[s]
                         && !is_held(r, (enum nc_source)s) && at && at < now_usec
                         && begins(r, (enum nc_source)s, now_usec) <= now_usec
                         && !n->is_force_delete_time;
    }
}

static uint64_t ends(const struct rules *r, enum nc_source s) {
    return r->memory.ends_usec[s] ? r->memory.ends_usec[s]
                                  : rules_when(r, r->memory.notices[s].deadline_usec);
}

/* T of one source where so much is, or was, left. */
static uint64_t last_moment(const struct rules *r, enum nc_source s, uint64_t left) {
    uint64_t margin = r->memory.notices[s].is_force_delete_time
                          ? 0
                          : margin_for(r->config.drain.margin_usec, left);

    return ends(r, s) > margin ? ends(r, s) - margin : 1;
}

static uint64_t left(const struct rules *r, enum nc_source s, uint64_t now_usec) {
    return ends(r, s) > now_usec ? ends(r, s) - now_usec : 0;
}

/* Whose begin is seen a minute after its time, by a clock that was set or a daemon that was not
 * there. */
static void judge_begin(struct rules *r, enum nc_source s, uint64_t now_usec) {
    const struct nc_notice *n = &r->memory.notices[s];
    const bool waits = r->memory.is_active[s] && begins(r, s, now_usec) > now_usec;
    uint64_t at = rules_when(r, n->deadline_usec ? n->deadline_usec : n->begin_usec);

    r->memory.is_past[s] |= r->memory.waits[s] && !waits && !is_held(r, s) && at
                            && at + 60 * SEC < now_usec && !n->is_force_delete_time;
    r->memory.waits[s] = waits;
}

/* A machine that hibernates comes back, and that of a request is there 5 s after its time. */
static bool has_time(const struct rules *r, enum nc_source s, uint64_t now_usec) {
    const struct nc_notice *n = &r->memory.notices[s];

    return n->deadline_usec && strcmp(n->action, "hibernate") != 0
           && (!is_asked(s) || n->is_force_delete_time
               || rules_when(r, n->deadline_usec) + 5 * SEC > now_usec);
}

static void set_in_force(struct rules *r, uint64_t now_usec) {
    enum nc_policy strongest = 0;
    uint64_t t = 0, late = 0;

    for (int s = 0; s < _NC_SOURCE_MAX; s++) {
        judge_begin(r, (enum nc_source)s, now_usec);
        enum nc_policy p = rules_policy(r, (enum nc_source)s, now_usec);
        bool counts = p == NC_POLICY_DRAIN && has_time(r, (enum nc_source)s, now_usec);
        r->memory.has_begun[s] |= p == NC_POLICY_DRAIN;
        r->memory.is_held[s] = is_held(r, (enum nc_source)s);
        uint64_t own = counts ? last_moment(r, (enum nc_source)s, r->memory.left_usec[s]) : 0;
        uint64_t by =
            counts ? last_moment(r, (enum nc_source)s, left(r, (enum nc_source)s, now_usec)) : 0;

        if (by && by <= now_usec && !r->memory.notices[s].is_force_delete_time)
            by = ends(r, (enum nc_source)s) > SEC ? ends(r, (enum nc_source)s) - SEC : 1;

        if (p > strongest)
            strongest = p;
        if (own && (!t || own < t))
            t = own;
        if (by && (!late || by < late))
            late = by;
    }
    if (t != r->t_usec)
        r->t_since_usec = now_usec;
    if (strongest >= NC_POLICY_REPORT && r->in_force < NC_POLICY_REPORT)
        r->active_usec = now_usec;
    if (strongest >= NC_POLICY_CORDON && r->in_force < NC_POLICY_CORDON)
        r->cordon_wanted_usec = now_usec;
    if (strongest == NC_POLICY_DRAIN && r->in_force < NC_POLICY_DRAIN) {
        r->drain_usec = now_usec;
        rules_forget_refusals(r);
        memset(r->blocked_usec, 0, sizeof(r->blocked_usec));
    }
    r->in_force = strongest;
    r->t_usec = t;
    r->late_usec = late > t ? late : t;
}

/* What holds up the next step: the writes, until they are done, refused, or seen on the Node. */
static void set_progress(struct rules *r, uint64_t now_usec) {
    if (r->in_force < NC_POLICY_REPORT)
        r->memory.is_signalled = false;
    else if (!r->memory.is_signalled && r->has_node && r->node.has_status)
        r->memory.is_signalled = true, r->signalled_usec = now_usec;
    if (r->in_force < NC_POLICY_CORDON)
        r->memory.is_cordoned = false;
    else if (!r->memory.is_cordoned && r->has_node
             && (r->node.has_cordon_record || (r->has_whole && r->node.is_unschedulable)))
        r->memory.is_cordoned = true, r->cordoned_usec = now_usec;
    if (!r->has_node || r->in_force < NC_POLICY_REPORT || r->write != NC_WRITE_NONE
        || (r->memory.is_signalled && (r->memory.is_cordoned || r->in_force < NC_POLICY_CORDON)))
        r->signal_asked_usec = 0;
    else if (!r->signal_asked_usec)
        r->signal_asked_usec = now_usec;
    if (r->in_force < NC_POLICY_DRAIN)
        r->memory.took_over = r->memory.was_drained = r->took_over_now = false,
        r->was_orphan = r->is_orphan;
    else if (rules_may_evict(r, now_usec, true))
        r->memory.took_over = true;
    if (r->in_force < NC_POLICY_DRAIN)
        r->has_waited = r->is_past_t = false;
    else if (r->t_usec && now_usec >= r->active_usec + WRITE_PATIENCE_USEC)
        r->has_waited = true;
    r->is_past_t |= r->t_usec && now_usec >= r->t_usec;
}

void rules_refresh(struct rules *r, uint64_t now_usec) {
    set_in_force(r, now_usec);
    set_progress(r, now_usec);
    rules_watch_hooks(r, now_usec);
}

/* Beside whoever deletes the Node: first the patience, unless another source requests a drain. */
bool rules_may_evict(const struct rules *r, uint64_t now_usec, bool strictly) {
    uint64_t since = r->memory.noticed_usec[NC_SOURCE_DELETION];
    uint64_t moved = strictly ? r->moved_usec : r->any_moved_usec;

    if (r->in_force != NC_POLICY_DRAIN)
        return false;
    if (!strictly && !r->t_usec && r->has_whole && !r->node.is_unschedulable)
        return false; /* somebody lifted the cordon, and wants the node back */
    if (r->config.drain.mode == NC_DRAIN_ALWAYS || r->took_over_now
        || (strictly && r->memory.took_over))
        return true;
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (s != NC_SOURCE_DELETION
            && rules_policy(r, (enum nc_source)s, now_usec) == NC_POLICY_DRAIN)
            return true;
    if (!strictly && !r->is_synced)
        return false;
    if (moved > since)
        since = moved;
    if (!strictly && r->synced_usec > since) /* what cannot be seen cannot be waited for */
        since = r->synced_usec;
    return now_usec >= since + NC_LIFECYCLE_PATIENCE_USEC;
}

void rules_shutdown(struct rules *r, bool is_on, uint64_t now_usec) {
    r->is_shutdown = is_on;
    r->shutdown_usec = now_usec;
}

/* What the daemon observed a shutdown was so a moment ago: no local user other than root begins or
 * ends one. */
static void judge_shutdown(struct rules *r, bool is_observed, uint64_t now_usec) {
    if (is_observed == r->is_shutdown || is_observed == r->memory.is_active[NC_SOURCE_SHUTDOWN]
        || now_usec < r->shutdown_usec + BUS_USEC)
        return;
    rules_break(r, is_observed ? "stranger-begins" : "stranger-ends",
                "the daemon heard that a shutdown %s", is_observed ? "begins" : "is called off");
}

static void on_notice_event(struct rules *r, const struct nc_notice *n, uint64_t now_usec) {
    struct rules_memory *m = &r->memory;
    bool is_same = m->is_active[n->source]
                   && m->notices[n->source].deadline_usec == n->deadline_usec
                   && strcmp(m->notices[n->source].id, n->id) == 0;

    r->is_observed[n->source] = true;
    if (n->source == NC_SOURCE_SHUTDOWN)
        judge_shutdown(r, true, now_usec);
    uint64_t at = rules_when(r, n->deadline_usec ? n->deadline_usec : n->begin_usec);
    if (!is_same && (!at || at >= now_usec)) /* for a time that is ahead */
        m->is_past[n->source] = false;
    if (!m->is_active[n->source] || strcmp(m->notices[n->source].id, n->id) != 0) {
        m->noticed_usec[n->source] = now_usec;
        m->waits[n->source] = false;
        m->is_past[n->source] =
            at && at + 60 * SEC < now_usec && !n->is_force_delete_time && !is_asked(n->source);
        if (n->source == NC_SOURCE_SHUTDOWN)
            r->must_release = true, r->has_released = false;
    }
    m->is_active[n->source] = true;
    m->notices[n->source] = *n;
    m->ends_usec[n->source] = n->source == NC_SOURCE_SHUTDOWN ? rules_when(r, n->deadline_usec) : 0;
    if (!is_same)
        m->left_usec[n->source] = left(r, n->source, now_usec), m->has_begun[n->source] = false;
}

static void on_cleared_event(struct rules *r, enum nc_source s, uint64_t now_usec) {
    r->is_observed[s] = true;
    if (s == NC_SOURCE_SHUTDOWN)
        judge_shutdown(r, false, now_usec);
    r->memory.is_active[s] = false;
    if (s == NC_SOURCE_SHUTDOWN)
        r->must_release = false;
}

static void take_node(struct rules *r, const struct nc_node_view *v, uint64_t now_usec) {
    struct nc_node_view old;

    if (strcmp(r->node.uid, v->uid) != 0) {
        memset(&r->node, 0, sizeof(r->node));
        r->has_whole = false;
        if (r->memory.node_uid[0] && strcmp(r->memory.node_uid, v->uid) != 0)
            r->memory.is_signalled = r->memory.is_cordoned = false;
        r->status_text[0] = '\0';
    }
    snprintf(r->memory.node_uid, sizeof(r->memory.node_uid), "%s", v->uid);
    old = r->node;
    r->node = *v;
    r->has_node = v->exists;
    r->is_orphan = false;
    if (v->is_complete) {
        r->has_whole = true;
        r->complete_usec = now_usec;
        r->detached_usec = v->n_volumes ? r->detached_usec : now_usec;
        return;
    }
    r->node.is_unschedulable = old.is_unschedulable;
    r->node.has_disrupted_taint = old.has_disrupted_taint;
    r->node.is_pending_true = old.is_pending_true;
    r->node.is_drained_true = old.is_drained_true;
    r->node.n_volumes = old.n_volumes;
}

/* Written is written, whether or not the answer was trusted to show the Node. */
static void apply_conditions(struct rules *r) {
    if (r->write == NC_WRITE_SIGNAL)
        r->node.is_pending_true = true;
    else if (r->write == NC_WRITE_DRAINED)
        r->node.is_drained_true = r->memory.was_drained = true;
    else if (r->write == NC_WRITE_UNDRAINED)
        r->node.is_drained_true = false;
    else if (r->write == NC_WRITE_CLEAR_CONDITIONS)
        r->node.is_pending_true = r->node.is_drained_true = false;
}

static void on_written_event(struct rules *r, const struct nc_lifecycle_event *e) {
    bool is_final =
        e->outcome == NC_WRITTEN || (e->outcome == NC_WRITE_REFUSED && r->write != NC_WRITE_CORDON);

    if (is_final && r->write == NC_WRITE_SIGNAL && r->in_force >= NC_POLICY_REPORT)
        r->memory.is_signalled = true, r->signalled_usec = e->now_usec;
    if (is_final && r->write == NC_WRITE_CORDON && r->in_force >= NC_POLICY_CORDON)
        r->memory.is_cordoned = true, r->cordoned_usec = e->now_usec;
    if (e->outcome == NC_WRITTEN)
        apply_conditions(r);
    if (r->write == NC_WRITE_CORDON)
        r->refused_usec = e->outcome == NC_WRITE_REFUSED ? e->now_usec : 0;
    /* one that got no answer was not refused, nor was it accepted */
    if ((r->write == NC_WRITE_PROGRESS && e->outcome != NC_WRITE_UNAVAILABLE)
        || (e->outcome == NC_WRITTEN && !nc_node_write_is_of_status(r->write)))
        r->is_progress_refused = e->outcome == NC_WRITE_REFUSED;
    if (is_final && (r->write != NC_WRITE_PROGRESS || e->outcome == NC_WRITTEN)
        && (e->outcome == NC_WRITTEN
            || (r->write != NC_WRITE_SIGNAL && r->write != NC_WRITE_DRAINED
                && (r->write != NC_WRITE_UNDRAINED
                    || r->is_progress_refused)))) { /* of conditions alone */
        memcpy(r->status_text, r->pending_text, sizeof(r->status_text));
        r->said_usec = e->now_usec;
        r->said_sent_usec = r->pending_usec;
    }
    r->write = NC_WRITE_NONE;
    r->signal_asked_usec = 0;
}

void rules_event(struct rules *r, const struct nc_lifecycle_event *e) {
    rules_watch(r, e->now_usec);
    r->clock_off_usec = e->clock_offset_usec;
    switch (e->kind) {
    case NC_LIFECYCLE_START:
    case NC_LIFECYCLE_TICK:
        break;
    case NC_LIFECYCLE_RULES:
        r->config = *e->rules;
        on_config(r, e->now_usec);
        r->is_reloaded = true;
        break;
    case NC_LIFECYCLE_NOTICE:
        on_notice_event(r, e->notice, e->now_usec);
        break;
    case NC_LIFECYCLE_CLEARED:
        on_cleared_event(r, e->source, e->now_usec);
        break;
    case NC_LIFECYCLE_NODE:
        take_node(r, e->node, e->now_usec);
        break;
    case NC_LIFECYCLE_NODE_GONE: /* should the same come back, it is as it was */
        r->has_node = false;
        r->is_orphan = r->memory.node_uid[0] && !e->is_anothers;
        r->was_orphan = r->was_orphan || r->is_orphan;
        break;
    case NC_LIFECYCLE_WRITTEN:
        on_written_event(r, e);
        break;
    case NC_LIFECYCLE_HOOK:
        rules_take_hook_event(r, e);
        break;
    case NC_LIFECYCLE_POD:
    case NC_LIFECYCLE_POD_UNREADABLE:
    case NC_LIFECYCLE_POD_GONE:
    case NC_LIFECYCLE_PODS_SYNCED:
    case NC_LIFECYCLE_POD_ANSWER:
        rules_take_pod_event(r, e);
        break;
    case _NC_LIFECYCLE_EVENT_MAX:
        break;
    }
    rules_refresh(r, e->now_usec);
}

static void judge_inhibitor(struct rules *r, uint64_t now_usec) {
    bool is_draining = rules_policy(r, NC_SOURCE_SHUTDOWN, now_usec) == NC_POLICY_DRAIN;

    if (!r->memory.is_active[NC_SOURCE_SHUTDOWN])
        rules_break(r, "let-go-idle", "the inhibitor is given back though nothing shuts down");
    if (r->has_released)
        rules_break(r, "let-go-twice", "the inhibitor is given back twice");
    for (unsigned i = 0; is_draining && now_usec < r->t_usec && i < MODEL_MAX_PODS; i++)
        if (r->is_synced && (r->has_node || r->is_orphan) && r->pods[i].is_known
            && !r->pods[i].is_gone && rules_is_eligible(r, &r->pods[i], now_usec))
            rules_break(r, "let-go-early", "pod %u is still there and T is not reached", i);
    r->has_released = true;
}

static void judge_rate(struct rules *r, unsigned *n, uint64_t *second_usec, unsigned most,
                       const char *rule, uint64_t now_usec) {
    if (now_usec >= *second_usec + SEC) {
        *second_usec = now_usec;
        *n = 0;
    }
    if (++*n > most)
        rules_break(r, rule, "more than %u in one second", most);
}

/* "…, nor a, b and 2 more: …" */
static unsigned count_others(const char *message) {
    const char *at = strstr(message, ", nor ");
    unsigned n = 0;

    for (; at && *at != ':'; at++)
        n += *at == ',' ? 1 : !strncmp(at, " and ", 5) ? (unsigned)strtoul(at + 5, NULL, 10) : 0;
    return n;
}

/* A budget that blocks is named once in 30 s, after 5 s where the deadline has changed or it blocks
 * more pods; budgets are told apart by the number in their name. */
static void judge_blocked(struct rules *r, const char *message, uint64_t now_usec) {
    const char *budget = strstr(message, "budget-");
    unsigned i = budget ? (unsigned)(budget[7] - '0') : 8;

    if (i >= NC_ARRAY_SIZE(r->blocked_usec))
        return;
    const unsigned others = count_others(message);
    const bool is_outdated = r->t_since_usec >= r->blocked_usec[i] || others > r->blocked_others[i];
    const uint64_t pause_usec = (is_outdated ? 5 : 30) * SEC;
    if (r->blocked_usec[i] && now_usec < r->blocked_usec[i] + pause_usec)
        rules_break(r, "blocked-rate", "budget %u is named again too early", i);
    r->blocked_usec[i] = now_usec;
    r->blocked_others[i] = others;
}

void rules_action(struct rules *r, const struct nc_lifecycle_action *a, uint64_t now_usec) {
    switch (a->kind) {
    case NC_LIFECYCLE_ACTION_WRITE:
        rules_judge_write(r, &a->write, now_usec);
        break;
    case NC_LIFECYCLE_ACTION_POD:
        rules_judge_pod(r, &a->pod, now_usec);
        break;
    case NC_LIFECYCLE_ACTION_PODS_OPEN:
        if (r->is_open)
            rules_break(r, "opened-twice", "the pods are watched already");
        rules_open_pods(r, now_usec);
        break;
    case NC_LIFECYCLE_ACTION_PODS_CLOSE:
        if (!r->is_open)
            rules_break(r, "closed-twice", "the pods are not watched");
        rules_close_pods(r, now_usec);
        break;
    case NC_LIFECYCLE_ACTION_REFRESH_NODE:
        r->evaluated_usec = now_usec;
        judge_rate(r, &r->looks, &r->second_check_usec, 10, "looks", now_usec);
        break;
    case NC_LIFECYCLE_ACTION_ANNOUNCE:
        if (a->milestone == NC_LIFECYCLE_MILESTONE_BLOCKED)
            judge_blocked(r, a->message, now_usec);
        else if (a->milestone == NC_LIFECYCLE_MILESTONE_DRAINED)
            rules_judge_drained_hook(r, now_usec);
        break;
    case NC_LIFECYCLE_ACTION_POD_NEWS:
        break;
    case NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR:
        judge_inhibitor(r, now_usec);
        break;
    case NC_LIFECYCLE_ACTION_START_HOOK:
    case NC_LIFECYCLE_ACTION_FOLLOW_HOOK:
        rules_judge_hook(r, a->hook, a->kind == NC_LIFECYCLE_ACTION_FOLLOW_HOOK, now_usec);
        break;
    }
}

/* A tick that did nothing must not request itself again, nor may there be many of them. */
void rules_stepped(struct rules *r, const struct nc_lifecycle_event *e, size_t n_actions,
                   uint64_t next_usec) {
    if (e->kind != NC_LIFECYCLE_TICK || n_actions)
        return;
    if (next_usec <= e->now_usec)
        rules_break(r, "busy-loop", "a tick did nothing and wants the next at once");
    judge_rate(r, &r->ticks, &r->tick_second_usec, 40, "busy-ticks", e->now_usec);
}

static void watch_release(struct rules *r, uint64_t now_usec) {
    uint64_t by = last_moment(r, NC_SOURCE_SHUTDOWN, r->memory.left_usec[NC_SOURCE_SHUTDOWN]);

    if (!r->must_release || r->has_released || !r->memory.notices[NC_SOURCE_SHUTDOWN].deadline_usec)
        return;
    if (by < r->memory.noticed_usec[NC_SOURCE_SHUTDOWN])
        by = r->memory.noticed_usec[NC_SOURCE_SHUTDOWN];
    if (by < r->t_since_usec && r->t_since_usec <= now_usec)
        by = r->t_since_usec;
    if (now_usec > by + SEC / 5)
        rules_break(r, "let-go-late", "T is over and the shutdown is still held up");
}

/* Nor does any stranger delay one. */
static void watch_shutdown(struct rules *r, uint64_t now_usec) {
    uint64_t since = r->shutdown_usec > r->started_usec ? r->shutdown_usec : r->started_usec;

    if (r->is_shutdown && !r->memory.is_active[NC_SOURCE_SHUTDOWN]
        && now_usec > since + BUS_PATIENCE_USEC)
        rules_break(r, "stranger-delays", "a shutdown is prepared and the daemon has not heard");
}

/* Before the cordon the Node may be checked, to tell whose cordon is there. */
static void watch_writes(struct rules *r, uint64_t now_usec) {
    uint64_t since = r->signal_asked_usec;

    if (!since)
        return;
    if (r->memory.is_signalled && (!r->has_whole || r->complete_usec < r->cordon_wanted_usec))
        since = r->evaluated_usec > since ? r->evaluated_usec : since;
    else if (r->memory.is_signalled && r->complete_usec > since)
        since = r->complete_usec;
    if (now_usec > since + SEC * 5 / 2
        && (!r->refused_usec || now_usec > r->refused_usec + 13 * SEC))
        rules_break(r, r->memory.is_signalled ? "no-cordon" : "no-signal",
                    "a write is due for 2.5 s and is not tried");
}

void rules_watch(struct rules *r, uint64_t now_usec) {
    rules_refresh(r, now_usec);
    watch_shutdown(r, now_usec);
    watch_release(r, now_usec);
    watch_writes(r, now_usec);
    rules_watch_pods(r, now_usec);
}

bool rules_is_known_to_end(const struct rules_pod *p) {
    return p->deletion_usec || (p->leaving_usec && !p->is_unsure);
}

void rules_shortened(struct rules *r, unsigned pod, uint64_t t_usec, uint64_t before_usec,
                     uint64_t after_usec, uint64_t now_usec) {
    uint64_t t = t_usec > now_usec ? t_usec : now_usec;

    if (after_usec == before_usec)
        return;
    if (after_usec + SEC < t)
        rules_break(r, "cut-short", "pod %u loses %llu ms of the time that is left", pod,
                    (unsigned long long)(t - after_usec) / 1000);
    /* counted from when it was asked to go, where the watch had not shown since when it goes */
    if (after_usec > t + (r->pods[pod].leaving_usec ? 5 : 2) * SEC)
        rules_break(r, "not-cut", "pod %u ends %llu ms after T", pod,
                    (unsigned long long)(after_usec - t) / 1000);
}

void rules_left(struct rules *r, unsigned pod, uint64_t bound_usec) {
    if (bound_usec < r->opened_usec)
        rules_break(r, "drained-unseen", "Drained is written and pod %u was there all the time",
                    pod);
}

void rules_end(struct rules *r, const struct rules_end *e) {
    rules_watch(r, e->now_usec);
    if (!e->is_node || e->may_be_silent)
        return;
    if (r->in_force < NC_POLICY_REPORT) {
        if (e->has_record && !e->is_held)
            rules_break(r, "left-cordon", "nothing is announced and our cordon is still there");
        if ((e->has_status || e->has_our_label) && !e->is_held)
            rules_break(r, "left-marks", "nothing is announced and %s is still there",
                        e->has_status ? "drain-status" : "our label");
        if (e->is_pending || e->is_drained)
            rules_break(r, "left-condition", "nothing is announced and a condition is still True");
        if (r->is_open)
            rules_break(r, "left-open", "nothing is announced and the pods are still watched");
        return;
    }
    if (!e->is_pending && e->now_usec > r->active_usec + 40 * SEC)
        rules_break(r, "not-signalled", "something is announced and the Node does not say so");
    if (r->in_force >= NC_POLICY_CORDON && !e->is_unschedulable
        && e->now_usec > r->cordon_wanted_usec + 40 * SEC)
        rules_break(r, "not-cordoned", "the Node should be cordoned and is not");
    if (r->in_force < NC_POLICY_DRAIN
        || e->now_usec < r->drain_usec + 40 * SEC + 2 * r->config.drain.hook_timeout_usec)
        return;
    if (e->is_steady && !e->n_left && !e->n_volumes && !e->is_drained)
        rules_break(r, "not-drained", "all pods are gone for long and the Node is not Drained");
    if (e->is_steady && e->n_left && e->is_drained)
        rules_break(r, "drained-wrongly", "%zu pods are left and the Node is Drained", e->n_left);
}
