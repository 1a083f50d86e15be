/*
 * Role credentials: what is accepted has both keys; what is refused leaves nothing behind.
 */
#include <stdint.h>

#include "nc/imds.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_credentials c = {0};
    struct nc_err err = NC_ERR_INIT;

    if (nc_credentials_parse((const char *)data, n, &c, &err) < 0) {
        if (c.access_key_id || (err.class != NC_ERR_PROTOCOL && err.class != NC_ERR_AUTH))
            abort();
        return 0;
    }
    if (!c.access_key_id || !c.access_key_id[0] || !c.secret_access_key || !c.secret_access_key[0])
        abort();
    nc_credentials_done(&c);
    return 0;
}
