/*
 * One connection for small questions that are asked again and again: GET, HTTP/1.1, no TLS, kept
 * alive, one at a time. A third of the work that a general client needs for the same.
 *
 * It knows only the plain case. Whatever is not exactly that (no route, an answer without a length,
 * one that is too long, half a header) is handed back: the asker then asks through nc/http.h, which
 * can tell what is wrong.
 */
#ifndef NC_HTTP_PLAIN_H
#define NC_HTTP_PLAIN_H

#include <systemd/sd-event.h>

#include "nc/http.h"

struct nc_http_plain;

/* "http://ADDRESS[:PORT]", ADDRESS a literal IPv4 or [IPv6] one. -EOPNOTSUPP for anything else. */
int nc_http_plain_new(sd_event *event, const char *endpoint, struct nc_http_plain **ret);
struct nc_http_plain *
nc_http_plain_free(struct nc_http_plain *p); /* the question under way is forgotten */

/* One question. `header` is one "Name: value" line; path and header hold no control characters.
 * `done` comes from the loop, exactly once unless it is cancelled: with an answer of any status
 * (body valid until it returns, NUL-terminated), or with NULL: not this way; or from
 * nc_http_plain_expire, with outcome TIMEOUT.
 * -EBUSY while another question is under way, other negatives: not this way. */
int nc_http_plain_get(struct nc_http_plain *p, const char *path, const char *header,
                      size_t max_body_bytes, uint64_t timeout_usec, nc_http_done_fn done,
                      void *userdata);
/* There is no timer: whoever asks every second wakes up anyway. Ends the question under way with
 * TIMEOUT where its time is over; to be called then, or soon after. */
void nc_http_plain_expire(struct nc_http_plain *p);
void nc_http_plain_cancel(struct nc_http_plain *p,
                          const void *userdata); /* where it is this one's */

#endif
