/*
 * The controller's command line: what each option takes, what is refused and how, the defaults.
 */
#include "base-test.h"
#include "groups.h"

#include "log.h"
#include "nc/mem.h"
#include "nc/standalone.h"
#include "options.h"
#include "process.h"
#include "settings.h"

#define MAX_WORDS 16

static const struct nc_standalone *mode = &nc_standalone;

static int read_line(const char *line, struct nc_settings *ret, int *ret_code) {
    static char text[512]; /* settings borrow from it */
    static char *argv[MAX_WORDS + 2];
    int argc = 1;

    (void)snprintf(text, sizeof(text), "%s", line);
    argv[0] = (char *)"nodeclaim-controller";
    for (char *w = strtok(text, " "); w && argc <= MAX_WORDS; w = strtok(NULL, " "))
        argv[argc++] = w;
    argv[argc] = NULL;
    return nc_settings_read(argc, argv, mode, ret, ret_code);
}

static int set_up(void **state) {
    (void)state;
    (void)unsetenv("KUBERNETES_SERVICE_HOST");
    (void)unsetenv("AWS_REGION");
    (void)unsetenv("NODE_ADDRESS");
    (void)unsetenv("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    return 0;
}

static void test_defaults(void **state) {
    struct nc_settings s;
    int code = -1;

    (void)state;
    assert_int_equal(read_line("", &s, &code), 0);
    assert_string_equal(s.command, "run");
    assert_int_equal(s.mode, NC_CONTROL_MODE_UNKNOWN);
    assert_int_equal(s.rules.order, NC_CONTROL_BOTH);
    assert_int_equal(s.rules.margin_usec, 15000000);
    assert_int_equal(s.rules.timestamp_after_usec, 5000000);
    assert_int_equal(s.rules.max_in_flight, 64);
    assert_false(s.rules.terminates || s.rules.rebalances || s.no_leader_election);
    assert_false(s.rules.out_of_service);
    assert_string_equal(s.lease_name, "nodeclaim-controller");
    assert_null(s.lease_namespace);
    assert_null(s.kubeconfig);
    assert_null(s.identity);
    assert_int_equal(s.lease_duration_usec, 15000000);
    assert_int_equal(s.renew_usec, 10000000);
    assert_int_equal(s.retry_usec, 2000000);
    assert_string_equal(s.metrics_address, "127.0.0.1:8080");
}

/* Without a command the first option is not swallowed as one. */
static void test_all_options(void **state) {
    struct nc_settings s;
    int code = -1;

    (void)state;
    assert_int_equal(read_line("--mode standalone --order delete-first --margin 20s", &s, &code),
                     0);
    assert_string_equal(s.command, "run");
    assert_int_equal(s.mode, NC_CONTROL_STANDALONE);
    assert_int_equal(s.rules.order, NC_CONTROL_DELETE_FIRST);
    assert_int_equal(s.rules.margin_usec, 20000000);
    assert_int_equal(read_line("run --kubeconfig /k --max-in-flight 128 --rebalance drain "
                               "--terminate",
                               &s, &code),
                     0);
    assert_string_equal(s.kubeconfig, "/k");
    assert_int_equal(s.rules.max_in_flight, 128);
    assert_true(s.rules.rebalances && s.rules.terminates);
    assert_int_equal(s.rules.identity, NC_CONTROL_IDENTITY_EC2); /* nobody has to ask for it */
    assert_int_equal(s.rules.ceiling_usec, 24ull * 3600 * 1000000);
    assert_int_equal(read_line("run --node-identity admission --ending-ceiling 0s "
                               "--karpenter-namespace a --karpenter-namespace b-1",
                               &s, &code),
                     0);
    assert_int_equal(s.rules.identity, NC_CONTROL_IDENTITY_ADMISSION);
    assert_int_equal(s.rules.ceiling_usec, 0);
    assert_int_equal(s.rules.zone_turn_usec, 0); /* only where it is asked for */
    assert_string_equal(s.karpenter_namespaces[1], "b-1");
    assert_null(s.karpenter_namespaces[2]);
    assert_false(s.rules.replaces);
    assert_int_equal(read_line("--replacement-first web --replacement-first=shop "
                               "--replacement-first web",
                               &s, &code),
                     0);
    assert_true(s.rules.replaces);
    assert_string_equal(s.replacement_namespaces[0], "web");
    assert_string_equal(s.replacement_namespaces[1], "shop");
    assert_null(s.replacement_namespaces[2]);
    assert_int_equal(read_line("run --lease-duration 4s --renew-deadline 2s --retry-period 500ms "
                               "--no-leader-election",
                               &s, &code),
                     0);
    assert_int_equal(s.lease_duration_usec, 4000000);
    assert_int_equal(s.renew_usec, 2000000);
    assert_int_equal(s.retry_usec, 500000);
    assert_true(s.no_leader_election);
    assert_int_equal(
        read_line("--metrics-address off --timestamp-after 0s --identity a_b", &s, &code), 0);
    assert_null(s.metrics_address);
    assert_int_equal(s.rules.timestamp_after_usec, 0);
    assert_string_equal(s.identity, "a_b");
    assert_false(s.rules.completes_actions);
    assert_string_equal(s.lifecycle_hook, "nodeclaimd");
    assert_int_equal(read_line("--complete-lifecycle-actions --lifecycle-hook a/b_c-1 --region "
                               "us-west-2 --autoscaling-endpoint https://a.example",
                               &s, &code),
                     0);
    assert_true(s.rules.completes_actions);
    assert_string_equal(s.lifecycle_hook, "a/b_c-1");
    assert_string_equal(s.autoscaling_endpoint, "https://a.example");
    assert_int_equal(read_line("status -o json --metrics-address [::1]:9", &s, &code), 0);
    assert_string_equal(s.command, "status");
    assert_true(s.json);
    assert_int_equal(read_line("--mode auto --zone-turn 24h", &s, &code), 0);
    assert_int_equal(s.rules.zone_turn_usec, 24ull * 3600 * 1000000);
    assert_int_equal(read_line("--mode standalone --zone-turn 1m", &s, &code), 0);
    assert_int_equal(s.rules.zone_turn_usec, 60ull * 1000000);
    assert_int_equal(read_line("--out-of-service-taint --region us-west-2", &s, &code), 0);
    assert_true(s.rules.out_of_service);
    assert_false(s.rules.no_taint_after_reboot);
    assert_int_equal(read_line("--after-reboot leave", &s, &code), 0);
    assert_true(s.rules.no_taint_after_reboot);
    assert_int_equal(read_line("--version", &s, &code), 0);
    assert_string_equal(s.command, "version");
}

/* Names of before that are accepted for a while, and that help does not show. */
static void test_former_names(void **state) {
    struct nc_settings s;
    int code = -1;

    (void)state;
    assert_int_equal(read_line("--stamp-after 7s", &s, &code), 0);
    assert_int_equal(s.rules.timestamp_after_usec, 7000000);
}

static void test_environment(void **state) {
    struct nc_settings s;
    int code = -1;

    (void)state;
    (void)setenv("AWS_REGION", "eu-west-1", 1);
    (void)setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "", 1);
    assert_int_equal(read_line("", &s, &code), 0);
    assert_string_equal(s.region, "eu-west-1");
    assert_null(s.imds); /* an empty variable is none */
    (void)setenv("NODE_ADDRESS", "2001:db8::1", 1);
    assert_int_equal(read_line("", &s, &code), 0);
    assert_string_equal(s.node_address, "2001:db8::1");
    assert_int_equal(read_line("--node-address 10.0.0.1", &s, &code), 0);
    assert_string_equal(s.node_address, "10.0.0.1");
    assert_int_equal(read_line("--region us-west-2", &s, &code), 0);
    assert_string_equal(s.region, "us-west-2");
}

/* What a build with --disable-standalone has not is refused, and nothing else. */
static void test_no_standalone(void **state) {
    static const char *const has_not[] = {"--mode standalone", "run --terminate",
                                          "run --mode auto --terminate", "run --zone-turn 1h"};
    static const char *const has[] = {"", "--mode karpenter", "run --mode auto --region us-west-2"};
    struct nc_settings s;
    int code = -1;

    (void)state;
    mode = NULL;
    for (size_t i = 0; i < NC_ARRAY_SIZE(has_not); i++) {
        assert_int_not_equal(read_line(has_not[i], &s, &code), 0);
        assert_int_equal(code, NC_EXIT_USAGE);
    }
    for (size_t i = 0; i < NC_ARRAY_SIZE(has); i++) {
        assert_int_equal(read_line(has[i], &s, &code), 0);
        assert_null(s.standalone);
    }
    mode = &nc_standalone;
}

static void test_refused(void **state) {
    static const char *const lines[] = {
        "bogus",
        "run extra",
        "--bogus",
        "run --mode",
        "--mode both",
        "--order delete",
        "--margin 11m",
        "--margin 15",
        "--margin -1s",
        "--stamp-after 1h",
        "--mode alone",
        "--max-in-flight 3",
        "--max-in-flight 1025",
        "--max-in-flight 64x",
        "--rebalance yes",
        "--metrics-address 8080",
        "--metrics-address localhost:8080",
        "--metrics-address 127.0.0.1:65536",
        "--metrics-address ::1:8080",
        "--metrics-address [127.0.0.1]:8080",
        "--lease-name a/b",
        "--lease-name ..",
        "--lease-namespace kube.system",
        "--lease-namespace Kube",
        "--identity \x01",
        "--lease-duration 2h",
        "--lease-duration 500ms",
        "--lease-duration 10s --renew-deadline 10s",
        "--node-address a-node",
        "--retry-period 0s",
        "--retry-period 9s",
        "--mode karpenter --terminate",
        "--mode karpenter --zone-turn 1h",
        "--zone-turn 59s",
        "--zone-turn 24h1s",
        "--zone-turn 0",
        "--zone-turn never",
        "--region us_west",
        "--ec2-endpoint ec2.amazonaws.com",
        "--autoscaling-endpoint autoscaling.amazonaws.com",
        "--lifecycle-hook a.b",
        "--lifecycle-hook=",
        "--complete-lifecycle-actions",
        "--log-format xml",
        "--log-level loud",
        "status --margin 1s",
        "status --metrics-address off",
        "status -o yaml",
        "version --metrics",
        "run -o json",
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(lines); i++) {
        struct nc_settings s;
        int code = 0;
        if (read_line(lines[i], &s, &code) != NC_OPTIONS_WRONG || code != NC_EXIT_USAGE)
            fail_msg("%s: was not refused", lines[i]);
    }
}

static void test_help(void **state) {
    static const char *const lines[] = {"--help",     "-h",        "help",
                                        "run --help", "status -h", "version --help"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(lines); i++) {
        struct nc_settings s;
        int code = -1;
        assert_int_equal(read_line(lines[i], &s, &code), NC_OPTIONS_HELP);
        assert_int_equal(code, 0);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_defaults, set_up),
        cmocka_unit_test_setup(test_all_options, set_up),
        cmocka_unit_test_setup(test_former_names, set_up),
        cmocka_unit_test_setup(test_environment, set_up),
        cmocka_unit_test_setup(test_no_standalone, set_up),
        cmocka_unit_test_setup(test_refused, set_up),
        cmocka_unit_test_setup(test_help, set_up),
    };

    nc_program_set(NC_CONTROLLER);
    return run_group(tests, NULL, NULL);
}
