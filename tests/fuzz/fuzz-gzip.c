/*
 * gzip: never more than the cap, and nothing in the buffer after a failure.
 */
#include <stdint.h>

#include "nc/encode.h"

#define CAP_BYTES ((size_t)1 << 16)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_buf out = NC_BUF_INIT_MAX(CAP_BYTES);
    struct nc_err err = NC_ERR_INIT;
    const int r = nc_gunzip((const char *)data, n, &out, &err);

    if (r < 0 ? out.len != 0 || err.class == NC_ERR_NONE : out.len > CAP_BYTES)
        abort();
    nc_buf_done(&out);
    return 0;
}
