/*
 * The life of a node under any sequence of events: two bytes an event, what and with what. A small
 * server keeps the Node; what must hold whatever happens is checked at each action.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "nc/lifecycle.h"

#define PODS 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct world {
    struct nc_lifecycle *life;
    struct nc_lifecycle_rules rules;
    uint64_t now_usec;
    int64_t clock_offset_usec;
    struct nc_node_view node; /* as the server has it, and as it was shown */
    struct nc_node_write write;
    bool is_writing, is_open, is_synced, has_released;
    bool is_active[_NC_SOURCE_MAX];
    uint64_t deadline_usec[_NC_SOURCE_MAX]; /* the earliest that was said; 0 = none */
    uint64_t moved_usec;                    /* EC2's clock, by at most so much */
    bool was_signal_tried;
};

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static bool is_anything_active(const struct world *w) {
    for (size_t s = 0; s < _NC_SOURCE_MAX; s++)
        if (w->is_active[s])
            return true;
    return false;
}

/* P8: its force-delete time is there, or may be: by the shortest margin, and a clock that moved. */
static bool is_due_by_force(const struct world *w, const struct nc_pod *p) {
    const uint64_t by_usec =
        w->now_usec + w->rules.drain.margin_usec + (p->grace_sec + 1ull) * 1000000 + w->moved_usec;

    for (size_t s = 0; s < _NC_SOURCE_MAX; s++)
        if (w->is_active[s] && w->deadline_usec[s] && w->deadline_usec[s] <= by_usec)
            return true;
    return false;
}

static void handle_write(struct world *w, struct nc_node_write *n) {
    must(!w->is_writing && w->node.exists);
    must(n->unschedulable != 0 || w->node.has_cordon_record);
    must(n->unschedulable != 0 || !w->node.is_deleting);
    must(n->balancers_label != 0 || w->node.is_balancers_label_ours);
    must(n->balancers_label != 1 || !w->node.has_balancers_label);
    must(!n->drain_status || strlen(n->drain_status) <= 1024);
    must(is_anything_active(w) || n->kind == NC_WRITE_RELEASE
         || n->kind == NC_WRITE_CLEAR_CONDITIONS);
    w->was_signal_tried |= n->kind == NC_WRITE_SIGNAL;
    nc_node_write_done(&w->write);
    w->write = *n;
    *n = (struct nc_node_write){0};
    w->is_writing = true;
}

static void handle_action(struct world *w, struct nc_lifecycle_action *a) {
    switch (a->kind) {
    case NC_LIFECYCLE_ACTION_WRITE:
        handle_write(w, &a->write);
        break;
    case NC_LIFECYCLE_ACTION_POD:
        must(w->is_open && a->pod.pod && is_anything_active(w));
        must(a->pod.verb != NC_DRAIN_EVICT
             || ((w->is_synced || is_due_by_force(w, a->pod.pod))
                 && w->rules.drain.mode != NC_DRAIN_OFF));
        must(a->pod.verb != NC_DRAIN_DELETE || a->pod.grace_sec > 0);
        break;
    case NC_LIFECYCLE_ACTION_PODS_OPEN:
        must(!w->is_open);
        w->is_open = true;
        w->is_synced = false;
        break;
    case NC_LIFECYCLE_ACTION_PODS_CLOSE:
        must(w->is_open);
        w->is_open = false;
        break;
    case NC_LIFECYCLE_ACTION_REFRESH_NODE:
        must(w->node.exists);
        break;
    case NC_LIFECYCLE_ACTION_ANNOUNCE:
        must(a->message && a->reason);
        break;
    case NC_LIFECYCLE_ACTION_POD_NEWS:
        must(a->news.kind && a->news.namespace && a->news.name && a->news.message);
        break;
    case NC_LIFECYCLE_ACTION_START_HOOK:
        must(w->rules.drain.hook_timeout_usec && is_anything_active(w));
        must(a->hook != NC_HOOK_POST_DRAIN || w->is_synced);
        break;
    case NC_LIFECYCLE_ACTION_FOLLOW_HOOK:
        must(a->hook == NC_HOOK_PRE_DRAIN || a->hook == NC_HOOK_POST_DRAIN);
        break;
    case NC_LIFECYCLE_ACTION_RELEASE_INHIBITOR:
        must(w->is_active[NC_SOURCE_SHUTDOWN] && !w->has_released);
        w->has_released = true;
        break;
    }
}

static void step(struct world *w, struct nc_lifecycle_event *e) {
    struct nc_lifecycle_actions out = {0};

    e->now_usec = w->now_usec;
    e->clock_offset_usec = w->clock_offset_usec;
    nc_lifecycle_step(w->life, e, &out);
    for (size_t i = 0; i < out.n; i++)
        handle_action(w, &out.v[i]);
    nc_lifecycle_actions_done(&out);
    must(nc_lifecycle_next(w->life, w->now_usec) > w->now_usec);
}

static void notice(struct world *w, uint8_t with) {
    struct nc_notice n = {.source = with % _NC_SOURCE_MAX,
                          .policy = with & 8 ? NC_POLICY_DRAIN : NC_POLICY_CORDON};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NOTICE, .notice = &n};

    (void)snprintf(n.id, sizeof(n.id), "%d-%d", n.source, with >> 6);
    if (with & 16)
        n.deadline_usec = w->now_usec + (with >> 5) * 20000000ull;
    if (with & 32)
        n.begin_usec = w->now_usec + 5000000;
    n.is_force_delete_time = with & 64;
    if (n.deadline_usec
        && (!w->is_active[n.source] || !w->deadline_usec[n.source]
            || n.deadline_usec < w->deadline_usec[n.source]))
        w->deadline_usec[n.source] = n.deadline_usec;
    if (n.source == NC_SOURCE_SHUTDOWN)
        w->has_released = false;
    w->is_active[n.source] = true;
    step(w, &e);
}

static void clear(struct world *w, uint8_t with) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_CLEARED};

    for (size_t s = 0; s < _NC_SOURCE_MAX; s++)
        if (with & (1u << s)) {
            e.source = (enum nc_source)s;
            w->is_active[s] = false;
            step(w, &e);
        }
}

static void show(struct world *w, bool is_complete) {
    struct nc_node_view v = w->node;
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NODE, .node = &v};

    v.exists = w->node.exists = true;
    v.is_complete = is_complete;
    step(w, &e);
}

/* Somebody else changes the Node. */
static void change_node(struct world *w, uint8_t with) {
    struct nc_node_view *v = &w->node;

    if (with % 16 == 15)
        *v = (struct nc_node_view){0};
    (void)snprintf(v->uid, sizeof(v->uid), "u%d", with % 16 == 15 ? with >> 6 : v->uid[1] - '0');
    v->is_deleting |= with % 16 == 1;
    v->has_disrupted_taint ^= with % 16 == 2;
    v->is_unschedulable ^= with % 16 == 3;
    v->n_volumes = with % 16 == 4;
    if (with % 16 == 5 && !v->has_balancers_label)
        v->has_balancers_label = true;
    show(w, with & 128 || with % 16 == 2);
}

static void gone(struct world *w) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_NODE_GONE};

    w->node = (struct nc_node_view){.uid = "u1"};
    step(w, &e);
}

static void pod(struct world *w, uint8_t with) {
    struct nc_pod p = {.grace_sec = with >> 4, .tier = with & 8 ? NC_TIER_CRITICAL : NC_TIER_PLAIN};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_POD, .pod = &p};

    p.namespace = nc_strdup("ns");
    p.name = nc_asprintf("%d", with % PODS);
    p.uid = nc_asprintf("%d", with % PODS);
    if (with & 128)
        p.deletion_usec = w->now_usec + (with >> 4) * 1000000ull;
    if (with % PODS == 3 && with & 4) {
        nc_pod_done(&p);
        e.kind = NC_LIFECYCLE_POD_UNREADABLE;
    }
    step(w, &e);
}

static void lost(struct world *w, uint8_t with) {
    char uid[2] = {(char)('0' + with % PODS), '\0'};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_POD_GONE, .uid = uid};

    step(w, &e);
}

static void answer(struct world *w, uint8_t with) {
    char uid[2] = {(char)('0' + with % PODS), '\0'};
    const struct nc_pod_answer a = {.kind = 1 + (with >> 4) % (_NC_ANSWER_MAX - 1)};
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_POD_ANSWER,
                                   .uid = uid,
                                   .answer = &a,
                                   .verb = (enum nc_drain_verb)(1 + (with >> 2) % 3)};

    step(w, &e);
}

static void written(struct world *w, uint8_t with) {
    const struct nc_node_write *n = &w->write;
    struct nc_node_view *v = &w->node;
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_WRITTEN,
                                   .outcome = (enum nc_write_outcome)(1 + with % 3),
                                   .message = "why"};

    if (e.outcome == NC_WRITTEN && w->is_writing && v->exists) {
        v->is_unschedulable = n->unschedulable >= 0 ? n->unschedulable : v->is_unschedulable;
        v->has_cordon_record = n->sets_cordon ? n->cordon != NULL : v->has_cordon_record;
        v->has_status = n->sets_status ? n->drain_status != NULL : v->has_status;
        if (n->balancers_label >= 0)
            v->has_balancers_label = v->is_balancers_label_ours = n->balancers_label;
        v->is_pending_true = n->pending.is_set ? n->pending.is_true : v->is_pending_true;
        v->is_drained_true = n->drained.is_set ? n->drained.is_true : v->is_drained_true;
        show(w, true);
    }
    w->is_writing = false;
    step(w, &e);
}

static void rules(struct world *w, uint8_t with) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_RULES, .rules = &w->rules};

    w->rules.drain.policy[with % _NC_SOURCE_MAX] = (enum nc_policy)(1 + (with >> 3) % 4);
    w->rules.drain.mode = (enum nc_drain_mode)(1 + (with >> 5) % 4);
    w->rules.drain.linger_usec = with & 128 ? 10000000 : 0;
    w->rules.drain.hook_timeout_usec = with & 64 ? 7000000 : 0;
    step(w, &e);
}

static void hook(struct world *w, uint8_t with) {
    struct nc_lifecycle_event e = {.kind = NC_LIFECYCLE_HOOK,
                                   .hook = (enum nc_hook)(with >> 2 & 1),
                                   .hook_state =
                                       (enum nc_hook_state)((with >> 3) % _NC_HOOK_STATE_MAX),
                                   .message = with & 128 ? "exit-code" : NULL};

    step(w, &e);
}

static void simple(struct world *w, enum nc_lifecycle_event_kind kind) {
    struct nc_lifecycle_event e = {.kind = kind};

    w->is_synced |= kind == NC_LIFECYCLE_PODS_SYNCED && w->is_open;
    step(w, &e);
}

static void restart(struct world *w, uint8_t with) {
    nc_auto_value struct nc_value *saved = nc_lifecycle_save(w->life);

    nc_lifecycle_free(w->life);
    w->life = nc_lifecycle_new(&w->rules);
    w->is_writing = w->is_open = w->is_synced = w->has_released = false;
    if (with & 1)
        must(nc_lifecycle_load(w->life, saved, with & 2, 0) == 0);
    for (size_t s = 0; s < _NC_SOURCE_MAX; s++)
        w->is_active[s] &= with & 1 && (with & 2 || s == NC_SOURCE_OPERATOR);
    simple(w, NC_LIFECYCLE_START);
}

static void wait_for(struct world *w, uint8_t with) {
    const uint64_t next_usec = nc_lifecycle_next(w->life, w->now_usec);

    if (with & 1 && next_usec != UINT64_MAX)
        w->now_usec = next_usec;
    else if (with & 2) {
        w->clock_offset_usec += ((int64_t)(with >> 2) - 32) * 4000000;
        w->moved_usec += 32 * 4000000ull;
    } else
        w->now_usec += (with >> 2) * 250000ull;
    simple(w, NC_LIFECYCLE_TICK);
}

static void happen(struct world *w, uint8_t what, uint8_t with) {
    static void (*const acts[])(struct world *, uint8_t) = {
        notice,  clear, change_node, pod,      lost,    answer,
        written, rules, restart,     wait_for, written, wait_for};

    if (what >= 240) /* the corpus keeps its meaning */
        return;
    what %= 15;
    if (what < NC_ARRAY_SIZE(acts))
        acts[what](w, with);
    else if (what == 12)
        simple(w, NC_LIFECYCLE_PODS_SYNCED);
    else if (what == 13 && with % 4 == 0)
        gone(w);
    else if (what == 13 && with % 4 == 1)
        hook(w, with);
    else
        show(w, true);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct world w = {.now_usec = 1767323045000000,
                      .node = {.uid = "u1"},
                      .rules = {.drain = {.mode = NC_DRAIN_AUTO, .margin_usec = 15000000},
                                .max_in_flight = 3,
                                .max_pods = 4}};

    for (size_t s = 0; s < _NC_SOURCE_MAX; s++)
        w.rules.drain.policy[s] = NC_POLICY_DRAIN;
    w.life = nc_lifecycle_new(&w.rules);
    simple(&w, NC_LIFECYCLE_START);
    for (size_t i = 0; i + 1 < n && i < 4096; i += 2)
        happen(&w, data[i], data[i + 1]);
    nc_node_write_done(&w.write);
    nc_lifecycle_free(w.life);
    return 0;
}
