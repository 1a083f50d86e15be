/*
 * The strings, numbers, dates and times of TOML: private to this layer.
 */
#ifndef NC_BASE_TOML_TOKEN_H
#define NC_BASE_TOML_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#include "nc/value.h"

/* A text of which all was found to be UTF-8 without forbidden control characters. */
struct nc_toml_text {
    const char *data;
    size_t n, at;
};

/* The next byte, or that many behind it; -1 at the end. */
static inline int nc_toml_peek(const struct nc_toml_text *t, size_t ahead) {
    return ahead < t->n - t->at ? (unsigned char)t->data[t->at + ahead] : -1;
}

/* Both read on from t->at and return NULL, or what is wrong at t->at, where they then stopped.
 *
 * A string from its opening quote; it replaces what is in ret. A key has no multi-line form. */
const char *nc_toml_string(struct nc_toml_text *t, bool is_key, struct nc_buf *ret);
/* A boolean, number, date or time: type and contents of v. */
const char *nc_toml_scalar(struct nc_toml_text *t, struct nc_value *v);

#endif
