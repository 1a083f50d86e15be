/*
 * The pure half of EC2 and Auto Scaling: answers in, values or errors out.
 */
#ifndef NC_EC2_PRIV_H
#define NC_EC2_PRIV_H

#include <stdbool.h>

#include "nc/ec2.h"
#include "nc/http.h"
#include "nc/mem.h"

/* DescribeInstances: the private DNS name of exactly this instance. An instance that is not there,
 * or has no name yet, is transient. */
int nc_ec2_read_instance(const char *data, size_t n, const char *instance_id, char **ret,
                         struct nc_err *err);
/* DescribeInstances: the state of exactly this instance, with NC_EC2_NO_STATE where the answer has
 * none. The name is NULL where there is none (any more). An answer that contradicts itself is
 * NC_ERR_PROTOCOL. */
struct nc_ec2_state_answer {
    enum nc_ec2_state state;
    char *private_dns_name; /* owned */
};
int nc_ec2_read_state(const char *data, size_t n, const char *instance_id,
                      struct nc_ec2_state_answer *ret, struct nc_err *err);
/* DescribeInstanceTypes: exactly this type; interfaces are those of the default network card. */
int nc_ec2_read_type(const char *data, size_t n, const char *type, struct nc_instance_type *ret,
                     struct nc_err *err);
/* An answer that is no success. Always negative. */
int nc_aws_refused(const struct nc_http_result *result, const char *service, const char *action,
                   struct nc_err *err);
int nc_ec2_refused(const struct nc_http_result *result, const char *action, struct nc_err *err);

/* Is that the error code in an answer that is no success, and are these words in its message? */
bool nc_aws_has_error(const struct nc_http_result *result, const char *code, const char *words);
/* The same, whatever the message says. */
bool nc_ec2_has_error(const struct nc_http_result *result, const char *code);
/* TerminateInstances: the answer is about exactly this instance. */
int nc_ec2_read_end(const char *data, size_t n, const char *instance_id, struct nc_err *err);

/* One signed question. */
struct nc_ec2_request {
    char *name, *url, *body;
    struct nc_strv headers; /* secret */
    struct nc_http_options options;
};
/* "Action=…&KEY=VALUE&Version=…"; owned. The value must be plain. */
char *nc_ec2_form(const char *action, const char *key, const char *value);
/* Only what cannot change the form around it. */
bool nc_ec2_is_plain(const char *s);
/* The body is taken over, in any case. */
struct nc_aws_query {
    const char *service, *action; /* "ec2", "DescribeInstances" */
    char *body;
};
int nc_aws_request_make(const struct nc_ec2 *e, const struct nc_aws_query *query,
                        struct nc_ec2_request *q, struct nc_err *err);
int nc_ec2_request_make(const struct nc_ec2 *e, const char *action, char *body,
                        struct nc_ec2_request *q, struct nc_err *err);
void nc_ec2_request_done(struct nc_ec2_request *q);

/* --- autoscaling-read.c */

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
