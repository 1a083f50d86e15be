/*
 * The document tree: access, change, comparison, and the two ways of laying one over
 * another.
 */
#include "base-test.h"
#include "groups.h"

#include "nc/mem.h"
#include "nc/value.h"

static void assert_json(const struct nc_value *v, const char *expected) {
    struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, v, 0);
    assert_string_equal(b.data, expected);
    nc_buf_done(&b);
}

static void access_tolerates_anything(void **state) {
    nc_auto_value struct nc_value *v =
        json("{\"a\":{\"b\":{\"c\":\"deep\"}},\"a.b\":1,\"n\":null,\"l\":[1]}");
    (void)state;

    assert_string_equal(nc_value_path_string(v, "a.b.c"), "deep");
    assert_null(nc_value_path_string(v, "a.b"));
    assert_true(nc_value_says(nc_value_path(v, "a.b"), "c", "deep"));
    assert_false(nc_value_says(nc_value_path(v, "a.b"), "c", "other"));
    assert_false(nc_value_says(v, "l", "deep"));
    assert_true(nc_value_says(NULL, "c", NULL));
    assert_ptr_equal(nc_value_path(v, "a"), nc_value_get(v, "a"));
    assert_null(nc_value_path(v, "a.x.c"));
    assert_null(nc_value_path(v, "a.b.c.d"));
    assert_null(nc_value_path(v, "l.0"));
    assert_null(nc_value_path(v, ""));
    assert_null(nc_value_path(NULL, "a"));
    assert_int_equal(nc_value_get(v, "a.b")->integer, 1);
    assert_null(nc_value_get(v, "A"));
    assert_null(nc_value_get(NULL, "a"));
    assert_null(nc_value_get(nc_value_get(v, "l"), "a"));
    assert_int_equal(nc_value_get(v, "n")->type, NC_VALUE_NULL);
    assert_null(nc_value_string(NULL));
    assert_null(nc_value_string(v));
    assert_null(nc_value_get_string(v, "n"));
    assert_null(nc_value_free(NULL));
    assert_null(nc_value_copy(NULL));
}

static void scalars_as_text(void **state) {
    nc_auto_value struct nc_value *v =
        json("{\"s\":\"x\",\"i\":-5,\"t\":true,\"f\":false,\"d\":1.50,\"n\":null,\"m\":{}}");
    static const char *const rows[][2] = {
        {"s", "x"},   {"i", "-5"}, {"t", "true"}, {"f", "false"},
        {"d", "1.5"}, {"n", NULL}, {"m", NULL},   {"absent", NULL},
    };
    char buf[32];
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const char *text = nc_value_scalar_text(nc_value_get(v, rows[i][0]), buf);
        if (rows[i][1])
            assert_string_equal(text, rows[i][1]);
        else
            assert_null(text);
    }
}

static void setting_and_removing(void **state) {
    nc_auto_value struct nc_value *v = nc_value_new_map();
    struct nc_value *list = nc_value_new_list();
    (void)state;

    nc_value_set_string(v, "z", "old");
    nc_value_set_int(v, "i", 7);
    nc_value_set_bool(v, "b", true);
    nc_value_set(v, "l", list);
    nc_value_push_string(list, NULL);
    nc_value_push(list, nc_value_new(NC_VALUE_NULL));
    nc_value_set_string(v, "z", "new");
    assert_json(v, "{\"z\":\"new\",\"i\":7,\"b\":true,\"l\":[\"\",null]}");
    assert_true(nc_value_remove(v, "i"));
    assert_false(nc_value_remove(v, "i"));
    assert_true(nc_value_remove(v, "l"));
    assert_true(nc_value_remove(v, "z"));
    assert_json(v, "{\"b\":true}");
    nc_value_set_int(v, "again", 1);
    assert_json(v, "{\"b\":true,\"again\":1}");
}

static void equality(void **state) {
    static const struct {
        const char *a;
        const char *b;
        bool equal;
    } rows[] = {
        {"null", "null", true},
        {"1", "1", true},
        {"1", "2", false},
        {"1", "1.0", true},
        {"1000", "1e3", true},
        {"1.5", "1.50", true},
        {"1.5", "1.6", false},
        {"1", "\"1\"", false},
        {"1", "true", false},
        {"true", "false", false},
        {"true", "true", true},
        {"\"a\"", "\"a\"", true},
        {"\"a\"", "\"b\"", false},
        {"[1,2]", "[2,1]", false},
        {"[1,2]", "[1,2]", true},
        {"[1]", "[1,2]", false},
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true},
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", false},
        {"{\"a\":1}", "{\"a\":2}", false},
        {"{\"a\":1}", "{\"a\":1,\"b\":1}", false},
        {"{}", "[]", false},
        {"{\"a\":null}", "{\"b\":null}", false},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_value struct nc_value *a = json(rows[i].a);
        nc_auto_value struct nc_value *b = json(rows[i].b);
        assert_int_equal(nc_value_equal(a, b), rows[i].equal);
        assert_int_equal(nc_value_equal(b, a), rows[i].equal);
        assert_false(nc_value_equal(a, NULL));
    }
    assert_true(nc_value_equal(NULL, NULL));
}

static void merging(void **state) {
    static const char *const rows[][3] = {
        {"{\"a\":1,\"b\":2}", "{\"b\":3,\"c\":4}", "{\"a\":1,\"b\":3,\"c\":4}"},
        {"{\"a\":{\"x\":1,\"y\":2}}", "{\"a\":{\"y\":3}}", "{\"a\":{\"x\":1,\"y\":3}}"},
        {"{\"a\":[1,2]}", "{\"a\":[3]}", "{\"a\":[3]}"},
        {"{\"a\":1}", "{\"a\":null}", "{\"a\":null}"},
        {"{\"a\":\"x\"}", "{\"a\":\"\"}", "{\"a\":\"\"}"},
        {"{\"a\":1}", "{\"a\":{\"b\":2}}", "{\"a\":{\"b\":2}}"},
        {"{\"a\":{\"b\":2}}", "{\"a\":1}", "{\"a\":1}"},
        {"{}", "{\"a\":{\"b\":null}}", "{\"a\":{\"b\":null}}"},
        {"1", "{\"a\":1}", "{\"a\":1}"},
        {"{\"a\":1}", "[]", "[]"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_value struct nc_value *into = json(rows[i][0]);
        nc_value_merge(into, json(rows[i][1]));
        assert_json(into, rows[i][2]);
    }
}

/* The examples of RFC 7386, appendix A, and what follows from the rule. */
static void merge_patch(void **state) {
    static const char *const rows[][3] = {
        {"{\"a\":\"b\"}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"b\":\"c\"}", "{\"a\":\"b\",\"b\":\"c\"}"},
        {"{\"a\":\"b\"}", "{\"a\":null}", "{}"},
        {"{\"a\":\"b\",\"b\":\"c\"}", "{\"a\":null}", "{\"b\":\"c\"}"},
        {"{\"a\":[\"b\"]}", "{\"a\":\"c\"}", "{\"a\":\"c\"}"},
        {"{\"a\":\"c\"}", "{\"a\":[\"b\"]}", "{\"a\":[\"b\"]}"},
        {"{\"a\":{\"b\":\"c\"}}", "{\"a\":{\"b\":\"d\",\"c\":null}}", "{\"a\":{\"b\":\"d\"}}"},
        {"{\"a\":[{\"b\":\"c\"}]}", "{\"a\":[1]}", "{\"a\":[1]}"},
        {"[\"a\",\"b\"]", "[\"c\",\"d\"]", "[\"c\",\"d\"]"},
        {"{\"a\":\"b\"}", "[\"c\"]", "[\"c\"]"},
        {"{\"a\":\"foo\"}", "null", "null"},
        {"{\"a\":\"foo\"}", "\"bar\"", "\"bar\""},
        {"{\"e\":null}", "{\"a\":1}", "{\"e\":null,\"a\":1}"},
        {"[1,2]", "{\"a\":\"b\",\"c\":null}", "{\"a\":\"b\"}"},
        {"{}", "{\"a\":{\"bb\":{\"ccc\":null}}}", "{\"a\":{\"bb\":{}}}"},
        {"{\"a\":[null]}", "{\"a\":[null,1]}", "{\"a\":[null,1]}"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_value struct nc_value *into = json(rows[i][0]);
        nc_auto_value struct nc_value *patch = json(rows[i][1]);
        nc_value_merge_patch(into, patch);
        assert_json(into, rows[i][2]);
        assert_json(patch, rows[i][1]);
    }
}

static struct nc_value *yaml_at(const char *text, unsigned source) {
    struct nc_values v = {0};
    struct nc_err err = NC_ERR_INIT;

    if (nc_yaml_parse(nc_text(text), source, &v, &err) < 0 || v.n != 1)
        fail_msg("%s: %s", text, err.msg);
    struct nc_value *first = v.v[0];
    free(v.v);
    return first;
}

static void a_value_tells_what_it_overrode(void **state) {
    nc_auto_value struct nc_value *v = yaml_at("a: 1\nb: {c: x}\n", 1);
    (void)state;

    nc_value_merge(v, yaml_at("\na: 2\nb: {d: y}\n", 2));
    nc_value_merge(v, yaml_at("\n\na: 3\n", 3));
    const struct nc_value *a = nc_value_get(v, "a");
    assert_int_equal(a->integer, 3);
    assert_int_equal(a->mark.source, 3);
    assert_int_equal(a->mark.line, 3);
    assert_int_equal(a->overrode->integer, 2);
    assert_int_equal(a->overrode->mark.source, 2);
    assert_int_equal(a->overrode->overrode->integer, 1);
    assert_int_equal(a->overrode->overrode->mark.source, 1);
    assert_null(a->overrode->overrode->overrode);
    assert_int_equal(v->members[0].mark.source, 3);
    assert_null(nc_value_get(v, "b")->overrode);
    assert_int_equal(nc_value_path(v, "b.d")->mark.source, 2);

    nc_auto_value struct nc_value *copy = nc_value_copy(v);
    assert_true(nc_value_equal(copy, v));
    assert_null(nc_value_get(copy, "a")->overrode);
    assert_int_equal(nc_value_get(copy, "a")->mark.source, 3);

    /* A history that comes with the newer value stands before the older one's. */
    nc_auto_value struct nc_value *old = yaml_at("a: 0\n", 4);
    nc_value_merge(old, nc_steal(&v));
    const struct nc_value *newest = nc_value_get(old, "a");
    assert_int_equal(newest->integer, 3);
    assert_int_equal(newest->overrode->overrode->overrode->mark.source, 4);
}

static void a_patch_leaves_a_history_too(void **state) {
    nc_auto_value struct nc_value *v = yaml_at("a: 1\nm: 5\n", 1);
    nc_auto_value struct nc_value *patch = yaml_at("a: 2\nk: {x: 1, w: null}\nm: {z: 1}\n", 2);
    (void)state;

    nc_value_merge_patch(v, patch);
    assert_int_equal(nc_value_get(v, "a")->overrode->integer, 1);
    assert_int_equal(nc_value_get(v, "a")->mark.source, 2);
    assert_null(nc_value_get(v, "k")->overrode);
    assert_null(nc_value_path(v, "k.x")->overrode);
    assert_int_equal(nc_value_get(v, "k")->mark.line, 2);
    assert_int_equal(nc_value_get(v, "m")->overrode->integer, 5);
}

static void test_items(void **state) {
    nc_auto_value struct nc_value *v =
        yaml_at("l: [{k: a}, 5, {k: b, x: 1}, {k: b}]\nm: {k: b}\n", 1);
    const struct nc_value *list = nc_value_get(v, "l");

    (void)state;
    assert_int_equal(nc_value_item(list, 1)->integer, 5);
    assert_null(nc_value_item(list, 4));
    assert_null(nc_value_item(nc_value_get(v, "m"), 0));
    assert_null(nc_value_item(NULL, 0));
    assert_ptr_equal(nc_value_find(list, "k", "b"), nc_value_item(list, 2));
    assert_null(nc_value_find(list, "k", "c"));
    assert_null(nc_value_find(nc_value_get(v, "m"), "k", "b"));
    assert_null(nc_value_find(NULL, "k", "b"));
    assert_string_equal(nc_value_member(v, 1)->key, "m");
    assert_null(nc_value_member(v, 2));
    assert_null(nc_value_member(list, 0));
    assert_null(nc_value_member(NULL, 0));
}

static void test_otherwise(void **state) {
    nc_auto_value struct nc_value *v = yaml_at("not: false\nfive: 5\ntext: \"5\"\n", 1);

    (void)state;
    assert_false(nc_value_bool(nc_value_get(v, "not"), true));
    assert_true(nc_value_bool(nc_value_get(v, "five"), true));
    assert_true(nc_value_bool(NULL, true));
    assert_int_equal(nc_value_int(nc_value_get(v, "five"), 7), 5);
    assert_int_equal(nc_value_int(nc_value_get(v, "text"), 7), 7);
    assert_int_equal(nc_value_int(NULL, 7), 7);
}

static void test_nothing_to_report_is_null(void **state) {
    nc_auto_value struct nc_value *map = nc_value_new_map();
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)state;
    nc_value_set_text(map, "a", NULL);
    nc_value_set_text(map, "b", "");
    nc_value_set_text(map, "c", "x");
    nc_value_set_time(map, "d", 0);
    nc_value_set_time(map, "e", 1704067200000000);
    nc_json_write(&text, map, 0);
    assert_string_equal(text.data, "{\"a\":null,\"b\":null,\"c\":\"x\",\"d\":null,"
                                   "\"e\":\"2024-01-01T00:00:00Z\"}");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(access_tolerates_anything),
        cmocka_unit_test(scalars_as_text),
        cmocka_unit_test(setting_and_removing),
        cmocka_unit_test(equality),
        cmocka_unit_test(merging),
        cmocka_unit_test(merge_patch),
        cmocka_unit_test(a_value_tells_what_it_overrode),
        cmocka_unit_test(a_patch_leaves_a_history_too),
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_otherwise),
        cmocka_unit_test(test_nothing_to_report_is_null),
    };
    return run_group(tests, NULL, NULL);
}
