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

#define F(n, t)                                                                                    \
    { .name = (n), .type = NC_FIELD_##t }
#define REQUIRED(n, t)                                                                             \
    { .name = (n), .type = NC_FIELD_##t, .flags = NC_FIELD_REQUIRED }
#define OBJECT(n, s)                                                                               \
    { .name = (n), .type = NC_FIELD_OBJECT, .object = &(s) }
#define OBJECTS(n, s)                                                                              \
    { .name = (n), .type = NC_FIELD_OBJECTS, .object = &(s) }

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

static const struct nc_field metadata_fields[] = {
    F("name", STRING),
    F("generateName", STRING),
    F("namespace", STRING),
    F("uid", STRING),
    F("labels", STRING_MAP),
    F("annotations", STRING_MAP),
    F("finalizers", STRINGS),
    F("creationTimestamp", STRING),
    F("deletionTimestamp", STRING),
    F("deletionGracePeriodSeconds", ANY),
    F("generation", ANY),
    F("resourceVersion", STRING),
    F("selfLink", STRING),
    F("ownerReferences", ANY),
    F("managedFields", ANY),
};
const struct nc_schema nc_schema_metadata = NC_SCHEMA("metadata", metadata_fields);

static const struct nc_field requirement_fields[] = {
    REQUIRED("key", STRING),
    {.name = "operator", .type = NC_FIELD_STRING, .flags = NC_FIELD_REQUIRED, .allowed = operators},
    {.name = "values",
     .type = NC_FIELD_STRINGS,
     .flags = NC_FIELD_FORGIVING,
     .check = nc_shape_label_value,
     .wanted = "at most 63 letters, digits, - _ ."},
    {.name = "minValues", .type = NC_FIELD_INT, .min = 1, .max = 50},
};
static const struct nc_schema requirement = NC_SCHEMA("a requirement", requirement_fields);

/* Resources are named by anybody: keys are free, values are quantities, written as a string or a
 * number. */
static const struct nc_field resources_fields[] = {F("requests", MAP)};
static const struct nc_schema resources = NC_SCHEMA("spec.resources", resources_fields);

static const struct nc_field class_ref_fields[] = {
    {.name = "group",
     .type = NC_FIELD_STRING,
     .flags = NC_FIELD_REQUIRED,
     .check = is_group,
     .wanted = "an API group such as karpenter.k8s.aws"},
    REQUIRED("kind", STRING),
    REQUIRED("name", STRING),
};
static const struct nc_schema class_ref = NC_SCHEMA("nodeClassRef", class_ref_fields);
static const struct nc_field class_ref_beta_fields[] = {F("apiVersion", STRING), F("kind", STRING),
                                                        REQUIRED("name", STRING)};
static const struct nc_schema class_ref_beta =
    NC_SCHEMA("nodeClassRef of v1beta1", class_ref_beta_fields);

static const struct nc_field status_fields[] = {
    F("nodeName", STRING),         F("providerID", STRING),
    F("imageID", STRING),          F("capacity", MAP),
    F("allocatable", MAP),         F("conditions", ANY),
    F("lastPodEventTime", STRING),
};
static const struct nc_schema status = NC_SCHEMA("status", status_fields);

static const struct nc_field claim_spec_fields[] = {
    OBJECTS("requirements", requirement),
    OBJECT("resources", resources),
    OBJECTS("taints", nc_schema_taint),
    OBJECTS("startupTaints", nc_schema_taint),
    {.name = "nodeClassRef",
     .type = NC_FIELD_OBJECT,
     .object = &class_ref,
     .flags = NC_FIELD_REQUIRED},
    {.name = "terminationGracePeriod",
     .type = NC_FIELD_STRING,
     .check = is_claim_duration,
     .wanted = "a duration of hours, minutes and seconds such as 24h0m0s"},
    {.name = "expireAfter",
     .type = NC_FIELD_STRING,
     .check = is_expiry,
     .wanted = "Never or a duration of hours, minutes and seconds such as 720h"},
};
static const struct nc_schema claim_spec = NC_SCHEMA("NodeClaim's spec", claim_spec_fields);

static const struct nc_field claim_spec_beta_fields[] = {
    OBJECTS("requirements", requirement),
    OBJECT("resources", resources),
    OBJECTS("taints", nc_schema_taint),
    OBJECTS("startupTaints", nc_schema_taint),
    {.name = "nodeClassRef",
     .type = NC_FIELD_OBJECT,
     .object = &class_ref_beta,
     .flags = NC_FIELD_REQUIRED},
    OBJECT("kubelet", nc_schema_kubelet_beta),
};
static const struct nc_schema claim_spec_beta =
    NC_SCHEMA("NodeClaim's spec (v1beta1)", claim_spec_beta_fields);

#define OBJECT_FIELDS(spec_schema)                                                                 \
    F("apiVersion", STRING), F("kind", STRING), OBJECT("metadata", nc_schema_metadata),            \
        {.name = "spec",                                                                           \
         .type = NC_FIELD_OBJECT,                                                                  \
         .object = &(spec_schema),                                                                 \
         .flags = NC_FIELD_REQUIRED},                                                              \
        OBJECT("status", status)

static const struct nc_field claim_fields[] = {OBJECT_FIELDS(claim_spec)};
const struct nc_schema nc_schema_node_claim = NC_SCHEMA("NodeClaim", claim_fields);
static const struct nc_field claim_beta_fields[] = {OBJECT_FIELDS(claim_spec_beta)};
const struct nc_schema nc_schema_node_claim_beta = NC_SCHEMA("NodeClaim", claim_beta_fields);

static const struct nc_field class_spec_fields[] = {
    OBJECT("kubelet", nc_schema_kubelet),
    F("role", STRING),
    F("instanceProfile", STRING),
    F("instanceStorePolicy", STRING),
    F("amiFamily", STRING),
    F("userData", STRING),
    F("tags", STRING_MAP),
    F("blockDeviceMappings", ANY),
    F("amiSelectorTerms", ANY),
};
static const struct nc_schema class_spec = {.name = "NodeClass's spec",
                                            .fields = class_spec_fields,
                                            .n = NC_ARRAY_SIZE(class_spec_fields),
                                            .is_open = true};
static const struct nc_field class_fields[] = {
    F("apiVersion", STRING),    F("kind", STRING), OBJECT("metadata", nc_schema_metadata),
    OBJECT("spec", class_spec), F("status", ANY),
};
const struct nc_schema nc_schema_node_class = NC_SCHEMA("NodeClass", class_fields);
