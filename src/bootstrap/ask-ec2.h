/*
 * What only EC2 itself can answer, asked where the configuration wants it.
 */
#ifndef NC_BOOTSTRAP_ASK_EC2_H
#define NC_BOOTSTRAP_ASK_EC2_H

#include "gather.h"

/* The private DNS name under a custom DHCP domain, and the sizes of an instance type that the table
 * does not know. A type that cannot be learned is a warning (110 pods are planned then), a name
 * that cannot be learned is an error. */
int nc_gather_ask_ec2(struct nc_gather *g, struct nc_err *err);

#endif
