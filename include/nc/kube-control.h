/*
 * What the central controller asks of the API: its writes, leadership, who else is there, and how a
 * pod reaches the API server. All asynchronous; callbacks come from the loop, never from the call
 * that began it. The handle they are given is one of nc_kube_as_controller (nc/kube.h).
 */
#ifndef NC_KUBE_CONTROL_H
#define NC_KUBE_CONTROL_H

#include <systemd/sd-event.h>

#include "nc/control.h"
#include "nc/kube.h"
#include "nc/kubeconfig.h"
#include "nc/lease.h"

/* ---- writes */

/* How an action ended; `userdata` is the caller's. */
struct nc_control_sent {
    uint64_t id; /* the action's */
    enum nc_control_verb verb;
    enum nc_control_answer answer;
    uint64_t retry_after_usec;
    uint64_t duration_usec;
    /* What it left, its metadata only (borrowed; NULL where there is none, or it cannot be read):
     * the watch may have shown this version already. */
    const struct nc_value *object;
    struct nc_kube_status status;
    struct nc_err err; /* class NC_ERR_NONE where it is DONE */
};
/* "/apis/karpenter.sh/v1/nodeclaims" -> "karpenter.sh/v1", which it is for NULL too. Owned. */
char *nc_control_claims_version(const char *claims_path);
/* Sends one action: every verb but END_INSTANCE (NC_ERR_BUG). What is pointed to is only read
 * during the call. `done` (may be NULL) is called once unless this fails or the request is
 * cancelled or its handle freed; `ret` may be NULL. EMIT_EVENT becomes an Event with the time
 * now_usec. */
struct nc_control_call {
    const char *claims_path; /* "/apis/karpenter.sh/v1/nodeclaims" */
    const struct nc_control_action *action;
    uint64_t now_usec, timeout_usec;
    void (*done)(void *userdata, const struct nc_control_sent *s);
    void *userdata;
};
int nc_control_send(struct nc_kube *k, const struct nc_control_call *c, struct nc_kube_req **ret,
                    struct nc_err *err);

/* ---- replacement first (nc/replacement.h) */

/* A controller that may also read pods and restart Deployments. */
extern const struct nc_kube_role nc_kube_as_replacing_controller;

enum nc_replacement_verb {
    NC_REPLACEMENT_GET_SET = 1, /* `name`: the ReplicaSet; its metadata */
    NC_REPLACEMENT_GET_DEPLOYMENT,
    NC_REPLACEMENT_PATCH, /* `body` is what nc_replacement_judge gave */
    NC_REPLACEMENT_EVENT, /* `event`, about a pod of the namespace */
};
struct nc_replacement_call {
    enum nc_replacement_verb verb;
    const char *namespace, *name;
    const struct nc_value *body;
    const struct nc_event *event;
    uint64_t timeout_usec;
    nc_kube_done_fn done; /* once, unless this fails or the request is cancelled */
    void *userdata;
};
int nc_replacement_send(struct nc_kube *k, const struct nc_replacement_call *c,
                        struct nc_kube_req **ret, struct nc_err *err);

/* The pods of a node in a namespace, their metadata, of each what `keep` names, streamed and in
 * pages, until SYNCED or a failure: then the caller frees it. */
struct nc_replacement_list {
    const char *namespace, *node;
    const char *keep;
    nc_watch_fn event;
    nc_watch_failed_fn failed;
    void *userdata;
};
int nc_replacement_list(struct nc_kube *k, sd_event *event, const struct nc_replacement_list *l,
                        struct nc_watch **ret, struct nc_err *err);

/* ---- leadership: nc/lease.h on the loop */

struct nc_leader_options {
    const char *namespace, *name; /* of the Lease; copied */
    struct nc_lease_rules rules;  /* identity is copied; zero times: client-go's */
    /* Leadership began or ended. When it ended, nothing that is written from then on is covered by
     * it. Must not free the handle. */
    void (*changed)(void *userdata, bool leads);
    /* May be NULL: a request of the Lease failed, or (class NONE) did not. Neither where somebody
     * else has written it meanwhile. */
    void (*answered)(void *userdata, bool is_write, const struct nc_err *err);
    void *userdata;
};
struct nc_leader;
/* Begins to ask with the next turn of the loop. */
int nc_leader_new(struct nc_kube *k, sd_event *event, const struct nc_leader_options *o,
                  struct nc_leader **ret, struct nc_err *err);
/* By the clock, at this moment; also between two turns of the loop. */
bool nc_leader_leads(const struct nc_leader *l);
const char *nc_leader_holder(const struct nc_leader *l); /* as last read; "" = nobody */
/* A clean stop: leadership ends now (`changed` is called before this returns, where it was ours),
 * the Lease is given up so that the standby need not wait, and `done` is called once, at the latest
 * after timeout_usec. The handle asks nothing more. Must not be called twice. */
void nc_leader_release(struct nc_leader *l, uint64_t timeout_usec, void (*done)(void *userdata),
                       void *userdata);
struct nc_leader *nc_leader_free(struct nc_leader *l); /* without release; NULL in, NULL out */

/* ---- who else is there */

#define NC_KARPENTER_SCAN_USEC (30ull * 1000000)
#define NC_KARPENTER_NAMESPACES "kube-system", "karpenter" /* where it is usually installed */
#define NC_KARPENTER_NAMESPACES_MAX 8

struct nc_karpenter_found {
    /* KARPENTER where the Lease karpenter-leader-election of one of the namespaces is held and
     * alive; STANDALONE where there is none, or where it has not moved for so long that nobody can
     * hold it; UNKNOWN until one of both is sure. */
    enum nc_control_mode mode;
    const char *holder; /* of that Lease; "" = none */
    /* Where the kinds are served, "/apis/karpenter.sh/v1/nodeclaims"; NULL = they are not
     * installed. v1 before v1beta1. */
    const char *claims_path, *pools_path, *classes_path;
};
struct nc_karpenter_options {
    /* Where its Lease may be, NULL at the end; NULL = NC_KARPENTER_NAMESPACES. Copied, the first
     * NC_KARPENTER_NAMESPACES_MAX. */
    const char *const *namespaces;
    uint64_t scan_usec; /* between two scans; 0 = NC_KARPENTER_SCAN_USEC */
    /* After the first scan that states whether there are claims, and whenever something is
     * different from then on. Must not free the handle; the strings are valid until the next call.
     */
    void (*changed)(void *userdata, const struct nc_karpenter_found *f);
    void (*failed)(void *userdata, const struct nc_err *err); /* may be NULL */
    void (*well)(void *userdata); /* may be NULL: a scan ended, and nothing of it has failed */
    void *userdata;
};
struct nc_karpenter;
int nc_karpenter_scan(struct nc_kube *k, sd_event *event, const struct nc_karpenter_options *o,
                      struct nc_karpenter **ret, struct nc_err *err);
struct nc_karpenter *nc_karpenter_free(struct nc_karpenter *p);

/* ---- from inside a pod */

#define NC_INCLUSTER_FOLDER "/var/run/secrets/kubernetes.io/serviceaccount"

/* What a ServiceAccount's pod is given, as a kubeconfig: server from `host` and `port`
 * (KUBERNETES_SERVICE_HOST and _PORT; NULL or "" is NC_ERR_CONFIG), roots from FOLDER/ca.crt (read
 * here), token_file FOLDER/token. folder NULL: NC_INCLUSTER_FOLDER. */
int nc_incluster_config(const char *host, const char *port, const char *folder,
                        struct nc_kubeconfig *ret, struct nc_err *err);

/* A token in a file that somebody else replaces: read anew for each request (a kilobyte of memory,
 * some microseconds), so that it is never older than the file. Where the file cannot be read just
 * now the last token is given again, unless it was refused. nc_token_file_give is an
 * nc_kube_token_fn whose userdata is the handle. */
struct nc_token_file;
struct nc_token_file *nc_token_file_new(const char *path);
struct nc_token_file *nc_token_file_free(struct nc_token_file *t); /* wipes */
int nc_token_file_give(void *token_file, bool refuse, char **ret_token, struct nc_err *err);

#endif
