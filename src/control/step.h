/*
 * What the files of the step call of each other: nobody else's, nor that of the standalone half.
 */
#ifndef NC_CONTROL_STEP_H
#define NC_CONTROL_STEP_H

#include "control-priv.h"

static inline struct control_node *nc_control_as_node(struct control_object *o) {
    return (struct control_node *)o;
}
static inline struct control_pool *nc_control_as_pool(struct control_object *o) {
    return (struct control_pool *)o;
}
static inline struct control_class *nc_control_as_class(struct control_object *o) {
    return (struct control_class *)o;
}
/* Of a link by name. */
static inline void *nc_control_object_of(const struct control_link *l) {
    return (char *)(uintptr_t)l - offsetof(struct control_object, by_name);
}
static inline const char *nc_control_provider_of(const struct control_claim *claim) {
    return claim->more ? claim->more->provider_id : claim->provider_id;
}

/* strings.c, drain-status.c */
void nc_control_strings_set(struct control_strings *t, const char *data, size_t bytes, size_t n);
const char *nc_control_phase_name(enum control_phase p); /* "Detected", … */

/* store.c: lookups, and whom to ask again */
/* The struct of its kind. Entries of pools and classes that only claims name have is_there ==
 * false. */
void *nc_control_named(const struct nc_control *c, enum nc_control_kind k, const char *name);
/* Of the claims that name it in status.nodeName: the one that owns it; where nobody owns it, the
 * only one; NULL where it cannot be told. */
struct control_claim *nc_control_naming(const struct nc_control *c, const struct control_node *node,
                                        bool *ret_any);
/* Check all of them again. */
void nc_control_touch_all(struct nc_control *c);
uint32_t nc_control_hash(const struct nc_control *c, const char *text);
void nc_control_link(const struct nc_control *c, struct control_table *t, struct control_link *l,
                     const char *key);
void nc_control_unlink(struct control_table *t, struct control_link *l);
void nc_control_enqueue(struct control_queue *q, struct control_object *o, size_t which);
void nc_control_enqueue_first(struct control_queue *q, struct control_object *o, size_t which);
void nc_control_dequeue(struct control_queue *q, struct control_object *o, size_t which);
struct control_object *nc_control_pop(struct control_queue *q, size_t which);
void nc_control_wake_at(struct nc_control *c, struct control_object *o, uint64_t usec);
/* It, and what belongs to it: Node and claim, all claims of one Node, the claim's pool. */
void nc_control_touch_around(struct nc_control *c, struct control_object *o);

/* objects.c */
/* What EC2 states that the claim's instance is called. */
void nc_control_set_dns_name(struct control_claim *claim, const char *name);
struct control_object *nc_control_put(struct nc_control *c, enum nc_control_kind k,
                                      const char *name, const char *uid);
void nc_control_set_uid(struct nc_control *c, struct control_object *o, const char *uid);
void nc_control_count_karpenter(struct nc_control *c, struct control_claim *claim, bool counts);
void nc_control_gone(struct nc_control *c, struct control_object *o);
void nc_control_drop_all(struct nc_control *c);
void nc_control_set_pool(struct nc_control *c, struct control_claim *claim, const char *name);
void nc_control_set_class(struct nc_control *c, struct control_claim *claim, const char *name);
struct control_node_more *nc_control_node_more_free(struct control_node_more *m);
struct control_claim_more *nc_control_claim_more_free(struct control_claim_more *m);

/* read-objects.c: negative: the object is refused, nothing has changed; 0: nothing new; 1: it was
 * read, and touched with what belongs to it. */
int nc_control_read(struct nc_control *c, enum nc_control_kind k, const struct nc_value *object,
                    struct control_object **ret);

/* transfer.c: what is left of a time without Karpenter. */
struct control_strings *nc_control_left_free(struct control_strings *left);
int nc_control_parse_leftovers(const struct nc_value *object, uint64_t deletion_usec,
                               struct control_strings **ret);
bool nc_control_transfer(struct control_object *o, uint64_t now_usec, struct nc_control_action *ret,
                         uint64_t *next_usec);

/* mirror.c: the time of a claim that is being deleted, copied to its Node. What is on the Node as
 * the copy of that claim's; 0 = none. Is there another one to be written? */
uint64_t nc_control_mirrored(const char *text, const char *claim_uid);
bool nc_control_mirror(const struct nc_control *c, const struct control_node *node,
                       uint64_t now_usec, struct nc_control_action *ret);

/* relay.c */
bool nc_control_relay(struct nc_control *c, struct control_claim *claim, uint64_t now_usec,
                      struct control_relay *ret);
void nc_control_relay_action(const struct control_claim *claim, const struct control_relay *r,
                             struct nc_control_action *ret);
void nc_control_relay_answered(struct nc_control *c, struct control_claim *claim,
                               enum nc_control_verb verb, const struct nc_control_event *e);

/* mode.c */
bool nc_control_may_complete(const struct nc_control *c); /* lifecycle actions */
bool nc_control_may_relay(const struct nc_control *c);    /* the relay */
bool nc_control_may_manage(const struct nc_control *c);   /* everything else */
bool nc_control_may_taint(const struct nc_control *c);    /* out of service */
bool nc_control_may_fit(const struct nc_control *c);      /* not fit to take pods */

/* write.c */
/* More than so long is not trusted of a Retry-After, nor of a pause. */
#define CONTROL_RETRY_AFTER_MAX_USEC (300ull * 1000000)
/* Our own pause, or what a Retry-After asks for, whichever is longer. */
static inline uint64_t nc_control_pause(uint64_t own_usec, uint64_t asked_usec) {
    if (asked_usec > CONTROL_RETRY_AFTER_MAX_USEC)
        asked_usec = CONTROL_RETRY_AFTER_MAX_USEC;
    return asked_usec > own_usec ? asked_usec : own_usec;
}
/* EC2 and Auto Scaling have a part of the concurrency to themselves. */
bool nc_control_is_for_ec2(enum nc_control_verb verb);
/* One that only asks: it has pauses of its own. */
static inline bool nc_control_is_get(enum nc_control_verb verb) {
    return verb == NC_CONTROL_GET_NODE || verb == NC_CONTROL_INSTANCE_STATE;
}
bool nc_control_is_of_lifecycle(const struct control_object *o, enum nc_control_verb verb);
void nc_control_reconcile(struct nc_control *c, uint64_t now_usec); /* the end of each step */
void nc_control_seen(struct nc_control *c, struct control_object *o);
void nc_control_forget_in_flight(struct nc_control *c);

/* without-node.c */
void nc_control_apply_boot_failure(struct nc_control *c, const struct nc_control_event *e);
void nc_control_check_boot_failure(struct control_claim *claim); /* it was read */
void nc_control_drop_boot_failure(struct control_claim *claim);
size_t nc_control_count_without_node(const struct nc_control *c);
void nc_control_metrics_without_node(struct nc_metrics *m, const struct nc_control *c);

/* overhead.c: memory, as the Node states it and as its claim counts on it */
void nc_control_read_offer(struct control_node *node, const struct nc_value *object);
void nc_control_read_promise(struct nc_control *c, struct control_claim *claim,
                             const struct nc_value *object);
void nc_control_drop_promise(struct nc_control *c, struct control_claim *claim);
void nc_control_drop_shapes(struct nc_control *c);
void nc_control_metrics_overhead(struct nc_metrics *m, const struct nc_control *c);

/* answer.c */
void nc_control_answered(struct nc_control *c, const struct nc_control_event *e);

/* rate-limit.c */
/* So many writes; else *ret_usec is when. */
bool nc_control_rate_allows(const struct control_object *o, unsigned n, uint64_t now_usec,
                            uint64_t *ret_usec);
/* What is said leaves room for a write: a node that gives cause to say something all the time would
 * keep its Node from being written. */
bool nc_control_may_emit(const struct control_object *o, uint64_t now_usec, uint64_t *ret_usec);
void nc_control_rate_spend(struct control_object *o, uint64_t now_usec);

#endif
