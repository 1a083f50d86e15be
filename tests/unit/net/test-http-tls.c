/*
 * HTTP over TLS against a server on loopback: who is trusted, who we say we are, one connection for
 * many streams.
 */
#include <stdio.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "groups.h"
#include "loopback.h"
#include "nc/http.h"
#include "nc/str.h"

#define SECOND 1000000ull

struct world {
    sd_event *event;
    struct nc_http *http;
    struct loopback_identity ca, other_ca, server, named, client;
    struct loopback *l;
    char head[2048];
};

static bool serve(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    struct world *w = userdata;

    if (r->head[0])
        snprintf(w->head, sizeof(w->head), "%s", r->head);
    return loopback_answer(c, 200, "", "fine");
}

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));

    w->ca = loopback_identity_new("test CA", NULL);
    w->other_ca = loopback_identity_new("other CA", NULL);
    w->server = loopback_identity_new("127.0.0.1", &w->ca);
    w->named = loopback_identity_new("api.example.test", &w->ca);
    w->client = loopback_identity_new("client", &w->ca);
    *state = w;
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    loopback_identity_done(&w->ca);
    loopback_identity_done(&w->other_ca);
    loopback_identity_done(&w->server);
    loopback_identity_done(&w->named);
    loopback_identity_done(&w->client);
    free(w);
    return 0;
}

static void start_with(struct world *w, const struct loopback_tls *tls, loopback_fn fn,
                       void *userdata) {
    assert_true(sd_event_new(&w->event) >= 0);
    assert_int_equal(nc_http_new(w->event, 0, &w->http, NULL), 0);
    w->l = loopback_start(tls, fn, userdata);
}

static void start(struct world *w, const struct loopback_tls *tls) {
    start_with(w, tls, serve, w);
}

static void stop(struct world *w) {
    w->http = nc_http_free(w->http);
    loopback_stop(w->l);
    sd_event_unref(w->event);
}

static struct loopback_tls plain_tls(const struct world *w) {
    return (struct loopback_tls){.cert_pem = w->server.cert_pem, .key_pem = w->server.key_pem};
}

static struct nc_http_answer get(struct world *w, const struct nc_http_tls *tls) {
    nc_auto_free char *url = nc_asprintf("https://127.0.0.1:%u/x", loopback_port(w->l));
    const struct nc_http_options o = {.name = "test",
                                      .url = url,
                                      .tls = tls,
                                      .timeout_usec = 10 * SECOND,
                                      .max_body_bytes = 1000,
                                      .no_proxy = true};
    struct nc_http_answer a = {0};
    struct nc_err err = NC_ERR_INIT;

    if (nc_http_perform(w->http, &o, &a, &err) < 0)
        fail_msg("%s", err.msg);
    return a;
}

static void expect(struct world *w, const struct nc_http_tls *tls, enum nc_http_outcome outcome,
                   const char *part) {
    struct nc_http_answer a = get(w, tls);

    if (a.result.outcome != outcome || !strstr(a.result.message, part))
        fail_msg("outcome %d instead of %d (%s): %s", a.result.outcome, outcome, part,
                 a.result.message);
    nc_http_answer_done(&a);
}

static void test_trust(void **state) {
    struct world *w = *state;
    const struct nc_http_tls good = {.ca_pem = w->ca.cert_pem},
                             wrong = {.ca_pem = w->other_ca.cert_pem}, system = {0},
                             garbage = {.ca_pem = "no certificate"};
    const struct loopback_tls server = plain_tls(w);
    start(w, &server);

    expect(w, &good, NC_HTTP_ANSWERED, "");
    stop(w); /* a kept connection would prove nothing */
    start(w, &server);
    expect(w, &wrong, NC_HTTP_TLS, "TLS with 127.0.0.1:");
    expect(w, &system, NC_HTTP_TLS, "TLS with 127.0.0.1:");
    expect(w, NULL, NC_HTTP_TLS, "certificate");
    expect(w, &garbage, NC_HTTP_LOCAL, "cannot query 127.0.0.1:");
    assert_int_equal(loopback_requests(w->l), 0);
    expect(w, &good, NC_HTTP_ANSWERED, "");
    expect(w, &wrong, NC_HTTP_TLS, ""); /* nor may a connection that others trusted be used */
    stop(w);
}

static void test_names(void **state) {
    struct world *w = *state;
    const struct loopback_tls server = {.cert_pem = w->named.cert_pem, .key_pem = w->named.key_pem};
    const struct nc_http_tls by_host = {.ca_pem = w->ca.cert_pem},
                             by_name = {.ca_pem = w->ca.cert_pem,
                                        .server_name = "api.example.test"};
    start(w, &server);

    expect(w, &by_host, NC_HTTP_TLS, "127.0.0.1");
    expect(w, &by_name, NC_HTTP_ANSWERED, "");
    assert_non_null(strstr(w->head, "\r\nHost: 127.0.0.1:"));
    stop(w);
}

/* Whom the CA has signed a name for as a common name only, it has not made a host. */
static void test_common_name(void **state) {
    struct world *w = *state;
    struct loopback_identity bare = loopback_identity_new("127.0.0.1", NULL);
    struct loopback_identity named = loopback_identity_new("api.example.test", NULL);
    const struct loopback_tls servers[] = {
        {.cert_pem = bare.cert_pem, .key_pem = bare.key_pem},
        {.cert_pem = named.cert_pem, .key_pem = named.key_pem, .http2 = true},
    };
    const struct nc_http_tls trusted[] = {
        {.ca_pem = bare.cert_pem},
        {.ca_pem = named.cert_pem, .server_name = "api.example.test"},
    };

    for (size_t i = 0; i < 2; i++) {
        start(w, &servers[i]);
        expect(w, &trusted[i], NC_HTTP_TLS,
               "failed: its certificate has no subjectAltName, and a common name does not count");
        assert_int_equal(loopback_requests(w->l), 0);
        stop(w);
    }
    loopback_identity_done(&bare);
    loopback_identity_done(&named);
}

static char *temporary(const char *text) {
    char *path = nc_strdup("/tmp/nc-test-http-XXXXXX");
    const int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static void test_client_certificate(void **state) {
    struct world *w = *state;
    nc_auto_free char *cert = temporary(w->client.cert_pem);
    nc_auto_free char *key = temporary(w->client.key_pem);
    struct loopback_tls server = plain_tls(w);
    const struct nc_http_tls none = {.ca_pem = w->ca.cert_pem};
    const struct nc_http_tls blobs = {.ca_pem = w->ca.cert_pem,
                                      .client_cert_pem = w->client.cert_pem,
                                      .client_key_pem = w->client.key_pem};
    const struct nc_http_tls files = {
        .ca_pem = w->ca.cert_pem, .client_cert_file = cert, .client_key_file = key};
    const struct nc_http_tls mixed = {.ca_pem = w->ca.cert_pem,
                                      .client_cert_pem = w->client.cert_pem,
                                      .client_key_pem = w->server.key_pem};
    const struct nc_http_tls missing = {
        .ca_pem = w->ca.cert_pem, .client_cert_file = "/nonexistent", .client_key_file = key};

    server.client_ca_pem = w->ca.cert_pem;
    start(w, &server);
    expect(w, &none, NC_HTTP_TLS, "TLS with 127.0.0.1:");
    expect(w, &mixed, NC_HTTP_LOCAL, "cannot query");
    expect(w, &missing, NC_HTTP_LOCAL, "cannot query");
    assert_int_equal(loopback_requests(w->l), 0);
    expect(w, &blobs, NC_HTTP_ANSWERED, "");
    expect(w, &none, NC_HTTP_TLS,
           ""); /* who has no certificate must not travel on somebody's connection */
    stop(w);
    start(w, &server);
    expect(w, &files, NC_HTTP_ANSWERED, "");
    stop(w);
    unlink(cert);
    unlink(key);
}

static void test_old_tls_is_refused(void **state) {
    struct world *w = *state;
    struct loopback_tls server = plain_tls(w);
    const struct nc_http_tls good = {.ca_pem = w->ca.cert_pem};

    server.max_version = TLS1_1_VERSION;
    start(w, &server);
    expect(w, &good, NC_HTTP_TLS, "TLS with 127.0.0.1:");
    stop(w);
    server.max_version = TLS1_2_VERSION;
    start(w, &server);
    expect(w, &good, NC_HTTP_ANSWERED, "");
    stop(w);
}

static bool hang_up(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    (void)userdata;
    (void)r;
    return loopback_answer(c, 200, "", "plain");
}

/* A server that does not speak TLS. */
static void test_plain_server(void **state) {
    struct world *w = *state;
    const struct nc_http_tls good = {.ca_pem = w->ca.cert_pem};

    assert_true(sd_event_new(&w->event) >= 0);
    assert_int_equal(nc_http_new(w->event, 0, &w->http, NULL), 0);
    w->l = loopback_start(NULL, hang_up, NULL);
    struct nc_http_answer a;
    {
        nc_auto_free char *url = nc_asprintf("https://127.0.0.1:%u/", loopback_port(w->l));
        const struct nc_http_options o = {.name = "test",
                                          .url = url,
                                          .tls = &good,
                                          .timeout_usec = SECOND / 2,
                                          .max_body_bytes = 1000};
        assert_int_equal(nc_http_perform(w->http, &o, &a, NULL), 0);
    }
    assert_int_not_equal(a.result.outcome, NC_HTTP_ANSWERED);
    nc_http_answer_done(&a);
    stop(w);
}

struct counter {
    unsigned done, answered;
};

static void count_done(void *userdata, const struct nc_http_result *result) {
    struct counter *c = userdata;

    c->done++;
    c->answered += result->outcome == NC_HTTP_ANSWERED && result->status == 200
                   && nc_streq(result->body, "fine");
}

/* How many of a hundred requests on one connection were answered. */
static unsigned await_hundred(struct world *w, const struct counter *c) {
    while (c->done < 100)
        assert_true(sd_event_run(w->event, 10 * SECOND) > 0);
    assert_int_equal(loopback_connections(w->l), 1);
    return c->answered;
}

/* A hundred requests before the first answer: one connection, as many streams. */
static void test_http2_multiplexing(void **state) {
    struct world *w = *state;
    struct loopback_tls server = plain_tls(w);
    const struct nc_http_tls good = {.ca_pem = w->ca.cert_pem};
    struct counter c = {0};

    server.http2 = true;
    start(w, &server);
    nc_auto_free char *url = nc_asprintf("https://127.0.0.1:%u/evict", loopback_port(w->l));
    const struct nc_http_options o = {.name = "test",
                                      .method = "POST",
                                      .url = url,
                                      .body = "{}",
                                      .body_n = 2,
                                      .tls = &good,
                                      .timeout_usec = 30 * SECOND,
                                      .max_body_bytes = 1000,
                                      .on_done = count_done,
                                      .userdata = &c};
    for (int k = 0; k < 100; k++)
        assert_int_equal(nc_http_start(w->http, &o, NULL, NULL), 0);
    assert_int_equal(await_hundred(w, &c), 100);
    stop(w);
}

/* Every second answer is larger than what its request takes: those fail, and nothing else on their
 * connection does. */
static void test_http2_too_large(void **state) {
    struct world *w = *state;
    struct loopback_tls server = plain_tls(w);
    const struct nc_http_tls good = {.ca_pem = w->ca.cert_pem};
    struct counter c = {0};

    server.http2 = true;
    start(w, &server);
    nc_auto_free char *url = nc_asprintf("https://127.0.0.1:%u/", loopback_port(w->l));
    struct nc_http_options o = {.name = "test",
                                .url = url,
                                .tls = &good,
                                .timeout_usec = 30 * SECOND,
                                .on_done = count_done,
                                .userdata = &c};
    for (int k = 0; k < 100; k++) {
        o.max_body_bytes = k % 2 ? strlen("fine") : strlen("fine") - 1;
        assert_int_equal(nc_http_start(w->http, &o, NULL, NULL), 0);
    }
    assert_int_equal(await_hundred(w, &c), 50);
    stop(w);
}

struct early {
    unsigned done, refused;
    bool has_body;
};

static void count_refused(void *userdata, const struct nc_http_result *result) {
    struct early *e = userdata;

    e->done++;
    e->refused += result->outcome == NC_HTTP_ANSWERED && result->status == 429
                  && nc_streq(result->body, e->has_body ? "slow down" : "");
}

static bool slow_down(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    const struct early *e = userdata;

    (void)r;
    return loopback_answer(c, 429, "", e->has_body ? "slow down" : "");
}

/* Each is answered before a byte of its body could be sent: the answer counts, at once. */
static void test_http2_answered_early(void **state) {
    struct world *w = *state;
    struct loopback_tls server = plain_tls(w);
    const struct nc_http_tls good = {.ca_pem = w->ca.cert_pem};

    server.http2 = server.early = true;
    for (unsigned has_body = 0; has_body < 2; has_body++) {
        struct early e = {.has_body = has_body};
        start_with(w, &server, slow_down, &e);
        nc_auto_free char *url = nc_asprintf("https://127.0.0.1:%u/evict", loopback_port(w->l));
        const struct nc_http_options o = {.name = "test",
                                          .method = "POST",
                                          .url = url,
                                          .body = "{}",
                                          .body_n = 2,
                                          .tls = &good,
                                          .timeout_usec = 20 * SECOND,
                                          .max_body_bytes = 1000,
                                          .on_done = count_refused,
                                          .userdata = &e};
        for (int k = 0; k < 100; k++)
            assert_int_equal(nc_http_start(w->http, &o, NULL, NULL), 0);
        while (e.done < 100)
            assert_true(sd_event_run(w->event, 10 * SECOND) > 0);
        assert_int_equal(e.refused, 100);
        assert_int_equal(loopback_connections(w->l), 1);
        stop(w);
    }
}

struct interleaved {
    unsigned list; /* the stream of the last list */
    char data[16384];
    unsigned done, answered;
    size_t got;
};

/* The answer to the list and the refusal of the write come in one packet, one inside of the other.
 */
static bool answer_interleaved(void *userdata, struct loopback_conn *c,
                               const struct loopback_request *r) {
    struct interleaved *s = userdata;
    const unsigned stream = loopback_stream(c);
    const struct loopback_part parts[] = {
        {.stream = stream, .status = 429, .n = strlen("slow down")},
        {.stream = s->list, .status = 200, .n = LOOPBACK_NO_LENGTH},
        {.stream = s->list, .data = s->data, .n = sizeof(s->data)},
        {.stream = s->list, .data = s->data, .n = sizeof(s->data)},
        {.stream = s->list, .data = "", .is_end = true},
        {.stream = stream, .data = "slow down", .n = strlen("slow down"), .is_end = true},
    };

    if (r->number % 2 == 0) {
        s->list = stream;
        return true;
    }
    return loopback_parts(c, parts, sizeof(parts) / sizeof(*parts));
}

static int count_data(void *userdata, const char *data, size_t n) {
    struct interleaved *s = userdata;

    (void)data;
    s->got += n;
    return 0;
}

static void count_interleaved(void *userdata, const struct nc_http_result *result) {
    struct interleaved *s = userdata;

    s->done++;
    s->answered += result->outcome == NC_HTTP_ANSWERED;
}

/* libcurl 7.88 keeps the rest of one in thirty of these to itself, and waits for a socket that has
 * nothing more to say. */
static void test_http2_interleaved(void **state) {
    struct world *w = *state;
    struct loopback_tls server = plain_tls(w);
    const struct nc_http_tls good = {.ca_pem = w->ca.cert_pem};
    struct interleaved s = {0};

    server.http2 = true;
    start_with(w, &server, answer_interleaved, &s);
    nc_auto_free char *url = nc_asprintf("https://127.0.0.1:%u/", loopback_port(w->l));
    const struct nc_http_options list = {.name = "list",
                                         .url = url,
                                         .tls = &good,
                                         .timeout_usec = 10 * SECOND,
                                         .on_data = count_data,
                                         .on_done = count_interleaved,
                                         .userdata = &s};
    const struct nc_http_options post = {.name = "post",
                                         .method = "POST",
                                         .url = url,
                                         .body = "{}",
                                         .body_n = 2,
                                         .tls = &good,
                                         .timeout_usec = 10 * SECOND,
                                         .max_body_bytes = 1000,
                                         .on_done = count_interleaved,
                                         .userdata = &s};
    for (unsigned round = 1; round <= 200; round++) {
        assert_int_equal(nc_http_start(w->http, &list, NULL, NULL), 0);
        assert_int_equal(nc_http_start(w->http, &post, NULL, NULL), 0);
        while (s.done < 2 * round)
            assert_true(sd_event_run(w->event, 20 * SECOND) > 0);
        assert_int_equal(s.answered, 2 * round);
        assert_int_equal(s.got, 2 * sizeof(s.data) * round);
    }
    stop(w);
}

static bool hang_on_first(void *userdata, struct loopback_conn *c,
                          const struct loopback_request *r) {
    (void)userdata;
    if (r->connection > 0)
        return loopback_answer(c, 200, "", "fine");
    loopback_hang(c);
    return false;
}

static int no_data(void *userdata, const char *data, size_t n) {
    (void)userdata;
    (void)data;
    return n > 0 ? -1 : 0;
}

static void keep_outcome(void *userdata, const struct nc_http_result *result) {
    *(enum nc_http_outcome *)userdata = result->outcome;
}

/* A connection whose peer takes everything and says nothing: the first request that runs out of
 * time ends it for all, the stream too that would have waited for minutes, and the next one gets
 * another.
 */
static void test_http2_silent_connection(void **state) {
    struct world *w = *state;
    struct loopback_tls server = plain_tls(w);
    const struct nc_http_tls good = {.ca_pem = w->ca.cert_pem};
    enum nc_http_outcome stream = 0, first = 0;
    struct counter c = {0};

    server.http2 = true;
    start_with(w, &server, hang_on_first, NULL);
    nc_auto_free char *url = nc_asprintf("https://127.0.0.1:%u/watch", loopback_port(w->l));
    struct nc_http_options o = {.name = "test",
                                .url = url,
                                .tls = &good,
                                .idle_timeout_usec = 150 * SECOND,
                                .on_data = no_data,
                                .on_done = keep_outcome,
                                .userdata = &stream};
    assert_int_equal(nc_http_start(w->http, &o, NULL, NULL), 0);
    while (loopback_requests(w->l) < 1)
        assert_true(sd_event_run(w->event, SECOND / 10) >= 0);
    o.on_data = NULL;
    o.max_body_bytes = 1000;
    o.timeout_usec = 1200000;
    o.userdata = &first;
    assert_int_equal(nc_http_start(w->http, &o, NULL, NULL), 0);
    while (!first || !stream)
        assert_true(sd_event_run(w->event, 5 * SECOND) > 0);
    assert_int_equal(first, NC_HTTP_TIMEOUT);
    assert_int_equal(stream, NC_HTTP_BROKEN);
    o.timeout_usec = 20 * SECOND;
    o.on_done = count_done;
    o.userdata = &c;
    assert_int_equal(nc_http_start(w->http, &o, NULL, NULL), 0);
    while (c.done < 1)
        assert_true(sd_event_run(w->event, 5 * SECOND) > 0);
    assert_int_equal(c.answered, 1);
    assert_int_equal(loopback_connections(w->l), 2);
    stop(w);
}

static bool refuse_tunnel(void *userdata, struct loopback_conn *c,
                          const struct loopback_request *r) {
    struct world *w = userdata;

    snprintf(w->head, sizeof(w->head), "%s", r->head);
    return loopback_answer(c, 403, "", "");
}

/* https_proxy counts for https, unless the request says that there must be no proxy. */
static void test_proxy(void **state) {
    static const char *const unusable[] = {"htp://svc:s3cret@:99999", "htp://svc:s3cret@proxy",
                                           "svc:s3cret@proxy:99999", "http://svc:a/s3cret@proxy"};
    struct world *w = *state;
    const struct loopback_tls server = plain_tls(w);
    const struct nc_http_tls good = {.ca_pem = w->ca.cert_pem};
    struct nc_http_answer a;

    start(w, &server);
    struct loopback *proxy = loopback_start(NULL, refuse_tunnel, w);
    nc_auto_free char *url = nc_asprintf("https://127.0.0.1:%u/", loopback_port(w->l));
    struct nc_http_options o = {.name = "test",
                                .url = url,
                                .tls = &good,
                                .timeout_usec = 5 * SECOND,
                                .max_body_bytes = 1000};
    setenv("https_proxy", loopback_url(proxy), 1);
    assert_int_equal(nc_http_perform(w->http, &o, &a, NULL), 0);
    assert_int_equal(a.result.outcome, NC_HTTP_BROKEN);
    assert_non_null(strstr(w->head, "CONNECT 127.0.0.1:"));
    assert_int_equal(loopback_requests(w->l), 0);
    nc_http_answer_done(&a);
    o.no_proxy = true;
    assert_int_equal(nc_http_perform(w->http, &o, &a, NULL), 0);
    assert_int_equal(a.result.outcome, NC_HTTP_ANSWERED);
    nc_http_answer_done(&a);
    assert_int_equal(loopback_requests(proxy), 1);
    /* libcurl quotes a URL that it cannot use, with the password in it */
    o.no_proxy = false;
    for (size_t i = 0; i < NC_ARRAY_SIZE(unusable); i++) {
        setenv("https_proxy", unusable[i], 1);
        assert_int_equal(nc_http_perform(w->http, &o, &a, NULL), 0);
        assert_int_not_equal(a.result.outcome, NC_HTTP_ANSWERED);
        assert_non_null(strstr(a.result.message, ": unusable URL of a proxy"));
        nc_http_answer_done(&a);
    }
    unsetenv("https_proxy");
    stop(w);
    loopback_stop(proxy);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_trust),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_client_certificate),
        cmocka_unit_test(test_old_tls_is_refused),
        cmocka_unit_test(test_plain_server),
        cmocka_unit_test(test_common_name),
        cmocka_unit_test(test_http2_multiplexing),
        cmocka_unit_test(test_http2_too_large),
        cmocka_unit_test(test_http2_answered_early),
        cmocka_unit_test(test_http2_interleaved),
        cmocka_unit_test(test_http2_silent_connection),
        cmocka_unit_test(test_proxy),
    };

    return run_group(tests, set_up, tear_down);
}
