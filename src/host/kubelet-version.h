/*
 * kubelet's version without running it.
 */
#ifndef NC_KUBELET_VERSION_H
#define NC_KUBELET_VERSION_H

#include "nc/err.h"

/* "v1.34.4" of a version file on the AMI, else of the binary's build information; with the suffix
 * that a distribution gives it. Owned. The binary is looked for below root, then at the path
 * itself. NC_ERR_HOST where neither tells. */
int nc_kubelet_version(const char *root, const char *kubelet_path, char **ret, struct nc_err *err);

#endif
