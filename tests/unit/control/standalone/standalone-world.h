/*
 * A cluster around the controller's step: a small API server that keeps objects, takes the step's
 * writes as a real one does (resourceVersion and uid as preconditions, finalizers, deletion, the
 * status apart) and shows what has changed, through the filter of what the watches request. Beside
 * it an agent on each node that drains when it is asked to, and EC2. Time is virtual.
 */
#ifndef NC_STANDALONE_WORLD_H
#define NC_STANDALONE_WORLD_H

#include "base-test.h"

#include "nc/standalone.h"
#include "nc/value.h"

#define WORLD_SEC 1000000ull
#define WORLD_START (1767225600ull * WORLD_SEC) /* 2026-01-01T00:00:00Z */
#define WORLD_OBJECTS 64
#define WORLD_PAST "2025-12-31T00:00:00Z"

#define CLAIM NC_CONTROL_CLAIM
#define NODE NC_CONTROL_NODE
#define POOL NC_CONTROL_POOL
#define DISRUPTED "karpenter.sh/disrupted"

struct world_object {
    enum nc_control_kind kind;
    struct nc_value *v;
};

struct world {
    struct nc_control *control;
    struct nc_control_rules rules;
    const char *claims_version; /* NULL = karpenter.sh/v1 */
    uint64_t now_usec, version;
    struct world_object objects[WORLD_OBJECTS];
    size_t n;
    struct nc_control_actions out;       /* that nobody has carried out yet */
    struct nc_buf trace;                 /* "VERB NAME\n" of each write that was accepted */
    struct nc_buf events;                /* "REASON NAME\n" of each Event */
    struct nc_control_event deferred[8]; /* what the watch shows after the answer; owns what it
                                            points to */
    size_t n_deferred;
    bool is_deferring;
    bool is_watch_first;                      /* the watch is faster than the answer */
    unsigned writes;                          /* that came, accepted or not */
    unsigned requested[_NC_CONTROL_VERB_MAX]; /* that arrived */
    unsigned conflicts, refused;
    unsigned lose;  /* the leader dies once so many writes came; 0 = never */
    bool is_before; /* … before the last of them is carried out; else right after it */
    unsigned deaths;
    bool is_whole;                       /* objects are shown as they are, not thinned out */
    bool has_agent;                      /* nodes drain when they are asked to, */
    uint64_t drain_usec;                 /* in so long */
    uint64_t agents_next_usec;           /* when one of them has something to say */
    bool has_kubelet;                    /* a node whose instance was ended is not Ready any more */
    enum nc_control_answer ec2;          /* the answer of END_INSTANCE */
    const char *dns_name;                /* … of DESCRIBE_INSTANCE; NULL: it is refused */
    enum nc_control_verb holds;          /* writes of this kind wait; 0 = none do */
    unsigned away[_NC_CONTROL_VERB_MAX]; /* so many are not answered */
    void (*check)(struct world *w);      /* after each write */
    void (*check_before)(struct world *w, const struct nc_control_action *a);
};

void world_init(struct world *w);
void world_done(struct world *w);
/* A new leader that knows nothing and sees everything. */
void world_restart(struct world *w);

/* JSON with ' for ". An object gets uid, creationTimestamp and resourceVersion where it has none.
 */
void world_put(struct world *w, enum nc_control_kind kind, const char *json);
/* Somebody else's write: a merge patch, metadata, spec and status alike. */
void world_patch(struct world *w, enum nc_control_kind kind, const char *name, const char *json);
void world_delete(struct world *w, enum nc_control_kind kind, const char *name); /* by somebody */
void world_set_status(struct world *w, const char *node,
                      const char *status); /* drain-status; NULL: none */

/* Until nothing is left to do now. */
void world_reconcile(struct world *w);
void world_advance(struct world *w, uint64_t usec); /* with all that comes meanwhile */

struct nc_value *world_get(struct world *w, enum nc_control_kind kind, const char *name);
/* Text at a path of the object; "" = nothing. Keys with dots: world_meta. Static until the third
 * call. */
const char *world_text(struct world *w, enum nc_control_kind kind, const char *name,
                       const char *path);
const char *world_meta(struct world *w, enum nc_control_kind kind, const char *name,
                       const char *map, const char *key);
/* "True Reason", "" where there is none. */
const char *world_condition(struct world *w, const char *claim, const char *type);
bool world_has_taint(struct world *w, const char *node, const char *key);
bool world_has_finalizer(struct world *w, enum nc_control_kind kind, const char *name);
/* The state that the report has of a Node. */
const char *world_state(struct world *w, const char *node);

/* A claim and the Node that registers for it, as the agent makes it; both named n. */
void world_add_claim(struct world *w, const char *name, const char *more_spec);
void world_add_node(struct world *w, const char *name);
void world_add_pair(struct world *w, const char *name, const char *more_spec);

/* The usual beginning: a NodePool "pool" that lets one node go at a time and a NodeClass "class",
 * both with a hash; with a pair "a" besides, whose writes are not in the trace. */
void world_begin(struct world *w);
void world_begin_pair(struct world *w, const char *more_spec);
const char *world_trace(struct world *w); /* "" = nothing was written */
bool world_is_deleting(struct world *w, enum nc_control_kind kind, const char *name);
/* What kubelet says of the Node, and what comes of it. */
void world_set_ready(struct world *w, const char *node, const char *status);

#endif
