/*
 * How the body of a write begins: the object that it is for, and no other of its name.
 */
#include <inttypes.h>
#include <stdio.h>

#include "control-priv.h"
#include "nc/names.h"

struct nc_value *nc_control_patch(const struct control_object *o, bool with_version) {
    struct nc_value *patch = nc_value_new_map(), *meta = nc_value_new_map();
    char version[24];

    if (with_version) {
        (void)snprintf(version, sizeof(version), "%" PRIu64, o->rv);
        nc_value_set_string(meta, "resourceVersion", version);
    }
    nc_value_set_string(meta, "uid", o->uid);
    nc_value_set(patch, "metadata", meta);
    return patch;
}

struct nc_value *nc_control_delete_options(const struct control_object *o) {
    struct nc_value *v = nc_value_new_map(), *only = nc_value_new_map();

    nc_value_set_string(only, "uid", o->uid);
    nc_value_set_string(v, "apiVersion", "v1");
    nc_value_set_string(v, "kind", "DeleteOptions");
    nc_value_set(v, "preconditions", only);
    return v;
}

bool nc_control_drop_finalizer(const struct control_object *o,
                               const struct control_strings *finalizers,
                               struct nc_control_action *ret) {
    ret->verb = o->kind == NC_CONTROL_NODE ? NC_CONTROL_PATCH_NODE : NC_CONTROL_PATCH_CLAIM;
    ret->body = nc_control_patch(o, true);
    nc_value_set(nc_value_get(ret->body, "metadata"), "finalizers",
                 nc_control_strings_without(finalizers, NC_FINALIZER));
    return true;
}
