/*
 * The scene in which rules are broken on purpose: what is posted and done is told to one judge.
 *
 * Events and actions happen at scene_now; scene_node is what the next check the Node shows.
 */
#ifndef MODEL_SCENE_H
#define MODEL_SCENE_H

#include "rules.h"

#define SCENE_BEGIN_USEC 1767225600000000ull

extern struct rules scene_judge;
extern uint64_t scene_now;
extern int64_t scene_clock_off; /* of what is dated from now on */
extern struct nc_node_view scene_node;

void scene_post(struct nc_lifecycle_event e);
void scene_action(struct nc_lifecycle_action a);
void scene_begin(enum nc_drain_mode mode);
void scene_show_node(void);
/* A notice whose deadline is so far ahead; 0 = none. */
void scene_observe(enum nc_source s, uint64_t in_sec);
void scene_clear(enum nc_source s);
void scene_clear_all(void);
struct nc_node_write scene_a_write(enum nc_node_write_kind kind);
void scene_send_write(struct nc_node_write w);
void scene_end_write(enum nc_write_outcome outcome);
void scene_signalled(void);
void scene_cordoned(void);
void scene_show_pod(unsigned i, struct nc_pod p);
/* One that is bound late; then it may be asked. */
void scene_add_pod(unsigned i, struct nc_pod p);
void scene_sync_pods(void);
/* Two pods, cordoned, listed: evictions may begin. in_sec 0 = no deadline. */
void scene_set(enum nc_drain_mode mode, enum nc_source s, uint64_t in_sec);
/* Evictions may begin; T is 105 s ahead. */
void scene_spot(void);
void scene_request(enum nc_drain_verb verb, unsigned i, uint64_t grace_sec);
void scene_evict(unsigned i);
void scene_answer(enum nc_drain_verb verb, unsigned i, enum nc_pod_answer_kind kind);
/* Evicted, accepted, and shown to be terminating. */
void scene_evicted(unsigned i);
void scene_gone(unsigned i);
void scene_wait_sec(uint64_t sec);
void scene_marked(unsigned i);
/* The clock is known to be so much further ahead than before. */
void scene_correct_clock(int64_t by_sec);

/* A rule, and a play that breaks it. */
struct scene_play {
    const char *rule; /* "" = none */
    void (*play)(void);
};
extern const struct scene_play plays_of_pods[], plays_of_writes[]; /* ends with a NULL rule */

#endif
