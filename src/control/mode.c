/*
 * What may be done: by who leads, by what was seen, and by whether Karpenter is here.
 */
#include "step.h"

const char *nc_control_mode_name(enum nc_control_mode m) {
    static const char *const names[_NC_CONTROL_MODE_MAX] = {
        [NC_CONTROL_MODE_UNKNOWN] = "unknown",
        [NC_CONTROL_KARPENTER] = "karpenter",
        [NC_CONTROL_STANDALONE] = "standalone",
    };

    return names[m];
}

const char *nc_control_doubts(const struct nc_control *c) {
    if (!c->is_guess || c->mode == NC_CONTROL_MODE_UNKNOWN)
        return NULL;
    if (c->mode == NC_CONTROL_KARPENTER)
        return c->n_karpenter_claims > 0 ? NULL
                                         : "Karpenter's Lease is held, and no NodeClaim has its "
                                           "finalizer: nothing is transferred; set --mode";
    return c->n_karpenter_claims == 0
               ? NULL
               : "NodeClaims have Karpenter's finalizer, and its Lease was not found: nothing but "
                 "the relay is done; set --karpenter-namespace or --mode";
}

bool nc_control_denies_karpenter(const struct nc_control *c) {
    const struct control_table *t = &c->names[NC_CONTROL_CLAIM];

    for (size_t i = 0; c->n_karpenter_claims == 0 && i < t->room; i++)
        for (const struct control_link *l = t->slots[i]; l; l = l->next)
            if (((const struct control_claim *)nc_control_object_of(l))->has_our_finalizer)
                return true;
    return false;
}

bool nc_control_may_relay(const struct nc_control *c) {
    return c->leads && c->is_relay_synced[NC_CONTROL_NODE] && c->is_relay_synced[NC_CONTROL_CLAIM];
}

/* Without NodeClaims, too: a cluster of groups need not have any. */
bool nc_control_may_complete(const struct nc_control *c) {
    return c->leads && c->is_relay_synced[NC_CONTROL_NODE] && c->rules.completes_actions;
}

/* Whose Node it is counts: NodeClaims must be known, where there are any. */
bool nc_control_may_taint(const struct nc_control *c) {
    return c->rules.out_of_service && c->leads && c->is_relay_synced[NC_CONTROL_NODE]
           && (c->is_relay_synced[NC_CONTROL_CLAIM] || c->has_no_claims);
}

/* A node's own taint: whose NodeClaim it has does not count. */
bool nc_control_may_fit(const struct nc_control *c) {
    return c->leads && c->is_relay_synced[NC_CONTROL_NODE];
}

bool nc_control_may_manage(const struct nc_control *c) {
    return nc_control_may_relay(c) && c->mode == NC_CONTROL_STANDALONE && !nc_control_doubts(c)
           && c->is_synced[NC_CONTROL_NODE] && c->is_synced[NC_CONTROL_CLAIM]
           && c->is_synced[NC_CONTROL_POOL];
}
