/*
 * logind's delay without asking logind.
 */
#ifndef NC_LOGIND_CONF_H
#define NC_LOGIND_CONF_H

#include <stdint.h>

/* InhibitDelayMaxSec as logind's files say, without the one that we write; 0 where none says
 * anything. */
uint64_t nc_logind_configured_delay(const char *root);

#endif
