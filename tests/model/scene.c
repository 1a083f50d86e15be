/*
 * A small scene for the judge's own tests: a Node, a notice, two pods, and what may happen to them.
 *
 * No lifecycle runs in it: what the daemon would do is played by hand, rightly or wrongly.
 */
#include "scene.h"

#include <stdio.h>

struct rules scene_judge;
uint64_t scene_now;
int64_t scene_clock_off;
struct nc_node_view scene_node;

void scene_post(struct nc_lifecycle_event e) {
    e.now_usec = scene_now;
    e.clock_offset_usec = scene_clock_off;
    rules_event(&scene_judge, &e);
}

void scene_action(struct nc_lifecycle_action a) {
    rules_action(&scene_judge, &a, scene_now);
}

void scene_begin(enum nc_drain_mode mode) {
    struct nc_lifecycle_rules config = {
        .drain = {.mode = mode, .margin_usec = 15 * SEC}, .max_in_flight = 2, .seed = 1};

    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        config.drain.policy[s] = NC_POLICY_DRAIN;
    scene_now = SCENE_BEGIN_USEC;
    scene_clock_off = 0;
    rules_init(&scene_judge, &config);
    rules_restart(&scene_judge, NULL, &config, scene_now);
    scene_node = (struct nc_node_view){.exists = true, .is_complete = true, .uid = "node-1"};
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_START});
}

void scene_show_node(void) {
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_NODE, .node = &scene_node});
}

void scene_observe(enum nc_source s, uint64_t in_sec) {
    struct nc_notice n = {.source = s,
                          .policy = NC_POLICY_DRAIN,
                          .deadline_usec = in_sec ? scene_now + in_sec * SEC : 0};

    if (s == NC_SOURCE_SHUTDOWN)
        rules_shutdown(&scene_judge, true, scene_now);
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_NOTICE, .notice = &n, .source = s});
}

void scene_clear(enum nc_source s) {
    if (s == NC_SOURCE_SHUTDOWN)
        rules_shutdown(&scene_judge, false, scene_now);
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_CLEARED, .source = s});
}

void scene_clear_all(void) {
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        scene_clear((enum nc_source)s);
}

struct nc_node_write scene_a_write(enum nc_node_write_kind kind) {
    struct nc_node_write w = {.kind = kind, .unschedulable = -1, .balancers_label = -1};

    if (kind == NC_WRITE_CORDON) {
        w.unschedulable = w.balancers_label = 1;
        w.sets_cordon = true;
        w.cordon = (char *)"{}";
    }
    if (kind == NC_WRITE_RELEASE) {
        w.unschedulable = w.balancers_label = 0;
        w.sets_cordon = w.sets_status = true;
    }
    return w;
}

void scene_send_write(struct nc_node_write w) {
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_WRITE, .write = w});
}

void scene_end_write(enum nc_write_outcome outcome) {
    scene_post((struct nc_lifecycle_event){
        .kind = NC_LIFECYCLE_WRITTEN, .outcome = outcome, .message = "why"});
}

void scene_signalled(void) {
    scene_send_write(scene_a_write(NC_WRITE_SIGNAL));
    scene_node.is_pending_true = scene_node.has_status = true;
    scene_show_node();
    scene_end_write(NC_WRITTEN);
}

void scene_cordoned(void) {
    scene_send_write(scene_a_write(NC_WRITE_CORDON));
    scene_node.is_unschedulable = scene_node.has_cordon_record = true;
    scene_node.has_balancers_label = scene_node.is_balancers_label_ours = true;
    scene_show_node();
    scene_end_write(NC_WRITTEN);
}

void scene_show_pod(unsigned i, struct nc_pod p) {
    char uid[16];

    snprintf(uid, sizeof(uid), "uid-%02u", i);
    p.uid = uid;
    if (!p.grace_sec)
        p.grace_sec = 30;
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_POD, .pod = &p});
}

void scene_add_pod(unsigned i, struct nc_pod p) {
    scene_show_pod(i, p);
    scene_now += SEC / 2;
}

void scene_sync_pods(void) {
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_PODS_SYNCED});
}

/* Two pods, cordoned, listed: evictions may begin. T is 105 s ahead, or there is none. */
void scene_set(enum nc_drain_mode mode, enum nc_source s, uint64_t in_sec) {
    scene_begin(mode);
    scene_show_node();
    scene_observe(s, in_sec);
    scene_signalled();
    scene_cordoned();
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_PODS_OPEN});
    scene_show_pod(0, (struct nc_pod){0});
    scene_show_pod(1, (struct nc_pod){0});
    scene_sync_pods();
}

void scene_spot(void) {
    scene_set(NC_DRAIN_AUTO, NC_SOURCE_SPOT, 120);
}

void scene_request(enum nc_drain_verb verb, unsigned i, uint64_t grace_sec) {
    char uid[16];
    struct nc_pod p = {.uid = uid};

    snprintf(uid, sizeof(uid), "uid-%02u", i);
    scene_action((struct nc_lifecycle_action){
        .kind = NC_LIFECYCLE_ACTION_POD, .pod = {.verb = verb, .pod = &p, .grace_sec = grace_sec}});
}

void scene_evict(unsigned i) {
    scene_request(NC_DRAIN_EVICT, i, 0);
}

void scene_answer(enum nc_drain_verb verb, unsigned i, enum nc_pod_answer_kind kind) {
    struct nc_pod_answer a = {.kind = kind};
    char uid[16];

    snprintf(uid, sizeof(uid), "uid-%02u", i);
    scene_post((struct nc_lifecycle_event){
        .kind = NC_LIFECYCLE_POD_ANSWER, .uid = uid, .verb = verb, .answer = &a});
}

void scene_evicted(unsigned i) {
    scene_evict(i);
    scene_answer(NC_DRAIN_EVICT, i, NC_ANSWER_ACCEPTED);
    scene_show_pod(
        i, (struct nc_pod){.deletion_usec = scene_now + 30 * SEC, .deletion_grace_sec = 30});
}

void scene_gone(unsigned i) {
    char uid[16];

    snprintf(uid, sizeof(uid), "uid-%02u", i);
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_POD_GONE, .uid = uid});
}

void scene_wait_sec(uint64_t sec) {
    scene_now += sec * SEC;
}

void scene_marked(unsigned i) {
    scene_request(NC_DRAIN_MARK, i, 0);
    scene_answer(NC_DRAIN_MARK, i, NC_ANSWER_ACCEPTED);
}

void scene_correct_clock(int64_t by_sec) {
    scene_clock_off += by_sec * (int64_t)SEC;
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_TICK});
}
