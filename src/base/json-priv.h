/*
 * How JSON is read while it comes in: private to this layer.
 */
#ifndef NC_BASE_JSON_PRIV_H
#define NC_BASE_JSON_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/mem.h"

/* --- json-token.c: a string, number or literal that comes in pieces */

struct nc_json_token {
    enum { NC_TOKEN_STRING = 0, NC_TOKEN_NUMBER, NC_TOKEN_LITERAL } kind;
    bool is_done;        /* a string's closing quote was read, the byte behind a number was seen */
    char number;         /* where in a number: json-token.c */
    const char *literal; /* what is still to come of true, false, null */

    enum { NC_TEXT_PLAIN = 0, NC_TEXT_ESCAPE, NC_TEXT_HEX, NC_TEXT_HALF } state; /* in a string */
    unsigned char hex_left;          /* digits of \uXXXX that are still to come */
    unsigned char more, least, most; /* UTF-8: bytes to come, and what the next may be */
    uint32_t unit, high;             /* of \uXXXX; the first half of a pair */
    struct nc_buf *decoded;          /* NULL: the string is only checked */
    bool has_nul;                    /* \u0000 was in it, and is \ufffd in `decoded` */
    bool is_too_long;                /* for `decoded`, which has only a part */
};

/* Space between tokens. */
static inline bool nc_json_is_space(char c) {
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Its first byte, which is thereby read. A string goes to `decoded`, if not NULL: borrowed until
 * the token is done. False: none begins with it. */
bool nc_json_token_begin(struct nc_json_token *t, char c, struct nc_buf *decoded);
/* Reads on up to its end or the end of the piece; *ret_used states how far. A number is done only
 * at a byte that is none of it, which is not read. NULL, or what is wrong with the byte at
 * *ret_used.
 */
const char *nc_json_token_scan(struct nc_json_token *t, const char *data, size_t n,
                               size_t *ret_used);

/* Digits without a sign: an integer beyond 2^53, which nc_json_parse refuses? */
bool nc_json_is_too_large(const char *digits, size_t n);
/* Mends, in place, valid JSON that nc_json_parse refuses (\u0000, integers that are too large):
 * anybody who may write one text or number of one object (an annotation, a grace period) would
 * otherwise make the complete list unreadable for us. */
void nc_json_mend(struct nc_buf *b);

/* --- json-paths.c: dotted paths as a tree of keys */

struct nc_json_path {
    struct nc_json_path *next;  /* another key of the same object */
    struct nc_json_path *first; /* the keys below */
    char *key;
    size_t n;
    char *literal; /* the key as JSON with its colon */
    size_t literal_n;
    bool is_complete; /* a path ends here: everything below is meant */
};

/* NULL-terminated; NULL: everything. Behind a backslash a dot or backslash is a key's own. Owned.
 */
struct nc_json_path *nc_json_paths_new(const char *paths);
struct nc_json_path *nc_json_paths_free(struct nc_json_path *root);
const struct nc_json_path *nc_json_path_find(const struct nc_json_path *node, const char *key,
                                             size_t n);

#endif
