/*
 * The bearer token of EKS: a presigned question to STS who we are, which the API server's
 * authenticator requests us.
 *
 * The rules are the verifier's (aws-iam-authenticator, pkg/token): https, path "/", a known STS
 * host, only these query parameters, x-k8s-aws-id signed with the cluster's name, X-Amz-Expires at
 * most 900, at most 4096 bytes in all.
 */
#include <errno.h>

#include "nc/encode.h"
#include "nc/sigv4.h"
#include "nc/str.h"

#define PREFIX "k8s-aws-v1."
#define MAX_TOKEN_BYTES 4096
/* Has no effect: STS accepts the URL for 15 minutes after its date. Old verifiers refuse more
 * than 60. */
#define EXPIRES_SEC 60
#define HOST_MAX 255

static int check(const struct nc_credentials *c, const struct nc_eks_token_request *q,
                 struct nc_err *err) {
    /* The name becomes a header of the verifier's request. */
    if (!q->cluster || !*q->cluster || strlen(q->cluster) > 256
        || !nc_is_visible(q->cluster, strlen(q->cluster)))
        return nc_err_config(err,
                             "token: the cluster's name is empty or cannot be part of a header");
    if (!q->region || !*q->region)
        return nc_err_config(err, "token: no region");
    if (!nc_is_made_of(q->sts_host, NC_LOWER NC_DIGITS ".-:", HOST_MAX))
        return nc_err_config(err, "token: no usable STS host for the region");
    if (!c || !c->access_key_id || !c->secret_access_key)
        return nc_err_set(err, NC_ERR_AUTH, EACCES, "token: no credentials");
    return 0;
}

int nc_eks_token(const struct nc_credentials *c, const struct nc_eks_token_request *q,
                 struct nc_buf *ret, struct nc_err *err) {
    static const char *const query[] = {"Action", "GetCallerIdentity", "Version", "2011-06-15",
                                        NULL};
    const char *const headers[] = {"x-k8s-aws-id", q->cluster, NULL};
    const struct nc_sigv4_request request = {
        .method = "GET",
        .host = q->sts_host,
        .path = "/",
        .query = query,
        .headers = headers,
        .region = q->region,
        .service = "sts",
        .time_usec = q->time_usec,
        .expires_sec = EXPIRES_SEC,
    };
    nc_cleanup(nc_buf_done_secret) struct nc_buf url = NC_BUF_INIT;
    nc_cleanup(nc_buf_done_secret) struct nc_buf token = NC_BUF_INIT;
    int r = check(c, q, err);

    if (r == 0)
        r = nc_sigv4_presign(&request, c, &url, err);
    if (r < 0)
        return r;
    (void)nc_buf_puts(&token, PREFIX);
    nc_base64url_encode(url.data, url.len, &token);
    if (token.len > MAX_TOKEN_BYTES)
        return nc_err_set(err, NC_ERR_PROTOCOL, EFBIG,
                          "token: %zu bytes, and verifiers take %d: the session token of the "
                          "credentials is too long",
                          token.len, MAX_TOKEN_BYTES);
    r = nc_buf_add(ret, token.data, token.len);
    return r < 0 ? nc_err_set(err, NC_ERR_BUG, r, "token: no room for %zu bytes", token.len) : 0;
}
