/*
 * The drain: which pod is evicted when, and what happens to those that may not.
 *
 * Pure: time is passed in, actions come out, answers come back in. Each pod is known by its uid.
 *
 * The rules: docs/drain-rules.md, "Pods".
 */
#ifndef NC_DRAIN_H
#define NC_DRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/pod.h"

struct nc_drain; /* the pods of one node, and where each stands */

struct nc_drain *nc_drain_new(void);
struct nc_drain *nc_drain_free(struct nc_drain *d);

/* What is in force now; may differ from step to step. */
struct nc_drain_rules {
    uint64_t t_usec;    /* T, by which every pod must be gone: deadline - margin; 0 = no deadline */
    uint64_t late_usec; /* until when a pod may stay that is asked only now, past its force-delete
                           time; no earlier than T */
    bool may_evict; /* false: somebody else drains and is only watched; force-delete times are kept
                       all  the same */
    bool has_disrupted_taint;
    uint64_t daemons_until_usec; /* until when later turns wait for DaemonSet pods, which that taint
                                    is to make leave; 0 = they do not */
    bool karpenter_drains;       /* nobody else does: it leaves who tolerates its taint alone */
    bool tolerating_last;        /* pods that would be left are drained last */
    uint64_t cordoned_usec;      /* 0 = not cordoned */
    uint64_t blind_usec[2];    /* from and until when nobody showed the pods; 0 = they are shown */
    uint64_t replaced_by_usec; /* until when a replacement is waited for; 0 = it is not */
    unsigned max_in_flight;    /* client budget, at least 1 */
    uint64_t seed;
};
/* P8: so long before its force-delete time a pod is marked, and evicted whatever keeps it. */
#define NC_DRAIN_MARK_AHEAD_USEC ((uint64_t)1000000)
#define NC_DRAIN_MAX_IN_FLIGHT 100 /* streams that a kube-apiserver lets one connection have */

/* A pod as a list or a watch shows it; taken over (also where it is known: it then replaces what
 * was known of it). At most NC_DRAIN_MAX_PODS are kept; beyond that -E2BIG and one is dropped: an
 * excluded pod first, then one that kubelet has not started, so that whoever may only create pods
 * cannot crowd out those that run. Where one that is not excluded was dropped, the list is
 * incomplete until a later one that was read to its end has shown every pod. */
#define NC_DRAIN_MAX_PODS 4096
int nc_drain_see(struct nc_drain *d, struct nc_pod *pod, uint64_t now_usec);
/* There is a pod of which nothing else is known, for it could not be read. */
void nc_drain_miss(struct nc_drain *d);
/* A list begins, which will show every pod. */
void nc_drain_begin_list(struct nc_drain *d);
/* All pods that there are were shown: one that is new from now on was bound just now. */
void nc_drain_listed(struct nc_drain *d);
/* For tests: another number in place of NC_DRAIN_MAX_PODS. */
void nc_drain_set_max(struct nc_drain *d, size_t max_pods);

/* Why not every pod of the node is known. */
enum nc_list_gap {
    NC_LIST_COMPLETE = 0,
    NC_LIST_TOO_MANY,   /* more than NC_DRAIN_MAX_PODS */
    NC_LIST_UNREADABLE, /* one that is none */
    _NC_LIST_GAP_MAX
};
const char *nc_list_gap_name(enum nc_list_gap g); /* "", "TooManyPods", "UnreadablePod" */
enum nc_list_gap nc_drain_gap(const struct nc_drain *d, const struct nc_drain_rules *r);
/* For one more pod that is not excluded, where so many remain? */
bool nc_drain_has_room(const struct nc_drain *d, size_t remaining);
/* It is no longer there. */
void nc_drain_gone(struct nc_drain *d, const char *uid, uint64_t now_usec);

enum nc_drain_verb { NC_DRAIN_EVICT = 1, NC_DRAIN_MARK, NC_DRAIN_DELETE };
const char *nc_drain_verb_name(enum nc_drain_verb v); /* NULL, "evict", "mark", "delete" */

/* Why a pod is not evicted: identifier, as what it is counted, its name, its text. A
 * blocked one was refused the last time (not by a server that is busy or away), and stays so until
 * an eviction is accepted. */
#define NC_POD_REASONS(R)                                                                          \
    R(NONE, PENDING, "none", "is evicted now")                                                     \
    R(TERMINAL, EXCLUDED, "terminal", "has ended")                                                 \
    R(MIRROR, EXCLUDED, "mirror", "mirror pod of kubelet")                                         \
    R(TOLERATES, EXCLUDED, "tolerating", "tolerates the disruption taint")                         \
    R(DAEMON, EXCLUDED, "daemonset", "its DaemonSet would put it back")                            \
    R(PUT_BACK, EXCLUDED, "put-back", "it is put back on this node")                               \
    R(STUCK, EXCLUDED, "stuck", "should have ended more than a minute ago")                        \
    R(GONE, GONE, "gone", "was deleted")                                                           \
    R(TERMINATING, LEAVING, "terminating", "terminating, its grace period runs")                   \
    R(FINALIZER, LEAVING, "finalizer", "has ended, a finalizer holds it")                          \
    R(SILENT, LEAVING, "kubelet", "its grace period is over, kubelet has not reported its end")    \
    R(LATE, LEAVING, "late", "terminating beyond the force-delete time")                           \
    R(EVICTED, LEAVING, "evicted", "not yet terminating")                                          \
    R(DELETED, LEAVING, "deleted", "not yet terminating")                                          \
    R(KEPT, KEPT, "do-not-disrupt", "kept by do-not-disrupt")                                      \
    R(REPLACEMENT, WAITING, "replacement", "waits for its replacement")                            \
    R(BUDGET, BLOCKED, "budget", "blocked by a PodDisruptionBudget")                               \
    R(BUDGETS, BLOCKED, "budgets", "blocked by more than one PodDisruptionBudget")                 \
    R(NAMESPACE, BLOCKED, "namespace", "its namespace is terminating")                             \
    R(REFUSED, BLOCKED, "refused", "refused by an authorizer, a policy or a webhook")              \
    R(FAILED, BLOCKED, "failed", "the API server failed to evict it")                              \
    R(UNDELETED, BLOCKED, "deletion", "its deletion is refused or fails")                          \
    R(REQUESTED, PENDING, "requested", "its eviction is requested")                                \
    R(FORCED, PENDING, "force-delete", "its force-delete time has come")                           \
    R(NOT_BEGUN, PENDING, "not-begun", "nodeclaimd evicts no pods yet")                            \
    R(RETURNED, PENDING, "put-back", "it is put back on this node")                                \
    R(KARPENTER, PENDING, "karpenter", "left to Karpenter until its force-delete time")            \
    R(BUSY, PENDING, "busy", "in back-off after 429")                                              \
    R(UNAVAILABLE, PENDING, "unavailable", "in back-off, the API server did not answer")           \
    R(TIER, PENDING, "tier", "waits for an earlier tier")                                          \
    R(NEW, PENDING, "new", "bound a moment ago")                                                   \
    R(IN_FLIGHT, PENDING, "in-flight", "waits for the evictions in flight")

enum nc_pod_reason {
#define NC_POD_REASON_ID(id, ...) NC_POD_REASON_##id,
    NC_POD_REASONS(NC_POD_REASON_ID)
#undef NC_POD_REASON_ID
        _NC_POD_REASON_MAX,
    _NC_POD_REASON_EXCLUDED_MAX = NC_POD_REASON_STUCK + 1
};
/* As what a pod is counted. */
enum nc_reason_kind {
    NC_REASON_KIND_GONE = 0, /* said to be, and not seen since */
    NC_REASON_KIND_EXCLUDED, /* not touched, in no way; those that follow are eligible */
    NC_REASON_KIND_LEAVING,
    NC_REASON_KIND_PENDING, /* evicted in a moment, or when its turn comes */
    NC_REASON_KIND_BLOCKED,
    NC_REASON_KIND_KEPT,
    NC_REASON_KIND_WAITING
};
const char *nc_pod_reason_name(enum nc_pod_reason r); /* "budget", "tier", … */
const char *nc_pod_reason_text(enum nc_pod_reason r); /* "blocked by a PodDisruptionBudget", … */
enum nc_reason_kind nc_pod_reason_kind(enum nc_pod_reason r);
/* Is it named wherever the drain is reported? The drain waits for it, or ends without it. */
bool nc_pod_reason_is_named(enum nc_pod_reason r);

/* What is decided about one pod. */
struct nc_verdict {
    enum nc_drain_verb verb; /* what is requested next; 0 = nothing, unless something happens */
    uint64_t at_usec;        /* when: due once it has come; UINT64_MAX = only an event helps */
    uint64_t changes_usec;   /* when it is another by itself; UINT64_MAX = never */
    enum nc_pod_reason reason;
    bool is_by_force; /* the verb is the force-delete time's */
};

/* For a pod of which nothing but this is known: is it excluded, and why? NONE, or one of the
 * excluded. */
enum nc_pod_reason nc_pod_excluded(const struct nc_pod *p, const struct nc_drain_rules *r,
                                   uint64_t now_usec);
/* Its turn, by annotation, tolerating_last and tier. */
enum nc_tier nc_pod_turn(const struct nc_pod *p, const struct nc_drain_rules *r);
/* Is the do-not-disrupt annotation in force now? */
bool nc_pod_is_kept(const struct nc_pod *p, uint64_t now_usec);

struct nc_drain_action {
    enum nc_drain_verb verb;
    const struct nc_pod *pod; /* borrowed until the next call that changes the drain */
    uint64_t grace_sec; /* of DELETE; of EVICT where less is left than the pod's own, else 0 */
    unsigned attempt;   /* from 1, of this verb for this pod */
};
/* What is due now, at most `room` of them; each counts as in flight until it is answered. Returns
 * how many; where it is `room`, call again. */
size_t nc_drain_step(struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                     struct nc_drain_action *ret, size_t room);
/* Every action is answered once, UNAVAILABLE included. An answer for a pod that is not known any
 * more is dropped. */
struct nc_drain_reply {
    const char *uid;
    enum nc_drain_verb verb;
    const struct nc_pod_answer *answer;
    uint64_t seed, now_usec;
};
void nc_drain_answer(struct nc_drain *d, const struct nc_drain_reply *reply);
/* When nc_drain_step has something to do next: may be in the past; UINT64_MAX = only an event
 * helps.
 */
uint64_t nc_drain_next(const struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec);

/* What became of a pod: a line of the log each. A refusal is news once for each budget, or each
 * other reason, that a pod meets; a server that is busy or away is none. */
enum nc_pod_news_kind {
    NC_POD_NEWS_EVICTED = 1, /* the API server has accepted its eviction */
    NC_POD_NEWS_REFUSED,
    NC_POD_NEWS_FORCED, /* its deletion by force was accepted */
    NC_POD_NEWS_GONE,
    NC_POD_NEWS_OVERDUE,       /* the watch should have shown more of it by now: it may hang */
    NC_POD_NEWS_HANGS,         /* its grace period is over, and it is still there */
    NC_POD_NEWS_KEPT,          /* by do-not-disrupt: it is not evicted */
    NC_POD_NEWS_ORDER_IGNORED, /* its annotation nodeclaimd.io/drain-order is neither */
    _NC_POD_NEWS_MAX
};
struct nc_pod_news {
    enum nc_pod_news_kind kind;
    bool is_first;  /* of EVICTED and FORCED: neither was reported of this pod before */
    bool is_kept;   /* of the same: do-not-disrupt would still keep it, were it not for T */
    char grace[64]; /* of the same: " with 19 of 60 s" where its grace period is cut; else "" */
    char *namespace, *name, *uid, *message; /* owned */
};
#define NC_POD_KEPT_TEXT "; karpenter.sh/do-not-disrupt ends at the deadline"
void nc_pod_news_done(struct nc_pod_news *n);
/* What there is since it was asked last; NULL where that is nothing. An owned array of owned
 * news. */
struct nc_pod_news *nc_drain_drop_news(struct nc_drain *d, size_t *ret_n);

struct nc_drain_summary {
    size_t total;       /* eligible pods seen in this drain, those that are gone included */
    size_t remaining;   /* eligible pods still there (kept and blocked ones too; not the stuck) */
    size_t leaving;     /* of them: terminating, or their eviction was accepted; none that hangs */
    uint64_t ends_usec; /* when the grace of the last of those is over; 0 = of none it is known */
    size_t kept;        /* of them: held by do-not-disrupt, force-delete time not reached */
    size_t blocked;     /* of them: refused the last time they were asked (not by a busy or absent
                           server), neither leaving nor kept nor waiting; or they hang (P15) */
    size_t hanging;     /* of the blocked */
    size_t waiting;     /* of them: for their replacement, neither leaving nor kept */
    size_t named;       /* whose reason is named */
    size_t excluded[_NC_POD_REASON_EXCLUDED_MAX]; /* pods not touched, by reason; [NONE] is 0 */
    size_t deleted;              /* how many were deleted at their force-delete time so far */
    size_t cut;                  /* of how many the grace period was cut by either so far */
    size_t evicted;              /* how many left by an eviction that was accepted */
    uint64_t last_progress_usec; /* a pod began to leave, or left; 0 = never */
    bool is_forcing;             /* the force-delete time of a pod that is not leaving has come */
    enum nc_list_gap gap;        /* where it is set, there are more pods than are counted here */
};
void nc_drain_summarize(const struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                        struct nc_drain_summary *ret);

/* Where each pod stands, for `drain --dry-run`, status.json and messages; in the order in which
 * they would be asked: tier, then namespace and name. */
struct nc_drain_line {
    const struct nc_pod *pod; /* borrowed */
    enum nc_tier turn;        /* its tier, or last by the rules */
    struct nc_verdict verdict;
    uint64_t force_delete_at_usec;       /* 0 = no deadline */
    const char *budget;                  /* "" or the budget that blocks it; borrowed */
    const char *message;                 /* of the last refusal; borrowed */
    const char *remedy;                  /* of that, where it is known; else NULL */
    uint64_t evicted_usec, deleted_usec; /* when what was accepted was requested; 0 = nothing was */
    bool is_forced;                      /* its force-delete time has come, and it is not leaving */
    uint64_t grace_sec;  /* of that: what a deletion would have now; of one that was requested to
                            leave with less than its own: that; else 0 */
    uint64_t since_usec; /* when it was refused first, or its grace period ended; 0 = unset */
    unsigned busy;       /* evictions in a row that the server had no time for */
    enum nc_pod_answer_kind busy_as; /* the last of these: BUSY or UNAVAILABLE */
};
/* What helps where a pod is kept without end, by its reason's name (NULL: unknown). Static. */
const char *nc_drain_remedy(const char *reason);
/* What holds a pod that is stuck; of any other its reason. */
enum nc_pod_reason nc_drain_held_as(const struct nc_drain_line *line);
size_t nc_drain_count(const struct nc_drain *d); /* pods known now, excluded ones too */
/* A line for each, in their order. Owned. */
struct nc_drain_line *nc_drain_lines(const struct nc_drain *d, const struct nc_drain_rules *r,
                                     uint64_t now_usec, size_t *ret_n);

/* ", grace period cut: NAMESPACE/NAME with 3 of 30 s, …" of five pods at most, with how many there
 * are beside them; nothing of none. */
void nc_drain_put_cut(const struct nc_drain *d, struct nc_buf *out);
/* So many pods are named at most; behind them, how many more there are of n. */
#define NC_DRAIN_NAMES 5
void nc_drain_put_more(struct nc_buf *names, size_t n);

/* A new drain begins: forgets refusals and counts, keeps the pods. */
void nc_drain_restart(struct nc_drain *d);

#endif
