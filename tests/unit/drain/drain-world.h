/*
 * A world around a drain, made of choices that a generator or a fuzzer gives: pods come, change and
 * go, answers come late or never, the deadline moves. Each action is held against the rules as the
 * world sees them; a broken one aborts with its words.
 */
#ifndef NC_DRAIN_WORLD_H
#define NC_DRAIN_WORLD_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/drain.h"
#include "nc/mem.h"

#define WORLD_PODS 12
#define WORLD_SEC 1000000ull
#define WORLD_START (1000000 * WORLD_SEC)

static uint64_t world_seed; /* said where a rule is broken */

#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: seed %llu: broken: %s\n", __FILE__, __LINE__,            \
                          (unsigned long long)world_seed, #condition);                             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct world_pod {
    struct nc_pod seen; /* without its texts */
    bool is_there, is_marked_absent, is_removed, is_accepted, is_deleted;
    bool is_asked[NC_DRAIN_DELETE + 1];
    uint64_t new_usec;                   /* seen again after it was said to be gone */
    uint64_t pause_usec;                 /* no eviction before */
    unsigned tries;                      /* evictions that were asked */
    uint64_t evict_usec;                 /* the last of them */
    uint64_t mark_usec, deletion_answer; /* sent; answered */
};

struct world {
    uint8_t (*choose)(void *source);
    void *source;
    struct nc_drain *drain;
    struct nc_drain_rules rules;
    uint64_t now_usec;
    size_t in_flight; /* evictions */
    struct world_pod pods[WORLD_PODS];
};

static uint8_t choose(struct world *w, unsigned n) {
    return (uint8_t)(w->choose(w->source) % n);
}

static uint64_t world_last(const struct world *w, const struct world_pod *p) {
    const uint64_t grace = p->seen.grace_sec * WORLD_SEC;

    return w->rules.t_usec > grace ? w->rules.t_usec - grace : 0;
}

static bool world_is_eligible(const struct world *w, const struct world_pod *p) {
    return p->is_there && !p->is_marked_absent
           && nc_pod_excluded(&p->seen, &w->rules, w->now_usec) == NC_POD_REASON_NONE;
}

/* Is its replacement waited for? */
static bool world_waits(const struct world *w, const struct world_pod *p) {
    return p->seen.is_replacement_first && w->rules.may_evict
           && w->now_usec < w->rules.replaced_by_usec
           && (!w->rules.t_usec || w->now_usec < world_last(w, p));
}

/* Does it hold up a pod of a later tier, which is still given its whole grace later? */
static bool world_holds(const struct world *w, const struct world_pod *p,
                        const struct world_pod *later) {
    if (p->seen.tolerates_disrupted && w->rules.karpenter_drains)
        return false;
    return !w->rules.t_usec || w->now_usec + 2 * WORLD_SEC < world_last(w, later);
}

/* Nobody is deleted who was not evicted. */
static bool world_is_last_try(const struct world *w, const struct world_pod *p) {
    return w->rules.t_usec && !p->tries && w->now_usec + WORLD_SEC >= world_last(w, p);
}

static void world_check_evict(struct world *w, const struct world_pod *p, uint64_t grace_sec) {
    const uint64_t t = w->rules.t_usec, left = t > w->now_usec ? t - w->now_usec : 0;
    const uint64_t sec = (left + WORLD_SEC - 1) / WORLD_SEC;

    must(!p->seen.deletion_usec && !p->is_accepted);
    must(grace_sec == (left && sec < p->seen.grace_sec ? sec : 0));
    if (world_is_last_try(w, p))
        return;
    must(w->rules.may_evict);
    must(!nc_pod_is_kept(&p->seen, w->now_usec));
    must(!world_waits(w, p));
    must(!p->seen.tolerates_disrupted || !w->rules.karpenter_drains);
    must(!w->rules.t_usec || w->now_usec < world_last(w, p));
    must(w->in_flight < (w->rules.max_in_flight ? w->rules.max_in_flight : 1));
    must(w->now_usec >= p->pause_usec
         || (w->rules.t_usec && w->now_usec + 2 * WORLD_SEC >= world_last(w, p)));
    for (size_t i = 0; i < WORLD_PODS; i++)
        must(!world_is_eligible(w, &w->pods[i]) || w->pods[i].seen.tier >= p->seen.tier
             || !world_holds(w, &w->pods[i], p));
}

static uint64_t world_ceil_sec(uint64_t usec) {
    return (usec + WORLD_SEC - 1) / WORLD_SEC;
}

static void world_check_delete(struct world *w, const struct world_pod *p, uint64_t grace_sec) {
    const uint64_t t = w->rules.t_usec, now = w->now_usec;
    const uint64_t own = p->seen.grace_sec ? p->seen.grace_sec : 1;

    must(t && grace_sec >= 1);
    must(!p->deletion_answer || now >= p->deletion_answer + WORLD_SEC / 5);
    if (p->seen.deletion_usec) {
        const uint64_t asked = p->seen.deletion_usec - p->seen.deletion_grace_sec * WORLD_SEC;
        must(now < t && p->seen.deletion_usec > t + WORLD_SEC);
        must(grace_sec == (t > asked ? world_ceil_sec(t - asked) : 1));
        return;
    }
    must(now >= world_last(w, p));
    must(p->tries || p->is_deleted);
    must(p->mark_usec || p->is_deleted || p->is_accepted);
    must(!p->is_asked[NC_DRAIN_MARK] || now >= p->mark_usec + WORLD_SEC);
    must(grace_sec <= own);
    const uint64_t left = t > now ? world_ceil_sec(t - now) : own;
    if (!p->is_accepted && !p->is_deleted && left <= own)
        must(grace_sec == left);
}

static void world_check(struct world *w, const struct nc_drain_action *a) {
    struct world_pod *p = &w->pods[strtoul(a->pod->uid, NULL, 10)];

    must(world_is_eligible(w, p));
    must(!p->is_asked[a->verb]);
    must(a->attempt >= 1);
    must(w->now_usec >= p->new_usec);
    if (a->verb == NC_DRAIN_EVICT)
        world_check_evict(w, p, a->grace_sec);
    else if (a->verb == NC_DRAIN_DELETE)
        world_check_delete(w, p, a->grace_sec);
    else
        must(w->rules.t_usec && !p->seen.deletion_usec
             && w->now_usec + WORLD_SEC >= world_last(w, p));
    if (a->verb == NC_DRAIN_MARK)
        p->mark_usec = w->now_usec;
    if (a->verb == NC_DRAIN_EVICT) {
        p->evict_usec = w->now_usec;
        p->tries++;
    }
    p->is_asked[a->verb] = true;
    w->in_flight += a->verb == NC_DRAIN_EVICT;
}

/* Nobody is forgotten: past its force-delete time a pod is being asked, or its pause is running. */
static void world_check_forced(struct world *w, const struct world_pod *p) {
    if (!w->rules.t_usec || !world_is_eligible(w, p) || p->seen.deletion_usec
        || w->now_usec < world_last(w, p) || w->now_usec < p->new_usec)
        return;
    must((p->tries == 1 && (p->is_asked[NC_DRAIN_EVICT] || p->is_accepted)
          && w->now_usec < p->evict_usec + WORLD_SEC)
         || p->is_asked[NC_DRAIN_MARK] || p->is_asked[NC_DRAIN_DELETE]
         || (p->deletion_answer && w->now_usec < p->deletion_answer + WORLD_SEC));
}

static size_t world_step(struct world *w) {
    struct nc_drain_action actions[2];
    struct nc_drain_summary sum;
    size_t n, total = 0, eligible = 0, there = 0;

    do {
        n = nc_drain_step(w->drain, &w->rules, w->now_usec, actions, NC_ARRAY_SIZE(actions));
        for (size_t i = 0; i < n; i++)
            world_check(w, &actions[i]);
        total += n;
    } while (n == NC_ARRAY_SIZE(actions));
    must(nc_drain_next(w->drain, &w->rules, w->now_usec) > w->now_usec);
    for (size_t i = 0; i < WORLD_PODS; i++) {
        world_check_forced(w, &w->pods[i]);
        eligible += world_is_eligible(w, &w->pods[i]);
        there += w->pods[i].is_there && !w->pods[i].is_marked_absent;
    }
    nc_drain_summarize(w->drain, &w->rules, w->now_usec, &sum);
    must(sum.remaining == eligible && sum.total >= sum.remaining);
    must(sum.leaving + sum.kept + sum.blocked + sum.waiting <= sum.remaining);
    must(nc_drain_count(w->drain) == there);
    return total;
}

static void world_see(struct world *w, size_t i) {
    struct world_pod *p = &w->pods[i];
    struct nc_pod pod = {.tier = (enum nc_tier)choose(w, _NC_TIER_MAX),
                         .is_daemon = choose(w, 8) == 0,
                         .is_mirror = choose(w, 16) == 0,
                         .is_terminal = choose(w, 16) == 0,
                         .tolerates_disrupted = choose(w, 16) == 0,
                         .never_disrupt = choose(w, 6) == 0,
                         .is_replacement_first = choose(w, 4) == 0,
                         .grace_sec = (uint64_t[]){0, 1, 30, 30, 119, 3600}[choose(w, 6)]};

    if (choose(w, 6) == 0)
        pod.keep_until_usec = w->now_usec + choose(w, 100) * WORLD_SEC;
    if (choose(w, 4) == 0) {
        pod.deletion_grace_sec = choose(w, 200);
        pod.deletion_usec = w->now_usec + pod.deletion_grace_sec * WORLD_SEC;
        pod.deletion_usec -= choose(w, 100) * WORLD_SEC;
    }
    if (p->is_marked_absent)
        *p =
            (struct world_pod){.new_usec = w->now_usec + WORLD_SEC,
                               .tries = p->tries,
                               .evict_usec = p->evict_usec,
                               .mark_usec = p->is_asked[NC_DRAIN_MARK] ? p->mark_usec : 0,
                               .is_asked = {false, p->is_asked[1], p->is_asked[2], p->is_asked[3]}};
    p->seen = pod;
    p->is_there = true;
    pod.namespace = nc_strdup("ns");
    pod.name = nc_asprintf("pod-%zu", i);
    pod.uid = nc_asprintf("%zu", i);
    must(nc_drain_see(w->drain, &pod, w->now_usec) == 0);
}

/* Gone for good, unless a question is in flight: until its answer it may come back. */
static void world_forget(struct world_pod *p) {
    if (p->is_removed && !p->is_asked[NC_DRAIN_EVICT] && !p->is_asked[NC_DRAIN_MARK]
        && !p->is_asked[NC_DRAIN_DELETE])
        *p = (struct world_pod){0};
}

static void world_gone(struct world *w, size_t i) {
    struct world_pod *p = &w->pods[i];
    char uid[4] = {(char)('0' + i / 10), (char)('0' + i % 10)};

    nc_drain_gone(w->drain, i < 10 ? uid + 1 : uid, w->now_usec);
    p->is_marked_absent = p->is_removed = true;
    world_forget(p);
}

static void world_answer(struct world *w, size_t i) {
    static const uint64_t least_usec[_NC_ANSWER_MAX] = {
        [NC_ANSWER_BUDGET] = 750000,  [NC_ANSWER_BUDGETS] = 22500000,
        [NC_ANSWER_BUSY] = 750000,    [NC_ANSWER_NAMESPACE] = 3750000,
        [NC_ANSWER_REFUSED] = 750000, [NC_ANSWER_UNAVAILABLE] = 375000,
        [NC_ANSWER_FAILED] = 375000};
    const enum nc_drain_verb verb = (enum nc_drain_verb)(1 + choose(w, NC_DRAIN_DELETE));
    const struct nc_pod_answer a = {
        .kind = (enum nc_pod_answer_kind)(1 + choose(w, _NC_ANSWER_MAX - 1))};
    struct world_pod *p = &w->pods[i];
    nc_auto_free char *uid = nc_asprintf("%zu", i);

    if (!p->is_asked[verb])
        return;
    p->is_asked[verb] = false;
    w->in_flight -= verb == NC_DRAIN_EVICT;
    nc_drain_answer(w->drain, &(struct nc_drain_reply){uid, verb, &a, w->rules.seed, w->now_usec});
    if (verb == NC_DRAIN_DELETE)
        p->deletion_answer = w->now_usec;
    if (a.kind == NC_ANSWER_GONE && verb != NC_DRAIN_MARK)
        p->is_marked_absent = true;
    else if (verb == NC_DRAIN_EVICT)
        p->pause_usec = w->now_usec + least_usec[a.kind];
    p->is_accepted = p->is_accepted || (verb == NC_DRAIN_EVICT && a.kind == NC_ANSWER_ACCEPTED);
    p->is_deleted = p->is_deleted || (verb == NC_DRAIN_DELETE && a.kind == NC_ANSWER_ACCEPTED);
    world_forget(p);
}

static void world_rules(struct world *w) {
    w->rules.t_usec = choose(w, 3) == 0 ? 0 : w->now_usec + choose(w, 255) * WORLD_SEC / 2;
    w->rules.may_evict = choose(w, 4) != 0;
    w->rules.has_disrupted_taint = choose(w, 2) != 0;
    w->rules.karpenter_drains = choose(w, 2) != 0;
    w->rules.max_in_flight = choose(w, 6);
    w->rules.seed = choose(w, 4);
    w->rules.replaced_by_usec =
        choose(w, 2) == 0 ? 0 : w->now_usec + choose(w, 255) * WORLD_SEC / 4;
}

/* Nothing is due before the moment that was foretold. */
static void world_wait(struct world *w) {
    const uint64_t next = nc_drain_next(w->drain, &w->rules, w->now_usec);
    const uint64_t until =
        next == UINT64_MAX ? w->now_usec + 3600 * WORLD_SEC : next; /* then: only an event helps */

    must(next > w->now_usec);
    w->now_usec += (until - 1 - w->now_usec) / (1 + choose(w, 3));
    must(world_step(w) == 0);
    if (choose(w, 4) != 0)
        w->now_usec = until;
}

/* One turn: something happens, then what is due is done. */
static void world_turn(struct world *w) {
    const size_t i = choose(w, WORLD_PODS);

    switch (choose(w, 10)) {
    case 0:
    case 1:
    case 2:
        world_see(w, i);
        break;
    case 3:
        world_gone(w, i);
        break;
    case 4:
        world_rules(w);
        break;
    case 5:
        w->now_usec += (uint64_t)choose(w, 200) * WORLD_SEC / 20;
        break;
    case 6:
        (void)world_step(w);
        world_wait(w);
        break;
    default:
        world_answer(w, i);
        break;
    }
    (void)world_step(w);
}

static void world_run(uint8_t (*next)(void *source), void *source, size_t turns) {
    struct world w = {.choose = next,
                      .source = source,
                      .drain = nc_drain_new(),
                      .now_usec = WORLD_START,
                      .rules = {.may_evict = true, .max_in_flight = 3}};

    for (size_t i = 0; i < turns; i++)
        world_turn(&w);
    nc_drain_free(w.drain);
}

#endif
