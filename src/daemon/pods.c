/*
 * The pods of our Node: watched while the lifecycle wants them, asked one question at a time each,
 * and the volumes of those that stay.
 *
 * Pods that have ended are not even listed. Of each only what a drain checks is kept
 * (nc_pod_paths). A question that is in flight knows
 * its pod by uid alone; it is answered exactly once, UNAVAILABLE where it is cut off. Volumes and
 * what a shutdown left are best effort: a refusal there is no failure of a drain.
 */
#include "daemon.h"

#include <errno.h>
#include <stdio.h>

#include "log.h"
#include "nc/str.h"

#define VOLUMES_MAX 256
#define VOLUME_TIMEOUT_USEC 5000000u
#define LINES_MAX NC_DRAIN_MAX_PODS
#define CLEAN_UP_GRACE_SEC 1    /* a pod that has ended goes at once, whatever is asked */
#define CLEAN_UP_MAX 500        /* at one boot */
#define NODE_FIRST_USEC 200000u /* a pod is asked again, while the Node is read */

struct nc_pod_request {
    struct nc_daemon *d;
    struct nc_pod_request *next;
    struct nc_kube_req *req;
    char *uid;
    enum nc_drain_verb verb;
    bool is_clean_up; /* the lifecycle knows nothing of it */
    uint64_t started_usec, timeout_usec;
};

struct nc_volume_request {
    struct nc_daemon *d;
    struct nc_volume_request *next;
    struct nc_kube_req *req;
    char *claim; /* "namespace/name" */
};

/* --- questions */

static void unlink_pod_request(struct nc_pod_request *q) {
    struct nc_pod_request **at = &q->d->pods.requests;

    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
}

static void free_pod_request(struct nc_pod_request *q) {
    nc_kube_cancel(q->req);
    free(q->uid);
    free(q);
}

static void post_answer(struct nc_daemon *d, const char *uid, enum nc_drain_verb verb,
                        const struct nc_pod_answer *answer) {
    struct nc_lifecycle_event e = {
        .kind = NC_LIFECYCLE_POD_ANSWER, .uid = uid, .verb = verb, .answer = answer};

    d->counters.answers[verb][answer->kind]++;
    nc_daemon_post(d, &e);
}

static void post_unavailable(struct nc_daemon *d, const char *uid, enum nc_drain_verb verb,
                             const char *why) {
    struct nc_pod_answer unavailable;

    nc_pod_answer_read(&(struct nc_pod_response){.message = why}, &unavailable);
    post_answer(d, uid, verb, &unavailable);
}

/* Whether the API server is there and takes us for who we are: while a drain is held up nothing
 * else may be requested from it. */
static void note_route(struct nc_daemon *d, const struct nc_pod_result *a) {
    if (a->answer.kind == NC_ANSWER_UNAVAILABLE) {
        nc_api_session_failed(d, &a->err);
    } else if (a->class == NC_ERR_NONE) {
        nc_api_session_well(d);
    } else {
        d->counters.api_errors[a->class]++;
    }
}

/* Once nothing of it is in flight: what nobody answered to is not asked again in this life. */
static void note_clean_up(struct nc_daemon *d) {
    if (!d->pods.wants_clean_up || !d->pods.is_left_listed)
        return;
    for (const struct nc_pod_request *q = d->pods.requests; q; q = q->next)
        if (q->is_clean_up)
            return;
    d->pods.wants_clean_up = false;
    d->is_state_due = true;
}

static void on_pod_answer(void *userdata, const struct nc_pod_result *a) {
    struct nc_pod_request *q = userdata;
    struct nc_daemon *d = q->d;

    unlink_pod_request(q);
    q->req = NULL;
    nc_histogram_add(&d->counters.api_latency, a->duration_usec);
    note_route(d, a);
    if (!q->is_clean_up)
        post_answer(d, q->uid, q->verb, &a->answer);
    free_pod_request(q);
    note_clean_up(d);
}

static int start_request(struct nc_daemon *d, const struct nc_drain_action *a, bool is_clean_up,
                         struct nc_err *err) {
    struct nc_pod_request *q = nc_calloc(1, sizeof(*q));
    int r;

    *q = (struct nc_pod_request){.d = d,
                                 .next = d->pods.requests,
                                 .uid = nc_strdup(a->pod->uid),
                                 .verb = a->verb,
                                 .is_clean_up = is_clean_up,
                                 .started_usec = nc_mono_usec()};
    q->timeout_usec = nc_pod_send_timeout(a->verb, a->attempt);
    d->counters.api_requests++;
    r = nc_pod_send(d->api.connection.kube,
                    &(struct nc_pod_call){.action = a,
                                          .now_usec = nc_daemon_now(d),
                                          .timeout_usec = q->timeout_usec,
                                          .done = on_pod_answer,
                                          .userdata = q},
                    &q->req, err);
    if (r < 0) {
        free_pod_request(q);
        return r;
    }
    d->pods.requests = q;
    return 0;
}

void nc_pod_evictor_send(struct nc_daemon *d, const struct nc_drain_action *a) {
    struct nc_err err = NC_ERR_INIT;

    if (!nc_api_session_is_up(&d->api)) {
        post_unavailable(d, a->pod->uid, a->verb, "not connected to the API server");
        return;
    }
    if (!nc_own_node_is_current(d, a->verb == NC_DRAIN_DELETE)) {
        post_answer(
            d, a->pod->uid, a->verb,
            &(struct nc_pod_answer){.kind = NC_ANSWER_UNSENT, .retry_after_usec = NODE_FIRST_USEC});
        return;
    }
    if (start_request(d, a, false, &err) < 0) {
        nc_api_session_failed(d, &err);
        post_unavailable(d, a->pod->uid, a->verb, err.msg);
    }
}

bool nc_pod_evictor_is_stuck(const struct nc_daemon *d, uint64_t mono_usec) {
    for (const struct nc_pod_request *q = d->pods.requests; q; q = q->next)
        if (mono_usec > q->started_usec + 2 * q->timeout_usec)
            return true;
    return false;
}

/* --- volumes of pods that stay */

static void unlink_volume_request(struct nc_volume_request *q) {
    struct nc_volume_request **at = &q->d->pods.volume_requests;

    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
}

static void free_volume_request(struct nc_volume_request *q) {
    nc_kube_cancel(q->req);
    free(q->claim);
    free(q);
}

/* The drain waits for it as for any other, which whoever waits for the drain should know: once for
 * all that are requested again. */
static void note_unreadable(struct nc_volume_request *q, const char *why, bool is_asked_again) {
    bool *has_warned = &q->d->pods.has_warned_of_volume;

    nc_log(is_asked_again && *has_warned ? NC_LOG_DEBUG : NC_LOG_WARNING, NULL,
           "volume of %s cannot be read: %s; waiting until it is detached", q->claim, why);
    *has_warned = *has_warned || is_asked_again;
}

static int get(struct nc_volume_request *q, const char *what, const char *path, const char *keep,
               nc_kube_done_fn done) {
    const struct nc_kube_call call = {.what = what,
                                      .method = "GET",
                                      .path = path,
                                      .timeout_usec = VOLUME_TIMEOUT_USEC,
                                      .keep = keep,
                                      .max_bytes = NC_VOLUME_MAX_BYTES,
                                      .done = done,
                                      .userdata = q};
    struct nc_err err = NC_ERR_INIT;
    const int r = nc_kube_start(q->d->api.connection.kube, &call, &q->req, &err);

    q->d->counters.api_requests++;
    if (r < 0)
        note_unreadable(q, err.msg, true);
    return r;
}

/* It is forgotten that it was requested: the next look asks again. */
static void give_up(struct nc_volume_request *q, const struct nc_kube_status *status,
                    const struct nc_err *err) {
    const bool is_asked_again = status->http == 0 || status->http >= 429;

    if (err->class != NC_ERR_NONE)
        note_unreadable(q, err->msg, is_asked_again);
    if (is_asked_again) {
        struct nc_strv *result = &q->d->pods.staying_claims;
        for (size_t i = 0; i < result->n; i++)
            if (nc_streq(result->v[i], q->claim)) {
                free(result->v[i]);
                result->v[i] = result->v[--result->n];
                result->v[result->n] = NULL;
                break;
            }
    }
    unlink_volume_request(q);
    free_volume_request(q);
}

static void on_volume(void *userdata, const struct nc_value *object,
                      const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_volume_request *q = userdata;
    nc_auto_free char *name = nc_volume_read(object, q->claim);
    struct nc_daemon *d = q->d;

    q->req = NULL;
    if (name && d->pods.staying_volumes.n < VOLUMES_MAX) {
        nc_strv_add(&d->pods.staying_volumes, name);
        nc_own_node_refresh(d);
    }
    give_up(q, status, err);
}

static void on_claim(void *userdata, const struct nc_value *object,
                     const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_volume_request *q = userdata;
    nc_auto_free char *path = nc_volume_claim_read(object);

    q->req = NULL;
    if (path && get(q, "get volume", path, nc_volume_paths, on_volume) >= 0)
        return;
    give_up(q, status, err);
}

static void request_volume(struct nc_daemon *d, const char *namespace, const char *name) {
    nc_auto_free char *claim = nc_asprintf("%s/%s", namespace, name);
    nc_auto_free char *path = nc_volume_claim_path(namespace, name);
    struct nc_volume_request *q;

    if (!path || d->pods.staying_claims.n >= VOLUMES_MAX
        || nc_strv_contains(&d->pods.staying_claims, claim))
        return;
    q = nc_calloc(1, sizeof(*q));
    *q = (struct nc_volume_request){.d = d, .claim = nc_steal(&claim)};
    if (get(q, "get volume claim", path, nc_volume_claim_paths, on_claim) < 0) {
        free_volume_request(q);
        return;
    }
    nc_strv_add(&d->pods.staying_claims, q->claim);
    q->next = d->pods.volume_requests;
    d->pods.volume_requests = q;
}

/* Which volumes it keeps is not known: they are waited for as any other. Said once a drain. */
static void note_unread_claims(struct nc_daemon *d, const struct nc_pod *pod) {
    nc_log(d->pods.has_warned_of_claims ? NC_LOG_DEBUG : NC_LOG_WARNING, NULL,
           "volumes of pod %s/%s, which stays: their list is too large; waiting until "
           "they are detached, or the deadline comes",
           pod->namespace, pod->name);
    d->pods.has_warned_of_claims = true;
}

/* A pod that has ended keeps no volume; one that is eligible is waited for. */
static bool stays(enum nc_pod_reason e) {
    return nc_pod_reason_kind(e) == NC_REASON_KIND_EXCLUDED && e != NC_POD_REASON_TERMINAL;
}

void nc_pod_evictor_query_volumes(struct nc_daemon *d, const struct nc_drain *drain,
                                  const struct nc_drain_rules *rules) {
    size_t n;

    if (!nc_api_session_is_up(&d->api) || !drain || nc_drain_count(drain) > LINES_MAX)
        return;
    nc_auto_free struct nc_drain_line *lines =
        nc_drain_lines(drain, rules, nc_daemon_own_now(), &n);
    for (size_t i = 0; i < n; i++)
        if (lines[i].pod->has_unread_claims && stays(lines[i].verdict.reason))
            note_unread_claims(d, lines[i].pod);
    /* the first of each pod first: none has all of the room */
    for (size_t k = 0; k < VOLUMES_MAX; k++)
        for (size_t i = 0; i < n; i++)
            if (k < lines[i].pod->claims.n && stays(lines[i].verdict.reason))
                request_volume(d, lines[i].pod->namespace, lines[i].pod->claims.v[k]);
}

/* --- the watch */

/* When a pod's grace ends is counted on the API server's clock, what a drain waits for on EC2's.
 * Where the two disagree, a pod that has just begun to end would seem to be stuck, or to end too
 * late. What both keep to, and what an answer may be late by, is not touched. */
static uint64_t by_ec2s_clock(struct nc_daemon *d, uint64_t usec) {
    const uint64_t reported = nc_kube_boot_usec(d->api.connection.kube);
    const uint64_t theirs = reported ? reported : d->pods.api_boot_usec;
    const uint64_t ours = nc_daemon_now(d) - nc_boot_usec();
    const uint64_t apart = theirs > ours ? theirs - ours : ours - theirs;

    d->pods.api_boot_usec = theirs;
    if (!usec || !theirs || apart <= NC_CLOCKS_AGREE_USEC)
        return usec;
    if (theirs < ours)
        return usec < UINT64_MAX - apart ? usec + apart : UINT64_MAX;
    return usec > apart ? usec - apart : 1;
}

static void handle_pod(struct nc_daemon *d, const struct nc_value *object) {
    struct nc_pod pod = {0};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_POD, .pod = &pod};
    struct nc_err err = NC_ERR_INIT;

    if (nc_pod_read(object, &pod, &err) < 0) {
        nc_api_session_failed(d, &err);
        e.kind = NC_LIFECYCLE_POD_UNREADABLE;
    }
    pod.deletion_usec = by_ec2s_clock(d, pod.deletion_usec);
    pod.created_usec = by_ec2s_clock(d, pod.created_usec);
    nc_daemon_post(d, &e);
}

static void handle_pod_absence(struct nc_daemon *d, const struct nc_value *object) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_POD_GONE};

    e.uid = nc_value_path_string(object, "metadata.uid");
    if (e.uid)
        nc_daemon_post(d, &e);
}

/* A list or an event came: whatever else is refused, the pods are shown. */
static void pods_are_well(struct nc_daemon *d) {
    nc_api_session_note_obstacle(d, NC_OBSTACLE_PODS, NULL);
}

static void on_pod(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct nc_lifecycle_event synced = {.kind = NC_LIFECYCLE_PODS_SYNCED};
    struct nc_daemon *d = userdata;

    pods_are_well(d);
    nc_api_session_well(d);
    switch (event) {
    case NC_WATCH_ADDED:
    case NC_WATCH_MODIFIED:
        handle_pod(d, object);
        break;
    case NC_WATCH_DELETED:
        handle_pod_absence(d, object);
        break;
    case NC_WATCH_SYNCED:
        nc_daemon_post(d, &synced);
        break;
    }
}

static void on_failed(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    struct nc_daemon *d = userdata;

    d->counters.watch_restarts++;
    nc_api_session_note_obstacle(d, NC_OBSTACLE_PODS, err);
    nc_api_session_failed(d, err);
}

static void on_well(void *userdata) {
    struct nc_daemon *d = userdata;

    pods_are_well(d);
    nc_api_session_well(d);
}

void nc_daemon_watch_pods(struct nc_daemon *d, const char *more, struct nc_watch_options o,
                          struct nc_watch **ret) {
    nc_auto_free char *selector =
        nc_asprintf("fieldSelector=spec.nodeName%%3D%s%s", d->node_name, more);
    struct nc_err err = NC_ERR_INIT;

    o.path = "/api/v1/pods";
    o.selector = selector;
    o.max_object_bytes = NC_POD_MAX_BYTES;
    o.max_value_bytes = NC_POD_VALUE_MAX_BYTES;
    o.userdata = d;
    if (nc_watch_new(d->api.connection.kube, d->app->event, &o, ret, &err) < 0)
        nc_api_session_failed(d, &err);
}

void nc_pod_evictor_open(struct nc_daemon *d) {
    const struct nc_watch_options o = {.keep = nc_pod_paths,
                                       .is_urgent = true, /* a drain waits for them */
                                       .event = on_pod,
                                       .failed = on_failed,
                                       .well = on_well};

    d->pods.wants_watch = true;
    if (nc_api_session_is_up(&d->api) && !d->pods.watch)
        nc_daemon_watch_pods(d, NC_POD_UNFINISHED, o, &d->pods.watch);
}

void nc_pod_evictor_renew(struct nc_daemon *d) {
    if (d->pods.watch)
        nc_watch_renew(d->pods.watch);
}

static void cancel_questions(struct nc_daemon *d) {
    struct nc_pod_request *all = d->pods.requests;

    d->pods.requests = NULL;
    while (all) {
        struct nc_pod_request *q = all;
        all = q->next;
        q->req = nc_kube_cancel(q->req);
        if (!q->is_clean_up)
            post_unavailable(d, q->uid, q->verb, "the connection to the API server was given up");
        free_pod_request(q);
    }
}

/* A question that is in flight is answered: given up, an eviction may have used its budget up all
 * the same. */
void nc_pod_evictor_unwatch(struct nc_daemon *d) {
    nc_api_session_note_obstacle(d, NC_OBSTACLE_PODS, NULL);
    d->pods.watch = nc_watch_free(d->pods.watch);
    d->pods.has_warned_of_volume = d->pods.has_warned_of_claims = false;
    while (d->pods.volume_requests) {
        struct nc_volume_request *q = d->pods.volume_requests;
        d->pods.volume_requests = q->next;
        free_volume_request(q);
    }
    nc_strv_done(&d->pods.staying_claims);
    d->pods.staying_claims = (struct nc_strv)NC_STRV_INIT;
    nc_strv_done(&d->pods.staying_volumes);
    d->pods.staying_volumes = (struct nc_strv)NC_STRV_INIT;
}

void nc_pod_evictor_close(struct nc_daemon *d) {
    nc_pod_evictor_unwatch(d);
    d->pods.failed_watch = nc_watch_free(d->pods.failed_watch);
    d->pods.is_left_listed = false;
    cancel_questions(d);
}

/* --- what a shutdown left */

static void clean_up(struct nc_daemon *d, const struct nc_value *object) {
    struct nc_pod pod = {0};
    const struct nc_drain_action a = {
        .verb = NC_DRAIN_DELETE, .pod = &pod, .grace_sec = CLEAN_UP_GRACE_SEC, .attempt = 2};
    struct nc_err err = NC_ERR_INIT;
    size_t in_flight = 0;

    for (const struct nc_pod_request *q = d->pods.requests; q; q = q->next)
        in_flight++;
    if (in_flight >= CLEAN_UP_MAX || nc_pod_read(object, &pod, NULL) < 0)
        return;
    if (pod.is_shutdown_left && pod.controller && !pod.is_job) {
        if (start_request(d, &a, true, &err) < 0)
            nc_log(NC_LOG_DEBUG, NULL, "%s, ignoring", err.msg);
        else
            nc_log(NC_LOG_INFO, NULL, "pod %s/%s was left behind by a shutdown, deleting it",
                   pod.namespace, pod.name);
    }
    nc_pod_done(&pod);
}

static void on_left(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct nc_daemon *d = userdata;

    on_well(d); /* the watch ends with its list: nobody else reports it */
    if (event == NC_WATCH_ADDED) {
        clean_up(d, object);
    } else if (event == NC_WATCH_SYNCED) {
        d->pods.is_left_listed = true;
        d->pods.failed_watch = nc_watch_free(d->pods.failed_watch);
        note_clean_up(d);
    }
}

void nc_pod_evictor_clean_up(struct nc_daemon *d) {
    const struct nc_watch_options o = {
        .keep = nc_pod_paths, .event = on_left, .failed = on_failed, .well = on_well};

    if (!d->pods.wants_clean_up || d->pods.is_left_listed || !nc_api_session_is_up(&d->api)
        || d->pods.failed_watch)
        return;
    nc_daemon_watch_pods(d, "%2Cstatus.phase%3DFailed", o, &d->pods.failed_watch);
}
