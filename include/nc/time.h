/*
 * Times and durations as text. A time is microseconds since the epoch.
 */
#ifndef NC_TIME_H
#define NC_TIME_H

#include <stdint.h>

#define NC_SEC_USEC 1000000ull /* of a second */

/* Sums and differences stop at UINT64_MAX and 0. */
__attribute__((noinline)) uint64_t nc_sum_usec(uint64_t a, uint64_t b); /* smaller so */
static inline uint64_t nc_less_usec(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}
static inline uint64_t nc_later_usec(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}
static inline uint64_t nc_sec_to_usec(uint64_t sec) {
    return sec > UINT64_MAX / NC_SEC_USEC ? UINT64_MAX : sec * NC_SEC_USEC;
}

/* RFC 3339 in UTC ("2024-01-01T00:00:00Z"), second precision, and back (fractions are accepted and
 * dropped, offsets applied). Times are microseconds since the epoch. */
void nc_time_format(uint64_t usec, char ret[static 32]);
int nc_time_parse(const char *s, uint64_t *ret_usec);
/* "Sun, 06 Nov 1994 08:49:37 GMT" of an HTTP Date header. */
int nc_time_parse_http(const char *s, uint64_t *ret_usec);

/* Go durations ("1h30m", "2m30s", "500ms", "0"). Negative ones are refused with -EINVAL, overflow
 * with -ERANGE. */
int nc_duration_parse(const char *s, uint64_t *ret_usec);
/* As Go prints them: "2m30s", "1h0m0s", "500ms", "0s". */
void nc_duration_format(uint64_t usec, char ret[static 32]);

#endif
