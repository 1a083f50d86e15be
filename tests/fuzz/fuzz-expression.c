/*
 * maxPodsExpression: a number of pods, or one sentence that says why not.
 */
#include <stdint.h>
#include <string.h>

#include "nc/mem.h"

#include "numbers.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    static const struct nc_expression_variables m5_large = {3, 10, 29};
    nc_auto_free char *text = nc_strndup((const char *)data, n);
    char why[200] = "";
    int64_t pods = 0;

    if (nc_expression_evaluate(text, &m5_large, &pods, why, sizeof(why)) == 0) {
        if (pods < 1 || pods > INT32_MAX)
            abort();
    } else if (!*why || pods != 0) {
        abort();
    }
    return 0;
}
