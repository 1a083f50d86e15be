/*
 * Documents: kinds, streams, syntax errors, places, limits, user data as a source.
 */
#include <errno.h>

#include "documents-test.h"
#include "groups.h"

static const struct {
    const char *name;
    const char *document;
    const char *diags;
} rows[] = {
    {"NodeConfig", GOOD, ""},
    {"empty stream", "---\n# nothing\n", ""},
    {"JSON", "{\"apiVersion\": \"node.eks.aws/v1alpha1\", \"kind\": \"NodeConfig\", \"spec\": {}}",
     ""},
    {"NodeClass of any group",
     "apiVersion: eks.amazonaws.com/v1\nkind: NodeClass\nmetadata: {name: x}\n", ""},
    {"EC2NodeClass",
     "apiVersion: karpenter.k8s.aws/v1beta1\nkind: EC2NodeClass\nspec: {amiFamily: Custom}\n", ""},
    {"two documents", GOOD "---\n" AGENT_CONFIG, ""},
    {"a foreign one between", GOOD "---\napiVersion: v1\nkind: Pod\n---\n" AGENT_CONFIG,
     "d:11:7: error: kind: 'Pod' of 'v1' is nothing that a node reads: NodeConfig, AgentConfig, "
     "NodeClaim, EC2NodeClass and "
     "NodeClass are\n"},
    {"Karpenter's, beside its NodeClass",
     "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec: {}\n---\n"
     "apiVersion: karpenter.sh/v1\nkind: NodePool\n",
     ""},
    {"kind mistyped", "apiVersion: node.eks.aws/v1alpha1\nkind: Nodeconfig\n",
     "d:2:7: error: kind: 'Nodeconfig' is not known, did you mean \"NodeConfig\" of "
     "node.eks.aws/v1alpha1?\n"},
    {"version of tomorrow", "kind: NodeConfig\napiVersion: node.eks.aws/v2\n",
     "d:2:13: error: apiVersion: 'node.eks.aws/v2' is not known for 'NodeConfig': use "
     "node.eks.aws/v1alpha1\n"},
    {"group of somebody else", "kind: NodeClaim\napiVersion: example.com/v1\n",
     "d:2:13: error: apiVersion: 'example.com/v1' is not known for 'NodeClaim': use "
     "karpenter.sh/v1 "
     "or karpenter.sh/v1beta1\n"},
    {"group that begins alike", "kind: NodeClaim\napiVersion: karpenter.s/v1\n",
     "d:2:13: error: apiVersion: 'karpenter.s/v1' is not known for 'NodeClaim': use "
     "karpenter.sh/v1 "
     "or karpenter.sh/v1beta1\n"},
    {"no slash", "kind: NodeClass\napiVersion: v1\n",
     "d:2:13: error: apiVersion: 'v1' is not known for 'NodeClass': use GROUP/v1 or "
     "GROUP/v1beta1\n"},
    {"no kind", "apiVersion: v1\n", "d:1:1: error: \"kind\" is missing\n"},
    {"no apiVersion", "kind: NodeConfig\n", "d:1:1: error: \"apiVersion\" is missing\n"},
    {"kind is a number", "kind: 7\napiVersion: v1\n", "d:1:7: error: \"kind\" must be a string\n"},
    {"a list", "- a\n", "d:1:1: error: a document must be a map with apiVersion, kind and spec\n"},
    {"a word", "hello\n",
     "d:1:1: error: a document must be a map with apiVersion, kind and spec\n"},
    {"spec missing", NODE_CONFIG, "d:1:1: error: \"spec\" is missing\n"},
};

static void kinds(void **state) {
    int failures = 0;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        failures += differs(rows[i].name, rows[i].document, rows[i].diags);
    assert_int_equal(failures, 0);
}

static void trees(void **state) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;

    (void)state;
    add(&d, GOOD "---\n" AGENT_CONFIG);
    add(&d, "apiVersion: karpenter.sh/v1beta1\nkind: NodeClaim\nspec: {nodeClassRef: {name: x}}\n");
    assert_int_equal(d.n_docs, 3);
    assert_int_equal(d.docs[0].kind, NC_DOCUMENT_NODE_CONFIG);
    assert_int_equal(d.docs[1].kind, NC_DOCUMENT_AGENT_CONFIG);
    assert_int_equal(d.docs[2].kind, NC_DOCUMENT_NODE_CLAIM);
    assert_true(d.docs[2].is_beta);
    assert_int_equal(d.docs[1].source, 1);
    assert_int_equal(d.docs[2].source, 2);
    assert_string_equal(d.sources[0].name, "built-in default");
    assert_int_equal(d.docs[2].tree->mark.source, 2);
}

/* A syntax error is a diagnostic at its place in the whole, and other sources still count. */
static void syntax(void **state) {
    static const char *const broken[] = {NODE_CONFIG "spec:\n\tx: 1\n",
                                         NODE_CONFIG "spec: {x: *a}\n", NODE_CONFIG "kind: x\n",
                                         "\"open"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(broken); i++) {
        nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
        struct nc_err err = NC_ERR_INIT;

        assert_int_equal(
            nc_documents_add(&d, "d", (struct nc_text){broken[i], strlen(broken[i]), 11, 0}, &err),
            0);
        assert_int_equal(nc_documents_errors(&d), 1);
        assert_true(d.diags[0].mark.line > 10);
        assert_true(d.diags[0].mark.column > 0);
        assert_false(nc_starts_with(d.diags[0].message, "line "));
        add(&d, GOOD);
        assert_int_equal(d.n_docs, 1);
    }
}

static void lines_of_a_part(void **state) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *text = NULL;
    static const char body[] = NODE_CONFIG "spec:\n  kubelet:\n    flags: [1]\n    flogs: []\n";

    (void)state;
    assert_int_equal(
        nc_documents_add(&d, "part", (struct nc_text){body, strlen(body), 21, 0}, &err), 0);
    text = printed(&d);
    assert_string_equal(
        text, "part:25:13: error: spec.kubelet.flags[0]: must be a string (put it in quotes)\n"
              "part:26:5: warning: spec.kubelet.flogs: unknown field, did you mean \"flags\"?\n");
}

/* Both places are those of the whole. */
static void block_of_a_part(void **state) {
    static const char body[] = NODE_CONFIG "spec:\n  cluster:\n    name: a\n   cidr: b\n";
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *text = NULL;

    (void)state;
    assert_int_equal(
        nc_documents_add(&d, "part", (struct nc_text){body, strlen(body), 21, 0}, &err), 0);
    text = printed(&d);
    assert_string_equal(text, "part:26:4: error: the indentation of this line does not fit (while "
                              "parsing a block mapping that begins at line 24, column 3)\n");
}

static void first_error(void **state) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_documents_first_error(&d, &err), 0);
    add(&d, NODE_CONFIG "spec: {colour: 1, cluster: {cidr: x}}\n");
    assert_int_equal(nc_documents_first_error(&d, &err), -EINVAL);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_string_equal(
        err.msg,
        "d:3:35: spec.cluster.cidr: must be the service CIDR of the cluster such as 10.100.0.0/16, "
        "not the string 'x'");
}

static void limits(void **state) {
    nc_auto_free char *large = nc_malloc((size_t)2 << 20);
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    memset(large, '\n', (size_t)2 << 20);
    {
        nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;

        assert_int_equal(
            nc_documents_add(&d, "d", (struct nc_text){large, (size_t)2 << 20, 1, 0}, &err),
            -EFBIG);
        for (int i = 0; i < 127; i++)
            assert_int_equal(nc_documents_add(&d, "d", nc_text(""), &err), 0);
        assert_int_equal(nc_documents_add(&d, "d", nc_text(""), &err), -E2BIG);
    }
    {
        nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
        nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;

        for (int i = 0; i < 65; i++)
            assert_int_equal(nc_buf_puts(&b, "---\n" AGENT_CONFIG), 0);
        assert_int_equal(nc_documents_add(&d, "d", (struct nc_text){b.data, b.len, 1, 0}, &err),
                         -E2BIG);
        assert_string_equal(err.msg, "d: more than 64 documents");
        nc_buf_clear(&b);
        assert_int_equal(nc_buf_puts(&b, "---\n" AGENT_CONFIG), 0);
        assert_int_equal(
            nc_documents_add_userdata(&d, "u", (struct nc_text){.data = b.data, .n = b.len}, &err),
            -E2BIG);
    }
}

/* What would cost the square of its size is refused before it does. */
static void large_maps_and_lists(void **state) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    nc_auto_free char *text = NULL;

    (void)state;
    assert_int_equal(nc_buf_puts(&b, NODE_CONFIG "spec:\n  kubelet:\n    config:\n"), 0);
    for (int i = 0; i < 1025; i++)
        assert_int_equal(nc_buf_printf(&b, "      k%d: 1\n", i), 0);
    add(&d, b.data);
    nc_buf_clear(&b);
    assert_int_equal(nc_buf_puts(&b, NODE_CONFIG "spec:\n  kubelet:\n    flags: [[{a: ["), 0);
    for (int i = 0; i < 8193; i++)
        assert_int_equal(nc_buf_puts(&b, "1,"), 0);
    assert_int_equal(nc_buf_puts(&b, "]}]]\n"), 0);
    add(&d, b.data);
    text = printed(&d);
    assert_string_equal(text,
                        "d:6:7: error: 1025 entries in one map, at most 1024 are accepted\n"
                        "d:5:18: error: 8193 entries in one list, at most 8192 are accepted\n");
    assert_int_equal(d.n_docs, 0);
}

/* A document cannot make diagnostics without end, nor warnings hide an error. */
static void diagnostics_are_capped(void **state) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;

    (void)state;
    assert_int_equal(nc_buf_puts(&b, NODE_CONFIG "spec:\n"), 0);
    for (int i = 0; i < 500; i++)
        assert_int_equal(nc_buf_printf(&b, "  k%d: 1\n", i), 0);
    assert_int_equal(nc_buf_puts(&b, "  cluster: 1\n"), 0);
    add(&d, b.data);
    assert_int_equal(d.n_diags, 101);
    assert_int_equal(nc_documents_errors(&d), 1);
}

#define HEAD "Content-Type: multipart/mixed; boundary=b\n\n"

static void userdata(void **state) {
    static const char body[] =
        HEAD "--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--b\n"
             "Content-Type: application/node.eks.aws\n\n" NODE_CONFIG "spec: {colour: 1}\n--b--\n";
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *text = NULL;

    (void)state;
    assert_int_equal(nc_documents_add_userdata(&d, "user-data", nc_text(body), &err), 0);
    text = printed(&d);
    assert_string_equal(text, "user-data part 2 (application/node.eks.aws):12:8: warning: "
                              "spec.colour: unknown field of NodeConfig's spec\n");
    assert_int_equal(d.n_docs, 1);
    assert_int_equal(d.found.n, 1);
    assert_string_equal(
        d.found.v[0],
        "user-data part 1 (text/x-shellscript) is a shell script of type text/x-shellscript");
}

/* One document, and these diagnostics. */
static void expect_one(const char *body, const char *diags) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *text = NULL;

    assert_int_equal(nc_documents_add_userdata(&d, "user-data", nc_text(body), &err), 0);
    text = printed(&d);
    assert_string_equal(text, diags);
    assert_int_equal(d.n_docs, 1);
}

/* Two closing lines: of what the first one cuts off each part is named. */
static void userdata_lost(void **state) {
    static const char body[] =
        HEAD "--b\nContent-Type: application/node.eks.aws\n\n" GOOD "--b--\n"
             "--b\nContent-Type: text/cloud-config\n\npackages: []\n"
             "--b\nContent-Type: application/node.eks.aws\n\n" NODE_CONFIG "--b--\n";

    (void)state;
    expect_one(body, "user-data:16:1: warning: a part of type text/cloud-config is lost: the "
                     "closing line of boundary 'b' stands before it\n"
                     "user-data:20:1: warning: a part of type application/node.eks.aws is lost: "
                     "the closing line of boundary 'b' stands before it\n");
}

/* What is a document, but for its type, is nobody's; a script or a cloud-config that writes one is
 * its own. */
static void userdata_mistyped(void **state) {
    static const char body[] =
        HEAD "--b\nContent-Type: application/yaml\n\n" GOOD
             "--b\nContent-Type: text/plain\n\n" NODE_CONFIG
             "--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\ncat >x <<E\n" NODE_CONFIG "E\n"
             "--b\nContent-Type: text/plain\n\n#!/bin/sh\ncat >x <<E\n" NODE_CONFIG "E\n"
             "--b\nContent-Type: text/cloud-config\n\n#cloud-config\nx: |\n  " GOOD
             "--b\nContent-Type: application/yaml\n\napiVersion: v1\nkind: Pod\n"
             "--b\nContent-Type: application/node.eks.aws\n\n" GOOD "--b--\n";

    (void)state;
    expect_one(body,
               "user-data part 1 (application/yaml):6:1: warning: a document that is not read: its "
               "Content-Type must be application/node.eks.aws or application/vnd.nodeclaimd+yaml, "
               "not application/yaml\n"
               "user-data part 2 (text/plain):17:1: warning: a document that is not read: its "
               "Content-Type "
               "must be application/node.eks.aws or application/vnd.nodeclaimd+yaml, not "
               "text/plain\n");
}

/* What Karpenter makes of user data that is a cloud-config and no MIME. */
static void userdata_mistaken(void **state) {
    static const char body[] =
        HEAD "--b\nContent-Type: application/node.eks.aws\n\n#cloud-config\npackages: [jq]\n"
             "--b\nContent-Type: application/node.eks.aws\n\n" GOOD "--b--\n";

    (void)state;
    expect_one(
        body, "user-data part 1 (application/node.eks.aws):6:1: error: a cloud-config of type "
              "application/node.eks.aws is no document: Karpenter makes one of user data that is a "
              "YAML map and no MIME; write a MIME part of type text/cloud-config into "
              "spec.userData of the EC2NodeClass\n");
}

static void userdata_broken(void **state) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_free char *text = NULL;

    (void)state;
    assert_int_equal(nc_documents_add_userdata(&d, "user-data", nc_text(HEAD "--b\n"), &err), 0);
    text = printed(&d);
    assert_string_equal(text, "user-data: error: cut off in part 1, which begins at line 4: the "
                              "closing line of boundary 'b' is "
                              "missing\n");
}

static void places(void **state) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    nc_auto_free char *known = NULL;
    nc_auto_free char *whole = NULL;
    nc_auto_free char *none = NULL;

    (void)state;
    none = nc_mark_location(&d, (struct nc_mark){0});
    add(&d, GOOD);
    known = nc_mark_location(&d, (struct nc_mark){.source = 1, .line = 7, .column = 3});
    whole = nc_mark_location(&d, (struct nc_mark){.source = 1});
    assert_string_equal(none, "built-in default");
    assert_string_equal(known, "d:7:3");
    assert_string_equal(whole, "d");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinds),
        cmocka_unit_test(trees),
        cmocka_unit_test(syntax),
        cmocka_unit_test(lines_of_a_part),
        cmocka_unit_test(block_of_a_part),
        cmocka_unit_test(first_error),
        cmocka_unit_test(limits),
        cmocka_unit_test(userdata),
        cmocka_unit_test(userdata_lost),
        cmocka_unit_test(userdata_mistyped),
        cmocka_unit_test(userdata_mistaken),
        cmocka_unit_test(userdata_broken),
        cmocka_unit_test(places),
        cmocka_unit_test(large_maps_and_lists),
        cmocka_unit_test(diagnostics_are_capped),
    };

    return run_group(tests, NULL, NULL);
}
