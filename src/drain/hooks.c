/*
 * Hooks: when each is started, how long it is waited for, and what of it survives a restart.
 *
 * The rule: docs/drain-rules.md, N16. A hook never stops a drain: whatever becomes of it is
 * reported, and the drain goes on. How a hook is started is the daemon's business.
 */
#include "nc/hooks.h"

#include "lifecycle-priv.h"
#include "nc/str.h"

#define SLOW_USEC (10 * NC_SEC_USEC) /* from then on the cluster is told of it */

static const struct {
    char name[12], unit[32];
} hooks[_NC_HOOK_MAX] = {
    [NC_HOOK_PRE_DRAIN] = {"preDrain", "nodeclaimd-pre-drain.target"},
    [NC_HOOK_POST_DRAIN] = {"postDrain", "nodeclaimd-post-drain.target"},
};
static const char state_names[_NC_HOOK_STATE_MAX][8] = {
    [NC_HOOK_IDLE] = "idle", [NC_HOOK_RUNNING] = "running", [NC_HOOK_NONE] = "none",
    [NC_HOOK_DONE] = "done", [NC_HOOK_FAILED] = "failed",   [NC_HOOK_TIMEOUT] = "timeout",
};

const char *nc_hook_name(enum nc_hook h) {
    return hooks[h].name;
}

const char *nc_hook_unit(enum nc_hook h) {
    return hooks[h].unit;
}

const char *nc_hook_state_name(enum nc_hook_state s) {
    return state_names[s];
}

bool nc_lifecycle_is_hook_over(const struct nc_lifecycle *l, enum nc_hook h) {
    const enum nc_hook_state s = l->hooks[h].run.state;

    return s == NC_HOOK_IDLE ? l->rules.drain.hook_timeout_usec == 0 : s != NC_HOOK_RUNNING;
}

static void finish(struct nc_lifecycle *l, enum nc_hook h, enum nc_hook_state state) {
    struct nc_hook_run *run = &l->hooks[h].run;

    run->state = state;
    run->ended_usec = l->now_usec;
}

static void emit(struct nc_lifecycle *l, const char *reason, char *message,
                 struct nc_lifecycle_actions *out) {
    nc_lifecycle_emit(NC_LIFECYCLE_MILESTONE_HOOK, reason, message, out);
}

/* How long it is waited for. */
static void check_limit(struct nc_lifecycle *l, enum nc_hook h, uint64_t *next_usec,
                        struct nc_lifecycle_actions *out) {
    const struct nc_hook_run *run = &l->hooks[h].run;
    const uint64_t limit_usec = nc_sum_usec(run->started_usec, l->rules.drain.hook_timeout_usec);
    uint64_t usec = limit_usec;

    if (l->in_force.t_usec && l->in_force.t_usec < usec)
        usec = l->in_force.t_usec;
    if (h == NC_HOOK_PRE_DRAIN) {
        const uint64_t marked_usec = nc_lifecycle_first_mark_at(l);
        usec = marked_usec < usec ? marked_usec : usec;
    }
    if (!nc_has_come(l->now_usec, usec, next_usec))
        return;
    finish(l, h, NC_HOOK_TIMEOUT);
    emit(l, "HookTimedOut",
         nc_asprintf("%s has not ended %s: the drain goes on without it, and what it has started "
                     "is not stopped; systemctl list-jobs names what runs still",
                     hooks[h].unit,
                     usec == limit_usec ? "within drain.hookTimeout"
                                        : "before the deadline needs its time"),
         out);
}

static bool is_due(const struct nc_lifecycle *l, enum nc_hook h, uint64_t *next_usec) {
    if (l->rules.drain.hook_timeout_usec == 0 || l->hooks[h].run.state != NC_HOOK_IDLE
        || l->is_resuming || l->in_force.policy != NC_POLICY_DRAIN || !nc_lifecycle_has_machine(l))
        return false;
    if (h == NC_HOOK_POST_DRAIN)
        return l->phase == NC_LIFECYCLE_VOLUME_WAIT && nc_lifecycle_is_emptied(l, next_usec);
    return l->phase == NC_LIFECYCLE_OBSERVING || l->phase == NC_LIFECYCLE_EVICTING;
}

/* The answer to a start comes at once, and is a step of its own: only then its limit counts. Who
 * has no hooks has none that time out. */
static void start(struct nc_lifecycle *l, enum nc_hook h, uint64_t *next_usec,
                  struct nc_lifecycle_actions *out) {
    l->hooks[h].is_followed = true;
    l->hooks[h].run = (struct nc_hook_run){.state = NC_HOOK_RUNNING, .started_usec = l->now_usec};
    nc_lifecycle_update_summary(l);
    nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_START_HOOK)->hook = h;
    nc_wake_at(nc_sum_usec(l->now_usec, 1), next_usec);
}

static bool is_slow(const struct nc_lifecycle *l, enum nc_hook h, uint64_t *next_usec) {
    const struct nc_hook_run *run = &l->hooks[h].run;

    return run->state == NC_HOOK_RUNNING
           && nc_has_come(l->now_usec, nc_sum_usec(run->started_usec, SLOW_USEC), next_usec);
}

const char *nc_lifecycle_slow_hook(const struct nc_lifecycle *l) {
    uint64_t unused_usec = 0;

    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++)
        if (is_slow(l, h, &unused_usec))
            return hooks[h].unit;
    return NULL;
}

void nc_lifecycle_limit_hooks(struct nc_lifecycle *l, uint64_t *next_usec,
                              struct nc_lifecycle_actions *out) {
    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++) {
        if (l->hooks[h].run.state != NC_HOOK_RUNNING)
            continue;
        (void)is_slow(l, h, next_usec);
        if (l->now_usec > l->hooks[h].run.started_usec)
            check_limit(l, h, next_usec, out);
        else
            nc_wake_at(nc_sum_usec(l->now_usec, 1), next_usec);
    }
}

void nc_lifecycle_start_hooks(struct nc_lifecycle *l, uint64_t *next_usec,
                              struct nc_lifecycle_actions *out) {
    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++)
        if (is_due(l, h, next_usec)) {
            start(l, h, next_usec, out);
        } else if (l->hooks[h].run.state == NC_HOOK_RUNNING && !l->hooks[h].is_followed) {
            l->hooks[h].is_followed = true;
            nc_lifecycle_add_action(out, NC_LIFECYCLE_ACTION_FOLLOW_HOOK)->hook = h;
        }
}

/* What comes after it was waited for is of no interest. */
void nc_lifecycle_observe_hook(struct nc_lifecycle *l, const struct nc_lifecycle_event *e,
                               struct nc_lifecycle_actions *out) {
    if ((unsigned)e->hook >= _NC_HOOK_MAX || l->hooks[e->hook].run.state != NC_HOOK_RUNNING)
        return;
    if (e->hook_state != NC_HOOK_NONE && e->hook_state != NC_HOOK_DONE
        && e->hook_state != NC_HOOK_FAILED)
        return;
    finish(l, e->hook, e->hook_state);
    if (e->hook_state == NC_HOOK_FAILED)
        emit(l, "HookFailed",
             nc_asprintf("%s failed, the drain goes on: %s", hooks[e->hook].unit,
                         e->message ? e->message : "no reason is known"),
             out);
}

/* --- what survives a restart */

struct nc_value *nc_lifecycle_save_hooks(const struct nc_lifecycle *l) {
    struct nc_value *v = NULL;

    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++) {
        const struct nc_hook_run *run = &l->hooks[h].run;
        struct nc_value *one;
        if (run->state == NC_HOOK_IDLE)
            continue;
        if (!v)
            v = nc_value_new_map();
        one = nc_value_add_map(v, hooks[h].name);
        nc_value_set_string(one, "state", state_names[run->state]);
        nc_lifecycle_set_usec(one, "started", nc_lifecycle_ec2_time(l, run->started_usec));
        nc_lifecycle_set_usec(one, "ended", nc_lifecycle_ec2_time(l, run->ended_usec));
    }
    return v;
}

static bool load_hook(const struct nc_value *v, const struct nc_lifecycle *l,
                      struct nc_hook_run *ret) {
    const char *state = nc_value_get_string(v, "state");

    for (int s = NC_HOOK_RUNNING; s < _NC_HOOK_STATE_MAX; s++)
        if (nc_streq(state, state_names[s]))
            ret->state = (enum nc_hook_state)s;
    return ret->state != NC_HOOK_IDLE
           && nc_lifecycle_get_moment(v, "started", l, &ret->started_usec)
           && nc_lifecycle_get_moment(v, "ended", l, &ret->ended_usec);
}

/* Of a version without hooks there are none. */
bool nc_lifecycle_load_hooks(const struct nc_value *v, struct nc_lifecycle *l) {
    if (!v)
        return true;
    if (v->type != NC_VALUE_MAP)
        return false;
    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++) {
        const struct nc_value *one = nc_value_get(v, hooks[h].name);
        if (one && !load_hook(one, l, &l->hooks[h].run))
            return false;
    }
    return true;
}
