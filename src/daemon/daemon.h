/*
 * `run`: what the parts of the daemon share.
 *
 * One thread, one loop. A watcher decodes what it hears and posts an event; nc_daemon_post steps
 * the lifecycle and carries its actions out; each result is posted as the next event. Nothing waits
 * inside of the loop: gather.c and api-session.c are step machines.
 */
#ifndef NC_DAEMON_H
#define NC_DAEMON_H

#include "api-session.h"
#include "gather.h"
#include "nc/drain-report.h"
#include "nc/kube-drain.h"
#include "nc/lifecycle.h"
#include "nc/login.h"

#define NC_STATE_FILE "/var/lib/nodeclaimd/state.json"
#define NC_REQUEST_DIR NC_RUN_DIR "/requests"

struct nc_daemon_gathering; /* gather.c */
struct nc_daemon_imds;
struct nc_daemon_requests;
struct nc_posted;         /* daemon.c */
struct nc_pod_request;    /* daemon-pods.c */
struct nc_volume_request; /* daemon-pods.c */

/* An Event that is counted. */
#define NC_SERIES 17 /* as many budgets as the lifecycle names at once, and refused requests */
struct nc_series {
    char *key;
    uint64_t first_usec, last_usec;
    unsigned count;
};

struct nc_daemon {
    struct nc_app *app;
    struct nc_gather gather; /* configuration, facts, plan; has_config says whether it is there */
    struct nc_imds *imds;    /* for the polls: a handle of its own */
    struct nc_counters counters;
    struct nc_life *life;
    struct nc_life_rules rules;
    char *boot_id;

    char *node_name;   /* NULL until it is known */
    char *provider_id; /* of this instance; NULL until it is known */
    struct nc_api_session api;
    int lock_fd;   /* held while the daemon lives: daemon-lock.h */
    bool is_ready; /* READY=1 was said */
    bool is_stopping;

    /* daemon-watchdog.c */
    sd_event_source *watchdog;
    unsigned overdue; /* how often in a row the lifecycle was found late */

    /* run.c: what is done between two turns. Times are CLOCK_MONOTONIC. */
    bool has_facts;    /* IMDS has said what this instance is: the polls are armed */
    bool is_name_used; /* node_name is the Node's: it stays */
    bool is_reloading; /* SIGHUP: until facts and configuration were read */
    struct nc_daemon_gathering *gathering; /* gather.c: in progress; NULL = not */
    sd_event_source *gather_timer;         /* the next attempt */
    unsigned gather_attempts;
    uint64_t started_mono_usec;

    /* daemon.c */
    sd_event_source *timer; /* nc_life_next */
    uint64_t timer_usec;    /* monotonic: what it is set to; UINT64_MAX = off */
    uint64_t now_usec;      /* of the last event */
    uint64_t boot_usec;     /* EC2's time when CLOCK_BOOTTIME was 0; 0 = IMDS has not said yet */
    bool is_stepping;       /* a post inside of a post is queued */
    sd_event_source *after; /* what the pods of this turn ask for is asked after it */
    bool is_after;          /* this step is that */
    struct nc_posted *queue, **queue_end;
    enum nc_life_phase phase; /* after the last step: each change is put into the history */

    /* daemon-node.c: our Node, our NodeClaim */
    struct nc_watch *node_watch, *claim_watch;
    struct nc_node_view view;
    struct nc_kube_req *write, *look;
    uint64_t write_usec, look_usec; /* monotonic: begun */
    unsigned unanswered;            /* of those in a row, at most 2: how patient the next is */
    enum nc_node_write_kind write_kind;
    sd_event_source *look_timer;
    bool is_node_synced;   /* the watch has shown what there is */
    bool is_node_listed;   /* and our Node was there */
    bool is_node_known;    /* a whole object was seen of this uid: it is ours, or it is foreign */
    bool is_foreign;       /* the Node of our name belongs to another instance */
    bool is_doubted;       /* it does not say whose it is, and another machine may have made it */
    bool is_look_wanted;   /* by the lifecycle: not only because something changed */
    char *node_version;    /* resourceVersion of the last whole object */
    char *watch_version;   /* … and as the watch last had it */
    char *request;         /* the drain-request annotation as last read; NULL = none */
    char *request_refused; /* why it is not taken; NULL = it is, or there is none */
    uint64_t refused_usec; /* monotonic: said last */
    uint64_t claim_after_usec;
    char *owner_name, *owner_uid; /* the NodeClaim of the ownerReference; NULL = none */
    char *owner_api;              /* "karpenter.sh/v1" */
    uint64_t claim_t_usec;        /* its termination timestamp; 0 = none */
    bool is_claim_deleting;
    bool is_claim_known; /* it was asked for, whatever the answer */
    unsigned claim_failures;

    /* daemon-pods.c */
    struct nc_watch *pods_watch, *failed_watch;
    bool wants_pods;     /* the lifecycle asked for them: opened as soon as we are connected */
    bool wants_clean_up; /* the machine was rebooted: pods that the shutdown left are removed */
    bool is_left_listed; /* all of them were found: it is over with the last answer */
    struct nc_pod_request *pod_requests;
    struct nc_volume_request *volume_requests;
    struct nc_strv staying_claims;  /* "namespace/claim" asked for already */
    struct nc_strv staying_volumes; /* as in volumesAttached */
    uint64_t api_boot_usec;         /* nc_kube_boot_usec() of the last connection that knew it */

    /* daemon-imds.c, daemon-login.c, daemon-requests.c */
    struct nc_daemon_imds *polls;
    struct nc_login *login;
    char *short_delay; /* logind waits for less than our drop-in asks for; NULL = it does not */
    struct nc_daemon_requests *requests; /* NULL = its folder cannot be watched */
    bool requests_failed;                /* said once */
    uint64_t requests_after_usec;        /* monotonic: it is tried again */

    /* daemon-imds-condition.c */
    struct nc_kube_req *condition_write;
    bool is_condition_true, is_writing_true; /* on the Node as it was read last; in the write */
    bool is_registered;                      /* by Karpenter */
    uint64_t condition_after_usec;           /* monotonic: not written before */

    /* daemon-say.c, daemon-status.c, daemon-state.c */
    struct nc_series series[NC_SERIES]; /* Events that are said again and again */
    struct nc_value *history; /* [{phase, at}] of this life, at most 64; daemon.c fills it */
    bool is_status_due, is_state_due;
    bool is_inhibitor_shown; /* as it was last written: nobody is told when it is held again */
    uint64_t status_usec;    /* monotonic: last written */
    bool status_failed;      /* said once */
    uint64_t
        status_again_usec; /* monotonic: what could not be written is tried again; 0 = all was */
    unsigned idle_minutes; /* written so often in a row for the counters alone */
    sd_event_source
        *status_timer; /* wakes the loop for what came too soon after that; freed with the loop */
    char *saved;       /* state.json as last written */
    bool has_saved_request; /* an operator's, in state.json */
    bool save_failed;       /* said once */
    uint64_t saved_usec;    /* monotonic */
};

static inline uint64_t nc_daemon_sooner(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* Now on EC2's clock: ours, set right by what IMDS' Date header says. */
uint64_t nc_daemon_now(const struct nc_daemon *d);
/* Takes over what IMDS has told of the difference of the clocks since. */
void nc_daemon_read_skew(struct nc_daemon *d);

/* Steps the lifecycle with the event (its now_usec is filled in here) and carries out what it asks
 * for. May be called from any callback of the loop. A pod's contents are taken over. */
void nc_daemon_post(struct nc_daemon *d, struct nc_life_event *e);
void nc_daemon_done(struct nc_daemon *d);        /* daemon.c: what nc_daemon_post keeps */
void nc_daemon_arm(struct nc_daemon *d);         /* the timer, by the clocks as they are now */
void nc_daemon_set(char **to, const char *text); /* a copy in its place; NULL: nothing */
/* Is something announced, or being undone? */
bool nc_daemon_is_busy(const struct nc_daemon *d);
void nc_daemon_post_notice(struct nc_daemon *d, const struct nc_notice *n);
void nc_daemon_post_cleared(struct nc_daemon *d, enum nc_source s);

/* daemon-watchdog.c. WATCHDOG=1 at a third of WatchdogSec, for as long as nothing is stuck. Returns
 * what sd-event does. */
int nc_daemon_watchdog_open(struct nc_daemon *d);

/* gather.c. Begins to read facts, configuration and name, as far as they can be had, anew where it
 * was under way; at the end tells nc_daemon_gathered (run.c), maybe before this returns. What is
 * only needed to get there is freed. A configuration that cannot be used is logged, and the
 * defaults stand. err (transient) where it is worth trying again. */
void nc_daemon_gather_start(struct nc_daemon *d);
void nc_daemon_gather_cancel(struct nc_daemon *d);
void nc_daemon_gathered(struct nc_daemon *d, const struct nc_err *err);
/* The built-in policies, until there is a configuration. */
void nc_daemon_defaults(struct nc_daemon *d);

void nc_daemon_watch_well(void *daemon); /* run.c: nc_api_session_well, for watches */

/* daemon-node.c. Opens the watch of our Node (and of our NodeClaim where its name is known); posts
 * NODE, NODE_GONE, and the source REQUEST (annotation). */
int nc_daemon_node_open(struct nc_daemon *d, struct nc_err *err);
void nc_daemon_node_close(struct nc_daemon *d);
void nc_daemon_node_done(struct nc_daemon *d); /* forgets what is known of it */
void nc_daemon_node_write(struct nc_daemon *d, const struct nc_node_write *w);
/* GETs the Node, now or as soon as a second has passed since the last time. */
void nc_daemon_node_look(struct nc_daemon *d);
/* Has a request been under way for longer than twice its time limit? */
bool nc_daemon_node_is_stuck(const struct nc_daemon *d, uint64_t mono_usec);

/* daemon-claim.c. The owner in the Node's metadata; DELETION by what is known of both. */
void nc_daemon_claim_take(struct nc_daemon *d, const struct nc_value *metadata);
void nc_daemon_judge_deletion(struct nc_daemon *d);
/* The NodeClaim's watch, where its name is known and it may be read. Between two turns. */
void nc_daemon_claim_open(struct nc_daemon *d);

/* daemon-pods.c. _unwatch ends what _open began, and lets questions go on; what is under way is
 * cancelled by _close, and answered AWAY. */
void nc_daemon_pods_open(struct nc_daemon *d);
void nc_daemon_pods_unwatch(struct nc_daemon *d);
void nc_daemon_pods_close(struct nc_daemon *d);
void nc_daemon_pod_ask(struct nc_daemon *d, const struct nc_drain_action *a);
/* Has a question been under way for longer than twice its time limit? */
bool nc_daemon_pods_are_stuck(const struct nc_daemon *d, uint64_t mono_usec);
/* The volumes of pods that stay are looked up, and no longer waited for. */
void nc_daemon_pods_find_staying(struct nc_daemon *d);
/* Deletes, by uid, what a shutdown left Failed and whose controller has replaced it. */
void nc_daemon_pods_clean_up(struct nc_daemon *d);

/* daemon-imds.c: spot 1 s (only on spot instances), rebalance 10 s (likewise), target state 10 s,
 * 60 s while it is not there, maintenance 60 s; each start shifted by the instance id. */
void nc_daemon_imds_open(struct nc_daemon *d);
void nc_daemon_imds_close(struct nc_daemon *d);
/* Asks what is due; when that is next, CLOCK_MONOTONIC, UINT64_MAX = never. Between two turns. */
void nc_daemon_imds_turn(struct nc_daemon *d);
uint64_t nc_daemon_imds_next(const struct nc_daemon *d);

/* daemon-imds-condition.c: the Node condition that notices are not received. What the whole Node,
 * and what its metadata say; whether to write, between two turns. */
#define NC_CONDITION_NOTICES "InterruptionNoticesUnavailable"
void nc_daemon_imds_condition_node(struct nc_daemon *d, const struct nc_value *node);
void nc_daemon_imds_condition_metadata(struct nc_daemon *d, const struct nc_value *metadata);
void nc_daemon_imds_condition_turn(struct nc_daemon *d);
void nc_daemon_imds_condition_close(struct nc_daemon *d);

/* daemon-login.c: SHUTDOWN, and LET_GO. */
int nc_daemon_login_open(struct nc_daemon *d, struct nc_err *err);
void nc_daemon_login_close(struct nc_daemon *d);
void nc_daemon_login_let_go(struct nc_daemon *d);

/* daemon-requests.c: OPERATOR. `drain` and `undrain` leave a file in NC_REQUEST_DIR; it is read,
 * answered in status.json and removed. */
int nc_daemon_requests_open(struct nc_daemon *d, struct nc_err *err);
void nc_daemon_requests_close(struct nc_daemon *d);

/* daemon-say.c: journal with its milestone, Event, console (NOTICED, DRAINED and FAILED only). */
void nc_daemon_say(struct nc_daemon *d, const struct nc_life_action *a);
void nc_daemon_say_pod(struct nc_daemon *d, const struct nc_pod_news *n);
void nc_daemon_say_done(struct nc_daemon *d);

/* daemon-status.c: status.json's `drain` and `daemon`, metrics.prom, STATUS=. Called between turns;
 * writes on change, at most ten times a second. */
void nc_daemon_publish(struct nc_daemon *d);

/* daemon-state.c. Loading returns 1 where the machine was not rebooted since, or has been cleaned
 * up after it, else 0; a file that is broken, or another node's, is put aside and said. Saving
 * writes only what differs from the last time. */
int nc_daemon_state_load(struct nc_daemon *d, struct nc_err *err);
void nc_daemon_state_save(struct nc_daemon *d);
#define NC_STATE_PAUSE_USEC 100000u
#define NC_FAILED_PAUSE_USEC 5000000u /* what this machine refused is tried again after that */

/* The command `run`: takes the options and gives the exit code. */
int nc_command_run(struct nc_app *app);

#endif
