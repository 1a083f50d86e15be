/*
 * The channels of a bootstrap's report. Each is independent of the others, and none of them can
 * make a bootstrap fail.
 */
#include <errno.h>
#include <stdio.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/file.h"
#include "nc/str.h"

#define ANNOTATION "nodeclaimd.io/bootstrap"
#define CONDITION "BootstrapComplete"

static void write_below(struct nc_bootstrap *b, const char *path, const struct nc_buf *text) {
    nc_auto_free char *below = nc_app_path(b->app, path);
    struct nc_err err = NC_ERR_INIT;

    if (nc_file_write(below, text->data, text->len, 0644, false, &err) < 0 && !b->status_failed) {
        b->status_failed = true;
        nc_log(NC_LOG_WARNING, NULL, "%s, going on without", err.msg);
    }
}

void nc_publish(struct nc_bootstrap *b) {
    nc_cleanup(nc_buf_done) struct nc_buf status = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf metrics = NC_BUF_INIT;

    nc_report_status(&b->report, nc_now_usec(), &status);
    write_below(b, NC_STATUS_FILE, &status);
    if (b->report.outcome == NC_RUNNING)
        return; /* the text for Prometheus is for the end: scrapes are minutes apart */
    nc_report_metrics(&b->report, &metrics);
    write_below(b, NC_METRICS_FILE, &metrics);
}

void nc_publish_console(struct nc_bootstrap *b) {
    nc_cleanup(nc_buf_done) struct nc_buf line = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (b->gather.has_config && !b->gather.config.report_console)
        return;
    nc_report_console(&b->report, &line);
    if (nc_console_write(b->app->opts.root, line.data, &err) < 0)
        nc_log(NC_LOG_DEBUG, NULL, "console: %s, ignoring", err.msg);
}

/* Where the Event goes: the NodeClaim if its name and uid are known (describe selects by uid), else
 * the Node by name. */
static void fill_involved(const struct nc_bootstrap *b, struct nc_event *e) {
    if (b->report.claim_name && b->report.claim_uid) {
        e->kind = "NodeClaim";
        e->api_version =
            b->has_claim && b->claim.api_version ? b->claim.api_version : "karpenter.sh/v1";
        e->name = b->report.claim_name;
        e->uid = b->report.claim_uid;
    } else {
        e->kind = "Node";
        e->api_version = "v1";
        e->name = b->report.node;
        e->uid = b->report.node;
    }
}

void nc_publish_event(struct nc_bootstrap *b, uint64_t timeout_usec) {
    const enum nc_phase p = nc_report_current(&b->report);
    const struct nc_phase_entry *entry = &b->report.phases[p];
    const uint64_t now = nc_now_usec();
    nc_auto_free char *message = NULL;
    struct nc_event e = {.warning = true,
                         .reason = "BootstrapFailed",
                         .host = b->report.node,
                         .first_usec = b->report.started_usec,
                         .last_usec = now};
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (!b->gather.config.report_events || !b->connection.kube || !entry->has_error
        || !b->report.node)
        return;
    fill_involved(b, &e);
    message = nc_asprintf("%s: %s. %s", nc_phase_name(p), entry->error.msg, entry->error.remedy);
    e.message = message;
    e.count = ++b->event_count;
    if (b->event_name)
        r = nc_event_update(b->connection.kube, b->event_name, &e, timeout_usec, &err);
    else
        r = nc_event_create(b->connection.kube, &e, timeout_usec, &b->event_name, &err);
    if (r < 0)
        nc_log(NC_LOG_WARNING, NULL, "event on %s %s: %s, ignoring", e.kind, e.name, err.msg);
}

/* Earlier writes would fight Karpenter's optimistic lock while it registers the node. */
static bool may_write_node(const struct nc_bootstrap *b) {
    if (!b->gather.config.report_node || !b->node || !b->connection.kube
        || b->connection.is_bootstrap)
        return false;
    return !b->gather.plan.belongs_to_claim
           || nc_streq(nc_node_label(b->node, "karpenter.sh/registered"), "true");
}

static int patch(struct nc_bootstrap *b, const char *what, const char *subresource,
                 enum nc_kube_patch kind, const struct nc_value *body, uint64_t timeout_usec,
                 struct nc_err *err) {
    nc_auto_free char *path = nc_kube_node_path(b->report.node, subresource);
    const struct nc_kube_call call = {.what = what,
                                      .method = "PATCH",
                                      .path = path,
                                      .body = body,
                                      .patch = kind,
                                      .timeout_usec = timeout_usec};

    return nc_kube_perform(b->connection.kube, &call, NULL, NULL, err);
}

static int patch_condition(struct nc_bootstrap *b, const char *reason, const char *message,
                           bool complete, uint64_t timeout_usec, struct nc_err *err) {
    nc_auto_value struct nc_value *body = NULL;

    if (nc_streq(b->condition_reason, reason))
        return 0;
    body = nc_node_condition_patch(CONDITION, complete ? "True" : "False", reason, message,
                                   nc_now_usec(), 0);
    const int r = patch(b, "report condition " CONDITION, "status", NC_KUBE_PATCH_STRATEGIC, body,
                        timeout_usec, err);
    if (r < 0)
        return r;
    free(b->condition_reason);
    b->condition_reason = nc_strdup(reason);
    return 0;
}

void nc_publish_node(struct nc_bootstrap *b, const char *reason, const char *message, bool complete,
                     uint64_t timeout_usec) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_value struct nc_value *body = NULL;
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (!may_write_node(b))
        return;
    r = patch_condition(b, reason, message, complete, timeout_usec, &err);
    if (r >= 0 && complete) {
        nc_report_annotation(&b->report, &text);
        body = nc_node_annotation_patch(ANNOTATION, text.data);
        r = patch(b, "annotate the node", NULL, NC_KUBE_PATCH_MERGE, body, timeout_usec, &err);
    }
    if (r < 0)
        nc_log(NC_LOG_WARNING, NULL, "%s, ignoring", err.msg);
}
