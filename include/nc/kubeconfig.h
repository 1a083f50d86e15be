/*
 * A kubeconfig, read strictly: server, roots, and who we are there. Client certificate, exec and
 * token users all work.
 */
#ifndef NC_KUBECONFIG_H
#define NC_KUBECONFIG_H

#include "nc/err.h"
#include "nc/mem.h"
#include "nc/value.h"

struct nc_kubeconfig {
    char *server; /* "https://host[:port]", no trailing slash */
    char *tls_server_name;
    char *ca_file; /* one of the two, or none */
    char *ca_pem;
    char *cert_file, *key_file; /* client certificate by path (kubelet rotates it: read again for
                                   each connection) */
    char *cert_pem, *key_pem;   /* or inline; secret */
    char *token, *token_file;   /* secret */
    char *exec_command;
    struct nc_strv exec_args;
    struct nc_strv exec_env; /* "NAME=value" */
};

#define NC_KUBECONFIG_INIT                                                                         \
    { 0 }
void nc_kubeconfig_done(struct nc_kubeconfig *k); /* wipes secrets */

/* YAML or JSON; current-context decides. NC_ERR_CONFIG with line and column where it cannot be used
 * (insecure-skip-tls-verify is refused). */
int nc_kubeconfig_parse(const char *data, size_t n, struct nc_kubeconfig *ret, struct nc_err *err);

/* What a credential plugin (`exec` of a user) prints. */
struct nc_exec_credential {
    char *token;         /* printable, without a space; secret */
    uint64_t until_usec; /* 0 = it does not say */
};
/* NC_ERR_AUTH, or PROTOCOL where it is no JSON: then nothing is kept, and no message quotes it. */
int nc_exec_credential_parse(const char *data, size_t n, struct nc_exec_credential *ret,
                             struct nc_err *err);
void nc_exec_credential_done(struct nc_exec_credential *c); /* wipes */

#endif
