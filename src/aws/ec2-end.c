/*
 * What the controller asks of EC2 about an instance. TerminateInstances is idempotent as EC2 has
 * it: one that is ending, ended or forgotten is a success.
 */
#include <errno.h>

#include "ec2-priv.h"
#include "nc/str.h"

static const char terminate[] = "TerminateInstances", describe[] = "DescribeInstances";

/* 200: the rest is its reader's. Negative: err is set, or it is unknown. */
static int read_end_status(struct nc_ec2_call *call, const struct nc_http_result *result,
                           const char *action, struct nc_err *err) {
    nc_auto_free char *name = nc_asprintf("ec2: %s", action);

    call->req = NULL;
    if (result->outcome != NC_HTTP_ANSWERED)
        return nc_http_error(result, name, err);
    if (result->status == 200)
        return 0;
    call->is_unknown = nc_ec2_has_error(result, "InvalidInstanceID.NotFound");
    return call->is_unknown ? -ENOENT : nc_ec2_refused(result, action, err);
}

static void on_ended(void *userdata, const struct nc_http_result *result) {
    struct nc_ec2_call *call = userdata;
    struct nc_err err = NC_ERR_INIT;

    if (read_end_status(call, result, terminate, &err) >= 0
        && nc_ec2_read_end(result->body, result->n, call->instance_id, &err) < 0)
        nc_err_wrap(&err, "ec2: %s", terminate);
    call->done(call, &err);
}

static void on_described(void *userdata, const struct nc_http_result *result) {
    struct nc_ec2_call *call = userdata;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *name = NULL;

    if (read_end_status(call, result, describe, &err) >= 0
        && nc_ec2_read_instance(result->body, result->n, call->instance_id, &name, &err) < 0)
        nc_err_wrap(&err, "ec2: %s", describe);
    call->private_dns_name = name;
    call->done(call, &err);
}

static void on_state(void *userdata, const struct nc_http_result *result) {
    struct nc_ec2_call *call = userdata;
    struct nc_err err = NC_ERR_INIT;
    struct nc_ec2_state_answer a = {0};

    if (read_end_status(call, result, describe, &err) >= 0) {
        if (nc_ec2_read_state(result->body, result->n, call->instance_id, &a, &err) < 0)
            nc_err_wrap(&err, "ec2: %s", describe);
        call->is_unknown = err.class == NC_ERR_NONE && a.state == NC_EC2_NO_STATE;
    } else if (nc_starts_with(err.remedy, "allow ")) { /* not a node's, which has a configuration */
        nc_err_remedy(&err, "allow ec2:%s to the role", describe);
    }
    call->private_dns_name = a.private_dns_name;
    call->state = a.state;
    call->done(call, &err);
    free(a.private_dns_name);
}

enum question { END = 0, NAME, STATE };

static int start(const struct nc_ec2 *e, enum question what, const char *instance_id,
                 struct nc_ec2_call *call, struct nc_err *err) {
    static const nc_http_done_fn answers[] = {
        [END] = on_ended, [NAME] = on_described, [STATE] = on_state};
    const char *action = what == END ? terminate : describe;
    nc_cleanup(nc_ec2_request_done) struct nc_ec2_request q = {0};
    int r;

    if (!nc_ec2_is_plain(instance_id))
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "ec2: %s: not an instance id", action);
    call->is_unknown = false;
    call->private_dns_name = NULL;
    call->state = NC_EC2_NO_STATE;
    nc_copy_text(call->instance_id, sizeof(call->instance_id), instance_id);
    r = nc_ec2_request_make(e, action, nc_ec2_form(action, "InstanceId.1", instance_id), &q, err);
    if (r < 0)
        return r;
    q.options.on_done = answers[what];
    q.options.userdata = call;
    return nc_http_start(e->http, &q.options, &call->req, err);
}

int nc_ec2_end_start(const struct nc_ec2 *e, const char *instance_id, struct nc_ec2_call *call,
                     struct nc_err *err) {
    return start(e, END, instance_id, call, err);
}

int nc_ec2_describe_start(const struct nc_ec2 *e, const char *instance_id, struct nc_ec2_call *call,
                          struct nc_err *err) {
    return start(e, NAME, instance_id, call, err);
}

int nc_ec2_state_start(const struct nc_ec2 *e, const char *instance_id, struct nc_ec2_call *call,
                       struct nc_err *err) {
    return start(e, STATE, instance_id, call, err);
}

void nc_ec2_call_cancel(struct nc_ec2_call *call) {
    call->req = nc_http_cancel(call->req);
}
