/*
 * Hooks on this machine: is a unit installed for one, start it, tell the lifecycle how it went.
 *
 * Where none is installed nothing is asked over D-Bus, and the lifecycle goes on in the same turn
 * of the loop.
 */
#include "daemon.h"

#include <stdio.h>

#include "log.h"
#include "nc/clock.h"
#include "nc/str.h"

static void post(struct nc_daemon *d, enum nc_hook h, enum nc_hook_state state,
                 const char *message) {
    struct nc_lifecycle_event e = {
        .kind = NC_LIFECYCLE_HOOK, .hook = h, .hook_state = state, .message = message};

    nc_daemon_post(d, &e);
}

static void on_done(void *userdata, const char *message) {
    struct nc_hook_of_runner *one = userdata;
    struct nc_daemon *d = one->d;
    const enum nc_hook h = (enum nc_hook)(one - d->hooks.hooks);

    one->target = nc_target_free(one->target);
    if (!message)
        nc_log(NC_LOG_INFO, NULL, "%s has ended after %.1f s", nc_hook_unit(h),
               (double)(nc_mono_usec() - one->begun_usec) / 1e6);
    post(d, h, message ? NC_HOOK_FAILED : NC_HOOK_DONE, message);
}

void nc_hook_runner_start(struct nc_daemon *d, enum nc_hook h, bool is_followed) {
    struct nc_hook_of_runner *one = &d->hooks.hooks[h];
    struct nc_target_call call = {
        .target = nc_hook_unit(h), .is_followed = is_followed, .done = on_done, .userdata = one};

    one->d = d;
    one->target = nc_target_free(one->target);
    if (!is_followed && !nc_target_is_used(d->app->opts.root, nc_hook_unit(h))) {
        one->begun_usec = 0;
        post(d, h, NC_HOOK_NONE, NULL);
        return;
    }
    if (is_followed && !one->begun_usec) {
        post(d, h, NC_HOOK_FAILED, "nodeclaimd was restarted before it was started");
        return;
    }
    if (!is_followed) {
        one->begun_usec = nc_mono_usec();
        nc_daemon_state_save(d); /* whoever comes after us must know */
    }
    call.begun_usec = one->begun_usec;
    nc_log(NC_LOG_INFO, NULL, "%s %s", is_followed ? "waiting for" : "starting", nc_hook_unit(h));
    one->target = nc_target_start(d->app->event, &call);
    post(d, h, NC_HOOK_RUNNING, NULL);
}

void nc_hook_runner_check(struct nc_daemon *d) {
    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++)
        if (d->hooks.hooks[h].target && nc_lifecycle_hook_state(d->life, h) != NC_HOOK_RUNNING)
            d->hooks.hooks[h].target = nc_target_free(d->hooks.hooks[h].target);
}

void nc_hook_runner_close(struct nc_daemon *d) {
    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++)
        d->hooks.hooks[h].target = nc_target_free(d->hooks.hooks[h].target);
}

/* --- what survives a restart: decimal texts, as in the lifecycle's own state */

struct nc_value *nc_hook_runner_save(const struct nc_hook_runner *r) {
    struct nc_value *v = NULL;
    char text[24];

    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++) {
        if (!r->hooks[h].begun_usec)
            continue;
        if (!v)
            v = nc_value_new_map();
        (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)r->hooks[h].begun_usec);
        nc_value_set_string(v, nc_hook_name(h), text);
    }
    return v;
}

bool nc_hook_runner_load(struct nc_hook_runner *r, const struct nc_value *v) {
    uint64_t begun_usec[_NC_HOOK_MAX] = {0};

    if (!v)
        return true;
    if (v->type != NC_VALUE_MAP)
        return false;
    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++) {
        const char *text = nc_value_get_string(v, nc_hook_name(h));
        if (nc_value_get(v, nc_hook_name(h)) && (!text || nc_parse_u64(text, &begun_usec[h]) < 0))
            return false;
    }
    for (enum nc_hook h = 0; h < _NC_HOOK_MAX; h++)
        r->hooks[h].begun_usec = begun_usec[h];
    return true;
}
