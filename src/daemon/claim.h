/*
 * Our own NodeClaim: its name in the Node's ownerReferences, its watch, what it states of its end.
 */
#ifndef NC_DAEMON_CLAIM_H
#define NC_DAEMON_CLAIM_H

#include "api-session.h"

/* All are required. */
struct nc_claim_watch_options {
    sd_event *event;
    struct nc_api_session *api;
    struct nc_counters *counters;
    bool (*is_allowed)(void *userdata); /* does the configuration want it to be read? */
    void (*changed)(void *userdata);    /* what is known of it, or that nothing can be */
    void *userdata;
};

struct nc_claim_watch {
    struct nc_claim_watch_options o;
    struct nc_watch *watch;
    sd_event_source *timer; /* access may be granted later */
    uint64_t after_usec;    /* monotonic: not opened before */
    char *name, *uid;       /* of the Node's ownerReference; NULL = none */
    char *api;              /* "karpenter.sh/v1" */
    uint64_t t_usec;        /* its termination timestamp; 0 = none */
    bool is_deleting;
    bool is_known; /* it was requested, whatever the answer */
    unsigned failures;
};

/* Reads the owner in the Node's metadata. */
void nc_claim_watch_own(struct nc_claim_watch *c, const struct nc_value *metadata);
/* Opens the watch, where the name is known and it may be read. */
void nc_claim_watch_open(struct nc_claim_watch *c);
/* Is there one that is to be read, and was not yet? */
bool nc_claim_watch_is_pending(const struct nc_claim_watch *c);
void nc_claim_watch_close(struct nc_claim_watch *c);
void nc_claim_watch_done(struct nc_claim_watch *c); /* forgets which it was */

#endif
