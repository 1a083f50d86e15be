/*
 * JSON thinned out while it streams in, and JSON checked before cJSON reads it: a machine that
 * takes one byte after the other, and keeps what the paths name; of a text that is only checked,
 * nothing.
 *
 * Its memory is a stack of at most NC_VALUE_MAX_DEPTH open brackets, one key, and what is kept of
 * the item that is being read. A bracket's mode states what becomes of what is inside it: passed
 * over, kept complete, or thinned by a set of paths. The key of a member that is thinned is written
 * only once its value turns out to be an object or an array.
 */
#include "nc/json-filter.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "json-priv.h"
#include "nc/str.h"
#include "nc/value.h"

#define REST_MAX_BYTES ((size_t)64 << 10)
#define KEY_MAX_BYTES 320 /* no path has a longer one */
#define NUMBER_MAX_LENGTH 48

/* What becomes of a value. */
enum mode {
    SKIP = 0,
    COMPLETE, /* every byte that is no space is kept */
    THIN,     /* of objects the members that the paths name, of arrays each element likewise */
    TOP,      /* a list: everything is kept but the items */
    ITEMS,    /* each element is an item */
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
    IN_VALUE, /* a string, number or literal */
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
    const char *checked; /* all of a text that is only checked */
    size_t values, max_values;

    enum expect expect;
    struct bracket open[NC_VALUE_MAX_DEPTH];
    size_t depth;
    enum mode coming; /* of the member whose key was read */
    const struct nc_json_path *coming_node;
    struct nc_json_token token;
    struct nc_buf key; /* the last one that was compared, decoded */
    bool is_kept;      /* the token that is being read is */
    size_t max_value_bytes;
    size_t value_start, value_depth;   /* in item, of the value that is evaluated */
    bool is_size_checked, is_left_out; /* such a value is being read; it was too large */

    struct nc_buf item, rest;
    struct nc_buf *out;
    size_t item_depth; /* the depth inside of the item's object; 0 = between items */
    size_t key_start;  /* in rest */
    bool has_items;
    size_t at;         /* bytes read, for messages */
    size_t started_at; /* of the token that is being read */
    struct nc_err failure;
};

static int fail(struct nc_json_filter *f, const char *what) {
    return nc_err_set(&f->failure, NC_ERR_PROTOCOL, EPROTO, "JSON: byte %zu: %s", f->at, what);
}

/* What is wrong with a token as a whole is reported of its first byte, however it came. */
static int fail_token(struct nc_json_filter *f, const char *what) {
    f->at = f->started_at;
    return fail(f, what);
}

static int write_out(struct nc_json_filter *f, const char *data, size_t n) {
    if (f->is_left_out)
        return 0;
    if (f->is_size_checked && f->item.len - f->value_start + n > f->max_value_bytes) {
        f->is_left_out = true;
        f->item.len = f->value_start;
        data = "null";
        n = strlen(data);
    }
    if (nc_buf_add(f->out, data, n) == 0)
        return 0;
    return fail_token(f, f->out == &f->rest ? "the list is too large without its items"
                                            : "what is kept of an item is too large");
}

static struct bracket *top(struct nc_json_filter *f) {
    return f->depth > 0 ? &f->open[f->depth - 1] : NULL;
}

/* Keys, colons and commas come only inside of one. */
static struct bracket *inner(struct nc_json_filter *f) {
    return &f->open[f->depth - 1];
}

/* What becomes of the value that begins now. */
static enum mode mode_of_value(struct nc_json_filter *f, const struct nc_json_path **ret_node) {
    const struct bracket *b = top(f);

    *ret_node = f->paths;
    if (f->checked)
        return SKIP;
    if (!b)
        return !f->is_stream ? TOP : f->paths->is_complete ? COMPLETE : THIN;
    if (b->mode == ITEMS)
        return f->paths->is_complete ? COMPLETE : THIN;
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
static int write_lead(struct nc_json_filter *f) {
    struct bracket *b = top(f);
    int r = 0;

    if (!b || b->mode != THIN)
        return 0;
    if (b->has_output)
        r = write_out(f, ",", 1);
    b->has_output = true;
    if (r == 0 && b->end == '}')
        r = write_out(f, f->coming_node->literal, f->coming_node->literal_n);
    return r;
}

/* What a path names, or an array on the way to it: others may make each as large as they like. */
static void check_size(struct nc_json_filter *f, char c, enum mode mode) {
    if (f->max_value_bytes == 0 || f->is_size_checked || f->depth == 0 || top(f)->mode != THIN
        || (mode != COMPLETE && c != '['))
        return;
    f->is_size_checked = true;
    f->value_start = f->item.len;
    f->value_depth = f->depth;
}

/* Every value but a container's first has a comma before it, every container counts itself. */
static int count_value(struct nc_json_filter *f) {
    return f->checked && ++f->values > f->max_values ? fail(f, "too many values") : 0;
}

static int push(struct nc_json_filter *f, char c, enum mode mode, const struct nc_json_path *node) {
    if (f->depth == NC_VALUE_MAX_DEPTH)
        return fail(f, "nested too deep");
    f->open[f->depth++] = (struct bracket){.end = c == '{' ? '}' : ']', .mode = mode, .node = node};
    f->expect = c == '{' ? KEY_OR_END : VALUE_OR_END;
    return count_value(f);
}

static int begin_item(struct nc_json_filter *f, char c) {
    if (c != '{')
        return fail(f, "invalid item: not an object");
    nc_buf_clear(&f->item);
    f->out = &f->item;
    f->item_depth = f->depth + 1;
    return 0;
}

static int open_bracket(struct nc_json_filter *f, char c, enum mode mode,
                        const struct nc_json_path *node) {
    int r = 0;

    if (mode == SKIP)
        return push(f, c, SKIP, NULL);
    if (begins_item(f))
        r = begin_item(f, c);
    else if (mode == TOP && c != '{')
        r = fail(f, "a list must be an object");
    else if (mode == ITEMS && c != '[')
        r = fail(f, "items must be an array");
    if (r == 0 && (mode == COMPLETE || mode == THIN)) {
        r = write_lead(f);
        check_size(f, c, mode);
    }
    if (r == 0 && mode != ITEMS)
        r = write_out(f, &c, 1);
    return r < 0 ? r : push(f, c, mode, node);
}

static void after_value(struct nc_json_filter *f) {
    if (f->is_size_checked && f->depth == f->value_depth)
        f->is_size_checked = f->is_left_out = false;
    f->expect = f->depth > 0 ? COMMA_OR_END : f->is_stream ? VALUE : NOTHING;
}

static int give_item(struct nc_json_filter *f) {
    int r;

    nc_json_mend(&f->item);
    r = f->give(f->userdata, f->item.data, f->item.len);
    f->item_depth = 0;
    f->out = &f->rest;
    return r < 0 ? nc_err_set(&f->failure, NC_ERR_PROTOCOL, r,
                              "JSON: byte %zu: an item was refused: %s", f->at, strerror(-r))
                 : 0;
}

static int close_bracket(struct nc_json_filter *f, char c) {
    const struct bracket *b = inner(f);
    int r = 0;

    if (b->mode != ITEMS && b->mode != SKIP)
        r = write_out(f, &c, 1);
    if (r == 0 && f->item_depth == f->depth)
        r = give_item(f);
    f->depth--;
    after_value(f);
    return r;
}

/* A string, number or literal: thinned, there is nothing in it that a path could name. An empty
 * list's items may come as null. */
static int check_scalar(struct nc_json_filter *f, char c, enum mode mode) {
    if (!nc_json_token_begin(&f->token, c, NULL))
        return fail(f, "a value was expected");
    if (begins_item(f))
        return fail(f, "invalid item: not an object");
    if (mode == TOP)
        return fail(f, "a list must be an object");
    if (mode == ITEMS && c != 'n')
        return fail(f, "items must be an array");
    return 0;
}

static int begin_value(struct nc_json_filter *f, char c) {
    const struct nc_json_path *node;
    const enum mode mode = mode_of_value(f, &node);
    int r;

    if (c == '{' || c == '[')
        return open_bracket(f, c, mode, node);
    r = check_scalar(f, c, mode);
    f->is_kept = mode == COMPLETE;
    f->expect = IN_VALUE;
    if (r == 0 && f->is_kept) {
        r = write_lead(f);
        check_size(f, c, mode);
    }
    return r == 0 && f->is_kept ? write_out(f, &c, 1) : r;
}

static int begin_key(struct nc_json_filter *f) {
    struct bracket *b = inner(f);
    int r = 0;

    f->is_kept = b->mode == COMPLETE || b->mode == TOP;
    f->key_start = f->rest.len;
    if (b->mode == TOP && b->has_output)
        r = write_out(f, ",", 1);
    (void)nc_json_token_begin(&f->token, '"', b->mode == THIN || b->mode == TOP ? &f->key : NULL);
    f->expect = IN_KEY;
    return r < 0 || !f->is_kept ? r : write_out(f, "\"", 1);
}

/* The key of a list's member was written as it came; that of the items is taken back. */
static int end_key_of_list(struct nc_json_filter *f, struct bracket *b) {
    const bool is_items = !f->token.is_too_long && nc_streq(f->key.data, "items");

    f->coming = COMPLETE;
    if (!is_items) {
        b->has_output = true;
        return 0;
    }
    if (f->has_items)
        return fail_token(f, "items twice");
    f->has_items = true;
    f->coming = ITEMS;
    f->rest.len = f->key_start;
    f->rest.data[f->rest.len] = '\0';
    return 0;
}

static int end_key(struct nc_json_filter *f) {
    struct bracket *b = inner(f);

    f->expect = COLON;
    f->coming = b->mode;
    f->coming_node = NULL;
    if (b->mode == TOP)
        return end_key_of_list(f, b);
    if (b->mode == THIN) {
        f->coming_node =
            f->token.is_too_long ? NULL : nc_json_path_find(b->node, f->key.data, f->key.len);
        f->coming = !f->coming_node ? SKIP : f->coming_node->is_complete ? COMPLETE : THIN;
    }
    return 0;
}

static int expect_colon(struct nc_json_filter *f, char c) {
    const enum mode mode = inner(f)->mode;

    if (c != ':')
        return fail(f, "a colon was expected");
    f->expect = VALUE;
    return mode == COMPLETE || (mode == TOP && f->coming != ITEMS) ? write_out(f, &c, 1) : 0;
}

static int expect_comma_or_end(struct nc_json_filter *f, char c) {
    const struct bracket *b = inner(f);

    if (c == b->end)
        return close_bracket(f, c);
    if (c != ',')
        return fail(f, "a comma or a closing bracket was expected");
    f->expect = b->end == '}' ? KEY : VALUE;
    return b->mode == COMPLETE ? write_out(f, &c, 1) : count_value(f);
}

static int read_structure(struct nc_json_filter *f, char c) {
    if (nc_json_is_space(c))
        return 0;
    f->started_at = f->at;
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
        return expect_colon(f, c);
    case COMMA_OR_END:
        return expect_comma_or_end(f, c);
    case NOTHING:
    case IN_KEY:
    case IN_VALUE:
        break;
    }
    return fail(f, "more text after the value");
}

/* What another reader would take for something else: of a text that is only checked. */
static int check_token(struct nc_json_filter *f, size_t end) {
    const size_t n = end - f->started_at;
    char text[NUMBER_MAX_LENGTH + 1] = "";
    const char *digits = text;

    if (f->token.has_nul)
        return fail_token(f, "\\u0000 in a string");
    if (f->token.kind != NC_TOKEN_NUMBER)
        return 0;
    if (n > NUMBER_MAX_LENGTH)
        return fail_token(f, "number is too long");
    memcpy(text, f->checked + f->started_at, n);
    digits += *text == '-';
    if (digits[strspn(digits, "0123456789")] == '\0'
        && nc_json_is_too_large(digits, strlen(digits)))
        return fail_token(f, "integer beyond 2^53");
    return isfinite(strtod(text, NULL)) ? 0 : fail_token(f, "number out of range");
}

/* A piece of a string, number or literal. */
static int consume_token(struct nc_json_filter *f, const char *data, size_t n, size_t *ret_used) {
    const char *wrong = nc_json_token_scan(&f->token, data, n, ret_used);
    int r;

    if (wrong) {
        f->at += *ret_used;
        return f->checked && f->token.kind != NC_TOKEN_STRING ? fail_token(f, wrong)
                                                              : fail(f, wrong);
    }
    r = f->is_kept ? write_out(f, data, *ret_used) : 0;
    if (r == 0 && f->token.is_done && f->checked)
        r = check_token(f, f->at + *ret_used);
    if (r < 0 || !f->token.is_done)
        return r;
    if (f->expect == IN_KEY)
        return end_key(f);
    after_value(f);
    return 0;
}

/* All of something, or a piece of it. */
static int consume(struct nc_json_filter *f, const char *data, size_t n, size_t *ret_used) {
    *ret_used = 1;
    if (f->expect == IN_KEY || f->expect == IN_VALUE)
        return consume_token(f, data, n, ret_used);
    return read_structure(f, *data);
}

static int fail_again(const struct nc_json_filter *f, struct nc_err *err) {
    if (err)
        *err = f->failure;
    return f->failure.code < 0 ? f->failure.code : -EPROTO;
}

int nc_json_filter_add(struct nc_json_filter *f, const char *data, size_t n, struct nc_err *err) {
    for (size_t i = 0, used; i < n && f->failure.class == NC_ERR_NONE; i += used)
        if (consume(f, data + i, n - i, &used) == 0)
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
    nc_json_mend(&f->rest);
    if (ret_rest)
        *ret_rest = f->rest.data ? f->rest.data : "";
    if (ret_n)
        *ret_n = f->rest.len;
    return 0;
}

int nc_json_check(const char *data, size_t n, size_t max_values, struct nc_err *err) {
    struct nc_json_filter f = {.checked = data, .max_values = max_values};

    if (n == 0)
        (void)fail(&f, "empty, where JSON was expected");
    else if (nc_json_filter_add(&f, data, n, NULL) == 0 && f.token.kind == NC_TOKEN_STRING
             && (f.expect == IN_KEY || f.expect == IN_VALUE))
        (void)fail_token(&f, "string without an end");
    else if (f.expect == IN_VALUE) /* a number ends only at the byte behind it */
        (void)nc_json_filter_add(&f, " ", 1, NULL);
    f.at = n;
    return nc_json_filter_end(&f, NULL, NULL, err);
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
    f->max_value_bytes = o->max_value_bytes;
    f->rest.max = REST_MAX_BYTES;
    f->key.max = KEY_MAX_BYTES;
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
    nc_buf_done(&f->key);
    nc_buf_done(&f->item);
    nc_buf_done(&f->rest);
    free(f);
    return NULL;
}
