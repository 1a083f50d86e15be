/*
 * HTTP on the event loop against a server on loopback: many at once, streams, and what callbacks
 * may do: cancel, start, free the handle.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "groups.h"
#include "http-world.h"
#include "nc/mem.h"

#define PATIENCE (20 * SECOND)

static void never(void *userdata, const struct nc_http_result *result) {
    (void)userdata;
    fail_msg("called: %s", result->message);
}

/* --- many at once */

struct counter {
    struct world *w;
    unsigned done, answered;
    struct nc_http_req *other;
    struct nc_http_req *self;
};

static void count_done(void *userdata, const struct nc_http_result *result) {
    struct counter *c = userdata;

    c->done++;
    c->answered += result->outcome == NC_HTTP_ANSWERED && result->status == 200;
}

static void start_many(struct world *w, unsigned n, struct counter *c) {
    for (unsigned k = 0; k < n; k++) {
        nc_auto_free char *path = nc_asprintf("/many/%u", k);
        nc_auto_free char *url = url_of(w, path);
        struct nc_http_options o = options_for(url);
        o.timeout_usec = 30 * SECOND;
        o.on_done = count_done;
        o.userdata = c;
        assert_int_equal(nc_http_start(w->http, &o, NULL, NULL), 0);
    }
}

static void test_hundred_in_parallel(void **state) {
    static const unsigned limits[] = {4, 0};
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(limits); k++) {
        struct world w = world_new(PLAY_PATH, limits[k]);
        struct counter c = {0};
        world_start(&w);
        start_many(&w, 100, &c);
        while (c.done < 100) { /* never more than one is handed out in a turn */
            const unsigned before = c.done;
            assert_true(sd_event_run(w.event, 10 * SECOND) > 0);
            assert_true(c.done - before <= 1);
        }
        assert_int_equal(c.answered, 100);
        assert_int_equal(loopback_requests(w.server), 100);
        if (limits[k])
            assert_int_equal(loopback_connections(w.server), limits[k]);
        assert_true(
            loopback_wait(loopback_open, w.server, 4)); /* so many stay for the next request */
        world_done(&w);
    }
}

/* A request that waits for a free connection has its deadline all the same. */
static void test_deadline_while_waiting_for_a_connection(void **state) {
    struct world w = world_new(PLAY_HANG, 1);
    struct counter c = {0};
    (void)state;
    world_start(&w);
    nc_auto_free char *url = url_of(&w, "/");
    struct nc_http_options o = options_for(url);

    o.timeout_usec = SECOND / 5;
    o.on_done = count_done;
    o.userdata = &c;
    for (int k = 0; k < 3; k++)
        assert_int_equal(nc_http_start(w.http, &o, NULL, NULL), 0);
    world_turn_until(&w, &c.done, 3);
    assert_int_equal(c.answered, 0);
    world_done(&w);
}

/* --- what callbacks may do */

static void cancel_self_and_other(void *userdata, const struct nc_http_result *result) {
    struct counter *c = userdata;

    assert_int_equal(result->outcome, NC_HTTP_ANSWERED);
    c->self = nc_http_cancel(c->self);
    c->other = nc_http_cancel(c->other);
    c->done++;
}

static void test_cancel_in_callback(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct world silent = world_new(PLAY_HANG, 0);
    struct counter c = {0};
    (void)state;
    world_start(&w);
    world_start(&silent);
    nc_auto_free char *url = url_of(&w, "/a");
    nc_auto_free char *slow = url_of(&silent, "/b");
    struct nc_http_options o = options_for(url);

    o.on_done = cancel_self_and_other;
    o.userdata = &c;
    assert_int_equal(nc_http_start(w.http, &o, &c.self, NULL), 0);
    o.url = slow;
    o.on_done = never;
    assert_int_equal(nc_http_start(w.http, &o, &c.other, NULL), 0);
    world_turn_until(&w, &c.done, 1);
    assert_null(c.self);
    assert_null(c.other);
    assert_true(loopback_wait(loopback_open, silent.server, 0)); /* the cancelled one hung up */
    world_done(&silent);
    world_done(&w);
}

/* Both are finished when the first is handed out: the second is cancelled while it waits for its
 * turn. */
static void test_cancel_a_finished_one(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct counter c[2] = {0};
    (void)state;
    world_start(&w);
    nc_auto_free char *url = url_of(&w, "/a");
    struct nc_http_options o = options_for(url);

    for (int k = 0; k < 2; k++) {
        o.on_done = count_done;
        o.userdata = &c[k];
        assert_int_equal(nc_http_start(w.http, &o, &c[k].self, NULL), 0);
    }
    while (c[0].done + c[1].done == 0)
        assert_true(sd_event_run(w.event, SECOND) >= 0);
    usleep(20000);                  /* the second answer has arrived in the kernel */
    (void)sd_event_run(w.event, 0); /* and may have been read, or handed out */
    if (c[0].done == 0)
        nc_http_cancel(c[0].self);
    if (c[1].done == 0)
        nc_http_cancel(c[1].self);
    for (int k = 0; k < 5; k++)
        (void)sd_event_run(w.event, 1000);
    world_done(&w);
}

static void free_handle(void *userdata, const struct nc_http_result *result) {
    struct counter *c = userdata;

    (void)result;
    c->w->http = nc_http_free(c->w->http);
    c->done++;
}

static void test_free_handle_in_callback(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct counter c = {.w = &w};
    (void)state;
    world_start(&w);
    nc_auto_free char *url = url_of(&w, "/a");
    struct nc_http_options o = options_for(url);

    o.on_done = free_handle;
    o.userdata = &c;
    for (int k = 0; k < 10; k++)
        assert_int_equal(nc_http_start(w.http, &o, NULL, NULL), 0);
    world_turn_until(&w, &c.done, 1);
    for (int k = 0; k < 10; k++)
        (void)sd_event_run(w.event, 1000);
    assert_int_equal(c.done, 1);
    world_done(&w);
}

static void start_next(void *userdata, const struct nc_http_result *result) {
    struct counter *c = userdata;
    nc_auto_free char *url = url_of(c->w, "/next");
    struct nc_http_options o = options_for(url);

    assert_int_equal(result->status, 200);
    o.on_done = start_next;
    o.userdata = c;
    if (++c->done < 5)
        assert_int_equal(nc_http_start(c->w->http, &o, NULL, NULL), 0);
}

static void test_start_in_callback(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct counter c = {.w = &w};
    (void)state;
    world_start(&w);
    nc_auto_free char *url = url_of(&w, "/first");
    struct nc_http_options o = options_for(url);

    o.on_done = start_next;
    o.userdata = &c;
    assert_int_equal(nc_http_start(w.http, &o, NULL, NULL), 0);
    world_turn_until(&w, &c.done, 5);
    assert_int_equal(loopback_connections(w.server), 1);
    world_done(&w);
}

static void test_free_with_requests_in_flight(void **state) {
    struct world w = world_new(PLAY_HANG, 2);
    struct nc_http_options o;
    (void)state;
    world_start(&w);
    nc_auto_free char *url = url_of(&w, "/");

    o = options_for(url);
    o.on_done = never;
    for (int k = 0; k < 5; k++)
        assert_int_equal(nc_http_start(w.http, &o, NULL, NULL), 0);
    for (int k = 0; k < 20; k++)
        (void)sd_event_run(w.event, 1000);
    world_done(&w);
}

/* --- streams */

enum stream_act { STREAM_READ, STREAM_REFUSE, STREAM_CANCEL, STREAM_FREE, STREAM_START };

struct stream {
    struct world *w;
    struct nc_http_req *self;
    enum stream_act act;
    struct nc_buf data;
    unsigned chunks, done, started;
    struct nc_http_result result;
    char body[64];
};

static void stream_started(void *userdata, const struct nc_http_result *result) {
    struct stream *s = userdata;

    assert_int_equal(result->status, 200);
    s->started++;
}

static int on_stream(void *userdata, const char *data, size_t n) {
    struct stream *s = userdata;
    nc_auto_free char *url = s->act == STREAM_START ? url_of(s->w, "/ends") : NULL;
    struct nc_http_options o = options_for(url);

    s->chunks++;
    nc_buf_add(&s->data, data, n);
    switch (s->act) {
    case STREAM_READ:
        return 0;
    case STREAM_REFUSE:
        return -ECANCELED;
    case STREAM_CANCEL:
        s->self = nc_http_cancel(s->self);
        return 0;
    case STREAM_FREE:
        s->w->http = nc_http_free(s->w->http);
        return 0;
    case STREAM_START:
        o.on_done = stream_started;
        o.userdata = s;
        s->act = STREAM_READ;
        return nc_http_start(s->w->http, &o, NULL, NULL);
    }
    return 0;
}

static void on_stream_done(void *userdata, const struct nc_http_result *result) {
    struct stream *s = userdata;

    s->done++;
    s->result = *result;
    snprintf(s->body, sizeof(s->body), "%s", result->body);
}

static void start_stream(struct stream *s, const char *path, uint64_t timeout_usec,
                         uint64_t idle_usec) {
    nc_auto_free char *url = url_of(s->w, path);
    const struct nc_http_options o = {.name = "watch",
                                      .url = url,
                                      .timeout_usec = timeout_usec,
                                      .idle_timeout_usec = idle_usec,
                                      .head_timeout_usec = PATIENCE,
                                      .on_data = on_stream,
                                      .on_done = on_stream_done,
                                      .userdata = s};

    assert_int_equal(nc_http_start(s->w->http, &o, &s->self, NULL), 0);
}

static void test_stream(void **state) {
    struct world w = world_new(PLAY_STREAM, 0);
    struct stream s = {.w = &w};
    (void)state;
    world_start(&w);

    start_stream(&s, "/ends", 0, 0);
    world_turn_until(&w, &s.done, 1);
    assert_int_equal(s.result.outcome, NC_HTTP_ANSWERED);
    assert_string_equal(s.data.data, "evt\nevt\nevt\n");
    assert_int_equal(s.result.n, 0);
    nc_buf_done(&s.data);
    world_done(&w);
}

static void test_stream_deadlines(void **state) {
    struct world w = world_new(PLAY_STREAM, 0);
    struct stream s = {.w = &w};
    (void)state;
    world_start(&w);

    start_stream(&s, "/open", 0, SECOND / 5);
    world_turn_until(&w, &s.done, 1);
    assert_int_equal(s.result.outcome, NC_HTTP_TIMEOUT);
    assert_non_null(strstr(s.result.message, "was silent for 200ms"));
    assert_string_equal(s.data.data, "evt\nevt\nevt\n");
    start_stream(&s, "/open", SECOND / 5, 0);
    world_turn_until(&w, &s.done, 2);
    assert_int_equal(s.result.outcome, NC_HTTP_TIMEOUT);
    assert_non_null(strstr(s.result.message, "did not end within 200ms"));
    start_stream(&s, "/open", SECOND / 5,
                 30 * SECOND); /* the overall deadline holds beside the idle one */
    world_turn_until(&w, &s.done, 3);
    assert_int_equal(s.result.outcome, NC_HTTP_TIMEOUT);
    assert_non_null(strstr(s.result.message, "did not end within 200ms"));
    nc_buf_done(&s.data);
    world_done(&w);
}

/* Patient for `idle_usec` between two events, for `head_usec` before the first byte. */
static void assert_silent(enum play play, const char *path, uint64_t idle_usec,
                          uint64_t head_usec) {
    struct world w = world_new(play, 0);
    struct stream s = {.w = &w};
    world_start(&w);

    nc_auto_free char *url = url_of(&w, path);
    const struct nc_http_options o = {.name = "watch",
                                      .url = url,
                                      .idle_timeout_usec = idle_usec,
                                      .head_timeout_usec = head_usec,
                                      .on_data = on_stream,
                                      .on_done = on_stream_done,
                                      .userdata = &s};
    assert_int_equal(nc_http_start(w.http, &o, &s.self, NULL), 0);
    world_turn_until(&w, &s.done, 1);
    assert_int_equal(s.result.outcome, NC_HTTP_TIMEOUT);
    assert_non_null(strstr(s.result.message, "was silent for 200ms"));
    nc_buf_done(&s.data);
    world_done(&w);
}

/* Before the first byte less patience may be had than between two events. */
static void test_stream_that_never_begins(void **state) {
    (void)state;
    assert_silent(PLAY_HANG, "/silent", PATIENCE, SECOND / 5);
}

/* Once it has begun, the other patience counts. */
static void test_stream_that_began(void **state) {
    (void)state;
    assert_silent(PLAY_STREAM, "/open", SECOND / 5, PATIENCE);
}

static void test_stream_refused_by_its_reader(void **state) {
    struct world w = world_new(PLAY_STREAM, 0);
    struct stream s = {.w = &w, .act = STREAM_REFUSE};
    (void)state;
    world_start(&w);

    start_stream(&s, "/open", 0, 0);
    world_turn_until(&w, &s.done, 1);
    assert_int_equal(s.result.outcome, NC_HTTP_BROKEN);
    assert_false(s.result.nonsense);
    assert_non_null(strstr(s.result.message, "ended by its reader"));
    assert_int_equal(s.chunks, 1);
    nc_buf_done(&s.data);
    world_done(&w);
}

static void test_stream_of_an_error(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct stream s = {.w = &w};
    (void)state;
    world_start(&w);

    start_stream(&s, "/status/410/20", 0, 0);
    world_turn_until(&w, &s.done, 1);
    assert_int_equal(s.result.status, 410);
    assert_int_equal(s.chunks, 0);
    assert_string_equal(s.body, "xxxxxxxxxxxxxxxxxxxx");
    world_done(&w);
}

static void test_cancel_free_and_start_in_a_stream(void **state) {
    (void)state;
    for (enum stream_act act = STREAM_CANCEL; act <= STREAM_START; act++) {
        struct world w = world_new(PLAY_STREAM, 0);
        struct stream s = {.w = &w, .act = act};
        world_start(&w);
        start_stream(&s, "/open", 0, 0);
        for (int k = 0; k < 5000 && s.chunks == 0; k++)
            (void)sd_event_run(w.event, 1000);
        if (act == STREAM_START)
            world_turn_until(&w, &s.started, 1);
        else
            assert_true(loopback_wait(loopback_open, w.server, 0));
        for (int k = 0; k < 5; k++)
            (void)sd_event_run(w.event, 1000);
        assert_int_equal(s.done, 0);
        assert_true(s.chunks >= 1);
        nc_buf_done(&s.data);
        world_done(&w);
    }
}

/* --- a large answer, and everything else */

struct flood {
    uint64_t sum;
    size_t n, since,
        most; /* bytes: in all, since the clock last ticked, the most between two ticks */
    unsigned done;
};

/* Slower than the peer sends: there is always more to read. */
static int send_flood(void *userdata, const char *data, size_t n) {
    struct flood *f = userdata;

    for (unsigned round = 0; round < 8; round++)
        for (size_t i = 0; i < n; i++)
            f->sum = f->sum * 31 + (unsigned char)data[i];
    f->n += n;
    f->since += n;
    if (f->since > f->most)
        f->most = f->since;
    return 0;
}

static void end_flood(void *userdata, const struct nc_http_result *result) {
    struct flood *f = userdata;

    assert_int_equal(result->outcome, NC_HTTP_ANSWERED);
    f->done++;
}

static int on_tick(sd_event_source *source, uint64_t usec, void *userdata) {
    struct flood *f = userdata;

    (void)usec;
    f->since = 0;
    assert_true(sd_event_source_set_time_relative(source, 1000) >= 0);
    return sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static void test_flood_leaves_turns(void **state) {
    struct world w = world_new(PLAY_PATH, 0);
    struct flood f = {0};
    sd_event_source *tick = NULL;
    (void)state;

    world_start(&w);
    nc_auto_free char *url = url_of(&w, "/size/33554432");
    struct nc_http_options o = options_for(url);
    o.timeout_usec = 60 * SECOND;
    o.on_data = send_flood;
    o.on_done = end_flood;
    o.userdata = &f;
    assert_true(sd_event_add_time_relative(w.event, &tick, CLOCK_MONOTONIC, 0, 1, on_tick, &f)
                >= 0);
    assert_int_equal(nc_http_start(w.http, &o, NULL, NULL), 0);
    while (!f.done)
        assert_true(sd_event_run(w.event, 10 * SECOND) > 0);
    assert_int_equal(f.n, 33554432);
    print_message("# at most %zu bytes between two ticks, sum %llx\n", f.most,
                  (unsigned long long)f.sum);
    assert_true(f.most <= 1 << 20);
    sd_event_source_disable_unref(tick);
    world_done(&w);
}

/* --- a request that is kept */

struct kept {
    struct world *w;
    struct nc_http_req *req;
    unsigned done, answered, repeats;
    enum { KEPT_STAYS, KEPT_CANCELS, KEPT_FREES } end;
};

static void on_kept(void *userdata, const struct nc_http_result *result) {
    struct kept *k = userdata;

    k->done++;
    k->answered += result->outcome == NC_HTTP_ANSWERED && result->n == 5000;
    if (k->done < k->repeats) {
        assert_int_equal(nc_http_repeat(k->req, SECOND, NULL), 0);
        assert_true(nc_http_repeat(k->req, SECOND, NULL) < 0); /* in flight */
    } else if (k->end == KEPT_CANCELS) {
        k->req = nc_http_cancel(k->req);
    } else if (k->end == KEPT_FREES) {
        k->w->http = nc_http_free(k->w->http);
    }
    assert_int_equal(strlen(result->body), result->n); /* still there, whatever was done */
}

static void test_kept(void **state) {
    (void)state;
    for (int end = KEPT_STAYS; end <= KEPT_FREES; end++) {
        struct world w = world_new(PLAY_PATH, 0);
        struct kept k = {.w = &w, .repeats = 5, .end = end};
        world_start(&w);
        nc_auto_free char *url = url_of(&w, "/size/5000");
        struct nc_http_options o = options_for(url);
        o.is_kept = true;
        o.on_done = on_kept;
        o.userdata = &k;
        assert_int_equal(nc_http_start(w.http, &o, &k.req, NULL), 0);
        world_turn_until(&w, &k.done, 5);
        assert_int_equal(k.answered, 5);
        assert_int_equal(loopback_connections(w.server), 1);
        if (end == KEPT_STAYS) { /* cancelled in flight, and by the handle's end */
            assert_int_equal(nc_http_repeat(k.req, SECOND, NULL), 0);
            k.req = nc_http_cancel(k.req);
            assert_int_equal(nc_http_start(w.http, &o, &k.req, NULL), 0);
            world_turn_until(&w, &k.done, 6);
        }
        world_done(&w);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_flood_leaves_turns),
        cmocka_unit_test(test_hundred_in_parallel),
        cmocka_unit_test(test_deadline_while_waiting_for_a_connection),
        cmocka_unit_test(test_cancel_in_callback),
        cmocka_unit_test(test_cancel_a_finished_one),
        cmocka_unit_test(test_free_handle_in_callback),
        cmocka_unit_test(test_start_in_callback),
        cmocka_unit_test(test_free_with_requests_in_flight),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_stream_deadlines),
        cmocka_unit_test(test_stream_that_never_begins),
        cmocka_unit_test(test_stream_that_began),
        cmocka_unit_test(test_stream_refused_by_its_reader),
        cmocka_unit_test(test_stream_of_an_error),
        cmocka_unit_test(test_cancel_free_and_start_in_a_stream),
    };

    return run_group(tests, NULL, NULL);
}
