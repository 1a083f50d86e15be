/*
 * Watch: the first byte is the size of the chunks. Lines are the same whatever the chunks are, and
 * each is an event or an error.
 */
#include <stdint.h>

#include "nc/mem.h"

#include "watch-frame.h"

#define MAX_LINE 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void take_line(const char *line, size_t n, struct nc_known *known) {
    struct nc_watch_cursor c = {0};
    struct nc_watch_line l;
    struct nc_kube_status status;
    struct nc_err err = NC_ERR_INIT;
    struct nc_value *old = NULL;
    bool is_same;

    if (nc_watch_line_parse(line, n, &l, &status, &err) < 0) {
        if (err.class == NC_ERR_NONE || err.class == NC_ERR_BUG)
            abort();
        nc_watch_cursor_failed(&c, &status);
        return;
    }
    if (nc_watch_cursor_advance(&c, l.version) == 0) {
        nc_auto_free char *request = nc_watch_cursor_request(&c, "/p", NULL);
        for (const char *p = request; *p; p++)
            if (*p <= ' ' || *p > '~')
                abort();
    }
    if (l.event == NC_WATCH_DELETED)
        nc_known_drop(known, l.object);
    else if (l.event != 0)
        nc_known_add(known, l.object, &is_same, &old);
    nc_value_free(old);
    nc_watch_line_done(&l);
}

/* The number of lines, and a sum over them. */
static uint64_t feed(const char *data, size_t n, size_t chunk, struct nc_known *known) {
    struct nc_frames f;
    uint64_t sum = 1;
    int r = 0;

    nc_frames_init(&f, MAX_LINE);
    for (size_t at = 0; at < n && r >= 0; at += chunk) {
        const char *line;
        size_t length;
        if (nc_frames_add(&f, data + at, n - at < chunk ? n - at : chunk) < 0)
            break;
        while ((r = nc_frames_next(&f, &line, &length)) > 0) {
            for (size_t i = 0; i < length; i++)
                sum = sum * 31 + (unsigned char)line[i];
            sum = sum * 31 + '\n';
            if (known)
                take_line(line, length, known);
        }
    }
    nc_frames_done(&f);
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_known known = {0};
    struct nc_value *old;
    const char *text = (const char *)data + 1;

    if (n < 2 || n > MAX_LINE)
        return 0;
    if (feed(text, n - 1, (size_t)data[0] + 1, &known) != feed(text, n - 1, n, NULL))
        abort();
    nc_known_begin_list(&known);
    while ((old = nc_known_sweep(&known)))
        nc_value_free(old);
    if (known.n != 0)
        abort();
    nc_known_done(&known);
    return 0;
}
