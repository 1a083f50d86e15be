/*
 * The pure parts of a watch: lines out of chunks, and what a line means.
 *
 * A server may cut its chunks anywhere and make a line as long as it likes; what is kept is capped,
 * and a line that was cut off by the end of the stream is dropped, as the server sends it again
 * from the last resourceVersion. No clock, no socket.
 */
#include "watch-frame.h"

#include <errno.h>
#include <string.h>

#include "nc/str.h"

#include "wire.h"

#define BURST_BYTES                                                                                \
    ((size_t)4 << 20) /* what one turn of the transfer may deliver beyond one line */
#define KEEP_ROOM_BYTES ((size_t)64 << 10)

void nc_frames_init(struct nc_frames *f, size_t max_line_bytes) {
    *f = (struct nc_frames){.max_line_bytes = max_line_bytes};
    f->in.max = max_line_bytes + BURST_BYTES;
}

void nc_frames_clear(struct nc_frames *f) {
    const size_t max = f->in.max;

    nc_buf_done(&f->in);
    f->in.max = max;
    f->taken = 0;
    f->scanned = 0;
}

void nc_frames_done(struct nc_frames *f) {
    nc_buf_done(&f->in);
    f->taken = 0;
    f->scanned = 0;
}

/* Room for what comes: what was handed out goes, and with it the room that one large line needed.
 */
static void compact(struct nc_frames *f) {
    if (f->taken == 0)
        return;
    if (f->taken == f->in.len && f->in.room > KEEP_ROOM_BYTES) {
        nc_frames_clear(f);
    } else {
        memmove(f->in.data, f->in.data + f->taken, f->in.len - f->taken);
        f->in.len -= f->taken;
        f->in.data[f->in.len] = '\0';
    }
    f->scanned = f->scanned > f->taken ? f->scanned - f->taken : 0;
    f->taken = 0;
}

int nc_frames_add(struct nc_frames *f, const char *data, size_t n) {
    compact(f);
    return nc_buf_add(&f->in, data, n);
}

int nc_frames_next(struct nc_frames *f, const char **ret_line, size_t *ret_n) {
    while (f->taken < f->in.len) {
        const size_t from = f->scanned > f->taken ? f->scanned : f->taken;
        const char *start = f->in.data + f->taken;
        const char *end = memchr(f->in.data + from, '\n', f->in.len - from);
        size_t n = end ? (size_t)(end - start) : f->in.len - f->taken;
        if (n > f->max_line_bytes)
            return -EFBIG;
        if (!end) {
            f->scanned = f->in.len;
            return 0;
        }
        f->taken += n + 1;
        while (n > 0 && memchr(" \t\r", start[n - 1], 3))
            n--;
        if (n == 0)
            continue;
        *ret_line = start;
        *ret_n = n;
        return 1;
    }
    return 0;
}

/* -1: no type of an event. */
static int event_type(const char *type) {
    static const struct {
        char name[12];
        int event;
    } types[] = {{"ADDED", NC_WATCH_ADDED},
                 {"MODIFIED", NC_WATCH_MODIFIED},
                 {"DELETED", NC_WATCH_DELETED},
                 {"BOOKMARK", 0}};

    for (size_t i = 0; type && i < NC_ARRAY_SIZE(types); i++)
        if (nc_streq(type, types[i].name))
            return types[i].event;
    return -1;
}

static int read_line(struct nc_watch_line *l, struct nc_kube_status *ret_status,
                     struct nc_err *err) {
    const char *type = nc_value_get_string(l->tree, "type");
    const int event = event_type(type);

    l->object = nc_value_get(l->tree, "object");
    if (nc_streq(type, "ERROR") && nc_kube_status_read(l->object, ret_status))
        return nc_kube_refused(ret_status, "watch", err);
    if (event < 0)
        return nc_err_protocol(err, "watch: invalid event: type must be ADDED, MODIFIED, DELETED, "
                                    "BOOKMARK or ERROR");
    l->event = (enum nc_watch_event)event;
    l->version = nc_value_path_string(l->object, "metadata.resourceVersion");
    if (!l->version)
        return nc_err_protocol(err, "watch: an event whose object has no metadata.resourceVersion");
    if (event != 0 && !nc_value_path_string(l->object, "metadata.name"))
        return nc_err_protocol(err, "watch: an event whose object has no metadata.name");
    return 0;
}

int nc_watch_line_parse(const char *line, size_t n, struct nc_watch_line *ret,
                        struct nc_kube_status *ret_status, struct nc_err *err) {
    struct nc_watch_line l = {0};
    int r = nc_json_parse(line, n, &l.tree, err);

    memset(ret_status, 0, sizeof(*ret_status));
    if (r < 0) {
        nc_err_wrap(err, "watch: invalid JSON of an event");
        return r;
    }
    r = read_line(&l, ret_status, err);
    if (r < 0) {
        nc_watch_line_done(&l);
        return r;
    }
    *ret = l;
    return 0;
}

void nc_watch_line_done(struct nc_watch_line *l) {
    nc_value_free(l->tree);
    memset(l, 0, sizeof(*l));
}

const char *nc_watch_check_item(const struct nc_value *object) {
    return nc_value_path_string(object, "metadata.name")
               ? NULL
               : "an item of the list has no metadata.name";
}

const char *nc_watch_check_list(const struct nc_value *object) {
    const struct nc_value *items = nc_value_get(object, "items");

    /* An empty list may come as null. */
    if (items && items->type != NC_VALUE_LIST && items->type != NC_VALUE_NULL)
        return "invalid list: items";
    if (!items && !nc_ends_with(nc_value_get_string(object, "kind"), "List"))
        return "invalid list: no items";
    for (size_t i = 0; items && i < items->n; i++)
        if (nc_watch_check_item(items->items[i]))
            return nc_watch_check_item(items->items[i]);
    return NULL;
}

const char *nc_watch_check_rest(const struct nc_value *rest) {
    const char *kind = nc_value_get_string(rest, "kind");

    return kind && !nc_ends_with(kind, "List") ? "invalid list: its kind" : NULL;
}
