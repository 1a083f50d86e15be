/*
 * IMDSv2: a token, then answers. HTTP/1.1, no proxy, no redirect, never without a token.
 */
#ifndef NC_IMDS_H
#define NC_IMDS_H

#include <systemd/sd-event.h>

#include "nc/facts.h"
#include "nc/http.h"

#define NC_IMDS_ENDPOINT "http://169.254.169.254"
#define NC_IMDS_ENDPOINT_IPV6 "http://[fd00:ec2::254]"

struct nc_imds;

/* endpoint NULL: the standard one. Checked: http, a host, no path beyond "/". The handle makes its
 * own nc_http with a few connections. */
int nc_imds_new(sd_event *event, const char *endpoint, struct nc_imds **ret, struct nc_err *err);
struct nc_imds *nc_imds_free(struct nc_imds *i); /* wipes the token */
const char *nc_imds_endpoint(const struct nc_imds *i);
/* Sets the remedy of an answer that IMDS would not have given. */
void nc_imds_advise_another(const struct nc_imds *i, struct nc_err *err);

/* How fast the service answers, as far as this handle has seen it. */
struct nc_imds_pace {
    unsigned timeouts;  /* in a row; of what was asked side by side one */
    uint64_t last_usec; /* how long the last answer took */
};
/* The time limit for the next request whose usual one is given: twice as long after each time-out
 * in a row, and never less than twice what the last answer took; at most 8 s, or the usual one. So
 * a service that takes seconds is understood, and a dead one is still named after the usual time.
 */
uint64_t nc_imds_timeout(const struct nc_imds *i, uint64_t usual_usec);
/* The same where the requester counts the time-outs. */
uint64_t nc_imds_timeout_after(const struct nc_imds *i, uint64_t usual_usec, unsigned timeouts);
/* A handle that begins where another is. */
void nc_imds_set_pace(struct nc_imds *i, const struct nc_imds *as);

/* One answer: status 200 with a body, 404 (absent: status only), or an error that ended the try. */
struct nc_imds_answer {
    int status; /* 200 or 404; 0 = failed, see err */
    struct nc_buf body;
    struct nc_err err;
};
void nc_imds_answer_done(struct nc_imds_answer *a); /* wipes */

/* Requests the items side by side, after a token if none is valid. One try: a 401 refreshes the
 * token once. `done` is told once, from the loop, when all have ended; err is that of the failure
 * that matters most, or NC_ERR_NONE where every answer is 200 or 404 (answers that did arrive are
 * kept, so that a retry asks only for the rest). What call points at must stay until then. Cancel
 * it before the handle is freed. Negative, and `done` is not called, where none could be sent. */
struct nc_imds_batch;
struct nc_imds_batch_call {
    unsigned items;          /* bit i = enum nc_imds_item */
    const char *const *args; /* the %s of round-2 items, of _NC_IMDS_ITEM_MAX; may be NULL; needed
                                by the start only */
    uint64_t timeout_usec;   /* of each request */
    struct nc_imds_answer *answers; /* of _NC_IMDS_ITEM_MAX */
    void (*done)(void *userdata, const struct nc_err *err);
    void *userdata;
};
int nc_imds_batch_start(struct nc_imds *i, const struct nc_imds_batch_call *call,
                        struct nc_imds_batch **ret, struct nc_err *err);
struct nc_imds_batch *nc_imds_batch_cancel(struct nc_imds_batch *b); /* NULL in, NULL out */
/* The same for one-shot programs: blocks in the loop until all have ended, in place of `done`. */
int nc_imds_fetch(struct nc_imds *i, struct nc_imds_batch_call call, struct nc_err *err);

/* The path of an item with its argument in place of the %s; owned. */
int nc_imds_path(enum nc_imds_item item, const char *argument, char **ret, struct nc_err *err);

/* One-shot programs: turns the loop until *done; -EINTR where it was asked to exit meanwhile. */
int nc_imds_wait(struct nc_imds *i, const bool *done, struct nc_err *err);

/* `answer` has status 200 or 404, or 0 with err. */
typedef void (*nc_imds_done_fn)(void *userdata, const struct nc_imds_answer *answer);

/* One path of any kind. */
struct nc_imds_call {
    const char *path;
    size_t max_bytes;
    uint64_t timeout_usec;
    bool is_poll; /* the same path is requested again and again: its request is set up once */
    nc_imds_done_fn done;
    void *userdata;
};
/* Asynchronous: `done` is called once, from the loop, unless this fails or the handle is freed. */
int nc_imds_get(struct nc_imds *i, const struct nc_imds_call *call, struct nc_err *err);

/* Requests, connections and clock skew (server minus us, usec; from the Date header) so far. */
struct nc_imds_stats {
    unsigned requests, tokens, connections, failures;
    int64_t skew_usec;
    bool has_skew;
    /* When, by the server's clock, CLOCK_BOOTTIME was 0, as the last answer with a Date shows it:
     * our own clock may be set before the next. 0 = none. */
    uint64_t boot_usec;
};
void nc_imds_get_stats(const struct nc_imds *i, struct nc_imds_stats *ret);

/* Role credentials, parsed. Secrets: wiped by _done. */
struct nc_credentials {
    char *access_key_id;
    char *secret_access_key;
    char *session_token;      /* NULL for long-lived keys */
    uint64_t expiration_usec; /* 0 = none */
    char *role;               /* the instance's, whose they are; NULL: not fetched as such */
};
void nc_credentials_done(struct nc_credentials *c);
/* The JSON of iam/security-credentials/ROLE: Code must be "Success". NC_ERR_PROTOCOL otherwise;
 * "Code": "Failed…" is NC_ERR_AUTH with a remedy. */
int nc_credentials_parse(const char *data, size_t n, struct nc_credentials *ret,
                         struct nc_err *err);
/* The same from a container's endpoint (EKS Pod Identity), which says no Code. */
int nc_credentials_parse_container(const char *data, size_t n, struct nc_credentials *ret,
                                   struct nc_err *err);

#endif
