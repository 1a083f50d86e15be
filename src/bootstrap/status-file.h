/*
 * status.json and metrics.prom: one file each, two writers.
 *
 * A bootstrap and the daemon run at the same time, in two processes. Each writes what is its own
 * and keeps what is the other's; a lock makes reading and writing one step. Nothing is known here
 * of what either has to say.
 */
#ifndef NC_BOOTSTRAP_STATUS_FILE_H
#define NC_BOOTSTRAP_STATUS_FILE_H

#include "app.h"
#include "nc/value.h"

enum nc_status_writer {
    NC_STATUS_BOOTSTRAP = 1, /* everything but `drain` and `daemon`; nodeclaimd_bootstrap_… */
    NC_STATUS_DAEMON,        /* `drain` and `daemon` of status.json; every other family */
};

/* NULL: that file is left as it is; status is consumed in any case. -EAGAIN (err untouched) where
 * the other one holds the lock for longer than this writer may wait: the daemon not at all, a
 * bootstrap for a moment (then it writes without it). */
int nc_status_files_write(const struct nc_app *app, enum nc_status_writer writer,
                          struct nc_value *status, const struct nc_buf *metrics,
                          struct nc_err *err);

/* status.json as it is now: its text, and (ret not NULL) the tree. -ENOENT where neither a
 * bootstrap nor the daemon has run since the machine started. */
int nc_status_file_read(const struct nc_app *app, struct nc_buf *text, struct nc_value **ret,
                        struct nc_err *err);
/* The same of metrics.prom. */
int nc_metrics_file_read(const struct nc_app *app, struct nc_buf *text, struct nc_err *err);

#endif
