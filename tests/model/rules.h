/*
 * The rules of notices, drain and release, written down a second time: a judge that watches.
 *
 * It is told every event that the lifecycle is given, every action that comes back, and a few
 * truths of the world (what the API server made of a deletion, how a quiet world ends). What is
 * allowed it derives from what the daemon was shown, by itself: no decision of the program is asked
 * for. The first broken rule is kept, by name.
 *
 * Pods are told apart by a number that their uid carries ("uid-07").
 */
#ifndef MODEL_RULES_H
#define MODEL_RULES_H

#include "nc/lifecycle.h"

#define MODEL_MAX_PODS 48
#define SEC 1000000ull

/* A pod as the daemon was last shown it, and what it asked about it since it was started. */
struct rules_pod {
    bool is_known, is_gone; /* gone: an answer said so, and it was not shown again since */
    bool is_shown;          /* by the list that is read now, or after it */
    bool was_known;         /* shown at some time, and not shown to be gone since */
    bool is_held;           /* the same, until a whole list of a later drain does not show it */
    enum nc_tier tier;
    enum nc_pod_order order;
    char namespace[16];
    bool is_daemon, is_mirror, is_terminal, tolerates, is_bound_to_stay;
    uint64_t keep_until_usec, grace_sec, deletion_usec, deletion_grace_sec;
    bool is_eligible;    /* when it was checked last */
    uint64_t since_usec; /* shown for the first time, or anew, or in a way that changes much */

    uint64_t fresh_usec; /* bound after all were listed: not asked before */

    unsigned evicts_out, marks_out, deletes_out;
    bool is_accepted, was_evicted; /* an eviction of it was accepted, and the answer came */
    uint64_t leaving_usec; /* when the first eviction or deletion that was accepted was requested */
    uint64_t evict_usec, mark_usec, delete_usec, delete_answer_usec;
    bool is_unsure;  /* an answer got lost: it may be terminating, nobody knows since when */
    bool is_deleted; /* a deletion was accepted, and the answer came */
    uint64_t ask_after_usec[2], ask_by_usec[2]; /* the pause after a refusal: at least, at most;
                                                   without a deadline, with one */
    uint64_t answered_usec;                     /* that eviction */
    unsigned evictions;                         /* asked in this drain */
    unsigned budget_row;                        /* refusals by a budget, one after the other */
    uint64_t blurred_usec; /* until then an answer may be for a question of an earlier watch */
    enum nc_pod_answer_kind refusal;
    uint64_t evictable_usec; /* since when it should be asked; 0 = it should not */
    uint64_t awaited_usec;   /* when a DaemonSet pod before it was seen to be there last */
    uint64_t ending_usec;    /* since when its force-delete time counts; 0 = it does not */
};

/* What a daemon carries over a restart: who announces what. */
struct rules_memory {
    bool is_active[_NC_SOURCE_MAX];
    struct nc_notice notices[_NC_SOURCE_MAX];
    uint64_t noticed_usec[_NC_SOURCE_MAX];
    uint64_t left_usec[_NC_SOURCE_MAX]; /* when this deadline was heard of */
    bool is_past[_NC_SOURCE_MAX];       /* its time had passed for a minute by then */
    bool is_held[_NC_SOURCE_MAX];       /* drains are off for it */
    bool waits[_NC_SOURCE_MAX];         /* for its begin */
    bool has_begun[_NC_SOURCE_MAX];     /* a drain that was announced */
    uint64_t ends_usec[_NC_SOURCE_MAX]; /* the deadline where it is a time that is left */
    bool took_over;
    bool was_drained; /* said so in this drain: volumes that come later are not waited for */
    struct rules_hook {
        bool is_started, has_ended;
        bool may_be_over; /* some deadline was reached, be it one that was taken back */
        uint64_t started_usec;
    } hooks[_NC_HOOK_MAX];
    bool has_passed_hooks;          /* the node was drained after the second of them */
    bool is_signalled, is_cordoned; /* written, refused for good, or seen on the Node */
    char node_uid[64];              /* of the Node that was seen last */
};

struct rules {
    char broken[32]; /* the first rule that was broken; "" = none */
    char story[200]; /* how */

    struct nc_lifecycle_rules config;
    int64_t clock_off_usec; /* by this it dates what it is shown; time itself goes on by itself */
    struct rules_memory memory;
    bool is_observed[_NC_SOURCE_MAX];
    uint64_t started_usec;

    struct nc_node_view node; /* the lower half as of the last whole one */
    bool has_node, has_whole;
    bool is_orphan;  /* our Node was deleted: its pods are there all the same */
    bool was_orphan; /* in this drain: an answer to what was sent before may still show the Node */
    uint64_t complete_usec, detached_usec; /* when it came; when it had no volumes */

    enum nc_node_write_kind write; /* in flight; NC_WRITE_NONE = none */
    bool is_write_calming;
    uint64_t write_usec, progress_usec, drained_try_usec;
    char status_text[1100]; /* of the last write that was carried out, without its time */
    char pending_text[1100];
    uint64_t said_usec;                    /* when status_text was */
    uint64_t pending_usec, said_sent_usec; /* when these were sent */
    uint64_t signalled_usec, cordoned_usec, cordon_sent_usec;
    uint64_t signal_asked_usec; /* it has been due since */
    uint64_t cordon_wanted_usec, evaluated_usec;

    bool is_open, is_synced, was_synced, is_reloaded;
    uint64_t synced_usec, closed_usec, opened_usec;
    bool is_crowded; /* more pods were shown than are kept: nobody can tell which of them are */
    struct rules_pod pods[MODEL_MAX_PODS];
    unsigned evicts_out;
    uint64_t blurred_usec;
    uint64_t free_usec; /* since when no eviction is in flight */
    uint64_t moved_usec, any_moved_usec;
    uint64_t refused_usec; /* when the last cordon was; 0 = it was not */
    bool is_progress_refused;
    bool is_past_t;     /* in this drain: volumes are not waited for */
    bool has_waited;    /* under a deadline, for a write that fails: what follows goes on */
    bool took_over_now; /* and not before a restart */

    enum nc_policy in_force;
    uint64_t t_usec;
    uint64_t late_usec; /* by when a pod must end that is asked only now */
    uint64_t active_usec, drain_usec, t_since_usec; /* since when: reported, drained, this T */
    bool must_release, has_released;
    uint64_t release_by_usec;
    unsigned ticks, looks;
    uint64_t tick_second_usec, second_check_usec, blocked_usec[8];
    unsigned blocked_others[8]; /* pods named with the first then */

    bool is_shutdown; /* in truth: root has asked logind for one */
    uint64_t shutdown_usec;
};

void rules_init(struct rules *r, const struct nc_lifecycle_rules *config);
/* The daemon starts again, remembering this. */
void rules_restart(struct rules *r, const struct rules_memory *memory,
                   const struct nc_lifecycle_rules *config, uint64_t now_usec);

/* A shutdown is being prepared, or is not any more: whatever anybody says on the bus. */
void rules_shutdown(struct rules *r, bool is_on, uint64_t now_usec);

/* Before the event is stepped; then each action of it; then what is wanted next. */
void rules_event(struct rules *r, const struct nc_lifecycle_event *e);
void rules_action(struct rules *r, const struct nc_lifecycle_action *a, uint64_t now_usec);
void rules_stepped(struct rules *r, const struct nc_lifecycle_event *e, size_t n_actions,
                   uint64_t next_usec);
/* Time has passed; nothing was posted. */
void rules_watch(struct rules *r, uint64_t now_usec);

/* Could it be told when it will end? */
bool rules_is_known_to_end(const struct rules_pod *p);
/* What the API server made of a deletion of a pod that was terminating until `before_usec`. */
void rules_shortened(struct rules *r, unsigned pod, uint64_t t_usec, uint64_t before_usec,
                     uint64_t after_usec, uint64_t now_usec);

/* While Drained is written this pod is there in truth, neither excluded nor terminating, bound
 * when. */
void rules_left(struct rules *r, unsigned pod, uint64_t bound_usec);

/* How a world ended after all had been quiet for long. */
struct rules_end {
    bool is_node, is_unschedulable, is_foreign_cordon, has_record, has_status, has_our_label;
    bool is_pending, is_drained;
    bool is_held;       /* the Node is being deleted or has Karpenter's taint: the cordon stays */
    bool may_be_silent; /* writes were refused, or people meddled: what is left undone is excused */
    bool is_steady;     /* pods and volumes are as they are for long enough to be acted upon */
    size_t n_left;      /* eligible pods in truth */
    size_t n_volumes;
    uint64_t now_usec;
};
void rules_end(struct rules *r, const struct rules_end *e);

/* How far a source goes now: 0 = nothing. */
enum nc_policy rules_policy(const struct rules *r, enum nc_source s, uint64_t now_usec);
size_t rules_remaining(const struct rules *r, uint64_t now_usec);
/* Only Karpenter requests a drain: it leaves pods that tolerate its taint. */
bool rules_is_karpenters(const struct rules *r, uint64_t now_usec);
/* Whoever requests the drain; and with whoever requests it now. */
bool rules_would_drain(const struct rules *r, const struct rules_pod *p, uint64_t now_usec);
bool rules_is_eligible(const struct rules *r, const struct rules_pod *p, uint64_t now_usec);

/* When what it was shown with this date comes, as far as it can know. */
uint64_t rules_when(const struct rules *r, uint64_t dated_usec);

void rules_break(struct rules *r, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Between the files of the judge. */
void rules_judge_write(struct rules *r, const struct nc_node_write *w, uint64_t now_usec);
void rules_judge_pod(struct rules *r, const struct nc_drain_action *a, uint64_t now_usec);
void rules_open_pods(struct rules *r, uint64_t now_usec);
void rules_close_pods(struct rules *r, uint64_t now_usec);
void rules_take_pod_event(struct rules *r, const struct nc_lifecycle_event *e);
void rules_forget_refusals(struct rules *r);
/* Of a pod that is known, between these. */
bool rules_has_force_time(const struct rules *r, uint64_t after_usec, uint64_t until_usec);
void rules_watch_pods(struct rules *r, uint64_t now_usec);
void rules_refresh(struct rules *r, uint64_t now_usec);
/* Is this hook not waited for any longer? Strictly: may it be so, else must it. */
bool rules_is_hook_over(const struct rules *r, enum nc_hook h, uint64_t now_usec, bool strictly);
void rules_judge_hook(struct rules *r, enum nc_hook h, bool is_followed, uint64_t now_usec);
/* Where it is said first: a write may fail, and hooks may be set in between. */
void rules_judge_drained_hook(struct rules *r, uint64_t now_usec);
void rules_take_hook_event(struct rules *r, const struct nc_lifecycle_event *e);
void rules_watch_hooks(struct rules *r, uint64_t now_usec);
bool rules_needs_time(const struct rules *r, uint64_t now_usec); /* a pod does, to be forced */
bool rules_may_evict(const struct rules *r, uint64_t now_usec, bool strictly);
unsigned rules_pod_number(const char *uid);

#endif
