/*
 * One bootstrap under way: what its phases share.
 */
#ifndef NC_BOOTSTRAP_H
#define NC_BOOTSTRAP_H

#include "connect.h"
#include "gather.h"
#include "nc/report.h"

struct nc_bootstrap {
    struct nc_app *app;
    struct nc_gather gather;
    struct nc_report report;
    struct nc_apply_result applied;
    uint64_t seed;              /* of the retries' jitter */
    uint64_t started_mono_usec; /* what report.started_usec is on the monotonic clock */
    enum nc_kubelet_start start;

    struct nc_connection connection;
    bool is_connected; /* the API server has answered who we are */
    struct nc_claim claim;
    bool has_claim;

    int kubelet_pid, kubelet_fd; /* start mode exec; 0 = there is none */
    unsigned kubelet_restarts;   /* start mode systemd: how often before we started it */
    struct nc_units *units;
    /* The start of the kubelet that runs, by the wall clock of then and by the monotonic clock; 0 =
     * nobody has told: somebody else starts it. */
    uint64_t kubelet_start_usec, kubelet_start_mono_usec;

    struct nc_watch *watch;
    struct nc_value *node; /* as last seen; NULL = there is none */
    bool node_changed;
    bool is_synced;
    struct nc_err watch_error; /* class NONE while the watch is well */
    uint64_t watch_error_usec; /* monotonic, as the next two */
    uint64_t renew_after_usec;
    uint64_t words_usec;         /* when the last words were read */
    char *words;                 /* kubelet's last words, as nc_kubelet_last_words gives them */
    struct nc_err kubelet_error; /* class NONE while kubelet is well */

    char *event_name; /* our Event, once created */
    unsigned event_count;
    uint64_t event_usec;      /* monotonic: when it was last sent, or tried */
    uint64_t log_usec;        /* monotonic: when a phase that waits last came to the log */
    char *condition_reason;   /* as last written to the Node */
    uint64_t node_after_usec; /* monotonic: a write that failed is not tried again before */
    bool status_failed;       /* status.json could not be written: said once */
};

/* channels.c: how the world hears of it. None of them fails a bootstrap. */
void nc_publish(struct nc_bootstrap *b);         /* status.json and metrics.prom */
void nc_publish_console(struct nc_bootstrap *b); /* one line on the serial console */
void nc_publish_event(struct nc_bootstrap *b,
                      uint64_t timeout_usec); /* an Event on the NodeClaim, or on the Node */
/* The same while the phase is still tried, once that is no longer ordinary: not before ten seconds,
 * and then brought up to date once a minute. */
void nc_publish_event_in_time(struct nc_bootstrap *b, enum nc_phase p);
/* Condition BootstrapComplete (True, or False with the reason) and the annotation, where the Node
 * may be written to; only on change. */
void nc_publish_node(struct nc_bootstrap *b, const char *reason, const char *message,
                     bool complete);

/* preflight.c: the step of phase `preflight`: who are we there, how late is the clock, is our name
 * free, which NodeClaim is ours. */
int nc_step_preflight(struct nc_bootstrap *b, struct nc_err *err);
/* Sysctls that kubelet insists on, as sentences; needs only facts and plan. */
void nc_check_sysctls(const struct nc_facts *f, const struct nc_plan *p, struct nc_strv *sentences);

/* start.c: kubelet. */
/* Brings the files to disk, counted in b->applied; leaves a mark until kubelet was started from
 * them. */
int nc_step_apply(struct nc_bootstrap *b, struct nc_err *err);
int nc_step_start(struct nc_bootstrap *b, struct nc_err *err);
/* Is the kubelet that we started alive? 0 = yes or unknown; negative with its last lines quoted. */
int nc_check_kubelet(struct nc_bootstrap *b, struct nc_err *err);
/* When it was started, for nc_node_is_reported_since; 0 where that is not known. */
uint64_t nc_kubelet_since(const struct nc_bootstrap *b);
/* " Its last lines: …", owned; "" where there are none. */
char *nc_kubelet_last_words(struct nc_bootstrap *b);

/* node.c: the Node appears; the Node is initialized. */
/* Negative where the Node of our name is another instance's, by its providerID. */
int nc_check_node_is_ours(const struct nc_bootstrap *b, const struct nc_value *node,
                          struct nc_err *err);
int nc_step_register(struct nc_bootstrap *b, struct nc_err *err);
int nc_step_initialize(struct nc_bootstrap *b, struct nc_err *err);

/* bootstrap.c, for the steps that wait: the phase goes on, with this to say. */
void nc_phase_says(struct nc_bootstrap *b, enum nc_phase p, const struct nc_err *err);
/* The time for the report: the wall clock of the start and what has passed since. A clock that is
 * set on the way (the first NTP answer comes at boot) changes no duration. */
uint64_t nc_report_now(const struct nc_bootstrap *b);
uint64_t nc_phase_age(const struct nc_bootstrap *b, enum nc_phase p);

/* The command `bootstrap`: takes the options and gives the exit code. */
int nc_command_bootstrap(struct nc_app *app);

#endif
