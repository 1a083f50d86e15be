/*
 * Documents: whatever stands in them, the configuration is built exactly if no diagnostic is an
 * error and nothing is missing; building twice gives the same; every message is text.
 */
#include <stdint.h>

#include "nc/config.h"
#include "nc/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_text(const char *text) {
    if (!text || !nc_is_text(text, strlen(text)))
        abort();
}

static void build(const struct nc_documents *d, struct nc_buf *tree) {
    struct nc_config c = NC_CONFIG_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_config_build(d, &c, &err) < 0) {
        if (err.class != NC_ERR_CONFIG || err.msg[0] == '\0')
            abort();
        return;
    }
    if (nc_documents_errors(d) > 0 || !c.tree || (c.auth == NC_AUTH_EKS && !c.cluster_name))
        abort();
    nc_json_write(tree, c.tree, 0);
    for (size_t i = 0; i < c.warnings.n; i++)
        check_text(c.warnings.v[i]);
    nc_config_done(&c);
}

/* As `check` finds all that is wrong: each time one value less, so that it ends. */
static void set_aside(struct nc_documents *d) {
    size_t n_errors = nc_documents_errors(d);

    nc_documents_set_aside_errors(d);
    for (;;) {
        nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
        struct nc_err err = NC_ERR_INIT;

        if (nc_config_build(d, &c, &err) == 0 || nc_documents_set_aside(d, &err) <= 0)
            return;
        if (nc_documents_errors(d) != ++n_errors)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct nc_documents d = NC_DOCUMENTS_INIT;
    struct nc_err err = NC_ERR_INIT;
    struct nc_buf first = NC_BUF_INIT;
    struct nc_buf second = NC_BUF_INIT;
    struct nc_buf printed = NC_BUF_INIT;

    if (nc_documents_add(&d, "d", (struct nc_text){(const char *)data, n, 1, 0}, &err) == 0) {
        build(&d, &first);
        build(&d, &second);
        if (first.len != second.len
            || (first.len > 0 && memcmp(first.data, second.data, first.len) != 0))
            abort();
        set_aside(&d);
        nc_documents_print(&d, true, &printed);
        if (printed.data)
            check_text(printed.data);
    }
    nc_buf_done(&first);
    nc_buf_done(&second);
    nc_buf_done(&printed);
    nc_documents_done(&d);
    return 0;
}
