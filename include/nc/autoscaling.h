/*
 * What the controller asks of EC2 Auto Scaling about an instance of a group: in which state of its
 * lifecycle it is, that the group waits on while its node drains, and that it may go on.
 *
 * Asynchronous, one try each: when to ask again is the step's to say.
 */
#ifndef NC_AUTOSCALING_H
#define NC_AUTOSCALING_H

#include <stdbool.h>

#include "nc/ec2.h"

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
