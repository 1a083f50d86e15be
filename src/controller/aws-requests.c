/*
 * What the step requests of AWS, in every mode: the same credentials and the same queue for all.
 */
#include <errno.h>

#include "controller.h"
#include "instances.h"
#include "log.h"

static void on_answer(void *userdata, const struct nc_instances_answer *a,
                      const struct nc_err *err) {
    struct nc_controller *c = userdata;

    if (err->class != NC_ERR_NONE)
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.error_class = nc_err_class_name(err->class)}, "%s%s%s",
               err->msg, *err->remedy ? ": " : "", err->remedy);
    nc_controller_post(c, &(struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                                     .id = a->id,
                                                     .answer = a->answer,
                                                     .refusal = a->refusal,
                                                     .name = a->name,
                                                     .instance_state = a->instance_state,
                                                     .group = a->group,
                                                     .lifecycle_state = a->state});
}

int nc_controller_call_aws(struct nc_controller *c, const struct nc_control_action *a,
                           struct nc_err *err) {
    int r = 0;

    if (a->verb == NC_CONTROL_END_INSTANCE && !c->settings->rules.terminates)
        return nc_err_set(err, NC_ERR_BUG, ENOTSUP, "instances are not ours to end");
    if (!c->instances)
        r = nc_instances_new(c->event,
                             &(struct nc_instances_options){
                                 .settings = c->settings, .done = on_answer, .userdata = c},
                             &c->instances, err);
    return r < 0 ? r : nc_instances_call(c->instances, a, err);
}

void nc_controller_drop_aws(struct nc_controller *c) {
    if (c->instances)
        nc_instances_drop(c->instances);
}

void nc_controller_end_aws(struct nc_controller *c) {
    c->instances = nc_instances_free(c->instances);
}
