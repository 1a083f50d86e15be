/*
 * What time it is for the daemon, and what IMDS and the API server say of it.
 */
#include "daemon.h"

/* EC2's clock, carried on by the time that the machine is up; the API server's, by which requests
 * and pods are dated, where IMDS reports nothing. Our own clock may be set at any moment, and every
 * deadline would seem to have come, or to be far. */
uint64_t nc_daemon_now(const struct nc_daemon *d) {
    if (d->boot_usec)
        return d->boot_usec + nc_boot_usec();
    return (uint64_t)((int64_t)nc_clock_shifted(d->api_boot_usec) + d->counters.skew_usec);
}

void nc_daemon_read_skew(struct nc_daemon *d) {
    const uint64_t told = d->api.connection.kube ? nc_kube_boot_usec(d->api.connection.kube) : 0;
    struct nc_imds_stats stats;

    if (told)
        d->api_boot_usec = told;
    if (!d->imds)
        return;
    nc_imds_get_stats(d->imds, &stats);
    if (!stats.has_skew)
        return;
    d->counters.skew_usec = stats.skew_usec;
    d->boot_usec = stats.boot_usec;
}
