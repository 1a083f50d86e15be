/*
 * The predicates of shapes.h. Character classes are spelled out: the C locale's isalpha() would
 * follow LC_ALL.
 */
#include "shapes.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "nc/encode.h"
#include "nc/mem.h"
#include "nc/quantity.h"
#include "nc/str.h"

static bool is_lower(char c) {
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_alnum(char c) {
    return is_lower(c) || is_digit(c) || (c >= 'A' && c <= 'Z');
}

static bool is_hex(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'f');
}

/* Length of the run at s of which every character satisfies f. */
static size_t run(const char *s, bool (*f)(char)) {
    size_t n = 0;

    while (f(s[n]))
        n++;
    return n;
}

/* "PREFIX" and then 8 to 17 hexadecimal digits, as EC2 ids are. */
static bool is_ec2_id(const char *s, const char *prefix) {
    if (!s || !nc_starts_with(s, prefix))
        return false;
    s += strlen(prefix);

    size_t n = run(s, is_hex);

    return n >= 8 && n <= 17 && s[n] == '\0';
}

bool nc_shape_instance_id(const char *s) {
    return is_ec2_id(s, "i-");
}

static bool is_word(const char *s, size_t n) {
    if (n == 0 || s[0] == '-' || s[n - 1] == '-')
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_lower(s[i]) && !is_digit(s[i]) && s[i] != '-')
            return false;
    return true;
}

bool nc_shape_token(const char *s, size_t max) {
    return s && strlen(s) <= max && is_word(s, strlen(s));
}

bool nc_shape_instance_type(const char *s) {
    const char *dot = s ? strchr(s, '.') : NULL;

    if (!dot || strlen(s) > 63)
        return false;
    return is_lower(s[0]) && is_word(s, (size_t)(dot - s)) && is_word(dot + 1, strlen(dot + 1));
}

bool nc_shape_region(const char *s) {
    if (!nc_shape_token(s, 32) || !is_lower(s[0]) || !strchr(s, '-'))
        return false;
    return is_digit(s[strlen(s) - 1]);
}

bool nc_shape_zone(const char *s) {
    if (!nc_shape_token(s, 48) || !is_lower(s[0]) || !strchr(s, '-'))
        return false;

    size_t n = strlen(s);

    /* A zone is its region and one letter; a Local or Wavelength Zone ends in "-1a" or "-wlz-1"
     * likewise. */
    return is_lower(s[n - 1]) ? is_digit(s[n - 2]) : is_digit(s[n - 1]);
}

bool nc_shape_zone_id(const char *s) {
    return nc_shape_token(s, 48) && strchr(s, '-') && is_digit(s[strlen(s) - 1]);
}

bool nc_shape_mac(const char *s) {
    if (!s || strlen(s) != 17)
        return false;
    for (size_t i = 0; i < 17; i++)
        if (i % 3 == 2 ? s[i] != ':' : !is_hex(s[i]))
            return false;
    return true;
}

bool nc_shape_ipv4(const char *s) {
    struct in_addr a;

    return s && inet_pton(AF_INET, s, &a) == 1;
}

bool nc_shape_ipv6(const char *s) {
    struct in6_addr a;

    return s && inet_pton(AF_INET6, s, &a) == 1;
}

bool nc_shape_ip(const char *s) {
    return nc_shape_ipv4(s) || nc_shape_ipv6(s);
}

bool nc_shape_cidr(const char *s) {
    const char *slash = s ? strchr(s, '/') : NULL;
    char address[64];
    uint64_t length = 0;

    if (!slash || (size_t)(slash - s) >= sizeof(address) || strlen(slash + 1) > 3
        || nc_parse_u64(slash + 1, &length) < 0)
        return false;
    memcpy(address, s, (size_t)(slash - s));
    address[slash - s] = '\0';
    if (nc_shape_ipv4(address))
        return length <= 32;
    return nc_shape_ipv6(address) && length <= 128;
}

/* Labels between dots, each 1 to 63 characters that begin and end alphanumerically. */
static bool is_domain(const char *s, size_t n) {
    size_t start = 0;

    if (n == 0 || n > 253)
        return false;
    for (size_t i = 0; i <= n; i++) {
        if (i < n && s[i] != '.') {
            if (!is_alnum(s[i]) && s[i] != '-')
                return false;
            continue;
        }
        if (i == start || i - start > 63 || s[start] == '-' || s[i - 1] == '-')
            return false;
        start = i + 1;
    }
    return true;
}

bool nc_shape_domain(const char *s) {
    return s && is_domain(s, strlen(s));
}

bool nc_shape_instance_hostname(const char *s) {
    size_t label = s ? strcspn(s, ".") : 0;

    return label > 0 && label <= 63 && is_domain(s, label) && nc_is_visible(s, strlen(s))
           && !strstr(s, "..");
}

bool nc_shape_node_name(const char *s) {
    if (!nc_shape_domain(s))
        return false;
    for (; *s; s++)
        if (*s >= 'A' && *s <= 'Z')
            return false;
    return true;
}

bool nc_shape_role_name(const char *s) {
    if (!s || s[0] == '\0' || strlen(s) > 64)
        return false;
    for (; *s; s++)
        if (!is_alnum(*s) && !strchr("+=,.@_-", *s))
            return false;
    return true;
}

static bool is_port(const char *s, size_t n) {
    unsigned port = 0;

    if (n == 0 || n > 5)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_digit(s[i]))
            return false;
        port = port * 10 + (unsigned)(s[i] - '0');
    }
    return port >= 1 && port <= 65535;
}

/* host, host:port, [v6], [v6]:port */
static bool is_authority(const char *s, size_t n) {
    char address[64];
    const char *close = memchr(s, ']', n);
    const char *colon = NULL;

    if (n > 0 && s[0] == '[') {
        if (!close || (size_t)(close - s) > sizeof(address))
            return false;

        size_t length = (size_t)(close - s) - 1;

        memcpy(address, s + 1, length);
        address[length] = '\0';
        if (!nc_shape_ipv6(address))
            return false;

        size_t used = (size_t)(close - s) + 1;

        return used == n || (s[used] == ':' && is_port(s + used + 1, n - used - 1));
    }
    colon = memchr(s, ':', n);
    if (colon && !is_port(colon + 1, n - (size_t)(colon - s) - 1))
        return false;
    return is_domain(s, colon ? (size_t)(colon - s) : n);
}

static bool is_url(const char *s, const char *scheme) {
    if (!s || !nc_starts_with(s, scheme) || strlen(s) > 2048)
        return false;
    s += strlen(scheme);

    size_t n = strcspn(s, "/");

    if (!is_authority(s, n))
        return false;
    for (s += n; *s; s++)
        if (!is_alnum(*s) && !strchr("/-._~%", *s))
            return false;
    return true;
}

bool nc_shape_https_url(const char *s) {
    return is_url(s, "https://");
}

bool nc_shape_url(const char *s) {
    return is_url(s, "https://") || is_url(s, "http://");
}

/* Letters, digits and -_. inside, alphanumeric at both ends, at most 63. */
static bool is_name_part(const char *s) {
    size_t n = strlen(s);

    if (n == 0 || n > 63 || !is_alnum(s[0]) || !is_alnum(s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_alnum(s[i]) && !strchr("-_.", s[i]))
            return false;
    return true;
}

bool nc_shape_qualified_name(const char *s) {
    const char *slash = s ? strchr(s, '/') : NULL;

    if (!s)
        return false;
    if (!slash)
        return is_name_part(s);
    for (const char *p = s; p < slash; p++)
        if (*p >= 'A' && *p <= 'Z')
            return false;
    return is_domain(s, (size_t)(slash - s)) && is_name_part(slash + 1);
}

bool nc_shape_label_value(const char *s) {
    return s && (s[0] == '\0' || is_name_part(s));
}

bool nc_shape_bootstrap_token(const char *s) {
    if (!s || strlen(s) != 23 || s[6] != '.')
        return false;
    for (size_t i = 0; i < 23; i++)
        if (i != 6 && !is_lower(s[i]) && !is_digit(s[i]))
            return false;
    return true;
}

bool nc_shape_absolute_path(const char *s) {
    if (!s || s[0] != '/' || strlen(s) > 1024)
        return false;
    for (const char *p = s; *p; p++) {
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return false;
        if (p[0] == '/' && p[1] == '.' && p[2] == '.' && (p[3] == '/' || p[3] == '\0'))
            return false;
    }
    return true;
}

/* One line at *p without its end; *p moves behind it. */
static bool next_line(const char **p, const char *end, const char **ret, size_t *ret_n) {
    const char *newline = NULL;

    if (*p >= end)
        return false;
    newline = memchr(*p, '\n', (size_t)(end - *p));
    *ret = *p;
    *ret_n = (size_t)((newline ? newline : end) - *p);
    *p = newline ? newline + 1 : end;
    while (*ret_n > 0 && memchr(" \t\r", (*ret)[*ret_n - 1], 3))
        (*ret_n)--;
    return true;
}

static bool line_is(const char *line, size_t n, const char *text) {
    return n == strlen(text) && memcmp(line, text, n) == 0;
}

bool nc_shape_pem_certificates(const char *data, size_t n) {
    const char *end = data + n;
    const char *line = NULL;
    size_t length = 0;
    size_t certificates = 0;

    while (next_line(&data, end, &line, &length)) {
        nc_cleanup(nc_buf_done) struct nc_buf body = NC_BUF_INIT_MAX((size_t)64 << 10);
        nc_cleanup(nc_buf_done) struct nc_buf der = NC_BUF_INIT_MAX((size_t)64 << 10);

        if (memchr(line, '\0', length))
            return false;
        if (!line_is(line, length, "-----BEGIN CERTIFICATE-----"))
            continue;
        while (next_line(&data, end, &line, &length)
               && !line_is(line, length, "-----END CERTIFICATE-----"))
            if (nc_buf_add(&body, line, length) < 0)
                return false;
        if (!line_is(line, length, "-----END CERTIFICATE-----") || body.len == 0)
            return false;
        if (nc_base64_decode(body.data, body.len, &der) < 0)
            return false;
        certificates++;
    }
    return certificates > 0;
}

/* The program never sets a locale: strtod reads a point. */
bool nc_shape_percent(const char *text, float *ret_float, double *ret_double) {
    size_t n = strlen(text), points = 0;
    char number[32];

    if (n < 2 || n > sizeof(number) || text[n - 1] != '%')
        return false;
    memcpy(number, text, n - 1);
    number[n - 1] = '\0';
    for (size_t i = 0; number[i]; i++) {
        points += number[i] == '.';
        if ((number[i] < '0' || number[i] > '9') && number[i] != '.')
            return false;
    }
    if (points > 1 || number[0] == '.' || number[n - 2] == '.')
        return false;
    *ret_float = strtof(number, NULL);
    *ret_double = strtod(number, NULL);
    return true;
}

static bool is_threshold(const char *s, bool may_be_none) {
    float percent;
    double exact;
    int64_t value = 0;

    if (nc_ends_with(s, "%"))
        return nc_shape_percent(s, &percent, &exact) && exact <= 100 && (!may_be_none || exact > 0);
    return nc_quantity_value(s, &value) == 0 && (value > 0 || (value == 0 && may_be_none));
}

bool nc_shape_threshold(const char *s) {
    return is_threshold(s, false);
}

bool nc_shape_reclaim(const char *s) {
    return is_threshold(s, true);
}
