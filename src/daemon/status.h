/*
 * What is written for others and for the next life: status.json, metrics.prom, state.json.
 */
#ifndef NC_DAEMON_STATUS_H
#define NC_DAEMON_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "nc/err.h"

struct nc_daemon;

struct nc_daemon_status {
    bool is_inhibitor_shown; /* as it was last written: nobody is told when it is held again */
    uint64_t written_usec;   /* monotonic */
    bool failed;             /* logged once */
    uint64_t again_usec;     /* monotonic: what could not be written is tried again; 0 = all was */
    unsigned idle_minutes;   /* written so often in a row for the counters alone */
    sd_event_source *timer;  /* for what came too soon after the last time */
};

struct nc_daemon_state {
    char *saved;            /* state.json as last written */
    bool has_request;       /* an operator's, in state.json */
    bool failed;            /* logged once */
    uint64_t saved_usec;    /* monotonic */
    sd_event_source *timer; /* for what came too soon after the last time */
};

/* status.c: status.json's `drain` and `daemon`, metrics.prom, STATUS=. Called after each turn of
 * the loop; writes on change, at most ten times a second. */
void nc_daemon_publish(struct nc_daemon *d);

/* state.c. Loading returns 1 where the machine was not rebooted since, or has been cleaned
 * up after it, else 0; a file that is broken, or another node's, is put aside and said. Saving
 * writes only what differs from the last time. */
int nc_daemon_state_load(struct nc_daemon *d, struct nc_err *err);
void nc_daemon_state_save(struct nc_daemon *d);
/* After each turn of the loop: saves where that is due, or will be. */
void nc_daemon_state_keep(struct nc_daemon *d);
#define NC_STATE_PAUSE_USEC 100000u
#define NC_FAILED_PAUSE_USEC 5000000u /* what this machine refused is tried again after that */

#endif
