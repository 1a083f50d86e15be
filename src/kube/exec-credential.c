/*
 * An ExecCredential as a credential plugin prints it: a token, and until when it is good. Pure.
 *
 * The plugin is somebody else's program. What it states becomes a header of each request, so it may
 * hold nothing but what a token is made of; and no message quotes it.
 */
#include <errno.h>
#include <string.h>

#include "nc/kubeconfig.h"
#include "nc/str.h"
#include "nc/time.h"

#define KIND "ExecCredential"

void nc_exec_credential_done(struct nc_exec_credential *c) {
    nc_secret_free(c->token);
    *c = (struct nc_exec_credential){0};
}

static int refuse(struct nc_err *err, const char *what) {
    return nc_err_set(err, NC_ERR_AUTH, EPROTO, "%s", what);
}

static int read_status(const struct nc_value *tree, struct nc_exec_credential *ret,
                       struct nc_err *err) {
    const struct nc_value *status = nc_value_get(tree, "status");
    const struct nc_value *until = nc_value_get(status, "expirationTimestamp");
    const struct nc_value *kind = nc_value_get(tree, "kind");
    const char *token = nc_value_get_string(status, "token");

    if (kind && !nc_streq(nc_value_string(kind), KIND))
        return refuse(err, "what it printed is of another kind than " KIND);
    if (!token && nc_value_get(status, "clientCertificateData"))
        return refuse(err, "it printed a client certificate: only status.token is understood");
    if (!token)
        return refuse(err, "no status.token in what it printed");
    if (!*token || !nc_is_visible(token, strlen(token)))
        return refuse(err, "status.token is empty, or has a character that no token has");
    if (until && until->type != NC_VALUE_NULL
        && (!nc_value_string(until) || nc_time_parse(nc_value_string(until), &ret->until_usec) < 0))
        return refuse(err, "status.expirationTimestamp is not a time such as 2026-01-02T03:04:05Z");
    ret->token = nc_strdup(token);
    return 0;
}

int nc_exec_credential_parse(const char *data, size_t n, struct nc_exec_credential *ret,
                             struct nc_err *err) {
    nc_auto_value struct nc_value *tree = NULL;
    struct nc_value *token;
    int r;

    *ret = (struct nc_exec_credential){0};
    r = nc_json_parse(data, n, &tree, err);
    if (r >= 0)
        r = read_status(tree, ret, err);
    else /* its message may quote a key */
        nc_err_set(err, NC_ERR_PROTOCOL, EPROTO, "what it printed is no JSON, or has a key twice");
    token = nc_value_get(nc_value_get(tree, "status"), "token");
    if (nc_value_string(token))
        explicit_bzero(token->text, strlen(token->text));
    if (r < 0)
        *ret = (struct nc_exec_credential){0};
    return r;
}
