/*
 * Numbers as text.
 *
 * A document keeps a fraction as it was written; on the way out it takes the form in which Go
 * writes a float64, because kubelet's readers take "1000" for an integer field but not "1e3".
 */
#include "text-priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *nc_number_plain(const char *text) {
    char *plain = nc_malloc(strlen(text) + 1);
    size_t n = 0;

    for (; *text; text++)
        if (*text != '_')
            plain[n++] = *text;
    plain[n] = '\0';
    return plain;
}

double nc_number_of(const struct nc_value *v) {
    if (v->type == NC_VALUE_INT)
        return (double)v->integer;
    if (v->type != NC_VALUE_FLOAT || !v->text)
        return 0;
    nc_auto_free char *plain = nc_number_plain(v->text);
    return strtod(plain, NULL);
}

/* Digits of d without point and trailing zeros, as few as read back as d; *ret_exponent is that of
 * the first digit. */
static size_t shortest_digits(double d, char digits[static 32], int *ret_exponent) {
    char text[40];
    int precision = 0;

    do
        snprintf(text, sizeof(text), "%.*e", precision, d);
    while (strtod(text, NULL) != d && ++precision < 17);
    const char *e = strchr(text, 'e');
    size_t n = 0;
    for (const char *p = text; e && p < e; p++)
        if (*p != '.')
            digits[n++] = *p;
    *ret_exponent = e ? (int)strtol(e + 1, NULL, 10) : 0;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    digits[n] = '\0';
    return n;
}

void nc_number_write(double d, char ret[static NC_NUMBER_SIZE]) {
    char digits[32];
    int exponent;
    const double size = d < 0 ? -d : d;
    const char *sign = d < 0 ? "-" : "";
    const size_t n = shortest_digits(size, digits, &exponent);

    if (size == 0)
        snprintf(ret, NC_NUMBER_SIZE, "0");
    else if (size < 1e-6 || size > (double)NC_JSON_MAX_INTEGER)
        snprintf(ret, NC_NUMBER_SIZE, "%s%c%s%se%+d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                 exponent);
    else if (exponent < 0)
        snprintf(ret, NC_NUMBER_SIZE, "%s0.%.*s%s", sign, -exponent - 1, "00000", digits);
    else if (n <= (size_t)exponent + 1)
        snprintf(ret, NC_NUMBER_SIZE, "%s%s%.*s", sign, digits, (int)((size_t)exponent + 1 - n),
                 "00000000000000000");
    else
        snprintf(ret, NC_NUMBER_SIZE, "%s%.*s.%s", sign, exponent + 1, digits,
                 digits + exponent + 1);
}
