/*
 * Prometheus' text format: numbers, labels, histograms.
 */
#include "base-test.h"
#include "groups.h"
#include "nc/prometheus.h"

static void test_samples(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    struct nc_metrics m = {.out = &b, .prefix = "x_"};

    (void)state;
    nc_metric_one(&m, "n_total", NC_COUNTER, "Number of n.", UINT64_MAX);
    nc_metric_family(&m, "t_seconds", NC_GAUGE, "Times.");
    nc_metric_usec(&m, NULL, 0);
    nc_metric_usec(&m, NC_LABELS("a", "b"), 1767225599500000);
    nc_metric_usec(&m, NC_LABELS("a", "c"), -1000001);
    nc_metric_usec(&m, NC_LABELS("a", "d"), -200);
    nc_metric_usec(&m, NC_LABELS("a", "e"), INT64_MIN);
    nc_metric_count(&m, NC_LABELS("a", "q\"b\\l\n", "f", ""), 0);
    assert_string_equal(b.data, "# HELP x_n_total Number of n.\n"
                                "# TYPE x_n_total counter\n"
                                "x_n_total 18446744073709551615\n"
                                "# HELP x_t_seconds Times.\n"
                                "# TYPE x_t_seconds gauge\n"
                                "x_t_seconds 0\n"
                                "x_t_seconds{a=\"b\"} 1767225599.5\n"
                                "x_t_seconds{a=\"c\"} -1.000001\n"
                                "x_t_seconds{a=\"d\"} -0.0002\n"
                                "x_t_seconds{a=\"e\"} -9223372036854.775808\n"
                                "x_t_seconds{a=\"q\\\"b\\\\l\\n\",f=\"\"} 0\n");
    nc_buf_done(&b);
}

static void test_histogram(void **state) {
    struct nc_histogram h = {0};
    struct nc_buf b = NC_BUF_INIT;
    struct nc_metrics m = {.out = &b, .prefix = ""};

    (void)state;
    nc_histogram_add(&h, 0);
    nc_histogram_add(&h, 1000); /* at the bound: in its bucket */
    nc_histogram_add(&h, 1001); /* beyond: in the next */
    nc_histogram_add(&h, 30000000);
    nc_histogram_add(&h, 30000001);
    assert_int_equal(nc_histogram_count(&h), 5);
    nc_metric_histogram(&m, "d_seconds", "Durations.", &h);
    assert_string_equal(b.data, "# HELP d_seconds Durations.\n"
                                "# TYPE d_seconds histogram\n"
                                "d_seconds_bucket{le=\"0.001\"} 2\n"
                                "d_seconds_bucket{le=\"0.0025\"} 3\n"
                                "d_seconds_bucket{le=\"0.005\"} 3\n"
                                "d_seconds_bucket{le=\"0.01\"} 3\n"
                                "d_seconds_bucket{le=\"0.025\"} 3\n"
                                "d_seconds_bucket{le=\"0.05\"} 3\n"
                                "d_seconds_bucket{le=\"0.1\"} 3\n"
                                "d_seconds_bucket{le=\"0.25\"} 3\n"
                                "d_seconds_bucket{le=\"0.5\"} 3\n"
                                "d_seconds_bucket{le=\"1\"} 3\n"
                                "d_seconds_bucket{le=\"2.5\"} 3\n"
                                "d_seconds_bucket{le=\"5\"} 3\n"
                                "d_seconds_bucket{le=\"10\"} 3\n"
                                "d_seconds_bucket{le=\"30\"} 4\n"
                                "d_seconds_bucket{le=\"+Inf\"} 5\n"
                                "d_seconds_sum 60.002002\n"
                                "d_seconds_count 5\n");
    nc_buf_done(&b);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samples),
        cmocka_unit_test(test_histogram),
    };

    return run_group(tests, NULL, NULL);
}
