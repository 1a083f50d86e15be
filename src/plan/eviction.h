/*
 * Eviction thresholds: what they mean in bytes, and which ones kubelet or Karpenter refuse.
 */
#ifndef NC_PLAN_EVICTION_H
#define NC_PLAN_EVICTION_H

#include "nc/plan.h"

/* How a percentage of a capacity becomes bytes. */
enum nc_percent_rule {
    NC_PERCENT_KUBELET = 1, /* a float32 fraction, cut off (pkg/kubelet/eviction/helpers.go) */
    NC_PERCENT_KARPENTER,   /* double, rounded up; 100 % counts as none
                               (providers/instancetype/types.go) */
};

/* "100Mi" or "10%" of capacity_bytes. -EINVAL where it is neither. */
int nc_eviction_bytes(const char *threshold, int64_t capacity_bytes, enum nc_percent_rule rule,
                      int64_t *ret);

/* evictionHard, evictionSoft, evictionSoftGracePeriod, evictionMinimumReclaim,
 * evictionMaxPodGracePeriod of a final KubeletConfiguration. NC_ERR_CONFIG with the place. docs may
 * be NULL. */
int nc_eviction_check(const struct nc_value *kubelet, const struct nc_documents *docs,
                      struct nc_err *err);

#endif
