/*
 * Credentials for AWS, from where AWS' own programs search for them, in their order: the
 * environment, a web identity token (IRSA), the container's endpoint (EKS Pod Identity), the
 * instance's role.
 *
 * Asynchronous; kept until five minutes before they end. Secrets: wiped.
 */
#ifndef NC_ROLE_H
#define NC_ROLE_H

#include "nc/imds.h"

/* As the environment has it; NULL or "" where it has not. Copied. */
struct nc_role_options {
    const char *access_key_id, *secret_access_key, *session_token;
    const char *web_identity_token_file, *role_arn, *session_name;
    const char *container_uri, *container_token_file;
    const char *sts_endpoint; /* NULL: the region's */
    const char *imds;         /* NULL: the standard one */
};

struct nc_role;
int nc_role_new(sd_event *event, struct nc_http *http, const struct nc_role_options *o,
                struct nc_role **ret, struct nc_err *err);
struct nc_role *nc_role_free(struct nc_role *r);

/* Those that are good for five more minutes, or were fetched within the last minute; NULL where
 * they must be fetched. Borrowed. */
const struct nc_credentials *nc_role_current(const struct nc_role *r, uint64_t now_usec);

/* Fetches them; `done` is called once, from the loop (err->class is NC_ERR_NONE where
 * nc_role_current has them now), unless this fails or the handle is freed. One at a time. */
typedef void (*nc_role_fn)(void *userdata, const struct nc_err *err);
int nc_role_fetch(struct nc_role *r, const char *region, nc_role_fn done, void *userdata,
                  struct nc_err *err);

/* Pure: the answers of STS (AssumeRoleWithWebIdentity) and of a container's endpoint. */
int nc_role_read_sts(const struct nc_http_result *result, struct nc_credentials *ret,
                     struct nc_err *err);
/* May the container's endpoint be asked? https, or http to this machine or to the addresses that
 * AWS uses for it. */
bool nc_role_is_container_uri(const char *uri);

/* --- node-token.c: the node's own EKS token, of the role's credentials from IMDS, the region where
 * nobody said it, and a signature. Asynchronous; what must be requested is requested only where it
 * is not there. */

/* Whom a token of this node is for. */
struct nc_token_audience {
    char *cluster;
    char *region;       /* NULL: IMDS is asked */
    char *sts_endpoint; /* NULL: the region's own */
};

struct nc_node_token_call {
    /* Of the role; the caller's, fetched where there are none or they end within five minutes. */
    struct nc_credentials *credentials;
    /* NULL, or without a cluster: the credentials are all that is wanted. Copied. */
    const struct nc_token_audience *audience;
    /* Once, from the loop; token is taken over (nc_secret_free), NULL where err gives the reason,
     * or where only the credentials were wanted. */
    void (*done)(void *userdata, char *token, uint64_t until_usec, const struct nc_err *err);
    void *userdata;
};
struct nc_node_token;
/* Negative, and `done` is not called, where it cannot begin. 0 with *ret NULL: `done` was called
 * already, for nothing had to be asked. Cancel it before the handle of IMDS is freed.
 * NC_ERR_TRANSIENT while IMDS has no credentials yet (404: up to some seconds after boot). */
int nc_node_token_start(struct nc_imds *imds, const struct nc_node_token_call *call,
                        struct nc_node_token **ret, struct nc_err *err);
struct nc_node_token *nc_node_token_cancel(struct nc_node_token *t); /* NULL in, NULL out */

/* One-shot programs: the same, waited for in the loop. ret_token NULL: the credentials alone. */
int nc_node_token_make(struct nc_imds *imds, const struct nc_node_token_call *call,
                       char **ret_token, uint64_t *ret_until_usec, struct nc_err *err);

#endif
