/*
 * Disruption budgets of a NodePool, as Karpenter reads them: how many of its nodes may be on their
 * way out at once, for a reason, now.
 *
 * Pure. Rules: karpenter's pkg/apis/v1/nodepool.go (GetAllowedDisruptionsByReason,
 * Budget.IsActive), v1beta1 alike; cron schedules by robfig/cron's standard parser (five fields,
 * names, steps, lists, ranges, @hourly …, in UTC: a CRON_TZ= or TZ= prefix is not allowed by the
 * CRD's pattern and is refused here); durations as Go writes them. A NodePool without
 * spec.disruption.budgets has one of 10 %; an empty list limits nothing.
 */
#ifndef NC_BUDGET_H
#define NC_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/err.h"
#include "nc/value.h"

/* A Go duration of a CRD: "Never" (only where may_be_never) is UINT64_MAX; "720h", "1h30m", "90s".
 * Negative, NC_ERR_PROTOCOL, for anything else, and beyond 290 years. */
int nc_budget_duration(const char *text, bool may_be_never, uint64_t *ret_usec, struct nc_err *err);

/* A cron schedule. */
struct nc_cron {
    uint64_t minutes;          /* bit = minute */
    uint32_t hours, days;      /* bit = hour; bit = day of the month, 1..31 */
    uint16_t months;           /* bit = month, 1..12 */
    uint8_t weekdays;          /* bit = day of the week, 0 = Sunday */
    bool any_day, any_weekday; /* the field was "*" or "?": then the other one alone decides */
};
int nc_cron_parse(const char *text, struct nc_cron *ret, struct nc_err *err);
/* The first time after `after_usec` (UTC) at which it fires; UINT64_MAX where there is none in five
 * years. */
uint64_t nc_cron_next(const struct nc_cron *c, uint64_t after_usec);

#define NC_BUDGET_REASONS_MAX 50
#define NC_BUDGETS_MAX 50
enum nc_budget_reason { /* Karpenter's words; Expired and Rebalance are ours and are matched as any
                           other reason */
                        NC_BUDGET_EMPTY = 0,
                        NC_BUDGET_DRIFTED,
                        NC_BUDGET_UNDERUTILIZED,
                        NC_BUDGET_EXPIRED,
                        NC_BUDGET_REBALANCE,
                        _NC_BUDGET_REASON_MAX
};
const char *nc_budget_reason_name(enum nc_budget_reason r); /* "Drifted", … */

struct nc_budget {
    unsigned reasons; /* bits of enum nc_budget_reason; 0 = all */
    bool is_percent;
    unsigned nodes; /* a count, or percent 0..100 */
    bool has_schedule;
    struct nc_cron schedule;
    uint64_t duration_usec;
};
struct nc_budgets {
    struct nc_budget *v;
    size_t n;
};
void nc_budgets_done(struct nc_budgets *b);
/* A NodePool object of v1 or v1beta1. What cannot be read: NC_ERR_PROTOCOL with the path; the
 * caller then allows nothing (Karpenter does alike). */
int nc_budgets_read(const struct nc_value *pool, struct nc_budgets *ret, struct nc_err *err);
/* How many of n_nodes may be disrupted at once for a reason: the least of all that are in force;
 * UINT_MAX where none is. A percentage rounds up, as Karpenter's does. */
unsigned nc_budgets_allowed(const struct nc_budgets *b, enum nc_budget_reason why, unsigned n_nodes,
                            uint64_t now_usec);
/* When the answer may change by time alone; UINT64_MAX = never. */
uint64_t nc_budgets_next(const struct nc_budgets *b, uint64_t now_usec);

#endif
