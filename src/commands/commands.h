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

/* command-drain.c: negative where the daemon, by the mode that it has in force, or `otherwise`
 * where it does not run, would do less than was requested. */
int nc_drain_allow_now(const struct nc_app *app, enum nc_drain_mode otherwise, struct nc_err *err);
/* drain-dry-run.c, for `drain`: lists this node's pods. With --dry-run prints what such a request
 * would do and when; else negative where its deadline would leave a pod less than its grace period,
 * or that cannot be known. */
int nc_drain_plan(struct nc_app *app, const struct nc_notice *notice, uint64_t now_usec,
                  struct nc_err *err);

/* command-check.c: each rule that refuses something becomes a diagnostic of the documents, and not
 * the first alone: what it refuses is set aside, and the rest is attempted again, with any cluster
 * where that is refused. is_drop_in: what they lack of the cluster is another document's. A failure
 * that the diagnostics have leaves err without a class. */
int nc_try_each_rule(struct nc_gather *g, bool is_drop_in,
                     int (*attempt)(struct nc_gather *g, struct nc_err *err), struct nc_err *err);
/* What a bootstrap attempts, on any instance. */
#define NC_ASSUMED " (assumed)" /* behind a version of the facts then, where none is known */
#define NC_REST_NOT_CHECKED "the rest was not checked: correct this and check again"
int nc_check_each_rule(struct nc_gather *g, bool is_drop_in, struct nc_err *err);

/* check-lines.c. `whole`: what is refused and no diagnostic says so; class NONE = nothing is. */
void nc_check_print_json(const struct nc_gather *g, const struct nc_err *whole);
void nc_check_print(const struct nc_gather *g);

/* preflight-lines.c: what `preflight` prints, of an instance and of an image: a line for each
 * check, or JSON. */
struct nc_preflight_lines {
    bool is_json;
    struct nc_value *all; /* {check, outcome, detail, remedy}; made by the first */
    unsigned failed;
    struct nc_err first; /* decides the exit code */
};

/* outcome: ok, warning, failed or skipped; remedy "" where there is nothing to do. */
void nc_preflight_line(struct nc_preflight_lines *l, const char *check, const char *outcome,
                       const char *detail, const char *remedy);
/* A line "failed"; remedy where the error has none. */
void nc_preflight_failed(struct nc_preflight_lines *l, const char *check, const struct nc_err *err,
                         const char *remedy);
/* Prints what is left to print, frees, and gives the exit code: that of the first failure's class.
 */
int nc_preflight_end(struct nc_preflight_lines *l);

/* `preflight --image ROOT`. */
int nc_preflight_image(struct nc_app *app);

/* The command line: parses, runs, and cleans up. */
int nc_cli(int argc, char **argv);

#endif
