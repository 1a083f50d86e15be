/*
 * What the controller does: steps the pure half with each event and carries its actions out.
 *
 * An action that cannot even be sent is answered after the step, never inside of it. Events of
 * Kubernetes are rationed; the log has all of them.
 */
#include <errno.h>
#include <sys/random.h>
#include <time.h>

#include "controller.h"
#include "log.h"
#include "nc/backoff.h"
#include "nc/clock.h"
#include "nc/mem.h"

#define CALL_USEC 10000000u
#define TICK_MOST_USEC (60ull * 1000000) /* the clock may be set meanwhile */
#define EVENT_BURST 100u
#define EVENT_EVERY_USEC 100000u /* and then ten a second */
#define EVENT_MAX_IN_FLIGHT                                                                        \
    8u /* in flight at once: a request takes more memory than what it states */
#define LATE_USEC 10000000u
#define LATE_MAX 2 /* checks in a row: a clock that was set is no step that is stuck */

/* One request in flight. */
struct nc_pending_write {
    struct nc_controller *controller;
    struct nc_pending_write *next, **at;
    struct nc_kube_req *req;
    uint64_t what; /* as health.c tells requests apart */
    bool is_event;
};

static void forget(struct nc_pending_write *a) {
    *a->at = a->next;
    if (a->next)
        a->next->at = a->at;
    a->controller->n_events_in_flight -= a->is_event;
    free(a);
}

static uint64_t what_of(const struct nc_control_action *a) {
    nc_auto_free char *text = nc_asprintf("%d %d %s", (int)a->verb, (int)a->what, a->name);

    return nc_backoff_seed(text);
}

/* What is refused by a version that has changed was not judged. */
static void note_answer(struct nc_controller *c, uint64_t what, enum nc_control_verb verb,
                        enum nc_control_answer answer, const struct nc_err *err) {
    struct nc_err own = *err;

    if (answer == NC_CONTROL_UNAVAILABLE)
        nc_controller_failed(c, NC_TROUBLE_WRITE, what, err);
    if (answer == NC_CONTROL_DONE || answer == NC_CONTROL_MISSING)
        nc_controller_succeeded(c, NC_TROUBLE_WRITE, what);
    if (answer == NC_CONTROL_UNAVAILABLE || answer == NC_CONTROL_DONE)
        return;
    nc_err_wrap(&own, "%s", nc_control_verb_name(verb));
    nc_log(answer == NC_CONTROL_REFUSED ? NC_LOG_WARNING : NC_LOG_DEBUG,
           &(struct nc_log_fields){.error_class = nc_err_class_name(own.class)}, "%s", own.msg);
    if (answer == NC_CONTROL_REFUSED)
        nc_controller_note_failure(c, NC_TROUBLE_WRITE, what, &own);
}

static void on_sent(void *userdata, const struct nc_control_sent *s);

/* --- one action */

static void refuse(struct nc_controller *c, uint64_t id, enum nc_control_answer answer) {
    *nc_append(&c->refused, &c->n_refused) = (struct nc_refused){id, answer};
}

static void send_call(struct nc_controller *c, const struct nc_control_action *a) {
    struct nc_pending_write *pending = nc_calloc(1, sizeof(*pending));
    struct nc_err err = NC_ERR_INIT;
    int r;

    *pending = (struct nc_pending_write){.controller = c,
                                         .next = c->pending_writes,
                                         .at = &c->pending_writes,
                                         .what = what_of(a),
                                         .is_event = a->verb == NC_CONTROL_EMIT_EVENT};
    c->n_events_in_flight += pending->is_event;
    if (c->pending_writes)
        c->pending_writes->at = &pending->next;
    c->pending_writes = pending;
    r = nc_control_send(
        c->api_config.kube,
        &(struct nc_control_call){.claims_path = c->paths[NC_CONTROL_CLAIM]
                                                     ? c->paths[NC_CONTROL_CLAIM]
                                                     : "/apis/karpenter.sh/v1/nodeclaims",
                                  .action = a,
                                  .now_usec = nc_controller_now(c),
                                  .timeout_usec = CALL_USEC,
                                  .done = on_sent,
                                  .userdata = pending},
        &pending->req, &err);
    if (r >= 0)
        return;
    forget(pending);
    nc_log(NC_LOG_ERROR, &(struct nc_log_fields){.error_class = nc_err_class_name(err.class)},
           "%s: %s", nc_control_verb_name(a->verb), err.msg);
    if (a->id)
        refuse(c, a->id, err.class == NC_ERR_BUG ? NC_CONTROL_REFUSED : NC_CONTROL_UNAVAILABLE);
}

/* Ten a second, a hundred at once, kept as one moment: when all of it would be used up. */
static bool may_send_event(struct nc_controller *c) {
    const uint64_t now = nc_mono_usec();

    if (c->event_rate_usec < now)
        c->event_rate_usec = now;
    if (c->event_rate_usec - now > EVENT_BURST * EVENT_EVERY_USEC)
        return false;
    c->event_rate_usec += EVENT_EVERY_USEC;
    return true;
}

/* What waits, as there is room. One that cannot be sent is lost: the log has it. */
static void send_waiting_events(struct nc_controller *c) {
    while (c->waiting_events.n > 0 && c->n_events_in_flight < EVENT_MAX_IN_FLIGHT) {
        struct nc_control_actions first = {.v = nc_calloc(1, sizeof(*first.v)), .n = 1};

        first.v[0] = c->waiting_events.v[0];
        c->waiting_events.n--;
        memmove(c->waiting_events.v, c->waiting_events.v + 1,
                c->waiting_events.n * sizeof(*c->waiting_events.v));
        send_call(c, first.v);
        nc_control_actions_done(&first);
    }
}

static void on_sent(void *userdata, const struct nc_control_sent *s) {
    struct nc_pending_write *a = userdata;
    struct nc_controller *c = a->controller;
    const uint64_t what = a->what;
    const char *remedy = nc_controller_remedy(c, &s->err);
    nc_auto_free char *why = s->answer == NC_CONTROL_REFUSED
                                 ? nc_asprintf("%s%s%s", s->err.msg, *remedy ? "; " : "", remedy)
                                 : NULL;

    forget(a);
    note_answer(c, what, s->verb, s->answer, &s->err);
    if (s->id)
        nc_controller_post(c, &(struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                                         .id = s->id,
                                                         .answer = s->answer,
                                                         .retry_after_usec = s->retry_after_usec,
                                                         .object = s->object,
                                                         .message = why});
    send_waiting_events(c);
}

/* Takes it over. */
static void send_event(struct nc_controller *c, struct nc_control_action *a) {
    const bool is_node = a->what == NC_CONTROL_NODE;

    nc_log(a->is_warning ? NC_LOG_WARNING : NC_LOG_INFO,
           &(struct nc_log_fields){.reason = a->reason,
                                   .node = is_node ? a->name : NULL,
                                   .nodeclaim = a->what == NC_CONTROL_CLAIM ? a->name : NULL},
           "%s %s: %s", nc_control_kind_name(a->what), a->name, a->message);
    if (c->waiting_events.n >= EVENT_BURST || !may_send_event(c)) {
        c->events_held++;
        return;
    }
    c->events_sent++;
    *nc_append(&c->waiting_events.v, &c->waiting_events.n) = *a;
    *a = (struct nc_control_action){0};
    send_waiting_events(c);
}

/* --- AWS: the same credentials and the same queue for every mode */

static void on_aws_answer(void *userdata, const struct nc_instances_answer *a,
                          const struct nc_err *err) {
    struct nc_controller *c = userdata;

    if (err->class != NC_ERR_NONE)
        nc_log(NC_LOG_WARNING,
               &(struct nc_log_fields){.error_class = nc_err_class_name(err->class)}, "%s%s%s",
               err->msg, *err->remedy ? ": " : "", err->remedy);
    nc_controller_post(c, &(struct nc_control_event){.kind = NC_CONTROL_ANSWER,
                                                     .id = a->id,
                                                     .answer = a->answer,
                                                     .refusal = a->refusal,
                                                     .name = a->name,
                                                     .instance_state = a->instance_state,
                                                     .group = a->group,
                                                     .lifecycle_state = a->state});
}

/* Never answers before it returns; negative: there will be none. */
static int order(struct nc_controller *c, const struct nc_control_action *a, struct nc_err *err) {
    int r = 0;

    if (a->verb == NC_CONTROL_END_INSTANCE && !c->settings->rules.terminates)
        return nc_err_set(err, NC_ERR_BUG, ENOTSUP, "instances are not ours to end");
    if (!c->instances)
        r = nc_instances_new(c->event,
                             &(struct nc_instances_options){
                                 .settings = c->settings, .done = on_aws_answer, .userdata = c},
                             &c->instances, err);
    return r < 0 ? r : nc_instances_call(c->instances, a, err);
}

static void call_aws(struct nc_controller *c, const struct nc_control_action *a) {
    const bool is_node = a->what == NC_CONTROL_NODE;
    struct nc_err err = NC_ERR_INIT;

    if (order(c, a, &err) >= 0)
        return;
    nc_log(a->verb == NC_CONTROL_INSTANCE_STATE ? NC_LOG_WARNING : NC_LOG_ERROR,
           &(struct nc_log_fields){.node = is_node ? a->name : NULL,
                                   .nodeclaim = is_node ? NULL : a->name},
           "%s%s%s", err.msg, *err.remedy ? ": " : "", err.remedy);
    /* What a node says of itself is no failure of EC2. */
    refuse(c, a->id,
           a->verb != NC_CONTROL_INSTANCE_STATE ? NC_CONTROL_REFUSED
           : err.class == NC_ERR_HOST           ? NC_CONTROL_UNAVAILABLE
                                                : NC_CONTROL_MISSING);
}

static void carry_out(struct nc_controller *c, struct nc_control_action *a) {
    switch (a->verb) {
    case NC_CONTROL_EMIT_EVENT:
        send_event(c, a);
        return;
    case NC_CONTROL_END_INSTANCE:
    case NC_CONTROL_DESCRIBE_INSTANCE:
    case NC_CONTROL_INSTANCE_STATE:
    case NC_CONTROL_DESCRIBE_LIFECYCLE:
    case NC_CONTROL_RECORD_HEARTBEAT:
    case NC_CONTROL_COMPLETE_ACTION:
        nc_log(NC_LOG_DEBUG, NULL, "%s %s", nc_control_verb_name(a->verb), a->name);
        call_aws(c, a);
        return;
    case NC_CONTROL_SET_TIMESTAMP:
    case NC_CONTROL_DELETE_CLAIM:
    case NC_CONTROL_PATCH_CLAIM:
    case NC_CONTROL_STATUS_CLAIM:
    case NC_CONTROL_PATCH_NODE:
    case NC_CONTROL_DELETE_NODE:
    case NC_CONTROL_GET_NODE:
        nc_log(NC_LOG_DEBUG, NULL, "%s %s", nc_control_verb_name(a->verb), a->name);
        send_call(c, a);
        return;
    case NC_CONTROL_REPLACE_PODS:
        nc_controller_replace(c, a->name, a->since_usec);
        return;
    case _NC_CONTROL_VERB_MAX:
        return;
    }
}

/* --- the step */

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
    struct nc_control_event e = {.kind = NC_CONTROL_TICK};

    nc_controller_post(userdata, &e);
    return 0;
}

static void arm(struct nc_controller *c) {
    const uint64_t now = nc_controller_now(c), next = nc_control_next(c->control, now);
    const uint64_t in = next <= now ? 0 : next - now < TICK_MOST_USEC ? next - now : TICK_MOST_USEC;

    if (next == UINT64_MAX) {
        if (c->timer)
            (void)sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
        return;
    }
    if (!c->timer) {
        (void)sd_event_add_time_relative(c->event, &c->timer, CLOCK_MONOTONIC, in, 1000, on_time,
                                         c);
        return;
    }
    (void)sd_event_source_set_time_relative(c->timer, in);
    (void)sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT);
}

static void step_once(struct nc_controller *c, struct nc_control_event *e) {
    struct nc_control_actions actions = {0};

    c->api_boot_usec = nc_controller_boot_usec(c);
    e->now_usec = nc_controller_now(c);
    nc_control_step(c->control, e, &actions);
    for (size_t i = 0; i < actions.n; i++)
        carry_out(c, &actions.v[i]);
    nc_control_actions_done(&actions);
}

void nc_controller_post(struct nc_controller *c, struct nc_control_event *e) {
    if (!c->control)
        return;
    if (e->kind != NC_CONTROL_LEAD) /* it may have ended since, and nothing was observed */
        nc_controller_notice_lead(c);
    step_once(c, e);
    for (size_t i = 0; i < c->n_refused; i++) {
        struct nc_control_event answer = {
            .kind = NC_CONTROL_ANSWER, .id = c->refused[i].id, .answer = c->refused[i].answer};
        step_once(c, &answer); /* may append more; each waits for its pause, so that this ends */
    }
    c->n_refused = 0;
    arm(c);
}

/* A seed that no node knows, and no two controllers share: of pauses, and of where names are kept.
 */
static struct nc_control_rules seeded(const struct nc_control_rules *from) {
    struct nc_control_rules r = *from;

    if (r.seed == 0 && getrandom(&r.seed, sizeof(r.seed), 0) != (ssize_t)sizeof(r.seed))
        r.seed = nc_now_usec();
    return r;
}

void nc_controller_post_mode(struct nc_controller *c) {
    nc_auto_free char *version = nc_control_claims_version(c->paths[NC_CONTROL_CLAIM]);
    struct nc_control_event e = {.kind = NC_CONTROL_MODE,
                                 .mode = c->mode,
                                 .is_guess = c->settings->mode == NC_CONTROL_MODE_UNKNOWN,
                                 .claims_version = version,
                                 .has_no_claims = !c->paths[NC_CONTROL_CLAIM]};

    nc_controller_post(c, &e);
}

void nc_controller_begin(struct nc_controller *c) {
    const struct nc_control_rules with_seed = seeded(&c->settings->rules);
    struct nc_control_event rules = {.kind = NC_CONTROL_RULES, .rules = &with_seed};
    struct nc_control_event lead = {.kind = NC_CONTROL_LEAD, .leads = c->leads};

    c->control = nc_control_new(c->settings->standalone);
    nc_controller_post(c, &rules);
    nc_controller_post_mode(c);
    nc_controller_post(c, &lead);
}

/* What waits for a connection would be sent by whoever leads no more. The step has forgotten it. */
static void drop_writes(struct nc_controller *c) {
    while (c->pending_writes) {
        nc_kube_cancel(c->pending_writes->req);
        forget(c->pending_writes);
    }
    nc_control_actions_done(&c->waiting_events);
    if (c->instances)
        nc_instances_drop(c->instances);
    nc_controller_drop_replacements(c);
}

void nc_controller_end(struct nc_controller *c) {
    drop_writes(c);
    c->instances = nc_instances_free(c->instances);
    c->control = nc_control_free(c->control);
    c->timer = sd_event_source_disable_unref(c->timer);
    free(c->refused);
    c->refused = NULL;
    c->n_refused = 0;
}

bool nc_controller_is_late(struct nc_controller *c) {
    const uint64_t now = nc_controller_now(c);
    const uint64_t next = c->control ? nc_control_next(c->control, now) : UINT64_MAX;

    if (next == UINT64_MAX || next >= now || now - next < LATE_USEC) {
        c->overdue = 0;
        return false;
    }
    arm(c);
    return ++c->overdue >= LATE_MAX;
}

/* --- leadership */

void nc_controller_lead(struct nc_controller *c, bool leads) {
    struct nc_control_event e = {.kind = NC_CONTROL_LEAD, .leads = leads};

    if (leads == c->leads)
        return;
    c->leads = leads;
    c->led += leads;
    nc_log(NC_LOG_INFO, NULL, leads ? "leading as %s" : "not leading any more, %s", c->identity);
    nc_controller_post(c, &e);
    if (!leads)
        drop_writes(c);
}

void nc_controller_notice_lead(struct nc_controller *c) {
    if (c->leader)
        nc_controller_lead(c, nc_leader_leads(c->leader));
}
