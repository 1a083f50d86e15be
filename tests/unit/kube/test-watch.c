/*
 * The watch as its owner observes it: every answer of an API server, good or bad, and the trace
 * that follows from it.
 */
#include "groups.h"
#include "kube-script.h"
#include "virtual-clock.h"

#include <errno.h>

/* The same must be observed where objects are thinned out on their way. */
static const char status_only[] = "status.phase\0";
static const char *keep;

static int thin_out(void **state) {
    (void)state;
    keep = status_only;
    return 0;
}

/* The whole of it: what the owner observes, line by line. */
struct observed {
    struct nc_buf trace;
    struct nc_watch *watch;
    const char *stop_at; /* the loop ends when the trace ends with this */
    const char *free_at; /* the watch is freed when the trace ends with this */
};

static void note(struct observed *h, const char *line) {
    nc_buf_puts(&h->trace, line);
    if (h->free_at && nc_ends_with(h->trace.data, h->free_at))
        h->watch = nc_watch_free(h->watch);
    if (nc_ends_with(h->trace.data, h->stop_at))
        sd_event_exit(script_loop(), 0);
}

static void on_event(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    static const char *const names[] = {"?", "added", "modified", "deleted", "synced"};
    const char *name = nc_value_string(nc_value_path(object, "metadata.name"));
    nc_auto_free char *line =
        nc_asprintf("%s%s%s\n", names[event], name ? " " : "", name ? name : "");

    note(userdata, line);
}

static void on_failed(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    nc_auto_free char *line =
        nc_asprintf("failed %d %s: %s\n", status->http, nc_err_class_name(err->class), err->msg);

    note(userdata, line);
}

static void on_well(void *userdata) {
    note(userdata, "well\n");
}

static void follow_with(struct nc_kube *k, const char *stop_at, const char *free_at,
                        struct nc_watch_options o, const char *trace) {
    struct observed h = {.stop_at = stop_at, .free_at = free_at};
    struct nc_err err = NC_ERR_INIT;

    o.path = "/api/v1/nodes";
    o.selector = "fieldSelector=metadata.name%3Da";
    o.keep = keep;
    o.event = on_event;
    o.failed = on_failed;
    o.well = on_well;
    o.userdata = &h;
    assert_int_equal(nc_watch_new(k, script_loop(), &o, &h.watch, &err), 0);
    assert_null(h.trace.data); /* nothing before the loop turns */
    script_run();
    h.watch = nc_watch_free(h.watch);
    assert_string_equal(h.trace.data, trace);
    nc_buf_done(&h.trace);
    script_end(k);
}

static void follow(struct nc_kube *k, const char *stop_at, const char *trace) {
    follow_with(k, stop_at, NULL, (struct nc_watch_options){0}, trace);
}

#define NODE(name, uid, version)                                                                   \
    "{'metadata':{'name':'" name "','uid':'" uid "','resourceVersion':'" version "'}}"
#define LIST(version, items)                                                                       \
    "{'kind':'NodeList','metadata':{'resourceVersion':'" version "'},'items':[" items "]}"
#define EVENT(type, object) "{'type':'" type "','object':" object "}\n"
#define GONE                                                                                       \
    "{'type':'ERROR','object':{'kind':'Status','apiVersion':'v1','code':410,'reason':'Expired','"  \
    "message':'too old'}}\n"
#define LIST_URL                                                                                   \
    "https://api.test:6443/api/v1/"                                                                \
    "nodes?fieldSelector=metadata.name%3Da&limit=500&resourceVersion="

static void test_list_then_stream(void **state) {
    (void)state;
    for (size_t chunk = 1; chunk < 300; chunk = chunk * 2 + 1)
        follow(SCRIPT(NULL, NULL,
                      {.url = LIST_URL "0&resourceVersionMatch=NotOlderThan",
                       .header = "Accept: application/json",
                       .answer = LIST("10", NODE("a", "1", "9"))},
                      {.header = "Accept: application/json",
                       .chunk = chunk,
                       .stays_open = true,
                       .answer = EVENT("MODIFIED", NODE("a", "1", "11"))
                           EVENT("BOOKMARK", "{'metadata':{'resourceVersion':'20'}}")
                               EVENT("DELETED", NODE("a", "1", "21"))
                                   EVENT("ADDED", NODE("a", "2", "22"))}),
               "deleted a\nadded a\n", "added a\nsynced\nmodified a\ndeleted a\nadded a\n");
}

static void test_metadata_only(void **state) {
    (void)state;
    follow_with(
        SCRIPT(NULL, NULL,
               {.header = "Accept: "
                          "application/"
                          "json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                .answer = "{'kind':'PartialObjectMetadataList','metadata':{'resourceVersion':'10'},"
                          "'items':null}"},
               {.header =
                    "Accept: "
                    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
                .stays_open = true,
                .answer = EVENT("ADDED", NODE("a", "1", "11"))}),
        "added a\n", NULL, (struct nc_watch_options){.metadata_only = true}, "synced\nadded a\n");
}

/* The server ends the stream after its time: on from the bookmark, at once and silently. */
static void test_resume(void **state) {
    (void)state;
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")},
                  {.answer = EVENT("BOOKMARK", "{'metadata':{'resourceVersion':'77'}}")},
                  {.stays_open = true, .answer = EVENT("ADDED", NODE("a", "1", "78"))}),
           "added a\n", "synced\nadded a\n");
    assert_true(nc_ends_with(script_last_url, "&resourceVersion=77"));
}

/* A stream that is cut in mid-line: the half line is dropped, the rest comes again. */
static void test_cut(void **state) {
    (void)state;
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")},
                  {.outcome = NC_HTTP_BROKEN,
                   .answer = EVENT("ADDED", NODE("a", "1", "11")) "{'type':'MODIF"},
                  {.stays_open = true, .answer = EVENT("MODIFIED", NODE("a", "1", "12"))}),
           "modified a\n",
           "synced\nadded a\nfailed 0 transient: watch: scripted failure\nmodified a\n");
    assert_true(nc_ends_with(script_last_url, "&resourceVersion=11"));
}

/* Gone, in the stream and as a status: list again, and say what vanished meanwhile. */
static void test_gone(void **state) {
    (void)state;
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", NODE("a", "1", "5") "," NODE("b", "2", "6"))},
                  {.answer = EVENT("BOOKMARK", NODE("", "", "12")) GONE},
                  {.url = LIST_URL "12&resourceVersionMatch=NotOlderThan",
                   .answer = LIST("30", NODE("a", "9", "28"))},
                  {.stays_open = true, .answer = EVENT("MODIFIED", NODE("a", "9", "31"))}),
           "modified a\n",
           "added a\nadded b\nsynced\ndeleted a\nadded a\ndeleted b\nsynced\nmodified a\n");
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", NODE("a", "1", "5"))},
                  {.status = 410,
                   .answer = "{'kind':'Status','apiVersion':'v1','reason':'Expired','code':410}"},
                  {.answer = LIST("30", "")}, {.stays_open = true}),
           "deleted a\nsynced\n", "added a\nsynced\ndeleted a\nsynced\n");
}

/* Somebody waits for it: what a stream that fails does not say, a list says. */
static void test_urgent(void **state) {
    (void)state;
    follow_with(SCRIPT(NULL, NULL, {.answer = LIST("10", NODE("a", "1", "5"))}, {.status = 403},
                       {.status = 403}, {.answer = LIST("30", "")}, {.stays_open = true}),
                "deleted a\nsynced\n", NULL, (struct nc_watch_options){.is_urgent = true},
                "added a\nsynced\nfailed 403 auth: watch: HTTP 403\nfailed 403 auth: watch: HTTP "
                "403\ndeleted a\nsynced\n");
}

/* A list that the cache cannot serve is requested strictly; pages are followed. */
static void test_list_again(void **state) {
    (void)state;
    follow(
        SCRIPT(
            NULL, NULL,
            {.status = 504,
             .answer = "{'kind':'Status','apiVersion':'v1','reason':'Timeout','code':504,'details':"
                       "{'causes':[{'reason':"
                       "'ResourceVersionTooLarge','message':'x'}]}}"},
            {.url = "https://api.test:6443/api/v1/nodes?fieldSelector=metadata.name%3Da&limit=500",
             .answer = "{'kind':'NodeList','metadata':{'resourceVersion':'10','continue':'more'},'"
                       "items':[" NODE("a", "1", "5") "]}"},
            {.url = "https://api.test:6443/api/v1/"
                    "nodes?fieldSelector=metadata.name%3Da&limit=500&continue=more",
             .answer = LIST("10", NODE("b", "1", "5"))},
            {.stays_open = true}),
        "synced\n", "failed 504 transient: list: HTTP 504 Timeout: x\nadded a\nadded b\nsynced\n");
}

/* A sign of life between two failures makes the second one a first one: seven that doubled their
 * waits would take more than the ten seconds that a test has. */
static void observe_once(const struct script_step *steps, size_t n) {
    struct observed h = {.stop_at = "added a\n"};
    struct nc_kube *k = script_begin(steps, n, NULL, NULL);
    const struct nc_watch_options o = {.path = "/api/v1/nodes",
                                       .selector = "fieldSelector=x",
                                       .keep = keep,
                                       .event = on_event,
                                       .userdata = &h};

    assert_int_equal(nc_watch_new(k, script_loop(), &o, &h.watch, NULL), 0);
    script_run();
    nc_watch_free(h.watch);
    nc_buf_done(&h.trace);
    script_end(k);
}

static void test_life_between_failures(void **state) {
    static const char sign[] = EVENT("BOOKMARK", "{'metadata':{'resourceVersion':'11'}}");
    static const struct script_step last = {.stays_open = true,
                                            .answer = EVENT("ADDED", NODE("a", "1", "11"))};
    struct script_step steps[16] = {{.answer = LIST("10", "")}};

    (void)state;
    for (size_t i = 1; i < 8; i++)
        steps[i] = (struct script_step){.outcome = NC_HTTP_BROKEN, .answer = sign};
    steps[8] = last;
    observe_once(steps, 9);
    for (size_t i = 1; i < 15; i += 2) {
        steps[i] = (struct script_step){.outcome = NC_HTTP_BROKEN};
        steps[i + 1] = (struct script_step){.answer = sign};
    }
    steps[15] = last;
    observe_once(steps, 16);
}

/* Silence: the transport ends the stream, the watch opens it again. That is told only where the
 * next one is not answered: on a quiet cluster nothing may come for long. */
static void test_silence(void **state) {
    (void)state;
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")},
                  {.outcome = NC_HTTP_TIMEOUT, .was_open = true}, {.outcome = NC_HTTP_TIMEOUT},
                  {.stays_open = true, .answer = EVENT("ADDED", NODE("a", "1", "11"))}),
           "added a\n", "synced\nfailed 0 transient: watch: scripted failure\nadded a\n");
}

/* A quiet stream after a failure: the owner is told that it stands, though nothing comes of it. One
 * that has not begun to answer does not stand. */
static void test_well_again(void **state) {
    (void)state;
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")}, {.status = 500}, {.stays_open = true}),
           "well\n", "synced\nfailed 500 transient: watch: HTTP 500\nwell\n");
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")}, {.status = 500},
                  {.outcome = NC_HTTP_TIMEOUT}, {.stays_open = true}),
           "well\n",
           "synced\nfailed 500 transient: watch: HTTP 500\nfailed 0 transient: watch: scripted "
           "failure\nwell\n");
}

/* A server that ends each stream at once is not hurried, and not complained about before the third
 * time. */
static void test_ends_at_once(void **state) {
    (void)state;
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")}, {.answer = ""}, {.answer = "\n"},
                  {.stays_open = true, .answer = EVENT("ADDED", NODE("a", "1", "11"))}),
           "added a\n", "synced\nadded a\n");
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")}, {.answer = ""}, {.answer = ""},
                  {.answer = ""}, {.stays_open = true}),
           "well\n",
           "synced\nfailed 0 transient: watch /api/v1/nodes: the server ends it at once, again and "
           "again\nwell\n");
}

/* The first line of a stream has no end: what it says is taken all the same. */
static void test_ends_without_line_end(void **state) {
    (void)state;
    follow(SCRIPT(NULL, NULL, {.answer = LIST("10", "")},
                  {.answer = "{'type':'ADDED','object':" NODE("a", "1", "11") "}"},
                  {.stays_open = true}),
           "added a\n", "synced\nadded a\n");
}

static void test_refused(void **state) {
    unsigned calls = 0;

    (void)state;
    follow(SCRIPT(give_token, &calls,
                  {.status = 403,
                   .answer =
                       "{'kind':'Status','apiVersion':'v1','reason':'Forbidden','message':'no'}"},
                  {.answer = LIST("10", "")},
                  {.header = "Authorization: Bearer one", .status = 401},
                  {.header = "Authorization: Bearer two", .status = 401},
                  {.header = "Authorization: Bearer one",
                   .stays_open = true,
                   .answer = EVENT("ADDED", NODE("a", "1", "11"))}),
           "added a\n",
           "failed 403 auth: list: HTTP 403 Forbidden: no\nsynced\nfailed 401 auth: watch: HTTP "
           "401\nadded a\n");
}

static int no_token(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    unsigned *calls = userdata;

    if (++*calls % 2)
        return give_token(NULL, refuse, ret_token, err);
    return nc_err_set(err, NC_ERR_TRANSIENT, EIO, "no role credentials");
}

/* Made between two turns of the loop, so not at once. */
static int later_token(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    if (!refuse)
        return give_token(userdata, refuse, ret_token, err);
    return nc_err_set(err, NC_ERR_TRANSIENT, EAGAIN, "a new one is being made");
}

/* A token that has become old is made anew; where that does not help, it is said what the server
 * says. */
static void test_list_refuses_tokens(void **state) {
    (void)state;
    follow(SCRIPT(later_token, NULL, {.status = 401}, {.status = 401}, {.answer = LIST("10", "")},
                  {.stays_open = true}),
           "synced\n",
           "failed 401 transient: list: token: a new one is being made\n"
           "failed 401 auth: list: HTTP 401\nsynced\n");
}

static void test_no_token(void **state) {
    unsigned calls = 0;

    (void)state;
    follow(SCRIPT(no_token, &calls, {.answer = LIST("10", "")},
                  {.stays_open = true, .answer = EVENT("ADDED", NODE("a", "1", "11"))}),
           "added a\n", "synced\nfailed 0 transient: watch: token: no role credentials\nadded a\n");
}

static const struct {
    struct script_step list, stream;
    size_t max;
    const char *expected;
} hostile[] = {
    {{.answer = "{}"}, {0}, 0, "watch /api/v1/nodes: invalid list: no items"},
    {{.answer = "{'items':{}}"}, {0}, 0, "watch /api/v1/nodes: invalid list: items"},
    {{.answer = "{'items':[5],'metadata':{'resourceVersion':'1'}}"},
     {0},
     0,
     "watch /api/v1/nodes: an item of the list has no metadata.name"},
    {{.answer = "{'items':[]}"},
     {0},
     0,
     "watch /api/v1/nodes: the list has no metadata.resourceVersion"},
    {{.raw = "<html>"}, {0}, 0, "list: HTTP 200: "},
    {{.raw = ""}, {0}, 0, "list: HTTP 200: the answer is empty"},
    {{.answer = LIST("1", "")},
     {.answer = EVENT("ADDED", NODE("a", "1", "11"))},
     20,
     "watch /api/v1/nodes: an event is larger than an object may be"},
    {{.answer = LIST("1", "")},
     {.raw = "\n01234567890123456789012345678901234567890", .stays_open = true},
     20,
     "watch /api/v1/nodes: an event is larger"},
    {{.answer = LIST("1", "")},
     {.answer = "{'kind':'NodeList'}\n", .stays_open = true},
     0,
     "watch: invalid event"},
    {{.answer = LIST("1", "")},
     {.answer = EVENT("ADDED", NODE("a", "1", "1 1"))},
     0,
     "watch /api/v1/nodes: an event whose resourceVersion cannot be one"},
    {{.answer = LIST("1", "")}, {.raw = "<html>a page"}, 0, "watch: invalid JSON of an event"},
    {{.answer = LIST("1", "")},
     {.status = 503, .raw = "overloaded"},
     0,
     "watch: HTTP 503: overloaded"},
};

static void test_hostile(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(hostile); i++) {
        struct observed h = {.stop_at = "\n\n"};
        struct script_step steps[] = {hostile[i].list, hostile[i].stream};
        const bool list_only =
            strncmp(hostile[i].list.answer ? hostile[i].list.answer : "", "{'kind':'NodeList'", 18)
            != 0;
        struct nc_kube *k = script_begin(steps, list_only ? 1 : 2, NULL, NULL);
        struct nc_watch_options o = {.path = "/api/v1/nodes",
                                     .selector = "fieldSelector=x",
                                     .max_object_bytes = hostile[i].max,
                                     .event = on_event,
                                     .failed = on_failed,
                                     .userdata = &h};
        struct nc_err err = NC_ERR_INIT;
        print_message("# row %zu: %s\n", i, hostile[i].expected);
        assert_int_equal(nc_watch_new(k, script_loop(), &o, &h.watch, &err), 0);
        while (!h.trace.data || !strstr(h.trace.data, "failed"))
            assert_true(clock_run(script_loop(), 5000000) > 0);
        assert_non_null(strstr(h.trace.data, hostile[i].expected));
        h.watch = nc_watch_free(h.watch);
        nc_buf_done(&h.trace);
        script_end(k);
    }
}

/* More in one turn than a line and a burst may hold. */
static void test_flood(void **state) {
    nc_auto_free char *flood = nc_calloc(1, (5 << 20) + 1);
    struct script_step steps[] = {{.answer = LIST("1", "")}, {.raw = flood}};

    (void)state;
    memset(flood, 'x', 5 << 20);
    follow_with(script_begin(steps, 2, NULL, NULL), "may be\n", NULL,
                (struct nc_watch_options){.max_object_bytes = 1000},
                "synced\nfailed 0 protocol: watch /api/v1/nodes: an event is larger than an object "
                "may be\n");
}

/* Each callback may free the watch. */
static void test_free_in_callback(void **state) {
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct script_step steps[] = {
            {.answer = LIST("10", NODE("a", "1", "5") "," NODE("b", "2", "6"))},
            {.stays_open = true,
             .answer =
                 EVENT("MODIFIED", NODE("a", "1", "11")) EVENT("DELETED", NODE("b", "1", "11"))}};
        static const char *const at[] = {"added a\n", "synced\n", "modified a\n"};
        static const char *const traces[] = {"added a\n", "added a\nadded b\nsynced\n",
                                             "added a\nadded b\nsynced\nmodified a\n"};
        follow_with(script_begin(steps, i < 2 ? 1 : 2, NULL, NULL), at[i], at[i],
                    (struct nc_watch_options){0}, traces[i]);
    }
    follow_with(SCRIPT(NULL, NULL,
                       {.answer = LIST("10", NODE("a", "1", "5") "," NODE("b", "2", "6"))},
                       {.answer = GONE}, {.answer = LIST("30", NODE("a", "1", "5"))}),
                "deleted b\n", "deleted b\n", (struct nc_watch_options){0},
                "added a\nadded b\nsynced\nmodified a\ndeleted b\n");
    follow_with(SCRIPT(NULL, NULL, {.answer = LIST("10", NODE("a", "1", "5"))},
                       {.stays_open = true, .answer = EVENT("ADDED", NODE("a", "2", "11"))}),
                "deleted a\n", "deleted a\n", (struct nc_watch_options){0},
                "added a\nsynced\ndeleted a\n");
    follow_with(SCRIPT(NULL, NULL, {.status = 500}), "HTTP 500\n", "HTTP 500\n",
                (struct nc_watch_options){0}, "failed 500 transient: list: HTTP 500\n");
}

/* Who does not want to observe failures need not; the rules on the wire hold for watches too. */
static void test_without_failed(void **state) {
    struct observed h = {.stop_at = "synced\n"};
    struct nc_watch_options o = {.path = "/api/v1/nodes",
                                 .selector = "fieldSelector=x",
                                 .keep = keep,
                                 .event = on_event,
                                 .userdata = &h};
    struct nc_err err = NC_ERR_INIT;
    struct nc_kube *k =
        SCRIPT(NULL, NULL, {.status = 500}, {.answer = LIST("10", "")}, {.stays_open = true});

    (void)state;
    assert_int_equal(nc_watch_new(k, script_loop(), &o, &h.watch, &err), 0);
    script_run();
    nc_watch_free(h.watch);
    nc_buf_done(&h.trace);
    script_end(k);
    assert_null(nc_watch_free(NULL));

    h.trace = (struct nc_buf){0};
    k = script_begin(NULL, 0, NULL, NULL);
    o.selector = NULL;
    o.failed = on_failed;
    h.stop_at = "/api/v1/nodes?limit=500\n";
    assert_int_equal(nc_watch_new(k, script_loop(), &o, &h.watch, &err), 0);
    script_run();
    assert_string_equal(
        h.trace.data,
        "failed 0 bug: list: not sent: a list without a field selector: /api/v1/nodes?limit=500\n");
    nc_watch_free(h.watch);
    nc_buf_done(&h.trace);
    script_end(k);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_then_stream),
        cmocka_unit_test(test_metadata_only),
        cmocka_unit_test(test_resume),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_urgent),
        cmocka_unit_test(test_list_again),
        cmocka_unit_test(test_life_between_failures),
        cmocka_unit_test(test_silence),
        cmocka_unit_test(test_well_again),
        cmocka_unit_test(test_ends_at_once),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_ends_without_line_end),
        cmocka_unit_test(test_list_refuses_tokens),
        cmocka_unit_test(test_no_token),
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_free_in_callback),
        cmocka_unit_test(test_without_failed),
        /* From here on with objects that are thinned out. */
        cmocka_unit_test_setup(test_list_then_stream, thin_out),
        cmocka_unit_test_setup(test_metadata_only, thin_out),
        cmocka_unit_test_setup(test_resume, thin_out),
        cmocka_unit_test_setup(test_cut, thin_out),
        cmocka_unit_test_setup(test_gone, thin_out),
        cmocka_unit_test_setup(test_list_again, thin_out),
        cmocka_unit_test_setup(test_life_between_failures, thin_out),
        cmocka_unit_test_setup(test_silence, thin_out),
        cmocka_unit_test_setup(test_ends_at_once, thin_out),
        cmocka_unit_test_setup(test_refused, thin_out),
        cmocka_unit_test_setup(test_no_token, thin_out),
        cmocka_unit_test_setup(test_free_in_callback, thin_out),
        cmocka_unit_test_setup(test_without_failed, thin_out),
    };

    return run_group(tests, NULL, NULL);
}
