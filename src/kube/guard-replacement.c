/*
 * The rules on the wire for a controller that may have pods replaced first (--replacement-first).
 *
 * What the controller may do at all, and beside it: the pods of one node in one namespace, a
 * ReplicaSet, a Deployment, one annotation of its pod template, and Events about those pods.
 * Without the option none of it can be sent. Pure.
 */
#include <string.h>

#include "nc/kube-control.h"
#include "nc/names.h"
#include "nc/str.h"

#include "wire.h"

#define PODS "/api/v1/namespaces/*/pods"
#define EVENTS "/api/v1/namespaces/*/events"
#define SETS "/apis/apps/v1/namespaces/*/replicasets/*"
#define DEPLOYMENTS "/apis/apps/v1/namespaces/*/deployments/*"
#define ONE_NODE "?fieldSelector=spec.nodeName%3D"

static bool is_text(const struct nc_value *v) {
    return nc_value_string(v) && *nc_value_string(v);
}

/* Of one node, and never a watch. */
static int check_pods(const struct nc_kube_call *c, struct nc_err *err) {
    const char *query = strchr(c->path, '?');

    if (c->body)
        return nc_guard_refuse(c, err, "a GET with a body", NULL);
    if (!query || !nc_starts_with(query, ONE_NODE) || strchr("%&", query[strlen(ONE_NODE)])
        || strstr(query, "watch"))
        return nc_guard_refuse(c, err, "pods of more than one node:", c->path);
    return 0;
}

static int check_one(const struct nc_kube_call *c, struct nc_err *err) {
    if (strchr(c->path, '?'))
        return nc_guard_refuse(c, err, "an object with a query:", c->path);
    return c->body ? nc_guard_refuse(c, err, "a GET with a body", NULL) : 0;
}

static int check_restart(const struct nc_kube_call *c, struct nc_err *err) {
    const struct nc_value *metadata = nc_value_get(c->body, "metadata");
    const struct nc_value *within = nc_value_path(c->body, "spec.template.metadata.annotations");

    if (strchr(c->path, '?') || c->patch != NC_KUBE_PATCH_MERGE)
        return nc_guard_refuse(c, err, "a Deployment is restarted by a merge patch", NULL);
    if (!nc_guard_has_only(c->body, "metadata\0spec\0")
        || !nc_guard_has_only(metadata, "uid\0resourceVersion\0")
        || !nc_guard_has_only(nc_value_path(c->body, "spec"), "template\0")
        || !nc_guard_has_only(nc_value_path(c->body, "spec.template"), "metadata\0")
        || !nc_guard_has_only(nc_value_path(c->body, "spec.template.metadata"), "annotations\0")
        || !nc_guard_has_only(within, NC_ANNOTATION_RESTARTED_AT "\0")
        || !is_text(nc_value_get(within, NC_ANNOTATION_RESTARTED_AT)))
        return nc_guard_refuse(c, err, "of a Deployment only when it was restarted is ours", NULL);
    return is_text(nc_value_get(metadata, "uid"))
                   && is_text(nc_value_get(metadata, "resourceVersion"))
               ? 0
               : nc_guard_refuse(c, err, "a Deployment without its uid and resourceVersion", NULL);
}

/* About a pod of the namespace that the Event is in; others are the controller's at any time. */
static int check_event(const struct nc_kube_call *c, struct nc_err *err) {
    const char *namespace = c->path + strlen("/api/v1/namespaces/");
    const size_t n = strcspn(namespace, "/");
    const struct nc_value *about = nc_value_path(c->body, "involvedObject");

    if (!nc_value_get(about, "namespace"))
        return nc_kube_guard_control(c, err);
    if (!nc_guard_is_same(namespace, n, nc_value_get_string(about, "namespace"))
        || !nc_guard_is_same(namespace, n, nc_value_path_string(c->body, "metadata.namespace"))
        || !nc_guard_is_text(about, "kind", "Pod"))
        return nc_guard_refuse(c, err, "an Event about something else than a pod there:", c->path);
    return nc_guard_event(c, &(struct nc_guard_target){namespace, n},
                          namespace + n + strlen("/events"), err);
}

static int guard(const struct nc_kube_call *c, struct nc_err *err) {
    static const struct {
        const char *method, *pattern;
        int (*check)(const struct nc_kube_call *c, struct nc_err *err);
    } calls[] = {
        {"GET", PODS, check_pods},       {"GET", SETS, check_one},
        {"GET", DEPLOYMENTS, check_one}, {"PATCH", DEPLOYMENTS, check_restart},
        {"POST", EVENTS, check_event},
    };
    const int r = nc_guard_form(c, "GET\0POST\0PUT\0PATCH\0DELETE\0", err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < NC_ARRAY_SIZE(calls); i++)
        if (nc_streq(c->method, calls[i].method)
            && nc_guard_matches(calls[i].pattern, c->path, strcspn(c->path, "?")))
            return calls[i].check(c, err);
    return nc_kube_guard_control(c, err);
}

const struct nc_kube_role nc_kube_as_replacing_controller = {
    .guard = guard,
    .remedies = {NC_CONTROLLER_REMEDY_401,
                 "the API server knows this identity but does not allow the request: bind the "
                 "ClusterRole and the Role of nodeclaim-controller to it, and in each namespace of "
                 "--replacement-first its Role nodeclaim-controller-replacement",
                 NC_CONTROLLER_REMEDY_TLS}};
