/*
 * The plan: everything that is decided before a byte is written. Facts and configuration in,
 * numbers and trees out.
 *
 * Pure: the same input gives the same plan, to the byte. Each rule's source is named at its code.
 */
#ifndef NC_PLAN_H
#define NC_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "nc/config.h"
#include "nc/containerd.h"
#include "nc/facts.h"

struct nc_resources {
    int64_t cpu_millicores; /* -1 = unknown, in each */
    int64_t memory_bytes;
    int64_t ephemeral_bytes;
    int64_t pods;
};

/* Where a final value came from; `explain` prints these. */
struct nc_origin {
    char *field; /* "kubelet.maxPods", "node.name", "labels[type]" */
    char *value;
    char *from; /* "built-in default", "instance type m5.large", "user-data part 1 … line 12", "flag
                   --max-pods of …" */
    char *overrode; /* "" or "29 from instance type m5.large; …" */
};

/* The versions that are known; below the first one kubelet has no drop-in folder. */
#define NC_KUBELET_FIRST_MINOR 28
#define NC_KUBELET_LAST_MINOR 37
#define NC_KUBELET_MINOR_TEXT(minor) "1." #minor
#define NC_KUBELET_MINOR(minor) NC_KUBELET_MINOR_TEXT(minor)
#define NC_KUBELET_VERSION_WANTED                                                                  \
    "1.MINOR.PATCH such as v1.34.4; " NC_KUBELET_MINOR(                                            \
        NC_KUBELET_FIRST_MINOR) " to " NC_KUBELET_MINOR(NC_KUBELET_LAST_MINOR) " are known"

#define NC_DROPIN_ENV "KUBELET_CONFIG_DROPIN_DIR_ALPHA=on"

struct nc_plan {
    char *node_name;
    char *provider_id;
    char *node_ip; /* NULL = unknown */
    unsigned kubelet_minor;
    char *kubelet_version;        /* "v1.34.4" */
    struct nc_instance_type type; /* name[0] == 0: unknown */

    struct nc_strv cluster_dns;
    int64_t eni_pods; /* what the instance type alone gives (mode eni), -1 unknown */
    int64_t max_pods; /* final */
    struct nc_resources kube_reserved,
        system_reserved; /* final, after the user's keys; fields -1 = not reserved */

    struct nc_label *labels; /* final, sorted by key */
    size_t n_labels;
    struct nc_taint *taints; /* final, in the order claim, startup, documents, unregistered; united
                                by key and effect */
    size_t n_taints;
    bool belongs_to_claim; /* labels, taints or a claim document state that Karpenter made this node
                            */

    struct nc_value *kubelet_base;   /* /etc/kubernetes/kubelet/config.json */
    struct nc_value *kubelet_dropin; /* 40-nodeclaimd.conf, NULL = none */
    struct nc_value
        *kubelet_effective;    /* base with drop-in and flags laid over, as kubelet will see it */
    struct nc_strv flags;      /* ours, "--key=value", sorted */
    struct nc_strv user_flags; /* the user's, in order, without --node-labels and
                                  --register-with-taints (united above) */
    bool dropin_env_alpha;     /* kubelet < 1.30 needs NC_DROPIN_ENV in its environment */

    bool credential_provider;                /* image-credential-provider.json is to be written */
    const char *missing_credential_provider; /* that of the warnings which says that there is no
                                                program for it; NULL = none is missing */
    uint64_t logind_delay_usec;              /* 0 = logind's setting is enough already */

    struct nc_containerd_plan containerd;

    struct nc_resources capacity; /* of this host */
    struct nc_resources
        allocatable; /* predicted: capacity - kubeReserved - systemReserved - evictionHard */

    struct nc_origin *origins;
    size_t n_origins;
    struct nc_strv unsupported; /* those of the warnings that name a field which is not honoured */
    struct nc_strv warnings;
    struct nc_diagnostic *certain; /* those of the warnings that hold on every instance: a label of
                                      a document that is held back, a key that no version of
                                      containerd reads, what no table is there for, a field that is
                                      not honoured; their texts end those of the warnings */
    size_t n_certain;
    struct nc_strv less; /* one sentence for each resource of which the node offers less than
                            Karpenter counts on: warnings of this instance */
};

#define NC_PLAN_INIT                                                                               \
    { 0 }
void nc_plan_done(struct nc_plan *p);

/* What is planned from. */
struct nc_plan_input {
    const struct nc_facts *facts;
    const struct nc_config *config;
    const struct nc_documents *docs; /* gives names to marks; may be NULL */
    const struct nc_claim
        *claim;        /* as the API server has it; NULL: a document's, if there is one */
    const char *types; /* text of a table of instance types that overrides the built-in
                          one; NULL = none */
    size_t n_types;
    const char *gates, *flags;   /* data/kubelet-gates.tsv and kubelet-flags.tsv; NULL = there are
                                    none, and no gate or flag is refused */
    const char *containerd_keys; /* data/containerd-keys.tsv; NULL = none, and none is named */
};

/* The claim that counts; NULL = none. */
const struct nc_claim *nc_plan_claim(const struct nc_plan_input *in);

/* NC_ERR_CONFIG: a rule that kubelet would refuse (cross-field rules, versions) or a missing fact
 * that only the user can give. NC_ERR_HOST: no kubelet version. What ret had is freed where there
 * is another plan, and else left. */
int nc_plan_make(const struct nc_plan_input *in, struct nc_plan *ret, struct nc_err *err);

/* Adds what the daemon does at each announced ending, and where that comes from, to p->origins: for
 * `explain`, which shows it beside the plan. */
void nc_explain_policies(struct nc_plan *p, const struct nc_documents *docs,
                         const struct nc_config *c);

/* The part of a plan that states who the node is: node_name, provider_id and warnings alone are
 * filled, by the same rules, and the same becomes of what ret had. Needs neither kubelet nor the
 * instance's type. */
int nc_plan_identify(const struct nc_plan_input *in, struct nc_plan *ret, struct nc_err *err);

/* Do labels and taints of documents and flags state that Karpenter made this node? Known before
 * there is a plan; what cannot be read is the plan's to refuse. ret_node_pool: owned, NULL where no
 * label names it. */
bool nc_plan_expects_claim(const struct nc_plan_input *in, char **ret_node_pool);

/* What must still be requested from EC2 before planning can be exact, given config.ec2. */
bool nc_plan_needs_private_dns_name(const struct nc_facts *f, const struct nc_config *c);
bool nc_plan_needs_instance_type(const struct nc_plan_input *in);

/* Does this instance satisfy the claim's requirements? Appends one sentence a mismatch. */
void nc_requirements_check(const struct nc_claim *claim, const struct nc_facts *f,
                           const struct nc_plan *p, struct nc_strv *mismatches);

/* Why does what kubelet reported (Node.status.allocatable/capacity, maps of quantities) differ from
 * the plan, and from the claim's? One sentence a resource. */
void nc_allocatable_explain(const struct nc_plan *p, const struct nc_value *capacity,
                            const struct nc_value *allocatable, const struct nc_claim *claim,
                            struct nc_strv *sentences);

/* The built-in instance table: one type by name; false where it is not known. */
bool nc_instance_type_find(const char *types, size_t n_types, const char *name,
                           struct nc_instance_type *ret);

#endif
