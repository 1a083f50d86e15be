/*
 * `signal: self` on the wire: what a node asks about its own NodeClaim, and the two writes of it.
 */
#ifndef NC_KUBE_SELF_H
#define NC_KUBE_SELF_H

#include "nc/kube.h"
#include "nc/self-signal.h"

/* Which NodeClaim is ours; until this is said, and after it is said with NULLs, none may be written
 * to. Copied. `api` is "karpenter.sh/v1". */
void nc_kube_own_claim(struct nc_kube *k, const char *api, const char *name, const char *uid);

enum nc_self_question {
    NC_SELF_READ = 1,    /* GET */
    NC_SELF_TRY_FOREIGN, /* dry run: an annotation that no node may add */
    NC_SELF_TRY_STAMP,   /* dry run: the termination time */
    NC_SELF_DO_STAMP,
    NC_SELF_DO_DELETE, /* with the uid as precondition */
};
struct nc_self_asked {
    enum nc_self_answer answer;
    bool is_ours, is_deleting, has_time; /* of READ: status.nodeName is `node` */
    const struct nc_err *err;
};
typedef void (*nc_self_asked_fn)(void *userdata, enum nc_self_question q,
                                 const struct nc_self_asked *a);
/* `time_usec` is rounded down to the second; `node` is read during the call only. `done` is called
 * once unless the request is cancelled. */
int nc_self_ask(struct nc_kube *k, enum nc_self_question q, const char *node, uint64_t time_usec,
                uint64_t timeout_usec, nc_self_asked_fn done, void *userdata,
                struct nc_kube_req **ret, struct nc_err *err);

#endif
