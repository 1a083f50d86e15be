/*
 * What the files of the half without Karpenter share. Rules: nc/control-alone.h.
 *
 * Nothing here changes an object: what is wanted follows from what is seen.
 */
#ifndef NC_CONTROL_STANDALONE_STANDALONE_PRIV_H
#define NC_CONTROL_STANDALONE_STANDALONE_PRIV_H

#include "control-priv.h"
#include "nc/standalone.h"

#define ALONE_LABEL_REGISTERED "karpenter.sh/registered"
#define ALONE_LABEL_INITIALIZED "karpenter.sh/initialized"

/* One claim and its Node, looked at now. */
struct alone_view {
    struct nc_control *c;
    struct control_claim *claim;
    struct control_node *node; /* NULL: none that is surely its own */
    uint64_t now_usec;
};
struct alone_view nc_alone_look(struct nc_control *c, struct control_claim *claim,
                                uint64_t now_usec);
/* Not ours to touch: its controller is another one, or Karpenter's finalizer is on it or its Node.
 */
bool nc_alone_is_foreign(const struct alone_view *v);
/* There is no Node of its name and machine, but not for so long that it must be gone. */
bool nc_alone_may_come_back(const struct alone_view *v, uint64_t *next_usec);
/* Somebody says to be the claim's machine, and EC2 was not asked for its name yet: that question.
 */
bool nc_alone_ask_for_name(const struct alone_view *v, struct nc_control_action *ret);
static inline bool nc_alone_is(const struct control_claim *claim, enum control_condition k) {
    return claim->more->truths[k] == CONTROL_TRUE;
}

/* ---- control-alone-parts.c: what patches are put together from */

struct nc_value *nc_alone_child(struct nc_value *map, const char *key); /* made where missing */
/* A list of texts, with one of them at its end. */
struct nc_value *nc_alone_texts_with(const struct control_texts *t, const char *text);
void nc_alone_merge_texts(struct nc_value *map, const struct control_texts *pairs);
bool nc_alone_has_taint(const struct control_texts *t, size_t width, const char *key,
                        const char *effect);
void nc_alone_push_taint(struct nc_value *list, const char *const texts[4]);

/* status.conditions while they are being changed. */
struct alone_conditions {
    struct nc_value *list;
    uint64_t now_usec;
    bool is_changed;
};
struct alone_condition {
    enum control_condition which;
    enum control_truth truth;
    const char *reason, *message;
};
void nc_alone_conditions(const struct alone_view *v, struct alone_conditions *ret);
void nc_alone_set(struct alone_conditions *cs, const struct alone_condition *want);
void nc_alone_unset(struct alone_conditions *cs, enum control_condition which);
enum control_truth nc_alone_truth(const struct alone_conditions *cs, enum control_condition which);
uint64_t nc_alone_since(const struct alone_conditions *cs, enum control_condition which); /* or 0 */
void nc_alone_set_ready(struct alone_conditions *cs);
/* The write of them. True where there is one; frees the list in any case. */
bool nc_alone_write_status(const struct alone_view *v, struct alone_conditions *cs,
                           const char *node_name, struct nc_control_action *ret);

/* ---- control-alone-register.c */

/* The registration patch is seen on it. */
bool nc_alone_is_registered(const struct control_node *node);
/* Why it is not initialized yet, in Karpenter's words; NULL where nothing is missing. The message
 * is owned. */
const char *nc_alone_waits_for(const struct control_claim *claim, const struct control_node *node,
                               char **ret_message);
/* Registration and initialization of the Node: the patch, or NULL. */
struct nc_value *nc_alone_registration(const struct alone_view *v);
/* The claim's status while it lives: conditions and nodeName. True where it must be written. */
bool nc_alone_live_status(const struct alone_view *v, struct nc_control_action *ret);

/* ---- control-alone-end.c */

bool nc_alone_finish(const struct alone_view *v, struct nc_control_action *ret,
                     uint64_t *next_usec);
/* The Node of a claim that is being deleted may go. */
bool nc_alone_may_drop_node(const struct alone_view *v, uint64_t *next_usec);
uint64_t nc_alone_deadline(const struct alone_view *v); /* of the drain request; 0 = none */

enum alone_request { ALONE_REQUEST_NONE = 0, ALONE_REQUEST_OURS, ALONE_REQUEST_OTHER };
enum alone_request nc_alone_request_on(const struct alone_view *v);
char *nc_alone_request_text(const struct alone_view *v);

/* ---- control-alone-pool.c */

/* The reason of the condition Drifted; NULL where it is not drifted. */
const char *nc_alone_drift(const struct control_claim *claim);
uint64_t nc_alone_expiry(const struct control_claim *claim); /* UINT64_MAX = never */
/* May it be disrupted voluntarily, budgets aside, and why? */
bool nc_alone_wants_out(const struct alone_view *v, enum nc_budget_reason *ret);
/* Do the budgets of its pool have room for it now? */
bool nc_alone_has_room(const struct alone_view *v, enum nc_budget_reason why);

#endif
