/*
 * Objects of the cluster become what the controller holds. All of it is hostile: an object that
 * cannot be read is refused entirely, and what was known of it stays. But a Node, which chooses
 * what it says, is always read as far as that can be done.
 */
#include <errno.h>

#include "fit.h"
#include "lifecycle-action.h"
#include "nc/names.h"
#include "nc/str.h"
#include "out-of-service.h"
#include "parse.h"
#include "step.h"

struct head {
    const char *name, *uid;
    uint64_t rv, created_usec, deletion_usec;
};

static bool is_name(const char *s) {
    return nc_is_made_of(s, NC_LOWER NC_DIGITS "-.", CONTROL_NAME_MAX);
}

static bool is_uid(const char *s) {
    return nc_is_alnum_or(s, "-", CONTROL_UID_MAX);
}

static int read_head(const struct nc_value *object, struct head *ret) {
    const struct nc_value *meta = nc_control_at(object, "metadata", NULL);
    const char *rv = nc_value_get_string(meta, "resourceVersion");

    ret->name = nc_value_get_string(meta, "name");
    ret->uid = nc_value_get_string(meta, "uid");
    if (!is_name(ret->name) || !is_uid(ret->uid) || !rv || nc_parse_u64(rv, &ret->rv) < 0
        || nc_control_parse_time(nc_control_at(meta, "creationTimestamp", NULL), &ret->created_usec)
               < 0)
        return -EBADMSG;
    return nc_control_parse_time(nc_control_at(meta, "deletionTimestamp", NULL),
                                 &ret->deletion_usec);
}

/* The name of a pool, from a label that somebody may have filled with anything. */
static const char *pool_of(const struct nc_value *object) {
    const char *name =
        nc_value_string(nc_control_at(object, "metadata.labels", NC_LABEL_NODE_POOL));

    return is_name(name) ? name : NULL;
}

static const char *owner_of(const struct nc_value *object) {
    const struct nc_value *list = nc_control_at(object, "metadata.ownerReferences", NULL);

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++) {
        const char *uid = nc_value_get_string(list->items[i], "uid");
        const char *api = nc_value_get_string(list->items[i], "apiVersion");
        if (nc_value_says(list->items[i], "kind", "NodeClaim") && api
            && nc_starts_with(api, "karpenter.sh/") && is_uid(uid))
            return uid;
    }
    return NULL;
}

/* ---- Node */

static bool is_same_ending(const struct control_drain_status *a,
                           const struct control_drain_status *b) {
    return a && b && a->source == b->source && a->policy == b->policy
           && a->deadline_usec == b->deadline_usec && nc_streq(a->id, b->id);
}

/* Only an end that was watched: what is final when it is first listed ended at some other time. */
static void count_end(struct nc_control_counts *n, const struct control_drain_status *before,
                      const struct control_drain_status *now) {
    if (!before || !now || nc_control_is_final_status(before) || !nc_control_is_final_status(now))
        return;
    if (now->phase == CONTROL_PHASE_DRAINED)
        n->drained++;
    else
        n->failed++;
}

/* What cannot be read is no drain status; it is counted and told once, not at each sight of it. */
static void apply_drain_status(struct nc_control *c, struct control_node *node,
                               const struct nc_value *object) {
    const struct nc_value *v = nc_control_at(object, "metadata.annotations", NC_ANNOTATION_STATUS);
    const char *text = nc_value_string(v);
    struct control_drain_status *drain_status =
        text && text[0] ? nc_control_drain_status_read(text) : NULL;
    uint32_t bad = 0;

    if (v && !drain_status && (!text || text[0]))
        bad = (text ? nc_control_hash(c, text) : 0) | 1;
    if (bad && bad != node->invalid_status) {
        c->counts.invalid_drain_statuses++;
        node->is_invalid_status_unreported = true;
    }
    node->invalid_status = bad;
    count_end(&c->counts, node->drain_status, drain_status);
    if (is_same_ending(node->drain_status, drain_status))
        drain_status->noticed_usec = node->drain_status->noticed_usec;
    nc_control_drain_status_free(node->drain_status);
    node->drain_status = drain_status;
}

/* What cannot be read of it is no reason to do anything; the rest of the Node counts all the same.
 */
static void apply_outage(struct nc_control *c, struct control_node *node,
                         const struct nc_value *object) {
    struct control_outage *outage = NULL;

    if (!c->rules.out_of_service)
        return;
    if (nc_control_outage_read(object, &outage) < 0)
        c->counts.unreadable[NC_CONTROL_NODE]++;
    nc_control_outage_set(node, outage);
}

static void read_node(struct nc_control *c, struct control_node *node,
                      const struct nc_value *object, const struct head *h) {
    const char *provider_id = nc_value_string(nc_control_at(object, "spec.providerID", NULL));
    struct control_node_more *more = NULL;
    struct control_strings *left = NULL;

    if (c->mode != NC_CONTROL_STANDALONE
        && nc_control_parse_leftovers(object, h->deletion_usec, &left) < 0)
        c->counts.unreadable[NC_CONTROL_NODE]++;
    if (c->mode == NC_CONTROL_STANDALONE) {
        more = nc_calloc(1, sizeof(*more));
        c->standalone->read_node(object, more);
        more->node = node;
        c->counts.unreadable[NC_CONTROL_NODE] += more->unread != 0;
        node->was_unread_reported = node->was_unread_reported && more->unread;
    }
    nc_control_left_free(node->left);
    node->left = left;
    node->created_usec = h->created_usec;
    node->deletion_usec = h->deletion_usec;
    apply_outage(c, node, object);
    nc_control_fit_set(node, nc_control_fit_from(c, object));
    nc_control_read_offer(node, object);
    nc_replace_text(&node->owner_uid, owner_of(object));
    node->mirrored_usec =
        nc_control_mirrored(nc_value_string(nc_control_at(object, "metadata.annotations",
                                                          NC_ANNOTATION_TERMINATION_DEADLINE)),
                            node->owner_uid);
    node->provider_hash = provider_id && provider_id[0] ? nc_control_hash(c, provider_id) : 0;
    nc_replace_text(&node->pool, pool_of(object));
    apply_drain_status(c, node, object);
    nc_control_apply_lifecycle(c, node, object);
    if (node->more)
        nc_control_unlink(&c->nodes_by_provider, &node->more->by_provider);
    nc_control_node_more_free(node->more);
    node->more = more;
    if (more && more->provider_id)
        nc_control_link(c, &c->nodes_by_provider, &more->by_provider, more->provider_id);
}

/* ---- NodeClaim */

/* What standalone noted there outlives a change of the object. */
static void set_claim_more(struct nc_control *c, struct control_claim *claim,
                           struct control_claim_more *more) {
    struct control_claim_more *old = claim->more;

    if (old && more) {
        more->disrupt = old->disrupt;
        more->waits_for_zone = old->waits_for_zone;
        more->disrupted = old->disrupted;
        more->is_turn_reported = old->is_turn_reported;
        more->is_end_accepted = old->is_end_accepted;
        more->unready = old->unready;
        more->lost_usec = old->lost_usec;
        more->scratch_usec = old->scratch_usec;
        more->scratch = old->scratch;
        more->state = old->state;
        if (nc_streq(more->provider_id, old->provider_id))
            more->dns_name = nc_steal(&old->dns_name);
    }
    if (old)
        nc_control_unlink(&c->claims_by_provider, &old->by_provider);
    nc_control_claim_more_free(old);
    claim->more = more;
    if (!more)
        return;
    more->claim = claim;
    if (more->provider_id)
        nc_control_link(c, &c->claims_by_provider, &more->by_provider, more->provider_id);
}

/* Garbage is counted and is no timestamp: whoever reads it after us cannot read it either. */
static uint64_t timestamp_of(struct nc_control *c, const struct nc_value *object) {
    const struct nc_value *v =
        nc_control_at(object, "metadata.annotations", NC_ANNOTATION_TERMINATION_TIMESTAMP);
    uint64_t timestamp_usec = 0;

    if (nc_control_parse_time(v, &timestamp_usec) < 0)
        c->bad_timestamps++;
    return timestamp_usec;
}

/* Is it ours, of whichever leader? Our record has the very time. */
static bool is_our_timestamp(const struct control_claim *claim, const struct nc_value *object) {
    const struct nc_value *v =
        nc_control_at(object, "metadata.annotations", NC_ANNOTATION_OUR_TIMESTAMP);
    uint64_t recorded_usec = 0;

    return claim->timestamp_usec && nc_control_parse_time(v, &recorded_usec) >= 0
           && recorded_usec == claim->timestamp_usec;
}

static void set_node_name(struct nc_control *c, struct control_claim *claim, const char *name) {
    if (name && nc_streq(claim->node_name, name))
        return;
    nc_control_unlink(&c->claims_by_node, &claim->by_node);
    nc_replace_text(&claim->node_name, name);
    if (claim->node_name)
        nc_control_link(c, &c->claims_by_node, &claim->by_node, claim->node_name);
}

/* One that cannot be read is none: no Node has that. */
static void set_provider_id(struct nc_control *c, struct control_claim *claim,
                            const struct nc_value *object) {
    char *id = NULL;

    if (c->mode == NC_CONTROL_STANDALONE)
        return;
    (void)nc_control_parse_token(nc_control_at(object, "status.providerID", NULL),
                                 CONTROL_PROVIDER_MAX, &id);
    free(claim->provider_id);
    claim->provider_id = id;
}

/* Whoever registers the claim sets it with status.nodeName. */
static int read_registered(const struct nc_value *object, uint64_t *ret_usec) {
    const struct nc_value *list = nc_control_at(object, "status.conditions", NULL);

    *ret_usec = 0;
    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_value_says(list->items[i], "type", "Registered")
            && nc_value_says(list->items[i], "status", "True"))
            return nc_control_parse_time(nc_control_at(list->items[i], "lastTransitionTime", NULL),
                                         ret_usec);
    return 0;
}

static void class_ref_done(struct control_class_ref *r) {
    free(r->group);
    free(r->kind);
    free(r->name);
}

static const char *class_of(const struct control_class_ref *r) {
    return nc_streq(r->group, "karpenter.k8s.aws") && nc_streq(r->kind, "EC2NodeClass") ? r->name
                                                                                        : NULL;
}

static int read_claim(struct nc_control *c, struct control_claim *claim,
                      const struct nc_value *object, const struct head *h) {
    const struct nc_value *finalizers = nc_control_at(object, "metadata.finalizers", NULL);
    const struct nc_value *node = nc_control_at(object, "status.nodeName", NULL);
    nc_cleanup(class_ref_done) struct control_class_ref class = {0};
    struct control_claim_more *more = NULL;
    struct control_strings *left = NULL;
    uint64_t registered_usec = 0;

    if (read_registered(object, &registered_usec) < 0)
        return -EBADMSG;
    if (node && (node->type != NC_VALUE_STRING || (node->text[0] && !is_name(node->text))))
        return -EBADMSG;
    if (c->mode != NC_CONTROL_STANDALONE
        && nc_control_parse_leftovers(object, h->deletion_usec, &left) < 0)
        return -EBADMSG;
    if (c->mode == NC_CONTROL_STANDALONE) {
        more = nc_calloc(1, sizeof(*more));
        if (c->standalone->read_claim(object, more, &class) < 0) {
            nc_control_claim_more_free(more);
            return -EBADMSG;
        }
    }
    nc_control_left_free(claim->left);
    claim->left = left;
    claim->created_usec = h->created_usec;
    claim->deletion_usec = h->deletion_usec;
    claim->timestamp_usec = timestamp_of(c, object);
    if (is_our_timestamp(claim, object))
        claim->our_timestamp_usec = claim->timestamp_usec;
    claim->has_our_finalizer = nc_control_has_text(finalizers, NC_FINALIZER);
    claim->has_karpenter_finalizer = nc_control_has_text(finalizers, NC_FINALIZER_KARPENTER);
    claim->has_gate = nc_control_has_gate(object);
    set_node_name(c, claim, node && node->text[0] ? node->text : NULL);
    set_provider_id(c, claim, object);
    claim->registered_usec = registered_usec;
    nc_control_set_pool(c, claim, pool_of(object));
    nc_control_set_class(c, claim, class_of(&class));
    set_claim_more(c, claim, more);
    nc_control_check_boot_failure(claim);
    nc_control_read_promise(c, claim, object);
    nc_control_count_karpenter(c, claim,
                               claim->has_karpenter_finalizer && !(more && more->is_foreign));
    return 0;
}

/* ---- NodePool, EC2NodeClass */

static int read_pool(struct nc_control *c, struct control_pool *p, const struct nc_value *object) {
    const int r = c->standalone->read_pool(object, p);

    if (r >= 0 && !p->is_there)
        c->n_pools_there++;
    p->is_there |= r >= 0;
    return r;
}

/* Its status changes often, its hash seldom: only that concerns its claims. */
static int read_class(struct nc_control *c, struct control_class *k,
                      const struct nc_value *object) {
    nc_auto_free char *hash = nc_strdup(k->hash), *version = nc_strdup(k->hash_version);
    const int r = c->standalone->read_class(object, k);
    const bool is_same =
        k->is_there && nc_streq(hash, k->hash) && nc_streq(version, k->hash_version);

    if (r < 0)
        return r;
    if (!k->is_there)
        c->n_classes_there++;
    k->is_there = true;
    for (struct control_claim *claim = k->claims; !is_same && claim; claim = claim->class_next)
        nc_control_touch_around(c, &claim->o);
    return 0;
}

/* ---- all of them */

static int read_kind(struct nc_control *c, struct control_object *o, const struct nc_value *object,
                     const struct head *h) {
    switch (o->kind) {
    case NC_CONTROL_NODE:
        read_node(c, nc_control_as_node(o), object, h);
        return 0;
    case NC_CONTROL_CLAIM:
        return read_claim(c, nc_control_as_claim(o), object, h);
    case NC_CONTROL_POOL:
        return read_pool(c, nc_control_as_pool(o), object);
    case NC_CONTROL_CLASS:
        return read_class(c, nc_control_as_class(o), object);
    case _NC_CONTROL_KIND_MAX:
        break;
    }
    return -EBADMSG;
}

/* Seen already, with what is wanted of it now? A relist brings everything once more. */
static bool is_known(const struct nc_control *c, const struct control_object *o,
                     const struct head *h) {
    if (o->rv != h->rv || !nc_streq(o->uid, h->uid))
        return false;
    if (o->kind == NC_CONTROL_NODE)
        return !((const struct control_node *)o)->more == (c->mode != NC_CONTROL_STANDALONE);
    if (o->kind == NC_CONTROL_CLAIM)
        return !((const struct control_claim *)o)->more == (c->mode != NC_CONTROL_STANDALONE);
    return true;
}

/* The object of this name and uid. Another one of the same name is gone. */
static struct control_object *place(struct nc_control *c, enum nc_control_kind k,
                                    const struct head *h) {
    struct control_object *o = nc_control_named(c, k, h->name);

    if (o && o->uid[0] && !nc_streq(o->uid, h->uid)) {
        nc_control_touch_around(c, o);
        nc_control_gone(c, o);
        o = nc_control_named(c, k, h->name);
    }
    if (!o)
        return nc_control_put(c, k, h->name, h->uid);
    if (!nc_streq(o->uid, h->uid))
        nc_control_set_uid(c, o, h->uid);
    return o;
}

int nc_control_read(struct nc_control *c, enum nc_control_kind k, const struct nc_value *object,
                    struct control_object **ret) {
    struct head h = {0};
    struct control_object *o = NULL;

    if (k >= _NC_CONTROL_KIND_MAX)
        return -EBADMSG;
    if (!c->standalone && k != NC_CONTROL_NODE && k != NC_CONTROL_CLAIM)
        return 0;
    if (read_head(object, &h) < 0) {
        c->counts.unreadable[k]++;
        return -EBADMSG;
    }
    o = nc_control_named(c, k, h.name);
    *ret = o;
    if (o && is_known(c, o, &h))
        return 0;
    o = place(c, k, &h);
    nc_control_touch_around(c, o);
    if (read_kind(c, o, object, &h) < 0) {
        c->counts.unreadable[k]++;
        if (o->rv == 0)
            nc_control_gone(c, o);
        return -EBADMSG;
    }
    o->rv = h.rv;
    nc_control_touch_around(c, o);
    *ret = o;
    return 1;
}
