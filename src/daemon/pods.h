/*
 * The pods of our Node: watched while the lifecycle wants them, one request in flight for each, the
 * volumes of those that stay, and what a shutdown left behind.
 */
#ifndef NC_DAEMON_PODS_H
#define NC_DAEMON_PODS_H

#include "api-session.h"
#include "nc/kube-drain.h"
#include "nc/lifecycle.h"

struct nc_pod_request;    /* pods.c */
struct nc_volume_request; /* pods.c */

/* All are required. */
struct nc_pod_evictor_options {
    sd_event *event;
    struct nc_api_session *api;
    struct nc_counters *counters;
    char *const *node_name;
    uint64_t (*now)(void *userdata);                       /* on EC2's clock */
    void (*post)(void *userdata, struct nc_life_event *e); /* a pod's contents are taken over */
    void (*volume_found)(void *userdata);                  /* staying_volumes has one more */
    void (*cleaned_up)(void *userdata);                    /* wants_clean_up has ended */
    void *userdata;
};

struct nc_pod_evictor {
    struct nc_pod_evictor_options o;
    struct nc_watch *watch, *failed_watch;
    bool wants_watch;    /* the lifecycle requested it: opened as soon as we are connected */
    bool wants_clean_up; /* the machine was rebooted: pods that the shutdown left are removed */
    bool is_left_listed; /* all of them were found: it is over with the last answer */
    struct nc_pod_request *requests;
    struct nc_volume_request *volume_requests;
    struct nc_strv staying_claims;  /* "namespace/claim" requested already */
    struct nc_strv staying_volumes; /* as in volumesAttached */
    uint64_t api_boot_usec;         /* nc_kube_boot_usec() of the last connection that knew it */
};

/* _unwatch ends what _open began, and lets requests go on; what is in flight is cancelled by
 * _close, and answered AWAY. */
void nc_pod_evictor_open(struct nc_pod_evictor *p);
void nc_pod_evictor_unwatch(struct nc_pod_evictor *p);
void nc_pod_evictor_close(struct nc_pod_evictor *p);
void nc_pod_evictor_send(struct nc_pod_evictor *p, const struct nc_drain_action *a);
/* Has a request been in flight for longer than twice its time limit? */
bool nc_pod_evictor_is_stuck(const struct nc_pod_evictor *p, uint64_t mono_usec);
/* The volumes of pods that stay are looked up, and no longer waited for. */
void nc_pod_evictor_query_volumes(struct nc_pod_evictor *p, const struct nc_drain *drain,
                                  const struct nc_drain_rules *rules);
/* Where that is wanted: deletes, by uid, what a shutdown left Failed and whose controller has
 * replaced it. */
void nc_pod_evictor_clean_up(struct nc_pod_evictor *p);

#endif
