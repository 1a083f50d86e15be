/*
 * HTTP on the event loop against a server on loopback: every outcome, and the rules of every
 * request.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "groups.h"
#include "http-world.h"
#include "nc/mem.h"
#include "nc/str.h"
#include "nc/version.h"

static struct nc_http_answer get(struct world *w, const char *path, struct nc_http_options *more) {
    nc_auto_free char *url = url_of(w, path);
    struct nc_http_options o = more ? *more : options_for(NULL);
    struct nc_http_answer a = {0};
    struct nc_err err = NC_ERR_INIT;

    o.url = url;
    if (nc_http_perform(w->http, &o, &a, &err) < 0)
        fail_msg("%s", err.msg);
    return a;
}

/* --- what is asked and answered */

static void test_answer(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    nc_auto_free char *user_agent =
        nc_asprintf("\r\nUser-Agent: nodeclaimd/%s (test)\r\n", nc_version);
    struct nc_http_answer a;
    (void)state;
    world_start(&w);

    nc_http_set_program("nodeclaimd", "test");
    a = get(&w, "/hello", NULL);
    assert_int_equal(a.result.outcome, NC_HTTP_ANSWERED);
    assert_int_equal(a.result.status, 200);
    assert_string_equal(a.result.body, "/hello");
    assert_int_equal(a.result.n, 6);
    assert_string_equal(a.result.message, "");
    assert_true(a.result.new_connection);
    assert_true(a.result.duration_usec > 0);
    assert_true(a.result.received_usec > 1600000000 * SECOND);
    assert_non_null(strstr(w.script.head, "GET /hello HTTP/1.1\r\n"));
    assert_non_null(strstr(w.script.head, user_agent));
    assert_null(strstr(w.script.head, "Accept-Encoding"));
    nc_http_answer_done(&a);

    a = get(&w, "/again", NULL); /* on the connection that was kept */
    assert_false(a.result.new_connection);
    nc_http_answer_done(&a);
    assert_int_equal(loopback_connections(w.server), 1);
    world_done(&w);
}

static void test_response_headers(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct nc_http_answer a;
    (void)state;
    world_start(&w);

    a = get(&w, "/headers", NULL);
    assert_int_equal(a.result.status, 429);
    assert_int_equal(a.result.retry_after_usec, 7 * SECOND);
    assert_int_equal(a.result.date_usec, 784111777 * SECOND);
    assert_int_equal(a.result.token_ttl_sec, 21600);
    nc_http_answer_done(&a);
    w.script.play = PLAY_INTERIM; /* what an interim answer says does not count */
    a = get(&w, "/", NULL);
    assert_int_equal(a.result.status, 200);
    assert_int_equal(a.result.retry_after_usec, 0);
    assert_string_equal(a.result.body, "late");
    nc_http_answer_done(&a);
    world_done(&w);
}

static void test_methods_and_bodies(void **state) {
    static const char *const headers[] = {"X-One: 1", "Content-Type: application/json", NULL};
    static const char *const methods[] = {"POST", "PUT", "PATCH", "DELETE"};
    struct world w = world_new(PLAY_PATH, 0);
    struct nc_http_answer a;
    (void)state;
    world_start(&w);

    for (size_t k = 0; k < NC_ARRAY_SIZE(methods); k++) {
        struct nc_http_options o = options_for(NULL);
        nc_auto_free char *line = nc_asprintf("%s /x HTTP/1.1\r\n", methods[k]);
        o.method = methods[k];
        o.headers = headers;
        o.body = "{\"a\":1}";
        o.body_n = 7;
        a = get(&w, "/x", &o);
        assert_non_null(strstr(w.script.head, line));
        assert_non_null(strstr(w.script.head, "\r\nX-One: 1\r\n"));
        assert_non_null(strstr(w.script.head, "\r\nContent-Type: application/json\r\n"));
        assert_null(strstr(w.script.head, "Expect:"));
        assert_string_equal(w.script.body, "{\"a\":1}");
        nc_http_answer_done(&a);
    }
    struct nc_http_options o = options_for(NULL);
    o.method = "PUT"; /* without a body, as IMDS is requested a token */
    a = get(&w, "/token", &o);
    assert_non_null(strstr(w.script.head, "PUT /token HTTP/1.1\r\n"));
    nc_http_answer_done(&a);
    o.method = "HEAD";
    a = get(&w, "/size/0", &o);
    assert_int_equal(a.result.status, 200);
    assert_non_null(strstr(w.script.head, "HEAD "));
    nc_http_answer_done(&a);
    world_done(&w);
}

static void test_no_redirect_and_no_proxy(void **state) {
    nc_auto_free char *proxy = nc_asprintf("http://127.0.0.1:%u", loopback_closed_port());
    struct world w = world_new(PLAY_PATH, 0);
    struct nc_http_answer a;
    (void)state;
    world_start(&w);

    setenv("http_proxy", proxy, 1);
    setenv("all_proxy", proxy, 1);
    a = get(&w, "/redirect", NULL);
    assert_int_equal(a.result.status, 302);
    assert_int_equal(loopback_requests(w.server), 1);
    unsetenv("http_proxy");
    unsetenv("all_proxy");
    nc_http_answer_done(&a);
    world_done(&w);
}

/* --- every outcome */

static void test_outcomes(void **state) {
    static const struct {
        enum play play;
        const char *path;
        enum nc_http_outcome outcome;
        bool nonsense;
        const char *message; /* a part of it */
    } cases[] = {
        {PLAY_HANG, "/", NC_HTTP_TIMEOUT, false, "no answer from 127.0.0.1:"},
        {PLAY_SLOW, "/", NC_HTTP_TIMEOUT, false, "did not end within 300ms"},
        {PLAY_EMPTY, "/", NC_HTTP_BROKEN, false, "closed the connection without an answer"},
        {PLAY_RESET, "/", NC_HTTP_BROKEN, false, "127.0.0.1:"},
        {PLAY_PARTIAL, "/", NC_HTTP_BROKEN, false, "in mid-answer"},
        {PLAY_PARTIAL_CHUNK, "/", NC_HTTP_BROKEN, false, "in mid-answer"},
        {PLAY_NOISE, "/", NC_HTTP_BROKEN, true, "does not speak HTTP"},
        {PLAY_BAD_CHUNK, "/", NC_HTTP_BROKEN, true, "does not speak HTTP"},
        {PLAY_LONG_HEADER, "/", NC_HTTP_TOO_LARGE, false, "larger than 65536 bytes"},
        {PLAY_MANY_HEADERS, "/", NC_HTTP_TOO_LARGE, false, "larger than 65536 bytes"},
        {PLAY_ENDLESS, "/", NC_HTTP_TOO_LARGE, false, "larger than 1000 bytes"},
        {PLAY_PATH, "/size/1001", NC_HTTP_TOO_LARGE, false, "larger than 1000 bytes"},
        {PLAY_PATH, "/status/500/1048577", NC_HTTP_TOO_LARGE, false, "larger than 1048576 bytes"},
        {PLAY_PATH, "/size/1000", NC_HTTP_ANSWERED, false, ""},
        {PLAY_PATH, "/status/404/5000", NC_HTTP_ANSWERED, false, ""},
        {PLAY_PATH, "/status/599/0", NC_HTTP_ANSWERED, false, ""},
        {PLAY_PATH, "/status/600/0", NC_HTTP_BROKEN, true, "impossible status 600"},
    };
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        struct world w = world_new(cases[k].play, 0);
        struct nc_http_options o = options_for(NULL);
        struct nc_http_answer a;
        world_start(&w);
        o.timeout_usec = cases[k].play == PLAY_HANG || cases[k].play == PLAY_SLOW ? SECOND * 3 / 10
                                                                                  : 10 * SECOND;
        o.max_body_bytes = 1000;
        a = get(&w, cases[k].path, &o);
        if (a.result.outcome != cases[k].outcome || a.result.nonsense != cases[k].nonsense
            || !strstr(a.result.message, cases[k].message))
            fail_msg("case %zu: outcome %d, nonsense %d: %s", k, a.result.outcome,
                     a.result.nonsense, a.result.message);
        nc_http_answer_done(&a);
        world_done(&w);
    }
}

/* The reason that a failed request's body gives is kept, whatever the cap for a success is. */
static void test_body_of_a_failure(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct nc_http_options o = options_for(NULL);
    struct nc_http_answer a;
    (void)state;
    world_start(&w);

    o.max_body_bytes = 16;
    a = get(&w, "/status/404/5000", &o);
    assert_int_equal(a.result.status, 404);
    assert_int_equal(a.result.n, 5000);
    nc_http_answer_done(&a);
    a = get(&w, "/status/503/100000", &o);
    assert_int_equal(a.result.status, 503);
    assert_int_equal(a.result.n, 65536);
    nc_http_answer_done(&a);
    world_done(&w);
}

static struct nc_http_answer get_url(struct world *w, const char *url, uint64_t timeout_usec) {
    struct nc_http_options o = options_for(url);
    struct nc_http_answer a = {0};
    struct nc_err err = NC_ERR_INIT;

    o.timeout_usec = timeout_usec;
    if (nc_http_perform(w->http, &o, &a, &err) < 0)
        fail_msg("%s", err.msg);
    return a;
}

static void test_refused_and_unresolved(void **state) {
    const unsigned port = loopback_closed_port();
    nc_auto_free char *url = nc_asprintf("http://127.0.0.1:%u/", port);
    nc_auto_free char *message = nc_asprintf("connection refused by 127.0.0.1:%u", port);
    struct world w = world_new(PLAY_PATH, 0);
    struct nc_http_answer a;
    (void)state;

    a = get_url(&w, url, SECOND);
    assert_int_equal(a.result.outcome, NC_HTTP_REFUSED);
    assert_string_equal(a.result.message, message);
    nc_http_answer_done(&a);
    /* A label of more than 63 bytes is no name: the resolver says so without asking anybody. */
    a = get_url(
        &w,
        "http://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.invalid/",
        20 * SECOND);
    assert_int_equal(a.result.outcome, NC_HTTP_UNRESOLVED);
    assert_non_null(strstr(a.result.message, "no address for aaaa"));
    nc_http_answer_done(&a);
    world_done(&w);
}

/* A patience for the connection of its own: a wrong address is not waited for as a slow answer is.
 */
static void test_no_connection(void **state) {
    int fds[3];
    nc_auto_free char *url = nc_asprintf("http://127.0.0.1:%u/", loopback_full_port(fds));
    struct world w = world_new(PLAY_PATH, 0);
    struct nc_http_options o = options_for(url);
    struct nc_http_answer a;
    (void)state;

    o.timeout_usec = 20 * SECOND;
    o.connect_timeout_usec = SECOND / 5;
    assert_int_equal(nc_http_perform(w.http, &o, &a, NULL), 0);
    assert_int_equal(a.result.outcome, NC_HTTP_TIMEOUT);
    assert_non_null(strstr(a.result.message, "no connection to 127.0.0.1:"));
    assert_non_null(strstr(a.result.message, " within 200ms"));
    assert_true(a.result.duration_usec < 10 * SECOND);
    nc_http_answer_done(&a);
    o.connect_timeout_usec = 0; /* then the whole request's counts */
    o.timeout_usec = SECOND / 10;
    assert_int_equal(nc_http_perform(w.http, &o, &a, NULL), 0);
    assert_int_equal(a.result.outcome, NC_HTTP_TIMEOUT);
    assert_non_null(strstr(a.result.message, " within 100ms"));
    nc_http_answer_done(&a);
    for (int k = 0; k < 3; k++)
        close(fds[k]);
    world_done(&w);
}

/* kubelet, or whatever is executed next, inherits no connection of ours. */
static void test_sockets_close_on_exec(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct nc_http_answer a;
    unsigned sockets = 0;
    (void)state;
    world_start(&w);

    a = get(&w, "/", NULL); /* the connection stays open */
    nc_http_answer_done(&a);
    for (int fd = 3; fd < 256; fd++) {
        struct sockaddr_in server;
        socklen_t n = sizeof(server);
        if (getpeername(fd, (struct sockaddr *)&server, &n) < 0 || server.sin_family != AF_INET)
            continue;
        sockets++;
        assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    }
    assert_int_equal(sockets, 2); /* ours and the server's */
    world_done(&w);
}

static void test_out_of_descriptors(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct rlimit old, none;
    struct nc_http_answer a;
    (void)state;
    world_start(&w);
    nc_auto_free char *url = url_of(&w, "/");

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    a = get_url(&w, url, SECOND);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    assert_int_equal(a.result.outcome, NC_HTTP_LOCAL);
    assert_non_null(strstr(a.result.message, "Too many open files"));
    nc_http_answer_done(&a);
    world_done(&w);
}

/* A server that ends its side after one answer is asked again on a new connection, not reported. */
static void test_stale_connection(void **state) {
    struct world w = world_new(PLAY_DROP_AFTER_ONE, 0);
    (void)state;
    world_start(&w);

    for (unsigned k = 1; k <= 3; k++) {
        struct nc_http_answer a = get(&w, "/", NULL);
        assert_int_equal(a.result.outcome, NC_HTTP_ANSWERED);
        assert_string_equal(a.result.body, "one");
        assert_true(a.result.new_connection);
        nc_http_answer_done(&a);
        assert_true(loopback_wait(loopback_open, w.server, 0));
    }
    world_done(&w);
}

static void test_errors(void **state) {
    static const struct {
        struct nc_http_result result;
        enum nc_err_class class;
        int code;
        const char *msg;
    } cases[] = {
        {{.outcome = NC_HTTP_ANSWERED, .status = 503}, NC_ERR_TRANSIENT, 503, "x: HTTP 503"},
        {{.outcome = NC_HTTP_ANSWERED, .status = 500}, NC_ERR_TRANSIENT, 500, "x: HTTP 500"},
        {{.outcome = NC_HTTP_ANSWERED, .status = 429}, NC_ERR_TRANSIENT, 429, "x: HTTP 429"},
        {{.outcome = NC_HTTP_ANSWERED, .status = 408}, NC_ERR_TRANSIENT, 408, "x: HTTP 408"},
        {{.outcome = NC_HTTP_ANSWERED, .status = 401}, NC_ERR_AUTH, 401, "x: HTTP 401"},
        {{.outcome = NC_HTTP_ANSWERED, .status = 403}, NC_ERR_AUTH, 403, "x: HTTP 403"},
        {{.outcome = NC_HTTP_ANSWERED, .status = 404}, NC_ERR_PROTOCOL, 404, "x: HTTP 404"},
        {{.outcome = NC_HTTP_ANSWERED, .status = 302}, NC_ERR_PROTOCOL, 302, "x: HTTP 302"},
        {{.outcome = NC_HTTP_UNRESOLVED, .message = "m"}, NC_ERR_TRANSIENT, -EHOSTUNREACH, "x: m"},
        {{.outcome = NC_HTTP_REFUSED, .message = "m"}, NC_ERR_TRANSIENT, -ECONNREFUSED, "x: m"},
        {{.outcome = NC_HTTP_TIMEOUT, .message = "m"}, NC_ERR_TRANSIENT, -ETIMEDOUT, "x: m"},
        {{.outcome = NC_HTTP_TLS, .message = "m"}, NC_ERR_AUTH, -EPROTO, "x: m"},
        {{.outcome = NC_HTTP_BROKEN, .message = "m"}, NC_ERR_TRANSIENT, -ECONNRESET, "x: m"},
        {{.outcome = NC_HTTP_BROKEN, .nonsense = true, .message = "m"},
         NC_ERR_PROTOCOL,
         -EBADMSG,
         "x: m"},
        {{.outcome = NC_HTTP_TOO_LARGE, .message = "m"}, NC_ERR_PROTOCOL, -EFBIG, "x: m"},
        {{.outcome = NC_HTTP_LOCAL, .message = "m"}, NC_ERR_HOST, -EIO, "x: m"},
        {{.outcome = 0}, NC_ERR_BUG, -EINVAL, "x: a transfer without an outcome"},
    };
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        struct nc_err err = NC_ERR_INIT;
        assert_true(nc_http_error(&cases[k].result, "x", &err) < 0);
        assert_int_equal(err.class, cases[k].class);
        assert_int_equal(err.code, cases[k].code);
        assert_string_equal(err.msg, cases[k].msg);
        assert_true(nc_http_error(&cases[k].result, "x", NULL) < 0);
    }
}

static void never(void *userdata, const struct nc_http_result *result) {
    (void)userdata;
    fail_msg("called: %s", result->message);
}

static int never_data(void *userdata, const char *data, size_t n) {
    (void)userdata;
    (void)data;
    return (int)n;
}

static void test_refused_options(void **state) {
    static const char *const broken[] = {"X: 1\r\nY: 2", NULL};
    static const struct {
        struct nc_http_options o;
        enum nc_err_class class;
        const char *part;
    } cases[] = {
        {{.name = "n", .url = "http://h/", .timeout_usec = 1, .on_done = never},
         NC_ERR_BUG,
         "a cap"},
        {{.name = "n", .url = "http://h/", .max_body_bytes = 1, .on_done = never},
         NC_ERR_BUG,
         "a deadline"},
        {{.name = "n", .url = "http://h/", .timeout_usec = 1, .max_body_bytes = 1},
         NC_ERR_BUG,
         "n: "},
        {{.name = "n", .timeout_usec = 1, .max_body_bytes = 1, .on_done = never},
         NC_ERR_BUG,
         "a URL"},
        {{.url = "http://h/", .timeout_usec = 1, .max_body_bytes = 1, .on_done = never},
         NC_ERR_BUG,
         "a name"},
        {{.name = "n", .url = "ftp://h/", .timeout_usec = 1, .max_body_bytes = 1, .on_done = never},
         NC_ERR_CONFIG,
         "n: 'ftp://h/' is not a usable URL: it must be http or https"},
        {{.name = "n",
          .url = "http://u:p@h/",
          .timeout_usec = 1,
          .max_body_bytes = 1,
          .on_done = never},
         NC_ERR_CONFIG,
         "user name"},
        {{.name = "n", .url = "h", .timeout_usec = 1, .max_body_bytes = 1, .on_done = never},
         NC_ERR_CONFIG,
         "n: 'h'"},
        {{.name = "n",
          .url = "http://h:99999/",
          .timeout_usec = 1,
          .max_body_bytes = 1,
          .on_done = never},
         NC_ERR_CONFIG,
         "99999"},
        {{.name = "n",
          .url = "http://h/",
          .headers = broken,
          .timeout_usec = 1,
          .max_body_bytes = 1,
          .on_done = never},
         NC_ERR_BUG,
         "line break"},
    };
    struct world w = world_new(PLAY_PATH, 0);
    struct nc_http_options stream = options_for("http://127.0.0.1:1/");
    struct nc_http_answer a = {0};
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        struct nc_http_req *r = NULL;
        err = (struct nc_err)NC_ERR_INIT;
        assert_true(nc_http_start(w.http, &cases[k].o, &r, &err) < 0);
        assert_null(r);
        if (err.class != cases[k].class || !strstr(err.msg, cases[k].part))
            fail_msg("case %zu: %s", k, err.msg);
    }
    stream.on_data = never_data;
    assert_true(nc_http_perform(w.http, &stream, &a, &err) < 0);
    assert_int_equal(err.class, NC_ERR_BUG);
    assert_null(nc_http_cancel(NULL));
    assert_null(nc_http_free(NULL));
    nc_http_answer_done(NULL);
    world_done(&w);
}

/* --- one-shot programs */

static int ask_to_exit(sd_event_source *source, uint64_t usec, void *userdata) {
    (void)usec;
    (void)userdata;
    return sd_event_exit(sd_event_source_get_event(source), 0);
}

static void test_perform_is_interrupted(void **state) {
    struct world w = world_new(PLAY_HANG, 0);
    struct nc_http_answer a = {0};
    struct nc_err err = NC_ERR_INIT;
    (void)state;
    world_start(&w);
    nc_auto_free char *url = url_of(&w, "/");
    struct nc_http_options o = options_for(url);

    assert_true(
        sd_event_add_time_relative(w.event, NULL, CLOCK_MONOTONIC, 20000, 1000, ask_to_exit, NULL)
        >= 0);
    assert_int_equal(nc_http_perform(w.http, &o, &a, &err), -EINTR);
    assert_int_equal(err.class, NC_ERR_TRANSIENT);
    assert_int_equal(nc_http_perform(w.http, &o, &a, &err),
                     -EINTR); /* a loop that has ended is not waited for */
    world_done(&w);
}

static void test_sigpipe_is_ignored(void **state) {
    struct sigaction now;
    (void)state;

    signal(SIGPIPE, SIG_DFL);
    struct world w = world_new(PLAY_PATH, 0);
    assert_int_equal(sigaction(SIGPIPE, NULL, &now), 0);
    assert_true(now.sa_handler == SIG_IGN);
    world_done(&w);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answer),
        cmocka_unit_test(test_response_headers),
        cmocka_unit_test(test_methods_and_bodies),
        cmocka_unit_test(test_no_redirect_and_no_proxy),
        cmocka_unit_test(test_outcomes),
        cmocka_unit_test(test_body_of_a_failure),
        cmocka_unit_test(test_refused_and_unresolved),
        cmocka_unit_test(test_no_connection),
        cmocka_unit_test(test_sockets_close_on_exec),
        cmocka_unit_test(test_out_of_descriptors),
        cmocka_unit_test(test_stale_connection),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_refused_options),
        cmocka_unit_test(test_perform_is_interrupted),
        cmocka_unit_test(test_sigpipe_is_ignored),
    };

    return run_group(tests, NULL, NULL);
}
