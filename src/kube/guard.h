/*
 * The two halves of the rules on the wire: guard.c has what holds for all and for Nodes,
 * guard-pods.c pods and Events.
 */
#ifndef NC_KUBE_GUARD_H
#define NC_KUBE_GUARD_H

#include "wire.h"

bool nc_guard_is_listed(const char *const *names, const char *s);
/* Always negative: NC_ERR_BUG with "WHAT: not sent: what detail". detail may be NULL. */
int nc_guard_refuse(const struct nc_kube_call *c, struct nc_err *err, const char *what,
                    const char *detail);

/* Whose namespace a path names; not terminated, as it is in the path. */
struct nc_guard_target {
    const char *namespace;
    size_t namespace_n;
};
/* `rest` is what follows "pods/" of a request that writes. */
int nc_guard_pod(const struct nc_kube_call *c, const struct nc_guard_target *t, const char *rest,
                 struct nc_err *err);
/* `rest` is what follows "events". */
int nc_guard_event(const struct nc_kube_call *c, const char *rest, struct nc_err *err);

#endif
