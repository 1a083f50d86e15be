/*
 * The API server: what requests find and change, what they are answered, what watches show.
 *
 * Evictions ask the budgets; a deletion follows the server's own arithmetic: of a pod that is
 * terminating the grace counts from the first request, may only get shorter, and an end that would
 * be over already is now.
 */
#include "world.h"

uint64_t world_latency(struct world *w) {
    uint64_t usec = w->latency_usec / 2 + world_random(w, w->latency_usec);

    return world_chance(w, 3) ? usec + world_random(w, 2 * SEC) : usec;
}

uint64_t world_unavailable_until(const struct world *w, uint64_t at_usec) {
    for (unsigned i = 0; i < w->n_outages; i++)
        if (at_usec >= w->outages[i].from_usec && at_usec < w->outages[i].to_usec)
            return w->outages[i].to_usec;
    return 0;
}

static uint64_t reachable_from(struct world *w, uint64_t at_usec) {
    uint64_t until;

    while ((until = world_unavailable_until(w, at_usec)) != 0)
        at_usec = until + world_random(w, SEC);
    return at_usec;
}

/* A watch keeps the order; what it shows while it is unavailable comes later. */
static uint64_t stream(struct world *w, uint64_t *last_usec) {
    uint64_t at = reachable_from(w, w->now_usec + world_latency(w));

    *last_usec = at > *last_usec ? at : *last_usec;
    return *last_usec;
}

/* --- our Node ----------------------------------------------------------------------------------
 */

void world_node_view(const struct world *w, struct nc_node_view *ret) {
    const struct world_node *n = &w->node;

    *ret = (struct nc_node_view){.exists = n->exists,
                                 .is_complete = true,
                                 .is_deleting = n->is_deleting,
                                 .has_cordon_record = n->has_record,
                                 .has_status = n->has_status,
                                 .has_balancers_label = n->label != LABEL_NONE,
                                 .is_balancers_label_ours = n->label == LABEL_OURS,
                                 .is_unschedulable = n->is_unschedulable,
                                 .has_disrupted_taint = n->has_taint,
                                 .is_pending_true = n->is_pending,
                                 .is_drained_true = n->is_drained,
                                 .n_volumes = n->n_volumes};
    snprintf(ret->uid, sizeof(ret->uid), "node-%u", n->uid);
}

void world_node_changed(struct world *w) {
    struct nc_node_view *v;
    struct thing_due *due;

    w->node.version++;
    if (!w->life)
        return;
    due = world_plan(w, stream(w, &w->node_stream_usec), THING_NODE_SEEN, w->node.version, 0);
    due->life = w->life_number;
    due->data = v = nc_malloc(sizeof(*v));
    world_node_view(w, v);
}

static bool is_foreign_cordon(const struct world_node *n) {
    return n->is_unschedulable && !n->has_record;
}

/* Two truths that only the server knows: whose cordon it was when the patch came. */
static void judge_patch(struct world *w, const struct request *q) {
    const struct world_node *n = &w->node;

    if (q->write.unschedulable == 0 && is_foreign_cordon(n)
        && n->foreign_usec + 5 * SEC < q->sent_usec)
        rules_break(&w->rules, "foreign-cordon", "somebody else's cordon is lifted");
    if (q->has_record_text && is_foreign_cordon(n)
        && n->foreign_usec + 5 * SEC < w->rules.active_usec && w->rules.has_whole)
        rules_break(&w->rules, "foreign-cordon", "somebody else's cordon becomes ours");
}

static void patch_node(struct world *w, struct request *q) {
    struct world_node *n = &w->node;
    const struct nc_node_write *p = &q->write;
    bool is_status = p->kind == NC_WRITE_SIGNAL || p->kind == NC_WRITE_DRAINED
                     || p->kind == NC_WRITE_UNDRAINED || p->kind == NC_WRITE_CLEAR_CONDITIONS;

    q->outcome = NC_WRITE_REFUSED;
    if (!n->exists || (is_status ? w->refuses_status : w->refuses_patch))
        return;
    q->outcome = NC_WRITTEN;
    judge_patch(w, q);
    if (p->sets_status)
        n->has_status = q->has_status_text;
    if (p->sets_cordon)
        n->has_record = q->has_record_text;
    if (p->unschedulable >= 0)
        n->is_unschedulable = p->unschedulable;
    if (p->balancers_label >= 0)
        n->label = p->balancers_label ? LABEL_OURS : LABEL_NONE;
    if (p->pending.is_set)
        n->is_pending = p->pending.is_true;
    if (p->drained.is_set)
        n->is_drained = p->drained.is_true;
    world_node_changed(w);
}

/* --- pods --------------------------------------------------------------------------------------
 */

void world_pod_changed(struct world *w, unsigned pod) {
    struct thing_due *due;

    w->changed_usec = w->now_usec;
    if (!w->life || !w->is_listed)
        return;
    due = world_plan(w, stream(w, &w->pod_stream_usec), THING_POD_SEEN, pod, w->watch_number);
    due->life = w->life_number;
    if (!w->pods[pod].exists)
        return;
    due->data = nc_malloc(sizeof(w->pods[pod]));
    memcpy(due->data, &w->pods[pod], sizeof(w->pods[pod]));
}

void world_list(struct world *w) {
    struct thing_due *due;

    w->is_listed = true;
    for (unsigned i = 0; i < w->n_pods; i++)
        if (w->pods[i].exists)
            world_pod_changed(w, i);
    due = world_plan(w, stream(w, &w->pod_stream_usec), THING_SYNCED, 0, w->watch_number);
    due->life = w->life_number;
}

bool world_is_left(const struct world *w, const struct world_pod *p, bool leaves_tolerating) {
    if (!p->exists || p->is_terminal || p->is_mirror
        || (!p->order && p->tolerates && (p->is_daemon || leaves_tolerating))
        || (!p->order && p->is_daemon && !w->node.has_taint))
        return false;
    return !p->deletion_usec || w->now_usec <= p->deletion_usec + 60 * SEC;
}

void world_remove_pod(struct world *w, unsigned pod) {
    struct world_pod *p = &w->pods[pod];

    world_log(w, "pod %u is gone", pod);
    p->exists = false;
    p->gone_usec = w->now_usec;
    p->generation++;
    world_pod_changed(w, pod);
    if (p->has_volume)
        world_plan(w, w->now_usec + world_random(w, 20 * SEC), THING_DETACHED, 0, 0);
    if (p->is_daemon)
        world_plan(w, w->now_usec + world_random(w, 3 * SEC), THING_BIND, 1, 0);
    for (unsigned b = 0; b < w->n_budgets; b++)
        if (p->budgets & (1u << b) && p->deletion_usec)
            world_plan(w, w->now_usec + world_random(w, 30 * SEC), THING_BUDGET, b, 0);
}

static void plan_end(struct world *w, unsigned pod) {
    struct world_pod *p = &w->pods[pod];
    uint64_t left = p->deletion_usec > w->now_usec ? p->deletion_usec - w->now_usec : 0;

    p->generation++;
    if (w->is_paired) {
        p->was_killed = p->began_usec + p->needs_usec > p->deletion_usec;
        world_plan(w, p->was_killed ? p->deletion_usec : p->began_usec + p->needs_usec,
                   THING_POD_ENDS, pod, p->generation);
        return;
    }
    if (p->ends == ENDS_NEVER)
        return;
    left = p->ends == ENDS_EARLY && left ? world_random(w, left < 8 * SEC ? left : 8 * SEC)
                                         : left + world_random(w, SEC);
    world_plan(w, w->now_usec + left, THING_POD_ENDS, pod, p->generation);
}

static void delete_pod(struct world *w, unsigned pod, uint64_t grace_sec) {
    struct world_pod *p = &w->pods[pod];

    if (p->is_terminal || !grace_sec) {
        p->deletion_usec = w->now_usec;
        world_remove_pod(w, pod);
        return;
    }
    p->began_usec = w->now_usec;
    p->deletion_grace_sec = grace_sec;
    p->deletion_usec = w->now_usec + grace_sec * SEC;
    p->deletion_usec -= p->deletion_usec % SEC;
    world_pod_changed(w, pod);
    plan_end(w, pod);
}

static void shorten_pod(struct world *w, const struct request *q) {
    struct world_pod *p = &w->pods[q->pod];
    uint64_t before = p->deletion_usec;

    if (q->grace_sec >= p->deletion_grace_sec)
        return;
    p->deletion_usec = p->deletion_usec - (p->deletion_grace_sec - q->grace_sec) * SEC;
    p->deletion_grace_sec = q->grace_sec;
    if (p->deletion_usec < w->now_usec) {
        p->deletion_usec = w->now_usec - w->now_usec % SEC;
        p->deletion_grace_sec = 1;
    }
    if (q->is_informed)
        rules_shortened(&w->rules, q->pod, q->t_usec, before, p->deletion_usec, w->now_usec);
    world_pod_changed(w, q->pod);
    plan_end(w, q->pod);
}

enum nc_pod_answer_kind world_evict(struct world *w, unsigned pod, uint64_t grace_sec) {
    struct world_pod *p = &w->pods[pod];
    struct world_budget *budget = NULL;

    if (!p->exists)
        return NC_ANSWER_GONE;
    if (p->deletion_usec)
        return NC_ANSWER_ACCEPTED;
    if (p->has_dead_webhook)
        return NC_ANSWER_FAILED;
    if (p->is_namespace_going)
        return NC_ANSWER_NAMESPACE;
    if (p->budgets & (p->budgets - 1))
        return NC_ANSWER_BUDGETS;
    for (unsigned b = 0; b < w->n_budgets; b++)
        if (p->budgets & (1u << b))
            budget = &w->budgets[b];
    if (budget && (budget->is_never || budget->allowed <= 0))
        return NC_ANSWER_BUDGET;
    if (budget)
        budget->allowed--;
    delete_pod(w, pod, grace_sec ? grace_sec : p->grace_sec);
    return NC_ANSWER_ACCEPTED;
}

static enum nc_pod_answer_kind ask_pod(struct world *w, const struct request *q) {
    struct world_pod *p = &w->pods[q->pod];

    if (!p->exists)
        return NC_ANSWER_GONE;
    if (world_chance(w, w->busy_percent))
        return NC_ANSWER_BUSY;
    switch (q->verb) {
    case NC_DRAIN_EVICT:
        return w->refuses_evictions ? NC_ANSWER_REFUSED : world_evict(w, q->pod, q->grace_sec);
    case NC_DRAIN_MARK:
        return w->refuses_marks ? NC_ANSWER_REFUSED : NC_ANSWER_ACCEPTED;
    case NC_DRAIN_DELETE:
        if (p->deletion_usec)
            shorten_pod(w, q);
        else
            delete_pod(w, q->pod, q->grace_sec);
        return NC_ANSWER_ACCEPTED;
    }
    return NC_ANSWER_UNAVAILABLE;
}

/* --- requests ----------------------------------------------------------------------------------
 */

static void answer_pod(struct world *w, struct request *q) {
    q->answer.kind = ask_pod(w, q);
    if (q->answer.kind == NC_ANSWER_BUDGET)
        snprintf(q->answer.budget, sizeof(q->answer.budget), "budget-%u", w->pods[q->pod].budgets);
    if (q->answer.kind == NC_ANSWER_BUSY && world_chance(w, 50))
        q->answer.retry_after_usec = world_between(w, 1, 20) * SEC;
    snprintf(q->answer.message, sizeof(q->answer.message), "%s",
             nc_pod_answer_name(q->answer.kind));
}

static void fail(struct request *q) {
    q->answer = (struct nc_pod_answer){.kind = NC_ANSWER_UNAVAILABLE};
    q->outcome = NC_WRITE_UNAVAILABLE;
    q->has_view = false;
}

/* An informer that lags behind: the server says 404 of a pod that is there. The watch shows the
 * pod again after a while. */
static bool misses(struct world *w, const struct request *q) {
    struct thing_due *due;

    if (q->kind != REQUEST_POD || !w->pods[q->pod].exists || w->now_usec + 60 * SEC > w->end_usec
        || !world_chance(w, w->missing_percent))
        return false;
    due = world_plan(w, q->sent_usec + q->timeout_usec + world_between(w, SEC, 4 * SEC),
                     THING_POD_SEEN, q->pod, WORLD_CAUGHT_UP);
    due->life = 0;
    return true;
}

static void serve(struct world *w, struct request *q) {
    if (q->kind == REQUEST_WRITE)
        patch_node(w, q);
    else if (q->kind == REQUEST_POD)
        answer_pod(w, q);
    q->has_view = w->node.exists && (q->kind == REQUEST_REFRESH || q->outcome == NC_WRITTEN);
    world_node_view(w, &q->view);
    q->version = w->node.version;
}

void world_arrive(struct world *w, struct thing_due *due) {
    struct request *q = due->data;
    uint64_t deadline = q->sent_usec + q->timeout_usec;
    uint64_t at = w->now_usec + world_latency(w);
    uint64_t away = world_unavailable_until(w, w->now_usec);
    struct thing_due *answer;

    due->data = NULL;
    q->answer.kind = NC_ANSWER_UNAVAILABLE;
    q->outcome = NC_WRITE_UNAVAILABLE;
    if (world_chance(w, w->hold_percent))
        at += world_random(w, 10 * SEC);
    if (away) {
        at = world_chance(w, 50) ? at : deadline;
    } else if (world_chance(w, w->error_percent)) {
        q->retry_after_usec = world_chance(w, 20) ? SEC : 0;
    } else if (misses(w, q)) {
        q->answer.kind = NC_ANSWER_GONE;
    } else {
        serve(w, q);
        if (q->kind == REQUEST_POD && q->answer.kind == NC_ANSWER_FAILED)
            at += 10 * SEC; /* as long as the API server waits for a webhook */
        if (world_chance(w, w->lost_percent))
            at = deadline;
    }
    if (at >= deadline) {
        at = deadline;
        fail(q);
    }
    answer = world_plan(w, at, THING_ANSWERED, 0, 0);
    answer->life = due->life;
    answer->data = q;
}
