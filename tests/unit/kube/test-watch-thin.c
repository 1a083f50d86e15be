/*
 * A watch that keeps only some members of each object: what its owner gets, and that neither a list
 * nor an object is ever held as a whole.
 */
#include "groups.h"
#include "kube-script.h"
#include "virtual-clock.h"

#include <errno.h>
#include <malloc.h>

#include "watch-frame.h"

struct observed {
    struct nc_buf trace;
    struct nc_watch *watch;
    const char *stop_at;
    unsigned n;
    long long first_bytes, most_bytes, last_bytes; /* of the heap, at events */
};

static const char keep[] = "metadata.labels\0spec.volumes.claim\0status\0";

static void note(struct observed *h, const char *line) {
    nc_buf_puts(&h->trace, line);
    if (nc_ends_with(h->trace.data, h->stop_at))
        sd_event_exit(script_loop(), 0);
}

static void on_event(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    static const char *const names[] = {"?", "added", "modified", "deleted", "synced"};
    struct nc_buf line = NC_BUF_INIT;

    nc_buf_printf(&line, "%s ", names[event]);
    if (object)
        nc_json_write(&line, object, 0);
    nc_buf_putc(&line, '\n');
    for (char *p = line.data; *p; p++)
        if (*p == '"')
            *p = '\'';
    note(userdata, line.data);
    nc_buf_done(&line);
}

static void on_failed(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    nc_auto_free char *line =
        nc_asprintf("failed %d %s: %s\n", status->http, nc_err_class_name(err->class), err->msg);

    note(userdata, line);
}

static void follow_with(struct nc_kube *k, const char *stop_at, struct nc_watch_options o,
                        const char *trace) {
    struct observed h = {.stop_at = stop_at};

    o.path = "/api/v1/nodes";
    o.selector = "fieldSelector=x";
    o.keep = keep;
    o.event = on_event;
    o.failed = on_failed;
    o.userdata = &h;
    assert_int_equal(nc_watch_new(k, script_loop(), &o, &h.watch, NULL), 0);
    script_run();
    nc_watch_free(h.watch);
    assert_string_equal(h.trace.data, trace);
    nc_buf_done(&h.trace);
    script_end(k);
}

static void follow_max(struct nc_kube *k, const char *stop_at, size_t max, const char *trace) {
    follow_with(k, stop_at, (struct nc_watch_options){.max_object_bytes = max}, trace);
}

static void follow(struct nc_kube *k, const char *stop_at, const char *trace) {
    follow_max(k, stop_at, 0, trace);
}

#define META(name, version)                                                                        \
    "'metadata':{'name':'" name "','namespace':'n','uid':'u','resourceVersion':'" version "'"
#define THIN(name, version) "{" META(name, version) "}}"
#define LIST(version, items)                                                                       \
    "{'kind':'PodList','metadata':{'resourceVersion':'" version "'},'items':[" items "]}"
#define EVENT(type, object) "{'type':'" type "','object':" object "}\n"

/* What was not named goes; what the watch needs stays; an event has the same shape as an item. */
static void test_members(void **state) {
    (void)state;
    for (size_t chunk = 1; chunk < 400; chunk = chunk * 3 + 1)
        follow(
            SCRIPT(NULL, NULL,
                   {.chunk = chunk,
                    .answer =
                        LIST("10",
                             "{" META("a", "9") ",'labels':{'x':'y'},'managedFields':[{}]},"
                                                "'spec':{'volumes':[{'claim':'c','z':1},{}],'y':2},"
                                                "'status':{'phase':'Running'}}")},
                   {.chunk = chunk,
                    .stays_open = true,
                    .answer = EVENT("BOOKMARK", "{'kind':'Pod','metadata':{'resourceVersion':"
                                                "'11','creationTimestamp':null},'spec':{}}")
                        EVENT("MODIFIED", "{'kind':'Pod','apiVersion':'v1'," META(
                                              "a", "12") ",'x':1},'spec':{'volumes':[]}}")}),
            "[]}}\n",
            "added {" META("a", "9") ",'labels':{'x':'y'}},'spec':{'volumes':[{'claim':'c'},{}]},"
                                     "'status':{'phase':'Running'}}\nsynced \n"
                                     "modified {'kind':'Pod','apiVersion':'v1'," META(
                                         "a", "12") "},'spec':{'volumes':[]}}\n");
    assert_true(nc_ends_with(script_last_url, "&resourceVersion=10"));
}

/* All that a Status says is read, though nobody named it. */
static void test_error_event(void **state) {
    (void)state;
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")},
                  {.answer = "{'type':'ERROR','object':{'kind':'Status','apiVersion':'v1',"
                             "'metadata':{},'status':'Failure','message':'slow down','reason':"
                             "'TooManyRequests','details':{'retryAfterSeconds':1,'causes':["
                             "{'reason':'Because','message':'of that'}]},'code':429}}\n"}),
           "that\n",
           "synced \nfailed 429 transient: watch: HTTP 429 TooManyRequests: slow down: of that\n");
}

/* A list that breaks off: what came of it counts, the rest comes with the next. */
static void test_broken_list(void **state) {
    (void)state;
    follow(SCRIPT(NULL, NULL,
                  {.outcome = NC_HTTP_BROKEN,
                   .answer = "{'kind':'PodList','items':[" THIN("a", "1") ",{'meta"},
                  {.answer = "{'kind':'PodList','items':[" THIN("a", "1") ","},
                  {.answer = LIST("10", THIN("a", "1") "," THIN("b", "2"))}, {.stays_open = true}),
           "synced \n",
           "added " THIN(
               "a", "1") "\nfailed 0 transient: list: scripted failure\n"
                         "modified " THIN(
                             "a", "1") "\nfailed 0 protocol: list /api/v1/nodes: JSON: byte 101: "
                                       "the text ends too early\nmodified " THIN(
                                           "a", "1") "\nadded " THIN("b", "2") "\nsynced \n");
}

static const struct {
    struct script_step list, stream;
    size_t max;
    const char *expected;
} hostile[] = {
    {{.raw = "<html>"}, {0}, 0, "failed 0 protocol: watch /api/v1/nodes: JSON: byte 0: "},
    {{.raw = ""}, {0}, 0, "failed 0 protocol: list /api/v1/nodes: JSON: byte 0: the text ends"},
    {{.answer = "{'kind':'Status'}"}, {0}, 0, "invalid list: its kind"},
    {{.answer = "{}"}, {0}, 0, "the list has no metadata.resourceVersion"},
    {{.answer = "{'items':{}}"}, {0}, 0, "JSON: byte 9: items must be an array"},
    {{.answer = "{'items':[5]}"}, {0}, 0, "JSON: byte 10: invalid item: not an object"},
    {{.answer = "{'items':[{}]}"}, {0}, 0, "an item of the list has no metadata.name"},
    {{.answer = "{'items':[{'status':1,'status':2}]}"},
     {0},
     0,
     "watch /api/v1/nodes: an item of the list: JSON: duplicate key"},
    {{.answer = LIST("1", "{'status':'0123456789'}")}, {0}, 20, "of an item is too large"},
    {{.answer = LIST("1", "")}, {.answer = EVENT("ADDED", "{'status':'01'}")}, 20, "is too large"},
    {{.answer = LIST("1", "")}, {.answer = "[]"}, 0, "invalid item: not an object"},
    {{.answer = LIST("1", "")}, {.answer = "{'type':'X'}"}, 0, "watch: invalid event"},
    {{.answer = LIST("1", "")},
     {.answer = EVENT("ADDED", "{'metadata':{'name':'a'}}")},
     0,
     "no metadata.resourceVersion"},
};

static void test_hostile(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(hostile); i++) {
        struct observed h = {.stop_at = "never"};
        const struct script_step steps[] = {hostile[i].list, hostile[i].stream};
        const bool has_stream = hostile[i].stream.answer != NULL;
        struct nc_kube *k = script_begin(steps, has_stream ? 2 : 1, NULL, NULL);
        const struct nc_watch_options o = {.path = "/api/v1/nodes",
                                           .selector = "fieldSelector=x",
                                           .keep = keep,
                                           .max_object_bytes = hostile[i].max,
                                           .event = on_event,
                                           .failed = on_failed,
                                           .userdata = &h};
        print_message("# row %zu: %s\n", i, hostile[i].expected);
        assert_int_equal(nc_watch_new(k, script_loop(), &o, &h.watch, NULL), 0);
        while (!h.trace.data || !strstr(h.trace.data, "failed"))
            assert_true(clock_run(script_loop(), 5000000) > 0);
        if (!strstr(h.trace.data, hostile[i].expected))
            fail_msg("%s", h.trace.data);
        nc_watch_free(h.watch);
        nc_buf_done(&h.trace);
        script_end(k);
    }
}

/* An object that is far larger than what an object may be, and a list of many: the heap stays as it
 * was, but for the copy of the whole answer that the scripted transport makes. (Sanitizers have a
 * heap of their own, of which nothing is known: 0.) */
static long long heap_bytes(void) {
    const struct mallinfo2 m = mallinfo2();

    return (long long)(m.uordblks + m.hblkhd);
}

static void on_large(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct observed *h = userdata;

    (void)object;
    if (h->n++ == 0)
        h->first_bytes = heap_bytes();
    if (event == NC_WATCH_ADDED)
        h->most_bytes = heap_bytes() > h->most_bytes ? heap_bytes() : h->most_bytes;
    h->last_bytes = heap_bytes();
    if (event == NC_WATCH_MODIFIED)
        sd_event_exit(script_loop(), 0);
}

static void put_pod(struct nc_buf *b, const char *name, size_t n) {
    nc_auto_free char *ballast = nc_calloc(1, n + 1);

    memset(ballast, 'x', n);
    nc_buf_printf(
        b,
        "{\"metadata\":{\"name\":\"%s\",\"resourceVersion\":\"5\"},\"spec\":{\"x\":\"%s\"}"
        "}",
        name, ballast);
}

static void test_large(void **state) {
    struct nc_buf list = NC_BUF_INIT, event = NC_BUF_INIT;
    struct observed h = {.stop_at = ""};
    const long long room = 256 << 10;

    (void)state;
    nc_buf_puts(&list, "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":[");
    for (unsigned i = 0; i < 36; i++) {
        char name[16];
        snprintf(name, sizeof(name), "p%u", i);
        nc_buf_puts(&list, i > 0 ? "," : "");
        put_pod(&list, name, 1 << 20); /* more than a list without `keep` may have */
    }
    nc_buf_puts(&list, "]}");
    nc_buf_puts(&event, "{\"type\":\"MODIFIED\",\"object\":");
    put_pod(&event, "p1", 6 << 20);
    nc_buf_puts(&event, "}\n");
    const struct script_step steps[] = {{.raw = list.data, .chunk = 16384},
                                        {.raw = event.data, .chunk = 16384, .stays_open = true}};
    struct nc_kube *k = script_begin(steps, 2, NULL, NULL);
    const struct nc_watch_options o = {.path = "/api/v1/nodes",
                                       .selector = "fieldSelector=x",
                                       .keep = keep,
                                       .event = on_large,
                                       .failed = on_failed,
                                       .userdata = &h};
    assert_int_equal(nc_watch_new(k, script_loop(), &o, &h.watch, NULL), 0);
    script_run();
    assert_int_equal(h.n, 36 + 1 + 1);
    print_message("# heap: first item %lld, most %lld, event %lld\n", h.first_bytes, h.most_bytes,
                  h.last_bytes);
    assert_true(h.most_bytes <= h.first_bytes + room);
    assert_true(h.first_bytes == 0
                || h.last_bytes
                       < h.first_bytes - (long long)list.len + (long long)event.len + room);
    nc_watch_free(h.watch);
    script_end(k);
    nc_buf_done(&list);
    nc_buf_done(&event);
}

/* A list that a drain waits for is given up early where it is silent, the first time; a watch is
 * not waited for longer than the bookmarks, which come each minute, allow. */
static void test_patience(void **state) {
    static const uint64_t second = 1000000;
    const struct nc_watch_options urgent = {.is_urgent = true};

    (void)state;
    follow_with(SCRIPT(NULL, NULL, {.outcome = NC_HTTP_TIMEOUT}, {.outcome = NC_HTTP_TIMEOUT},
                       {.answer = LIST("10", "")}, {.stays_open = true}),
                "synced \n", urgent,
                "failed 0 transient: list: scripted failure\n"
                "failed 0 transient: list: scripted failure\nsynced \n");
    assert_int_equal(script_idle_usec[0], 5 * second);
    assert_int_equal(script_idle_usec[1], 10 * second);
    assert_int_equal(script_idle_usec[2], 20 * second);
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")},
                  {.stays_open = true, .answer = EVENT("ADDED", THIN("a", "11"))}),
           "}}\n", "synced \nadded " THIN("a", "11") "\n");
    assert_int_equal(script_idle_usec[0], 30 * second);
    assert_int_equal(script_idle_usec[1], 75 * second);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),     cmocka_unit_test(test_error_event),
        cmocka_unit_test(test_broken_list), cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_large),       cmocka_unit_test(test_patience),
    };

    return run_group(tests, NULL, NULL);
}
