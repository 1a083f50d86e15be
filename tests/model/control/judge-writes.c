/*
 * The judge: what may be written, verb by verb, and what a write may change.
 */
#include <limits.h>

#include "../margin.h"
#include "judge.h"
#include "nc/budget.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"

#define REGISTER_USEC (900 * SEC)
#define UNREADY_USEC (1800 * SEC) /* a Node that is not Ready holds a budget for so long */
#define NAME nc_control_verb_name(a->verb)

/* --- what belongs together */

const char *judge_owner_of(const struct nc_value *node) {
    const struct nc_value *list = nc_value_path(node, "metadata.ownerReferences");

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "kind"), "NodeClaim"))
            return nc_value_get_string(list->items[i], "uid");
    return NULL;
}

static unsigned claims_with(struct view *v, const char *path, const char *text) {
    unsigned n = 0;

    for (unsigned i = 0; i < v->n_shown; i++)
        n += v->shown[i].v && v->shown[i].kind == NC_CONTROL_CLAIM
             && nc_streq(text_at(v->shown[i].v, path), text);
    return n;
}

/* Where EC2 says it, what other Nodes say of themselves is nothing. */
static struct shown *by_provider(struct world *w, struct view *v, const struct shown *claim) {
    const char *provider = text_at(claim->v, "status.providerID");
    struct shown *found = NULL;
    const char *name = NULL;

    if (provider && w->rules.identity == NC_CONTROL_IDENTITY_EC2) {
        name = actors_name_of(w, provider);
        found = name ? judge_find(v, NC_CONTROL_NODE, name) : NULL;
        return found && nc_streq(text_at(found->v, "spec.providerID"), provider) ? found : NULL;
    }
    if (!provider || claims_with(v, "status.providerID", provider) != 1)
        return NULL;
    for (unsigned i = 0; i < v->n_shown; i++)
        if (v->shown[i].v && v->shown[i].kind == NC_CONTROL_NODE
            && nc_streq(text_at(v->shown[i].v, "spec.providerID"), provider)) {
            if (found)
                return NULL;
            found = &v->shown[i];
        }
    return found;
}

struct shown *judge_node_of(struct world *w, struct view *v, const struct shown *claim) {
    const char *name = text_at(claim->v, "status.nodeName");
    struct shown *node = name ? judge_find(v, NC_CONTROL_NODE, name) : NULL;

    if (!name)
        return v->mode == NC_CONTROL_STANDALONE ? by_provider(w, v, claim) : NULL;
    if (!node)
        return NULL;
    if (judge_owner_of(node->v))
        return nc_streq(judge_owner_of(node->v), claim->uid) ? node : NULL;
    return claims_with(v, "status.nodeName", name) == 1 ? node : NULL;
}

struct shown *judge_claim_of(struct world *w, struct view *v, const struct shown *node) {
    for (unsigned i = 0; i < v->n_shown; i++)
        if (v->shown[i].v && v->shown[i].kind == NC_CONTROL_CLAIM
            && judge_node_of(w, v, &v->shown[i]) == node)
            return &v->shown[i];
    return NULL;
}

/* --- the relay */

static uint64_t timestamp_of(const struct nc_value *claim) {
    uint64_t usec = 0;

    return nc_time_parse(annotation_of(claim, NC_ANNOTATION_TERMINATION_TIMESTAMP), &usec) < 0
               ? 0
               : usec;
}

/* The drain status was withdrawn in time: our own termination timestamp goes from a claim that
 * lives on. */
static bool is_taken_back(const struct world *w, const struct shown *s,
                          const struct nc_control_action *a, uint64_t deadline) {
    const struct nc_value *timestamp = nc_value_get(nc_value_path(a->body, "metadata.annotations"),
                                                    NC_ANNOTATION_TERMINATION_TIMESTAMP);

    (void)w;
    return a->verb == NC_CONTROL_SET_TIMESTAMP && timestamp && timestamp->type == NC_VALUE_NULL
           && !deadline && !is_deleting(s->v) && !s->is_deleted
           && (timestamp_of(s->v) == s->our_timestamp_usec
               || nc_streq(annotation_of(s->v, NC_ANNOTATION_TERMINATION_TIMESTAMP),
                           annotation_of(s->v, NC_ANNOTATION_OUR_TIMESTAMP)));
}

void judge_relay(struct world *w, struct view *v, struct shown *s,
                 const struct nc_control_action *a) {
    struct shown *node = s->kind == NC_CONTROL_CLAIM ? judge_node_of(w, v, s) : NULL;
    const uint64_t deadline = node ? deadline_to_relay(node->v, w->now_usec) : 0;
    const uint64_t margin = margin_for(w->rules.margin_usec, node ? node->left_usec : 0);
    const uint64_t timestamp = (deadline - (deadline < margin ? deadline : margin)) / SEC * SEC;
    char wanted[32];

    if (a->verb != NC_CONTROL_SET_TIMESTAMP && a->verb != NC_CONTROL_DELETE_CLAIM) {
        judge_break(w, "relay", "%s %s is no relay", NAME, a->name);
        return;
    }
    if (is_taken_back(w, s, a, deadline))
        return;
    if (!deadline) {
        judge_break(w, "relay", "%s %s: nothing is to be relayed", NAME, a->name);
        return;
    }
    nc_time_format(timestamp, wanted);
    if (a->verb == NC_CONTROL_SET_TIMESTAMP) {
        const char *text = annotation_of(a->body, NC_ANNOTATION_TERMINATION_TIMESTAMP);
        if (!nc_streq(text, wanted))
            judge_break(w, "timestamp", "%s has the timestamp %s, not %s", a->name, text, wanted);
        if (timestamp_of(s->v) && timestamp_of(s->v) <= timestamp)
            judge_break(w, "timestamp", "%s has an earlier one", a->name);
        if (w->rules.order == NC_CONTROL_DELETE_FIRST && !is_deleting(s->v) && !s->is_deleted)
            judge_break(w, "order", "%s is stamped before it is deleted", a->name);
        s->is_timestamp_tried = true;
        s->our_timestamp_usec = timestamp;
    } else if (w->rules.order == NC_CONTROL_BOTH && !s->is_timestamp_tried
               && (!timestamp_of(s->v) || timestamp_of(s->v) > timestamp)) {
        judge_break(w, "order", "%s is deleted before it is stamped", a->name);
    }
}

/* --- voluntary disruption */

static bool is_true(const char *text) {
    return nc_streq(text, "true");
}

static bool is_registered(const struct shown *claim) {
    return nc_streq(condition_of(claim->v, "Registered"), "True");
}

static bool is_drifted_by(const struct nc_value *claim, const struct nc_value *from,
                          const char *key) {
    nc_auto_free char *version = nc_asprintf("%s-version", key);
    const char *ours = annotation_of(claim, key), *theirs = annotation_of(from, key);

    return ours && theirs && !nc_streq(ours, theirs)
           && nc_streq(annotation_of(claim, version), annotation_of(from, version));
}

static bool is_expired(const struct nc_value *claim, uint64_t now_usec) {
    uint64_t after = 0;

    if (nc_budget_duration(text_at(claim, "spec.expireAfter"), true, &after, NULL) < 0
        || after == UINT64_MAX)
        return false;
    return time_at(claim, "metadata.creationTimestamp") + after <= now_usec;
}

static bool is_rebalanced(const struct shown *node) {
    const char *text = node ? annotation_of(node->v, STATUS_KEY) : NULL;
    nc_auto_value struct nc_value *status = NULL;

    return text && nc_json_parse(text, strlen(text), &status, NULL) == 0
           && nc_streq(text_at(status, "source"), "rebalance");
}

static unsigned reasons_of(const struct world *w, struct view *v, const struct shown *claim,
                           const struct shown *node) {
    const char *pool_name = label_of(claim->v, POOL_KEY);
    const struct shown *pool = judge_find(v, NC_CONTROL_POOL, pool_name ? pool_name : "");
    const struct shown *class = judge_find(v, NC_CONTROL_CLASS, "default");
    unsigned bits = 0;

    if (is_expired(claim->v, w->now_usec))
        bits |= 1u << NC_BUDGET_EXPIRED;
    if ((pool && is_drifted_by(claim->v, pool->v, "karpenter.sh/nodepool-hash"))
        || (class && is_drifted_by(claim->v, class->v, "karpenter.k8s.aws/ec2nodeclass-hash")))
        bits |= 1u << NC_BUDGET_DRIFTED;
    if (w->rules.rebalances && is_rebalanced(node))
        bits |= 1u << NC_BUDGET_REBALANCE;
    return bits;
}

static bool is_out(struct world *w, struct view *v, const struct shown *claim) {
    const struct shown *node = judge_node_of(w, v, claim);

    if (is_deleting(claim->v) || claim->is_deleted || claim->is_delete_sent)
        return true;
    return node && is_registered(claim) && !nc_streq(condition_of(node->v, "Ready"), "True")
           && w->now_usec < node->unready_usec + UNREADY_USEC;
}

/* The room that the pool's budgets leave for the reason for which there is most. */
static void judge_budgets(struct world *w, struct view *v, const struct shown *claim,
                          unsigned reasons) {
    nc_cleanup(nc_budgets_done) struct nc_budgets b = {0};
    const char *name = label_of(claim->v, POOL_KEY);
    const struct shown *pool = judge_find(v, NC_CONTROL_POOL, name ? name : "");
    unsigned n = 0, out = 0, most = 0;

    if (!pool || is_deleting(pool->v) || nc_budgets_read(pool->v, &b, NULL) < 0) {
        judge_break(w, "budgets", "%s has no budgets to go by", claim->name);
        return;
    }
    for (unsigned i = 0; i < v->n_shown; i++) {
        const struct shown *s = &v->shown[i];
        if (!s->v || s->kind != NC_CONTROL_CLAIM || !nc_streq(label_of(s->v, POOL_KEY), name))
            continue;
        n += s == claim || is_out(w, v, s) || nc_streq(condition_of(s->v, "Initialized"), "True");
        out += s != claim && is_out(w, v, s);
    }
    for (int r = 0; r < (int)_NC_BUDGET_REASON_MAX; r++)
        if (reasons & 1u << r) {
            const unsigned allowed =
                nc_budgets_allowed(&b, (enum nc_budget_reason)r, n, w->now_usec);
            most = allowed > most ? allowed : most;
        }
    if (out >= most)
        judge_break(w, "budgets", "%s is the %uth of %u that goes, %u may", claim->name, out + 1, n,
                    most);
}

/* One of another zone is being disrupted, and not for longer than a turn. */
static bool is_in_the_way(struct world *w, struct view *v, const struct shown *s) {
    const uint64_t deletion = time_at(s->v, "metadata.deletionTimestamp");
    const bool is_voluntary =
        s->voluntary_usec
        || (deletion
            && (is_expired(s->v, deletion) || nc_streq(condition_of(s->v, "Drifted"), "True")
                || nc_streq(condition_of(s->v, "DisruptionReason"), "True")));
    const struct shown *node = judge_node_of(w, v, s);

    if (!is_voluntary || is_foreign(s->v) || !(deletion || s->is_deleted || s->is_delete_sent)
        || (node && deadline_to_relay(node->v, w->now_usec)))
        return false;
    return w->now_usec < (deletion ? deletion : s->voluntary_usec) + w->rules.zone_turn_usec;
}

static const char *zone_of(const struct shown *claim) {
    const char *zone = label_of(claim->v, ZONE_KEY);

    return zone ? zone : "";
}

static void judge_zones(struct world *w, struct view *v, struct shown *claim) {
    for (unsigned i = 0; i < v->n_shown && w->rules.zone_turn_usec; i++) {
        const struct shown *s = &v->shown[i];
        if (s->v && s->kind == NC_CONTROL_CLAIM && !nc_streq(zone_of(s), zone_of(claim))
            && is_in_the_way(w, v, s))
            judge_break(w, "turn", "%s in zone \"%s\" goes beside %s in zone \"%s\"", claim->name,
                        zone_of(claim), s->name, zone_of(s));
    }
    claim->voluntary_usec = w->now_usec;
}

static bool has_lost_node(struct world *w, struct view *v, const struct shown *claim) {
    const struct shown *node = judge_node_of(w, v, claim);
    const char *provider = text_at(claim->v, "status.providerID");

    return is_registered(claim)
           && (!node || is_deleting(node->v)
               || !nc_streq(text_at(node->v, "spec.providerID"), provider));
}

static void judge_delete_claim(struct world *w, struct view *v, struct shown *claim) {
    const struct shown *node = judge_node_of(w, v, claim);
    const unsigned reasons = reasons_of(w, v, claim, node);

    if (has_lost_node(w, v, claim))
        return;
    if (!is_registered(claim) && text_at(claim->v, "status.providerID")
        && time_at(claim->v, "metadata.creationTimestamp") + REGISTER_USEC <= w->now_usec
        && !(node && !is_unreadable(node->v)))
        return;
    if (!reasons) {
        judge_break(w, "reason", "%s is deleted for nothing", claim->name);
        return;
    }
    if (is_true(annotation_of(claim->v, DO_NOT_DISRUPT)))
        judge_break(w, "do-not-disrupt", "%s forbids it", claim->name);
    judge_budgets(w, v, claim, reasons);
    judge_zones(w, v, claim);
}

/* --- the end of a claim */

static void judge_request(struct world *w, struct view *v, const struct shown *node,
                          const struct nc_control_action *a) {
    const struct nc_value *requested =
        nc_value_get(nc_value_path(a->body, "metadata.annotations"), REQUEST_KEY);
    const struct shown *claim = judge_claim_of(w, v, node);
    const char *before = annotation_of(node->v, REQUEST_KEY);
    nc_auto_value struct nc_value *old = NULL, *new = NULL;

    if (!requested)
        return;
    if (!nc_value_string(requested)
        || nc_json_parse(requested->text, strlen(requested->text), &new, NULL) < 0 || !claim
        || !is_deleting(claim->v)) {
        judge_break(w, "request", "%s is asked to drain, and no claim of it ends", node->name);
        return;
    }
    nc_auto_free char *id = nc_asprintf("claim-%s", claim->uid);
    if (!nc_streq(text_at(new, "id"), id))
        judge_break(w, "request", "%s is asked as %s, not as %s", node->name, text_at(new, "id"),
                    id);
    if (before && nc_json_parse(before, strlen(before), &old, NULL) == 0
        && nc_streq(text_at(old, "id"), "person"))
        judge_break(w, "request", "%s: what a person asked for is overwritten", node->name);
}

static bool drops(const struct shown *s, const struct nc_control_action *a) {
    return nc_value_path(a->body, "metadata.finalizers") && has_finalizer(s->v, NC_FINALIZER)
           && !has_finalizer(a->body, NC_FINALIZER);
}

static bool is_drained(const struct shown *claim) {
    return nc_streq(condition_of(claim->v, "Drained"), "True");
}

static bool has_to_end(const struct world *w, const struct shown *claim) {
    return w->rules.terminates && text_at(claim->v, "status.providerID")
           && !nc_streq(condition_of(claim->v, "InstanceTerminating"), "True");
}

/* Somebody has deleted the Node, its agent has drained it, and no claim was registered with it yet:
 * whose it is cannot be told, and nobody is held up for it. */
static bool is_released(const struct shown *node, const struct shown *claim,
                        const struct nc_control_action *a) {
    const char *text = annotation_of(node->v, STATUS_KEY);
    nc_auto_value struct nc_value *status = NULL;
    const char *phase;

    if (a->verb != NC_CONTROL_PATCH_NODE || nc_streq(condition_of(claim->v, "Registered"), "True")
        || !text || nc_json_parse(text, strlen(text), &status, NULL) < 0)
        return false;
    phase = text_at(status, "phase");
    return nc_streq(phase, "Drained") || nc_streq(phase, "Failed");
}

static void judge_end_of_node(struct world *w, const struct shown *claim,
                              const struct nc_control_action *a) {
    if (claim && (!is_deleting(claim->v) || !is_drained(claim)))
        judge_break(w, "drained-first", "%s %s before it is drained", NAME, a->name);
    else if (claim && has_to_end(w, claim))
        judge_break(w, "drained-first", "%s %s before its instance ends", NAME, a->name);
}

static bool has_disrupted(const struct nc_value *node) {
    const struct nc_value *list = nc_value_path(node, "spec.taints");

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "key"), "karpenter.sh/disrupted"))
            return true;
    return false;
}

static void judge_node(struct world *w, struct view *v, const struct shown *node,
                       const struct nc_control_action *a) {
    const struct shown *claim = judge_claim_of(w, v, node);

    if (claim ? is_foreign(claim->v) : has_finalizer(node->v, KARPENTER_FINALIZER))
        judge_break(w, "foreign", "%s %s: it is another one's", NAME, a->name);
    if (a->verb == NC_CONTROL_DELETE_NODE && !claim)
        judge_break(w, "drained-first", "%s, which belongs to no claim, is deleted", a->name);
    if ((a->verb == NC_CONTROL_DELETE_NODE || drops(node, a))
        && !(claim && is_released(node, claim, a)))
        judge_end_of_node(w, claim, a);
    if (!claim && w->rules.identity == NC_CONTROL_IDENTITY_EC2
        && label_of(a->body, "karpenter.sh/registered"))
        judge_break(w, "liar", "%s is registered, and is nobody's machine", a->name);
    if (drops(node, a) && !is_deleting(node->v))
        judge_break(w, "finalizer", "%s loses it while it lives", a->name);
    if (!may_drain(node->v) && has_disrupted(a->body) && !has_disrupted(node->v)
        && !(claim && (is_deleting(claim->v) || claim->is_deleted)))
        judge_break(w, "taints", "%s gets one for what it does not drain for", a->name);
    judge_request(w, v, node, a);
}

/* No write to a claim follows from what another machine's node says of itself. */
static void judge_liars(struct world *w, const struct shown *claim,
                        const struct nc_control_action *a) {
    const char *provider = text_at(claim->v, "status.providerID");
    const char *name = text_at(a->body, "status.nodeName");
    const struct nc_value *list = nc_value_path(a->body, "status.conditions");

    if (w->rules.identity != NC_CONTROL_IDENTITY_EC2 || a->verb != NC_CONTROL_STATUS_CLAIM)
        return;
    if (name && !nc_streq(name, actors_name_of(w, provider)))
        judge_break(w, "liar", "%s is registered as %s, which is another machine", claim->name,
                    name);
    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "reason"), "MultipleNodesFound"))
            judge_break(w, "liar", "%s: two Nodes say that they are its machine", claim->name);
}

static void judge_claim(struct world *w, struct view *v, struct shown *claim,
                        const struct nc_control_action *a) {
    const struct shown *node = judge_node_of(w, v, claim);

    if (is_foreign(claim->v))
        judge_break(w, "foreign", "%s %s: it is another one's", NAME, a->name);
    if (a->verb == NC_CONTROL_DELETE_CLAIM)
        judge_delete_claim(w, v, claim);
    if (drops(claim, a) && (!is_deleting(claim->v) || node))
        judge_break(w, "finalizer", "%s loses it, and its Node is there", a->name);
    judge_liars(w, claim, a);
    if (drops(claim, a))
        w->judge->finalized++;
    if (a->verb != NC_CONTROL_END_INSTANCE)
        return;
    if (!w->rules.terminates || !is_deleting(claim->v)
        || !nc_streq(a->provider_id, text_at(claim->v, "status.providerID")))
        judge_break(w, "instance", "%s: its instance is not ours to end", a->name);
    if (node && !is_drained(claim))
        judge_break(w, "instance", "%s is ended before it is drained", a->name);
}

static bool has_karpenters(const struct view *v) {
    for (unsigned i = 0; i < v->n_shown; i++)
        if (v->shown[i].v && v->shown[i].kind == NC_CONTROL_CLAIM
            && has_finalizer(v->shown[i].v, KARPENTER_FINALIZER))
            return true;
    return false;
}

/* Beside a Karpenter that was only found out a finalizer is transferred where NodeClaims bear that
 * out: no right in a namespace makes it fall. */
void judge_standalone(struct world *w, struct view *v, struct shown *s,
                      const struct nc_control_action *a) {
    if (judge_is_mirror(a)) {
        judge_mirror(w, v, s, a);
        return;
    }
    if (v->mode == NC_CONTROL_KARPENTER && drops(s, a) && is_deleting(s->v)) {
        if (!has_karpenters(v))
            judge_break(w, "handover", "%s: no NodeClaim shows that Karpenter runs", a->name);
        return;
    }
    if (v->mode != NC_CONTROL_STANDALONE) {
        judge_break(w, "karpenter", "%s %s beside Karpenter", NAME, a->name);
        return;
    }
    if (s->kind == NC_CONTROL_NODE)
        judge_node(w, v, s, a);
    else if (s->kind == NC_CONTROL_CLAIM)
        judge_claim(w, v, s, a);
    else
        judge_break(w, "target", "%s %s", NAME, a->name);
}
