/*
 * Readers of a Node, the reasons that Karpenter waits for, and the bodies of patches.
 */
#include "groups.h"
#include "kube-script.h"
#include "nc/names.h"

#include "wire.h"

#define NOW 1700000000000000u /* 2023-11-14T22:13:20Z */

static void test_paths(void **state) {
    (void)state;
    char *a = nc_kube_node_path("ip-10-0-0-1.ec2.internal", NULL);
    char *b = nc_kube_node_path("a/../b?c", "status");
    char *c = nc_kube_node_selector("a b,c");

    assert_string_equal(a, "/api/v1/nodes/ip-10-0-0-1.ec2.internal");
    assert_string_equal(b, "/api/v1/nodes/a%2F..%2Fb%3Fc/status");
    assert_string_equal(c, "fieldSelector=metadata.name%3Da%20b%2Cc");
    free(a);
    free(b);
    free(c);
}

static void test_readers(void **state) {
    nc_auto_value struct nc_value *node =
        js("{'metadata':{'labels':{'a':'b','n':5},'deletionTimestamp':'2026-01-01T00:00:00Z'},'"
           "spec':{'taints':[{'key':'k','effect':'NoExecute'},5,"
           "{'key':'k2','value':'v','effect':'NoSchedule'}]},'status':{'conditions':[7,{'type':'"
           "MemoryPressure','status':'False'},{'type':'Ready','status':"
           "'False','reason':'KubeletNotReady','message':'cni plugin not initialized'}]}}");
    const char *reason, *message;

    (void)state;
    assert_false(nc_node_is_ready(node, &reason, &message));
    assert_string_equal(reason, "KubeletNotReady");
    assert_string_equal(message, "cni plugin not initialized");
    assert_false(nc_node_is_ready(node, NULL, NULL));
    assert_string_equal(nc_value_get_string(nc_node_condition(node, "MemoryPressure"), "status"),
                        "False");
    assert_null(nc_node_condition(node, "Drained"));
    assert_true(nc_node_has_taint(node, "k", NULL));
    assert_true(nc_node_has_taint(node, "k2", "NoSchedule"));
    assert_false(nc_node_has_taint(node, "k2", "NoExecute"));
    assert_true(nc_node_is_being_deleted(node));
    assert_string_equal(nc_node_label(node, "a"), "b");
    assert_null(nc_node_label(node, "n"));
    assert_null(nc_node_label(node, "c"));
}

/* Ready is the word of the kubelet that runs only where its heartbeat is not older than its start.
 */
static void test_reported_since(void **state) {
    static const struct {
        const char *conditions;
        uint64_t since_usec;
        bool expected;
    } rows[] = {
        {"[{'type':'Ready','lastHeartbeatTime':'2023-11-14T22:13:20Z'}]", NOW, true},
        {"[{'type':'Ready','lastHeartbeatTime':'2023-11-14T22:13:21Z'}]", NOW, true},
        /* Written in whole seconds: as good as new within the second of the start. */
        {"[{'type':'Ready','lastHeartbeatTime':'2023-11-14T22:13:20Z'}]", NOW + 999999, true},
        {"[{'type':'Ready','lastHeartbeatTime':'2023-11-14T22:13:20Z'}]", NOW + 1000000, false},
        /* The last kubelet's, Ready or not; and what kube-controller-manager made of it. */
        {"[{'type':'Ready','status':'True','lastHeartbeatTime':'2023-11-14T22:13:19Z'}]", NOW,
         false},
        {"[{'type':'Ready','status':'Unknown','lastHeartbeatTime':'2023-11-14T22:08:20Z',"
         "'lastTransitionTime':'2023-11-14T22:13:25Z'}]",
         NOW, false},
        /* Only Ready is kubelet's in every case: others write conditions too. */
        {"[{'type':'NetworkUnavailable','lastHeartbeatTime':'2023-11-14T22:13:25Z'},"
         "{'type':'Ready','lastHeartbeatTime':'2023-11-14T22:13:19Z'}]",
         NOW, false},
        {"[{'type':'Ready','lastTransitionTime':'2023-11-14T22:13:25Z'}]", NOW, false},
        {"[{'type':'Ready','lastHeartbeatTime':null}]", NOW, false},
        {"[{'type':'Ready','lastHeartbeatTime':'soon'}]", NOW, false},
        {"[]", NOW, false},
        /* A kubelet that somebody else starts: its start is not known. */
        {"[{'type':'Ready','lastHeartbeatTime':'2003-11-14T22:13:19Z'}]", 0, true},
        {"[]", 0, true},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_auto_free char *text = nc_asprintf("{'status':{'conditions':%s}}", rows[i].conditions);
        nc_auto_value struct nc_value *node = js(text);
        print_message("# row %zu\n", i);
        assert_int_equal(nc_node_is_reported_since(node, rows[i].since_usec), rows[i].expected);
    }
    assert_false(nc_node_is_reported_since(NULL, NOW));
}

/* Nothing there, or of the wrong type: absent, never a crash. */
static void test_readers_of_nonsense(void **state) {
    static const char *const nodes[] = {
        "{}", "{'metadata':5,'spec':[],'status':'x'}",
        "{'spec':{'taints':{}},'status':{'conditions':{'type':'Ready'}}}",
        ("{'metadata':{'labels':[],'deletionTimestamp':null},"
         "'status':{'conditions':[{'type':'Ready','status':true}]}}")};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(nodes); i++) {
        nc_auto_value struct nc_value *node = js(nodes[i]);
        const char *reason, *message;
        char *sentence;
        assert_false(nc_node_is_ready(node, &reason, &message));
        assert_string_equal(reason, "");
        assert_string_equal(message, "");
        assert_false(nc_node_has_taint(node, "k", NULL));
        assert_false(nc_node_is_being_deleted(node));
        assert_null(nc_node_label(node, "a"));
        nc_node_waiting_for(node, NULL, &reason, &sentence);
        assert_string_equal(reason, "NodeNotReady");
        free(sentence);
    }
    assert_false(nc_node_is_ready(NULL, NULL, NULL));
    assert_false(nc_node_is_being_deleted(NULL));
}

#define READY "'conditions':[{'type':'Ready','status':'True'}]"
static const struct {
    const char *node;
    const char *reason;
    const char *expected[2];
} waits[] = {
    {"{'status':{" READY ",'allocatable':{'cpu':'1930m','example.com/gpu':'1','pods':29}}}",
     "",
     {""}},
    {"{}", "NodeNotReady", {"kubelet has not reported the condition Ready yet"}},
    {"{'spec':{'taints':[{'key':'agent/"
     "boot','effect':'NoSchedule'}]},'status':{'conditions':[{'type':'Ready','status':'False','"
     "reason':'KubeletNotReady',"
     "'message':'network not\\nready'}]}}",
     "NodeNotReady",
     {"'KubeletNotReady': 'network not\\nready'"}},
    {"{'spec':{'taints':[{'key':'agent/boot','value':'v','effect':'NoSchedule'},"
     "{'key':'karpenter.sh/rebooting','effect':'NoSchedule'}]},'status':{" READY "}}",
     "Rebooting",
     {"Karpenter reboots the node", "karpenter.sh/rebooting"}},
    {"{'spec':{'taints':[{'key':'node.kubernetes.io/"
     "not-ready','effect':'NoSchedule'},{'key':'agent/"
     "boot','value':'v','effect':'NoSchedule'}]},'status':{" READY "}}",
     "StartupTaintsExist",
     {"StartupTaint \"agent/boot=v:NoSchedule\" still exists"}},
    {"{'spec':{'taints':[{'key':'plain','effect':'NoSchedule'},{'key':'agent/"
     "boot','effect':'NoExecute'}]},'status':{" READY
     ",'allocatable':{'cpu':1,'example.com/gpu':'1','pods':'29'}}}",
     "",
     {""}},
    {"{'spec':{'taints':[{'key':'node.kubernetes.io/"
     "not-ready','effect':'NoSchedule'}]},'status':{" READY "}}",
     "KnownEphemeralTaintsExist",
     {"'node.kubernetes.io/not-ready:NoSchedule' still exists", "kube-controller-manager"}},
    {"{'spec':{'taints':[{'key':'karpenter.sh/"
     "unregistered','effect':'NoExecute'}]},'status':{" READY "}}",
     "KnownEphemeralTaintsExist",
     {"'karpenter.sh/unregistered:NoExecute'", "NodeClaim's condition Registered"}},
    {"{'spec':{'taints':[{'key':'node.cloudprovider.kubernetes.io/"
     "uninitialized','value':'true','effect':'NoSchedule'}]},'status':{" READY "}}",
     "KnownEphemeralTaintsExist",
     {"cloud controller manager"}},
    {"{'spec':{'taints':[{'key':'node.kubernetes.io/"
     "unreachable','effect':'NoSchedule'}]},'status':{" READY "}}",
     "KnownEphemeralTaintsExist",
     {"when kubelet reports"}},
    {"{'spec':{'taints':[{'key':'readiness.k8s.io/net'}]},'status':{" READY "}}",
     "KnownEphemeralTaintsExist",
     {"'readiness.k8s.io/net:'", "readiness controller"}},
    /* The one that waits for us, as a startup taint or not: nothing to wait for. */
    {"{'spec':{'taints':[{'key':'readiness.k8s.io/"
     "nodeclaimd-bootstrap','effect':'NoSchedule'}]},'status':{" READY
     ",'allocatable':{'cpu':1,'example.com/gpu':'1'}}}",
     "",
     {""}},
    {"{'spec':{'taints':[{'key':'readiness.k8s.io/"
     "nodeclaimd-bootstrap','effect':'NoExecute'},{'key':'readiness.k8s.io/"
     "nodeclaimd-bootstrap-2','effect':'NoSchedule'}]},'status':{" READY "}}",
     "KnownEphemeralTaintsExist",
     {"'readiness.k8s.io/nodeclaimd-bootstrap-2:NoSchedule'"}},
    {"{'status':{" READY ",'allocatable':{'cpu':'1','example.com/gpu':'0'}}}",
     "ResourceNotRegistered",
     {"'example.com/gpu' was requested but not registered"}},
    {"{'status':{" READY ",'allocatable':{'cpu':'1'}}}",
     "ResourceNotRegistered",
     {"'example.com/gpu'"}},
    {"{'status':{" READY "}}", "ResourceNotRegistered", {"'cpu'"}},
};

static void test_waiting(void **state) {
    struct nc_taint taints[] = {
        {.key = (char[]){"plain"}, .value = (char[]){""}, .effect = (char[]){"NoSchedule"}},
        {.key = (char[]){NC_TAINT_BOOTSTRAP},
         .value = (char[]){""},
         .effect = (char[]){"NoSchedule"}},
        {.key = (char[]){"agent/boot"}, .value = (char[]){"v"}, .effect = (char[]){"NoSchedule"}}};
    nc_auto_value struct nc_value *requests =
        js("{'cpu':'1','zero':'0','zero2':0,'zero3':'0Gi','example.com/gpu':1}");
    const struct nc_claim claim = {
        .taints = taints, .n_taints = 3, .n_plain_taints = 1, .requests = requests};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(waits); i++) {
        nc_auto_value struct nc_value *node = js(waits[i].node);
        const char *reason;
        char *sentence;
        print_message("# row %zu\n", i);
        nc_node_waiting_for(node, &claim, &reason, &sentence);
        assert_string_equal(reason, waits[i].reason);
        for (size_t j = 0; j < 2 && waits[i].expected[j]; j++)
            assert_non_null(strstr(sentence, waits[i].expected[j]));
        free(sentence);
    }
    /* Without the claim, its startup taints and requests are unknown. */
    nc_auto_value struct nc_value *node =
        js("{'spec':{'taints':[{'key':'agent/boot','effect':'NoSchedule'}]},'status':{" READY "}}");
    const char *reason;
    char *sentence;
    nc_node_waiting_for(node, NULL, &reason, &sentence);
    assert_string_equal(reason, "");
    assert_string_equal(sentence, "");
    free(sentence);
}

/* What is built here must pass the rules on the wire. */
static void test_patches(void **state) {
    nc_auto_value struct nc_value *condition = nc_node_condition_patch(&(struct nc_node_condition){
        .type = "BootstrapComplete",
        .is_true = true,
        .reason = "Ready",
        .message = "done",
        .now_usec = NOW,
    });
    nc_auto_value struct nc_value *draining = nc_node_condition_patch(
        &(struct nc_node_condition){.type = "Drained", .reason = "Draining", .now_usec = NOW});
    nc_auto_value struct nc_value *annotation =
        nc_node_annotation_patch("nodeclaimd.io/bootstrap", "{}");
    nc_auto_value struct nc_value *removal =
        nc_node_annotation_patch("nodeclaimd.io/bootstrap", NULL);
    struct nc_kube_call c = {.what = "patch",
                             .method = "PATCH",
                             .path = "/api/v1/nodes/a/status",
                             .body = condition,
                             .patch = NC_KUBE_PATCH_STRATEGIC};

    (void)state;
    assert_json(condition,
                "{'status':{'conditions':[{'type':'BootstrapComplete','status':'True','reason':'"
                "Ready','message':'done','lastHeartbeatTime':"
                "'2023-11-14T22:13:20Z','lastTransitionTime':'2023-11-14T22:13:20Z'}]}}");
    assert_json(draining, "{'status':{'conditions':[{'type':'Drained','status':'False','reason':'"
                          "Draining','message':'','lastHeartbeatTime':"
                          "'2023-11-14T22:13:20Z','lastTransitionTime':'2023-11-14T22:13:20Z'}]}}");
    assert_int_equal(nc_kube_guard(&c, NULL), 0);
    assert_json(annotation, "{'metadata':{'annotations':{'nodeclaimd.io/bootstrap':'{}'}}}");
    assert_json(removal, "{'metadata':{'annotations':{'nodeclaimd.io/bootstrap':null}}}");
    c.path = "/api/v1/nodes/a";
    c.patch = NC_KUBE_PATCH_MERGE;
    c.body = annotation;
    assert_int_equal(nc_kube_guard(&c, NULL), 0);
    c.body = removal;
    assert_int_equal(nc_kube_guard(&c, NULL), 0);
}

static void test_long_message(void **state) {
    char text[2000];
    const char *message;

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    text[1023] = '\xc3'; /* a character across the cut goes whole */
    text[1024] = '\xa9';
    nc_auto_value struct nc_value *patch = nc_node_condition_patch(&(struct nc_node_condition){
        .type = "Drained",
        .is_true = true,
        .reason = "Drained",
        .message = text,
        .now_usec = NOW,
    });
    message = nc_value_get_string(nc_value_path(patch, "status.conditions")->items[0], "message");
    assert_int_equal(strlen(message), 1023);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),          cmocka_unit_test(test_readers),
        cmocka_unit_test(test_reported_since), cmocka_unit_test(test_readers_of_nonsense),
        cmocka_unit_test(test_waiting),        cmocka_unit_test(test_patches),
        cmocka_unit_test(test_long_message),
    };

    return run_group(tests, NULL, NULL);
}
