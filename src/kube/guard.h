/*
 * The parts of the rules on the wire: guard-form.c has what holds for all, guard.c Nodes,
 * guard-pods.c pods and Events, guard-control.c what the controller may do.
 */
#ifndef NC_KUBE_GUARD_H
#define NC_KUBE_GUARD_H

#include "wire.h"

/* Always negative: NC_ERR_BUG with "WHAT: not sent: what detail". detail may be NULL. */
int nc_guard_refuse(const struct nc_kube_call *c, struct nc_err *err, const char *what,
                    const char *detail);

/* Method, patch and path of any request; `methods` is NULL-terminated. */
int nc_guard_form(const struct nc_kube_call *c, const char *const *methods, struct nc_err *err);
/* Does the path match? A '*' stands for one name: what a Kubernetes object may be called needs no
 * escapes, and an escaped slash would be another path. */
bool nc_guard_matches(const char *pattern, const char *path, size_t n);
bool nc_guard_is_text(const struct nc_value *map, const char *key, const char *text);
bool nc_guard_has_only(const struct nc_value *map, const char *const *keys);
/* Does a piece of a path name the same as the body does? */
bool nc_guard_is_same(const char *path, size_t n, const char *name);
int nc_guard_review(const struct nc_kube_call *c, struct nc_err *err);

/* Whose namespace a path names; not terminated, as it is in the path. */
struct nc_guard_target {
    const char *namespace;
    size_t namespace_n;
};
/* `rest` is what follows "pods/" of a request that writes. */
int nc_guard_pod(const struct nc_kube_call *c, const struct nc_guard_target *t, const char *rest,
                 struct nc_err *err);
/* `rest` is what follows "events". */
int nc_guard_event(const struct nc_kube_call *c, const struct nc_guard_target *t, const char *rest,
                   struct nc_err *err);

#endif
