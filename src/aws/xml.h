/*
 * A pull reader of the XML that EC2 answers with. Strict and small: what EC2 never writes is an
 * error.
 *
 * Elements, character data, the five named and the numeric references, CDATA, comments and one XML
 * declaration. Attributes are checked and skipped. A document type is refused: nothing is ever
 * expanded.
 */
#ifndef NC_XML_H
#define NC_XML_H

#include "nc/err.h"
#include "nc/mem.h"

#define NC_XML_MAX_DEPTH 32
#define NC_XML_MAX_NAME 128
#define NC_XML_MAX_TEXT ((size_t)64 << 10)

enum nc_xml_kind {
    NC_XML_OPEN = 1, /* the path ends in the element that begins */
    NC_XML_CLOSE,    /* the path still ends in the element that ended; text holds the character data
                        directly in it */
    NC_XML_END,
};

struct nc_xml {
    const char *data, *at, *end;
    struct nc_buf path; /* "Response/Errors/Error/Code" */
    struct nc_buf text; /* of the innermost element; nothing but white space is dropped where
                           elements follow */
    unsigned depth;
    int closing; /* the path's last element goes with the next step */
    int empty;   /* "<a/>": the close comes next */
    int rooted;
};

void nc_xml_init(struct nc_xml *x, const char *data, size_t n);
void nc_xml_done(struct nc_xml *x);
/* The next event as enum nc_xml_kind, or negative with NC_ERR_PROTOCOL and the byte offset. */
int nc_xml_next(struct nc_xml *x, struct nc_err *err);

#endif
