/*
 * JSON: what is accepted is written, parsed again and equal.
 */
#include <stdint.h>

#include "nc/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_value struct nc_value *v = NULL;
    nc_auto_value struct nc_value *back = NULL;
    struct nc_buf b = NC_BUF_INIT;

    if (nc_json_parse((const char *)data, n, &v, NULL) < 0)
        return 0;
    nc_json_write(&b, v, 0);
    if (nc_json_parse(b.data, b.len, &back, NULL) < 0 || !nc_value_equal(v, back))
        abort();
    nc_buf_done(&b);
    return 0;
}
