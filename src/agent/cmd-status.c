/*
 * `status`, `timeline` and `version`: what can be read without asking anybody.
 */
#include <errno.h>
#include <stdio.h>

#include "commands.h"
#include "nc/file.h"
#include "nc/report.h"
#include "nc/str.h"
#include "status-file.h"
#include "version.h"

static int print_metrics(const struct nc_app *app) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_metrics_file_read(app, &text, &err) < 0)
        return nc_app_fail(app, &err);
    (void)fwrite(text.data, 1, text.len, stdout);
    return 0;
}

static int print_status(const struct nc_app *app,
                        void (*format)(const struct nc_value *status, struct nc_buf *out)) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    nc_auto_value struct nc_value *status = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_status_file_read(app, &text, &status, &err) < 0)
        return nc_app_fail(app, &err);
    if (format)
        format(status, &out);
    (void)fwrite(format ? out.data : text.data, 1, format ? out.len : text.len, stdout);
    return 0;
}

int nc_command_status(struct nc_app *app) {
    if (app->opts.metrics)
        return print_metrics(app);
    return print_status(app, app->opts.json ? NULL : nc_status_text);
}

static int draw_timeline(const struct nc_app *app) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    nc_auto_value struct nc_value *status = NULL;
    struct nc_err err = NC_ERR_INIT;

    if (nc_status_file_read(app, &text, &status, &err) < 0)
        return nc_app_fail(app, &err);
    nc_timeline_svg(status, &out);
    if (nc_output_write(app->opts.svg, out.data, out.len, &err) < 0)
        return nc_app_fail(app, &err);
    return 0;
}

int nc_command_timeline(struct nc_app *app) {
    return app->opts.svg ? draw_timeline(app) : print_status(app, nc_timeline_text);
}

int nc_command_version(struct nc_app *app) {
    return nc_version_print("nodeclaimd", app->opts.json);
}
