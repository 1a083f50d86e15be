/*
 * The queue of the Events of pods.
 *
 * Best effort: none is waited for, and what cannot be sent is counted. The name of an Event follows
 * from the pod's uid alone, so that one whose answer was lost, or that an earlier process has sent,
 * is not made twice.
 */
#include "daemon.h"

#include "log.h"
#include "nc/backoff.h"
#include "nc/kube-drain.h"
#include "nc/mem.h"
#include "nc/time.h"

#define REASON "NodeDraining"
#define IN_FLIGHT_MAX 4
#define KEEP_USEC (600ull * 1000000)
#define RETRY_FIRST_USEC 1000000u
#define RETRY_MAX_USEC 30000000u

struct nc_pod_event {
    struct nc_daemon *d;
    struct nc_pod_event *next;
    struct nc_kube_req *req; /* NULL = it waits */
    char *namespace, *name, *uid, *message;
    uint64_t at_usec;    /* by our own clock, as Events are dated */
    uint64_t until_usec; /* on EC2's clock */
};

static void remove_event(struct nc_pod_event *e) {
    struct nc_daemon *d = e->d;
    struct nc_pod_event **at = &d->pod_events.queue;

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    d->pod_events.n--;
    nc_kube_cancel(e->req);
    free(e->namespace);
    free(e->name);
    free(e->uid);
    free(e->message);
    free(e);
}

static void drop_event(struct nc_pod_event *e, const char *why) {
    nc_log(NC_LOG_DEBUG, NULL, "event of pod %s/%s dropped: %s", e->namespace, e->name, why);
    e->d->counters.pod_events_dropped++;
    remove_event(e);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    nc_pod_events_send(userdata);
    return 0;
}

/* Behind whatever else the loop has to do. */
static void arm(struct nc_daemon *d, uint64_t at_usec) {
    nc_timer_set_at(d->app->event, &d->pod_events.timer, at_usec, on_timer, d);
    (void)sd_event_source_set_priority(d->pod_events.timer, SD_EVENT_PRIORITY_IDLE);
}

/* Whatever the API server decided will be decided alike the next time. */
static bool is_refused(const struct nc_kube_status *status) {
    return status->http >= 400 && status->http <= 499 && status->http != 401 && status->http != 408
           && status->http != 429;
}

static void note_failure(struct nc_daemon *d) {
    const struct nc_backoff b = {RETRY_FIRST_USEC, RETRY_MAX_USEC};

    d->pod_events.failures++;
    d->pod_events.not_before_usec =
        nc_mono_usec() + nc_backoff_pause(&b, d->pod_events.failures, 0);
}

static void on_sent(void *userdata, const struct nc_value *object,
                    const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_pod_event *e = userdata;
    struct nc_daemon *d = e->d;

    e->req = NULL;
    d->pod_events.in_flight--;
    if (err->class == NC_ERR_NONE || nc_event_exists(status)) {
        d->pod_events.failures = 0;
        d->counters.pod_events_sent++;
        remove_event(e);
    } else if (is_refused(status)) {
        drop_event(e, err->msg);
    } else {
        note_failure(d);
    }
    if (d->pod_events.n > 0)
        arm(d, d->pod_events.not_before_usec > nc_mono_usec() ? d->pod_events.not_before_usec
                                                              : nc_mono_usec());
}

static int start(struct nc_pod_event *e, struct nc_err *err) {
    struct nc_daemon *d = e->d;
    const struct nc_event event = {.kind = "Pod",
                                   .api_version = "v1",
                                   .namespace = e->namespace,
                                   .name = e->name,
                                   .uid = e->uid,
                                   .is_once = true,
                                   .reason = REASON,
                                   .message = e->message,
                                   .host = d->node_name,
                                   .first_usec = e->at_usec,
                                   .last_usec = e->at_usec,
                                   .count = 1};

    return nc_event_start(d->api.connection.kube, &event,
                          &(struct nc_event_receiver){.done = on_sent, .userdata = e}, &e->req,
                          err);
}

static void drop_expired(struct nc_daemon *d) {
    const uint64_t now = nc_daemon_now(d);
    struct nc_pod_event *next;

    for (struct nc_pod_event *e = d->pod_events.queue; e; e = next) {
        next = e->next;
        if (!e->req && now >= e->until_usec)
            drop_event(e, "the API server did not take it in time");
    }
}

void nc_pod_events_send(struct nc_daemon *d) {
    const uint64_t mono = nc_mono_usec();
    const bool is_evicting = d->pods.requests;
    struct nc_err err = NC_ERR_INIT;

    drop_expired(d);
    if (d->pod_events.n == 0)
        return;
    if (mono < d->pod_events.not_before_usec || !nc_api_session_is_up(&d->api)) {
        arm(d, d->pod_events.not_before_usec > mono ? d->pod_events.not_before_usec
                                                    : mono + RETRY_FIRST_USEC);
        return;
    }
    for (struct nc_pod_event *e = d->pod_events.queue; e; e = e->next) {
        if (e->req)
            continue;
        if (d->pod_events.in_flight >= (is_evicting ? 1 : IN_FLIGHT_MAX))
            break;
        if (start(e, &err) < 0) {
            note_failure(d);
            arm(d, d->pod_events.not_before_usec);
            return;
        }
        d->pod_events.in_flight++;
    }
}

static char *new_message(const struct nc_daemon *d, const struct nc_pod_news *n, const char *source,
                         uint64_t deadline_usec) {
    const char *what = n->kind == NC_POD_NEWS_FORCED ? "Force-deleted" : "Evicted";
    char deadline[32];

    if (!deadline_usec)
        return nc_asprintf("%s: node %s is draining (source %s, without a deadline)", what,
                           d->node_name, source);
    nc_time_format(deadline_usec, deadline);
    return nc_asprintf("%s: node %s is draining (source %s, deadline %s)%s", what, d->node_name,
                       source, deadline, n->is_kept ? NC_POD_KEPT_TEXT : "");
}

void nc_pod_events_add(struct nc_daemon *d, const struct nc_pod_news *n, const char *source,
                       uint64_t deadline_usec) {
    const uint64_t now = nc_daemon_now(d);
    struct nc_pod_event **end = &d->pod_events.queue;
    struct nc_pod_event *e;

    drop_expired(d);
    if (d->pod_events.n >= NC_POD_EVENTS_MAX) {
        d->counters.pod_events_dropped++;
        return;
    }
    e = nc_calloc(1, sizeof(*e));
    *e = (struct nc_pod_event){.d = d,
                               .namespace = nc_strdup(n->namespace),
                               .name = nc_strdup(n->name),
                               .uid = nc_strdup(n->uid),
                               .message = new_message(d, n, source, deadline_usec),
                               .at_usec = nc_now_usec(),
                               .until_usec = deadline_usec > now ? deadline_usec : now + KEEP_USEC};
    while (*end)
        end = &(*end)->next;
    *end = e;
    d->pod_events.n++;
    if (d->pod_events.in_flight == 0)
        arm(d, nc_mono_usec());
}

void nc_pod_events_pause(struct nc_daemon *d) {
    for (struct nc_pod_event *e = d->pod_events.queue; e; e = e->next)
        e->req = nc_kube_cancel(e->req);
    d->pod_events.in_flight = 0;
}

void nc_pod_events_done(struct nc_daemon *d) {
    nc_pod_events_pause(d);
    while (d->pod_events.queue)
        remove_event(d->pod_events.queue);
    d->pod_events.timer = sd_event_source_disable_unref(d->pod_events.timer);
}
