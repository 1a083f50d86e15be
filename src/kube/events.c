/*
 * Core/v1 Events: of a Node in namespace default, where a node may write them before its own Node
 * exists; of a pod in its own.
 *
 * An Event's name follows from what it states, so that a create whose answer was lost can simply be
 * sent again: "already exists" is success. Type, count, both times and the source are always
 * filled, or `kubectl describe` shows gaps. Only core/v1: the node authorizer knows no
 * events.k8s.io.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nc/kube-drain.h"
#include "nc/str.h"
#include "nc/time.h"

#include "wire.h"

#define COMPONENT "nodeclaimd"
#define MAX_MESSAGE 1024
#define MAX_NAME 236 /* of a DNS subdomain's 253, with room for a dot and 16 hexadecimal digits */
#define MAX_ANSWER ((size_t)64 << 10)
#define SEND_USEC 5000000u

/* "c5-x7k2q.1f0c…": the object's name and a sum over what makes this Event itself. */
char *nc_event_name(const struct nc_event *e) {
    char when[32];
    size_t n = strnlen(e->name, MAX_NAME);
    uint64_t sum = NC_KUBE_HASH_SEED;

    snprintf(when, sizeof(when), "%" PRIu64, e->first_usec);
    sum = nc_kube_hash(sum, e->kind);
    sum = nc_kube_hash(sum, e->uid ? e->uid : "");
    sum = nc_kube_hash(sum, e->host ? e->host : "");
    sum = nc_kube_hash(sum, e->reason);
    if (!e->is_once)
        sum = nc_kube_hash(sum, when);
    while (n > 0 && (e->name[n - 1] == '.' || e->name[n - 1] == '-'))
        n--;
    return nc_asprintf("%.*s.%016" PRIx64, (int)n, e->name, sum);
}

static void set_message(struct nc_value *body, const char *message) {
    nc_auto_free char *cut =
        nc_strndup(message ? message : "", message ? nc_cut(message, MAX_MESSAGE) : 0);

    nc_value_set_string(body, "message", cut);
}

static void set_time(struct nc_value *body, const char *key, uint64_t usec) {
    char text[32];

    nc_time_format(usec, text);
    nc_value_set_string(body, key, text);
}

static struct nc_value *involved_object(const struct nc_event *e) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, "kind", e->kind);
    nc_value_set_string(v, "apiVersion", e->api_version);
    if (e->namespace)
        nc_value_set_string(v, "namespace", e->namespace);
    nc_value_set_string(v, "name", e->name);
    if (e->uid && *e->uid)
        nc_value_set_string(v, "uid", e->uid);
    return v;
}

struct nc_value *nc_event_body(const struct nc_event *e, const char *name) {
    struct nc_value *body = nc_value_new_map();
    struct nc_value *metadata, *source;

    nc_value_set_string(body, "apiVersion", "v1");
    nc_value_set_string(body, "kind", "Event");
    metadata = nc_value_add_map(body, "metadata");
    nc_value_set_string(metadata, "name", name);
    nc_value_set_string(metadata, "namespace", e->namespace ? e->namespace : "default");
    nc_value_set(body, "involvedObject", involved_object(e));
    nc_value_set_string(body, "type", e->warning ? "Warning" : "Normal");
    nc_value_set_string(body, "reason", e->reason);
    if (e->instance)
        nc_value_set_string(body, "reportingInstance", e->instance);
    set_message(body, e->message);
    source = nc_value_add_map(body, "source");
    nc_value_set_string(source, "component", e->component ? e->component : COMPONENT);
    if (e->host)
        nc_value_set_string(source, "host", e->host);
    set_time(body, "firstTimestamp", e->first_usec);
    set_time(body, "lastTimestamp", e->last_usec ? e->last_usec : e->first_usec);
    nc_value_set_int(body, "count", e->count ? (int64_t)e->count : 1);
    return body;
}

bool nc_event_exists(const struct nc_kube_status *status) {
    return status->http == 409 && nc_streq(status->reason, "AlreadyExists");
}

static struct nc_kube_call create_call(const struct nc_value *body, uint64_t timeout_usec) {
    return (struct nc_kube_call){.what = "create event",
                                 .method = "POST",
                                 .path = NC_KUBE_EVENTS,
                                 .body = body,
                                 .timeout_usec = timeout_usec,
                                 .max_bytes = MAX_ANSWER};
}

/* What changes of an Event that is reported again; *ret_path and *ret_body own what the call points
 * to.
 */
static struct nc_kube_call update_call(const struct nc_event *e, const char *name,
                                       uint64_t timeout_usec, char **ret_path,
                                       struct nc_value **ret_body) {
    nc_auto_free char *escaped = nc_kube_escape(name);
    struct nc_value *body = nc_value_new_map();

    set_message(body, e->message);
    set_time(body, "lastTimestamp", e->last_usec ? e->last_usec : e->first_usec);
    nc_value_set_int(body, "count", e->count ? (int64_t)e->count : 1);
    *ret_body = body;
    *ret_path = nc_asprintf("%s/%s", NC_KUBE_EVENTS, escaped);
    return (struct nc_kube_call){.what = "update event",
                                 .method = "PATCH",
                                 .path = *ret_path,
                                 .body = body,
                                 .patch = NC_KUBE_PATCH_MERGE,
                                 .timeout_usec = timeout_usec,
                                 .max_bytes = MAX_ANSWER};
}

int nc_event_create(struct nc_kube *k, const struct nc_event *e, uint64_t timeout_usec,
                    char **ret_name, struct nc_err *err) {
    nc_auto_free char *name = nc_event_name(e);
    nc_auto_value struct nc_value *body = nc_event_body(e, name);
    struct nc_kube_status status;
    struct nc_err failure = NC_ERR_INIT;
    const struct nc_kube_call call = create_call(body, timeout_usec);
    const int r = nc_kube_perform(k, &call, NULL, &status, &failure);

    if (r < 0 && !nc_event_exists(&status)) {
        if (err)
            *err = failure;
        return r;
    }
    if (ret_name)
        *ret_name = nc_steal(&name);
    return 0;
}

int nc_event_start(struct nc_kube *k, const struct nc_event *e, const struct nc_event_receiver *to,
                   struct nc_kube_req **ret, struct nc_err *err) {
    nc_auto_free char *name = nc_event_name(e);
    nc_auto_free char *namespace = nc_kube_escape(e->namespace ? e->namespace : "default");
    nc_auto_free char *path = nc_asprintf("/api/v1/namespaces/%s/events", namespace);
    nc_auto_free char *own_path = NULL;
    nc_auto_value struct nc_value *body = NULL;
    struct nc_kube_call call;

    if (e->is_there) {
        call = update_call(e, name, SEND_USEC, &own_path, &body);
    } else {
        body = nc_event_body(e, name);
        call = create_call(body, SEND_USEC);
        call.path = path;
    }
    call.drops_answer = true;
    call.done = to->done;
    call.userdata = to->userdata;
    return nc_kube_start(k, &call, ret, err);
}

int nc_event_update(struct nc_kube *k, const char *created_name, const struct nc_event *e,
                    uint64_t timeout_usec, struct nc_err *err) {
    nc_auto_free char *path = NULL;
    nc_auto_value struct nc_value *body = NULL;
    const struct nc_kube_call call = update_call(e, created_name, timeout_usec, &path, &body);

    return nc_kube_perform(k, &call, NULL, NULL, err);
}
