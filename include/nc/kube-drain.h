/*
 * What a drain asks of the API: pods of this node, evictions and deletions, writes of our own Node,
 * Events. All asynchronous: the daemon never blocks in its loop.
 */
#ifndef NC_KUBE_DRAIN_H
#define NC_KUBE_DRAIN_H

#include "nc/drain.h"
#include "nc/kube.h"
#include "nc/lifecycle.h"

/* Reads an object of our own Node. Metadata only (a metadata-only watch) updates the upper half of
 * the view and leaves the lower as it was, unless the uid states that it is another Node; a
 * complete object (it has spec or status) both. `n_stay` volumes named in `stay` (names as in
 * volumesAttached, "kubernetes.io/csi/DRIVER^HANDLE") are not counted. */
void nc_node_view_apply(struct nc_node_view *v, const struct nc_value *object,
                        const struct nc_strv *stay);

/* The path of a pod's PersistentVolumeClaim; NULL where a name is none. Owned. */
char *nc_volume_claim_path(const char *namespace, const char *name);
/* The path of the PersistentVolume that the claim names; NULL where it names none. Owned. */
char *nc_volume_claim_read(const struct nc_value *claim);
/* The volume's name as in volumesAttached; NULL where it is of no CSI driver, or bound to another
 * claim than `claim` ("namespace/name"): any claim may name any volume. Owned. */
char *nc_volume_read(const struct nc_value *volume, const char *claim);
/* What is read of either object. */
extern const char nc_volume_claim_paths[], nc_volume_paths[];
#define NC_VOLUME_MAX_BYTES ((size_t)4096)

/* The patch of a write: *ret_subresource is NULL or "status", *ret_kind merge or strategic. Owned.
 * Conditions carry now_usec as both times. */
struct nc_value *nc_node_write_body(const struct nc_node_write *w, uint64_t now_usec,
                                    const char **ret_subresource, enum nc_kube_patch *ret_kind);

/* Sends it. `done` gets the Node as the server then has it (borrowed; NULL on failure) and how it
 * ended: refused for good (nc_kube_is_refusal) is REFUSED, all else UNAVAILABLE. */
struct nc_node_written {
    enum nc_write_outcome outcome;
    bool is_anothers; /* the Node that was meant is no more, another one has its name */
    const struct nc_value *node;
    uint64_t retry_after_usec;
    uint64_t duration_usec;
    struct nc_err err;
};
struct nc_node_call {
    const char *node;
    const struct nc_node_write *write;
    uint64_t now_usec, timeout_usec;
    void (*done)(void *userdata, const struct nc_node_written *w);
    void *userdata;
};
int nc_node_send(struct nc_kube *k, const struct nc_node_call *c, struct nc_kube_req **ret,
                 struct nc_err *err);

/* One question about a pod: an eviction with its uid as precondition, a status patch with the
 * condition DisruptionTarget (reason TerminationByNodeclaimd), or a deletion with grace (0: the
 * pod's own, which is right only for one that has ended) and uid. The action's pod is only read
 * during the call. `done` is called once unless the handle is freed or the request cancelled. */
struct nc_pod_result {
    struct nc_pod_answer answer;
    uint64_t duration_usec;
    enum nc_err_class class; /* NC_ERR_NONE where the server answered what is usual in a drain */
    struct nc_err err;       /* of the request; where it was not answered, why */
};
struct nc_pod_call {
    const struct nc_drain_action *action;
    uint64_t now_usec, timeout_usec;
    void (*done)(void *userdata, const struct nc_pod_result *a);
    void *userdata;
};
int nc_pod_send(struct nc_kube *k, const struct nc_pod_call *c, struct nc_kube_req **ret,
                struct nc_err *err);
/* How long an attempt may take. An eviction 15 s: the server may hold it for 10 s, and giving it up
 * uses its budget up for nothing. A deletion 2, 4, 8, 15 s: an answer that got lost must not cost
 * that. A mark 2 s. */
uint64_t nc_pod_send_timeout(enum nc_drain_verb verb, unsigned attempt);

struct nc_event_receiver {
    nc_kube_done_fn done;
    void *userdata;
};
/* Creates it or, where it is there (in namespace default), patches its count, message and
 * lastTimestamp, within 5 s. For whoever sends it again where that fails: `done` is called once,
 * unless the request is cancelled. 404 of a patch: its time was over. */
int nc_event_start(struct nc_kube *k, const struct nc_event *e, const struct nc_event_receiver *to,
                   struct nc_kube_req **ret, struct nc_err *err);
/* Its answer was that it is there already. */
bool nc_event_exists(const struct nc_kube_status *status);

#endif
