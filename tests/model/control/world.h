/*
 * A small cluster around the controllers, on a virtual clock: an API server with watches that lag,
 * break and repeat themselves, launchers, kubelets, agents, hostile nodes, Karpenter, EC2, people,
 * two controllers of which one leads, kills, faults. Everything random comes from one seed.
 *
 * A controller is nc/control.h and nothing else: its actions become requests that take time and may
 * get lost; what comes of them returns as events. The judge (judge.h) watches both sides.
 */
#ifndef CONTROL_MODEL_WORLD_H
#define CONTROL_MODEL_WORLD_H

#include <stdio.h>

#include "nc/control.h"

#define SEC 1000000ull
#define MSEC 1000ull
#define KINDS _NC_CONTROL_KIND_MAX
#define MAX_OBJECTS 128
#define MAX_MACHINES 24
#define MAX_POOLS 3
#define MANY_TAINTS 80 /* of 60 bytes: more than a controller reads */
#define N_PROCS 2
#define MAX_WINDOWS 3

#define REQUEST_KEY "nodeclaimd.io/drain-request"
#define STATUS_KEY "nodeclaimd.io/drain-status"
#define POOL_KEY "karpenter.sh/nodepool"
#define ZONE_KEY "topology.kubernetes.io/zone"
#define DO_NOT_DISRUPT "karpenter.sh/do-not-disrupt"
#define KARPENTER_FINALIZER "karpenter.sh/termination"

enum thing {
    THING_TICK = 1,  /* a controller's timer; a = process, b = its generation */
    THING_HEARTBEAT, /* nothing happens: the judge looks */
    THING_START,     /* a process starts; a */
    THING_KILL,      /* the leader is killed */
    THING_DEPOSE,    /* the leader loses the lease and lives on */
    THING_LEAD,      /* somebody who lives takes the lease */
    THING_MODE,      /* a process finds out who else is there */
    THING_LIST,      /* a = process * KINDS + kind, b = generation: the server reads the list */
    THING_LISTED,    /* it arrives; data = struct listed */
    THING_STREAM,    /* the next event of a watch arrives; a, b as above */
    THING_GAP,       /* a watch breaks */
    THING_ARRIVES,   /* a request reaches the server; data = struct request */
    THING_ANSWERED,  /* its answer comes back */
    THING_LAUNCH,    /* a = machine: the claim gets its providerID */
    THING_JOIN,      /* a = machine: its Node is created */
    THING_READY,     /* a = machine */
    THING_AGENT,     /* a = machine: its agent looks and speaks */
    THING_NOTICE,    /* a = machine, b = what is announced */
    THING_HOSTILE,   /* a = machine: it says anything */
    THING_SILENT,    /* a = machine: its Node not Ready for a while, and it runs */
    THING_GATE,      /* a = machine, b = step: its boots, and whether it is fit */
    THING_OVER,      /* a = machine: it is down, its Node not Ready */
    THING_KARPENTER, /* a = object: Karpenter ends a claim that is being deleted; b = 1: its end is
                        noted, or moves */
    THING_PERSON,    /* somebody meddles */
    THING_QUIET,     /* faults and people end */
};

struct due {
    uint64_t at_usec, order;
    enum thing kind;
    unsigned a, b;
    void *data; /* owned */
};

struct object {
    enum nc_control_kind kind;
    struct nc_value *v; /* NULL = gone */
    char name[32], uid[24];
};

/* What a watch tells: an object as it was then, or that it is gone. */
struct told {
    enum nc_control_kind kind;
    unsigned object;
    bool is_gone;
    struct nc_value *v;
};

struct listed {
    struct nc_value *items[MAX_OBJECTS];
    size_t n, log_at;
};

struct machine {
    bool is_there, has_joined, is_over, is_hostile, is_mute; /* mute: no agent ever speaks */
    unsigned claim;                                          /* object */
    char node[32], provider[48];
    unsigned boot;         /* that it is in, from 1; 0 = it has no gate */
    uint64_t shut_usec;    /* since when it is fit, and its taint is there */
    uint64_t over_usec;    /* since when is_over */
    uint64_t spot_usec;    /* deadline of what is announced; 0 = nothing is */
    uint64_t noticed_usec; /* the notice of that */
    uint64_t acts_usec;    /* until then it only reports that */
    const char *way;       /* how it acts: what its drain status states beside */
    bool is_maintenance, is_rebalanced;
    unsigned notices;
    uint64_t drain_usec; /* since when it drains */
    char drain_id[64];
    uint64_t drain_duration_usec;
    char announced[512]; /* its last word */
    uint64_t reported_usec;
};

struct request {
    unsigned proc, life;
    struct nc_control_action action; /* owned copy */
    enum nc_control_answer answer;
    uint64_t retry_after_usec;
    const char *name, *state; /* of INSTANCE_STATE: what EC2 has answered */
    struct nc_value *object;  /* of GET_NODE: as it was then */
    bool is_lost;             /* its answer does not come; or it does not even arrive */
    bool is_dropped;
};

struct watch {
    bool is_open, has_listed;
    unsigned generation;
    size_t at; /* in the log */
    uint64_t last_usec;
    bool is_known[MAX_OBJECTS]; /* shown and not said to be gone */
};

struct process {
    struct nc_control *c; /* NULL = does not run */
    unsigned life;        /* counted up with each start */
    bool leads, is_mode_posted;
    bool was_fooled; /* it was told that Karpenter runs, by what anybody can write */
    unsigned ticks, spins;
    uint64_t spin_usec;
    struct watch watches[KINDS];
};

struct window {
    uint64_t from_usec, to_usec;
};

struct judge;
struct world {
    uint64_t seed, random, start_usec, now_usec, quiet_usec, end_usec;
    bool is_traced, is_standalone, has_faults, is_quiet;
    struct nc_control_rules rules;
    struct process procs[N_PROCS];
    int leader; /* -1 = nobody */
    struct window away[MAX_WINDOWS], refused[MAX_WINDOWS];
    uint64_t good_usec; /* since when somebody leads, has listed all, and the API answers */

    struct object objects[MAX_OBJECTS];
    unsigned n_objects, n_uids;
    uint64_t rv;
    struct told *log;
    size_t n_log;
    struct machine machines[MAX_MACHINES];
    unsigned n_machines, n_pools;

    struct due *queue;
    size_t n_queue;
    uint64_t order;

    int sabotage; /* enum sabotage of sabotage.h; 0 = none */
    unsigned sabotaged;
    struct nc_control_action kept; /* of a saboteur */
    struct judge *judge;
};

/* world.c */
void world_init(struct world *w, uint64_t seed, bool is_traced);
void world_done(struct world *w);
bool world_next(struct world *w, struct due *ret);
void world_free_due(struct due *d);
void world_post(struct world *w, uint64_t in_usec, enum thing kind, unsigned a, unsigned b,
                void *data);
uint64_t world_below(struct world *w, uint64_t n);
bool world_chance(struct world *w, unsigned percent);
uint64_t world_between(struct world *w, uint64_t from, uint64_t to);
void world_log(const struct world *w, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool world_is_in(const struct window *windows, uint64_t now_usec);
/* JSON with printf. Owned. */
struct nc_value *world_json(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* birth.c: the cluster as it is in the beginning. */
void birth(struct world *w);

/* server.c */
struct object *server_find(struct world *w, enum nc_control_kind k, const char *name);
struct object *server_create(struct world *w, enum nc_control_kind k, const char *name,
                             struct nc_value *v);
/* Somebody else's merge patch, without conditions; NULL object and gone ones are allowed. */
void server_merge(struct world *w, struct object *o, struct nc_value *patch);
void server_mergef(struct world *w, struct object *o, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void server_remove(struct world *w, struct object *o); /* with all finalizers */
void server_delete(struct world *w, struct object *o); /* as a DELETE does */
enum nc_control_answer server_serve(struct world *w, const struct nc_control_action *a);

/* process.c */
void process_happen(struct world *w, const struct due *due);
void process_changed(struct world *w, enum nc_control_kind k); /* the log has grown by one */
void process_post(struct world *w, unsigned p, struct nc_control_event *e);
void process_send(struct world *w, unsigned p, const struct nc_control_action *a);
/* The step is told this answer to what was never sent. */
void process_pretend(struct world *w, unsigned p, const struct nc_control_action *a,
                     enum nc_control_answer answer);
void process_free(struct world *w, unsigned p);
struct nc_control_action action_copy(const struct nc_control_action *a);
void action_done(struct nc_control_action *a);

/* gate.c: a Node that has joined may be gated. */
void gate_join(struct world *w, unsigned i, struct object *node);
void gate_happen(struct world *w, const struct due *due);
/* Of a saboteur: whatever the Node states is borne out. */
void gate_embellish(struct nc_value *node);

/* actors.c */
void actors_happen(struct world *w, const struct due *due);
void actors_instance_ended(struct world *w, const char *provider_id);
/* What EC2 calls it: the Node of the machine that was launched for a claim; NULL = there is none.
 */
const char *actors_name_of(const struct world *w, const char *provider_id);
/* EC2's word for it; NULL: it does not know it. */
const char *actors_state_of(const struct world *w, const char *provider_id);
bool actors_has_instance(const struct world *w, const char *provider_id);

/* thin.c: an object as a watch that keeps these paths has it. Owned. */
struct nc_value *thin(const struct nc_value *v, const char *keep);

#endif
