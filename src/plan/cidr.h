/*
 * IP addresses and networks, computed on bytes, never on text.
 */
#ifndef NC_PLAN_CIDR_H
#define NC_PLAN_CIDR_H

#include <stdbool.h>
#include <stddef.h>

/* The DNS service's address: the network's address + 10, for both families ("10.100.5.7/16" ->
 * "10.100.0.10", "fd00::/108" -> "fd00::a"). -EINVAL: no CIDR; -ERANGE: the network is too small to
 * hold that address. ret holds at least 46 bytes. */
int nc_cidr_dns(const char *cidr, char *ret, size_t size);

/* 4 or 6, or 0 where the text is neither an address nor a CIDR. */
int nc_address_family(const char *text);

#endif
