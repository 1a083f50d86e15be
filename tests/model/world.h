/*
 * A small world around one daemon, on a virtual clock: API server, kubelet, controllers, people,
 * announcements, faults, kills. Everything random comes from one seed, so a world replays.
 *
 * The daemon is nc/lifecycle.h and nothing else: its actions become requests that take time and may
 * get lost; what comes of them returns as events, in any order that the real streams could have.
 */
#ifndef MODEL_WORLD_H
#define MODEL_WORLD_H

#include <stdio.h>

#include "nc/hint.h"
#include "nc/lifecycle.h"
#include "rules.h"

#define MSEC 1000ull
#define WORLD_MAX_BUDGETS 3
#define WORLD_CAUGHT_UP UINT32_MAX /* in place of the number of a watch */
#define WORLD_MAX_OUTAGES 3

enum thing {
    THING_TICK = 1,  /* the daemon's timer; a = its generation */
    THING_HEARTBEAT, /* nothing happens: the judge looks */
    THING_POLL,      /* a source is asked; a = source */
    THING_SOURCE,    /* an announcement begins, changes or ends; a = source, b = turn */
    THING_REFRESH,   /* our Node is requested again */
    THING_NODE_SEEN, /* the watch of our Node; data = view */
    THING_POD_SEEN,  /* the watch of the pods; a = pod, data = pod or NULL where it is gone */
    THING_LISTED,    /* the list of pods is read by the server */
    THING_SYNCED,
    THING_ARRIVES,   /* a request reaches the server; data = request */
    THING_ANSWERED,  /* its answer reaches the daemon */
    THING_POD_ENDS,  /* kubelet; a = pod, b = its generation */
    THING_POD_STOPS, /* it succeeds by itself; a = pod */
    THING_BUDGET,    /* a replacement is healthy elsewhere; a = budget */
    THING_BIND,      /* a pod is created and bound here; a = 1: a DaemonSet's */
    THING_DETACHED,  /* a volume is */
    THING_PERSON,    /* a = what they do */
    THING_KARPENTER,
    THING_RELIST, /* the watch of the pods has lost its place and lists them anew */
    THING_RULES,
    THING_HOOK, /* a = which, b = its state */
    THING_KILL, /* a = 1: reboot; 2: a shutdown comes to its end */
    THING_START,
    THING_NODE_GONE,
    THING_NODE_BACK,
    THING_HINT,     /* a signal on the bus, of logind or of a stranger */
    THING_PROPERTY, /* logind is asked, or answers; a = which read, b = 2 or the value */
    THING_CLOCK,    /* the daemon learns how far off its clock is; a = which correction */
};

struct thing_due {
    uint64_t at_usec;
    unsigned order;
    enum thing kind;
    unsigned a, b, life; /* life: which daemon it is meant for; 0 = whichever */
    void *data;          /* owned */
};

struct world_pod {
    bool exists, has_started;
    uint64_t bound_usec;
    uint64_t unreadable_until_usec; /* until then no list and no watch shows what it is */
    enum nc_tier tier;
    enum nc_pod_order order;
    bool is_daemon, is_mirror, is_terminal, tolerates, never_disrupt, is_job, is_namespace_going;
    bool has_dead_webhook; /* its namespace has: evictions hang, and fail then */
    uint64_t keep_until_usec, grace_sec, deletion_usec, deletion_grace_sec;
    unsigned budgets; /* bits */
    enum { ENDS_EARLY, ENDS_IN_TIME, ENDS_NEVER } ends;
    unsigned generation;
    bool has_volume;
    uint64_t needs_usec; /* to end by itself, in a paired world; and what became of it there */
    uint64_t began_usec, gone_usec;
    bool was_killed;
};

struct world_budget {
    int allowed;
    bool is_never;
};

struct world_node {
    bool exists, is_deleting, has_taint, is_unschedulable, has_record, has_status;
    enum { LABEL_NONE, LABEL_OURS, LABEL_FOREIGN } label;
    bool is_pending, is_drained;
    unsigned uid, version;
    size_t n_volumes;
    uint64_t held_usec;    /* when it came back, or its taint was set or taken away */
    uint64_t foreign_usec; /* since when somebody else's cordon stands */
};

struct world_source {
    bool is_on;
    struct nc_notice notice;
};

struct request {
    enum { REQUEST_WRITE, REQUEST_POD, REQUEST_REFRESH } kind;
    struct nc_node_write write; /* without its texts */
    bool has_record_text, has_status_text;
    enum nc_drain_verb verb;
    unsigned pod;
    uint64_t grace_sec, sent_usec, timeout_usec, t_usec;
    bool is_informed; /* the daemon knew when the pod would end */
    enum nc_write_outcome outcome;
    struct nc_pod_answer answer;
    struct nc_node_view view;
    unsigned version;
    bool has_view;
    uint64_t retry_after_usec;
};

struct world {
    uint64_t seed, random;
    uint64_t clock_random; /* of its own: worlds without a correction stay as they were */
    bool is_traced;
    uint64_t now_usec, start_usec, end_usec, busy_until_usec;
    struct thing_due *queue;
    size_t n_queue, queue_room;
    unsigned order;

    struct world_node node;
    struct world_pod pods[MODEL_MAX_PODS];
    bool is_born; /* what is there from the beginning is */
    unsigned n_pods, n_late;
    struct world_budget budgets[WORLD_MAX_BUDGETS];
    unsigned n_budgets;
    struct world_source sources[_NC_SOURCE_MAX];
    uint64_t claim_t_usec;
    bool karpenter_evicts;
    bool is_meddled; /* people undid what we did */
    bool is_over;    /* the machine is gone for good */
    bool is_paired;  /* with its twin: pods end as they need, budgets open for all */
    bool is_inhibitor_released, ends_in_reboot;
    uint64_t changed_usec; /* pods or volumes: the last time that something was left or moved */

    struct {
        uint64_t from_usec, to_usec;
        bool is_silent; /* no answer at all; else refused at once */
    } outages[WORLD_MAX_OUTAGES];
    unsigned n_outages;
    unsigned lost_percent, error_percent, busy_percent, hold_percent, missing_percent;
    bool refuses_status, refuses_patch, refuses_evictions, refuses_marks;
    uint64_t latency_usec;

    int64_t clock_off_usec; /* so far the daemon takes EC2's clock to be ahead of what it is */
    struct nc_lifecycle *life;
    struct nc_lifecycle_rules config;
    struct nc_node_view view; /* what the daemon holds of its Node */
    struct nc_hint shutdown;  /* what the daemon holds of logind's property */
    unsigned property_number, property_failures;
    bool is_node_known, waits_for_whole;
    bool minds_versions;                   /* what is older than what is known is not trusted */
    unsigned whole_version, watch_version; /* of what was seen last */
    unsigned life_number, tick_number, watch_number;
    uint64_t armed_usec; /* of the timer; UINT64_MAX = not armed */
    bool is_unsettled;   /* it was told that more follows: a tick is owed to it */
    bool is_looking, is_refresh_wanted;
    uint64_t node_stream_usec, pod_stream_usec;
    bool is_listed;
    unsigned n_actions, kill_at_action;
    unsigned kills_left;
    struct nc_value *saved, *older;
    struct rules_memory saved_memory, older_memory;

    struct rules rules;
};

/* world.c */
void world_init(struct world *w, uint64_t seed, bool is_traced);
void world_begin(struct world *w, uint64_t seed, bool is_traced); /* one that is empty yet */
void world_done(struct world *w);
void world_log(const struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
uint64_t world_random(struct world *w, uint64_t below);
uint64_t world_between(struct world *w, uint64_t from, uint64_t to);
bool world_chance(struct world *w, unsigned percent);
void world_plan_clock(struct world *w);
void world_correct_clock(struct world *w, unsigned n);
struct thing_due *world_plan(struct world *w, uint64_t at_usec, enum thing kind, unsigned a,
                             unsigned b);
bool world_next(struct world *w, struct thing_due *ret);
const struct nc_lifecycle_rules *world_random_rules(struct world *w);

/* birth.c */
void world_populate(struct world *w);
unsigned world_bear_pod(struct world *w, bool is_daemon);

/* server.c */
void world_arrive(struct world *w, struct thing_due *due);
void world_node_view(const struct world *w, struct nc_node_view *ret);
void world_node_changed(struct world *w);
void world_pod_changed(struct world *w, unsigned pod);
void world_list(struct world *w);
uint64_t world_latency(struct world *w);
uint64_t world_unavailable_until(const struct world *w, uint64_t at_usec); /* 0 = it is there */
/* grace_sec 0: the pod's own. */
enum nc_pod_answer_kind world_evict(struct world *w, unsigned pod, uint64_t grace_sec);
void world_remove_pod(struct world *w, unsigned pod);
bool world_is_left(const struct world *w, const struct world_pod *p, bool leaves_tolerating);

/* actors.c */
void world_action(struct world *w, const struct thing_due *due);

/* bus.c */
void host_hint(struct world *w);
void host_greet_logind(struct world *w);
void host_property(struct world *w, unsigned number, unsigned value);

/* host.c, host-send.c, host-life.c: the daemon's process */
void host_happen(struct world *w, struct thing_due *due);
void host_post(struct world *w, struct nc_lifecycle_event *e);
void host_carry_out(struct world *w, const struct nc_lifecycle_action *a);
void host_look(struct world *w);
void host_start(struct world *w, bool is_same_boot);
void host_kill(struct world *w, bool is_reboot, uint64_t away_usec);
void host_end_machine(struct world *w); /* a shutdown that was not called off */
void host_done(struct world *w);

#endif
