/*
 * What a watch keeps of each object, while the object streams in.
 *
 * Between the transport and the lines: bytes go in, and out come the same items or events with only
 * the wanted members, as lines of a few hundred bytes. What the watch itself needs (names and
 * versions, and all of an ERROR event) is kept without being named. No socket, no clock.
 */
#include <errno.h>
#include <string.h>

#include "nc/mem.h"
#include "nc/str.h"

#include "watch-frame.h"

static const char metadata[] = "metadata.namespace\0metadata.name\0metadata.uid\0"
                               "metadata.resourceVersion\0";
/* metav1.Status, of an ERROR event: an object of the watched kind has few of these. */
static const char status[] = "kind\0apiVersion\0code\0reason\0message\0details\0";

static void add_paths(struct nc_buf *to, const char *prefix, const char *paths) {
    for (const char *path = paths; *path; path = nc_next_name(path)) {
        (void)nc_buf_puts(to, prefix);
        (void)nc_buf_add(to, path, strlen(path) + 1);
    }
}

void nc_watch_thin_init(struct nc_watch_thin *t, const struct nc_watch_options *o,
                        struct nc_frames *to) {

    memset(t, 0, sizeof(*t));
    t->is_on = o->keep != NULL;
    t->max_object_bytes = to->max_line_bytes;
    t->max_value_bytes = o->max_value_bytes;
    t->to = to;
    if (!o->keep)
        return;
    (void)nc_buf_add(&t->of_event, "type", sizeof("type"));
    add_paths(&t->of_event, "object.", status);
    add_paths(&t->of_event, "object.", metadata);
    add_paths(&t->of_event, "object.", o->keep);
    add_paths(&t->of_item, "", metadata);
    add_paths(&t->of_item, "", o->keep);
}

static int keep_line(void *userdata, const char *data, size_t n) {
    struct nc_watch_thin *t = userdata;
    const int r = nc_frames_add(t->to, data, n);

    return r < 0 ? r : nc_frames_add(t->to, "\n", 1);
}

int nc_watch_thin_begin(struct nc_watch_thin *t, bool is_list, struct nc_err *err) {
    const struct nc_json_filter_options o = {.keep = (is_list ? &t->of_item : &t->of_event)->data,
                                             .max_item_bytes = t->max_object_bytes,
                                             .max_value_bytes = t->max_value_bytes,
                                             .item = keep_line,
                                             .userdata = t};

    t->filter = nc_json_filter_free(t->filter);
    memset(&t->failure, 0, sizeof(t->failure));
    if (!t->is_on)
        return 0;
    return is_list ? nc_json_filter_new(&o, &t->filter, err)
                   : nc_json_filter_new_stream(&o, &t->filter, err);
}

int nc_watch_thin_add(struct nc_watch_thin *t, const char *data, size_t n) {
    return nc_json_filter_add(t->filter, data, n, &t->failure);
}

int nc_watch_thin_end_list(struct nc_watch_thin *t, struct nc_value **ret, struct nc_err *err) {
    const char *rest;
    size_t n;
    const int r = nc_json_filter_end(t->filter, &rest, &n, err);

    return r < 0 ? r : nc_json_parse(rest, n, ret, err);
}

void nc_watch_thin_done(struct nc_watch_thin *t) {
    t->filter = nc_json_filter_free(t->filter);
    nc_buf_done(&t->of_item);
    nc_buf_done(&t->of_event);
}
