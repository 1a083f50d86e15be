/*
 * The central side of many nodes' lives: one pure step, cluster state and event in, actions out.
 *
 * Level-triggered: what is wanted is derived from what is seen now, never from what happened; a
 * leader that was killed between two writes is followed by one that sees what was accepted and goes
 * on there. Time comes with the event (microseconds since the epoch on our own clock). Nothing here
 * reads a clock, a socket or a file.
 *
 * The rules: docs/drain-rules.md, "Controller" (C1 to C24).
 */
#ifndef NC_CONTROL_H
#define NC_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/err.h"
#include "nc/mem.h"
#include "nc/prometheus.h"
#include "nc/value.h"

#define NC_CONTROL_RELAY_AHEAD_USEC (3600ull * 1000000)
#define NC_CONTROL_RELAY_PAST_USEC (600ull * 1000000)
#define NC_CONTROL_WATCH_WAIT_USEC (5ull * 1000000)
#define NC_CONTROL_REPLACE_USEC (15ull * 1000000)    /* between two requests of one Node */
#define NC_CONTROL_LAST_WORD_USEC (300ull * 1000000) /* for a deleted Node's drain status */
#define NC_CONTROL_HEARTBEAT_USEC (300ull * 1000000) /* of a lifecycle action: at most so often */
#define NC_CONTROL_HEARTBEATS_MAX_USEC (7200ull * 1000000) /* of a drain without a deadline */
#define NC_CONTROL_STALLED_USEC (1800ull * 1000000)        /* no pod has left: no more heartbeats */
#define NC_CONTROL_REFUSED_USEC (300ull * 1000000) /* of a lifecycle action: not before again */
#define NC_CONTROL_STATE_FRESH_USEC (30ull * 1000000)
#define NC_CONTROL_STATES_MAX 4u
#define NC_CONTROL_RATE_BURST 20u      /* writes of one object at once */
#define NC_CONTROL_RATE_PER_MINUTE 12u /* and then */

enum nc_control_order { NC_CONTROL_BOTH = 1, NC_CONTROL_DELETE_FIRST };
enum nc_control_mode {
    NC_CONTROL_MODE_UNKNOWN = 0, /* not looked yet: nothing but the relay */
    NC_CONTROL_KARPENTER,        /* Karpenter runs: the relay, nothing else */
    NC_CONTROL_STANDALONE,
    _NC_CONTROL_MODE_MAX
};
const char *nc_control_mode_name(enum nc_control_mode m); /* "unknown", "karpenter", … */

/* What states whose Node it is, before it is registered. */
enum nc_control_identity {
    NC_CONTROL_IDENTITY_ADMISSION = 0,
    NC_CONTROL_IDENTITY_EC2,
};

struct nc_control_rules {
    uint64_t margin_usec;
    enum nc_control_order order;
    uint64_t timestamp_after_usec; /* of delete-first */
    unsigned max_in_flight;        /* at least 4 */
    bool terminates;               /* standalone: instances are ended through EC2 */
    bool rebalances;               /* standalone: a rebalance is a reason to disrupt */
    bool completes_actions;        /* lifecycle actions of Auto Scaling groups are completed */
    bool replaces;                 /* replacement first: some namespaces are named */
    enum nc_control_identity identity;
    uint64_t ceiling_usec;   /* standalone: an end without a time, and no agent answers; 0 = none */
    uint64_t zone_turn_usec; /* standalone: one zone at a time, so long at most; 0 = all at once */
    bool out_of_service;     /* Nodes whose instance is gone get the taint */
    bool no_taint_after_reboot; /* the taint of a node that is not fit is not put back */
    uint64_t seed;              /* of pauses */
};
extern const struct nc_control_rules nc_control_defaults;

enum nc_control_kind {
    NC_CONTROL_NODE = 0,
    NC_CONTROL_CLAIM,
    NC_CONTROL_POOL,  /* NodePool: only in standalone mode */
    NC_CONTROL_CLASS, /* EC2NodeClass: its hash alone; where the cluster has it */
    _NC_CONTROL_KIND_MAX
};
const char *nc_control_kind_name(enum nc_control_kind k); /* "Node", "NodeClaim", … */

/* What spec.providerID says of an instance of EC2. */
struct nc_control_instance {
    char id[64], region[64];
};
/* "aws:///us-west-2a/i-0123456789abcdef0" and nothing else: 0, else negative. */
int nc_control_parse_provider_id(const char *text, struct nc_control_instance *ret);

/* What is kept of an object, as dotted paths (nc/json-filter.h): the watches request no more.
 * Static, NULL-terminated. `mode` decides: beside Karpenter of Nodes the metadata is enough, unless
 * `rules` need more. */
const char *nc_control_keep(enum nc_control_kind k, enum nc_control_mode mode,
                            const struct nc_control_rules *rules);

enum nc_control_event_kind {
    NC_CONTROL_RULES = 0, /* `rules`; the first event */
    NC_CONTROL_MODE,      /* `mode` was found out, or set */
    NC_CONTROL_LEAD,      /* `leads` */
    NC_CONTROL_SEEN,      /* `what`, `object`: added or changed. Objects are hostile */
    NC_CONTROL_GONE,      /* `what`, `name`, `uid` ("" = not known) */
    NC_CONTROL_SYNCED,    /* `what`: its list is complete */
    NC_CONTROL_ANSWER,    /* the action `id` ended: `answer`, `retry_after_usec`, `object` (NULL, or
                             the object as the server has it now) */
    NC_CONTROL_BOOT_FAILURE, /* the Event about the claim `name`, `uid`, or else of the instance
                                `provider_id`: `message`, `at_usec`. A node may have made it up */
    NC_CONTROL_TICK,         /* nc_control_next() has come */
    _NC_CONTROL_EVENT_MAX
};
enum nc_control_answer {
    NC_CONTROL_DONE = 1,    /* accepted */
    NC_CONTROL_MISSING,     /* 404, or the uid is another's: it is not there (any more) */
    NC_CONTROL_CONFLICT,    /* 409: it has changed meanwhile */
    NC_CONTROL_REFUSED,     /* 403, 422, 400: asking again does not help soon */
    NC_CONTROL_UNAVAILABLE, /* everything else: no answer, 429, 5xx */
};
enum nc_control_refusal { /* of a REFUSED of AWS: why */
                          NC_CONTROL_REFUSAL_OTHER = 0,
                          NC_CONTROL_REFUSAL_DENIED, /* credentials, permissions */
                          NC_CONTROL_REFUSAL_HOOK,   /* the group has no such hook */
};
struct nc_control_event {
    enum nc_control_event_kind kind;
    uint64_t now_usec;
    const struct nc_control_rules *rules;
    enum nc_control_mode mode;
    bool is_guess; /* of MODE: it was found out, not set */
    /* of MODE: the API version in which NodeClaims are served, "karpenter.sh/v1beta1"; copied; NULL
     * = karpenter.sh/v1 */
    const char *claims_version;
    bool has_no_claims; /* of MODE: NodeClaims are not installed */
    bool leads;
    enum nc_control_kind what;
    const struct nc_value *object; /* borrowed */
    /* of an ANSWER to DESCRIBE_INSTANCE or INSTANCE_STATE, name: the private DNS name, or NULL */
    const char *name, *uid;
    const char *provider_id;    /* of a BOOT_FAILURE; NULL = not known */
    const char *instance_state; /* of an ANSWER to INSTANCE_STATE: static, as EC2 writes it */
    uint64_t id;
    enum nc_control_answer answer;
    enum nc_control_refusal refusal;
    uint64_t retry_after_usec;
    const char *group, *lifecycle_state; /* of DESCRIBE_LIFECYCLE; MISSING: it is in no group */
    const char *message; /* of a BOOT_FAILURE; of an ANSWER: why it is REFUSED, and what to do */
    uint64_t at_usec;
};

enum nc_control_verb {
    NC_CONTROL_SET_TIMESTAMP = 1, /* PATCH nodeclaims/NAME: the timestamp; null takes it back */
    NC_CONTROL_DELETE_CLAIM,      /* DELETE nodeclaims/NAME, precondition uid */
    NC_CONTROL_PATCH_CLAIM,       /* PATCH nodeclaims/NAME: finalizers, annotations */
    NC_CONTROL_STATUS_CLAIM,      /* PATCH nodeclaims/NAME/status: conditions, nodeName */
    NC_CONTROL_PATCH_NODE,        /* PATCH nodes/NAME: taints, labels, finalizers, drain-request */
    NC_CONTROL_DELETE_NODE,       /* DELETE nodes/NAME, precondition uid */
    NC_CONTROL_END_INSTANCE,      /* EC2 TerminateInstances: `provider_id` */
    NC_CONTROL_DESCRIBE_INSTANCE, /* EC2 DescribeInstances: `provider_id` */
    /* EC2 Auto Scaling, about the instance `provider_id` of a Node: */
    NC_CONTROL_DESCRIBE_LIFECYCLE, /* DescribeAutoScalingInstances */
    NC_CONTROL_RECORD_HEARTBEAT,   /* RecordLifecycleActionHeartbeat: `group` */
    NC_CONTROL_COMPLETE_ACTION,    /* CompleteLifecycleAction: `group` */
    NC_CONTROL_INSTANCE_STATE,     /* EC2 DescribeInstances: `provider_id`, of a Node */
    NC_CONTROL_GET_NODE,           /* GET nodes/NAME; the complete object comes with the answer */
    NC_CONTROL_EMIT_EVENT,         /* an Event on the object, and a line of the log */
    NC_CONTROL_REPLACE_PODS,       /* pods of the Node wait, since `since_usec`: see to them */
    _NC_CONTROL_VERB_MAX
};
const char *nc_control_verb_name(enum nc_control_verb v); /* "set-timestamp", "delete-claim", … */

/* All strings and the body are owned by the action. A body is a complete merge patch; where it
 * replaces a list (taints, finalizers, conditions) it has metadata.resourceVersion, so that the
 * server refuses it (409) where somebody else was faster. The body of a DELETE is a complete
 * DeleteOptions with preconditions.uid. */
struct nc_control_action {
    enum nc_control_verb verb;
    uint64_t id; /* to be given back with NC_CONTROL_ANSWER; 0 for EMIT_EVENT and REPLACE_PODS: no
                    answer is wanted */
    enum nc_control_kind what;
    char *name, *uid;
    struct nc_value *body;
    char *provider_id;
    char *group;
    bool is_relay;
    uint64_t since_usec; /* of REPLACE_PODS */
    /* of EMIT_EVENT */
    const char *reason; /* static, of a small fixed set */
    bool is_warning;
    char *message;
};
struct nc_control_actions {
    struct nc_control_action *v;
    size_t n;
};
void nc_control_actions_done(struct nc_control_actions *a);

struct nc_control;
/* `standalone`: what is done where no Karpenter runs (nc/standalone.h). NULL: nothing of it; mode
 * STANDALONE is then as UNKNOWN. */
struct nc_standalone;
struct nc_control *nc_control_new(const struct nc_standalone *standalone);
struct nc_control *nc_control_free(struct nc_control *c);
/* The step. Appends to out. Every cell of event × state is defined. */
void nc_control_step(struct nc_control *c, const struct nc_control_event *e,
                     struct nc_control_actions *out);
/* When a TICK is wanted next; UINT64_MAX = none. */
uint64_t nc_control_next(const struct nc_control *c, uint64_t now_usec);

/* ---- for people and programs */

/* Why nothing but the relay is done although it was found out who is here; NULL where it is. */
const char *nc_control_doubts(const struct nc_control *c);

/* NodeClaims have our finalizer, and none has Karpenter's: whatever stands in a Lease, Karpenter
 * has seen none of them. */
bool nc_control_denies_karpenter(const struct nc_control *c);

/* The zone whose turn it is, or was last; NULL where zones take no turns, no zone has had one yet,
 * or we do not lead. */
const char *nc_control_zone_turn(const struct nc_control *c);

/* Is a claim that has an instance without a Node for longer than usual? Then its boot may have
 * failed, and an Event may say why. */
bool nc_control_awaits_causes(const struct nc_control *c, uint64_t now_usec);

/* What is counted; a reader of metrics may subtract. */
struct nc_control_counts {
    size_t objects[_NC_CONTROL_KIND_MAX];
    size_t unreadable[_NC_CONTROL_KIND_MAX]; /* objects that were refused, or Nodes of which a part
                                                was */
    uint64_t invalid_drain_statuses;         /* drain-status that could not be read */
    uint64_t drained, failed; /* drains that were seen to end as Drained, as Failed */
    size_t relaying;          /* claims with a drain status that has not reached them in full */
    size_t agents;            /* Nodes of at least ten minutes where an agent has booted one, and
                                 that are not being deleted */
    size_t draining;          /* Nodes that say Cordoned, Evicting, Forcing or VolumeWait */
    size_t unfit;             /* Nodes that state that they are not fit to take pods */
    size_t unfit_overdue;     /* Nodes that keep the taint for that beyond its timeout */
    size_t waiting;           /* objects whose write waits for the concurrency limit */
    size_t in_flight;         /* writes without an answer */
    size_t without_node;      /* claims for which no Node is registered */
    uint64_t requested[_NC_CONTROL_VERB_MAX];
    uint64_t answered[_NC_CONTROL_VERB_MAX][NC_CONTROL_UNAVAILABLE + 1];
    struct nc_histogram relays; /* drain status seen -> DELETE accepted */
    uint64_t rate_limited;      /* writes that their object's rate limit put off */
};
void nc_control_count(const struct nc_control *c, uint64_t now_usec, struct nc_control_counts *ret);

/* Every node: {node, claim, pool, phase, source, policy, deadline, remaining, blocked,
 * claimDeletion, state, lifecycleAction}, by name; `policy` is "report" where the drain status only
 * reports, else null; `state` is a word for what we do about it: "", relaying, relayed, disrupting,
 * draining, WaitingForZone, WaitingForAgent, WaitingForAnotherRequest, ending, InstanceGone;
 * `lifecycleAction` null, pending, waiting, completed, none, failed or mismatch. Owned; times as
 * RFC 3339 or null. */
struct nc_value *nc_control_report(const struct nc_control *c, uint64_t now_usec);
/* The claims without a Node, the oldest first, at most so many of them: {claim, pool, instance,
 * created, cause, message}; `cause` is a phase of the bootstrap, "launch" or "unknown". Owned. */
#define NC_CONTROL_CLAIMS_REPORTED ((size_t)1000)
struct nc_value *nc_control_report_claims(const struct nc_control *c);
/* Where nodes have less memory than their NodeClaims count on, by instance type and image, at most
 * 101: {type, image, nodes, short, lacks}; how many there are, how many of them have less, and what
 * the one lacks that has least. Owned. */
struct nc_value *nc_control_report_overhead(const struct nc_control *c);
/* The same as tables for people, from reports that were read back (hostile: bounded, no control
 * characters). Where one is wider than `room` columns, 0 = there is room for all, a node has a
 * brief row, and the rest of it below. Nothing for no claims. */
void nc_control_text(const struct nc_value *report, size_t room, struct nc_buf *out);
void nc_control_text_claims(const struct nc_value *report, size_t room, struct nc_buf *out);
void nc_control_text_overhead(const struct nc_value *report, size_t room, struct nc_buf *out);
/* Prometheus text; all families nodeclaim_controller_…. */
void nc_control_metrics(const struct nc_control *c, uint64_t now_usec, struct nc_buf *out);

#endif
