/*
 * Prediction of what the node will offer to pods.
 *
 * kubelet: allocatable = capacity - systemReserved - kubeReserved - evictionHard (memory.available,
 * nodefs.available), per resource, never below zero (pkg/kubelet/cm, pkg/kubelet/nodestatus).
 * Karpenter computes the same from the instance type before there is a host, with an estimate for
 * the memory that the hypervisor keeps and other rounding (karpenter-provider-aws
 * pkg/providers/instancetype/types.go). The two differ by design; having both makes the difference
 * explainable.
 */
#include "numbers.h"

#include <errno.h>
#include <stdio.h>

#include "nc/quantity.h"
#include "nc/str.h"
#include "origin.h"

#define MI ((int64_t)1 << 20)
#define GI ((int64_t)1 << 30)
#define ARM_MEMORY_MIB 64         /* Karpenter takes this off on arm64 first */
#define OVERHEAD_PARTS_OF_1000 75 /* VM_MEMORY_OVERHEAD_PERCENT=0.075 */

int nc_cpuset_count(const char *text, int64_t *ret_count, int64_t *ret_last) {
    nc_auto_free char *copy = nc_strdup(text);
    int64_t count = 0, last = -1;

    for (char *rest = copy, *item; (item = strsep(&rest, ","));) {
        char *dash = strchr(item, '-');
        uint64_t from, to;
        if (dash)
            *dash = '\0';
        if (nc_parse_u64(item, &from) < 0 || from >= NC_MAX_CPUS)
            return -EINVAL;
        to = from;
        if (dash && (nc_parse_u64(dash + 1, &to) < 0 || to >= NC_MAX_CPUS))
            return -EINVAL;
        if (to < from || (int64_t)from <= last) /* ascending: nothing is counted twice */
            return -EINVAL;
        count += (int64_t)(to - from) + 1;
        last = (int64_t)to;
    }
    *ret_count = count;
    *ret_last = last;
    return 0;
}

static int64_t or_unknown(int64_t v) {
    return v > 0 ? v : -1;
}

static int64_t millicores(int64_t cpus) {
    return cpus > 0 && cpus <= NC_MAX_CPUS ? cpus * 1000 : -1;
}

static int64_t or_zero(int64_t v) {
    return v < 0 ? 0 : v;
}

/* A threshold of evictionHard in bytes; 0 where there is none. */
static int64_t evicted(const struct nc_value *kubelet, const char *signal, int64_t capacity,
                       const char *otherwise, enum nc_percent_rule rule) {
    const char *given = nc_value_get_string(nc_value_get(kubelet, "evictionHard"), signal);
    const char *text = given ? given : otherwise;
    int64_t bytes;

    return text && nc_eviction_bytes(text, capacity, rule, &bytes) == 0 ? bytes : 0;
}

struct subtraction {
    const char *resource;
    int64_t capacity, kube, system, eviction;
};

/* -ERANGE, and nothing left, where more is kept back than there is. */
static int subtract(const struct subtraction *s, int64_t *ret, struct nc_err *err) {
    __int128 rest = (__int128)s->capacity - or_zero(s->kube) - or_zero(s->system) - s->eviction;
    const char *unit = nc_streq(s->resource, "cpu") ? "m" : "";

    *ret = s->capacity < 0 ? -1 : rest < 0 ? 0 : (int64_t)rest;
    if (s->capacity < 0 || rest >= 0)
        return 0;
    return nc_err_set(
        err, NC_ERR_CONFIG, ERANGE,
        "spec.kubelet.config.kubeReserved, systemReserved, evictionHard: %s: %lld%s is kept back "
        "of the %lld%s that there is: "
        "kubelet would not start",
        s->resource, (long long)(s->capacity - rest), unit, (long long)s->capacity, unit);
}

/* How many there are of reservedSystemCPUs, which have to be online (cmd/kubelet/app/server.go). */
static int count_reserved_cpus(const struct nc_facts *f, const struct nc_value *kubelet,
                               const struct nc_documents *docs, int64_t *ret, struct nc_err *err) {
    const struct nc_value *v = nc_value_get(kubelet, "reservedSystemCPUs");
    const char *text = nc_value_string(v);
    const int64_t highest = f->last_cpu > 0 ? f->last_cpu : f->cpus - 1;
    int64_t last;

    *ret = 0;
    if (!text || !*text)
        return 0;
    if (nc_cpuset_count(text, ret, &last) < 0)
        return nc_kubelet_error(err, docs, v,
                                "reservedSystemCPUs: a list of CPUs is needed (\"0-1,4\")");
    if (f->cpus > 0 && last > highest)
        return nc_kubelet_error(err, docs, v,
                                "reservedSystemCPUs: %s: CPU %lld is the last one of this "
                                "host: kubelet would not start",
                                text, (long long)highest);
    return 0;
}

static int64_t pods_of(const struct nc_facts *f, const struct nc_value *kubelet) {
    int64_t pods = nc_value_get_int(kubelet, "maxPods", 110),
            per_core = nc_value_get_int(kubelet, "podsPerCore", 0);

    if (per_core > 0 && f->cpus > 0 && per_core < pods / f->cpus + 1 && per_core * f->cpus < pods)
        return per_core * f->cpus;
    return pods;
}

/* What is reserved of memory on NUMA nodes; -1 where anything else is, of which kubelet keeps
 * nothing back. */
static __int128 numa_memory(const struct nc_value *list) {
    __int128 sum = 0;

    for (size_t i = 0; list && i < list->n; i++) {
        const struct nc_value *limits = nc_value_get(list->items[i], "limits"),
                              *memory = nc_value_get(limits, "memory");
        int64_t bytes;
        if (!memory || limits->n > 1 || nc_quantity_of(memory, NULL, &bytes) < 0)
            return -1;
        sum += bytes;
    }
    return sum;
}

/* Behind its validation kubelet's managers of CPUs and memory refuse what they have nothing of:
 * `kept`, CPU and memory. A percentage of the memory is kubelet's own to compute. */
static int check_managers(const struct nc_value *kubelet, const struct nc_documents *docs,
                          const struct nc_resources *kept, struct nc_err *err) {
    const struct nc_value *cpus = nc_value_get(kubelet, "cpuManagerPolicy"),
                          *policy = nc_value_get(kubelet, "memoryManagerPolicy"),
                          *list = nc_value_get(kubelet, "reservedMemory"),
                          *hard = nc_value_get(kubelet, "evictionHard");
    const char *available = nc_value_get_string(hard, "memory.available");

    if (nc_streq(nc_value_string(cpus), "static") && kept->cpu_millicores == 0)
        return nc_kubelet_error(err, docs, cpus,
                                "cpuManagerPolicy: static needs a reservation of CPU");
    if (nc_streq(nc_value_string(policy), "Static") && kept->memory_bytes >= 0
        && !strchr(available ? available : "", '%') && numa_memory(list) != kept->memory_bytes)
        return nc_kubelet_error(err, docs, list ? list : policy,
                                "reservedMemory: memoryManagerPolicy: Static needs all of "
                                "kubeReserved, systemReserved and evictionHard, %lld bytes of "
                                "memory, and nothing else",
                                (long long)kept->memory_bytes);
    return 0;
}

int nc_predict_kubelet(const struct nc_facts *f, const struct nc_value *kubelet,
                       const struct nc_documents *docs, struct nc_prediction *ret,
                       struct nc_err *err) {
    struct nc_resources kube, system, c, a;
    int64_t cpus = 0;
    int r = nc_reserve_both(kubelet, &kube, &system, err), first = 0;

    if (r == 0)
        r = count_reserved_cpus(f, kubelet, docs, &cpus, err);
    if (r < 0)
        return r;
    if (cpus > 0) { /* in place of the CPU of both */
        kube.cpu_millicores = -1;
        system.cpu_millicores = cpus * 1000;
    }
    c = (struct nc_resources){millicores(f->cpus), or_unknown(f->mem_total_bytes),
                              or_unknown(f->root_fs_bytes), pods_of(f, kubelet)};
    const struct subtraction all[] = {
        {"cpu", c.cpu_millicores, kube.cpu_millicores, system.cpu_millicores, 0},
        {"memory", c.memory_bytes, kube.memory_bytes, system.memory_bytes,
         evicted(kubelet, "memory.available", c.memory_bytes, NULL, NC_PERCENT_KUBELET)},
        {"ephemeral-storage", c.ephemeral_bytes, kube.ephemeral_bytes, system.ephemeral_bytes,
         evicted(kubelet, "nodefs.available", c.ephemeral_bytes, NULL, NC_PERCENT_KUBELET)},
    };
    int64_t *const decimals[] = {&a.cpu_millicores, &a.memory_bytes, &a.ephemeral_bytes};
    for (size_t i = 0; i < NC_ARRAY_SIZE(all); i++) {
        r = subtract(&all[i], decimals[i], first < 0 ? NULL : err);
        first = first < 0 ? first : r;
    }
    a.pods = c.pods;
    *ret = (struct nc_prediction){.capacity = c, .allocatable = a};
    const struct nc_resources kept = {
        c.cpu_millicores < 0 ? -1 : c.cpu_millicores - a.cpu_millicores,
        c.memory_bytes < 0 ? -1 : c.memory_bytes - a.memory_bytes, 0, 0};
    return first < 0 ? first : check_managers(kubelet, docs, &kept, err);
}

/* M - ceil(7.5 %), in MiB; on arm64 of 64 MiB less. */
static int64_t karpenter_memory(const struct nc_instance_type *t) {
    int64_t m = t->memory_mib - (nc_streq(t->arch, "arm64") ? ARM_MEMORY_MIB : 0);

    return t->memory_mib > 0 ? (m - (m * OVERHEAD_PARTS_OF_1000 + 999) / 1000) * MI : -1;
}

static void karpenter_capacity(const struct nc_instance_type *t, const struct nc_value *user,
                               int64_t disk_bytes, struct nc_resources *ret) {
    int64_t per_core = nc_value_get_int(user, "podsPerCore", 0),
            pods = nc_value_get_int(user, "maxPods", nc_max_pods_eni(t));

    if (per_core > 0 && per_core <= INT32_MAX && t->vcpus > 0 && t->vcpus <= NC_MAX_CPUS
        && per_core * t->vcpus < pods)
        pods = per_core * t->vcpus;
    *ret = (struct nc_resources){millicores(t->vcpus), karpenter_memory(t), disk_bytes, pods};
}

/* One key of the user's reservation over the standard one. */
static void karpenter_reserved(const struct nc_value *user, const char *field,
                               struct nc_resources *r) {
    struct nc_resources theirs;

    if (nc_reserve_read(nc_value_get(user, field), field, &theirs, NULL) < 0)
        return;
    r->cpu_millicores = theirs.cpu_millicores >= 0 ? theirs.cpu_millicores : r->cpu_millicores;
    r->memory_bytes = theirs.memory_bytes >= 0 ? theirs.memory_bytes : r->memory_bytes;
    r->ephemeral_bytes = theirs.ephemeral_bytes >= 0 ? theirs.ephemeral_bytes : r->ephemeral_bytes;
}

static int64_t rest_of(int64_t capacity, int64_t kube, int64_t system, int64_t eviction) {
    int64_t rest = capacity - or_zero(kube) - or_zero(system) - eviction;

    return capacity < 0 ? -1 : or_zero(rest);
}

static void karpenter_allocatable(const struct nc_resources *c, const struct nc_resources *kube,
                                  const struct nc_resources *system, const struct nc_value *user,
                                  struct nc_resources *ret) {
    *ret = (struct nc_resources){
        rest_of(c->cpu_millicores, kube->cpu_millicores, system->cpu_millicores, 0),
        rest_of(c->memory_bytes, kube->memory_bytes, system->memory_bytes,
                evicted(user, "memory.available", c->memory_bytes, "100Mi", NC_PERCENT_KARPENTER)),
        rest_of(c->ephemeral_bytes, kube->ephemeral_bytes, system->ephemeral_bytes,
                evicted(user, "nodefs.available", c->ephemeral_bytes, "10%", NC_PERCENT_KARPENTER)),
        c->pods,
    };
}

void nc_predict_karpenter(const struct nc_instance_type *t, const struct nc_value *user,
                          int64_t disk_bytes, struct nc_resources *capacity,
                          struct nc_resources *allocatable) {
    struct nc_resources kube = {nc_reserve_cpu_steps(t->vcpus),
                                (11 * or_zero(nc_max_pods_eni(t)) + 255) * MI, GI, -1};
    struct nc_resources system = {-1, -1, -1, -1};

    karpenter_capacity(t, user, disk_bytes, capacity);
    karpenter_reserved(user, "kubeReserved", &kube);
    karpenter_reserved(user, "systemReserved", &system);
    karpenter_allocatable(capacity, &kube, &system, user, allocatable);
}

void nc_predict_auto_mode(const struct nc_instance_type *t, int64_t disk_bytes,
                          struct nc_resources *capacity, struct nc_resources *allocatable) {
    struct nc_reserve_input in = {.policy = NC_RESERVATION_AUTO_MODE, .cpus = t->vcpus};
    struct nc_resources kube, system;

    karpenter_capacity(t, NULL, disk_bytes, capacity);
    capacity->pods -= capacity->pods > 2 ? 2 : 0;
    in.planned_pods = in.final_pods = or_zero(capacity->pods);
    if (nc_reserve(&in, &kube, &system, NULL) == 0)
        karpenter_allocatable(capacity, &kube, &system, NULL, allocatable);
}
