/*
 * A controller's step and what the tests of it share: objects as JSON, events, actions as lines.
 */
#ifndef NC_TEST_CONTROL_WORLD_H
#define NC_TEST_CONTROL_WORLD_H

#include "base-test.h"

#include "nc/control.h"

#define WORLD_SEC 1000000ull
#define WORLD_START (1795312800ull * WORLD_SEC) /* 2026-11-22T02:00:00Z */

struct world {
    struct nc_control *c;
    struct nc_control_rules rules;
    uint64_t now_usec;
    uint64_t rv;        /* the next resourceVersion */
    uint64_t ids[4096]; /* of the writes of the last step, in their order */
    size_t n_ids;
    struct nc_buf said; /* the actions of the last step */
    char told[256];     /* the message of the last EMIT_EVENT */
    char body[4096];    /* of the last write that has one */
    char provider[128]; /* ID of the last instance that EC2 is asked about */
};

/* Leads, beside Karpenter, both lists complete and empty. */
void world_open(struct world *w);
void world_open_raw(struct world *w); /* only the rules were given */
void world_close(struct world *w);

/* Each returns the actions that came of it, "" for none, one a line: "set-timestamp c1 TIME",
 * "delete-claim c1", "event Reason NodeClaim c1"; other verbs: "VERB NAME BODY". Valid until the
 * next one. */
const char *world_event(struct world *w, struct nc_control_event e);
const char *world_see(struct world *w, enum nc_control_kind k, const char *json); /* %rv is set */
const char *world_gone(struct world *w, enum nc_control_kind k, const char *name, const char *uid);
const char *world_lead(struct world *w, bool leads);
const char *world_mode(struct world *w, enum nc_control_mode mode);
const char *world_synced(struct world *w, enum nc_control_kind k);
const char *world_rules(struct world *w);
const char *world_tick(struct world *w);                /* now */
const char *world_pass(struct world *w, uint64_t usec); /* ticks as nc_control_next requests them */
const char *world_answer(struct world *w, uint64_t id, enum nc_control_answer a);
const char *world_answer_with(struct world *w, uint64_t id, enum nc_control_answer a,
                              uint64_t retry_after_usec, const char *json);

/* EC2 has it in this state; name: its private DNS name, or NULL. */
const char *world_answer_state(struct world *w, uint64_t id, const char *state, const char *name);

/* A Node "nX" with uid "uid-nX" that says so (NULL: nothing). */
const char *world_node(struct world *w, const char *name, const char *status);
/* A NodeClaim "cX" with uid "uid-cX" of Node `node` (NULL: none); `more` goes into its metadata, as
 * ",\"deletionTimestamp\":…", or is "". */
const char *world_claim(struct world *w, const char *name, const char *node, const char *more);
/* The drain status of a spot interruption in so many seconds; static. */
const char *world_status(struct world *w, const char *source, int64_t in_sec);
const char *world_time(uint64_t usec); /* one of four statics */

#endif
