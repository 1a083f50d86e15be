/*
 * Base64 of RFC 4648: a strict decoder that tolerates only what mail and user data really contain
 * (line breaks, missing padding), and the two encoders; and parts of a URL.
 *
 * Table look-ups by value; secrets pass here only on the way into a wiped buffer.
 */
#include "nc/encode.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "nc/str.h"

static const char standard[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url_safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static int digit_value(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* What a decoder holds between two bytes. */
struct decoder {
    uint32_t bits;
    unsigned digits; /* of the group of four that is being read */
    unsigned padding;
};

static int decode_byte(struct decoder *d, char c, struct nc_buf *out) {
    if (c == '\n' || c == '\r')
        return 0;
    if (c == '=') {
        d->padding++;
        return d->digits + d->padding > 4 || d->digits < 2 ? -EINVAL : 0;
    }
    const int v = digit_value(c);
    if (v < 0 || d->padding)
        return -EINVAL;
    d->bits = d->bits << 6 | (uint32_t)v;
    if (++d->digits < 4)
        return 0;
    const char bytes[3] = {(char)(d->bits >> 16), (char)(d->bits >> 8), (char)d->bits};
    *d = (struct decoder){0};
    return nc_buf_add(out, bytes, sizeof(bytes));
}

/* The last, incomplete group. Bits that no encoder sets are refused: one text for one value. */
static int decode_rest(const struct decoder *d, struct nc_buf *out) {
    if (d->digits == 1 || (d->padding && d->digits + d->padding != 4))
        return -EINVAL;
    if (d->digits == 2) {
        const char byte = (char)(d->bits >> 4);
        return d->bits & 0xf ? -EINVAL : nc_buf_add(out, &byte, 1);
    }
    if (d->digits == 3) {
        const char bytes[2] = {(char)(d->bits >> 10), (char)(d->bits >> 2)};
        return d->bits & 0x3 ? -EINVAL : nc_buf_add(out, bytes, 2);
    }
    return 0;
}

int nc_base64_decode(const char *s, size_t n, struct nc_buf *ret) {
    const size_t before = ret->len;
    struct decoder d = {0};
    int r = nc_buf_add(ret, "", 0);

    for (size_t i = 0; r == 0 && i < n; i++)
        r = decode_byte(&d, s[i], ret);
    if (r == 0)
        r = decode_rest(&d, ret);
    if (r < 0 && ret->data) {
        ret->len = before;
        ret->data[before] = '\0';
    }
    return r;
}

static void encode(const void *data, size_t n, const char *alphabet, bool pad, struct nc_buf *ret) {
    const unsigned char *p = data;
    const size_t before = ret->len;
    int r = nc_buf_add(ret, "", 0);

    for (size_t i = 0; r == 0 && i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t bits = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0)
                              | (left > 2 ? p[i + 2] : 0u);
        const char digits[4] = {
            alphabet[bits >> 18],
            alphabet[bits >> 12 & 63],
            left > 1 ? alphabet[bits >> 6 & 63] : '=',
            left > 2 ? alphabet[bits & 63] : '=',
        };
        r = nc_buf_add(ret, digits, pad || left > 2 ? 4 : left + 1);
    }
    if (r < 0 && ret->data) {
        ret->len = before;
        ret->data[before] = '\0';
    }
}

void nc_base64_encode(const void *data, size_t n, struct nc_buf *ret) {
    encode(data, n, standard, true, ret);
}

void nc_base64url_encode(const void *data, size_t n, struct nc_buf *ret) {
    encode(data, n, url_safe, false, ret);
}

void nc_url_escape(struct nc_buf *out, const char *s, const char *also) {
    for (; *s; s++)
        if (isalnum((unsigned char)*s) || strchr("-._~", *s) || strchr(also, *s))
            (void)nc_buf_putc(out, *s);
        else
            (void)nc_buf_printf(out, "%%%02X", (unsigned)(unsigned char)*s);
}
