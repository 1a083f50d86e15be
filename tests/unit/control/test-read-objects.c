/*
 * What nodes and clusters may send: drain statuses and objects, read strictly and capped. Rule C3.
 */
#include "control-world.h"
#include "groups.h"

#include "nc/str.h"

static void expect(const char *got, const char *wanted) {
    assert_string_equal(got, wanted);
}

static struct nc_control_counts counts(struct world *w) {
    struct nc_control_counts n;

    nc_control_count(w->c, w->now_usec, &n);
    return n;
}

/* What the report says of the only node: "PHASE SOURCE DEADLINE REMAINING BLOCKED". */
static const char *reported(struct world *w) {
    static const char *const keys[] = {"phase", "source", "deadline", "remaining", "blocked"};
    nc_auto_value struct nc_value *list = nc_control_report(w->c, w->now_usec);
    static char text[2048];
    char number[32];
    size_t n = 0;

    assert_int_equal(list->n, 1);
    for (size_t i = 0; i < NC_ARRAY_SIZE(keys); i++) {
        const char *t = nc_value_scalar_text(nc_value_get(list->items[0], keys[i]), number);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? " " : "", t ? t : "-");
    }
    return text;
}

#define D "\"deadline\":\"2026-11-22T02:02:00Z\""

static void test_statuses_that_are_read(void **state) {
    static const struct {
        const char *status, *wanted;
    } rows[] = {
        {"{\"id\":\"x\",\"source\":\"spot\",\"phase\":\"Evicting\"," D
         ",\"total\":7,\"remaining\":3,\"blocked\":[\"a/b\",\"c/d\"],\"updated\":null}",
         "Evicting spot 2026-11-22T02:02:00Z 3 a/b, c/d"},
        {"{\"source\":\"spot\",\"phase\":\"Detected\"}", "Detected spot - - -"},
        {"{\"source\":\"spot\",\"phase\":\"Detected\",\"deadline\":null,\"total\":null,"
         "\"remaining\":"
         "null,\"blocked\":null,\"id\":null}",
         "Detected spot - - -"},
        {"{\"source\":\"moon\",\"phase\":\"Waxing\",\"new\":{\"a\":[1]}}", "Other - - - -"},
        {"{\"source\":\"\",\"phase\":\"\"}", "- - - - -"},
        {"{\"source\":\"spot\",\"phase\":\"Failed\",\"remaining\":1000000}",
         "Failed spot - 1000000 -"},
        {"{\"source\":\"rebalance\",\"phase\":\"VolumeWait\",\"remaining\":0}",
         "VolumeWait rebalance - 0 -"},
        {"{\"source\":\"spot\",\"phase\":\"Drained\",\"deadline\":\"2026-11-22T03:02:00.5+01:00\"}",
         "Drained spot 2026-11-22T02:02:00Z - -"},
        {"{\"source\":\"spot\",\"phase\":\"Cordoned\",\"blocked\":[\"1\",\"2\",\"3\",\"4\",\"5\","
         "\"6\"]}",
         "Cordoned spot - - 1, 2, 3, 4, 5"},
        {"{\"source\":\"spot\",\"policy\":\"report\",\"phase\":\"Detected\"}",
         "Detected spot - - -"},
        {"{\"source\":\"spot\",\"policy\":\"of a later release\",\"phase\":\"Detected\"}",
         "Detected spot - - -"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        world_open(&w);
        expect(world_node(&w, "n1", rows[i].status), "");
        expect(reported(&w), rows[i].wanted);
        assert_int_equal(counts(&w).invalid_drain_statuses, 0);
        world_close(&w);
    }
}

/* Each end once, and only where its drain was watched: a new leader lists old ends. */
static void test_ends_are_counted(void **state) {
    static const struct {
        const char *phase;
        unsigned drained, failed;
    } rows[] = {
        {"Drained", 0, 0}, {"Detected", 0, 0}, {"Evicting", 0, 0}, {"Drained", 1, 0},
        {"Drained", 1, 0}, {"Detected", 1, 0}, {"Failed", 1, 1},   {"Drained", 1, 1},
    };
    struct world w;

    (void)state;
    world_open(&w);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *status =
            nc_asprintf("{\"source\":\"spot\",\"phase\":\"%s\"}", rows[i].phase);
        (void)world_node(&w, "n1", status);
        assert_int_equal(counts(&w).drained, rows[i].drained);
        assert_int_equal(counts(&w).failed, rows[i].failed);
    }
    (void)world_node(&w, "n1", NULL);
    assert_int_equal(counts(&w).drained, 1);
    world_close(&w);
}

#define SPOT "{\"source\":\"spot\",\"phase\":\"Detected\""
#define LONG72 "123456789 123456789 123456789 123456789 123456789 123456789 123456789 12"

static void test_statuses_that_are_refused(void **state) {
    static const char *const rows[] = {
        "x",
        "{",
        "[]",
        "7",
        "null",
        "{}",
        SPOT "} ,",
        "{\"phase\":\"Detected\"}",
        "{\"source\":\"spot\"}",
        "{\"source\":7,\"phase\":\"Detected\"}",
        "{\"source\":null,\"phase\":\"Detected\"}",
        "{\"source\":\"spot\",\"phase\":[]}",
        "{\"source\":\"spot\",\"source\":\"spot\",\"phase\":\"Detected\"}",
        "{\"source\":\"123456789 123456789 123456789 123\",\"phase\":\"Detected\"}",
        "{\"source\":\"sp\\u0007t\",\"phase\":\"Detected\"}",
        SPOT ",\"policy\":1}",
        SPOT ",\"deadline\":1795312920}",
        SPOT ",\"deadline\":\"\"}",
        SPOT ",\"deadline\":\"soon\"}",
        SPOT ",\"deadline\":\"2026-11-22T02:02:00\"}",
        SPOT ",\"deadline\":\"1969-12-31T00:00:00Z\"}",
        SPOT ",\"deadline\":\"2026-13-22T02:02:00Z\"}",
        SPOT ",\"id\":7}",
        SPOT ",\"id\":\"" LONG72 "\"}",
        SPOT ",\"id\":\"\\u001b[31m\"}",
        SPOT ",\"total\":-1}",
        SPOT ",\"total\":\"7\"}",
        SPOT ",\"remaining\":1.5}",
        SPOT ",\"remaining\":1000001}",
        SPOT ",\"blocked\":\"a/b\"}",
        SPOT ",\"blocked\":[7]}",
        SPOT ",\"blocked\":[\"a\\nb\"]}",
        SPOT ",\"blocked\":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}",
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        world_open(&w);
        expect(world_claim(&w, "c1", "n1", ""), "");
        expect(world_node(&w, "n1", rows[i]), "event InvalidDrainStatus Node n1\n");
        expect(reported(&w), "- - - - -");
        assert_int_equal(counts(&w).invalid_drain_statuses, 1);
        world_close(&w);
    }
}

static void test_status_too_long(void **state) {
    nc_auto_free char *spaces = nc_calloc(1, 5000);
    nc_auto_free char *status = NULL;
    struct world w;

    (void)state;
    memset(spaces, ' ', 4096 - strlen(SPOT "}"));
    status = nc_asprintf(SPOT "%s}", spaces);
    world_open(&w);
    assert_int_equal(strlen(status), 4096);
    expect(world_node(&w, "n1", status), "");
    expect(reported(&w), "Detected spot - - -");
    free(status);
    status = nc_asprintf(SPOT "%s }", spaces);
    expect(world_node(&w, "n1", status), "event InvalidDrainStatus Node n1\n");
    expect(reported(&w), "- - - - -");
    world_close(&w);
}

/* A drain status that becomes unreadable is no drain status: what it said before is over. */
static void test_invalid_ends_the_status(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)), "");
    expect(world_node(&w, "n1", "{"), "event InvalidDrainStatus Node n1\n");
    expect(world_claim(&w, "c1", "n1", ""), "");
    world_close(&w);
}

static void test_annotation_of_another_type(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_see(&w, NC_CONTROL_NODE,
                     "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"annotations\":{"
                     "\"nodeclaimd.io/drain-status\":{\"source\":\"spot\"}}}}"),
           "event InvalidDrainStatus Node n1\n");
    expect(world_see(&w, NC_CONTROL_NODE,
                     "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"annotations\":[]}}"),
           "");
    expect(world_see(&w, NC_CONTROL_NODE, /* the watch has left out what was too large */
                     "{\"metadata\":{\"name\":\"n2\",\"uid\":\"v\",\"annotations\":{"
                     "\"nodeclaimd.io/drain-status\":null,\"nodeclaimd.io/fit\":null}}}"),
           "event InvalidDrainStatus Node n2\nevent InvalidFit Node n2\n");
    world_close(&w);
}

/* ---- objects */

#define UID65 "01234567-01234567-01234567-01234567-01234567-01234567-01234567-01"

#define NAME254                                                                                    \
    "a123456789a123456789a123456789a123456789a123456789a123456789a123456789a123456789"             \
    "a123456789a123456789a123456789a123456789a123456789a123456789a123456789a123456789"             \
    "a123456789a123456789a123456789a123456789a123456789a123456789a123456789a123456789"             \
    "a123456789a123"

static void test_objects_that_are_refused(void **state) {
    static const struct {
        enum nc_control_kind kind;
        const char *json;
    } rows[] = {
        {NC_CONTROL_NODE, "{}"},
        {NC_CONTROL_NODE, "[]"},
        {NC_CONTROL_NODE, "{\"metadata\":[]}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"uid\":\"u\"}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"n1\"}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"\",\"uid\":\"u\"}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"n/1\",\"uid\":\"u\"}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"N1\",\"uid\":\"u\"}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"" NAME254 "\",\"uid\":\"u\"}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u u\"}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"n1\",\"uid\":\"\"}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"n1\",\"uid\":7}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"n1\",\"uid\":\"" UID65 "\"}}"},
        {NC_CONTROL_NODE,
         "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"resourceVersion\":\"abc\"}}"},
        {NC_CONTROL_NODE, "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"resourceVersion\":7}}"},
        {NC_CONTROL_NODE,
         "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"creationTimestamp\":\"now\"}}"},
        {NC_CONTROL_NODE,
         "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"deletionTimestamp\":true}}"},
        {NC_CONTROL_CLAIM, "{\"metadata\":{\"name\":\"c1\",\"uid\":\"u\"},\"status\":{"
                           "\"nodeName\":7}}"},
        {NC_CONTROL_CLAIM, "{\"metadata\":{\"name\":\"c1\",\"uid\":\"u\"},\"status\":{"
                           "\"nodeName\":\"a b\"}}"},
        {NC_CONTROL_CLAIM, "{\"metadata\":{\"name\":\"c1\",\"uid\":\"u\"},\"spec\":{"
                           "\"expireAfter\":\"soon\"}}"},
        {NC_CONTROL_CLAIM, "{\"metadata\":{\"name\":\"c1\",\"uid\":\"u\"},\"spec\":{"
                           "\"terminationGracePeriod\":\"Never\"}}"},
        {NC_CONTROL_CLAIM, "{\"metadata\":{\"name\":\"c1\",\"uid\":\"u\"},\"spec\":{"
                           "\"taints\":[{\"key\":\"a\"}]}}"},
        {NC_CONTROL_CLAIM, "{\"metadata\":{\"name\":\"c1\",\"uid\":\"u\"},\"status\":{"
                           "\"conditions\":[{\"type\":\"Ready\"}]}}"},
        {NC_CONTROL_CLAIM, "{\"metadata\":{\"name\":\"c1\",\"uid\":\"u\",\"labels\":{\"a\":[]}}}"},
        {NC_CONTROL_POOL, "{\"metadata\":{\"name\":\"p1\",\"uid\":\"u\",\"annotations\":{"
                          "\"karpenter.sh/nodepool-hash\":\"a b\"}}}"},
        {NC_CONTROL_CLASS, "{\"metadata\":{\"name\":\"\",\"uid\":\"u\"}}"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct world w;
        const enum nc_control_kind k = rows[i].kind;
        world_open(&w);
        expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
        expect(world_see(&w, k, rows[i].json), "");
        if (counts(&w).unreadable[k] != 1 || counts(&w).objects[k] != 0)
            print_error("row %zu: %s\n", i, rows[i].json);
        assert_int_equal(counts(&w).unreadable[k], 1);
        assert_int_equal(counts(&w).objects[k], 0);
        world_close(&w);
    }
}

/* A Node is what its node makes it: the rest of it counts all the same, and that it is so is
 * counted.
 */
static void test_nodes_that_are_read_in_part(void **state) {
    static const char *const rows[] = {
        "\"spec\":{\"providerID\":\"a b\"}",
        "\"spec\":{\"taints\":7}",
        "\"spec\":{\"taints\":[{\"key\":\"a\"}]}",
        "\"status\":{\"conditions\":{}}",
        "\"status\":{\"allocatable\":[]}",
        /* What the watch has left out, as it is too large: a list that is written back must have
         * been seen. */
        "\"metadata\":{\"finalizers\":null}",
        "\"metadata\":{\"ownerReferences\":null}",
        "\"spec\":{\"providerID\":null}",
        "\"spec\":{\"taints\":null}",
        "\"status\":{\"conditions\":null}",
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        static const char head[] = "\"metadata\":{";
        const bool is_meta = nc_starts_with(rows[i], head);
        nc_auto_free char *json =
            nc_asprintf("{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\"%s%s", is_meta ? "," : "},",
                        rows[i] + (is_meta ? strlen(head) : 0));
        nc_auto_free char *object = nc_asprintf("%s}", json);
        struct world w;
        world_open(&w);
        expect(world_mode(&w, NC_CONTROL_STANDALONE), "");
        (void)world_see(&w, NC_CONTROL_NODE, object);
        if (counts(&w).unreadable[NC_CONTROL_NODE] != 1 || counts(&w).objects[NC_CONTROL_NODE] != 1)
            fail_msg("row %zu: %s", i, object);
        world_close(&w);
    }
}

/* What was known of it stays, until something readable comes. */
static void test_refused_object_changes_nothing(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_claim(&w, "c1", "n1", ""), "");
    expect(
        world_see(&w, NC_CONTROL_CLAIM,
                  "{\"metadata\":{\"name\":\"c1\",\"uid\":\"uid-c1\"},\"status\":{\"nodeName\":7}"
                  "}"),
        "");
    assert_int_equal(counts(&w).unreadable[NC_CONTROL_CLAIM], 1);
    expect(world_node(&w, "n1", world_status(&w, "spot", 120)),
           "set-timestamp c1 2026-11-22T02:01:45Z\n");
    world_close(&w);
}

static void test_labels_that_are_no_pool(void **state) {
    struct world w;

    (void)state;
    world_open(&w);
    expect(world_see(&w, NC_CONTROL_NODE,
                     "{\"metadata\":{\"name\":\"n1\",\"uid\":\"u\",\"labels\":{"
                     "\"karpenter.sh/nodepool\":\"a b\\nc\"}}}"),
           "");
    expect(reported(&w), "- - - - -");
    nc_auto_value struct nc_value *list = nc_control_report(w.c, w.now_usec);
    assert_null(nc_value_get_string(list->items[0], "pool"));
    world_close(&w);
}

/* The reader must find in what nc_control_keep requests all that it reads: a path too few, and an
 * object would be another one than the cluster's. */
static bool keeps_by(const struct nc_control_rules *rules, enum nc_control_kind k,
                     enum nc_control_mode mode, const char *path) {
    return nc_is_one_of(path, nc_control_keep(k, mode, rules));
}

static bool keeps(enum nc_control_kind k, enum nc_control_mode mode, const char *path) {
    return keeps_by(&nc_control_defaults, k, mode, path);
}

/* One path more than without it, and nothing else. */
static void test_keep_of_groups(void **state) {
    struct nc_control_rules rules = nc_control_defaults;
    const char *without = NULL, *with = NULL;

    (void)state;
    rules.completes_actions = true;
    for (enum nc_control_mode m = 0; m < _NC_CONTROL_MODE_MAX; m++) {
        without = nc_control_keep(NC_CONTROL_NODE, m, &nc_control_defaults);
        with = nc_control_keep(NC_CONTROL_NODE, m, &rules);
        assert_true(keeps_by(&rules, NC_CONTROL_NODE, m, "spec.providerID"));
        assert_ptr_equal(nc_control_keep(NC_CONTROL_CLAIM, m, &nc_control_defaults),
                         nc_control_keep(NC_CONTROL_CLAIM, m, &rules));
        if (m == NC_CONTROL_STANDALONE) {
            assert_ptr_equal(without, with);
            continue;
        }
        assert_false(keeps(NC_CONTROL_NODE, m, "spec.providerID"));
        for (; *without; without = nc_next_name(without), with = nc_next_name(with))
            assert_string_equal(without, with);
        assert_string_equal(with, "spec.providerID");
        assert_string_equal(nc_next_name(with), "");
    }
}

static void test_keep(void **state) {
    static const char *const node[] = {"metadata.name",
                                       "metadata.uid",
                                       "metadata.resourceVersion",
                                       "metadata.creationTimestamp",
                                       "metadata.deletionTimestamp",
                                       "metadata.ownerReferences",
                                       "metadata.annotations.'nodeclaimd.io/drain-status'"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(node); i++) {
        assert_true(keeps(NC_CONTROL_NODE, NC_CONTROL_KARPENTER, node[i]));
        assert_true(keeps(NC_CONTROL_NODE, NC_CONTROL_STANDALONE, node[i]));
    }
    assert_false(keeps(NC_CONTROL_NODE, NC_CONTROL_KARPENTER, "spec.taints"));
    assert_true(keeps(NC_CONTROL_NODE, NC_CONTROL_STANDALONE, "spec.taints"));
    assert_true(keeps(NC_CONTROL_CLAIM, NC_CONTROL_KARPENTER, "status.nodeName"));
    assert_true(keeps(NC_CONTROL_CLAIM, NC_CONTROL_KARPENTER,
                      "metadata.annotations.'karpenter.sh/nodeclaim-termination-timestamp'"));
    assert_false(keeps(NC_CONTROL_CLAIM, NC_CONTROL_KARPENTER, "spec.taints"));
    assert_ptr_equal(
        nc_control_keep(NC_CONTROL_NODE, NC_CONTROL_MODE_UNKNOWN, &nc_control_defaults),
        nc_control_keep(NC_CONTROL_NODE, NC_CONTROL_KARPENTER, &nc_control_defaults));
    /* Beside Karpenter all of a Node is metadata: its watch may request no more. */
    for (const char *path =
             nc_control_keep(NC_CONTROL_NODE, NC_CONTROL_KARPENTER, &nc_control_defaults);
         *path; path = nc_next_name(path))
        assert_true(nc_starts_with(path, "metadata."));
}

/* A node that says new garbage all the time: what is said of it must not drown what is said of
 * others, and the log has an end. */
static void test_garbage_without_end(void **state) {
    struct world w;
    unsigned said = 0;

    (void)state;
    world_open(&w);
    for (unsigned i = 0; i < 500; i++) {
        nc_auto_free char *garbage = nc_asprintf("garbage %u", i);
        w.now_usec += WORLD_SEC;
        said += strstr(world_node(&w, "n1", i % 2 ? garbage : NULL), "InvalidDrainStatus") != NULL;
    }
    assert_int_equal(said, 1);
    assert_int_equal(counts(&w).invalid_drain_statuses, 250);
    w.now_usec += 600 * WORLD_SEC;
    expect(world_node(&w, "n1", "garbage"), "event InvalidDrainStatus Node n1\n");
    world_close(&w);
}

/* Lists that a node fills itself: a thousand of them must not fill the memory. */
static void test_lists_of_a_node(void **state) {
    static const char *const lists[] = {
        "\"metadata\":{%s,\"finalizers\":[%s]}",
        "\"metadata\":{%s},\"spec\":{\"taints\":[{\"effect\":\"NoSchedule\",\"key\":%s}]}",
        "\"metadata\":{%s},\"status\":{\"allocatable\":{\"cpu\":%s}}"};
    static const char head[] = "\"name\":\"n1\",\"uid\":\"u\",\"creationTimestamp\":null";

    (void)state;
    for (size_t i = 0; i < 2 * NC_ARRAY_SIZE(lists); i++) {
        const size_t n = i % 2 ? 20000 : 2000;
        nc_auto_free char *text = nc_malloc(n + 3);
        struct world w;
        memset(text, 'a', n + 2);
        text[0] = text[n + 1] = '"';
        text[n + 2] = '\0';
        const char *comma = strstr(lists[i / 2], "%s");
        const char *second = strstr(comma + 2, "%s");
        nc_auto_free char *json =
            nc_asprintf("{%.*s%s%.*s%s%s}", (int)(comma - lists[i / 2]), lists[i / 2], head,
                        (int)(second - comma - 2), comma + 2, text, second + 2);
        world_open(&w);
        (void)world_mode(&w, NC_CONTROL_STANDALONE);
        (void)world_see(&w, NC_CONTROL_NODE, json);
        assert_int_equal(counts(&w).objects[NC_CONTROL_NODE], 1);
        assert_int_equal(counts(&w).unreadable[NC_CONTROL_NODE], i % 2);
        world_close(&w);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends_are_counted),
        cmocka_unit_test(test_garbage_without_end),
        cmocka_unit_test(test_lists_of_a_node),
        cmocka_unit_test(test_statuses_that_are_read),
        cmocka_unit_test(test_statuses_that_are_refused),
        cmocka_unit_test(test_status_too_long),
        cmocka_unit_test(test_invalid_ends_the_status),
        cmocka_unit_test(test_annotation_of_another_type),
        cmocka_unit_test(test_objects_that_are_refused),
        cmocka_unit_test(test_nodes_that_are_read_in_part),
        cmocka_unit_test(test_refused_object_changes_nothing),
        cmocka_unit_test(test_labels_that_are_no_pool),
        cmocka_unit_test(test_keep),
        cmocka_unit_test(test_keep_of_groups),
    };

    return run_group(tests, NULL, NULL);
}
