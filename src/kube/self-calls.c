/*
 * The requests of `signal: self`: our own NodeClaim read, tried and written.
 *
 * A dry run goes through admission as the real thing would, and changes nothing. A PATCH is made
 * one by its query; a DELETE is never tried: with a body, its query is not looked at.
 */
#include <string.h>

#include "nc/kube-self.h"
#include "nc/str.h"

#include "guard-claim.h"

struct asked {
    nc_self_asked_fn done;
    void *userdata;
    enum nc_self_question question;
    char *uid, *node;
};

static void free_asked(void *userdata) {
    struct asked *a = userdata;

    free(a->uid);
    free(a->node);
    free(a);
}

static struct nc_value *patch_body(const char *uid, const char *key, const char *text) {
    struct nc_value *body = nc_value_new(NC_VALUE_MAP);
    struct nc_value *metadata = nc_value_new(NC_VALUE_MAP);
    struct nc_value *annotations = nc_value_new(NC_VALUE_MAP);

    nc_value_set_string(annotations, key, text);
    nc_value_set_string(metadata, "uid", uid);
    nc_value_set(metadata, "annotations", annotations);
    nc_value_set(body, "metadata", metadata);
    return body;
}

static struct nc_value *delete_body(const char *uid) {
    struct nc_value *body = nc_value_new(NC_VALUE_MAP);
    struct nc_value *preconditions = nc_value_new(NC_VALUE_MAP);

    nc_value_set_string(preconditions, "uid", uid);
    nc_value_set_string(body, "apiVersion", "v1");
    nc_value_set_string(body, "kind", "DeleteOptions");
    nc_value_set(body, "preconditions", preconditions);
    return body;
}

/* Fills the call; what is returned is its body, owned. */
static struct nc_value *put_question(const struct nc_kube *k, enum nc_self_question q,
                                     uint64_t time_usec, struct nc_kube_call *call) {
    char time[32];

    nc_time_format(time_usec / 1000000u * 1000000u, time);
    call->method = "PATCH";
    call->patch = NC_KUBE_PATCH_MERGE;
    switch (q) {
    case NC_SELF_READ:
        call->what = "get nodeclaim";
        call->method = "GET";
        call->patch = NC_KUBE_PATCH_NONE;
        return NULL;
    case NC_SELF_TRY_FOREIGN:
        call->what = "try the guard of nodeclaims";
        return patch_body(k->claim_uid, NC_GUARD_PROBE, "dry-run");
    case NC_SELF_TRY_STAMP:
        call->what = "try to set the time of the nodeclaim";
        return patch_body(k->claim_uid, NC_TERMINATION_TIME, time);
    case NC_SELF_DO_STAMP:
        call->what = "set the time of the nodeclaim";
        return patch_body(k->claim_uid, NC_TERMINATION_TIME, time);
    case NC_SELF_DO_DELETE:
        break;
    }
    call->what = "delete nodeclaim";
    call->method = "DELETE";
    call->patch = NC_KUBE_PATCH_NONE;
    return delete_body(k->claim_uid);
}

/* 403 and 422 are both ways in which an admission policy refuses; it says so in its message. */
static enum nc_self_answer answer_of(const struct nc_kube_status *s, const struct nc_err *err) {
    if (err->class == NC_ERR_NONE)
        return NC_SELF_ALLOWED;
    if (s->http == 404 || (s->http == 409 && strstr(s->message, "UID")))
        return NC_SELF_MISSING;
    if (s->http != 403 && s->http != 422)
        return NC_SELF_AWAY;
    return strstr(s->message, "denied request") ? NC_SELF_DENIED : NC_SELF_FORBIDDEN;
}

static void read_claim(const struct asked *a, const struct nc_value *object,
                       struct nc_self_asked *ret) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    const struct nc_value *annotations = nc_value_get(metadata, "annotations");

    if (!nc_streq(nc_value_get_string(metadata, "uid"), a->uid)) {
        ret->answer = NC_SELF_MISSING;
        return;
    }
    ret->is_ours = nc_streq(nc_value_string(nc_value_path(object, "status.nodeName")), a->node);
    ret->is_deleting = nc_value_get_string(metadata, "deletionTimestamp") != NULL;
    ret->has_time = nc_value_get(annotations, NC_TERMINATION_TIME) != NULL;
}

static void on_asked(void *userdata, const struct nc_value *object,
                     const struct nc_kube_status *status, const struct nc_err *err) {
    struct asked *a = userdata;
    struct nc_self_asked asked = {.answer = answer_of(status, err), .err = err};

    if (a->question == NC_SELF_READ && asked.answer == NC_SELF_ALLOWED)
        read_claim(a, object, &asked);
    a->done(a->userdata, a->question, &asked);
    free_asked(a);
}

int nc_self_ask(struct nc_kube *k, enum nc_self_question q, const char *node, uint64_t time_usec,
                uint64_t timeout_usec, nc_self_asked_fn done, void *userdata,
                struct nc_kube_req **ret, struct nc_err *err) {
    struct nc_kube_call call = {.timeout_usec = timeout_usec};
    const bool is_dry = q == NC_SELF_TRY_FOREIGN || q == NC_SELF_TRY_STAMP;
    nc_auto_value struct nc_value *body = put_question(k, q, time_usec, &call);
    nc_auto_free char *path =
        nc_asprintf("%s%s", k->claim_path ? k->claim_path : "", is_dry ? NC_DRY_RUN : "");
    struct asked *a = nc_calloc(1, sizeof(*a));
    int r;

    *a = (struct asked){.done = done,
                        .userdata = userdata,
                        .question = q,
                        .uid = nc_strdup(k->claim_uid),
                        .node = nc_strdup(node)};
    call.path = path;
    call.body = body;
    r = nc_kube_start_owned(k, &call, on_asked, a, free_asked, ret, err);
    if (r < 0)
        free_asked(a);
    return r;
}
