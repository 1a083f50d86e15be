/*
 * Prometheus' text format.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nc/mem.h"
#include "nc/prometheus.h"

static const uint64_t bounds_usec[NC_HISTOGRAM_BOUNDS] = {
    1000,   2500,   5000,    10000,   25000,   50000,    100000,
    250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000};

/* As seconds, without zeros at the end. */
static void put_seconds(struct nc_buf *out, int64_t usec) {
    const uint64_t size = usec < 0 ? -(uint64_t)usec : (uint64_t)usec;
    char text[40];
    int n = snprintf(text, sizeof(text), "%s%" PRIu64 ".%06" PRIu64, usec < 0 ? "-" : "",
                     size / 1000000, size % 1000000);

    while (text[n - 1] == '0')
        n--;
    (void)nc_buf_add(out, text, (size_t)(text[n - 1] == '.' ? n - 1 : n));
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
    (void)nc_buf_printf(m->out, "%s%s%s", m->prefix, m->family, suffix);
    for (size_t i = 0; labels && labels[i]; i += 2) {
        (void)nc_buf_printf(m->out, "%s%s=\"", i ? "," : "{", labels[i]);
        put_escaped(m->out, labels[i + 1]);
        (void)nc_buf_puts(m->out, labels[i + 2] ? "\"" : "\"}");
    }
    (void)nc_buf_putc(m->out, ' ');
}

void nc_metric_family(struct nc_metrics *m, const char *family, enum nc_metric_type type,
                      const char *help) {
    static const char types[][12] = {"gauge", "counter", "histogram"};

    m->family = family;
    (void)nc_buf_printf(m->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", m->prefix, family, help,
                        m->prefix, family, types[type]);
}

void nc_metric_count(struct nc_metrics *m, const char *const *labels, uint64_t n) {
    put_name(m, "", labels);
    (void)nc_buf_printf(m->out, "%" PRIu64 "\n", n);
}

void nc_metric_usec(struct nc_metrics *m, const char *const *labels, int64_t usec) {
    put_name(m, "", labels);
    put_seconds(m->out, usec);
    (void)nc_buf_putc(m->out, '\n');
}

void nc_metric_count_by(struct nc_metrics *m, const char *label, const char *value, uint64_t n) {
    nc_metric_count(m, NC_LABELS(label, value), n);
}

void nc_metric_usec_by(struct nc_metrics *m, const char *label, const char *value, int64_t usec) {
    nc_metric_usec(m, NC_LABELS(label, value), usec);
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
        (void)nc_buf_printf(m->out, "%" PRIu64 "\n", n);
    }
    put_name(m, "_sum", NULL);
    put_seconds(m->out, (int64_t)h->sum_usec);
    (void)nc_buf_putc(m->out, '\n');
    put_name(m, "_count", NULL);
    (void)nc_buf_printf(m->out, "%" PRIu64 "\n", n);
}
