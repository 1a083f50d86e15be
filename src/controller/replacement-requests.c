/*
 * Replacement first, carried out: for some nodes at once, the pods of one named namespace after the
 * other, their ReplicaSets, their Deployments, and a restart where it is due.
 *
 * A walk asks one thing at a time, and goes on with the next pod or namespace where that fails: the
 * step asks for another walk as long as the node says that its pods wait. What is possible and due
 * is nc/replacement.h's to say. Who fills a namespace with pods keeps no neighbour from its
 * replacement: only pods that a ReplicaSet owns have a place, and those that were reported as
 * impossible give way to others.
 */
#include "nc/replacement.h"

#include "controller.h"
#include "log.h"
#include "nc/backoff.h"
#include "nc/clock.h"
#include "nc/str.h"

#define CALL_USEC 10000000u
#define MAX_WALKS 4096u
#define MAX_RUNNING 4u
/* Reported in one walk: of pods without a ReplicaSet there may be thousands. */
#define MAX_BARE 8u

struct nc_replacement_walk {
    struct nc_controller *controller;
    struct nc_replacement_walk *next;
    bool is_running;
    struct nc_kube_req *req; /* in flight */
    uint64_t what;           /* it or the list, as health.c tells requests apart */
    struct nc_watch *list;   /* of pods, while it comes in */
    char *node;
    uint64_t since_usec;
    size_t space; /* of settings->replacement_namespaces, the one that is walked */
    struct nc_replaced_pod *pods;
    size_t n_pods, pod; /* of it; the one that is seen to */
    size_t n_fresh;     /* these first: nothing was reported of them in this drain */
    unsigned n_bare;
    struct nc_replacement_owner owner;
};

static const char *space_of(const struct nc_replacement_walk *w) {
    return w->controller->settings->replacement_namespaces[w->space];
}

static void forget_pods(struct nc_replacement_walk *w) {
    for (size_t i = 0; i < w->n_pods; i++)
        nc_replaced_pod_done(&w->pods[i]);
    free(nc_steal(&w->pods));
    w->n_pods = w->pod = w->n_fresh = w->n_bare = 0;
    nc_replacement_owner_done(&w->owner);
}

static void end_walk(struct nc_replacement_walk *w) {
    struct nc_replacement_walk **at = &w->controller->walks;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    nc_watch_free(w->list);
    forget_pods(w);
    free(w->node);
    free(w);
}

/* --- what is told */

static void on_event(void *userdata, const struct nc_value *object,
                     const struct nc_kube_status *status, const struct nc_err *err) {
    if (err->class != NC_ERR_NONE && status->http != 409) /* another leader has said it */
        nc_log(NC_LOG_DEBUG, NULL, "%s", err->msg);
}

/* Dated by the drain's begin, so that it has one name whoever leads. */
static void announce(struct nc_replacement_walk *w, const struct nc_replaced_pod *pod,
                     bool is_warning, const char *reason, const char *message) {
    const struct nc_event e = {.kind = "Pod",
                               .api_version = "v1",
                               .namespace = space_of(w),
                               .name = pod->name,
                               .uid = pod->uid,
                               .warning = is_warning,
                               .reason = reason,
                               .message = message,
                               .component = NC_CONTROLLER,
                               .first_usec = w->since_usec,
                               .count = 1};
    const struct nc_replacement_call call = {.verb = NC_REPLACEMENT_EVENT,
                                             .namespace = e.namespace,
                                             .event = &e,
                                             .timeout_usec = CALL_USEC,
                                             .done = on_event};
    struct nc_err err = NC_ERR_INIT;

    nc_log(
        is_warning ? NC_LOG_WARNING : NC_LOG_INFO,
        &(struct nc_log_fields){
            .reason = reason, .pod_namespace = e.namespace, .pod_name = pod->name, .node = w->node},
        "Pod %s/%s: %s", e.namespace, pod->name, message);
    if (nc_replacement_send(w->controller->api_config.kube, &call, NULL, &err) < 0)
        nc_log(NC_LOG_ERROR, NULL, "%s", err.msg);
}

static uint64_t key_of(const struct nc_replacement_walk *w, const struct nc_replaced_pod *pod) {
    return nc_backoff_seed(pod->uid) ^ w->since_usec;
}

static bool was_reported(const struct nc_replacement_walk *w, const struct nc_replaced_pod *pod) {
    const struct nc_controller *c = w->controller;
    const uint64_t key = key_of(w, pod);

    for (size_t i = 0; i < NC_ARRAY_SIZE(c->reported_pods); i++)
        if (c->reported_pods[i] == key)
            return true;
    return false;
}

/* Once a pod, as far as it is remembered. */
static void report_impossible(struct nc_replacement_walk *w, const struct nc_replaced_pod *pod,
                              const char *why) {
    struct nc_controller *c = w->controller;
    nc_auto_free char *message = nc_asprintf(
        "no replacement can be made first: %s; evicted at drain.replacementTimeout", why);

    if (was_reported(w, pod))
        return;
    c->reported_pods[c->n_reported_pods++ % NC_ARRAY_SIZE(c->reported_pods)] = key_of(w, pod);
    announce(w, pod, true, "ReplacementNotPossible", message);
}

/* Those of which nothing was reported first. */
static void add_pod(struct nc_replacement_walk *w, struct nc_replaced_pod *pod) {
    const bool is_fresh = !was_reported(w, pod);
    size_t at = w->n_pods;

    if (w->n_pods < NC_REPLACEMENT_PODS_MAX)
        (void)nc_append(&w->pods, &w->n_pods);
    else if (is_fresh && w->n_fresh < w->n_pods)
        nc_replaced_pod_done(&w->pods[--at]);
    else
        return;
    if (is_fresh) {
        w->pods[at] = w->pods[w->n_fresh];
        at = w->n_fresh++;
    }
    w->pods[at] = *pod;
    *pod = (struct nc_replaced_pod){0};
}

/* --- one thing after the other */

static void on_pod(void *userdata, enum nc_watch_event event, const struct nc_value *object);
static void on_pods_failed(void *userdata, const struct nc_kube_status *status,
                           const struct nc_err *err);
static void on_set(void *userdata, const struct nc_value *object,
                   const struct nc_kube_status *status, const struct nc_err *err);
static void begin_more(struct nc_controller *c);

static uint64_t what_of(const struct nc_replacement_walk *w, int verb, const char *name) {
    nc_auto_free char *text = nc_asprintf("%d %s/%s", verb, space_of(w), name);

    return nc_backoff_seed(text);
}

/* Where it cannot even be sent, the walk ends. */
static void request(struct nc_replacement_walk *w, enum nc_replacement_verb verb, const char *name,
                    const struct nc_value *body, nc_kube_done_fn done) {
    const struct nc_replacement_call call = {.verb = verb,
                                             .namespace = space_of(w),
                                             .name = name,
                                             .body = body,
                                             .timeout_usec = CALL_USEC,
                                             .done = done,
                                             .userdata = w};
    struct nc_err err = NC_ERR_INIT;

    w->what = what_of(w, (int)verb, name);
    if (nc_replacement_send(w->controller->api_config.kube, &call, &w->req, &err) >= 0)
        return;
    nc_controller_failed(w->controller, NC_TROUBLE_REPLACEMENT, w->what, &err);
    end_walk(w);
}

static void walk_space(struct nc_replacement_walk *w) {
    const struct nc_replacement_list l = {.namespace = space_of(w),
                                          .node = w->node,
                                          .keep = nc_replacement_keep,
                                          .event = on_pod,
                                          .failed = on_pods_failed,
                                          .userdata = w};
    struct nc_controller *c = w->controller;
    struct nc_err err = NC_ERR_INIT;

    forget_pods(w);
    w->what = l.namespace ? what_of(w, 0, w->node) : 0;
    if (l.namespace && nc_replacement_list(c->api_config.kube, c->event, &l, &w->list, &err) >= 0)
        return;
    nc_controller_failed(c, NC_TROUBLE_REPLACEMENT, w->what, &err);
    end_walk(w);
}

static void walk_pod(struct nc_replacement_walk *w) {
    if (w->pod < w->n_pods) {
        request(w, NC_REPLACEMENT_GET_SET, w->pods[w->pod].set, NULL, on_set);
        return;
    }
    w->space++;
    walk_space(w);
}

static void next_pod(struct nc_replacement_walk *w) {
    nc_replacement_owner_done(&w->owner);
    w->pod++;
    walk_pod(w);
}

/* The answer is here. True where there is an object; else what was asked for is left alone: gone,
 * or changed meanwhile, or it cannot be read just now. */
static bool has_answer(struct nc_replacement_walk *w, const struct nc_value *object,
                       const struct nc_kube_status *status, const struct nc_err *err) {
    w->req = NULL;
    if ((err->class == NC_ERR_NONE && object) || status->http == 404)
        nc_controller_succeeded(w->controller, NC_TROUBLE_REPLACEMENT, w->what);
    else if (status->http != 409)
        nc_controller_failed(w->controller, NC_TROUBLE_REPLACEMENT, w->what, err);
    return err->class == NC_ERR_NONE && object;
}

static void on_restarted(void *userdata, const struct nc_value *object,
                         const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_replacement_walk *w = userdata;
    struct nc_controller *c = w->controller;
    nc_auto_free char *message =
        nc_asprintf("restarted Deployment %s/%s, which replaces it before node %s is drained",
                    space_of(w), w->owner.name, w->node);

    if (has_answer(w, object, status, err))
        announce(w, &w->pods[w->pod], false, "ReplacementStarted", message);
    next_pod(w);
    begin_more(c);
}

/* Leadership may have ended since the walk began. */
static bool leads(const struct nc_controller *c) {
    return c->leader ? nc_leader_leads(c->leader) : c->leads;
}

static void on_deployment(void *userdata, const struct nc_value *object,
                          const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_replacement_walk *w = userdata;
    struct nc_controller *c = w->controller;
    const struct nc_replacement_case judged = {.deployment = object,
                                               .uid = w->owner.uid,
                                               .since_usec = w->since_usec,
                                               .now_usec = nc_controller_now(c)};
    nc_auto_value struct nc_value *patch = NULL;
    enum nc_replacement_answer answer = NC_REPLACEMENT_GONE;
    const char *why = NULL;

    if (has_answer(w, object, status, err))
        answer = nc_replacement_judge(&judged, &why, &patch);
    if (answer == NC_REPLACEMENT_IMPOSSIBLE)
        report_impossible(w, &w->pods[w->pod], why);
    if (answer == NC_REPLACEMENT_RESTART && leads(c))
        request(w, NC_REPLACEMENT_PATCH, w->owner.name, patch, on_restarted);
    else
        next_pod(w);
    begin_more(c);
}

static void on_set(void *userdata, const struct nc_value *object,
                   const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_replacement_walk *w = userdata;
    struct nc_controller *c = w->controller;
    const bool is_there = has_answer(w, object, status, err);

    if (is_there && nc_replacement_read_owner(object, w->pods[w->pod].set_uid, &w->owner)) {
        request(w, NC_REPLACEMENT_GET_DEPLOYMENT, w->owner.name, NULL, on_deployment);
    } else {
        if (is_there)
            report_impossible(w, &w->pods[w->pod], "its ReplicaSet has no Deployment");
        next_pod(w);
    }
    begin_more(c);
}

static void on_pod(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct nc_replacement_walk *w = userdata;
    struct nc_controller *c = w->controller;
    struct nc_replaced_pod pod = {0};

    if (event == NC_WATCH_SYNCED) {
        w->list = nc_watch_free(w->list);
        nc_controller_succeeded(c, NC_TROUBLE_REPLACEMENT, w->what);
        walk_pod(w);
        begin_more(c);
        return;
    }
    if (event != NC_WATCH_ADDED || !nc_replacement_read_pod(object, space_of(w), &pod))
        return;
    if (pod.set)
        add_pod(w, &pod);
    else if (!was_reported(w, &pod) && w->n_bare++ < MAX_BARE)
        report_impossible(w, &pod, "its controller is not a Deployment");
    nc_replaced_pod_done(&pod);
}

/* What has come of it is seen to. */
static void on_pods_failed(void *userdata, const struct nc_kube_status *status,
                           const struct nc_err *err) {
    struct nc_replacement_walk *w = userdata;
    struct nc_controller *c = w->controller;

    w->list = nc_watch_free(w->list);
    (void)has_answer(w, NULL, status, err);
    walk_pod(w);
    begin_more(c);
}

/* --- walks */

static void begin_more(struct nc_controller *c) {
    struct nc_replacement_walk *w = c->walks;
    size_t n_running = 0;

    for (; w; w = w->next)
        n_running += w->is_running;
    for (w = c->walks; w && n_running < MAX_RUNNING;) {
        struct nc_replacement_walk *next = w->next; /* it may end at once */
        if (!w->is_running) {
            n_running++;
            w->is_running = true;
            walk_space(w);
        }
        w = next;
    }
}

void nc_controller_replace(struct nc_controller *c, const char *node, uint64_t since_usec) {
    struct nc_replacement_walk **at = &c->walks;
    size_t n = 0;

    for (; *at; at = &(*at)->next, n++)
        if (nc_streq((*at)->node, node))
            return;
    if (n >= MAX_WALKS)
        return;
    *at = nc_calloc(1, sizeof(**at));
    **at = (struct nc_replacement_walk){
        .controller = c, .node = nc_strdup(node), .since_usec = since_usec};
    begin_more(c);
}

void nc_controller_drop_replacements(struct nc_controller *c) {
    while (c->walks) {
        c->walks->req = nc_kube_cancel(c->walks->req);
        end_walk(c->walks);
    }
}
