/*
 * The system bus: logind says that a shutdown is being prepared, and so does whoever is logged in.
 *
 * The daemon cannot tell them apart. What it makes of a signal is nc/hint.h; what it reads is the
 * truth of the moment at which logind is asked, and reaches it later or not at all.
 */
#include "world.h"

#define MAX_FAILURES 2 /* in a row */

static uint64_t hop(struct world *w) {
    return world_random(w, world_chance(w, 90) ? 2 * MSEC : SEC);
}

static void read_property(struct world *w) {
    world_plan(w, w->now_usec + hop(w), THING_PROPERTY, ++w->property_number, 2)->life =
        w->life_number;
}

void host_hint(struct world *w) {
    if (nc_hint_arrived(&w->shutdown, w->now_usec))
        read_property(w);
}

/* As when logind was found: nobody waits for the answer of another any more. */
void host_greet_logind(struct world *w) {
    w->shutdown.is_reading = w->shutdown.is_hinted = false;
    host_hint(w);
}

/* What logind gives is a time that is left: a deadline by whatever clock the daemon has. */
static void read_value(struct world *w, bool is_coming) {
    struct nc_notice notice = w->sources[NC_SOURCE_SHUTDOWN].notice;

    w->property_failures = 0;
    if (!nc_hint_read(&w->shutdown, is_coming))
        return;
    notice.deadline_usec = nc_lifecycle_shift(notice.deadline_usec, w->clock_off_usec);
    if (is_coming)
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_NOTICE,
                                                  .notice = &notice,
                                                  .source = NC_SOURCE_SHUTDOWN});
    else
        host_post(w, &(struct nc_lifecycle_event){.kind = NC_LIFECYCLE_CLEARED,
                                                  .source = NC_SOURCE_SHUTDOWN});
}

/* b: 2 = logind is asked, else its answer arrives. */
void host_property(struct world *w, unsigned number, unsigned value) {
    if (number != w->property_number)
        return;
    if (value == 2 && (w->property_failures == MAX_FAILURES || !world_chance(w, 10))) {
        world_plan(w, w->now_usec + hop(w), THING_PROPERTY, number,
                   w->sources[NC_SOURCE_SHUTDOWN].is_on)
            ->life = w->life_number;
        return;
    }
    if (value < 2) {
        read_value(w, value);
    } else { /* the retry requests it anew */
        w->property_failures++;
        world_plan(w, w->now_usec + SEC, THING_HINT, 0, 0);
    }
    if (w->life && nc_hint_ended(&w->shutdown))
        read_property(w);
}
