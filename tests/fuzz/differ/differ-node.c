/*
 * Labels and taints for the comparison with apimachinery's and kubelet's own readers.
 */
#include "differ.h"
#include "shapes.h"

void differ_label(const struct differ_field *f, struct nc_buf *out) {
    char why[384];

    if (nc_label_is_valid(f[0].text, f[1].text, why, sizeof(why)))
        (void)nc_buf_printf(out, "is %s",
                            nc_is_dns_subdomain(f[1].text, f[1].n) ? "subdomain" : "valid");
    else
        (void)nc_buf_printf(out, "refused %s", why);
}

/* What kubelet would not be given is marked: it exits where it is. */
void differ_node_labels(const struct differ_field *f, struct nc_buf *out) {
    struct nc_err err = NC_ERR_INIT;
    struct nc_label *labels = NULL;
    size_t n = 0;

    if (nc_labels_parse(f->text, (struct nc_mark){0}, &labels, &n, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    nc_labels_sort(labels, n);
    (void)nc_buf_puts(out, "is");
    for (size_t i = 0; i < n; i++)
        (void)nc_buf_printf(out, " %s%s=%s", nc_label_refusal(labels[i].key) ? "!" : "",
                            labels[i].key, labels[i].value);
    nc_labels_free(labels, n);
}

void differ_taints(const struct differ_field *f, struct nc_buf *out) {
    struct nc_err err = NC_ERR_INIT;
    struct nc_taint *taints = NULL;
    size_t n = 0;

    if (nc_taints_parse(f->text, (struct nc_mark){0}, &taints, &n, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    (void)nc_buf_puts(out, "is");
    for (size_t i = 0; i < n; i++)
        (void)nc_buf_printf(out, " %s=%s:%s", taints[i].key, taints[i].value, taints[i].effect);
    nc_taints_free(taints, n);
}
