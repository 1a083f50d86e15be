/*
 * What the daemon counts, and its metrics: Prometheus text. Pure.
 */
#ifndef NC_DAEMON_METRICS_H
#define NC_DAEMON_METRICS_H

#include "nc/lifecycle.h"
#include "nc/mem.h"
#include "nc/prometheus.h"
/* How the daemon stands with the API server. */
enum nc_api_state {
    NC_API_CONNECTING = 0, /* the first answer has not come yet */
    NC_API_CONNECTED,      /* it answered the last time */
    NC_API_NO_KUBECONFIG,
    NC_API_BAD_KUBECONFIG, /* it cannot be read or makes no sense */
    NC_API_NO_CERTIFICATE, /* the kubeconfig names one that is not there (yet) */
    NC_API_UNREACHABLE,
    NC_API_REFUSED, /* it knows us and says no, or shows a certificate that is not trusted */
    NC_API_FAILING, /* whatever else */
    _NC_API_STATE_MAX
};
/* "connecting", "connected", "no-kubeconfig", …: status.json's api_state, and the metric's label.
 */
const char *nc_api_state_name(enum nc_api_state s);

/* What the daemon counts. Errors by class (enum nc_err_class). */
struct nc_counters {
    enum nc_api_state api_state;
    uint64_t started_usec;
    uint64_t imds_polls[_NC_SOURCE_MAX]; /* answered, by the source that was requested */
    uint64_t imds_errors[_NC_ERR_CLASS_MAX];
    uint64_t imds_success_usec[_NC_SOURCE_MAX]; /* the last answer (200 or 404); 0 = never */
    struct nc_histogram imds_latency;
    uint64_t api_requests; /* writes, pods, looks; not the watches */
    uint64_t api_errors[_NC_ERR_CLASS_MAX];
    struct nc_histogram api_latency;
    uint64_t answers[NC_DRAIN_DELETE + 1][_NC_ANSWER_MAX]; /* [verb][kind] */
    uint64_t node_writes[_NC_WRITE_MAX], node_writes_failed[_NC_WRITE_MAX];
    uint64_t pod_events_sent, pod_events_dropped;
    uint64_t notices[_NC_SOURCE_MAX]; /* how often each became active */
    uint64_t reloads, watch_restarts;
    int64_t skew_usec; /* EC2's clock minus ours */
    bool is_config_refused;
};
/* Prometheus text of the daemon, all families named nodeclaimd_…, none of them
 * nodeclaimd_bootstrap_…: what is in force and since when, pods, answers, polls, durations. */
void nc_daemon_metrics(const struct nc_lifecycle *l, const struct nc_counters *c, uint64_t now_usec,
                       struct nc_buf *out);
/* The same, of what the lifecycle showed. */
void nc_daemon_metrics_view(const struct nc_lifecycle_view *v, const struct nc_counters *c,
                            struct nc_buf *out);

#endif
