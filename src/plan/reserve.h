/*
 * What is kept back from pods for kubelet, the container runtime and the system: kubeReserved and
 * systemReserved.
 */
#ifndef NC_PLAN_RESERVE_H
#define NC_PLAN_RESERVE_H

#include "nc/plan.h"

#define NC_MAX_CPUS 65536 /* more is no number of CPUs */

struct nc_reserve_input {
    enum nc_reservation policy; /* 0 = karpenter */
    int64_t cpus;               /* online, -1 unknown */
    int64_t mem_total_bytes;    /* -1 unknown */
    int64_t planned_pods;       /* P of `karpenter`, `auto-mode` */
    int64_t final_pods;         /* P of `actual`, `aks` */
    unsigned kubelet_minor;
};

/* EKS' CPU steps: 6 % of the first core, 1 % of the second, 0.5 % of the next two, 0.25 % of the
 * rest. */
int64_t nc_reserve_cpu_steps(int64_t cpus);

/* Fills both; -1 = not reserved. NC_ERR_HOST: the policy needs the memory's size and it is unknown.
 */
int nc_reserve(const struct nc_reserve_input *in, struct nc_resources *kube,
               struct nc_resources *system, struct nc_err *err);

/* {"cpu": "70m", "ephemeral-storage": "1Gi", "memory": "893Mi"}, as nodeadm writes it; NULL where
 * nothing is reserved. */
struct nc_value *nc_reserve_tree(const struct nc_resources *r);

/* Reads such a map. NC_ERR_CONFIG for what kubelet refuses: other keys than cpu, memory,
 * ephemeral-storage and pid, no quantities, negative ones. `field` names the map in the message. */
int nc_reserve_read(const struct nc_value *map, const char *field, struct nc_resources *ret,
                    struct nc_err *err);

#endif
