/*
 * The lifecycle action of the Auto Scaling group of a Node's instance: what is kept of it, and what
 * it wants. Rules C14, C15.
 */
#ifndef NC_CONTROL_LIFECYCLE_ACTION_H
#define NC_CONTROL_LIFECYCLE_ACTION_H

#include "control-priv.h"

/* The lifecycle action of its Auto Scaling group; only where rules.completes_actions, and while the
 * drain status is of that source. All of it belongs to this providerID and this drain. */
enum control_lifecycle_state {
    CONTROL_LIFECYCLE_PENDING = 0, /* to be asked for, again where the group does not wait yet */
    CONTROL_LIFECYCLE_WAITING,     /* Terminating:Wait */
    CONTROL_LIFECYCLE_COMPLETED,
    CONTROL_LIFECYCLE_NONE,     /* there is nothing to complete (any more) */
    CONTROL_LIFECYCLE_MISMATCH, /* the instance is not this Node's, or none */
};
struct control_lifecycle {
    char *provider_id; /* NULL = none that can be read */
    char *group;       /* NULL = not known */
    char id[72];       /* of the drain */
    enum control_lifecycle_state state;
    bool is_confirmed;          /* the instance is this Node's */
    bool is_failed;             /* the last answer was a refusal */
    bool was_mismatch_reported; /* the Events: … */
    bool was_end_reported;      /* … LifecycleActionHeartbeatsEnded */
    uint8_t reported_refusals;  /* … one bit for each that was said */
    uint16_t attempts;          /* without what was wanted, in a row */
    uint64_t request_id;        /* of the last request: its answer belongs here */
    uint64_t first_usec;        /* when the drain was first seen */
    uint64_t pause_usec;        /* not before, by the verb that failed */
    uint8_t paused_verb;
    uint64_t heartbeat_usec; /* when the last one was accepted; 0 = none yet */
    uint64_t progress_usec;  /* when `remaining` fell last */
    int64_t least;           /* … to this; -1 = not known */
};

/* What Auto Scaling is to be told of a Node's instance. Level-triggered. */
void nc_control_apply_lifecycle(struct nc_control *c, struct control_node *node,
                                const struct nc_value *object);
struct control_lifecycle *nc_control_lifecycle_free(struct control_lifecycle *l);
bool nc_control_lifecycle(const struct nc_control *c, const struct control_node *node,
                          uint64_t now_usec, struct nc_control_action *ret, uint64_t *next_usec);
void nc_control_lifecycle_answered(struct nc_control *c, struct control_node *node,
                                   enum nc_control_verb verb, const struct nc_control_event *e);
/* What is said without an answer; *next_usec: when to try again. */
void nc_control_report_lifecycle(struct nc_control *c, struct control_node *node,
                                 uint64_t *next_usec);
const char *nc_control_lifecycle_name(const struct control_node *node); /* or NULL */

#endif
