/*
 * Labels that are facts of the instance.
 */
#include "groups.h"
#include "plan-fixture.h"

#include <errno.h>

#define AGENT(spec) "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {" spec "}\n"

static void test_labels_from(void **state) {
    static const char *const labels[] = {
        AGENT("node: {labelsFrom: {example.com/partition: placement/partition-number, "
              "example.com/team: tags/instance/team, kubernetes.io/role: ami-id}}"),
        NULL};
    static const char *const warn[] = {
        AGENT("node: {labelsFrom: {example.com/team: tags/instance/team}}, bootstrap: "
              "{unsupported: warn}"),
        NULL};
    struct fixture *x = fixture_with(labels, "");
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    assert_int_equal(nc_facts_add_metadata(&x->facts, "placement/partition-number", "3\n", 2, &err),
                     0);
    assert_int_equal(nc_facts_add_metadata(&x->facts, "tags/instance/team", NULL, 0, &err), 0);
    fixture_plan(x);
    assert_int_equal(x->plan.n_labels, 1);
    assert_string_equal(x->plan.labels[0].value, "3");
    assert_string_equal(fixture_value(&x->plan, "labels[example.com/partition]"), "3");
    assert_int_equal(x->plan.n_certain, 1);
    assert_true(nc_strv_contains(&x->plan.warnings,
                                 "label example.com/team from document 2:3:97: this instance has "
                                 "no tags/instance/team, or its metadata options do not let IMDS "
                                 "serve tags: left out"));
    fixture_free(x);
    x = fixture_with(labels, "");
    assert_int_equal(nc_facts_add_metadata(&x->facts, "tags/instance/team", "a b", 3, &err), 0);
    fixture_refused(x, NC_ERR_CONFIG,
                    "spec.node.labelsFrom: is not supported: example.com/team: tags/instance/team: "
                    "invalid label value: 'a b'");
    fixture_free(x);
    x = fixture_with(warn, "");
    assert_int_equal(nc_facts_add_metadata(&x->facts, "tags/instance/team", "a b", 3, &err), 0);
    fixture_plan(x);
    assert_int_equal(x->plan.n_labels, 0);
    assert_int_equal(x->plan.unsupported.n, 1);
    assert_int_equal(nc_facts_add_metadata(&x->facts, "ami-id", "\x01", 1, &err), -EBADMSG);
    assert_int_equal(err.class, NC_ERR_PROTOCOL);
    fixture_free(x);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels_from),
    };

    return run_group(tests, NULL, NULL);
}
