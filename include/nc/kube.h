/*
 * The Kubernetes API as a node, or the controller, may use it: get, list, watch, create, patch,
 * delete; each with a deadline, a cap and an error class.
 */
#ifndef NC_KUBE_H
#define NC_KUBE_H

#include <stdbool.h>
#include <systemd/sd-event.h>

#include "nc/config.h"
#include "nc/http.h"
#include "nc/value.h"

struct nc_kube; /* one API server and one identity */

/* Gives the bearer token for now. `refuse` is true after a 401 with the last one: do not answer
 * from a cache. *ret_token is owned by the caller (wiped with nc_secret_free). An error with the
 * code 401: the one before the last was refused, too, so the 401 is no matter of the token. */
typedef int (*nc_kube_token_fn)(void *userdata, bool refuse, char **ret_token, struct nc_err *err);

/* Who we are there decides what may be sent at all: everything else is refused here (NC_ERR_BUG)
 * before a byte of it leaves. */
struct nc_kube_role;
extern const struct nc_kube_role nc_kube_as_node; /* its own identity: itself, its pods, Events */
extern const struct nc_kube_role nc_kube_as_controller; /* never a pod, never a secret */

struct nc_kube_options {
    const char *server;
    const struct nc_kube_role *role;
    struct nc_http_tls tls; /* strings must live as long as the handle */
    nc_kube_token_fn token; /* NULL: the client certificate is all */
    void *userdata;
    const char *user_agent; /* "nodeclaimd/0.2.0" */
};

int nc_kube_new(struct nc_http *http, const struct nc_kube_options *o, struct nc_kube **ret,
                struct nc_err *err);
struct nc_kube *
nc_kube_free(struct nc_kube *k); /* cancels what is in flight; its watches must be freed before */

/* The API server's time when CLOCK_BOOTTIME was 0, by the Date of its answers; 0 = none has come.
 * To about a second, and late by as much as the best of the last answers was: what is derived from
 * it must not mind some seconds. */
uint64_t nc_kube_boot_usec(const struct nc_kube *k);

/* A refusal in the API's own words. */
struct nc_kube_status {
    int http;          /* 0 = no answer */
    char reason[64];   /* metav1.Status.reason: "Forbidden", "TooManyRequests", "NotFound", … */
    char message[256]; /* its message, cut and quoted */
    char cause[128];   /* details.causes[0].reason: "DisruptionBudget" */
    uint64_t retry_after_usec;
    uint64_t date_usec, received_usec; /* for clock skew */
};

/* The object that was meant, by its uid, is no more: another one has its name. */
bool nc_kube_is_about_uid(const struct nc_kube_status *s);
/* Is a patch refused for good? 403, 404, 422: but not where the uid is another object's. */
bool nc_kube_is_refusal(const struct nc_kube_status *s);

/* So many seconds the clock of this machine is ahead of the server's (less than 0: behind it), by
 * an answer; 0 = the answer does not tell. */
long long nc_kube_ahead_sec(const struct nc_kube_status *s);
/* AWS STS refuses what is signed so far ahead; behind, it takes three times that. */
#define NC_KUBE_SKEW_REFUSED_SEC (5 * 60)
#define NC_KUBE_SET_CLOCK                                                                          \
    "set the clock (timedatectl, chronyc tracking), tokens are signed with the time"
/* It in words, and what helps. Owned. */
char *nc_kube_clock_text(const struct nc_kube_status *s);

enum nc_kube_patch { NC_KUBE_PATCH_NONE = 0, NC_KUBE_PATCH_MERGE, NC_KUBE_PATCH_STRATEGIC };

/* Gets object (borrowed; NULL on failure), status and err. */
typedef void (*nc_kube_done_fn)(void *userdata, const struct nc_value *object,
                                const struct nc_kube_status *status, const struct nc_err *err);

struct nc_kube_call {
    const char *what;            /* "get node": leads error messages */
    const char *method;          /* "GET", "POST", "PATCH", "DELETE"; of a controller also "PUT" */
    const char *path;            /* "/api/v1/nodes/x?fieldSelector=…", already encoded */
    const char *accept;          /* NULL = application/json */
    const struct nc_value *body; /* NULL = none */
    enum nc_kube_patch patch;
    uint64_t timeout_usec;
    size_t max_bytes; /* 0 = 4 MiB */
    /* Of nc_kube_start alone. */
    const char *keep;  /* of a success only these members, as of a watch: what others write into the
                          rest of their objects does not make them unreadable. NULL = all of it;
                          max_bytes counts what is kept. Stays the caller's. */
    bool drops_answer; /* a success counts where it begins as an object does; its body of any size
                          is thrown away */
    nc_kube_done_fn done;
    void *userdata;
    void (*destroy)(void *userdata); /* where `done` is never called (a cancelled request, a freed
                                        handle), but not where nc_kube_start fails; NULL: it is the
                                        caller's */
};

/* One-shot programs: blocks in the loop. Returns 0 with *ret_object (owned, may be NULL where the
 * answer has no body) on 2xx; else negative, err filled: 401 (after one refresh of the token) and
 * 403 are NC_ERR_AUTH, 404/409/422 NC_ERR_PROTOCOL, 429 and 5xx NC_ERR_TRANSIENT; *ret_status (may
 * be NULL) is filled in every case. */
int nc_kube_perform(struct nc_kube *k, const struct nc_kube_call *c, struct nc_value **ret_object,
                    struct nc_kube_status *ret_status, struct nc_err *err);

/* The same, asynchronous. `ret` may be NULL. */
struct nc_kube_req;
int nc_kube_start(struct nc_kube *k, const struct nc_kube_call *c, struct nc_kube_req **ret,
                  struct nc_err *err);
struct nc_kube_req *nc_kube_cancel(struct nc_kube_req *r);

/* A watch that goes on: list first where no resourceVersion is known (a complete collection in
 * pages of one consistent state; SYNCED comes after the last of them), bookmarks, 410 -> relist,
 * reconnect with backoff; never gives up until it is freed. `event`: type ADDED, MODIFIED, DELETED,
 * or SYNCED after a list, with NULL object. What vanished while the watch was unavailable is
 * reported as DELETED with an object that holds only metadata.{namespace, name, uid}. `failed` is
 * told of each failure while it retries, `well` of the end of failing. Callbacks come from the
 * loop, never from nc_watch_new, and may free the watch. Waits are jittered from a seed that path
 * and selector give.
 */
enum nc_watch_event { NC_WATCH_ADDED = 1, NC_WATCH_MODIFIED, NC_WATCH_DELETED, NC_WATCH_SYNCED };
typedef void (*nc_watch_fn)(void *userdata, enum nc_watch_event event,
                            const struct nc_value *object);
typedef void (*nc_watch_failed_fn)(void *userdata, const struct nc_kube_status *status,
                                   const struct nc_err *err);
struct nc_watch_options {
    const char *path;           /* "/api/v1/nodes" */
    const char *selector;       /* "fieldSelector=metadata.name%3Dx", already encoded */
    bool metadata_only;         /* PartialObjectMetadata */
    const char *keep;           /* dotted paths (nc/json-filter.h): of each object only these are
                                   read, while it streams in, and what the watch itself needs
                                   (metadata.{namespace, name, uid, resourceVersion}), which need
                                   not be named; copied. NULL = everything */
    size_t max_object_bytes;    /* 0 = 4 MiB; with `keep`, of what is kept of one. Without it a list
                                   is at most 32 MiB, with it of any size */
    size_t max_value_bytes;     /* with `keep`: null stands for what is larger of one path
                                   (nc/json-filter.h), so that no object is too large; 0 = none */
    bool reports_once;          /* an object that was told with the same resourceVersion before is
                                 not told again by a later list, or by one that started over */
    bool is_urgent;             /* somebody waits for it under a deadline: no pause is longer than
                                   5 s, where the stream keeps failing it is listed again, and a
                                   first list (with `keep`) that is silent for 5 s is given up */
    uint64_t idle_timeout_usec; /* a stream that is silent for so long is opened again; 0 = 75 s
                                   (bookmarks come about every 60 s) */
    nc_watch_fn event;
    nc_watch_failed_fn failed;    /* may be NULL */
    void (*well)(void *userdata); /* may be NULL; after `failed`: a stream has stood for 5 s, though
                                     there may be nothing to tell for minutes */
    void *userdata;
};
struct nc_watch;
int nc_watch_new(struct nc_kube *k, sd_event *event, const struct nc_watch_options *o,
                 struct nc_watch **ret, struct nc_err *err);
/* What should have come did not: a stream that has been silent for a second may hang, and is opened
 * again from where it was. May be called from `event`. */
void nc_watch_renew(struct nc_watch *w);
struct nc_watch *nc_watch_free(struct nc_watch *w);

/* Paths and bodies of what a node does. Owned results; names are URL-encoded where they go into a
 * path. */
char *nc_kube_node_path(const char *name,
                        const char *subresource); /* subresource NULL or "status" */
char *nc_kube_node_selector(const char *name);

/* Who does the API server say we are: SelfSubjectReview (authentication.k8s.io/v1, then v1beta1).
 * Owned. */
struct nc_identity {
    char *username;
};
void nc_identity_done(struct nc_identity *i);
int nc_kube_whoami(struct nc_kube *k, uint64_t timeout_usec, struct nc_identity *ret,
                   struct nc_kube_status *ret_status, struct nc_err *err);
/* The same, asynchronous: `done` is called once, from the loop, unless this fails or it is
 * cancelled; `who` is then the caller's. The struct is the caller's, and stays where it is. */
struct nc_identity_call {
    struct nc_kube *kube;
    uint64_t timeout_usec;
    void (*done)(void *userdata, struct nc_identity *who, const struct nc_err *err);
    void *userdata;
    struct nc_kube_req *req; /* in flight; NULL = none */
    bool is_beta;
};
int nc_kube_whoami_start(struct nc_identity_call *c, struct nc_err *err);
void nc_kube_whoami_cancel(struct nc_identity_call *c);

/* Our NodeClaim before registration: a Table list by labels, matched on the ID column, then GET by
 * name. Returns 1 with *ret filled, 0 where none matches (yet), negative on failure; 403 and 404
 * are NC_ERR_AUTH / NC_ERR_PROTOCOL and mean: go on without. Falls back to a plain list where the
 * Table has no ID column. `ret_status` may be NULL. */
struct nc_claim_search {
    const char *provider_id;
    const struct nc_label *labels; /* may be empty */
    size_t n_labels;
    uint64_t timeout_usec;
};
int nc_claim_find(struct nc_kube *k, const struct nc_claim_search *search, struct nc_claim *ret,
                  struct nc_kube_status *ret_status, struct nc_err *err);
/* After registration: the Node's ownerReference -> GET by name, uid checked. Same returns. */
int nc_claim_of_node(struct nc_kube *k, const struct nc_value *node, uint64_t timeout_usec,
                     struct nc_claim *ret, struct nc_err *err);

/* A core/v1 Event, in namespace default where nothing else is said. involved: kind "NodeClaim"
 * (needs uid, or describe does not show it) or "Node" (uid = name, as kubelet does). */
struct nc_event {
    const char *kind, *api_version, *name, *uid;
    const char *namespace; /* of the object, and of the Event; NULL = none, and default */
    bool is_once;          /* one of this reason for this uid: its name follows from no time */
    bool is_there;         /* with an earlier count: nc_event_start changes that one */
    bool warning;
    const char *reason;    /* CamelCase, a small fixed set */
    const char *message;   /* cut at 1024 bytes */
    const char *host;      /* source.host: node name */
    const char *instance;  /* reportingInstance: providerID of the node; NULL = none */
    const char *component; /* source.component; NULL = nodeclaimd */
    uint64_t first_usec, last_usec;
    unsigned count;
};
/* Creates it; *ret_name (owned) names it for nc_event_update, which patches count, message and
 * lastTimestamp. */
int nc_event_create(struct nc_kube *k, const struct nc_event *e, uint64_t timeout_usec,
                    char **ret_name, struct nc_err *err);
int nc_event_update(struct nc_kube *k, const char *event_name, const struct nc_event *e,
                    uint64_t timeout_usec, struct nc_err *err);

/* Pure readers of a Node object (nc/value.h tree). */
bool nc_node_is_ready(const struct nc_value *node, const char **ret_reason,
                      const char **ret_message); /* borrowed */
const struct nc_value *nc_node_condition(const struct nc_value *node, const char *type);
/* Has the kubelet that was started at since_usec reported the Node's status? Its Ready condition
 * reports it by lastHeartbeatTime, which kubelet writes by the same clock that since_usec is of, in
 * whole seconds: within the second of the start it may still be the last one's word. 0: whoever
 * reported.
 *
 * It rests on what kubelet does (as of 1.34, kubelet_node_status.go): of a Node that is there
 * already a starting kubelet reconciles labels, one annotation, extended resources and huge pages,
 * but no condition. Its first status comes right after and is always sent, changed or not, as the
 * time of the last report is zero; every condition in it has a new heartbeat. Only later ones are
 * held back until something changes or nodeStatusReportFrequency (5 min) is over. So the first is
 * not missed, and nothing ever waits for the second. kube-controller-manager, which sets Ready to
 * Unknown, leaves the heartbeat as it was. */
bool nc_node_is_reported_since(const struct nc_value *node, uint64_t since_usec);
bool nc_node_has_taint(const struct nc_value *node, const char *key,
                       const char *effect); /* effect NULL: any */
bool nc_node_is_being_deleted(const struct nc_value *node);
const char *nc_node_label(const struct nc_value *node, const char *key);

/* Why is a Karpenter node not initialized yet, in Karpenter's own words? *ret_reason is one of
 * NodeNotReady, Rebooting, StartupTaintsExist, KnownEphemeralTaintsExist, ResourceNotRegistered, or
 * "" where nothing is left to wait for; the sentence names the taint or resource, and states where
 * kube-controller-manager is what is waited for. NC_TAINT_BOOTSTRAP is never waited for. claim may
 * be NULL. */
void nc_node_waiting_for(const struct nc_value *node, const struct nc_claim *claim,
                         const char **ret_reason, char **ret_sentence);

/* A condition as it is now. */
struct nc_node_condition {
    const char *type;
    bool is_true;
    const char *reason, *message; /* message NULL = "", cut at 1024 bytes */
    uint64_t now_usec;
    uint64_t since_usec; /* of its last transition; 0 = now */
    bool is_unchanged;   /* its status: the time of its last transition stays what it is */
};
/* Patch bodies; owned trees. */
struct nc_value *nc_node_condition_patch(const struct nc_node_condition *c);
struct nc_value *nc_node_annotation_patch(const char *key,
                                          const char *value); /* value NULL removes */
/* Makes the patch one of this Node alone: the API server refuses it where another one has its name.
 * uid NULL or "" (not known) leaves it as it is. */
void nc_node_patch_only(struct nc_value *patch, const char *uid);

#endif
