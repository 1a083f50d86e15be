/*
 * What a NodeConfig asks of the host rather than of kubelet: environment of services, resolver,
 * local disks, containerd. A part of nc_config.
 */
#ifndef NC_HOST_CONFIG_H
#define NC_HOST_CONFIG_H

#include <stdbool.h>

#include "nc/mem.h"
#include "nc/value.h"

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

/* One text of containerd.config. Each is merged, key by key, over those before it. */
struct nc_containerd_text {
    char *toml; /* not parsed, not empty */
    struct nc_mark mark;
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

#endif
