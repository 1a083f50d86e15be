/*
 * Instances at EC2: ended where nobody else deals with them, or requested their name or state, by
 * provider ID, answered once each.
 *
 * Credentials come from where AWS' own programs look: the environment, a web identity token, IMDS.
 * Asynchronous; bounded in number and rate.
 */
#ifndef NC_INSTANCES_H
#define NC_INSTANCES_H

#include <systemd/sd-event.h>

#include "nc/control.h"
#include "settings.h"

struct nc_instances;

/* How the action `id` ended; MISSING where there is no such instance (any more, or yet). */
struct nc_instances_answer {
    uint64_t id;
    enum nc_control_answer answer;
    const char *name;         /* the private DNS name, where name or state was requested; or NULL */
    const char *state;        /* static; EC2's word, where that was requested */
    const struct nc_err *err; /* NC_ERR_NONE: DONE or MISSING */
};
typedef void (*nc_instances_fn)(void *userdata, const struct nc_instances_answer *a);
struct nc_instances_options {
    const struct nc_settings *settings;
    nc_instances_fn done;
    void *userdata;
};
int nc_instances_new(sd_event *event, const struct nc_instances_options *o,
                     struct nc_instances **ret, struct nc_err *err);
struct nc_instances *nc_instances_free(struct nc_instances *i);
void nc_instances_drop(struct nc_instances *i); /* all orders, without an answer */
/* Carries out END_INSTANCE, DESCRIBE_INSTANCE or INSTANCE_STATE. Never answers before it returns.
 * Negative where it is no provider ID of EC2, or one of another region. */
int nc_instances_start(struct nc_instances *i, const struct nc_control_action *a,
                       struct nc_err *err);

#endif
