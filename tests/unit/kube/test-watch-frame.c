/*
 * The pure parts of a watch: lines out of chunks, what a line means, where to go on, how long to
 * wait, what is known.
 */
#include "groups.h"
#include "kube-script.h"

#include <errno.h>

#include "watch-frame.h"

static uint64_t prng_next(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 31);
}

/* Joins the lines that come out with '|'. */
static void drain(struct nc_frames *f, struct nc_buf *out) {
    const char *line;
    size_t n;

    while (nc_frames_next(f, &line, &n) == 1) {
        nc_buf_add(out, line, n);
        nc_buf_putc(out, '|');
    }
}

/* Whatever the chunks are, the lines are the same. */
static void test_frames_property(void **state) {
    static const char text[] =
        "{\"a\":1}\n\n{\"b\":\"\xc3\xa9\"}\r\n "
        "\t\r\n{\"long\":\"0123456789012345678901234567890123456789\"}\n{\"c\"\n{\"cut";
    static const char wanted[] = "{\"a\":1}|{\"b\":\"\xc3\xa9\"}|{\"long\":"
                                 "\"0123456789012345678901234567890123456789\"}|{\"c\"|";
    const char *given = getenv("NC_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1;

    (void)state;
    for (unsigned round = 0; round < 2000; round++) {
        struct nc_frames f;
        struct nc_buf out = NC_BUF_INIT;
        nc_frames_init(&f, 100);
        for (size_t at = 0; at < sizeof(text) - 1;) {
            size_t n = 1 + prng_next(&seed) % 20;
            if (n > sizeof(text) - 1 - at)
                n = sizeof(text) - 1 - at;
            assert_int_equal(nc_frames_add(&f, text + at, n), 0);
            at += n;
            if (prng_next(&seed) % 3)
                drain(&f, &out);
        }
        drain(&f, &out);
        if (strcmp(out.data, wanted) != 0)
            fail_msg("round %u: %s", round, out.data);
        nc_buf_done(&out);
        nc_frames_done(&f);
    }
}

static void test_frames_caps(void **state) {
    struct nc_frames f;
    nc_auto_free char *big = nc_malloc(5 << 20);
    const char *line;
    size_t n;

    (void)state;
    memset(big, 'x', 5 << 20);
    nc_frames_init(&f, 100);
    assert_int_equal(nc_frames_next(&f, &line, &n), 0);
    assert_int_equal(nc_frames_add(&f, big, 100), 0);
    assert_int_equal(nc_frames_next(&f, &line, &n), 0); /* may still end here */
    assert_int_equal(nc_frames_add(&f, big, 1), 0);
    assert_int_equal(nc_frames_next(&f, &line, &n), -EFBIG);
    assert_int_equal(nc_frames_add(&f, big, 5 << 20), -EFBIG);
    nc_frames_clear(&f);
    assert_int_equal(nc_frames_next(&f, &line, &n), 0);
    assert_int_equal(nc_frames_add(&f, big, 101), 0);
    assert_int_equal(nc_frames_add(&f, "\n", 1), 0);
    assert_int_equal(nc_frames_next(&f, &line, &n), -EFBIG);
    nc_frames_done(&f);

    nc_frames_init(&f, 1 << 20); /* the room of a large line is given back */
    big[1 << 19] = '\n';
    assert_int_equal(nc_frames_add(&f, big, (1 << 19) + 1), 0);
    assert_int_equal(nc_frames_next(&f, &line, &n), 1);
    assert_int_equal(n, 1 << 19);
    assert_int_equal(nc_frames_add(&f, "a\n", 2), 0);
    assert_true(f.in.room < 1 << 16);
    assert_int_equal(nc_frames_next(&f, &line, &n), 1);
    assert_int_equal(n, 1);
    nc_frames_done(&f);
}

static const struct {
    const char *line;
    int event; /* -1: refused */
    int http;
    const char *expected;
} lines[] = {
    {"{'type':'ADDED','object':{'metadata':{'name':'a','resourceVersion':'5'}}}", NC_WATCH_ADDED, 0,
     NULL},
    {"{'type':'MODIFIED','object':{'metadata':{'name':'a','resourceVersion':'5'}}}",
     NC_WATCH_MODIFIED, 0, NULL},
    {"{'type':'DELETED','object':{'metadata':{'name':'a','resourceVersion':'5'}}}",
     NC_WATCH_DELETED, 0, NULL},
    {"{'type':'BOOKMARK','object':{'metadata':{'resourceVersion':'5','creationTimestamp':null}}}",
     0, 0, NULL},
    {"{'type':'ERROR','object':{'kind':'Status','apiVersion':'v1','code':410,'reason':'Expired','"
     "message':'too old'}}",
     -1, 410, "watch: HTTP 410 Expired: too old"},
    {"{'type':'ERROR','object':{'kind':'Status','apiVersion':'v1','code':500,'message':'no'}}", -1,
     500, "HTTP 500: no"},
    {"{'type':'ERROR','object':{'kind':'Pod'}}", -1, 0, "invalid event"},
    {"{'type':'SYNCED','object':{'metadata':{'name':'a','resourceVersion':'5'}}}", -1, 0,
     "invalid event"},
    {"{'type':5,'object':{'metadata':{'name':'a','resourceVersion':'5'}}}", -1, 0, "invalid event"},
    {"{'type':'ADDED','object':{'metadata':{'name':'a','resourceVersion':5}}}", -1, 0,
     "resourceVersion"},
    {"{'type':'ADDED','object':{'metadata':{'resourceVersion':'5'}}}", -1, 0, "metadata.name"},
    {"{'type':'ADDED','object':[]}", -1, 0, "resourceVersion"},
    {"{'type':'ADDED'}", -1, 0, "resourceVersion"},
    {"{'type':'ADDED','obj", -1, 0, "invalid JSON"},
    {"[]", -1, 0, "invalid event"},
    {"<html>", -1, 0, "invalid JSON"},
};

static void test_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(lines); i++) {
        nc_auto_free char *text = unquote(lines[i].line);
        struct nc_watch_line l;
        struct nc_kube_status status;
        struct nc_err err = NC_ERR_INIT;
        const int r = nc_watch_line_parse(text, strlen(text), &l, &status, &err);
        print_message("# row %zu\n", i);
        assert_int_equal(status.http, lines[i].http);
        if (lines[i].event < 0) {
            assert_true(r < 0);
            assert_non_null(strstr(err.msg, lines[i].expected));
            continue;
        }
        assert_int_equal(r, 0);
        assert_int_equal(l.event, lines[i].event);
        assert_string_equal(l.version, "5");
        nc_watch_line_done(&l);
    }
}

static void assert_request(struct nc_watch_cursor *c, const char *selector, const char *wanted) {
    nc_auto_free char *request = nc_watch_cursor_request(c, "/p", selector);

    assert_string_equal(request, wanted);
}

/* The resume rule. */
static void test_cursor_requests(void **state) {
    struct nc_watch_cursor c = {0};
    struct nc_kube_status gone = {.http = 410};
    struct nc_kube_status large = {.http = 504, .cause = "ResourceVersionTooLarge"};
    nc_auto_free char *request = NULL;

    (void)state;
    assert_request(&c, "s=1",
                   "/p?s=1&limit=500&resourceVersion=0&resourceVersionMatch=NotOlderThan");
    assert_request(&c, NULL,
                   "/p?limit=500"); /* a whole collection: in pages, from the newest state */
    c.next = nc_strdup("a+b=");
    assert_request(&c, "s=1", "/p?s=1&limit=500&continue=a%2Bb%3D");
    nc_watch_cursor_failed(&c, &gone); /* the pages are too old: from the start, and strictly */
    assert_null(c.next);
    assert_request(&c, "s=1", "/p?s=1&limit=500");
    c.is_strict = false;
    assert_int_equal(nc_watch_cursor_advance(&c, "1234"), 0);
    c.is_listed = true;
    request = nc_watch_cursor_request(&c, "/p", "s=1");
    assert_true(
        nc_starts_with(request, "/p?s=1&watch=true&allowWatchBookmarks=true&timeoutSeconds="));
    assert_true(nc_ends_with(request, "&resourceVersion=1234"));
    nc_watch_cursor_failed(&c, &(struct nc_kube_status){.http = 500});
    assert_true(c.is_listed); /* any other failure: from where it stopped */
    nc_watch_cursor_failed(&c, &gone);
    assert_request(&c, "s=1",
                   "/p?s=1&limit=500&resourceVersion=1234&resourceVersionMatch=NotOlderThan");
    nc_watch_cursor_failed(&c, &large);
    assert_request(&c, "s=1", "/p?s=1&limit=500");
    assert_true(nc_watch_is_gone(&(struct nc_kube_status){.reason = "Expired"}));
    assert_true(nc_watch_is_gone(&(struct nc_kube_status){.reason = "Gone"}));
    assert_false(nc_watch_is_gone(&(struct nc_kube_status){.http = 404}));
}

static void test_cursor_versions(void **state) {
    struct nc_watch_cursor c = {0};
    char long_version[200];

    (void)state;
    memset(long_version, '1', sizeof(long_version));
    long_version[132] = '\0';
    assert_true(nc_watch_cursor_advance(&c, long_version) < 0);
    long_version[131] = '\0';
    assert_int_equal(nc_watch_cursor_advance(&c, long_version), 0);
    assert_true(nc_watch_cursor_advance(&c, NULL) < 0);
    assert_true(nc_watch_cursor_advance(&c, "") < 0);
    assert_true(nc_watch_cursor_advance(&c, "0") < 0);
    assert_true(nc_watch_cursor_advance(&c, "1 2") < 0);
    assert_true(nc_watch_cursor_advance(&c, "1\n") < 0);
    assert_string_equal(c.version, long_version);
}

/* Waits double up to their cap, jittered in their upper half; the same seed gives the same waits.
 */
static void test_cursor_waits(void **state) {
    const struct {
        struct nc_kube_status status;
        uint64_t max;
    } rows[] = {{{0}, 30000000},
                {{.http = 503}, 30000000},
                {{.http = 403}, 300000000},
                {{.http = 404}, 300000000},
                {{.http = 401}, 300000000}};

    (void)state;
    for (size_t row = 0; row < NC_ARRAY_SIZE(rows); row++) {
        struct nc_watch_cursor a = {.random = row, .is_listed = true};
        struct nc_watch_cursor b = {.random = row, .is_listed = true};
        uint64_t full = 200000;
        for (unsigned i = 0; i < 2000; i++) {
            const uint64_t wait = nc_watch_cursor_failed(&a, &rows[row].status);
            assert_true(wait >= full / 2 && wait <= full);
            assert_int_equal(wait, nc_watch_cursor_failed(&b, &rows[row].status));
            full = full * 2 > rows[row].max ? rows[row].max : full * 2;
        }
    }
    struct nc_watch_cursor c = {0};
    assert_int_equal(nc_watch_cursor_failed(
                         &c, &(struct nc_kube_status){.http = 429, .retry_after_usec = 7000000}),
                     7000000);
    assert_int_equal(nc_watch_cursor_failed(
                         &c, &(struct nc_kube_status){.http = 429, .retry_after_usec = 3600000000}),
                     30000000);
}

/* Where somebody waits for it: pauses stay short whoever refuses it, and a stream that keeps
 * failing is listed in between. */
static void test_cursor_urgent(void **state) {
    static const int codes[] = {0, 401, 403, 404, 429, 500};

    (void)state;
    for (size_t k = 0; k < NC_ARRAY_SIZE(codes); k++) {
        const struct nc_kube_status status = {.http = codes[k], .retry_after_usec = 60000000};
        struct nc_watch_cursor c = {.is_urgent = true, .is_listed = true};
        for (unsigned i = 1; i < 20; i++) {
            assert_in_range(nc_watch_cursor_failed(&c, &status), 1, 5000000);
            assert_int_equal(c.is_listed, i % 2 == 1);
            c.is_listed = true;
        }
    }
}

/* Something that has begun must come at a kilobyte in ten seconds; what is complete may pause. */
static void test_pace(void **state) {
    struct nc_watch_pace p = {0};
    const uint64_t second = 1000000, start = 7 * second;
    bool is_kept = true;
    (void)state;

    for (unsigned i = 0; i < 10; i++)
        assert_true(nc_watch_pace_keep(&p, 1, true, start + i * second));
    assert_false(nc_watch_pace_keep(&p, 1, true, start + 10 * second));

    p = (struct nc_watch_pace){0};
    for (unsigned i = 0; i < 100; i++)
        is_kept = is_kept && nc_watch_pace_keep(&p, 103, true, start + i * second);
    assert_true(is_kept);

    p = (struct nc_watch_pace){0};
    for (unsigned i = 0; i < 10; i++) /* events, each whole, minutes apart */
        assert_true(nc_watch_pace_keep(&p, 90, false, start + i * 60 * second));
    assert_true(nc_watch_pace_keep(&p, 1, true, start + 900 * second));
    assert_true(nc_watch_pace_keep(&p, 1, false, start + 905 * second));
    assert_true(nc_watch_pace_keep(&p, 1, true, start + 990 * second));
}

static void test_known(void **state) {
    struct nc_known k = {0};
    nc_auto_value struct nc_value *a1 = js("{'metadata':{'namespace':'n','name':'a','uid':'1'}}");
    nc_auto_value struct nc_value *a2 = js("{'metadata':{'namespace':'n','name':'a','uid':'2'}}");
    nc_auto_value struct nc_value *c = js("{'metadata':{'name':'c','uid':'3'}}");
    nc_auto_value struct nc_value *nothing = js("{}");
    struct nc_value *old;
    bool is_same;

    (void)state;
    nc_known_begin_list(&k);
    assert_int_equal(nc_known_add(&k, a1, &is_same, &old), NC_WATCH_ADDED);
    assert_null(old);
    assert_int_equal(nc_known_add(&k, a1, &is_same, &old), NC_WATCH_MODIFIED);
    assert_int_equal(nc_known_add(&k, a2, &is_same, &old), NC_WATCH_ADDED);
    assert_json(old, "{'metadata':{'namespace':'n','name':'a','uid':'1'}}");
    nc_value_free(old);
    assert_int_equal(nc_known_add(&k, c, &is_same, &old), NC_WATCH_ADDED);
    nc_known_drop(&k, nothing);
    assert_null(nc_known_sweep(&k));
    nc_known_begin_list(&k);
    assert_int_equal(nc_known_add(&k, a2, &is_same, &old), NC_WATCH_MODIFIED);
    old = nc_known_sweep(&k);
    assert_json(old, "{'metadata':{'name':'c','uid':'3'}}");
    nc_value_free(old);
    assert_null(nc_known_sweep(&k));
    nc_known_drop(&k, a2);
    assert_int_equal(k.n, 0);
    nc_known_done(&k);
}

/* A uid is told again as it was, whether it is one as API servers make them or only looks like it.
 */
static void test_known_uids(void **state) {
    static const char *const uids[] = {"0b3c6e1f-5a2d-4c8e-9f10-123456789abc",
                                       "0B3C6E1F-5a2d-4c8e-9f10-123456789abc",
                                       "0b3c6e1f-5a2d-4c8e-9f10-123456789ab",
                                       "0b3c6e1f-5a2d-4c8e-9f10-123456789abcd",
                                       "0b3c6e1f-5a2d-4c8e-9f10_123456789abc",
                                       "0b3c6e1f-5a2d-4c8e-9f1--123456789abc",
                                       "00000000-0000-0000-0000-000000000000",
                                       "",
                                       "x"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(uids); i++) {
        struct nc_known k = {0};
        nc_auto_free char *text = nc_asprintf("{'metadata':{'name':'n','uid':'%s'}}", uids[i]);
        nc_auto_value struct nc_value *object = js(text);
        struct nc_value *old;
        bool is_same;
        nc_known_begin_list(&k);
        assert_int_equal(nc_known_add(&k, object, &is_same, &old), NC_WATCH_ADDED);
        assert_int_equal(nc_known_add(&k, object, &is_same, &old), NC_WATCH_MODIFIED);
        nc_known_begin_list(&k);
        old = nc_known_sweep(&k);
        assert_json(old, text);
        nc_value_free(old);
        nc_known_done(&k);
    }
}

/* Against a plain list of booleans: names in any order, put and dropped at random, then a list of a
 * random half. */
static void test_known_property(void **state) {
    uint64_t seed = 7;

    (void)state;
    for (unsigned round = 0; round < 50; round++) {
        struct nc_known k = {0};
        bool is_known[64] = {false};
        bool is_listed[64] = {false};
        struct nc_value *old;
        bool is_same;
        for (unsigned i = 0; i < 500; i++) {
            const unsigned name = (unsigned)(prng_next(&seed) % 64);
            const bool put = prng_next(&seed) % 3 != 0;
            nc_auto_free char *text = nc_asprintf("{'metadata':{'name':'n%u','uid':'u'}}", name);
            nc_auto_value struct nc_value *object = js(text);
            if (i == 400)
                nc_known_begin_list(&k);
            if (put || i >= 400) {
                assert_int_equal(nc_known_add(&k, object, &is_same, &old),
                                 is_known[name] ? NC_WATCH_MODIFIED : NC_WATCH_ADDED);
                is_listed[name] = is_listed[name] || i >= 400;
            } else {
                nc_known_drop(&k, object);
            }
            is_known[name] = put || i >= 400;
        }
        while ((old = nc_known_sweep(&k))) {
            const char *name = nc_value_string(nc_value_path(old, "metadata.name"));
            const int n = atoi(name + 1);
            assert_true(is_known[n] && !is_listed[n]);
            is_known[n] = false;
            nc_value_free(old);
        }
        for (unsigned n = 0; n < 64; n++)
            assert_int_equal(is_known[n], is_listed[n]);
        nc_known_done(&k);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_property), cmocka_unit_test(test_frames_caps),
        cmocka_unit_test(test_lines),           cmocka_unit_test(test_cursor_requests),
        cmocka_unit_test(test_cursor_versions), cmocka_unit_test(test_cursor_waits),
        cmocka_unit_test(test_cursor_urgent),   cmocka_unit_test(test_pace),
        cmocka_unit_test(test_known),           cmocka_unit_test(test_known_uids),
        cmocka_unit_test(test_known_property),
    };

    return run_group(tests, NULL, NULL);
}
