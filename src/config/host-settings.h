/*
 * The part of the merged configuration that is about the host: see nc/host-config.h.
 */
#ifndef NC_CONFIG_HOST_SETTINGS_H
#define NC_CONFIG_HOST_SETTINGS_H

#include "nc/config.h"

/* Shapes of what instance.environment, .network and .localStorage hold. */
bool nc_shape_environment_service(const char *s);
bool nc_shape_environment_name(const char *s);
bool nc_shape_environment_value(const char *s);
bool nc_shape_search_domain(const char *s);
bool nc_shape_mount_path(const char *s);

/* Fills c->host from c->tree, but for the texts of containerd.config, which merging has collected.
 * What has no effect goes to c->warnings. */
void nc_host_config_fill(const struct nc_documents *d, struct nc_config *c);

/* Frees all of it. */
void nc_host_config_done(struct nc_host_config *h);

#endif
