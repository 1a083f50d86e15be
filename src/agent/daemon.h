/*
 * `run`: what the parts of the daemon share.
 *
 * One thread, one loop. A watcher decodes what it hears and posts an event; nc_daemon_post steps
 * the lifecycle and carries its actions out; each result is posted as the next event. What may turn
 * the loop (reading the configuration, making a token) happens between two turns only, in run.c.
 */
#ifndef NC_DAEMON_H
#define NC_DAEMON_H

#include "connect.h"
#include "gather.h"
#include "nc/drain-report.h"
#include "nc/kube-drain.h"
#include "nc/lifecycle.h"
#include "nc/login.h"

#define NC_STATE_FILE "/var/lib/nodeclaimd/state.json"
#define NC_REQUEST_DIR NC_RUN_DIR "/requests"

struct nc_daemon_imds;
struct nc_daemon_requests;

struct nc_daemon {
    struct nc_app *app;
    struct nc_gather gather; /* configuration, facts, plan; has_config says whether it is there */
    struct nc_imds *imds;    /* for the polls: a handle of its own */
    struct nc_counters counters;
    struct nc_life *life;
    struct nc_life_rules rules;
    char *boot_id;

    char *node_name; /* NULL until it is known */
    struct nc_connection connection;
    bool is_connected; /* connection.kube may be used */
    bool is_stopping;

    /* daemon.c */
    sd_event_source *timer; /* nc_life_next */
    bool is_stepping;       /* a post inside of a post is queued */

    /* daemon-node.c: our Node, our NodeClaim */
    struct nc_watch *node_watch, *claim_watch;
    struct nc_node_view view;
    struct nc_kube_req *write, *look;
    char *owner_name, *owner_uid; /* the NodeClaim of the ownerReference; NULL = none */
    uint64_t claim_t_usec;        /* its termination timestamp; 0 = none */
    bool is_claim_deleting;

    /* daemon-pods.c */
    struct nc_watch *pods_watch;
    struct nc_strv staying_volumes;

    /* daemon-imds.c, daemon-login.c, daemon-requests.c */
    struct nc_daemon_imds *polls;
    struct nc_login *login;
    struct nc_daemon_requests *requests;

    /* daemon-say.c, daemon-status.c, daemon-state.c */
    struct nc_value *history; /* [{phase, at}] of this life, at most 64 */
    bool is_status_due, is_state_due;
    uint64_t status_usec; /* monotonic: last written */
};

/* Now on EC2's clock: ours, set right by what IMDS' Date header says. */
uint64_t nc_daemon_now(const struct nc_daemon *d);

/* Steps the lifecycle with the event (its now_usec is filled in here) and carries out what it asks
 * for. May be called from any callback of the loop. */
void nc_daemon_post(struct nc_daemon *d, struct nc_life_event *e);
void nc_daemon_post_notice(struct nc_daemon *d, const struct nc_notice *n);
void nc_daemon_post_cleared(struct nc_daemon *d, enum nc_source s);

/* daemon-node.c. Opens the watch of our Node (and of our NodeClaim once its name is known and
 * access is granted); posts NODE, NODE_GONE, and the sources REQUEST (annotation) and DELETION. */
int nc_daemon_node_open(struct nc_daemon *d, struct nc_err *err);
void nc_daemon_node_close(struct nc_daemon *d);
void nc_daemon_node_write(struct nc_daemon *d, const struct nc_node_write *w);
void nc_daemon_node_look(struct nc_daemon *d);

/* daemon-pods.c */
void nc_daemon_pods_open(struct nc_daemon *d);
void nc_daemon_pods_close(struct nc_daemon *d);
void nc_daemon_pod_ask(struct nc_daemon *d, const struct nc_drain_action *a);

/* daemon-imds.c: spot 1 s (only on spot instances), rebalance 10 s (likewise), target state 10 s,
 * 60 s while it is not there, maintenance 60 s; each start shifted by the instance id. */
int nc_daemon_imds_open(struct nc_daemon *d, struct nc_err *err);
void nc_daemon_imds_close(struct nc_daemon *d);

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

/* daemon-status.c: status.json's `drain` and `daemon`, metrics.prom, STATUS=. Called between turns;
 * writes on change, at most ten times a second. */
void nc_daemon_publish(struct nc_daemon *d);

/* daemon-state.c */
int nc_daemon_state_load(struct nc_daemon *d, struct nc_err *err);
void nc_daemon_state_save(struct nc_daemon *d);

#endif
