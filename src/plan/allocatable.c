/*
 * Why is allocatable not what was expected?
 *
 * Three numbers meet on a node: what the plan predicted, what kubelet reports, and what Karpenter's
 * estimate in the NodeClaim promised to the scheduler. A difference is not an error by itself; it
 * is explained, resource by resource, with the cause that the plan's own numbers show.
 */
#include <stdio.h>

#include "nc/plan.h"
#include "nc/quantity.h"
#include "nc/str.h"

struct resource {
    const char *name;
    int64_t capacity, predicted; /* the plan's, -1 unknown */
    bool is_milli;               /* cpu */
};

static int64_t amount_of(const struct nc_value *map, const struct resource *r) {
    int64_t amount;
    const struct nc_value *v = nc_value_get(map, r->name);

    return v && nc_quantity_of(v, r->is_milli ? &amount : NULL, r->is_milli ? NULL : &amount) == 0
               ? amount
               : -1;
}

static void format(const struct resource *r, int64_t amount, char ret[static 32]) {
    if (r->is_milli)
        nc_quantity_format_milli(amount, ret);
    else if (nc_streq(r->name, "pods"))
        snprintf(ret, 32, "%lld", (long long)amount);
    else
        nc_quantity_format_bytes(amount, ret);
}

/* Pages that are set aside as huge ones are no memory to kubelet. */
static int64_t huge_pages(const struct nc_value *capacity) {
    int64_t sum = 0;

    for (size_t i = 0; capacity && capacity->type == NC_VALUE_MAP && i < capacity->n; i++) {
        int64_t bytes;
        if (nc_starts_with(capacity->members[i].key, "hugepages-")
            && nc_quantity_of(capacity->members[i].value, NULL, &bytes) == 0 && bytes > 0
            && bytes < INT64_MAX - sum)
            sum += bytes;
    }
    return sum;
}

/* Predicted against reported. */
static void explain_report(const struct resource *r, int64_t capacity, int64_t allocatable,
                           int64_t huge, struct nc_strv *sentences) {
    char have[32], want[32], detail[96];

    if (r->predicted < 0 || allocatable < 0 || allocatable == r->predicted)
        return;
    format(r, allocatable, have);
    format(r, r->predicted, want);
    if (capacity >= 0 && r->capacity >= 0 && capacity != r->capacity) {
        char there[32], planned[32];
        format(r, capacity, there);
        format(r, r->capacity, planned);
        snprintf(detail, sizeof(detail), "its capacity is %s, the facts have %s", there, planned);
    } else if (huge > 0 && nc_streq(r->name, "memory") && r->predicted - allocatable == huge) {
        nc_copy_text(detail, sizeof(detail), "huge pages use the difference");
    } else {
        nc_copy_text(detail, sizeof(detail),
                     "kubelet reserves something else than the files configure");
    }
    nc_strv_addf(sentences, "%s: kubelet reports %s, predicted was %s: %s", r->name, have, want,
                 detail);
}

/* Memory differs nearly always: the first reason that the numbers show. */
static void memory_reason(const struct nc_plan *p, int64_t difference, char *ret, size_t size) {
    int64_t planned = p->eni_pods >= 0 ? (11 * p->eni_pods + 255) << 20 : -1;

    if (planned >= 0 && p->kube_reserved.memory_bytes >= 0
        && p->kube_reserved.memory_bytes != planned) {
        char here[32], there[32];
        nc_quantity_format_bytes(p->kube_reserved.memory_bytes, here);
        nc_quantity_format_bytes(planned, there);
        snprintf(ret, size,
                 "kubeReserved here is %s, Karpenter assumes %s for %lld pods unless spec.kubelet "
                 "is set",
                 here, there, (long long)p->eni_pods);
    } else if (difference > 0) {
        snprintf(
            ret, size,
            "Karpenter subtracts 7.5%% for the hypervisor until it has seen a node of this type");
    } else {
        nc_copy_text(ret, size,
                     "the host has less memory than Karpenter counts with: its pods may not fit");
    }
}

/* Reported (or, before registration, predicted) against the NodeClaim's estimate. */
static void explain_claim(const struct nc_plan *p, const struct resource *r, int64_t allocatable,
                          int64_t promised, struct nc_strv *sentences) {
    int64_t here = allocatable >= 0 ? allocatable : r->predicted;
    char have[32], want[32], reason[160];

    if (here < 0 || promised < 0 || here == promised)
        return;
    format(r, here, have);
    format(r, promised, want);
    if (nc_streq(r->name, "memory"))
        memory_reason(p, here - promised, reason, sizeof(reason));
    else if (nc_streq(r->name, "pods"))
        snprintf(reason, sizeof(reason), "maxPods here is %lld", (long long)p->max_pods);
    else if (r->is_milli && p->type.vcpus > 0 && p->capacity.cpu_millicores >= 0
             && p->capacity.cpu_millicores != p->type.vcpus * 1000)
        snprintf(reason, sizeof(reason), "%lld of the type's %lld vCPUs are online (CPU options?)",
                 (long long)(p->capacity.cpu_millicores / 1000), (long long)p->type.vcpus);
    else if (nc_streq(r->name, "ephemeral-storage"))
        snprintf(reason, sizeof(reason),
                 "the estimate counts the whole volume, the file system is smaller and rounded "
                 "differently");
    else
        nc_copy_text(reason, sizeof(reason), "kubeReserved or systemReserved differ");
    nc_strv_addf(sentences, "%s: the node offers %s, the NodeClaim has %s: %s", r->name, have, want,
                 reason);
}

void nc_allocatable_explain(const struct nc_plan *p, const struct nc_value *capacity,
                            const struct nc_value *allocatable, const struct nc_claim *claim,
                            struct nc_strv *sentences) {
    const struct resource resources[] = {
        {"cpu", p->capacity.cpu_millicores, p->allocatable.cpu_millicores, true},
        {"memory", p->capacity.memory_bytes, p->allocatable.memory_bytes, false},
        {"ephemeral-storage", p->capacity.ephemeral_bytes, p->allocatable.ephemeral_bytes, false},
        {"pods", p->capacity.pods, p->allocatable.pods, false},
    };
    int64_t huge = huge_pages(capacity);

    for (size_t i = 0; i < NC_ARRAY_SIZE(resources); i++) {
        const struct resource *r = &resources[i];
        int64_t reported = amount_of(allocatable, r);
        explain_report(r, amount_of(capacity, r), reported, huge, sentences);
        if (claim)
            explain_claim(p, r, reported, amount_of(claim->allocatable, r), sentences);
    }
}
