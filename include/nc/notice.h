/*
 * What announces an ending of this node, and how EC2 words it.
 *
 * Pure readers of what IMDS answers. Everything they are given is hostile: what is not exactly of
 * the documented form is refused, and a refused body is no notice (and no all-clear either).
 */
#ifndef NC_NOTICE_H
#define NC_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/config.h"
#include "nc/err.h"

/* Who announces. In order of severity, weakest first (design: "The daemon and the drain"). */
enum nc_source {
    NC_SOURCE_REBALANCE = 0, /* events/recommendations/rebalance */
    NC_SOURCE_MAINTENANCE,   /* events/maintenance/scheduled */
    NC_SOURCE_AUTOSCALING,   /* autoscaling/target-lifecycle-state */
    NC_SOURCE_REQUEST,       /* the annotation nodeclaimd.io/drain-request on our own Node */
    NC_SOURCE_OPERATOR,      /* `nodeclaimd drain` on this machine */
    NC_SOURCE_DELETION,      /* our Node or our NodeClaim is being deleted */
    NC_SOURCE_SPOT,          /* spot/instance-action */
    NC_SOURCE_SHUTDOWN,      /* logind: PrepareForShutdown */
    _NC_SOURCE_MAX
};

const char *nc_source_name(enum nc_source s); /* "rebalance", "maintenance", … for JSON, metrics */
/* The reason of the condition InterruptionPending: RebalanceRecommended, ScheduledMaintenance,
 * AutoScalingTermination, Requested (REQUEST, OPERATOR, DELETION), SpotInterruption, NodeShutdown.
 */
const char *nc_source_reason(enum nc_source s);

/* One announcement. All times are microseconds since the epoch, on EC2's clock. */
struct nc_notice {
    enum nc_source source;
    char id[72];     /* the same ending has the same id: "spot-terminate-2026-01-02T03:04:05Z" */
    char action[24]; /* terminate, stop, hibernate, system-reboot, Terminated, …; "" = none */
    char reason[64]; /* of a request: its own words, printable; "" = none */
    enum nc_policy policy;  /* of REQUEST and OPERATOR: what is asked for. Others: the rules' */
    uint64_t deadline_usec; /* when the machine goes; 0 = not known */
    bool is_last_moment;    /* deadline_usec is T itself: whoever set it took the margin off */
    uint64_t begin_usec;    /* act (cordon, drain) not before; 0 = at once */
};

/* {"action":"terminate|stop|hibernate","time":"2026-01-02T03:04:05Z"}. Returns 1 with *ret; a time
 * in the past is taken as it is. NC_ERR_PROTOCOL for anything else. */
int nc_notice_read_spot(const char *data, size_t n, struct nc_notice *ret, struct nc_err *err);
/* {"noticeTime":"…Z"}. 1 with *ret, or NC_ERR_PROTOCOL. No deadline. */
int nc_notice_read_rebalance(const char *data, size_t n, struct nc_notice *ret, struct nc_err *err);
/* A list of events; NotBefore as "21 Jan 2019 09:00:43 GMT" (the day may have one digit). Those
 * whose State is completed or canceled, or whose Description begins "[Completed]" or "[Canceled]",
 * are no news. Returns 1 with the active event that begins first (deadline = NotBefore; begin =
 * NotBefore - NC_MAINTENANCE_LEAD_USEC; where NotBefore is in the past: no deadline, begin at
 * once), 0 where none is active ("" and [] too). An event that cannot be read makes the body
 * refused (NC_ERR_PROTOCOL). At most 100 events. */
int nc_notice_read_maintenance(const char *data, size_t n, uint64_t now_usec, struct nc_notice *ret,
                               struct nc_err *err);
#define NC_MAINTENANCE_LEAD_USEC (15ull * 60 * 1000000)
/* "InService", "Terminated", "Warmed:Stopped", …: one word. 1 with *ret for Terminated and
 * Warmed:Terminated, 0 for the others known (InService, Detached, Standby, Warmed:…),
 * NC_ERR_PROTOCOL for anything else. */
int nc_notice_read_target_state(const char *data, size_t n, struct nc_notice *ret,
                                struct nc_err *err);

/* The annotation nodeclaimd.io/drain-request, and the file of `nodeclaimd drain`: {id, reason,
 * mode: cordon|graceful|deadline, deadline: RFC 3339}. cordon asks for the policy cordon, the
 * others for drain; deadline needs a deadline, the others have none (one that is given is not
 * looked at). Unknown keys are tolerated (one release apart); the id is required (1..64 printable
 * bytes), a reason is not. At most 4 KiB. Returns 1, or NC_ERR_PROTOCOL. `source` is REQUEST or
 * OPERATOR. */
int nc_notice_read_request(const char *data, size_t n, enum nc_source source, struct nc_notice *ret,
                           struct nc_err *err);
/* A request that was not known before and whose deadline passed more than NC_REQUEST_LATE_USEC ago
 * would delete every pod at once; mostly its deadline was written in another time zone. Returns 0,
 * or NC_ERR_PROTOCOL (-ETIME) in words for whoever asked. */
int nc_notice_check_deadline(const struct nc_notice *n, uint64_t now_usec, struct nc_err *err);
#define NC_REQUEST_LATE_USEC (60ull * 1000000)

#endif
