/*
 * What kubelet would be started with, for its own verdict on it: the files that `render` writes for
 * it and its command line.
 */
#include "differ.h"
#include "nc/fileset.h"
#include "nc/plan.h"
#include "nc/str.h"

static void set_facts(struct nc_facts *f, const char *kubelet_version) {
    f->instance_type = nc_strdup("m5.large");
    f->kubelet_version = nc_strdup(kubelet_version);
    f->containerd_version = nc_strdup("2.1.4");
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

static void put_arguments(struct nc_buf *out, const struct nc_strv *flags) {
    for (size_t i = 0; i < flags->n; i++) {
        (void)nc_buf_putc(out, ' ');
        differ_put_hex(out, flags->v[i], strlen(flags->v[i]));
    }
}

void differ_kubelet(const struct differ_field *f, struct nc_buf *out) {
    nc_cleanup(nc_facts_done) struct nc_facts facts = NC_FACTS_INIT;
    nc_cleanup(nc_documents_done) struct nc_documents docs = NC_DOCUMENTS_INIT;
    nc_cleanup(nc_config_done) struct nc_config config = NC_CONFIG_INIT;
    nc_cleanup(nc_plan_done) struct nc_plan plan = NC_PLAN_INIT;
    nc_cleanup(nc_fileset_done) struct nc_fileset files = NC_FILESET_INIT;
    const struct nc_plan_input in = {
        .facts = &facts, .config = &config, .docs = &docs, .gates = f[2].text, .flags = f[3].text};
    const struct nc_render_input render = {
        .facts = &facts, .config = &config, .plan = &plan, .program = "/usr/sbin/nodeclaimd"};
    struct nc_err err = NC_ERR_INIT;

    set_facts(&facts, f[0].text);
    if (nc_documents_add_userdata(&docs, "user data", f[1].text, f[1].n, &err) < 0
        || nc_config_build(&docs, &config, &err) < 0 || nc_plan_make(&in, &plan, &err) < 0
        || nc_render(&render, &files, &err) < 0) {
        differ_refuse(out, &err);
        return;
    }
    (void)nc_buf_puts(out, "is ");
    put_file(out, &files, "/etc/kubernetes/kubelet/config.json");
    (void)nc_buf_putc(out, ' ');
    put_file(out, &files, "/etc/kubernetes/kubelet/config.json.d/40-nodeclaimd.conf");
    put_arguments(out, &plan.flags);
    put_arguments(out, &plan.user_flags);
}
