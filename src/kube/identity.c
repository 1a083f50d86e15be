/*
 * Who the API server says we are: SelfSubjectReview.
 *
 * The answer, not the credential, is what decides whether a node may write its Node: it is compared
 * with the node's name elsewhere.
 */
#include <errno.h>
#include <string.h>

#include "nc/kube.h"
#include "nc/str.h"

#include "wire.h"

#define MAX_GROUPS 256

void nc_identity_done(struct nc_identity *i) {
    free(i->username);
    nc_strv_done(&i->groups);
    memset(i, 0, sizeof(*i));
}

static int read_review(const struct nc_value *object, struct nc_identity *ret, struct nc_err *err) {
    const char *username = nc_value_string(nc_value_path(object, "status.userInfo.username"));
    const struct nc_value *groups = nc_value_path(object, "status.userInfo.groups");

    if (!username || !*username)
        return nc_err_set(err, NC_ERR_PROTOCOL, EBADMSG,
                          "who am I: the API server's answer has no status.userInfo.username");
    ret->username = nc_strdup(username);
    for (size_t i = 0; groups && groups->type == NC_VALUE_LIST && i < groups->n && i < MAX_GROUPS;
         i++)
        if (nc_value_string(groups->items[i]))
            nc_strv_add(&ret->groups, nc_value_string(groups->items[i]));
    return 0;
}

static int review(struct nc_kube *k, const char *version, uint64_t timeout_usec,
                  struct nc_identity *ret, struct nc_kube_status *ret_status, struct nc_err *err) {
    nc_auto_value struct nc_value *body = nc_value_new(NC_VALUE_MAP);
    nc_auto_value struct nc_value *object = NULL;
    nc_auto_free char *path =
        nc_asprintf("/apis/authentication.k8s.io/%s/selfsubjectreviews", version);
    nc_auto_free char *api_version = nc_asprintf("authentication.k8s.io/%s", version);
    const struct nc_kube_call call = {.what = "who am I",
                                      .method = "POST",
                                      .path = path,
                                      .body = body,
                                      .timeout_usec = timeout_usec,
                                      .max_bytes = (size_t)256 << 10};
    int r;

    nc_value_set_string(body, "apiVersion", api_version);
    nc_value_set_string(body, "kind", "SelfSubjectReview");
    r = nc_kube_perform(k, &call, &object, ret_status, err);
    return r < 0 ? r : read_review(object, ret, err);
}

int nc_kube_whoami(struct nc_kube *k, uint64_t timeout_usec, struct nc_identity *ret,
                   struct nc_kube_status *ret_status, struct nc_err *err) {
    struct nc_kube_status status = {0};
    struct nc_err first = NC_ERR_INIT;
    int r = review(k, "v1", timeout_usec, ret, &status, &first);

    if (r < 0 && status.http == 404) /* before 1.28 */
        r = review(k, "v1beta1", timeout_usec, ret, &status, &first);
    if (r < 0 && err)
        *err = first;
    if (ret_status)
        *ret_status = status;
    return r;
}
