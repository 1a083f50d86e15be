/*
 * Leadership by a coordination.k8s.io/v1 Lease, with client-go's semantics: a process of client-go
 * can hold the same Lease before or after us.
 *
 * Pure half: what to do next, given what was last read and when on our own clock. As in
 * client-go's leaderelection, the holder's clock is never trusted: a Lease is expired once its
 * record has not changed for leaseDurationSeconds by our own monotonic clock.
 */
#ifndef NC_LEASE_H
#define NC_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "nc/value.h"

#define NC_LEASE_DURATION_USEC (15ull * 1000000) /* client-go's defaults */
#define NC_LEASE_RENEW_USEC                                                                        \
    (10ull * 1000000) /* a leader that could not renew for so long stops leading */
#define NC_LEASE_RETRY_USEC (2ull * 1000000)

struct nc_lease_rules {
    const char *identity; /* unique a process: the host name, "_" and random; borrowed */
    uint64_t duration_usec, renew_usec, retry_usec;
};

enum nc_lease_verb { NC_LEASE_WAIT = 0, NC_LEASE_GET, NC_LEASE_CREATE, NC_LEASE_UPDATE };

struct nc_lease {
    struct nc_lease_rules rules;
    char holder[256]; /* as last read; "" = nobody */
    char resource_version[64];
    char record[512]; /* holder, times, transitions: to see whether it changed */
    bool exists, was_read;
    uint64_t observed_usec; /* monotonic: when the record changed last */
    uint64_t holder_duration_usec;
    int64_t transitions;
    char acquire_time[40]; /* of the record that is ours */
    bool leads;
    uint64_t renewed_usec; /* monotonic: when the renewal that was accepted last was requested */
    uint64_t next_usec;    /* monotonic: ask again */
    enum nc_lease_verb requested; /* in flight since asked_usec; WAIT = nothing */
    uint64_t asked_usec;
    bool has_failed; /* an UPDATE was not accepted: the next one waits for its turn */
};
void nc_lease_init(struct nc_lease *l, const struct nc_lease_rules *r);
/* What to ask now; next_usec states when to come again where it is WAIT. Every verb but WAIT must
 * get its nc_lease_answer(), with status 0 where none came; until then it is WAIT (for the answer).
 */
enum nc_lease_verb nc_lease_next(struct nc_lease *l, uint64_t mono_usec);
/* The object to POST or PUT (PUT carries metadata.resourceVersion: optimistic lock). Owned. Times
 * are MicroTime, RFC 3339 with six digits. `release`: the record that gives it up (holder "",
 * duration 1). */
struct nc_value *nc_lease_body(const struct nc_lease *l, const char *namespace, const char *name,
                               bool release, uint64_t now_usec);
/* An answer to what was asked: object NULL with status 404: it does not exist; 409: somebody was
 * faster; anything else without object: unavailable. Sets leads. Hostile objects are refused
 * (unavailable). */
void nc_lease_answer(struct nc_lease *l, enum nc_lease_verb requested,
                     const struct nc_value *object, int http_status, uint64_t mono_usec);
/* Do we lead at this moment? False as soon as renew_usec have passed since the last renewal was
 * requested, whether anything was observed or not: the others count from when they saw it, which is
 * later. */
bool nc_lease_leads(const struct nc_lease *l, uint64_t mono_usec);
/* The moment at which leading ends if nothing is observed until then (a timer is needed for it);
 * UINT64_MAX where we do not lead. */
uint64_t nc_lease_until(const struct nc_lease *l);

#endif
