/*
 * Reading a clock, in microseconds.
 */
#include "nc/clock.h"

#include <time.h>

static uint64_t read_usec(clockid_t id) {
    struct timespec ts;

    (void)clock_gettime(id, &ts); /* fails for unknown clocks only */
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

uint64_t nc_now_usec(void) {
    return read_usec(CLOCK_REALTIME);
}

uint64_t nc_mono_usec(void) {
    return read_usec(CLOCK_MONOTONIC);
}

uint64_t nc_boot_usec(void) {
    return read_usec(CLOCK_BOOTTIME);
}
