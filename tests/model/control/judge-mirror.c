/*
 * The judge: the time of a claim that is being deleted, on its Node. It is that claim's, it is
 * there in time, and it never moves later.
 */
#include "judge.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"

#define KEY NC_ANNOTATION_TERMINATION_DEADLINE

/* Of the copy for this claim; 0 = there is none. */
static uint64_t copied(const struct nc_value *node, const char *uid) {
    const char *text = annotation_of(node, KEY);
    nc_auto_free char *id = nc_asprintf("claim-%s", uid);
    nc_auto_value struct nc_value *v = NULL;

    return text && nc_json_parse(text, strlen(text), &v, NULL) == 0
                   && nc_streq(text_at(v, "id"), id)
               ? time_at(v, "deadline")
               : 0;
}

static uint64_t timestamp_of(const struct nc_value *claim) {
    uint64_t usec = 0;

    return nc_time_parse(annotation_of(claim, NC_ANNOTATION_TERMINATION_TIMESTAMP), &usec) < 0
               ? 0
               : usec;
}

bool judge_is_mirror(const struct nc_control_action *a) {
    return a->verb == NC_CONTROL_PATCH_NODE && annotation_of(a->body, KEY);
}

void judge_mirror(struct world *w, struct view *v, const struct shown *node,
                  const struct nc_control_action *a) {
    const struct shown *claim = judge_claim_of(w, v, node);
    const char *owner = judge_owner_of(node->v);
    const uint64_t new = claim ? copied(a->body, claim->uid) : 0;
    const uint64_t old = claim ? copied(node->v, claim->uid) : 0;

    if (v->mode != NC_CONTROL_KARPENTER || !claim || !is_deleting(claim->v)
        || !nc_streq(owner, claim->uid))
        judge_break(w, "mirror", "%s has no claim that ends", a->name);
    else if (!new || new != timestamp_of(claim->v))
        judge_break(w, "mirror", "%s: not the time of %s", a->name, claim->name);
    else if (old && old <= new)
        judge_break(w, "mirror", "%s has an earlier one", a->name);
    else if (!text_at(a->body, "metadata.resourceVersion"))
        judge_break(w, "mirror", "%s: whatever it is now", a->name);
}

void judge_mirrored(struct world *w, const struct object *node, const struct nc_value *was) {
    const char *owner = judge_owner_of(node->v);
    const uint64_t before = owner ? copied(was, owner) : 0;

    if (before && (!copied(node->v, owner) || copied(node->v, owner) > before))
        judge_break(w, "mirror", "%s: its end moves later", node->name);
}

bool judge_lacks_mirror(const struct world *w, const struct object *claim,
                        const struct object *node) {
    const uint64_t timestamp = timestamp_of(claim->v);
    const uint64_t copy = copied(node->v, claim->uid);

    return !w->is_standalone && is_deleting(claim->v) && timestamp && !is_deleting(node->v)
           && nc_streq(judge_owner_of(node->v), claim->uid)
           && nc_streq(text_at(claim->v, "status.nodeName"), node->name)
           && !deadline_to_relay(node->v, w->now_usec) && (!copy || copy > timestamp);
}
