/*
 * Pods as a drain sees them, read from an object. Pure; an object is hostile: what has the wrong
 * type is unset, names that could lead out of a path are refused.
 */
#include "nc/pod.h"
#include "nc/names.h"

#include <errno.h>
#include <stdio.h>

#include "nc/backoff.h"
#include "nc/str.h"
#include "nc/time.h"

#include "drain-priv.h"

#define MAX_NAME_BYTES 253
#define MAX_CLAIMS 256
#define DEFAULT_GRACE_SEC 30

#define MIRROR_ANNOTATION "kubernetes.io/config.mirror"
#define CORDON_TAINT "node.kubernetes.io/unschedulable"

const char nc_pod_paths[] =
    "metadata.namespace\0metadata.name\0metadata.uid\0metadata.finalizers\0"
    "metadata.ownerReferences\0metadata.creationTimestamp\0"
    "metadata.deletionTimestamp\0metadata.deletionGracePeriodSeconds\0"
    "metadata.annotations.'" NC_ANNOTATION_DO_NOT_DISRUPT "'\0"
    "metadata.annotations.'" NC_ANNOTATION_REPLACEMENT_FIRST "'\0"
    "metadata.annotations.'" MIRROR_ANNOTATION "'\0"
    "metadata.annotations.'" NC_ANNOTATION_DRAIN_ORDER "'\0"
    "spec.priorityClassName\0spec.terminationGracePeriodSeconds\0"
    "spec.tolerations\0spec.volumes.name\0"
    "spec.volumes.persistentVolumeClaim.claimName\0"
    "spec.volumes.ephemeral.volumeClaimTemplate.metadata.name\0status.phase\0"
    "status.reason\0status.message\0status.startTime\0";

void nc_pod_done(struct nc_pod *p) {
    free(p->namespace);
    free(p->name);
    free(p->uid);
    nc_strv_done(&p->claims);
    *p = (struct nc_pod){0};
}

/* A member of a map that may replace a segment of a URL's path. */
static int read_name(const struct nc_value *metadata, const char *key, char **ret,
                     struct nc_err *err) {
    const char *s = nc_value_get_string(metadata, key);
    const size_t n = s ? strlen(s) : 0;

    if (n == 0)
        return nc_err_protocol(err, "pod: metadata.%s is missing", key);
    if (n > MAX_NAME_BYTES)
        return nc_err_protocol(err, "pod: metadata.%s has %zu bytes, at most %d are possible", key,
                               n, MAX_NAME_BYTES);
    for (size_t i = 0; i < n; i++)
        if (s[i] <= ' ' || s[i] > '~' || strchr("/%?#", s[i])) {
            nc_auto_free char *quoted = nc_quote(s, n);
            return nc_err_protocol(
                err, "pod: invalid metadata.%s: %s: byte %zu is not allowed in a name", key, quoted,
                i);
        }
    if (nc_streq(s, ".") || nc_streq(s, ".."))
        return nc_err_protocol(err, "pod: invalid metadata.%s: '%s'", key, s);
    *ret = nc_strdup(s);
    return 0;
}

static uint64_t read_seconds(const struct nc_value *map, const char *key, uint64_t unset) {
    const int64_t sec = nc_value_get_int(map, key, (int64_t)unset);

    return sec > 0 ? (uint64_t)sec : 0;
}

static uint64_t read_time(const struct nc_value *map, const char *key) {
    const char *s = nc_value_get_string(map, key);
    uint64_t usec;

    return s && nc_time_parse(s, &usec) >= 0 ? usec : 0;
}

static bool is_owner(const struct nc_value *owner, const char *api_version, const char *kind) {
    return nc_value_says(owner, "apiVersion", api_version) && nc_value_says(owner, "kind", kind);
}

/* Karpenter requests any owner of the kind, not only for the controller. A DaemonSet of another
 * group (OpenKruise's) puts its pods back like Kubernetes' own. */
static void read_owners(const struct nc_value *owners, struct nc_pod *p) {
    const struct nc_value *owner;

    for (size_t i = 0; (owner = nc_value_item(owners, i)); i++) {
        const bool is_controller = nc_value_bool(nc_value_get(owner, "controller"), false);
        p->is_daemon = p->is_daemon || nc_value_says(owner, "kind", "DaemonSet");
        p->is_mirror = p->is_mirror || is_owner(owner, "v1", "Node");
        p->is_job = p->is_job || (is_controller && is_owner(owner, "batch/v1", "Job"));
        if (is_controller && !p->controller)
            p->controller = nc_backoff_seed(nc_value_get_string(owner, "uid")) | 1;
    }
}

/* corev1.Toleration.ToleratesTaint for a taint with the effect NoSchedule and no value. */
static bool is_tolerating(const struct nc_value *toleration, const char *taint) {
    const char *key = nc_value_get_string(toleration, "key");
    const char *op = nc_value_get_string(toleration, "operator");
    const char *value = nc_value_get_string(toleration, "value");
    const char *effect = nc_value_get_string(toleration, "effect");
    const bool has_key = key && *key;
    const bool is_exists = nc_streq(op, "Exists");

    if (effect && *effect && !nc_streq(effect, "NoSchedule"))
        return false;
    if (has_key ? !nc_streq(key, taint) : !is_exists)
        return false;
    if (is_exists)
        return true;
    return (!op || !*op || nc_streq(op, "Equal")) && (!value || !*value);
}

static bool has_toleration(const struct nc_value *tolerations, const char *taint) {
    const struct nc_value *toleration;

    for (size_t i = 0; (toleration = nc_value_item(tolerations, i)); i++)
        if (is_tolerating(toleration, taint))
            return true;
    return false;
}

/* "true", or how long after its start a pod is not to be disturbed. A pod that has not started is
 * kept until it is known when it did, as Karpenter does. */
static void read_keep(const char *text, const struct nc_value *status, struct nc_pod *p) {
    const uint64_t started = read_time(status, "startTime");
    uint64_t duration;

    if (!text)
        return;
    if (nc_streq(text, "true")) {
        p->never_disrupt = true;
        return;
    }
    if (nc_duration_parse(text, &duration) < 0 || duration == 0)
        return;
    p->never_disrupt = started == 0;
    p->keep_until_usec = started ? nc_sum_usec(started, duration) : 0;
}

static void read_claims(const struct nc_value *volumes, struct nc_pod *p) {
    const struct nc_value *volume;

    p->has_unread_claims = volumes && volumes->type == NC_VALUE_NULL;
    for (size_t i = 0; (volume = nc_value_item(volumes, i)) && p->claims.n < MAX_CLAIMS; i++) {
        const char *claim = nc_value_path_string(volume, "persistentVolumeClaim.claimName");
        const char *name = nc_value_get_string(volume, "name");
        const struct nc_value *own = nc_value_get(volume, "ephemeral");
        if (claim && *claim && strlen(claim) <= MAX_NAME_BYTES)
            nc_strv_add(&p->claims, claim);
        else if (own && own->type == NC_VALUE_MAP && name && strlen(name) <= MAX_NAME_BYTES)
            nc_strv_addf(&p->claims, "%s-%s", p->name, name);
    }
}

/* kubelet's words where it ended or turned away a pod because the machine goes down. */
static bool is_shutdown_status(const struct nc_value *status) {
    const char *reason = nc_value_get_string(status, "reason");
    const char *message = nc_value_get_string(status, "message");

    return nc_streq(reason, "NodeShutdown")
           || (nc_streq(reason, "Terminated") && message
               && nc_starts_with(message,
                                 "Pod was terminated in response to imminent node shutdown"));
}

static void read_status(const struct nc_value *status, struct nc_pod *p) {
    const char *phase = nc_value_get_string(status, "phase");
    const bool is_failed = nc_streq(phase, "Failed");

    p->is_terminal = is_failed || nc_streq(phase, "Succeeded");
    p->has_started = read_time(status, "startTime") != 0;
    p->is_shutdown_left = is_failed && is_shutdown_status(status);
}

static enum nc_tier tier_of(const char *priority_class, bool is_daemon) {
    const bool is_critical = nc_streq(priority_class, "system-cluster-critical")
                             || nc_streq(priority_class, "system-node-critical");

    if (is_critical)
        return is_daemon ? NC_TIER_CRITICAL_DAEMON : NC_TIER_CRITICAL;
    return is_daemon ? NC_TIER_PLAIN_DAEMON : NC_TIER_PLAIN;
}

const char *nc_pod_order_name(enum nc_pod_order o) {
    return nc_name_at("first\0last\0", o - NC_POD_ORDER_FIRST);
}

static void read_order(const struct nc_value *annotations, struct nc_pod *p) {
    const char *text = nc_value_get_string(annotations, NC_ANNOTATION_DRAIN_ORDER);

    if (!text)
        return;
    p->order = NC_POD_ORDER_UNKNOWN;
    if (nc_streq(text, nc_pod_order_name(NC_POD_ORDER_FIRST))) {
        p->order = NC_POD_ORDER_FIRST;
        p->tier = NC_TIER_PLAIN;
    } else if (nc_streq(text, nc_pod_order_name(NC_POD_ORDER_LAST))) {
        p->order = NC_POD_ORDER_LAST;
        p->tier = NC_TIER_LAST;
    }
}

int nc_pod_read(const struct nc_value *object, struct nc_pod *ret, struct nc_err *err) {
    const struct nc_value *metadata = nc_value_get(object, "metadata");
    const struct nc_value *annotations = nc_value_get(metadata, "annotations");
    const struct nc_value *spec = nc_value_get(object, "spec");
    const struct nc_value *status = nc_value_get(object, "status");
    struct nc_pod p = {0};
    int r = read_name(metadata, "namespace", &p.namespace, err);

    if (r >= 0)
        r = read_name(metadata, "name", &p.name, err);
    if (r >= 0)
        r = read_name(metadata, "uid", &p.uid, err);
    if (r < 0) {
        nc_pod_done(&p);
        return r;
    }
    read_owners(nc_value_get(metadata, "ownerReferences"), &p);
    p.is_mirror = p.is_mirror || nc_value_get(annotations, MIRROR_ANNOTATION);
    p.tier = tier_of(nc_value_get_string(spec, "priorityClassName"), p.is_daemon);
    p.has_finalizer = nc_value_item(nc_value_get(metadata, "finalizers"), 0);
    read_order(annotations, &p);
    p.created_usec = read_time(metadata, "creationTimestamp");
    p.tolerates_disrupted = has_toleration(nc_value_get(spec, "tolerations"), NC_TAINT_DISRUPTED);
    p.tolerates_cordon = has_toleration(nc_value_get(spec, "tolerations"), CORDON_TAINT);
    p.grace_sec = read_seconds(spec, "terminationGracePeriodSeconds", DEFAULT_GRACE_SEC);
    p.deletion_usec = read_time(metadata, "deletionTimestamp");
    p.deletion_grace_sec = read_seconds(metadata, "deletionGracePeriodSeconds", 0);
    read_status(status, &p);
    read_keep(nc_value_get_string(annotations, NC_ANNOTATION_DO_NOT_DISRUPT), status, &p);
    p.is_replacement_first = nc_value_says(annotations, NC_ANNOTATION_REPLACEMENT_FIRST, "true");
    read_claims(nc_value_get(spec, "volumes"), &p);
    *ret = p;
    return 0;
}
