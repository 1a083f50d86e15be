/*
 * A status.json that somebody else wrote: what people are shown is bounded text without control
 * characters but our own marks, whatever it says.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nc/marks.h"
#include "nc/mem.h"
#include "nc/report.h"

#define SHOWN_MAX_BYTES ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check(const struct nc_value *v,
                  void (*print)(const struct nc_value *, struct nc_buf *)) {
    static const char allowed[] = "\n" NC_MARK_GOOD NC_MARK_NOTICE NC_MARK_BAD NC_MARK_END;
    struct nc_buf out = NC_BUF_INIT;

    print(v, &out);
    if (out.len == 0 || out.len > SHOWN_MAX_BYTES || out.data[out.len - 1] != '\n')
        abort();
    for (size_t i = 0; i < out.len; i++)
        if (((unsigned char)out.data[i] < 0x20 && !strchr(allowed, out.data[i]))
            || out.data[i] == 0x7f)
            abort();
    nc_buf_done(&out);
}

static void print_timeline(const struct nc_value *v, struct nc_buf *out) {
    nc_timeline_text(v, (uint64_t)1 << 50, out);
}

static void print_svg(const struct nc_value *v, struct nc_buf *out) {
    nc_timeline_svg(v, (uint64_t)1 << 50, out);
}

static void print_tree(const struct nc_value *v, struct nc_buf *out) {
    nc_auto_value struct nc_value *tree = nc_timeline_tree(v, (uint64_t)1 << 50);

    nc_json_write(out, tree, 2);
    (void)nc_buf_putc(out, '\n');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_value *v = NULL;

    if (nc_json_parse((const char *)data, n, &v, NULL) < 0)
        return 0;
    check(v, nc_status_text);
    check(v, print_timeline);
    check(v, print_svg);
    check(v, print_tree);
    nc_value_free(v);
    return 0;
}
