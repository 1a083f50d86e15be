/*
 * One entry for the journal, sent without ever waiting.
 */
#ifndef NC_PROCESS_JOURNAL_SEND_H
#define NC_PROCESS_JOURNAL_SEND_H

#include "nc/str.h"

/* Appends a field. */
void nc_journal_add_field(struct nc_buf *entry, const char *name, const char *value);

/* Negative where there is no journal, or the entry is too large for a datagram; an entry that
 * journald has no room for is counted, no more. */
int nc_journal_send(const struct nc_buf *entry);

#endif
