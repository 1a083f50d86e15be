/*
 * A target of systemd that is started for what it pulls in, on the event loop: nothing waits for
 * it, and what it has started is never stopped.
 */
#ifndef NC_TARGET_H
#define NC_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

/* Is a unit installed for this target below root? True also where that cannot be read. Looks for
 * the folders TARGET.wants, TARGET.requires and TARGET.d of systemd's folders of units. */
bool nc_target_is_used(const char *root, const char *target);

struct nc_target_call {
    const char *target;
    bool is_followed;    /* it was started at begun_usec: its end is waited for */
    uint64_t begun_usec; /* CLOCK_MONOTONIC: what was active before that is not of this start */
    /* Once, from the loop, unless it is freed before: `message` is NULL where the target is active
     * and no unit that it wants or requires has failed. */
    void (*done)(void *userdata, const char *message);
    void *userdata;
};
struct nc_target;
/* Never fails: what goes wrong is told by `done`. The target is stopped first where it is active,
 * so that its units run again. */
struct nc_target *nc_target_start(sd_event *event, const struct nc_target_call *call);
struct nc_target *nc_target_free(struct nc_target *t); /* forgets it; NULL in, NULL out */

#endif
