/*
 * An image that nodes boot from: what its root file system lacks, found by reading its files.
 *
 * Nothing of the image is executed or trusted: no symbolic link in it leads out of it, each file
 * that is read is capped, and what could not be read is a failure, never taken for absent.
 */
#ifndef NC_IMAGE_H
#define NC_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "nc/err.h"

/* The sysctls that kubelet insists on with protectKernelDefaults (k8s.io/kubernetes
 * pkg/util/sysctl, pkg/kubelet/cm). `is_default`: Linux has this value where nobody sets it. */
struct nc_kubelet_sysctl {
    char name[28];
    char value[12];
    bool is_default;
};
#define NC_KUBELET_SYSCTLS 6
extern const struct nc_kubelet_sysctl nc_kubelet_sysctls[NC_KUBELET_SYSCTLS];

/* Where nodes search for the program "ecr-credential-provider"; the first is the EKS AMI's. */
extern const char nc_ecr_folders[];

#define NC_IMAGE_PROVISION "run image/provision (/usr/share/nodeclaimd/provision)"

/* One check came to this. `problem` has class NC_ERR_NONE where all is well: then its message says
 * what was found. Borrowed, for the time of the call. */
struct nc_image_finding {
    const char *check;
    bool is_warning; /* the image works, but less well or not for everybody */
    const struct nc_err *problem;
};
typedef void (*nc_image_fn)(void *userdata, const struct nc_image_finding *finding);

/* Calls `found` at least once for each check. Negative, and nothing was called, where root itself
 * cannot be opened. */
int nc_image_check(const char *root, nc_image_fn found, void *userdata, struct nc_err *err);

#endif
