/*
 * Merging: all documents into one tree, with the place of every value kept.
 */
#ifndef NC_CONFIG_MERGE_H
#define NC_CONFIG_MERGE_H

#include "nc/config.h"

/* Fills ret->tree, kubelet_flags, kubelet_flag_marks, claim and has_claim_document, and notes in
 * ret->warnings. */
int nc_config_merge(const struct nc_documents *d, struct nc_config *ret, struct nc_err *err);

/* The values of a map that are numbers become text, as which kubelet wants them: `cpu: 1` is a
 * number to YAML. */
void nc_quote_numbers(struct nc_value *map);
/* The same in each map of text of a KubeletConfiguration. */
void nc_kubelet_quote_numbers(struct nc_value *kubelet);

/* A bootstrap token is the only secret that a document may carry: of a document or of what was
 * merged.
 */
void nc_config_wipe_token(struct nc_value *tree);

#endif
