/*
 * The rules on the wire, enforced where every request passes.
 *
 * A node may change far more of its own Node than it should: labels of Karpenter, finalizers, even
 * its providerID. One slip in a patch body would fight other controllers on every node of a fleet,
 * so a request that this program must never send is refused here as our own bug, before a byte of
 * it leaves. Pure.
 */
#include <errno.h>
#include <string.h>

#include "nc/str.h"

#include "wire.h"

#define NODES "/api/v1/nodes"
#define PODS "/api/v1/pods"
#define OWN_ANNOTATIONS "nodeclaimd.io/"
#define OWN_LABEL "node.kubernetes.io/exclude-from-external-load-balancers"

static const char *const own_conditions[] = {"BootstrapComplete", "InterruptionPending", "Drained",
                                             NULL};
static const char *const condition_fields[] = {
    "type", "status", "reason", "message", "lastHeartbeatTime", "lastTransitionTime", NULL};

static bool is_listed(const char *const *names, const char *s) {
    for (; *names; names++)
        if (nc_streq(*names, s))
            return true;
    return false;
}

static int refuse(const struct nc_kube_call *c, struct nc_err *err, const char *what,
                  const char *detail) {
    return nc_err_set(err, NC_ERR_BUG, EPERM, "%s: not sent: %s%s%s", c->what ? c->what : "request",
                      what, detail ? " " : "", detail ? detail : "");
}

static int check_annotations(const struct nc_kube_call *c, const struct nc_value *v,
                             struct nc_err *err) {
    if (v->type != NC_VALUE_MAP)
        return refuse(c, err, "annotations must be a map", NULL);
    for (size_t i = 0; i < v->n; i++)
        if (!nc_starts_with(v->members[i].key, OWN_ANNOTATIONS))
            return refuse(c, err, "a Node's annotation that is not ours:", v->members[i].key);
    return 0;
}

static int check_labels(const struct nc_kube_call *c, const struct nc_value *v,
                        struct nc_err *err) {
    if (v->type != NC_VALUE_MAP)
        return refuse(c, err, "labels must be a map", NULL);
    for (size_t i = 0; i < v->n; i++)
        if (!nc_streq(v->members[i].key, OWN_LABEL))
            return refuse(c, err, "a Node's label that is not ours:", v->members[i].key);
    return 0;
}

/* uid and resourceVersion are preconditions, not changes. */
static int check_metadata(const struct nc_kube_call *c, const struct nc_value *v,
                          struct nc_err *err) {
    int r = v->type == NC_VALUE_MAP ? 0 : refuse(c, err, "metadata must be a map", NULL);

    for (size_t i = 0; i < v->n && r == 0 && v->type == NC_VALUE_MAP; i++) {
        const char *key = v->members[i].key;
        if (nc_streq(key, "annotations"))
            r = check_annotations(c, v->members[i].value, err);
        else if (nc_streq(key, "labels"))
            r = check_labels(c, v->members[i].value, err);
        else if (!nc_streq(key, "uid") && !nc_streq(key, "resourceVersion"))
            r = refuse(c, err, "a Node's metadata that is not ours:", key);
    }
    return r;
}

static int check_spec(const struct nc_kube_call *c, const struct nc_value *v, struct nc_err *err) {
    if (v->type != NC_VALUE_MAP)
        return refuse(c, err, "spec must be a map", NULL);
    for (size_t i = 0; i < v->n; i++) {
        const struct nc_value *value = v->members[i].value;
        if (!nc_streq(v->members[i].key, "unschedulable"))
            return refuse(c, err, "a Node's spec that is not ours:", v->members[i].key);
        if (value->type != NC_VALUE_BOOL && value->type != NC_VALUE_NULL)
            return refuse(c, err, "spec.unschedulable must be true, false or null", NULL);
    }
    return 0;
}

static int check_condition(const struct nc_kube_call *c, const struct nc_value *v,
                           struct nc_err *err) {
    const char *type = nc_value_get_string(v, "type");

    if (!type || !is_listed(own_conditions, type))
        return refuse(c, err, "a Node's condition that is not ours:", type ? type : "(no type)");
    for (size_t i = 0; i < v->n; i++)
        if (!is_listed(condition_fields, v->members[i].key))
            return refuse(c, err, "a field that no condition has:", v->members[i].key);
    return 0;
}

/* A merge patch would replace the whole list, kubelet's conditions with it: only the strategic form
 * merges by type. */
static int check_status(const struct nc_kube_call *c, const struct nc_value *v,
                        struct nc_err *err) {
    const struct nc_value *list = nc_value_get(v, "conditions");
    int r = 0;

    if (c->patch != NC_KUBE_PATCH_STRATEGIC)
        return refuse(c, err, "a Node's status needs a strategic merge patch", NULL);
    if (!list || v->n != 1 || list->type != NC_VALUE_LIST)
        return refuse(c, err, "a Node's status may only be patched with a list of conditions",
                      NULL);
    for (size_t i = 0; i < list->n && r == 0; i++)
        r = check_condition(c, list->items[i], err);
    return r;
}

static int check_node_patch(const struct nc_kube_call *c, bool is_status, struct nc_err *err) {
    const struct nc_value *body = c->body;
    int r = body && body->type == NC_VALUE_MAP
                ? 0
                : refuse(c, err, "a Node's patch must be a map", NULL);

    for (size_t i = 0; r == 0 && i < body->n; i++) {
        const char *key = body->members[i].key;
        if (nc_streq(key, "metadata"))
            r = check_metadata(c, body->members[i].value, err);
        else if (nc_streq(key, "spec") && !is_status)
            r = check_spec(c, body->members[i].value, err);
        else if (nc_streq(key, "status") && is_status)
            r = check_status(c, body->members[i].value, err);
        else
            r = refuse(c, err, "a part of a Node that is not ours:", key);
    }
    return r;
}

/* rest: what follows "/api/v1/nodes" up to the query. */
static int check_nodes(const struct nc_kube_call *c, const char *rest, size_t n,
                       struct nc_err *err) {
    const char *slash = n > 1 ? memchr(rest + 1, '/', n - 1) : NULL;
    const size_t sub = slash ? n - (size_t)(slash - rest) : 0;
    const bool is_status = slash && sub == strlen("/status") && strncmp(slash, "/status", sub) == 0;

    if (nc_streq(c->method, "GET"))
        return 0;
    if (!nc_streq(c->method, "PATCH"))
        return refuse(c, err, "a Node is only ever read or patched, never", c->method);
    if (n < 2 || rest[1] == '/' || (slash && !is_status))
        return refuse(c, err, "only a Node and its status are patched", NULL);
    return check_node_patch(c, is_status, err);
}

static bool is_collection(const char *path, size_t n, const char *name) {
    return n == strlen(name) && strncmp(path, name, n) == 0;
}

static int check_form(const struct nc_kube_call *c, struct nc_err *err) {
    static const char *const methods[] = {"GET", "POST", "PATCH", "DELETE", NULL};

    if (!c->what || !c->method || !is_listed(methods, c->method))
        return refuse(c, err, "only GET, POST, PATCH and DELETE are, not", c->method);
    if (nc_streq(c->method, "PATCH") != (c->patch != NC_KUBE_PATCH_NONE))
        return refuse(c, err, "PATCH and the kind of the patch belong together", NULL);
    if (!c->path || c->path[0] != '/')
        return refuse(c, err, "a path starts with a slash", NULL);
    for (const char *p = c->path; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '#')
            return refuse(c, err, "the path is not encoded", NULL);
    return 0;
}

int nc_kube_guard(const struct nc_kube_call *c, struct nc_err *err) {
    const int r = check_form(c, err);
    const size_t n = r < 0 ? 0 : strcspn(c->path, "?");

    if (r < 0)
        return r;
    if ((is_collection(c->path, n, NODES) || is_collection(c->path, n, PODS))
        && !strstr(c->path + n, "fieldSelector="))
        return refuse(c, err, "a list without a field selector:", c->path);
    if (nc_starts_with(c->path, NODES) && (c->path[strlen(NODES)] == '/' || n == strlen(NODES)))
        return check_nodes(c, c->path + strlen(NODES), n - strlen(NODES), err);
    return 0;
}
