/*
 * The pull reader of EC2's answers: one pass, no tree, no entity but the predefined ones.
 *
 * Depth, names and text are capped before they are kept; a document must close what it opens and
 * end after its root.
 */
#include "xml.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "nc/str.h"

void nc_xml_init(struct nc_xml *x, const char *data, size_t n) {
    *x = (struct nc_xml){.data = data, .at = data, .end = data + n};
    x->path.max = NC_XML_MAX_DEPTH * (NC_XML_MAX_NAME + 1);
    x->text.max = NC_XML_MAX_TEXT;
}

void nc_xml_done(struct nc_xml *x) {
    nc_buf_done(&x->path);
    nc_buf_done(&x->text);
}

static int fail(const struct nc_xml *x, const char *what, struct nc_err *err) {
    return nc_err_set(err, NC_ERR_PROTOCOL, EBADMSG, "XML: byte %zu: %s", (size_t)(x->at - x->data),
                      what);
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static bool is_name_char(char c, bool first) {
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_')
        return true;
    return !first && ((c >= '0' && c <= '9') || c == '-' || c == '.' || c == ':');
}

static bool looking_at(const struct nc_xml *x, const char *s) {
    const size_t n = strlen(s);

    return (size_t)(x->end - x->at) >= n && memcmp(x->at, s, n) == 0;
}

static void skip_space(struct nc_xml *x) {
    while (x->at < x->end && is_space(*x->at))
        x->at++;
}

/* Moves behind the next `s`; false where there is none. */
static bool skip_past(struct nc_xml *x, const char *s) {
    const char *found = memmem(x->at, (size_t)(x->end - x->at), s, strlen(s));

    if (!found)
        return false;
    x->at = found + strlen(s);
    return true;
}

static size_t name_length(const struct nc_xml *x) {
    size_t n = 0;

    while (x->at + n < x->end && n <= NC_XML_MAX_NAME && is_name_char(x->at[n], n == 0))
        n++;
    return n <= NC_XML_MAX_NAME ? n : 0;
}

static int add_utf8(struct nc_buf *b, uint32_t c) {
    char s[4];
    size_t n = 0;

    if (c < 0x80) {
        s[n++] = (char)c;
    } else if (c < 0x800) {
        s[n++] = (char)(0xc0 | c >> 6);
        s[n++] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        s[n++] = (char)(0xe0 | c >> 12);
        s[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        s[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        s[n++] = (char)(0xf0 | c >> 18);
        s[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        s[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        s[n++] = (char)(0x80 | (c & 0x3f));
    }
    return nc_buf_add(b, s, n);
}

static int digit_of(char c, unsigned base) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (base == 16 && c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (base == 16 && c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* "#65" or "#x41", without the & and the ; around it. */
static bool numeric_reference(const char *s, size_t n, uint32_t *ret) {
    const unsigned base = n > 1 && s[1] == 'x' ? 16 : 10;
    size_t k = base == 16 ? 2 : 1;
    uint32_t c = 0;

    if (k >= n || n > 9)
        return false;
    for (; k < n; k++) {
        const int d = digit_of(s[k], base);
        if (d < 0)
            return false;
        c = c * base + (uint32_t)d;
    }
    *ret = c;
    return c <= 0x10ffff && (c < 0xd800 || c > 0xdfff)
           && (c >= 0x20 || c == '\t' || c == '\n' || c == '\r');
}

static int take_reference(struct nc_xml *x, struct nc_err *err) {
    static const struct {
        const char *name;
        char c;
    } named[] = {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    const char *s = x->at + 1;
    const size_t most = (size_t)(x->end - s) < 10 ? (size_t)(x->end - s) : 10;
    const char *semicolon = memchr(s, ';', most);
    uint32_t c = 0;

    if (x->depth == 0)
        return fail(x, "text outside of the root element", err);
    if (!semicolon)
        return fail(x, "an & without a reference", err);
    const size_t n = (size_t)(semicolon - s);
    for (size_t k = 0; k < NC_ARRAY_SIZE(named) && !c; k++)
        if (n == strlen(named[k].name) && memcmp(s, named[k].name, n) == 0)
            c = (unsigned char)named[k].c;
    if (!c && !(n > 0 && *s == '#' && numeric_reference(s, n, &c)))
        return fail(x, "an unknown reference", err);
    if (add_utf8(&x->text, c) < 0)
        return fail(x, "too much text in one element", err);
    x->at = semicolon + 1;
    return 0;
}

static int take_text(struct nc_xml *x, struct nc_err *err) {
    while (x->at < x->end && *x->at != '<') {
        const char *start = x->at;
        if (*x->at == '&') {
            const int r = take_reference(x, err);
            if (r < 0)
                return r;
            continue;
        }
        while (x->at < x->end && *x->at != '<' && *x->at != '&')
            x->at++;
        if (!nc_is_text(start, (size_t)(x->at - start)))
            return fail(x, "text that is no UTF-8", err);
        if (x->depth > 0 && nc_buf_add(&x->text, start, (size_t)(x->at - start)) < 0)
            return fail(x, "too much text in one element", err);
        for (const char *p = start; x->depth == 0 && p < x->at; p++)
            if (!is_space(*p))
                return fail(x, "text outside of the root element", err);
    }
    return 0;
}

static int take_cdata(struct nc_xml *x, struct nc_err *err) {
    const char *start = x->at += strlen("<![CDATA[");

    if (x->depth == 0 || !skip_past(x, "]]>"))
        return fail(x, "a CDATA section without an end or a parent", err);
    const size_t n = (size_t)(x->at - start) - strlen("]]>");
    if (!nc_is_text(start, n) || nc_buf_add(&x->text, start, n) < 0)
        return fail(x, "a CDATA section that is too large or no UTF-8", err);
    return 0;
}

static int skip_attributes(struct nc_xml *x, struct nc_err *err) {
    for (;;) {
        const bool apart = x->at < x->end && is_space(*x->at);
        skip_space(x);
        if (x->at == x->end || *x->at == '>' || *x->at == '/')
            return 0;
        const size_t n = name_length(x);
        if (n == 0 || !apart)
            return fail(x, "a malformed tag", err);
        x->at += n;
        if (!looking_at(x, "=\"") && !looking_at(x, "='"))
            return fail(x, "an attribute without a quoted value", err);
        const char quote[2] = {x->at[1], '\0'};
        x->at += 2;
        if (!skip_past(x, quote))
            return fail(x, "an attribute that does not end", err);
    }
}

static int open_element(struct nc_xml *x, struct nc_err *err) {
    x->at++;
    const size_t n = name_length(x);

    if (n == 0)
        return fail(x, "a tag without a usable name", err);
    if (x->depth == NC_XML_MAX_DEPTH)
        return fail(x, "elements nested too deeply", err);
    if (x->depth == 0 && x->rooted)
        return fail(x, "a second root element", err);
    if (x->depth > 0)
        (void)nc_buf_putc(&x->path, '/');
    (void)nc_buf_add(&x->path, x->at, n);
    x->at += n;
    x->depth++;
    x->rooted = 1;
    nc_buf_clear(&x->text);
    const int r = skip_attributes(x, err);
    if (r < 0)
        return r;
    x->empty = looking_at(x, "/>");
    if (!x->empty && !looking_at(x, ">"))
        return fail(x, "a tag that does not end", err);
    x->at += x->empty ? 2 : 1;
    return NC_XML_OPEN;
}

static const char *last_name(const struct nc_xml *x) {
    const char *slash = strrchr(x->path.data, '/');

    return slash ? slash + 1 : x->path.data;
}

static int close_element(struct nc_xml *x, struct nc_err *err) {
    x->at += 2;
    const size_t n = name_length(x);

    if (x->depth == 0 || n != strlen(last_name(x)) || memcmp(x->at, last_name(x), n) != 0)
        return fail(x, "an end tag that does not fit", err);
    x->at += n;
    skip_space(x);
    if (!looking_at(x, ">"))
        return fail(x, "an end tag that does not end", err);
    x->at++;
    x->closing = 1;
    return NC_XML_CLOSE;
}

/* The element whose end was reported leaves the path; its text was reported with it. */
static void leave(struct nc_xml *x) {
    const char *slash = strrchr(x->path.data, '/');

    x->path.len = slash ? (size_t)(slash - x->path.data) : 0;
    x->path.data[x->path.len] = '\0';
    x->depth--;
    nc_buf_clear(&x->text);
    x->closing = 0;
}

static int take_markup(struct nc_xml *x, struct nc_err *err) {
    if (looking_at(x, "</"))
        return close_element(x, err);
    if (looking_at(x, "<![CDATA["))
        return take_cdata(x, err);
    if (looking_at(x, "<!--"))
        return skip_past(x, "-->") ? 0 : fail(x, "a comment that does not end", err);
    if (looking_at(x, "<?xml ") && x->at == x->data)
        return skip_past(x, "?>") ? 0 : fail(x, "a declaration that does not end", err);
    return open_element(x, err);
}

int nc_xml_next(struct nc_xml *x, struct nc_err *err) {
    int r = 0;

    if (x->closing)
        leave(x);
    if (x->empty) {
        x->empty = 0;
        x->closing = 1;
        return NC_XML_CLOSE;
    }
    while (r == 0) {
        if (x->at == x->end) {
            if (x->depth > 0 || !x->rooted)
                return fail(x, x->rooted ? "the document ends too early" : "no element", err);
            return NC_XML_END;
        }
        r = *x->at == '<' ? take_markup(x, err) : take_text(x, err);
    }
    return r;
}
