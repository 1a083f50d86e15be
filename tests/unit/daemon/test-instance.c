/*
 * What the daemon knows before it acts: facts, policies and names, from an IMDS on loopback and a
 * folder of configuration; and what it does where one of them is of no use.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon.h"
#include "groups.h"
#include "log.h"
#include "loopback.h"
#include "nc/file.h"
#include "nc/str.h"

#define CONF "/etc/nodeclaimd/conf.d"

struct world {
    struct nc_app app;
    struct nc_daemon d;
    struct loopback *server;
    char root[64];
    atomic_bool away;
    struct nc_err err;
    bool is_gathered;
    unsigned told, accepted; /* of a configuration that is refused, and is not any more */
};

/* In the place of announce.c. */
void nc_daemon_tell_not_in_force(struct nc_daemon *d) {
    struct world *w = (struct world *)((char *)d - offsetof(struct world, d));

    w->told += d->counters.is_config_refused;
}

/* In the place of connected.c. */
void nc_daemon_gathered(struct nc_daemon *d, const struct nc_err *err) {
    struct world *w = (struct world *)((char *)d - offsetof(struct world, d));

    w->err = *err;
    w->is_gathered = true;
}

void nc_daemon_tell_config_accepted(struct nc_daemon *d) {
    struct world *w = (struct world *)((char *)d - offsetof(struct world, d));

    w->accepted++;
}

static const struct {
    const char *path, *body;
} answers[] = {
    {"/latest/api/token", "TOKEN"},
    {"/latest/dynamic/instance-identity/document",
     "{\"accountId\":\"123456789012\",\"architecture\":\"x86_64\",\"availabilityZone\":\"us-west-"
     "2a\","
     "\"imageId\":\"ami-0abcdef1234567890\",\"instanceId\":\"i-0123456789abcdef0\","
     "\"instanceType\":\"m5.large\",\"region\":\"us-west-2\"}"},
    {"/latest/meta-data/mac", "02:00:00:00:00:01"},
    {"/latest/meta-data/local-ipv4", "10.0.0.1"},
    {"/latest/meta-data/local-hostname", "ip-10-0-0-1.us-west-2.compute.internal"},
    {"/latest/meta-data/instance-life-cycle", "spot"},
};

static bool serve(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    struct world *w = userdata;

    if (atomic_load(&w->away))
        return loopback_answer(c, 503, "", "");
    for (size_t i = 0; i < NC_ARRAY_SIZE(answers); i++)
        if (nc_streq(r->path, answers[i].path))
            return loopback_answer(c, 200, "Content-Type: text/plain\r\n", answers[i].body);
    return loopback_answer(c, 404, "", "");
}

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    (void)snprintf(w->root, sizeof(w->root), "/tmp/nodeclaimd-test-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    w->server = loopback_start(NULL, serve, w);
    w->app.opts =
        (struct nc_options){.command = "test", .root = w->root, .imds = loopback_url(w->server)};
    w->d.app = &w->app;
    assert_int_equal(nc_log_set_level("error"), 0);
    assert_int_equal(nc_app_loop(&w->app, &w->err), 0);
    assert_int_equal(nc_imds_new(w->app.event, w->app.opts.imds, &w->d.imds, &w->err), 0);
    nc_daemon_defaults(&w->d);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    static const char *const names[] = {CONF "/10.yaml", CONF, "/etc/nodeclaimd", "/etc", ""};
    struct world *w = *state;

    nc_gather_done(&w->d.gather);
    nc_imds_free(w->d.imds);
    free(w->d.node_name);
    free(w->d.provider_id);
    free(w->d.not_in_force);
    nc_app_done(&w->app);
    loopback_stop(w->server);
    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++) {
        nc_auto_free char *path = nc_asprintf("%s%s", w->root, names[i]);
        (void)remove(path);
    }
    free(w);
    return 0;
}

#define CLUSTER "  cluster:\n    cidr: 10.100.0.0/16\n    auth: {kubeconfig: /etc/kubeconfig}\n"

/* An AgentConfig with this below spec, two spaces in. */
static void configure(struct world *w, const char *spec) {
    nc_auto_free char *path = nc_asprintf("%s" CONF "/10.yaml", w->root);
    nc_auto_free char *text =
        nc_asprintf("apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n%s", spec);

    assert_true(nc_file_write(path, text, strlen(text), 0644, NULL) >= 0);
}

static int gather(struct world *w) {
    w->is_gathered = false;
    nc_daemon_gather_start(&w->d);
    while (!w->is_gathered)
        assert_true(sd_event_run(w->app.event, UINT64_MAX) >= 0);
    return w->err.class == NC_ERR_NONE ? 0 : -1;
}

static void assert_built_in(const struct nc_daemon *d) {
    assert_int_equal(d->rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_DRAIN);
    assert_int_equal(d->rules.drain.policy[NC_SOURCE_REBALANCE], NC_POLICY_REPORT);
    assert_int_equal(d->rules.drain.policy[NC_SOURCE_MAINTENANCE], NC_POLICY_DRAIN);
    assert_int_equal(d->rules.drain.policy[NC_SOURCE_AUTOSCALING], NC_POLICY_DRAIN);
    assert_int_equal(d->rules.drain.policy[NC_SOURCE_SHUTDOWN], NC_POLICY_DRAIN);
    assert_int_equal(d->rules.drain.mode, NC_DRAIN_AUTO);
    assert_int_equal(d->rules.drain.margin_usec, 15000000);
    assert_false(d->gather.has_config);
}

static void test_built_in_policies(void **state) {
    struct world *w = *state;

    assert_built_in(&w->d);
}

/* Without a configuration the API server is to say who we are; which instance this is IMDS says. */
static void test_no_configuration(void **state) {
    struct world *w = *state;

    assert_int_equal(gather(w), 0);
    assert_built_in(&w->d);
    assert_true(w->d.has_facts);
    assert_int_equal(w->d.gather.facts.purchase_option, NC_PURCHASE_SPOT);
    assert_null(w->d.node_name);
    assert_string_equal(w->d.provider_id, "aws:///us-west-2a/i-0123456789abcdef0");
}

static void test_configuration(void **state) {
    struct world *w = *state;

    configure(w, CLUSTER "  interruption: {spot: cordon, rebalance: drain}\n"
                         "  drain: {mode: always, margin: 3s, linger: 4s, podEvents: false, "
                         "toleratingLast: true}\n");
    assert_int_equal(gather(w), 0);
    assert_true(w->d.gather.has_config);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_CORDON);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_REBALANCE], NC_POLICY_DRAIN);
    assert_int_equal(w->d.rules.drain.mode, NC_DRAIN_ALWAYS);
    assert_int_equal(w->d.rules.drain.margin_usec, 3000000);
    assert_int_equal(w->d.rules.drain.linger_usec, 4000000);
    assert_true(w->d.rules.drain.tolerating_last);
    assert_false(w->d.gather.config.drain.pod_events);
    assert_string_equal(w->d.gather.config.kubeconfig, "/etc/kubeconfig");
    assert_string_equal(w->d.node_name, "ip-10-0-0-1.us-west-2.compute.internal");
    assert_null(w->d.gather.config.tree); /* what is not needed any more is gone */
    assert_int_equal(w->d.gather.documents.n_docs, 0);
}

static void test_a_name_that_was_given(void **state) {
    struct world *w = *state;

    w->app.opts.node_name = "given";
    w->d.node_name = nc_strdup("given");
    configure(w, CLUSTER);
    assert_int_equal(gather(w), 0);
    assert_string_equal(w->d.node_name, "given");
}

/* Somebody else brought the node into the cluster: our documents say what is to be done. */
static void test_only_policies(void **state) {
    struct world *w = *state;

    configure(w, "  interruption: {spot: report}\n  report: {events: false}\n");
    assert_int_equal(gather(w), 0);
    assert_true(w->d.gather.has_config);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_REPORT);
    assert_false(w->d.gather.config.report_events);
    assert_null(w->d.node_name);
    assert_string_equal(w->d.provider_id, "aws:///us-west-2a/i-0123456789abcdef0");
}

/* What a person must correct is said, and stops nothing: first the built-in policies, later those
 * before it, are in force. */
static void test_configuration_that_is_of_no_use(void **state) {
    struct world *w = *state;

    configure(w, "  interruption: [\n");
    assert_int_equal(gather(w), 0);
    assert_built_in(&w->d);
    assert_true(w->d.has_facts);
    assert_int_equal(w->told, 1);
    configure(w, "  interruption: {spot: report}\n");
    assert_int_equal(gather(w), 0);
    assert_int_equal(gather(w), 0);
    assert_int_equal(w->accepted, 1);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_REPORT);
    assert_false(w->d.counters.is_config_refused);
    configure(w, "  interruption: [\n");
    assert_int_equal(gather(w), 0);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_REPORT);
    assert_true(w->d.gather.has_config);
    assert_true(w->d.counters.is_config_refused);
    assert_int_equal(w->told, 2);
}

/* At the start, when nothing was in force before: what is not refused is. */
static void test_the_rest_of_what_is_refused(void **state) {
    struct world *w = *state;

    configure(w, "  interruption: {spot: nonsense, rebalance: drain}\n  drain: {mode: \"off\"}\n");
    assert_int_equal(gather(w), 0);
    assert_int_equal(w->d.rules.drain.mode, NC_DRAIN_OFF);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_DRAIN);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_REBALANCE], NC_POLICY_DRAIN);
    assert_non_null(strstr(w->d.not_in_force, "spec.interruption.spot"));
    assert_non_null(strstr(w->d.not_in_force, "the other policies are in force"));
    configure(w, "  drain: {mode: nonsense}\n"); /* now there is a former configuration */
    assert_int_equal(gather(w), 0);
    assert_int_equal(w->d.rules.drain.mode, NC_DRAIN_OFF);
    assert_non_null(strstr(w->d.not_in_force, "the former policies are in force"));
    configure(w, "  interruption: {rebalance: cordon}\n");
    assert_int_equal(gather(w), 0);
    configure(w, "  interruption: {spot: nonsense}\n  drain: {mode: observe}\n");
    assert_int_equal(gather(w), 0);
    assert_int_equal(w->d.rules.drain.mode, NC_DRAIN_OBSERVE);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_REBALANCE], NC_POLICY_CORDON);
    assert_non_null(strstr(w->d.not_in_force, "(but for drain.mode)"));
}

/* A field that is misspelled is told at the start, also behind what is only worth a word; what
 * somebody meant by it is not guessed. */
static void test_a_field_that_nobody_knows(void **state) {
    struct world *w = *state;

    configure(w, "  kubelet: {config: {kubeReserved: {cpu: 1}}}\n"
                 "  drain: {mod: observe, margn: 1s}\n");
    assert_int_equal(gather(w), 0);
    assert_int_equal(w->d.rules.drain.mode, NC_DRAIN_AUTO);
    assert_false(w->d.counters.is_config_refused);
    assert_non_null(strstr(w->d.not_in_force, "10.yaml:5:11: spec.drain.mod: unknown field, did "
                                              "you mean \"mode\"?"));
}

/* "off" of one document holds whatever stands beside it, at the start and at a reload. */
static void test_off_beside_what_is_no_document(void **state) {
    static const struct {
        const char *text, *link; /* neither: a folder */
    } rows[] = {
        {"apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n\tdrain: {}\n", NULL},
        {"apiVersion: nodeclaimd.io/v9\nkind: AgentConfig\nspec: {}\n", NULL},
        {"apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfg\nspec: {}\n", NULL},
        {"spec: {}\n", NULL},
        {"- a\n", NULL},
        {"MIME-Version: 1.0\nContent-Type: multipart/mixed\n\nx", NULL},
        {"apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: 7\n", NULL},
        {NULL, "/nowhere"},
        {NULL, "05.yaml"}, /* in a circle: this machine cannot read it, and tries again */
        {NULL, NULL},
    };
    struct world *w = *state;
    nc_auto_free char *path = nc_asprintf("%s" CONF "/05.yaml", w->root);

    for (size_t i = 0; i < 2 * NC_ARRAY_SIZE(rows); i++) {
        const char *text = rows[i / 2].text, *link = rows[i / 2].link;
        print_message("# row %zu\n", i);
        nc_daemon_defaults(&w->d);
        configure(w, "  drain: {mode: auto}\n");
        if (i % 2)
            assert_int_equal(gather(w), 0);
        configure(w, "  drain: {mode: \"off\"}\n");
        if (text)
            assert_true(nc_file_write(path, text, strlen(text), 0644, NULL) >= 0);
        else
            assert_int_equal(link ? symlink(link, path) : mkdir(path, 0755), 0);
        assert_int_equal(gather(w), link && *link != '/' ? -1 : 0);
        assert_int_equal(w->d.rules.drain.mode, NC_DRAIN_OFF);
        assert_true(w->d.counters.is_config_refused);
        assert_non_null(strstr(w->d.not_in_force, "05.yaml"));
        assert_int_equal(remove(path), 0);
    }
}

static void test_imds_is_unavailable(void **state) {
    struct world *w = *state;

    configure(w, "  interruption: {spot: report}\n");
    atomic_store(&w->away, true);
    assert_true(gather(w) < 0);
    assert_int_equal(w->err.class, NC_ERR_TRANSIENT);
    assert_false(w->d.has_facts);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_REPORT);
    atomic_store(&w->away, false);
    assert_int_equal(gather(w), 0);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_REPORT);
    atomic_store(&w->away, true); /* at a reload: what is known stays */
    assert_true(gather(w) < 0);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_REPORT);
    assert_string_equal(w->d.gather.facts.instance_id, "i-0123456789abcdef0");
}

/* A reload while an attempt is in flight begins anew, and one that is given up is never told. */
static void test_begun_anew(void **state) {
    struct world *w = *state;

    nc_daemon_gather_start(&w->d);
    configure(w, "  interruption: {spot: report}\n");
    assert_int_equal(gather(w), 0);
    assert_int_equal(w->d.rules.drain.policy[NC_SOURCE_SPOT], NC_POLICY_REPORT);
    w->is_gathered = false;
    nc_daemon_gather_start(&w->d);
    assert_true(sd_event_run(w->app.event, 0) >= 0);
    nc_daemon_gather_cancel(&w->d);
    for (int k = 0; k < 100; k++)
        assert_true(sd_event_run(w->app.event, 1000) >= 0);
    assert_false(w->is_gathered);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(test_built_in_policies),
        TEST(test_no_configuration),
        TEST(test_configuration),
        TEST(test_a_name_that_was_given),
        TEST(test_only_policies),
        TEST(test_configuration_that_is_of_no_use),
        TEST(test_imds_is_unavailable),
        TEST(test_begun_anew),
        TEST(test_the_rest_of_what_is_refused),
        TEST(test_a_field_that_nobody_knows),
        TEST(test_off_beside_what_is_no_document),
    };

    return run_group(tests, NULL, NULL);
}
