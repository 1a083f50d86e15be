/*
 * MIME framing: headers, boundaries, transfer encodings.
 */
#include <errno.h>

#include "documents-test.h"
#include "groups.h"
#include "mime.h"

static const struct {
    const char *name;
    const char *data;
    bool strict;
    int r;
    bool is_mime;
    bool is_open;
    const char *type;
    const char *boundary;
    const char *encoding;
    const char *body;
    unsigned lines;
} header_rows[] = {
    {"Karpenter's", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//",
     false, 0, true, false, "multipart/mixed", "//", "", "--//", 3},
    {"CRLF", "MIME-Version: 1.0\r\nContent-Type: text/plain\r\n\r\nx", false, 0, true, false,
     "text/plain", NULL, "", "x", 3},
    {"names and types in any case", "cOnTeNt-TyPe: Application/Node.EKS.AWS\n\n", false, 0, true,
     false, "application/node.eks.aws", NULL, "", "", 2},
    {"parameters before the boundary",
     "Content-Type: multipart/mixed; charset=utf-8; BOUNDARY=abc\n\n", false, 0, true, false,
     "multipart/mixed", "abc", "", "", 2},
    {"quoted boundary with escapes and a semicolon",
     "Content-Type: multipart/mixed; boundary=\"a\\\"b;c\"\n\n", false, 0, true, false,
     "multipart/mixed", "a\"b;c", "", "", 2},
    {"unquoted boundary that ought to be quoted", "Content-Type: multipart/mixed; boundary=//\n\n",
     false, 0, true, false, "multipart/mixed", "//", "", "", 2},
    {"parameter without a value", "Content-Type: multipart/mixed; x; boundary=b\n\n", false, 0,
     true, false, "multipart/mixed", "b", "", "", 2},
    {"quoted parameter that never ends", "Content-Type: multipart/mixed; boundary=\"b\n\n", false,
     0, true, false, "multipart/mixed", "b", "", "", 2},
    {"folded header",
     "Content-Type: multipart/mixed;\n boundary=\"b\"\n\tx=y\nMIME-Version: 1.0\n\nz", false, 0,
     true, false, "multipart/mixed", "b", "", "z", 5},
    {"first of several counts", "Content-Type: a/b\nContent-Type: c/d\n\n", false, 0, true, false,
     "a/b", NULL, "", "", 3},
    {"encoding", "Content-Type: a/b\nContent-Transfer-Encoding: BASE64 \n\n", true, 0, true, false,
     "a/b", NULL, "base64", "", 3},
    {"other headers only", "Subject: x\n\nbody", false, 0, false, false, "", NULL, "", "body", 2},
    {"YAML looks like a header, and is none", "apiVersion: v1\nspec:\n- x\n", false, 0, false, true,
     "", NULL, "", "", 3},
    {"name of any printable characters", "X=(1): y\nContent-Type: a/b\n\nbody", false, 0, true,
     false, "a/b", NULL, "", "body", 3},
    {"script", "#!/bin/sh\necho: x\n", false, 0, false, true, "", NULL, "", "", 1},
    {"empty", "", false, 0, false, true, "", NULL, "", "", 0},
    {"no empty line", "Content-Type: a/b\n", false, 0, true, true, "a/b", NULL, "", "", 1},
    {"line that is no header", "MIME-Version: 1.0\nnonsense\n\n", false, -EBADMSG, 0, 0, 0, 0, 0, 0,
     0},
    {"the same in a part", "nonsense\n\n", true, -EBADMSG, 0, 0, 0, 0, 0, 0, 0},
    {"media type without a slash", "Content-Type: yaml\n\n", false, -EBADMSG, 0, 0, 0, 0, 0, 0, 0},
    {"media type that begins with its slash", "Content-Type: /x\n\n", false, -EBADMSG, 0, 0, 0, 0,
     0, 0, 0},
    {"media type with control characters", "Content-Type: a/\001\n\n", false, -EBADMSG, 0, 0, 0, 0,
     0, 0, 0},
};

static void headers(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(header_rows); i++) {
        nc_cleanup(nc_mime_header_done) struct nc_mime_header h = NC_MIME_HEADER_INIT;
        struct nc_err err = NC_ERR_INIT;
        const char *data = header_rows[i].data;
        int r = nc_mime_header_parse(nc_text(data), header_rows[i].strict, &h, &err);

        print_message("# %s\n", header_rows[i].name);
        assert_int_equal(r, header_rows[i].r);
        if (r < 0) {
            assert_int_equal(err.class, NC_ERR_CONFIG);
            assert_true(nc_starts_with(err.msg, "line "));
            continue;
        }
        assert_int_equal(h.is_mime, header_rows[i].is_mime);
        assert_int_equal(h.is_open, header_rows[i].is_open);
        assert_string_equal(h.type, header_rows[i].type);
        assert_true(nc_streq(h.boundary, header_rows[i].boundary));
        assert_string_equal(h.encoding, header_rows[i].encoding);
        assert_string_equal(data + h.body, header_rows[i].body);
        assert_int_equal(h.lines, header_rows[i].lines);
    }
}

static void header_with_nul(void **state) {
    nc_cleanup(nc_mime_header_done) struct nc_mime_header h = NC_MIME_HEADER_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_mime_header_parse((struct nc_text){"Content-Type: a/b\0c\n\n", 21, 7, 0},
                                          false, &h, &err),
                     0);
    assert_false(h.is_mime);
}

/* Parts joined by '|', each with its line: "1:a|4:b". */
static const struct {
    const char *name;
    const char *boundary;
    const char *data;
    const char *parts;
    const char *error; /* NULL: none */
} part_rows[] = {
    {"two parts", "b", "--b\none\n--b\ntwo\n--b--\n", "2:one|4:two", NULL},
    {"CRLF", "b", "--b\r\none\r\n--b\r\ntwo\r\n--b--\r\n", "2:one|4:two", NULL},
    {"preamble and epilogue", "b", "hello\n--b\none\n--b--\nbye\n--b\nnot a part\n", "3:one", NULL},
    {"slashes", "//", "--//\none\n--//--", "2:one", NULL},
    {"empty part", "b", "--b\n--b\n\n--b--", "2:|3:", NULL},
    {"white space behind a delimiter", "b", "--b \t\none\n--b-- \n", "2:one", NULL},
    {"longer boundaries are text", "b", "--b\n--bc\n--b--\n", "2:--bc", NULL},
    {"body keeps its own line ends", "b", "--b\none\n\n\n--b--\n", "2:one\n\n", NULL},
    {"no parts", "b", "--b--\n", "", NULL},
    {"a last delimiter without its dashes", "b", "--b\none\n--b\n \n", "2:one", NULL},
    {"cut inside a part", "b", "--b\none\n--b\ntw", "2:one",
     "cut off in part 2, which begins at line 4"},
    {"cut inside the first part", "b", "--b\n", "", "cut off in part 1"},
    {"cut inside a delimiter", "bb", "--bb\none\n--b", "", "cut off in part 1"},
    {"no delimiter", "b", "one\ntwo\n", "", "no line begins a part of boundary 'b'"},
    {"nothing", "b", "", "", "no line begins a part"},
    {"no parts, after blank lines", "b", "\n \n--b--\n", "", NULL},
    {"the first delimiter is damaged, the last is not", "b", "-b\none\n--b--\n", "",
     "cut off or damaged: text stands before the closing line of boundary 'b'"},
};

static void parts(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(part_rows); i++) {
        struct nc_mime_cursor c = {.text = nc_text(part_rows[i].data),
                                   .boundary = part_rows[i].boundary};
        nc_cleanup(nc_buf_done) struct nc_buf seen = NC_BUF_INIT;
        struct nc_err err = NC_ERR_INIT;
        struct nc_text part = {0};
        int r = 0;

        print_message("# %s\n", part_rows[i].name);
        while ((r = nc_mime_next(&c, &part, &err)) > 0)
            assert_int_equal(nc_buf_printf(&seen, "%s%u:%.*s", seen.len ? "|" : "", part.line,
                                           (int)part.n, part.data),
                             0);
        assert_string_equal(seen.data ? seen.data : "", part_rows[i].parts);
        if (part_rows[i].error) {
            assert_int_equal(r, -EBADMSG);
            assert_non_null(strstr(err.msg, part_rows[i].error));
        } else {
            assert_int_equal(r, 0);
            assert_int_equal(nc_mime_next(&c, &part, &err), 0);
        }
    }
}

static const struct {
    const char *encoding;
    const char *data;
    int r;
    const char *decoded;
} transfer_rows[] = {
    {"", "a=b", 0, "a=b"},
    {"7bit", "a", 0, "a"},
    {"8bit", "\xc3\xa4", 0, "\xc3\xa4"},
    {"binary", "a\r\n", 0, "a\r\n"},
    {"base64", "aGVs\nbG8=\n", 0, "hello"},
    {"base64", "a!", -EINVAL, NULL},
    {"quoted-printable", "a=3Db=\nc \nd=C3=a4\n", 0, "a=bc\nd\xc3\xa4\n"},
    {"quoted-printable", "a=\r\nb\r\nc \r\n", 0, "ab\r\nc\r\n"},
    {"quoted-printable", "a=3", -EINVAL, NULL},
    {"quoted-printable", "a=zz", -EINVAL, NULL},
    {"x-uuencode", "a", -ENOTSUP, NULL},
};

static void transfer(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(transfer_rows); i++) {
        nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
        const char *data = transfer_rows[i].data;

        print_message("# row %zu: %s\n", i, transfer_rows[i].encoding);
        assert_int_equal(
            nc_mime_transfer_decode(transfer_rows[i].encoding, data, strlen(data), &out),
            transfer_rows[i].r);
        if (transfer_rows[i].r == 0)
            assert_string_equal(out.data, transfer_rows[i].decoded);
    }
}

static void transfer_is_capped(void **state) {
    static const char *const encodings[] = {"7bit", "base64", "quoted-printable"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(encodings); i++) {
        nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT_MAX(2);

        assert_int_equal(nc_mime_transfer_decode(encodings[i], "aGVsbG8=", 8, &out), -EFBIG);
    }
    nc_cleanup(nc_buf_done) struct nc_buf lines = NC_BUF_INIT_MAX(1);
    assert_int_equal(nc_mime_transfer_decode("quoted-printable", "a\nb", 3, &lines), -EFBIG);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(headers),  cmocka_unit_test(header_with_nul),    cmocka_unit_test(parts),
        cmocka_unit_test(transfer), cmocka_unit_test(transfer_is_capped),
    };

    return run_group(tests, NULL, NULL);
}
