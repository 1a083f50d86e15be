/*
 * Nodes that state whether they are fit to take pods: what is kept of them, and what they want.
 * Rules C21 to C24.
 */
#ifndef NC_CONTROL_FIT_H
#define NC_CONTROL_FIT_H

#include "control-priv.h"

/* Only where a Node has the annotation, or has had its time without one. */
struct control_fit {
    uint32_t stated;     /* hash of the annotation: another one is another statement; 0 = none */
    bool is_invalid;     /* it cannot be read, and states nothing */
    bool is_fit;         /* it states that */
    bool is_other_boot;  /* … of another boot than that for which we removed the taint */
    bool is_opened;      /* … of the boot for which we removed it */
    uint64_t until_usec; /* when its time is over; 0 = never */
    /* Of fit.c, and not touched by the reader: */
    uint32_t checked;    /* the statement with which the complete Node was read last; 0 = none */
    uint64_t again_usec; /* read again then, and not before; 0 = need not be */
    uint16_t attempts;   /* reads in a row that did not bear it out, writes that failed */
    bool is_overdue;     /* its time is over, and the taint was there */
    bool was_reported;   /* … and that was said; or that it is invalid */
    struct control_fit_write *write; /* what is to be written of it; NULL = nothing */
};

/* Is the taint one of the startup taints of this NodeClaim? */
bool nc_control_has_gate(const struct nc_value *claim);
/* The reader. NULL where there is no annotation. */
struct control_fit *nc_control_fit_from(const struct nc_control *c, const struct nc_value *object);
struct control_fit *nc_control_fit_free(struct control_fit *f);
/* Takes over what was read; what the complete Node has shown stays. */
void nc_control_fit_set(struct control_node *node, struct control_fit *f);
/* What is due, as the hooks of the standalone half have it: the complete Node, or its taints. */
bool nc_control_fit(struct nc_control *c, struct control_node *node, uint64_t now_usec,
                    struct nc_control_action *ret, uint64_t *next_usec);
void nc_control_fit_answered(struct nc_control *c, struct control_node *node,
                             enum nc_control_verb verb, const struct nc_control_event *e);
void nc_control_fit_report(struct nc_control *c, struct control_node *node);

#endif
