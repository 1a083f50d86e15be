/*
 * One daemon on a machine, and whether there is one.
 */
#ifndef NC_DAEMON_LOCK_H
#define NC_DAEMON_LOCK_H

#include <sys/types.h>

#include "app.h"
#include "nc/value.h"

/* States that the daemon runs, until the process ends or *ret_fd is closed. -EEXIST where another
 * one does; what else goes wrong is a reason to go on without. */
int nc_daemon_lock(const struct nc_app *app, int *ret_fd, struct nc_err *err);

/* Is the daemon that wrote this status not there any more? False where that cannot be known. One
 * that could make no lock, or is of a version without it, is told by its process number. */
bool nc_daemon_is_gone(const struct nc_app *app, const struct nc_value *status);

#endif
