/*
 * Reading a clock, in microseconds, and what a time is worth that was read before the clock was
 * set.
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

uint64_t nc_clock_earliest(uint64_t then_usec, uint64_t then_mono_usec, uint64_t now_usec,
                           uint64_t now_mono_usec) {
    const uint64_t age = now_mono_usec > then_mono_usec ? now_mono_usec - then_mono_usec : 0;
    const uint64_t by_todays_clock = now_usec > age ? now_usec - age : 0;

    return then_usec < by_todays_clock ? then_usec : by_todays_clock;
}

uint64_t nc_clock_shifted(uint64_t boot_usec) {
    const uint64_t own_usec = nc_now_usec(), shifted_usec = boot_usec + nc_boot_usec();
    const uint64_t apart_usec =
        shifted_usec > own_usec ? shifted_usec - own_usec : own_usec - shifted_usec;

    return boot_usec && apart_usec > NC_CLOCKS_AGREE_USEC ? shifted_usec : own_usec;
}
