/*
 * The rules on the wire for a node, enforced where every request passes: here those for Nodes.
 *
 * A node may change far more of its own Node than it should: labels of Karpenter, finalizers, even
 * its providerID. One slip in a patch body would fight other controllers on every node of a fleet,
 * so a request that this program must never send is refused here as our own bug, before a byte of
 * it leaves. What writes is allowed by name; everything else that writes is refused. Pure.
 */
#include <string.h>

#include "nc/lifecycle.h"
#include "nc/names.h"
#include "nc/str.h"

#include "wire.h"

#define NODES "/api/v1/nodes"
#define PODS "/api/v1/pods"
#define NAMESPACES "/api/v1/namespaces/"
#define FOREIGN "a part of a Node that is not ours:"
#define UNKNOWN "nothing is written there:"

static const char own_conditions[] = "BootstrapComplete\0InterruptionPending\0Drained\0"
                                     "InterruptionNoticesUnavailable\0" NC_CONDITION_FIT "\0";
static const char condition_fields[] =
    "type\0status\0reason\0message\0lastHeartbeatTime\0lastTransitionTime\0";

static int check_map(const struct nc_kube_call *c, const struct nc_value *v, const char *name,
                     struct nc_err *err) {
    return v && v->type == NC_VALUE_MAP ? 0 : nc_guard_refuse(c, err, "what must be a map:", name);
}

static int check_annotations(const struct nc_kube_call *c, const struct nc_value *v,
                             struct nc_err *err) {
    int r = check_map(c, v, "annotations", err);

    for (size_t i = 0; r == 0 && i < v->n; i++)
        if (!nc_starts_with(v->members[i].key, NC_OURS))
            r = nc_guard_refuse(c, err, FOREIGN, v->members[i].key);
    return r;
}

static int check_labels(const struct nc_kube_call *c, const struct nc_value *v,
                        struct nc_err *err) {
    int r = check_map(c, v, "labels", err);

    for (size_t i = 0; r == 0 && i < v->n; i++) {
        const struct nc_value *value = v->members[i].value;
        if (!nc_streq(v->members[i].key, NC_LABEL_BALANCERS))
            r = nc_guard_refuse(c, err, FOREIGN, v->members[i].key);
        else if (value->type != NC_VALUE_NULL
                 && !nc_streq(nc_value_string(value), NC_LABEL_BALANCERS_VALUE))
            r = nc_guard_refuse(c, err,
                                "a label with a value that is not ours:", v->members[i].key);
    }
    return r;
}

/* uid and resourceVersion are preconditions, not changes. */
static int check_metadata(const struct nc_kube_call *c, const struct nc_value *v,
                          struct nc_err *err) {
    int r = check_map(c, v, "metadata", err);

    for (size_t i = 0; r == 0 && i < v->n; i++) {
        const char *key = v->members[i].key;
        if (nc_streq(key, "annotations"))
            r = check_annotations(c, v->members[i].value, err);
        else if (nc_streq(key, "labels"))
            r = check_labels(c, v->members[i].value, err);
        else if (!nc_streq(key, "uid") && !nc_streq(key, "resourceVersion"))
            r = nc_guard_refuse(c, err, FOREIGN, key);
    }
    return r;
}

static int check_spec(const struct nc_kube_call *c, const struct nc_value *v, struct nc_err *err) {
    int r = check_map(c, v, "spec", err);

    for (size_t i = 0; r == 0 && i < v->n; i++) {
        const struct nc_value *value = v->members[i].value;
        if (!nc_streq(v->members[i].key, "unschedulable"))
            r = nc_guard_refuse(c, err, FOREIGN, v->members[i].key);
        else if (value->type != NC_VALUE_BOOL && value->type != NC_VALUE_NULL)
            r = nc_guard_refuse(c, err, "spec.unschedulable must be true, false or null", NULL);
    }
    return r;
}

static int check_condition(const struct nc_kube_call *c, const struct nc_value *v,
                           struct nc_err *err) {
    const char *type = nc_value_get_string(v, "type");

    if (!type
        || !(nc_is_one_of(type, own_conditions) || nc_is_one_of(type, nc_known_condition_names)))
        return nc_guard_refuse(c, err, FOREIGN, type ? type : "(no type)");
    for (size_t i = 0; i < v->n; i++)
        if (!nc_is_one_of(v->members[i].key, condition_fields))
            return nc_guard_refuse(c, err, "a field that no condition has:", v->members[i].key);
    return 0;
}

/* A merge patch would replace the complete list, kubelet's conditions with it: only the strategic
 * form merges by type. */
static int check_status(const struct nc_kube_call *c, const struct nc_value *v,
                        struct nc_err *err) {
    const struct nc_value *list = nc_value_get(v, "conditions");
    int r = 0;

    if (c->patch != NC_KUBE_PATCH_STRATEGIC)
        return nc_guard_refuse(c, err, "a status needs a strategic merge patch", NULL);
    if (!list || v->n != 1 || list->type != NC_VALUE_LIST)
        return nc_guard_refuse(
            c, err, "a Node's status may only be patched with a list of conditions", NULL);
    for (size_t i = 0; i < list->n && r == 0; i++)
        r = check_condition(c, list->items[i], err);
    return r;
}

static int check_node_patch(const struct nc_kube_call *c, bool is_status, struct nc_err *err) {
    const struct nc_value *body = c->body;
    int r = check_map(c, body, "the patch", err);

    for (size_t i = 0; r == 0 && i < body->n; i++) {
        const char *key = body->members[i].key;
        if (nc_streq(key, "metadata"))
            r = check_metadata(c, body->members[i].value, err);
        else if (nc_streq(key, "spec") && !is_status)
            r = check_spec(c, body->members[i].value, err);
        else if (nc_streq(key, "status") && is_status)
            r = check_status(c, body->members[i].value, err);
        else
            r = nc_guard_refuse(c, err, FOREIGN, key);
    }
    return r;
}

/* rest: what follows "/api/v1/nodes" up to the query. */
static int check_nodes(const struct nc_kube_call *c, const char *rest, size_t n,
                       struct nc_err *err) {
    const char *slash = n > 1 ? memchr(rest + 1, '/', n - 1) : NULL;
    const size_t sub = slash ? n - (size_t)(slash - rest) : 0;
    const bool is_status = slash && sub == strlen("/status") && strncmp(slash, "/status", sub) == 0;

    if (!nc_streq(c->method, "PATCH"))
        return nc_guard_refuse(c, err, "a Node is only ever read or patched, never", c->method);
    if (n < 2 || rest[1] == '/' || (slash && !is_status))
        return nc_guard_refuse(c, err, "only a Node and its status are patched", NULL);
    return check_node_patch(c, is_status, err);
}

static bool is_collection(const char *path, size_t n, const char *name) {
    return n == strlen(name) && strncmp(path, name, n) == 0;
}

/* "/api/v1/namespaces/a/events" -> "a" of length 1 and "events" behind it. */
static const char *below_namespace(const char *path, const char **ret_namespace, size_t *ret_n) {
    const char *name = path + strlen(NAMESPACES);
    const size_t n = strcspn(name, "/");

    if (n == 0 || name[n] != '/')
        return NULL;
    *ret_namespace = name;
    *ret_n = n;
    return name + n + 1;
}

/* What follows "/api/v1/namespaces/" writes. A query could state what the body must not. */
static int check_namespaced(const struct nc_kube_call *c, struct nc_err *err) {
    struct nc_guard_target t = {0};
    const char *rest = below_namespace(c->path, &t.namespace, &t.namespace_n);

    if (!rest || strchr(rest, '?'))
        return nc_guard_refuse(c, err, UNKNOWN, c->path);
    if (nc_starts_with(rest, "pods/"))
        return nc_guard_pod(c, &t, rest + strlen("pods/"), err);
    if (nc_streq(rest, "events") || nc_starts_with(rest, "events/"))
        return nc_guard_event(c, &t, rest + strlen("events"), err);
    return nc_guard_refuse(c, err, UNKNOWN, c->path);
}

/* A complete collection is not a node's to read; a body has no meaning there. */
static int check_read(const struct nc_kube_call *c, size_t n, struct nc_err *err) {
    const bool is_pods = is_collection(c->path, n, PODS)
                         || (nc_starts_with(c->path, NAMESPACES) && n > strlen("/pods")
                             && strncmp(c->path + n - strlen("/pods"), "/pods", 5) == 0);

    if ((is_collection(c->path, n, NODES) || is_pods) && !strstr(c->path + n, "fieldSelector="))
        return nc_guard_refuse(c, err, "a list without a field selector:", c->path);
    return c->body ? nc_guard_refuse(c, err, "a GET with a body", NULL) : 0;
}

int nc_kube_guard(const struct nc_kube_call *c, struct nc_err *err) {
    const int r = nc_guard_form(c, "GET\0POST\0PATCH\0DELETE\0", err);
    const size_t n = r < 0 ? 0 : strcspn(c->path, "?");

    if (r < 0)
        return r;
    if (nc_streq(c->method, "GET"))
        return check_read(c, n, err);
    if (nc_starts_with(c->path, NODES) && (c->path[strlen(NODES)] == '/' || n == strlen(NODES)))
        return check_nodes(c, c->path + strlen(NODES), n - strlen(NODES), err);
    if (nc_starts_with(c->path, NAMESPACES))
        return check_namespaced(c, err);
    return nc_guard_review(c, err);
}

const struct nc_kube_role nc_kube_as_node = {.guard = nc_kube_guard};
