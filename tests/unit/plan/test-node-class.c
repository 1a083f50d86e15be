/*
 * What Karpenter evaluates of an EC2NodeClass, and what it counts on.
 */
#include "groups.h"
#include "plan-fixture.h"

#define CLASS(kubelet)                                                                             \
    "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nspec: {kubelet: {" kubelet "}}\n"

/* m5.large: 2 vCPUs, 8192 MiB, 29 pods. */
static void test_evaluated(void **state) {
    static const struct {
        const char *class, *field, *value;
    } rows[] = {
        {CLASS("maxPods: 'min(20, max_pods)'"), "maxPods", "20"},
        {CLASS("maxPods: int(double(max_pods) * 0.9)"), "maxPods", "26"},
        {CLASS("maxPods: '110'"), "maxPods", "110"},
        {CLASS("maxPods: '0'"), "maxPods", "0"},
        {CLASS("maxPods: max_pods, podsPerCore: 4"), "maxPods", "8"},
        {CLASS("kubeReserved: {cpu: vcpus * 33}"), "kubeReserved.cpu", "70m"},
        {CLASS("kubeReserved: {cpu: vcpus * 30}"), "kubeReserved.cpu", "60m"},
        {CLASS("kubeReserved: {memory: 'double(memory_mib) * 0.0123'}"), "kubeReserved.memory",
         "112Mi"},
        {CLASS("kubeReserved: {memory: 11 * max_pods + 255}, maxPods: 20"), "kubeReserved.memory",
         "480Mi"},
        {CLASS("kubeReserved: {memory: 11 * max_pods + 255}, podsPerCore: 1"),
         "kubeReserved.memory", "288Mi"},
        {CLASS("kubeReserved: {ephemeral-storage: vcpus}"), "kubeReserved.ephemeral-storage",
         "2Gi"},
        {CLASS("systemReserved: {pid: vcpus * 501}"), "systemReserved.pid", "1002"},
        {CLASS("systemReserved: {cpu: 150m}"), "systemReserved.cpu", "150m"},
        {CLASS("systemReserved: {cpu: 150m, memory: 1 - vcpus}"), "systemReserved.memory", "none"},
        {CLASS("systemReserved: {cpu: 100 / (vcpus - 2), memory: 1Mi}"), "systemReserved.cpu",
         "none"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const char *const documents[] = {rows[i].class, NULL};
        struct fixture *x = fixture_with(documents, "");
        nc_auto_free char *field = nc_asprintf("spec.kubelet.config.%s", rows[i].field);

        print_message("# %s\n", rows[i].class);
        fixture_plan(x);
        assert_string_equal(fixture_value(&x->plan, field), rows[i].value);
        fixture_free(x);
    }
}

static void test_refused(void **state) {
    static const struct {
        const char *class, *words;
    } rows[] = {
        {CLASS("maxPods: vcpu"), "spec.kubelet.maxPods: no number, nor an expression that can be "
                                 "evaluated: column 1: unknown name 'vcpu'"},
        {CLASS("maxPods: 1 - max_pods"), "spec.kubelet.maxPods: no number, nor an expression that "
                                         "can be evaluated: the result -28 is not between 0"},
        {CLASS("kubeReserved: {cpu: 10 * 2)}"),
         "spec.kubelet.kubeReserved.cpu: no quantity, nor an expression that can be evaluated: "
         "column 7: unexpected"},
        {CLASS("systemReserved: {cpu: 'vcpus > 1'}"),
         "spec.kubelet.systemReserved.cpu: no quantity, nor an expression that can be evaluated: "
         "column 10: the result"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const char *const documents[] = {rows[i].class, NULL};
        struct fixture *x = fixture_with(documents, "");

        fixture_refused(x, NC_ERR_CONFIG, rows[i].words);
        fixture_free(x);
    }
}

/* Where the type is not known, only what is no expression is refused. */
static void test_unknown_type(void **state) {
    static const char *const fine[] = {CLASS("maxPods: max_pods, kubeReserved: {cpu: vcpus}"),
                                       NULL};
    static const char *const wrong[] = {CLASS("maxPods: vcpu"), NULL};
    struct fixture *x = fixture_with(fine, "");

    (void)state;
    fixture_type(x, "x9.huge", 4);
    fixture_plan(x);
    assert_string_equal(fixture_value(&x->plan, "spec.kubelet.config.maxPods"), "110");
    assert_true(nc_strv_contains(&x->plan.warnings,
                                 "document 2:3:27: spec.kubelet.maxPods: left out: the instance "
                                 "type is not known"));
    fixture_free(x);
    x = fixture_with(wrong, "");
    fixture_type(x, "x9.huge", 4);
    fixture_refused(x, NC_ERR_CONFIG, "unknown name 'vcpu'");
    fixture_free(x);
}

/* Karpenter reads its NodeClass, or writes a NodeConfig of it, and knows of no other document. */
static void test_counts_on(void **state) {
    static const char karpenters[] =
        "    config: {maxPods: 29, registerWithTaints: [{key: karpenter.sh/unregistered, effect: "
        "NoExecute}]}\n";
    static const char other[] =
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: "
        "{kubelet: {config: {systemReserved: {memory: 1Gi}, maxPods: 20}}}\n";
    static const char *const own[] = {other, NULL};
    static const char *const class[] = {CLASS("systemReserved: {cpu: 100m}"), other, NULL};
    static const char *const cpus[] = {CLASS("reservedSystemCPUs: '0'"), NULL};
    struct fixture *x = fixture_with(own, karpenters);

    (void)state;
    fixture_plan(x);
    assert_string_equal(fixture_value(&x->plan, "karpenter.allocatable.pods"), "29");
    assert_string_equal(fixture_value(&x->plan, "karpenter.allocatable.cpu"), "1930m");
    assert_int_equal(x->plan.less.n, 2);
    assert_string_equal(x->plan.less.v[0],
                        "allocatable memory of m5.large: 6494Mi, but Karpenter expects 6903Mi: it "
                        "reads spec.kubelet of the EC2NodeClass, and no other document; set there, "
                        "too, what others set");
    assert_true(nc_starts_with(x->plan.less.v[1], "allocatable pods of m5.large: 20, but "));
    fixture_free(x);
    x = fixture_with(class, "");
    fixture_plan(x);
    assert_string_equal(fixture_value(&x->plan, "karpenter.allocatable.cpu"), "1830m");
    assert_string_equal(fixture_value(&x->plan, "karpenter.allocatable.pods"), "29");
    fixture_free(x);
    x = fixture_with(cpus, "");
    fixture_plan(x);
    assert_int_equal(x->plan.less.n, 1);
    assert_true(nc_starts_with(x->plan.less.v[0],
                               "allocatable cpu of m5.large: 1, but Karpenter expects 1930m: "));
    fixture_free(x);
    /* Without any of them nobody says what Karpenter counts on, or whether it is there. */
    x = fixture_with(own, "");
    fixture_plan(x);
    assert_int_equal(x->plan.less.n, 0);
    fixture_free(x);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_evaluated),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_unknown_type),
        cmocka_unit_test(test_counts_on),
    };

    return run_group(tests, NULL, NULL);
}
