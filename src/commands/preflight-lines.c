/*
 * The lines of `preflight`, and those of an image: host/image.c finds, this prints; its documents
 * are read as a bootstrap reads them.
 */
#include "commands.h"

#include <stdio.h>

#include "gather.h"
#include "nc/image.h"
#include "nc/str.h"

void nc_preflight_line(struct nc_preflight_lines *l, const char *check, const char *outcome,
                       const char *detail, const char *remedy) {
    struct nc_value *line = nc_value_new_map();
    nc_auto_free char *shown = nc_printable(detail); /* files of an image have any name */

    if (!l->all)
        l->all = nc_value_new_list();
    nc_value_set_string(line, "check", check);
    nc_value_set_string(line, "outcome", outcome);
    nc_value_set_string(line, "detail", detail);
    nc_value_set_string(line, "remedy", remedy);
    nc_value_push(l->all, line);
    if (l->is_json)
        return;
    (void)printf("%-12s %-7s %s\n", check, outcome, shown);
    if (*remedy)
        (void)printf("%-12s         remedy: %s\n", "", remedy);
}

void nc_preflight_failed(struct nc_preflight_lines *l, const char *check, const struct nc_err *err,
                         const char *remedy) {
    nc_preflight_line(l, check, "failed", err->msg, *err->remedy ? err->remedy : remedy);
    if (l->failed++ == 0)
        l->first = *err;
}

int nc_preflight_end(struct nc_preflight_lines *l) {

    if (l->is_json) {
        nc_print_json(l->all);
    } else {
        (void)printf("%s\n", l->failed ? "preflight failed" : "preflight passed");
    }
    nc_value_free(l->all);
    return l->failed ? nc_err_exit_code(l->first.class) : 0;
}

static void print_finding(void *userdata, const struct nc_image_finding *f) {
    if (f->problem->class == NC_ERR_NONE)
        nc_preflight_line(userdata, f->check, "ok", f->problem->msg, "");
    else if (f->is_warning)
        nc_preflight_line(userdata, f->check, "warning", f->problem->msg, f->problem->remedy);
    else
        nc_preflight_failed(userdata, f->check, f->problem, "");
}

#define DOCUMENTS "documents"
#define CORRECT "correct the document"

/* What user data may bring is no failure of the image. A field that its agent does not know is one:
 * what somebody wrote has no effect on any node, be it that they must only observe. */
static void print_diagnostic(struct nc_preflight_lines *lines, const struct nc_documents *d,
                             const struct nc_diagnostic *diag) {
    nc_auto_free char *text = nc_diagnostic_text(d, diag);
    const bool is_unknown = diag->kind == NC_DIAGNOSTIC_UNKNOWN;
    const bool fails = is_unknown || (diag->is_error && diag->kind != NC_DIAGNOSTIC_MISSING);

    nc_preflight_line(lines, DOCUMENTS, fails ? "failed" : "warning", text,
                      is_unknown ? CORRECT ": no node reads this field" : CORRECT);
    if (fails && lines->failed++ == 0)
        lines->first.class = NC_ERR_CONFIG;
}

static void warn_of_assumed(struct nc_preflight_lines *lines, const char *program,
                            const char *version) {
    nc_auto_free char *text =
        nc_asprintf("tried as the newest reads them: %s's version is not known", program);

    if (nc_ends_with(version, NC_ASSUMED))
        nc_preflight_line(lines, DOCUMENTS, "warning", text, NC_IMAGE_PROVISION);
}

static void check_documents(struct nc_app *app, struct nc_preflight_lines *lines) {
    nc_cleanup(nc_gather_done) struct nc_gather g = {.app = app};
    const struct nc_documents *d = &g.documents;
    struct nc_err err = NC_ERR_INIT;
    int r = nc_gather_image(&g, app->opts.image, &err);

    const bool has_any = d->n_docs > 0;
    if (r >= 0) {
        r = nc_check_each_rule(&g, true, &err);
        err.class = err.class ? NC_ERR_CONFIG : NC_ERR_NONE; /* it is the image that is wrong */
    }
    for (size_t i = 0; i < d->n_diags; i++)
        print_diagnostic(lines, d, &d->diags[i]);
    if (r < 0 && err.class != NC_ERR_NONE)
        nc_preflight_failed(lines, DOCUMENTS, &err, CORRECT);
    else if (d->n_diags == 0)
        nc_preflight_line(lines, DOCUMENTS, "ok", "accepted", "");
    if (r < 0) {
        nc_preflight_line(lines, DOCUMENTS, "warning", NC_REST_NOT_CHECKED, CORRECT);
        return;
    }
    if (has_any) {
        warn_of_assumed(lines, "kubelet", g.facts.kubelet_version);
        warn_of_assumed(lines, "containerd", g.facts.containerd_version);
    }
    if (g.facts.has_pause_archive || !nc_containerd_needs_pause_archive(&g.plan.containerd)) {
        nc_preflight_line(lines, "pause", "ok",
                          g.facts.has_pause_archive ? NC_PAUSE_ARCHIVE : "a document names one",
                          "");
        return;
    }
    (void)nc_err_config(&err, "there is no pause image (" NC_PAUSE_ARCHIVE "): no pod can start");
    nc_preflight_failed(lines, "pause", &err,
                        NC_IMAGE_PROVISION
                        " with --pause-image FILE, or name another one in spec.containerd.config "
                        "of a NodeConfig of the image");
}

int nc_preflight_image(struct nc_app *app) {
    struct nc_preflight_lines lines = {.is_json = app->opts.json};
    struct nc_err err = NC_ERR_INIT;

    if (nc_image_check(app->opts.image, print_finding, &lines, &err) < 0)
        return nc_app_fail(app, &err);
    check_documents(app, &lines);
    return nc_preflight_end(&lines);
}
