/*
 * The daemon's metrics as Prometheus text: what a person would want to be woken for.
 *
 * Pure. The text stands in a file, and is read later than it is written: a time is a timestamp, as
 * an age or a distance would be wrong by then. A sample that has no value now (the time of a notice
 * that is not there) is left out.
 */
#include "nc/daemon-metrics.h"

#include <stddef.h>

#include "nc/str.h"

static void add_state(struct nc_metrics *m, const struct nc_lifecycle_view *v,
                      uint64_t started_usec) {
    nc_metric_family(m, "start_time_seconds", NC_GAUGE, "Unix time at which the daemon started.");
    nc_metric_usec(m, NULL, (int64_t)started_usec);
    nc_metric_family(m, "phase", NC_GAUGE, "Phase of the node's lifecycle: 1 for the current one.");
    for (enum nc_lifecycle_phase p = 0; p < _NC_LIFECYCLE_PHASE_MAX; p++)
        nc_metric_count_by(m, "phase", nc_lifecycle_phase_name(p), p == v->phase && !v->is_failed);
    nc_metric_count_by(m, "phase", NC_LIFECYCLE_FAILED, v->is_failed);
    nc_metric_family(m, "policy", NC_GAUGE, "Policy: 1 for the one in force.");
    for (enum nc_policy p = NC_POLICY_IGNORE; p <= NC_POLICY_DRAIN; p++)
        nc_metric_count_by(m, "policy", nc_policy_name(p), p == v->policy);
}

static void add_notices(struct nc_metrics *m, const struct nc_lifecycle_view *v,
                        const struct nc_counters *c) {
    nc_metric_family(m, "notice_active", NC_GAUGE, "Whether a notice of this source is active.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        nc_metric_count_by(m, "source", nc_source_name(s), v->is_active[s]);
    nc_metric_family(m, "notices_total", NC_COUNTER, "Notices received, by source.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        nc_metric_count_by(m, "source", nc_source_name(s), c->notices[s]);
    nc_metric_family(m, "notice_timestamp_seconds", NC_GAUGE,
                     "Unix time at which the active notice was received.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (v->is_active[s])
            nc_metric_usec_by(m, "source", nc_source_name(s), (int64_t)v->noticed_usec[s]);
    nc_metric_family(m, "notice_deadline_timestamp_seconds", NC_GAUGE,
                     "Unix time at which the instance ends, as the active notice announces it.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (v->is_active[s] && v->notices[s].deadline_usec)
            nc_metric_usec_by(m, "source", nc_source_name(s), (int64_t)v->notices[s].deadline_usec);
}

/* One timestamp; left out where it is 0. */
static void add_time(struct nc_metrics *m, const char *family, const char *help, uint64_t usec) {
    nc_metric_family(m, family, NC_GAUGE, help);
    if (usec)
        nc_metric_usec(m, NULL, (int64_t)usec);
}

static void add_times(struct nc_metrics *m, const struct nc_lifecycle_view *v) {
    add_time(m, "deadline_timestamp_seconds", "Unix time of the earliest deadline in force.",
             v->deadline_usec);
    add_time(m, "force_delete_timestamp_seconds",
             "Unix time at which every pod must be gone: the deadline without its margin.",
             v->t_usec);
    nc_metric_one(m, "cordon_owned", NC_GAUGE, "Whether this daemon cordoned the node.",
                  v->is_ours);
    add_time(m, "cordon_timestamp_seconds", "Unix time at which the node was cordoned.",
             v->cordoned_usec);
}

/* Each of them a count of the summary. */
static const char listed[] =
    "drain_pods\0Pods of this drain, including those that are gone.\0"
    "drain_pods_remaining\0Pods of this drain that still exist.\0"
    "drain_pods_leaving\0Remaining pods that are terminating or whose eviction was accepted.\0"
    "drain_pods_kept\0Remaining pods that karpenter.sh/do-not-disrupt keeps.\0"
    "drain_pods_blocked\0Remaining pods whose last eviction was refused, or that do not end.\0"
    "drain_pods_cut\0Pods that got less than their grace period.\0";
#define AT(member) offsetof(struct nc_drain_summary, member)
static const unsigned char listed_at[] = {AT(total), AT(remaining), AT(leaving),
                                          AT(kept),  AT(blocked),   AT(cut)};

static void add_listed(struct nc_metrics *m, const struct nc_drain_summary *s) {
    const char *name = listed;

    for (size_t i = 0; i < NC_ARRAY_SIZE(listed_at); i++, name = nc_next_name(nc_next_name(name)))
        nc_metric_one(m, name, NC_GAUGE, nc_next_name(name),
                      *(const size_t *)((const char *)s + listed_at[i]));
    nc_metric_one(m, "drain_forcing", NC_GAUGE,
                  "Whether the force-delete time of a pod has passed that is not terminating.",
                  s->is_forcing);
}

static void add_pods(struct nc_metrics *m, const struct nc_drain_summary *s) {
    nc_metric_family(m, "drain_pods_excluded", NC_GAUGE,
                     "Pods that the drain does not evict, by reason.");
    for (enum nc_pod_reason e = NC_POD_REASON_NONE + 1; e < _NC_POD_REASON_EXCLUDED_MAX; e++)
        nc_metric_count_by(m, "reason", nc_pod_reason_name(e), s->excluded[e]);
    nc_metric_family(m, "drain_list_incomplete", NC_GAUGE,
                     "Whether the list of pods is incomplete, by reason.");
    for (enum nc_list_gap g = NC_LIST_TOO_MANY; g < _NC_LIST_GAP_MAX; g++)
        nc_metric_count_by(m, "reason", nc_list_gap_name(g), s->gap == g);
    add_time(m, "drain_progress_timestamp_seconds",
             "Unix time at which a pod was last evicted, or was last seen to be gone.",
             s->last_progress_usec);
}

static void add_answers(struct nc_metrics *m, const struct nc_counters *c) {
    static const struct {
        enum nc_drain_verb verb;
        char family[20];
        const char *help;
    } verbs[] = {
        {NC_DRAIN_EVICT, "evictions_total", "Evictions, by answer of the API server."},
        {NC_DRAIN_MARK, "marks_total",
         "Patches of the condition DisruptionTarget, by answer of the API server."},
        {NC_DRAIN_DELETE, "deletions_total", "Forced deletions, by answer of the API server."},
    };

    for (size_t v = 0; v < NC_ARRAY_SIZE(verbs); v++) {
        nc_metric_family(m, verbs[v].family, NC_COUNTER, verbs[v].help);
        for (enum nc_pod_answer_kind k = NC_ANSWER_ACCEPTED; k < _NC_ANSWER_MAX; k++)
            nc_metric_count_by(m, "answer", nc_pod_answer_name(k), c->answers[verbs[v].verb][k]);
    }
}

static void add_pod_events(struct nc_metrics *m, const struct nc_counters *c) {
    nc_metric_family(m, "pod_events_total", NC_COUNTER,
                     "Events on pods that were evicted or force-deleted, by result.");
    nc_metric_count_by(m, "result", "sent", c->pod_events_sent);
    nc_metric_count_by(m, "result", "dropped", c->pod_events_dropped);
}

static void add_errors(struct nc_metrics *m, const char *family, const char *help,
                       const uint64_t *errors) {
    nc_metric_family(m, family, NC_COUNTER, help);
    for (enum nc_err_class e = NC_ERR_NONE + 1; e < _NC_ERR_CLASS_MAX; e++)
        nc_metric_count_by(m, "class", nc_err_class_name(e), errors[e]);
}

static void add_imds(struct nc_metrics *m, const struct nc_counters *c) {
    nc_metric_family(m, "imds_polls_total", NC_COUNTER, "Polls that IMDS answered, by source.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (nc_sources[s].path)
            nc_metric_count_by(m, "source", nc_source_name(s), c->imds_polls[s]);
    nc_metric_family(m, "imds_last_success_timestamp_seconds", NC_GAUGE,
                     "Unix time of the last successful poll, by source.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (c->imds_success_usec[s])
            nc_metric_usec_by(m, "source", nc_source_name(s), (int64_t)c->imds_success_usec[s]);
    add_errors(m, "imds_errors_total", "Polls of IMDS that failed, by class.", c->imds_errors);
    nc_metric_histogram(m, "imds_request_duration_seconds", "Duration of a poll of IMDS.",
                        &c->imds_latency);
}

const char *nc_api_state_name(enum nc_api_state s) {
    static const char names[_NC_API_STATE_MAX][16] = {
        [NC_API_CONNECTING] = "connecting",
        [NC_API_CONNECTED] = "connected",
        [NC_API_NO_KUBECONFIG] = "no-kubeconfig",
        [NC_API_BAD_KUBECONFIG] = "bad-kubeconfig",
        [NC_API_NO_CERTIFICATE] = "no-certificate",
        [NC_API_UNREACHABLE] = "unreachable",
        [NC_API_REFUSED] = "refused",
        [NC_API_FAILING] = "failing",
    };

    return (unsigned)s < _NC_API_STATE_MAX ? names[s] : NULL;
}

static void add_writes(struct nc_metrics *m, const char *family, const char *help,
                       const uint64_t *counts) {
    static const char writes[_NC_WRITE_MAX][20] = {
        [NC_WRITE_NONE] = "none",       [NC_WRITE_SIGNAL] = "signal",
        [NC_WRITE_CORDON] = "cordon",   [NC_WRITE_PROGRESS] = "progress",
        [NC_WRITE_DRAINED] = "drained", [NC_WRITE_UNDRAINED] = "undrained",
        [NC_WRITE_RELEASE] = "release", [NC_WRITE_CLEAR_CONDITIONS] = "clear-conditions",
    };

    nc_metric_family(m, family, NC_COUNTER, help);
    for (enum nc_node_write_kind w = NC_WRITE_NONE + 1; w < _NC_WRITE_MAX; w++)
        nc_metric_count_by(m, "write", writes[w], counts[w]);
}

static void add_api(struct nc_metrics *m, const struct nc_counters *c) {
    nc_metric_family(m, "api_state", NC_GAUGE,
                     "Connection to the API server: 1 for the current state.");
    for (enum nc_api_state s = 0; s < _NC_API_STATE_MAX; s++)
        nc_metric_count_by(m, "state", nc_api_state_name(s), s == c->api_state);
    nc_metric_one(m, "api_requests_total", NC_COUNTER,
                  "Requests to the API server, without watches.", c->api_requests);
    add_errors(m, "api_errors_total", "Requests to the API server that failed, by class.",
               c->api_errors);
    nc_metric_histogram(m, "api_request_duration_seconds",
                        "Duration of a request to the API server.", &c->api_latency);
    add_writes(m, "node_writes_total", "Patches of the Node, by kind.", c->node_writes);
    add_writes(m, "node_write_failures_total", "Patches of the Node that failed, by kind.",
               c->node_writes_failed);
    nc_metric_one(m, "watch_restarts_total", NC_COUNTER,
                  "Watches that had to start again with a list.", c->watch_restarts);
}

void nc_daemon_metrics_view(const struct nc_lifecycle_view *v, const struct nc_counters *c,
                            struct nc_buf *out) {
    struct nc_metrics m = {.out = out, .prefix = "nodeclaimd_"};

    add_state(&m, v, c->started_usec);
    add_notices(&m, v, c);
    add_times(&m, v);
    if (!v->is_unlisted)
        add_listed(&m, &v->drain);
    add_pods(&m, &v->drain);
    add_answers(&m, c);
    add_pod_events(&m, c);
    add_imds(&m, c);
    add_api(&m, c);
    nc_metric_one(&m, "reloads_total", NC_COUNTER, "Reloads of the configuration.", c->reloads);
    nc_metric_one(&m, "config_refused", NC_GAUGE, "Whether a document is refused.",
                  c->is_config_refused);
    nc_metric_family(&m, "clock_skew_seconds", NC_GAUGE,
                     "Clock of EC2 minus clock of this machine.");
    nc_metric_usec(&m, NULL, c->skew_usec);
}

void nc_daemon_metrics(const struct nc_lifecycle *l, const struct nc_counters *c, uint64_t now_usec,
                       struct nc_buf *out) {
    struct nc_lifecycle_view v;

    nc_lifecycle_get_view(l, now_usec, &v);
    nc_daemon_metrics_view(&v, c, out);
}
