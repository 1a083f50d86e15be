/*
 * Diagnostics: what is wrong in the documents, collected so that one run tells everything.
 */
#ifndef NC_CONFIG_DIAGS_H
#define NC_CONFIG_DIAGS_H

#include <stdbool.h>

#include "nc/config.h"

/* At most this many errors, and as many warnings, are kept: a hostile document cannot make more of
 * them. */
#define NC_DIAGS_MAX ((size_t)100)

void nc_diag(struct nc_documents *d, bool is_error, struct nc_mark mark, const char *path,
             const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The same for a known field, or key, that is not honoured: a warning, and an error of all of it
 * unless spec.bootstrap.unsupported is warn. */
void nc_diag_unsupported(struct nc_documents *d, struct nc_mark mark, const char *path,
                         const char *why);

/* Fills err as "SOURCE:LINE:COLUMN: path: message", class config. Returns its code. */
int nc_diag_err(const struct nc_documents *d, struct nc_mark mark, const char *path,
                struct nc_err *err, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* "SOURCE:LINE:COLUMN"; "SOURCE" where the line is unknown. Owned. */
char *nc_mark_location(const struct nc_documents *d, struct nc_mark m);

/* A value as a message names it: "the string 'ten'", "the number 5", "a list". Owned. */
char *nc_value_describe(const struct nc_value *v);

#endif
