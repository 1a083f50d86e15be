/*
 * The agent's own way to the API server: whatever the node's kubeconfig says, without starting
 * another program where it is ours.
 */
#ifndef NC_BOOTSTRAP_CONNECT_H
#define NC_BOOTSTRAP_CONNECT_H

#include "app.h"
#include "nc/imds.h"
#include "nc/kube.h"
#include "nc/kubeconfig.h"
#include "nc/role.h"

struct nc_gather;

struct nc_connection {
    struct nc_app *app;
    struct nc_kubeconfig kubeconfig;
    char *ca_pem;
    char *cert_file, *key_file; /* below the root */
    struct nc_http *http;
    struct nc_kube *kube;
    struct nc_token_audience audience; /* cluster NULL: tokens are not made in this process */
    struct nc_imds *imds;              /* borrowed, or own_imds */
    struct nc_imds *own_imds;
    struct nc_credentials credentials;
    char *token;
    uint64_t token_until_usec, token_renew_usec; /* it ends; the next one is made */
    uint64_t token_made_usec, refused_usec;      /* it, and the last one that a 401 refused */
    bool is_refused_again;                       /* as was the one before it, shortly before */
    bool wants_token; /* somebody needed a new one inside of the loop, where it is not waited for */
    void (*token_wanted)(void *userdata); /* is told of that; may be NULL */
    /* A new one is being made: */
    struct nc_node_token *own_token;
    struct nc_capture *plugin;
    void (*renewed)(void *userdata, const struct nc_err *err); /* NULL: none is */
    void *userdata;
    bool is_bootstrap; /* the bootstrap token's identity, not the node's */
};

/* Where the kubeconfig of that path is: what --kubeconfig names is that path, others are below the
 * root. Owned. */
char *nc_connect_path(const struct nc_app *app, const char *path);
/* Reads the kubeconfig (nc_connect_path) and opens a handle; no request is made yet. imds may be
 * NULL. NC_ERR_CONFIG, NC_ERR_HOST. */
int nc_connect(struct nc_app *app, const char *path, struct nc_imds *imds,
               struct nc_connection *ret, struct nc_err *err);
/* The same as the configuration says, from memory: no file has to be there, but those of a client
 * certificate. Not for NC_AUTH_KUBECONFIG. */
int nc_connect_configured(const struct nc_gather *g, struct nc_connection *ret, struct nc_err *err);
/* Is there a kubeconfig with which a request can be made? With a bootstrap token kubelet writes its
 * own, and the certificate that it names is signed later. err states what is missing. */
enum nc_credentials_found {
    NC_CREDENTIALS_THERE,
    NC_CREDENTIALS_NO_FILE,
    NC_CREDENTIALS_BAD_FILE,
    NC_CREDENTIALS_UNSIGNED,
};
enum nc_credentials_found nc_connect_check(const struct nc_app *app, const char *path,
                                           struct nc_err *err);
void nc_connection_done(struct nc_connection *c);

/* Is the token made here, and not the kubeconfig's own? */
bool nc_connection_makes_tokens(const struct nc_connection *c);
/* Makes a new token, one at a time; c->renewed, which is set before, is told once, maybe before
 * this returns: err->class NC_ERR_NONE where there is a new one. The old one stays until then, and
 * nc_connection_done cancels it. What happens inside of the loop meanwhile (a watch that connects
 * again) gets the token that is there, and a transient error where that one is of no use. */
void nc_connection_renew_start(struct nc_connection *c,
                               void (*renewed)(void *userdata, const struct nc_err *err));
/* One-shot commands, between two turns of the loop: where the old one ends soon or one was missed,
 * a new one is made and waited for. */
int nc_connection_renew(struct nc_connection *c, struct nc_err *err);

#endif
