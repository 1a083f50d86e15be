/*
 * How a write of our own Node ended: what is known by it, when it is tried again, what is said.
 */
#include "lifecycle-priv.h"
#include "nc/backoff.h"

#define RETRY_AFTER_MAX_USEC (10 * NC_SEC_USEC)

static const struct nc_backoff retries = {.first_usec = NC_SEC_USEC / 5,
                                          .max_usec = 2 * NC_SEC_USEC},
                               refusals = {.first_usec = NC_SEC_USEC, .max_usec = 10 * NC_SEC_USEC};

/* The Node is now as it was written, whether or not the answer brought it. */
static void apply(struct nc_lifecycle *l, const struct nc_node_write *w) {
    struct nc_node_view *n = &l->node;

    if (w->unschedulable >= 0)
        n->is_unschedulable = w->unschedulable;
    if (w->balancers_label == 1) { /* removed by somebody, it is not set for ever */
        l->is_label_lost = false;
        l->label_refused_usec = 0;
    }
    if (w->balancers_label >= 0)
        n->has_balancers_label = n->is_balancers_label_ours = w->balancers_label;
    if (w->sets_cordon)
        n->has_cordon_record = w->kind != NC_WRITE_RELEASE;
    if (w->sets_status)
        n->has_status = l->in_flight_status != NULL;
    if (w->pending.is_set)
        n->is_pending_true = w->pending.is_true;
    if (w->drained.is_set)
        n->is_drained_true = w->drained.is_true;
    n->known_true = (n->known_true & ~w->known_set) | w->known_true;
    n->known_ours = (n->known_ours & ~w->known_set) | w->known_true;
}

static void finish_cordon(struct nc_lifecycle *l) {
    if (l->in_force.policy < NC_POLICY_CORDON)
        return;
    l->is_cordon_done = true;
    l->is_cordoned_to_drain = l->in_force.policy == NC_POLICY_DRAIN;
    l->cordoned_usec = l->now_usec;
    l->is_foreign = !l->in_flight_parts.sets_cordon;
    l->has_cordoned |= !l->is_foreign;
    l->was_lifted = false;
}

/* Again until it stands: a node that takes pods is not drained. */
static void retry_cordon(struct nc_lifecycle *l, struct nc_lifecycle_try *t) {
    t->next_usec =
        nc_sum_usec(l->now_usec, nc_backoff_pause(&refusals, t->attempts, l->rules.seed));
    l->label_refused_usec = 0; /* it was not the label */
}

/* A cordon of somebody else's helps where ours is refused alone: what else is asked of an API
 * server that fails waits as well. */
static void report_uncordoned(struct nc_lifecycle *l, enum nc_node_write_kind kind, const char *why,
                              bool is_failing, struct nc_lifecycle_actions *out) {
    l->is_cordon_failing = is_failing;
    if (kind == NC_WRITE_CORDON) {
        l->is_cordon_done &= !l->is_foreign; /* somebody else's was lifted */
        l->tries[kind].is_refused = true;
        if (l->node.is_unschedulable)
            return;
    }
    nc_lifecycle_emit_once(
        l, NC_LIFECYCLE_MILESTONE_UNCORDONED,
        nc_asprintf("The API server refuses the %s: the node takes new "
                    "pods; it is tried again%s%s; %s",
                    kind == NC_WRITE_CORDON ? "cordon" : "drain status",
                    l->in_force.t_usec ? "" : ", and evictions wait for it",
                    l->in_force.t_usec || is_failing ? "" : ": kubectl cordon NODE lets them go on",
                    why),
        out);
}

/* Nothing of the notice is on the Node. Where the API server is unavailable that is said of it. */
static void report_failing(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                           enum nc_node_write_kind kind, struct nc_lifecycle_actions *out) {
    const uint64_t since_usec = l->tries[kind].wanted_usec;

    if (e->message && since_usec && l->in_force.policy >= NC_POLICY_CORDON
        && (kind == NC_WRITE_SIGNAL || kind == NC_WRITE_CORDON)
        && e->now_usec >= nc_sum_usec(since_usec, NC_LIFECYCLE_WRITE_PATIENCE_USEC))
        report_uncordoned(l, kind, e->message, true, out);
}

static void announce_written(struct nc_lifecycle *l, const struct nc_node_write *w, bool is_again,
                             struct nc_lifecycle_actions *out) {
    if (is_again)
        nc_lifecycle_emit(
            NC_LIFECYCLE_MILESTONE_RECORDONED, "NodeCordoned",
            nc_strdup("The cordon was lifted while the node has a deadline: it was set once "
                      "more; lifted again it stays lifted"),
            out);
    else if (w->kind == NC_WRITE_CORDON && !l->has_announced[NC_LIFECYCLE_MILESTONE_CORDONED])
        nc_lifecycle_report_cordoned(l, w->sets_cordon, out);
    if (w->kind != NC_WRITE_RELEASE || !w->sets_cordon)
        return;
    if (w->unschedulable < 0)
        l->has_cordoned = l->was_foreign = true;
    else
        nc_lifecycle_emit(NC_LIFECYCLE_MILESTONE_RELEASED, "NodeReleased",
                          nc_strdup(l->is_uncordoning
                                        ? "Node uncordoned: the cordon was set by nodeclaimd"
                                        : "Node released: somebody else had lifted the cordon"),
                          out);
}

/* Written, or refused for good: what waits for it may go on. */
static void finish_write(struct nc_lifecycle *l, bool is_done, struct nc_lifecycle_actions *out) {
    const struct nc_node_write *w = &l->in_flight_parts;
    const bool is_again = w->kind == NC_WRITE_CORDON && l->is_cordon_done && !l->is_foreign;

    if (w->kind == NC_WRITE_SIGNAL) {
        l->signalled = l->in_flight_signal;
        l->signalled.refused_usec = is_done ? 0 : l->now_usec;
    }
    if (w->kind == NC_WRITE_CORDON || w->kind == NC_WRITE_RELEASE)
        l->is_release_lost = false;
    if (w->kind == NC_WRITE_CORDON)
        finish_cordon(l);
    if (is_again)
        l->has_announced[NC_LIFECYCLE_MILESTONE_RECORDONED] = true;
    if (w->kind == NC_WRITE_DRAINED)
        l->is_drained_done = l->phase == NC_LIFECYCLE_DRAINED;
    /* Who may not write conditions may write the annotation: it is progress then. And who may not
     * write the Node may write its status. */
    if (w->sets_status
        && (is_done
            || (l->is_main_refused ? w->kind == NC_WRITE_UNDRAINED
                                   : !nc_node_write_is_of_status(w->kind)))) {
        free(l->status);
        l->status = nc_steal(&l->in_flight_status);
        l->said_usec = is_done && l->status ? l->now_usec : 0;
    }
    if (is_done)
        announce_written(l, w, is_again, out);
}

static uint64_t pause_of(const struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                         const struct nc_lifecycle_try *t) {
    const uint64_t asked_usec =
        e->retry_after_usec < RETRY_AFTER_MAX_USEC ? e->retry_after_usec : RETRY_AFTER_MAX_USEC;
    const uint64_t own_usec = nc_backoff_pause(&retries, t->attempts, l->rules.seed);

    return asked_usec > own_usec ? asked_usec : own_usec;
}

void nc_lifecycle_written(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                          struct nc_lifecycle_actions *out) {
    const enum nc_node_write_kind kind = l->in_flight;
    struct nc_lifecycle_try *t = &l->tries[kind];

    if (!kind)
        return;
    l->in_flight = NC_WRITE_NONE;
    if (l->is_in_flight_void)
        return;
    if (kind == NC_WRITE_RELEASE && e->outcome == NC_WRITE_REFUSED && !t->is_refused)
        nc_lifecycle_emit(
            NC_LIFECYCLE_MILESTONE_UNCORDONED, "ReleaseRefused",
            nc_asprintf("Nothing ends this node any more, but the API server refuses to %s: it is "
                        "tried again each minute; %s",
                        l->in_flight_parts.unschedulable ? "take the rest back" : "lift the cordon",
                        e->message),
            out);
    t->is_refused = e->outcome == NC_WRITE_REFUSED;
    t->attempts = e->outcome == NC_WRITTEN ? 0 : t->attempts + 1;
    if (e->outcome == NC_WRITE_UNAVAILABLE) {
        l->is_release_lost |= kind == NC_WRITE_RELEASE;
        t->next_usec = nc_sum_usec(e->now_usec, pause_of(l, e, t));
        report_failing(l, e, kind, out);
        return;
    }
    /* What freezes labels refuses what else is written with them: then that alone. */
    if (e->outcome == NC_WRITE_REFUSED && l->in_flight_parts.balancers_label == 1) {
        l->label_refused_usec = e->now_usec;
        l->is_label_lost = false;
        t->attempts--; /* that and this are one */
        return;
    }
    if (e->outcome == NC_WRITE_REFUSED && kind == NC_WRITE_CORDON) {
        retry_cordon(l, t);
        report_uncordoned(l, kind, e->message, false, out);
        return;
    }
    if (kind == NC_WRITE_PROGRESS
        || (e->outcome == NC_WRITTEN && !nc_node_write_is_of_status(kind)))
        l->is_main_refused = t->is_refused;
    if (e->outcome == NC_WRITE_REFUSED)
        t->next_usec = nc_sum_usec(e->now_usec, NC_LIFECYCLE_REFUSED_USEC);
    else
        apply(l, &l->in_flight_parts);
    finish_write(l, e->outcome == NC_WRITTEN, out);
    /* Refused or not, what they would say next is another thing, and goes out at once. */
    if (kind == NC_WRITE_SIGNAL || kind == NC_WRITE_CORDON || kind == NC_WRITE_DRAINED
        || kind == NC_WRITE_PROGRESS)
        *t = (struct nc_lifecycle_try){0};
}
