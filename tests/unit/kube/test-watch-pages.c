/*
 * A whole collection in pages: nothing is lost and nothing told twice, whatever happens between two
 * of them, and tens of thousands of objects pass through without being held.
 */
#include "groups.h"
#include "kube-script.h"

#include <malloc.h>

#include "watch-frame.h"

#define URL "https://api.test:6443/api/v1/nodes?limit=500"
#define NEXT(token) URL "&continue=" token
#define METADATA_LIST                                                                              \
    "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#define NODE(name, version)                                                                        \
    "{'metadata':{'name':'" name "','uid':'u-" name "','resourceVersion':'" version                \
    "','annotations':{'a':'b'}},'spec':{'x':1}}"
#define PAGE(token, items)                                                                         \
    "{'kind':'NodeList','metadata':{'resourceVersion':'10','continue':'" token                     \
    "'},'items':[" items "]}"
#define TOO_OLD                                                                                    \
    "{'kind':'Status','apiVersion':'v1','code':410,'reason':'Expired','message':'The provided "    \
    "continue parameter is too old','metadata':{'continue':'inconsistent'}}"
#define EVENT(type, object) "{'type':'" type "','object':" object "}\n"

static const char annotations[] = "metadata.annotations\0";
static const char *keep;

struct observed {
    struct nc_buf trace;
    const char *stop_at;
    unsigned n, synced;
    long long first_bytes, most_bytes;
};

static void on_event(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    static const char *const names[] = {"?", "added", "modified", "deleted", "synced"};
    const char *name = nc_value_string(nc_value_path(object, "metadata.name"));
    struct observed *h = userdata;

    if (keep)
        assert_null(nc_value_get(object, "spec"));
    nc_buf_printf(&h->trace, "%s%s%s\n", names[event], name ? " " : "", name ? name : "");
    if (nc_ends_with(h->trace.data, h->stop_at))
        sd_event_exit(script_loop(), 0);
}

static void on_failed(void *userdata, const struct nc_kube_status *status,
                      const struct nc_err *err) {
    struct observed *h = userdata;

    nc_buf_printf(&h->trace, "failed %d %s\n", status->http, nc_err_class_name(err->class));
}

static void follow(struct nc_kube *k, bool reports_once, const char *stop_at, const char *trace) {
    struct observed h = {.stop_at = stop_at};
    const struct nc_watch_options o = {.path = "/api/v1/nodes",
                                       .metadata_only = true,
                                       .keep = keep,
                                       .reports_once = reports_once,
                                       .event = on_event,
                                       .failed = on_failed,
                                       .userdata = &h};
    struct nc_watch *w;

    assert_int_equal(nc_watch_new(k, script_loop(), &o, &w, NULL), 0);
    script_run();
    nc_watch_free(w);
    assert_string_equal(h.trace.data, trace);
    nc_buf_done(&h.trace);
    script_end(k);
}

/* Each of the following is observed alike with whole objects and with thin ones. */
static void both(void (*run)(void)) {
    keep = NULL;
    run();
    keep = annotations;
    run();
}

/* The list is complete when its last page is; no page says which version it wants, so that all are
 * of one consistent state. */
static void run_pages(void) {
    follow(SCRIPT_CONTROLLER(
               {.url = URL,
                .header = METADATA_LIST,
                .answer = PAGE("t1", NODE("a", "1") "," NODE("b", "2"))},
               {.url = NEXT("t1"), .header = METADATA_LIST, .answer = PAGE("t2", NODE("c", "3"))},
               {.url = NEXT("t2"), .answer = PAGE("", NODE("d", "4"))},
               {.stays_open = true, .answer = EVENT("DELETED", NODE("a", "11"))}),
           false, "deleted a\n", "added a\nadded b\nadded c\nadded d\nsynced\ndeleted a\n");
}

static void test_pages(void **state) {
    (void)state;
    both(run_pages);
}

/* A page that fails in passing is requested again, and no other. */
static void run_page_fails(void) {
    follow(SCRIPT_CONTROLLER({.url = URL, .answer = PAGE("t1", NODE("a", "1"))},
                             {.url = NEXT("t1"), .status = 503},
                             {.url = NEXT("t1"), .answer = PAGE("t2", NODE("b", "2"))},
                             {.url = NEXT("t2"), .outcome = NC_HTTP_TIMEOUT},
                             {.url = NEXT("t2"), .answer = PAGE("", NODE("c", "3"))},
                             {.stays_open = true}),
           true, "synced\n",
           "added a\nfailed 503 transient\nadded b\nfailed 0 transient\nadded c\nsynced\n");
}

static void test_page_fails(void **state) {
    (void)state;
    both(run_page_fails);
}

/* The connection breaks in the middle of a page: what had come is not told twice. */
static void test_page_cut(void **state) {
    (void)state;
    keep = annotations;
    follow(SCRIPT_CONTROLLER(
               {.url = URL, .answer = PAGE("t1", NODE("a", "1"))},
               {.url = NEXT("t1"),
                .chunk = 7,
                .outcome = NC_HTTP_BROKEN,
                .answer = "{'kind':'NodeList','items':[" NODE("b", "2") ",{'met"},
               {.url = NEXT("t1"), .answer = PAGE("", NODE("b", "2") "," NODE("c", "3"))},
               {.stays_open = true}),
           true, "synced\n", "added a\nadded b\nfailed 0 transient\nadded c\nsynced\n");
}

/* A token that is too old: from the start. What was told stays told, what has changed meanwhile is
 * modified, what is new is added, and what had been told and is gone is deleted. */
static void run_expired(void) {
    follow(SCRIPT_CONTROLLER(
               {.url = URL,
                .answer = PAGE("t1", NODE("a", "1") "," NODE("b", "2") "," NODE("c", "3"))},
               {.url = NEXT("t1"), .status = 410, .answer = TOO_OLD},
               {.url = URL, .answer = PAGE("t2", NODE("a", "1") "," NODE("b", "12"))},
               {.url = NEXT("t2"), .answer = PAGE("", NODE("d", "4"))}, {.stays_open = true}),
           true, "synced\n", "added a\nadded b\nadded c\nmodified b\nadded d\ndeleted c\nsynced\n");
}

static void test_expired(void **state) {
    (void)state;
    both(run_expired);
}

/* Tokens that run out again and again: the list is requested in one piece; later ones in pages. */
static void run_expired_again(void) {
    follow(SCRIPT_CONTROLLER({.url = URL, .answer = PAGE("t1", NODE("a", "1"))},
                             {.url = NEXT("t1"), .status = 410, .answer = TOO_OLD},
                             {.url = URL, .answer = PAGE("t2", NODE("a", "1"))},
                             {.url = NEXT("t2"), .status = 410, .answer = TOO_OLD},
                             {.url = "https://api.test:6443/api/v1/nodes?limit=0",
                              .answer = PAGE("", NODE("a", "1") "," NODE("b", "2"))},
                             {.answer = EVENT("BOOKMARK", "{'metadata':{'resourceVersion':'20'}}")
                                  EVENT("ERROR", TOO_OLD)},
                             {.url = URL, .answer = PAGE("", NODE("b", "2"))},
                             {.stays_open = true}),
           true, "deleted a\nsynced\n",
           "added a\nfailed 410 protocol\nadded b\nsynced\ndeleted a\nsynced\n");
}

static void test_expired_again(void **state) {
    (void)state;
    both(run_expired_again);
}

/* A relist tells again what is known, unless it is asked not to. */
static void run_relist(void) {
    for (int once = 0; once < 2; once++)
        follow(SCRIPT_CONTROLLER(
                   {.answer = PAGE("", NODE("a", "1") "," NODE("b", "2"))},
                   {.answer = EVENT("MODIFIED", NODE("a", "11")) EVENT("ERROR", TOO_OLD)},
                   {.answer = PAGE("", NODE("a", "11") "," NODE("b", "12"))}, {.stays_open = true}),
               once, "modified b\nsynced\n",
               once ? "added a\nadded b\nsynced\nmodified a\nmodified b\nsynced\n"
                    : "added a\nadded b\nsynced\nmodified a\nmodified a\nmodified b\nsynced\n");
}

static void test_relist(void **state) {
    (void)state;
    both(run_relist);
}

/* What can never be right is not asked again and again: from the start after five. */
static void test_start_over(void **state) {
    static const struct nc_kube_status away = {.http = 503};
    static const struct nc_kube_status none = {0};
    static const struct nc_kube_status gone = {.http = 410};
    struct nc_watch_cursor c = {.is_passing = true, .next = nc_strdup("t")};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        nc_watch_cursor_failed(&c, &away);
        assert_non_null(c.next);
    }
    nc_watch_cursor_failed(&c, &away);
    assert_null(c.next);
    c = (struct nc_watch_cursor){.next = nc_strdup("t")};
    nc_watch_cursor_failed(&c, &none); /* an answer that is nonsense */
    assert_null(c.next);
    c = (struct nc_watch_cursor){.is_passing = true, .next = nc_strdup("t")};
    nc_watch_cursor_failed(&c, &gone);
    assert_null(c.next);
}

/* ---- fifty thousand */

#define PAGES 50
#define PAGE_NODES 1000

/* As a Node of a cloud is called. The server's own bookkeeping is most of it. */
static void put_node(struct nc_buf *b, unsigned i) {
    nc_buf_printf(
        b,
        "{\"metadata\":{\"name\":\"ip-10-%u-%u-%u.eu-central-1.compute.internal\",\"uid\":"
        "\"0b3c6e1f-5a2d-4c8e-9f10-%012u\",\"resourceVersion\":\"%u\",\"annotations\":{"
        "\"a\":\"b\"},\"managedFields\":[\"%0500u\"]}}",
        100 + i / 10000, 100 + i / 100 % 100, 100 + i % 100, i, 1000000 + i, i);
}

static char *page(unsigned at) {
    struct nc_buf b = NC_BUF_INIT;

    nc_buf_printf(&b, "{\"kind\":\"NodeList\",\"metadata\":{\"resourceVersion\":\"10\"");
    if (at + 1 < PAGES)
        nc_buf_printf(&b, ",\"continue\":\"t%u\"", at + 1);
    nc_buf_puts(&b, "},\"items\":[");
    for (unsigned i = 0; i < PAGE_NODES; i++) {
        nc_buf_puts(&b, i ? "," : "");
        put_node(&b, at * PAGE_NODES + i);
    }
    nc_buf_puts(&b, "]}");
    return nc_buf_steal(&b);
}

/* Sanitizers have a heap of their own, of which nothing is known: 0. */
static long long heap_bytes(void) {
    const struct mallinfo2 m = mallinfo2();

    return (long long)(m.uordblks + m.hblkhd);
}

static void on_many(void *userdata, enum nc_watch_event event, const struct nc_value *object) {
    struct observed *h = userdata;

    (void)object;
    h->n += event == NC_WATCH_ADDED;
    if (h->n % 100 == 1 && heap_bytes() > h->most_bytes)
        h->most_bytes = heap_bytes();
    if (event == NC_WATCH_SYNCED)
        sd_event_exit(script_loop(), 0);
}

static void test_many(void **state) {
    static struct script_step steps[PAGES + 1];
    static char *pages[PAGES];
    struct observed h = {0};
    const struct nc_watch_options o = {.path = "/api/v1/nodes",
                                       .metadata_only = true,
                                       .keep = annotations,
                                       .reports_once = true,
                                       .event = on_many,
                                       .failed = on_failed,
                                       .userdata = &h};
    const long long room = 1 << 20;
    long long after, page_bytes;
    struct nc_watch *w;
    struct nc_kube *k;

    (void)state;
    for (unsigned i = 0; i < PAGES; i++) {
        pages[i] = page(i);
        steps[i] = (struct script_step){.raw = pages[i], .chunk = 16384};
    }
    page_bytes = (long long)strlen(pages[0]);
    steps[PAGES] = (struct script_step){.stays_open = true};
    k = script_begin_as(&nc_kube_as_controller, steps, PAGES + 1);
    h.first_bytes = heap_bytes();
    assert_int_equal(nc_watch_new(k, script_loop(), &o, &w, NULL), 0);
    script_run();
    after = heap_bytes();
    assert_int_equal(h.n, PAGES * PAGE_NODES);
    print_message("# %lld bytes an object; at most %lld KiB above what stays\n",
                  (after - h.first_bytes) / (PAGES * PAGE_NODES), (h.most_bytes - after) / 1024);
    assert_true((after - h.first_bytes) / (PAGES * PAGE_NODES) < 112);
    /* The transport's copy of the page is not the watch's. */
    assert_true(h.first_bytes == 0 || h.most_bytes - after < page_bytes + room);
    nc_watch_free(w);
    script_end(k);
    for (unsigned i = 0; i < PAGES; i++)
        free(pages[i]);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),         cmocka_unit_test(test_page_fails),
        cmocka_unit_test(test_page_cut),      cmocka_unit_test(test_expired),
        cmocka_unit_test(test_expired_again), cmocka_unit_test(test_relist),
        cmocka_unit_test(test_start_over),    cmocka_unit_test(test_many),
    };

    return run_group(tests, NULL, NULL);
}
