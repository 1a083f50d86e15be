/*
 * model [--seed S] [--worlds N] [--trace] [--self-test]: random worlds against the rules.
 *
 * Each world has a seed of its own, counted up from S; the first that breaks a rule is named with
 * the command that tells its story, and ends the run.
 */
#include <inttypes.h>
#include <string.h>

#include "nc/str.h"
#include "self-test.h"
#include "twin.h"
#include "world.h"

#define PAIRED_PART 10 /* of the worlds is one a pair: a day is long */

struct options {
    uint64_t seed, worlds;
    bool is_traced, is_self_test;
};

/* Pods that stay because nobody lets them go are no fault; nor is a moment that is too near. */
static void judge_end(struct world *w) {
    struct rules_end end = {
        .is_node = w->node.exists,
        .is_unschedulable = w->node.is_unschedulable,
        .is_foreign_cordon = w->node.is_unschedulable && !w->node.has_record,
        .has_record = w->node.has_record,
        .has_status = w->node.has_status,
        .has_our_label = w->node.label == LABEL_OURS,
        .is_pending = w->node.is_pending,
        .is_drained = w->node.is_drained,
        .is_held = w->node.is_deleting || w->node.has_taint,
        .may_be_silent = w->refuses_patch || w->refuses_status || w->is_meddled
                         || (w->now_usec < w->node.held_usec + 45 * SEC),
        .is_steady =
            (w->now_usec > w->changed_usec + 40 * SEC + 2 * w->config.drain.hook_timeout_usec),
        .n_volumes = w->node.n_volumes,
        .now_usec = w->now_usec};

    if (w->is_over || !w->life || w->now_usec < w->rules.started_usec + 40 * SEC)
        return;
    for (unsigned i = 0; i < w->n_pods; i++) {
        const struct world_pod *p = &w->pods[i];
        const bool leaves = rules_is_karpenters(&w->rules, w->now_usec) && !w->rules.t_usec;

        end.n_left += world_is_left(w, p, leaves);
        if (world_is_left(w, p, leaves))
            world_log(w, "pod %u is left", i);
        if (p->exists && p->deletion_usec && w->now_usec < p->deletion_usec + 100 * SEC)
            end.is_steady = false;
    }
    rules_end(&w->rules, &end);
}

static bool run(uint64_t seed, bool is_traced) {
    static struct world w;
    struct thing_due due;

    world_init(&w, seed, is_traced);
    while (!w.rules.broken[0] && !w.is_over && world_next(&w, &due)) {
        if (due.at_usec > w.end_usec) {
            free(due.data);
            break;
        }
        w.now_usec = due.at_usec;
        world_action(&w, &due);
        host_happen(&w, &due);
        free(due.data);
    }
    if (!w.rules.broken[0])
        judge_end(&w);
    if (!w.rules.broken[0] && seed % PAIRED_PART == 0) {
        world_done(&w);
        (void)twin_run(&w, seed, is_traced);
    }
    if (w.rules.broken[0])
        printf("# seed %" PRIu64 " at %.3f s breaks the rule \"%s\": %s\n", seed,
               (double)(w.now_usec - w.start_usec) / 1e6, w.rules.broken, w.rules.story);
    world_done(&w);
    return !w.rules.broken[0];
}

static int usage(const char *program) {
    fprintf(stderr, "usage: %s [--seed S] [--worlds N] [--trace] | --self-test\n", program);
    return 2;
}

static int parse(int argc, char **argv, struct options *o) {
    for (int i = 1; i < argc; i++) {
        uint64_t *number = strcmp(argv[i], "--seed") == 0     ? &o->seed
                           : strcmp(argv[i], "--worlds") == 0 ? &o->worlds
                                                              : NULL;

        if (number && i + 1 < argc && nc_parse_u64(argv[i + 1], number) == 0)
            i++;
        else if (strcmp(argv[i], "--trace") == 0)
            o->is_traced = true;
        else if (strcmp(argv[i], "--self-test") == 0)
            o->is_self_test = true;
        else
            return -1;
    }
    return 0;
}

/* As a test: the judge itself, then the worlds. TAP. */
static int run_as_test(const struct options *o) {
    unsigned n = 0;
    int failed = self_test(&n);
    uint64_t broken = 0;

    for (uint64_t i = 0; i < o->worlds && !broken; i++)
        broken = run(o->seed + i, false) ? 0 : o->seed + i;
    printf("%sok %u - %" PRIu64 " worlds from seed %" PRIu64 "\n", broken ? "not " : "", ++n,
           o->worlds, o->seed);
    if (broken)
        printf("# tests/model/model --seed %" PRIu64 " --worlds 1 --trace\n", broken);
    printf("1..%u\n", n);
    return failed || broken;
}

int main(int argc, char **argv) {
    struct options o = {.seed = 1, .worlds = 5000};

    if (parse(argc, argv, &o) < 0)
        return usage(argv[0]);
    if (o.is_self_test)
        return run_as_test(&o);
    for (uint64_t i = 0; i < o.worlds; i++)
        if (!run(o.seed + i, o.is_traced)) {
            printf("# tests/model/model --seed %" PRIu64 " --worlds 1 --trace\n", o.seed + i);
            return 1;
        }
    printf("%" PRIu64 " worlds from seed %" PRIu64 ": no rule is broken\n", o.worlds, o.seed);
    return 0;
}
