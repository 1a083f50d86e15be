/*
 * A JSON string that comes in pieces: private to this layer.
 */
#ifndef NC_BASE_JSON_TEXT_H
#define NC_BASE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The longest text that can be had decoded; a longer one is only checked. */
#define NC_JSON_TEXT_MAX 320

struct nc_json_text {
    enum { NC_TEXT_PLAIN = 0, NC_TEXT_ESCAPE, NC_TEXT_HEX, NC_TEXT_HALF } state;
    unsigned char hex_left;          /* digits of \uXXXX that are still to come */
    unsigned char more, least, most; /* UTF-8: bytes to come, and what the next may be */
    uint32_t unit, high;             /* of \uXXXX; the first half of a pair */
    bool is_done;                    /* the closing quote was read */
    bool is_decoding, is_too_long;
    size_t n;
    char text[NC_JSON_TEXT_MAX];
};

/* After the opening quote. */
void nc_json_text_begin(struct nc_json_text *t, bool is_decoding);
/* Reads up to the closing quote or the end of the piece; *ret_used says how far. NULL, or what is
 * wrong with the byte at *ret_used. As strict as json-scan.c and cJSON are together. */
const char *nc_json_text_scan(struct nc_json_text *t, const char *data, size_t n, size_t *ret_used);

#endif
