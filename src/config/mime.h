/*
 * The part of MIME that user data needs: headers, multipart framing, transfer encodings.
 *
 * Works on slices of one buffer and copies only header values. Both line ends (LF, CRLF) are taken
 * everywhere. What the parts mean is not known here.
 */
#ifndef NC_CONFIG_MIME_H
#define NC_CONFIG_MIME_H

#include <stdbool.h>
#include <stddef.h>

#include "nc/err.h"
#include "nc/mem.h"
#include "nc/str.h"
#include "nc/userdata.h"

#define NC_MIME_MAX_BOUNDARY                                                                       \
    ((size_t)256) /* RFC 2046 allows 70; Go's reader, and so nodeadm, takes any */

struct nc_mime_header {
    bool is_mime;   /* there was a Content-Type or MIME-Version line */
    bool is_open;   /* the data ended before the empty line that ends a header */
    char *type;     /* of Content-Type, lower case, without parameters; "" where there is none */
    char *boundary; /* parameter of Content-Type, or NULL */
    char *encoding; /* Content-Transfer-Encoding, lower case; "" where there is none */
    size_t body;    /* offset of the first byte behind the empty line */
    unsigned lines; /* lines before it */
};

#define NC_MIME_HEADER_INIT                                                                        \
    { 0 }
void nc_mime_header_done(struct nc_mime_header *h);

/* Reads the header at the start of data. A line that is no header line ends the attempt: is_mime
 * stays false where none of the lines before it was one of MIME's, otherwise it is NC_ERR_CONFIG
 * with its line number. strict: any such line is an error, as in a part, where nothing but a header
 * may come. */
int nc_mime_header_parse(struct nc_text text, bool strict, struct nc_mime_header *ret,
                         struct nc_err *err);
/* What comes behind the header that was read. */
struct nc_text nc_mime_body(struct nc_text text, const struct nc_mime_header *h);

/* Walks over the parts of a multipart body. text and boundary are borrowed. */
struct nc_mime_cursor {
    struct nc_text text; /* its line is that of the next unread byte */
    const char *boundary;
    size_t at;      /* offset of the next unread byte */
    bool is_inside; /* the preamble is behind us */
    bool is_closed; /* the closing delimiter was seen */
    unsigned parts;
};

/* 1: a part, header included, as a slice of the text. 0: no more.
 * NC_ERR_CONFIG: no delimiter, or only a closing one with text before it, or the data ends inside a
 * part. A last delimiter without its closing dashes ends the list if nothing follows it, as in Go.
 */
int nc_mime_next(struct nc_mime_cursor *c, struct nc_text *ret, struct nc_err *err);
/* What stands behind the closing delimiter, where nobody reads: true for each part that begins
 * there, *ret is the rest of the text from its header on; and once where there is no part, but
 * text. Call it after nc_mime_next has returned 0. */
bool nc_mime_next_lost(struct nc_mime_cursor *c, struct nc_text *ret);

/* "", 7bit, 8bit, binary: copied; base64, quoted-printable: decoded. -ENOTSUP: another encoding;
 * -EINVAL: broken; -EFBIG: beyond the buffer's cap. */
int nc_mime_transfer_decode(const char *encoding, const char *data, size_t n, struct nc_buf *out);

/* What a part is, for a person who expected it to be ours: "a shell script", "a cloud-config", "a
 * part of type text/plain". Owned by the caller. */
char *nc_userdata_describe(const struct nc_userdata_part *p);

#endif
