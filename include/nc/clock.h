/*
 * The clocks, for the layers that have effects, and one rule about clocks that are set. The pure
 * core is given the time and never includes this.
 */
#ifndef NC_CLOCK_H
#define NC_CLOCK_H

#include <stdint.h>

uint64_t nc_now_usec(void);  /* since the epoch; it may be set while we run */
uint64_t nc_mono_usec(void); /* CLOCK_MONOTONIC: for durations and deadlines */
uint64_t nc_boot_usec(
    void); /* CLOCK_BOOTTIME: goes on while the machine is suspended, as a token's life does */

/* The wall clock's time of a moment, for comparing with what was written since by that clock, which
 * may have been set in between: what it said then (then_usec, the monotonic clock being at
 * then_mono_usec), or what it would have said if it had been set before, whichever is earlier.
 * Nothing that was written since has an earlier time. */
uint64_t nc_clock_earliest(uint64_t then_usec, uint64_t then_mono_usec, uint64_t now_usec,
                           uint64_t now_mono_usec);

/* The time by another's clock, which showed boot_usec when CLOCK_BOOTTIME was 0 (0 = nobody has
 * told): for comparing with what is written by that clock. Where the two agree to some seconds, it
 * is ours: an answer has its date in whole seconds, and comes late. Where they do not, ours was
 * set, or is wrong. */
#define NC_CLOCKS_AGREE_USEC 10000000u
uint64_t nc_clock_shifted(uint64_t boot_usec);

#endif
