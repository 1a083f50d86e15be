/*
 * `status`, `timeline` and `version`: what can be read without asking anybody.
 */
#include <curl/curl.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <stdio.h>

#include "commands.h"
#include "nc/file.h"
#include "nc/report.h"
#include "nc/str.h"
#include "status-file.h"

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
    if (nc_file_write(app->opts.svg, out.data, out.len, 0644, false, &err) < 0)
        return nc_app_fail(app, &err);
    return 0;
}

int nc_command_timeline(struct nc_app *app) {
    return app->opts.svg ? draw_timeline(app) : print_status(app, nc_timeline_text);
}

int nc_command_version(struct nc_app *app) {
    nc_auto_value struct nc_value *map = NULL;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;

    if (!app->opts.json) {
        (void)printf("nodeclaimd " NC_VERSION "\n%s\n%s\n", curl_version(),
                     OpenSSL_version(OPENSSL_VERSION));
        return 0;
    }
    map = nc_value_new(NC_VALUE_MAP);
    nc_value_set_string(map, "version", NC_VERSION);
    nc_value_set_string(map, "libcurl", curl_version_info(CURLVERSION_NOW)->version);
    nc_value_set_string(map, "openssl", OpenSSL_version(OPENSSL_VERSION_STRING));
    nc_json_write(&text, map, 2);
    (void)printf("%s\n", text.data);
    return 0;
}
