/*
 * The sign of life for the service manager, which restarts us where it fails to come.
 *
 * A loop that turns is not enough: it is withheld too where a deadline was missed by far, or where
 * a request is in flight for longer than it may be. What a restart then does is safe: all state can
 * be had again.
 */
#include <string.h>
#include <time.h>

#include "daemon.h"
#include "log.h"

#define OVERDUE_USEC 10000000u
#define OVERDUE_MAX 2 /* looks in a row: a machine that was suspended is not stuck */

static bool is_overdue(struct nc_daemon *d) {
    const uint64_t now = nc_daemon_own_now(), next = nc_lifecycle_next(d->life, now);

    if (next == UINT64_MAX || next >= now || now - next < OVERDUE_USEC) {
        d->overdue = 0;
        return false;
    }
    nc_daemon_arm(d);
    return ++d->overdue >= OVERDUE_MAX;
}

/* That the loop turns is shown by being here. */
static int on_watchdog(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_daemon *d = userdata;
    const uint64_t now = nc_mono_usec();

    if (is_overdue(d) || nc_own_node_is_stuck(d, now) || nc_pod_evictor_is_stuck(d, now))
        nc_log(NC_LOG_ERROR, NULL, "a deadline or a request is stuck: waiting to be restarted");
    else
        nc_notify("WATCHDOG=1");
    (void)sd_event_source_set_time_relative(source, nc_notify_watchdog_usec() / 3);
    return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

int nc_daemon_watchdog_open(struct nc_daemon *d) {
    const uint64_t every = nc_notify_watchdog_usec() / 3;

    if (every == 0)
        return 0;
    return sd_event_add_time_relative(d->app->event, &d->watchdog, CLOCK_MONOTONIC, every,
                                      every / 4, on_watchdog, d);
}
