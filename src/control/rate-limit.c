/*
 * What one object may cost: so many writes at once, so many a minute (rule C10). Kept as one
 * moment, the one at which a bucket that leaks would be empty again. And what is reported, which
 * costs alike.
 */
#include "step.h"

#define RATE_USEC (60ull * 1000000 / NC_CONTROL_RATE_PER_MINUTE)
#define BURST_USEC (RATE_USEC * NC_CONTROL_RATE_BURST)

/* More than all of it is of a clock that was set back since. */
static uint64_t ahead(const struct control_object *o, uint64_t now_usec) {
    const uint64_t usec = o->write.rate_usec > now_usec ? o->write.rate_usec - now_usec : 0;

    return usec > BURST_USEC ? 0 : usec;
}

bool nc_control_rate_allows(const struct control_object *o, unsigned n, uint64_t now_usec,
                            uint64_t *ret_usec) {
    const uint64_t after = ahead(o, now_usec) + n * RATE_USEC;

    *ret_usec = after > BURST_USEC ? now_usec + after - BURST_USEC : now_usec;
    return after <= BURST_USEC;
}

void nc_control_rate_spend(struct control_object *o, uint64_t now_usec) {
    o->write.rate_usec = now_usec + ahead(o, now_usec) + RATE_USEC;
}

bool nc_control_is_ahead(uint64_t usec, uint64_t now_usec, uint64_t most_usec) {
    return usec > now_usec && usec - now_usec <= most_usec;
}

void nc_control_emit_always(struct nc_control *c, const struct control_object *o,
                            const char *reason, bool is_warning, char *message) {
    struct nc_control_action *a = NULL;

    if (!c->leads) {
        free(message);
        return;
    }
    a = nc_append(&c->out->v, &c->out->n);
    a->verb = NC_CONTROL_EMIT_EVENT;
    a->what = o->kind;
    a->name = nc_strdup(o->name);
    a->uid = nc_strdup(o->uid);
    a->reason = reason;
    a->is_warning = is_warning;
    a->message = message;
    c->counts.requested[NC_CONTROL_EMIT_EVENT]++;
}

bool nc_control_may_emit(const struct control_object *o, uint64_t now_usec, uint64_t *ret_usec) {
    return nc_control_rate_allows(o, 2, now_usec, ret_usec);
}

bool nc_control_emit(struct nc_control *c, struct control_object *o, const char *reason,
                     bool is_warning, const char *format, ...) {
    uint64_t when_usec = 0;
    va_list ap;

    if (!c->leads || !nc_control_may_emit(o, c->now_usec, &when_usec))
        return false;
    nc_control_rate_spend(o, c->now_usec);
    va_start(ap, format);
    nc_control_emit_always(c, o, reason, is_warning, nc_vasprintf(format, ap));
    va_end(ap);
    return true;
}
