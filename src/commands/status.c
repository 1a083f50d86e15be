/*
 * `status`, `timeline` and `version`: what can be read without asking anybody.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "commands.h"
#include "daemon-lock.h"
#include "nc/clock.h"
#include "nc/file.h"
#include "nc/report.h"
#include "nc/str.h"
#include "options.h"
#include "status-file.h"
#include "version.h"

#define TITLE_COLUMNS 13
#define FEWEST_COLUMNS 40

/* Of the terminal that reads; 0 where it is none, or narrow: lines stay as they are. */
static size_t terminal_columns(void) {
    struct winsize size = {0};

    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= FEWEST_COLUMNS
               ? size.ws_col
               : 0;
}

/* The last blank within `room`, else the first one after it: a longer word stays whole. */
static size_t break_at(const char *text, size_t from, size_t room) {
    const size_t n = strlen(text);
    size_t at = n;

    if (n <= room)
        return n;
    for (size_t i = from; i < n && (i <= room || at == n); i++)
        if (text[i] == ' ')
            at = i;
    return at;
}

/* What does not fit on its line goes on below its text. */
static void print_line(const char *text, size_t columns) {
    size_t indent = 0;

    for (;;) {
        const size_t n =
            columns ? break_at(text, indent ? 0 : TITLE_COLUMNS, columns - indent) : strlen(text);
        (void)printf("%*s%.*s\n", (int)indent, "", (int)n, text);
        if (!text[n])
            return;
        text += n + 1;
        indent = TITLE_COLUMNS;
    }
}

static void print_text(struct nc_buf *text) {
    const size_t columns = terminal_columns();
    char *rest = text->data, *line;

    while ((line = strsep(&rest, "\n")) && rest)
        print_line(line, columns);
}

static int print_metrics(const struct nc_app *app) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_metrics_file_read(app, &text, &err) < 0)
        return nc_app_fail(app, &err);
    (void)fwrite(text.data, 1, text.len, stdout);
    return 0;
}

/* The file is what the daemon last wrote; whether it still lives, its lock says. False where it
 * was there and is not any more. */
static bool mark_running(const struct nc_app *app, struct nc_value *status) {
    struct nc_value *daemon = nc_value_get(status, "daemon");
    bool is_gone;

    if (!daemon || daemon->type != NC_VALUE_MAP)
        return true;
    is_gone = nc_daemon_is_gone(app, status);
    nc_value_set_bool(daemon, "running", !is_gone);
    if (!is_gone)
        return true;
    nc_value_set_bool(daemon, "ready", false);
    nc_value_set_bool(daemon, "connected", false);
    return false;
}

/* The exit code of the phase that a bootstrap failed in. */
static int code_of_bootstrap(const struct nc_value *status) {
    const struct nc_value *phases = nc_value_get(status, "phases");
    const char *class = NULL;

    if (!nc_streq(nc_value_get_string(status, "outcome"), "failed"))
        return 0;
    for (size_t i = 0; phases && phases->type == NC_VALUE_LIST && i < phases->n; i++)
        if (nc_streq(nc_value_get_string(phases->items[i], "outcome"), "failed"))
            class = nc_value_get_string(nc_value_get(phases->items[i], "error"), "class");
    for (enum nc_err_class c = NC_ERR_NONE + 1; c < _NC_ERR_CLASS_MAX; c++)
        if (nc_streq(class, nc_err_class_name(c)))
            return nc_err_exit_code(c);
    return nc_err_exit_code(NC_ERR_TRANSIENT);
}

static int not_running(const struct nc_app *app) {
    struct nc_err err = NC_ERR_INIT;

    nc_err_set(&err, NC_ERR_HOST, ESRCH, "the daemon is not running");
    nc_err_remedy(&err, "systemctl start nodeclaimd; journalctl -u nodeclaimd");
    return nc_app_fail(app, &err);
}

static int print_status(const struct nc_app *app) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    nc_auto_value struct nc_value *status = NULL;
    struct nc_err err = NC_ERR_INIT;
    bool is_running;

    if (nc_status_file_read(app, &text, &status, &err) < 0)
        return nc_app_fail(app, &err);
    is_running = mark_running(app, status);
    if (app->opts.json) {
        nc_json_write(&out, status, 2);
        (void)puts(out.data);
    } else {
        nc_status_text(status, &out);
        print_text(&out);
    }
    (void)fflush(stdout);
    return is_running ? code_of_bootstrap(status) : not_running(app);
}

int nc_command_status(struct nc_app *app) {
    return app->opts.metrics ? print_metrics(app) : print_status(app);
}

/* What a drain in progress is drawn up to: now, unless nobody carries it on. */
static void write_timeline(const struct nc_app *app, struct nc_value *status, struct nc_buf *out) {
    const uint64_t until_usec = mark_running(app, status) ? nc_now_usec() : 0;

    if (app->opts.json) {
        nc_auto_value struct nc_value *tree = nc_timeline_tree(status, until_usec);
        nc_json_write(out, tree, 2);
        (void)nc_buf_putc(out, '\n');
    } else if (app->opts.svg) {
        nc_timeline_svg(status, until_usec, out);
    } else {
        nc_timeline_text(status, out);
    }
}

int nc_command_timeline(struct nc_app *app) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    nc_auto_value struct nc_value *status = NULL;
    struct nc_err err = NC_ERR_INIT;
    int r;

    if (app->opts.svg && app->opts.json)
        return nc_options_wrong("timeline",
                                "takes --svg or --output json, not both:", app->opts.svg);
    r = nc_status_file_read(app, &text, &status, &err);
    if (r < 0)
        return nc_app_fail(app, &err);
    write_timeline(app, status, &out);
    r = nc_output_write(app->opts.svg ? app->opts.svg : "-", out.data, out.len, &err);
    return r < 0 ? nc_app_fail(app, &err) : 0;
}

int nc_command_version(struct nc_app *app) {
    return nc_version_print("nodeclaimd", app->opts.json);
}
