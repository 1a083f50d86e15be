/*
 * KubeletConfiguration: the base that the plan writes, and the rules that kubelet would otherwise
 * enforce by exiting.
 */
#ifndef NC_PLAN_KUBELET_H
#define NC_PLAN_KUBELET_H

#include "nc/plan.h"
#include "origin.h"

/* The versions that are known; below the first one kubelet has no drop-in folder. */
#define NC_KUBELET_FIRST_MINOR 28
#define NC_KUBELET_LAST_MINOR 37

struct nc_kubelet_input {
    const struct nc_config *config;
    unsigned minor;
    const char *provider_id;
    const char *cluster_dns; /* NULL: the user's configuration has it */
    int64_t max_pods;
    const struct nc_value *kube_reserved, *system_reserved; /* maps, NULL = none; copied */
    bool uses_soci; /* images are pulled by the SOCI snapshotter */
    const struct nc_taint *taints;
    size_t n_taints;
    const struct nc_value *user,
        *flags; /* what will be laid over the base: some defaults give way to it */
};

/* The base. Reasons get one entry for each value that is not a plain default. */
struct nc_value *nc_kubelet_base(const struct nc_kubelet_input *in, struct nc_reasons *reasons);

/* Kind and apiVersion first, then the user's map. */
struct nc_value *nc_kubelet_dropin(const struct nc_value *user);

/* What kubelet 1.minor checks across and within fields of the final configuration, as far as a user
 * can set it. NC_ERR_CONFIG with the place of the value. docs may be NULL. */
int nc_kubelet_check(const struct nc_value *kubelet, unsigned minor,
                     const struct nc_documents *docs, struct nc_err *err);

/* A duration field ("2m30s"); false where it is missing or none. */
bool nc_kubelet_duration(const struct nc_value *kubelet, const char *field, uint64_t *ret_usec);

#endif
