/*
 * kubeconfig or ServiceAccount -> handle.
 *
 * In a pod the ServiceAccount is all there is. On a host a kubeconfig is named: by the option, else
 * by the environment. Nobody's home is searched: a service has none. A kubeconfig whose user is an
 * `exec` plugin is refused: this program starts no other.
 */
#include "controller.h"

#include <errno.h>

#include "nc/file.h"
#include "nc/str.h"

#define KUBECONFIG_MAX_BYTES ((size_t)256 << 10)
#define CA_MAX_BYTES ((size_t)1 << 20)
/* One is enough over HTTP/2. A server that has it not keeps one for each watch; the rest write. */
#define MAX_CONNECTIONS 16

static const char *kubeconfig_of(const struct nc_settings *s) {
    const char *named = getenv("KUBECONFIG");
    const char *pod = getenv("KUBERNETES_SERVICE_HOST");

    if (s->kubeconfig)
        return s->kubeconfig;
    if (pod && *pod)
        return NULL;
    return named && *named ? named : NULL;
}

static int no_exec(const struct nc_kubeconfig *k, struct nc_err *err) {
    int r;

    if (!k->exec_command)
        return 0;
    r = nc_err_set(err, NC_ERR_CONFIG, ENOTSUP,
                   "its user is an exec plugin, and " NC_CONTROLLER " starts no program");
    nc_err_remedy(err, "give it a user with a client certificate, a token or a tokenFile that "
                       "something else keeps fresh; or run it in the cluster");
    return r;
}

static int read_kubeconfig(const char *path, struct nc_kubeconfig *ret, struct nc_err *err) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf text = NC_BUF_INIT;
    int r = nc_file_read(path, KUBECONFIG_MAX_BYTES, &text, err);

    if (r >= 0)
        r = nc_kubeconfig_parse(text.data ? text.data : "", text.len, ret, err);
    if (r >= 0)
        r = no_exec(ret, err);
    if (r < 0)
        nc_err_wrap(err, "%s", path);
    return r;
}

static int read_pod(struct nc_kubeconfig *ret, struct nc_err *err) {
    const int r = nc_incluster_config(getenv("KUBERNETES_SERVICE_HOST"),
                                      getenv("KUBERNETES_SERVICE_PORT"), NULL, ret, err);

    if (r < 0)
        nc_err_remedy(err, "outside of a cluster name a kubeconfig: --kubeconfig FILE or "
                           "$KUBECONFIG; ~/.kube/config is not read");
    return r;
}

static int read_config(const struct nc_settings *s, struct nc_kubeconfig *ret, struct nc_err *err) {
    const char *path = kubeconfig_of(s);

    return path ? read_kubeconfig(path, ret, err) : read_pod(ret, err);
}

static int read_ca(const struct nc_kubeconfig *k, char **ret, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    int r = 0;

    if (k->ca_pem)
        (void)nc_buf_puts(&text, k->ca_pem);
    else if (k->ca_file)
        r = nc_file_read(k->ca_file, CA_MAX_BYTES, &text, err);
    if (r < 0)
        return r;
    *ret = k->ca_pem || k->ca_file ? nc_buf_steal(&text) : NULL;
    return 0;
}

/* To see whether they changed; not a secret's fingerprint to anybody, it never leaves. */
static uint64_t mark_of(uint64_t sum, const char *s) {
    for (; s && *s; s++)
        sum = (sum ^ (unsigned char)*s) * 0x100000001b3u;
    return (sum ^ 0xff) * 0x100000001b3u;
}

static uint64_t mark_config(const struct nc_kubeconfig *k, const char *ca_pem) {
    const char *const strings[] = {k->server,   k->tls_server_name, k->cert_file,
                                   k->key_file, k->cert_pem,        k->key_pem,
                                   k->token,    k->token_file,      k->ca_file};
    uint64_t sum = mark_of(0xcbf29ce484222325u, ca_pem);

    for (size_t i = 0; i < NC_ARRAY_SIZE(strings); i++)
        sum = mark_of(sum, strings[i]);
    return sum;
}

bool nc_api_config_is_stale(const struct nc_settings *s, const struct nc_api_config *w) {
    nc_cleanup(nc_kubeconfig_done) struct nc_kubeconfig k = NC_KUBECONFIG_INIT;
    nc_auto_free char *ca = NULL;

    if (read_config(s, &k, NULL) < 0 || read_ca(&k, &ca, NULL) < 0)
        return false;
    return mark_config(&k, ca) != w->mark;
}

static int give_fixed(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    (void)refuse; /* there is no other one */
    *ret_token = nc_strdup(userdata);
    return 0;
}

static char *read_namespace(void) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (nc_file_read(NC_INCLUSTER_FOLDER "/namespace", 256, &text, NULL) < 0 || text.len == 0)
        return NULL;
    return nc_strdup(nc_trim(text.data));
}

static int open_handles(sd_event *event, const struct nc_kube_role *role, struct nc_api_config *w,
                        struct nc_err *err) {
    const struct nc_kubeconfig *k = &w->config;
    struct nc_kube_options o = {
        .server = k->server,
        .role = role,
        .tls = {.ca_pem = w->ca_pem,
                .client_cert_file = k->cert_file,
                .client_key_file = k->key_file,
                .client_cert_pem = k->cert_pem,
                .client_key_pem = k->key_pem,
                .server_name = k->tls_server_name},
        .user_agent = nc_http_user_agent(),
    };
    int r;

    if (k->token) {
        o.token = give_fixed;
        o.userdata = k->token;
    } else if (k->token_file) {
        w->token = nc_token_file_new(k->token_file);
        o.token = nc_token_file_give;
        o.userdata = w->token;
    }
    r = nc_http_new(event, MAX_CONNECTIONS, &w->http, err);
    return r < 0 ? r : nc_kube_new(w->http, &o, &w->kube, err);
}

int nc_api_config_open(sd_event *event, const struct nc_settings *s, struct nc_api_config *w,
                       struct nc_err *err) {
    int r = read_config(s, &w->config, err);

    if (r >= 0)
        r = read_ca(&w->config, &w->ca_pem, err);
    if (r < 0)
        return r;
    w->pod_namespace = kubeconfig_of(s) ? NULL : read_namespace();
    w->mark = mark_config(&w->config, w->ca_pem);
    return open_handles(
        event, s->rules.replaces ? &nc_kube_as_replacing_controller : &nc_kube_as_controller, w,
        err);
}

void nc_api_config_close(struct nc_api_config *w) {
    w->kube = nc_kube_free(w->kube);
    w->http = nc_http_free(w->http);
    w->token = nc_token_file_free(w->token);
    nc_kubeconfig_done(&w->config);
    free(w->ca_pem);
    free(w->pod_namespace);
    *w = (struct nc_api_config){0};
}
