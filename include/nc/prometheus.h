/*
 * Prometheus' text format (0.0.4): families with HELP and TYPE, samples with labels, histograms.
 *
 * Pure. Numbers are printed from integers, so that no locale changes them; label values are
 * escaped. `promtool check metrics` holds the output of both programs against Prometheus' rules.
 */
#ifndef NC_PROMETHEUS_H
#define NC_PROMETHEUS_H

#include <stdint.h>

#include "nc/mem.h"

enum nc_metric_type { NC_GAUGE = 0, NC_COUNTER, NC_HISTOGRAM };

/* What is written, and where to; every name begins with the prefix. */
struct nc_metrics {
    struct nc_buf *out;
    const char *prefix, *family; /* nc_metric_family sets the family */
};

/* Begins a family: all samples that follow are of it. A counter's name ends in _total. */
void nc_metric_family(struct nc_metrics *m, const char *family, enum nc_metric_type type,
                      const char *help);

/* Names and values of labels in turn; NULL instead where there are none. */
#define NC_LABELS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* A sample of the family. */
void nc_metric_count(struct nc_metrics *m, const char *const *labels, uint64_t n);
/* The same in seconds: a duration, or a time since the epoch. */
void nc_metric_usec(struct nc_metrics *m, const char *const *labels, int64_t usec);
/* The same with one label. */
void nc_metric_count_by(struct nc_metrics *m, const char *label, const char *value, uint64_t n);
void nc_metric_usec_by(struct nc_metrics *m, const char *label, const char *value, int64_t usec);
/* A family with one sample without labels. */
void nc_metric_one(struct nc_metrics *m, const char *family, enum nc_metric_type type,
                   const char *help, uint64_t n);

/* Durations by size. The bounds are the same for all: an answer of IMDS takes some milliseconds,
 * one of an API server tens or hundreds, a relay in a storm of notices ten seconds. */
#define NC_HISTOGRAM_BOUNDS 14
struct nc_histogram {
    uint64_t buckets[NC_HISTOGRAM_BOUNDS + 1]; /* not cumulative; the last is +Inf */
    uint64_t sum_usec;
};
void nc_histogram_add(struct nc_histogram *h, uint64_t usec);
uint64_t nc_histogram_count(const struct nc_histogram *h);
/* A family of type histogram, complete: _bucket, _sum, _count. Its name ends in _seconds. */
void nc_metric_histogram(struct nc_metrics *m, const char *family, const char *help,
                         const struct nc_histogram *h);

#endif
