/*
 * Words and values that the texts about a drain share.
 */
#ifndef NC_CORE_DRAIN_WORDS_H
#define NC_CORE_DRAIN_WORDS_H

#include "nc/drain-report.h"
#include "nc/str.h"

const char *nc_policy_word(enum nc_policy p); /* NULL where it is none */

/* null for 0, NULL and "". */
void nc_drain_set_time(struct nc_value *map, const char *key, uint64_t usec);
void nc_drain_set_text(struct nc_value *map, const char *key, const char *text);

/* {total, remaining, leaving, kept, blocked, evicted, deleted, excluded: {reason: n}}. Owned. */
struct nc_value *nc_drain_counts(const struct nc_drain_summary *s);

#endif
