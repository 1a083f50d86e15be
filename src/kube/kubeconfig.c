/*
 * A kubeconfig, read strictly: current-context names a context, the context a cluster and a user.
 *
 * Gives paths, inline PEM and the exec entry; reads no file and runs nothing. What client-go
 * prefers is preferred here: inline data over a path, a token file over a token. What would weaken
 * the connection (insecure-skip-tls-verify, http, a proxy) is refused. Pure.
 */
#include "nc/kubeconfig.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "nc/encode.h"
#include "nc/str.h"

#define MAX_PEM_BYTES ((size_t)256 << 10)

#define AT(member) offsetof(struct nc_kubeconfig, member)

void nc_kubeconfig_done(struct nc_kubeconfig *k) {
    static const unsigned short texts[] = {AT(server),   AT(tls_server_name), AT(ca_file),
                                           AT(ca_pem),   AT(cert_file),       AT(key_file),
                                           AT(cert_pem), AT(token_file),      AT(exec_command)};

    nc_free_texts(k, texts, NC_ARRAY_SIZE(texts));
    nc_secret_free(k->key_pem);
    nc_secret_free(k->token);
    nc_strv_done(&k->exec_args);
    nc_strv_done(&k->exec_env);
    memset(k, 0, sizeof(*k));
}

/* An error at a value's place. */
static int fail(struct nc_err *err, const struct nc_value *at, const char *path, const char *what) {
    if (at && at->mark.line > 0)
        return nc_err_config(err, "line %u, column %u: %s: %s", at->mark.line, at->mark.column,
                             path, what);
    return nc_err_config(err, "%s: %s", path, what);
}

/* The member of the map that the last key of the path names. */
static const struct nc_value *value_at(const struct nc_value *map, const char *path) {
    const char *dot = strrchr(path, '.');

    return nc_value_get(map, dot ? dot + 1 : path);
}

/* An optional text: *ret stays NULL where it is absent, null or empty. */
static int get_text(const struct nc_value *map, const char *path, const char **ret,
                    struct nc_err *err) {
    const struct nc_value *v = value_at(map, path);

    *ret = NULL;
    if (!v || v->type == NC_VALUE_NULL)
        return 0;
    if (v->type != NC_VALUE_STRING)
        return fail(err, v, path, "must be a string");
    if (*v->text)
        *ret = v->text;
    return 0;
}

static int copy_text(const struct nc_value *map, const char *path, char **ret, struct nc_err *err) {
    const char *s;
    const int r = get_text(map, path, &s, err);

    if (r == 0)
        *ret = nc_strdup(s);
    return r;
}

/* A relative path would depend on a folder that this reader does not know. */
static int copy_path(const struct nc_value *map, const char *path, char **ret, struct nc_err *err) {
    const int r = copy_text(map, path, ret, err);

    if (r == 0 && *ret && **ret != '/')
        return fail(err, value_at(map, path), path, "must be an absolute path");
    return r;
}

/* Base64 of PEM. The clear text may be a key: the buffer is wiped where it is not transferred. */
static int copy_pem(const struct nc_value *map, const char *path, char **ret, struct nc_err *err) {
    struct nc_buf pem = NC_BUF_INIT_MAX(MAX_PEM_BYTES);
    const struct nc_value *at = value_at(map, path);
    const char *s;
    int r = get_text(map, path, &s, err);

    if (r < 0 || !s)
        return r;
    r = nc_base64_decode(s, strlen(s), &pem);
    if (r == 0
        && (memchr(pem.data ? pem.data : "", '\0', pem.len) || !pem.data
            || !strstr(pem.data, "-----BEGIN ")))
        r = -EINVAL;
    if (r < 0) {
        nc_buf_done_secret(&pem);
        return fail(err, at, path, "must be PEM in base64");
    }
    *ret = nc_buf_steal(&pem);
    return 0;
}

/* "PATH-data" goes before PATH. */
static int copy_pem_or_path(const struct nc_value *map, const char *path, char **ret_pem,
                            char **ret_file, struct nc_err *err) {
    nc_auto_free char *data_path = nc_asprintf("%s-data", path);
    const int r = copy_pem(map, data_path, ret_pem, err);

    return r < 0 || *ret_pem ? r : copy_path(map, path, ret_file, err);
}

static int refuse_key(const struct nc_value *map, const char *key, const char *path,
                      const char *why, struct nc_err *err) {
    const struct nc_value *v = nc_value_get(map, key);

    if (!v || v->type == NC_VALUE_NULL || !nc_value_bool(v, true)
        || (v->type == NC_VALUE_STRING && !*v->text))
        return 0;
    return fail(err, v, path, why);
}

/* The entry of a named list ("clusters") whose name is `name`, and in it the map under `inner`;
 * NULL with err filled where there is none. */
static const struct nc_value *find_entry(const struct nc_value *root, const char *list_key,
                                         const char *inner, const char *name, struct nc_err *err) {
    const struct nc_value *list = nc_value_get(root, list_key);
    const struct nc_value *v;

    if (!list || list->type != NC_VALUE_LIST) {
        (void)fail(err, list ? list : root, list_key, "must be a list");
        return NULL;
    }
    for (size_t i = 0; i < list->n; i++) {
        if (!nc_value_says(list->items[i], "name", name))
            continue;
        v = nc_value_get(list->items[i], inner);
        if (v && v->type == NC_VALUE_MAP)
            return v;
        (void)fail(err, v ? v : list->items[i], list_key,
                   "the entry that is in use has no settings (a map is wanted)");
        return NULL;
    }
    nc_auto_free char *quoted = nc_quote_string(name);
    nc_auto_free char *what = nc_asprintf("has no entry named %s", quoted);
    (void)fail(err, list, list_key, what);
    return NULL;
}

static int read_server(const struct nc_value *cluster, struct nc_kubeconfig *k,
                       struct nc_err *err) {
    const struct nc_value *at = nc_value_get(cluster, "server");
    size_t n;
    const int r = copy_text(cluster, "cluster.server", &k->server, err);

    if (r < 0)
        return r;
    if (!k->server)
        return fail(err, at ? at : cluster, "cluster.server", "is missing");
    n = strlen(k->server);
    while (n > 0 && k->server[n - 1] == '/')
        k->server[--n] = '\0';
    if (!nc_starts_with(k->server, "https://") || strpbrk(k->server, " \t\r\n?#@\\"))
        return fail(err, at, "cluster.server", "must be https://HOST[:PORT]");
    return 0;
}

static int read_cluster(const struct nc_value *cluster, struct nc_kubeconfig *k,
                        struct nc_err *err) {
    int r = read_server(cluster, k, err);

    if (r == 0)
        r = refuse_key(
            cluster, "insecure-skip-tls-verify", "cluster.insecure-skip-tls-verify",
            "is refused: another host could pose as the API server; set certificate-authority",
            err);
    if (r == 0)
        r = refuse_key(cluster, "proxy-url", "cluster.proxy-url",
                       "is not supported: set HTTPS_PROXY for the service", err);
    if (r == 0)
        r = copy_text(cluster, "cluster.tls-server-name", &k->tls_server_name, err);
    if (r == 0)
        r = copy_pem_or_path(cluster, "cluster.certificate-authority", &k->ca_pem, &k->ca_file,
                             err);
    return r;
}

static int read_exec_args(const struct nc_value *list, struct nc_kubeconfig *k,
                          struct nc_err *err) {
    if (!list || list->type == NC_VALUE_NULL)
        return 0;
    if (list->type != NC_VALUE_LIST)
        return fail(err, list, "user.exec.args", "must be a list of strings");
    for (size_t i = 0; i < list->n; i++) {
        if (!nc_value_string(list->items[i]))
            return fail(err, list->items[i], "user.exec.args", "must be a list of strings");
        nc_strv_add(&k->exec_args, nc_value_string(list->items[i]));
    }
    return 0;
}

static int read_exec_env(const struct nc_value *list, struct nc_kubeconfig *k, struct nc_err *err) {
    if (!list || list->type == NC_VALUE_NULL)
        return 0;
    if (list->type != NC_VALUE_LIST)
        return fail(err, list, "user.exec.env", "must be a list of {name, value}");
    for (size_t i = 0; i < list->n; i++) {
        const char *name = nc_value_get_string(list->items[i], "name");
        const char *value = nc_value_get_string(list->items[i], "value");
        if (!name || !*name || strchr(name, '=') || !value)
            return fail(err, list->items[i], "user.exec.env",
                        "must be a list of {name, value}, the name without =");
        nc_strv_addf(&k->exec_env, "%s=%s", name, value);
    }
    return 0;
}

static int read_exec(const struct nc_value *exec, struct nc_kubeconfig *k, struct nc_err *err) {
    const char *version;
    int r;

    if (!exec || exec->type == NC_VALUE_NULL)
        return 0;
    if (exec->type != NC_VALUE_MAP)
        return fail(err, exec, "user.exec", "must be a map");
    r = copy_text(exec, "user.exec.command", &k->exec_command, err);
    if (r == 0 && !k->exec_command)
        return fail(err, exec, "user.exec.command", "is missing");
    if (r == 0)
        r = get_text(exec, "user.exec.apiVersion", &version, err);
    if (r < 0)
        return r;
    if (!nc_streq(version, "client.authentication.k8s.io/v1")
        && !nc_streq(version, "client.authentication.k8s.io/v1beta1"))
        return fail(
            err, exec, "user.exec.apiVersion",
            "must be client.authentication.k8s.io/v1 or client.authentication.k8s.io/v1beta1");
    r = read_exec_args(nc_value_get(exec, "args"), k, err);
    return r < 0 ? r : read_exec_env(nc_value_get(exec, "env"), k, err);
}

static int read_certificate(const struct nc_value *user, struct nc_kubeconfig *k,
                            struct nc_err *err) {
    int r = copy_pem_or_path(user, "user.client-certificate", &k->cert_pem, &k->cert_file, err);

    if (r == 0)
        r = copy_pem_or_path(user, "user.client-key", &k->key_pem, &k->key_file, err);
    if (r < 0)
        return r;
    if (!(k->cert_pem || k->cert_file) != !(k->key_pem || k->key_file))
        return fail(err, user, "user",
                    "a client certificate and its key belong together: one of them is missing");
    if ((k->cert_pem && k->key_file) || (k->cert_file && k->key_pem))
        return fail(err, user, "user",
                    "a client certificate and its key must both be inline or both be paths");
    return 0;
}

static int read_user(const struct nc_value *user, struct nc_kubeconfig *k, struct nc_err *err) {
    static const char unsupported[][16] = {"username", "password",  "auth-provider", "as",
                                           "as-uid",   "as-groups", "as-user-extra"};
    int r = read_certificate(user, k, err);

    for (size_t i = 0; i < NC_ARRAY_SIZE(unsupported) && r == 0; i++)
        r = refuse_key(user, unsupported[i], "user",
                       "only client certificates, exec, token and tokenFile are supported", err);
    if (r == 0)
        r = copy_path(user, "user.tokenFile", &k->token_file, err);
    if (r == 0 && !k->token_file)
        r = copy_text(user, "user.token", &k->token, err);
    if (r == 0)
        r = read_exec(nc_value_get(user, "exec"), k, err);
    return r;
}

static int read_root(const struct nc_value *root, struct nc_kubeconfig *k, struct nc_err *err) {
    const struct nc_value *context = NULL;
    const struct nc_value *cluster = NULL;
    const struct nc_value *user = NULL;
    const char *current;
    const char *name;
    int r;

    if (root->type != NC_VALUE_MAP || !nc_value_says(root, "kind", "Config")
        || !nc_value_says(root, "apiVersion", "v1"))
        return fail(err, root, "kubeconfig", "apiVersion must be v1 and kind must be Config");
    r = get_text(root, "current-context", &current, err);
    if (r == 0 && !current)
        return fail(err, root, "current-context",
                    "is missing: it decides which cluster and user are meant");
    if (r == 0)
        r = (context = find_entry(root, "contexts", "context", current, err)) ? 0 : -EINVAL;
    if (r == 0)
        r = get_text(context, "context.cluster", &name, err);
    if (r == 0)
        r = (cluster = find_entry(root, "clusters", "cluster", name ? name : "", err)) ? 0
                                                                                       : -EINVAL;
    if (r == 0)
        r = read_cluster(cluster, k, err);
    if (r == 0)
        r = get_text(context, "context.user", &name, err);
    if (r == 0)
        r = (user = find_entry(root, "users", "user", name ? name : "", err)) ? 0 : -EINVAL;
    return r < 0 ? r : read_user(user, k, err);
}

int nc_kubeconfig_parse(const char *data, size_t n, struct nc_kubeconfig *ret, struct nc_err *err) {
    struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
    struct nc_values documents = {0};
    int r = nc_yaml_parse((struct nc_text){.data = data, .n = n}, 0, &documents, err);

    if (r < 0)
        return r;
    if (documents.n != 1)
        r = nc_err_config(err, "a kubeconfig is one document, not %zu", documents.n);
    else
        r = read_root(documents.v[0], &k, err);
    for (size_t i = 0; i < documents.n; i++)
        nc_value_wipe(documents.v[i]); /* token and key stand in the tree as well */
    nc_values_done(&documents);
    if (r < 0) {
        nc_kubeconfig_done(&k);
        return r;
    }
    *ret = k;
    return 0;
}
