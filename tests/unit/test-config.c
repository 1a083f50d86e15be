/*
 * Configuration: merge, precedence, defaults, and what a bootstrap refuses to start with.
 */
#include <errno.h>

#include "documents-test.h"

/* Builds from documents, each a source of its own: "d1", "d2", … */
static int build(const char *const *documents, struct nc_config *ret, struct nc_err *err) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;

    for (size_t i = 0; documents[i]; i++) {
        nc_auto_free char *name = nc_asprintf("d%zu", i + 1);

        assert_int_equal(nc_documents_add(&d, name, documents[i], strlen(documents[i]), 1, err), 0);
    }
    return nc_config_build(&d, ret, err);
}

static void built(const char *const *documents, struct nc_config *ret) {
    struct nc_err err = NC_ERR_INIT;

    if (build(documents, ret, &err) != 0)
        fail_msg("%s", err.msg);
}

#define BUILT(c, ...) \
    nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT; \
    built((const char *const[]){__VA_ARGS__, NULL}, &(c))

static char *json_of(const struct nc_value *v) {
    struct nc_buf b = NC_BUF_INIT;

    if (v)
        nc_json_write(&b, v, 0);
    return nc_buf_steal(&b);
}

static void expect_json(const struct nc_value *v, const char *expected) {
    nc_auto_free char *text = json_of(v);

    assert_string_equal(text, expected);
}

static void defaults(void **state) {
    BUILT(c, GOOD);

    (void)state;
    assert_string_equal(c.cluster_name, "blue");
    assert_string_equal(c.endpoint, "https://api.example.com");
    assert_string_equal(c.ca_pem, CA_PEM);
    assert_string_equal(c.cidr, "10.100.0.0/16");
    assert_int_equal(c.auth, NC_AUTH_EKS);
    assert_int_equal(c.naming, NC_NAMING_PRIVATE_DNS);
    assert_null(c.name_override);
    assert_null(c.provider_id);
    assert_null(c.kubelet);
    assert_int_equal(c.kubelet_flags.n, 0);
    assert_int_equal(c.start, NC_START_SYSTEMD);
    assert_string_equal(c.kubelet_unit, "kubelet.service");
    assert_string_equal(c.kubelet_path, "/usr/bin/kubelet");
    assert_int_equal(c.max_pods_mode, NC_MAX_PODS_ENI);
    assert_int_equal(c.max_pods_value, 0);
    assert_int_equal(c.reservation, NC_RESERVATION_KARPENTER);
    assert_null(c.kube_reserved);
    assert_false(c.has_shutdown);
    assert_int_equal(c.spot, NC_POLICY_DRAIN);
    assert_int_equal(c.rebalance, NC_POLICY_REPORT);
    assert_int_equal(c.maintenance, NC_POLICY_DRAIN);
    assert_int_equal(c.autoscaling, NC_POLICY_DRAIN);
    assert_int_equal(c.shutdown, NC_POLICY_DRAIN);
    assert_int_equal(c.drain_mode, NC_DRAIN_AUTO);
    assert_int_equal(c.drain_margin_usec, 15000000);
    assert_int_equal(c.drain_linger_usec, 0);
    assert_false(c.signal_self);
    assert_true(c.report_console && c.report_events && c.report_node);
    assert_int_equal(c.ec2, NC_EC2_AUTO);
    assert_true(c.claim_lookup);
    assert_false(c.has_claim_document);
    assert_int_equal(c.warnings.n, 0);
}

#define AGENT(spec) AGENT_CONFIG "spec: {" spec "}\n"

static void everything(void **state) {
    BUILT(c, GOOD,
          AGENT("node: {name: resource-name, nameOverride: me, providerID: 'aws:///a/i-0', labels: {a: b, c: 1}, taints: [{key: k, "
                "effect: NoExecute}, {key: l, value: v, effect: NoSchedule}]}, maxPods: {mode: prefix, expression: e, value: 7}, "
                "reservation: {policy: gke, kubeReserved: {cpu: 1}, systemReserved: {memory: 1Gi}}, kubelet: {start: exec, unit: "
                "k.service, path: /k}, shutdown: {gracePeriod: 1m, gracePeriodCriticalPods: 10s}, interruption: {spot: cordon, "
                "rebalance: drain, maintenance: ignore, autoscaling: report, shutdown: ignore}, drain: {mode: 'off', margin: 5s, "
                "linger: 2s}, signal: self, report: {console: false, events: false, node: false}, aws: {ec2: never, ec2Endpoint: "
                "'http://e', stsEndpoint: 'http://s', partition: aws-cn, domain: amazonaws.com.cn}, claim: {lookup: never}"));

    (void)state;
    assert_int_equal(c.naming, NC_NAMING_RESOURCE_NAME);
    assert_string_equal(c.name_override, "me");
    assert_string_equal(c.provider_id, "aws:///a/i-0");
    assert_int_equal(c.n_labels, 2);
    assert_string_equal(c.labels[1].key, "c");
    assert_string_equal(c.labels[1].value, "1");
    assert_int_equal(c.labels[1].mark.source, 2);
    assert_int_equal(c.n_taints, 2);
    assert_string_equal(c.taints[0].value, "");
    assert_string_equal(c.taints[1].value, "v");
    assert_int_equal(c.max_pods_mode, NC_MAX_PODS_PREFIX);
    assert_string_equal(c.max_pods_expression, "e");
    assert_int_equal(c.max_pods_value, 7);
    assert_int_equal(c.reservation, NC_RESERVATION_GKE);
    expect_json(c.kube_reserved, "{\"cpu\":1}");
    expect_json(c.system_reserved, "{\"memory\":\"1Gi\"}");
    assert_int_equal(c.start, NC_START_EXEC);
    assert_string_equal(c.kubelet_unit, "k.service");
    assert_string_equal(c.kubelet_path, "/k");
    assert_true(c.has_shutdown);
    assert_int_equal(c.shutdown_usec, 60000000);
    assert_int_equal(c.shutdown_critical_usec, 10000000);
    assert_int_equal(c.spot, NC_POLICY_CORDON);
    assert_int_equal(c.rebalance, NC_POLICY_DRAIN);
    assert_int_equal(c.maintenance, NC_POLICY_IGNORE);
    assert_int_equal(c.autoscaling, NC_POLICY_REPORT);
    assert_int_equal(c.shutdown, NC_POLICY_IGNORE);
    assert_int_equal(c.drain_mode, NC_DRAIN_OFF);
    assert_int_equal(c.drain_margin_usec, 5000000);
    assert_int_equal(c.drain_linger_usec, 2000000);
    assert_true(c.signal_self);
    assert_false(c.report_console || c.report_events || c.report_node);
    assert_int_equal(c.ec2, NC_EC2_NEVER);
    assert_string_equal(c.ec2_endpoint, "http://e");
    assert_string_equal(c.sts_endpoint, "http://s");
    assert_string_equal(c.partition, "aws-cn");
    assert_string_equal(c.domain, "amazonaws.com.cn");
    assert_false(c.claim_lookup);
}

#define CONFIG(body) NODE_CONFIG "spec: {" body "}\n"

/* nodeadm's rules: maps deep, lists replaced, flags appended; empty strings of typed fields say nothing, those of the free map do. */
static void merge(void **state) {
    BUILT(c, GOOD,
          CONFIG("kubelet: {config: {maxPods: 1, clusterDNS: [10.0.0.1, 10.0.0.2], kubeReserved: {cpu: 1, memory: 1Gi}, "
                 "kubeReservedCgroup: /a, logging: {verbosity: 2}}, flags: [--v=2, --node-labels=a=b]}"),
          CONFIG("cluster: {name: '', cidr: 10.200.0.0/16}, kubelet: {config: {maxPods: 2, clusterDNS: [10.0.0.3], kubeReserved: {cpu: "
                 "200m}, kubeReservedCgroup: '', logging: {verbosity: null}}, flags: ['', --v=5]}"),
          AGENT("kubelet: {config: {podsPerCore: 3}, flags: [--v=6]}, cluster: null"));

    (void)state;
    assert_string_equal(c.cluster_name, "blue");
    assert_string_equal(c.cidr, "10.200.0.0/16");
    expect_json(c.kubelet, "{\"maxPods\":2,\"clusterDNS\":[\"10.0.0.3\"],\"kubeReserved\":{\"cpu\":\"200m\",\"memory\":\"1Gi\"},"
                           "\"kubeReservedCgroup\":\"\",\"logging\":{\"verbosity\":null},\"podsPerCore\":3}");
    assert_int_equal(c.kubelet_flags.n, 4);
    assert_string_equal(c.kubelet_flags.v[0], "--v=2");
    assert_string_equal(c.kubelet_flags.v[1], "--node-labels=a=b");
    assert_string_equal(c.kubelet_flags.v[2], "--v=5");
    assert_string_equal(c.kubelet_flags.v[3], "--v=6");
    assert_int_equal(c.kubelet_flag_marks[2].source, 3);
    assert_int_equal(c.kubelet_flag_marks[3].source, 4);
    expect_json(nc_value_path(c.tree, "spec.kubelet.flags"), "[\"--v=2\",\"--node-labels=a=b\",\"--v=5\",\"--v=6\"]");
}

/* Every value of the tree knows where it is from and what it overrode. */
static void provenance(void **state) {
    const struct nc_value *v = NULL;
    BUILT(c, GOOD, CONFIG("kubelet: {config: {maxPods: 1, kubeReserved: {cpu: 1}}}"), CONFIG("kubelet: {config: {maxPods: 2}}"));

    (void)state;
    v = nc_value_path(c.tree, "spec.kubelet.config.maxPods");
    assert_int_equal(v->integer, 2);
    assert_int_equal(v->mark.source, 3);
    assert_int_equal(v->mark.line, 3);
    assert_non_null(v->overrode);
    assert_int_equal(v->overrode->integer, 1);
    assert_int_equal(v->overrode->mark.source, 2);
    v = nc_value_path(c.tree, "spec.kubelet.config.kubeReserved.cpu");
    assert_string_equal(nc_value_string(v), "1");
    assert_int_equal(v->mark.source, 2);
    v = nc_value_path(c.kubelet, "maxPods");
    assert_int_equal(v->mark.source, 3);
}

static void taints_are_united(void **state) {
    BUILT(c, GOOD, AGENT("node: {labels: {a: b, c: d}, taints: [{key: a, effect: NoExecute}, {key: b, effect: NoExecute}]}"),
          AGENT("node: {labels: {c: e}, taints: [{key: a, value: x, effect: NoExecute}, {key: a, effect: NoSchedule}]}"));

    (void)state;
    assert_int_equal(c.n_taints, 3);
    assert_string_equal(c.taints[0].key, "a");
    assert_string_equal(c.taints[0].value, "x");
    assert_int_equal(c.taints[0].mark.source, 3);
    assert_string_equal(c.taints[1].key, "b");
    assert_string_equal(c.taints[2].effect, "NoSchedule");
    assert_int_equal(c.n_labels, 2);
    assert_string_equal(c.labels[1].value, "e");
}

#define CLASS(name, body) "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: " name "}\nspec: {" body "}\n"
#define CLAIM(body) "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata: {name: c" body
#define REF "nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: x}"

/* NodeClass below NodeClaim below NodeConfig, whatever the order in which they come. */
static void precedence(void **state) {
    (void)state;
    {
        BUILT(c, CONFIG("kubelet: {config: {maxPods: 3}}"), CLASS("x", "kubelet: {maxPods: 1, podsPerCore: 1}"), GOOD);
        expect_json(c.kubelet, "{\"maxPods\":3,\"podsPerCore\":1}");
    }
    {
        BUILT(c, GOOD, CLAIM("}\nspec: {" REF "}\n"), CLASS("x", "kubelet: {maxPods: 1}"), CLASS("other", "kubelet: {maxPods: 2}"));
        expect_json(c.kubelet, "{\"maxPods\":1}");
        assert_true(c.has_claim_document);
        assert_string_equal(c.claim.name, "c");
        assert_int_equal(c.warnings.n, 1);
        assert_string_equal(c.warnings.v[0], "d4:4:17: not used: the NodeClaim refers to NodeClass x");
    }
    {
        BUILT(c, GOOD, CLASS("x", "kubelet: {maxPods: 1, podsPerCore: 1}"),
              CLAIM(", annotations: {compatibility.karpenter.sh/v1beta1-kubelet-conversion: '{\"maxPods\": 2, \"kubeReserved\": {\"cpu\": "
                    "\"1\"}}'}}\nspec: {" REF "}\n"));
        expect_json(c.kubelet, "{\"maxPods\":2,\"kubeReserved\":{\"cpu\":\"1\"}}");
        assert_int_equal(nc_value_path(c.tree, "spec.kubelet.config.kubeReserved.cpu")->mark.source, 3);
        assert_string_equal(c.warnings.v[0], "d2:4:17: spec.kubelet: not used: the NodeClaim carries a kubelet block of its own");
    }
    {
        BUILT(c, GOOD, "apiVersion: karpenter.sh/v1beta1\nkind: NodeClaim\nspec: {nodeClassRef: {name: x}, kubelet: {maxPods: 5, "
                       "containerRuntime: containerd, systemReserved: {cpu: 1}}}\n");
        expect_json(c.kubelet, "{\"maxPods\":5,\"systemReserved\":{\"cpu\":\"1\"}}");
    }
    {
        BUILT(c, GOOD, CLAIM(", labels: {old: x}}\nspec: {" REF "}\n"), CLAIM(", labels: {new: x}}\nspec: {" REF "}\n"));
        assert_string_equal(c.claim.labels[0].key, "new");
    }
}

static void naming(void **state) {
    (void)state;
    {
        BUILT(c, GOOD, CONFIG("featureGates: {InstanceIdNodeName: true}"));
        assert_int_equal(c.naming, NC_NAMING_INSTANCE_ID);
    }
    {
        BUILT(c, GOOD, AGENT("node: {name: hostname}"), CONFIG("featureGates: {InstanceIdNodeName: true}"));
        assert_int_equal(c.naming, NC_NAMING_HOSTNAME);
    }
}

static void max_pods(void **state) {
    (void)state;
    {
        BUILT(c, GOOD, CONFIG("kubelet: {maxPodsExpression: max_pods}"));
        assert_int_equal(c.max_pods_mode, NC_MAX_PODS_EXPRESSION);
        assert_string_equal(c.max_pods_expression, "max_pods");
    }
    {
        BUILT(c, GOOD, CONFIG("kubelet: {maxPodsExpression: max_pods}"), AGENT("maxPods: {value: 20}"));
        assert_int_equal(c.max_pods_mode, NC_MAX_PODS_EXPLICIT);
    }
    {
        BUILT(c, GOOD, CONFIG("kubelet: {maxPodsExpression: a}"), AGENT("maxPods: {expression: b, mode: eni}"));
        assert_int_equal(c.max_pods_mode, NC_MAX_PODS_ENI);
        assert_string_equal(c.max_pods_expression, "b");
    }
}

static void shutdown_halves(void **state) {
    (void)state;
    {
        BUILT(c, GOOD, AGENT("shutdown: {gracePeriod: 20s}"));
        assert_int_equal(c.shutdown_usec, 20000000);
        assert_int_equal(c.shutdown_critical_usec, 20000000);
    }
    {
        BUILT(c, GOOD, AGENT("shutdown: {gracePeriodCriticalPods: 20s}"));
        assert_int_equal(c.shutdown_usec, 150000000);
        assert_int_equal(c.shutdown_critical_usec, 20000000);
    }
    {
        BUILT(c, GOOD, AGENT("shutdown: {gracePeriod: 0s}"));
        assert_true(c.has_shutdown);
        assert_int_equal(c.shutdown_critical_usec, 0);
    }
}

#define ACCESS(auth) \
    AGENT("cluster: {apiServerEndpoint: 'https://a', certificateAuthority: " CA ", cidr: 10.0.0.0/16, auth: {" auth "}}")

static void auth(void **state) {
    static const struct {
        const char *document;
        enum nc_auth_mode mode;
    } rows[] = {
        {ACCESS("clientCertificate: /c, clientKey: /k"), NC_AUTH_CLIENT_CERTIFICATE},
        {ACCESS("mode: client-certificate, clientCertificate: /c, clientKey: /k, kubeconfig: /x"), NC_AUTH_CLIENT_CERTIFICATE},
        {ACCESS("bootstrapToken: abcdef.0123456789abcdef"), NC_AUTH_BOOTSTRAP_TOKEN},
        {AGENT("cluster: {cidr: 10.0.0.0/16, auth: {kubeconfig: /x}}"), NC_AUTH_KUBECONFIG},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        BUILT(c, rows[i].document);
        assert_int_equal(c.auth, rows[i].mode);
        assert_null(c.cluster_name);
    }
    {
        BUILT(c, ACCESS("bootstrapToken: abcdef.0123456789abcdef"));
        assert_string_equal(c.bootstrap_token, "abcdef.0123456789abcdef");
    }
}

static void left_alone(void **state) {
    BUILT(c, GOOD,
          CONFIG("containerd: {config: x, baseRuntimeSpec: {a: b}}, instance: {localStorage: {strategy: RAID0}, environment: {default: {A: "
                 "b}}, network: {domains: [a]}}, featureGates: {FastImagePull: true}, cluster: {enableOutpost: true, id: u}"),
          CONFIG("containerd: {}, instance: {localStorage: {}}"));

    (void)state;
    assert_int_equal(c.warnings.n, 7);
    assert_string_equal(c.warnings.v[2], "d2:3:83: spec.instance.localStorage: left alone: local disks are prepared by the AMI");
    assert_string_equal(c.cluster_name, "u");
}

static void nothing_to_leave_alone(void **state) {
    BUILT(c, GOOD, CONFIG("containerd: {}, instance: {localStorage: {strategy: ''}}, cluster: {enableOutpost: false}, featureGates: "
                          "{FastImagePull: false}"));

    (void)state;
    assert_int_equal(c.warnings.n, 0);
}

static void dns_instead_of_cidr(void **state) {
    static const char head[] = "cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: " CA "}, kubelet: ";
    static const char *const kubelets[] = {"{config: {clusterDNS: [10.0.0.10]}}", "{flags: [--cluster-dns=10.0.0.10]}",
                                           "{flags: [--cluster-dns, 10.0.0.10]}"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(kubelets); i++) {
        nc_auto_free char *document = nc_asprintf(NODE_CONFIG "spec: {%s%s}\n", head, kubelets[i]);
        BUILT(c, document);
        assert_null(c.cidr);
    }
}

static const struct {
    const char *name;
    const char *documents[3];
    const char *error;
} refused_rows[] = {
    {"nothing", {NULL}, "no configuration for this node"},
    {"empty", {"---\n"}, "no configuration for this node: d1 without any document"},
    {"an error in a document", {GOOD, CONFIG("cluster: {cidr: x}")}, "d2:3:24: spec.cluster.cidr: must be the service CIDR"},
    {"two clusters", {GOOD, CONFIG("cluster: {name: red}")}, "d2:3:24: spec.cluster.name: names cluster 'red', but d1:5:11 names 'blue'"},
    {"two clusters of two kinds", {GOOD, AGENT("cluster: {name: red}")}, "names cluster 'red', but d1:5:11 names 'blue'"},
    {"two claims", {GOOD, CLAIM("}\nspec: {" REF "}\n---\n") "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nspec: {" REF "}\n"},
     "d2:6:1: metadata.name: a second NodeClaim, the first is at d2:1:1"},
    {"no name", {CONFIG("cluster: {cidr: 10.0.0.0/16}")}, "d1: spec.cluster.name: is missing"},
    {"no endpoint", {CONFIG("cluster: {name: a}")}, "d1: spec.cluster.apiServerEndpoint: is missing"},
    {"no CA", {CONFIG("cluster: {name: a, apiServerEndpoint: 'https://a'}")}, "d1: spec.cluster.certificateAuthority: is missing"},
    {"no CIDR", {CONFIG("cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: " CA "}")},
     "d1: spec.cluster.cidr: is missing"},
    {"no cluster at all", {AGENT("drain: {}")}, "d1: spec.cluster.name: is missing"},
    {"only a NodeClass", {CLASS("x", "kubelet: {}")}, "d1: spec.cluster.name: is missing"},
    {"outpost without an id", {GOOD, CONFIG("cluster: {enableOutpost: true}")}, "spec.cluster.id: is missing"},
    {"several credentials", {ACCESS("bootstrapToken: abcdef.0123456789abcdef, kubeconfig: /x")},
     "spec.cluster.auth: several credentials are given"},
    {"certificate without a key", {ACCESS("clientCertificate: /c")}, "spec.cluster.auth.clientKey: is missing"},
    {"key without a certificate", {ACCESS("clientKey: /c")}, "spec.cluster.auth.clientCertificate: is missing"},
    {"mode without its token", {ACCESS("mode: bootstrap-token")}, "spec.cluster.auth.bootstrapToken: is missing"},
    {"mode without its kubeconfig", {ACCESS("mode: kubeconfig")}, "spec.cluster.auth.kubeconfig: is missing"},
    {"expression", {GOOD, AGENT("maxPods: {mode: expression}")}, "d2:3:24: spec.maxPods.mode: expression needs spec.maxPods.expression"},
    {"explicit", {GOOD, AGENT("maxPods: {mode: explicit}")}, "d2:3:24: spec.maxPods.mode: explicit needs spec.maxPods.value"},
    {"critical above all", {GOOD, AGENT("shutdown: {gracePeriod: 10s, gracePeriodCriticalPods: 11s}")},
     "d2:3:62: spec.shutdown.gracePeriodCriticalPods: is a part of gracePeriod"},
    {"shorter than kubelet takes", {GOOD, AGENT("shutdown: {gracePeriod: 10ms}")}, "spec.shutdown.gracePeriod: kubelet takes 0 or at least 1s"},
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
        assert_true(err.remedy[0] != '\0');
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
        {"#!/bin/sh\n", "no configuration for this node: user-data is a shell script", "application/node.eks.aws"},
        {"\x80\x81", "no configuration for this node: user-data is 2 bytes that are no text", "amiFamily: AL2023"},
        {"Content-Type: multipart/mixed; boundary=b\n\n--b\n\na\n--b\n\nb\n--b\n\nc\n--b\n\nd\n--b\n\ne\n--b--",
         "user-data part 4 (text/plain) is a part of type text/plain; and 1 more", "/etc/nodeclaimd/conf.d"},
        {"Content-Type: multipart/mixed; boundary=b\n\n--b\n\na\n", "user-data: cut off in part 1", "launch template"},
        {NODE_CONFIG "spec: {cluster: 1}\n", "user-data:3:17: spec.cluster: must be a map", "nodeclaimd check tells"},
        {NODE_CONFIG "spec: {cluster: 1, kubelet: 2}\n", "user-data:3:17: spec.cluster: must be a map", "and 1 more error:"},
        {NODE_CONFIG "spec: {cluster: 1, kubelet: 2, instance: 3}\n", "user-data:3:17: spec.cluster: must be a map", "and 2 more errors:"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
        nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
        struct nc_err err = NC_ERR_INIT;

        assert_int_equal(nc_documents_add_userdata(&d, "user-data", rows[i].data, strlen(rows[i].data), &err), 0);
        assert_true(nc_config_build(&d, &c, &err) < 0);
        if (!strstr(err.msg, rows[i].error) || !strstr(err.remedy, rows[i].remedy))
            fail_msg("row %zu: %s (%s)", i, err.msg, err.remedy);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),   cmocka_unit_test(everything),        cmocka_unit_test(merge),
        cmocka_unit_test(provenance), cmocka_unit_test(taints_are_united), cmocka_unit_test(precedence),
        cmocka_unit_test(naming),     cmocka_unit_test(max_pods),          cmocka_unit_test(shutdown_halves),
        cmocka_unit_test(auth),       cmocka_unit_test(left_alone),        cmocka_unit_test(nothing_to_leave_alone),
        cmocka_unit_test(dns_instead_of_cidr), cmocka_unit_test(refused),  cmocka_unit_test(refused_user_data),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
