/*
 * JSON, JSON thinned out, YAML and user data for the comparison with other readers. What was read
 * is written as JSON.
 */
#include <stdint.h>

#include "differ.h"
#include "nc/json-filter.h"
#include "nc/str.h"
#include "nc/userdata.h"
#include "nc/value.h"

static void put_tree(struct nc_buf *out, const struct nc_value *v) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    nc_json_write(&text, v, 0);
    differ_put_hex(out, text.data, text.len);
}

void differ_json(const struct differ_field *f, struct nc_buf *out) {
    nc_auto_value struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_json_parse(f->text, f->n, &v, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    (void)nc_buf_puts(out, "is ");
    put_tree(out, v);
}

static int take(void *userdata, const char *text, size_t n) {
    struct nc_buf *out = userdata;

    (void)nc_buf_putc(out, ' ');
    differ_put_hex(out, text, n);
    return 0;
}

/* A list's items, then what is left of the list. */
void differ_thin(const struct differ_field *f, struct nc_buf *out) {
    static const char keep[] = "a\0b.c\0metadata.name\0";
    const struct nc_json_filter_options o = {
        .keep = keep, .max_item_bytes = 1 << 16, .item = take, .userdata = out};
    struct nc_err err = NC_ERR_INIT;
    struct nc_json_filter *filter = NULL;
    const char *rest = NULL;
    uint64_t piece = 1;
    size_t rest_n = 0;
    int r = nc_parse_u64(f[1].text, &piece);

    (void)nc_buf_puts(out, "is");
    if (r == 0)
        r = nc_json_filter_new(&o, &filter, &err);
    for (size_t at = 0; r == 0 && at < f->n; at += piece)
        r = nc_json_filter_add(filter, f->text + at, f->n - at < piece ? f->n - at : piece, &err);
    if (r == 0)
        r = nc_json_filter_end(filter, &rest, &rest_n, &err);
    if (r == 0) {
        (void)take(out, rest, rest_n);
    } else {
        nc_buf_clear(out);
        differ_refuse(out, &err);
    }
    nc_json_filter_free(filter);
}

void differ_yaml(const struct differ_field *f, struct nc_buf *out) {
    struct nc_err err = NC_ERR_INIT;
    struct nc_values documents = {0};

    if (nc_yaml_parse((struct nc_text){.data = f->text, .n = f->n}, 0, &documents, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    (void)nc_buf_puts(out, "is");
    for (size_t i = 0; i < documents.n; i++) {
        (void)nc_buf_putc(out, ' ');
        put_tree(out, documents.v[i]);
    }
    nc_values_done(&documents);
}

/* Each part as TYPE:BYTES, both in hexadecimal. */
void differ_mime(const struct differ_field *f, struct nc_buf *out) {
    nc_cleanup(nc_userdata_done) struct nc_userdata u = NC_USERDATA_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_userdata_decode(f->text, f->n, &u, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    (void)nc_buf_puts(out, "is");
    for (size_t i = 0; i < u.n; i++) {
        (void)nc_buf_putc(out, ' ');
        differ_put_hex(out, u.parts[i].content_type, strlen(u.parts[i].content_type));
        (void)nc_buf_putc(out, ':');
        differ_put_hex(out, u.parts[i].data, u.parts[i].n);
    }
}
