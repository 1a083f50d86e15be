/*
 * YAML in, over libyaml's events.
 *
 * The only file that includes yaml.h. A document here is data: tags, keys that are no text and
 * duplicate keys are refused, each with its line and column. Depth and count are capped while
 * reading, not after. A merge key (<<) is a member without a key until its map is complete.
 */
#include "nc/value.h"

#include <errno.h>
#include <stdbool.h>

#include <yaml.h>

#include "nc/str.h"
#include "text-priv.h"

struct reader {
    yaml_parser_t parser;
    struct nc_text text; /* without a byte order mark */
    size_t at, at_index; /* a character of it: its byte, and which one it is */
    unsigned source;
    size_t nodes;
    struct nc_value *open[NC_VALUE_MAX_DEPTH]; /* containers around the place being read, outermost
                                                  first; borrowed */
    size_t depth;
    struct nc_value *root;          /* of the document being read */
    bool root_is_empty;             /* nothing was written: the document is left out */
    struct nc_yaml_anchors anchors; /* of the document being read */
    struct nc_values documents;
    struct nc_err *err;
};

#define NOT_TEXT "this key is not text, put it in quotes"

static struct nc_mark mark_of(const struct reader *r, const yaml_mark_t *m) {
    return (struct nc_mark){.source = r->source,
                            .line = (unsigned)m->line + (r->text.line > 0 ? r->text.line : 1),
                            .column = (unsigned)m->column + 1 + r->text.indent};
}

static int fail(struct reader *r, struct nc_mark mark, const char *what) {
    return nc_err_config(r->err, "line %u, column %u: %s", mark.line, mark.column, what);
}

/* Does nothing but blanks stand before the place, in its line? */
static bool begins_line(const struct reader *r, const yaml_mark_t *m) {
    const char *line = r->text.data, *end = line + r->text.n;

    for (size_t i = 0; i < m->line; i++) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        if (!newline) /* a line that ends otherwise */
            return false;
        line = newline + 1;
    }
    for (size_t i = 0; i < m->column; i++)
        if (line + i >= end || !strchr(" -", line[i]))
            return false;
    return true;
}

#define EXPECTED "did not find expected "

/* libyaml's words that say nothing of what to mend. */
static const char *in_words(const struct reader *r) {
    const yaml_parser_t *p = &r->parser;
    const char *problem = p->problem ? p->problem : "not YAML";
    const bool is_block = p->context && strstr(p->context, "block");
    const bool is_missing = nc_starts_with(problem, EXPECTED);
    const char *missing = is_missing ? problem + strlen(EXPECTED) : "";

    if (p->error == YAML_SCANNER_ERROR
        && (strstr(problem, " tab ") || strstr(problem, "cannot start any token")))
        return *p->buffer.pointer == '\t' ? "a tab, where YAML is indented with spaces only"
                                          : "a value cannot begin with this character, put it in "
                                            "quotes";
    if (nc_starts_with(problem, "mapping values"))
        return "this ':' makes a key where none can stand: indent the line as the one before, put "
               "a space after that one's colon, or put a value that holds ': ' in quotes";
    if (nc_streq(missing, "<document start>"))
        return "this stands behind a document that is complete: a --- is missing, or this is TOML, "
               "not YAML";
    if (nc_streq(missing, "node content"))
        return "a value is missing here: is this comma or bracket one too many?";
    if (is_block && is_missing)
        return begins_line(r, &p->problem_mark)
                   ? "the indentation of this line does not fit"
                   : "this stands behind a value that is complete: put all of it in quotes";
    return problem;
}

/* Where the block, the list or the quoted text began that libyaml could not finish. */
static int fail_parser(struct reader *r) {
    const yaml_parser_t *p = &r->parser;
    const char *problem = in_words(r);
    nc_auto_free char *all = NULL;

    if (p->error != YAML_READER_ERROR) {
        const struct nc_mark mark = mark_of(r, &p->problem_mark),
                             began = mark_of(r, &p->context_mark);

        if (nc_streq(p->context, "while scanning a quoted scalar")
            && nc_streq(problem, "found unexpected end of stream"))
            return fail(r, began, "this quote is not closed");
        if (p->context && (began.line != mark.line || began.column != mark.column))
            all = nc_asprintf("%s (%s that begins at line %u, column %u)", problem, p->context,
                              began.line, began.column);
        return fail(r, mark, all ? all : problem);
    }
    const struct nc_mark mark = mark_of(r, &p->mark);
    return nc_err_config(r->err, "line %u, column %u: %s (byte %zu)%s", mark.line, mark.column,
                         problem, p->problem_offset,
                         strstr(problem, "UTF-8") ? ": save the text as UTF-8" : "");
}

static struct nc_value *innermost(struct reader *r) {
    return r->depth ? r->open[r->depth - 1] : NULL;
}

/* In a map whose last member has its key but not yet its value. */
static bool wants_value(const struct nc_value *map) {
    return map->n && !map->members[map->n - 1].value;
}

/* Hangs v (consumed) where the stream stands. */
static void place(struct reader *r, struct nc_value *v) {
    struct nc_value *parent = innermost(r);

    if (!parent)
        r->root = v;
    else if (parent->type == NC_VALUE_LIST)
        nc_value_push(parent, v);
    else
        parent->members[parent->n - 1].value = v;
}

/* The map that waits for a key, or NULL. */
static struct nc_value *key_place(struct reader *r) {
    struct nc_value *parent = innermost(r);

    return parent && parent->type == NC_VALUE_MAP && !wants_value(parent) ? parent : NULL;
}

/* Has the merge key that was read last no value yet? */
static bool wants_merged(struct reader *r) {
    const struct nc_value *parent = innermost(r);

    return parent && parent->type == NC_VALUE_MAP && wants_value(parent)
           && !parent->members[parent->n - 1].key;
}

static int read_key(struct reader *r, struct nc_value *map, struct nc_value *key, bool plain) {
    const bool is_merge = plain && nc_streq(key->text, "<<");

    if (key->type != NC_VALUE_STRING)
        return fail(r, key->mark, NOT_TEXT);
    struct nc_member *m = nc_append(&map->members, &map->n);
    m->key = is_merge ? NULL : nc_steal(&key->text);
    m->mark = key->mark;
    return 0;
}

/* The value that was begun, or read, may have an anchor. */
static int set_anchor(struct reader *r, const struct nc_value *v, const yaml_char_t *anchor,
                      bool is_open) {
    const char *wrong =
        anchor ? nc_yaml_anchor_set(&r->anchors, (const char *)anchor, v, is_open, &r->nodes)
               : NULL;

    return wrong ? fail(r, v->mark, wrong) : 0;
}

static int check_node(struct reader *r, struct nc_mark mark, const yaml_char_t *tag) {
    if (tag)
        return fail(r, mark, "tags are not supported, remove it (quotes make text)");
    if (++r->nodes > NC_VALUE_MAX_NODES)
        return fail(r, mark, "too many values");
    return 0;
}

/* Of a literal block: what the first line that is not empty has before the text. The parser counts
 * characters, and its events come in order. */
static unsigned indent_of(struct reader *r, const yaml_event_t *e) {
    const char *text = (const char *)e->data.scalar.value;
    const char *at, *end = r->text.data + r->text.n;

    if (e->data.scalar.style != YAML_LITERAL_SCALAR_STYLE)
        return 0;
    for (; r->at < r->text.n && r->at_index <= e->start_mark.index; r->at++)
        r->at_index += (r->text.data[r->at] & 0xC0) != 0x80;
    at = memchr(r->text.data + r->at, '\n', r->text.n - r->at);
    while (at && end - at > 1 && at[1] == '\n')
        at++;
    while (*text == '\n')
        text++;
    size_t all = 0;
    while (at && end - at - 1 > (ptrdiff_t)all && at[1 + all] == ' ')
        all++;
    const size_t own = strspn(text, " ");
    return all > own ? (unsigned)(all - own) + r->text.indent : 0;
}

static int read_scalar(struct reader *r, const yaml_event_t *e) {
    const char *text = (const char *)e->data.scalar.value;
    const bool plain = e->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    nc_auto_value struct nc_value *v = nc_value_new(NC_VALUE_STRING);

    v->mark = mark_of(r, &e->start_mark);
    int bad = check_node(r, v->mark, e->data.scalar.tag);
    if (bad)
        return bad;
    if (strlen(text) != e->data.scalar.length)
        return fail(r, v->mark, "a NUL character in text");
    v->mark.indent = indent_of(r, e);
    if (!plain)
        v->text = nc_strdup(text);
    else if (!nc_yaml_resolve_plain(v, text))
        return fail(r, v->mark, "infinity and NaN are not supported");
    bad = set_anchor(r, v, e->data.scalar.anchor, false);
    if (bad)
        return bad;
    struct nc_value *map = key_place(r);
    if (map)
        return read_key(r, map, v, plain);
    if (!innermost(r))
        r->root_is_empty = plain && !*text;
    place(r, nc_steal(&v));
    return 0;
}

static int open_container(struct reader *r, const yaml_event_t *e) {
    const bool map = e->type == YAML_MAPPING_START_EVENT;
    const struct nc_mark mark = mark_of(r, &e->start_mark);
    const int bad =
        check_node(r, mark, map ? e->data.mapping_start.tag : e->data.sequence_start.tag);

    if (bad)
        return bad;
    const struct nc_value *parent = key_place(r);
    if (parent)
        return fail(r, mark,
                    parent->mark.line == mark.line && parent->mark.column + 1 == mark.column
                        ? "this looks like a template: check what it renders to"
                        : NOT_TEXT);
    if (r->depth == NC_VALUE_MAX_DEPTH)
        return fail(r, mark, "nested too deep");
    struct nc_value *v = nc_value_new(map ? NC_VALUE_MAP : NC_VALUE_LIST);
    v->mark = mark;
    place(r, v);
    r->open[r->depth++] = v;
    return set_anchor(r, v, map ? e->data.mapping_start.anchor : e->data.sequence_start.anchor,
                      true);
}

static int fail_named(struct reader *r, struct nc_mark mark, const char *kind, const char *name,
                      const char *what) {
    nc_auto_free char *quoted = nc_quote_string(name);
    nc_auto_free char *all = nc_asprintf("%s %s %s", kind, quoted, what);

    return fail(r, mark, all);
}

static int fail_merge(struct reader *r, struct nc_mark mark) {
    return fail(r, mark, "expected a map or a list of maps behind <<");
}

static int close_container(struct reader *r) {
    struct nc_value *v = r->open[--r->depth];
    const struct nc_member *duplicate = v->type == NC_VALUE_MAP ? nc_duplicate_key(v) : NULL;

    if (duplicate) {
        const struct nc_member *first = v->members;
        while (!nc_streq(first->key, duplicate->key))
            first++;
        nc_auto_free char *what =
            nc_asprintf("stands here a second time, first in line %u", first->mark.line);
        return fail_named(r, duplicate->mark, "key", duplicate->key, what);
    }
    const struct nc_value *not_mergeable = v->type == NC_VALUE_MAP ? nc_yaml_merge(v) : NULL;
    if (not_mergeable)
        return fail_merge(r, not_mergeable->mark);
    const char *wrong = nc_yaml_anchor_close(&r->anchors, v, &r->nodes);
    return wrong ? fail(r, v->mark, wrong) : 0;
}

/* A copy of what the anchor names, as a value or a key. */
static int read_alias(struct reader *r, const yaml_event_t *e) {
    const char *name = (const char *)e->data.alias.anchor;
    const struct nc_mark mark = mark_of(r, &e->start_mark);
    const struct nc_yaml_anchor *anchor = nc_yaml_anchor_find(&r->anchors, name);
    nc_auto_value struct nc_value *v = NULL;

    if (!anchor)
        return fail(r, mark, "no anchor before this alias");
    if (anchor->open)
        return fail_named(r, mark, "anchor", name, "names a value that would hold itself");
    if (wants_merged(r) && anchor->value->type != NC_VALUE_MAP)
        return fail_merge(r, mark);
    const char *wrong = nc_yaml_copy(&r->anchors, anchor->value, r->depth, &r->nodes, &v);
    if (wrong)
        return fail(r, mark, wrong);
    v->mark = mark;
    struct nc_value *map = key_place(r);
    if (map)
        return read_key(r, map, v, false);
    place(r, nc_steal(&v));
    return 0;
}

static int read_event(struct reader *r, const yaml_event_t *e) {
    switch (e->type) {
    case YAML_ALIAS_EVENT:
        return read_alias(r, e);
    case YAML_SCALAR_EVENT:
        return read_scalar(r, e);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        return open_container(r, e);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        return close_container(r);
    case YAML_DOCUMENT_END_EVENT:
        if (r->root && !r->root_is_empty)
            *nc_append(&r->documents.v, &r->documents.n) = nc_steal(&r->root);
        r->root = nc_value_free(r->root);
        r->root_is_empty = false;
        nc_yaml_anchors_done(&r->anchors);
        return 0;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_START_EVENT:
        return 0;
    }
    return 0;
}

static int read_stream(struct reader *r) {
    for (bool more = true; more;) {
        yaml_event_t e;
        if (!yaml_parser_parse(&r->parser, &e))
            return fail_parser(r);
        more = e.type != YAML_STREAM_END_EVENT;
        const int bad = read_event(r, &e);
        yaml_event_delete(&e);
        if (bad)
            return bad;
    }
    return 0;
}

int nc_yaml_parse(struct nc_text text, unsigned source, struct nc_values *ret, struct nc_err *err) {
    /* libyaml would count a byte order mark as a column: the line behind it, and no other, would be
     * indented by one. */
    struct reader r = {.text = nc_skip_mark(text), .source = source, .err = err};

    if (!yaml_parser_initialize(&r.parser))
        return nc_err_set(err, NC_ERR_HOST, ENOMEM, "YAML: out of memory");
    yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&r.parser, (const unsigned char *)(r.text.n ? r.text.data : ""),
                                 r.text.n);
    const int bad = read_stream(&r);
    yaml_parser_delete(&r.parser);
    nc_yaml_anchors_done(&r.anchors);
    if (bad) {
        nc_value_free(r.root);
        nc_values_done(&r.documents);
        return bad;
    }
    *ret = r.documents;
    return 0;
}
