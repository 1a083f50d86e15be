/*
 * The scripts that the server plays in the tests of HTTP.
 */
#include "http-world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "nc/str.h"

static void flood(struct loopback_conn *c, const char *unit, size_t times) {
    bool open = true;

    for (size_t k = 0; open && k < times; k++)
        open = loopback_puts(c, unit);
}

static void send_sized(struct loopback_conn *c, int status, size_t n) {
    nc_auto_free char *body = nc_malloc(n + 1);

    memset(body, 'x', n);
    body[n] = '\0';
    loopback_answer(c, status, "", body);
}

static bool play_path(struct loopback_conn *c, const struct loopback_request *r) {
    int status = 200;
    size_t n = 0;

    if (sscanf(r->path, "/status/%d/%zu", &status, &n) >= 1)
        send_sized(c, status, n);
    else if (sscanf(r->path, "/size/%zu", &n) == 1)
        send_sized(c, 200, n);
    else if (nc_streq(r->path, "/headers"))
        loopback_answer(c, 429,
                        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after:  7 \r\n"
                        "x-aws-ec2-metadata-token-ttl-seconds: 21600\r\n",
                        "slow down");
    else if (nc_streq(r->path, "/redirect"))
        loopback_answer(c, 302, "Location: /size/3\r\n", "");
    else
        loopback_answer(c, 200, "", r->path);
    return true;
}

static bool play(void *userdata, struct loopback_conn *c, const struct loopback_request *r) {
    static const char begin[] = "HTTP/1.1 200 OK\r\n";
    struct script *s = userdata;

    snprintf(s->head, sizeof(s->head), "%s", r->head);
    snprintf(s->body, sizeof(s->body), "%s", r->body);
    switch (s->play) {
    case PLAY_PATH:
        return play_path(c, r);
    case PLAY_HANG:
        loopback_hang(c);
        return false;
    case PLAY_EMPTY:
        return false;
    case PLAY_RESET:
        loopback_reset(c);
        return false;
    case PLAY_PARTIAL:
        loopback_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
        return false;
    case PLAY_PARTIAL_CHUNK:
        loopback_puts(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nonly ");
        return false;
    case PLAY_NOISE:
        loopback_puts(c, "SSH-2.0-OpenSSH_9.2\r\n");
        return false;
    case PLAY_BAD_CHUNK:
        loopback_puts(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n");
        return false;
    case PLAY_LONG_HEADER:
        loopback_puts(c, begin);
        loopback_puts(c, "X-Long: ");
        flood(c, "0123456789abcdef", 20000);
        return false;
    case PLAY_MANY_HEADERS:
        loopback_puts(c, begin);
        flood(c, "X-Many: 0123456789abcdef\r\n", 20000);
        return false;
    case PLAY_ENDLESS:
        loopback_puts(c, "HTTP/1.1 200 OK\r\n\r\n");
        flood(c, "0123456789abcdef", 1000000);
        return false;
    case PLAY_SLOW:
        loopback_puts(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this");
        loopback_hang(c);
        return false;
    case PLAY_INTERIM:
        loopback_puts(c, "HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\n\r\n");
        loopback_answer(c, 200, "", "late");
        return true;
    case PLAY_STREAM:
        loopback_puts(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (int k = 0; k < 3; k++)
            loopback_puts(c, "4\r\nevt\n\r\n");
        if (nc_streq(r->path, "/ends"))
            return loopback_puts(c, "0\r\n\r\n");
        loopback_hang(c);
        return false;
    case PLAY_DROP_AFTER_ONE:
        loopback_answer(c, 200, "", "one");
        return false;
    }
    return false;
}

struct world world_new(enum play p, unsigned max_connections) {
    struct world w = {0};

    assert_true(sd_event_new(&w.event) >= 0);
    assert_int_equal(nc_http_new(w.event, max_connections, &w.http, NULL), 0);
    w.script.play = p;
    return w;
}

void world_start(struct world *w) {
    w->server = loopback_start(NULL, play, &w->script);
}

void world_done(struct world *w) {
    w->http = nc_http_free(w->http);
    if (w->server)
        loopback_stop(w->server);
    sd_event_unref(w->event);
}

struct nc_http_options options_for(const char *url) {
    return (struct nc_http_options){
        .name = "test", .url = url, .timeout_usec = 5 * SECOND, .max_body_bytes = 65536};
}

char *url_of(const struct world *w, const char *path) {
    return nc_asprintf("%s%s", loopback_url(w->server), path);
}

void world_turn_until(struct world *w, const unsigned *number, unsigned wanted) {
    for (int k = 0; k < 5000 && *number < wanted; k++)
        assert_true(sd_event_run(w->event, 1000) >= 0);
    assert_int_equal(*number, wanted);
}
