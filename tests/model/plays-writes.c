/*
 * Plays in which the Node is written wrongly, and those of all else; one in which all is right.
 *
 * Each breaks the one rule that its row names, and as little else as can be.
 */
#include "scene.h"

/* The first pod leaves by itself, the second is refused until its force-delete time. */
static void play_right(void) {
    scene_spot();
    scene_evicted(0);
    scene_evict(1);
    scene_answer(NC_DRAIN_EVICT, 1, NC_ANSWER_BUDGET);
    scene_gone(0);
    for (int i = 0; i < 14; i++) {
        scene_wait_sec(5);
        scene_evict(1);
        scene_answer(NC_DRAIN_EVICT, 1, NC_ANSWER_BUDGET);
    }
    scene_wait_sec(4);
    scene_marked(1);
    scene_wait_sec(1);
    scene_request(NC_DRAIN_DELETE, 1, 30);
    scene_answer(NC_DRAIN_DELETE, 1, NC_ANSWER_ACCEPTED);
    scene_gone(1);
    scene_send_write(scene_a_write(NC_WRITE_DRAINED));
    scene_end_write(NC_WRITTEN);
    scene_node.is_drained_true = true;
    scene_show_node();
    scene_clear_all();
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_PODS_CLOSE});
    scene_send_write(scene_a_write(NC_WRITE_RELEASE));
    scene_end_write(NC_WRITTEN);
    scene_node =
        (struct nc_node_view){.exists = true, .is_complete = true, .is_pending_true = true};
    scene_show_node();
    scene_send_write(scene_a_write(NC_WRITE_CLEAR_CONDITIONS));
    scene_end_write(NC_WRITTEN);
    rules_end(&scene_judge,
              &(struct rules_end){.is_node = true, .is_steady = true, .now_usec = scene_now});
}

static void break_one_write(void) {
    scene_spot();
    scene_send_write(scene_a_write(NC_WRITE_PROGRESS));
    scene_send_write(scene_a_write(NC_WRITE_DRAINED));
}
static void break_idle_write(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_show_node();
    scene_send_write(scene_a_write(NC_WRITE_SIGNAL));
}
static void break_idle_release(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_show_node();
    scene_clear_all();
    scene_send_write((struct nc_node_write){
        .kind = NC_WRITE_RELEASE, .unschedulable = -1, .balancers_label = -1});
}
static void break_write_without_node(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_observe(NC_SOURCE_SPOT, 120);
    scene_send_write(scene_a_write(NC_WRITE_SIGNAL));
}
static void break_foreign_claimed(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_node.is_unschedulable = true;
    scene_show_node();
    scene_observe(NC_SOURCE_SPOT, 120);
    scene_signalled();
    scene_send_write(scene_a_write(NC_WRITE_CORDON));
}
static void break_foreign_lifted(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_node.is_unschedulable = scene_node.has_status = true;
    scene_node.has_balancers_label = scene_node.is_balancers_label_ours = true;
    scene_show_node();
    scene_clear_all();
    scene_send_write(scene_a_write(NC_WRITE_RELEASE));
}
static void break_label_overwritten(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_node.has_balancers_label = true;
    scene_show_node();
    scene_observe(NC_SOURCE_SPOT, 120);
    scene_signalled();
    scene_send_write(scene_a_write(NC_WRITE_CORDON));
}
static void break_label_removed(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_node.has_balancers_label = scene_node.has_cordon_record = scene_node.is_unschedulable =
        true;
    scene_show_node();
    scene_clear_all();
    scene_send_write(scene_a_write(NC_WRITE_RELEASE));
}
static void break_unrecorded(void) {
    struct nc_node_write w = scene_a_write(NC_WRITE_CORDON);

    scene_begin(NC_DRAIN_AUTO);
    scene_show_node();
    scene_observe(NC_SOURCE_SPOT, 120);
    scene_signalled();
    w.cordon = NULL;
    w.sets_cordon = false;
    scene_send_write(w);
}
static void break_held_cordon(void) {
    scene_spot();
    scene_clear_all();
    scene_node.has_disrupted_taint = true;
    scene_show_node();
    scene_send_write(scene_a_write(NC_WRITE_RELEASE));
}
static void break_undone_active(void) {
    scene_spot();
    scene_send_write(scene_a_write(NC_WRITE_RELEASE));
}
static void break_undone_unheard(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_node.has_cordon_record = scene_node.is_unschedulable =
        scene_node.is_balancers_label_ours = true;
    scene_node.has_balancers_label = true;
    scene_show_node();
    scene_clear(NC_SOURCE_SPOT);
    scene_send_write(scene_a_write(NC_WRITE_RELEASE));
}
static void break_drained_with_pods(void) {
    scene_spot();
    scene_gone(0);
    scene_wait_sec(6);
    scene_evict(1);
    scene_send_write(scene_a_write(NC_WRITE_DRAINED));
}
static void break_drained_with_a_pod_unseen(void) {
    const uint64_t bound_usec = SCENE_BEGIN_USEC - SEC;

    scene_spot();
    scene_gone(0);
    scene_gone(1);
    scene_wait_sec(6);
    rules_left(&scene_judge, 2, bound_usec);
}
static void break_drained_unsettled(void) {
    scene_spot();
    scene_gone(0);
    scene_gone(1);
    scene_wait_sec(4);
    scene_send_write(scene_a_write(NC_WRITE_DRAINED));
}
static void break_drained_with_volumes(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_node.n_volumes = 1;
    scene_show_node();
    scene_observe(NC_SOURCE_SPOT, 120);
    scene_signalled();
    scene_cordoned();
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_PODS_OPEN});
    scene_sync_pods();
    scene_wait_sec(40);
    scene_send_write(scene_a_write(NC_WRITE_DRAINED));
}
static void send_progress(const char *text) {
    struct nc_node_write w = scene_a_write(NC_WRITE_PROGRESS);

    w.sets_status = true;
    w.drain_status = (char *)text;
    scene_send_write(w);
    scene_end_write(NC_WRITTEN);
}
static void break_progress_rate(void) {
    scene_spot();
    scene_evict(0);
    send_progress("{\"source\":\"spot\",\"remaining\":2,\"updated\":1}");
    scene_now += SEC - 1;
    send_progress("{\"source\":\"spot\",\"remaining\":1,\"updated\":2}");
}
static void break_progress_same(void) {
    scene_spot();
    scene_evict(0);
    send_progress("{\"source\":\"spot\",\"remaining\":2,\"updated\":1}");
    scene_wait_sec(2);
    send_progress("{\"source\":\"spot\",\"remaining\":2,\"updated\":2}");
}
static void break_status_count(void) {
    scene_spot();
    scene_evict(0);
    send_progress("{\"source\":\"spot\",\"remaining\":1,\"updated\":1}");
}
static void break_blocked_rate(void) {
    struct nc_lifecycle_action a = {.kind = NC_LIFECYCLE_ACTION_ANNOUNCE,
                                    .milestone = NC_LIFECYCLE_MILESTONE_BLOCKED,
                                    .message = (char *)"Pod 1: budget-1"};

    scene_spot();
    scene_wait_sec(1); /* or its deadline is new when it is named */
    scene_action(a);
    scene_wait_sec(29);
    scene_action(a);
}
static void break_leader(void) {
    scene_spot();
    scene_observe(NC_SOURCE_REBALANCE, 0);
    send_progress("{\"source\":\"rebalance\",\"updated\":1}");
}
static void break_no_signal(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_show_node();
    scene_observe(NC_SOURCE_REBALANCE, 0);
    scene_wait_sec(3);
    rules_watch(&scene_judge, scene_now);
}
static void break_no_cordon(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_show_node();
    scene_observe(NC_SOURCE_REBALANCE, 0);
    scene_signalled();
    scene_wait_sec(3);
    rules_watch(&scene_judge, scene_now);
}

/* --- the rest ----------------------------------------------------------------------------------
 */

static void break_opened_twice(void) {
    scene_spot();
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_PODS_OPEN});
}
static void break_closed_twice(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_PODS_CLOSE});
}
static void break_release_late(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_observe(NC_SOURCE_SHUTDOWN, 10);
    scene_wait_sec(10);
    rules_watch(&scene_judge, scene_now);
}
static void break_release_twice(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_observe(NC_SOURCE_SHUTDOWN, 10);
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR});
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR});
}
static void break_release_early(void) {
    scene_set(NC_DRAIN_AUTO, NC_SOURCE_SHUTDOWN, 60);
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR});
}
static void break_release_idle(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR});
}
static void break_stranger_begins(void) {
    struct nc_notice n = {.source = NC_SOURCE_SHUTDOWN, .policy = NC_POLICY_DRAIN};

    scene_begin(NC_DRAIN_AUTO);
    scene_post((struct nc_lifecycle_event){
        .kind = NC_LIFECYCLE_NOTICE, .notice = &n, .source = NC_SOURCE_SHUTDOWN});
}
static void break_stranger_ends(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_observe(NC_SOURCE_SHUTDOWN, 60);
    scene_wait_sec(5);
    scene_post(
        (struct nc_lifecycle_event){.kind = NC_LIFECYCLE_CLEARED, .source = NC_SOURCE_SHUTDOWN});
}
static void break_stranger_delays(void) {
    scene_begin(NC_DRAIN_AUTO);
    rules_shutdown(&scene_judge, true, scene_now);
    scene_wait_sec(20);
    rules_watch(&scene_judge, scene_now);
}
static void break_busy_loop(void) {
    scene_begin(NC_DRAIN_AUTO);
    rules_stepped(&scene_judge,
                  &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_TICK, .now_usec = scene_now}, 0,
                  scene_now);
}
static void break_busy_ticks(void) {
    scene_begin(NC_DRAIN_AUTO);
    for (int i = 0; i < 50; i++, scene_now += 1000)
        rules_stepped(
            &scene_judge,
            &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_TICK, .now_usec = scene_now}, 0,
            scene_now + 1000);
}
static void break_refreshes(void) {
    scene_begin(NC_DRAIN_AUTO);
    for (int i = 0; i < 20; i++)
        scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_REFRESH_NODE});
}

static void start_hook(enum nc_hook h) {
    scene_judge.config.drain.hook_timeout_usec = 30 * SEC;
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_START_HOOK, .hook = h});
}
static void break_hook_first(void) {
    scene_spot();
    start_hook(NC_HOOK_PRE_DRAIN);
    scene_wait_sec(29);
    scene_evict(0);
}
static void break_hook_first_unstarted(void) {
    scene_spot();
    scene_judge.config.drain.hook_timeout_usec = 30 * SEC;
    scene_evict(0);
}
static void break_hook_twice(void) {
    scene_spot();
    start_hook(NC_HOOK_PRE_DRAIN);
    start_hook(NC_HOOK_PRE_DRAIN);
}
static void break_hook_early(void) {
    scene_spot();
    start_hook(NC_HOOK_POST_DRAIN);
}
static void break_hook_idle(void) {
    scene_begin(NC_DRAIN_AUTO);
    start_hook(NC_HOOK_PRE_DRAIN);
}
static void break_hook_followed(void) {
    scene_spot();
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_FOLLOW_HOOK});
}
static void break_hook_drained(void) {
    scene_spot();
    scene_gone(0);
    scene_gone(1);
    scene_wait_sec(6);
    start_hook(NC_HOOK_POST_DRAIN);
    scene_send_write(scene_a_write(NC_WRITE_DRAINED));
}

static void end_with(struct rules_end e) {
    scene_wait_sec(60);
    e.is_node = e.is_steady = true;
    e.now_usec = scene_now;
    rules_end(&scene_judge, &e);
}
static void break_left_cordon(void) {
    scene_begin(NC_DRAIN_AUTO);
    end_with((struct rules_end){.has_record = true, .is_unschedulable = true});
}
static void break_left_marks(void) {
    scene_begin(NC_DRAIN_AUTO);
    end_with((struct rules_end){.has_status = true});
}
static void break_left_condition(void) {
    scene_begin(NC_DRAIN_AUTO);
    end_with((struct rules_end){.is_drained = true});
}
static void break_left_open(void) {
    scene_spot();
    scene_clear_all();
    end_with((struct rules_end){.n_left = 2});
}
static void end_empty(struct rules_end e) {
    scene_set(NC_DRAIN_AUTO, NC_SOURCE_AUTOSCALING, 0);
    scene_gone(0);
    scene_gone(1);
    end_with(e);
}
static void break_not_signalled(void) {
    end_empty((struct rules_end){.is_unschedulable = true, .is_drained = true});
}
static void break_not_cordoned(void) {
    end_empty((struct rules_end){.is_pending = true, .is_drained = true});
}
static void break_not_drained(void) {
    end_empty((struct rules_end){.is_pending = true, .is_unschedulable = true});
}
static void break_drained_wrongly(void) {
    end_empty((struct rules_end){
        .is_pending = true, .is_unschedulable = true, .is_drained = true, .n_left = 1});
}

const struct scene_play plays_of_writes[] = {
    {"", play_right},
    {"one-write", break_one_write},
    {"idle-write", break_idle_write},
    {"idle-write", break_idle_release},
    {"no-node", break_write_without_node},
    {"foreign-cordon", break_foreign_claimed},
    {"foreign-cordon", break_foreign_lifted},
    {"foreign-label", break_label_overwritten},
    {"foreign-label", break_label_removed},
    {"unrecorded", break_unrecorded},
    {"held-cordon", break_held_cordon},
    {"undone-active", break_undone_active},
    {"undone-unheard", break_undone_unheard},
    {"drained-early", break_drained_with_pods},
    {"drained-unseen", break_drained_with_a_pod_unseen},
    {"drained-early", break_drained_unsettled},
    {"drained-early", break_drained_with_volumes},
    {"progress-rate", break_progress_rate},
    {"progress-same", break_progress_same},
    {"status-count", break_status_count},
    {"blocked-rate", break_blocked_rate},
    {"leader", break_leader},
    {"no-signal", break_no_signal},
    {"no-cordon", break_no_cordon},
    {"opened-twice", break_opened_twice},
    {"closed-twice", break_closed_twice},
    {"let-go-late", break_release_late},
    {"let-go-twice", break_release_twice},
    {"let-go-early", break_release_early},
    {"let-go-idle", break_release_idle},
    {"stranger-begins", break_stranger_begins},
    {"stranger-ends", break_stranger_ends},
    {"stranger-delays", break_stranger_delays},
    {"busy-loop", break_busy_loop},
    {"busy-ticks", break_busy_ticks},
    {"looks", break_refreshes},
    {"hook-first", break_hook_first},
    {"hook-first", break_hook_first_unstarted},
    {"hook-twice", break_hook_twice},
    {"hook-early", break_hook_early},
    {"hook-idle", break_hook_idle},
    {"hook-followed", break_hook_followed},
    {"hook-drained", break_hook_drained},
    {"left-cordon", break_left_cordon},
    {"left-marks", break_left_marks},
    {"left-condition", break_left_condition},
    {"left-open", break_left_open},
    {"not-signalled", break_not_signalled},
    {"not-cordoned", break_not_cordoned},
    {"not-drained", break_not_drained},
    {"drained-wrongly", break_drained_wrongly},
    {NULL, NULL},
};
