/*
 * Before kubelet starts: prove that the API server can be reached with this CA, that it knows us,
 * and under which name.
 *
 * A token for the wrong name makes a node that registers as one and may modify another: it is found
 * here, in words, not in kubelet's log afterwards.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/str.h"

#define REQUEST_TIMEOUT_USEC 2000000u
#define CLAIM_TIMEOUT_USEC 1500000u
#define SKEW_WORTH_SAYING_SEC 60

/* The sysctls that kubelet insists on with protectKernelDefaults: k8s.io/kubernetes pkg/util/sysctl
 * and pkg/kubelet/cm. */
static const struct {
    const char *name;
    const char *value;
} kubelet_sysctls[] = {{"vm.overcommit_memory", "1"},
                       {"vm.panic_on_oom", "0"},
                       {"kernel.panic", "10"},
                       {"kernel.panic_on_oops", "1"}};

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
    nc_auto_free char *signed_already = nc_app_path(b->app, NC_KUBECONFIG);

    if (b->app->opts.kubeconfig)
        return b->app->opts.kubeconfig;
    if (c->auth == NC_AUTH_KUBECONFIG)
        return c->kubeconfig;
    if (c->auth == NC_AUTH_BOOTSTRAP_TOKEN && access(signed_already, R_OK) < 0)
        return NC_BOOTSTRAP_KUBECONFIG;
    return NC_KUBECONFIG;
}

static void note_skew(struct nc_bootstrap *b, const struct nc_kube_status *status) {
    int64_t seconds;

    if (status->date_usec == 0 || status->received_usec == 0)
        return;
    seconds = ((int64_t)status->date_usec - (int64_t)status->received_usec) / 1000000;
    if (llabs(seconds) >= SKEW_WORTH_SAYING_SEC) {
        nc_auto_free char *text = nc_asprintf(
            "the clock differs from the API server's by %lld s: tokens are signed with the time",
            (long long)seconds);
        if (!nc_strv_contains(&b->report.warnings, text))
            nc_strv_add(&b->report.warnings, text);
    }
}

static int check_identity(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_identity_done) struct nc_identity who = {0};
    nc_auto_free char *expected = nc_asprintf("system:node:%s", b->gather.plan.node_name);
    struct nc_kube_status status = {0};
    int r = nc_kube_whoami(b->connection.kube, nc_app_timeout(b->app, REQUEST_TIMEOUT_USEC), &who,
                           &status, err);

    note_skew(b, &status);
    if (r < 0)
        return r;
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

static void take_claim(struct nc_bootstrap *b, struct nc_claim *found, const char *source) {
    nc_claim_done(&b->claim);
    b->claim = *found;
    *found = (struct nc_claim){0};
    b->has_claim = true;
    nc_report_take_claim(&b->report, &b->claim, source);
    nc_requirements_check(&b->claim, &b->gather.facts, &b->gather.plan, &b->report.warnings);
}

/* The label that a NodeClaim shares with its node for certain. Others that the user data gives the node
 * (karpenter.sh/do-not-sync-taints) are not on the claim. */
static const struct nc_label *pool_label(const struct nc_plan *p) {
    for (size_t i = 0; i < p->n_labels; i++)
        if (nc_streq(p->labels[i].key, "karpenter.sh/nodepool"))
            return &p->labels[i];
    return NULL;
}

/* The node's own pool narrows the search; nothing waits for it, and no access is no error. */
static void look_for_claim(struct nc_bootstrap *b) {
    const struct nc_label *pool = pool_label(&b->gather.plan);
    struct nc_claim found = {0};
    struct nc_kube_status status = {0};
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (b->has_claim || b->report.claim_uid || !b->gather.plan.belongs_to_claim
        || !b->gather.config.claim_lookup || b->connection.is_bootstrap)
        return;
    r = nc_claim_find(b->connection.kube, b->gather.plan.provider_id, pool, pool ? 1 : 0,
                      nc_app_timeout(b->app, CLAIM_TIMEOUT_USEC), &found, &status, &err);
    if (r > 0)
        take_claim(b, &found, "list");
    else if (r < 0)
        nc_log(NC_LOG_DEBUG, NULL, "nodeclaim: %s, going on with what the user data said", err.msg);
    nc_claim_done(&found);
}

int nc_step_preflight(struct nc_bootstrap *b, struct nc_err *err) {
    int r;

    if (!b->connection.kube) {
        r = nc_connect(b->app, kubeconfig_path(b), b->gather.imds, &b->connection, err);
        if (r < 0)
            return r;
    }
    r = check_identity(b, err);
    if (r < 0)
        return r;
    look_for_claim(b);
    return 0;
}
