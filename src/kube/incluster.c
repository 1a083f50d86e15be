/*
 * How a pod reaches the API server: two variables of its environment, and a folder that kubelet
 * keeps up to date.
 *
 * The environment is the program's to read. The token lives an hour and is replaced long before;
 * a copy of it here would be one more thing that can be too old.
 */
#include <errno.h>
#include <string.h>

#include "nc/file.h"
#include "nc/kube-control.h"
#include "nc/str.h"

#define MAX_CA_BYTES ((size_t)256 << 10)
#define MAX_TOKEN_BYTES ((size_t)64 << 10)
#define MAX_HOST 253

static int check_address(const char *host, const char *port, struct nc_err *err) {
    uint64_t number;

    if (!host || !*host || !port || !*port)
        return nc_err_config(
            err,
            "no kubeconfig was named and this process is not in a pod: KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT are not set");
    if (!nc_is_alnum_or(host, ".:-", MAX_HOST))
        return nc_err_config(err, "invalid KUBERNETES_SERVICE_HOST: neither a name nor an address");
    if (nc_parse_u64(port, &number) < 0 || number < 1 || number > 65535)
        return nc_err_config(err, "invalid KUBERNETES_SERVICE_PORT: not a number from 1 to 65535");
    return 0;
}

int nc_incluster_config(const char *host, const char *port, const char *folder,
                        struct nc_kubeconfig *ret, struct nc_err *err) {
    nc_auto_free char *ca = nc_path_below(folder ? folder : NC_INCLUSTER_FOLDER, "ca.crt");
    nc_cleanup(nc_buf_done) struct nc_buf pem = NC_BUF_INIT;
    const struct nc_kubeconfig none = NC_KUBECONFIG_INIT;
    int r = check_address(host, port, err);

    if (r == 0)
        r = nc_file_read(ca, MAX_CA_BYTES, &pem, err);
    if (r < 0)
        return r;
    if (!strstr(pem.data, "-----BEGIN CERTIFICATE-----") || strlen(pem.data) != pem.len)
        return nc_err_config(err, "%s: no certificate in it", ca);
    *ret = none;
    ret->server = strchr(host, ':') ? nc_asprintf("https://[%s]:%s", host, port)
                                    : nc_asprintf("https://%s:%s", host, port);
    ret->ca_pem = nc_buf_steal(&pem);
    ret->token_file = nc_path_below(folder ? folder : NC_INCLUSTER_FOLDER, "token");
    return 0;
}

struct nc_token_file {
    char *path;
    char *token; /* the last one that could be read; secret */
};

struct nc_token_file *nc_token_file_new(const char *path) {
    struct nc_token_file *t = nc_calloc(1, sizeof(*t));

    t->path = nc_strdup(path);
    return t;
}

struct nc_token_file *nc_token_file_free(struct nc_token_file *t) {
    if (!t)
        return NULL;
    nc_secret_free(t->token);
    free(t->path);
    free(t);
    return NULL;
}

static int read_token(struct nc_token_file *t, struct nc_err *err) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf text = NC_BUF_INIT;
    const int r = nc_file_read(t->path, MAX_TOKEN_BYTES, &text, err);

    if (r < 0)
        return r;
    if (!*nc_trim(text.data))
        return nc_err_set(err, NC_ERR_AUTH, EINVAL, "%s: no token in it", t->path);
    nc_secret_free(t->token);
    t->token = nc_strdup(nc_trim(text.data));
    return 0;
}

int nc_token_file_give(void *token_file, bool refuse, char **ret_token, struct nc_err *err) {
    struct nc_token_file *t = token_file;
    struct nc_err failure = NC_ERR_INIT;
    const int r = read_token(t, &failure);

    if (r < 0 && (refuse || !t->token)) {
        if (err)
            *err = failure;
        return r;
    }
    *ret_token = nc_strdup(t->token);
    return 0;
}
