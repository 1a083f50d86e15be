/*
 * TOML's four kinds of strings: basic and literal, each on one line or on several.
 *
 * Line breaks in a string stay as they were written.
 */
#include "text-priv.h"

#include <string.h>

#include "nc/str.h"

/* So many of the quotes that come next, at most `most`. */
static size_t count_quotes(const struct nc_toml_text *t, int quote, size_t most) {
    size_t n = 0;

    while (n < most && nc_toml_peek(t, n) == quote)
        n++;
    return n;
}

static size_t line_break(const struct nc_toml_text *t) {
    const size_t carriage_return = nc_toml_peek(t, 0) == '\r';

    return nc_toml_peek(t, carriage_return) == '\n' ? carriage_return + 1 : 0;
}

static void skip(struct nc_toml_text *t, const char *set) {
    while (t->at < t->n && strchr(set, t->data[t->at]))
        t->at++;
}

/* Behind \u or \U. */
static const char *read_code_point(struct nc_toml_text *t, size_t digits, struct nc_buf *ret) {
    char b[4];
    uint32_t c = 0;

    for (size_t i = 0; i < digits; i++, t->at++) {
        const int byte = nc_toml_peek(t, 0);
        const int digit = byte < 0 ? -1 : nc_hex_digit((char)byte);
        if (digit < 0)
            return digits == 4 ? "expected four hexadecimal digits behind \\u"
                               : "expected eight hexadecimal digits behind \\U";
        c = c << 4 | (uint32_t)digit;
    }
    if (c == 0)
        return "a NUL character in a string";
    if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return "not a Unicode character, expected at most 10FFFF and no surrogate";
    (void)nc_buf_add(ret, b, nc_utf8_put(c, b));
    return NULL;
}

/* A backslash at the end of a line hides all space and line breaks up to the next character. */
static const char *read_line_end(struct nc_toml_text *t) {
    skip(t, " \t");
    if (line_break(t) == 0)
        return "expected the end of the line behind the backslash";
    skip(t, " \t\r\n");
    return NULL;
}

static const char *read_escape(struct nc_toml_text *t, bool is_multiline, struct nc_buf *ret) {
    static const char names[] = "btnfr\"\\", meant[] = "\b\t\n\f\r\"\\";
    const int c = nc_toml_peek(t, 1);
    const char *at = c > 0 ? strchr(names, c) : NULL;

    if (at)
        (void)nc_buf_putc(ret, meant[at - names]);
    else if (is_multiline && c > 0 && strchr(" \t\r\n", c)) {
        t->at++;
        return read_line_end(t);
    } else if (c != 'u' && c != 'U')
        return "unknown escape, expected one of \\b \\t \\n \\f \\r \\\" \\\\ \\u \\U";
    const size_t start = t->at;
    t->at += 2;
    const char *wrong = at ? NULL : read_code_point(t, c == 'u' ? 4 : 8, ret);
    t->at = wrong ? start : t->at;
    return wrong;
}

/* At a quote of the kind that opened the string: true where the string ends with it. Two more may
 * stand before the three that end one of several lines. */
static bool read_quotes(struct nc_toml_text *t, bool is_multiline, struct nc_buf *ret) {
    const size_t n = count_quotes(t, nc_toml_peek(t, 0), is_multiline ? 5 : 1);
    const size_t end = !is_multiline ? 1 : n >= 3 ? 3 : 0;

    (void)nc_buf_add(ret, t->data + t->at, n - end);
    t->at += n;
    return end > 0;
}

const char *nc_toml_string(struct nc_toml_text *t, bool is_key, struct nc_buf *ret) {
    const int quote = nc_toml_peek(t, 0);
    const bool is_multiline = count_quotes(t, quote, 3) == 3;
    const char *wrong = NULL;

    if (is_multiline && is_key)
        return "a key cannot be a string of several lines";
    nc_buf_clear(ret);
    (void)nc_buf_add(ret, "", 0); /* from here on it is a text, if an empty one */
    t->at += is_multiline ? 3 : 1;
    t->at += is_multiline ? line_break(t) : 0;
    while (!wrong) {
        const int c = nc_toml_peek(t, 0);
        if (c < 0 || (!is_multiline && line_break(t)))
            return "expected the closing quote of the string";
        if (c == '\\' && quote == '"')
            wrong = read_escape(t, is_multiline, ret);
        else if (c != quote)
            (void)nc_buf_putc(ret, t->data[t->at++]);
        else if (read_quotes(t, is_multiline, ret))
            return NULL;
    }
    return wrong;
}
