/*
 * Who the node is: its name, its providerID, its one address.
 */
#ifndef NC_PLAN_NAMING_H
#define NC_PLAN_NAMING_H

#include "nc/plan.h"

struct nc_decided_name {
    char *text; /* owned */
    char from[96];
};

/* The node's name by the configured way, checked as a DNS-1123 subdomain. NC_ERR_CONFIG with a
 * remedy where a fact is missing that the user can replace. */
int nc_name_decide(const struct nc_facts *f, const struct nc_config *c, struct nc_decided_name *ret,
                   struct nc_strv *warnings, struct nc_err *err);

/* "aws:///AZ/INSTANCE", or the configured one. */
int nc_provider_id_decide(const struct nc_facts *f, const struct nc_config *c,
                          struct nc_decided_name *ret, struct nc_err *err);

/* The address of the family that the services have: 0 = the family is not known. NULL where that
 * fact is missing. Borrowed. */
const char *nc_node_ip_of_family(const struct nc_facts *f, int family);

#endif
