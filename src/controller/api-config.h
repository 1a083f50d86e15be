/*
 * The controller's way to the API server: a kubeconfig, or what a pod is given.
 */
#ifndef NC_API_CONFIG_H
#define NC_API_CONFIG_H

#include <systemd/sd-event.h>

#include "nc/kube-control.h"
#include "settings.h"

struct nc_api_config {
    struct nc_kubeconfig config;
    char *ca_pem;
    char *pod_namespace; /* NULL: not in a pod */
    struct nc_token_file *token;
    struct nc_http *http;
    struct nc_kube *kube;
    uint64_t mark; /* of the files that it was opened with */
};

/* Reads the files and opens a handle; no request is made yet. NC_ERR_CONFIG, NC_ERR_HOST. */
int nc_api_config_open(sd_event *event, const struct nc_settings *s, struct nc_api_config *ret,
                       struct nc_err *err);
/* Were kubeconfig or roots replaced by others since? What cannot be read just now has not changed.
 */
bool nc_api_config_is_stale(const struct nc_settings *s, const struct nc_api_config *w);
/* Everything that was opened on w->kube must be closed before. */
void nc_api_config_close(struct nc_api_config *w);

#endif
