/*
 * What came of a write: when it is tried again, what is waited for, who is told. Rules C5, C8.
 */
#include "fit.h"
#include "lifecycle-action.h"
#include "nc/backoff.h"
#include "nc/str.h"
#include "out-of-service.h"
#include "step.h"

static const struct nc_backoff pauses = {.first_usec = 200000, .max_usec = 30000000};

static uint64_t version_of(const struct nc_value *object, const struct control_object *o) {
    const struct nc_value *meta = nc_value_get(object, "metadata");
    const char *text = nc_value_get_string(meta, "resourceVersion");
    uint64_t rv = 0;

    if (!text || !nc_value_says(meta, "uid", o->uid) || nc_parse_u64(text, &rv) < 0)
        return o->write.sent_rv + 1;
    return rv;
}

static void accepted(struct control_object *o, const struct nc_control_event *e) {
    /* Whichever half of us requested it: never another one, and budgets count it at once. */
    if (o->write.verb == NC_CONTROL_DELETE_CLAIM)
        nc_control_as_claim(o)->deleted_usec = e->now_usec ? e->now_usec : 1;
    o->write.attempts = 0;
    o->write.pause_usec = 0;
    o->write.waits_for_watch = false;
    o->write.awaited_rv = version_of(e->object, o);
    /* The watch may have been faster than the answer; and none shows what EC2 did: that
     * is known from its answer. */
    o->write.watch_wait_usec =
        o->rv >= o->write.awaited_rv || nc_control_is_for_ec2((enum nc_control_verb)o->write.verb)
            ? 0
            : e->now_usec + NC_CONTROL_WATCH_WAIT_USEC;
}

static void failed(struct nc_control *c, struct control_object *o,
                   const struct nc_control_event *e) {
    uint64_t pause_usec = 0;

    if (o->write.attempts < UINT16_MAX)
        o->write.attempts++;
    pause_usec = nc_backoff_pause(&pauses, o->write.attempts, c->rules.seed ^ o->by_name.hash);
    o->write.pause_usec = e->now_usec + nc_control_pause(pause_usec, e->retry_after_usec);
    o->write.waits_for_watch = e->answer == NC_CONTROL_MISSING || e->answer == NC_CONTROL_CONFLICT;
}

static void apply_answer(struct nc_control *c, const struct control_pending *f,
                         const struct nc_control_event *e) {
    struct control_object *o = f->object;

    if (f->verb == NC_CONTROL_DESCRIBE_INSTANCE && e->answer == NC_CONTROL_DONE)
        nc_control_set_dns_name(nc_control_as_claim(o), e->name);
    if (!nc_control_is_get(f->verb) && e->answer == NC_CONTROL_DONE)
        accepted(o, e);
    else if (!nc_control_is_get(f->verb))
        failed(c, o, e);
    if (f->outage)
        nc_control_outage_answered(c, nc_control_as_node(o), f->outage, e);
    else if (f->is_fit)
        nc_control_fit_answered(c, nc_control_as_node(o), f->verb, e);
    else if (f->is_relay)
        nc_control_relay_answered(c, nc_control_as_claim(o), f->verb, e);
    else if (c->standalone)
        c->standalone->answered(c, o, f->verb, e->answer, e->now_usec);
}

void nc_control_answered(struct nc_control *c, const struct nc_control_event *e) {
    struct control_pending f = {0};
    size_t i = 0;

    while (i < c->n_in_flight && c->in_flight[i].id != e->id)
        i++;
    if (i == c->n_in_flight || e->answer < NC_CONTROL_DONE || e->answer > NC_CONTROL_UNAVAILABLE)
        return;
    f = c->in_flight[i];
    c->in_flight[i] = c->in_flight[--c->n_in_flight];
    c->n_relays_in_flight -= f.is_relay;
    c->n_ends_in_flight -= nc_control_is_for_ec2(f.verb);
    c->n_states_in_flight -= f.verb == NC_CONTROL_INSTANCE_STATE;
    c->counts.answered[f.verb][e->answer]++;
    if (f.verb == NC_CONTROL_INSTANCE_STATE)
        nc_control_outage_pause(c, e);
    if (!f.object)
        return;
    f.object->write.id = 0;
    if (nc_control_is_of_lifecycle(f.object, f.verb)) {
        nc_control_lifecycle_answered(c, nc_control_as_node(f.object), f.verb, e);
        nc_control_touch(c, f.object);
        return;
    }
    apply_answer(c, &f, e);
    nc_control_touch_around(c, f.object);
}
