/*
 * TOML's booleans, numbers, dates and times.
 *
 * Decimal numbers have the grammar of JSON, once a leading plus and the underscores are gone.
 */
#include "text-priv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

#include "json-priv.h"
#include "nc/str.h"

static const char no_value[] =
    "expected a value: a string in quotes, a number, true, false, a date, "
    "an array or an inline table";

static bool is_of_scalar(int c) {
    return c > 0 && (isalnum(c) || strchr("_+-.:", c));
}

static size_t run_of_scalar(const struct nc_toml_text *t, size_t from) {
    while (is_of_scalar(nc_toml_peek(t, from)))
        from++;
    return from;
}

/* Does s have this shape? '0' stands for any digit, the others for themselves. */
static bool has_shape(const char *s, const char *shape) {
    for (; *shape; s++, shape++)
        if (*shape == '0' ? *s < '0' || *s > '9' : *s != *shape)
            return false;
    return true;
}

static int two_digits(const char *s) {
    return (s[0] - '0') * 10 + s[1] - '0';
}

/* Moves *s behind what was read; false where there is no such date or time. */
static bool read_date(const char **s) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    if (!has_shape(*s, "0000-00-00"))
        return false;
    const int century = two_digits(*s), in_century = two_digits(*s + 2);
    const int month = two_digits(*s + 5), day = two_digits(*s + 8);
    const bool is_leap = (in_century ? in_century : century) % 4 == 0;
    *s += 10;
    return month >= 1 && month <= 12 && day >= 1
           && day <= days[month - 1] + (month == 2 && is_leap ? 1 : 0);
}

static bool read_hours(const char **s) {
    const bool is_right =
        has_shape(*s, "00:00") && two_digits(*s) <= 23 && two_digits(*s + 3) <= 59;

    *s += is_right ? 5 : 0;
    return is_right;
}

static bool read_time(const char **s) {
    if (!read_hours(s) || !has_shape(*s, ":00") || two_digits(*s + 1) > 60)
        return false;
    *s += 3;
    if (**s != '.')
        return true;
    const size_t digits = strspn(*s + 1, NC_DIGITS);
    *s += 1 + digits;
    return digits > 0;
}

static bool is_date_or_time(const char *s) {
    if (!has_shape(s, "0000-"))
        return read_time(&s) && *s == '\0';
    if (!read_date(&s))
        return false;
    if (*s == '\0')
        return true;
    if (!strchr("Tt ", *s++) || !read_time(&s))
        return false;
    if (*s == 'Z' || *s == 'z')
        s++;
    else if (*s == '+' || *s == '-')
        return s++, read_hours(&s) && *s == '\0';
    return *s == '\0';
}

/* Underscores stand between two digits. */
static bool has_right_underscores(const char *s, int base) {
    for (const char *p = strchr(s, '_'); p; p = strchr(p + 1, '_')) {
        const int before = p == s ? -1 : nc_hex_digit(p[-1]), behind = nc_hex_digit(p[1]);
        if (before < 0 || before >= base || behind < 0 || behind >= base)
            return false;
    }
    return true;
}

/* Behind 0x, 0o or 0b. */
static const char *read_based(struct nc_value *v, const char *digits, int base) {
    int64_t i = 0;

    if (!*digits)
        return "expected digits behind the prefix of a number";
    for (; *digits; digits++) {
        const int digit = nc_hex_digit(*digits);
        if (digit < 0 || digit >= base)
            return "invalid digit in a number, expected one of its base";
        if (__builtin_mul_overflow(i, base, &i) || __builtin_add_overflow(i, digit, &i))
            return "integer beyond 64 bits";
    }
    v->type = NC_VALUE_INT;
    v->integer = i;
    return NULL;
}

static bool is_json_number(const char *s) {
    struct nc_json_token token;
    size_t used;

    if (!nc_json_token_begin(&token, *s, NULL) || token.kind != NC_TOKEN_NUMBER)
        return false;
    const size_t n = strlen(s + 1);
    return !nc_json_token_scan(&token, s + 1, n, &used) && used == n
           && !nc_json_token_scan(&token, " ", 1, &used);
}

static const char *read_decimal(struct nc_value *v, const char *s) {
    const char *unsigned_part = s + (*s == '+' || *s == '-' ? 1 : 0);

    s = *s == '+' ? unsigned_part : s;
    v->type = NC_VALUE_FLOAT;
    if (strcmp(unsigned_part, "nan") == 0 || strcmp(unsigned_part, "inf") == 0) {
        v->text = nc_strdup(*unsigned_part == 'n' ? "nan" : s);
        return NULL;
    }
    if (!isdigit((unsigned char)*unsigned_part))
        return no_value;
    if (!is_json_number(s))
        return "invalid number, expected digits without a leading zero, and digits on both sides "
               "of "
               "a point";
    if (unsigned_part[strspn(unsigned_part, NC_DIGITS)] == '\0') {
        v->type = NC_VALUE_INT;
        return nc_parse_i64(s, &v->integer) < 0 ? "integer beyond 64 bits" : NULL;
    }
    if (!isfinite(strtod(s, NULL)))
        return "number out of range";
    v->text = nc_strdup(s);
    return NULL;
}

static const char *read_number(struct nc_value *v, const char *text) {
    const int base = text[0] != '0'   ? 10
                     : text[1] == 'x' ? 16
                     : text[1] == 'o' ? 8
                     : text[1] == 'b' ? 2
                                      : 10;

    const bool has_digit = isdigit((unsigned char)text[strspn(text, "+-")]);

    text += base == 10 ? 0 : 2;
    if (!has_right_underscores(text, base))
        return has_digit ? "expected a digit on both sides of an underscore in a number" : no_value;
    nc_auto_free char *plain = nc_number_plain(text);
    return base == 10 ? read_decimal(v, plain) : read_based(v, plain, base);
}

static const char *resolve(struct nc_value *v, const char *text) {
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        v->type = NC_VALUE_BOOL;
        v->boolean = text[0] == 't';
        return NULL;
    }
    if (!has_shape(text, "0000-") && !has_shape(text, "00:"))
        return *text ? read_number(v, text) : no_value;
    if (!is_date_or_time(text))
        return "invalid date or time, expected a form like 2006-01-02T15:04:05Z of RFC 3339";
    v->type = NC_VALUE_TIME;
    v->text = nc_strdup(text);
    return NULL;
}

const char *nc_toml_scalar(struct nc_toml_text *t, struct nc_value *v) {
    size_t n = run_of_scalar(t, 0);

    /* a space may stand between date and time */
    if (n == 10 && nc_toml_peek(t, 4) == '-' && nc_toml_peek(t, 10) == ' '
        && nc_toml_peek(t, 11) >= '0' && nc_toml_peek(t, 11) <= '9')
        n = run_of_scalar(t, 11);
    nc_auto_free char *text = nc_strndup(t->data + t->at, n);
    const char *wrong = resolve(v, text);
    t->at += wrong ? 0 : n;
    return wrong;
}
