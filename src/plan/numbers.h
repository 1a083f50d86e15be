/*
 * What a plan computes: addresses, pods, reservations, thresholds, capacity.
 */
#ifndef NC_PLAN_NUMBERS_H
#define NC_PLAN_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/plan.h"

/* --- cidr.c: IP addresses and networks, computed on bytes, never on text */

/* The DNS service's address: the network's address + 10, for both families ("10.100.5.7/16" ->
 * "10.100.0.10", "fd00::/108" -> "fd00::a"). -EINVAL: no CIDR; -ERANGE: the network is too small to
 * hold that address. ret holds at least 46 bytes. */
int nc_cidr_dns(const char *cidr, char *ret, size_t size);

/* 4 or 6, or 0 where the text is neither an address nor a CIDR. */
int nc_address_family(const char *text);

/* --- expression.c: maxPodsExpression and those of an EC2NodeClass, the part of CEL that is
 * honoured
 */

struct nc_expression_variables {
    int64_t default_enis; /* interfaces of the default network card */
    int64_t ips_per_eni;
    int64_t max_pods;    /* what the instance type alone gives; of a reservation: the final ones */
    int64_t least, most; /* what the result may be */
    /* Of a NodeClass alone: where the text is NULL, these, texts and their functions are unknown.
     */
    int64_t vcpus, memory_mib;
    const char *instance_type;
};

/* Computes `text`. 0; -EINVAL: no expression; -ERANGE: it has no such value for these variables.
 * Both with one sentence in `why`. */
int nc_expression_evaluate(const char *text, const struct nc_expression_variables *v, int64_t *ret,
                           char *why, size_t size);

/* --- maxpods.c: how many pods, from the instance type, by the mode that was requested */

struct nc_max_pods {
    int64_t eni;        /* E * (I - 1) + 2, whatever the mode is; -1 unknown */
    int64_t base;       /* what config.json gets */
    int64_t expression; /* what maxPodsExpression gives; 0 = there is none, or it does not count */
    int64_t reserved;   /* what the policy `karpenter` reserves memory for */
    char from[160];     /* where base comes from */
};

/* E * (I - 1) + 2 of the default network card, -1 where the type is not known. */
int64_t nc_max_pods_eni(const struct nc_instance_type *t);

/* Decides; appends to warnings and unsupported of p. NC_ERR_CONFIG: `explicit` without a number
 * that kubelet would take, or an expression that gives none and that the documents do not allow to
 * pass over. */
int nc_max_pods_decide(const struct nc_plan_input *in, const struct nc_instance_type *type,
                       struct nc_max_pods *ret, struct nc_plan *p, struct nc_err *err);

/* --- reserve.c: kubeReserved and systemReserved */

#define NC_MAX_CPUS 65536 /* more is no number of CPUs */

struct nc_reserve_input {
    enum nc_reservation policy; /* 0 = karpenter */
    int64_t cpus;               /* online, -1 unknown */
    int64_t mem_total_bytes;    /* -1 unknown */
    int64_t planned_pods;       /* P of `karpenter`, `auto-mode` */
    int64_t final_pods;         /* P of `actual`, `aks` */
    int64_t short_bytes;        /* of `claim`: what the NodeClaim has more than the node offers */
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

/* The two of a configuration of kubelet, as kubelet reads them. */
int nc_reserve_both(const struct nc_value *kubelet, struct nc_resources *kube,
                    struct nc_resources *system, struct nc_err *err);

/* --- eviction.c: what thresholds mean in bytes, and which ones are refused */

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

/* --- predict.c: what kubelet will report of this host, and what Karpenter expected of it */

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

enum nc_resource {
    NC_RESOURCE_CPU,
    NC_RESOURCE_MEMORY,
    NC_RESOURCE_STORAGE,
    NC_RESOURCE_PODS,
    NC_RESOURCES
};
extern const char nc_resource_names[NC_RESOURCES][20]; /* as Kubernetes has them */
/* An amount as a quantity: of the CPU in millicores. */
void nc_resource_format(enum nc_resource kind, int64_t amount, char text[static 32]);
/* One of these, by index: as a quantity, and the number; -1 and no
 * text where it is not known. */
int64_t nc_resource_text(const struct nc_resources *r, size_t i, char text[static 32]);

/* How many CPUs a cpuset list ("0-1,4") has, and its highest number; -EINVAL. */
int nc_cpuset_count(const char *text, int64_t *ret_count, int64_t *ret_last);

#endif
