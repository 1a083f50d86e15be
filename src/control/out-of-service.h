/*
 * Nodes whose instance may be gone: what is kept of them, and what they want. Rules C16 to
 * C18.
 */
#ifndef NC_CONTROL_OUT_OF_SERVICE_H
#define NC_CONTROL_OUT_OF_SERVICE_H

#include "control-priv.h"

/* Only where rules.out_of_service, and Ready is Unknown or our taint is on it. */
struct control_outage {
    char *provider_id;             /* of an EC2 instance; NULL = none, or another one's */
    const char *instance;          /* its id, in provider_id */
    struct control_strings taints; /* 4 each */
    uint8_t ready;                 /* control_truth */
    uint64_t since_usec;           /* Ready is so since then */
    bool is_tainted;               /* out of service, by whomever */
    bool is_marked;                /* … by us */
    /* Of out-of-service.c, and not touched by the reader: */
    bool is_another;        /* EC2's name for the instance is not the Node's */
    const char *state;      /* EC2's last answer; NULL = none, or it says nothing */
    uint64_t answered_usec; /* when that came */
    uint64_t again_usec;    /* not requested before then */
    uint64_t refused_usec;  /* when the API server refused the taint; 0 = not */
    unsigned attempts;      /* answers that it is not terminated, in a row */
};

/* What a Node wants whose instance may be gone. */
enum control_outage_step {
    CONTROL_OUTAGE_NONE = 0,
    CONTROL_OUTAGE_REQUEST, /* the state of its instance */
    CONTROL_OUTAGE_TAINT,
    CONTROL_OUTAGE_UNTAINT,
};

/* The reader: 0 with *ret NULL where there is nothing to do; negative: it cannot
 * be read, and nothing is done. */
int nc_control_outage_read(const struct nc_value *object, struct control_outage **ret);
struct control_outage *nc_control_outage_free(struct control_outage *outage);
/* Takes over what was read; what EC2 has answered stays. */
void nc_control_outage_set(struct control_node *node, struct control_outage *outage);
/* What is due, as the hooks of the standalone half have it. */
enum control_outage_step nc_control_outage(struct nc_control *c, struct control_node *node,
                                           uint64_t now_usec, struct nc_control_action *ret,
                                           uint64_t *next_usec);
void nc_control_outage_report(struct nc_control *c, struct control_node *node);
void nc_control_outage_answered(struct nc_control *c, struct control_node *node,
                                enum control_outage_step step, const struct nc_control_event *e);
/* What the answer means for all such requests. */
void nc_control_outage_pause(struct nc_control *c, const struct nc_control_event *e);
bool nc_control_is_instance_gone(const struct control_node *node);

#endif
