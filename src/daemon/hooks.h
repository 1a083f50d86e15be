/*
 * The hooks before and after a drain, carried out: units of this machine that are started over
 * D-Bus.
 */
#ifndef NC_DAEMON_HOOKS_H
#define NC_DAEMON_HOOKS_H

#include "nc/lifecycle.h"
#include "nc/target.h"

struct nc_hook_options {
    sd_event *event;
    const char *root;
    void (*post)(void *userdata, struct nc_life_event *e);
    bool (*is_awaited)(void *userdata, enum nc_hook h); /* by the lifecycle */
    void (*begun)(void *userdata); /* what nc_hook_runner_save gives must be on disk */
    void *userdata;
};

struct nc_hook_runner {
    struct nc_hook_options o; /* set by whoever owns it */
    struct nc_hook_of_runner {
        struct nc_hook_runner *runner;
        struct nc_target *target; /* NULL = nothing is in progress */
        uint64_t begun_usec;      /* CLOCK_MONOTONIC, when it was started last; 0 = never */
    } hooks[_NC_HOOK_MAX];
};

/* Starts the hook, or follows one that an earlier process has started. */
void nc_hook_runner_start(struct nc_hook_runner *r, enum nc_hook h, bool is_followed);
/* Forgets what the lifecycle does not wait for any longer. */
void nc_hook_runner_check(struct nc_hook_runner *r);
void nc_hook_runner_close(struct nc_hook_runner *r);

/* What must survive: NULL = nothing. Loading gives false where it is strange, and loads nothing. */
struct nc_value *nc_hook_runner_save(const struct nc_hook_runner *r);
bool nc_hook_runner_load(struct nc_hook_runner *r, const struct nc_value *v);

#endif
