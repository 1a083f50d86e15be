/*
 * Before anything is written: prove that the API server can be reached with this CA, that it knows
 * us, under which name, and that no other instance's Node has this name.
 *
 * A token for the wrong name makes a node that registers as one and may modify another: it is found
 * here, in words, not in kubelet's log afterwards.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/image.h"
#include "nc/names.h"
#include "nc/str.h"

#define REQUEST_TIMEOUT_USEC 2000000u
#define CLAIM_TIMEOUT_USEC 1500000u
#define SKEW_WORTH_SAYING_SEC 60

void nc_check_sysctls(const struct nc_facts *f, const struct nc_plan *p,
                      struct nc_strv *sentences) {
    if (!nc_value_bool(nc_value_get(p->kubelet_effective, "protectKernelDefaults"), false))
        return;
    for (size_t k = 0; k < NC_KUBELET_SYSCTLS; k++)
        for (size_t i = 0; i < f->n_sysctls; i++)
            if (nc_streq(f->sysctls[i].name, nc_kubelet_sysctls[k].name)
                && !nc_streq(f->sysctls[i].value, nc_kubelet_sysctls[k].value))
                nc_strv_addf(sentences,
                             "sysctl %s is %s, kubelet will refuse to start with "
                             "protectKernelDefaults unless it is %s",
                             f->sysctls[i].name, f->sysctls[i].value, nc_kubelet_sysctls[k].value);
}

/* The connection to the API server, from memory; where the kubeconfig is the user's, or kubelet has
 * made its own already, from that file. */
static int open_connection(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_config *c = &b->gather.config;
    const char *path = b->app->opts.kubeconfig;

    if (b->connection.kube)
        return 0;
    if (!path && c->auth == NC_AUTH_KUBECONFIG)
        path = c->kubeconfig;
    if (!path && c->auth == NC_AUTH_BOOTSTRAP_TOKEN
        && nc_connect_check(b->app, NC_KUBECONFIG, NULL) == NC_CREDENTIALS_THERE)
        path = NC_KUBECONFIG;
    return path ? nc_connect(b->app, path, b->gather.imds, &b->connection, err)
                : nc_connect_configured(&b->gather, &b->connection, err);
}

/* What the API server's clock says of ours. */
static void check_clock_skew(struct nc_bootstrap *b, const struct nc_kube_status *status) {
    nc_auto_free char *text = nc_kube_clock_text(status);

    if (llabs(nc_kube_ahead_sec(status)) >= SKEW_WORTH_SAYING_SEC)
        nc_strv_add_once(&b->report.warnings, text);
}

/* Where it is not the clock, what else a 401 comes of. */
static void add_role(const struct nc_connection *c, const struct nc_kube_status *status,
                     struct nc_err *err) {
    const long long seconds = llabs(nc_kube_ahead_sec(status));

    if (status->http == 401 && c->credentials.role && seconds < NC_KUBE_SKEW_REFUSED_SEC)
        nc_err_remedy(err,
                      "check that the cluster at %.64s is %.64s; then let the instance's role, "
                      "%.64s, in (access entry of type EC2_LINUX, or aws-auth)%s",
                      c->kubeconfig.server, c->audience.cluster, c->credentials.role,
                      seconds >= SKEW_WORTH_SAYING_SEC ? "; then set the clock"
                      : status->date_usec              ? "; the clock is right"
                                                       : "");
}

/* What the remedy says to check is in a document, unless a kubeconfig has it. */
static void add_source(const struct nc_gather *g, struct nc_err *err) {
    static const struct {
        const char *what, *path;
    } fields[] = {{"certificate authority", "spec.cluster.certificateAuthority"},
                  {"API server's endpoint", "spec.cluster.apiServerEndpoint"}};

    if (g->app->opts.kubeconfig || g->config.auth == NC_AUTH_KUBECONFIG)
        return;
    for (size_t i = 0; i < NC_ARRAY_SIZE(fields); i++) {
        const struct nc_value *v = nc_value_path(g->config.tree, fields[i].path);
        nc_auto_free char *place = v ? nc_mark_location(&g->documents, v->mark) : NULL;
        if (!place || !strstr(err->remedy, fields[i].what))
            continue;
        nc_err_remedy(err, "%s; %s is in %s", err->remedy, fields[i].path + strlen("spec.cluster."),
                      place);
        if (err->class != NC_ERR_TRANSIENT) /* the network's, or the server's */
            nc_remedy_by_source(err, place);
        return;
    }
}

void nc_advise_connection(const struct nc_gather *g, const struct nc_connection *c,
                          const struct nc_kube_status *status, struct nc_err *err) {
    add_role(c, status, err);
    add_source(g, err);
}

int nc_refuse_identity(const char *username, const char *expected, struct nc_err *err) {
    const int r = nc_err_set(err, NC_ERR_AUTH, 403,
                             "the API server knows us as %s, but this node registers as %s",
                             username, expected);

    nc_err_remedy(err,
                  "map the node role to %s, or choose the node name that the mapping gives "
                  "(spec.node.name; InstanceIdNodeName)",
                  expected);
    return r;
}

static int check_identity(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_identity_done) struct nc_identity who = {0};
    nc_auto_free char *expected = nc_asprintf("system:node:%s", b->gather.plan.node_name);
    struct nc_kube_status status = {0};
    int r = nc_kube_whoami(b->connection.kube, nc_app_timeout(b->app, REQUEST_TIMEOUT_USEC), &who,
                           &status, err);

    check_clock_skew(b, &status);
    if (r < 0) {
        nc_advise_connection(&b->gather, &b->connection, &status, err);
        return r;
    }
    b->is_connected = true;
    if (b->connection.is_bootstrap || nc_streq(who.username, expected))
        return 0;
    return nc_refuse_identity(who.username, expected, err);
}

const struct nc_claim *nc_bootstrap_claim(const struct nc_bootstrap *b) {
    const struct nc_plan_input in = nc_gather_input(&b->gather, b->claim.name ? &b->claim : NULL);

    return nc_plan_claim(&in);
}

int nc_check_node_is_ours(const struct nc_bootstrap *b, const struct nc_value *node,
                          struct nc_err *err) {
    const char *provider_id = nc_value_path_string(node, "spec.providerID");
    int r;

    if (!provider_id || nc_streq(provider_id, b->gather.plan.provider_id))
        return 0;
    r = nc_err_set(err, NC_ERR_PROTOCOL, EEXIST,
                   "a Node of this name has providerID %.80s, not %s: it belongs to another "
                   "instance",
                   provider_id, b->gather.plan.provider_id);
    nc_err_remedy(err, "delete the stale Node %s", b->gather.plan.node_name);
    return r;
}

/* kubelet registers once in its life. One that is started while another instance's Node stands
 * under our name takes it over, keeps it Ready, so that no controller deletes it, and is not
 * observed again once somebody does. A Node that cannot be read is in nobody's way: kubelet will
 * say. */
static int check_name_is_free(struct nc_bootstrap *b, struct nc_err *err) {
    nc_auto_free char *path = nc_kube_node_path(b->gather.plan.node_name, NULL);
    nc_auto_value struct nc_value *node = NULL;
    const struct nc_kube_call call = {.what = "get node",
                                      .method = "GET",
                                      .path = path,
                                      .timeout_usec = nc_app_timeout(b->app, REQUEST_TIMEOUT_USEC)};
    struct nc_kube_status status = {0};
    struct nc_err own = NC_ERR_INIT;
    int r;

    if (b->connection.is_bootstrap) /* a bootstrap token reads no Node */
        return 0;
    r = nc_kube_perform(b->connection.kube, &call, &node, &status, &own);
    if (r >= 0)
        return nc_check_node_is_ours(b, node, err);
    /* No answer, or a certificate that the one before did not show: it is asked again. */
    if (own.class != NC_ERR_TRANSIENT && (own.class != NC_ERR_AUTH || status.http != 0))
        return 0;
    *err = own;
    return r;
}

/* What is known of our claim's labels before it was read: Karpenter sets these before the claim
 * has a providerID. Borrowed. */
static size_t selecting_labels(const struct nc_facts *f, char *node_pool,
                               struct nc_label ret[static 3]) {
    const struct nc_label known[] = {
        {.key = (char *)NC_LABEL_NODE_POOL, .value = node_pool},
        {.key = (char *)NC_LABEL_INSTANCE_TYPE, .value = f->instance_type},
        {.key = (char *)NC_LABEL_ZONE, .value = f->az},
    };
    size_t n = 0;

    for (size_t i = 0; i < NC_ARRAY_SIZE(known); i++)
        if (known[i].value)
            ret[n++] = known[i];
    return n;
}

/* What the claim says is planned with. Nothing waits for it, and no access to it is no error. */
static void find_claim(struct nc_bootstrap *b) {
    const struct nc_gather *g = &b->gather;
    const struct nc_plan_input in = nc_gather_input(g, NULL);
    nc_auto_free char *node_pool = NULL;
    struct nc_label labels[3];
    struct nc_claim_search search = {.provider_id = g->plan.provider_id, .labels = labels};
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (b->report.claim_uid || !g->config.claim_lookup || b->connection.is_bootstrap
        || !nc_plan_expects_claim(&in, &node_pool))
        return;
    search.n_labels = selecting_labels(&g->facts, node_pool, labels);
    search.timeout_usec = nc_app_timeout(b->app, CLAIM_TIMEOUT_USEC);
    r = nc_claim_find(b->connection.kube, &search, &b->claim, NULL, &err);
    if (r < 0)
        nc_log(NC_LOG_DEBUG, NULL, "nodeclaim: %s, continuing with the user data", err.msg);
    if (r < 0 && err.class == NC_ERR_TRANSIENT)
        nc_strv_addf(&b->report.warnings,
                     "cannot read the NodeClaim, planned from the user data: %s", err.msg);
    if (r > 0)
        nc_report_set_claim(&b->report, &b->claim, "list");
}

int nc_step_preflight(struct nc_bootstrap *b, struct nc_err *err) {
    int r = open_connection(b, err);

    if (r >= 0)
        r = check_identity(b, err);
    if (r >= 0)
        r = check_name_is_free(b, err);
    if (r >= 0)
        find_claim(b);
    return r;
}
