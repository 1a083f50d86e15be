/*
 * Cron schedules, as robfig/cron's standard parser reads them and its SpecSchedule fires them.
 *
 * Knows five fields and the named schedules, in UTC. What that parser takes is taken, its odd forms
 * too ("*-5" is "*", an empty list never fires), for a budget must mean here what it means there.
 * Must not know a time zone.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "nc/budget.h"
#include "nc/str.h"

#define SEC_USEC ((uint64_t)1000000)
#define DAY_MINUTES 1440u
#define TEXT_MAX ((size_t)1024)
#define YEARS_AHEAD 5

struct bounds {
    unsigned min, max;
    const char *names; /* of three letters each, from min on; NULL = none */
};
static const struct bounds minutes = {0, 59, NULL};
static const struct bounds hours = {0, 23, NULL};
static const struct bounds days = {1, 31, NULL};
static const struct bounds months = {1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"};
static const struct bounds weekdays = {0, 6, "sunmontuewedthufrisat"};

/* A piece of a text: nothing is copied while a field is taken apart. */
struct piece {
    const char *at;
    size_t n;
};

/* Cuts what stands before the first `sep` (or all) off `rest`. False where nothing is left. */
static bool cut(struct piece *rest, char sep, struct piece *ret) {
    if (!rest->at)
        return false;
    const char *end = memchr(rest->at, sep, rest->n);
    *ret = (struct piece){rest->at, end ? (size_t)(end - rest->at) : rest->n};
    *rest = end ? (struct piece){end + 1, rest->n - ret->n - 1} : (struct piece){NULL, 0};
    return true;
}

/* As Go's Atoi: a sign is allowed; what does not fit is refused, and so is what is negative. */
static bool number(struct piece p, uint64_t *ret) {
    uint64_t v = 0;
    const bool is_negative = p.n > 0 && p.at[0] == '-';

    if (p.n > 0 && (is_negative || p.at[0] == '+'))
        p = (struct piece){p.at + 1, p.n - 1};
    if (p.n == 0)
        return false;
    for (size_t i = 0; i < p.n; i++) {
        if (p.at[i] < '0' || p.at[i] > '9')
            return false;
        if (v > (uint64_t)INT64_MAX / 10)
            return false;
        v = 10 * v + (uint64_t)(p.at[i] - '0');
    }
    if (v > INT64_MAX || (is_negative && v > 0))
        return false;
    *ret = v;
    return true;
}

static bool number_or_name(struct piece p, const struct bounds *b, uint64_t *ret) {
    for (unsigned i = 0; b->names && p.n == 3 && b->min + i <= b->max; i++)
        if (strncasecmp(p.at, b->names + 3 * (size_t)i, 3) == 0) {
            *ret = b->min + i;
            return true;
        }
    return number(p, ret);
}

static bool is_star(struct piece p) {
    return p.n == 1 && (p.at[0] == '*' || p.at[0] == '?');
}

/* "*", "5", "1-5": from, to; *ret_is_single where it has no hyphen. */
static bool span(struct piece text, const struct bounds *b, uint64_t ret[static 2],
                 bool *ret_is_single) {
    struct piece low, high, more;

    if (!cut(&text, '-', &low))
        return false;
    *ret_is_single = !text.at;
    if (is_star(low)) {
        ret[0] = b->min;
        ret[1] = b->max;
        return true;
    }
    if (!number_or_name(low, b, &ret[0]))
        return false;
    ret[1] = ret[0];
    return !cut(&text, '-', &high) || (number_or_name(high, b, &ret[1]) && !cut(&text, '-', &more));
}

/* One of a list: "*", "1-5", "10/15", "mon-fri/2". Adds its bits. */
static bool range(struct piece text, const struct bounds *b, uint64_t *bits, bool *is_any) {
    const bool starts_any = text.n > 0 && (text.at[0] == '*' || text.at[0] == '?');
    struct piece from_to, by, more;
    uint64_t ends[2] = {0};
    uint64_t step = 1;
    bool is_single;

    if (!cut(&text, '/', &from_to) || !span(from_to, b, ends, &is_single))
        return false;
    if (cut(&text, '/', &by)) {
        if (!number(by, &step) || cut(&text, '/', &more))
            return false;
        if (is_single)
            ends[1] = b->max;
    }
    if (ends[0] < b->min || ends[1] > b->max || ends[0] > ends[1] || step == 0)
        return false;
    if (starts_any && step == 1)
        *is_any = true;
    for (uint64_t i = ends[0]; i <= ends[1]; i += step)
        *bits |= (uint64_t)1 << i;
    return true;
}

static bool field(struct piece text, const struct bounds *b, uint64_t *bits, bool *is_any) {
    struct piece one;

    *bits = 0;
    *is_any = false;
    while (cut(&text, ',', &one))
        if (one.n > 0 && !range(one, b, bits, is_any))
            return false;
    return true;
}

static bool is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Splits at white space; the number of fields, at most max + 1. */
static size_t split(const char *text, struct piece *ret, size_t max) {
    size_t n = 0;

    for (;;) {
        while (is_space(*text))
            text++;
        if (!*text || n > max)
            return n;
        const char *start = text;
        while (*text && !is_space(*text))
            text++;
        if (n < max)
            ret[n] = (struct piece){start, (size_t)(text - start)};
        n++;
    }
}

/* What a named schedule stands for; NULL where it is none. */
static const char *meaning(struct piece name) {
    static const struct {
        const char *name, *means;
    } names[] = {
        {"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"},
        {"@weekly", "0 0 * * 0"}, {"@daily", "0 0 * * *"},    {"@midnight", "0 0 * * *"},
        {"@hourly", "0 * * * *"},
    };

    for (size_t i = 0; i < NC_ARRAY_SIZE(names); i++)
        if (strlen(names[i].name) == name.n && memcmp(names[i].name, name.at, name.n) == 0)
            return names[i].means;
    return NULL;
}

static int refuse(const char *text, const char *what, struct nc_err *err) {
    nc_auto_free char *quoted = nc_quote_string(text);

    return nc_err_protocol(err, "schedule %s: %s", quoted, what);
}

int nc_cron_parse(const char *text, struct nc_cron *ret, struct nc_err *err) {
    static const struct bounds *const bounds[] = {&minutes, &hours, &days, &months, &weekdays};
    struct piece fields[NC_ARRAY_SIZE(bounds)] = {0};
    uint64_t bits[NC_ARRAY_SIZE(bounds)];
    bool any[NC_ARRAY_SIZE(bounds)];
    size_t n;

    if (strlen(text) > TEXT_MAX)
        return refuse(text, "longer than 1024 bytes", err);
    n = split(text, fields, NC_ARRAY_SIZE(bounds));
    if (n == 1 && meaning(fields[0]))
        n = split(meaning(fields[0]), fields, NC_ARRAY_SIZE(bounds));
    if (n != NC_ARRAY_SIZE(bounds))
        return refuse(text, "five fields or a name such as @daily are needed", err);
    for (size_t i = 0; i < NC_ARRAY_SIZE(bounds); i++)
        if (!field(fields[i], bounds[i], &bits[i], &any[i])) {
            nc_auto_free char *quoted = nc_quote(fields[i].at, fields[i].n);
            nc_auto_free char *what = nc_asprintf("%s cannot be read", quoted);
            return refuse(text, what, err);
        }
    *ret = (struct nc_cron){
        .minutes = bits[0],
        .hours = (uint32_t)bits[1],
        .days = (uint32_t)bits[2],
        .months = (uint16_t)bits[3],
        .weekdays = (uint8_t)bits[4],
        .any_day = any[2],
        .any_weekday = any[4],
    };
    return 0;
}

struct date {
    uint64_t day; /* since the epoch */
    unsigned year, month, mday;
};

/* Howard Hinnant's days-to-civil, for days from 1970 on. */
static struct date date_of(uint64_t day) {
    const uint64_t z = day + 719468;
    const uint64_t era = z / 146097;
    const unsigned doe = (unsigned)(z % 146097);
    const unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    const unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    const unsigned mp = (5 * doy + 2) / 153;
    const unsigned month = mp < 10 ? mp + 3 : mp - 9;

    return (struct date){
        .day = day,
        .year = (unsigned)(yoe + era * 400) + (month <= 2),
        .month = month,
        .mday = doy - (153 * mp + 2) / 5 + 1,
    };
}

static bool day_matches(const struct nc_cron *c, const struct date *d) {
    const bool mday = c->days >> d->mday & 1;
    const bool wday = c->weekdays >> (d->day + 4) % 7 & 1;

    if (!(c->months >> d->month & 1))
        return false;
    return c->any_day || c->any_weekday ? mday && wday : mday || wday;
}

/* The first minute of the day, from `minute` on, at which it fires; DAY_MINUTES = none. */
static unsigned minute_of_day(const struct nc_cron *c, unsigned minute) {
    for (; minute < DAY_MINUTES; minute++) {
        if (!(c->hours >> minute / 60 & 1))
            minute += 59 - minute % 60;
        else if (c->minutes >> minute % 60 & 1)
            return minute;
    }
    return DAY_MINUTES;
}

uint64_t nc_cron_next(const struct nc_cron *c, uint64_t after_usec) {
    const uint64_t second = after_usec / SEC_USEC + 1;
    const uint64_t minute = (second + 59) / 60;
    const unsigned last_year = date_of(second / 60 / DAY_MINUTES).year + YEARS_AHEAD;
    const uint64_t today = minute / DAY_MINUTES;

    if (c->minutes == 0 || c->hours == 0)
        return UINT64_MAX;
    for (struct date d = date_of(today); d.year <= last_year; d = date_of(d.day + 1)) {
        if (!day_matches(c, &d))
            continue;
        const unsigned m = minute_of_day(c, d.day == today ? (unsigned)(minute % DAY_MINUTES) : 0);
        if (m < DAY_MINUTES)
            return (d.day * DAY_MINUTES + m) * 60 * SEC_USEC;
    }
    return UINT64_MAX;
}
