/*
 * The rules of kubelet's configuration: what is refused and with which words, what gives way, what
 * is reserved.
 */
#include "groups.h"
#include "plan-fixture.h"

#define MI ((int64_t)1 << 20)

static struct nc_value *yaml(const char *text) {
    struct nc_values values = {0};
    struct nc_value *v;
    struct nc_err err = NC_ERR_INIT;

    if (nc_yaml_parse(nc_text(text), 0, &values, &err) < 0 || values.n != 1)
        fail_msg("%s: %s", text, err.msg);
    v = nc_value_copy(values.v[0]);
    nc_values_done(&values);
    return v;
}

/* Each of these would make kubelet exit; each names its field. */
struct rule_row {
    const char *config, *message; /* NULL: accepted */
};

static void check_rows(const struct rule_row *rows, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *kubelet = nc_asprintf("    config: %s\n", rows[i].config);
        nc_auto_free char *text = node_config(kubelet);
        print_message("# %s\n", rows[i].config);
        fixture_document(x, text);
        if (rows[i].message) /* the documents' schema may be the first to say it */
            fixture_refused(x, NC_ERR_CONFIG, "");
        else
            fixture_plan(x);
        fixture_free(x);

        x = fixture_new();
        x->has_config = true;
        x->config.kubelet = yaml(rows[i].config);
        if (rows[i].message)
            fixture_refused(x, NC_ERR_CONFIG, rows[i].message);
        else
            fixture_plan(x);
        fixture_free(x);
    }
}

static void test_rules(void **state) {
    static const struct rule_row rows[] = {
        {"{maxPods: -1}", "maxPods"},
        {"{podsPerCore: -1}", "podsPerCore"},
        {"{imageGCHighThresholdPercent: 101}", "imageGCHighThresholdPercent"},
        {"{imageGCHighThresholdPercent: 80}", "imageGCLowThresholdPercent: 80 must be below"},
        {"{imageGCLowThresholdPercent: 85}", "imageGCLowThresholdPercent: 85 must be below"},
        {"{imageGCHighThresholdPercent: 50, imageGCLowThresholdPercent: 40}", NULL},
        {"{evictionSoft: {memory.available: 500Mi}}",
         "evictionSoft.memory.available: has no grace period"},
        {"{evictionSoftGracePeriod: {memory.available: 1m}}", "has no threshold in evictionSoft"},
        {"{evictionSoft: {memory.available: 500Mi}, evictionSoftGracePeriod: {memory.available: "
         "1m}}",
         NULL},
        {"{evictionSoft: {memory.available: 500Mi}, evictionSoftGracePeriod: {memory.available: "
         "soon}}",
         "must be a duration"},
        {"{evictionHard: {memory.availible: 5%}}", "did you mean \"memory.available\"?"},
        {"{evictionHard: {memory.available: 101%}}", "must be a quantity above 0, or a percentage"},
        {"{evictionHard: {memory.available: abc}}", "evictionHard['memory.available']"},
        {"{evictionHard: {memory.available: '0'}}", "must be a quantity above 0"},
        {"{evictionHard: {memory.available: 0%}}", NULL},
        {"{evictionHard: {memory.available: 100%}}", NULL},
        {"{evictionHard: {pid.available: 10%, imagefs.available: 15%, imagefs.inodesFree: 5%}}",
         NULL},
        {"{evictionMinimumReclaim: {memory.available: 0%}}", "evictionMinimumReclaim"},
        {"{evictionMinimumReclaim: {memory.available: '0'}}", NULL},
        {"{evictionHard: {memory.available: [1]}}", "must be a string"},
        {"{evictionHard: [1]}", "evictionHard: must be a map"},
        {"{evictionSoftGracePeriod: x}", "evictionSoftGracePeriod: must be a map"},
        {"{protectKernelDefaults: 'yes'}", "must be true or false"},
        {"{maxPods: [7]}", "must be an integer"},
        {"{port: 0}", "port: must be between 1 and 65535, not 0"},
        {"{podPidsLimit: -5}", NULL},
        {"{iptablesDropBit: 32}", "iptablesDropBit: must be between 0 and 31, not 32"},
        {"{containerLogMaxWorkers: 0}", "containerLogMaxWorkers: must be between"},
        {"{evictionMaxPodGracePeriod: -1}", "evictionMaxPodGracePeriod"},
        {"{kubeReserved: {gpu: '1'}}", "kubeReserved"},
        {"{kubeReserved: {cpu: '-1'}}", "kubeReserved"},
        {"{kubeReserved: {cpu: 1}}", NULL},
        {"{systemReserved: {memory: 100Gi}}", "memory: "},
        {"{systemReserved: {cpu: '1.99', memory: 100Gi}}", "cpu: 2060m is kept back of the 2000m"},
        {"{reservedSystemCPUs: '0'}", NULL},
        {"{reservedSystemCPUs: '0', kubeReservedCgroup: /x}",
         "reservedSystemCPUs: cannot be set beside"},
        {"{reservedSystemCPUs: 'a'}", "reservedSystemCPUs"},
        {"{reservedSystemCPUs: '1-2'}", "CPU 1 is the last one of this host"},
        {"{shutdownGracePeriod: 10s}", NULL}, /* the default for critical pods gives way */
        {"{shutdownGracePeriod: 0s}", NULL},
        {"{shutdownGracePeriodCriticalPods: 5m}", NULL},
        {"{shutdownGracePeriod: 10s, shutdownGracePeriodCriticalPods: 20s}", "must not be above"},
        {"{shutdownGracePeriod: 500ms}", "at least 1s"},
        {"{shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 60}]}",
         NULL},
        {"{shutdownGracePeriod: 10s, shutdownGracePeriodByPodPriority: [{priority: 0, "
         "shutdownGracePeriodSeconds: 60}]}",
         "cannot be set beside shutdownGracePeriod"},
        {"{featureGates: {RotateKubeletServerCertificate: false}}", "serverTLSBootstrap needs it"},
        {"{serializeImagePulls: true, maxParallelImagePulls: 3}", "maxParallelImagePulls"},
        {"{maxParallelImagePulls: 3}", NULL},
        {"{enforceNodeAllocatable: [pods, kube-reserved]}", NULL},
        {"{enforceNodeAllocatable: [pods, kube-reserved], kubeReservedCgroup: ''}",
         "needs kubeReservedCgroup"},
        {"{enforceNodeAllocatable: [system-reserved], systemReservedCgroup: ''}",
         "needs systemReservedCgroup"},
        {"{enforceNodeAllocatable: [system-reserved]}", "and systemReserved"},
        {"{enforceNodeAllocatable: [system-reserved], systemReserved: {cpu: 100m}}", NULL},
        {"{enforceNodeAllocatable: [none, pods]}", "none excludes"},
        {"{enforceNodeAllocatable: [everything]}", "enforceNodeAllocatable"},
        {"{clusterDNS: [nowhere]}", "clusterDNS"},
        {"{registerWithTaints: [{key: a, effect: Never}]}", "registerWithTaints"},
        {"{apiVersion: kubelet.config.k8s.io/v1, kind: KubeletConfiguration}", "apiVersion"},
        {"{kind: Kubelet}", "kind"},
        {"{someFutureField: {a: [1, 2]}}", NULL},
    };

    (void)state;
    check_rows(rows, NC_ARRAY_SIZE(rows));
}

/* What kubelet demands of several fields together, or of a field and a gate. */
static void test_rules_together(void **state) {
    static const struct rule_row rows[] = {
        {"{cpuManagerPolicy: static, kubeReserved: {cpu: 0}}", "static needs a reservation of CPU"},
        {"{cpuManagerPolicy: static}", NULL},
        {"{cpuManagerPolicy: static, kubeReserved: {cpu: 0}, systemReserved: {cpu: 1m}}", NULL},
        {"{memoryManagerPolicy: Static}", "Static needs all of kubeReserved, systemReserved"},
        {"{memoryManagerPolicy: Static, kubeReserved: {memory: 300Mi}, reservedMemory: [{numaNode: "
         "0, limits: {memory: 400Mi}}]}",
         NULL},
        {"{memoryManagerPolicy: Static, kubeReserved: {memory: 300Mi}, reservedMemory: [{numaNode: "
         "0, limits: {memory: 300Mi}}]}",
         "419430400 bytes of memory"},
        {"{memoryManagerPolicy: Static, kubeReserved: {memory: 300Mi}, systemReserved: {memory: "
         "100Mi}, evictionHard: {memory.available: 50Mi}, reservedMemory: [{numaNode: 0, limits: "
         "{memory: 400Mi}}, {numaNode: 1, limits: {memory: 50Mi}}]}",
         NULL},
        {"{memoryManagerPolicy: Static, kubeReserved: {memory: 300Mi}, reservedMemory: [{numaNode: "
         "0, limits: {memory: 400Mi, hugepages-2Mi: 2Mi}}]}",
         "and nothing else"},
        {"{memoryManagerPolicy: Static, evictionHard: {memory.available: 5%}, reservedMemory: "
         "[{numaNode: 0, limits: {memory: 1Gi}}]}",
         NULL},
        {"{enforceNodeAllocatable: [pods, pods]}", "pods is there twice"},
        {"{enforceNodeAllocatable: [pods, '']}", "enforceNodeAllocatable"},
        {"{enforceNodeAllocatable: [kube-reserved, kube-reserved-compressible]}",
         "cannot be set beside kube-reserved"},
        {"{cgroupsPerQOS: false}", "cgroupsPerQOS: false needs"},
        {"{cgroupsPerQOS: false, enforceNodeAllocatable: [none]}", NULL},
        {"{cgroupsPerQOS: false, enforceNodeAllocatable: []}", NULL},
        {"{imageMaximumGCAge: 2m}", "must be above imageMinimumGCAge"},
        {"{imageMaximumGCAge: 1h, imageMinimumGCAge: 1h}", "must be above imageMinimumGCAge"},
        {"{imageMaximumGCAge: 121s}", NULL},
        {"{imageMaximumGCAge: 0s}", NULL},
        {"{memoryThrottlingFactor: 0}", "memoryThrottlingFactor: must be above 0"},
        {"{memoryThrottlingFactor: 1.1}", "memoryThrottlingFactor: must be above 0"},
        {"{memoryThrottlingFactor: 1}", NULL},
        {"{reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]}", NULL},
        {"{reservedMemory: [{numaNode: 0, limits: {memory: '0'}}]}", "must be above 0"},
        {"{reservedMemory: [{numaNode: 0, limits: {cpu: '1'}}]}", "memory or hugepages-SIZE"},
        {"{reservedMemory: [{limits: {memory: 1Gi}}, {numaNode: 0, limits: {memory: 1Gi}}]}",
         "memory of NUMA node 0 is there twice"},
        {"{podLogsDir: var/log}", "podLogsDir"},
        {"{podLogsDir: /var/log/}", "podLogsDir"},
        {"{podLogsDir: /var/log/p\xc3\xb6"
         "ds}",
         "podLogsDir"},
        {"{podLogsDir: /var/log/pods}", NULL},
        {"{containerLogMonitorInterval: 2.9s}", "at least 3s"},
        {"{containerLogMonitorInterval: 3s}", NULL},
        {"{containerLogMaxSize: 10 MB}", "a quantity such as"},
        {"{containerLogMaxSize: 10Mi}", NULL},
        {"{runOnce: true}", "runOnce"},
        {"{logging: {format: yaml}}", "text or json"},
        {"{logging: {format: json, verbosity: 4}}", NULL},
        {"{logging: {verbosity: -1}}", "logging.verbosity"},
        {"{logging: {options: {json: {splitStream: true}}}}", "LoggingAlphaOptions"},
        {"{logging: {vmodule: [{verbosity: 3}]}}", "filePattern"},
        {"{logging: {vmodule: [{filePattern: 'a,b', verbosity: 3}]}}", "without = and ,"},
        {"{logging: {vmodule: [{filePattern: a, verbosity: 3}]}}", NULL},
        {"{logging: {format: text, vmodule: [{filePattern: a, verbosity: 3}]}}", NULL},
        {"{logging: {format: json, vmodule: []}}", NULL},
        {"{logging: {format: json, vmodule: [{filePattern: a, verbosity: 3}]}}",
         "logging.vmodule: needs format: text"},
        {"{tracing: {samplingRatePerMillion: 1000001}}", "samplingRatePerMillion"},
        {"{tracing: {endpoint: 'localhost:4317'}}", NULL},
        {"{tracing: {endpoint: 'http://localhost:4317'}}", "tracing.endpoint"},
        {"{memorySwap: {swapBehavior: UnlimitedSwap}}", "UnlimitedSwap was removed"},
        {"{memorySwap: {swapBehavior: LimitedSwap}}", NULL},
        {"{crashLoopBackOff: {maxContainerRestartPeriod: 10s}}",
         "needs the feature gate KubeletCrashLoopBackOffMax"},
        {"{crashLoopBackOff: {maxContainerRestartPeriod: 10s}, featureGates: "
         "{KubeletCrashLoopBackOffMax: true}}",
         NULL},
        {"{crashLoopBackOff: {maxContainerRestartPeriod: 10s}, featureGates: {AllAlpha: true}}",
         NULL},
        {"{cpuCFSQuotaPeriod: 20ms}", "needs the feature gate CustomCPUCFSQuotaPeriod"},
        {"{cpuCFSQuotaPeriod: 0.1s}", NULL},
        {"{cpuCFSQuotaPeriod: 2s}", "from 1ms to 1s"},
        {"{imagePullCredentialsVerificationPolicy: AlwaysVerify}",
         "needs the feature gate KubeletEnsureSecretPulledImages"},
        {"{preloadedImagesVerificationAllowlist: [registry.example.com/a], featureGates: "
         "{KubeletEnsureSecretPulledImages: true}}",
         "NeverVerifyAllowlistedImages"},
        {"{enableSystemLogQuery: true}", "needs the feature gate NodeLogQuery"},
        {"{enableSystemLogQuery: true, enableSystemLogHandler: false, featureGates: "
         "{NodeLogQuery: true}}",
         "enableSystemLogQuery needs it"},
        {"{tracing: {}}", NULL},
        {"{tracing: {}, featureGates: {KubeletTracing: false}}",
         "tracing: needs the feature gate KubeletTracing"},
        {"{systemCgroups: /system, cgroupRoot: ''}", "systemCgroups: needs cgroupRoot"},
        {"{showHiddenMetricsForVersion: '1.34'}", "only 1.33 is possible"},
        {"{showHiddenMetricsForVersion: '1.33'}", NULL},
        {"{userNamespaces: {idsPerPod: 65537}}", "a multiple of 65536"},
        {"{featureGates: {GracefulNodeShutdown: false}}", NULL}, /* the default gives way */
        {"{featureGates: {GracefulNodeShutdown: false}, shutdownGracePeriod: 10s}",
         "needs the feature gate GracefulNodeShutdown"},
        {"{featureGates: {GracefulNodeShutdownBasedOnPodPriority: false}, "
         "shutdownGracePeriodByPodPriority: [{priority: 0, shutdownGracePeriodSeconds: 60}]}",
         "needs the feature gate GracefulNodeShutdownBasedOnPodPriority"},
        {"{syncFrequency: ''}", "syncFrequency: must be a duration"},
        {"{authentication: {webhook: {cacheTTL: ''}}}", "cacheTTL: must be a duration"},
        {"{staticPodURLHeader: {a: b}}", "a list of strings"},
        {"{maxpods: 20}", "did you mean"},
    };

    (void)state;
    check_rows(rows, NC_ARRAY_SIZE(rows));
}

/* A gate or flag that this kubelet does not know is refused with what would help. */
static void test_known(void **state) {
    static const struct {
        const char *version, *kubelet, *message; /* NULL: accepted */
    } rows[] = {
        {"v1.34.4", "{flags: ['--max-pod=110']}",
         "--max-pod: unknown flag, did you mean \"--max-pods\"?"},
        {"v1.34.4", "{flags: ['--max-pods=110 --v=2', '-v=2']}", NULL},
        {"v1.34.4", "{flags: ['--kubelet-extra-args=--v=2']}",
         "--kubelet-extra-args: unknown flag"},
        {"v1.34.4", "{flags: ['--container-runtime=remote']}", "removed in Kubernetes 1.27"},
        {"v1.34.4", "{flags: ['--pod-infra-container-image=x']}", NULL},
        {"v1.35.4", "{flags: ['--pod-infra-container-image=x']}", "removed in Kubernetes 1.35"},
        {"v1.34.4", "{flags: ['--cloud-provider=aws']}",
         "flags: --cloud-provider=aws: removed in Kubernetes 1.27"},
        {"v1.30.4", "{flags: ['--cloud_provider gce']}", NULL},
        {"v1.34.4", "{flags: ['--cloud_provider gce']}",
         "flags: --cloud-provider=gce: removed in Kubernetes 1.31"},
        {"v1.34.4", "{flags: ['--cloud-provider=extern']}",
         "--cloud-provider=extern: unknown value, did you mean \"--cloud-provider=external\"?"},
        {"v1.34.4", "{flags: ['--cloud-provider=aws', '--cloud-provider=external']}", NULL},
        {"v1.34.4", "{flags: ['--cloud-provider=']}", NULL},
        {"v1.34.4", "{config: {featureGates: {CSIMigration: true}}}",
         "featureGates.CSIMigration: removed in Kubernetes 1.27"},
        {"v1.34.4", "{flags: ['--feature-gates=CSIMigration=true']}", "removed in Kubernetes 1.27"},
        {"v1.34.4", "{config: {featureGates: {MemoryQos: true}}}", "did you mean \"MemoryQoS\"?"},
        {"v1.34.4", "{config: {featureGates: {MemoryQoS: true}}}", NULL},
        {"v1.34.4", "{config: {featureGates: {DefaultPodSysctls: true}}}",
         "comes with Kubernetes 1.37"},
        {"v1.33.4", "{config: {featureGates: {NodeSwap: false}}}", NULL},
        {"v1.34.4", "{config: {featureGates: {NodeSwap: false}}}",
         "is true since Kubernetes 1.34 and cannot be changed"},
        {"v1.34.4", "{config: {featureGates: {NodeSwap: true}}}", NULL},
        {"v1.34.4", "{config: {featureGates: {Part: true, Whole: false}}}", NULL},
        {"v1.35.4", "{config: {featureGates: {Part: true, Whole: false}}}",
         "featureGates.Part: needs the feature gate Whole, which is off in kubelet 1.35"},
        {"v1.35.4", "{config: {featureGates: {Part: true}}}", NULL},
        {"v1.36.0", "{config: {featureGates: {Whole: false}}}", "featureGates.Part: needs"},
        {"v1.36.0", "{config: {featureGates: {AllBeta: false}}}", NULL},
        {"v1.36.0", "{config: {featureGates: {AllBeta: false, Part: true}}}",
         "featureGates.Part: needs the feature gate Whole, which is off in kubelet 1.36"},
        {"v1.35.4", "{config: {featureGates: {AllAlpha: true, Whole: false}}}",
         "featureGates.Part: needs"},
        {"v1.38.0", "{config: {featureGates: {NewGate: true}}, flags: ['--new-flag']}", NULL},
        {"v1.34.4", "{config: {tlsCipherSuites: [TLS_ONE]}}", NULL},
        {"v1.34.4", "{config: {tlsCipherSuites: [TLS_ONE, '']}}",
         "spec.kubelet.config.tlsCipherSuites=: unknown value"},
        {"v1.34.4", "{config: {tlsCipherSuites: [TLS_ON]}}",
         "spec.kubelet.config.tlsCipherSuites=TLS_ON: unknown value, did you mean "
         "\"tlsCipherSuites=TLS_ONE\"?"},
        {"v1.34.4", "{flags: ['--tls-cipher-suites=TLS_ONE,TLS_X']}",
         "spec.kubelet.config.tlsCipherSuites=TLS_X: unknown value"},
        {"v1.38.0", "{config: {tlsCipherSuites: [TLS_X]}}", NULL},
        {"v1.30.0", "{config: {topologyManagerPolicyOptions: {max: '8'}}}",
         "comes with Kubernetes 1.31"},
        {"v1.34.4", "{config: {topologyManagerPolicyOptions: {max: '8'}}}", NULL},
        {"v1.34.4",
         "{config: {topologyManagerPolicyOptions: {max: '8'}, featureGates: {AllBeta: false}}}",
         "spec.kubelet.config.topologyManagerPolicyOptions=max: needs the feature gate Beta, which "
         "is off"},
        {"v1.35.0",
         "{config: {topologyManagerPolicyOptions: {max: '8'}, featureGates: {AllBeta: false}}}",
         NULL},
        {"v1.34.4", "{config: {cpuManagerPolicy: static, cpuManagerPolicyOptions: {socket: t}}}",
         "spec.kubelet.config.cpuManagerPolicyOptions=socket: needs the feature gate Alpha, which "
         "is off"},
        {"v1.34.4",
         "{config: {cpuManagerPolicy: static, cpuManagerPolicyOptions: {socket: t}, "
         "featureGates: {Alpha: true}}}",
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < 2 * NC_ARRAY_SIZE(rows); i++) {
        const char *message = rows[i / 2].message;
        struct fixture *x = fixture_new();
        nc_auto_free char *cluster_text = node_config("");
        nc_auto_free char *text =
            nc_asprintf("%s  kubelet: %s\n", cluster_text, rows[i / 2].kubelet);
        x->gates = "# gate\tfirst\tlast\ton\tlocked\tbeta\tstable\tneeds\n"
                   "AllAlpha\t18\t-\t-\t-\t18\t18\nAllBeta\t18\t-\t-\t-\t18\t18\n"
                   "Part\t34\t-\t36\t-\t36\t-\tWhole:35\n"
                   "Whole\t33\t-\t34\t-\t34\t-\nCSIMigration\t18\t26\t18\t25\n"
                   "DefaultPodSysctls\t37\t-\t-\t-\nDynamicResourceAllocation\t26\t-\t34\t35\n"
                   "MemoryQoS\t22\t-\t37\t-\nMutableCSINodeAllocatableCount\t33\t-\t35\t36\n"
                   "Alpha\t23\t-\t-\t-\t-\t-\nBeta\t23\t-\t23\t-\t23\t-\n"
                   "NodeSwap\t22\t-\t30\t34\nRotateKubeletServerCertificate\t18\t-\t18\t-\n";
        x->flags = "cloud-provider\t18\t-\ncloud-provider=\t18\t-\n"
                   "cloud-provider=aws\t18\t26\ncloud-provider=external\t18\t-\n"
                   "cloud-provider=gce\t18\t30\n"
                   "container-runtime\t18\t26\nfeature-gates\t18\t-\nmax-pods\t18\t-\n"
                   "pod-infra-container-image\t18\t34\nv\t18\t-\ntls-cipher-suites\t18\t-\n"
                   "cpuManagerPolicyOptions=socket\t25\t-\t-\t-\t-\t-\tAlpha:25;\n"
                   "tlsCipherSuites=TLS_ONE\t18\t-\n"
                   "topologyManagerPolicyOptions=max\t31\t-\t-\t-\t-\t-\t:35;Beta:31;\n";
        fixture_set(&x->facts.kubelet_version, rows[i / 2].version);
        fixture_document(x, text);
        if (i % 2) /* spec.bootstrap.unsupported: warn */
            fixture_document(x, "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\n"
                                "spec: {bootstrap: {unsupported: warn}}\n");
        print_message("# %s\n", rows[i / 2].kubelet);
        if (message && i % 2 == 0) {
            fixture_refused(x, NC_ERR_CONFIG, message);
        } else {
            fixture_plan(x);
            assert_int_equal(x->plan.unsupported.n, message != NULL);
            if (message && !strstr(x->plan.unsupported.v[0], message))
                fail_msg("%s", x->plan.unsupported.v[0]);
        }
        fixture_free(x);
    }
}

/* What a newer kubelet refuses, an older one takes; and gates that a release drops are not written.
 */
static void test_newest_kubelet(void **state) {
    static const struct {
        const char *version, *config, *message;
    } rows[] = {
        {"v1.31.14", "{enforceNodeAllocatable: [pods, kube-reserved-compressible]}",
         "kube-reserved-compressible comes with Kubernetes 1.32"},
        {"v1.31.14", "{enforceNodeAllocatable: [pods, kube-reserved]}", NULL},
        {"v1.32.13", "{enforceNodeAllocatable: [pods, kube-reserved-compressible]}", NULL},
        {"v1.36.3", "{memoryThrottlingFactor: 0.8, featureGates: {MemoryQoS: false}}", NULL},
        {"v1.37.2", "{memoryThrottlingFactor: 0.8, featureGates: {MemoryQoS: false}}",
         "memoryThrottlingFactor: needs"},
        {"v1.37.2", "{memoryThrottlingFactor: 1, featureGates: {MemoryQoS: false}}",
         "memoryThrottlingFactor: needs"},
        {"v1.37.2", "{memoryThrottlingFactor: 0.9, featureGates: {MemoryQoS: false}}", NULL},
        {"v1.37.2", "{memoryThrottlingFactor: 0.8}", NULL},
        {"v1.36.3", "{defaultPodSysctls: {net.ipv4.ip_forward: '1'}}", NULL},
        {"v1.37.2", "{defaultPodSysctls: {net.ipv4.ip_forward: '1'}}", "defaultPodSysctls: needs"},
        {"v1.37.2",
         "{defaultPodSysctls: {net.ipv4.ip_forward: '1'}, featureGates: {DefaultPodSysctls: true}}",
         NULL},
        {"v1.37.2", "{defaultPodSysctls: {}}", NULL},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        x->has_config = true;
        x->config.kubelet = yaml(rows[i].config);
        fixture_set(&x->facts.kubelet_version, rows[i].version);
        print_message("# row %zu\n", i);
        if (rows[i].message)
            fixture_refused(x, NC_ERR_CONFIG, rows[i].message);
        else
            fixture_plan(x);
        fixture_free(x);
    }
    for (unsigned minor = 32; minor <= 38; minor++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *version = nc_asprintf("v1.%u.0", minor), *text = node_config("");
        const struct nc_value *gates;
        fixture_set(&x->facts.kubelet_version, version);
        fixture_document(x, text);
        fixture_plan(x);
        gates = nc_value_get(x->plan.kubelet_base, "featureGates");
        assert_int_equal(gates->n, minor == 32 || minor == 38 ? 1 : minor == 33 ? 2 : 3);
        fixture_free(x);
    }
}

/* A gate that the user turns off is off in the file that kubelet fills with defaults, too. */
static void test_gates_that_are_off(void **state) {
    static const struct {
        const char *kubelet;
        bool off;
    } rows[] = {
        {"{config: {featureGates: {KubeletCrashLoopBackOffMax: false, NodeSwap: true}}}", true},
        {"{flags: ['--feature-gates=KubeletCrashLoopBackOffMax=false,NodeSwap=true']}", true},
        {"{config: {featureGates: {KubeletCrashLoopBackOffMax: true}}}", false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *cluster_text = node_config("");
        nc_auto_free char *text = nc_asprintf("%s  kubelet: %s\n", cluster_text, rows[i].kubelet);
        const struct nc_value *gates, *gate;
        fixture_set(&x->facts.kubelet_version, "v1.37.2");
        fixture_document(x, text);
        fixture_plan(x);
        gates = nc_value_get(x->plan.kubelet_base, "featureGates");
        gate = nc_value_get(gates, "KubeletCrashLoopBackOffMax");
        assert_int_equal(gate && !gate->boolean, rows[i].off);
        assert_null(nc_value_get(gates, "NodeSwap"));
        assert_non_null(nc_value_get(gates, "RotateKubeletServerCertificate"));
        fixture_free(x);
    }
}

/* The same through flags, which no document schema sees. */
static void test_flag_rules(void **state) {
    static const struct {
        const char *flag, *message;
    } rows[] = {
        {"--eviction-soft=memory.available<1Gi", "has no grace period"},
        {"--image-gc-low-threshold=90", "must be below"},
        {"--node-labels=a=b c", ":10:13: spec.kubelet.flags: after --node-labels: no flag; a name"},
        {"--node-labels=a=-", "--node-labels"},
        {"--register-with-taints=a", "--register-with-taints"},
        {"--hostname-override=A_B", "invalid node name"},
        {"--max-pods=many", "--max-pods=many"},
        {"--port=0", "port: must be between"},
        {"--container-log-max-files=1", "containerLogMaxFiles: must be between"},
        {"--serialize-image-pulls=2",
         ":10:13: spec.kubelet.flags: '--serialize-image-pulls=2': kubelet cannot read"},
        {"--sync-frequency=0s", "'--sync-frequency=0s': kubelet cannot read this value"},
        {"--reserved-cpus=0 --kube-reserved-cgroup=/x", "cannot be set beside"},
        {"--kube-reserved=cpu=1,disk=2", "kubeReserved.disk"},
        {"--eviction-hard=memory.availble<1Gi", "did you mean \"memory.available\"?"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *kubelet = nc_asprintf("    flags: ['%s']\n", rows[i].flag);
        nc_auto_free char *text = node_config(kubelet);
        fixture_document(x, text);
        fixture_refused(x, NC_ERR_CONFIG, rows[i].message);
        fixture_free(x);
    }
}

static void test_shutdown(void **state) {
    static const struct {
        unsigned minor;
        const char *agent, *kubelet;
        const char *whole, *critical; /* effective, NULL = absent */
        uint64_t there, delay;
    } rows[] = {
        {33, "", "", NULL, NULL, 0, 150000000}, /* kubelet has no time of its own: the drain's */
        {33, "", "", NULL, NULL, 30000000, 150000000},
        {33, "", "", NULL, NULL, 150000000, 0},
        {34, "", "", "2m30s", "30s", 0, 150000000},
        {34, "", "", "2m30s", "30s", 150000000, 0},
        {34, "", "", "2m30s", "30s", 149999999, 150000000},
        {34, "", "", "2m30s", "30s", 600000000, 0},
        {28, "{gracePeriod: 1m, gracePeriodCriticalPods: 10s}", "", "1m0s", "10s", 0, 60000000},
        {34, "{gracePeriod: 4s, gracePeriodCriticalPods: 2s}", "", "4s", "2s", 0, 0},
        {34, "{gracePeriod: 1m, gracePeriodCriticalPods: 10s}",
         "    config: {shutdownGracePeriod: 90s}\n", "90s", "10s", 0, 90000000},
        {34, "", "    config: {shutdownGracePeriod: 10s}\n", "10s", "10s", 0, 10000000},
        {34, "",
         "    config: {shutdownGracePeriodByPodPriority: [{priority: 0, "
         "shutdownGracePeriodSeconds: 60}, {priority: 9, shutdownGracePeriodSeconds: 30}]}\n",
         NULL, NULL, 0, 90000000},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *text = node_config(rows[i].kubelet);
        nc_auto_free char *version = nc_asprintf("v1.%u.0", rows[i].minor);
        const struct nc_value *k;
        fixture_set(&x->facts.kubelet_version, version);
        x->facts.logind_inhibit_delay_usec = rows[i].there;
        fixture_document(x, text);
        if (*rows[i].agent) {
            nc_auto_free char *agent = nc_asprintf(
                "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {shutdown: %s}\n",
                rows[i].agent);
            fixture_document(x, agent);
        }
        fixture_plan(x);
        k = x->plan.kubelet_effective;
        if (!nc_streq(nc_value_get_string(k, "shutdownGracePeriod"), rows[i].whole)
            || !nc_streq(nc_value_get_string(k, "shutdownGracePeriodCriticalPods"),
                         rows[i].critical)
            || x->plan.logind_delay_usec != rows[i].delay)
            fail_msg("row %zu: %s %s %llu", i, nc_value_get_string(k, "shutdownGracePeriod"),
                     nc_value_get_string(k, "shutdownGracePeriodCriticalPods"),
                     (unsigned long long)x->plan.logind_delay_usec);
        fixture_free(x);
    }
}

/* Where nothing is drained at a shutdown, only kubelet's own grace period needs time. */
static void test_shutdown_policy(void **state) {
    static const struct {
        const char *version, *policy;
        uint64_t delay;
    } rows[] = {
        {"v1.33.0", "drain", 150000000},
        {"v1.33.0", "cordon", 0},
        {"v1.33.0", "report", 0},
        {"v1.34.0", "report", 150000000},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *node = node_config("");
        nc_auto_free char *agent =
            nc_asprintf("apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\n"
                        "spec: {interruption: {shutdown: %s}}\n",
                        rows[i].policy);
        fixture_set(&x->facts.kubelet_version, rows[i].version);
        fixture_document(x, node);
        fixture_document(x, agent);
        fixture_plan(x);
        assert_int_equal(x->plan.logind_delay_usec, rows[i].delay);
        fixture_free(x);
    }
}

static void test_reservation(void **state) {
    static const struct {
        const char *agent, *kubelet;
        int64_t cpu, memory_mi;
    } rows[] = {
        {"{policy: karpenter}", "    config: {maxPods: 110}\n", 70, 574},
        {"{policy: actual}", "    config: {maxPods: 110}\n", 70, 1465},
        {"{policy: actual}", "    flags: ['--max-pods=10']\n", 70, 365},
        {"{policy: actual}", "", 70, 574},
        {"{policy: gke}", "", 70, 1844},
        {"{policy: aks}", "    config: {maxPods: 30}\n", 100, 650},
        {"{policy: explicit, kubeReserved: {cpu: 50m, memory: 1Gi}}", "", 50, 1024},
        {"{policy: explicit}", "", -1, -1},
        {"{kubeReserved: {cpu: 50m}}", "", 50, 574},
        {"{kubeReserved: {cpu: 50m}}", "    config: {kubeReserved: {memory: 700Mi}}\n", 50, 700},
        {"{policy: actual, kubeReserved: {memory: 9Mi}}",
         "    config: {maxPods: 110, kubeReserved: {cpu: 1}}\n", 1000, 9},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *text = node_config(rows[i].kubelet);
        nc_auto_free char *agent = nc_asprintf(
            "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {reservation: %s}\n",
            rows[i].agent);
        int64_t memory;
        fixture_document(x, text);
        fixture_document(x, agent);
        fixture_plan(x);
        memory = x->plan.kube_reserved.memory_bytes;
        if (x->plan.kube_reserved.cpu_millicores != rows[i].cpu
            || memory != (rows[i].memory_mi < 0 ? -1 : rows[i].memory_mi * MI))
            fail_msg("row %zu: %lld %lld", i, (long long)x->plan.kube_reserved.cpu_millicores,
                     (long long)memory);
        fixture_free(x);
    }
}

/* What the NodeClaim has is kept, and never less than half is reserved; else it is said. */
static void test_reservation_of_claim(void **state) {
    static const struct {
        const char *agent;
        int64_t more_mi, memory_mi; /* than the policy karpenter leaves */
        const char *less;
    } rows[] = {
        {"{policy: claim}", 0, 574, NULL},
        {"{policy: claim}", -500, 574, NULL},
        {"{policy: claim}", 100, 474, NULL},
        {"{policy: claim}", 287, 287, NULL},
        {"{policy: claim}", 300, 287, ", 13Mi less than the NodeClaim has"},
        {"{policy: claim, kubeReserved: {memory: 600Mi}}", 0, 600, ", 26Mi less than"},
        {"{policy: karpenter}", 100, 574, "policy: claim reserves less"},
        {"{policy: karpenter}", -1, 574, NULL},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        struct nc_claim claim = {.allocatable = nc_value_new_map()};
        nc_auto_free char *text = node_config("");
        nc_auto_free char *agent = nc_asprintf(
            "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {reservation: %s}\n",
            rows[i].agent);
        nc_auto_free char *promised = nc_asprintf(
            "%lldMi", (long long)(x->facts.mem_total_bytes / MI - 674 + rows[i].more_mi));
        x->facts.mem_total_bytes &= ~(MI - 1);
        nc_value_set_string(claim.allocatable, "memory", promised);
        fixture_document(x, text);
        fixture_document(x, agent);
        x->claim = &claim;
        fixture_plan(x);
        assert_int_equal(x->plan.kube_reserved.memory_bytes, rows[i].memory_mi * MI);
        assert_int_equal(x->plan.less.n, rows[i].less != NULL);
        if (rows[i].less && !strstr(x->plan.less.v[0], rows[i].less))
            fail_msg("%s", x->plan.less.v[0]);
        fixture_free(x);
        nc_value_free(claim.allocatable);
    }
}

/* AKS before 1.29 reserves by the size of the machine and evicts earlier. */
static void test_early_aks(void **state) {
    (void)state;
    for (unsigned minor = 28; minor <= 29; minor++) {
        struct fixture *x = fixture_new();
        fixture_set(&x->facts.kubelet_version, minor == 28 ? "v1.28.0" : "v1.29.0");
        x->has_config = true;
        x->config.reservation = NC_RESERVATION_AKS;
        fixture_plan(x);
        assert_string_equal(
            nc_value_string(nc_value_get(nc_value_get(x->plan.kubelet_base, "evictionHard"),
                                         "memory.available")),
            minor == 28 ? "750Mi" : "100Mi");
        assert_int_equal(x->plan.kube_reserved.memory_bytes, (minor == 28 ? 1844 : 630) * MI);
        fixture_free(x);
    }
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rules),
        cmocka_unit_test(test_rules_together),
        cmocka_unit_test(test_gates_that_are_off),
        cmocka_unit_test(test_flag_rules),
        cmocka_unit_test(test_newest_kubelet),
        cmocka_unit_test(test_shutdown),
        cmocka_unit_test(test_shutdown_policy),
        cmocka_unit_test(test_reservation),
        cmocka_unit_test(test_reservation_of_claim),
        cmocka_unit_test(test_early_aks),
        cmocka_unit_test(test_known),
    };

    return run_group(tests, NULL, NULL);
}
