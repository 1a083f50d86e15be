/*
 * TerminateInstances, one instance a request.
 */
#include "instances.h"

#include <errno.h>

int nc_instances_new(sd_event *event, const struct nc_settings *s, nc_instances_fn done,
                     void *userdata, struct nc_instances **ret, struct nc_err *err) {
    (void)event;
    (void)s;
    (void)done;
    (void)userdata;
    (void)ret;
    return nc_err_set(err, NC_ERR_BUG, ENOTSUP, "ending instances is not built yet");
}

struct nc_instances *nc_instances_free(struct nc_instances *i) {
    (void)i;
    return NULL;
}

int nc_instances_end(struct nc_instances *i, uint64_t id, const char *provider_id,
                     struct nc_err *err) {
    (void)i;
    (void)id;
    (void)provider_id;
    return nc_err_set(err, NC_ERR_BUG, ENOTSUP, "ending instances is not built yet");
}
