/*
 * The life of a node, inside: what the files of the lifecycle share.
 *
 * Each event changes what is known; then nc_lifecycle_step asks what should be true now and lets
 * the next missing thing be done. Whatever waits for a moment asks nc_has_come(), which notes the
 * moment: so nc_lifecycle_next() can never forget one, nor name one that has passed. What is asked
 * changes nothing; `next_usec` is the earliest moment that anything asked so far waits for.
 */
#ifndef NC_DRAIN_LIFECYCLE_PRIV_H
#define NC_DRAIN_LIFECYCLE_PRIV_H

#include "nc/lifecycle.h"
#include "nc/time.h"

#define NC_LIFECYCLE_BUDGETS 64 /* whose blocking is remembered */

/* A source of an ending. */
struct nc_lifecycle_source {
    bool is_active, is_observed, is_announced;
    bool is_late;   /* its time has passed: EC2's, before it was acted on, drains nothing; a request
                       goes on as one without a deadline */
    bool is_held;   /* the configuration, or what it is, lets it drain nothing */
    bool has_begun; /* what was announced: its pods' graces move its begin no more */
    bool is_of_deleted; /* the Node that had it is no more */
    struct nc_notice notice;
    uint64_t noticed_usec; /* since when this ending (its id) is known */
    uint64_t window_usec;  /* from hearing of the deadline until then */
    uint64_t ends_usec;    /* the deadline, where it is so long after the notice, and no time that
                              somebody said: a clock that is set does not move it; 0 = it is */
    enum nc_policy policy; /* as it counts now; 0 = that was not asked yet */
};

/* What is in force. */
struct nc_lifecycle_in_force {
    enum nc_policy policy; /* IGNORE where nothing is active */
    int leading;
    uint64_t deadline_usec, t_usec;
    uint64_t late_usec;    /* T of who is asked only now */
    bool is_only_deletion; /* nothing else requests a drain */
    bool is_ahead;         /* a drain begins within a day: its pods are asked for their graces */
};

/* What a SIGNAL says. */
struct nc_lifecycle_signal {
    bool is_set;
    int source;
    uint64_t deadline_usec;
    uint64_t refused_usec; /* when it was, for good; 0 = it was written */
    char id[sizeof(((struct nc_notice *)NULL)->id)];
};

/* A kind of write: when it was wanted first, and how it fares. */
struct nc_lifecycle_try {
    uint64_t wanted_usec; /* 0 = is not wanted */
    uint64_t last_usec;   /* sent last; 0 = never */
    uint64_t next_usec;   /* not before */
    unsigned attempts;    /* that failed in a row */
    bool is_refused;      /* the last one was, for good */
};

struct nc_lifecycle_budget {
    char *key;
    uint64_t reported_usec;
    size_t n_others; /* that were named with the first, or counted */
    unsigned times;
    bool is_outdated; /* the deadline is another one than was said */
};

struct nc_lifecycle_hook {
    struct nc_hook_run run;
    bool is_followed; /* by this process */
};

struct nc_lifecycle {
    struct nc_lifecycle_rules rules;
    uint64_t now_usec;               /* of the last event; all moments are on its clock, but for
                                        those of notices and signals, which are EC2's */
    int64_t clock_offset_usec;       /* of the last event */
    bool is_blind;                   /* the API server is unavailable */
    uint64_t blind_usec[2];          /* or was: from and until when */
    uint64_t next_usec;              /* the earliest moment that something waits for */
    struct nc_drain_summary summary; /* of the pods, as this step found them */

    enum nc_lifecycle_phase phase;
    uint64_t since_usec;
    bool is_resuming;   /* the phase is a saved one, until the Node or its absence is seen */
    bool is_unverified; /* what was written is known from what was saved only */
    bool is_going_on;   /* the drain is an earlier process's, and that was not said yet */
    bool is_older;      /* it is: nobody knows what that one has counted */
    enum nc_lifecycle_phase held_phase; /* the saved one, until the pods are listed; IDLE = none */

    struct nc_lifecycle_source sources[_NC_SOURCE_MAX];
    struct nc_notice notices[_NC_SOURCE_MAX]; /* for nc_lifecycle_get_view */
    /* the request of the Node that was withdrawn last; it may be put back */
    char withdrawn_id[sizeof(((struct nc_notice *)NULL)->id)];
    struct nc_lifecycle_in_force in_force;
    uint64_t quiet_usec;  /* since when no cordon is requested */
    uint64_t raised_usec; /* since when one is */
    bool has_released;

    struct nc_node_view node; /* its uid stays known when the Node is gone */
    bool is_node_seen;        /* or observed to be gone */
    uint64_t orphaned_usec;   /* when our Node was deleted under us; 0 = it was not */
    uint64_t complete_usec;   /* when the lower half was seen last */
    uint64_t refresh_usec;    /* when it was requested last; 0 = never */

    enum nc_node_write_kind in_flight;
    struct nc_lifecycle_signal in_flight_signal;
    struct nc_node_write in_flight_parts; /* without its texts */
    char *in_flight_status;
    bool is_uncordoning;    /* the release that was sent last: a cordon stood */
    bool is_in_flight_void; /* it was for a Node that is no more */
    char *status;           /* what the annotation says (without `updated`); NULL = nothing */
    uint64_t said_usec;     /* when that was written; 0 = it was refused */
    bool is_main_refused;   /* the last progress was: it goes out with the status */
    uint64_t status_usec;   /* when it was sent; 0 = never */
    struct nc_lifecycle_try tries[_NC_WRITE_MAX];

    struct nc_lifecycle_signal signalled; /* written, or refused for good */
    bool is_cordon_done;                  /* it was written */
    bool is_cordoned_to_drain;            /* with all that a drain wants */
    uint64_t label_refused_usec;          /* with what else was written; 0 = it was not */
    bool is_label_lost;                   /* somebody removed it: to be set once more */
    bool is_foreign;                      /* somebody else had cordoned */
    bool has_cordoned; /* we had, or somebody in our place, and the end of that was not seen yet */
    bool was_foreign;  /* likewise somebody else, in a drain that is over */
    uint64_t pruned_usec;   /* when what somebody removed was written again; 0 = never */
    bool is_cordon_failing; /* the answer was an error last, no refusal */
    bool was_lifted;      /* somebody else lifted our cordon, or set one while it was refused: what
                             stands now is not ours */
    bool is_release_lost; /* the last got no answer: a cordon that is seen may be of before */
    uint64_t cordoned_usec; /* when that was */
    bool is_drained_done;   /* written, or refused for good */
    uint64_t drained_usec;  /* when the drain was complete; 0 = it is not */
    bool has_announced[_NC_LIFECYCLE_MILESTONE_MAX]; /* what was announced in this drain */
    struct nc_lifecycle_budget budgets[NC_LIFECYCLE_BUDGETS];

    struct nc_drain *drain;
    struct nc_drain *no_drain; /* what is shown while the pods are not watched */
    bool is_open, is_synced;   /* the pods */
    uint64_t opened_usec;      /* when the list was requested that is read now, or was read last */
    uint64_t synced_usec;
    uint64_t absent_usec;   /* when a pod was last said to be gone in an answer; 0 = never */
    struct nc_strv unseen;  /* uids that were known before the pods were listed again */
    uint64_t evicting_usec; /* when this drain came to evict; 0 = it did not */
    uint64_t empty_usec;    /* since when no eligible pod is left; 0 = there are some */
    struct nc_lifecycle_hook hooks[_NC_HOOK_MAX];
    bool is_failed;       /* the deadline has passed and pods are left */
    uint64_t failed_usec; /* since when */
    bool has_taken_over;  /* from whoever deleted the Node */
    bool has_told_cut;    /* whose grace periods this drain cuts */
};

static inline void nc_wake_at(uint64_t when_usec, uint64_t *next_usec) {
    if (when_usec < *next_usec)
        *next_usec = when_usec;
}
/* Is it that late? If not, a TICK will come then. */
static inline bool nc_has_come(uint64_t now_usec, uint64_t when_usec, uint64_t *next_usec) {
    if (when_usec > now_usec)
        nc_wake_at(when_usec, next_usec);
    return when_usec <= now_usec;
}

/* lifecycle.c */
void nc_lifecycle_enter(struct nc_lifecycle *l, enum nc_lifecycle_phase phase);
/* N3: what is dated by EC2's clock, on ours, and back. */
static inline uint64_t nc_lifecycle_own_time(const struct nc_lifecycle *l, uint64_t ec2_usec) {
    return nc_lifecycle_shift(ec2_usec, -l->clock_offset_usec);
}
static inline uint64_t nc_lifecycle_ec2_time(const struct nc_lifecycle *l, uint64_t own_usec) {
    return nc_lifecycle_shift(own_usec, l->clock_offset_usec);
}
struct nc_lifecycle_action *nc_lifecycle_add_action(struct nc_lifecycle_actions *out,
                                                    enum nc_lifecycle_action_kind kind);
/* N5, N8: without a deadline, the cordon is refused, or somebody lifted that of a request: it waits
 * for another cordon. */
bool nc_lifecycle_is_given_back(const struct nc_lifecycle *l);
bool nc_lifecycle_has_pods(enum nc_lifecycle_phase p); /* a phase in which the pods are watched */
/* The pods are watched: to be drained; only for their graces, ahead of the drain (N1). */
static inline bool nc_lifecycle_has_open_pods(const struct nc_lifecycle *l) {
    return l->is_open && nc_lifecycle_has_pods(l->phase);
}
static inline bool nc_lifecycle_looks_ahead(const struct nc_lifecycle *l) {
    return l->is_open && l->in_force.is_ahead && l->in_force.policy < NC_POLICY_DRAIN;
}
/* Are there volumes though the pods are gone? */
static inline bool nc_lifecycle_has_volumes(const struct nc_lifecycle *l) {
    return l->node.n_volumes && l->empty_usec && l->complete_usec >= l->empty_usec;
}
/* Are there pods of ours? Without a Node only those of one that was deleted under us. */
static inline bool nc_lifecycle_has_machine(const struct nc_lifecycle *l) {
    return l->node.exists || l->orphaned_usec;
}

/* An Event has said so, and it does not stand yet. */
static inline bool nc_lifecycle_is_cordon_refused(const struct nc_lifecycle *l) {
    return !l->is_cordon_done && l->has_announced[NC_LIFECYCLE_MILESTONE_UNCORDONED];
}

/* lifecycle-sources.c */
void nc_lifecycle_observe(struct nc_lifecycle *l, const struct nc_notice *n);
void nc_lifecycle_clear(struct nc_lifecycle *l, enum nc_source s, struct nc_lifecycle_actions *out);
bool nc_lifecycle_all_observed(const struct nc_lifecycle *l);
/* The moment by which the pods must be gone for this source; 0 = none. */
uint64_t nc_lifecycle_force_delete_at(const struct nc_lifecycle *l, enum nc_source s);
/* Dates the deadlines that are so long after their notice by EC2's clock as it is known now. */
void nc_lifecycle_update_deadlines(struct nc_lifecycle *l);
void nc_lifecycle_apply_policies(struct nc_lifecycle *l, uint64_t *next_usec);

/* lifecycle-phase.c */
void nc_lifecycle_update_phase(struct nc_lifecycle *l, uint64_t *next_usec);
struct nc_lifecycle_signal nc_lifecycle_wanted_signal(const struct nc_lifecycle *l);
bool nc_lifecycle_is_signalled(const struct nc_lifecycle *l);
/* SIGNAL was done, or waited for long enough. */
bool nc_lifecycle_may_cordon(const struct nc_lifecycle *l, uint64_t *next_usec);
/* By somebody else, as far as the Node was seen. */
bool nc_lifecycle_is_cordon_lifted(const struct nc_lifecycle *l);
/* The cordon stands, as far as the Node was seen since. */
bool nc_lifecycle_is_shut(const struct nc_lifecycle *l);
/* No pod is left and none comes. */
bool nc_lifecycle_is_emptied(const struct nc_lifecycle *l, uint64_t *next_usec);
bool nc_lifecycle_is_failed(const struct nc_lifecycle *l, uint64_t *next_usec);
void nc_lifecycle_release_inhibitor(struct nc_lifecycle *l, uint64_t *next_usec,
                                    struct nc_lifecycle_actions *out);

/* lifecycle-pods.c */
void nc_lifecycle_drain_rules(const struct nc_lifecycle *l, struct nc_drain_rules *ret);
void nc_lifecycle_update_summary(struct nc_lifecycle *l);
/* Of the pods that a drain would end, as far as they are known. */
uint64_t nc_lifecycle_longest_grace(const struct nc_lifecycle *l);
/* Where each pod stands. Owned array of borrowed lines. */
struct nc_drain_line *nc_lifecycle_lines(const struct nc_lifecycle *l, size_t *ret_n);
/* When the first pod is marked that is not leaving, a second before its force-delete time;
 * UINT64_MAX = there is none. */
uint64_t nc_lifecycle_first_mark_at(const struct nc_lifecycle *l);
void nc_lifecycle_open_pods(struct nc_lifecycle *l, uint64_t *next_usec,
                            struct nc_lifecycle_actions *out);
void nc_lifecycle_close_pods(struct nc_lifecycle *l, struct nc_lifecycle_actions *out);
void nc_lifecycle_see_pod(struct nc_lifecycle *l, struct nc_pod *pod);
void nc_lifecycle_synced(struct nc_lifecycle *l);
void nc_lifecycle_report_pods(struct nc_lifecycle *l,
                              struct nc_lifecycle_actions *out); /* what became of them */
void nc_lifecycle_step_pods(struct nc_lifecycle *l, uint64_t *next_usec,
                            struct nc_lifecycle_actions *out);
void nc_lifecycle_report_blocked(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                                 struct nc_lifecycle_actions *out);
/* What kept a pod where the API server was busy or unavailable; NULL for another answer. */
const char *nc_lifecycle_busy_text(enum nc_pod_answer_kind kind);
void nc_lifecycle_report_kept(struct nc_lifecycle *l, uint64_t *next_usec,
                              struct nc_lifecycle_actions *out);

/* hooks.c */
bool nc_lifecycle_is_hook_over(const struct nc_lifecycle *l, enum nc_hook h);
/* The unit of a hook that has run for ten seconds, or NULL. */
const char *nc_lifecycle_slow_hook(const struct nc_lifecycle *l);
void nc_lifecycle_limit_hooks(struct nc_lifecycle *l, uint64_t *next_usec,
                              struct nc_lifecycle_actions *out);
void nc_lifecycle_start_hooks(struct nc_lifecycle *l, uint64_t *next_usec,
                              struct nc_lifecycle_actions *out);
void nc_lifecycle_observe_hook(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                               struct nc_lifecycle_actions *out);
struct nc_value *
nc_lifecycle_save_hooks(const struct nc_lifecycle *l); /* NULL = none was started */
bool nc_lifecycle_load_hooks(const struct nc_value *v, struct nc_lifecycle *l);

/* lifecycle-state.c: a time as a decimal text; a moment, on our own clock again. */
void nc_lifecycle_set_usec(struct nc_value *v, const char *key, uint64_t usec);
bool nc_lifecycle_get_moment(const struct nc_value *v, const char *key,
                             const struct nc_lifecycle *l, uint64_t *ret);

/* lifecycle-write.c */
bool nc_lifecycle_wants_undo(const struct nc_lifecycle *l);
void nc_lifecycle_refresh_node(struct nc_lifecycle *l, uint64_t *next_usec,
                               struct nc_lifecycle_actions *out);
void nc_lifecycle_write(struct nc_lifecycle *l, uint64_t *next_usec,
                        struct nc_lifecycle_actions *out);
void nc_lifecycle_adopt(struct nc_lifecycle *l, uint64_t *next_usec,
                        struct nc_lifecycle_actions *out);
void nc_lifecycle_report_cordon_left(struct nc_lifecycle *l, struct nc_lifecycle_actions *out);

/* lifecycle-written.c */
#define NC_LIFECYCLE_REFUSED_USEC (60 * NC_SEC_USEC) /* what was refused for good waits so long */
void nc_lifecycle_written(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                          struct nc_lifecycle_actions *out);

/* lifecycle-text.c: owned texts. */
char *nc_lifecycle_status_text(const struct nc_lifecycle *l, enum nc_node_write_kind kind,
                               bool has_updated);
char *nc_lifecycle_cordon_text(const struct nc_lifecycle *l);
/* "; evicted: …, force-deleted: …", or since when that is. Owned. */
char *nc_lifecycle_counts_text(const struct nc_lifecycle *l);
/* `before`, then the name and the reason of each pod that is meant, at most NC_DRAIN_NAMES; "" =
 * none. */
typedef bool (*nc_lifecycle_pod_fn)(const struct nc_drain_line *line, uint64_t now_usec);
char *nc_lifecycle_names(const struct nc_lifecycle *l, nc_lifecycle_pod_fn is_meant,
                         const char *before);
/* A DELETE's grace is in whole seconds, rounded up, and never 0: a pod may rightly end so much
 * after T, or after it was first seen. */
#define NC_LIFECYCLE_LATE_USEC (2 * NC_SEC_USEC)
/* The counts of pods are of a list. Drained is what was found, also by the process before us: none
 * is left. */
bool nc_lifecycle_has_listed(const struct nc_lifecycle *l);
char *nc_lifecycle_drained_text(const struct nc_lifecycle *l);
bool nc_lifecycle_is_put_back(const struct nc_lifecycle *l);
char *nc_lifecycle_sentence(const struct nc_lifecycle *l, enum nc_source s);
const char *nc_lifecycle_status_phase(const struct nc_lifecycle *l,
                                      const struct nc_drain_summary *s);
/* Says it once a drain; `message` is taken over. */
void nc_lifecycle_emit_once(struct nc_lifecycle *l, enum nc_lifecycle_milestone m, char *message,
                            struct nc_lifecycle_actions *out);
void nc_lifecycle_emit(enum nc_lifecycle_milestone m, const char *reason, char *message,
                       struct nc_lifecycle_actions *out);
void nc_lifecycle_report_cordoned(struct nc_lifecycle *l, bool is_ours,
                                  struct nc_lifecycle_actions *out);
void nc_lifecycle_announce(struct nc_lifecycle *l, struct nc_lifecycle_actions *out);

#endif
