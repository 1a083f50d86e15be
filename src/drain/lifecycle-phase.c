/*
 * Which phase is it? Derived from what is in force, what was written and which pods are left.
 *
 * Must not change anything but the phase's own marks: since when the pods are gone, and whether a
 * drain that somebody else began was taken over.
 */
#include <string.h>

#include "lifecycle-priv.h"

/* A DELETE's grace is in whole seconds, rounded up, and never 0: a pod may rightly end so much
 * after T, or after it was first seen. Where the pods cannot be listed, nobody knows; it is
 * reported later. */
#define FAILED_USEC (2 * NC_LIFE_SECOND_USEC)
#define FAILED_UNLISTED_USEC (10 * NC_LIFE_SECOND_USEC)

struct nc_life_signal nc_life_wanted_signal(const struct nc_life *l) {
    struct nc_life_signal s = {
        .is_set = true, .source = l->force.leading, .deadline_usec = l->force.deadline_usec};

    if (l->force.leading >= 0)
        memcpy(s.id, l->sources[l->force.leading].notice.id, sizeof(s.id));
    return s;
}

bool nc_life_is_signalled(const struct nc_life *l) {
    const struct nc_life_signal s = nc_life_wanted_signal(l);

    return l->signalled.is_set && l->signalled.source == s.source
           && l->signalled.deadline_usec == s.deadline_usec && strcmp(l->signalled.id, s.id) == 0;
}

/* Under a deadline a write may hold up what follows for so long only. */
static bool has_waited(struct nc_life *l, enum nc_node_write_kind kind) {
    const uint64_t wanted_usec = l->tries[kind].wanted_usec;

    return l->force.t_usec && wanted_usec
           && nc_life_has_come(l, nc_life_later(wanted_usec, NC_LIFE_WRITE_PATIENCE_USEC));
}

/* Once the pods are watched, a signal that has to be written anew holds up nothing. */
bool nc_life_may_cordon(struct nc_life *l) {
    return l->is_open || nc_life_is_signalled(l) || has_waited(l, NC_WRITE_SIGNAL);
}

bool nc_life_may_drain(struct nc_life *l) {
    return nc_life_may_cordon(l)
           && (l->is_open || l->is_cordon_done || has_waited(l, NC_WRITE_CORDON));
}

/* auto: whoever deleted the Node drains it, as long as something moves. */
static bool is_observing(struct nc_life *l, const struct nc_drain_summary *s) {
    uint64_t moved_usec = l->sources[NC_SOURCE_DELETION].noticed_usec;

    if (l->rules.drain.mode != NC_DRAIN_AUTO || !l->force.is_only_deletion) {
        l->has_taken_over = true;
        return false;
    }
    if (l->has_taken_over)
        return false;
    if (!l->is_synced)
        return true;
    if (s->last_progress_usec > moved_usec)
        moved_usec = s->last_progress_usec;
    l->has_taken_over = nc_life_has_come(l, nc_life_later(moved_usec, NC_LIFE_PATIENCE_USEC));
    return !l->has_taken_over;
}

static bool is_time_over(struct nc_life *l) {
    return l->force.t_usec && nc_life_has_come(l, l->force.t_usec);
}

static bool are_volumes_off(struct nc_life *l) {
    if (l->orphaned_usec) /* where they are attached stood in the Node */
        return true;
    if (l->node.is_complete && l->node.n_volumes == 0 && l->complete_usec >= l->empty_usec)
        return true;
    return is_time_over(l);
}

/* No eligible pod is left: what else is waited for? */
static bool is_drained(struct nc_life *l) {
    const bool is_shut = l->is_cordon_done || l->orphaned_usec; /* nothing is bound to no Node */
    const uint64_t cordoned_usec = l->is_cordon_done ? l->cordoned_usec : l->orphaned_usec;

    if (!is_shut || l->synced_usec < cordoned_usec)
        return false;
    if (l->phase == NC_LIFE_DRAINED)
        return true;
    if (l->marked_absent_usec && l->opened_usec < l->marked_absent_usec)
        return false;
    l->is_emptied = nc_life_has_come(l, nc_life_later(cordoned_usec, NC_LIFE_GRACE_USEC));
    return l->is_emptied
           && (nc_life_has_come(l, nc_life_later(cordoned_usec, l->rules.drain.linger_usec))
               || is_time_over(l))
           && are_volumes_off(l) && nc_life_is_hook_over(l, NC_HOOK_POST_DRAIN);
}

static enum nc_life_phase pod_phase(struct nc_life *l) {
    struct nc_drain_summary s;

    nc_life_summarize(l, &s);
    const bool observes = is_observing(l, &s);
    if (!l->is_synced && l->held_phase != NC_LIFE_IDLE)
        return l->held_phase;
    if (!l->is_synced || s.gap != NC_LIST_COMPLETE || s.remaining > 0) {
        l->empty_usec = 0;
        return observes ? NC_LIFE_OBSERVING : NC_LIFE_EVICTING;
    }
    if (!l->empty_usec)
        l->empty_usec = l->now_usec;
    return is_drained(l) ? NC_LIFE_DRAINED : NC_LIFE_VOLUME_WAIT;
}

enum nc_life_phase nc_life_wanted_phase(struct nc_life *l) {
    l->is_emptied = false;
    if (l->force.policy < NC_POLICY_REPORT)
        return nc_life_wants_undo(l) || l->in_flight ? NC_LIFE_RELEASING : NC_LIFE_IDLE;
    if (l->is_resuming && l->phase != NC_LIFE_IDLE && l->phase != NC_LIFE_RELEASING)
        return l->phase;
    if (l->orphaned_usec && l->force.policy == NC_POLICY_DRAIN)
        return pod_phase(l);
    if (!l->node.exists)
        return l->phase == NC_LIFE_DRAINED && l->force.policy == NC_POLICY_DRAIN
                   ? NC_LIFE_DRAINED
                   : NC_LIFE_SIGNALLING;
    if (l->force.policy == NC_POLICY_REPORT)
        return nc_life_is_signalled(l) ? NC_LIFE_REPORTED : NC_LIFE_SIGNALLING;
    if (l->force.policy == NC_POLICY_CORDON && l->is_cordon_done)
        return NC_LIFE_CORDONED;
    if (!nc_life_may_cordon(l))
        return NC_LIFE_SIGNALLING;
    if (l->force.policy == NC_POLICY_CORDON)
        return NC_LIFE_CORDONING;
    return nc_life_may_drain(l) ? pod_phase(l) : NC_LIFE_CORDONING;
}

bool nc_life_is_failed(struct nc_life *l) {
    struct nc_drain_summary s;

    nc_life_summarize(l, &s);
    /* one that is incomplete is read again and again, and would put it off for ever */
    const bool is_listed = l->is_synced && s.gap == NC_LIST_COMPLETE;
    const uint64_t known_usec = is_listed ? l->synced_usec : l->raised_usec;
    const uint64_t from_usec = l->force.t_usec > known_usec ? l->force.t_usec : known_usec;

    if (l->force.policy != NC_POLICY_DRAIN || !nc_life_has_machine(l) || l->is_resuming
        || !l->force.t_usec || l->phase == NC_LIFE_DRAINED || l->phase == NC_LIFE_VOLUME_WAIT)
        return false;
    return nc_life_has_come(
        l, nc_life_later(from_usec, is_listed ? FAILED_USEC : FAILED_UNLISTED_USEC));
}

/* A shutdown that requests no drain waits for its writes, but not for long. */
static bool has_waited_for_shutdown(struct nc_life *l, unsigned writes) {
    const uint64_t noticed_usec = l->sources[NC_SOURCE_SHUTDOWN].noticed_usec;
    const uint64_t last_usec = nc_life_force_delete_at(l, NC_SOURCE_SHUTDOWN);

    return (last_usec && nc_life_has_come(l, last_usec))
           || nc_life_has_come(l,
                               nc_life_later(noticed_usec, writes * NC_LIFE_WRITE_PATIENCE_USEC));
}

/* Has nothing more to be done for a shutdown than what was done? */
static bool is_shutdown_served(struct nc_life *l) {
    switch (nc_life_policy(l, NC_SOURCE_SHUTDOWN)) {
    case NC_POLICY_IGNORE:
        return true;
    case NC_POLICY_REPORT:
        return nc_life_is_signalled(l) || has_waited_for_shutdown(l, 1);
    case NC_POLICY_CORDON:
        return l->is_cordon_done || has_waited_for_shutdown(l, 2);
    case NC_POLICY_DRAIN:
        break;
    }
    return l->phase == NC_LIFE_DRAINED
           && (l->orphaned_usec || l->is_drained_done || l->node.is_drained_true
               || nc_life_has_come(l, nc_life_later(l->drained_usec, NC_LIFE_WRITE_PATIENCE_USEC)));
}

void nc_life_release_inhibitor(struct nc_life *l, struct nc_life_actions *out) {
    const bool is_draining = nc_life_has_machine(l) && l->force.policy == NC_POLICY_DRAIN;
    const bool is_node_gone = l->is_node_seen && !l->node.exists && !is_draining;

    if (!l->sources[NC_SOURCE_SHUTDOWN].is_active || l->has_released)
        return;
    if (!is_node_gone && !is_shutdown_served(l)
        && !(l->force.t_usec && nc_life_has_come(l, l->force.t_usec)))
        return;
    l->has_released = true;
    (void)nc_life_add_action(out, NC_LIFE_ACTION_RELEASE_INHIBITOR);
}
