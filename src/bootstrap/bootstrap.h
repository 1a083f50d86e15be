/*
 * One bootstrap in progress: what its steps share.
 */
#ifndef NC_BOOTSTRAP_H
#define NC_BOOTSTRAP_H

#include "connect.h"
#include "gather.h"
#include "nc/host.h"
#include "nc/report.h"

/* kubelet, as a unit or as a process: start.c's. */
struct nc_kubelet_run {
    enum nc_kubelet_start mode;
    struct nc_units *units;
    unsigned restarts; /* of the unit: how often before we started it */
    int pid, fd;       /* of the process; 0 = there is none */
    /* Its start by the wall clock of then and by the monotonic clock; 0 = nobody has told: somebody
     * else starts it. */
    uint64_t started_usec, started_mono_usec;
    char *last_lines; /* as nc_last_lines gives them */
    uint64_t last_lines_usec;
};

/* What cloud-init is waited for: cloud-init.c's. */
struct nc_cloud_init {
    bool waits;     /* its stages come before ours */
    bool is_forced; /* by spec.bootstrap.waitForCloudInit */
    bool has_ended; /* its final stage was waited for */
};

/* Our own Node and the watch of it: registration.c's. Times are monotonic. */
struct nc_node_watch {
    struct nc_watch *watch;
    struct nc_value *object; /* as last seen; NULL = there is none */
    bool has_changed;
    bool is_claim_read;  /* by its ownerReference: asked once */
    struct nc_err error; /* class NONE while the watch is well */
    uint64_t error_usec;
    struct nc_err kubelet_error; /* class NONE while kubelet is well */
    uint64_t renew_after_usec;   /* of the token */
};

/* What the world has been told: channels.c's. Times are monotonic. */
struct nc_channels {
    char *event_name; /* our Event, once created */
    unsigned event_count;
    uint64_t event_usec;      /* when it was last sent, or tried */
    char *condition_reason;   /* as last written to the Node */
    uint64_t node_after_usec; /* a write that failed is not tried again before */
    uint64_t log_usec;        /* when a phase that waits last came to the log */
    uint64_t console_usec;    /* when the console last had a line */
    unsigned console_phases;  /* whose failure it has had: bits of enum nc_phase */
    size_t warnings_logged;   /* of report.warnings */
    bool status_failed;       /* status.json could not be written: logged once */
};

struct nc_bootstrap {
    struct nc_app *app;
    int lock_fd;             /* held while this process lives; 0 = it could not be had */
    struct nc_gather gather; /* from facts to files: each is const once its step is over */
    struct nc_connection connection;
    bool is_warming;           /* for a warm pool: all is prepared, and kubelet is not started */
    bool is_connected;         /* the API server has answered who we are */
    struct nc_claim claim;     /* as the API server has it; name NULL = not read */
    struct nc_fileset written; /* by this run, where scripts may touch them; it counts as known */
    struct nc_strv seen;       /* before the documents were read: scripts.c's */
    struct nc_apply_result applied;
    struct nc_apply_result applied_first; /* by nc_step_host_first */
    unsigned due;                         /* bits of enum nc_due: of this run, due.c's */
    struct nc_report report;
    uint64_t started_mono_usec; /* what report.started_usec is on the monotonic clock */
    struct nc_kubelet_run kubelet;
    struct nc_cloud_init cloud_init;
    struct nc_node_watch node;
    struct nc_channels channels;
};

/* channels.c: how the world learns of it. None of them fails a bootstrap. */
/* status.json and metrics.prom, and the console where it is time for a line. */
void nc_publish(struct nc_bootstrap *b);
void nc_publish_console(struct nc_bootstrap *b); /* one line on the serial console */
/* The same while a phase is tried: at its first failure, then once a minute; where it only waits,
 * once a minute. */
void nc_publish_console_in_time(struct nc_bootstrap *b);
void nc_publish_event(struct nc_bootstrap *b,
                      uint64_t timeout_usec); /* an Event on the NodeClaim, or on the Node */
/* Events for what the node starts without: fields that are not honoured, the credential provider.
 */
void nc_publish_missing(struct nc_bootstrap *b);
/* The same while the phase is still tried: not before ten seconds, of what each new node waits for
 * (is_ordinary) a minute, or a third of the timeout if that is less; then once a minute. */
void nc_publish_event_in_time(struct nc_bootstrap *b, enum nc_phase p, bool is_ordinary);
/* Condition BootstrapComplete (True, or False with the reason) and the annotation, where the Node
 * may be written to; only on change. */
void nc_publish_node(struct nc_bootstrap *b, const char *reason, const char *message,
                     bool complete);

/* The phase goes on, and this is why: for the steps that wait. */
void nc_phase_waits(struct nc_bootstrap *b, enum nc_phase p, const struct nc_err *why);
/* A line of the log; `then`: what happens next, "" for nothing. */
void nc_log_failure(const struct nc_bootstrap *b, enum nc_phase p, const struct nc_err *err,
                    const char *then);
/* Of a kubelet that ends: its last lines say what it does not like, but not whose that is. */
const char *nc_kubelet_remedy(const char *last_lines);
/* The API server takes this client for somebody else than "system:node:NAME". */
int nc_refuse_identity(const char *username, const char *expected, struct nc_err *err);
/* Completes the remedy of a first request that has failed by what this machine knows: its role, the
 * place of what the documents say. */
void nc_advise_connection(const struct nc_gather *g, const struct nc_connection *c,
                          const struct nc_kube_status *status, struct nc_err *err);
#define NC_CHECK_MAPPING                                                                           \
    "check the role's mapping in the cluster (access entry or aws-auth), the cluster's name and "  \
    "its CA"
/* What is usual in that phase, where the error has none. */
void nc_fill_remedy(struct nc_err *err, enum nc_phase p);
/* Adds how a value is corrected that stands at this place of a document. */
void nc_remedy_by_source(struct nc_err *err, const char *place);
/* The time for the report: the wall clock of the start and what has passed since. A clock that is
 * set on the way (the first NTP answer comes at boot) changes no duration. */
uint64_t nc_report_now(const struct nc_bootstrap *b);
uint64_t nc_phase_age(const struct nc_bootstrap *b, enum nc_phase p);

/* preflight.c: who are we there, how late is the clock, is our name free, which NodeClaim is ours.
 */
/* The NodeClaim: the API server's, or a document's; NULL = none is known. */
const struct nc_claim *nc_bootstrap_claim(const struct nc_bootstrap *b);
/* Negative where the Node of our name is another instance's, by its providerID. */
int nc_check_node_is_ours(const struct nc_bootstrap *b, const struct nc_value *node,
                          struct nc_err *err);
int nc_step_preflight(struct nc_bootstrap *b, struct nc_err *err);
/* Sysctls that kubelet insists on, as sentences; needs only facts and plan. */
void nc_check_sysctls(const struct nc_facts *f, const struct nc_plan *p, struct nc_strv *sentences);

/* host.c: what comes before kubelet. Files are counted in b->applied. */
/* Environment and resolver, and what reads them; where there are any, already before the API server
 * is looked for, which may be reached through them only. */
bool nc_host_comes_first(const struct nc_bootstrap *b);
int nc_step_host_first(struct nc_bootstrap *b, struct nc_err *err);
int nc_step_host(struct nc_bootstrap *b, struct nc_err *err);
bool nc_local_disks_are_wanted(const struct nc_bootstrap *b);
int nc_step_disks(struct nc_bootstrap *b, struct nc_err *err);
/* Has it files, or another environment than it was started with? */
bool nc_containerd_is_concerned(const struct nc_bootstrap *b);
int nc_step_containerd(struct nc_bootstrap *b, struct nc_err *err);

/* cloud-init.c: whether its stages are waited for, from the documents as they are; for the report,
 * too. */
void nc_cloud_init_decide(struct nc_bootstrap *b);
/* Waits until cloud-init's network stage has ended, or is not to come; not where the documents
 * forbid that. */
int nc_cloud_init_wait_network(struct nc_bootstrap *b, struct nc_err *err);
/* The same for its final stage, where that was decided; NC_ERR_TRANSIENT at the deadline. */
int nc_cloud_init_wait_final(struct nc_bootstrap *b, struct nc_err *err);
/* The connection to systemd, b->kubelet.units, made where it is not there; waits for the system bus
 * where the machine is still booting. */
int nc_units_open(struct nc_bootstrap *b, struct nc_err *err);

/* scripts.c: what cloud-init's scripts leave. The first notes what is there, before it is read; the
 * step waits for the scripts, and names in report.changed what is another since, our own files too;
 * then all steps from the documents on run again. */
void nc_scripts_note(struct nc_bootstrap *b);
bool nc_scripts_are_awaited(const struct nc_bootstrap *b);
int nc_step_scripts(struct nc_bootstrap *b, struct nc_err *err);

/* due.c: what must be done over D-Bus because a file has changed.
 *
 * It is written down before the file changes and forgotten once it is done: a run that ended in
 * between leaves it to the next one, which finds nothing to write. Below /run: after a reboot all
 * is read anew anyway. */
enum nc_due {
    NC_DUE_RELOAD = 0, /* systemd reads its files again */
    NC_DUE_RESOLVER,   /* each other: the unit is started again */
    NC_DUE_DISKS,
    NC_DUE_CONTAINERD,
    NC_DUE_KUBELET,
    _NC_DUE_MAX
};
bool nc_is_due(const struct nc_bootstrap *b, enum nc_due d);
void nc_due_done(struct nc_bootstrap *b, enum nc_due d);
/* Marks what is due because somebody has changed that file. */
void nc_due_by_path(struct nc_bootstrap *b, const char *path);
/* Brings one stage of the files to disk; what is due by that is written down before. Adds to
 * *count. */
int nc_apply_stage(struct nc_bootstrap *b, const struct nc_fileset *files, enum nc_file_stage stage,
                   struct nc_apply_result *count, struct nc_err *err);

/* start.c: kubelet, and other units. */
/* Starts a unit and follows it while systemd starts it again; `phase` waits meanwhile. What has
 * become of it when the time is over is the error (-ETIMEDOUT): the bootstrap's, and `timeout_usec`
 * where it has to be active. Each error has the unit's last lines. */
int nc_start_unit(struct nc_bootstrap *b, enum nc_phase phase, const struct nc_unit_start *s,
                  struct nc_err *err);

/* Brings kubelet's files to disk. */
int nc_step_apply(struct nc_bootstrap *b, struct nc_err *err);
/* The files are this run's: what was changed in them is kept as long as they are to be the same. */
void nc_applied(struct nc_bootstrap *b);
/* Has this boot come to kubelet's start yet? */
bool nc_is_marked(const struct nc_bootstrap *b);
int nc_step_start(struct nc_bootstrap *b, struct nc_err *err);
/* Is the kubelet that we started alive? 0 = yes or unknown; negative with its last lines quoted. */
int nc_check_kubelet(struct nc_bootstrap *b, struct nc_err *err);
/* When it was started, for nc_node_is_reported_since; 0 where that is not known. */
uint64_t nc_kubelet_since(const struct nc_kubelet_run *k);

/* start-process.c. Starts kubelet, ending one of an earlier run first where its files have changed;
 * one that runs with these files already is not touched. */
int nc_start_process(struct nc_bootstrap *b, struct nc_err *err);
/* 0 while it lives; negative, with its last words, once it has ended. */
int nc_check_process(struct nc_bootstrap *b, struct nc_err *err);

/* last-lines.c. Where kubelet's output goes as a process: --kubelet-log, or the default below the
 * root. Owned. */
char *nc_kubelet_log(const struct nc_bootstrap *b);
/* "; its last lines: …" of the unit that was started last, or of kubelet as a process; "" where
 * there are none. Borrowed until the next call. */
const char *nc_last_lines(struct nc_bootstrap *b, const char *unit);

/* registration.c: the Node appears; the Node is initialized. */
int nc_step_register(struct nc_bootstrap *b, struct nc_err *err);
int nc_step_initialize(struct nc_bootstrap *b, struct nc_err *err);
void nc_node_watch_done(struct nc_node_watch *n);

/* The command `bootstrap`: takes the options and gives the exit code. */
int nc_command_bootstrap(struct nc_app *app);

#endif
