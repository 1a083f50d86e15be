/*
 * Why is allocatable not what was expected?
 *
 * Three numbers meet on a node: what the plan predicted, what kubelet reports, and what Karpenter's
 * estimate in the NodeClaim promised to the scheduler. A difference is not an error by itself; it
 * is explained, resource by resource, with the cause that the plan's own numbers show.
 */
#include "nc/plan.h"
#include "nc/quantity.h"
#include "nc/str.h"
#include "numbers.h"

struct resource {
    enum nc_resource kind;
    int64_t capacity, predicted; /* the plan's, -1 unknown */
};

static int64_t amount_of(const struct nc_value *map, enum nc_resource kind) {
    const bool is_milli = kind == NC_RESOURCE_CPU;
    int64_t amount;
    const struct nc_value *v = nc_value_get(map, nc_resource_names[kind]);

    return v && nc_quantity_of(v, is_milli ? &amount : NULL, is_milli ? NULL : &amount) == 0
               ? amount
               : -1;
}

/* Pages that are set aside as huge ones are no memory to kubelet. */
static int64_t huge_pages(const struct nc_value *capacity) {
    const struct nc_member *m;
    int64_t sum = 0;

    for (size_t i = 0; (m = nc_value_member(capacity, i)); i++) {
        int64_t bytes;
        if (nc_starts_with(m->key, "hugepages-") && nc_quantity_of(m->value, NULL, &bytes) == 0
            && bytes > 0 && bytes < INT64_MAX - sum)
            sum += bytes;
    }
    return sum;
}

/* Predicted against reported. */
static void explain_report(const struct resource *r, int64_t capacity, int64_t allocatable,
                           int64_t huge, struct nc_strv *sentences) {
    char have[32], want[32];
    nc_auto_free char *detail = NULL;

    if (r->predicted < 0 || allocatable < 0 || allocatable == r->predicted)
        return;
    nc_resource_format(r->kind, allocatable, have);
    nc_resource_format(r->kind, r->predicted, want);
    if (capacity >= 0 && r->capacity >= 0 && capacity != r->capacity) {
        char there[32], planned[32];
        nc_resource_format(r->kind, capacity, there);
        nc_resource_format(r->kind, r->capacity, planned);
        detail = nc_asprintf("its capacity is %s, the facts have %s", there, planned);
    } else if (huge > 0 && r->kind == NC_RESOURCE_MEMORY && r->predicted - allocatable == huge) {
        detail = nc_strdup("huge pages use the difference");
    } else {
        detail = nc_strdup("kubelet reserves something else than the files configure");
    }
    nc_strv_addf(sentences, "%s: kubelet reports %s, predicted was %s: %s",
                 nc_resource_names[r->kind], have, want, detail);
}

/* Memory differs nearly always: the first reason that the numbers show. */
static char *memory_reason(const struct nc_plan *p, int64_t difference) {
    int64_t planned = p->eni_pods >= 0 ? (11 * p->eni_pods + 255) << 20 : -1;

    if (planned >= 0 && p->kube_reserved.memory_bytes >= 0
        && p->kube_reserved.memory_bytes != planned) {
        char here[32], there[32];
        nc_quantity_format_bytes(p->kube_reserved.memory_bytes, here);
        nc_quantity_format_bytes(planned, there);
        return nc_asprintf("kubeReserved here is %s, Karpenter assumes %s for %lld pods unless "
                           "spec.kubelet is set",
                           here, there, (long long)p->eni_pods);
    }
    return nc_strdup(
        difference > 0
            ? "Karpenter subtracts 7.5% for the hypervisor until it has seen a node of this type"
            : "the host has less memory than Karpenter counts with: its pods may not fit");
}

static char *reason_of(const struct nc_plan *p, enum nc_resource kind, int64_t difference) {
    switch (kind) {
    case NC_RESOURCE_MEMORY:
        return memory_reason(p, difference);
    case NC_RESOURCE_PODS:
        return nc_asprintf("maxPods here is %lld", (long long)p->max_pods);
    case NC_RESOURCE_STORAGE:
        return nc_strdup("the estimate counts the whole volume, the file system is smaller and "
                         "rounded differently");
    case NC_RESOURCE_CPU:
    case NC_RESOURCES:
        break;
    }
    return p->type.vcpus > 0 && p->capacity.cpu_millicores >= 0
                   && p->capacity.cpu_millicores != p->type.vcpus * 1000
               ? nc_asprintf("%lld of the type's %lld vCPUs are online (CPU options?)",
                             (long long)(p->capacity.cpu_millicores / 1000),
                             (long long)p->type.vcpus)
               : nc_strdup("kubeReserved or systemReserved differ");
}

/* Reported (or, before registration, predicted) against the NodeClaim's estimate. */
static void explain_claim(const struct nc_plan *p, const struct resource *r, int64_t allocatable,
                          int64_t promised, struct nc_strv *sentences) {
    int64_t here = allocatable >= 0 ? allocatable : r->predicted;
    char have[32], want[32];

    if (here < 0 || promised < 0 || here == promised)
        return;
    nc_auto_free char *reason = reason_of(p, r->kind, here - promised);
    nc_resource_format(r->kind, here, have);
    nc_resource_format(r->kind, promised, want);
    nc_strv_addf(sentences, "%s: the node offers %s, the NodeClaim has %s: %s",
                 nc_resource_names[r->kind], have, want, reason);
}

void nc_allocatable_explain(const struct nc_plan *p, const struct nc_value *capacity,
                            const struct nc_value *allocatable, const struct nc_claim *claim,
                            struct nc_strv *sentences) {
    const struct resource resources[] = {
        {NC_RESOURCE_CPU, p->capacity.cpu_millicores, p->allocatable.cpu_millicores},
        {NC_RESOURCE_MEMORY, p->capacity.memory_bytes, p->allocatable.memory_bytes},
        {NC_RESOURCE_STORAGE, p->capacity.ephemeral_bytes, p->allocatable.ephemeral_bytes},
        {NC_RESOURCE_PODS, p->capacity.pods, p->allocatable.pods},
    };
    int64_t huge = huge_pages(capacity);

    for (size_t i = 0; i < NC_ARRAY_SIZE(resources); i++) {
        const struct resource *r = &resources[i];
        int64_t reported = amount_of(allocatable, r->kind);
        explain_report(r, amount_of(capacity, r->kind), reported, huge, sentences);
        if (claim)
            explain_claim(p, r, reported, amount_of(claim->allocatable, r->kind), sentences);
    }
}
