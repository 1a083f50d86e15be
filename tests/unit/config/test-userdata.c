/*
 * User data: every nesting of base64, gzip and MIME, and every way in which it can be broken.
 */
#include <errno.h>

#include "documents-test.h"
#include "groups.h"

#include <zlib.h>

#include "mime.h"
#include "nc/encode.h"

#define OURS "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
#define HEAD "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n"
#define SHELL "--//\nContent-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/sh\necho hi\n"
#define PART(headers, body) "--//\nContent-Type: application/node.eks.aws\n" headers "\n" body "\n"
#define KARPENTER HEAD SHELL PART("", OURS) "--//--\n"

static void gzip(const char *data, size_t n, struct nc_buf *out) {
    z_stream z = {0};
    char room[4096];

    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)n;
    do {
        z.next_out = (Bytef *)room;
        z.avail_out = sizeof(room);
        assert_true(deflate(&z, Z_FINISH) >= 0);
        assert_int_equal(nc_buf_add(out, room, sizeof(room) - z.avail_out), 0);
    } while (z.avail_out == 0);
    deflateEnd(&z);
}

/* "name|type|line|bytes of data" a line. */
static char *decoded(const char *data, size_t n, struct nc_err *err) {
    nc_cleanup(nc_userdata_done) struct nc_userdata u = NC_USERDATA_INIT;
    struct nc_buf b = NC_BUF_INIT;
    int r = nc_userdata_decode(data, n, &u, err);

    if (r < 0) {
        assert_int_equal(u.n, 0);
        assert_int_equal(err->class, NC_ERR_CONFIG);
        assert_true(err->remedy[0] != '\0');
        return NULL;
    }
    for (size_t i = 0; i < u.n; i++) {
        const struct nc_userdata_part *p = &u.parts[i];

        assert_int_equal(p->data[p->n], 0);
        assert_int_equal(nc_buf_printf(&b, "%s|%s|%u|%.20s%s\n", p->name, p->content_type, p->line,
                                       p->data, nc_userdata_part_is_ours(p) ? "|ours" : ""),
                         0);
    }
    return nc_buf_steal(&b);
}

#define OURS_START "apiVersion: node.eks"
#define BOTH_PARTS                                                                                 \
    "part 1 (text/x-shellscript)|text/x-shellscript|7|#!/bin/sh\necho hi\n"                        \
    "part 2 (application/node.eks.aws)|application/node.eks.aws|12|" OURS_START "|ours\n"

static const struct {
    const char *name;
    const char *data;
    const char *parts; /* NULL: refused */
    const char *error;
} rows[] = {
    {"nothing", "", "", NULL},
    {"plain", OURS, "||1|" OURS_START "|ours\n", NULL},
    {"Karpenter's", KARPENTER, BOTH_PARTS, NULL},
    {"empty lines before the header", "\n\r\n" KARPENTER,
     "part 1 (text/x-shellscript)|text/x-shellscript|9|#!/bin/sh\necho hi\n"
     "part 2 (application/node.eks.aws)|application/node.eks.aws|14|" OURS_START "|ours\n",
     NULL},
    {"a message of one part", "Content-Type: application/node.eks.aws\n\n" OURS,
     "part 1 (application/node.eks.aws)|application/node.eks.aws|3|" OURS_START "|ours\n", NULL},
    {"MIME-Version alone", "MIME-Version: 1.0\n\nx", "part 1 (text/plain)|text/plain|3|x\n", NULL},
    {"our other type", "Content-Type: application/vnd.nodeclaimd+yaml\n\nx",
     "part 1 (application/vnd.nodeclaimd+yaml)|application/vnd.nodeclaimd+yaml|3|x|ours\n", NULL},
    {"part without a header", HEAD "--//\n\nx\n--//--", "part 1 (text/plain)|text/plain|6|x\n",
     NULL},
    {"empty part", HEAD "--//\n--//--", "part 1 (text/plain)|text/plain|5|\n", NULL},
    {"nested",
     HEAD SHELL "--//\nContent-Type: multipart/mixed; boundary=in\n\n--in\nContent-Type: "
                "application/node.eks.aws\n\n" OURS "--in--\n--//--",
     "part 1 (text/x-shellscript)|text/x-shellscript|7|#!/bin/sh\necho hi\n"
     "part 2.1 (application/node.eks.aws)|application/node.eks.aws|15|" OURS_START "|ours\n",
     NULL},
    {"base64 part",
     HEAD PART("Content-Transfer-Encoding: base64\n", "YXBpVmVyc2lvbjogbm9kZS5la3MK") "--//--",
     "part 1 (application/node.eks.aws)|application/node.eks.aws|1|apiVersion: node.eks|ours\n",
     NULL},
    {"base64 part that does not say so", HEAD PART("", "YXBpVmVyc2lvbjogbm9kZS5la3MK") "--//--",
     "part 1 (application/node.eks.aws)|application/node.eks.aws|1|apiVersion: node.eks|ours\n",
     NULL},
    {"quoted-printable part",
     HEAD PART("Content-Transfer-Encoding: quoted-printable\n", "api=\nVersion: a") "--//--",
     "part 1 (application/node.eks.aws)|application/node.eks.aws|1|apiVersion: a|ours\n", NULL},
    {"a multipart that says quoted-printable is read as it stands",
     "Content-Transfer-Encoding: quoted-printable\n" HEAD PART("", "a=3D") "--//--",
     "part 1 (application/node.eks.aws)|application/node.eks.aws|8|a=3D|ours\n", NULL},
    {"7bit part keeps its lines",
     HEAD PART("Content-Transfer-Encoding: 7bit\n", "apiVersion: a") "--//--",
     "part 1 (application/node.eks.aws)|application/node.eks.aws|8|apiVersion: a|ours\n", NULL},
    {"a byte order mark before MIME", "\xef\xbb\xbf" KARPENTER, BOTH_PARTS, NULL},
    {"a byte order mark before a document", "\xef\xbb\xbf" OURS, "||1|" OURS_START "|ours\n", NULL},
    {"short word that is no base64", "hello", "||1|hello\n", NULL},
    {"foreign part of a foreign encoding",
     HEAD "--//\nContent-Type: a/b\nContent-Transfer-Encoding: x\n\nx\n--//--",
     "part 1 (a/b)|a/b|8|x\n", NULL},

    {"cut in a part", HEAD SHELL PART("", OURS), NULL, "cut off in part 2"},
    {"cut in its header", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=b\n", NULL,
     "cut off inside its header"},
    {"cut before the first part", HEAD, NULL, "cut off or damaged"},
    {"cut base64", "YXBpVmVyc2lvbjogbm9kZS5la3MuYXdzL3YxYWxwaGExCmtpbmQ6IE5vZGVDb25maWcKc3BlYzo",
     NULL, "looks like base64, but is cut off or damaged after 75 characters"},
    {"header without an empty line", HEAD "--//\nContent-Type: application/node.eks.aws\n--//--",
     NULL, "part 1: line 5: no empty line ends its header"},
    {"body at once after the header",
     HEAD "--//\nContent-Type: application/node.eks.aws\nspec:\n- x\n--//--", NULL,
     "part 1: line 7 is not a MIME header line"},
    {"no boundary", "Content-Type: multipart/mixed\n\n--x\n", NULL,
     "multipart/mixed without a usable boundary"},
    {"encoding of nobody", HEAD PART("Content-Transfer-Encoding: uu\n", "x") "--//--", NULL,
     "part 1: Content-Transfer-Encoding 'uu' is not known"},
    {"part that is not what it says",
     HEAD PART("Content-Transfer-Encoding: base64\n", "a:b") "--//--", NULL,
     "part 1: its body is not valid 'base64'"},
    {"broken media type", HEAD "--//\nContent-Type: x\n\nx\n--//--", NULL,
     "part 1: line 5: Content-Type: 'x' is not a media type"},
    {"cut gzip", "\x1f\x8b\x08", NULL, ""},
};

static void decode(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_err err = NC_ERR_INIT;
        nc_auto_free char *parts = decoded(rows[i].data, strlen(rows[i].data), &err);

        print_message("# %s\n", rows[i].name);
        if (rows[i].parts) {
            assert_non_null(parts);
            assert_string_equal(parts, rows[i].parts);
        } else {
            assert_null(parts);
            if (!strstr(err.msg, rows[i].error))
                fail_msg("%s", err.msg);
        }
    }
}

/* A document wrapped in any order is still that document. */
static void wrapped(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf zipped = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf both = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf encoded = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf twice = NC_BUF_INIT;
    const struct nc_buf *all[] = {&zipped, &both, &encoded, &twice};

    (void)state;
    gzip(KARPENTER, strlen(KARPENTER), &zipped);
    nc_base64_encode(zipped.data, zipped.len, &both);
    nc_base64_encode(KARPENTER, strlen(KARPENTER), &encoded);
    assert_int_equal(nc_buf_putc(&encoded, '\n'), 0);
    nc_base64_encode(encoded.data, encoded.len, &twice);
    for (size_t i = 0; i < NC_ARRAY_SIZE(all); i++) {
        struct nc_err err = NC_ERR_INIT;
        nc_auto_free char *parts = decoded(all[i]->data, all[i]->len, &err);

        assert_non_null(parts);
        assert_string_equal(parts, BOTH_PARTS);
    }
}

static void gzip_part(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf zipped = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    (void)state;
    gzip(OURS, strlen(OURS), &zipped);
    for (int is_base64 = 0; is_base64 < 2; is_base64++) {
        struct nc_err err = NC_ERR_INIT;
        nc_auto_free char *parts = NULL;

        nc_buf_clear(&text);
        assert_int_equal(
            nc_buf_puts(&text, HEAD "--//\nContent-Type: application/node.eks.aws\n\n"), 0);
        if (is_base64)
            nc_base64_encode(zipped.data, zipped.len, &text);
        else
            assert_int_equal(nc_buf_add(&text, zipped.data, zipped.len), 0);
        assert_int_equal(nc_buf_puts(&text, "\n--//--\n"), 0);
        parts = decoded(text.data, text.len, &err);
        assert_non_null(parts);
        assert_string_equal(
            parts,
            "part 1 (application/node.eks.aws)|application/node.eks.aws|1|" OURS_START "|ours\n");
    }
}

static void sizes(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf bomb = NC_BUF_INIT;
    nc_auto_free char *zeros = nc_calloc(1, 2 * NC_USERDATA_MAX_INFLATED);
    nc_auto_free char *spaces = nc_malloc(NC_USERDATA_MAX_RAW + 1);
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *most = NULL;

    (void)state;
    memset(spaces, ' ', NC_USERDATA_MAX_RAW + 1);
    most = decoded(spaces, NC_USERDATA_MAX_RAW, &err);
    assert_non_null(most);
    assert_null(decoded(spaces, NC_USERDATA_MAX_RAW + 1, &err));
    assert_string_equal(err.msg, "16385 bytes of user data, EC2 allows 16384");
    gzip(zeros, 2 * NC_USERDATA_MAX_INFLATED, &bomb);
    assert_true(bomb.len < NC_USERDATA_MAX_RAW);
    assert_null(decoded(bomb.data, bomb.len, &err));
}

/* Two parts that are allowed alone can be too much together. */
static void bombs_share_a_budget(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf zipped = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT_MAX(NC_USERDATA_MAX_RAW);
    size_t n = NC_USERDATA_MAX_INFLATED / 2 + 1;
    nc_auto_free char *zeros = nc_calloc(1, n);
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    gzip(zeros, n, &zipped);
    assert_int_equal(nc_buf_puts(&text, HEAD), 0);
    for (int i = 0; i < 2; i++) {
        nc_auto_free char *one = NULL;

        assert_int_equal(nc_buf_puts(&text, "--//\nContent-Type: application/node.eks.aws\n\n"), 0);
        nc_base64_encode(zipped.data, zipped.len, &text);
        assert_int_equal(nc_buf_puts(&text, "\n"), 0);
        if (i == 0) {
            one = nc_asprintf("%s--//--", text.data);

            nc_auto_free char *parts = decoded(one, strlen(one), &err);
            assert_non_null(parts);
        }
    }
    assert_int_equal(nc_buf_puts(&text, "--//--"), 0);
    assert_null(decoded(text.data, text.len, &err));
    assert_true(nc_starts_with(err.msg, "part 2: "));
}

static void too_many_parts(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_buf_puts(&text, HEAD), 0);
    for (int i = 0; i < NC_USERDATA_MAX_PARTS; i++)
        assert_int_equal(nc_buf_puts(&text, "--//\n\nx\n"), 0);

    nc_auto_free char *full = nc_asprintf("%s--//--", text.data);
    nc_auto_free char *parts = decoded(full, strlen(full), &err);
    nc_auto_free char *more = nc_asprintf("%s--//\n\nx\n--//--", text.data);

    assert_non_null(parts);
    assert_null(decoded(more, strlen(more), &err));
    assert_non_null(strstr(err.msg, "more than 64 parts"));
}

static void too_deep(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    for (int i = 0; i < 12; i++)
        assert_int_equal(nc_buf_printf(&text,
                                       "Content-Type: multipart/mixed; boundary=b%02d\n\n--b%02d\n",
                                       i, i),
                         0);
    assert_int_equal(nc_buf_puts(&text, "\nx\n"), 0);
    for (int i = 11; i >= 0; i--)
        assert_int_equal(nc_buf_printf(&text, "--b%02d--\n", i), 0);
    assert_null(decoded(text.data, text.len, &err));
    assert_non_null(strstr(err.msg, "multipart within multipart more than 8 deep"));
}

/* base64 of base64 of …: an end is found, whatever it holds. */
static void wrapped_too_often(void **state) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_buf_puts(&text, OURS), 0);
    for (int i = 0; i < 12; i++) {
        nc_cleanup(nc_buf_done) struct nc_buf outer = NC_BUF_INIT;

        nc_base64_encode(text.data, text.len, &outer);
        nc_buf_clear(&text);
        assert_int_equal(nc_buf_add(&text, outer.data, outer.len), 0);
    }
    assert_null(decoded(text.data, text.len, &err));
    assert_string_equal(err.msg, "base64 or gzip within one another more than 8 deep");
}

static const struct {
    const char *type;
    const char *data;
    bool ours;
    const char *what;
} part_rows[] = {
    {"", OURS, true, NULL},
    {"", "# comment\n---\napiVersion: x\n", true, NULL},
    {"", "kind: NodeConfig\n\"apiVersion\" : x\n", true, NULL},
    {"", " {\"kind\": \"NodeConfig\", \"apiVersion\": \"x\"}", true, NULL},
    {"", "{\"kind\": \"NodeConfig\"}", false, "text without an apiVersion"},
    {"", "kind: NodeConfig\nspec:\n  x: apiVersion\n", false, "text without an apiVersion"},
    {"",
     "\xef\xbb\xbf"
     "apiVersion: x\n",
     true, NULL},
    {"", "\xef\xbb\xbf{\"kind\": \"NodeConfig\", \"apiVersion\": \"x\"}", true, NULL},
    {"", "\xef\xbb\xbf#!/bin/sh\napiVersion: x\n", false, "a shell script"},
    {"", "#!/bin/sh\napiVersion: x\n", false, "a shell script"},
    {"", "#cloud-config\napiVersion: x\n", false, "a cloud-config"},
    {"", "[settings.kubernetes]\n", false, "settings of Bottlerocket"},
    {"", "<powershell>\n", false, "a PowerShell script"},
    {"", "apiVersion: \xff", false, "13 bytes of binary data"},
    {"", "", false, "nothing"},
    {"application/node.eks.aws", "", true, NULL},
    {"text/plain", OURS, false, "a part of type text/plain"},
    {"text/x-shellscript", "#!/bin/sh\n", false, "a shell script of type text/x-shellscript"},
};

static void ownership(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(part_rows); i++) {
        struct nc_userdata_part p = {.name = (char *)(uintptr_t) "",
                                     .content_type = (char *)(uintptr_t)part_rows[i].type,
                                     .data = (char *)(uintptr_t)part_rows[i].data,
                                     .n = strlen(part_rows[i].data)};
        nc_auto_free char *what = nc_userdata_describe(&p);

        print_message("# row %zu\n", i);
        assert_int_equal(nc_userdata_part_is_ours(&p), part_rows[i].ours);
        if (part_rows[i].what)
            assert_string_equal(what, part_rows[i].what);
    }
}

/* Cut anywhere, user data is either refused or lacks its configuration: a part of ours never comes
 * out shortened. */
static void cut_anywhere(void **state) {
    (void)state;
    for (size_t n = 0; n < strlen(KARPENTER); n++) {
        nc_cleanup(nc_userdata_done) struct nc_userdata u = NC_USERDATA_INIT;
        struct nc_err err = NC_ERR_INIT;

        if (nc_userdata_decode(KARPENTER, n, &u, &err) < 0)
            continue;
        for (size_t i = 0; i < u.n; i++)
            if (nc_userdata_part_is_ours(&u.parts[i]))
                assert_string_equal(u.parts[i].data, OURS);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode),
        cmocka_unit_test(wrapped),
        cmocka_unit_test(wrapped_too_often),
        cmocka_unit_test(gzip_part),
        cmocka_unit_test(sizes),
        cmocka_unit_test(bombs_share_a_budget),
        cmocka_unit_test(too_many_parts),
        cmocka_unit_test(too_deep),
        cmocka_unit_test(ownership),
        cmocka_unit_test(cut_anywhere),
    };

    return run_group(tests, NULL, NULL);
}
