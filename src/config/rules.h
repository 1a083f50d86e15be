/*
 * Rules of the Kubernetes and Karpenter APIs that a table of fields cannot say.
 */
#ifndef NC_CONFIG_RULES_H
#define NC_CONFIG_RULES_H

#include "nc/config.h"

/* NodeClaim, facts from the CRD: operators and their values, restricted label domains, duplicate
 * taints, quantities. What cannot be evaluated is an error; what the API server would have refused,
 * but a node can live with, a warning. */
void nc_rules_node_claim(struct nc_documents *d, const struct nc_value *claim);

/* NodeClass: what a node must not be told by it, and slips that Karpenter would refuse (warnings).
 */
void nc_rules_node_class(struct nc_documents *d, const struct nc_value *node_class);

/* Taints of one list, and those of `other` (may be NULL): one key and effect may stand there once.
 */
void nc_rules_taints(struct nc_documents *d, const struct nc_value *taints,
                     const struct nc_value *other, const char *path, const char *other_path);

/* A NodeConfig: the TOML text for containerd. */
void nc_rules_node_config(struct nc_documents *d, const struct nc_value *config);

#endif
