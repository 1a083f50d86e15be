/*
 * A status.json as people read it, without marks.
 */
#ifndef NC_TIMELINE_TEST_H
#define NC_TIMELINE_TEST_H

#include "base-test.h"

#include "nc/report.h"

static inline char *text_of(const char *document,
                            void (*print)(const struct nc_value *, struct nc_buf *)) {
    nc_auto_value struct nc_value *v = json(document);
    struct nc_buf out = NC_BUF_INIT;

    print(v, &out);
    if (out.data)
        drop_marks(out.data);
    return nc_buf_steal(&out);
}

static inline void print_timeline(const struct nc_value *status, struct nc_buf *out) {
    nc_timeline_text(status, 0, out);
}

static inline void draw_svg(const struct nc_value *status, struct nc_buf *out) {
    nc_timeline_svg(status, 0, out);
}

static inline void assert_text(const char *document,
                               void (*print)(const struct nc_value *, struct nc_buf *),
                               const char *expected) {
    nc_auto_free char *text = text_of(document, print);

    assert_string_equal(text, expected);
}

#endif
