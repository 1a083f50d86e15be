/*
 * Where we are standalone: what a NodeClaim and its Node need next. Pure; called by the step.
 *
 * Here is the order of things; how each is put together is in the files beside this one. Rules S1
 * to S3, S7, S12, S18.
 */
#include "nc/names.h"
#include "nc/str.h"
#include "standalone-priv.h"

/* --- what belongs together */

static bool are_strangers(const struct control_claim *claim, const struct control_node *node) {
    return claim->more->provider_id && node->more->provider_id
           && !nc_streq(claim->more->provider_id, node->more->provider_id);
}

static bool has_registered(const struct control_claim *claim) {
    return claim->node_name && nc_standalone_is(claim, CONTROL_COND_REGISTERED);
}

/* It was registered, and there is no Node of that name and machine. */
static bool misses_node(const struct standalone_view *v) {
    const struct control_node *named = NULL;

    if (v->node || !has_registered(v->claim))
        return false;
    named = nc_control_node(v->c, v->claim->node_name);
    return !named || (named->more && are_strangers(v->claim, named));
}

/* Since when, as far as whoever leads now can tell. */
static void note_missing(const struct standalone_view *v) {
    struct control_claim_more *m = v->claim->more;

    if (!misses_node(v))
        m->lost_usec = 0;
    else if (!m->lost_usec || m->lost_usec < v->c->led_usec || m->lost_usec > v->now_usec)
        m->lost_usec = v->now_usec;
}

static bool has_lost_node(const struct standalone_view *v, uint64_t *next_usec) {
    if (v->node)
        return v->node->deletion_usec > 0 && has_registered(v->claim);
    return v->claim->more->lost_usec && !nc_standalone_may_come_back(v, next_usec);
}

/* --- a claim that lives */

static struct nc_value *add_finalizer(const struct control_claim *claim) {
    struct nc_value *patch = nc_control_patch(&claim->o, true);

    nc_value_set(nc_standalone_child(patch, "metadata"), "finalizers",
                 nc_standalone_texts_with(&claim->more->finalizers, NC_FINALIZER));
    return patch;
}

static bool delete_claim(const struct standalone_view *v, struct nc_control_action *ret) {
    ret->verb = NC_CONTROL_DELETE_CLAIM;
    ret->body = nc_control_delete_options(&v->claim->o);
    return true;
}

static bool live(const struct standalone_view *v, struct nc_control_action *ret,
                 uint64_t *next_usec) {
    enum nc_budget_reason why;

    if (!v->claim->has_our_finalizer) {
        ret->verb = NC_CONTROL_PATCH_CLAIM;
        ret->body = add_finalizer(v->claim);
        return true;
    }
    if (nc_standalone_live_status(v, ret))
        return true;
    if (has_lost_node(v, next_usec) || nc_standalone_is_unregistered(v, next_usec))
        return delete_claim(v, ret);
    if (!v->claim->more->disrupt || !nc_standalone_wants_out(v, &why)
        || !nc_standalone_has_room(v, why) || !nc_standalone_has_turn(v))
        return nc_standalone_query_name(v, ret);
    v->claim->more->state = "disrupting";
    return delete_claim(v, ret);
}

static bool alone_claim(struct nc_control *c, struct control_claim *claim, uint64_t now_usec,
                        struct nc_control_action *ret, uint64_t *next_usec) {
    *next_usec = UINT64_MAX;
    if (!claim->more)
        return false;
    claim->more->state = NULL;
    const struct standalone_view v = nc_standalone_view(c, claim, now_usec);
    if (nc_standalone_is_foreign(&v))
        return false;
    note_missing(&v);
    if (claim->deletion_usec)
        return nc_standalone_finish(&v, ret, next_usec);
    if (claim->deleted_usec)
        return false; /* until the watch shows it */
    return live(&v, ret, next_usec);
}

/* --- a Node */

static bool is_draining(const struct control_drain_status *w) {
    if (!w || w->policy != NC_POLICY_DRAIN)
        return false;
    switch (w->phase) {
    case CONTROL_PHASE_DETECTED:
    case CONTROL_PHASE_CORDONED:
        return w->deadline_usec > 0;
    case CONTROL_PHASE_EVICTING:
    case CONTROL_PHASE_FORCING:
    case CONTROL_PHASE_VOLUMES:
    case CONTROL_PHASE_DRAINED:
    case CONTROL_PHASE_FAILED:
        return true;
    case CONTROL_PHASE_NONE:
    case CONTROL_PHASE_OTHER:
    case _CONTROL_PHASE_MAX:
        break;
    }
    return false;
}

/* The list of taints with or without ours, and whose it is. */
static void write_taint(const struct control_node *node, bool is_wanted, struct nc_value *patch) {
    const struct control_strings *have = &node->more->taints;
    struct nc_value *list = nc_value_new_list();
    struct nc_value *annotations =
        nc_standalone_child(nc_standalone_child(patch, "metadata"), "annotations");
    const char *at = NULL, *t[4];

    while ((at = nc_control_strings_next(have, at, 4, t)))
        if (!nc_streq(t[0], NC_TAINT_DISRUPTED) || !nc_streq(t[2], "NoSchedule"))
            nc_control_push_taint(list, t);
    if (is_wanted)
        nc_control_push_taint(list, (const char *[4]){NC_TAINT_DISRUPTED, "", "NoSchedule", ""});
    nc_value_set(nc_standalone_child(patch, "spec"), "taints", list);
    nc_value_set(annotations, NC_ANNOTATION_OUR_TAINT,
                 is_wanted ? nc_value_new_string("true") : nc_value_new(NC_VALUE_NULL));
}

static bool needs_taint_write(const struct control_node *node, bool is_wanted) {
    if (node->more->unread & CONTROL_UNREAD_TAINTS)
        return false;
    return is_wanted
               ? !nc_standalone_has_taint(&node->more->taints, 4, NC_TAINT_DISRUPTED, "NoSchedule")
               : node->more->has_our_taint;
}

static bool needs_request(const struct standalone_view *v, const char *text) {
    switch (nc_standalone_request_on(v)) {
    case STANDALONE_REQUEST_NONE:
        return true;
    case STANDALONE_REQUEST_OURS:
        return !nc_streq(v->node->more->drain_request, text);
    case STANDALONE_REQUEST_OTHER:
        break;
    }
    return false;
}

/* The taint, and where the claim is being deleted the request to drain: one patch, or NULL. */
static struct nc_value *mark_node(const struct control_node *node,
                                  const struct standalone_view *v) {
    const bool is_ending = v && v->claim->deletion_usec > 0;
    const bool is_wanted =
        (v && nc_control_is_deleting(v->claim)) || is_draining(node->drain_status);
    const bool is_taint = needs_taint_write(node, is_wanted);
    nc_auto_free char *text = is_ending ? nc_standalone_request_text(v) : NULL;
    const bool is_request = text && needs_request(v, text);

    if (!is_taint && !is_request)
        return NULL;
    struct nc_value *patch = nc_control_patch(&node->o, is_taint);
    if (is_taint)
        write_taint(node, is_wanted, patch);
    if (is_request)
        nc_value_set_string(
            nc_standalone_child(nc_standalone_child(patch, "metadata"), "annotations"),
            NC_ANNOTATION_REQUEST, text);
    return patch;
}

static bool patch_node(struct nc_value *patch, struct nc_control_action *ret) {
    if (!patch)
        return false;
    ret->verb = NC_CONTROL_PATCH_NODE;
    ret->body = patch;
    return true;
}

static bool drop_finalizer(const struct control_node *node, struct nc_control_action *ret) {
    return !(node->more->unread & CONTROL_UNREAD_FINALIZERS)
           && nc_control_drop_finalizer(&node->o, &node->more->finalizers, ret);
}

/* Ours, and what stands there as Karpenter's: its claim states that it is not. */
static bool drop_both_finalizers(const struct control_node *node, struct nc_control_action *ret) {
    struct nc_value *list = nc_value_new_list();
    const char *at = NULL, *one[1];

    if ((!node->more->has_our_finalizer && !node->more->has_karpenter_finalizer)
        || node->more->unread & CONTROL_UNREAD_FINALIZERS) {
        nc_value_free(list);
        return false;
    }
    while ((at = nc_control_strings_next(&node->more->finalizers, at, 1, one)))
        if (!nc_streq(one[0], NC_FINALIZER) && !nc_streq(one[0], NC_FINALIZER_KARPENTER))
            nc_value_push_string(list, one[0]);
    ret->verb = NC_CONTROL_PATCH_NODE;
    ret->body = nc_control_patch(&node->o, true);
    nc_value_set(nc_value_get(ret->body, "metadata"), "finalizers", list);
    return true;
}

static bool end_node(const struct standalone_view *v, struct nc_control_action *ret) {
    struct control_node *node = v->node;

    if (node->deletion_usec)
        return drop_both_finalizers(node, ret);
    ret->verb = NC_CONTROL_DELETE_NODE;
    ret->body = nc_control_delete_options(&node->o);
    return true;
}

/* Does any claim state that this Node is its own, clear or not? */
static bool is_claimed(const struct nc_control *c, const struct control_node *node) {
    return nc_control_find(c, &c->claims_by_node, node->o.name)
           || (node->more->provider_id
               && nc_control_find(c, &c->claims_by_provider, node->more->provider_id));
}

/* Whose it is cannot be told, so nothing is done to it; but what somebody has deleted is not held
 * for ever: not once its agent has drained it, nor where its machine was not observed for minutes.
 */
static bool release_node(const struct control_node *node, uint64_t now_usec,
                         struct nc_control_action *ret, uint64_t *next_usec) {
    const uint64_t over_usec = node->deletion_usec + NC_STANDALONE_ENDING_USEC;

    if (!node->deletion_usec || !node->more->has_our_finalizer)
        return false;
    if (nc_control_is_final_status(node->drain_status))
        return drop_finalizer(node, ret);
    if (node->more->is_ready)
        return false;
    if (now_usec < over_usec) {
        *next_usec = over_usec;
        return false;
    }
    return drop_finalizer(node, ret);
}

static bool claimless(const struct nc_control *c, struct control_node *node, uint64_t now_usec,
                      struct nc_control_action *ret, uint64_t *next_usec) {
    if (node->more->has_karpenter_finalizer)
        return false;
    if (is_claimed(c, node))
        return release_node(node, now_usec, ret, next_usec);
    if (node->deletion_usec && node->more->has_our_finalizer)
        return drop_finalizer(node, ret);
    return patch_node(mark_node(node, NULL), ret);
}

/* Once, until it can be read again. */
static void report_unread(struct nc_control *c, struct control_node *node) {
    if (!node->more->unread || node->was_unread_reported)
        return;
    nc_auto_free char *what = nc_standalone_unread(node);
    node->was_unread_reported =
        nc_control_emit(c, &node->o, "NodeUnreadable", true,
                        "too large, or not of its kind: %s. It is not written", what);
}

static bool alone_node(struct nc_control *c, struct control_node *node, uint64_t now_usec,
                       struct nc_control_action *ret, uint64_t *next_usec) {
    *next_usec = UINT64_MAX;
    if (!node->more)
        return false;
    report_unread(c, node);
    struct control_claim *claim = nc_control_claim_of(c, node);
    if (!claim || !claim->more)
        return claimless(c, node, now_usec, ret, next_usec);
    const struct standalone_view v = nc_standalone_view(c, claim, now_usec);
    if (nc_standalone_is_foreign(&v))
        return false;
    if (v.node != node)
        return release_node(node, now_usec, ret, next_usec);
    if (!nc_control_is_deleting(claim)) {
        struct nc_value *patch = nc_standalone_registration(&v);
        return patch_node(patch ? patch : mark_node(node, &v), ret);
    }
    if (claim->deletion_usec && nc_standalone_may_drop_node(&v, next_usec))
        return end_node(&v, ret);
    return patch_node(mark_node(node, &v), ret);
}

/* --- answers */

static void deleted(struct nc_control *c, const struct control_claim *claim) {
    if (claim->more->disrupt)
        nc_control_emit_always(
            c, &claim->o, "Disrupted", false,
            nc_asprintf("Deleted, under the budgets of its NodePool: %s",
                        nc_budget_reason_name((enum nc_budget_reason)(claim->more->disrupt - 1))));
    else if (!nc_standalone_is(claim, CONTROL_COND_REGISTERED))
        nc_control_emit_always(c, &claim->o, "RegistrationTimedOut", true,
                               nc_strdup("Deleted: its Node was not registered in time"));
}

static void ended(struct nc_control *c, struct control_claim *claim, bool is_there,
                  uint64_t now_usec) {
    const struct standalone_view v = nc_standalone_view(c, claim, now_usec);

    if (!claim->more->is_end_accepted)
        nc_control_emit_always(c, &claim->o, "InstanceTerminating", false,
                               nc_strdup(is_there ? "The instance is being terminated"
                                                  : "EC2 knows no such instance"));
    claim->more->is_end_accepted = true;
    claim->more->scratch_usec = now_usec;
    claim->more->scratch = !is_there;
    if (v.node) /* it may go now */
        nc_control_touch(c, &v.node->o);
}

/* What was launched a moment ago EC2 may not know yet. */
static bool is_surely_unknown(struct nc_control *c, struct control_claim *claim,
                              uint64_t now_usec) {
    return nc_standalone_view(c, claim, now_usec).node
           || now_usec >= claim->created_usec + NC_STANDALONE_LAUNCHED_USEC;
}

static void alone_answered(struct nc_control *c, struct control_object *o,
                           enum nc_control_verb verb, enum nc_control_answer answer,
                           uint64_t now_usec) {
    struct control_claim *claim = o->kind == NC_CONTROL_CLAIM ? nc_control_as_claim(o) : NULL;
    const bool is_done = answer == NC_CONTROL_DONE;

    if (!claim || !claim->more)
        return;
    if (verb == NC_CONTROL_DELETE_CLAIM && is_done)
        deleted(c, claim);
    else if (verb == NC_CONTROL_END_INSTANCE
             && (is_done
                 || (answer == NC_CONTROL_MISSING && is_surely_unknown(c, claim, now_usec))))
        ended(c, claim, is_done, now_usec);
}

const struct nc_standalone nc_standalone = {
    .read_node = nc_standalone_read_node,
    .read_claim = nc_standalone_read_claim,
    .read_pool = nc_standalone_read_pool,
    .read_class = nc_standalone_read_class,
    .budgets_free = nc_standalone_budgets_free,
    .claim = alone_claim,
    .node = alone_node,
    .pool = nc_standalone_pool,
    .count = nc_standalone_count,
    .answered = alone_answered,
};
