/*
 * Plays in which signal: self is used wrongly.
 *
 * Each breaks the one rule that its row names, and as little else as can be.
 */
#include "scene.h"

#define DEADLINE_SEC 120

static void act(enum nc_self_act act, uint64_t in_sec) {
    scene_act((struct nc_life_action){
        .kind = NC_ACT_SELF, .self = act, .time_usec = scene_now + in_sec * SEC});
}

static void end(enum nc_self_act act, enum nc_self_answer answer) {
    const struct nc_self_ended ended = {.act = act, .answer = answer};

    scene_post((struct nc_life_event){.kind = NC_LIFE_SELF, .self = &ended});
}

static void probe(bool is_guarded) {
    const struct nc_self_ended ended = {
        .act = NC_SELF_PROBE,
        .probe = {.read = NC_SELF_ALLOWED,
                  .foreign = is_guarded ? NC_SELF_DENIED : NC_SELF_ALLOWED,
                  .stamp = NC_SELF_ALLOWED,
                  .is_ours = true}};

    act(NC_SELF_PROBE, 0);
    scene_post((struct nc_life_event){.kind = NC_LIFE_SELF, .self = &ended});
}

static void begin(bool signals_self) {
    const struct nc_claim_view claim = {.uid = "c"};

    scene_begin(NC_DRAIN_AUTO);
    scene_judge.config.signals_self = signals_self;
    scene_show_node();
    scene_post((struct nc_life_event){.kind = NC_LIFE_CLAIM, .claim = &claim});
}

static void begin_trusted(void) {
    begin(true);
    probe(true);
    scene_hear(NC_SOURCE_SPOT, DEADLINE_SEC);
}

static void break_off(void) {
    begin(false);
    act(NC_SELF_PROBE, 0);
}
static void break_two(void) {
    begin(true);
    act(NC_SELF_PROBE, 0);
    act(NC_SELF_PROBE, 0);
}
static void break_nobody(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_judge.config.signals_self = true;
    act(NC_SELF_PROBE, 0);
}
static void break_untrusted(void) {
    begin(true);
    probe(false);
    scene_hear(NC_SOURCE_SPOT, DEADLINE_SEC);
    act(NC_SELF_STAMP, DEADLINE_SEC - 15);
}
static void break_unasked(void) {
    begin(true);
    probe(true);
    scene_hear(NC_SOURCE_OPERATOR, DEADLINE_SEC);
    act(NC_SELF_DELETE, 0);
}
static void break_time(void) {
    begin_trusted();
    act(NC_SELF_STAMP, DEADLINE_SEC);
}
static void break_order(void) {
    begin_trusted();
    act(NC_SELF_STAMP, DEADLINE_SEC - 15);
    end(NC_SELF_STAMP, NC_SELF_AWAY);
    act(NC_SELF_DELETE, 0);
}
static void break_stamped(void) {
    begin_trusted();
    act(NC_SELF_STAMP, DEADLINE_SEC - 15);
    end(NC_SELF_STAMP, NC_SELF_ALLOWED);
    act(NC_SELF_STAMP, DEADLINE_SEC - 15);
}
static void break_twice(void) {
    begin_trusted();
    act(NC_SELF_STAMP, DEADLINE_SEC - 15);
    end(NC_SELF_STAMP, NC_SELF_ALLOWED);
    act(NC_SELF_DELETE, 0);
    end(NC_SELF_DELETE, NC_SELF_ALLOWED);
    act(NC_SELF_DELETE, 0);
}

const struct scene_play plays_of_self[] = {
    {"self-off", break_off},         {"self-two", break_two},
    {"self-nobody", break_nobody},   {"self-untrusted", break_untrusted},
    {"self-unasked", break_unasked}, {"self-time", break_time},
    {"self-order", break_order},     {"self-stamped", break_stamped},
    {"self-twice", break_twice},     {NULL, NULL},
};
