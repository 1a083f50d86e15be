/*
 * The Node condition that notices are not received.
 */
#ifndef NC_DAEMON_IMDS_CONDITION_H
#define NC_DAEMON_IMDS_CONDITION_H

#include "api-session.h"
#include "notice-poller.h"

#define NC_CONDITION_NOTICES "InterruptionNoticesUnavailable"

/* All are required. */
struct nc_imds_condition_options {
    struct nc_api_session *api;
    struct nc_counters *counters;
    char *const *node_name;
    struct nc_notice_poller *const *poller;
    uint64_t (*now)(void *userdata);   /* on EC2's clock */
    bool (*may_write)(void *userdata); /* is there a Node of ours that may be written to? */
    void *userdata;
};

struct nc_imds_condition {
    struct nc_imds_condition_options o;
    struct nc_kube_req *write;
    bool is_true, is_writing_true; /* on the Node as it was read last; in the write */
    bool is_registered;            /* by Karpenter */
    uint64_t after_usec;           /* monotonic: not written before */
};

/* What the complete Node, and what its metadata say. */
void nc_imds_condition_note_node(struct nc_imds_condition *c, const struct nc_value *node);
void nc_imds_condition_note_metadata(struct nc_imds_condition *c, const struct nc_value *metadata);
/* Writes it where it has changed; after each poll. */
void nc_imds_condition_check(struct nc_imds_condition *c);
void nc_imds_condition_close(struct nc_imds_condition *c);

#endif
