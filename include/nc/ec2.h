/*
 * The questions that EC2 itself must answer, and only where configuration requests them: the
 * private DNS name of an instance (custom DHCP domains; the controller: whose Node is it?), its
 * state (the controller: is the machine gone?), and what an instance type is that the table does
 * not know. And the one order that the controller gives in standalone mode: to end an instance.
 */
#ifndef NC_EC2_H
#define NC_EC2_H

#include <stdbool.h>

#include "nc/facts.h"
#include "nc/imds.h"

struct nc_ec2 {
    struct nc_http *http; /* borrowed */
    const char *endpoint; /* "https://ec2.us-west-2.amazonaws.com" or an override */
    const char *region;
    const struct nc_credentials *credentials;
    uint64_t time_usec;
    uint64_t timeout_usec;
};

/* DescribeInstances -> privateDnsName. One try; NC_ERR_AUTH on UnauthorizedOperation (with the
 * action to allow as the remedy), NC_ERR_TRANSIENT on throttling, InvalidInstanceID.NotFound
 * (eventual consistency) and 5xx. ret is owned. */
int nc_ec2_private_dns_name(const struct nc_ec2 *e, const char *instance_id, char **ret,
                            struct nc_err *err);
/* DescribeInstanceTypes -> the type. */
int nc_ec2_instance_type(const struct nc_ec2 *e, const char *type, struct nc_instance_type *ret,
                         struct nc_err *err);

enum nc_ec2_state {
    NC_EC2_NO_STATE = 0, /* not known */
    NC_EC2_PENDING,
    NC_EC2_RUNNING,
    NC_EC2_SHUTTING_DOWN,
    NC_EC2_TERMINATED,
    NC_EC2_STOPPING,
    NC_EC2_STOPPED,
    _NC_EC2_STATE_MAX
};
const char *nc_ec2_state_name(enum nc_ec2_state s); /* "running", …; EC2's own words */

/* About one instance, asynchronous. That there is none such (any more, or yet) is a success, with
 * is_unknown. One try; `done` is called once unless this fails or it is cancelled. The handle is
 * the caller's, and must stay where it is until then. */
struct nc_ec2_call {
    char instance_id[64];
    void (*done)(struct nc_ec2_call *call, const struct nc_err *err); /* NC_ERR_NONE: it ends */
    void *userdata;
    bool is_unknown;
    const char *private_dns_name; /* of DescribeInstances, during `done`; NULL = none */
    enum nc_ec2_state state;      /* of nc_ec2_state_start */
    struct nc_http_req *req;
};
/* TerminateInstances. */
int nc_ec2_end_start(const struct nc_ec2 *e, const char *instance_id, struct nc_ec2_call *call,
                     struct nc_err *err);
/* DescribeInstances: the name. */
int nc_ec2_describe_start(const struct nc_ec2 *e, const char *instance_id, struct nc_ec2_call *call,
                          struct nc_err *err);
/* DescribeInstances: the state, and the name where there still is one. An answer without the
 * instance is is_unknown, too. */
int nc_ec2_state_start(const struct nc_ec2 *e, const char *instance_id, struct nc_ec2_call *call,
                       struct nc_err *err);
void nc_ec2_call_cancel(struct nc_ec2_call *call);

/* --- What the controller asks of EC2 Auto Scaling about an instance of a group: in which state of
 * its lifecycle it is, that the group waits on while its node drains, and that it may go on.
 *
 * Asynchronous, one try each: when to ask again is the step's to say. */

#define NC_AUTOSCALING_GROUP_BYTES                                                                 \
    ((size_t)1024) /* of a group's name: 255 characters of any kind */
#define NC_AUTOSCALING_HOOK_BYTES ((size_t)255)
#define NC_AUTOSCALING_STATE_BYTES ((size_t)64)

/* A hook's name: letters, digits, "-", "_" and "/". */
bool nc_autoscaling_is_hook(const char *name);

/* `done` is called once unless the start fails or the call is cancelled. The handle is the
 * caller's, and must stay where it is until then. */
struct nc_autoscaling_call {
    char instance_id[64];
    void (*done)(struct nc_autoscaling_call *call, const struct nc_err *err); /* NONE: it ends */
    void *userdata;
    /* A success too. Of describe: the instance is in no group. Of heartbeat and complete: no
     * lifecycle action is active, as somebody else has completed it, or its time is over. */
    bool is_unknown;
    bool is_refused;           /* heartbeat, complete: ValidationError, such as an unknown hook */
    const char *group, *state; /* of describe, during `done`; NULL where it is in no group */
    struct nc_http_req *req;
};
/* Where Auto Scaling is asked: `endpoint` of the struct is "https://autoscaling.REGION.…".
 * DescribeAutoScalingInstances. */
int nc_autoscaling_describe_start(const struct nc_ec2 *e, const char *instance_id,
                                  struct nc_autoscaling_call *call, struct nc_err *err);

/* Of which hook of which group; the instance stands for the action's token. */
struct nc_autoscaling_action {
    const char *instance_id, *group, *hook;
    bool completes; /* CompleteLifecycleAction, CONTINUE; else RecordLifecycleActionHeartbeat */
};
int nc_autoscaling_action_start(const struct nc_ec2 *e, const struct nc_autoscaling_action *action,
                                struct nc_autoscaling_call *call, struct nc_err *err);
void nc_autoscaling_call_cancel(struct nc_autoscaling_call *call);

#endif
