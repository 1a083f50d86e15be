/*
 * The base KubeletConfiguration.
 *
 * Value for value what nodeadm writes on AL2023, so that an image can change from one to the other
 * without a node behaving differently. It holds what the plan computes; the user's own map goes
 * into a drop-in that kubelet lays over it. In a few places kubelet would refuse the sum of both
 * although each is fine alone; there the base gives way, and the comment at the code names the
 * rule.
 */
#include "kubelet.h"

#include "nc/mem.h"
#include "nc/time.h"
#include "shapes.h"

#define SHUTDOWN_USEC ((uint64_t)150 * 1000000)
#define SHUTDOWN_CRITICAL_USEC ((uint64_t)30 * 1000000)

/* What kubelet is told first, whatever the host and the configuration. */
static const char first_settings[] =
    "{\"address\":\"0.0.0.0\",\"authentication\":{\"anonymous\":{\"enabled\":false},"
    "\"webhook\":{\"cacheTTL\":\"2m0s\",\"enabled\":true}},"
    "\"authorization\":{\"mode\":\"Webhook\",\"webhook\":{\"cacheAuthorizedTTL\":\"5m0s\","
    "\"cacheUnauthorizedTTL\":\"30s\"}},"
    "\"clusterDomain\":\"cluster.local\",\"hairpinMode\":\"hairpin-veth\",\"readOnlyPort\":0,"
    "\"cgroupDriver\":\"systemd\",\"cgroupRoot\":\"/\"}";

/* A gate that a release no longer knows keeps kubelet from starting: last is the one before, 0
 * while none is announced. */
static const struct {
    char name[32];
    unsigned first, last;
} gates[] = {
    {"RotateKubeletServerCertificate", 0, 0},
    {"DynamicResourceAllocation", 33, 37},
    {"MutableCSINodeAllocatableCount", 34, 37},
};

static void add_gates(struct nc_value *base, unsigned minor, struct nc_reasons *reasons) {
    struct nc_value *map = nc_value_add_map(base, "featureGates");

    for (size_t i = 0; i < NC_ARRAY_SIZE(gates); i++) {
        nc_auto_free char *path = nc_asprintf("featureGates.%s", gates[i].name);
        nc_auto_free char *why = nc_asprintf("kubelet 1.%u and later", gates[i].first);
        if (minor < gates[i].first || (gates[i].last > 0 && minor > gates[i].last))
            continue;
        nc_value_set_bool(map, gates[i].name, true);
        if (gates[i].first > 0)
            nc_reasons_set(reasons, path, why);
    }
}

/* kubelet fills this file with defaults by the gates of this file alone, and refuses some of them
 * where their gate is off in the end (crashLoopBackOff, imagePullCredentialsVerificationPolicy). */
static void turn_off(struct nc_value *base, const struct nc_value *user) {
    const struct nc_value *theirs = nc_value_get(user, "featureGates");
    const struct nc_member *gate;

    for (size_t i = 0; (gate = nc_value_member(theirs, i)); i++)
        if (!nc_value_bool(gate->value, true))
            nc_value_set_bool(nc_value_get(base, "featureGates"), gate->key, false);
}

static void add_tls(struct nc_value *base) {
    static const char suites[][40] = {
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",  "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",   "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
        "TLS_RSA_WITH_AES_128_GCM_SHA256",         "TLS_RSA_WITH_AES_256_GCM_SHA384",
    };
    struct nc_value *list = nc_value_add_list(base, "tlsCipherSuites");

    for (size_t i = 0; i < NC_ARRAY_SIZE(suites); i++)
        nc_value_push_string(list, suites[i]);
}

static void add_eviction(struct nc_value *base, const struct nc_kubelet_input *in,
                         struct nc_reasons *reasons) {
    struct nc_value *hard = nc_value_add_map(base, "evictionHard");
    bool early_aks = in->config->reservation == NC_RESERVATION_AKS && in->minor < 29;

    nc_value_set_string(hard, "memory.available", early_aks ? "750Mi" : "100Mi");
    if (early_aks)
        nc_reasons_set(reasons, "evictionHard.memory.available",
                       "reservation policy aks before 1.29");
    nc_value_set_string(hard, "nodefs.available", "10%");
    nc_value_set_string(hard, "nodefs.inodesFree", "5%");
}

/* What user or flags say about a field; flags win. */
static const struct nc_value *overriding(const struct nc_kubelet_input *in, const char *field) {
    const struct nc_value *v = nc_value_get(in->flags, field);

    return v ? v : nc_value_get(in->user, field);
}

/* kubelet refuses reservedSystemCPUs beside these two. */
static void add_cgroups(struct nc_value *base, const struct nc_kubelet_input *in) {
    const char *cpus = nc_value_string(overriding(in, "reservedSystemCPUs"));

    if (cpus && *cpus)
        return;
    nc_value_set_string(base, "systemReservedCgroup", "/system");
    nc_value_set_string(base, "kubeReservedCgroup", "/runtime");
}

static bool is_gate_off(const struct nc_kubelet_input *in, const char *gate) {
    return !nc_value_bool(nc_value_get(overriding(in, "featureGates"), gate), true);
}

/* kubelet refuses a critical period above the total one, and a total one beside periods by
 * priority, and either without its gate: what the user says about one of them shapes the default of
 * the others. */
static void add_shutdown(struct nc_value *base, const struct nc_kubelet_input *in,
                         struct nc_reasons *reasons) {
    const struct nc_config *c = in->config;
    const struct nc_value *by_priority = overriding(in, "shutdownGracePeriodByPodPriority");
    uint64_t whole = SHUTDOWN_USEC, critical = SHUTDOWN_CRITICAL_USEC, theirs;
    char text[32];

    if (!c->has_shutdown
        && (in->minor < 34 || (by_priority && by_priority->n > 0)
            || is_gate_off(in, "GracefulNodeShutdown") || is_gate_off(in, "AllBeta")))
        return;
    if (c->has_shutdown) {
        whole = c->shutdown_usec;
        critical = c->shutdown_critical_usec;
    } else {
        if (nc_kubelet_duration(in->user, "shutdownGracePeriod", &theirs) && theirs < critical)
            critical = theirs;
        if (nc_kubelet_duration(in->user, "shutdownGracePeriodCriticalPods", &theirs)
            && theirs > whole)
            whole = theirs;
    }
    nc_duration_format(whole, text);
    nc_value_set_string(base, "shutdownGracePeriod", text);
    nc_duration_format(critical, text);
    nc_value_set_string(base, "shutdownGracePeriodCriticalPods", text);
    for (int i = 0; i < 2; i++)
        nc_reasons_set(reasons, i ? "shutdownGracePeriodCriticalPods" : "shutdownGracePeriod",
                       c->has_shutdown ? "shutdown of the configuration"
                                       : "kubelet 1.34 and later");
}

/* A client certificate that came from a bootstrap token runs out: only kubelet can renew it. */
static void add_certificates(struct nc_value *base, const struct nc_kubelet_input *in,
                             struct nc_reasons *reasons) {
    nc_value_set_bool(base, "serverTLSBootstrap", true);
    if (in->config->auth != NC_AUTH_BOOTSTRAP_TOKEN)
        return;
    nc_value_set_bool(base, "rotateCertificates", true);
    nc_reasons_set(reasons, "rotateCertificates", "spec.cluster.auth bootstrap-token");
}

static void add_cluster_dns(struct nc_value *base, const char *address) {
    nc_value_push_string(nc_value_add_list(base, "clusterDNS"), address);
}

struct nc_value *nc_kubelet_base(const struct nc_kubelet_input *in, struct nc_reasons *reasons) {
    nc_auto_value struct nc_value *first = nc_json_literal(first_settings);
    struct nc_value *base = nc_kubelet_dropin(first);
    struct nc_value *taints = nc_taints_tree(in->taints, in->n_taints);

    if (in->config->ca_pem) /* with somebody else's kubeconfig the file may not be there */
        nc_value_set_string(nc_value_add_map(nc_value_get(base, "authentication"), "x509"),
                            "clientCAFile", "/etc/kubernetes/pki/ca.crt");
    add_gates(base, in->minor, reasons);
    turn_off(base, in->user);
    turn_off(base, in->flags);
    if (in->cluster_dns)
        add_cluster_dns(base, in->cluster_dns);
    nc_value_set_string(base, "containerRuntimeEndpoint", "unix:///run/containerd/containerd.sock");
    if (in->uses_soci) { /* it passes the credentials of a pull on to itself, then asks containerd
                          */
        nc_value_set_string(base, "imageServiceEndpoint", "unix://" NC_SOCI_SOCKET);
        nc_reasons_set(reasons, "imageServiceEndpoint", "featureGates.FastImagePull");
    }
    nc_value_set_string(base, "providerID", in->provider_id);
    nc_value_set_bool(base, "protectKernelDefaults", true);
    nc_value_set_bool(base, "serializeImagePulls", false);
    add_certificates(base, in, reasons);
    add_cgroups(base, in);
    nc_value_set_int(nc_value_add_map(base, "logging"), "verbosity", 2);
    nc_value_set_int(base, "maxPods", in->max_pods);
    add_eviction(base, in, reasons);
    if (in->kube_reserved)
        nc_value_set(base, "kubeReserved", nc_value_copy(in->kube_reserved));
    if (in->system_reserved)
        nc_value_set(base, "systemReserved", nc_value_copy(in->system_reserved));
    if (taints)
        nc_value_set(base, "registerWithTaints", taints);
    add_shutdown(base, in, reasons);
    add_tls(base);
    return base;
}

struct nc_value *nc_kubelet_dropin(const struct nc_value *user) {
    struct nc_value *dropin = nc_value_new_map();

    nc_value_set_string(dropin, "kind", "KubeletConfiguration");
    nc_value_set_string(dropin, "apiVersion", "kubelet.config.k8s.io/v1beta1");
    for (size_t i = 0; user && i < user->n; i++)
        nc_value_set(dropin, user->members[i].key, nc_value_copy(user->members[i].value));
    return dropin;
}

bool nc_kubelet_duration(const struct nc_value *kubelet, const char *field, uint64_t *ret_usec) {
    const char *text = nc_value_get_string(kubelet, field);

    return text && nc_duration_parse(text, ret_usec) == 0;
}
