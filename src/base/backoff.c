/*
 * The retry schedule. The jitter is a hash of seed and attempt, not a random number: the core has
 * no source of those.
 */
#include "nc/backoff.h"

#include <stddef.h>

/* splitmix64's finalizer: every input bit reaches every output bit. */
static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 27;
    x *= 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t nc_backoff_pause(const struct nc_backoff *b, unsigned attempt, uint64_t seed) {
    uint64_t pause = b->first_usec;

    for (unsigned i = 1; i < attempt && pause > 0 && pause < b->max_usec; i++)
        pause = pause > b->max_usec / 2 ? b->max_usec : pause * 2;
    if (pause > b->max_usec)
        pause = b->max_usec;
    return pause - (pause >= 4 ? mix(seed + attempt) % (pause / 4) : 0);
}

uint64_t nc_backoff_seed(const char *text) {
    uint64_t seed = 0xcbf29ce484222325u; /* FNV-1a */

    for (const char *p = text; p && *p; p++)
        seed = (seed ^ (unsigned char)*p) * 0x100000001b3u;
    return seed;
}
