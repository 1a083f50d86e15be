/*
 * What the lifecycle wants to know of our own Node, out of an object as a list, a watch or the
 * answer to a patch has it.
 *
 * Metadata only leaves what it cannot know as it was; but for a Node that was made anew under the
 * same name, of which nothing that was known before is true. A Node is another program's writing:
 * whatever has the wrong type reads as absent. And which of its volumes are those of pods that
 * stay. Pure.
 */
#include <stdio.h>
#include <string.h>

#include "nc/kube-drain.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"

#include "wire.h"

static bool has_text(const struct nc_value *map, const char *key) {
    return nc_value_get_string(map, key) != NULL;
}

/* Another uid is another Node. */
static void apply_uid(struct nc_node_view *v, const struct nc_value *metadata) {
    const char *uid = nc_value_get_string(metadata, "uid");
    char printable[sizeof(v->uid)] = "";

    if (uid)
        nc_kube_printable(printable, sizeof(printable), uid, strlen(uid));
    if (!v->exists || !nc_streq(v->uid, printable))
        memset(v, 0, sizeof(*v));
    memcpy(v->uid, printable, sizeof(printable));
    v->exists = true;
}

static void apply_view_metadata(struct nc_node_view *v, const struct nc_value *metadata) {
    const struct nc_value *annotations = nc_value_get(metadata, "annotations");
    const char *deletion = nc_value_get_string(metadata, "deletionTimestamp");
    const char *balancers =
        nc_value_get_string(nc_value_get(metadata, "labels"), NC_LABEL_BALANCERS);

    v->is_deleting = deletion != NULL;
    v->deletion_usec = 0;
    if (deletion)
        (void)nc_time_parse(deletion, &v->deletion_usec);
    v->has_cordon_record = has_text(annotations, NC_ANNOTATION_CORDON);
    v->has_status = has_text(annotations, NC_ANNOTATION_STATUS);
    v->has_balancers_label = balancers != NULL;
    v->is_balancers_label_ours = nc_streq(balancers, NC_LABEL_BALANCERS_VALUE);
}

static bool is_true(const struct nc_value *node, const char *condition) {
    return nc_value_says(nc_node_condition(node, condition), "status", "True");
}

const char nc_known_condition_names[] =
    "DrainInProgress\0MaintenancePlanned\0MaintenanceInProgress\0GracefulNodeShutdownInProgress\0";

static void apply_known_conditions(struct nc_node_view *v, const struct nc_value *node) {
    v->known_true = v->known_ours = 0;
    for (unsigned i = 0; i < _NC_KNOWN_CONDITION_MAX; i++) {
        const struct nc_value *c = nc_node_condition(node, nc_name_at(nc_known_condition_names, i));
        const char *message = nc_value_get_string(c, "message");
        if (!nc_value_says(c, "status", "True"))
            continue;
        v->known_true |= 1u << i;
        if (message && nc_starts_with(message, NC_KNOWN_CONDITION_OURS))
            v->known_ours |= 1u << i;
    }
}

static void apply_volumes(struct nc_node_view *v, const struct nc_value *node,
                          const struct nc_strv *stay) {
    const struct nc_value *list = nc_value_path(node, "status.volumesAttached"), *item;

    v->n_volumes = 0;
    v->volume[0] = '\0';
    for (size_t i = 0; (item = nc_value_item(list, i)); i++) {
        const char *name = nc_value_get_string(item, "name");
        if (!name || (stay && nc_strv_contains(stay, name)))
            continue;
        if (v->n_volumes++ == 0)
            (void)snprintf(v->volume, sizeof(v->volume), "%s", name);
    }
}

static void apply_view_rest(struct nc_node_view *v, const struct nc_value *node,
                            const struct nc_strv *stay) {
    v->is_complete = true;
    v->is_unschedulable = nc_value_bool(nc_value_path(node, "spec.unschedulable"), false);
    v->has_disrupted_taint = nc_node_has_taint(node, NC_TAINT_DISRUPTED, "NoSchedule");
    v->has_rebooting_taint = nc_node_has_taint(node, NC_TAINT_REBOOTING, "NoSchedule");
    v->is_pending_true = is_true(node, "InterruptionPending");
    v->is_drained_true =
        is_true(node, "Drained")
        && nc_value_says(nc_node_condition(node, "Drained"), "reason", NC_REASON_DRAINED);
    v->is_drained_by_another = is_true(node, "Drained") && !v->is_drained_true;
    apply_known_conditions(v, node);
    apply_volumes(v, node, stay);
}

void nc_node_view_apply(struct nc_node_view *v, const struct nc_value *object,
                        const struct nc_strv *stay) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");

    apply_uid(v, metadata);
    apply_view_metadata(v, metadata);
    if (nc_value_get(object, "spec") || nc_value_get(object, "status"))
        apply_view_rest(v, object, stay);
}

/* --- the volumes of pods that stay */

const char nc_volume_claim_paths[] = "spec.volumeName\0";
const char nc_volume_paths[] =
    "spec.claimRef.namespace\0spec.claimRef.name\0spec.csi.driver\0spec.csi.volumeHandle\0";

#define DRIVER_MAX_BYTES 63
#define HANDLE_MAX_BYTES 1024 /* CSI allows 128 */

/* A name of the API, as far as it goes into a path. */
static bool is_name(const char *s) {
    return nc_is_made_of(s, ".-" NC_LOWER NC_DIGITS, 253) && !nc_streq(s, ".")
           && !nc_streq(s, "..");
}

char *nc_volume_claim_path(const char *namespace, const char *name) {
    return is_name(namespace) && is_name(name)
               ? nc_asprintf("/api/v1/namespaces/%s/persistentvolumeclaims/%s", namespace, name)
               : NULL;
}

char *nc_volume_claim_read(const struct nc_value *claim) {
    const char *name = nc_value_path_string(claim, "spec.volumeName");

    return is_name(name) ? nc_asprintf("/api/v1/persistentvolumes/%s", name) : NULL;
}

static bool is_bound_to(const struct nc_value *volume, const char *claim) {
    const struct nc_value *ref = nc_value_path(volume, "spec.claimRef");
    const char *namespace = nc_value_get_string(ref, "namespace");
    const char *name = nc_value_get_string(ref, "name");
    nc_auto_free char *bound = namespace && name ? nc_asprintf("%s/%s", namespace, name) : NULL;

    return bound && nc_streq(bound, claim);
}

char *nc_volume_read(const struct nc_value *volume, const char *claim) {
    const struct nc_value *csi = nc_value_path(volume, "spec.csi");
    const char *driver = nc_value_get_string(csi, "driver");
    const char *handle = nc_value_get_string(csi, "volumeHandle");

    if (!driver || !*driver || strlen(driver) > DRIVER_MAX_BYTES || !handle || !*handle
        || strlen(handle) > HANDLE_MAX_BYTES || !is_bound_to(volume, claim))
        return NULL;
    return nc_asprintf("kubernetes.io/csi/%s^%s", driver, handle);
}
