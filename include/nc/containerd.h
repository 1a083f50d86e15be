/*
 * containerd as planned: its configuration, the base runtime spec of its containers, and fast image
 * pulls through the SOCI snapshotter.
 */
#ifndef NC_CONTAINERD_H
#define NC_CONTAINERD_H

#include <stdbool.h>

#include "nc/value.h"

#define NC_CONTAINERD_CONFIG "/etc/containerd/config.toml"
#define NC_NVIDIA_RUNTIME "/usr/bin/nvidia-container-runtime"
#define NC_PAUSE_ARCHIVE "/etc/eks/pause.tar"
#define NC_SOCI_SOCKET "/run/soci-snapshotter-grpc/soci-snapshotter-grpc.sock"

struct nc_containerd_plan {
    unsigned major, minor;        /* of the installed containerd; major 0 = there is none: nothing
                                     is written */
    struct nc_value *config;      /* config.toml */
    struct nc_value *base_spec;   /* base-runtime-spec.json */
    bool needs_migration;         /* config is of version 2, containerd 2.x: `containerd config
                                     migrate` makes the file of it before it is written */
    struct nc_value *soci_config; /* config.toml of the SOCI snapshotter; NULL = it is not used */
    struct nc_mirror {
        char *path; /* /etc/containerd/certs.d/REGISTRY/hosts.toml */
        struct nc_value *tree;
    } * mirrors;
    size_t n_mirrors;
};

#define NC_CONTAINERD_PLAN_INIT                                                                    \
    { 0 }
void nc_containerd_plan_done(struct nc_containerd_plan *p);
/* Does no document name another pause image than that of NC_PAUSE_ARCHIVE? */
bool nc_containerd_needs_pause_archive(const struct nc_containerd_plan *p);

#endif
