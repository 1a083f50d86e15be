/*
 * Reading objects, for the judge: by itself, not as the program does.
 */
#include "judge.h"
#include "nc/str.h"
#include "nc/time.h"

const char *text_at(const struct nc_value *v, const char *path) {
    return nc_value_string(nc_value_path(v, path));
}

const char *label_of(const struct nc_value *v, const char *key) {
    return nc_value_get_string(nc_value_path(v, "metadata.labels"), key);
}

const char *annotation_of(const struct nc_value *v, const char *key) {
    return nc_value_get_string(nc_value_path(v, "metadata.annotations"), key);
}

bool has_finalizer(const struct nc_value *v, const char *name) {
    const struct nc_value *list = nc_value_path(v, "metadata.finalizers");

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_streq(nc_value_string(list->items[i]), name))
            return true;
    return false;
}

bool is_deleting(const struct nc_value *v) {
    return text_at(v, "metadata.deletionTimestamp") != NULL;
}

uint64_t time_at(const struct nc_value *v, const char *path) {
    uint64_t usec = 0;

    return nc_time_parse(text_at(v, path), &usec) < 0 ? 0 : usec;
}

const char *condition_of(const struct nc_value *v, const char *type) {
    const struct nc_value *list = nc_value_path(v, "status.conditions");

    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_streq(nc_value_get_string(list->items[i], "type"), type))
            return nc_value_get_string(list->items[i], "status");
    return NULL;
}

bool may_drain(const struct nc_value *node) {
    const char *text = annotation_of(node, STATUS_KEY);

    return !text || !strstr(text, "\"policy\":") || strstr(text, "\"policy\":\"drain\"");
}

/* The machine comes back: nothing of its claim may end. */
static bool returns(const char *text) {
    return strstr(text, "\"returns\":true");
}

uint64_t deadline_to_relay(const struct nc_value *node, uint64_t now_usec) {
    const char *text = annotation_of(node, STATUS_KEY);
    nc_auto_value struct nc_value *status = NULL;
    uint64_t deadline = 0;

    if (!text || !may_drain(node) || returns(text) || !strstr(text, "deadline")
        || strstr(text, "\"deadline\":null")
        || nc_json_parse(text, strlen(text), &status, NULL) < 0)
        return 0;
    const char *source = text_at(status, "source");
    if (!nc_streq(source, "spot") && !nc_streq(source, "maintenance"))
        return 0;
    if (nc_time_parse(text_at(status, "deadline"), &deadline) < 0)
        return 0;
    if (deadline > now_usec + 3600 * SEC || deadline + 600 * SEC < now_usec)
        return 0;
    return deadline;
}

static const char *shown_at(const struct nc_value *status, const char *key) {
    const char *text = text_at(status, key);

    return text ? text : "-";
}

void note_ending(struct shown *node) {
    const char *text = annotation_of(node->v, STATUS_KEY);
    nc_auto_value struct nc_value *status = NULL;
    uint64_t deadline = 0, updated = 0;

    if (!text || nc_json_parse(text, strlen(text), &status, NULL) < 0)
        return;
    nc_auto_free char *ending =
        nc_asprintf("%s %s %s %s", shown_at(status, "source"), shown_at(status, "id"),
                    shown_at(status, "deadline"), shown_at(status, "policy"));
    if (nc_streq(ending, node->ending))
        return;
    (void)snprintf(node->ending, sizeof(node->ending), "%s", ending);
    node->left_usec = UINT64_MAX;
    if (nc_time_parse(text_at(status, "updated"), &updated) >= 0
        && nc_time_parse(text_at(status, "deadline"), &deadline) >= 0)
        node->left_usec = deadline > updated + SEC ? deadline - updated - SEC : 0;
}

bool is_unreadable(const struct nc_value *node) {
    const struct nc_value *taints = nc_value_path(node, "spec.taints");

    return taints && taints->n >= MANY_TAINTS;
}

bool is_foreign(const struct nc_value *claim) {
    const char *by = label_of(claim, "app.kubernetes.io/managed-by");

    return has_finalizer(claim, KARPENTER_FINALIZER) || (by && !nc_streq(by, "nodeclaimd"))
           || nc_streq(text_at(claim, "spec.nodeClassRef.group"), "eks.amazonaws.com");
}
