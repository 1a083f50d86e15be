/*
 * Prometheus' text format. Without printf: the daemon writes its metrics once a minute for the life
 * of the machine.
 */
#include <stdbool.h>

#include "nc/mem.h"
#include "nc/prometheus.h"

static const uint64_t bounds_usec[NC_HISTOGRAM_BOUNDS] = {
    1000,   2500,   5000,    10000,   25000,   50000,    100000,
    250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000};

static void put_strings(struct nc_buf *out, const char *const *strings) {
    for (; *strings; strings++)
        (void)nc_buf_puts(out, *strings);
}

static void put_number(struct nc_buf *out, uint64_t n) {
    char digits[24];
    size_t at = sizeof(digits);

    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    (void)nc_buf_add(out, &digits[at], sizeof(digits) - at);
}

/* As seconds, without zeros at the end. */
static void put_seconds(struct nc_buf *out, int64_t usec) {
    const uint64_t size = usec < 0 ? -(uint64_t)usec : (uint64_t)usec;
    uint64_t unit = 100000, fraction = size % 1000000;

    if (usec < 0)
        (void)nc_buf_putc(out, '-');
    put_number(out, size / 1000000);
    if (fraction)
        (void)nc_buf_putc(out, '.');
    for (; fraction; fraction %= unit, unit /= 10)
        (void)nc_buf_putc(out, (char)('0' + fraction / unit));
}

static void put_escaped(struct nc_buf *out, const char *value) {
    for (; *value; value++) {
        if (*value == '"' || *value == '\\' || *value == '\n')
            (void)nc_buf_putc(out, '\\');
        (void)nc_buf_putc(out, *value == '\n' ? 'n' : *value);
    }
}

/* A sample up to its value. */
static void put_name(struct nc_metrics *m, const char *suffix, const char *const *labels) {
    put_strings(m->out, (const char *const[]){m->prefix, m->family, suffix, NULL});
    for (size_t i = 0; labels && labels[i]; i += 2) {
        put_strings(m->out, (const char *const[]){i ? "," : "{", labels[i], "=\"", NULL});
        put_escaped(m->out, labels[i + 1]);
        (void)nc_buf_puts(m->out, labels[i + 2] ? "\"" : "\"}");
    }
    (void)nc_buf_putc(m->out, ' ');
}

void nc_metric_family(struct nc_metrics *m, const char *family, enum nc_metric_type type,
                      const char *help) {
    static const char *const types[] = {"gauge", "counter", "histogram"};

    m->family = family;
    put_strings(m->out, (const char *const[]){"# HELP ", m->prefix, family, " ", help, "\n# TYPE ",
                                              m->prefix, family, " ", types[type], "\n", NULL});
}

void nc_metric_count(struct nc_metrics *m, const char *const *labels, uint64_t n) {
    put_name(m, "", labels);
    put_number(m->out, n);
    (void)nc_buf_putc(m->out, '\n');
}

void nc_metric_usec(struct nc_metrics *m, const char *const *labels, int64_t usec) {
    put_name(m, "", labels);
    put_seconds(m->out, usec);
    (void)nc_buf_putc(m->out, '\n');
}

void nc_metric_one(struct nc_metrics *m, const char *family, enum nc_metric_type type,
                   const char *help, uint64_t n) {
    nc_metric_family(m, family, type, help);
    nc_metric_count(m, NULL, n);
}

void nc_histogram_add(struct nc_histogram *h, uint64_t usec) {
    size_t i = 0;

    while (i < NC_HISTOGRAM_BOUNDS && usec > bounds_usec[i])
        i++;
    h->buckets[i]++;
    h->sum_usec += usec;
}

uint64_t nc_histogram_count(const struct nc_histogram *h) {
    uint64_t n = 0;

    for (size_t i = 0; i <= NC_HISTOGRAM_BOUNDS; i++)
        n += h->buckets[i];
    return n;
}

void nc_metric_histogram(struct nc_metrics *m, const char *family, const char *help,
                         const struct nc_histogram *h) {
    uint64_t n = 0;

    nc_metric_family(m, family, NC_HISTOGRAM, help);
    for (size_t i = 0; i <= NC_HISTOGRAM_BOUNDS; i++) {
        nc_cleanup(nc_buf_done) struct nc_buf bound = NC_BUF_INIT;

        n += h->buckets[i];
        if (i < NC_HISTOGRAM_BOUNDS)
            put_seconds(&bound, (int64_t)bounds_usec[i]);
        put_name(m, "_bucket",
                 NC_LABELS("le", i < NC_HISTOGRAM_BOUNDS && bound.data ? bound.data : "+Inf"));
        put_number(m->out, n);
        (void)nc_buf_putc(m->out, '\n');
    }
    put_name(m, "_sum", NULL);
    put_seconds(m->out, (int64_t)h->sum_usec);
    (void)nc_buf_putc(m->out, '\n');
    put_name(m, "_count", NULL);
    put_number(m->out, n);
    (void)nc_buf_putc(m->out, '\n');
}
