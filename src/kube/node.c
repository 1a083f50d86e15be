/*
 * Pure readers of a Node, and the bodies of the patches that a node sends about itself.
 *
 * A Node is another program's writing: whatever has the wrong type reads as absent. Patches hold
 * our own keys only; guard.c holds them to that.
 */
#include <string.h>

#include "nc/kube.h"
#include "nc/str.h"
#include "nc/time.h"

#include "wire.h"

#define MAX_CONDITION_MESSAGE 1024
#define SECOND_USEC 1000000u

char *nc_kube_node_path(const char *name, const char *subresource) {
    nc_auto_free char *escaped = nc_kube_escape(name);

    return nc_asprintf("/api/v1/nodes/%s%s%s", escaped, subresource ? "/" : "",
                       subresource ? subresource : "");
}

char *nc_kube_node_selector(const char *name) {
    nc_auto_free char *escaped = nc_kube_escape(name);

    return nc_asprintf("fieldSelector=metadata.name%%3D%s", escaped);
}

const struct nc_value *nc_node_condition(const struct nc_value *node, const char *type) {
    return nc_value_find(nc_value_path(node, "status.conditions"), "type", type);
}

bool nc_node_is_ready(const struct nc_value *node, const char **ret_reason,
                      const char **ret_message) {
    const struct nc_value *ready = nc_node_condition(node, "Ready");
    const char *reason = nc_value_get_string(ready, "reason");
    const char *message = nc_value_get_string(ready, "message");

    if (ret_reason)
        *ret_reason = reason ? reason : "";
    if (ret_message)
        *ret_message = message ? message : "";
    return nc_value_says(ready, "status", "True");
}

bool nc_node_is_reported_since(const struct nc_value *node, uint64_t since_usec) {
    const char *heartbeat =
        nc_value_get_string(nc_node_condition(node, "Ready"), "lastHeartbeatTime");
    uint64_t reported_usec = 0;

    if (since_usec == 0)
        return true;
    return heartbeat && nc_time_parse(heartbeat, &reported_usec) >= 0
           && reported_usec >= since_usec - since_usec % SECOND_USEC;
}

bool nc_node_has_taint(const struct nc_value *node, const char *key, const char *effect) {
    const struct nc_value *list = nc_value_path(node, "spec.taints"), *taint;

    for (size_t i = 0; (taint = nc_value_item(list, i)); i++)
        if (nc_value_says(taint, "key", key) && (!effect || nc_value_says(taint, "effect", effect)))
            return true;
    return false;
}

bool nc_node_is_being_deleted(const struct nc_value *node) {
    return nc_value_path_string(node, "metadata.deletionTimestamp") != NULL;
}

const char *nc_node_label(const struct nc_value *node, const char *key) {
    return nc_value_get_string(nc_value_path(node, "metadata.labels"), key);
}

struct nc_value *nc_node_condition_patch(const struct nc_node_condition *c) {
    struct nc_value *root = nc_value_new_map();
    struct nc_value *list = nc_value_add_list(nc_value_add_map(root, "status"), "conditions");
    struct nc_value *condition = nc_value_new_map();
    const char *message = c->message ? c->message : "";
    nc_auto_free char *text = nc_strndup(message, nc_cut(message, MAX_CONDITION_MESSAGE));
    nc_value_set_string(condition, "type", c->type);
    nc_value_set_string(condition, "status", c->is_true ? "True" : "False");
    nc_value_set_string(condition, "reason", c->reason);
    nc_value_set_string(condition, "message", text);
    nc_value_set_time(condition, "lastHeartbeatTime", c->now_usec);
    if (!c->is_unchanged)
        nc_value_set_time(condition, "lastTransitionTime",
                          c->since_usec ? c->since_usec : c->now_usec);
    nc_value_push(list, condition);
    return root;
}

struct nc_value *nc_node_annotation_patch(const char *key, const char *value) {
    struct nc_value *root = nc_value_new_map();
    struct nc_value *annotations =
        nc_value_add_map(nc_value_add_map(root, "metadata"), "annotations");

    nc_value_set(annotations, key,
                 value ? nc_value_new_string(value) : nc_value_new(NC_VALUE_NULL));
    return root;
}

void nc_node_patch_only(struct nc_value *patch, const char *uid) {
    struct nc_value *metadata = nc_value_get(patch, "metadata");

    if (!uid || !*uid)
        return;
    if (!metadata)
        metadata = nc_value_add_map(patch, "metadata");
    nc_value_set_string(metadata, "uid", uid);
}
