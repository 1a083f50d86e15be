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

#include <fnmatch.h>

#include "nc/quantity.h"
#include "nc/str.h"
#include "nc/time.h"
#include "shapes.h"

/* Go reads no duration in an empty text, and in kubelet's configuration that is the whole file's
 * end. */
#define MAY_BE_EMPTY(f) .flags = NC_FIELD_MAY_BE_EMPTY | (f)
#define NAMED NC_FIELD_NAMED_FLAG
#define OTHER NC_FIELD_OTHER_FLAG

static const char kinds[] = "KubeletConfiguration\0";
static const char api_versions[] = "kubelet.config.k8s.io/v1beta1\0";
static const char effects[] = "NoSchedule\0PreferNoSchedule\0NoExecute\0";
static const char cgroup_drivers[] = "systemd\0cgroupfs\0";
static const char cpu_policies[] = "none\0static\0";
static const char memory_policies[] = "None\0Static\0";
static const char tls_versions[] = "VersionTLS10\0VersionTLS11\0VersionTLS12\0VersionTLS13\0";
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
static const struct nc_field threshold = {
    .type = NC_FIELD_STRING,
    .flags = NC_FIELD_MAY_BE_EMPTY,
    CHECKED(nc_shape_threshold, "a quantity above 0, or a percentage from 0% to 100%")};
static const struct nc_field reclaim = {
    .type = NC_FIELD_STRING,
    .flags = NC_FIELD_MAY_BE_EMPTY,
    CHECKED(nc_shape_reclaim, "a quantity from 0 on, or a percentage above 0% to 100%")};
static const struct nc_field grace = {.type = NC_FIELD_DURATION, .flags = NC_FIELD_MAY_BE_EMPTY};

#define TAINT_FIELDS(F)                                                                            \
    F("key", STRING, CHECKED(nc_shape_qualified_name, "a taint key such as example.com/name"),     \
      REQUIRED)                                                                                    \
    F("value", STRING, CHECKED(nc_shape_label_value, "at most 63 letters, digits, - _ ."))         \
    F("effect", STRING, ONE_OF(effects), REQUIRED)                                                 \
    F("timeAdded", STRING)
const struct nc_schema nc_schema_taint = NC_SCHEMA("a taint", TAINT_FIELDS);

#define X509_FIELDS(F) F("clientCAFile", STRING, .flags = NAMED)
static const struct nc_schema x509 = NC_SCHEMA("authentication.x509", X509_FIELDS);
#define WEBHOOK_FIELDS(F)                                                                          \
    F("enabled\0authentication-token-webhook", BOOL, .flags = OTHER)                               \
    F("cacheTTL\0authentication-token-webhook-cache-ttl", DURATION, MAY_BE_EMPTY(OTHER))
static const struct nc_schema webhook = NC_SCHEMA("authentication.webhook", WEBHOOK_FIELDS);
#define ANONYMOUS_FIELDS(F) F("enabled\0anonymous-auth", BOOL, .flags = OTHER)
static const struct nc_schema anonymous = NC_SCHEMA("authentication.anonymous", ANONYMOUS_FIELDS);
#define AUTHENTICATION_FIELDS(F)                                                                   \
    F("x509", OBJECT, OF(x509))                                                                    \
    F("webhook", OBJECT, OF(webhook))                                                              \
    F("anonymous", OBJECT, OF(anonymous))
static const struct nc_schema authentication = NC_SCHEMA("authentication", AUTHENTICATION_FIELDS);

#define AUTHORIZATION_WEBHOOK_FIELDS(F)                                                            \
    F("cacheAuthorizedTTL\0authorization-webhook-cache-authorized-ttl", DURATION,                  \
      MAY_BE_EMPTY(OTHER))                                                                         \
    F("cacheUnauthorizedTTL\0authorization-webhook-cache-unauthorized-ttl", DURATION,              \
      MAY_BE_EMPTY(OTHER))
static const struct nc_schema authorization_webhook =
    NC_SCHEMA("authorization.webhook", AUTHORIZATION_WEBHOOK_FIELDS);
#define AUTHORIZATION_FIELDS(F)                                                                    \
    F("mode\0authorization-mode", STRING, ONE_OF(authorization_modes), .flags = OTHER)             \
    F("webhook", OBJECT, OF(authorization_webhook))
static const struct nc_schema authorization = NC_SCHEMA("authorization", AUTHORIZATION_FIELDS);

static const char swap_behaviors[] = "NoSwap\0LimitedSwap\0UnlimitedSwap\0";
#define SWAP_FIELDS(F) F("swapBehavior", STRING, ONE_OF(swap_behaviors))
static const struct nc_schema swap = NC_SCHEMA("memorySwap", SWAP_FIELDS);

static bool lasts(const char *text, uint64_t least_usec, uint64_t most_usec) {
    uint64_t usec = 0;

    return nc_duration_parse(text, &usec) == 0 && usec >= least_usec && usec <= most_usec;
}

static bool is_restart_period(const char *text) {
    return lasts(text, 1000000, 300000000);
}

static bool is_quota_period(const char *text) {
    return lasts(text, 1000, 1000000);
}

static bool is_monitor_interval(const char *text) {
    return lasts(text, 3000000, UINT64_MAX);
}

#define CRASH_LOOP_FIELDS(F)                                                                       \
    F("maxContainerRestartPeriod", DURATION,                                                       \
      CHECKED(is_restart_period, "a duration from 1s to 5m"), MAY_BE_EMPTY(0))
static const struct nc_schema crash_loop = NC_SCHEMA("crashLoopBackOff", CRASH_LOOP_FIELDS);
#define USER_NAMESPACE_FIELDS(F) F("idsPerPod", INT, BETWEEN(65536, UINT32_MAX))
static const struct nc_schema user_namespaces = NC_SCHEMA("userNamespaces", USER_NAMESPACE_FIELDS);
#define PRIORITY_FIELDS(F)                                                                         \
    F("priority", INT)                                                                             \
    F("shutdownGracePeriodSeconds", INT, BETWEEN(0, INT32_MAX))
static const struct nc_schema priority =
    NC_SCHEMA("shutdownGracePeriodByPodPriority", PRIORITY_FIELDS);
static bool is_memory(const char *resource) {
    return nc_streq(resource, "memory") || nc_starts_with(resource, "hugepages-");
}

static bool is_positive(const char *quantity) {
    int64_t value = 0;

    return nc_quantity_value(quantity, &value) == 0 && value > 0;
}

static bool matches(const char *text, const char *pattern) {
    return fnmatch(pattern, text, FNM_EXTMATCH) == 0;
}

/* pkg/kubelet/cm, policy_options.go of both managers: what Go reads as a truth, or a number of NUMA
 * nodes. */
static bool is_option(const char *text) {
    return matches(text, "@([01tfTF]|true|false|TRUE|FALSE|True|False|[89]|[1-9]+([0-9]))");
}
static const struct nc_field option = {
    .type = NC_FIELD_STRING,
    .flags = NC_FIELD_MAY_BE_EMPTY,
    CHECKED(is_option, "true, false, or a number of NUMA nodes from 8 on"),
};

/* pkg/kubelet/cm, parsePercentage of qos_container_manager_linux.go. */
static bool is_percentage(const char *text) {
    return matches(text, "?(+)*(0)@([0-9]|[1-9][0-9]|100)%");
}
static const struct nc_field percentage = {
    .type = NC_FIELD_STRING,
    .flags = NC_FIELD_MAY_BE_EMPTY,
    CHECKED(is_percentage, "0% to 100%"),
};

/* k8s.io/component-helpers/node/util/sysctl: a name, or before "*" the begin of some, of which each
 * pod has its own. */
static bool is_namespaced(const char *pattern) {
    return matches(pattern, "@(net[./]|user[./]|fs[./]mqueue[./]|kernel[./]@(shm|msg|sem|"
                            "domainname))*([a-z0-9_./*-])");
}

static const struct nc_field qos_resource = {.allowed = "memory\0"};
static const struct nc_field memory_resource = {CHECKED(is_memory, "memory or hugepages-SIZE")};
#define RESERVED_MEMORY_FIELDS(F)                                                                  \
    F("numaNode", INT)                                                                             \
    F("limits", QUANTITY_MAP, ENTRIES(&memory_resource, NULL))
static const struct nc_schema reserved_memory = NC_SCHEMA("reservedMemory", RESERVED_MEMORY_FIELDS);

static bool is_file_pattern(const char *s) {
    return *s && !strpbrk(s, "=,");
}

static const char log_formats[] = "text\0json\0";
#define MODULE_FIELDS(F)                                                                           \
    F("filePattern", STRING, REQUIRED,                                                             \
      CHECKED(is_file_pattern, "a pattern of file names without = and ,"))                         \
    F("verbosity", INT, BETWEEN(0, INT32_MAX))
static const struct nc_schema module = NC_SCHEMA("logging.vmodule", MODULE_FIELDS);
#define TEXT_FIELDS(F)                                                                             \
    F("splitStream\0log-text-split-stream", BOOL, .flags = OTHER)                                  \
    F("infoBufferSize\0log-text-info-buffer-size", QUANTITY, .flags = OTHER)
static const struct nc_schema text = NC_SCHEMA("logging.options", TEXT_FIELDS);
#define JSON_FIELDS(F)                                                                             \
    F("splitStream\0log-json-split-stream", BOOL, .flags = OTHER)                                  \
    F("infoBufferSize\0log-json-info-buffer-size", QUANTITY, .flags = OTHER)
static const struct nc_schema json = NC_SCHEMA("logging.options", JSON_FIELDS);
#define STREAM_OPTIONS_FIELDS(F)                                                                   \
    F("text", OBJECT, OF(text))                                                                    \
    F("json", OBJECT, OF(json))
static const struct nc_schema streams = NC_SCHEMA("logging.options", STREAM_OPTIONS_FIELDS);
#define LOGGING_FIELDS(F)                                                                          \
    F("format\0logging-format", STRING, ONE_OF(log_formats), .flags = OTHER)                       \
    F("flushFrequency\0log-flush-frequency", FREQUENCY, .flags = OTHER)                            \
    F("verbosity\0v", INT, BETWEEN(0, INT32_MAX), .flags = OTHER)                                  \
    F("vmodule\0vmodule", OBJECTS, OF(module), .flags = OTHER)                                     \
    F("options", OBJECT, OF(streams))
static const struct nc_schema logging = NC_SCHEMA("logging", LOGGING_FIELDS);
static bool is_endpoint(const char *s) {
    return !strstr(s, "//") || nc_starts_with(s, "dns:") || nc_starts_with(s, "unix:")
           || nc_starts_with(s, "unix-abstract:");
}

#define TRACING_FIELDS(F)                                                                          \
    F("endpoint", STRING, CHECKED(is_endpoint, "a gRPC name such as localhost:4317"))              \
    F("samplingRatePerMillion", INT, BETWEEN(0, 1000000))
static const struct nc_schema tracing = NC_SCHEMA("tracing", TRACING_FIELDS);
static const struct nc_field headers = {.type = NC_FIELD_STRINGS, .flags = NC_FIELD_SECRET};

/* Absolute and as filepath.Clean leaves it, in ASCII: it stands in the labels of metrics. */
static bool is_clean_path(const char *s) {
    const size_t n = strlen(s);

    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] > 0x7f)
            return false;
    return nc_shape_absolute_path(s) && !strstr(s, "//") && !strstr(s, "/./")
           && !nc_ends_with(s, "/.") && (n == 1 || s[n - 1] != '/');
}

/* A registry, then names in lower case, as distribution's references are; an asterisk behind them
 * stands for all below. What kubelet would name otherwise it refuses: Docker Hub's short names. */
static bool is_image_pattern(const char *s) {
    const size_t domain = strcspn(s, ":/"), registry = strcspn(s, "/"), port = registry - domain;
    nc_auto_free char *name = nc_strndup(s, domain);
    size_t names = nc_streq(name, "docker.io") ? 0 : 1, n;

    if (strlen(s) > 255 || !nc_shape_domain(name) || nc_streq(name, "index.docker.io") || port == 1
        || (port > 1 && strspn(s + domain + 1, NC_DIGITS) != port - 1)
        || (port == 0 && !strchr(name, '.') && !nc_streq(name, "localhost")))
        return false;
    for (s += registry; *s == '/'; names++) {
        if (nc_streq(s, "/*"))
            return true;
        do {
            s++;
            s += s[-1] == '-' ? strspn(s, "-") : s[-1] == '_' && *s == '_';
            n = strspn(s, NC_LOWER NC_DIGITS);
            s += n;
        } while (n > 0 && *s && strchr("._-", *s));
        if (n == 0)
            return false;
    }
    return !*s && names > 1;
}

static const char reservation_policies[] = "None\0TieredReservation\0";
static const char pull_policies[] =
    "NeverVerify\0NeverVerifyPreloadedImages\0NeverVerifyAllowlistedImages\0"
    "AlwaysVerify\0";
static const char enforcements[] =
    "pods\0system-reserved\0kube-reserved\0system-reserved-compressible\0"
    "kube-reserved-compressible\0none\0";
static bool is_containerd(const char *s) {
    return nc_streq(s, "containerd");
}

#define KUBELET_FIELDS(F)                                                                          \
    F("kind", STRING, ONE_OF(kinds))                                                               \
    F("apiVersion", STRING, ONE_OF(api_versions))                                                  \
    F("enableServer", BOOL, .flags = NAMED)                                                        \
    F("staticPodPath\0pod-manifest-path", STRING, .flags = OTHER)                                  \
    F("podLogsDir", STRING, CHECKED(is_clean_path, "an absolute path without //, . or .."))        \
    F("syncFrequency", DURATION, MAY_BE_EMPTY(NAMED))                                              \
    F("fileCheckFrequency", DURATION, MAY_BE_EMPTY(NAMED))                                         \
    F("httpCheckFrequency", DURATION, MAY_BE_EMPTY(NAMED))                                         \
    F("staticPodURL\0manifest-url", STRING, .flags = OTHER)                                        \
    F("staticPodURLHeader\0manifest-url-header", MAP, ENTRIES(NULL, &headers),                     \
      .flags = OTHER | NC_FIELD_SECRET)                                                            \
    F("address", STRING, .flags = NAMED)                                                           \
    F("port", INT, BETWEEN(1, 65535), .flags = NAMED)                                              \
    F("readOnlyPort", INT, BETWEEN(0, 65535), .flags = NAMED)                                      \
    F("tlsCertFile", STRING, .flags = NAMED)                                                       \
    F("tlsPrivateKeyFile", STRING, .flags = NAMED)                                                 \
    F("tlsCipherSuites", STRINGS, .flags = NAMED)                                                  \
    F("tlsCurvePreferences", INTS)                                                                 \
    F("tlsMinVersion", STRING, ONE_OF(tls_versions), .flags = NAMED)                               \
    F("rotateCertificates", BOOL, .flags = NAMED)                                                  \
    F("serverTLSBootstrap\0rotate-server-certificates", BOOL, .flags = OTHER)                      \
    F("authentication", OBJECT, OF(authentication))                                                \
    F("authorization", OBJECT, OF(authorization))                                                  \
    F("registryPullQPS\0registry-qps", INT, BETWEEN(0, INT32_MAX), .flags = OTHER)                 \
    F("registryBurst", INT, BETWEEN(0, INT32_MAX), .flags = NAMED)                                 \
    F("imagePullCredentialsVerificationPolicy", STRING, ONE_OF(pull_policies))                     \
    F("preloadedImagesVerificationAllowlist", STRINGS,                                             \
      CHECKED(is_image_pattern, "an image without tag, such as registry.example.com/name"),        \
      .flags = NC_FIELD_MAY_BE_EMPTY)                                                              \
    F("eventRecordQPS\0event-qps", INT, BETWEEN(0, INT32_MAX), .flags = OTHER)                     \
    F("eventBurst", INT, BETWEEN(0, INT32_MAX), .flags = NAMED)                                    \
    F("enableDebuggingHandlers", BOOL, .flags = NAMED)                                             \
    F("enableContentionProfiling\0contention-profiling", BOOL, .flags = OTHER)                     \
    F("healthzPort", INT, BETWEEN(0, 65535), .flags = NAMED)                                       \
    F("healthzBindAddress", STRING, .flags = NAMED)                                                \
    F("oomScoreAdj", INT, BETWEEN(-1000, 1000), .flags = NAMED)                                    \
    F("clusterDomain", STRING, .flags = NAMED)                                                     \
    F("clusterDNS", STRINGS, CHECKED(nc_shape_ip, "an IP address"),                                \
      .flags = NAMED | NC_FIELD_V1BETA1)                                                           \
    F("streamingConnectionIdleTimeout", DURATION, MAY_BE_EMPTY(NAMED))                             \
    F("nodeStatusUpdateFrequency", DURATION, MAY_BE_EMPTY(NAMED))                                  \
    F("nodeStatusReportFrequency", DURATION, MAY_BE_EMPTY(0))                                      \
    F("nodeLeaseDurationSeconds", INT, BETWEEN(1, INT32_MAX))                                      \
    F("imageMinimumGCAge\0minimum-image-ttl-duration", DURATION, MAY_BE_EMPTY(OTHER))              \
    F("imageMaximumGCAge", DURATION, MAY_BE_EMPTY(0))                                              \
    F("imageGCHighThresholdPercent\0image-gc-high-threshold", INT, BETWEEN(0, 100),                \
      .flags = NC_FIELD_V1BETA1 | OTHER)                                                           \
    F("imageGCLowThresholdPercent\0image-gc-low-threshold", INT, BETWEEN(0, 100),                  \
      .flags = NC_FIELD_V1BETA1 | OTHER)                                                           \
    F("volumeStatsAggPeriod", DURATION, MAY_BE_EMPTY(NAMED))                                       \
    F("kubeletCgroups", STRING, .flags = NAMED)                                                    \
    F("systemCgroups", STRING, .flags = NAMED)                                                     \
    F("cgroupRoot", STRING, .flags = NAMED)                                                        \
    F("cgroupsPerQOS", BOOL, .flags = NAMED)                                                       \
    F("cgroupDriver", STRING, ONE_OF(cgroup_drivers), .flags = NAMED)                              \
    F("cpuManagerPolicy", STRING, ONE_OF(cpu_policies), .flags = NAMED)                            \
    F("singleProcessOOMKill", BOOL)                                                                \
    F("cpuManagerPolicyOptions", STRING_MAP, ENTRIES(NULL, &option),                               \
      .flags = NAMED | NC_FIELD_ONE_PAIR)                                                          \
    F("cpuManagerReconcilePeriod", DURATION, MAY_BE_EMPTY(NAMED))                                  \
    F("memoryManagerPolicy", STRING, ONE_OF(memory_policies), .flags = NAMED)                      \
    F("topologyManagerPolicy", STRING, ONE_OF(topology_policies), .flags = NAMED)                  \
    F("topologyManagerScope", STRING, ONE_OF(topology_scopes), .flags = NAMED)                     \
    F("topologyManagerPolicyOptions", STRING_MAP, ENTRIES(NULL, &option), .flags = NAMED)          \
    F("qosReserved", STRING_MAP, ENTRIES(&qos_resource, &percentage), .flags = NAMED)              \
    F("runtimeRequestTimeout", DURATION, MAY_BE_EMPTY(NAMED))                                      \
    F("hairpinMode", STRING, ONE_OF(hairpin_modes), .flags = NAMED)                                \
    F("maxPods", INT, BETWEEN(0, INT32_MAX),                                                       \
      .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_EXPRESSION)                                     \
    F("podCIDR", STRING, .flags = NAMED)                                                           \
    F("podPidsLimit\0pod-max-pids", INT, BETWEEN(INT32_MIN, INT64_MAX), .flags = OTHER)            \
    F("resolvConf", STRING, .flags = NAMED)                                                        \
    F("runOnce\0runonce", BOOL, .flags = OTHER)                                                    \
    F("cpuCFSQuota", BOOL, .flags = NAMED | NC_FIELD_V1BETA1)                                      \
    F("cpuCFSQuotaPeriod", DURATION, CHECKED(is_quota_period, "a duration from 1ms to 1s"),        \
      MAY_BE_EMPTY(NAMED))                                                                         \
    F("nodeStatusMaxImages", INT, BETWEEN(-1, INT32_MAX), .flags = NAMED)                          \
    F("maxOpenFiles", INT, BETWEEN(0, INT64_MAX), .flags = NAMED)                                  \
    F("contentType\0kube-api-content-type", STRING, .flags = OTHER)                                \
    F("kubeAPIQPS\0kube-api-qps", INT, BETWEEN(0, INT32_MAX), .flags = OTHER)                      \
    F("kubeAPIBurst", INT, BETWEEN(0, INT32_MAX), .flags = NAMED)                                  \
    F("serializeImagePulls", BOOL, .flags = NAMED)                                                 \
    F("maxParallelImagePulls", INT, BETWEEN(1, INT32_MAX))                                         \
    F("evictionHard", STRING_MAP, ENTRIES(&eviction_signal, &threshold),                           \
      .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_LESS_THAN)                                      \
    F("evictionSoft", STRING_MAP, ENTRIES(&eviction_signal, &threshold),                           \
      .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_LESS_THAN)                                      \
    F("evictionSoftGracePeriod", STRING_MAP, ENTRIES(&eviction_signal, &grace),                    \
      .flags = NAMED | NC_FIELD_V1BETA1)                                                           \
    F("evictionPressureTransitionPeriod", DURATION, MAY_BE_EMPTY(NAMED))                           \
    F("evictionMaxPodGracePeriod", INT, BETWEEN(0, INT32_MAX), .flags = NAMED | NC_FIELD_V1BETA1)  \
    F("evictionMinimumReclaim", STRING_MAP, ENTRIES(&eviction_signal, &reclaim), .flags = NAMED)   \
    F("mergeDefaultEvictionSettings", BOOL)                                                        \
    F("podsPerCore", INT, BETWEEN(0, INT32_MAX), .flags = NAMED | NC_FIELD_V1BETA1)                \
    F("enableControllerAttachDetach", BOOL, .flags = NAMED)                                        \
    F("protectKernelDefaults", BOOL, .flags = NAMED)                                               \
    F("makeIPTablesUtilChains\0make-iptables-util-chains", BOOL, .flags = OTHER)                   \
    F("iptablesMasqueradeBit", INT, BETWEEN(0, 31))                                                \
    F("iptablesDropBit", INT, BETWEEN(0, 31))                                                      \
    F("featureGates", BOOL_MAP, .flags = NAMED)                                                    \
    F("failSwapOn", BOOL, .flags = NAMED)                                                          \
    F("memorySwap", OBJECT, OF(swap))                                                              \
    F("containerLogMaxSize", STRING, CHECKED(is_positive, "a quantity such as \"10Mi\""),          \
      .flags = NAMED)                                                                              \
    F("containerLogMaxFiles", INT, BETWEEN(2, INT32_MAX), .flags = NAMED)                          \
    F("containerLogMaxWorkers", INT, BETWEEN(1, INT32_MAX))                                        \
    F("containerLogMonitorInterval", DURATION,                                                     \
      CHECKED(is_monitor_interval, "a duration of at least 3s"), MAY_BE_EMPTY(0))                  \
    F("configMapAndSecretChangeDetectionStrategy", STRING)                                         \
    F("systemReserved", QUANTITY_MAP, ENTRIES(&nc_reserved_resource, NULL),                        \
      .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_EXPRESSION)                                     \
    F("kubeReserved", QUANTITY_MAP, ENTRIES(&nc_reserved_resource, NULL),                          \
      .flags = NAMED | NC_FIELD_V1BETA1 | NC_FIELD_EXPRESSION)                                     \
    F("reservedSystemCPUs\0reserved-cpus", STRING, .flags = OTHER)                                 \
    F("showHiddenMetricsForVersion", STRING)                                                       \
    F("systemReservedCgroup", STRING, .flags = NAMED)                                              \
    F("kubeReservedCgroup", STRING, .flags = NAMED)                                                \
    F("enforceNodeAllocatable", STRINGS, ONE_OF(enforcements),                                     \
      .flags = NAMED | NC_FIELD_MAY_BE_EMPTY)                                                      \
    F("allowedUnsafeSysctls", STRINGS,                                                             \
      CHECKED(is_namespaced, "a sysctl of a pod's own, such as net.*"),                            \
      .flags = NAMED | NC_FIELD_MAY_BE_EMPTY)                                                      \
    F("defaultPodSysctls", STRING_MAP)                                                             \
    F("volumePluginDir", STRING, .flags = NAMED)                                                   \
    F("providerID", STRING, .flags = NAMED)                                                        \
    F("kernelMemcgNotification", BOOL, .flags = NAMED)                                             \
    F("logging", OBJECT, OF(logging))                                                              \
    F("enableSystemLogHandler", BOOL)                                                              \
    F("enableSystemLogQuery", BOOL)                                                                \
    F("shutdownGracePeriod", DURATION, MAY_BE_EMPTY(0))                                            \
    F("shutdownGracePeriodCriticalPods", DURATION, MAY_BE_EMPTY(0))                                \
    F("shutdownGracePeriodByPodPriority", OBJECTS, OF(priority))                                   \
    F("crashLoopBackOff", OBJECT, OF(crash_loop))                                                  \
    F("reservedMemory", OBJECTS, OF(reserved_memory), .flags = NAMED)                              \
    F("enableProfilingHandler", BOOL)                                                              \
    F("enableDebugFlagsHandler", BOOL)                                                             \
    F("seccompDefault", BOOL)                                                                      \
    F("memoryThrottlingFactor", NUMBER)                                                            \
    F("memoryReservationPolicy", STRING, ONE_OF(reservation_policies))                             \
    F("registerWithTaints", OBJECTS, OF(nc_schema_taint))                                          \
    F("registerNode", BOOL, .flags = NAMED)                                                        \
    F("tracing", OBJECT, OF(tracing))                                                              \
    F("localStorageCapacityIsolation", BOOL, .flags = NAMED)                                       \
    F("containerRuntimeEndpoint", STRING, .flags = NAMED)                                          \
    F("imageServiceEndpoint", STRING, .flags = NAMED)                                              \
    F("failCgroupV1\0fail-cgroupv1", BOOL, .flags = OTHER)                                         \
    F("userNamespaces", OBJECT, OF(user_namespaces))                                               \
    F("containerRuntime", ANY, CHECKED(is_containerd, "the runtime is containerd"),                \
      .flags = NC_FIELD_UNSUPPORTED | NC_FIELD_V1BETA1)
const struct nc_schema nc_schema_kubelet = NC_SCHEMA("KubeletConfiguration", KUBELET_FIELDS);

/* The fields that carry NC_FIELD_V1BETA1. */
const struct nc_schema nc_schema_kubelet_beta = {.names = "the kubelet block of v1beta1\0",
                                                 .is_beta = true};
