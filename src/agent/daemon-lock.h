/*
 * One daemon on a machine, and whether there is one.
 */
#ifndef NC_DAEMON_LOCK_H
#define NC_DAEMON_LOCK_H

#include <sys/types.h>

#include "app.h"

/* Says that the daemon runs, until the process ends or *ret_fd is closed. -EEXIST where another one
 * does; what else goes wrong is a reason to go on without. */
int nc_daemon_lock(const struct nc_app *app, int *ret_fd, struct nc_err *err);

/* The daemon's process; 0 = there is none; negative = it cannot be known (and -ESRCH: it runs where
 * its number is not ours to see). */
pid_t nc_daemon_pid(const struct nc_app *app);

#endif
