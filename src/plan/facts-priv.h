/*
 * What the two readers of facts share.
 */
#ifndef NC_PLAN_FACTS_PRIV_H
#define NC_PLAN_FACTS_PRIV_H

#include "nc/facts.h"

void nc_facts_free_sysctls(struct nc_facts *f);

#endif
