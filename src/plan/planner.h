/*
 * The planner: what the steps of nc_plan_make() pass on to each other. Nobody else includes this.
 */
#ifndef NC_PLAN_PLANNER_H
#define NC_PLAN_PLANNER_H

#include "kubelet.h"
#include "numbers.h"
#include "origin.h"

struct nc_planner {
    /* given */
    const struct nc_facts *facts;
    const struct nc_config *config;
    const struct nc_documents *docs; /* may be NULL */
    const struct nc_claim *claim;    /* may be NULL */
    const struct nc_plan_input *in;
    struct nc_err *err;

    /* made on the way, freed at the end */
    struct nc_flags flags;      /* all of the user's */
    struct nc_value *flag_tree; /* those that are fields of KubeletConfiguration */
    struct nc_value *planned;   /* config->planned, its expressions evaluated; NULL = not known */
    struct nc_value *user;      /* the user's map, made fit for the drop-in; NULL = none */
    struct nc_value *computed;  /* the base without the user's map */
    struct nc_reasons reasons;  /* of the computed base */
    struct nc_max_pods pods;
    int64_t uncapped_pods; /* what maxPods.atMost made less; 0 = nothing */
    int64_t short_bytes;   /* with the policy `claim`: see nc_plan_short */
    bool uses_soci;        /* images are pulled by the SOCI snapshotter */
    char cluster_dns[64];  /* "" = left to the user's map */

    /* the result */
    struct nc_plan plan;
};

/* plan-node.c: name, providerID, address, labels, taints. All return 0 or a negative errno with err
 * filled. */
int nc_plan_identity(struct nc_planner *s);
int nc_plan_labels(struct nc_planner *s);
int nc_plan_taints(struct nc_planner *s);

/* plan-kubelet.c: the configuration in its layers. */
int nc_plan_user_map(struct nc_planner *s);
int nc_plan_network(struct nc_planner *s);
int nc_plan_kubelet(struct nc_planner *s);
void nc_plan_flags(struct nc_planner *s);
/* Needs the origins of kubelet's fields. */
void nc_plan_explain_cap(struct nc_planner *s);

/* node-class.c */
/* Evaluates the expressions of a NodeClass in what Karpenter plans with and in the user's map,
 * which may be NULL. */
int nc_plan_node_class(struct nc_planner *s, struct nc_value *user);
/* How much more allocatable memory the NodeClaim has than that; 0 = not more, or not known. */
int64_t nc_plan_short(const struct nc_planner *s, int64_t memory_bytes);
/* What the node offers beside what Karpenter counts on. Needs the prediction. */
void nc_plan_less(struct nc_planner *s);

/* credential-providers.c */
int nc_plan_credential_providers(struct nc_planner *s);

/* kubelet-known.c: does this kubelet know each gate and flag of the configuration? */
int nc_plan_known(struct nc_planner *s);
/* A row of a table of names by version. */
struct nc_known {
    unsigned first, last, on, locked, beta, stable;
    const char *text, *needs; /* behind `last`, and behind `stable`, up to the line's end */
};
bool nc_known_row(const char *table, const char *name, struct nc_known *ret);
/* The first letter of the type that a path has, parted by points, in a version of a table of paths;
 * '.' where others begin with it, 0 for an unknown one. */
#define NC_ANY_VERSION 0
char nc_known_path(const char *table, const char *path, unsigned version);
/* ", did you mean …?" or "". Of a plugin's key it names a key of that plugin. Owned. */
char *nc_known_suggestion(const char *table, const char *name, unsigned minor, const char *before);

/* containerd.c. */
/* Who pulls images: kubelet and containerd are told. */
int nc_plan_image_pulls(struct nc_planner *s);
/* containerd's configuration. Needs kubelet's version. */
int nc_plan_containerd(struct nc_planner *s);

/* --- naming.c: who the node is */

struct nc_decided_name {
    char *text; /* owned */
    char from[96];
};

/* The node's name by the configured way, checked as a DNS-1123 subdomain. NC_ERR_CONFIG with a
 * remedy where a fact is missing that the user can replace. */
int nc_name_decide(const struct nc_facts *f, const struct nc_config *c, struct nc_decided_name *ret,
                   struct nc_strv *warnings, struct nc_err *err);

/* "aws:///AZ/INSTANCE", or the configured one. */
int nc_provider_id_decide(const struct nc_facts *f, const struct nc_config *c,
                          struct nc_decided_name *ret, struct nc_err *err);

/* The address of the family that the services have: 0 = the family is not known. NULL where that
 * fact is missing. Borrowed. */
const char *nc_node_ip_of_family(const struct nc_facts *f, int family);

/* --- instance-types.c: one row of an instance table file */

enum nc_type_row {
    NC_TYPE_ROW_NONE = 0, /* the file has no row of that name */
    NC_TYPE_ROW_FOUND,
    NC_TYPE_ROW_BAD, /* it has one, but not in the TSV's form: *ret is untouched */
};

/* Looks `name` up in the text of a table file (may be NULL with n_types 0). */
enum nc_type_row nc_instance_type_row(const char *types, size_t n_types, const char *name,
                                      struct nc_instance_type *ret);

/* --- registry-mirrors.c */

/* Takes registry.mirrors out of the user's configuration into the plan's hosts.toml files.
 * NC_ERR_CONFIG with the place. */
int nc_registry_mirrors_apply(struct nc_planner *s, struct nc_value *user);

/* --- containerd-user.c: containerd's configuration as the user wrote it */

/* What the documents' texts say together. */
struct nc_containerd_user {
    struct nc_value *tree; /* marks: the document's source, the line in its text; NULL = nothing */
    unsigned version;      /* that it is written for: 2, 3 or 4; 0 = it suits each */
};
void nc_containerd_user_done(struct nc_containerd_user *u);

/* Parses the texts and lays them over one another. NC_ERR_CONFIG with document, line and column. */
int nc_containerd_user_read(struct nc_planner *s, struct nc_containerd_user *ret);

/* Lays it over the configuration that is ours: tables key by key, all else replaced. NC_ERR_CONFIG
 * where a table meets a value that is none. */
int nc_containerd_user_merge(struct nc_planner *s, const struct nc_containerd_user *u,
                             struct nc_value *config);

/* A refusal that names a place in a text. */
int nc_containerd_refuse(struct nc_planner *s, const struct nc_value *v, const char *what);
/* A warning likewise; a mark that has no line names the text. is_unknown: no containerd reads what
 * it is about. */
void nc_containerd_warn(struct nc_planner *s, struct nc_mark inside, bool is_unknown,
                        const char *message);

/* --- containerd-rules.c: what containerd refuses or ignores */

/* NC_ERR_CONFIG where it would come up without its CRI plugin, or ignore what the user wrote.
 * `config` is the user's text over ours. */
int nc_containerd_check(struct nc_planner *s, const struct nc_containerd_user *u,
                        const struct nc_value *config);
bool nc_containerd_pulls_itself(const struct nc_containerd_plan *p);

#endif
