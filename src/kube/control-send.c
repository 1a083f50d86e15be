/*
 * What the controller writes: one action of its step as one request, and what the answer means.
 *
 * The body comes complete from the step; here it gets a method, a path and a content type. Of what
 * the server gives back only the version matters (the watch tells the rest), so only the object's
 * metadata is requested, but where a Node is to be read. A success that brings no object is none:
 * somebody else has answered. Asking once more does no harm, a uid or a version goes with it.
 * guard-control.c holds each to its rules.
 */
#include <errno.h>
#include <string.h>

#include "nc/clock.h"
#include "nc/kube-control.h"
#include "nc/kube-drain.h"
#include "nc/str.h"

#include "wire.h"

#define NODES "/api/v1/nodes"
#define CLAIMS_SUFFIX "/nodeclaims"
#define COMPONENT "nodeclaim-controller"
#define METADATA "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"

struct sent {
    void (*done)(void *userdata, const struct nc_control_sent *s);
    void *userdata;
    uint64_t id;
    enum nc_control_verb verb;
    uint64_t started_usec;
};

/* What an answer to an action means. A uid that is another one's is MISSING, whatever was asked. */
static enum nc_control_answer answer_of(const struct nc_kube_status *s) {
    if (s->http >= 200 && s->http <= 299)
        return NC_CONTROL_DONE;
    if (nc_kube_is_about_uid(s))
        return NC_CONTROL_MISSING;
    switch (s->http) {
    case 404:
        return NC_CONTROL_MISSING;
    case 409:
        return NC_CONTROL_CONFLICT;
    case 400:
    case 403:
    case 422:
        return NC_CONTROL_REFUSED;
    default:
        return NC_CONTROL_UNAVAILABLE;
    }
}

static void on_sent(void *userdata, const struct nc_value *object,
                    const struct nc_kube_status *status, const struct nc_err *err) {
    static const struct nc_err none = NC_ERR_INIT;
    nc_auto_free struct sent *s = userdata;
    const bool is_event = s->verb == NC_CONTROL_EMIT_EVENT; /* whose answer is thrown away */
    const enum nc_control_answer meant = answer_of(status);
    const bool is_done = (err->class == NC_ERR_NONE && (object || is_event))
                         || (is_event && nc_event_exists(status));
    struct nc_err bare = NC_ERR_INIT;

    if (!is_done && err->class == NC_ERR_NONE) {
        nc_kube_bare(nc_control_verb_name(s->verb), status, &bare);
        err = &bare;
    }
    const struct nc_control_sent reported = {.id = s->id,
                                             .verb = s->verb,
                                             .answer = is_done ? NC_CONTROL_DONE
                                                       : meant == NC_CONTROL_DONE
                                                           ? NC_CONTROL_UNAVAILABLE
                                                           : meant,
                                             .retry_after_usec = status->retry_after_usec,
                                             .duration_usec = nc_mono_usec() - s->started_usec,
                                             .object = is_done ? object : NULL,
                                             .status = *status,
                                             .err = is_done ? none : *err};

    if (s->done)
        s->done(s->userdata, &reported);
}

static const struct {
    const char *what, *method;
    bool is_node;
    const char *subresource;
} requests[_NC_CONTROL_VERB_MAX] = {
    [NC_CONTROL_SET_TIMESTAMP] = {"set timestamp of claim", "PATCH", false, ""},
    [NC_CONTROL_DELETE_CLAIM] = {"delete claim", "DELETE", false, ""},
    [NC_CONTROL_PATCH_CLAIM] = {"patch claim", "PATCH", false, ""},
    [NC_CONTROL_STATUS_CLAIM] = {"patch claim's status", "PATCH", false, "/status"},
    [NC_CONTROL_PATCH_NODE] = {"patch node", "PATCH", true, ""},
    [NC_CONTROL_DELETE_NODE] = {"delete node", "DELETE", true, ""},
    [NC_CONTROL_GET_NODE] = {"get node", "GET", true, ""},
};

/* Fills the call; *ret_path owns its path. */
static int build_action(const struct nc_control_action *a, const char *claims_path,
                        struct nc_kube_call *call, char **ret_path, struct nc_err *err) {
    nc_auto_free char *name = nc_kube_escape(a->name ? a->name : "");
    const char *collection;

    if (a->verb <= 0 || a->verb >= _NC_CONTROL_VERB_MAX || !requests[a->verb].what)
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "invalid action for the API: %d", (int)a->verb);
    collection = requests[a->verb].is_node ? NODES : claims_path;
    call->what = requests[a->verb].what;
    call->method = requests[a->verb].method;
    if (!collection)
        return nc_err_set(err, NC_ERR_BUG, EINVAL, "%s: where claims are is not known yet",
                          call->what);
    call->patch = nc_streq(call->method, "PATCH") ? NC_KUBE_PATCH_MERGE : NC_KUBE_PATCH_NONE;
    call->body = a->body;
    call->accept = a->verb == NC_CONTROL_GET_NODE ? NULL : METADATA;
    *ret_path = nc_asprintf("%s/%s%s", collection, name, requests[a->verb].subresource);
    call->path = *ret_path;
    return 0;
}

char *nc_control_claims_version(const char *claims_path) {
    const char *start = claims_path && nc_starts_with(claims_path, "/apis/")
                            ? claims_path + strlen("/apis/")
                            : "karpenter.sh/v1" CLAIMS_SUFFIX;
    const size_t n = strlen(start);
    const size_t tail = nc_ends_with(start, CLAIMS_SUFFIX) ? strlen(CLAIMS_SUFFIX) : 0;

    return nc_strndup(start, n - tail);
}

static const char *const kinds[_NC_CONTROL_KIND_MAX] = {
    [NC_CONTROL_NODE] = "Node",
    [NC_CONTROL_CLAIM] = "NodeClaim",
    [NC_CONTROL_POOL] = "NodePool",
    [NC_CONTROL_CLASS] = "EC2NodeClass",
};

/* `kubectl describe` finds the Events of a Node by its name as the uid, as kubelet writes them. */
static struct nc_value *build_event(const struct nc_control_action *a, const char *claims_path,
                                    uint64_t now_usec, struct nc_kube_call *call) {
    nc_auto_free char *version = nc_control_claims_version(claims_path);
    const bool is_node = a->what == NC_CONTROL_NODE;
    const struct nc_event e = {.kind = kinds[a->what],
                               .api_version = is_node ? "v1" : version,
                               .name = a->name ? a->name : "",
                               .uid = is_node ? a->name : a->uid,
                               .warning = a->is_warning,
                               .reason = a->reason ? a->reason : "",
                               .message = a->message,
                               .component = COMPONENT,
                               .first_usec = now_usec,
                               .count = 1};
    nc_auto_free char *name = nc_event_name(&e);
    struct nc_value *body = nc_event_body(&e, name);

    call->what = "create event";
    call->method = "POST";
    call->path = NC_KUBE_EVENTS;
    call->body = body;
    return body;
}

int nc_control_send(struct nc_kube *k, const struct nc_control_call *c, struct nc_kube_req **ret,
                    struct nc_err *err) {
    const struct nc_control_action *a = c->action;
    struct nc_kube_call call = {.timeout_usec = c->timeout_usec,
                                .drops_answer = a->verb == NC_CONTROL_EMIT_EVENT,
                                .done = on_sent,
                                .destroy = free};
    nc_auto_free char *path = NULL;
    nc_auto_value struct nc_value *event = NULL;
    struct sent *s;
    int r = 0;

    if (a->verb == NC_CONTROL_EMIT_EVENT)
        event = build_event(a, c->claims_path, c->now_usec, &call);
    else
        r = build_action(a, c->claims_path, &call, &path, err);
    if (r < 0)
        return r;
    s = nc_calloc(1, sizeof(*s));
    *s = (struct sent){.done = c->done,
                       .userdata = c->userdata,
                       .id = a->id,
                       .verb = a->verb,
                       .started_usec = nc_mono_usec()};
    call.userdata = s;
    r = nc_kube_start(k, &call, ret, err);
    if (r < 0)
        free(s);
    return r;
}
