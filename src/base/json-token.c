/*
 * A JSON string, number or literal that comes in pieces: the grammar of RFC 8259, byte by byte. It
 * may be cut anywhere: inside an escape, a pair of surrogates, a UTF-8 character.
 */
#include "json-priv.h"

#include <string.h>

#include "nc/str.h"
#include "text-priv.h"

#define MOST_DIGITS "9007199254740992" /* 2^53, as far as nc_json_parse reads integers */
#define REPLACEMENT 0xfffdu            /* stands for NUL, which no text of ours can hold */

bool nc_json_token_begin(struct nc_json_token *t, char c, struct nc_buf *decoded) {
    *t = (struct nc_json_token){.kind = NC_TOKEN_LITERAL, .decoded = decoded};
    if (c == '"') {
        t->kind = NC_TOKEN_STRING;
        if (decoded) {
            nc_buf_clear(decoded);
            (void)nc_buf_add(decoded, "", 0); /* from here on it is a text, if an empty one */
        }
    } else if (c == '-' || (c >= '0' && c <= '9')) {
        t->kind = NC_TOKEN_NUMBER;
        t->number = c == '-' || c == '0' ? c : '1';
    } else {
        t->literal = c == 't' ? "rue" : c == 'f' ? "alse" : "ull";
        return c == 't' || c == 'f' || c == 'n';
    }
    return true;
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

static bool is_of_number(char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+' || c == 'e' || c == 'E';
}

static const char *scan_number(struct nc_json_token *t, const char *data, size_t n,
                               size_t *ret_used) {
    size_t i = 0;

    for (; i < n && is_of_number(data[i]); i++) {
        const char next = number_step(t->number, data[i]);
        if (!next)
            break;
        t->number = next;
    }
    *ret_used = i;
    if (i == n)
        return NULL;
    t->is_done = true;
    return is_of_number(data[i]) || !strchr("01fx", t->number) ? "invalid number" : NULL;
}

static const char *scan_literal(struct nc_json_token *t, const char *data, size_t n,
                                size_t *ret_used) {
    size_t i = 0;

    for (; i < n && *t->literal && data[i] == *t->literal; i++)
        t->literal++;
    *ret_used = i;
    t->is_done = !*t->literal;
    return t->is_done || i == n ? NULL : "a value was expected";
}

static bool is_plain(unsigned char c) {
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

static size_t plain_run(const char *data, size_t n) {
    size_t i = 0;

    while (i < n && is_plain((unsigned char)data[i]))
        i++;
    return i;
}

static void keep(struct nc_json_token *t, const char *data, size_t n) {
    if (t->decoded && nc_buf_add(t->decoded, data, n) < 0)
        t->is_too_long = true;
}

static void keep_character(struct nc_json_token *t, uint32_t c) {
    char b[4];

    keep(t, b, nc_utf8_put(c, b));
}

/* The first byte of a character that takes several: RFC 3629, table 3-7 of Unicode. */
static const char *begin_character(struct nc_json_token *t, unsigned char c) {
    if (c < 0xc2 || c > 0xf4)
        return "invalid UTF-8";
    t->more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    t->least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    t->most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    keep(t, (const char *)&c, 1);
    return NULL;
}

static const char *go_on_character(struct nc_json_token *t, unsigned char c) {
    if (c < t->least || c > t->most)
        return "invalid UTF-8";
    t->more--;
    t->least = 0x80;
    t->most = 0xbf;
    keep(t, (const char *)&c, 1);
    return NULL;
}

static const char *plain_byte(struct nc_json_token *t, unsigned char c) {
    if (t->more > 0)
        return go_on_character(t, c);
    if (c == '"')
        t->is_done = true;
    else if (c == '\\')
        t->state = NC_TEXT_ESCAPE;
    else if (c < 0x20)
        return "control character in a string";
    else
        return begin_character(t, c);
    return NULL;
}

static const char *escape_byte(struct nc_json_token *t, unsigned char c) {
    static const char names[] = "\"\\/bfnrt";
    static const char meant[] = "\"\\/\b\f\n\r\t";
    const char *at = c ? strchr(names, c) : NULL;

    if (c == 'u') {
        t->state = NC_TEXT_HEX;
        t->hex_left = 4;
        t->unit = 0;
        return NULL;
    }
    if (!at)
        return "invalid escape in a string";
    if (t->high)
        return "half of a pair of surrogates";
    keep(t, &meant[at - names], 1);
    t->state = NC_TEXT_PLAIN;
    return NULL;
}

/* Four digits are complete. */
static const char *end_unit(struct nc_json_token *t) {
    const uint32_t unit = t->unit;
    const bool is_high = unit >= 0xd800 && unit < 0xdc00;
    const bool is_low = unit >= 0xdc00 && unit < 0xe000;

    if (is_low != (t->high != 0))
        return "half of a pair of surrogates";
    if (is_high) {
        t->high = unit;
        t->state = NC_TEXT_HALF;
        return NULL;
    }
    t->has_nul = t->has_nul || unit == 0;
    keep_character(t, is_low      ? 0x10000 + ((t->high - 0xd800) << 10) + (unit - 0xdc00)
                      : unit == 0 ? REPLACEMENT
                                  : unit);
    t->high = 0;
    t->state = NC_TEXT_PLAIN;
    return NULL;
}

static const char *hex_byte(struct nc_json_token *t, unsigned char c) {
    const int digit = nc_hex_digit((char)c);

    if (digit < 0)
        return "invalid escape in a string";
    t->unit = t->unit << 4 | (unsigned)digit;
    return --t->hex_left > 0 ? NULL : end_unit(t);
}

static const char *text_byte(struct nc_json_token *t, unsigned char c) {
    switch (t->state) {
    case NC_TEXT_PLAIN:
        return plain_byte(t, c);
    case NC_TEXT_ESCAPE:
        return escape_byte(t, c);
    case NC_TEXT_HEX:
        return hex_byte(t, c);
    case NC_TEXT_HALF:
        t->state = NC_TEXT_ESCAPE;
        return c == '\\' ? NULL : "half of a pair of surrogates";
    }
    return NULL;
}

static const char *scan_text(struct nc_json_token *t, const char *data, size_t n,
                             size_t *ret_used) {
    const char *wrong = NULL;
    size_t i = 0;

    while (i < n && !t->is_done && !wrong) {
        if (t->state == NC_TEXT_PLAIN && t->more == 0) {
            const size_t run = plain_run(data + i, n - i);
            keep(t, data + i, run);
            i += run;
            if (i == n)
                break;
        }
        wrong = text_byte(t, (unsigned char)data[i]);
        i += !wrong;
    }
    *ret_used = i;
    return wrong;
}

const char *nc_json_token_scan(struct nc_json_token *t, const char *data, size_t n,
                               size_t *ret_used) {
    switch (t->kind) {
    case NC_TOKEN_NUMBER:
        return scan_number(t, data, n, ret_used);
    case NC_TOKEN_LITERAL:
        return scan_literal(t, data, n, ret_used);
    case NC_TOKEN_STRING:
        break;
    }
    return scan_text(t, data, n, ret_used);
}

/* --- what is valid, and not read */

/* In a string, at its first byte: a NUL that is escaped becomes the replacement character, in
 * place. Returns where the string ends. */
static size_t mend_string(struct nc_buf *b, size_t i) {
    for (; i < b->len && b->data[i] != '"'; i++) {
        if (b->data[i] != '\\')
            continue;
        i++; /* what is escaped begins no escape of its own */
        if (b->len - i > 4 && memcmp(b->data + i, "u0000", 5) == 0)
            memcpy(b->data + i + 1, "fffd", 4);
    }
    return i;
}

bool nc_json_is_too_large(const char *digits, size_t n) {
    const size_t most = strlen(MOST_DIGITS);

    return n > most || (n == most && memcmp(digits, MOST_DIGITS, most) > 0);
}

/* At a number's first digit: an integer that is too large becomes the largest. Returns where the
 * number ends. */
static size_t mend_number(struct nc_buf *b, size_t i) {
    const size_t most = strlen(MOST_DIGITS);
    const size_t digits = strspn(b->data + i, "0123456789");
    const size_t rest = i + digits;

    if (strchr(".eE", b->data[rest]) && b->data[rest])
        return rest + strspn(b->data + rest, ".eE+-0123456789");
    if (!nc_json_is_too_large(b->data + i, digits))
        return rest;
    memcpy(b->data + i, MOST_DIGITS, most);
    memmove(b->data + i + most, b->data + rest, b->len - rest + 1);
    b->len -= digits - most;
    return i + most;
}

void nc_json_mend(struct nc_buf *b) {
    for (size_t i = 0; i < b->len;) {
        const char c = b->data[i];
        if (c == '"')
            i = mend_string(b, i + 1) + 1;
        else
            i = c >= '0' && c <= '9' ? mend_number(b, i) : i + 1;
    }
}
