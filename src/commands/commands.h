/*
 * The commands: each takes the options and gives the exit code.
 */
#ifndef NC_COMMANDS_H
#define NC_COMMANDS_H

#include "bootstrap.h"
#include "daemon.h"

int nc_command_render(struct nc_app *app);
int nc_command_check(struct nc_app *app);
int nc_command_explain(struct nc_app *app);
int nc_command_preflight(struct nc_app *app);
int nc_command_drain(struct nc_app *app);
int nc_command_undrain(struct nc_app *app);
int nc_command_status(struct nc_app *app);
int nc_command_timeline(struct nc_app *app);
int nc_command_token(struct nc_app *app);
int nc_command_version(struct nc_app *app);

/* The command line: parses, runs, and cleans up. */
int nc_cli(int argc, char **argv);

#endif
