/*
 * A JSON string, number or literal that comes in pieces: private to this layer.
 */
#ifndef NC_BASE_JSON_TOKEN_H
#define NC_BASE_JSON_TOKEN_H

#include "json-text.h"

struct nc_json_token {
    enum { NC_TOKEN_STRING = 0, NC_TOKEN_NUMBER, NC_TOKEN_LITERAL } kind;
    bool is_done;
    char number;         /* where in a number: json-token.c */
    const char *literal; /* what is still to come of true, false, null */
    struct nc_json_text text;
};

/* Space between tokens. */
static inline bool nc_json_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Its first byte, which is thereby read. False: none begins with it. */
bool nc_json_token_begin(struct nc_json_token *t, char c, bool is_decoding);
/* Reads on up to its end or the end of the piece; *ret_used says how far. A number is done only at
 * a byte that is none of it, which is not read. NULL, or what is wrong with the byte at *ret_used.
 */
const char *nc_json_token_scan(struct nc_json_token *t, const char *data, size_t n,
                               size_t *ret_used);

#endif
