/*
 * TOML: what is accepted is written, read again and equal, and written the same; what is refused
 * names a line and leaves nothing.
 */
#include <stdint.h>

#include "nc/str.h"
#include "nc/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_value struct nc_value *v = NULL, *back = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf once = NC_BUF_INIT, twice = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_toml_parse((struct nc_text){.data = (const char *)data, .n = n}, &v, &err) < 0) {
        if (v || err.class != NC_ERR_CONFIG || (err.mark.line == 0 && n <= NC_TOML_MAX_BYTES))
            abort();
        return 0;
    }
    if (nc_toml_write(v, &once) < 0
        || nc_toml_parse((struct nc_text){.data = once.data, .n = once.len}, &back, NULL) < 0
        || !nc_value_equal(v, back))
        abort();
    if (nc_toml_write(back, &twice) < 0 || !nc_streq(once.data, twice.data))
        abort();
    return 0;
}
