/*
 * The settings of a drain, spec.interruption and spec.drain of an AgentConfig: one row of one table
 * for each. The struct, the defaults, the schema, what is read of the documents and what `explain`
 * shows are made of the rows; a test holds the manual page against them.
 */
#ifndef NC_DRAIN_SETTINGS_H
#define NC_DRAIN_SETTINGS_H

#include "nc/sources.h"

/* A row is its type, its member of struct nc_drain_settings, its name in the section, what it is
 * where nothing is written, what the manual page says of it, and members of struct
 * nc_drain_setting. Times are microseconds. The policies of spec.interruption are the rows of
 * NC_SOURCES that are an OPTION, and those of NC_MAINTENANCE_CODES. */
#define NC_DRAIN_SETTINGS(INTERRUPTION, DRAIN)                                                     \
    INTERRUPTION(DURATION, autoscaling_deadline_usec, "autoscalingDeadline", 0,                    \
                 "How long after its target state became Terminated the instance is taken to end") \
    INTERRUPTION(POLICY, karpenter_reboot, "karpenterReboot", NC_POLICY_REPORT,                    \
                 "The most that a shutdown leads to by which Karpenter reboots the node")          \
    INTERRUPTION(POLICY, reboot, "reboot", NC_POLICY_DRAIN,                                        \
                 "The most that a shutdown leads to that logind calls a reboot")                   \
    DRAIN(MODE, mode, "mode", NC_DRAIN_AUTO, "Who evicts the pods")                                \
    DRAIN(DURATION, margin_usec, "margin", NC_MARGIN_USEC,                                         \
          "How long before the deadline every pod must be gone, where two minutes are left",       \
          .most = "10m")                                                                           \
    DRAIN(DURATION, linger_usec, "linger", 0,                                                      \
          "How long the node stays at least after load balancers were told to leave it out, "      \
          "though all pods are gone")                                                              \
    DRAIN(DURATION, hook_timeout_usec, "hookTimeout", 30ull * 1000000,                             \
          "How long a drain waits for nodeclaimd-pre-drain.target before its first eviction, and " \
          "for nodeclaimd-post-drain.target once no pod is left",                                  \
          .most = "10m")                                                                           \
    DRAIN(BOOL, pod_events, "podEvents", true,                                                     \
          "Whether each pod that is evicted or force-deleted gets an Event that says why")         \
    DRAIN(BOOL, tolerating_last, "toleratingLast", false,                                          \
          "Whether pods of DaemonSets, and pods that tolerate karpenter.sh/disrupted, are "        \
          "drained last instead of left")                                                          \
    DRAIN(DURATION, replacement_usec, "replacementTimeout", 600ull * 1000000,                      \
          "How long a pod with the annotation nodeclaimd.io/replacement-first waits for its "      \
          "replacement before it is evicted, since the drain began to evict")

#define NC_SETTING_OF_POLICY enum nc_policy
#define NC_SETTING_OF_MODE enum nc_drain_mode
#define NC_SETTING_OF_DURATION uint64_t
#define NC_SETTING_OF_BOOL bool
#define NC_SETTING_MEMBER(type, member, ...) NC_SETTING_OF_##type member;
struct nc_drain_settings {
    enum nc_policy policy[_NC_SOURCE_MAX]; /* where a source has its own policy, that counts */
    enum nc_policy by_code[_NC_MAINTENANCE_MAX]; /* 0: as nc_maintenance_policy() has it */
    NC_DRAIN_SETTINGS(NC_SETTING_MEMBER, NC_SETTING_MEMBER)
};
#undef NC_SETTING_MEMBER
/* What holds where nothing is written. */
extern const struct nc_drain_settings nc_drain_defaults;

/* Of a scheduled event: that of its code; where that has none, that of maintenance, but no more
 * than the code's row allows. */
enum nc_policy nc_maintenance_policy(const struct nc_drain_settings *s, const char *code);

enum nc_setting_type {
    NC_SETTING_POLICY = 1,
    NC_SETTING_MODE,
    NC_SETTING_DURATION,
    NC_SETTING_BOOL
};

struct nc_drain_setting {
    char path[40]; /* "spec.drain.margin" */
    enum nc_setting_type type : 8;
    unsigned offset : 24; /* of its member */
    char most[4];         /* of a DURATION, as it is written; "" = any */
};
/* In the order in which `explain` shows them; the last one has an empty path. */
extern const struct nc_drain_setting nc_drain_setting_rows[];

#endif
