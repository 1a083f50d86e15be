/*
 * Replacement first: pods that wait, their Deployment, and whether that can replace them.
 */
#include "nc/replacement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nc/mem.h"
#include "nc/names.h"
#include "nc/str.h"
#include "nc/time.h"

#define NAME_MAX_BYTES ((size_t)253)
#define UID_MAX_BYTES ((size_t)64)

/* ---- what is read */

/* Names go into paths: nothing but what Kubernetes allows in a DNS subdomain. */
static bool is_name(const char *s, size_t max) {
    const size_t n = s ? strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") : 0;

    return n > 0 && n <= max && s[n] == '\0' && s[0] != '.' && s[0] != '-';
}

static bool is_true(const struct nc_value *v) {
    return v && v->type == NC_VALUE_BOOL && v->boolean;
}

/* The owner that manages an object; NULL where there is none, or it is not named. */
static const struct nc_value *controller_of(const struct nc_value *metadata) {
    const struct nc_value *owners = nc_value_get(metadata, "ownerReferences");

    for (size_t i = 0; owners && owners->type == NC_VALUE_LIST && i < owners->n; i++)
        if (is_true(nc_value_get(owners->items[i], "controller")))
            return owners->items[i];
    return NULL;
}

/* apps/v1, of this kind, by name and uid; both are borrowed. */
static bool read_controller(const struct nc_value *metadata, const char *kind,
                            const char **ret_name, const char **ret_uid) {
    const struct nc_value *owner = controller_of(metadata);

    if (!nc_value_says(owner, "apiVersion", "apps/v1") || !nc_value_says(owner, "kind", kind))
        return false;
    *ret_name = nc_value_get_string(owner, "name");
    *ret_uid = nc_value_get_string(owner, "uid");
    return is_name(*ret_name, NAME_MAX_BYTES) && is_name(*ret_uid, UID_MAX_BYTES);
}

const char nc_replacement_keep[] =
    "metadata.annotations.'" NC_ANNOTATION_REPLACEMENT_FIRST "'\0"
    "metadata.deletionTimestamp\0metadata.ownerReferences\0status.phase\0";

bool nc_replacement_read_pod(const struct nc_value *pod, const char *namespace,
                             struct nc_replaced_pod *ret) {
    const struct nc_value *metadata = nc_value_get(pod, "metadata");
    const struct nc_value *annotations = nc_value_get(metadata, "annotations");
    const struct nc_value *deletion = nc_value_get(metadata, "deletionTimestamp");
    const char *name = nc_value_get_string(metadata, "name");
    const char *uid = nc_value_get_string(metadata, "uid");
    const char *phase = nc_value_path_string(pod, "status.phase");
    const char *set = NULL, *set_uid = NULL;

    if (!nc_value_says(annotations, NC_ANNOTATION_REPLACEMENT_FIRST, "true")
        || nc_streq(phase, "Succeeded") || nc_streq(phase, "Failed")
        || (deletion && deletion->type != NC_VALUE_NULL)
        || !nc_value_says(metadata, "namespace", namespace) || !is_name(name, NAME_MAX_BYTES)
        || !is_name(uid, UID_MAX_BYTES))
        return false;
    *ret = (struct nc_replaced_pod){.name = nc_strdup(name), .uid = nc_strdup(uid)};
    if (read_controller(metadata, "ReplicaSet", &set, &set_uid)) {
        ret->set = nc_strdup(set);
        ret->set_uid = nc_strdup(set_uid);
    }
    return true;
}

void nc_replaced_pod_done(struct nc_replaced_pod *p) {
    free(p->name);
    free(p->uid);
    free(p->set);
    free(p->set_uid);
    *p = (struct nc_replaced_pod){0};
}

void nc_replacement_owner_done(struct nc_replacement_owner *o) {
    free(o->name);
    free(o->uid);
    *o = (struct nc_replacement_owner){0};
}

bool nc_replacement_read_owner(const struct nc_value *set, const char *uid,
                               struct nc_replacement_owner *ret) {
    const struct nc_value *metadata = nc_value_get(set, "metadata");
    const char *name = NULL, *owner_uid = NULL;

    if (!nc_value_says(metadata, "uid", uid)
        || !read_controller(metadata, "Deployment", &name, &owner_uid))
        return false;
    *ret = (struct nc_replacement_owner){nc_strdup(name), nc_strdup(owner_uid)};
    return true;
}

/* ---- what follows */

/* A number of pods, or "25%": what is that of one replica? -1 where it cannot be read. A surge is
 * rounded up, pods that may be unavailable are rounded down. */
static int of_one(const struct nc_value *v, bool rounds_up) {
    const char *text = nc_value_string(v);
    const size_t n = text ? strlen(text) : 0;
    nc_auto_free char *digits = n > 1 && text[n - 1] == '%' ? nc_strndup(text, n - 1) : NULL;
    uint64_t percent;

    if (v && v->type == NC_VALUE_INT && v->integer >= 0)
        return v->integer > 0;
    if (!digits || nc_parse_u64(digits, &percent) < 0)
        return -1;
    return rounds_up ? percent > 0 : percent >= 100;
}

/* NULL: it can make the new pod before the old one goes. */
static const char *why_not(const struct nc_value *spec) {
    const struct nc_value *replicas = nc_value_get(spec, "replicas");
    const struct nc_value *strategy = nc_value_get(spec, "strategy");
    const struct nc_value *rolling = nc_value_get(strategy, "rollingUpdate");
    const struct nc_value *wanted = nc_value_path(spec, "template.metadata.annotations");
    const int surge = of_one(nc_value_get(rolling, "maxSurge"), true);
    const int unavailable = of_one(nc_value_get(rolling, "maxUnavailable"), false);

    /* Who may annotate a pod need not be who may decide about its Deployment. */
    if (!nc_value_says(wanted, NC_ANNOTATION_REPLACEMENT_FIRST, "true"))
        return "the pod template of its Deployment does not have the "
               "annotation " NC_ANNOTATION_REPLACEMENT_FIRST ": \"true\"";
    if (!replicas || replicas->type != NC_VALUE_INT || replicas->integer != 1)
        return "its Deployment does not have exactly one replica";
    if (is_true(nc_value_get(spec, "paused")))
        return "its Deployment is paused";
    if (!nc_value_says(strategy, "type", "RollingUpdate"))
        return "the strategy of its Deployment is not RollingUpdate";
    if (surge != 1)
        return "its Deployment may not surge: maxSurge must be at least 1";
    return unavailable == 0 ? NULL
                            : "its Deployment takes the old pod away first: maxUnavailable must be "
                              "0, or less than 100%";
}

static struct nc_value *new_patch(const struct nc_value *metadata, uint64_t now_usec) {
    struct nc_value *patch = nc_value_new_map(), *own = nc_value_new_map();
    struct nc_value *spec = nc_value_new_map(), *template = nc_value_new_map();
    struct nc_value *inner = nc_value_new_map(), *annotations = nc_value_new_map();

    nc_value_set_string(own, "uid", nc_value_get_string(metadata, "uid"));
    nc_value_set_string(own, "resourceVersion", nc_value_get_string(metadata, "resourceVersion"));
    nc_value_set_time(annotations, NC_ANNOTATION_RESTARTED_AT, now_usec);
    nc_value_set(inner, "annotations", annotations);
    nc_value_set(template, "metadata", inner);
    nc_value_set(spec, "template", template);
    nc_value_set(patch, "metadata", own);
    nc_value_set(patch, "spec", spec);
    return patch;
}

/* When it was restarted last; 0 = never. False where that cannot be read. */
static bool read_restart(const struct nc_value *spec, uint64_t *ret) {
    const struct nc_value *v = nc_value_get(nc_value_path(spec, "template.metadata.annotations"),
                                            NC_ANNOTATION_RESTARTED_AT);

    *ret = 0;
    return !v || (v->type == NC_VALUE_STRING && nc_time_parse(v->text, ret) >= 0);
}

enum nc_replacement_answer nc_replacement_judge(const struct nc_replacement_case *c,
                                                const char **ret_why, struct nc_value **ret_patch) {
    const struct nc_value *metadata = nc_value_get(c->deployment, "metadata");
    const struct nc_value *deletion = nc_value_get(metadata, "deletionTimestamp");
    const struct nc_value *spec = nc_value_get(c->deployment, "spec");
    const char *version = nc_value_get_string(metadata, "resourceVersion");
    uint64_t restarted_usec;

    if (!nc_value_says(metadata, "uid", c->uid) || !version || !*version
        || (deletion && deletion->type != NC_VALUE_NULL))
        return NC_REPLACEMENT_GONE;
    *ret_why = why_not(spec);
    if (!*ret_why && !read_restart(spec, &restarted_usec))
        *ret_why = "nodeclaimd.io/restarted-at in the pod template of its Deployment is not a time";
    if (*ret_why)
        return NC_REPLACEMENT_IMPOSSIBLE;
    /* A whole second is what it is written in. */
    if (restarted_usec && restarted_usec / 1000000 >= c->since_usec / 1000000)
        return NC_REPLACEMENT_DONE;
    if (restarted_usec && c->now_usec < restarted_usec + NC_REPLACEMENT_PAUSE_USEC)
        return NC_REPLACEMENT_LATER;
    *ret_patch = new_patch(metadata, c->now_usec);
    return NC_REPLACEMENT_RESTART;
}
