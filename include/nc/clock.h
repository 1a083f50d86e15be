/*
 * The clocks, for the layers that have effects. The pure core is given the time and never includes
 * this.
 */
#ifndef NC_CLOCK_H
#define NC_CLOCK_H

#include <stdint.h>

uint64_t nc_now_usec(void);  /* since the epoch; it may be set while we run */
uint64_t nc_mono_usec(void); /* CLOCK_MONOTONIC: for durations and deadlines */
uint64_t nc_boot_usec(
    void); /* CLOCK_BOOTTIME: goes on while the machine is suspended, as a token's life does */

#endif
