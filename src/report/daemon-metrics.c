#include "nc/drain-report.h"
/*
#include "nc/drain-report.h"
 * The daemon's metrics as Prometheus text: what a person would want to be woken for.
#include "nc/drain-report.h"
 *
#include "nc/drain-report.h"
 * Pure. Base units (seconds), counters end in _total, each family has its HELP and TYPE once and
#include "nc/drain-report.h"
 * all of its samples after them. Numbers are printed from integers, so no locale changes them. A
#include "nc/drain-report.h"
 * sample that has no value now (the age of a notice that is not there) is left out.
#include "nc/drain-report.h"
 */
#include "nc/drain-report.h"
#include <inttypes.h>
#include "nc/drain-report.h"
#include <stdio.h>
#include "nc/drain-report.h"
#include <string.h>
#include "nc/drain-report.h"

#include "nc/drain-report.h"

#include "nc/drain-report.h"
const double nc_latency_bounds_sec[NC_LATENCY_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025,
#include "nc/drain-report.h"
                                                          0.05,  0.1,    0.25,  1,    2.5};
#include "nc/drain-report.h"
static const uint64_t bounds_usec[NC_LATENCY_BUCKETS] = {1000,  2500,   5000,   10000,   25000,
#include "nc/drain-report.h"
                                                         50000, 100000, 250000, 1000000, 2500000};
#include "nc/drain-report.h"

#include "nc/drain-report.h"
void nc_histogram_add(struct nc_histogram *h, uint64_t usec) {
#include "nc/drain-report.h"
    size_t i = 0;
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    while (i < NC_LATENCY_BUCKETS && usec > bounds_usec[i])
#include "nc/drain-report.h"
        i++;
#include "nc/drain-report.h"
    h->buckets[i]++;
#include "nc/drain-report.h"
    h->count++;
#include "nc/drain-report.h"
    h->sum_sec += (double)usec / 1e6;
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
enum type { GAUGE, COUNTER, HISTOGRAM };
#include "nc/drain-report.h"

#include "nc/drain-report.h"
/* Not by printf: all of this is written once a minute for the life of the machine. */
#include "nc/drain-report.h"
static void put(struct nc_buf *out, const char *const *parts) {
#include "nc/drain-report.h"
    for (; *parts; parts++)
#include "nc/drain-report.h"
        (void)nc_buf_puts(out, *parts);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void begin(struct nc_buf *out, const char *family, enum type type, const char *help) {
#include "nc/drain-report.h"
    static const char *const types[] = {"gauge", "counter", "histogram"};
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    const char *const parts[] = {
#include "nc/drain-report.h"
        "# HELP nodeclaimd_", family, " ", help, "\n# TYPE nodeclaimd_", family, " ",
#include "nc/drain-report.h"
        types[type],          "\n",   NULL};
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    put(out, parts);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
/* The name of a sample, up to the space before its value. Label values are words of ours. */
#include "nc/drain-report.h"
static void name(struct nc_buf *out, const char *family, const char *label, const char *value) {
#include "nc/drain-report.h"
    if (label)
#include "nc/drain-report.h"
        put(out,
#include "nc/drain-report.h"
            (const char *const[]){"nodeclaimd_", family, "{", label, "=\"", value, "\"} ", NULL});
#include "nc/drain-report.h"
    else
#include "nc/drain-report.h"
        put(out, (const char *const[]){"nodeclaimd_", family, " ", NULL});
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void put_number(struct nc_buf *out, uint64_t n) {
#include "nc/drain-report.h"
    char digits[24];
#include "nc/drain-report.h"
    size_t at = sizeof(digits);
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    do {
#include "nc/drain-report.h"
        digits[--at] = (char)('0' + n % 10);
#include "nc/drain-report.h"
        n /= 10;
#include "nc/drain-report.h"
    } while (n > 0);
#include "nc/drain-report.h"
    (void)nc_buf_add(out, &digits[at], sizeof(digits) - at);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_count(struct nc_buf *out, const char *family, const char *label, const char *value,
#include "nc/drain-report.h"
                      uint64_t n) {
#include "nc/drain-report.h"
    name(out, family, label, value);
#include "nc/drain-report.h"
    put_number(out, n);
#include "nc/drain-report.h"
    (void)nc_buf_putc(out, '\n');
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
/* Microseconds as seconds, without zeros at the end. */
#include "nc/drain-report.h"
static void put_sec(struct nc_buf *out, bool is_negative, uint64_t usec) {
#include "nc/drain-report.h"
    char fraction[16];
#include "nc/drain-report.h"
    size_t n = (size_t)snprintf(fraction, sizeof(fraction), ".%06" PRIu64, usec % 1000000);
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    while (fraction[n - 1] == '0')
#include "nc/drain-report.h"
        n--;
#include "nc/drain-report.h"
    fraction[n == 1 ? 0 : n] = '\0';
#include "nc/drain-report.h"
    (void)nc_buf_printf(out, "%s%" PRIu64 "%s", is_negative && usec ? "-" : "", usec / 1000000,
#include "nc/drain-report.h"
                        fraction);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_sec(struct nc_buf *out, const char *family, const char *label, const char *value,
#include "nc/drain-report.h"
                    uint64_t usec) {
#include "nc/drain-report.h"
    name(out, family, label, value);
#include "nc/drain-report.h"
    put_sec(out, false, usec);
#include "nc/drain-report.h"
    (void)nc_buf_putc(out, '\n');
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
/* to - from. */
#include "nc/drain-report.h"
static void add_distance(struct nc_buf *out, const char *family, const char *label,
#include "nc/drain-report.h"
                         const char *value, const uint64_t from_to_usec[2]) {
#include "nc/drain-report.h"
    const uint64_t from = from_to_usec[0], to = from_to_usec[1];
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    name(out, family, label, value);
#include "nc/drain-report.h"
    put_sec(out, to < from, to < from ? from - to : to - from);
#include "nc/drain-report.h"
    (void)nc_buf_putc(out, '\n');
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_state(struct nc_buf *out, const struct nc_life_view *v, uint64_t started_usec) {
#include "nc/drain-report.h"
    begin(out, "start_time_seconds", GAUGE, "When the daemon started, since the epoch.");
#include "nc/drain-report.h"
    add_sec(out, "start_time_seconds", NULL, NULL, started_usec);
#include "nc/drain-report.h"
    begin(out, "phase", GAUGE, "Where the node stands: 1 for the phase that holds.");
#include "nc/drain-report.h"
    for (enum nc_life_phase p = 0; p < _NC_LIFE_PHASE_MAX; p++)
#include "nc/drain-report.h"
        add_count(out, "phase", "phase", nc_life_phase_name(p), p == v->phase);
#include "nc/drain-report.h"
    begin(out, "policy", GAUGE, "What is asked for: 1 for the policy in force.");
#include "nc/drain-report.h"
    for (enum nc_policy p = NC_POLICY_IGNORE; p <= NC_POLICY_DRAIN; p++)
#include "nc/drain-report.h"
        add_count(out, "policy", "policy", nc_policy_word(p), p == v->policy);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_notices(struct nc_buf *out, const struct nc_life_view *v,
#include "nc/drain-report.h"
                        const struct nc_counters *c, uint64_t now_usec) {
#include "nc/drain-report.h"
    begin(out, "notice_active", GAUGE, "Is an ending announced by this source?");
#include "nc/drain-report.h"
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
#include "nc/drain-report.h"
        add_count(out, "notice_active", "source", nc_source_name(s), v->is_active[s]);
#include "nc/drain-report.h"
    begin(out, "notices_total", COUNTER, "How often a source began to announce an ending.");
#include "nc/drain-report.h"
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
#include "nc/drain-report.h"
        add_count(out, "notices_total", "source", nc_source_name(s), c->notices[s]);
#include "nc/drain-report.h"
    begin(out, "notice_age_seconds", GAUGE, "How long ago the ending was announced.");
#include "nc/drain-report.h"
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
#include "nc/drain-report.h"
        if (v->is_active[s])
#include "nc/drain-report.h"
            add_distance(out, "notice_age_seconds", "source", nc_source_name(s),
#include "nc/drain-report.h"
                         (const uint64_t[]){v->noticed_usec[s], now_usec});
#include "nc/drain-report.h"
    begin(out, "notice_deadline_seconds", GAUGE,
#include "nc/drain-report.h"
          "From now until the machine goes, as the source announced it.");
#include "nc/drain-report.h"
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
#include "nc/drain-report.h"
        if (v->is_active[s] && v->notices[s].deadline_usec)
#include "nc/drain-report.h"
            add_distance(out, "notice_deadline_seconds", "source", nc_source_name(s),
#include "nc/drain-report.h"
                         (const uint64_t[]){now_usec, v->notices[s].deadline_usec});
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_moments(struct nc_buf *out, const struct nc_life_view *v, uint64_t now_usec) {
#include "nc/drain-report.h"
    begin(out, "deadline_seconds", GAUGE, "From now until the earliest deadline in force.");
#include "nc/drain-report.h"
    if (v->deadline_usec)
#include "nc/drain-report.h"
        add_distance(out, "deadline_seconds", NULL, NULL,
#include "nc/drain-report.h"
                     (const uint64_t[]){now_usec, v->deadline_usec});
#include "nc/drain-report.h"
    begin(out, "last_moment_seconds", GAUGE, "From now until every pod must be gone.");
#include "nc/drain-report.h"
    if (v->t_usec)
#include "nc/drain-report.h"
        add_distance(out, "last_moment_seconds", NULL, NULL,
#include "nc/drain-report.h"
                     (const uint64_t[]){now_usec, v->t_usec});
#include "nc/drain-report.h"
    begin(out, "cordon_owned", GAUGE, "Is the node cordoned by this daemon?");
#include "nc/drain-report.h"
    add_count(out, "cordon_owned", NULL, NULL, v->is_ours);
#include "nc/drain-report.h"
    begin(out, "cordon_age_seconds", GAUGE, "How long ago the node was cordoned.");
#include "nc/drain-report.h"
    if (v->cordoned_usec)
#include "nc/drain-report.h"
        add_distance(out, "cordon_age_seconds", NULL, NULL,
#include "nc/drain-report.h"
                     (const uint64_t[]){v->cordoned_usec, now_usec});
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_pods(struct nc_buf *out, const struct nc_drain_summary *s, uint64_t now_usec) {
#include "nc/drain-report.h"
    const struct {
#include "nc/drain-report.h"
        const char *family, *help;
#include "nc/drain-report.h"
        uint64_t n;
#include "nc/drain-report.h"
    } gauges[] = {
#include "nc/drain-report.h"
        {"drain_pods", "Pods of this drain, those that are gone included.", s->total},
#include "nc/drain-report.h"
        {"drain_pods_remaining", "Pods that must go and are still there.", s->remaining},
#include "nc/drain-report.h"
        {"drain_pods_leaving", "Of them: terminating, or about to.", s->leaving},
#include "nc/drain-report.h"
        {"drain_pods_kept", "Of them: held by do-not-disrupt.", s->kept},
#include "nc/drain-report.h"
        {"drain_pods_blocked", "Of them: refused the last time they were asked.", s->blocked},
#include "nc/drain-report.h"
        {"drain_forcing", "Has the last moment of a pod come that is not leaving?", s->is_forcing},
#include "nc/drain-report.h"
    };
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    for (size_t i = 0; i < NC_ARRAY_SIZE(gauges); i++) {
#include "nc/drain-report.h"
        begin(out, gauges[i].family, GAUGE, gauges[i].help);
#include "nc/drain-report.h"
        add_count(out, gauges[i].family, NULL, NULL, gauges[i].n);
#include "nc/drain-report.h"
    }
#include "nc/drain-report.h"
    begin(out, "drain_pods_excluded", GAUGE, "Pods that are left alone, by reason.");
#include "nc/drain-report.h"
    for (enum nc_pod_excluded e = NC_POD_ELIGIBLE + 1; e < _NC_POD_EXCLUDED_MAX; e++)
#include "nc/drain-report.h"
        add_count(out, "drain_pods_excluded", "reason", nc_pod_excluded_name(e), s->excluded[e]);
#include "nc/drain-report.h"
    begin(out, "drain_list_incomplete", GAUGE, "Is there a pod that the drain does not know?");
#include "nc/drain-report.h"
    for (enum nc_list_gap g = NC_LIST_TOO_MANY; g < _NC_LIST_GAP_MAX; g++)
#include "nc/drain-report.h"
        add_count(out, "drain_list_incomplete", "reason", nc_list_gap_name(g), s->gap == g);
#include "nc/drain-report.h"
    begin(out, "drain_progress_age_seconds", GAUGE, "How long ago a pod began to leave, or left.");
#include "nc/drain-report.h"
    if (s->last_progress_usec)
#include "nc/drain-report.h"
        add_distance(out, "drain_progress_age_seconds", NULL, NULL,
#include "nc/drain-report.h"
                     (const uint64_t[]){s->last_progress_usec, now_usec});
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_answers(struct nc_buf *out, const struct nc_counters *c) {
#include "nc/drain-report.h"
    static const struct {
#include "nc/drain-report.h"
        enum nc_drain_verb verb;
#include "nc/drain-report.h"
        const char *family, *help;
#include "nc/drain-report.h"
    } verbs[] = {
#include "nc/drain-report.h"
        {NC_DRAIN_EVICT, "evictions_total", "Evictions by what the API server answered."},
#include "nc/drain-report.h"
        {NC_DRAIN_MARK, "marks_total", "Conditions DisruptionTarget by answer."},
#include "nc/drain-report.h"
        {NC_DRAIN_DELETE, "deletions_total", "Deletions at a last moment by answer."},
#include "nc/drain-report.h"
    };
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    for (size_t v = 0; v < NC_ARRAY_SIZE(verbs); v++) {
#include "nc/drain-report.h"
        begin(out, verbs[v].family, COUNTER, verbs[v].help);
#include "nc/drain-report.h"
        for (enum nc_pod_answer_kind k = NC_ANSWER_ACCEPTED; k < _NC_ANSWER_MAX; k++)
#include "nc/drain-report.h"
            add_count(out, verbs[v].family, "answer", nc_pod_answer_name(k),
#include "nc/drain-report.h"
                      c->answers[verbs[v].verb][k]);
#include "nc/drain-report.h"
    }
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_errors(struct nc_buf *out, const char *family, const char *help,
#include "nc/drain-report.h"
                       const uint64_t *errors) {
#include "nc/drain-report.h"
    begin(out, family, COUNTER, help);
#include "nc/drain-report.h"
    for (enum nc_err_class e = NC_ERR_NONE + 1; e < _NC_ERR_CLASS_MAX; e++)
#include "nc/drain-report.h"
        add_count(out, family, "class", nc_err_class_name(e), errors[e]);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_histogram(struct nc_buf *out, const char *family, const char *help,
#include "nc/drain-report.h"
                          const struct nc_histogram *h) {
#include "nc/drain-report.h"
    uint64_t n = 0;
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    begin(out, family, HISTOGRAM, help);
#include "nc/drain-report.h"
    for (size_t i = 0; i < NC_LATENCY_BUCKETS; i++) {
#include "nc/drain-report.h"
        n += h->buckets[i];
#include "nc/drain-report.h"
        (void)nc_buf_printf(out, "nodeclaimd_%s_bucket{le=\"", family);
#include "nc/drain-report.h"
        put_sec(out, false, bounds_usec[i]);
#include "nc/drain-report.h"
        (void)nc_buf_printf(out, "\"} %" PRIu64 "\n", n);
#include "nc/drain-report.h"
    }
#include "nc/drain-report.h"
    (void)nc_buf_printf(out, "nodeclaimd_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", family, h->count);
#include "nc/drain-report.h"
    (void)nc_buf_printf(out, "nodeclaimd_%s_sum ", family);
#include "nc/drain-report.h"
    put_sec(out, false, (uint64_t)(h->sum_sec * 1e6 + 0.5));
#include "nc/drain-report.h"
    (void)nc_buf_printf(out, "\nnodeclaimd_%s_count %" PRIu64 "\n", family, h->count);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_imds(struct nc_buf *out, const struct nc_counters *c) {
#include "nc/drain-report.h"
    static const enum nc_source polled[] = {NC_SOURCE_SPOT, NC_SOURCE_REBALANCE,
#include "nc/drain-report.h"
                                            NC_SOURCE_MAINTENANCE, NC_SOURCE_AUTOSCALING};
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    begin(out, "imds_polls_total", COUNTER, "Answered polls of IMDS, by what was asked for.");
#include "nc/drain-report.h"
    for (size_t i = 0; i < NC_ARRAY_SIZE(polled); i++)
#include "nc/drain-report.h"
        add_count(out, "imds_polls_total", "source", nc_source_name(polled[i]),
#include "nc/drain-report.h"
                  c->imds_polls[polled[i]]);
#include "nc/drain-report.h"
    begin(out, "imds_last_success_timestamp_seconds", GAUGE,
#include "nc/drain-report.h"
          "When IMDS last gave a good answer, since the epoch.");
#include "nc/drain-report.h"
    for (size_t i = 0; i < NC_ARRAY_SIZE(polled); i++)
#include "nc/drain-report.h"
        if (c->imds_success_usec[polled[i]])
#include "nc/drain-report.h"
            add_sec(out, "imds_last_success_timestamp_seconds", "source", nc_source_name(polled[i]),
#include "nc/drain-report.h"
                    c->imds_success_usec[polled[i]]);
#include "nc/drain-report.h"
    add_errors(out, "imds_errors_total", "Polls of IMDS that failed, by class.", c->imds_errors);
#include "nc/drain-report.h"
    add_histogram(out, "imds_latency_seconds", "How long IMDS took to answer a poll.",
#include "nc/drain-report.h"
                  &c->imds_latency);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
const char *nc_api_state_name(enum nc_api_state s) {
#include "nc/drain-report.h"
    static const char *const names[_NC_API_STATE_MAX] = {
#include "nc/drain-report.h"
        [NC_API_CONNECTING] = "connecting",
#include "nc/drain-report.h"
        [NC_API_CONNECTED] = "connected",
#include "nc/drain-report.h"
        [NC_API_NO_KUBECONFIG] = "no-kubeconfig",
#include "nc/drain-report.h"
        [NC_API_BAD_KUBECONFIG] = "bad-kubeconfig",
#include "nc/drain-report.h"
        [NC_API_NO_CERTIFICATE] = "no-certificate",
#include "nc/drain-report.h"
        [NC_API_UNREACHABLE] = "unreachable",
#include "nc/drain-report.h"
        [NC_API_REFUSED] = "refused",
#include "nc/drain-report.h"
        [NC_API_FAILING] = "failing",
#include "nc/drain-report.h"
    };
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    return (unsigned)s < _NC_API_STATE_MAX ? names[s] : NULL;
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_api(struct nc_buf *out, const struct nc_counters *c) {
#include "nc/drain-report.h"
    static const char *const writes[_NC_WRITE_MAX] = {
#include "nc/drain-report.h"
        [NC_WRITE_NONE] = "none",       [NC_WRITE_SIGNAL] = "signal",
#include "nc/drain-report.h"
        [NC_WRITE_CORDON] = "cordon",   [NC_WRITE_PROGRESS] = "progress",
#include "nc/drain-report.h"
        [NC_WRITE_DRAINED] = "drained", [NC_WRITE_UNDRAINED] = "undrained",
#include "nc/drain-report.h"
        [NC_WRITE_RELEASE] = "release", [NC_WRITE_CALM] = "calm",
#include "nc/drain-report.h"
    };
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    begin(out, "api_state", GAUGE, "How the way to the API server is: 1 for what holds.");
#include "nc/drain-report.h"
    for (enum nc_api_state s = 0; s < _NC_API_STATE_MAX; s++)
#include "nc/drain-report.h"
        add_count(out, "api_state", "state", nc_api_state_name(s), s == c->api_state);
#include "nc/drain-report.h"
    begin(out, "api_requests_total", COUNTER, "Requests to the API server, without watches.");
#include "nc/drain-report.h"
    add_count(out, "api_requests_total", NULL, NULL, c->api_requests);
#include "nc/drain-report.h"
    add_errors(out, "api_errors_total", "Requests to the API server that failed, by class.",
#include "nc/drain-report.h"
               c->api_errors);
#include "nc/drain-report.h"
    add_histogram(out, "api_latency_seconds", "How long the API server took to answer.",
#include "nc/drain-report.h"
                  &c->api_latency);
#include "nc/drain-report.h"
    begin(out, "node_writes_total", COUNTER, "Writes of the own Node, by kind.");
#include "nc/drain-report.h"
    for (enum nc_node_write_kind w = NC_WRITE_NONE + 1; w < _NC_WRITE_MAX; w++)
#include "nc/drain-report.h"
        add_count(out, "node_writes_total", "write", writes[w], c->node_writes[w]);
#include "nc/drain-report.h"
    begin(out, "node_write_failures_total", COUNTER, "Of them: those that failed, by kind.");
#include "nc/drain-report.h"
    for (enum nc_node_write_kind w = NC_WRITE_NONE + 1; w < _NC_WRITE_MAX; w++)
#include "nc/drain-report.h"
        add_count(out, "node_write_failures_total", "write", writes[w], c->node_writes_failed[w]);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
static void add_rest(struct nc_buf *out, const struct nc_counters *c) {
#include "nc/drain-report.h"
    begin(out, "watch_restarts_total", COUNTER, "Watches that had to begin again with a list.");
#include "nc/drain-report.h"
    add_count(out, "watch_restarts_total", NULL, NULL, c->watch_restarts);
#include "nc/drain-report.h"
    begin(out, "reloads_total", COUNTER, "How often the configuration was read again.");
#include "nc/drain-report.h"
    add_count(out, "reloads_total", NULL, NULL, c->reloads);
#include "nc/drain-report.h"
    begin(out, "clock_skew_seconds", GAUGE, "The clock of EC2 minus the clock of this machine.");
#include "nc/drain-report.h"
    name(out, "clock_skew_seconds", NULL, NULL);
#include "nc/drain-report.h"
    put_sec(out, c->skew_usec < 0,
#include "nc/drain-report.h"
            c->skew_usec < 0 ? -(uint64_t)c->skew_usec : (uint64_t)c->skew_usec);
#include "nc/drain-report.h"
    (void)nc_buf_putc(out, '\n');
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
void nc_daemon_metrics_view(const struct nc_life_view *v, const struct nc_counters *c,
#include "nc/drain-report.h"
                            uint64_t now_usec, struct nc_buf *out) {
#include "nc/drain-report.h"
    add_state(out, v, c->started_usec);
#include "nc/drain-report.h"
    add_notices(out, v, c, now_usec);
#include "nc/drain-report.h"
    add_moments(out, v, now_usec);
#include "nc/drain-report.h"
    add_pods(out, &v->drain, now_usec);
#include "nc/drain-report.h"
    add_answers(out, c);
#include "nc/drain-report.h"
    add_imds(out, c);
#include "nc/drain-report.h"
    add_api(out, c);
#include "nc/drain-report.h"
    add_rest(out, c);
#include "nc/drain-report.h"
}
#include "nc/drain-report.h"

#include "nc/drain-report.h"
void nc_daemon_metrics(const struct nc_life *l, const struct nc_counters *c, uint64_t now_usec,
#include "nc/drain-report.h"
                       struct nc_buf *out) {
#include "nc/drain-report.h"
    struct nc_life_view v;
#include "nc/drain-report.h"

#include "nc/drain-report.h"
    nc_life_look(l, now_usec, &v);
#include "nc/drain-report.h"
    nc_daemon_metrics_view(&v, c, now_usec, out);
#include "nc/drain-report.h"
}
