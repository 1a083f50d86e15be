/*
 * `check`: would a bootstrap accept these documents? Reads files, folders and user data as
 * bootstrap reads them.
 */
#include <errno.h>
#include <stdio.h>

#include "commands.h"
#include "gather.h"
#include "nc/file.h"
#include "nc/str.h"

#define MAX_BYTES ((size_t)1 << 20)

static int add_file(struct nc_documents *d, const char *path, struct nc_err *err) {
    nc_cleanup(nc_buf_done_secret) struct nc_buf text = NC_BUF_INIT;
    const char *plain = nc_starts_with(path, "file://") ? path + strlen("file://") : path;
    const int r = nc_file_read(plain, MAX_BYTES, &text, err);

    if (r < 0) {
        if (err)
            err->class = NC_ERR_CONFIG;
        return r;
    }
    return nc_gather_add_text(d, plain, &text, err);
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

int nc_command_check(struct nc_app *app) {
    nc_cleanup(nc_documents_done) struct nc_documents d = NC_DOCUMENTS_INIT;
    nc_cleanup(nc_config_done) struct nc_config c = NC_CONFIG_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    size_t warnings;
    int r = 0;

    if (app->opts.n_args == 0) {
        (void)fprintf(stderr, "nodeclaimd check: name the files to check\n");
        return NC_EXIT_USAGE;
    }
    for (int i = 0; r >= 0 && i < app->opts.n_args; i++)
        r = add_file(&d, app->opts.args[i], &err);
    if (r >= 0)
        r = nc_config_build(&d, &c, &err);
    if (r >= 0)
        r = nc_config_check_authority(&d, &c, &err);
    warnings = d.n_diags - nc_documents_errors(&d);
    if (app->opts.json) {
        print_json(&d, &err);
    } else {
        nc_documents_print(&d, &text);
        (void)fputs(text.data ? text.data : "", stdout);
        for (size_t i = 0; i < c.warnings.n; i++)
            (void)printf("note: %s\n", c.warnings.v[i]);
    }
    if (r < 0) {
        /* What stands in a document was printed with its place already. */
        if (nc_documents_errors(&d) == 0)
            return nc_app_fail(app, &err);
        return nc_err_exit_code(NC_ERR_CONFIG);
    }
    if (app->opts.strict && warnings > 0)
        return nc_err_exit_code(NC_ERR_CONFIG);
    if (!app->opts.json)
        (void)printf("%zu document%s: a bootstrap would accept %s\n", d.n_docs,
                     d.n_docs == 1 ? "" : "s", d.n_docs == 1 ? "it" : "them");
    return 0;
}
