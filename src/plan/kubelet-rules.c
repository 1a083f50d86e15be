/*
 * The rules of KubeletConfiguration that a user can break.
 *
 * A kubelet that refuses its configuration exits, is started again and exits again, and the node
 * never appears. What can be known beforehand is reported beforehand, with the line of the document
 * that is to blame. The rules are those of pkg/kubelet/apis/config/validation and, where
 * Karpenter's schema is stricter for its twelve fields, of Karpenter.
 */
#include <errno.h>
#include <stdlib.h>

#include "kubelet.h"
#include "nc/str.h"
#include "numbers.h"
#include "schema.h"

/* Whole numbers and truth values, as schema-kubelet.c has them: here flags count, too. */
static int check_fields(const struct nc_value *kubelet, const struct nc_documents *docs,
                        struct nc_err *err) {
    const struct nc_schema *schema = &nc_schema_kubelet;

    for (size_t i = 0; i < schema->n; i++) {
        const struct nc_field *f = &schema->fields[i];
        const struct nc_value *v = nc_value_get(kubelet, f->name);
        int64_t min, max;
        if (!v || v->type == NC_VALUE_NULL)
            continue;
        if (f->type == NC_FIELD_BOOL && v->type != NC_VALUE_BOOL)
            return nc_origin_error(err, docs, v, "kubelet.%s: true or false is needed", f->name);
        if (f->type == NC_FIELD_INT && v->type != NC_VALUE_INT)
            return nc_origin_error(err, docs, v, "kubelet.%s: an integer is required", f->name);
        if (f->type == NC_FIELD_INT && !nc_field_in_range(f, v->integer, &min, &max))
            return nc_origin_error(err, docs, v, "kubelet.%s: %lld is not between %lld and %lld",
                                   f->name, (long long)v->integer, (long long)min, (long long)max);
    }
    return 0;
}

static int check_gates(const struct nc_value *kubelet, const struct nc_documents *docs,
                       struct nc_err *err) {
    const struct nc_value *gates = nc_value_get(kubelet, "featureGates");

    for (size_t i = 0; gates && i < gates->n && gates->type == NC_VALUE_MAP; i++)
        if (gates->members[i].value->type != NC_VALUE_BOOL)
            return nc_origin_error(err, docs, gates->members[i].value,
                                   "kubelet.featureGates.%.64s: true or false is needed",
                                   gates->members[i].key);
    return 0;
}

static int64_t int_or(const struct nc_value *kubelet, const char *field, int64_t otherwise) {
    const struct nc_value *v = nc_value_get(kubelet, field);

    return v && v->type == NC_VALUE_INT ? v->integer : otherwise;
}

static bool is_true(const struct nc_value *v) {
    return v && v->type == NC_VALUE_BOOL && v->boolean;
}

/* kubelet's own defaults are 85 and 80: one of both alone can be wrong. */
static int check_image_gc(const struct nc_value *kubelet, const struct nc_documents *docs,
                          struct nc_err *err) {
    const struct nc_value *high_value = nc_value_get(kubelet, "imageGCHighThresholdPercent");
    const struct nc_value *low_value = nc_value_get(kubelet, "imageGCLowThresholdPercent");
    int64_t high = int_or(kubelet, "imageGCHighThresholdPercent", 85);
    int64_t low = int_or(kubelet, "imageGCLowThresholdPercent", 80);

    if (low < high)
        return 0;
    return nc_origin_error(
        err, docs, low_value ? low_value : high_value,
        "kubelet.imageGCLowThresholdPercent: %lld must be below imageGCHighThresholdPercent, %lld",
        (long long)low, (long long)high);
}

/* 0, or a second and more; false: said. A missing field is 0. */
static bool shutdown_period(const struct nc_value *kubelet, const char *field,
                            const struct nc_documents *docs, uint64_t *ret, struct nc_err *err) {
    const struct nc_value *v = nc_value_get(kubelet, field);

    *ret = 0;
    if (!v || v->type == NC_VALUE_NULL)
        return true;
    if (!nc_kubelet_duration(kubelet, field, ret)) {
        nc_origin_error(err, docs, v, "kubelet.%s: a duration is needed (\"2m30s\")", field);
        return false;
    }
    if (*ret > 0 && *ret < 1000000) {
        nc_origin_error(err, docs, v, "kubelet.%s: must be 0 or at least 1s", field);
        return false;
    }
    return true;
}

static int check_shutdown(const struct nc_value *kubelet, const struct nc_documents *docs,
                          struct nc_err *err) {
    const struct nc_value *by_priority = nc_value_get(kubelet, "shutdownGracePeriodByPodPriority");
    uint64_t whole, critical;

    if (!shutdown_period(kubelet, "shutdownGracePeriod", docs, &whole, err)
        || !shutdown_period(kubelet, "shutdownGracePeriodCriticalPods", docs, &critical, err))
        return -EINVAL;
    if (critical > whole)
        return nc_origin_error(
            err, docs, nc_value_get(kubelet, "shutdownGracePeriodCriticalPods"),
            "kubelet.shutdownGracePeriodCriticalPods: must not be above shutdownGracePeriod");
    if (by_priority && by_priority->n > 0 && whole + critical > 0)
        return nc_origin_error(
            err, docs, by_priority,
            "kubelet.shutdownGracePeriodByPodPriority: cannot be set beside shutdownGracePeriod");
    return 0;
}

static bool is_set(const struct nc_value *kubelet, const char *field) {
    const char *text = nc_value_get_string(kubelet, field);

    return text && *text;
}

/* enforceNodeAllocatable: "none" alone; the reserved groups need their cgroups. */
static int check_enforcement(const struct nc_value *kubelet, const struct nc_documents *docs,
                             struct nc_err *err) {
    static const char *const known[] = {"pods",
                                        "system-reserved",
                                        "kube-reserved",
                                        "system-reserved-compressible",
                                        "kube-reserved-compressible",
                                        "none",
                                        "",
                                        NULL};
    const struct nc_value *list = nc_value_get(kubelet, "enforceNodeAllocatable");

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++) {
        const char *text = nc_value_string(list->items[i]);
        if (!nc_is_one_of(text, known))
            return nc_origin_error(
                err, docs, list->items[i],
                "kubelet.enforceNodeAllocatable: pods, system-reserved, kube-reserved or none");
        if (nc_streq(text, "none") && list->n > 1)
            return nc_origin_error(err, docs, list->items[i],
                                   "kubelet.enforceNodeAllocatable: none excludes other values");
        if (nc_starts_with(text, "system-reserved") && !is_set(kubelet, "systemReservedCgroup"))
            return nc_origin_error(err, docs, list->items[i],
                                   "kubelet.enforceNodeAllocatable: %s needs systemReservedCgroup",
                                   text);
        if (nc_starts_with(text, "kube-reserved") && !is_set(kubelet, "kubeReservedCgroup"))
            return nc_origin_error(err, docs, list->items[i],
                                   "kubelet.enforceNodeAllocatable: %s needs kubeReservedCgroup",
                                   text);
    }
    return 0;
}

static int check_combinations(const struct nc_value *kubelet, const struct nc_documents *docs,
                              struct nc_err *err) {
    const struct nc_value *gate =
        nc_value_get(nc_value_get(kubelet, "featureGates"), "RotateKubeletServerCertificate");

    if (is_set(kubelet, "reservedSystemCPUs")
        && (is_set(kubelet, "systemReservedCgroup") || is_set(kubelet, "kubeReservedCgroup")))
        return nc_origin_error(err, docs, nc_value_get(kubelet, "reservedSystemCPUs"),
                               "kubelet.reservedSystemCPUs: cannot be set beside "
                               "systemReservedCgroup or kubeReservedCgroup");
    if (is_true(nc_value_get(kubelet, "serializeImagePulls"))
        && int_or(kubelet, "maxParallelImagePulls", 1) > 1)
        return nc_origin_error(
            err, docs, nc_value_get(kubelet, "maxParallelImagePulls"),
            "kubelet.maxParallelImagePulls: above 1 needs serializeImagePulls: false");
    if (is_true(nc_value_get(kubelet, "serverTLSBootstrap")) && gate && !is_true(gate))
        return nc_origin_error(
            err, docs, gate,
            "kubelet.featureGates.RotateKubeletServerCertificate: serverTLSBootstrap needs it");
    return 0;
}

static int check_identity(const struct nc_value *kubelet, const struct nc_documents *docs,
                          struct nc_err *err) {
    const struct nc_value *kind = nc_value_get(kubelet, "kind"),
                          *version = nc_value_get(kubelet, "apiVersion");

    if (!nc_streq(nc_value_string(kind), "KubeletConfiguration"))
        return nc_origin_error(err, docs, kind, "kubelet.kind: KubeletConfiguration is expected");
    if (!nc_streq(nc_value_string(version), "kubelet.config.k8s.io/v1beta1"))
        return nc_origin_error(err, docs, version,
                               "kubelet.apiVersion: kubelet.config.k8s.io/v1beta1 is expected");
    return 0;
}

/* Fields that kubelet refuses since 1.37 without their feature gate. MemoryQoS is on by default,
 * and 0.9, the default of earlier kubelets, passes without it. */
static int check_gated(const struct nc_value *kubelet, const struct nc_documents *docs,
                       struct nc_err *err) {
    const struct nc_value *gates = nc_value_get(kubelet, "featureGates"),
                          *qos = nc_value_get(gates, "MemoryQoS"),
                          *factor = nc_value_get(kubelet, "memoryThrottlingFactor"),
                          *sysctls = nc_value_get(kubelet, "defaultPodSysctls");
    const bool is_old_default =
        factor && factor->type == NC_VALUE_FLOAT && strtod(factor->text, NULL) == 0.9;

    if (qos && !is_true(qos) && factor && factor->type != NC_VALUE_NULL && !is_old_default)
        return nc_origin_error(err, docs, factor,
                               "kubelet.memoryThrottlingFactor: needs the feature gate MemoryQoS");
    if (sysctls && sysctls->n > 0 && !is_true(nc_value_get(gates, "DefaultPodSysctls")))
        return nc_origin_error(
            err, docs, sysctls,
            "kubelet.defaultPodSysctls: needs the feature gate DefaultPodSysctls");
    return 0;
}

int nc_kubelet_check(const struct nc_value *kubelet, unsigned minor,
                     const struct nc_documents *docs, struct nc_err *err) {
    static int (*const checks[])(const struct nc_value *, const struct nc_documents *,
                                 struct nc_err *) = {
        check_identity, check_fields,      check_gates,        check_image_gc,
        check_shutdown, check_enforcement, check_combinations, nc_eviction_check,
    };

    for (size_t i = 0; i < NC_ARRAY_SIZE(checks); i++) {
        int r = checks[i](kubelet, docs, err);
        if (r < 0)
            return r;
    }
    return minor >= 37 ? check_gated(kubelet, docs, err) : 0;
}
