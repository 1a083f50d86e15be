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
#include "nc/names.h"

static const char phase_names[_NC_LIFECYCLE_PHASE_MAX][12] = {
    [NC_LIFECYCLE_IDLE] = "idle",         [NC_LIFECYCLE_SIGNALLING] = "signalling",
    [NC_LIFECYCLE_REPORTED] = "reported", [NC_LIFECYCLE_CORDONING] = "cordoning",
    [NC_LIFECYCLE_CORDONED] = "cordoned", [NC_LIFECYCLE_OBSERVING] = "observing",
    [NC_LIFECYCLE_EVICTING] = "evicting", [NC_LIFECYCLE_VOLUME_WAIT] = "volume-wait",
    [NC_LIFECYCLE_DRAINED] = "drained",   [NC_LIFECYCLE_RELEASING] = "releasing",
};

const char *nc_lifecycle_phase_name(enum nc_lifecycle_phase p) {
    return phase_names[p];
}

const char *nc_lifecycle_view_phase(const struct nc_lifecycle_view *v) {
    return v->is_failed ? NC_LIFECYCLE_FAILED : phase_names[v->phase];
}

bool nc_lifecycle_has_pods(enum nc_lifecycle_phase p) {
    return p == NC_LIFECYCLE_OBSERVING || p == NC_LIFECYCLE_EVICTING
           || p == NC_LIFECYCLE_VOLUME_WAIT || p == NC_LIFECYCLE_DRAINED;
}

struct nc_lifecycle_action *nc_lifecycle_add_action(struct nc_lifecycle_actions *out,
                                                    enum nc_lifecycle_action_kind kind) {
    struct nc_lifecycle_action *a = nc_append(&out->v, &out->n);

    a->kind = kind;
    return a;
}

/* What was written to a Node that is no more was not written to the one of the same name. */
static void void_node(struct nc_lifecycle *l, struct nc_lifecycle_actions *out) {
    l->node = (struct nc_node_view){0};
    l->orphaned_usec = l->complete_usec = l->refresh_usec = 0;
    l->is_in_flight_void = l->in_flight != NC_WRITE_NONE;
    l->sources[NC_SOURCE_REQUEST].is_of_deleted = true;
    memset(l->tries, 0, sizeof(l->tries));
    free(nc_steal(&l->status));
    l->signalled.is_set = false;
    l->is_cordon_done = l->is_foreign = l->was_lifted = l->is_drained_done = false;
    l->has_cordoned = l->was_foreign = l->is_label_lost = false;
    l->label_refused_usec = l->cordoned_usec = l->drained_usec = 0;
    l->held_phase = NC_LIFECYCLE_IDLE;
    l->is_resuming = l->is_unverified = false;
    memset(l->has_announced, 0, sizeof(l->has_announced));
    nc_lifecycle_close_pods(l, out);
}

void nc_lifecycle_enter(struct nc_lifecycle *l, enum nc_lifecycle_phase phase) {
    if (phase == l->phase)
        return;
    l->phase = phase;
    l->since_usec = l->now_usec;
    l->drained_usec = phase == NC_LIFECYCLE_DRAINED ? l->now_usec : 0;
    if (phase != NC_LIFECYCLE_DRAINED)
        l->is_drained_done = false;
}

/* What was saved may be older than the last writes: the Node knows better. */
static void verify(struct nc_lifecycle *l, const struct nc_node_view *v) {
    if (!v->has_status || (v->is_complete && !v->is_pending_true))
        l->signalled.is_set = false;
    if (!v->has_cordon_record && (!l->is_foreign || (v->is_complete && !v->is_unschedulable)))
        l->is_cordon_done = false;
    if (v->is_complete && !v->is_drained_true && !v->is_drained_by_another
        && l->phase == NC_LIFECYCLE_DRAINED)
        nc_lifecycle_enter(l, l->held_phase = NC_LIFECYCLE_VOLUME_WAIT);
    l->is_unverified = !v->is_complete;
    l->is_resuming = false;
}

/* N8: beside the cordon that stands. */
static void note_label(struct nc_lifecycle *l, const struct nc_node_view *v,
                       struct nc_lifecycle_actions *out) {
    const bool has_deadline = l->in_force.t_usec != 0;

    if (!l->node.has_balancers_label || v->has_balancers_label || !v->is_unschedulable
        || !l->is_cordon_done || l->in_force.policy != NC_POLICY_DRAIN
        || l->has_announced[NC_LIFECYCLE_MILESTONE_UNLABELLED])
        return;
    l->is_label_lost = has_deadline;
    nc_lifecycle_emit_once(l, NC_LIFECYCLE_MILESTONE_UNLABELLED,
                           nc_asprintf("The label " NC_LABEL_BALANCERS " was removed: %s",
                                       has_deadline
                                           ? "it is set once more, for the node has a deadline"
                                           : "load balancers may send new connections to the node"),
                           out);
}

static void observe_node(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                         struct nc_lifecycle_actions *out) {
    const bool was_given_back = l->is_cordon_done && nc_lifecycle_is_given_back(l);
    const bool stood = l->node.is_unschedulable;
    struct nc_node_view v = *e->node;

    if (l->node.uid[0] && strcmp(l->node.uid, v.uid) != 0)
        void_node(l, out);
    if (v.is_complete)
        l->complete_usec = e->now_usec;
    else {
        v.is_complete = l->node.is_complete;
        v.is_unschedulable = l->node.is_unschedulable;
        v.has_disrupted_taint = l->node.has_disrupted_taint;
        v.has_rebooting_taint = l->node.has_rebooting_taint;
        v.is_pending_true = l->node.is_pending_true;
        v.is_drained_true = l->node.is_drained_true;
        v.is_drained_by_another = l->node.is_drained_by_another;
        v.n_volumes = l->node.n_volumes;
        memcpy(v.volume, l->node.volume, sizeof(v.volume));
    }
    if (l->is_unverified)
        verify(l, &v);
    /* Somebody put the record of a cordon back: whether the cordon, too, is not in the metadata. */
    if (v.has_cordon_record && !l->node.has_cordon_record && !e->node->is_complete && !l->in_flight
        && l->in_force.policy < NC_POLICY_CORDON)
        v.is_complete = false;
    if (l->node.is_unschedulable && !v.is_unschedulable) /* what refused the release may not now */
        l->tries[NC_WRITE_RELEASE].next_usec = 0;
    v.exists = true;
    note_label(l, &v, out);
    l->node = v;
    l->orphaned_usec = 0;
    l->is_node_seen = true;
    if (was_given_back && v.is_unschedulable && l->is_cordon_done)
        nc_lifecycle_report_cordoned(l, false, out);
    if (!nc_lifecycle_is_cordon_lifted(l) || (l->was_lifted && !stood))
        return;
    l->was_lifted = true;
    l->has_cordoned = false;
    if (l->in_force.policy >= NC_POLICY_CORDON && nc_lifecycle_is_given_back(l))
        nc_lifecycle_emit(
            NC_LIFECYCLE_MILESTONE_UNCORDONED, "NodeUncordoned",
            nc_strdup("The cordon was lifted: the request, which has no deadline, waits until the "
                      "node is cordoned again; withdraw it if it is not wanted any more"),
            out);
}

/* N13, N14 */
static void lose_node(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                      struct nc_lifecycle_actions *out) {
    if (e->is_anothers)
        void_node(l, out);
    else if (l->node.uid[0] && !l->orphaned_usec)
        l->orphaned_usec = e->now_usec;
    l->node.exists = false;
    l->is_node_seen = true;
    l->is_resuming = false;
}

static void observe_answer(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                           struct nc_lifecycle_actions *out) {
    nc_drain_answer(l->drain, &(struct nc_drain_reply){.uid = e->uid,
                                                       .verb = e->verb,
                                                       .answer = e->answer,
                                                       .seed = l->rules.seed,
                                                       .now_usec = e->now_usec});
    if (e->answer->kind == NC_ANSWER_GONE)
        l->absent_usec = e->now_usec;
    if (l->is_open)
        nc_lifecycle_report_blocked(l, e, out);
}

/* Every event may come in every phase: an answer may be to a question of an earlier one. What is
 * reported of pods while they are not watched comes from a watch that was closed, and is dropped.
 */
static void observe(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                    struct nc_lifecycle_actions *out) {
    switch (e->kind) {
    case NC_LIFECYCLE_START:
        if (!l->since_usec)
            l->since_usec = e->now_usec;
        break;
    case NC_LIFECYCLE_RULES:
        l->rules = *e->rules;
        break;
    case NC_LIFECYCLE_NOTICE:
        nc_lifecycle_observe(l, e->notice);
        break;
    case NC_LIFECYCLE_CLEARED:
        nc_lifecycle_clear(l, e->source, out);
        break;
    case NC_LIFECYCLE_NODE:
        observe_node(l, e, out);
        break;
    case NC_LIFECYCLE_NODE_GONE:
        lose_node(l, e, out);
        break;
    case NC_LIFECYCLE_POD:
        nc_lifecycle_see_pod(l, e->pod);
        break;
    case NC_LIFECYCLE_POD_UNREADABLE:
        if (l->is_open)
            nc_drain_miss(l->drain);
        break;
    case NC_LIFECYCLE_POD_GONE:
        if (l->is_open)
            nc_drain_gone(l->drain, e->uid, e->now_usec);
        break;
    case NC_LIFECYCLE_PODS_SYNCED:
        nc_lifecycle_synced(l);
        break;
    case NC_LIFECYCLE_WRITTEN:
        nc_lifecycle_written(l, e, out);
        break;
    case NC_LIFECYCLE_POD_ANSWER:
        observe_answer(l, e, out);
        break;
    case NC_LIFECYCLE_HOOK:
        nc_lifecycle_observe_hook(l, e, out);
        break;
    case NC_LIFECYCLE_TICK:
        break;
    case _NC_LIFECYCLE_EVENT_MAX:
        break;
    }
}

/* What should be true now? The next missing thing of each kind is requested. */
static void reconcile(struct nc_lifecycle *l, struct nc_lifecycle_actions *out) {
    uint64_t next_usec = UINT64_MAX;

    nc_lifecycle_apply_policies(l, &next_usec);
    nc_lifecycle_report_cordon_left(l, out);
    nc_lifecycle_adopt(l, &next_usec, out);
    nc_lifecycle_limit_hooks(l, &next_usec, out);
    nc_lifecycle_update_summary(l);
    nc_lifecycle_update_phase(l, &next_usec);
    nc_lifecycle_start_hooks(l, &next_usec, out);
    if (l->phase == NC_LIFECYCLE_EVICTING && !l->evicting_usec
        && nc_lifecycle_is_hook_over(l, NC_HOOK_PRE_DRAIN)) {
        l->evicting_usec = l->now_usec;
        nc_lifecycle_update_summary(l); /* pods may wait for their replacement from now on */
    }
    const bool was_failed = l->is_failed;
    l->is_failed = nc_lifecycle_is_failed(l, &next_usec);
    if (l->is_failed && !was_failed)
        l->failed_usec = l->now_usec;
    nc_lifecycle_announce(l, out);
    nc_lifecycle_refresh_node(l, &next_usec, out);
    nc_lifecycle_write(l, &next_usec, out);
    nc_lifecycle_open_pods(l, &next_usec, out);
    nc_lifecycle_step_pods(l, &next_usec, out);
    nc_lifecycle_report_pods(l, out);
    nc_lifecycle_report_kept(l, &next_usec, out);
    nc_lifecycle_release_inhibitor(l, &next_usec, out);
    l->next_usec = next_usec;
}

void nc_lifecycle_step(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                       struct nc_lifecycle_actions *out) {
    assert((unsigned)e->kind < _NC_LIFECYCLE_EVENT_MAX);
    l->now_usec = e->now_usec;
    if (e->clock_offset_usec != l->clock_offset_usec) {
        l->clock_offset_usec = e->clock_offset_usec;
        nc_lifecycle_update_deadlines(l);
    }
    if (e->away_usec)
        l->blind_usec[0] = nc_lifecycle_own_time(l, e->away_usec);
    if (e->away_usec || l->is_blind)
        l->blind_usec[1] = e->now_usec;
    l->is_blind = e->away_usec != 0;
    observe(l, e, out);
    nc_lifecycle_report_pods(l, out);
    if (!e->more)
        reconcile(l, out);
}

uint64_t nc_lifecycle_next(const struct nc_lifecycle *l, uint64_t now_usec) {
    return l->next_usec;
}

struct nc_lifecycle *nc_lifecycle_new(const struct nc_lifecycle_rules *rules) {
    struct nc_lifecycle *l = nc_calloc(1, sizeof(*l));

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

struct nc_lifecycle *nc_lifecycle_free(struct nc_lifecycle *l) {
    if (!l)
        return NULL;
    nc_drain_free(l->drain);
    nc_drain_free(l->no_drain);
    nc_strv_done(&l->unseen);
    free(l->status);
    free(l->in_flight_status);
    for (size_t i = 0; i < NC_LIFECYCLE_BUDGETS; i++)
        free(l->budgets[i].key);
    free(l);
    return NULL;
}

void nc_node_write_done(struct nc_node_write *w) {
    free(w->drain_status);
    free(w->cordon);
    free(w->pending.message);
    for (size_t i = 0; i < _NC_KNOWN_CONDITION_MAX; i++)
        free(w->known_message[i]);
    free(w->drained.message);
    *w = (struct nc_node_write){0};
}

void nc_lifecycle_actions_done(struct nc_lifecycle_actions *a) {
    for (size_t i = 0; i < a->n; i++) {
        nc_node_write_done(&a->v[i].write);
        nc_pod_news_done(&a->v[i].news);
        free(a->v[i].message);
        free(a->v[i].series);
    }
    free(a->v);
    *a = (struct nc_lifecycle_actions){0};
}

void nc_lifecycle_get_view(const struct nc_lifecycle *l, uint64_t now_usec,
                           struct nc_lifecycle_view *ret) {
    *ret = (struct nc_lifecycle_view){
        .phase = l->phase,
        .since_usec = nc_lifecycle_ec2_time(l, l->is_failed ? l->failed_usec : l->since_usec),
        .notices = l->notices,
        .leading = l->in_force.leading,
        .policy = l->in_force.policy,
        .deadline_usec = l->in_force.deadline_usec,
        .t_usec = nc_lifecycle_ec2_time(l, l->in_force.t_usec),
        .is_put_back = nc_lifecycle_is_put_back(l),
        .is_ours = l->node.exists && l->node.has_cordon_record && !l->was_lifted
                   && (!l->node.is_complete || l->node.is_unschedulable),
        .is_lifted = nc_lifecycle_is_cordon_lifted(l),
        .is_refused = nc_lifecycle_is_cordon_refused(l) && !l->is_cordon_failing,
        .is_failing = nc_lifecycle_is_cordon_refused(l) && l->is_cordon_failing,
        .is_unlabelled = l->has_announced[NC_LIFECYCLE_MILESTONE_UNLABELLED] && l->node.exists
                         && !l->node.has_balancers_label,
        .is_orphaned = l->orphaned_usec != 0,
        .is_failed = l->is_failed,
        .n_volumes = nc_lifecycle_has_volumes(l) ? l->node.n_volumes : 0,
        .volume = l->node.volume,
        .is_unwatched = !l->is_open,
        .is_older = l->is_older,
        .is_unlisted = l->in_force.policy == NC_POLICY_DRAIN && !nc_lifecycle_has_listed(l),
        .cordoned_usec = nc_lifecycle_ec2_time(l, l->cordoned_usec),
        .drained_usec = nc_lifecycle_ec2_time(l, l->drained_usec),
        .retry_usec = l->phase == NC_LIFECYCLE_RELEASING && l->tries[NC_WRITE_RELEASE].is_refused
                          ? nc_lifecycle_ec2_time(l, l->tries[NC_WRITE_RELEASE].next_usec)
                          : 0,
        .clock_offset_usec = l->clock_offset_usec,
    };
    for (size_t s = 0; s < _NC_SOURCE_MAX; s++) {
        ret->is_active[s] = l->sources[s].is_active;
        ret->policies[s] = l->sources[s].policy;
        ret->noticed_usec[s] = nc_lifecycle_ec2_time(l, l->sources[s].noticed_usec);
    }
    for (size_t i = 0; i < _NC_HOOK_MAX; i++) {
        const struct nc_hook_run *run = &l->hooks[i].run;
        ret->hooks[i] =
            (struct nc_hook_run){.state = run->state,
                                 .started_usec = nc_lifecycle_ec2_time(l, run->started_usec),
                                 .ended_usec = nc_lifecycle_ec2_time(l, run->ended_usec)};
    }
    nc_lifecycle_drain_rules(l, &ret->drain_rules);
    nc_drain_summarize(nc_lifecycle_drain(l), &ret->drain_rules, nc_lifecycle_own_time(l, now_usec),
                       &ret->drain);
    ret->drain.last_progress_usec = nc_lifecycle_ec2_time(l, ret->drain.last_progress_usec);
    ret->status_phase = nc_lifecycle_status_phase(l, &ret->drain);
}

const struct nc_drain *nc_lifecycle_drain(const struct nc_lifecycle *l) {
    return nc_lifecycle_has_open_pods(l) ? l->drain : l->no_drain;
}

const struct nc_notice *nc_lifecycle_notice(const struct nc_lifecycle *l, enum nc_source s) {
    return l->sources[s].is_active ? &l->notices[s] : NULL;
}

const struct nc_notice *nc_lifecycle_acted(const struct nc_lifecycle *l, enum nc_source s) {
    return l->sources[s].is_late ? NULL : nc_lifecycle_notice(l, s);
}

bool nc_lifecycle_is_orphaned(const struct nc_lifecycle *l) {
    return l->orphaned_usec != 0;
}

enum nc_hook_state nc_lifecycle_hook_state(const struct nc_lifecycle *l, enum nc_hook h) {
    return l->hooks[h].run.state;
}
