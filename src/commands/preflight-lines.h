/*
 * What `preflight` prints, of an instance and of an image: a line for each check, or JSON.
 */
#ifndef NC_COMMANDS_PREFLIGHT_LINES_H
#define NC_COMMANDS_PREFLIGHT_LINES_H

#include <stdbool.h>

#include "nc/err.h"
#include "nc/value.h"

#include "app.h"

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

#endif
