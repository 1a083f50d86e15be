/*
 * The rules on the wire for the central controller: marks, conditions and ends of Nodes and claims.
 *
 * Its identity may read every Node and delete every NodeClaim of a cluster: what a slip could do is
 * worse than on a node. So everything is allowed by name, reads too, and all else is refused: no
 * secret is ever read, no pod (but guard-replacement.c), nothing is deleted without its uid, what
 * somebody requested (a claim's spec, a cordon) is never changed, and a list that a merge patch
 * replaces as a whole must state which version of the object it was made from. Pure.
 */
#include <errno.h>
#include <string.h>

#include "nc/names.h"
#include "nc/str.h"

#include "wire.h"

#define COORDINATION "/apis/coordination.k8s.io/v1"
#define UNKNOWN "the controller has no business there:"
#define EVENTS "/api/v1/namespaces/default/events"
#define BOOT_FAILURES EVENTS "?fieldSelector=reason%3D" NC_EVENT_BOOTSTRAP_FAILED "&"

bool nc_guard_matches(const char *pattern, const char *path, size_t n) {
    const char *end = path + n;

    for (; *pattern; pattern++) {
        const char *start = path;
        if (*pattern != '*') {
            if (path == end || *path++ != *pattern)
                return false;
            continue;
        }
        while (path < end && *path != '/' && *path != '%')
            path++;
        if (path == start)
            return false;
    }
    return path == end;
}

static bool matches_any(const char *patterns, const char *path, size_t n) {
    for (const char *p = patterns; *p; p = nc_next_name(p))
        if (nc_guard_matches(p, path, n))
            return true;
    return false;
}

static int check_read(const struct nc_kube_call *c, struct nc_err *err) {
    static const char patterns[] =
        "/version\0/api\0/apis\0/api/v1\0/apis/*\0/apis/*/*\0/api/v1/nodes\0/api/v1/nodes/*\0"
        "/apis/karpenter.sh/*/nodeclaims\0/apis/karpenter.sh/*/nodepools\0"
        "/apis/*/*/ec2nodeclasses\0/apis/*/*/nodeclasses\0" COORDINATION "/namespaces/*/leases/*\0";
    const bool is_events = nc_starts_with(c->path, BOOT_FAILURES) && !strstr(c->path, "watch");

    if (!is_events && !matches_any(patterns, c->path, strcspn(c->path, "?")))
        return nc_guard_refuse(c, err, UNKNOWN, c->path);
    return c->body ? nc_guard_refuse(c, err, "a GET with a body", NULL) : 0;
}

/* What a patch may hold. */
struct allowed {
    const char *thing;
    const char *metadata; /* lists of names */
    const char *part;     /* "spec", "status", or NULL */
    const char *fields;
};

/* Lists that belong to several: whoever replaces one must have seen what is in it. */
static bool is_shared_list(const char *key) {
    return nc_is_one_of(key, "finalizers\0ownerReferences\0taints\0conditions\0");
}

static bool is_string_map(const struct nc_value *v) {
    if (v->type != NC_VALUE_MAP)
        return false;
    for (size_t i = 0; i < v->n; i++)
        if (v->members[i].value->type != NC_VALUE_STRING
            && v->members[i].value->type != NC_VALUE_NULL)
            return false;
    return true;
}

static int check_field(const struct nc_kube_call *c, const struct nc_member *m,
                       struct nc_err *err) {
    if (is_shared_list(m->key)) {
        if (m->value->type != NC_VALUE_LIST && m->value->type != NC_VALUE_NULL)
            return nc_guard_refuse(c, err, "what must be a list:", m->key);
        if (!nc_value_path_string(c->body, "metadata.resourceVersion"))
            return nc_guard_refuse(c, err, "a list without metadata.resourceVersion:", m->key);
        return 0;
    }
    if (nc_streq(m->key, "labels") || nc_streq(m->key, "annotations"))
        return is_string_map(m->value) ? 0
                                       : nc_guard_refuse(c, err, "not a map of strings:", m->key);
    return nc_value_string(m->value) && *nc_value_string(m->value)
               ? 0
               : nc_guard_refuse(c, err, "not a string:", m->key);
}

static int check_fields(const struct nc_kube_call *c, const struct nc_value *v, const char *thing,
                        const char *fields, struct nc_err *err) {
    int r = v->type == NC_VALUE_MAP ? 0 : nc_guard_refuse(c, err, "what must be a map:", thing);

    for (size_t i = 0; r == 0 && i < v->n; i++) {
        if (!nc_is_one_of(v->members[i].key, fields))
            r = nc_guard_refuse(c, err, "a field that is not the controller's:", v->members[i].key);
        else
            r = check_field(c, &v->members[i], err);
    }
    return r;
}

static int check_patch(const struct nc_kube_call *c, const struct allowed *a, struct nc_err *err) {
    int r = 0;

    if (c->patch != NC_KUBE_PATCH_MERGE)
        return nc_guard_refuse(c, err, "the controller's patches are merge patches:", a->thing);
    if (!c->body || c->body->type != NC_VALUE_MAP || c->body->n == 0)
        return nc_guard_refuse(c, err, "not a map with members:", a->thing);
    for (size_t i = 0; r == 0 && i < c->body->n; i++) {
        const struct nc_member *m = &c->body->members[i];
        if (nc_streq(m->key, "metadata"))
            r = check_fields(c, m->value, m->key, a->metadata, err);
        else if (a->part && nc_streq(m->key, a->part))
            r = check_fields(c, m->value, m->key, a->fields, err);
        else
            r = nc_guard_refuse(c, err, "a part that is not the controller's:", m->key);
    }
    return r;
}

static int check_node(const struct nc_kube_call *c, struct nc_err *err) {
    static const struct allowed a = {
        "a Node", "labels\0annotations\0finalizers\0ownerReferences\0resourceVersion\0uid\0",
        "spec", "taints\0"};

    return check_patch(c, &a, err);
}

static int check_claim(const struct nc_kube_call *c, struct nc_err *err) {
    static const struct allowed a = {"a NodeClaim",
                                     "annotations\0finalizers\0resourceVersion\0uid\0", NULL, NULL};

    return check_patch(c, &a, err);
}

static int check_claim_status(const struct nc_kube_call *c, struct nc_err *err) {
    static const struct allowed a = {"a NodeClaim's status", "resourceVersion\0uid\0", "status",
                                     "conditions\0nodeName\0"};

    /* On a subresource of a custom resource a uid that is another's is no precondition: the API
     * server (v1.34) drops it and writes. */
    if (!nc_value_path_string(c->body, "metadata.resourceVersion"))
        return nc_guard_refuse(c, err, "a claim's status without metadata.resourceVersion", NULL);
    return check_patch(c, &a, err);
}

static int check_deletion(const struct nc_kube_call *c, struct nc_err *err) {
    const struct nc_value *v = nc_value_get(c->body, "preconditions");
    const char *uid = nc_value_get_string(v, "uid");

    if (!nc_guard_has_only(c->body, "apiVersion\0kind\0preconditions\0")
        || !nc_guard_has_only(v, "uid\0resourceVersion\0"))
        return nc_guard_refuse(c, err, "a deletion has preconditions and nothing else", NULL);
    return uid && *uid
               ? 0
               : nc_guard_refuse(c, err, "a deletion without the uid as precondition", NULL);
}

/* "…/namespaces/NS/leases[/NAME]" -> what the path says, as the body must. */
static int check_lease_name(const struct nc_kube_call *c, struct nc_err *err) {
    static const char others[] =
        "karpenter-leader-election\0kube-scheduler\0kube-controller-manager\0"
        "cloud-controller-manager\0";
    const char *namespace = c->path + strlen(COORDINATION "/namespaces/");
    const size_t namespace_n = strcspn(namespace, "/");
    const char *rest = namespace + namespace_n + strlen("/leases");
    const char *name = nc_value_path_string(c->body, "metadata.name");

    if (!nc_guard_is_same(namespace, namespace_n,
                          nc_value_path_string(c->body, "metadata.namespace"))
        || !name || (*rest && !nc_guard_is_same(rest + 1, strlen(rest + 1), name)))
        return nc_guard_refuse(c, err, "another Lease than the path names", NULL);
    if (nc_is_one_of(name, others)
        || (namespace_n == strlen("kube-node-lease")
            && nc_starts_with(namespace, "kube-node-lease/")))
        return nc_guard_refuse(c, err, "somebody else's Lease:", name);
    return 0;
}

static int check_lease(const struct nc_kube_call *c, struct nc_err *err) {
    const char *version = nc_value_path_string(c->body, "metadata.resourceVersion");

    if (!nc_guard_has_only(c->body, "apiVersion\0kind\0metadata\0spec\0")
        || !nc_guard_has_only(nc_value_get(c->body, "metadata"),
                              "name\0namespace\0resourceVersion\0uid\0")
        || !nc_guard_is_text(c->body, "kind", "Lease"))
        return nc_guard_refuse(c, err, "a Lease has a name and a spec and nothing else", NULL);
    if (nc_streq(c->method, "PUT") && !(version && *version))
        return nc_guard_refuse(c, err, "a Lease is replaced by its resourceVersion only", NULL);
    return check_lease_name(c, err);
}

/* A controller's Events are where a node's are: in the namespace default. */
static int check_event(const struct nc_kube_call *c, struct nc_err *err) {
    return nc_guard_event(c, &(struct nc_guard_target){"default", strlen("default")},
                          c->path + strlen(EVENTS), err);
}

int nc_kube_guard_control(const struct nc_kube_call *c, struct nc_err *err) {
    static const struct {
        const char *method, *pattern;
        int (*check)(const struct nc_kube_call *c, struct nc_err *err);
    } writes[] = {
        {"PATCH", "/api/v1/nodes/*", check_node},
        {"DELETE", "/api/v1/nodes/*", check_deletion},
        {"PATCH", "/apis/karpenter.sh/*/nodeclaims/*", check_claim},
        {"PATCH", "/apis/karpenter.sh/*/nodeclaims/*/status", check_claim_status},
        {"DELETE", "/apis/karpenter.sh/*/nodeclaims/*", check_deletion},
        {"POST", COORDINATION "/namespaces/*/leases", check_lease},
        {"PUT", COORDINATION "/namespaces/*/leases/*", check_lease},
        {"POST", EVENTS, check_event},
        {"POST", "/apis/authentication.k8s.io/*/selfsubjectreviews", nc_guard_review},
    };
    const int r = nc_guard_form(c, "GET\0POST\0PUT\0PATCH\0DELETE\0", err);

    if (r < 0)
        return r;
    if (nc_streq(c->method, "GET"))
        return check_read(c, err);
    /* The query is part of what must match: it could state what the body must not. */
    for (size_t i = 0; i < NC_ARRAY_SIZE(writes); i++)
        if (nc_streq(c->method, writes[i].method)
            && nc_guard_matches(writes[i].pattern, c->path, strlen(c->path)))
            return strchr(c->path, '?') ? nc_guard_refuse(c, err, "a write with a query:", c->path)
                                        : writes[i].check(c, err);
    return nc_guard_refuse(c, err, UNKNOWN, c->path);
}

const struct nc_kube_role nc_kube_as_controller = {
    .guard = nc_kube_guard_control,
    .remedies = {NC_CONTROLLER_REMEDY_401,
                 "the API server knows this identity but does not allow the request: "
                 "bind the ClusterRole and the Role of nodeclaim-controller to it",
                 NC_CONTROLLER_REMEDY_TLS}};
