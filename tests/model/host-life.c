/*
 * Life and death of the daemon: it starts with the state that was kept, an older one or none, is
 * killed between any two actions, and goes down with its machine.
 */
#include "world.h"

#include "nc/value.h"

/* What was kept, by way of its text. */
static void load(struct world *w, bool is_same_boot, const struct rules_memory *memory) {
    struct nc_buf text = NC_BUF_INIT;
    struct rules_memory kept = *memory;
    struct nc_err err = NC_ERR_INIT;
    nc_auto_value struct nc_value *v = NULL;

    nc_json_write(&text, w->saved, 0);
    if (nc_json_parse(text.data, text.len, &v, &err) < 0
        || nc_lifecycle_load(w->life, v, is_same_boot, w->clock_off_usec) < 0)
        rules_break(&w->rules, "state", "what was saved cannot be loaded: %.120s", text.data);
    nc_buf_done(&text);
    for (int s = 0; s < _NC_SOURCE_MAX; s++)
        if (!is_same_boot && s != NC_SOURCE_OPERATOR)
            kept.is_active[s] = false;
    kept.took_over = kept.took_over && is_same_boot;
    if (!is_same_boot)
        memset(kept.hooks, 0, sizeof(kept.hooks));
    w->rules.clock_off_usec = w->clock_off_usec;
    rules_restart(&w->rules, &kept, &w->config, w->now_usec);
}

void host_start(struct world *w, bool is_same_boot) {
    static const struct rules_memory nothing;

    if (w->life || w->is_over)
        return;
    w->life_number++;
    w->life = nc_lifecycle_new(&w->config);
    w->armed_usec = UINT64_MAX;
    w->shutdown = (struct nc_hint){0};
    w->is_looking = w->is_refresh_wanted = w->is_listed = w->is_node_known = false;
    memset(&w->view, 0, sizeof(w->view));
    w->node_stream_usec = w->pod_stream_usec = 0;
    w->whole_version = w->watch_version = 0;
    world_log(w, "the daemon starts%s", w->saved ? " with what was saved" : "");
    if (w->saved)
        load(w, is_same_boot, &w->saved_memory);
    else
        rules_restart(&w->rules, &nothing, &w->config, w->now_usec);
    w->sources[NC_SOURCE_OPERATOR].is_on = w->rules.memory.is_active[NC_SOURCE_OPERATOR];
    w->sources[NC_SOURCE_OPERATOR].notice = w->rules.memory.notices[NC_SOURCE_OPERATOR];
    host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_START});
    world_node_changed(w);
    for (unsigned s = 0; s < _NC_SOURCE_MAX; s++)
        world_plan(w, w->now_usec + world_random(w, world_chance(w, 85) ? SEC : 8 * SEC),
                   THING_POLL, s, 0);
}

static void choose_state(struct world *w) {
    uint64_t which = world_random(w, 10);

    if (which == 0) {
        nc_value_free(w->saved);
        w->saved = NULL;
    } else if (which < 3 && w->older) {
        nc_value_free(w->saved);
        w->saved = nc_steal(&w->older);
        w->saved_memory = w->older_memory;
    }
}

void host_kill(struct world *w, bool is_reboot, uint64_t away_usec) {
    if (!w->life)
        return;
    if (w->kills_left)
        w->kills_left--;
    w->kill_at_action = w->n_actions + 1 + (unsigned)world_random(w, 20);
    if (w->sources[NC_SOURCE_SHUTDOWN].is_on) /* nobody holds it up any more */
        is_reboot = true;
    world_log(w, is_reboot ? "the machine goes down" : "the daemon is killed");
    choose_state(w);
    w->life = nc_lifecycle_free(w->life);
    if (is_reboot && w->sources[NC_SOURCE_SHUTDOWN].is_on)
        rules_shutdown(&w->rules, false, w->now_usec);
    w->sources[NC_SOURCE_SHUTDOWN].is_on &= !is_reboot;
    for (unsigned i = 0; is_reboot && i < w->n_pods; i++)
        if (w->pods[i].exists && w->pods[i].deletion_usec)
            world_remove_pod(w, i);
    world_plan(w, w->now_usec + away_usec, THING_START, is_reboot, 0);
}

/* A shutdown that was not called off: the machine is gone, or comes back. */
void host_end_machine(struct world *w) {
    if (!w->sources[NC_SOURCE_SHUTDOWN].is_on)
        return;
    if (w->life)
        rules_watch(&w->rules, w->now_usec);
    w->is_over = !w->ends_in_reboot;
    host_kill(w, true, world_between(w, 5, 20) * SEC);
}
