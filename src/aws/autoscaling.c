/*
 * The Query API of EC2 Auto Scaling, as far as the controller asks it. What an answer says is read
 * by autoscaling-read.c.
 *
 * That no lifecycle action is active is no failure: whoever completed it was faster.
 */
#include <errno.h>

#include "ec2-priv.h"
#include "nc/encode.h"
#include "nc/mem.h"
#include "nc/str.h"

#define API_VERSION "2011-01-01"
#define SERVICE "autoscaling"

static const char describe[] = "DescribeAutoScalingInstances",
                  heartbeat[] = "RecordLifecycleActionHeartbeat",
                  complete[] = "CompleteLifecycleAction";

/* 200: the rest is its reader's. Negative: err is set, or it is unknown. */
static int read_status(struct nc_autoscaling_call *call, const struct nc_http_result *result,
                       const char *action, struct nc_err *err) {
    nc_auto_free char *name = nc_asprintf(SERVICE ": %s", action);

    call->req = NULL;
    if (result->outcome != NC_HTTP_ANSWERED)
        return nc_http_error(result, name, err);
    if (result->status == 200)
        return 0;
    call->is_unknown =
        action != describe
        && nc_aws_has_error(result, "ValidationError", "No active Lifecycle Action found");
    if (call->is_unknown)
        return -ENOENT;
    call->is_refused = action != describe && nc_aws_has_error(result, "ValidationError", "");
    return nc_aws_refused(result, SERVICE, action, err);
}

static void on_described(void *userdata, const struct nc_http_result *result) {
    nc_cleanup(nc_autoscaling_instance_done) struct nc_autoscaling_instance i = {0};
    struct nc_autoscaling_call *call = userdata;
    struct nc_err err = NC_ERR_INIT;

    if (read_status(call, result, describe, &err) >= 0) {
        if (nc_autoscaling_read_instance(result->body, result->n, call->instance_id, &i, &err) < 0)
            nc_err_wrap(&err, SERVICE ": %s", describe);
        else
            call->is_unknown = !i.group;
    }
    call->group = i.group;
    call->state = i.state;
    call->done(call, &err);
}

static void on_action(struct nc_autoscaling_call *call, const struct nc_http_result *result,
                      const char *action) {
    struct nc_err err = NC_ERR_INIT;

    if (read_status(call, result, action, &err) >= 0
        && nc_autoscaling_read_action(result->body, result->n, action, &err) < 0)
        nc_err_wrap(&err, SERVICE ": %s", action);
    call->done(call, &err);
}

static void on_heartbeat(void *userdata, const struct nc_http_result *result) {
    on_action(userdata, result, heartbeat);
}

static void on_completed(void *userdata, const struct nc_http_result *result) {
    on_action(userdata, result, complete);
}

static void begin(struct nc_autoscaling_call *call, const char *instance_id) {
    call->is_unknown = call->is_refused = false;
    call->group = call->state = NULL;
    nc_copy_text(call->instance_id, sizeof(call->instance_id), instance_id);
}

/* The body is taken over. */
static int start(const struct nc_ec2 *e, const struct nc_aws_query *query, nc_http_done_fn on_done,
                 struct nc_autoscaling_call *call, struct nc_err *err) {
    nc_cleanup(nc_ec2_request_done) struct nc_ec2_request q = {0};
    const int r = nc_aws_request_make(e, query, &q, err);

    if (r < 0)
        return r;
    q.options.on_done = on_done;
    q.options.userdata = call;
    return nc_http_start(e->http, &q.options, &call->req, err);
}

int nc_autoscaling_describe_start(const struct nc_ec2 *e, const char *instance_id,
                                  struct nc_autoscaling_call *call, struct nc_err *err) {
    struct nc_aws_query query = {.service = SERVICE, .action = describe};

    if (!nc_ec2_is_plain(instance_id))
        return nc_err_set(err, NC_ERR_BUG, EINVAL, SERVICE ": %s: not an instance id", describe);
    begin(call, instance_id);
    query.body = nc_asprintf("Action=%s&InstanceIds.member.1=%s&Version=" API_VERSION, describe,
                             instance_id);
    return start(e, &query, on_described, call, err);
}

/* A group's name may have any characters in it. */
static char *form(const char *action, const struct nc_autoscaling_action *a) {
    struct nc_buf b = NC_BUF_INIT;

    (void)nc_buf_printf(&b, "Action=%s&AutoScalingGroupName=", action);
    nc_url_escape(&b, a->group, "");
    (void)nc_buf_printf(&b, "&InstanceId=%s", a->instance_id);
    if (a->completes)
        (void)nc_buf_puts(&b, "&LifecycleActionResult=CONTINUE");
    (void)nc_buf_puts(&b, "&LifecycleHookName=");
    nc_url_escape(&b, a->hook, "");
    (void)nc_buf_puts(&b, "&Version=" API_VERSION);
    return nc_buf_steal(&b);
}

int nc_autoscaling_action_start(const struct nc_ec2 *e, const struct nc_autoscaling_action *a,
                                struct nc_autoscaling_call *call, struct nc_err *err) {
    struct nc_aws_query query = {.service = SERVICE, .action = a->completes ? complete : heartbeat};

    if (!nc_ec2_is_plain(a->instance_id) || !nc_autoscaling_is_hook(a->hook) || !a->group
        || !*a->group || strlen(a->group) > NC_AUTOSCALING_GROUP_BYTES)
        return nc_err_set(err, NC_ERR_BUG, EINVAL,
                          SERVICE ": %s: not an instance id, a group and a hook", query.action);
    begin(call, a->instance_id);
    query.body = form(query.action, a);
    return start(e, &query, a->completes ? on_completed : on_heartbeat, call, err);
}

void nc_autoscaling_call_cancel(struct nc_autoscaling_call *call) {
    call->req = nc_http_cancel(call->req);
}
