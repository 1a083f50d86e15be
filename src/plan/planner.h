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

#endif
