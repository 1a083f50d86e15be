/*
 * Configuration: documents in, one merged and typed configuration out, with the origin of every
 * value.
 *
 * Documents are NodeConfig, NodeClaim, EC2NodeClass/NodeClass and AgentConfig. Precedence, lowest
 * first: the kubelet block of the NodeClass; that of the NodeClaim (v1beta1's spec.kubelet, or the
 * annotation that its conversion to v1 left behind), which replaces the NodeClass's as a whole, as
 * Karpenter 1.0 does; then NodeConfig and AgentConfig in the order in which they were added.
 */
#ifndef NC_CONFIG_H
#define NC_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "nc/drain-settings.h"
#include "nc/err.h"
#include "nc/fit-settings.h"
#include "nc/mem.h"
#include "nc/str.h"
#include "nc/value.h"

/* --- what a NodeConfig asks of the host rather than of kubelet: a part of nc_config */

/* The service name that stands for all services. */
#define NC_ENVIRONMENT_DEFAULT "default"

struct nc_variable {
    char *name;  /* letters, digits and _, no digit first */
    char *value; /* UTF-8 without control characters but tabs; may be empty */
};

/* The environment of one service. */
struct nc_environment {
    char *service;                 /* "containerd" without ".service", or NC_ENVIRONMENT_DEFAULT */
    struct nc_variable *variables; /* at least one, sorted by name */
    size_t n;
};

enum nc_storage_strategy {
    NC_STORAGE_NONE = 0, /* local disks are left alone */
    NC_STORAGE_RAID0,
    NC_STORAGE_RAID10,
    NC_STORAGE_MOUNT
};

#define NC_CONTAINERD_FIELD "spec.containerd.config"
/* One text of it. Each is merged, key by key, over those before it. */
struct nc_containerd_text {
    char *toml; /* not parsed, not empty */
    struct nc_mark mark;
    unsigned line, indent; /* as a text has them (nc/str.h) */
};

struct nc_host_config {
    struct nc_environment *environment; /* sorted by service */
    size_t n_environment;
    struct {
        struct nc_strv nameservers; /* addresses */
        struct nc_strv domains;     /* names; '~' in front where they only route */
    } network;
    struct {
        enum nc_storage_strategy strategy;
        char *mount_path; /* NULL = the default of setup-local-disks */
        bool without_containerd, without_pod_logs, without_soci;
    } storage;
    struct {
        struct nc_containerd_text *texts; /* in the order of the documents */
        size_t n_texts;
        struct nc_value *base_spec; /* map, NULL = none */
    } containerd;
    bool fast_image_pull; /* the feature gate; whether the instance is large enough is the plan's */
};

/* --- documents */

enum nc_document_kind {
    NC_DOCUMENT_UNKNOWN = 0,
    NC_DOCUMENT_NODE_CONFIG,
    NC_DOCUMENT_NODE_CLAIM,
    NC_DOCUMENT_NODE_CLASS,
    NC_DOCUMENT_AGENT_CONFIG,
};

enum nc_diagnostic_kind {
    NC_DIAGNOSTIC_PLAIN = 0,
    NC_DIAGNOSTIC_UNKNOWN,     /* a field that nothing on a node reads */
    NC_DIAGNOSTIC_KUBELETS,    /* an unknown one that kubelet gets: one that is newer than what is
                                  known here may read it, others ignore it */
    NC_DIAGNOSTIC_UNSUPPORTED, /* a warning of a known field that is not honoured:
                                  spec.bootstrap.unsupported decides */
    NC_DIAGNOSTIC_MISSING,     /* an error of what another document may have */
    NC_DIAGNOSTIC_REFUSED,     /* a warning of what the API server refuses, and no node reads: an
                                  error of `check` */
};

struct nc_diagnostic {
    bool is_error;
    enum nc_diagnostic_kind kind;
    struct nc_mark mark;
    char *path;    /* "spec.cluster.cidr", "" for the document as a whole */
    char *message; /* what is wrong, what is allowed */
};

struct nc_document {
    enum nc_document_kind kind;
    bool is_beta;    /* v1beta1 */
    unsigned source; /* index into sources */
    struct nc_value *tree;
};

struct nc_document_source {
    char *name;         /* [0] is "built-in default"; "user-data part 2 (application/node.eks.aws)",
                           "/etc/nodeclaimd/conf.d/10-x.yaml" */
    size_t n_file;      /* bytes of the name that are the file's */
    bool has_own_lines; /* user data in a string of the file that is no literal block */
};

struct nc_documents {
    struct nc_document_source *sources;
    size_t n_sources;
    struct nc_document *docs;
    size_t n_docs;
    struct nc_diagnostic *diags;
    size_t n_diags;
    size_t n_whole;       /* errors among them for which no document came to be */
    size_t n_aside;       /* errors among them whose value was set aside */
    char *for_cloud_init; /* the first part of user data that is not ours, in words; NULL = none */
    bool may_bring_documents; /* a part of user data that cloud-init's network stage reads: more
                                 than shell scripts */
    struct nc_mark mistyped;  /* such a part that is a document by all but its type; line 0: none */
    struct nc_strv found; /* what user data held that is not ours: "a shell script", "a part of type
                             text/plain"; and "FILE" NC_FOUND_NODE_POOL "…",
                             "FILE" NC_FOUND_NOTHING */
};
#define NC_FOUND_NODE_POOL " is a NodePool"
#define NC_FOUND_NOTHING " without any document"

#define NC_DOCUMENTS_INIT                                                                          \
    { 0 }
void nc_documents_done(struct nc_documents *d);

/* Parses a stream of documents and checks each against its schema; what is wrong goes to diags
 * (syntax errors too). Returns 0, also where there are errors among the diags; negative only with
 * err filled (too many documents, too large). Documents of foreign kinds in a stream that has one
 * of ours are an error. */
int nc_documents_add(struct nc_documents *d, const char *source, struct nc_text text,
                     struct nc_err *err);

/* A warning of what no document's own rules say. `mark` is of a source that is there, or of one
 * that nc_documents_add_source() has made. */
void nc_documents_warn(struct nc_documents *d, struct nc_mark mark, const char *path,
                       const char *message);
/* An error of a source that brought no document. */
void nc_documents_add_error(struct nc_documents *d, const char *source, const char *message);
unsigned nc_documents_add_source(struct nc_documents *d, const char *name);

/* Decodes user data (nc/userdata.h) and adds every part that is ours, named "NAME part K (type)";
 * of an indented text, which is in the document NAME, that has their lines. A decoding failure is
 * an error diag. */
int nc_documents_add_userdata(struct nc_documents *d, const char *source, struct nc_text text,
                              struct nc_err *err);
/* The sources from `first` on are of the file that the first n bytes of their names are. */
void nc_documents_set_file(struct nc_documents *d, size_t first, size_t n, bool has_own_lines);

/* For who asks what else is refused: the value that an error is about leaves its document, so that
 * nc_config_build can be tried without it. The first is for the errors among the diagnostics,
 * those of whole documents too; the others without one go on being refused. The second makes a
 * rule's error one more diagnostic, 1; 0: it is among them, and nothing has changed; negative: it
 * is about no value, and is not among them. */
void nc_documents_set_aside_errors(struct nc_documents *d);
int nc_documents_set_aside(struct nc_documents *d, const struct nc_err *err);
/* Is an error among them about the field at this path, or about what it is in? */
bool nc_documents_refuse(const struct nc_documents *d, const char *path);
/* Diagnostics by source, line and column. */
void nc_documents_sort(struct nc_documents *d);
size_t nc_documents_errors(const struct nc_documents *d); /* count of error diags */
/* The first error as an nc_err: "SOURCE:LINE:COLUMN: path: message". */
int nc_documents_first_error(const struct nc_documents *d, struct nc_err *err);
/* One line a diag, "SOURCE:LINE:COLUMN: error|warning: path: message\n"; without the errors where
 * those are told otherwise. */
void nc_documents_print(const struct nc_documents *d, bool with_errors, struct nc_buf *out);

struct nc_label {
    char *key;
    char *value;
    struct nc_mark mark;
};

struct nc_taint {
    char *key;
    char *value; /* "" for none */
    char *effect;
    struct nc_mark mark;
};

struct nc_requirement {
    char *key; /* normalised: beta.kubernetes.io/arch -> kubernetes.io/arch */
    char *op;  /* In NotIn Exists DoesNotExist Gt Lt Gte Lte */
    struct nc_strv values;
    struct nc_mark mark;
};

/* A NodeClaim as far as a node cares. name == NULL: none is known. */
struct nc_claim {
    char *name;
    char *uid;
    char *api_version; /* "karpenter.sh/v1" */
    char *node_class_name;
    struct nc_label *labels;
    size_t n_labels;
    struct nc_taint *taints; /* spec.taints, then spec.startupTaints */
    size_t n_taints;
    size_t n_plain_taints; /* how many of them are spec.taints */
    struct nc_requirement *requirements;
    size_t n_requirements;
    struct nc_value *requests;    /* spec.resources.requests, quantities as text or int */
    struct nc_value *kubelet;     /* v1beta1 spec.kubelet, or its conversion annotation on v1 */
    struct nc_value *capacity;    /* status.capacity */
    struct nc_value *allocatable; /* status.allocatable */
    char *provider_id;            /* status.providerID */
};
void nc_claim_done(struct nc_claim *c);
/* A NodeClaim object of any served version -> struct. NC_ERR_PROTOCOL / NC_ERR_CONFIG (from a
 * document) with the path. */
int nc_claim_parse(const struct nc_value *object, struct nc_claim *ret, struct nc_err *err);

enum nc_auth_mode {
    NC_AUTH_EKS = 1,
    NC_AUTH_CLIENT_CERTIFICATE,
    NC_AUTH_BOOTSTRAP_TOKEN,
    NC_AUTH_KUBECONFIG
};
enum nc_naming {
    NC_NAMING_PRIVATE_DNS = 1,
    NC_NAMING_RESOURCE_NAME,
    NC_NAMING_INSTANCE_ID,
    NC_NAMING_HOSTNAME
};
enum nc_max_pods_mode {
    NC_MAX_PODS_ENI = 1,
    NC_MAX_PODS_CUSTOM_NETWORKING,
    NC_MAX_PODS_PREFIX,
    NC_MAX_PODS_EXPRESSION,
    NC_MAX_PODS_EXPLICIT,
    NC_MAX_PODS_SECURITY_GROUPS
};
enum nc_reservation {
    NC_RESERVATION_KARPENTER = 1,
    NC_RESERVATION_ACTUAL,
    NC_RESERVATION_GKE,
    NC_RESERVATION_AKS,
    NC_RESERVATION_AUTO_MODE,
    NC_RESERVATION_EXPLICIT,
    NC_RESERVATION_CLAIM
};
extern const char nc_reservation_names[]; /* from KARPENTER on */
enum nc_kubelet_start { NC_START_SYSTEMD = 1, NC_START_EXEC, NC_START_NONE };
enum nc_ec2_use { NC_EC2_AUTO = 1, NC_EC2_NEVER, NC_EC2_ALWAYS };
enum nc_cloud_init_wait {
    NC_CLOUD_INIT_AUTO = 1, /* where the user data hold parts for cloud-init */
    NC_CLOUD_INIT_ALWAYS,
    NC_CLOUD_INIT_NEVER
};

struct nc_config {
    struct nc_value *tree; /* what was merged, NodeConfig and AgentConfig united under one
                              normalised `spec`, marks kept: `explain` walks it */

    char *cluster_name;
    char *endpoint; /* https URL */
    char *ca_pem;   /* decoded */
    char *cidr;     /* service CIDR as written, checked */
    enum nc_auth_mode auth;
    char *client_certificate, *client_key; /* paths on the node */
    char *bootstrap_token;                 /* secret */
    char *kubeconfig;                      /* path of an existing one */

    enum nc_naming naming;
    char *name_override;
    char *provider_id;       /* override */
    struct nc_label *labels; /* AgentConfig's node.labels; those of flags are the plan's to read */
    size_t n_labels;
    struct nc_label *labels_from; /* the value is a path of IMDS below meta-data */
    size_t n_labels_from;
    struct nc_taint *taints; /* AgentConfig's node.taints */
    size_t n_taints;

    struct nc_value *kubelet; /* user's kubelet map: NodeClass, NodeClaim, NodeConfig, AgentConfig
                                 merged; NULL = none */
    struct nc_value *planned; /* the kubelet block that Karpenter plans this node with, and no
                                 other: that of the NodeConfig that it wrote, else of the NodeClass
                                 or the NodeClaim, with expressions in it; NULL = not known */
    struct nc_strv kubelet_flags; /* appended in order */
    struct nc_mark *kubelet_flag_marks;
    enum nc_kubelet_start start;
    char *kubelet_unit; /* default "kubelet.service" */
    char *kubelet_path; /* default "/usr/bin/kubelet" */

    enum nc_max_pods_mode max_pods_mode;
    char *max_pods_expression; /* NodeConfig maxPodsExpression or AgentConfig's */
    int64_t max_pods_value;
    int64_t max_pods_at_most; /* 0 = no cap */

    enum nc_reservation reservation;
    struct nc_value *kube_reserved; /* AgentConfig's, NULL = none */
    struct nc_value *system_reserved;

    bool has_shutdown; /* shutdown.* was given */
    uint64_t shutdown_usec, shutdown_critical_usec;

    struct nc_drain_settings drain; /* spec.interruption, spec.drain */
    struct nc_fit_settings fit;     /* spec.fit */
    bool report_console, report_events, report_node;
    enum nc_ec2_use ec2;
    char *ec2_endpoint, *sts_endpoint, *domain; /* overrides, NULL = from facts */
    bool claim_lookup;

    bool has_claim_document;
    struct nc_claim claim; /* from a document */

    struct nc_host_config host;

    struct nc_strv unsupported; /* fields that are not honoured, each with its place and why; only
                                   where spec.bootstrap.unsupported is warn */
    struct nc_strv warnings;    /* what was tolerated */
};
/* What holds where nothing is written: policies, spec.drain, spec.report, spec.claim. */
void nc_config_set_defaults(struct nc_config *c);

#define NC_CONFIG_INIT                                                                             \
    { 0 }
void nc_config_done(struct nc_config *c);
void nc_fit_settings_done(struct nc_fit_settings *f);

/* The code of what nc_config_build refuses because a field is missing. */
#define NC_CONFIG_MISSING ENOKEY

/* Merges and types the documents. NC_ERR_CONFIG with "SOURCE:LINE:COLUMN: path: message" where a
 * document had an error, where two documents name two clusters, where nothing of ours was found,
 * where a required field is missing (what `bootstrap` needs: endpoint, CA, and cidr or clusterDNS;
 * name for eks). */
int nc_config_build(const struct nc_documents *d, struct nc_config *ret, struct nc_err *err);

/* spec.bootstrap.waitForCloudInit of the last document that has it; what it states counts before
 * all documents are there, so nothing is merged for it, and documents with errors are passed over.
 */
enum nc_cloud_init_wait nc_documents_wait_for_cloud_init(const struct nc_documents *d);

/* What documents say to the daemon alone: policies, drain, report, aws, claim. Nothing of the
 * cluster is needed, or filled: somebody else may have brought the node into it. */
int nc_config_policies(const struct nc_documents *d, struct nc_config *ret, struct nc_err *err);

/* A field that is set and not honoured, which path, message and mark of g name: noted where
 * spec.bootstrap.unsupported is warn (0), else refused. For what only a plan can know, too. */
int nc_config_unsupported(const struct nc_documents *d, const struct nc_config *c,
                          const struct nc_diagnostic *g, struct nc_strv *noted, struct nc_err *err);

/* A place, "user-data part 2 (application/node.eks.aws):7:3"; the source alone where no line is
 * known. Owned by the caller. */
char *nc_mark_location(const struct nc_documents *d, struct nc_mark m);

/* The place of what is inside a text: of a literal block its own, whose line is the document's;
 * else the text's, and *ret_line, owned, has "line L, column C: " of the text for the message. */
struct nc_mark nc_mark_inside(struct nc_mark text, struct nc_mark inside, char **ret_line);

#endif
