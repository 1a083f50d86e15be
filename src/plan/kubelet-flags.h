/*
 * The user's kubelet flags: taken apart as a shell or systemd would, and laid over the
 * configuration as kubelet does.
 */
#ifndef NC_PLAN_KUBELET_FLAGS_H
#define NC_PLAN_KUBELET_FLAGS_H

#include "nc/plan.h"

struct nc_flag {
    char *argument; /* one argument, unquoted: "--max-pods=20" */
    char *name;     /* "max-pods", NULL where it is no long flag */
    char *value;    /* "20", NULL where it has none */
    struct nc_mark mark;
};

struct nc_flags {
    struct nc_flag *v;
    size_t n;
};

#define NC_FLAGS_INIT                                                                              \
    { 0 }
void nc_flags_done(struct nc_flags *f);

/* Splits each item into words (quotes are taken off, as systemd does with $ARGS) and joins "--key
 * value". NC_ERR_CONFIG: an open quote, or a word that is no flag. marks may be NULL. */
int nc_flags_parse(const struct nc_strv *items, const struct nc_mark *marks, struct nc_flags *ret,
                   struct nc_err *err);

/* The last of that name: the one that counts. NULL where there is none. */
const struct nc_flag *nc_flags_find(const struct nc_flags *f, const char *name);

/* Those flags that set a field of KubeletConfiguration, as a map in its shape, every leaf with its
 * flag's mark. NC_ERR_CONFIG where a value is not of the field's type. Never NULL on success. */
int nc_flags_tree(const struct nc_flags *f, struct nc_value **ret, struct nc_err *err);

/* Lays that tree over a configuration: a flag replaces a complete map or list, only feature gates
 * are merged (kubeletConfigFlagPrecedence). `flags` is not consumed. */
void nc_flags_apply(struct nc_value *config, const struct nc_value *flags);

/* The flag that sets a top-level field ("kubeReserved" -> "kube-reserved"), NULL where none does.
 */
const char *nc_flag_of_field(const char *field);

#endif
