/*
 * What the files of this layer share: names in URLs, the rules of what may be sent, the reading of
 * answers, and one request as bytes.
 */
#ifndef NC_KUBE_WIRE_H
#define NC_KUBE_WIRE_H

#include "nc/kube.h"
#include "nc/mem.h"

struct nc_kube {
    struct nc_http *http;
    char *server;
    const struct nc_kube_role *role;
    struct nc_http_tls tls;
    nc_kube_token_fn token;
    void *userdata;
    char *user_agent;
    struct nc_kube_req *reqs; /* in flight, newest first */
    uint64_t boot_usec;       /* its time when CLOCK_BOOTTIME was 0; 0 = not known */
    uint64_t dated_usec;      /* CLOCK_BOOTTIME: when that was learned */
};

/* Percent-encodes everything but RFC 3986's unreserved characters: safe as a path segment and as a
 * query value. Owned. */
char *nc_kube_escape(const char *s);

/* Copies hostile text for a person: printable ASCII stays, white space becomes a space, the rest
 * '?'; cut with "..." */
void nc_kube_printable(char *to, size_t size, const char *from, size_t n);

/* 64-bit FNV-1a, seeded by an earlier sum or by NC_KUBE_HASH_SEED. Not for secrets. */
#define NC_KUBE_HASH_SEED 0xcbf29ce484222325u
uint64_t nc_kube_hash(uint64_t sum, const char *s);

/* What is left of a time limit that began at `started_usec` on CLOCK_MONOTONIC; never 0, so that a
 * late request fails as a timeout. */
uint64_t nc_kube_time_left(uint64_t started_usec, uint64_t timeout_usec);

struct nc_kube_role {
    int (*guard)(const struct nc_kube_call *c, struct nc_err *err);
    /* Of 401, of 403, and of a certificate that is refused, where a node's would be given; or NULL
     */
    const char *remedies[3];
};
#define NC_CONTROLLER_REMEDY_401                                                                   \
    "the API server does not accept this credential: check the pod's ServiceAccount and its "      \
    "token, or the user of the kubeconfig"
#define NC_CONTROLLER_REMEDY_TLS                                                                   \
    "check that the certificate authority is this cluster's: that of the pod's ServiceAccount, "   \
    "or certificate-authority of the kubeconfig"

/* The rules on the wire. Refuses (NC_ERR_BUG) what this program must never send. What writes is
 * allowed by name: patches of a Node that hold only our own keys, of Events and of a pod's
 * condition DisruptionTarget, evictions and deletions of a pod by uid with a grace from 1, Events,
 * and the question who we are. A list or watch of Nodes or pods needs a field selector. */
int nc_kube_guard(const struct nc_kube_call *c, struct nc_err *err);
/* The same for the controller. Read are Nodes, NodeClaims, NodePools, node classes, Leases and what
 * is served; written are the marks and conditions of Nodes and claims, never what was requested,
 * their deletion by uid, Leases of ours, Events, and the question who we are. A list that is
 * replaced as a whole needs the resourceVersion it was read at. */
int nc_kube_guard_control(const struct nc_kube_call *c, struct nc_err *err);

/* Reads a metav1.Status; false where the object is none, *ret is then untouched. Fields of a wrong
 * type are left empty. */
bool nc_kube_status_read(const struct nc_value *object, struct nc_kube_status *ret);

/* What an answer means. 0 with *ret_object (owned, NULL where there is no body; ret_object itself
 * may be NULL) on 2xx; else negative with err filled as nc_kube_perform promises. *ret_status is
 * filled in every case. */
int nc_kube_judge(const struct nc_http_result *r, const char *what, struct nc_value **ret_object,
                  struct nc_kube_status *ret_status, struct nc_err *err);
/* The same where of a success only the first bytes were kept (text). */
int nc_kube_judge_head(const struct nc_http_result *r, const char *what, const char *head,
                       struct nc_kube_status *ret_status, struct nc_err *err);
/* The error of a success without an object, where one was requested. Always negative. */
int nc_kube_bare(const char *what, const struct nc_kube_status *s, struct nc_err *err);
/* What the server's clock shows (nc_kube_boot_usec). */
void nc_kube_note_clock(struct nc_kube *k, const struct nc_http_result *r);
/* Puts the controller's remedies in the place of a node's, where the handle is one's. */
void nc_kube_advise(const struct nc_kube *k, const struct nc_kube_status *s, struct nc_err *err);
/* The error of a refusal that `s` describes, in the same words. Always negative. */
int nc_kube_refused(const struct nc_kube_status *s, const char *what, struct nc_err *err);

/* One request as bytes, so that it can be sent a second time with a fresh token. */
struct nc_kube_message {
    struct nc_kube *kube;
    char *what, *name, *method, *url;
    struct nc_strv headers; /* without the credential */
    struct nc_buf body;
    const char *keep;
    bool has_body, drops_answer;
    uint64_t timeout_usec;
    size_t max_bytes;
};
int nc_kube_message_init(struct nc_kube *k, const struct nc_kube_call *c,
                         struct nc_kube_message *ret, struct nc_err *err);
void nc_kube_message_done(struct nc_kube_message *m);

/* Options for one sending of it; *ret_headers is owned by the caller, wiped with
 * nc_kube_headers_done(), and borrowed by *ret. `refuse` requests another token than the last one.
 */
int nc_kube_message_options(const struct nc_kube_message *m, bool refuse,
                            struct nc_strv *ret_headers, struct nc_http_options *ret,
                            struct nc_err *err);
void nc_kube_headers_done(struct nc_strv *headers);

/* An Event's name and body; owned. A create that found it there already went well. */
#define NC_KUBE_EVENTS "/api/v1/namespaces/default/events"
char *nc_event_name(const struct nc_event *e);
struct nc_value *nc_event_body(const struct nc_event *e, const char *name);

/* --- The parts of the rules on the wire: guard-form.c has what holds for all, guard.c Nodes,
 * guard-pods.c pods and Events, guard-control.c what the controller may do. */

/* Always negative: NC_ERR_BUG with "WHAT: not sent: what detail". detail may be NULL. */
int nc_guard_refuse(const struct nc_kube_call *c, struct nc_err *err, const char *what,
                    const char *detail);

/* Method, patch and path of any request; `methods` is a list of names. */
int nc_guard_form(const struct nc_kube_call *c, const char *methods, struct nc_err *err);
/* Does the path match? A '*' stands for one name: what a Kubernetes object may be called needs no
 * escapes, and an escaped slash would be another path. */
bool nc_guard_matches(const char *pattern, const char *path, size_t n);
bool nc_guard_is_text(const struct nc_value *map, const char *key, const char *text);
bool nc_guard_has_only(const struct nc_value *map, const char *keys);
/* Does a piece of a path name the same as the body does? */
bool nc_guard_is_same(const char *path, size_t n, const char *name);
int nc_guard_review(const struct nc_kube_call *c, struct nc_err *err);

/* Whose namespace a path names; not terminated, as it is in the path. */
struct nc_guard_target {
    const char *namespace;
    size_t namespace_n;
};
/* `rest` is what follows "pods/" of a request that writes. */
int nc_guard_pod(const struct nc_kube_call *c, const struct nc_guard_target *t, const char *rest,
                 struct nc_err *err);
/* `rest` is what follows "events". */
int nc_guard_event(const struct nc_kube_call *c, const struct nc_guard_target *t, const char *rest,
                   struct nc_err *err);

/* node-view.c. By enum nc_known_condition: a list of names. */
extern const char nc_known_condition_names[];

#endif
