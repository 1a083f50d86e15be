/*
 * What kubelet and containerd would be started with, for their own verdicts on it: the files that
 * `render` writes for them, and kubelet's command line.
 */
#include "differ.h"
#include "nc/fileset.h"
#include "nc/plan.h"
#include "nc/str.h"

static void set_facts(struct nc_facts *f, const char *kubelet_version, const char *containerd) {
    f->instance_type = nc_strdup("m5.large");
    f->kubelet_version = nc_strdup(kubelet_version);
    f->containerd_version = nc_strdup(containerd);
    f->instance_id = nc_strdup("i-0123456789abcdef0");
    f->region = nc_strdup("us-west-2");
    f->az = nc_strdup("us-west-2a");
    f->az_id = nc_strdup("usw2-az1");
    f->architecture = nc_strdup("x86_64");
    f->local_ipv4 = nc_strdup("10.0.0.1");
    f->local_hostname = nc_strdup("ip-10-0-0-1.us-west-2.compute.internal");
    f->purchase_option = NC_PURCHASE_ON_DEMAND;
    f->cpus = 2;
    f->mem_total_bytes = (int64_t)8 << 30;
    f->root_fs_bytes = (int64_t)20 << 30;
}

static void put_file(struct nc_buf *out, const struct nc_fileset *files, const char *path) {
    for (size_t i = 0; i < files->n; i++)
        if (nc_streq(files->files[i].path, path)) {
            differ_put_hex(out, files->files[i].data, files->files[i].n);
            return;
        }
    (void)nc_buf_putc(out, '-');
}

static void put_texts(struct nc_buf *out, const struct nc_strv *texts) {
    for (size_t i = 0; i < texts->n; i++) {
        (void)nc_buf_putc(out, ' ');
        differ_put_hex(out, texts->v[i], strlen(texts->v[i]));
    }
}

struct made {
    struct nc_facts facts;
    struct nc_plan plan;
    struct nc_fileset files;
};

static void made_done(struct made *m) {
    nc_fileset_done(&m->files);
    nc_plan_done(&m->plan);
    nc_facts_done(&m->facts);
}

/* False: refused, and said. */
static bool make(struct made *m, const struct differ_field *document, struct nc_plan_input in,
                 struct nc_buf *out) {
    nc_cleanup(nc_documents_done) struct nc_documents docs = NC_DOCUMENTS_INIT;
    nc_cleanup(nc_config_done) struct nc_config config = NC_CONFIG_INIT;
    const struct nc_render_input render = {
        .facts = &m->facts, .config = &config, .plan = &m->plan, .program = "/usr/sbin/nodeclaimd"};
    struct nc_err err = NC_ERR_INIT;

    in.facts = &m->facts;
    in.config = &config;
    in.docs = &docs;
    if (nc_documents_add_userdata(&docs, "user data",
                                  (struct nc_text){.data = document->text, .n = document->n}, &err)
            < 0
        || nc_config_build(&docs, &config, &err) < 0 || nc_plan_make(&in, &m->plan, &err) < 0
        || nc_render(&render, &m->files, &err) < 0) {
        differ_refuse(out, &err);
        return false;
    }
    (void)nc_buf_puts(out, "is ");
    return true;
}

void differ_kubelet(const struct differ_field *f, struct nc_buf *out) {
    nc_cleanup(made_done) struct made m = {NC_FACTS_INIT, NC_PLAN_INIT, NC_FILESET_INIT};

    set_facts(&m.facts, f[0].text, "2.1.4");
    if (!make(&m, &f[1], (struct nc_plan_input){.gates = f[2].text, .flags = f[3].text}, out))
        return;
    put_file(out, &m.files, "/etc/kubernetes/kubelet/config.json");
    (void)nc_buf_putc(out, ' ');
    put_file(out, &m.files, "/etc/kubernetes/kubelet/config.json.d/40-nodeclaimd.conf");
    put_texts(out, &m.plan.flags);
    put_texts(out, &m.plan.user_flags);
}

/* The version of containerd, a document, "nvidia" where the host has one, the table of keys; gives
 * the warnings, too. */
void differ_containerd(const struct differ_field *f, struct nc_buf *out) {
    nc_cleanup(made_done) struct made m = {NC_FACTS_INIT, NC_PLAN_INIT, NC_FILESET_INIT};

    set_facts(&m.facts, "v1.34.4", f[0].text);
    m.facts.cpus = 8;
    m.facts.has_pause_archive = m.facts.has_soci_snapshotter = true;
    m.facts.has_nvidia_runtime = f[2].n > 0;
    if (!make(&m, &f[1], (struct nc_plan_input){.containerd_keys = f[3].text}, out))
        return;
    put_file(out, &m.files, "/etc/containerd/config.toml");
    put_texts(out, &m.plan.warnings);
}

/* Beside a cluster, and with nothing else that reserves anything. Of a machine of which nothing is
 * known, so that no reservation is too large. */
void differ_node_class(const struct differ_field *f, struct nc_buf *out) {
    static const char others[] =
        "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec: {cluster: {name: demo, "
        "apiServerEndpoint: 'https://example.com', certificateAuthority: "
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUIKLS0tLS1FTkQgQ0VSVElGSUNBVEUtLS0tLQo=, cidr: "
        "10.100.0.0/16}}\n---\napiVersion: nodeclaimd.io/v1alpha1\nkind: AgentConfig\nspec: "
        "{reservation: {policy: explicit}}\n---\napiVersion: karpenter.k8s.aws/v1\nkind: "
        "EC2NodeClass\nspec: {kubelet: ";
    nc_cleanup(nc_facts_done) struct nc_facts facts = NC_FACTS_INIT;
    nc_cleanup(nc_documents_done) struct nc_documents docs = NC_DOCUMENTS_INIT;
    nc_cleanup(nc_config_done) struct nc_config config = NC_CONFIG_INIT;
    nc_cleanup(nc_plan_done) struct nc_plan plan = NC_PLAN_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf json = NC_BUF_INIT;
    nc_auto_free char *text = nc_asprintf("%s%s}\n", others, f[1].text);
    const struct nc_plan_input in = {.facts = &facts, .config = &config, .docs = &docs};
    struct nc_err err = NC_ERR_INIT;

    set_facts(&facts, "v1.37.0", "2.1.4");
    free(facts.instance_type);
    facts.instance_type = nc_strdup(f[0].text);
    facts.cpus = facts.mem_total_bytes = facts.root_fs_bytes = -1;
    if (nc_documents_add(&docs, "class", nc_text(text), &err) < 0
        || nc_config_build(&docs, &config, &err) < 0 || nc_plan_make(&in, &plan, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    nc_json_write(&json, plan.kubelet_effective, 0);
    (void)nc_buf_puts(out, "is ");
    differ_put_hex(out, json.data, json.len);
}
