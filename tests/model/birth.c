/*
 * How a world begins: its pods, budgets, settings, and what is going to happen in it.
 *
 * Most worlds are usual ones with one or two things wrong; a world in which everything is wrong
 * shows little.
 */
#include "world.h"

static uint64_t pick(struct world *w, const uint64_t *v, size_t n) {
    return v[world_random(w, n)];
}

const struct nc_lifecycle_rules *world_random_rules(struct world *w) {
    static const enum nc_policy usual[_NC_SOURCE_MAX] = {
        [NC_SOURCE_REBALANCE] = NC_POLICY_REPORT,  [NC_SOURCE_MAINTENANCE] = NC_POLICY_DRAIN,
        [NC_SOURCE_AUTOSCALING] = NC_POLICY_DRAIN, [NC_SOURCE_REQUEST] = NC_POLICY_DRAIN,
        [NC_SOURCE_OPERATOR] = NC_POLICY_DRAIN,    [NC_SOURCE_DELETION] = NC_POLICY_DRAIN,
        [NC_SOURCE_SPOT] = NC_POLICY_DRAIN,        [NC_SOURCE_SHUTDOWN] = NC_POLICY_DRAIN};
    static const enum nc_drain_mode modes[] = {NC_DRAIN_AUTO,    NC_DRAIN_AUTO, NC_DRAIN_AUTO,
                                               NC_DRAIN_AUTO,    NC_DRAIN_AUTO, NC_DRAIN_ALWAYS,
                                               NC_DRAIN_OBSERVE, NC_DRAIN_OFF};
    static const uint64_t margins[] = {15 * SEC, 15 * SEC, 15 * SEC, 0, 2 * SEC, 60 * SEC};
    static const uint64_t lingers[] = {0, 0, 0, 3 * SEC, 12 * SEC};
    static const uint64_t hook_timeouts[] = {0, 0, 3 * SEC, 10 * SEC};
    static const uint64_t questions[] = {1, 2, 4, 100, 100};
    struct nc_lifecycle_rules *r = &w->config;

    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        r->drain.policy[s] =
            world_chance(w, 75) ? usual[s] : (enum nc_policy)world_between(w, 1, NC_POLICY_DRAIN);
    r->drain.policy[NC_SOURCE_DELETION] = NC_POLICY_DRAIN;
    r->drain.mode = modes[world_random(w, NC_ARRAY_SIZE(modes))];
    r->drain.margin_usec = pick(w, margins, NC_ARRAY_SIZE(margins));
    r->drain.linger_usec = pick(w, lingers, NC_ARRAY_SIZE(lingers));
    r->drain.hook_timeout_usec = pick(w, hook_timeouts, NC_ARRAY_SIZE(hook_timeouts));
    r->max_in_flight = (unsigned)pick(w, questions, NC_ARRAY_SIZE(questions));
    r->seed = w->seed;
    return r;
}

unsigned world_bear_pod(struct world *w, bool is_daemon) {
    static const uint64_t graces[] = {30, 30, 30, 0, 1, 5, 10, 60, 119, 3600};
    struct world_pod *p = &w->pods[w->n_pods];
    bool is_critical = world_chance(w, 15);

    if (w->n_pods == MODEL_MAX_PODS)
        return MODEL_MAX_PODS;
    *p = (struct world_pod){.exists = true, .is_daemon = is_daemon, .bound_usec = w->now_usec};
    p->has_started = world_chance(w, 70);
    if (world_chance(w, 2))
        p->unreadable_until_usec = w->now_usec + world_random(w, 150 * SEC);
    p->tier = is_critical ? (is_daemon ? NC_TIER_CRITICAL_DAEMON : NC_TIER_CRITICAL)
                          : (is_daemon ? NC_TIER_PLAIN_DAEMON : NC_TIER_PLAIN);
    if (world_chance(w, 20))
        p->order = world_chance(w, 70) ? NC_POD_ORDER_LAST : NC_POD_ORDER_FIRST;
    if (is_daemon && w->is_born) /* of what is put back no order is requested: it would be left */
        p->order = NC_POD_ORDER_NONE;
    if (p->order)
        p->tier = p->order == NC_POD_ORDER_LAST ? NC_TIER_LAST : NC_TIER_PLAIN;
    p->is_mirror = !is_daemon && world_chance(w, 6);
    p->is_terminal = !is_daemon && world_chance(w, 6);
    p->tolerates = world_chance(w, is_daemon ? 30 : 5);
    p->never_disrupt = world_chance(w, 8);
    if (world_chance(w, 8))
        p->keep_until_usec = w->now_usec + world_random(w, 90 * SEC);
    p->is_job = world_chance(w, 10);
    p->is_namespace_going = world_chance(w, 4);
    p->has_dead_webhook = world_chance(w, 8);
    p->grace_sec = pick(w, graces, NC_ARRAY_SIZE(graces));
    for (unsigned b = 0; b < w->n_budgets; b++)
        if (world_chance(w, 30))
            p->budgets |= 1u << b;
    p->ends = world_chance(w, 60) ? ENDS_EARLY : world_chance(w, 85) ? ENDS_IN_TIME : ENDS_NEVER;
    p->has_volume =
        !is_daemon && !p->is_mirror && !p->is_terminal && !p->tolerates && world_chance(w, 15);
    if (p->has_volume)
        w->node.n_volumes++;
    return w->n_pods++;
}

/* A pod that somebody deleted before all this began, perhaps long ago. */
static void make_old(struct world *w, struct world_pod *p) {
    p->deletion_grace_sec = world_chance(w, 70) ? p->grace_sec : p->grace_sec + 60;
    p->deletion_usec = w->now_usec + p->deletion_grace_sec * SEC - world_random(w, 100 * SEC);
    p->deletion_usec -= p->deletion_usec % SEC;
    if (p->deletion_usec < w->now_usec)
        p->ends = ENDS_NEVER;
    else
        world_plan(w, p->deletion_usec + SEC / 2, THING_POD_ENDS, (unsigned)(p - w->pods), 0);
}

static void populate_pods(struct world *w) {
    unsigned n = (unsigned)world_random(w, world_chance(w, 70) ? 6 : 13);

    for (unsigned i = 0; i < n; i++) {
        struct world_pod *p = &w->pods[world_bear_pod(w, world_chance(w, 20))];

        if (world_chance(w, 6) && p->grace_sec)
            make_old(w, p);
        if (world_chance(w, 5))
            world_plan(w, w->now_usec + world_random(w, 60 * SEC), THING_POD_STOPS,
                       (unsigned)(p - w->pods), 0);
    }
    w->is_born = true;
    w->n_late = (unsigned)world_random(w, 4);
    for (unsigned i = 0; i < w->n_late; i++)
        world_plan(w, w->now_usec + world_random(w, 60 * SEC), THING_BIND, 0, 0);
}

/* An announcement, what becomes of it, and perhaps its end. The notice itself is drawn when it is
 * made. */
static void plan_source(struct world *w, enum nc_source s) {
    uint64_t at = w->now_usec + world_random(w, 30 * SEC);

    world_plan(w, at, THING_SOURCE, s, 1);
    if (world_chance(w, 20))
        world_plan(w, at + world_random(w, 60 * SEC), THING_SOURCE, s, 2); /* another deadline */
    at += world_random(w, 120 * SEC);
    if (world_chance(w, s == NC_SOURCE_SHUTDOWN ? 15 : 45) && s != NC_SOURCE_DELETION)
        world_plan(w, at, THING_SOURCE, s, 0);
    if (world_chance(w, 10) && s != NC_SOURCE_DELETION)
        world_plan(w, at + world_random(w, 20 * SEC), THING_SOURCE, s, 1);
    if (at > w->busy_until_usec)
        w->busy_until_usec = at;
}

static void populate_sources(struct world *w) {
    static const enum nc_source drawn[] = {
        NC_SOURCE_SPOT,      NC_SOURCE_SPOT,        NC_SOURCE_SPOT,        NC_SOURCE_SPOT,
        NC_SOURCE_REBALANCE, NC_SOURCE_MAINTENANCE, NC_SOURCE_AUTOSCALING, NC_SOURCE_REQUEST,
        NC_SOURCE_OPERATOR,  NC_SOURCE_OPERATOR,    NC_SOURCE_DELETION,    NC_SOURCE_DELETION,
        NC_SOURCE_SHUTDOWN};
    unsigned n = 1 + (unsigned)world_random(w, 3);

    w->ends_in_reboot = world_chance(w, 60);
    w->karpenter_evicts = world_chance(w, 60);
    if (world_chance(w, 4))
        n = 0;
    for (unsigned i = 0; i < n; i++)
        plan_source(w, drawn[world_random(w, NC_ARRAY_SIZE(drawn))]);
}

/* Users of the machine who say that it shuts down, or that it does not: one by one, or a flood. */
static void populate_strangers(struct world *w) {
    if (!world_chance(w, 25))
        return;
    for (unsigned n = 1 + (unsigned)world_random(w, 12); n > 0; n--) {
        uint64_t at = w->now_usec + world_random(w, 150 * SEC);
        for (unsigned i = world_chance(w, 30) ? 100 : 1; i > 0; i--) {
            world_plan(w, at, THING_HINT, 0, 0);
            at += world_random(w, SEC / 10);
        }
    }
}

static void populate_faults(struct world *w) {
    bool is_bad = world_chance(w, 50);

    w->latency_usec =
        world_chance(w, 80) ? world_between(w, 1, 30) * MSEC : world_between(w, 30, 800) * MSEC;
    if (!is_bad)
        return;
    w->n_outages = (unsigned)world_random(w, 3);
    for (unsigned i = 0; i < w->n_outages; i++) {
        w->outages[i].from_usec = w->now_usec + world_random(w, 100 * SEC);
        w->outages[i].to_usec =
            w->outages[i].from_usec + world_random(w, world_chance(w, 70) ? 10 * SEC : 60 * SEC);
        w->outages[i].is_silent = world_chance(w, 50);
        if (w->outages[i].to_usec > w->busy_until_usec)
            w->busy_until_usec = w->outages[i].to_usec;
    }
    w->lost_percent = world_chance(w, 40) ? 10 : 0;
    w->error_percent = world_chance(w, 40) ? 15 : 0;
    w->busy_percent = world_chance(w, 25) ? 30 : 0;
    w->hold_percent = world_chance(w, 20) ? 10 : 0;
    w->missing_percent = world_chance(w, 15) ? 5 : 0;
    w->refuses_status = world_chance(w, 5);
    w->refuses_patch = world_chance(w, 5);
    w->refuses_evictions = world_chance(w, 5);
    w->refuses_marks = world_chance(w, 10);
}

static void populate_people(struct world *w) {
    unsigned n = world_chance(w, 30) ? 1 + (unsigned)world_random(w, 2) : 0;

    if (world_chance(w, 12)) {
        w->node.is_unschedulable = true;
        w->node.foreign_usec = w->now_usec;
    }
    if (world_chance(w, 8))
        w->node.label = LABEL_FOREIGN;
    for (unsigned i = 0; i < n; i++)
        world_plan(w, w->now_usec + world_random(w, 90 * SEC), THING_PERSON,
                   (unsigned)world_random(w, 12), 0);
    if (world_chance(w, 12))
        world_plan(w, w->now_usec + world_random(w, 90 * SEC), THING_RULES, 0, 0);
    if (world_chance(w, 10))
        world_plan(w, w->now_usec + world_random(w, 120 * SEC), THING_RELIST, 0, 0);
    if (world_chance(w, 3))
        world_plan(w, w->now_usec + world_random(w, 90 * SEC), THING_NODE_GONE, 0, 0);
    if (world_chance(w, 10))
        world_plan(w, w->now_usec + world_random(w, 60 * SEC), THING_KILL, world_chance(w, 30), 0);
    if (world_chance(w, 30)) {
        w->kills_left = 1 + (unsigned)world_random(w, 2);
        w->kill_at_action = 1 + (unsigned)world_random(w, 25);
    }
}

void world_populate(struct world *w) {
    w->node.uid = 1;
    w->node.exists = !world_chance(w, 5);
    if (!w->node.exists)
        world_plan(w, w->now_usec + world_random(w, 60 * SEC), THING_NODE_BACK, 0, 0);
    w->waits_for_whole = world_chance(w, 70);
    w->minds_versions = world_chance(w, 60);
    w->busy_until_usec = w->now_usec;
    w->n_budgets = (unsigned)world_random(w, WORLD_MAX_BUDGETS + 1);
    for (unsigned b = 0; b < w->n_budgets; b++)
        w->budgets[b] = (struct world_budget){.allowed = (int)world_random(w, 3),
                                              .is_never = world_chance(w, 25)};
    (void)world_random_rules(w);
    w->config.max_pods = world_chance(w, 12) ? (size_t)world_between(w, 2, 5) : 0;
    populate_pods(w);
    populate_sources(w);
    populate_faults(w);
    populate_people(w);
    if (w->busy_until_usec < w->now_usec + 60 * SEC)
        w->busy_until_usec = w->now_usec + 60 * SEC;
    w->end_usec = w->busy_until_usec + world_between(w, 45, 90) * SEC;
    for (uint64_t at = w->now_usec; at < w->end_usec; at += 2 * SEC)
        world_plan(w, at + SEC, THING_HEARTBEAT, 0, 0);
    world_plan(w, w->now_usec, THING_START, 0, 0);
    populate_strangers(w);
    world_plan_clock(w);
}
