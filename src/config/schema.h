/*
 * Schemas: what may stand in a document, as tables, and the one checker that reads them.
 *
 * A schema is a list of fields; a field has a type, and where that is not enough, a list of allowed
 * values, a range, or a predicate with the words for what it wants. The checker adds a diagnostic
 * for each violation: wrong type and wrong value are errors, an unknown field is a warning that
 * names the nearest known one. A null is as good as an absent field, as in the Kubernetes API.
 */
#ifndef NC_CONFIG_SCHEMA_H
#define NC_CONFIG_SCHEMA_H

#include "nc/config.h"

enum nc_field_type {
    NC_FIELD_STRING = 1,
    NC_FIELD_BOOL,
    NC_FIELD_INT,
    NC_FIELD_NUMBER,    /* integer or fraction */
    NC_FIELD_DURATION,  /* string, as Go writes durations */
    NC_FIELD_FREQUENCY, /* the same, or nanoseconds */
    NC_FIELD_QUANTITY,  /* string or integer */
    NC_FIELD_STRINGS,
    NC_FIELD_INTS,
    NC_FIELD_STRING_MAP,
    NC_FIELD_QUANTITY_MAP, /* values strings; an integer is a warning, because kubelet takes only
                              strings */
    NC_FIELD_BOOL_MAP,
    NC_FIELD_OBJECT,  /* by .object */
    NC_FIELD_OBJECTS, /* list of them */
    NC_FIELD_MAP,     /* any map */
    NC_FIELD_ANY,
};

enum nc_field_flag {
    NC_FIELD_REQUIRED = 1 << 0, /* must be there and not empty */
    NC_FIELD_FORGIVING =
        1 << 1, /* STRING, STRINGS, STRING_MAP: numbers and booleans are taken as their text */
    NC_FIELD_SECRET = 1 << 2,       /* messages never show its value */
    NC_FIELD_MAY_BE_EMPTY = 1 << 3, /* an empty string is a value that .allowed and .check must
                                       accept; else it means "not given" */
    NC_FIELD_IGNORED = 1 << 4,      /* known, of no effect: a warning with the words of .check */
    NC_FIELD_OPEN_KEYS = 1 << 5,    /* keys that .key does not allow are no error: unsupported where
                                       their value is true, else a warning */
    NC_FIELD_V1BETA1 = 1 << 6,      /* kubelet's: a v1beta1 NodeClaim may carry it */
    NC_FIELD_LESS_THAN = 1 << 7,    /* kubelet's: the flag writes "key<value", not "key=value" */
    NC_FIELD_UNSUPPORTED =
        1 << 8, /* known, and only what .check takes is honoured: its words are why */
    NC_FIELD_NAMED_FLAG = 1 << 9,  /* kubelet's: a flag sets it that is called as the field is:
                                      "max-pods" for maxPods */
    NC_FIELD_EXPRESSION = 1 << 12, /* of an EC2NodeClass it, or a value of the map, may be one that
                                      Karpenter evaluates: the plan's to check */
    NC_FIELD_ONE_PAIR = 1 << 10, /* kubelet's: the flag is one pair, whose value may have commas */
    NC_FIELD_OTHER_FLAG = 1 << 11, /* kubelet's: a flag of another name sets it, which follows its
                                       own among the names */
    NC_FIELD_LONE = 1 << 12,       /* STRINGS: a text alone is as good as a list of it */
};

struct nc_schema;

/* A predicate of a text, and words for what it wants: "an https URL such as …". */
struct nc_field_check {
    bool (*takes)(const char *text); /* NULL: of an IGNORED or UNSUPPORTED field */
    const char *wanted;
};

/* Of a map. NULL = any. */
struct nc_field_entries {
    const struct nc_field *key; /* .allowed or .check of each key */
    const struct nc_field *value;
};

/* Most fields need their type alone, and there are hundreds: what takes more room than a pointer
 * is elsewhere. */
struct nc_field {
    enum nc_field_type type : 7;
    bool is_checked : 1; /* has .check, and not .allowed */
    unsigned flags : 24;
    int32_t min; /* INT, INTS; INT32_MIN: none */
    union {
        const char *allowed; /* values of STRING, STRINGS: a list of names (nc/str.h) */
        const struct nc_field_check *check; /* STRING, STRINGS, DURATION; IGNORED, UNSUPPORTED */
        const struct nc_field_entries *entries; /* MAP, *_MAP; NULL = any */
        const struct nc_schema *object;         /* OBJECT, OBJECTS */
        int64_t max; /* INT, INTS; with .min 0: 32 bits, as most of kubelet's */
    };
};

struct nc_schema {
    const char *names; /* a list (nc/str.h): what messages call it, "NodeConfig", then each field */
    bool is_open;      /* unknown fields are nobody's business here */
    bool is_beta;      /* the fields are those of kubelet that a v1beta1 NodeClaim may carry */
    struct nc_field fields[]; /* in the order of the names */
};

/* A field and its name, for nc_schema_next: {0} at first. */
struct nc_field_at {
    const struct nc_field *field;
    const char *name;
    const char *flag; /* of NC_FIELD_OTHER_FLAG */
};
/* The next field that the schema has; false: there are no more. */
bool nc_schema_next(const struct nc_schema *schema, struct nc_field_at *at);

/* These three are of a text: of STRING, STRINGS, DURATION, or a key. */
static inline bool nc_field_is_checked(const struct nc_field *f) {
    return f->is_checked && f->check->takes;
}
static inline const char *nc_field_allowed(const struct nc_field *f) {
    return f->is_checked ? NULL : f->allowed;
}
/* Is the text one that the field's .check takes, or has it none? */
static inline bool nc_field_takes(const struct nc_field *f, const char *text) {
    return !nc_field_is_checked(f) || f->check->takes(text);
}

/* A schema by its list of fields: a macro, whose parameter is applied to each field's name, type
 * and further members of struct nc_field. */
#define NC_SCHEMA(label, list, ...)                                                                \
    { .names = label "\0" list(NC_FIELD_NAME), .fields = {list(NC_FIELD_ROW)}, __VA_ARGS__ }
#define NC_FIELD_NAME(name, ...) name "\0"
#define NC_FIELD_ROW(name, field_type, ...) {.type = NC_FIELD_##field_type, __VA_ARGS__},
#define REQUIRED .flags = NC_FIELD_REQUIRED
#define ONE_OF(list) .allowed = (list)
#define CHECKED(function, words)                                                                   \
    .is_checked = true, .check = &(const struct nc_field_check) {                                  \
        (function), (words)                                                                        \
    }
#define ENTRIES(key_field, value_field)                                                            \
    .entries = &(const struct nc_field_entries) {                                                  \
        (key_field), (value_field)                                                                 \
    }
#define BETWEEN(low, high) .min = (low), .max = (high)
#define OF(schema) .object = &(schema)

/* Whether an integer is in the range of an INT field, which goes to *ret_min and *ret_max. */
bool nc_field_in_range(const struct nc_field *f, int64_t i, int64_t *ret_min, int64_t *ret_max);

/* Checks one map against a schema. `path` is where it stands: "spec.kubelet.config". */
void nc_schema_check(struct nc_documents *d, const struct nc_schema *schema,
                     const struct nc_value *v, const char *path);

/* The names in AgentConfig of the enums of nc/config.h, in their order: lists of names. */
extern const char nc_auth_mode_names[];
extern const char nc_naming_names[];
extern const char nc_max_pods_mode_names[];
extern const char nc_kubelet_start_names[];
extern const char nc_ec2_use_names[];
extern const char nc_cloud_init_wait_names[];
extern const char nc_unsupported_names[];  /* refuse, warn */
extern const char nc_claim_lookup_names[]; /* true, false */
extern const char nc_fit_timeout_names[];

/* The tables. */
extern const struct nc_schema nc_schema_node_config;
extern const struct nc_schema nc_schema_agent_config;
extern const struct nc_schema nc_schema_node_claim;      /* v1 */
extern const struct nc_schema nc_schema_node_claim_beta; /* v1beta1 */
extern const struct nc_schema nc_schema_node_class;      /* of any group, and v1beta1 */
extern const struct nc_schema nc_schema_ec2_node_class;  /* v1 */
extern const struct nc_schema nc_schema_metadata;
extern const struct nc_schema nc_schema_kubelet;      /* KubeletConfiguration v1beta1 */
extern const struct nc_schema nc_schema_kubelet_beta; /* the kubelet block of a v1beta1 NodeClaim */
extern const struct nc_schema nc_schema_taint;
extern const struct nc_field nc_reserved_resource; /* a key of a reservation */
extern const char nc_ami_families[]; /* of an EC2NodeClass: those of nodeclaimd are the first two */
extern const char nc_eviction_signals[]; /* the keys of kubelet's eviction maps */

/* rules.c: what the Kubernetes and Karpenter APIs demand that a table of fields cannot say. */

/* NodeClaim, facts from the CRD: operators and their values, restricted label domains, duplicate
 * taints, quantities. What cannot be evaluated is an error; what the API server would have refused,
 * but a node can live with, a warning. */
void nc_rules_node_claim(struct nc_documents *d, const struct nc_value *claim);

/* NodeClass: what a node must not be told by it, and slips that Karpenter would refuse (warnings).
 */
void nc_rules_node_class(struct nc_documents *d, const struct nc_value *node_class);

/* Taints of one list, and those of `other` (may be NULL): one key and effect may stand there once.
 */
void nc_rules_taints(struct nc_documents *d, const struct nc_value *taints,
                     const struct nc_value *other, const char *path, const char *other_path);

/* A NodeConfig: the TOML text for containerd. */
void nc_rules_node_config(struct nc_documents *d, const struct nc_value *config);

#endif
