/*
 * From user data to files: whatever a document requests, there is a plan with files that can be
 * written, or one refusal that says why; the same twice. The first byte says on which machine.
 */
#include <stdint.h>

#include "nc/fileset.h"
#include "nc/plan.h"
#include "nc/str.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool is_so) {
    if (!is_so)
        abort();
}

static void fill(struct nc_facts *f, uint8_t how) {
    static const char *const types[] = {"m5.large", "t3.small", "c6g.16xlarge", "zz9.plural"};
    static const char *const containerds[] = {NULL, "1.7.28", "2.1.4", "3.0.0"};
    static const char *const versions[] = {"v1.34.4", "v1.29.0", "v1.26.15", "v1.32.1-eks-0"};

    f->instance_type = nc_strdup(types[how & 3]);
    f->kubelet_version = nc_strdup(versions[how >> 2 & 3]);
    f->containerd_version = nc_strdup(containerds[how >> 4 & 3]);
    f->has_nvidia_runtime = f->has_soci_snapshotter = how & 64;
    f->instance_id = nc_strdup("i-0123456789abcdef0");
    f->region = nc_strdup("us-west-2");
    f->az = nc_strdup("us-west-2a");
    f->az_id = nc_strdup("usw2-az1");
    f->architecture = nc_strdup("x86_64");
    f->local_ipv4 = nc_strdup("10.0.0.1");
    f->local_hostname = nc_strdup("ip-10-0-0-1.us-west-2.compute.internal");
    f->purchase_option = how & 16 ? NC_PURCHASE_SPOT : NC_PURCHASE_ON_DEMAND;
    f->cpus = how & 32 ? 64 : 2;
    f->mem_total_bytes = how & 64 ? -1 : (int64_t)8 << 30;
    f->root_fs_bytes = (int64_t)20 << 30;
    f->has_ecr_credential_provider = how & 128;
    if (f->has_ecr_credential_provider)
        f->ecr_credential_provider_dir = nc_strdup("/etc/eks/image-credential-provider");
}

static void check_refusal(const struct nc_err *err) {
    must(err->class == NC_ERR_CONFIG || err->class == NC_ERR_HOST);
    must(err->msg[0] && nc_is_text(err->msg, strlen(err->msg)));
}

static void add_files(const struct nc_fileset *s, struct nc_buf *out) {
    for (size_t i = 0; i < s->n; i++) {
        must(s->files[i].path[0] == '/' && !strstr(s->files[i].path, "/../"));
        for (size_t k = 0; k < i; k++)
            must(!nc_streq(s->files[k].path, s->files[i].path));
        must((s->files[i].mode & ~0755u) == 0);
        (void)nc_buf_puts(out, s->files[i].path);
        (void)nc_buf_add(out, s->files[i].data ? s->files[i].data : "", s->files[i].n);
    }
}

/* What was planned and rendered, as one text. */
static void run(const struct nc_facts *f, const struct nc_documents *d, const struct nc_config *c,
                struct nc_buf *out) {
    struct nc_plan plan = NC_PLAN_INIT;
    struct nc_fileset files = NC_FILESET_INIT;
    struct nc_err err = NC_ERR_INIT;
    const struct nc_render_input input = {
        .facts = f, .config = c, .plan = &plan, .program = "/usr/sbin/nodeclaimd"};
    const struct nc_plan_input in = {.facts = f, .config = c, .docs = d};

    if (nc_plan_make(&in, &plan, &err) < 0) {
        check_refusal(&err);
        return;
    }
    must(plan.node_name && *plan.node_name);
    for (size_t i = 0; i < plan.warnings.n; i++)
        must(nc_is_text(plan.warnings.v[i], strlen(plan.warnings.v[i])));
    if (nc_render(&input, &files, &err) < 0) {
        check_refusal(&err);
    } else {
        add_files(&files, out);
    }
    nc_fileset_done(&files);
    nc_plan_done(&plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    nc_cleanup(nc_facts_done) struct nc_facts facts = NC_FACTS_INIT;
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf once = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf twice = NC_BUF_INIT;

    if (n == 0
        || nc_documents_add_userdata(
               &d, "user data", (struct nc_text){.data = (const char *)data + 1, .n = n - 1}, NULL)
               < 0
        || nc_config_build(&d, &c, NULL) < 0)
        return 0;
    fill(&facts, data[0]);
    run(&facts, &d, &c, &once);
    run(&facts, &d, &c, &twice);
    must(once.len == twice.len && (once.len == 0 || memcmp(once.data, twice.data, once.len) == 0));
    return 0;
}
