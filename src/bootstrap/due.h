/*
 * What must be done over D-Bus because a file has changed.
 *
 * It is written down before the file changes and forgotten once it is done: a run that ended in
 * between leaves it to the next one, which finds nothing to write. Below /run: after a reboot all
 * is read anew anyway.
 */
#ifndef NC_BOOTSTRAP_DUE_H
#define NC_BOOTSTRAP_DUE_H

#include "bootstrap.h"

enum nc_due {
    NC_DUE_RELOAD = 0, /* systemd reads its files again */
    NC_DUE_RESOLVER,   /* each other: the unit is started again */
    NC_DUE_DISKS,
    NC_DUE_CONTAINERD,
    NC_DUE_KUBELET,
    _NC_DUE_MAX
};

bool nc_is_due(const struct nc_bootstrap *b, enum nc_due d);
void nc_due_done(struct nc_bootstrap *b, enum nc_due d);

/* Brings one stage of the files to disk; what is due by that is written down before. Adds to
 * *count. */
int nc_apply_stage(struct nc_bootstrap *b, const struct nc_fileset *files, enum nc_file_stage stage,
                   struct nc_apply_result *count, struct nc_err *err);

#endif
