/*
 * The session with the API server, step by step: what it waits for, in which order it goes up, and
 * what brings it down again. Files, tokens and the API server are a script.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon.h"
#include "groups.h"
#include "log.h"
#include "nc/mem.h"
#include "nc/time.h"
#include "trace.h"

/* --- the script */

static struct {
    enum nc_credentials_found found;
    bool has_plugin, is_asked; /* tokens are made; who we are is being asked */
    bool is_busy;
    const char *kubeconfig; /* a file that is there */
    struct nc_connection *connection;
    struct nc_identity_call *identity;
} script;

char *nc_connect_path(const struct nc_app *app, const char *path) {
    (void)app;
    return nc_strdup(path);
}

enum nc_credentials_found nc_connect_check(const struct nc_app *app, const char *path,
                                           struct nc_err *err) {
    (void)app;
    (void)path;
    if (script.found != NC_CREDENTIALS_THERE)
        (void)nc_err_set(err, NC_ERR_HOST, ENOENT, "there is none yet");
    return script.found;
}

int nc_connect(struct nc_app *app, const char *path, struct nc_imds *imds, struct nc_connection *c,
               struct nc_err *err) {
    (void)app;
    (void)path;
    (void)imds;
    (void)err;
    script.connection = c;
    say("connect");
    return 0;
}

void nc_connection_done(struct nc_connection *c) {
    if (c->renewed)
        say("[token cancelled]");
    *c = (struct nc_connection){0};
}

bool nc_connection_makes_tokens(const struct nc_connection *c) {
    (void)c;
    return script.has_plugin;
}

void nc_connection_renew_start(struct nc_connection *c,
                               void (*renewed)(void *userdata, const struct nc_err *err)) {
    assert_null(c->renewed);
    c->renewed = renewed;
    say("token");
}

int nc_kube_whoami_start(struct nc_identity_call *c, struct nc_err *err) {
    (void)err;
    script.identity = c;
    script.is_asked = true;
    say("whoami");
    return 0;
}

void nc_kube_whoami_cancel(struct nc_identity_call *c) {
    (void)c;
    if (script.is_asked)
        say("[whoami cancelled]");
    script.is_asked = false;
}

/* --- the world */

struct world {
    struct nc_app app;
    struct nc_daemon d;
};

const char *nc_daemon_kubeconfig(const struct nc_daemon *d) {
    (void)d;
    return script.kubeconfig ? script.kubeconfig : "/none/kubeconfig";
}

bool nc_daemon_is_busy(const struct nc_daemon *d) {
    (void)d;
    return script.is_busy;
}

void nc_own_node_reread(struct nc_daemon *d) {
    (void)d;
    say("reread");
}

void nc_daemon_gather_start(struct nc_daemon *d) {
    (void)d;
    say("found");
}

void nc_daemon_connected(struct nc_daemon *d) {
    (void)d;
    say("UP");
}

void nc_daemon_disconnected(struct nc_daemon *d) {
    (void)d;
    say("DOWN");
}

/* As long as something is due. */
static void turn(struct world *w) {
    while (sd_event_run(w->app.event, 20000) > 0)
        ;
}

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    memset(&script, 0, sizeof(script));
    assert_int_equal(nc_log_set_level("error"), 0);
    assert_true(sd_event_new(&w->app.event) >= 0);
    w->d.app = &w->app;
    assert_int_equal(nc_api_session_open(&w->d, NULL), 0);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_api_session_close(&w->d);
    sd_event_unref(w->app.event);
    nc_buf_done(&trace);
    free(w->d.node_name);
    free(w);
    return 0;
}

static void give_token(const struct nc_err *err) {
    void (*renewed)(void *userdata, const struct nc_err *err) = script.connection->renewed;

    script.connection->renewed = NULL;
    renewed(script.connection->userdata, err);
}

static void give_identity(const char *username, const struct nc_err *err) {
    struct nc_identity who = {.username = nc_strdup(username)};

    script.is_asked = false;
    script.identity->done(script.identity->userdata, &who, err);
    free(who.username);
}

static const struct nc_err none = NC_ERR_INIT;
static const struct nc_err timeout = {
    .class = NC_ERR_TRANSIENT, .code = -ETIMEDOUT, .msg = "no answer"};

static enum nc_api_state state_of(const struct world *w) {
    const struct nc_err *err;

    return nc_api_session_state(&w->d.api, &err);
}

/* As if so much time had passed. */
static void pass(struct world *w) {
    w->d.api.connect_after_usec = w->d.api.renew_after_usec = 0;
    nc_api_session_check_soon(&w->d);
    turn(w);
}

/* --- the tests */

static void test_with_a_certificate(void **state) {
    struct world *w = *state;

    w->d.node_name = nc_strdup("node-1");
    turn(w);
    expect("connect UP");
    assert_int_equal(state_of(w), NC_API_CONNECTING);
    nc_api_session_well(&w->d);
    assert_int_equal(state_of(w), NC_API_CONNECTED);
    nc_api_session_close(&w->d);
    expect("DOWN");
}

static void test_token_and_identity(void **state) {
    struct world *w = *state;

    script.has_plugin = true;
    turn(w);
    expect("connect token");
    give_token(&none);
    expect("whoami");
    give_identity("system:node:node-1", &none);
    expect("UP");
    assert_string_equal(w->d.node_name, "node-1");
}

/* What is waited for is looked for again; who wrote it may have written more. */
static void test_kubeconfig_that_comes_later(void **state) {
    struct world *w = *state;

    w->d.node_name = nc_strdup("node-1");
    script.found = NC_CREDENTIALS_NO_FILE;
    turn(w);
    assert_int_equal(state_of(w), NC_API_NO_KUBECONFIG);
    script.found = NC_CREDENTIALS_UNSIGNED;
    pass(w);
    assert_int_equal(state_of(w), NC_API_NO_CERTIFICATE);
    expect("");
    script.found = NC_CREDENTIALS_THERE;
    pass(w);
    expect("found");
    pass(w);
    expect(""); /* it is held */
    nc_api_session_resume(&w->d);
    turn(w);
    expect("connect UP");
    nc_api_session_resume(&w->d); /* another reading of the configuration changes nothing */
    turn(w);
    expect("");
}

static void test_each_step_may_fail(void **state) {
    struct world *w = *state;

    script.has_plugin = true;
    turn(w);
    expect("connect token");
    give_token(&timeout);
    assert_int_equal(state_of(w), NC_API_UNREACHABLE);
    turn(w);
    expect(""); /* not at once */
    pass(w);
    give_token(&none);
    expect("connect token whoami");
    give_identity("", &timeout);
    pass(w);
    give_token(&none);
    expect("connect token whoami");
    give_identity("somebody", &none);
    assert_int_equal(state_of(w), NC_API_REFUSED);
    assert_non_null(strstr(w->d.api.error.msg, "somebody"));
    assert_null(w->d.node_name);
    assert_int_equal(w->d.counters.api_errors[NC_ERR_TRANSIENT], 2);
    assert_int_equal(w->d.counters.api_errors[NC_ERR_AUTH], 1);
}

static void test_a_drain_does_not_wait_long(void **state) {
    struct world *w = *state;

    for (unsigned k = 0; k < 2; k++) {
        script.is_busy = k == 1;
        pass(w);
        expect("connect whoami");
        give_identity("", &timeout);
        assert_int_equal(w->d.api.connect_after_usec < nc_mono_usec() + 1500000u, script.is_busy);
    }
}

/* A token is renewed one at a time, and a failure counts only where the old one is of no use. */
static void test_renewal(void **state) {
    struct world *w = *state;

    script.has_plugin = true;
    w->d.node_name = nc_strdup("node-1");
    turn(w);
    w->d.api.connection.token_renew_usec = UINT64_MAX;
    give_token(&none);
    expect("connect token UP");
    w->d.api.connection.wants_token = true;
    w->d.api.connection.token_wanted(w->d.api.connection.userdata);
    turn(w);
    w->d.api.connection.token_wanted(w->d.api.connection.userdata);
    turn(w);
    expect("token");
    give_token(&timeout);
    assert_int_equal(w->d.api.error.class, NC_ERR_TRANSIENT);
    turn(w);
    expect("");
    pass(w);
    expect("token");
    w->d.api.error = none;
    w->d.api.connection.wants_token = false;
    give_token(&timeout);
    assert_int_equal(w->d.api.error.class, NC_ERR_NONE);
    assert_true(nc_api_session_is_up(&w->d.api));
}

static void test_refused_again_and_again(void **state) {
    const struct nc_err refused = {.class = NC_ERR_AUTH, .code = 401, .msg = "HTTP 401"};
    struct world *w = *state;

    w->d.node_name = nc_strdup("node-1");
    turn(w);
    expect("connect UP");
    for (unsigned k = 0; k < 2; k++)
        nc_api_session_failed(&w->d, &refused);
    nc_api_session_well(&w->d);
    for (unsigned k = 0; k < 2; k++)
        nc_api_session_failed(&w->d, &refused);
    turn(w);
    expect("");
    nc_api_session_failed(&w->d, &refused);
    turn(w);
    expect(""); /* not more often than every ten seconds */
    pass(w);
    expect("DOWN connect UP");
}

/* A 403 is of one request. */
static void test_what_does_nothing_for_the_node(void **state) {
    static const struct {
        struct nc_err err;
        bool is_away;
    } rows[] = {{{.class = NC_ERR_TRANSIENT}, true},
                {{.class = NC_ERR_HOST}, true}, /* a key that does not match */
                {{.class = NC_ERR_AUTH, .code = 401}, true},
                {{.class = NC_ERR_AUTH, .code = 403}, false}};
    struct world *w = *state;

    w->d.node_name = nc_strdup("node-1");
    turn(w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_api_session_well(&w->d);
        assert_int_equal(nc_api_session_away_usec(&w->d.api), 0);
        nc_api_session_failed(&w->d, &rows[i].err);
        assert_int_equal(nc_api_session_away_usec(&w->d.api) != 0, rows[i].is_away);
    }
}

/* It may be another cluster's. */
static void test_another_kubeconfig(void **state) {
    struct world *w = *state;

    w->d.node_name = nc_strdup("node-1");
    script.kubeconfig = "/proc/self/exe";
    turn(w);
    expect("connect UP");
    nc_api_session_check_now(&w->d);
    turn(w);
    expect("");
    script.kubeconfig = "/";
    nc_api_session_check_now(&w->d);
    turn(w);
    expect("DOWN reread connect UP");
}

static void test_closed_on_the_way(void **state) {
    struct world *w = *state;

    script.has_plugin = true;
    turn(w);
    expect("connect token");
    nc_api_session_close(&w->d);
    expect("[token cancelled]");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
        TEST(test_with_a_certificate),          TEST(test_token_and_identity),
        TEST(test_kubeconfig_that_comes_later), TEST(test_each_step_may_fail),
        TEST(test_a_drain_does_not_wait_long),  TEST(test_renewal),
        TEST(test_refused_again_and_again),     TEST(test_another_kubeconfig),
        TEST(test_closed_on_the_way),           TEST(test_what_does_nothing_for_the_node),
    };

    return run_group(tests, NULL, NULL);
}
