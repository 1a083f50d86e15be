/*
 * The reader of EC2's XML: what it reports, and that all else is refused with the place.
 */
#include <stdio.h>

#include "groups.h"
#include "nc/str.h"
#include "xml.h"

/* One line an element that ends: "PATH=TEXT". */
static int add_line(void *user, const struct nc_xml *element, struct nc_err *err) {
    (void)err;
    nc_buf_printf(user, "%s=%s\n", element->path, element->text);
    return 0;
}

static int trace(const char *data, size_t n, struct nc_buf *out, struct nc_err *err) {
    return nc_xml_read(data, n, add_line, out, err);
}

static void test_elements(void **state) {
    static const struct {
        const char *xml, *trace;
    } cases[] = {
        {"<a/>", "a=\n"},
        {"<a>x</a>", "a=x\n"},
        {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- c --><a xmlns=\"http://x/\" b='1'>\n "
         "<b>1</b>\n <c/>\n</a>\n",
         "a/b=1\na/c=\na=\n\n"},
        {"<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xe9;&#x20ac;&#x1F600;</a>",
         "a=<>&\"'AB\303\251\342\202\254\360\237\230\200\n"},
        {"<a><![CDATA[<b>&]]></a>", "a=<b>&\n"},
        {"<a><!-- - > --><b></b ></a >", "a/b=\na=\n"},
        {"<a:b-c.d_1/>", "a:b-c.d_1=\n"},
        {"<a b=\">\" c='\"'/>", "a=\n"},
        {"<a>x<b>y</b><b>z</b>w</a>", "a/b=y\na/b=z\na=w\n"},
    };
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        struct nc_buf out = NC_BUF_INIT;
        struct nc_err err = NC_ERR_INIT;
        if (trace(cases[k].xml, strlen(cases[k].xml), &out, &err) < 0)
            fail_msg("case %zu: %s", k, err.msg);
        assert_string_equal(out.data, cases[k].trace);
        nc_buf_done(&out);
    }
}

static void test_refused(void **state) {
    static const struct {
        const char *xml, *msg;
    } cases[] = {
        {"", "byte 0: no element found"},
        {"  ", "byte 2: no element found"},
        {"x", "byte 0: syntax error"},
        {"<a>", "byte 3: no element found"},
        {"<a></b>", "byte 5: mismatched tag"},
        {"<a></ab>", "mismatched tag"},
        {"</a>", "not well-formed"},
        {"<a></a", "unclosed token"},
        {"<a/><b/>", "junk after document element"},
        {"<a/>x", "junk after document element"},
        {"<a/>&lt;", "not well-formed"},
        {"<>", "not well-formed"},
        {"<1>", "not well-formed"},
        {"<a", "unclosed token"},
        {"<a /", "unclosed token"},
        {"<a b>", "not well-formed"},
        {"<a b=c>", "not well-formed"},
        {"<a b=\"c>", "unclosed token"},
        {"<a b=\"c\"d=\"e\">", "not well-formed"},
        {"<a =\"c\">", "not well-formed"},
        {"<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", ": a document type"},
        {"<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>", ": a document type"},
        {"<a>&b;</a>", "undefined entity"},
        {"<a>&;</a>", "not well-formed"},
        {"<a>& </a>", "not well-formed"},
        {"<a>&amplified;</a>", "undefined entity"},
        {"<a>&amplification;</a>", "undefined entity"},
        {"<a>&#0;</a>", "reference to invalid character number"},
        {"<a>&#xd800;</a>", "reference to invalid character number"},
        {"<a>&#x110000;</a>", "reference to invalid character number"},
        {"<a>&#;</a>", "not well-formed"},
        {"<a>&#x;</a>", "not well-formed"},
        {"<a>&#6a;</a>", "not well-formed"},
        {"<a>\377</a>", "not well-formed"},
        {"<a>\001</a>", "not well-formed"},
        {"<a><![CDATA[x</a>", "unclosed CDATA section"},
        {"<![CDATA[x]]><a/>", "syntax error"},
        {"<a><![CDATA[\001]]></a>", "not well-formed"},
        {"<!-- <a/>", "unclosed token"},
        {"<?xml version=\"1.0\"", "unclosed token"},
        {"<a/><?xml version=\"1.0\"?>", "junk after document element"},
        {"<?xml version=\"1.0\" encoding=\"UTF-16\"?><b></a>", "mismatched tag"},
    };
    (void)state;

    for (size_t k = 0; k < NC_ARRAY_SIZE(cases); k++) {
        struct nc_buf out = NC_BUF_INIT;
        struct nc_err err = NC_ERR_INIT;
        const int r = trace(cases[k].xml, strlen(cases[k].xml), &out, &err);
        if (r >= 0 || err.class != NC_ERR_PROTOCOL || !strstr(err.msg, cases[k].msg))
            fail_msg("case %zu: %s: %d %s", k, cases[k].xml, r, err.msg);
        nc_buf_done(&out);
    }
}

static int refuse_b(void *user, const struct nc_xml *element, struct nc_err *err) {
    ++*(int *)user;
    return nc_streq(element->path, "a/b") ? nc_err_set(err, NC_ERR_CONFIG, 1, "b") : 0;
}

static void test_caller_stops(void **state) {
    static const char xml[] = "<a><x/><b/><y/></a>";
    struct nc_err err = NC_ERR_INIT;
    int n = 0;
    (void)state;

    assert_true(nc_xml_read(xml, sizeof(xml) - 1, refuse_b, &n, &err) < 0);
    assert_int_equal(n, 2);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_string_equal(err.msg, "b");
}

static void repeat(struct nc_buf *b, const char *s, size_t n) {
    for (size_t k = 0; k < n; k++)
        nc_buf_puts(b, s);
}

static void test_caps(void **state) {
    struct nc_buf xml = NC_BUF_INIT, out = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    (void)state;

    repeat(&xml, "<a>", NC_XML_MAX_DEPTH);
    repeat(&xml, "</a>", NC_XML_MAX_DEPTH);
    assert_int_equal(trace(xml.data, xml.len, &out, &err), 0);
    nc_buf_clear(&xml);
    repeat(&xml, "<a>", NC_XML_MAX_DEPTH + 1);
    assert_true(trace(xml.data, xml.len, &out, &err) < 0);
    assert_non_null(strstr(err.msg, "nested too deeply"));
    nc_buf_clear(&xml);
    nc_buf_puts(&xml, "<");
    repeat(&xml, "a", NC_XML_MAX_NAME + 1);
    nc_buf_puts(&xml, "/>");
    assert_true(trace(xml.data, xml.len, &out, &err) < 0);
    assert_non_null(strstr(err.msg, "too long"));
    nc_buf_clear(&xml);
    nc_buf_puts(&xml, "<a>");
    repeat(&xml, "x", NC_XML_MAX_TEXT + 1);
    nc_buf_puts(&xml, "</a>");
    assert_true(trace(xml.data, xml.len, &out, &err) < 0);
    assert_non_null(strstr(err.msg, "too much text"));
    nc_buf_done(&xml);
    nc_buf_done(&out);
}

/* A document cut anywhere is refused, never read beyond. */
static void test_every_cut(void **state) {
    static const char whole[] =
        "<?xml version=\"1.0\"?><a b=\"1\"><!-- x --><c>&#65;t</c><![CDATA[y]]></a>";
    (void)state;

    for (size_t n = 0; n < sizeof(whole) - 1; n++) {
        nc_auto_free char *part = nc_malloc(n);
        struct nc_buf out = NC_BUF_INIT;
        memcpy(part, whole, n);
        assert_true(trace(part, n, &out, NULL) < 0);
        nc_buf_done(&out);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elements),     cmocka_unit_test(test_refused),
        cmocka_unit_test(test_caller_stops), cmocka_unit_test(test_caps),
        cmocka_unit_test(test_every_cut),
    };

    return run_group(tests, NULL, NULL);
}
