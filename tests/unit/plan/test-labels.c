/*
 * Labels, taints and kubelet's flags: how they are split, united, refused, and laid over the
 * configuration.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "nc/str.h"

#include "kubelet.h"
#include "shapes.h"

static void test_refusal(void **state) {
    static const char *const fine[] = {
        "type",
        "example.com/a",
        "karpenter.sh/nodepool",
        "karpenter.sh/capacity-type",
        "karpenter.k8s.aws/instance-cpu",
        "node.kubernetes.io/nodetype",
        "x.node.kubernetes.io/a",
        "kubelet.kubernetes.io/a",
        "kubernetes.io/hostname",
        "kubernetes.io/arch",
        "kubernetes.io/os",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/arch",
        "failure-domain.beta.kubernetes.io/zone",
        "eks.amazonaws.com/nodegroup",
        "notkubernetes.io/a",
        "kubernetes.io.example.com/a",
        "k8s.iox/a",
        "kubernetes.io",
    };
    static const char *const refused[] = {
        "kubernetes.io/role",
        "k8s.io/cloud-provider-aws",
        "node-restriction.kubernetes.io/a",
        "topology.k8s.aws.k8s.io/x",
        "node-role.kubernetes.io/worker",
        "topology.ebs.csi.k8s.io/zone",
        "kubernetes.io/",
        "karpenter.sh/registered",
        "karpenter.sh/initialized",
        "xnode.kubernetes.io/a",
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(fine); i++)
        if (nc_label_refusal(fine[i]))
            fail_msg("%s is refused", fine[i]);
    for (size_t i = 0; i < NC_ARRAY_SIZE(refused); i++)
        if (!nc_label_refusal(refused[i]))
            fail_msg("%s is not refused", refused[i]);
}

static void test_validity(void **state) {
    static const struct {
        const char *key, *value;
        bool valid;
    } rows[] = {
        {"a", "", true},
        {"a.b-c_d", "A.b-c_9", true},
        {"example.com/a", "x", true},
        {"a123456789012345678901234567890123456789012345678901234567890123", "", false},
        {"a", "a123456789012345678901234567890123456789012345678901234567890123", false},
        {"", "", false},
        {"/a", "", false},
        {"a/", "", false},
        {"-a", "", false},
        {"a-", "", false},
        {"a", "-a", false},
        {"a", "a-", false},
        {"a b", "", false},
        {"a", "a b", false},
        {"a", "a\"b", false},
        {"Example.com/a", "", false},
        {"example..com/a", "", false},
        {".example.com/a", "", false},
        {"example.com./a", "", false},
        {"ex-.com/a", "", false},
        {"a/b/c", "", false},
    };
    char why[256];

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (nc_label_is_valid(rows[i].key, rows[i].value, why, sizeof(why)) != rows[i].valid)
            fail_msg("%s=%s", rows[i].key, rows[i].value);
    {
        char long_domain[300];
        memset(long_domain, 'a', sizeof(long_domain));
        strcpy(long_domain + 254, "/a");
        assert_false(nc_label_is_valid(long_domain, "", why, sizeof(why)));
    }
}

static void test_label_lists(void **state) {
    struct nc_label *l = NULL;
    size_t n = 0;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(
        nc_labels_parse(" b=1, a = 2 ,c,,d=,b=3", (struct nc_mark){1, 2, 3, 0}, &l, &n, &err), 0);
    assert_int_equal(n, 4);
    nc_labels_sort(l, n);
    assert_string_equal(l[0].key, "a");
    assert_string_equal(l[0].value, "2");
    assert_string_equal(l[1].value, "3");
    assert_string_equal(l[2].key, "c");
    assert_string_equal(l[2].value, "");
    assert_int_equal(l[1].mark.line, 2);
    nc_labels_free(l, n);
    assert_int_equal(nc_labels_parse("", (struct nc_mark){0}, &l, &n, &err), 0);
    assert_int_equal(n, 0);
    nc_labels_free(l, n);
    /* kubelet checks what is left at the end, and ends where a label has no key */
    assert_int_equal(nc_labels_parse("a=b c,a=1", (struct nc_mark){0}, &l, &n, &err), 0);
    assert_int_equal(n, 1);
    assert_string_equal(l[0].value, "1");
    nc_labels_free(l, n);
    assert_true(nc_labels_parse("a=1, ,b=2", (struct nc_mark){0}, &l, &n, NULL) < 0);
    assert_true(nc_labels_parse("=1", (struct nc_mark){0}, &l, &n, NULL) < 0);
    assert_true(nc_labels_parse("a=1,b c=2", (struct nc_mark){0}, &l, &n, &err) < 0);
    assert_int_equal(err.class, NC_ERR_CONFIG);
    assert_non_null(strstr(err.msg, "'b c'"));
    assert_true(nc_labels_parse("-a=1,b=2,c=-d", (struct nc_mark){0}, &l, &n, &err) < 0);
    assert_non_null(strstr(err.msg, "invalid label key: '-a'"));
    assert_non_null(strstr(err.msg, "; invalid label value: '-d'"));
}

static void test_taint_lists(void **state) {
    struct nc_taint *t = NULL;
    size_t n = 0;
    struct nc_err err = NC_ERR_INIT;
    static const char *const bad[] = {"a",
                                      "a=b",
                                      "a:",
                                      "a:Never",
                                      ":NoSchedule",
                                      "a=b c:NoSchedule",
                                      "a b:NoSchedule",
                                      "a:noschedule",
                                      "a:NoSchedule=",
                                      "a:NoSchedule=x",
                                      "a=b:NoSchedule=",
                                      "a:NoSchedule:"};

    (void)state;
    assert_int_equal(
        nc_taints_parse("a=b:NoSchedule, c:NoExecute,a=z:NoSchedule,a=x:PreferNoSchedule,",
                        (struct nc_mark){0}, &t, &n, &err),
        0);
    assert_int_equal(n, 3);
    assert_string_equal(t[0].value, "z");
    assert_string_equal(t[1].key, "c");
    assert_string_equal(t[1].value, "");
    assert_string_equal(t[2].effect, "PreferNoSchedule");
    {
        nc_auto_value struct nc_value *list = nc_taints_tree(t, n);
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        struct nc_taint *back;
        size_t m;
        nc_json_write(&text, list, 0);
        assert_string_equal(text.data,
                            "[{\"effect\":\"NoSchedule\",\"key\":\"a\",\"value\":\"z\"},{"
                            "\"effect\":\"NoExecute\",\"key\":\"c\"},"
                            "{\"effect\":\"PreferNoSchedule\",\"key\":\"a\",\"value\":\"x\"}]");
        assert_int_equal(nc_taints_read(list, "x", &back, &m, &err), 0);
        assert_int_equal(m, 3);
        assert_string_equal(back[2].value, "x");
        nc_taints_free(back, m);
        nc_value_remove(list->items[1], "key");
        assert_true(nc_taints_read(list, "x", &back, &m, &err) < 0);
    }
    nc_taints_free(t, n);
    assert_null(nc_taints_tree(NULL, 0));
    for (size_t i = 0; i < NC_ARRAY_SIZE(bad); i++)
        if (nc_taints_parse(bad[i], (struct nc_mark){0}, &t, &n, NULL) == 0)
            fail_msg("%s", bad[i]);
    {
        nc_auto_value struct nc_value *text = nc_value_new_string("a:NoSchedule");
        assert_true(nc_taints_read(text, "x", &t, &n, &err) < 0);
        assert_non_null(strstr(err.msg, "a list of"));
    }
    assert_int_equal(nc_taints_read(NULL, "x", &t, &n, &err), 0);
    assert_int_equal(n, 0);
}

static int parse_flags(const char *const *items, size_t n, struct nc_flags *ret,
                       struct nc_err *err) {
    nc_cleanup(nc_strv_done) struct nc_strv list = NC_STRV_INIT;

    for (size_t i = 0; i < n; i++)
        nc_strv_add(&list, items[i]);
    return nc_flags_parse(&list, NULL, ret, err);
}

static void expect_words(const char *item, const char *words) {
    nc_cleanup(nc_flags_done) struct nc_flags f = NC_FLAGS_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf got = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (parse_flags(&item, 1, &f, &err) < 0) {
        nc_buf_printf(&got, "error");
    } else {
        nc_buf_puts(&got, "");
        for (size_t i = 0; i < f.n; i++)
            nc_buf_printf(&got, "%s%s", i ? "|" : "", f.v[i].argument);
    }
    if (strcmp(got.len ? got.data : "", words) != 0)
        fail_msg("%s: %s instead of %s", item, got.data, words);
}

static void test_enum_names(void **state) {
    (void)state;
    expect_words("--node-labels=\"a=b,c=d\"", "--node-labels=a=b,c=d");
    expect_words("\"--node-labels=a=b\"", "--node-labels=a=b");
    expect_words("--a='b c' --d", "--a=b c|--d");
    expect_words("--a b", "--a=b");
    expect_words("--a b --c", "--a=b|--c");
    expect_words("-v 2", "-v=2");
    expect_words("-v=2", "-v=2");
    expect_words("-v2", "-v2");
    expect_words("-max-pods=10", "error");
    expect_words("-x", "error");
    expect_words("-", "error");
    expect_words("--", "error");
    expect_words("---a", "error");
    expect_words("--=a", "error");
    expect_words("--a=b\\ c", "--a=b c");
    expect_words("--a=\"b\\\"c\"", "--a=b\"c");
    expect_words("--a='b\\c'", "--a=b\\c");
    expect_words("--a=", "--a=");
    expect_words("--a \"\"", "--a=");
    expect_words("  ", "");
    expect_words("", "");
    expect_words("\t--a=1\n--b=2", "--a=1|--b=2");
    expect_words("--a=\"b", "error");
    expect_words("--a='b", "error");
    expect_words("a", "error");
    expect_words("--a=1 b", "error");
    expect_words("-v=2 3", "error");
    {
        static const char *const items[] = {"--max_pods", "7"};
        nc_cleanup(nc_flags_done) struct nc_flags f = NC_FLAGS_INIT;
        assert_int_equal(parse_flags(items, 2, &f, NULL), 0);
        assert_int_equal(f.n, 1);
        assert_string_equal(f.v[0].name, "max-pods");
        assert_string_equal(f.v[0].value, "7");
        assert_string_equal(f.v[0].argument, "--max_pods=7");
    }
}

static void test_find(void **state) {
    static const char *const items[] = {"--a=1 --b=2", "--a=3"};
    nc_cleanup(nc_flags_done) struct nc_flags f = NC_FLAGS_INIT;
    char buf[NC_FLAG_NAME_MAX];

    (void)state;
    assert_int_equal(parse_flags(items, 2, &f, NULL), 0);
    assert_string_equal(nc_flags_find(&f, "a")->value, "3");
    assert_null(nc_flags_find(&f, "c"));
    assert_string_equal(nc_flag_of_field("kubeReserved", buf), "kube-reserved");
    assert_null(nc_flag_of_field("nothing", buf));
}

static void test_tree(void **state) {
    static const char *const items[] = {
        "--max-pods=20",
        "--pods-per-core=2",
        "--max-pods=21",
        "--kube-reserved=cpu=1,memory=1Gi --kube-reserved=pid=100",
        "--eviction-hard=memory.available<5%,nodefs.available<10%",
        "--feature-gates=A=true,B=false",
        "--cluster-dns=10.0.0.10,10.0.0.11",
        "--cluster-dns=10.0.0.12",
        "--anonymous-auth=true",
        "--cpu-cfs-quota",
        "--protect-kernel-defaults=F",
        "--enforce-node-allocatable=",
        "--reserved-cpus=0-1",
        "--no-such-flag=1",
        "--v=4",
    };
    nc_cleanup(nc_flags_done) struct nc_flags f = NC_FLAGS_INIT;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_value struct nc_value *tree = NULL, *config = NULL, *expected = NULL;
    static const char base[] =
        "{\"maxPods\":29,\"kubeReserved\":{\"cpu\":\"70m\",\"memory\":\"574Mi\",\"ephemeral-"
        "storage\":\"1Gi\"},"
        "\"featureGates\":{\"R\":true,\"A\":false},\"clusterDNS\":[\"1.1.1.1\"],"
        "\"authentication\":{\"anonymous\":{\"enabled\":false},\"webhook\":{\"enabled\":true}}}";

    (void)state;
    assert_int_equal(parse_flags(items, NC_ARRAY_SIZE(items), &f, &err), 0);
    assert_int_equal(nc_flags_tree(&f, &tree, &err), 0);
    assert_int_equal(nc_json_parse(base, strlen(base), &config, &err), 0);
    nc_flags_apply(config, tree);
    expected = json(
        "{\"authentication\":{\"anonymous\":{\"enabled\":true},\"webhook\":{\"enabled\":true}},"
        "\"clusterDNS\":[\"10.0.0.10\",\"10.0.0.11\",\"10.0.0.12\"],\"cpuCFSQuota\":true,"
        "\"enforceNodeAllocatable\":[],"
        "\"evictionHard\":{\"memory.available\":\"5%\",\"nodefs.available\":\"10%\"},"
        "\"featureGates\":{\"A\":true,\"B\":false,\"R\":true},"
        "\"kubeReserved\":{\"cpu\":\"1\",\"memory\":\"1Gi\",\"pid\":\"100\"},"
        "\"logging\":{\"verbosity\":4},\"maxPods\":21,"
        "\"podsPerCore\":2,"
        "\"protectKernelDefaults\":false,\"reservedSystemCPUs\":\"0-1\"}");
    assert_true(nc_value_equal(config, expected));
}

/* Each flag is found by its own name. */
static void test_every_flag(void **state) {
    static const char *const fields[] = {
        "cgroupRoot",        "cgroupDriver",         "clusterDomain",   "hairpinMode",
        "providerID",        "imageServiceEndpoint", "kubeletCgroups",  "staticPodPath",
        "resolvConf",        "systemCgroups",        "tlsCertFile",     "tlsMinVersion",
        "podCIDR",           "topologyManagerScope", "volumePluginDir", "memoryManagerPolicy",
        "kubeReservedCgroup"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(fields); i++) {
        char buf[NC_FLAG_NAME_MAX];
        nc_auto_free char *item = nc_asprintf("--%s=x", nc_flag_of_field(fields[i], buf));
        nc_cleanup(nc_flags_done) struct nc_flags f = NC_FLAGS_INIT;
        nc_auto_value struct nc_value *tree = NULL;
        assert_int_equal(parse_flags((const char *const[]){item}, 1, &f, NULL), 0);
        assert_int_equal(nc_flags_tree(&f, &tree, NULL), 0);
        if (!nc_streq(nc_value_get_string(tree, fields[i]), "x"))
            fail_msg("%s", item);
    }
}

/* Flags that stand for lists of objects. */
static void test_objects(void **state) {
    static const char *const items[] = {
        "--vmodule=a*=2,b=0", "--vmodule=c=1",
        "--reserved-memory=0:memory=1Gi,hugepages-2Mi=4Mi;1:memory=2Gi"};
    nc_cleanup(nc_flags_done) struct nc_flags f = NC_FLAGS_INIT;
    nc_auto_value struct nc_value *tree = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf json = NC_BUF_INIT;

    (void)state;
    assert_int_equal(parse_flags(items, NC_ARRAY_SIZE(items), &f, NULL), 0);
    assert_int_equal(nc_flags_tree(&f, &tree, NULL), 0);
    nc_json_write(&json, tree, 0);
    assert_string_equal(
        json.data, "{\"logging\":{\"vmodule\":[{\"verbosity\":2,\"filePattern\":\"a*\"},"
                   "{\"verbosity\":0,\"filePattern\":\"b\"},{\"verbosity\":1,\"filePattern\":"
                   "\"c\"}]},\"reservedMemory\":[{\"numaNode\":0,\"limits\":{\"memory\":\"1Gi\","
                   "\"hugepages-2Mi\":\"4Mi\"}},{\"numaNode\":1,\"limits\":{\"memory\":"
                   "\"2Gi\"}}]}");
}

static void test_bad_values(void **state) {
    static const char *const items[] = {"--max-pods=x",
                                        "--max-pods",
                                        "--cpu-cfs-quota=perhaps",
                                        "--kube-reserved=cpu",
                                        "--cpu-manager-policy-options=",
                                        "--eviction-hard=memory.available=5%",
                                        "--feature-gates=A=1x",
                                        "--cluster-dns",
                                        "--provider-id",
                                        "--fail-cgroupv1=/x",
                                        "--runonce=perhaps",
                                        "--v=high",
                                        "--sync-frequency=x",
                                        "--log-text-info-buffer-size=a",
                                        "--vmodule=a",
                                        "--vmodule==2",
                                        "--log-json-split-stream=x",
                                        "--topology-manager-policy=",
                                        "--reserved-memory=",
                                        "--reserved-memory=0",
                                        "--address=any",
                                        "--healthz-bind-address=localhost",
                                        "--container-runtime-endpoint=",
                                        "--log-flush-frequency=",
                                        "--log-flush-frequency=0s",
                                        "--reserved-memory=x:memory=1Gi",
                                        "--reserved-memory=0:memory"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(items); i++) {
        nc_cleanup(nc_flags_done) struct nc_flags f = NC_FLAGS_INIT;
        nc_auto_value struct nc_value *tree = NULL;
        struct nc_err err = NC_ERR_INIT;
        assert_int_equal(parse_flags(&items[i], 1, &f, NULL), 0);
        if (nc_flags_tree(&f, &tree, &err) == 0)
            fail_msg("%s is taken", items[i]);
        assert_int_equal(err.class, NC_ERR_CONFIG);
        assert_non_null(strstr(err.msg, items[i]));
    }
}

/* What may be a secret is not quoted: the flag before it is named. */
static void test_secret_values(void **state) {
    static const struct {
        const char *items[2], *message;
    } rows[] = {
        {{"--manifest-url-header=s3cret"},
         "spec.kubelet.flags: 'manifest-url-header': kubelet cannot read this value"},
        {{"--manifest-url-header=a:Bearer s3cret"},
         "spec.kubelet.flags: after --manifest-url-header: "},
        {{"--manifest_url_header=a:b", "s3cret"},
         "spec.kubelet.flags: after --manifest-url-header: no"},
        {{"--manifest-url-header 'a:s3cret"},
         "spec.kubelet.flags: after --manifest-url-header: this "},
        {{"s3cret"}, "spec.kubelet.flags: no flag; a name needs two dashes"},
        {{"\"s3cret"}, "spec.kubelet.flags: this quote is not closed"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_flags_done) struct nc_flags f = NC_FLAGS_INIT;
        nc_auto_value struct nc_value *tree = NULL;
        struct nc_err err = NC_ERR_INIT;
        int r = parse_flags(rows[i].items, rows[i].items[1] ? 2 : 1, &f, &err);
        if (r == 0)
            r = nc_flags_tree(&f, &tree, &err);
        assert_int_equal(r, -EINVAL);
        if (!nc_starts_with(err.msg, rows[i].message) || strstr(err.msg, "s3cret"))
            fail_msg("%s", err.msg);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusal),       cmocka_unit_test(test_validity),
        cmocka_unit_test(test_label_lists),   cmocka_unit_test(test_taint_lists),
        cmocka_unit_test(test_enum_names),    cmocka_unit_test(test_find),
        cmocka_unit_test(test_tree),          cmocka_unit_test(test_every_flag),
        cmocka_unit_test(test_objects),       cmocka_unit_test(test_bad_values),
        cmocka_unit_test(test_secret_values),
    };

    return run_group(tests, NULL, NULL);
}
