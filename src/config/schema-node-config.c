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

#define F(n, t)                                                                                    \
    { .name = (n), .type = NC_FIELD_##t }
#define ONE_OF(n, list)                                                                            \
    { .name = (n), .type = NC_FIELD_STRING, .allowed = (list) }
#define CHECKED(n, f, names)                                                                       \
    { .name = (n), .type = NC_FIELD_STRING, .check = (f), .wanted = (names) }
#define OBJECT(n, s)                                                                               \
    { .name = (n), .type = NC_FIELD_OBJECT, .object = &(s) }

/* certificateAuthority as it stands in a document. That it is a PEM file is asked where it is
 * needed: nc_config_check_authority. */
static bool is_encoded_authority(const char *text) {
    nc_cleanup(nc_buf_done) struct nc_buf pem = NC_BUF_INIT_MAX((size_t)256 << 10);

    return nc_base64_decode(text, strlen(text), &pem) == 0 && pem.len > 0
           && !memchr(pem.data, '\0', pem.len);
}

static bool is_cluster_name(const char *s) {
    static const char inner[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

    return strlen(s) <= 100 && !strchr("-_.", s[0]) && s[strspn(s, inner)] == '\0';
}

static bool is_systemd_unit(const char *s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_.\\@");

    return s[n] == '\0' && n <= 255 && nc_ends_with(s, ".service") && n > strlen(".service");
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

#define CLUSTER_FIELDS                                                                             \
    CHECKED("name", is_cluster_name, "a cluster name: at most 100 letters, digits, - and _"),      \
        CHECKED("apiServerEndpoint", nc_shape_https_url,                                           \
                "an https URL such as https://ABC.gr7.us-west-2.eks.amazonaws.com"),               \
        CHECKED("certificateAuthority", is_encoded_authority, CA_EXPECTED),                        \
        CHECKED("cidr", nc_shape_cidr, "the service CIDR of the cluster such as 10.100.0.0/16")

static const char strategies[] = "RAID0\0RAID10\0Mount\0";
static const char mounts[] = "Containerd\0PodLogs\0SOCI\0";
static const char features[] = "InstanceIdNodeName\0FastImagePull\0";
static const struct nc_field feature = {.allowed = features};

static const struct nc_field node_cluster_fields[] = {
    CLUSTER_FIELDS,
    F("enableOutpost", BOOL),
    {.name = "id",
     .type = NC_FIELD_STRING,
     .flags = NC_FIELD_IGNORED,
     .wanted = "only local clusters on AWS Outposts have one, and they are not supported"},
};
static const struct nc_schema node_cluster =
    NC_SCHEMA("NodeConfig's spec.cluster", node_cluster_fields);

static const struct nc_field node_kubelet_fields[] = {
    OBJECT("config", nc_schema_kubelet),
    {.name = "flags",
     .type = NC_FIELD_STRINGS,
     .check = is_flag,
     .wanted = "one line, a flag such as --v=2"},
    F("maxPodsExpression", STRING),
};
static const struct nc_schema node_kubelet =
    NC_SCHEMA("NodeConfig's spec.kubelet", node_kubelet_fields);

static const struct nc_field containerd_fields[] = {F("config", STRING), F("baseRuntimeSpec", MAP)};
static const struct nc_schema containerd =
    NC_SCHEMA("NodeConfig's spec.containerd", containerd_fields);

static const struct nc_field storage_fields[] = {
    ONE_OF("strategy", strategies),
    CHECKED("mountPath", nc_shape_mount_path,
            "an absolute path of letters, digits, - _ . and / such as /mnt/k8s-disks"),
    {.name = "disabledMounts", .type = NC_FIELD_STRINGS, .allowed = mounts},
};
static const struct nc_schema storage =
    NC_SCHEMA("NodeConfig's spec.instance.localStorage", storage_fields);
static const struct nc_field network_fields[] = {
    {.name = "nameservers",
     .type = NC_FIELD_STRINGS,
     .check = nc_shape_ip,
     .wanted = "an IPv4 or IPv6 address such as 10.0.0.2"},
    {.name = "domains",
     .type = NC_FIELD_STRINGS,
     .check = nc_shape_search_domain,
     .wanted = "a domain such as example.com, or ~example.com to route its queries only"},
};
static const struct nc_schema network =
    NC_SCHEMA("NodeConfig's spec.instance.network", network_fields);
static const struct nc_field variable = {
    .check = nc_shape_environment_name,
    .wanted = "the name of a variable: letters, digits and _, no digit first",
};
static const struct nc_field variables = {
    .type = NC_FIELD_STRING_MAP,
    .check = nc_shape_environment_value,
    .wanted = "one line of UTF-8 text without control characters, of less than 128 KiB",
    .key = &variable,
};
static const struct nc_field service = {
    .check = nc_shape_environment_service,
    .wanted = "default, or the name of a service without .service such as containerd",
};
static const struct nc_field instance_fields[] = {
    OBJECT("localStorage", storage),
    {.name = "environment", .type = NC_FIELD_MAP, .key = &service, .value = &variables},
    OBJECT("network", network),
};
static const struct nc_schema instance = NC_SCHEMA("NodeConfig's spec.instance", instance_fields);

static const struct nc_field node_spec_fields[] = {
    OBJECT("cluster", node_cluster),
    OBJECT("containerd", containerd),
    OBJECT("instance", instance),
    OBJECT("kubelet", node_kubelet),
    {.name = "featureGates",
     .type = NC_FIELD_BOOL_MAP,
     .key = &feature,
     .flags = NC_FIELD_OPEN_KEYS},
};
static const struct nc_schema node_spec = NC_SCHEMA("NodeConfig's spec", node_spec_fields);

static const struct nc_field node_config_fields[] = {
    F("apiVersion", STRING),
    F("kind", STRING),
    OBJECT("metadata", nc_schema_metadata),
    {.name = "spec", .type = NC_FIELD_OBJECT, .object = &node_spec, .flags = NC_FIELD_REQUIRED},
    {.name = "status",
     .type = NC_FIELD_ANY,
     .flags = NC_FIELD_IGNORED,
     .wanted = "the node finds this out itself"},
};
const struct nc_schema nc_schema_node_config = NC_SCHEMA("NodeConfig", node_config_fields);

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

static const struct nc_field auth_fields[] = {
    ONE_OF("mode", nc_auth_mode_names),
    CHECKED("clientCertificate", nc_shape_absolute_path, PATH_EXPECTED),
    CHECKED("clientKey", nc_shape_absolute_path, PATH_EXPECTED),
    {.name = "bootstrapToken",
     .type = NC_FIELD_STRING,
     .flags = NC_FIELD_SECRET,
     .check = nc_shape_bootstrap_token,
     .wanted = "a bootstrap token: six characters, a dot, sixteen characters, all of a-z and 0-9"},
    CHECKED("kubeconfig", nc_shape_absolute_path, PATH_EXPECTED),
};
static const struct nc_schema auth = NC_SCHEMA("AgentConfig's spec.cluster.auth", auth_fields);
static const struct nc_field agent_cluster_fields[] = {CLUSTER_FIELDS, OBJECT("auth", auth)};
static const struct nc_schema agent_cluster =
    NC_SCHEMA("AgentConfig's spec.cluster", agent_cluster_fields);

static const struct nc_field label = {.check = nc_shape_qualified_name,
                                      .wanted = LABEL_KEY_EXPECTED};
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
    return nc_is_made_of(key, NC_ALNUM "+=,.@_:-", 128) && !nc_streq(key, ".")
           && !nc_streq(key, "..");
}

static const struct nc_field agent_node_fields[] = {
    ONE_OF("name", nc_naming_names),
    CHECKED("nameOverride", nc_shape_node_name,
            "a node name: lower-case letters, digits, dashes and dots"),
    {.name = "labels",
     .type = NC_FIELD_STRING_MAP,
     .flags = NC_FIELD_FORGIVING,
     .check = nc_shape_label_value,
     .wanted = LABEL_VALUE_EXPECTED,
     .key = &label},
    {.name = "labelsFrom",
     .type = NC_FIELD_STRING_MAP,
     .check = is_label_source,
     .wanted = "placement/partition-number, placement/group-name, placement/host-id, "
               "placement/availability-zone, placement/availability-zone-id, placement/region, "
               "instance-life-cycle, instance-type, ami-id or tags/instance/KEY",
     .key = &label},
    {.name = "taints", .type = NC_FIELD_OBJECTS, .object = &nc_schema_taint},
    CHECKED("providerID", is_provider_id,
            "a provider id such as aws:///us-west-2a/i-0123456789abcdef0"),
};
static const struct nc_schema agent_node = NC_SCHEMA("AgentConfig's spec.node", agent_node_fields);

static const struct nc_field max_pods_fields[] = {
    ONE_OF("mode", nc_max_pods_mode_names),
    F("expression", STRING),
    {.name = "value", .type = NC_FIELD_INT, .min = 1, .max = INT32_MAX},
    {.name = "atMost", .type = NC_FIELD_INT, .min = 1, .max = INT32_MAX},
};
static const struct nc_schema max_pods = NC_SCHEMA("AgentConfig's spec.maxPods", max_pods_fields);

static const struct nc_field reservation_fields[] = {
    ONE_OF("policy", nc_reservation_names),
    {.name = "kubeReserved", .type = NC_FIELD_QUANTITY_MAP, .key = &nc_reserved_resource},
    {.name = "systemReserved", .type = NC_FIELD_QUANTITY_MAP, .key = &nc_reserved_resource},
};
static const struct nc_schema reservation =
    NC_SCHEMA("AgentConfig's spec.reservation", reservation_fields);

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

static const struct nc_field provider_env_fields[] = {
    {.name = "name", .type = NC_FIELD_STRING, .flags = NC_FIELD_REQUIRED},
    {.name = "value", .type = NC_FIELD_STRING, .flags = NC_FIELD_MAY_BE_EMPTY},
};
static const struct nc_schema provider_env = NC_SCHEMA("a variable", provider_env_fields);
static const struct nc_field provider_token_fields[] = {
    {.name = "serviceAccountTokenAudience", .type = NC_FIELD_STRING, .flags = NC_FIELD_REQUIRED},
    {.name = "cacheType",
     .type = NC_FIELD_STRING,
     .flags = NC_FIELD_REQUIRED,
     .allowed = token_caches},
    {.name = "requireServiceAccount", .type = NC_FIELD_BOOL, .flags = NC_FIELD_REQUIRED},
    F("requiredServiceAccountAnnotationKeys", STRINGS),
    F("optionalServiceAccountAnnotationKeys", STRINGS),
};
static const struct nc_schema provider_token = NC_SCHEMA("tokenAttributes", provider_token_fields);
static const struct nc_field provider_fields[] = {
    {.name = "name",
     .type = NC_FIELD_STRING,
     .flags = NC_FIELD_REQUIRED,
     .check = is_program_name,
     .wanted = "the name of a program in the folder of ecr-credential-provider"},
    {.name = "matchImages",
     .type = NC_FIELD_STRINGS,
     .flags = NC_FIELD_REQUIRED,
     .check = is_image_pattern,
     .wanted = "the name of a registry, or of images in it, such as *.example.com/team"},
    {.name = "defaultCacheDuration", .type = NC_FIELD_DURATION, .flags = NC_FIELD_REQUIRED},
    {.name = "apiVersion",
     .type = NC_FIELD_STRING,
     .flags = NC_FIELD_REQUIRED,
     .allowed = provider_versions},
    F("args", STRINGS),
    {.name = "env", .type = NC_FIELD_OBJECTS, .object = &provider_env},
    OBJECT("tokenAttributes", provider_token),
};
static const struct nc_schema provider = NC_SCHEMA("a credential provider", provider_fields);

static const struct nc_field agent_kubelet_fields[] = {
    ONE_OF("start", nc_kubelet_start_names),
    CHECKED("unit", is_systemd_unit, "the name of a service such as kubelet.service"),
    CHECKED("path", nc_shape_absolute_path, PATH_EXPECTED),
    OBJECT("config", nc_schema_kubelet),
    {.name = "flags",
     .type = NC_FIELD_STRINGS,
     .check = is_flag,
     .wanted = "one line, a flag such as --v=2"},
    {.name = "imageCredentialProviders", .type = NC_FIELD_OBJECTS, .object = &provider},
};
static const struct nc_schema agent_kubelet =
    NC_SCHEMA("AgentConfig's spec.kubelet", agent_kubelet_fields);

static const struct nc_field shutdown_fields[] = {F("gracePeriod", DURATION),
                                                  F("gracePeriodCriticalPods", DURATION)};
static const struct nc_schema shutdown_schema =
    NC_SCHEMA("AgentConfig's spec.shutdown", shutdown_fields);
static const struct nc_field interruption_fields[] = {
#define OPTION(id, name, ...) ONE_OF(name, nc_policy_names),
#define FIXED(...)
#define FIELD_POLICY(n) ONE_OF(n, nc_policy_names),
#define FIELD_MODE(n) ONE_OF(n, nc_drain_mode_names),
#define FIELD_DURATION(n) F(n, DURATION),
#define FIELD_BOOL(n) F(n, BOOL),
#define SETTING(type, member, name, ...) FIELD_##type(name)
    NC_SOURCES(OPTION, FIXED) NC_MAINTENANCE_CODES(OPTION) NC_DRAIN_SETTINGS(SETTING, FIXED)};
static const struct nc_schema interruption =
    NC_SCHEMA("AgentConfig's spec.interruption", interruption_fields);
static const struct nc_field drain_fields[] = {NC_DRAIN_SETTINGS(FIXED, SETTING)};
static const struct nc_schema drain = NC_SCHEMA("AgentConfig's spec.drain", drain_fields);
#define NAMES(n, f, names, more)                                                                   \
    { .name = (n), .type = NC_FIELD_STRINGS, .flags = (more), .check = (f), .wanted = (names) }
static const struct nc_field fit_fields[] = {
    NAMES("daemonSets", is_daemon_set, "all, or NAMESPACE/NAME such as kube-system/aws-node",
          NC_FIELD_LONE),
    NAMES("csiDrivers", nc_shape_domain, "the name of a CSI driver such as ebs.csi.aws.com", 0),
    NAMES("resources", nc_shape_qualified_name, "a resource such as nvidia.com/gpu", 0),
    NAMES("conditions", is_others_condition, "the type of a Node's condition that others set", 0),
    F("timeout", DURATION),
    ONE_OF("onTimeout", nc_fit_timeout_names),
};
static const struct nc_schema fit = NC_SCHEMA("AgentConfig's spec.fit", fit_fields);
static const struct nc_field report_fields[] = {F("console", BOOL), F("events", BOOL),
                                                F("node", BOOL)};
static const struct nc_schema report = NC_SCHEMA("AgentConfig's spec.report", report_fields);
static const struct nc_field aws_fields[] = {
    ONE_OF("ec2", nc_ec2_use_names),
    CHECKED("ec2Endpoint", nc_shape_url, URL_EXPECTED),
    CHECKED("stsEndpoint", nc_shape_url, URL_EXPECTED),
    {.name = "partition",
     .type = NC_FIELD_STRING,
     .flags = NC_FIELD_UNSUPPORTED,
     .wanted = "nothing depends on it; aws.domain, aws.ec2Endpoint and aws.stsEndpoint do what a "
               "partition would"},
    CHECKED("domain", nc_shape_domain, "a domain such as amazonaws.com.cn"),
};
static const struct nc_schema aws = NC_SCHEMA("AgentConfig's spec.aws", aws_fields);
static const struct nc_field bootstrap_fields[] = {
    ONE_OF("waitForCloudInit", nc_cloud_init_wait_names),
    ONE_OF("unsupported", nc_unsupported_names)};
static const struct nc_schema bootstrap =
    NC_SCHEMA("AgentConfig's spec.bootstrap", bootstrap_fields);
static const struct nc_field claim_fields[] = {ONE_OF("lookup", nc_claim_lookup_names)};
static const struct nc_schema claim = NC_SCHEMA("AgentConfig's spec.claim", claim_fields);

static const struct nc_field agent_spec_fields[] = {
    OBJECT("cluster", agent_cluster),
    OBJECT("node", agent_node),
    OBJECT("maxPods", max_pods),
    OBJECT("reservation", reservation),
    OBJECT("kubelet", agent_kubelet),
    OBJECT("shutdown", shutdown_schema),
    OBJECT("interruption", interruption),
    OBJECT("drain", drain),
    OBJECT("fit", fit),
    CHECKED("signal", is_none,
            "none, or left out: nodeclaim-controller relays a node's deadline to Karpenter "
            "(deploy/README.md)"),
    OBJECT("report", report),
    OBJECT("aws", aws),
    OBJECT("bootstrap", bootstrap),
    OBJECT("claim", claim),
};
static const struct nc_schema agent_spec = NC_SCHEMA("AgentConfig's spec", agent_spec_fields);

static const struct nc_field agent_config_fields[] = {
    F("apiVersion", STRING),
    F("kind", STRING),
    OBJECT("metadata", nc_schema_metadata),
    OBJECT("spec", agent_spec),
};
const struct nc_schema nc_schema_agent_config = NC_SCHEMA("AgentConfig", agent_config_fields);
