/*
 * Facts that take some reading: kubelet's version without running it, logind's delay without asking
 * it.
 */
#ifndef NC_KUBELET_VERSION_H
#define NC_KUBELET_VERSION_H

#include <stdint.h>

#include "nc/err.h"

/* "v1.34.4" of a version file on the AMI, else of the binary itself. Owned. NC_ERR_HOST where
 * neither tells. */
int nc_kubelet_version(const char *root, const char *kubelet_path, char **ret, struct nc_err *err);

/* InhibitDelayMaxSec as logind's files say, without the one that we write; 0 where none says
 * anything. */
uint64_t nc_logind_configured_delay(const char *root);

#endif
