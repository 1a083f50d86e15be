/*
 * KubeletConfiguration: the base that the plan writes, the rules that kubelet would otherwise
 * enforce by exiting, and the user's flags.
 */
#ifndef NC_PLAN_KUBELET_H
#define NC_PLAN_KUBELET_H

#include "nc/plan.h"
#include "origin.h"

struct nc_kubelet_input {
    const struct nc_config *config;
    unsigned minor;
    const char *provider_id;
    const char *cluster_dns; /* NULL: the user's configuration has it */
    int64_t max_pods;
    const struct nc_value *kube_reserved, *system_reserved; /* maps, NULL = none; copied */
    bool uses_soci; /* images are pulled by the SOCI snapshotter */
    const struct nc_taint *taints;
    size_t n_taints;
    const struct nc_value *user,
        *flags; /* what will be laid over the base: some defaults give way to it */
};

/* The base. Reasons get one entry for each value that is not a plain default. */
struct nc_value *nc_kubelet_base(const struct nc_kubelet_input *in, struct nc_reasons *reasons);

/* Kind and apiVersion first, then the user's map. */
struct nc_value *nc_kubelet_dropin(const struct nc_value *user);

/* What kubelet 1.minor checks across and within fields of the final configuration, as far as a user
 * can set it. NC_ERR_CONFIG with the place of the value. docs may be NULL. */
int nc_kubelet_check(const struct nc_value *kubelet, unsigned minor,
                     const struct nc_documents *docs, struct nc_err *err);

/* A duration field ("2m30s"); false where it is missing or none. */
bool nc_kubelet_duration(const struct nc_value *kubelet, const char *field, uint64_t *ret_usec);

/* --- kubelet-flags.c: taken apart as a shell or systemd would, laid over as kubelet does */

struct nc_flag {
    char *argument; /* one argument, unquoted: "--max-pods=20" */
    char *name;     /* "max-pods", "v" */
    char *value;    /* "20", NULL where it has none */
    struct nc_mark mark;
};

struct nc_flags {
    struct nc_flag *v;
    size_t n;
    struct nc_mark refused; /* of the item that failed */
};

#define NC_FLAGS_INIT                                                                              \
    { 0 }
void nc_flags_done(struct nc_flags *f);

/* Splits each item into words (quotes are taken off, as systemd does with $ARGS) and joins "--key
 * value". NC_ERR_CONFIG: an open quote, or a word that is no flag: then *ret has
 * its place, and nothing else. marks may be NULL. */
int nc_flags_parse(const struct nc_strv *items, const struct nc_mark *marks, struct nc_flags *ret,
                   struct nc_err *err);

/* The last of that name: the one that counts. NULL where there is none. */
const struct nc_flag *nc_flags_find(const struct nc_flags *f, const char *name);

/* Those flags that set a field of KubeletConfiguration, as a map in its shape, every leaf with its
 * flag's mark. NC_ERR_CONFIG where a value is not of the field's type. Never NULL on success. */
int nc_flags_tree(struct nc_flags *f, struct nc_value **ret, struct nc_err *err);

/* Lays that tree over a configuration: a flag replaces a complete map or list, only feature gates
 * are merged (kubeletConfigFlagPrecedence). `flags` is not consumed. */
void nc_flags_apply(struct nc_value *config, const struct nc_value *flags);

/* The flag that sets a top-level field ("kubeReserved" -> "kube-reserved"), perhaps in buf; NULL
 * where none does. */
#define NC_FLAG_NAME_MAX ((size_t)64)
const char *nc_flag_of_field(const char *field, char buf[static NC_FLAG_NAME_MAX]);

#endif
