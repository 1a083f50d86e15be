/*
 * What a drain asks about a pod: evict it (which budgets may forbid), mark it, or delete it.
 *
 * Each question carries the pod's uid as a precondition, so that a pod that has been replaced under
 * the same name is never touched. One question is one request: when to ask again is the drain's
 * decision. The answer's body is thrown away as it comes: a pod may be a megabyte.
 */
#include <string.h>

#include "nc/clock.h"
#include "nc/kube-drain.h"
#include "nc/mem.h"
#include "nc/time.h"

#include "wire.h"

#define REASON "TerminationByNodeclaimd"
#define MESSAGE "nodeclaimd: the node is terminating, force-deleting this pod"

struct asked {
    void (*done)(void *userdata, const struct nc_pod_result *a);
    void *userdata;
    uint64_t started_usec;
};

/* An eviction that is given up may already have used its budget up: the API server takes from the
 * budget first and deletes then, and nothing gives back what was taken but the disruption
 * controller, two minutes later. Many pods below one budget wait for seconds. A connection that is
 * dead shows itself (nc/http.h), and force-delete times wait for no eviction. */
uint64_t nc_pod_send_timeout(enum nc_drain_verb verb, unsigned attempt) {
    static const uint64_t seconds[] = {2, 4, 8, 15};
    const size_t last = NC_ARRAY_SIZE(seconds) - 1;
    const size_t i = attempt > 0 ? attempt - 1 : 0;

    if (verb == NC_DRAIN_EVICT)
        return seconds[last] * 1000000u;
    /* Nobody waits longer for a mark than its deletion does. */
    if (verb == NC_DRAIN_MARK)
        return seconds[0] * 1000000u;
    return seconds[i < last ? i : last] * 1000000u;
}

static struct nc_value *map_with_string(const char *key, const char *text) {
    struct nc_value *v = nc_value_new_map();

    nc_value_set_string(v, key, text);
    return v;
}

static struct nc_value *delete_options(const struct nc_pod *p, uint64_t grace_sec) {
    struct nc_value *options = nc_value_new_map();

    if (grace_sec > 0)
        nc_value_set_int(options, "gracePeriodSeconds", (int64_t)grace_sec);
    nc_value_set(options, "preconditions", map_with_string("uid", p->uid));
    return options;
}

static struct nc_value *eviction_body(const struct nc_pod *p, uint64_t grace_sec) {
    struct nc_value *body = nc_value_new_map();
    struct nc_value *metadata = map_with_string("name", p->name);

    nc_value_set_string(metadata, "namespace", p->namespace);
    nc_value_set_string(body, "apiVersion", "policy/v1");
    nc_value_set_string(body, "kind", "Eviction");
    nc_value_set(body, "metadata", metadata);
    nc_value_set(body, "deleteOptions", delete_options(p, grace_sec));
    return body;
}

static struct nc_value *mark_body(const struct nc_pod *p, uint64_t now_usec) {
    struct nc_value *body = nc_value_new_map();
    struct nc_value *list;
    struct nc_value *condition = map_with_string("type", "DisruptionTarget");
    char now[32];

    nc_time_format(now_usec, now);
    nc_value_set_string(condition, "status", "True");
    nc_value_set_string(condition, "reason", REASON);
    nc_value_set_string(condition, "message", MESSAGE);
    nc_value_set_string(condition, "lastTransitionTime", now);
    nc_value_set(body, "metadata", map_with_string("uid", p->uid));
    list = nc_value_add_list(nc_value_add_map(body, "status"), "conditions");
    nc_value_push(list, condition);
    return body;
}

static struct nc_value *deletion_body(const struct nc_pod *p, uint64_t grace_sec) {
    struct nc_value *body = delete_options(p, grace_sec);

    nc_value_set_string(body, "apiVersion", "v1");
    nc_value_set_string(body, "kind", "DeleteOptions");
    return body;
}

/* Fills the call; *ret_path and *ret_body own what it points to. */
static void build_pod_request(const struct nc_drain_action *a, uint64_t now_usec,
                              struct nc_kube_call *call, char **ret_path,
                              struct nc_value **ret_body) {
    nc_auto_free char *namespace = nc_kube_escape(a->pod->namespace);
    nc_auto_free char *name = nc_kube_escape(a->pod->name);
    const char *subresource = "";

    switch (a->verb) {
    case NC_DRAIN_EVICT:
        call->what = "evict pod";
        call->method = "POST";
        subresource = "/eviction";
        *ret_body = eviction_body(a->pod, a->grace_sec);
        break;
    case NC_DRAIN_MARK:
        call->what = "mark pod";
        call->method = "PATCH";
        call->patch = NC_KUBE_PATCH_STRATEGIC;
        subresource = "/status";
        *ret_body = mark_body(a->pod, now_usec);
        break;
    case NC_DRAIN_DELETE:
        call->what = "delete pod";
        call->method = "DELETE";
        *ret_body = deletion_body(a->pod, a->grace_sec);
        break;
    }
    *ret_path = nc_asprintf("/api/v1/namespaces/%s/pods/%s%s", namespace, name, subresource);
    call->path = *ret_path;
    call->body = *ret_body;
}

/* What an error counter should see: not what every drain meets. */
static enum nc_err_class class_of(enum nc_pod_answer_kind kind, const struct nc_err *err) {
    switch (kind) {
    case NC_ANSWER_UNSENT:
    case NC_ANSWER_ACCEPTED:
    case NC_ANSWER_GONE:
    case NC_ANSWER_BUDGET:
    case NC_ANSWER_BUDGETS:
    case NC_ANSWER_NAMESPACE:
        return NC_ERR_NONE;
    case NC_ANSWER_BUSY:
    case NC_ANSWER_REFUSED:
    case NC_ANSWER_FAILED:
    case NC_ANSWER_UNAVAILABLE:
    case _NC_ANSWER_MAX:
        break;
    }
    return err->class;
}

/* Where nobody answered, what is known is why. A success that was none is no answer either. */
static void on_pod_answer(void *userdata, const struct nc_value *object,
                          const struct nc_kube_status *status, const struct nc_err *err) {
    nc_auto_free struct asked *s = userdata;
    struct nc_pod_result a = {.duration_usec = nc_mono_usec() - s->started_usec, .err = *err};

    const bool is_nonsense =
        status->http >= 200 && status->http <= 299 && err->class != NC_ERR_NONE;
    const int http = is_nonsense ? 0 : status->http;

    nc_pod_answer_read(&(struct nc_pod_response){.http = http,
                                                 .reason = status->reason,
                                                 .cause = status->cause,
                                                 .message = http ? status->message : err->msg,
                                                 .retry_after_usec = status->retry_after_usec},
                       &a.answer);
    a.class = class_of(a.answer.kind, err);
    s->done(s->userdata, &a);
}

int nc_pod_send(struct nc_kube *k, const struct nc_pod_call *c, struct nc_kube_req **ret,
                struct nc_err *err) {
    struct asked *s = nc_calloc(1, sizeof(*s));
    struct nc_kube_call call = {.timeout_usec = c->timeout_usec,
                                .drops_answer = true,
                                .done = on_pod_answer,
                                .userdata = s,
                                .destroy = free};
    nc_auto_free char *path = NULL;
    nc_auto_value struct nc_value *body = NULL;
    int r;

    build_pod_request(c->action, c->now_usec, &call, &path, &body);
    *s = (struct asked){.done = c->done, .userdata = c->userdata, .started_usec = nc_mono_usec()};
    r = nc_kube_start(k, &call, ret, err);
    if (r < 0)
        free(s);
    return r;
}
