/*
 * The sources of an ending of this node, and what each leads to: one row of one table for each, so
 * that a new one is a row here and, where IMDS announces it, a reader in notice.c.
 */
#ifndef NC_SOURCES_H
#define NC_SOURCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What an ending leads to, weakest first. */
enum nc_policy { NC_POLICY_IGNORE = 1, NC_POLICY_REPORT, NC_POLICY_CORDON, NC_POLICY_DRAIN };
extern const char nc_policy_names[];          /* from IGNORE on */
const char *nc_policy_name(enum nc_policy p); /* NULL where it is none */

enum nc_drain_mode { NC_DRAIN_AUTO = 1, NC_DRAIN_ALWAYS, NC_DRAIN_OBSERVE, NC_DRAIN_OFF };
extern const char nc_drain_mode_names[]; /* from AUTO on */
/* The most that a notice or a request leads to. */
enum nc_policy nc_drain_mode_cap(enum nc_drain_mode m);

/* How much earlier than the machine ends pods have to be gone, where nobody says otherwise and
 * there are two minutes. */
#define NC_MARGIN_USEC (15ull * 1000000)
#define NC_KILL_USEC (1ull * 1000000) /* what a kill costs, until kubelet has said so */
/* The margin where `left_usec` are left, in whole seconds, rounded up: of `most_usec` the share
 * that the time left is of the two minutes of a spot notice. At least what a kill costs;
 * and 10 s, by which Karpenter's queue may be late, where that leaves a pod the 30 s that are the
 * default grace period. Never more than `most_usec`, nor than half of what is left: a longer one
 * would end every pod at once. Agent and controller act alike by it. */
uint64_t nc_margin_usec(uint64_t most_usec, uint64_t left_usec);

/* EC2's notice is to reach the NodeClaim's DELETE within a second, and a poll may only just have
 * missed it: the last tenth is for all that comes after the answer (30 ms at rest). The others are
 * complete multiples of it, so that they wake the machine together: 9.9 and 59.4 s. */
#define NC_POLL_URGENT_USEC (900000ull)
#define NC_POLL_OFTEN_USEC (11 * NC_POLL_URGENT_USEC)
#define NC_POLL_SELDOM_USEC (6 * NC_POLL_OFTEN_USEC)

/* Weakest first: of two that request the same, the later one leads. A row is its identifier, its
 * name, its policy where nobody says another, and members of struct nc_source_info. The policy of
 * an OPTION is set by its name in spec.interruption; that of a FIXED one is not set there. */
#define NC_SOURCES(OPTION, FIXED)                                                                  \
    OPTION(REBALANCE, "rebalance", REPORT, .reason = "RebalanceRecommended",                       \
           .sentence = "EC2 recommends to replace this spot instance",                             \
           .path = "/latest/meta-data/events/recommendations/rebalance", .max_bytes = 4096,        \
           .every_usec = NC_POLL_OFTEN_USEC, .is_of_spot = true)                                   \
    OPTION(MAINTENANCE, "maintenance", DRAIN, .reason = "ScheduledMaintenance",                    \
           .sentence = "EC2 has scheduled maintenance of this instance",                           \
           .path = "/latest/meta-data/events/maintenance/scheduled", .max_bytes = 65536,           \
           .every_usec = NC_POLL_SELDOM_USEC, .is_relayed = true)                                  \
    OPTION(AUTOSCALING, "autoscaling", DRAIN, .reason = "AutoScalingTermination",                  \
           .sentence = "Auto Scaling takes this instance out of service",                          \
           .path = "/latest/meta-data/autoscaling/target-lifecycle-state", .max_bytes = 256,       \
           .every_usec = NC_POLL_OFTEN_USEC, .absent_usec = NC_POLL_SELDOM_USEC,                   \
           .has_time_left = true)                                                                  \
    /* The annotation nodeclaimd.io/drain-request on our own Node. */                              \
    FIXED(REQUEST, "request", DRAIN, .reason = "Requested",                                        \
          .sentence = "A drain of this node was requested", .has_own_policy = true)                \
    /* `nodeclaimd drain` on this machine. */                                                      \
    FIXED(OPERATOR, "operator", DRAIN, .reason = "Requested",                                      \
          .sentence = "A drain was requested on this machine", .has_own_policy = true)             \
    FIXED(DELETION, "deletion", DRAIN, .reason = "Deletion",                                       \
          .sentence = "The Node or its NodeClaim is being deleted")                                \
    OPTION(SPOT, "spot", DRAIN, .reason = "SpotInterruption",                                      \
           .sentence = "EC2 interrupts this spot instance",                                        \
           .path = "/latest/meta-data/spot/instance-action", .max_bytes = 4096,                    \
           .every_usec = NC_POLL_URGENT_USEC, .is_of_spot = true, .is_relayed = true)              \
    /* logind: PrepareForShutdown. */                                                              \
    OPTION(SHUTDOWN, "shutdown", DRAIN, .reason = "NodeShutdown",                                  \
           .sentence = "The machine is being shut down", .has_time_left = true)

enum nc_source {
#define NC_SOURCE_ID(id, ...) NC_SOURCE_##id,
    NC_SOURCES(NC_SOURCE_ID, NC_SOURCE_ID)
#undef NC_SOURCE_ID
        _NC_SOURCE_MAX
};

struct nc_source_info {
    char name[12]; /* in spec.interruption, status.json, drain-status, the metrics' label source */
    enum nc_policy policy; /* where nobody says another */
    char reason[24];       /* of the condition InterruptionPending, and of the Event */
    char sentence[48];     /* how messages about it begin */
    bool is_option;        /* spec.interruption has a policy for it */
    bool is_of_spot;       /* asked on spot instances only */
    bool has_own_policy;   /* the notice states what is requested */
    bool is_relayed;       /* its deadline is EC2's: the controller hands it to Karpenter */
    bool has_time_left;    /* its deadline is so long after the notice, and no time that EC2 said */
    const char *path;      /* in IMDS; NULL = it comes from elsewhere */
    size_t max_bytes;      /* of an answer */
    uint64_t every_usec;   /* between two polls */
    uint64_t absent_usec;  /* while the answer is 404; 0 = every_usec */
};
extern const struct nc_source_info nc_sources[_NC_SOURCE_MAX];

/* Scheduled events, by EC2's code: what EC2 does then, the most that `maintenance` does about it,
 * and whether the machine comes back: then nothing of its NodeClaim ends. A row is its identifier,
 * the code, which is also the name of its own policy in spec.interruption, and these. */
#define NC_MAINTENANCE_CODES(CODE)                                                                 \
    CODE(STOP, "instance-stop", DRAIN, false, "stops the instance")                                \
    CODE(RETIREMENT, "instance-retirement", DRAIN, false, "stops or terminates the instance")      \
    CODE(REBOOT, "instance-reboot", DRAIN, true, "reboots the instance")                           \
    CODE(HOST_REBOOT, "system-reboot", DRAIN, true, "reboots the host with the instance")          \
    CODE(HOST, "system-maintenance", CORDON, true, "interrupts network or power for a short time")

enum nc_maintenance {
#define NC_MAINTENANCE_ID(id, ...) NC_MAINTENANCE_##id,
    NC_MAINTENANCE_CODES(NC_MAINTENANCE_ID)
#undef NC_MAINTENANCE_ID
        NC_MAINTENANCE_UNKNOWN, /* a code that is not here: drained for, and never relayed */
    _NC_MAINTENANCE_MAX = NC_MAINTENANCE_UNKNOWN
};
struct nc_maintenance_info {
    char code[20]; /* "" where it is unknown */
    enum nc_policy most;
    bool returns;
};
const struct nc_maintenance_info *nc_maintenance(const char *code); /* never NULL */

/* In a line: smaller so. */
__attribute__((noinline)) const char *nc_source_name(enum nc_source s);
__attribute__((noinline)) const char *nc_source_reason(enum nc_source s);

#endif
