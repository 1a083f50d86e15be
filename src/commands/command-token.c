/*
 * `token`: the exec credential of kubelet, and of anybody else who reads the node's kubeconfig.
 *
 * The token is a secret as long as it is valid: it goes to stdout and nowhere else.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "commands.h"
#include "connect.h"
#include "nc/backoff.h"
#include "nc/str.h"
#include "nc/time.h"

#define DEFAULT_API_VERSION "client.authentication.k8s.io/v1beta1"
#define PATIENCE_USEC 8000000u /* kubelet's client gives its plugin no deadline of its own */
#define EXEC_INFO_MAX_BYTES 65536

static const struct nc_backoff retries = {.first_usec = 100000, .max_usec = 1000000};

/* The version that the caller speaks, if it is one of the two that are the same on the wire. */
static const char *api_version(void) {
    const char *info = getenv("KUBERNETES_EXEC_INFO");
    nc_auto_value struct nc_value *tree = NULL;

    if (!info || strlen(info) > EXEC_INFO_MAX_BYTES
        || nc_json_parse(info, strlen(info), &tree, NULL) < 0)
        return DEFAULT_API_VERSION;
    return nc_value_says(tree, "apiVersion", "client.authentication.k8s.io/v1")
               ? "client.authentication.k8s.io/v1"
               : DEFAULT_API_VERSION;
}

static void print_credential(const char *token, uint64_t until_usec) {
    nc_auto_value struct nc_value *root = nc_value_new_map();
    struct nc_value *status;
    nc_cleanup(nc_buf_done_secret) struct nc_buf text = NC_BUF_INIT;
    char timestamp[32];

    nc_time_format(until_usec, timestamp);
    nc_value_set_string(root, "kind", "ExecCredential");
    nc_value_set_string(root, "apiVersion", api_version());
    (void)nc_value_add_map(root, "spec");
    status = nc_value_add_map(root, "status");
    nc_value_set_string(status, "expirationTimestamp", timestamp);
    nc_value_set_string(status, "token", token);
    nc_json_write(&text, root, 0);
    (void)printf("%s\n", text.data);
    explicit_bzero(nc_value_get(status, "token")->text, strlen(token));
}

int nc_command_token(struct nc_app *app) {
    nc_cleanup(nc_credentials_done) struct nc_credentials credentials = {0};
    struct nc_imds *imds = NULL;
    struct nc_err err = NC_ERR_INIT;
    const struct nc_token_audience audience = {(char *)app->opts.cluster, (char *)app->opts.region,
                                               (char *)app->opts.sts_endpoint};
    const struct nc_node_token_call call = {.credentials = &credentials, .audience = &audience};
    nc_cleanup(nc_exec_credential_done) struct nc_exec_credential token = {0};
    int r;

    if (!app->opts.cluster) {
        (void)fprintf(stderr, "nodeclaimd token: --cluster NAME is needed\n");
        return NC_EXIT_USAGE;
    }
    app->deadline_usec = nc_mono_usec() + PATIENCE_USEC;
    r = nc_app_loop(app, &err);
    if (r >= 0)
        r = nc_imds_new(app->event, app->opts.imds, &imds, &err);
    for (unsigned attempt = 1; r >= 0; attempt++) {
        r = nc_node_token_make(imds, &call, &token.token, &token.until_usec, &err);
        if (r >= 0 || err.class != NC_ERR_TRANSIENT || nc_app_is_late(app))
            break;
        r = nc_app_pause(app, nc_app_left(app, nc_backoff_pause(&retries, attempt, 0)));
    }
    nc_imds_free(imds);
    if (r < 0)
        return nc_app_fail(app, &err);
    print_credential(token.token, token.until_usec);
    return 0;
}
