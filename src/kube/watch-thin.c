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

#include "watch-frame.h"

static const char *const metadata[] = {"metadata.namespace", "metadata.name", "metadata.uid",
                                       "metadata.resourceVersion"};
/* metav1.Status, of an ERROR event: an object of the watched kind has few of these. */
static const char *const status[] = {"kind", "apiVersion", "code", "reason", "message", "details"};

void nc_watch_thin_init(struct nc_watch_thin *t, const struct nc_watch_options *o,
                        struct nc_frames *to) {
    const char *const *keep = o->keep;

    memset(t, 0, sizeof(*t));
    t->is_on = keep != NULL;
    t->max_object_bytes = to->max_line_bytes;
    t->max_value_bytes = o->max_value_bytes;
    t->to = to;
    if (!keep)
        return;
    nc_strv_add(&t->of_event, "type");
    for (size_t i = 0; i < NC_ARRAY_SIZE(status); i++)
        nc_strv_addf(&t->of_event, "object.%s", status[i]);
    for (size_t i = 0; i < NC_ARRAY_SIZE(metadata); i++) {
        nc_strv_add(&t->of_item, metadata[i]);
        nc_strv_addf(&t->of_event, "object.%s", metadata[i]);
    }
    for (; *keep; keep++) {
        nc_strv_add(&t->of_item, *keep);
        nc_strv_addf(&t->of_event, "object.%s", *keep);
    }
}

static int keep_line(void *userdata, const char *data, size_t n) {
    struct nc_watch_thin *t = userdata;
    const int r = nc_frames_add(t->to, data, n);

    return r < 0 ? r : nc_frames_add(t->to, "\n", 1);
}

int nc_watch_thin_begin(struct nc_watch_thin *t, bool is_list, struct nc_err *err) {
    const struct nc_strv *keep = is_list ? &t->of_item : &t->of_event;
    const struct nc_json_filter_options o = {.keep = (const char *const *)keep->v,
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
    nc_strv_done(&t->of_item);
    nc_strv_done(&t->of_event);
}
