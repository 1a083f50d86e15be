/*
 * Each rule broken once on purpose: the judge must name it. Before that a drain played right.
 *
 * Must not stop at the first that is not seen: all are told.
 */
#include "self-test.h"

#include <stdio.h>

#include "scene.h"
#include "twin.h"

/* Two pods of which the second may go once the first is gone, under a deadline in an hour; what
 * became of them with the agent, and whether they are to be left. */
static void pair(const struct twin_fate *ours, bool is_left) {
    const struct twin t = {
        .begin_usec = SEC, .end_usec = 7200 * SEC, .t_usec = 3601 * SEC, .may_drain = true};
    const struct world_pod pods[] = {
        {.grace_sec = 60, .needs_usec = 40 * SEC},
        {.grace_sec = 30, .needs_usec = 5 * SEC, .tier = NC_TIER_CRITICAL, .is_mirror = is_left}};
    struct twin_fate alone[2];

    rules_init(&scene_judge, &(struct nc_lifecycle_rules){0});
    twin_alone(&t, pods, 2, alone);
    alone[0].spare_usec = 20 * SEC;
    twin_judge(&scene_judge, &t, pods, 2, alone, ours);
}

static void pair_right(void) {
    pair((struct twin_fate[]){{SEC, 41 * SEC, 0, false}, {42 * SEC, 47 * SEC, 0, false}}, false);
}
static void pair_cut_short(void) {
    pair((struct twin_fate[]){{SEC, 31 * SEC, 0, true}, {42 * SEC, 47 * SEC, 0, false}}, false);
}
static void pair_inverted(void) {
    pair((struct twin_fate[]){{SEC, 41 * SEC, 0, false}, {11 * SEC, 16 * SEC, 0, false}}, false);
}
static void pair_not_left(void) {
    pair((struct twin_fate[]){{SEC, 41 * SEC, 0, false}, {42 * SEC, 47 * SEC, 0, false}}, true);
}

static const struct scene_play plays_of_pairs[] = {
    {"", pair_right},
    {"twin-cut-short", pair_cut_short},
    {"twin-order", pair_inverted},
    {"twin-left", pair_not_left},
};

static int play(const struct scene_play *p, unsigned *n) {
    bool is_seen;

    p->play();
    is_seen = strcmp(scene_judge.broken, p->rule) == 0;
    printf("%sok %u - %s\n", is_seen ? "" : "not ", ++*n,
           p->rule[0] ? p->rule : "a drain as it should be");
    if (!is_seen)
        printf("# the judge says \"%s\": %s\n", scene_judge.broken, scene_judge.story);
    return !is_seen;
}

int self_test(unsigned *n) {
    int failed = 0;

    for (const struct scene_play *p = plays_of_writes; p->rule; p++)
        failed += play(p, n);
    for (const struct scene_play *p = plays_of_pods; p->rule; p++)
        failed += play(p, n);
    for (size_t i = 0; i < NC_ARRAY_SIZE(plays_of_pairs); i++)
        failed += play(&plays_of_pairs[i], n);
    return failed;
}
