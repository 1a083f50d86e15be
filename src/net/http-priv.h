/*
 * What the files of src/net share: the handle, a request in flight, and who does what.
 *
 * http.c turns the loop for libcurl, http-request.c sets a transfer up and takes its bytes,
 * http-result.c states how it ended. A request is in the list of its handle until it is handed out;
 * after that only its callback knows it.
 */
#ifndef NC_HTTP_PRIV_H
#define NC_HTTP_PRIV_H

#include <curl/curl.h>
#include <sys/queue.h>

#include "nc/http.h"

#define NC_HTTP_MAX_HEADER_BYTES ((size_t)64 << 10)
/* An answer that is no success gives the reason in its body: so much of it is kept, and so much is
 * endured.
 */
#define NC_HTTP_ERROR_KEEP_BYTES ((size_t)64 << 10)
#define NC_HTTP_ERROR_MAX_BYTES ((size_t)1 << 20)

struct http_socket;

struct nc_http {
    sd_event *event;
    CURLM *multi;
    sd_event_source *timer; /* when libcurl wants to be called without a socket */
    sd_event_source *again; /* when paused streams go on: in the next loop turn */
    sd_event_source *nudge; /* libcurl is called though nothing came; NULL = need not be */
    bool is_nudge_armed;
    uint64_t active_usec;  /* CLOCK_MONOTONIC: libcurl was called last */
    size_t received;       /* bytes of answers, of all requests; may wrap */
    sd_event_source *turn; /* defer: one finished request a loop turn */
    LIST_HEAD(, http_socket) sockets;
    LIST_HEAD(, nc_http_req) requests;
    TAILQ_HEAD(, nc_http_req) finished; /* of them */
    unsigned depth; /* > 0: libcurl is on the stack and must not be asked to add, remove or free */
    bool doomed;    /* freed while depth > 0 */
};

enum request_state {
    REQUEST_WAITING = 1, /* starts as soon as libcurl is off the stack */
    REQUEST_RUNNING,
    REQUEST_FINISHED,  /* waits for its loop turn */
    REQUEST_DROPPED,   /* cancelled while libcurl was on the stack */
    REQUEST_DELIVERED, /* in its callback */
    REQUEST_KEPT,      /* answered; may be repeated */
};

enum request_abort {
    ABORT_NONE = 0,
    ABORT_LARGE_HEAD,
    ABORT_LARGE_BODY,
    ABORT_LARGE_FAILURE, /* the body of an answer that is no success */
    ABORT_CALLBACK,      /* on_data said no */
    ABORT_DEADLINE,
    ABORT_IDLE,
};

struct nc_http_req {
    struct nc_http *h;
    LIST_ENTRY(nc_http_req) all;
    TAILQ_ENTRY(nc_http_req) finished;
    enum request_state state;

    /* What was asked. */
    CURL *easy;
    char *name;
    char *server; /* "host:port" */
    struct curl_slist *headers;
    struct curl_slist *connect_to;
    char *sent_body;
    size_t sent_body_n;
    size_t max_body_bytes;
    uint64_t start_usec, timeout_usec, connect_timeout_usec, idle_timeout_usec, head_timeout_usec;
    bool secret, is_kept, is_https;
    nc_http_data_fn on_data;
    void (*on_head)(void *userdata);
    nc_http_done_fn on_done;
    void *userdata;
    sd_event_source *deadline;

    /* What came. */
    struct nc_buf body;
    size_t header_bytes, error_bytes;
    size_t turn_bytes;     /* streams: taken in this loop turn */
    bool is_paused;        /* the rest of it waits for the next one */
    uint64_t length, come; /* what Content-Length says (UINT64_MAX: nothing); of it is there */
    uint64_t retry_after_usec, date_usec, received_usec, token_ttl_sec;
    enum request_abort abort;
    bool is_refused;  /* and was ended here; what libcurl still brings is not checked */
    int socket_errno; /* why no socket could be made; 0 = it could */
    CURLcode code;
    char error[CURL_ERROR_SIZE];
};

/* http-request.c */
int nc_http_request_new(struct nc_http *h, const struct nc_http_options *o,
                        struct nc_http_req **ret, struct nc_err *err);
void nc_http_request_free(struct nc_http_req *r); /* must not be in the multi handle any more */
/* Forgets what came, for the next time. */
void nc_http_request_renew(struct nc_http_req *r, uint64_t timeout_usec);
int nc_http_request_arm(struct nc_http_req *r, struct nc_err *err); /* the clock starts */

/* http.c */
/* A stream has had its share of this loop turn: it goes on in the next. */
void nc_http_request_pause(struct nc_http_req *r);
/* The request has timed out without an answer, or fell silent. Where its connection brought not a
 * byte for any request in all that time, it is given up, so that the next request gets another. */
void nc_http_suspect_connection(struct nc_http_req *r);
void nc_http_request_finish(struct nc_http_req *r, CURLcode code); /* queues it for its turn */

/* http-memory.c */
/* libcurl counts: the second and later calls cost nothing, and a one-shot program needs no
 * clean-up. False: it does not start. */
bool nc_http_start_libcurl(void);

/* http-names.c */
/* Refuses, in the handshake, a peer whose certificate has no subjectAltName. Negative where this
 * libcurl cannot do that: it then uses another library for TLS. */
int nc_http_names_check(struct nc_http_req *r, struct nc_err *err);
bool nc_http_names_are_missing(const char *error); /* of libcurl, for that reason */

/* http-result.c */
/* How long a stream may be silent at this point; 0 = for ever. */
uint64_t nc_http_silence_usec(const struct nc_http_req *r);
void nc_http_result_fill(struct nc_http_req *r, struct nc_http_result *ret);

#endif
