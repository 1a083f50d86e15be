/*
 * Starting kubelet: through systemd, or as a process of its own where there is no service manager;
 * and telling when it has died.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

#define UNIT_TIMEOUT_USEC 90000000u
#define DEFAULT_LOG "/var/log/nodeclaimd-kubelet.log"
#define PID_FILE NC_RUN_DIR "/kubelet.pid"
#define KUBELET_ENV "/etc/nodeclaimd/kubelet.env"
#define ARGS_KEY "NODECLAIMD_KUBELET_ARGS="
#define ENV_MAX_BYTES ((size_t)256 << 10)
#define LAST_LINES 3

static const char *log_path(const struct nc_bootstrap *b) {
    return b->app->opts.kubelet_log ? b->app->opts.kubelet_log : DEFAULT_LOG;
}

char *nc_kubelet_last_words(struct nc_bootstrap *b) {
    nc_cleanup(nc_strv_done) struct nc_strv lines = NC_STRV_INIT;
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    nc_auto_free char *path = nc_app_path(b->app, log_path(b));
    const int r = b->start == NC_START_SYSTEMD
                      ? nc_journal_tail(b->gather.config.kubelet_unit, LAST_LINES, &lines, NULL)
                      : nc_file_tail(path, LAST_LINES, &lines, NULL);

    if (r < 0 || lines.n == 0)
        return nc_strdup("");
    (void)nc_buf_puts(&text, "; its last lines: ");
    for (size_t i = 0; i < lines.n; i++) {
        /* The end of a line says what went wrong; klog's head says when. */
        const size_t n = strlen(lines.v[i]);
        nc_auto_free char *quoted = nc_quote(lines.v[i] + (n > 78 ? n - 78 : 0), n > 78 ? 78 : n);
        (void)nc_buf_printf(&text, "%s%s", i ? " | " : "", quoted);
    }
    return nc_buf_steal(&text);
}

/* --- a process of its own */

static int read_args(struct nc_bootstrap *b, struct nc_strv *args, struct nc_strv *env,
                     struct nc_err *err) {
    nc_auto_free char *path = nc_app_path(b->app, KUBELET_ENV);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    char *line, *rest;
    int r = nc_file_read(path, ENV_MAX_BYTES, &text, err);

    if (r < 0)
        return r;
    rest = text.data;
    while ((line = strsep(&rest, "\n"))) {
        if (nc_starts_with(line, ARGS_KEY)) {
            r = nc_env_split(line + strlen(ARGS_KEY), args, err);
            if (r < 0)
                return r;
        } else if (*line) {
            nc_strv_add(env, line);
        }
    }
    return 0;
}

static bool is_running(const char *path, int pid) {
    nc_auto_free char *cmdline = nc_asprintf("/proc/%d/cmdline", pid);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT_MAX(65536);

    if (nc_file_read(cmdline, 65536, &text, NULL) < 0 || text.len == 0)
        return false;
    /* A script is run by its interpreter: then the path is one of the arguments. */
    return memmem(text.data, text.len, "kubelet", strlen("kubelet")) != NULL
           || memmem(text.data, text.len, path, strlen(path)) != NULL;
}

static int running_pid(struct nc_bootstrap *b) {
    nc_auto_free char *path = nc_app_path(b->app, PID_FILE);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT_MAX(32);
    uint64_t pid;

    if (nc_file_read(path, 31, &text, NULL) < 0 || nc_parse_u64(nc_trim(text.data), &pid) < 0
        || pid <= 1 || pid > 1 << 22)
        return 0;
    return is_running(b->gather.config.kubelet_path, (int)pid) ? (int)pid : 0;
}

static void remember_pid(struct nc_bootstrap *b) {
    nc_auto_free char *path = nc_app_path(b->app, PID_FILE);
    char text[16];
    const int n = snprintf(text, sizeof(text), "%d\n", b->kubelet_pid);

    (void)nc_file_write(path, text, (size_t)n, 0644, false, NULL);
}

static int start_process(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_strv_done) struct nc_strv argv = NC_STRV_INIT;
    nc_cleanup(nc_strv_done) struct nc_strv env = NC_STRV_INIT;
    nc_auto_free char *log = nc_app_path(b->app, log_path(b));
    int r;

    b->kubelet_pid = running_pid(b);
    if (b->kubelet_pid > 0 && b->applied.written + b->applied.removed == 0)
        return 0; /* an earlier run started it from the same files */
    if (b->kubelet_pid > 0)
        (void)kill(b->kubelet_pid, SIGTERM);
    nc_strv_add(&argv, b->gather.config.kubelet_path);
    r = read_args(b, &argv, &env, err);
    if (r < 0)
        return r;
    r = nc_spawn((const char *const *)argv.v, (const char *const *)env.v, log, &b->kubelet_pid,
                 err);
    if (r >= 0)
        remember_pid(b);
    return r;
}

static int check_process(struct nc_bootstrap *b, struct nc_err *err) {
    nc_auto_free char *words = NULL;
    int status = 0, r;

    if (b->kubelet_pid <= 0)
        return 0;
    if (waitpid(b->kubelet_pid, &status, WNOHANG) != b->kubelet_pid
        && (kill(b->kubelet_pid, 0) == 0 || errno != ESRCH))
        return 0;
    words = nc_kubelet_last_words(b);
    if (WIFSIGNALED(status))
        r = nc_err_set(err, NC_ERR_HOST, ECHILD, "kubelet died of signal %d%s", WTERMSIG(status),
                       words);
    else
        r = nc_err_set(err, NC_ERR_HOST, ECHILD, "kubelet ended with exit code %d%s",
                       WEXITSTATUS(status), words);
    nc_err_remedy(err, "read %s", log_path(b));
    b->kubelet_pid = 0;
    return r;
}

/* --- a unit */

static void wrap_unit_error(struct nc_bootstrap *b, struct nc_err *err) {
    nc_auto_free char *words = nc_kubelet_last_words(b);
    const size_t n = strlen(err->msg);

    (void)snprintf(err->msg + n, sizeof(err->msg) - n, "%s", words);
    nc_err_remedy(err, "journalctl -u %s", b->gather.config.kubelet_unit);
}

static int start_unit(struct nc_bootstrap *b, struct nc_err *err) {
    const bool changed = b->applied.written + b->applied.removed > 0;
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
        if (r < 0 || delay_usec < b->gather.plan.logind_delay_usec)
            nc_log(NC_LOG_WARNING, NULL,
                   "logind's InhibitDelayMaxSec is not in force yet (%s), kubelet will ask logind "
                   "itself",
                   r < 0 ? ignored.msg : "it answered with less");
    }
    r = nc_units_start(b->units, b->gather.config.kubelet_unit, changed, false,
                       nc_app_timeout(b->app, UNIT_TIMEOUT_USEC), err);
    if (r < 0)
        wrap_unit_error(b, err);
    return r;
}

static int check_unit(struct nc_bootstrap *b, struct nc_err *err) {
    nc_cleanup(nc_unit_state_done) struct nc_unit_state state = {0};
    nc_auto_free char *words = NULL;
    int r;

    if (!b->units || nc_units_state(b->units, b->gather.config.kubelet_unit, &state, NULL) < 0)
        return 0;
    if (!nc_streq(state.active, "failed") && state.restarts == 0)
        return 0;
    words = nc_kubelet_last_words(b);
    r = nc_err_set(err, NC_ERR_HOST, ECHILD, "%s is %s (%s), result %s, restarted %u times%s",
                   b->gather.config.kubelet_unit, state.active, state.sub, state.result,
                   state.restarts, words);
    nc_err_remedy(err, "journalctl -u %s", b->gather.config.kubelet_unit);
    return r;
}

int nc_step_start(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_log_fields fields = {
        .milestone = NC_MILESTONE_KUBELET_STARTED, .phase = "start", .node = b->report.node};
    const int r = b->start == NC_START_EXEC ? start_process(b, err) : start_unit(b, err);

    if (r >= 0)
        nc_log(NC_LOG_INFO, &fields, "kubelet started");
    return r;
}

int nc_check_kubelet(struct nc_bootstrap *b, struct nc_err *err) {
    if (b->start == NC_START_EXEC)
        return check_process(b, err);
    return b->start == NC_START_SYSTEMD ? check_unit(b, err) : 0;
}
