/*
 * The plan as files: one function a file, all of them pure.
 *
 * Contents come from trees that the plan made; this module knows paths, modes and formats and
 * decides nothing about a node.
 */
#include "nc/mem.h"
#include "nc/str.h"

#include "fileset-priv.h"

#define KUBELET_CONFIG "/etc/kubernetes/kubelet/config.json"
#define KUBELET_DROPIN "/etc/kubernetes/kubelet/config.json.d/40-nodeclaimd.conf"
#define KUBELET_ENV "/etc/nodeclaimd/kubelet.env"
#define ECR_PROVIDER "ecr-credential-provider"
#define CREDENTIAL_PROVIDER "/etc/kubernetes/image-credential-provider.json"
/* Named so that it is read last: Debian's unattended-upgrades has a file of its own. */
#define LOGIND_CONF "/etc/systemd/logind.conf.d/zz-nodeclaimd.conf"

/* The registries that the ECR provider answers for: nodeadm's list
 * (nodeadm/internal/kubelet/image-credential-provider.go). */
static const char ecr_provider[] =
    "{\"name\":\"" ECR_PROVIDER "\",\"matchImages\":["
    "\"*.dkr.ecr.*.amazonaws.com\",\"*.dkr-ecr.*.on.aws\","
    "\"*.dkr.ecr.*.amazonaws.com.cn\",\"*.dkr-ecr.*.on.amazonwebservices.com.cn\","
    "\"*.dkr.ecr-fips.*.amazonaws.com\",\"*.dkr-ecr-fips.*.on.aws\","
    "\"*.dkr.ecr.*.c2s.ic.gov\",\"*.dkr.ecr.*.sc2s.sgov.gov\","
    "\"*.dkr.ecr.*.cloud.adc-e.uk\",\"*.dkr.ecr.*.csp.hci.ic.gov\","
    "\"*.dkr.ecr.*.amazonaws.eu\",\"public.ecr.aws\"],"
    "\"defaultCacheDuration\":\"12h\","
    "\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\"}";

static int add_kubelet_env(const struct nc_plan *p, struct nc_fileset *s, struct nc_err *err) {
    const struct nc_strv *const lists[] = {&p->flags, &p->user_flags};
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    int r;

    if (p->dropin_env_alpha)
        (void)nc_buf_puts(&text, NC_DROPIN_ENV "\n");
    (void)nc_buf_puts(&text, "NODECLAIMD_KUBELET_ARGS=");
    r = nc_env_join(lists, NC_ARRAY_SIZE(lists), &text, err);
    if (r < 0)
        return r;
    (void)nc_buf_putc(&text, '\n');
    /* kubelet's unit starts where this file is, and reads what it names. */
    nc_fileset_add_gate(s, KUBELET_ENV, 0644, &text);
    return 0;
}

static void add_ca(const struct nc_config *c, struct nc_fileset *s) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (!c->ca_pem)
        return;
    (void)nc_buf_puts(&text, c->ca_pem);
    nc_fileset_add(s, NC_CA_FILE, 0644, &text);
}

static struct nc_value *new_ecr_provider(const struct nc_plan *p) {
    struct nc_value *provider = nc_json_literal(ecr_provider);

    if (p->kubelet_minor >= 32)
        nc_value_push_string(nc_value_get(provider, "matchImages"), "ecr-public.aws.com");
    return provider;
}

/* The user's, and that of ECR where theirs is none of this name: names are unique to kubelet. */
static void add_credential_provider(const struct nc_render_input *in, struct nc_fileset *s) {
    nc_auto_value struct nc_value *root = nc_value_new_map();
    const struct nc_value *own =
        nc_value_path(in->config->tree, "spec.kubelet.imageCredentialProviders");
    struct nc_value *providers = own ? nc_value_copy(own) : nc_value_new_list();
    size_t i = 0;

    while (i < providers->n && !nc_value_says(providers->items[i], "name", ECR_PROVIDER))
        i++;
    if (i == providers->n)
        nc_value_push(providers, new_ecr_provider(in->plan));
    nc_value_set_string(root, "apiVersion", "kubelet.config.k8s.io/v1");
    nc_value_set_string(root, "kind", "CredentialProviderConfig");
    nc_value_set(root, "providers", providers);
    nc_fileset_add_json(s, CREDENTIAL_PROVIDER, 0644, root);
}

static void add_logind(const struct nc_plan *p, struct nc_fileset *s) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    /* Whole seconds, rounded up: kubelet compares and would raise it itself otherwise. */
    (void)nc_buf_printf(&text,
                        "# Written by nodeclaimd: the pods get this much time at a shutdown.\n"
                        "[Login]\nInhibitDelayMaxSec=%llu\n",
                        (unsigned long long)((p->logind_delay_usec + 999999) / 1000000));
    nc_fileset_add(s, LOGIND_CONF, 0644, &text);
}

int nc_render(const struct nc_render_input *in, struct nc_fileset *ret, struct nc_err *err) {
    const struct nc_plan *p = in->plan;
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
    int r = add_kubelet_env(p, &s, err);

    if (r >= 0)
        r = nc_render_containerd(&p->containerd, &s, err);
    if (r < 0)
        return r;
    nc_render_host(in->facts, in->config, &s);
    nc_fileset_add_json(&s, KUBELET_CONFIG, 0644, p->kubelet_base);
    if (p->kubelet_dropin)
        nc_fileset_add_json(&s, KUBELET_DROPIN, 0644, p->kubelet_dropin);
    else
        nc_fileset_add_absent(&s, KUBELET_DROPIN);
    add_ca(in->config, &s);
    nc_render_kubeconfig(in, &s);
    if (p->credential_provider)
        add_credential_provider(in, &s);
    if (p->logind_delay_usec > 0)
        add_logind(p, &s);
    else
        nc_fileset_add_absent(&s, LOGIND_CONF);
    *ret = s;
    s = (struct nc_fileset)NC_FILESET_INIT;
    return 0;
}
