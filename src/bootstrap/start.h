/*
 * What the two ways of starting kubelet share: start.c knows units, start-process.c processes.
 */
#ifndef NC_BOOTSTRAP_START_H
#define NC_BOOTSTRAP_START_H

#include "bootstrap.h"
#include "nc/host.h"

/* Where kubelet's output goes as a process: --kubelet-log, or the default below the root. Owned. */
char *nc_kubelet_log(const struct nc_bootstrap *b);

/* Starts a unit and follows it while systemd starts it again; `phase` waits meanwhile. What has
 * become of it when the time is over is the error (-ETIMEDOUT): the bootstrap's, and `timeout_usec`
 * where it has to be active. Each error has the unit's last lines. */
int nc_start_unit(struct nc_bootstrap *b, enum nc_phase phase, const struct nc_unit_start *s,
                  struct nc_err *err);

/* Have the files changed since kubelet was started, be it in this run or in one that came to no
 * end? */
bool nc_restart_is_due(const struct nc_bootstrap *b);

/* The connection to systemd, b->kubelet.units, made where it is not there; waits for the system bus
 * where the machine is still booting. */
int nc_units_open(struct nc_bootstrap *b, struct nc_err *err);

/* Starts kubelet, ending one of an earlier run first where its files have changed; one that runs
 * with these files already is not touched. */
int nc_start_process(struct nc_bootstrap *b, struct nc_err *err);
/* 0 while it lives; negative, with its last words, once it has ended. */
int nc_check_process(struct nc_bootstrap *b, struct nc_err *err);

#endif
