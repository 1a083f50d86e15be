/*
 * A claim and its Node as they are seen now.
 */
#include "standalone-priv.h"

struct standalone_view nc_standalone_view(struct nc_control *c, struct control_claim *claim,
                                          uint64_t now_usec) {
    struct standalone_view v = {.c = c, .claim = claim, .now_usec = now_usec};

    v.node = nc_control_node_of(c, claim);
    if (v.node && !v.node->more)
        v.node = NULL;
    return v;
}

bool nc_standalone_is_foreign(const struct standalone_view *v) {
    return v->claim->more->is_foreign || v->claim->has_karpenter_finalizer;
}

bool nc_standalone_may_come_back(const struct standalone_view *v, uint64_t *next_usec) {
    const uint64_t over_usec = v->claim->more->lost_usec + NC_STANDALONE_LOST_USEC;

    if (!v->claim->more->lost_usec || v->now_usec >= over_usec)
        return false;
    if (over_usec < *next_usec)
        *next_usec = over_usec;
    return true;
}

/* v1beta1 says it on the NodePool. */
uint64_t nc_standalone_expiry(const struct control_claim *claim) {
    const struct control_pool *p = claim->pool;
    const uint64_t after = !claim->more->has_no_expiry ? claim->more->expire_after_usec
                           : p && p->is_there          ? p->expire_after_usec
                                                       : UINT64_MAX;

    return after > UINT64_MAX - claim->created_usec || !claim->created_usec
               ? UINT64_MAX
               : claim->created_usec + after;
}

bool nc_standalone_is_unregistered(const struct standalone_view *v, uint64_t *next_usec) {
    const struct control_claim_more *m = v->claim->more;
    const uint64_t from_usec =
        v->c->led_usec > v->claim->created_usec ? v->c->led_usec : v->claim->created_usec;
    uint64_t limit_usec = NC_STANDALONE_REGISTER_USEC;
    struct control_node *first = NULL;

    if (!m->provider_id || nc_standalone_is(v->claim, CONTROL_COND_REGISTERED))
        return false;
    if (v->node && !(v->node->more->unread & CONTROL_UNREAD_LISTS))
        return false; /* what it waits for is our own write */
    if (!v->node && nc_control_nodes_with(v->c, m->provider_id, &first) > 0) {
        /* Nodes of other names say to be its machine. An administrator may have named it so, and
         * has time to say it. */
        if (v->c->rules.identity == NC_CONTROL_IDENTITY_EC2 && !m->dns_name)
            return false; /* EC2 has not answered: no node's doing */
        limit_usec = v->c->rules.ceiling_usec;
    }
    if (!limit_usec)
        return false;
    if (v->now_usec < from_usec + limit_usec)
        nc_control_sooner(next_usec, from_usec + limit_usec);
    return v->now_usec >= from_usec + limit_usec;
}

/* Somebody says to be its machine: whose is that name? */
bool nc_standalone_query_name(const struct standalone_view *v, struct nc_control_action *ret) {
    const struct control_claim_more *m = v->claim->more;
    struct control_node *first = NULL;

    if (v->c->rules.identity != NC_CONTROL_IDENTITY_EC2 || v->claim->node_name || v->node
        || m->dns_name || !m->provider_id
        || nc_control_nodes_with(v->c, m->provider_id, &first) == 0)
        return false;
    ret->verb = NC_CONTROL_DESCRIBE_INSTANCE;
    ret->provider_id = nc_strdup(m->provider_id);
    return true;
}
