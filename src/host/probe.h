/*
 * The parts of nc_probe_host that have files of their own.
 */
#ifndef NC_HOST_PROBE_H
#define NC_HOST_PROBE_H

#include "nc/facts.h"

/* logind-conf.c: logind's delay without asking logind. */
/* InhibitDelayMaxSec as logind's files say, without the one that we write; 0 where none says
 * anything. */
uint64_t nc_logind_configured_delay(const char *root);

/* probe-disks.c: the disks of the instance store. */
/* Fills local_disks and local_disk_bytes; what cannot be read is no disk. */
void nc_probe_local_disks(const char *root, struct nc_facts *f);

/* program-version.c: the path of containerd's binary below root, without the root; NULL where there
 * is none. */
const char *nc_containerd_binary(const char *root);

#endif
