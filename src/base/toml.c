/*
 * TOML in: keys, tables and arrays.
 *
 * A first pass refuses what may stand nowhere (invalid UTF-8, control characters), so that all that
 * follows can check bytes. Depth and the count of values are capped while they are made.
 */
#include "nc/value.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>

#include "nc/str.h"
#include "text-priv.h"

/* Where a table or array came from, which decides what may still be added to it. Kept in `integer`,
 * which has no meaning for either. */
enum origin {
    CLOSED = 0, /* written in { } or [ ]: complete */
    IMPLICIT,   /* a table on the way of a header [a.b]: may get a header of its own, once */
    HEADER,     /* a table with a header: other headers may go through it */
    DOTTED,     /* a table on the way of a key a.b = …: as above, and further such keys */
    TABLES,     /* an array of [[ ]]: gets more tables */
};

struct reader {
    struct nc_toml_text text;
    unsigned first_line, first_column; /* of text */
    struct {
        size_t at;
        unsigned line, column;
    } counted;             /* of text: where marks were last */
    struct nc_buf string;  /* the string or key that was read last */
    struct nc_member last; /* the key that was read last, no value; owned */
    size_t depth, values;
    struct nc_err *err;
};

/* Marks mostly go on, so that counting is linear in all. */
static struct nc_mark mark_at(struct reader *r, size_t at) {
    if (at < r->counted.at || r->counted.line == 0) {
        r->counted.at = 0;
        r->counted.line = r->first_line;
        r->counted.column = r->first_column;
    }
    for (; r->counted.at < at; r->counted.at++) {
        const unsigned char c = (unsigned char)r->text.data[r->counted.at];
        if (c == '\n') {
            r->counted.line++;
            r->counted.column = r->first_column;
        } else {
            r->counted.column += (c & 0xc0) != 0x80;
        }
    }
    return (struct nc_mark){.line = r->counted.line, .column = r->counted.column};
}

static int fail(struct reader *r, struct nc_mark m, const char *what) {
    const int e = nc_err_config(r->err, "%s", what);

    if (r->err)
        r->err->mark = m;
    return e;
}

static int fail_here(struct reader *r, const char *what) {
    return fail(r, mark_at(r, r->text.at), what);
}

static int peek(const struct reader *r) {
    return nc_toml_peek(&r->text, 0);
}

/* States what came instead. */
static int fail_expected(struct reader *r, const char *wanted) {
    const char *s = r->text.data + r->text.at;
    const int c = peek(r);
    uint32_t character;
    nc_auto_free char *quoted =
        c < 0 || c == '\n' || c == '\r'
            ? nc_strdup(c < 0 ? "the end of the text" : "the end of the line")
            : nc_quote(s, nc_utf8_next(s, r->text.n - r->text.at, &character));
    nc_auto_free char *what = nc_asprintf("expected %s, not %s", wanted, quoted);

    return fail_here(r, what);
}

static int fail_key(struct reader *r, const char *what) {
    nc_auto_free char *quoted = nc_quote_string(r->last.key);
    nc_auto_free char *all = nc_asprintf("key %s %s", quoted, what);

    return fail(r, r->last.mark, all);
}

static bool skip_byte(struct reader *r, char c) {
    const bool is_there = peek(r) == c;

    r->text.at += is_there;
    return is_there;
}

static void skip_spaces(struct reader *r) {
    while (skip_byte(r, ' ') || skip_byte(r, '\t'))
        continue;
}

/* Spaces and one comment: up to the end of the line, if nothing else stands there. */
static void skip_rest(struct reader *r) {
    skip_spaces(r);
    if (peek(r) == '#')
        while (peek(r) >= 0 && peek(r) != '\n')
            r->text.at++;
    (void)skip_byte(r, '\r'); /* the first pass has seen the line feed behind it */
}

static void skip_lines(struct reader *r) {
    do
        skip_rest(r);
    while (skip_byte(r, '\n'));
}

static int count_value(struct reader *r) {
    return ++r->values > NC_TOML_MAX_VALUES ? fail_here(r, "too many values") : 0;
}

static int enter(struct reader *r) {
    return ++r->depth > NC_VALUE_MAX_DEPTH ? fail_here(r, "nested too deep") : 0;
}

/* One part of a key, to r->last. */
static int read_key(struct reader *r) {
    const size_t start = r->text.at;
    const int c = peek(r);

    free(nc_steal(&r->last.key));
    r->last.mark = mark_at(r, start);
    if (c == '"' || c == '\'') {
        const char *wrong = nc_toml_string(&r->text, true, &r->string);
        if (wrong)
            return fail_here(r, wrong);
        r->last.key = nc_strdup(r->string.data);
        return 0;
    }
    while (peek(r) > 0 && (isalnum(peek(r)) || strchr("_-", peek(r))))
        r->text.at++;
    if (r->text.at == start)
        return fail_expected(r, "a key (letters, digits, _ and -, or a string in quotes)");
    r->last.key = nc_strndup(r->text.data + start, r->text.at - start);
    return 0;
}

static struct nc_value *new_value(enum nc_value_type type, enum origin origin,
                                  struct nc_mark mark) {
    struct nc_value *v = nc_value_new(type);

    v->mark = mark;
    v->integer = origin;
    return v;
}

/* Adds v (consumed) to the table with the key that was read last, which is not yet in it. */
static struct nc_value *add(struct reader *r, struct nc_value *table, struct nc_value *v) {
    struct nc_member *m = nc_append(&table->members, &table->n);

    *m = r->last;
    m->value = v;
    r->last.key = NULL;
    return v;
}

/* The table that the key leads through; NULL where it may not. */
static struct nc_value *through(struct nc_value *v, enum origin origin) {
    if (origin == IMPLICIT && v->type == NC_VALUE_LIST && v->integer == TABLES)
        return v->items[v->n - 1];
    if (v->type != NC_VALUE_MAP || v->integer == CLOSED)
        return NULL;
    if (origin == DOTTED && v->integer == IMPLICIT)
        v->integer = DOTTED;
    return origin == IMPLICIT || v->integer == DOTTED ? v : NULL;
}

/* From table on with the key that was read last, which is not the last part. */
static struct nc_value *step(struct reader *r, struct nc_value *table, enum origin origin) {
    struct nc_value *v = nc_value_get(table, r->last.key);
    const bool is_new = !v;

    if (enter(r) || (is_new && count_value(r)))
        return NULL;
    if (is_new)
        v = add(r, table, new_value(NC_VALUE_MAP, origin, r->last.mark));
    else if (v->type == NC_VALUE_LIST && enter(r))
        return NULL;
    struct nc_value *next = is_new ? v : through(v, origin);
    if (!next)
        (void)fail_key(r, v->type == NC_VALUE_MAP ? "is a table that is complete: nothing can be "
                                                    "added to it here"
                                                  : "has a value already that is no table");
    return next;
}

/* Reads a dotted key; returns the table of its last part, which is then r->last. */
static struct nc_value *read_path(struct reader *r, struct nc_value *table, enum origin origin) {
    for (;;) {
        if (read_key(r))
            return NULL;
        skip_spaces(r);
        if (!skip_byte(r, '.'))
            return table;
        table = step(r, table, origin);
        if (!table)
            return NULL;
        skip_spaces(r);
    }
}

static int read_value(struct reader *r, struct nc_value **ret);

/* key = value; depth is that of the table before and after. */
static int read_pair(struct reader *r, struct nc_value *table) {
    const size_t depth = r->depth;
    struct nc_value *parent = read_path(r, table, DOTTED);

    if (!parent)
        return -EINVAL;
    if (nc_value_get(parent, r->last.key))
        return fail_key(r, "stands here a second time");
    if (!skip_byte(r, '='))
        return fail_expected(r, "= behind the key");
    /* The place of the value is taken before it is read: that reads keys of its own. */
    const size_t place = parent->n;
    (void)add(r, parent, NULL);
    skip_spaces(r);
    const int bad = read_value(r, &parent->members[place].value);
    r->depth = depth;
    return bad;
}

static int read_array(struct reader *r, struct nc_value *array) {
    for (;;) {
        skip_lines(r);
        if (skip_byte(r, ']'))
            return 0;
        struct nc_value *v = NULL;
        const int bad = read_value(r, &v);
        if (bad)
            return bad;
        nc_value_push(array, v);
        skip_lines(r);
        if (!skip_byte(r, ',') && peek(r) != ']')
            return fail_expected(r, "a comma or ] in an array");
    }
}

static int read_inline_table(struct reader *r, struct nc_value *table) {
    skip_spaces(r);
    if (skip_byte(r, '}'))
        return 0;
    do {
        skip_spaces(r);
        const int bad = read_pair(r, table);
        if (bad)
            return bad;
        skip_spaces(r);
    } while (skip_byte(r, ','));
    return skip_byte(r, '}') ? 0 : fail_expected(r, "a comma or } in an inline table, on one line");
}

static int read_container(struct reader *r, struct nc_value *v) {
    int bad = enter(r);

    if (!bad) {
        r->text.at++;
        bad = v->type == NC_VALUE_LIST ? read_array(r, v) : read_inline_table(r, v);
        r->depth--;
    }
    return bad;
}

static int read_value(struct reader *r, struct nc_value **ret) {
    const int c = peek(r);
    nc_auto_value struct nc_value *v = new_value(c == '['   ? NC_VALUE_LIST
                                                 : c == '{' ? NC_VALUE_MAP
                                                            : NC_VALUE_STRING,
                                                 CLOSED, mark_at(r, r->text.at));
    int bad = count_value(r);
    const char *wrong = NULL;

    if (!bad && v->type != NC_VALUE_STRING) {
        bad = read_container(r, v);
    } else if (!bad && (c == '"' || c == '\'')) {
        wrong = nc_toml_string(&r->text, false, &r->string);
        v->text = nc_strdup(wrong ? "" : r->string.data);
    } else if (!bad) {
        wrong = nc_toml_scalar(&r->text, v);
    }
    if (wrong)
        bad = fail_here(r, wrong);
    if (!bad)
        *ret = nc_steal(&v);
    return bad;
}

/* [[a.b]]: one more table in the array. */
static struct nc_value *open_element(struct reader *r, struct nc_value *parent) {
    const struct nc_mark mark = r->last.mark;
    struct nc_value *array = nc_value_get(parent, r->last.key);

    if (array && (array->type != NC_VALUE_LIST || array->integer != TABLES))
        return (void)fail_key(r, "is no array of tables, [[ ]] cannot add to it"), NULL;
    if (enter(r) || enter(r) || count_value(r) || (!array && count_value(r)))
        return NULL;
    if (!array)
        array = add(r, parent, new_value(NC_VALUE_LIST, TABLES, mark));
    struct nc_value *table = new_value(NC_VALUE_MAP, HEADER, mark);
    nc_value_push(array, table);
    return table;
}

/* [a.b] */
static struct nc_value *open_table(struct reader *r, struct nc_value *parent) {
    struct nc_value *table = nc_value_get(parent, r->last.key);

    if (enter(r) || (!table && count_value(r)))
        return NULL;
    if (!table)
        return add(r, parent, new_value(NC_VALUE_MAP, HEADER, r->last.mark));
    if (table->type != NC_VALUE_MAP || table->integer != IMPLICIT)
        return (void)fail_key(r, "stands here a second time"), NULL;
    table->integer = HEADER;
    return table;
}

/* The table that the header opens. */
static struct nc_value *read_header(struct reader *r, struct nc_value *root) {
    r->text.at++;
    const bool is_element = skip_byte(r, '[');
    r->depth = 1;
    skip_spaces(r);
    struct nc_value *parent = read_path(r, root, IMPLICIT);

    if (!parent)
        return NULL;
    if (!skip_byte(r, ']') || (is_element && !skip_byte(r, ']')))
        return (void)fail_expected(r, is_element ? "]] behind the key" : "] behind the key"), NULL;
    return is_element ? open_element(r, parent) : open_table(r, parent);
}

static int read_document(struct reader *r, struct nc_value *root) {
    struct nc_value *table = root;

    r->depth = 1;
    for (skip_lines(r); peek(r) >= 0; skip_lines(r)) {
        if (peek(r) == '[') {
            table = read_header(r, root);
            if (!table)
                return -EINVAL;
        } else {
            const int bad = read_pair(r, table);
            if (bad)
                return bad;
        }
        skip_rest(r);
        if (peek(r) >= 0 && peek(r) != '\n')
            return fail_expected(r, "the end of the line");
    }
    return 0;
}

/* Nowhere, not even in a comment, may stand what this refuses. */
static int check_text(struct reader *r) {
    struct nc_toml_text *t = &r->text;

    while (t->at < t->n) {
        uint32_t c = 0;
        const size_t length = nc_utf8_next(t->data + t->at, t->n - t->at, &c);
        if (length == 0)
            return fail_here(r, "invalid UTF-8");
        if (c == '\r' ? nc_toml_peek(t, 1) != '\n'
                      : (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f)
            return fail_here(r, "control character");
        t->at += length;
    }
    t->at = 0;
    return 0;
}

int nc_toml_parse(struct nc_text text, struct nc_value **ret, struct nc_err *err) {
    const struct nc_text all = nc_skip_mark(text);
    struct reader r = {.text = {.data = all.data, .n = all.n},
                       .first_line = all.line ? all.line : 1,
                       .first_column = all.indent + 1,
                       .err = err};
    nc_auto_value struct nc_value *root = new_value(NC_VALUE_MAP, HEADER, (struct nc_mark){0});

    if (text.n > NC_TOML_MAX_BYTES)
        return nc_err_config(err, "TOML of %zu bytes, expected at most %zu", text.n,
                             NC_TOML_MAX_BYTES);
    int bad = check_text(&r);
    if (!bad)
        bad = read_document(&r, root);
    nc_buf_done(&r.string);
    free(r.last.key);
    if (!bad)
        *ret = nc_steal(&root);
    return bad;
}
