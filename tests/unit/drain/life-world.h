/*
 * A world for traces of the lifecycle: a Node as a server would keep it, pods, a clock, and stories
 * told in rows of {time, event, what is requested}.
 *
 * Events, in words:
 *   begin [FLAGS]   start, all sources cleared, the Node seen
 *   start | clear all | clear SOURCE | tick | next
 *   notice SOURCE [+SECONDS] [last] [begin+SECONDS] [cordoned] [cordon|drain] [id=X] [action=X]
 *                   [word=X]
 *   node [FLAGS]    the whole Node is seen; first the flags are set (or, with a dash, unset)
 *   meta [FLAGS]    only its metadata is seen
 *   set FLAGS       the server's Node changes; nobody is told
 *   gone            the Node is gone
 *   pods NAME:GRACE …   each is seen;   leaving NAME:GRACE   it is terminating;   lost NAME   it is
 * gone; started NAME   it is seen, and kubelet has started it; first NAME:GRACE   it wants its
 * replacement first; kept NAME:GRACE, kept-for-hour NAME:GRACE   by do-not-disrupt; daemon
 * NAME:GRACE of a DaemonSet; critical NAME:GRACE   of the tier after those; unreadable one is seen
 * that is none; limit N   so many pods are kept (before begin) synced          the list is complete
 * ok | okay-unseen | refused | failing | away [SECONDS]   the write in flight ended yes NAME | no
 * NAME [BUDGET] | again NAME | gone-pod NAME   the answer to what was asked of a pod rules
 * KEY=VALUE … spot=, rebalance=, shutdown=, maintenance=, mode=, margin=, linger=, hooks=,
 * replacement=, deadline= hook preDrain|postDrain running|none|done|failed   how it goes restart |
 * crash | reboot state kept and loaded | lost | loaded as of another boot; then START FLAGS: uid=X
 * deleting cordoned record status label label-ours taint pending drained volumes=N
 *
 * What is requested is one text, "; " between the actions, and the phase at the end:
 *   "SAY SpotInterruption; WRITE signal[Detected pending] @signalling"
 */
#ifndef NC_LIFECYCLE_WORLD_H
#define NC_LIFECYCLE_WORLD_H

#include "base-test.h"
#include "nc/lifecycle.h"

#define LIFE_EPOCH_USEC (1767323045ull * 1000000)

struct life_row {
    unsigned at_ms;
    const char *event;
    const char *expected; /* NULL: whatever */
};

struct life_requested {
    char name[256];
    enum nc_drain_verb verb;
};

struct life_world {
    struct nc_lifecycle *life;
    struct nc_lifecycle_rules rules;
    uint64_t now_usec;
    int64_t clock_offset_usec; /* so far EC2's clock is known to be ahead of it */
    uint64_t away_usec;        /* since when the API server is unavailable */
    bool more;                 /* the event of this row says that others follow at once */
    struct nc_node_view server;
    struct life_write {
        struct nc_node_write w;
        bool is_in_flight;
    } write;
    struct life_requested asked[80];
    size_t n_asked;
    struct nc_buf trace;
    struct nc_buf news;      /* what became of pods; in no trace */
    char last_status[1100];  /* the annotation as it was written last */
    char last_message[1100]; /* of the last announcement */
    bool is_warning;         /* likewise */
    const char *lasting;     /* the reason of what this step said for the second time; "" = none */
};

void life_world_init(struct life_world *w);
void life_world_done(struct life_world *w);
/* Carries an event out; the trace is valid until the next. */
const char *life_do(struct life_world *w, unsigned at_ms, const char *event);
/* Every other source announces nothing. */
void life_clear_all_but(struct life_world *w, unsigned at_ms, enum nc_source source);
void life_play(struct life_world *w, const struct life_row *rows, size_t n);

/* Steps at the world's time and appends what is requested to the trace (life-trace.c). */
void life_step(struct life_world *w, struct nc_lifecycle_event *e);
void life_request_text(struct life_world *w, const char *text);

/* How most stories begin: a notice is announced, the node is cordoned, its pods are listed. */
#define LIFE_EVICTING(notice, reason)                                                              \
    {0, "begin", "@idle"},                                                                         \
        {1000, "notice " notice, "SAY " reason "; WRITE signal[Detected pending] @signalling"},    \
        {1010, "ok", "WRITE cordon[Cordoned cordon record label] @cordoning"}, {                   \
        1020, "ok", "SAY NodeCordoned; SAY DrainStarted; OPEN @evicting"                           \
    }

/* How those begin in which a node is only cordoned. */
#define LIFE_CORDONED                                                                              \
    {0, "rules rebalance=cordon", NULL}, {0, "begin", "@idle"},                                    \
        {1000, "notice rebalance",                                                                 \
         "SAY RebalanceRecommended; WRITE signal[Detected pending] @signalling"},                  \
        {1010, "ok", "WRITE cordon[Cordoned cordon record] @cordoning"}, {                         \
        1020, "ok", "SAY NodeCordoned @cordoned"                                                   \
    }

/* A story from an empty world with default rules. */
#define LIFE_STORY(rows)                                                                           \
    do {                                                                                           \
        struct life_world w;                                                                       \
        life_world_init(&w);                                                                       \
        life_play(&w, rows, sizeof(rows) / sizeof(rows[0]));                                       \
        life_world_done(&w);                                                                       \
    } while (0)

#endif
