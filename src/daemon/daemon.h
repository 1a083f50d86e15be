/*
 * `run`: what the parts of the daemon share.
 *
 * One thread, one loop. A watcher decodes what it observes and posts an event; nc_daemon_post steps
 * the lifecycle and carries its actions out; each result is posted as the next event. Nothing waits
 * inside of the loop: instance.c and api-session.c are step machines.
 */
#ifndef NC_DAEMON_H
#define NC_DAEMON_H

#include "cluster.h"
#include "gather.h"
#include "machine.h"
#include "nc/clock.h"
#include "nc/daemon-metrics.h"
#include "nc/lifecycle.h"

#define NC_STATE_FILE "/var/lib/nodeclaimd/state.json"

struct nc_daemon_gathering; /* instance.c */
struct nc_posted;           /* daemon.c */

/* An Event that is counted. */
#define NC_SERIES 65 /* as many budgets as the lifecycle names at once, and refused requests */
struct nc_series {
    char *key;
    uint64_t first_usec, last_usec;
    unsigned count;
};

/* daemon.c: the lifecycle on the loop. */
struct nc_daemon_steps {
    sd_event_source *timer;    /* nc_lifecycle_next */
    uint64_t timer_usec;       /* monotonic: what it is set to; UINT64_MAX = off */
    int64_t clock_offset_usec; /* of the last event */
    bool is_stepping;          /* a post inside of a post is queued */
    sd_event_source *after;    /* what the pods of this turn request is asked after it */
    bool is_after;             /* this step is that */
    struct nc_posted *queue, **queue_end;
    enum nc_lifecycle_phase phase; /* after the last step: each change is put into the history */
};

/* daemon-status.c */
struct nc_daemon_status {
    bool is_inhibitor_shown; /* as it was last written: nobody is told when it is held again */
    uint64_t written_usec;   /* monotonic */
    bool failed;             /* logged once */
    uint64_t again_usec;     /* monotonic: what could not be written is tried again; 0 = all was */
    unsigned idle_minutes;   /* written so often in a row for the counters alone */
    sd_event_source *timer;  /* for what came too soon after the last time */
};

/* state.c */
struct nc_daemon_state {
    char *saved;             /* state.json as last written */
    bool has_request;        /* an operator's, in state.json */
    struct nc_value *former; /* of another boot, with an operator's request: not known to be ours */
    char *instance;          /* as an earlier run of this boot knew it */
    char *error;             /* why it cannot be written, and what follows; NULL = it was */
    uint64_t saved_usec;     /* monotonic */
    sd_event_source *timer;  /* for what came too soon after the last time */
};

struct nc_daemon {
    struct nc_app *app;
    struct nc_gather gather; /* configuration, facts, plan; has_config states whether it is there */
    struct nc_imds *imds;    /* for the polls: a handle of its own */
    struct nc_counters counters;
    struct nc_lifecycle *life;
    struct nc_lifecycle_rules rules;
    char *boot_id;
    char *not_in_force; /* why a document or a field of it is not; NULL = all are */
    char *conflict;     /* who else would make this machine a node; NULL = nobody */

    char *node_name;   /* NULL until it is known */
    char *provider_id; /* of this instance; NULL until it is known */
    struct nc_api_session api;
    int lock_fd;   /* held while the daemon lives: lock.c */
    bool is_ready; /* READY=1 was reported */
    bool is_stopping;
    sd_event_source *turned; /* after each turn of the loop */

    /* watchdog.c */
    sd_event_source *watchdog;
    unsigned overdue; /* how often in a row the lifecycle was found late */

    /* command-run.c. Times are CLOCK_MONOTONIC. */
    bool has_facts;    /* IMDS has stated what this instance is: the polls are armed */
    bool is_name_used; /* node_name is the Node's: it stays */
    bool is_reloading; /* SIGHUP: until facts and configuration were read */
    struct nc_daemon_gathering *gathering; /* instance.c: in progress; NULL = not */
    sd_event_source *gather_timer;         /* the next attempt */
    unsigned gather_attempts;
    uint64_t started_mono_usec;

    uint64_t boot_usec;     /* EC2's time when CLOCK_BOOTTIME was 0; 0 = IMDS has not said yet */
    uint64_t api_boot_usec; /* nc_kube_boot_usec() of the last connection that knew it */

    struct nc_daemon_steps steps;
    struct nc_own_node node;
    struct nc_claim_watch claim;
    struct nc_imds_condition condition;
    struct nc_fit_gate fit;
    struct nc_pod_evictor pods;
    struct nc_event_queue events;
    struct nc_notice_poller *poller; /* NULL until facts were requested once */
    struct nc_shutdown shutdown;
    struct nc_requests requests;
    struct nc_hook_runner hooks;
    struct nc_warm_pool {
        struct nc_target *start; /* of the bootstrap, since this instance is in service */
        bool is_over;            /* and has ended */
    } warm_pool;

    struct nc_series series[NC_SERIES]; /* Events that are reported again and again */
    struct nc_value *history;     /* [{phase, at}] of this life, at most 64; daemon.c fills it */
    struct nc_value *pod_history; /* of the last drain: [{pod, evictedUsec, ...}]; announce.c */
    bool is_status_due, is_state_due;
    struct nc_daemon_status status;
    struct nc_daemon_state state;
};

/* --- what its parts call; whatever they show in status.json they announce by is_status_due */

/* What the lifecycle counts on: nobody sets it, and what was before this boot is above 0, too. */
static inline uint64_t nc_daemon_own_now(void) {
    return ((uint64_t)1 << 50) + nc_boot_usec();
}
/* daemon-clock.c. Now on EC2's clock: ours, set right by what IMDS' Date header says. */
uint64_t nc_daemon_now(const struct nc_daemon *d);
/* Takes over what IMDS has told of the difference of the clocks since. */
void nc_daemon_read_skew(struct nc_daemon *d);

/* Steps the lifecycle with the event (its now_usec is filled in here) and carries out what it
 * requests. May be called from any callback of the loop. A pod's contents are taken over. */
void nc_daemon_post(struct nc_daemon *d, struct nc_lifecycle_event *e);
void nc_daemon_post_notice(struct nc_daemon *d, const struct nc_notice *n);
/* There is no notice of this source, or none any more. */
void nc_daemon_post_cleared(struct nc_daemon *d, enum nc_source s);
/* As it is: the notice that is active, or that there is none. */
void nc_daemon_post_again(struct nc_daemon *d, enum nc_source s);
/* Is something announced, or being undone? */
bool nc_daemon_is_busy(const struct nc_daemon *d);

/* connected.c. The kubeconfig to connect with; requests can be made; they can be made no more:
 * all that is in flight is cancelled. */
const char *nc_daemon_kubeconfig(const struct nc_daemon *d);
void nc_daemon_connected(struct nc_daemon *d);
void nc_daemon_disconnected(struct nc_daemon *d);

/* announce.c. An Event of a document that is refused, or of a field that is ignored, where one
 * is and the API server is there. */
void nc_daemon_tell_not_in_force(struct nc_daemon *d);
void nc_daemon_tell_config_accepted(struct nc_daemon *d); /* after one that was refused */
/* A request to drain cannot be used; series: as in struct nc_lifecycle_action. */
void nc_daemon_refuse_request(struct nc_daemon *d, const char *message, const char *series);

/* state.c. Loading returns 1 where the machine was not rebooted since, or has been cleaned
 * up after it, else 0; a file that is broken, or another machine's, is put aside and said. Saving
 * writes only what differs from the last time. */
int nc_daemon_state_load(struct nc_daemon *d, struct nc_err *err);
/* What an operator requested in another boot, once the instance's id (or, where that was not saved,
 * the node's name) is known: it is in force, or put aside. */
void nc_daemon_state_adopt(struct nc_daemon *d);
void nc_daemon_state_forget_former(struct nc_daemon *d); /* there is a later word of the operator */
void nc_daemon_state_save(struct nc_daemon *d);
/* After each turn of the loop: saves where that is due, or will be. */
void nc_daemon_state_keep(struct nc_daemon *d);
#define NC_STATE_PAUSE_USEC 100000u
#define NC_FAILED_PAUSE_USEC 5000000u /* what this machine refused is tried again after that */

/* --- what it is made of */

void nc_daemon_done(struct nc_daemon *d); /* daemon.c: what nc_daemon_post keeps */
void nc_daemon_arm(struct nc_daemon *d);  /* the timer, by the clocks as they are now */

/* daemon-status.c: status.json's `drain` and `daemon`, metrics.prom, STATUS=. Called after each
 * turn of the loop; writes on change, at most ten times a second. */
void nc_daemon_publish(struct nc_daemon *d);

/* warm-pool.c. Is this notice of a machine that is prepared for a warm pool and runs no pod? Every
 * answer that states a target state: once it is InService such a machine joins. */
bool nc_warm_pool_holds(const struct nc_daemon *d, const struct nc_notice *n);
void nc_warm_pool_answer(struct nc_daemon *d, const struct nc_buf *body);

/* watchdog.c. WATCHDOG=1 at a third of WatchdogSec, for as long as nothing is stuck. Returns
 * what sd-event does. */
int nc_daemon_watchdog_open(struct nc_daemon *d);

/* instance.c. Begins to read facts, configuration and name, as far as they can be had, anew where
 * it was in flight; at the end tells nc_daemon_gathered (connected.c), maybe before this returns.
 * What is only needed to get there is freed. A configuration that cannot be used is logged, and the
 * defaults stand. err (transient) where it is worth trying again. */
void nc_daemon_gather_start(struct nc_daemon *d);
void nc_daemon_gather_cancel(struct nc_daemon *d);
void nc_daemon_gathered(struct nc_daemon *d, const struct nc_err *err);
/* The built-in policies, until there is a configuration. */
void nc_daemon_defaults(struct nc_daemon *d);

/* announce.c: journal with its milestone, Event, console (how a drain begins, lasts and ends). */
void nc_daemon_announce(struct nc_daemon *d, const struct nc_lifecycle_action *a);
void nc_daemon_log_pod(struct nc_daemon *d, const struct nc_pod_news *n);
/* The pod's own Event, where it is the first that is reported of its end. */
void nc_daemon_tell_pod(struct nc_daemon *d, const struct nc_pod_news *n);
void nc_daemon_announce_done(struct nc_daemon *d);

/* The command `run`: takes the options and gives the exit code. */
int nc_command_run(struct nc_app *app);

#endif
