/*
 * signal: self in the model: a NodeClaim, its guard, and what may be asked of it.
 *
 * The world's claim changes under faults as the Node does; the judge keeps to the prose of
 * nc/self-signal.h and knows nothing of how the daemon decides.
 */
#include "world.h"

#include "nc/str.h"

/* --- the judge */

static bool is_acted_on(const struct rules *r, enum nc_source s, uint64_t now_usec) {
    const struct nc_notice *n = &r->memory.notices[s];

    return rules_policy(r, s, now_usec) >= NC_POLICY_CORDON && n->deadline_usec
           && n->deadline_usec <= now_usec + NC_SELF_AHEAD_USEC
           && now_usec <= n->deadline_usec + NC_SELF_PAST_USEC;
}

/* The time that is written: the last moment of one of them, whichever comes first. */
static uint64_t expected_time(const struct rules *r, uint64_t now_usec) {
    static const enum nc_source sources[] = {NC_SOURCE_SPOT, NC_SOURCE_MAINTENANCE};
    uint64_t best = UINT64_MAX;

    for (unsigned i = 0; i < NC_ARRAY_SIZE(sources); i++) {
        const struct nc_notice *n = &r->memory.notices[sources[i]];
        uint64_t margin = n->is_last_moment ? 0 : r->config.margin_usec;
        if (!is_acted_on(r, sources[i], now_usec))
            continue;
        if (n->deadline_usec - margin < best)
            best = n->deadline_usec - margin;
    }
    return best;
}

void rules_judge_self(struct rules *r, const struct nc_life_action *a, uint64_t now_usec) {
    struct rules_self *s = &r->self;

    if (!r->config.signals_self)
        rules_break(r, "self-off", "nobody has configured it");
    if (s->under_way)
        rules_break(r, "self-two", "something is asked of the claim already");
    if (!r->has_node || !s->is_known)
        rules_break(r, "self-nobody", "there is no Node, or no claim");
    s->under_way = a->self;
    if (a->self == NC_SELF_PROBE)
        return;
    if (!s->is_trusted)
        rules_break(r, "self-untrusted", "the guard was not shown to be there");
    if (expected_time(r, now_usec) == UINT64_MAX)
        rules_break(r, "self-unasked", "no notice with a deadline is acted on");
    if (a->self == NC_SELF_STAMP && s->has_time)
        rules_break(r, "self-stamped", "the claim has its time already");
    if (a->self == NC_SELF_STAMP && a->time_usec != expected_time(r, now_usec))
        rules_break(r, "self-time", "another time than the last moment");
    if (a->self == NC_SELF_DELETE && s->is_deleting)
        rules_break(r, "self-twice", "the claim is deleted again");
    if (a->self == NC_SELF_DELETE && !s->has_time && s->stamps_refused < 2)
        rules_break(r, "self-order", "the claim is deleted before its time is written");
}

void rules_take_self_event(struct rules *r, const struct nc_life_event *e) {
    struct rules_self *s = &r->self;
    const struct nc_self_ended *ended = e->self;

    if (e->kind == NC_LIFE_CLAIM) {
        if (strcmp(s->uid, e->claim->uid) != 0)
            *s = (struct rules_self){0};
        memcpy(s->uid, e->claim->uid, sizeof(s->uid));
        s->is_known = true;
        s->has_time |= e->claim->has_time;
        s->is_deleting |= e->claim->is_deleting;
        return;
    }
    if (s->under_way != ended->act)
        return;
    s->under_way = NC_SELF_NONE;
    if (ended->act == NC_SELF_PROBE) {
        const struct nc_self_probe *p = &ended->probe;
        s->is_trusted = p->read == NC_SELF_ALLOWED && p->is_ours && p->foreign == NC_SELF_DENIED
                        && (p->has_time || p->stamp == NC_SELF_ALLOWED);
        s->has_time |= p->read == NC_SELF_ALLOWED && p->has_time;
        s->is_deleting |= p->read == NC_SELF_ALLOWED && p->is_deleting;
    } else if (ended->answer == NC_SELF_ALLOWED) {
        s->has_time |= ended->act == NC_SELF_STAMP;
        s->is_deleting |= ended->act == NC_SELF_DELETE;
    } else if (ended->act == NC_SELF_STAMP && ended->answer != NC_SELF_AWAY) {
        s->stamps_refused++;
    }
}

/* --- the world */

void world_bear_claim(struct world *w) {
    w->config.signals_self = world_chance(w, 40);
    w->claim = (struct world_claim){.is_guarded = world_chance(w, 85),
                                    .has_role = world_chance(w, 90),
                                    .is_ours = world_chance(w, 95)};
}

void host_show_claim(struct world *w) {
    nc_auto_free char *uid = nc_asprintf("claim-of-%.32s", w->view.uid);

    if (strcmp(uid, w->claim.uid) != 0) {
        memcpy(w->claim.uid, uid, strlen(uid) + 1);
        w->claim.has_time = w->claim.is_deleting = false;
        w->claim.number++; /* what is under way for the other is cut off */
    }
    struct nc_claim_view v = {.is_deleting = w->claim.is_deleting && world_chance(w, 50),
                              .has_time = w->claim.has_time && world_chance(w, 50)};

    memcpy(v.uid, uid, strlen(uid) + 1);
    host_post(w, &(struct nc_life_event){.kind = NC_LIFE_CLAIM, .claim = &v});
}

void host_send_self(struct world *w, const struct nc_life_action *a) {
    static const char *const names[] = {"none", "probe", "stamp", "delete"};
    struct thing_due *due =
        world_plan(w, w->now_usec + 2 * world_latency(w), THING_SELF, a->self, w->claim.number);

    due->life = w->life_number;
    world_tell(w, "-> %s the claim", names[a->self]);
}

static enum nc_self_answer try_to(const struct world *w, bool is_guarded_against) {
    if (!w->claim.has_role)
        return NC_SELF_FORBIDDEN;
    return w->claim.is_guarded && is_guarded_against ? NC_SELF_DENIED : NC_SELF_ALLOWED;
}

static void probe(struct world *w, struct nc_self_probe *p) {
    p->read = w->claim.has_role ? NC_SELF_ALLOWED : NC_SELF_FORBIDDEN;
    p->foreign = try_to(w, true);
    p->stamp = try_to(w, !w->claim.is_ours || w->claim.has_time);
    p->is_ours = w->claim.is_ours;
    p->has_time = w->claim.has_time;
    p->is_deleting = w->claim.is_deleting;
}

static enum nc_self_answer carry_out(struct world *w, enum nc_self_act act) {
    const bool is_stamp = act == NC_SELF_STAMP;
    const enum nc_self_answer answer =
        try_to(w, !w->claim.is_ours || (is_stamp && w->claim.has_time));

    if (answer != NC_SELF_ALLOWED)
        return answer;
    w->claim.has_time |= is_stamp;
    w->claim.is_deleting |= !is_stamp;
    return answer;
}

/* It gets through or not; and what got through may have no answer. */
void world_do_self(struct world *w, const struct thing_due *due) {
    struct nc_self_ended ended = {.act = (enum nc_self_act)due->a};
    if (due->b != w->claim.number)
        return;
    const bool arrives = !world_away_until(w, w->now_usec) && !world_chance(w, w->error_percent);

    if (arrives && ended.act == NC_SELF_PROBE)
        probe(w, &ended.probe);
    else if (arrives)
        ended.answer = carry_out(w, ended.act);
    if (world_chance(w, w->lost_percent))
        ended = (struct nc_self_ended){.act = ended.act};
    if (world_chance(w, 2)) /* an administrator */
        w->claim.is_guarded = !w->claim.is_guarded;
    if (w->life && due->life == w->life_number)
        host_post(w, &(struct nc_life_event){.kind = NC_LIFE_SELF, .self = &ended});
}
