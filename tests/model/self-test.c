/*
 * Each rule broken once on purpose: the judge must name it. Before that a drain played right.
 *
 * Must not stop at the first that is not seen: all are told.
 */
#include "self-test.h"

#include <stdio.h>

#include "scene.h"

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
    return failed;
}
