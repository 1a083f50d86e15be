/*
 * The Node condition that states that notices of EC2 cannot be received: who checks the cluster
 * sees it there, before the instance is gone without a word.
 *
 * Written on change only, and beside the lifecycle's writes: it is best effort, and decides
 * nothing. What stands on the Node is read whenever the complete Node is, so that a restart takes
 * back what an earlier life has said.
 */
#include "imds-condition.h"

#include "log.h"
#include "nc/names.h"
#include "nc/str.h"

#define FAILING_USEC 20000000u /* of failures; less is a restart of the service */
#define TIMEOUT_USEC 5000000u
#define RETRY_USEC 10000000u
#define REFUSED_USEC 600000000u /* access may be granted later */

void nc_imds_condition_note_node(struct nc_imds_condition *c, const struct nc_value *node) {
    const struct nc_value *found = nc_node_condition(node, NC_CONDITION_NOTICES);

    c->is_true = nc_streq(nc_value_get_string(found, "status"), "True");
}

void nc_imds_condition_note_metadata(struct nc_imds_condition *c, const struct nc_value *metadata) {
    c->is_registered = nc_streq(
        nc_value_get_string(nc_value_get(metadata, "labels"), NC_LABEL_REGISTERED), "true");
    nc_imds_condition_check(c);
}

static void on_written(void *userdata, const struct nc_value *object,
                       const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_imds_condition *c = userdata;
    const bool is_refused = status->http == 403 || status->http == 404 || status->http == 422;

    c->write = NULL;
    if (err->class == NC_ERR_NONE) {
        c->is_true = c->is_writing_true;
        return;
    }
    c->after_usec = nc_mono_usec() + (is_refused ? REFUSED_USEC : RETRY_USEC);
    nc_log(is_refused ? NC_LOG_WARNING : NC_LOG_DEBUG,
           &(struct nc_log_fields){.node = *c->o.node_name}, "%s, ignoring", err->msg);
}

static void write_condition(struct nc_imds_condition *c, bool is_failing, const char *message) {
    const struct nc_node_condition condition = {.type = NC_CONDITION_NOTICES,
                                                .is_true = is_failing,
                                                .reason = is_failing ? "MetadataServiceUnavailable"
                                                                     : "MetadataServiceAvailable",
                                                .message = message,
                                                .now_usec = c->o.now(c->o.userdata)};
    nc_auto_value struct nc_value *body = nc_node_condition_patch(&condition);
    nc_auto_free char *path = nc_kube_node_path(*c->o.node_name, "status");
    const struct nc_kube_call call = {.what = "report condition " NC_CONDITION_NOTICES,
                                      .method = "PATCH",
                                      .path = path,
                                      .body = body,
                                      .patch = NC_KUBE_PATCH_STRATEGIC,
                                      .timeout_usec = TIMEOUT_USEC,
                                      .done = on_written,
                                      .userdata = c};
    struct nc_err err = NC_ERR_INIT;

    c->is_writing_true = is_failing;
    c->o.counters->api_requests++;
    nc_log(is_failing ? NC_LOG_WARNING : NC_LOG_INFO,
           &(struct nc_log_fields){.node = *c->o.node_name}, "node %s: condition %s=%s: %s",
           *c->o.node_name, NC_CONDITION_NOTICES, is_failing ? "True" : "False", message);
    if (nc_kube_start(c->o.api->connection.kube, &call, &c->write, &err) < 0)
        on_written(c, NULL, &(struct nc_kube_status){0}, &err);
}

static bool may_write(const struct nc_imds_condition *c) {
    return nc_api_session_is_up(c->o.api) && !c->write && nc_mono_usec() >= c->after_usec
           && c->o.may_write(c->o.userdata);
}

void nc_imds_condition_check(struct nc_imds_condition *c) {
    nc_cleanup(nc_buf_done) struct nc_buf message = NC_BUF_INIT;
    bool is_failing;

    if (!may_write(c)
        || nc_notice_poller_is_failing(*c->o.poller, FAILING_USEC, &is_failing, &message) < 0
        || is_failing == c->is_true)
        return;
    write_condition(c, is_failing, message.data);
}

void nc_imds_condition_close(struct nc_imds_condition *c) {
    c->write = nc_kube_cancel(c->write);
    c->after_usec = 0;
}
