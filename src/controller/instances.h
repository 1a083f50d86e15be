/*
 * Instances at EC2, where nobody else deals with them: ended, or requested their name, by provider
 * ID, answered once each.
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

/* How the action `id` ended; MISSING where there is no such instance (any more, or yet). `name`:
 * the private DNS name, where that was requested. */
typedef void (*nc_instances_fn)(void *userdata, uint64_t id, enum nc_control_answer answer,
                                const char *name, const struct nc_err *err);
struct nc_instances_options {
    const struct nc_settings *settings;
    nc_instances_fn done;
    void *userdata;
};
int nc_instances_new(sd_event *event, const struct nc_instances_options *o,
                     struct nc_instances **ret, struct nc_err *err);
struct nc_instances *nc_instances_free(struct nc_instances *i);
void nc_instances_drop(struct nc_instances *i); /* all orders, without an answer */
/* Never answers before it returns. Negative where it is no provider ID of EC2. */
int nc_instances_end(struct nc_instances *i, uint64_t id, const char *provider_id,
                     struct nc_err *err);
int nc_instances_describe(struct nc_instances *i, uint64_t id, const char *provider_id,
                          struct nc_err *err);

#endif
