/*
 * What the files at the daemon's edges know of each other: how the polls are doing, for
 * status.json, and the file that bootstrap and daemon both write.
 */
#ifndef NC_DAEMON_EDGES_H
#define NC_DAEMON_EDGES_H

#include "daemon.h"

/* The files of NC_REQUEST_DIR: written by `drain` and `undrain`, removed by the daemon. */
#define NC_REQUEST_DRAIN "drain.json"
#define NC_REQUEST_UNDRAIN "undrain.json"

/* One poll of IMDS as status.json shows it. */
struct nc_poll_view {
    const char
        *state; /* "ok", "failing", "off" (not asked on this instance), "waiting" (no answer yet) */
    uint64_t last_usec; /* the last good answer, on EC2's clock; 0 = never */
    const char *error;  /* "" unless failing; borrowed */
};
/* False where this source is no poll. */
bool nc_daemon_imds_look(const struct nc_daemon *d, enum nc_source s, struct nc_poll_view *ret);

/* Whether what EC2 announces is not received: a poll has failed for at least so long. -EAGAIN where
 * that is not known yet: one fails, but not for so long, or was not answered yet. `message` says it
 * for people. */
int nc_daemon_imds_is_failing(const struct nc_daemon *d, uint64_t for_usec, bool *ret,
                              struct nc_buf *message);

#endif
