/*
 * The judge of Node writes: what may be written when, and whose cordon and label it is.
 *
 * Knows the Node as the daemon was shown it. Must not ask the lifecycle for its phase.
 */
#include "rules.h"

#include <stdio.h>

#define GRACE_USEC (5 * SEC)

/* The annotation without the moment at which it was written. */
static void without_time(const char *text, char *ret, size_t room) {
    const char *at = text ? strstr(text, "\"updated\"") : NULL;

    snprintf(ret, room, "%.*s", at ? (int)(at - text) : (int)room - 1, text ? text : "");
}

static void judge_cordon(struct rules *r, const struct nc_node_write *w, uint64_t now_usec) {
    bool claims = w->sets_cordon && w->cordon;

    if (r->in_force < NC_POLICY_CORDON)
        rules_break(r, "policy", "a cordon is written and nothing asks for it");
    if (w->balancers_label == 1 && r->in_force != NC_POLICY_DRAIN)
        rules_break(r, "policy", "load balancers are told to leave out a node that is cordoned");
    if (!r->memory.is_signalled && !r->has_waited)
        rules_break(r, "signal-first", "the cordon is written before the signal");
    if (claims && r->node.is_unschedulable && r->has_whole && !r->node.has_cordon_record)
        rules_break(r, "foreign-cordon", "a cordon of somebody else is claimed");
    if (w->unschedulable == 1 && !claims && !r->node.has_cordon_record
        && !(r->has_whole && r->node.is_unschedulable))
        rules_break(r, "unrecorded", "a cordon is made and not recorded");
    if (w->balancers_label == 1 && r->node.has_balancers_label && !r->node.is_balancers_label_ours)
        rules_break(r, "foreign-label", "a load balancer label of somebody else is overwritten");
    if (!r->memory.is_cordoned)
        r->cordon_sent_usec = now_usec;
}

static void judge_release(struct rules *r, const struct nc_node_write *w) {
    if (w->unschedulable == 0 && !r->node.has_cordon_record)
        rules_break(r, "foreign-cordon", "a cordon is lifted that is not ours");
    if (w->unschedulable == 0
        && (r->node.is_deleting || (r->has_whole && r->node.has_disrupted_taint)))
        rules_break(r, "held-cordon", "a Node that goes is uncordoned");
    if (w->balancers_label == 0 && !r->node.is_balancers_label_ours)
        rules_break(r, "foreign-label", "a load balancer label is removed that is not ours");
    if (!(w->sets_status && r->node.has_status) && w->unschedulable != 0 && w->balancers_label != 0
        && !(w->sets_cordon && r->node.has_cordon_record))
        rules_break(r, "idle-write", "there is nothing to release");
}

/* A cordon is undone where nothing requests one any more; all else where nothing is announced. */
static void judge_undoing(struct rules *r, const struct nc_node_write *w) {
    const bool is_label_alone = w->unschedulable < 0 && !w->sets_cordon && w->balancers_label == 0;

    if ((r->in_force >= NC_POLICY_CORDON && !is_label_alone) || r->in_force == NC_POLICY_DRAIN
        || (r->in_force >= NC_POLICY_REPORT
            && (w->kind == NC_WRITE_CLEAR_CONDITIONS || (w->sets_status && !w->drain_status))))
        rules_break(r, "undone-active", "what is ours is undone while something is announced");
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (s != NC_SOURCE_OPERATOR && !r->is_observed[s])
            rules_break(r, "undone-unheard", "%s was not heard yet",
                        nc_source_name((enum nc_source)s));
}

static void judge_drained(struct rules *r, uint64_t now_usec) {
    if (r->in_force != NC_POLICY_DRAIN)
        rules_break(r, "policy", "Drained is written and nothing asks for a drain");
    for (unsigned i = 0; i < MODEL_MAX_PODS; i++)
        if (r->pods[i].is_known && !r->pods[i].is_gone
            && rules_is_eligible(r, &r->pods[i], now_usec))
            rules_break(r, "drained-early", "pod %u is still there", i);
    if (!r->is_synced)
        rules_break(r, "drained-early", "the pods were not listed");
    if (r->has_node && !r->memory.is_cordoned)
        rules_break(r, "drained-early", "the cordon does not stand");
    rules_judge_drained_hook(r, now_usec);
    if (r->cordon_sent_usec && now_usec < r->cordon_sent_usec + GRACE_USEC)
        rules_break(r, "drained-early", "the cordon is younger than the time to settle");
    if (r->cordon_sent_usec && r->synced_usec < r->cordon_sent_usec)
        rules_break(r, "drained-early", "the pods were not listed after the cordon");
    if (!r->is_reloaded && r->cordon_sent_usec && r->node.is_balancers_label_ours
        && r->config.drain.linger_usec
        && now_usec < r->cordon_sent_usec + r->config.drain.linger_usec && !r->is_past_t)
        rules_break(r, "drained-early", "the linger is not over");
    if (r->has_whole && r->node.n_volumes && now_usec > r->detached_usec + 30 * SEC
        && now_usec > r->drained_try_usec + 30 * SEC && !r->is_past_t && !r->memory.was_drained)
        rules_break(r, "drained-early", "%zu volumes are attached", r->node.n_volumes);
    r->drained_try_usec = now_usec;
}

static void judge_progress(struct rules *r, const struct nc_node_write *w, uint64_t now_usec) {
    if (r->in_force < NC_POLICY_REPORT)
        rules_break(r, "idle-write", "progress is written and nothing is announced");
    if (r->progress_usec && now_usec < r->progress_usec + SEC)
        rules_break(r, "progress-rate", "progress is written twice in a second");
    /* what somebody took away is written again, and what a drain says that goes on, or forces */
    if (r->status_text[0] && !strcmp(r->status_text, r->pending_text) && r->node.has_status
        && (r->node.has_cordon_record || !r->memory.is_cordoned)
        && (w->balancers_label != 1 || r->node.has_balancers_label)
        && (now_usec < r->said_usec + 60 * SEC || r->in_force < NC_POLICY_DRAIN)
        && !rules_has_force_time(r, r->said_sent_usec, now_usec))
        rules_break(r, "progress-same", "progress is written and nothing has changed");
    r->progress_usec = now_usec;
}

static void judge_kind(struct rules *r, const struct nc_node_write *w, uint64_t now_usec) {
    switch (w->kind) {
    case NC_WRITE_SIGNAL:
        if (r->in_force < NC_POLICY_REPORT)
            rules_break(r, "idle-write", "a signal is written and nothing is announced");
        return;
    case NC_WRITE_CORDON:
        judge_cordon(r, w, now_usec);
        return;
    case NC_WRITE_PROGRESS:
        judge_progress(r, w, now_usec);
        return;
    case NC_WRITE_DRAINED:
        judge_drained(r, now_usec);
        return;
    case NC_WRITE_UNDRAINED:
        if (r->node.is_drained_true || w->known_set & ~w->known_true)
            return;
        if (!r->is_progress_refused)
            rules_break(r, "idle-write", "no condition is taken back");
        judge_progress(r, w, now_usec);
        return;
    case NC_WRITE_RELEASE:
        judge_undoing(r, w);
        judge_release(r, w);
        return;
    case NC_WRITE_CLEAR_CONDITIONS:
        judge_undoing(r, w);
        if (!r->node.is_pending_true && !r->node.is_drained_true)
            rules_break(r, "idle-write", "no condition is True");
        return;
    case NC_WRITE_NONE:
    case _NC_WRITE_MAX:
        rules_break(r, "no-write", "a write without a kind");
    }
}

/* The source that leads: the most severe of those that request what is in force. */
static void judge_leader(struct rules *r, const struct nc_node_write *w, uint64_t now_usec) {
    char want[48] = "";
    const char *remaining;

    if (!w->sets_status || !w->drain_status || r->in_force < NC_POLICY_REPORT)
        return;
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (rules_policy(r, (enum nc_source)s, now_usec) == r->in_force)
            snprintf(want, sizeof(want), "\"source\":\"%.32s\"", nc_source_name((enum nc_source)s));
    if (!strstr(w->drain_status, want))
        rules_break(r, "leader", "not %s but %.120s", want, w->drain_status);
    remaining = strstr(w->drain_status, "\"remaining\":");
    if (r->is_synced && !r->is_crowded && remaining && remaining[12] != 'n'
        && strtoul(remaining + 12, NULL, 10) != rules_remaining(r, now_usec))
        rules_break(r, "status-count", "%zu pods remain, not %.20s", rules_remaining(r, now_usec),
                    remaining);
    if (strlen(w->drain_status) > 1024)
        rules_break(r, "status-size", "drain-status has %zu bytes", strlen(w->drain_status));
}

void rules_judge_write(struct rules *r, const struct nc_node_write *w, uint64_t now_usec) {
    if (r->write != NC_WRITE_NONE)
        rules_break(r, "one-write", "a write is still under way");
    if (!r->has_node)
        rules_break(r, "no-node", "the Node is written and was not seen");
    if (w->unschedulable == 0 && w->kind != NC_WRITE_RELEASE)
        rules_break(r, "foreign-cordon", "a write that is no release lifts the cordon");
    without_time(w->sets_status ? w->drain_status : NULL, r->pending_text, sizeof(r->pending_text));
    r->pending_usec = now_usec;
    judge_kind(r, w, now_usec);
    judge_leader(r, w, now_usec);
    r->write = w->kind;
    r->write_usec = now_usec;
}
