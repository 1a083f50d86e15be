/*
 * kubeconfig: what is accepted has a server over https, and both halves of a client certificate or
 * none.
 */
#include <stdint.h>

#include "nc/kubeconfig.h"
#include "nc/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_kubeconfig_parse((const char *)data, n, &k, &err) < 0) {
        if (err.class != NC_ERR_CONFIG || k.server)
            abort();
        return 0;
    }
    if (!nc_starts_with(k.server, "https://")
        || !(k.cert_file || k.cert_pem) != !(k.key_file || k.key_pem))
        abort();
    nc_kubeconfig_done(&k);
    return 0;
}
