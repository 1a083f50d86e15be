/*
 * The wire from a node's notice to its NodeClaim: when a drain status is to be carried there, what
 * is missing there, and what follows from the answers. Rules C4 to C6.
 *
 * Bounds against a hostile node, or one whose clock is wrong: the deadline is taken as an absolute
 * time, so a node that lies or is skewed ends its own claim earlier or later, never another one;
 * and beyond an hour ahead or ten minutes past nothing is done at all.
 */
#include "nc/mem.h"
#include "nc/names.h"
#include "nc/time.h"
#include "step.h"

#define TIMESTAMP_TRIES 4u /* that are waited for before the DELETE: some three seconds */

/* As the agent does (N2), by what was left when it stated this deadline: by its own clock, whose
 * fraction of a second is not stated, so that Karpenter is never earlier. */
static uint64_t timestamp_of(const struct nc_control *c, const struct control_drain_status *w) {
    const uint64_t from = w->noticed_usec ? w->noticed_usec + NC_SEC_USEC : 0;
    const uint64_t left = w->deadline_usec > from ? w->deadline_usec - from : 0;
    const uint64_t margin = nc_margin_usec(c->rules.margin_usec, left);
    const uint64_t t = w->deadline_usec > margin ? w->deadline_usec - margin : 0;

    return t < NC_SEC_USEC ? NC_SEC_USEC : t - t % NC_SEC_USEC;
}

bool nc_control_has_relay(const struct nc_control *c, const struct control_claim *claim,
                          uint64_t now_usec, struct control_relay *ret) {
    const struct control_node *node = nc_control_node_of(c, claim);
    const struct control_drain_status *w = node ? node->drain_status : NULL;

    *ret = (struct control_relay){.next_usec = UINT64_MAX, .node = node};
    if (!w || w->source < 0 || !nc_sources[w->source].is_relayed || w->phase == CONTROL_PHASE_NONE
        || w->policy != NC_POLICY_DRAIN || w->returns || w->deadline_usec == 0
        || now_usec > w->deadline_usec + NC_CONTROL_RELAY_PAST_USEC)
        return false;
    if (w->deadline_usec > now_usec + NC_CONTROL_RELAY_AHEAD_USEC) {
        ret->next_usec = w->deadline_usec - NC_CONTROL_RELAY_AHEAD_USEC;
        return false;
    }
    ret->t_usec = timestamp_of(c, w);
    return true;
}

/* Is it there, or was it accepted a moment ago? */
static bool needs_timestamp(const struct control_claim *claim, uint64_t t_usec, uint64_t now_usec) {
    if (claim->timestamp_usec && claim->timestamp_usec <= t_usec)
        return false;
    return !claim->accepted_timestamp_usec || claim->accepted_timestamp_usec > t_usec
           || now_usec >= claim->o.write.watch_wait_usec;
}

static enum nc_control_verb verb_of(const struct nc_control *c, const struct control_claim *claim,
                                    uint64_t now_usec, struct control_relay *r) {
    const bool needs_delete = !nc_control_is_deleting(claim);
    const bool is_timestamp_missing = needs_timestamp(claim, r->t_usec, now_usec);
    const uint64_t since = claim->deleted_usec ? claim->deleted_usec : claim->deletion_usec;

    if (c->rules.order == NC_CONTROL_DELETE_FIRST) {
        if (needs_delete)
            return NC_CONTROL_DELETE_CLAIM;
        if (is_timestamp_missing && now_usec < since + c->rules.timestamp_after_usec) {
            r->next_usec = since + c->rules.timestamp_after_usec;
            return 0;
        }
    } else if (needs_delete
               && (!is_timestamp_missing || claim->is_timestamp_refused
                   || claim->timestamp_tries >= TIMESTAMP_TRIES)) {
        return NC_CONTROL_DELETE_CLAIM;
    }
    return is_timestamp_missing ? NC_CONTROL_SET_TIMESTAMP : 0;
}

/* Our termination timestamp on a claim that lives on would be the hard end of whatever deletes it
 * later. It is stale by what the Node states: one that is not known yet states nothing. */
static bool has_stale_timestamp(const struct control_claim *claim) {
    return claim->our_timestamp_usec && claim->timestamp_usec == claim->our_timestamp_usec
           && !nc_control_is_deleting(claim);
}

bool nc_control_relay(struct nc_control *c, struct control_claim *claim, uint64_t now_usec,
                      struct control_relay *ret) {
    if (!nc_control_has_relay(c, claim, now_usec, ret)) {
        claim->relay_usec = 0;
        claim->timestamp_tries = 0;
        claim->is_timestamp_refused = false;
        if (ret->node && has_stale_timestamp(claim))
            ret->verb = NC_CONTROL_SET_TIMESTAMP;
        return ret->verb != 0;
    }
    if (!claim->relay_usec)
        claim->relay_usec = now_usec;
    ret->verb = verb_of(c, claim, now_usec, ret);
    return ret->verb != 0;
}

void nc_control_relay_action(const struct control_claim *claim, const struct control_relay *r,
                             struct nc_control_action *ret) {
    struct nc_value *annotations = NULL;
    char time[32];

    ret->verb = r->verb;
    if (r->verb == NC_CONTROL_DELETE_CLAIM) {
        ret->body = nc_control_delete_options(&claim->o);
        return;
    }
    nc_time_format(r->t_usec, time);
    annotations = nc_value_new_map();
    nc_value_set_text(annotations, NC_ANNOTATION_TERMINATION_TIMESTAMP, r->t_usec ? time : NULL);
    nc_value_set_text(annotations, NC_ANNOTATION_OUR_TIMESTAMP, r->t_usec ? time : NULL);
    ret->body = nc_control_patch(&claim->o, false);
    nc_value_set(nc_value_get(ret->body, "metadata"), "annotations", annotations);
}

/* ---- answers */

static void report_relayed(struct nc_control *c, struct control_claim *claim, uint64_t now_usec) {
    struct control_relay r;
    char deadline[32], t[32];

    if (claim->was_reported)
        return;
    claim->was_reported = true;
    if (!nc_control_has_relay(c, claim, now_usec, &r)) {
        nc_control_emit_always(c, &claim->o, "InterruptionRelayed", false,
                               nc_strdup("An interruption was relayed, and withdrawn since"));
        return;
    }
    nc_time_format(r.node->drain_status->deadline_usec, deadline);
    nc_time_format(r.t_usec, t);
    const bool has_time = !needs_timestamp(claim, r.t_usec, now_usec)
                          || c->rules.order == NC_CONTROL_DELETE_FIRST; /* it follows */
    nc_control_emit_always(c, &claim->o, "InterruptionRelayed", false,
                           nc_asprintf("Node %s ends at %s (%s): the NodeClaim is deleted %s%s",
                                       r.node->o.name, deadline,
                                       nc_source_name((enum nc_source)r.node->drain_status->source),
                                       has_time ? "by " : "without a time", has_time ? t : ""));
}

static void report_refused(struct nc_control *c, struct control_claim *claim,
                           enum nc_control_verb verb, const char *why) {
    const bool is_delete = verb == NC_CONTROL_DELETE_CLAIM;
    bool *was_reported =
        is_delete ? &claim->was_delete_refusal_reported : &claim->was_timestamp_refusal_reported;

    if (*was_reported)
        return;
    *was_reported = true;
    nc_control_emit_always(
        c, &claim->o, "RelayRefused", true,
        nc_asprintf(
            "The API server refuses %s of this NodeClaim: its interruption is relayed %s%s%s",
            is_delete ? "the deletion" : "the termination timestamp",
            is_delete ? "later, or not at all" : "without its time", why ? ": " : "",
            why ? why : ""));
}

static void timestamp_answered(struct nc_control *c, struct control_claim *claim,
                               const struct nc_control_event *e) {
    if (e->answer == NC_CONTROL_DONE) {
        claim->our_timestamp_usec = claim->sent_t_usec;
        claim->accepted_timestamp_usec = claim->sent_t_usec;
        claim->timestamp_tries = 0;
        claim->is_timestamp_refused = false;
        if (nc_control_is_deleting(claim))
            report_relayed(c, claim, e->now_usec);
        return;
    }
    if (claim->timestamp_tries < TIMESTAMP_TRIES)
        claim->timestamp_tries++;
    if (e->answer == NC_CONTROL_REFUSED) {
        claim->is_timestamp_refused = true;
        report_refused(c, claim, NC_CONTROL_SET_TIMESTAMP, e->message);
    }
}

static void delete_answered(struct nc_control *c, struct control_claim *claim, uint64_t now_usec) {
    const bool is_timed = claim->relay_usec && now_usec > claim->relay_usec;

    nc_histogram_add(&c->counts.relays, is_timed ? now_usec - claim->relay_usec : 0);
    report_relayed(c, claim, now_usec);
}

void nc_control_relay_answered(struct nc_control *c, struct control_claim *claim,
                               enum nc_control_verb verb, const struct nc_control_event *e) {
    if (verb == NC_CONTROL_SET_TIMESTAMP)
        timestamp_answered(c, claim, e);
    else if (e->answer == NC_CONTROL_DONE)
        delete_answered(c, claim, e->now_usec);
    else if (e->answer == NC_CONTROL_REFUSED)
        report_refused(c, claim, verb, e->message);
}
