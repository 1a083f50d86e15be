/*
 * kubeconfig files, one for each way in which a node proves who it is.
 */
#ifndef NC_PLAN_RENDER_KUBECONFIG_H
#define NC_PLAN_RENDER_KUBECONFIG_H

#include "nc/fileset.h"

/* Adds the kubeconfig files that the configuration's auth mode needs. */
void nc_render_kubeconfig(const struct nc_render_input *in, struct nc_fileset *s);

#endif
