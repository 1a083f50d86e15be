/*
 * What the parts of the running controller share.
 *
 * One thread, one loop. A watch posts what it sees, nc_controller_post steps the pure half
 * (nc/control.h) and carries out what it requests; each answer is posted as the next event.
 * Decisions are not made here.
 */
#ifndef NC_CONTROLLER_H
#define NC_CONTROLLER_H

#include <systemd/sd-event.h>

#include "listener.h"
#include "nc/kube-control.h"
#include "settings.h"

/* api-config.c: the connection to the API server: of a kubeconfig, or what a pod is given. */
struct nc_api_config {
    struct nc_kubeconfig config;
    char *ca_pem;
    char *pod_namespace; /* NULL: not in a pod */
    struct nc_token_file *token;
    struct nc_http *http;
    struct nc_kube *kube;
    uint64_t mark; /* of the files that it was opened with */
};

/* Reads the files and opens a handle; no request is made yet. NC_ERR_CONFIG, NC_ERR_HOST. */
int nc_api_config_open(sd_event *event, const struct nc_settings *s, struct nc_api_config *ret,
                       struct nc_err *err);
/* Were kubeconfig or roots replaced by others since? What cannot be read just now has not changed.
 */
bool nc_api_config_is_stale(const struct nc_settings *s, const struct nc_api_config *w);
/* Everything that was opened on w->kube must be closed before. */
void nc_api_config_close(struct nc_api_config *w);

/* instances.c: instances at EC2 and Auto Scaling, by provider ID: ended, or requested their name or
 * state; the state that their group has them in, and its lifecycle action. Answered once each.
 * Credentials come from where AWS' own programs look: the environment, a web identity token, IMDS.
 * Asynchronous; bounded in number and rate. */
struct nc_instances;

/* How the action `id` ended; MISSING where there is no such instance (any more, or yet), or no such
 * action. */
struct nc_instances_answer {
    uint64_t id;
    enum nc_control_answer answer;
    enum nc_control_refusal refusal;
    const char *name; /* the private DNS name, where name or state was requested; or NULL */
    const char *instance_state; /* static; EC2's word, where that was requested */
    const char *group, *state;  /* where those were requested */
};
typedef void (*nc_instances_fn)(void *userdata, const struct nc_instances_answer *answer,
                                const struct nc_err *err);
struct nc_instances_options {
    const struct nc_settings *settings;
    nc_instances_fn done;
    void *userdata;
};
int nc_instances_new(sd_event *event, const struct nc_instances_options *o,
                     struct nc_instances **ret, struct nc_err *err);
struct nc_instances *nc_instances_free(struct nc_instances *i);
void nc_instances_drop(struct nc_instances *i); /* all orders, without an answer */
/* An action whose verb is one of AWS: END_INSTANCE, DESCRIBE_INSTANCE, INSTANCE_STATE,
 * DESCRIBE_LIFECYCLE, RECORD_HEARTBEAT, COMPLETE_ACTION. Never answers before it returns. Negative
 * where it has no provider ID of EC2. */
int nc_instances_call(struct nc_instances *i, const struct nc_control_action *a,
                      struct nc_err *err);

/* Whose requests fail: each may fail while the others are well. What keeps most from being done
 * comes first in `status`. */
enum nc_trouble {
    NC_TROUBLE_CREDENTIALS = 0,
    NC_TROUBLE_WATCH,
    NC_TROUBLE_LEASE,
    NC_TROUBLE_WRITE,
    NC_TROUBLE_SCAN,
    NC_TROUBLE_REPLACEMENT,
    NC_TROUBLE_BOOT_FAILURES,
    _NC_TROUBLE_MAX
};
struct nc_failure {
    enum nc_trouble where;
    uint64_t what;     /* which request of these; 0 where there is one */
    bool is_over;      /* it has succeeded since */
    struct nc_err err; /* class NONE: a free place */
    uint64_t mono_usec;
};

/* cluster.c: for the callbacks of one watch */
struct nc_watched {
    struct nc_controller *controller;
    enum nc_control_kind kind;
};

struct nc_pending_write;    /* writer.c: a request in flight */
struct nc_replacement_walk; /* replacement-requests.c: the pods of a node */
struct nc_refused {
    uint64_t id;
    enum nc_control_answer answer;
};

struct nc_controller {
    const struct nc_settings *settings;
    sd_event *event;
    int signal;       /* that asked us to stop; 0 = none */
    bool is_stopping; /* the Lease is being given up */
    char *identity;
    uint64_t started_usec;

    /* controller.c */
    struct nc_api_config api_config;
    sd_event_source *check_timer, *publish_timer;
    unsigned checks, overdue; /* overdue: how often in a row the step was found late */
    bool is_stuck;

    /* cluster.c: what is seen */
    struct nc_karpenter *scan;
    enum nc_control_mode found; /* by its Lease */
    enum nc_control_mode mode;  /* as it was posted */
    bool was_scanned;
    char *paths[_NC_CONTROL_KIND_MAX]; /* of the collections; NULL = not installed, not wanted */
    struct nc_watch *watches[_NC_CONTROL_KIND_MAX];
    struct nc_watched watched[_NC_CONTROL_KIND_MAX];
    bool is_synced[_NC_CONTROL_KIND_MAX];
    struct nc_leader *leader;
    bool leads;

    /* writer.c: what is done */
    struct nc_control *control;
    sd_event_source *timer; /* nc_control_next */
    struct nc_pending_write *pending_writes;
    struct nc_refused *refused; /* actions that could not be sent: answered after the step */
    size_t n_refused;
    struct nc_instances *instances; /* of instances.c */
    uint64_t event_rate_usec;       /* the rate limit of Events as one moment */
    uint64_t api_boot_usec;         /* nc_kube_boot_usec() of the last API client that knew it */
    struct nc_control_actions waiting_events; /* Events that wait for those in flight */
    unsigned n_events_in_flight;              /* these */

    /* replacement-requests.c */
    struct nc_replacement_walk *walks; /* oldest first */
    uint64_t reported_pods[1024];      /* whose replacement is not possible */
    size_t n_reported_pods;

    /* boot-failures.c */
    struct nc_watch *boot_failures; /* a list that comes in; NULL = none */
    uint64_t boot_failures_usec;    /* not again before */
    unsigned n_boot_failures;       /* of that list */

    /* publish.c: what is reported */
    struct nc_listener *listener;
    struct nc_buf metrics; /* as last given */
    uint64_t metrics_until_usec;
    struct nc_failure failed[32];
    uint64_t failures, events_sent, events_held, led, relists;
    char *status_line;
    const char *doubts; /* as last said; NULL = none */
    unsigned publishes;
};

/* cluster.c. Opens whatever is watched and the leadership, with the API client that is open; closes
 * it. */
int nc_controller_open(struct nc_controller *c, struct nc_err *err);
void nc_controller_close(struct nc_controller *c);

/* Is the mode still the right one? NodeClaims may have come that deny it. */
void nc_controller_check_mode(struct nc_controller *c);

/* health.c */
bool nc_controller_is_synced(const struct nc_controller *c);
/* Why it is not; NULL where it is. Static. */
const char *nc_controller_waits_for(const struct nc_controller *c);
/* The step's time: the API server's, where ours is another one. */
uint64_t nc_controller_now(const struct nc_controller *c);
uint64_t nc_controller_boot_usec(const struct nc_controller *c); /* … when CLOCK_BOOTTIME was 0 */
/* What to do about it; "" where nothing is known. Static, or the error's own. */
const char *nc_controller_remedy(const struct nc_controller *c, const struct nc_err *err);
/* In `status`, until the same request succeeds, or it is long ago. */
void nc_controller_note_failure(struct nc_controller *c, enum nc_trouble where, uint64_t what,
                                const struct nc_err *err);
/* The same, counted, and logged where it is another one than before. */
void nc_controller_failed(struct nc_controller *c, enum nc_trouble where, uint64_t what,
                          const struct nc_err *err);
void nc_controller_succeeded(struct nc_controller *c, enum nc_trouble where, uint64_t what);
/* The last of these that has not succeeded since; NULL = none. */
const struct nc_err *nc_controller_trouble(const struct nc_controller *c, enum nc_trouble where);
void nc_controller_forget_failures(struct nc_controller *c); /* those that were long ago */

/* writer.c. e->now_usec is filled in here. */
void nc_controller_post(struct nc_controller *c, struct nc_control_event *e);
/* Posts LEAD where it is another answer than before. */
void nc_controller_lead(struct nc_controller *c, bool leads);
/* Do we lead by the clock, whatever was observed? */
void nc_controller_notice_lead(struct nc_controller *c);
/* The mode, and in which version NodeClaims are served. */
void nc_controller_post_mode(struct nc_controller *c);
/* A new, empty step, which is told what stays: rules, mode, whether we lead. */
void nc_controller_begin(struct nc_controller *c);
void nc_controller_end(struct nc_controller *c);
/* Has the step been wanting to run for long? */
bool nc_controller_is_late(struct nc_controller *c);

/* replacement-requests.c. See to the pods of this node that wait for their replacement. What is in
 * progress is not begun twice; where too many nodes wait it is left, for it is requested again. */
void nc_controller_replace(struct nc_controller *c, const char *node, uint64_t since_usec);
void nc_controller_drop_replacements(struct nc_controller *c); /* without an answer */

/* boot-failures.c. Lists what is known of NodeClaims without a Node, where that is due. */
void nc_controller_check_boots(struct nc_controller *c);

/* publish.c */
int nc_controller_listen(struct nc_controller *c, struct nc_err *err);
/* STATUS= of the service manager, on change. */
void nc_controller_publish(struct nc_controller *c);

/* The commands. Each gives the exit code. */
int nc_controller_run(const struct nc_settings *s);
int nc_controller_status(const struct nc_settings *s);
int nc_controller_version(const struct nc_settings *s);

#endif
