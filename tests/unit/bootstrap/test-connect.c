/*
 * The agent's way to the API server: where its token comes from, when a new one is made, and that
 * the loop is never turned inside of itself for it.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "connect.h"
#include "gather.h"
#include "groups.h"
#include "loopback.h"
#include "nc/file.h"
#include "nc/str.h"
#include "wire.h"

#define SECOND 1000000ull

struct world {
    struct nc_app app;
    struct nc_connection connection;
    struct loopback *server;
    char root[64];
    atomic_uint credentials; /* how often they were requested */
    atomic_bool away;
    struct nc_err err;
};

static bool serve(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    static const char role[] = "/latest/meta-data/iam/security-credentials/";
    struct world *w = userdata;

    if (atomic_load(&w->away))
        return loopback_answer(c, 503, "", "");
    if (nc_streq(r->path, "/latest/api/token"))
        return loopback_answer(c, 200, "", "TOKEN");
    if (nc_streq(r->path, role))
        return loopback_answer(c, 200, "Content-Type: text/plain\r\n", "node-role");
    if (!nc_starts_with(r->path, role))
        return loopback_answer(c, 404, "", "");
    atomic_fetch_add(&w->credentials, 1);
    /* They end within the agent's margin: each new token requests them. */
    return loopback_answer(
        c, 200, "",
        "{\"Code\":\"Success\",\"Type\":\"AWS-HMAC\",\"LastUpdated\":\"2024-01-01T00:00:00Z\","
        "\"AccessKeyId\":\"ASIAEXAMPLE\",\"SecretAccessKey\":\"secret\",\"Token\":\"session\","
        "\"Expiration\":\"2024-01-01T06:00:00Z\"}");
}

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    (void)snprintf(w->root, sizeof(w->root), "/tmp/nodeclaimd-test-XXXXXX");
    assert_non_null(mkdtemp(w->root));
    w->server = loopback_start(NULL, serve, w);
    w->app.opts =
        (struct nc_options){.command = "test", .root = w->root, .imds = loopback_url(w->server)};
    *state = w;
    return 0;
}

static void remove_file(const struct world *w, const char *name) {
    nc_auto_free char *path = nc_asprintf("%s/%s", w->root, name);

    (void)remove(path);
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_connection_done(&w->connection);
    nc_app_done(&w->app);
    loopback_stop(w->server);
    remove_file(w, "kubeconfig");
    remove_file(w, "token");
    remove_file(w, "plugin");
    (void)remove(w->root);
    free(w);
    return 0;
}

static void write_file(const struct world *w, const char *name, const char *text, mode_t mode) {
    nc_auto_free char *path = nc_asprintf("%s/%s", w->root, name);

    assert_int_equal(nc_file_write(path, text, strlen(text), mode, NULL) < 0, 0);
}

/* A kubeconfig with this user. */
static int connect_as(struct world *w, const char *user) {
    nc_auto_free char *text =
        nc_asprintf("{\"apiVersion\": \"v1\", \"kind\": \"Config\", \"current-context\": \"c\", "
                    "\"contexts\": [{\"name\": \"c\", \"context\": {\"cluster\": \"k\", \"user\": "
                    "\"u\"}}], \"clusters\": [{\"name\": \"k\", \"cluster\": {\"server\": "
                    "\"https://127.0.0.1:1\"}}], \"users\": [{\"name\": \"u\", \"user\": %s}]}",
                    user);

    write_file(w, "kubeconfig", text, 0600);
    w->err = (struct nc_err)NC_ERR_INIT;
    return nc_connect(&w->app, "/kubeconfig", NULL, &w->connection, &w->err);
}

static int connect_as_node(struct world *w) {
    return connect_as(w, "{\"exec\": {\"apiVersion\": \"client.authentication.k8s.io/v1beta1\", "
                         "\"command\": \"/usr/sbin/nodeclaimd\", \"args\": [\"token\", "
                         "\"--cluster\", \"c1\", \"--region\", \"us-west-2\"]}}");
}

static int connect_by_plugin(struct world *w, const char *script) {
    nc_auto_free char *user =
        nc_asprintf("{\"exec\": {\"apiVersion\": \"client.authentication.k8s.io/v1\", "
                    "\"command\": \"%s/plugin\", \"args\": [\"get\", \"token\"]}}",
                    w->root);

    write_file(w, "plugin", script, 0700);
    return connect_as(w, user);
}

/* As kube requests it. */
static int token(struct world *w, bool refuse, char **ret) {
    const struct nc_kube *k = w->connection.kube;

    w->err = (struct nc_err)NC_ERR_INIT;
    *ret = NULL;
    return k->token(k->userdata, refuse, ret, &w->err);
}

/* The same, from a callback of the loop. */
struct inside {
    struct world *w;
    bool refuse;
    int r;
    char *token;
};

static int on_inside(sd_event_source *source, void *userdata) {
    struct inside *i = userdata;

    (void)source;
    i->r = token(i->w, i->refuse, &i->token);
    return 0;
}

static int token_inside(struct world *w, bool refuse, char **ret) {
    struct inside i = {.w = w, .refuse = refuse, .r = 1};
    sd_event_source *source = NULL;

    assert_true(sd_event_add_defer(w->app.event, &source, on_inside, &i) >= 0);
    while (i.r == 1)
        assert_true(sd_event_run(w->app.event, UINT64_MAX) >= 0);
    sd_event_source_unref(source);
    *ret = i.token;
    return i.r;
}

static void test_own_token(void **state) {
    struct world *w = *state;
    char *one, *two;

    assert_int_equal(connect_as_node(w), 0);
    assert_int_equal(token(w, false, &one), 0);
    assert_true(nc_starts_with(one, "k8s-aws-v1."));
    assert_int_equal(token(w, false, &two), 0);
    assert_string_equal(one, two);
    assert_int_equal(atomic_load(&w->credentials), 1);
    nc_secret_free(two);
    assert_int_equal(token(w, true, &two), 0); /* after a 401 */
    assert_int_equal(atomic_load(&w->credentials), 2);
    nc_secret_free(one);
    nc_secret_free(two);
}

/* What the configuration says is enough: below the root there is not one file. */
static void test_configured(void **state) {
    struct world *w = *state;
    struct nc_gather g = {.app = &w->app,
                          .facts = {.region = (char *)"us-west-2"},
                          .config = {.auth = NC_AUTH_EKS,
                                     .endpoint = (char *)"https://127.0.0.1:1//",
                                     .cluster_name = (char *)"c1",
                                     .bootstrap_token = (char *)"abcdef.0123456789abcdef",
                                     .client_certificate = (char *)"/node.crt",
                                     .client_key = (char *)"/node.key"}};
    struct nc_connection *c = &w->connection;
    nc_auto_free char *cert = nc_asprintf("%s/node.crt", w->root);
    char *text;

    assert_int_equal(nc_app_loop(&w->app, &w->err), 0);
    assert_int_equal(nc_connect_configured(&g, c, &w->err), 0);
    assert_string_equal(c->kubeconfig.server, "https://127.0.0.1:1");
    assert_false(c->is_bootstrap);
    assert_int_equal(token(w, false, &text), 0);
    assert_true(nc_starts_with(text, "k8s-aws-v1."));
    nc_secret_free(text);
    c->wants_token = true;
    assert_int_equal(nc_connection_renew(c, &w->err), 0);
    assert_int_equal(atomic_load(&w->credentials), 2);

    g.config.auth = NC_AUTH_BOOTSTRAP_TOKEN;
    assert_int_equal(nc_connect_configured(&g, c, &w->err), 0);
    assert_true(c->is_bootstrap);
    assert_int_equal(token(w, false, &text), 0);
    assert_string_equal(text, "abcdef.0123456789abcdef");
    nc_secret_free(text);

    g.config.auth = NC_AUTH_CLIENT_CERTIFICATE;
    assert_int_equal(nc_connect_configured(&g, c, &w->err), 0);
    assert_false(c->is_bootstrap);
    assert_string_equal(c->cert_file, cert);
    assert_non_null(strstr(c->key_file, "/node.key"));
    assert_null(c->kube->token);
}

static void test_none_is_made_inside_of_the_loop(void **state) {
    struct world *w = *state;
    char *one, *two;

    assert_int_equal(connect_as_node(w), 0);
    assert_int_equal(token_inside(w, false, &one), -EAGAIN);
    assert_int_equal(w->err.class, NC_ERR_TRANSIENT);
    assert_null(one);
    assert_int_equal(atomic_load(&w->credentials), 0);
    assert_int_equal(nc_connection_renew(&w->connection, &w->err), 0); /* it was missed */
    assert_int_equal(atomic_load(&w->credentials), 1);
    assert_int_equal(token_inside(w, false, &one), 0);
    assert_true(nc_starts_with(one, "k8s-aws-v1."));
    assert_int_equal(nc_connection_renew(&w->connection, &w->err), 0); /* nothing to do */
    assert_int_equal(atomic_load(&w->credentials), 1);
    assert_int_equal(token_inside(w, true, &two), -EAGAIN);
    assert_int_equal(nc_connection_renew(&w->connection, &w->err), 0);
    assert_int_equal(atomic_load(&w->credentials), 2);
    nc_secret_free(one);
}

/* Several requests meet the 401 of one token; one of the next token, soon after, is no matter of
 * the token. */
static void test_refused_again(void **state) {
    struct world *w = *state;
    char *text;

    assert_int_equal(connect_as_node(w), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(token_inside(w, true, &text), -EAGAIN);
    assert_int_equal(nc_connection_renew(&w->connection, &w->err), 0);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(token_inside(w, true, &text), -401);
    w->connection.refused_usec -= 60 * SECOND;
    w->connection.token_made_usec -= 60 * SECOND;
    assert_int_equal(nc_connection_renew(&w->connection, &w->err), 0);
    assert_int_equal(token_inside(w, true, &text), -EAGAIN);
    assert_int_equal(connect_as_node(w), 0); /* and over a new connection */
    assert_int_equal(token(w, false, &text), 0);
    nc_secret_free(text);
    assert_int_equal(token_inside(w, true, &text), -401);
}

/* Ten minutes later: the old one is given as long as it is good, and renewed outside. */
static void test_renewed_before_it_ends(void **state) {
    struct world *w = *state;
    char *one;

    assert_int_equal(connect_as_node(w), 0);
    assert_int_equal(token(w, false, &one), 0);
    nc_secret_free(one);
    w->connection.token_until_usec = nc_now_usec() + 30 * SECOND;
    assert_int_equal(token_inside(w, false, &one), 0);
    assert_true(w->connection.wants_token);
    nc_secret_free(one);
    atomic_store(&w->away, true);
    assert_true(nc_connection_renew(&w->connection, &w->err) < 0);
    assert_int_equal(token_inside(w, false, &one), 0); /* still there */
    nc_secret_free(one);
    w->connection.token_until_usec = nc_now_usec() - 1;
    assert_int_equal(token_inside(w, false, &one), -EAGAIN);
    atomic_store(&w->away, false);
    assert_int_equal(nc_connection_renew(&w->connection, &w->err), 0);
    assert_true(w->connection.token_until_usec > nc_now_usec() + 5 * 60 * SECOND);
    assert_false(w->connection.wants_token);
    assert_int_equal(token_inside(w, false, &one), 0);
    nc_secret_free(one);
}

static void test_plugin(void **state) {
    static const struct {
        const char *name, *script;
        int class; /* 0: it works */
        const char *words;
    } rows[] = {
        {"token",
         "#!/bin/sh\n[ \"$*\" = 'get token' ] && echo '{\"status\":{\"token\":\"abc\"}}'\n", 0,
         NULL},
        {"expiry",
         "#!/bin/sh\necho '{\"status\":{\"token\":\"abc\",\"expirationTimestamp\":"
         "\"2099-01-01T00:00:00Z\"}}'\n",
         0, NULL},
        {"no token", "#!/bin/sh\necho '{\"status\":{}}'\n", NC_ERR_AUTH, "no status.token"},
        {"token of another type", "#!/bin/sh\necho '{\"status\":{\"token\":7}}'\n", NC_ERR_AUTH,
         "no status.token"},
        {"noise", "#!/bin/sh\necho noise\n", -1, "exec credential"},
        {"nothing", "#!/bin/sh\n", -1, "exec credential"},
        {"failure", "#!/bin/sh\nexit 3\n", NC_ERR_AUTH, "exit code 3"},
        {"no program", "plain text\n", NC_ERR_HOST, "cannot execute"},
    };
    struct world *w = *state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        char *text;
        assert_int_equal(connect_by_plugin(w, rows[i].script), 0);
        const int r = token(w, false, &text);
        if (rows[i].class == 0 ? r != 0 || !nc_streq(text, "abc")
                               : r >= 0 || !strstr(w->err.msg, rows[i].words)
                                     || (rows[i].class > 0 && (int)w->err.class != rows[i].class))
            fail_msg("%s: %d %s", rows[i].name, r, w->err.msg);
        assert_null(strstr(w->err.msg, "abc"));
        nc_secret_free(text);
    }
}

static void test_plugin_is_not_waited_for_inside(void **state) {
    struct world *w = *state;
    char *text;

    assert_int_equal(connect_by_plugin(w, "#!/bin/sh\necho '{\"status\":{\"token\":\"abc\"}}'\n"),
                     0);
    assert_int_equal(token_inside(w, false, &text), -EAGAIN);
    assert_int_equal(nc_connection_renew(&w->connection, &w->err), 0);
    assert_int_equal(token_inside(w, false, &text), 0);
    assert_string_equal(text, "abc");
    nc_secret_free(text);
}

static void test_token_file(void **state) {
    struct world *w = *state;
    char *text;

    write_file(w, "token", "first\n", 0600);
    assert_int_equal(connect_as(w, "{\"tokenFile\": \"/token\"}"), 0);
    assert_int_equal(token_inside(w, false, &text), 0);
    assert_string_equal(text, "first");
    nc_secret_free(text);
    write_file(w, "token", "second\n", 0600);
    assert_int_equal(token_inside(w, true, &text), 0);
    assert_string_equal(text, "second");
    nc_secret_free(text);
    remove_file(w, "token");
    assert_true(token(w, true, &text) < 0);
    assert_int_equal(w->err.class, NC_ERR_HOST);
}

static void test_static_token(void **state) {
    struct world *w = *state;
    char *text;

    assert_int_equal(connect_as(w, "{\"token\": \"abcdef.0123456789abcdef\"}"), 0);
    assert_int_equal(token(w, true, &text), 0);
    assert_string_equal(text, "abcdef.0123456789abcdef");
    assert_int_equal(nc_connection_renew(&w->connection, &w->err), 0);
    nc_secret_free(text);
}

static void test_no_kubeconfig(void **state) {
    struct world *w = *state;

    assert_true(nc_connect(&w->app, "/none", NULL, &w->connection, &w->err) < 0);
    assert_int_equal(w->err.class, NC_ERR_HOST);
    assert_non_null(strstr(w->err.msg, "/none"));
    assert_null(w->connection.kube);
    assert_int_equal(nc_connect_check(&w->app, "/none", &w->err), NC_CREDENTIALS_NO_FILE);
    assert_non_null(strstr(w->err.msg, "there is no kubeconfig /tmp/"));
    write_file(w, "kubeconfig", "apiVersion: v1\n", 0600);
    assert_int_equal(nc_connect_check(&w->app, "/kubeconfig", &w->err), NC_CREDENTIALS_BAD_FILE);
    assert_non_null(strstr(w->err.msg, "/kubeconfig: "));
    assert_true(nc_connect(&w->app, "/kubeconfig", NULL, &w->connection, &w->err) < 0);
    assert_int_equal(w->err.class, NC_ERR_CONFIG);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
    (void)source;
    (void)usec;
    (void)userdata;
    return raise(SIGTERM) == 0 ? 0 : -EIO;
}

/* Whatever is waited for when SIGTERM comes, and after it. */
static void test_signal_ends_every_wait(void **state) {
    struct world *w = *state;
    const uint64_t started = nc_mono_usec();
    char *text;

    assert_int_equal(connect_as_node(w), 0);
    assert_true(
        sd_event_add_time_relative(w->app.event, NULL, CLOCK_MONOTONIC, 20000, 0, on_time, NULL)
        >= 0);
    assert_int_equal(nc_app_pause(&w->app, 60 * SECOND), -EINTR);
    assert_int_equal(w->app.signal, SIGTERM);
    assert_true(token(w, false, &text) < 0);
    assert_int_equal(w->err.class, NC_ERR_TRANSIENT);
    assert_int_equal(nc_app_pause(&w->app, 60 * SECOND), -EINTR);
    assert_true(nc_mono_usec() - started < 30 * SECOND);
}

static void test_deadline(void **state) {
    struct world *w = *state;

    assert_false(nc_app_is_late(&w->app));
    assert_int_equal(nc_app_left(&w->app, 5), 5);
    w->app.deadline_usec = nc_mono_usec() + 60 * SECOND;
    assert_false(nc_app_is_late(&w->app));
    assert_int_equal(nc_app_left(&w->app, SECOND), SECOND);
    assert_true(nc_app_left(&w->app, UINT64_MAX) <= 60 * SECOND);
    w->app.deadline_usec = 1;
    assert_true(nc_app_is_late(&w->app));
    assert_int_equal(nc_app_left(&w->app, SECOND), 0);
    assert_true(nc_app_timeout(&w->app, SECOND) > 0);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_own_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_configured, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_none_is_made_inside_of_the_loop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_refused_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_renewed_before_it_ends, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_plugin, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_plugin_is_not_waited_for_inside, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_token_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_static_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_kubeconfig, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_signal_ends_every_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deadline, set_up, tear_down),
    };

    return run_group(tests, NULL, NULL);
}
