/*
 * What the daemon has on its own machine: what EC2 announces through IMDS, what logind and an
 * operator announce, and the hooks of a drain. Each is a part of struct nc_daemon, and its
 * functions take the daemon.
 */
#ifndef NC_DAEMON_MACHINE_H
#define NC_DAEMON_MACHINE_H

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "app.h"
#include "nc/host.h"
#include "nc/lifecycle.h"
#include "nc/value.h"

struct nc_daemon;

/* notice-poller.c. What EC2 announces through IMDS: polled, each source at its own pace: spot 0.9 s
 * (only on spot instances), rebalance 9.9 s (likewise), target state 9.9 s, 59.4 s while it is not
 * there, maintenance 59.4 s; each start shifted by the instance id. */
struct nc_notice_poller;
/* Once facts were requested. All sources are polled at once, then in their rhythm. */
int nc_notice_poller_new(struct nc_daemon *d, struct nc_notice_poller **ret, struct nc_err *err);
struct nc_notice_poller *nc_notice_poller_free(struct nc_notice_poller *p); /* NULL in, NULL out */

/* One poll as status.json shows it. */
struct nc_poll_view {
    const char *
        state; /* "ok", "failing", "off" (not polled on this instance), "waiting" (no answer yet) */
    uint64_t last_usec;         /* the last good answer, on EC2's clock; 0 = never */
    const char *error, *remedy; /* "" unless failing; borrowed */
};
/* False where this source is no poll, or p is NULL. */
bool nc_notice_poller_get_view(const struct nc_notice_poller *p, enum nc_source s,
                               struct nc_poll_view *ret);

/* Whether what EC2 announces is not received: a poll has failed for at least so long. -EAGAIN where
 * that is not known yet: one fails, but not for so long, or was not answered yet, or p is NULL.
 * `message` says it for people. */
int nc_notice_poller_is_failing(const struct nc_notice_poller *p, uint64_t for_usec, bool *ret,
                                struct nc_buf *message);

/* shutdown.c. The source SHUTDOWN: logind's window, and the inhibitor that holds it open. */
struct nc_shutdown {
    struct nc_login *login; /* NULL = there is no logind */
    char *short_delay;      /* it waits for less than our drop-in requests; NULL = it does not */
};

/* Without logind this fails, and the struct may be used all the same. */
int nc_shutdown_open(struct nc_daemon *d, struct nc_err *err);
void nc_shutdown_close(struct nc_daemon *d);
void nc_shutdown_release(struct nc_daemon *d); /* the inhibitor */

/* requests.c. The source OPERATOR: `drain` and `undrain` leave a file in a folder; it is read,
 * answered in status.json and removed. Written by the commands, removed by the daemon. */
#define NC_REQUEST_DIR "/run/nodeclaimd/requests"
#define NC_REQUEST_DRAIN "drain.json"
#define NC_REQUEST_UNDRAIN "undrain.json"

struct nc_requests {
    char *folder;
    sd_event_source *watch; /* NULL = the folder cannot be watched */
    sd_event_source *timer; /* it is tried again */
    bool failed;            /* logged */
};

void nc_requests_open(struct nc_daemon *d);

/* state.json holds what was requested: the files that stood in for it are removed. */
void nc_requests_forget_unsaved(struct nc_daemon *d);
void nc_requests_close(struct nc_daemon *d);

/* hook-runner.c. The hooks before and after a drain, carried out: units of this machine that are
 * started over D-Bus. */
struct nc_hook_runner {
    struct nc_hook_of_runner {
        struct nc_daemon *d;
        struct nc_target *target; /* NULL = nothing is in progress */
        uint64_t begun_usec;      /* CLOCK_MONOTONIC, when it was started last; 0 = never */
    } hooks[_NC_HOOK_MAX];
};

/* Starts the hook, or follows one that an earlier process has started. */
void nc_hook_runner_start(struct nc_daemon *d, enum nc_hook h, bool is_followed);
/* Forgets what the lifecycle does not wait for any longer. */
void nc_hook_runner_check(struct nc_daemon *d);
void nc_hook_runner_close(struct nc_daemon *d);

/* What must survive: NULL = nothing. Loading gives false where it is strange, and loads nothing. */
struct nc_value *nc_hook_runner_save(const struct nc_hook_runner *r);
bool nc_hook_runner_load(struct nc_hook_runner *r, const struct nc_value *v);

#endif
