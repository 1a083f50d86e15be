/*
 * Schedules: what is accepted fires at whole minutes that its fields name, each time later than the
 * last, and never skips a minute that it names. The first byte is the time to look from.
 */
#include <stdint.h>

#include "nc/budget.h"
#include "nc/mem.h"

#define MINUTE_USEC UINT64_C(60000000)
#define START_USEC UINT64_C(1767225600000000) /* 2026-01-01T00:00:00Z */
#define LOOK_MINUTES 90u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static bool fires_at(const struct nc_cron *c, uint64_t usec) {
    const uint64_t minutes = usec / MINUTE_USEC;

    return usec % MINUTE_USEC == 0 && (c->minutes >> minutes % 60 & 1)
           && (c->hours >> minutes / 60 % 24 & 1);
}

static void check(const struct nc_cron *c, uint64_t from_usec) {
    uint64_t at = nc_cron_next(c, from_usec);

    if (at == UINT64_MAX)
        return;
    if (at <= from_usec || !fires_at(c, at))
        abort();
    /* From any earlier moment on it is the same one, and right after it comes a later one. */
    if (nc_cron_next(c, at - 1) != at || nc_cron_next(c, (from_usec + at) / 2 - 1) > at
        || nc_cron_next(c, at) <= at)
        abort();
    if (at > from_usec + LOOK_MINUTES * MINUTE_USEC)
        return;
    for (uint64_t m = at + MINUTE_USEC; m < at + LOOK_MINUTES * MINUTE_USEC; m += MINUTE_USEC)
        if (m / MINUTE_USEC / 1440 == at / MINUTE_USEC / 1440 && fires_at(c, m)) {
            if (nc_cron_next(c, at) != m)
                abort();
            return;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_auto_free char *text = NULL;
    struct nc_cron c = {.minutes = 1, .any_day = true};
    struct nc_err err = NC_ERR_INIT;

    if (n == 0)
        return 0;
    text = nc_strndup((const char *)data + 1, n - 1);
    if (nc_cron_parse(text, &c, &err) < 0) {
        if (err.class != NC_ERR_PROTOCOL || !err.msg[0] || c.minutes != 1 || c.hours != 0)
            abort();
        return 0;
    }
    if (c.minutes >> 60 || c.hours >> 24 || (c.days & 1) || (c.months & 1) || c.months >> 13
        || c.weekdays >> 7)
        abort();
    check(&c, START_USEC + data[0] * (uint64_t)7777777777777u);
    return 0;
}
