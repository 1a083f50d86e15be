/*
 * What the two ways of starting kubelet share: start.c knows units, start-process.c processes.
 */
#ifndef NC_BOOTSTRAP_START_H
#define NC_BOOTSTRAP_START_H

#include "bootstrap.h"

/* Where kubelet's output goes as a process: --kubelet-log, or the default below the root. Owned. */
char *nc_kubelet_log(const struct nc_bootstrap *b);

#define NC_LAST_LINES 3
/* "; its last lines: …" for an error's message, each quoted and cut; "" where there are none.
 * Owned. */
char *nc_last_lines_text(const struct nc_strv *lines);

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
