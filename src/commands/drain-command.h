/*
 * `drain`, between its two files: the request, and the plan of a dry run.
 */
#ifndef NC_COMMANDS_DRAIN_COMMAND_H
#define NC_COMMANDS_DRAIN_COMMAND_H

#include "app.h"
#include "nc/value.h"

/* The drain-request document that the options request: {id, mode, reason, deadline}. Owned. */
int nc_drain_request_make(const struct nc_app *app, uint64_t now_usec, struct nc_value **ret,
                          struct nc_err *err);

/* `drain --dry-run`: lists this node's pods and prints what such a request would do and when. Gives
 * the exit code. */
int nc_drain_plan(struct nc_app *app, const struct nc_value *request);

#endif
