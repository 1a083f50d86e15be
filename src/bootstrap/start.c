/*
 * Starting kubelet: through systemd here, as a process of its own in start-process.c; and telling
 * when it has died.
 *
 * kubelet is started again only where its files have changed since it was started.
 */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "log.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"
#include "start.h"

#define UNIT_TIMEOUT_USEC 90000000u
#define DEFAULT_LOG "/var/log/nodeclaimd-kubelet.log"
#define LAST_LINES 3
#define WORDS_USEC 3000000u /* a journal is not opened again before */

char *nc_kubelet_log(const struct nc_bootstrap *b) {
    return nc_app_path_or(b->app, b->app->opts.kubelet_log, DEFAULT_LOG);
}

static char *read_last_words(const struct nc_bootstrap *b) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_free char *path = nc_kubelet_log(b);
    const int r = b->start == NC_START_SYSTEMD
                      ? nc_journal_tail(b->gather.config.kubelet_unit, LAST_LINES, &lines, NULL)
                      : nc_file_tail(path, LAST_LINES, &lines, NULL);

    if (r < 0 || lines.n == 0)
        return nc_strdup("");
    (void)nc_buf_puts(&text, "; its last lines: ");
    for (size_t i = 0; i < lines.n; i++) {
        /* klog's head says when; the error is what it names so, else the end of the line. */
        const size_t n = strlen(lines.v[i]);
        const char *error = strstr(lines.v[i], "err=\"");
        const char *from = error ? error : lines.v[i] + (n > 78 ? n - 78 : 0);
        nc_auto_free char *quoted = nc_quote_most(from, strlen(from), error ? 200 : 80);
        (void)nc_buf_printf(&text, "%s%s", i ? " | " : "", quoted);
    }
    return nc_buf_steal(&text);
}

char *nc_kubelet_last_words(struct nc_bootstrap *b) {
    const uint64_t now = nc_mono_usec();

    if (!b->words || now - b->words_usec > WORDS_USEC) {
        free(b->words);
        b->words = read_last_words(b);
        b->words_usec = now;
    }
    return nc_strdup(b->words);
}

/* --- do the files and the kubelet that runs belong together? */

/* Marks that files change for which kubelet is to be started again. Left by a run that was ended in
 * between, it tells the next one, which finds nothing to write. /run: a reboot starts kubelet
 * anyway. */
#define RESTART_FILE NC_RUN_DIR "/kubelet-restart"

int nc_step_apply(struct nc_bootstrap *b, struct nc_err *err) {
    nc_auto_free char *path = nc_app_path(b->app, RESTART_FILE);
    struct nc_apply_result would = {0};
    int r = nc_apply(b->app->opts.root, &b->gather.files, true, &would, err);

    if (r < 0)
        return r;
    if (would.written + would.removed > 0)
        (void)nc_file_write(path, "", 0, 0644, false, NULL); /* status.json has the same trouble */
    return nc_apply(b->app->opts.root, &b->gather.files, false, &b->applied, err);
}

bool nc_restart_is_due(const struct nc_bootstrap *b) {
    nc_auto_free char *path = nc_app_path(b->app, RESTART_FILE);

    return b->applied.written + b->applied.removed > 0 || access(path, F_OK) == 0;
}

static void restart_is_done(const struct nc_bootstrap *b) {
    nc_auto_free char *path = nc_app_path(b->app, RESTART_FILE);

    (void)unlink(path);
}

/* --- a unit */

static void wrap_unit_error(struct nc_bootstrap *b, struct nc_err *err) {
    nc_auto_free char *words = nc_kubelet_last_words(b);
    const size_t n = strlen(err->msg);

    (void)snprintf(err->msg + n, sizeof(err->msg) - n, "%s", words);
    nc_err_remedy(err, "journalctl -u %s", b->gather.config.kubelet_unit);
}

/* systemd starts a unit that has ended again: what the process before it said is old from then on.
 */
static void take_unit(struct nc_bootstrap *b, const struct nc_unit_state *state) {
    b->kubelet_start_usec = state->started_usec;
    b->kubelet_start_mono_usec = state->started_mono_usec;
}

static int start_unit(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_unit_state_done) struct nc_unit_state state = {0};
    uint64_t delay_usec = 0;
    struct nc_err ignored = NC_ERR_INIT;
    int r;

    if (!b->units) {
        r = nc_units_new(&b->units, err);
        if (r < 0) {
            nc_err_remedy(err, "without systemd, start kubelet yourself (--start none) or as a "
                               "process (--start exec)");
            return r;
        }
    }
    if (b->gather.plan.logind_delay_usec > 0) {
        r = nc_logind_reload(b->units, b->gather.plan.logind_delay_usec, &delay_usec, &ignored);
        if (r < 0 || nc_logind_is_short(b->app->opts.root, delay_usec, &ignored))
            nc_log(NC_LOG_WARNING, NULL, "%s; %s", ignored.msg, ignored.remedy);
    }
    r = nc_units_start(b->units, b->gather.config.kubelet_unit, nc_restart_is_due(b), false,
                       nc_app_timeout(b->app, UNIT_TIMEOUT_USEC), err);
    if (r < 0) {
        wrap_unit_error(b, err);
    } else if (nc_units_state(b->units, b->gather.config.kubelet_unit, &state, NULL) >= 0) {
        b->kubelet_restarts = state.restarts; /* what it did before is not this bootstrap's */
        take_unit(b, &state);
    }
    return r;
}

static int check_unit(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_unit_state_done) struct nc_unit_state state = {0};
    nc_auto_free char *words = NULL;
    int r;

    if (!b->units || nc_units_state(b->units, b->gather.config.kubelet_unit, &state, NULL) < 0)
        return 0;
    take_unit(b, &state);
    if (!nc_streq(state.active, "failed") && state.restarts <= b->kubelet_restarts)
        return 0;
    words = nc_kubelet_last_words(b);
    r = nc_err_set(err, NC_ERR_HOST, ECHILD, "%s is %s (%s), result %s, restarted %u times since%s",
                   b->gather.config.kubelet_unit, state.active, state.sub, state.result,
                   state.restarts - b->kubelet_restarts, words);
    nc_err_remedy(err, "journalctl -u %s", b->gather.config.kubelet_unit);
    return r;
}

int nc_step_start(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_log_fields fields = {
        .milestone = NC_MILESTONE_KUBELET_STARTED, .phase = "start", .node = b->report.node};
    const int r = b->start == NC_START_EXEC ? nc_start_process(b, err) : start_unit(b, err);

    if (r < 0)
        return r;
    restart_is_done(b);
    nc_log(NC_LOG_INFO, &fields, "kubelet started");
    return 0;
}

int nc_check_kubelet(struct nc_bootstrap *b, struct nc_err *err) {
    if (b->start == NC_START_EXEC)
        return nc_check_process(b, err);
    return b->start == NC_START_SYSTEMD ? check_unit(b, err) : 0;
}

uint64_t nc_kubelet_since(const struct nc_bootstrap *b) {
    if (b->kubelet_start_usec == 0)
        return 0;
    return nc_clock_earliest(b->kubelet_start_usec, b->kubelet_start_mono_usec, nc_now_usec(),
                             nc_mono_usec());
}
