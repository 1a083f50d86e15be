/*
 * `signal: self`, decided: is the guard there, and what is the next step of handing over.
 *
 * Knows what is in force and whether it was signalled; must not hold up anything else. The claim
 * itself says what was done already: so a restart between the two writes goes on with the second.
 */
#include "lifecycle-priv.h"
#include "nc/backoff.h"

#define STAMPS_MAX 2 /* refusals of it, before the claim is deleted without */
#define PROBES_MAX 5 /* without an answer, before an idle node asks seldom */

static const struct nc_backoff retries = {.first_usec = NC_LIFE_SECOND_USEC / 5,
                                          .max_usec = 10 * NC_LIFE_SECOND_USEC};

static const char *const state_names[] = {
    [NC_SELF_OFF] = "off",         [NC_SELF_UNKNOWN] = "unknown", [NC_SELF_TRUSTED] = "trusted",
    [NC_SELF_REFUSED] = "refused", [NC_SELF_STAMPED] = "stamped", [NC_SELF_HANDED] = "handed-over",
};

const char *nc_self_state_name(enum nc_self_state s) {
    return state_names[s];
}

static enum nc_self_state judge_read(const struct nc_self_probe *p, const char **ret_why) {
    switch (p->read) {
    case NC_SELF_AWAY:
        *ret_why = "the NodeClaim could not be read";
        return NC_SELF_UNKNOWN;
    case NC_SELF_MISSING:
        *ret_why = "the NodeClaim is gone";
        return NC_SELF_UNKNOWN;
    case NC_SELF_DENIED:
    case NC_SELF_FORBIDDEN:
        *ret_why = "this node may not read its NodeClaim: the ClusterRole is missing";
        return NC_SELF_REFUSED;
    case NC_SELF_ALLOWED:
        break;
    }
    if (p->is_ours)
        return NC_SELF_TRUSTED;
    *ret_why = "the NodeClaim's status.nodeName is not this Node";
    return NC_SELF_REFUSED;
}

static enum nc_self_state judge_foreign(const struct nc_self_probe *p, const char **ret_why) {
    switch (p->foreign) {
    case NC_SELF_AWAY:
    case NC_SELF_MISSING:
        *ret_why = "the dry run that the guard policy must refuse had no answer";
        return NC_SELF_UNKNOWN;
    case NC_SELF_ALLOWED:
        *ret_why = "the guard policy is missing: this node could change anything of its NodeClaim";
        return NC_SELF_REFUSED;
    case NC_SELF_FORBIDDEN:
        *ret_why = "this node may not patch its NodeClaim, and no policy says so: the ClusterRole "
                   "is missing";
        return NC_SELF_REFUSED;
    case NC_SELF_DENIED:
        break;
    }
    return NC_SELF_TRUSTED;
}

/* A claim that has its time already is not to get another: then the policy refuses that too. */
static enum nc_self_state judge_stamp(const struct nc_self_probe *p, const char **ret_why) {
    if (p->has_time || p->stamp == NC_SELF_ALLOWED)
        return NC_SELF_TRUSTED;
    if (p->stamp == NC_SELF_AWAY || p->stamp == NC_SELF_MISSING) {
        *ret_why = "the dry run of the termination time had no answer";
        return NC_SELF_UNKNOWN;
    }
    *ret_why = "the policy does not let this node write the termination time";
    return NC_SELF_REFUSED;
}

enum nc_self_state nc_self_judge(const struct nc_self_probe *p, const char **ret_why) {
    enum nc_self_state s;

    *ret_why = "";
    s = judge_read(p, ret_why);
    if (s == NC_SELF_TRUSTED)
        s = judge_foreign(p, ret_why);
    if (s == NC_SELF_TRUSTED)
        s = judge_stamp(p, ret_why);
    return s;
}

/* --- what is known */

void nc_life_take_claim(struct nc_life *l, const struct nc_claim_view *v) {
    struct nc_life_self *s = &l->self;

    if (strcmp(s->claim.uid, v->uid) != 0) {
        *s = (struct nc_life_self){.verdict = NC_SELF_UNKNOWN, .why = "", .claim = *v};
        return;
    }
    s->claim.is_deleting |= v->is_deleting; /* what we have done ourselves is not shown to all */
    s->claim.has_time |= v->has_time;
}

static void take_probe(struct nc_life *l, const struct nc_self_probe *p) {
    struct nc_life_self *s = &l->self;

    s->verdict = nc_self_judge(p, &s->why);
    s->judged_usec = l->now_usec;
    s->is_gone = p->read == NC_SELF_MISSING;
    if (p->read == NC_SELF_ALLOWED) {
        s->claim.is_deleting = p->is_deleting;
        s->claim.has_time = p->has_time;
    }
    s->attempts = s->verdict == NC_SELF_UNKNOWN ? s->attempts + 1 : 0;
}

/* Refused in earnest, though no dry run was: what has changed is looked at. */
static void take_refusal(struct nc_life *l, enum nc_self_act act) {
    struct nc_life_self *s = &l->self;

    s->attempts++;
    s->judged_usec = l->now_usec;
    if (act == NC_SELF_STAMP) {
        s->verdict = NC_SELF_UNKNOWN;
        s->why = "the termination time was refused";
        s->stamps_refused++;
    } else {
        s->verdict = NC_SELF_REFUSED;
        s->why = "this node may not delete its NodeClaim";
    }
}

static void take_answer(struct nc_life *l, enum nc_self_act act, enum nc_self_answer answer,
                        struct nc_life_actions *out) {
    struct nc_life_self *s = &l->self;

    switch (answer) {
    case NC_SELF_ALLOWED:
        s->attempts = 0;
        s->claim.has_time |= act == NC_SELF_STAMP;
        s->claim.is_deleting |= act == NC_SELF_DELETE;
        s->has_stamped |= act == NC_SELF_STAMP;
        if (act == NC_SELF_DELETE)
            nc_life_say(NC_LIFE_SAYS_HANDED, "HandedToKarpenter",
                        nc_strdup("Karpenter is told: the NodeClaim is deleted, with the time by "
                                  "which its pods must be gone"),
                        out);
        break;
    case NC_SELF_MISSING:
        s->is_gone = true;
        break;
    case NC_SELF_DENIED:
    case NC_SELF_FORBIDDEN:
        take_refusal(l, act);
        break;
    case NC_SELF_AWAY:
        s->attempts++;
        break;
    }
}

void nc_life_self_ended(struct nc_life *l, const struct nc_self_ended *e,
                        struct nc_life_actions *out) {
    struct nc_life_self *s = &l->self;

    if (s->under_way == NC_SELF_NONE || s->under_way != e->act)
        return;
    s->under_way = NC_SELF_NONE;
    if (e->act == NC_SELF_PROBE)
        take_probe(l, &e->probe);
    else
        take_answer(l, e->act, e->answer, out);
    s->next_usec =
        s->attempts
            ? nc_life_later(l->now_usec, nc_backoff_pause(&retries, s->attempts, l->rules.seed))
            : 0;
}

/* --- what is wanted */

static uint64_t time_of(struct nc_life *l, enum nc_source source) {
    const struct nc_notice *n = &l->sources[source].notice;

    if (nc_life_policy(l, source) < NC_POLICY_CORDON || !n->deadline_usec
        || l->now_usec > nc_life_later(n->deadline_usec, NC_SELF_PAST_USEC)
        || (n->deadline_usec > NC_SELF_AHEAD_USEC
            && !nc_life_has_come(l, n->deadline_usec - NC_SELF_AHEAD_USEC)))
        return 0;
    return nc_life_last_moment(l, source);
}

/* By when the pods must be gone; 0 = there is nothing to hand over. */
static uint64_t wanted_time(struct nc_life *l) {
    const uint64_t spot_usec = time_of(l, NC_SOURCE_SPOT);
    const uint64_t other_usec = time_of(l, NC_SOURCE_MAINTENANCE);

    return spot_usec && (!other_usec || spot_usec < other_usec) ? spot_usec : other_usec;
}

static bool is_stale(struct nc_life *l, bool is_needed) {
    const struct nc_life_self *s = &l->self;

    if (s->verdict == NC_SELF_UNKNOWN)
        return is_needed || s->attempts < PROBES_MAX
               || nc_life_has_come(l, nc_life_later(s->judged_usec, NC_SELF_IDLE_USEC));
    if (!is_needed)
        return s->verdict == NC_SELF_REFUSED
               && nc_life_has_come(l, nc_life_later(s->judged_usec, NC_SELF_IDLE_USEC));
    return nc_life_has_come(l, nc_life_later(s->judged_usec, s->verdict == NC_SELF_TRUSTED
                                                                 ? NC_SELF_TRUST_USEC
                                                                 : NC_SELF_REFUSED_USEC));
}

static enum nc_self_act wanted_act(struct nc_life *l, uint64_t t_usec) {
    const struct nc_life_self *s = &l->self;

    if (is_stale(l, t_usec != 0))
        return NC_SELF_PROBE;
    if (!t_usec || s->verdict != NC_SELF_TRUSTED || !nc_life_may_cordon(l))
        return NC_SELF_NONE;
    return !s->claim.has_time && s->stamps_refused < STAMPS_MAX ? NC_SELF_STAMP : NC_SELF_DELETE;
}

/* Once when it is found, and once more where it would have been needed. */
static void say_refusal(struct nc_life *l, bool is_needed, struct nc_life_actions *out) {
    struct nc_life_self *s = &l->self;

    if (is_needed && !s->was_needed)
        s->said = NULL;
    s->was_needed = is_needed;
    if (s->verdict != NC_SELF_REFUSED || s->said == s->why)
        return;
    s->said = s->why;
    nc_life_say(NC_LIFE_SAYS_SELF_REFUSED, "SignalSelfRefused",
                nc_asprintf("signal: self is not used, %s", s->why), out);
}

static bool is_over(const struct nc_life_self *s) {
    return s->is_gone
           || (s->claim.is_deleting && (s->claim.has_time || s->stamps_refused >= STAMPS_MAX));
}

void nc_life_hand_over(struct nc_life *l, struct nc_life_actions *out) {
    struct nc_life_self *s = &l->self;
    struct nc_life_action *a;
    enum nc_self_act act;
    uint64_t t_usec;

    if (!l->rules.signals_self || !l->node.exists || l->is_resuming || !s->claim.uid[0])
        return;
    t_usec = wanted_time(l);
    say_refusal(l, t_usec != 0, out);
    if (s->under_way || is_over(s))
        return;
    act = wanted_act(l, t_usec);
    if (act == NC_SELF_NONE || !nc_life_has_come(l, s->next_usec))
        return;
    s->under_way = act;
    a = nc_life_act(out, NC_ACT_SELF);
    a->self = act;
    a->time_usec = t_usec ? t_usec : l->now_usec;
}

enum nc_self_state nc_life_self_state(const struct nc_life *l, const char **ret_why) {
    const struct nc_life_self *s = &l->self;

    *ret_why = "";
    if (!l->rules.signals_self)
        return NC_SELF_OFF;
    if (!s->claim.uid[0]) {
        *ret_why = "this Node belongs to no NodeClaim";
        return NC_SELF_UNKNOWN;
    }
    if (s->claim.is_deleting || s->is_gone)
        return NC_SELF_HANDED;
    if (s->has_stamped)
        return NC_SELF_STAMPED;
    *ret_why = s->why;
    return s->verdict;
}
