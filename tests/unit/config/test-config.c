/*
 * Configuration: merge, precedence, defaults, and what a bootstrap refuses to start with.
 */
#include <errno.h>

#include "documents-test.h"
#include "groups.h"

#include "nc/file.h"
#include "nc/time.h"

static void built(const char *const *documents, struct nc_config *ret) {
    struct nc_err err = NC_ERR_INIT;

    if (build(documents, ret, &err) != 0)
        fail_msg("%s", err.msg);
}

#define BUILT(c, ...)                                                                              \
    nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;                                \
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
    assert_int_equal(c.drain.policy[NC_SOURCE_SPOT], NC_POLICY_DRAIN);
    assert_int_equal(c.drain.policy[NC_SOURCE_REBALANCE], NC_POLICY_REPORT);
    assert_int_equal(c.drain.policy[NC_SOURCE_MAINTENANCE], NC_POLICY_DRAIN);
    assert_int_equal(c.drain.by_code[NC_MAINTENANCE_HOST_REBOOT], 0);
    assert_int_equal(c.drain.policy[NC_SOURCE_AUTOSCALING], NC_POLICY_DRAIN);
    assert_int_equal(c.drain.autoscaling_deadline_usec, 0);
    assert_int_equal(c.drain.policy[NC_SOURCE_SHUTDOWN], NC_POLICY_DRAIN);
    assert_int_equal(c.drain.policy[NC_SOURCE_DELETION], NC_POLICY_DRAIN);
    assert_int_equal(c.drain.mode, NC_DRAIN_AUTO);
    assert_int_equal(c.drain.margin_usec, 15000000);
    assert_int_equal(c.drain.linger_usec, 0);
    assert_int_equal(c.drain.hook_timeout_usec, 30000000);
    assert_true(c.drain.pod_events);
    assert_false(c.drain.tolerating_last);
    assert_int_equal(c.drain.replacement_usec, 600000000);
    assert_true(c.report_console && c.report_events && c.report_node);
    assert_int_equal(c.ec2, NC_EC2_AUTO);
    assert_true(c.claim_lookup);
    assert_false(c.has_claim_document);
    assert_int_equal(c.warnings.n, 0);
}

/* An item of the manual page as text: " Whether each pod …". NULL where there is none. */
static char *manual_item(const char *page, const char *head) {
    nc_auto_free char *item = nc_asprintf("\n.It Li %s", head);
    const char *at = strstr(page, item), *end = at ? strstr(at + 1, "\n.It ") : NULL;
    struct nc_buf text = NC_BUF_INIT;

    while (end && (at = strchr(at + 1, '\n')) && at < end) {
        const char *line = at[1] == '.' ? at + strlen("\n.Li ") : at + 1;
        const size_t n = strcspn(line, "\n");
        const bool is_apart = n > 1 && line[n - 2] == ' ' && strchr(",.:", line[n - 1]);
        (void)nc_buf_printf(&text, " %.*s", (int)(is_apart ? n - 2 : n), line);
        if (is_apart)
            (void)nc_buf_putc(&text, line[n - 1]);
    }
    return nc_buf_steal(&text);
}

static void expect_said(const char *page, const char *head, const char *words) {
    nc_auto_free char *item = manual_item(page, head);

    if (!item || !strstr(item, words))
        fail_msg("nodeclaimd.yaml.5 does not say of %s: %s", head, words);
}

/* "; default 30s, at most 10m" */
static void expect_default(const char *page, const struct nc_drain_setting *s, const char *help) {
    const char *head = s->path + strlen("spec.");
    const void *otherwise = (const char *)&nc_drain_defaults + s->offset;
    nc_auto_free char *item = manual_item(page, head), *text = NULL;
    nc_auto_free char *begin = nc_asprintf(" %s; default ", help);
    const char *at = item ? strstr(item, begin) : NULL;
    uint64_t usec = UINT64_MAX;

    if (!at)
        fail_msg("nodeclaimd.yaml.5 does not say of %s:%s", head, begin);
    at += strlen(begin);
    text = nc_strndup(at, strcspn(at, ",.: "));
    if (s->type == NC_SETTING_POLICY)
        assert_string_equal(text, nc_policy_name(*(const enum nc_policy *)otherwise));
    else if (s->type == NC_SETTING_BOOL)
        assert_string_equal(text, *(const bool *)otherwise ? "true" : "false");
    else
        assert_true(nc_duration_parse(text, &usec) == 0 && usec == *(const uint64_t *)otherwise);
    if (*s->most) {
        nc_auto_free char *most = nc_asprintf("; default %s, at most %s.", text, s->most);
        expect_said(page, head, most);
    }
}

static void expect_policies(const char *page) {
    nc_cleanup(nc_buf_done) struct nc_buf words = NC_BUF_INIT;
    const char *heads = strstr(page, "\n.It Li interruption.");
    nc_auto_free char *head = nc_strndup(heads + 1, strcspn(heads + 1, "\n"));

    (void)nc_buf_puts(&words, "Default drain,");
    for (enum nc_source s = 0; s < _NC_SOURCE_MAX; s++) {
        nc_auto_free char *name = nc_asprintf(".%s", nc_source_name(s));
        if (nc_sources[s].is_option && !strstr(head, name))
            fail_msg("nodeclaimd.yaml.5 has no interruption%s", name);
        if (nc_sources[s].is_option && nc_sources[s].policy != NC_POLICY_DRAIN)
            (void)nc_buf_printf(&words, " for %s %s.", nc_source_name(s),
                                nc_policy_name(nc_sources[s].policy));
    }
    expect_said(page, "interruption.", words.data);
}

static void expect_codes(const char *page) {
    static const struct {
        const char *code, *does, *most, *end;
    } rows[] = {
#define CODE(id, code, most, returns, does)                                                        \
    {code, does, #most, (returns) ? "; the machine comes back." : "."},
        NC_MAINTENANCE_CODES(CODE)};
#undef CODE

    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        const char *most = nc_streq(rows[i].most, "DRAIN") ? "drain" : "cordon";
        nc_auto_free char *words =
            nc_asprintf(" %s: EC2 %s; at most %s%s", rows[i].code, rows[i].does, most, rows[i].end);
        expect_said(page, "interruption.instance-stop", words);
    }
}

/* The manual page lists each setting of a drain with the words and the default of its row. */
static void manual_page(void **state) {
#define HELP(type, member, name, by_default, help, ...) help,
    static const char *const helps[] = {NC_DRAIN_SETTINGS(HELP, HELP)};
    const char *top = getenv("NC_SRCDIR"), *const *help = helps;
    nc_auto_free char *path = nc_asprintf("%s/man/nodeclaimd.yaml.5", top ? top : ".");
    nc_cleanup(nc_buf_done) struct nc_buf page = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    (void)state;
    if (nc_file_read(path, (size_t)1 << 20, &page, &err) < 0)
        fail_msg("%s", err.msg);
    for (const struct nc_drain_setting *s = nc_drain_setting_rows; *s->path; s++) {
        nc_auto_free char *mode = NULL;
        if (s->type == NC_SETTING_POLICY
            && s->offset != offsetof(struct nc_drain_settings, karpenter_reboot)
            && s->offset != offsetof(struct nc_drain_settings, reboot))
            continue;
        if (s->type == NC_SETTING_MODE) {
            mode = nc_asprintf(" %s. %s (default)", *help,
                               nc_name_at(nc_drain_mode_names, nc_drain_defaults.mode - 1));
            expect_said(page.data, s->path + strlen("spec."), mode);
        } else {
            expect_default(page.data, s, *help);
        }
        help++;
    }
    expect_policies(page.data);
    expect_codes(page.data);
}

/* Whoever switches the drain off does not quote the word. */
static void bare_off(void **state) {
    BUILT(c, GOOD, AGENT("drain: {mode: off}"));

    (void)state;
    assert_int_equal(c.drain.mode, NC_DRAIN_OFF);
}

static void everything(void **state) {
    BUILT(
        c, GOOD,
        AGENT(
            "node: {name: resource-name, nameOverride: me, providerID: 'aws:///a/i-0', labels: "
            "{a: b, c: 1}, taints: [{key: k, "
            "effect: NoExecute}, {key: l, value: v, effect: NoSchedule}]}, maxPods: {mode: "
            "prefix, expression: e, value: 7}, "
            "reservation: {policy: gke, kubeReserved: {cpu: 1}, systemReserved: {memory: "
            "1Gi}}, kubelet: {start: exec, unit: "
            "k.service, path: /k}, shutdown: {gracePeriod: 1m, gracePeriodCriticalPods: 10s}, "
            "interruption: {spot: cordon, "
            "rebalance: drain, maintenance: ignore, autoscaling: report, "
            "autoscalingDeadline: 30m, karpenterReboot: drain, reboot: cordon, shutdown: ignore}, "
            "drain: {mode: 'off', margin: 5s, "
            "linger: 2s, hookTimeout: 3s, podEvents: false, toleratingLast: true, "
            "replacementTimeout: 0s}, signal: "
            "none, report: "
            "{console: false, events: false, node: false}, "
            "aws: {ec2: never, ec2Endpoint: "
            "'http://e', stsEndpoint: 'http://s', domain: "
            "amazonaws.com.cn}, claim: {lookup: never}"));

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
    assert_int_equal(c.drain.policy[NC_SOURCE_SPOT], NC_POLICY_CORDON);
    assert_int_equal(c.drain.policy[NC_SOURCE_REBALANCE], NC_POLICY_DRAIN);
    assert_int_equal(c.drain.policy[NC_SOURCE_MAINTENANCE], NC_POLICY_IGNORE);
    assert_int_equal(c.drain.policy[NC_SOURCE_AUTOSCALING], NC_POLICY_REPORT);
    assert_int_equal(c.drain.autoscaling_deadline_usec, 1800000000);
    assert_int_equal(c.drain.karpenter_reboot, NC_POLICY_DRAIN);
    assert_int_equal(c.drain.reboot, NC_POLICY_CORDON);
    assert_int_equal(c.drain.policy[NC_SOURCE_SHUTDOWN], NC_POLICY_IGNORE);
    assert_int_equal(c.drain.mode, NC_DRAIN_OFF);
    assert_int_equal(c.drain.margin_usec, 5000000);
    assert_int_equal(c.drain.linger_usec, 2000000);
    assert_int_equal(c.drain.hook_timeout_usec, 3000000);
    assert_false(c.drain.pod_events);
    assert_true(c.drain.tolerating_last);
    assert_int_equal(c.drain.replacement_usec, 0);
    assert_false(c.report_console || c.report_events || c.report_node);
    assert_int_equal(c.ec2, NC_EC2_NEVER);
    assert_string_equal(c.ec2_endpoint, "http://e");
    assert_string_equal(c.sts_endpoint, "http://s");
    assert_string_equal(c.domain, "amazonaws.com.cn");
    assert_false(c.claim_lookup);
}

/* nodeadm's rules: maps deep, lists replaced, flags appended; empty strings of typed fields say
 * nothing, those of the free map do. */
static void merge(void **state) {
    BUILT(
        c, GOOD,
        CONFIG(
            "kubelet: {config: {maxPods: 1, clusterDNS: [10.0.0.1, 10.0.0.2], kubeReserved: {cpu: "
            "1, memory: 1Gi}, "
            "kubeReservedCgroup: /a, logging: {verbosity: 2}}, flags: [--v=2, --node-labels=a=b]}"),
        CONFIG("cluster: {name: '', cidr: 10.200.0.0/16}, kubelet: {config: {maxPods: 2, "
               "clusterDNS: [10.0.0.3], kubeReserved: {cpu: "
               "200m}, kubeReservedCgroup: '', logging: {verbosity: null}}, flags: ['', --v=5]}"),
        AGENT("kubelet: {config: {podsPerCore: 3}, flags: [--v=6]}, cluster: null"));

    (void)state;
    assert_string_equal(c.cluster_name, "blue");
    assert_string_equal(c.cidr, "10.200.0.0/16");
    expect_json(c.kubelet,
                "{\"maxPods\":2,\"clusterDNS\":[\"10.0.0.3\"],\"kubeReserved\":{\"cpu\":\"200m\","
                "\"memory\":\"1Gi\"},"
                "\"kubeReservedCgroup\":\"\",\"logging\":{\"verbosity\":null},\"podsPerCore\":3}");
    assert_int_equal(c.kubelet_flags.n, 4);
    assert_string_equal(c.kubelet_flags.v[0], "--v=2");
    assert_string_equal(c.kubelet_flags.v[1], "--node-labels=a=b");
    assert_string_equal(c.kubelet_flags.v[2], "--v=5");
    assert_string_equal(c.kubelet_flags.v[3], "--v=6");
    assert_int_equal(c.kubelet_flag_marks[2].source, 3);
    assert_int_equal(c.kubelet_flag_marks[3].source, 4);
    expect_json(nc_value_path(c.tree, "spec.kubelet.flags"),
                "[\"--v=2\",\"--node-labels=a=b\",\"--v=5\",\"--v=6\"]");
}

/* Every value of the tree knows where it is from and what it overrode. */
static void provenance(void **state) {
    const struct nc_value *v = NULL;
    BUILT(c, GOOD, CONFIG("kubelet: {config: {maxPods: 1, kubeReserved: {cpu: 1}}}"),
          CONFIG("kubelet: {config: {maxPods: 2}}"));

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

/* As in Kubernetes. */
static void labels_may_be_empty(void **state) {
    BUILT(c, GOOD, AGENT("node: {labels: {a: b, c: d}}"),
          AGENT("node: {labels: {a: '', e: ''}, labelsFrom: {f: ''}}"));

    (void)state;
    expect_json(nc_value_path(c.tree, "spec.node"),
                "{\"labels\":{\"a\":\"\",\"c\":\"d\",\"e\":\"\"}}");
    assert_int_equal(c.n_labels, 3);
    assert_string_equal(c.labels[2].value, "");
}

static void taints_are_united(void **state) {
    BUILT(c, GOOD,
          AGENT("node: {labels: {a: b, c: d}, taints: [{key: a, effect: NoExecute}, {key: b, "
                "effect: NoExecute}]}"),
          AGENT("node: {labels: {c: e}, taints: [{key: a, value: x, effect: NoExecute}, {key: a, "
                "effect: NoSchedule}]}"));

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

/* NodeClass below NodeClaim below NodeConfig, whatever the order in which they come. */
static void precedence(void **state) {
    (void)state;
    {
        BUILT(c, CONFIG("kubelet: {config: {maxPods: 3}}"),
              NODE_CLASS("x", "kubelet: {maxPods: 1, podsPerCore: 1}"), GOOD);
        expect_json(c.kubelet, "{\"maxPods\":3,\"podsPerCore\":1}");
    }
    {
        BUILT(c, GOOD, NODE_CLAIM("}\nspec: {" CLASS_REF "}\n"),
              NODE_CLASS("x", "kubelet: {maxPods: 1}"),
              NODE_CLASS("other", "kubelet: {maxPods: 2}"));
        expect_json(c.kubelet, "{\"maxPods\":1}");
        assert_true(c.has_claim_document);
        assert_string_equal(c.claim.name, "c");
        assert_int_equal(c.warnings.n, 1);
        assert_string_equal(c.warnings.v[0],
                            "d4:4:17: not used: the NodeClaim refers to NodeClass x");
    }
    {
        BUILT(c, GOOD, NODE_CLASS("x", "kubelet: {maxPods: 1, podsPerCore: 1}"),
              NODE_CLAIM(", annotations: {compatibility.karpenter.sh/v1beta1-kubelet-conversion: "
                         "'{\"maxPods\": 2, \"kubeReserved\": {\"cpu\": "
                         "\"1\"}}'}}\nspec: {" CLASS_REF "}\n"));
        expect_json(c.kubelet, "{\"maxPods\":2,\"kubeReserved\":{\"cpu\":\"1\"}}");
        assert_int_equal(nc_value_path(c.tree, "spec.kubelet.config.kubeReserved.cpu")->mark.source,
                         3);
        assert_string_equal(
            c.warnings.v[0],
            "d2:4:17: spec.kubelet: not used: the NodeClaim carries a kubelet block of its own");
    }
    {
        BUILT(c, GOOD,
              "apiVersion: karpenter.sh/v1beta1\nkind: NodeClaim\nspec: {nodeClassRef: {name: x}, "
              "kubelet: {maxPods: 5, "
              "containerRuntime: containerd, systemReserved: {cpu: 1}}}\n");
        expect_json(c.kubelet, "{\"maxPods\":5,\"systemReserved\":{\"cpu\":\"1\"}}");
    }
    {
        BUILT(c, GOOD, NODE_CLAIM(", labels: {old: x}}\nspec: {" CLASS_REF "}\n"),
              NODE_CLAIM(", labels: {new: x}}\nspec: {" CLASS_REF "}\n"));
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
        BUILT(c, GOOD, AGENT("node: {name: hostname}"),
              CONFIG("featureGates: {InstanceIdNodeName: true}"));
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
        BUILT(c, GOOD, CONFIG("kubelet: {maxPodsExpression: max_pods}"),
              AGENT("maxPods: {value: 20}"));
        assert_int_equal(c.max_pods_mode, NC_MAX_PODS_EXPLICIT);
    }
    {
        BUILT(c, GOOD, CONFIG("kubelet: {maxPodsExpression: a}"),
              AGENT("maxPods: {expression: b, mode: eni}"));
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

static void auth(void **state) {
    static const struct {
        const char *document;
        enum nc_auth_mode mode;
    } rows[] = {
        {ACCESS("clientCertificate: /c, clientKey: /k"), NC_AUTH_CLIENT_CERTIFICATE},
        {ACCESS("mode: client-certificate, clientCertificate: /c, clientKey: /k, kubeconfig: /x"),
         NC_AUTH_CLIENT_CERTIFICATE},
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

/* Later documents are laid over earlier ones: variables by name, lists as a whole, the texts of
 * containerd are kept apart. */
static void host_fields(void **state) {
    BUILT(
        c, GOOD,
        CONFIG("containerd: {config: a=1, baseRuntimeSpec: {a: []}}, instance: {localStorage: "
               "{strategy: RAID0, disabledMounts: [SOCI]}, environment: {kubelet: {B: '', A: "
               "x}, default: {C: c}, none: {}}, network: {domains: [a], nameservers: [10.0.0.2, "
               "'fd00::2']}}, featureGates: {FastImagePull: true}"),
        CONFIG("containerd: {config: b=2}, instance: {localStorage: {mountPath: /m}, environment: "
               "{kubelet: {A: null, D: d}}, network: {domains: [~b, b.]}}"));
    const struct nc_host_config *h = &c.host;

    (void)state;
    assert_int_equal(c.warnings.n, 0);
    assert_int_equal(h->n_environment, 2);
    assert_string_equal(h->environment[0].service, NC_ENVIRONMENT_DEFAULT);
    assert_string_equal(h->environment[1].service, "kubelet");
    assert_int_equal(h->environment[1].n, 2);
    assert_string_equal(h->environment[1].variables[0].name, "B");
    assert_string_equal(h->environment[1].variables[0].value, "");
    assert_string_equal(h->environment[1].variables[1].value, "d");
    assert_int_equal(h->network.nameservers.n, 2);
    assert_int_equal(h->network.domains.n, 2);
    assert_string_equal(h->network.domains.v[0], "~b");
    assert_int_equal(h->storage.strategy, NC_STORAGE_RAID0);
    assert_string_equal(h->storage.mount_path, "/m");
    assert_true(h->storage.without_soci);
    assert_false(h->storage.without_containerd || h->storage.without_pod_logs);
    assert_int_equal(h->containerd.n_texts, 2);
    assert_string_equal(h->containerd.texts[0].toml, "a=1");
    assert_int_equal(h->containerd.texts[1].mark.source, 3);
    assert_int_equal(nc_value_get(h->containerd.base_spec, "a")->type, NC_VALUE_LIST);
    assert_true(h->fast_image_pull);
}

static void no_host_fields(void **state) {
    BUILT(c, GOOD,
          CONFIG("containerd: {config: '', baseRuntimeSpec: {}}, instance: {localStorage: "
                 "{strategy: ''}}, cluster: {enableOutpost: false}, featureGates: "
                 "{FastImagePull: false}"));

    (void)state;
    assert_int_equal(c.warnings.n, 0);
    assert_int_equal(c.host.n_environment, 0);
    assert_int_equal(c.host.storage.strategy, NC_STORAGE_NONE);
    assert_int_equal(c.host.containerd.n_texts, 0);
    assert_null(c.host.containerd.base_spec);
    assert_false(c.host.fast_image_pull);
}

static void storage_without_strategy(void **state) {
    BUILT(c, GOOD, CONFIG("instance: {localStorage: {disabledMounts: [PodLogs]}}"));

    (void)state;
    assert_int_equal(c.warnings.n, 1);
    assert_non_null(strstr(c.warnings.v[0], ": spec.instance.localStorage: of no effect"));
}

static void dns_instead_of_cidr(void **state) {
    static const char head[] =
        "cluster: {name: a, apiServerEndpoint: 'https://a', certificateAuthority: " CA
        "}, kubelet: ";
    static const char *const kubelets[] = {"{config: {clusterDNS: [10.0.0.10]}}",
                                           "{flags: [--cluster-dns=10.0.0.10]}",
                                           "{flags: [--cluster-dns, 10.0.0.10]}"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(kubelets); i++) {
        nc_auto_free char *document = nc_asprintf(NODE_CONFIG "spec: {%s%s}\n", head, kubelets[i]);
        BUILT(c, document);
        assert_null(c.cidr);
    }
}

static void fit(void **state) {
    (void)state;
    {
        BUILT(c, GOOD);
        assert_false(c.fit.is_set);
    }
    {
        BUILT(c, GOOD, AGENT("fit: {daemonSets: all}"));
        assert_true(c.fit.is_set);
        assert_int_equal(c.fit.wanted[NC_FIT_DAEMON_SETS].n, 1);
        assert_string_equal(c.fit.wanted[NC_FIT_DAEMON_SETS].v[0], NC_FIT_ALL);
        assert_int_equal(c.fit.timeout_usec, NC_FIT_TIMEOUT_USEC);
        assert_false(c.fit.holds);
    }
    {
        BUILT(c, GOOD,
              AGENT("fit: {daemonSets: [kube-system/a, kube-system/a, b/c.d], csiDrivers: "
                    "[ebs.csi.aws.com], resources: [nvidia.com/gpu], conditions: [NetworkReady], "
                    "timeout: 0s, onTimeout: hold}"));
        assert_int_equal(c.fit.wanted[NC_FIT_DAEMON_SETS].n, 2);
        assert_string_equal(c.fit.wanted[NC_FIT_CSI_DRIVERS].v[0], "ebs.csi.aws.com");
        assert_string_equal(c.fit.wanted[NC_FIT_RESOURCES].v[0], "nvidia.com/gpu");
        assert_string_equal(c.fit.wanted[NC_FIT_CONDITIONS].v[0], "NetworkReady");
        assert_int_equal(c.fit.timeout_usec, 0);
        assert_true(c.fit.holds);
    }
    {
        BUILT(c, GOOD, AGENT("fit: {timeout: 1m}")); /* for kubelet's first report alone */
        assert_true(c.fit.is_set);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {cmocka_unit_test(defaults),
                                       cmocka_unit_test(bare_off),
                                       cmocka_unit_test(manual_page),
                                       cmocka_unit_test(everything),
                                       cmocka_unit_test(merge),
                                       cmocka_unit_test(provenance),
                                       cmocka_unit_test(labels_may_be_empty),
                                       cmocka_unit_test(taints_are_united),
                                       cmocka_unit_test(precedence),
                                       cmocka_unit_test(naming),
                                       cmocka_unit_test(max_pods),
                                       cmocka_unit_test(shutdown_halves),
                                       cmocka_unit_test(auth),
                                       cmocka_unit_test(host_fields),
                                       cmocka_unit_test(no_host_fields),
                                       cmocka_unit_test(storage_without_strategy),
                                       cmocka_unit_test(fit),
                                       cmocka_unit_test(dns_instead_of_cidr)};

    return run_group(tests, NULL, NULL);
}
