/*
 * What tests of several rooms share: a document, a text without its marks, a seeded generator.
 */
#ifndef NC_BASE_TEST_H
#define NC_BASE_TEST_H

#include "groups.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nc/value.h"

/* A text for people without its marks (NC_MARK_*), in place. */
static inline void drop_marks(char *text) {
    char *to = text;

    for (; *text; text++)
        if (*text < '\001' || *text > '\004')
            *to++ = *text;
    *to = '\0';
}

/* A document; an apostrophe is a quote. Owned. */
static inline struct nc_value *json(const char *text) {
    struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *copy = nc_strdup(text);

    for (char *p = copy; *p; p++)
        if (*p == '\'')
            *p = '"';
    if (nc_json_parse(copy, strlen(copy), &v, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return v;
}

/* splitmix64: every seed, 0 too, gives a full-period sequence. */
static inline uint64_t prng_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static inline size_t prng_below(uint64_t *state, size_t n) {
    return (size_t)(prng_next(state) % n);
}

#endif
