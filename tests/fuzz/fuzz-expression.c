/*
 * maxPodsExpression, and expressions of a NodeClass: a number, or one sentence that says why not.
 */
#include <stdint.h>
#include <string.h>

#include "nc/mem.h"

#include "numbers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_expression_variables m5_large = {.default_enis = 3,
                                               .ips_per_eni = 10,
                                               .max_pods = 29,
                                               .least = 1,
                                               .most = INT32_MAX,
                                               .vcpus = 2,
                                               .memory_mib = 8192};
    nc_auto_free char *text = nc_strndup((const char *)data, n);

    for (int i = 0; i < 2; i++) {
        char why[200] = "";
        int64_t pods = 0;

        if (nc_expression_evaluate(text, &m5_large, &pods, why, sizeof(why)) == 0) {
            if (pods < 1 || pods > INT32_MAX)
                abort();
        } else if (!*why || pods != 0) {
            abort();
        }
        m5_large.instance_type = "m5.large";
    }
    return 0;
}
