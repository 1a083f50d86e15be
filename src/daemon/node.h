/*
 * Our own Node: its watch, what is known of it, the request in flight. Gives the events NODE and
 * NODE_GONE and the sources REQUEST (the annotation) and DELETION (with the NodeClaim).
 */
#ifndef NC_DAEMON_NODE_H
#define NC_DAEMON_NODE_H

#include "claim.h"
#include "nc/kube-drain.h"
#include "nc/lifecycle.h"
#include "notice-sink.h"

/* All are required. */
struct nc_own_node_options {
    sd_event *event;
    struct nc_api_session *api;
    struct nc_counters *counters;
    struct nc_claim_watch *claim; /* the Node states which it is */
    char *const *node_name;
    char *const *provider_id, *const *boot_id; /* of this machine; NULL in it: not known */
    const struct nc_strv *staying_volumes;     /* not waited for */
    struct nc_notice_sink sink;
    /* With the sink's userdata: */
    void (*post)(void *userdata, struct nc_life_event *e);
    bool (*is_busy)(void *userdata);     /* is something announced, or being undone? */
    bool (*is_evicting)(void *userdata); /* is a pod's request in flight? */
    bool (*is_orphaned)(void *userdata); /* was our Node deleted while its pods are drained? */
    void (*request_refused)(void *userdata, const char *message); /* of the annotation */
    void (*seen)(void *userdata, const struct nc_value *metadata);
    void (*found)(void *userdata,
                  const struct nc_value *node); /* the whole of it, and it is ours */
};

struct nc_own_node {
    struct nc_own_node_options o;
    struct nc_watch *watch;
    struct nc_node_view view;
    struct nc_kube_req *write, *refresh;
    uint64_t write_usec, refresh_usec; /* monotonic: begun */
    unsigned unanswered;               /* of those in a row, at most 2: how patient the next is */
    enum nc_node_write_kind write_kind;
    sd_event_source *refresh_timer;
    bool is_synced;  /* the watch has shown what there is */
    bool is_listed;  /* and our Node was there */
    bool is_known;   /* a complete object was seen of this uid: it is ours, or it is foreign */
    bool is_foreign; /* the Node of our name belongs to another instance */
    bool is_doubted; /* it does not state whose it is, and another machine may have made it */
    bool is_refresh_wanted; /* by the lifecycle: not only because something changed */
    char *version;          /* resourceVersion of the last complete object */
    char *watch_version;    /* … and as the watch last had it */
    char *request;          /* the drain-request annotation as last read; NULL = none */
    char *request_refused;  /* why it is not taken; NULL = it is, or there is none */
    uint64_t refused_usec;  /* monotonic: said last */
};

/* Opens the watch (and the NodeClaim's where its name is known). What is in flight is answered AWAY
 * by _close; _done forgets what is known. */
int nc_own_node_open(struct nc_own_node *nw, struct nc_err *err);
void nc_own_node_close(struct nc_own_node *nw);
void nc_own_node_done(struct nc_own_node *nw);
void nc_own_node_write(struct nc_own_node *nw, const struct nc_node_write *w);
/* GETs the Node, now or as soon as a second has passed since the last time. */
void nc_own_node_refresh(struct nc_own_node *nw);
/* DELETION, by what is known of the Node and its claim. */
void nc_own_node_report_deletion(struct nc_own_node *nw);
/* Has a request been in flight for longer than twice its time limit? */
bool nc_own_node_is_stuck(const struct nc_own_node *nw, uint64_t mono_usec);

#endif
