/*
 * KubeletConfiguration (kubelet.config.k8s.io/v1beta1): one row a field, with its type, what it may
 * hold, the flag of kubelet that sets it, and whether a v1beta1 NodeClaim may carry it.
 *
 * Source: k8s.io/kubelet config/v1beta1/types.go up to Kubernetes 1.37, the ranges of
 * pkg/kubelet/apis/config/validation, the flags of cmd/kubelet/app/options (AddKubeletConfigFlags).
 * A field that one kubelet has and another has not is known here. Unknown fields pass through with
 * a warning, because kubelet only warns of them too; a wrong type is an error, because kubelet
 * refuses to start on it. Rules across fields belong to the plan, which knows the final values.
 */
#include "schema.h"

#include "nc/quantity.h"
#include "nc/str.h"
#include "shapes.h"

#define F(n, t, ...)                                                                               \
    { .name = (n), .type = NC_FIELD_##t, __VA_ARGS__ }
/* Go reads no duration in an empty text, and in kubelet's configuration that is the whole file's
 * end. */
#define DURATION(n, f, ...) F(n, DURATION, .flags = NC_FIELD_MAY_BE_EMPTY | (f), __VA_ARGS__)
#define LASTING(n, f, low, high, what)                                                             \
    DURATION(n, f, .min = (low), .max = (high), .wanted = "a duration " what)
#define NAMED NC_FIELD_NAMED_FLAG
#define OTHER(name) .flags = NC_FIELD_OTHER_FLAG, .flag = (name)
#define ONE_OF(n, list, ...) F(n, STRING, .allowed = (list), __VA_ARGS__)
#define BETWEEN(n, low, high, ...) F(n, INT, .min = (low), .max = (high), __VA_ARGS__)
#define OBJECT(n, s) F(n, OBJECT, .object = &(s))
#define OBJECTS(n, s) F(n, OBJECTS, .object = &(s))
#define EVICTION(n, ...) F(n, STRING_MAP, .key = &eviction_signal, __VA_ARGS__)

static const char kinds[] = "KubeletConfiguration\0";
static const char api_versions[] = "kubelet.config.k8s.io/v1beta1\0";
static const char effects[] = "NoSchedule\0PreferNoSchedule\0NoExecute\0";
static const char cgroup_drivers[] = "systemd\0cgroupfs\0";
static const char cpu_policies[] = "none\0static\0";
static const char memory_policies[] = "None\0Static\0";
static const char topology_policies[] = "none\0best-effort\0restricted\0single-numa-node\0";
static const char topology_scopes[] = "container\0pod\0";
static const char hairpin_modes[] = "promiscuous-bridge\0hairpin-veth\0none\0";
static const char authorization_modes[] = "AlwaysAllow\0Webhook\0";
static const char reserved_resources[] = "cpu\0memory\0ephemeral-storage\0pid\0";
const struct nc_field nc_reserved_resource = {.allowed = reserved_resources};

/* pkg/kubelet/eviction/api: signals that can be set */
const char nc_eviction_signals[] =
    "memory.available\0nodefs.available\0nodefs.inodesFree\0imagefs.available\0"
    "imagefs.inodesFree\0containerfs.available\0containerfs.inodesFree\0"
    "pid.available\0allocatableMemory.available\0";
static const struct nc_field eviction_signal = {.allowed = nc_eviction_signals};

static const struct nc_field taint_fields[] = {
    {.name = "key",
     .type = NC_FIELD_STRING,
     .flags = NC_FIELD_REQUIRED,
     .check = nc_shape_qualified_name,
     .wanted = "a taint key such as example.com/name"},
    {.name = "value",
     .type = NC_FIELD_STRING,
     .check = nc_shape_label_value,
     .wanted = "at most 63 letters, digits, - _ ."},
    {.name = "effect", .type = NC_FIELD_STRING, .flags = NC_FIELD_REQUIRED, .allowed = effects},
    F("timeAdded", STRING),
};
const struct nc_schema nc_schema_taint = NC_SCHEMA("a taint", taint_fields);

static const struct nc_field x509_fields[] = {F("clientCAFile", STRING, .flags = NAMED)};
static const struct nc_schema x509 = NC_SCHEMA("authentication.x509", x509_fields);
static const struct nc_field webhook_fields[] = {
    F("enabled", BOOL, OTHER("authentication-token-webhook")),
    DURATION("cacheTTL", NC_FIELD_OTHER_FLAG, .flag = "authentication-token-webhook-cache-ttl"),
};
static const struct nc_schema webhook = NC_SCHEMA("authentication.webhook", webhook_fields);
static const struct nc_field anonymous_fields[] = {F("enabled", BOOL, OTHER("anonymous-auth"))};
static const struct nc_schema anonymous = NC_SCHEMA("authentication.anonymous", anonymous_fields);
static const struct nc_field authentication_fields[] = {
    OBJECT("x509", x509), OBJECT("webhook", webhook), OBJECT("anonymous", anonymous)};
static const struct nc_schema authentication = NC_SCHEMA("authentication", authentication_fields);

static const struct nc_field authorization_webhook_fields[] = {
    DURATION("cacheAuthorizedTTL", NC_FIELD_OTHER_FLAG,
             .flag = "authorization-webhook-cache-authorized-ttl"),
    DURATION("cacheUnauthorizedTTL", NC_FIELD_OTHER_FLAG,
             .flag = "authorization-webhook-cache-unauthorized-ttl"),
};
static const struct nc_schema authorization_webhook =
    NC_SCHEMA("authorization.webhook", authorization_webhook_fields);
static const struct nc_field authorization_fields[] = {
    ONE_OF("mode", authorization_modes, OTHER("authorization-mode")),
    OBJECT("webhook", authorization_webhook),
};
static const struct nc_schema authorization = NC_SCHEMA("authorization", authorization_fields);

static const char swap_behaviors[] = "NoSwap\0LimitedSwap\0UnlimitedSwap\0";
static const struct nc_field swap_fields[] = {ONE_OF("swapBehavior", swap_behaviors)};
static const struct nc_schema swap = NC_SCHEMA("memorySwap", swap_fields);
static const struct nc_field crash_loop_fields[] = {
    LASTING("maxContainerRestartPeriod", 0, 1000000, 300000000, "from 1s to 5m")};
static const struct nc_schema crash_loop = NC_SCHEMA("crashLoopBackOff", crash_loop_fields);
static const struct nc_field user_namespace_fields[] = {BETWEEN("idsPerPod", 65536, UINT32_MAX)};
static const struct nc_schema user_namespaces = NC_SCHEMA("userNamespaces", user_namespace_fields);
static const struct nc_field priority_fields[] = {
    F("priority", INT), BETWEEN("shutdownGracePeriodSeconds", 0, INT32_MAX)};
static const struct nc_schema priority =
    NC_SCHEMA("shutdownGracePeriodByPodPriority", priority_fields);
static bool is_memory(const char *resource) {
    return nc_streq(resource, "memory") || nc_starts_with(resource, "hugepages-");
}

static bool is_positive(const char *quantity) {
    int64_t value = 0;

    return nc_quantity_value(quantity, &value) == 0 && value > 0;
}

static const struct nc_field memory_resource = {.check = is_memory,
                                                .wanted = "memory or hugepages-SIZE"};
static const struct nc_field reserved_memory_fields[] = {
    F("numaNode", INT), F("limits", QUANTITY_MAP, .key = &memory_resource)};
static const struct nc_schema reserved_memory = NC_SCHEMA("reservedMemory", reserved_memory_fields);

static const char log_formats[] = "text\0json\0";
static const struct nc_field module_fields[] = {
    {.name = "filePattern", .type = NC_FIELD_STRING, .flags = NC_FIELD_REQUIRED},
    BETWEEN("verbosity", 0, INT32_MAX),
};
static const struct nc_schema module = NC_SCHEMA("logging.vmodule", module_fields);
static const struct nc_field text_fields[] = {
    F("splitStream", BOOL, OTHER("log-text-split-stream")),
    F("infoBufferSize", QUANTITY, OTHER("log-text-info-buffer-size"))};
static const struct nc_schema text = NC_SCHEMA("logging.options", text_fields);
static const struct nc_field json_fields[] = {
    F("splitStream", BOOL, OTHER("log-json-split-stream")),
    F("infoBufferSize", QUANTITY, OTHER("log-json-info-buffer-size"))};
static const struct nc_schema json = NC_SCHEMA("logging.options", json_fields);
static const struct nc_field stream_options[] = {OBJECT("text", text), OBJECT("json", json)};
static const struct nc_schema streams = NC_SCHEMA("logging.options", stream_options);
static const struct nc_field logging_fields[] = {
    ONE_OF("format", log_formats, OTHER("logging-format")),
    F("flushFrequency", FREQUENCY, OTHER("log-flush-frequency")),
    BETWEEN("verbosity", 0, INT32_MAX, OTHER("v")),
    F("vmodule", OBJECTS, .object = &module, OTHER("vmodule")),
    OBJECT("options", streams),
};
static const struct nc_schema logging = NC_SCHEMA("logging", logging_fields);
static bool is_endpoint(const char *s) {
    return !strstr(s, "//") || nc_starts_with(s, "dns:") || nc_starts_with(s, "unix:")
           || nc_starts_with(s, "unix-abstract:");
}

static const struct nc_field tracing_fields[] = {
    F("endpoint", STRING, .check = is_endpoint, .wanted = "a gRPC name such as localhost:4317"),
    BETWEEN("samplingRatePerMillion", 0, 1000000)};
static const struct nc_schema tracing = NC_SCHEMA("tracing", tracing_fields);
static const struct nc_field headers = {.type = NC_FIELD_STRINGS};

/* Absolute and as filepath.Clean leaves it, in ASCII: it stands in the labels of metrics. */
static bool is_clean_path(const char *s) {
    const size_t n = strlen(s);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] > 0x7f)
            return false;
    return nc_shape_absolute_path(s) && !strstr(s, "//") && !strstr(s, "/./")
           && !nc_ends_with(s, "/.") && (n == 1 || s[n - 1] != '/');
}

/* A registry's host, then names in lower case; an asterisk behind them stands for all below. */
static bool is_image_pattern(const char *s) {
    const size_t host = strcspn(s, "/");
    bool is_name = false;

    if (host == 0
        || strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.:-") != host
        || (strcspn(s, ".:") > host && !nc_starts_with(s, "localhost/")))
        return false;
    for (s += host; *s; s++) {
        if (nc_streq(s, "/*"))
            return true;
        if (*s == '/' || (is_name && *s && strchr("._-", *s))) {
            is_name = false;
            continue;
        }
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789", *s))
            return false;
        is_name = true;
    }
    return is_name;
}

static const char reservation_policies[] = "None\0TieredReservation\0";
static const char pull_policies[] =
    "NeverVerify\0NeverVerifyPreloadedImages\0NeverVerifyAllowlistedImages\0"
    "AlwaysVerify\0";
static const char enforcements[] =
    "pods\0system-reserved\0kube-reserved\0system-reserved-compressible\0"
    "kube-reserved-compressible\0none\0";
static const char container_runtimes[] = "containerd\0";
static const struct nc_field kubelet_fields[] = {
    ONE_OF("kind", kinds),
    ONE_OF("apiVersion", api_versions),
    F("enableServer", BOOL, .flags = NAMED),
    F("staticPodPath", STRING, OTHER("pod-manifest-path")),
    F("podLogsDir", STRING, .check = is_clean_path,
      .wanted = "an absolute path without //, . or .."),
    DURATION("syncFrequency", NAMED),
    DURATION("fileCheckFrequency", NAMED),
    DURATION("httpCheckFrequency", NAMED),
    F("staticPodURL", STRING, OTHER("manifest-url")),
    F("staticPodURLHeader", MAP, .value = &headers, OTHER("manifest-url-header")),
    F("address", STRING, .flags = NAMED),
    BETWEEN("port", 1, 65535, .flags = NAMED),
    BETWEEN("readOnlyPort", 0, 65535, .flags = NAMED),
    F("tlsCertFile", STRING, .flags = NAMED),
    F("tlsPrivateKeyFile", STRING, .flags = NAMED),
    F("tlsCipherSuites", STRINGS, .flags = NAMED),
    F("tlsCurvePreferences", INTS),
    F("tlsMinVersion", STRING, .flags = NAMED),
    F("rotateCertificates", BOOL, .flags = NAMED),
    F("serverTLSBootstrap", BOOL, OTHER("rotate-server-certificates")),
    OBJECT("authentication", authentication),
    OBJECT("authorization", authorization),
    BETWEEN("registryPullQPS", 0, INT32_MAX, OTHER("registry-qps")),
    BETWEEN("registryBurst", 0, INT32_MAX, .flags = NAMED),
    ONE_OF("imagePullCredentialsVerificationPolicy", pull_policies),
    F("preloadedImagesVerificationAllowlist", STRINGS, .check = is_image_pattern,
      .flags = NC_FIELD_MAY_BE_EMPTY,
      .wanted = "an image without tag, such as registry.example.com/name"),
    BETWEEN("eventRecordQPS", 0, INT32_MAX, OTHER("event-qps")),
    BETWEEN("eventBurst", 0, INT32_MAX, .flags = NAMED),
    F("enableDebuggingHandlers", BOOL, .flags = NAMED),
    F("enableContentionProfiling", BOOL, OTHER("contention-profiling")),
    BETWEEN("healthzPort", 0, 65535, .flags = NAMED),
    F("healthzBindAddress", STRING, .flags = NAMED),
    BETWEEN("oomScoreAdj", -1000, 1000, .flags = NAMED),
    F("clusterDomain", STRING, .flags = NAMED),
    F("clusterDNS", STRINGS, .check = nc_shape_ip, .wanted = "an IP address",
      .flags = NAMED | NC_FIELD_V1BETA1),
    DURATION("streamingConnectionIdleTimeout", NAMED),
    DURATION("nodeStatusUpdateFrequency", NAMED),
    DURATION("nodeStatusReportFrequency", 0),
    BETWEEN("nodeLeaseDurationSeconds", 1, INT32_MAX),
    DURATION("imageMinimumGCAge", NC_FIELD_OTHER_FLAG, .flag = "minimum-image-ttl-duration"),
    DURATION("imageMaximumGCAge", 0),
    BETWEEN("imageGCHighThresholdPercent", 0, 100, .flag = "image-gc-high-threshold",
            .flags = NC_FIELD_V1BETA1 | NC_FIELD_OTHER_FLAG),
    BETWEEN("imageGCLowThresholdPercent", 0, 100, .flag = "image-gc-low-threshold",
            .flags = NC_FIELD_V1BETA1 | NC_FIELD_OTHER_FLAG),
    DURATION("volumeStatsAggPeriod", NAMED),
    F("kubeletCgroups", STRING, .flags = NAMED),
    F("systemCgroups", STRING, .flags = NAMED),
    F("cgroupRoot", STRING, .flags = NAMED),
    F("cgroupsPerQOS", BOOL, .flags = NAMED),
    ONE_OF("cgroupDriver", cgroup_drivers, .flags = NAMED),
    ONE_OF("cpuManagerPolicy", cpu_policies, .flags = NAMED),
    F("singleProcessOOMKill", BOOL),
    F("cpuManagerPolicyOptions", STRING_MAP, .flags = NAMED | NC_FIELD_ONE_PAIR),
    DURATION("cpuManagerReconcilePeriod", NAMED),
    ONE_OF("memoryManagerPolicy", memory_policies, .flags = NAMED),
    ONE_OF("topologyManagerPolicy", topology_policies, .flags = NAMED),
    ONE_OF("topologyManagerScope", topology_scopes, .flags = NAMED),
    F("topologyManagerPolicyOptions", STRING_MAP, .flags = NAMED),
    F("qosReserved", STRING_MAP, OTHER("qos-reserved")),
    DURATION("runtimeRequestTimeout", NAMED),
    ONE_OF("hairpinMode", hairpin_modes, .flags = NAMED),
    BETWEEN("maxPods", 0, INT32_MAX, .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_EXPRESSION),
    F("podCIDR", STRING, .flags = NAMED),
    BETWEEN("podPidsLimit", INT64_MIN, INT64_MAX, OTHER("pod-max-pids")),
    F("resolvConf", STRING, .flags = NAMED),
    F("runOnce", BOOL, OTHER("runonce")),
    F("cpuCFSQuota", BOOL, .flags = NAMED | NC_FIELD_V1BETA1),
    LASTING("cpuCFSQuotaPeriod", NAMED, 1000, 1000000, "from 1ms to 1s"),
    BETWEEN("nodeStatusMaxImages", -1, INT32_MAX, .flags = NAMED),
    BETWEEN("maxOpenFiles", 0, INT64_MAX, .flags = NAMED),
    F("contentType", STRING, OTHER("kube-api-content-type")),
    BETWEEN("kubeAPIQPS", 0, INT32_MAX, OTHER("kube-api-qps")),
    BETWEEN("kubeAPIBurst", 0, INT32_MAX, .flags = NAMED),
    F("serializeImagePulls", BOOL, .flags = NAMED),
    BETWEEN("maxParallelImagePulls", 1, INT32_MAX),
    EVICTION("evictionHard", .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_LESS_THAN),
    EVICTION("evictionSoft", .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_LESS_THAN),
    EVICTION("evictionSoftGracePeriod", .flags = NAMED | NC_FIELD_V1BETA1),
    DURATION("evictionPressureTransitionPeriod", NAMED),
    BETWEEN("evictionMaxPodGracePeriod", 0, INT32_MAX, .flags = NAMED | NC_FIELD_V1BETA1),
    EVICTION("evictionMinimumReclaim", .flags = NAMED),
    F("mergeDefaultEvictionSettings", BOOL),
    BETWEEN("podsPerCore", 0, INT32_MAX, .flags = NAMED | NC_FIELD_V1BETA1),
    F("enableControllerAttachDetach", BOOL, .flags = NAMED),
    F("protectKernelDefaults", BOOL, .flags = NAMED),
    F("makeIPTablesUtilChains", BOOL, OTHER("make-iptables-util-chains")),
    BETWEEN("iptablesMasqueradeBit", 0, 31),
    BETWEEN("iptablesDropBit", 0, 31),
    F("featureGates", BOOL_MAP, .flags = NAMED),
    F("failSwapOn", BOOL, .flags = NAMED),
    OBJECT("memorySwap", swap),
    F("containerLogMaxSize", STRING, .check = is_positive, .wanted = "a quantity such as \"10Mi\"",
      .flags = NAMED),
    BETWEEN("containerLogMaxFiles", 2, INT32_MAX, .flags = NAMED),
    BETWEEN("containerLogMaxWorkers", 1, INT32_MAX),
    LASTING("containerLogMonitorInterval", 0, 3000000, INT64_MAX, "of at least 3s"),
    F("configMapAndSecretChangeDetectionStrategy", STRING),
    F("systemReserved", QUANTITY_MAP, .key = &nc_reserved_resource,
      .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_EXPRESSION),
    F("kubeReserved", QUANTITY_MAP, .key = &nc_reserved_resource,
      .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_EXPRESSION),
    F("reservedSystemCPUs", STRING, OTHER("reserved-cpus")),
    F("showHiddenMetricsForVersion", STRING),
    F("systemReservedCgroup", STRING, .flags = NAMED),
    F("kubeReservedCgroup", STRING, .flags = NAMED),
    F("enforceNodeAllocatable", STRINGS, .allowed = enforcements,
      .flags = NAMED | NC_FIELD_MAY_BE_EMPTY),
    F("allowedUnsafeSysctls", STRINGS, .flags = NAMED),
    F("defaultPodSysctls", STRING_MAP),
    F("volumePluginDir", STRING, .flags = NAMED),
    F("providerID", STRING, .flags = NAMED),
    F("kernelMemcgNotification", BOOL, .flags = NAMED),
    OBJECT("logging", logging),
    F("enableSystemLogHandler", BOOL),
    F("enableSystemLogQuery", BOOL),
    DURATION("shutdownGracePeriod", 0),
    DURATION("shutdownGracePeriodCriticalPods", 0),
    OBJECTS("shutdownGracePeriodByPodPriority", priority),
    OBJECT("crashLoopBackOff", crash_loop),
    F("reservedMemory", OBJECTS, .object = &reserved_memory, .flags = NAMED),
    F("enableProfilingHandler", BOOL),
    F("enableDebugFlagsHandler", BOOL),
    F("seccompDefault", BOOL),
    F("memoryThrottlingFactor", NUMBER),
    ONE_OF("memoryReservationPolicy", reservation_policies),
    OBJECTS("registerWithTaints", nc_schema_taint),
    F("registerNode", BOOL, .flags = NAMED),
    OBJECT("tracing", tracing),
    F("localStorageCapacityIsolation", BOOL, .flags = NAMED),
    F("containerRuntimeEndpoint", STRING, .flags = NAMED),
    F("imageServiceEndpoint", STRING, .flags = NAMED),
    F("failCgroupV1", BOOL, OTHER("fail-cgroupv1")),
    OBJECT("userNamespaces", user_namespaces),
    F("containerRuntime", ANY, .flags = NC_FIELD_UNSUPPORTED | NC_FIELD_V1BETA1,
      .allowed = container_runtimes, .wanted = "the runtime is containerd"),
};
const struct nc_schema nc_schema_kubelet = NC_SCHEMA("KubeletConfiguration", kubelet_fields);

/* The fields that carry NC_FIELD_V1BETA1. */
const struct nc_schema nc_schema_kubelet_beta = {.name = "the kubelet block of v1beta1",
                                                 .fields = kubelet_fields,
                                                 .n = NC_ARRAY_SIZE(kubelet_fields),
                                                 .only = NC_FIELD_V1BETA1};
