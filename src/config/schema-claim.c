/*
 * Schemas of the objects of Karpenter that a node may be handed: NodeClaim v1 and v1beta1, and a
 * NodeClass of any group.
 *
 * Source: the CRDs of Karpenter 1.0 to 1.13. A NodeClass is open: but for its kubelet block it is
 * the controller's business. What was written by hand is read forgivingly where YAML makes it easy
 * to err (numbers as requirement values).
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

#define METADATA_OPTIONS_FIELDS(F) F("httpEndpoint", STRING, ONE_OF(enabled))
static const struct nc_schema metadata_options =
    NC_SCHEMA("NodeClass's spec.metadataOptions", METADATA_OPTIONS_FIELDS, .is_open = true);
#define CLASS_SPEC_FIELDS(F)                                                                       \
    F("kubelet", OBJECT, OF(nc_schema_kubelet))                                                    \
    F("role", STRING)                                                                              \
    F("instanceProfile", STRING)                                                                   \
    F("instanceStorePolicy", STRING)                                                               \
    F("amiFamily", STRING)                                                                         \
    F("userData", STRING)                                                                          \
    F("metadataOptions", OBJECT, OF(metadata_options))                                             \
    F("tags", STRING_MAP)                                                                          \
    F("blockDeviceMappings", ANY)                                                                  \
    F("amiSelectorTerms", ANY)
static const struct nc_schema class_spec =
    NC_SCHEMA("NodeClass's spec", CLASS_SPEC_FIELDS, .is_open = true);
#define CLASS_FIELDS(F)                                                                            \
    F("apiVersion", STRING)                                                                        \
    F("kind", STRING)                                                                              \
    F("metadata", OBJECT, OF(nc_schema_metadata))                                                  \
    F("spec", OBJECT, OF(class_spec))                                                              \
    F("status", ANY)
const struct nc_schema nc_schema_node_class = NC_SCHEMA("NodeClass", CLASS_FIELDS);
