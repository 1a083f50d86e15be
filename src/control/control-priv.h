/*
 * The controller's step, inside: what its files share. Rules: docs/drain-rules.md, C1 to
 * C24.
 *
 * Objects are kept small: a name, a few times, flags. What only a life without Karpenter needs
 * hangs on `more` of a Node and a NodeClaim, and is there only where mode == STANDALONE; lists that
 * only registration and initialization check are dropped once those are done. Every lookup is a
 * hash lookup; nothing here walks all objects but SYNCED, LEAD, MODE, the reports and, where zones
 * take turns, the choice among a pool's claims (at most once a second a pool).
 *
 * An object that changed is put on the list of the dirty ones (nc_control_touch); at the end of the
 * step each of them is asked once what it wants next: first by the relay (relay.c), then,
 * standalone, by struct nc_standalone. So these are functions of what is seen now: they may be
 * asked at any moment, and are asked again after each answer, each change and at the time that they
 * named.
 */
#ifndef NC_CONTROL_PRIV_H
#define NC_CONTROL_PRIV_H

#include "nc/control.h"
#include "nc/notice.h"

struct nc_budgets;

#define CONTROL_NAME_MAX ((size_t)253) /* of names, as Kubernetes has it */
#define CONTROL_UID_MAX ((size_t)64)   /* bytes; is 36 */
#define CONTROL_PROVIDER_MAX ((size_t)512)
#define CONTROL_HASH_MAX ((size_t)64) /* of Karpenter's hashes: up to 20 digits */
#define CONTROL_ZONE_MAX ((size_t)63) /* a label's value, as Kubernetes has it */
#define CONTROL_DRAIN_STATUS_MAX                                                                   \
    ((size_t)4096)                      /* drain-status, drain-request: longer is unreadable */
#define CONTROL_LIST_MAX ((size_t)1024) /* labels, taints, … of one object: more is unreadable */
#define CONTROL_LIST_BYTES ((size_t)65536)
#define CONTROL_NODE_BYTES ((size_t)4096) /* of a list of a Node: it fills them itself */

/* ---- small things */

/* A place in a hash table; of equal keys there may be several. The key belongs to the object. */
struct control_link {
    struct control_link *next, **at; /* at NULL: in no table */
    const char *key;
    uint32_t hash;
};
struct control_table {
    struct control_link **slots;
    size_t n, room;
};

/* Lists of texts in one piece: n groups of a fixed number of texts (finalizers 1: name; labels and
 * quantities 2: key, value; taints 3: key, value, effect; a Node's taints 4), one after the other,
 * each ended by NUL.
 */
#define CONTROL_STRINGS_WIDTH 4 /* at most */
struct control_strings {
    const char *data; /* NULL where there are none */
    uint32_t bytes;
    uint16_t n;     /* CONTROL_LIST_MAX at most */
    bool is_shared; /* nobody's: what nearly every object has */
};
void nc_control_strings_done(struct control_strings *t);
/* Walks: `at` is NULL first; NULL at the end. `width` texts are put into ret. */
const char *nc_control_strings_next(const struct control_strings *t, const char *at, size_t width,
                                    const char **ret);
/* The second text of the group that begins with `key`; NULL where there is none. */
const char *nc_control_strings_get(const struct control_strings *t, size_t width, const char *key);

/* What is kept of a condition; "" for what it has not. type, status, reason and message come first.
 */
#define CONTROL_CONDITION_WIDTH 7
extern const char *const nc_control_condition_keys[CONTROL_CONDITION_WIDTH];

/* Appends a taint as it was read: key, value, effect, timeAdded. */
void nc_control_push_taint(struct nc_value *list, const char *const strings[4]);
/* A list of single texts without one of them; owned. */
struct nc_value *nc_control_strings_without(const struct control_strings *t, const char *text);

/* ---- what every object has */

/* How its writes fare. Only write.c changes it. */
struct control_write {
    uint64_t id;      /* in flight; 0 = none */
    uint64_t sent_rv; /* … as it was then: whatever is shown beyond it may be what came of it */
    uint64_t pause_usec;      /* after a failure: not before */
    uint64_t watch_wait_usec; /* after an accepted one: not before, unless the watch shows it */
    uint64_t awaited_rv;      /* … that is: this resourceVersion or a later one */
    uint64_t rate_usec;   /* the rate limit as one moment: how far ahead of time its writes are */
    uint16_t attempts;    /* that failed in a row */
    uint8_t verb;         /* of what is in flight, or was last: enum nc_control_verb */
    bool is_relay;        /* that one */
    bool is_fit;          /* the last request, also one to read, was about the startup gate */
    bool waits_for_watch; /* it was gone or has changed: the pause ends with the next SEEN */
    bool is_held;         /* by its rate limit */
};

struct control_hook {
    struct control_object *next, **at; /* at NULL: in no queue */
};
enum { CONTROL_HOOK_DIRTY = 0, CONTROL_HOOK_WAIT, _CONTROL_HOOK_MAX };
struct control_queue {
    struct control_object *first, **end;
    size_t n;
};

struct control_object {
    enum nc_control_kind kind;
    uint32_t wake_at; /* in the heap, from 1; 0 = not there */
    char *name;       /* uid stands behind it, in the same piece of memory */
    char *uid;        /* "" = not known */
    uint64_t rv;      /* resourceVersion: a number, as Kubernetes promises */
    struct control_link by_name;
    struct control_hook hooks[_CONTROL_HOOK_MAX]; /* is dirty; waits for the concurrency limit */
    struct control_queue *waits_in;
    uint64_t wake_usec; /* look again; UINT64_MAX = never */
    struct control_write write;
};

/* ---- what a node reports */

enum control_phase {
    CONTROL_PHASE_NONE = 0, /* "": nothing is going on */
    CONTROL_PHASE_DETECTED,
    CONTROL_PHASE_CORDONED,
    CONTROL_PHASE_EVICTING,
    CONTROL_PHASE_FORCING,
    CONTROL_PHASE_VOLUMES,
    CONTROL_PHASE_DRAINED,
    CONTROL_PHASE_FAILED,
    CONTROL_PHASE_OTHER, /* of a later release */
    _CONTROL_PHASE_MAX
};

struct control_drain_status {
    int source; /* enum nc_source; -1: "" or one of a later release */
    enum control_phase phase;
    enum nc_policy policy;    /* what follows from it: DRAIN where it states nothing */
    bool returns;             /* the machine comes back: nothing of its claim ends */
    uint64_t deadline_usec;   /* 0 = none */
    uint64_t noticed_usec;    /* by the node's clock, when it stated that first; 0 = not known */
    int64_t total, remaining; /* -1 = not known */
    unsigned n_blocked;
    int64_t waiting;             /* pods that wait for their replacement; -1 = not known */
    uint64_t waiting_since_usec; /* … since this drain began to evict; 0 = not known */
    char *blocked;               /* their names, ", " between; NULL = none */
    char id[72];                 /* "" = none; printable */
};
/* The drain is over, done or not: Drained or Failed. False where the node reports nothing (NULL).
 */
bool nc_control_is_final_status(const struct control_drain_status *w);
struct control_drain_status *nc_control_drain_status_free(struct control_drain_status *w);

/* ---- Node */

/* What of a Node cannot be read, or is too much: the rest of it counts all the same. A list that is
 * written back must have been seen. */
enum {
    CONTROL_UNREAD_PROVIDER = 1 << 0,
    CONTROL_UNREAD_FINALIZERS = 1 << 1,
    CONTROL_UNREAD_OWNERS = 1 << 2,
    CONTROL_UNREAD_TAINTS = 1 << 3,
    CONTROL_UNREAD_ALLOCATABLE = 1 << 4,
    CONTROL_UNREAD_CONDITIONS = 1 << 5,
    CONTROL_UNREAD_LISTS = CONTROL_UNREAD_FINALIZERS | CONTROL_UNREAD_OWNERS | CONTROL_UNREAD_TAINTS
};

struct control_node_more { /* only where mode == STANDALONE */
    struct control_node *node;
    char *provider_id; /* NULL = none */
    struct control_link by_provider;
    unsigned unread;
    bool is_ready;
    bool is_registered, is_initialized; /* its labels: what a node may have forged */
    bool has_our_finalizer, has_karpenter_finalizer;
    bool do_not_sync_taints;
    bool has_our_taint;            /* annotation nodeclaimd.io/disrupted: karpenter.sh/disrupted is
                                      ours to remove */
    char *drain_request;           /* as it stands there; NULL = none */
    struct control_strings taints; /* 4 each: key, value, effect, timeAdded ("" = none): they are
                                    written back as they were */
    struct control_strings finalizers; /* 1 each */
    /* Only until it is labelled as registered and has our finalizer: */
    char *owners; /* metadata.ownerReferences as compact JSON; NULL = none */
    /* Only while it is not labelled as initialized: */
    struct control_strings allocatable; /* 2 each */
};

struct control_node {
    struct control_object o;
    uint64_t created_usec, deletion_usec; /* 0 = not */
    char *owner_uid;                      /* of its owner of kind NodeClaim; NULL = none */
    char *pool;                           /* label karpenter.sh/nodepool; NULL = none */
    uint64_t mirrored_usec; /* annotation termination-deadline, where it is its owner's; 0 = none */
    int64_t memory_bytes;   /* allocatable, as it states; 0 = not known */
    uint32_t provider_hash; /* of its providerID, which metadata only do not show; 0 = not known */
    struct control_drain_status *drain_status; /* NULL = reports nothing */
    uint32_t invalid_status;                   /* hash of what could not be read; 0 = can be */
    bool is_invalid_status_unreported;
    uint64_t invalid_status_usec; /* not said before then again */
    uint64_t replace_usec;        /* its pods' replacements are not requested before again */
    struct control_node_more *more;
    struct control_lifecycle *lifecycle; /* NULL = nothing to do with a group */
    struct control_outage *outage;       /* NULL = nothing is known of one */
    struct control_fit *fit;             /* NULL = it does not state whether it is fit */
    uint64_t outage_answered_usec;       /* EC2 was requested its instance's state then */
    bool was_unknown_reported, was_mismatch_reported; /* of its instance */
    bool was_unread_reported;
    bool has_agent;               /* which has written the annotation nodeclaimd.io/bootstrap */
    struct control_strings *left; /* beside Karpenter, while it is being deleted: its finalizers
                                   where ours is one of them; NULL = is not */
};

/* ---- NodeClaim */

/* Conditions that somebody checks. */
enum control_condition {
    CONTROL_COND_LAUNCHED = 0,
    CONTROL_COND_REGISTERED,
    CONTROL_COND_INITIALIZED,
    CONTROL_COND_READY,
    CONTROL_COND_DRIFTED,
    CONTROL_COND_DRAINED,
    CONTROL_COND_VOLUMES,
    CONTROL_COND_TERMINATING,
    CONTROL_COND_DISRUPTION, /* Karpenter's; ours where zones take turns */
    _CONTROL_COND_MAX
};
enum control_truth { CONTROL_ABSENT = 0, CONTROL_FALSE, CONTROL_UNKNOWN, CONTROL_TRUE };

struct control_claim_early {                              /* only while it is not Initialized */
    struct control_strings labels, annotations, requests; /* 2 each */
    struct control_strings taints, startup_taints;        /* 3 each */
};

/* Its Node while it is registered: since when it is Ready, or not; 0 = it is the other. */
struct control_unready {
    uint64_t ready_usec, since_usec;
    uint64_t before_usec; /* not Ready for so long before `since_usec` */
};

struct control_claim_more { /* only where mode == STANDALONE */
    struct control_claim *claim;
    char *provider_id; /* NULL = none */
    char *dns_name;    /* EC2's, of that instance; NULL = not known */
    char *zone;        /* label topology.kubernetes.io/zone; NULL = none */
    struct control_link by_provider;
    uint64_t expire_after_usec; /* UINT64_MAX = never; v1beta1: the pool's counts where … */
    uint64_t grace_usec;        /* terminationGracePeriod; UINT64_MAX = none */
    bool has_no_expiry;         /* … it has no expireAfter at all */
    bool do_not_disrupt;
    bool is_foreign;      /* of another controller: NodeClass of group eks.amazonaws.com, or a label
                             app.kubernetes.io/managed-by that is not nodeclaimd */
    bool is_end_accepted; /* END_INSTANCE was accepted */
    uint8_t truths[_CONTROL_COND_MAX]; /* control_truth */
    struct control_strings hashes;     /* one group of 4: nodepool-hash, its version,
                                        ec2nodeclass-hash, its version; "" = none */
    struct control_strings finalizers; /* 1 each */
    struct control_strings conditions; /* CONTROL_CONDITION_WIDTH each */
    struct control_claim_early *early; /* NULL: is Initialized */

    /* Of the standalone half, and not touched by the readers: */
    int disrupt;           /* enum nc_budget_reason + 1 that was chosen; 0 = none */
    bool waits_for_zone;   /* the budgets have room for it, and another zone has its turn */
    int disrupted;         /* where there are turns: it is leaving voluntarily, why; as disrupt */
    bool is_turn_reported; /* that it takes longer than a turn */
    unsigned scratch;      /* EC2 knows no such instance */
    struct control_unready unready;
    uint64_t lost_usec;    /* the Node that it names is not seen since then; 0 = it is */
    uint64_t scratch_usec; /* when END_INSTANCE was accepted last */
    const char
        *state; /* static: what the report states where the relay reports nothing; NULL = "" */
};

struct control_claim {
    struct control_object o;
    uint64_t created_usec, deletion_usec; /* 0 = not */
    uint64_t timestamp_usec;              /* the timestamp; 0 = none, or garbage */
    char *node_name;                      /* status.nodeName; NULL = not registered */
    char *provider_id;                    /* beside Karpenter; NULL = none */
    uint64_t registered_usec; /* beside Karpenter, since when Registered is True; 0 = not known */
    struct control_link by_node;
    struct control_pool *pool; /* NULL = has no such label */
    struct control_claim *pool_next, **pool_at;
    struct control_class *class; /* NULL where it is no EC2NodeClass, or beside Karpenter */
    struct control_claim *class_next, **class_at;
    /* The relay; belongs to this uid. */
    uint64_t relay_usec; /* the drain status is known since; 0 = there is none to relay */
    uint64_t accepted_timestamp_usec; /* the termination timestamp that was accepted and is not seen
                                         yet; 0 = none */
    uint64_t deleted_usec; /* when a DELETE of ours was accepted: never another; 0 = not */
    uint64_t sent_t_usec; /* what the SET_TIMESTAMP in flight, or the last one, writes; 0 = none any
                             more */
    uint64_t our_timestamp_usec; /* the last one that was accepted, or is recorded */
    uint8_t timestamp_tries;     /* that failed in this relay */
    bool is_timestamp_refused, was_reported;
    bool was_timestamp_refusal_reported, was_delete_refusal_reported;
    bool has_our_finalizer, has_karpenter_finalizer; /* not of the relay */
    bool counts_as_node, counts_as_out;              /* in its pool's numbers */
    bool counts_as_karpenter;                        /* in n_karpenter_claims */
    uint8_t shape;        /* number of its instance type and image; 0 = other ones */
    int64_t memory_bytes; /* status.allocatable; 0 = not known */
    bool has_gate;        /* the taint of a node that is not yet fit is one of its startup taints */
    struct control_claim_more *more;
    struct control_strings *left;              /* as a Node's */
    struct control_boot_failure *boot_failure; /* NULL: none is known, or it is registered */
};

/* ---- NodePool, EC2NodeClass: there is one also where only claims name it */

struct control_pool {
    struct control_object o;
    bool is_there;              /* the object was seen */
    struct nc_budgets *budgets; /* NULL = cannot be read, or it is being deleted: nothing may be
                                   disrupted */
    uint64_t expire_after_usec; /* v1beta1: spec.disruption.expireAfter; UINT64_MAX = never */
    char *hash, *hash_version;  /* NULL = none */
    struct control_claim *claims;
    size_t n_claims;
    unsigned n_nodes, n_out; /* of these: as standalone's `count` has them */
    uint64_t evaluated_usec; /* when standalone's `pool` was asked last */
    uint64_t reported_usec;  /* when it was said that Nodes which are not Ready hold its budgets */
};
struct control_class {
    struct control_object o;
    bool is_there;
    char *hash, *hash_version;
    struct control_claim *claims;
    size_t n_claims;
};

/* ---- all of it */

struct control_turn {  /* of standalone: see rules.zone_turn_usec */
    char *zone;        /* which has its turn, or had it last; NULL = none yet */
    uint64_t led_usec; /* leading had begun then */
    uint64_t since_usec;
    bool has_begun; /* something of it was disrupted in this turn */
    bool is_open;   /* more of it may be */
};

struct nc_control {
    const struct nc_standalone *standalone; /* NULL: the mode is never STANDALONE */
    struct nc_control_rules rules;
    enum nc_control_mode mode;
    bool is_guess;
    char *claims_version; /* NULL = karpenter.sh/v1 */
    bool has_no_claims;   /* NodeClaims are not installed */
    bool leads;
    bool is_synced[_NC_CONTROL_KIND_MAX]; /* since this `mode` */
    bool is_relay_synced[2];              /* Nodes, NodeClaims: ever */
    uint32_t hash_seed;
    uint64_t now_usec; /* of the last event */

    struct control_table names[_NC_CONTROL_KIND_MAX];
    struct control_table claims_by_node, nodes_by_provider, claims_by_provider;
    uint64_t led_usec; /* when leading began or ended last */
    struct control_turn turn;
    size_t n_pools_there, n_classes_there;
    size_t n_karpenter_claims; /* with Karpenter's finalizer, without another controller's mark */

    struct control_shape *shapes; /* of overhead.c */
    size_t n_shapes;

    struct control_queue dirty, relays, others, ends,
        states; /* all but dirty wait for the concurrency limit; ends, states: what EC2 is asked,
                   which is slow */
    struct control_object **heap; /* by wake_usec */
    size_t n_heap, heap_room;

    struct control_pending { /* by id */
        uint64_t id;
        struct control_object *object; /* NULL: is gone */
        enum nc_control_verb verb;
        bool is_relay;
        bool is_fit;    /* about whether a node is fit to take pods */
        uint8_t outage; /* enum control_outage_step */
    } * in_flight;
    size_t n_in_flight, n_relays_in_flight, in_flight_room;
    size_t n_ends_in_flight, n_states_in_flight; /* the latter are among the former */
    uint64_t states_pause_usec;                  /* no state is requested before then */
    unsigned states_failures;                    /* in a row */
    uint64_t last_id;

    struct nc_control_counts counts; /* what only grows */
    uint64_t bad_timestamps;         /* timestamps that could not be read */
    struct nc_control_actions *out;  /* during a step */
};

/* ---- lookups: all O(1), NULL where there is none */

struct control_node *nc_control_node(const struct nc_control *c, const char *name);

/* The Node that belongs to a claim and the other way round, by rules C1 and C2: by
 * status.nodeName (and where the Node has an owner of kind NodeClaim, that must be this claim;
 * where it has none, no other claim may name the Node); before that, standalone, by providerID and
 * rules.identity. */
struct control_node *nc_control_node_of(const struct nc_control *c,
                                        const struct control_claim *claim);
struct control_claim *nc_control_claim_of(const struct nc_control *c,
                                          const struct control_node *node);
/* How many Nodes have this providerID, counted up to 2 (standalone only), and the first of them. */
unsigned nc_control_nodes_with(const struct nc_control *c, const char *provider_id,
                               struct control_node **ret_first);
struct control_link *nc_control_find(const struct nc_control *c, const struct control_table *t,
                                     const char *key);
/* Standalone only; empty lists once it is Initialized. */
const struct control_claim_early *nc_control_early(const struct control_claim *claim);
/* Claims of a pool: pool->claims, then claim->pool_next; pool->n_claims. Of a class alike. */

/* ---- for the standalone half */

static inline bool nc_control_is_deleting(const struct control_claim *claim) {
    return claim->deletion_usec > 0 || claim->deleted_usec > 0;
}
void nc_control_touch_kind(struct nc_control *c, enum nc_control_kind k);
/* Check it again in this step (or the next one). */
void nc_control_touch(struct nc_control *c, struct control_object *o);
/* EMIT_EVENT, within the object's rate limit and only where we lead. The reason is static; false
 * where the rate limit holds it back. */
bool nc_control_emit(struct nc_control *c, struct control_object *o, const char *reason,
                     bool is_warning, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* EMIT_EVENT that no rate limit holds back: for what is reported once. */
void nc_control_emit_always(struct nc_control *c, const struct control_object *o,
                            const char *reason, bool is_warning, char *message);
/* Is that moment still to come? One that is further away than it can be is of a clock that was set
 * back since. */
bool nc_control_is_ahead(uint64_t usec, uint64_t now_usec, uint64_t most_usec);
/* {"metadata":{"uid":…}} or, with_version, {"metadata":{"resourceVersion":…,"uid":…}}: how a patch
 * begins. The uid is a precondition: another object of this name refuses it. Owned. */
struct nc_value *nc_control_patch(const struct control_object *o, bool with_version);
/* The write that takes our finalizer off the object, which is seen with `finalizers`. Always true:
 * as a hook has it that wants a write. */
bool nc_control_drop_finalizer(const struct control_object *o,
                               const struct control_strings *finalizers,
                               struct nc_control_action *ret);
/* {"apiVersion":"v1","kind":"DeleteOptions","preconditions":{"uid":…}}. Owned. */
struct nc_value *nc_control_delete_options(const struct control_object *o);

/* relay.c: the one next write that the relay wants of a claim. Level-triggered, as the
 * hooks of the standalone half are. */
struct control_relay {
    enum nc_control_verb verb; /* SET_TIMESTAMP or DELETE_CLAIM; 0 = nothing now */
    uint64_t t_usec;           /* the termination timestamp; 0: ours is taken back */
    uint64_t next_usec;        /* look again; UINT64_MAX = never */
    const struct control_node *node;
};
/* Is there a drain status that is to be relayed to this claim, whatever was done about it? */
bool nc_control_has_relay(const struct nc_control *c, const struct control_claim *claim,
                          uint64_t now_usec, struct control_relay *ret);

/* ---- where no Karpenter runs: standalone/
 *
 * The readers are strict and capped; 0, or negative: the object is refused. A Node is not: it could
 * choose to be. What they fill is of this file, and is freed here.
 *
 * `claim` and `node` write their own object only: a Node is deleted by `node`, an instance is ended
 * by `claim`. Asked only where mode == STANDALONE, we lead, Nodes, NodeClaims and NodePools are
 * synced, no write of the object is in flight or waiting for the watch, no pause runs, and (claims)
 * the relay wants nothing now. True: *ret is the one next write (verb, body, provider_id;
 * everything else is filled in by the caller); it may be asked again before that write is sent
 * (concurrency, rate limit), so it changes nothing. False: nothing to do. *next: when to look again
 * where nothing changes; UINT64_MAX = never; taken in both cases. Asked anew after each change of
 * the object, of the Node or claim that belongs to it, each end of a write, and at *next. */
struct control_class_ref { /* NULL = none */
    char *group, *kind, *name;
};
struct nc_standalone {
    void (*read_node)(const struct nc_value *object, struct control_node_more *ret);
    int (*read_claim)(const struct nc_value *object, struct control_claim_more *ret,
                      struct control_class_ref *ret_class);
    int (*read_pool)(const struct nc_value *object, struct control_pool *ret);
    int (*read_class)(const struct nc_value *object, struct control_class *ret);
    void (*budgets_free)(struct nc_budgets *b);
    bool (*claim)(struct nc_control *c, struct control_claim *claim, uint64_t now_usec,
                  struct nc_control_action *ret, uint64_t *next_usec);
    bool (*node)(struct nc_control *c, struct control_node *node, uint64_t now_usec,
                 struct nc_control_action *ret, uint64_t *next_usec);
    /* Chooses among the claims of a pool which are to be disrupted voluntarily
     * (claim->more->disrupt), within its budgets, and touches those. Asked when something of the
     * pool or of its claims has changed, at most once a second a pool, and at *next. The pool may
     * be one that only claims name. */
    void (*pool)(struct nc_control *c, struct control_pool *pool, uint64_t now_usec,
                 uint64_t *next_usec);
    /* Brings the numbers of its pool up to date: how many count, how many are on their way out.
     * Called for each claim that was touched before anybody is asked, and with each write that is
     * sent: walking the claims for each of them would be quadratic work. */
    void (*count)(struct nc_control *c, struct control_claim *claim);
    /* A write that is not the relay's ended. */
    void (*answered)(struct nc_control *c, struct control_object *o, enum nc_control_verb verb,
                     enum nc_control_answer answer, uint64_t now_usec);
};
void nc_control_uncount(struct control_claim *claim); /* it leaves its pool's numbers */

static inline void nc_control_sooner(uint64_t *next_usec, uint64_t usec) {
    if (usec < *next_usec)
        *next_usec = usec;
}
static inline struct control_claim *nc_control_as_claim(struct control_object *o) {
    return (struct control_claim *)o;
}

#endif
