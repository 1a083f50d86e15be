/*
 * Schema of KubeletConfiguration (kubelet.config.k8s.io/v1beta1), and of the twelve fields of it
 * that a v1beta1 NodeClaim may carry.
 *
 * Source: k8s.io/kubelet config/v1beta1/types.go up to Kubernetes 1.37; a field that one kubelet
 * has and another has not is known here. Unknown fields pass through with a warning, because
 * kubelet only warns of them too; a wrong type is an error, because kubelet refuses to start on it.
 * Rules across fields belong to the plan, which knows the final values.
 */
#include "schema.h"

#include "shapes.h"

#define F(n, t)                                                                                    \
    { .name = (n), .type = NC_FIELD_##t }
#define ONE_OF(n, list)                                                                            \
    { .name = (n), .type = NC_FIELD_STRING, .allowed = (list) }
#define BETWEEN(n, low, high)                                                                      \
    { .name = (n), .type = NC_FIELD_INT, .min = (low), .max = (high) }
#define OBJECT(n, s)                                                                               \
    { .name = (n), .type = NC_FIELD_OBJECT, .object = &(s) }
#define OBJECTS(n, s)                                                                              \
    { .name = (n), .type = NC_FIELD_OBJECTS, .object = &(s) }

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
static const char *const resources[] = {"cpu", "memory", "ephemeral-storage", "pid", NULL};
static const char *const signals[] = {"memory.available",
                                      "nodefs.available",
                                      "nodefs.inodesFree",
                                      "imagefs.available",
                                      "imagefs.inodesFree",
                                      "containerfs.available",
                                      "containerfs.inodesFree",
                                      "pid.available",
                                      "allocatableMemory.available",
                                      NULL};

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

static const struct nc_field x509_fields[] = {F("clientCAFile", STRING)};
static const struct nc_schema x509 = NC_SCHEMA("authentication.x509", x509_fields);
static const struct nc_field webhook_fields[] = {F("enabled", BOOL), F("cacheTTL", DURATION)};
static const struct nc_schema webhook = NC_SCHEMA("authentication.webhook", webhook_fields);
static const struct nc_field anonymous_fields[] = {F("enabled", BOOL)};
static const struct nc_schema anonymous = NC_SCHEMA("authentication.anonymous", anonymous_fields);
static const struct nc_field authentication_fields[] = {
    OBJECT("x509", x509), OBJECT("webhook", webhook), OBJECT("anonymous", anonymous)};
static const struct nc_schema authentication = NC_SCHEMA("authentication", authentication_fields);

static const struct nc_field authorization_webhook_fields[] = {F("cacheAuthorizedTTL", DURATION),
                                                               F("cacheUnauthorizedTTL", DURATION)};
static const struct nc_schema authorization_webhook =
    NC_SCHEMA("authorization.webhook", authorization_webhook_fields);
static const struct nc_field authorization_fields[] = {ONE_OF("mode", authorization_modes),
                                                       OBJECT("webhook", authorization_webhook)};
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

static const struct nc_field kubelet_fields[] = {
    ONE_OF("kind", kinds),
    ONE_OF("apiVersion", api_versions),
    F("enableServer", BOOL),
    F("staticPodPath", STRING),
    F("podLogsDir", STRING),
    F("syncFrequency", DURATION),
    F("fileCheckFrequency", DURATION),
    F("httpCheckFrequency", DURATION),
    F("staticPodURL", STRING),
    F("staticPodURLHeader", MAP),
    F("address", STRING),
    BETWEEN("port", 0, 65535),
    BETWEEN("readOnlyPort", 0, 65535),
    F("tlsCertFile", STRING),
    F("tlsPrivateKeyFile", STRING),
    F("tlsCipherSuites", STRINGS),
    F("tlsCurvePreferences", INTS),
    F("tlsMinVersion", STRING),
    F("rotateCertificates", BOOL),
    F("serverTLSBootstrap", BOOL),
    OBJECT("authentication", authentication),
    OBJECT("authorization", authorization),
    F("registryPullQPS", INT),
    F("registryBurst", INT),
    F("imagePullCredentialsVerificationPolicy", STRING),
    F("preloadedImagesVerificationAllowlist", STRINGS),
    F("eventRecordQPS", INT),
    F("eventBurst", INT),
    F("enableDebuggingHandlers", BOOL),
    F("enableContentionProfiling", BOOL),
    BETWEEN("healthzPort", 0, 65535),
    F("healthzBindAddress", STRING),
    BETWEEN("oomScoreAdj", -1000, 1000),
    F("clusterDomain", STRING),
    {.name = "clusterDNS",
     .type = NC_FIELD_STRINGS,
     .check = nc_shape_ip,
     .wanted = "an IP address"},
    F("streamingConnectionIdleTimeout", DURATION),
    F("nodeStatusUpdateFrequency", DURATION),
    F("nodeStatusReportFrequency", DURATION),
    F("nodeLeaseDurationSeconds", INT),
    F("imageMinimumGCAge", DURATION),
    F("imageMaximumGCAge", DURATION),
    BETWEEN("imageGCHighThresholdPercent", 0, 100),
    BETWEEN("imageGCLowThresholdPercent", 0, 100),
    F("volumeStatsAggPeriod", DURATION),
    F("kubeletCgroups", STRING),
    F("systemCgroups", STRING),
    F("cgroupRoot", STRING),
    F("cgroupsPerQOS", BOOL),
    ONE_OF("cgroupDriver", cgroup_drivers),
    ONE_OF("cpuManagerPolicy", cpu_policies),
    F("singleProcessOOMKill", BOOL),
    F("cpuManagerPolicyOptions", STRING_MAP),
    F("cpuManagerReconcilePeriod", DURATION),
    ONE_OF("memoryManagerPolicy", memory_policies),
    ONE_OF("topologyManagerPolicy", topology_policies),
    ONE_OF("topologyManagerScope", topology_scopes),
    F("topologyManagerPolicyOptions", STRING_MAP),
    F("qosReserved", STRING_MAP),
    F("runtimeRequestTimeout", DURATION),
    ONE_OF("hairpinMode", hairpin_modes),
    BETWEEN("maxPods", 0, INT32_MAX),
    F("podCIDR", STRING),
    BETWEEN("podPidsLimit", -1, INT64_MAX),
    F("resolvConf", STRING),
    F("runOnce", BOOL),
    F("cpuCFSQuota", BOOL),
    F("cpuCFSQuotaPeriod", DURATION),
    F("nodeStatusMaxImages", INT),
    BETWEEN("maxOpenFiles", 0, INT64_MAX),
    F("contentType", STRING),
    F("kubeAPIQPS", INT),
    F("kubeAPIBurst", INT),
    F("serializeImagePulls", BOOL),
    BETWEEN("maxParallelImagePulls", 1, INT32_MAX),
    {.name = "evictionHard", .type = NC_FIELD_STRING_MAP, .keys = signals},
    {.name = "evictionSoft", .type = NC_FIELD_STRING_MAP, .keys = signals},
    {.name = "evictionSoftGracePeriod", .type = NC_FIELD_STRING_MAP, .keys = signals},
    F("evictionPressureTransitionPeriod", DURATION),
    BETWEEN("evictionMaxPodGracePeriod", 0, INT32_MAX),
    {.name = "evictionMinimumReclaim", .type = NC_FIELD_STRING_MAP, .keys = signals},
    F("mergeDefaultEvictionSettings", BOOL),
    BETWEEN("podsPerCore", 0, INT32_MAX),
    F("enableControllerAttachDetach", BOOL),
    F("protectKernelDefaults", BOOL),
    F("makeIPTablesUtilChains", BOOL),
    F("iptablesMasqueradeBit", INT),
    F("iptablesDropBit", INT),
    F("featureGates", BOOL_MAP),
    F("failSwapOn", BOOL),
    OBJECT("memorySwap", swap),
    F("containerLogMaxSize", STRING),
    F("containerLogMaxFiles", INT),
    F("containerLogMaxWorkers", INT),
    F("containerLogMonitorInterval", DURATION),
    F("configMapAndSecretChangeDetectionStrategy", STRING),
    {.name = "systemReserved", .type = NC_FIELD_QUANTITY_MAP, .keys = resources},
    {.name = "kubeReserved", .type = NC_FIELD_QUANTITY_MAP, .keys = resources},
    F("reservedSystemCPUs", STRING),
    F("showHiddenMetricsForVersion", STRING),
    F("systemReservedCgroup", STRING),
    F("kubeReservedCgroup", STRING),
    F("enforceNodeAllocatable", STRINGS),
    F("allowedUnsafeSysctls", STRINGS),
    F("defaultPodSysctls", STRING_MAP),
    F("volumePluginDir", STRING),
    F("providerID", STRING),
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
    F("registerNode", BOOL),
    F("tracing", MAP),
    F("localStorageCapacityIsolation", BOOL),
    F("containerRuntimeEndpoint", STRING),
    F("imageServiceEndpoint", STRING),
    F("failCgroupV1", BOOL),
    OBJECT("userNamespaces", user_namespaces),
};
const struct nc_schema nc_schema_kubelet = NC_SCHEMA("KubeletConfiguration", kubelet_fields);

static const struct nc_field beta_fields[] = {
    {.name = "clusterDNS",
     .type = NC_FIELD_STRINGS,
     .check = nc_shape_ip,
     .wanted = "an IP address"},
    BETWEEN("maxPods", 0, INT32_MAX),
    BETWEEN("podsPerCore", 0, INT32_MAX),
    {.name = "systemReserved", .type = NC_FIELD_QUANTITY_MAP, .keys = resources},
    {.name = "kubeReserved", .type = NC_FIELD_QUANTITY_MAP, .keys = resources},
    {.name = "evictionHard", .type = NC_FIELD_STRING_MAP, .keys = signals},
    {.name = "evictionSoft", .type = NC_FIELD_STRING_MAP, .keys = signals},
    {.name = "evictionSoftGracePeriod", .type = NC_FIELD_STRING_MAP, .keys = signals},
    BETWEEN("evictionMaxPodGracePeriod", 0, INT32_MAX),
    BETWEEN("imageGCHighThresholdPercent", 0, 100),
    BETWEEN("imageGCLowThresholdPercent", 0, 100),
    F("cpuCFSQuota", BOOL),
    {.name = "containerRuntime",
     .type = NC_FIELD_ANY,
     .flags = NC_FIELD_IGNORED,
     .wanted = "a field of v1alpha5; the runtime is the AMI's choice"},
};
const struct nc_schema nc_schema_kubelet_beta =
    NC_SCHEMA("the kubelet block of v1beta1", beta_fields);
