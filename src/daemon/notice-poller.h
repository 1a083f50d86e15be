/*
 * What EC2 announces through IMDS: polled, each source at its own pace: spot 0.9 s (only on spot
 * instances), rebalance 9.9 s (likewise), target state 9.9 s, 59.4 s while it is not there,
 * maintenance 59.4 s; each start shifted by the instance id.
 */
#ifndef NC_DAEMON_NOTICE_POLLER_H
#define NC_DAEMON_NOTICE_POLLER_H

#include "nc/daemon-metrics.h"
#include "nc/imds.h"
#include "notice-sink.h"

/* All are required. */
struct nc_notice_poller_options {
    sd_event *event;
    struct nc_imds *imds;          /* borrowed; freed before the loop turns again without us */
    const char *instance_id;       /* NULL: not known */
    enum nc_life_cycle life_cycle; /* UNKNOWN: IMDS is asked */
    struct nc_counters *counters;
    struct nc_notice_sink sink; /* may be told while the poller is being made */
    /* With the sink's userdata: */
    void (*answered)(void *userdata);  /* there was an answer, of whatever kind: not read yet */
    void (*evaluated)(void *userdata); /* … and what came of it is known */
};
struct nc_notice_poller;
/* All sources are polled at once, then in their rhythm. */
int nc_notice_poller_new(const struct nc_notice_poller_options *o, struct nc_notice_poller **ret,
                         struct nc_err *err);
struct nc_notice_poller *nc_notice_poller_free(struct nc_notice_poller *p); /* NULL in, NULL out */

/* One poll as status.json shows it. */
struct nc_poll_view {
    const char *
        state; /* "ok", "failing", "off" (not polled on this instance), "waiting" (no answer yet) */
    uint64_t last_usec; /* the last good answer, on EC2's clock; 0 = never */
    const char *error;  /* "" unless failing; borrowed */
};
/* False where this source is no poll, or p is NULL. */
bool nc_notice_poller_get_view(const struct nc_notice_poller *p, enum nc_source s,
                               struct nc_poll_view *ret);

/* Whether what EC2 announces is not received: a poll has failed for at least so long. -EAGAIN where
 * that is not known yet: one fails, but not for so long, or was not answered yet, or p is NULL.
 * `message` says it for people. */
int nc_notice_poller_is_failing(const struct nc_notice_poller *p, uint64_t for_usec, bool *ret,
                                struct nc_buf *message);

#endif
