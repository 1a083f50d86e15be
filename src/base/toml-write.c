/*
 * TOML out: deterministic, always valid, all or nothing.
 *
 * A string of JSON, as ours are written, is a basic string of TOML with the same meaning.
 */
#include "nc/value.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>

#include "nc/str.h"
#include "text-priv.h"

/* The keys that lead to a table, innermost first. */
struct path {
    const struct path *up;
    const char *key;
};

static int write_string(struct nc_buf *out, const char *text) {
    const size_t before = out->len;

    nc_json_write_string(out, text);
    return out->len > before ? 0 : -EFBIG;
}

static int write_key(struct nc_buf *out, const char *key) {
    return nc_is_alnum_or(key, "_-", SIZE_MAX) ? nc_buf_puts(out, key) : write_string(out, key);
}

static int write_float(struct nc_buf *out, double d) {
    char text[NC_NUMBER_SIZE];

    if (isnan(d))
        return nc_buf_puts(out, "nan");
    if (isinf(d))
        return nc_buf_puts(out, d < 0 ? "-inf" : "inf");
    nc_number_write(d, text); /* of a zero it drops the sign */
    return nc_buf_printf(out, "%s%s%s", d == 0 && signbit(d) ? "-" : "", text,
                         strpbrk(text, ".e") ? "" : ".0");
}

static int write_inline(struct nc_buf *out, const struct nc_value *v);

static int write_pair(struct nc_buf *out, const struct nc_member *m) {
    int r = write_key(out, m->key);

    if (!r)
        r = nc_buf_puts(out, " = ");
    return r ? r : write_inline(out, m->value);
}

static int write_container(struct nc_buf *out, const struct nc_value *v) {
    const bool is_map = v->type == NC_VALUE_MAP;
    int r = nc_buf_putc(out, is_map ? '{' : '[');

    for (size_t i = 0; i < v->n && !r; i++) {
        if (i)
            r = nc_buf_puts(out, ", ");
        if (!r)
            r = is_map ? write_pair(out, &v->members[i]) : write_inline(out, v->items[i]);
    }
    return r ? r : nc_buf_putc(out, is_map ? '}' : ']');
}

static int write_inline(struct nc_buf *out, const struct nc_value *v) {
    switch (v->type) {
    case NC_VALUE_BOOL:
        return nc_buf_puts(out, v->boolean ? "true" : "false");
    case NC_VALUE_INT:
        return nc_buf_printf(out, "%" PRId64, v->integer);
    case NC_VALUE_FLOAT:
        return write_float(out, nc_number_of(v));
    case NC_VALUE_STRING:
        return write_string(out, v->text);
    case NC_VALUE_TIME:
        return nc_buf_puts(out, v->text);
    case NC_VALUE_MAP:
    case NC_VALUE_LIST:
        return write_container(out, v);
    case NC_VALUE_NULL:
    case _NC_VALUE_TYPE_MAX:
        break;
    }
    return -EINVAL;
}

static bool is_tables(const struct nc_value *v) {
    if (v->type != NC_VALUE_LIST || v->n == 0)
        return false;
    for (size_t i = 0; i < v->n; i++)
        if (v->items[i]->type != NC_VALUE_MAP)
            return false;
    return true;
}

static bool has_header(const struct nc_value *v) {
    return v->type == NC_VALUE_MAP || is_tables(v);
}

static int write_path(struct nc_buf *out, const struct path *p) {
    int r = p->up ? write_path(out, p->up) : 0;

    if (!r && p->up)
        r = nc_buf_putc(out, '.');
    return r ? r : write_key(out, p->key);
}

static int write_header(struct nc_buf *out, const struct path *p, bool is_element) {
    int r = out->len ? nc_buf_putc(out, '\n') : 0;

    if (!r)
        r = nc_buf_puts(out, is_element ? "[[" : "[");
    if (!r)
        r = write_path(out, p);
    return r ? r : nc_buf_puts(out, is_element ? "]]\n" : "]\n");
}

static int write_table(struct nc_buf *out, const struct nc_value *v, const struct path *up);

/* A table that holds nothing but tables needs no header: theirs say it. */
static bool needs_header(const struct nc_value *v) {
    for (size_t i = 0; i < v->n; i++)
        if (!has_header(v->members[i].value))
            return true;
    return v->n == 0;
}

static int write_below_header(struct nc_buf *out, const struct nc_member *m,
                              const struct path *up) {
    const struct path p = {.up = up, .key = m->key};
    const bool is_array = m->value->type == NC_VALUE_LIST;
    int r = 0;

    if (!is_array) {
        if (needs_header(m->value))
            r = write_header(out, &p, false);
        return r ? r : write_table(out, m->value, &p);
    }
    for (size_t i = 0; i < m->value->n && !r; i++) {
        r = write_header(out, &p, true);
        if (!r)
            r = write_table(out, m->value->items[i], &p);
    }
    return r;
}

static int write_table(struct nc_buf *out, const struct nc_value *v, const struct path *up) {
    int r = 0;

    for (size_t i = 0; i < v->n && !r; i++)
        if (!has_header(v->members[i].value)) {
            r = write_pair(out, &v->members[i]);
            if (!r)
                r = nc_buf_putc(out, '\n');
        }
    for (size_t i = 0; i < v->n && !r; i++)
        if (has_header(v->members[i].value))
            r = write_below_header(out, &v->members[i], up);
    return r;
}

int nc_toml_write(const struct nc_value *v, struct nc_buf *out) {
    const size_t before = out->len;
    const int r = v && v->type == NC_VALUE_MAP ? write_table(out, v, NULL) : -EINVAL;

    if (r && out->data) {
        out->len = before;
        out->data[before] = '\0';
    }
    return r;
}
