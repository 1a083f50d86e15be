/*
 * The user's kubelet flags.
 *
 * The items of NodeConfig's `kubelet.flags` end up in a unit's $ARGS, where systemd splits them at
 * white space and takes quotes off; Karpenter relies on that (--node-labels="a=b,c=d", quotes and
 * all). Doing the same here gives one argument an item, whoever starts kubelet. Flags beat files in
 * kubelet, so those that have a field in KubeletConfiguration are known by name: the plan would
 * otherwise predict something else than what kubelet does.
 */
#include "kubelet-flags.h"

#include <ctype.h>
#include <errno.h>

#include "nc/str.h"

void nc_flags_done(struct nc_flags *f) {
    for (size_t i = 0; i < f->n; i++) {
        free(f->v[i].argument);
        free(f->v[i].name);
        free(f->v[i].value);
    }
    free(f->v);
    *f = (struct nc_flags)NC_FLAGS_INIT;
}

/* Takes the next word off *rest. 1: a word in *ret, 0: nothing left, -EINVAL: a quote stays open.
 */
static int next_word(const char **rest, char **ret) {
    struct nc_buf word = NC_BUF_INIT;
    const char *p = *rest;
    char quote = '\0';

    while (isspace((unsigned char)*p))
        p++;
    if (!*p)
        return 0;
    for (; *p && (quote || !isspace((unsigned char)*p)); p++) {
        if (quote ? *p == quote : (*p == '"' || *p == '\'')) {
            quote = quote ? '\0' : *p;
            continue;
        }
        if (*p == '\\' && quote != '\'' && p[1])
            p++;
        nc_buf_putc(&word, *p);
    }
    if (quote) {
        nc_buf_done(&word);
        return -EINVAL;
    }
    *rest = p;
    *ret = nc_buf_steal(&word);
    return 1;
}

/* "--Key_name=value" -> name "Key-name": kubelet takes '_' for '-'. */
static void split_argument(struct nc_flag *f) {
    const char *equal;

    if (!nc_starts_with(f->argument, "--") || !f->argument[2])
        return;
    equal = strchr(f->argument, '=');
    f->name = nc_strndup(f->argument + 2,
                         equal ? (size_t)(equal - f->argument) - 2 : strlen(f->argument) - 2);
    for (char *p = f->name; *p; p++)
        if (*p == '_')
            *p = '-';
    f->value = equal ? nc_strdup(equal + 1) : NULL;
}

/* A word without dashes belongs to the flag before it, where that has no value yet. */
static bool join_value(struct nc_flags *flags, const char *word) {
    struct nc_flag *last = flags->n > 0 ? &flags->v[flags->n - 1] : NULL;
    char *joined;

    if (!last || last->value || *word == '-' || !nc_starts_with(last->argument, "-"))
        return false;
    if (!last->name && strlen(last->argument) != 2) /* "-v 2", but not "-v=2 3" */
        return false;
    joined = nc_asprintf("%s=%s", last->argument, word);
    free(last->argument);
    last->argument = joined;
    last->value = nc_strdup(word);
    return true;
}

static int take_item(struct nc_flags *flags, const char *item, struct nc_mark mark,
                     struct nc_err *err) {
    const char *rest = item;
    char *word = NULL;
    int r;

    while ((r = next_word(&rest, &word)) > 0) {
        nc_auto_free char *owned = word;
        struct nc_flag *f;
        if (join_value(flags, word))
            continue;
        if (*word != '-') {
            nc_auto_free char *quoted = nc_quote(word, strlen(word));
            return nc_err_set(err, NC_ERR_CONFIG, EINVAL,
                              "kubelet.flags: %s is no flag (--key=value)", quoted);
        }
        f = nc_append(&flags->v, &flags->n);
        f->argument = nc_steal(&owned);
        f->mark = mark;
        split_argument(f);
    }
    if (r < 0) {
        nc_auto_free char *quoted = nc_quote(item, strlen(item));
        return nc_err_set(err, NC_ERR_CONFIG, EINVAL, "kubelet.flags: %s: a quote is not closed",
                          quoted);
    }
    return 0;
}

int nc_flags_parse(const struct nc_strv *items, const struct nc_mark *marks, struct nc_flags *ret,
                   struct nc_err *err) {
    struct nc_flags flags = NC_FLAGS_INIT;
    int r = 0;

    for (size_t i = 0; i < items->n && r == 0; i++)
        r = take_item(&flags, items->v[i], marks ? marks[i] : (struct nc_mark){0}, err);
    if (r < 0)
        nc_flags_done(&flags);
    else
        *ret = flags;
    return r;
}

const struct nc_flag *nc_flags_find(const struct nc_flags *f, const char *name) {
    for (size_t i = f->n; i > 0; i--)
        if (nc_streq(f->v[i - 1].name, name))
            return &f->v[i - 1];
    return NULL;
}

enum kind {
    KIND_INT = 1,
    KIND_BOOL,
    KIND_STRING,
    KIND_LIST,     /* a,b */
    KIND_MAP,      /* a=b,c=d */
    KIND_LESS_MAP, /* a<b,c<d */
    KIND_BOOL_MAP, /* a=true,b=false */
};

/* cmd/kubelet/app/options: AddKubeletConfigFlags. Path in KubeletConfiguration, dots descend. */
static const struct known_flag {
    const char *name;
    const char *path;
    enum kind kind;
} known_flags[] = {
    {"address", "address", KIND_STRING},
    {"allowed-unsafe-sysctls", "allowedUnsafeSysctls", KIND_LIST},
    {"anonymous-auth", "authentication.anonymous.enabled", KIND_BOOL},
    {"authentication-token-webhook", "authentication.webhook.enabled", KIND_BOOL},
    {"authentication-token-webhook-cache-ttl", "authentication.webhook.cacheTTL", KIND_STRING},
    {"authorization-mode", "authorization.mode", KIND_STRING},
    {"authorization-webhook-cache-authorized-ttl", "authorization.webhook.cacheAuthorizedTTL",
     KIND_STRING},
    {"authorization-webhook-cache-unauthorized-ttl", "authorization.webhook.cacheUnauthorizedTTL",
     KIND_STRING},
    {"cgroup-driver", "cgroupDriver", KIND_STRING},
    {"cgroup-root", "cgroupRoot", KIND_STRING},
    {"cgroups-per-qos", "cgroupsPerQOS", KIND_BOOL},
    {"client-ca-file", "authentication.x509.clientCAFile", KIND_STRING},
    {"cluster-dns", "clusterDNS", KIND_LIST},
    {"cluster-domain", "clusterDomain", KIND_STRING},
    {"container-log-max-files", "containerLogMaxFiles", KIND_INT},
    {"container-log-max-size", "containerLogMaxSize", KIND_STRING},
    {"container-runtime-endpoint", "containerRuntimeEndpoint", KIND_STRING},
    {"cpu-cfs-quota", "cpuCFSQuota", KIND_BOOL},
    {"cpu-cfs-quota-period", "cpuCFSQuotaPeriod", KIND_STRING},
    {"cpu-manager-policy", "cpuManagerPolicy", KIND_STRING},
    {"cpu-manager-policy-options", "cpuManagerPolicyOptions", KIND_MAP},
    {"cpu-manager-reconcile-period", "cpuManagerReconcilePeriod", KIND_STRING},
    {"enable-controller-attach-detach", "enableControllerAttachDetach", KIND_BOOL},
    {"enable-debugging-handlers", "enableDebuggingHandlers", KIND_BOOL},
    {"enable-server", "enableServer", KIND_BOOL},
    {"enforce-node-allocatable", "enforceNodeAllocatable", KIND_LIST},
    {"event-burst", "eventBurst", KIND_INT},
    {"event-qps", "eventRecordQPS", KIND_INT},
    {"eviction-hard", "evictionHard", KIND_LESS_MAP},
    {"eviction-max-pod-grace-period", "evictionMaxPodGracePeriod", KIND_INT},
    {"eviction-minimum-reclaim", "evictionMinimumReclaim", KIND_MAP},
    {"eviction-pressure-transition-period", "evictionPressureTransitionPeriod", KIND_STRING},
    {"eviction-soft", "evictionSoft", KIND_LESS_MAP},
    {"eviction-soft-grace-period", "evictionSoftGracePeriod", KIND_MAP},
    {"fail-swap-on", "failSwapOn", KIND_BOOL},
    {"feature-gates", "featureGates", KIND_BOOL_MAP},
    {"hairpin-mode", "hairpinMode", KIND_STRING},
    {"healthz-bind-address", "healthzBindAddress", KIND_STRING},
    {"healthz-port", "healthzPort", KIND_INT},
    {"image-gc-high-threshold", "imageGCHighThresholdPercent", KIND_INT},
    {"image-gc-low-threshold", "imageGCLowThresholdPercent", KIND_INT},
    {"image-service-endpoint", "imageServiceEndpoint", KIND_STRING},
    {"kube-api-burst", "kubeAPIBurst", KIND_INT},
    {"kube-api-qps", "kubeAPIQPS", KIND_INT},
    {"kube-reserved", "kubeReserved", KIND_MAP},
    {"kube-reserved-cgroup", "kubeReservedCgroup", KIND_STRING},
    {"kubelet-cgroups", "kubeletCgroups", KIND_STRING},
    {"local-storage-capacity-isolation", "localStorageCapacityIsolation", KIND_BOOL},
    {"make-iptables-util-chains", "makeIPTablesUtilChains", KIND_BOOL},
    {"max-open-files", "maxOpenFiles", KIND_INT},
    {"max-pods", "maxPods", KIND_INT},
    {"memory-manager-policy", "memoryManagerPolicy", KIND_STRING},
    {"minimum-image-ttl-duration", "imageMinimumGCAge", KIND_STRING},
    {"node-status-max-images", "nodeStatusMaxImages", KIND_INT},
    {"node-status-update-frequency", "nodeStatusUpdateFrequency", KIND_STRING},
    {"oom-score-adj", "oomScoreAdj", KIND_INT},
    {"pod-cidr", "podCIDR", KIND_STRING},
    {"pod-manifest-path", "staticPodPath", KIND_STRING},
    {"pod-max-pids", "podPidsLimit", KIND_INT},
    {"pods-per-core", "podsPerCore", KIND_INT},
    {"port", "port", KIND_INT},
    {"protect-kernel-defaults", "protectKernelDefaults", KIND_BOOL},
    {"provider-id", "providerID", KIND_STRING},
    {"read-only-port", "readOnlyPort", KIND_INT},
    {"register-node", "registerNode", KIND_BOOL},
    {"registry-burst", "registryBurst", KIND_INT},
    {"registry-qps", "registryPullQPS", KIND_INT},
    {"reserved-cpus", "reservedSystemCPUs", KIND_STRING},
    {"resolv-conf", "resolvConf", KIND_STRING},
    {"rotate-certificates", "rotateCertificates", KIND_BOOL},
    {"rotate-server-certificates", "serverTLSBootstrap", KIND_BOOL},
    {"runtime-request-timeout", "runtimeRequestTimeout", KIND_STRING},
    {"serialize-image-pulls", "serializeImagePulls", KIND_BOOL},
    {"streaming-connection-idle-timeout", "streamingConnectionIdleTimeout", KIND_STRING},
    {"sync-frequency", "syncFrequency", KIND_STRING},
    {"system-cgroups", "systemCgroups", KIND_STRING},
    {"system-reserved", "systemReserved", KIND_MAP},
    {"system-reserved-cgroup", "systemReservedCgroup", KIND_STRING},
    {"tls-cert-file", "tlsCertFile", KIND_STRING},
    {"tls-cipher-suites", "tlsCipherSuites", KIND_LIST},
    {"tls-min-version", "tlsMinVersion", KIND_STRING},
    {"tls-private-key-file", "tlsPrivateKeyFile", KIND_STRING},
    {"topology-manager-policy", "topologyManagerPolicy", KIND_STRING},
    {"topology-manager-policy-options", "topologyManagerPolicyOptions", KIND_MAP},
    {"topology-manager-scope", "topologyManagerScope", KIND_STRING},
    {"volume-plugin-dir", "volumePluginDir", KIND_STRING},
    {"volume-stats-agg-period", "volumeStatsAggPeriod", KIND_STRING},
};

const char *nc_flag_of_field(const char *field) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(known_flags); i++)
        if (nc_streq(known_flags[i].path, field))
            return known_flags[i].name;
    return NULL;
}

static const struct known_flag *find_known(const char *name) {
    size_t low = 0, high = NC_ARRAY_SIZE(known_flags);

    while (name && low < high) {
        size_t middle = low + (high - low) / 2;
        int c = strcmp(name, known_flags[middle].name);
        if (c == 0)
            return &known_flags[middle];
        if (c > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* strconv.ParseBool's words. -1: none of them. */
static int parse_bool(const char *text) {
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};

    for (size_t i = 0; i < NC_ARRAY_SIZE(yes); i++) {
        if (nc_streq(text, yes[i]))
            return 1;
        if (nc_streq(text, no[i]))
            return 0;
    }
    return -1;
}

static struct nc_value *leaf_list(const char *text) {
    struct nc_value *list = nc_value_new(NC_VALUE_LIST);
    nc_auto_free char *copy = nc_strdup(text);

    if (*text == '\0')
        return list;
    for (char *rest = copy, *item; (item = strsep(&rest, ","));)
        nc_value_push(list, nc_value_new_string(nc_trim(item)));
    return list;
}

static struct nc_value *leaf_map(const char *text, char separator, bool of_bools) {
    struct nc_value *map = nc_value_new(NC_VALUE_MAP);
    nc_auto_free char *copy = nc_strdup(text);

    for (char *rest = copy, *item; (item = strsep(&rest, ","));) {
        char *value;
        item = nc_trim(item);
        if (!*item)
            continue;
        value = strchr(item, separator);
        if (!value || (of_bools && parse_bool(nc_trim(value + 1)) < 0))
            return nc_value_free(map);
        *value++ = '\0';
        if (of_bools)
            nc_value_set_bool(map, nc_trim(item), parse_bool(nc_trim(value)) == 1);
        else
            nc_value_set_string(map, nc_trim(item), nc_trim(value));
    }
    return map;
}

/* NULL where the text is not of that kind. */
static struct nc_value *leaf_of(enum kind kind, const char *text) {
    int64_t i;

    switch (kind) {
    case KIND_INT:
        return text && nc_parse_i64(text, &i) == 0 ? nc_value_new_int(i) : NULL;
    case KIND_BOOL: /* "--flag" alone is true */
        return !text || parse_bool(text) >= 0 ? nc_value_new_bool(!text || parse_bool(text) == 1)
                                              : NULL;
    case KIND_STRING:
        return text ? nc_value_new_string(text) : NULL;
    case KIND_LIST:
        return text ? leaf_list(text) : NULL;
    case KIND_MAP:
        return text ? leaf_map(text, '=', false) : NULL;
    case KIND_LESS_MAP:
        return text ? leaf_map(text, '<', false) : NULL;
    case KIND_BOOL_MAP:
        return text ? leaf_map(text, '=', true) : NULL;
    }
    return NULL;
}

static void set_marks(struct nc_value *v, struct nc_mark mark) {
    v->mark = mark;
    for (size_t i = 0; i < v->n; i++)
        set_marks(v->type == NC_VALUE_MAP ? v->members[i].value : v->items[i], mark);
}

/* The map that holds the last part of a dotted path, made where it is missing; *ret_key is that
 * part. */
static struct nc_value *descend(struct nc_value *tree, const char *path, const char **ret_key) {
    const char *dot;

    for (; (dot = strchr(path, '.')); path = dot + 1) {
        nc_auto_free char *key = nc_strndup(path, (size_t)(dot - path));
        if (!nc_value_get(tree, key))
            nc_value_set(tree, key, nc_value_new(NC_VALUE_MAP));
        tree = nc_value_get(tree, key);
    }
    *ret_key = path;
    return tree;
}

/* A list or map flag that is given twice adds up; everything else is replaced. */
static void put_leaf(struct nc_value *tree, const char *path, struct nc_value *leaf) {
    const char *key;
    struct nc_value *map = descend(tree, path, &key), *old = nc_value_get(map, key);

    if (old && leaf->type == NC_VALUE_LIST) {
        for (size_t i = 0; i < leaf->n; i++)
            nc_value_push(old, nc_value_copy(leaf->items[i]));
        nc_value_free(leaf);
    } else if (old && leaf->type == NC_VALUE_MAP) {
        nc_value_merge(old, leaf);
    } else {
        nc_value_set(map, key, leaf);
    }
}

int nc_flags_tree(const struct nc_flags *f, struct nc_value **ret, struct nc_err *err) {
    nc_auto_value struct nc_value *tree = nc_value_new(NC_VALUE_MAP);

    for (size_t i = 0; i < f->n; i++) {
        const struct known_flag *known = find_known(f->v[i].name);
        struct nc_value *leaf;
        if (!known)
            continue;
        leaf = leaf_of(known->kind, f->v[i].value);
        if (!leaf) {
            nc_auto_free char *quoted = nc_quote(f->v[i].argument, strlen(f->v[i].argument));
            return nc_err_set(err, NC_ERR_CONFIG, EINVAL,
                              "kubelet.flags: %s: kubelet cannot read this value", quoted);
        }
        set_marks(leaf, f->v[i].mark);
        put_leaf(tree, known->path, leaf);
    }
    *ret = nc_steal(&tree);
    return 0;
}

void nc_flags_apply(struct nc_value *config, const struct nc_value *flags) {
    for (size_t i = 0; i < NC_ARRAY_SIZE(known_flags); i++) {
        const struct nc_value *leaf = nc_value_path(flags, known_flags[i].path);
        struct nc_value *map, *old;
        const char *key;
        if (!leaf)
            continue;
        map = descend(config, known_flags[i].path, &key);
        old = nc_value_get(map, key);
        if (known_flags[i].kind == KIND_BOOL_MAP && old)
            nc_value_merge(old, nc_value_copy(leaf));
        else
            nc_value_set(map, key, nc_value_copy(leaf));
    }
}
