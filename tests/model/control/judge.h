/*
 * The rules of the controllers, written down a second time: a judge that watches.
 *
 * It is told every event that a controller is given, every action that comes back, and what the
 * server made of it. What is allowed it derives from what that controller was shown, by itself; of
 * the program it uses the tree of nc/value.h and the arithmetic of nc/budget.h (which has a test of
 * its own, against Karpenter). The first broken rule is kept, by name.
 */
#ifndef CONTROL_MODEL_JUDGE_H
#define CONTROL_MODEL_JUDGE_H

#include "world.h"

#define MAX_SHOWN MAX_OBJECTS
#define MAX_IN_FLIGHT 256

/* An object as a controller was shown it last, and what that controller did about it. */
struct shown {
    struct nc_value *v; /* NULL = gone; the entry stays for what is remembered of its uid */
    enum nc_control_kind kind;
    char name[32], uid[24];
    uint64_t rv, sent_rv;
    uint64_t flight_id;    /* a write in flight */
    uint64_t pause_usec;   /* no write before; */
    uint64_t settled_usec; /* nor before this, unless something of it was shown */
    unsigned failures;
    enum nc_control_verb verb; /* of the last write, and whether it was one of the relay */
    bool was_relay;
    bool is_delete_sent, is_deleted; /* DELETE in flight; accepted */
    uint64_t voluntary_usec;         /* when a voluntary DELETE was sent; 0 = none is of use */
    uint64_t unready_usec;           /* of a Node: shown as not Ready since then */
    double share;                    /* writes that it may still have */
    uint64_t rate_usec;
    char ending[96]; /* of a Node: which one it states, and what was left then */
    uint64_t left_usec;
    bool is_timestamp_tried;
    uint64_t our_timestamp_usec; /* sent, whatever came of it */
};

struct pending {
    uint64_t id;
    unsigned shown;
    enum nc_control_verb verb;
    bool is_relay;
};

struct view {
    bool leads, is_synced[KINDS], is_relay_synced[2];
    enum nc_control_mode mode;
    struct shown shown[MAX_SHOWN];
    unsigned n_shown;
    struct pending in_flight[MAX_IN_FLIGHT];
    size_t n_in_flight;
};

struct judge {
    char broken[32];
    char story[400];
    struct view views[N_PROCS];
    uint64_t due_usec[MAX_OBJECTS];    /* of a claim: since when it should be relayed */
    uint64_t mirror_usec[MAX_OBJECTS]; /* … and since when its time should be copied */
    uint64_t quiet_writes;             /* of all, up to five minutes before the end */
    uint64_t relays, voluntary, finalized, writes; /* for the curious */
};

struct judge *judge_new(void);
struct judge *judge_free(struct judge *j);
void judge_started(struct world *w, unsigned p);
void judge_event(struct world *w, unsigned p, const struct nc_control_event *e);
void judge_action(struct world *w, unsigned p, const struct nc_control_action *a);
void judge_patched(struct world *w, const struct object *o, const struct nc_value *was);
void judge_heartbeat(struct world *w);
void judge_end(struct world *w);
void judge_break(struct world *w, const char *rule, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Between the files of the judge. */
bool is_unreadable(const struct nc_value *node); /* more than a controller reads of a Node */
const char *text_at(const struct nc_value *v, const char *path); /* NULL = none */
const char *label_of(const struct nc_value *v, const char *key);
const char *annotation_of(const struct nc_value *v, const char *key);
bool has_finalizer(const struct nc_value *v, const char *name);
bool is_deleting(const struct nc_value *v);
uint64_t time_at(const struct nc_value *v, const char *path); /* 0 = none */
/* "True", "False", …; NULL = no such condition. */
const char *condition_of(const struct nc_value *v, const char *type);
/* A drain status that may be relayed: its deadline; 0 = none. */
uint64_t deadline_to_relay(const struct nc_value *node, uint64_t now_usec);
bool may_drain(const struct nc_value *node);
/* A new ending that it states: how long that is ahead. */
void note_ending(struct shown *node);
bool is_foreign(const struct nc_value *claim);

struct shown *judge_find(struct view *v, enum nc_control_kind k, const char *name);
struct shown *judge_node_of(struct world *w, struct view *v, const struct shown *claim);
struct shown *judge_claim_of(struct world *w, struct view *v, const struct shown *node);
const char *judge_owner_of(const struct nc_value *node); /* the uid; NULL = none */
/* judge-mirror.c: is it the copy of a claim's time; what may be copied, and how it may change.
 * Should there be another one? */
bool judge_is_mirror(const struct nc_control_action *a);
void judge_mirror(struct world *w, struct view *v, const struct shown *node,
                  const struct nc_control_action *a);
void judge_mirrored(struct world *w, const struct object *node, const struct nc_value *was);
bool judge_lacks_mirror(const struct world *w, const struct object *claim,
                        const struct object *node);
/* gate.c: is it about the taint of a node that is not fit; what a write has changed of that, and
 * what must have happened by now. */
bool judge_is_gate(const struct nc_control_action *a);
void judge_gated(struct world *w, const struct object *node, const struct nc_value *was);
void judge_probe_gate(struct world *w);
/* judge-outage.c: is it about a Node out of service; what may be done about one. */
bool judge_has_outage(const struct nc_value *node);
bool judge_is_outage(const struct shown *s, const struct nc_control_action *a);
void judge_outage(struct world *w, const struct view *v, const struct shown *s,
                  const struct nc_control_action *a);
void judge_relay(struct world *w, struct view *v, struct shown *s,
                 const struct nc_control_action *a);
void judge_standalone(struct world *w, struct view *v, struct shown *s,
                      const struct nc_control_action *a);

#endif
