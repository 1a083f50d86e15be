/*
 * Other programs: kubelet as a process of its own, and credential plugins. Neither is on the way of
 * a node under systemd.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nc/file.h"
#include "nc/host.h"
#include "nc/str.h"

extern char **environ;

/* In the child, between fork and exec: only what is safe there. */
static void reset_signals(void) {
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
}

static void put_env(const char *const *env) {
    for (; env && *env; env++)
        (void)putenv((char *)(uintptr_t)*env); /* exec copies it */
}

/* The child's side: descriptors, session, exec. The failure of any goes to the parent through the
 * pipe. */
static void become(const char *const *argv, const char *const *env, int out, int report) {
    const int null = open("/dev/null", O_RDONLY);
    int code;

    reset_signals();
    (void)setsid();
    if (null >= 0)
        (void)dup2(null, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    if (report >= 0)
        (void)dup2(out, STDERR_FILENO);
    (void)fcntl(report, F_SETFD, FD_CLOEXEC);
    put_env(env);
    (void)execv(argv[0], (char *const *)(uintptr_t)argv);
    code = errno;
    if (report >= 0)
        (void)!write(report, &code, sizeof(code));
    _exit(127);
}

static int exec_failed(struct nc_err *err, const char *path, int code) {
    const int r = nc_err_set(err, NC_ERR_HOST, code, "cannot execute %s: %s", path, strerror(code));

    nc_err_remedy(err, "check that %s is installed and executable", path);
    return r;
}

int nc_spawn(const char *const *argv, const char *const *env, const char *log_path, int *ret_pid,
             struct nc_err *err) {
    const char *slash = strrchr(log_path, '/');
    int report[2], out, code = 0, r;
    ssize_t got;
    pid_t pid;

    if (slash && slash > log_path) {
        nc_auto_free char *folder = nc_strndup(log_path, (size_t)(slash - log_path));
        r = nc_mkdir_p(folder, err);
        if (r < 0)
            return r;
    }
    out = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (out < 0)
        return nc_err_set(err, NC_ERR_HOST, errno, "open %s: %s", log_path, strerror(errno));
    if (pipe2(report, O_CLOEXEC) < 0) {
        r = nc_err_set(err, NC_ERR_HOST, errno, "pipe: %s", strerror(errno));
        (void)close(out);
        return r;
    }
    pid = fork();
    if (pid == 0)
        become(argv, env, out, report[1]);
    r = pid < 0 ? nc_err_set(err, NC_ERR_HOST, errno, "fork: %s", strerror(errno)) : 0;
    (void)close(report[1]);
    (void)close(out);
    do
        got = r < 0 ? 0 : read(report[0], &code, sizeof(code));
    while (got < 0 && errno == EINTR);
    (void)close(report[0]);
    if (r < 0)
        return r;
    if (got == (ssize_t)sizeof(code)) {
        (void)waitpid(pid, NULL, 0);
        return exec_failed(err, argv[0], code);
    }
    *ret_pid = (int)pid;
    return 0;
}

static uint64_t mono_usec(void) {
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

/* Reads until the end of the output, the cap or the deadline. */
static int collect(int fd, uint64_t deadline, size_t max, struct nc_buf *out) {
    char chunk[4096];

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const uint64_t now = mono_usec();
        ssize_t got;
        if (now >= deadline)
            return -ETIMEDOUT;
        if (poll(&p, 1, (int)((deadline - now + 999) / 1000)) <= 0)
            continue;
        got = read(fd, chunk, sizeof(chunk));
        if (got == 0)
            return 0;
        if (got < 0 && errno != EINTR)
            return -errno;
        if (got > 0 && (out->len + (size_t)got > max || nc_buf_add(out, chunk, (size_t)got) < 0))
            return -EFBIG;
    }
}

/* Waits for a child that has closed its output, until the deadline; a child that stays is killed.
 */
static int reap(pid_t pid, uint64_t deadline) {
    const struct timespec pause = {.tv_nsec = 2000000};
    int status;

    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (mono_usec() >= deadline) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0);
            return -1;
        }
        (void)nanosleep(&pause, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int nc_run_capture(const char *const *argv, const char *const *env, uint64_t timeout_usec,
                   size_t max, struct nc_buf *out, struct nc_err *err) {
    const uint64_t deadline = mono_usec() + timeout_usec;
    int ends[2], r, code;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return nc_err_set(err, NC_ERR_HOST, errno, "pipe: %s", strerror(errno));
    pid = fork();
    if (pid == 0)
        become(argv, env, ends[1], -1);
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        return nc_err_set(err, NC_ERR_HOST, EAGAIN, "fork: %s", strerror(errno));
    }
    r = collect(ends[0], deadline, max, out);
    (void)close(ends[0]);
    code = reap(pid, r < 0 ? 0 : deadline);
    if (r == -ETIMEDOUT)
        return nc_err_set(err, NC_ERR_TRANSIENT, ETIMEDOUT, "%s did not answer in time", argv[0]);
    if (r < 0)
        return nc_err_set(err, NC_ERR_PROTOCOL, -r, "%s: unusable output: %s", argv[0],
                          strerror(-r));
    if (code == 127)
        return exec_failed(err, argv[0], ENOENT);
    return code ? nc_err_set(err, NC_ERR_AUTH, EPERM, "%s ended with exit code %d", argv[0], code)
                : 0;
}
