/*
 * Configuration: the merged tree as a struct, defaults filled in, and what a bootstrap cannot do
 * without demanded.
 *
 * Types and values were checked document by document; here come the rules that only all of it
 * together can break. Every refusal names the place of the value that caused it.
 */
#include <errno.h>

#include "config-priv.h"
#include "nc/encode.h"
#include "nc/str.h"
#include "nc/time.h"
#include "schema.h"
#include "shapes.h"

#define SECOND ((uint64_t)1000000)

void nc_config_set_defaults(struct nc_config *c) {
    c->drain = nc_drain_defaults;
    c->report_console = c->report_events = c->report_node = c->claim_lookup = true;
}

#define AT(member) offsetof(struct nc_config, member)

void nc_config_done(struct nc_config *c) {
    static const unsigned short texts[] = {
        AT(cluster_name),       AT(endpoint),     AT(ca_pem),       AT(cidr),
        AT(client_certificate), AT(client_key),   AT(kubeconfig),   AT(name_override),
        AT(provider_id),        AT(kubelet_unit), AT(kubelet_path), AT(max_pods_expression),
        AT(ec2_endpoint),       AT(sts_endpoint), AT(domain)};

    nc_free_texts(c, texts, NC_ARRAY_SIZE(texts));
    nc_secret_free(c->bootstrap_token);
    nc_config_wipe_token(c->tree);
    nc_value_free(c->tree);
    nc_value_free(c->kubelet);
    nc_value_free(c->planned);
    nc_value_free(c->kube_reserved);
    nc_value_free(c->system_reserved);
    nc_labels_free(c->labels, c->n_labels);
    nc_labels_free(c->labels_from, c->n_labels_from);
    nc_taints_free(c->taints, c->n_taints);
    nc_strv_done(&c->kubelet_flags);
    free(c->kubelet_flag_marks);
    nc_claim_done(&c->claim);
    nc_fit_settings_done(&c->fit);
    nc_host_config_done(&c->host);
    nc_strv_done(&c->unsupported);
    nc_strv_done(&c->warnings);
    *c = (struct nc_config)NC_CONFIG_INIT;
}

static const struct nc_value *at(const struct nc_config *c, const char *path) {
    return nc_value_path(c->tree, path);
}

static char *text_at(const struct nc_config *c, const char *path) {
    return nc_strdup(nc_value_string(at(c, path)));
}

/* 1 + index of the value in names; `otherwise` where there is none. */
static int pick(const struct nc_config *c, const char *path, const char *names, int otherwise) {
    const struct nc_value *v = at(c, path);
    const char *text = !nc_value_bool(v, true) ? "off" : nc_value_string(v); /* YAML's off */

    const int i = nc_which_of(text, names);

    return i >= 0 ? i + 1 : otherwise;
}

static bool bool_at(const struct nc_config *c, const char *path, bool otherwise) {
    return nc_value_bool(at(c, path), otherwise);
}

static uint64_t duration_at(const struct nc_config *c, const char *path, uint64_t otherwise) {
    const char *text = nc_value_string(at(c, path));
    uint64_t usec = 0;

    return text && nc_duration_parse(text, &usec) == 0 ? usec : otherwise;
}

static struct nc_value *copy_at(const struct nc_config *c, const char *path) {
    const struct nc_value *v = at(c, path);

    return v && v->type == NC_VALUE_MAP && v->n > 0 ? nc_value_copy(v) : NULL;
}

/* The place to blame for something that is missing: the first document that says anything about the
 * cluster, else what is a document by all but its type. */
static struct nc_mark blame(const struct nc_documents *d) {
    for (size_t i = 0; i < d->n_docs; i++) {
        const struct nc_value *cluster = nc_value_path(d->docs[i].tree, "spec.cluster");
        if (cluster)
            return cluster->mark;
    }
    return d->mistyped.line > 0 ? d->mistyped : (struct nc_mark){.source = d->docs[0].source};
}

static int missing(const struct nc_documents *d, const char *path, const char *why,
                   struct nc_err *err) {
    const struct nc_mark mark = blame(d);
    const bool is_mistyped =
        mark.line > 0 && mark.line == d->mistyped.line && mark.source == d->mistyped.source;
    /* what was found instead: a script, say */
    const char *more = is_mistyped ? why : d->found.n > 0 ? d->found.v[0] : NULL;
    nc_auto_free char *message = nc_asprintf("is missing: %s%s%s", is_mistyped ? NC_MISTYPED : why,
                                             more ? "; " : "", more ? more : "");
    const int r = nc_diag_err(d, mark, path, message, err);

    nc_err_remedy(err, is_mistyped ? "correct the Content-Type"
                                   : "give it in a NodeConfig or AgentConfig document of the user "
                                     "data or of /etc/nodeclaimd/conf.d");
    if (err)
        err->code = -NC_CONFIG_MISSING;
    return r;
}

/* What a cluster needs and has not: the first, and the names of the others. */
struct needs {
    const char *path, *why;
    struct nc_buf others;
};

static void need(struct needs *n, bool is_there, const char *path, const char *why) {
    if (is_there)
        return;
    if (n->path)
        (void)nc_buf_printf(&n->others, "; %s is missing, too", path);
    else
        *n = (struct needs){.path = path, .why = why};
}

/* A setting that does not go with another one: the place is that of the setting. */
static int conflict(const struct nc_documents *d, const struct nc_config *c, const char *path,
                    const char *why, struct nc_err *err) {
    const struct nc_value *v = at(c, path);

    return nc_diag_err(d, v ? v->mark : blame(d), path, why, err);
}

static void apply_labels(const struct nc_config *c, const char *path, struct nc_label **ret,
                         size_t *ret_n) {
    const struct nc_value *map = at(c, path);
    const struct nc_member *m;

    for (size_t i = 0; (m = nc_value_member(map, i)); i++) {
        char buffer[32];
        const char *text = nc_value_scalar_text(m->value, buffer);
        struct nc_label *l = nc_append(ret, ret_n);

        l->key = nc_strdup(m->key);
        l->value = nc_strdup(text ? text : "");
        l->mark = m->value->mark;
    }
}

static void apply_taints(struct nc_config *c) {
    const struct nc_value *list = at(c, "spec.node.taints"), *item;

    for (size_t i = 0; (item = nc_value_item(list, i)); i++) {
        const char *value = nc_value_get_string(item, "value");
        struct nc_taint *t = nc_append(&c->taints, &c->n_taints);

        t->key = nc_strdup(nc_value_get_string(item, "key"));
        t->value = nc_strdup(value ? value : "");
        t->effect = nc_strdup(nc_value_get_string(item, "effect"));
        t->mark = item->mark;
    }
}

/* The mode that is written, or that which the given credentials imply. */
static int apply_auth(const struct nc_documents *d, struct nc_config *c, struct nc_err *err) {
    int implied = 0;
    int kinds = 0;

    c->client_certificate = text_at(c, "spec.cluster.auth.clientCertificate");
    c->client_key = text_at(c, "spec.cluster.auth.clientKey");
    c->bootstrap_token = text_at(c, "spec.cluster.auth.bootstrapToken");
    c->kubeconfig = text_at(c, "spec.cluster.auth.kubeconfig");
    if (c->client_certificate || c->client_key)
        implied = NC_AUTH_CLIENT_CERTIFICATE, kinds++;
    if (c->bootstrap_token)
        implied = NC_AUTH_BOOTSTRAP_TOKEN, kinds++;
    if (c->kubeconfig)
        implied = NC_AUTH_KUBECONFIG, kinds++;
    c->auth = (enum nc_auth_mode)pick(c, "spec.cluster.auth.mode", nc_auth_mode_names,
                                      kinds ? implied : NC_AUTH_EKS);
    if (kinds > 1 && !at(c, "spec.cluster.auth.mode"))
        return conflict(d, c, "spec.cluster.auth",
                        "several credentials are given: choose one by mode", err);
    if (c->auth == NC_AUTH_CLIENT_CERTIFICATE && !c->client_certificate)
        return missing(d, "spec.cluster.auth.clientCertificate", "mode client-certificate needs it",
                       err);
    if (c->auth == NC_AUTH_CLIENT_CERTIFICATE && !c->client_key)
        return missing(d, "spec.cluster.auth.clientKey", "mode client-certificate needs it", err);
    if (c->auth == NC_AUTH_BOOTSTRAP_TOKEN && !c->bootstrap_token)
        return missing(d, "spec.cluster.auth.bootstrapToken", "mode bootstrap-token needs it", err);
    if (c->auth == NC_AUTH_KUBECONFIG && !c->kubeconfig)
        return missing(d, "spec.cluster.auth.kubeconfig", "mode kubeconfig needs it", err);
    return 0;
}

static bool has_cluster_dns(const struct nc_config *c) {
    const struct nc_value *list = at(c, "spec.kubelet.config.clusterDNS");

    for (size_t i = 0; i < c->kubelet_flags.n; i++)
        if (nc_streq(c->kubelet_flags.v[i], "--cluster-dns")
            || nc_starts_with(c->kubelet_flags.v[i], "--cluster-dns="))
            return true;
    return list && list->type == NC_VALUE_LIST && list->n > 0;
}

static int apply_authority(const struct nc_documents *d, struct nc_config *c, struct nc_err *err) {
    const struct nc_value *ca = at(c, "spec.cluster.certificateAuthority");
    const char *text = nc_value_string(ca);
    nc_cleanup(nc_buf_done) struct nc_buf pem = NC_BUF_INIT;

    if (!text)
        return 0;
    (void)nc_base64_decode(text, strlen(text), &pem);
    c->ca_pem = nc_buf_steal(&pem);
    if (nc_shape_pem_certificates(c->ca_pem, strlen(c->ca_pem)))
        return 0;
    const int r = nc_diag_err(d, ca->mark, "spec.cluster.certificateAuthority",
                              "is base64, but of no PEM file of certificates (-----BEGIN "
                              "CERTIFICATE----- …): no API server could be trusted",
                              err);
    nc_err_remedy(err, "copy it from the cluster's certificateAuthority.data");
    return r;
}

static int apply_cluster(const struct nc_documents *d, struct nc_config *c, struct nc_err *err) {
    int r = apply_auth(d, c, err);

    if (r < 0)
        return r;
    if (bool_at(c, "spec.cluster.enableOutpost", false)) {
        r = conflict(d, c, "spec.cluster.enableOutpost",
                     "local clusters on AWS Outposts are not supported", err);
        nc_err_remedy(err, "use an image with nodeadm for nodes of a local cluster on an Outpost");
        return r;
    }
    c->cluster_name = text_at(c, "spec.cluster.name");
    c->endpoint = text_at(c, "spec.cluster.apiServerEndpoint");
    c->cidr = text_at(c, "spec.cluster.cidr");
    r = apply_authority(d, c, err);
    if (r < 0)
        return r;
    struct needs needs = {0};
    need(&needs, c->cluster_name || c->auth != NC_AUTH_EKS, "spec.cluster.name",
         "the token for EKS names it");
    need(&needs, c->endpoint || c->auth == NC_AUTH_KUBECONFIG, "spec.cluster.apiServerEndpoint",
         "kubelet must know where the API server is");
    need(&needs, c->ca_pem || c->auth == NC_AUTH_KUBECONFIG, "spec.cluster.certificateAuthority",
         "kubelet trusts the API server by it");
    need(&needs, c->cidr || has_cluster_dns(c), "spec.cluster.cidr",
         "without it, and without spec.kubelet.config.clusterDNS, pods have no DNS");
    if (!needs.path)
        return 0;
    nc_auto_free char *others = nc_buf_steal(&needs.others);
    nc_auto_free char *why = nc_asprintf("%s%s", needs.why, others ? others : "");
    return missing(d, needs.path, why, err);
}

static int apply_max_pods(const struct nc_documents *d, struct nc_config *c, struct nc_err *err) {
    int implied = NC_MAX_PODS_ENI;

    c->max_pods_expression = text_at(c, "spec.maxPods.expression");
    if (!c->max_pods_expression)
        c->max_pods_expression = text_at(c, "spec.kubelet.maxPodsExpression");
    c->max_pods_value = nc_value_int(at(c, "spec.maxPods.value"), c->max_pods_value);
    c->max_pods_at_most = nc_value_int(at(c, "spec.maxPods.atMost"), c->max_pods_at_most);
    if (c->max_pods_expression)
        implied = NC_MAX_PODS_EXPRESSION;
    if (c->max_pods_value > 0)
        implied = NC_MAX_PODS_EXPLICIT;
    c->max_pods_mode =
        (enum nc_max_pods_mode)pick(c, "spec.maxPods.mode", nc_max_pods_mode_names, implied);
    if (c->max_pods_mode == NC_MAX_PODS_EXPRESSION && !c->max_pods_expression)
        return conflict(d, c, "spec.maxPods.mode", "expression needs spec.maxPods.expression", err);
    if (c->max_pods_mode == NC_MAX_PODS_EXPLICIT && c->max_pods_value <= 0)
        return conflict(d, c, "spec.maxPods.mode", "explicit needs spec.maxPods.value", err);
    return 0;
}

/* A half that is left out follows the other: the pair that kubelet 1.34 gets from nodeadm is 2m30s
 * and 30s. */
static int apply_shutdown(const struct nc_documents *d, struct nc_config *c, struct nc_err *err) {
    c->has_shutdown =
        at(c, "spec.shutdown.gracePeriod") || at(c, "spec.shutdown.gracePeriodCriticalPods");
    if (!c->has_shutdown)
        return 0;
    c->shutdown_usec = duration_at(c, "spec.shutdown.gracePeriod", 150 * SECOND);
    c->shutdown_critical_usec =
        duration_at(c, "spec.shutdown.gracePeriodCriticalPods",
                    c->shutdown_usec < 30 * SECOND ? c->shutdown_usec : 30 * SECOND);
    if (c->shutdown_critical_usec > c->shutdown_usec)
        return conflict(d, c, "spec.shutdown.gracePeriodCriticalPods",
                        "is a part of gracePeriod and cannot exceed it", err);
    if (c->shutdown_usec > 0 && c->shutdown_usec < SECOND)
        return conflict(d, c, "spec.shutdown.gracePeriod", "kubelet accepts 0 or at least 1s", err);
    return 0;
}

static void apply_node_settings(struct nc_config *c) {
    bool by_id = bool_at(c, "spec.featureGates.InstanceIdNodeName", false);

    c->naming = (enum nc_naming)pick(c, "spec.node.name", nc_naming_names,
                                     by_id ? NC_NAMING_INSTANCE_ID : NC_NAMING_PRIVATE_DNS);
    c->name_override = text_at(c, "spec.node.nameOverride");
    c->provider_id = text_at(c, "spec.node.providerID");
    apply_labels(c, "spec.node.labels", &c->labels, &c->n_labels);
    apply_labels(c, "spec.node.labelsFrom", &c->labels_from, &c->n_labels_from);
    apply_taints(c);
}

static void apply_kubelet(struct nc_config *c) {
    c->kubelet = copy_at(c, "spec.kubelet.config");
    c->start = (enum nc_kubelet_start)pick(c, "spec.kubelet.start", nc_kubelet_start_names,
                                           NC_START_SYSTEMD);
    c->kubelet_unit = text_at(c, "spec.kubelet.unit");
    if (!c->kubelet_unit)
        c->kubelet_unit = nc_strdup("kubelet.service");
    c->kubelet_path = text_at(c, "spec.kubelet.path");
    if (!c->kubelet_path)
        c->kubelet_path = nc_strdup("/usr/bin/kubelet");
    c->reservation = (enum nc_reservation)pick(c, "spec.reservation.policy", nc_reservation_names,
                                               NC_RESERVATION_KARPENTER);
    c->kube_reserved = copy_at(c, "spec.reservation.kubeReserved");
    c->system_reserved = copy_at(c, "spec.reservation.systemReserved");
}

static int check_most(const struct nc_documents *d, const struct nc_config *c,
                      const struct nc_drain_setting *s, uint64_t usec, struct nc_err *err) {
    uint64_t most_usec = UINT64_MAX;
    nc_auto_free char *why = NULL;

    if (!*s->most || nc_duration_parse(s->most, &most_usec) < 0 || usec <= most_usec)
        return 0;
    why = nc_asprintf("must be at most %s", s->most);
    return conflict(d, c, s->path, why, err);
}

static int apply_drain(const struct nc_documents *d, struct nc_config *c, struct nc_err *err) {
    int r = 0;

    for (const struct nc_drain_setting *s = nc_drain_setting_rows; r >= 0 && *s->path; s++) {
        void *to = (char *)&c->drain + s->offset;
        switch (s->type) {
        case NC_SETTING_POLICY:
            *(enum nc_policy *)to =
                (enum nc_policy)pick(c, s->path, nc_policy_names, (int)*(enum nc_policy *)to);
            break;
        case NC_SETTING_MODE:
            *(enum nc_drain_mode *)to = (enum nc_drain_mode)pick(c, s->path, nc_drain_mode_names,
                                                                 (int)*(enum nc_drain_mode *)to);
            break;
        case NC_SETTING_DURATION:
            *(uint64_t *)to = duration_at(c, s->path, *(uint64_t *)to);
            r = check_most(d, c, s, *(uint64_t *)to, err);
            break;
        case NC_SETTING_BOOL:
            *(bool *)to = bool_at(c, s->path, *(bool *)to);
            break;
        }
    }
    return r;
}

static void apply_surroundings(struct nc_config *c) {
    nc_fit_config_fill(c);
    c->report_console = bool_at(c, "spec.report.console", c->report_console);
    c->report_events = bool_at(c, "spec.report.events", c->report_events);
    c->report_node = bool_at(c, "spec.report.node", c->report_node);
    c->ec2 = (enum nc_ec2_use)pick(c, "spec.aws.ec2", nc_ec2_use_names, NC_EC2_AUTO);
    c->ec2_endpoint = text_at(c, "spec.aws.ec2Endpoint");
    c->sts_endpoint = text_at(c, "spec.aws.stsEndpoint");
    c->domain = text_at(c, "spec.aws.domain");
    c->claim_lookup = pick(c, "spec.claim.lookup", nc_claim_lookup_names, 1) == 1;
}

/* --- what is not honoured */

int nc_config_unsupported(const struct nc_documents *d, const struct nc_config *c,
                          const struct nc_diagnostic *g, struct nc_strv *noted,
                          struct nc_err *err) {
    static const int warn = 2;
    nc_auto_free char *place = nc_mark_location(d, g->mark);
    int r;

    if (pick(c, "spec.bootstrap.unsupported", nc_unsupported_names, 1) == warn) {
        nc_strv_addf(noted, "%s: %s: %s", place, g->path, g->message);
        return 0;
    }
    r = nc_diag_err(d, g->mark, g->path, g->message, err);
    nc_err_remedy(err, "change it; or set spec.bootstrap.unsupported: warn in an AgentConfig, and "
                       "the node starts without it");
    return r;
}

static int check_unsupported(const struct nc_documents *d, struct nc_config *c,
                             struct nc_err *err) {
    int r = 0;

    for (size_t i = 0; r >= 0 && i < d->n_diags; i++)
        if (d->diags[i].kind == NC_DIAGNOSTIC_UNSUPPORTED)
            r = nc_config_unsupported(d, c, &d->diags[i], &c->unsupported, err);
    return r;
}

static int nothing_found(const struct nc_documents *d, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf found = NC_BUF_INIT;
    int r = 0;

    for (size_t i = 0; i < d->found.n && i < 4; i++)
        (void)nc_buf_printf(&found, "%s%s", i ? "; " : ": ", d->found.v[i]);
    if (d->found.n > 4)
        (void)nc_buf_printf(&found, "; and %zu more", d->found.n - 4);
    r = nc_err_set(err, NC_ERR_CONFIG, ENODATA, "no configuration for this node%s",
                   found.data ? found.data : "");
    nc_err_remedy(err, "send a NodeConfig as a MIME part of type application/node.eks.aws "
                       "(Karpenter does so under "
                       "amiFamily: AL2023), or put a document into /etc/nodeclaimd/conf.d");
    return r;
}

static int refuse(const struct nc_documents *d, struct nc_err *err) {
    size_t first = 0;
    int r = nc_documents_first_error(d, err);

    while (!d->diags[first].is_error)
        first++;
    if (d->diags[first].mark.line == 0)
        nc_err_remedy(
            err, "check what the launch template or the EC2NodeClass really sends as user data");
    else
        nc_err_remedy(err, "correct the document; nodeclaimd check names all that is wrong");
    return r;
}

/* What both read of the documents: what is wrong in them, and all laid over one another. */
static int merge(const struct nc_documents *d, struct nc_config *c, struct nc_err *err) {
    nc_config_set_defaults(c);
    if (nc_documents_errors(d) > d->n_aside)
        return refuse(d, err);
    if (d->n_docs == 0)
        return nothing_found(d, err);
    return nc_config_merge(d, c, err);
}

int nc_config_build(const struct nc_documents *d, struct nc_config *ret, struct nc_err *err) {
    nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
    int r = merge(d, &c, err);

    if (r >= 0)
        r = apply_cluster(d, &c, err);
    if (r >= 0)
        r = apply_max_pods(d, &c, err);
    if (r >= 0)
        r = apply_shutdown(d, &c, err);
    if (r >= 0)
        r = apply_drain(d, &c, err);
    if (r < 0)
        return r;
    apply_node_settings(&c);
    apply_kubelet(&c);
    apply_surroundings(&c);
    nc_host_config_fill(d, &c);
    r = check_unsupported(d, &c, err);
    if (r < 0)
        return r;
    *ret = c;
    c = (struct nc_config)NC_CONFIG_INIT;
    return 0;
}

int nc_config_policies(const struct nc_documents *d, struct nc_config *ret, struct nc_err *err) {
    nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
    int r = merge(d, &c, err);

    if (r >= 0)
        r = apply_drain(d, &c, err);
    if (r < 0)
        return r;
    apply_surroundings(&c);
    *ret = c;
    c = (struct nc_config)NC_CONFIG_INIT;
    return 0;
}
