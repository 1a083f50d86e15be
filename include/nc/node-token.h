/*
 * The node's own EKS token: the role's credentials from IMDS, the region where nobody said it, and
 * a signature. Asynchronous; what must be requested is requested only where it is not there.
 */
#ifndef NC_NODE_TOKEN_H
#define NC_NODE_TOKEN_H

#include "nc/imds.h"

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
