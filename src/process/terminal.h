/*
 * Text for people: times in local time, and on a terminal lines as wide as it is, in its colours.
 * To a pipe or a file a line stays one line, so that grep finds all of it.
 */
#ifndef NC_PROCESS_TERMINAL_H
#define NC_PROCESS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "nc/mem.h"

struct nc_terminal {
    size_t columns;  /* 0: it is none, or too narrow to break lines for */
    size_t rows;     /* 0: unknown */
    bool has_colour; /* and nobody forbids it: NO_COLOR */
    bool can_move;   /* the cursor, by ECMA-48: TERM is not dumb */
};

struct nc_terminal nc_terminal_of(int fd);

/* Appends the text. Where a line is broken the rest goes on below what follows its first gap of two
 * blanks. NC_MARK_* become colours or nothing; RFC 3339 times in UTC become local ones. */
void nc_terminal_format(const struct nc_terminal *t, const char *text, struct nc_buf *out);
/* The same to stdout or stderr; text may be NULL. */
void nc_terminal_print(FILE *to, const char *text);

#endif
