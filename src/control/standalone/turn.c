/*
 * One zone at a time (rules.zone_turn_usec): whose turn it is to be disrupted voluntarily. Rules
 * S10, S11.
 *
 * What keeps the other zones away is on the cluster: the claims that are being disrupted, and since
 * when. Only the place in the order of the zones, and since when a zone has its turn, is remembered
 * here; whoever leads next takes both from those claims.
 */
#include "nc/mem.h"
#include "standalone-priv.h"

static const char *zone_of(const struct control_claim *claim) {
    return claim->more->zone ? claim->more->zone : "";
}

static bool is_current(const struct nc_control *c, const char *zone) {
    return c->turn.zone && c->turn.led_usec == c->led_usec && strcmp(c->turn.zone, zone) == 0;
}

bool nc_standalone_has_turn(const struct standalone_view *v) {
    const struct nc_control *c = v->c;

    return !c->rules.zone_turn_usec || (c->turn.is_open && is_current(c, zone_of(v->claim)));
}

/* --- claims that are being disrupted */

static uint64_t began_usec(const struct nc_control *c, const struct control_claim *claim) {
    return claim->deletion_usec  ? claim->deletion_usec
           : claim->deleted_usec ? claim->deleted_usec
                                 : c->now_usec;
}

/* A moment that is too far ahead is of a clock that was set back since. */
static bool is_within_turn(const struct nc_control *c, uint64_t usec) {
    return usec > c->now_usec ? usec - c->now_usec < c->rules.zone_turn_usec
                              : c->now_usec - usec < c->rules.zone_turn_usec;
}

/* What is interrupted meanwhile is not voluntary any more. */
static bool is_in_progress(const struct nc_control *c, const struct control_claim *claim) {
    struct control_relay relay;

    return claim->more->disrupted && !claim->more->is_foreign && !claim->has_karpenter_finalizer
           && !nc_control_has_relay(c, claim, c->now_usec, &relay);
}

/* One that is deleted by a person, and was due anyway, cannot be told from one of ours. */
static int due_reason(const struct control_claim *claim) {
    if (!claim->deletion_usec)
        return 0;
    if (nc_standalone_expiry(claim) <= claim->deletion_usec)
        return NC_BUDGET_EXPIRED + 1;
    if (nc_standalone_is(claim, CONTROL_COND_DRIFTED))
        return NC_BUDGET_DRIFTED + 1;
    return nc_standalone_is(claim, CONTROL_COND_DISRUPTION) ? NC_BUDGET_REBALANCE + 1 : 0;
}

void nc_standalone_set_reason(const struct standalone_view *v, struct standalone_conditions *cs) {
    const int why = v->claim->more->disrupted;

    if (v->c->rules.zone_turn_usec && why && !nc_standalone_is(v->claim, CONTROL_COND_DISRUPTION))
        nc_standalone_set(cs, &(struct standalone_condition){
                                  CONTROL_COND_DISRUPTION, CONTROL_TRUE,
                                  nc_budget_reason_name((enum nc_budget_reason)(why - 1)), ""});
}

void nc_standalone_note_turn(struct nc_control *c, struct control_claim *claim) {
    struct control_claim_more *m = claim->more;

    if (!c->rules.zone_turn_usec || !m)
        return;
    if (!nc_standalone_is_leaving(claim))
        m->disrupted = 0;
    else if (!m->disrupted)
        m->disrupted = m->disrupt ? m->disrupt : due_reason(claim);
    m->waits_for_zone = m->waits_for_zone && claim->pool && !nc_standalone_is_leaving(claim);
    if (!is_in_progress(c, claim) || !is_within_turn(c, began_usec(c, claim)))
        return;
    if (is_current(c, zone_of(claim)))
        c->turn.has_begun = true;
    else
        c->turn.is_open = false;
}

/* --- all claims */

struct survey {
    bool is_held, is_awaited; /* of the current zone: something is in progress; is a candidate */
    bool is_blocked;          /* of another one: something is in progress */
    const char *next;         /* zone with candidates after the current one; NULL = none waits */
    const struct control_claim *newest; /* in progress */
    uint64_t next_usec;                 /* something in progress has had its time */
};

static struct control_claim *claim_of_link(struct control_link *l) {
    return nc_control_as_claim(
        (struct control_object *)((char *)l - offsetof(struct control_object, by_name)));
}

/* In alphabetical order, and after the last one the first one again. */
static bool is_sooner(const struct nc_control *c, const char *zone, const char *than) {
    const char *now = c->turn.zone ? c->turn.zone : "";
    const bool is_after = strcmp(zone, now) > 0;

    if (!than)
        return true;
    if (c->turn.zone && is_after != (strcmp(than, now) > 0))
        return is_after;
    return strcmp(zone, than) < 0;
}

static void survey_progress(const struct nc_control *c, const struct control_claim *claim,
                            struct survey *ret) {
    const uint64_t usec = began_usec(c, claim);

    if (!is_within_turn(c, usec))
        return;
    if (usec + c->rules.zone_turn_usec < ret->next_usec)
        ret->next_usec = usec + c->rules.zone_turn_usec;
    if (is_current(c, zone_of(claim)))
        ret->is_held = true;
    else
        ret->is_blocked = true;
    if (!ret->newest || usec > began_usec(c, ret->newest)
        || (usec == began_usec(c, ret->newest) && strcmp(zone_of(claim), zone_of(ret->newest)) < 0))
        ret->newest = claim;
}

static void survey_claim(const struct nc_control *c, const struct control_claim *claim,
                         struct survey *ret) {
    if (!claim->more)
        return;
    if (is_in_progress(c, claim)) {
        survey_progress(c, claim, ret);
    } else if (nc_standalone_is_leaving(claim)
               || (!claim->more->waits_for_zone && !claim->more->disrupt)) {
        return;
    } else if (is_current(c, zone_of(claim))) {
        ret->is_awaited = true;
    } else if (is_sooner(c, zone_of(claim), ret->next)) {
        ret->next = zone_of(claim);
    }
}

static struct survey survey(const struct nc_control *c) {
    const struct control_table *t = &c->names[NC_CONTROL_CLAIM];
    struct survey s = {.next_usec = UINT64_MAX};

    for (size_t i = 0; i < t->room; i++)
        for (struct control_link *l = t->slots[i]; l; l = l->next)
            survey_claim(c, claim_of_link(l), &s);
    return s;
}

/* --- the turn */

static void pass_to(struct nc_control *c, const char *zone) {
    char *copy = nc_strdup(zone);

    free(c->turn.zone);
    c->turn.zone = copy;
    c->turn.since_usec = c->now_usec;
    c->turn.has_begun = false;
}

/* Of a new leader: the zone of what began last has its turn since the first of these began. */
static void resume(struct nc_control *c) {
    const struct control_table *t = &c->names[NC_CONTROL_CLAIM];
    const struct survey s = survey(c);

    free(nc_steal(&c->turn.zone));
    c->turn = (struct control_turn){.led_usec = c->led_usec};
    if (!s.newest)
        return;
    pass_to(c, zone_of(s.newest));
    c->turn.has_begun = true;
    for (size_t i = 0; i < t->room; i++)
        for (struct control_link *l = t->slots[i]; l; l = l->next) {
            const struct control_claim *claim = claim_of_link(l);
            if (claim->more && is_in_progress(c, claim) && is_current(c, zone_of(claim))
                && is_within_turn(c, began_usec(c, claim))
                && began_usec(c, claim) < c->turn.since_usec)
                c->turn.since_usec = began_usec(c, claim);
        }
}

static bool is_over(const struct nc_control *c, const struct survey *s) {
    const bool may_begin = s->is_awaited && !c->turn.has_begun;

    return !c->turn.zone || (!s->is_held && !may_begin) || !is_within_turn(c, c->turn.since_usec);
}

/* What takes longer than a turn is not waited for, and that is reported where it matters. */
static void report_exceeded(struct nc_control *c) {
    const struct control_table *t = &c->names[NC_CONTROL_CLAIM];

    for (size_t i = 0; i < t->room; i++)
        for (struct control_link *l = t->slots[i]; l; l = l->next) {
            struct control_claim *claim = claim_of_link(l);
            if (!claim->more || claim->more->is_turn_reported || !is_in_progress(c, claim)
                || is_within_turn(c, began_usec(c, claim)) || is_current(c, zone_of(claim)))
                continue;
            claim->more->is_turn_reported = true;
            nc_control_emit_always(
                c, &claim->o, "ZoneTurnExceeded", true,
                nc_asprintf("Disruption in zone \"%s\" takes longer than the turn of a zone "
                            "(%llu s): zone \"%s\" begins without waiting for it",
                            zone_of(claim), (unsigned long long)(c->rules.zone_turn_usec / 1000000),
                            c->turn.zone));
        }
}

void nc_standalone_turn(struct nc_control *c, uint64_t *next_usec) {
    if (c->turn.led_usec != c->led_usec)
        resume(c);
    bool was_open = c->turn.is_open;
    struct survey s = survey(c);

    if (s.next && is_over(c, &s)) {
        pass_to(c, s.next);
        was_open = false;
        s = survey(c);
    }
    if (!s.is_held && (s.is_blocked || !s.next)) /* it has not begun, or nobody waits */
        c->turn.since_usec = c->now_usec;
    c->turn.is_open = c->turn.zone && !s.is_blocked;
    if (c->turn.is_open && !was_open)
        nc_control_touch_kind(c, NC_CONTROL_POOL);
    if (c->turn.is_open && s.is_awaited)
        report_exceeded(c);
    if (s.next)
        nc_control_sooner(next_usec, c->turn.since_usec + c->rules.zone_turn_usec);
    if (s.next || s.is_awaited)
        nc_control_sooner(next_usec, s.next_usec);
}
