/*
 * A JSON object or array that nobody wants, passed over as it comes: private to this layer.
 */
#ifndef NC_BASE_JSON_SKIP_H
#define NC_BASE_JSON_SKIP_H

#include "json-token.h"

struct nc_json_skip {
    uint64_t objects; /* a bit for each open bracket, innermost lowest: 1 = it is an object */
    unsigned depth;   /* open brackets; 0 = the value is complete */
    unsigned room;    /* how many may be open; at most 64 */
    enum {
        NC_SKIP_VALUE = 0,
        NC_SKIP_VALUE_OR_END,
        NC_SKIP_KEY,
        NC_SKIP_KEY_OR_END,
        NC_SKIP_COLON,
        NC_SKIP_COMMA_OR_END,
        NC_SKIP_IN_KEY,
        NC_SKIP_IN_VALUE,
    } expect;
    struct nc_json_token token;
};

/* With its first bracket, which is thereby read. `room` from 1 to 64. */
void nc_json_skip_begin(struct nc_json_skip *s, char bracket, unsigned room);
/* Reads on up to its end (depth is 0 then) or the end of the piece; *ret_used says how far. NULL,
 * or what is wrong with the byte at *ret_used. */
const char *nc_json_skip(struct nc_json_skip *s, const char *data, size_t n, size_t *ret_used);

#endif
