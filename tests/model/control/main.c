/*
 * control-model [--seed S] [--worlds N] [--trace] [--self-test]: random clusters against the rules
 * of the controller.
 *
 * Each world has a seed of its own, counted up from S; the first that breaks a rule is named with
 * the command that tells its story, and ends the run. --self-test (TAP) breaks each rule on purpose
 * before that.
 */
#include <inttypes.h>
#include <string.h>

#include "judge.h"
#include "nc/str.h"
#include "sabotage.h"
#include "world.h"

#define SABOTAGED_WORLDS 400u

struct options {
    uint64_t seed, worlds;
    bool is_traced, is_self_test;
};

struct totals {
    uint64_t relays, voluntary, finalized, writes;
};

static void happen(struct world *w, struct due *due) {
    w->now_usec = due->at_usec;
    if (due->kind == THING_HEARTBEAT) {
        judge_heartbeat(w);
        if (w->sabotage == SABOTAGE_WRITES_AT_REST && w->leader >= 0) /* nothing else happens */
            process_post(w, (unsigned)w->leader,
                         &(struct nc_control_event){.kind = NC_CONTROL_TICK});
        world_post(w, w->is_quiet ? 10 * SEC : SEC, THING_HEARTBEAT, 0, 0, NULL);
        return;
    }
    if (due->kind == THING_GATE)
        gate_happen(w, due);
    process_happen(w, due);
    actors_happen(w, due);
}

/* Reports and metrics of a state that came about by chance: they must not fall over it. */
static void look(struct world *w) {
    for (unsigned p = 0; p < N_PROCS; p++) {
        struct nc_buf b = NC_BUF_INIT;
        if (!w->procs[p].c)
            continue;
        nc_auto_value struct nc_value *report = nc_control_report(w->procs[p].c, w->now_usec);
        nc_control_text(report, 0, &b);
        nc_control_metrics(w->procs[p].c, w->now_usec, &b);
        nc_buf_done(&b);
    }
}

/* The rule that was broken, "" = none. */
static bool run(uint64_t seed, int sabotage, bool is_traced, char broken[static 32],
                struct totals *t) {
    static struct world w;
    struct due due;

    world_init(&w, seed, is_traced);
    w.sabotage = sabotage;
    while (!w.judge->broken[0] && world_next(&w, &due)) {
        if (due.at_usec > w.end_usec) {
            world_free_due(&due);
            break;
        }
        happen(&w, &due);
    }
    judge_end(&w);
    look(&w);
    memcpy(broken, w.judge->broken, sizeof(w.judge->broken));
    if (broken[0] && !sabotage)
        printf("# seed %" PRIu64 " at %.3f s breaks the rule \"%s\": %s\n", seed,
               (double)(w.now_usec - w.start_usec) / 1e6, w.judge->broken, w.judge->story);
    t->relays += w.judge->relays;
    t->voluntary += w.judge->voluntary;
    t->finalized += w.judge->finalized;
    t->writes += w.judge->writes;
    world_done(&w);
    return broken[0] == '\0';
}

/* Some world shows it. (Whoever breaks one rule may in others break another one first.) */
static bool is_found(enum sabotage s, char broken[static 32]) {
    struct totals t = {0};

    for (uint64_t seed = 1; seed <= SABOTAGED_WORLDS; seed++) {
        (void)run(seed, (int)s, false, broken, &t);
        if (strcmp(broken, sabotage_rule(s)) == 0)
            return true;
    }
    return false;
}

static int self_test(unsigned *n) {
    int failed = 0;

    for (int s = SABOTAGE_NONE + 1; s < _SABOTAGE_MAX; s++) {
        char broken[32] = "";
        const bool is_seen = is_found((enum sabotage)s, broken);
        printf("%sok %u - %s\n", is_seen ? "" : "not ", ++*n, sabotage_rule((enum sabotage)s));
        if (!is_seen)
            printf("# the judge says \"%s\"\n", broken);
        failed += !is_seen;
    }
    return failed;
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

static void post_how(uint64_t seed) {
    printf("# tests/model/control/control-model --seed %" PRIu64 " --worlds 1 --trace\n", seed);
}

int main(int argc, char **argv) {
    struct options o = {.seed = 1, .worlds = 2000};
    struct totals t = {0};
    unsigned n = 0;
    uint64_t broken = 0;
    char rule[32];

    if (parse(argc, argv, &o) < 0) {
        fprintf(stderr, "usage: %s [--seed S] [--worlds N] [--trace] [--self-test]\n", argv[0]);
        return 2;
    }
    const int failed = o.is_self_test ? self_test(&n) : 0;
    for (uint64_t i = 0; i < o.worlds && !broken; i++)
        broken = run(o.seed + i, SABOTAGE_NONE, o.is_traced, rule, &t) ? 0 : o.seed + i;
    if (broken)
        post_how(broken);
    if (o.is_self_test)
        printf("%sok %u - %" PRIu64 " worlds from seed %" PRIu64 "\n1..%u\n", broken ? "not " : "",
               n + 1, o.worlds, o.seed, n + 1);
    else if (!broken)
        printf("%" PRIu64 " worlds from seed %" PRIu64 ": no rule is broken\n", o.worlds, o.seed);
    printf("# %" PRIu64 " writes, %" PRIu64 " relayed, %" PRIu64 " disrupted, %" PRIu64
           " finalized\n",
           t.writes, t.relays, t.voluntary, t.finalized);
    return failed || broken;
}
