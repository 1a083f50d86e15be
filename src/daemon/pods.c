/*
 * The pods of our Node: watched while the lifecycle wants them, asked one question at a time each,
 * and the volumes of those that stay.
 *
 * Pods that have ended are not even listed. Of each only what a drain looks at is kept
 * (nc_pod_paths). A question that is under way knows
 * its pod by uid alone; it is answered exactly once, AWAY where it is cut off. Volumes and what a
 * shutdown left are best effort: a refusal there is no failure of a drain.
 */
#include "daemon.h"

#include <errno.h>
#include <stdio.h>

#include "log.h"
#include "nc/str.h"

#define VOLUMES_MAX 256
#define VOLUME_TIMEOUT_USEC 5000000u
#define LINES_MAX NC_DRAIN_MAX_PODS
#define CLEAN_UP_GRACE_SEC 1 /* a pod that has ended goes at once, whatever is asked */
#define CLEAN_UP_MAX 500     /* at one boot */

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
    struct nc_pod_request **at = &q->d->pod_requests;

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
    struct nc_life_event e = {
        .kind = NC_LIFE_POD_ANSWER, .uid = uid, .verb = verb, .answer = answer};

    d->counters.answers[verb][answer->kind]++;
    nc_daemon_post(d, &e);
}

static void post_away(struct nc_daemon *d, const char *uid, enum nc_drain_verb verb,
                      const char *why) {
    struct nc_pod_answer away;

    nc_pod_answer_read(0, NULL, NULL, why, 0, &away);
    post_answer(d, uid, verb, &away);
}

/* Whether the API server is there and takes us for who we are: while a drain is held up nothing
 * else may be asked of it. */
static void note_way(struct nc_daemon *d, enum nc_drain_verb verb, const struct nc_pod_asked *a) {
    static const char *const verbs[] = {
        [NC_DRAIN_EVICT] = "evict", [NC_DRAIN_MARK] = "mark", [NC_DRAIN_DELETE] = "delete"};
    struct nc_err err = NC_ERR_INIT;

    if (a->answer.kind == NC_ANSWER_AWAY) {
        (void)nc_err_set(&err, a->class, a->code, "%s pod: %s", verbs[verb], a->answer.message);
        nc_api_session_failed(&d->api, &err);
    } else if (a->class == NC_ERR_NONE) {
        nc_api_session_well(&d->api);
    } else {
        d->counters.api_errors[a->class]++;
    }
}

/* Once nothing of it is under way: what nobody answered to is not asked again in this life. */
static void note_clean_up(struct nc_daemon *d) {
    if (!d->wants_clean_up || !d->is_left_listed)
        return;
    for (const struct nc_pod_request *q = d->pod_requests; q; q = q->next)
        if (q->is_clean_up)
            return;
    d->wants_clean_up = false;
    d->is_state_due = true;
}

static void on_asked(void *userdata, const struct nc_pod_asked *a) {
    struct nc_pod_request *q = userdata;
    struct nc_daemon *d = q->d;

    unlink_pod_request(q);
    q->req = NULL;
    nc_histogram_add(&d->counters.api_latency, a->duration_usec);
    note_way(d, q->verb, a);
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
                                 .next = d->pod_requests,
                                 .uid = nc_strdup(a->pod->uid),
                                 .verb = a->verb,
                                 .is_clean_up = is_clean_up,
                                 .started_usec = nc_mono_usec()};
    q->timeout_usec = nc_pod_ask_timeout(a->verb, a->attempt);
    d->counters.api_requests++;
    r = nc_pod_ask(d->api.connection.kube, a, nc_daemon_now(d), q->timeout_usec, on_asked, q,
                   &q->req, err);
    if (r < 0) {
        free_pod_request(q);
        return r;
    }
    d->pod_requests = q;
    return 0;
}

void nc_daemon_pod_ask(struct nc_daemon *d, const struct nc_drain_action *a) {
    struct nc_err err = NC_ERR_INIT;

    if (!nc_api_session_is_up(&d->api)) {
        post_away(d, a->pod->uid, a->verb, "there is no connection to the API server");
        return;
    }
    if (start_request(d, a, false, &err) < 0) {
        nc_api_session_failed(&d->api, &err);
        post_away(d, a->pod->uid, a->verb, err.msg);
    }
}

bool nc_daemon_pods_are_stuck(const struct nc_daemon *d, uint64_t mono_usec) {
    for (const struct nc_pod_request *q = d->pod_requests; q; q = q->next)
        if (mono_usec > q->started_usec + 2 * q->timeout_usec)
            return true;
    return false;
}

/* --- volumes of pods that stay */

static void unlink_volume_request(struct nc_volume_request *q) {
    struct nc_volume_request **at = &q->d->volume_requests;

    while (*at != q)
        at = &(*at)->next;
    *at = q->next;
}

static void free_volume_request(struct nc_volume_request *q) {
    nc_kube_cancel(q->req);
    free(q->claim);
    free(q);
}

static int get(struct nc_volume_request *q, const char *what, const char *path,
               nc_kube_done_fn done) {
    const struct nc_kube_call call = {.what = what,
                                      .method = "GET",
                                      .path = path,
                                      .timeout_usec = VOLUME_TIMEOUT_USEC,
                                      .max_bytes = NC_VOLUME_MAX_BYTES};
    struct nc_err err = NC_ERR_INIT;
    const int r = nc_kube_start(q->d->api.connection.kube, &call, done, q, &q->req, &err);

    q->d->counters.api_requests++;
    if (r < 0)
        nc_log(NC_LOG_DEBUG, NULL, "volume of %s: %s, ignoring", q->claim, err.msg);
    return r;
}

/* It is forgotten that it was asked for: the next look asks again. */
static void give_up(struct nc_volume_request *q, const struct nc_kube_status *status,
                    const struct nc_err *err) {
    if (err->class != NC_ERR_NONE)
        nc_log(NC_LOG_DEBUG, NULL, "volume of %s: %s, ignoring", q->claim, err->msg);
    if (status->http == 0 || status->http >= 429) {
        struct nc_strv *asked = &q->d->staying_claims;
        for (size_t i = 0; i < asked->n; i++)
            if (nc_streq(asked->v[i], q->claim)) {
                free(asked->v[i]);
                asked->v[i] = asked->v[--asked->n];
                asked->v[asked->n] = NULL;
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
    if (name && d->staying_volumes.n < VOLUMES_MAX) {
        nc_strv_add(&d->staying_volumes, name);
        nc_daemon_node_look(d);
    }
    give_up(q, status, err);
}

static void on_claim(void *userdata, const struct nc_value *object,
                     const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_volume_request *q = userdata;
    nc_auto_free char *path = nc_volume_claim_read(object);

    q->req = NULL;
    if (path && get(q, "get volume", path, on_volume) >= 0)
        return;
    give_up(q, status, err);
}

static void ask_volume(struct nc_daemon *d, const char *namespace, const char *name) {
    nc_auto_free char *claim = nc_asprintf("%s/%s", namespace, name);
    nc_auto_free char *path = nc_volume_claim_path(namespace, name);
    struct nc_volume_request *q;

    if (!path || d->staying_claims.n >= VOLUMES_MAX || nc_strv_contains(&d->staying_claims, claim))
        return;
    q = nc_calloc(1, sizeof(*q));
    *q = (struct nc_volume_request){.d = d, .claim = nc_steal(&claim)};
    if (get(q, "get volume claim", path, on_claim) < 0) {
        free_volume_request(q);
        return;
    }
    nc_strv_add(&d->staying_claims, q->claim);
    q->next = d->volume_requests;
    d->volume_requests = q;
}

/* A pod that has ended keeps no volume; one that is eligible is waited for. */
static bool stays(enum nc_pod_excluded e) {
    return e != NC_POD_ELIGIBLE && e != NC_POD_TERMINAL;
}

void nc_daemon_pods_find_staying(struct nc_daemon *d) {
    const struct nc_drain *drain = nc_life_drain(d->life);
    const size_t room = drain ? nc_drain_count(drain) : 0;
    nc_auto_free struct nc_drain_line *lines = NULL;
    struct nc_life_view view;
    size_t n;

    if (!nc_api_session_is_up(&d->api) || room == 0 || room > LINES_MAX)
        return;
    nc_life_look(d->life, nc_daemon_now(d), &view);
    lines = nc_calloc(room, sizeof(*lines));
    n = nc_drain_lines(drain, &view.drain_rules, nc_daemon_now(d), lines, room);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; stays(lines[i].excluded) && k < lines[i].pod->claims.n; k++)
            ask_volume(d, lines[i].pod->namespace, lines[i].pod->claims.v[k]);
}

/* --- the watch */

/* When a pod's grace ends is counted on the API server's clock, what a drain waits for on EC2's.
 * Where the two disagree, a pod that has just begun to end would seem to be stuck, or to end too
 * late. What both keep to, and what an answer may be late by, is left alone. */
static uint64_t by_ec2s_clock(struct nc_daemon *d, uint64_t usec) {
    const uint64_t told = nc_kube_boot_usec(d->api.connection.kube);
    const uint64_t theirs = told ? told : d->api_boot_usec;
    const uint64_t ours = nc_daemon_now(d) - nc_boot_usec();
    const uint64_t apart = theirs > ours ? theirs - ours : ours - theirs;

    d->api_boot_usec = theirs;
    if (!usec || !theirs || apart <= NC_CLOCKS_AGREE_USEC)
        return usec;
    if (theirs < ours)
        return usec < UINT64_MAX - apart ? usec + apart : UINT64_MAX;
    return usec > apart ? usec - apart : 1;
}

static void take_pod(struct nc_daemon *d, const struct nc_value *object) {
    struct nc_pod pod = {0};
    struct nc_life_event e = {.kind = NC_LIFE_POD, .pod = &pod};
    struct nc_err err = NC_ERR_INIT;

    if (nc_pod_read(object, &pod, &err) < 0) {
        nc_api_session_failed(&d->api, &err);
        e.kind = NC_LIFE_POD_UNREADABLE;
    }
    pod.deletion_usec = by_ec2s_clock(d, pod.deletion_usec);
    nc_daemon_post(d, &e);
}

static void take_absence(struct nc_daemon *d, const struct nc_value *object) {
    struct nc_life_event e = {.kind = NC_LIFE_POD_GONE};

    e.uid = nc_value_string(nc_value_path(object, "metadata.uid"));
    if (e.uid)
        nc_daemon_post(d, &e);
}

/* A list or an event came: whatever else is refused, the pods are shown. */
static void pods_are_well(struct nc_daemon *d) {
    d->is_status_due |= d->api.pods_error.class != NC_ERR_NONE;
    d->api.pods_error = (struct nc_err)NC_ERR_INIT;
}

static void on_pod(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct nc_life_event synced = {.kind = NC_LIFE_PODS_SYNCED};
    struct nc_daemon *d = userdata;

    pods_are_well(d);
    nc_api_session_well(&d->api);
    switch (event) {
    case NC_WATCH_ADDED:
    case NC_WATCH_MODIFIED:
        take_pod(d, object);
        break;
    case NC_WATCH_DELETED:
        take_absence(d, object);
        break;
    case NC_WATCH_SYNCED:
        nc_daemon_post(d, &synced);
        break;
    }
}

static void on_failed(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    struct nc_daemon *d = userdata;

    (void)status;
    d->counters.watch_restarts++;
    d->api.pods_error = *err;
    nc_api_session_failed(&d->api, err);
}

static void on_well(void *userdata) {
    struct nc_daemon *d = userdata;

    pods_are_well(d);
    nc_api_session_well(&d->api);
}

static int watch(struct nc_daemon *d, const char *more, nc_watch_fn told, struct nc_watch **ret,
                 struct nc_err *err) {
    nc_auto_free char *selector =
        nc_asprintf("fieldSelector=spec.nodeName%%3D%s%s", d->node_name, more);
    const struct nc_watch_options o = {
        .path = "/api/v1/pods",
        .selector = selector,
        .keep = nc_pod_paths,
        .max_object_bytes = NC_POD_MAX_BYTES,
        .max_value_bytes = NC_POD_VALUE_MAX_BYTES,
        .is_urgent = told == on_pod, /* a drain waits for them */
        .event = told,
        .failed = on_failed,
        .well = on_well,
        .userdata = d,
    };

    return nc_watch_new(d->api.connection.kube, d->app->event, &o, ret, err);
}

void nc_daemon_pods_open(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;

    d->wants_pods = true;
    if (!nc_api_session_is_up(&d->api) || d->pods_watch)
        return;
    if (watch(d, NC_POD_UNFINISHED, on_pod, &d->pods_watch, &err) < 0)
        nc_api_session_failed(&d->api, &err);
}

static void cancel_questions(struct nc_daemon *d) {
    struct nc_pod_request *all = d->pod_requests;

    d->pod_requests = NULL;
    while (all) {
        struct nc_pod_request *q = all;
        all = q->next;
        q->req = nc_kube_cancel(q->req);
        if (!q->is_clean_up)
            post_away(d, q->uid, q->verb, "the connection to the API server was given up");
        free_pod_request(q);
    }
}

/* A question that is under way is answered: given up, an eviction may have used its budget up all
 * the same. */
void nc_daemon_pods_unwatch(struct nc_daemon *d) {
    d->api.pods_error = (struct nc_err)NC_ERR_INIT;
    d->pods_watch = nc_watch_free(d->pods_watch);
    while (d->volume_requests) {
        struct nc_volume_request *q = d->volume_requests;
        d->volume_requests = q->next;
        free_volume_request(q);
    }
    nc_strv_done(&d->staying_claims);
    d->staying_claims = (struct nc_strv)NC_STRV_INIT;
    nc_strv_done(&d->staying_volumes);
    d->staying_volumes = (struct nc_strv)NC_STRV_INIT;
}

void nc_daemon_pods_close(struct nc_daemon *d) {
    nc_daemon_pods_unwatch(d);
    d->failed_watch = nc_watch_free(d->failed_watch);
    d->is_left_listed = false;
    cancel_questions(d);
}

/* --- what a shutdown left */

static void clean_up(struct nc_daemon *d, const struct nc_value *object) {
    struct nc_pod pod = {0};
    const struct nc_drain_action a = {
        .verb = NC_DRAIN_DELETE, .pod = &pod, .grace_sec = CLEAN_UP_GRACE_SEC, .attempt = 2};
    struct nc_err err = NC_ERR_INIT;
    size_t under_way = 0;

    for (const struct nc_pod_request *q = d->pod_requests; q; q = q->next)
        under_way++;
    if (under_way >= CLEAN_UP_MAX || nc_pod_read(object, &pod, NULL) < 0)
        return;
    if (pod.is_shutdown_left && pod.has_controller && !pod.is_job) {
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

    on_well(d); /* the watch ends with its list: nobody else says so */
    if (event == NC_WATCH_ADDED) {
        clean_up(d, object);
    } else if (event == NC_WATCH_SYNCED) {
        d->is_left_listed = true;
        d->failed_watch = nc_watch_free(d->failed_watch);
        note_clean_up(d);
    }
}

void nc_daemon_pods_clean_up(struct nc_daemon *d) {
    struct nc_err err = NC_ERR_INIT;

    if (!d->wants_clean_up || d->is_left_listed || !nc_api_session_is_up(&d->api) || d->failed_watch
        || d->is_foreign)
        return;
    if (watch(d, "%2Cstatus.phase%3DFailed", on_left, &d->failed_watch, &err) < 0)
        nc_api_session_failed(&d->api, &err);
}
