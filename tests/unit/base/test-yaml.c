/*
 * YAML: scalars as sigs.k8s.io/yaml resolves them, marks, refusals with line and column, limits.
 *
 * The rows of `plain` were produced by running sigs.k8s.io/yaml v1.4.0 (YAMLToJSON) on "a: TEXT".
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "nc/str.h"
#include "nc/value.h"

static int parse(const char *text, size_t n, struct nc_values *d, struct nc_err *err) {
    char *exact = malloc(n ? n : 1);

    assert_non_null(exact);
    memcpy(exact, text, n);
    const int r = nc_yaml_parse((struct nc_text){.data = exact, .n = n}, 7, d, err);
    free(exact);
    return r;
}

static struct nc_values must_parse(const char *text) {
    struct nc_values d = {0};
    struct nc_err err = NC_ERR_INIT;

    if (parse(text, strlen(text), &d, &err) != 0)
        fail_msg("%s: %s", text, err.msg);
    return d;
}

static void assert_written(const struct nc_value *v, const char *text, const char *expected) {
    struct nc_buf b = NC_BUF_INIT;

    nc_json_write(&b, v, 0);
    if (strcmp(b.data, expected) != 0)
        fail_msg("%s: %s, not %s", text, b.data, expected);
    nc_buf_done(&b);
}

static const char *const plain[][2] = {
    {"y", "true"},
    {"Y", "true"},
    {"yes", "true"},
    {"Yes", "true"},
    {"YES", "true"},
    {"yEs", "\"yEs\""},
    {"yeS", "\"yeS\""},
    {"yess", "\"yess\""},
    {"ye", "\"ye\""},
    {"true", "true"},
    {"True", "true"},
    {"TRUE", "true"},
    {"tRUE", "\"tRUE\""},
    {"on", "true"},
    {"On", "true"},
    {"ON", "true"},
    {"oN", "\"oN\""},
    {"n", "false"},
    {"N", "false"},
    {"no", "false"},
    {"No", "false"},
    {"NO", "false"},
    {"nO", "\"nO\""},
    {"false", "false"},
    {"False", "false"},
    {"FALSE", "false"},
    {"off", "false"},
    {"Off", "false"},
    {"OFF", "false"},
    {"", "null"},
    {"~", "null"},
    {"null", "null"},
    {"Null", "null"},
    {"NULL", "null"},
    {"nULL", "\"nULL\""},
    {"+.nan", "\"+.nan\""},
    {".Nan", "\".Nan\""},
    {"inf", "\"inf\""},
    {"NaN", "\"NaN\""},
    {"<<", "\"<<\""},
    {"=", "\"=\""},
    {"0", "0"},
    {"-0", "0"},
    {"+1", "1"},
    {"-1", "-1"},
    {"-", NULL},
    {"+", "\"+\""},
    {".", "\".\""},
    {"..", "\"..\""},
    {"00", "0"},
    {"0777", "511"},
    {"-0777", "-511"},
    {"08", "8"},
    {"09.5", "9.5"},
    {"0o17", "15"},
    {"0O17", "15"},
    {"0o8", "\"0o8\""},
    {"0x1F", "31"},
    {"0x7fffffffffffffff", "9223372036854775807"},
    {"0xFFFFFFFFFFFFFFFF", "1.8446744073709552e+19"},
    {"0x8000_0000_0000_0000", "9.223372036854776e+18"},
    {"01777777777777777777777", "1.8446744073709552e+19"},
    {"+0xFFFFFFFFFFFFFFFF", "\"+0xFFFFFFFFFFFFFFFF\""},
    {"-0xFFFFFFFFFFFFFFFF", "\"-0xFFFFFFFFFFFFFFFF\""},
    {"0x1FFFFFFFFFFFFFFFF", "\"0x1FFFFFFFFFFFFFFFF\""},
    {"0X1f", "31"},
    {"-0x1", "-1"},
    {"0xg", "\"0xg\""},
    {"0x", "\"0x\""},
    {"0b", "\"0b\""},
    {"0b11", "3"},
    {"-0b11", "-3"},
    {"0b12", "\"0b12\""},
    {"0_8", "8"},
    {"0_7", "7"},
    {"1_000", "1000"},
    {"1__0", "10"},
    {"1_", "1"},
    {"+_1", "1"},
    {"_1", "\"_1\""},
    {"0_x1", "1"},
    {"0x_1", "1"},
    {"0b1010_0111", "167"},
    {"02472256", "685230"},
    {"9223372036854775807", "9223372036854775807"},
    {"-9223372036854775808", "-9223372036854775808"},
    {"9007199254740993", "9007199254740993"},
    {"-9223372036854775809", "-9.223372036854776e+18"},
    {"18446744073709551616", "1.8446744073709552e+19"},
    {".5", "0.5"},
    {"+.5", "0.5"},
    {"-.5", "-0.5"},
    {".5e3", "500"},
    {".5_0", "0.5"},
    {"._5", "\"._5\""},
    {".5_", "\".5_\""},
    {".5__0", "\".5__0\""},
    {".1_e1", "\".1_e1\""},
    {"1.", "1"},
    {"1.e3", "1000"},
    {"1.0", "1"},
    {"1.10", "1.1"},
    {"0.1_0", "0.1"},
    {"1_e1", "10"},
    {"1e3", "1000"},
    {"1E+3", "1000"},
    {"1e-3", "0.001"},
    {"1e-7", "1e-7"},
    {"1e-400", "0"},
    {"1e400", "\"1e400\""},
    {"-1e400", "\"-1e400\""},
    {"1e", "\"1e\""},
    {"1e+", "\"1e+\""},
    {".e5", "\".e5\""},
    {"0x1p-2", "\"0x1p-2\""},
    {"1.2.3", "\"1.2.3\""},
    {"1,000", "\"1,000\""},
    {"2001-01-01", "\"2001-01-01\""},
    {"2001-01-01T00:00:00Z", "\"2001-01-01T00:00:00Z\""},
    {"12:30:45", "\"12:30:45\""},
    {"190:20:30", "\"190:20:30\""},
    {"685.230_15e+03", "685230.15"},
    {"1Gi", "\"1Gi\""},
    {"100m", "\"100m\""},
    {"10.100.0.0/16", "\"10.100.0.0/16\""},
    {"'yes'", "\"yes\""},
    {"\"1\"", "\"1\""},
    {"''", "\"\""},
    {"\"\\u00fc\\x41\"", "\"\xc3\xbc"
                         "A\""},
    {"|\n  yes\n", "\"yes\\n\""},
    {">-\n  1\n  2\n", "\"1 2\""},
    {"a\n  b", "\"a b\""},
};

static void plain_scalars_read_as_go_reads_them(void **state) {
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(plain); i++) {
        nc_auto_free char *text = nc_asprintf("a: %s", plain[i][0]);
        struct nc_values d = {0};
        if (!plain[i][1]) {
            assert_true(parse(text, strlen(text), &d, NULL) < 0);
            continue;
        }
        d = must_parse(text);
        assert_int_equal(d.n, 1);
        assert_written(nc_value_get(d.v[0], "a"), text, plain[i][1]);
        nc_values_done(&d);
    }
}

static void numbers_keep_their_text(void **state) {
    struct nc_values d = must_parse("[1.10, 1_0.5, 10]");
    char buf[32];
    (void)state;

    assert_int_equal(d.v[0]->items[0]->type, NC_VALUE_FLOAT);
    assert_string_equal(nc_value_scalar_text(d.v[0]->items[0], buf), "1.10");
    assert_string_equal(d.v[0]->items[1]->text, "1_0.5");
    assert_int_equal(d.v[0]->items[2]->type, NC_VALUE_INT);
    nc_values_done(&d);
}

static void documents_in_a_stream(void **state) {
    static const struct {
        const char *text;
        size_t n;
        const char *last;
    } rows[] = {
        {"", 0, NULL},
        {"\n\n# nothing\n", 0, NULL},
        {"---\n---\n", 0, NULL},
        {"---\na: 1\n---\n---\nb: 2\n...\n", 2, "{\"b\":2}"},
        {"a: 1\n--- \nb: 2\n---", 2, "{\"b\":2}"},
        {"~", 1, "null"},
        {"''", 1, "\"\""},
        {"%YAML 1.1\n---\na: 1\n", 1, "{\"a\":1}"},
        {"{\"a\": [1, {\"b\": null}], \"c\": \"\\u00e4\"}", 1,
         "{\"a\":[1,{\"b\":null}],\"c\":\"\xc3\xa4\"}"},
        {"\xef\xbb\xbf"
         "a: 1\n",
         1, "{\"a\":1}"},
        {"\xef\xbb\xbf"
         "a: 1\nb: 2\n",
         1, "{\"a\":1,\"b\":2}"},
        {"a: 1\r\nb: 2\r\n", 1, "{\"a\":1,\"b\":2}"},
        {"a:\n- 1\n- b: 2\n  c: [x, w]\n- - z\n", 1,
         "{\"a\":[1,{\"b\":2,\"c\":[\"x\",\"w\"]},[\"z\"]]}"},
        {"? a\n: 1\n", 1, "{\"a\":1}"},
        {"'<<': 1\n'1': 2\n\"yes\": 3\n", 1, "{\"<<\":1,\"1\":2,\"yes\":3}"},
        {"a: {}\nb: []\nc:\n", 1, "{\"a\":{},\"b\":[],\"c\":null}"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_values d = must_parse(rows[i].text);
        assert_int_equal(d.n, rows[i].n);
        if (d.n)
            assert_written(d.v[d.n - 1], rows[i].text, rows[i].last);
        nc_values_done(&d);
    }
}

static void assert_mark(struct nc_mark m, unsigned line, unsigned column) {
    assert_int_equal(m.source, 7);
    assert_int_equal(m.line, line);
    assert_int_equal(m.column, column);
}

static void marks_say_where(void **state) {
    struct nc_values d =
        must_parse("# comment\nspec:\n  \xc3\xbc: {k: v}\n  list:\n  - 1\n  - two\n---\nx: 5\n");
    const struct nc_value *spec = nc_value_get(d.v[0], "spec");
    (void)state;

    assert_mark(d.v[0]->mark, 2, 1);
    assert_mark(d.v[0]->members[0].mark, 2, 1);
    assert_mark(spec->mark, 3, 3);
    assert_mark(spec->members[0].mark, 3, 3);
    assert_mark(spec->members[0].value->mark, 3, 6); /* characters, not bytes */
    assert_mark(nc_value_get(spec->members[0].value, "k")->mark, 3, 10);
    assert_mark(nc_value_get(spec, "list")->items[1]->mark, 6, 5);
    assert_mark(nc_value_get(d.v[1], "x")->mark, 8, 4);
    nc_values_done(&d);
}

static void refused(void **state) {
    static const struct {
        const char *text;
        size_t n;
        const char *message;
    } rows[] = {
        {"a: 1\nb: *x\n", 0, "line 2, column 4: no anchor before this alias"},
        {"*x : 1\n", 0, "line 1, column 1: no anchor before this alias"},
        {"a: &x 1\n---\nb: *x\n", 0, "line 3, column 4: no anchor before this alias"},
        {"a: &x {b: [*x]}\n", 0, "line 1, column 12: anchor 'x' names a value that would hold its"},
        {"a: &x {<<: *x}\n", 0,
         "line 1, column 12: anchor 'x' names a value that would hold itself"},
        {"a: &x 5\n*x : 2\n", 0, "line 2, column 1: this key is not text, put it in quotes"},
        {"a: &x {}\n? *x\n: 2\n", 0, "line 2, column 3: this key is not text, put it in quotes"},
        {"a: !!str 1\n", 0, "line 1, column 4: tags are not supported"},
        {"a: !mine {}\n", 0, "line 1, column 4: tags are not supported"},
        {"a: ! x\n", 0, "line 1, column 4: tags are not supported"},
        {"a: !!binary aGk=\n", 0, "line 1, column 4: tags are not supported"},
        {"<<: 1\n", 0, "line 1, column 5: expected a map or a list of maps behind <<"},
        {"<<:\n", 0, "line 1, column 4: expected a map or a list of maps behind <<"},
        {"<<: [{a: 1}, []]\n", 0, "line 1, column 14: expected a map or a list of maps behind <<"},
        {"x: &x [{}]\nz: {<<: *x}\n", 0, "line 2, column 9: expected a map or a list of maps"},
        {"x: &x {a: 1}\nz: {a: 1, <<: *x, a: 2}\n", 0,
         "line 2, column 19: key 'a' stands here a second time"},
        {"a: 1\nb: 2\na: 3\n", 0,
         "line 3, column 1: key 'a' stands here a second time, first in line 1"},
        {"x:\n  k: 1\n  \"k\": 2\n", 0, "line 3, column 3: key 'k' stands here a second time"},
        {"{a: 1, b: 2, b: 3, a: 4}", 0, "line 1, column 14: key 'b' stands here a second time"},
        {"{b: 1, a: 2, a: 3, b: 4}", 0, "line 1, column 14: key 'a' stands here a second time"},
        {"1: x\n", 0, "line 1, column 1: this key is not text, put it in quotes"},
        {"a: 1\nyes: x\n", 0, "line 2, column 1: this key is not text, put it in quotes"},
        {"~: x\n", 0, "line 1, column 1: this key is not text, put it in quotes"},
        {": x\n", 0, "line 1, column 1: "},
        {"{? : x}\n", 0, "line 1, column 4: this key is not text, put it in quotes"},
        {"1.5: x\n", 0, "line 1, column 1: this key is not text, put it in quotes"},
        {"{a: 1}: x\n", 0, "line 1, column 1: this key is not text, put it in quotes"},
        {"? [a]\n: x\n", 0, "line 1, column 3: this key is not text, put it in quotes"},
        {".inf: x\n", 0, "line 1, column 1: infinity and NaN are not supported"},
        {"a: .inf\n", 0, "line 1, column 4: infinity and NaN are not supported"},
        {"a: -.INF\n", 0, "line 1, column 4: infinity and NaN are not supported"},
        {"a: +.Inf\n", 0, "line 1, column 4: infinity and NaN are not supported"},
        {"a: .NaN\n", 0, "line 1, column 4: infinity and NaN are not supported"},
        {"a: \"x\\0y\"\n", 0, "line 1, column 4: a NUL character in text"},
        {"a: x\0y\n", 7, "line 1, column "},
        {"a: \x01\n", 0, "line 1, column "},
        {"a: 1\nb: \xff\n", 0, "line "},
        {"\xff\xfe"
         "a\0:\0",
         6, "line 1, column 1: "},
        {"a: [1, 2\n", 0,
         "line 2, column 1: did not find expected ',' or ']' (while parsing a flow sequence that "
         "begins at line 1, column 4)"},
        {"a: {{ .Values.a }}\n", 0, "line 1, column 5: this looks like a template"},
        {"a:\n  {{- if .Values.a }}\n  b: 1\n  {{- end }}\n", 0,
         "line 2, column 4: this looks like a template"},
        {"a: {{ include \"b\" . | nindent 2 }}\n", 0,
         "line 1, column 5: this looks like a template"},
        {"{\n {a: 1}: x}\n", 0, "line 2, column 2: this key is not text, put it in quotes"},
        {"[settings.kubernetes]\na = \"b\"\n", 0,
         "line 2, column 1: this stands behind a document that is complete"},
        {"a: [b, , c]\n", 0, "line 1, column 8: a value is missing here"},
        {"a: ]\n", 0, "line 1, column 4: a value is missing here"},
        {"a: 1\n b: 2\n", 0, "line 2, column 3: this ':' makes a key where none can stand"},
        {"\xff\xfe"
         "a: b\n",
         0, "line 1, column 1: invalid leading UTF-8 octet (byte 0): save the text as UTF-8"},
        {"a:\n\t- b\n", 0, "line 2, column 1: a tab, where YAML is indented with spaces only"},
        {"a:\n  b: c\n\td: 1\n", 0,
         "line 3, column 1: a tab, where YAML is indented with spaces only"},
        {"a: 'x\n", 0, "line 1, column 4: this quote is not closed"},
        {"a: b: c\n", 0, "line 1, column 5: this ':' makes a key where none can stand"},
        {"a: @x\n", 0, "line 1, column 4: a value cannot begin with this character"},
        {"a: %x\n", 0, "line 1, column 4: a value cannot begin with this character"},
        {"- a\nb: 1\n", 0, "line 2, column 1: the indentation of this line does not fit (while "},
        {"a:\n  b:\n    c: 1\n   d: 2\n", 0,
         "line 4, column 4: the indentation of this line does not fit (while parsing a block "
         "mapping that begins at line 2, column 3)"},
        {"a: \"b\" c\n", 0,
         "line 1, column 8: this stands behind a value that is complete: put all of it in quotes"},
        {"a: 1\n--- b: 2\n", 0, "line 2, column "},
        {"%YAML 2.0\n---\na: 1\n", 0, "line 1, column 1: "},
        {"}", 0, "line 1, column 1: "},
        {"good: 1\n---\nbad: *x\n", 0, "line 3, column 6: no anchor before this alias"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_values d = {(void *)&rows, 99};
        struct nc_err err = NC_ERR_INIT;
        const size_t n = rows[i].n ? rows[i].n : strlen(rows[i].text);
        if (parse(rows[i].text, n, &d, &err) != -EINVAL)
            fail_msg("accepted: %s", rows[i].text);
        if (!nc_starts_with(err.msg, rows[i].message))
            fail_msg("%s: \"%s\", not \"%s\"", rows[i].text, err.msg, rows[i].message);
        assert_int_equal(err.class, NC_ERR_CONFIG);
        assert_ptr_equal(d.v, &rows);
        assert_int_equal(d.n, 99);
        assert_int_equal(parse(rows[i].text, n, &d, NULL), -EINVAL);
    }
}

/* Produced by running sigs.k8s.io/yaml v1.6.0 (YAMLToJSON). */
static void anchors_read_as_go_reads_them(void **state) {
    static const char *const rows[][2] = {
        {"a: &x 1\nb: &x {c: [2]}\nd: *x\n", "{\"a\":1,\"b\":{\"c\":[2]},\"d\":{\"c\":[2]}}"},
        {"x: &x {a: &x 1, b: *x}\nc: *x\n", "{\"x\":{\"a\":1,\"b\":1},\"c\":1}"},
        {"a: &x [1, &y 2]\nb: [*x, *y]\n", "{\"a\":[1,2],\"b\":[[1,2],2]}"},
        {"&k a: &x\nb: *x\nc: *k\n", "{\"a\":null,\"b\":null,\"c\":\"a\"}"},
        {"x: &x k\n*x : 2\n", "{\"x\":\"k\",\"k\":2}"},
        {"x: &x <<\n*x : {a: 1}\n", "{\"x\":\"<<\",\"<<\":{\"a\":1}}"},
        /* what stands last in the map wins */
        {"x: &x {a: 1, b: 1}\nz:\n  a: 2\n  <<: *x\n",
         "{\"x\":{\"a\":1,\"b\":1},\"z\":{\"a\":1,\"b\":1}}"},
        {"x: &x {a: 1, b: 1}\nz:\n  <<: *x\n  a: 2\n",
         "{\"x\":{\"a\":1,\"b\":1},\"z\":{\"b\":1,\"a\":2}}"},
        {"x: &x {a: 1}\nz: &z {a: 2, b: 2}\nw:\n  <<: *x\n  <<: *z\n",
         "{\"x\":{\"a\":1},\"z\":{\"a\":2,\"b\":2},\"w\":{\"a\":2,\"b\":2}}"},
        /* but the first of a list */
        {"x: &x {a: 1}\nz:\n  <<: [*x, {a: 2, b: 2}]\n",
         "{\"x\":{\"a\":1},\"z\":{\"b\":2,\"a\":1}}"},
        {"x: &x {a: {b: 1, c: 2}}\nz: {<<: *x, a: {b: 2}}\n",
         "{\"x\":{\"a\":{\"b\":1,\"c\":2}},\"z\":{\"a\":{\"b\":2}}}"},
        {"x: &x {a: null}\nz: {a: 1, <<: *x}\n", "{\"x\":{\"a\":null},\"z\":{\"a\":null}}"},
        {"- &x {<<: {a: 1}, b: 2}\n- {<<: *x, c: 3}\n",
         "[{\"a\":1,\"b\":2},{\"a\":1,\"b\":2,\"c\":3}]"},
        {"<<: []\n&k <<: {a: 1}\n", "{\"a\":1}"},
        /* the value that a merge overrides keeps its anchor */
        {"z:\n  <<: {a: &x [1]}\n  a: 2\n  b: *x\n", "{\"z\":{\"a\":2,\"b\":[1]}}"},
    };
    (void)state;

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_values d = must_parse(rows[i][0]);
        assert_int_equal(d.n, 1);
        assert_written(d.v[0], rows[i][0], rows[i][1]);
        nc_values_done(&d);
    }
}

static void copies_have_their_own_marks(void **state) {
    struct nc_values d = must_parse("a: &x {b: 1}\nc: *x\nd:\n  <<: *x\n");
    (void)state;

    assert_mark(nc_value_get(d.v[0], "c")->mark, 2, 4);
    assert_mark(nc_value_path(d.v[0], "c.b")->mark, 1, 11);
    assert_mark(nc_value_get(d.v[0], "d")->members[0].mark, 1, 8);
    nc_values_done(&d);
}

static void assert_refused(struct nc_buf *b, const char *message) {
    struct nc_values d = {0};
    struct nc_err err = NC_ERR_INIT;

    assert_int_equal(parse(b->data, b->len, &d, &err), -EINVAL);
    assert_string_equal(err.msg, message);
    nc_buf_clear(b);
}

static void copies_are_bounded(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    (void)state;

    /* a billion values in nine lines */
    nc_buf_puts(&b, "a0: &a0 x\n");
    for (int i = 1; i < 10; i++) {
        nc_buf_printf(&b, "a%d: &a%d [*a%d", i, i, i - 1);
        for (int n = 1; n < 10; n++)
            nc_buf_printf(&b, ",*a%d", i - 1);
        nc_buf_puts(&b, "]\n");
    }
    assert_refused(&b, "line 6, column 5: too many values");
    /* little of it, but long */
    nc_buf_puts(&b, "- &x ");
    for (int i = 0; i < 10000; i++)
        nc_buf_putc(&b, 'x');
    for (int i = 0; i < 104; i++)
        nc_buf_puts(&b, "\n- *x");
    assert_refused(&b, "line 105, column 3: aliases repeat too much text");
    /* deeper with each alias */
    nc_buf_puts(&b, "- &a0 [[[[[[[[[[]]]]]]]]]]\n");
    for (int i = 1; i < 10; i++)
        nc_buf_printf(&b, "- &a%d [[[[[[[[[[*a%d]]]]]]]]]]\n", i, i - 1);
    assert_refused(&b, "line 7, column 17: nested too deep");
    for (int i = 0; i < 257; i++)
        nc_buf_printf(&b, "- &a%d x\n", i);
    assert_refused(&b, "line 257, column 3: too many anchors");
}

static void depth_and_count_are_bounded(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    struct nc_values d = {0};
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    for (unsigned i = 0; i < NC_VALUE_MAX_DEPTH; i++)
        nc_buf_putc(&b, '[');
    for (unsigned i = 0; i < NC_VALUE_MAX_DEPTH; i++)
        nc_buf_putc(&b, ']');
    assert_int_equal(parse(b.data, b.len, &d, &err), 0);
    nc_values_done(&d);
    nc_buf_clear(&b);
    for (unsigned i = 0; i < 5000; i++)
        nc_buf_putc(&b, '{');
    assert_int_equal(parse(b.data, b.len, &d, &err), -EINVAL);
    nc_buf_clear(&b);
    for (unsigned i = 0; i <= NC_VALUE_MAX_DEPTH; i++)
        nc_buf_puts(&b, "- ");
    nc_buf_puts(&b, "x\n");
    assert_int_equal(parse(b.data, b.len, &d, &err), -EINVAL);
    assert_string_equal(err.msg, "line 1, column 129: nested too deep");

    nc_buf_clear(&b);
    nc_buf_putc(&b, '[');
    for (unsigned i = 0; i < NC_VALUE_MAX_NODES; i++)
        nc_buf_puts(&b, i % 50 ? "0," : "0,\n");
    nc_buf_putc(&b, ']');
    assert_int_equal(parse(b.data, b.len, &d, &err), -EINVAL);
    assert_non_null(strstr(err.msg, "too many values"));
    nc_buf_done(&b);
}

static void many_keys_are_cheap(void **state) {
    struct nc_buf b = NC_BUF_INIT;
    (void)state;

    for (int i = 0; i < 50000; i++)
        nc_buf_printf(&b, "k%d: 0\n", i);
    struct nc_values d = must_parse(b.data);
    assert_int_equal(d.v[0]->n, 50000);
    nc_values_done(&d);
    nc_buf_done(&b);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_scalars_read_as_go_reads_them),
        cmocka_unit_test(numbers_keep_their_text),
        cmocka_unit_test(documents_in_a_stream),
        cmocka_unit_test(marks_say_where),
        cmocka_unit_test(refused),
        cmocka_unit_test(anchors_read_as_go_reads_them),
        cmocka_unit_test(copies_have_their_own_marks),
        cmocka_unit_test(copies_are_bounded),
        cmocka_unit_test(depth_and_count_are_bounded),
        cmocka_unit_test(many_keys_are_cheap),
    };
    return run_group(tests, NULL, NULL);
}
