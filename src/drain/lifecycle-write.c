/*
 * The writes of our own Node: which is wanted, which is due, what is in it.
 *
 * One at a time. What was undone by somebody else is not done again; what is not ours is never
 * touched. Before a cordon is made or lifted the complete Node is checked, as it is then.
 */
#include "lifecycle-priv.h"
#include "nc/names.h"

#define PROGRESS_USEC NC_SEC_USEC
#define SIGN_OF_LIFE_USEC (60 * NC_SEC_USEC) /* kubectl-nodeclaim misses it after 90 s */
#define REFUSED_PAUSE_MIN_USEC (5 * NC_SEC_USEC)
#define PRUNED_PAUSE_USEC (10 * NC_SEC_USEC)
#define LOOK_USEC NC_SEC_USEC
#define REFRESH_SELDOM_USEC (30 * NC_SEC_USEC)

static bool is_ignored(const struct nc_lifecycle *l) {
    return l->in_force.policy < NC_POLICY_REPORT;
}

/* N9: a Node that goes stays cordoned. */
static bool keeps_cordon(const struct nc_lifecycle *l) {
    return l->node.is_deleting || l->node.has_disrupted_taint;
}

static bool has_cordon_to_undo(const struct nc_lifecycle *l) {
    return l->in_force.policy < NC_POLICY_CORDON && !keeps_cordon(l) && l->node.has_cordon_record;
}

/* A cordon alone takes nobody off load balancers. */
static bool has_label_to_undo(const struct nc_lifecycle *l) {
    return l->in_force.policy < NC_POLICY_DRAIN && !keeps_cordon(l)
           && l->node.is_balancers_label_ours;
}

static bool has_status_to_undo(const struct nc_lifecycle *l) {
    return is_ignored(l) && l->node.has_status;
}

static bool has_conditions_to_undo(const struct nc_lifecycle *l) {
    return is_ignored(l) && l->node.is_complete
           && (l->node.is_pending_true || l->node.is_drained_true);
}

/* N10: after a restart a source that was not observed yet may still be active. */
static bool may_undo(const struct nc_lifecycle *l) {
    return l->node.exists && nc_lifecycle_all_observed(l);
}

bool nc_lifecycle_wants_undo(const struct nc_lifecycle *l) {
    return may_undo(l)
           && (has_cordon_to_undo(l) || has_label_to_undo(l) || has_status_to_undo(l)
               || has_conditions_to_undo(l));
}

static bool is_seen_since(const struct nc_lifecycle *l, uint64_t usec) {
    return l->node.is_complete && l->complete_usec >= usec;
}

static bool wants_signal(const struct nc_lifecycle *l) {
    return !is_ignored(l) && !nc_lifecycle_is_signalled(l);
}

/* N5: what was refused for good is tried again all the same, for a policy may be mended. */
static bool is_worth_another_try(const struct nc_lifecycle *l, uint64_t refused_usec,
                                 uint64_t *next_usec) {
    const uint64_t t_usec = l->in_force.t_usec;
    uint64_t pause_usec =
        t_usec ? nc_less_usec(t_usec, l->now_usec) / 12 : NC_LIFECYCLE_REFUSED_USEC;

    if (pause_usec > NC_LIFECYCLE_REFUSED_USEC)
        pause_usec = NC_LIFECYCLE_REFUSED_USEC;
    if (pause_usec < REFUSED_PAUSE_MIN_USEC)
        pause_usec = REFUSED_PAUSE_MIN_USEC;
    return !is_ignored(l) && refused_usec
           && nc_has_come(l->now_usec, nc_sum_usec(refused_usec, pause_usec), next_usec);
}

/* What says whose the cordon is was taken away: nobody would lift it. */
static bool is_record_lost(const struct nc_lifecycle *l) {
    return l->is_cordon_done && !l->is_foreign && !l->was_lifted && l->node.is_unschedulable
           && !l->node.has_cordon_record;
}

/* Nothing wants the cordon any more that was ours: what became of it is to be seen. */
static bool awaits_end_of_cordon(const struct nc_lifecycle *l) {
    return (l->has_cordoned || l->was_foreign) && l->in_force.policy < NC_POLICY_CORDON
           && may_undo(l);
}

/* N9: what has no record is not lifted, also where it never had one, which somebody has to know. It
 * is told once the Node was read after nothing wanted the cordon any more: a record that is written
 * again is there then. */
void nc_lifecycle_report_cordon_left(struct nc_lifecycle *l, struct nc_lifecycle_actions *out) {
    if (!awaits_end_of_cordon(l) || l->in_flight || !is_seen_since(l, l->quiet_usec)
        || (l->node.is_unschedulable && l->node.has_cordon_record))
        return;
    if (l->node.is_unschedulable && !keeps_cordon(l)) {
        nc_lifecycle_emit(NC_LIFECYCLE_MILESTONE_UNCORDONED, "CordonLeft",
                          nc_asprintf("The cordon stays: %s; kubectl uncordon lifts it, if nobody "
                                      "else wants it",
                                      l->was_foreign
                                          ? "somebody else set it"
                                          : "the annotation " NC_ANNOTATION_CORDON
                                            ", which says that nodeclaimd set it, was removed"),
                          out);
        out->v[out->n - 1].is_warning = l->has_cordoned; /* else it is as it was before */
    }
    l->has_cordoned = l->was_foreign = false;
}

static bool wants_label(const struct nc_lifecycle *l, uint64_t *next_usec) {
    return l->in_force.policy == NC_POLICY_DRAIN && l->is_cordon_done && l->node.is_unschedulable
           && !l->node.has_balancers_label
           && (l->is_label_lost || is_worth_another_try(l, l->label_refused_usec, next_usec));
}

/* A foreign cordon that was lifted under us: now we need our own, unless it is a person's answer to
 * a request (N8). */
static bool is_foreign_lifted(const struct nc_lifecycle *l) {
    return l->is_cordon_done && l->is_foreign && l->node.is_complete && !l->node.is_unschedulable
           && !l->node.has_cordon_record && !nc_lifecycle_is_given_back(l);
}

/* N8: under a deadline a node that takes pods again takes them to their end. Whoever lifts the
 * cordon twice means it. */
static bool is_lifted(const struct nc_lifecycle *l) {
    return l->in_force.t_usec && !l->is_foreign
           && !l->has_announced[NC_LIFECYCLE_MILESTONE_RECORDONED]
           && nc_lifecycle_is_cordon_lifted(l);
}

static bool needs_cordon(const struct nc_lifecycle *l, uint64_t *next_usec) {
    return l->in_force.policy >= NC_POLICY_CORDON
           && (is_foreign_lifted(l) || is_lifted(l)
               || (!l->is_cordon_done && nc_lifecycle_may_cordon(l, next_usec)));
}

/* Our condition DrainInProgress is of a drain that the configuration does not allow any more. */
static bool has_progress_to_undo(const struct nc_lifecycle *l) {
    return l->in_force.policy < NC_POLICY_DRAIN
           && (l->node.known_ours & 1u << NC_KNOWN_DRAIN_IN_PROGRESS);
}

static bool needs_release(const struct nc_lifecycle *l) {
    return may_undo(l) && (has_cordon_to_undo(l) || has_label_to_undo(l) || has_status_to_undo(l));
}

static bool wants(const struct nc_lifecycle *l, enum nc_node_write_kind kind, uint64_t *next_usec) {
    switch (kind) {
    case NC_WRITE_SIGNAL:
        return wants_signal(l) || is_worth_another_try(l, l->signalled.refused_usec, next_usec);
    case NC_WRITE_CORDON:
        return needs_cordon(l, next_usec) && is_seen_since(l, l->raised_usec);
    case NC_WRITE_UNDRAINED:
        return !is_ignored(l) && l->phase != NC_LIFECYCLE_DRAINED && l->node.is_complete
               && (l->node.is_drained_true || has_progress_to_undo(l));
    case NC_WRITE_DRAINED:
        return l->phase == NC_LIFECYCLE_DRAINED && !l->is_unverified && !l->is_drained_done
               && l->is_synced && !l->node.is_drained_true;
    case NC_WRITE_RELEASE:
        return needs_release(l) && is_seen_since(l, l->quiet_usec);
    case NC_WRITE_CLEAR_CONDITIONS:
        return may_undo(l) && has_conditions_to_undo(l)
               && (!needs_release(l) || l->tries[NC_WRITE_RELEASE].is_refused);
    case NC_WRITE_NONE:
    case NC_WRITE_PROGRESS: /* where nothing else has to go out */
    case _NC_WRITE_MAX:
        break;
    }
    return false;
}

static void note_wanted(struct nc_lifecycle *l, enum nc_node_write_kind kind, bool is_wanted) {
    struct nc_lifecycle_try *t = &l->tries[kind];

    if (!is_wanted)
        *t = (struct nc_lifecycle_try){0};
    else if (!t->wanted_usec)
        t->wanted_usec = l->now_usec;
}

/* Of one that is in flight only the patience is counted anew: how it fares is still to be observed.
 */
static void note_awaited(struct nc_lifecycle *l, enum nc_node_write_kind kind, bool is_wanted) {
    if (l->in_flight != kind)
        note_wanted(l, kind, is_wanted);
    else if (!is_wanted)
        l->tries[kind].wanted_usec = 0;
    else if (!l->tries[kind].wanted_usec)
        l->tries[kind].wanted_usec = l->now_usec;
}

/* A Node that carries our cordon needs no second one, nor one that reports it a second Drained; and
 * from when the first two are wanted, patience counts. While ours is refused, whatever cordon
 * stands counts (N7). */
void nc_lifecycle_adopt(struct nc_lifecycle *l, uint64_t *next_usec,
                        struct nc_lifecycle_actions *out) {
    const bool is_ours = l->node.has_cordon_record, was_missing = nc_lifecycle_is_cordon_refused(l);
    const bool is_refused =
        (was_missing || l->tries[NC_WRITE_CORDON].is_refused) && needs_cordon(l, next_usec);

    if (l->in_force.policy >= NC_POLICY_CORDON && !l->is_cordon_done && l->node.exists
        && l->node.is_complete && l->node.is_unschedulable
        && (is_refused
            || (is_ours && (l->in_force.policy < NC_POLICY_DRAIN || l->node.has_balancers_label)))
        && l->in_flight != NC_WRITE_RELEASE && l->in_flight != NC_WRITE_CORDON
        && !(is_ours && l->is_release_lost)) {
        l->is_cordon_done = true;
        l->is_foreign = !is_ours;
        l->has_cordoned |= is_ours || was_missing;
        l->was_lifted |= !is_ours && was_missing;
        l->is_cordoned_to_drain = l->in_force.policy == NC_POLICY_DRAIN;
        l->cordoned_usec = l->now_usec;
        if (is_refused) {
            l->is_label_lost = !l->label_refused_usec;
            l->has_announced[NC_LIFECYCLE_MILESTONE_UNCORDONED] = false;
            nc_lifecycle_report_cordoned(l, is_ours, out);
        }
    }
    note_awaited(l, NC_WRITE_SIGNAL, l->node.exists && wants_signal(l));
    note_awaited(l, NC_WRITE_CORDON, l->node.exists && needs_cordon(l, next_usec));
}

/* Karpenter taints a Node soon after its deletion; whether DaemonSet pods go depends on it, and
 * metadata does not show it. */
static bool is_taint_expected(const struct nc_lifecycle *l) {
    return (l->phase == NC_LIFECYCLE_OBSERVING || l->phase == NC_LIFECYCLE_EVICTING)
           && l->node.is_deleting && !l->node.has_disrupted_taint;
}

/* A request may be withdrawn behind a watch that hangs: it is read before its deadline ends a pod,
 * so that nothing is announced that is not done. */
static bool is_ending_soon(const struct nc_lifecycle *l, uint64_t *next_usec) {
    if (l->in_force.leading != NC_SOURCE_REQUEST || !l->in_force.t_usec)
        return false;
    const uint64_t first_usec = nc_lifecycle_first_mark_at(l);
    const uint64_t look_usec = nc_less_usec(first_usec, LOOK_USEC);
    return first_usec != UINT64_MAX && nc_has_come(l->now_usec, look_usec, next_usec)
           && !is_seen_since(l, look_usec);
}

/* When should the complete Node be requested again? UINT64_MAX = it is known well enough. */
static uint64_t refresh_pause(const struct nc_lifecycle *l, uint64_t *next_usec) {
    if (!l->node.is_complete || (needs_cordon(l, next_usec) && !is_seen_since(l, l->raised_usec))
        || ((needs_release(l) || awaits_end_of_cordon(l)) && !is_seen_since(l, l->quiet_usec))
        || is_ending_soon(l, next_usec))
        return LOOK_USEC;
    if (l->phase == NC_LIFECYCLE_VOLUME_WAIT
        && (l->node.n_volumes > 0 || !is_seen_since(l, l->empty_usec)))
        return LOOK_USEC;
    if (is_taint_expected(l))
        return l->now_usec < nc_sum_usec(l->since_usec, REFRESH_SELDOM_USEC) ? 2 * LOOK_USEC
                                                                             : REFRESH_SELDOM_USEC;
    if (l->in_force.policy < NC_POLICY_CORDON && l->node.has_disrupted_taint && !l->node.is_deleting
        && (l->node.has_cordon_record || l->node.is_balancers_label_ours))
        return REFRESH_SELDOM_USEC;
    return UINT64_MAX;
}

void nc_lifecycle_refresh_node(struct nc_lifecycle *l, uint64_t *next_usec,
                               struct nc_lifecycle_actions *out) {
    const uint64_t pause_usec = l->node.exists ? refresh_pause(l, next_usec) : UINT64_MAX;

    if (pause_usec == UINT64_MAX
        || (l->refresh_usec
            && !nc_has_come(l->now_usec, nc_sum_usec(l->refresh_usec, pause_usec), next_usec)))
        return;
    l->refresh_usec = l->now_usec;
    (void)nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_REFRESH_NODE);
    nc_wake_at(nc_sum_usec(l->now_usec, pause_usec), next_usec); /* an answer may get lost */
}

/* N7: a foreign cordon is not claimed. */
static void fill_cordon(const struct nc_lifecycle *l, struct nc_node_write *w) {
    const bool is_foreign = l->node.is_unschedulable && !l->node.has_cordon_record;

    if (!is_foreign) {
        w->unschedulable = 1;
        w->sets_cordon = true;
        w->cordon = nc_lifecycle_cordon_text(l);
    }
    if (l->in_force.policy == NC_POLICY_DRAIN && !l->node.has_balancers_label
        && !l->label_refused_usec)
        w->balancers_label = 1;
}

static void fill_release(const struct nc_lifecycle *l, struct nc_node_write *w) {
    if (has_cordon_to_undo(l)) {
        w->unschedulable = l->was_lifted && l->node.is_unschedulable ? -1 : 0;
        w->sets_cordon = true;
    }
    if (has_label_to_undo(l))
        w->balancers_label = 0;
}

static void fill_condition(struct nc_condition *c, bool is_true, const char *reason,
                           char *message) {
    *c = (struct nc_condition){
        .is_set = true, .is_true = is_true, .reason = reason, .message = message};
}

static void fill_cleared_conditions(const struct nc_lifecycle *l, struct nc_node_write *w) {
    if (l->node.is_pending_true)
        fill_condition(&w->pending, false, "InterruptionWithdrawn",
                       nc_strdup("Nothing announces an end of this node"));
    if (l->node.is_drained_true)
        fill_condition(&w->drained, false, "NodeReleased",
                       nc_strdup("Nothing announces an end of this node"));
}

/* --- the conditions that Kubernetes names */

static unsigned known_conditions(const struct nc_lifecycle *l, enum nc_node_write_kind kind) {
    const struct nc_lifecycle_source *m = &l->sources[NC_SOURCE_MAINTENANCE];
    unsigned bits = 0;

    if (kind == NC_WRITE_CLEAR_CONDITIONS)
        return 0;
    if (l->phase != NC_LIFECYCLE_DRAINED && l->in_force.policy == NC_POLICY_DRAIN)
        bits |= 1u << NC_KNOWN_DRAIN_IN_PROGRESS;
    if (m->is_active && m->policy >= NC_POLICY_REPORT)
        bits |= 1u << (nc_lifecycle_own_time(l, m->notice.deadline_usec) > l->now_usec
                           ? NC_KNOWN_MAINTENANCE_PLANNED
                           : NC_KNOWN_MAINTENANCE_IN_PROGRESS);
    if (l->sources[NC_SOURCE_SHUTDOWN].is_active)
        bits |= 1u << NC_KNOWN_SHUTDOWN_IN_PROGRESS;
    return bits;
}

/* The KEP's own reasons where one fits; for what EC2 alone ends there is none but ours. */
static const char *reason_of_drain(const struct nc_lifecycle *l) {
    switch ((enum nc_source)l->in_force.leading) {
    case NC_SOURCE_SHUTDOWN:
        return "NodeShutdown";
    case NC_SOURCE_MAINTENANCE:
        return "MaintenanceWindow";
    case NC_SOURCE_DELETION:
    case NC_SOURCE_REQUEST:
    case NC_SOURCE_OPERATOR:
        return "AdminRequested";
    case NC_SOURCE_REBALANCE:
    case NC_SOURCE_AUTOSCALING:
    case NC_SOURCE_SPOT:
    case _NC_SOURCE_MAX:
        break;
    }
    return nc_source_reason((enum nc_source)l->in_force.leading);
}

/* Where another has set one it stays his. */
static void fill_known_conditions(const struct nc_lifecycle *l, enum nc_node_write_kind kind,
                                  struct nc_node_write *w) {
    const unsigned wanted = known_conditions(l, kind);
    const struct nc_node_view *n = &l->node;
    const bool is_cleared = kind == NC_WRITE_CLEAR_CONDITIONS;

    w->known_set =
        (wanted & ~n->known_true) | (n->known_ours & (kind == NC_WRITE_SIGNAL ? ~0u : ~wanted));
    w->known_true = wanted & w->known_set;
    w->known_unchanged = w->known_true & n->known_true;
    for (size_t i = 0; i < _NC_KNOWN_CONDITION_MAX; i++) {
        const bool is_shutdown = i == NC_KNOWN_SHUTDOWN_IN_PROGRESS;
        w->known_reason[i] = is_cleared    ? "InterruptionWithdrawn"
                             : is_shutdown ? "NodeShutdown"
                                           : "MaintenanceWindow";
        if (i != NC_KNOWN_DRAIN_IN_PROGRESS && w->known_true & 1u << i)
            w->known_message[i] =
                nc_lifecycle_sentence(l, is_shutdown ? NC_SOURCE_SHUTDOWN : NC_SOURCE_MAINTENANCE);
    }
    if (!is_cleared)
        w->known_reason[NC_KNOWN_DRAIN_IN_PROGRESS] =
            l->phase == NC_LIFECYCLE_DRAINED ? "DrainCompleted" : reason_of_drain(l);
}

static void fill(struct nc_lifecycle *l, enum nc_node_write_kind kind, struct nc_node_write *w) {
    *w = (struct nc_node_write){
        .kind = kind, .uid = l->node.uid, .unschedulable = -1, .balancers_label = -1};
    if (kind == NC_WRITE_SIGNAL)
        fill_condition(&w->pending, true, nc_source_reason((enum nc_source)l->in_force.leading),
                       nc_lifecycle_sentence(l, (enum nc_source)l->in_force.leading));
    w->pending.is_unchanged = w->pending.is_true && l->node.is_pending_true;
    if (kind == NC_WRITE_CORDON)
        fill_cordon(l, w);
    if (kind == NC_WRITE_PROGRESS && wants_label(l, &(uint64_t){UINT64_MAX}))
        w->balancers_label = 1;
    if (kind == NC_WRITE_PROGRESS && is_record_lost(l)) {
        w->sets_cordon = true;
        w->cordon = nc_lifecycle_cordon_text(l);
    }
    if (kind == NC_WRITE_DRAINED && !l->node.is_drained_by_another)
        fill_condition(&w->drained, true, NC_REASON_DRAINED, nc_lifecycle_drained_text(l));
    if (kind == NC_WRITE_UNDRAINED && l->node.is_drained_true)
        fill_condition(&w->drained, false, "PodsLeft",
                       nc_strdup("The node is not drained, or no longer"));
    if (kind == NC_WRITE_RELEASE)
        fill_release(l, w);
    if (kind == NC_WRITE_CLEAR_CONDITIONS)
        fill_cleared_conditions(l, w);
    if (w->pending.is_set || w->drained.is_set || kind == NC_WRITE_DRAINED
        || kind == NC_WRITE_UNDRAINED)
        fill_known_conditions(l, kind, w);
    w->sets_status = kind != NC_WRITE_CLEAR_CONDITIONS;
    if (w->sets_status && !is_ignored(l))
        w->drain_status = nc_lifecycle_status_text(l, kind, true);
}

static void send(struct nc_lifecycle *l, enum nc_node_write_kind kind,
                 struct nc_lifecycle_actions *out) {
    struct nc_node_write *w = &nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_WRITE)->write;

    fill(l, kind, w);
    l->in_flight = kind;
    l->in_flight_signal = nc_lifecycle_wanted_signal(l);
    l->is_uncordoning = l->node.is_unschedulable && !l->was_lifted;
    l->in_flight_parts = *w;
    l->in_flight_parts.drain_status = l->in_flight_parts.cordon = NULL;
    l->in_flight_parts.pending.message = l->in_flight_parts.drained.message = NULL;
    memset(l->in_flight_parts.known_message, 0, sizeof(l->in_flight_parts.known_message));
    l->is_in_flight_void = false;
    free(l->in_flight_status);
    l->in_flight_status = w->drain_status ? nc_lifecycle_status_text(l, kind, false) : NULL;
    if (w->sets_status)
        l->status_usec = l->now_usec;
    l->tries[kind].last_usec = l->now_usec;
}

static bool may_progress(const struct nc_lifecycle *l, uint64_t *next_usec) {
    return !is_ignored(l) && !l->is_resuming && nc_lifecycle_is_signalled(l)
           && l->phase != NC_LIFECYCLE_SIGNALLING
           && (l->phase != NC_LIFECYCLE_CORDONING || nc_lifecycle_is_cordon_refused(l))
           && (l->phase != NC_LIFECYCLE_DRAINED || !l->is_unverified)
           && nc_has_come(l->now_usec, nc_sum_usec(l->status_usec, PROGRESS_USEC), next_usec);
}

/* Who reads the annotation cannot tell a drain that waits from a daemon that has ended. */
static bool needs_sign_of_life(const struct nc_lifecycle *l, uint64_t *next_usec) {
    return l->in_force.policy == NC_POLICY_DRAIN && l->phase != NC_LIFECYCLE_DRAINED
           && !l->is_failed && l->said_usec
           && nc_has_come(l->now_usec, nc_sum_usec(l->said_usec, SIGN_OF_LIFE_USEC), next_usec);
}

/* Progress goes out where nothing else has to, and says something new, or the last one was said
 * long ago. Returns whether it is due. */
static bool update_progress(struct nc_lifecycle *l, uint64_t *next_usec) {
    if (!may_progress(l, next_usec))
        return false;
    nc_auto_free char *text = nc_lifecycle_status_text(l, NC_WRITE_PROGRESS, false);
    const bool is_pruned =
        ((l->said_usec && !l->node.has_status) || is_record_lost(l))
        && (!l->pruned_usec
            || nc_has_come(l->now_usec, nc_sum_usec(l->pruned_usec, PRUNED_PAUSE_USEC), next_usec));
    const bool is_news = !l->status || strcmp(l->status, text) != 0 || is_pruned
                         || wants_label(l, next_usec) || needs_sign_of_life(l, next_usec);
    note_wanted(l, NC_WRITE_PROGRESS, is_news);
    if (!is_news || !nc_has_come(l->now_usec, l->tries[NC_WRITE_PROGRESS].next_usec, next_usec))
        return false;
    if (is_pruned)
        l->pruned_usec = l->now_usec;
    return true;
}

/* N6. Of those that are due, the one that was tried longest ago: one that fails again and again
 * keeps no other from its turn. */
void nc_lifecycle_write(struct nc_lifecycle *l, uint64_t *next_usec,
                        struct nc_lifecycle_actions *out) {
    enum nc_node_write_kind next = NC_WRITE_NONE;

    if (l->in_flight || !l->node.exists || l->is_resuming)
        return;
    for (enum nc_node_write_kind kind = NC_WRITE_SIGNAL; kind < _NC_WRITE_MAX; kind++) {
        const bool is_wanted = wants(l, kind, next_usec);
        if (kind != NC_WRITE_SIGNAL && kind != NC_WRITE_CORDON && kind != NC_WRITE_PROGRESS)
            note_wanted(l, kind, is_wanted);
        if (is_wanted && nc_has_come(l->now_usec, l->tries[kind].next_usec, next_usec)
            && (!next || l->tries[kind].last_usec < l->tries[next].last_usec))
            next = kind;
    }
    if (!next && update_progress(l, next_usec))
        next = l->is_main_refused && !wants_label(l, next_usec) ? NC_WRITE_UNDRAINED
                                                                : NC_WRITE_PROGRESS;
    if (next)
        send(l, next, out);
}
