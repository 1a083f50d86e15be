/*
 * The Node condition that states that notices of EC2 cannot be received: who checks the cluster
 * sees it there, before the instance is gone without a word.
 *
 * Written on change only, and beside the lifecycle's writes: it is best effort, and decides
 * nothing. What stands on the Node is read whenever the complete Node is, so that a restart takes
 * back what an earlier life has said.
 */
#include "daemon.h"

#include "log.h"
#include "nc/names.h"
#include "nc/str.h"

#define FAILING_USEC 20000000u /* of failures; less is a restart of the service */
#define RETRY_USEC 10000000u
#define REFUSED_USEC 600000000u /* access may be granted later */

void nc_imds_condition_note_node(struct nc_daemon *d, const struct nc_value *node) {
    const struct nc_value *found = nc_node_condition(node, NC_CONDITION_NOTICES);

    d->condition.is_true = nc_value_says(found, "status", "True");
}

void nc_imds_condition_note_metadata(struct nc_daemon *d, const struct nc_value *metadata) {
    d->condition.is_registered =
        nc_value_says(nc_value_get(metadata, "labels"), NC_LABEL_REGISTERED, "true");
    nc_imds_condition_check(d);
}

static void on_written(void *userdata, const struct nc_value *object,
                       const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_daemon *d = userdata;
    const bool is_refused = nc_own_node_note_patched(d, status);

    d->condition.write = NULL;
    if (err->class == NC_ERR_NONE) {
        d->condition.is_true = d->condition.is_writing_true;
        return;
    }
    d->condition.after_usec = nc_mono_usec() + (is_refused ? REFUSED_USEC : RETRY_USEC);
    nc_log_node(is_refused ? NC_LOG_WARNING : NC_LOG_DEBUG, d->node_name, "%s, ignoring", err->msg);
}

static void write_condition(struct nc_daemon *d, bool is_failing, const char *message) {
    const struct nc_node_condition condition = {.type = NC_CONDITION_NOTICES,
                                                .is_true = is_failing,
                                                .reason = is_failing ? "MetadataServiceUnavailable"
                                                                     : "MetadataServiceAvailable",
                                                .message = message,
                                                .now_usec = nc_daemon_now(d)};
    nc_auto_value struct nc_value *body = nc_node_condition_patch(&condition);
    const struct nc_kube_call call = {.what = "report condition " NC_CONDITION_NOTICES,
                                      .done = on_written};

    d->condition.is_writing_true = is_failing;
    nc_log_node(is_failing ? NC_LOG_WARNING : NC_LOG_INFO, d->node_name,
                "node %s: condition %s=%s: %s", d->node_name, NC_CONDITION_NOTICES,
                is_failing ? "True" : "False", message);
    nc_own_node_patch_status(d, call, body, &d->condition.write);
}

/* Earlier writes would fight Karpenter's optimistic lock while it registers the node. */
static bool may_write(const struct nc_daemon *d) {
    return nc_api_session_is_up(&d->api) && !d->condition.write
           && nc_mono_usec() >= d->condition.after_usec && d->node.is_known && !d->node.is_foreign
           && d->gather.config.report_node && (!d->claim.name || d->condition.is_registered);
}

void nc_imds_condition_check(struct nc_daemon *d) {
    nc_cleanup(nc_buf_done) struct nc_buf message = NC_BUF_INIT;
    bool is_failing;

    if (!may_write(d)
        || nc_notice_poller_is_failing(d->poller, FAILING_USEC, &is_failing, &message) < 0
        || is_failing == d->condition.is_true)
        return;
    write_condition(d, is_failing, message.data);
}

void nc_imds_condition_close(struct nc_daemon *d) {
    d->condition.write = nc_kube_cancel(d->condition.write);
    d->condition.after_usec = 0;
}
