/*
 * `check`: would a bootstrap accept these documents? Reads files, folders and user data as
 * bootstrap reads them.
 */
#include <errno.h>
#include <stdio.h>

#include "commands.h"
#include "gather.h"
#include "nc/str.h"

#define NEWEST_KUBELET "v1.36.0"

/* What is a warning otherwise. */
static void be_strict(struct nc_documents *d) {
    for (size_t i = 0; i < d->n_diags; i++)
        d->diags[i].is_error = true;
}

static void print_json(const struct nc_documents *d, const struct nc_err *whole) {
    nc_auto_value struct nc_value *list = nc_value_new(NC_VALUE_LIST);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    for (size_t i = 0; i < d->n_diags; i++) {
        const struct nc_diagnostic *g = &d->diags[i];
        struct nc_value *one = nc_value_new(NC_VALUE_MAP);
        nc_value_set_string(one, "severity", g->is_error ? "error" : "warning");
        nc_value_set_string(one, "source", d->sources[g->mark.source]);
        nc_value_set_int(one, "line", g->mark.line);
        nc_value_set_int(one, "column", g->mark.column);
        nc_value_set_string(one, "path", g->path);
        nc_value_set_string(one, "message", g->message);
        nc_value_push(list, one);
    }
    if (whole->class != NC_ERR_NONE && nc_documents_errors(d) == 0) {
        struct nc_value *one = nc_value_new(NC_VALUE_MAP);
        nc_value_set_string(one, "severity", "error");
        nc_value_set_string(one, "message", whole->msg);
        nc_value_push(list, one);
    }
    nc_json_write(&text, list, 2);
    (void)printf("%s\n", text.data);
}

static void print_text(const struct nc_documents *d, const struct nc_config *c) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    nc_documents_print(d, &text);
    (void)fputs(text.data ? text.data : "", stdout);
    for (size_t i = 0; i < c->warnings.n; i++)
        (void)printf("note: %s\n", c->warnings.v[i]);
}

/* A machine on which everything fits: what is refused for it is refused everywhere. */
static void take_any_instance(struct nc_facts *f) {
    f->instance_id = nc_strdup("i-00000000000000000");
    f->instance_type = nc_strdup("u7i-12tb.224xlarge");
    f->region = nc_strdup("us-west-2");
    f->az = nc_strdup("us-west-2a");
    f->local_ipv4 = nc_strdup("192.0.2.1");
    f->ipv6 = nc_strdup("2001:db8::1");
    f->local_hostname = nc_strdup("ip-192-0-2-1.us-west-2.compute.internal");
    f->private_dns_name = nc_strdup(f->local_hostname);
    f->hostname = nc_strdup(f->local_hostname);
    f->kubelet_version = nc_strdup(NEWEST_KUBELET);
    f->cpus = 896;
    f->mem_total_bytes = (int64_t)12 << 40;
    f->root_fs_bytes = (int64_t)16 << 40;
}

/* What only shows when everything is put together: rules between kubelet's fields, names, taints.
 */
static int try_plan(struct nc_gather *g, struct nc_err *err) {
    nc_cleanup(nc_facts_done) struct nc_facts f = NC_FACTS_INIT;

    take_any_instance(&f);
    return nc_plan_make(&f, &g->config, &g->documents, NULL, 0, &g->plan, err);
}

int nc_command_check(struct nc_app *app) {
    nc_cleanup(nc_gather_done) struct nc_gather g = {.app = app};
    struct nc_documents *d = &g.documents;
    struct nc_err err = NC_ERR_INIT;
    int r = 0;

    if (app->opts.n_args == 0) {
        (void)fprintf(stderr, "nodeclaimd check: name the files to check\n");
        return NC_EXIT_USAGE;
    }
    for (int i = 0; r >= 0 && i < app->opts.n_args; i++)
        r = nc_gather_add(&g, app->opts.args[i], &err);
    if (r >= 0)
        r = nc_config_build(d, &g.config, &err);
    if (r >= 0)
        r = nc_config_check_authority(d, &g.config, &err);
    if (r >= 0)
        r = try_plan(&g, &err);
    if (app->opts.strict)
        be_strict(d);
    if (app->opts.json)
        print_json(d, &err);
    else
        print_text(d, &g.config);
    if (nc_documents_errors(d) > 0) /* printed with its place already */
        return nc_err_exit_code(NC_ERR_CONFIG);
    if (r < 0)
        return nc_app_fail(app, &err);
    if (!app->opts.json)
        (void)printf("%zu document%s: a bootstrap would accept %s\n", d->n_docs,
                     d->n_docs == 1 ? "" : "s", d->n_docs == 1 ? "it" : "them");
    return 0;
}
