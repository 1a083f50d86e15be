/*
 * What a peer of the listener says: an address, a request. Pure, and strict: who asks is a scraper,
 * a probe or our own `status`, and all of them write plain HTTP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "listener.h"
#include "nc/str.h"

#define MAX_HEADERS 64

int nc_address_parse(const char *text, union nc_address *ret, socklen_t *ret_n,
                     struct nc_err *err) {
    const char *colon = strrchr(text, ':');
    nc_auto_free char *quoted = nc_quote_string(text);
    nc_auto_free char *host = NULL;
    uint64_t port = 0;
    union nc_address a = {.any = {.sa_family = AF_UNSPEC}};

    if (colon && nc_parse_u64(colon + 1, &port) == 0 && port <= UINT16_MAX) {
        const bool is_v6 = text[0] == '[' && colon > text + 1 && colon[-1] == ']';
        host = is_v6 ? nc_strndup(text + 1, (size_t)(colon - text) - 2)
                     : nc_strndup(text, (size_t)(colon - text));
        if (is_v6 && inet_pton(AF_INET6, host, &a.v6.sin6_addr) == 1) {
            a.v6.sin6_family = AF_INET6;
            a.v6.sin6_port = htons((uint16_t)port);
        } else if (!is_v6 && inet_pton(AF_INET, host, &a.v4.sin_addr) == 1) {
            a.v4.sin_family = AF_INET;
            a.v4.sin_port = htons((uint16_t)port);
        }
    }
    if (a.any.sa_family == AF_UNSPEC)
        return nc_err_config(
            err, "invalid listen address: %s: use 127.0.0.1:8080, [::1]:8080 or off", quoted);
    *ret_n = a.any.sa_family == AF_INET6 ? sizeof(a.v6) : sizeof(a.v4);
    *ret = a;
    return 0;
}

bool nc_address_is_loopback(const union nc_address *a) {
    const uint8_t *b = a->v6.sin6_addr.s6_addr;

    if (a->any.sa_family == AF_INET)
        return (ntohl(a->v4.sin_addr.s_addr) >> 24) == 127;
    return a->any.sa_family == AF_INET6
           && (IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr)
               || (IN6_IS_ADDR_V4MAPPED(&a->v6.sin6_addr) && b[12] == 127));
}

/* --- requests */

struct line {
    const char *text;
    size_t n;
};

/* The next line without its CR LF. false: not all of it has come. */
static bool next_line(const char **at, const char *end, struct line *ret) {
    const char *lf = memchr(*at, '\n', (size_t)(end - *at));

    if (!lf)
        return false;
    *ret = (struct line){*at, (size_t)(lf - *at)};
    *at = lf + 1;
    return true;
}

/* A line ends in CR LF and holds nothing that a terminal, or another reader, takes as an order. */
static bool is_clean(struct line *l) {
    if (l->n == 0 || l->text[l->n - 1] != '\r')
        return false;
    l->n--;
    for (size_t i = 0; i < l->n; i++)
        if ((unsigned char)l->text[i] < ' ' && l->text[i] != '\t')
            return false;
    return true;
}

static bool is_token(const char *from, const char *to, const char *token) {
    return (size_t)(to - from) == strlen(token) && memcmp(from, token, strlen(token)) == 0;
}

static int parse_path(const char *from, const char *to, char ret[static NC_LISTENER_PATH_MAX]) {
    size_t n = 0;

    if (from == to || *from != '/')
        return -400;
    for (; from < to; from++) {
        if (*from <= ' ' || *from > '~')
            return -400;
        if (*from == '?')
            break;
        if (n == NC_LISTENER_PATH_MAX - 1)
            return -414;
        ret[n++] = *from;
    }
    ret[n] = '\0';
    return 0;
}

static int parse_request_line(const struct line *l, char ret_path[static NC_LISTENER_PATH_MAX],
                              bool *ret_head, bool *ret_wants_host) {
    const char *end = l->text + l->n;
    const char *path = memchr(l->text, ' ', l->n);
    const char *version = path ? memchr(path + 1, ' ', (size_t)(end - path - 1)) : NULL;

    if (!version || memchr(version + 1, ' ', (size_t)(end - version - 1)))
        return -400;
    *ret_wants_host = is_token(version + 1, end, "HTTP/1.1");
    if (!*ret_wants_host && !is_token(version + 1, end, "HTTP/1.0"))
        return (size_t)(end - version) > 5 && memcmp(version + 1, "HTTP/", 5) == 0 ? -505 : -400;
    *ret_head = is_token(l->text, path, "HEAD");
    if (!*ret_head && !is_token(l->text, path, "GET"))
        return -405;
    return parse_path(path + 1, version, ret_path);
}

static bool is_named(const struct line *l, const char *name) {
    return l->n > strlen(name) && l->text[strlen(name)] == ':'
           && strncasecmp(l->text, name, strlen(name)) == 0;
}

/* A request of ours has no body: whoever announces one is not asking us. */
static int check_header(const struct line *l, unsigned *hosts) {
    const char *colon = memchr(l->text, ':', l->n);

    if (!colon || colon == l->text || l->text[0] == ' ' || l->text[0] == '\t' || colon[-1] == ' ')
        return -400;
    if (is_named(l, "Transfer-Encoding"))
        return -400;
    if (is_named(l, "Content-Length")) {
        const char *end = l->text + l->n;
        for (colon++; colon < end; colon++)
            if (*colon != ' ' && *colon != '0')
                return -400;
    }
    *hosts += is_named(l, "Host");
    return 0;
}

int nc_listener_read_request(const char *data, size_t n, char ret_path[static NC_LISTENER_PATH_MAX],
                             bool *ret_head) {
    const char *at = data, *end = data + n;
    struct line l;
    bool wants_host = false;
    unsigned hosts = 0;
    int r = 0;

    for (unsigned i = 0; i <= MAX_HEADERS && next_line(&at, end, &l); i++) {
        if (!is_clean(&l))
            return -400;
        if (i > 0 && l.n == 0)
            return hosts == 1 || (!wants_host && hosts == 0) ? 1 : -400;
        r = i == 0 ? parse_request_line(&l, ret_path, ret_head, &wants_host)
                   : check_header(&l, &hosts);
        if (r < 0)
            return r;
        if (i == MAX_HEADERS)
            return -431;
    }
    return 0;
}
