/*
 * The metrics listener: which requests it reads, which it refuses and how; that a peer who only
 * holds a connection keeps nobody out.
 */
#include "base-test.h"
#include "groups.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "listener.h"
#include "nc/clock.h"
#include "nc/mem.h"
#include "nc/str.h"

#define PATIENCE_USEC 20000000u
#define HOST "Host: x\r\n"
#define NODE_ADDRESS "127.0.0.9" /* nobody's but where a test says so */

/* --- reading, without a socket */

static int read_text(const char *text, char path[static NC_LISTENER_PATH_MAX], bool *is_head) {
    return nc_listener_read_request(text, strlen(text), path, is_head);
}

static void test_requests(void **state) {
    static const struct {
        const char *text;
        const char *path;
        bool is_head;
    } rows[] = {
        {"GET /metrics HTTP/1.1\r\n" HOST "\r\n", "/metrics", false},
        {"GET /metrics?x=/y HTTP/1.1\r\nhOST:x\r\nAccept: */*\r\n\r\n", "/metrics", false},
        {"HEAD / HTTP/1.1\r\n" HOST "\r\n", "/", true},
        {"GET /a HTTP/1.0\r\n\r\n", "/a", false},
        {"GET /a HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\nmore", "/a", false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        char path[NC_LISTENER_PATH_MAX] = "";
        bool is_head = !rows[i].is_head;
        assert_int_equal(read_text(rows[i].text, path, &is_head), 1);
        assert_string_equal(path, rows[i].path);
        assert_int_equal(is_head, rows[i].is_head);
    }
}

static void test_refused(void **state) {
    static const struct {
        const char *text;
        int status;
    } rows[] = {
        {"GET /metrics HTTP/1.1\n" HOST "\n", 400},
        {"GET /metrics\r\n\r\n", 400},
        {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1 \r\n" HOST "\r\n", 400},
        {"GET metrics HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET http://x/metrics HTTP/1.1\r\n" HOST "\r\n", 400},
        {"GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400},
        {"get / HTTP/1.1\r\n" HOST "\r\n", 405},
        {"POST / HTTP/1.1\r\n" HOST "\r\n", 405},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
        {"GET / HTTPS\r\n" HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST " folded\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST ": x\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "A: \x01\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\n", 400},
        {"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 400},
        {"\r\n\r\n", 400},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        char path[NC_LISTENER_PATH_MAX];
        bool is_head;
        const int r = read_text(rows[i].text, path, &is_head);
        if (r != -rows[i].status)
            fail_msg("row %zu: %d instead of %d", i, r, -rows[i].status);
    }
}

/* Byte by byte it is the same request, and until its last byte it is none. */
static void test_in_pieces(void **state) {
    static const char whole[] = "GET /metrics HTTP/1.1\r\n" HOST "A: b\r\n\r\n";
    char path[NC_LISTENER_PATH_MAX];
    bool is_head;

    (void)state;
    for (size_t n = 0; n < strlen(whole); n++)
        assert_int_equal(nc_listener_read_request(whole, n, path, &is_head), 0);
    assert_int_equal(nc_listener_read_request(whole, strlen(whole), path, &is_head), 1);
}

static void test_limits(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    char path[NC_LISTENER_PATH_MAX];
    bool is_head;

    (void)state;
    (void)nc_buf_printf(&text, "GET /%0255d HTTP/1.1\r\n" HOST "\r\n", 0);
    assert_int_equal(read_text(text.data, path, &is_head), -414);
    nc_buf_clear(&text);
    (void)nc_buf_printf(&text, "GET /%0254d HTTP/1.1\r\n" HOST "\r\n", 0);
    assert_int_equal(read_text(text.data, path, &is_head), 1);
    nc_buf_clear(&text);
    (void)nc_buf_puts(&text, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 0; i < 64; i++)
        (void)nc_buf_puts(&text, "A: b\r\n");
    assert_int_equal(read_text(text.data, path, &is_head), -431);
}

static void test_addresses(void **state) {
    static const struct {
        const char *text;
        bool is_loopback;
    } rows[] = {{"127.0.0.1:1", true},  {"127.9.9.9:1", true},
                {"0.0.0.0:1", false},   {"10.0.0.1:1", false},
                {"[::1]:1", true},      {"[::]:1", false},
                {"[fd00::1]:1", false}, {"[::ffff:127.0.0.1]:1", true}};
    union nc_address a;
    socklen_t n;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        assert_int_equal(nc_address_parse(rows[i].text, &a, &n, NULL), 0);
        assert_int_equal(nc_address_is_loopback(&a), rows[i].is_loopback);
    }
}

/* --- over sockets, on one loop */

struct world {
    sd_event *event;
    struct nc_listener *listener;
    unsigned requested;
    size_t body_bytes;
    bool was_local;
};

static void answer(void *userdata, const char *path, bool is_local,
                   struct nc_listener_answer *ret) {
    struct world *w = userdata;

    w->requested++;
    w->was_local = is_local;
    if (!nc_streq(path, "/metrics"))
        return;
    ret->status = 200;
    for (size_t i = 0; i < w->body_bytes; i++)
        (void)nc_buf_putc(&ret->body, 'x');
}

static int listen_on(struct world *w, const char *address, struct nc_listener **ret,
                     struct nc_err *err) {
    const struct nc_listener_options o = {
        .address = address, .node_address = NODE_ADDRESS, .answer = answer, .userdata = w};

    return nc_listener_new(w->event, &o, ret, err);
}

static int set_up(void **state) {
    struct world *w = nc_calloc(1, sizeof(*w));
    struct nc_err err = NC_ERR_INIT;

    *state = w;
    w->body_bytes = 3;
    if (sd_event_new(&w->event) < 0 || listen_on(w, "127.0.0.1:0", &w->listener, &err) < 0) {
        print_error("%s\n", err.msg);
        return -1;
    }
    return 0;
}

static int tear_down(void **state) {
    struct world *w = *state;

    nc_listener_free(w->listener);
    sd_event_unref(w->event);
    free(w);
    return 0;
}

/* `segment`: at most so many bytes are sent to it at once, and the peer's socket is as small; 0 =
 * as it comes. */
static int connect_from(const struct world *w, const char *address, int segment) {
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr(address)};
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)nc_listener_port(w->listener)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof(from)), 0);
    if (segment)
        assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(segment)), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    assert_true(sd_event_run(w->event, 100000) >= 0); /* it is accepted */
    return fd;
}

static int connect_to(const struct world *w) {
    return connect_from(w, "127.0.0.1", 0);
}

static void say(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Turns the loop until the peer has closed; *out is what it said. false: it was reset. */
static bool hear(struct world *w, int fd, struct nc_buf *out) {
    const uint64_t until = nc_mono_usec() + PATIENCE_USEC;
    char some[65536];

    while (nc_mono_usec() < until) {
        const ssize_t n = recv(fd, some, sizeof(some), MSG_DONTWAIT);
        if (n == 0)
            return true;
        if (n > 0)
            (void)nc_buf_add(out, some, (size_t)n);
        else if (errno != EAGAIN)
            return false;
        else
            assert_true(sd_event_run(w->event, 1000) >= 0);
    }
    fail_msg("no end");
    return false;
}

static void expect(struct world *w, const char *request, const char *begin, const char *body) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const int fd = connect_to(w);
    const char *found;

    say(fd, request);
    assert_true(hear(w, fd, &text));
    (void)close(fd);
    assert_true(nc_starts_with(text.data, begin));
    assert_non_null(strstr(text.data, "\r\nConnection: close\r\n"));
    found = strstr(text.data, "\r\n\r\n");
    assert_non_null(found);
    assert_string_equal(found + 4, body);
}

static void test_answers(void **state) {
    struct world *w = *state;

    expect(w, "GET /metrics HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n", "xxx");
    assert_true(w->was_local);
    expect(w, "HEAD /metrics HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n", "");
    expect(w, "GET /else HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 404 Not Found\r\n", "Not Found\n");
    assert_int_equal(w->requested, 3);
    expect(w, "PUT / HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 405 Method Not Allowed\r\n",
           "Method Not Allowed\n");
    expect(w, "nonsense\r\n", "HTTP/1.1 400 Bad Request\r\n", "Bad Request\n");
    assert_int_equal(w->requested, 3); /* what is refused is nobody's question */
}

/* More than a socket takes at once, and a request longer than is read. */
static void test_large(void **state) {
    struct world *w = *state;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf request = NC_BUF_INIT;
    int fd = connect_from(w, "127.0.0.1", 1000);

    w->body_bytes = (size_t)1 << 20; /* the peer must have it in five seconds, emulated too */
    say(fd, "GET /metrics HTTP/1.1\r\n" HOST "\r\n");
    assert_true(hear(w, fd, &text));
    (void)close(fd);
    assert_true(text.len > w->body_bytes);
    nc_buf_clear(&text);
    (void)nc_buf_printf(&request, "GET / HTTP/1.1\r\nA: %06000d\r\n", 0);
    fd = connect_to(w);
    say(fd, request.data);
    assert_true(hear(w, fd, &text));
    (void)close(fd);
    assert_true(nc_starts_with(text.data, "HTTP/1.1 431 "));
}

/* On a connection that was there before. */
static void expect_answer(struct world *w, int fd) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    say(fd, "GET /metrics HTTP/1.1\r\n" HOST "\r\n");
    assert_true(hear(w, fd, &text));
    assert_true(nc_starts_with(text.data, "HTTP/1.1 200 OK\r\n"));
    (void)close(fd);
}

/* A round of a crowd: each connection that it has is renewed. */
static void renew(struct world *w, int *fds, size_t n, unsigned per_host) {
    for (size_t i = 0; i < n; i++) {
        const size_t host = i / per_host;
        nc_auto_free char *address = nc_asprintf("127.0.%zu.%zu", 1 + host / 128, 1 + host % 128);
        if (fds[i] >= 0)
            (void)close(fds[i]);
        fds[i] = connect_from(w, address, 0);
    }
}

static void let_go(int *fds, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

/* The probe comes last, while the crowd renews: of eight hosts, and of so many that each slot is
 * one's own. */
static void test_a_probe_in_a_crowd(void **state) {
    struct world *w = *state;
    int fds[NC_LISTENER_MAX];

    for (unsigned per_host = 1; per_host > 0; per_host = per_host == 1 ? NC_LISTENER_MAX / 8 : 0) {
        memset(fds, -1, sizeof(fds));
        for (int round = 0; round < 5; round++) {
            renew(w, fds, NC_LISTENER_MAX, per_host);
            expect(w, "GET /metrics HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 OK\r\n", "xxx");
        }
        let_go(fds, NC_LISTENER_MAX);
    }
}

/* More connections of one host than its share take no slot of anybody else's; the latest count. */
static void test_rate_limit(void **state) {
    struct world *w = *state;
    const int probe = connect_from(w, "127.0.0.2", 0);
    int fds[NC_LISTENER_MAX];

    memset(fds, -1, sizeof(fds));
    renew(w, fds, NC_LISTENER_MAX, NC_LISTENER_MAX);
    expect_answer(w, probe);
    expect_answer(w, fds[NC_LISTENER_MAX - 1]);
    let_go(fds, NC_LISTENER_MAX - 1);
}

/* What a crowd sends, and an answer that it has, makes nothing of it younger than who came after
 * it; the own node's connection is older than all of it, and stays. */
static void test_a_crowd_that_speaks(void **state) {
    static const char *const rows[] = {"G", "GET / HTTP/1.1\r\n" HOST "\r\n"};
    const size_t n = NC_LISTENER_MAX - NC_LISTENER_OF_NODE - 1; /* with the probe all are taken */
    struct world *w = *state;
    int fds[NC_LISTENER_MAX];

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const int kubelet = connect_from(w, NODE_ADDRESS, 0);
        memset(fds, -1, sizeof(fds));
        renew(w, fds, n, 1);
        const int probe = connect_from(w, "127.0.0.2", 0);
        for (size_t k = 0; k < n; k++)
            say(fds[k], rows[i]);
        while (sd_event_run(w->event, 100000) > 0)
            ;
        fds[n] = connect_from(w, "127.0.0.3", 0);
        expect_answer(w, probe);
        expect_answer(w, kubelet);
        let_go(fds, n + 1);
    }
}

/* Whoever reads on is not the longest silent, though it came first. */
static void test_a_reader_in_a_crowd(void **state) {
    const size_t n = NC_LISTENER_MAX - NC_LISTENER_OF_NODE - 1; /* with the reader all are taken */
    struct world *w = *state;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const int reader = connect_from(w, "127.0.0.2", 0), small = 65536;
    int fds[NC_LISTENER_MAX];
    char some[65536];

    w->body_bytes = (size_t)8 << 20; /* no send buffer holds what the reader leaves of it */
    assert_int_equal(setsockopt(reader, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
    memset(fds, -1, sizeof(fds));
    say(reader, "GET /metrics HTTP/1.1\r\n" HOST "\r\n");
    renew(w, fds, n, 1);
    while (text.len < w->body_bytes / 4) {
        const ssize_t got = recv(reader, some, sizeof(some), MSG_DONTWAIT);
        if (got > 0)
            (void)nc_buf_add(&text, some, (size_t)got);
        assert_true(sd_event_run(w->event, 1000) >= 0);
    }
    fds[n] = connect_from(w, "127.0.0.3", 0);
    assert_true(hear(w, reader, &text));
    assert_true(text.len > w->body_bytes);
    (void)close(reader);
    let_go(fds, n + 1);
}

/* --- who gives way, without a socket */

static struct nc_host host_of(const char *text) {
    struct nc_host h;

    assert_int_equal(nc_host_parse(text, &h), 0);
    return h;
}

static size_t come(struct nc_slots *s, const struct nc_host *from, uint64_t now_usec) {
    const size_t i = nc_slots_choose(s, from);

    assert_true(i < NC_LISTENER_MAX);
    if (s->at[i].n_of_host > 0)
        nc_slots_clear(s, i);
    nc_slots_fill(s, i, from, now_usec);
    return i;
}

static void test_hosts(void **state) {
    static const struct {
        const char *a, *b;
        bool is_same;
    } rows[] = {{"10.0.0.1", "10.0.0.1", true},
                {"10.0.0.1", "10.0.0.2", false},
                {"10.0.0.1", "::ffff:10.0.0.1", true},
                {"2001:db8::1", "2001:db8::2", false},
                {"2001:db8::1", "2001:db8:0:0:0:0:0:1", true}};
    struct nc_host h;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const struct nc_host a = host_of(rows[i].a), b = host_of(rows[i].b);
        assert_int_equal(memcmp(&a, &b, sizeof(a)) == 0, rows[i].is_same);
    }
    assert_true(nc_host_parse("node", &h) < 0);
}

/* One pod of the node's own /64 renews; kubelet's connection stays, however old. */
static void test_the_own_node(void **state) {
    struct nc_slots s = {.node = host_of("2001:db8::1")};
    const struct nc_host pod = host_of("2001:db8::2");
    uint64_t now = 1;
    const size_t of_node = come(&s, &s.node, now);

    (void)state;
    for (unsigned i = 0; i < 4 * NC_LISTENER_MAX; i++) {
        struct nc_host other = pod;
        other.bytes[8] = (uint8_t)i;
        other.bytes[9] = (uint8_t)(i >> 8);
        assert_int_not_equal(come(&s, i % 2 ? &pod : &other, ++now), of_node);
    }
    for (unsigned i = 1; i < NC_LISTENER_OF_NODE; i++)
        assert_int_not_equal(come(&s, &s.node, ++now), of_node);
    assert_int_equal(come(&s, &s.node, ++now), of_node); /* then the oldest of its own */
}

/* No host that holds many slots keeps one that holds none away, nor takes what another one holds:
 * for random crowds. */
static void test_any_crowd(void **state) {
    const unsigned seed = (unsigned)nc_mono_usec();
    unsigned random = seed;

    (void)state;
    assert_true(NC_LISTENER_MAX - NC_LISTENER_OF_NODE >= 200); /* a subnet has hundreds of pods */
    print_message("seed %u\n", seed);
    for (unsigned crowd = 1; crowd <= 2 * NC_LISTENER_MAX; crowd = crowd * 3 / 2 + 1) {
        struct nc_slots s = {0};
        for (uint64_t now = 1; now < 5000; now++) {
            struct nc_host from = host_of("2001:db8::1");
            unsigned held = 0, most = 0;
            random = random * 1103515245u + 12345u;
            from.bytes[8] = (uint8_t)((random >> 16) % crowd);
            from.bytes[9] = (uint8_t)((random >> 16) % crowd >> 8);
            for (size_t i = 0; i < NC_LISTENER_MAX; i++) {
                held += s.at[i].n_of_host > 0 && memcmp(&s.at[i].from, &from, sizeof(from)) == 0;
                most = most > s.at[i].n_of_host ? most : s.at[i].n_of_host;
            }
            const size_t i = nc_slots_choose(&s, &from);
            assert_true(i < NC_LISTENER_MAX);
            assert_true(most <= NC_LISTENER_PER_ADDRESS);
            if (s.at[i].n_of_host > 0) {
                assert_true(held > 0 ? memcmp(&s.at[i].from, &from, sizeof(from)) == 0
                                     : s.at[i].n_of_host > 1 || most == 1);
                nc_slots_clear(&s, i);
            }
            nc_slots_fill(&s, i, &from, now);
        }
    }
}

/* Half a request is dropped when its deadline has passed. */
static void test_slow(void **state) {
    struct world *w = *state;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const uint64_t begun = nc_mono_usec();
    const int fd = connect_to(w);

    say(fd, "GET /met");
    (void)hear(w, fd, &text);
    (void)close(fd);
    assert_int_equal(text.len, 0);
    assert_true(nc_mono_usec() - begun >= NC_LISTENER_USEC);
    assert_int_equal(w->requested, 0);
}

static void test_accepted(void **state) {
    struct world *w = *state;
    nc_auto_free char *address = nc_asprintf("127.0.0.1:%u", nc_listener_port(w->listener));
    struct nc_listener *second = NULL;
    struct nc_err err = NC_ERR_INIT;

    assert_int_equal(listen_on(w, address, &second, &err), -EADDRINUSE);
    assert_int_equal(err.class, NC_ERR_HOST);
    assert_null(second);
}

#define world_test(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests),  cmocka_unit_test(test_refused),
        cmocka_unit_test(test_in_pieces), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_addresses), world_test(test_answers),
        world_test(test_large),           world_test(test_a_probe_in_a_crowd),
        world_test(test_rate_limit),      world_test(test_a_crowd_that_speaks),
        cmocka_unit_test(test_hosts),     cmocka_unit_test(test_the_own_node),
        cmocka_unit_test(test_any_crowd), world_test(test_slow),
        world_test(test_accepted),        world_test(test_a_reader_in_a_crowd),
    };

    return run_group(tests, NULL, NULL);
}
