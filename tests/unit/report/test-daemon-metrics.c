/*
 * The daemon's metrics: the samples that a person would be woken by.
 */
#include "base-test.h"
#include "nc/daemon-metrics.h"

#define SEC 1000000ull
#define NOW (1767225600 * SEC)

static void assert_has(const struct nc_buf *b, const char *line) {
    nc_auto_free char *whole = nc_asprintf("\n%s\n", line);

    if (!strstr(b->data, whole))
        fail_msg("no line \"%s\" in\n%s", line, b->data);
}

static void assert_lacks(const struct nc_buf *b, const char *text) {
    if (strstr(b->data, text))
        fail_msg("\"%s\" in\n%s", text, b->data);
}

static void fill_counters(struct nc_counters *c) {
    *c = (struct nc_counters){.started_usec = NOW - 3600 * SEC,
                              .imds_polls = {[NC_SOURCE_SPOT] = 7},
                              .imds_errors = {[NC_ERR_TRANSIENT] = 2},
                              .imds_success_usec = {[NC_SOURCE_SPOT] = NOW - SEC / 2},
                              .api_state = NC_API_REFUSED,
                              .api_requests = 9,
                              .api_errors = {[NC_ERR_AUTH] = 1},
                              .node_writes = {[NC_WRITE_CORDON] = 1},
                              .node_writes_failed = {[NC_WRITE_SIGNAL] = 3},
                              .notices = {[NC_SOURCE_SPOT] = 1},
                              .reloads = 4,
                              .watch_restarts = 5,
                              .skew_usec = -1500000};
    c->answers[NC_DRAIN_EVICT][NC_ANSWER_BUDGET] = 11;
    c->answers[NC_DRAIN_DELETE][NC_ANSWER_ACCEPTED] = 12;
    c->answers[NC_DRAIN_MARK][NC_ANSWER_REFUSED] = 13;
}

static void write_text(struct nc_buf *b) {
    static struct nc_notice notices[_NC_SOURCE_MAX];
    const struct nc_lifecycle_view view = {
        .phase = NC_LIFECYCLE_EVICTING,
        .is_active = {[NC_SOURCE_SPOT] = true, [NC_SOURCE_REBALANCE] = true},
        .noticed_usec = {[NC_SOURCE_SPOT] = NOW - 2250000, [NC_SOURCE_REBALANCE] = NOW + SEC},
        .notices = notices,
        .leading = NC_SOURCE_SPOT,
        .policy = NC_POLICY_DRAIN,
        .deadline_usec = NOW + 100 * SEC,
        .t_usec = NOW - 5 * SEC,
        .is_ours = true,
        .cordoned_usec = NOW - 2 * SEC,
        .drain = {.total = 8,
                  .remaining = 6,
                  .leaving = 3,
                  .kept = 2,
                  .blocked = 1,
                  .excluded = {[NC_POD_REASON_STUCK] = 4},
                  .last_progress_usec = NOW - SEC,
                  .is_forcing = true,
                  .cut = 2,
                  .gap = NC_LIST_UNREADABLE}};
    struct nc_counters c;

    notices[NC_SOURCE_SPOT].deadline_usec = NOW + 100 * SEC;
    fill_counters(&c);
    nc_histogram_add(&c.imds_latency, 1000);
    nc_histogram_add(&c.imds_latency, 1001);
    nc_histogram_add(&c.imds_latency, 3000000);
    nc_daemon_metrics_view(&view, &c, b);
}

static void test_samples(void **state) {
    static const char *const lines[] = {
        "nodeclaimd_start_time_seconds 1767222000",
        "nodeclaimd_phase{phase=\"evicting\"} 1",
        "nodeclaimd_phase{phase=\"idle\"} 0",
        "nodeclaimd_policy{policy=\"drain\"} 1",
        "nodeclaimd_policy{policy=\"ignore\"} 0",
        "nodeclaimd_notice_active{source=\"spot\"} 1",
        "nodeclaimd_notice_active{source=\"shutdown\"} 0",
        "nodeclaimd_notices_total{source=\"spot\"} 1",
        "nodeclaimd_notice_timestamp_seconds{source=\"spot\"} 1767225597.75",
        "nodeclaimd_notice_timestamp_seconds{source=\"rebalance\"} 1767225601",
        "nodeclaimd_notice_deadline_timestamp_seconds{source=\"spot\"} 1767225700",
        "nodeclaimd_deadline_timestamp_seconds 1767225700",
        "nodeclaimd_force_delete_timestamp_seconds 1767225595",
        "nodeclaimd_cordon_owned 1",
        "nodeclaimd_cordon_timestamp_seconds 1767225598",
        "nodeclaimd_drain_pods 8",
        "nodeclaimd_drain_pods_remaining 6",
        "nodeclaimd_drain_pods_leaving 3",
        "nodeclaimd_drain_pods_kept 2",
        "nodeclaimd_drain_pods_blocked 1",
        "nodeclaimd_drain_pods_cut 2",
        "nodeclaimd_drain_forcing 1",
        "nodeclaimd_drain_pods_excluded{reason=\"stuck\"} 4",
        "nodeclaimd_drain_list_incomplete{reason=\"TooManyPods\"} 0",
        "nodeclaimd_drain_list_incomplete{reason=\"UnreadablePod\"} 1",
        "nodeclaimd_drain_progress_timestamp_seconds 1767225599",
        "nodeclaimd_evictions_total{answer=\"budget\"} 11",
        "nodeclaimd_deletions_total{answer=\"accepted\"} 12",
        "nodeclaimd_marks_total{answer=\"refused\"} 13",
        "nodeclaimd_imds_polls_total{source=\"spot\"} 7",
        "nodeclaimd_imds_last_success_timestamp_seconds{source=\"spot\"} 1767225599.5",
        "nodeclaimd_imds_errors_total{class=\"transient\"} 2",
        "nodeclaimd_api_state{state=\"refused\"} 1",
        "nodeclaimd_api_state{state=\"connected\"} 0",
        "nodeclaimd_api_requests_total 9",
        "nodeclaimd_api_errors_total{class=\"auth\"} 1",
        "nodeclaimd_node_writes_total{write=\"cordon\"} 1",
        "nodeclaimd_node_write_failures_total{write=\"signal\"} 3",
        "nodeclaimd_reloads_total 4",
        "nodeclaimd_watch_restarts_total 5",
        "nodeclaimd_clock_skew_seconds -1.5",
        "nodeclaimd_imds_request_duration_seconds_bucket{le=\"0.001\"} 1",
        "nodeclaimd_imds_request_duration_seconds_bucket{le=\"0.0025\"} 2",
        "nodeclaimd_imds_request_duration_seconds_bucket{le=\"2.5\"} 2",
        "nodeclaimd_imds_request_duration_seconds_bucket{le=\"+Inf\"} 3",
        "nodeclaimd_imds_request_duration_seconds_sum 3.002001",
        "nodeclaimd_imds_request_duration_seconds_count 3",
        "nodeclaimd_api_request_duration_seconds_sum 0",
    };
    struct nc_buf b = NC_BUF_INIT;

    (void)state;
    write_text(&b);
    for (size_t i = 0; i < NC_ARRAY_SIZE(lines); i++)
        assert_has(&b, lines[i]);
    assert_lacks(&b, "nodeclaimd_bootstrap_");
    assert_lacks(&b, "notice_deadline_timestamp_seconds{source=\"rebalance\"}");
    assert_lacks(&b, "last_success_timestamp_seconds{source=\"maintenance\"}");
    assert_lacks(&b, "\"unknown\"");
    nc_buf_done(&b);
}

/* A lifecycle that has just begun says so; what does not exist is left out. */
static void test_of_a_lifecycle(void **state) {
    const struct nc_lifecycle_rules rules = {0};
    const struct nc_counters c = {0};
    struct nc_lifecycle *l = nc_lifecycle_new(&rules);
    struct nc_buf b = NC_BUF_INIT;

    (void)state;
    nc_daemon_metrics(l, &c, NOW, &b);
    assert_has(&b, "nodeclaimd_phase{phase=\"idle\"} 1");
    assert_lacks(&b, "\nnodeclaimd_notice_timestamp_seconds");
    assert_lacks(&b, "\nnodeclaimd_deadline_timestamp_seconds");
    assert_lacks(&b, "\nnodeclaimd_force_delete_timestamp_seconds");
    assert_lacks(&b, "\nnodeclaimd_cordon_timestamp_seconds");
    assert_lacks(&b, "\nnodeclaimd_drain_progress_timestamp_seconds");
    assert_has(&b, "nodeclaimd_clock_skew_seconds 0");
    nc_buf_done(&b);
    nc_lifecycle_free(l);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_of_a_lifecycle),
    };

    return cmocka_run_group_tests_name("daemon metrics", tests, NULL, NULL);
}
