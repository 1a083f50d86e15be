/*
 * What the daemon says of itself, as text: status.json's `drain`, the plan of a dry run.
 *
 * Pure. The annotation drain-status is the lifecycle's own; this is for people and programs on the
 * machine.
 */
#ifndef NC_DRAIN_REPORT_H
#define NC_DRAIN_REPORT_H

#include "nc/lifecycle.h"
#include "nc/mem.h"
#include "nc/value.h"

/* status.json's `drain`: {phase, since, id, source, reason, policy, deadline, forceDeleteAt,
 * sources:
 * [{source, id, action, noticed, deadline, begin, policy}], cordon: {ours, since}, pods: as
 * nc_drain_counts() has them, blocked: [{pod, reason, budget, message, since, forceDeleteAt}] (at
 * most 20), others: [{pod, reason, next, at, graceEnds}] (at most 250),
 * hooks: {preDrain, postDrain: {state, started, ended}}, drained, history: [{phase, at, atUsec}] as
 * given}. Owned. Times as RFC 3339; null where there is none. `history` is consumed, may be NULL.
 */
struct nc_value *nc_drain_report(const struct nc_lifecycle *l, uint64_t now_usec,
                                 struct nc_value *history);

/* `drain --dry-run`: what would be done and when, one line a pod in the order of the drain: tier,
 * namespace/name, what (evict, keep, leave alone: reason), when its force-delete time is, with how
 * much grace it would then be deleted. JSON with the same content where `json`. */
void nc_drain_plan_text(const struct nc_drain *d, const struct nc_drain_rules *r, uint64_t now_usec,
                        bool json, struct nc_buf *out);

/* Names the pods that a drain which begins now would leave less than their grace period, separated
 * by ", ". How long T would have to be ahead that each has its own; 0 = there is none. */
uint64_t nc_drain_plan_cut(const struct nc_drain *d, const struct nc_drain_rules *r,
                           uint64_t now_usec, struct nc_buf *names);

/* The counts of a summary, by the names of its members; excluded: {reason: n}. What only a list of
 * the pods can tell is null where there was none. Owned. */
struct nc_value *nc_drain_counts(const struct nc_drain_summary *s, bool is_listed);

/* nc_drain_report, of what the lifecycle showed. */
struct nc_value *nc_drain_report_view(const struct nc_lifecycle_view *view,
                                      const struct nc_drain *d, uint64_t now_usec,
                                      struct nc_value *history);

#endif
