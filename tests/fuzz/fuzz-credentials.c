/*
 * Credentials of a role: from IMDS, from a container's endpoint, from STS. What is accepted has
 * both keys; what is refused leaves nothing behind, and no message quotes a secret. The first byte
 * chooses the reader; the text is a container's endpoint, too.
 */
#include <stdint.h>

#include "nc/role.h"
#include "nc/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int read_as(uint8_t which, const char *data, size_t n, struct nc_credentials *ret,
                   struct nc_err *err) {
    const struct nc_http_result result = {
        .outcome = NC_HTTP_ANSWERED, .status = which % 4 == 2 ? 200 : 403, .body = data, .n = n};

    if (which % 4 == 0)
        return nc_credentials_parse(data, n, ret, err);
    if (which % 4 == 1)
        return nc_credentials_parse_container(data, n, ret, err);
    return nc_role_read_sts(&result, ret, err);
}

static void check_uri(const char *data, size_t n) {
    nc_auto_free char *uri = nc_strndup(data, n);

    if (!nc_role_is_container_uri(uri))
        return;
    if (!nc_starts_with(uri, "https://") && !nc_starts_with(uri, "http://"))
        abort();
    if (strpbrk(uri, " @\\\r\n"))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_credentials c = {0};
    struct nc_err err = NC_ERR_INIT;
    const char *text = (const char *)data + 1;

    if (n == 0)
        return 0;
    check_uri(text, n - 1);
    if (read_as(data[0], text, n - 1, &c, &err) < 0) {
        if (c.access_key_id || !err.msg[0]
            || (err.class != NC_ERR_PROTOCOL && err.class != NC_ERR_AUTH
                && err.class != NC_ERR_TRANSIENT))
            abort();
        return 0;
    }
    if (!c.access_key_id || !c.access_key_id[0] || !c.secret_access_key || !c.secret_access_key[0]
        || data[0] % 4 == 3)
        abort();
    nc_credentials_done(&c);
    return 0;
}
