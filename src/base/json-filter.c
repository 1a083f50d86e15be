/*
 * JSON thinned out while it streams in: a machine that takes one byte after the other, and keeps
 * what the paths name.
 *
 * Its memory is a stack of at most NC_VALUE_MAX_DEPTH open brackets, one key, and what is kept of
 * the item that is being read. A bracket's mode says what becomes of what is inside it: passed
 * over, kept whole, or thinned by a set of paths. The key of a member that is thinned is written
 * only once its value turns out to be an object or an array.
 */
#include "nc/json-filter.h"

#include <errno.h>
#include <stdbool.h>

#include "json-paths.h"
#include "json-text.h"
#include "nc/str.h"
#include "nc/value.h"

#define REST_MAX_BYTES ((size_t)64 << 10)

/* What becomes of a value. */
enum mode {
    SKIP = 0,
    WHOLE, /* every byte that is no space is kept */
    THIN,  /* of objects the members that the paths name, of arrays each element likewise */
    TOP,   /* a list: everything is kept but the items */
    ITEMS, /* each element is an item */
};

enum expect {
    VALUE = 0,
    VALUE_OR_END, /* after [ */
    KEY,
    KEY_OR_END, /* after { */
    COLON,
    COMMA_OR_END,
    NOTHING, /* the text is complete */
    IN_KEY,
    IN_STRING,
    IN_NUMBER,
    IN_LITERAL,
};

struct bracket {
    char end;
    bool has_output; /* a member or element was written: the next needs a comma */
    enum mode mode;
    const struct nc_json_path *node; /* THIN */
};

struct nc_json_filter {
    struct nc_json_path *paths;
    nc_json_item_fn give;
    void *userdata;
    bool is_stream;

    enum expect expect;
    struct bracket open[NC_VALUE_MAX_DEPTH];
    size_t depth;
    enum mode coming; /* of the member whose key was read */
    const struct nc_json_path *coming_node;
    struct nc_json_text text;
    const char *literal; /* what is still to come of true, false, null */
    char number;         /* where in a number: see number_step */
    bool is_kept;        /* the string, number or literal that is being read is kept */

    struct nc_buf item, rest;
    struct nc_buf *out;
    size_t item_depth; /* the depth inside of the item's object; 0 = between items */
    size_t key_start;  /* in rest */
    bool has_items;
    size_t at; /* bytes read, for messages */
    struct nc_err failure;
};

static int fail(struct nc_json_filter *f, const char *what) {
    return nc_err_set(&f->failure, NC_ERR_PROTOCOL, EPROTO, "JSON: byte %zu: %s", f->at, what);
}

static int put(struct nc_json_filter *f, const char *data, size_t n) {
    return nc_buf_add(f->out, data, n) == 0 ? 0
           : f->out == &f->rest             ? fail(f, "the list is too large without its items")
                                            : fail(f, "what is kept of an item is too large");
}

static struct bracket *top(struct nc_json_filter *f) {
    return f->depth > 0 ? &f->open[f->depth - 1] : NULL;
}

/* What becomes of the value that begins now. */
static enum mode mode_of_value(struct nc_json_filter *f, const struct nc_json_path **ret_node) {
    const struct bracket *b = top(f);

    *ret_node = f->paths;
    if (!b)
        return !f->is_stream ? TOP : f->paths->is_whole ? WHOLE : THIN;
    if (b->mode == ITEMS)
        return f->paths->is_whole ? WHOLE : THIN;
    if (b->end == ']') {
        *ret_node = b->node;
        return b->mode;
    }
    *ret_node = f->coming_node;
    return f->coming;
}

static bool begins_item(struct nc_json_filter *f) {
    return f->depth > 0 ? top(f)->mode == ITEMS : f->is_stream;
}

/* The comma, and the key of a member, before what is kept of a value that stands in a thinned
 * bracket. */
static int put_lead(struct nc_json_filter *f) {
    struct bracket *b = top(f);
    int r = 0;

    if (!b || b->mode != THIN)
        return 0;
    if (b->has_output)
        r = put(f, ",", 1);
    b->has_output = true;
    if (r == 0 && b->end == '}')
        r = put(f, f->coming_node->literal, f->coming_node->literal_n);
    return r;
}

static int push(struct nc_json_filter *f, char c, enum mode mode, const struct nc_json_path *node) {
    if (f->depth == NC_VALUE_MAX_DEPTH)
        return fail(f, "nested too deep");
    f->open[f->depth++] = (struct bracket){.end = c == '{' ? '}' : ']', .mode = mode, .node = node};
    f->expect = c == '{' ? KEY_OR_END : VALUE_OR_END;
    return 0;
}

static int begin_item(struct nc_json_filter *f, char c) {
    if (c != '{')
        return fail(f, "an item that is no object");
    nc_buf_clear(&f->item);
    f->out = &f->item;
    f->item_depth = f->depth + 1;
    return 0;
}

static int open_bracket(struct nc_json_filter *f, char c, enum mode mode,
                        const struct nc_json_path *node) {
    int r = 0;

    if (begins_item(f))
        r = begin_item(f, c);
    else if (mode == TOP && c != '{')
        r = fail(f, "a list must be an object");
    else if (mode == ITEMS && c != '[')
        r = fail(f, "items must be an array");
    if (r == 0 && (mode == WHOLE || mode == THIN))
        r = put_lead(f);
    if (r == 0 && mode != SKIP && mode != ITEMS)
        r = put(f, &c, 1);
    return r < 0 ? r : push(f, c, mode, node);
}

static void after_value(struct nc_json_filter *f) {
    f->expect = f->depth > 0 ? COMMA_OR_END : f->is_stream ? VALUE : NOTHING;
}

static int give_item(struct nc_json_filter *f) {
    const int r = f->give(f->userdata, f->item.data, f->item.len);

    f->item_depth = 0;
    f->out = &f->rest;
    return r < 0 ? nc_err_set(&f->failure, NC_ERR_PROTOCOL, r,
                              "JSON: byte %zu: an item was not taken: %s", f->at, strerror(-r))
                 : 0;
}

static int close_bracket(struct nc_json_filter *f, char c) {
    const struct bracket *b = top(f);
    int r = 0;

    if (!b || b->end != c)
        return fail(f, "a closing bracket that closes nothing");
    if (b->mode != SKIP && b->mode != ITEMS)
        r = put(f, &c, 1);
    if (r == 0 && f->item_depth == f->depth)
        r = give_item(f);
    f->depth--;
    after_value(f);
    return r;
}

/* A string, number or literal: thinned, there is nothing in it that a path could name. An empty
 * list's items may come as null. */
static int check_scalar(struct nc_json_filter *f, char c, enum mode mode) {
    if (c == '\0' || !strchr("\"-0123456789tfn", c))
        return fail(f, "a value was expected");
    if (begins_item(f))
        return fail(f, "an item that is no object");
    if (mode == TOP)
        return fail(f, "a list must be an object");
    if (mode == ITEMS && c != 'n')
        return fail(f, "items must be an array");
    return 0;
}

static void begin_scalar(struct nc_json_filter *f, char c) {
    if (c == '"') {
        nc_json_text_begin(&f->text, false);
        f->expect = IN_STRING;
    } else if (strchr("tfn", c)) {
        f->literal = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
        f->expect = IN_LITERAL;
    } else {
        f->number = c == '-' || c == '0' ? c : '1';
        f->expect = IN_NUMBER;
    }
}

static int begin_value(struct nc_json_filter *f, char c) {
    const struct nc_json_path *node;
    const enum mode mode = mode_of_value(f, &node);
    int r;

    if (c == '{' || c == '[')
        return open_bracket(f, c, mode, node);
    r = check_scalar(f, c, mode);
    f->is_kept = mode == WHOLE;
    if (r == 0 && f->is_kept)
        r = put_lead(f);
    if (r == 0 && f->is_kept)
        r = put(f, &c, 1);
    if (r == 0)
        begin_scalar(f, c);
    return r;
}

static int begin_key(struct nc_json_filter *f) {
    struct bracket *b = top(f);
    int r = 0;

    f->is_kept = b->mode == WHOLE || b->mode == TOP;
    f->key_start = f->rest.len;
    if (b->mode == TOP && b->has_output)
        r = put(f, ",", 1);
    nc_json_text_begin(&f->text, b->mode == THIN || b->mode == TOP);
    f->expect = IN_KEY;
    return r < 0 || !f->is_kept ? r : put(f, "\"", 1);
}

/* The key of a list's member was written as it came; that of the items is taken back. */
static int end_key_of_list(struct nc_json_filter *f, struct bracket *b) {
    const bool is_items =
        f->text.n == strlen("items") && memcmp(f->text.text, "items", f->text.n) == 0;

    f->coming = WHOLE;
    if (!is_items) {
        b->has_output = true;
        return 0;
    }
    if (f->has_items)
        return fail(f, "items twice");
    f->has_items = true;
    f->coming = ITEMS;
    f->rest.len = f->key_start;
    f->rest.data[f->rest.len] = '\0';
    return 0;
}

static int end_key(struct nc_json_filter *f) {
    struct bracket *b = top(f);

    f->expect = COLON;
    f->coming = b->mode;
    f->coming_node = NULL;
    if (b->mode == TOP)
        return end_key_of_list(f, b);
    if (b->mode == THIN) {
        f->coming_node =
            f->text.is_too_long ? NULL : nc_json_path_find(b->node, f->text.text, f->text.n);
        f->coming = !f->coming_node ? SKIP : f->coming_node->is_whole ? WHOLE : THIN;
    }
    return 0;
}

static int take_colon(struct nc_json_filter *f, char c) {
    const enum mode mode = top(f)->mode;

    if (c != ':')
        return fail(f, "a colon was expected");
    f->expect = VALUE;
    return mode == WHOLE || (mode == TOP && f->coming != ITEMS) ? put(f, &c, 1) : 0;
}

static int take_comma_or_end(struct nc_json_filter *f, char c) {
    const struct bracket *b = top(f);

    if (c == '}' || c == ']')
        return close_bracket(f, c);
    if (c != ',')
        return fail(f, "a comma or a closing bracket was expected");
    f->expect = b->end == '}' ? KEY : VALUE;
    return b->mode == WHOLE ? put(f, &c, 1) : 0;
}

static int take_structure(struct nc_json_filter *f, char c) {
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r')
        return 0;
    switch (f->expect) {
    case VALUE_OR_END:
        return c == ']' ? close_bracket(f, c) : begin_value(f, c);
    case VALUE:
        return begin_value(f, c);
    case KEY_OR_END:
        if (c == '}')
            return close_bracket(f, c);
        return c == '"' ? begin_key(f) : fail(f, "a key was expected");
    case KEY:
        return c == '"' ? begin_key(f) : fail(f, "a key was expected");
    case COLON:
        return take_colon(f, c);
    case COMMA_OR_END:
        return take_comma_or_end(f, c);
    case NOTHING:
    case IN_KEY:
    case IN_STRING:
    case IN_NUMBER:
    case IN_LITERAL:
        break;
    }
    return fail(f, "more text after the value");
}

/* How far in the string; *ret_used bytes were taken. */
static int take_text(struct nc_json_filter *f, const char *data, size_t n, size_t *ret_used) {
    const char *wrong = nc_json_text_scan(&f->text, data, n, ret_used);
    int r;

    if (wrong) {
        f->at += *ret_used;
        return fail(f, wrong);
    }
    r = f->is_kept ? put(f, data, *ret_used) : 0;
    if (r < 0 || !f->text.is_done)
        return r;
    if (f->expect == IN_KEY)
        return end_key(f);
    after_value(f);
    return 0;
}

/* Where in a number a byte leads: '-' sign, '0' or '1' an integer, '.' a point, 'f' behind it, 'e',
 * 's' its sign, 'x' the exponent. 0: nowhere. */
static char number_step(char state, char c) {
    const bool is_digit = c >= '0' && c <= '9';

    switch (state) {
    case '-':
        return is_digit ? c == '0' ? '0' : '1' : 0;
    case '0':
    case '1':
        if (is_digit)
            return state == '1' ? '1' : 0;
        return c == '.' ? '.' : c == 'e' || c == 'E' ? 'e' : 0;
    case '.':
    case 'f':
        if (is_digit)
            return 'f';
        return state == 'f' && (c == 'e' || c == 'E') ? 'e' : 0;
    case 'e':
        return is_digit ? 'x' : c == '+' || c == '-' ? 's' : 0;
    default:
        return is_digit ? 'x' : 0;
    }
}

static int take_number(struct nc_json_filter *f, const char *data, size_t n, size_t *ret_used) {
    size_t i = 0;
    int r;

    while (i < n && data[i] && strchr("0123456789+-.eE", data[i])) {
        f->number = number_step(f->number, data[i]);
        if (!f->number) {
            f->at += i;
            return fail(f, "invalid number");
        }
        i++;
    }
    *ret_used = i;
    r = f->is_kept && i > 0 ? put(f, data, i) : 0;
    if (r < 0 || i == n)
        return r;
    if (!strchr("01fx", f->number))
        return fail(f, "invalid number");
    after_value(f);
    return 0;
}

static int take_literal(struct nc_json_filter *f, char c) {
    if (c != *f->literal)
        return fail(f, "a value was expected");
    f->literal++;
    if (!*f->literal)
        after_value(f);
    return f->is_kept ? put(f, &c, 1) : 0;
}

/* A token, or a piece of one. */
static int take(struct nc_json_filter *f, const char *data, size_t n, size_t *ret_used) {
    *ret_used = 1;
    switch (f->expect) {
    case IN_KEY:
    case IN_STRING:
        return take_text(f, data, n, ret_used);
    case IN_NUMBER:
        return take_number(f, data, n, ret_used);
    case IN_LITERAL:
        return take_literal(f, *data);
    case VALUE:
    case VALUE_OR_END:
    case KEY:
    case KEY_OR_END:
    case COLON:
    case COMMA_OR_END:
    case NOTHING:
        break;
    }
    return take_structure(f, *data);
}

static int fail_again(const struct nc_json_filter *f, struct nc_err *err) {
    if (err)
        *err = f->failure;
    return f->failure.code < 0 ? f->failure.code : -EPROTO;
}

int nc_json_filter_add(struct nc_json_filter *f, const char *data, size_t n, struct nc_err *err) {
    for (size_t i = 0, used; i < n && f->failure.class == NC_ERR_NONE; i += used)
        if (take(f, data + i, n - i, &used) == 0)
            f->at += used;
    return f->failure.class == NC_ERR_NONE ? 0 : fail_again(f, err);
}

int nc_json_filter_end(struct nc_json_filter *f, const char **ret_rest, size_t *ret_n,
                       struct nc_err *err) {
    const bool is_complete = f->is_stream ? f->depth == 0 : f->expect == NOTHING;

    if (f->failure.class == NC_ERR_NONE && !is_complete)
        fail(f, "the text ends too early");
    if (f->failure.class != NC_ERR_NONE)
        return fail_again(f, err);
    if (ret_rest)
        *ret_rest = f->rest.data ? f->rest.data : "";
    if (ret_n)
        *ret_n = f->rest.len;
    return 0;
}

static int new_filter(const struct nc_json_filter_options *o, bool is_stream,
                      struct nc_json_filter **ret, struct nc_err *err) {
    struct nc_json_filter *f;

    if (!o->item || o->max_item_bytes == 0)
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "JSON: a filter needs a taker and a cap");
    f = nc_calloc(1, sizeof(*f));
    f->paths = nc_json_paths_new(o->keep);
    f->give = o->item;
    f->userdata = o->userdata;
    f->is_stream = is_stream;
    f->item.max = o->max_item_bytes;
    f->rest.max = REST_MAX_BYTES;
    f->out = &f->rest;
    *ret = f;
    return 0;
}

int nc_json_filter_new(const struct nc_json_filter_options *o, struct nc_json_filter **ret,
                       struct nc_err *err) {
    return new_filter(o, false, ret, err);
}

int nc_json_filter_new_stream(const struct nc_json_filter_options *o, struct nc_json_filter **ret,
                              struct nc_err *err) {
    return new_filter(o, true, ret, err);
}

struct nc_json_filter *nc_json_filter_free(struct nc_json_filter *f) {
    if (!f)
        return NULL;
    nc_json_paths_free(f->paths);
    nc_buf_done(&f->item);
    nc_buf_done(&f->rest);
    free(f);
    return NULL;
}
