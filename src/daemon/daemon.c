/*
 * The lifecycle on the loop: what is posted is stepped, what the step requests is carried out, in
 * order.
 *
 * Knows the queue of what is posted while a step is carried out, and the one timer. Must
 * not know how an action is done: own-node.c, pods.c and announce.c do. Nothing here turns the
 * loop.
 */
#include "daemon.h"

#include <errno.h>

#include "log.h"
#include "nc/mem.h"
#include "nc/time.h"

#define HISTORY_MAX 64
#define DOUBT_USEC 100000     /* the difference of the clocks is narrowed answer by answer */
#define TIMER_SLACK_USEC 500u /* not worth arming it again */

/* An event that waits, with copies of what it points at. */
struct nc_posted {
    struct nc_posted *next;
    struct nc_lifecycle_event event;
    struct nc_lifecycle_rules rules;
    struct nc_notice notice;
    struct nc_node_view node;
    struct nc_pod pod;
    struct nc_pod_answer answer;
    char *uid, *message;
};

/* A small step is our own doubt about the difference, not the clock. */
static void set_time(struct nc_daemon *d, struct nc_lifecycle_event *e) {
    int64_t offset_usec, moved_usec;

    nc_daemon_read_skew(d);
    e->now_usec = nc_daemon_own_now();
    offset_usec = (int64_t)(nc_daemon_now(d) - e->now_usec);
    moved_usec = offset_usec - d->steps.clock_offset_usec;
    if (moved_usec >= DOUBT_USEC || moved_usec <= -DOUBT_USEC)
        d->steps.clock_offset_usec = offset_usec;
    e->clock_offset_usec = d->steps.clock_offset_usec;
}

bool nc_daemon_is_busy(const struct nc_daemon *d) {
    struct nc_lifecycle_view view;

    if (!d->life)
        return false;
    if (d->steps.phase != NC_LIFECYCLE_IDLE)
        return true;
    nc_lifecycle_get_view(d->life, nc_daemon_now(d), &view);
    return view.leading >= 0;
}

/* --- the timer */

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_lifecycle_event tick = {.kind = NC_LIFECYCLE_TICK};
    struct nc_daemon *d = userdata;

    d->steps.timer_usec = UINT64_MAX;
    nc_daemon_post(d, &tick);
    return 0;
}

static uint64_t next_tick(const struct nc_daemon *d) {
    const uint64_t now = nc_daemon_own_now(), next = nc_lifecycle_next(d->life, now);

    if (next == UINT64_MAX)
        return UINT64_MAX;
    return nc_mono_usec() + (next > now ? next - now : 0);
}

void nc_daemon_arm(struct nc_daemon *d) {
    const uint64_t at = next_tick(d);

    if (at == UINT64_MAX) {
        if (d->steps.timer && d->steps.timer_usec != UINT64_MAX)
            (void)sd_event_source_set_enabled(d->steps.timer, SD_EVENT_OFF);
        d->steps.timer_usec = UINT64_MAX;
        return;
    }
    if (d->steps.timer && d->steps.timer_usec != UINT64_MAX
        && (at > d->steps.timer_usec ? at - d->steps.timer_usec : d->steps.timer_usec - at)
               < TIMER_SLACK_USEC)
        return;
    d->steps.timer_usec = at;
    nc_timer_set_at(d->app->event, &d->steps.timer, at, on_timer, d);
    /* deadlines come before answers that only tell what was done */
    (void)sd_event_source_set_priority(d->steps.timer, SD_EVENT_PRIORITY_IMPORTANT);
}

/* --- actions */

static void carry_out(struct nc_daemon *d, const struct nc_lifecycle_action *a) {
    switch (a->kind) {
    case NC_LIFECYCLE_ACTION_WRITE:
        nc_own_node_write(d, &a->write);
        break;
    case NC_LIFECYCLE_ACTION_POD:
        if (d->is_state_due) /* whoever comes after us must know that this drain began */
            nc_daemon_state_save(d);
        nc_pod_evictor_send(d, &a->pod);
        break;
    case NC_LIFECYCLE_ACTION_PODS_OPEN:
        nc_pod_evictor_open(d);
        break;
    case NC_LIFECYCLE_ACTION_PODS_CLOSE:
        d->pods.wants_watch = false;
        nc_pod_evictor_unwatch(d);
        break;
    case NC_LIFECYCLE_ACTION_REFRESH_NODE:
        nc_own_node_refresh(d);
        break;
    case NC_LIFECYCLE_ACTION_ANNOUNCE:
        nc_daemon_announce(d, a);
        break;
    case NC_LIFECYCLE_ACTION_POD_NEWS:
        nc_daemon_log_pod(d, &a->news);
        nc_daemon_tell_pod(d, &a->news);
        if (a->news.kind == NC_POD_NEWS_OVERDUE)
            nc_pod_evictor_renew(d);
        break;
    case NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR:
        nc_shutdown_release(d);
        break;
    case NC_LIFECYCLE_ACTION_START_HOOK:
    case NC_LIFECYCLE_ACTION_FOLLOW_HOOK:
        nc_hook_runner_start(d, a->hook, a->kind == NC_LIFECYCLE_ACTION_FOLLOW_HOOK);
        break;
    }
}

/* --- what a step changed */

static void add_history(struct nc_daemon *d, const struct nc_lifecycle_view *view) {
    struct nc_value *entry = nc_value_new_map();
    char at[32];

    if (!d->history)
        d->history = nc_value_new_list();
    if (d->history->n >= HISTORY_MAX) { /* the oldest goes */
        nc_value_free(d->history->items[0]);
        memmove(&d->history->items[0], &d->history->items[1],
                (d->history->n - 1) * sizeof(d->history->items[0]));
        d->history->n--;
    }
    nc_time_format(view->since_usec, at);
    nc_value_set_string(entry, "phase", nc_lifecycle_phase_name(view->phase));
    nc_value_set_string(entry, "at", at);
    nc_value_set_int(entry, "atUsec", (int64_t)view->since_usec);
    nc_value_push(d->history, entry);
}

static bool is_of_pods(enum nc_lifecycle_event_kind kind) {
    return kind == NC_LIFECYCLE_POD || kind == NC_LIFECYCLE_POD_UNREADABLE
           || kind == NC_LIFECYCLE_POD_GONE || kind == NC_LIFECYCLE_POD_ANSWER;
}

/* Whatever a step may have changed that is worth keeping: not one of two hundred pods. */
static bool is_news(const struct nc_daemon *d, const struct nc_lifecycle_event *e) {
    return !is_of_pods(e->kind) && !d->steps.is_after;
}

static void check_after_step(struct nc_daemon *d, const struct nc_lifecycle_event *e,
                             bool was_active) {
    struct nc_lifecycle_view view;

    nc_lifecycle_get_view(d->life, nc_daemon_now(d), &view);
    if (e->kind == NC_LIFECYCLE_NOTICE && !was_active && view.is_active[e->notice->source])
        d->counters.notices[e->notice->source]++;
    if (view.phase != d->steps.phase) {
        if (d->steps.phase == NC_LIFECYCLE_IDLE) /* another drain begins */
            d->pod_history = nc_value_free(d->pod_history);
        d->steps.phase = view.phase;
        nc_api_session_check_soon(d);
        nc_own_node_check(d);
        nc_fit_gate_check(d);
        d->is_state_due = d->is_status_due = true;
        add_history(d, &view);
        if (view.phase == NC_LIFECYCLE_VOLUME_WAIT)
            nc_pod_evictor_query_volumes(d, nc_lifecycle_drain(d->life), &view.drain_rules);
    } else if (view.phase == NC_LIFECYCLE_VOLUME_WAIT && e->kind == NC_LIFECYCLE_TICK
               && !d->steps.is_after) {
        nc_pod_evictor_query_volumes(d, nc_lifecycle_drain(d->life), &view.drain_rules);
    }
}

static bool is_active(const struct nc_daemon *d, const struct nc_lifecycle_event *e) {
    return e->kind == NC_LIFECYCLE_NOTICE
           && nc_lifecycle_notice(d->life, e->notice->source) != NULL;
}

/* What is reported again and again (a poll that still observes nothing) wakes nobody. */
static bool is_worth_saving(const struct nc_lifecycle_event *e,
                            const struct nc_lifecycle_actions *actions) {
    return actions->n > 0 || e->kind != NC_LIFECYCLE_CLEARED;
}

static int on_after(sd_event_source *source, void *userdata) {
    struct nc_lifecycle_event tick = {.kind = NC_LIFECYCLE_TICK};
    struct nc_daemon *d = userdata;

    d->steps.is_after = true;
    nc_daemon_post(d, &tick);
    d->steps.is_after = false;
    return 0;
}

/* One packet may tell of a hundred pods: what they request is asked once, when all that came in
 * this turn of the loop is known. False where that cannot be. */
static bool check_after_turn(struct nc_daemon *d) {
    if (d->steps.after)
        return sd_event_source_set_enabled(d->steps.after, SD_EVENT_ONESHOT) >= 0;
    return sd_event_add_defer(d->app->event, &d->steps.after, on_after, d) >= 0;
}

static void step(struct nc_daemon *d, struct nc_lifecycle_event *e) {
    struct nc_lifecycle_actions actions = {0};
    bool was_active;

    set_time(d, e);
    e->away_usec = nc_api_session_away_usec(&d->api);
    e->more = is_of_pods(e->kind) && check_after_turn(d);
    was_active = is_active(d, e);
    nc_lifecycle_step(d->life, e, &actions);
    d->is_state_due |= is_news(d, e) && is_worth_saving(e, &actions);
    d->is_status_due |= is_worth_saving(e, &actions);
    if (!e->more)
        check_after_step(d, e, was_active);
    for (size_t i = 0; i < actions.n; i++)
        carry_out(d, &actions.v[i]);
    nc_lifecycle_actions_done(&actions);
}

/* --- the queue */

static struct nc_posted *copy_event(const struct nc_lifecycle_event *e) {
    struct nc_posted *p = nc_calloc(1, sizeof(*p));

    p->event = *e;
    if (e->rules) {
        p->rules = *e->rules;
        p->event.rules = &p->rules;
    }
    if (e->notice) {
        p->notice = *e->notice;
        p->event.notice = &p->notice;
    }
    if (e->node) {
        p->node = *e->node;
        p->event.node = &p->node;
    }
    if (e->pod) {
        p->pod = *e->pod;
        *e->pod = (struct nc_pod){0};
        p->event.pod = &p->pod;
    }
    if (e->answer) {
        p->answer = *e->answer;
        p->event.answer = &p->answer;
    }
    p->uid = nc_strdup(e->uid);
    p->event.uid = p->uid;
    p->message = nc_strdup(e->message);
    p->event.message = p->message;
    return p;
}

static void free_posted(struct nc_posted *p) {
    nc_pod_done(&p->pod);
    free(p->uid);
    free(p->message);
    free(p);
}

static void post_event(struct nc_daemon *d, const struct nc_lifecycle_event *e) {
    struct nc_posted *p = copy_event(e);

    if (!d->steps.queue)
        d->steps.queue_end = &d->steps.queue;
    *d->steps.queue_end = p;
    d->steps.queue_end = &p->next;
}

void nc_daemon_post(struct nc_daemon *d, struct nc_lifecycle_event *e) {
    if (!d->life)
        return;
    if (d->steps.is_stepping) {
        post_event(d, e);
        return;
    }
    d->steps.is_stepping = true;
    step(d, e);
    while (d->steps.queue) {
        struct nc_posted *p = d->steps.queue;
        d->steps.queue = p->next;
        step(d, &p->event);
        free_posted(p);
    }
    d->steps.is_stepping = false;
    nc_hook_runner_check(d);
    nc_daemon_arm(d);
}

void nc_daemon_post_notice(struct nc_daemon *d, const struct nc_notice *n) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NOTICE, .notice = n, .source = n->source};

    nc_daemon_post(d, &e);
}

void nc_daemon_post_cleared(struct nc_daemon *d, enum nc_source s) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_CLEARED, .source = s};

    nc_daemon_post(d, &e);
}

void nc_daemon_post_again(struct nc_daemon *d, enum nc_source s) {
    const struct nc_notice *active = nc_lifecycle_notice(d->life, s);
    struct nc_notice n;

    if (!active) {
        nc_daemon_post_cleared(d, s);
        return;
    }
    n = *active; /* the step may write where it is kept */
    nc_daemon_post_notice(d, &n);
}

void nc_daemon_done(struct nc_daemon *d) {
    while (d->steps.queue) {
        struct nc_posted *p = d->steps.queue;
        d->steps.queue = p->next;
        free_posted(p);
    }
    d->steps.timer = sd_event_source_disable_unref(d->steps.timer);
    d->steps.after = sd_event_source_disable_unref(d->steps.after);
    d->life = nc_lifecycle_free(d->life);
    d->history = nc_value_free(d->history);
    d->pod_history = nc_value_free(d->pod_history);
}
