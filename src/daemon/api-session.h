/*
 * The connection to the API server for as long as the node lives, as a step machine: a kubeconfig
 * that may appear later, the first token, who we are, then watches; credentials that are replaced,
 * tokens that end, a server that no longer accepts us.
 *
 * Nothing here waits. Each step has a time limit of its own and ends in a callback from the loop.
 */
#ifndef NC_DAEMON_API_SESSION_H
#define NC_DAEMON_API_SESSION_H

#include "connect.h"
#include "nc/daemon-metrics.h"

struct nc_daemon;

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

struct nc_api_session {
    enum nc_api_session_step step;
    struct nc_connection connection;
    struct nc_identity_call identity;
    sd_event_source *timer;
    bool is_closed;

    bool has_answered;        /* the API server, whatever it said, the last time */
    struct nc_err error;      /* the last failure; class NONE while it is well */
    struct nc_err pods_error; /* of the list and watch of pods: others' success is none */
    enum nc_api_state waits;  /* for what a connection needs; NC_API_CONNECTING = for nothing */
    bool has_waited;          /* for a kubeconfig: see NC_SESSION_HELD */
    bool wants_reconnect;     /* who we are is no longer accepted */
    unsigned refusals;        /* 401s in a row */

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
/* How the list and watch of pods are doing; NULL: well. */
void nc_api_session_note_pods(struct nc_daemon *d, const struct nc_err *err);
/* How it stands; *ret_err is the reason, NULL where there is none. */
enum nc_api_state nc_api_session_state(const struct nc_api_session *s,
                                       const struct nc_err **ret_err);

#endif
