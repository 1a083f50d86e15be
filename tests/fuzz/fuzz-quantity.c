/*
 * Quantities: whole units are never less than the thousandths say, and what is formatted parses to
 * the same number.
 */
#include <stdint.h>

#include "nc/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_free char *text = nc_strndup((const char *)data, n);
    int64_t milli, value, back;
    char canonical[32];

    if (nc_quantity_value(text, &value) < 0)
        return 0;
    nc_quantity_format_bytes(value, canonical);
    if (nc_quantity_value(canonical, &back) < 0 || back != value)
        abort();
    if (nc_quantity_milli(text, &milli) < 0)
        return 0;
    nc_quantity_format_milli(milli, canonical);
    if (nc_quantity_milli(canonical, &back) < 0 || back != milli)
        abort();
    if (milli < 0 ? value > 0 : milli <= INT64_MAX - 999 && (milli + 999) / 1000 != value)
        abort();
    return 0;
}
