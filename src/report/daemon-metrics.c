/*
 * The daemon's metrics as Prometheus text: what a person would want to be woken for.
 *
 * Pure. Base units (seconds), counters end in _total, each family has its HELP and TYPE once and
 * all of its samples after them. Numbers are printed from integers, so no locale changes them. A
 * sample that has no value now (the age of a notice that is not there) is left out.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nc/drain-report.h"

const double nc_latency_bounds_sec[NC_LATENCY_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025,
                                                          0.05,  0.1,    0.25,  1,    2.5};
static const uint64_t bounds_usec[NC_LATENCY_BUCKETS] = {1000,  2500,   5000,   10000,   25000,
                                                         50000, 100000, 250000, 1000000, 2500000};

void nc_histogram_add(struct nc_histogram *h, uint64_t usec) {
    size_t i = 0;

    while (i < NC_LATENCY_BUCKETS && usec > bounds_usec[i])
        i++;
    h->buckets[i]++;
    h->count++;
    h->sum_sec += (double)usec / 1e6;
}

enum type { GAUGE, COUNTER, HISTOGRAM };

/* Not by printf: all of this is written once a minute for the life of the machine. */
static void put(struct nc_buf *out, const char *const *parts) {
    for (; *parts; parts++)
        (void)nc_buf_puts(out, *parts);
}

static void begin(struct nc_buf *out, const char *family, enum type type, const char *help) {
    static const char *const types[] = {"gauge", "counter", "histogram"};

    const char *const parts[] = {
        "# HELP nodeclaimd_", family, " ", help, "\n# TYPE nodeclaimd_", family, " ",
        types[type],          "\n",   NULL};

    put(out, parts);
}

/* The name of a sample, up to the space before its value. Label values are words of ours. */
static void name(struct nc_buf *out, const char *family, const char *label, const char *value) {
    if (label)
        put(out,
            (const char *const[]){"nodeclaimd_", family, "{", label, "=\"", value, "\"} ", NULL});
    else
        put(out, (const char *const[]){"nodeclaimd_", family, " ", NULL});
}

static void put_number(struct nc_buf *out, uint64_t n) {
    char digits[24];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    (void)nc_buf_add(out, &digits[at], sizeof(digits) - at);
}

static void add_count(struct nc_buf *out, const char *family, const char *label, const char *value,
                      uint64_t n) {
    name(out, family, label, value);
    put_number(out, n);
    (void)nc_buf_putc(out, '\n');
}

/* Microseconds as seconds, without zeros at the end. */
static void put_sec(struct nc_buf *out, bool is_negative, uint64_t usec) {
    char fraction[16];
    size_t n = (size_t)snprintf(fraction, sizeof(fraction), ".%06" PRIu64, usec % 1000000);

    while (fraction[n - 1] == '0')
        n--;
    fraction[n == 1 ? 0 : n] = '\0';
    (void)nc_buf_printf(out, "%s%" PRIu64 "%s", is_negative && usec ? "-" : "", usec / 1000000,
                        fraction);
}

static void add_sec(struct nc_buf *out, const char *family, const char *label, const char *value,
                    uint64_t usec) {
    name(out, family, label, value);
    put_sec(out, false, usec);
    (void)nc_buf_putc(out, '\n');
}

/* to - from. */
static void add_distance(struct nc_buf *out, const char *family, const char *label,
                         const char *value, const uint64_t from_to_usec[2]) {
    const uint64_t from = from_to_usec[0], to = from_to_usec[1];

    name(out, family, label, value);
    put_sec(out, to < from, to < from ? from - to : to - from);
    (void)nc_buf_putc(out, '\n');
}

static void add_state(struct nc_buf *out, const struct nc_life_view *v, uint64_t started_usec) {
    begin(out, "start_time_seconds", GAUGE, "When the daemon started, since the epoch.");
    add_sec(out, "start_time_seconds", NULL, NULL, started_usec);
    begin(out, "phase", GAUGE, "Where the node stands: 1 for the phase that holds.");
    for (enum nc_life_phase p = 0; p < _NC_LIFE_PHASE_MAX; p++)
        add_count(out, "phase", "phase", nc_life_phase_name(p), p == v->phase);
    begin(out, "policy", GAUGE, "What is asked for: 1 for the policy in force.");
    for (enum nc_policy p = NC_POLICY_IGNORE; p <= NC_POLICY_DRAIN; p++)
        add_count(out, "policy", "policy", nc_policy_word(p), p == v->policy);
}

static void add_notices(struct nc_buf *out, const struct nc_life_view *v,
                        const struct nc_counters *c, uint64_t now_usec) {
    begin(out, "notice_active", GAUGE, "Is an ending announced by this source?");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        add_count(out, "notice_active", "source", nc_source_name(s), v->is_active[s]);
    begin(out, "notices_total", COUNTER, "How often a source began to announce an ending.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        add_count(out, "notices_total", "source", nc_source_name(s), c->notices[s]);
    begin(out, "notice_age_seconds", GAUGE, "How long ago the ending was announced.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (v->is_active[s])
            add_distance(out, "notice_age_seconds", "source", nc_source_name(s),
                         (const uint64_t[]){v->noticed_usec[s], now_usec});
    begin(out, "notice_deadline_seconds", GAUGE,
          "From now until the machine goes, as the source announced it.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (v->is_active[s] && v->notices[s].deadline_usec)
            add_distance(out, "notice_deadline_seconds", "source", nc_source_name(s),
                         (const uint64_t[]){now_usec, v->notices[s].deadline_usec});
}

static void add_moments(struct nc_buf *out, const struct nc_life_view *v, uint64_t now_usec) {
    begin(out, "deadline_seconds", GAUGE, "From now until the earliest deadline in force.");
    if (v->deadline_usec)
        add_distance(out, "deadline_seconds", NULL, NULL,
                     (const uint64_t[]){now_usec, v->deadline_usec});
    begin(out, "last_moment_seconds", GAUGE, "From now until every pod must be gone.");
    if (v->t_usec)
        add_distance(out, "last_moment_seconds", NULL, NULL,
                     (const uint64_t[]){now_usec, v->t_usec});
    begin(out, "cordon_owned", GAUGE, "Is the node cordoned by this daemon?");
    add_count(out, "cordon_owned", NULL, NULL, v->is_ours);
    begin(out, "cordon_age_seconds", GAUGE, "How long ago the node was cordoned.");
    if (v->cordoned_usec)
        add_distance(out, "cordon_age_seconds", NULL, NULL,
                     (const uint64_t[]){v->cordoned_usec, now_usec});
}

static void add_pods(struct nc_buf *out, const struct nc_drain_summary *s, uint64_t now_usec) {
    const struct {
        const char *family, *help;
        uint64_t n;
    } gauges[] = {
        {"drain_pods", "Pods of this drain, those that are gone included.", s->total},
        {"drain_pods_remaining", "Pods that must go and are still there.", s->remaining},
        {"drain_pods_leaving", "Of them: terminating, or about to.", s->leaving},
        {"drain_pods_kept", "Of them: held by do-not-disrupt.", s->kept},
        {"drain_pods_blocked", "Of them: refused the last time they were asked.", s->blocked},
        {"drain_forcing", "Has the last moment of a pod come that is not leaving?", s->is_forcing},
    };

    for (size_t i = 0; i < NC_ARRAY_SIZE(gauges); i++) {
        begin(out, gauges[i].family, GAUGE, gauges[i].help);
        add_count(out, gauges[i].family, NULL, NULL, gauges[i].n);
    }
    begin(out, "drain_pods_excluded", GAUGE, "Pods that are left alone, by reason.");
    for (enum nc_pod_excluded e = NC_POD_ELIGIBLE + 1; e < _NC_POD_EXCLUDED_MAX; e++)
        add_count(out, "drain_pods_excluded", "reason", nc_pod_excluded_name(e), s->excluded[e]);
    begin(out, "drain_list_incomplete", GAUGE, "Is there a pod that the drain does not know?");
    for (enum nc_list_gap g = NC_LIST_TOO_MANY; g < _NC_LIST_GAP_MAX; g++)
        add_count(out, "drain_list_incomplete", "reason", nc_list_gap_name(g), s->gap == g);
    begin(out, "drain_progress_age_seconds", GAUGE, "How long ago a pod began to leave, or left.");
    if (s->last_progress_usec)
        add_distance(out, "drain_progress_age_seconds", NULL, NULL,
                     (const uint64_t[]){s->last_progress_usec, now_usec});
}

static void add_answers(struct nc_buf *out, const struct nc_counters *c) {
    static const struct {
        enum nc_drain_verb verb;
        const char *family, *help;
    } verbs[] = {
        {NC_DRAIN_EVICT, "evictions_total", "Evictions by what the API server answered."},
        {NC_DRAIN_MARK, "marks_total", "Conditions DisruptionTarget by answer."},
        {NC_DRAIN_DELETE, "deletions_total", "Deletions at a last moment by answer."},
    };

    for (size_t v = 0; v < NC_ARRAY_SIZE(verbs); v++) {
        begin(out, verbs[v].family, COUNTER, verbs[v].help);
        for (enum nc_pod_answer_kind k = NC_ANSWER_ACCEPTED; k < _NC_ANSWER_MAX; k++)
            add_count(out, verbs[v].family, "answer", nc_pod_answer_name(k),
                      c->answers[verbs[v].verb][k]);
    }
}

static void add_errors(struct nc_buf *out, const char *family, const char *help,
                       const uint64_t *errors) {
    begin(out, family, COUNTER, help);
    for (enum nc_err_class e = NC_ERR_NONE + 1; e < _NC_ERR_CLASS_MAX; e++)
        add_count(out, family, "class", nc_err_class_name(e), errors[e]);
}

static void add_histogram(struct nc_buf *out, const char *family, const char *help,
                          const struct nc_histogram *h) {
    uint64_t n = 0;

    begin(out, family, HISTOGRAM, help);
    for (size_t i = 0; i < NC_LATENCY_BUCKETS; i++) {
        n += h->buckets[i];
        (void)nc_buf_printf(out, "nodeclaimd_%s_bucket{le=\"", family);
        put_sec(out, false, bounds_usec[i]);
        (void)nc_buf_printf(out, "\"} %" PRIu64 "\n", n);
    }
    (void)nc_buf_printf(out, "nodeclaimd_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", family, h->count);
    (void)nc_buf_printf(out, "nodeclaimd_%s_sum ", family);
    put_sec(out, false, (uint64_t)(h->sum_sec * 1e6 + 0.5));
    (void)nc_buf_printf(out, "\nnodeclaimd_%s_count %" PRIu64 "\n", family, h->count);
}

static void add_imds(struct nc_buf *out, const struct nc_counters *c) {
    begin(out, "imds_polls_total", COUNTER, "Answered polls of IMDS, by what was asked for.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (nc_sources[s].path)
            add_count(out, "imds_polls_total", "source", nc_source_name(s), c->imds_polls[s]);
    begin(out, "imds_last_success_timestamp_seconds", GAUGE,
          "When IMDS last gave a good answer, since the epoch.");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++)
        if (c->imds_success_usec[s])
            add_sec(out, "imds_last_success_timestamp_seconds", "source", nc_source_name(s),
                    c->imds_success_usec[s]);
    add_errors(out, "imds_errors_total", "Polls of IMDS that failed, by class.", c->imds_errors);
    add_histogram(out, "imds_latency_seconds", "How long IMDS took to answer a poll.",
                  &c->imds_latency);
}

const char *nc_api_state_name(enum nc_api_state s) {
    static const char *const names[_NC_API_STATE_MAX] = {
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

static void add_api(struct nc_buf *out, const struct nc_counters *c) {
    static const char *const writes[_NC_WRITE_MAX] = {
        [NC_WRITE_NONE] = "none",       [NC_WRITE_SIGNAL] = "signal",
        [NC_WRITE_CORDON] = "cordon",   [NC_WRITE_PROGRESS] = "progress",
        [NC_WRITE_DRAINED] = "drained", [NC_WRITE_UNDRAINED] = "undrained",
        [NC_WRITE_RELEASE] = "release", [NC_WRITE_CALM] = "calm",
    };

    begin(out, "api_state", GAUGE, "How the way to the API server is: 1 for what holds.");
    for (enum nc_api_state s = 0; s < _NC_API_STATE_MAX; s++)
        add_count(out, "api_state", "state", nc_api_state_name(s), s == c->api_state);
    begin(out, "api_requests_total", COUNTER, "Requests to the API server, without watches.");
    add_count(out, "api_requests_total", NULL, NULL, c->api_requests);
    add_errors(out, "api_errors_total", "Requests to the API server that failed, by class.",
               c->api_errors);
    add_histogram(out, "api_latency_seconds", "How long the API server took to answer.",
                  &c->api_latency);
    begin(out, "node_writes_total", COUNTER, "Writes of the own Node, by kind.");
    for (enum nc_node_write_kind w = NC_WRITE_NONE + 1; w < _NC_WRITE_MAX; w++)
        add_count(out, "node_writes_total", "write", writes[w], c->node_writes[w]);
    begin(out, "node_write_failures_total", COUNTER, "Of them: those that failed, by kind.");
    for (enum nc_node_write_kind w = NC_WRITE_NONE + 1; w < _NC_WRITE_MAX; w++)
        add_count(out, "node_write_failures_total", "write", writes[w], c->node_writes_failed[w]);
}

static void add_rest(struct nc_buf *out, const struct nc_counters *c) {
    begin(out, "watch_restarts_total", COUNTER, "Watches that had to begin again with a list.");
    add_count(out, "watch_restarts_total", NULL, NULL, c->watch_restarts);
    begin(out, "reloads_total", COUNTER, "How often the configuration was read again.");
    add_count(out, "reloads_total", NULL, NULL, c->reloads);
    begin(out, "clock_skew_seconds", GAUGE, "The clock of EC2 minus the clock of this machine.");
    name(out, "clock_skew_seconds", NULL, NULL);
    put_sec(out, c->skew_usec < 0,
            c->skew_usec < 0 ? -(uint64_t)c->skew_usec : (uint64_t)c->skew_usec);
    (void)nc_buf_putc(out, '\n');
}

void nc_daemon_metrics_view(const struct nc_life_view *v, const struct nc_counters *c,
                            uint64_t now_usec, struct nc_buf *out) {
    add_state(out, v, c->started_usec);
    add_notices(out, v, c, now_usec);
    add_moments(out, v, now_usec);
    add_pods(out, &v->drain, now_usec);
    add_answers(out, c);
    add_imds(out, c);
    add_api(out, c);
    add_rest(out, c);
}

void nc_daemon_metrics(const struct nc_life *l, const struct nc_counters *c, uint64_t now_usec,
                       struct nc_buf *out) {
    struct nc_life_view v;

    nc_life_look(l, now_usec, &v);
    nc_daemon_metrics_view(&v, c, now_usec, out);
}
