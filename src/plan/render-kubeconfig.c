/*
 * kubeconfig files: JSON, which every YAML reader reads, so that no value needs a quoting rule of
 * its own.
 *
 * The layout (one cluster, one context, one user) is what kubelet needs and no more. The exec
 * credential is this program's own `token`: no other program is started for all of the node's life.
 */

#include "nc/mem.h"

#include "fileset-priv.h"

#define KUBECONFIG "/var/lib/kubelet/kubeconfig"
#define BOOTSTRAP_KUBECONFIG "/etc/kubernetes/kubelet/bootstrap-kubeconfig"

static struct nc_value *named(const char *name, const char *key, struct nc_value *value) {
    struct nc_value *entry = nc_value_new_map();
    struct nc_value *list = nc_value_new_list();

    nc_value_set_string(entry, "name", name);
    nc_value_set(entry, key, value);
    nc_value_push(list, entry);
    return list;
}

static struct nc_value *kubeconfig(const char *server, struct nc_value *user) {
    struct nc_value *root = nc_value_new_map();
    struct nc_value *cluster = nc_value_new_map();
    struct nc_value *context = nc_value_new_map();

    nc_value_set_string(cluster, "certificate-authority", NC_CA_FILE);
    nc_value_set_string(cluster, "server", server);
    nc_value_set_string(context, "cluster", "kubernetes");
    nc_value_set_string(context, "user", "kubelet");
    nc_value_set_string(root, "apiVersion", "v1");
    nc_value_set_string(root, "kind", "Config");
    nc_value_set(root, "clusters", named("kubernetes", "cluster", cluster));
    nc_value_set(root, "contexts", named("kubelet", "context", context));
    nc_value_set_string(root, "current-context", "kubelet");
    nc_value_set(root, "users", named("kubelet", "user", user));
    return root;
}

static void push(struct nc_value *list, const char *text) {
    nc_value_push_string(list, text);
}

/* One variable of the exec entry's environment. */
static void push_env(struct nc_value *env, const char *name, const char *value) {
    struct nc_value *entry = nc_value_new_map();

    nc_value_set_string(entry, "name", name);
    nc_value_set_string(entry, "value", value);
    nc_value_push(env, entry);
}

char *nc_sts_endpoint(const struct nc_facts *f, const struct nc_config *c) {
    if (c->sts_endpoint)
        return nc_strdup(c->sts_endpoint);
    return c->domain && f->region ? nc_asprintf("https://sts.%s.%s", f->region, c->domain) : NULL;
}

static struct nc_value *exec_user(const struct nc_render_input *in) {
    const struct nc_facts *f = in->facts;
    const struct nc_config *c = in->config;
    struct nc_value *user = nc_value_new_map();
    struct nc_value *exec = nc_value_add_map(user, "exec"), *args;
    nc_auto_free char *sts = nc_sts_endpoint(f, c);

    nc_value_set_string(exec, "apiVersion", "client.authentication.k8s.io/v1beta1");
    nc_value_set_string(exec, "command", in->program);
    args = nc_value_add_list(exec, "args");
    push(args, "token");
    push(args, "--cluster");
    push(args, c->cluster_name);
    if (f->region) {
        push(args, "--region");
        push(args, f->region);
    }
    if (sts) {
        push(args, "--sts-endpoint");
        push(args, sts);
    }
    if (in->imds_endpoint)
        push_env(nc_value_add_list(exec, "env"), "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                 in->imds_endpoint);
    nc_value_set_string(exec, "interactiveMode", "Never");
    return user;
}

static void add(struct nc_fileset *s, const char *path, mode_t mode, struct nc_value *root) {
    nc_fileset_add_json(s, path, mode, root);
    nc_value_free(root);
}

static struct nc_value *certificate_user(const struct nc_config *c) {
    struct nc_value *user = nc_value_new_map();

    nc_value_set_string(user, "client-certificate", c->client_certificate);
    nc_value_set_string(user, "client-key", c->client_key);
    return user;
}

static struct nc_value *token_user(const struct nc_config *c) {
    struct nc_value *user = nc_value_new_map();

    nc_value_set_string(user, "token", c->bootstrap_token);
    return user;
}

/* A token that an earlier bootstrap in another mode left behind is a secret without a use. The path
 * may be where the user keeps his own kubeconfig: then it is his. */
static void forget_token(const struct nc_config *c, struct nc_fileset *s) {
    if (!c->kubeconfig || strcmp(c->kubeconfig, BOOTSTRAP_KUBECONFIG) != 0)
        nc_fileset_add_absent(s, BOOTSTRAP_KUBECONFIG);
}

void nc_render_kubeconfig(const struct nc_render_input *in, struct nc_fileset *s) {
    const struct nc_config *c = in->config;

    switch (c->auth) {
    case NC_AUTH_EKS:
        /* No secret in it: anybody on the node may look, as with nodeadm's. */
        add(s, KUBECONFIG, 0644, kubeconfig(c->endpoint, exec_user(in)));
        forget_token(c, s);
        return;
    case NC_AUTH_CLIENT_CERTIFICATE:
        add(s, KUBECONFIG, 0644, kubeconfig(c->endpoint, certificate_user(c)));
        forget_token(c, s);
        return;
    case NC_AUTH_BOOTSTRAP_TOKEN:
        /* kubelet writes its own kubeconfig once its certificate is signed: that one is never
         * touched. Ours is only the way there, and holds a secret. */
        add(s, BOOTSTRAP_KUBECONFIG, 0600, kubeconfig(c->endpoint, token_user(c)));
        return;
    case NC_AUTH_KUBECONFIG:
        /* The file is the user's; the flags name it. */
        forget_token(c, s);
        return;
    }
}
