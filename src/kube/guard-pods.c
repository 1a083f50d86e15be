/*
 * The rules on the wire for what a drain does to pods, and for Events.
 *
 * A node may evict, delete and mark each pod that runs on it. A pod that took the name of another
 * one must never be hit by what was meant for that one: each of the three names the uid. A grace of
 * 0 would take the pod out of the API while its containers still run: never. Pure.
 */
#include <errno.h>
#include <string.h>

#include "nc/str.h"

#include "wire.h"

static bool has_uid(const struct nc_value *map) {
    const char *uid = nc_value_get_string(map, "uid");

    return uid && *uid && map->n == 1;
}

/* Grace and uid, of the options that an eviction and a deletion have in common. */
static int check_options(const struct nc_kube_call *c, const struct nc_value *options,
                         struct nc_err *err) {
    const struct nc_value *grace = nc_value_get(options, "gracePeriodSeconds");

    if (!has_uid(nc_value_get(options, "preconditions")))
        return nc_guard_refuse(c, err, "a pod without its uid as the precondition", NULL);
    if (grace && (grace->type != NC_VALUE_INT || grace->integer < 1))
        return nc_guard_refuse(c, err, "gracePeriodSeconds must be a number from 1", NULL);
    return 0;
}

static int check_eviction(const struct nc_kube_call *c, const struct nc_guard_target *t,
                          const char *name, size_t n, struct nc_err *err) {
    const struct nc_value *metadata = nc_value_get(c->body, "metadata");
    const struct nc_value *options = nc_value_get(c->body, "deleteOptions");

    if (!nc_guard_is_text(c->body, "apiVersion", "policy/v1")
        || !nc_guard_is_text(c->body, "kind", "Eviction"))
        return nc_guard_refuse(c, err, "an eviction must be one of policy/v1", NULL);
    if (!nc_guard_has_only(c->body, "apiVersion\0kind\0metadata\0deleteOptions\0")
        || !nc_guard_has_only(metadata, "name\0namespace\0")
        || !nc_guard_has_only(options, "gracePeriodSeconds\0preconditions\0"))
        return nc_guard_refuse(c, err, "a part of an eviction that is not needed", NULL);
    if (!nc_guard_is_same(name, n, nc_value_get_string(metadata, "name"))
        || !nc_guard_is_same(t->namespace, t->namespace_n,
                             nc_value_get_string(metadata, "namespace")))
        return nc_guard_refuse(c, err, "an eviction of another pod than its path names", NULL);
    return check_options(c, options, err);
}

static int check_deletion(const struct nc_kube_call *c, struct nc_err *err) {
    if (!nc_guard_has_only(c->body, "apiVersion\0kind\0gracePeriodSeconds\0preconditions\0"))
        return nc_guard_refuse(c, err, "a pod is deleted with its uid and grace only", NULL);
    return check_options(c, c->body, err);
}

static int check_mark(const struct nc_kube_call *c, struct nc_err *err) {
    static const char fields[] = "type\0status\0reason\0message\0lastTransitionTime\0";
    const struct nc_value *status = nc_value_get(c->body, "status");
    const struct nc_value *list = nc_value_get(status, "conditions");

    if (c->patch != NC_KUBE_PATCH_STRATEGIC)
        return nc_guard_refuse(c, err, "a status needs a strategic merge patch", NULL);
    if (!nc_guard_has_only(c->body, "metadata\0status\0")
        || !nc_guard_has_only(status, "conditions\0") || !list || list->type != NC_VALUE_LIST
        || list->n != 1 || !nc_guard_has_only(list->items[0], fields)
        || !nc_guard_is_text(list->items[0], "type", "DisruptionTarget"))
        return nc_guard_refuse(c, err, "a pod's status that is not the condition DisruptionTarget",
                               NULL);
    return has_uid(nc_value_get(c->body, "metadata"))
               ? 0
               : nc_guard_refuse(c, err, "a pod without its uid as the precondition", NULL);
}

int nc_guard_pod(const struct nc_kube_call *c, const struct nc_guard_target *t, const char *rest,
                 struct nc_err *err) {
    const size_t n = strcspn(rest, "/");
    const char *sub = rest + n;

    if (n > 0 && nc_streq(c->method, "POST") && nc_streq(sub, "/eviction"))
        return check_eviction(c, t, rest, n, err);
    if (n > 0 && nc_streq(c->method, "DELETE") && *sub == '\0')
        return check_deletion(c, err);
    if (n > 0 && nc_streq(c->method, "PATCH") && nc_streq(sub, "/status"))
        return check_mark(c, err);
    return nc_guard_refuse(c, err,
                           "a pod is only ever evicted, deleted or marked, not this:", c->path);
}

/* An Event lies in namespace default, or is a pod's and lies in the pod's. */
static int check_new_event(const struct nc_kube_call *c, const struct nc_guard_target *t,
                           struct nc_err *err) {
    const struct nc_value *object = nc_value_get(c->body, "involvedObject");
    const bool is_default = nc_guard_is_same(t->namespace, t->namespace_n, "default");

    if (!nc_guard_is_text(c->body, "kind", "Event")
        || !nc_guard_is_text(c->body, "apiVersion", "v1"))
        return nc_guard_refuse(c, err, "an Event must be one of v1", NULL);
    if (!is_default
        && (!nc_guard_is_text(object, "kind", "Pod")
            || !nc_guard_is_same(t->namespace, t->namespace_n,
                                 nc_value_get_string(object, "namespace"))))
        return nc_guard_refuse(c, err, "an Event outside of default must be of a pod there", NULL);
    return 0;
}

int nc_guard_event(const struct nc_kube_call *c, const struct nc_guard_target *t, const char *rest,
                   struct nc_err *err) {
    if (nc_streq(c->method, "POST") && *rest == '\0')
        return check_new_event(c, t, err);
    if (!nc_streq(c->method, "PATCH") || rest[0] != '/' || !rest[1] || strchr(rest + 1, '/'))
        return nc_guard_refuse(c, err, "an Event is only ever created or patched, never",
                               c->method);
    return nc_guard_has_only(c->body, "count\0message\0lastTimestamp\0")
               ? 0
               : nc_guard_refuse(c, err, "a part of an Event that is not counted on", NULL);
}
