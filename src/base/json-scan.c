/*
 * What cJSON would let pass: a strict scan of the bytes, without building anything.
 *
 * cJSON takes any byte up to 0x20 for white space, "01" and "-.5" for numbers, raw control
 * characters and broken UTF-8 for text, cuts a string at \u0000, skips a byte order mark, and nests
 * 1000 deep. All of that is refused here, and the numbers' places are kept because a double cannot
 * tell 2^53 from 2^53 + 1. The grammar of values stays cJSON's job.
 */
#include "json-scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "nc/value.h"
#include "utf8.h"

#define NUMBER_MAX_LENGTH 48 /* cJSON silently splits numbers of 64 characters */

static int fail(const struct nc_json_scan *s, struct nc_err *err, const char *what) {
    return nc_err_set(err, NC_ERR_PROTOCOL, EPROTO, "JSON: byte %zu: %s", s->at, what);
}

static int peek(const struct nc_json_scan *s) {
    return s->at < s->n ? (unsigned char)s->data[s->at] : -1;
}

/* cJSON takes four other characters for \u0000. */
static bool are_hex(const char *s) {
    for (int i = 0; i < 4; i++)
        if (!isxdigit((unsigned char)s[i]))
            return false;
    return true;
}

static int scan_escape(struct nc_json_scan *s, struct nc_err *err) {
    static const char valid[] = "\"\\/bfnrtu";
    const int c = s->at + 1 < s->n ? (unsigned char)s->data[s->at + 1] : 0;

    if (c == 0 || !memchr(valid, c, sizeof(valid) - 1))
        return fail(s, err, "invalid escape in a string");
    if (c == 'u') {
        const char *digits = s->data + s->at + 2;
        if (s->n - s->at < 6 || !are_hex(digits))
            return fail(s, err, "invalid escape in a string");
        if (memcmp(digits, "0000", 4) == 0)
            return fail(s, err, "\\u0000 in a string");
    }
    s->at += 2;
    return 0;
}

static int scan_string(struct nc_json_scan *s, struct nc_err *err) {
    const size_t start = s->at++;

    while (s->at < s->n) {
        const unsigned char c = (unsigned char)s->data[s->at];
        if (c == '"') {
            s->at++;
            return 0;
        }
        if (c == '\\') {
            const int r = scan_escape(s, err);
            if (r < 0)
                return r;
            continue;
        }
        uint32_t character;
        const size_t length = nc_utf8_next(s->data + s->at, s->n - s->at, &character);
        if (c < 0x20)
            return fail(s, err, "control character in a string");
        if (length == 0)
            return fail(s, err, "invalid UTF-8");
        s->at += length;
    }
    s->at = start;
    return fail(s, err, "string without an end");
}

static size_t scan_digits(struct nc_json_scan *s) {
    const size_t start = s->at;

    while (peek(s) >= '0' && peek(s) <= '9')
        s->at++;
    return s->at - start;
}

static bool number_is_valid(struct nc_json_scan *s) {
    if (peek(s) == '-')
        s->at++;
    if (peek(s) == '0')
        s->at++;
    else if (scan_digits(s) == 0)
        return false;
    if (peek(s) == '.') {
        s->at++;
        if (scan_digits(s) == 0)
            return false;
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-')
            s->at++;
        if (scan_digits(s) == 0)
            return false;
    }
    return peek(s) < 0 || !strchr("0123456789+-.eE", peek(s));
}

static int scan_number(struct nc_json_scan *s, struct nc_err *err) {
    const size_t start = s->at;
    const bool valid = number_is_valid(s);
    const size_t length = s->at - start;

    if (!valid || length > NUMBER_MAX_LENGTH) {
        s->at = start;
        return fail(s, err, valid ? "number is too long" : "invalid number");
    }
    struct nc_json_number *number = nc_append(&s->numbers, &s->n_numbers);
    number->start = start;
    number->length = length;
    return 0;
}

static int scan_one(struct nc_json_scan *s, struct nc_err *err) {
    const int c = peek(s);

    if (c == '"')
        return scan_string(s, err);
    if (c == '-' || (c >= '0' && c <= '9'))
        return scan_number(s, err);
    if (c == '{' || c == '[') {
        if (++s->depth > NC_VALUE_MAX_DEPTH)
            return fail(s, err, "nested too deep");
    } else if (c == '}' || c == ']') {
        if (s->depth-- == 0)
            return fail(s, err, "closing bracket without an opening one");
    } else if (c == 0 || !strchr(" \t\n\r,:abcdefghijklmnopqrstuvwxyz", c)) {
        return fail(s, err, "unexpected byte");
    }
    s->at++;
    return 0;
}

/* Every value but a container's first has a comma before it, every container counts itself. */
static bool starts_value(int c) {
    return c == ',' || c == '{' || c == '[';
}

int nc_json_scan(struct nc_json_scan *s, struct nc_err *err) {
    while (s->at < s->n) {
        if (starts_value(peek(s)) && ++s->values > s->max_values)
            return fail(s, err, "too many values");
        const int r = scan_one(s, err);
        if (r < 0)
            return r;
    }
    return 0;
}

void nc_json_scan_done(struct nc_json_scan *s) {
    free(s->numbers);
    s->numbers = NULL;
    s->n_numbers = 0;
}
