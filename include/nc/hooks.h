/*
 * What a person lets run before and after a drain: a target of systemd each, which pulls in the
 * units that are installed for it (WantedBy=).
 *
 * The lifecycle states when one is started and how long it is waited for; the daemon starts it and
 * reports how it went.
 */
#ifndef NC_HOOKS_H
#define NC_HOOKS_H

#include <stdint.h>

enum nc_hook {
    NC_HOOK_PRE_DRAIN = 0, /* before the first eviction */
    NC_HOOK_POST_DRAIN,    /* once no pod is left, before the node is Drained */
    _NC_HOOK_MAX
};

enum nc_hook_state {
    NC_HOOK_IDLE = 0, /* has not been started in this drain */
    NC_HOOK_RUNNING,
    NC_HOOK_NONE, /* no unit is installed for it */
    NC_HOOK_DONE,
    NC_HOOK_FAILED,
    NC_HOOK_TIMEOUT, /* it may run on: nobody waits for it */
    _NC_HOOK_STATE_MAX
};

/* Of one drain. Times are those of the lifecycle; 0 = not yet. */
struct nc_hook_run {
    enum nc_hook_state state;
    uint64_t started_usec, ended_usec;
};

const char *nc_hook_name(enum nc_hook h);             /* "preDrain", "postDrain" */
const char *nc_hook_unit(enum nc_hook h);             /* "nodeclaimd-pre-drain.target", … */
const char *nc_hook_state_name(enum nc_hook_state s); /* "idle", "running", … */

#endif
