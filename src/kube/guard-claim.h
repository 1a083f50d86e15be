/*
 * The rules on the wire for our own NodeClaim (`signal: self`), and what the requests are made of.
 */
#ifndef NC_KUBE_GUARD_CLAIM_H
#define NC_KUBE_GUARD_CLAIM_H

#include "wire.h"

#define NC_TERMINATION_TIME "karpenter.sh/nodeclaim-termination-timestamp"
#define NC_GUARD_PROBE "nodeclaimd.io/guard-probe"
#define NC_DRY_RUN "?dryRun=All"

/* nc_kube_guard, and beyond it the two writes of the claim that nc_kube_own_claim() has named, and
 * their dry runs. */
int nc_kube_guard_own(const struct nc_kube *k, const struct nc_kube_call *c, struct nc_err *err);

#endif
