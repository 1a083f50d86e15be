/*
 * Does Karpenter run, and what is served? What its Leases say, scan by scan, and discovery lists.
 */
#ifndef NC_KUBE_KARPENTER_H
#define NC_KUBE_KARPENTER_H

#include "nc/control.h"

#define NC_KARPENTER_LEASE "karpenter-leader-election"

/* Zero-initialised. Times of `mono` are CLOCK_MONOTONIC. */
struct nc_karpenter_seen {
    bool was_scanned, was_there;
    uint64_t record;     /* sum over all Leases as last read */
    uint64_t since_usec; /* mono: the record has been like that since then, as far as we know */
    uint64_t alive_usec; /* mono: last sign of life */
    bool was_alive;
    uint64_t window_usec; /* without a sign of life for so long, nobody holds it */
    char holder[256];     /* "" = nobody */
};
/* Takes a LeaseList and states who there is. Hostile. */
enum nc_control_mode nc_karpenter_judge(struct nc_karpenter_seen *s, const struct nc_value *leases,
                                        uint64_t now_usec, uint64_t mono_usec);

/* Does an APIResourceList name the resource? Hostile. */
bool nc_karpenter_serves(const struct nc_value *list, const char *resource);

#endif
