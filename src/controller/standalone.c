/*
 * What only the mode without Karpenter needs of the program: its half of the step, and EC2.
 */
#include "nc/standalone.h"

#include <errno.h>

#include "controller.h"
#include "instances.h"
#include "log.h"

static void on_ec2(void *userdata, uint64_t id, enum nc_control_answer answer, const char *name,
                   const struct nc_err *err) {
    struct nc_controller *c = userdata;

    if (err->class != NC_ERR_NONE)
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.error_class = nc_err_class_name(err->class)}, "%s%s%s",
               err->msg, *err->remedy ? ": " : "", err->remedy);
    nc_controller_post(c, &(struct nc_control_event){
                              .kind = NC_CONTROL_ANSWER, .id = id, .answer = answer, .name = name});
}

static int call_ec2(struct nc_controller *c, const struct nc_control_action *a,
                    struct nc_err *err) {
    const bool is_end = a->verb == NC_CONTROL_END_INSTANCE;
    int r = 0;

    if (is_end && !c->settings->rules.terminates)
        return nc_err_set(err, NC_ERR_BUG, ENOTSUP, "instances are not ours to end");
    if (!c->instances)
        r = nc_instances_new(
            c->event,
            &(struct nc_instances_options){.settings = c->settings, .done = on_ec2, .userdata = c},
            &c->instances, err);
    if (r < 0)
        return r;
    return is_end ? nc_instances_end(c->instances, a->id, a->provider_id, err)
                  : nc_instances_describe(c->instances, a->id, a->provider_id, err);
}

static void drop(struct nc_controller *c) {
    if (c->instances)
        nc_instances_drop(c->instances);
}

static void end(struct nc_controller *c) {
    c->instances = nc_instances_free(c->instances);
}

const struct nc_standalone_mode nc_standalone_mode = {
    .step = &nc_standalone, .call_ec2 = call_ec2, .drop = drop, .end = end};
