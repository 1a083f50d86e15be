/*
 * Schemas of NodeConfig (node.eks.aws/v1alpha1) and AgentConfig (nodeclaimd.io/v1alpha1).
 *
 * NodeConfig is nodeadm's own (nodeadm/api/v1alpha1/nodeconfig_types.go of 2026-07), so that every
 * document that nodeadm takes is taken here; what nodeadm drops in silence is a warning here.
 */
#include "schema.h"

#include "config-priv.h"
#include "nc/encode.h"
#include "nc/mem.h"
#include "nc/names.h"
#include "nc/str.h"
#include "shapes.h"

/* certificateAuthority as it stands in a document. That it is a PEM file nc_config_build asks of
 * the one that is in force. */
static bool is_encoded_authority(const char *text) {
    nc_cleanup(nc_buf_done) struct nc_buf pem = NC_BUF_INIT_MAX((size_t)256 << 10);

    return nc_base64_decode(text, strlen(text), &pem) == 0 && pem.len > 0
           && !memchr(pem.data, '\0', pem.len);
}

static bool is_cluster_name(const char *s) {
    return nc_is_alnum_or(s, "-_.", 100) && !strchr("-_.", s[0]);
}

static bool is_systemd_unit(const char *s) {
    return nc_is_alnum_or(s, ":-_.\\@", 255) && nc_ends_with(s, ".service")
           && !nc_streq(s, ".service");
}

static bool is_provider_id(const char *s) {
    return strlen(s) <= 255 && strstr(s, "://") != NULL && nc_is_text(s, strlen(s))
           && !strpbrk(s, " \t\r\n");
}

/* A value may follow its flag as an item of its own. */
static bool is_flag(const char *s) {
    return strlen(s) <= 16384 && !strpbrk(s, "\r\n");
}

/* `self` asked every node for the right to delete NodeClaims. */
static bool is_none(const char *s) {
    return nc_streq(s, "none");
}

/* "NAMESPACE/NAME", or all of them. */
static bool is_daemon_set(const char *s) {
    const char *slash = strchr(s, '/');

    return nc_streq(s, NC_FIT_ALL)
           || (slash && nc_is_dns_subdomain(s, (size_t)(slash - s))
               && nc_is_dns_subdomain(slash + 1, strlen(slash + 1)));
}

/* Ours would wait for themselves. */
static bool is_others_condition(const char *s) {
    return nc_shape_qualified_name(s) && !nc_starts_with(s, NC_OURS)
           && !nc_streq(s, "BootstrapComplete");
}

#define PATH_EXPECTED "an absolute path"
#define LABEL_KEY_EXPECTED "a label key such as example.com/name"
#define LABEL_VALUE_EXPECTED "at most 63 letters, digits, - _ ."
#define URL_EXPECTED "a URL such as https://ec2.us-west-2.amazonaws.com"
#define CA_EXPECTED "the base64 form of a PEM file of certificates (-----BEGIN CERTIFICATE----- …)"

#define CLUSTER_FIELDS(F)                                                                          \
    F("name", STRING,                                                                              \
      CHECKED(is_cluster_name, "a cluster name: at most 100 letters, digits, - and _"))            \
    F("apiServerEndpoint", STRING,                                                                 \
      CHECKED(nc_shape_https_url,                                                                  \
              "an https URL such as https://ABC.gr7.us-west-2.eks.amazonaws.com"))                 \
    F("certificateAuthority", STRING, CHECKED(is_encoded_authority, CA_EXPECTED))                  \
    F("cidr", STRING,                                                                              \
      CHECKED(nc_shape_cidr, "the service CIDR of the cluster such as 10.100.0.0/16"))

static const char strategies[] = "RAID0\0RAID10\0Mount\0";
static const char mounts[] = "Containerd\0PodLogs\0SOCI\0";
static const char features[] = "InstanceIdNodeName\0FastImagePull\0";
static const struct nc_field feature = {.allowed = features};

#define NODE_CLUSTER_FIELDS(F)                                                                     \
    CLUSTER_FIELDS(F)                                                                              \
    F("enableOutpost", BOOL)                                                                       \
    F("id", STRING, .flags = NC_FIELD_IGNORED,                                                     \
      CHECKED(NULL, "only local clusters on AWS Outposts have one, and they are not supported"))
static const struct nc_schema node_cluster =
    NC_SCHEMA("NodeConfig's spec.cluster", NODE_CLUSTER_FIELDS);

/* --manifest-url-header has a secret. */
#define FLAG CHECKED(is_flag, "one line, a flag such as --v=2"), .flags = NC_FIELD_SECRET
#define NODE_KUBELET_FIELDS(F)                                                                     \
    F("config", OBJECT, OF(nc_schema_kubelet))                                                     \
    F("flags", STRINGS, FLAG)                                                                      \
    F("maxPodsExpression", STRING)
static const struct nc_schema node_kubelet =
    NC_SCHEMA("NodeConfig's spec.kubelet", NODE_KUBELET_FIELDS);

#define CONTAINERD_FIELDS(F)                                                                       \
    F("config", STRING)                                                                            \
    F("baseRuntimeSpec", MAP)
static const struct nc_schema containerd =
    NC_SCHEMA("NodeConfig's spec.containerd", CONTAINERD_FIELDS);

#define STORAGE_FIELDS(F)                                                                          \
    F("strategy", STRING, ONE_OF(strategies))                                                      \
    F("mountPath", STRING,                                                                         \
      CHECKED(nc_shape_mount_path,                                                                 \
              "an absolute path of letters, digits, - _ . and / such as /mnt/k8s-disks"))          \
    F("disabledMounts", STRINGS, ONE_OF(mounts))
static const struct nc_schema storage =
    NC_SCHEMA("NodeConfig's spec.instance.localStorage", STORAGE_FIELDS);
#define NETWORK_FIELDS(F)                                                                          \
    F("nameservers", STRINGS, CHECKED(nc_shape_ip, "an IPv4 or IPv6 address such as 10.0.0.2"))    \
    F("domains", STRINGS,                                                                          \
      CHECKED(nc_shape_search_domain,                                                              \
              "a domain such as example.com, or ~example.com to route its queries only"))
static const struct nc_schema network =
    NC_SCHEMA("NodeConfig's spec.instance.network", NETWORK_FIELDS);
static const struct nc_field variable = {
    CHECKED(nc_shape_environment_name,
            "the name of a variable: letters, digits and _, no digit first"),
};
static const struct nc_field variable_value = {
    .type = NC_FIELD_STRING,
    .flags = NC_FIELD_SECRET, /* a proxy's URL may carry a password */
    CHECKED(nc_shape_environment_value,
            "one line of UTF-8 text without control characters, of less than 128 KiB"),
};
static const struct nc_field variables = {
    .type = NC_FIELD_STRING_MAP,
    .flags = NC_FIELD_SECRET,
    ENTRIES(&variable, &variable_value),
};
static const struct nc_field service = {
    CHECKED(nc_shape_environment_service,
            "default, or the name of a service without .service such as containerd"),
};
#define INSTANCE_FIELDS(F)                                                                         \
    F("localStorage", OBJECT, OF(storage))                                                         \
    F("environment", MAP, ENTRIES(&service, &variables), .flags = NC_FIELD_SECRET)                 \
    F("network", OBJECT, OF(network))
static const struct nc_schema instance = NC_SCHEMA("NodeConfig's spec.instance", INSTANCE_FIELDS);

#define NODE_SPEC_FIELDS(F)                                                                        \
    F("cluster", OBJECT, OF(node_cluster))                                                         \
    F("containerd", OBJECT, OF(containerd))                                                        \
    F("instance", OBJECT, OF(instance))                                                            \
    F("kubelet", OBJECT, OF(node_kubelet))                                                         \
    F("featureGates", BOOL_MAP, ENTRIES(&feature, NULL), .flags = NC_FIELD_OPEN_KEYS)
static const struct nc_schema node_spec = NC_SCHEMA("NodeConfig's spec", NODE_SPEC_FIELDS);

#define NODE_CONFIG_FIELDS(F)                                                                      \
    F("apiVersion", STRING)                                                                        \
    F("kind", STRING)                                                                              \
    F("metadata", OBJECT, OF(nc_schema_metadata))                                                  \
    F("spec", OBJECT, OF(node_spec), REQUIRED)                                                     \
    F("status", ANY, CHECKED(NULL, "the node finds this out itself"), .flags = NC_FIELD_IGNORED)
const struct nc_schema nc_schema_node_config = NC_SCHEMA("NodeConfig", NODE_CONFIG_FIELDS);

/* AgentConfig */

const char nc_auth_mode_names[] = "eks\0client-certificate\0bootstrap-token\0kubeconfig\0";
const char nc_naming_names[] = "private-dns\0resource-name\0instance-id\0hostname\0";
const char nc_max_pods_mode_names[] = "eni\0custom-networking\0prefix\0expression\0explicit\0"
                                      "security-groups-for-pods\0";
const char nc_reservation_names[] = "karpenter\0actual\0gke\0aks\0auto-mode\0explicit\0claim\0";
const char nc_kubelet_start_names[] = "systemd\0exec\0none\0";
const char nc_ec2_use_names[] = "auto\0never\0always\0";
const char nc_cloud_init_wait_names[] = "auto\0always\0never\0";
const char nc_unsupported_names[] = "refuse\0warn\0";
const char nc_claim_lookup_names[] = "auto\0never\0";

#define AUTH_FIELDS(F)                                                                             \
    F("mode", STRING, ONE_OF(nc_auth_mode_names))                                                  \
    F("clientCertificate", STRING, CHECKED(nc_shape_absolute_path, PATH_EXPECTED))                 \
    F("clientKey", STRING, CHECKED(nc_shape_absolute_path, PATH_EXPECTED))                         \
    F("bootstrapToken", STRING,                                                                    \
      CHECKED(nc_shape_bootstrap_token,                                                            \
              "a bootstrap token: six characters, a dot, sixteen characters, all of a-z and 0-9"), \
      .flags = NC_FIELD_SECRET)                                                                    \
    F("kubeconfig", STRING, CHECKED(nc_shape_absolute_path, PATH_EXPECTED))
static const struct nc_schema auth = NC_SCHEMA("AgentConfig's spec.cluster.auth", AUTH_FIELDS);
#define AGENT_CLUSTER_FIELDS(F)                                                                    \
    CLUSTER_FIELDS(F)                                                                              \
    F("auth", OBJECT, OF(auth))
static const struct nc_schema agent_cluster =
    NC_SCHEMA("AgentConfig's spec.cluster", AGENT_CLUSTER_FIELDS);

static const struct nc_field label = {CHECKED(nc_shape_qualified_name, LABEL_KEY_EXPECTED)};
static const struct nc_field label_value = {.type = NC_FIELD_STRING,
                                            .flags = NC_FIELD_FORGIVING,
                                            CHECKED(nc_shape_label_value, LABEL_VALUE_EXPECTED)};
/* Paths of IMDS below meta-data that are no secret, and whose values may be labels. */
static bool is_label_source(const char *s) {
    static const char paths[] =
        "ami-id\0instance-life-cycle\0instance-type\0placement/availability-zone\0"
        "placement/availability-zone-id\0placement/group-name\0placement/host-id\0"
        "placement/partition-number\0placement/region\0";
    static const char tags[] = "tags/instance/";
    const char *key = s + strlen(tags);

    if (!nc_starts_with(s, tags))
        return nc_is_one_of(s, paths);
    return nc_is_alnum_or(key, "+=,.@_:-", 128) && !nc_streq(key, ".") && !nc_streq(key, "..");
}

static const struct nc_field label_source = {
    .type = NC_FIELD_STRING,
    CHECKED(is_label_source,
            "placement/partition-number, placement/group-name, placement/host-id, "
            "placement/availability-zone, placement/availability-zone-id, placement/region, "
            "instance-life-cycle, instance-type, ami-id or tags/instance/KEY"),
};

#define AGENT_NODE_FIELDS(F)                                                                       \
    F("name", STRING, ONE_OF(nc_naming_names))                                                     \
    F("nameOverride", STRING,                                                                      \
      CHECKED(nc_shape_node_name, "a node name: lower-case letters, digits, dashes and dots"))     \
    F("labels", STRING_MAP, ENTRIES(&label, &label_value))                                         \
    F("labelsFrom", STRING_MAP, ENTRIES(&label, &label_source))                                    \
    F("taints", OBJECTS, OF(nc_schema_taint))                                                      \
    F("providerID", STRING,                                                                        \
      CHECKED(is_provider_id, "a provider id such as aws:///us-west-2a/i-0123456789abcdef0"))
static const struct nc_schema agent_node = NC_SCHEMA("AgentConfig's spec.node", AGENT_NODE_FIELDS);

#define MAX_PODS_FIELDS(F)                                                                         \
    F("mode", STRING, ONE_OF(nc_max_pods_mode_names))                                              \
    F("expression", STRING)                                                                        \
    F("value", INT, BETWEEN(1, INT32_MAX))                                                         \
    F("atMost", INT, BETWEEN(1, INT32_MAX))
static const struct nc_schema max_pods = NC_SCHEMA("AgentConfig's spec.maxPods", MAX_PODS_FIELDS);

#define RESERVATION_FIELDS(F)                                                                      \
    F("policy", STRING, ONE_OF(nc_reservation_names))                                              \
    F("kubeReserved", QUANTITY_MAP, ENTRIES(&nc_reserved_resource, NULL))                          \
    F("systemReserved", QUANTITY_MAP, ENTRIES(&nc_reserved_resource, NULL))
static const struct nc_schema reservation =
    NC_SCHEMA("AgentConfig's spec.reservation", RESERVATION_FIELDS);

/* A CredentialProvider of kubelet.config.k8s.io/v1, and what kubelet demands of one. */
static const char provider_versions[] = "credentialprovider.kubelet.k8s.io/v1\0"
                                        "credentialprovider.kubelet.k8s.io/v1beta1\0"
                                        "credentialprovider.kubelet.k8s.io/v1alpha1\0";
static const char token_caches[] = "ServiceAccount\0Token\0";

static bool is_program_name(const char *s) {
    return nc_is_visible(s, strlen(s)) && strlen(s) <= 255 && !strchr(s, '/') && !nc_streq(s, ".")
           && !nc_streq(s, "..");
}

static bool is_image_pattern(const char *s) {
    return nc_is_visible(s, strlen(s)) && !strstr(s, "://") && s[0] != '/' && !strchr(s, '?');
}

#define PROVIDER_ENV_FIELDS(F)                                                                     \
    F("name", STRING, REQUIRED)                                                                    \
    F("value", STRING, .flags = NC_FIELD_MAY_BE_EMPTY | NC_FIELD_SECRET)
static const struct nc_schema provider_env = NC_SCHEMA("a variable", PROVIDER_ENV_FIELDS);
#define PROVIDER_TOKEN_FIELDS(F)                                                                   \
    F("serviceAccountTokenAudience", STRING, REQUIRED)                                             \
    F("cacheType", STRING, ONE_OF(token_caches), REQUIRED)                                         \
    F("requireServiceAccount", BOOL, REQUIRED)                                                     \
    F("requiredServiceAccountAnnotationKeys", STRINGS)                                             \
    F("optionalServiceAccountAnnotationKeys", STRINGS)
static const struct nc_schema provider_token = NC_SCHEMA("tokenAttributes", PROVIDER_TOKEN_FIELDS);
#define PROVIDER_FIELDS(F)                                                                         \
    F("name", STRING,                                                                              \
      CHECKED(is_program_name, "the name of a program in the folder of ecr-credential-provider"),  \
      REQUIRED)                                                                                    \
    F("matchImages", STRINGS,                                                                      \
      CHECKED(is_image_pattern,                                                                    \
              "the name of a registry, or of images in it, such as *.example.com/team"),           \
      REQUIRED)                                                                                    \
    F("defaultCacheDuration", DURATION, REQUIRED)                                                  \
    F("apiVersion", STRING, ONE_OF(provider_versions), REQUIRED)                                   \
    F("args", STRINGS, .flags = NC_FIELD_SECRET)                                                   \
    F("env", OBJECTS, OF(provider_env), .flags = NC_FIELD_SECRET)                                  \
    F("tokenAttributes", OBJECT, OF(provider_token))
static const struct nc_schema provider = NC_SCHEMA("a credential provider", PROVIDER_FIELDS);

#define AGENT_KUBELET_FIELDS(F)                                                                    \
    F("start", STRING, ONE_OF(nc_kubelet_start_names))                                             \
    F("unit", STRING, CHECKED(is_systemd_unit, "the name of a service such as kubelet.service"))   \
    F("path", STRING, CHECKED(nc_shape_absolute_path, PATH_EXPECTED))                              \
    F("config", OBJECT, OF(nc_schema_kubelet))                                                     \
    F("flags", STRINGS, FLAG)                                                                      \
    F("imageCredentialProviders", OBJECTS, OF(provider), .flags = NC_FIELD_SECRET)
static const struct nc_schema agent_kubelet =
    NC_SCHEMA("AgentConfig's spec.kubelet", AGENT_KUBELET_FIELDS);

#define SHUTDOWN_FIELDS(F)                                                                         \
    F("gracePeriod", DURATION)                                                                     \
    F("gracePeriodCriticalPods", DURATION)
static const struct nc_schema shutdown_schema =
    NC_SCHEMA("AgentConfig's spec.shutdown", SHUTDOWN_FIELDS);
/* Of a table of nc/sources.h or nc/drain-settings.h either part alone. */
#define NO_FIELD(...)
#define POLICY_NAME(id, name, ...) NC_FIELD_NAME(name)
/* An empty one, such as a template leaves, is not auto, nor a policy. */
#define POLICIES ONE_OF(nc_policy_names), .flags = NC_FIELD_MAY_BE_EMPTY
#define POLICY_ROW(id, name, ...) NC_FIELD_ROW(name, STRING, POLICIES)
#define SETTING_NAME(type, member, name, ...) NC_FIELD_NAME(name)
#define SETTING_ROW(type, member, name, ...) NC_FIELD_ROW(name, SETTING_##type)
#define NC_FIELD_SETTING_POLICY NC_FIELD_STRING, POLICIES
#define NC_FIELD_SETTING_MODE                                                                      \
    NC_FIELD_STRING, ONE_OF(nc_drain_mode_names), .flags = NC_FIELD_MAY_BE_EMPTY
#define NC_FIELD_SETTING_DURATION NC_FIELD_DURATION
#define NC_FIELD_SETTING_BOOL NC_FIELD_BOOL
static const struct nc_schema interruption = {
    .names = "AgentConfig's spec.interruption\0" NC_SOURCES(POLICY_NAME, NO_FIELD)
        NC_MAINTENANCE_CODES(POLICY_NAME) NC_DRAIN_SETTINGS(SETTING_NAME, NO_FIELD),
    .fields = {NC_SOURCES(POLICY_ROW, NO_FIELD) NC_MAINTENANCE_CODES(POLICY_ROW)
                   NC_DRAIN_SETTINGS(SETTING_ROW, NO_FIELD)}};
static const struct nc_schema drain = {
    .names = "AgentConfig's spec.drain\0" NC_DRAIN_SETTINGS(NO_FIELD, SETTING_NAME),
    .fields = {NC_DRAIN_SETTINGS(NO_FIELD, SETTING_ROW)}};
#define FIT_FIELDS(F)                                                                              \
    F("daemonSets", STRINGS,                                                                       \
      CHECKED(is_daemon_set, "all, or NAMESPACE/NAME such as kube-system/aws-node"),               \
      .flags = NC_FIELD_LONE)                                                                      \
    F("csiDrivers", STRINGS,                                                                       \
      CHECKED(nc_shape_domain, "the name of a CSI driver such as ebs.csi.aws.com"))                \
    F("resources", STRINGS, CHECKED(nc_shape_qualified_name, "a resource such as nvidia.com/gpu")) \
    F("conditions", STRINGS,                                                                       \
      CHECKED(is_others_condition, "the type of a Node's condition that others set"))              \
    F("timeout", DURATION)                                                                         \
    F("onTimeout", STRING, ONE_OF(nc_fit_timeout_names))
static const struct nc_schema fit = NC_SCHEMA("AgentConfig's spec.fit", FIT_FIELDS);
#define REPORT_FIELDS(F)                                                                           \
    F("console", BOOL)                                                                             \
    F("events", BOOL)                                                                              \
    F("node", BOOL)
static const struct nc_schema report = NC_SCHEMA("AgentConfig's spec.report", REPORT_FIELDS);
#define AWS_FIELDS(F)                                                                              \
    F("ec2", STRING, ONE_OF(nc_ec2_use_names))                                                     \
    F("ec2Endpoint", STRING, CHECKED(nc_shape_url, URL_EXPECTED))                                  \
    F("stsEndpoint", STRING, CHECKED(nc_shape_url, URL_EXPECTED))                                  \
    F("partition", STRING, .flags = NC_FIELD_UNSUPPORTED,                                          \
      CHECKED(NULL,                                                                                \
              "nothing depends on it; aws.domain, aws.ec2Endpoint and aws.stsEndpoint do what "    \
              "a partition would"))                                                                \
    F("domain", STRING, CHECKED(nc_shape_domain, "a domain such as amazonaws.com.cn"))
static const struct nc_schema aws = NC_SCHEMA("AgentConfig's spec.aws", AWS_FIELDS);
#define BOOTSTRAP_FIELDS(F)                                                                        \
    F("waitForCloudInit", STRING, ONE_OF(nc_cloud_init_wait_names))                                \
    F("unsupported", STRING, ONE_OF(nc_unsupported_names))
static const struct nc_schema bootstrap =
    NC_SCHEMA("AgentConfig's spec.bootstrap", BOOTSTRAP_FIELDS);
#define CLAIM_FIELDS(F) F("lookup", STRING, ONE_OF(nc_claim_lookup_names))
static const struct nc_schema claim = NC_SCHEMA("AgentConfig's spec.claim", CLAIM_FIELDS);

#define AGENT_SPEC_FIELDS(F)                                                                       \
    F("cluster", OBJECT, OF(agent_cluster))                                                        \
    F("node", OBJECT, OF(agent_node))                                                              \
    F("maxPods", OBJECT, OF(max_pods))                                                             \
    F("reservation", OBJECT, OF(reservation))                                                      \
    F("kubelet", OBJECT, OF(agent_kubelet))                                                        \
    F("shutdown", OBJECT, OF(shutdown_schema))                                                     \
    F("interruption", OBJECT, OF(interruption))                                                    \
    F("drain", OBJECT, OF(drain))                                                                  \
    F("fit", OBJECT, OF(fit))                                                                      \
    F("signal", STRING,                                                                            \
      CHECKED(is_none, "none, or left out: nodeclaim-controller relays a node's deadline to "      \
                       "Karpenter"))                                                               \
    F("report", OBJECT, OF(report))                                                                \
    F("aws", OBJECT, OF(aws))                                                                      \
    F("bootstrap", OBJECT, OF(bootstrap))                                                          \
    F("claim", OBJECT, OF(claim))
static const struct nc_schema agent_spec = NC_SCHEMA("AgentConfig's spec", AGENT_SPEC_FIELDS);

#define AGENT_CONFIG_FIELDS(F)                                                                     \
    F("apiVersion", STRING)                                                                        \
    F("kind", STRING)                                                                              \
    F("metadata", OBJECT, OF(nc_schema_metadata))                                                  \
    F("spec", OBJECT, OF(agent_spec))
const struct nc_schema nc_schema_agent_config = NC_SCHEMA("AgentConfig", AGENT_CONFIG_FIELDS);
