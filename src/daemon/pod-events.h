/*
 * The Events of pods that the drain ends: each is told once why it goes, and by when.
 *
 * Queued behind the evictions, never in their way: at most one Event is in flight while one of them
 * is. What is not taken is sent again until the deadline, or for ten minutes where there is none.
 */
#ifndef NC_DAEMON_POD_EVENTS_H
#define NC_DAEMON_POD_EVENTS_H

#include "api-session.h"
#include "nc/daemon-metrics.h"
#include "nc/drain.h"

struct nc_pod_event; /* pod-events.c */

/* All are required. */
struct nc_pod_events_options {
    sd_event *event;
    struct nc_api_session *api;
    struct nc_counters *counters;
    char *const *node_name;
    uint64_t (*now)(void *userdata);     /* on EC2's clock */
    bool (*is_evicting)(void *userdata); /* a question about a pod is in flight */
    void *userdata;
};

struct nc_pod_events {
    struct nc_pod_events_options o;
    struct nc_pod_event *queue; /* oldest first; those in flight stay in it */
    size_t n, in_flight;
    unsigned failures;        /* in a row */
    uint64_t not_before_usec; /* monotonic: the pause after a failure */
    sd_event_source *timer;
};

/* At most so many wait: what comes then is dropped, and counted. */
#define NC_POD_EVENTS_MAX ((size_t)250)
/* deadline_usec: 0 = there is none. */
void nc_pod_events_add(struct nc_pod_events *p, const struct nc_pod_news *n, const char *source,
                       uint64_t deadline_usec);
/* What may be sent now is. */
void nc_pod_events_send(struct nc_pod_events *p);
/* The connection goes: what is in flight is sent again on the next. */
void nc_pod_events_pause(struct nc_pod_events *p);
void nc_pod_events_done(struct nc_pod_events *p);

#endif
