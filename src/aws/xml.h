/*
 * The XML that EC2 and STS answer with, element by element, read by libexpat.
 *
 * A document type is refused, so nothing is ever expanded; depth, names and text are capped.
 */
#ifndef NC_XML_H
#define NC_XML_H

#include "nc/err.h"
#include "nc/mem.h"

#define NC_XML_MAX_DEPTH 32
#define NC_XML_MAX_NAME 128
#define NC_XML_MAX_TEXT ((size_t)64 << 10)

/* An element that has just ended. */
struct nc_xml {
    const char *path; /* "Response/Errors/Error/Code" */
    const char *text; /* directly in it, after its last child; "" where there is none */
};

/* Negative ends the reading. */
typedef int (*nc_xml_fn)(void *user, const struct nc_xml *element, struct nc_err *err);

/* Calls `element` at each end of an element, a parent after its children. Negative with
 * NC_ERR_PROTOCOL and the byte offset, or what `element` returned; what was read before was
 * reported. The text may be a secret: all that held it is wiped. */
int nc_xml_read(const char *data, size_t n, nc_xml_fn element, void *user, struct nc_err *err);

#endif
