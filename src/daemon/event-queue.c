/*
 * The queue of Events.
 *
 * Best effort: none is waited for, and what cannot be sent is sent again when it can be, with the
 * time at which it was reported. The name of a pod's Event follows from the pod's uid alone, so
 * that one whose answer was lost, or that an earlier process has sent, is not made twice.
 */
#include "daemon.h"

#include "log.h"
#include "nc/backoff.h"
#include "nc/kube-drain.h"
#include "nc/mem.h"
#include "nc/str.h"
#include "nc/time.h"

#define IN_FLIGHT_MAX 4
#define KEEP_POD_USEC (600ull * 1000000)
#define KEEP_USEC (3600ull * 1000000) /* as long as an API server keeps an Event */
#define RETRY_FIRST_USEC 1000000u
#define RETRY_MAX_USEC 30000000u

struct nc_queued_event {
    struct nc_daemon *d;
    struct nc_queued_event *next;
    struct nc_kube_req *req; /* NULL = it waits */
    struct nc_event event;   /* its texts are the next ones, or constant */
    char *namespace, *name, *uid, *api_version, *message;
    uint64_t until_usec; /* on EC2's clock */
};

static void remove_event(struct nc_queued_event *e) {
    struct nc_daemon *d = e->d;
    struct nc_queued_event **at = &d->events.queue;

    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    d->events.n--;
    nc_kube_cancel(e->req);
    free(e->namespace);
    free(e->name);
    free(e->uid);
    free(e->api_version);
    free(e->message);
    free(e);
}

static void drop_event(struct nc_queued_event *e, const char *why) {
    nc_log(NC_LOG_DEBUG, NULL, "event of %s %s dropped: %s", e->event.kind,
           e->name ? e->name : e->d->node_name, why);
    e->d->counters.pod_events_dropped += e->event.is_once;
    remove_event(e);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    nc_event_queue_send(userdata);
    return 0;
}

/* Behind whatever else the loop has to do. */
static void arm(struct nc_daemon *d, uint64_t at_usec) {
    nc_timer_set_at(d->app->event, &d->events.timer, at_usec, on_timer, d);
    (void)sd_event_source_set_priority(d->events.timer, SD_EVENT_PRIORITY_IDLE);
}

/* Whatever the API server decided will be decided alike the next time. */
static bool is_refused(const struct nc_kube_status *status) {
    return status->http >= 400 && status->http <= 499 && status->http != 401 && status->http != 408
           && status->http != 429;
}

static void note_failure(struct nc_daemon *d) {
    const struct nc_backoff b = {RETRY_FIRST_USEC, RETRY_MAX_USEC};

    d->events.failures++;
    d->events.not_before_usec = nc_mono_usec() + nc_backoff_pause(&b, d->events.failures, 0);
}

/* What became of the last one that was answered; NULL: it was taken. In the journal once. */
static void note_refused(struct nc_daemon *d, const char *what, const struct nc_err *err) {
    const bool was_refused = d->events.refused != NULL;

    d->is_status_due |= was_refused != (what != NULL);
    if (was_refused && what)
        return;
    free(nc_steal(&d->events.refused));
    if (!what)
        return;
    d->events.refused =
        nc_asprintf("%s: %s%s%s", what, err->msg, *err->remedy ? "; " : "", err->remedy);
    nc_log_node(NC_LOG_WARNING, d->node_name, "%s", d->events.refused);
}

static void on_sent(void *userdata, const struct nc_value *object,
                    const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_queued_event *e = userdata;
    struct nc_daemon *d = e->d;

    e->req = NULL;
    d->events.in_flight--;
    if (err->class == NC_ERR_NONE || nc_event_exists(status)) {
        d->events.failures = 0;
        note_refused(d, NULL, NULL);
        d->counters.pod_events_sent += e->event.is_once;
        remove_event(e);
    } else if (e->event.is_there && status->http == 404) { /* no longer */
        e->event.is_there = false;
    } else if (is_refused(status)) {
        if (!e->event.is_once) /* a pod's namespace may be ending */
            note_refused(d, "Events are refused and dropped", err);
        drop_event(e, err->msg);
    } else {
        if (status->http == 429)
            note_refused(d, "Events wait, up to an hour, those of pods up to the deadline", err);
        note_failure(d);
    }
    if (d->events.n > 0)
        arm(d, d->events.not_before_usec > nc_mono_usec() ? d->events.not_before_usec
                                                          : nc_mono_usec());
}

static int start(struct nc_queued_event *e, struct nc_err *err) {
    struct nc_daemon *d = e->d;

    e->event.host = d->node_name;
    if (!e->name) /* the Node's may not have been known */
        e->event.name = e->event.uid =
            d->node_name; /* as kubelet does, so that describe shows it */
    return nc_event_start(d->api.connection.kube, &e->event,
                          &(struct nc_event_receiver){.done = on_sent, .userdata = e}, &e->req,
                          err);
}

static void drop_expired(struct nc_daemon *d) {
    const uint64_t now = nc_daemon_now(d);
    struct nc_queued_event *next;

    for (struct nc_queued_event *e = d->events.queue; e; e = next) {
        next = e->next;
        if (!e->req && now >= e->until_usec)
            drop_event(e, "the API server did not take it in time");
    }
}

/* Those of pods have a setting of their own. */
static bool is_wanted(const struct nc_daemon *d, const struct nc_event *e) {
    return e->is_once || !d->gather.has_config || d->gather.config.report_events;
}

static bool may_start(const struct nc_queued_event *e) {
    const struct nc_daemon *d = e->d;

    if (e->req)
        return false;
    if (e->event.is_once)
        return d->events.in_flight < (d->pods.requests ? 1 : IN_FLIGHT_MAX);
    return !d->node.is_foreign && is_wanted(d, &e->event);
}

void nc_event_queue_send(struct nc_daemon *d) {
    const uint64_t mono = nc_mono_usec();
    struct nc_err err = NC_ERR_INIT;

    drop_expired(d);
    if (d->events.n == 0)
        return;
    if (mono < d->events.not_before_usec || !nc_api_session_is_up(&d->api) || d->node.is_unread) {
        arm(d,
            d->events.not_before_usec > mono ? d->events.not_before_usec : mono + RETRY_FIRST_USEC);
        return;
    }
    for (struct nc_queued_event *e = d->events.queue; e; e = e->next) {
        if (!may_start(e))
            continue;
        if (start(e, &err) < 0) {
            note_failure(d);
            arm(d, d->events.not_before_usec);
            return;
        }
        d->events.in_flight++;
    }
}

/* One that is reported again before it was sent. */
static struct nc_queued_event *find_waiting(const struct nc_daemon *d, const struct nc_event *of) {
    for (struct nc_queued_event *e = d->events.queue; e; e = e->next)
        if (!e->req && of->is_there && e->event.first_usec == of->first_usec
            && nc_streq(e->event.kind, of->kind) && nc_streq(e->event.reason, of->reason))
            return e;
    return NULL;
}

static struct nc_queued_event *add_last(struct nc_daemon *d, const struct nc_event *of) {
    struct nc_queued_event **end = &d->events.queue;
    struct nc_queued_event *e;

    if (d->events.n >= (of->is_once ? NC_POD_EVENTS_MAX : NC_EVENTS_MAX)) {
        d->counters.pod_events_dropped += of->is_once;
        return NULL;
    }
    e = nc_calloc(1, sizeof(*e));
    *e = (struct nc_queued_event){.d = d, .event = *of};
    e->event.namespace = e->namespace = nc_strdup(of->namespace);
    e->event.name = e->name = nc_strdup(of->name);
    e->event.uid = e->uid = nc_strdup(of->uid);
    e->event.api_version = e->api_version = nc_strdup(of->api_version);
    while (*end)
        end = &(*end)->next;
    *end = e;
    d->events.n++;
    return e;
}

void nc_event_queue_add(struct nc_daemon *d, const struct nc_event *of, uint64_t until_usec) {
    struct nc_queued_event *e;

    drop_expired(d);
    e = find_waiting(d, of);
    if (!e && is_wanted(d, of))
        e = add_last(d, of);
    if (!e)
        return;
    free(e->message);
    e->event.message = e->message = nc_strdup(of->message);
    e->event.last_usec = of->last_usec;
    e->event.count = of->count;
    e->until_usec =
        until_usec ? until_usec : nc_daemon_now(d) + (of->is_once ? KEEP_POD_USEC : KEEP_USEC);
    if (!of->is_once)
        nc_event_queue_send(d);
    else if (d->events.in_flight == 0)
        arm(d, nc_mono_usec());
}

void nc_event_queue_pause(struct nc_daemon *d) {
    for (struct nc_queued_event *e = d->events.queue; e; e = e->next)
        e->req = nc_kube_cancel(e->req);
    d->events.in_flight = 0;
}

void nc_event_queue_resume(struct nc_daemon *d) {
    d->events.failures = 0;
    d->events.not_before_usec = 0;
    if (d->events.n > 0)
        arm(d, nc_mono_usec());
}

void nc_event_queue_done(struct nc_daemon *d) {
    nc_event_queue_pause(d);
    while (d->events.queue)
        remove_event(d->events.queue);
    d->events.timer = sd_event_source_disable_unref(d->events.timer);
    free(nc_steal(&d->events.refused));
}
