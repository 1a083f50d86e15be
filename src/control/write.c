/*
 * Writes: who wants one, who may send one. Rules C7 to C11.
 *
 * Each object that changed is asked what it wants; those that want something wait in a queue, and
 * as writes in flight end the first of it is asked again and sent. So what is sent is what is
 * wanted at that moment, not what was wanted when it began to wait.
 */
#include "fit.h"
#include "lifecycle-action.h"
#include "nc/mem.h"
#include "nc/names.h"
#include "out-of-service.h"
#include "step.h"

#define POOL_PAUSE_USEC 1000000ull                   /* between two checks the same pool */
#define INVALID_STATUS_EVENT_USEC (600ull * 1000000) /* said of one Node at most so often */
#define RECHECK_USEC 1000000ull
#define CONCURRENCY_MIN 4u
#define CONCURRENCY_MAX 1024u

/* What an object wants now. */
struct want {
    bool is_wanted, is_relay, is_fit;
    struct control_relay relay;
    enum control_outage_step outage;
    struct nc_control_action action; /* of the standalone half, or about an outage */
    uint64_t next_usec;
};

/* ---- what is wanted */

static bool is_paused(const struct control_object *o, uint64_t now_usec) {
    return nc_control_is_ahead(o->write.pause_usec, now_usec, CONTROL_RETRY_AFTER_MAX_USEC);
}

static bool is_awaiting_watch(const struct control_object *o, uint64_t now_usec) {
    return nc_control_is_ahead(o->write.watch_wait_usec, now_usec, NC_CONTROL_WATCH_WAIT_USEC);
}

static void action_done(struct nc_control_action *a) {
    free(a->name);
    free(a->uid);
    free(a->provider_id);
    free(a->group);
    free(a->message);
    nc_value_free(a->body);
    *a = (struct nc_control_action){0};
}

void nc_control_actions_done(struct nc_control_actions *a) {
    for (size_t i = 0; i < a->n; i++)
        action_done(&a->v[i]);
    free(a->v);
    *a = (struct nc_control_actions){0};
}

/* A pause concerns the verb that failed; what is waiting for the watch is no reason for the relay
 * to wait: what it has done already it knows by itself. */
static void want_relay(struct nc_control *c, struct control_claim *claim, uint64_t now_usec,
                       struct want *w) {
    const struct control_write *past = &claim->o.write;
    const bool is_wanted = nc_control_relay(c, claim, now_usec, &w->relay);

    nc_control_sooner(&w->next_usec, w->relay.next_usec);
    if (!is_wanted)
        return;
    w->is_relay = true;
    if (past->is_relay && past->verb == w->relay.verb && is_paused(&claim->o, now_usec))
        nc_control_sooner(&w->next_usec, past->pause_usec);
    else
        w->is_wanted = true;
}

/* What is wanted beside the relay: all the rest in standalone mode; beside Karpenter that nothing
 * of such a time stays, and that a node knows its own. */
static void want_other(struct nc_control *c, struct control_object *o, uint64_t now_usec,
                       struct want *w) {
    const bool has_pause = !o->write.is_relay && is_paused(o, now_usec);
    uint64_t next_usec = UINT64_MAX;

    if (has_pause || is_awaiting_watch(o, now_usec)) {
        nc_control_sooner(&w->next_usec,
                          has_pause ? o->write.pause_usec : o->write.watch_wait_usec);
        return;
    }
    if (c->mode == NC_CONTROL_KARPENTER)
        w->is_wanted = nc_control_transfer(o, now_usec, &w->action, &next_usec)
                       || (o->kind == NC_CONTROL_NODE
                           && nc_control_mirror(c, nc_control_as_node(o), now_usec, &w->action));
    else if (o->kind == NC_CONTROL_NODE)
        w->is_wanted =
            c->standalone->node(c, nc_control_as_node(o), now_usec, &w->action, &next_usec);
    else
        w->is_wanted =
            c->standalone->claim(c, nc_control_as_claim(o), now_usec, &w->action, &next_usec);
    nc_control_sooner(&w->next_usec, next_usec);
}

/* What Auto Scaling is told changes nothing of the Node: it neither waits for the watch nor shares
 * a pause with writes of it. */
static void want_lifecycle(const struct nc_control *c, const struct control_object *o,
                           uint64_t now_usec, struct want *w) {
    uint64_t next_usec = UINT64_MAX;

    w->is_wanted =
        nc_control_lifecycle(c, (const struct control_node *)o, now_usec, &w->action, &next_usec);
    nc_control_sooner(&w->next_usec, next_usec);
}

/* What is wanted of a Node in every mode. */
static void want_of_node(struct nc_control *c, struct control_object *o, uint64_t now_usec,
                         struct want *w) {
    uint64_t next_usec = UINT64_MAX;

    if (is_paused(o, now_usec) || is_awaiting_watch(o, now_usec)) {
        nc_control_sooner(&w->next_usec,
                          is_paused(o, now_usec) ? o->write.pause_usec : o->write.watch_wait_usec);
        return;
    }
    if (nc_control_may_taint(c))
        w->outage = nc_control_outage(c, nc_control_as_node(o), now_usec, &w->action, &next_usec);
    nc_control_sooner(&w->next_usec, next_usec);
    w->is_wanted = w->outage != CONTROL_OUTAGE_NONE;
    if (w->is_wanted || !nc_control_may_fit(c))
        return;
    w->is_fit = nc_control_fit(c, nc_control_as_node(o), now_usec, &w->action, &next_usec);
    w->is_wanted = w->is_fit;
    nc_control_sooner(&w->next_usec, next_usec);
}

static struct want want(struct nc_control *c, struct control_object *o, uint64_t now_usec) {
    struct want w = {.next_usec = UINT64_MAX, .relay.next_usec = UINT64_MAX};
    const bool may_relay = nc_control_may_relay(c);

    if (o->write.id || !c->leads)
        return w;
    /* What a node says of its fitness may be news at any time: then the rest has its turn first. */
    if (o->kind == NC_CONTROL_NODE && !o->write.is_fit)
        want_of_node(c, o, now_usec, &w);
    if (w.is_wanted)
        return w;
    if (may_relay && is_awaiting_watch(o, now_usec))
        nc_control_sooner(&w.next_usec, o->write.watch_wait_usec);
    if (may_relay && o->kind == NC_CONTROL_CLAIM)
        want_relay(c, nc_control_as_claim(o), now_usec, &w);
    if (may_relay && !w.is_relay
        && ((c->mode == NC_CONTROL_KARPENTER && !nc_control_doubts(c)) || nc_control_may_manage(c)))
        want_other(c, o, now_usec, &w);
    if (o->kind == NC_CONTROL_NODE && o->write.is_fit && !w.is_wanted)
        want_of_node(c, o, now_usec, &w);
    if (o->kind == NC_CONTROL_NODE && !w.is_wanted && nc_control_may_complete(c))
        want_lifecycle(c, o, now_usec, &w);
    return w;
}

/* Its rate limit holds it back: counted once a write. */
static bool is_held(struct nc_control *c, struct control_object *o, uint64_t now_usec,
                    struct want *w) {
    uint64_t when_usec = 0;

    if (nc_control_rate_allows(o, 1, now_usec, &when_usec))
        return false;
    if (!o->write.is_held)
        c->counts.rate_limited++;
    o->write.is_held = true;
    nc_control_sooner(&w->next_usec, when_usec);
    return true;
}

/* ---- concurrency */

static size_t concurrency(const struct nc_control *c) {
    const unsigned n = c->rules.max_in_flight;

    return n < CONCURRENCY_MIN ? CONCURRENCY_MIN : n > CONCURRENCY_MAX ? CONCURRENCY_MAX : n;
}

static void leave_queue(struct control_object *o) {
    if (o->waits_in)
        nc_control_dequeue(o->waits_in, o, CONTROL_HOOK_WAIT);
    o->waits_in = NULL;
}

/* A relay whose timestamp was taken has waited in this queue before: its DELETE is next, or in a
 * storm every claim would have its time before the first one is deleted. */
static bool was_begun(const struct control_object *o) {
    return o->kind == NC_CONTROL_CLAIM && o->write.is_relay
           && o->write.verb == NC_CONTROL_SET_TIMESTAMP && o->write.attempts == 0;
}

static void join_queue(struct nc_control *c, struct control_queue *q, struct control_object *o) {
    if (o->waits_in == q)
        return;
    leave_queue(o);
    if (q == &c->relays && was_begun(o))
        nc_control_enqueue_first(q, o, CONTROL_HOOK_WAIT);
    else
        nc_control_enqueue(q, o, CONTROL_HOOK_WAIT);
    o->waits_in = q;
}

/* EC2 is slow: it has a part of the concurrency to itself. */
bool nc_control_is_for_ec2(enum nc_control_verb verb) {
    return verb == NC_CONTROL_END_INSTANCE || verb == NC_CONTROL_DESCRIBE_INSTANCE
           || verb == NC_CONTROL_DESCRIBE_LIFECYCLE || verb == NC_CONTROL_RECORD_HEARTBEAT
           || verb == NC_CONTROL_COMPLETE_ACTION || verb == NC_CONTROL_INSTANCE_STATE;
}

/* Of a Node AWS is asked about its lifecycle action only. */
bool nc_control_is_of_lifecycle(const struct control_object *o, enum nc_control_verb verb) {
    return o->kind == NC_CONTROL_NODE
           && (verb == NC_CONTROL_DESCRIBE_INSTANCE || verb == NC_CONTROL_DESCRIBE_LIFECYCLE
               || verb == NC_CONTROL_RECORD_HEARTBEAT || verb == NC_CONTROL_COMPLETE_ACTION);
}

static void start_write(struct nc_control *c, struct control_object *o, enum nc_control_verb verb,
                        const struct want *w) {
    const bool is_relay = w->is_relay;

    if (c->n_in_flight == c->in_flight_room) {
        c->in_flight_room = CONCURRENCY_MAX;
        c->in_flight = nc_realloc_array(c->in_flight, c->in_flight_room, sizeof(*c->in_flight));
    }
    c->last_id++;
    c->in_flight[c->n_in_flight++] = (struct control_pending){.id = c->last_id,
                                                              .object = o,
                                                              .verb = verb,
                                                              .is_relay = is_relay,
                                                              .is_fit = w->is_fit,
                                                              .outage = (uint8_t)w->outage};
    c->n_relays_in_flight += is_relay;
    c->n_ends_in_flight += nc_control_is_for_ec2(verb);
    c->n_states_in_flight += verb == NC_CONTROL_INSTANCE_STATE;
    o->write.id = c->last_id;
    o->write.is_held = false;
    o->write.is_fit = w->is_fit;
    if (nc_control_is_of_lifecycle(o, verb)) {
        nc_control_as_node(o)->lifecycle->request_id = c->last_id;
        return;
    }
    if (nc_control_is_get(verb))
        return;
    if (o->write.verb != verb || o->write.is_relay != is_relay)
        o->write.attempts = 0;
    o->write.verb = (uint8_t)verb;
    o->write.is_relay = is_relay;
}

static void count(struct nc_control *c, struct control_object *o) {
    if (c->standalone && o->kind == NC_CONTROL_CLAIM)
        c->standalone->count(c, nc_control_as_claim(o));
}

static void send(struct nc_control *c, struct control_object *o, struct want *w,
                 uint64_t now_usec) {
    struct nc_control_action *a = nc_append(&c->out->v, &c->out->n);

    if (w->is_relay) {
        nc_control_as_claim(o)->sent_t_usec = w->relay.t_usec;
        nc_control_relay_action(nc_control_as_claim(o), &w->relay, a);
    } else {
        *a = w->action;
        w->action = (struct nc_control_action){0};
    }
    start_write(c, o, a->verb, w);
    count(c, o);
    nc_control_rate_spend(o, now_usec);
    o->write.sent_rv = o->rv;
    free(a->name);
    free(a->uid);
    a->id = c->last_id;
    a->what = o->kind;
    a->name = nc_strdup(o->name);
    a->uid = nc_strdup(o->uid);
    a->is_relay = w->is_relay;
    c->counts.requested[a->verb]++;
}

static struct control_queue *queue_of(struct nc_control *c, const struct want *w) {
    if (w->is_relay)
        return &c->relays;
    if (w->action.verb == NC_CONTROL_INSTANCE_STATE)
        return &c->states;
    return nc_control_is_for_ec2(w->action.verb) ? &c->ends : &c->others;
}

/* The first of a queue is asked once more. */
static void serve(struct nc_control *c, struct control_queue *q, uint64_t now_usec) {
    struct control_object *o = q->first;
    struct want w = want(c, o, now_usec);

    leave_queue(o);
    if (w.is_wanted && q == &c->others && nc_control_is_for_ec2(w.action.verb))
        join_queue(c, queue_of(c, &w), o);
    else if (!w.is_wanted || is_held(c, o, now_usec, &w))
        nc_control_wake_at(c, o, w.next_usec);
    else
        send(c, o, &w, now_usec);
    action_done(&w.action);
}

static void serve_all(struct nc_control *c, uint64_t now_usec) {
    const size_t n = concurrency(c), others = n - n / 4, ends = n / 4;

    while (c->relays.n > 0 && c->n_in_flight < n)
        serve(c, &c->relays, now_usec);
    while (c->others.n > 0 && c->n_in_flight < n && c->n_in_flight - c->n_relays_in_flight < others)
        serve(c, &c->others, now_usec);
    while (c->ends.n > 0 && c->n_in_flight < n && c->n_in_flight - c->n_relays_in_flight < others
           && c->n_ends_in_flight < ends)
        serve(c, &c->ends, now_usec);
    while (c->states.n > 0 && c->n_in_flight < n && c->n_in_flight - c->n_relays_in_flight < others
           && c->n_ends_in_flight < ends && c->n_states_in_flight < NC_CONTROL_STATES_MAX)
        serve(c, &c->states, now_usec);
}

/* ---- each object that changed */

static void report_invalid_status(struct nc_control *c, struct control_node *node, struct want *w) {
    uint64_t when_usec = 0;

    if (!node->is_invalid_status_unreported || !nc_control_may_relay(c))
        return;
    if (!node->invalid_status
        || nc_control_is_ahead(node->invalid_status_usec, c->now_usec, INVALID_STATUS_EVENT_USEC))
        node->is_invalid_status_unreported = false;
    else if (nc_control_emit(c, &node->o, "InvalidDrainStatus", true,
                             "invalid annotation " NC_ANNOTATION_STATUS
                             ": ignored until it can be parsed")) {
        node->is_invalid_status_unreported = false;
        node->invalid_status_usec = c->now_usec + INVALID_STATUS_EVENT_USEC;
    } else if (!nc_control_may_emit(&node->o, c->now_usec, &when_usec))
        nc_control_sooner(&w->next_usec, when_usec);
}

/* Beside all writes: what comes of it is seen in the next drain status. */
static void request_replacements(struct nc_control *c, struct control_node *node, uint64_t now_usec,
                                 struct want *w) {
    const struct control_drain_status *s = node->drain_status;

    if (!c->rules.replaces || !c->is_relay_synced[NC_CONTROL_NODE] || !s || s->waiting <= 0
        || !s->waiting_since_usec)
        return;
    if (!nc_control_is_ahead(node->replace_usec, now_usec, NC_CONTROL_REPLACE_USEC)) {
        struct nc_control_action *a = nc_append(&c->out->v, &c->out->n);
        *a = (struct nc_control_action){.verb = NC_CONTROL_REPLACE_PODS,
                                        .what = NC_CONTROL_NODE,
                                        .name = nc_strdup(node->o.name),
                                        .uid = nc_strdup(node->o.uid),
                                        .since_usec = s->waiting_since_usec};
        node->replace_usec = now_usec + NC_CONTROL_REPLACE_USEC;
    }
    nc_control_sooner(&w->next_usec, node->replace_usec);
}

/* A moment that has passed cannot be waited for: whoever named it would be asked without end. */
static void wake_later(struct nc_control *c, struct control_object *o, uint64_t usec,
                       uint64_t now_usec) {
    nc_control_wake_at(c, o, usec > now_usec ? usec : now_usec + RECHECK_USEC);
}

static void reconcile_pool(struct nc_control *c, struct control_pool *p, uint64_t now_usec) {
    const uint64_t again_usec = p->evaluated_usec + POOL_PAUSE_USEC;
    uint64_t next_usec = UINT64_MAX;

    if (!nc_control_may_manage(c))
        return;
    if (p->evaluated_usec && p->evaluated_usec <= now_usec && now_usec < again_usec) {
        next_usec = p->o.wake_usec < again_usec ? p->o.wake_usec : again_usec;
    } else {
        p->evaluated_usec = now_usec;
        c->standalone->pool(c, p, now_usec, &next_usec);
    }
    wake_later(c, &p->o, next_usec, now_usec);
}

static void reconcile_object(struct nc_control *c, struct control_object *o, uint64_t now_usec) {
    struct want w = want(c, o, now_usec);

    if (w.is_wanted && !is_held(c, o, now_usec, &w))
        join_queue(c, queue_of(c, &w), o);
    else
        leave_queue(o);
    if (o->kind == NC_CONTROL_NODE) {
        report_invalid_status(c, nc_control_as_node(o), &w);
        nc_control_report_lifecycle(c, nc_control_as_node(o), &w.next_usec);
        request_replacements(c, nc_control_as_node(o), now_usec, &w);
        nc_control_outage_report(c, nc_control_as_node(o));
        nc_control_fit_report(c, nc_control_as_node(o));
    }
    wake_later(c, o, w.next_usec, now_usec);
    action_done(&w.action);
}

static void reconcile_one(struct nc_control *c, struct control_object *o, uint64_t now_usec) {
    switch (o->kind) {
    case NC_CONTROL_NODE:
    case NC_CONTROL_CLAIM:
        reconcile_object(c, o, now_usec);
        break;
    case NC_CONTROL_POOL:
        reconcile_pool(c, nc_control_as_pool(o), now_usec);
        break;
    case NC_CONTROL_CLASS:
    case _NC_CONTROL_KIND_MAX:
        break;
    }
}

void nc_control_reconcile(struct nc_control *c, uint64_t now_usec) {
    struct control_object *o = NULL;

    while (c->leads && c->n_heap > 0 && c->heap[0]->wake_usec <= now_usec) {
        o = c->heap[0];
        nc_control_wake_at(c, o, UINT64_MAX);
        nc_control_touch(c, o);
    }
    for (o = c->dirty.first; o; o = o->hooks[CONTROL_HOOK_DIRTY].next)
        count(c, o);
    while ((o = nc_control_pop(&c->dirty, CONTROL_HOOK_DIRTY)))
        if (c->leads)
            reconcile_one(c, o, now_usec);
    if (c->leads)
        serve_all(c, now_usec);
}

/* ---- what came of it */

void nc_control_seen(struct nc_control *c, struct control_object *o) {
    struct control_claim *claim = nc_control_as_claim(o);
    bool is_shown = o->rv >= o->write.awaited_rv;

    if (o->kind == NC_CONTROL_CLAIM) {
        is_shown |= o->write.verb == NC_CONTROL_DELETE_CLAIM && claim->deletion_usec;
        if (is_shown
            || (claim->timestamp_usec && claim->timestamp_usec <= claim->accepted_timestamp_usec))
            claim->accepted_timestamp_usec = 0;
    }
    if (is_shown)
        o->write.watch_wait_usec = 0;
    /* What we wrote ourselves before is no news. */
    if (o->write.waits_for_watch && o->rv != o->write.awaited_rv) {
        o->write.pause_usec = 0;
        o->write.waits_for_watch = false;
    }
}

/* Whoever leads now finds what was accepted on the objects. */
void nc_control_forget_in_flight(struct nc_control *c) {
    for (size_t i = 0; i < c->n_in_flight; i++)
        if (c->in_flight[i].object)
            c->in_flight[i].object->write.id = 0;
    c->n_in_flight = 0;
    c->n_relays_in_flight = 0;
    c->n_ends_in_flight = 0;
    c->n_states_in_flight = 0;
    while (c->relays.first)
        leave_queue(c->relays.first);
    while (c->others.first)
        leave_queue(c->others.first);
    while (c->ends.first)
        leave_queue(c->ends.first);
    while (c->states.first)
        leave_queue(c->states.first);
}
