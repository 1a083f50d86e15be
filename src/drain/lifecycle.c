/*
 * The life of a node under notice: what each event changes, and what follows.
 *
 * An event only changes what is known. What is to be done then depends on what is known alone, not
 * on how it came about: so a restart in the middle, an answer that got lost or an event that comes
 * twice end in the same place. The other files state what is in force, which phase that is, and
 * what is still missing.
 */
#include <assert.h>

#include "lifecycle-priv.h"

static const char *const phase_names[_NC_LIFE_PHASE_MAX] = {
    [NC_LIFE_IDLE] = "idle",         [NC_LIFE_SIGNALLING] = "signalling",
    [NC_LIFE_REPORTED] = "reported", [NC_LIFE_CORDONING] = "cordoning",
    [NC_LIFE_CORDONED] = "cordoned", [NC_LIFE_OBSERVING] = "observing",
    [NC_LIFE_EVICTING] = "evicting", [NC_LIFE_VOLUME_WAIT] = "volume-wait",
    [NC_LIFE_DRAINED] = "drained",   [NC_LIFE_RELEASING] = "releasing",
};

const char *nc_life_phase_name(enum nc_life_phase p) {
    return phase_names[p];
}

bool nc_life_has_pods(enum nc_life_phase p) {
    return p == NC_LIFE_OBSERVING || p == NC_LIFE_EVICTING || p == NC_LIFE_VOLUME_WAIT
           || p == NC_LIFE_DRAINED;
}

uint64_t nc_life_later(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

struct nc_life_action *nc_life_add_action(struct nc_life_actions *out,
                                          enum nc_life_action_kind kind) {
    struct nc_life_action *a = nc_append(&out->v, &out->n);

    a->kind = kind;
    return a;
}

/* What was written to a Node that is no more was not written to the one of the same name. */
void nc_life_void_node(struct nc_life *l, struct nc_life_actions *out) {
    l->node = (struct nc_node_view){0};
    l->orphaned_usec = l->complete_usec = l->refresh_usec = 0;
    l->is_in_flight_void = l->in_flight != NC_WRITE_NONE;
    memset(l->tries, 0, sizeof(l->tries));
    free(nc_steal(&l->status));
    l->signalled.is_set = false;
    l->is_cordon_done = l->is_cordon_refused = l->is_foreign = l->is_drained_done = false;
    l->cordoned_usec = l->drained_usec = 0;
    l->held_phase = NC_LIFE_IDLE;
    l->is_resuming = l->is_unverified = false;
    memset(l->has_announced, 0, sizeof(l->has_announced));
    nc_life_close_pods(l, out);
}

void nc_life_enter(struct nc_life *l, enum nc_life_phase phase) {
    if (phase == l->phase)
        return;
    l->phase = phase;
    l->since_usec = l->now_usec;
    l->drained_usec = phase == NC_LIFE_DRAINED ? l->now_usec : 0;
    if (phase != NC_LIFE_DRAINED)
        l->is_drained_done = false;
}

/* What was saved may be older than the last writes: the Node knows better. */
static void verify(struct nc_life *l, const struct nc_node_view *v) {
    if (!v->has_status || (v->is_complete && !v->is_pending_true))
        l->signalled.is_set = false;
    if (!v->has_cordon_record && (!l->is_foreign || (v->is_complete && !v->is_unschedulable)))
        l->is_cordon_done = false;
    if (v->is_complete && !v->is_drained_true && l->phase == NC_LIFE_DRAINED)
        nc_life_enter(l, l->held_phase = NC_LIFE_VOLUME_WAIT);
    l->is_unverified = !v->is_complete;
    l->is_resuming = false;
}

static void observe_node(struct nc_life *l, const struct nc_life_event *e,
                         struct nc_life_actions *out) {
    struct nc_node_view v = *e->node;

    if (l->node.uid[0] && strcmp(l->node.uid, v.uid) != 0)
        nc_life_void_node(l, out);
    if (v.is_complete)
        l->complete_usec = e->now_usec;
    else {
        v.is_complete = l->node.is_complete;
        v.is_unschedulable = l->node.is_unschedulable;
        v.has_disrupted_taint = l->node.has_disrupted_taint;
        v.is_pending_true = l->node.is_pending_true;
        v.is_drained_true = l->node.is_drained_true;
        v.n_volumes = l->node.n_volumes;
    }
    if (l->is_unverified)
        verify(l, &v);
    v.exists = true;
    l->node = v;
    l->orphaned_usec = 0;
    l->is_node_seen = true;
}

/* N13, N14 */
static void lose_node(struct nc_life *l, const struct nc_life_event *e,
                      struct nc_life_actions *out) {
    if (e->is_anothers)
        nc_life_void_node(l, out);
    else if (l->node.uid[0] && !l->orphaned_usec)
        l->orphaned_usec = e->now_usec;
    l->node.exists = false;
    l->is_node_seen = true;
    l->is_resuming = false;
}

static void observe_answer(struct nc_life *l, const struct nc_life_event *e,
                           struct nc_life_actions *out) {
    nc_drain_answer(l->drain, &(struct nc_drain_reply){.uid = e->uid,
                                                       .verb = e->verb,
                                                       .answer = e->answer,
                                                       .seed = l->rules.seed,
                                                       .now_usec = e->now_usec});
    if (e->answer->kind == NC_ANSWER_GONE)
        l->absent_usec = e->now_usec;
    if (l->is_open)
        nc_life_report_blocked(l, e, out);
}

/* Every event may come in every phase: an answer may be to a question of an earlier one. What is
 * reported of pods while they are not watched comes from a watch that was closed, and is dropped.
 */
static void observe(struct nc_life *l, const struct nc_life_event *e, struct nc_life_actions *out) {
    switch (e->kind) {
    case NC_LIFE_START:
        if (!l->since_usec)
            l->since_usec = e->now_usec;
        break;
    case NC_LIFE_RULES:
        l->rules = *e->rules;
        break;
    case NC_LIFE_NOTICE:
        nc_life_observe(l, e->notice);
        break;
    case NC_LIFE_CLEARED:
        nc_life_clear(l, e->source, out);
        break;
    case NC_LIFE_NODE:
        observe_node(l, e, out);
        break;
    case NC_LIFE_NODE_GONE:
        lose_node(l, e, out);
        break;
    case NC_LIFE_POD:
        nc_life_see_pod(l, e->pod);
        break;
    case NC_LIFE_POD_UNREADABLE:
        if (l->is_open)
            nc_drain_miss(l->drain);
        break;
    case NC_LIFE_POD_GONE:
        if (l->is_open)
            nc_drain_gone(l->drain, e->uid, e->now_usec);
        break;
    case NC_LIFE_PODS_SYNCED:
        nc_life_synced(l);
        break;
    case NC_LIFE_WRITTEN:
        nc_life_written(l, e, out);
        break;
    case NC_LIFE_POD_ANSWER:
        observe_answer(l, e, out);
        break;
    case NC_LIFE_HOOK:
        nc_life_observe_hook(l, e, out);
        break;
    case NC_LIFE_TICK:
        break;
    case _NC_LIFE_EVENT_MAX:
        break;
    }
}

/* What should be true now? The next missing thing of each kind is requested. */
static void reconcile(struct nc_life *l, struct nc_life_actions *out) {
    uint64_t next_usec = UINT64_MAX;

    nc_life_apply_policies(l, &next_usec);
    nc_life_adopt(l, &next_usec);
    nc_life_limit_hooks(l, &next_usec, out);
    nc_life_update_summary(l);
    nc_life_update_phase(l, &next_usec);
    nc_life_start_hooks(l, &next_usec, out);
    if (l->phase == NC_LIFE_EVICTING && !l->evicting_usec
        && nc_life_is_hook_over(l, NC_HOOK_PRE_DRAIN)) {
        l->evicting_usec = l->now_usec;
        nc_life_update_summary(l); /* pods may wait for their replacement from now on */
    }
    l->is_failed = nc_life_is_failed(l, &next_usec);
    nc_life_announce(l, out);
    nc_life_refresh_node(l, &next_usec, out);
    nc_life_write(l, &next_usec, out);
    nc_life_open_pods(l, &next_usec, out);
    nc_life_step_pods(l, &next_usec, out);
    nc_life_release_inhibitor(l, &next_usec, out);
    l->next_usec = next_usec;
}

void nc_life_step(struct nc_life *l, const struct nc_life_event *e, struct nc_life_actions *out) {
    assert((unsigned)e->kind < _NC_LIFE_EVENT_MAX);
    l->now_usec = e->now_usec;
    if (e->clock_offset_usec != l->clock_offset_usec) {
        l->clock_offset_usec = e->clock_offset_usec;
        nc_life_update_deadlines(l);
    }
    observe(l, e, out);
    nc_life_report_pods(l, out);
    if (!e->more)
        reconcile(l, out);
}

uint64_t nc_life_next(const struct nc_life *l, uint64_t now_usec) {
    return l->next_usec;
}

struct nc_life *nc_life_new(const struct nc_life_rules *rules) {
    struct nc_life *l = nc_calloc(1, sizeof(*l));

    l->rules = *rules;
    l->drain = nc_drain_new();
    l->no_drain = nc_drain_new();
    if (rules->max_pods)
        nc_drain_set_max(l->drain, rules->max_pods);
    l->next_usec = UINT64_MAX;
    l->in_force.policy = NC_POLICY_IGNORE;
    l->in_force.leading = -1;
    return l;
}

struct nc_life *nc_life_free(struct nc_life *l) {
    if (!l)
        return NULL;
    nc_drain_free(l->drain);
    nc_drain_free(l->no_drain);
    nc_strv_done(&l->unseen);
    free(l->status);
    free(l->in_flight_status);
    for (size_t i = 0; i < NC_LIFE_BUDGETS; i++)
        free(l->budgets[i].key);
    free(l);
    return NULL;
}

void nc_node_write_done(struct nc_node_write *w) {
    free(w->drain_status);
    free(w->cordon);
    free(w->pending.message);
    free(w->drained.message);
    *w = (struct nc_node_write){0};
}

void nc_life_actions_done(struct nc_life_actions *a) {
    for (size_t i = 0; i < a->n; i++) {
        nc_node_write_done(&a->v[i].write);
        nc_pod_news_done(&a->v[i].news);
        free(a->v[i].message);
        free(a->v[i].series);
    }
    free(a->v);
    *a = (struct nc_life_actions){0};
}

void nc_life_get_view(const struct nc_life *l, uint64_t now_usec, struct nc_life_view *ret) {
    *ret = (struct nc_life_view){
        .phase = l->phase,
        .since_usec = nc_life_ec2_time(l, l->since_usec),
        .notices = l->notices,
        .leading = l->in_force.leading,
        .policy = l->in_force.policy,
        .deadline_usec = l->in_force.deadline_usec,
        .t_usec = nc_life_ec2_time(l, l->in_force.t_usec),
        .is_ours = l->node.exists && l->node.has_cordon_record
                   && (!l->node.is_complete || l->node.is_unschedulable),
        .is_orphaned = l->orphaned_usec != 0,
        .cordoned_usec = nc_life_ec2_time(l, l->cordoned_usec),
        .drained_usec = nc_life_ec2_time(l, l->drained_usec),
        .clock_offset_usec = l->clock_offset_usec,
    };
    for (size_t s = 0; s < _NC_SOURCE_MAX; s++) {
        ret->is_active[s] = l->sources[s].is_active;
        ret->policies[s] = l->sources[s].policy;
        ret->noticed_usec[s] = nc_life_ec2_time(l, l->sources[s].noticed_usec);
    }
    for (size_t i = 0; i < _NC_HOOK_MAX; i++) {
        const struct nc_hook_run *run = &l->hooks[i].run;
        ret->hooks[i] = (struct nc_hook_run){.state = run->state,
                                             .started_usec = nc_life_ec2_time(l, run->started_usec),
                                             .ended_usec = nc_life_ec2_time(l, run->ended_usec)};
    }
    nc_life_drain_rules(l, &ret->drain_rules);
    nc_drain_summarize(nc_life_drain(l), &ret->drain_rules, nc_life_own_time(l, now_usec),
                       &ret->drain);
    ret->drain.last_progress_usec = nc_life_ec2_time(l, ret->drain.last_progress_usec);
    ret->status_phase = nc_life_status_phase(l, &ret->drain);
}

const struct nc_drain *nc_life_drain(const struct nc_life *l) {
    return l->is_open ? l->drain : l->no_drain;
}

const struct nc_notice *nc_life_notice(const struct nc_life *l, enum nc_source s) {
    return l->sources[s].is_active ? &l->notices[s] : NULL;
}

bool nc_life_is_orphaned(const struct nc_life *l) {
    return l->orphaned_usec != 0;
}

enum nc_hook_state nc_life_hook_state(const struct nc_life *l, enum nc_hook h) {
    return l->hooks[h].run.state;
}
