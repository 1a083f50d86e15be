/*
 * The daemon's process around its lifecycle: what happens becomes an event, and is stepped. How
 * actions become requests: host-send.c; how it is killed and starts again: host-life.c.
 */
#include "world.h"

/* --- the step ----------------------------------------------------------------------------------
 */

static void arm(struct world *w, uint64_t next_usec) {
    if (next_usec == w->armed_usec)
        return;
    w->tick_number++;
    w->armed_usec = next_usec;
    if (next_usec == UINT64_MAX)
        return;
    if (next_usec < w->now_usec)
        next_usec = w->now_usec;
    world_plan(w, next_usec + (world_chance(w, 20) ? world_random(w, 3 * MSEC) : 0), THING_TICK,
               w->tick_number, 0);
}

static void keep_state(struct world *w) {
    if (!w->kills_left)
        return;
    if (world_chance(w, 20)) {
        nc_value_free(w->older);
        w->older = nc_steal(&w->saved);
        w->older_memory = w->saved_memory;
    }
    nc_value_free(w->saved);
    w->saved = nc_lifecycle_save(w->life);
    w->saved_memory = w->rules.memory;
}

static bool is_news(enum nc_lifecycle_event_kind kind) {
    return kind != NC_LIFECYCLE_POD && kind != NC_LIFECYCLE_POD_UNREADABLE
           && kind != NC_LIFECYCLE_POD_GONE && kind != NC_LIFECYCLE_POD_ANSWER;
}

void host_post(struct world *w, struct nc_lifecycle_event *e) {
    struct nc_lifecycle_actions out = {0};
    bool is_killed = false, was_owed = w->is_unsettled;
    uint64_t next;

    if (!w->life || w->rules.broken[0])
        return;
    e->now_usec = w->now_usec;
    e->clock_offset_usec = w->clock_off_usec;
    e->more = !is_news(e->kind) && world_chance(w, 50);
    w->is_unsettled = e->more;
    rules_event(&w->rules, e);
    nc_lifecycle_step(w->life, e, &out);
    for (size_t i = 0; i < out.n && !is_killed; i++) {
        is_killed = w->kills_left && ++w->n_actions == w->kill_at_action;
        if (is_killed)
            break;
        rules_action(&w->rules, &out.v[i], w->now_usec);
        if (out.v[i].kind == NC_LIFECYCLE_ACTION_START_HOOK)
            keep_state(w);
        host_carry_out(w, &out.v[i]);
    }
    next = e->more ? w->now_usec : nc_lifecycle_next(w->life, w->now_usec);
    if (!is_killed) {
        if (!was_owed) /* that tick may well find nothing to do */
            rules_stepped(&w->rules, e, out.n, next);
        if (is_news(e->kind))
            keep_state(w);
        arm(w, next);
    }
    nc_lifecycle_actions_done(&out);
    if (is_killed)
        host_kill(w, false, world_random(w, world_chance(w, 70) ? 2 * SEC : 20 * SEC));
}

static void post_notice(struct world *w, const struct nc_notice *n) {
    host_post(w, &(struct nc_lifecycle_event){
                     .kind = NC_LIFECYCLE_NOTICE, .notice = n, .source = n->source});
}

static void post_cleared(struct world *w, enum nc_source s) {
    host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_CLEARED, .source = s});
}

/* --- our Node ----------------------------------------------------------------------------------
 */

static void post_deletion(struct world *w) {
    struct nc_notice n = {.source = NC_SOURCE_DELETION,
                          .action = "delete",
                          .deadline_usec = w->claim_t_usec,
                          .is_force_delete_time = w->claim_t_usec != 0};

    snprintf(n.id, sizeof(n.id), "deletion-%.50s", w->view.uid);
    if (w->view.is_deleting)
        post_notice(w, &n);
    else
        post_cleared(w, NC_SOURCE_DELETION);
}

static void post_node(struct world *w) {
    world_log(w, "Node: %s, %s%s%s%s%s%s%s%zu volumes", w->view.is_complete ? "whole" : "metadata",
              w->view.is_unschedulable ? "cordoned, " : "",
              w->view.has_cordon_record ? "record, " : "", w->view.has_status ? "status, " : "",
              w->view.is_pending_true ? "pending, " : "",
              w->view.is_drained_true ? "drained, " : "", w->view.is_deleting ? "deleting, " : "",
              w->view.has_disrupted_taint ? "taint, " : "", w->view.n_volumes);
    host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_NODE, .node = &w->view});
    post_deletion(w);
    if (w->sources[NC_SOURCE_REQUEST].is_on)
        post_notice(w, &w->sources[NC_SOURCE_REQUEST].notice);
    else
        post_cleared(w, NC_SOURCE_REQUEST);
}

static void forget_other_node(struct world *w, const struct nc_node_view *v) {
    if (strcmp(w->view.uid, v->uid) == 0)
        return;
    if (w->view.exists)
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_NODE_GONE});
    memset(&w->view, 0, sizeof(w->view));
    w->is_node_known = false;
}

/* What came may be older than what the watch has shown meanwhile: then it is checked again. */
static void check_again(struct world *w) {
    struct nc_lifecycle_view view = {0};

    if (w->life)
        nc_lifecycle_get_view(w->life, w->now_usec, &view);
    if (!w->is_node_known
        || (w->whole_version != w->watch_version
            && (view.phase != NC_LIFECYCLE_IDLE || !w->minds_versions)))
        world_plan(w, w->now_usec + SEC / 2, THING_REFRESH, 0, 0)->life = w->life_number;
}

static bool is_overtaken(const struct world *w, const struct request *q) {
    return (q->kind == REQUEST_REFRESH || w->minds_versions)
           && (q->version < w->whole_version || q->version < w->watch_version);
}

static void apply_node(struct world *w, const struct nc_node_view *v, unsigned version) {
    forget_other_node(w, v);
    w->view = *v;
    w->whole_version = version;
    w->is_node_known = true;
    post_node(w);
}

static void lose_node(struct world *w) {
    bool was_known = w->view.exists;

    memset(&w->view, 0, sizeof(w->view));
    w->is_node_known = false;
    if (was_known)
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_NODE_GONE});
    if (!w->rules.memory.is_active[NC_SOURCE_REQUEST])
        post_cleared(w, NC_SOURCE_REQUEST);
    if (!w->rules.memory.is_active[NC_SOURCE_DELETION])
        post_cleared(w, NC_SOURCE_DELETION);
}

/* The watch brings the metadata; the rest is known where the last whole object was of this version.
 */
static void see_node(struct world *w, const struct nc_node_view *v, unsigned version) {
    struct nc_node_view old;

    if (w->minds_versions && v->exists && version < w->whole_version)
        return;
    w->watch_version = version;
    if (!v->exists) {
        lose_node(w);
        return;
    }
    forget_other_node(w, v);
    old = w->view;
    w->view = *v;
    w->view.is_complete = w->is_node_known && version == w->whole_version;
    w->view.is_unschedulable = old.is_unschedulable;
    w->view.has_disrupted_taint = old.has_disrupted_taint;
    w->view.is_pending_true = old.is_pending_true;
    w->view.is_drained_true = old.is_drained_true;
    w->view.n_volumes = old.n_volumes;
    if (w->is_node_known || !w->waits_for_whole)
        post_node(w);
    check_again(w);
}

/* --- pods --------------------------------------------------------------------------------------
 */

static void post_pod(struct world *w, unsigned i, const struct world_pod *p) {
    struct nc_pod pod = {
        .namespace = nc_strdup(p->has_dead_webhook ? "hooked" : "default"),
        .name = nc_asprintf("pod-%02u", i),
        .uid = nc_asprintf("uid-%02u", i),
        .tier = p->tier,
        .order = p->order,
        .created_usec = p->is_daemon ? 1 : nc_lifecycle_shift(p->bound_usec, w->clock_off_usec),
        .is_daemon = p->is_daemon,
        .is_mirror = p->is_mirror,
        .is_terminal = p->is_terminal,
        .is_job = p->is_job,
        .controller = i + 1,
        .has_started = p->has_started,
        .tolerates_disrupted = p->tolerates,
        .never_disrupt = p->never_disrupt,
        .keep_until_usec = nc_lifecycle_shift(p->keep_until_usec, w->clock_off_usec),
        .grace_sec = p->grace_sec,
        .deletion_usec = nc_lifecycle_shift(p->deletion_usec, w->clock_off_usec),
        .deletion_grace_sec = p->deletion_grace_sec};

    world_log(w, "pod %u: tier %d, grace %llu%s%s%s%s%s%s, ends %+.3f (%llu)", i, (int)p->tier,
              (unsigned long long)p->grace_sec, p->is_daemon ? ", daemon" : "",
              p->is_mirror ? ", mirror" : "", p->is_terminal ? ", terminal" : "",
              p->tolerates ? ", tolerates" : "", p->never_disrupt ? ", never" : "",
              p->keep_until_usec > w->now_usec ? ", kept" : "",
              p->deletion_usec ? (double)(int64_t)(p->deletion_usec - w->now_usec) / 1e6 : 0.0,
              (unsigned long long)p->deletion_grace_sec);
    if (!w->life || w->rules.broken[0] || w->now_usec < p->unreadable_until_usec)
        nc_pod_done(&pod);
    if (w->now_usec < p->unreadable_until_usec)
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_POD_UNREADABLE});
    else if (pod.uid)
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_POD, .pod = &pod});
}

static void see_pod(struct world *w, const struct thing_due *due) {
    char uid[16];

    if (due->b == WORLD_CAUGHT_UP) { /* an informer has caught up */
        if (w->pods[due->a].exists && w->life)
            world_pod_changed(w, due->a);
        return;
    }
    if (due->b != w->watch_number)
        return;
    if (due->data) {
        post_pod(w, due->a, due->data);
        return;
    }
    snprintf(uid, sizeof(uid), "uid-%02u", due->a);
    world_log(w, "pod %u: gone", due->a);
    host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_POD_GONE, .uid = uid});
}

static void list(struct world *w, const struct thing_due *due) {
    uint64_t until = world_unavailable_until(w, w->now_usec);
    struct thing_due *again;

    if (due->b != w->watch_number)
        return;
    if (!until) {
        world_list(w);
        return;
    }
    again = world_plan(w, until + world_random(w, 2 * SEC), THING_LISTED, 0, due->b);
    again->life = due->life;
}

static void sync_pods(struct world *w, const struct thing_due *due) {
    if (due->b != w->watch_number)
        return;
    world_log(w, "pods are listed");
    host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_PODS_SYNCED});
}

/* --- answers -----------------------------------------------------------------------------------
 */

static void handle_pod_answer(struct world *w, const struct request *q) {
    char uid[16];

    snprintf(uid, sizeof(uid), "uid-%02u", q->pod);
    world_log(w, "pod %u: verb %d: %s", q->pod, (int)q->verb, nc_pod_answer_name(q->answer.kind));
    host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_POD_ANSWER,
                                              .uid = uid,
                                              .verb = q->verb,
                                              .answer = &q->answer,
                                              .retry_after_usec = q->answer.retry_after_usec});
}

static void take_answer(struct world *w, const struct request *q) {
    unsigned life = w->life_number;

    if (q->kind == REQUEST_POD) {
        handle_pod_answer(w, q);
        return;
    }
    if (q->kind == REQUEST_REFRESH)
        w->is_looking = false;
    if (q->kind == REQUEST_REFRESH)
        w->is_refresh_wanted = !q->has_view || is_overtaken(w, q);
    if (q->kind == REQUEST_REFRESH && w->is_refresh_wanted && w->node.exists)
        world_plan(w, w->now_usec + SEC, THING_REFRESH, 0, 0)->life = life;
    if (q->kind == REQUEST_WRITE)
        world_log(w, "write: %s",
                  q->outcome == NC_WRITTEN         ? "written"
                  : q->outcome == NC_WRITE_REFUSED ? "refused"
                                                   : "no answer");
    if (q->has_view && !is_overtaken(w, q))
        apply_node(w, &q->view, q->version);
    if (q->has_view)
        check_again(w);
    if (q->kind == REQUEST_WRITE && life == w->life_number)
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_WRITTEN,
                                                  .outcome = q->outcome,
                                                  .message = "why",
                                                  .retry_after_usec = q->retry_after_usec});
}

/* --- what happens ---------------------------------------------------------------------------- */

static void poll(struct world *w, enum nc_source s) {
    if (s == NC_SOURCE_DELETION || s == NC_SOURCE_REQUEST)
        return;
    if (s == NC_SOURCE_SHUTDOWN)
        host_greet_logind(w);
    else if (w->sources[s].is_on)
        post_notice(w, &w->sources[s].notice);
    else
        post_cleared(w, s);
    if (world_chance(w, 30) && w->now_usec < w->end_usec)
        world_plan(w, w->now_usec + world_between(w, SEC, 15 * SEC), THING_POLL, s, 0);
}

static void die(struct world *w, unsigned how) {
    if (how == 2)
        host_end_machine(w);
    else
        host_kill(w, how == 1, world_random(w, 10 * SEC));
}

/* What was meant for a daemon that is no more does not reach this one. */
static bool is_for_us(const struct world *w, const struct thing_due *due) {
    return w->life && (!due->life || due->life == w->life_number);
}

static void happen_to_daemon(struct world *w, struct thing_due *due) {
    switch (due->kind) {
    case THING_TICK:
        if (due->a != w->tick_number)
            break;
        w->armed_usec = UINT64_MAX;
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_TICK});
        break;
    case THING_CLOCK: /* the answer that dates it tells of a source, too */
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_TICK});
        break;
    case THING_HEARTBEAT:
        rules_watch(&w->rules, w->now_usec);
        break;
    case THING_POLL:
        poll(w, (enum nc_source)due->a);
        break;
    case THING_HINT:
        host_hint(w);
        break;
    case THING_PROPERTY:
        host_property(w, due->a, due->b);
        break;
    case THING_NODE_SEEN:
        see_node(w, due->data, due->a);
        break;
    case THING_POD_SEEN:
        see_pod(w, due);
        break;
    case THING_LISTED:
        list(w, due);
        break;
    case THING_SYNCED:
        sync_pods(w, due);
        break;
    case THING_ANSWERED:
        take_answer(w, due->data);
        break;
    case THING_REFRESH:
        if (!w->is_node_known || w->is_refresh_wanted || w->whole_version != w->watch_version)
            host_look(w);
        break;
    case THING_RULES:
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_RULES, .rules = &w->config});
        break;
    case THING_HOOK:
        world_log(w, "%s: %s", nc_hook_name((enum nc_hook)due->a),
                  nc_hook_state_name((enum nc_hook_state)due->b));
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_HOOK,
                                                  .hook = (enum nc_hook)due->a,
                                                  .hook_state = (enum nc_hook_state)due->b,
                                                  .message = "exit-code"});
        break;
    case THING_SOURCE:
    case THING_ARRIVES:
    case THING_POD_ENDS:
    case THING_POD_STOPS:
    case THING_BUDGET:
    case THING_BIND:
    case THING_DETACHED:
    case THING_PERSON:
    case THING_KARPENTER:
    case THING_RELIST:
    case THING_KILL:
    case THING_START:
    case THING_NODE_GONE:
    case THING_NODE_BACK:
        break;
    }
}

void host_happen(struct world *w, struct thing_due *due) {
    if (due->kind == THING_ARRIVES && (is_for_us(w, due) || world_chance(w, 50)))
        world_arrive(w, due);
    else if (due->kind == THING_KILL)
        die(w, due->a);
    else if (due->kind == THING_START)
        host_start(w, !due->a);
    else if (is_for_us(w, due))
        happen_to_daemon(w, due);
}

void host_done(struct world *w) {
    w->life = nc_lifecycle_free(w->life);
    nc_value_free(w->saved);
    nc_value_free(w->older);
    w->saved = w->older = NULL;
}
