/*
 * NodeClaims of the API: any JSON either becomes a claim with every text in place, or is refused as
 * the peer's fault.
 */
#include <stdint.h>

#include "nc/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_value *object = NULL;
    struct nc_claim c = {0};
    struct nc_err err = NC_ERR_INIT;

    if (nc_json_parse((const char *)data, n, &object, NULL) < 0)
        return 0;
    if (nc_claim_parse(object, &c, &err) < 0) {
        if (err.class != NC_ERR_PROTOCOL || c.api_version)
            abort();
    } else {
        if (!c.api_version || c.n_plain_taints > c.n_taints)
            abort();
        for (size_t i = 0; i < c.n_taints; i++)
            if (!c.taints[i].key || !c.taints[i].value || !c.taints[i].effect)
                abort();
        for (size_t i = 0; i < c.n_requirements; i++)
            if (!c.requirements[i].key || !c.requirements[i].op)
                abort();
    }
    nc_claim_done(&c);
    nc_value_free(object);
    return 0;
}
