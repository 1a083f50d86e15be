/*
 * How a drain keeps its pods: one record each, found by uid and walked in the order of the drain.
 *
 * drain-pods.c owns the table, verdict.c decides, drain.c acts on that, drain-summary.c reports.
 * Records do not move while they live, so a pod may be borrowed until it is replaced or removed.
 */
#ifndef NC_DRAIN_PRIV_H
#define NC_DRAIN_PRIV_H

#include "nc/drain.h"
#include "nc/time.h"

#define NC_DRAIN_DROPPED_KINDS 4
#define NC_DRAIN_FIRST_PAUSE_SEC 1 /* P11: after the first refusal by a budget */

/* Why its last eviction or deletion was refused; what is reported. */
struct refusal {
    uint64_t since_usec; /* the first of this reason */
    enum nc_pod_answer_kind kind;
    bool is_deletion; /* it was one, or one before it of this reason */
    bool is_unauthorized;
    char budget[sizeof(((struct nc_pod_answer *)NULL)->budget)];
    char message[sizeof(((struct nc_pod_answer *)NULL)->message)];
};

struct ended {
    uint64_t controller; /* or of none: its namespace */
    enum nc_pod_return as;
};

struct record {
    struct nc_pod pod;
    struct refusal *refusal;               /* owned; NULL where it was not refused the last time */
    uint64_t refused_usec;                 /* when its last eviction was; 0 = it was not */
    uint32_t pause_usec[2];                /* P11: the pause after that: without a deadline, and
                                              with the nearest one */
    uint64_t requested_usec;               /* when an eviction was requested first; 0 = never */
    uint64_t new_usec;                     /* nothing is requested before: the API server may not
                                              know of it yet */
    uint64_t evict_usec, delete_sent_usec; /* when either was requested last */
    uint64_t evicted_usec; /* when the eviction that was accepted was requested; 0 = none was */
    uint64_t deleted_usec; /* likewise the first such deletion */
    uint64_t delete_usec;  /* no deletion before: the pause after the last */
    uint64_t mark_usec;    /* when it was marked last; 0 = never */
    unsigned evictions, marks, deletions; /* how often each was requested */
    unsigned refusals;                    /* in a row, of the kind `refused` */
    unsigned grace_sec;                   /* of the last eviction or deletion; 0 = its own */
    enum nc_pod_answer_kind refused : 8;  /* what the last eviction met; 0 = nothing */
    bool is_evicting : 1, is_marking : 1, is_deleting : 1; /* questions in flight */
    bool was_eligible : 1;                                 /* in this drain */
    bool is_forced : 1;   /* a deletion was requested while it stayed */
    bool is_cut : 1;      /* its grace period was, by an eviction or deletion that was accepted */
    bool is_gone : 1;     /* said to be gone, not seen since */
    bool was_told : 1;    /* that it was evicted or deleted was reported */
    bool has_warned : 1;  /* that its order is ignored */
    bool has_hung : 1;    /* that it hangs was reported */
    bool was_kept : 1;    /* that it is kept was reported */
    bool was_slow : 1;    /* that it was overdue after its eviction was reported */
    bool was_overdue : 1; /* likewise after its grace period */
    bool is_removed : 1;  /* gone for good once nothing is in flight */
};

struct nc_drain {
    struct record **by_uid;   /* sorted by uid */
    struct record **by_order; /* sorted by tier, namespace, name, uid */
    size_t n, room, max;
    size_t n_gone;          /* of them is_gone */
    size_t in_flight;       /* evictions without an answer, also of pods that are gone by now */
    unsigned limit;         /* of them, after the server was busy; 0 = what the rules allow */
    unsigned max_requested; /* max_in_flight of the last step */
    struct nc_drain_rules last_rules; /* of the last step */
    bool is_listed;                   /* all pods were seen: who is new was bound just now */
    enum nc_list_gap gap, next_gap; /* of the last complete list and since; of the one that is read
                                       now */
    bool has_dropped[NC_DRAIN_DROPPED_KINDS]; /* excluded by rules that may change */
    struct nc_drain_summary so_far; /* what only grows: of pods that are no longer in the table;
                                       deletions; the last progress */
    struct nc_buf cut;              /* of whom the grace period was cut: names, and to what */
    struct ended *ended;            /* controllers of the pods that this drain ended */
    size_t n_ended;
    struct nc_pod_news *news; /* nc_drain_drop_news */
    size_t n_news;
};

/* The table. Found also where it is_gone. */
struct record *nc_drain_find(const struct nc_drain *d, const char *uid);
void nc_drain_remove(struct nc_drain *d, struct record *e);
/* P2: its eviction or deletion was accepted; what its controller creates here now is put back. */
void nc_drain_note_ended(struct nc_drain *d, const struct record *e, enum nc_pod_return as);
/* Notes what became of a pod; `message` is taken over. */
/* Would do-not-disrupt still keep it when it was requested to leave? */
bool nc_drain_is_kept_at_end(const struct record *e);
void nc_drain_note_news(struct nc_drain *d, enum nc_pod_news_kind kind, struct record *e,
                        char *message);
/* Once, where its order is none. */
void nc_drain_warn_of_order(struct nc_drain *d, struct record *e);
/* An eviction or a deletion by force was accepted. */
void nc_drain_note_end(struct nc_drain *d, struct record *e, enum nc_pod_news_kind kind);
/* Assume that it is deleted. */
void nc_drain_mark_absent(struct nc_drain *d, struct record *e, uint64_t now_usec);
void nc_drain_progress(struct nc_drain *d, uint64_t usec);

/* What all verdicts of one moment share. */
struct nc_moments {
    const struct nc_drain_rules *rules;
    uint64_t now_usec;
    enum nc_tier tier; /* whose turn it is: those behind wait, under a deadline not for ever */
    bool has_room;     /* for one more eviction in flight */
};
struct nc_moments nc_drain_moments(const struct nc_drain *d, const struct nc_drain_rules *r,
                                   uint64_t now_usec);
enum nc_pod_reason nc_pod_hangs_as(const struct nc_pod *p); /* FINALIZER or SILENT */
struct nc_verdict nc_drain_verdict(const struct record *e, const struct nc_moments *m);

/* Until when its first eviction, or what came of it, is waited for: it is not deleted before. */
uint64_t nc_drain_eviction_waits(const struct record *e);
/* UINT64_MAX without T. */
uint64_t nc_drain_force_delete_at(const struct nc_pod *p, uint64_t t_usec);
/* P15: of one that is leaving, when the watch should have shown more of it. */
uint64_t nc_drain_overdue_from(const struct record *e);
/* By when it must be gone, were it asked now. */
static inline uint64_t nc_drain_ends_by(const struct nc_drain_rules *r) {
    return r->late_usec > r->t_usec ? r->late_usec : r->t_usec;
}
/* The grace of a deletion, in seconds: what is left, at least 1; its own once nothing is left, as
 * nobody knows when the machine ends then. A second deletion counts from the first request: that is
 * in the pod where it is terminating; else requested_usec, where the watch has not shown yet what
 * was accepted then (0 = nothing was). */
uint64_t nc_drain_grace(const struct nc_pod *p, uint64_t requested_usec,
                        const struct nc_drain_rules *r, uint64_t now_usec);

/* A request about it is in flight. */
static inline bool nc_drain_is_requested(const struct record *e) {
    return e->is_evicting || e->is_marking || e->is_deleting;
}
/* It is on its way out: terminating, or a question that asks it to go was accepted. */
static inline bool nc_drain_is_leaving(const struct record *e) {
    return e->pod.deletion_usec || e->evicted_usec || e->deleted_usec;
}
/* Force-delete times do not wait for room: only evictions count against the budget. */
static inline unsigned nc_drain_max_requested(const struct nc_drain_rules *r) {
    if (r->max_in_flight < 1)
        return 1;
    return r->max_in_flight < NC_DRAIN_MAX_IN_FLIGHT ? r->max_in_flight : NC_DRAIN_MAX_IN_FLIGHT;
}
static inline bool nc_drain_may_request(const struct nc_drain *d, const struct nc_drain_rules *r) {
    const unsigned max = nc_drain_max_requested(r);

    return d->in_flight < (d->limit && d->limit < max ? d->limit : max);
}

#endif
