/*
 * The rules on the wire: what a node may say about itself, and nothing else.
 */
#include "groups.h"
#include "kube-script.h"

#include "wire.h"

#define POD "/api/v1/namespaces/x/pods/y"
#define DELETION(grace)                                                                            \
    "{'apiVersion':'v1','kind':'DeleteOptions','preconditions':{'uid':'u'},'gracePeriodSeconds'"   \
    ":" grace "}"
#define EVICTION(name, namespace, options)                                                         \
    "{'apiVersion':'policy/v1','kind':'Eviction','metadata':{'name':'" name                        \
    "','namespace':'" namespace "'},'deleteOptions':{" options "}}"
#define MARK(type, metadata)                                                                       \
    "{'metadata':{" metadata "},'status':{'conditions':[{'type':'" type "','status':'True'}]}}"

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
    {"GET", "/api/v1/namespaces/x/pods", NULL, 0, "without a field selector"},
    {"GET", "/api/v1/namespaces/x/pods?fieldSelector=spec.nodeName%3Da", NULL, 0, NULL},
    {"GET", "/api/v1/namespaces/x/pods/y", NULL, 0, NULL},
    {"GET", "/api/v1/nodes/a", "{}", 0, "a GET with a body"},
    /* What is written, and where nothing is. */
    {"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}", 0, NULL},
    {"POST", "/apis/authentication.k8s.io/v1beta1/selfsubjectreviews", "{}", 0, NULL},
    {"PATCH", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}", NC_KUBE_PATCH_MERGE,
     "nothing is written there"},
    {"POST", "/x", "{}", 0, "nothing is written there: /x"},
    {"DELETE", "/apis/karpenter.sh/v1/nodeclaims/c", NULL, 0, "nothing is written there"},
    {"PATCH", "/apis/karpenter.sh/v1/nodeclaims/c", "{}", NC_KUBE_PATCH_MERGE, "nothing is"},
    {"DELETE", "/api/v1/namespaces/x", NULL, 0, "nothing is written there"},
    {"DELETE", "/api/v1/namespaces/x/pods", NULL, 0, "nothing is written there"},
    {"DELETE", "/api/v1/namespaces//pods/y", NULL, 0, "nothing is written there"},
    {"POST", "/api/v1/namespaces/x/secrets", "{}", 0, "nothing is written there"},
    {"DELETE", "/api/v1/nodesx/a", NULL, 0, "nothing is written there"},
    {"GET", "/api/v1/namespaces/../nodes", NULL, 0, "a dot for a name"},
    {"DELETE", "/api/v1/namespaces/x/pods/..", NULL, 0, "a dot for a name"},
    {"GET", "/api/v1/nodes/.", NULL, 0, "a dot for a name"},
    {"GET", "/api/v1/nodes/..a?x=/../", NULL, 0, NULL},
    /* Deletions. */
    {"DELETE", POD, DELETION("1"), 0, NULL},
    {"DELETE", POD, "{'preconditions':{'uid':'u'}}", 0, NULL},
    {"DELETE", POD, DELETION("0"), 0, "a number from 1"},
    {"DELETE", POD, DELETION("-1"), 0, "a number from 1"},
    {"DELETE", POD, DELETION("null"), 0, "a number from 1"},
    {"DELETE", POD, DELETION("1.5"), 0, "a number from 1"},
    {"DELETE", POD, NULL, 0, "with its uid and grace only"},
    {"DELETE", POD, "{'gracePeriodSeconds':5}", 0, "without its uid"},
    {"DELETE", POD, "{'preconditions':{'uid':''}}", 0, "without its uid"},
    {"DELETE", POD, "{'preconditions':{'uid':'u','resourceVersion':'5'}}", 0, "without its uid"},
    {"DELETE", POD, "{'preconditions':{'uid':'u'},'propagationPolicy':'Orphan'}", 0, "only"},
    {"DELETE", POD "?gracePeriodSeconds=0", DELETION("1"), 0, "nothing is written there"},
    {"DELETE", POD "/status", DELETION("1"), 0, "only ever evicted, deleted or marked"},
    {"DELETE", "/api/v1/namespaces/x/pods/", DELETION("1"), 0, "only ever evicted"},
    {"PATCH", POD, "{}", NC_KUBE_PATCH_MERGE, "only ever evicted, deleted or marked"},
    {"POST", "/api/v1/namespaces/x/pods", "{}", 0, "nothing is written there"},
    {"POST", POD "/exec", "{}", 0, "only ever evicted, deleted or marked"},
    {"POST", POD "/binding", "{}", 0, "only ever evicted, deleted or marked"},
    /* Evictions. */
    {"POST", POD "/eviction", EVICTION("y", "x", "'preconditions':{'uid':'u'}"), 0, NULL},
    {"POST", POD "/eviction",
     EVICTION("y", "x", "'gracePeriodSeconds':5,'preconditions':{'uid':'u'}"), 0, NULL},
    {"POST", POD "/eviction",
     EVICTION("y", "x", "'gracePeriodSeconds':0,'preconditions':{'uid':'u'}"), 0, "from 1"},
    {"POST", POD "/eviction", EVICTION("y", "x", ""), 0, "without its uid"},
    {"POST", POD "/eviction", EVICTION("y", "z", "'preconditions':{'uid':'u'}"), 0, "another pod"},
    {"POST", POD "/eviction", EVICTION("yy", "x", "'preconditions':{'uid':'u'}"), 0, "another pod"},
    {"POST", POD "/eviction", EVICTION("y", "x", "'preconditions':{'uid':'u'},'dryRun':['All']"), 0,
     "not needed"},
    {"POST", POD "/eviction", "{'apiVersion':'policy/v1beta1','kind':'Eviction'}", 0, "policy/v1"},
    {"POST", POD "/eviction", NULL, 0, "policy/v1"},
    {"POST", POD "/eviction/x", EVICTION("y", "x", "'preconditions':{'uid':'u'}"), 0, "only ever"},
    /* Marks. */
    {"PATCH", POD "/status", MARK("DisruptionTarget", "'uid':'u'"), NC_KUBE_PATCH_STRATEGIC, NULL},
    {"PATCH", POD "/status", MARK("DisruptionTarget", "'uid':'u'"), NC_KUBE_PATCH_MERGE,
     "strategic"},
    {"PATCH", POD "/status", MARK("DisruptionTarget", ""), NC_KUBE_PATCH_STRATEGIC, "its uid"},
    {"PATCH", POD "/status", MARK("DisruptionTarget", "'uid':'u','labels':{}"),
     NC_KUBE_PATCH_STRATEGIC, "its uid"},
    {"PATCH", POD "/status", MARK("Ready", "'uid':'u'"), NC_KUBE_PATCH_STRATEGIC,
     "not the condition DisruptionTarget"},
    {"PATCH", POD "/status", "{'metadata':{'uid':'u'},'status':{'conditions':[]}}",
     NC_KUBE_PATCH_STRATEGIC, "not the condition"},
    {"PATCH", POD "/status", "{'metadata':{'uid':'u'},'status':{'phase':'Failed'}}",
     NC_KUBE_PATCH_STRATEGIC, "not the condition"},
    {"PATCH", POD "/status",
     "{'metadata':{'uid':'u'},'status':{'conditions':[{'type':'DisruptionTarget','$patch':"
     "'delete'}]}}",
     NC_KUBE_PATCH_STRATEGIC, "not the condition"},
    {"PATCH", POD "/status", NULL, NC_KUBE_PATCH_STRATEGIC, "not the condition"},
    /* Events. */
    {"POST", "/api/v1/namespaces/default/events", "{'apiVersion':'v1','kind':'Event'}", 0, NULL},
    {"POST", "/api/v1/namespaces/default/events", "{'apiVersion':'v1','kind':'Pod'}", 0, "one of"},
    {"POST", "/api/v1/namespaces/default/events", NULL, 0, "one of v1"},
    {"POST", "/api/v1/namespaces/a/events",
     "{'apiVersion':'v1','kind':'Event','involvedObject':{'kind':'Pod','namespace':'a'}}", 0, NULL},
    {"POST", "/api/v1/namespaces/a/events",
     "{'apiVersion':'v1','kind':'Event','involvedObject':{'kind':'Pod','namespace':'b'}}", 0,
     "of a pod there"},
    {"POST", "/api/v1/namespaces/a/events",
     "{'apiVersion':'v1','kind':'Event','involvedObject':{'kind':'Node','namespace':'a'}}", 0,
     "of a pod there"},
    {"POST", "/api/v1/namespaces/a/events", "{'apiVersion':'v1','kind':'Event'}", 0,
     "of a pod there"},
    {"PATCH", "/api/v1/namespaces/default/events/a.1", "{'count':2}", NC_KUBE_PATCH_MERGE, NULL},
    {"PATCH", "/api/v1/namespaces/default/events/a.1", "{'type':'x'}", NC_KUBE_PATCH_MERGE,
     "a part of an Event"},
    {"PATCH", "/api/v1/namespaces/default/events/", "{'count':2}", NC_KUBE_PATCH_MERGE,
     "only ever"},
    {"DELETE", "/api/v1/namespaces/default/events/a.1", NULL, 0, "never DELETE"},
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
    {"PATCH", "/api/v1/nodes/a",
     "{'metadata':{'labels':{'node.kubernetes.io/exclude-from-external-load-balancers':null}}}",
     NC_KUBE_PATCH_MERGE, NULL},
    {"PATCH", "/api/v1/nodes/a",
     "{'metadata':{'labels':{'node.kubernetes.io/exclude-from-external-load-balancers':'karpenter'}"
     "}}",
     NC_KUBE_PATCH_MERGE, "a value that is not ours"},
    {"PATCH", "/api/v1/nodes/a/status",
     "{'metadata':{'annotations':{'nodeclaimd.io/drain-status':'{}'}},"
     "'status':{'conditions':[{'type':'InterruptionPending','status':'True'}]}}",
     NC_KUBE_PATCH_STRATEGIC, NULL},
    {"PATCH", "/api/v1/nodes/a/status",
     "{'status':{'conditions':[{'type':'InterruptionNoticesUnavailable','status':'True'}]}}",
     NC_KUBE_PATCH_STRATEGIC, NULL},
    {"PATCH", "/api/v1/nodes/a/status",
     "{'metadata':{'annotations':{'nodeclaimd.io/fit':'{}'}},"
     "'status':{'conditions':[{'type':'nodeclaimd.io/Fit','status':'True'}]}}",
     NC_KUBE_PATCH_STRATEGIC, NULL},
    {"PATCH", "/api/v1/nodes/a/status", "{'metadata':{'annotations':{'a/b':'c'}}}",
     NC_KUBE_PATCH_STRATEGIC, "not ours: a/b"},
    {"PATCH", "/api/v1/nodes/a/status", "{'metadata':{'uid':'u','resourceVersion':'5'}}",
     NC_KUBE_PATCH_STRATEGIC, NULL},
    {"PATCH", "/api/v1/nodes/a", "{'spec':{'unschedulable':null}}", NC_KUBE_PATCH_MERGE, NULL},
    {"PATCH", "/api/v1/nodes/a", "{'spec':{'unschedulable':'yes'}}", NC_KUBE_PATCH_MERGE,
     "true, false or null"},
    {"PATCH", "/api/v1/nodes/a", "{'spec':{'taints':[]}}", NC_KUBE_PATCH_MERGE, "not ours: taints"},
    {"PATCH", "/api/v1/nodes/a", "{'spec':{'providerID':''}}", NC_KUBE_PATCH_MERGE,
     "not ours: providerID"},
    {"PATCH", "/api/v1/nodes/a", "{'spec':null}", NC_KUBE_PATCH_MERGE, "must be a map: spec"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'finalizers':[]}}", NC_KUBE_PATCH_MERGE,
     "not ours: finalizers"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'ownerReferences':null}}", NC_KUBE_PATCH_MERGE,
     "not ours: ownerReferences"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':null}", NC_KUBE_PATCH_MERGE,
     "must be a map: metadata"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'labels':null}}", NC_KUBE_PATCH_MERGE,
     "must be a map: labels"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'labels':{'karpenter.sh/initialized':'true'}}}",
     NC_KUBE_PATCH_MERGE, "not ours: karpenter.sh/initialized"},
    {"PATCH", "/api/v1/nodes/a",
     "{'metadata':{'annotations':{'karpenter.sh/do-not-disrupt':'true'}}}", NC_KUBE_PATCH_MERGE,
     "not ours: karpenter.sh/do-not-disrupt"},
    {"PATCH", "/api/v1/nodes/a",
     "{'metadata':{'annotations':{'nodeclaimd.io/a':'1','karpenter.sh/x':'true'}}}",
     NC_KUBE_PATCH_MERGE, "karpenter.sh/x"},
    {"PATCH", "/api/v1/nodes/a", "{'metadata':{'annotations':null}}", NC_KUBE_PATCH_MERGE,
     "must be a map: annotations"},
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

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
    };

    return run_group(tests, NULL, NULL);
}
