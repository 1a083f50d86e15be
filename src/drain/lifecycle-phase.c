/*
 * Which phase is it? Derived from what is in force, what was written and which pods are left.
 *
 * What is asked here changes nothing. nc_lifecycle_update_phase alone notes, beside the phase,
 * since when the pods are gone and whether a drain that somebody else began was taken over.
 */
#include <string.h>

#include "lifecycle-priv.h"

/* Where the pods cannot be listed, nobody knows; it is reported later. */
#define FAILED_UNLISTED_USEC (10 * NC_SEC_USEC)

struct nc_lifecycle_signal nc_lifecycle_wanted_signal(const struct nc_lifecycle *l) {
    struct nc_lifecycle_signal s = {
        .is_set = true, .source = l->in_force.leading, .deadline_usec = l->in_force.deadline_usec};

    if (l->in_force.leading >= 0)
        memcpy(s.id, l->sources[l->in_force.leading].notice.id, sizeof(s.id));
    return s;
}

bool nc_lifecycle_is_signalled(const struct nc_lifecycle *l) {
    const struct nc_lifecycle_signal s = nc_lifecycle_wanted_signal(l);

    return l->signalled.is_set && l->signalled.source == s.source
           && l->signalled.deadline_usec == s.deadline_usec && strcmp(l->signalled.id, s.id) == 0;
}

/* N5: under a deadline a write may hold up what follows for so long only. */
static bool has_waited(const struct nc_lifecycle *l, enum nc_node_write_kind kind,
                       uint64_t *next_usec) {
    const uint64_t wanted_usec = l->tries[kind].wanted_usec;

    return l->in_force.t_usec && wanted_usec
           && nc_has_come(l->now_usec, nc_sum_usec(wanted_usec, NC_LIFECYCLE_WRITE_PATIENCE_USEC),
                          next_usec);
}

/* Once the pods are watched, a signal that has to be written anew holds up nothing. */
bool nc_lifecycle_may_cordon(const struct nc_lifecycle *l, uint64_t *next_usec) {
    return nc_lifecycle_has_open_pods(l) || nc_lifecycle_is_signalled(l)
           || has_waited(l, NC_WRITE_SIGNAL, next_usec);
}

/* N4, auto: whoever deleted the Node drains it, as long as something moves. */
static bool is_observing(const struct nc_lifecycle *l, uint64_t *next_usec) {
    uint64_t moved_usec = l->sources[NC_SOURCE_DELETION].noticed_usec;

    if (l->rules.drain.mode != NC_DRAIN_AUTO || !l->in_force.is_only_deletion || l->has_taken_over)
        return false;
    if (!l->is_synced)
        return true;
    if (l->summary.last_progress_usec > moved_usec)
        moved_usec = l->summary.last_progress_usec;
    return !nc_has_come(l->now_usec, nc_sum_usec(moved_usec, NC_LIFECYCLE_PATIENCE_USEC),
                        next_usec);
}

static bool is_time_over(const struct nc_lifecycle *l, uint64_t *next_usec) {
    return l->in_force.t_usec && nc_has_come(l->now_usec, l->in_force.t_usec, next_usec);
}

static bool are_volumes_off(const struct nc_lifecycle *l, uint64_t *next_usec) {
    if (l->orphaned_usec) /* where they are attached stood in the Node */
        return true;
    if (l->node.is_complete && l->node.n_volumes == 0 && l->complete_usec >= l->empty_usec)
        return true;
    return is_time_over(l, next_usec);
}

/* Since when is nothing bound here any more? 0 = it may be. Nothing is bound to no Node. */
static uint64_t shut_usec(const struct nc_lifecycle *l) {
    return l->is_cordon_done ? l->cordoned_usec : l->orphaned_usec;
}

bool nc_lifecycle_is_cordon_lifted(const struct nc_lifecycle *l) {
    return l->is_cordon_done && l->node.is_complete && !l->node.is_unschedulable
           && l->complete_usec >= l->cordoned_usec;
}

bool nc_lifecycle_is_given_back(const struct nc_lifecycle *l) {
    return !l->in_force.t_usec && !l->orphaned_usec && l->in_force.leading >= 0
           && (nc_lifecycle_is_cordon_refused(l)
               || (nc_sources[l->in_force.leading].has_own_policy
                   && nc_lifecycle_is_cordon_lifted(l)));
}

bool nc_lifecycle_is_shut(const struct nc_lifecycle *l) {
    return l->orphaned_usec || (l->is_cordon_done && !nc_lifecycle_is_cordon_lifted(l));
}

static bool is_listed_since_shut(const struct nc_lifecycle *l) {
    return nc_lifecycle_is_shut(l) && l->synced_usec >= shut_usec(l);
}

bool nc_lifecycle_is_emptied(const struct nc_lifecycle *l, uint64_t *next_usec) {
    return l->is_synced && l->empty_usec && is_listed_since_shut(l)
           && (!l->absent_usec || l->opened_usec >= l->absent_usec)
           && nc_has_come(l->now_usec, nc_sum_usec(shut_usec(l), NC_LIFECYCLE_GRACE_USEC),
                          next_usec);
}

/* N11: no eligible pod is left; what else is waited for? */
static bool is_drained(const struct nc_lifecycle *l, uint64_t *next_usec) {
    const uint64_t lingered_usec = nc_sum_usec(shut_usec(l), l->rules.drain.linger_usec);

    if (l->phase == NC_LIFECYCLE_DRAINED)
        return is_listed_since_shut(l);
    return nc_lifecycle_is_emptied(l, next_usec)
           && (nc_has_come(l->now_usec, lingered_usec, next_usec) || is_time_over(l, next_usec))
           && are_volumes_off(l, next_usec) && nc_lifecycle_is_hook_over(l, NC_HOOK_POST_DRAIN);
}

/* The phase of before holds until the pods are listed again. */
static bool is_held(const struct nc_lifecycle *l) {
    return !l->is_synced && l->held_phase != NC_LIFECYCLE_IDLE;
}

static void update_pods(struct nc_lifecycle *l, uint64_t *next_usec) {
    const struct nc_drain_summary *s = &l->summary;

    l->has_taken_over = !is_observing(l, next_usec);
    if (is_held(l))
        return;
    if (!l->is_synced || s->gap != NC_LIST_COMPLETE || s->remaining > 0)
        l->empty_usec = 0;
    else if (!l->empty_usec)
        l->empty_usec = l->now_usec;
}

static enum nc_lifecycle_phase pod_phase(const struct nc_lifecycle *l, uint64_t *next_usec) {
    if (is_held(l))
        return l->held_phase;
    if (!l->empty_usec)
        return l->has_taken_over ? NC_LIFECYCLE_EVICTING : NC_LIFECYCLE_OBSERVING;
    return is_drained(l, next_usec) ? NC_LIFECYCLE_DRAINED : NC_LIFECYCLE_VOLUME_WAIT;
}

/* _NC_LIFECYCLE_PHASE_MAX: the pods decide. */
static enum nc_lifecycle_phase phase_before_pods(const struct nc_lifecycle *l,
                                                 uint64_t *next_usec) {
    if (l->in_force.policy < NC_POLICY_REPORT)
        return nc_lifecycle_wants_undo(l) || l->in_flight ? NC_LIFECYCLE_RELEASING
                                                          : NC_LIFECYCLE_IDLE;
    if (l->is_resuming && l->phase != NC_LIFECYCLE_IDLE && l->phase != NC_LIFECYCLE_RELEASING
        && (l->in_force.policy == NC_POLICY_DRAIN || !nc_lifecycle_has_pods(l->phase)))
        return l->phase; /* a drain that the configuration no longer allows is not resumed */
    if (l->orphaned_usec && l->in_force.policy == NC_POLICY_DRAIN)
        return _NC_LIFECYCLE_PHASE_MAX;
    if (!l->node.exists)
        return l->phase == NC_LIFECYCLE_DRAINED && l->in_force.policy == NC_POLICY_DRAIN
                   ? NC_LIFECYCLE_DRAINED
                   : NC_LIFECYCLE_SIGNALLING;
    if (l->in_force.policy == NC_POLICY_REPORT)
        return nc_lifecycle_is_signalled(l) ? NC_LIFECYCLE_REPORTED : NC_LIFECYCLE_SIGNALLING;
    if (l->in_force.policy == NC_POLICY_CORDON && l->is_cordon_done)
        return NC_LIFECYCLE_CORDONED;
    if (!nc_lifecycle_may_cordon(l, next_usec))
        return NC_LIFECYCLE_SIGNALLING;
    if (l->in_force.policy == NC_POLICY_CORDON)
        return NC_LIFECYCLE_CORDONING;
    return nc_lifecycle_has_open_pods(l) || l->is_cordon_done
                   || has_waited(l, NC_WRITE_CORDON, next_usec)
               ? _NC_LIFECYCLE_PHASE_MAX
               : NC_LIFECYCLE_CORDONING;
}

void nc_lifecycle_update_phase(struct nc_lifecycle *l, uint64_t *next_usec) {
    enum nc_lifecycle_phase phase = phase_before_pods(l, next_usec);

    if (phase == _NC_LIFECYCLE_PHASE_MAX) {
        update_pods(l, next_usec);
        phase = pod_phase(l, next_usec);
    }
    nc_lifecycle_enter(l, phase);
}

bool nc_lifecycle_is_failed(const struct nc_lifecycle *l, uint64_t *next_usec) {
    /* one that is incomplete is read again and again, and would put it off for ever */
    const bool is_listed = l->is_synced && l->summary.gap == NC_LIST_COMPLETE;
    const uint64_t known_usec = is_listed ? l->synced_usec : l->raised_usec;
    uint64_t from_usec = l->in_force.t_usec > known_usec ? l->in_force.t_usec : known_usec;

    /* who was asked late, and is to end in time nevertheless, is waited for */
    if (l->summary.ends_usec > from_usec && l->summary.ends_usec <= l->in_force.late_usec)
        from_usec = l->summary.ends_usec;

    if (l->in_force.policy != NC_POLICY_DRAIN || !nc_lifecycle_has_machine(l) || l->is_resuming
        || l->phase == NC_LIFECYCLE_DRAINED
        || (l->phase == NC_LIFECYCLE_VOLUME_WAIT && nc_lifecycle_is_shut(l)))
        return false;
    if (l->phase == NC_LIFECYCLE_VOLUME_WAIT && is_listed) /* no pod may rightly end later */
        return is_time_over(l, next_usec);
    if (!l->in_force.t_usec) /* a request that has failed goes on so, without its deadline */
        return l->is_failed && l->sources[l->in_force.leading].is_late;
    return nc_has_come(
        l->now_usec,
        nc_sum_usec(from_usec, is_listed ? NC_LIFECYCLE_LATE_USEC : FAILED_UNLISTED_USEC),
        next_usec);
}

/* A shutdown that requests no drain waits for its writes, but not for long. */
static bool has_waited_for_shutdown(const struct nc_lifecycle *l, unsigned writes,
                                    uint64_t *next_usec) {
    const uint64_t noticed_usec = l->sources[NC_SOURCE_SHUTDOWN].noticed_usec;
    const uint64_t last_usec = nc_lifecycle_force_delete_at(l, NC_SOURCE_SHUTDOWN);

    return (last_usec && nc_has_come(l->now_usec, last_usec, next_usec))
           || nc_has_come(l->now_usec,
                          nc_sum_usec(noticed_usec, writes * NC_LIFECYCLE_WRITE_PATIENCE_USEC),
                          next_usec);
}

/* Has nothing more to be done for a shutdown than what was done? */
static bool is_shutdown_served(const struct nc_lifecycle *l, uint64_t *next_usec) {
    switch (l->sources[NC_SOURCE_SHUTDOWN].policy) {
    case NC_POLICY_IGNORE:
        return true;
    case NC_POLICY_REPORT:
        return nc_lifecycle_is_signalled(l) || has_waited_for_shutdown(l, 1, next_usec);
    case NC_POLICY_CORDON:
        return l->is_cordon_done || has_waited_for_shutdown(l, 2, next_usec);
    case NC_POLICY_DRAIN:
        break;
    }
    return l->phase == NC_LIFECYCLE_DRAINED
           && (l->orphaned_usec || l->is_drained_done || l->node.is_drained_true
               || nc_has_come(l->now_usec,
                              nc_sum_usec(l->drained_usec, NC_LIFECYCLE_WRITE_PATIENCE_USEC),
                              next_usec));
}

void nc_lifecycle_release_inhibitor(struct nc_lifecycle *l, uint64_t *next_usec,
                                    struct nc_lifecycle_actions *out) {
    const bool is_draining = nc_lifecycle_has_machine(l) && l->in_force.policy == NC_POLICY_DRAIN;
    const bool is_node_gone = l->is_node_seen && !l->node.exists && !is_draining;

    if (!l->sources[NC_SOURCE_SHUTDOWN].is_active || l->has_released)
        return;
    if (!is_node_gone && !is_shutdown_served(l, next_usec) && !is_time_over(l, next_usec))
        return;
    l->has_released = true;
    (void)nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR);
}
