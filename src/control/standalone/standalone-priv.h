/*
 * What the files of the half without Karpenter share. Rules: docs/drain-rules.md, S1 to S20.
 *
 * Nothing here changes an object: what is wanted follows from what is seen.
 */
#ifndef NC_CONTROL_STANDALONE_STANDALONE_PRIV_H
#define NC_CONTROL_STANDALONE_STANDALONE_PRIV_H

#include "control-priv.h"
#include "nc/budget.h"
#include "nc/standalone.h"

/* One claim and its Node, checked now. */
struct standalone_view {
    struct nc_control *c;
    struct control_claim *claim;
    struct control_node *node; /* NULL: none that is surely its own */
    uint64_t now_usec;
};
struct standalone_view nc_standalone_view(struct nc_control *c, struct control_claim *claim,
                                          uint64_t now_usec);
/* Not ours to touch: its controller is another one, or Karpenter's finalizer is on it or its Node.
 */
bool nc_standalone_is_foreign(const struct standalone_view *v);
/* There is no Node of its name and machine, but not for so long that it must be gone. */
bool nc_standalone_may_come_back(const struct standalone_view *v, uint64_t *next_usec);
/* Somebody says to be the claim's machine, and EC2 was not queried for its name yet: that query.
 */
bool nc_standalone_query_name(const struct standalone_view *v, struct nc_control_action *ret);
/* Its machine has had the time that Karpenter gives one, and there is no Node of it that can be
 * registered. */
bool nc_standalone_is_unregistered(const struct standalone_view *v, uint64_t *next_usec);
uint64_t nc_standalone_expiry(const struct control_claim *claim); /* UINT64_MAX = never */
static inline bool nc_standalone_is(const struct control_claim *claim, enum control_condition k) {
    return claim->more->truths[k] == CONTROL_TRUE;
}

/* ---- read-more.c: see struct nc_standalone */

const char *nc_standalone_condition_name(enum control_condition k); /* "Launched", … */
void nc_standalone_read_node(const struct nc_value *object, struct control_node_more *ret);
int nc_standalone_read_claim(const struct nc_value *object, struct control_claim_more *ret,
                             struct control_class_ref *ret_class);
int nc_standalone_read_pool(const struct nc_value *object, struct control_pool *ret);
int nc_standalone_read_class(const struct nc_value *object, struct control_class *ret);
void nc_standalone_budgets_free(struct nc_budgets *b);

/* ---- standalone/parts.c: what patches are put together from */

struct nc_value *nc_standalone_child(struct nc_value *map,
                                     const char *key); /* made where missing */
/* A list of texts, with one of them at its end. */
struct nc_value *nc_standalone_texts_with(const struct control_strings *t, const char *text);
void nc_standalone_merge_texts(struct nc_value *map, const struct control_strings *pairs);
bool nc_standalone_has_taint(const struct control_strings *t, size_t width, const char *key,
                             const char *effect);

/* status.conditions while they are being changed. */
struct standalone_conditions {
    struct nc_value *list;
    uint64_t now_usec;
    bool is_changed;
};
struct standalone_condition {
    enum control_condition which;
    enum control_truth truth;
    const char *reason, *message;
};
void nc_standalone_conditions(const struct standalone_view *v, struct standalone_conditions *ret);
void nc_standalone_set(struct standalone_conditions *cs, const struct standalone_condition *want);
void nc_standalone_unset(struct standalone_conditions *cs, enum control_condition which);
enum control_truth nc_standalone_truth(const struct standalone_conditions *cs,
                                       enum control_condition which);
uint64_t nc_standalone_since(const struct standalone_conditions *cs,
                             enum control_condition which); /* or 0 */
void nc_standalone_set_ready(struct standalone_conditions *cs);
/* The write of them. True where there is one; frees the list in any case. */
bool nc_standalone_write_status(const struct standalone_view *v, struct standalone_conditions *cs,
                                const char *node_name, struct nc_control_action *ret);

/* ---- standalone/register.c */

/* Registration and initialization of the Node: the patch, or NULL. */
/* What of the Node cannot be read: "metadata.finalizers, spec.taints". Owned. */
char *nc_standalone_unread(const struct control_node *node);
struct nc_value *nc_standalone_registration(const struct standalone_view *v);
/* The claim's status while it lives: conditions and nodeName. True where it must be written. */
bool nc_standalone_live_status(const struct standalone_view *v, struct nc_control_action *ret);

/* ---- standalone/end.c */

bool nc_standalone_finish(const struct standalone_view *v, struct nc_control_action *ret,
                          uint64_t *next_usec);
/* The Node of a claim that is being deleted may go. */
bool nc_standalone_may_drop_node(const struct standalone_view *v, uint64_t *next_usec);

enum standalone_request {
    STANDALONE_REQUEST_NONE = 0,
    STANDALONE_REQUEST_OURS,
    STANDALONE_REQUEST_OTHER
};
enum standalone_request nc_standalone_request_on(const struct standalone_view *v);
char *nc_standalone_request_text(const struct standalone_view *v);

/* ---- standalone/pool.c */

void nc_standalone_pool(struct nc_control *c, struct control_pool *pool, uint64_t now_usec,
                        uint64_t *next_usec);
void nc_standalone_count(struct nc_control *c, struct control_claim *claim);
/* Being deleted, or a DELETE of it is in flight. */
static inline bool nc_standalone_is_leaving(const struct control_claim *claim) {
    return nc_control_is_deleting(claim)
           || (claim->o.write.id && claim->o.write.verb == NC_CONTROL_DELETE_CLAIM);
}

/* The reason of the condition Drifted; NULL where it is not drifted. */
const char *nc_standalone_drift(const struct control_claim *claim);
/* May it be disrupted voluntarily, budgets aside, and why? */
bool nc_standalone_wants_out(const struct standalone_view *v, enum nc_budget_reason *ret);
/* Do the budgets of its pool have room for it now? */
bool nc_standalone_has_room(const struct standalone_view *v, enum nc_budget_reason why);

/* ---- standalone/turn.c */

/* May something of its zone be disrupted voluntarily now? Always where zones take no turns. */
bool nc_standalone_has_turn(const struct standalone_view *v);
/* The condition DisruptionReason, from which the next leader knows it. */
void nc_standalone_set_reason(const struct standalone_view *v, struct standalone_conditions *cs);
/* Whether it is being disrupted is brought up to date: as `count` of struct nc_standalone. */
void nc_standalone_note_turn(struct nc_control *c, struct control_claim *claim);
/* Passes the turn on where that is due, among the zones whose claims have waits_for_zone. */
void nc_standalone_turn(struct nc_control *c, uint64_t *next_usec);

#endif
