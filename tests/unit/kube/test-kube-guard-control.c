/*
 * The rules on the wire for the controller: marks, conditions and ends of Nodes and claims, and
 * nothing else.
 */
#include "groups.h"
#include "kube-script.h"

#include "nc/kube-control.h"
#include "wire.h"

#define NODE "/api/v1/nodes/a"
#define CLAIM "/apis/karpenter.sh/v1/nodeclaims/c-1"
#define LEASES "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
#define MERGE NC_KUBE_PATCH_MERGE
#define STRATEGIC NC_KUBE_PATCH_STRATEGIC
#define LEASE(metadata)                                                                            \
    "{'apiVersion':'coordination.k8s.io/v1','kind':'Lease','metadata':{" metadata                  \
    "},'spec':{'holderIdentity':'x'}}"
#define OURS "'name':'nodeclaim-controller','namespace':'kube-system'"
#define LIST_RULE "a list without metadata.resourceVersion"
#define NO_BUSINESS "no business there"
#define EVENTS "/api/v1/namespaces/default/events"
#define BOOT_FAILURES EVENTS "?fieldSelector=reason%3DBootstrapFailed"

static const struct {
    const char *method, *path, *body;
    enum nc_kube_patch patch;
    const char *refused; /* a part of the message, NULL = allowed */
} rules[] = {
    /* Read by name. */
    {"GET", "/api/v1/nodes?limit=500", NULL, 0, NULL},
    {"GET", NODE, NULL, 0, NULL},
    {"GET", "/apis/karpenter.sh/v1/nodeclaims?watch=true&resourceVersion=5", NULL, 0, NULL},
    {"GET", "/apis/karpenter.sh/v1beta1/nodepools", NULL, 0, NULL},
    {"GET", CLAIM, NULL, 0, NO_BUSINESS},
    {"GET", "/apis/karpenter.k8s.aws/v1/ec2nodeclasses", NULL, 0, NULL},
    {"GET", "/apis/eks.amazonaws.com/v1/nodeclasses", NULL, 0, NULL},
    {"GET", "/apis/eks.amazonaws.com/v1/nodeclasses/default", NULL, 0, NO_BUSINESS},
    {"GET", "/apis", NULL, 0, NULL},
    {"GET", "/apis/karpenter.sh", NULL, 0, NULL},
    {"GET", "/apis/karpenter.sh/v1", NULL, 0, NULL},
    {"GET", "/apis/coordination.k8s.io/v1/leases?fieldSelector=metadata.name%3Dx", NULL, 0,
     NO_BUSINESS},
    {"GET", LEASES "/x", NULL, 0, NULL},
    {"GET", LEASES, NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/pods", NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Da", NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/namespaces/x/pods/y", NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/secrets", NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/namespaces/kube-system/secrets/s", NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/nodes/a/proxy/pods", NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/nodes/a%2Fproxy", NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/nodes/", NULL, 0, NO_BUSINESS},
    {"GET", "/apis/apps/v1/deployments", NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/nodes/..", NULL, 0, "a dot for a name"},
    {"GET", BOOT_FAILURES "&limit=500", NULL, 0, NULL},
    {"GET", BOOT_FAILURES "&limit=500", "{}", 0, "a GET with a body"},
    {"GET", BOOT_FAILURES "&watch=true", NULL, 0, NO_BUSINESS},
    {"GET", EVENTS, NULL, 0, NO_BUSINESS},
    {"GET", BOOT_FAILURES "X&limit=500", NULL, 0, NO_BUSINESS},
    {"GET", EVENTS "?fieldSelector=involvedObject.kind%3DPod%2Creason%3DX", NULL, 0, NO_BUSINESS},
    {"GET", EVENTS "/e", NULL, 0, NO_BUSINESS},
    {"GET", "/api/v1/nodes", "{}", 0, "a GET with a body"},
    /* Nodes. */
    {"PATCH", NODE, "{'metadata':{'annotations':{'nodeclaimd.io/drain-request':'{}','x':null}}}",
     MERGE, NULL},
    {"PATCH", NODE, "{'metadata':{'labels':{'karpenter.sh/registered':'true'}}}", MERGE, NULL},
    {"PATCH", NODE, "{'metadata':{'resourceVersion':'7','uid':'u'},'spec':{'taints':[]}}", MERGE,
     NULL},
    {"PATCH", NODE, "{'metadata':{'resourceVersion':'7'},'spec':{'taints':null}}", MERGE, NULL},
    {"PATCH", NODE,
     "{'metadata':{'resourceVersion':'7','finalizers':['f'],'ownerReferences':[{}]}}", MERGE, NULL},
    {"PATCH", NODE, "{'spec':{'taints':[]}}", MERGE, LIST_RULE},
    {"PATCH", NODE, "{'metadata':{'finalizers':null}}", MERGE, LIST_RULE},
    {"PATCH", NODE, "{'metadata':{'ownerReferences':[]}}", MERGE, LIST_RULE},
    {"PATCH", NODE, "{'metadata':{'resourceVersion':''},'spec':{'taints':[]}}", MERGE,
     "not a string"},
    {"PATCH", NODE, "{'metadata':{'resourceVersion':'7'},'spec':{'taints':{}}}", MERGE,
     "must be a list"},
    {"PATCH", NODE, "{'spec':{'unschedulable':true}}", MERGE, "not the controller's: unsched"},
    {"PATCH", NODE, "{'spec':{'providerID':'x'}}", MERGE, "not the controller's: providerID"},
    {"PATCH", NODE, "{'spec':null}", MERGE, "must be a map"},
    {"PATCH", NODE, "{'metadata':null}", MERGE, "must be a map"},
    {"PATCH", NODE, "{'metadata':{'annotations':null}}", MERGE, "not a map of strings"},
    {"PATCH", NODE, "{'metadata':{'labels':{'x':1}}}", MERGE, "not a map of strings"},
    {"PATCH", NODE, "{'metadata':{'name':'b'}}", MERGE, "not the controller's: name"},
    {"PATCH", NODE, "{'status':{'conditions':[]}}", MERGE, "not the controller's: status"},
    {"PATCH", NODE, "{'metadata':{'labels':{'a':'b'}}}", STRATEGIC, "are merge patches"},
    {"PATCH", NODE, "{}", MERGE, "with members"},
    {"PATCH", NODE, NULL, MERGE, "with members"},
    {"PATCH", NODE "/status", "{'metadata':{'labels':{'a':'b'}}}", MERGE, NO_BUSINESS},
    {"PATCH", NODE "?fieldManager=x", "{'metadata':{'labels':{'a':'b'}}}", MERGE, "with a query"},
    {"PATCH", "/api/v1/nodes", "{'metadata':{'labels':{'a':'b'}}}", MERGE, NO_BUSINESS},
    {"PUT", NODE, "{}", 0, NO_BUSINESS},
    {"POST", "/api/v1/nodes", "{}", 0, NO_BUSINESS},
    {"POST", "/api/v1/namespaces/x/pods/y/eviction", "{}", 0, NO_BUSINESS},
    {"DELETE", "/api/v1/namespaces/x/pods/y", "{'preconditions':{'uid':'u'}}", 0, NO_BUSINESS},
    /* Claims. */
    {"PATCH", CLAIM, "{'metadata':{'annotations':{'a':'b'}}}", MERGE, NULL},
    {"PATCH", CLAIM, "{'metadata':{'resourceVersion':'7','finalizers':[]}}", MERGE, NULL},
    {"PATCH", CLAIM, "{'metadata':{'finalizers':[]}}", MERGE, LIST_RULE},
    {"PATCH", CLAIM, "{'metadata':{'labels':{'a':'b'}}}", MERGE, "not the controller's: labels"},
    {"PATCH", CLAIM, "{'spec':{'taints':[]}}", MERGE, "not the controller's: spec"},
    {"PATCH", CLAIM, "{'spec':{}}", MERGE, "not the controller's: spec"},
    {"PATCH", CLAIM, "{'status':{'nodeName':'x'}}", MERGE, "not the controller's: status"},
    {"PATCH", CLAIM "/status", "{'metadata':{'resourceVersion':'7'},'status':{'nodeName':'x'}}",
     MERGE, NULL},
    {"PATCH", CLAIM "/status", "{'metadata':{'uid':'u'},'status':{'nodeName':'x'}}", MERGE,
     "status without metadata.resourceVersion"},
    {"PATCH", CLAIM "/status", "{'metadata':{'resourceVersion':'7'},'status':{'conditions':[]}}",
     MERGE, NULL},
    {"PATCH", CLAIM "/status", "{'status':{'conditions':[]}}", MERGE,
     "status without metadata.resourceVersion"},
    {"PATCH", CLAIM "/status", "{'metadata':{'resourceVersion':'7'},'status':{'nodeName':null}}",
     MERGE, "not a string"},
    {"PATCH", CLAIM "/status", "{'metadata':{'resourceVersion':'7'},'status':{'providerID':'x'}}",
     MERGE, "controller's: providerID"},
    {"PATCH", CLAIM "/status", "{'metadata':{'resourceVersion':'7','annotations':{'a':'b'}}}",
     MERGE, "annotations"},
    {"PATCH", "/apis/karpenter.sh/v1/nodepools/p", "{'metadata':{'annotations':{}}}", MERGE,
     NO_BUSINESS},
    /* Deletions. */
    {"DELETE", CLAIM, "{'kind':'DeleteOptions','apiVersion':'v1','preconditions':{'uid':'u'}}", 0,
     NULL},
    {"DELETE", NODE, "{'preconditions':{'uid':'u','resourceVersion':'5'}}", 0, NULL},
    {"DELETE", NODE, NULL, 0, "preconditions and nothing else"},
    {"DELETE", CLAIM, "{}", 0, "preconditions and nothing else"},
    {"DELETE", CLAIM, "{'preconditions':{'uid':''}}", 0, "without the uid"},
    {"DELETE", CLAIM, "{'preconditions':{'resourceVersion':'5'}}", 0, "without the uid"},
    {"DELETE", CLAIM, "{'preconditions':{'uid':'u'},'gracePeriodSeconds':0}", 0, "nothing else"},
    {"DELETE", CLAIM, "{'preconditions':{'uid':'u'},'propagationPolicy':'Orphan'}", 0,
     "nothing else"},
    {"DELETE", CLAIM "?gracePeriodSeconds=0", "{'preconditions':{'uid':'u'}}", 0, "with a query"},
    {"DELETE", CLAIM "/status", "{'preconditions':{'uid':'u'}}", 0, NO_BUSINESS},
    {"DELETE", "/api/v1/nodes", "{'preconditions':{'uid':'u'}}", 0, NO_BUSINESS},
    {"DELETE", "/api/v1/nodes/", "{'preconditions':{'uid':'u'}}", 0, NO_BUSINESS},
    {"DELETE", "/api/v1/nodes?labelSelector=x", "{'preconditions':{'uid':'u'}}", 0, NO_BUSINESS},
    {"DELETE", "/apis/karpenter.sh/v1/nodeclaims", "{'preconditions':{'uid':'u'}}", 0, NO_BUSINESS},
    {"DELETE", "/apis/karpenter.sh/v1/nodepools/p", "{'preconditions':{'uid':'u'}}", 0,
     NO_BUSINESS},
    /* Leases. */
    {"POST", LEASES, LEASE(OURS), 0, NULL},
    {"PUT", LEASES "/nodeclaim-controller", LEASE(OURS ",'resourceVersion':'7'"), 0, NULL},
    {"PUT", LEASES "/nodeclaim-controller", LEASE(OURS), 0, "by its resourceVersion only"},
    {"PUT", LEASES "/other", LEASE(OURS ",'resourceVersion':'7'"), 0, "than the path names"},
    {"POST", "/apis/coordination.k8s.io/v1/namespaces/x/leases", LEASE(OURS), 0, "path names"},
    {"POST", LEASES, LEASE(OURS ",'finalizers':[]"), 0, "a name and a spec"},
    {"POST", LEASES, "{'kind':'Secret'}", 0, "a name and a spec"},
    {"PUT", LEASES "/karpenter-leader-election",
     LEASE("'name':'karpenter-leader-election','namespace':'kube-system','resourceVersion':'7'"), 0,
     "somebody else's"},
    {"PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n",
     LEASE("'name':'n','namespace':'kube-node-lease','resourceVersion':'7'"), 0, "somebody else's"},
    {"DELETE", LEASES "/nodeclaim-controller", "{'preconditions':{'uid':'u'}}", 0, NO_BUSINESS},
    {"PATCH", LEASES "/nodeclaim-controller", "{'spec':{}}", MERGE, NO_BUSINESS},
    /* Events, and who we are. */
    {"POST", "/api/v1/namespaces/default/events", "{'kind':'Event','apiVersion':'v1'}", 0, NULL},
    {"POST", "/api/v1/namespaces/default/events", "{'kind':'Pod','apiVersion':'v1'}", 0, "of v1"},
    {"POST", "/api/v1/namespaces/x/events", "{'kind':'Event','apiVersion':'v1'}", 0, NO_BUSINESS},
    {"PATCH", "/api/v1/namespaces/default/events/e", "{'count':2}", MERGE, NO_BUSINESS},
    {"POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", "{}", 0, NULL},
    {"POST", "/apis/authentication.k8s.io/v1/tokenreviews", "{}", 0, NO_BUSINESS},
    {"POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", "{}", 0, NO_BUSINESS},
    {"HEAD", NODE, NULL, 0, "not HEAD"},
    {"PATCH", NODE, "{'metadata':{'labels':{'a':'b'}}}", 0, "belong together"},
};

static struct nc_kube_call call_of(size_t i, const struct nc_value *body) {
    return (struct nc_kube_call){.what = "test",
                                 .method = rules[i].method,
                                 .path = rules[i].path,
                                 .body = body,
                                 .patch = rules[i].patch,
                                 .timeout_usec = 1000000};
}

#define WEB "/api/v1/namespaces/web"
#define APPS "/apis/apps/v1/namespaces/web"
#define OF_A "?fieldSelector=spec.nodeName%3Da"
#define RESTARTED "'annotations':{'nodeclaimd.io/restarted-at':'2026-11-22T02:00:00Z'}"
#define VERSION "'metadata':{'uid':'u','resourceVersion':'7'}"
#define RESTART(own, inner) "{" own ",'spec':{'template':{'metadata':{" inner "}}}}"
#define POD_EVENT(space, about)                                                                    \
    "{'apiVersion':'v1','kind':'Event','metadata':{'name':'e','namespace':'" space                 \
    "'},'involvedObject':{" about "},'reason':'X'}"
#define ABOUT_POD "'kind':'Pod','namespace':'web','name':'a'"

/* With --replacement-first; without it none of these. */
static const struct {
    const char *method, *path, *body;
    enum nc_kube_patch patch;
    const char *refused;
} replacing[] = {
    {"GET",
     WEB
     "/pods" OF_A
     "%2Cstatus.phase%21%3DFailed&limit=500&resourceVersion=0&resourceVersionMatch=NotOlderThan",
     NULL, 0, NULL},
    {"GET", WEB "/pods", NULL, 0, "more than one node"},
    {"GET", WEB "/pods?limit=250", NULL, 0, "more than one node"},
    {"GET", WEB "/pods?fieldSelector=spec.nodeName%3D", NULL, 0, "more than one node"},
    {"GET", WEB "/pods?fieldSelector=spec.nodeName%3D%2Cx%3Dy", NULL, 0, "more than one node"},
    {"GET", WEB "/pods" OF_A "&watch=true", NULL, 0, "more than one node"},
    {"GET", WEB "/pods" OF_A, "{}", 0, "with a body"},
    {"GET", "/api/v1/pods" OF_A, NULL, 0, NO_BUSINESS},
    {"GET", WEB "/pods/a", NULL, 0, NO_BUSINESS},
    {"GET", WEB "/pods/a/log", NULL, 0, NO_BUSINESS},
    {"GET", WEB "/secrets", NULL, 0, NO_BUSINESS},
    {"GET", APPS "/replicasets/a", NULL, 0, NULL},
    {"GET", APPS "/replicasets", NULL, 0, NO_BUSINESS},
    {"GET", APPS "/deployments/a", NULL, 0, NULL},
    {"GET", APPS "/deployments/a?x=y", NULL, 0, "with a query"},
    {"GET", APPS "/statefulsets/a", NULL, 0, NO_BUSINESS},
    {"PATCH", APPS "/deployments/a", RESTART(VERSION, RESTARTED), MERGE, NULL},
    {"PATCH", APPS "/deployments/a", RESTART(VERSION, RESTARTED), STRATEGIC, "a merge patch"},
    {"PATCH", APPS "/deployments/a?dryRun=All", RESTART(VERSION, RESTARTED), MERGE, "merge patch"},
    {"PATCH", APPS "/deployments/a/scale", RESTART(VERSION, RESTARTED), MERGE, NO_BUSINESS},
    {"PATCH", APPS "/replicasets/a", RESTART(VERSION, RESTARTED), MERGE, NO_BUSINESS},
    {"PATCH", APPS "/deployments/a", RESTART("'metadata':{'uid':'u'}", RESTARTED), MERGE,
     "without its uid and resourceVersion"},
    {"PATCH", APPS "/deployments/a", RESTART("'metadata':{'resourceVersion':'7'}", RESTARTED),
     MERGE, "without its uid and resourceVersion"},
    {"PATCH", APPS "/deployments/a",
     RESTART("'metadata':{'uid':'u','resourceVersion':'7','labels':{}}", RESTARTED), MERGE,
     "only when it was restarted"},
    {"PATCH", APPS "/deployments/a", RESTART(VERSION, "'annotations':{'x':'y'}"), MERGE,
     "only when it was restarted"},
    {"PATCH", APPS "/deployments/a",
     RESTART(VERSION, "'annotations':{'nodeclaimd.io/restarted-at':null}"), MERGE,
     "only when it was restarted"},
    {"PATCH", APPS "/deployments/a", RESTART(VERSION, RESTARTED ",'labels':{}"), MERGE,
     "only when it was restarted"},
    {"PATCH", APPS "/deployments/a", "{" VERSION ",'spec':{'replicas':0}}", MERGE,
     "only when it was restarted"},
    {"PATCH", APPS "/deployments/a", NULL, MERGE, "only when it was restarted"},
    {"POST", WEB "/events", POD_EVENT("web", ABOUT_POD), 0, NULL},
    {"POST", WEB "/events", POD_EVENT("web", "'kind':'Pod','namespace':'b','name':'a'"), 0,
     "something else than a pod there"},
    {"POST", WEB "/events", POD_EVENT("b", ABOUT_POD), 0, "something else than a pod there"},
    {"POST", WEB "/events", POD_EVENT("web", "'kind':'Secret','namespace':'web','name':'a'"), 0,
     "something else than a pod there"},
    {"POST", WEB "/events", POD_EVENT("web", "'kind':'Node','name':'a'"), 0, NO_BUSINESS},
    {"DELETE", WEB "/pods/a", "{'preconditions':{'uid':'u'}}", 0, NO_BUSINESS},
};

static void test_replacing(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(replacing); i++) {
        nc_auto_value struct nc_value *body = replacing[i].body ? js(replacing[i].body) : NULL;
        const struct nc_kube_call c = {.what = "test",
                                       .method = replacing[i].method,
                                       .path = replacing[i].path,
                                       .body = body,
                                       .patch = replacing[i].patch,
                                       .timeout_usec = 1000000};
        struct nc_err err = NC_ERR_INIT;
        const int r = nc_kube_as_replacing_controller.guard(&c, &err);
        print_message("# row %zu: %s %s\n", i, c.method, c.path);
        assert_int_equal(r < 0, replacing[i].refused != NULL);
        if (r < 0 && !strstr(err.msg, replacing[i].refused))
            fail_msg("%s", err.msg);
        assert_true(nc_kube_guard_control(&c, &err) < 0);
    }
}

/* What any controller may do, it may do too, and no more of that. */
static void test_replacing_is_a_controller(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rules); i++) {
        nc_auto_value struct nc_value *body = rules[i].body ? js(rules[i].body) : NULL;
        const struct nc_kube_call c = call_of(i, body);
        print_message("# row %zu: %s %s\n", i, rules[i].method, rules[i].path);
        assert_int_equal(nc_kube_as_replacing_controller.guard(&c, NULL) < 0,
                         rules[i].refused != NULL);
    }
}

static void test_rules(void **state) {
    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rules); i++) {
        nc_auto_value struct nc_value *body = rules[i].body ? js(rules[i].body) : NULL;
        const struct nc_kube_call c = call_of(i, body);
        struct nc_err err = NC_ERR_INIT;
        print_message("# row %zu: %s %s\n", i, rules[i].method, rules[i].path);
        if (!rules[i].refused) {
            if (nc_kube_guard_control(&c, &err) < 0)
                fail_msg("%s", err.msg);
            continue;
        }
        assert_true(nc_kube_guard_control(&c, &err) < 0);
        assert_int_equal(err.class, NC_ERR_BUG);
        if (!strstr(err.msg, rules[i].refused))
            fail_msg("%s", err.msg);
    }
}

/* The handle's role decides, and a handle that was given none is a node's. */
static void test_role(void **state) {
    static const struct nc_kube_call list = {
        .what = "list", .method = "GET", .path = "/api/v1/nodes", .timeout_usec = 1000000};
    static const struct nc_kube_call pod = {.what = "get pod",
                                            .method = "GET",
                                            .path = "/api/v1/namespaces/x/pods/y",
                                            .timeout_usec = 1000000};
    struct nc_value *got = NULL;
    struct nc_kube *k = SCRIPT(NULL, NULL,
                               {.url = "https://api.test:6443"
                                       "/api/v1/namespaces/x/pods/y",
                                .answer = "{}"});

    (void)state;
    assert_true(nc_kube_perform(k, &list, &got, NULL, NULL) < 0);
    assert_int_equal(nc_kube_perform(k, &pod, &got, NULL, NULL), 0);
    nc_value_free(got);
    script_end(k);
    k = script_begin_as(
        &nc_kube_as_controller,
        (const struct script_step[]){{.url = "https://api.test:6443/api/v1/nodes", .answer = "{}"}},
        1);
    assert_true(nc_kube_perform(k, &pod, &got, NULL, NULL) < 0);
    assert_int_equal(nc_kube_perform(k, &list, &got, NULL, NULL), 0);
    nc_value_free(got);
    script_end(k);
}

/* What to do about a refusal depends on who was refused. */
static void test_remedy(void **state) {
    static const struct nc_kube_call list = {
        .what = "list", .method = "GET", .path = "/api/v1/nodes", .timeout_usec = 1000000};
    static const struct nc_kube_call node = {
        .what = "get", .method = "GET", .path = "/api/v1/nodes/a", .timeout_usec = 1000000};
    static const struct {
        struct script_step step;
        const char *controllers, *nodes;
    } rows[] = {
        {{.status = 401}, "the pod's ServiceAccount and its token", "EKS"},
        {{.status = 403}, "ClusterRole", "system:node"},
        {{.outcome = NC_HTTP_TLS}, "that of the pod's ServiceAccount", "NodeConfig"},
    };
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct nc_kube *k = SCRIPT_CONTROLLER(rows[i].step);
        assert_true(nc_kube_perform(k, &list, NULL, NULL, &err) < 0);
        assert_non_null(strstr(err.remedy, rows[i].controllers));
        script_end(k);
        k = SCRIPT(NULL, NULL, rows[i].step);
        assert_true(nc_kube_perform(k, &node, NULL, NULL, &err) < 0);
        assert_non_null(strstr(err.remedy, rows[i].nodes));
        script_end(k);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replacing), cmocka_unit_test(test_replacing_is_a_controller),
        cmocka_unit_test(test_rules),     cmocka_unit_test(test_role),
        cmocka_unit_test(test_remedy),
    };

    return run_group(tests, NULL, NULL);
}
