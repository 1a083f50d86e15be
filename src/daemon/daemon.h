/*
 * `run`: what the parts of the daemon share.
 *
 * One thread, one loop. A watcher decodes what it observes and posts an event; nc_daemon_post steps
 * the lifecycle and carries its actions out; each result is posted as the next event. Nothing waits
 * inside of the loop: gather.c and api-session.c are step machines.
 */
#ifndef NC_DAEMON_H
#define NC_DAEMON_H

#include "api-session.h"
#include "claim.h"
#include "gather.h"
#include "hooks.h"
#include "imds-condition.h"
#include "nc/daemon-metrics.h"
#include "nc/drain-report.h"
#include "nc/kube-drain.h"
#include "nc/lifecycle.h"
#include "node.h"
#include "notice-poller.h"
#include "pod-events.h"
#include "pods.h"
#include "requests.h"
#include "shutdown.h"
#include "status.h"

#define NC_STATE_FILE "/var/lib/nodeclaimd/state.json"

struct nc_daemon_gathering; /* gather.c */
struct nc_posted;           /* daemon.c */

/* An Event that is counted. */
#define NC_SERIES 17 /* as many budgets as the lifecycle names at once, and refused requests */
struct nc_series {
    char *key;
    uint64_t first_usec, last_usec;
    unsigned count;
};

/* daemon.c: the lifecycle on the loop. */
struct nc_daemon_steps {
    sd_event_source *timer; /* nc_life_next */
    uint64_t timer_usec;    /* monotonic: what it is set to; UINT64_MAX = off */
    uint64_t now_usec;      /* of the last event */
    bool is_stepping;       /* a post inside of a post is queued */
    sd_event_source *after; /* what the pods of this turn request is asked after it */
    bool is_after;          /* this step is that */
    struct nc_posted *queue, **queue_end;
    enum nc_life_phase phase; /* after the last step: each change is put into the history */
};

struct nc_daemon {
    struct nc_app *app;
    struct nc_gather gather; /* configuration, facts, plan; has_config states whether it is there */
    struct nc_imds *imds;    /* for the polls: a handle of its own */
    struct nc_counters counters;
    struct nc_life *life;
    struct nc_life_rules rules;
    char *boot_id;
    char *conflict; /* who else would make this machine a node; NULL = nobody */

    char *node_name;   /* NULL until it is known */
    char *provider_id; /* of this instance; NULL until it is known */
    struct nc_api_session api;
    int lock_fd;   /* held while the daemon lives: daemon-lock.h */
    bool is_ready; /* READY=1 was reported */
    bool is_stopping;
    sd_event_source *turned; /* after each turn of the loop */

    /* watchdog.c */
    sd_event_source *watchdog;
    unsigned overdue; /* how often in a row the lifecycle was found late */

    /* run.c. Times are CLOCK_MONOTONIC. */
    bool has_facts;    /* IMDS has stated what this instance is: the polls are armed */
    bool is_name_used; /* node_name is the Node's: it stays */
    bool is_reloading; /* SIGHUP: until facts and configuration were read */
    struct nc_daemon_gathering *gathering; /* gather.c: in progress; NULL = not */
    sd_event_source *gather_timer;         /* the next attempt */
    unsigned gather_attempts;
    uint64_t started_mono_usec;

    uint64_t boot_usec;     /* EC2's time when CLOCK_BOOTTIME was 0; 0 = IMDS has not said yet */
    uint64_t api_boot_usec; /* nc_kube_boot_usec() of the last connection that knew it */

    struct nc_daemon_steps steps;
    struct nc_own_node node;
    struct nc_claim_watch claim;
    struct nc_imds_condition condition;
    struct nc_pod_evictor pods;
    struct nc_pod_events pod_events;
    struct nc_notice_poller *poller; /* NULL until facts were requested once */
    struct nc_shutdown shutdown;
    struct nc_requests requests;
    struct nc_hook_runner hooks;

    struct nc_series series[NC_SERIES]; /* Events that are reported again and again */
    struct nc_value *history; /* [{phase, at}] of this life, at most 64; daemon.c fills it */
    bool is_status_due, is_state_due;
    struct nc_daemon_status status;
    struct nc_daemon_state state;
};

/* Now on EC2's clock: ours, set right by what IMDS' Date header says. */
uint64_t nc_daemon_now(const struct nc_daemon *d);
/* Takes over what IMDS has told of the difference of the clocks since. */
void nc_daemon_read_skew(struct nc_daemon *d);

/* Steps the lifecycle with the event (its now_usec is filled in here) and carries out what it
 * requests. May be called from any callback of the loop. A pod's contents are taken over. */
void nc_daemon_post(struct nc_daemon *d, struct nc_life_event *e);
void nc_daemon_done(struct nc_daemon *d); /* daemon.c: what nc_daemon_post keeps */
void nc_daemon_arm(struct nc_daemon *d);  /* the timer, by the clocks as they are now */
/* Is something announced, or being undone? */
bool nc_daemon_is_busy(const struct nc_daemon *d);
void nc_daemon_post_notice(struct nc_daemon *d, const struct nc_notice *n);
void nc_daemon_post_cleared(struct nc_daemon *d, enum nc_source s);

/* wire.c. Before the life begins; what this machine announces; IMDS and the API server, once facts
 * were requested. */
void nc_daemon_wire(struct nc_daemon *d);
void nc_daemon_open_sources(struct nc_daemon *d);
void nc_daemon_open_connections(struct nc_daemon *d);

/* watchdog.c. WATCHDOG=1 at a third of WatchdogSec, for as long as nothing is stuck. Returns
 * what sd-event does. */
int nc_daemon_watchdog_open(struct nc_daemon *d);

/* gather.c. Begins to read facts, configuration and name, as far as they can be had, anew where it
 * was in flight; at the end tells nc_daemon_gathered (run.c), maybe before this returns. What is
 * only needed to get there is freed. A configuration that cannot be used is logged, and the
 * defaults stand. err (transient) where it is worth trying again. */
void nc_daemon_gather_start(struct nc_daemon *d);
void nc_daemon_gather_cancel(struct nc_daemon *d);
void nc_daemon_gathered(struct nc_daemon *d, const struct nc_err *err);
/* The built-in policies, until there is a configuration. */
void nc_daemon_defaults(struct nc_daemon *d);

/* say.c: journal with its milestone, Event, console (NOTICED, DRAINED and FAILED only). */
void nc_daemon_announce(struct nc_daemon *d, const struct nc_life_action *a);
void nc_daemon_log_pod(struct nc_daemon *d, const struct nc_pod_news *n);
/* The pod's own Event, where it is the first that is reported of its end. */
void nc_daemon_tell_pod(struct nc_daemon *d, const struct nc_pod_news *n);
void nc_daemon_announce_done(struct nc_daemon *d);

/* The command `run`: takes the options and gives the exit code. */
int nc_command_run(struct nc_app *app);

#endif
