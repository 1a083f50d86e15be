/*
 * What EC2 announces through IMDS: four questions, each at its own pace, and what becomes of the
 * answers.
 *
 * An answer that can be read is a NOTICE or a CLEARED. Everything else (a refusal, an error page, a
 * silent service) is counted, said once, and asked again after a pause; it is never taken for "no
 * news". What was announced is CLEARED once a second answer confirms that, and where that is a 404,
 * only by a service that knows this instance: a broken proxy finds nothing. One question at a time
 * uses the one connection that is kept alive, but the spot notice never waits for another question.
 */
#include "daemon.h"

#include <errno.h>
#include <string.h>

#include "log.h"
#include "nc/backoff.h"
#include "nc/clock.h"
#include "nc/mem.h"

#define SECOND 1000000ull
#define CONFIRM_USEC (2 * SECOND) /* after the first answer that a notice is gone */
#define TIMER_ACCURACY_USEC 1000u
#define URGENT_LIMITS 3u /* 2, 4, 8 s, and again */
#define ID_PATH "/latest/meta-data/instance-id"
#define ID_MAX_BYTES 64

struct poll {
    const struct nc_source_info *kind;
    enum nc_source source;
    struct nc_notice_poller *all;
    uint64_t due_usec; /* CLOCK_MONOTONIC: to be asked; UINT64_MAX = not by the clock */
    bool is_off;
    bool is_on_grid; /* it was asked before */
    bool is_in_flight;
    bool is_postponed;     /* due, but another one is in flight */
    bool is_answered;      /* there was an answer that could be read */
    bool is_quiet;         /* the last one was a CLEARED, and was posted */
    bool is_absent;        /* the last one was a 404 */
    uint64_t gone_usec;    /* CLOCK_MONOTONIC: since when the answers withdraw a notice; 0 = none */
    uint64_t begins_usec;  /* when a notice that is announced is acted on; 0 = none is */
    uint64_t started_usec; /* CLOCK_MONOTONIC */
    uint64_t failing_usec; /* CLOCK_MONOTONIC: since when */
    unsigned failures;     /* in a row */
    struct nc_err error;   /* class NONE while it is well */
};

struct nc_notice_poller {
    struct nc_daemon *d;
    uint64_t seed;
    sd_event_source *timer;
    struct poll polls[_NC_SOURCE_MAX]; /* the most severe first */
    size_t n_polls;
    /* Whether this is a spot instance, where bootstrap's facts do not say. */
    uint64_t option_due_usec;
    unsigned option_failures;
};

static const struct nc_backoff soon = {SECOND, 5 * SECOND}, later = {SECOND, 30 * SECOND};

static void on_answer(void *userdata, const struct nc_imds_answer *a);
static void set_timer(struct nc_notice_poller *all);

/* --- when */

/* It waits for no other one. */
static bool is_urgent(const struct poll *p) {
    return p->kind->every_usec <= NC_POLL_URGENT_USEC;
}

/* The next time on a grid of its own for each instance, which all polls share. */
static uint64_t next_on_grid(uint64_t now_usec, uint64_t every_usec, uint64_t seed) {
    const uint64_t offset = seed % every_usec;
    const uint64_t into = (now_usec + every_usec - offset) % every_usec;

    return now_usec + every_usec - into;
}

/* What is acted on may be taken back by the minute. */
static uint64_t period(const struct poll *p) {
    if (p->begins_usec && p->begins_usec <= nc_daemon_now(p->all->d)
        && p->kind->every_usec > NC_POLL_OFTEN_USEC)
        return NC_POLL_OFTEN_USEC;
    return p->is_absent && p->kind->absent_usec ? p->kind->absent_usec : p->kind->every_usec;
}

static void arm(struct poll *p) {
    const uint64_t now = nc_mono_usec();
    uint64_t at;

    if (p->failures > 0 && is_urgent(p) && now >= p->started_usec + SECOND)
        at = now; /* the wait for an answer was the pause */
    else if (p->failures > 0)
        at = now + nc_backoff_pause(is_urgent(p) ? &soon : &later, p->failures, p->all->seed);
    else
        at = next_on_grid(p->started_usec, period(p), p->all->seed);
    /* The first ones are asked at once, one after the other: the next must not fall into that. */
    if (p->failures == 0 && !p->is_on_grid && at < p->started_usec + period(p) / 2)
        at += period(p);
    if (p->failures == 0 && p->gone_usec && at > p->gone_usec + CONFIRM_USEC)
        at = p->gone_usec + CONFIRM_USEC;
    p->is_on_grid = true;
    p->due_usec = p->is_off ? UINT64_MAX : at > now ? at : now + 1;
}

/* --- what came */

static void fail_poll(struct poll *p, const struct nc_err *err) {
    struct nc_daemon *d = p->all->d;

    d->counters.imds_errors[err->class]++;
    if (p->error.class != err->class || p->error.code != err->code) {
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.error_class = nc_err_class_name(err->class)},
               "%s; %s notices may be missed meanwhile%s%s", err->msg, nc_source_name(p->source),
               *err->remedy ? "; " : "", err->remedy);
        d->is_status_due = true;
    }
    if (p->failures++ == 0)
        p->failing_usec = nc_mono_usec();
    p->error = *err;
}

static void succeed_poll(struct poll *p) {
    struct nc_daemon *d = p->all->d;

    d->counters.imds_polls[p->source]++;
    d->counters.imds_success_usec[p->source] = nc_daemon_now(d);
    if (p->error.class != NC_ERR_NONE)
        nc_log(NC_LOG_INFO, NULL, "imds: %s answers again after %u failures", p->kind->path,
               p->failures);
    if (p->error.class != NC_ERR_NONE || !p->is_answered)
        d->is_status_due = true;
    p->failures = 0;
    p->error = (struct nc_err)NC_ERR_INIT;
    p->is_answered = true;
}

/* A service that has just started, or lags, may know nothing of what it announced. */
static bool is_confirmed(struct poll *p) {
    if (!nc_lifecycle_notice(p->all->d->life, p->source))
        return true;
    if (!p->gone_usec)
        p->gone_usec = p->started_usec;
    return p->started_usec >= p->gone_usec + CONFIRM_USEC;
}

/* What takes a notice back, or would be the first good answer after a failure. */
static bool needs_identity(struct poll *p) {
    return nc_lifecycle_notice(p->all->d->life, p->source) && (p->failures > 0 || is_confirmed(p));
}

static void apply_poll_absence(struct poll *p) {
    succeed_poll(p);
    if (p->is_quiet || !is_confirmed(p))
        return;
    p->gone_usec = p->begins_usec = 0;
    p->is_quiet = true;
    nc_daemon_post_cleared(p->all->d, p->source);
}

static void apply_poll_body(struct poll *p, const struct nc_buf *body) {
    struct nc_daemon *d = p->all->d;
    struct nc_err err = NC_ERR_INIT;
    const struct nc_notice *acted = nc_lifecycle_acted(d->life, p->source);
    struct nc_notice notice;
    const int r = nc_notice_read(&(struct nc_notice_answer){.source = p->source,
                                                            .body = body,
                                                            .now_usec = nc_daemon_now(d),
                                                            .rules = &d->rules.drain,
                                                            .acted_id = acted ? acted->id : NULL},
                                 &notice, &err);

    if (r >= 0 && p->source == NC_SOURCE_AUTOSCALING)
        nc_warm_pool_answer(d, body);
    if (r == 0 || (r > 0 && nc_warm_pool_holds(d, &notice))) {
        apply_poll_absence(p);
        return;
    }
    if (err.class != NC_ERR_NONE) /* of it, or of a part: the rest counts */
        fail_poll(p, &err);
    else
        succeed_poll(p);
    if (r < 0)
        return;
    p->gone_usec = 0;
    p->is_quiet = false;
    p->begins_usec = notice.begin_usec ? notice.begin_usec : 1;
    nc_daemon_post_notice(d, &notice);
}

/* --- asking */

static void start_poll(struct poll *p) {
    const struct nc_source_info *k = p->kind;
    struct nc_imds *imds = p->all->d->imds;
    /* Behind a silence a short one is answered sooner, and a slow service needs a long one. */
    const uint64_t limit_usec =
        is_urgent(p) ? nc_imds_timeout_after(imds, 2 * SECOND, p->failures % URGENT_LIMITS)
                     : nc_imds_timeout(imds, 5 * SECOND);
    const struct nc_imds_call call = {.path = k->path,
                                      .max_bytes = k->max_bytes,
                                      .timeout_usec = limit_usec,
                                      .is_poll = true,
                                      .done = on_answer,
                                      .userdata = p};
    struct nc_err err = NC_ERR_INIT;

    p->is_postponed = false;
    p->started_usec = nc_mono_usec();
    if (nc_imds_get(imds, &call, &err) < 0) {
        fail_poll(p, &err);
        arm(p);
        return;
    }
    p->is_in_flight = true;
}

static bool is_busy(const struct nc_notice_poller *all) {
    for (size_t i = 0; i < all->n_polls; i++)
        if (all->polls[i].is_in_flight)
            return true;
    return false;
}

static void end_poll(struct poll *p) {
    struct nc_notice_poller *all = p->all;

    p->is_in_flight = false;
    if (!p->is_off) {
        arm(p);
        nc_imds_condition_check(all->d);
    }
    for (size_t i = 0; i < all->n_polls; i++)
        if (all->polls[i].is_postponed && !is_busy(all))
            start_poll(&all->polls[i]);
    set_timer(all);
}

static void on_identity(void *userdata, const struct nc_imds_answer *a) {
    struct poll *p = userdata;
    struct nc_err err = a->err;

    if (a->status == 200 && nc_streq(a->body.data, p->all->d->gather.facts.instance_id)) {
        apply_poll_absence(p);
    } else {
        if (err.class == NC_ERR_NONE)
            (void)nc_err_set(&err, NC_ERR_PROTOCOL, ENOENT,
                             "imds: " ID_PATH " is not this instance's");
        p->gone_usec = 0;
        fail_poll(p, &err);
    }
    end_poll(p);
}

static void request_identity(struct poll *p) {
    struct nc_imds *imds = p->all->d->imds;
    const struct nc_imds_call call = {.path = ID_PATH,
                                      .max_bytes = ID_MAX_BYTES,
                                      .timeout_usec = nc_imds_timeout(imds, 2 * SECOND),
                                      .done = on_identity,
                                      .userdata = p};
    struct nc_imds_answer failed = {0};

    if (nc_imds_get(imds, &call, &failed.err) < 0)
        on_identity(p, &failed);
}

static void on_answer(void *userdata, const struct nc_imds_answer *a) {
    struct poll *p = userdata;
    struct nc_daemon *d = p->all->d;

    if (!p->is_off) { /* else it turned out meanwhile that nobody needs to ask */
        nc_daemon_read_skew(d);
        nc_histogram_add(&d->counters.imds_latency, nc_mono_usec() - p->started_usec);
        p->is_absent = a->status == 404;
        if (p->is_absent && needs_identity(p)) {
            request_identity(p);
            return;
        }
        if (a->status == 200)
            apply_poll_body(p, &a->body);
        else if (p->is_absent)
            apply_poll_absence(p);
        else
            fail_poll(p, &a->err);
    }
    end_poll(p);
}

static void on_due(struct poll *p) {
    p->due_usec = UINT64_MAX;
    if (!is_urgent(p) && is_busy(p->all))
        p->is_postponed = true;
    else
        start_poll(p);
}

/* --- spot or not */

/* Nothing of the kind is announced here: that counts as observed. */
static void turn_off(struct poll *p) {
    p->is_off = true;
    p->is_postponed = false;
    if (!p->is_in_flight)
        p->due_usec = UINT64_MAX;
    nc_daemon_post_cleared(p->all->d, p->source);
    p->all->d->is_status_due = true;
}

static void apply_purchase_option(struct nc_notice_poller *all,
                                  enum nc_purchase_option purchase_option) {
    for (size_t i = 0; i < all->n_polls; i++)
        if (all->polls[i].kind->is_of_spot && purchase_option != NC_PURCHASE_SPOT)
            turn_off(&all->polls[i]);
}

static void on_purchase_option(void *userdata, const struct nc_imds_answer *a) {
    static const struct nc_backoff again = {5 * SECOND, 60 * SECOND};
    struct nc_notice_poller *all = userdata;
    nc_cleanup(nc_facts_done) struct nc_facts facts = NC_FACTS_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (a->status == 200
        && nc_facts_parse_imds(&facts, NC_IMDS_PURCHASE_OPTION, a->body.data, a->body.len, &err)
               == 0
        && facts.purchase_option != NC_PURCHASE_UNKNOWN) {
        apply_purchase_option(all, facts.purchase_option);
        return;
    }
    all->option_due_usec =
        nc_mono_usec() + nc_backoff_pause(&again, ++all->option_failures, all->seed);
    set_timer(all);
}

static void request_purchase_option(struct nc_notice_poller *all) {
    const struct nc_imds_question *q = &nc_imds_questions[NC_IMDS_PURCHASE_OPTION];
    const struct nc_imds_call call = {.path = q->path,
                                      .max_bytes = q->max_bytes,
                                      .timeout_usec = nc_imds_timeout(all->d->imds, 5 * SECOND),
                                      .done = on_purchase_option,
                                      .userdata = all};
    struct nc_imds_answer failed = {0};

    all->option_due_usec = UINT64_MAX;
    if (nc_imds_get(all->d->imds, &call, &failed.err) < 0)
        on_purchase_option(all, &failed);
}

/* --- the clock */

static uint64_t next_due(const struct nc_notice_poller *all) {
    uint64_t at = all->option_due_usec;

    for (size_t i = 0; i < all->n_polls; i++)
        if (all->polls[i].due_usec < at)
            at = all->polls[i].due_usec;
    return at;
}

static void set_timer(struct nc_notice_poller *all) {
    const uint64_t at = next_due(all);

    (void)sd_event_source_set_time(all->timer, at);
    (void)sd_event_source_set_enabled(all->timer,
                                      at == UINT64_MAX ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_notice_poller *all = userdata;
    const uint64_t now = nc_mono_usec();

    if (all->option_due_usec <= now)
        request_purchase_option(all);
    for (size_t i = 0; i < all->n_polls; i++) /* the spot notice is the first */
        if (all->polls[i].due_usec <= now)
            on_due(&all->polls[i]);
    set_timer(all);
    return 0;
}

/* --- the handle */

int nc_notice_poller_new(struct nc_daemon *d, struct nc_notice_poller **ret, struct nc_err *err) {
    struct nc_notice_poller *all = nc_calloc(1, sizeof(*all));
    int r;

    all->d = d;
    all->seed = nc_backoff_seed(d->gather.facts.instance_id);
    r = sd_event_add_time(d->app->event, &all->timer, CLOCK_MONOTONIC, 0, TIMER_ACCURACY_USEC,
                          on_timer, all);
    if (r < 0) {
        nc_notice_poller_free(all);
        return nc_err_host(err, r, "event loop");
    }
    for (int s = _NC_SOURCE_MAX - 1; s >= 0; s--) /* all are due at once */
        if (nc_sources[s].path)
            all->polls[all->n_polls++] =
                (struct poll){.kind = &nc_sources[s], .source = (enum nc_source)s, .all = all};
    if (d->gather.facts.purchase_option != NC_PURCHASE_UNKNOWN) {
        all->option_due_usec = UINT64_MAX;
        apply_purchase_option(all, d->gather.facts.purchase_option);
    }
    *ret = all;
    return 0;
}

struct nc_notice_poller *nc_notice_poller_free(struct nc_notice_poller *all) {
    if (!all)
        return NULL;
    sd_event_source_disable_unref(all->timer);
    free(all);
    return NULL;
}

/* --- how they are doing */

int nc_notice_poller_is_failing(const struct nc_notice_poller *all, uint64_t for_usec, bool *ret,
                                struct nc_buf *message) {
    const uint64_t now = nc_mono_usec();
    const struct nc_err *first = NULL;
    bool is_known = all != NULL;

    for (size_t i = 0; all && i < all->n_polls; i++) {
        const struct poll *p = &all->polls[i];
        const bool is_long = p->failures > 0 && now - p->failing_usec >= for_usec;
        if (p->is_off || (p->is_answered && p->failures == 0))
            continue;
        if (!is_long) {
            is_known = false;
            continue;
        }
        nc_buf_printf(message, "%s%s", first ? ", " : "", nc_source_name(p->source));
        first = first ? first : &p->error;
    }
    if (!first && !is_known)
        return -EAGAIN;
    *ret = first != NULL;
    if (first)
        nc_buf_printf(message, " notices of EC2 are not received: %s", first->msg);
    else
        nc_buf_puts(message, "notices of EC2 are received");
    return 0;
}

bool nc_notice_poller_get_view(const struct nc_notice_poller *all, enum nc_source s,
                               struct nc_poll_view *ret) {
    for (size_t i = 0; all && i < all->n_polls; i++) {
        const struct poll *p = &all->polls[i];
        if (p->source != s)
            continue;
        ret->state = p->is_off                       ? "off"
                     : p->error.class != NC_ERR_NONE ? "failing"
                     : p->is_answered                ? "ok"
                                                     : "waiting";
        ret->last_usec = all->d->counters.imds_success_usec[s];
        ret->error = p->error.msg;
        ret->remedy = p->error.remedy;
        return true;
    }
    return false;
}
