/*
 * The requests of replacement first: pods of a node, their owners, the restart, Events about a pod.
 *
 * Of pods and ReplicaSets the metadata is enough. A list is one page: a node has no more pods of a
 * namespace that matter. guard-replacement.c holds each to its rules.
 */
#include <errno.h>
#include <string.h>

#include "nc/kube-control.h"
#include "nc/mem.h"
#include "nc/pod.h"

#include "wire.h"

#define META(kind) "application/json;as=" kind ";g=meta.k8s.io;v=v1,application/json"
#define VALUE_MAX_BYTES 16384u /* of what is kept of a pod, one at a time */

static char *build_path(const struct nc_replacement_call *c, struct nc_kube_call *call) {
    nc_auto_free char *namespace = nc_kube_escape(c->namespace);
    nc_auto_free char *name = nc_kube_escape(c->name ? c->name : "");

    call->method = "GET";
    switch (c->verb) {
    case NC_REPLACEMENT_GET_SET:
        call->what = "get replicaset";
        call->accept = META("PartialObjectMetadata");
        return nc_asprintf("/apis/apps/v1/namespaces/%s/replicasets/%s", namespace, name);
    case NC_REPLACEMENT_PATCH:
        call->method = "PATCH";
        call->patch = NC_KUBE_PATCH_MERGE;
        call->body = c->body;
        call->accept = META("PartialObjectMetadata");
        break;
    case NC_REPLACEMENT_EVENT:
        call->what = "create event";
        call->method = "POST";
        call->drops_answer = true;
        return nc_asprintf("/api/v1/namespaces/%s/events", namespace);
    case NC_REPLACEMENT_GET_DEPLOYMENT:
        break;
    }
    call->what = c->verb == NC_REPLACEMENT_PATCH ? "restart deployment" : "get deployment";
    return nc_asprintf("/apis/apps/v1/namespaces/%s/deployments/%s", namespace, name);
}

int nc_replacement_send(struct nc_kube *k, const struct nc_replacement_call *c,
                        struct nc_kube_req **ret, struct nc_err *err) {
    struct nc_kube_call call = {
        .timeout_usec = c->timeout_usec, .done = c->done, .userdata = c->userdata};
    nc_auto_free char *path = build_path(c, &call);
    nc_auto_value struct nc_value *event = NULL;

    call.path = path;
    if (c->verb == NC_REPLACEMENT_EVENT) {
        nc_auto_free char *name = nc_event_name(c->event);
        call.body = event = nc_event_body(c->event, name);
    }
    return nc_kube_start(k, &call, ret, err);
}

int nc_replacement_list(struct nc_kube *k, sd_event *event, const struct nc_replacement_list *l,
                        struct nc_watch **ret, struct nc_err *err) {
    nc_auto_free char *namespace = nc_kube_escape(l->namespace);
    nc_auto_free char *node = nc_kube_escape(l->node);
    nc_auto_free char *path = nc_asprintf("/api/v1/namespaces/%s/pods", namespace);
    nc_auto_free char *selector =
        nc_asprintf("fieldSelector=spec.nodeName%%3D%s%s", node, NC_POD_UNFINISHED);
    const struct nc_watch_options o = {.path = path,
                                       .selector = selector,
                                       .metadata_only = true,
                                       .keep = l->keep,
                                       .max_value_bytes = VALUE_MAX_BYTES,
                                       .event = l->event,
                                       .failed = l->failed,
                                       .userdata = l->userdata};

    return nc_watch_new(k, event, &o, ret, err);
}
