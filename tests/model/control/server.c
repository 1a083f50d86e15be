/*
 * The API server: objects, merge patches with preconditions, finalizers, deletions, and a log that
 * the watches read. What it refuses, the real one refuses.
 */
#include <stdarg.h>

#include "judge.h"
#include "nc/str.h"
#include "nc/time.h"
#include "world.h"

static struct nc_value *meta(const struct object *o) {
    return nc_value_get(o->v, "metadata");
}

struct object *server_find(struct world *w, enum nc_control_kind k, const char *name) {
    for (unsigned i = 0; i < w->n_objects; i++)
        if (w->objects[i].v && w->objects[i].kind == k && nc_streq(w->objects[i].name, name))
            return &w->objects[i];
    return NULL;
}

static void log_it(struct world *w, struct object *o, bool is_gone) {
    struct told *t = nc_append(&w->log, &w->n_log);

    *t = (struct told){o->kind, (unsigned)(o - w->objects), is_gone, nc_value_copy(o->v)};
    process_changed(w, o->kind);
}

static void set_version(struct world *w, struct object *o) {
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)++w->rv);
    nc_value_set_string(meta(o), "resourceVersion", text);
}

static size_t finalizers_of(const struct object *o) {
    const struct nc_value *list = nc_value_get(meta(o), "finalizers");

    return list && list->type == NC_VALUE_LIST ? list->n : 0;
}

static void forget(struct world *w, struct object *o) {
    set_version(w, o);
    log_it(w, o, true);
    world_log(w, "server: %s %s is gone", nc_control_kind_name(o->kind), o->name);
    o->v = nc_value_free(o->v);
}

/* What has changed is told; what is held by nothing any more goes. */
static void settle(struct world *w, struct object *o, const struct nc_value *was) {
    if (nc_value_equal(o->v, was))
        return;
    if (nc_value_get_string(meta(o), "deletionTimestamp") && finalizers_of(o) == 0) {
        forget(w, o);
        return;
    }
    set_version(w, o);
    log_it(w, o, false);
}

struct object *server_create(struct world *w, enum nc_control_kind k, const char *name,
                             struct nc_value *v) {
    struct object *o = &w->objects[w->n_objects];
    char now[32];

    if (w->n_objects == MAX_OBJECTS || server_find(w, k, name)) {
        nc_value_free(v);
        return NULL;
    }
    w->n_objects++;
    *o = (struct object){.kind = k, .v = v};
    (void)snprintf(o->name, sizeof(o->name), "%s", name);
    (void)snprintf(o->uid, sizeof(o->uid), "uid-%04u", ++w->n_uids);
    if (!meta(o))
        nc_value_set(v, "metadata", nc_value_new_map());
    nc_value_set_string(meta(o), "name", o->name);
    nc_value_set_string(meta(o), "uid", o->uid);
    nc_time_format(w->now_usec, now);
    if (!nc_value_get(meta(o), "creationTimestamp"))
        nc_value_set_string(meta(o), "creationTimestamp", now);
    set_version(w, o);
    log_it(w, o, false);
    return o;
}

void server_merge(struct world *w, struct object *o, struct nc_value *patch) {
    nc_auto_value struct nc_value *owned = patch, *was = NULL;

    if (!o || !o->v)
        return;
    was = nc_value_copy(o->v);
    nc_value_merge_patch(o->v, owned);
    settle(w, o, was);
}

void server_mergef(struct world *w, struct object *o, const char *format, ...) {
    struct nc_value *v = NULL;
    va_list ap;

    va_start(ap, format);
    nc_auto_free char *text = nc_vasprintf(format, ap);
    va_end(ap);
    if (nc_json_parse(text, strlen(text), &v, NULL) < 0)
        abort();
    server_merge(w, o, v);
}

void server_remove(struct world *w, struct object *o) {
    if (o && o->v)
        forget(w, o);
}

void server_delete(struct world *w, struct object *o) {
    char now[32];

    if (!o || !o->v)
        return;
    if (finalizers_of(o) == 0) {
        forget(w, o);
        return;
    }
    if (nc_value_get_string(meta(o), "deletionTimestamp"))
        return;
    nc_auto_value struct nc_value *was = nc_value_copy(o->v);
    nc_time_format(w->now_usec, now);
    nc_value_set_string(meta(o), "deletionTimestamp", now);
    world_log(w, "server: %s %s is being deleted", nc_control_kind_name(o->kind), o->name);
    settle(w, o, was);
    if (o->kind != NC_CONTROL_CLAIM || w->is_standalone)
        return;
    for (unsigned is_moved = 0; is_moved < 2; is_moved++)
        world_post(w, world_between(w, 2 * SEC, 40 * SEC), THING_KARPENTER,
                   (unsigned)(o - w->objects), is_moved, NULL);
}

/* --- what a controller requests */

static bool has_text(const struct nc_value *list, const char *text) {
    for (size_t i = 0; list && list->type == NC_VALUE_LIST && i < list->n; i++)
        if (nc_streq(nc_value_string(list->items[i]), text))
            return true;
    return false;
}

/* A finalizer may not be added to what is being deleted. */
static bool is_forbidden(const struct object *o, const struct nc_value *patch) {
    const struct nc_value *list = nc_value_path(patch, "metadata.finalizers");

    if (!nc_value_get_string(meta(o), "deletionTimestamp") || !list)
        return false;
    for (size_t i = 0; list->type == NC_VALUE_LIST && i < list->n; i++)
        if (!has_text(nc_value_get(meta(o), "finalizers"), nc_value_string(list->items[i])))
            return true;
    return false;
}

static enum nc_control_answer patch(struct world *w, struct object *o, const struct nc_value *body,
                                    bool is_status) {
    const char *uid = nc_value_string(nc_value_path(body, "metadata.uid"));
    const char *version = nc_value_string(nc_value_path(body, "metadata.resourceVersion"));
    nc_auto_value struct nc_value *p = nc_value_copy(body);

    if (uid && !nc_streq(uid, o->uid))
        return NC_CONTROL_MISSING;
    if (version && !nc_streq(version, nc_value_get_string(meta(o), "resourceVersion")))
        return NC_CONTROL_CONFLICT;
    if (is_status) {
        (void)nc_value_remove(p, "metadata");
        (void)nc_value_remove(p, "spec");
    } else {
        (void)nc_value_remove(p, "status");
        (void)nc_value_remove(nc_value_get(p, "metadata"), "uid");
        (void)nc_value_remove(nc_value_get(p, "metadata"), "resourceVersion");
        if (is_forbidden(o, p))
            return NC_CONTROL_REFUSED;
    }
    nc_auto_value struct nc_value *was = nc_value_copy(o->v);
    nc_value_merge_patch(o->v, p);
    judge_patched(w, o, was);
    settle(w, o, was);
    return NC_CONTROL_DONE;
}

static enum nc_control_answer delete (struct world *w, struct object *o,
                                      const struct nc_value *body) {
    const char *uid = nc_value_string(nc_value_path(body, "preconditions.uid"));

    if (uid && !nc_streq(uid, o->uid)) return NC_CONTROL_MISSING;
    server_delete(w, o);
    return NC_CONTROL_DONE;
}

static enum nc_control_answer end_instance(struct world *w, const char *provider_id) {
    if (!actors_has_instance(w, provider_id))
        return NC_CONTROL_MISSING;
    actors_instance_ended(w, provider_id);
    return NC_CONTROL_DONE;
}

enum nc_control_answer server_serve(struct world *w, const struct nc_control_action *a) {
    struct object *o = server_find(w, a->what, a->name);

    if (a->verb == NC_CONTROL_END_INSTANCE)
        return end_instance(w, a->provider_id);
    if (a->verb == NC_CONTROL_DESCRIBE_INSTANCE)
        return actors_name_of(w, a->provider_id) ? NC_CONTROL_DONE : NC_CONTROL_MISSING;
    if (a->verb == NC_CONTROL_INSTANCE_STATE)
        return actors_state_of(w, a->provider_id) ? NC_CONTROL_DONE : NC_CONTROL_MISSING;
    if (!o)
        return NC_CONTROL_MISSING;
    if (a->verb == NC_CONTROL_GET_NODE)
        return NC_CONTROL_DONE;
    switch (a->verb) {
    case NC_CONTROL_SET_TIMESTAMP:
    case NC_CONTROL_PATCH_CLAIM:
    case NC_CONTROL_PATCH_NODE:
        return patch(w, o, a->body, false);
    case NC_CONTROL_STATUS_CLAIM:
        return patch(w, o, a->body, true);
    case NC_CONTROL_DELETE_CLAIM:
    case NC_CONTROL_DELETE_NODE:
        return delete (w, o, a->body);
    case NC_CONTROL_END_INSTANCE:
    case NC_CONTROL_DESCRIBE_INSTANCE:
    case NC_CONTROL_DESCRIBE_LIFECYCLE: /* not switched on here */
    case NC_CONTROL_RECORD_HEARTBEAT:
    case NC_CONTROL_COMPLETE_ACTION:
    case NC_CONTROL_INSTANCE_STATE:
    case NC_CONTROL_GET_NODE:
    case NC_CONTROL_EMIT_EVENT:
    case NC_CONTROL_REPLACE_PODS:
    case _NC_CONTROL_VERB_MAX:
        break;
    }
    return NC_CONTROL_REFUSED;
}
