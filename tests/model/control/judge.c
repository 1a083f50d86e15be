/*
 * The judge: what a controller was shown, how its writes fare, and the rules that hold for each of
 * them.
 */
#include "judge.h"

#include <stdarg.h>

#include "nc/str.h"

#define GRACE_USEC (5 * SEC)
#define BURST 20.0
#define PER_USEC (12.0 / 60e6)

struct judge *judge_new(void) {
    return nc_calloc(1, sizeof(struct judge));
}

static void forget_view(struct view *v) {
    for (unsigned i = 0; i < v->n_shown; i++)
        nc_value_free(v->shown[i].v);
    *v = (struct view){0};
}

struct judge *judge_free(struct judge *j) {
    for (unsigned p = 0; j && p < N_PROCS; p++)
        forget_view(&j->views[p]);
    free(j);
    return NULL;
}

void judge_started(struct world *w, unsigned p) {
    forget_view(&w->judge->views[p]);
}

void judge_break(struct world *w, const char *rule, const char *format, ...) {
    struct judge *j = w->judge;
    va_list ap;

    if (j->broken[0])
        return;
    (void)snprintf(j->broken, sizeof(j->broken), "%s", rule);
    va_start(ap, format);
    (void)vsnprintf(j->story, sizeof(j->story), format, ap);
    va_end(ap);
}

/* --- what is shown */

struct shown *judge_find(struct view *v, enum nc_control_kind k, const char *name) {
    for (unsigned i = 0; i < v->n_shown; i++)
        if (v->shown[i].v && v->shown[i].kind == k && nc_streq(v->shown[i].name, name))
            return &v->shown[i];
    return NULL;
}

static struct shown *by_uid(struct view *v, const char *uid) {
    for (unsigned i = 0; i < v->n_shown; i++)
        if (nc_streq(v->shown[i].uid, uid))
            return &v->shown[i];
    return NULL;
}

static struct shown *new_shown(struct view *v, enum nc_control_kind k, const char *name,
                               const char *uid) {
    struct shown *s = &v->shown[v->n_shown++];

    *s = (struct shown){.kind = k, .share = BURST};
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    (void)snprintf(s->uid, sizeof(s->uid), "%s", uid);
    return s;
}

static void take_seen(const struct world *w, struct view *v, const struct nc_control_event *e) {
    const char *name = text_at(e->object, "metadata.name"),
               *uid = text_at(e->object, "metadata.uid");
    struct shown *s = by_uid(v, uid), *other = judge_find(v, e->what, name);
    uint64_t rv = 0;

    (void)nc_parse_u64(text_at(e->object, "metadata.resourceVersion"), &rv);
    if (s && s->v && rv < s->rv)
        return;
    if (other && other != s)
        other->v = nc_value_free(other->v);
    if (!s)
        s = new_shown(v, e->what, name, uid);
    if (rv > s->rv)
        s->settled_usec = 0;
    nc_value_free(s->v);
    s->v = nc_value_copy(e->object);
    if (nc_streq(condition_of(s->v, "Ready"), "True"))
        s->unready_usec = 0;
    else if (!s->unready_usec)
        s->unready_usec = w->now_usec;
    s->rv = rv;
    if (s->kind == NC_CONTROL_NODE)
        note_ending(s);
}

static void take_gone(struct view *v, const struct nc_control_event *e) {
    struct shown *s = judge_find(v, e->what, e->name);

    if (s && (!e->uid[0] || nc_streq(s->uid, e->uid)))
        s->v = nc_value_free(s->v);
}

static void take_lead(struct view *v, bool leads) {
    v->leads = leads;
    v->n_in_flight = 0;
    for (unsigned i = 0; i < v->n_shown; i++) {
        struct shown *s = &v->shown[i];
        s->flight_id = s->pause_usec = s->settled_usec = s->failures = 0;
        s->is_delete_sent = false;
        if (!s->is_deleted)
            s->voluntary_usec = 0;
    }
}

/* --- answers */

static bool is_read(enum nc_control_verb verb) {
    return verb == NC_CONTROL_INSTANCE_STATE || verb == NC_CONTROL_GET_NODE;
}

static bool is_of_ec2(enum nc_control_verb verb) {
    return verb == NC_CONTROL_END_INSTANCE || verb == NC_CONTROL_DESCRIBE_INSTANCE
           || verb == NC_CONTROL_INSTANCE_STATE;
}

static void handle_done(struct world *w, struct shown *s, const struct pending *f) {
    s->failures = 0;
    s->pause_usec = 0;
    s->settled_usec = s->rv > s->sent_rv || is_of_ec2(f->verb) ? 0 : w->now_usec + GRACE_USEC;
    if (f->verb == NC_CONTROL_DELETE_CLAIM) {
        s->is_deleted = true;
        w->judge->relays += f->is_relay;
        w->judge->voluntary += !f->is_relay;
    }
}

static uint64_t pause_of(const struct shown *s) {
    uint64_t usec = SEC / 5;

    for (unsigned i = 1; i < s->failures && usec < 30 * SEC; i++)
        usec *= 2;
    return (usec < 30 * SEC ? usec : 30 * SEC) / 2; /* jittered, as far as we know */
}

static void take_answer(struct world *w, struct view *v, const struct nc_control_event *e) {
    for (size_t i = 0; i < v->n_in_flight; i++) {
        const struct pending f = v->in_flight[i];
        struct shown *s = &v->shown[f.shown];
        if (f.id != e->id)
            continue;
        v->in_flight[i] = v->in_flight[--v->n_in_flight];
        s->flight_id = 0;
        s->is_delete_sent = false;
        if (is_read(f.verb)) /* no write: it says nothing about the next one */
            return;
        if (e->answer == NC_CONTROL_DONE)
            handle_done(w, s, &f);
        else
            s->failures++;
        if (e->answer != NC_CONTROL_DONE && !s->is_deleted)
            s->voluntary_usec = 0;
        if (e->answer == NC_CONTROL_REFUSED || e->answer == NC_CONTROL_UNAVAILABLE)
            s->pause_usec =
                w->now_usec
                + (e->retry_after_usec > pause_of(s) ? e->retry_after_usec : pause_of(s));
        return;
    }
}

void judge_event(struct world *w, unsigned p, const struct nc_control_event *e) {
    struct view *v = &w->judge->views[p];

    switch (e->kind) {
    case NC_CONTROL_MODE:
        v->mode = e->mode;
        memset(v->is_synced, 0, sizeof(v->is_synced));
        break;
    case NC_CONTROL_LEAD:
        take_lead(v, e->leads);
        break;
    case NC_CONTROL_SEEN:
        take_seen(w, v, e);
        break;
    case NC_CONTROL_GONE:
        take_gone(v, e);
        break;
    case NC_CONTROL_SYNCED:
        v->is_synced[e->what] = true;
        if (e->what == NC_CONTROL_NODE || e->what == NC_CONTROL_CLAIM)
            v->is_relay_synced[e->what == NC_CONTROL_CLAIM] = true;
        break;
    case NC_CONTROL_ANSWER:
        take_answer(w, v, e);
        break;
    case NC_CONTROL_RULES:
    case NC_CONTROL_BOOT_FAILURE:
    case NC_CONTROL_TICK:
    case _NC_CONTROL_EVENT_MAX:
        break;
    }
}

/* --- every write */

static void judge_when(struct world *w, const struct view *v, const struct nc_control_action *a,
                       bool is_outage) {
    const bool is_gate = judge_is_gate(a);
    size_t others = 0;

    if (!v->leads)
        judge_break(w, "leads", "%s %s while not leading", nc_control_verb_name(a->verb), a->name);
    if (!v->is_relay_synced[0] || (!v->is_relay_synced[1] && !is_gate))
        judge_break(w, "synced", "%s %s before both lists", nc_control_verb_name(a->verb), a->name);
    if (!a->is_relay && !is_outage && !is_gate && v->mode == NC_CONTROL_STANDALONE
        && (!v->is_synced[NC_CONTROL_NODE] || !v->is_synced[NC_CONTROL_CLAIM]
            || !v->is_synced[NC_CONTROL_POOL]))
        judge_break(w, "synced", "%s %s before all lists", nc_control_verb_name(a->verb), a->name);
    for (size_t i = 0; i < v->n_in_flight; i++)
        others += !v->in_flight[i].is_relay;
    if (v->n_in_flight >= w->rules.max_in_flight
        || (!a->is_relay && others >= w->rules.max_in_flight - w->rules.max_in_flight / 4))
        judge_break(w, "places", "%s %s as one of %zu", nc_control_verb_name(a->verb), a->name,
                    v->n_in_flight + 1);
}

static void share_of(struct world *w, struct shown *s) {
    if (s->rate_usec)
        s->share += (double)(w->now_usec - s->rate_usec) * PER_USEC;
    if (s->share > BURST)
        s->share = BURST;
    s->rate_usec = w->now_usec;
    s->share -= 1;
    if (s->share < -1.01)
        judge_break(w, "share", "%s has had more than its share", s->name);
}

/* What the relay has done it knows by itself; its pauses are those of one verb, and its own. */
static bool is_paused(const struct world *w, const struct shown *s,
                      const struct nc_control_action *a) {
    return w->now_usec < s->pause_usec && a->is_relay == s->was_relay
           && (!a->is_relay || a->verb == s->verb);
}

static void judge_turn(struct world *w, struct shown *s, const struct nc_control_action *a) {
    if (s->flight_id)
        judge_break(w, "one-at-a-time", "%s %s: another write of it is under way",
                    nc_control_verb_name(a->verb), a->name);
    if (is_read(a->verb)) {
        share_of(w, s);
        return;
    }
    if (is_paused(w, s, a))
        judge_break(w, "pause", "%s %s %.3f s before its pause is over",
                    nc_control_verb_name(a->verb), a->name,
                    (double)(s->pause_usec - w->now_usec) / 1e6);
    if (!a->is_relay && w->now_usec < s->settled_usec)
        judge_break(w, "settle", "%s %s before anything of the last write was shown",
                    nc_control_verb_name(a->verb), a->name);
    if (a->is_relay != s->was_relay || a->verb != s->verb) {
        s->failures = 0;
        s->pause_usec = 0; /* it was of the verb that failed */
    }
    s->verb = a->verb;
    s->was_relay = a->is_relay;
    share_of(w, s);
}

static void judge_body(struct world *w, const struct shown *s, const struct nc_control_action *a) {
    static const char *const lists[] = {"metadata.finalizers", "metadata.ownerReferences",
                                        "spec.taints", "status.conditions"};
    const bool is_delete = a->verb == NC_CONTROL_DELETE_CLAIM || a->verb == NC_CONTROL_DELETE_NODE;

    if (!nc_streq(a->uid, s->uid))
        judge_break(w, "uid", "%s %s: for another one", nc_control_verb_name(a->verb), a->name);
    if (is_of_ec2(a->verb) || is_read(a->verb))
        return;
    if (!nc_streq(text_at(a->body, is_delete ? "preconditions.uid" : "metadata.uid"), s->uid))
        judge_break(w, "uid", "%s %s: without its uid", nc_control_verb_name(a->verb), a->name);
    for (size_t i = 0; i < NC_ARRAY_SIZE(lists); i++)
        if (nc_value_path(a->body, lists[i]) && !text_at(a->body, "metadata.resourceVersion"))
            judge_break(w, "version", "%s %s replaces %s, whatever it is now",
                        nc_control_verb_name(a->verb), a->name, lists[i]);
}

void judge_action(struct world *w, unsigned p, const struct nc_control_action *a) {
    struct view *v = &w->judge->views[p];
    struct shown *s = judge_find(v, a->what, a->name);
    const bool is_outage = s && judge_is_outage(s, a);

    if (a->verb == NC_CONTROL_EMIT_EVENT) {
        if (!v->leads)
            judge_break(w, "leads", "an Event while not leading");
        return;
    }
    w->judge->writes += !is_read(a->verb);
    judge_when(w, v, a, is_outage);
    if (!s) {
        judge_break(w, "target", "%s %s: there is none", nc_control_verb_name(a->verb), a->name);
        return;
    }
    judge_body(w, s, a);
    if (a->verb == NC_CONTROL_DELETE_CLAIM && (s->is_deleted || is_deleting(s->v)))
        judge_break(w, "delete-once", "%s is being deleted", a->name);
    judge_turn(w, s, a);
    if (a->is_relay)
        judge_relay(w, v, s, a);
    else if (is_outage)
        judge_outage(w, v, s, a);
    else if (!judge_is_gate(a)) /* what it changes is judged on the server */
        judge_standalone(w, v, s, a);
    if (v->n_in_flight < MAX_IN_FLIGHT)
        v->in_flight[v->n_in_flight++] =
            (struct pending){a->id, (unsigned)(s - v->shown), a->verb, a->is_relay};
    s->flight_id = a->id;
    s->sent_rv = s->rv;
    s->is_delete_sent = a->verb == NC_CONTROL_DELETE_CLAIM;
}
