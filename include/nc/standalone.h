/*
 * A NodeClaim's complete life where no Karpenter runs: registration, initialization, voluntary
 * disruption under budgets, drain, end. Part of the step of nc/control.h, and level-triggered as
 * all of it.
 *
 * The rules: docs/drain-rules.md, "Standalone" (S1 to S20).
 */
#ifndef NC_STANDALONE_H
#define NC_STANDALONE_H

#include "nc/control.h"
#include "nc/names.h"

#define NC_STANDALONE_RESPONSE_USEC (60ull * 1000000)
#define NC_STANDALONE_AGAIN_USEC (30ull * 1000000)
/* Longer than a watch may be silent (kube/watch.c). */
#define NC_STANDALONE_LOST_USEC (180ull * 1000000)
#define NC_STANDALONE_ENDING_USEC (300ull * 1000000)
#define NC_STANDALONE_LAUNCHED_USEC (300ull * 1000000)
/* As Karpenter's liveness has it. */
#define NC_STANDALONE_REGISTER_USEC (900ull * 1000000)
/* A Node that is not Ready has its claim counted against the budgets for so long, and again once it
 * was Ready for so long: a node says itself whether it is. */
#define NC_STANDALONE_UNREADY_USEC (1800ull * 1000000)
#define NC_STANDALONE_READY_USEC (86400ull * 1000000)
#define NC_STANDALONE_BLOCKED_USEC (300ull * 1000000)
/* For nc_control_new(). */
extern const struct nc_standalone nc_standalone;

#endif
