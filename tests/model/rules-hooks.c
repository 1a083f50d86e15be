/*
 * The judge of hooks: each is started once a drain, nobody is evicted before the first has ended
 * or its time is over, and Drained is not written before the second has.
 */
#include "rules.h"

static struct rules_hook *hook_of(struct rules *r, enum nc_hook h) {
    return &r->memory.hooks[h];
}

bool rules_is_hook_over(const struct rules *r, enum nc_hook h, uint64_t now_usec, bool strictly) {
    const struct rules_hook *k = &r->memory.hooks[h];

    if (!r->config.drain.hook_timeout_usec)
        return true;
    if (!k->is_started) /* it is no reason to wait; nor may anybody go on without it */
        return !strictly;
    return k->has_ended || now_usec >= k->started_usec + r->config.drain.hook_timeout_usec
           || (strictly && k->may_be_over);
}

void rules_judge_hook(struct rules *r, enum nc_hook h, bool is_followed, uint64_t now_usec) {
    struct rules_hook *k = hook_of(r, h);

    if (is_followed) {
        if (!k->is_started || k->has_ended)
            rules_break(r, "hook-followed", "%s is followed and does not run", nc_hook_name(h));
        return;
    }
    if (r->in_force != NC_POLICY_DRAIN || !r->config.drain.hook_timeout_usec)
        rules_break(r, "hook-idle", "%s is started and nothing asks for it", nc_hook_name(h));
    if (k->is_started)
        rules_break(r, "hook-twice", "%s is started twice in a drain", nc_hook_name(h));
    if (h == NC_HOOK_POST_DRAIN && !r->is_synced)
        rules_break(r, "hook-early", "the pods are not listed and %s is started", nc_hook_name(h));
    for (unsigned i = 0; h == NC_HOOK_POST_DRAIN && i < MODEL_MAX_PODS; i++)
        if (r->pods[i].is_known && !r->pods[i].is_gone
            && rules_is_eligible(r, &r->pods[i], now_usec))
            rules_break(r, "hook-early", "pod %u is still there and %s is started", i,
                        nc_hook_name(h));
    *k = (struct rules_hook){.is_started = true, .started_usec = now_usec};
}

void rules_judge_drained_hook(struct rules *r, uint64_t now_usec) {
    if (!r->memory.has_passed_hooks && !r->memory.was_drained
        && !rules_is_hook_over(r, NC_HOOK_POST_DRAIN, now_usec, true))
        rules_break(r, "hook-drained", "the node is drained before the hook has ended");
    r->memory.has_passed_hooks = true;
}

void rules_take_hook_event(struct rules *r, const struct nc_lifecycle_event *e) {
    if (e->hook_state != NC_HOOK_RUNNING && hook_of(r, e->hook)->is_started)
        hook_of(r, e->hook)->has_ended = true;
}

/* After a restart nobody knows before all were observed whether the drain goes on. */
static bool is_over(const struct rules *r) {
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (!r->is_observed[s])
            return false;
    return r->in_force < NC_POLICY_DRAIN;
}

void rules_watch_hooks(struct rules *r, uint64_t now_usec) {
    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++) {
        struct rules_hook *k = hook_of(r, h);
        if (is_over(r))
            *k = (struct rules_hook){0};
        k->may_be_over |=
            k->is_started && now_usec >= k->started_usec + r->config.drain.hook_timeout_usec;
        k->may_be_over |=
            k->is_started && r->t_usec
            && (now_usec >= r->t_usec || (h == NC_HOOK_PRE_DRAIN && rules_needs_time(r, now_usec)));
    }
    if (is_over(r))
        r->memory.has_passed_hooks = false;
}
