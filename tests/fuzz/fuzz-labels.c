/*
 * Labels and taints as flags and as documents have them: what is accepted is what kubelet would
 * accept, and reads the same when it is written again. The first byte chooses the reader.
 */
#include <stdint.h>

#include "nc/str.h"

#include "shapes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const struct nc_mark mark = {1, 1, 1, 0};

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static void check_refusal(int r, const struct nc_err *err, const void *ret, size_t n) {
    must(r < 0 && err->class == NC_ERR_CONFIG && err->msg[0] && !ret && n == 0);
    must(nc_is_text(err->msg, strlen(err->msg)));
}

static void labels(const char *text) {
    struct nc_label *v = NULL, *back = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf again = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    size_t n = 0, back_n = 0;
    char why[256] = "";
    const int r = nc_labels_parse(text, mark, &v, &n, &err);

    if (r < 0) {
        check_refusal(r, &err, v, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        must(nc_label_is_valid(v[i].key, v[i].value, why, sizeof(why)));
        (void)nc_buf_printf(&again, "%s%s=%s", i ? "," : "", v[i].key, v[i].value);
        for (size_t k = 0; k < i; k++)
            must(!nc_streq(v[k].key, v[i].key));
    }
    must(nc_labels_parse(again.data ? again.data : "", mark, &back, &back_n, &err) >= 0
         && back_n == n);
    for (size_t i = 0; i < n; i++)
        must(nc_streq(v[i].key, back[i].key) && nc_streq(v[i].value, back[i].value));
    nc_labels_free(v, n);
    nc_labels_free(back, back_n);
}

static void check_taints(const struct nc_taint *v, size_t n) {
    nc_auto_value struct nc_value *tree = nc_taints_tree(v, n);
    struct nc_taint *back = NULL;
    struct nc_err err = NC_ERR_INIT;
    size_t back_n = 0;
    char why[256] = "";

    must((tree != NULL) == (n > 0));
    for (size_t i = 0; i < n; i++)
        must(nc_taint_is_valid(&v[i], why, sizeof(why)));
    if (!tree)
        return;
    must(nc_taints_read(tree, "field", &back, &back_n, &err) >= 0 && back_n == n);
    for (size_t i = 0; i < n; i++)
        must(nc_streq(v[i].key, back[i].key) && nc_streq(v[i].value, back[i].value)
             && nc_streq(v[i].effect, back[i].effect));
    nc_taints_free(back, back_n);
}

static void taints(const char *text, bool is_document) {
    nc_auto_value struct nc_value *list = NULL;
    struct nc_taint *v = NULL;
    struct nc_err err = NC_ERR_INIT;
    size_t n = 0;
    int r;

    if (is_document && nc_json_parse(text, strlen(text), &list, NULL) < 0)
        return;
    r = is_document ? nc_taints_read(list, "field", &v, &n, &err)
                    : nc_taints_parse(text, mark, &v, &n, &err);
    if (r < 0) {
        check_refusal(r, &err, v, n);
        return;
    }
    check_taints(v, n);
    nc_taints_free(v, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_free char *text = NULL;

    if (n == 0)
        return 0;
    text = nc_strndup((const char *)data + 1, n - 1);
    if (data[0] % 3 == 0)
        labels(text);
    else
        taints(text, data[0] % 3 == 2);
    return 0;
}
