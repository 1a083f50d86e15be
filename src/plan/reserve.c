/*
 * kubeReserved and systemReserved by policy.
 *
 * `karpenter` is what Karpenter's scheduler subtracts for AL2, AL2023 and Custom images, and what
 * nodeadm writes: memory for as many pods as the interfaces allow, whatever maxPods became.
 * `actual` counts the pods that there can really be. `gke` and `aks` are the published formulas of
 * those services; `auto-mode` is EKS Auto Mode's node as it shows itself. `claim` is `karpenter`
 * with as much less memory as keeps what the NodeClaim has, but never less than half of it.
 */
#include "numbers.h"

#include <errno.h>
#include <stdio.h>

#include "nc/quantity.h"
#include "nc/str.h"

#define MI ((int64_t)1 << 20)
#define GI ((int64_t)1 << 30)

struct slice {
    int64_t upto; /* of the total, in the unit of the caller */
    int64_t parts_of_10000;
};

/* Each slice is cut off on its own: nodeadm, Bottlerocket and Karpenter round that way. */
static int64_t sum_slices(int64_t whole, const struct slice *slices, size_t n) {
    int64_t sum = 0, from = 0;

    for (size_t i = 0; i < n && whole > from; i++) {
        int64_t upto = whole < slices[i].upto ? whole : slices[i].upto;
        sum += (int64_t)((__int128)(upto - from) * slices[i].parts_of_10000 / 10000);
        from = slices[i].upto;
    }
    return sum;
}

int64_t nc_reserve_cpu_steps(int64_t cpus) {
    static const struct slice steps[] = {{1000, 600}, {2000, 100}, {4000, 50}, {INT64_MAX, 25}};

    return cpus > 0 && cpus <= NC_MAX_CPUS ? sum_slices(cpus * 1000, steps, NC_ARRAY_SIZE(steps))
                                           : 0;
}

/* The regressive share that GKE and, before 1.29, AKS reserve; below 1 GiB GKE takes 255 MiB flat.
 */
static int64_t regressive_memory(int64_t total) {
    static const struct slice steps[] = {
        {4 * GI, 2500}, {8 * GI, 2000}, {16 * GI, 1000}, {128 * GI, 600}, {INT64_MAX, 200}};

    return sum_slices(total, steps, NC_ARRAY_SIZE(steps));
}

/* AKS publishes 1:60 2:100 4:140 8:180 16:260 32:420 64:740; between and beyond the slope goes on.
 */
static int64_t aks_cpu(int64_t cpus) {
    static const struct slice slopes[] = {{1, 60}, {2, 40}, {4, 20}, {INT64_MAX, 10}};
    int64_t sum = 0, from = 0;

    for (size_t i = 0; i < NC_ARRAY_SIZE(slopes) && cpus > from; i++) {
        int64_t upto = cpus < slopes[i].upto ? cpus : slopes[i].upto;
        sum += (upto - from) * slopes[i].parts_of_10000;
        from = slopes[i].upto;
    }
    return sum;
}

/* From 1.29: 20 MB a pod and 50 MB, at most a quarter of the machine. */
static int64_t aks_memory(const struct nc_reserve_input *in) {
    int64_t by_pods = (20 * in->final_pods + 50) * MI, quarter = in->mem_total_bytes / 4;

    if (in->kubelet_minor < 29)
        return regressive_memory(in->mem_total_bytes);
    return by_pods < quarter ? by_pods : quarter;
}

static int64_t up_to_mi(int64_t bytes) {
    return (bytes + MI - 1) / MI * MI;
}

static int64_t memory_for_pods(int64_t pods) {
    return (11 * pods + 255) * MI;
}

int nc_reserve(const struct nc_reserve_input *in, struct nc_resources *kube,
               struct nc_resources *system, struct nc_err *err) {
    struct nc_resources k = {nc_reserve_cpu_steps(in->cpus), memory_for_pods(in->planned_pods), GI,
                             -1};
    struct nc_resources s = {-1, -1, -1, -1};

    if ((in->policy == NC_RESERVATION_GKE || in->policy == NC_RESERVATION_AKS)
        && in->mem_total_bytes <= 0)
        return nc_err_set(err, NC_ERR_HOST, ENODATA,
                          "reservation policy %s: the size of the memory is not known",
                          in->policy == NC_RESERVATION_GKE ? "gke" : "aks");
    switch (in->policy) {
    case NC_RESERVATION_KARPENTER:
        break;
    case NC_RESERVATION_ACTUAL:
        k.memory_bytes = memory_for_pods(in->final_pods);
        break;
    case NC_RESERVATION_GKE:
        k.memory_bytes =
            up_to_mi(in->mem_total_bytes < GI ? 255 * MI : regressive_memory(in->mem_total_bytes));
        break;
    case NC_RESERVATION_AKS:
        k.cpu_millicores = aks_cpu(in->cpus);
        k.memory_bytes = up_to_mi(aks_memory(in));
        break;
    case NC_RESERVATION_AUTO_MODE: /* c5a.large: 1480m and 2699Mi of 2 cores and 3788Mi remain */
        s.cpu_millicores = 450;
        s.memory_bytes = 437 * MI;
        break;
    case NC_RESERVATION_EXPLICIT:
        k = s;
        break;
    case NC_RESERVATION_CLAIM:
        k.memory_bytes = in->short_bytes < k.memory_bytes / 2
                             ? k.memory_bytes - up_to_mi(in->short_bytes)
                             : up_to_mi(k.memory_bytes / 2);
        break;
    }
    *kube = k;
    *system = s;
    return 0;
}

struct nc_value *nc_reserve_tree(const struct nc_resources *r) {
    struct nc_value *map = nc_value_new_map();
    char text[32];

    if (r->cpu_millicores >= 0) {
        snprintf(text, sizeof(text), "%lldm", (long long)r->cpu_millicores);
        nc_value_set_string(map, "cpu", text);
    }
    if (r->ephemeral_bytes >= 0) {
        nc_quantity_format_bytes(r->ephemeral_bytes, text);
        nc_value_set_string(map, "ephemeral-storage", text);
    }
    if (r->memory_bytes >= 0) {
        snprintf(text, sizeof(text), "%lldMi", (long long)(r->memory_bytes / MI));
        nc_value_set_string(map, "memory", text);
    }
    return map->n > 0 ? map : nc_value_free(map);
}

/* The place in `r` for a key, NULL where kubelet reserves no such thing; pid is checked but counted
 * nowhere. */
static int64_t *place_of(struct nc_resources *r, const char *key, int64_t *pid, bool *is_milli) {
    *is_milli = nc_streq(key, "cpu");
    if (*is_milli)
        return &r->cpu_millicores;
    if (nc_streq(key, "memory"))
        return &r->memory_bytes;
    if (nc_streq(key, "ephemeral-storage"))
        return &r->ephemeral_bytes;
    return nc_streq(key, "pid") ? pid : NULL;
}

int nc_reserve_read(const struct nc_value *map, const char *field, struct nc_resources *ret,
                    struct nc_err *err) {
    struct nc_resources r = {-1, -1, -1, -1};

    /* What is no map or no quantity was refused by the schema, with better words. */
    if (map && map->type != NC_VALUE_MAP && map->type != NC_VALUE_NULL)
        return nc_err_config(err, "spec.kubelet.config.%s: a map is needed", field);
    for (size_t i = 0; map && i < map->n; i++) {
        const struct nc_member *m = &map->members[i];
        int64_t amount, pid;
        bool is_milli;
        int64_t *place = place_of(&r, m->key, &pid, &is_milli);
        const int e =
            place ? nc_quantity_of(m->value, is_milli ? &amount : NULL, is_milli ? NULL : &amount)
                  : -EINVAL;

        if (e < 0 || amount < 0)
            return nc_err_set(err, NC_ERR_CONFIG, e < 0 ? -e : EINVAL,
                              "spec.kubelet.config.%s.%.64s: %s", field, m->key,
                              e == -ERANGE ? "too large" : "cannot be reserved");
        *place = amount;
    }
    *ret = r;
    return 0;
}

int nc_reserve_both(const struct nc_value *kubelet, struct nc_resources *kube,
                    struct nc_resources *system, struct nc_err *err) {
    const int r = nc_reserve_read(nc_value_get(kubelet, "kubeReserved"), "kubeReserved", kube, err);

    return r < 0 ? r
                 : nc_reserve_read(nc_value_get(kubelet, "systemReserved"), "systemReserved",
                                   system, err);
}
