/*
 * The clock, the dice and the queue of the controllers' world.
 */
#include "world.h"

#include <stdarg.h>

#include "judge.h"
#include "nc/mem.h"

uint64_t world_below(struct world *w, uint64_t n) {
    uint64_t z = w->random += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (z ^ (z >> 31)) % n;
}

bool world_chance(struct world *w, unsigned percent) {
    return world_below(w, 100) < percent;
}

uint64_t world_between(struct world *w, uint64_t from, uint64_t to) {
    return from + world_below(w, to - from);
}

bool world_is_in(const struct window *windows, uint64_t now_usec) {
    for (unsigned i = 0; i < MAX_WINDOWS; i++)
        if (now_usec >= windows[i].from_usec && now_usec < windows[i].to_usec)
            return true;
    return false;
}

void world_log(const struct world *w, const char *format, ...) {
    va_list ap;

    if (!w->is_traced)
        return;
    printf("%9.3f ", (double)(w->now_usec - w->start_usec) / 1e6);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    printf("\n");
}

struct nc_value *world_json(const char *format, ...) {
    struct nc_value *v = NULL;
    va_list ap;

    va_start(ap, format);
    nc_auto_free char *text = nc_vasprintf(format, ap);
    va_end(ap);
    if (nc_json_parse(text, strlen(text), &v, NULL) < 0) {
        fprintf(stderr, "not JSON: %s\n", text);
        abort();
    }
    return v;
}

/* --- the queue: a heap by time, then by order */

static bool is_before(const struct due *a, const struct due *b) {
    return a->at_usec != b->at_usec ? a->at_usec < b->at_usec : a->order < b->order;
}

static void swap(struct due *a, struct due *b) {
    const struct due t = *a;

    *a = *b;
    *b = t;
}

void world_post(struct world *w, uint64_t in_usec, enum thing kind, unsigned a, unsigned b,
                void *data) {
    struct due *d = nc_append(&w->queue, &w->n_queue);
    size_t i = w->n_queue - 1;

    *d = (struct due){w->now_usec + in_usec, ++w->order, kind, a, b, data};
    for (; i > 0 && is_before(&w->queue[i], &w->queue[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&w->queue[i], &w->queue[(i - 1) / 2]);
}

bool world_next(struct world *w, struct due *ret) {
    if (w->n_queue == 0)
        return false;
    *ret = w->queue[0];
    w->queue[0] = w->queue[--w->n_queue];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < w->n_queue; child++)
            if (is_before(&w->queue[child], &w->queue[least]))
                least = child;
        if (least == i)
            return true;
        swap(&w->queue[i], &w->queue[least]);
        i = least;
    }
}

void world_free_due(struct due *d) {
    struct request *r = d->data;
    struct listed *l = d->data;

    if (d->kind == THING_ARRIVES || d->kind == THING_ANSWERED) {
        action_done(&r->action);
        nc_value_free(r->object);
    }
    for (size_t i = 0; d->kind == THING_LISTED && i < l->n; i++)
        nc_value_free(l->items[i]);
    free(d->data);
}

/* --- a world */

static void make_faults(struct world *w) {
    for (unsigned i = 0; i < MAX_WINDOWS && w->has_faults; i++) {
        struct window *away = &w->away[i], *refused = &w->refused[i];
        if (world_chance(w, 40)) {
            away->from_usec = w->start_usec + world_below(w, 500 * SEC);
            away->to_usec = away->from_usec + world_below(w, 60 * SEC);
        }
        if (world_chance(w, 25)) {
            refused->from_usec = w->start_usec + world_below(w, 500 * SEC);
            refused->to_usec = refused->from_usec + world_below(w, 60 * SEC);
        }
    }
    for (unsigned i = 0; i < 4 && w->has_faults; i++)
        if (world_chance(w, 40))
            world_post(w, world_below(w, 550 * SEC),
                       world_chance(w, 60) ? THING_KILL : THING_DEPOSE, 0, 0, NULL);
    for (unsigned i = 0; i < 12 && w->has_faults; i++)
        world_post(w, world_below(w, 590 * SEC), THING_GAP, (unsigned)world_below(w, N_PROCS),
                   (unsigned)world_below(w, KINDS), NULL);
}

void world_init(struct world *w, uint64_t seed, bool is_traced) {
    *w = (struct world){.seed = seed, .random = seed, .is_traced = is_traced, .leader = -1};
    w->start_usec = w->now_usec = 1767323045 * SEC + world_below(w, 365 * 86400) * SEC;
    w->quiet_usec = w->start_usec + 600 * SEC;
    w->end_usec = w->start_usec + 2400 * SEC;
    w->is_standalone = world_chance(w, 65);
    w->has_faults = world_chance(w, 75);
    w->rules = (struct nc_control_rules){
        .margin_usec = world_between(w, 5, 20) * SEC,
        .order = world_chance(w, 70) ? NC_CONTROL_BOTH : NC_CONTROL_DELETE_FIRST,
        .timestamp_after_usec = 5 * SEC,
        .max_in_flight = world_chance(w, 50) ? 64 : 4,
        .terminates = world_chance(w, 60),
        .rebalances = world_chance(w, 50),
        .out_of_service = seed % 5 < 2,
        .identity = world_chance(w, 50) ? NC_CONTROL_IDENTITY_EC2 : NC_CONTROL_IDENTITY_ADMISSION,
        .zone_turn_usec = seed % 2 ? (60 + seed % 5 * 60) * SEC : 0,
        .seed = seed,
    };
    w->judge = judge_new();
    birth(w);
    make_faults(w);
    for (unsigned p = 0; p < N_PROCS; p++)
        world_post(w, world_below(w, 3 * SEC), THING_START, p, 0, NULL);
    world_post(w, world_below(w, 10 * SEC), THING_LEAD, 0, 0, NULL);
    world_post(w, w->quiet_usec - w->start_usec, THING_QUIET, 0, 0, NULL);
    world_post(w, SEC, THING_HEARTBEAT, 0, 0, NULL);
}

void world_done(struct world *w) {
    for (unsigned p = 0; p < N_PROCS; p++)
        process_free(w, p);
    for (size_t i = 0; i < w->n_queue; i++)
        world_free_due(&w->queue[i]);
    for (unsigned i = 0; i < w->n_objects; i++)
        nc_value_free(w->objects[i].v);
    for (size_t i = 0; i < w->n_log; i++)
        nc_value_free(w->log[i].v);
    free(w->log);
    free(w->queue);
    action_done(&w->kept);
    w->judge = judge_free(w->judge);
}
