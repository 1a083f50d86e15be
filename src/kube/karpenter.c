/*
 * Who else is there, and what is served: one scan after the other.
 *
 * A scan asks one question at a time: the Lease that Karpenter's replicas compete for, by its name
 * in each namespace that Karpenter may be in, then which versions of its kinds the API server has.
 * No other namespace is checked: whoever may write Leases in one of his own says nothing about the
 * cluster. What a question that failed would have said stays as it was; only "not found" takes
 * something away.
 */
#include <errno.h>
#include <string.h>

#include "nc/clock.h"
#include "nc/kube-control.h"
#include "nc/str.h"

#include "karpenter.h"
#include "wire.h"

#define LEASE_FORMAT                                                                               \
    "/apis/coordination.k8s.io/v1/namespaces/%s/leases/" NC_KARPENTER_LEASE "?resourceVersion=0"
#define TIMEOUT_USEC 10000000u
#define MAX_BYTES ((size_t)2 << 20) /* more than an object can have in etcd */
#define TIMER_ACCURACY_USEC 50000u
#define SOON 6 /* what is not known yet is asked for so much earlier */

enum part { CLAIMS = 0, POOLS, CLASSES, _PART_MAX };

/* In this order; a later row is asked only where no earlier one of its kinds was found. */
static const struct version {
    const char *group_version;
    const char *resource[_PART_MAX];
    enum part what;
} versions[] = {
    {"karpenter.sh/v1", {"nodeclaims", "nodepools", NULL}, CLAIMS},
    {"karpenter.sh/v1beta1", {"nodeclaims", "nodepools", NULL}, CLAIMS},
    {"karpenter.k8s.aws/v1", {NULL, NULL, "ec2nodeclasses"}, CLASSES},
    {"karpenter.k8s.aws/v1beta1", {NULL, NULL, "ec2nodeclasses"}, CLASSES},
    {"eks.amazonaws.com/v1", {NULL, NULL, "nodeclasses"}, CLASSES},
};

struct nc_karpenter {
    struct nc_kube *kube;
    char *namespaces[NC_KARPENTER_NAMESPACES_MAX];
    size_t n_namespaces;
    uint64_t scan_usec;
    void (*changed)(void *userdata, const struct nc_karpenter_found *f);
    void (*failed)(void *userdata, const struct nc_err *err);
    void (*well)(void *userdata);
    void *userdata;
    sd_event_source *timer;
    struct nc_kube_req *req;

    /* The scan in flight. */
    size_t at;               /* namespaces[at], then versions[at - n_namespaces] */
    struct nc_value *leases; /* {"items": those that are there} */
    char *path[_PART_MAX];
    bool is_unsure[_PART_MAX]; /* a question about it failed */
    bool is_unsure_of_leases;
    bool was_answered, has_failed;

    /* What is known. */
    struct nc_karpenter_seen seen;
    enum nc_control_mode mode;
    char *known[_PART_MAX];
    bool knows_claims; /* whether they are served has been answered once */
    char *reported;    /* all of it, as last told */
};

static void request_leases(struct nc_karpenter *p);

/* The row that is being asked about; NULL while it is a Lease. */
static const struct version *row(const struct nc_karpenter *p) {
    return p->at < p->n_namespaces ? NULL : &versions[p->at - p->n_namespaces];
}

static void report_found(struct nc_karpenter *p) {
    const struct nc_karpenter_found f = {.mode = p->mode,
                                         .holder = p->seen.holder,
                                         .claims_path = p->known[CLAIMS],
                                         .pools_path = p->known[POOLS],
                                         .classes_path = p->known[CLASSES]};
    char *now =
        nc_asprintf("%d|%s|%s|%s|%s", (int)f.mode, f.holder, f.claims_path ? f.claims_path : "",
                    f.pools_path ? f.pools_path : "", f.classes_path ? f.classes_path : "");
    const bool is_new = !nc_streq(now, p->reported);

    free(p->reported);
    p->reported = now;
    if (is_new)
        p->changed(p->userdata, &f);
}

static void end_scan(struct nc_karpenter *p) {
    bool is_complete = !p->has_failed && p->mode != NC_CONTROL_MODE_UNKNOWN;

    for (size_t i = 0; i < _PART_MAX; i++) {
        if (!p->is_unsure[i] || p->path[i]) {
            free(p->known[i]);
            p->known[i] = nc_steal(&p->path[i]);
        }
        is_complete = is_complete && !p->is_unsure[i];
    }
    (void)sd_event_source_set_time_relative(p->timer,
                                            is_complete ? p->scan_usec : p->scan_usec / SOON);
    (void)sd_event_source_set_enabled(p->timer, SD_EVENT_ONESHOT);
    if (!p->has_failed && p->well)
        p->well(p->userdata);
    p->knows_claims = p->knows_claims || !p->is_unsure[CLAIMS];
    if (p->was_answered && p->knows_claims)
        report_found(p);
}

static void apply_version(struct nc_karpenter *p, const struct version *v,
                          const struct nc_value *list) {
    for (size_t i = 0; i < _PART_MAX; i++)
        if (v->resource[i] && nc_karpenter_serves(list, v->resource[i]) && !p->path[i])
            p->path[i] = nc_asprintf("/apis/%s/%s", v->group_version, v->resource[i]);
}

/* A version that may be there and could not be asked about: an older one is no answer. */
static void apply_failure(struct nc_karpenter *p, const struct nc_err *err) {
    p->has_failed = true;
    p->is_unsure_of_leases = p->is_unsure_of_leases || !row(p);
    for (size_t i = 0; row(p) && i < _PART_MAX; i++)
        if (row(p)->resource[i] && !p->path[i])
            p->is_unsure[i] = true;
    if (p->failed)
        p->failed(p->userdata, err);
}

static void on_answer(void *userdata, const struct nc_value *object,
                      const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_karpenter *p = userdata;
    const bool is_good = err->class == NC_ERR_NONE && object;
    const bool is_absent = status->http == 404;
    struct nc_err bare = NC_ERR_INIT;

    p->req = NULL;
    p->was_answered = p->was_answered || is_good || is_absent;
    if (!is_good && !is_absent && err->class == NC_ERR_NONE) {
        nc_kube_bare("find Karpenter", status, &bare);
        apply_failure(p, &bare);
    } else if (!is_good && !is_absent)
        apply_failure(p, err);
    else if (is_good && !row(p))
        nc_value_push(nc_value_get(p->leases, "items"), nc_value_copy(object));
    else if (is_good)
        apply_version(p, row(p), object);
    p->at++;
    if (p->at == p->n_namespaces && !p->is_unsure_of_leases)
        p->mode = nc_karpenter_judge(&p->seen, p->leases, nc_now_usec(), nc_mono_usec());
    request_leases(p);
}

/* Is the row still of interest? */
static bool is_wanted(const struct nc_karpenter *p, const struct version *v) {
    return !p->path[v->what] && !p->is_unsure[v->what];
}

/* The next question of the scan, or its end. */
static void request_leases(struct nc_karpenter *p) {
    nc_auto_free char *path = NULL;
    struct nc_kube_call call = {.method = "GET",
                                .timeout_usec = TIMEOUT_USEC,
                                .max_bytes = MAX_BYTES,
                                .done = on_answer,
                                .userdata = p};
    struct nc_err err = NC_ERR_INIT;

    const size_t end = p->n_namespaces + NC_ARRAY_SIZE(versions);
    while (p->at >= p->n_namespaces && p->at < end && !is_wanted(p, row(p)))
        p->at++;
    if (p->at >= end) {
        end_scan(p);
        return;
    }
    path = row(p) ? nc_asprintf("/apis/%s", row(p)->group_version)
                  : nc_asprintf(LEASE_FORMAT, p->namespaces[p->at]);
    call.what = row(p) ? "find Karpenter's kinds" : "find Karpenter";
    call.path = path;
    if (nc_kube_start(p->kube, &call, &p->req, &err) == 0)
        return;
    for (size_t i = 0; i < _PART_MAX; i++) /* nothing can be asked now */
        p->is_unsure[i] = !p->path[i];
    apply_failure(p, &err);
    end_scan(p);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_karpenter *p = userdata;

    p->at = 0;
    p->was_answered = p->has_failed = p->is_unsure_of_leases = false;
    nc_value_free(p->leases);
    p->leases = nc_value_new_map();
    nc_value_set(p->leases, "items", nc_value_new_list());
    memset(p->is_unsure, 0, sizeof(p->is_unsure));
    for (size_t i = 0; i < _PART_MAX; i++)
        free(nc_steal(&p->path[i]));
    request_leases(p);
    return 0;
}

static void set_namespaces(struct nc_karpenter *p, const char *const *names) {
    static const char *const usual[] = {NC_KARPENTER_NAMESPACES, NULL};

    for (const char *const *n = names && *names ? names : usual;
         *n && p->n_namespaces < NC_KARPENTER_NAMESPACES_MAX; n++)
        p->namespaces[p->n_namespaces++] = nc_strdup(*n);
}

int nc_karpenter_scan(struct nc_kube *k, sd_event *event, const struct nc_karpenter_options *o,
                      struct nc_karpenter **ret, struct nc_err *err) {
    struct nc_karpenter *p = nc_calloc(1, sizeof(*p));
    int r;

    p->kube = k;
    set_namespaces(p, o->namespaces);
    p->scan_usec = o->scan_usec ? o->scan_usec : NC_KARPENTER_SCAN_USEC;
    p->changed = o->changed;
    p->failed = o->failed;
    p->well = o->well;
    p->userdata = o->userdata;
    r = sd_event_add_time_relative(event, &p->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_USEC,
                                   on_timer, p);
    if (r < 0) {
        nc_karpenter_free(p);
        return nc_err_host(err, r, "find Karpenter: event loop");
    }
    *ret = p;
    return 0;
}

struct nc_karpenter *nc_karpenter_free(struct nc_karpenter *p) {
    if (!p)
        return NULL;
    nc_kube_cancel(p->req);
    sd_event_source_disable_unref(p->timer);
    for (size_t i = 0; i < _PART_MAX; i++) {
        free(p->path[i]);
        free(p->known[i]);
    }
    for (size_t i = 0; i < p->n_namespaces; i++)
        free(p->namespaces[i]);
    nc_value_free(p->leases);
    free(p->reported);
    free(p);
    return NULL;
}
