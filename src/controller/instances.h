/*
 * Instances at EC2 and Auto Scaling, by provider ID: ended, or requested their name or state; the
 * state that their group has them in, and its lifecycle action. Answered once each.
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

/* How the action `id` ended; MISSING where there is no such instance (any more, or yet), or no such
 * action. */
struct nc_instances_answer {
    uint64_t id;
    enum nc_control_answer answer;
    enum nc_control_refusal refusal;
    const char *name; /* the private DNS name, where name or state was requested; or NULL */
    const char *instance_state; /* static; EC2's word, where that was requested */
    const char *group, *state;  /* where those were requested */
};
typedef void (*nc_instances_fn)(void *userdata, const struct nc_instances_answer *answer,
                                const struct nc_err *err);
struct nc_instances_options {
    const struct nc_settings *settings;
    nc_instances_fn done;
    void *userdata;
};
int nc_instances_new(sd_event *event, const struct nc_instances_options *o,
                     struct nc_instances **ret, struct nc_err *err);
struct nc_instances *nc_instances_free(struct nc_instances *i);
void nc_instances_drop(struct nc_instances *i); /* all orders, without an answer */
/* An action whose verb is one of AWS: END_INSTANCE, DESCRIBE_INSTANCE, INSTANCE_STATE,
 * DESCRIBE_LIFECYCLE, RECORD_HEARTBEAT, COMPLETE_ACTION. Never answers before it returns. Negative
 * where it has no provider ID of EC2. */
int nc_instances_call(struct nc_instances *i, const struct nc_control_action *a,
                      struct nc_err *err);

#endif
