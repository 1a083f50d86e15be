/*
 * What every command of the agent shares: options, the event loop, signals, pauses.
 */
#ifndef NC_BOOTSTRAP_APP_H
#define NC_BOOTSTRAP_APP_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "nc/clock.h"
#include "nc/err.h"
#include "nc/host.h"
#include "nc/mem.h"
#include "nc/value.h"
#include "process.h"

#define NC_RUN_DIR "/run/nodeclaimd"
#define NC_STATUS_FILE NC_RUN_DIR "/status.json"
#define NC_METRICS_FILE NC_RUN_DIR "/metrics.prom"
/* There while this machine is prepared, and kubelet waits to be taken into service. */
#define NC_WARM_POOL_FILE NC_RUN_DIR "/warm-pool"
#define NC_KUBECONFIG "/var/lib/kubelet/kubeconfig"
#define NC_BOOTSTRAP_KUBECONFIG "/etc/kubernetes/kubelet/bootstrap-kubeconfig"
#define NC_INSTANCE_TYPES_FILE "/etc/nodeclaimd/instance-types.tsv"

/* Options as given; NULL or 0 where not. Strings are borrowed from argv and the environment. */
struct nc_options {
    const char *command;
    const char *imds; /* --imds or AWS_EC2_METADATA_SERVICE_ENDPOINT */
    const char *kubeconfig;
    const char *node_name;
    const char *root; /* "" for none */
    struct nc_strv sources;
    const char *facts; /* folder or URL */
    const char *save_facts;
    const char *kubelet_version, *containerd_version;
    const char *out;
    const char *skip;
    const char *start;
    const char *kubelet_log;
    const char *cluster;
    const char *region;
    const char *sts_endpoint;
    const char *mode;     /* of drain */
    const char *deadline; /* a duration or RFC 3339 */
    const char *reason;
    const char *svg;
    const char *image; /* of preflight: a root file system, not this machine */
    uint64_t timeout_usec;
    bool strict;
    bool fragment; /* of check: the documents are a part of a configuration */
    bool json;
    bool metrics;
    bool watch;
    bool dry_run;
    bool cut_grace; /* --deadline may leave pods less than their grace period */
    bool wait;
    char **args; /* what is left, NULL-terminated */
    int n_args;
};

struct nc_app {
    struct nc_options opts;
    sd_event *event;
    int signal;             /* the signal that asks us to stop; 0 = none */
    uint64_t deadline_usec; /* CLOCK_MONOTONIC; 0 = none */
};

int nc_app_loop(
    struct nc_app *app,
    struct nc_err *err); /* makes the loop on first use; SIGTERM and SIGINT set app->signal */
void nc_app_done(struct nc_app *app);

/* Turns the loop for at most usec. 0: the deadline has passed; -EINTR: asked to stop. */
int nc_app_pause(struct nc_app *app, uint64_t usec);
bool nc_app_is_late(const struct nc_app *app); /* the deadline has passed */
/* Time left until the deadline, at most `most`; 0 when it has passed. */
uint64_t nc_app_left(const struct nc_app *app, uint64_t most);
/* The same as a time limit of a request: never 0, so that what was begun in time can end. */
uint64_t nc_app_timeout(const struct nc_app *app, uint64_t most);

char *nc_app_path(const struct nc_app *app, const char *path); /* below --root; owned */
/* The same for what an option may name: what it names (`named` not NULL) is that path itself. */
char *nc_app_path_or(const struct nc_app *app, const char *named, const char *path);

/* Says an error on stderr as "nodeclaimd COMMAND: message" with its remedy, and gives the exit code
 * of its class. */
int nc_app_fail(const struct nc_app *app, const struct nc_err *err);

/* --- lock.c: whether a process of ours lives, by a lock that it holds */

#define NC_LOCK_DAEMON NC_RUN_DIR "/.daemon"
#define NC_LOCK_BOOTSTRAP NC_RUN_DIR "/.bootstrap"
/* Until the process ends or *ret_fd is closed. -EEXIST where another one holds it; what else goes
 * wrong is a reason to go on without. */
int nc_process_lock(const struct nc_app *app, const char *lock, int *ret_fd, struct nc_err *err);

/* 1 = the daemon that wrote this status is not there any more; 0 = it is; negative = that cannot be
 * known (-EACCES: not by this user). One that could make no lock, or is of a version without it, is
 * told by its process number. */
int nc_daemon_is_gone(const struct nc_app *app, const struct nc_value *status);
/* The bootstrap was ended in its middle: its last word, that it works, is not true any more. */
bool nc_bootstrap_is_gone(const struct nc_app *app, const struct nc_value *status);

/* --- status-file.c: status.json and metrics.prom: one file each, two writers.
 *
 * A bootstrap and the daemon run at the same time, in two processes. Each writes what is its own
 * and keeps what is the other's; a lock makes reading and writing one step. Nothing is known here
 * of what either has to say. */

enum nc_status_writer {
    NC_STATUS_BOOTSTRAP = 1, /* everything but `drain` and `daemon`; nodeclaimd_bootstrap_… */
    NC_STATUS_DAEMON,        /* `drain` and `daemon` of status.json; every other family */
};

/* NULL: that file is left as it is; status is consumed in any case. -EAGAIN (err untouched) where
 * the other one holds the lock for longer than this writer may wait: the daemon not at all, a
 * bootstrap for a moment (then it writes without it). */
int nc_status_files_write(const struct nc_app *app, enum nc_status_writer writer,
                          struct nc_value *status, const struct nc_buf *metrics,
                          struct nc_err *err);

/* status.json as it is now: its text, and (ret not NULL) the tree. -ENOENT where neither a
 * bootstrap nor the daemon has run since the machine started. */
int nc_status_file_read(const struct nc_app *app, struct nc_buf *text, struct nc_value **ret,
                        struct nc_err *err);
/* The same of metrics.prom. */
int nc_metrics_file_read(const struct nc_app *app, struct nc_buf *text, struct nc_err *err);
/* EC2's clock, as the daemon that wrote this tree last knew it, in microseconds since the epoch. */
uint64_t nc_status_now(const struct nc_value *status);

#endif
