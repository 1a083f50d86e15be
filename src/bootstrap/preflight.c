/*
 * Before kubelet starts: prove that the API server can be reached with this CA, that it knows us,
 * under which name, and that no other instance's Node has this name.
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
#include "nc/file.h"
#include "nc/str.h"

#define CLUSTER_CA "/etc/kubernetes/pki/ca.crt"
#define REQUEST_TIMEOUT_USEC 2000000u
#define CLAIM_TIMEOUT_USEC 1500000u
#define SKEW_WORTH_SAYING_SEC 60
#define SKEW_THAT_STS_REFUSES_SEC (5 * 60) /* ahead; behind it takes three times that */

/* The sysctls that kubelet insists on with protectKernelDefaults: k8s.io/kubernetes pkg/util/sysctl
 * and pkg/kubelet/cm. */
static const struct {
    const char *name;
    const char *value;
} kubelet_sysctls[] = {{"vm.overcommit_memory", "1"},
                       {"vm.panic_on_oom", "0"},
                       {"kernel.panic", "10"},
                       {"kernel.panic_on_oops", "1"},
                       {"kernel.keys.root_maxkeys", "1000000"},
                       {"kernel.keys.root_maxbytes", "25000000"}};

static const char *sysctl_value(const struct nc_facts *f, const char *name) {
    for (size_t i = 0; i < f->n_sysctls; i++)
        if (nc_streq(f->sysctls[i].name, name))
            return f->sysctls[i].value;
    return NULL;
}

void nc_check_sysctls(const struct nc_facts *f, const struct nc_plan *p,
                      struct nc_strv *sentences) {
    const struct nc_value *protect = nc_value_get(p->kubelet_effective, "protectKernelDefaults");

    if (!protect || protect->type != NC_VALUE_BOOL || !protect->boolean)
        return;
    for (size_t i = 0; i < NC_ARRAY_SIZE(kubelet_sysctls); i++) {
        const char *value = sysctl_value(f, kubelet_sysctls[i].name);
        nc_auto_free char *text = NULL;
        if (!value || nc_streq(value, kubelet_sysctls[i].value))
            continue;
        text = nc_asprintf("sysctl %s is %s, kubelet will refuse to start with "
                           "protectKernelDefaults unless it is %s",
                           kubelet_sysctls[i].name, value, kubelet_sysctls[i].value);
        if (!nc_strv_contains(sentences, text))
            nc_strv_add(sentences, text);
    }
}

static const char *kubeconfig_path(const struct nc_bootstrap *b) {
    const struct nc_config *c = &b->gather.config;

    if (b->app->opts.kubeconfig)
        return b->app->opts.kubeconfig;
    if (c->auth == NC_AUTH_KUBECONFIG)
        return c->kubeconfig;
    if (c->auth == NC_AUTH_BOOTSTRAP_TOKEN
        && nc_connect_check(b->app, NC_KUBECONFIG, NULL) != NC_CREDENTIALS_THERE)
        return NC_BOOTSTRAP_KUBECONFIG;
    return NC_KUBECONFIG;
}

/* The seconds that the API server's clock is ahead of ours; 0 where it is not known. */
static int64_t skew_of(const struct nc_kube_status *status) {
    if (status->date_usec == 0 || status->received_usec == 0)
        return 0;
    return ((int64_t)status->date_usec - (int64_t)status->received_usec) / 1000000;
}

static void note_skew(struct nc_bootstrap *b, int64_t seconds) {
    if (llabs(seconds) >= SKEW_WORTH_SAYING_SEC) {
        nc_auto_free char *text = nc_asprintf(
            "the clock differs from the API server's by %lld s: tokens are signed with the time",
            (long long)seconds);
        if (!nc_strv_contains(&b->report.warnings, text))
            nc_strv_add(&b->report.warnings, text);
    }
}

/* A token of another time is refused like one of a role that nobody has mapped. */
static void blame_clock(const struct nc_bootstrap *b, const struct nc_kube_status *status,
                        struct nc_err *err) {
    const int64_t seconds = skew_of(status);

    if (status->http == 401 && b->gather.config.auth == NC_AUTH_EKS
        && llabs(seconds) >= SKEW_THAT_STS_REFUSES_SEC)
        nc_err_remedy(err,
                      "set the clock, tokens are signed with the time: it differs from the API "
                      "server's by %lld s; then look at the role's mapping",
                      (long long)seconds);
}

static int check_identity(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_identity_done) struct nc_identity who = {0};
    nc_auto_free char *expected = nc_asprintf("system:node:%s", b->gather.plan.node_name);
    struct nc_kube_status status = {0};
    int r = nc_kube_whoami(b->connection.kube, nc_app_timeout(b->app, REQUEST_TIMEOUT_USEC), &who,
                           &status, err);

    note_skew(b, skew_of(&status));
    if (r < 0) {
        blame_clock(b, &status, err);
        return r;
    }
    b->is_connected = true;
    if (b->connection.is_bootstrap || nc_streq(who.username, expected))
        return 0;
    r = nc_err_set(err, NC_ERR_AUTH, 403,
                   "the API server knows us as %s, but this node registers as %s", who.username,
                   expected);
    nc_err_remedy(err,
                  "map the node role to %s, or choose the node name that the mapping gives "
                  "(spec.node.name; InstanceIdNodeName)",
                  expected);
    return r;
}

/* kubelet registers once in its life. One that is started while another instance's Node stands
 * under our name takes it over, keeps it Ready, so that no controller deletes it, and is not heard
 * of again once somebody does. A Node that cannot be read is in nobody's way: kubelet will say. */
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

/* Plans and renders once more with what the claim says: its labels and taints are the node's from
 * the start then. A claim that cannot be planned with is a warning, the plan from the documents
 * stands. */
static int plan_with_claim(struct nc_bootstrap *b, struct nc_claim *found, struct nc_err *err) {
    struct nc_gather *g = &b->gather;
    struct nc_err own = NC_ERR_INIT;
    int r;

    nc_claim_done(&g->config.claim);
    g->config.claim = *found;
    *found = (struct nc_claim){0};
    g->config.has_claim_document = true;
    if (nc_gather_plan(g, &own) < 0) {
        nc_strv_addf(&b->report.warnings, "the NodeClaim is not planned with: %s", own.msg);
        g->config.has_claim_document = false;
        r = nc_gather_plan(g, err);
        if (r < 0)
            return r;
    }
    r = nc_gather_render(g, err);
    if (r >= 0)
        nc_report_take_plan(&b->report, &g->plan);
    return r;
}

/* What is known of our claim's labels before we have seen it: Karpenter sets these before the claim
 * has a providerID. Borrowed from plan and facts. */
static size_t selecting_labels(const struct nc_bootstrap *b, struct nc_label ret[static 3]) {
    const struct nc_plan *p = &b->gather.plan;
    const struct nc_facts *f = &b->gather.facts;
    size_t n = 0;

    for (size_t i = 0; i < p->n_labels; i++)
        if (nc_streq(p->labels[i].key, "karpenter.sh/nodepool"))
            ret[n++] = p->labels[i];
    if (f->instance_type)
        ret[n++] = (struct nc_label){.key = (char *)"node.kubernetes.io/instance-type",
                                     .value = f->instance_type};
    if (f->az)
        ret[n++] = (struct nc_label){.key = (char *)"topology.kubernetes.io/zone", .value = f->az};
    return n;
}

static bool wants_claim(const struct nc_bootstrap *b) {
    return !b->has_claim && !b->report.claim_uid && b->gather.plan.belongs_to_claim
           && b->gather.config.claim_lookup && !b->connection.is_bootstrap;
}

/* Nothing waits for the claim, and no access to it is no error. Returns 1 where it was found and
 * planned with. */
static int look_for_claim(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_claim_done) struct nc_claim found = {0};
    struct nc_label labels[3];
    struct nc_kube_status status = {0};
    struct nc_err own = NC_ERR_INIT;
    int r;

    if (!wants_claim(b))
        return 0;
    r = nc_claim_find(b->connection.kube, b->gather.plan.provider_id, labels,
                      selecting_labels(b, labels), nc_app_timeout(b->app, CLAIM_TIMEOUT_USEC),
                      &found, &status, &own);
    if (r < 0)
        nc_log(NC_LOG_DEBUG, NULL, "nodeclaim: %s, going on with what the user data said", own.msg);
    if (r <= 0)
        return 0;
    b->has_claim = true;
    nc_report_take_claim(&b->report, &found, "list");
    nc_requirements_check(&found, &b->gather.facts, &b->gather.plan, &b->report.warnings);
    r = plan_with_claim(b, &found, err);
    return r < 0 ? r : 1;
}

/* Is this file on disk as it is rendered? One that is not rendered is in nobody's way. */
static bool is_in_place(const struct nc_bootstrap *b, const char *path) {
    const struct nc_fileset *set = &b->gather.files;

    for (size_t i = 0; i < set->n; i++) {
        nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
        nc_auto_free char *below = NULL;
        if (!nc_streq(set->files[i].path, path))
            continue;
        below = nc_app_path(b->app, path);
        return !set->files[i].absent && nc_file_read(below, set->files[i].n, &text, NULL) >= 0
               && text.len == set->files[i].n
               && memcmp(text.data, set->files[i].data, text.len) == 0;
    }
    return true;
}

int nc_look_for_claim_early(struct nc_bootstrap *b, struct nc_err *err) {
    struct nc_err own = NC_ERR_INIT;

    if (b->app->opts.skip || !wants_claim(b) || !nc_streq(kubeconfig_path(b), NC_KUBECONFIG)
        || !is_in_place(b, NC_KUBECONFIG) || !is_in_place(b, CLUSTER_CA))
        return 0;
    if (nc_connect(b->app, NC_KUBECONFIG, b->gather.imds, &b->connection, &own) < 0) {
        nc_connection_done(&b->connection);
        return 0;
    }
    return look_for_claim(b, err);
}

int nc_step_preflight(struct nc_bootstrap *b, struct nc_err *err) {
    int r;

    if (!b->connection.kube) {
        r = nc_connect(b->app, kubeconfig_path(b), b->gather.imds, &b->connection, err);
        if (r < 0)
            return r;
    }
    r = check_identity(b, err);
    if (r >= 0)
        r = check_name_is_free(b, err);
    if (r >= 0)
        r = look_for_claim(b, err);
    return r > 0 ? nc_apply_files(b, err) : r;
}
