/*
 * The life of a node under notice: one pure step, events in, actions out.
 *
 * Whoever runs it carries out the actions and posts each result back as the next event. Time comes
 * with the event (N3); nothing here reads a clock, a socket or a file, and all that survives a
 * restart is in nc_lifecycle_save().
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

#define NC_LIFECYCLE_PATIENCE_USEC (5ull * 1000000)
#define NC_LIFECYCLE_GRACE_USEC (5ull * 1000000)
#define NC_LIFECYCLE_WRITE_PATIENCE_USEC (3ull * 1000000)

enum nc_lifecycle_phase {
    NC_LIFECYCLE_IDLE = 0,    /* nothing is announced, or what is announced is ignored */
    NC_LIFECYCLE_SIGNALLING,  /* the first write is in flight */
    NC_LIFECYCLE_REPORTED,    /* signalled; more is not requested (yet) */
    NC_LIFECYCLE_CORDONING,   /* the second write is in flight */
    NC_LIFECYCLE_CORDONED,    /* more is not requested (yet) */
    NC_LIFECYCLE_OBSERVING,   /* somebody else drains */
    NC_LIFECYCLE_EVICTING,    /* "Evicting", or "Forcing" once a force-delete time has come */
    NC_LIFECYCLE_VOLUME_WAIT, /* pods are gone, volumes are still attached, or the linger runs */
    NC_LIFECYCLE_DRAINED,
    NC_LIFECYCLE_RELEASING, /* what was ours is being undone */
    _NC_LIFECYCLE_PHASE_MAX
};
__attribute__((noinline)) const char *
nc_lifecycle_phase_name(enum nc_lifecycle_phase p); /* "idle", "signalling", … */

/* Conditions of a Node that Kubernetes names since 1.37 (KEP-5683), for whoever has to do with its
 * life: written in the same requests as our own, and never by a request of their own. Beside them
 * `Drained`, which is ours and theirs. Bits: 1 << enum. */
enum nc_known_condition {
    NC_KNOWN_DRAIN_IN_PROGRESS = 0,
    NC_KNOWN_MAINTENANCE_PLANNED,     /* a scheduled event that lies ahead */
    NC_KNOWN_MAINTENANCE_IN_PROGRESS, /* its time has come */
    NC_KNOWN_SHUTDOWN_IN_PROGRESS,
    _NC_KNOWN_CONDITION_MAX
};
/* Each message of ours begins so: what others have set is left alone. */
#define NC_KNOWN_CONDITION_OURS "nodeclaimd: "
#define NC_REASON_DRAINED "NodeDrained" /* of our condition Drained */

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
    bool has_disrupted_taint, has_rebooting_taint;
    bool is_pending_true;            /* condition InterruptionPending is True */
    bool is_drained_true;            /* condition Drained is True, and by us */
    bool is_drained_by_another;      /* it is True, and stays so */
    unsigned known_true, known_ours; /* of enum nc_known_condition: True; and by us */
    size_t n_volumes;                /* volumesAttached, without those of pods that stay */
    char volume[128];                /* the first of them, as far as it goes; "" = none */
};

struct nc_lifecycle_rules {
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
    NC_WRITE_UNDRAINED, /* /status: Drained and DrainInProgress False where they are True and not
                           so, drain-status: a pod came late, or the drain ended */
    NC_WRITE_RELEASE,   /* merge patch: unschedulable, label, cordon record and drain-status removed
                         */
    NC_WRITE_CLEAR_CONDITIONS, /* /status: InterruptionPending False, Drained False where they are
                                  True */
    _NC_WRITE_MAX
};
static inline bool nc_node_write_is_of_status(enum nc_node_write_kind kind) {
    return kind == NC_WRITE_SIGNAL || kind == NC_WRITE_DRAINED || kind == NC_WRITE_UNDRAINED
           || kind == NC_WRITE_CLEAR_CONDITIONS;
}
struct nc_condition {
    bool is_set; /* false: not part of the write */
    bool is_true;
    const char *reason; /* of a small fixed set; static */
    char *message;      /* owned */
    bool is_unchanged;  /* its status is so already */
};
struct nc_node_write {
    enum nc_node_write_kind kind;
    const char *uid;               /* of the Node that is meant; the lifecycle's; "" = not known */
    bool sets_status, sets_cordon; /* annotations; with a NULL text they are removed */
    char *drain_status;            /* compact JSON, at most 1 KiB */
    char *cordon;                  /* compact JSON {id, since} */
    int unschedulable;             /* -1 untouched, 0, 1 */
    int balancers_label;           /* -1 untouched, 0 removed, 1 ours */
    struct nc_condition pending, drained;
    unsigned known_set, known_true; /* which are written, and of those which are True, */
    unsigned known_unchanged;       /* and were so before */
    const char *known_reason[_NC_KNOWN_CONDITION_MAX];
    char *known_message[_NC_KNOWN_CONDITION_MAX]; /* NULL = what pending or drained says */
};
void nc_node_write_done(struct nc_node_write *w);

enum nc_lifecycle_action_kind {
    NC_LIFECYCLE_ACTION_WRITE = 1, /* one Node write: `write` */
    NC_LIFECYCLE_ACTION_POD,       /* `pod`: evict, mark or delete */
    NC_LIFECYCLE_ACTION_PODS_OPEN, /* list and watch the pods of this node, until CLOSE: questions
                         that are in flight then are answered all the same */
    NC_LIFECYCLE_ACTION_PODS_CLOSE,
    NC_LIFECYCLE_ACTION_REFRESH_NODE, /* GET our own Node: a NODE event with is_whole */
    NC_LIFECYCLE_ACTION_ANNOUNCE,     /* say it: `reason`, `message`, `is_warning`, `milestone` */
    NC_LIFECYCLE_ACTION_POD_NEWS,     /* a line of the log: `news` */
    NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR, /* the shutdown may go on: give the inhibitor back */
    NC_LIFECYCLE_ACTION_START_HOOK,  /* `hook`: how it goes is a HOOK event, the first of them at
                                        once */
    NC_LIFECYCLE_ACTION_FOLLOW_HOOK, /* `hook`, started before this process: likewise */
};
enum nc_lifecycle_milestone {
    NC_LIFECYCLE_MILESTONE_NOTICED = 1, /* a source became active. Event SpotInterruption, … */
    NC_LIFECYCLE_MILESTONE_WITHDRAWN,
    NC_LIFECYCLE_MILESTONE_CORDONED,
    NC_LIFECYCLE_MILESTONE_DRAINING,
    NC_LIFECYCLE_MILESTONE_INCOMPLETE, /* not every pod of the node is known; once a drain */
    /* A pod is blocked: names it and its budget, or that it is kept. For each of 64 budgets at
     * once, then after 30 s; where much time is left, or all, after 60 s, 2, 4, 8 and then 10
     * minutes. */
    NC_LIFECYCLE_MILESTONE_BLOCKED,
    NC_LIFECYCLE_MILESTONE_FORCING,
    NC_LIFECYCLE_MILESTONE_DRAINED,
    NC_LIFECYCLE_MILESTONE_FAILED, /* T has passed and pods are left */
    NC_LIFECYCLE_MILESTONE_RELEASED,
    NC_LIFECYCLE_MILESTONE_RECORDONED, /* our cordon was lifted, and made once more */
    NC_LIFECYCLE_MILESTONE_ORPHANED,   /* the Node was deleted; the drain goes on */
    NC_LIFECYCLE_MILESTONE_HOOK,       /* one failed, or is not waited for any longer */
    NC_LIFECYCLE_MILESTONE_WAITING,    /* a pod waits for its replacement; once a drain */
    NC_LIFECYCLE_MILESTONE_UNREPLACED, /* one that has waited is evicted without; once a drain */
    NC_LIFECYCLE_MILESTONE_UNCORDONED, /* the cordon is refused, and tried again; once a drain */
    NC_LIFECYCLE_MILESTONE_UNLABELLED, /* the load balancer label was removed; once a drain */
    _NC_LIFECYCLE_MILESTONE_MAX
};
#define NC_LIFECYCLE_HANGING "hanging" /* the series of PodsNotEnding */
struct nc_lifecycle_action {
    enum nc_lifecycle_action_kind kind;
    struct nc_node_write write;
    struct nc_drain_action pod;
    struct nc_pod_news news;
    enum nc_hook hook;
    enum nc_lifecycle_milestone milestone;
    const char *reason; /* of the Event; static: one a milestone, but NOTICED has the source's */
    bool is_warning;
    bool is_update;  /* of what its series said last: that is not counted once more */
    bool is_lasting; /* of BLOCKED: it is said for the second time; once a drain */
    char *message;   /* owned */
    char *series;    /* what is reported again and again is one Event that is counted: which; owned,
                        NULL =  it is none of these */
};
struct nc_lifecycle_actions {
    struct nc_lifecycle_action *v;
    size_t n;
};
void nc_lifecycle_actions_done(struct nc_lifecycle_actions *a);

enum nc_lifecycle_event_kind {
    NC_LIFECYCLE_START = 0, /* the first: rules are set, a saved state may have been loaded */
    NC_LIFECYCLE_RULES,     /* configuration was read again: `rules` */
    NC_LIFECYCLE_NOTICE,    /* `notice`; posting the same again changes nothing */
    NC_LIFECYCLE_CLEARED,   /* `source` announces nothing; posting it again changes nothing */
    NC_LIFECYCLE_NODE,      /* `node` */
    NC_LIFECYCLE_NODE_GONE, /* it was deleted or is not there; `is_anothers`: our name belongs, or
                          may belong, to another machine, and so do the pods that are bound to it */
    NC_LIFECYCLE_POD,       /* `pod`, taken over */
    NC_LIFECYCLE_POD_UNREADABLE, /* a list or the watch shows a pod that is none */
    NC_LIFECYCLE_POD_GONE,       /* `uid` */
    NC_LIFECYCLE_PODS_SYNCED,    /* the list of pods is complete */
    NC_LIFECYCLE_WRITTEN, /* the write in flight ended: `outcome` (and a NODE event before it, where
                        the answer brought the Node); REFUSED, and UNAVAILABLE where the API
                        server answered, with `message` */
    NC_LIFECYCLE_POD_ANSWER, /* `uid`, `verb`, `answer` */
    NC_LIFECYCLE_HOOK, /* `hook`, `hook_state`: RUNNING, NONE, DONE, or FAILED with `message` */
    NC_LIFECYCLE_TICK, /* nc_lifecycle_next() has come */
    _NC_LIFECYCLE_EVENT_MAX
};
enum nc_write_outcome { NC_WRITTEN = 1, NC_WRITE_UNAVAILABLE, NC_WRITE_REFUSED };
struct nc_lifecycle_event {
    enum nc_lifecycle_event_kind kind;
    uint64_t now_usec; /* on a clock that nobody sets; what was before this boot is above 0 */
    int64_t clock_offset_usec; /* EC2's clock less now_usec: what is dated in this event is by it */
    uint64_t away_usec;        /* by EC2's clock, since when the API server is unavailable; or 0 */
    /* POD, POD_GONE, POD_ANSWER: others follow at once. Its own answer is given, but what is to be
     * done about it is asked with the next that has no more (a TICK will do): a question about all
     * pods, so that bursts would cost the square of their number. */
    bool more;
    const struct nc_lifecycle_rules *rules;
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

struct nc_lifecycle;
struct nc_lifecycle *nc_lifecycle_new(const struct nc_lifecycle_rules *rules);
struct nc_lifecycle *nc_lifecycle_free(struct nc_lifecycle *l);

/* The step. Appends to out (borrowed pods stay valid until the next step). Every event may come in
 * every phase. */
void nc_lifecycle_step(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                       struct nc_lifecycle_actions *out);
/* When a TICK is wanted next, on the clock of now_usec; UINT64_MAX = none. */
uint64_t nc_lifecycle_next(const struct nc_lifecycle *l, uint64_t now_usec);

/* What must survive: active notices, phase, since when, cordon. An owned map; loading tolerates
 * what is missing or strange (returns -EBADMSG and loads nothing). After a reboot (`same_boot`
 * false) only an operator's request is kept, and what was left on the Node is undone unless it is
 * active again. Load before START. What is saved is dated by EC2's clock; `clock_offset_usec`, as
 * in an event, is for what another boot has saved, or a release that did not save its own. */
struct nc_value *nc_lifecycle_save(const struct nc_lifecycle *l);
int nc_lifecycle_load(struct nc_lifecycle *l, const struct nc_value *saved, bool same_boot,
                      int64_t clock_offset_usec);

/* For people and programs: everything that status.json's `drain` shows. Times are by EC2's clock,
 * but for those of drain_rules and of the pods, which are clock_offset_usec less. */
struct nc_lifecycle_view {
    enum nc_lifecycle_phase phase;
    const char *status_phase; /* Detected, Cordoned, Evicting, Forcing, VolumeWait, Drained, Failed;
                                 "" while idle */
    uint64_t since_usec;      /* of the phase, or of the failure */
    bool is_active[_NC_SOURCE_MAX];
    enum nc_policy policies[_NC_SOURCE_MAX]; /* as each counts now */
    const struct nc_notice *notices;         /* _NC_SOURCE_MAX of them */
    uint64_t noticed_usec[_NC_SOURCE_MAX];
    int leading;            /* enum nc_source, -1 = none */
    enum nc_policy policy;  /* in force */
    uint64_t deadline_usec; /* of the machine, 0 = none */
    uint64_t t_usec;        /* the force-delete time of all, 0 = none */
    bool is_put_back;       /* the request of the Node, with the id of one that was withdrawn */
    bool is_ours;           /* the cordon: we made it, and it was not lifted since */
    bool is_lifted;         /* the cordon, by somebody else, and it was not made again */
    bool is_refused;        /* the cordon, so far */
    bool is_failing;        /* the answer to it, or to what comes before it, is an error */
    bool is_unlabelled;     /* somebody else removed the load balancer label */
    bool is_orphaned;       /* our Node was deleted, and another one was not seen */
    bool is_failed;         /* the force-delete time has passed, and pods remain or may */
    size_t n_volumes;       /* that are attached once the pods are gone */
    const char *volume;     /* one of them; of the lifecycle, until its next step */
    bool is_unwatched;      /* the pods: what was ending last may still be there */
    bool is_older;          /* the drain is an earlier process's, whose counts are not known */
    bool is_unlisted;       /* a drain whose pods were not listed: their counts are not known */
    uint64_t cordoned_usec, drained_usec;
    uint64_t retry_usec; /* the release was refused, and is tried again then; 0 = it was not */
    struct nc_hook_run hooks[_NC_HOOK_MAX];
    struct nc_drain_summary drain;
    struct nc_drain_rules drain_rules;
    int64_t clock_offset_usec;
};
#define NC_LIFECYCLE_FAILED "failed"
#define NC_PUT_BACK "put back with the same id after it was withdrawn"
/* What helps where a pod does not end, and where its Node was deleted. */
#define NC_LIFECYCLE_FINALIZER_REMEDY "ask the finalizer's owner: kubectl get pod -o yaml names it"
#define NC_LIFECYCLE_SILENT_REMEDY "journalctl -u kubelet -u containerd, on the node"
#define NC_LIFECYCLE_ORPHANED_REMEDY                                                               \
    "restart kubelet to register again, without request and cordon (after nodeclaimd undrain, if " \
    "this machine requested the drain), or end the instance, and its pods with it"
/* The phase's name, or NC_LIFECYCLE_FAILED. Static. */
const char *nc_lifecycle_view_phase(const struct nc_lifecycle_view *v);
/* now_usec is by EC2's clock. */
void nc_lifecycle_get_view(const struct nc_lifecycle *l, uint64_t now_usec,
                           struct nc_lifecycle_view *ret);
const struct nc_drain *nc_lifecycle_drain(const struct nc_lifecycle *l);
/* Single facts of it. The notice of an active source; NULL = it is not active. */
__attribute__((noinline)) const struct nc_notice *nc_lifecycle_notice(const struct nc_lifecycle *l,
                                                                      enum nc_source s);
/* Likewise, and NULL where its time had passed before it was seen first: it is only reported. */
const struct nc_notice *nc_lifecycle_acted(const struct nc_lifecycle *l, enum nc_source s);
bool nc_lifecycle_is_orphaned(const struct nc_lifecycle *l);
enum nc_hook_state nc_lifecycle_hook_state(const struct nc_lifecycle *l, enum nc_hook h);

/* A time by another clock; 0 and UINT64_MAX are none and stay. */
static inline uint64_t nc_lifecycle_shift(uint64_t usec, int64_t by_usec) {
    const uint64_t far_usec = by_usec < 0 ? -(uint64_t)by_usec : (uint64_t)by_usec;

    if (usec == 0 || usec == UINT64_MAX)
        return usec;
    if (by_usec < 0)
        return usec > far_usec ? usec - far_usec : 1;
    return usec < UINT64_MAX - far_usec ? usec + far_usec : UINT64_MAX;
}

#endif
