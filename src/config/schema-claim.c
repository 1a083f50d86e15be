/*
 * Schemas of the objects of Karpenter that a node may be handed: NodeClaim v1 and v1beta1, and a
 * NodeClass of any group.
 *
 * Source: the CRDs of Karpenter 1.0 to 1.15. A NodeClass of another kind than EC2NodeClass v1 is
 * open: but for its kubelet block it is its controller's business. What was written by hand is read
 * forgivingly where YAML makes it easy to err (numbers as requirement values).
 */
#include "schema.h"

#include "nc/str.h"
#include "nc/time.h"
#include "shapes.h"

static const char operators[] = "In\0NotIn\0Exists\0DoesNotExist\0Gt\0Lt\0Gte\0Lte\0";

static bool is_group(const char *s) {
    return nc_shape_domain(s);
}

/* Hours, minutes and seconds only, as the CRD's pattern has it. */
static bool is_claim_duration(const char *s) {
    uint64_t usec = 0;

    return s[strspn(s, "0123456789hms")] == '\0' && !strstr(s, "ms")
           && nc_duration_parse(s, &usec) == 0;
}

static bool is_expiry(const char *s) {
    return nc_streq(s, "Never") || is_claim_duration(s);
}

#define METADATA_FIELDS(F)                                                                         \
    F("name", STRING)                                                                              \
    F("generateName", STRING)                                                                      \
    F("namespace", STRING)                                                                         \
    F("uid", STRING)                                                                               \
    F("labels", STRING_MAP)                                                                        \
    F("annotations", STRING_MAP)                                                                   \
    F("finalizers", STRINGS)                                                                       \
    F("creationTimestamp", STRING)                                                                 \
    F("deletionTimestamp", STRING)                                                                 \
    F("deletionGracePeriodSeconds", ANY)                                                           \
    F("generation", ANY)                                                                           \
    F("resourceVersion", STRING)                                                                   \
    F("selfLink", STRING)                                                                          \
    F("ownerReferences", ANY)                                                                      \
    F("managedFields", ANY)
const struct nc_schema nc_schema_metadata = NC_SCHEMA("metadata", METADATA_FIELDS);

#define REQUIREMENT_FIELDS(F)                                                                      \
    F("key", STRING, REQUIRED)                                                                     \
    F("operator", STRING, ONE_OF(operators), REQUIRED)                                             \
    F("values", STRINGS, CHECKED(nc_shape_label_value, "at most 63 letters, digits, - _ ."),       \
      .flags = NC_FIELD_FORGIVING)                                                                 \
    F("minValues", INT, BETWEEN(1, 50))
static const struct nc_schema requirement = NC_SCHEMA("a requirement", REQUIREMENT_FIELDS);

/* Resources are named by anybody: keys are free, values are quantities, written as a string or a
 * number. */
#define RESOURCES_FIELDS(F) F("requests", MAP)
static const struct nc_schema resources = NC_SCHEMA("spec.resources", RESOURCES_FIELDS);

#define CLASS_REF_FIELDS(F)                                                                        \
    F("group", STRING, CHECKED(is_group, "an API group such as karpenter.k8s.aws"), REQUIRED)      \
    F("kind", STRING, REQUIRED)                                                                    \
    F("name", STRING, REQUIRED)
static const struct nc_schema class_ref = NC_SCHEMA("nodeClassRef", CLASS_REF_FIELDS);
#define CLASS_REF_BETA_FIELDS(F)                                                                   \
    F("apiVersion", STRING)                                                                        \
    F("kind", STRING)                                                                              \
    F("name", STRING, REQUIRED)
static const struct nc_schema class_ref_beta =
    NC_SCHEMA("nodeClassRef of v1beta1", CLASS_REF_BETA_FIELDS);

#define STATUS_FIELDS(F)                                                                           \
    F("nodeName", STRING)                                                                          \
    F("providerID", STRING)                                                                        \
    F("imageID", STRING)                                                                           \
    F("capacity", MAP)                                                                             \
    F("allocatable", MAP)                                                                          \
    F("conditions", ANY)                                                                           \
    F("lastPodEventTime", STRING)
static const struct nc_schema status = NC_SCHEMA("status", STATUS_FIELDS);

#define CLAIM_SPEC_FIELDS(F)                                                                       \
    F("requirements", OBJECTS, OF(requirement))                                                    \
    F("resources", OBJECT, OF(resources))                                                          \
    F("taints", OBJECTS, OF(nc_schema_taint))                                                      \
    F("startupTaints", OBJECTS, OF(nc_schema_taint))                                               \
    F("nodeClassRef", OBJECT, OF(class_ref), REQUIRED)                                             \
    F("terminationGracePeriod", STRING,                                                            \
      CHECKED(is_claim_duration, "a duration of hours, minutes and seconds such as 24h0m0s"))      \
    F("expireAfter", STRING,                                                                       \
      CHECKED(is_expiry, "Never or a duration of hours, minutes and seconds such as 720h"))
static const struct nc_schema claim_spec = NC_SCHEMA("NodeClaim's spec", CLAIM_SPEC_FIELDS);

static const char enabled[] = "enabled\0";
#define CLAIM_SPEC_BETA_FIELDS(F)                                                                  \
    F("requirements", OBJECTS, OF(requirement))                                                    \
    F("resources", OBJECT, OF(resources))                                                          \
    F("taints", OBJECTS, OF(nc_schema_taint))                                                      \
    F("startupTaints", OBJECTS, OF(nc_schema_taint))                                               \
    F("nodeClassRef", OBJECT, OF(class_ref_beta), REQUIRED)                                        \
    F("kubelet", OBJECT, OF(nc_schema_kubelet_beta))
static const struct nc_schema claim_spec_beta =
    NC_SCHEMA("NodeClaim's spec (v1beta1)", CLAIM_SPEC_BETA_FIELDS);

#define OBJECT_FIELDS(F, spec_schema)                                                              \
    F("apiVersion", STRING)                                                                        \
    F("kind", STRING)                                                                              \
    F("metadata", OBJECT, OF(nc_schema_metadata))                                                  \
    F("spec", OBJECT, OF(spec_schema), REQUIRED)                                                   \
    F("status", OBJECT, OF(status))
#define CLAIM_FIELDS(F) OBJECT_FIELDS(F, claim_spec)
const struct nc_schema nc_schema_node_claim = NC_SCHEMA("NodeClaim", CLAIM_FIELDS);
#define CLAIM_BETA_FIELDS(F) OBJECT_FIELDS(F, claim_spec_beta)
const struct nc_schema nc_schema_node_claim_beta = NC_SCHEMA("NodeClaim", CLAIM_BETA_FIELDS);

static const char on_off[] = "enabled\0disabled\0";
static const char tokens[] = "required\0optional\0";
#define METADATA_OPTIONS_FIELDS(F)                                                                 \
    F("httpEndpoint", STRING, ONE_OF(enabled))                                                     \
    F("httpProtocolIPv6", STRING, ONE_OF(on_off))                                                  \
    F("httpPutResponseHopLimit", INT, BETWEEN(1, 64))                                              \
    F("httpTokens", STRING, ONE_OF(tokens))
static const struct nc_schema metadata_options =
    NC_SCHEMA("metadataOptions", METADATA_OPTIONS_FIELDS);

#define SUBNET_TERM_FIELDS(F)                                                                      \
    F("tags", STRING_MAP)                                                                          \
    F("id", STRING)
static const struct nc_schema subnet_term = NC_SCHEMA("the term", SUBNET_TERM_FIELDS);
#define GROUP_TERM_FIELDS(F)                                                                       \
    SUBNET_TERM_FIELDS(F)                                                                          \
    F("name", STRING)
static const struct nc_schema group_term = NC_SCHEMA("the term", GROUP_TERM_FIELDS);

static bool is_alias(const char *s) {
    return strchr(s, '@');
}

#define AMI_TERM_FIELDS(F)                                                                         \
    GROUP_TERM_FIELDS(F)                                                                           \
    F("owner", STRING)                                                                             \
    F("ssmParameter", STRING)                                                                      \
    F("alias", STRING, CHECKED(is_alias, "FAMILY@VERSION such as al2023@latest"))
static const struct nc_schema ami_term = NC_SCHEMA("the term", AMI_TERM_FIELDS);
static const char criteria[] = "open\0targeted\0";
#define RESERVATION_TERM_FIELDS(F)                                                                 \
    SUBNET_TERM_FIELDS(F)                                                                          \
    F("ownerID", STRING)                                                                           \
    F("instanceMatchCriteria", STRING, ONE_OF(criteria))
static const struct nc_schema reservation_term = NC_SCHEMA("the term", RESERVATION_TERM_FIELDS);

#define PLACEMENT_FIELDS(F)                                                                        \
    F("id", STRING)                                                                                \
    F("name", STRING)
static const struct nc_schema placement = NC_SCHEMA("the selector", PLACEMENT_FIELDS);
#define TRACKING_FIELDS(F)                                                                         \
    F("tcpEstablishedTimeout", INT, BETWEEN(60, 432000))                                           \
    F("udpStreamTimeout", INT, BETWEEN(60, 180))                                                   \
    F("udpTimeout", INT, BETWEEN(30, 60))
static const struct nc_schema tracking = NC_SCHEMA("connectionTracking", TRACKING_FIELDS);
#define CPU_FIELDS(F) F("nestedVirtualization", STRING, ONE_OF(on_off))
static const struct nc_schema cpu_options = NC_SCHEMA("cpuOptions", CPU_FIELDS);
#define ENCLAVE_FIELDS(F) F("enabled", BOOL, REQUIRED)
static const struct nc_schema enclave = NC_SCHEMA("enclaveOptions", ENCLAVE_FIELDS);
static const char interface_types[] = "interface\0efa-only\0";
#define INTERFACE_FIELDS(F)                                                                        \
    F("deviceIndex", INT, BETWEEN(0, INT32_MAX), REQUIRED)                                         \
    F("networkCardIndex", INT, BETWEEN(0, INT32_MAX), REQUIRED)                                    \
    F("interfaceType", STRING, ONE_OF(interface_types), REQUIRED)
static const struct nc_schema interface = NC_SCHEMA("the interface", INTERFACE_FIELDS);

/* How large each may be is EC2's to say. */
static bool is_volume_size(const char *s) {
    return nc_is_one_of(s + strspn(s, NC_DIGITS), "G\0Gi\0T\0Ti\0");
}

static const char volume_types[] = "standard\0io1\0io2\0gp2\0sc1\0st1\0gp3\0";
#define EBS_FIELDS(F)                                                                              \
    F("deleteOnTermination", BOOL)                                                                 \
    F("encrypted", BOOL)                                                                           \
    F("iops", INT, BETWEEN(INT32_MIN, INT64_MAX))                                                  \
    F("kmsKeyID", STRING)                                                                          \
    F("snapshotID", STRING)                                                                        \
    F("throughput", INT, BETWEEN(INT32_MIN, INT64_MAX))                                            \
    F("volumeInitializationRate", INT, BETWEEN(100, 300))                                          \
    F("volumeSize", STRING, CHECKED(is_volume_size, "a size such as 20Gi"))                        \
    F("volumeType", STRING, ONE_OF(volume_types))
static const struct nc_schema ebs = NC_SCHEMA("ebs", EBS_FIELDS);
#define MAPPING_FIELDS(F)                                                                          \
    F("deviceName", STRING)                                                                        \
    F("ebs", OBJECT, OF(ebs))                                                                      \
    F("rootVolume", BOOL)
static const struct nc_schema mapping = NC_SCHEMA("the mapping", MAPPING_FIELDS);

const char nc_ami_families[] = "AL2023\0Custom\0AL2\0Bottlerocket\0"
                               "Windows2019\0Windows2022\0Windows2025\0";
static const char store_policies[] = "RAID0\0";
#define EC2_CLASS_SPEC_FIELDS(F)                                                                   \
    F("amiFamily", STRING, ONE_OF(nc_ami_families))                                                \
    F("amiSelectorTerms", OBJECTS, OF(ami_term))                                                   \
    F("associatePublicIPAddress", BOOL)                                                            \
    F("blockDeviceMappings", OBJECTS, OF(mapping))                                                 \
    F("capacityReservationSelectorTerms", OBJECTS, OF(reservation_term))                           \
    F("connectionTracking", OBJECT, OF(tracking))                                                  \
    F("context", STRING)                                                                           \
    F("cpuOptions", OBJECT, OF(cpu_options))                                                       \
    F("detailedMonitoring", BOOL)                                                                  \
    F("enclaveOptions", OBJECT, OF(enclave))                                                       \
    F("instanceProfile", STRING)                                                                   \
    F("instanceStorePolicy", STRING, ONE_OF(store_policies))                                       \
    F("ipPrefixCount", INT, BETWEEN(0, INT32_MAX))                                                 \
    F("kubelet", OBJECT, OF(nc_schema_kubelet))                                                    \
    F("metadataOptions", OBJECT, OF(metadata_options))                                             \
    F("networkInterfaces", OBJECTS, OF(interface))                                                 \
    F("placementGroupSelector", OBJECT, OF(placement))                                             \
    F("role", STRING)                                                                              \
    F("securityGroupSelectorTerms", OBJECTS, OF(group_term))                                       \
    F("subnetSelectorTerms", OBJECTS, OF(subnet_term))                                             \
    F("tags", STRING_MAP)                                                                          \
    F("userData", STRING)
static const struct nc_schema ec2_class_spec =
    NC_SCHEMA("EC2NodeClass's spec", EC2_CLASS_SPEC_FIELDS);

#define CLASS_SPEC_FIELDS(F)                                                                       \
    F("kubelet", OBJECT, OF(nc_schema_kubelet))                                                    \
    F("instanceStorePolicy", STRING)                                                               \
    F("userData", STRING)
static const struct nc_schema class_spec =
    NC_SCHEMA("NodeClass's spec", CLASS_SPEC_FIELDS, .is_open = true);
#define CLASS_FIELDS(F, spec_schema)                                                               \
    F("apiVersion", STRING)                                                                        \
    F("kind", STRING)                                                                              \
    F("metadata", OBJECT, OF(nc_schema_metadata))                                                  \
    F("spec", OBJECT, OF(spec_schema))                                                             \
    F("status", ANY)
#define EC2_CLASS_FIELDS(F) CLASS_FIELDS(F, ec2_class_spec)
const struct nc_schema nc_schema_ec2_node_class = NC_SCHEMA("EC2NodeClass", EC2_CLASS_FIELDS);
#define OTHER_CLASS_FIELDS(F) CLASS_FIELDS(F, class_spec)
const struct nc_schema nc_schema_node_class = NC_SCHEMA("NodeClass", OTHER_CLASS_FIELDS);
