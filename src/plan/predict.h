/*
 * Capacity and allocatable: what kubelet will report of this host, and what Karpenter expected of
 * its type.
 */
#ifndef NC_PLAN_PREDICT_H
#define NC_PLAN_PREDICT_H

#include "nc/plan.h"

/* What kubelet will report with this final configuration. Unknown facts give -1. NC_ERR_CONFIG
 * where a reservation cannot be read; -ERANGE (class CONFIG too) where more is kept back than there
 * is, which kubelet refuses: both results are filled even then, with 0 for what is used up. */
struct nc_prediction {
    struct nc_resources capacity, allocatable;
};
int nc_predict_kubelet(const struct nc_facts *f, const struct nc_value *kubelet,
                       const struct nc_documents *docs, struct nc_prediction *ret,
                       struct nc_err *err);

/* What Karpenter's scheduler counts with: from the type as EC2 advertises it, 7.5 % of the memory
 * taken off for the hypervisor. `kubelet` is the user's map (NULL: none); `planned_pods` is P of
 * kubeReserved; `disk_bytes` the root volume. */
void nc_predict_karpenter(const struct nc_instance_type *t, const struct nc_value *user,
                          int64_t disk_bytes, struct nc_resources *capacity,
                          struct nc_resources *allocatable);

/* The same arithmetic for the Auto Mode profile: pods without the two of the host's network. */
void nc_predict_auto_mode(const struct nc_instance_type *t, int64_t disk_bytes,
                          struct nc_resources *capacity, struct nc_resources *allocatable);

/* How many CPUs a cpuset list ("0-1,4") has; -EINVAL. */
int nc_cpuset_count(const char *text, int64_t *ret);

#endif
