/*
 * The plain way of HTTP: what is plain is answered over one connection, and everything else is
 * handed back.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "loopback.h"
#include "nc/clock.h"
#include "nc/http-plain.h"
#include "nc/str.h"

#define SECOND 1000000ull
#define TOKEN "X-Token: t"
#define PAD64 "0123456789012345678901234567890123456789012345678901234567890123"
#define PAD1K                                                                                      \
    PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64 PAD64
#define PAD8K PAD1K PAD1K PAD1K PAD1K PAD1K PAD1K PAD1K PAD1K

struct world {
    sd_event *event;
    struct loopback *server;
    struct nc_http_plain *plain;
    const char *raw; /* what the server says */
    bool hangs;      /* and then waits, or at once where raw is NULL */
    bool closes;     /* after its answer */
    bool is_cut;     /* the answer comes in two parts */
    char head[1024]; /* of the last request */
    bool frees;      /* the handle, in the callback */
    unsigned done, handed_back;
    struct nc_http_result result;
    char body[256];
};

static bool serve(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    struct world *w = userdata;
    const size_t n = w->raw ? strlen(w->raw) : 0;

    (void)snprintf(w->head, sizeof(w->head), "%s", r->head);
    if (w->is_cut) {
        loopback_send(c, w->raw, n / 2);
        (void)usleep(2000); /* so that it is read in two parts, as a rule */
        loopback_send(c, w->raw + n / 2, n - n / 2);
    } else if (n > 0) {
        loopback_send(c, w->raw, n);
    }
    if (w->hangs)
        loopback_hang(c);
    return !w->closes && !w->hangs;
}

static void on_done(void *userdata, const struct nc_http_result *result) {
    struct world *w = userdata;

    w->done++;
    w->handed_back += !result;
    if (result) {
        w->result = *result;
        (void)snprintf(w->body, sizeof(w->body), "%s", result->body ? result->body : "");
    }
    if (w->frees)
        w->plain = nc_http_plain_free(w->plain);
}

static void open_world(struct world *w) {
    assert_true(sd_event_new(&w->event) >= 0);
    w->server = loopback_start(NULL, serve, w);
    assert_int_equal(nc_http_plain_new(w->event, loopback_url(w->server), &w->plain), 0);
}

static void close_world(struct world *w) {
    nc_http_plain_free(w->plain);
    loopback_stop(w->server);
    sd_event_unref(w->event);
}

static int ask(struct world *w, size_t max, uint64_t timeout_usec) {
    return nc_http_plain_get(w->plain, "/latest/x", TOKEN, max, timeout_usec, on_done, w);
}

static void turn_until(struct world *w, unsigned done) {
    const uint64_t until = nc_mono_usec() + 5 * SECOND;

    while (w->done < done && nc_mono_usec() < until) {
        assert_true(sd_event_run(w->event, 10000) >= 0);
        if (w->plain)
            nc_http_plain_expire(w->plain);
    }
    assert_int_equal(w->done, done);
}

static const char good[] = "HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n"
                           "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 4\r\n\r\nnone";

static void test_one_connection(void **state) {
    struct world w = {.raw = good};

    (void)state;
    open_world(&w);
    for (unsigned i = 1; i <= 5; i++) {
        w.is_cut = i == 4;
        assert_int_equal(ask(&w, 64, SECOND), 0);
        assert_int_equal(ask(&w, 64, SECOND), -EBUSY);
        turn_until(&w, i);
        assert_int_equal(w.result.outcome, NC_HTTP_ANSWERED);
        assert_int_equal(w.result.status, 404);
        assert_int_equal(w.result.n, 4);
        assert_string_equal(w.body, "none");
        assert_int_equal(w.result.date_usec, 784111777 * SECOND);
        assert_int_equal(w.result.new_connection, i == 1);
    }
    assert_int_equal(loopback_connections(w.server), 1);
    assert_int_equal(w.handed_back, 0);
    assert_true(nc_starts_with(w.head, "GET /latest/x HTTP/1.1\r\nHost: 127.0.0.1:"));
    assert_non_null(strstr(w.head, "\r\n" TOKEN "\r\n"));
    assert_non_null(strstr(w.head, "\r\nUser-Agent: nodeclaimd/"));
    close_world(&w);
}

static void test_answers(void **state) {
    static const struct {
        const char *raw;
        int status; /* 0: handed back */
        const char *body;
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab", 200, "ab"},
        {"HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", 200, ""},
        {"HTTP/1.1 503 Slow Down\r\nContent-Length: 1 \r\nConnection: keep-alive\r\n\r\nx", 503,
         "x"},
        {"HTTP/1.1 401 U\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc", 401, "abc"},
        {"HTTP/1.1 403 F\r\nContent-Length: 128\r\n\r\n" PAD64 PAD64, 403, PAD64 PAD64},
        {"HTTP/1.1 200 OK\r\nContent-Length: 128\r\n\r\n" PAD64 PAD64, 0, NULL}, /* over the cap */
        {"HTTP/1.1 404 N\r\nContent-Length: 8193\r\n\r\n" PAD8K "x", 0, NULL},
        {"HTTP/1.1 200 OK\r\n\r\nab", 0, NULL}, /* until the connection ends */
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", 0, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nab", 0, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab", 0, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", 0, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nab", 0, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\nab", 0, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nab", 0, NULL},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", 0, NULL}, /* more than announced */
        {"HTTP/1.1 200 OK\r\n folded: x\r\nContent-Length: 2\r\n\r\nab", 0, NULL},
        {"HTTP/1.1 200 OK\r\nA: \rb\r\nContent-Length: 2\r\n\r\nab", 0, NULL},
        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 0, NULL},
        {"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", 0, NULL},
        {"HTTP/1.1 600 ?\r\nContent-Length: 0\r\n\r\n", 0, NULL},
        {"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n", 0, NULL},
        {"HTTP/1.1 2000 OK\r\nContent-Length: 0\r\n\r\n", 0, NULL},
        {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nab", 0, NULL},
        {"HTTP/2 200 OK\r\nContent-Length: 2\r\n\r\nab", 0, NULL},
        {"220 mail.example ESMTP\r\n\r\n", 0, NULL},
        {"\r\n\r\n", 0, NULL},
        {"HTTP/1.1 200 OK\r\nX: " PAD8K PAD8K "\r\n\r\n", 0, NULL}, /* a head without end */
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w = {.raw = rows[i].raw};
        open_world(&w);
        assert_int_equal(ask(&w, 64, SECOND), 0);
        turn_until(&w, 1);
        if (w.handed_back != (rows[i].status == 0) || w.result.status != rows[i].status)
            fail_msg("%zu: %s: %d", i, rows[i].raw, w.result.status);
        if (rows[i].body)
            assert_string_equal(w.body, rows[i].body);
        close_world(&w);
    }
}

/* Half an answer and then nothing, or the end of the connection. */
static void test_cut_off(void **state) {
    static const char *const parts[] = {"", "HTTP/1.1 2", "HTTP/1.1 200 OK\r\n",
                                        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(parts); i++) {
        struct world closed = {.raw = parts[i], .closes = true};
        struct world silent = {.raw = parts[i], .hangs = true};
        open_world(&closed);
        assert_int_equal(ask(&closed, 64, SECOND), 0);
        turn_until(&closed, 1);
        assert_int_equal(closed.handed_back, 1);
        close_world(&closed);

        open_world(&silent);
        assert_int_equal(ask(&silent, 64, 50000), 0);
        nc_http_plain_expire(silent.plain); /* too early */
        assert_int_equal(silent.done, 0);
        turn_until(&silent, 1);
        nc_http_plain_expire(silent.plain); /* nothing is under way */
        assert_int_equal(silent.done, 1);
        assert_int_equal(silent.handed_back, 0);
        assert_int_equal(silent.result.outcome, NC_HTTP_TIMEOUT);
        assert_non_null(strstr(silent.result.message, "no answer from 127.0.0.1:"));
        assert_non_null(strstr(silent.result.message, " in 0.05 s"));
        silent.hangs = false;
        silent.raw = good; /* the next one goes over a new connection */
        assert_int_equal(ask(&silent, 64, SECOND), 0);
        turn_until(&silent, 2);
        assert_int_equal(silent.result.status, 404);
        assert_true(silent.result.new_connection);
        close_world(&silent);
    }
}

/* A server that closes after each answer, with or without saying so. */
static void test_closed_in_between(void **state) {
    static const char said[] = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx";
    const char *const raws[] = {said, good};

    (void)state;
    for (size_t k = 0; k < NC_ARRAY_SIZE(raws); k++) {
        struct world w = {.raw = raws[k], .closes = true};
        open_world(&w);
        for (unsigned i = 1; i <= 3; i++) {
            const uint64_t until = nc_mono_usec() + 5 * SECOND;
            assert_int_equal(ask(&w, 64, SECOND), 0);
            turn_until(&w, i);
            while (loopback_open(w.server) > 0 && nc_mono_usec() < until)
                assert_true(sd_event_run(w.event, 1000) >= 0);
            assert_true(sd_event_run(w.event, 1000) >= 0); /* it sees the end */
            assert_true(w.result.new_connection);
        }
        assert_int_equal(w.handed_back, 0);
        assert_int_equal(loopback_connections(w.server), 3);
        close_world(&w);
    }
}

static void test_nobody_listens(void **state) {
    nc_auto_free char *url = nc_asprintf("http://127.0.0.1:%u", loopback_closed_port());
    struct world w = {0};
    int fds[3];

    (void)state;
    assert_true(sd_event_new(&w.event) >= 0);
    assert_int_equal(nc_http_plain_new(w.event, url, &w.plain), 0);
    if (ask(&w, 64, SECOND) == 0) /* the kernel may say so at once */
        turn_until(&w, 1);
    assert_int_equal(w.handed_back, w.done);
    nc_http_plain_free(w.plain);

    free(url);
    url = nc_asprintf("http://127.0.0.1:%u", loopback_full_port(fds));
    w.done = w.handed_back = 0;
    assert_int_equal(nc_http_plain_new(w.event, url, &w.plain), 0);
    assert_int_equal(ask(&w, 64, 50000), 0);
    turn_until(&w, 1);
    assert_int_equal(w.result.outcome, NC_HTTP_TIMEOUT);
    nc_http_plain_free(w.plain);
    for (size_t i = 0; i < NC_ARRAY_SIZE(fds); i++)
        (void)close(fds[i]);
    sd_event_unref(w.event);
}

static void test_cancelled_and_freed(void **state) {
    struct world w = {.hangs = true};

    (void)state;
    open_world(&w);
    assert_int_equal(ask(&w, 64, SECOND), 0);
    nc_http_plain_cancel(w.plain, &state); /* somebody else's */
    assert_int_equal(ask(&w, 64, SECOND), -EBUSY);
    assert_true(loopback_wait(loopback_connections, w.server, 1));
    nc_http_plain_cancel(w.plain, &w);
    nc_http_plain_cancel(NULL, &w);
    w.hangs = false;
    w.raw = good;
    assert_int_equal(ask(&w, 64, SECOND), 0);
    turn_until(&w, 1);
    assert_int_equal(w.result.status, 404);
    w.frees = true;
    assert_int_equal(ask(&w, 64, SECOND), 0);
    turn_until(&w, 2);
    assert_null(w.plain);
    close_world(&w);
}

static void test_endpoints(void **state) {
    static const struct {
        const char *url;
        bool is_plain;
    } rows[] = {
        {"http://169.254.169.254", true},
        {"http://127.0.0.1:8080", true},
        {"http://[fd00:ec2::254]", true},
        {"http://[::1]:80", true},
        {"https://169.254.169.254", false},
        {"http://imds.example", false},
        {"http://169.254.169.254:0", false},
        {"http://169.254.169.254:65536", false},
        {"http://169.254.169.254:x", false},
        {"http://[::1", false},
        {"http://[::1]x", false},
        {"http://::1", false},
        {"http://", false},
        {"http://127.0.0.1/x", false},
        {"http://0x7f000001", false},
        {"http://127.1", false},
    };
    sd_event *event = NULL;

    (void)state;
    assert_true(sd_event_new(&event) >= 0);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_http_plain *p = NULL;
        const int r = nc_http_plain_new(event, rows[i].url, &p);
        if ((r == 0) != rows[i].is_plain)
            fail_msg("%s: %d", rows[i].url, r);
        nc_http_plain_free(p);
    }
    sd_event_unref(event);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_connection), cmocka_unit_test(test_answers),
        cmocka_unit_test(test_cut_off),        cmocka_unit_test(test_closed_in_between),
        cmocka_unit_test(test_nobody_listens), cmocka_unit_test(test_cancelled_and_freed),
        cmocka_unit_test(test_endpoints),
    };

    return cmocka_run_group_tests_name("http-plain", tests, NULL, NULL);
}
