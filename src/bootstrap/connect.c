/*
 * A kubeconfig, or the configuration itself -> handle. Our own exec entry is answered in this
 * process; a foreign one is executed.
 */
#include "connect.h"

#include <errno.h>
#include <unistd.h>

#include "gather.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#define KUBECONFIG_MAX_BYTES ((size_t)256 << 10)
#define CA_MAX_BYTES ((size_t)1 << 20)
#define TOKEN_MAX_BYTES ((size_t)16 << 10)
#define EXEC_TIMEOUT_USEC 10000000u
#define TOKEN_MARGIN_USEC 60000000u
#define REFUSED_AGAIN_USEC 60000000u
#define RENEW_EARLY_USEC (4ull * 60 * 1000000)
/* Two carry all of a drain, but where the API server ends a connection in the middle of it, libcurl
 * would open another for each request that was on it; and a server without HTTP/2 needs several. */
#define MAX_CONNECTIONS 16
#define SHORT_LIFE_USEC (2ull * TOKEN_MARGIN_USEC) /* where nobody states how long it is good */

static const char *option_of(const struct nc_strv *args, const char *name) {
    for (size_t i = 0; i + 1 < args->n; i++)
        if (nc_streq(args->v[i], name))
            return args->v[i + 1];
    return NULL;
}

/* The old one stays until there is another. One that is good for minutes only is kept for half of
 * them. */
static void end_renewal(struct nc_connection *c, struct nc_exec_credential *t,
                        const struct nc_err *err) {
    void (*renewed)(void *userdata, const struct nc_err *err) = c->renewed;
    const uint64_t now = nc_now_usec();

    c->renewed = NULL;
    if (t->token) {
        const uint64_t until = t->until_usec ? t->until_usec : now + SHORT_LIFE_USEC;
        const uint64_t life = until > now ? until - now : 0;
        nc_secret_free(c->token);
        c->token = nc_steal(&t->token);
        c->token_until_usec = until;
        c->token_made_usec = now;
        c->token_renew_usec =
            now + (life > 2 * RENEW_EARLY_USEC ? life - RENEW_EARLY_USEC : life / 2);
        c->wants_token = false;
    }
    renewed(c->userdata, err);
}

/* It rotates on disk: it is read again soon. */
static void read_token_file(struct nc_connection *c) {
    nc_auto_free char *path = nc_app_path(c->app, c->kubeconfig.token_file);
    nc_cleanup(nc_buf_done_secret) struct nc_buf text = NC_BUF_INIT;
    struct nc_exec_credential t = {0};
    struct nc_err err = NC_ERR_INIT;

    if (nc_file_read(path, TOKEN_MAX_BYTES, &text, &err) >= 0)
        t.token = nc_strdup(nc_trim(text.data));
    end_renewal(c, &t, &err);
}

static void on_own_token(void *userdata, char *token, uint64_t until_usec,
                         const struct nc_err *err) {
    struct nc_connection *c = userdata;

    c->own_token = NULL;
    end_renewal(c, &(struct nc_exec_credential){.token = token, .until_usec = until_usec}, err);
}

static int start_own_token(struct nc_connection *c, struct nc_err *err) {
    const struct nc_node_token_call call = {.credentials = &c->credentials,
                                            .audience = &c->audience,
                                            .done = on_own_token,
                                            .userdata = c};

    if (!c->imds) {
        const int r = nc_imds_new(c->app->event, c->app->opts.imds, &c->own_imds, err);
        if (r < 0)
            return r;
        c->imds = c->own_imds;
    }
    return nc_node_token_start(c->imds, &call, &c->own_token, err);
}

static void on_plugin(void *userdata, struct nc_buf *text, const struct nc_err *err) {
    struct nc_connection *c = userdata;
    struct nc_exec_credential t = {0};
    struct nc_err own = *err;

    c->plugin = NULL;
    if (own.class == NC_ERR_NONE)
        (void)nc_exec_credential_parse(text->data ? text->data : "", text->len, &t, &own);
    if (own.class != NC_ERR_NONE)
        nc_err_wrap(&own, "exec credential %s", c->kubeconfig.exec_command);
    end_renewal(c, &t, &own);
}

/* Runs somebody else's credential plugin. */
static int start_plugin(struct nc_connection *c, struct nc_err *err) {
    const struct nc_kubeconfig *k = &c->kubeconfig;
    nc_auto_free const char **argv = nc_calloc(k->exec_args.n + 2, sizeof(*argv));
    const struct nc_capture_call call = {.argv = argv,
                                         .env = (const char *const *)k->exec_env.v,
                                         .timeout_usec = nc_app_timeout(c->app, EXEC_TIMEOUT_USEC),
                                         .max_bytes = TOKEN_MAX_BYTES,
                                         .done = on_plugin,
                                         .userdata = c};
    int r;

    argv[0] = k->exec_command;
    for (size_t i = 0; i < k->exec_args.n; i++)
        argv[i + 1] = k->exec_args.v[i];
    r = nc_capture_start(c->app->event, &call, &c->plugin, err);
    if (r < 0)
        nc_err_wrap(err, "exec credential %s", k->exec_command);
    return r;
}

void nc_connection_renew_start(struct nc_connection *c,
                               void (*renewed)(void *userdata, const struct nc_err *err)) {
    struct nc_err err = NC_ERR_INIT;

    c->renewed = renewed;
    if (c->kubeconfig.token_file)
        read_token_file(c);
    else if ((c->audience.cluster ? start_own_token : start_plugin)(c, &err) < 0)
        end_renewal(c, &(struct nc_exec_credential){0}, &err);
}

static void cancel_renewal(struct nc_connection *c) {
    c->own_token = nc_node_token_cancel(c->own_token);
    c->plugin = nc_capture_cancel(c->plugin);
    c->renewed = NULL;
}

bool nc_connection_makes_tokens(const struct nc_connection *c) {
    return c->audience.cluster || c->kubeconfig.exec_command;
}

/* --- for one-shot commands */

struct renewal {
    struct nc_err err;
    bool is_done;
};

static void on_renewed(void *userdata, const struct nc_err *err) {
    *(struct renewal *)userdata = (struct renewal){*err, true};
}

static int replace_token(struct nc_connection *c, struct nc_err *err) {
    struct renewal renewal = {0};
    int r = 0;

    c->userdata = &renewal;
    nc_connection_renew_start(c, on_renewed);
    if (!renewal.is_done)
        r = nc_http_wait(c->http, &renewal.is_done, err);
    if (r < 0) {
        cancel_renewal(c);
        return r;
    }
    return nc_err_give(&renewal.err, err);
}

int nc_connection_renew(struct nc_connection *c, struct nc_err *err) {
    const bool is_due = c->wants_token || (c->token && nc_now_usec() >= c->token_renew_usec);

    return is_due && nc_connection_makes_tokens(c) ? replace_token(c, err) : 0;
}

/* A 401 of a token that was made for another one's 401 is no matter of the token. */
static void note_refusal(struct nc_connection *c, uint64_t now) {
    if (c->token_made_usec < c->refused_usec)
        return;
    c->is_refused_again = c->refused_usec && now < c->refused_usec + REFUSED_AGAIN_USEC;
    c->refused_usec = now;
}

/* IMDS and a plugin are not waited for while the loop runs. */
static int give_token(void *userdata, bool refuse, char **ret_token, struct nc_err *err) {
    struct nc_connection *c = userdata;
    const struct nc_kubeconfig *k = &c->kubeconfig;
    const bool is_in_loop = sd_event_get_state(c->app->event) != SD_EVENT_INITIAL;
    const uint64_t now = nc_now_usec();
    int r = 0;

    if (k->token) {
        *ret_token = nc_strdup(k->token);
        return 0;
    }
    if (refuse)
        note_refusal(c, now);
    if (!k->token_file && is_in_loop) {
        if (refuse || !c->token || now + TOKEN_MARGIN_USEC > c->token_until_usec) {
            c->wants_token = true;
            if (c->token_wanted)
                c->token_wanted(c->userdata);
        }
        if (refuse || !c->token || now >= c->token_until_usec)
            return nc_err_set(err, NC_ERR_TRANSIENT, refuse && c->is_refused_again ? 401 : EAGAIN,
                              "the last one is of no use any more, a new one is being made");
    } else if (refuse || c->wants_token || !c->token
               || now + TOKEN_MARGIN_USEC > c->token_until_usec) {
        r = replace_token(c, err);
    }
    if (r < 0)
        return r;
    *ret_token = nc_strdup(c->token);
    return 0;
}

void nc_connection_done(struct nc_connection *c) {
    cancel_renewal(c);
    c->kube = nc_kube_free(c->kube);
    c->http = nc_http_free(c->http);
    nc_imds_free(c->own_imds);
    nc_credentials_done(&c->credentials);
    nc_secret_free(c->token);
    nc_kubeconfig_done(&c->kubeconfig);
    free(c->audience.cluster);
    free(c->audience.region);
    free(c->audience.sts_endpoint);
    free(c->ca_pem);
    free(c->cert_file);
    free(c->key_file);
    *c = (struct nc_connection){.refused_usec = c->refused_usec};
}

char *nc_connect_path(const struct nc_app *app, const char *path) {
    const char *named = app->opts.kubeconfig;

    return nc_app_path_or(app, nc_streq(path, named) ? named : NULL, path);
}

static int read_kubeconfig(const char *path, struct nc_kubeconfig *ret, struct nc_err *err) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf text = NC_BUF_INIT;
    int r = nc_file_read(path, KUBECONFIG_MAX_BYTES, &text, err);

    if (r < 0)
        return r;
    r = nc_kubeconfig_parse(text.data, text.len, ret, err);
    if (r < 0)
        nc_err_wrap(err, "%s", path);
    return r;
}

enum nc_credentials_found nc_connect_check(const struct nc_app *app, const char *path,
                                           struct nc_err *err) {
    nc_auto_free char *below = nc_connect_path(app, path), *cert = NULL;
    nc_cleanup(nc_kubeconfig_done) struct nc_kubeconfig k = {0};
    const int r = read_kubeconfig(below, &k, err);

    if (r == -ENOENT) {
        (void)nc_err_set(err, NC_ERR_HOST, ENOENT, "there is no kubeconfig %s yet", below);
        nc_err_remedy(err, "the bootstrap writes it: journalctl -u nodeclaimd-bootstrap; "
                           "--kubeconfig and spec.cluster.auth name another one");
        return NC_CREDENTIALS_NO_FILE;
    }
    if (r < 0) {
        nc_err_remedy(err, "correct it, or have it written anew: systemctl restart "
                           "nodeclaimd-bootstrap");
        return NC_CREDENTIALS_BAD_FILE;
    }
    cert = k.cert_file ? nc_app_path(app, k.cert_file) : NULL;
    if (!cert || access(cert, R_OK) == 0)
        return NC_CREDENTIALS_THERE;
    (void)nc_err_set(err, NC_ERR_HOST, ENOENT,
                     "%s names the client certificate %s, which is not there", below, cert);
    nc_err_remedy(err,
                  "kubelet writes it when it is signed: kubectl get csr; journalctl -u kubelet");
    return NC_CREDENTIALS_UNSIGNED;
}

static int open_handles(struct nc_connection *c, struct nc_err *err) {
    const struct nc_kubeconfig *k = &c->kubeconfig;
    const struct nc_kube_options o = {
        .server = k->server,
        .role = &nc_kube_as_node,
        .tls = {.ca_pem = c->ca_pem,
                .client_cert_file = c->cert_file,
                .client_key_file = c->key_file,
                .client_cert_pem = k->cert_pem,
                .client_key_pem = k->key_pem,
                .server_name = k->tls_server_name},
        .token = k->token || k->token_file || nc_connection_makes_tokens(c) ? give_token : NULL,
        .userdata = c,
        .user_agent = nc_http_user_agent(),
    };
    const int r = nc_http_new(c->app->event, MAX_CONNECTIONS, &c->http, err);

    return r < 0 ? r : nc_kube_new(c->http, &o, &c->kube, err);
}

/* The files that a kubeconfig names. */
static int read_named_files(struct nc_connection *c, const char *kubeconfig, struct nc_err *err) {
    struct nc_kubeconfig *k = &c->kubeconfig;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_free char *ca = k->ca_file ? nc_app_path(c->app, k->ca_file) : NULL;
    int r = 0;

    if (k->cert_file) {
        c->cert_file = nc_app_path(c->app, k->cert_file);
        c->key_file = nc_app_path(c->app, k->key_file);
    }
    if (k->ca_pem)
        c->ca_pem = nc_strdup(k->ca_pem);
    else if (ca)
        r = nc_file_read(ca, CA_MAX_BYTES, &text, err);
    if (r < 0)
        nc_err_wrap(err, "%s", kubeconfig);
    else if (!c->ca_pem && ca)
        c->ca_pem = nc_buf_steal(&text);
    return r;
}

/* Our own program as the credential plugin: no process is needed for it. */
static void read_own_plugin(struct nc_connection *c) {
    const struct nc_strv *args = &c->kubeconfig.exec_args;
    const char *command = c->kubeconfig.exec_command;
    const char *base = command ? strrchr(command, '/') : NULL;

    if (!command || !nc_streq(base ? base + 1 : command, "nodeclaimd") || args->n == 0
        || !nc_streq(args->v[0], "token") || !option_of(args, "--cluster"))
        return;
    c->audience = (struct nc_token_audience){nc_strdup(option_of(args, "--cluster")),
                                             nc_strdup(option_of(args, "--region")),
                                             nc_strdup(option_of(args, "--sts-endpoint"))};
}

int nc_connect(struct nc_app *app, const char *path, struct nc_imds *imds, struct nc_connection *c,
               struct nc_err *err) {
    nc_auto_free char *below = nc_connect_path(app, path);
    int r;

    nc_connection_done(c);
    c->app = app;
    c->imds = imds;
    r = nc_app_loop(app, err);
    if (r >= 0)
        r = read_kubeconfig(below, &c->kubeconfig, err);
    if (r == -ENOENT && nc_streq(path, NC_KUBECONFIG))
        nc_err_remedy(err, "nodeclaimd bootstrap writes it: this machine has not joined a cluster");
    if (r >= 0)
        r = read_named_files(c, below, err);
    if (r < 0)
        return r;
    read_own_plugin(c);
    c->is_bootstrap = nc_streq(path, NC_BOOTSTRAP_KUBECONFIG);
    return open_handles(c, err);
}

int nc_connect_configured(const struct nc_gather *g, struct nc_connection *c, struct nc_err *err) {
    const struct nc_config *config = &g->config;
    struct nc_kubeconfig *k = &c->kubeconfig;
    size_t n = strlen(config->endpoint);

    nc_connection_done(c);
    c->app = g->app;
    c->imds = g->imds;
    while (n > 0 && config->endpoint[n - 1] == '/')
        n--;
    k->server = nc_strndup(config->endpoint, n);
    c->ca_pem = nc_strdup(config->ca_pem);
    switch (config->auth) {
    case NC_AUTH_EKS:
        c->audience =
            (struct nc_token_audience){nc_strdup(config->cluster_name), nc_strdup(g->facts.region),
                                       nc_sts_endpoint(&g->facts, config)};
        break;
    case NC_AUTH_CLIENT_CERTIFICATE:
        c->cert_file = nc_app_path(g->app, config->client_certificate);
        c->key_file = nc_app_path(g->app, config->client_key);
        break;
    case NC_AUTH_BOOTSTRAP_TOKEN:
        k->token = nc_strdup(config->bootstrap_token);
        c->is_bootstrap = true;
        break;
    case NC_AUTH_KUBECONFIG:
        break; /* the file is the user's: nc_connect() reads it */
    }
    return open_handles(c, err);
}
