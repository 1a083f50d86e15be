/*
 * Everybody else: who announces, kubelet, controllers, the scheduler, people, Karpenter.
 *
 * They act on the world's truth; the daemon observes it by its watches and polls alone.
 */
#include "world.h"

/* When a machine goes that is told so now. */
static uint64_t random_deadline(struct world *w, enum nc_source s) {
    if (s == NC_SOURCE_SHUTDOWN)
        return world_between(w, 2, 180) * SEC;
    if (world_chance(w, 8))
        return 0; /* now, or over already */
    return world_between(w, 1, world_chance(w, 70) ? 130 : 300) * SEC;
}

static bool may_have_deadline(enum nc_source s) {
    return s != NC_SOURCE_REBALANCE && s != NC_SOURCE_AUTOSCALING;
}

static struct nc_notice random_notice(struct world *w, enum nc_source s, uint64_t at_usec) {
    struct nc_notice n = {.source = s, .policy = NC_POLICY_DRAIN};

    snprintf(n.id, sizeof(n.id), "%s-%u", nc_source_name(s), (unsigned)world_random(w, 100));
    snprintf(n.action, sizeof(n.action), "%s",
             s == NC_SOURCE_SPOT && world_chance(w, 10)          ? "hibernate"
             : s == NC_SOURCE_MAINTENANCE && world_chance(w, 20) ? "system-maintenance"
                                                                 : "terminate");
    if (s == NC_SOURCE_SPOT || s == NC_SOURCE_SHUTDOWN || s == NC_SOURCE_MAINTENANCE
        || (may_have_deadline(s) && world_chance(w, 40)))
        n.deadline_usec = at_usec + random_deadline(w, s);
    if (s == NC_SOURCE_SPOT && world_chance(w, 10))
        n.deadline_usec -= world_random(w, 30 * SEC);
    /* where not all pods are kept, nobody can tell which grace is the longest */
    if (s == NC_SOURCE_MAINTENANCE && !w->config.max_pods && world_chance(w, 60))
        n.begin_usec = at_usec + world_random(w, 60 * SEC);
    if (s == NC_SOURCE_REQUEST || s == NC_SOURCE_OPERATOR) {
        n.policy = world_chance(w, 75) ? NC_POLICY_DRAIN : NC_POLICY_CORDON;
        n.is_force_delete_time = n.deadline_usec && world_chance(w, 30);
    }
    return n;
}

static void begin_deletion(struct world *w) {
    if (!w->node.exists || w->node.is_deleting)
        return;
    w->node.is_deleting = true;
    if (!w->is_paired && world_chance(w, 40))
        w->claim_t_usec = w->now_usec + random_deadline(w, NC_SOURCE_DELETION);
    world_plan(w, w->now_usec + 10 * MSEC, THING_KARPENTER, 0, 0);
    world_node_changed(w);
}

/* What logind does in the end, whether it was released or not. */
static void plan_end_of_machine(struct world *w, uint64_t at_usec) {
    world_plan(w, at_usec + world_random(w, 2 * SEC), THING_KILL, 2, 0);
}

static void change_source(struct world *w, enum nc_source s, unsigned turn) {
    struct world_source *source = &w->sources[s];

    if (s == NC_SOURCE_DELETION) {
        begin_deletion(w);
        return;
    }
    if (turn == 2 && (!source->is_on || s == NC_SOURCE_SHUTDOWN))
        return;
    if (turn == 0 || !source->is_on || turn == 2) {
        source->is_on = turn != 0;
        if (source->is_on && !w->is_paired)
            source->notice = random_notice(w, s, w->now_usec);
    }
    world_log(w, "%s: %s, deadline %+.3f", nc_source_name(s),
              source->is_on ? source->notice.id : "nothing",
              source->notice.deadline_usec
                  ? (double)(int64_t)(source->notice.deadline_usec - w->now_usec) / 1e6
                  : 0.0);
    if (s == NC_SOURCE_SHUTDOWN && source->is_on)
        plan_end_of_machine(w, source->notice.deadline_usec);
    if (s == NC_SOURCE_SHUTDOWN) {
        rules_shutdown(&w->rules, source->is_on, w->now_usec);
        world_plan(w, w->now_usec + world_random(w, 5 * MSEC), THING_HINT, 0, 0);
        return;
    }
    if (s == NC_SOURCE_REQUEST)
        world_node_changed(w);
    else
        world_plan(w, w->now_usec + world_random(w, 2 * SEC), THING_POLL, s, 0);
}

/* Karpenter knows nothing of our order. */
static bool is_karpenters(const struct world *w, const struct world_pod *p) {
    return world_is_left(w, p, true) && !p->tolerates && (!p->is_daemon || w->node.has_taint);
}

static void bind_pod(struct world *w, bool is_daemon) {
    unsigned i;

    if (!w->node.exists || w->is_over)
        return;
    if (is_daemon && (w->node.has_taint || w->n_pods > MODEL_MAX_PODS - 8))
        return;
    /* the scheduler has not observed a fresh cordon yet, now and then */
    if (!is_daemon && w->node.is_unschedulable && !world_chance(w, 15))
        return;
    i = world_bear_pod(w, is_daemon);
    if (i == MODEL_MAX_PODS)
        return;
    w->pods[i].is_terminal = false;
    world_log(w, "pod %u is bound, tier %d, grace %llu", i, (int)w->pods[i].tier,
              (unsigned long long)w->pods[i].grace_sec);
    world_pod_changed(w, i);
}

static void stop_pod(struct world *w, unsigned pod) {
    struct world_pod *p = &w->pods[pod];

    if (!p->exists || p->deletion_usec)
        return;
    world_log(w, "pod %u has succeeded", pod);
    p->is_terminal = true;
    if (p->has_volume)
        world_plan(w, w->now_usec + world_random(w, 20 * SEC), THING_DETACHED, 0, 0);
    p->has_volume = false;
    world_pod_changed(w, pod);
}

static void be_a_person(struct world *w, unsigned what) {
    struct world_node *n = &w->node;

    if (!n->exists)
        return;
    if (what < 4 && !n->is_unschedulable) {
        world_log(w, "somebody cordons");
        n->is_unschedulable = true;
        n->foreign_usec = n->has_record ? n->foreign_usec : w->now_usec;
    } else if (what < 7 && n->is_unschedulable) {
        world_log(w, "somebody uncordons");
        n->is_unschedulable = false;
        w->is_meddled = true;
    } else if (what < 9 && n->label == LABEL_NONE) {
        world_log(w, "somebody labels the Node");
        n->label = LABEL_FOREIGN;
    } else if (what < 8 && n->label == LABEL_OURS) {
        world_log(w, "somebody removes the label of load balancers");
        n->label = LABEL_NONE;
    } else if (what == 9 || n->is_deleting) {
        world_log(w, "somebody evicts everything");
        for (unsigned i = 0; i < w->n_pods; i++)
            if (w->pods[i].exists && !w->pods[i].is_mirror)
                (void)world_evict(w, i, 0);
    } else { /* a candidate for disruption, or no longer one */
        world_log(w, n->has_taint ? "the taint is taken away" : "the Node is tainted");
        n->has_taint = !n->has_taint;
        n->held_usec = w->now_usec;
        if (n->has_taint)
            world_plan(w, w->now_usec + world_random(w, 60 * SEC), THING_PERSON, 10, 0);
    }
    world_node_changed(w);
}

/* Taints, then evicts tier by tier as the budgets allow, or does nothing more at all. */
static void be_karpenter(struct world *w) {
    enum nc_tier tier = _NC_TIER_MAX;

    if (!w->node.exists || !w->node.is_deleting)
        return;
    if (!w->node.has_taint) {
        w->node.has_taint = true;
        if (w->node.label == LABEL_NONE)
            w->node.label = LABEL_FOREIGN;
        world_node_changed(w);
    }
    if (!w->karpenter_evicts)
        return;
    for (unsigned i = 0; i < w->n_pods; i++)
        if (is_karpenters(w, &w->pods[i]) && w->pods[i].tier < tier)
            tier = w->pods[i].tier;
    for (unsigned i = 0; i < w->n_pods; i++)
        if (is_karpenters(w, &w->pods[i]) && w->pods[i].tier == tier && !w->pods[i].never_disrupt
            && w->now_usec >= w->pods[i].keep_until_usec && world_chance(w, 50))
            (void)world_evict(w, i, 0);
    if (w->now_usec < w->end_usec)
        world_plan(w, w->now_usec + world_between(w, SEC / 2, 4 * SEC), THING_KARPENTER, 0, 0);
}

static void lose_node(struct world *w) {
    if (!w->node.exists)
        return;
    world_log(w, "the Node is deleted");
    w->node = (struct world_node){
        .uid = w->node.uid + 1, .version = w->node.version, .n_volumes = w->node.n_volumes};
    w->claim_t_usec = 0;
    w->sources[NC_SOURCE_REQUEST].is_on = false;
    world_node_changed(w);
    world_plan(w, w->now_usec + world_random(w, 20 * SEC), THING_NODE_BACK, 0, 0);
}

void world_action(struct world *w, const struct thing_due *due) {
    switch (due->kind) {
    case THING_SOURCE:
        change_source(w, (enum nc_source)due->a, due->b);
        break;
    case THING_POD_ENDS:
        if (w->pods[due->a].exists && w->pods[due->a].generation == due->b)
            world_remove_pod(w, due->a);
        break;
    case THING_POD_STOPS:
        stop_pod(w, due->a);
        break;
    case THING_BUDGET:
        w->budgets[due->a].allowed += w->is_paired ? MODEL_MAX_PODS : 1;
        break;
    case THING_BIND:
        bind_pod(w, due->a);
        break;
    case THING_DETACHED:
        w->node.n_volumes--;
        w->changed_usec = w->now_usec;
        if (w->node.exists)
            world_node_changed(w);
        break;
    case THING_PERSON:
        be_a_person(w, due->a);
        break;
    case THING_RELIST:
        if (w->life && w->is_listed)
            world_list(w);
        break;
    case THING_KARPENTER:
        be_karpenter(w);
        break;
    case THING_RULES:
    case THING_HOOK:
        (void)world_random_rules(w);
        break;
    case THING_NODE_GONE:
        lose_node(w);
        break;
    case THING_NODE_BACK:
        w->node.exists = true;
        w->node.held_usec = w->now_usec;
        world_node_changed(w);
        break;
    case THING_TICK:
    case THING_HEARTBEAT:
    case THING_POLL:
    case THING_REFRESH:
    case THING_NODE_SEEN:
    case THING_POD_SEEN:
    case THING_LISTED:
    case THING_SYNCED:
    case THING_ARRIVES:
    case THING_ANSWERED:
    case THING_KILL:
    case THING_START:
    case THING_HINT:
    case THING_PROPERTY:
        break;
    case THING_CLOCK:
        world_correct_clock(w, due->a);
        break;
    }
}
