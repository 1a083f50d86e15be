/*
 * The rules of KubeletConfiguration that a user can break.
 *
 * A kubelet that refuses its configuration exits, is started again and exits again, and the node
 * never appears. What can be known beforehand is reported beforehand, with the line of the document
 * that is to blame. The rules are those of pkg/kubelet/apis/config/validation, of what
 * kubelet makes of its fields when it starts, and, where
 * Karpenter's schema is stricter for its twelve fields, of Karpenter.
 */
#include <errno.h>
#include <stdlib.h>
#include <strings.h>

#include "kubelet.h"
#include "nc/quantity.h"
#include "nc/str.h"
#include "nc/time.h"
#include "numbers.h"
#include "schema.h"

/* kubelet's JSON reader takes names in any case, behind the value that the plan has computed with.
 */
static int check_case(const struct nc_value *kubelet, const struct nc_documents *docs,
                      struct nc_err *err) {
    for (size_t i = 0; i < kubelet->n; i++)
        for (struct nc_field_at at = {0}; nc_schema_next(&nc_schema_kubelet, &at);)
            if (strcasecmp(kubelet->members[i].key, at.name) == 0
                && !nc_streq(kubelet->members[i].key, at.name))
                return nc_kubelet_error(err, docs, kubelet->members[i].value,
                                        "%.64s: unknown field, did you mean \"%s\"?",
                                        kubelet->members[i].key, at.name);
    return 0;
}

/* Each value by itself, as schema-kubelet.c has it: of the documents that was said before, but
 * flags and the API server's NodeClaim count here, too. */
static int check_fields(const struct nc_value *kubelet, const struct nc_documents *docs,
                        struct nc_err *err) {
    nc_cleanup(nc_documents_done) struct nc_documents own = NC_DOCUMENTS_INIT;

    nc_schema_check(&own, &nc_schema_kubelet, kubelet, "spec.kubelet.config");
    for (size_t i = 0; i < own.n_diags; i++) {
        const struct nc_value at = {.mark = own.diags[i].mark};
        if (own.diags[i].is_error)
            return nc_origin_error(err, docs, &at, "%s: %s", own.diags[i].path,
                                   own.diags[i].message);
    }
    return check_case(kubelet, docs, err);
}

static bool is_true(const struct nc_value *kubelet, const char *field) {
    return nc_value_bool(nc_value_get(kubelet, field), false);
}

static int check_image_age(const struct nc_value *kubelet, const struct nc_documents *docs,
                           struct nc_err *err) {
    uint64_t min_usec = (uint64_t)120 * 1000000, max_usec;

    (void)nc_kubelet_duration(kubelet, "imageMinimumGCAge", &min_usec);
    if (min_usec == 0) /* which is kubelet's word for its default */
        min_usec = (uint64_t)120 * 1000000;
    if (!nc_kubelet_duration(kubelet, "imageMaximumGCAge", &max_usec) || max_usec == 0
        || max_usec > min_usec)
        return 0;
    return nc_kubelet_error(err, docs, nc_value_get(kubelet, "imageMaximumGCAge"),
                            "imageMaximumGCAge: must be above imageMinimumGCAge (2m where "
                            "that is not set)");
}

/* kubelet's own defaults are 85 and 80: one of both alone can be wrong. Without the one to blame,
 * the other is to be right. */
static int check_image_gc(const struct nc_value *kubelet, const struct nc_documents *docs,
                          struct nc_err *err) {
    const struct nc_value *high_value = nc_value_get(kubelet, "imageGCHighThresholdPercent");
    const struct nc_value *low_value = nc_value_get(kubelet, "imageGCLowThresholdPercent");
    int64_t high = nc_value_get_int(kubelet, "imageGCHighThresholdPercent", 85);
    int64_t low = nc_value_get_int(kubelet, "imageGCLowThresholdPercent", 80);

    if (low < high)
        return 0;
    return nc_kubelet_error(err, docs,
                            low_value && (low >= 85 || !high_value) ? low_value : high_value,
                            "imageGCLowThresholdPercent: %lld must be below "
                            "imageGCHighThresholdPercent, which is "
                            "%lld (the defaults are 80 and 85)",
                            (long long)low, (long long)high);
}

/* 0, or a second and more; false: said. A missing field is 0. */
static bool shutdown_period(const struct nc_value *kubelet, const char *field,
                            const struct nc_documents *docs, uint64_t *ret, struct nc_err *err) {
    *ret = 0;
    if (!nc_kubelet_duration(kubelet, field, ret) || *ret == 0 || *ret >= 1000000)
        return true;
    nc_kubelet_error(err, docs, nc_value_get(kubelet, field), "%s: must be 0 or at least 1s",
                     field);
    return false;
}

static int check_shutdown(const struct nc_value *kubelet, const struct nc_documents *docs,
                          struct nc_err *err) {
    const struct nc_value *by_priority = nc_value_get(kubelet, "shutdownGracePeriodByPodPriority");
    uint64_t whole, critical;

    if (!shutdown_period(kubelet, "shutdownGracePeriod", docs, &whole, err)
        || !shutdown_period(kubelet, "shutdownGracePeriodCriticalPods", docs, &critical, err))
        return -EINVAL;
    if (critical > whole)
        return nc_kubelet_error(
            err, docs, nc_value_get(kubelet, "shutdownGracePeriodCriticalPods"),
            "shutdownGracePeriodCriticalPods: must not be above shutdownGracePeriod");
    if (by_priority && by_priority->n > 0 && whole + critical > 0)
        return nc_kubelet_error(
            err, docs, by_priority,
            "shutdownGracePeriodByPodPriority: cannot be set beside shutdownGracePeriod");
    return 0;
}

/* NULL where nothing is in it. */
static const struct nc_value *filled(const struct nc_value *kubelet, const char *field) {
    const struct nc_value *v = nc_value_get(kubelet, field);

    return v && (v->n > 0 || (v->type == NC_VALUE_STRING && *v->text)) ? v : NULL;
}

/* enforceNodeAllocatable, ["pods"] by default: "none" alone; the reserved groups need their
 * cgroups and what to limit them to, and each but "none" the cgroups of the pods. */
static int check_enforcement(const struct nc_value *kubelet, const struct nc_documents *docs,
                             struct nc_err *err) {
    static const char path[] = "enforceNodeAllocatable";
    const struct nc_value *list = nc_value_get(kubelet, "enforceNodeAllocatable"),
                          *qos = nc_value_get(kubelet, "cgroupsPerQOS");
    const bool has_list = list && list->type == NC_VALUE_LIST;
    const size_t n = has_list ? list->n : 0;

    for (size_t i = 0; i < n; i++) {
        const struct nc_value *v = list->items[i];
        const bool is_system = nc_starts_with(v->text, "system-reserved"),
                   is_kube = nc_starts_with(v->text, "kube-reserved");
        const char *group = is_system ? "systemReservedCgroup" : "kubeReservedCgroup",
                   *amounts = is_system ? "systemReserved" : "kubeReserved";
        for (size_t k = 0; k < i; k++) {
            if (nc_streq(v->text, list->items[k]->text))
                return nc_kubelet_error(err, docs, v, "%s: %s is there twice", path, v->text);
            if ((is_system && nc_starts_with(list->items[k]->text, "system-reserved"))
                || (is_kube && nc_starts_with(list->items[k]->text, "kube-reserved")))
                return nc_kubelet_error(err, docs, v, "%s: %s cannot be set beside %s", path,
                                        v->text, list->items[k]->text);
        }
        if (nc_streq(v->text, "none") && n > 1)
            return nc_kubelet_error(err, docs, v, "%s: none excludes other values", path);
        if ((is_system || is_kube) && (!filled(kubelet, group) || !filled(kubelet, amounts)))
            return nc_kubelet_error(err, docs, v, "%s: %s needs %s and %s", path, v->text, group,
                                    amounts);
    }
    if (!!nc_value_bool(qos, true)
        || (has_list && (n == 0 || nc_streq(list->items[0]->text, "none"))))
        return 0;
    return nc_kubelet_error(err, docs, qos,
                            "cgroupsPerQOS: false needs enforceNodeAllocatable: [none]");
}

static int check_combinations(const struct nc_value *kubelet, const struct nc_documents *docs,
                              struct nc_err *err) {
    const struct nc_value *gate =
        nc_value_path(kubelet, "featureGates.RotateKubeletServerCertificate");
    const struct nc_value *images = filled(kubelet, "preloadedImagesVerificationAllowlist"),
                          *handler = nc_value_get(kubelet, "enableSystemLogHandler"),
                          *logging = nc_value_get(kubelet, "logging"),
                          *options = filled(kubelet, "cpuManagerPolicyOptions"),
                          *modules = filled(logging, "vmodule"),
                          *format = filled(logging, "format"),
                          *cpus = filled(kubelet, "reservedSystemCPUs"),
                          *cgroups = filled(kubelet, "systemCgroups");

    if (cpus && (filled(kubelet, "systemReservedCgroup") || filled(kubelet, "kubeReservedCgroup")))
        return nc_kubelet_error(err, docs, cpus,
                                "reservedSystemCPUs: cannot be set beside "
                                "systemReservedCgroup or kubeReservedCgroup");
    if (options && !nc_value_says(kubelet, "cpuManagerPolicy", "static"))
        return nc_kubelet_error(err, docs, options,
                                "cpuManagerPolicyOptions: needs cpuManagerPolicy: static");
    if (is_true(kubelet, "serializeImagePulls")
        && nc_value_get_int(kubelet, "maxParallelImagePulls", 1) > 1)
        return nc_kubelet_error(err, docs, nc_value_get(kubelet, "maxParallelImagePulls"),
                                "maxParallelImagePulls: above 1 needs serializeImagePulls: false");
    if (is_true(kubelet, "enableSystemLogQuery") && !nc_value_bool(handler, true))
        return nc_kubelet_error(err, docs, handler,
                                "enableSystemLogHandler: enableSystemLogQuery needs it");
    if (modules && format && !nc_streq(format->text, "text"))
        return nc_kubelet_error(err, docs, modules, "logging.vmodule: needs format: text");
    if (cgroups && !filled(kubelet, "cgroupRoot"))
        return nc_kubelet_error(err, docs, cgroups, "systemCgroups: needs cgroupRoot");
    if (images
        && !nc_value_says(kubelet, "imagePullCredentialsVerificationPolicy",
                          "NeverVerifyAllowlistedImages"))
        return nc_kubelet_error(err, docs, images,
                                "preloadedImagesVerificationAllowlist: needs "
                                "imagePullCredentialsVerificationPolicy: "
                                "NeverVerifyAllowlistedImages");
    if (is_true(kubelet, "serverTLSBootstrap") && !nc_value_bool(gate, true))
        return nc_kubelet_error(
            err, docs, gate,
            "featureGates.RotateKubeletServerCertificate: serverTLSBootstrap needs it");
    return 0;
}

/* Other values are no value of the field; neither may be missing. */
static int check_identity(const struct nc_value *kubelet, const struct nc_documents *docs,
                          struct nc_err *err) {
    static const char fields[][12] = {"kind", "apiVersion"};

    for (size_t i = 0; i < NC_ARRAY_SIZE(fields); i++)
        if (!filled(kubelet, fields[i]))
            return nc_kubelet_error(err, docs, nc_value_get(kubelet, fields[i]),
                                    "%s: must not be empty", fields[i]);
    return 0;
}

/* The gates that the rules below read: the first kubelet 1.x in which each is beta, on by default,
 * and stable. As data/kubelet-gates.tsv has them. */
#define NEVER 255
enum gate {
    CUSTOM_CPU_CFS_QUOTA_PERIOD,
    DEFAULT_POD_SYSCTLS,
    GRACEFUL_NODE_SHUTDOWN,
    GRACEFUL_NODE_SHUTDOWN_BY_PRIORITY,
    IMAGE_MAXIMUM_GC_AGE,
    CRASH_LOOP_BACK_OFF_MAX,
    ENSURE_SECRET_PULLED_IMAGES,
    KUBELET_TRACING,
    LOGGING_ALPHA_OPTIONS,
    MEMORY_QOS,
    NODE_LOG_QUERY,
    NODE_SWAP,
};
static const char gate_names[] =
    "CustomCPUCFSQuotaPeriod\0DefaultPodSysctls\0GracefulNodeShutdown\0"
    "GracefulNodeShutdownBasedOnPodPriority\0ImageMaximumGCAge\0KubeletCrashLoopBackOffMax\0"
    "KubeletEnsureSecretPulledImages\0KubeletTracing\0LoggingAlphaOptions\0MemoryQoS\0"
    "NodeLogQuery\0NodeSwap\0";
static const struct {
    unsigned char beta, on, stable;
} gates[] = {
    [CUSTOM_CPU_CFS_QUOTA_PERIOD] = {NEVER, 36, 36},
    [DEFAULT_POD_SYSCTLS] = {NEVER, NEVER, NEVER},
    [GRACEFUL_NODE_SHUTDOWN] = {21, 21, NEVER},
    [GRACEFUL_NODE_SHUTDOWN_BY_PRIORITY] = {24, 24, NEVER},
    [IMAGE_MAXIMUM_GC_AGE] = {30, 30, 35},
    [CRASH_LOOP_BACK_OFF_MAX] = {35, 35, NEVER},
    [ENSURE_SECRET_PULLED_IMAGES] = {35, 35, NEVER},
    [KUBELET_TRACING] = {27, 27, 34},
    [LOGGING_ALPHA_OPTIONS] = {NEVER, NEVER, NEVER},
    [MEMORY_QOS] = {37, 37, NEVER},
    [NODE_LOG_QUERY] = {30, 36, 36},
    [NODE_SWAP] = {28, 30, 34},
};

/* Is it on in kubelet 1.minor? AllAlpha and AllBeta set those that are not named themselves. */
static bool is_gate_on(const struct nc_value *kubelet, enum gate gate, unsigned minor) {
    const struct nc_value *map = nc_value_get(kubelet, "featureGates"),
                          *own = nc_value_get(map, nc_name_at(gate_names, gate)),
                          *all =
                              nc_value_get(map, minor >= gates[gate].beta ? "AllBeta" : "AllAlpha");
    const bool is_on = minor >= gates[gate].on;

    return nc_value_bool(own, minor < gates[gate].stable ? nc_value_bool(all, is_on) : is_on);
}

static bool is_same(const struct nc_value *v, const char *text) {
    uint64_t usec, other;

    if (v->type == NC_VALUE_MAP)
        return v->n == 0 && nc_streq(text, "{}");
    if (v->type == NC_VALUE_FLOAT)
        return strtod(v->text, NULL) == strtod(text, NULL);
    if (v->type != NC_VALUE_STRING)
        return false;
    return nc_streq(v->text, text)
           || (nc_duration_parse(v->text, &usec) == 0 && nc_duration_parse(text, &other) == 0
               && usec == other);
}

/* Does it state anything? */
static bool is_given(const struct nc_value *v) {
    uint64_t usec;

    if (!v || v->type == NC_VALUE_NULL)
        return false;
    if (v->type == NC_VALUE_BOOL)
        return v->boolean;
    if (v->type == NC_VALUE_LIST)
        return v->n > 0;
    return v->type != NC_VALUE_STRING
           || (*v->text && !(nc_duration_parse(v->text, &usec) == 0 && usec == 0));
}

/* Fields that kubelet refuses without their gate, from the first minor that looks; `passes`: the
 * value that it takes nevertheless. */
static int check_gated(const struct nc_value *kubelet, unsigned minor,
                       const struct nc_documents *docs, struct nc_err *err) {
    static const char fields[] =
        "cpuCFSQuotaPeriod\0crashLoopBackOff.maxContainerRestartPeriod\0defaultPodSysctls\0"
        "enableSystemLogQuery\0imageMaximumGCAge\0imagePullCredentialsVerificationPolicy\0"
        "preloadedImagesVerificationAllowlist\0logging.options.text.splitStream\0"
        "logging.options.text.infoBufferSize\0logging.options.json.splitStream\0"
        "logging.options.json.infoBufferSize\0memoryReservationPolicy\0memorySwap.swapBehavior\0"
        "memoryThrottlingFactor\0shutdownGracePeriod\0shutdownGracePeriodCriticalPods\0"
        "shutdownGracePeriodByPodPriority\0tracing\0";
    static const struct {
        char passes[6];
        unsigned char gate, first; /* enum gate */
    } rows[] = {
        /* as fields has them */
        {"100ms", CUSTOM_CPU_CFS_QUOTA_PERIOD, 0},
        {"", CRASH_LOOP_BACK_OFF_MAX, 32},
        {"{}", DEFAULT_POD_SYSCTLS, 37},
        {"", NODE_LOG_QUERY, 27},
        {"", IMAGE_MAXIMUM_GC_AGE, 29},
        {"", ENSURE_SECRET_PULLED_IMAGES, 33},
        {"", ENSURE_SECRET_PULLED_IMAGES, 33},
        {"", LOGGING_ALPHA_OPTIONS, 0},
        {"0", LOGGING_ALPHA_OPTIONS, 0},
        {"", LOGGING_ALPHA_OPTIONS, 0},
        {"0", LOGGING_ALPHA_OPTIONS, 0},
        {"None", MEMORY_QOS, 36},
        {"", NODE_SWAP, 0},
        {"0.9", MEMORY_QOS, 37},
        {"", GRACEFUL_NODE_SHUTDOWN, 0},
        {"", GRACEFUL_NODE_SHUTDOWN, 0},
        {"", GRACEFUL_NODE_SHUTDOWN_BY_PRIORITY, 0},
        {"", KUBELET_TRACING, 0},
    };
    const char *field = fields;

    for (size_t i = 0; *field; i++, field = nc_next_name(field)) {
        const struct nc_value *v = nc_value_path(kubelet, field);
        if (minor >= rows[i].first && is_given(v) && !is_same(v, rows[i].passes)
            && !is_gate_on(kubelet, (enum gate)rows[i].gate, minor))
            return nc_kubelet_error(err, docs, v, "%s: needs the feature gate %s", field,
                                    nc_name_at(gate_names, rows[i].gate));
    }
    return 0;
}

/* What kubelets of some minors refuse. */
static int check_minor(const struct nc_value *kubelet, unsigned minor,
                       const struct nc_documents *docs, struct nc_err *err) {
    const struct nc_value *swap = nc_value_path(kubelet, "memorySwap.swapBehavior"),
                          *hidden = nc_value_get(kubelet, "showHiddenMetricsForVersion"),
                          *factor = nc_value_get(kubelet, "memoryThrottlingFactor"),
                          *once = nc_value_get(kubelet, "runOnce"),
                          *enforced = nc_value_get(kubelet, "enforceNodeAllocatable"),
                          *ids = nc_value_path(kubelet, "userNamespaces.idsPerPod");
    nc_auto_free char *before = nc_asprintf("1.%u", minor - 1);
    const double throttling = !factor                          ? 1
                              : factor->type == NC_VALUE_INT   ? (double)factor->integer
                              : factor->type == NC_VALUE_FLOAT ? strtod(factor->text, NULL)
                                                               : 1;

    if (minor >= 30 && nc_streq(nc_value_string(swap), "UnlimitedSwap"))
        return nc_kubelet_error(err, docs, swap,
                                "memorySwap.swapBehavior: UnlimitedSwap was removed in "
                                "Kubernetes 1.30; use NoSwap or LimitedSwap");
    for (size_t i = 0; minor < 32 && enforced && i < enforced->n; i++)
        if (strstr(enforced->items[i]->text, "-compressible"))
            return nc_kubelet_error(err, docs, enforced->items[i],
                                    "enforceNodeAllocatable: %s comes with Kubernetes 1.32",
                                    enforced->items[i]->text);
    if (is_given(hidden) && !is_same(hidden, before))
        return nc_kubelet_error(err, docs, hidden,
                                "showHiddenMetricsForVersion: only %s is possible", before);
    if (!(throttling > 0 && throttling <= 1))
        return nc_kubelet_error(err, docs, factor,
                                "memoryThrottlingFactor: must be above 0 and at most 1");
    if (nc_value_int(ids, 0) % 65536 != 0)
        return nc_kubelet_error(err, docs, ids,
                                "userNamespaces.idsPerPod: must be a multiple of 65536");
    if (nc_value_bool(once, false))
        return nc_kubelet_error(err, docs, once, "runOnce: must be false");
    return 0;
}

static int check_reserved_memory(const struct nc_value *kubelet, const struct nc_documents *docs,
                                 struct nc_err *err) {
    const struct nc_value *list = nc_value_get(kubelet, "reservedMemory"), *item;
    nc_auto_value struct nc_value *seen = nc_value_new_map();

    for (size_t i = 0; (item = nc_value_item(list, i)); i++) {
        const struct nc_value *limits = nc_value_get(item, "limits");
        const struct nc_member *m;
        for (size_t k = 0; (m = nc_value_member(limits, k)); k++) {
            nc_auto_free char *name = nc_asprintf("%s of NUMA node %lld", m->key,
                                                  (long long)nc_value_get_int(item, "numaNode", 0));
            int64_t milli = 0, value;
            if (nc_quantity_of(m->value, &milli, &value) < 0 || milli == 0)
                return nc_kubelet_error(err, docs, m->value,
                                        "reservedMemory: %.96s: must be above 0", name);
            if (nc_value_get(seen, name))
                return nc_kubelet_error(err, docs, m->value, "reservedMemory: %.96s is there twice",
                                        name);
            nc_value_set_bool(seen, name, true);
        }
    }
    return 0;
}

int nc_kubelet_check(const struct nc_value *kubelet, unsigned minor,
                     const struct nc_documents *docs, struct nc_err *err) {
    static int (*const checks[])(const struct nc_value *, const struct nc_documents *,
                                 struct nc_err *) = {
        check_identity,     check_fields,          check_image_gc,
        check_image_age,    check_shutdown,        check_enforcement,
        check_combinations, check_reserved_memory, nc_eviction_check,
    };

    for (size_t i = 0; i < NC_ARRAY_SIZE(checks); i++) {
        int r = checks[i](kubelet, docs, err);
        if (r < 0)
            return r;
    }
    if (check_gated(kubelet, minor, docs, err) < 0)
        return -EINVAL;
    return check_minor(kubelet, minor, docs, err);
}
