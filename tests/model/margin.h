/*
 * The margin of a deadline, written down a second time, for the judges of both models: in whole
 * seconds from one up, until it is the share and Karpenter's queue has its time, then down to half.
 */
#ifndef MODEL_MARGIN_H
#define MODEL_MARGIN_H

#include <stdint.h>

static inline uint64_t margin_for(uint64_t most_usec, uint64_t left_usec) {
    const uint64_t sec = 1000000, queue_sec = 10, grace_sec = 30, notice_sec = 120;
    const uint64_t all_usec = left_usec;
    uint64_t n = 1;

    if (left_usec > notice_sec * sec)
        left_usec = notice_sec * sec;
    while (n * sec < most_usec * left_usec / (notice_sec * sec) /* in whole microseconds */
           || (n < queue_sec && (n + grace_sec) * sec < left_usec))
        n++;
    while (n > 1 && n * 2 * sec > all_usec) /* the pods have half */
        n--;
    return n * sec < most_usec ? n * sec : most_usec;
}

#endif
