/*
 * Leadership on the loop: what nc/lease.h wants asked is asked, and when it begins or ends is told.
 *
 * All decisions are the pure half's. This one knows requests, the clock and one timer; it makes
 * sure that the end of leadership is told when its deadline has passed, whether anything was
 * observed or not, and that a clean stop gives the Lease up instead of letting it run out.
 */
#include <errno.h>
#include <string.h>

#include "nc/clock.h"
#include "nc/kube-control.h"
#include "nc/str.h"

#include "wire.h"

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/%s/leases"
#define MAX_LEASE_BYTES ((size_t)256 << 10)
#define TIMER_ACCURACY_USEC 5000u
#define RELEASE_TRIES 2 /* a renewal that was in flight may have changed the version */

struct nc_leader {
    struct nc_kube *kube;
    char *namespace, *name, *identity;
    char *collection, *path;
    struct nc_lease lease;
    void (*changed)(void *userdata, bool leads);
    void (*answered)(void *userdata, bool is_write, const struct nc_err *err);
    void *userdata;

    sd_event_source *timer;
    struct nc_kube_req *req;
    bool is_leading; /* as last told */

    /* A clean stop. */
    bool is_released;
    unsigned release_tries;
    uint64_t release_until_usec;
    void (*released)(void *userdata);
    void *released_userdata;
};

static void turn(struct nc_leader *l);

bool nc_leader_leads(const struct nc_leader *l) {
    return !l->is_released && nc_lease_leads(&l->lease, nc_mono_usec());
}

const char *nc_leader_holder(const struct nc_leader *l) {
    return l->lease.holder;
}

static void report_leading(struct nc_leader *l) {
    const bool leads = nc_leader_leads(l);

    if (leads == l->is_leading)
        return;
    l->is_leading = leads;
    l->changed(l->userdata, leads);
}

static void wake_at(struct nc_leader *l, uint64_t mono_usec) {
    (void)sd_event_source_set_time(l->timer, mono_usec);
    (void)sd_event_source_set_enabled(l->timer,
                                      mono_usec == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static void on_answer(void *userdata, const struct nc_value *object,
                      const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_leader *l = userdata;
    const enum nc_lease_verb requested = l->lease.requested;
    const bool is_good = (err->class == NC_ERR_NONE && object)
                         || (status->http == 404 && requested != NC_LEASE_CREATE);
    struct nc_err own = NC_ERR_INIT;

    l->req = NULL;
    if (err->class == NC_ERR_NONE && !object)
        nc_kube_bare("lease", status, &own);
    else if (!is_good)
        own = *err;
    nc_lease_answer(&l->lease, requested, object, status->http, nc_mono_usec());
    if (status->http != 409 && l->answered)
        l->answered(l->userdata, requested != NC_LEASE_GET, &own);
    turn(l);
}

static uint64_t release_time_left(const struct nc_leader *l) {
    const uint64_t now = nc_mono_usec();

    return now < l->release_until_usec ? l->release_until_usec - now : 0;
}

static int start(struct nc_leader *l, enum nc_lease_verb verb, bool release, nc_kube_done_fn done,
                 struct nc_err *err) {
    const bool is_read = verb == NC_LEASE_GET;
    const bool is_new = verb == NC_LEASE_CREATE;
    nc_auto_value struct nc_value *body =
        is_read ? NULL : nc_lease_body(&l->lease, l->namespace, l->name, release, nc_now_usec());
    const struct nc_kube_call call = {.what = is_read   ? "get lease"
                                              : is_new  ? "create lease"
                                              : release ? "release lease"
                                                        : "renew lease",
                                      .method = is_read  ? "GET"
                                                : is_new ? "POST"
                                                         : "PUT",
                                      .path = is_new ? l->collection : l->path,
                                      .body = body,
                                      .timeout_usec = release ? release_time_left(l)
                                                              : l->lease.rules.renew_usec
                                                                    / 2 /* two attempts */,
                                      .max_bytes = MAX_LEASE_BYTES,
                                      .done = done,
                                      .userdata = l};

    return nc_kube_start(l->kube, &call, &l->req, err);
}

/* ---- a clean stop */

static void end_release(struct nc_leader *l) {
    void (*released)(void *userdata) = nc_steal(&l->released);

    l->req = nc_kube_cancel(l->req);
    wake_at(l, UINT64_MAX);
    if (released)
        released(l->released_userdata);
}

static void start_release(struct nc_leader *l, bool reads_first);

static void on_release_read(void *userdata, const struct nc_value *object,
                            const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_leader *l = userdata;

    l->req = NULL;
    nc_lease_answer(&l->lease, NC_LEASE_GET, object, status->http, nc_mono_usec());
    if (object && l->lease.exists && nc_streq(l->lease.holder, l->identity))
        start_release(l, false);
    else
        end_release(l);
}

static void on_release(void *userdata, const struct nc_value *object,
                       const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_leader *l = userdata;

    l->req = NULL;
    if (status->http == 409 && ++l->release_tries < RELEASE_TRIES)
        start_release(l, true);
    else
        end_release(l);
}

static void start_release(struct nc_leader *l, bool reads_first) {
    int r = -ETIMEDOUT;

    if (reads_first)
        l->lease.requested = NC_LEASE_GET;
    if (release_time_left(l) > 0)
        r = start(l, reads_first ? NC_LEASE_GET : NC_LEASE_UPDATE, true,
                  reads_first ? on_release_read : on_release, NULL);
    if (r < 0)
        end_release(l);
}

/* The first step of it, from the loop. */
static void begin_release(struct nc_leader *l) {
    const bool was_requesting =
        l->lease.requested == NC_LEASE_CREATE || l->lease.requested == NC_LEASE_UPDATE;

    wake_at(l, l->release_until_usec);
    if (was_requesting)
        start_release(l, true);
    else if (l->lease.exists && nc_streq(l->lease.holder, l->identity))
        start_release(l, false);
    else
        end_release(l);
}

void nc_leader_release(struct nc_leader *l, uint64_t timeout_usec, void (*done)(void *userdata),
                       void *userdata) {
    l->is_released = true;
    l->released = done;
    l->released_userdata = userdata;
    l->release_until_usec = nc_mono_usec() + timeout_usec;
    l->req = nc_kube_cancel(l->req);
    report_leading(l);
    wake_at(l, 0);
}

/* ---- the turn */

static void start_lease_request(struct nc_leader *l, enum nc_lease_verb verb) {
    struct nc_err err = NC_ERR_INIT;

    if (start(l, verb, false, on_answer, &err) == 0)
        return;
    nc_lease_answer(&l->lease, verb, NULL, 0, nc_mono_usec());
    if (l->answered)
        l->answered(l->userdata, verb != NC_LEASE_GET, &err);
}

/* Comes again when there is something to ask, or when what we have has run out. */
static void turn(struct nc_leader *l) {
    enum nc_lease_verb verb;
    uint64_t next;

    if (l->is_released)
        return;
    verb = nc_lease_next(&l->lease, nc_mono_usec());
    report_leading(l);
    if (l->is_released)
        return;
    if (verb != NC_LEASE_WAIT)
        start_lease_request(l, verb);
    if (l->is_released)
        return;
    next = l->req ? UINT64_MAX : l->lease.next_usec;
    if (l->is_leading && nc_lease_until(&l->lease) < next)
        next = nc_lease_until(&l->lease);
    wake_at(l, next);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_leader *l = userdata;

    if (!l->is_released)
        turn(l);
    else if (l->req || nc_mono_usec() >= l->release_until_usec)
        end_release(l);
    else
        begin_release(l);
    return 0;
}

static void set_rules(struct nc_leader *l, const struct nc_lease_rules *from) {
    struct nc_lease_rules r = *from;

    r.identity = l->identity;
    r.duration_usec = r.duration_usec ? r.duration_usec : NC_LEASE_DURATION_USEC;
    r.renew_usec = r.renew_usec ? r.renew_usec : NC_LEASE_RENEW_USEC;
    r.retry_usec = r.retry_usec ? r.retry_usec : NC_LEASE_RETRY_USEC;
    nc_lease_init(&l->lease, &r);
}

int nc_leader_new(struct nc_kube *k, sd_event *event, const struct nc_leader_options *o,
                  struct nc_leader **ret, struct nc_err *err) {
    struct nc_leader *l = nc_calloc(1, sizeof(*l));
    nc_auto_free char *namespace = nc_kube_escape(o->namespace);
    nc_auto_free char *name = nc_kube_escape(o->name);
    int r;

    l->kube = k;
    l->namespace = nc_strdup(o->namespace);
    l->name = nc_strdup(o->name);
    l->identity = nc_strdup(o->rules.identity);
    l->collection = nc_asprintf(LEASES, namespace);
    l->path = nc_asprintf("%s/%s", l->collection, name);
    l->changed = o->changed;
    l->answered = o->answered;
    l->userdata = o->userdata;
    set_rules(l, &o->rules);
    r = sd_event_add_time(event, &l->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_USEC, on_timer, l);
    if (r < 0) {
        nc_leader_free(l);
        return nc_err_host(err, r, "leadership: event loop");
    }
    *ret = l;
    return 0;
}

struct nc_leader *nc_leader_free(struct nc_leader *l) {
    if (!l)
        return NULL;
    nc_kube_cancel(l->req);
    sd_event_source_disable_unref(l->timer);
    free(l->namespace);
    free(l->name);
    free(l->identity);
    free(l->collection);
    free(l->path);
    free(l);
    return NULL;
}
