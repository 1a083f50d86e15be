/*
 * YAML: what is accepted is valid JSON when written, and that reads the same as YAML.
 */
#include <stdint.h>

#include "nc/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_values documents, back;

    if (nc_yaml_parse((struct nc_text){.data = (const char *)data, .n = n}, 0, &documents, NULL)
        < 0)
        return 0;
    for (size_t i = 0; i < documents.n; i++) {
        struct nc_buf b = NC_BUF_INIT;
        nc_json_write(&b, documents.v[i], 2);
        if (nc_yaml_parse((struct nc_text){.data = b.data, .n = b.len}, 0, &back, NULL) < 0
            || back.n != 1 || !nc_value_equal(documents.v[i], back.v[0]))
            abort();
        nc_values_done(&back);
        nc_buf_done(&b);
    }
    nc_values_done(&documents);
    return 0;
}
