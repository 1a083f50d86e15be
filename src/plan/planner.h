/*
 * The planner: what the steps of nc_plan_make() pass on to each other. Nobody else includes this.
 */
#ifndef NC_PLAN_PLANNER_H
#define NC_PLAN_PLANNER_H

#include "kubelet-flags.h"
#include "maxpods.h"
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
    struct nc_value *user;      /* the user's map, made fit for the drop-in; NULL = none */
    struct nc_value *computed;  /* the base without the user's map */
    struct nc_reasons reasons;  /* of the computed base */
    struct nc_max_pods pods;
    bool uses_soci;       /* images are pulled by the SOCI snapshotter */
    char cluster_dns[64]; /* "" = left to the user's map */

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

#endif
