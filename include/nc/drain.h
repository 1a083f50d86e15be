/*
 * The drain: which pod is evicted when, and what happens to those that may not.
 *
 * Pure: time is passed in, actions come out, answers come back in. Each pod is known by its uid.
 *
 * The rules, in the words that the tests use (T is the moment by which every pod must be gone, that
 * is deadline - margin; without a deadline there is no T):
 *  - Excluded pods (nc/pod.h) are never touched, in no way.
 *  - A pod that tolerates the disrupted taint and is no DaemonSet's is one like the others, but
 *    where Karpenter drains: there it is excluded without T, and with T not evicted before its last
 *    moment. Without T, one that was bound late is not touched for 30 s: its controller may put it
 *    back on a cordoned node again and again.
 *  - Graceful: a pod is evicted where its tier's turn has come, it is not terminating, not kept by
 * do-not-disrupt, its last refusal's pause is over, and fewer than max_in_flight evictions are
 * in flight. With T: only before its force-delete time. Where there is not room for all, the next
 * is of the namespace that has the fewest evictions in flight in this tier, and there the one that
 * has been due for longest.
 *  - A pod with nodeclaimd.io/replacement-first is not evicted before replaced_by_usec: until then
 *    the one that replaces it is waited for, and its owner deletes it. Its force-delete time is
 * kept all the same.
 *  - Turn: without T a pod holds up the tiers behind its own for as long as it is eligible. With T
 *    it does not while it is kept or waits for its replacement, once it was refused (BUSY and AWAY
 *    are no refusals of the pod), nor beyond 10 s after it was asked first, or its deletion was:
 *    nobody's budget is broken because somebody else's holds.
 *  - Last (annotation, or tolerating_last): its turn comes when no other eligible pod is there that
 *    is not last, whatever T; its force-delete time is as any pod's.
 *  - Force-delete time: T - grace of the pod. One second ahead of it, or at once where that is
 * over, whatever its tier, budget or annotation, and however many questions are in flight: where no
 *    EVICT was asked in this drain, that first, with the grace that DELETE would have; then a MARK
 *    (condition DisruptionTarget, so that Jobs count it as a disruption; but where an eviction was
 *    accepted, which has set it); and at the moment
 *    DELETE with grace = the time that is left until T, rounded up to seconds, never less than 1
 *    and never more than the pod's own (1 where that is 0). MARK waits for the first EVICT, and
 *    DELETE for the mark's answer, but neither beyond one second.
 *  - A pod that is terminating already and would end after T (by more than a second) is
 *    shortened: the API server counts a second DELETE's grace from the first request, so what is
 *    sent is (now - (deletion_usec - deletion_grace)) + the time left, in whole seconds, rounded
 *    up. Where an eviction or a deletion was accepted and the watch does not show it yet, it is
 *    counted from that acceptance (and is never more than the pod's own).
 *  - An eviction that was accepted is never asked again; nor is one for a pod that is
 *    terminating.
 *  - Refusals: BUDGET 1, 2, 3, 5 s, without T on to 10, 20, 30 s; BUDGETS 30 s; BUSY Retry-After
 * (at most 10 s) or 1 s; NAMESPACE 5 s, without T on to 10, 20, 30 s; REFUSED 1, 5, 10 s, without T
 *    on to 30 s; FAILED and AWAY 0.5 s doubling to 5 s, without T to 30 s. Each minus up to a
 * quarter, by the seed and the uid, but for a Retry-After. BUSY and AWAY also halve the number of
 * evictions in flight, down to 8 (it grows by one with each acceptance). DELETE is tried again
 *    after 0.2 s doubling to 1 s, whatever the answer.
 *  - GONE is trusted until the pod is seen again; then it counts as new, after a second. Not of a
 *    mark: the DELETE that follows it reports it.
 *  - A pod that appears after all were listed was bound a moment ago: the API server's admission
 *    may not know of it yet, and would refuse. It is not touched for half a second.
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
    uint64_t t_usec; /* T; 0 = no deadline */
    bool may_evict;  /* false: somebody else drains and is only watched; force-delete times are kept
                        all  the same */
    bool has_disrupted_taint;
    bool leaves_tolerating;    /* Karpenter drains, and leaves who tolerates its taint alone */
    bool tolerating_last;      /* pods that would be left are drained last */
    uint64_t cordoned_usec;    /* 0 = not cordoned */
    uint64_t replaced_by_usec; /* until when a replacement is waited for; 0 = it is not */
    unsigned max_in_flight;    /* client budget, at least 1 */
    uint64_t seed;
};
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
/* Every action is answered once, AWAY included. An answer for a pod that is not known any more is
 * dropped. */
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
    NC_POD_NEWS_ORDER_IGNORED, /* its annotation nodeclaimd.io/drain-order is neither */
    _NC_POD_NEWS_MAX
};
struct nc_pod_news {
    enum nc_pod_news_kind kind;
    bool is_first; /* of EVICTED and FORCED: neither was reported of this pod before */
    char *namespace, *name, *uid, *message; /* owned */
};
void nc_pod_news_done(struct nc_pod_news *n);
/* What there is since it was asked last; NULL where that is nothing. An owned array of owned
 * news. */
struct nc_pod_news *nc_drain_drop_news(struct nc_drain *d, size_t *ret_n);

struct nc_drain_summary {
    size_t total;     /* eligible pods seen in this drain, those that are gone included */
    size_t remaining; /* eligible pods still there (kept and blocked ones too; not the stuck) */
    size_t leaving;   /* of them: terminating, or their eviction was accepted */
    size_t kept;      /* of them: held by do-not-disrupt, force-delete time not reached */
    size_t blocked;   /* of them: refused the last time they were asked (not by a busy or absent
                         server), neither leaving nor kept nor waiting */
    size_t waiting;   /* of them: for their replacement, neither leaving nor kept */
    size_t excluded[_NC_POD_EXCLUDED_MAX]; /* pods not touched, by reason; [ELIGIBLE] is 0 */
    size_t deleted;              /* how many were deleted at their force-delete time so far */
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
    enum nc_pod_excluded excluded;
    bool is_kept, is_leaving, is_blocked, is_waiting;
    uint64_t force_delete_at_usec; /* 0 = no deadline */
    const char *budget;            /* "" or the budget that blocks it; borrowed */
    const char *message;           /* of the last refusal; borrowed */
};
size_t nc_drain_count(const struct nc_drain *d); /* pods known now, excluded ones too */
/* Fills at most `room` lines; returns how many. */
size_t nc_drain_lines(const struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                      struct nc_drain_line *ret, size_t room);

/* A new drain begins: forgets refusals and counts, keeps the pods. */
void nc_drain_restart(struct nc_drain *d);

#endif
