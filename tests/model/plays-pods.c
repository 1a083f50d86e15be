/*
 * Plays in which pods are asked what they must not be asked, or too late.
 *
 * Each breaks the one rule that its row names, and as little else as can be.
 */
#include "scene.h"

static void break_terminal(void) {
    scene_spot();
    scene_add_pod(2, (struct nc_pod){.is_terminal = true});
    scene_evict(2);
}
static void break_mirror(void) {
    scene_spot();
    scene_add_pod(2, (struct nc_pod){.is_mirror = true});
    scene_request(NC_DRAIN_MARK, 2, 0);
}
static void break_tolerates(void) {
    scene_spot();
    scene_add_pod(2, (struct nc_pod){.tolerates_disrupted = true,
                                     .is_daemon = true,
                                     .tier = NC_TIER_PLAIN_DAEMON});
    scene_wait_sec(100);
    scene_request(NC_DRAIN_DELETE, 2, 5);
}
static void break_left_to_karpenter(void) {
    scene_set(NC_DRAIN_ALWAYS, NC_SOURCE_DELETION, 0);
    scene_add_pod(2, (struct nc_pod){.tolerates_disrupted = true});
    scene_evict(2);
}
static void break_left_until_its_force_delete_time(void) {
    scene_set(NC_DRAIN_ALWAYS, NC_SOURCE_DELETION, 120);
    scene_evict(0);
    scene_evict(1);
    scene_answer(NC_DRAIN_EVICT, 0, NC_ANSWER_BUDGET);
    scene_add_pod(2, (struct nc_pod){.tolerates_disrupted = true});
    scene_evict(2);
}
static void break_daemon(void) {
    scene_spot();
    scene_add_pod(2, (struct nc_pod){.is_daemon = true, .tier = NC_TIER_PLAIN_DAEMON});
    scene_gone(0);
    scene_gone(1);
    scene_evict(2);
}
static void break_stuck(void) {
    scene_spot();
    scene_add_pod(2,
                  (struct nc_pod){.deletion_usec = scene_now - 61 * SEC, .deletion_grace_sec = 30});
    scene_request(NC_DRAIN_DELETE, 2, 5);
}
static void break_kept(void) {
    scene_spot();
    scene_add_pod(2, (struct nc_pod){.never_disrupt = true});
    scene_evict(2);
}
static void break_kept_for_a_while(void) {
    scene_spot();
    scene_add_pod(2, (struct nc_pod){.keep_until_usec = scene_now + SEC});
    scene_evict(2);
}
static void break_tier(void) {
    scene_spot();
    scene_add_pod(2, (struct nc_pod){.tier = NC_TIER_CRITICAL});
    scene_evict(2);
}
/* Ten seconds and a refusal hand the turn to the next tier, not to the last. */
static void break_last(void) {
    scene_spot();
    scene_gone(1);
    scene_add_pod(2, (struct nc_pod){.order = NC_POD_ORDER_LAST, .tier = NC_TIER_LAST});
    scene_evict(0);
    scene_answer(NC_DRAIN_EVICT, 0, NC_ANSWER_ACCEPTED);
    scene_wait_sec(20);
    scene_evict(2);
}
static void break_terminating(void) {
    scene_spot();
    scene_add_pod(2,
                  (struct nc_pod){.deletion_usec = scene_now + 9 * SEC, .deletion_grace_sec = 30});
    scene_evict(2);
}
static void break_twice(void) {
    scene_spot();
    scene_evict(0);
    scene_answer(NC_DRAIN_EVICT, 0, NC_ANSWER_ACCEPTED);
    scene_evict(0);
}
static void break_twice_requested(void) {
    scene_spot();
    scene_evict(0);
    scene_evict(0);
}
static void break_late_eviction(void) {
    scene_spot();
    scene_add_pod(2, (struct nc_pod){.grace_sec = 105});
    scene_gone(0);
    scene_gone(1);
    scene_evict(2); /* once it must be asked */
    scene_answer(NC_DRAIN_EVICT, 2, NC_ANSWER_BUDGET);
    scene_wait_sec(2);
    scene_request(NC_DRAIN_EVICT, 2, 103);
}
static void break_pause(void) {
    scene_spot();
    scene_evict(0);
    scene_evict(1);
    scene_answer(NC_DRAIN_EVICT, 0, NC_ANSWER_BUDGETS);
    scene_wait_sec(20);
    scene_evict(0);
}
static void break_in_flight(void) {
    scene_spot();
    scene_add_pod(2, (struct nc_pod){0});
    scene_evict(0);
    scene_evict(1);
    scene_evict(2);
}
/* Pod 2 waits from the beginning; pod 0 has been asked, and may be asked again after a pause. */
static void break_turn_of(const char *namespace) {
    scene_spot();
    scene_evict(0);
    scene_evict(1);
    scene_add_pod(2, (struct nc_pod){.namespace = (char *)namespace});
    rules_watch(&scene_judge, scene_now);
    scene_wait_sec(1);
    scene_answer(NC_DRAIN_EVICT, 0, NC_ANSWER_BUDGET);
    scene_wait_sec(2);
    scene_evict(0);
}
static void break_turn(void) {
    break_turn_of(NULL);
}
static void break_turn_of_namespace(void) {
    break_turn_of("other");
}
static void break_patience(void) {
    scene_set(NC_DRAIN_AUTO, NC_SOURCE_DELETION, 0);
    scene_wait_sec(4);
    scene_gone(0);
    scene_wait_sec(4);
    scene_evict(1);
}
static void break_cordon_first(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_show_node();
    scene_observe(NC_SOURCE_AUTOSCALING, 0);
    scene_signalled();
    scene_wait_sec(2);
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_PODS_OPEN});
    scene_show_pod(0, (struct nc_pod){0});
    scene_sync_pods();
    scene_evict(0);
}
static void break_signal_first(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_show_node();
    scene_observe(NC_SOURCE_SPOT, 120);
    scene_wait_sec(2);
    scene_cordoned();
}
static void break_unlisted(void) {
    scene_begin(NC_DRAIN_AUTO);
    scene_show_node();
    scene_observe(NC_SOURCE_SPOT, 120);
    scene_signalled();
    scene_cordoned();
    scene_action((struct nc_lifecycle_action){.kind = NC_LIFECYCLE_ACTION_PODS_OPEN});
    scene_show_pod(0, (struct nc_pod){0});
    scene_evict(0);
}
static void break_fresh(void) {
    scene_spot();
    scene_show_pod(2, (struct nc_pod){0});
    scene_evict(2);
}
static void break_unknown(void) {
    scene_spot();
    scene_gone(0);
    scene_evict(0);
}
static void break_policy(void) {
    scene_spot();
    scene_clear(NC_SOURCE_SPOT);
    scene_evict(0);
}
static void break_begin(void) {
    struct nc_notice n = {
        .source = NC_SOURCE_MAINTENANCE, .begin_usec = SCENE_BEGIN_USEC + SEC, .id = "later"};

    scene_begin(NC_DRAIN_ALWAYS);
    scene_show_node();
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_NOTICE, .notice = &n});
    scene_signalled();
    scene_cordoned();
}
static void break_mode(void) {
    scene_set(NC_DRAIN_ALWAYS, NC_SOURCE_SPOT, 120);
    scene_judge.config.drain.mode = NC_DRAIN_OBSERVE;
    scene_evict(0);
}
static void break_no_node(void) {
    scene_spot();
    scene_post((struct nc_lifecycle_event){.kind = NC_LIFECYCLE_NODE_GONE, .is_anothers = true});
    scene_evict(0);
}
static void break_no_deadline(void) {
    scene_set(NC_DRAIN_AUTO, NC_SOURCE_AUTOSCALING, 0);
    scene_request(NC_DRAIN_DELETE, 0, 30);
}
static void break_early_deletion(void) {
    scene_spot();
    scene_wait_sec(74);
    scene_marked(0);
    scene_request(NC_DRAIN_DELETE, 0, 30);
}
static void break_early_mark(void) {
    scene_spot();
    scene_wait_sec(73);
    scene_marked(0);
}
static void break_untried(void) {
    scene_spot();
    scene_wait_sec(75);
    scene_marked(0);
    scene_request(NC_DRAIN_DELETE, 0, 30);
}
static void break_unmarked(void) {
    scene_spot();
    scene_evict(0);
    scene_wait_sec(75);
    scene_request(NC_DRAIN_DELETE, 0, 30);
}
static void break_mark_waits(void) {
    scene_spot();
    scene_evict(0);
    scene_wait_sec(75);
    scene_request(NC_DRAIN_MARK, 0, 0);
    scene_request(NC_DRAIN_DELETE, 0, 30);
}
static void delete_at(uint64_t at_sec, uint64_t grace_sec) {
    scene_spot();
    scene_now = SCENE_BEGIN_USEC + at_sec * SEC;
    scene_marked(0);
    scene_request(NC_DRAIN_DELETE, 0, grace_sec);
}
static void break_grace_zero(void) {
    delete_at(76, 0);
}
static void break_grace_long(void) {
    delete_at(75, 31);
}
static void break_grace_short(void) {
    delete_at(76, 28);
}
static void break_grace_after_the_end(void) {
    scene_set(NC_DRAIN_AUTO, NC_SOURCE_SPOT, 1);
    scene_evict(0);
    scene_answer(NC_DRAIN_EVICT, 0, NC_ANSWER_BUDGET);
    scene_marked(0);
    scene_request(NC_DRAIN_DELETE, 0, 1);
}
static void break_grace_of_terminating(void) {
    scene_spot();
    scene_add_pod(
        2, (struct nc_pod){.deletion_usec = scene_now + 3590 * SEC, .deletion_grace_sec = 3600});
    scene_request(NC_DRAIN_DELETE, 2, 105);
}
static void break_needless(void) {
    scene_spot();
    scene_add_pod(
        2, (struct nc_pod){.deletion_usec = scene_now + 105 * SEC, .deletion_grace_sec = 110});
    scene_request(NC_DRAIN_DELETE, 2, 110);
}
static void break_needless_after_the_end(void) {
    scene_set(NC_DRAIN_AUTO, NC_SOURCE_SPOT, 1);
    scene_add_pod(2,
                  (struct nc_pod){.deletion_usec = scene_now + 25 * SEC, .deletion_grace_sec = 30});
    scene_request(NC_DRAIN_DELETE, 2, 6);
}
static void break_overdue(void) {
    scene_spot();
    scene_evict(0);
    scene_evict(1);
    scene_wait_sec(77);
    rules_watch(&scene_judge, scene_now);
}
static void break_idle(void) {
    scene_spot();
    rules_watch(&scene_judge, scene_now);
    scene_wait_sec(1);
    rules_watch(&scene_judge, scene_now);
}
/* The pause after a refusal is over whatever the clock says. */
static void break_retry_after_correction(void) {
    scene_spot();
    scene_evict(0);
    scene_evicted(1);
    scene_answer(NC_DRAIN_EVICT, 0, NC_ANSWER_BUDGET);
    scene_correct_clock(-95);
    scene_wait_sec(5);
    rules_watch(&scene_judge, scene_now);
    scene_wait_sec(1);
    rules_watch(&scene_judge, scene_now);
}
static void break_retry_before_correction(void) {
    scene_spot();
    scene_evict(0);
    scene_evicted(1);
    scene_answer(NC_DRAIN_EVICT, 0, NC_ANSWER_BUDGET);
    scene_correct_clock(20);
    scene_evict(0);
}
/* EC2's deadline is further away than it seemed. */
static void break_deletion_by_the_wrong_clock(void) {
    scene_spot();
    scene_correct_clock(-30);
    scene_wait_sec(104);
    scene_marked(0);
    scene_request(NC_DRAIN_DELETE, 0, 30);
}
static void break_cut_short(void) {
    scene_spot();
    rules_shortened(&scene_judge, 0, scene_now + 10 * SEC, scene_now + 60 * SEC, scene_now,
                    scene_now);
}
static void break_not_cut(void) {
    scene_spot();
    rules_shortened(&scene_judge, 0, scene_now + 10 * SEC, scene_now + 60 * SEC,
                    scene_now + 13 * SEC, scene_now);
}

const struct scene_play plays_of_pods[] = {
    {"excluded", break_terminal},
    {"excluded", break_mirror},
    {"excluded", break_tolerates},
    {"excluded", break_left_to_karpenter},
    {"tolerates", break_left_until_its_force_delete_time},
    {"excluded", break_daemon},
    {"excluded", break_stuck},
    {"kept", break_kept},
    {"kept", break_kept_for_a_while},
    {"tier", break_tier},
    {"last", break_last},
    {"terminating", break_terminating},
    {"twice", break_twice},
    {"twice-asked", break_twice_requested},
    {"late-eviction", break_late_eviction},
    {"pause", break_pause},
    {"in-flight", break_in_flight},
    {"turn", break_turn},
    {"turn", break_turn_of_namespace},
    {"patience", break_patience},
    {"cordon-first", break_cordon_first},
    {"signal-first", break_signal_first},
    {"unlisted", break_unlisted},
    {"fresh", break_fresh},
    {"unknown", break_unknown},
    {"policy", break_policy},
    {"policy", break_begin},
    {"mode", break_mode},
    {"no-node", break_no_node},
    {"no-deadline", break_no_deadline},
    {"early-deletion", break_early_deletion},
    {"early-mark", break_early_mark},
    {"untried", break_untried},
    {"unmarked", break_unmarked},
    {"mark-waits", break_mark_waits},
    {"grace", break_grace_zero},
    {"grace", break_grace_long},
    {"grace", break_grace_short},
    {"grace", break_grace_after_the_end},
    {"grace", break_grace_of_terminating},
    {"needless", break_needless},
    {"needless", break_needless_after_the_end},
    {"overdue", break_overdue},
    {"idle", break_idle},
    {"idle", break_retry_after_correction},
    {"pause", break_retry_before_correction},
    {"early-deletion", break_deletion_by_the_wrong_clock},
    {"cut-short", break_cut_short},
    {"not-cut", break_not_cut},
    {NULL, NULL},
};
