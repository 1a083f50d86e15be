/*
 * The reader of EC2's XML: what it reports, and that all else is refused with the place.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "nc/str.h"
#include "xml.h"

/* One line an event: "(PATH" and ")PATH=TEXT". */
static int trace(const char *data, size_t n, struct nc_buf *out, struct nc_err *err) {
    struct nc_xml x;
    int k;

    nc_xml_init(&x, data, n);
    while ((k = nc_xml_next(&x, err)) > 0 && k != NC_XML_END) {
        if (k == NC_XML_OPEN)
            nc_buf_printf(out, "(%s\n", x.path.data);
        else
            nc_buf_printf(out, ")%s=%s\n", x.path.data, x.text.data ? x.text.data : "");
    }
    nc_xml_done(&x);
    return k < 0 ? k : 0;
}

static void test_events(void **state) {
    static const struct {
        const char *xml, *trace;
    } cases[] = {
        {"<a/>", "(a\n)a=\n"},
        {"<a>x</a>", "(a\n)a=x\n"},
        {"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- c --><a xmlns=\"http://x/\" b='1'>\n "
         "<b>1</b>\n <c/>\n</a>\n",
         "(a\n(a/b\n)a/b=1\n(a/c\n)a/c=\n)a=\n\n"},
        {"<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#xe9;&#x20ac;&#x1F600;</a>",
         "(a\n)a=<>&\"'AB\303\251\342\202\254\360\237\230\200\n"},
        {"<a><![CDATA[<b>&]]></a>", "(a\n)a=<b>&\n"},
        {"<a><!-- - > --><b></b ></a >", "(a\n(a/b\n)a/b=\n)a=\n"},
        {"<a:b-c.d_1/>", "(a:b-c.d_1\n)a:b-c.d_1=\n"},
        {"<a b=\">\" c='\"'/>", "(a\n)a=\n"},
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
        {"", "byte 0: no element"},
        {"  ", "byte 2: no element"},
        {"x", "text outside"},
        {"<a>", "byte 3: the document ends too early"},
        {"<a></b>", "byte 5: an end tag that does not fit"},
        {"<a></ab>", "an end tag that does not fit"},
        {"</a>", "an end tag that does not fit"},
        {"<a></a", "an end tag that does not end"},
        {"<a/><b/>", "a second root"},
        {"<a/>x", "text outside"},
        {"<a/>&lt;", "text outside"},
        {"<>", "a tag without a usable name"},
        {"<1>", "a tag without a usable name"},
        {"<a", "a tag that does not end"},
        {"<a /", "a tag that does not end"},
        {"<a b>", "an attribute without"},
        {"<a b=c>", "an attribute without"},
        {"<a b=\"c>", "an attribute that does not end"},
        {"<a b=\"c\"d=\"e\">", "a malformed tag"},
        {"<a =\"c\">", "a malformed tag"},
        {"<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>", "a tag without a usable name"},
        {"<a>&b;</a>", "an unknown reference"},
        {"<a>&;</a>", "an unknown reference"},
        {"<a>& </a>", "an & without"},
        {"<a>&amplified;</a>", "an unknown reference"},
        {"<a>&amplification;</a>", "an & without"},
        {"<a>&#0;</a>", "an unknown reference"},
        {"<a>&#xd800;</a>", "an unknown reference"},
        {"<a>&#x110000;</a>", "an unknown reference"},
        {"<a>&#;</a>", "an unknown reference"},
        {"<a>&#x;</a>", "an unknown reference"},
        {"<a>&#6a;</a>", "an unknown reference"},
        {"<a>\377</a>", "no UTF-8"},
        {"<a>\001</a>", "no UTF-8"},
        {"<a><![CDATA[x</a>", "a CDATA section without"},
        {"<![CDATA[x]]><a/>", "a CDATA section without"},
        {"<a><![CDATA[\001]]></a>", "no UTF-8"},
        {"<!-- <a/>", "a comment that does not end"},
        {"<?xml version=\"1.0\"", "a declaration that does not end"},
        {"<a/><?xml version=\"1.0\"?>", "a tag without"},
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_every_cut),
    };

    return cmocka_run_group_tests_name("xml", tests, NULL, NULL);
}
