/*
 * What documents.c needs of user data beyond nc/userdata.h.
 */
#ifndef NC_CONFIG_USERDATA_PRIV_H
#define NC_CONFIG_USERDATA_PRIV_H

#include "nc/userdata.h"

/* What a part is, for a person who expected it to be ours: "a shell script", "a cloud-config", "a
 * part of type text/plain". Owned by the caller. */
char *nc_userdata_describe(const struct nc_userdata_part *p);

#endif
