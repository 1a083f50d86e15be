/*
 * Stands before libc's clock_gettime(), for libsystemd and libcurl too.
 */
#include "virtual-clock.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define STEP_USEC 5000u

static uint64_t skipped_usec;

__attribute__((visibility("default"))) int clock_gettime(clockid_t id, struct timespec *ts) {
    const int r = (int)syscall(SYS_clock_gettime, id, ts);

    if (r == 0 && id != CLOCK_PROCESS_CPUTIME_ID && id != CLOCK_THREAD_CPUTIME_ID) {
        const uint64_t nsec = (uint64_t)ts->tv_nsec + skipped_usec % 1000000 * 1000;

        ts->tv_sec += (time_t)(skipped_usec / 1000000 + nsec / 1000000000);
        ts->tv_nsec = (long)(nsec % 1000000000);
    }
    return r;
}

void clock_skip(uint64_t usec) {
    skipped_usec += usec;
}

int clock_run(sd_event *loop, uint64_t timeout_usec) {
    for (uint64_t waited = 0;; waited += STEP_USEC) {
        const int r = sd_event_run(loop, 0);

        if (r != 0 || waited >= timeout_usec)
            return r;
        clock_skip(STEP_USEC);
    }
}
