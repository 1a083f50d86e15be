/*
 * The twin: what Karpenter alone does with the pods of a node, and the rule that nobody is worse
 * off with the agent beside it. Worlds of its own, for up to a day: a NodeClaim is deleted, or EC2
 * gives notice; nothing fails, for what is compared is what was decided.
 *
 * Karpenter is taken at its best: it asks at once when a budget opens, and is never late. It drains
 * the first tier that has a pod; without a termination timestamp for as long as that takes, with
 * one each pod is deleted in time for its whole grace. Of the agent's decisions nothing is known
 * here: only what became of the pods.
 */
#include "twin.h"

#include <stdio.h>

#include "margin.h"

#define DAY_USEC (86400 * SEC)
#define SLACK_USEC (3 * SEC) /* the server's times are whole seconds, and requests take theirs */
#define TURN_USEC (2 * SEC)  /* so long before its force-delete time a pod may go before others */

/* Karpenter leaves it, with or without the agent. */
static bool is_left(const struct world_pod *p) {
    return p->is_mirror || p->is_terminal || (p->is_daemon && p->tolerates);
}

static bool is_drained(const struct world_pod *p) {
    return !is_left(p) && !p->tolerates;
}

/* --- Karpenter alone */

static uint64_t force_at(const struct twin *t, const struct world_pod *p) {
    const uint64_t grace = p->grace_sec * SEC;

    return !t->t_usec                          ? UINT64_MAX
           : t->t_usec > grace + t->begin_usec ? t->t_usec - grace
                                               : t->begin_usec;
}

static uint64_t free_at(const struct twin *t, const struct world_pod *p) {
    uint64_t at = p->never_disrupt ? UINT64_MAX : p->keep_until_usec;

    for (unsigned b = 0; b < WORLD_MAX_BUDGETS; b++)
        if (p->budgets & (1u << b) && t->opens_usec[b] > at)
            at = t->opens_usec[b];
    return at;
}

static void begin(const struct twin *t, struct twin_fate *f, const struct world_pod *p,
                  uint64_t now_usec) {
    uint64_t grace = p->grace_sec ? p->grace_sec * SEC : SEC;

    if (t->t_usec && now_usec + grace > t->t_usec)
        grace = t->t_usec > now_usec + SEC ? t->t_usec - now_usec : SEC;
    f->began_usec = now_usec;
    f->gone_usec = now_usec + (p->needs_usec < grace ? p->needs_usec : grace);
    f->was_killed = p->needs_usec > grace;
    f->spare_usec = f->was_killed ? 0 : grace - p->needs_usec;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* One moment; returns the next at which something may happen. */
static uint64_t step(const struct twin *t, const struct world_pod *pods, unsigned n,
                     struct twin_fate *ret, uint64_t now_usec) {
    enum nc_tier tier = _NC_TIER_MAX;
    uint64_t next = UINT64_MAX;

    for (unsigned i = 0; i < n; i++)
        if (is_drained(&pods[i]) && (!ret[i].began_usec || ret[i].gone_usec > now_usec)
            && pods[i].tier < tier)
            tier = pods[i].tier;
    for (unsigned i = 0; i < n; i++) {
        if (!is_drained(&pods[i]))
            continue;
        if (!ret[i].began_usec
            && (now_usec >= force_at(t, &pods[i])
                || (pods[i].tier == tier && now_usec >= free_at(t, &pods[i]))))
            begin(t, &ret[i], &pods[i], now_usec);
        if (ret[i].began_usec && ret[i].gone_usec > now_usec)
            next = earlier(next, ret[i].gone_usec);
        if (!ret[i].began_usec)
            next = earlier(next, force_at(t, &pods[i]));
        if (!ret[i].began_usec && free_at(t, &pods[i]) > now_usec)
            next = earlier(next, free_at(t, &pods[i]));
    }
    return next;
}

/* The machine goes with whoever is left on it. */
void twin_alone(const struct twin *t, const struct world_pod *pods, unsigned n,
                struct twin_fate *ret) {
    memset(ret, 0, n * sizeof(*ret));
    for (uint64_t now = t->begin_usec, last = 0; now <= t->end_usec && now > last;) {
        last = now;
        now = step(t, pods, n, ret, now);
    }
    for (unsigned i = 0; i < n; i++)
        if (ret[i].began_usec && ret[i].gone_usec > t->end_usec)
            ret[i].was_killed = true;
}

/* --- is anybody worse off? */

/* By then a pod has to be gone that has its own time: the margin is the agent's to take. */
static uint64_t counts_until(const struct twin *t) {
    const uint64_t left = t->end_usec - t->begin_usec;

    return t->is_notice ? t->end_usec - margin_for(t->margin_usec, left) : t->end_usec;
}

static void judge_end(struct rules *r, const struct twin *t, const struct twin_fate *alone,
                      const struct twin_fate *ours, unsigned i) {
    const bool was_clean = alone->began_usec && !alone->was_killed
                           && alone->gone_usec + SLACK_USEC < counts_until(t)
                           && alone->spare_usec >= SLACK_USEC;

    if (was_clean && ours->was_killed)
        rules_break(r, "twin-cut-short", "pod %u ends by itself where Karpenter is alone", i);
}

static void judge_order(struct rules *r, const struct twin *t, const struct world_pod *pods,
                        const struct twin_fate *alone, const struct twin_fate *ours, unsigned i,
                        unsigned j) {
    const bool held =
        alone[i].began_usec && alone[j].began_usec && alone[i].gone_usec <= alone[j].began_usec;
    const bool holds =
        !ours[j].began_usec || (ours[i].gone_usec && ours[i].gone_usec <= ours[j].began_usec);
    const uint64_t t_usec = t->is_notice ? counts_until(t) : t->t_usec;
    const uint64_t grace = pods[j].grace_sec * SEC + TURN_USEC + SEC;

    if (held && !holds && (!t_usec || ours[j].began_usec + grace < t_usec))
        rules_break(r, "twin-order", "pod %u goes before pod %u of an earlier tier is gone", j, i);
}

void twin_judge(struct rules *r, const struct twin *t, const struct world_pod *pods, unsigned n,
                const struct twin_fate *alone, const struct twin_fate *ours) {
    for (unsigned i = 0; i < n; i++) {
        if (ours[i].began_usec && (is_left(&pods[i]) || !t->may_drain))
            rules_break(r, "twin-left", "pod %u is to be left and is deleted", i);
        judge_end(r, t, &alone[i], &ours[i], i);
        for (unsigned j = 0; j < n; j++)
            if (is_drained(&pods[i]) && is_drained(&pods[j]) && pods[i].tier < pods[j].tier)
                judge_order(r, t, pods, alone, ours, i, j);
    }
}

/* --- the worlds */

static void bear(struct world *w, unsigned n) {
    static const uint64_t graces[] = {5, 10, 30, 30, 60, 300, 3600};
    struct world_pod *p = &w->pods[n];

    *p = (struct world_pod){.exists = true, .has_started = true, .bound_usec = w->now_usec};
    p->is_daemon = world_chance(w, 30);
    p->tier = (world_chance(w, 25) ? NC_TIER_CRITICAL : NC_TIER_PLAIN) + p->is_daemon;
    p->grace_sec = graces[world_random(w, NC_ARRAY_SIZE(graces))];
    p->needs_usec =
        world_chance(w, 15) ? 2 * DAY_USEC : world_between(w, SEC / 2, p->grace_sec * SEC - SEC);
    p->tolerates = world_chance(w, p->is_daemon ? 30 : 0);
    p->is_mirror = !p->is_daemon && world_chance(w, 5);
    p->never_disrupt = world_chance(w, 10);
    if (world_chance(w, 10))
        p->keep_until_usec = w->now_usec + world_random(w, 600 * SEC);
    if (world_chance(w, 30))
        p->budgets = 1u << world_random(w, WORLD_MAX_BUDGETS);
}

/* What is deleted, or announced, and what Karpenter is given for it. */
static void choose_ending(struct world *w, struct twin *t) {
    static const uint64_t periods_sec[] = {0, 60, 3600, 86400};
    static const uint64_t notices_sec[] = {120, 120, 60, 40, 20, 14};
    const uint64_t period = periods_sec[world_random(w, NC_ARRAY_SIZE(periods_sec))] * SEC;

    t->is_notice = world_chance(w, 50);
    t->begin_usec = w->now_usec + 5 * SEC;
    t->end_usec = t->begin_usec + DAY_USEC + 120 * SEC;
    if (t->is_notice) {
        t->end_usec =
            t->begin_usec + notices_sec[world_random(w, NC_ARRAY_SIZE(notices_sec))] * SEC;
        w->config.drain.policy[NC_SOURCE_SPOT] =
            world_chance(w, 80) ? NC_POLICY_DRAIN : NC_POLICY_CORDON;
    } else if (period) {
        t->t_usec = t->begin_usec + period;
    }
}

static void populate(struct world *w, struct twin *t) {
    static const enum nc_drain_mode modes[] = {NC_DRAIN_AUTO,   NC_DRAIN_AUTO,    NC_DRAIN_AUTO,
                                               NC_DRAIN_ALWAYS, NC_DRAIN_OBSERVE, NC_DRAIN_OFF};

    w->is_paired = true;
    w->node = (struct world_node){.exists = true, .has_taint = true, .uid = 1};
    w->latency_usec = 10 * MSEC;
    (void)world_random_rules(w);
    w->config.drain = (struct nc_drain_settings){
        .mode = modes[world_random(w, NC_ARRAY_SIZE(modes))], .margin_usec = 15 * SEC};
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        w->config.drain.policy[s] = NC_POLICY_DRAIN;
    w->config.max_in_flight = 100;
    choose_ending(w, t);
    t->margin_usec = w->config.drain.margin_usec;
    t->may_drain = w->config.drain.mode < NC_DRAIN_OBSERVE
                   && (!t->is_notice || w->config.drain.policy[NC_SOURCE_SPOT] == NC_POLICY_DRAIN);
    w->n_budgets = WORLD_MAX_BUDGETS;
    for (unsigned b = 0; b < w->n_budgets; b++) {
        t->opens_usec[b] =
            world_chance(w, 30) ? UINT64_MAX : t->begin_usec + world_random(w, 120 * SEC);
        if (t->opens_usec[b] < UINT64_MAX)
            world_plan(w, t->opens_usec[b], THING_BUDGET, b, 0);
    }
    w->n_pods = 2 + (unsigned)world_random(w, 5);
    for (unsigned i = 0; i < w->n_pods; i++)
        bear(w, i);
    w->is_born = true;
}

static void plan(struct world *w, const struct twin *t) {
    world_plan(w, w->now_usec, THING_START, 0, 0);
    w->end_usec = t->end_usec;
    w->busy_until_usec = t->end_usec;
    if (t->is_notice) {
        w->sources[NC_SOURCE_SPOT].notice = (struct nc_notice){.source = NC_SOURCE_SPOT,
                                                               .id = "spot-0",
                                                               .action = "terminate",
                                                               .policy = NC_POLICY_DRAIN,
                                                               .deadline_usec = t->end_usec};
        world_plan(w, t->begin_usec, THING_SOURCE, NC_SOURCE_SPOT, 3);
    } else {
        w->claim_t_usec = t->t_usec;
        w->karpenter_evicts = false;
        world_plan(w, t->begin_usec, THING_SOURCE, NC_SOURCE_DELETION, 3);
    }
}

static bool is_anybody_left(const struct world *w) {
    for (unsigned i = 0; i < w->n_pods; i++)
        if (w->pods[i].exists && is_drained(&w->pods[i]))
            return true;
    return false;
}

static void play(struct world *w) {
    struct thing_due due;

    while (!w->rules.broken[0] && is_anybody_left(w) && world_next(w, &due)) {
        if (due.at_usec > w->end_usec) {
            free(due.data);
            break;
        }
        w->now_usec = due.at_usec;
        world_action(w, &due);
        host_happen(w, &due);
        free(due.data);
    }
}

bool twin_run(struct world *w, uint64_t seed, bool is_traced) {
    struct world_pod pods[MODEL_MAX_PODS];
    struct twin_fate alone[MODEL_MAX_PODS], ours[MODEL_MAX_PODS] = {{0}};
    struct twin t = {0};

    world_begin(w, seed, is_traced);
    populate(w, &t);
    memcpy(pods, w->pods, sizeof(pods));
    plan(w, &t);
    twin_alone(&t, pods, w->n_pods, alone);
    play(w);
    for (unsigned i = 0; i < w->n_pods; i++)
        ours[i] = (struct twin_fate){.began_usec = w->pods[i].began_usec,
                                     .gone_usec = w->pods[i].gone_usec,
                                     .was_killed = w->pods[i].was_killed};
    twin_judge(&w->rules, &t, pods, w->n_pods, alone, ours);
    return !w->rules.broken[0];
}
