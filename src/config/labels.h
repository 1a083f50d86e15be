/*
 * Labels and taints of the node: united from several places, checked as kubelet will check them.
 */
#ifndef NC_CONFIG_LABELS_H
#define NC_CONFIG_LABELS_H

#include "nc/config.h"

/* Why kubelet must not be given this label although it is well formed: a fixed sentence, NULL where
 * it may. (kubelet exits on a kubernetes.io or k8s.io label that is not in its list:
 * cmd/kubelet/app/options.) */
const char *nc_label_refusal(const char *key);

/* A DNS-1123 subdomain: the domain of a label, the name of a node. */
bool nc_is_dns_subdomain(const char *s, size_t n);

/* Room for a sentence about a label or taint: a quoted text may be long, and a sentence that ends
 * within it does not state what is wrong with it. */
#define NC_LABEL_WHY_BYTES 768
/* Is it a qualified name and a label value (apimachinery's validation)? One sentence in `why` where
 * not. */
bool nc_label_is_valid(const char *key, const char *value, char *why, size_t size);

/* Puts a label: an older one of the same key is replaced in place. Returns the replaced value
 * (owned) or NULL. */
char *nc_labels_set(struct nc_label **labels, size_t *n, const char *key, const char *value,
                    struct nc_mark mark);
void nc_labels_sort(struct nc_label *labels, size_t n); /* by key */
void nc_labels_free(struct nc_label *labels, size_t n);

/* Puts a taint: an older one of the same key and effect is replaced in place. Returns the replaced
 * value or NULL. */
char *nc_taints_set(struct nc_taint **taints, size_t *n, const struct nc_taint *t);
void nc_taints_free(struct nc_taint *taints, size_t n);
bool nc_taint_is_valid(const struct nc_taint *t, char *why, size_t size);

/* "k=v,k2=v2" of --node-labels, as kubelet splits it. NC_ERR_CONFIG for what kubelet would refuse.
 */
int nc_labels_parse(const char *text, struct nc_mark mark, struct nc_label **ret, size_t *ret_n,
                    struct nc_err *err);
/* "k=v:Effect,k2:Effect" of --register-with-taints. */
int nc_taints_parse(const char *text, struct nc_mark mark, struct nc_taint **ret, size_t *ret_n,
                    struct nc_err *err);
/* A list of {key, value, effect} of a document. */
int nc_taints_read(const struct nc_value *list, const char *field, struct nc_taint **ret,
                   size_t *ret_n, struct nc_err *err);
/* And back: a list for registerWithTaints, NULL where there is none. */
struct nc_value *nc_taints_tree(const struct nc_taint *taints, size_t n);

#endif
