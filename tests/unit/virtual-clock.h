/*
 * Time for what waits in an event loop and talks to no other process: where nothing is ready, the
 * clock goes on instead of the program standing still. Each clock that this program reads, and its
 * libraries, is the real one and what was skipped so far.
 */
#ifndef NC_TEST_VIRTUAL_CLOCK_H
#define NC_TEST_VIRTUAL_CLOCK_H

#include <stdint.h>
#include <systemd/sd-event.h>

void clock_skip(uint64_t usec);

/* As sd_event_run(), on this clock. */
int clock_run(sd_event *loop, uint64_t timeout_usec);

#endif
