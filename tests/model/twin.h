/* The twin: what Karpenter alone does with a node's pods, and whether they fare worse with us. */
#ifndef MODEL_TWIN_H
#define MODEL_TWIN_H

#include "world.h"

struct twin {
    uint64_t begin_usec, end_usec; /* the deletion or notice; the machine's end */
    uint64_t t_usec;               /* the termination timestamp; 0 = none */
    uint64_t margin_usec;
    uint64_t opens_usec[WORLD_MAX_BUDGETS];
    bool is_notice; /* EC2's, of which Karpenter alone gives its pods no time */
    bool may_drain; /* by our policy */
};

/* What became of a pod. */
struct twin_fate {
    uint64_t began_usec, gone_usec; /* 0 = never */
    uint64_t spare_usec;            /* of what it was given of its grace, when it had ended */
    bool was_killed;
};

void twin_alone(const struct twin *t, const struct world_pod *pods, unsigned n,
                struct twin_fate *ret);
void twin_judge(struct rules *r, const struct twin *t, const struct world_pod *pods, unsigned n,
                const struct twin_fate *alone, const struct twin_fate *ours);
/* A world of this seed, with and without; its end is in w->rules. */
bool twin_run(struct world *w, uint64_t seed, bool is_traced);

#endif
