/*
 * A trace: what the parts that a test stands in for are told of, in its order, as words.
 */
#ifndef NC_DAEMON_TRACE_H
#define NC_DAEMON_TRACE_H

#include "groups.h"

#include "nc/mem.h"

static struct nc_buf trace;

__attribute__((format(printf, 1, 2))) static inline void say(const char *format, ...) {
    nc_auto_free char *text = NULL;
    va_list ap;

    va_start(ap, format);
    text = nc_vasprintf(format, ap);
    va_end(ap);
    (void)nc_buf_printf(&trace, "%s%s", trace.len ? " " : "", text);
}

/* All of it since the last time. */
static inline void expect(const char *words) {
    assert_string_equal(trace.data ? trace.data : "", words);
    nc_buf_clear(&trace);
}

#endif
