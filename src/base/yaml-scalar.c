/*
 * Plain YAML scalars, resolved as the decoder of sigs.k8s.io/yaml does it, because Karpenter and
 * nodeadm read the same documents with it. Observed there, and held by a table in the tests:
 *
 * - booleans are y, n, yes, no, on, off, true, false, each in lower, Capital and UPPER case;
 * - null is nothing at all, ~, and null in those three cases;
 * - integers may have a sign, underscores anywhere behind the first character, and the prefixes 0x,
 * 0o, 0b, or 0 for octal;
 * - what looks like an octal number but has an 8 or a 9 in it is a decimal fraction ("08" is 8), so
 * is an integer beyond 64 bits; an unsigned one of 64 bits is exact in every base;
 * - dates stay text, base 60 does not exist, a number too large for a double is text.
 */
#include "text-priv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#include "nc/mem.h"

static const struct name {
    char text[8];
    enum nc_value_type type;
    bool boolean;
} list[] = {
    {"y", NC_VALUE_BOOL, true},      {"yes", NC_VALUE_BOOL, true},  {"true", NC_VALUE_BOOL, true},
    {"on", NC_VALUE_BOOL, true},     {"n", NC_VALUE_BOOL, false},   {"no", NC_VALUE_BOOL, false},
    {"false", NC_VALUE_BOOL, false}, {"off", NC_VALUE_BOOL, false}, {"null", NC_VALUE_NULL, false},
};

/* "yes", "Yes" or "YES", not "yEs". */
static bool is_one_of(const char *text, const char *name) {
    bool lower = true;
    bool upper = true;

    for (size_t i = 0; name[i]; i++) {
        if (tolower((unsigned char)text[i]) != name[i])
            return false;
        const bool is_upper = text[i] != name[i];
        lower = lower && (!is_upper || i == 0);
        upper = upper && is_upper;
    }
    return text[strlen(name)] == '\0' && (lower || upper);
}

static bool is_non_finite(const char *text) {
    static const char names[][8] = {".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF"};
    const bool has_sign = text[0] == '+' || text[0] == '-';

    for (size_t i = has_sign ? 3 : 0; i < NC_ARRAY_SIZE(names); i++)
        if (strcmp(text + (has_sign ? 1 : 0), names[i]) == 0)
            return true;
    return false;
}

static int digit_of(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : 16;
}

/* The base that a prefix says; moves *s behind the prefix. */
static int base_of(const char **s) {
    if ((*s)[0] != '0' || (*s)[1] == '\0')
        return 10;
    const int letter = tolower((unsigned char)(*s)[1]);
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    *s += base ? 2 : 1;
    return base ? base : 8;
}

/* text has no underscores any more. 0, -EINVAL for no integer, -ERANGE beyond an int64; *ret_large
 * is then the number where it has no sign and fits into 64 bits, else 0. */
static int parse_integer(const char *text, int64_t *ret, uint64_t *ret_large) {
    const bool negative = text[0] == '-';
    const char *s = text + (negative || text[0] == '+' ? 1 : 0);
    const int base = base_of(&s);
    uint64_t v = 0;
    bool too_large = false;

    if (!*s)
        return -EINVAL;
    for (; *s; s++) {
        const int digit = digit_of(*s);
        if (digit >= base)
            return -EINVAL;
        too_large = too_large || __builtin_mul_overflow(v, (uint64_t)base, &v)
                    || __builtin_add_overflow(v, (uint64_t)digit, &v);
    }
    if (too_large || v > (uint64_t)INT64_MAX + (negative ? 1 : 0)) {
        *ret_large = too_large || digit_of(text[0]) > 9 ? 0 : v;
        return -ERANGE;
    }
    *ret = !negative ? (int64_t)v : v == 0 ? 0 : -(int64_t)(v - 1) - 1;
    return 0;
}

static size_t skip_digits(const char **s) {
    const char *start = *s;

    while (**s >= '0' && **s <= '9')
        (*s)++;
    return (size_t)(*s - start);
}

/* Decimal, with a digit before or behind the point. */
static bool is_decimal(const char *s) {
    if (*s == '+' || *s == '-')
        s++;
    size_t digits = skip_digits(&s);
    if (*s == '.') {
        s++;
        digits += skip_digits(&s);
    }
    if (digits == 0)
        return false;
    if (*s == 'e' || *s == 'E') {
        s++;
        if (*s == '+' || *s == '-')
            s++;
        if (skip_digits(&s) == 0)
            return false;
    }
    return *s == '\0';
}

/* Behind a leading point, underscores may stand between two digits only; elsewhere anywhere. */
static bool underscores_separate_digits(const char *s) {
    for (const char *p = strchr(s, '_'); p; p = strchr(p + 1, '_'))
        if (p == s || digit_of(p[-1]) > 9 || digit_of(p[1]) > 9)
            return false;
    return true;
}

/* True where text is a number, and v then holds it. */
static bool resolve_number(struct nc_value *v, const char *text) {
    nc_auto_free char *plain = nc_number_plain(text);
    const bool starts_with_point = text[0] == '.';
    uint64_t large = 0;

    if (starts_with_point && !underscores_separate_digits(text))
        return false;
    if (!starts_with_point && parse_integer(plain, &v->integer, &large) == 0) {
        v->type = NC_VALUE_INT;
        return true;
    }
    if (large && text[0] == '0') { /* another base than ten */
        v->type = NC_VALUE_FLOAT;
        v->text = nc_asprintf("%llu", (unsigned long long)large);
        return true;
    }
    if (!is_decimal(plain) || !isfinite(strtod(plain, NULL)))
        return false;
    v->type = NC_VALUE_FLOAT;
    v->text = nc_strdup(text);
    return true;
}

bool nc_yaml_resolve_plain(struct nc_value *v, const char *text) {
    if (is_non_finite(text))
        return false;
    v->type = NC_VALUE_NULL;
    if (!*text || strcmp(text, "~") == 0)
        return true;
    for (size_t i = 0; i < NC_ARRAY_SIZE(list); i++)
        if (is_one_of(text, list[i].text)) {
            v->type = list[i].type;
            v->boolean = list[i].boolean;
            return true;
        }
    if (strchr("+-.0123456789", text[0]) && resolve_number(v, text))
        return true;
    v->type = NC_VALUE_STRING;
    v->text = nc_strdup(text);
    return true;
}
