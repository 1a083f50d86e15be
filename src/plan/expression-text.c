/*
 * Text in an expression: literals, and the functions of CEL's standard library that answer
 * something about it.
 *
 * matches() takes a regular expression of re2 in CEL, and an extended one of the C library here: a
 * pattern that the two could read differently is refused.
 */
#include "expression.h"

#include <regex.h>
#include <string.h>

#include "nc/str.h"

static const char functions[] = "size\0contains\0startsWith\0endsWith\0matches\0";

bool nc_cel_is_text_function(const char *name) {
    return nc_is_one_of(name, functions);
}

static struct nc_cel_value text_of(struct nc_cel_parser *s, struct nc_buf *b) {
    nc_strv_push(&s->texts, b->data ? nc_buf_steal(b) : nc_strdup(""));
    return (struct nc_cel_value){.kind = NC_CEL_TEXT, .text = s->texts.v[s->texts.n - 1]};
}

/* What a backslash and this character are; '\0' where that is not known here. */
static char escaped(char c) {
    static const char known[] = "\\\"'`?", letters[] = "nrt", blanks[] = "\n\r\t";
    const char *letter = c ? strchr(letters, c) : NULL;

    if (letter)
        return blanks[letter - letters];
    return c && strchr(known, c) ? c : '\0';
}

bool nc_cel_read_text(struct nc_cel_parser *s, struct nc_cel_value *ret) {
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    const bool is_raw = (*s->p == 'r' || *s->p == 'R') && s->p[1] && strchr("\"'", s->p[1]);
    const char *p = s->p + is_raw;
    const char quote = *p++;

    if (!quote || !strchr("\"'", quote))
        return false;
    for (; *p && *p != quote && *p != '\n' && *p != '\r'; p++) {
        char c = *p;

        if (c == '\\' && !is_raw && !(c = escaped(*++p))) {
            *ret = nc_cel_fail(s, "this escape in a text is not known");
            return true;
        }
        (void)nc_buf_putc(&b, c);
    }
    if (*p != quote || (b.len == 0 && p[1] == quote)) {
        *ret = nc_cel_fail(s, "a text ends with the quote that begins it, in its line");
        return true;
    }
    s->p = p + 1;
    *ret = text_of(s, &b);
    return true;
}

/* Would both read it alike? Repetitions by number are left out: they cost memory. */
static bool is_common_pattern(const char *p) {
    bool is_bracket = false, is_repeatable = false;

    for (; *p; p++) {
        if (*p == '\\') {
            p++;
            if (is_bracket || !*p || !strchr(".*+?()[]|^$\\{}-/", *p))
                return false;
            is_repeatable = true;
        } else if (is_bracket) {
            is_bracket = *p != ']' || p[-1] == '[' || (p[-1] == '^' && p[-2] == '[');
        } else if (*p == '{' || ((*p == '*' || *p == '+' || *p == '?') && !is_repeatable)) {
            return false;
        } else {
            is_bracket = *p == '[';
            is_repeatable = !strchr("(|^$*+?", *p);
        }
    }
    return true;
}

static struct nc_cel_value match(struct nc_cel_parser *s, const char *text, const char *pattern) {
    regex_t compiled;
    bool is_match;

    if (strlen(pattern) > 256 || !is_common_pattern(pattern)
        || regcomp(&compiled, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return nc_cel_fail(
            s, "matches(): letters, digits, . [] () | ^ $ * + ? and \\. make a pattern here");
    is_match = regexec(&compiled, text, 0, NULL, 0) == 0;
    regfree(&compiled);
    return nc_cel_truth(is_match);
}

/* In characters. */
static int64_t size_of(const char *text) {
    int64_t n = 0;

    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

struct nc_cel_value nc_cel_call_text(struct nc_cel_parser *s, const char *name,
                                     const struct nc_cel_value *given, size_t n) {
    const bool is_size = nc_streq(name, "size");
    const char *text = given[0].text, *other = n > 1 ? given[1].text : NULL;

    if (s->failed)
        return given[0];
    if (n != (is_size ? 1 : 2) || given[0].kind != NC_CEL_TEXT
        || (n > 1 && given[1].kind != NC_CEL_TEXT))
        return nc_cel_fail(s, "%s() needs %s", name, is_size ? "a text" : "two texts");
    if (given[0].bad || (n > 1 && given[1].bad))
        return (struct nc_cel_value){.kind = is_size ? NC_CEL_INTEGER : NC_CEL_TRUTH,
                                     .bad = given[0].bad ? given[0].bad : given[1].bad};
    if (is_size)
        return (struct nc_cel_value){.kind = NC_CEL_INTEGER, .v = size_of(text)};
    switch (name[0]) {
    case 'c':
        return nc_cel_truth(strstr(text, other) != NULL);
    case 's':
        return nc_cel_truth(nc_starts_with(text, other));
    case 'e':
        return nc_cel_truth(nc_ends_with(text, other));
    default:
        return match(s, text, other);
    }
}
