/*
 * The pure half of EC2: answers in, values or errors out.
 */
#ifndef NC_EC2_PRIV_H
#define NC_EC2_PRIV_H

#include "nc/ec2.h"
#include "nc/http.h"

/* DescribeInstances: the private DNS name of exactly this instance. An instance that is not there,
 * or has no name yet, is transient. */
int nc_ec2_read_instance(const char *data, size_t n, const char *instance_id, char **ret,
                         struct nc_err *err);
/* DescribeInstanceTypes: exactly this type; interfaces are those of the default network card. */
int nc_ec2_read_type(const char *data, size_t n, const char *type, struct nc_instance_type *ret,
                     struct nc_err *err);
/* An answer that is no success. Always negative. */
int nc_ec2_refused(const struct nc_http_result *result, const char *action, struct nc_err *err);

#endif
