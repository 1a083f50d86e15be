/*
 * Does Karpenter run? By the Lease that its replicas compete for.
 *
 * What is wrong in the one direction costs little (beside a Karpenter that is not there we only
 * relay), in the other much (two would write the same claims). So a Lease that is held is trusted
 * at once where its renewTime is of the last two minutes by our clock, and with any clocks as soon
 * as it is seen to move from one scan to the next. That nobody is there is trusted at once only
 * where no such Lease has ever been seen; else once none has moved for as long as its holder
 * requested and a minute more, on our own clock: a restart of Karpenter (which gives the Lease up
 * and takes it again) is no absence. What cannot be seen here: a Karpenter without leader election,
 * or one outside of the cluster (EKS Auto Mode); for these the program has a switch. Pure.
 */
#include <string.h>

#include "nc/str.h"
#include "nc/time.h"

#include "karpenter.h"
#include "wire.h"

#define SEC_USEC ((uint64_t)1000000)
#define FRESH_USEC (120 * SEC_USEC)
#define GRACE_USEC (60 * SEC_USEC)
#define DEFAULT_DURATION_SEC 15
#define MAX_DURATION_SEC 600
#define MAX_LEASES 100

bool nc_karpenter_serves(const struct nc_value *list, const char *resource) {
    return nc_value_find(nc_value_get(list, "resources"), "name", resource);
}

static uint64_t add(uint64_t sum, const struct nc_value *map, const char *key) {
    char buf[32];
    const char *text = nc_value_scalar_text(nc_value_get(map, key), buf);

    return nc_kube_hash(sum, text ? text : "");
}

static bool is_fresh(const struct nc_value *spec, uint64_t now_usec) {
    const char *text = nc_value_get_string(spec, "renewTime");
    uint64_t renewed_usec;

    if (!text || nc_time_parse(text, &renewed_usec) < 0)
        return false;
    return renewed_usec > now_usec ? renewed_usec - now_usec <= FRESH_USEC
                                   : now_usec - renewed_usec <= FRESH_USEC;
}

static uint64_t duration_usec(const struct nc_value *spec) {
    int64_t sec = nc_value_get_int(spec, "leaseDurationSeconds", 0);

    if (sec <= 0)
        sec = DEFAULT_DURATION_SEC;

    return (uint64_t)(sec > MAX_DURATION_SEC ? MAX_DURATION_SEC : sec) * SEC_USEC;
}

/* What one check all Leases of that name says. */
struct scan {
    uint64_t record, duration_usec;
    bool is_there, is_fresh;
    const char *holder;
};

static void judge_lease(struct scan *l, const struct nc_value *lease, uint64_t now_usec) {
    const struct nc_value *metadata = nc_value_get(lease, "metadata");
    const struct nc_value *spec = nc_value_get(lease, "spec");
    const char *holder = nc_value_get_string(spec, "holderIdentity");

    if (!nc_value_says(metadata, "name", NC_KARPENTER_LEASE))
        return;
    l->is_there = true;
    l->record = add(l->record, metadata, "namespace");
    l->record = add(l->record, spec, "holderIdentity");
    l->record = add(l->record, spec, "renewTime");
    l->record = add(l->record, spec, "leaseTransitions");
    if (duration_usec(spec) > l->duration_usec)
        l->duration_usec = duration_usec(spec);
    if (!holder || !*holder)
        return;
    if (!*l->holder || (!l->is_fresh && is_fresh(spec, now_usec)))
        l->holder = holder;
    l->is_fresh = l->is_fresh || is_fresh(spec, now_usec);
}

static void note_found(struct nc_karpenter_seen *s, const struct scan *l, uint64_t mono_usec) {
    const bool has_moved = s->was_scanned && s->record != l->record;

    if (!s->was_scanned || has_moved)
        s->since_usec = mono_usec;
    if (*l->holder && (l->is_fresh || has_moved)) {
        s->was_alive = true;
        s->alive_usec = mono_usec;
    }
    if (l->is_there || !s->was_there)
        s->window_usec = l->duration_usec + GRACE_USEC;
    s->was_scanned = true;
    s->was_there = s->was_there || l->is_there;
    s->record = l->record;
    nc_kube_printable(s->holder, sizeof(s->holder), l->holder, strlen(l->holder));
}

enum nc_control_mode nc_karpenter_judge(struct nc_karpenter_seen *s, const struct nc_value *leases,
                                        uint64_t now_usec, uint64_t mono_usec) {
    const struct nc_value *items = nc_value_get(leases, "items");
    const size_t n = items && items->type == NC_VALUE_LIST ? items->n : 0;
    struct scan l = {.record = NC_KUBE_HASH_SEED, .holder = ""};

    for (size_t i = 0; i < n && i < MAX_LEASES; i++)
        judge_lease(&l, items->items[i], now_usec);
    if (l.duration_usec == 0)
        l.duration_usec = DEFAULT_DURATION_SEC * SEC_USEC;
    note_found(s, &l, mono_usec);
    if (s->was_alive && mono_usec - s->alive_usec < s->window_usec)
        return NC_CONTROL_KARPENTER;
    if (!s->was_there || mono_usec - s->since_usec >= s->window_usec)
        return NC_CONTROL_STANDALONE;
    return NC_CONTROL_MODE_UNKNOWN;
}
