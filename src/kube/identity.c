/*
 * Who the API server says we are: SelfSubjectReview.
 *
 * The answer, not the credential, is what decides whether a node may write its Node: it is compared
 * with the node's name elsewhere.
 */
#include <errno.h>
#include <string.h>

#include "nc/kube.h"
#include "nc/mem.h"

#include "wire.h"

#define WHAT "get own identity"

void nc_identity_done(struct nc_identity *i) {
    free(i->username);
    memset(i, 0, sizeof(*i));
}

static int read_review(const struct nc_value *object, struct nc_identity *ret, struct nc_err *err) {
    const char *username = nc_value_path_string(object, "status.userInfo.username");

    if (!username || !*username)
        return nc_err_protocol(err,
                               WHAT ": the API server's answer has no status.userInfo.username");
    ret->username = nc_strdup(username);
    return 0;
}

#define BETA "v1beta1" /* before 1.28 */

/* One request of it; what it points at is freed by the caller. */
struct review {
    struct nc_value *body;
    char *path;
    struct nc_kube_call call;
    struct nc_kube_status status;
};

static void review_done(struct review *q) {
    nc_value_free(q->body);
    free(q->path);
}

static void make_review(struct review *q, const char *version, uint64_t timeout_usec) {
    nc_auto_free char *api_version = nc_asprintf("authentication.k8s.io/%s", version);

    review_done(q);
    q->body = nc_value_new_map();
    nc_value_set_string(q->body, "apiVersion", api_version);
    nc_value_set_string(q->body, "kind", "SelfSubjectReview");
    q->path = nc_asprintf("/apis/%s/selfsubjectreviews", api_version);
    q->call = (struct nc_kube_call){.what = WHAT,
                                    .method = "POST",
                                    .path = q->path,
                                    .body = q->body,
                                    .timeout_usec = timeout_usec,
                                    .max_bytes = (size_t)256 << 10};
}

static int perform_review(struct nc_kube *k, struct review *q, struct nc_identity *ret,
                          struct nc_err *err) {
    nc_auto_value struct nc_value *object = NULL;
    const int r = nc_kube_perform(k, &q->call, &object, &q->status, err);

    return r < 0 ? r : read_review(object, ret, err);
}

int nc_kube_whoami(struct nc_kube *k, uint64_t timeout_usec, struct nc_identity *ret,
                   struct nc_kube_status *ret_status, struct nc_err *err) {
    nc_cleanup(review_done) struct review q = {0};
    struct nc_err first = NC_ERR_INIT;
    int r;

    make_review(&q, "v1", timeout_usec);
    r = perform_review(k, &q, ret, &first);
    if (r < 0 && q.status.http == 404) {
        make_review(&q, BETA, timeout_usec);
        r = perform_review(k, &q, ret, &first);
    }
    if (r < 0 && err)
        *err = first;
    if (ret_status)
        *ret_status = q.status;
    return r;
}

/* --- asynchronous */

static int send_review(struct nc_identity_call *c, struct nc_err *err);

static void on_reviewed(void *userdata, const struct nc_value *object,
                        const struct nc_kube_status *status, const struct nc_err *err) {
    struct nc_identity_call *c = userdata;
    nc_cleanup(nc_identity_done) struct nc_identity who = {0};
    struct nc_err own = *err;

    c->req = NULL;
    if (status->http == 404 && !c->is_beta) {
        c->is_beta = true;
        own = (struct nc_err)NC_ERR_INIT;
        if (send_review(c, &own) >= 0)
            return;
    } else if (own.class == NC_ERR_NONE) {
        (void)read_review(object, &who, &own);
    }
    c->done(c->userdata, &who, &own);
}

static int send_review(struct nc_identity_call *c, struct nc_err *err) {
    nc_cleanup(review_done) struct review q = {0};

    make_review(&q, c->is_beta ? BETA : "v1", c->timeout_usec);
    q.call.done = on_reviewed;
    q.call.userdata = c;
    return nc_kube_start(c->kube, &q.call, &c->req, err);
}

int nc_kube_whoami_start(struct nc_identity_call *c, struct nc_err *err) {
    c->is_beta = false;
    return send_review(c, err);
}

void nc_kube_whoami_cancel(struct nc_identity_call *c) {
    c->req = nc_kube_cancel(c->req);
}
