/*
 * The look at JSON bytes before cJSON sees them: private to this layer.
 */
#ifndef NC_BASE_JSON_SCAN_H
#define NC_BASE_JSON_SCAN_H

#include <stddef.h>

#include "nc/err.h"

/* The numbers of a text in the order written: cJSON keeps only their doubles. */
struct nc_json_scan {
    const char *data;
    size_t n;
    size_t at; /* the byte being read; on failure the one to blame */
    size_t depth;
    size_t values, max_values;
    struct nc_json_number {
        size_t start;
        size_t length;
    } * numbers;
    size_t n_numbers;
};

/* Checks everything that cJSON lets pass: bytes outside strings, number syntax, control characters,
 * UTF-8, \u0000, depth and count of values. 0, or -EPROTO with err filled. */
int nc_json_scan(struct nc_json_scan *s, struct nc_err *err);
void nc_json_scan_done(struct nc_json_scan *s);

#endif
