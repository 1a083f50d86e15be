/*
 * Base64: what is accepted encodes to text that decodes to the same bytes.
 */
#include <stdint.h>

#include "nc/encode.h"
#include "nc/mem.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_buf bytes = NC_BUF_INIT;
    struct nc_buf text = NC_BUF_INIT;
    struct nc_buf back = NC_BUF_INIT;

    if (nc_base64_decode((const char *)data, n, &bytes) == 0) {
        nc_base64_encode(bytes.data, bytes.len, &text);
        if (nc_base64_decode(text.data, text.len, &back) < 0 || back.len != bytes.len
            || memcmp(back.data, bytes.data, back.len) != 0)
            abort();
    }
    nc_buf_done(&bytes);
    nc_buf_done(&text);
    nc_buf_done(&back);
    return 0;
}
