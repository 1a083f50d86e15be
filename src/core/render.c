/*
 * The plan as files: one function a file, all of them pure.
 *
 * Contents come from trees that the plan made; this module knows paths, modes and formats and
 * decides nothing about a node.
 */
#include <errno.h>

#include "nc/str.h"

#include "fileset-priv.h"
#include "render-kubeconfig.h"

#define KUBELET_CONFIG "/etc/kubernetes/kubelet/config.json"
#define KUBELET_DROPIN "/etc/kubernetes/kubelet/config.json.d/40-nodeclaimd.conf"
#define KUBELET_ENV "/etc/nodeclaimd/kubelet.env"
#define CA_FILE "/etc/kubernetes/pki/ca.crt"
#define CREDENTIAL_PROVIDER "/etc/kubernetes/image-credential-provider.json"
#define LOGIND_CONF "/etc/systemd/logind.conf.d/50-nodeclaimd.conf"

/* The registries that the ECR provider answers for: nodeadm's list
 * (image-credential-provider.template.json). */
static const char *const ecr_patterns[] = {
    "*.dkr.ecr.*.amazonaws.com",      "*.dkr-ecr.*.on.aws",
    "*.dkr.ecr.*.amazonaws.com.cn",   "*.dkr-ecr.*.on.amazonwebservices.com.cn",
    "*.dkr.ecr-fips.*.amazonaws.com", "*.dkr-ecr-fips.*.on.aws",
    "*.dkr.ecr.*.c2s.ic.gov",         "*.dkr.ecr.*.sc2s.sgov.gov",
    "*.dkr.ecr.*.cloud.adc-e.uk",     "*.dkr.ecr.*.csp.hci.ic.gov",
    "*.dkr.ecr.*.amazonaws.eu",       "public.ecr.aws",
};

static void add_tree(struct nc_fileset *s, const char *path, const struct nc_value *tree) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    nc_json_write(&text, tree, 2);
    (void)nc_buf_putc(&text, '\n');
    nc_fileset_add(s, path, 0644, &text);
}

static bool needs_quotes(const char *arg) {
    return !*arg || strpbrk(arg, " \t\"'\\$`;#*?[]{}()<>|&~") != NULL;
}

/* One argument so that systemd's word splitting of $NODECLAIMD_KUBELET_ARGS (extract_first_word
 * with unquoting) gives it back: double quotes, with backslashes before the two characters that are
 * special inside them. */
static void add_word(struct nc_buf *out, const char *arg) {
    if (!needs_quotes(arg)) {
        (void)nc_buf_puts(out, arg);
        return;
    }
    (void)nc_buf_putc(out, '"');
    for (const char *p = arg; *p; p++) {
        if (*p == '"' || *p == '\\')
            (void)nc_buf_putc(out, '\\');
        (void)nc_buf_putc(out, *p);
    }
    (void)nc_buf_putc(out, '"');
}

/* The value of an EnvironmentFile= line in single quotes, which keep everything but a single quote
 * as it is. */
static void add_env_value(struct nc_buf *out, const char *value) {
    if (!strpbrk(value, "\"'\\$`#;")) {
        (void)nc_buf_puts(out, value);
        return;
    }
    (void)nc_buf_putc(out, '\'');
    for (const char *p = value; *p; p++) {
        if (*p == '\'')
            (void)nc_buf_puts(out, "'\"'\"'");
        else
            (void)nc_buf_putc(out, *p);
    }
    (void)nc_buf_putc(out, '\'');
}

static int check_flag(const char *flag, struct nc_err *err) {
    for (const char *p = flag; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) {
            nc_auto_free char *quoted = nc_quote(flag, strlen(flag));
            return nc_err_set(err, NC_ERR_CONFIG, EINVAL,
                              "kubelet flag %s has a control character: a flag is one line of text",
                              quoted);
        }
    return 0;
}

static int add_kubelet_env(const struct nc_plan *p, struct nc_fileset *s, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf args = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    const struct nc_strv *lists[] = {&p->flags, &p->user_flags};

    for (size_t l = 0; l < NC_ARRAY_SIZE(lists); l++)
        for (size_t i = 0; i < lists[l]->n; i++) {
            const int r = check_flag(lists[l]->v[i], err);
            if (r < 0)
                return r;
            if (args.len > 0)
                (void)nc_buf_putc(&args, ' ');
            add_word(&args, lists[l]->v[i]);
        }
    if (p->dropin_env_alpha)
        (void)nc_buf_puts(&text, "KUBELET_CONFIG_DROPIN_DIR_ALPHA=on\n");
    (void)nc_buf_puts(&text, "NODECLAIMD_KUBELET_ARGS=");
    add_env_value(&text, args.data ? args.data : "");
    (void)nc_buf_putc(&text, '\n');
    nc_fileset_add(s, KUBELET_ENV, 0644, &text);
    return 0;
}

static void add_ca(const struct nc_config *c, struct nc_fileset *s) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (!c->ca_pem)
        return;
    (void)nc_buf_puts(&text, c->ca_pem);
    nc_fileset_add(s, CA_FILE, 0644, &text);
}

static void add_credential_provider(const struct nc_plan *p, struct nc_fileset *s) {
    nc_auto_value struct nc_value *root = nc_value_new(NC_VALUE_MAP);
    struct nc_value *provider = nc_value_new(NC_VALUE_MAP);
    struct nc_value *providers = nc_value_new(NC_VALUE_LIST);
    struct nc_value *images = nc_value_new(NC_VALUE_LIST);

    for (size_t i = 0; i < NC_ARRAY_SIZE(ecr_patterns); i++)
        nc_value_push(images, nc_value_new_string(ecr_patterns[i]));
    if (p->kubelet_minor >= 32)
        nc_value_push(images, nc_value_new_string("ecr-public.aws.com"));
    nc_value_set_string(provider, "name", "ecr-credential-provider");
    nc_value_set(provider, "matchImages", images);
    nc_value_set_string(provider, "defaultCacheDuration", "12h");
    nc_value_set_string(provider, "apiVersion", "credentialprovider.kubelet.k8s.io/v1");
    nc_value_push(providers, provider);
    nc_value_set_string(root, "apiVersion", "kubelet.config.k8s.io/v1");
    nc_value_set_string(root, "kind", "CredentialProviderConfig");
    nc_value_set(root, "providers", providers);
    add_tree(s, CREDENTIAL_PROVIDER, root);
}

static void add_logind(const struct nc_plan *p, struct nc_fileset *s) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    /* Whole seconds, rounded up: kubelet compares and would raise it itself otherwise. */
    (void)nc_buf_printf(&text,
                        "# Written by nodeclaimd: kubelet's graceful shutdown needs this much "
                        "time.\n[Login]\nInhibitDelayMaxSec=%llu\n",
                        (unsigned long long)((p->logind_delay_usec + 999999) / 1000000));
    nc_fileset_add(s, LOGIND_CONF, 0644, &text);
}

int nc_render(const struct nc_facts *f, const struct nc_config *c, const struct nc_plan *p,
              const struct nc_render_options *o, struct nc_fileset *ret, struct nc_err *err) {
    nc_cleanup(nc_fileset_done) struct nc_fileset s = NC_FILESET_INIT;
    const int r = add_kubelet_env(p, &s, err);

    if (r < 0)
        return r;
    add_tree(&s, KUBELET_CONFIG, p->kubelet_base);
    if (p->kubelet_dropin)
        add_tree(&s, KUBELET_DROPIN, p->kubelet_dropin);
    else
        nc_fileset_add_absent(&s, KUBELET_DROPIN);
    add_ca(c, &s);
    nc_render_kubeconfig(f, c, o, &s);
    if (p->credential_provider)
        add_credential_provider(p, &s);
    if (p->logind_delay_usec > 0)
        add_logind(p, &s);
    *ret = s;
    s = (struct nc_fileset)NC_FILESET_INIT;
    return 0;
}
