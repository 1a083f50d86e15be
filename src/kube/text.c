/*
 * Small text helpers of this layer: names in URLs, hostile words for people, a stable hash.
 *
 * Pure but for the monotonic clock that deadlines are counted on.
 */
#include <string.h>
#include <time.h>

#include "nc/clock.h"
#include "nc/encode.h"
#include "nc/mem.h"

#include "wire.h"

char *nc_kube_escape(const char *s) {
    struct nc_buf b = NC_BUF_INIT;

    nc_url_escape(&b, s, "");
    return nc_buf_steal(&b);
}

void nc_kube_printable(char *to, size_t size, const char *from, size_t n) {
    const size_t room = size - 1;
    size_t kept = n < room ? n : room;

    for (size_t i = 0; i < kept; i++) {
        const unsigned char c = (unsigned char)from[i];
        to[i] = c > 0x20 && c < 0x7f ? from[i] : c == ' ' || (c >= '\t' && c <= '\r') ? ' ' : '?';
    }
    if (n > room && room > 3)
        memcpy(to + room - 3, "...", 3);
    while (kept > 0 && to[kept - 1] == ' ')
        kept--;
    to[kept] = '\0';
}

uint64_t nc_kube_hash(uint64_t sum, const char *s) {
    for (; *s; s++)
        sum = (sum ^ (unsigned char)*s) * 0x100000001b3u;
    return (sum ^ 0xff) * 0x100000001b3u; /* so that "ab","c" is not "a","bc" */
}

uint64_t nc_kube_time_left(uint64_t started_usec, uint64_t timeout_usec) {
    const uint64_t spent = nc_mono_usec() - started_usec;

    return spent < timeout_usec ? timeout_usec - spent : 1;
}
