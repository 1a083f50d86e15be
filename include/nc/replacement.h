/*
 * Replacement first: which pods of a node wait for theirs, and whether their Deployment can make
 * it.
 *
 * Pure. A Deployment with one replica whose pod template changes makes the new pod, waits until it
 * is Ready, and only then deletes the old one. So it is restarted as `kubectl rollout restart`
 * does: by an annotation of its template (nodeclaimd.io/restarted-at), which says when. What is
 * read is hostile: whoever may write a pod or a Deployment may fill it with anything.
 *
 * The rules, in the words that the tests use:
 *  - A pod waits where it has nodeclaimd.io/replacement-first: "true" and is not being deleted.
 *  - Its controller is a ReplicaSet, whose controller is a Deployment; each by name and uid.
 *  - The Deployment has one replica, is not paused, and its strategy RollingUpdate may surge and
 * may not take the old pod away before the new one is Ready. Else no replacement is possible.
 *  - It is restarted once a drain: not where restarted-at is no earlier than the drain's begin. And
 *    once in NC_REPLACEMENT_PAUSE_USEC, whatever nodes report: restarted-at is by the API server's
 *    clock, and the patch has the resourceVersion that it was read at.
 */
#ifndef NC_REPLACEMENT_H
#define NC_REPLACEMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/err.h"
#include "nc/value.h"

#define NC_REPLACEMENT_NAMESPACES_MAX 32
#define NC_REPLACEMENT_PODS_MAX ((size_t)256) /* of one namespace on one node: it runs fewer */
#define NC_REPLACEMENT_PAUSE_USEC (600ull * 1000000)

struct nc_replaced_pod {
    char *name, *uid;
    char *set, *set_uid; /* its ReplicaSet; NULL = its controller is none */
};
void nc_replaced_pod_done(struct nc_replaced_pod *p);
/* What is read of a pod (nc/json-filter.h). */
extern const char nc_replacement_keep[];
/* Whether it waits, of a pod in this namespace; its metadata is enough. False, too, where it cannot
 * be read. */
bool nc_replacement_read_pod(const struct nc_value *pod, const char *namespace,
                             struct nc_replaced_pod *ret);

struct nc_replacement_owner {
    char *name, *uid;
};
void nc_replacement_owner_done(struct nc_replacement_owner *o);
/* The Deployment of a ReplicaSet. False where it is another one than `uid`, or has none. */
bool nc_replacement_read_owner(const struct nc_value *set, const char *uid,
                               struct nc_replacement_owner *ret);

enum nc_replacement_answer {
    NC_REPLACEMENT_RESTART = 1, /* by `patch` */
    NC_REPLACEMENT_DONE,        /* in this drain, or by somebody since */
    NC_REPLACEMENT_LATER,       /* it was restarted a moment ago, for something else */
    NC_REPLACEMENT_IMPOSSIBLE,  /* `why` */
    NC_REPLACEMENT_GONE,        /* another Deployment has the name, or it is being deleted */
};
struct nc_replacement_case {
    const struct nc_value *deployment;
    const char *uid;
    uint64_t since_usec; /* when the drain began to evict, as its node says */
    uint64_t now_usec;
};
/* ret_why: a static sentence, set where it is IMPOSSIBLE; ret_patch: owned, where it is RESTART. */
enum nc_replacement_answer nc_replacement_judge(const struct nc_replacement_case *c,
                                                const char **ret_why, struct nc_value **ret_patch);

#endif
