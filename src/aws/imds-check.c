/*
 * What an answer of IMDS is worth, and what a reader can do where it is worth nothing. Pure.
 *
 * A token and a body are never part of a message. A page of HTML is the mark of something else that
 * answers in IMDS' place (a captive portal, a proxy, a wrong endpoint): it is no value.
 */
#include <errno.h>
#include <stdio.h>
#include <strings.h>

#include "imds-priv.h"
#include "nc/str.h"

#define ENDPOINT_OPTION "--imds or AWS_EC2_METADATA_SERVICE_ENDPOINT"

static bool is_page(const char *body, size_t n) {
    static const char starts[][12] = {"<!doctype", "<html", "<?xml"};

    while (n > 0 && (*body == ' ' || *body == '\t' || *body == '\r' || *body == '\n')) {
        body++;
        n--;
    }
    for (size_t k = 0; k < NC_ARRAY_SIZE(starts); k++)
        if (n >= strlen(starts[k]) && strncasecmp(body, starts[k], strlen(starts[k])) == 0)
            return true;
    return false;
}

void nc_imds_advise_another(const struct nc_imds *i, struct nc_err *err) {
    nc_err_remedy(
        err,
        "something other than the instance metadata service answers at %s: check " ENDPOINT_OPTION
        ", and for a proxy or a redirection on this host",
        i->endpoint);
}

static int refuse_page(const struct nc_imds *i, const char *what, struct nc_err *err) {
    const int r = nc_err_protocol(err, "%s: a page of HTML instead of a value", what);

    nc_imds_advise_another(i, err);
    return r;
}

static int refuse_disabled(const char *what, struct nc_err *err) {
    const int r = nc_err_set(err, NC_ERR_CONFIG, 403,
                             "%s: HTTP 403: instance metadata is disabled or blocked", what);

    nc_err_remedy(
        err, "set the instance's metadata option HttpEndpoint to enabled (EC2NodeClass: "
             "spec.metadataOptions.httpEndpoint), and check this host for a proxy or firewall");
    return r;
}

/* Remedies of what happens below HTTP are the same for the token and for every question. */
static int transfer_error(const struct nc_imds *i, const struct nc_http_result *result,
                          const char *what, struct nc_err *err) {
    const int r = nc_http_error(result, what, err);

    if (result->outcome == NC_HTTP_REFUSED)
        nc_err_remedy(
            err,
            "nothing listens at %s, or a firewall of this host rejects it: is this an EC2 "
            "instance, and is " ENDPOINT_OPTION " right?",
            i->endpoint);
    else if (result->outcome == NC_HTTP_UNRESOLVED)
        nc_err_remedy(err, "the endpoint %s should be an address: check " ENDPOINT_OPTION,
                      i->endpoint);
    else if (result->outcome == NC_HTTP_BROKEN && result->nonsense)
        nc_imds_advise_another(i, err);
    return r;
}

static int other_status(const struct nc_http_result *result, const char *what, struct nc_err *err) {
    const int r = nc_http_error(result, what, err);

    if (result->status >= 500)
        nc_err_remedy(err, "the service itself fails, and is asked again: where it lasts, replace "
                           "the node");
    return r;
}

static bool is_usable(const struct nc_http_result *result) {
    return result->outcome == NC_HTTP_ANSWERED
           && (result->status == 404
               || (result->status == 200 && !is_page(result->body, result->n)));
}

int nc_imds_check(const struct nc_imds *i, const char *path, const struct nc_http_result *result,
                  struct nc_err *err) {
    nc_auto_free char *what = NULL;
    int r;

    if (is_usable(result)) /* once a second, with nothing to say */
        return 0;
    what = nc_asprintf("imds: %s", path);
    if (result->outcome != NC_HTTP_ANSWERED)
        return transfer_error(i, result, what, err);
    switch (result->status) {
    case 200:
        return refuse_page(i, what, err);
    case 401:
        r = nc_err_set(err, NC_ERR_AUTH, 401, "%s: HTTP 401 with a fresh token", what);
        nc_err_remedy(err,
                      "the service does not accept the token that it gave: is there more than one "
                      "service behind %s?",
                      i->endpoint);
        return r;
    case 403:
        return refuse_disabled(what, err);
    default:
        return other_status(result, what, err);
    }
}

int nc_imds_check_token(const struct nc_imds *i, const struct nc_http_result *result,
                        struct nc_err *err) {
    static const char what[] = "imds: PUT /latest/api/token";
    int r;

    if (result->outcome == NC_HTTP_TIMEOUT) {
        r = nc_http_error(result, what, err);
        nc_err_remedy(
            err,
            "is this an EC2 instance with a route to %s? In a container the metadata option "
            "HttpPutResponseHopLimit must be 2 or more",
            i->endpoint);
        return r;
    }
    if (result->outcome != NC_HTTP_ANSWERED)
        return transfer_error(i, result, what, err);
    if (result->status == 200 && is_page(result->body, result->n))
        return refuse_page(i, what, err);
    if (result->status == 200)
        return result->n > 0 && nc_is_visible(result->body, result->n)
                   ? 0
                   : nc_err_protocol(err, "%s: invalid token in the answer", what);
    if (result->status == 403)
        return refuse_disabled(what, err);
    r = other_status(result, what, err);
    if (result->status == 404 || result->status == 405)
        nc_err_remedy(err, "%s does not know IMDSv2: check " ENDPOINT_OPTION, i->endpoint);
    return r;
}

static bool is_host(const char *s, size_t n) {
    const bool brackets = n > 2 && s[0] == '[' && s[n - 1] == ']';

    for (size_t k = brackets ? 1 : 0; k < n - (brackets ? 1 : 0); k++) {
        const bool digit = s[k] >= '0' && s[k] <= '9';
        const bool letter = (s[k] >= 'a' && s[k] <= 'z') || (s[k] >= 'A' && s[k] <= 'Z');
        if (!digit && !letter && s[k] != '.' && (brackets ? s[k] != ':' : s[k] != '-'))
            return false;
    }
    return n > 0;
}

static bool is_port(const char *s, size_t n) {
    nc_auto_free char *text = nc_strndup(s, n);
    uint64_t port;

    return nc_parse_u64(text, &port) == 0 && port >= 1 && port <= 65535;
}

int nc_imds_check_endpoint(const char *endpoint, char **ret, struct nc_err *err) {
    nc_auto_free char *quoted = nc_quote_string(endpoint);
    size_t n = strlen(endpoint);
    const char *host = endpoint + strlen("http://");
    const char *colon;
    int r;

    if (n > 0 && endpoint[n - 1] == '/')
        n--;
    if (strncasecmp(endpoint, "http://", strlen("http://")) == 0 && n > strlen("http://")
        && n < 300) {
        const size_t rest = n - strlen("http://");
        const char *bracket = memchr(host, ']', rest);
        colon = memchr(bracket ? bracket : host, ':',
                       rest - (size_t)((bracket ? bracket : host) - host));
        if (is_host(host, colon ? (size_t)(colon - host) : rest)
            && (!colon || is_port(colon + 1, rest - (size_t)(colon + 1 - host)))) {
            *ret = nc_strndup(endpoint, n);
            return 0;
        }
    }
    r = nc_err_config(err, "imds: %s is not a usable endpoint", quoted);
    nc_err_remedy(err, "write http://HOST[:PORT] without a path, such as %s or %s",
                  NC_IMDS_ENDPOINT, NC_IMDS_ENDPOINT_IPV6);
    return r;
}
