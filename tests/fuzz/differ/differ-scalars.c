/*
 * Quantities, durations, times, base64 and gzip for the comparison with Go's readers.
 */
#include <errno.h>

#include "differ.h"
#include "nc/encode.h"
#include "nc/quantity.h"
#include "nc/str.h"
#include "nc/time.h"

#define MAX_INFLATED ((size_t)1 << 16)

/* Our readers of scalars take C strings: a NUL ends what they see, and where texts come from (JSON,
 * YAML) there is none. */
static void put_number(struct nc_buf *out, const char *name, int r, int64_t v) {
    if (r == -ERANGE)
        (void)nc_buf_printf(out, " %s=range", name);
    else
        (void)nc_buf_printf(out, " %s=%lld", name, (long long)v);
}

void differ_quantity(const struct differ_field *f, struct nc_buf *out) {
    int64_t milli = 0, value = 0;
    const int m = nc_quantity_milli(f->text, &milli);
    const int v = nc_quantity_value(f->text, &value);

    if (m == -EINVAL || v == -EINVAL) {
        (void)nc_buf_puts(out, m == v ? "refused" : "once refused, once not");
        return;
    }
    (void)nc_buf_puts(out, "is");
    put_number(out, "milli", m, milli);
    put_number(out, "value", v, value);
}

static int64_t number_of(const struct differ_field *f) {
    int64_t v = 0;

    if (nc_parse_i64(f->text, &v) < 0)
        abort();
    return v;
}

void differ_milli(const struct differ_field *f, struct nc_buf *out) {
    char text[32];

    nc_quantity_format_milli(number_of(f), text);
    (void)nc_buf_printf(out, "is %s", text);
}

void differ_bytes(const struct differ_field *f, struct nc_buf *out) {
    char text[32];

    nc_quantity_format_bytes(number_of(f), text);
    (void)nc_buf_printf(out, "is %s", text);
}

static void put_usec(struct nc_buf *out, int r, uint64_t usec) {
    if (r < 0)
        (void)nc_buf_puts(out, r == -ERANGE ? "refused: out of range" : "refused");
    else
        (void)nc_buf_printf(out, "is %llu", (unsigned long long)usec);
}

void differ_duration(const struct differ_field *f, struct nc_buf *out) {
    uint64_t usec = 0;
    const int r = nc_duration_parse(f->text, &usec);

    put_usec(out, r, usec);
}

void differ_microseconds(const struct differ_field *f, struct nc_buf *out) {
    char text[32];

    nc_duration_format((uint64_t)number_of(f), text);
    (void)nc_buf_printf(out, "is %s", text);
}

void differ_time(const struct differ_field *f, struct nc_buf *out) {
    uint64_t usec = 0;
    const int r = nc_time_parse(f->text, &usec);

    put_usec(out, r, usec);
}

void differ_base64(const struct differ_field *f, struct nc_buf *out) {
    nc_cleanup(nc_buf_done) struct nc_buf plain = NC_BUF_INIT;

    if (nc_base64_decode(f->text, f->n, &plain) < 0) {
        (void)nc_buf_puts(out, "refused");
        return;
    }
    (void)nc_buf_puts(out, "is ");
    differ_put_hex(out, plain.data, plain.len);
}

void differ_gzip(const struct differ_field *f, struct nc_buf *out) {
    nc_cleanup(nc_buf_done) struct nc_buf plain = NC_BUF_INIT_MAX(MAX_INFLATED);
    struct nc_err err = NC_ERR_INIT;

    if (nc_gunzip(f->text, f->n, &plain, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    (void)nc_buf_puts(out, "is ");
    differ_put_hex(out, plain.data, plain.len);
}
