/*
 * `status`, `timeline` and `version`: what can be read without asking anybody.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "app.h"
#include "commands.h"
#include "machine.h"
#include "nc/clock.h"
#include "nc/file.h"
#include "nc/report.h"
#include "nc/str.h"
#include "nc/time.h"
#include "options.h"
#include "process.h"

#define WATCH_USEC 250000u /* so soon a change is shown, and at most so often */

static int print_metrics(const struct nc_app *app) {
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;

    if (nc_metrics_file_read(app, &text, &err) < 0)
        return nc_app_fail(app, &err);
    (void)fwrite(text.data, 1, text.len, stdout);
    return 0;
}

/* The file is what the daemon last wrote; whether it still lives, its lock says, to root alone.
 * False where it was there and is not any more. */
static bool mark_running(const struct nc_app *app, struct nc_value *status) {
    struct nc_value *daemon = nc_value_get(status, "daemon");
    int gone;

    if (!daemon || daemon->type != NC_VALUE_MAP)
        return true;
    gone = nc_daemon_is_gone(app, status);
    if (gone < 0)
        nc_value_set(daemon, "running", nc_value_new(NC_VALUE_NULL));
    else
        nc_value_set_bool(daemon, "running", gone == 0);
    if (gone <= 0)
        return true;
    nc_value_set_bool(daemon, "ready", false);
    nc_value_set_bool(daemon, "connected", false);
    return false;
}

/* Of a bootstrap that was killed, whose last word is that it works. */
static void mark_killed(const struct nc_app *app, struct nc_value *status) {
    struct nc_value *phases = nc_value_get(status, "phases"), *phase;

    if (!nc_bootstrap_is_gone(app, status))
        return;
    nc_value_set_string(status, "outcome", "failed");
    for (size_t i = 0; (phase = nc_value_item(phases, i)); i++) {
        struct nc_value *error;
        nc_auto_free char *message = NULL;
        const char *last;
        if (!nc_value_says(phase, "outcome", "running"))
            continue;
        last = nc_value_path_string(phase, "error.message");
        message = nc_asprintf("the bootstrap was killed; last error: %s", last ? last : "none");
        error = nc_value_add_map(phase, "error");
        nc_value_set_string(error, "class", nc_err_class_name(NC_ERR_TRANSIENT));
        nc_value_set_string(error, "message", message);
        nc_value_set_string(error, "remedy", "journalctl -u nodeclaimd-bootstrap");
        nc_value_set_string(phase, "outcome", "failed");
    }
}

/* Of a pod: its force-delete time has passed, and nobody could act then. */
static void mark_missed(const struct nc_value *status, bool is_running) {
    const struct nc_value *drain = nc_value_get(status, "drain");
    const struct nc_value *blocked = nc_value_get(drain, "blocked");
    struct nc_value *pod;
    uint64_t usec;

    if (is_running && !nc_value_get_string(drain, "unansweredSince"))
        return;
    for (size_t i = 0; (pod = nc_value_item(blocked, i)); i++) {
        const char *time = nc_value_get_string(pod, "forceDeleteAt");
        if (time && nc_time_parse(time, &usec) >= 0 && usec < nc_status_now(status))
            nc_value_set_bool(pod, "missed", true);
    }
}

/* The exit code of the phase that a bootstrap failed in. */
static int code_of_bootstrap(const struct nc_value *status) {
    const struct nc_value *phases = nc_value_get(status, "phases"), *phase;
    const char *class = NULL;

    if (!nc_value_says(status, "outcome", "failed"))
        return 0;
    for (size_t i = 0; (phase = nc_value_item(phases, i)); i++)
        if (nc_value_says(phase, "outcome", "failed"))
            class = nc_value_path_string(phase, "error.class");
    for (enum nc_err_class c = NC_ERR_NONE + 1; c < _NC_ERR_CLASS_MAX; c++)
        if (nc_streq(class, nc_err_class_name(c)))
            return nc_err_exit_code(c);
    return nc_err_exit_code(NC_ERR_TRANSIENT);
}

static int not_running(struct nc_err *err) {
    nc_err_set(err, NC_ERR_HOST, ESRCH, "the daemon is not running");
    nc_err_remedy(err, "systemctl start nodeclaimd; journalctl -u nodeclaimd");
    return -ESRCH;
}

/* Appends what `status` shows, for this terminal. *ret_code: the exit code, where nothing failed.
 * -ESRCH: it is shown, and the daemon is not running. */
static int show(const struct nc_app *app, const struct nc_terminal *t, struct nc_buf *out,
                int *ret_code, struct nc_err *err) {
    nc_cleanup(nc_buf_done) struct nc_buf file = NC_BUF_INIT, text = NC_BUF_INIT;
    nc_auto_value struct nc_value *status = NULL;
    bool is_running;

    if (nc_status_file_read(app, &file, &status, err) < 0)
        return -ENOENT;
    is_running = mark_running(app, status);
    mark_killed(app, status);
    mark_missed(status, is_running);
    *ret_code = code_of_bootstrap(status);
    if (app->opts.json) {
        nc_json_write(out, status, app->opts.watch ? 0 : 2);
        (void)nc_buf_putc(out, '\n');
    } else {
        nc_status_text(status, &text);
        nc_terminal_format(t, text.data, out);
    }
    return is_running ? 0 : not_running(err);
}

static int print_status(const struct nc_app *app) {
    const struct nc_terminal t = nc_terminal_of(STDOUT_FILENO);
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    int code = 0;
    const int r = show(app, &t, &out, &code, &err);

    if (out.data)
        (void)fwrite(out.data, 1, out.len, stdout);
    (void)fflush(stdout);
    return r < 0 ? nc_app_fail(app, &err) : code;
}

/* --- --watch */

/* Over what was drawn before, each line up to its end and then what is left of the screen: nothing
 * is cleared before it is drawn, so nothing flickers. */
static void draw(const struct nc_terminal *t, bool is_first, const char *text) {
    nc_cleanup(nc_buf_done) struct nc_buf out = NC_BUF_INIT;
    size_t rows = 0;

    (void)nc_buf_puts(&out, is_first ? "\033[2J\033[H" : "\033[H");
    while (*text && (t->rows == 0 || ++rows < t->rows)) {
        const size_t n = strcspn(text, "\n");
        (void)nc_buf_add(&out, text, n);
        (void)nc_buf_puts(&out, "\033[K\n");
        text += n + (text[n] == '\n');
    }
    (void)nc_buf_puts(&out, "\033[J");
    (void)fwrite(out.data, 1, out.len, stdout);
}

/* Until a signal, or until nobody reads any more. */
static int watch(struct nc_app *app) {
    nc_cleanup(nc_buf_done) struct nc_buf last = NC_BUF_INIT;
    struct nc_err err = NC_ERR_INIT;
    int code, r = nc_app_loop(app, &err);

    if (r < 0)
        return nc_app_fail(app, &err);
    while (r == 0) {
        const struct nc_terminal t = nc_terminal_of(STDOUT_FILENO);
        nc_cleanup(nc_buf_done) struct nc_buf now = NC_BUF_INIT;
        if (show(app, &t, &now, &code, &err) < 0 && !app->opts.json)
            (void)nc_buf_printf(&now, "%s\n%s%s%s", err.msg, *err.remedy ? "remedy: " : "",
                                err.remedy, *err.remedy ? "\n" : "");
        if (now.data && !nc_streq(now.data, last.data)) {
            if (t.can_move && !app->opts.json)
                draw(&t, !last.data, now.data);
            else
                (void)fputs(now.data, stdout);
            if (fflush(stdout) != 0)
                break;
            nc_buf_clear(&last);
            (void)nc_buf_puts(&last, now.data);
        }
        r = nc_app_pause(app, WATCH_USEC);
    }
    return 0;
}

int nc_command_status(struct nc_app *app) {
    if (app->opts.metrics && app->opts.watch)
        return nc_options_wrong(app->opts.command, "--metrics or --watch", NULL);
    if (app->opts.metrics)
        return print_metrics(app);
    return app->opts.watch ? watch(app) : print_status(app);
}

/* What a drain in progress is drawn up to: now, unless nobody carries it on. */
static void write_timeline(const struct nc_app *app, struct nc_value *status, struct nc_buf *out) {
    const uint64_t until_usec = mark_running(app, status) ? nc_now_usec() : 0;

    mark_killed(app, status);
    if (app->opts.json) {
        nc_auto_value struct nc_value *tree = nc_timeline_tree(status, until_usec);
        nc_json_write(out, tree, 2);
        (void)nc_buf_putc(out, '\n');
    } else if (app->opts.svg) {
        nc_timeline_svg(status, until_usec, out);
    } else {
        nc_timeline_text(status, until_usec, out);
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
    if (!app->opts.svg && !app->opts.json) {
        nc_terminal_print(stdout, out.data);
        return 0;
    }
    r = nc_output_write(app->opts.svg ? app->opts.svg : "-", out.data, out.len, &err);
    return r < 0 ? nc_app_fail(app, &err) : 0;
}

int nc_command_version(struct nc_app *app) {
    return nc_version_print("nodeclaimd", app->opts.json);
}
