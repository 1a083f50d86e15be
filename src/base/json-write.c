/*
 * JSON out: deterministic, always valid, all or nothing.
 *
 * What is written reads the same as YAML. Where the buffer's cap would be passed, nothing of the
 * value stays in it. Bytes that are not UTF-8 become U+FFFD.
 */
#include "nc/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "nc/str.h"
#include "number.h"
#include "utf8.h"

struct writer {
    struct nc_buf *out;
    unsigned indent;
    bool full; /* the cap was reached; everything after that is dropped */
};

static void write_bytes(struct writer *w, const char *s, size_t n) {
    if (!w->full && nc_buf_add(w->out, s, n) < 0)
        w->full = true;
}

static void write_text(struct writer *w, const char *s) {
    write_bytes(w, s, strlen(s));
}

/* Valid JSON as it is, but no YAML or a line break there: escaped, so that what is written reads
 * alike with both. */
static bool is_special_to_yaml(uint32_t c) {
    return (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe
           || c == 0xffff;
}

/* The escape of a character, or NULL where it stands for itself. */
static const char *escape_of(uint32_t c, char buf[static 8]) {
    switch (c) {
    case '"':
        return "\\\"";
    case '\\':
        return "\\\\";
    case '\b':
        return "\\b";
    case '\f':
        return "\\f";
    case '\n':
        return "\\n";
    case '\r':
        return "\\r";
    case '\t':
        return "\\t";
    default:
        if (c >= 0x20 && !is_special_to_yaml(c))
            return NULL;
        snprintf(buf, 8, "\\u%04x", c & 0xffff);
        return buf;
    }
}

static void write_string(struct writer *w, const char *text) {
    const size_t n = strlen(text);
    size_t plain = 0; /* the start of what is not yet written and needs no escape */

    write_text(w, "\"");
    for (size_t i = 0; i < n;) {
        char buf[8];
        uint32_t c;
        const size_t length = nc_utf8_next(text + i, n - i, &c);
        const char *escape = length == 0 ? "\xef\xbf\xbd" : escape_of(c, buf);
        const size_t next = i + (length ? length : 1);
        if (escape) {
            write_bytes(w, text + plain, i - plain);
            write_text(w, escape);
            plain = next;
        }
        i = next;
    }
    write_bytes(w, text + plain, n - plain);
    write_text(w, "\"");
}

static void write_scalar(struct writer *w, const struct nc_value *v) {
    char buf[NC_NUMBER_SIZE];
    const double d = v->type == NC_VALUE_FLOAT ? nc_number_of(v) : 0;

    switch (v->type) {
    case NC_VALUE_BOOL:
        write_text(w, v->boolean ? "true" : "false");
        break;
    case NC_VALUE_INT:
        snprintf(buf, sizeof(buf), "%" PRId64, v->integer);
        write_text(w, buf);
        break;
    case NC_VALUE_FLOAT:
        if (isfinite(d))
            nc_number_write(d, buf);
        write_text(w, isfinite(d) ? buf : "null");
        break;
    case NC_VALUE_STRING:
    case NC_VALUE_TIME:
        write_string(w, v->text);
        break;
    case NC_VALUE_NULL:
    case NC_VALUE_MAP:
    case NC_VALUE_LIST:
    case _NC_VALUE_TYPE_MAX:
        write_text(w, "null");
        break;
    }
}

static void new_line(struct writer *w, unsigned depth) {
    if (!w->indent)
        return;
    write_text(w, "\n");
    for (unsigned i = 0; i < depth * w->indent; i++)
        write_text(w, " ");
}

static void write_value(struct writer *w, const struct nc_value *v, unsigned depth) {
    const bool map = v && v->type == NC_VALUE_MAP;

    if (!v || (!map && v->type != NC_VALUE_LIST)) {
        write_scalar(w, v ? v : &(const struct nc_value){0});
        return;
    }
    write_text(w, map ? "{" : "[");
    for (size_t i = 0; i < v->n && !w->full; i++) {
        if (i)
            write_text(w, ",");
        new_line(w, depth + 1);
        if (map) {
            write_string(w, v->members[i].key);
            write_text(w, w->indent ? ": " : ":");
        }
        write_value(w, map ? v->members[i].value : v->items[i], depth + 1);
    }
    if (v->n)
        new_line(w, depth);
    write_text(w, map ? "}" : "]");
}

static void finish(struct writer *w, size_t before) {
    if (!w->full || !w->out->data)
        return;
    w->out->len = before;
    w->out->data[before] = '\0';
}

void nc_json_write(struct nc_buf *out, const struct nc_value *v, unsigned indent) {
    const size_t before = out->len;
    struct writer w = {.out = out, .indent = indent};

    write_value(&w, v, 0);
    finish(&w, before);
}

void nc_json_write_string(struct nc_buf *out, const char *text) {
    const size_t before = out->len;
    struct writer w = {.out = out};

    write_string(&w, text ? text : "");
    finish(&w, before);
}
