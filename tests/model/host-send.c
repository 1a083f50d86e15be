/*
 * What the daemon requests, on its way to the API server; and what else an action does.
 *
 * A request keeps what the judge needs later: when it was sent, and which T was in force.
 */
#include "world.h"

static struct request *send(struct world *w, uint64_t timeout_usec) {
    struct request *q = nc_calloc(1, sizeof(*q));
    struct thing_due *due = world_plan(w, w->now_usec + world_latency(w), THING_ARRIVES, 0, 0);

    due->data = q;
    due->life = w->life_number;
    q->sent_usec = w->now_usec;
    q->timeout_usec = timeout_usec;
    q->t_usec = w->rules.late_usec;
    return q;
}

static void send_write(struct world *w, const struct nc_node_write *p) {
    static const char *const names[_NC_WRITE_MAX] = {
        [NC_WRITE_SIGNAL] = "signal",        [NC_WRITE_CORDON] = "cordon",
        [NC_WRITE_PROGRESS] = "progress",    [NC_WRITE_DRAINED] = "drained",
        [NC_WRITE_UNDRAINED] = "undrained",  [NC_WRITE_RELEASE] = "release",
        [NC_WRITE_CLEAR_CONDITIONS] = "calm"};
    struct request *q = send(w, world_between(w, 2, 10) * SEC);

    for (unsigned i = 0; p->kind == NC_WRITE_DRAINED && i < w->n_pods; i++)
        if (world_is_left(w, &w->pods[i], true) && !w->pods[i].is_daemon
            && !w->pods[i].deletion_usec)
            rules_left(&w->rules, i, w->pods[i].bound_usec);
    q->kind = REQUEST_WRITE;
    q->write = *p;
    q->has_record_text = p->sets_cordon && p->cordon;
    q->has_status_text = p->sets_status && p->drain_status;
    world_log(w, "-> write %s: unschedulable %d, label %d, record %s, status %s", names[p->kind],
              p->unschedulable, p->balancers_label,
              p->sets_cordon ? (p->cordon ? p->cordon : "removed") : "untouched",
              p->sets_status ? (p->drain_status ? p->drain_status : "removed") : "untouched");
}

static void send_pod(struct world *w, const struct nc_drain_action *a) {
    static const uint64_t timeouts[] = {2, 4, 8, 15};
    static const char *const names[] = {"", "evict", "mark", "delete"};
    unsigned n = a->attempt ? a->attempt - 1 : 0;
    struct request *q = send(w, timeouts[n < 3 ? n : 3] * SEC);

    q->kind = REQUEST_POD;
    q->verb = a->verb;
    q->pod = rules_pod_number(a->pod->uid);
    q->is_informed = rules_is_known_to_end(&w->rules.pods[q->pod]);
    q->grace_sec = a->grace_sec;
    world_log(w, "-> %s pod %u, grace %llu, attempt %u", names[a->verb], q->pod,
              (unsigned long long)a->grace_sec, a->attempt);
}

void host_look(struct world *w) {
    if (w->is_looking)
        return;
    w->is_looking = true;
    send(w, 5 * SEC)->kind = REQUEST_REFRESH;
}

static void open_pods(struct world *w) {
    struct thing_due *due;

    w->watch_number++;
    w->is_listed = false;
    due = world_plan(w, w->now_usec + world_latency(w), THING_LISTED, 0, w->watch_number);
    due->life = w->life_number;
    world_log(w, "-> list the pods");
}

/* Nobody has installed one, it ends, it fails, or it hangs; it may end long after it was waited
 * for.
 */
static void run_hook(struct world *w, enum nc_hook h, bool is_followed) {
    const uint64_t after_usec = world_random(w, 2 * w->config.drain.hook_timeout_usec + SEC);
    const bool is_none = !is_followed && world_chance(w, 40);
    enum nc_hook_state state = world_chance(w, 70) ? NC_HOOK_DONE : NC_HOOK_FAILED;

    world_log(w, "-> %s %s", is_followed ? "follow" : "start", nc_hook_name(h));
    world_plan(w, w->now_usec, THING_HOOK, h, is_none ? NC_HOOK_NONE : NC_HOOK_RUNNING)->life =
        w->life_number;
    if (!is_none && world_chance(w, 80))
        world_plan(w, w->now_usec + after_usec, THING_HOOK, h, state)->life = w->life_number;
}

void host_carry_out(struct world *w, const struct nc_lifecycle_action *a) {
    switch (a->kind) {
    case NC_LIFECYCLE_ACTION_WRITE:
        send_write(w, &a->write);
        break;
    case NC_LIFECYCLE_ACTION_POD:
        send_pod(w, &a->pod);
        break;
    case NC_LIFECYCLE_ACTION_PODS_OPEN:
        open_pods(w);
        break;
    case NC_LIFECYCLE_ACTION_PODS_CLOSE:
        world_log(w, "-> close the watch of the pods");
        w->watch_number++;
        w->is_listed = false;
        break;
    case NC_LIFECYCLE_ACTION_REFRESH_NODE:
        world_log(w, "-> look at the Node");
        host_look(w);
        break;
    case NC_LIFECYCLE_ACTION_ANNOUNCE:
        world_log(w, "-> %s: %s", a->reason, a->message);
        break;
    case NC_LIFECYCLE_ACTION_POD_NEWS:
        break;
    case NC_LIFECYCLE_ACTION_START_HOOK:
    case NC_LIFECYCLE_ACTION_FOLLOW_HOOK:
        run_hook(w, a->hook, a->kind == NC_LIFECYCLE_ACTION_FOLLOW_HOOK);
        break;
    case NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR:
        world_log(w, "-> let the shutdown go on");
        if (w->sources[NC_SOURCE_SHUTDOWN].is_on)
            world_plan(w, w->now_usec + world_between(w, SEC, 5 * SEC), THING_KILL, 2, 0);
        break;
    }
}
