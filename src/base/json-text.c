/*
 * A JSON string that comes in pieces, cut anywhere: inside an escape, a pair of surrogates, a UTF-8
 * character.
 *
 * Plain text is passed over eight bytes at a time, because of a document that is read only to find
 * a few members nearly every byte is plain text of a string. Nothing is kept but, where wanted, a
 * short decoded copy to compare keys with.
 */
#include "json-text.h"

#include <endian.h>
#include <string.h>

#define REPLACEMENT 0xfffdu /* stands for NUL, which no text of ours can hold */
#define EVERY(byte) (UINT64_C(0x0101010101010101) * (byte))

void nc_json_text_begin(struct nc_json_text *t, bool is_decoding) {
    t->state = NC_TEXT_PLAIN;
    t->hex_left = t->more = 0;
    t->unit = t->high = 0;
    t->is_done = t->is_too_long = false;
    t->is_decoding = is_decoding;
    t->n = 0;
}

static bool is_plain(unsigned char c) {
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* The top bit of a byte of the result is set only if that byte, or one below it, is not plain: the
 * lowest one that is set tells the first such byte. */
static uint64_t not_plain(uint64_t x) {
    const uint64_t quote = x ^ EVERY('"');
    const uint64_t backslash = x ^ EVERY('\\');

    return (x | ((x - EVERY(0x20)) & ~x) | ((quote - EVERY(1)) & ~quote)
            | ((backslash - EVERY(1)) & ~backslash))
           & EVERY(0x80);
}

static size_t plain_run(const char *data, size_t n) {
    size_t i = 0;
    uint64_t word;

    for (; n - i >= sizeof(word); i += sizeof(word)) {
        memcpy(&word, data + i, sizeof(word));
        word = not_plain(le64toh(word));
        if (word)
            return i + (size_t)__builtin_ctzll(word) / 8;
    }
    while (i < n && is_plain((unsigned char)data[i]))
        i++;
    return i;
}

static void keep(struct nc_json_text *t, const char *data, size_t n) {
    if (!t->is_decoding || t->is_too_long)
        return;
    if (n > sizeof(t->text) - t->n) {
        t->is_too_long = true;
        return;
    }
    memcpy(t->text + t->n, data, n);
    t->n += n;
}

static void keep_character(struct nc_json_text *t, uint32_t c) {
    char b[4];
    size_t n = 0;

    if (c < 0x80) {
        b[n++] = (char)c;
    } else if (c < 0x800) {
        b[n++] = (char)(0xc0 | c >> 6);
        b[n++] = (char)(0x80 | (c & 0x3f));
    } else if (c < 0x10000) {
        b[n++] = (char)(0xe0 | c >> 12);
        b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        b[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        b[n++] = (char)(0xf0 | c >> 18);
        b[n++] = (char)(0x80 | (c >> 12 & 0x3f));
        b[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        b[n++] = (char)(0x80 | (c & 0x3f));
    }
    keep(t, b, n);
}

/* The first byte of a character that takes several: RFC 3629, table 3-7 of Unicode. */
static const char *begin_character(struct nc_json_text *t, unsigned char c) {
    if (c < 0xc2 || c > 0xf4)
        return "invalid UTF-8";
    t->more = c < 0xe0 ? 1 : c < 0xf0 ? 2 : 3;
    t->least = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    t->most = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    keep(t, (const char *)&c, 1);
    return NULL;
}

static const char *go_on_character(struct nc_json_text *t, unsigned char c) {
    if (c < t->least || c > t->most)
        return "invalid UTF-8";
    t->more--;
    t->least = 0x80;
    t->most = 0xbf;
    keep(t, (const char *)&c, 1);
    return NULL;
}

static const char *plain_byte(struct nc_json_text *t, unsigned char c) {
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

static const char *escape_byte(struct nc_json_text *t, unsigned char c) {
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
static const char *take_unit(struct nc_json_text *t) {
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
    keep_character(t, is_low      ? 0x10000 + ((t->high - 0xd800) << 10) + (unit - 0xdc00)
                      : unit == 0 ? REPLACEMENT
                                  : unit);
    t->high = 0;
    t->state = NC_TEXT_PLAIN;
    return NULL;
}

static const char *hex_byte(struct nc_json_text *t, unsigned char c) {
    unsigned digit;

    if (c >= '0' && c <= '9')
        digit = (unsigned)c - '0';
    else if (c >= 'a' && c <= 'f')
        digit = (unsigned)c - 'a' + 10;
    else if (c >= 'A' && c <= 'F')
        digit = (unsigned)c - 'A' + 10;
    else
        return "invalid escape in a string";
    t->unit = t->unit << 4 | digit;
    return --t->hex_left > 0 ? NULL : take_unit(t);
}

static const char *take_byte(struct nc_json_text *t, unsigned char c) {
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

const char *nc_json_text_scan(struct nc_json_text *t, const char *data, size_t n,
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
        wrong = take_byte(t, (unsigned char)data[i]);
        i += !wrong;
    }
    *ret_used = i;
    return wrong;
}
