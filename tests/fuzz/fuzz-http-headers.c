/*
 * Header lines of an answer as libcurl hands them on: whatever stands there, what is taken from
 * them is bounded, a new answer forgets what the last one said, and too many of them end it.
 */
#include <stdint.h>

/* The reader is no part of the interface. */
#include "http-request.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_http h = {0};
    struct nc_http_req r = {.h = &h, .state = REQUEST_RUNNING, .length = UINT64_MAX};
    const char *at = (const char *)data, *end = at + n;
    size_t taken = 0;

    while (at < end) {
        const char *lf = memchr(at, '\n', (size_t)(end - at));
        const size_t length = (size_t)((lf ? lf + 1 : end) - at);
        nc_auto_free char *line = nc_malloc(length); /* not ended by a NUL, as libcurl's */
        memcpy(line, at, length);
        if (receive_header(line, 1, length, &r) != length) {
            if (r.abort != ABORT_LARGE_HEAD || r.header_bytes <= NC_HTTP_MAX_HEADER_BYTES)
                abort();
            return 0;
        }
        taken += length;
        at += length;
        if (r.header_bytes != taken || r.abort != ABORT_NONE || r.is_refused)
            abort();
        if (r.retry_after_usec > MAX_RETRY_AFTER_SEC * UINT64_C(1000000)
            || r.date_usec % 1000000 != 0)
            abort();
        if (length >= 5 && memcmp(line, "HTTP/", 5) == 0
            && (r.retry_after_usec || r.date_usec || r.token_ttl_sec || r.length != UINT64_MAX))
            abort();
    }
    return 0;
}
