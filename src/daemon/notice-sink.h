/*
 * Where a source of notices tells what came, and what it may ask: the daemon behind it is none of
 * its business.
 */
#ifndef NC_DAEMON_NOTICE_SINK_H
#define NC_DAEMON_NOTICE_SINK_H

#include <stdbool.h>
#include <stdint.h>

#include "nc/notice.h"

/* All are required. */
struct nc_notice_sink {
    uint64_t (*now)(void *userdata); /* on EC2's clock */
    /* Is one of this source in force? Then *ret is it. */
    bool (*is_active)(void *userdata, enum nc_source s, struct nc_notice *ret);
    void (*notice)(void *userdata, const struct nc_notice *n);
    void (*cleared)(void *userdata, enum nc_source s); /* there is none, or none any more */
    void (*changed)(void *userdata);                   /* how the source itself is doing */
    void *userdata;
};

#endif
