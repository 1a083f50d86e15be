/*
 * kubelet as a process of its own, where there is no service manager.
 *
 * Which process is ours is written down: number, start time and boot, so that a number that the
 * kernel gave to somebody else is never taken for kubelet. A process is checked and signalled
 * through a descriptor of it, never through its number.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap.h"
#include "log.h"
#include "nc/file.h"
#include "nc/str.h"

#define PID_FILE NC_RUN_DIR "/kubelet.pid"
#define PID_FILE_MAX_BYTES 128u
#define STAT_MAX_BYTES 4096u
#define FLAGS_FIELD 9 /* of /proc/PID/stat, the command's name being the second: proc(5) */
#define START_TIME_FIELD 22
#define FLAG_EXITING 0x4u /* PF_EXITING, include/linux/sched.h */
#define SECOND_USEC 1000000u
#define END_USEC 20000000u /* kubelet ends within a second or two of its SIGTERM */
#define END_CHECK_USEC 20000u

/* A number of /proc/PID/stat; 0 where there is no such process. */
static uint64_t read_stat(int pid, int wanted) {
    nc_auto_free char *path = nc_asprintf("/proc/%d/stat", pid);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    uint64_t value = 0;
    char *rest, *token;

    if (nc_file_read(path, STAT_MAX_BYTES, &text, NULL) < 0)
        return 0;
    rest = strrchr(text.data, ')'); /* a name may have blanks and parentheses */
    for (int field = 2; rest && (token = strsep(&rest, " \n")); field++)
        if (field == wanted)
            return nc_parse_u64(token, &value) < 0 ? 0 : value;
    return 0;
}

/* When a process started, in ticks since the boot; 0 where there is none of this number. */
static uint64_t start_ticks(int pid) {
    return read_stat(pid, START_TIME_FIELD);
}

/* Killed, or at its end: what is left of it is no kubelet any more, though its descriptor does not
 * report it until the last of its threads is gone. */
static bool is_exiting(int pid) {
    return read_stat(pid, FLAGS_FIELD) & FLAG_EXITING;
}

static const char *boot_id(const struct nc_bootstrap *b) {
    return b->gather.facts.boot_id ? b->gather.facts.boot_id : "-";
}

/* Before it is kubelet: a kubelet that is not written down would be given another one beside it by
 * the next run. */
static void remember_process(int pid, void *userdata) {
    const struct nc_bootstrap *b = userdata;
    nc_auto_free char *path = nc_app_path(b->app, PID_FILE);
    nc_auto_free char *text = nc_asprintf("%d %" PRIu64 " %s\n", pid, start_ticks(pid), boot_id(b));
    struct nc_err err = NC_ERR_INIT;

    if (nc_file_write(path, text, strlen(text), 0644, &err) < 0)
        nc_log(NC_LOG_WARNING, NULL, "%s, a later run will not know the kubelet of this one",
               err.msg);
}

/* The kernel counts from the boot, suspended time and all; the two clocks go on from here. */
static void note_process_start(struct nc_bootstrap *b, uint64_t ticks) {
    const long hz = sysconf(_SC_CLK_TCK);
    const uint64_t started = ticks * (SECOND_USEC / (uint64_t)(hz > 0 ? hz : 100));
    const uint64_t age = nc_boot_usec() - started, mono = nc_mono_usec();

    b->kubelet.started_usec = nc_now_usec() - age;
    b->kubelet.started_mono_usec = mono > age ? mono - age : 0;
}

static bool has_ended(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

/* Opens the process that was written down. False where it has ended. */
static bool open_remembered(struct nc_bootstrap *b) {
    nc_auto_free char *path = nc_app_path(b->app, PID_FILE);
    nc_cleanup(nc_buf_done) struct nc_buf text = NC_BUF_INIT;
    uint64_t pid, ticks;
    char *rest;
    int fd;

    if (nc_file_read(path, PID_FILE_MAX_BYTES, &text, NULL) < 0)
        return false;
    rest = nc_trim(text.data);
    if (nc_parse_u64(strsep(&rest, " "), &pid) < 0 || pid <= 1 || pid > 1 << 22 || !rest
        || nc_parse_u64(strsep(&rest, " "), &ticks) < 0 || ticks == 0
        || !nc_streq(rest, boot_id(b)))
        return false;
    fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    if (fd < 0)
        return false;
    /* Checked while the descriptor holds the process: it is this one or none. One that nobody
     * waited for is none either. */
    if (start_ticks((int)pid) != ticks || has_ended(fd)) {
        (void)close(fd);
        return false;
    }
    b->kubelet.pid = (int)pid;
    b->kubelet.fd = fd;
    note_process_start(b, ticks);
    return true;
}

static void forget_process(struct nc_bootstrap *b) {
    if (b->kubelet.fd > 0)
        (void)close(b->kubelet.fd);
    b->kubelet.fd = b->kubelet.pid = 0;
}

/* Two kubelets at once would fight for the same files and port. */
static int end_process(struct nc_bootstrap *b, struct nc_err *err) {
    const uint64_t until = nc_mono_usec() + nc_app_left(b->app, END_USEC);
    const int pid = b->kubelet.pid;
    int r = 0;

    (void)syscall(SYS_pidfd_send_signal, b->kubelet.fd, SIGTERM, NULL, 0);
    while (r >= 0 && !has_ended(b->kubelet.fd) && nc_mono_usec() < until)
        r = nc_app_pause(b->app, END_CHECK_USEC);
    if (!has_ended(b->kubelet.fd)) {
        r = nc_err_set(err, NC_ERR_HOST, EBUSY,
                       "kubelet of an earlier run, process %d, does not end after SIGTERM", pid);
        nc_err_remedy(err, "see what keeps process %d, then run bootstrap again", pid);
        return r;
    }
    forget_process(b);
    return 0;
}

int nc_start_process(struct nc_bootstrap *b, struct nc_err *err) {
    const struct nc_plan *plan = &b->gather.plan;
    const struct nc_strv *const flags[] = {&plan->flags, &plan->user_flags};
    nc_cleanup(nc_strv_done) struct nc_strv argv = NC_STRV_INIT;
    const char *const env[] = {plan->dropin_env_alpha ? NC_DROPIN_ENV : NULL, NULL};
    nc_auto_free char *log = nc_kubelet_log(b);
    int r;

    if (open_remembered(b)) {
        if (!nc_is_due(b, NC_DUE_KUBELET) && !is_exiting(b->kubelet.pid))
            return 0; /* an earlier run started it from the same files */
        r = end_process(b, err);
        if (r < 0)
            return r;
    }
    nc_strv_add(&argv, b->gather.config.kubelet_path);
    for (size_t l = 0; l < NC_ARRAY_SIZE(flags); l++)
        for (size_t i = 0; i < flags[l]->n; i++)
            nc_strv_add(&argv, flags[l]->v[i]);
    const struct nc_spawn_call call = {.argv = (const char *const *)argv.v,
                                       .env = env,
                                       .log_path = log,
                                       .on_forked = remember_process,
                                       .userdata = b};
    r = nc_spawn(&call, &b->kubelet.pid, err);
    if (r < 0)
        return r;
    b->kubelet.fd = (int)syscall(SYS_pidfd_open, b->kubelet.pid, 0);
    note_process_start(b, start_ticks(b->kubelet.pid));
    return 0;
}

int nc_check_process(struct nc_bootstrap *b, struct nc_err *err) {
    nc_auto_free char *log = NULL;
    const char *lines;
    int status = 0, r;

    if (b->kubelet.fd <= 0 || !has_ended(b->kubelet.fd))
        return 0;
    lines = nc_last_lines(b, b->gather.config.kubelet_unit);
    log = nc_kubelet_log(b);
    if (waitpid(b->kubelet.pid, &status, WNOHANG) != b->kubelet.pid)
        r = nc_err_set(err, NC_ERR_HOST, ECHILD, "kubelet has ended%s", lines);
    else if (WIFSIGNALED(status))
        r = nc_err_set(err, NC_ERR_HOST, ECHILD, "kubelet died of signal %d%s", WTERMSIG(status),
                       lines);
    else
        r = nc_err_set(err, NC_ERR_HOST, ECHILD, "kubelet ended with exit code %d%s",
                       WEXITSTATUS(status), lines);
    nc_err_remedy(err, "read %s; %s", log, nc_kubelet_remedy(err->msg));
    forget_process(b);
    return r;
}
