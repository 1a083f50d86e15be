/*
 * Chance, the queue of what is going to happen, and the story that a trace tells.
 *
 * The same seed gives the same world: nothing else is random here, and no clock is read.
 */
#include "world.h"

#include <stdarg.h>

#define EPOCH_USEC 1767225600000000ull /* 2026-01-01T00:00:00Z */

/* splitmix64 */
static uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

uint64_t world_random(struct world *w, uint64_t below) {
    return below ? draw(&w->random) % below : 0;
}

uint64_t world_between(struct world *w, uint64_t from, uint64_t to) {
    return from + world_random(w, to - from + 1);
}

bool world_chance(struct world *w, unsigned percent) {
    return world_random(w, 100) < percent;
}

/* One world of five begins with a clock that is off, or has one that is set off; mostly it is set
 * right in the end. */
void world_plan_clock(struct world *w) {
    unsigned n = 0;

    w->clock_random = ~w->random;
    if (draw(&w->clock_random) % 5)
        return;
    if (draw(&w->clock_random) % 2)
        world_correct_clock(w, ++n);
    for (unsigned more = 1 + (unsigned)(draw(&w->clock_random) % 3); more > 0; more--)
        world_plan(w, w->now_usec + draw(&w->clock_random) % (150 * SEC), THING_CLOCK, ++n, 0);
}

/* The API server's clock was taken for EC2's, or root has set the machine's. */
void world_correct_clock(struct world *w, unsigned n) {
    static const int64_t off_sec[] = {-3600, -95, -20, -2, 2, 20, 95, 3600};
    const uint64_t which = draw(&w->clock_random);

    w->clock_off_usec = n % 2 ? off_sec[which % NC_ARRAY_SIZE(off_sec)] * (int64_t)SEC : 0;
    world_log(w, "the clock is off by %lld s", (long long)(w->clock_off_usec / (int64_t)SEC));
}

void world_log(const struct world *w, const char *format, ...) {
    va_list ap;

    if (!w->is_traced)
        return;
    printf("%9.3f  ", (double)(int64_t)(w->now_usec - w->start_usec) / 1e6);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    putchar('\n');
}

/* --- the queue: a binary heap by time, then by order of planning ---------------------------------
 */

static bool is_before(const struct thing_due *a, const struct thing_due *b) {
    return a->at_usec != b->at_usec ? a->at_usec < b->at_usec : a->order < b->order;
}

struct thing_due *world_plan(struct world *w, uint64_t at_usec, enum thing kind, unsigned a,
                             unsigned b) {
    struct thing_due due = {.at_usec = at_usec > w->now_usec ? at_usec : w->now_usec,
                            .order = ++w->order,
                            .kind = kind,
                            .a = a,
                            .b = b};
    size_t i = w->n_queue;

    if (w->n_queue == w->queue_room) {
        w->queue_room = w->queue_room ? 2 * w->queue_room : 256;
        w->queue = nc_realloc_array(w->queue, w->queue_room, sizeof(*w->queue));
    }
    w->n_queue++;
    for (; i && is_before(&due, &w->queue[(i - 1) / 2]); i = (i - 1) / 2)
        w->queue[i] = w->queue[(i - 1) / 2];
    w->queue[i] = due;
    return &w->queue[i];
}

bool world_next(struct world *w, struct thing_due *ret) {
    struct thing_due last;
    size_t i = 0;

    if (!w->n_queue)
        return false;
    *ret = w->queue[0];
    last = w->queue[--w->n_queue];
    for (;;) {
        size_t child = 2 * i + 1;

        if (child + 1 < w->n_queue && is_before(&w->queue[child + 1], &w->queue[child]))
            child++;
        if (child >= w->n_queue || !is_before(&w->queue[child], &last))
            break;
        w->queue[i] = w->queue[child];
        i = child;
    }
    w->queue[i] = last;
    return true;
}

void world_begin(struct world *w, uint64_t seed, bool is_traced) {
    struct thing_due *queue = w->queue; /* its room is used again */
    size_t room = w->queue_room;

    memset(w, 0, sizeof(*w));
    w->queue = queue;
    w->queue_room = room;
    w->seed = seed;
    w->random = seed * 0x2545f4914f6cdd1dull + 1;
    w->is_traced = is_traced;
    w->start_usec = w->now_usec = EPOCH_USEC + world_random(w, 1000 * SEC);
}

void world_init(struct world *w, uint64_t seed, bool is_traced) {
    world_begin(w, seed, is_traced);
    world_populate(w);
}

void world_done(struct world *w) {
    host_done(w);
    for (size_t i = 0; i < w->n_queue; i++)
        free(w->queue[i].data);
    w->n_queue = 0;
}
