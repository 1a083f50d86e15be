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

#include "shapes.h"

#define F(n, t, ...)                                                                               \
    { .name = (n), .type = NC_FIELD_##t, __VA_ARGS__ }
#define ONE_OF(n, list, ...) F(n, STRING, .allowed = (list), __VA_ARGS__)
#define BETWEEN(n, low, high, ...) F(n, INT, .min = (low), .max = (high), __VA_ARGS__)
#define OBJECT(n, s) F(n, OBJECT, .object = &(s))
#define OBJECTS(n, s) F(n, OBJECTS, .object = &(s))
#define EVICTION(n, ...) F(n, STRING_MAP, .key = &eviction_signal, __VA_ARGS__)

static const char *const kinds[] = {"KubeletConfiguration", NULL};
static const char *const api_versions[] = {"kubelet.config.k8s.io/v1beta1", NULL};
static const char *const effects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute", NULL};
static const char *const cgroup_drivers[] = {"systemd", "cgroupfs", NULL};
static const char *const cpu_policies[] = {"none", "static", NULL};
static const char *const memory_policies[] = {"None", "Static", NULL};
static const char *const topology_policies[] = {"none", "best-effort", "restricted",
                                                "single-numa-node", NULL};
static const char *const topology_scopes[] = {"container", "pod", NULL};
static const char *const hairpin_modes[] = {"promiscuous-bridge", "hairpin-veth", "none", NULL};
static const char *const authorization_modes[] = {"AlwaysAllow", "Webhook", NULL};
static const char *const reserved_resources[] = {"cpu", "memory", "ephemeral-storage", "pid", NULL};
const struct nc_field nc_reserved_resource = {.allowed = reserved_resources};

/* pkg/kubelet/eviction/api: signals that can be set */
const char *const nc_eviction_signals[] = {"memory.available",
                                           "nodefs.available",
                                           "nodefs.inodesFree",
                                           "imagefs.available",
                                           "imagefs.inodesFree",
                                           "containerfs.available",
                                           "containerfs.inodesFree",
                                           "pid.available",
                                           "allocatableMemory.available",
                                           NULL};
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

static const struct nc_field x509_fields[] = {F("clientCAFile", STRING, .flag = "client-ca-file")};
static const struct nc_schema x509 = NC_SCHEMA("authentication.x509", x509_fields);
static const struct nc_field webhook_fields[] = {
    F("enabled", BOOL, .flag = "authentication-token-webhook"),
    F("cacheTTL", DURATION, .flag = "authentication-token-webhook-cache-ttl"),
};
static const struct nc_schema webhook = NC_SCHEMA("authentication.webhook", webhook_fields);
static const struct nc_field anonymous_fields[] = {F("enabled", BOOL, .flag = "anonymous-auth")};
static const struct nc_schema anonymous = NC_SCHEMA("authentication.anonymous", anonymous_fields);
static const struct nc_field authentication_fields[] = {
    OBJECT("x509", x509), OBJECT("webhook", webhook), OBJECT("anonymous", anonymous)};
static const struct nc_schema authentication = NC_SCHEMA("authentication", authentication_fields);

static const struct nc_field authorization_webhook_fields[] = {
    F("cacheAuthorizedTTL", DURATION, .flag = "authorization-webhook-cache-authorized-ttl"),
    F("cacheUnauthorizedTTL", DURATION, .flag = "authorization-webhook-cache-unauthorized-ttl"),
};
static const struct nc_schema authorization_webhook =
    NC_SCHEMA("authorization.webhook", authorization_webhook_fields);
static const struct nc_field authorization_fields[] = {
    ONE_OF("mode", authorization_modes, .flag = "authorization-mode"),
    OBJECT("webhook", authorization_webhook),
};
static const struct nc_schema authorization = NC_SCHEMA("authorization", authorization_fields);

static const struct nc_field swap_fields[] = {F("swapBehavior", STRING)};
static const struct nc_schema swap = NC_SCHEMA("memorySwap", swap_fields);
static const struct nc_field crash_loop_fields[] = {F("maxContainerRestartPeriod", DURATION)};
static const struct nc_schema crash_loop = NC_SCHEMA("crashLoopBackOff", crash_loop_fields);
static const struct nc_field user_namespace_fields[] = {BETWEEN("idsPerPod", 0, INT64_MAX)};
static const struct nc_schema user_namespaces = NC_SCHEMA("userNamespaces", user_namespace_fields);
static const struct nc_field priority_fields[] = {
    F("priority", INT), BETWEEN("shutdownGracePeriodSeconds", 0, INT32_MAX)};
static const struct nc_schema priority =
    NC_SCHEMA("shutdownGracePeriodByPodPriority", priority_fields);
static const struct nc_field reserved_memory_fields[] = {F("numaNode", INT), F("limits", MAP)};
static const struct nc_schema reserved_memory = NC_SCHEMA("reservedMemory", reserved_memory_fields);

static const char *const container_runtimes[] = {"containerd", NULL};
static const struct nc_field kubelet_fields[] = {
    ONE_OF("kind", kinds),
    ONE_OF("apiVersion", api_versions),
    F("enableServer", BOOL, .flag = "enable-server"),
    F("staticPodPath", STRING, .flag = "pod-manifest-path"),
    F("podLogsDir", STRING),
    F("syncFrequency", DURATION, .flag = "sync-frequency"),
    F("fileCheckFrequency", DURATION),
    F("httpCheckFrequency", DURATION),
    F("staticPodURL", STRING),
    F("staticPodURLHeader", MAP),
    F("address", STRING, .flag = "address"),
    BETWEEN("port", 1, 65535, .flag = "port"),
    BETWEEN("readOnlyPort", 0, 65535, .flag = "read-only-port"),
    F("tlsCertFile", STRING, .flag = "tls-cert-file"),
    F("tlsPrivateKeyFile", STRING, .flag = "tls-private-key-file"),
    F("tlsCipherSuites", STRINGS, .flag = "tls-cipher-suites"),
    F("tlsCurvePreferences", INTS),
    F("tlsMinVersion", STRING, .flag = "tls-min-version"),
    F("rotateCertificates", BOOL, .flag = "rotate-certificates"),
    F("serverTLSBootstrap", BOOL, .flag = "rotate-server-certificates"),
    OBJECT("authentication", authentication),
    OBJECT("authorization", authorization),
    BETWEEN("registryPullQPS", 0, INT32_MAX, .flag = "registry-qps"),
    BETWEEN("registryBurst", 0, INT32_MAX, .flag = "registry-burst"),
    F("imagePullCredentialsVerificationPolicy", STRING),
    F("preloadedImagesVerificationAllowlist", STRINGS),
    BETWEEN("eventRecordQPS", 0, INT32_MAX, .flag = "event-qps"),
    BETWEEN("eventBurst", 0, INT32_MAX, .flag = "event-burst"),
    F("enableDebuggingHandlers", BOOL, .flag = "enable-debugging-handlers"),
    F("enableContentionProfiling", BOOL),
    BETWEEN("healthzPort", 0, 65535, .flag = "healthz-port"),
    F("healthzBindAddress", STRING, .flag = "healthz-bind-address"),
    BETWEEN("oomScoreAdj", -1000, 1000, .flag = "oom-score-adj"),
    F("clusterDomain", STRING, .flag = "cluster-domain"),
    F("clusterDNS", STRINGS, .check = nc_shape_ip, .wanted = "an IP address", .flag = "cluster-dns",
      .flags = NC_FIELD_V1BETA1),
    F("streamingConnectionIdleTimeout", DURATION, .flag = "streaming-connection-idle-timeout"),
    F("nodeStatusUpdateFrequency", DURATION, .flag = "node-status-update-frequency"),
    F("nodeStatusReportFrequency", DURATION),
    BETWEEN("nodeLeaseDurationSeconds", 1, INT32_MAX),
    F("imageMinimumGCAge", DURATION, .flag = "minimum-image-ttl-duration"),
    F("imageMaximumGCAge", DURATION),
    BETWEEN("imageGCHighThresholdPercent", 0, 100, .flag = "image-gc-high-threshold",
            .flags = NC_FIELD_V1BETA1),
    BETWEEN("imageGCLowThresholdPercent", 0, 100, .flag = "image-gc-low-threshold",
            .flags = NC_FIELD_V1BETA1),
    F("volumeStatsAggPeriod", DURATION, .flag = "volume-stats-agg-period"),
    F("kubeletCgroups", STRING, .flag = "kubelet-cgroups"),
    F("systemCgroups", STRING, .flag = "system-cgroups"),
    F("cgroupRoot", STRING, .flag = "cgroup-root"),
    F("cgroupsPerQOS", BOOL, .flag = "cgroups-per-qos"),
    ONE_OF("cgroupDriver", cgroup_drivers, .flag = "cgroup-driver"),
    ONE_OF("cpuManagerPolicy", cpu_policies, .flag = "cpu-manager-policy"),
    F("singleProcessOOMKill", BOOL),
    F("cpuManagerPolicyOptions", STRING_MAP, .flag = "cpu-manager-policy-options"),
    F("cpuManagerReconcilePeriod", DURATION, .flag = "cpu-manager-reconcile-period"),
    ONE_OF("memoryManagerPolicy", memory_policies, .flag = "memory-manager-policy"),
    ONE_OF("topologyManagerPolicy", topology_policies, .flag = "topology-manager-policy"),
    ONE_OF("topologyManagerScope", topology_scopes, .flag = "topology-manager-scope"),
    F("topologyManagerPolicyOptions", STRING_MAP, .flag = "topology-manager-policy-options"),
    F("qosReserved", STRING_MAP),
    F("runtimeRequestTimeout", DURATION, .flag = "runtime-request-timeout"),
    ONE_OF("hairpinMode", hairpin_modes, .flag = "hairpin-mode"),
    BETWEEN("maxPods", 0, INT32_MAX, .flag = "max-pods", .flags = NC_FIELD_V1BETA1),
    F("podCIDR", STRING, .flag = "pod-cidr"),
    BETWEEN("podPidsLimit", INT64_MIN, INT64_MAX, .flag = "pod-max-pids"),
    F("resolvConf", STRING, .flag = "resolv-conf"),
    F("runOnce", BOOL),
    F("cpuCFSQuota", BOOL, .flag = "cpu-cfs-quota", .flags = NC_FIELD_V1BETA1),
    F("cpuCFSQuotaPeriod", DURATION, .flag = "cpu-cfs-quota-period"),
    BETWEEN("nodeStatusMaxImages", -1, INT32_MAX, .flag = "node-status-max-images"),
    BETWEEN("maxOpenFiles", 0, INT64_MAX, .flag = "max-open-files"),
    F("contentType", STRING),
    BETWEEN("kubeAPIQPS", 0, INT32_MAX, .flag = "kube-api-qps"),
    BETWEEN("kubeAPIBurst", 0, INT32_MAX, .flag = "kube-api-burst"),
    F("serializeImagePulls", BOOL, .flag = "serialize-image-pulls"),
    BETWEEN("maxParallelImagePulls", 1, INT32_MAX),
    EVICTION("evictionHard", .flag = "eviction-hard",
             .flags = NC_FIELD_V1BETA1 | NC_FIELD_LESS_THAN),
    EVICTION("evictionSoft", .flag = "eviction-soft",
             .flags = NC_FIELD_V1BETA1 | NC_FIELD_LESS_THAN),
    EVICTION("evictionSoftGracePeriod", .flag = "eviction-soft-grace-period",
             .flags = NC_FIELD_V1BETA1),
    F("evictionPressureTransitionPeriod", DURATION, .flag = "eviction-pressure-transition-period"),
    BETWEEN("evictionMaxPodGracePeriod", 0, INT32_MAX, .flag = "eviction-max-pod-grace-period",
            .flags = NC_FIELD_V1BETA1),
    EVICTION("evictionMinimumReclaim", .flag = "eviction-minimum-reclaim"),
    F("mergeDefaultEvictionSettings", BOOL),
    BETWEEN("podsPerCore", 0, INT32_MAX, .flag = "pods-per-core", .flags = NC_FIELD_V1BETA1),
    F("enableControllerAttachDetach", BOOL, .flag = "enable-controller-attach-detach"),
    F("protectKernelDefaults", BOOL, .flag = "protect-kernel-defaults"),
    F("makeIPTablesUtilChains", BOOL, .flag = "make-iptables-util-chains"),
    BETWEEN("iptablesMasqueradeBit", 0, 31),
    BETWEEN("iptablesDropBit", 0, 31),
    F("featureGates", BOOL_MAP, .flag = "feature-gates"),
    F("failSwapOn", BOOL, .flag = "fail-swap-on"),
    OBJECT("memorySwap", swap),
    F("containerLogMaxSize", STRING, .flag = "container-log-max-size"),
    BETWEEN("containerLogMaxFiles", 2, INT32_MAX, .flag = "container-log-max-files"),
    BETWEEN("containerLogMaxWorkers", 1, INT32_MAX),
    F("containerLogMonitorInterval", DURATION),
    F("configMapAndSecretChangeDetectionStrategy", STRING),
    F("systemReserved", QUANTITY_MAP, .key = &nc_reserved_resource, .flag = "system-reserved",
      .flags = NC_FIELD_V1BETA1),
    F("kubeReserved", QUANTITY_MAP, .key = &nc_reserved_resource, .flag = "kube-reserved",
      .flags = NC_FIELD_V1BETA1),
    F("reservedSystemCPUs", STRING, .flag = "reserved-cpus"),
    F("showHiddenMetricsForVersion", STRING),
    F("systemReservedCgroup", STRING, .flag = "system-reserved-cgroup"),
    F("kubeReservedCgroup", STRING, .flag = "kube-reserved-cgroup"),
    F("enforceNodeAllocatable", STRINGS, .flag = "enforce-node-allocatable"),
    F("allowedUnsafeSysctls", STRINGS, .flag = "allowed-unsafe-sysctls"),
    F("defaultPodSysctls", STRING_MAP),
    F("volumePluginDir", STRING, .flag = "volume-plugin-dir"),
    F("providerID", STRING, .flag = "provider-id"),
    F("kernelMemcgNotification", BOOL),
    F("logging", MAP),
    F("enableSystemLogHandler", BOOL),
    F("enableSystemLogQuery", BOOL),
    F("shutdownGracePeriod", DURATION),
    F("shutdownGracePeriodCriticalPods", DURATION),
    OBJECTS("shutdownGracePeriodByPodPriority", priority),
    OBJECT("crashLoopBackOff", crash_loop),
    OBJECTS("reservedMemory", reserved_memory),
    F("enableProfilingHandler", BOOL),
    F("enableDebugFlagsHandler", BOOL),
    F("seccompDefault", BOOL),
    F("memoryThrottlingFactor", NUMBER),
    F("memoryReservationPolicy", STRING),
    OBJECTS("registerWithTaints", nc_schema_taint),
    F("registerNode", BOOL, .flag = "register-node"),
    F("tracing", MAP),
    F("localStorageCapacityIsolation", BOOL, .flag = "local-storage-capacity-isolation"),
    F("containerRuntimeEndpoint", STRING, .flag = "container-runtime-endpoint"),
    F("imageServiceEndpoint", STRING, .flag = "image-service-endpoint"),
    F("failCgroupV1", BOOL),
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
