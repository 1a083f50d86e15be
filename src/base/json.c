/*
 * JSON in and out: cJSON makes the values and prints them.
 *
 * cJSON accepts what must not be accepted (a text behind the value, \u0000, bad UTF-8, numbers that
 * are none or that a double cannot hold), so that the tokenizer reads the text first. Of numbers
 * cJSON keeps a double, of 2^53 it prints fifteen digits: they are printed here, the way Go does.
 * Values get no marks: a document whose errors a person must find by line is read as YAML, of which
 * JSON is a part.
 */
#include <assert.h>
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "nc/json-filter.h"
#include "nc/str.h"
#include "nc/value.h"
#include "text-priv.h"

/* In each program that reads or writes JSON, before its main(). What is printed or read may be a
 * token, and cJSON wipes nothing. */
__attribute__((constructor)) static void set_hooks(void) {
    cJSON_InitHooks(&(cJSON_Hooks){.malloc_fn = nc_malloc, .free_fn = nc_free_wiped});
}

static struct nc_value *number_of(double d) {
    char text[NC_NUMBER_SIZE];

    if (fabs(d) <= (double)NC_JSON_MAX_INTEGER && (double)(int64_t)d == d)
        return nc_value_new_int((int64_t)d);
    struct nc_value *v = nc_value_new(NC_VALUE_FLOAT);
    nc_number_write(d, text);
    v->text = nc_strdup(text);
    return v;
}

/* Consumes the item, children and texts included. */
static struct nc_value *value_of(cJSON *item) {
    const int type = item->type & 0xff; /* without what says who owns what */
    struct nc_value *v;

    if (type == cJSON_Number)
        v = number_of(item->valuedouble);
    else if (type == cJSON_False || type == cJSON_True)
        v = nc_value_new_bool(type == cJSON_True);
    else
        v = nc_value_new(type == cJSON_String   ? NC_VALUE_STRING
                         : type == cJSON_Object ? NC_VALUE_MAP
                         : type == cJSON_Array  ? NC_VALUE_LIST
                                                : NC_VALUE_NULL);
    v->text = v->text ? v->text : nc_steal(&item->valuestring);
    while (item->child) {
        cJSON *child = cJSON_DetachItemViaPointer(item, item->child);
        if (v->type == NC_VALUE_LIST) {
            nc_value_push(v, value_of(child));
            continue;
        }
        struct nc_member *m = nc_append(&v->members, &v->n);
        m->key = nc_steal(&child->string);
        m->value = value_of(child);
    }
    cJSON_Delete(item);
    return v;
}

static const char *duplicate_in(const struct nc_value *v) {
    const struct nc_member *m = v->type == NC_VALUE_MAP ? nc_duplicate_key(v) : NULL;
    const char *key = m ? m->key : NULL;

    for (size_t i = 0; i < v->n && !key; i++)
        key = duplicate_in(v->type == NC_VALUE_MAP ? v->members[i].value : v->items[i]);
    return key;
}

/* The terminator is part of what cJSON gets. */
static cJSON *parse(const char *data, size_t n) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf text = NC_BUF_INIT_MAX(n + 1);

    (void)nc_buf_add(&text, data, n);
    return cJSON_ParseWithLengthOpts(text.data, text.len + 1, NULL, true);
}

int nc_json_parse(const char *data, size_t n, struct nc_value **ret, struct nc_err *err) {
    return nc_json_parse_large(data, n, NC_VALUE_MAX_NODES, ret, err);
}

int nc_json_parse_large(const char *data, size_t n, size_t max_values, struct nc_value **ret,
                        struct nc_err *err) {
    nc_auto_value struct nc_value *v = NULL;
    cJSON *item;
    const int r = nc_json_check(data, n, max_values, err);

    if (r < 0)
        return r;
    item = parse(data, n);
    if (!item)
        return nc_err_set(err, NC_ERR_PROTOCOL, EPROTO, "JSON: cJSON refuses it");
    v = value_of(item);
    const char *duplicate = duplicate_in(v);
    if (duplicate) {
        nc_auto_free char *quoted = nc_quote_string(duplicate);
        return nc_err_set(err, NC_ERR_PROTOCOL, EPROTO, "JSON: duplicate key %s in an object",
                          quoted);
    }
    *ret = nc_steal(&v);
    return 0;
}

/* Texts stay the value's. */
static cJSON *item_of(const struct nc_value *v) {
    char text[NC_NUMBER_SIZE];
    cJSON *item;

    switch (v ? v->type : NC_VALUE_NULL) {
    case NC_VALUE_BOOL:
        return cJSON_CreateBool(v->boolean);
    case NC_VALUE_INT:
        snprintf(text, sizeof(text), "%" PRId64, v->integer);
        return cJSON_CreateRaw(text);
    case NC_VALUE_FLOAT:
        if (!isfinite(nc_number_of(v)))
            break;
        nc_number_write(nc_number_of(v), text);
        return cJSON_CreateRaw(text);
    case NC_VALUE_STRING:
    case NC_VALUE_TIME:
        return cJSON_CreateStringReference(v->text);
    case NC_VALUE_MAP:
        item = cJSON_CreateObject();
        for (size_t i = 0; i < v->n; i++)
            cJSON_AddItemToObjectCS(item, v->members[i].key, item_of(v->members[i].value));
        return item;
    case NC_VALUE_LIST:
        item = cJSON_CreateArray();
        for (size_t i = 0; i < v->n; i++)
            cJSON_AddItemToArray(item, item_of(v->items[i]));
        return item;
    case NC_VALUE_NULL:
    case _NC_VALUE_TYPE_MAX:
        break;
    }
    return cJSON_CreateNull();
}

/* Valid JSON as it is, but no YAML or a line break there: escaped, so that what is written reads
 * alike with both. */
static bool is_special_to_yaml(uint32_t c) {
    return (c >= 0x7f && c < 0xa0) || c == 0x2028 || c == 0x2029 || c == 0xfeff || c == 0xfffe
           || c == 0xffff;
}

/* As many bytes as stand for themselves, and begin or end no string. */
static size_t plain_run(const char *text) {
    size_t n = 0;

    while (text[n] >= 0x20 && text[n] < 0x7f && text[n] != '"' && text[n] != '\\')
        n++;
    return n;
}

/* What cJSON printed, which has no space outside of strings: lines and spaces where an indent is
 * wanted, and in strings what others could not read. */
static int add_printed(struct nc_buf *out, const char *text, unsigned indent) {
    const char *const end = text + strlen(text);
    bool in_string = false;
    int r = 0, depth = 0;

    for (size_t n; text < end && r >= 0; text += n) {
        uint32_t c = 0;
        n = in_string || !indent ? plain_run(text) : 0;
        if (n > 0) {
            r = nc_buf_add(out, text, n);
            continue;
        }
        n = nc_utf8_next(text, (size_t)(end - text), &c);
        if (n == 0 || is_special_to_yaml(c)) {
            r = n ? nc_buf_printf(out, "\\u%04x", c) : nc_buf_puts(out, "\xef\xbf\xbd");
            n += n == 0;
            continue;
        }
        in_string ^= c == '"';
        n += c == '\\'; /* and what it escapes */
        const bool opens = !in_string && (c == '{' || c == '[') && indent;
        const bool closes = !in_string && (c == '}' || c == ']') && indent;
        const bool is_empty = opens && (text[1] == '}' || text[1] == ']');
        const bool was_empty = closes && (text[-1] == '{' || text[-1] == '[');
        depth += opens - closes;
        if (closes && !was_empty)
            r = nc_buf_printf(out, "\n%*s", depth * (int)indent, "");
        if (r >= 0)
            r = nc_buf_add(out, text, n);
        if (r >= 0 && ((opens && !is_empty) || (c == ',' && !in_string && indent)))
            r = nc_buf_printf(out, "\n%*s", depth * (int)indent, "");
        if (r >= 0 && c == ':' && !in_string && indent)
            r = nc_buf_putc(out, ' ');
    }
    return r;
}

/* All or nothing. Consumes the item. */
static void print(struct nc_buf *out, cJSON *item, unsigned indent) {
    const size_t before = out->len;
    char *text = cJSON_PrintUnformatted(item);

    cJSON_Delete(item);
    if (text && add_printed(out, text, indent) < 0 && out->data) {
        out->len = before;
        out->data[before] = '\0';
    }
    cJSON_free(text);
}

struct nc_value *nc_json_literal(const char *text) {
    struct nc_value *v = NULL;

    nc_json_parse(text, strlen(text), &v, NULL);
    assert(v);
    return v;
}

void nc_json_write(struct nc_buf *out, const struct nc_value *v, unsigned indent) {
    print(out, item_of(v), indent);
}

char *nc_json_text(const struct nc_value *v) {
    struct nc_buf text = NC_BUF_INIT;

    nc_json_write(&text, v, 0);
    return nc_buf_steal(&text);
}

void nc_json_write_string(struct nc_buf *out, const char *text) {
    print(out, cJSON_CreateStringReference(text ? text : ""), 0);
}
