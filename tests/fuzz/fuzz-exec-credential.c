/*
 * What a credential plugin prints. A token that is taken can stand in a header; what is refused
 * leaves nothing behind and is the plugin's fault; no message quotes a token.
 */
#include <stdint.h>

#include "nc/kubeconfig.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_exec_credential c;
    struct nc_err err = NC_ERR_INIT;

    if (nc_exec_credential_parse((const char *)data, n, &c, &err) < 0) {
        if (c.token || c.until_usec || !err.msg[0] || strstr(err.msg, "S3CRET"))
            abort();
        return 0;
    }
    if (!c.token || !c.token[0] || strpbrk(c.token, " \t\r\n"))
        abort();
    nc_exec_credential_done(&c);
    return 0;
}
