/*
 * YAML: what is accepted is valid JSON when written, and that reads the same as YAML.
 */
#include <stdint.h>

#include "nc/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_value **documents;
    struct nc_value **back;
    size_t count;
    size_t one;

    if (nc_yaml_parse((const char *)data, n, 0, &documents, &count, NULL) < 0)
        return 0;
    for (size_t i = 0; i < count; i++) {
        struct nc_buf b = NC_BUF_INIT;
        nc_json_write(&b, documents[i], 2);
        if (nc_yaml_parse(b.data, b.len, 0, &back, &one, NULL) < 0 || one != 1
            || !nc_value_equal(documents[i], back[0]))
            abort();
        nc_values_free(back, one);
        nc_buf_done(&b);
    }
    nc_values_free(documents, count);
    return 0;
}
