/*
 * NodeClaim: both versions, from a document and from the API, and every way in which one can be
 * wrong.
 */
#include <errno.h>

#include "documents-test.h"
#include "groups.h"

/* The object of a spot node under EKS Auto Mode, shortened to what matters. */
#define AUTO_MODE                                                                                  \
    "{\"apiVersion\": \"karpenter.sh/v1\", \"kind\": \"NodeClaim\", \"metadata\": {\"name\": "     \
    "\"custom-x7k2p\", \"uid\": "                                                                  \
    "\"4c5d\", \"creationTimestamp\": \"2024-12-31T16:13:48Z\", \"deletionTimestamp\": "           \
    "\"2025-01-01T00:00:00Z\", "                                                                   \
    "\"labels\": {\"karpenter.sh/nodepool\": \"custom\", \"karpenter.sh/provisioner-name\": "      \
    "\"old\", \"eks.amazonaws.com/instance-cpu\": \"2\"}}, "                                       \
    "\"spec\": {\"expireAfter\": \"336h\", \"terminationGracePeriod\": \"24h0m0s\", "              \
    "\"nodeClassRef\": {\"group\": "                                                               \
    "\"eks.amazonaws.com\", \"kind\": \"NodeClass\", \"name\": \"custom\"}, \"requirements\": "    \
    "[{\"key\": "                                                                                  \
    "\"beta.kubernetes.io/arch\", \"operator\": \"In\", \"values\": [\"amd64\"]}, {\"key\": "      \
    "\"eks.amazonaws.com/instance-generation\", "                                                  \
    "\"operator\": \"Gt\", \"values\": [4]}, {\"key\": \"x\", \"operator\": \"Exists\"}], "        \
    "\"resources\": {\"requests\": {\"cpu\": \"1\", \"pods\": 2}}, "                               \
    "\"taints\": [{\"key\": \"a\", \"effect\": \"NoSchedule\"}], \"startupTaints\": [{\"key\": "   \
    "\"b\", \"value\": \"c\", \"effect\": "                                                        \
    "\"NoExecute\"}]}, \"status\": {\"providerID\": "                                              \
    "\"aws:///ap-northeast-1c/i-07a9c99a235f1d699\", \"imageID\": \"ami-01234567\", "              \
    "\"capacity\": "                                                                               \
    "{\"pods\": \"27\"}, \"allocatable\": {\"cpu\": \"1480m\"}}}"

static int parse(const char *json, struct nc_claim *ret, struct nc_err *err) {
    nc_auto_value struct nc_value *object = NULL;

    if (nc_json_parse(json, strlen(json), &object, err) < 0)
        fail_msg("%s: %s", json, err->msg);
    return nc_claim_parse(object, ret, err);
}

static void whole(void **state) {
    nc_cleanup(nc_claim_done) struct nc_claim c = {0};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(parse(AUTO_MODE, &c, &err), 0);
    assert_string_equal(c.name, "custom-x7k2p");
    assert_string_equal(c.uid, "4c5d");
    assert_string_equal(c.api_version, "karpenter.sh/v1");
    assert_string_equal(c.node_class_name, "custom");
    assert_int_equal(c.n_labels, 3);
    assert_int_equal(c.n_taints, 2);
    assert_int_equal(c.n_plain_taints, 1);
    assert_string_equal(c.taints[0].value, "");
    assert_string_equal(c.taints[1].key, "b");
    assert_string_equal(c.taints[1].value, "c");
    assert_string_equal(c.taints[1].effect, "NoExecute");
    assert_int_equal(c.n_requirements, 3);
    assert_string_equal(c.requirements[0].key, "kubernetes.io/arch");
    assert_string_equal(c.requirements[1].values.v[0], "4");
    assert_int_equal(c.requirements[2].values.n, 0);
    assert_string_equal(nc_value_get_string(c.requests, "cpu"), "1");
    assert_string_equal(nc_value_get_string(c.capacity, "pods"), "27");
    assert_string_equal(nc_value_get_string(c.allocatable, "cpu"), "1480m");
    assert_string_equal(c.provider_id, "aws:///ap-northeast-1c/i-07a9c99a235f1d699");
    assert_null(c.kubelet);
}

static void minimal(void **state) {
    nc_cleanup(nc_claim_done) struct nc_claim c = {0};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(parse("{\"apiVersion\": \"karpenter.sh/v1\", \"kind\": \"NodeClaim\", "
                           "\"metadata\": {\"name\": \"\", \"labels\": "
                           "null}, \"spec\": {\"taints\": null, \"expireAfter\": \"Never\", "
                           "\"requirements\": [{\"key\": \"a\", \"operator\": "
                           "\"Exists\", \"values\": null}]}}",
                           &c, &err),
                     0);
    assert_null(c.name);
    assert_null(c.node_class_name);
    assert_int_equal(c.n_taints, 0);
    assert_null(c.requests);
}

static void aliases(void **state) {
    static const char *const pairs[][2] = {
        {"failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"},
        {"failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"},
        {"beta.kubernetes.io/arch", "kubernetes.io/arch"},
        {"beta.kubernetes.io/os", "kubernetes.io/os"},
        {"beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"},
        {"example.com/x", "example.com/x"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(pairs); i++) {
        nc_cleanup(nc_claim_done) struct nc_claim c = {0};
        struct nc_err err = NC_ERR_INIT;
        nc_auto_free char *json =
            nc_asprintf("{\"apiVersion\": \"karpenter.sh/v1\", \"kind\": \"NodeClaim\", \"spec\": "
                        "{\"requirements\": "
                        "[{\"key\": \"%s\", \"operator\": \"Lte\", \"values\": [7]}]}}",
                        pairs[i][0]);

        assert_int_equal(parse(json, &c, &err), 0);
        assert_string_equal(c.requirements[0].key, pairs[i][1]);
    }
}

static void beta(void **state) {
    nc_cleanup(nc_claim_done) struct nc_claim plain = {0};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(parse("{\"apiVersion\": \"karpenter.sh/v1beta1\", \"kind\": \"NodeClaim\", "
                           "\"metadata\": {\"labels\": "
                           "{\"karpenter.sh/provisioner-name\": \"default\"}}, \"spec\": "
                           "{\"nodeClassRef\": {\"name\": \"x\"}, "
                           "\"kubelet\": {\"maxPods\": 20}}}",
                           &plain, &err),
                     0);
    assert_string_equal(plain.node_class_name, "x");
    assert_int_equal(nc_value_get(plain.kubelet, "maxPods")->integer, 20);
}

#define ANNOTATED(text)                                                                            \
    "{\"apiVersion\": \"karpenter.sh/v1\", \"kind\": \"NodeClaim\", \"metadata\": "                \
    "{\"annotations\": "                                                                           \
    "{\"compatibility.karpenter.sh/v1beta1-kubelet-conversion\": " text "}}, \"spec\": {}}"

static void conversion_annotation(void **state) {
    nc_cleanup(nc_claim_done) struct nc_claim c = {0};
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(
        parse(ANNOTATED("\"{\\\"maxPods\\\": 20, \\\"clusterDNS\\\": [\\\"10.0.0.10\\\"]}\""), &c,
              &err),
        0);
    assert_int_equal(nc_value_get(c.kubelet, "maxPods")->integer, 20);
}

#define CLAIM(more) "{\"apiVersion\": \"karpenter.sh/v1\", \"kind\": \"NodeClaim\", " more "}"

static const struct {
    const char *json;
    const char *error;
} wrong_rows[] = {
    {"[]", "the object must be a NodeClaim of karpenter.sh"},
    {"{\"kind\": \"NodeClaim\"}", "the object must be"},
    {"{\"kind\": \"Node\", \"apiVersion\": \"karpenter.sh/v1\"}", "the object must be"},
    {"{\"kind\": \"NodeClaim\", \"apiVersion\": \"v1\"}", "the object must be"},
    {CLAIM("\"metadata\": {\"name\": 1}"), "metadata.name must be a string"},
    {CLAIM("\"metadata\": {\"uid\": {}}"), "metadata.uid must be a string"},
    {CLAIM("\"metadata\": {\"labels\": []}"), "metadata.labels must be a map of strings"},
    {CLAIM("\"metadata\": {\"labels\": {\"a\": {}}}"), "metadata.labels must be a map of strings"},
    {CLAIM("\"spec\": {\"taints\": {}}"), "spec.taints must be a list"},
    {CLAIM("\"spec\": {\"taints\": [{\"key\": \"a\"}]}"),
     "spec.taints must be taints with a key and an effect"},
    {CLAIM("\"spec\": {\"taints\": [{\"key\": \"a\", \"effect\": \"x\", \"value\": []}]}"),
     "spec.taints must be taints"},
    {CLAIM("\"spec\": {\"startupTaints\": [1]}"), "spec.startupTaints must be taints"},
    {CLAIM("\"spec\": {\"requirements\": 1}"), "spec.requirements must be a list"},
    {CLAIM("\"spec\": {\"requirements\": [{\"key\": \"a\", \"operator\": \"in\"}]}"),
     "spec.requirements must be requirements"},
    {CLAIM("\"spec\": {\"requirements\": [{\"operator\": \"In\"}]}"),
     "spec.requirements must be requirements"},
    {CLAIM(
         "\"spec\": {\"requirements\": [{\"key\": \"a\", \"operator\": \"In\", \"values\": {}}]}"),
     "spec.requirements.values must be"},
    {CLAIM("\"spec\": {\"requirements\": [{\"key\": \"a\", \"operator\": \"In\", \"values\": "
           "[[]]}]}"),
     "spec.requirements.values must be"},
    {CLAIM("\"spec\": {\"nodeClassRef\": {\"name\": 1}}"),
     "spec.nodeClassRef.name must be a string"},
    {CLAIM("\"spec\": {\"kubelet\": []}"), "spec.kubelet must be a map"},
    {CLAIM("\"spec\": {\"resources\": {\"requests\": []}}"),
     "spec.resources.requests must be a map"},
    {CLAIM("\"status\": {\"capacity\": 1}"), "status.capacity must be a map"},
    {CLAIM("\"status\": {\"allocatable\": \"\"}"), "status.allocatable must be a map"},
    {CLAIM("\"status\": {\"providerID\": 1}"), "status.providerID must be a string"},
    {ANNOTATED("1"), "must be a JSON object"},
    {ANNOTATED("\"{\""), "must be a JSON object"},
    {ANNOTATED("\"[]\""), "must be a JSON object"},
};

static void wrong(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(wrong_rows); i++) {
        nc_cleanup(nc_claim_done) struct nc_claim c = {0};
        struct nc_err err = NC_ERR_INIT;

        assert_true(parse(wrong_rows[i].json, &c, &err) < 0);
        assert_int_equal(err.class, NC_ERR_PROTOCOL);
        if (!strstr(err.msg, wrong_rows[i].error))
            fail_msg("row %zu: %s", i, err.msg);
        assert_null(c.api_version);
    }
}

/* The same mistake in a document is the user's: config, with its place. */
static void wrong_document(void **state) {
    static const char text[] =
        "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata:\n  name: [x]\n";
    nc_cleanup(nc_claim_done) struct nc_claim c = {0};
    struct nc_err err = NC_ERR_INIT;
    struct nc_values trees = {0};

    (void)state;
    assert_int_equal(nc_yaml_parse(nc_text(text), 3, &trees, &err), 0);
    assert_int_equal(nc_claim_parse(trees.v[0], &c, &err), -EINVAL);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_string_equal(err.msg, "line 4, column 9: metadata.name must be a string");
    nc_values_done(&trees);
    assert_int_equal(nc_claim_parse(NULL, &c, &err), -EINVAL);
    assert_int_equal(err.class, NC_ERR_BUG);
}

/* More entries than a real object could hold are refused before they cost anything. */
static void too_many(void **state) {
    nc_cleanup(nc_claim_done) struct nc_claim c = {0};
    nc_cleanup(nc_buf_done) struct nc_buf b = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_buf_puts(&b, "{\"apiVersion\": \"karpenter.sh/v1\", \"kind\": "
                                     "\"NodeClaim\", \"spec\": {\"taints\": [1"),
                     0);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(nc_buf_puts(&b, ",1"), 0);
    assert_int_equal(nc_buf_puts(&b, "]}}"), 0);
    assert_int_equal(parse(b.data, &c, &err), -EBADMSG);
    assert_string_equal(err.msg, "NodeClaim: spec.taints must be a list");
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(minimal),
        cmocka_unit_test(aliases),
        cmocka_unit_test(beta),
        cmocka_unit_test(conversion_annotation),
        cmocka_unit_test(wrong),
        cmocka_unit_test(wrong_document),
        cmocka_unit_test(too_many),
    };

    return run_group(tests, NULL, NULL);
}
