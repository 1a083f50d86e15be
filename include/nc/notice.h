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

#include "nc/drain-settings.h"
#include "nc/err.h"
#include "nc/mem.h"

#define NC_ACTION_REBOOT "reboot" /* of a shutdown, as logind has it */

/* One announcement. All times are microseconds since the epoch, on EC2's clock. */
struct nc_notice {
    enum nc_source source;
    char id[72];     /* the same ending has the same id: "spot-terminate-2026-01-02T03:04:05Z" */
    char action[24]; /* terminate, stop, hibernate, system-reboot, Terminated, …; "" = none */
    char reason[64]; /* of a request: its own words, printable; "" = none */
    enum nc_policy policy;     /* of REQUEST and OPERATOR: what is requested. Others: the rules' */
    uint64_t deadline_usec;    /* when the machine goes; 0 = not known */
    bool is_force_delete_time; /* deadline_usec is T itself: whoever set it took the margin off */
    uint64_t begin_usec;       /* act (cordon, drain) not before; 0 = at once */
    bool cordons_until_then;   /* another event of the source cordons already */
};

/* The machine comes back: it is drained, but nothing of its NodeClaim ends. */
bool nc_notice_returns(const struct nc_notice *n);
/* Its deadline ends no pod: each has its complete grace. Memory is kept where EC2 hibernates. */
bool nc_notice_is_gentle(const struct nc_notice *n);

struct nc_notice_answer {
    enum nc_source source; /* which has a path */
    const struct nc_buf *body;
    uint64_t now_usec;                     /* of maintenance alone, */
    const struct nc_drain_settings *rules; /* as are these, */
    const char *acted_id;                  /* and the event that is acted upon; NULL = none is */
};
/* What IMDS answers at the path of its source. Returns 1 with *ret; 0 where nothing is announced;
 * NC_ERR_PROTOCOL for anything else. With 1 err may say which part of the answer was left out.
 *
 * spot: {"action":"terminate|stop|hibernate","time":"2026-01-02T03:04:05Z"}; a time in the past is
 * taken as it is. rebalance: {"noticeTime":"…Z"}; no deadline. autoscaling: one word, an ending
 * where it is Terminated or of a warm pool. maintenance: a list of at most 100 events; NotBefore
 * as "21 Jan 2019 09:00:43 GMT" (the day may have one digit). Those whose State is completed or
 * canceled, or whose Description begins "[Completed]" or "[Canceled]", are no news; of the others
 * the one counts about which most is done now, and of these the one with the earliest deadline
 * ahead; one that drains counts before one that cordons from NC_MAINTENANCE_GRACE_USEC before its
 * begin on, and says that the other one cordons (deadline = NotBefore; begin = NotBefore -
 * NC_MAINTENANCE_LEAD_USEC; where NotBefore is in the past: no deadline, begin = NotBefore). About
 * one that is not acted upon and whose NotBefore passed more than NC_NOTICE_LATE_USEC ago nothing
 * is done. One that cannot be read hides no other. "" is none. */
int nc_notice_read(const struct nc_notice_answer *a, struct nc_notice *ret, struct nc_err *err);
#define NC_MAINTENANCE_LEAD_USEC (15ull * 60 * 1000000)
/* N1: a drain begins earlier by the longest grace on the node; no grace that is longer moves it. */
#define NC_MAINTENANCE_GRACE_USEC (24ull * 3600 * 1000000)

/* The annotation nodeclaimd.io/drain-request, and the file of `nodeclaimd drain`: {id, reason,
 * mode: cordon|graceful|deadline, deadline: RFC 3339}. cordon requests the policy cordon, the
 * others for drain; deadline needs a deadline, the others have none (one that is given is
 * refused). Unknown keys are tolerated (one release apart); the id is required (1..64 printable
 * bytes), a reason is not. At most 4 KiB. Returns 1, or NC_ERR_PROTOCOL. `source` is REQUEST or
 * OPERATOR. */
int nc_notice_read_request(const char *data, size_t n, enum nc_source source, struct nc_notice *ret,
                           struct nc_err *err);
/* The id of a request of the controller about the end of a NodeClaim: this and the claim's uid. */
#define NC_NOTICE_OF_CLAIM "claim-"
/* Is it about the end of the NodeClaim of this uid? */
bool nc_notice_is_of_claim(const struct nc_notice *n, const char *uid);
/* A request that was not known before and whose deadline passed more than NC_REQUEST_LATE_USEC ago
 * would delete every pod at once; mostly its deadline was written in another time zone. Returns 0,
 * or NC_ERR_PROTOCOL (-ETIME) in words for whoever asked. */
int nc_notice_check_deadline(const struct nc_notice *n, uint64_t now_usec, struct nc_err *err);
#define NC_REQUEST_LATE_USEC (5ull * 1000000) /* one for now is as late as its way here is long */
#define NC_NOTICE_LATE_USEC (60ull * 1000000) /* of EC2: by then whatever it did is done */

#endif
