/*
 * TerminateInstances. Idempotent as EC2 has it: one that is ending, ended or forgotten is a
 * success.
 */
#include <errno.h>
#include <stdio.h>

#include "ec2-priv.h"

static const char action[] = "TerminateInstances";

static void on_done(void *userdata, const struct nc_http_result *result) {
    struct nc_ec2_end *end = userdata;
    struct nc_err err = NC_ERR_INIT;

    end->req = NULL;
    if (result->outcome != NC_HTTP_ANSWERED)
        (void)nc_http_error(result, "ec2: TerminateInstances", &err);
    else if (result->status == 200) {
        if (nc_ec2_read_end(result->body, result->n, end->instance_id, &err) < 0)
            nc_err_wrap(&err, "ec2: %s", action);
    } else {
        end->is_unknown = nc_ec2_says(result, "InvalidInstanceID.NotFound");
        if (!end->is_unknown)
            (void)nc_ec2_refused(result, action, &err);
    }
    end->done(end, &err);
}

int nc_ec2_end_start(const struct nc_ec2 *e, const char *instance_id, struct nc_ec2_end *end,
                     struct nc_err *err) {
    nc_cleanup(nc_ec2_request_done) struct nc_ec2_request q = {0};
    int r;

    if (!nc_ec2_is_plain(instance_id))
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "ec2: %s: not an instance id", action);
    end->is_unknown = false;
    (void)snprintf(end->instance_id, sizeof(end->instance_id), "%s", instance_id);
    r = nc_ec2_request_make(e, action, nc_ec2_form(action, "InstanceId.1", instance_id), &q, err);
    if (r < 0)
        return r;
    q.options.on_done = on_done;
    q.options.userdata = end;
    return nc_http_start(e->http, &q.options, &end->req, err);
}

void nc_ec2_end_cancel(struct nc_ec2_end *end) {
    end->req = nc_http_cancel(end->req);
}
