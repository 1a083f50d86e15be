/*
 * The verdict of the startup gate: what is wanted, what is there, what is said of it.
 */
#include "nc/fit.h"

#include <errno.h>

#include "nc/quantity.h"
#include "nc/str.h"
#include "nc/time.h"

#define ANNOTATION_NAMES 5
#define MESSAGE_NAMES 20
#define SECOND 1000000u
#define NAME_MAX_BYTES 253

static const struct {
    const char *reason, *words;
} kinds[_NC_FIT_KIND_MAX] = {
    [NC_FIT_DAEMON_SETS] = {"DaemonSetsNotReady", "DaemonSets"},
    [NC_FIT_CSI_DRIVERS] = {"CSIDriversNotRegistered", "CSI drivers"},
    [NC_FIT_RESOURCES] = {"ResourcesNotAllocatable", "resources"},
    [NC_FIT_CONDITIONS] = {"ConditionsNotTrue", "conditions"},
};

const char nc_fit_pod_paths[] =
    "metadata.namespace\0metadata.name\0metadata.uid\0metadata.ownerReferences\0"
    "metadata.deletionTimestamp\0status.conditions.type\0status.conditions.status\0"
    "status.conditions.lastTransitionTime\0";

const char *nc_fit_reason_name(enum nc_fit_reason r) {
    switch (r) {
    case NC_FIT_READY:
        return "NothingMissing";
    case NC_FIT_TIMED_OUT:
        return "TimedOut";
    case NC_FIT_NOT_REPORTED:
        return "NodeNotReported";
    case NC_FIT_UNKNOWN:
        return "NotReadable";
    case NC_FIT_DRAINING:
        return "Draining";
    case NC_FIT_MISSING:
    case _NC_FIT_REASON_MAX:
        break;
    }
    return kinds[r - NC_FIT_MISSING].reason;
}

/* --- what is observed */

static const struct nc_value *find_condition(const struct nc_value *object, const char *type) {
    return nc_value_find(nc_value_path(object, "status.conditions"), "type", type);
}

/* Times are whole seconds, cut: in the second in which the boot began, nobody can tell whether what
 * is dated is older. Kubelet makes nothing ready in its first second. */
static bool is_of_boot(const struct nc_value *condition, const char *key,
                       const struct nc_fit_boot *boot) {
    const char *text = nc_value_get_string(condition, key);
    uint64_t usec;

    return text && nc_time_parse(text, &usec) == 0 && usec >= boot->began_usec;
}

static void free_pod(struct nc_fit_pod *p) {
    free(p->uid);
    free(p->name);
    free(p->daemon_set);
}

void nc_fit_forget_pods(struct nc_fit_seen *s) {
    for (size_t i = 0; i < s->n_pods; i++)
        free_pod(&s->pods[i]);
    free(s->pods);
    s->pods = NULL;
    s->n_pods = 0;
    s->has_pods = false;
    s->newest_usec = 0;
}

void nc_fit_seen_done(struct nc_fit_seen *s) {
    nc_fit_forget_pods(s);
    for (size_t i = 0; i < _NC_FIT_KIND_MAX; i++)
        nc_strv_done(&s->there[i]);
    *s = (struct nc_fit_seen){0};
}

/* "namespace/name" of the DaemonSet of a pod; owned. The API server takes any text as the name of
 * an owner. */
static char *daemon_set_of(const struct nc_value *metadata) {
    const struct nc_value *owner =
        nc_value_find(nc_value_get(metadata, "ownerReferences"), "kind", "DaemonSet");
    const char *namespace = nc_value_get_string(metadata, "namespace");
    const char *name = nc_value_get_string(owner, "name");

    return namespace && nc_is_alnum_or(name, ".-", NAME_MAX_BYTES)
               ? nc_asprintf("%s/%s", namespace, name)
               : NULL;
}

static struct nc_fit_pod *find_pod(struct nc_fit_seen *s, const char *uid) {
    for (size_t i = 0; i < s->n_pods; i++)
        if (nc_streq(s->pods[i].uid, uid))
            return &s->pods[i];
    return NULL;
}

void nc_fit_pod_gone(struct nc_fit_seen *s, const char *uid) {
    struct nc_fit_pod *p = find_pod(s, uid);

    if (!p)
        return;
    free_pod(p);
    *p = s->pods[--s->n_pods];
}

/* One that is being deleted is waited for no longer, and counts for nothing: another one follows,
 * or its DaemonSet is gone. */
void nc_fit_see_pod(struct nc_fit_seen *s, const struct nc_fit_settings *settings,
                    const struct nc_value *pod, const struct nc_fit_boot *boot, uint64_t now_usec) {
    const struct nc_value *metadata = nc_value_get(pod, "metadata");
    const struct nc_value *ready = find_condition(pod, "Ready");
    const struct nc_strv *wanted = &settings->wanted[NC_FIT_DAEMON_SETS];
    const char *uid = nc_value_get_string(metadata, "uid");
    nc_auto_free char *daemon_set = daemon_set_of(metadata);
    struct nc_fit_pod *p = uid ? find_pod(s, uid) : NULL;

    if (!uid || !daemon_set
        || !(nc_strv_contains(wanted, NC_FIT_ALL) || nc_strv_contains(wanted, daemon_set)))
        return;
    if (nc_value_get(metadata, "deletionTimestamp")) {
        nc_fit_pod_gone(s, uid);
        return;
    }
    if (!p && s->n_pods >= NC_FIT_MAX_PODS)
        return;
    if (!p) {
        p = nc_append(&s->pods, &s->n_pods);
        p->uid = nc_strdup(uid);
        p->name = nc_strdup(nc_value_get_string(metadata, "name"));
        p->daemon_set = nc_steal(&daemon_set);
        s->newest_usec = now_usec;
    }
    p->is_ready =
        nc_value_says(ready, "status", "True") && is_of_boot(ready, "lastTransitionTime", boot);
}

static bool is_positive(const struct nc_value *v) {
    int64_t milli = 0, value = 0;
    const int r = v ? nc_quantity_of(v, &milli, &value) : -EINVAL;

    return r == 0 ? milli > 0 : r == -ERANGE;
}

void nc_fit_see_node(struct nc_fit_seen *s, const struct nc_fit_settings *settings,
                     const struct nc_value *node, const struct nc_fit_boot *boot) {
    const struct nc_value *allocatable = nc_value_path(node, "status.allocatable");
    const struct nc_strv *resources = &settings->wanted[NC_FIT_RESOURCES];
    const struct nc_strv *conditions = &settings->wanted[NC_FIT_CONDITIONS];

    s->is_reported =
        boot->id && nc_streq(nc_value_path_string(node, "status.nodeInfo.bootID"), boot->id);
    nc_strv_done(&s->there[NC_FIT_RESOURCES]);
    nc_strv_done(&s->there[NC_FIT_CONDITIONS]);
    s->there[NC_FIT_RESOURCES] = s->there[NC_FIT_CONDITIONS] = (struct nc_strv)NC_STRV_INIT;
    for (size_t i = 0; i < resources->n; i++)
        if (is_positive(nc_value_get(allocatable, resources->v[i])))
            nc_strv_add(&s->there[NC_FIT_RESOURCES], resources->v[i]);
    for (size_t i = 0; i < conditions->n; i++) {
        const struct nc_value *c = find_condition(node, conditions->v[i]);
        if (nc_value_says(c, "status", "True")
            && (is_of_boot(c, "lastTransitionTime", boot)
                || is_of_boot(c, "lastHeartbeatTime", boot)))
            nc_strv_add(&s->there[NC_FIT_CONDITIONS], conditions->v[i]);
    }
}

void nc_fit_see_csi(struct nc_fit_seen *s, const struct nc_value *csi_node) {
    const struct nc_value *drivers = nc_value_path(csi_node, "spec.drivers"), *driver;

    s->has_csi = true;
    nc_strv_done(&s->there[NC_FIT_CSI_DRIVERS]);
    s->there[NC_FIT_CSI_DRIVERS] = (struct nc_strv)NC_STRV_INIT;
    for (size_t i = 0; (driver = nc_value_item(drivers, i)); i++)
        if (nc_value_get_string(driver, "name"))
            nc_strv_add_once(&s->there[NC_FIT_CSI_DRIVERS], nc_value_get_string(driver, "name"));
}

/* --- the verdict */

/* Finds what is missing, and says it. */
struct judging {
    const struct nc_fit_settings *settings;
    const struct nc_fit_seen *seen;
    struct nc_fit_verdict *v;
    struct nc_buf text;
    enum nc_fit_kind kind; /* of the last that is missing */
    bool is_unknown;
};

static void add_missing(struct judging *j, enum nc_fit_kind kind, const char *name,
                        const char *why) {
    struct nc_strv *missing = &j->v->missing;
    const size_t n = missing->n;
    const bool is_first = n == 0 || j->kind != kind;

    nc_strv_add_once(missing, name);
    if (missing->n == n)
        return;
    if (n == 0)
        j->v->reason = (enum nc_fit_reason)(NC_FIT_MISSING + kind);
    j->kind = kind;
    if (n == MESSAGE_NAMES)
        (void)nc_buf_puts(&j->text, " and more");
    if (n < MESSAGE_NAMES)
        (void)nc_buf_printf(&j->text, "%s%s%s%s%s",
                            n == 0     ? ""
                            : is_first ? "; "
                                       : ", ",
                            is_first ? kinds[kind].words : "", is_first ? " " : "", name, why);
}

/* The pod that tells most of a DaemonSet: a ready one, else any. */
static const struct nc_fit_pod *pod_of(const struct nc_fit_seen *s, const char *daemon_set) {
    const struct nc_fit_pod *found = NULL;

    for (size_t i = 0; i < s->n_pods; i++)
        if (nc_streq(s->pods[i].daemon_set, daemon_set) && (!found || s->pods[i].is_ready))
            found = &s->pods[i];
    return found;
}

static void check_daemon_set(struct judging *j, const char *name) {
    const struct nc_fit_pod *pod = pod_of(j->seen, name);
    nc_auto_free char *why = pod ? nc_asprintf(" (pod %s is not ready)", pod->name)
                                 : nc_strdup(" (no pod of it is bound to this node)");

    if (!pod || !pod->is_ready)
        add_missing(j, NC_FIT_DAEMON_SETS, name, why);
}

static void check_daemon_sets(struct judging *j) {
    const struct nc_strv *wanted = &j->settings->wanted[NC_FIT_DAEMON_SETS];

    if (wanted->n == 0)
        return;
    if (!j->seen->has_pods || j->seen->n_pods >= NC_FIT_MAX_PODS) {
        j->is_unknown = true;
        return;
    }
    for (size_t i = 0; i < wanted->n; i++)
        if (!nc_streq(wanted->v[i], NC_FIT_ALL))
            check_daemon_set(j, wanted->v[i]);
    if (!nc_strv_contains(wanted, NC_FIT_ALL))
        return;
    for (size_t i = 0; i < j->seen->n_pods; i++)
        check_daemon_set(j, j->seen->pods[i].daemon_set);
}

static void check_names(struct judging *j, enum nc_fit_kind kind) {
    const struct nc_strv *wanted = &j->settings->wanted[kind];

    if (kind == NC_FIT_CSI_DRIVERS && wanted->n > 0 && !j->seen->has_csi) {
        j->is_unknown = true;
        return;
    }
    for (size_t i = 0; i < wanted->n; i++)
        if (!nc_strv_contains(&j->seen->there[kind], wanted->v[i]))
            add_missing(j, kind, wanted->v[i], "");
}

/* With NC_FIT_ALL: until when another DaemonSet may come; 0 = no longer. */
static uint64_t quiet_until(const struct nc_fit_settings *settings, const struct nc_fit_seen *s,
                            const struct nc_fit_moment *m) {
    const uint64_t until =
        (s->newest_usec > m->since_usec ? s->newest_usec : m->since_usec) + NC_FIT_QUIET_USEC;

    return nc_strv_contains(&settings->wanted[NC_FIT_DAEMON_SETS], NC_FIT_ALL)
                   && m->now_usec < until
               ? until
               : 0;
}

/* What is missing, or not known, without regard to time. */
static void check_all(struct judging *j, const struct nc_fit_moment *m) {
    struct nc_fit_verdict *v = j->v;
    const uint64_t quiet_usec = quiet_until(j->settings, j->seen, m);
    char text[32];

    check_daemon_sets(j);
    for (enum nc_fit_kind k = NC_FIT_CSI_DRIVERS; k < _NC_FIT_KIND_MAX; k++)
        check_names(j, k);
    if (v->missing.n > 0) {
        v->message = nc_asprintf("waiting for %s", j->text.data);
    } else if (j->is_unknown) {
        v->reason = NC_FIT_UNKNOWN;
        v->message = nc_strdup("waiting for the pods of this node, or its CSINode, to be readable");
    } else if (quiet_usec > 0) {
        v->reason = (enum nc_fit_reason)(NC_FIT_MISSING + NC_FIT_DAEMON_SETS);
        v->next_usec = quiet_usec;
        v->message = nc_strdup("waiting whether the pod of another DaemonSet comes");
    } else {
        const uint64_t took_usec = m->now_usec - m->since_usec;
        nc_duration_format(took_usec - took_usec % SECOND, text);
        v->is_fit = true;
        v->message = nc_asprintf("everything that pods need is there after %s", text);
    }
}

/* A node that kubelet has not reported in this boot is not fit whatever the time: it would
 * be the word of another boot. */
static void check_time(const struct nc_fit_settings *settings, const struct nc_fit_moment *m,
                       struct nc_fit_verdict *v) {
    const uint64_t until_usec = m->since_usec + settings->timeout_usec;
    char text[32];

    if (v->is_fit || settings->timeout_usec == 0)
        return;
    if (m->now_usec < until_usec) {
        if (until_usec < v->next_usec)
            v->next_usec = until_usec;
        return;
    }
    nc_auto_free char *before = nc_steal(&v->message);
    nc_duration_format(settings->timeout_usec, text);
    v->is_late = true;
    v->message = nc_asprintf("%s after %s; %s", before, text,
                             settings->holds ? "the gate stays shut until that is there"
                                             : "the gate opens without");
    if (v->reason == NC_FIT_NOT_REPORTED)
        return;
    v->reason = NC_FIT_TIMED_OUT;
    v->is_fit = !settings->holds;
}

void nc_fit_judge(const struct nc_fit_settings *settings, const struct nc_fit_seen *s,
                  const struct nc_fit_moment *m, struct nc_fit_verdict *ret) {
    struct judging j = {.settings = settings, .seen = s, .v = ret};

    *ret = (struct nc_fit_verdict){.next_usec = UINT64_MAX};
    if (m->is_draining) {
        ret->reason = NC_FIT_DRAINING;
        ret->message = nc_strdup("the node is being drained; the gate stays as it is");
        return;
    }
    if (s->is_reported) {
        check_all(&j, m);
    } else {
        ret->reason = NC_FIT_NOT_REPORTED;
        ret->message = nc_strdup("waiting for kubelet to report the Node of this boot");
    }
    nc_buf_done(&j.text);
    check_time(settings, m, ret);
}

void nc_fit_verdict_done(struct nc_fit_verdict *v) {
    nc_strv_done(&v->missing);
    free(v->message);
    *v = (struct nc_fit_verdict){0};
}

/* --- the annotation */

void nc_fit_set_times(struct nc_value *map, const struct nc_fit_settings *settings,
                      const struct nc_fit_moment *m) {
    nc_value_set_time(map, "since", m->since_usec);
    if (settings->timeout_usec > 0 && !m->is_draining)
        nc_value_set_time(map, "until", m->since_usec + settings->timeout_usec);
    nc_value_set_string(map, "then", settings->holds ? "hold" : "open");
}

char *nc_fit_annotation(const struct nc_fit_settings *settings, const struct nc_fit_verdict *v,
                        const char *boot_id, const struct nc_fit_moment *m) {
    nc_auto_value struct nc_value *map = nc_value_new_map();
    const size_t n = v->missing.n < ANNOTATION_NAMES ? v->missing.n : ANNOTATION_NAMES;

    nc_value_set_string(map, "boot", boot_id);
    nc_value_set_bool(map, "fit", v->is_fit);
    nc_value_set_string(map, "reason", nc_fit_reason_name(v->reason));
    nc_value_set(map, "missing", nc_value_new_strings(v->missing.v, n));
    nc_fit_set_times(map, settings, m);
    return nc_json_text(map);
}

bool nc_fit_annotation_says(const char *text, const char *boot_id, bool is_fit) {
    nc_auto_value struct nc_value *map = NULL;

    if (!text || nc_json_parse(text, strlen(text), &map, NULL) < 0)
        return false;
    return nc_value_says(map, "boot", boot_id)
           && nc_value_bool(nc_value_get(map, "fit"), !is_fit) == is_fit;
}
