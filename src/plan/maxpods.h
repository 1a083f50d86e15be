/*
 * How many pods: from the instance type, by the mode that was requested, and what to fall back to.
 */
#ifndef NC_PLAN_MAXPODS_H
#define NC_PLAN_MAXPODS_H

#include "nc/plan.h"

struct nc_max_pods {
    int64_t eni;        /* E * (I - 1) + 2, whatever the mode is; -1 unknown */
    int64_t base;       /* what config.json gets */
    int64_t expression; /* what maxPodsExpression gives; 0 = there is none, or it does not count */
    int64_t reserved;   /* what the policy `karpenter` reserves memory for */
    char from[160];     /* where base comes from */
};

/* E * (I - 1) + 2 of the default network card, -1 where the type is not known. */
int64_t nc_max_pods_eni(const struct nc_instance_type *t);

/* Decides; appends to warnings and unsupported of p. NC_ERR_CONFIG: `explicit` without a number
 * that kubelet would take, or an expression that gives none and that the documents do not allow to
 * pass over. */
int nc_max_pods_decide(const struct nc_plan_input *in, const struct nc_instance_type *type,
                       struct nc_max_pods *ret, struct nc_plan *p, struct nc_err *err);

#endif
