/*
 * Configuration: what a bootstrap refuses to start with, where it says so, and what it advises.
 */
#include "documents-test.h"
#include "groups.h"

static const struct {
    const char *name;
    const char *documents[3];
    const char *error;
} refused_rows[] = {
    {"nothing", {NULL}, "no configuration for this node"},
    {"empty", {"---\n"}, "no configuration for this node: d1 without any document"},
    {"an error in a document",
     {GOOD, CONFIG("cluster: {cidr: x}")},
     "d2:3:24: spec.cluster.cidr: must be the service CIDR"},
    {"two clusters",
     {GOOD, CONFIG("cluster: {name: red}")},
     "d2:3:24: spec.cluster.name: names cluster 'red', but d1:5:11 names 'blue'"},
    {"two clusters of two kinds",
     {GOOD, AGENT("cluster: {name: red}")},
     "names cluster 'red', but d1:5:11 names 'blue'"},
    {"two claims",
     {GOOD, NODE_CLAIM("}\nspec: {" CLASS_REF
                       "}\n---\n") "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nspec: {" CLASS_REF
                                   "}\n"},
     "d2:6:1: metadata.name: a second NodeClaim, the first is at d2:1:1"},
    {"no name", {CONFIG("cluster: {cidr: 10.0.0.0/16}")}, "d1:3:17: spec.cluster.name: is missing"},
    {"no endpoint",
     {CONFIG("cluster: {name: a}")},
     "d1:3:17: spec.cluster.apiServerEndpoint: is missing: kubelet must know where the API server "
     "is; spec.cluster.certificateAuthority is missing, too; spec.cluster.cidr is missing, too"},
    {"no CA",
     {CONFIG("cluster: {name: a, apiServerEndpoint: 'https://a'}")},
     "d1:3:17: spec.cluster.certificateAuthority: is missing"},
    {"a CA that is no PEM file",
     {GOOD, CONFIG("cluster: {certificateAuthority: b3RoZXI=}")},
     "d2:3:40: spec.cluster.certificateAuthority: is base64, but of no PEM file of certificates"},
    {"no CIDR",
     {CONFIG("cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: " CA "}")},
     "d1:3:17: spec.cluster.cidr: is missing"},
    {"no cluster at all", {AGENT("drain: {}")}, "d1: spec.cluster.name: is missing"},
    {"only a NodeClass", {NODE_CLASS("x", "kubelet: {}")}, "d1: spec.cluster.name: is missing"},
    {"outpost",
     {GOOD, CONFIG("cluster: {enableOutpost: true, id: x}")},
     "d2:3:33: spec.cluster.enableOutpost: local clusters on AWS Outposts are not supported"},
    {"a feature gate that nobody knows",
     {GOOD, CONFIG("featureGates: {Teleport: true}")},
     "d2:3:23: spec.featureGates.Teleport: is not supported: unknown key"},
    {"a field that nothing depends on",
     {GOOD, AGENT("aws: {partition: aws-cn}")},
     "d2:3:25: spec.aws.partition: is not supported: nothing depends on it"},
    {"several credentials",
     {ACCESS("bootstrapToken: abcdef.0123456789abcdef, kubeconfig: /x")},
     "spec.cluster.auth: several credentials are given"},
    {"certificate without a key",
     {ACCESS("clientCertificate: /c")},
     "spec.cluster.auth.clientKey: is missing"},
    {"key without a certificate",
     {ACCESS("clientKey: /c")},
     "spec.cluster.auth.clientCertificate: is missing"},
    {"mode without its token",
     {ACCESS("mode: bootstrap-token")},
     "spec.cluster.auth.bootstrapToken: is missing"},
    {"mode without its kubeconfig",
     {ACCESS("mode: kubeconfig")},
     "spec.cluster.auth.kubeconfig: is missing"},
    {"expression",
     {GOOD, AGENT("maxPods: {mode: expression}")},
     "d2:3:24: spec.maxPods.mode: expression needs spec.maxPods.expression"},
    {"explicit",
     {GOOD, AGENT("maxPods: {mode: explicit}")},
     "d2:3:24: spec.maxPods.mode: explicit needs spec.maxPods.value"},
    {"critical above all",
     {GOOD, AGENT("shutdown: {gracePeriod: 10s, gracePeriodCriticalPods: 11s}")},
     "d2:3:62: spec.shutdown.gracePeriodCriticalPods: is a part of gracePeriod"},
    {"shorter than kubelet takes",
     {GOOD, AGENT("shutdown: {gracePeriod: 10ms}")},
     "spec.shutdown.gracePeriod: kubelet accepts 0 or at least 1s"},
};

static void refused(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(refused_rows); i++) {
        nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
        struct nc_err err = NC_ERR_INIT;

        print_message("# %s\n", refused_rows[i].name);
        assert_true(build(refused_rows[i].documents, &c, &err) < 0);
        assert_int_equal(err.class, NC_ERR_CONFIG);
        if (!strstr(err.msg, refused_rows[i].error))
            fail_msg("%s", err.msg);
        assert_null(c.tree);
    }
}

static void refused_user_data(void **state) {
    static const struct {
        const char *data;
        const char *error;
        const char *remedy;
    } rows[] = {
        {"", "no configuration for this node: user-data is empty", "application/node.eks.aws"},
        {"#!/bin/sh\n", "no configuration for this node: user-data is a shell script",
         "application/node.eks.aws"},
        {"\x80\x81", "no configuration for this node: user-data is 2 bytes of binary data",
         "amiFamily: AL2023"},
        {"Content-Type: multipart/mixed; "
         "boundary=b\n\n--b\n\na\n--b\n\nb\n--b\n\nc\n--b\n\nd\n--b\n\ne\n--b--",
         "user-data part 4 (text/plain) is a part of type text/plain; and 1 more",
         "/etc/nodeclaimd/conf.d"},
        {"Content-Type: multipart/mixed; boundary=b\n\n--b\n\na\n", "user-data: cut off in part 1",
         "launch template"},
        {NODE_CONFIG "spec: {cluster: 1}\n", "user-data:3:17: spec.cluster: must be a map",
         "nodeclaimd check names all"},
        {NODE_CONFIG "spec: {cluster: 1, kubelet: 2}\n",
         "user-data:3:17: spec.cluster: must be a map, not the number 1; and at least 1 more",
         "names all"},
        {NODE_CONFIG "spec: {cluster: 1, kubelet: 2, instance: 3}\n",
         "user-data:3:17: spec.cluster: must be a map, not the number 1; and at least 2 more",
         "names all"},
        {NODE_CONFIG "spec: {cluster: {name: a}}\n---\n" NODE_CONFIG "spec: {cluster: {name: b}}\n",
         "names cluster 'b', but ", "all documents are those of one node, which joins one cluster"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
        nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
        struct nc_err err = NC_ERR_INIT;

        assert_int_equal(nc_documents_add_userdata(&d, "user-data", nc_text(rows[i].data), &err),
                         0);
        assert_true(nc_config_build(&d, &c, &err) < 0);
        if (!strstr(err.msg, rows[i].error) || !strstr(err.remedy, rows[i].remedy))
            fail_msg("row %zu: %s (%s)", i, err.msg, err.remedy);
    }
}

/* Where a document of the machine is read, too: it is not alone to blame. */
static void missing_beside_a_script(void **state) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
    static const char script[] = "#!/bin/sh\n", agent[] = AGENT("drain: {}");
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_documents_add_userdata(&d, "user-data", nc_text(script), &err), 0);
    assert_int_equal(nc_documents_add(&d, "d2", (struct nc_text){agent, strlen(agent), 1, 0}, &err),
                     0);
    assert_true(nc_config_build(&d, &c, &err) < 0);
    assert_non_null(strstr(err.msg, "spec.cluster.name: is missing"));
    assert_non_null(strstr(err.msg, "user-data is a shell script"));
}

/* The same fields, where that is allowed: noted with their places, whatever document allows it. */
static void unsupported_is_allowed(void **state) {
    const char *const documents[] = {
        AGENT("bootstrap: {unsupported: warn}, aws: {partition: aws-cn}"), GOOD,
        NODE_CLASS("x", "instanceStorePolicy: RAID0, "
                        "kubelet: {containerRuntime: dockerd}"),
        NULL};
    nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    if (build(documents, &c, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(c.unsupported.n, 2);
    assert_non_null(strstr(c.unsupported.v[0], "d1:3:"));
    assert_non_null(strstr(c.unsupported.v[0], "spec.aws.partition: is not supported"));
    assert_non_null(strstr(c.unsupported.v[1], "spec.kubelet.containerRuntime: is not supported"));
}

/* Karpenter writes it into its NodeConfig for this NodeClass; by itself it means the same. */
static void store_policy_of_a_class(void **state) {
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        const char *const documents[] = {
            NODE_CLASS("x", "instanceStorePolicy: RAID0"), GOOD,
            i == 0 ? NULL : CONFIG("instance: {localStorage: {strategy: Mount}}"), NULL};
        nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
        struct nc_err err = NC_ERR_INIT;

        if (build(documents, &c, &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(c.unsupported.n, 0);
        assert_int_equal(c.host.storage.strategy, i == 0 ? NC_STORAGE_RAID0 : NC_STORAGE_MOUNT);
    }
}

static void wait_for_cloud_init(void **state) {
    static const struct {
        const char *text;
        enum nc_cloud_init_wait wait;
    } rows[] = {
        {GOOD, NC_CLOUD_INIT_AUTO},
        {AGENT("bootstrap: {waitForCloudInit: always}"), NC_CLOUD_INIT_ALWAYS},
        {AGENT("bootstrap: {waitForCloudInit: always}") "---\n" AGENT(
             "bootstrap: {waitForCloudInit: never}"),
         NC_CLOUD_INIT_NEVER},
        {AGENT("bootstrap: {waitForCloudInit: never}") "---\n" GOOD, NC_CLOUD_INIT_NEVER},
        {AGENT("bootstrap: {waitForCloudInit: sometimes}"), NC_CLOUD_INIT_AUTO}, /* and an error */
        {CONFIG("bootstrap: {waitForCloudInit: never}"), NC_CLOUD_INIT_AUTO},    /* not its field */
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;

        assert_int_equal(nc_documents_add(&d, "d", nc_text(rows[i].text), NULL), 0);
        assert_int_equal(nc_documents_wait_for_cloud_init(&d), rows[i].wait);
    }
}

/* What of the user data is not ours is cloud-init's. */
static void parts_for_cloud_init(void **state) {
    static const char mime[] = "Content-Type: multipart/mixed; boundary=b\n\n";
    static const struct {
        const char *text;
        const char *found;
        bool may_bring;
    } rows[] = {
        {"", NULL, false},
        {GOOD, NULL, false},
        {"--b\nContent-Type: application/node.eks.aws\n\n" GOOD "\n--b--", NULL, false},
        {"--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--b\n"
         "Content-Type: application/node.eks.aws\n\n" GOOD "\n--b--",
         "user-data part 1 (text/x-shellscript) is a shell script", false},
        {"--b\nContent-Type: text/plain\n\n#!/bin/sh\n--b--", "user-data part 1 (text/plain)",
         false},
        {"--b\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--b\n"
         "Content-Type: text/cloud-config\n\n#cloud-config\n--b--",
         "user-data part 1 (text/x-shellscript)", true},
        {"--b\nContent-Type: text/cloud-boothook\n\n#!/bin/sh\n--b--",
         "user-data part 1 (text/cloud-boothook)", true},
        {"--b\nContent-Type: text/plain\n\n#cloud-config\n--b--", "user-data part 1 (text/plain)",
         true},
        {"--b\nContent-Type: application/octet-stream\n\nx\n--b--",
         "user-data part 1 (application/octet-stream)", true},
        {"#cloud-config\n", "user-data is a cloud-config", true},
        {"#!/bin/sh\n", "user-data is a shell script", false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
        nc_auto_free char *text =
            nc_asprintf("%s%s", nc_starts_with(rows[i].text, "--b") ? mime : "", rows[i].text);

        assert_int_equal(nc_documents_add_userdata(&d, "user-data", nc_text(text), NULL), 0);
        if (!rows[i].found)
            assert_null(d.for_cloud_init);
        else if (!d.for_cloud_init || !nc_starts_with(d.for_cloud_init, rows[i].found))
            fail_msg("row %zu: %s", i, d.for_cloud_init ? d.for_cloud_init : "(nothing)");
        if (d.may_bring_documents != rows[i].may_bring)
            fail_msg("row %zu: documents may come: %d", i, d.may_bring_documents);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused),
        cmocka_unit_test(refused_user_data),
        cmocka_unit_test(missing_beside_a_script),
        cmocka_unit_test(unsupported_is_allowed),
        cmocka_unit_test(store_policy_of_a_class),
        cmocka_unit_test(wait_for_cloud_init),
        cmocka_unit_test(parts_for_cloud_init),
    };

    return run_group(tests, NULL, NULL);
}
