/*
 * Requirements of a NodeClaim against this instance, and allocatable explained.
 */
#include "groups.h"
#include "plan-fixture.h"

#define MI ((int64_t)1 << 20)

static struct nc_requirement requirement(const char *key, const char *op, struct nc_strv *values) {
    return (struct nc_requirement){.key = (char *)key, .op = (char *)op, .values = *values};
}

/* "m5.large on-demand us-west-2a": is `key op values` met? 1 yes (or not judged), 0 no. */
static int met(struct fixture *x, const char *key, const char *op, const char *values) {
    nc_cleanup(nc_strv_done) struct nc_strv list = NC_STRV_INIT, mismatches = NC_STRV_INIT;
    nc_auto_free char *copy = nc_strdup(values);
    struct nc_claim claim = {0};
    struct nc_requirement r;

    for (char *rest = *copy ? copy : NULL, *item; (item = strsep(&rest, " "));)
        nc_strv_add(&list, item);
    r = requirement(key, op, &list);
    claim.requirements = &r;
    claim.n_requirements = 1;
    nc_requirements_check(&claim, &x->facts, &x->plan, &mismatches);
    if (mismatches.n == 1) {
        assert_non_null(strstr(mismatches.v[0], key));
        assert_non_null(strstr(mismatches.v[0], op));
    }
    return mismatches.n == 0;
}

static void test_operators(void **state) {
    static const struct {
        const char *key, *op, *values;
        int met;
    } rows[] = {
        {"node.kubernetes.io/instance-type", "In", "c5.large m5.large", 1},
        {"node.kubernetes.io/instance-type", "In", "c5.large", 0},
        {"node.kubernetes.io/instance-type", "In", "", 0},
        {"node.kubernetes.io/instance-type", "NotIn", "c5.large", 1},
        {"node.kubernetes.io/instance-type", "NotIn", "m5.large", 0},
        {"topology.kubernetes.io/zone", "In", "us-west-2a", 1},
        {"topology.kubernetes.io/zone", "In", "us-west-2b", 0},
        {"topology.kubernetes.io/region", "In", "us-west-2", 1},
        {"topology.k8s.aws/zone-id", "In", "usw2-az1", 1},
        {"topology.k8s.aws/zone-id", "In", "usw2-az2", 0},
        {"kubernetes.io/arch", "In", "amd64", 1},
        {"kubernetes.io/arch", "In", "arm64", 0},
        {"kubernetes.io/os", "In", "linux", 1},
        {"kubernetes.io/os", "In", "windows", 0},
        {"kubernetes.io/os", "Exists", "", 1},
        {"kubernetes.io/os", "DoesNotExist", "", 0},
        {"karpenter.sh/capacity-type", "In", "on-demand", 1},
        {"karpenter.sh/capacity-type", "In", "reserved", 1},
        {"karpenter.sh/capacity-type", "In", "spot", 0},
        {"karpenter.sh/capacity-type", "NotIn", "spot", 1},
        {"karpenter.sh/capacity-type", "NotIn", "on-demand", 1},
        {"karpenter.sh/capacity-type", "NotIn", "on-demand reserved", 0},
        {"karpenter.k8s.aws/instance-category", "In", "c m r", 1},
        {"karpenter.k8s.aws/instance-category", "In", "c", 0},
        {"eks.amazonaws.com/instance-category", "In", "m", 1},
        {"eks.amazonaws.com/instance-category", "In", "c", 0},
        {"karpenter.k8s.aws/instance-family", "In", "m5", 1},
        {"karpenter.k8s.aws/instance-size", "In", "large", 1},
        {"karpenter.k8s.aws/instance-size", "In", "xlarge", 0},
        {"karpenter.k8s.aws/instance-generation", "Gt", "4", 1},
        {"karpenter.k8s.aws/instance-generation", "Gt", "5", 0},
        {"karpenter.k8s.aws/instance-generation", "Gte", "5", 1},
        {"karpenter.k8s.aws/instance-generation", "Gte", "6", 0},
        {"karpenter.k8s.aws/instance-generation", "Lt", "6", 1},
        {"karpenter.k8s.aws/instance-generation", "Lt", "5", 0},
        {"karpenter.k8s.aws/instance-generation", "Lte", "5", 1},
        {"karpenter.k8s.aws/instance-generation", "Lte", "4", 0},
        {"karpenter.k8s.aws/instance-generation", "Gt", "1 2", 0},
        {"karpenter.k8s.aws/instance-generation", "Gt", "x", 0},
        {"karpenter.k8s.aws/instance-family", "Gt", "1", 0},
        {"karpenter.k8s.aws/instance-cpu", "In", "2 4 8", 1},
        {"karpenter.k8s.aws/instance-cpu", "Gt", "2", 0},
        {"karpenter.k8s.aws/instance-memory", "Gt", "8191", 1},
        {"karpenter.k8s.aws/instance-hypervisor", "In", "nitro", 1},
        {"karpenter.k8s.aws/instance-hypervisor", "In", "xen", 0},
        {"karpenter.k8s.aws/instance-gpu-count", "Gt", "0", 1}, /* not known here: not judged */
        {"karpenter.k8s.aws/instance-gpu-count", "DoesNotExist", "", 1},
        {"example.com/unknown", "In", "a", 1},
        {"example.com/team", "In", "a", 1},
        {"example.com/team", "In", "b", 0},
        {"example.com/team", "DoesNotExist", "", 0},
    };
    struct fixture *x = fixture_new();

    (void)state;
    x->has_config = true;
    nc_strv_add(&x->config.kubelet_flags, "--node-labels=example.com/team=a");
    fixture_plan(x);
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++)
        if (met(x, rows[i].key, rows[i].op, rows[i].values) != rows[i].met)
            fail_msg("%s %s %s", rows[i].key, rows[i].op, rows[i].values);
    x->facts.purchase_option = NC_PURCHASE_SPOT;
    assert_true(met(x, "karpenter.sh/capacity-type", "In", "spot"));
    assert_false(met(x, "karpenter.sh/capacity-type", "In", "on-demand"));
    assert_false(met(x, "karpenter.sh/capacity-type", "NotIn", "spot"));
    x->facts.purchase_option = NC_PURCHASE_CAPACITY_BLOCK;
    assert_true(met(x, "karpenter.sh/capacity-type", "In", "reserved"));
    x->facts.purchase_option = NC_PURCHASE_UNKNOWN;
    assert_true(met(x, "karpenter.sh/capacity-type", "In", "spot"));
    fixture_set(&x->facts.architecture, NULL);
    assert_true(met(x, "kubernetes.io/arch", "In", "amd64"));
    fixture_set(&x->facts.architecture, "arm64");
    assert_true(met(x, "kubernetes.io/arch", "In", "arm64"));
    fixture_free(x);
}

/* Category, family, generation and size as Karpenter's expression takes them from the name. */
static void test_type_names(void **state) {
    static const char *const rows[][5] = {
        {"m5.large", "m", "m5", "5", "large"},
        {"c7g-flex.2xlarge", "c", "c7g-flex", "7", "2xlarge"},
        {"u-6tb1.metal", "u", "u-6tb1", "1", "metal"},
        {"u7in-32tb.224xlarge", "u", "u7in-32tb", "7", "224xlarge"},
        {"is4gen.medium", "is", "is4gen", "4", "medium"},
        {"m5.metal-24xl", "m", "m5", "5", "metal-24xl"},
        {"x1e.xlarge", "x", "x1e", "1", "xlarge"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        fixture_set(&x->facts.instance_type, rows[i][0]);
        assert_true(met(x, "karpenter.k8s.aws/instance-category", "In", rows[i][1]));
        assert_false(met(x, "karpenter.k8s.aws/instance-category", "NotIn", rows[i][1]));
        assert_false(met(x, "karpenter.k8s.aws/instance-family", "NotIn", rows[i][2]));
        assert_false(met(x, "karpenter.k8s.aws/instance-generation", "NotIn", rows[i][3]));
        assert_false(met(x, "karpenter.k8s.aws/instance-size", "NotIn", rows[i][4]));
        fixture_free(x);
    }
}

static void test_message(void **state) {
    nc_cleanup(nc_strv_done) struct nc_strv values = NC_STRV_INIT, mismatches = NC_STRV_INIT;
    struct fixture *x = fixture_new();
    struct nc_requirement r;
    struct nc_claim claim = {.requirements = &r, .n_requirements = 1};

    (void)state;
    for (int i = 0; i < 60; i++)
        nc_strv_addf(&values, "c%d.large", i);
    r = requirement("node.kubernetes.io/instance-type", "In", &values);
    nc_requirements_check(&claim, &x->facts, &x->plan, &mismatches);
    assert_int_equal(mismatches.n, 1);
    assert_string_equal(mismatches.v[0], "requirement node.kubernetes.io/instance-type In "
                                         "[c0.large, c1.large, c2.large, c3.large, c4.large, "
                                         "c5.large, c6.large, c7.large, c8.large, c9.large, …] is "
                                         "not met: this instance has m5.large");
    fixture_free(x);
}

static void expect_sentences(const struct nc_plan *p, const char *capacity, const char *allocatable,
                             const char *claim, const char *const *parts) {
    nc_cleanup(nc_strv_done) struct nc_strv s = NC_STRV_INIT;
    nc_auto_value struct nc_value *c = json(capacity), *a = json(allocatable);
    nc_auto_value struct nc_value *promised = claim ? json(claim) : NULL;
    struct nc_claim k = {.allocatable = promised};
    size_t n = 0;

    nc_allocatable_explain(p, c, a, claim ? &k : NULL, &s);
    for (; parts[n]; n++)
        if (n >= s.n || !strstr(s.v[n], parts[n]))
            fail_msg("sentence %zu: \"%s\" instead of \"%s\"", n, n < s.n ? s.v[n] : "(none)",
                     parts[n]);
    if (s.n != n)
        fail_msg("one too many: %s", s.v[n]);
}

static void test_explain(void **state) {
    struct fixture *x = fixture_new();
    const struct nc_plan *p = &x->plan;

    (void)state;
    x->has_config = true;
    x->facts.mem_total_bytes = 7900 * MI;
    fixture_plan(x);
    expect_sentences(p, "{'cpu':'2','memory':'7900Mi','pods':'29'}",
                     "{'cpu':'1930m','memory':'7226Mi','pods':'29'}", NULL,
                     (const char *const[]){NULL});
    expect_sentences(
        p, "{'cpu':'2','memory':'7900Mi','pods':'29'}",
        "{'cpu':'1900m','memory':'7226Mi','pods':'29'}", NULL,
        (const char *const[]){
            "cpu: kubelet reports 1900m, predicted was 1930m: kubelet reserves something else",
            NULL});
    expect_sentences(
        p, "{'cpu':'1','memory':'7000Mi','pods':'29'}",
        "{'cpu':'930m','memory':'6326Mi','pods':'29'}", NULL,
        (const char *const[]){
            "cpu: kubelet reports 930m, predicted was 1930m: its capacity is 1, the facts have 2",
            "its capacity is 7000Mi, the facts have 7900Mi", NULL});
    expect_sentences(p, "{'memory':'7900Mi','hugepages-2Mi':'1Gi','hugepages-1Gi':'0'}",
                     "{'memory':'6202Mi'}", NULL,
                     (const char *const[]){"huge pages use the difference", NULL});
    expect_sentences(
        p, "{}", "{}",
        "{'cpu':'1930m','memory':'6903Mi','ephemeral-storage':'17Gi','pods':'110','vpc.amazonaws."
        "com/pod-eni':'9'}",
        (const char *const[]){
            "memory: the node offers 7226Mi, the NodeClaim has 6903Mi: Karpenter subtracts 7.5%",
            "ephemeral-storage: the node offers 18253610976, the NodeClaim has 17Gi",
            "pods: the node offers 29, the NodeClaim has 110: maxPods here is 29", NULL});
    expect_sentences(p, "null", "null", "{'memory':'9000Mi'}",
                     (const char *const[]){"the host has less memory", NULL});
    x->config.reservation = NC_RESERVATION_ACTUAL;
    nc_strv_add(&x->config.kubelet_flags, "--max-pods=110");
    fixture_plan(x);
    expect_sentences(p, "null", "null", "{'memory':'6903Mi', 'pods': '110'}",
                     (const char *const[]){
                         "kubeReserved here is 1465Mi, Karpenter assumes 574Mi for 29 pods", NULL});
    fixture_free(x);

    x = fixture_new();
    x->has_config = true;
    x->facts.cpus = 1;
    fixture_plan(x);
    expect_sentences(&x->plan, "null", "null", "{'cpu':'1930m'}",
                     (const char *const[]){"1 of the type's 2 vCPUs are online", NULL});
    x->facts.cpus = 2;
    nc_strv_add(&x->config.kubelet_flags, "--system-reserved=cpu=100m");
    fixture_plan(x);
    expect_sentences(&x->plan, "null", "null", "{'cpu':'1930m'}",
                     (const char *const[]){"kubeReserved or systemReserved differ", NULL});
    fixture_free(x);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operators),
        cmocka_unit_test(test_type_names),
        cmocka_unit_test(test_message),
        cmocka_unit_test(test_explain),
    };

    return run_group(tests, NULL, NULL);
}
