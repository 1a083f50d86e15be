/*
 * Kubernetes quantities, exactly: suffixes n u m k M G T P E, Ki … Ei, and decimal exponents.
 */
#ifndef NC_QUANTITY_H
#define NC_QUANTITY_H

#include <stdint.h>

#include "nc/value.h"

/* Value in thousandths (milli), rounded up as apimachinery's MilliValue does. -EINVAL: no quantity;
 * -ERANGE: does not fit. */
int nc_quantity_milli(const char *s, int64_t *ret);
/* Value in whole units (bytes, pods), rounded up as apimachinery's Value does. */
int nc_quantity_value(const char *s, int64_t *ret);
/* A quantity in a document: string or integer (or float text). */
int nc_quantity_of(const struct nc_value *v, int64_t *ret_milli, int64_t *ret_value);
/* Canonical text: "1930m", "2", "6903Mi", "17Gi", "3563690393". */
void nc_quantity_format_milli(int64_t milli, char ret[static 32]);
void nc_quantity_format_bytes(int64_t bytes, char ret[static 32]);

#endif
