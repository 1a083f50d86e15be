/*
 * The disks of the instance store, a part of nc_probe_host.
 */
#ifndef NC_HOST_PROBE_DISKS_H
#define NC_HOST_PROBE_DISKS_H

#include "nc/facts.h"

/* Fills local_disks and local_disk_bytes; what cannot be read is no disk. */
void nc_probe_local_disks(const char *root, struct nc_facts *f);

#endif
