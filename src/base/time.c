/*
 * Times and durations as text: RFC 3339, HTTP dates, Go durations.
 *
 * Pure: no clock and no time zone is read. Years run from 1970 to 9999 where text is parsed.
 */
#include "nc/time.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "nc/mem.h"

#define USEC_PER_SEC 1000000u

/* Exactly `digits` decimal digits at *s; moves *s behind them. -1 where something else stands
 * there. */
static int fixed_number(const char **s, unsigned digits) {
    int v = 0;

    for (unsigned i = 0; i < digits; i++, (*s)++) {
        if (**s < '0' || **s > '9')
            return -1;
        v = 10 * v + (**s - '0');
    }
    return v;
}

static bool skip(const char **s, char c) {
    if (**s != c)
        return false;
    (*s)++;
    return true;
}

static int days_in_month(int year, int month) {
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && leap ? 29 : days[month - 1];
}

/* date is year, month from 1, day. All fields are checked here; -ERANGE for what lies before 1970.
 */
static int civil_to_usec(const int date[static 3], const int clock[static 3], int offset_minutes,
                         uint64_t *ret_usec) {
    const int year = date[0], month = date[1], day = date[2];

    if (year < 0 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return -EINVAL;
    if (clock[0] < 0 || clock[0] > 23 || clock[1] < 0 || clock[1] > 59 || clock[2] < 0
        || clock[2] > 59)
        return -EINVAL;
    struct tm tm = {
        .tm_year = year - 1900,
        .tm_mon = month - 1,
        .tm_mday = day,
        .tm_hour = clock[0],
        .tm_min = clock[1],
        .tm_sec = clock[2],
    };
    const int64_t sec = (int64_t)timegm(&tm) - (int64_t)offset_minutes * 60;
    if (sec < 0)
        return -ERANGE;
    *ret_usec = (uint64_t)sec * USEC_PER_SEC;
    return 0;
}

static bool parse_clock(const char **s, int clock[static 3]) {
    clock[0] = fixed_number(s, 2);
    if (clock[0] < 0 || !skip(s, ':'))
        return false;
    clock[1] = fixed_number(s, 2);
    if (clock[1] < 0 || !skip(s, ':'))
        return false;
    clock[2] = fixed_number(s, 2);
    return clock[2] >= 0;
}

/* "Z" or "+01:30", in minutes. */
static bool parse_offset(const char **s, int *ret_minutes) {
    if (skip(s, 'Z')) {
        *ret_minutes = 0;
        return true;
    }
    const int sign = **s == '-' ? -1 : 1;
    if (!skip(s, '+') && !skip(s, '-'))
        return false;
    const int hours = fixed_number(s, 2);
    if (hours < 0 || hours > 23 || !skip(s, ':'))
        return false;
    const int minutes = fixed_number(s, 2);
    if (minutes < 0 || minutes > 59)
        return false;
    *ret_minutes = sign * (60 * hours + minutes);
    return true;
}

uint64_t nc_sum_usec(uint64_t a, uint64_t b) {
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

void nc_time_format(uint64_t usec, char ret[static 32]) {
    const time_t sec = (time_t)(usec / USEC_PER_SEC);
    struct tm tm = {0};

    gmtime_r(&sec, &tm);
    if (strftime(ret, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        ret[0] = '\0';
}

int nc_time_parse(const char *s, uint64_t *ret_usec) {
    int clock[3];
    int offset_minutes;

    if (!s)
        return -EINVAL;
    const int year = fixed_number(&s, 4);
    if (year < 0 || !skip(&s, '-'))
        return -EINVAL;
    const int month = fixed_number(&s, 2);
    if (month < 0 || !skip(&s, '-'))
        return -EINVAL;
    const int day = fixed_number(&s, 2);
    if (day < 0 || !skip(&s, 'T') || !parse_clock(&s, clock))
        return -EINVAL;
    if (skip(&s, '.')) {
        const size_t digits = strspn(s, "0123456789");
        if (digits == 0)
            return -EINVAL;
        s += digits;
    }
    if (!parse_offset(&s, &offset_minutes) || *s)
        return -EINVAL;
    return civil_to_usec((const int[]){year, month, day}, clock, offset_minutes, ret_usec);
}

/* The index of the three letters at *s in a row of three-letter names, or -1. */
static int three_letters(const char **s, const char *names) {
    for (int i = 0; names[3 * i]; i++)
        if (strncmp(*s, names + 3 * i, 3) == 0) {
            *s += 3;
            return i;
        }
    return -1;
}

int nc_time_parse_http(const char *s, uint64_t *ret_usec) {
    int clock[3];

    if (!s || three_letters(&s, "SunMonTueWedThuFriSat") < 0 || !skip(&s, ',') || !skip(&s, ' '))
        return -EINVAL;
    const int day = fixed_number(&s, 2);
    if (day < 0 || !skip(&s, ' '))
        return -EINVAL;
    const int month = three_letters(&s, "JanFebMarAprMayJunJulAugSepOctNovDec") + 1;
    if (month < 1 || !skip(&s, ' '))
        return -EINVAL;
    const int year = fixed_number(&s, 4);
    if (year < 0 || !skip(&s, ' ') || !parse_clock(&s, clock) || strcmp(s, " GMT") != 0)
        return -EINVAL;
    return civil_to_usec((const int[]){year, month, day}, clock, 0, ret_usec);
}

static const struct {
    char name[4];
    uint64_t nsec;
} duration_units[] = {
    {"ns", 1},
    {"us", 1000},
    {"µs", 1000}, /* U+00B5 */
    {"μs", 1000} /* U+03BC */,
    {"ms", 1000000},
    {"s", 1000000000},
    {"m", 60000000000},
    {"h", 3600000000000},
};

/* The unit at *s in nanoseconds, or 0. A unit is all that stands before the next digit or point. */
static uint64_t duration_unit(const char **s) {
    const size_t n = strcspn(*s, "0123456789.");

    for (size_t i = 0; i < NC_ARRAY_SIZE(duration_units); i++)
        if (strlen(duration_units[i].name) == n && strncmp(*s, duration_units[i].name, n) == 0) {
            *s += n;
            return duration_units[i].nsec;
        }
    return 0;
}

/* One "1.5h" at *s, added to *nsec. Digits of a fraction beyond the 15th change no nanosecond that
 * matters. */
static int duration_part(const char **s, uint64_t *nsec) {
    const char *start = *s;
    uint64_t whole = 0;
    uint64_t fraction = 0;
    uint64_t scale = 1;
    bool too_large = false;

    for (; **s >= '0' && **s <= '9'; (*s)++)
        too_large = too_large || __builtin_mul_overflow(whole, 10u, &whole)
                    || __builtin_add_overflow(whole, (uint64_t)(**s - '0'), &whole);
    size_t digits = (size_t)(*s - start);
    if (skip(s, '.'))
        for (; **s >= '0' && **s <= '9'; (*s)++, digits++)
            if (scale < 1000000000000000) {
                fraction = 10 * fraction + (uint64_t)(**s - '0');
                scale *= 10;
            }
    if (digits == 0)
        return -EINVAL;
    const uint64_t unit = duration_unit(s);
    if (unit == 0)
        return -EINVAL;
    const uint64_t rest = (uint64_t)((unsigned __int128)fraction * unit / scale);
    if (too_large || __builtin_mul_overflow(whole, unit, &whole)
        || __builtin_add_overflow(whole, rest, &whole) || __builtin_add_overflow(*nsec, whole, nsec)
        || *nsec > INT64_MAX)
        return -ERANGE;
    return 0;
}

int nc_duration_parse(const char *s, uint64_t *ret_usec) {
    uint64_t nsec = 0;

    if (!s)
        return -EINVAL;
    (void)skip(&s, '+');
    if (!*s)
        return -EINVAL;
    while (*s && strcmp(s, "0") != 0) {
        const int r = duration_part(&s, &nsec);
        if (r < 0)
            return r;
        if (*s == '0' && !s[1])
            return -EINVAL; /* a bare 0 is a duration only when it stands alone */
    }
    *ret_usec = nsec / 1000;
    return 0;
}

/* `value` in units of 10^-digits as Go writes it: no trailing zeros, no point where nothing follows
 * it. */
static void format_decimal(char *ret, size_t size, uint64_t value, unsigned digits,
                           const char *unit) {
    uint64_t scale = 1;

    for (unsigned i = 0; i < digits; i++)
        scale *= 10;
    const uint64_t whole = value / scale;
    uint64_t fraction = value % scale;
    if (fraction == 0) {
        snprintf(ret, size, "%llu%s", (unsigned long long)whole, unit);
        return;
    }
    for (; fraction % 10 == 0; digits--)
        fraction /= 10;
    snprintf(ret, size, "%llu.%0*llu%s", (unsigned long long)whole, (int)digits,
             (unsigned long long)fraction, unit);
}

void nc_duration_format(uint64_t usec, char ret[static 32]) {
    const uint64_t minutes = usec / (60 * (uint64_t)USEC_PER_SEC);
    char seconds[24];

    if (usec == 0)
        snprintf(ret, 32, "0s");
    else if (usec < 1000)
        snprintf(ret, 32, "%lluµs", (unsigned long long)usec);
    else if (usec < USEC_PER_SEC)
        format_decimal(ret, 32, usec, 3, "ms");
    else if (minutes == 0)
        format_decimal(ret, 32, usec, 6, "s");
    else {
        format_decimal(seconds, sizeof(seconds), usec % (60 * (uint64_t)USEC_PER_SEC), 6, "s");
        if (minutes < 60)
            snprintf(ret, 32, "%llum%.12s", (unsigned long long)minutes, seconds);
        else
            snprintf(ret, 32, "%lluh%llum%.12s", (unsigned long long)(minutes / 60),
                     (unsigned long long)(minutes % 60), seconds);
    }
}
