/*
 * How a transfer ended: libcurl's codes become outcomes, outcomes become sentences and error
 * classes.
 *
 * A sentence names the peer as host:port and states what it did; it never quotes a header, a body
 * or a query.
 */
#include "http-priv.h"

#include <errno.h>
#include <stdio.h>

#include "nc/clock.h"
#include "nc/str.h"
#include "nc/time.h"

/* CURLE_TOO_LARGE, which headers before libcurl 8.6 do not have, while the library may be newer. */
#define CODE_TOO_LARGE 100
#define NAME_SIZE 600

static bool mentions(const struct nc_http_req *r, const char *part) {
    return strstr(r->error, part) != NULL;
}

static enum nc_http_outcome outcome_of_connect(const struct nc_http_req *r, int os_errno) {
    if (r->socket_errno)
        return NC_HTTP_LOCAL;
    return os_errno == ETIMEDOUT ? NC_HTTP_TIMEOUT : NC_HTTP_REFUSED;
}

/* A handshake that the network cut is no verdict on anybody's certificate. */
static enum nc_http_outcome outcome_of_handshake(const struct nc_http_req *r) {
    return mentions(r, "SSL_ERROR_SYSCALL") || mentions(r, "reset by peer")
                   || mentions(r, "unexpected eof")
               ? NC_HTTP_BROKEN
               : NC_HTTP_TLS;
}

/* Under TLS 1.3 the peer judges our certificate after our side of the handshake has ended. */
static bool is_refusal_of_certificate(const struct nc_http_req *r) {
    return mentions(r, "alert") && !mentions(r, "internal error") && !mentions(r, "close notify");
}

static enum nc_http_outcome outcome_of_abort(enum request_abort abort) {
    switch (abort) {
    case ABORT_LARGE_HEAD:
    case ABORT_LARGE_BODY:
    case ABORT_LARGE_FAILURE:
        return NC_HTTP_TOO_LARGE;
    case ABORT_DEADLINE:
    case ABORT_IDLE:
        return NC_HTTP_TIMEOUT;
    case ABORT_CALLBACK:
    case ABORT_NONE:
        break;
    }
    return NC_HTTP_BROKEN;
}

static enum nc_http_outcome outcome_of(const struct nc_http_req *r, int os_errno) {
    if (r->abort != ABORT_NONE)
        return outcome_of_abort(r->abort);
    switch ((int)r->code) {
    case CURLE_OK:
        return NC_HTTP_ANSWERED;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return NC_HTTP_UNRESOLVED;
    case CURLE_COULDNT_CONNECT:
        return outcome_of_connect(r, os_errno);
    case CURLE_OPERATION_TIMEDOUT:
        return NC_HTTP_TIMEOUT;
    case CURLE_SSL_CONNECT_ERROR:
        return outcome_of_handshake(r);
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_PINNEDPUBKEYNOTMATCH:
    case CURLE_SSL_CLIENTCERT:
        return NC_HTTP_TLS;
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ENGINE_INITFAILED:
    case CURLE_FAILED_INIT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_INTERFACE_FAILED:
        return NC_HTTP_LOCAL;
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return is_refusal_of_certificate(r) ? NC_HTTP_TLS : NC_HTTP_BROKEN;
    case CURLE_OUT_OF_MEMORY: /* libcurl's own cap of a header line, in 7.88 */
        return r->header_bytes ? NC_HTTP_TOO_LARGE : NC_HTTP_LOCAL;
    case CURLE_FILESIZE_EXCEEDED:
    case CODE_TOO_LARGE:
        return NC_HTTP_TOO_LARGE;
    default:
        return NC_HTTP_BROKEN;
    }
}

/* Did the peer answer in something that is not HTTP? A cut connection is not nonsense, it is only
 * cut. */
static bool is_nonsense(const struct nc_http_req *r) {
    switch ((int)r->code) {
    case CURLE_UNSUPPORTED_PROTOCOL: /* HTTP/0.9, which is what any noise looks like */
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_BAD_CONTENT_ENCODING:
        return true;
    case CURLE_RECV_ERROR:
        return mentions(r, "chunk") || mentions(r, "Chunk") || mentions(r, "encoding")
               || mentions(r, "header");
    default:
        return false;
    }
}

/* Whom a connection was tried to: behind a proxy it is the proxy that refuses, and only libcurl's
 * text names it. */
static const char *tried(const struct nc_http_req *r, char to[static NAME_SIZE]) {
    char host[256], port[8];

    if (sscanf(r->error, "Failed to connect to %255s port %7[0-9]", host, port) != 2)
        return r->server;
    if (strstr(r->server, host) && nc_streq(strrchr(r->server, ':') + 1, port))
        return r->server;
    snprintf(to, NAME_SIZE, "%s:%s, the proxy for %s", host, port, r->server);
    return to;
}

/* What libcurl says, as printable text in one line. A proxy's URL, which it quotes with the
 * password, is not passed on. */
static const char *detail(struct nc_http_req *r) {
    if (nc_starts_with(r->error, "Unsupported proxy"))
        return "unusable URL of a proxy";
    for (char *p = r->error; *p; p++)
        if (*p < 0x20 || *p > 0x7e)
            *p = ' ';
    return r->error[0] ? nc_trim(r->error) : curl_easy_strerror(r->code);
}

uint64_t nc_http_silence_usec(const struct nc_http_req *r) {
    return r->head_timeout_usec && r->received_usec == 0 ? r->head_timeout_usec
                                                         : r->idle_timeout_usec;
}

static uint64_t limit_of(const struct nc_http_req *r) {
    switch (r->abort) {
    case ABORT_IDLE:
        return nc_http_silence_usec(r);
    case ABORT_DEADLINE:
        return r->timeout_usec;
    case ABORT_NONE:
    case ABORT_LARGE_HEAD:
    case ABORT_LARGE_BODY:
    case ABORT_LARGE_FAILURE:
    case ABORT_CALLBACK:
        break;
    }
    return r->connect_timeout_usec; /* libcurl's own: it is told of no other */
}

static void describe_timeout(struct nc_http_req *r, bool has_answer, char *to, size_t size) {
    curl_off_t connected = 0, ready = 0; /* a connection that was kept has only the second */
    char within[32];

    (void)curl_easy_getinfo(r->easy, CURLINFO_CONNECT_TIME_T, &connected);
    (void)curl_easy_getinfo(r->easy, CURLINFO_PRETRANSFER_TIME_T, &ready);
    nc_duration_format((limit_of(r) + 999) / 1000 * 1000, within); /* the rest of a time limit */
    if (r->code == CURLE_COULDNT_CONNECT)                          /* the kernel gave up */
        snprintf(to, size, "no connection to %s: %s", r->server, strerror(ETIMEDOUT));
    else if (r->abort == ABORT_IDLE)
        snprintf(to, size, "%s was silent for %s", r->server, within);
    else if (has_answer)
        snprintf(to, size, "the answer of %s did not end within %s", r->server, within);
    else if (connected > 0 || ready > 0)
        snprintf(to, size, "no answer from %s within %s", r->server, within);
    else
        snprintf(to, size, "no connection to %s within %s", r->server, within);
}

static void describe_broken(struct nc_http_req *r, bool nonsense, char *to, size_t size) {
    if (r->abort == ABORT_CALLBACK)
        snprintf(to, size, "the stream from %s was ended by its reader", r->server);
    else if (nonsense)
        snprintf(to, size, "%s does not speak HTTP: %s", r->server, detail(r));
    else if (r->code == CURLE_GOT_NOTHING)
        snprintf(to, size, "%s closed the connection without an answer", r->server);
    else if (r->code == CURLE_PARTIAL_FILE)
        snprintf(to, size, "%s closed the connection in mid-answer", r->server);
    else
        snprintf(to, size, "the connection to %s broke: %s", r->server, detail(r));
}

static size_t cap_of(enum request_abort abort, size_t max_body_bytes) {
    if (abort == ABORT_LARGE_BODY)
        return max_body_bytes;
    return abort == ABORT_LARGE_FAILURE ? NC_HTTP_ERROR_MAX_BYTES : NC_HTTP_MAX_HEADER_BYTES;
}

static void describe(struct nc_http_req *r, const struct nc_http_result *result, int os_errno,
                     char *to, size_t size) {
    const bool has_answer = r->header_bytes > 0;
    char name[NAME_SIZE];

    switch (result->outcome) {
    case NC_HTTP_ANSWERED:
        to[0] = '\0';
        return;
    case NC_HTTP_UNRESOLVED:
        snprintf(to, size, "no address for %s: %s", r->server, detail(r));
        return;
    case NC_HTTP_REFUSED:
        if (os_errno == ECONNREFUSED)
            snprintf(to, size, "connection refused by %s", tried(r, name));
        else
            snprintf(to, size, "no route to %s: %s", tried(r, name),
                     os_errno ? strerror(os_errno) : detail(r));
        return;
    case NC_HTTP_TIMEOUT:
        describe_timeout(r, has_answer, to, size);
        return;
    case NC_HTTP_TLS:
        snprintf(to, size, "TLS with %s failed: %s", r->server,
                 nc_http_names_are_missing(r->error)
                     ? "its certificate has no subjectAltName, and a common name does not count"
                     : detail(r));
        return;
    case NC_HTTP_BROKEN:
        describe_broken(r, result->nonsense, to, size);
        return;
    case NC_HTTP_TOO_LARGE:
        snprintf(to, size, "the answer of %s is larger than %zu bytes", r->server,
                 cap_of(r->abort, r->max_body_bytes));
        return;
    case NC_HTTP_LOCAL:
        snprintf(to, size, "cannot query %s: %s", r->server,
                 r->socket_errno ? strerror(r->socket_errno) : detail(r));
        return;
    }
}

void nc_http_result_fill(struct nc_http_req *r, struct nc_http_result *ret) {
    long status = 0, os_errno = 0, connects = 0;

    (void)curl_easy_getinfo(r->easy, CURLINFO_RESPONSE_CODE, &status);
    (void)curl_easy_getinfo(r->easy, CURLINFO_OS_ERRNO, &os_errno);
    (void)curl_easy_getinfo(r->easy, CURLINFO_NUM_CONNECTS, &connects);
    *ret = (struct nc_http_result){
        .outcome = outcome_of(r, (int)os_errno),
        .status = (int)status,
        .body = r->body.data ? r->body.data : "",
        .n = r->body.len,
        .retry_after_usec = r->retry_after_usec,
        .date_usec = r->date_usec,
        .received_usec = r->received_usec,
        .token_ttl_sec = r->token_ttl_sec,
        .duration_usec = nc_mono_usec() - r->start_usec,
        .new_connection = connects > 0,
    };
    ret->nonsense = ret->outcome == NC_HTTP_BROKEN && r->abort == ABORT_NONE && is_nonsense(r);
    if (ret->outcome == NC_HTTP_ANSWERED && (status < 200 || status > 599)) {
        ret->outcome = NC_HTTP_BROKEN;
        ret->nonsense = true;
        snprintf(ret->message, sizeof(ret->message), "%s answers with the impossible status %ld",
                 r->server, status);
        return;
    }
    describe(r, ret, (int)os_errno, ret->message, sizeof(ret->message));
}

static int status_error(const struct nc_http_result *r, const char *what, struct nc_err *err) {
    const int s = r->status;
    enum nc_err_class class = NC_ERR_PROTOCOL;

    if (s >= 500 || s == 429 || s == 408)
        class = NC_ERR_TRANSIENT;
    else if (s == 401 || s == 403)
        class = NC_ERR_AUTH;
    return nc_err_set(err, class, s, "%s: HTTP %d", what, s);
}

int nc_http_error(const struct nc_http_result *r, const char *what, struct nc_err *err) {
    switch (r->outcome) {
    case NC_HTTP_ANSWERED:
        return status_error(r, what, err);
    case NC_HTTP_UNRESOLVED:
        return nc_err_set(err, NC_ERR_TRANSIENT, EHOSTUNREACH, "%s: %s", what, r->message);
    case NC_HTTP_REFUSED:
        return nc_err_set(err, NC_ERR_TRANSIENT, ECONNREFUSED, "%s: %s", what, r->message);
    case NC_HTTP_TIMEOUT:
        return nc_err_set(err, NC_ERR_TRANSIENT, ETIMEDOUT, "%s: %s", what, r->message);
    case NC_HTTP_TLS:
        return nc_err_set(err, NC_ERR_AUTH, EPROTO, "%s: %s", what, r->message);
    case NC_HTTP_BROKEN:
        return nc_err_set(err, r->nonsense ? NC_ERR_PROTOCOL : NC_ERR_TRANSIENT,
                          r->nonsense ? EBADMSG : ECONNRESET, "%s: %s", what, r->message);
    case NC_HTTP_TOO_LARGE:
        return nc_err_set(err, NC_ERR_PROTOCOL, EFBIG, "%s: %s", what, r->message);
    case NC_HTTP_LOCAL:
        return nc_err_set(err, NC_ERR_HOST, EIO, "%s: %s", what, r->message);
    }
    return nc_err_set(err, NC_ERR_BUG, EINVAL, "%s: a transfer without an outcome", what);
}
