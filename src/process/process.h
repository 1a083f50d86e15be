/*
 * What a program of ours does with its own process: its name, the event loop and the signals that
 * end it, the service manager, how a failure is reported.
 */
#ifndef NC_PROCESS_H
#define NC_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <systemd/sd-event.h>

#include "nc/err.h"
#include "nc/mem.h"
#include "nc/value.h"

enum { NC_EXIT_USAGE = 2 };

/* Credentials and tokens pass through this process: no core of it is written. */
void nc_process_be_no_core(void);

/* Says an error on stderr as "PROGRAM COMMAND: message" with its remedy, and gives the exit code of
 * its class. */
int nc_process_fail(const char *command, const struct nc_err *err);
/* Flushes stdout at the end: a full disk turns success into failure. */
int nc_process_flush(const char *command, int code);

/* Makes the loop where *event is NULL. SIGTERM and SIGINT set *signal and end the loop; *signal
 * must live as long as the loop. */
int nc_loop_open(sd_event **event, int *signal, struct nc_err *err);
/* Turns the loop for at most usec. 0: the deadline has passed; -EINTR: asked to stop. */
int nc_loop_pause(sd_event *event, const int *signal, uint64_t usec);

/* A timer that fires once, at a time of CLOCK_MONOTONIC or in usec; made where *timer is NULL, else
 * set anew. One that cannot be made is logged. */
void nc_timer_set_at(sd_event *event, sd_event_source **timer, uint64_t mono_usec,
                     sd_event_time_handler_t fn, void *userdata);
void nc_timer_set(sd_event *event, sd_event_source **timer, uint64_t usec,
                  sd_event_time_handler_t fn, void *userdata);

/* version.c. Prints "PROGRAM VERSION" and the libraries' own words, or an object {version, libcurl,
 * openssl, cjson} where `is_json`. Returns 0, the exit code. */
int nc_version_print(const char *program, bool is_json);
/* The same file: a value for programs to read, on stdout, as all commands print it. */
void nc_print_json(const struct nc_value *v);

/* sd_notify: "READY=1", "STATUS=…", "WATCHDOG=1", "STOPPING=1", "RELOADING=1\nMONOTONIC_USEC=…".
 * Never fails. */
void nc_notify(const char *text);
/* WatchdogSec= of our unit, usec; 0 = none. */
uint64_t nc_notify_watchdog_usec(void);

/* --- Text for people: times in local time, and on a terminal lines as wide as it is, in its
 * colours. To a pipe or a file a line stays one line, so that grep finds all of it. */

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
