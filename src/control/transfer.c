/*
 * Karpenter came (back) to a cluster in which we were standalone. Our finalizer is still on claims
 * and Nodes of that time; Karpenter waits for everybody's, and nobody but us takes ours off. Rules
 * C13, C19.
 *
 * A claim is released at once: what Karpenter has yet to do its own finalizer holds it for, and a
 * claim without that Karpenter leaves alone. A Node that Karpenter does not hold either is released
 * once its agent states that the drain is over, or, where it reports nothing, after five minutes.
 */
#include "nc/names.h"
#include "nc/str.h"
#include "parse.h"
#include "step.h"

struct control_strings *nc_control_left_free(struct control_strings *left) {
    if (left)
        nc_control_strings_done(left);
    free(left);
    return NULL;
}

int nc_control_parse_leftovers(const struct nc_value *object, uint64_t deletion_usec,
                               struct control_strings **ret) {
    const struct nc_value *finalizers = nc_control_at(object, "metadata.finalizers", NULL);
    struct control_strings *left = NULL;

    *ret = NULL;
    if (!deletion_usec || !nc_control_has_text(finalizers, NC_FINALIZER))
        return 0;
    left = nc_calloc(1, sizeof(*left));
    const int r = nc_control_parse_list(finalizers, left);
    *ret = r < 0 ? nc_control_left_free(left) : left;
    return r;
}

static bool is_held_by_karpenter(const struct control_strings *left) {
    const char *at = NULL, *one[1];

    while ((at = nc_control_strings_next(left, at, 1, one)))
        if (nc_streq(one[0], NC_FINALIZER_KARPENTER))
            return true;
    return false;
}

static bool may_release(const struct control_node *node, uint64_t now_usec, uint64_t *next_usec) {
    const uint64_t over_usec = node->deletion_usec + NC_CONTROL_LAST_WORD_USEC;
    const struct control_drain_status *w = node->drain_status;

    if (is_held_by_karpenter(node->left))
        return true;
    if (w && w->phase != CONTROL_PHASE_NONE)
        return nc_control_is_final_status(w);
    if (now_usec >= over_usec)
        return true;
    *next_usec = over_usec;
    return false;
}

bool nc_control_transfer(struct control_object *o, uint64_t now_usec, struct nc_control_action *ret,
                         uint64_t *next_usec) {
    const struct control_node *node = o->kind == NC_CONTROL_NODE ? nc_control_as_node(o) : NULL;
    const struct control_strings *left = node ? node->left : nc_control_as_claim(o)->left;

    *next_usec = UINT64_MAX;
    if (!left || (node && !may_release(node, now_usec, next_usec)))
        return false;
    return nc_control_drop_finalizer(o, left, ret);
}
