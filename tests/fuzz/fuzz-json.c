/*
 * JSON: what is accepted is written, parsed again and equal; what is refused leaves nothing; and
 * there is a limit to how many values are made.
 */
#include <stdint.h>

#include "nc/value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static size_t count(const struct nc_value *v) {
    size_t n = 1;

    for (size_t i = 0; i < v->n; i++)
        n += count(v->type == NC_VALUE_MAP ? v->members[i].value : v->items[i]);
    return n;
}

/* Values are counted by their commas and brackets: at most twice as many are
 * made as there is room for. */
static void check_room(const char *data, size_t n, size_t values) {
    nc_auto_value struct nc_value *fits = NULL;
    struct nc_value *does_not = NULL;

    if (nc_json_parse_large(data, n, 2 * values, &fits, NULL) < 0)
        abort();
    if (values > 3 && nc_json_parse_large(data, n, values / 2 - 1, &does_not, NULL) >= 0)
        abort();
    if (does_not)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_value struct nc_value *v = NULL;
    nc_auto_value struct nc_value *back = NULL;
    struct nc_buf b = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_json_parse((const char *)data, n, &v, &err) < 0) {
        if (v || err.class != NC_ERR_PROTOCOL || !err.msg[0])
            abort();
        return 0;
    }
    nc_json_write(&b, v, 0);
    if (nc_json_parse(b.data, b.len, &back, NULL) < 0 || !nc_value_equal(v, back))
        abort();
    check_room((const char *)data, n, count(v));
    nc_buf_done(&b);
    return 0;
}
