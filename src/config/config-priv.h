/*
 * How documents become one configuration, and what is said of them.
 */
#ifndef NC_CONFIG_PRIV_H
#define NC_CONFIG_PRIV_H

#include <stdbool.h>

#include "nc/config.h"

/* --- diags.c: what is wrong in the documents, collected so that one run tells everything */

/* At most this many errors, and as many warnings, are kept: a hostile document cannot make more of
 * them. */
#define NC_DIAGS_MAX ((size_t)100)

/* The new one is of the kind PLAIN, and borrowed until the next one; NULL: there were too many. */
struct nc_diagnostic *nc_diag(struct nc_documents *d, bool is_error, struct nc_mark mark,
                              const char *path, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* One of the kind UNSUPPORTED: of a known field, or key. */
void nc_diag_unsupported(struct nc_documents *d, struct nc_mark mark, const char *path,
                         const char *why);

/* Fills err as "SOURCE:LINE:COLUMN: path: message", class config. Returns its code. */
int nc_diag_err(const struct nc_documents *d, struct nc_mark mark, const char *path,
                const char *message, struct nc_err *err);

/* What is said of a part of user data that is a document by all but its type. */
#define NC_MISTYPED                                                                                \
    "a document that is not read: its Content-Type must be application/node.eks.aws or "           \
    "application/vnd.nodeclaimd+yaml"

/* A value as a message names it: "the string 'ten'", "the number 5", "a list". Owned. */
char *nc_value_describe(const struct nc_value *v);

/* --- config-merge.c: all documents into one tree, with the place of every value kept */

/* Fills ret->tree, kubelet_flags, kubelet_flag_marks, claim and has_claim_document, and notes in
 * ret->warnings. */
int nc_config_merge(const struct nc_documents *d, struct nc_config *ret, struct nc_err *err);

/* The values of a map that are numbers become text, as which kubelet wants them: `cpu: 1` is a
 * number to YAML. */
void nc_quote_numbers(struct nc_value *map);
/* The same in each map of text of a KubeletConfiguration. */
void nc_kubelet_quote_numbers(struct nc_value *kubelet);

/* The bootstrap token, of a document or of what was merged. The other secrets that a document may
 * carry (NC_FIELD_SECRET) stand in files of the node and stay in memory; messages show none. */
void nc_config_wipe_token(struct nc_value *tree);

/* --- host-settings.c: the part that is about the host */

/* Shapes of what instance.environment, .network and .localStorage hold. */
bool nc_shape_environment_service(const char *s);
bool nc_shape_environment_name(const char *s);
bool nc_shape_environment_value(const char *s);
bool nc_shape_search_domain(const char *s);
bool nc_shape_mount_path(const char *s);

/* Fills c->host from c->tree, but for the texts of containerd.config, which merging has collected.
 * What has no effect goes to c->warnings. */
void nc_fit_config_fill(struct nc_config *c); /* spec.fit */
void nc_host_config_fill(const struct nc_documents *d, struct nc_config *c);

/* Frees all of it. */
void nc_host_config_done(struct nc_host_config *h);

#endif
