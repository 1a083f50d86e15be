/*
 * The time by which a NodeClaim ends reaches its Node, whose agent need not be allowed to read
 * NodeClaims. Rule C20.
 *
 * A deletion is never taken back, so that the copy of a claim that is being deleted cannot outlive
 * what it states; that of a claim that lives could become the hard end of whatever deletes it
 * later.
 */
#include "nc/names.h"
#include "nc/str.h"
#include "step.h"

uint64_t nc_control_mirrored(const char *text, const char *claim_uid) {
    struct nc_notice n = {0};

    return text && nc_notice_read_request(text, strlen(text), NC_SOURCE_DELETION, &n, NULL) > 0
                   && nc_notice_is_of_claim(&n, claim_uid)
               ? n.deadline_usec
               : 0;
}

/* What the relay carried there the node has stated itself. */
static bool is_known_to_node(const struct nc_control *c, const struct control_claim *claim,
                             uint64_t now_usec) {
    struct control_relay r;

    return nc_control_has_relay(c, claim, now_usec, &r) && r.t_usec <= claim->timestamp_usec;
}

bool nc_control_mirror(const struct nc_control *c, const struct control_node *node,
                       uint64_t now_usec, struct nc_control_action *ret) {
    const struct control_claim *claim = nc_control_claim_of(c, node);

    /* The agent knows its claim by the Node's owner. */
    if (!claim || !claim->deletion_usec || !claim->timestamp_usec
        || !nc_streq(node->owner_uid, claim->o.uid)
        || (node->mirrored_usec && node->mirrored_usec <= claim->timestamp_usec)
        || is_known_to_node(c, claim, now_usec))
        return false;
    nc_auto_value struct nc_value *copy = nc_value_new_map();
    nc_auto_free char *id = nc_asprintf(NC_NOTICE_OF_CLAIM "%s", claim->o.uid);
    struct nc_value *annotations = nc_value_new_map();
    struct nc_buf b = NC_BUF_INIT;

    nc_value_set_string(copy, "id", id);
    nc_value_set_string(copy, "mode", "deadline");
    nc_value_set_time(copy, "deadline", claim->timestamp_usec);
    nc_json_write(&b, copy, 0);
    nc_value_set_string(annotations, NC_ANNOTATION_TERMINATION_DEADLINE, b.data);
    nc_buf_done(&b);
    ret->verb = NC_CONTROL_PATCH_NODE;
    ret->body = nc_control_patch(&node->o, true);
    nc_value_set(nc_value_get(ret->body, "metadata"), "annotations", annotations);
    return true;
}
