/*
 * What the daemon has in the cluster: its session with the API server, its NodeClaim, its Node, a
 * condition on that, the pods of the Node, and their Events. Each is a part of struct nc_daemon,
 * and its functions take the daemon.
 */
#ifndef NC_DAEMON_CLUSTER_H
#define NC_DAEMON_CLUSTER_H

#include <systemd/sd-event.h>

#include "connect.h"
#include "nc/daemon-metrics.h"
#include "nc/fit.h"
#include "nc/kube-drain.h"
#include "nc/lifecycle.h"

struct nc_daemon;
struct nc_watch;
struct nc_target;

/* api-session.c. The connection to the API server for as long as the node lives, as a step machine:
 * a kubeconfig that may appear later, the first token, who we are, then watches; credentials that
 * are replaced, tokens that end, a server that no longer accepts us. Each step has a time limit of
 * its own and ends in a callback from the loop. */

/* Which file it was: rotation replaces it. */
struct nc_file_mark {
    uint64_t device, inode, mtime_nsec;
};

enum nc_api_session_step {
    NC_SESSION_DOWN = 0,
    /* A kubeconfig that was waited for is there: who wrote it knew more than we do. Facts and
     * configuration are read first, and nothing is opened before nc_api_session_resume(). */
    NC_SESSION_HELD,
    NC_SESSION_TOKEN,    /* the first token is being made */
    NC_SESSION_IDENTITY, /* the API server is asked who we are */
    NC_SESSION_UP,
};

enum nc_obstacle {
    NC_OBSTACLE_PODS, /* they cannot be listed */
    NC_OBSTACLE_NODE, /* it is another machine's, or a write of it was refused for good */
    _NC_OBSTACLE_MAX
};

struct nc_api_session {
    enum nc_api_session_step step;
    struct nc_connection connection;
    struct nc_identity_call identity;
    sd_event_source *timer;
    bool is_closed;

    bool has_answered;     /* the API server, whatever it said, the last time */
    struct nc_err error;   /* the last failure; class NONE while it is well */
    uint64_t failing_usec; /* since when it is not, on EC2's clock */
    struct {
        uint64_t hash, until_usec;
    } said[4];     /* messages of answers that were said, each until then not again */
    char *lasting; /* why, as was said while a drain waits for it; NULL = it was not */
    struct nc_err obstacles[_NC_OBSTACLE_MAX]; /* the success of other requests ends none */
    enum nc_api_state waits; /* for what a connection needs; NC_API_CONNECTING = for nothing */
    bool has_waited;         /* for a kubeconfig: see NC_SESSION_HELD */
    bool wants_reconnect;    /* who we are is no longer accepted */
    unsigned refusals;       /* 401s in a row */

    uint64_t connect_after_usec, renew_after_usec, files_after_usec; /* CLOCK_MONOTONIC */
    struct nc_file_mark files[2]; /* kubeconfig, client certificate: as they were connected with */
};

/* Begins; the first step is made in the loop. The struct may be used as soon as it is zero. */
int nc_api_session_open(struct nc_daemon *d, struct nc_err *err);
void nc_api_session_close(struct nc_daemon *d);

static inline bool nc_api_session_is_up(const struct nc_api_session *s) {
    return s->step == NC_SESSION_UP;
}

void nc_api_session_resume(struct nc_daemon *d); /* after NC_SESSION_HELD */
/* The kubeconfig may be another one, or the daemon is busy now: whether it was replaced is checked
 * soon, or at once. */
void nc_api_session_check_soon(struct nc_daemon *d);
void nc_api_session_check_now(struct nc_daemon *d);

/* A failure or a success of a request: counted, kept in `error`, logged when it changes. A 401 that
 * comes back requests a new connection. */
void nc_api_session_failed(struct nc_daemon *d, const struct nc_err *err);
void nc_api_session_well(struct nc_daemon *d);
void nc_api_session_on_well(void *daemon); /* the same, of a watch */
void nc_api_session_on_failed(void *daemon, const struct nc_kube_status *status,
                              const struct nc_err *err); /* that of a watch, which is counted */
void nc_api_session_note_obstacle(struct nc_daemon *d, enum nc_obstacle which,
                                  const struct nc_err *err); /* NULL: it is none any more */
/* How it stands; *ret_err is the reason, NULL where there is none. */
enum nc_api_state nc_api_session_state(const struct nc_api_session *s,
                                       const struct nc_err **ret_err);
#define NC_SHORT_OUTAGE_USEC 5000000u /* what is shorter holds up no drain, and is not said */
/* Since when it does nothing for this node, on EC2's clock; 0 = it does, or it was never there. */
uint64_t nc_api_session_away_usec(const struct nc_api_session *s);

/* own-claim.c. Our own NodeClaim: its name in the Node's ownerReferences, its watch, what it states
 * of its end. */
struct nc_claim_watch {
    struct nc_watch *watch;
    sd_event_source *timer; /* access may be granted later */
    uint64_t after_usec;    /* monotonic: not opened before */
    char *name, *uid;       /* of the Node's ownerReference; NULL = none */
    char *api;              /* "karpenter.sh/v1" */
    uint64_t t_usec;        /* its termination timestamp; 0 = none */
    char *copy;             /* the Node's annotation termination-deadline as last read */
    uint64_t copy_usec;     /* the earliest that it stated; 0 = none */
    bool is_deleting;
    bool is_known; /* it was requested, whatever the answer */
    unsigned failures;
};

/* Reads the owner, and the copy of its time, in the Node's metadata. */
void nc_claim_watch_own(struct nc_daemon *d, const struct nc_value *metadata);
/* Opens the watch, where the name is known and it may be read. */
void nc_claim_watch_open(struct nc_daemon *d);
/* Is there one that is to be read, and was not yet? */
bool nc_claim_watch_is_pending(const struct nc_daemon *d);
/* By when every pod must be gone where it is being deleted: the earlier one of what it states
 * itself and of the copy; 0 = none. */
uint64_t nc_claim_watch_time(const struct nc_daemon *d);
void nc_claim_watch_close(struct nc_daemon *d);
void nc_claim_watch_done(struct nc_daemon *d); /* forgets which it was */

/* own-node.c. Our own Node: its watch, what is known of it, the call in flight. Gives the events
 * NODE and NODE_GONE. */
struct nc_own_node {
    struct nc_watch *watch;
    struct nc_node_view view;
    struct nc_kube_req *write, *refresh;
    uint64_t write_usec, refresh_usec; /* monotonic: begun */
    unsigned unanswered;               /* of those in a row, at most 3: how patient the next is */
    enum nc_node_write_kind write_kind, refused_kind;
    sd_event_source *refresh_timer;
    bool is_synced;  /* the watch has shown what there is */
    bool is_listed;  /* and our Node was there */
    bool is_known;   /* a complete object was seen of this uid: it is ours, or it is foreign */
    bool is_foreign; /* the Node of our name belongs to another instance */
    bool is_doubted; /* it does not state whose it is, and another machine may have made it */
    bool is_unread;  /* of a cluster that may be another one: nothing is written or evicted */
    bool is_refresh_wanted; /* by the lifecycle: not only because something changed */
    bool is_stale; /* there was an outage since it was read: what it requests may be withdrawn */
    uint64_t read_usec;    /* monotonic: a complete object came, or that there is none */
    char *version;         /* resourceVersion of the last complete object */
    char *watch_version;   /* … and as the watch last had it */
    char *pool;            /* its NodePool; NULL = none is known */
    char *request;         /* the drain-request annotation as last read; NULL = none */
    char *request_refused; /* why it is not taken; NULL = it is, or there is none */
    uint64_t refused_usec; /* monotonic: when what was said is long enough ago */
};

/* Opens the watch (and the NodeClaim's where its name is known). What is in flight is answered
 * UNAVAILABLE by _close; _done forgets what is known. */
int nc_own_node_open(struct nc_daemon *d, struct nc_err *err);
void nc_own_node_close(struct nc_daemon *d);
void nc_own_node_done(struct nc_daemon *d);
void nc_own_node_write(struct nc_daemon *d, const struct nc_node_write *w);
/* What the lifecycle does not write: `call` has its words, and what is to be done once it is
 * answered, or at once where it cannot be sent; that is given the daemon, and begins with
 * nc_own_node_note_patched. `body` is the patch, which is made one of our Node alone. */
void nc_own_node_patch_status(struct nc_daemon *d, struct nc_kube_call call, struct nc_value *body,
                              struct nc_kube_req **ret);
/* Whether it was refused for good. Where another one is the Node by now it was not, and that one is
 * read. */
bool nc_own_node_note_patched(struct nc_daemon *d, const struct nc_kube_status *status);
/* GETs the Node, now or as soon as a second has passed since the last time. */
void nc_own_node_refresh(struct nc_daemon *d);
/* After the phase has changed: GETs it where a drain waits for a Node that is not known yet, until
 * there is an answer. */
void nc_own_node_check(struct nc_daemon *d);
/* It may be another one by now: whose it is is to be read first. */
void nc_own_node_reread(struct nc_daemon *d);
/* False where a drain is requested of it, which may have been withdrawn: it was not read since an
 * outage or in the last two seconds, for a watch may hang; half a second where a pod is deleted.
 * Then it is being read, at once. */
bool nc_own_node_is_current(struct nc_daemon *d, bool is_deletion);
/* Has a request been in flight for longer than twice its time limit? */
bool nc_own_node_is_stuck(const struct nc_daemon *d, uint64_t mono_usec);

/* node-request.c. What our Node announces: REQUEST, by the annotation in its metadata, and
 * DELETION, by what is known of it and of its claim. */
void nc_node_request_apply(struct nc_daemon *d, const struct nc_value *metadata);
void nc_node_request_note_deletion(struct nc_daemon *d);

/* imds-condition.c. The condition of the Node that notices are not received. */
#define NC_CONDITION_NOTICES "InterruptionNoticesUnavailable"

struct nc_imds_condition {
    struct nc_kube_req *write;
    bool is_true, is_writing_true; /* on the Node as it was read last; in the write */
    bool is_registered;            /* by Karpenter */
    uint64_t after_usec;           /* monotonic: not written before */
};

/* What the complete Node, and what its metadata say. */
void nc_imds_condition_note_node(struct nc_daemon *d, const struct nc_value *node);
void nc_imds_condition_note_metadata(struct nc_daemon *d, const struct nc_value *metadata);
/* Writes it where it has changed; after each poll. */
void nc_imds_condition_check(struct nc_daemon *d);
void nc_imds_condition_close(struct nc_daemon *d);

/* fit-gate.c. The startup gate of this boot (spec.fit): condition nodeclaimd.io/Fit and the
 * annotation beside it. Without spec.fit nothing is done. */
struct nc_fit_gate {
    struct nc_watch *watch; /* of pods, while it is shut */
    struct nc_kube_req *csi, *write;
    sd_event_source *timer;
    struct nc_target *target; /* of systemd, once it has opened */
    struct nc_fit_seen seen;
    struct nc_value *status; /* as status.json shows it; NULL = there is no gate */
    char *annotation;        /* as it stands on the Node */
    char *writing;           /* that of the write in flight */
    int condition;           /* as it was read last: 1 True, 0 not, -1 not known */
    bool is_writing_fit;     /* what was written last, or is */
    bool is_open;            /* for the rest of this boot */
    enum nc_fit_reason opened_as;
    bool is_pooled; /* the Node has a NodePool's label: Karpenter registers it */
    bool was_told, was_late_told, was_drain_told;
    uint64_t since_usec, opened_usec; /* EC2's clock; 0 = not yet */
    uint64_t pace_usec, failed_usec;  /* monotonic: no write before */
    uint64_t csi_after_usec;          /* likewise no read of the CSINode */
    unsigned csi_reads;               /* since a pod changed */
};

/* After whatever it depends on has changed. */
void nc_fit_gate_check(struct nc_daemon *d);
/* What the complete Node, and then what its metadata say. */
void nc_fit_gate_note_node(struct nc_daemon *d, const struct nc_value *node);
void nc_fit_gate_note_metadata(struct nc_daemon *d, const struct nc_value *metadata);
void nc_fit_gate_forget_node(struct nc_daemon *d);
/* Is the complete Node to be read where it changes? */
bool nc_fit_gate_wants_node(const struct nc_daemon *d);
void nc_fit_gate_close(struct nc_daemon *d); /* the connection goes */
void nc_fit_gate_done(struct nc_daemon *d);
struct nc_value *nc_fit_gate_save(const struct nc_fit_gate *g); /* NULL = nothing */
void nc_fit_gate_load(struct nc_fit_gate *g, const struct nc_value *v);

/* pods.c. The pods of our Node: watched while the lifecycle wants them, one request in flight for
 * each, the volumes of those that stay, and what a shutdown left behind. */
struct nc_pod_request;
struct nc_volume_request;

struct nc_pod_evictor {
    struct nc_watch *watch, *failed_watch;
    bool wants_watch;    /* the lifecycle requested it: opened as soon as we are connected */
    bool wants_clean_up; /* the machine was rebooted: pods that the shutdown left are removed */
    bool has_warned_of_volume;       /* one that is asked for again */
    bool has_warned_of_claims;       /* of a pod that stays: its list was too large */
    bool is_left_listed;             /* all of them were found: it is over with the last answer */
    struct nc_pod_request *requests; /* in flight */
    struct nc_volume_request *volume_requests;
    struct nc_strv staying_claims;  /* "namespace/claim" requested already */
    struct nc_strv staying_volumes; /* as in volumesAttached: not waited for */
    uint64_t api_boot_usec;         /* nc_kube_boot_usec() of the last connection that knew it */
};

/* Watches pods of our Node, those that the further field selectors `more` select. The caller sets
 * in `o` what is kept of each and what is called; a watch that cannot begin is a failure of the API
 * session. */
void nc_daemon_watch_pods(struct nc_daemon *d, const char *more, struct nc_watch_options o,
                          struct nc_watch **ret);
/* _unwatch ends what _open began, and lets requests go on; what is in flight is cancelled by
 * _close, and answered UNAVAILABLE. */
void nc_pod_evictor_open(struct nc_daemon *d);
void nc_pod_evictor_unwatch(struct nc_daemon *d);
void nc_pod_evictor_renew(struct nc_daemon *d); /* its watch, which may hang */
void nc_pod_evictor_close(struct nc_daemon *d);
void nc_pod_evictor_send(struct nc_daemon *d, const struct nc_drain_action *a);
/* Has a request been in flight for longer than twice its time limit? */
bool nc_pod_evictor_is_stuck(const struct nc_daemon *d, uint64_t mono_usec);
/* The volumes of pods that stay are looked up, and no longer waited for. */
void nc_pod_evictor_query_volumes(struct nc_daemon *d, const struct nc_drain *drain,
                                  const struct nc_drain_rules *rules);
/* Where that is wanted: deletes, by uid, what a shutdown left Failed and whose controller has
 * replaced it. */
void nc_pod_evictor_clean_up(struct nc_daemon *d);

/* event-queue.c. The Events on the Node, its NodeClaim and the pods that the drain ends: each of
 * those is told once why it goes, and by when (is_once).
 *
 * Those of pods are queued behind the evictions, never in their way: at most one is in flight while
 * one of them is. What is not taken is sent again.
 */
struct nc_queued_event;

struct nc_event_queue {
    struct nc_queued_event *queue; /* oldest first; those in flight stay in it */
    size_t n, in_flight;
    unsigned failures;        /* in a row */
    uint64_t not_before_usec; /* monotonic: the pause after a failure */
    char *refused;            /* what the journal says of the last one that was answered, or NULL */
    sd_event_source *timer;
};

/* At most so many wait, of which so many of pods: what comes then is dropped, and counted. */
#define NC_EVENTS_MAX ((size_t)300)
#define NC_POD_EVENTS_MAX ((size_t)250)
/* Its kind and reason are constants, the other texts are copied; its host is our Node, and so is
 * its object where that has no name. With a count from 2 the one of the same first_usec is changed.
 * until_usec, on EC2's clock: sent again until then; 0 = for ten minutes (pods), or for an hour. */
void nc_event_queue_add(struct nc_daemon *d, const struct nc_event *e, uint64_t until_usec);
/* What may be sent now is. */
void nc_event_queue_send(struct nc_daemon *d);
/* The connection goes: what is in flight is sent again on the next. */
void nc_event_queue_pause(struct nc_daemon *d);
void nc_event_queue_resume(struct nc_daemon *d); /* the API server answers again: without a pause */
void nc_event_queue_done(struct nc_daemon *d);

#endif
