/*
 * The channels of a bootstrap's report. Each is independent of the others, and none of them can
 * make a bootstrap fail.
 */
#include <errno.h>
#include <stdio.h>

#include "app.h"
#include "bootstrap.h"
#include "log.h"
#include "nc/names.h"
#include "nc/str.h"

#define CONDITION "BootstrapComplete"
#define EVENT_AFTER_USEC 10000000u
#define EVENT_ORDINARY_USEC 60000000u /* of what each new node waits for */
#define EVENT_EVERY_USEC 60000000u
#define CONSOLE_EVERY_USEC 60000000u
#define EVENT_TIMEOUT_USEC 3000000u
#define NODE_TIMEOUT_USEC 3000000u
#define NODE_PAUSE_USEC 10000000u /* after a write that was refused */
#define LOG_EVERY_USEC 10000000u  /* of a phase that waits */
#define LAST_TRIES 3
#define LAST_PAUSE_USEC 200000u

static void log_warnings(struct nc_bootstrap *b) {
    const struct nc_log_fields fields = {.phase = nc_phase_name(nc_report_current(&b->report)),
                                         .instance = b->report.instance_id,
                                         .node = b->report.node};

    for (; b->channels.warnings_logged < b->report.warnings.n; b->channels.warnings_logged++)
        nc_log(NC_LOG_WARNING, &fields, "%s", b->report.warnings.v[b->channels.warnings_logged]);
}

void nc_publish(struct nc_bootstrap *b) {
    nc_cleanup(nc_buf_done) struct nc_buf metrics = NC_BUF_INIT;
    const enum nc_phase p = nc_report_current(&b->report);
    /* What goes well is over before the next scrape. */
    const bool is_news = b->report.outcome != NC_RUNNING || b->report.phases[p].has_error;
    struct nc_err err = NC_ERR_INIT;

    log_warnings(b);
    if (is_news)
        nc_report_metrics(&b->report, &metrics);
    if (nc_status_files_write(b->app, NC_STATUS_BOOTSTRAP,
                              nc_report_tree(&b->report, nc_report_now(b)),
                              is_news ? &metrics : NULL, &err)
            < 0
        && !b->channels.status_failed) {
        b->channels.status_failed = true;
        nc_log(NC_LOG_WARNING, NULL, "%s, going on without", err.msg);
    }
    nc_publish_console_in_time(b);
}

void nc_publish_console(struct nc_bootstrap *b) {
    nc_cleanup(nc_buf_done) struct nc_buf line = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (b->gather.has_config && !b->gather.config.report_console)
        return;
    nc_report_console(&b->report, nc_report_now(b), &line);
    if (nc_console_write(b->app->opts.root, line.data, &err) < 0)
        nc_log(NC_LOG_DEBUG, NULL, "console: %s, ignoring", err.msg);
    b->channels.console_usec = nc_mono_usec();
}

void nc_publish_console_in_time(struct nc_bootstrap *b) {
    const enum nc_phase p = nc_report_current(&b->report);
    const bool fails = b->report.phases[p].has_error;
    const bool is_first = fails && !(b->channels.console_phases & 1u << p);
    const bool is_due = (fails || b->report.waiting) && nc_phase_age(b, p) > CONSOLE_EVERY_USEC
                        && nc_mono_usec() - b->channels.console_usec > CONSOLE_EVERY_USEC;

    if (b->report.outcome != NC_RUNNING || (!is_first && !is_due))
        return;
    b->channels.console_phases |= 1u << p;
    nc_publish_console(b);
}

/* What others read beside what others wrote is dated by the API server's clock, as the daemon's. */
static uint64_t cluster_now(const struct nc_bootstrap *b) {
    return nc_clock_shifted(nc_kube_boot_usec(b->connection.kube));
}

/* Where the Event goes: the NodeClaim if its name and uid are known (describe selects by uid), else
 * the Node by name. By the providerID the controller finds the NodeClaim then. */
static void fill_involved(const struct nc_bootstrap *b, struct nc_event *e) {
    e->instance = b->gather.plan.provider_id;
    if (b->report.claim_name && b->report.claim_uid) {
        const struct nc_claim *claim = nc_bootstrap_claim(b);
        e->kind = "NodeClaim";
        e->api_version = claim && claim->api_version ? claim->api_version : "karpenter.sh/v1";
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
    nc_auto_free char *failure = nc_phase_message(p, entry->error.msg);
    nc_auto_free char *message = NULL, *other_name = NULL;
    const bool is_complete = b->report.outcome == NC_SUCCEEDED;
    struct nc_event e = {.warning = !is_complete,
                         .reason = is_complete ? "BootstrapComplete" : NC_EVENT_BOOTSTRAP_FAILED,
                         .host = b->report.node};
    struct nc_err err = NC_ERR_INIT;
    int r;

    b->channels.event_usec = nc_mono_usec();
    if (!b->gather.config.report_events || !b->connection.kube || !b->report.node
        || (!is_complete && !entry->has_error))
        return;
    e.last_usec = cluster_now(b);
    e.first_usec = e.last_usec - (nc_mono_usec() - b->started_mono_usec);
    fill_involved(b, &e);
    message = is_complete ? nc_strdup("the node is initialized after all")
                          : nc_asprintf("%s. %s", failure, entry->error.remedy);
    e.message = message;
    e.count = is_complete ? 1 : ++b->channels.event_count;
    if (b->channels.event_name && !is_complete)
        r = nc_event_update(b->connection.kube, b->channels.event_name, &e, timeout_usec, &err);
    else
        r = nc_event_create(b->connection.kube, &e, timeout_usec,
                            is_complete ? &other_name : &b->channels.event_name, &err);
    if (r < 0)
        nc_log(NC_LOG_WARNING, NULL, "event on %s %s: %s, ignoring", e.kind, e.name, err.msg);
}

static void publish_warning(struct nc_bootstrap *b, const char *reason, const char *message) {
    const uint64_t now = cluster_now(b);
    nc_auto_free char *name = NULL;
    struct nc_event e = {.warning = true,
                         .reason = reason,
                         .message = message,
                         .host = b->report.node,
                         .first_usec = now,
                         .last_usec = now,
                         .count = 1};
    struct nc_err err = NC_ERR_INIT;

    fill_involved(b, &e);
    if (nc_event_create(b->connection.kube, &e, nc_app_timeout(b->app, EVENT_TIMEOUT_USEC), &name,
                        &err)
        < 0)
        nc_log(NC_LOG_WARNING, NULL, "event on %s %s: %s, ignoring", e.kind, e.name, err.msg);
}

void nc_publish_missing(struct nc_bootstrap *b) {
    const struct nc_strv *by_config = &b->gather.config.unsupported,
                         *by_plan = &b->gather.plan.unsupported;
    const size_t n = by_config->n + by_plan->n;
    const char *first = by_config->n > 0 ? by_config->v[0] : n > 0 ? by_plan->v[0] : NULL;
    nc_auto_free char *message =
        n > 1 ? nc_asprintf("%s; and %zu more", first, n - 1) : nc_strdup(first);

    if (!b->gather.config.report_events || !b->connection.kube || !b->report.node)
        return;
    if (message)
        publish_warning(b, "UnsupportedConfiguration", message);
    if (b->gather.plan.missing_credential_provider)
        publish_warning(b, "MissingCredentialProvider", b->gather.plan.missing_credential_provider);
}

void nc_publish_event_in_time(struct nc_bootstrap *b, enum nc_phase p, bool is_ordinary) {
    const uint64_t third = (b->report.deadline_usec - b->report.started_usec) / 3;
    uint64_t after = is_ordinary ? EVENT_ORDINARY_USEC : EVENT_AFTER_USEC;

    if (third < after)
        after = third > EVENT_AFTER_USEC ? third : EVENT_AFTER_USEC;
    if (nc_phase_age(b, p) > after
        && (b->channels.event_usec == 0
            || nc_mono_usec() - b->channels.event_usec > EVENT_EVERY_USEC))
        nc_publish_event(b, nc_app_timeout(b->app, EVENT_TIMEOUT_USEC));
}

/* Earlier writes would fight Karpenter's optimistic lock while it registers the node. */
static bool may_write_node(const struct nc_bootstrap *b) {
    if (!b->gather.config.report_node || !b->node.object || !b->connection.kube
        || b->connection.is_bootstrap)
        return false;
    return !b->gather.plan.belongs_to_claim
           || nc_streq(nc_node_label(b->node.object, NC_LABEL_REGISTERED), "true");
}

static int patch_node(struct nc_bootstrap *b, const char *subresource, struct nc_kube_call call,
                      struct nc_value *body, struct nc_err *err) {
    nc_auto_free char *path = nc_kube_node_path(b->report.node, subresource);

    nc_node_patch_only(body, nc_value_path_string(b->node.object, "metadata.uid"));
    call.method = "PATCH";
    call.path = path;
    call.body = body;
    call.timeout_usec = nc_app_timeout(b->app, NODE_TIMEOUT_USEC);
    return nc_kube_perform(b->connection.kube, &call, NULL, NULL, err);
}

static int patch_condition(struct nc_bootstrap *b, const char *reason, const char *message,
                           bool complete, struct nc_err *err) {
    nc_auto_value struct nc_value *body = NULL;

    if (nc_streq(b->channels.condition_reason, reason))
        return 0;
    body = nc_node_condition_patch(&(struct nc_node_condition){.type = CONDITION,
                                                               .is_true = complete,
                                                               .reason = reason,
                                                               .message = message,
                                                               .now_usec = cluster_now(b)});
    const struct nc_kube_call call = {.what = "report condition " CONDITION,
                                      .patch = NC_KUBE_PATCH_STRATEGIC};
    const int r = patch_node(b, "status", call, body, err);
    if (r < 0)
        return r;
    free(b->channels.condition_reason);
    b->channels.condition_reason = nc_strdup(reason);
    return 0;
}

static int write_node(struct nc_bootstrap *b, const char *reason, const char *message,
                      bool complete, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_value struct nc_value *body = NULL;
    const int r = patch_condition(b, reason, message, complete, err);

    if (r < 0 || !complete)
        return r;
    nc_report_annotation(&b->report, &text);
    body = nc_node_annotation_patch(NC_ANNOTATION_BOOTSTRAP, text.data);
    const struct nc_kube_call call = {.what = "annotate the node", .patch = NC_KUBE_PATCH_MERGE};
    return patch_node(b, NULL, call, body, err);
}

void nc_publish_node(struct nc_bootstrap *b, const char *reason, const char *message,
                     bool complete) {
    struct nc_err err = NC_ERR_INIT;
    int r = 0;

    if (!may_write_node(b) || (!complete && nc_mono_usec() < b->channels.node_after_usec))
        return;
    for (unsigned attempt = 1; attempt <= (complete ? LAST_TRIES : 1u); attempt++) {
        err = (struct nc_err)NC_ERR_INIT;
        r = write_node(b, reason, message, complete, &err);
        if (r >= 0 || err.class != NC_ERR_TRANSIENT || nc_app_is_late(b->app)
            || nc_app_pause(b->app, nc_app_left(b->app, LAST_PAUSE_USEC)) < 0)
            break;
    }
    if (r >= 0)
        return;
    b->channels.node_after_usec = nc_mono_usec() + NODE_PAUSE_USEC;
    nc_log(NC_LOG_WARNING, NULL, "%s, ignoring", err.msg);
}

/* --- a phase that fails, or waits */

static const char *default_remedy(enum nc_phase p, const struct nc_err *err) {
    const enum nc_err_class class = err->class;

    if (p == NC_PHASE_IMDS && class == NC_ERR_AUTH)
        return "enable the instance metadata service (IMDSv2) in the instance's metadata options";
    if (p == NC_PHASE_IMDS)
        return "check the instance's metadata options, and that nothing on the host blocks the "
               "link-local address";
    if (class == NC_ERR_AUTH)
        return NC_CHECK_MAPPING;
    if (class == NC_ERR_CONFIG)
        return "correct the document; nodeclaimd check names all that is wrong";
    if (class == NC_ERR_HOST)
        return "check the journal of this unit and of kubelet";
    if (class == NC_ERR_BUG)
        return "please report it, with the folder that `nodeclaimd render --save-facts DIR` writes";
    if (err->code >= 500)
        return "see how that server is, or what stands before it";
    return "check routes, security groups and network ACLs between node and cluster";
}

void nc_log_failure(const struct nc_bootstrap *b, enum nc_phase p, const struct nc_err *err,
                    const char *then) {
    const struct nc_log_fields fields = {
        .phase = nc_phase_name(p),
        .error_class = nc_err_class_name(err->class),
        .instance = b->report.instance_id,
        .node = b->report.node,
    };
    nc_auto_free char *failure = nc_phase_message(p, err->msg);

    nc_log(NC_LOG_WARNING, &fields, "%s%s; %s", failure, then, err->remedy);
}

void nc_fill_remedy(struct nc_err *err, enum nc_phase p) {
    if (!*err->remedy)
        nc_err_remedy(err, "%s", default_remedy(p, err));
    if (err->class == NC_ERR_CONFIG)
        nc_remedy_by_source(err, err->msg);
}

void nc_remedy_by_source(struct nc_err *err, const char *place) {
    const char *how = nc_starts_with(place, "user-data")
                          ? "only a new node has other user data: correct what makes it "
                            "(EC2NodeClass, NodePool, Karpenter's settings, launch template)"
                      : *place == '/' ? "a document of the image needs a new image, one of this "
                                        "machine systemctl restart nodeclaimd-bootstrap"
                                      : "";

    if (*how && !strstr(err->remedy, how))
        nc_err_remedy(err, "%s; %s", err->remedy, how);
}

uint64_t nc_report_now(const struct nc_bootstrap *b) {
    return b->report.started_usec + (nc_mono_usec() - b->started_mono_usec);
}

uint64_t nc_phase_age(const struct nc_bootstrap *b, enum nc_phase p) {
    const uint64_t now = nc_report_now(b), started = b->report.phases[p].started_usec;

    return now > started ? now - started : 0;
}

/* Each change is in status.json; the log has the first one, and then one now and then: kubelet's
 * last lines change with each that it writes. */
void nc_phase_waits(struct nc_bootstrap *b, enum nc_phase p, const struct nc_err *why) {
    struct nc_err err = *why;
    const struct nc_phase_entry *entry = &b->report.phases[p];
    const uint64_t now = nc_mono_usec();

    nc_fill_remedy(&err, p);
    if (entry->has_error && nc_streq(entry->error.msg, err.msg)) {
        nc_publish_console_in_time(b);
        return;
    }
    if (!entry->has_error || now - b->channels.log_usec > LOG_EVERY_USEC) {
        nc_log_failure(b, p, &err, "");
        b->channels.log_usec = now;
    }
    nc_report_retrying(&b->report, p, &err, nc_report_now(b));
    nc_publish(b);
}
