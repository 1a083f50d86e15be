/*
 * What a bootstrap says of itself: phases, attempts, errors, and the texts that carry them outside.
 *
 * Pure: the time is passed in. One report is rendered in four forms: status.json, the console's
 * line, the Node's annotation, a timeline for people.
 */
#ifndef NC_REPORT_H
#define NC_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "nc/config.h"
#include "nc/err.h"
#include "nc/facts.h"
#include "nc/mem.h"
#include "nc/names.h"
#include "nc/plan.h"
#include "nc/value.h"

#define NC_PHASE_ENTRY(id, name, is_optional) NC_PHASE_##id,
enum nc_phase { NC_PHASES(NC_PHASE_ENTRY) _NC_PHASE_MAX };
#undef NC_PHASE_ENTRY

enum nc_outcome { NC_PENDING = 0, NC_RUNNING, NC_SUCCEEDED, NC_FAILED, NC_SKIPPED };

struct nc_phase_entry {
    enum nc_outcome outcome;
    uint64_t started_usec;  /* since the epoch */
    uint64_t duration_usec; /* so far, while it runs */
    unsigned attempts;
    bool
        has_error; /* the last failure of a phase that runs or failed; none of one that succeeded */
    struct nc_err error;
};

struct nc_report {
    enum nc_outcome outcome; /* RUNNING, SUCCEEDED, FAILED */
    uint64_t started_usec, deadline_usec, ended_usec;
    struct nc_phase_entry phases[_NC_PHASE_MAX];
    char *node;
    char *instance_id, *instance_type, *az, *region, *purchase_option;
    char *claim_name, *claim_uid, *claim_source; /* NULL: none is known */
    bool has_predicted;
    struct nc_resources predicted;
    struct nc_value *actual;    /* Node.status.allocatable; NULL until the node reported it */
    struct nc_strv differences; /* sentences */
    struct nc_value
        *conditions; /* the Node's conditions {type, status, reason}; NULL until known */
    struct nc_strv warnings;
    unsigned unsupported; /* fields that the documents set and that are not honoured */
    char *cloud_init_why; /* NULL: not decided yet */
    bool cloud_init_waits;
    struct nc_strv changed;         /* paths of files that cloud-init's scripts have changed */
    char *waiting_reason, *waiting; /* why the node is not initialized yet */
};

#define NC_REPORT_INIT                                                                             \
    { 0 }
void nc_report_done(struct nc_report *r);

__attribute__((noinline)) const char *nc_phase_name(enum nc_phase p); /* "imds", … */
/* Is it among the phases that a report shows? */
bool nc_phase_is_shown(const struct nc_report *r, enum nc_phase p);
/* "PHASE: message", or the message alone where it begins so by itself. Owned. */
char *nc_phase_message(enum nc_phase p, const char *message);
const char *nc_outcome_name(enum nc_outcome o); /* "pending", … */

void nc_report_start(struct nc_report *r, uint64_t now_usec, uint64_t deadline_usec);
/* A phase begins (attempt 1), or begins again (one attempt more). */
void nc_report_attempt(struct nc_report *r, enum nc_phase p, uint64_t now_usec);
/* An attempt failed and there will be another: the phase goes on running with this error shown. */
void nc_report_retrying(struct nc_report *r, enum nc_phase p, const struct nc_err *e,
                        uint64_t now_usec);
void nc_report_succeed(struct nc_report *r, enum nc_phase p, uint64_t now_usec);
/* The phase goes on after another one: until then it has not begun, or (keeps_start) has only
 * waited. */
void nc_report_postpone(struct nc_report *r, enum nc_phase p, bool keeps_start);
void nc_report_skip(struct nc_report *r, enum nc_phase p);
/* The phase and with it the bootstrap failed. */
void nc_report_fail(struct nc_report *r, enum nc_phase p, const struct nc_err *e,
                    uint64_t now_usec);
/* All that was to be done is done. */
void nc_report_finish(struct nc_report *r, uint64_t now_usec);
/* The phase that failed, or that runs, or the last one that ended. */
enum nc_phase nc_report_current(const struct nc_report *r);

void nc_report_set_facts(struct nc_report *r, const struct nc_facts *f);
void nc_report_set_plan(struct nc_report *r, const struct nc_plan *p);
void nc_report_set_claim(struct nc_report *r, const struct nc_claim *c, const char *source);
/* Whether kubelet's start waits for cloud-init, and why (or why not). */
void nc_report_set_cloud_init(struct nc_report *r, bool waits, const char *why);
/* What a phase waits for; reason NULL = nothing any more. */
void nc_report_set_waiting(struct nc_report *r, const char *reason, const char *message);
/* Conditions and allocatable of the Node as kubelet reported them; differences are the plan's to
 * explain. */
void nc_report_set_node(struct nc_report *r, const struct nc_value *node, const struct nc_plan *p,
                        const struct nc_claim *c);

/* Raised when a member changes its name or its meaning; 1 had names such as duration_usec. */
#define NC_STATUS_SCHEMA 2

/* The tree of status.json; owned. `drain` is null: that is the daemon's to fill. */
struct nc_value *nc_report_tree(const struct nc_report *r, uint64_t now_usec);
/* "nodeclaimd: {…}": one line, no newline. now_usec counts while it runs. */
void nc_report_console(const struct nc_report *r, uint64_t now_usec, struct nc_buf *out);
/* Compact JSON for the annotation nodeclaimd.io/bootstrap: always complete; where it would have
 * more than 2 KiB it goes without differences, then without remedy, then without message. */
void nc_report_annotation(const struct nc_report *r, struct nc_buf *out);
/* Prometheus text format. */
void nc_report_metrics(const struct nc_report *r, struct nc_buf *out);

/* For people, from a status.json that was read back. Hostile: anything may be missing or be of
 * another type or size; what comes out is bounded, and has no control character but line ends and
 * NC_MARK_*. */
void nc_status_text(const struct nc_value *status, struct nc_buf *out);
/* ", 7 of 12 pods remain, 1 kept by do-not-disrupt, 1 blocked: default/x by pdb-y": how far
 * status.json's `drain` is, as STATUS=, `drain --wait` and `status` say it. Of those who hold it up
 * at most `names` are named. Hostile as above. */
/* The phase; where no answer of the API server comes, that, and since when. */
void nc_drain_phase_text(const struct nc_value *drain, struct nc_buf *out);
void nc_drain_pods_text(const struct nc_value *drain, size_t names, struct nc_buf *out);
/* Boot and last drain, phase by phase. now_usec: until when the phase of a drain in progress has
 * lasted; 0 where that is not known. */
void nc_timeline_text(const struct nc_value *status, uint64_t now_usec, struct nc_buf *out);
/* The same as one self-contained SVG: bars for phases, vertical lines for notices, cordon and
 * force-delete times. Hostile as above; text is escaped. */
void nc_timeline_svg(const struct nc_value *status, uint64_t now_usec, struct nc_buf *out);
/* The same for programs; owned. */
struct nc_value *nc_timeline_tree(const struct nc_value *status, uint64_t now_usec);

#endif
