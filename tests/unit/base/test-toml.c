/*
 * TOML: what is read, refusals with line and column, limits, and what is written. The whole grammar
 * is held against toml-test by the conformance tier; here each rule has a row or two.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>
#include <stdio.h>

#include "nc/str.h"
#include "nc/value.h"

static int parse(const char *text, size_t n, struct nc_value **ret, struct nc_err *err) {
    char *exact = malloc(n ? n : 1);

    assert_non_null(exact);
    memcpy(exact, text, n);
    const int r = nc_toml_parse((struct nc_text){.data = exact, .n = n}, ret, err);
    free(exact);
    if (r < 0) { /* the rows have the place before the message */
        nc_auto_free char *message = nc_strdup(err->msg);
        (void)snprintf(err->msg, sizeof(err->msg), "line %u, column %u: %s", err->mark.line,
                       err->mark.column, message);
    }
    return r;
}

static struct nc_value *must_parse(const char *text) {
    struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (parse(text, strlen(text), &v, &err) != 0)
        fail_msg("%s: %s", text, err.msg);
    return v;
}

/* What is read from text is `json`, and again when it was written. */
static void assert_read(const char *text, const char *json) {
    nc_auto_value struct nc_value *v = must_parse(text);
    nc_cleanup(nc_buf_done) struct nc_buf written = NC_BUF_INIT, toml = NC_BUF_INIT;

    nc_json_write(&written, v, 0);
    if (strcmp(written.data, json) != 0)
        fail_msg("%s: %s, not %s", text, written.data, json);
    assert_int_equal(nc_toml_write(v, &toml), 0);
    nc_auto_value struct nc_value *back = must_parse(toml.data ? toml.data : "");
    if (!nc_value_equal(v, back))
        fail_msg("%s: written as %s", text, toml.data);
}

static void values_are_read(void **state) {
    static const char *const rows[][2] = {
        {"true", "true"},
        {"false", "false"},
        {"0", "0"},
        {"-0", "0"},
        {"+99", "99"},
        {"1_000", "1000"},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"0xDEAD_beef", "3735928559"},
        {"0o755", "493"},
        {"0b1101", "13"},
        {"0x00", "0"},
        {"+1.0", "1"},
        {"-0.01", "-0.01"},
        {"5e+22", "5e+22"},
        {"1e06", "1000000"},
        {"6.626E-34", "6.626e-34"},
        {"9_224.1_2", "9224.12"},
        {"1e-400", "0"},
        {"\"\"", "\"\""},
        {"\"a\\tb\\u00e9\\U0001F600\\\"\\\\\"", "\"a\\tb\xc3\xa9\xf0\x9f\x98\x80\\\"\\\\\""},
        {"'C:\\x'", "\"C:\\\\x\""},
        {"\"\"\"\na\nb\"\"\"", "\"a\\nb\""},
        {"\"\"\"a \\\n \n\t b\"\"\"", "\"a b\""},
        {"\"\"\"\"a\"\" b\"\"\"\"\"", "\"\\\"a\\\"\\\" b\\\"\\\"\""},
        {"'''\r\na\\b\r\n'''", "\"a\\\\b\\r\\n\""},
        {"''''''", "\"\""},
        {"2024-02-29", "\"2024-02-29\""},
        {"07:32:00.5", "\"07:32:00.5\""},
        {"1979-05-27T07:32:00", "\"1979-05-27T07:32:00\""},
        {"1979-05-27 07:32:60-07:00 # a comment", "\"1979-05-27 07:32:60-07:00\""},
        {"1979-05-27t07:32:00z", "\"1979-05-27t07:32:00z\""},
        {"[]", "[]"},
        {"[ # one\n 1,\n 'a' , [2.5], # two\n]", "[1,\"a\",[2.5]]"},
        {"{ }", "{}"},
        {"{ b = 1, c.d = [{}], 'c'.e = {f = 2} }", "{\"b\":1,\"c\":{\"d\":[{}],\"e\":{\"f\":2}}}"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *text = nc_asprintf("a = %s\r\n", rows[i][0]);
        nc_auto_free char *json = nc_asprintf("{\"a\":%s}", rows[i][1]);
        assert_read(text, json);
    }
}

static void documents_are_read(void **state) {
    static const char *const rows[][2] = {
        {"", "{}"},
        {" \t# nothing", "{}"},
        {"\xef\xbb\xbf"
         "a=1",
         "{\"a\":1}"},
        {"a-b_1 = 1\n\"c d\" = 2\n'e' = 3\n'' = 4\n1 = 5",
         "{\"a-b_1\":1,\"c d\":2,\"e\":3,\"\":4,\"1\":5}"},
        {"a . \"b.c\" . d = 1\na.e = 2", "{\"a\":{\"b.c\":{\"d\":1},\"e\":2}}"},
        {"3.14 = 1", "{\"3\":{\"14\":1}}"},
        {"[ a . b ] # here\nc = 1\n[a]\nd = 2", "{\"a\":{\"b\":{\"c\":1},\"d\":2}}"},
        {"[a.b]\n[a]\nc.d = 1", "{\"a\":{\"b\":{},\"c\":{\"d\":1}}}"},
        {"[a]\nb.c = 1\n[a.b.d]\ne = 2", "{\"a\":{\"b\":{\"c\":1,\"d\":{\"e\":2}}}}"},
        {"[[a]]\nb = 1\n[[a]]\n[a.c]\nd = 2\n[[a.e]]\n[[a.e]]",
         "{\"a\":[{\"b\":1},{\"c\":{\"d\":2},\"e\":[{},{}]}]}"},
        {"[plugins.\"io.containerd.grpc.v1.cri\"]\nx = 1",
         "{\"plugins\":{\"io.containerd.grpc.v1.cri\":{\"x\":1}}}"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        assert_read(rows[i][0], rows[i][1]);
}

static void types_are_kept(void **state) {
    nc_auto_value struct nc_value *v =
        must_parse("a = [1, 1.0, +inf, -nan, -inf, 07:32:00, '07:32:00', 9_0.5, -0e0]");
    const struct nc_value *list = nc_value_get(v, "a");
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    (void)state;

    assert_int_equal(list->items[0]->type, NC_VALUE_INT);
    assert_int_equal(list->items[1]->type, NC_VALUE_FLOAT);
    assert_int_equal(list->items[5]->type, NC_VALUE_TIME);
    assert_int_equal(list->items[6]->type, NC_VALUE_STRING);
    assert_null(nc_value_string(list->items[5]));
    assert_false(nc_value_equal(list->items[5], list->items[6]));
    assert_int_equal(nc_toml_write(v, &b), 0);
    assert_string_equal(b.data,
                        "a = [1, 1.0, inf, nan, -inf, 07:32:00, \"07:32:00\", 90.5, -0.0]\n");
    nc_auto_value struct nc_value *back = must_parse(b.data);
    assert_true(nc_value_equal(v, back));
}

static void marks_say_where(void **state) {
    nc_auto_value struct nc_value *v =
        must_parse("# comment\r\n'\xc3\xbc' = {k = 'v'}\n[t]\n list = [1,\n  2]\n");
    (void)state;

    assert_int_equal(v->members[0].mark.line, 2);
    assert_int_equal(v->members[0].mark.column, 1);
    assert_int_equal(v->members[0].value->members[0].mark.column, 8); /* characters, not bytes */
    assert_int_equal(nc_value_path(v, "t")->mark.line, 3);
    assert_int_equal(nc_value_path(v, "t.list")->mark.column, 9);
    assert_int_equal(nc_value_path(v, "t.list")->items[1]->mark.line, 5);
    assert_int_equal(nc_value_path(v, "t.list")->items[1]->mark.column, 3);
}

/* Of a literal block of a document. */
static void marks_are_those_of_the_document(void **state) {
    static const char text[] = NC_BYTE_ORDER_MARK "a = 1\nb = ";
    struct nc_err err = NC_ERR_INIT;
    nc_auto_value struct nc_value *v = NULL;
    (void)state;

    assert_int_equal(nc_toml_parse((struct nc_text){text, sizeof(text) - 6, 7, 4}, &v, &err), 0);
    assert_int_equal(nc_value_get(v, "a")->mark.line, 7);
    assert_int_equal(nc_value_get(v, "a")->mark.column, 9);
    v = nc_value_free(v);
    assert_true(nc_toml_parse((struct nc_text){text, sizeof(text) - 1, 7, 4}, &v, &err) < 0);
    assert_int_equal(err.mark.line, 8);
    assert_int_equal(err.mark.column, 9);
}

static void refused(void **state) {
    static const struct {
        const char *text;
        size_t n;
        const char *message;
    } rows[] = {
        {"a", 0, "line 1, column 2: expected = behind the key, not the end of the text"},
        {"a\nb = 1", 0, "line 1, column 2: expected = behind the key, not the end of the line"},
        {"a = ", 0, "line 1, column 5: expected a value: a string in quotes, a number, true,"},
        {"a = b", 0, "line 1, column 5: expected a value: "},
        {"a = some_name", 0, "line 1, column 5: expected a value: "},
        {"a = True", 0, "line 1, column 5: expected a value: "},
        {"a = n_an", 0, "line 1, column 5: expected a value: "},
        {"a = 1 b = 2", 0, "line 1, column 7: expected the end of the line, not 'b'"},
        {"= 1", 0, "line 1, column 1: expected a key (letters, digits, _ and -, or a string in"},
        {"\n\xc3\xbc = 1", 0, "line 2, column 1: expected a key (letters, digits, _ and -, or a "},
        {"a. = 1", 0, "line 1, column 4: expected a key (letters, digits, _ and -, or a string in"},
        {"'''a''' = 1", 0, "line 1, column 1: a key cannot be a string of several lines"},
        {"[a", 0, "line 1, column 3: expected ] behind the key, not the end of the text"},
        {"[[a]\n", 0, "line 1, column 5: expected ]] behind the key, not the end of the line"},
        {"[]", 0, "line 1, column 2: expected a key"},
        {"a = [1 2]", 0, "line 1, column 8: expected a comma or ] in an array, not '2'"},
        {"a = {b = 1,}", 0, "line 1, column 12: expected a key"},
        {"a = {b = 1\n}", 0, "line 1, column 11: expected a comma or } in an inline table, on one"},
        /* numbers */
        {"a = 01", 0, "line 1, column 5: invalid number, expected digits without a leading zero"},
        {"a = 1.", 0, "line 1, column 5: invalid number"},
        {"a = .5", 0, "line 1, column 5: expected a value: "},
        {"a = 1_", 0, "line 1, column 5: expected a digit on both sides of an underscore"},
        {"a = 1__0", 0, "line 1, column 5: expected a digit on both sides of an underscore"},
        {"a = 0x_1", 0, "line 1, column 5: expected a digit on both sides of an underscore"},
        {"a = 0b12", 0, "line 1, column 5: invalid digit in a number"},
        {"a = 0o", 0, "line 1, column 5: expected digits behind the prefix of a number"},
        {"a = +0x1", 0, "line 1, column 5: invalid number"},
        {"a = 9223372036854775808", 0, "line 1, column 5: integer beyond 64 bits"},
        {"a = 0x8000000000000000", 0, "line 1, column 5: integer beyond 64 bits"},
        {"a = 1e400", 0, "line 1, column 5: number out of range"},
        /* dates and times */
        {"a = 2023-02-29", 0, "line 1, column 5: invalid date or time"},
        {"a = 1900-02-29", 0, "line 1, column 5: invalid date or time"},
        {"a = 2000-13-01", 0, "line 1, column 5: invalid date or time"},
        {"a = 24:00:00", 0, "line 1, column 5: invalid date or time"},
        {"a = 07:32", 0, "line 1, column 5: invalid date or time"},
        {"a = 07:32:00Z", 0, "line 1, column 5: invalid date or time"},
        {"a = 2000-01-01T00:00:00+24:00", 0, "line 1, column 5: invalid date or time"},
        {"a = 2000-01-01T", 0, "line 1, column 5: invalid date or time"},
        /* strings */
        {"a = \"b", 0, "line 1, column 7: expected the closing quote of the string"},
        {"a = 'b\n'", 0, "line 1, column 7: expected the closing quote of the string"},
        {"a = \"\"\"b\n", 0, "line 2, column 1: expected the closing quote of the string"},
        {"a = \"b\\x41\"", 0, "line 1, column 7: unknown escape, expected one of \\b \\t"},
        {"a = \"\\u12\"", 0, "line 1, column 6: expected four hexadecimal digits behind \\u"},
        {"a = \"\\U0000012\"", 0, "line 1, column 6: expected eight hexadecimal digits behind \\U"},
        {"a = \"\\ud800\"", 0, "line 1, column 6: not a Unicode character"},
        {"a = \"\\U00110000\"", 0, "line 1, column 6: not a Unicode character"},
        {"a = \"\\u0000\"", 0, "line 1, column 6: a NUL character in a string"},
        {"a = \"\"\"\\ b\"\"\"", 0, "line 1, column 10: expected the end of the line behind the"},
        {"a = \"\\\n\"", 0, "line 1, column 6: unknown escape"},
        /* what may stand nowhere */
        {"a = 1 # \x01", 0, "line 1, column 9: control character"},
        {"a = 1\rb = 2", 0, "line 1, column 6: control character"},
        {"a = '\x7f'", 0, "line 1, column 6: control character"},
        {"a = '\0'", 7, "line 1, column 6: control character"},
        {"# \xc3\xbc\xff", 0, "line 1, column 4: invalid UTF-8"},
        {"# \xc3", 0, "line 1, column 3: invalid UTF-8"},
        /* twice */
        {"a = 1\na = 2", 0, "line 2, column 1: key 'a' stands here a second time"},
        {"a = {b = 1, b = 2}", 0, "line 1, column 13: key 'b' stands here a second time"},
        {"[a]\n[a]", 0, "line 2, column 2: key 'a' stands here a second time"},
        {"a = 1\n[a]", 0, "line 2, column 2: key 'a' stands here a second time"},
        {"a = 1\n[a.b]", 0, "line 2, column 2: key 'a' has a value already that is no table"},
        {"a = 1\na.b = 2", 0, "line 2, column 1: key 'a' has a value already that is no table"},
        {"a.b = 1\n[a]", 0, "line 2, column 2: key 'a' stands here a second time"},
        {"a = {}\na.b = 1", 0, "line 2, column 1: key 'a' is a table that is complete"},
        {"a = {}\n[a.b]", 0, "line 2, column 2: key 'a' is a table that is complete"},
        {"a = {b = {}, b.c = 1}", 0, "line 1, column 14: key 'b' is a table that is complete"},
        {"[a.b]\n[a]\nb.c = 1\n[a.b]", 0, "line 3, column 1: key 'b' is a table that is complete"},
        {"[a.b.c]\n[a]\nb.d = 1\n[a.b]", 0, "line 4, column 4: key 'b' stands here a second time"},
        {"a = []\n[[a]]", 0, "line 2, column 3: key 'a' is no array of tables, [[ ]] cannot add"},
        {"[a]\n[[a]]", 0, "line 2, column 3: key 'a' is no array of tables, [[ ]] cannot add"},
        {"[[a]]\n[a]", 0, "line 2, column 2: key 'a' stands here a second time"},
        {"a = [{}]\n[a.b]", 0, "line 2, column 2: key 'a' has a value already that is no table"},
        {"[[a]]\nb = 1\n[a.b]", 0, "line 3, column 4: key 'b' stands here a second time"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_value *v = NULL;
        struct nc_err err = NC_ERR_INIT;
        const size_t n = rows[i].n ? rows[i].n : strlen(rows[i].text);
        if (parse(rows[i].text, n, &v, &err) != -EINVAL)
            fail_msg("accepted: %s", rows[i].text);
        if (!nc_starts_with(err.msg, rows[i].message))
            fail_msg("%s: %s, not %s", rows[i].text, err.msg, rows[i].message);
        assert_int_equal(err.class, NC_ERR_CONFIG);
        assert_null(v);
    }
}

/* "a.a.a…", so many levels with the root, in the three ways that there are. */
static int parse_nested(unsigned depth, const char *before, const char *each, const char *behind) {
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    nc_auto_value struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;

    nc_buf_puts(&b, before);
    for (unsigned i = 1; i < depth; i++)
        nc_buf_puts(&b, each);
    nc_buf_puts(&b, behind);
    for (unsigned i = 1; i < depth && *each == '['; i++)
        nc_buf_puts(&b, "]");
    const int r = parse(b.data, b.len, &v, &err);
    if (r)
        assert_non_null(strstr(err.msg, ": nested too deep"));
    return r;
}

static void limits_hold(void **state) {
    static const char *const rows[][3] = {
        {"", "a.", "a = 1"}, {"[", "a.", "a]"}, {"a = ", "[", "1"}, {"[[b]]\nc.d = ", "[", ""}};
    static const unsigned most[] = {NC_VALUE_MAX_DEPTH, NC_VALUE_MAX_DEPTH - 1, NC_VALUE_MAX_DEPTH,
                                    NC_VALUE_MAX_DEPTH - 3};
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    nc_auto_value struct nc_value *v = NULL;
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        assert_int_equal(parse_nested(most[i], rows[i][0], rows[i][1], rows[i][2]), 0);
        assert_int_equal(parse_nested(most[i] + 1, rows[i][0], rows[i][1], rows[i][2]), -EINVAL);
    }
    for (unsigned i = 0; i < NC_TOML_MAX_VALUES; i++)
        nc_buf_printf(&b, "k%u = 1\n", i);
    assert_int_equal(parse(b.data, b.len, &v, &err), 0);
    v = nc_value_free(v);
    nc_buf_puts(&b, "k = 1\n");
    assert_int_equal(parse(b.data, b.len, &v, &err), -EINVAL);
    assert_string_equal(err.msg, "line 4097, column 5: too many values");
    nc_buf_clear(&b);
    while (b.len <= NC_TOML_MAX_BYTES)
        nc_buf_puts(&b, "# a line\n");
    assert_int_equal(parse(b.data, b.len, &v, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "TOML of 1048"));
}

static void tables_are_written_behind_scalars(void **state) {
    nc_auto_value struct nc_value *v = must_parse(
        "[a.\"b.c\"]\nx = 1\n[a.\"b.c\".empty]\n[a]\ns = \"q\\\"\\n\\u007f\"\nl = [{}, 1]\n"
        "[[t]]\n[t.u]\ny = {}\n[[t]]\n\"k 1\" = []\n");
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    (void)state;

    nc_value_set_bool(v, "root", true);
    assert_int_equal(nc_toml_write(v, &b), 0);
    assert_string_equal(b.data, "root = true\n"
                                "\n[a]\ns = \"q\\\"\\n\\u007f\"\nl = [{}, 1]\n"
                                "\n[a.\"b.c\"]\nx = 1\n\n[a.\"b.c\".empty]\n"
                                "\n[[t]]\n\n[t.u.y]\n"
                                "\n[[t]]\n\"k 1\" = []\n");
}

static void what_toml_cannot_say_is_not_written(void **state) {
    nc_auto_value struct nc_value *v = must_parse("a = 1\n[b]\nc = [1]\n");
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT, small = NC_BUF_INIT_MAX(20);
    (void)state;

    nc_buf_puts(&b, "before");
    nc_buf_puts(&small, "before");
    assert_int_equal(nc_toml_write(v, &small), -EFBIG);
    assert_string_equal(small.data, "before");
    nc_value_push(nc_value_path(v, "b.c"), nc_value_new(NC_VALUE_NULL));
    assert_int_equal(nc_toml_write(v, &b), -EINVAL);
    assert_int_equal(nc_toml_write(nc_value_get(v, "a"), &b), -EINVAL);
    assert_int_equal(nc_toml_write(NULL, &b), -EINVAL);
    assert_string_equal(b.data, "before");
    assert_int_equal(b.len, 6);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(documents_are_read),
        cmocka_unit_test(types_are_kept),
        cmocka_unit_test(marks_say_where),
        cmocka_unit_test(marks_are_those_of_the_document),
        cmocka_unit_test(refused),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(tables_are_written_behind_scalars),
        cmocka_unit_test(what_toml_cannot_say_is_not_written),
    };
    return run_group(tests, NULL, NULL);
}
