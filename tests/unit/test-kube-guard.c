/*
 * The rules on the wire: what a node may say about itself, and nothing else.
 */
#include "kube-script.h"

#include "wire.h"

static const struct {
    const char *method, *path, *body;
    enum nc_kube_patch patch;
    const char *refused; /* a part of the message, NULL = allowed */
} rules[] = {
    {"GET", "/api/v1/nodes/a", NULL, 0, NULL},
    {"GET", "/api/v1/nodes?fieldSelector=metadata.name%3Da", NULL, 0, NULL},
    {"GET", "/api/v1/nodes?limit=1", NULL, 0, "without a field selector"},
    {"GET", "/api/v1/pods", NULL, 0, "without a field selector"},
    {"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Da", NULL, 0, NULL},
    {"GET", "/apis/karpenter.sh/v1/nodeclaims?labelSelector=x", NULL, 0, NULL},
    {"PUT", "/api/v1/nodes/a", "{}", 0, "only GET, POST, PATCH and DELETE"},
    {"PUT", "/api/v1/namespaces/default/events/x", "{}", 0, "only GET, POST, PATCH and DELETE"},
    {"POST", "/api/v1/nodes?fieldSelector=x", "{}", 0, "only ever read or patched"},
    {"DELETE", "/api/v1/nodes/a", NULL, 0, "only ever read or patched"},
    {"DELETE", "/api/v1/namespaces/x/pods/y", NULL, 0, NULL},
    {"GET", "api/v1/nodes/a", NULL, 0, "starts with a slash"},
    {"GET", NULL, NULL, 0, "starts with a slash"},
    {"GET", "/api/v1/nodes/a b", NULL, 0, "not encoded"},
    {"GET", "/api/v1/nodes/a\r\nX:y", NULL, 0, "not encoded"},
    {"GET", "/api/v1/nodes/a#b", NULL, 0, "not encoded"},
    {NULL, "/x", NULL, 0, "only GET"},
    {"PATCH", "/x", "{}", 0, "belong together"},
    {"GET", "/x", "{}", NC_KUBE_PATCH_MERGE, "belong together"},
    {"PATCH", "/api/v1/nodes/a", NULL, NC_KUBE_PATCH_MERGE, "must be a map"},
    {"PATCH", "/api/v1/nodes/a", "[]", NC_KUBE_PATCH_MERGE, "must be a map"},
    {"PATCH", "/api/v1/nodes/", "{}", NC_KUBE_PATCH_MERGE, "only a Node and its status"},
    {"PATCH", "/api/v1/nodes/a/proxy", "{}", NC_KUBE_PATCH_MERGE, "only a Node and its status"},
    {"PATCH", "/api/v1/nodes/a",
     "{'metadata':{'annotations':{'nodeclaimd.io/bootstrap':'x','nodeclaimd.io/y':null}}}",
     NC_KUBE_PATCH_MERGE, NULL},
    {"PATCH", "/api/v1/nodes/a?x=y",
     "{'metadata':{'uid':'u','resourceVersion':'5','labels':{'node.kubernetes.io/"
     "exclude-from-external-load-balancers':"
     "'nodeclaimd'}},'spec':{'unschedulable':true}}",
     NC_KUBE_PATCH_STRATEGIC, NULL},
    {"PATCH", "/api/v1/nodes/a", "{'spec':{'unschedulable':null}}", NC_KUBE_PATCH_MERGE, NULL},
    {"PATCH", "/api/v1/nodes/a", "{'spec':{'unschedulable':'yes'}}", NC_KUBE_PATCH_MERGE,
     "true, false or null"},
    {"PATCH", "/api/v1/nodes/a", "{'spec':{'taints':[]}}", NC_KUBE_PATCH_MERGE, "not ours: taints"},
    {"PATCH", "/api/v1/nodes/a", "{'spec':{'providerID':''}}", NC_KUBE_PATCH_MERGE,
     "not ours: providerID"},
    {"PATCH", "/api/v1/nodes/a", "{'spec':null}", NC_KUBE_PATCH_MERGE, "spec must be a map"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'finalizers':[]}}", NC_KUBE_PATCH_MERGE,
     "not ours: finalizers"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'ownerReferences':null}}", NC_KUBE_PATCH_MERGE,
     "not ours: ownerReferences"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':null}", NC_KUBE_PATCH_MERGE,
     "metadata must be a map"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'labels':null}}", NC_KUBE_PATCH_MERGE,
     "labels must be a map"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'labels':{'karpenter.sh/initialized':'true'}}}",
     NC_KUBE_PATCH_MERGE, "label that is not ours"},
    {"PATCH", "/api/v1/nodes/a",
     "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'}}}", NC_KUBE_PATCH_MERGE,
     "annotation that is not"},
    {"PATCH", "/api/v1/nodes/a",
     "{'metadata':{'annotations':{'nodeclaimd.io/a':'1','karpenter.sh/x':'true'}}}",
     NC_KUBE_PATCH_MERGE, "karpenter.sh/x"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'annotations':null}}", NC_KUBE_PATCH_MERGE,
     "annotations must be a map"},
    {"PATCH", "/api/v1/nodes/a", "{'$patch':'replace'}", NC_KUBE_PATCH_STRATEGIC,
     "not ours: $patch"},
    {"PATCH", "/api/v1/nodes/a", "{'status':{'conditions':[]}}", NC_KUBE_PATCH_STRATEGIC,
     "not ours: status"},
    {"PATCH", "/api/v1/nodes/a/status", "{'spec':{'unschedulable':true}}", NC_KUBE_PATCH_STRATEGIC,
     "not ours: spec"},
    {"PATCH", "/api/v1/nodes/a/status",
     "{'status':{'conditions':[{'type':'Drained','status':'True'}]}}", NC_KUBE_PATCH_STRATEGIC,
     NULL},
    {"PATCH", "/api/v1/nodes/a/status",
     "{'status':{'conditions':[{'type':'Drained','status':'True'}]}}", NC_KUBE_PATCH_MERGE,
     "strategic"},
    {"PATCH", "/api/v1/nodes/a/status",
     "{'status':{'conditions':[{'type':'Ready','status':'True'}]}}", NC_KUBE_PATCH_STRATEGIC,
     "not ours: Ready"},
    {"PATCH", "/api/v1/nodes/a/status", "{'status':{'conditions':[{'status':'True'}]}}",
     NC_KUBE_PATCH_STRATEGIC, "(no type)"},
    {"PATCH", "/api/v1/nodes/a/status",
     "{'status':{'conditions':[{'type':'Drained','$patch':'delete'}]}}", NC_KUBE_PATCH_STRATEGIC,
     "$patch"},
    {"PATCH", "/api/v1/nodes/a/status", "{'status':{'allocatable':{}}}", NC_KUBE_PATCH_STRATEGIC,
     "list of conditions"},
    {"PATCH", "/api/v1/nodes/a/status", "{'status':{'conditions':[],'addresses':[]}}",
     NC_KUBE_PATCH_STRATEGIC, "list of conditions"},
    {"PATCH", "/api/v1/nodes/a/status", "{'status':{'conditions':null}}", NC_KUBE_PATCH_STRATEGIC,
     "list of conditions"},
};

static void test_rules(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rules); i++) {
        nc_auto_value struct nc_value *body = rules[i].body ? js(rules[i].body) : NULL;
        const struct nc_kube_call c = {.what = "test",
                                       .method = rules[i].method,
                                       .path = rules[i].path,
                                       .body = body,
                                       .patch = rules[i].patch,
                                       .timeout_usec = 1000000};
        struct nc_err err = NC_ERR_INIT;
        print_message("# row %zu\n", i);
        if (!rules[i].refused) {
            assert_int_equal(nc_kube_guard(&c, &err), 0);
            continue;
        }
        assert_true(nc_kube_guard(&c, &err) < 0);
        assert_int_equal(err.class, NC_ERR_BUG);
        assert_non_null(strstr(err.msg, rules[i].refused));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
