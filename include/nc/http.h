/*
 * HTTP on the event loop: one handle (libcurl multi on sd-event), many requests.
 *
 * Every request has a name, a deadline and a size cap. Dropping a request cancels it. A completed
 * transfer is handed out one per loop turn, so a callback may free anything, the handle included.
 * Connections are kept alive and shared; HTTP/2 is used over TLS where the server has it.
 */
#ifndef NC_HTTP_H
#define NC_HTTP_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#include "nc/err.h"
#include "nc/mem.h"

struct nc_http;     /* handle */
struct nc_http_req; /* one request in flight */

/* How a transfer ended, before any thought about its status code. */
enum nc_http_outcome {
    NC_HTTP_ANSWERED = 1, /* a complete answer: status and body are valid */
    NC_HTTP_UNRESOLVED,   /* name not found */
    NC_HTTP_REFUSED,      /* connection refused, no route */
    NC_HTTP_TIMEOUT, /* the request's deadline passed (connect or answer): the peer is silent or
                        slow */
    NC_HTTP_TLS,     /* certificate not trusted, wrong name, handshake refused */
    NC_HTTP_BROKEN,  /* reset, truncated, not HTTP (then `nonsense` is set), a stream's reader said
                        no */
    NC_HTTP_TOO_LARGE, /* the answer passed max_body_bytes */
    NC_HTTP_LOCAL,     /* our side: out of descriptors, unusable client key */
};

struct nc_http_result {
    enum nc_http_outcome outcome;
    int status;       /* 100..599 where answered */
    const char *body; /* valid until the callback returns; NUL-terminated */
    size_t n;
    char message[256]; /* for people: "connection refused by 127.0.0.1:6443"; "" where answered */
    uint64_t retry_after_usec; /* of a Retry-After header in seconds; 0 = none */
    uint64_t date_usec;        /* of the Date header; 0 = none */
    uint64_t received_usec;    /* CLOCK_REALTIME when the headers came: skew = date - received */
    uint64_t token_ttl_sec;    /* of X-Aws-Ec2-Metadata-Token-Ttl-Seconds; 0 = none */
    uint64_t duration_usec;
    bool new_connection; /* a connection had to be opened for it */
    bool nonsense;       /* BROKEN because the peer speaks no HTTP: asking again cannot help */
};

typedef void (*nc_http_done_fn)(void *userdata, const struct nc_http_result *result);
/* Streaming body (watch): called with each chunk of a 2xx answer; a negative return aborts (outcome
 * BROKEN). The body of any other answer is collected for on_done. An answer that is no success
 * keeps the first 64 KiB of its body, whatever max_body_bytes says. */
typedef int (*nc_http_data_fn)(void *userdata, const char *data, size_t n);

/* What a TLS peer must be and how we prove who we are. Strings are borrowed until the request is
 * done. */
struct nc_http_tls {
    const char *ca_pem;           /* the only roots trusted; NULL = the system's */
    const char *client_cert_file; /* PEM paths, both or none */
    const char *client_key_file;
    const char *client_cert_pem; /* or the bytes themselves */
    const char *client_key_pem;
    const char *server_name; /* kubeconfig's tls-server-name, NULL = the URL's host */
};

struct nc_http_options {
    const char *name;   /* "imds: /latest/meta-data/mac": for messages and metrics; copied */
    const char *method; /* NULL = GET */
    const char *url;
    const char *const *headers; /* NULL-terminated "Name: value" list, may be NULL; copied */
    const char *body;           /* may be NULL; copied */
    size_t body_n;
    const struct nc_http_tls *tls;
    uint64_t timeout_usec;         /* from start to last byte; 0 is a bug, except for streams */
    uint64_t connect_timeout_usec; /* 0 = timeout_usec */
    uint64_t
        idle_timeout_usec; /* streams: no byte for so long ends it (outcome TIMEOUT); 0 = none */
    uint64_t
        head_timeout_usec;   /* streams: the same until the answer begins; 0 = idle_timeout_usec */
    size_t max_body_bytes;   /* 0 is a bug; streams: cap does not apply */
    bool no_proxy;           /* IMDS, always */
    bool secret;             /* the body is a credential: wiped after the callback */
    bool is_kept;            /* it outlives its answer: see nc_http_repeat */
    nc_http_data_fn on_data; /* NULL: the body is collected */
    void (*on_head)(void *userdata); /* streams: a success begins; may be NULL. Must leave the
                                        handle and its requests alone */
    nc_http_done_fn on_done;
    void *userdata;
};

/* max_host_connections: how many connections to one host may be open at once (IMDS answers side by
 * side on a few). 0 = no limit. The first handle of a process makes it ignore SIGPIPE (where that
 * was not handled yet): reset it before executing another program. */
int nc_http_new(sd_event *event, unsigned max_host_connections, struct nc_http **ret,
                struct nc_err *err);
struct nc_http *
nc_http_free(struct nc_http *h); /* cancels what is in flight; callbacks are not called */

/* "nodeclaimd/0.2.0 (run)": what this process calls itself to every peer; never set:
 * "nodeclaimd". `command` NULL: without the parentheses. Cut at 63 characters. */
void nc_http_set_program(const char *program, const char *command);
const char *nc_http_user_agent(void);

/* Starts a request; no callback is called before this returns. ret may be NULL: the handle owns it
 * then. on_done is called exactly once unless it is cancelled. The request frees itself when
 * on_done returns: forget *ret there (cancelling it in its own on_done is allowed and does
 * nothing). Requests, cancels and nc_http_free() are allowed in every callback. */
int nc_http_start(struct nc_http *h, const struct nc_http_options *o, struct nc_http_req **ret,
                  struct nc_err *err);
struct nc_http_req *
nc_http_cancel(struct nc_http_req *r); /* NULL in, NULL out; callbacks are not called */

/* Makes a request with is_kept once more, as it was set up, over the same connection where that
 * still stands. Allowed from its own on_done on; a bug while it is in flight. Such a request lives
 * until nc_http_cancel, which is allowed in its own on_done too. */
int nc_http_repeat(struct nc_http_req *r, uint64_t timeout_usec, struct nc_err *err);

/* One-shot programs: turns the loop until the request is done or the deadline (CLOCK_MONOTONIC,
 * usec) passed; *ret owns copies. Returns 0 where the transfer ended in any way, -EINTR where the
 * loop was asked to exit (signal) meanwhile. */
struct nc_http_answer {
    struct nc_http_result result; /* result.body points into body */
    struct nc_buf body;
};
void nc_http_answer_done(struct nc_http_answer *a);
int nc_http_perform(struct nc_http *h, const struct nc_http_options *o, struct nc_http_answer *ret,
                    struct nc_err *err);

/* Turns the loop until *done. -EINTR where the loop was asked to exit meanwhile. For one-shot
 * programs with several requests in flight. */
int nc_http_wait(struct nc_http *h, const bool *done, struct nc_err *err);

/* An error's class and message for a transfer that is no success: outcome and status decide
 * (unresolved, refused, timeout, cut off, 5xx, 429, 408: transient; 401, 403, TLS: auth; too large,
 * not HTTP, other statuses: protocol; local: host). `what` leads the message. Always returns
 * negative. */
int nc_http_error(const struct nc_http_result *r, const char *what, struct nc_err *err);

#endif
