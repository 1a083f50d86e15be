/*
 * The source SHUTDOWN: logind's window, and the inhibitor that holds it open.
 */
#ifndef NC_DAEMON_SHUTDOWN_H
#define NC_DAEMON_SHUTDOWN_H

#include "nc/login.h"
#include "notice-sink.h"

struct nc_shutdown {
    struct nc_notice_sink sink;
    const char *root;
    struct nc_login *login; /* NULL = there is no logind */
    char *short_delay;      /* it waits for less than our drop-in requests; NULL = it does not */
};

/* root: the folder that the machine's files are below, borrowed. Without logind this fails, and the
 * struct may be used all the same. */
int nc_shutdown_open(struct nc_shutdown *s, sd_event *event, const char *root,
                     const struct nc_notice_sink *sink, struct nc_err *err);
void nc_shutdown_close(struct nc_shutdown *s);
void nc_shutdown_release(struct nc_shutdown *s); /* the inhibitor */

#endif
