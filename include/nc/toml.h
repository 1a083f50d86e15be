/*
 * TOML 1.0, into and out of the tree of nc/value.h: what containerd is configured with.
 *
 * The tree of a document is a map. An integer is exact in 64 bits. A float is a NC_VALUE_FLOAT
 * whose text is a JSON number, "inf", "-inf" or "nan". The four kinds of dates and times are
 * NC_VALUE_TIME, whose text is as written. A tree has no place for NUL, so "\u0000" is refused.
 * Comments and the layout are not kept.
 */
#ifndef NC_TOML_H
#define NC_TOML_H

#include <stddef.h>

#include "nc/err.h"
#include "nc/mem.h"
#include "nc/value.h"

/* Limits of a document, beside NC_VALUE_MAX_DEPTH: containerd's own default is 10 KiB with some 300
 * values. Keys are found by a walk over their table, so values are fewer than in YAML. */
#define NC_TOML_MAX_BYTES ((size_t)1 << 20)
#define NC_TOML_MAX_VALUES 4096

/* *ret is owned by the caller, and written only on success. Marks have line and column, source 0.
 * -EINVAL with NC_ERR_CONFIG, the message starts with "line L, column C: ". */
int nc_toml_parse(const char *text, size_t n, struct nc_value **ret, struct nc_err *err);

/* Appends the map v: the scalars and arrays of a table first, then its tables below headers, each
 * in the order of the tree. What is written reads back as an equal tree; numbers take their
 * shortest form. 0; -EINVAL where v is no map or holds a null, which TOML cannot say; -EFBIG at the
 * cap of out. On failure out is as before. */
int nc_toml_write(const struct nc_value *v, struct nc_buf *out);

#endif
