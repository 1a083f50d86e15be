/*
 * maxPods: the cap, and the mode for security groups for pods.
 */
#include "groups.h"
#include "plan-fixture.h"

#define AGENT(spec) "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {" spec "}\n"

static void test_at_most(void **state) {
    static const char *const cap[] = {AGENT("maxPods: {atMost: 20}"), NULL};
    static const char *const high[] = {AGENT("maxPods: {atMost: 250}"), NULL};
    struct fixture *x = fixture_with(cap, "");
    size_t n = 0;

    (void)state;
    fixture_plan(x);
    assert_int_equal(x->plan.max_pods, 20);
    fixture_free(x);
    x = fixture_with(cap, "    config: {maxPods: 29}\n");
    fixture_plan(x);
    assert_int_equal(x->plan.max_pods, 20);
    for (size_t i = 0; i < x->plan.n_origins; i++)
        if (nc_streq(x->plan.origins[i].field, "spec.kubelet.config.maxPods")) {
            assert_string_equal(x->plan.origins[i].from, "document 2:3:26, spec.maxPods.atMost");
            assert_true(nc_starts_with(x->plan.origins[i].overrode, "29 from document 1:"));
            n++;
        }
    assert_int_equal(n, 1);
    fixture_free(x);
    x = fixture_with(high, "    config: {maxPods: 29}\n");
    fixture_plan(x);
    assert_int_equal(x->plan.max_pods, 29);
    fixture_free(x);
    x = fixture_with(cap, "    flags: [--max-pods=29]\n");
    fixture_refused(x, NC_ERR_CONFIG,
                    "spec.maxPods.atMost: is not supported: kubelet's flag --max-pods states more");
    fixture_free(x);
}

/* branch_enis of the table: a t3 has no trunk, and keeps all interfaces. */
static void test_security_groups(void **state) {
    static const char *const mode[] = {AGENT("maxPods: {mode: security-groups-for-pods}"), NULL};
    static const struct {
        const char *type;
        int64_t pods;
    } rows[] = {{"m5.large", 20}, {"m6i.large", 20}, {"t3.large", 35}, {"c5.4xlarge", 205}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_with(mode, "");

        fixture_type(x, rows[i].type, 2);
        fixture_plan(x);
        assert_int_equal(x->plan.max_pods, rows[i].pods);
        fixture_free(x);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_most),
        cmocka_unit_test(test_security_groups),
    };

    return run_group(tests, NULL, NULL);
}
