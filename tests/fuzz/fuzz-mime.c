/*
 * User data: whatever decodes stays inside the limits, and every part is NUL-terminated.
 */
#include <stdint.h>

#include "nc/str.h"
#include "nc/userdata.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_userdata u = NC_USERDATA_INIT;
    struct nc_err err = NC_ERR_INIT;
    int r = nc_userdata_decode((const char *)data, n, &u, &err);

    if (r < 0 && (err.class != NC_ERR_CONFIG || err.msg[0] == '\0' || u.n != 0))
        abort();
    if (u.n > NC_USERDATA_MAX_PARTS)
        abort();
    for (size_t i = 0; i < u.n; i++) {
        if (u.parts[i].data[u.parts[i].n] != '\0' || u.parts[i].line == 0
            || u.parts[i].n > NC_USERDATA_MAX_INFLATED)
            abort();
        if (!nc_is_text(u.parts[i].name, strlen(u.parts[i].name)))
            abort();
        (void)nc_userdata_part_is_ours(&u.parts[i]);
    }
    nc_userdata_done(&u);
    return 0;
}
