/*
 * `signal: self`: a node that hands its own deadline to Karpenter, without any controller.
 *
 * The node writes the termination time on its own NodeClaim and deletes it; nobody else's. Both are
 * powers that only a guard makes safe (deploy/: a ValidatingAdmissionPolicy), so they are never
 * used before two dry runs have shown that the guard is there: one that it must refuse, one that it
 * must allow. Pure: what is asked and what the answers mean; nc/lifecycle.h says when.
 *
 * The rules, in the words that the tests use:
 *  - The claim is the one that the Node's ownerReference names, by name and uid, and whose
 *    status.nodeName is our Node.
 *  - PROBE reads the claim and asks both dry runs, beside each other; none of it changes anything.
 *    Once a claim is known; again where the last answer is older than NC_SELF_TRUST_USEC when it is
 *    needed (a refusal: NC_SELF_REFUSED_USEC; while nothing is announced: NC_SELF_IDLE_USEC).
 *  - It is needed from the moment that a spot or maintenance notice with a deadline is acted on
 *    (cordon or drain, within NC_SELF_AHEAD_USEC before and NC_SELF_PAST_USEC after the deadline).
 *  - STAMP, once SIGNAL was written (or waited for long enough): the last moment, where the claim
 *    has no termination time; then DELETE, where it is not being deleted. Neither while REFUSED or
 *    UNKNOWN. A STAMP that is refused twice does not hold up the DELETE: an ending without its time
 *    is better than none. Never again once it was accepted.
 *  - No part of the drain waits for any of this.
 */
#ifndef NC_SELF_SIGNAL_H
#define NC_SELF_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>

#define NC_SELF_TRUST_USEC (300ull * 1000000)
#define NC_SELF_REFUSED_USEC (30ull * 1000000)
#define NC_SELF_IDLE_USEC (600ull * 1000000)
#define NC_SELF_AHEAD_USEC (3600ull * 1000000)
#define NC_SELF_PAST_USEC (600ull * 1000000)

/* What is known of our NodeClaim. */
struct nc_claim_view {
    char uid[64];     /* "" = our Node belongs to none */
    bool is_deleting; /* as far as it may be read */
    bool has_time;    /* it has a termination time */
};

enum nc_self_act { NC_SELF_NONE = 0, NC_SELF_PROBE, NC_SELF_STAMP, NC_SELF_DELETE };

enum nc_self_answer {
    NC_SELF_AWAY = 0,  /* no answer, or none that says anything */
    NC_SELF_ALLOWED,   /* 2xx */
    NC_SELF_DENIED,    /* refused by an admission policy */
    NC_SELF_FORBIDDEN, /* refused otherwise */
    NC_SELF_MISSING,   /* it is gone, or another one has its name */
};

/* What a PROBE has heard. */
struct nc_self_probe {
    enum nc_self_answer read, foreign, stamp; /* GET, and the two dry runs */
    bool is_ours;                             /* status.nodeName is our Node's name */
    bool is_deleting, has_time;
};

/* An action that ended. `probe` is of a PROBE, `answer` of the others. */
struct nc_self_ended {
    enum nc_self_act act;
    enum nc_self_answer answer;
    struct nc_self_probe probe;
};

enum nc_self_state {
    NC_SELF_OFF = 0, /* not configured */
    NC_SELF_UNKNOWN, /* not asked yet, no NodeClaim, or no answer */
    NC_SELF_TRUSTED,
    NC_SELF_REFUSED,
    NC_SELF_STAMPED, /* the time is written */
    NC_SELF_HANDED,  /* and the claim is deleted: Karpenter knows */
};
const char *nc_self_state_name(enum nc_self_state s); /* "off", "unknown", "trusted", … */

/* May the power be used? TRUSTED, REFUSED or UNKNOWN; *ret_why (static) says in words what is wrong
 * with it, "" where nothing is. */
enum nc_self_state nc_self_judge(const struct nc_self_probe *p, const char **ret_why);

#endif
