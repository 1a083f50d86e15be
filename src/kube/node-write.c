/*
 * A write of our own Node: its patch, its sending, and what its answer means.
 *
 * Conditions and the annotation beside them go to /status as a strategic merge patch, which merges
 * conditions by type; everything else is a merge patch of the Node. The API server lets nothing
 * else through on either, so a write never mixes both. guard.c holds each to our own keys.
 */
#include <string.h>

#include "nc/clock.h"
#include "nc/kube-drain.h"
#include "nc/mem.h"
#include "nc/names.h"

#include "wire.h"

static const char *const names[_NC_WRITE_MAX] = {
    [NC_WRITE_NONE] = "write node",
    [NC_WRITE_SIGNAL] = "report notice on node",
    [NC_WRITE_CORDON] = "cordon node",
    [NC_WRITE_PROGRESS] = "report drain progress on node",
    [NC_WRITE_DRAINED] = "report end of drain on node",
    [NC_WRITE_UNDRAINED] = "report end of drain on node",
    [NC_WRITE_RELEASE] = "release node",
    [NC_WRITE_CLEAR_CONDITIONS] = "clear conditions of node",
};

static struct nc_value *text_or_null(const char *text) {
    return text ? nc_value_new_string(text) : nc_value_new(NC_VALUE_NULL);
}

static void add_condition(struct nc_value *list, const char *type, const struct nc_condition *c,
                          uint64_t now_usec) {
    nc_auto_value struct nc_value *patch = NULL;

    if (!c->is_set)
        return;
    patch = nc_node_condition_patch(&(struct nc_node_condition){.type = type,
                                                                .is_true = c->is_true,
                                                                .reason = c->reason,
                                                                .message = c->message,
                                                                .now_usec = now_usec,
                                                                .is_unchanged = c->is_unchanged});
    nc_value_push(list, nc_value_copy(nc_value_path(patch, "status.conditions")->items[0]));
}

static void set_metadata(struct nc_value *body, const struct nc_node_write *w, bool is_status) {
    struct nc_value *metadata = nc_value_new_map();
    struct nc_value *annotations = nc_value_new_map();

    if (w->sets_status)
        nc_value_set(annotations, NC_ANNOTATION_STATUS, text_or_null(w->drain_status));
    if (w->sets_cordon)
        nc_value_set(annotations, NC_ANNOTATION_CORDON, text_or_null(w->cordon));
    if (annotations->n > 0)
        nc_value_set(metadata, "annotations", annotations);
    else
        nc_value_free(annotations);
    if (w->balancers_label >= 0 && !is_status) {
        struct nc_value *labels = nc_value_add_map(metadata, "labels");
        nc_value_set(labels, NC_LABEL_BALANCERS,
                     text_or_null(w->balancers_label ? NC_LABEL_BALANCERS_VALUE : NULL));
    }
    if (metadata->n > 0)
        nc_value_set(body, "metadata", metadata);
    else
        nc_value_free(metadata);
}

static void set_unschedulable(struct nc_value *body, int unschedulable) {
    if (unschedulable < 0)
        return;
    nc_value_set(nc_value_add_map(body, "spec"), "unschedulable",
                 unschedulable ? nc_value_new_bool(true) : nc_value_new(NC_VALUE_NULL));
}

static void set_conditions(struct nc_value *body, const struct nc_node_write *w,
                           uint64_t now_usec) {
    struct nc_value *list = nc_value_new_list();

    add_condition(list, "InterruptionPending", &w->pending, now_usec);
    add_condition(list, "Drained", &w->drained, now_usec);
    for (unsigned i = 0; i < _NC_KNOWN_CONDITION_MAX; i++) {
        const char *why = w->known_message[i]  ? w->known_message[i]
                          : w->pending.message ? w->pending.message
                                               : w->drained.message;
        nc_auto_free char *message = nc_asprintf(NC_KNOWN_CONDITION_OURS "%s", why ? why : "");
        const struct nc_condition c = {.is_set = w->known_set & 1u << i,
                                       .is_true = w->known_true & 1u << i,
                                       .is_unchanged = w->known_unchanged & 1u << i,
                                       .reason = w->known_reason[i],
                                       .message = message};
        add_condition(list, nc_name_at(nc_known_condition_names, i), &c, now_usec);
    }
    if (list->n == 0) {
        nc_value_free(list);
        return;
    }
    nc_value_set(nc_value_add_map(body, "status"), "conditions", list);
}

struct nc_value *nc_node_write_body(const struct nc_node_write *w, uint64_t now_usec,
                                    const char **ret_subresource, enum nc_kube_patch *ret_kind) {
    const bool is_status = nc_node_write_is_of_status(w->kind);
    struct nc_value *body = nc_value_new_map();

    set_metadata(body, w, is_status);
    if (is_status)
        set_conditions(body, w, now_usec);
    else
        set_unschedulable(body, w->unschedulable);
    nc_node_patch_only(body, w->uid);
    *ret_subresource = is_status ? "status" : NULL;
    *ret_kind = is_status ? NC_KUBE_PATCH_STRATEGIC : NC_KUBE_PATCH_MERGE;
    return body;
}

struct sent {
    void (*done)(void *userdata, const struct nc_node_written *w);
    void *userdata;
    uint64_t started_usec;
};

/* Refused for good, or not to be had just now? */
static enum nc_write_outcome outcome_of(const struct nc_kube_status *status,
                                        const struct nc_err *err) {
    if (err->class == NC_ERR_NONE)
        return NC_WRITTEN;
    return nc_kube_is_refusal(status) ? NC_WRITE_REFUSED : NC_WRITE_UNAVAILABLE;
}

static void on_written(void *userdata, const struct nc_value *object,
                       const struct nc_kube_status *status, const struct nc_err *err) {
    nc_auto_free struct sent *s = userdata;
    const struct nc_node_written w = {.outcome = outcome_of(status, err),
                                      .is_anothers = nc_kube_is_about_uid(status),
                                      .node = err->class == NC_ERR_NONE ? object : NULL,
                                      .retry_after_usec = status->retry_after_usec,
                                      .duration_usec = nc_mono_usec() - s->started_usec,
                                      .err = *err};

    s->done(s->userdata, &w);
}

int nc_node_send(struct nc_kube *k, const struct nc_node_call *c, struct nc_kube_req **ret,
                 struct nc_err *err) {
    struct sent *s = nc_calloc(1, sizeof(*s));
    struct nc_kube_call call = {.what = names[c->write->kind],
                                .method = "PATCH",
                                .timeout_usec = c->timeout_usec,
                                .done = on_written,
                                .userdata = s,
                                .destroy = free};
    const char *subresource;
    nc_auto_value struct nc_value *body =
        nc_node_write_body(c->write, c->now_usec, &subresource, &call.patch);
    nc_auto_free char *path = nc_kube_node_path(c->node, subresource);
    int r;

    *s = (struct sent){.done = c->done, .userdata = c->userdata, .started_usec = nc_mono_usec()};
    call.path = path;
    call.body = body;
    r = nc_kube_start(k, &call, ret, err);
    if (r < 0)
        free(s);
    return r;
}
