/*
 * Is the node fit to take pods? What was observed in this boot against what spec.fit wants; pure.
 *
 * What an earlier boot has left in the API counts for nothing: the Node's status counts once its
 * bootID is ours, a pod's readiness and another's condition once they are dated in this boot. Only
 * a CSINode has no date: a driver that it names counts, so whoever wants it after a reboot names
 * the driver's DaemonSet too.
 */
#ifndef NC_FIT_H
#define NC_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nc/fit-settings.h"
#include "nc/value.h"

/* With NC_FIT_ALL: so long after the last new pod of a DaemonSet no further one is expected. */
#define NC_FIT_QUIET_USEC 10000000u
/* Pods of wanted DaemonSets that are known; a node has some dozens. */
#define NC_FIT_MAX_PODS ((size_t)512)

/* Reasons of the condition. */
enum nc_fit_reason {
    NC_FIT_READY = 0,
    NC_FIT_TIMED_OUT,    /* something is missing, and the time is over */
    NC_FIT_NOT_REPORTED, /* kubelet has not reported in this boot: nothing is known of the node */
    NC_FIT_UNKNOWN,      /* the pods or the CSINode could not be read */
    NC_FIT_MISSING,      /* + enum nc_fit_kind: what is missing first */
    NC_FIT_DRAINING = NC_FIT_MISSING + _NC_FIT_KIND_MAX,
    _NC_FIT_REASON_MAX
};
const char *nc_fit_reason_name(enum nc_fit_reason r); /* "DaemonSetsNotReady", … */

/* The latest pod of a DaemonSet that was seen ready counts, whichever it is. */
struct nc_fit_pod {
    char *uid, *name;
    char *daemon_set; /* "namespace/name" */
    bool is_ready;
};

/* What was observed. Zero: nothing. */
struct nc_fit_seen {
    struct nc_fit_pod *pods; /* of DaemonSets */
    size_t n_pods;
    bool has_pods;                          /* the list is complete */
    bool is_reported;                       /* kubelet has reported the Node in this boot */
    bool has_csi;                           /* the CSINode was read, or is not there yet */
    uint64_t newest_usec;                   /* when the last new pod was seen */
    struct nc_strv there[_NC_FIT_KIND_MAX]; /* of what is wanted, DaemonSets apart */
};
void nc_fit_forget_pods(struct nc_fit_seen *s);
void nc_fit_seen_done(struct nc_fit_seen *s);

/* The members of a pod that nc_fit_see_pod reads. */
extern const char nc_fit_pod_paths[];

/* This boot, as objects are dated: by the wall clock of this machine. */
struct nc_fit_boot {
    const char *id;
    uint64_t began_usec;
};
/* Objects are hostile: what has the wrong type counts as not there. A pod of no DaemonSet that is
 * wanted is passed over. now_usec: when it is seen, for the quiet time. */
void nc_fit_see_pod(struct nc_fit_seen *s, const struct nc_fit_settings *settings,
                    const struct nc_value *pod, const struct nc_fit_boot *boot, uint64_t now_usec);
void nc_fit_pod_gone(struct nc_fit_seen *s, const char *uid);
void nc_fit_see_node(struct nc_fit_seen *s, const struct nc_fit_settings *settings,
                     const struct nc_value *node, const struct nc_fit_boot *boot);
void nc_fit_see_csi(struct nc_fit_seen *s, const struct nc_value *csi_node); /* NULL: none yet */

struct nc_fit_verdict {
    bool is_fit;
    bool is_late; /* the time is over, and something is missing */
    enum nc_fit_reason reason;
    struct nc_strv missing; /* by name */
    char *message;          /* for people; owned */
    uint64_t next_usec;     /* when time alone changes it; UINT64_MAX = never */
};
void nc_fit_verdict_done(struct nc_fit_verdict *v);

/* since_usec: when the gate of this boot was shut. A drain holds it as it is: it neither opens nor
 * runs out of time. */
struct nc_fit_moment {
    uint64_t since_usec, now_usec;
    bool is_draining;
};
void nc_fit_judge(const struct nc_fit_settings *settings, const struct nc_fit_seen *s,
                  const struct nc_fit_moment *m, struct nc_fit_verdict *ret);

/* When the gate was shut, and what comes when: since, until, then ("hold" or "open"); without
 * `until` where there is no time-out, or a drain holds it. */
void nc_fit_set_times(struct nc_value *map, const struct nc_fit_settings *settings,
                      const struct nc_fit_moment *m);
/* The annotation nodeclaimd.io/fit: compact JSON {boot, fit, reason, missing[≤5]} and the times.
 * Owned. */
char *nc_fit_annotation(const struct nc_fit_settings *settings, const struct nc_fit_verdict *v,
                        const char *boot_id, const struct nc_fit_moment *m);
/* Does the annotation say that of this boot? */
bool nc_fit_annotation_says(const char *text, const char *boot_id, bool is_fit);

#endif
