/*
 * The log: journald's native fields, JSON lines with the keys that Karpenter's own log uses, or
 * plain text on stderr.
 */
#ifndef NC_PROCESS_LOG_H
#define NC_PROCESS_LOG_H

#include <stdint.h>

#include "nc/err.h"
#include "nc/mem.h"

/* "nodeclaimd": leads what is reported on stderr and is the log's identifier. Static. */
void nc_program_set(const char *name);
const char *nc_program(void);

enum nc_log_level { NC_LOG_ERROR = 3, NC_LOG_WARNING = 4, NC_LOG_INFO = 6, NC_LOG_DEBUG = 7 };
enum nc_log_format { NC_LOG_AUTO = 0, NC_LOG_TEXT, NC_LOG_JSON, NC_LOG_JOURNAL };

/* Milestones have fixed message ids, so that `journalctl MESSAGE_ID=…` finds them. */
enum nc_milestone {
    NC_MILESTONE_NONE = 0,
    NC_MILESTONE_BOOTSTRAP_STARTED,
    NC_MILESTONE_KUBELET_STARTED,
    NC_MILESTONE_REGISTERED,
    NC_MILESTONE_BOOTSTRAP_SUCCEEDED,
    NC_MILESTONE_BOOTSTRAP_FAILED,
    NC_MILESTONE_DAEMON_STARTED,
    NC_MILESTONE_NOTICED,
    NC_MILESTONE_WITHDRAWN,
    NC_MILESTONE_CORDONED,
    NC_MILESTONE_DRAINING,
    NC_MILESTONE_INCOMPLETE,
    NC_MILESTONE_BLOCKED,
    NC_MILESTONE_FORCING,
    NC_MILESTONE_DRAINED,
    NC_MILESTONE_DRAIN_FAILED,
    NC_MILESTONE_RELEASED,
    NC_MILESTONE_POD_EVICTED,
    NC_MILESTONE_POD_REFUSED,
    NC_MILESTONE_POD_FORCED,
    NC_MILESTONE_POD_GONE,
    _NC_MILESTONE_MAX
};

/* What systemd/nodeclaimd.catalog explains it by; NULL for NONE. */
const char *nc_log_message_id(enum nc_milestone m);

/* -EINVAL for a word that is none of them. */
int nc_log_set_format(const char *word);
int nc_log_set_level(const char *word); /* error warning info debug */

struct nc_log_fields {
    enum nc_milestone milestone;
    const char *phase;
    const char *error_class;
    const char *reason; /* of an Event */
    const char *drain_phase, *source;
    uint64_t deadline_usec; /* 0 = none */
    const char *pod_namespace, *pod_name;
    const char *instance;
    const char *node;
    const char *nodeclaim;
    uint64_t duration_usec; /* 0 = none */
};

void nc_log(enum nc_log_level level, const struct nc_log_fields *fields, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same of what is known of a Node, and no more. */
void nc_log_node(enum nc_log_level level, const char *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* journal-send.c, for log.c: one entry, sent without ever waiting. Appends a field. */
void nc_journal_add_field(struct nc_buf *entry, const char *name, const char *value);
/* Negative where there is no journal, or the entry is too large for a datagram; an entry that
 * journald has no room for is counted, no more. identifier: whose entries were lost. */
int nc_journal_send(const struct nc_buf *entry, const char *identifier);

#endif
