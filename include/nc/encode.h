/*
 * Text that carries bytes: base64, and parts of a URL; and gzip, with a cap: a bomb costs its cap
 * and an error, not memory.
 */
#ifndef NC_ENCODE_H
#define NC_ENCODE_H

#include <stdbool.h>
#include <stddef.h>

#include "nc/err.h"
#include "nc/mem.h"

/* Standard base64 (padded or not, line breaks allowed). Appends to ret. -EINVAL for anything else,
 * -EFBIG at the cap. */
int nc_base64_decode(const char *s, size_t n, struct nc_buf *ret);
void nc_base64_encode(const void *data, size_t n, struct nc_buf *ret);
void nc_base64url_encode(const void *data, size_t n,
                         struct nc_buf *ret); /* URL alphabet, no padding */

/* Appends s as a part of a URL: what is neither unreserved (RFC 3986) nor in `also` as "%XX". */
void nc_url_escape(struct nc_buf *out, const char *s, const char *also);

bool nc_is_gzip(const char *data, size_t n);
/* Inflates one gzip member sequence into out, at most out's cap. NC_ERR_CONFIG: truncated, corrupt,
 * trailing bytes, or too large. */
int nc_gunzip(const char *data, size_t n, struct nc_buf *out, struct nc_err *err);

#endif
