/*
 * What the step requests of EC2, and what came of it.
 */
#include <errno.h>

#include "controller.h"
#include "instances.h"
#include "log.h"

static void on_answer(void *userdata, const struct nc_instances_answer *a) {
    struct nc_controller *c = userdata;

    if (a->err->class != NC_ERR_NONE)
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.error_class = nc_err_class_name(a->err->class)}, "%s%s%s",
               a->err->msg, *a->err->remedy ? ": " : "", a->err->remedy);
    nc_controller_post(c, &(struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                                     .id = a->id,
                                                     .answer = a->answer,
                                                     .name = a->name,
                                                     .instance_state = a->state});
}

int nc_controller_call_ec2(struct nc_controller *c, const struct nc_control_action *a,
                           struct nc_err *err) {
    const struct nc_instances_options o = {
        .settings = c->settings, .done = on_answer, .userdata = c};
    int r = 0;

    if (a->verb == NC_CONTROL_END_INSTANCE && !c->settings->rules.terminates)
        return nc_err_set(err, NC_ERR_BUG, ENOTSUP, "instances are not ours to end");
    if (!c->instances)
        r = nc_instances_new(c->event, &o, &c->instances, err);
    return r < 0 ? r : nc_instances_start(c->instances, a, err);
}

void nc_controller_drop_ec2(struct nc_controller *c) {
    if (c->instances)
        nc_instances_drop(c->instances);
}

void nc_controller_end_ec2(struct nc_controller *c) {
    c->instances = nc_instances_free(c->instances);
}
