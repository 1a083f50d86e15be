/*
 * Strict JSON: every trap of the parser underneath has its row here, and what is written is always
 * valid.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "nc/mem.h"
#include "nc/value.h"

/* Parses a copy of exactly n bytes, so that a read beyond them is seen by the sanitizer. */
static int parse(const char *text, size_t n, struct nc_value **ret, struct nc_err *err) {
    char *exact = malloc(n ? n : 1);

    assert_non_null(exact);
    memcpy(exact, text, n);
    const int r = nc_json_parse(exact, n, ret, err);
    free(exact);
    return r;
}

static void assert_written(const struct nc_value *v, unsigned indent, const char *expected) {
    struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, v, indent);
    assert_string_equal(b.data, expected);
    nc_buf_done(&b);
}

static void accepted(void **state) {
    static const char *const rows[][2] = {
        {"null", "null"},
        {" \t\r\n true \n", "true"},
        {"false", "false"},
        {"0", "0"},
        {"-0", "0"},
        {"-17", "-17"},
        {"9007199254740992", "9007199254740992"},
        {"-9007199254740992", "-9007199254740992"},
        {"1000000000000000", "1000000000000000"},
        {"1.5", "1.5"},
        {"1.50", "1.5"},
        {"1e3", "1000"},
        {"1E+3", "1000"},
        {"1e15", "1000000000000000"},
        {"1e-3", "0.001"},
        {"0.000001", "0.000001"},
        {"0.0000001", "1e-7"},
        {"-12.25", "-12.25"},
        {"0.1", "0.1"},
        {"123456.789", "123456.789"},
        {"1e300", "1e+300"},
        {"-1.25e300", "-1.25e+300"},
        {"1e-400", "0"},
        {"0.0", "0"},
        {"\"\"", "\"\""},
        {"\"a\\u00fc\\n\\/\\\\\\\"\"", "\"a\xc3\xbc\\n/\\\\\\\"\""},
        {"\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\""},
        {"\"\\u0001\\b\\f\\r\\t\"", "\"\\u0001\\b\\f\\r\\t\""},
        {"\"\x7f\xc2\x85\xe2\x80\xa8\xef\xbb\xbf\"",
         "\"\\u007f\\u0085\\u2028\\ufeff\""}, /* no YAML as they are */
        {"[]", "[]"},
        {"{}", "{}"},
        {"[1, [2], {\"a\": [3.5, 4]}, 5]", "[1,[2],{\"a\":[3.5,4]},5]"},
        {"{\"a\":1,\"A\":2,\"\":3}", "{\"a\":1,\"A\":2,\"\":3}"},
        {"{\"b\":1,\"a\":{\"b\":2}}", "{\"b\":1,\"a\":{\"b\":2}}"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_value struct nc_value *v = NULL;
        struct nc_err err = NC_ERR_INIT;
        if (parse(rows[i][0], strlen(rows[i][0]), &v, &err) != 0)
            fail_msg("%s: %s", rows[i][0], err.msg);
        assert_written(v, 0, rows[i][1]);
        assert_int_equal(err.class, NC_ERR_NONE);
    }
}

static const struct refusal {
    const char *text;
    size_t n; /* 0: strlen */
    const char *message;
} refusals[] = {
    {"", 0, "JSON: byte 0: empty, where JSON was expected"},
    {"  ", 0, "JSON: byte 2: the text ends too early"},
    {"nul", 0, "JSON: byte 0: a value was expected"},
    {"True", 0, "JSON: byte 0: a value was expected"},
    {"nullx", 0, "JSON: byte 4: more text after the value"},
    {"{} x", 0, "JSON: byte 3: more text after the value"},
    {"{}{}", 0, "JSON: byte 2: more text after the value"},
    {"1 2", 0, "JSON: byte 2: more text after the value"},
    {"{}\0", 3, "JSON: byte 2: more text after the value"},
    {"\xef\xbb\xbf{}", 0, "JSON: byte 0: a value was expected"},
    {"[1,\x01 2]", 0, "JSON: byte 3: a value was expected"},
    {"[1,\v2]", 0, "JSON: byte 3: a value was expected"},
    {"{\"a\":1,\"b\":2,\"a\":3}", 0, "duplicate key 'a' in an object"},
    {"[{\"x\":{\"k\":1,\"k\":1}}]", 0, "duplicate key 'k' in an object"},
    {"{\"a\":1,\"\\u0061\":2}", 0, "duplicate key 'a' in an object"},
    {"\"a\\u0000b\"", 0, "JSON: byte 0: \\u0000 in a string"},
    {"{\"a\\u0000\":1}", 0, "JSON: byte 1: \\u0000 in a string"},
    {"\"a\0b\"", 5, "JSON: byte 2: control character in a string"},
    {"\"a\nb\"", 0, "JSON: byte 2: control character in a string"},
    {"\"\xff\"", 0, "JSON: byte 1: invalid UTF-8"},
    {"\"\xc0\x80\"", 0, "JSON: byte 1: invalid UTF-8"},
    {"\"\xed\xa0\x80\"", 0, "JSON: byte 2: invalid UTF-8"},
    {"\"\\ud83d\"", 0, "JSON: byte 7: half of a pair of surrogates"},
    {"\"\\ude00\"", 0, "JSON: byte 6: half of a pair of surrogates"},
    {"\"\\uzzzz\"", 0, "JSON: byte 3: invalid escape in a string"},
    {"\"\\u00", 0, "JSON: byte 0: string without an end"},
    {"\"\\x41\"", 0, "JSON: byte 2: invalid escape in a string"},
    {"\"\\", 0, "JSON: byte 0: string without an end"},
    {"\"abc", 0, "JSON: byte 0: string without an end"},
    {"9007199254740993", 0, "JSON: byte 0: integer beyond 2^53"},
    {"[-9007199254740993]", 0, "JSON: byte 1: integer beyond 2^53"},
    {"{\"a\":[0,123456789012345678901234567890]}", 0, "JSON: byte 8: integer beyond 2^53"},
    {"1e400", 0, "JSON: byte 0: number out of range"},
    {"[1,-1e999]", 0, "JSON: byte 3: number out of range"},
    {"01", 0, "JSON: byte 0: invalid number"},
    {"-", 0, "JSON: byte 0: invalid number"},
    {"-01", 0, "JSON: byte 0: invalid number"},
    {"1.", 0, "JSON: byte 0: invalid number"},
    {"-.5", 0, "JSON: byte 0: invalid number"},
    {".5", 0, "JSON: byte 0: a value was expected"},
    {"+1", 0, "JSON: byte 0: a value was expected"},
    {"1e", 0, "JSON: byte 0: invalid number"},
    {"1e+", 0, "JSON: byte 0: invalid number"},
    {"1e5-3", 0, "JSON: byte 0: invalid number"},
    {"1.5.2", 0, "JSON: byte 0: invalid number"},
    {"[1e5E2]", 0, "JSON: byte 1: invalid number"},
    {"0x10", 0, "JSON: byte 1: more text after the value"},
    {"NaN", 0, "JSON: byte 0: a value was expected"},
    {"[0.1234567890123456789012345678901234567890123456789]", 0,
     "JSON: byte 1: number is too long"},
    {"[1,]", 0, "JSON: byte 3: a value was expected"},
    {"[1 2]", 0, "JSON: byte 3: a comma or a closing bracket was expected"},
    {"[", 0, "JSON: byte 1: the text ends too early"},
    {"]", 0, "JSON: byte 0: a value was expected"},
    {"[}", 0, "JSON: byte 1: a value was expected"},
    {"{\"a\"}", 0, "JSON: byte 4: a colon was expected"},
    {"{\"a\":}", 0, "JSON: byte 5: a value was expected"},
    {"{a:1}", 0, "JSON: byte 1: a key was expected"},
    {"{1:1}", 0, "JSON: byte 1: a key was expected"},
    {"{'a':1}", 0, "JSON: byte 1: a key was expected"},
    {"{\"a\":1,}", 0, "JSON: byte 7: a key was expected"},
    {"{,}", 0, "JSON: byte 1: a key was expected"},
    {"[,]", 0, "JSON: byte 1: a value was expected"},
    {"[1}", 0, "JSON: byte 2: a comma or a closing bracket was expected"},
    {"{\"a\":1", 0, "JSON: byte 6: the text ends too early"},
    {"{\"a", 0, "JSON: byte 1: string without an end"},
    {"/* c */ 1", 0, "JSON: byte 0: a value was expected"},
    {"<html>", 0, "JSON: byte 0: a value was expected"},
};

static void refused(void **state) {
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(refusals); i++) {
        const struct refusal *row = &refusals[i];
        struct nc_value *v = (struct nc_value *)&refusals; /* must stay as it is */
        struct nc_err err = NC_ERR_INIT;
        if (parse(row->text, row->n ? row->n : strlen(row->text), &v, &err) != -EPROTO)
            fail_msg("accepted: %s", row->text);
        if (!strstr(err.msg, row->message))
            fail_msg("%s: \"%s\", not \"%s\"", row->text, err.msg, row->message);
        assert_int_equal(err.class, NC_ERR_PROTOCOL);
        assert_ptr_equal(v, &refusals);
        assert_int_equal(parse(row->text, row->n ? row->n : strlen(row->text), &v, NULL), -EPROTO);
    }
}

static void fill(struct nc_buf *b, const char *piece, size_t times) {
    for (size_t i = 0; i < times; i++)
        nc_buf_puts(b, piece);
}

static void depth_and_count_are_bounded(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    fill(&b, "[", NC_VALUE_MAX_DEPTH);
    fill(&b, "]", NC_VALUE_MAX_DEPTH);
    assert_int_equal(parse(b.data, b.len, &v, &err), 0);
    v = nc_value_free(v);
    nc_buf_clear(&b);
    fill(&b, "[", NC_VALUE_MAX_DEPTH + 1);
    fill(&b, "]", NC_VALUE_MAX_DEPTH + 1);
    assert_int_equal(parse(b.data, b.len, &v, &err), -EPROTO);
    assert_string_equal(err.msg, "JSON: byte 64: nested too deep");

    nc_buf_clear(&b);
    nc_buf_puts(&b, "[0");
    fill(&b, ",0", NC_VALUE_MAX_NODES - 1);
    nc_buf_puts(&b, "]");
    assert_int_equal(parse(b.data, b.len, &v, &err), 0);
    assert_int_equal(v->n, NC_VALUE_MAX_NODES);
    v = nc_value_free(v);
    b.data[b.len - 1] = ',';
    nc_buf_puts(&b, "0]");
    assert_int_equal(parse(b.data, b.len, &v, &err), -EPROTO);
    assert_non_null(strstr(err.msg, "too many values"));
    assert_int_equal(nc_json_parse_large(b.data, b.len, NC_VALUE_MAX_NODES + 1, &v, &err), 0);
    assert_int_equal(v->n, NC_VALUE_MAX_NODES + 1);
    v = nc_value_free(v);
    nc_buf_done(&b);
}

/* A large object must not cost the square of its keys. */
static void many_keys_are_cheap(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    struct nc_value *v = NULL;
    (void)state;

    for (int i = 0; i < 100000; i++)
        nc_buf_printf(&b, "%s\"k%d\":0", i ? "," : "{", i);
    nc_buf_puts(&b, "}");
    assert_int_equal(parse(b.data, b.len, &v, NULL), 0);
    assert_int_equal(v->n, 100000);
    nc_value_free(v);
    nc_buf_done(&b);
}

static void types_of_numbers(void **state) {
    nc_auto_value struct nc_value *v = NULL;
    (void)state;

    assert_int_equal(parse("[1,1.0,1e2,-5,1.50,1e16]", 24, &v, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(v->items[i]->type, NC_VALUE_INT);
    assert_int_equal(v->items[1]->integer, 1);
    assert_int_equal(v->items[2]->integer, 100);
    assert_true(v->items[3]->integer == -5);
    assert_int_equal(v->items[4]->type, NC_VALUE_FLOAT);
    assert_string_equal(v->items[4]->text, "1.5");
    assert_int_equal(v->items[5]->type, NC_VALUE_FLOAT);
    assert_string_equal(v->items[5]->text, "1e+16");
}

static void writing(void **state) {
    nc_auto_value struct nc_value *v = nc_value_new_map();
    struct nc_value *list = nc_value_new_list();
    (void)state;

    nc_value_set(v, "list", list);
    nc_value_push(list, nc_value_new_int(INT64_MIN));
    nc_value_push(list, nc_value_new_list());
    nc_value_set(v, "map", nc_value_new_map());
    nc_value_set_string(v, "bad", "\xff<\x7f>\xc3");
    assert_written(v, 0,
                   "{\"list\":[-9223372036854775808,[]],\"map\":{},\"bad\":\"\xef\xbf\xbd<\\u007f>"
                   "\xef\xbf\xbd\"}");
    assert_written(v, 2,
                   "{\n  \"list\": [\n    -9223372036854775808,\n    []\n  ],\n  \"map\": {},\n"
                   "  \"bad\": \"\xef\xbf\xbd<\\u007f>\xef\xbf\xbd\"\n}");
    assert_written(NULL, 0, "null");

    nc_auto_value struct nc_value *infinite = nc_value_new(NC_VALUE_FLOAT);
    infinite->text = nc_strdup("1e999");
    assert_written(infinite, 0, "null");
}

static void strings_alone(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    (void)state;

    nc_json_write_string(&b, "a\"b");
    nc_json_write_string(&b, NULL);
    assert_string_equal(b.data, "\"a\\\"b\"\"\"");
    nc_buf_done(&b);
}

/* A value that does not fit leaves the buffer as it was: half a document is worse than none. */
static void writing_is_all_or_nothing(void **state) {
    (void)state;
    nc_auto_value struct nc_value *v = NULL;
    const char *text = "{\"a\":[1,2,3],\"b\":\"text\"}";

    assert_int_equal(parse(text, strlen(text), &v, NULL), 0);
    for (size_t max = 1; max < 3 + strlen(text); max++) {
        struct nc_buf b = NC_BUF_INIT_MAX(max);
        if (max >= 3)
            nc_buf_puts(&b, "abc");
        nc_json_write(&b, v, 0);
        assert_int_equal(b.len, max >= 3 ? 3 : 0);
        nc_buf_done(&b);
    }
    struct nc_buf b = NC_BUF_INIT_MAX(strlen(text));
    nc_json_write(&b, v, 0);
    assert_string_equal(b.data, text);
    nc_buf_done(&b);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted),
        cmocka_unit_test(refused),
        cmocka_unit_test(depth_and_count_are_bounded),
        cmocka_unit_test(many_keys_are_cheap),
        cmocka_unit_test(types_of_numbers),
        cmocka_unit_test(writing),
        cmocka_unit_test(strings_alone),
        cmocka_unit_test(writing_is_all_or_nothing),
    };
    return run_group(tests, NULL, NULL);
}
