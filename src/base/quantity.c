/*
 * Kubernetes quantities, without floating point.
 *
 * A text becomes at most 36 significant digits, a power of ten and a power of two; what does not
 * fit into the digits only counts as "there is more", which matters because every rounding is
 * upwards, away from zero, as apimachinery's resource.Quantity does it. Stricter than apimachinery
 * in one point: at least one digit is requested.
 */
#include "nc/quantity.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

typedef unsigned __int128 u128;

#define MAX_DIGITS 36    /* 10^36 < 2^120: room for one doubling and one more digit */
#define MAX_EXPONENT 400 /* far beyond what fits: only keeps the arithmetic small */

struct number {
    bool negative;
    bool more; /* something non-zero below the last digit kept */
    u128 digits;
    int exponent;  /* of ten */
    unsigned bits; /* exponent of two */
};

struct suffix {
    char text[3];
    signed char exponent;
    unsigned char bits;
};

static const struct suffix suffixes[] = {
    {"", 0, 0},    {"n", -9, 0},  {"u", -6, 0},  {"m", -3, 0},  {"k", 3, 0},   {"M", 6, 0},
    {"G", 9, 0},   {"T", 12, 0},  {"P", 15, 0},  {"E", 18, 0},  {"Ki", 0, 10}, {"Mi", 0, 20},
    {"Gi", 0, 30}, {"Ti", 0, 40}, {"Pi", 0, 50}, {"Ei", 0, 60},
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* One digit of the mantissa. `fraction`: it stands behind the point. */
static void add_digit(struct number *x, unsigned *used, unsigned digit, bool fraction) {
    if (*used == 0 && digit == 0) {
        x->exponent -= fraction;
        return;
    }
    if (*used < MAX_DIGITS) {
        x->digits = x->digits * 10 + digit;
        (*used)++;
        x->exponent -= fraction;
        return;
    }
    x->more |= digit != 0;
    x->exponent += !fraction;
}

/* The digits and the point; returns the rest of the text, NULL where there is no digit. */
static const char *scan_mantissa(const char *s, struct number *x) {
    unsigned used = 0;
    bool fraction = false, any = false;

    for (; is_digit(*s) || (*s == '.' && !fraction); s++) {
        if (*s == '.') {
            fraction = true;
            continue;
        }
        any = true;
        add_digit(x, &used, (unsigned)(*s - '0'), fraction);
    }
    return any ? s : NULL;
}

/* "e6", "E-3": only where a digit follows; a lone E is exa. */
static int scan_exponent(const char *s, int *ret) {
    bool negative = *s == '-';
    int e = 0;

    s += *s == '-' || *s == '+';
    if (!is_digit(*s))
        return -EINVAL;
    for (; is_digit(*s); s++)
        e = e > MAX_EXPONENT ? e : e * 10 + (*s - '0');
    if (*s)
        return -EINVAL;
    *ret = negative ? -e : e;
    return 0;
}

static int scan_suffix(const char *s, struct number *x) {
    int e;

    if ((*s == 'e' || *s == 'E') && s[1] && strcmp(s, "Ei") != 0) {
        if (scan_exponent(s + 1, &e) < 0)
            return -EINVAL;
        x->exponent += e;
        return 0;
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(suffixes); i++) {
        if (strcmp(s, suffixes[i].text) == 0) {
            x->exponent += suffixes[i].exponent;
            x->bits = suffixes[i].bits;
            return 0;
        }
    }
    return -EINVAL;
}

static int parse_number(const char *s, struct number *ret) {
    struct number x = {0};

    if (!s || strlen(s) > 4096)
        return -EINVAL;
    x.negative = *s == '-';
    s += *s == '-' || *s == '+';
    s = scan_mantissa(s, &x);
    if (!s || scan_suffix(s, &x) < 0)
        return -EINVAL;
    *ret = x;
    return 0;
}

/* digits * 10^exponent * 2^bits for a non-negative exponent. */
static int scale_up(const struct number *x, u128 *ret) {
    u128 v = x->digits;

    if (x->exponent > 20) /* 1 * 10^21 is beyond int64 already */
        return -ERANGE;
    for (int i = 0; i < x->exponent; i++) {
        v *= 10;
        if (v > INT64_MAX)
            return -ERANGE;
    }
    for (unsigned i = 0; i < x->bits && v <= INT64_MAX; i++)
        v *= 2;
    *ret = v;
    return 0;
}

/* digits * 10^exponent * 2^bits for a negative exponent, rounded up: long division, bit by bit. */
static int scale_down(struct number x, u128 *ret) {
    u128 divisor = 1, quotient, rest;

    for (; x.exponent < -37; x.exponent++) {
        x.more |= x.digits % 10 != 0;
        x.digits /= 10;
    }
    for (int i = 0; i < -x.exponent; i++)
        divisor *= 10;
    quotient = x.digits / divisor;
    rest = x.digits % divisor;
    for (unsigned i = 0; i < x.bits; i++) {
        if (quotient > INT64_MAX)
            return -ERANGE;
        rest *= 2;
        quotient = quotient * 2 + (rest >= divisor);
        rest -= rest >= divisor ? divisor : 0;
    }
    *ret = quotient + (rest != 0 || x.more);
    return 0;
}

/* The number times 10^shift as an int64, rounded away from zero. */
static int scaled(const struct number *number, int shift, int64_t *ret) {
    struct number x = *number;
    u128 v;
    int r;

    if (x.digits == 0) {
        *ret = 0;
        return 0;
    }
    x.exponent += shift;
    r = x.exponent >= 0 ? scale_up(&x, &v) : scale_down(x, &v);
    if (r < 0)
        return r;
    if (v > INT64_MAX)
        return -ERANGE;
    *ret = x.negative ? -(int64_t)v : (int64_t)v;
    return 0;
}

int nc_quantity_milli(const char *s, int64_t *ret) {
    struct number x;
    int r = parse_number(s, &x);

    return r < 0 ? r : scaled(&x, 3, ret);
}

int nc_quantity_value(const char *s, int64_t *ret) {
    struct number x;
    int r = parse_number(s, &x);

    return r < 0 ? r : scaled(&x, 0, ret);
}

int nc_quantity_of(const struct nc_value *v, int64_t *ret_milli, int64_t *ret_value) {
    char buf[32];
    int64_t milli = 0, value = 0;
    const char *text;
    int r = 0;

    if (!v || v->type == NC_VALUE_BOOL || v->type == NC_VALUE_NULL)
        return -EINVAL;
    text = nc_value_scalar_text(v, buf);
    if (!text)
        return -EINVAL;
    if (ret_milli)
        r = nc_quantity_milli(text, &milli);
    if (r == 0 && ret_value)
        r = nc_quantity_value(text, &value);
    if (r < 0)
        return r;
    if (ret_milli)
        *ret_milli = milli;
    if (ret_value)
        *ret_value = value;
    return 0;
}

/* Takes out factors of `base`, one suffix of `names` each. */
static void format_factors(int64_t v, int64_t base, const char (*names)[4], size_t n,
                           char ret[static 32]) {
    size_t i = 0;

    while (i + 1 < n && v != 0 && v % base == 0) {
        v /= base;
        i++;
    }
    (void)snprintf(ret, 32, "%lld%.3s", (long long)v, names[i]);
}

void nc_quantity_format_milli(int64_t milli, char ret[static 32]) {
    static const char names[][4] = {"m", "", "k", "M", "G", "T", "P"};

    if (milli == 0) /* "0", not "0m" */
        snprintf(ret, 32, "0");
    else
        format_factors(milli, 1000, names, NC_ARRAY_SIZE(names), ret);
}

void nc_quantity_format_bytes(int64_t bytes, char ret[static 32]) {
    static const char decimal[][4] = {"", "k", "M", "G", "T", "P", "E"};
    static const char binary[][4] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};

    if (bytes > -1024
        && bytes < 1024) /* apimachinery writes small binary quantities as decimal ones */
        format_factors(bytes, 1000, decimal, NC_ARRAY_SIZE(decimal), ret);
    else
        format_factors(bytes, 1024, binary, NC_ARRAY_SIZE(binary), ret);
}
