/*
 * The life of a node under notice: one pure step, events in, actions out.
 *
 * Whoever runs it carries out the actions and posts each result back as the next event. Time comes
 * with the event (N3); nothing here reads a clock, a socket or a file, and all that survives a
 * restart is in nc_life_save().
 *
 * The rules: docs/drain-rules.md, "Node".
 */
#ifndef NC_LIFECYCLE_H
#define NC_LIFECYCLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/drain-settings.h"
#include "nc/drain.h"
#include "nc/hooks.h"
#include "nc/mem.h"
#include "nc/notice.h"
#include "nc/value.h"

#define NC_LIFE_PATIENCE_USEC (5ull * 1000000)
#define NC_LIFE_GRACE_USEC (5ull * 1000000)
#define NC_LIFE_WRITE_PATIENCE_USEC (3ull * 1000000)

enum nc_life_phase {
    NC_LIFE_IDLE = 0,    /* nothing is announced, or what is announced is ignored */
    NC_LIFE_SIGNALLING,  /* the first write is in flight */
    NC_LIFE_REPORTED,    /* signalled; more is not requested (yet) */
    NC_LIFE_CORDONING,   /* the second write is in flight */
    NC_LIFE_CORDONED,    /* more is not requested (yet) */
    NC_LIFE_OBSERVING,   /* somebody else drains */
    NC_LIFE_EVICTING,    /* "Evicting", or "Forcing" once a force-delete time has come */
    NC_LIFE_VOLUME_WAIT, /* pods are gone, volumes are still attached, or the linger runs */
    NC_LIFE_DRAINED,
    NC_LIFE_RELEASING, /* what was ours is being undone */
    _NC_LIFE_PHASE_MAX
};
const char *nc_life_phase_name(enum nc_life_phase p); /* "idle", "signalling", … */

/* What is known of our own Node. */
struct nc_node_view {
    bool exists;
    bool is_complete; /* the fields below the line are known too (metadata only does not have them)
                       */
    char uid[64];
    bool is_deleting;
    uint64_t deletion_usec;
    bool has_cordon_record; /* annotation nodeclaimd.io/cordon */
    bool has_status;        /* annotation nodeclaimd.io/drain-status */
    bool has_balancers_label, is_balancers_label_ours;
    /* --- */
    bool is_unschedulable;
    bool has_disrupted_taint;
    bool is_pending_true; /* condition InterruptionPending is True */
    bool is_drained_true; /* condition Drained is True */
    size_t n_volumes;     /* volumesAttached, without those of pods that stay */
};

struct nc_life_rules {
    struct nc_drain_settings drain;
    unsigned max_in_flight;
    uint64_t seed;   /* of the instance id */
    size_t max_pods; /* that are kept; 0 = NC_DRAIN_MAX_PODS. For tests */
};

/* A write of our own Node, complete. */
enum nc_node_write_kind {
    NC_WRITE_NONE = 0,
    NC_WRITE_SIGNAL,    /* /status: InterruptionPending True, drain-status */
    NC_WRITE_CORDON,    /* merge patch: unschedulable, label, cordon record, drain-status */
    NC_WRITE_PROGRESS,  /* merge patch: drain-status */
    NC_WRITE_DRAINED,   /* /status: Drained True, drain-status */
    NC_WRITE_UNDRAINED, /* /status: Drained False, drain-status: a pod came late, or the drain ended
                         */
    NC_WRITE_RELEASE,   /* merge patch: unschedulable, label, cordon record and drain-status removed
                         */
    NC_WRITE_CLEAR_CONDITIONS, /* /status: InterruptionPending False, Drained False where they are
                                  True */
    _NC_WRITE_MAX
};
struct nc_condition {
    bool is_set; /* false: not part of the write */
    bool is_true;
    const char *reason; /* of a small fixed set; static */
    char *message;      /* owned */
};
struct nc_node_write {
    enum nc_node_write_kind kind;
    bool sets_status, sets_cordon; /* annotations; with a NULL text they are removed */
    char *drain_status;            /* compact JSON, at most 1 KiB */
    char *cordon;                  /* compact JSON {id, since} */
    int unschedulable;             /* -1 untouched, 0, 1 */
    int balancers_label;           /* -1 untouched, 0 removed, 1 ours */
    struct nc_condition pending, drained;
};
void nc_node_write_done(struct nc_node_write *w);

enum nc_life_action_kind {
    NC_LIFE_ACTION_WRITE = 1, /* one Node write: `write` */
    NC_LIFE_ACTION_POD,       /* `pod`: evict, mark or delete */
    NC_LIFE_ACTION_PODS_OPEN, /* list and watch the pods of this node, until CLOSE: questions that
                         are in flight then are answered all the same */
    NC_LIFE_ACTION_PODS_CLOSE,
    NC_LIFE_ACTION_REFRESH_NODE, /* GET our own Node: the answer is a NODE event with is_whole */
    NC_LIFE_ACTION_ANNOUNCE,     /* say it: `reason`, `message`, `is_warning`, `milestone` */
    NC_LIFE_ACTION_POD_NEWS,     /* a line of the log: `news` */
    NC_LIFE_ACTION_RELEASE_INHIBITOR, /* the shutdown may go on: give the inhibitor back */
    NC_LIFE_ACTION_START_HOOK,  /* `hook`: how it goes is a HOOK event, the first of them at once */
    NC_LIFE_ACTION_FOLLOW_HOOK, /* `hook`, which was started before this process was: likewise */
};
enum nc_life_milestone {
    NC_LIFE_MILESTONE_NOTICED = 1, /* a source became active. Event SpotInterruption, … */
    NC_LIFE_MILESTONE_WITHDRAWN,
    NC_LIFE_MILESTONE_CORDONED,
    NC_LIFE_MILESTONE_DRAINING,
    NC_LIFE_MILESTONE_INCOMPLETE, /* not every pod of the node is known; once a drain */
    NC_LIFE_MILESTONE_BLOCKED, /* a pod is blocked: names it and its budget; in 30 s at most one a
                             budget, and 16 in all; without a deadline in 30 s, 60 s, 2, 4, 8 and
                             then 10 minutes */
    NC_LIFE_MILESTONE_FORCING,
    NC_LIFE_MILESTONE_DRAINED,
    NC_LIFE_MILESTONE_FAILED, /* T has passed and pods are left */
    NC_LIFE_MILESTONE_RELEASED,
    NC_LIFE_MILESTONE_RECORDONED, /* our cordon was lifted under a deadline, and made once more */
    NC_LIFE_MILESTONE_ORPHANED,   /* the Node was deleted in the middle of a drain, which goes on */
    NC_LIFE_MILESTONE_HOOK,       /* one failed, or is not waited for any longer */
    NC_LIFE_MILESTONE_WAITING,    /* a pod waits for its replacement; once a drain */
    NC_LIFE_MILESTONE_UNREPLACED, /* one that has waited is evicted without; once a drain */
    _NC_LIFE_MILESTONE_MAX
};
struct nc_life_action {
    enum nc_life_action_kind kind;
    struct nc_node_write write;
    struct nc_drain_action pod;
    struct nc_pod_news news;
    enum nc_hook hook;
    enum nc_life_milestone milestone;
    const char *reason; /* of the Event; static: one a milestone, but NOTICED has the source's */
    bool is_warning;
    char *message; /* owned */
    char *series;  /* what is reported again and again is one Event that is counted: which; owned,
                      NULL =  it is none of these */
};
struct nc_life_actions {
    struct nc_life_action *v;
    size_t n;
};
void nc_life_actions_done(struct nc_life_actions *a);

enum nc_life_event_kind {
    NC_LIFE_START = 0, /* the first: rules are set, a saved state may have been loaded */
    NC_LIFE_RULES,     /* configuration was read again: `rules` */
    NC_LIFE_NOTICE,    /* `notice`; posting the same again changes nothing */
    NC_LIFE_CLEARED,   /* `source` was asked and announces nothing; posting it again changes nothing
                        */
    NC_LIFE_NODE,      /* `node` */
    NC_LIFE_NODE_GONE, /* it was deleted or is not there; `is_anothers`: our name belongs, or may
                          belong, to another machine, and so do the pods that are bound to it */
    NC_LIFE_POD,       /* `pod`, taken over */
    NC_LIFE_POD_UNREADABLE, /* a list or the watch shows a pod that is none */
    NC_LIFE_POD_GONE,       /* `uid` */
    NC_LIFE_PODS_SYNCED,    /* the list of pods is complete */
    NC_LIFE_WRITTEN,    /* the write in flight ended: `outcome` (and a NODE event before it, where
                           the answer brought the Node) */
    NC_LIFE_POD_ANSWER, /* `uid`, `verb`, `answer` */
    NC_LIFE_HOOK,       /* `hook`, `hook_state`: RUNNING, NONE, DONE, or FAILED with `message` */
    NC_LIFE_TICK,       /* nc_life_next() has come */
    _NC_LIFE_EVENT_MAX
};
enum nc_write_outcome { NC_WRITTEN = 1, NC_WRITE_UNAVAILABLE, NC_WRITE_REFUSED };
struct nc_life_event {
    enum nc_life_event_kind kind;
    uint64_t now_usec; /* on a clock that nobody sets; what was before this boot is above 0 */
    int64_t clock_offset_usec; /* EC2's clock less now_usec: what is dated in this event is by it */
    /* POD, POD_GONE, POD_ANSWER: others follow at once. Its own answer is given, but what is to be
     * done about it is asked with the next that has no more (a TICK will do): a question about all
     * pods, so that bursts would cost the square of their number. */
    bool more;
    const struct nc_life_rules *rules;
    const struct nc_notice *notice;
    enum nc_source source;
    const struct nc_node_view *node;
    bool is_anothers;
    struct nc_pod *pod;
    const char *uid;
    enum nc_drain_verb verb;
    const struct nc_pod_answer *answer;
    enum nc_write_outcome outcome;
    uint64_t retry_after_usec;
    enum nc_hook hook;
    enum nc_hook_state hook_state;
    const char *message;
};

struct nc_life;
struct nc_life *nc_life_new(const struct nc_life_rules *rules);
struct nc_life *nc_life_free(struct nc_life *l);

/* The step. Appends to out (borrowed pods stay valid until the next step). Every event may come in
 * every phase. */
void nc_life_step(struct nc_life *l, const struct nc_life_event *e, struct nc_life_actions *out);
/* When a TICK is wanted next, on the clock of now_usec; UINT64_MAX = none. */
uint64_t nc_life_next(const struct nc_life *l, uint64_t now_usec);

/* What must survive: active notices, phase, since when, cordon. An owned map; loading tolerates
 * what is missing or strange (returns -EBADMSG and loads nothing). After a reboot (`same_boot`
 * false) only an operator's request is kept, and what was left on the Node is undone unless it is
 * active again. Load before START. What is saved is dated by EC2's clock; `clock_offset_usec`, as
 * in an event, is for what another boot has saved, or a release that did not save its own. */
struct nc_value *nc_life_save(const struct nc_life *l);
int nc_life_load(struct nc_life *l, const struct nc_value *saved, bool same_boot,
                 int64_t clock_offset_usec);

/* For people and programs: everything that status.json's `drain` shows. Times are by EC2's clock,
 * but for those of drain_rules and of the pods, which are clock_offset_usec less. */
struct nc_life_view {
    enum nc_life_phase phase;
    const char *status_phase; /* Detected, Cordoned, Evicting, Forcing, VolumeWait, Drained, Failed;
                                 "" while idle */
    uint64_t since_usec;      /* of the phase */
    bool is_active[_NC_SOURCE_MAX];
    enum nc_policy policies[_NC_SOURCE_MAX]; /* as each counts now */
    const struct nc_notice *notices;         /* _NC_SOURCE_MAX of them */
    uint64_t noticed_usec[_NC_SOURCE_MAX];
    int leading;            /* enum nc_source, -1 = none */
    enum nc_policy policy;  /* in force */
    uint64_t deadline_usec; /* of the machine, 0 = none */
    uint64_t t_usec;        /* the force-delete time of all, 0 = none */
    bool is_ours;           /* the cordon: we made it, and it was not lifted since */
    bool is_orphaned;       /* our Node was deleted, and another one was not seen */
    uint64_t cordoned_usec, drained_usec;
    struct nc_hook_run hooks[_NC_HOOK_MAX];
    struct nc_drain_summary drain;
    struct nc_drain_rules drain_rules;
    int64_t clock_offset_usec;
};
/* now_usec is by EC2's clock. */
void nc_life_get_view(const struct nc_life *l, uint64_t now_usec, struct nc_life_view *ret);
const struct nc_drain *nc_life_drain(const struct nc_life *l);
/* Single facts of it. The notice of an active source; NULL = it is not active. */
const struct nc_notice *nc_life_notice(const struct nc_life *l, enum nc_source s);
bool nc_life_is_orphaned(const struct nc_life *l);
enum nc_hook_state nc_life_hook_state(const struct nc_life *l, enum nc_hook h);

/* A time by another clock; 0 and UINT64_MAX are none and stay. */
static inline uint64_t nc_life_shift(uint64_t usec, int64_t by_usec) {
    const uint64_t far_usec = by_usec < 0 ? -(uint64_t)by_usec : (uint64_t)by_usec;

    if (usec == 0 || usec == UINT64_MAX)
        return usec;
    if (by_usec < 0)
        return usec > far_usec ? usec - far_usec : 1;
    return usec < UINT64_MAX - far_usec ? usec + far_usec : UINT64_MAX;
}

#endif
