/*
 * When to try again: exponential, capped, jittered; a function of the attempt and of a seed, so
 * that a schedule can be tested.
 */
#ifndef NC_BACKOFF_H
#define NC_BACKOFF_H

#include <stdint.h>

struct nc_backoff {
    uint64_t first_usec; /* the pause after attempt 1 */
    uint64_t max_usec;
};

/* The pause after `attempt` (from 1): first × 2^(attempt-1), at most max, minus up to a quarter of
 * it by the seed: the same seed and attempt give the same pause, different nodes (seeds) spread
 * out. */
uint64_t nc_backoff_pause(const struct nc_backoff *b, unsigned attempt, uint64_t seed);
/* A seed from a text such as an instance id. */
uint64_t nc_backoff_seed(const char *text);

#endif
