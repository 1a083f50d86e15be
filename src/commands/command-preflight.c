/*
 * `preflight`: everything that a bootstrap needs, tried one by one; each line is ok or failed, with
 * a remedy.
 *
 * It changes nothing. What depends on a check that failed is not tried, and is reported as such.
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap.h"
#include "commands.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#define CONFIG_MAX_BYTES ((size_t)1 << 20)
#define TIMEOUT_USEC 3000000u
#define IMDS_TIMEOUT_USEC 8000000u /* it may be slow: that is no reason to stop here */
#define SKEW_FAILS_SEC 240         /* signatures are refused beyond five minutes */

struct preflight {
    struct nc_app *app;
    struct nc_preflight_lines out;
    struct nc_imds *imds;
    struct nc_facts facts;
    struct nc_gather gather; /* the documents; its imds is lent */
    bool has_config;
    struct nc_connection connection;
    int64_t skew_usec;
    const char *whose_clock; /* NULL: no skew is known */
    struct nc_err err;       /* of the check that runs */
};

static void ok(struct preflight *p, const char *check, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void ok(struct preflight *p, const char *check, const char *format, ...) {
    nc_auto_free char *detail = NULL;
    va_list ap;

    va_start(ap, format);
    detail = nc_vasprintf(format, ap);
    va_end(ap);
    nc_preflight_line(&p->out, check, "ok", detail, "");
}

static void skipped(struct preflight *p, const char *check, const char *why) {
    nc_preflight_line(&p->out, check, "skipped", why, "");
}

/* The error of the check is in p->err, and the next check finds none there. */
static int failed(struct preflight *p, const char *check, const char *remedy) {
    nc_preflight_failed(&p->out, check, &p->err, remedy);
    p->err = (struct nc_err)NC_ERR_INIT;
    return -EIO;
}

static int check_imds(struct preflight *p) {
    const unsigned items = 1u << NC_IMDS_IDENTITY | 1u << NC_IMDS_LOCAL_HOSTNAME;
    struct nc_imds_answer answers[_NC_IMDS_ITEM_MAX] = {0};
    struct nc_imds_stats stats = {0};
    int r = nc_imds_new(p->app->event, p->app->opts.imds, &p->imds, &p->err);

    if (r >= 0)
        r = nc_imds_fetch(p->imds,
                          (struct nc_imds_batch_call){.items = items,
                                                      .timeout_usec = IMDS_TIMEOUT_USEC,
                                                      .answers = answers},
                          &p->err);
    for (enum nc_imds_item i = NC_IMDS_IDENTITY; r >= 0 && i < _NC_IMDS_ITEM_MAX; i++)
        if ((items & (1u << i)) && answers[i].status == 200)
            r = nc_facts_parse_imds(&p->facts, i, answers[i].body.data, answers[i].body.len,
                                    &p->err);
    nc_imds_answer_done(&answers[NC_IMDS_IDENTITY]);
    nc_imds_answer_done(&answers[NC_IMDS_LOCAL_HOSTNAME]);
    if (r < 0)
        return failed(p, "imds",
                      "check the instance's metadata options, and that nothing on the host blocks "
                      "the link-local address");
    nc_imds_get_stats(p->imds, &stats);
    p->skew_usec = stats.skew_usec;
    p->whose_clock = stats.has_skew ? "that of IMDS" : NULL;
    ok(p, "imds", "%s, %s, %s", p->facts.instance_id, p->facts.instance_type, p->facts.az);
    return 0;
}

/* The documents, as a bootstrap reads them, and its environment with them: the API server may be
 * behind a proxy that only they name. */
static void check_config(struct preflight *p) {
    struct nc_gather *g = &p->gather;
    int r;

    g->imds = p->imds;
    r = nc_gather_imds(g, &p->err);
    if (r >= 0)
        r = nc_gather_documents(g, &p->err);
    if (r >= 0)
        r = nc_gather_config(g, &p->err);
    p->has_config = r >= 0;
    if (r < 0) {
        nc_fill_remedy(&p->err, NC_PHASE_CONFIG);
        (void)failed(p, "config", p->err.remedy);
    } else
        ok(p, "config", "%zu document%s", g->documents.n_docs, g->documents.n_docs == 1 ? "" : "s");
}

static int check_credentials(struct preflight *p) {
    if (nc_gather_credentials(p->imds, &p->connection.credentials, &p->err) < 0)
        return failed(p, "role", "attach an instance profile with the node role to the instance");
    ok(p, "role", "%.64s", p->connection.credentials.role);
    return 0;
}

static void check_clock(struct preflight *p) {
    const long long seconds = p->skew_usec / 1000000;

    if (!p->whose_clock) {
        skipped(p, "clock", "no server has sent its time");
        return;
    }
    if (llabs(seconds) < SKEW_FAILS_SEC) {
        ok(p, "clock", "within %lld s of %s", llabs(seconds) + 1, p->whose_clock);
        return;
    }
    (void)nc_err_set(&p->err, NC_ERR_HOST, ETIME, "the clock is %lld s %s %s", llabs(seconds),
                     seconds > 0 ? "behind" : "ahead of", p->whose_clock);
    (void)failed(p, "clock", NC_KUBE_SET_CLOCK);
}

/* Splits "https://host[:port]" or "https://[v6]:port". */
static void split_server(const char *server, char **ret_host, char **ret_port) {
    const char *host = server + strlen("https://");
    const char *end = *host == '[' ? strchr(host, ']') : NULL;
    const size_t n = end ? (size_t)(end - host - 1) : strcspn(host, ":/");
    const char *after = end ? end + 1 : host + n;

    *ret_host = nc_strndup(end ? host + 1 : host, n);
    *ret_port = *after == ':' ? nc_strndup(after + 1, strcspn(after + 1, "/")) : nc_strdup("443");
}

/* Resolving blocks, and the loop has the signals: this lets them end us, there is nothing to undo.
 */
static int resolve(const char *host, const char *port, struct addrinfo **ret) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    sigset_t set, old;
    int r;

    (void)setenv("RES_OPTIONS", "timeout:1 attempts:2", 0);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGINT);
    (void)sigprocmask(SIG_UNBLOCK, &set, &old);
    r = getaddrinfo(host, port, &hints, ret);
    (void)sigprocmask(SIG_SETMASK, &old, NULL);
    return r;
}

static int connect_to(const struct addrinfo *a) {
    const int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    socklen_t n = sizeof(int);
    int error = 0;

    if (fd < 0)
        return -errno;
    if (connect(fd, a->ai_addr, a->ai_addrlen) < 0)
        error = errno;
    if (error == EINPROGRESS) {
        error = poll(&p, 1, TIMEOUT_USEC / 1000) > 0 ? 0 : ETIMEDOUT;
        if (error == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) < 0)
            error = errno;
    }
    (void)close(fd);
    return -error;
}

static void write_address(const struct addrinfo *a, char text[static NI_MAXHOST]) {
    (void)getnameinfo(a->ai_addr, a->ai_addrlen, text, NI_MAXHOST, NULL, 0, NI_NUMERICHOST);
}

/* A refusal and a silence are not the same mistake. */
static int check_tcp(struct preflight *p, const struct addrinfo *list, const char *port) {
    char text[NI_MAXHOST] = "";
    int r = 0;

    for (const struct addrinfo *a = list; a; a = a->ai_next) {
        write_address(a, text);
        r = connect_to(a);
        if (r >= 0) {
            ok(p, "tcp", "%s, port %s", text, port);
            return 0;
        }
    }
    (void)nc_err_set(&p->err, NC_ERR_TRANSIENT, -r, "%s, port %s: %s", text, port, strerror(-r));
    return failed(p, "tcp",
                  r == -ECONNREFUSED
                      ? "nothing listens there: check the cluster's endpoint and its port"
                      : "check routes, security groups and network ACLs between node and cluster");
}

static int check_route(struct preflight *p) {
    const char *lower = getenv("https_proxy"), *upper = getenv("HTTPS_PROXY");
    const bool proxy = (lower && *lower) || (upper && *upper);
    nc_auto_free char *host = NULL, *port = NULL;
    struct addrinfo *list = NULL;
    char text[NI_MAXHOST] = "";
    int r;

    if (proxy) {
        skipped(p, "tcp", "requests may go through a proxy: https_proxy");
        return 0;
    }
    split_server(p->connection.kubeconfig.server, &host, &port);
    r = resolve(host, port, &list);
    if (r != 0) {
        (void)nc_err_set(&p->err, NC_ERR_TRANSIENT, EHOSTUNREACH, "%s: %s", host, gai_strerror(r));
        return failed(p, "dns", "check /etc/resolv.conf, the VPC's DNS and the endpoint's name");
    }
    write_address(list, text);
    ok(p, "dns", "%s is %s", host, text);
    r = check_tcp(p, list, port);
    freeaddrinfo(list);
    return r;
}

static struct nc_value *read_json(const struct preflight *p, const char *path) {
    nc_auto_free char *below = nc_app_path(p->app, path);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_value *tree = NULL;

    if (nc_file_read(below, CONFIG_MAX_BYTES, &text, NULL) >= 0)
        (void)nc_json_parse(text.data, text.len, &tree, NULL);
    return tree;
}

static void check_name(struct preflight *p, const char *username) {
    nc_auto_value struct nc_value *status = read_json(p, NC_STATUS_FILE);
    nc_auto_free char *expected = NULL;
    const char *name = p->app->opts.node_name;

    /* The name that this node registers under is the plan's; the last bootstrap has left it. */
    if (!name)
        name = nc_value_get_string(status, "node");
    if (!name)
        name = p->facts.local_hostname;
    if (!name) {
        skipped(p, "identity", "the node's name is not known");
        return;
    }
    expected = nc_asprintf("system:node:%s", name);
    if (nc_streq(username, expected)) {
        ok(p, "identity", "the API server knows us as %s", username);
        return;
    }
    (void)nc_refuse_identity(username, expected, &p->err);
    (void)failed(p, "identity", p->err.remedy);
}

static void check_api(struct preflight *p) {
    nc_cleanup(nc_identity_done) struct nc_identity who = {0};
    struct nc_kube_status status = {0};

    const int r = nc_kube_whoami(p->connection.kube, TIMEOUT_USEC, &who, &status, &p->err);

    if (status.date_usec > 0) {
        p->skew_usec = (int64_t)status.date_usec - (int64_t)status.received_usec;
        p->whose_clock = "the API server's";
    }
    if (status.http != 0)
        ok(p, "tls", "the certificate is the one of the cluster's CA");
    if (r < 0) {
        nc_advise_connection(&p->gather, &p->connection, &status, &p->err);
        (void)failed(p, status.http == 0 && p->err.class == NC_ERR_AUTH ? "tls" : "api",
                     NC_CHECK_MAPPING);
        return;
    }
    ok(p, "api", "%s answers", p->connection.kubeconfig.server);
    if (!p->connection.is_bootstrap)
        check_name(p, who.username);
}

static void check_cluster(struct preflight *p) {
    const char *path = p->app->opts.kubeconfig ? p->app->opts.kubeconfig : NC_KUBECONFIG;
    const bool is_configured = p->has_config && !p->app->opts.kubeconfig
                               && p->gather.config.auth != NC_AUTH_KUBECONFIG
                               && nc_connect_check(p->app, path, NULL) == NC_CREDENTIALS_NO_FILE;

    if ((is_configured ? nc_connect_configured(&p->gather, &p->connection, &p->err)
                       : nc_connect(p->app, path, p->imds, &p->connection, &p->err))
        < 0) {
        (void)failed(p, "kubeconfig",
                     "run `nodeclaimd bootstrap --skip start` first: it writes the file");
        return;
    }
    if (is_configured)
        skipped(p, "kubeconfig", "no bootstrap has written it yet: the documents are tried");
    else
        ok(p, "kubeconfig", "%s", path);
    if (nc_connection_makes_tokens(&p->connection) && (!p->imds || check_credentials(p) < 0))
        return;
    if (check_route(p) >= 0)
        check_api(p);
}

/* kubelet's base and the user's part, which goes before it. */
static struct nc_value *read_kubelet_config(const struct preflight *p) {
    struct nc_value *base = read_json(p, "/etc/kubernetes/kubelet/config.json");
    nc_auto_value struct nc_value *own =
        read_json(p, "/etc/kubernetes/kubelet/config.json.d/40-nodeclaimd.conf");

    if (base && own)
        nc_value_merge_patch(base, own);
    return base;
}

static void check_host(struct preflight *p) {
    nc_cleanup(nc_strv_done) struct nc_strv sentences = NC_STRV_INIT;
    struct nc_plan plan = NC_PLAN_INIT;

    if (nc_probe_host(p->app->opts.root, "/usr/bin/kubelet", &p->facts, &p->err) < 0) {
        (void)failed(p, "host",
                     "install kubelet, or write its version to /etc/nodeclaimd/kubelet-version");
        return;
    }
    ok(p, "host", "kubelet %s, %lld CPUs",
       p->facts.kubelet_version ? p->facts.kubelet_version : "of unknown version",
       (long long)p->facts.cpus);
    plan.kubelet_effective = read_kubelet_config(p);
    if (!plan.kubelet_effective) {
        skipped(p, "sysctl", "kubelet's configuration is not there yet");
        return;
    }
    nc_check_sysctls(&p->facts, &plan, &sentences);
    for (size_t i = 0; i < sentences.n; i++)
        nc_preflight_line(&p->out, "sysctl", "warning", sentences.v[i],
                          "set it in /etc/sysctl.d, or protectKernelDefaults: false");
    if (sentences.n == 0)
        ok(p, "sysctl", "nothing that kubelet would refuse");
    nc_plan_done(&plan);
}

static void check_nodeadm(struct preflight *p) {
    if (nc_nodeadm_check(p->app->opts.root, &p->err) < 0)
        (void)failed(p, "nodeadm", "check the folders of unit files");
    else
        ok(p, "nodeadm", "none of its units that make a node is enabled");
}

/* Only where our drop-in requests a time. */
static void check_logind(struct preflight *p) {
    uint64_t usec = 0;

    if (!nc_logind_is_short(p->app->opts.root, 0, &p->err))
        return;
    if (nc_logind_delay(&usec, &p->err) < 0)
        skipped(p, "logind", p->err.msg);
    else if (nc_logind_is_short(p->app->opts.root, usec, &p->err))
        nc_preflight_line(&p->out, "logind", "warning", p->err.msg, p->err.remedy);
    else
        ok(p, "logind", "waits %.1f s at a shutdown", (double)usec / 1e6);
}

int nc_command_preflight(struct nc_app *app) {
    struct preflight p = {.app = app, .out = {.is_json = app->opts.json}, .gather = {.app = app}};

    if (app->opts.image)
        return nc_preflight_image(app);
    if (nc_app_loop(app, &p.err) < 0)
        return nc_app_fail(app, &p.err);
    if (check_imds(&p) >= 0)
        check_config(&p);
    check_host(&p);
    check_logind(&p);
    check_nodeadm(&p);
    check_cluster(&p);
    check_clock(&p);
    nc_connection_done(&p.connection);
    p.gather.imds = NULL;
    nc_gather_done(&p.gather);
    nc_imds_free(p.imds);
    nc_facts_done(&p.facts);
    return nc_preflight_end(&p.out);
}
