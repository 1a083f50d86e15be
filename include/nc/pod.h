/*
 * A pod as far as a drain cares: some 200 bytes of what may be a megabyte.
 *
 * Pure. Tiers are Karpenter's (utils/pod/scheduling.go, terminator.go), so that two drainers of one
 * node never disagree.
 */
#ifndef NC_POD_H
#define NC_POD_H

#include <stdbool.h>
#include <stdint.h>

#include "nc/err.h"
#include "nc/value.h"

/* Evicted in this order; critical means priorityClassName system-cluster-critical or
 * system-node-critical, by name. */
enum nc_tier {
    NC_TIER_PLAIN = 0,
    NC_TIER_PLAIN_DAEMON,
    NC_TIER_CRITICAL,
    NC_TIER_CRITICAL_DAEMON,
    NC_TIER_LAST, /* not Karpenter's: enum nc_pod_order */
    _NC_TIER_MAX
};

/* What its annotation nodeclaimd.io/drain-order says. */
enum nc_pod_order {
    NC_POD_ORDER_NONE = 0, /* there is none: its tier counts */
    NC_POD_ORDER_FIRST,    /* with the first tier */
    NC_POD_ORDER_LAST,     /* when all others are gone */
    NC_POD_ORDER_UNKNOWN,  /* another value: ignored */
    _NC_POD_ORDER_MAX
};
const char *nc_pod_order_name(enum nc_pod_order o); /* NULL, "first", "last" */

/* Was it put back here by the controller of a pod that the drain had ended? */
enum nc_pod_return {
    NC_POD_RETURN_NONE = 0,
    NC_POD_RETURN_EVICTED, /* of one that was evicted */
    NC_POD_RETURN_FORCED,  /* of one that was deleted at its force-delete time */
};

struct nc_pod {
    char *namespace;
    char *name;
    char *uid;
    enum nc_tier tier; /* as its order has it */
    bool is_daemon;    /* owned by a DaemonSet of any API group, its controller or not */
    bool is_mirror;    /* owned by the Node, or annotated kubernetes.io/config.mirror */
    bool is_terminal;  /* phase Succeeded or Failed */
    bool has_finalizer;
    bool has_started;      /* kubelet has taken it up: status.startTime, which only kubelet sets */
    bool is_shutdown_left; /* Failed, and its status states that a node shutdown did it */
    bool is_job;           /* its controller is a Job */
    bool tolerates_disrupted;      /* karpenter.sh/disrupted:NoSchedule */
    bool tolerates_cordon;         /* node.kubernetes.io/unschedulable:NoSchedule */
    bool has_unread_claims : 1;    /* its list of volumes was too large to be kept: no claims */
    bool is_replacement_first : 1; /* nodeclaimd.io/replacement-first: "true" */
    bool never_disrupt;            /* karpenter.sh/do-not-disrupt: "true", or a duration while it is
                                      not known when the pod started */
    enum nc_pod_order order : 4;
    enum nc_pod_return put_back : 4; /* the drain's finding, not the object's */
    uint64_t controller;             /* a sum over its controller's uid; 0 = it has none */
    uint64_t created_usec;           /* creationTimestamp; 0 = unset */
    uint64_t keep_until_usec;        /* …: a duration from status.startTime; 0 = none */
    uint64_t grace_sec;              /* terminationGracePeriodSeconds; 30 where unset */
    uint64_t deletion_usec;      /* deletionTimestamp: when its grace ends; 0 = not terminating */
    uint64_t deletion_grace_sec; /* deletionGracePeriodSeconds */
    struct nc_strv claims;       /* PersistentVolumeClaims that it mounts, by name */
};
void nc_pod_done(struct nc_pod *p);

/* The members of a Pod object that nc_pod_read checks, as NULL-terminated dotted paths: what a
 * list may be filtered down to while it streams in. Whoever writes a pod may fill it up to the
 * megabytes that the API server takes; where the value of one path is larger than any that is used
 * in earnest, it counts as unset, and a pod is never too large. */
extern const char nc_pod_paths[];
#define NC_POD_MAX_BYTES ((size_t)256 << 10) /* of all that is kept of one pod */
#define NC_POD_VALUE_MAX_BYTES ((size_t)12 << 10)

/* The pods of one node that a drain may have to move: what follows spec.nodeName=NAME in a field
 * selector, encoded. A pod that ends is DELETED in a watch with it. */
#define NC_POD_UNFINISHED "%2Cstatus.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"

/* An object of a list or a watch. What is missing or of the wrong type counts as unset; garbage in
 * do-not-disrupt counts as absent, as with Karpenter. Negative grace counts as 0. NC_ERR_PROTOCOL
 * without namespace, name and uid (each at most 253 bytes of printable ASCII, none of "/%?#", not
 * "." or ".."). At most 256 claims. */
int nc_pod_read(const struct nc_value *object, struct nc_pod *ret, struct nc_err *err);

/* What an answer to an eviction or a deletion means. */
enum nc_pod_answer_kind {
    NC_ANSWER_UNSENT = 0, /* not asked yet, the Node is read before: again after retry_after_usec */
    NC_ANSWER_ACCEPTED,   /* 200, 201 */
    NC_ANSWER_GONE,       /* 404 with the reason NotFound; 409 that tells of the uid: another pod
                             has the name */
    NC_ANSWER_BUDGET,     /* 429 with the cause DisruptionBudget */
    NC_ANSWER_BUDGETS, /* 500 that says: more than one budget covers it; only its force-delete time
                          helps */
    NC_ANSWER_BUSY,    /* 429 with Retry-After, or of no Status: the API server's own fairness; 409
                          otherwise: too many evictions below one budget at once */
    NC_ANSWER_NAMESPACE, /* 403 with the cause NamespaceTerminating */
    NC_ANSWER_REFUSED,   /* other 4xx, and whatever a policy or a webhook denies, also with 404,
                            409, 429 or 5xx */
    NC_ANSWER_FAILED,    /* 500 with a message and 404 otherwise: the server is there and cannot do
                            it: mostly a webhook that does not answer */
    NC_ANSWER_UNAVAILABLE, /* 401, other 5xx, 500 without a word, time-out, no connection */
    _NC_ANSWER_MAX
};
struct nc_pod_answer {
    enum nc_pod_answer_kind kind;
    uint64_t retry_after_usec; /* 0 = none given */
    char budget[64];           /* the PodDisruptionBudget's name, from the cause's message */
    char message[256];         /* for people: quoted, cut */
    bool is_unauthorized;      /* the authorizer says that this identity may not do it at all */
};
/* What the API server answered, or why nothing came. Texts may be NULL. */
struct nc_pod_response {
    int http; /* 0 = no answer */
    const char *reason, *cause;
    const char *message; /* of the first 4 KiB; the cause's sentence ("The disruption budget X needs
                            …") may stand anywhere in it */
    uint64_t retry_after_usec;
};
void nc_pod_answer_read(const struct nc_pod_response *r, struct nc_pod_answer *ret);
const char *nc_pod_answer_name(enum nc_pod_answer_kind k);

#endif
