/*
 * containerd's configuration, between the planner and what the user wrote. Private to the plan.
 */
#ifndef NC_PLAN_CONTAINERD_H
#define NC_PLAN_CONTAINERD_H

#include "planner.h"

#define NC_CONTAINERD_FIELD "spec.containerd.config"

/* What the documents' texts say together. */
struct nc_containerd_user {
    struct nc_value *tree; /* marks: the document's source, the line in its text; NULL = nothing */
    unsigned version;      /* that it is written for: 2 or 3; 0 = it suits both */
};
void nc_containerd_user_done(struct nc_containerd_user *u);

/* Parses the texts and lays them over one another. NC_ERR_CONFIG with document, line and column. */
int nc_containerd_user_read(struct nc_planner *s, struct nc_containerd_user *ret);

/* Lays it over the configuration that is ours: tables key by key, all else replaced. NC_ERR_CONFIG
 * where a table meets a value that is none. */
int nc_containerd_user_merge(struct nc_planner *s, const struct nc_containerd_user *u,
                             struct nc_value *config);

#endif
