/*
 * The plan as a whole: documents and facts in, the numbers, trees and flags out.
 *
 * The first tests are the golden cases of others (nodeadm's kubelet-config-dir case, the nodes that
 * Karpenter and Auto Mode print); the rest go rule by rule, through the same door as a bootstrap
 * does.
 */
#include "base-test.h"
#include "groups.h"

#include <errno.h>

#include "nc/quantity.h"
#include "nc/str.h"

#include "plan-fixture.h"

#define MI ((int64_t)1 << 20)
#define GI ((int64_t)1 << 30)

static void expect_json(const struct nc_value *got, const char *text) {
    nc_auto_value struct nc_value *want = json(text);
    nc_cleanup(nc_buf_done) struct nc_buf shown = NC_BUF_INIT;

    if (got)
        nc_json_write(&shown, got, 0);
    if (!got || !nc_value_equal(got, want))
        fail_msg("%s", got ? shown.data : "nothing");
}

static const char *origin(const struct nc_plan *p, const char *field) {
    for (size_t i = 0; i < p->n_origins; i++)
        if (nc_streq(p->origins[i].field, field))
            return p->origins[i].from;
    return "(none)";
}

static const char *overrode(const struct nc_plan *p, const char *field) {
    for (size_t i = 0; i < p->n_origins; i++)
        if (nc_streq(p->origins[i].field, field))
            return p->origins[i].overrode;
    return "(none)";
}

static const char *value_of(const struct nc_plan *p, const char *field) {
    for (size_t i = 0; i < p->n_origins; i++)
        if (nc_streq(p->origins[i].field, field))
            return p->origins[i].value;
    return "(none)";
}

static bool has_flag(const struct nc_plan *p, const char *flag) {
    return nc_strv_contains(&p->flags, flag);
}

static bool warns(const struct nc_plan *p, const char *part) {
    for (size_t i = 0; i < p->warnings.n; i++)
        if (strstr(p->warnings.v[i], part))
            return true;
    return false;
}

/* nodeadm's case kubelet-config-dir: m4.xlarge with two CPUs, kubelet 1.29. */
static void test_nodeadm_golden(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_free char *text = node_config(
        "    config:\n      logging: {verbosity: 5}\n      clusterDNS: [0.0.0.0, 1.1.1.1]\n");
    static const char base[] =
        "{'kind':'KubeletConfiguration','apiVersion':'kubelet.config.k8s.io/"
        "v1beta1','address':'0.0.0.0',"
        "'authentication':{'anonymous':{'enabled':false},'webhook':{'cacheTTL':'2m0s','enabled':"
        "true},'x509':{'clientCAFile':'/etc/kubernetes/pki/ca.crt'}},"
        "'authorization':{'mode':'Webhook','webhook':{'cacheAuthorizedTTL':'5m0s','"
        "cacheUnauthorizedTTL':'30s'}},"
        "'clusterDomain':'cluster.local','hairpinMode':'hairpin-veth','readOnlyPort':0,'"
        "cgroupDriver':'systemd','cgroupRoot':'/',"
        "'featureGates':{'RotateKubeletServerCertificate':true},'clusterDNS':['10.100.0.10'],"
        "'containerRuntimeEndpoint':'unix:///run/containerd/containerd.sock','providerID':'aws:///"
        "us-west-2f/i-1234567890abcdef0',"
        "'systemReservedCgroup':'/"
        "system','protectKernelDefaults':true,'serializeImagePulls':false,'serverTLSBootstrap':"
        "true,"
        "'kubeReservedCgroup':'/runtime','logging':{'verbosity':2},'maxPods':58,"
        "'evictionHard':{'memory.available':'100Mi','nodefs.available':'10%','nodefs.inodesFree':'"
        "5%'},"
        "'kubeReserved':{'cpu':'70m','ephemeral-storage':'1Gi','memory':'893Mi'},"
        "'tlsCipherSuites':['TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256','TLS_ECDHE_ECDSA_WITH_AES_"
        "256_GCM_SHA384','TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305',"
        "'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256','TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384','TLS_"
        "ECDHE_RSA_WITH_CHACHA20_POLY1305',"
        "'TLS_RSA_WITH_AES_128_GCM_SHA256','TLS_RSA_WITH_AES_256_GCM_SHA384']}";

    (void)state;
    fixture_type(x, "m4.xlarge", 2);
    fixture_set(&x->facts.kubelet_version, "v1.29.0");
    fixture_set(&x->facts.az, "us-west-2f");
    fixture_set(&x->facts.instance_id, "i-1234567890abcdef0");
    fixture_document(x, text);
    fixture_plan(x);
    expect_json(x->plan.kubelet_base, base);
    expect_json(x->plan.kubelet_dropin,
                "{'kind':'KubeletConfiguration','apiVersion':'kubelet.config.k8s.io/v1beta1',"
                "'logging':{'verbosity':5},'clusterDNS':['0.0.0.0','1.1.1.1']}");
    assert_true(x->plan.dropin_env_alpha);
    assert_int_equal(x->plan.max_pods, 58);
    assert_int_equal(x->plan.cluster_dns.n, 2);
    assert_string_equal(x->plan.cluster_dns.v[1], "1.1.1.1");
    expect_json(nc_value_get(x->plan.kubelet_effective, "logging"), "{'verbosity':5}");
    fixture_free(x);
}

/* What differs between kubelet's versions. */
static void test_versions(void **state) {
    nc_auto_free char *text = node_config("    config: {maxPods: 20}\n");

    (void)state;
    for (unsigned minor = 28; minor <= 36; minor++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *version = nc_asprintf("v1.%u.3-eks-abc", minor);
        const struct nc_value *gates;
        const struct nc_plan *p = &x->plan;

        fixture_set(&x->facts.kubelet_version, version);
        x->facts.has_nvidia = true;
        fixture_document(x, text);
        fixture_plan(x);
        gates = nc_value_get(p->kubelet_base, "featureGates");
        assert_int_equal(p->kubelet_minor, minor);
        assert_int_equal(gates->n, 1 + (minor >= 33) + (minor >= 34));
        assert_true(nc_value_get(gates, "RotateKubeletServerCertificate")->boolean);
        assert_int_equal(nc_value_get(gates, "DynamicResourceAllocation") != NULL, minor >= 33);
        assert_int_equal(nc_value_get(gates, "MutableCSINodeAllocatableCount") != NULL,
                         minor >= 34);
        assert_int_equal(nc_value_get(p->kubelet_base, "shutdownGracePeriod") != NULL, minor >= 34);
        assert_int_equal(p->logind_delay_usec, 150000000);
        assert_int_equal(p->dropin_env_alpha, minor < 30);
        assert_int_equal(has_flag(p, "--node-labels=nvidia.com/gpu.present=true"), minor >= 35);
        assert_true(has_flag(p, "--config-dir=/etc/kubernetes/kubelet/config.json.d"));
        assert_null(nc_value_get(p->kubelet_base, "kubeAPIQPS"));
        assert_null(nc_value_get(p->kubelet_base, "kubeAPIBurst"));
        assert_int_equal(p->max_pods, 20);
        if (minor >= 34) {
            assert_string_equal(nc_value_get_string(p->kubelet_base, "shutdownGracePeriod"),
                                "2m30s");
            assert_string_equal(
                nc_value_get_string(p->kubelet_base, "shutdownGracePeriodCriticalPods"), "30s");
        }
        if (minor
            == 28) { /* that kubelet fills a drop-in with defaults first: both files are complete */
            assert_true(nc_value_equal(p->kubelet_base, p->kubelet_dropin));
            assert_int_equal(nc_value_get(p->kubelet_base, "maxPods")->integer, 20);
        } else {
            assert_int_equal(nc_value_get(p->kubelet_base, "maxPods")->integer, 29);
            assert_int_equal(p->kubelet_dropin->n, 3);
        }
        fixture_free(x);
    }
}

static void test_version_refused(void **state) {
    static const struct {
        const char *version, *message;
        enum nc_err_class class;
    } rows[] = {
        {NULL, "not known", NC_ERR_HOST},
        {"1.x", "'1.x'", NC_ERR_HOST},
        {"v1.27.9", "older than 1.28", NC_ERR_HOST},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        struct nc_err err = NC_ERR_INIT;
        nc_auto_free char *text = node_config("");
        fixture_set(&x->facts.kubelet_version, rows[i].version);
        fixture_document(x, text);
        assert_true(fixture_try(x, &err) < 0);
        assert_int_equal(err.class, rows[i].class);
        assert_non_null(strstr(err.msg, rows[i].message));
        assert_true(*err.remedy);
        fixture_free(x);
    }
    {
        struct fixture *x = fixture_new();
        nc_auto_free char *text = node_config("");
        fixture_set(&x->facts.kubelet_version, "v1.40.0");
        fixture_document(x, text);
        fixture_plan(x);
        assert_true(warns(&x->plan, "newer than 1.37"));
        fixture_free(x);
    }
}

/* A host that has exactly what Karpenter estimates for an m5.large with a 20Gi volume. */
static void test_m5_large(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_free char *text = node_config("");

    (void)state;
    x->facts.mem_total_bytes = 7577 * MI;
    x->facts.root_fs_bytes = 20 * GI;
    fixture_document(x, text);
    fixture_plan(x);
    assert_null(x->plan.kubelet_dropin);
    assert_false(has_flag(&x->plan, "--config-dir=/etc/kubernetes/kubelet/config.json.d"));
    assert_int_equal(x->plan.allocatable.cpu_millicores, 1930);
    assert_int_equal(x->plan.allocatable.memory_bytes, 6903 * MI);
    assert_int_equal(x->plan.allocatable.ephemeral_bytes,
                     17 * GI - 32); /* float32: 10 % is 32 bytes more */
    assert_int_equal(x->plan.allocatable.pods, 29);
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.cpu"), "1930m");
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.memory"), "6903Mi");
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.ephemeral-storage"), "17Gi");
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.pods"), "29");
    assert_string_equal(origin(&x->plan, "spec.kubelet.config.maxPods"), "instance type m5.large");
    assert_string_equal(origin(&x->plan, "spec.kubelet.config.kubeReserved.memory"),
                        "reservation policy karpenter for 2 CPUs and 29 pods");
    assert_string_equal(origin(&x->plan, "spec.kubelet.config.address"), "built-in default");
    fixture_free(x);
}

static void test_auto_mode(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_free char *text = node_config("");

    (void)state;
    fixture_type(x, "c5a.large", 2);
    x->facts.mem_total_bytes = 3788 * MI;
    x->facts.root_fs_bytes = 80 * GI;
    fixture_document(x, text);
    fixture_document(x, "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n  node: "
                        "{name: instance-id}\n  reservation: {policy: auto-mode}\n");
    fixture_plan(x);
    assert_string_equal(x->plan.node_name, "i-0123456789abcdef0");
    assert_int_equal(x->plan.allocatable.cpu_millicores, 1480);
    assert_int_equal(x->plan.allocatable.memory_bytes, 2699 * MI);
    assert_int_equal(x->plan.allocatable.pods, 27);
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.cpu"), "1480m");
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.memory"), "2699Mi");
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.ephemeral-storage"), "71Gi");
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.pods"), "27");
    expect_json(nc_value_get(x->plan.kubelet_base, "systemReserved"),
                "{'cpu':'450m','memory':'437Mi'}");
    fixture_free(x);
}

/* Under RAID0 kubelet has what Karpenter planned, the sum of the local disks; RAID10 halves it;
 * Mount, and an instance without such disks, leave it on the root volume. */
static void test_local_disks(void **state) {
    static const struct {
        const char *strategy;
        int64_t disks, bytes;
        bool is_warned;
    } rows[] = {{"RAID0", 2, 150000000000, false},
                {"RAID10", 4, 75000000000, false},
                {"Mount", 2, 80 * GI, false},
                {"RAID0", 0, 80 * GI, true}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *text = node_config("");
        nc_auto_free char *storage = nc_asprintf(
            "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {instance: {localStorage: "
            "{strategy: %s}}}\n",
            rows[i].strategy);
        fixture_type(x, "m5d.large", 2);
        x->facts.root_fs_bytes = 80 * GI;
        x->facts.local_disks = rows[i].disks;
        x->facts.local_disk_bytes = rows[i].disks ? 150000000000 : 0;
        fixture_document(x, text);
        fixture_document(x, storage);
        fixture_plan(x);
        assert_int_equal(x->plan.capacity.ephemeral_bytes, rows[i].bytes);
        assert_int_equal(x->facts.root_fs_bytes, 80 * GI);
        bool is_warned = false;
        for (size_t w = 0; w < x->plan.warnings.n; w++)
            is_warned |= strstr(x->plan.warnings.v[w], "no local disk") != NULL;
        assert_int_equal(is_warned, rows[i].is_warned);
        assert_string_equal(value_of(&x->plan, "spec.instance.localStorage.strategy"),
                            rows[i].strategy);
        fixture_free(x);
    }
}

/* All CPUs kept back: kubelet starts, and pods wait for ever. */
static void test_soft_eviction(void **state) {
    static const struct {
        const char *soft;
        bool is_warned;
    } rows[] = {{"memory.available: 100Mi", true}, {"memory.available: 101Mi", false},
                {"nodefs.available: 10%", true},   {"nodefs.available: 10.1%", false},
                {"memory.available: 1%", true},    {"imagefs.available: 1%", false}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *kubelet = nc_asprintf(
            "    config: {evictionHard: {memory.available: 100Mi, nodefs.available: 10%%}, "
            "evictionSoft: {%s}, evictionSoftGracePeriod: {%.*s: 1m}}\n",
            rows[i].soft, (int)strcspn(rows[i].soft, ":"), rows[i].soft);
        nc_auto_free char *text = node_config(kubelet);
        fixture_type(x, "c5.large", 2);
        fixture_document(x, text);
        fixture_plan(x);
        assert_int_equal(warns(&x->plan, "is not above evictionHard"), rows[i].is_warned);
        fixture_free(x);
    }
}

static void test_nothing_left(void **state) {
    static const struct {
        const char *cpus;
        bool is_warned;
    } rows[] = {{"0", false}, {"0-1", true}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *text = node_config("");
        nc_auto_free char *cpus =
            nc_asprintf("apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {kubelet: "
                        "{config: {reservedSystemCPUs: '%s'}}}\n",
                        rows[i].cpus);
        fixture_type(x, "c5.large", 2);
        fixture_document(x, text);
        fixture_document(x, cpus);
        fixture_plan(x);
        assert_int_equal(warns(&x->plan, "all cpu of this host is kept back"), rows[i].is_warned);
        assert_false(warns(&x->plan, "all memory"));
        fixture_free(x);
    }
}

/* The kubelet block with every field of Karpenter, from an EC2NodeClass. */
static void test_kubelet_block(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_free char *text = node_config("");

    (void)state;
    fixture_type(x, "c5.large", 2);
    x->facts.mem_total_bytes = 3788 * MI;
    x->facts.root_fs_bytes = 100 * GI;
    fixture_document(x, text);
    fixture_document(
        x,
        "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: default}\nspec:\n  "
        "kubelet:\n"
        "    clusterDNS: [10.0.1.100]\n    podsPerCore: 2\n    maxPods: 20\n"
        "    systemReserved: {cpu: 100m, memory: 100Mi, ephemeral-storage: 1Gi}\n"
        "    kubeReserved: {cpu: 200m, memory: 100Mi, ephemeral-storage: 3Gi}\n"
        "    evictionHard: {memory.available: 5%, nodefs.available: 10%, nodefs.inodesFree: 10%}\n"
        "    evictionSoft: {memory.available: 500Mi, nodefs.available: 15%, nodefs.inodesFree: "
        "15%}\n"
        "    evictionSoftGracePeriod: {memory.available: 1m, nodefs.available: 1m30s, "
        "nodefs.inodesFree: 2m}\n"
        "    evictionMaxPodGracePeriod: 60\n    imageGCHighThresholdPercent: 85\n"
        "    imageGCLowThresholdPercent: 80\n    cpuCFSQuota: true\n");
    fixture_plan(x);
    assert_int_equal(x->plan.max_pods, 20);
    assert_int_equal(x->plan.capacity.pods, 4);
    assert_int_equal(x->plan.allocatable.pods, 4);
    assert_int_equal(x->plan.allocatable.cpu_millicores, 1700);
    assert_int_equal(x->plan.allocatable.memory_bytes,
                     3563690391); /* float32: two bytes below Karpenter's */
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.memory"), "3563690393");
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.ephemeral-storage"), "86Gi");
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.pods"), "4");
    assert_int_equal(x->plan.kube_reserved.cpu_millicores, 200);
    assert_int_equal(x->plan.system_reserved.ephemeral_bytes, GI);
    assert_string_equal(x->plan.cluster_dns.v[0], "10.0.1.100");
    assert_int_equal(nc_value_get(x->plan.kubelet_base, "maxPods")->integer, 29);
    assert_non_null(strstr(overrode(&x->plan, "spec.kubelet.config.maxPods"),
                           "29 from instance type c5.large"));
    assert_non_null(
        strstr(origin(&x->plan, "spec.kubelet.config.kubeReserved.memory"), "document 2:10:"));
    fixture_free(x);
}

/* Flags beat files, and the plan knows it; two of them are united and taken out. */
static void test_flags(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_free char *text =
        node_config("    config: {maxPods: 20, kubeReserved: {cpu: 100m}}\n"
                    "    flags:\n    - --node-labels=\"b=2,a=1\"\n    - --max-pods=7 --v=4\n    - "
                    "--node-labels c=3,a=9\n"
                    "    - --register-with-taints=x=y:NoSchedule\n    - --kube-reserved=cpu=300m\n "
                    "   - --node-ip=10.0.0.9\n"
                    "    - --hostname-override=other.example\n    - --cloud-provider=\n");
    const struct nc_plan *p = &x->plan;

    (void)state;
    fixture_document(x, text);
    fixture_plan(x);
    assert_int_equal(p->max_pods, 7);
    assert_int_equal(nc_value_get(p->kubelet_base, "maxPods")->integer, 29);
    assert_int_equal(p->kube_reserved.cpu_millicores, 300);
    assert_int_equal(p->kube_reserved.memory_bytes, -1); /* the flag replaces the whole map */
    assert_string_equal(p->node_name, "other.example");
    assert_string_equal(p->node_ip, "10.0.0.9");
    assert_true(has_flag(p, "--node-labels=a=9,b=2,c=3"));
    assert_int_equal(p->n_taints, 1);
    expect_json(nc_value_get(p->kubelet_base, "registerWithTaints"),
                "[{'effect':'NoSchedule','key':'x','value':'y'}]");
    for (size_t i = 0; i < p->flags.n; i++) {
        assert_false(nc_starts_with(p->flags.v[i], "--cloud-provider"));
        assert_false(nc_starts_with(p->flags.v[i], "--hostname-override"));
        if (i > 0)
            assert_true(strcmp(p->flags.v[i - 1], p->flags.v[i]) < 0);
    }
    assert_int_equal(p->user_flags.n, 6);
    assert_string_equal(p->user_flags.v[0], "--max-pods=7");
    assert_string_equal(p->user_flags.v[1], "--v=4");
    assert_string_equal(p->user_flags.v[5], "--cloud-provider=");
    assert_true(nc_starts_with(origin(p, "spec.kubelet.config.maxPods"), "flag --max-pods of "));
    assert_non_null(strstr(overrode(p, "spec.kubelet.config.maxPods"), "20 from "));
    assert_non_null(
        strstr(overrode(p, "spec.kubelet.config.maxPods"), "; 29 from instance type m5.large"));
    assert_true(nc_starts_with(origin(p, "labels[a]"), "flag --node-labels of "));
    assert_true(nc_starts_with(overrode(p, "labels[a]"), "1 from flag --node-labels"));
    assert_true(
        nc_starts_with(origin(p, "taints[x:NoSchedule]"), "flag --register-with-taints of "));
    assert_true(nc_starts_with(origin(p, "node.name"), "flag --hostname-override"));
    fixture_free(x);
}

/* kubelet refuses two addresses of a family, and passes over what is none. */
static void test_flag_of_addresses(void **state) {
    static const struct {
        const char *flag, *node_ip, *says;
    } rows[] = {
        {"10.0.0.9,2001:db8::5", "10.0.0.9,2001:db8::5", NULL},
        {"2001:db8::5", "2001:db8::5", NULL},
        {"$(hostname -i)", "$(hostname -i)", "ignores what is not an IP address"},
        {"10.0.0.9/24,10.0.0.9,x", "10.0.0.9/24,10.0.0.9,x", "ignores what is not an IP address"},
        {"10.0.0.9,10.0.0.8", NULL, "one address, or one of each family, is needed"},
        {"fd00::1,10.0.0.9,fd00::2", NULL, "one address, or one of each family, is needed"},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *more = nc_asprintf("    flags: ['--node-ip=\"%s\"']\n", rows[i].flag);
        nc_auto_free char *text = node_config(more);
        fixture_document(x, text);
        if (rows[i].node_ip) {
            fixture_plan(x);
            assert_string_equal(x->plan.node_ip, rows[i].node_ip);
            assert_int_equal(warns(&x->plan, "not an IP address"), rows[i].says != NULL);
        } else {
            fixture_refused(x, NC_ERR_CONFIG, rows[i].says);
            fixture_refused(x, NC_ERR_CONFIG, "--node-ip");
        }
        fixture_free(x);
    }
}

static void test_no_registration(void **state) {
    static const char *const ways[] = {"config: {registerNode: false}",
                                       "flags: [--register-node=false]"};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(ways); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *more = nc_asprintf("    %s\n", ways[i]);
        nc_auto_free char *text = node_config(more);
        fixture_document(x, text);
        fixture_plan(x);
        assert_true(warns(&x->plan, "kubelet creates no Node"));
        fixture_free(x);
    }
}

static void test_our_flags(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_free char *text = node_config("");
    static const char *const want[] = {
        "--cloud-provider=external",
        "--config=/etc/kubernetes/kubelet/config.json",
        "--hostname-override=ip-10-0-0-1.us-west-2.compute.internal",
        "--image-credential-provider-bin-dir=/etc/eks/image-credential-provider",
        "--image-credential-provider-config=/etc/kubernetes/image-credential-provider.json",
        "--kubeconfig=/var/lib/kubelet/kubeconfig",
        "--node-ip=10.0.0.1",
        "--runtime-cgroups=/runtime.slice/containerd.service",
    };

    (void)state;
    x->facts.has_ecr_credential_provider = true;
    x->facts.ecr_credential_provider_dir = nc_strdup("/etc/eks/image-credential-provider");
    fixture_document(x, text);
    fixture_plan(x);
    assert_true(x->plan.credential_provider);
    assert_int_equal(x->plan.flags.n, NC_ARRAY_SIZE(want));
    for (size_t i = 0; i < NC_ARRAY_SIZE(want); i++)
        assert_string_equal(x->plan.flags.v[i], want[i]);
    assert_int_equal(x->plan.user_flags.n, 0);
    fixture_free(x);
}

/* Missing where the image has made its place; missing on an image that never had one; not wanted.
 */
static void test_no_credential_provider(void **state) {
    static const char flag[] = "    flags: [--image-credential-provider-config=/etc/mine.json]\n";
    struct fixture *x = fixture_new();
    nc_auto_free char *text = node_config(""), *with_flag = node_config(flag);

    (void)state;
    fixture_document(x, text);
    fixture_plan(x);
    assert_false(x->plan.credential_provider);
    assert_true(warns(&x->plan, "no ecr-credential-provider on this host"));
    x->facts.is_ecr_folder_empty = true;
    fixture_refused(x, NC_ERR_HOST, "no ecr-credential-provider in /etc/eks/image-cred");
    fixture_document(x, with_flag);
    fixture_plan(x);
    assert_false(warns(&x->plan, "ecr-credential-provider"));
    fixture_free(x);
}

static const char karpenter[] =
    "apiVersion: karpenter.sh/v1\nkind: NodeClaim\nmetadata:\n  name: default-abcde\n  uid: 1-2-3\n"
    "  labels: {karpenter.sh/nodepool: default, node.kubernetes.io/nodetype: foo, k8s.io/x: 'y', "
    "type: karpenter, "
    "karpenter.sh/registered: 'true'}\n"
    "spec:\n  nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}\n"
    "  taints: [{key: a, value: '1', effect: NoSchedule}, {key: b, effect: NoExecute}]\n"
    "  startupTaints: [{key: s, effect: NoSchedule}, {key: a, value: '2', effect: NoExecute}]\n"
    "  requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]\n";

static void test_claim(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_free char *text =
        node_config("    config:\n      registerWithTaints: [{key: karpenter.sh/unregistered, "
                    "effect: NoExecute}, {key: a, value: '9', effect: NoSchedule}]\n");
    static const char *const keys[] = {"a", "b", "s", "a", "karpenter.sh/unregistered"};
    const struct nc_plan *p = &x->plan;

    (void)state;
    fixture_document(x, karpenter);
    fixture_document(x, text);
    fixture_document(x, "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n  node:\n   "
                        " labels: {type: ours, z: '1'}\n");
    fixture_plan(x);
    assert_true(p->belongs_to_claim);
    assert_int_equal(p->n_taints, 5);
    for (size_t i = 0; i < 5; i++)
        assert_string_equal(p->taints[i].key, keys[i]);
    assert_string_equal(p->taints[0].value, "9");
    assert_string_equal(p->taints[3].effect, "NoExecute");
    assert_true(nc_value_equal(nc_value_get(p->kubelet_base, "registerWithTaints"),
                               nc_value_get(p->kubelet_dropin, "registerWithTaints")));
    assert_int_equal(nc_value_get(p->kubelet_dropin, "registerWithTaints")->n, 5);
    assert_int_equal(p->n_certain, 0);
    assert_true(warns(p, ": label k8s.io/x=y is held back"));
    assert_true(warns(p, "label karpenter.sh/registered="));
    assert_true(has_flag(
        p, "--node-labels=karpenter.sh/do-not-sync-taints=true,karpenter.sh/nodepool=default,"
           "node.kubernetes.io/nodetype=foo,type=ours,z=1"));
    assert_non_null(strstr(overrode(p, "labels[type]"), "karpenter from "));
    fixture_free(x);
}

/* A label that only Karpenter gives is enough to know whose node this is. */
static void test_belongs(void **state) {
    static const struct {
        const char *kubelet;
        bool belongs;
    } rows[] = {
        {"    flags: ['--node-labels=karpenter.sh/nodepool=x']\n", true},
        {"    flags: ['--node-labels=karpenter.sh/provisioner-name=x']\n", true},
        {"    flags: ['--register-with-taints=karpenter.sh/unregistered:NoExecute']\n", true},
        {"    flags: ['--node-labels=eks.amazonaws.com/nodegroup=x']\n", false},
        {"    flags: ['--node-labels=type=x', "
         "'--register-with-taints=karpenter.sh/disrupted:NoSchedule']\n",
         false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *text = node_config(rows[i].kubelet);
        bool has = false;
        fixture_document(x, text);
        fixture_plan(x);
        if (x->plan.belongs_to_claim != rows[i].belongs)
            fail_msg("%s", rows[i].kubelet);
        for (size_t k = 0; k < x->plan.n_taints; k++)
            has |= nc_streq(x->plan.taints[k].key, "karpenter.sh/unregistered");
        assert_int_equal(has, rows[i].belongs);
        for (size_t k = 0; k < x->plan.n_labels; k++)
            assert_string_not_equal(x->plan.labels[k].key, "karpenter.sh/do-not-sync-taints");
        fixture_free(x);
    }
}

/* The gate's taint: registered by the node unless a NodePool should have brought it. */
static void test_unfit_taint(void **state) {
    static const struct {
        const char *kubelet;
        bool has_gate, is_tainted, is_warned;
    } rows[] = {
        {"", false, false, false},
        {"", true, true, false},
        {"    flags: ['--register-with-taints=nodeclaimd.io/unfit:NoSchedule']\n", true, true,
         false},
        {"    flags: ['--node-labels=karpenter.sh/nodepool=x']\n", true, false, true},
        {"    flags: ['--node-labels=karpenter.sh/nodepool=x', "
         "'--register-with-taints=nodeclaimd.io/unfit:NoSchedule']\n",
         true, true, false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *text = node_config(rows[i].kubelet);
        unsigned n = 0;
        fixture_document(x, text);
        if (rows[i].has_gate)
            fixture_document(x, "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n"
                                "  fit: {daemonSets: all}\n");
        fixture_plan(x);
        for (size_t k = 0; k < x->plan.n_taints; k++)
            n += nc_streq(x->plan.taints[k].key, "nodeclaimd.io/unfit")
                 && nc_streq(x->plan.taints[k].effect, "NoSchedule");
        if (n != rows[i].is_tainted || warns(&x->plan, "spec.fit: ") != rows[i].is_warned)
            fail_msg("row %zu: %u", i, n);
        fixture_free(x);
    }
}

static void test_names(void **state) {
    static const struct {
        const char *agent, *local_hostname, *private_dns, *region, *want; /* NULL: refused */
        bool warns;
    } rows[] = {
        {"{}", "ip-10-0-0-1.us-west-2.compute.internal", NULL, "us-west-2",
         "ip-10-0-0-1.us-west-2.compute.internal", false},
        {"{}", "ip-10-0-0-1.ec2.internal", NULL, "us-east-1", "ip-10-0-0-1.ec2.internal", false},
        {"{}", "ip-10-0-0-1.corp.example", "ip-10-0-0-1.us-west-2.compute.internal", "us-west-2",
         "ip-10-0-0-1.us-west-2.compute.internal", false},
        {"{}", "ip-10-0-0-1.corp.example", NULL, "us-west-2",
         "ip-10-0-0-1.us-west-2.compute.internal", true},
        {"{}", "i-0123456789abcdef0.corp.example", NULL, "us-west-2",
         "i-0123456789abcdef0.us-west-2.compute.internal", true},
        {"{}", NULL, NULL, "us-west-2", "ip-10-0-0-1.us-west-2.compute.internal", true},
        {"{name: private-dns}", "IP-10-0-0-1.us-west-2.compute.internal", NULL, "us-west-2",
         "ip-10-0-0-1.us-west-2.compute.internal", false},
        {"{name: instance-id}", NULL, NULL, NULL, "i-0123456789abcdef0", false},
        {"{name: resource-name}", NULL, NULL, "us-west-2",
         "i-0123456789abcdef0.us-west-2.compute.internal", false},
        {"{name: resource-name}", NULL, NULL, "us-east-1", "i-0123456789abcdef0.ec2.internal",
         false},
        {"{name: resource-name}", NULL, NULL, NULL, NULL, false},
        {"{name: hostname}", NULL, NULL, NULL, "host.example", false},
        {"{nameOverride: mine}", NULL, NULL, NULL, "mine", false},
        {"{}", NULL, NULL, NULL, NULL, false},
        {"{}", "under_score", NULL, NULL, NULL, false},
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *text = node_config("");
        nc_auto_free char *agent =
            nc_asprintf("apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {node: %s}\n",
                        rows[i].agent);
        fixture_set(&x->facts.local_hostname, rows[i].local_hostname);
        fixture_set(&x->facts.private_dns_name, rows[i].private_dns);
        fixture_set(&x->facts.region, rows[i].region);
        fixture_set(&x->facts.hostname, "Host.example");
        fixture_document(x, text);
        fixture_document(x, agent);
        if (rows[i].want) {
            fixture_plan(x);
            assert_string_equal(x->plan.node_name, rows[i].want);
            assert_int_equal(warns(&x->plan, "node name"), rows[i].warns);
        } else {
            fixture_refused(x, NC_ERR_CONFIG, "node name");
        }
        fixture_free(x);
    }
}

/* One that was read from the API server counts in place of a document's. */
static void test_claim_that_was_read(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_value struct nc_value *object =
        json("{'apiVersion': 'karpenter.sh/v1', 'kind': 'NodeClaim', 'metadata': {'name': "
             "'default-abcde', 'labels': {'team': 'blue'}}, 'spec': {'taints': [{'key': "
             "'read', 'effect': 'NoSchedule'}]}}");
    nc_cleanup(nc_claim_done) struct nc_claim claim = {0};
    nc_auto_free char *text = node_config("");

    (void)state;
    assert_int_equal(nc_claim_parse(object, &claim, NULL), 0);
    fixture_document(x, karpenter);
    fixture_document(x, text);
    x->claim = &claim;
    fixture_plan(x);
    assert_true(x->plan.belongs_to_claim);
    assert_true(has_flag(&x->plan, "--node-labels=karpenter.sh/do-not-sync-taints=true,team=blue"));
    assert_int_equal(x->plan.n_taints, 2);
    assert_string_equal(x->plan.taints[0].key, "read");
    x->claim = NULL;
    fixture_plan(x);
    assert_string_equal(x->plan.taints[0].key, "a");
    fixture_free(x);
}

/* Known from documents and flags alone, before kubelet's version or the instance's type are. */
static void test_expects_claim(void **state) {
    static const struct {
        const char *kubelet;
        bool is_expected;
        const char *node_pool;
    } rows[] = {
        {"", false, NULL},
        {"    flags: [--node-labels=a=b]\n", false, NULL},
        {"    flags: ['--node-labels=\"karpenter.sh/nodepool=blue,a=b\"']\n", true, "blue"},
        {"    flags: [--node-labels=karpenter.sh/capacity-type=spot]\n", true, NULL},
        {"    flags: [--register-with-taints=karpenter.sh/unregistered:NoExecute]\n", true, NULL},
        {"    config:\n      registerWithTaints: [{key: karpenter.sh/unregistered, effect: "
         "NoExecute}]\n",
         true, NULL},
        {"    flags: [--node-labels=karpenter.sh/nodepool=/]\n", false,
         NULL}, /* the plan refuses it */
    };

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *text = node_config(rows[i].kubelet), *node_pool = NULL;
        struct nc_err err = NC_ERR_INIT;
        fixture_document(x, text);
        fixture_set(&x->facts.kubelet_version, NULL);
        if (nc_config_build(&x->docs, &x->config, &err) < 0)
            fail_msg("row %zu: %s", i, err.msg);
        const struct nc_plan_input in = {
            .facts = &x->facts, .config = &x->config, .docs = &x->docs};
        if (nc_plan_expects_claim(&in, &node_pool) != rows[i].is_expected
            || !nc_streq(node_pool ? node_pool : "", rows[i].node_pool ? rows[i].node_pool : ""))
            fail_msg("row %zu: node pool %s", i, node_pool ? node_pool : "none");
        fixture_free(x);
    }
}

static void test_needs(void **state) {
    struct nc_facts f = {.local_hostname = (char *)"ip-10-0-0-1.us-west-2.compute.internal",
                         .region = (char *)"us-west-2",
                         .instance_type = (char *)"m5.large"};
    struct nc_config c = {.naming = NC_NAMING_PRIVATE_DNS, .ec2 = NC_EC2_AUTO};
    static const char row[] = "x9.big\t2\t4096\tamd64\t3\t10\t-\tnitro\n";
    const struct nc_plan_input in = {.facts = &f, .config = &c};
    const struct nc_plan_input with_row = {
        .facts = &f, .config = &c, .types = row, .n_types = strlen(row)};

    (void)state;
    assert_false(nc_plan_needs_private_dns_name(&f, &c));
    assert_false(nc_plan_needs_instance_type(&in));
    c.ec2 = NC_EC2_ALWAYS;
    assert_true(nc_plan_needs_private_dns_name(&f, &c));
    assert_true(nc_plan_needs_instance_type(&in));
    c.ec2 = NC_EC2_AUTO;
    f.local_hostname = (char *)"ip-10-0-0-1.corp.example";
    f.instance_type = (char *)"x9.big";
    assert_true(nc_plan_needs_private_dns_name(&f, &c));
    assert_true(nc_plan_needs_instance_type(&in));
    assert_false(nc_plan_needs_instance_type(&with_row));
    c.ec2 = NC_EC2_NEVER;
    assert_false(nc_plan_needs_private_dns_name(&f, &c));
    assert_false(nc_plan_needs_instance_type(&in));
    c.ec2 = NC_EC2_ALWAYS;
    f.private_dns_name = (char *)"x";
    strcpy(f.described_type.name, "x9.big");
    assert_false(nc_plan_needs_private_dns_name(&f, &c));
    assert_false(nc_plan_needs_instance_type(&in));
    f.private_dns_name = NULL;
    c.naming = NC_NAMING_INSTANCE_ID;
    assert_false(nc_plan_needs_private_dns_name(&f, &c));
    c.naming = NC_NAMING_PRIVATE_DNS;
    c.name_override = (char *)"x";
    assert_false(nc_plan_needs_private_dns_name(&f, &c));
}

static void test_unknown_type(void **state) {
    static const char table[] = "x9.big\t2\t4096\tamd64\t4\t15\t-\tnitro\n";
    static const char broken[] = "x9.big\ttwo\n";
    struct fixture *x = fixture_new();
    nc_auto_free char *text = node_config("");

    (void)state;
    fixture_type(x, "x9.big", 2);
    fixture_document(x, text);
    fixture_plan(x);
    assert_int_equal(x->plan.max_pods, 110);
    assert_int_equal(x->plan.eni_pods, -1);
    assert_int_equal(x->plan.kube_reserved.memory_bytes, 1465 * MI);
    assert_true(warns(&x->plan, "x9.big is not in the table"));
    assert_string_equal(value_of(&x->plan, "karpenter.allocatable.memory"), "(none)");
    x->types = table;
    fixture_plan(x);
    assert_int_equal(x->plan.max_pods, 58);
    assert_string_equal(x->plan.type.name, "x9.big");
    x->types = broken;
    fixture_plan(x);
    assert_int_equal(x->plan.max_pods, 110);
    assert_true(warns(&x->plan, "the row of x9.big cannot be read"));
    x->types = NULL;
    x->facts.described_type = (struct nc_instance_type){
        .name = "x9.big", .vcpus = 2, .memory_mib = 4096, .enis = 3, .ipv4_per_eni = 10};
    fixture_plan(x);
    assert_int_equal(x->plan.max_pods, 29);
    assert_int_equal(x->plan.kube_reserved.memory_bytes, 574 * MI);
    fixture_free(x);
}

/* A type that is newer than the image: what Karpenter wrote is what it planned with, and more than
 * the guess is not reserved. */
static void test_unknown_type_of_karpenter(void **state) {
    static const struct {
        int pods;
        int64_t memory_mib;
    } rows[] = {{29, 574}, {110, 1465}, {250, 1465}};

    (void)state;
    for (size_t i = 0; i < NC_ARRAY_SIZE(rows); i++) {
        struct fixture *x = fixture_new();
        nc_auto_free char *kubelet = nc_asprintf("    config: {maxPods: %d}\n", rows[i].pods);
        nc_auto_free char *text = node_config(kubelet);

        fixture_type(x, "x9.big", 2);
        fixture_document(x, text);
        fixture_plan(x);
        assert_int_equal(x->plan.max_pods, rows[i].pods);
        assert_int_equal(x->plan.kube_reserved.memory_bytes, rows[i].memory_mib * MI);
        assert_false(warns(&x->plan, "maxPods 110 is a guess"));
        assert_true(warns(&x->plan, "x9.big is not in the table"));
        fixture_free(x);
    }
}

static void test_network(void **state) {
    struct fixture *x = fixture_new();

    (void)state;
    fixture_set(&x->facts.ipv6, "2001:db8::5");
    fixture_document(x, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: "
                        "{name: c, apiServerEndpoint: 'https://x', "
                        "certificateAuthority: "
                        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS"
                        "0tLQo=, cidr: 'fd30:1c53:5f8a::/108'}\n");
    fixture_plan(x);
    assert_string_equal(x->plan.node_ip, "2001:db8::5");
    assert_string_equal(x->plan.cluster_dns.v[0], "fd30:1c53:5f8a::a");
    fixture_set(&x->facts.ipv6, NULL);
    fixture_plan(x);
    assert_null(x->plan.node_ip);
    assert_true(warns(&x->plan, "no IPv6 address"));
    fixture_free(x);

    x = fixture_new();
    fixture_document(x, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster: "
                        "{name: c, apiServerEndpoint: 'https://x', "
                        "certificateAuthority: "
                        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS"
                        "0tLQo=, cidr: 10.0.0.0/30}\n");
    fixture_refused(x, NC_ERR_CONFIG, "too small");
    fixture_free(x);
}

/* A cluster that is not EKS: the node's identity is the same, the credentials are not. */
static void test_other_clusters(void **state) {
    struct fixture *x = fixture_new();
    static const char head[] = "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec:\n"
                               "  cluster: {apiServerEndpoint: 'https://x', certificateAuthority: "
                               "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCkFBQUEKLS0tLS1FTkQgQ0VSVElGSUN"
                               "BVEUtLS0tLQo=, cidr: 10.96.0.0/12, auth: ";

    (void)state;
    {
        nc_auto_free char *text = nc_asprintf(
            "%s{mode: bootstrap-token, bootstrapToken: abcdef.0123456789abcdef}}\n", head);
        fixture_document(x, text);
    }
    fixture_plan(x);
    assert_true(
        has_flag(&x->plan, "--bootstrap-kubeconfig=/etc/kubernetes/kubelet/bootstrap-kubeconfig"));
    assert_true(has_flag(&x->plan, "--cloud-provider=external"));
    assert_true(nc_value_get(x->plan.kubelet_base, "rotateCertificates")->boolean);
    assert_string_equal(x->plan.provider_id, "aws:///us-west-2a/i-0123456789abcdef0");
    fixture_free(x);

    x = fixture_new();
    x->config.auth = NC_AUTH_KUBECONFIG;
    x->config.kubeconfig = nc_strdup("/etc/kubernetes/kubelet.conf");
    x->config.kubelet = json("{'clusterDNS': ['fd00::a']}");
    x->has_config = true;
    fixture_set(&x->facts.ipv6, "2001:db8::5");
    fixture_plan(x);
    assert_true(has_flag(&x->plan, "--kubeconfig=/etc/kubernetes/kubelet.conf"));
    assert_null(nc_value_path(x->plan.kubelet_base, "authentication.x509"));
    assert_null(nc_value_get(x->plan.kubelet_base, "clusterDNS"));
    assert_string_equal(x->plan.node_ip, "2001:db8::5");
    assert_string_equal(origin(&x->plan, "spec.kubelet.config.clusterDNS"),
                        "the user's kubelet configuration");
    fixture_free(x);
}

/* What a NodeConfig of a v1alpha5 era says and what a document may say that kubelet's JSON cannot.
 */
static void test_user_map(void **state) {
    struct fixture *x = fixture_new();

    (void)state;
    x->has_config = true;
    x->config.kubelet = json("{'containerRuntime': 'containerd', 'kubeReserved': {'cpu': "
                             "1}, 'evictionHard': {'memory.available': 104857600}}");
    fixture_plan(x);
    assert_true(warns(&x->plan, "containerRuntime is ignored"));
    expect_json(x->plan.kubelet_dropin,
                "{'kind':'KubeletConfiguration','apiVersion':'kubelet.config.k8s.io/v1beta1',"
                "'kubeReserved':{'cpu':'1'},'evictionHard':{'memory.available':'104857600'}}");
    assert_int_equal(x->plan.kube_reserved.cpu_millicores, 1000);
    assert_int_equal(x->plan.kube_reserved.memory_bytes, 574 * MI);
    assert_true(warns(&x->plan, "clusterDNS"));
    fixture_free(x);

    x = fixture_new();
    x->has_config = true;
    x->config.kubelet = json("{'containerRuntime': 'containerd'}");
    fixture_plan(x);
    assert_null(x->plan.kubelet_dropin);
    fixture_free(x);

    x = fixture_new();
    x->has_config = true;
    x->config.kubelet = json("[1]");
    fixture_refused(x, NC_ERR_CONFIG, "a map is needed");
    fixture_free(x);

    x = fixture_new(); /* null takes away, as kubelet's merge patch does */
    x->has_config = true;
    x->config.kubelet = json("{'evictionHard': {'nodefs.inodesFree': null}, "
                             "'protectKernelDefaults': null, 'registerWithTaints': []}");
    fixture_plan(x);
    assert_null(nc_value_get(x->plan.kubelet_effective, "protectKernelDefaults"));
    expect_json(nc_value_get(x->plan.kubelet_effective, "evictionHard"),
                "{'memory.available':'100Mi','nodefs.available':'10%'}");
    expect_json(nc_value_get(x->plan.kubelet_dropin, "registerWithTaints"), "[]");
    assert_string_equal(origin(&x->plan, "spec.kubelet.config.protectKernelDefaults"), "(none)");
    fixture_free(x);
}

/* Every place that had a say is named, newest first. */
static void test_history(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_free char *text = node_config("    config: {maxPods: 20}\n");
    const char *history;

    (void)state;
    fixture_document(x, "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass\nmetadata: {name: "
                        "default}\nspec:\n  kubelet: {maxPods: 10}\n");
    fixture_document(x, text);
    fixture_document(x, "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: {kubelet: "
                        "{config: {maxPods: 30}}}\n");
    fixture_plan(x);
    history = overrode(&x->plan, "spec.kubelet.config.maxPods");
    assert_string_equal(value_of(&x->plan, "spec.kubelet.config.maxPods"), "30");
    assert_true(nc_starts_with(origin(&x->plan, "spec.kubelet.config.maxPods"), "document 3:3:"));
    assert_true(nc_starts_with(history, "20 from document 2:"));
    assert_non_null(strstr(history, "; 10 from document 1:5:"));
    assert_non_null(strstr(history, "; 29 from instance type m5.large"));
    fixture_free(x);
}

/* The rarer ways in: flags and documents that say what facts say, EC2 asked although the table
 * knows. */
static void test_overrides(void **state) {
    struct fixture *x = fixture_new();
    struct nc_label bad = {(char *)"a b", (char *)"", {0}};
    struct nc_taint never = {(char *)"a", (char *)"", (char *)"Never", {0}};

    (void)state;
    x->has_config = true;
    x->config.kubelet = json("{'providerID': 'aws:///x/i-2', 'kubeReserved': {'cpu': '1'}}");
    fixture_plan(x);
    assert_string_equal(x->plan.provider_id, "aws:///x/i-2");
    assert_string_equal(value_of(&x->plan, "providerID"), "aws:///x/i-2");
    assert_string_equal(value_of(&x->plan, "spec.kubelet.config.providerID"), "aws:///x/i-2");
    nc_strv_add(&x->config.kubelet_flags, "--provider-id=aws:///x/i-1");
    nc_value_set_string(x->config.kubelet, "resolvConf", "");
    {
        struct nc_buf text = NC_BUF_INIT; /* longer than an origin shows, cut between characters */
        for (int i = 0; i < 300; i++)
            nc_buf_puts(&text, "ü");
        nc_value_set_string(x->config.kubelet, "staticPodPath", text.data);
        nc_buf_done(&text);
    }
    fixture_plan(x);
    assert_string_equal(x->plan.provider_id, "aws:///x/i-1");
    assert_string_equal(value_of(&x->plan, "spec.kubelet.config.providerID"), "aws:///x/i-1");
    assert_string_equal(origin(&x->plan, "spec.kubelet.config.kubeReserved"),
                        "the user's kubelet configuration, merged over reservation policy "
                        "karpenter for 2 CPUs and 29 pods");
    assert_string_equal(overrode(&x->plan, "spec.kubelet.config.kubeReserved"), "");
    assert_string_equal(overrode(&x->plan, "spec.kubelet.config.kubeReserved.cpu"),
                        "70m from reservation policy karpenter for 2 CPUs and 29 pods");
    assert_true(nc_ends_with(value_of(&x->plan, "spec.kubelet.config.staticPodPath"), "ü…"));
    assert_int_equal(strlen(value_of(&x->plan, "spec.kubelet.config.staticPodPath")),
                     400 + strlen("…"));
    x->config.ec2 = NC_EC2_ALWAYS;
    x->facts.described_type = (struct nc_instance_type){
        .name = "m5.large", .vcpus = 2, .memory_mib = 8192, .enis = 4, .ipv4_per_eni = 15};
    fixture_plan(x);
    assert_int_equal(x->plan.max_pods, 58);
    assert_int_equal(x->plan.eni_pods, 58);
    *nc_append(&x->config.labels, &x->config.n_labels) =
        (struct nc_label){nc_strdup(bad.key), nc_strdup(bad.value), {0}};
    fixture_refused(x, NC_ERR_CONFIG, "node.labels of the configuration: invalid label key: 'a b'");
    x->config.n_labels = 0;
    free(x->config.labels[0].key);
    free(x->config.labels[0].value);
    *nc_append(&x->config.taints, &x->config.n_taints) = (struct nc_taint){
        nc_strdup(never.key), nc_strdup(never.value), nc_strdup(never.effect), {0}};
    fixture_refused(x, NC_ERR_CONFIG, "node.taints of the configuration: taint a: effect 'Never'");
    fixture_free(x);
}

/* A recorded host under another type's name: what nobody requested is a warning, what somebody
 * requested an error. */
static void test_small_host(void **state) {
    struct fixture *x = fixture_new();
    nc_auto_free char *text = node_config("");

    (void)state;
    fixture_type(x, "m5.24xlarge", 2);
    x->facts.mem_total_bytes = 4 * GI;
    fixture_document(x, text);
    fixture_plan(x);
    assert_int_equal(x->plan.allocatable.memory_bytes, 0);
    assert_int_equal(x->plan.allocatable.cpu_millicores, 1930);
    assert_true(warns(&x->plan, "is this host really a m5.24xlarge?"));
    fixture_document(x, "apiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: "
                        "{reservation: {policy: actual}}\n");
    fixture_refused(x, NC_ERR_CONFIG, "memory: ");
    fixture_free(x);
}

static void test_missing_facts(void **state) {
    struct fixture *x = fixture_new();
    struct nc_err err = NC_ERR_INIT;
    const struct nc_plan_input in = {.facts = &x->facts, .config = &x->config};
    struct nc_plan p = NC_PLAN_INIT;

    (void)state;
    x->has_config = true;
    fixture_set(&x->facts.az, NULL);
    fixture_refused(x, NC_ERR_CONFIG, "availability zone");
    fixture_set(&x->facts.az, "us-west-2a");
    fixture_set(&x->facts.instance_id, NULL);
    fixture_refused(x, NC_ERR_CONFIG, "instance id");
    x->config.provider_id = nc_strdup("aws:///a/b");
    fixture_plan(x);
    assert_string_equal(x->plan.provider_id, "aws:///a/b");
    x->facts.cpus = -1;
    x->facts.mem_total_bytes = -1;
    fixture_type(x, "unknown.type", -1);
    fixture_plan(x);
    assert_true(warns(&x->plan, "none is reserved"));
    assert_int_equal(x->plan.allocatable.memory_bytes, -1);
    x->config.reservation = NC_RESERVATION_GKE;
    fixture_refused(x, NC_ERR_HOST, "gke");
    x->config.reservation = 0;
    x->config.cidr = nc_strdup("nonsense");
    assert_true(nc_plan_make(&in, &p, &err) < 0);
    assert_non_null(strstr(err.msg, "invalid CIDR: 'nonsense'"));
    x->config.max_pods_mode = NC_MAX_PODS_EXPLICIT;
    assert_true(nc_plan_make(&in, &p, NULL) < 0);
    fixture_free(x);
}

TEST_GROUP() {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nodeadm_golden),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_version_refused),
        cmocka_unit_test(test_m5_large),
        cmocka_unit_test(test_auto_mode),
        cmocka_unit_test(test_local_disks),
        cmocka_unit_test(test_soft_eviction),
        cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_kubelet_block),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_flag_of_addresses),
        cmocka_unit_test(test_no_registration),
        cmocka_unit_test(test_our_flags),
        cmocka_unit_test(test_no_credential_provider),
        cmocka_unit_test(test_claim),
        cmocka_unit_test(test_belongs),
        cmocka_unit_test(test_unfit_taint),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_claim_that_was_read),
        cmocka_unit_test(test_expects_claim),
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_unknown_type),
        cmocka_unit_test(test_unknown_type_of_karpenter),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_other_clusters),
        cmocka_unit_test(test_user_map),
        cmocka_unit_test(test_missing_facts),
        cmocka_unit_test(test_small_host),
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_overrides),
    };

    return run_group(tests, NULL, NULL);
}
