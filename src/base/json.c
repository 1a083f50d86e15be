/*
 * JSON in: values made of the tokens of json-token.c.
 *
 * Depth and the count of values are capped while they are made, and an integer must be one that a
 * double of another reader holds exactly. Values get no marks: a document whose errors a person
 * must find by line is read as YAML, of which JSON is a part.
 */
#include <errno.h>
#include <math.h>
#include <stdbool.h>

#include "json-token.h"
#include "nc/str.h"
#include "nc/value.h"
#include "number.h"

#define NUMBER_MAX_LENGTH 48

struct reader {
    const char *data;
    size_t n, at;
    size_t depth, values, max_values;
    struct nc_json_token token;
    struct nc_buf text; /* the string that was read last, decoded */
    struct nc_err *err;
};

static struct nc_value *fail_at(const struct reader *r, size_t at, const char *what) {
    (void)nc_err_set(r->err, NC_ERR_PROTOCOL, EPROTO, "JSON: byte %zu: %s", at, what);
    return NULL;
}

/* The next byte that is no space; -1 at the end. */
static int next_byte(struct reader *r) {
    while (r->at < r->n && nc_json_is_space(r->data[r->at]))
        r->at++;
    return r->at < r->n ? (unsigned char)r->data[r->at] : -1;
}

static bool expect(struct reader *r, char wanted, const char *what) {
    const int c = next_byte(r);

    if (c != wanted) {
        (void)fail_at(r, r->at, c < 0 ? "the text ends too early" : what);
        return false;
    }
    r->at++;
    return true;
}

/* Every value but a container's first has a comma before it, every container counts itself. */
static bool has_room(struct reader *r) {
    if (++r->values <= r->max_values)
        return true;
    (void)fail_at(r, r->at, "too many values");
    return false;
}

/* A string, number or literal, complete. */
static bool read_token(struct reader *r) {
    size_t used = 0, blamed = r->at;
    const char *wrong = "a value was expected";

    if (nc_json_token_begin(&r->token, r->data[r->at], &r->text)) {
        r->at++;
        wrong = nc_json_token_scan(&r->token, r->data + r->at, r->n - r->at, &used);
        r->at += used;
        if (wrong && r->token.kind == NC_TOKEN_STRING)
            blamed = r->at;
    }
    if (!wrong && !r->token.is_done) /* a number ends only at the byte behind it */
        wrong = r->token.kind == NC_TOKEN_STRING ? "string without an end"
                                                 : nc_json_token_scan(&r->token, " ", 1, &used);
    if (!wrong && r->token.has_nul)
        wrong = "\\u0000 in a string";
    if (wrong)
        (void)fail_at(r, blamed, wrong);
    return !wrong;
}

static struct nc_value *number_of(const struct reader *r, size_t start) {
    nc_auto_free char *text = nc_strndup(r->data + start, r->at - start);
    int64_t i;

    if (r->at - start > NUMBER_MAX_LENGTH)
        return fail_at(r, start, "number is too long");
    if (text[strspn(text, "-0123456789")] == '\0') {
        if (nc_parse_i64(text, &i) < 0 || i > NC_JSON_MAX_INTEGER || i < -NC_JSON_MAX_INTEGER)
            return fail_at(r, start, "integer beyond 2^53");
        return nc_value_new_int(i);
    }
    if (!isfinite(strtod(text, NULL)))
        return fail_at(r, start, "number out of range");
    struct nc_value *v = nc_value_new(NC_VALUE_FLOAT);
    v->text = nc_steal(&text);
    return v;
}

static struct nc_value *read_scalar(struct reader *r) {
    const size_t start = r->at;

    if (!read_token(r))
        return NULL;
    switch (r->token.kind) {
    case NC_TOKEN_STRING:
        return nc_value_new_string(r->text.data);
    case NC_TOKEN_NUMBER:
        return number_of(r, start);
    case NC_TOKEN_LITERAL:
        break;
    }
    return r->data[start] == 'n' ? nc_value_new(NC_VALUE_NULL)
                                 : nc_value_new_bool(r->data[start] == 't');
}

static struct nc_value *read_value(struct reader *r);

/* A member of an object, or an element of an array. */
static bool read_child(struct reader *r, struct nc_value *into) {
    nc_auto_free char *key = NULL;

    if (into->type == NC_VALUE_MAP) {
        if (next_byte(r) != '"')
            return expect(r, '"', "a key was expected");
        if (!read_token(r))
            return false;
        key = nc_strdup(r->text.data);
        if (!expect(r, ':', "a colon was expected"))
            return false;
    }
    struct nc_value *v = read_value(r);
    if (!v)
        return false;
    if (!key) {
        nc_value_push(into, v);
        return true;
    }
    struct nc_member *m = nc_append(&into->members, &into->n);
    m->key = nc_steal(&key);
    m->value = v;
    return true;
}

static bool has_duplicates(const struct reader *r, const struct nc_value *map) {
    const struct nc_member *duplicate = nc_duplicate_key(map);

    if (!duplicate)
        return false;
    nc_auto_free char *quoted = nc_quote(duplicate->key, strlen(duplicate->key));
    (void)nc_err_set(r->err, NC_ERR_PROTOCOL, EPROTO,
                     "JSON: byte %zu: duplicate key %s in an object", r->at, quoted);
    return true;
}

static struct nc_value *read_container(struct reader *r) {
    const bool is_map = r->data[r->at] == '{';
    const char end = is_map ? '}' : ']';
    nc_auto_value struct nc_value *v = nc_value_new(is_map ? NC_VALUE_MAP : NC_VALUE_LIST);

    if (r->depth == NC_VALUE_MAX_DEPTH)
        return fail_at(r, r->at, "nested too deep");
    if (!has_room(r))
        return NULL;
    r->depth++;
    r->at++;
    for (bool more = next_byte(r) != end; more;) {
        if (!read_child(r, v))
            return NULL;
        more = next_byte(r) == ',';
        if (more && !has_room(r))
            return NULL;
        r->at += more;
    }
    if (!expect(r, end, "a comma or a closing bracket was expected")
        || (is_map && has_duplicates(r, v)))
        return NULL;
    r->depth--;
    return nc_steal(&v);
}

static struct nc_value *read_value(struct reader *r) {
    const int c = next_byte(r);

    if (c < 0)
        return fail_at(r, r->at, "the text ends too early");
    return c == '{' || c == '[' ? read_container(r) : read_scalar(r);
}

int nc_json_parse(const char *data, size_t n, struct nc_value **ret, struct nc_err *err) {
    return nc_json_parse_large(data, n, NC_VALUE_MAX_NODES, ret, err);
}

int nc_json_parse_large(const char *data, size_t n, size_t max_values, struct nc_value **ret,
                        struct nc_err *err) {
    struct reader r = {
        .data = n ? data : "", .n = n, .max_values = max_values, .text.max = n + 1, .err = err};
    nc_auto_value struct nc_value *v = NULL;

    if (n == 0)
        (void)fail_at(&r, 0, "empty, where JSON was expected");
    else
        v = read_value(&r);
    nc_buf_done_secret(&r.text);
    if (!v)
        return -EPROTO;
    if (next_byte(&r) >= 0) {
        (void)fail_at(&r, r.at, "more text after the value");
        return -EPROTO;
    }
    *ret = nc_steal(&v);
    return 0;
}
