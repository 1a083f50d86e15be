/*
 * Words and values that the texts about a drain share.
 */
#ifndef NC_CORE_DRAIN_WORDS_H
#define NC_CORE_DRAIN_WORDS_H

#include "nc/drain-report.h"
#include "nc/str.h"

/* {total, remaining, leaving, kept, blocked, evicted, deleted, excluded: {reason: n}}. Owned. */
struct nc_value *nc_drain_counts(const struct nc_drain_summary *s);

/* nc_drain_report and nc_daemon_metrics, of what the lifecycle showed. */
struct nc_value *nc_drain_report_view(const struct nc_life_view *view, const struct nc_drain *d,
                                      uint64_t now_usec, struct nc_value *history);
void nc_daemon_metrics_view(const struct nc_life_view *v, const struct nc_counters *c,
                            uint64_t now_usec, struct nc_buf *out);

#endif
