/*
 * How long a bootstrap waits for what at most. Each is cut by the bootstrap's own deadline, and all
 * of them after each other fit into it: tests/unit/bootstrap/test-time-limits.c, which also holds
 * the units against them.
 */
#ifndef NC_BOOTSTRAP_TIME_LIMITS_H
#define NC_BOOTSTRAP_TIME_LIMITS_H

#define SECONDS(n) ((uint64_t)(n)*1000000)

/* Karpenter deletes a NodeClaim that has not registered by then. */
#define DEFAULT_TIMEOUT_USEC SECONDS(15 * 60)
#define RELOAD_TIMEOUT_USEC SECONDS(90)
#define RESOLVER_TIMEOUT_USEC SECONDS(30)
#define DISKS_TIMEOUT_USEC SECONDS(310)  /* the unit's own limit and ten seconds */
#define MIGRATE_TIMEOUT_USEC SECONDS(30) /* the binary, from a cold volume */
#define CONTAINERD_TIMEOUT_USEC SECONDS(90)
#define IMPORT_TIMEOUT_USEC SECONDS(60)
#define UNIT_TIMEOUT_USEC SECONDS(90) /* kubelet's */

/* After the deadline: what is reported of it. */
#define LAST_EVENT_USEC 600000u

#endif
