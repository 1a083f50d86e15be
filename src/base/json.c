/*
 * JSON in, by cJSON behind a strict scan (json-scan.c).
 *
 * The only file that includes cJSON. Integers come from the text, not from cJSON's doubles. Values
 * get no marks: a document whose errors a person must find by line is read as YAML, of which JSON
 * is a part.
 */
#include "nc/value.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

#include <cjson/cJSON.h>

#include "json-scan.h"
#include "nc/str.h"
#include "number.h"

/* A conversion under way: the scan and how many of its numbers are used. */
struct conversion {
    const struct nc_json_scan *scan;
    size_t next_number;
    struct nc_err *err;
};

static int fail_at(struct nc_err *err, size_t at, const char *what) {
    return nc_err_set(err, NC_ERR_PROTOCOL, EPROTO, "JSON: byte %zu: %s", at, what);
}

/* cJSON meets the numbers in the order in which the scan has listed them. */
static struct nc_value *convert_number(struct conversion *c) {
    const struct nc_json_number *number = &c->scan->numbers[c->next_number++];
    nc_auto_free char *text = nc_strndup(c->scan->data + number->start, number->length);
    int64_t i;

    if (text[strspn(text, "-0123456789")] == '\0') {
        if (nc_parse_i64(text, &i) < 0 || i > NC_JSON_MAX_INTEGER || i < -NC_JSON_MAX_INTEGER) {
            fail_at(c->err, number->start, "integer beyond 2^53");
            return NULL;
        }
        return nc_value_new_int(i);
    }
    if (!isfinite(strtod(text, NULL))) {
        fail_at(c->err, number->start, "number out of range");
        return NULL;
    }
    struct nc_value *v = nc_value_new(NC_VALUE_FLOAT);
    v->text = nc_steal(&text);
    return v;
}

static struct nc_value *convert(struct conversion *c, const cJSON *from);

static bool convert_children(struct conversion *c, const cJSON *from, struct nc_value *into) {
    for (const cJSON *child = from->child; child; child = child->next) {
        struct nc_value *v = convert(c, child);
        if (!v)
            return false;
        if (into->type == NC_VALUE_LIST) {
            nc_value_push(into, v);
            continue;
        }
        struct nc_member *m = nc_append(&into->members, &into->n);
        m->key = nc_strdup(child->string);
        m->value = v;
    }
    return true;
}

static bool has_duplicates(struct conversion *c, const struct nc_value *map) {
    const struct nc_member *duplicate = nc_duplicate_key(map);

    if (!duplicate)
        return false;
    nc_auto_free char *quoted = nc_quote(duplicate->key, strlen(duplicate->key));
    nc_err_set(c->err, NC_ERR_PROTOCOL, EPROTO, "JSON: byte %zu: duplicate key %s in an object",
               c->scan->n, quoted);
    return true;
}

/* NULL with err filled where a number or a key is refused. */
static struct nc_value *convert(struct conversion *c, const cJSON *from) {
    if (cJSON_IsNumber(from))
        return convert_number(c);
    if (cJSON_IsString(from))
        return nc_value_new_string(from->valuestring);
    if (cJSON_IsBool(from))
        return nc_value_new_bool(cJSON_IsTrue(from));
    if (cJSON_IsNull(from))
        return nc_value_new(NC_VALUE_NULL);

    nc_auto_value struct nc_value *v =
        nc_value_new(cJSON_IsArray(from) ? NC_VALUE_LIST : NC_VALUE_MAP);
    if (!convert_children(c, from, v) || (v->type == NC_VALUE_MAP && has_duplicates(c, v)))
        return NULL;
    return nc_steal(&v);
}

static bool only_space(const char *p, const char *end) {
    while (p < end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p == end;
}

static int parse_scanned(const struct nc_json_scan *scan, struct nc_value **ret,
                         struct nc_err *err) {
    struct conversion c = {.scan = scan, .err = err};
    const char *end = scan->data;
    cJSON *tree = cJSON_ParseWithLengthOpts(scan->data, scan->n, &end, 0);
    struct nc_value *v = NULL;
    int r = -EPROTO;

    if (!tree)
        fail_at(err, (size_t)(end - scan->data),
                scan->n ? "not JSON" : "empty, where JSON was expected");
    else if (!only_space(end, scan->data + scan->n))
        fail_at(err, (size_t)(end - scan->data), "more text after the value");
    else
        v = convert(&c, tree);
    if (v) {
        *ret = v;
        r = 0;
    }
    cJSON_Delete(tree);
    return r;
}

int nc_json_parse(const char *data, size_t n, struct nc_value **ret, struct nc_err *err) {
    return nc_json_parse_large(data, n, NC_VALUE_MAX_NODES, ret, err);
}

int nc_json_parse_large(const char *data, size_t n, size_t max_values, struct nc_value **ret,
                        struct nc_err *err) {
    struct nc_json_scan scan = {.data = n ? data : "", .n = n, .max_values = max_values};
    int r = nc_json_scan(&scan, err);

    if (r == 0)
        r = parse_scanned(&scan, ret, err);
    nc_json_scan_done(&scan);
    return r;
}
