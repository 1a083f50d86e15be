/*
 * containerd's files.
 */
#ifndef NC_PLAN_RENDER_CONTAINERD_H
#define NC_PLAN_RENDER_CONTAINERD_H

#include "nc/fileset.h"

/* Adds what the plan has of containerd, all of NC_STAGE_CONTAINERD; nothing where there is no
 * containerd. */
int nc_render_containerd(const struct nc_containerd_plan *p, struct nc_fileset *s,
                         struct nc_err *err);

#endif
