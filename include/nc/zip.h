/*
 * gzip, with a cap: a bomb costs its cap and an error, not memory.
 */
#ifndef NC_ZIP_H
#define NC_ZIP_H

#include <stdbool.h>

#include "nc/err.h"
#include "nc/mem.h"

bool nc_is_gzip(const char *data, size_t n);
/* Inflates one gzip member sequence into out, at most out's cap. NC_ERR_CONFIG: truncated, corrupt,
 * trailing bytes, or too large. */
int nc_gunzip(const char *data, size_t n, struct nc_buf *out, struct nc_err *err);

#endif
