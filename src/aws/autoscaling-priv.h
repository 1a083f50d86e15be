/*
 * The pure half of Auto Scaling: answers in, values or errors out.
 */
#ifndef NC_AUTOSCALING_PRIV_H
#define NC_AUTOSCALING_PRIV_H

#include "ec2-priv.h"
#include "nc/autoscaling.h"

struct nc_autoscaling_instance { /* owned; both NULL: it is in no group */
    char *group, *state;
};
void nc_autoscaling_instance_done(struct nc_autoscaling_instance *i);
/* DescribeAutoScalingInstances, about exactly this instance. That it is in no group is only taken
 * from a list that is there, and empty. */
int nc_autoscaling_read_instance(const char *data, size_t n, const char *instance_id,
                                 struct nc_autoscaling_instance *ret, struct nc_err *err);
/* The answer to an action that has no value: it must be that action's. */
int nc_autoscaling_read_action(const char *data, size_t n, const char *action, struct nc_err *err);

#endif
